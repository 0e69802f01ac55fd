/* What the tests of src/expr/ share: memory that must be empty at the end, and a schema with a vector of known values. */
#ifndef WEIR_TESTS_EXPR_SUPPORT_H
#define WEIR_TESTS_EXPR_SUPPORT_H

#include "expr/expr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_error err;
};

static inline int fixture_begin(void **state)
{
	static struct fixture fixture;

	memset(&fixture, 0, sizeof(fixture));
	if (weir_mem_new(0, &fixture.mem, &fixture.err))
		return -1;
	fixture.account = weir_mem_root(fixture.mem);
	*state = &fixture;
	return 0;
}

static inline int fixture_end(void **state)
{
	struct fixture *fixture = *state;
	struct weir_mem_stats stats;

	weir_mem_stats(fixture->mem, &stats);
	if (stats.used) {
		print_error("%lld bytes are still in use\n", (long long)stats.used);
		return -1;
	}
	weir_mem_free(fixture->mem);
	return 0;
}

#define expr_test(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)

#endif
