/* parted: which part a row belongs to, by the hash of some columns. The number of the part is a column behind the
 * others, by which an ordered exchange can put the parts one after another. */
#ifndef WEIR_OPS_EXCHANGE_PARTED_H
#define WEIR_OPS_EXCHANGE_PARTED_H

#include "ops/fragment.h"
#include "ops/node.h"

/* A step that adds the part's number, a uint64 below part_count: hash × part_count / 2⁶⁴ (the hash of rows.h, the same
 * on every machine). `columns` are numbers in the schema, and are copied. */
int weir_parted_step(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const uint32_t *columns, uint32_t count, uint64_t part_count, struct weir_error *err);
/* A step that takes the last column off again. */
int weir_parted_hide(struct weir_op_env *env, struct weir_fragment *fragment, struct weir_error *err);

#endif
