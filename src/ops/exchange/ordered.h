/* ordered: the exchange behind sort and shuffle: a chain is cut, and goes on with the same rows in order. */
#ifndef WEIR_OPS_EXCHANGE_ORDERED_H
#define WEIR_OPS_EXCHANGE_ORDERED_H

#include "ops/fragment.h"
#include "ops/node.h"
#include "ops/exchange/keys.h"

struct weir_ordering {
	const struct weir_key *keys; /* copied; their types are the schema's */
	uint32_t key_count;
	bool is_random; /* instead: by chance, from a seed */
	uint64_t seed;
	const char *name; /* the verb, for stats */
	int64_t limit; /* only so many of the first rows are wanted; −1: all */
	/* Rows that are equal in the first `group_key_count` keys come in one range (a split of what follows); with none of them
	 * all rows do. */
	bool keeps_groups;
	uint32_t group_key_count;
	/* Where ranges are wanted, not only convenient: so many of them, or of so many rows. Without keys they are counted off;
	 * with keys the first one, a uint64 column without nulls, has the number of the range, which is below part_count. */
	int64_t part_count, part_rows;
};

int weir_ordered_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const struct weir_ordering *ordering, struct weir_error *err);

#endif
