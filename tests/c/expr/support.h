/* What the tests of src/expr/ share. */
#ifndef WEIR_TESTS_EXPR_SUPPORT_H
#define WEIR_TESTS_EXPR_SUPPORT_H

#include "expr/expr.h"

#include "memory_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#endif
