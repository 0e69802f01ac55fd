/* join: two chains become one, whose rows are put together out of rows with equal keys. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_H
#define WEIR_OPS_EXCHANGE_JOIN_H

#include "ops/fragment.h"
#include "ops/node.h"

enum weir_join_how {
	WEIR_JOIN_INNER,
	WEIR_JOIN_LEFT, /* and rows of the left side without a partner */
	WEIR_JOIN_RIGHT,
	WEIR_JOIN_FULL,
	WEIR_JOIN_LEFT_SEMI, /* rows of the left side that have a partner, once */
	WEIR_JOIN_RIGHT_SEMI,
	WEIR_JOIN_LEFT_ANTI, /* those that have none */
	WEIR_JOIN_RIGHT_ANTI,
};

enum { WEIR_JOIN_LEFT_SIDE, WEIR_JOIN_RIGHT_SIDE, WEIR_JOIN_SIDES };

#define WEIR_JOIN_NONE UINT32_MAX

/* What a column of the result is made of: a column of each side, or of one. Of both: the left one's value, where the
 * row has one. */
struct weir_join_column {
	uint32_t from[WEIR_JOIN_SIDES];
};

/* What the plan says; all borrowed while the chains are cut. */
struct weir_joining {
	enum weir_join_how how;
	uint32_t key_count;
	const uint32_t *keys[WEIR_JOIN_SIDES];    /* columns of each side */
	const struct weir_type *const *key_types; /* in which they are compared; values, never dictionaries */
	const struct weir_schema *schemas[WEIR_JOIN_SIDES];
	int64_t bytes_est[WEIR_JOIN_SIDES], rows_est[WEIR_JOIN_SIDES]; /* −1: unknown */
	const struct weir_schema *schema;                              /* of the result */
	const struct weir_join_column *columns;                        /* as many as it has */
	uint32_t partitions;                                           /* 0: as many as seem right */
};

/* `sides` are consumed, on failure too. */
int weir_join_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_joining *joining,
		  struct weir_fragment *sides, struct weir_error *err);

#endif
