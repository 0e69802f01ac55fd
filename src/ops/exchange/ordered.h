/* ordered: the exchange behind sort and shuffle: a chain is cut, and goes on with the same rows in order. */
#ifndef WEIR_OPS_EXCHANGE_ORDERED_H
#define WEIR_OPS_EXCHANGE_ORDERED_H

#include "ops/fragment.h"
#include "ops/node.h"
#include "ops/exchange/keys.h"

struct weir_ordered;

struct weir_ordering {
	const struct weir_key *keys; /* copied; their types are the schema's */
	uint32_t key_count;
	bool is_random; /* instead: by chance, from a seed */
	uint64_t seed;
	const char *name; /* the verb, for stats */
	int64_t limit;    /* only so many of the first rows are wanted; −1: all */
	/* Rows that are equal in the first `group_key_count` keys come in one range (a split of what follows); with
	 * none of them all rows do. */
	bool keeps_groups;
	uint32_t group_key_count;
	/* Where ranges are wanted, not only convenient: so many of them, or of so many rows. Without keys they are
	 * counted off; with keys the first one, the last column, a uint64 without nulls, has the number of the range,
	 * which is below part_count. */
	int64_t part_count, part_rows;
	struct weir_ordered **ordered; /* gets a reference, for rank; NULL: nobody will ask */
};

int weir_ordered_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const struct weir_ordering *ordering, struct weir_error *err);

/* How many rows are in front of the first whose key begins with `key`, or is greater. While what follows runs, in any
 * lane. */
int weir_ordered_rank(struct weir_ordered *ordered, struct weir_account *account, const uint8_t *key, uint32_t size,
		      int64_t *out, struct weir_error *err);
/* Lets go of one reference. Also as `free` of sinks. */
void weir_ordered_unref(void *ordered);

#endif
