/* hashed: the exchange behind group and unique: rows come in any order, and leave as one row for each key. */
#ifndef WEIR_OPS_EXCHANGE_HASHED_H
#define WEIR_OPS_EXCHANGE_HASHED_H

#include "ops/aggregate.h"
#include "ops/fragment.h"

struct weir_grouping {
	const char *name;                         /* the verb */
	const uint32_t *keys;                     /* columns of the input by number; copied */
	uint32_t key_count;                       /* 0: one row about everything */
	const struct weir_aggregates *aggregates; /* that can be accumulated (accumulate.h); the plan's */
	const struct weir_schema *output;         /* keys, then results; the plan's */
};

/* The chain so far, whose rows have this schema (the plan's), goes on with the groups. */
int weir_hashed_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		    const struct weir_grouping *grouping, struct weir_error *err);

#endif
