/* The members of an `in`, for pruning. */
#ifndef WEIR_EXPR_FUNCTIONS_IN_H
#define WEIR_EXPR_FUNCTIONS_IN_H

#include "expr/program.h"

struct weir_members {
	const struct weir_type *type;
	uint32_t count; /* without null, NaN and what is out of the type's range */
	const struct weir_scalar *values;
	bool has_null;
};
/* NULL when the node is no `in`. */
const struct weir_members *weir_node_members(const struct weir_node *node);

#endif
