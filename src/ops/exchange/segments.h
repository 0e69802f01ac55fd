/* segments: aggregates over whole groups, for functions that need the values themselves (aggregate.h: is_holistic).
 *
 * (approx_quantile and approx_top_k alone are hashed.c's, by sketches; beside others they are made here of what comes
 * in order.)
 *
 * The rows are sorted by the keys, in ranges that cut no group apart; a step behind the merge sees one group after
 * another:
 *
 *     … ─▶ runs    ranges of whole groups ─▶ merge ─▶ segments ─▶ a row a group
 *
 * Where the functions are all about one column, and none is `list`, rows are sorted by that column within the group:
 * values then come in order, and nothing of the group is held but what the results are made of (ranked.h). Where it is
 * also enough to know each value once and how often it came, that is counted first, by hashing (hashed.h), and only the
 * counts are sorted; where nothing but count_distinct is asked, each value is taken once, by hashing, and these are
 * counted by hashing too. Otherwise the columns that the functions are about are held for a group, or for many small
 * ones (held.h).
 *
 * Quantiles alone, of numbers that the plan knows to be few, do not come here (group.c, selected.h).
 *
 * Nulls: unique, count_distinct, value_counts and list leave them out, or with "nulls" have them as a value; quantile
 * leaves them out, or with "nulls" is null where there is one. NaN is a value like others, but no quantile. Of no
 * values, quantile and approx_quantile are null, the others empty.
 */
#ifndef WEIR_OPS_EXCHANGE_SEGMENTS_H
#define WEIR_OPS_EXCHANGE_SEGMENTS_H

#include "ops/aggregate.h"

/* `keys` are columns of `schema`; none: one group, also of no rows. `output` has the keys, then a column an item.
 * Schemas and aggregates are the plan's. */
int weir_segments_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		      const uint32_t *keys, uint32_t key_count, const struct weir_aggregates *aggregates,
		      const struct weir_schema *output, struct weir_error *err);

#endif
