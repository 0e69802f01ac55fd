/* join_pick: one column out of rows of several columns, in any order and as often as wanted. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_PICK_H
#define WEIR_OPS_EXCHANGE_JOIN_PICK_H

#include "vector/vector.h"

/* Row `row` of source `source`. */
struct weir_join_pick {
	uint32_t source, row;
};

/* Columns of all sources are of one type, decoded. The result is FLAT, in memory of the arena; long strings stay where
 * they are. wanted: only these places need values; NULL: all. A nested column is a new array, in *nested, that the
 * caller lets go when the column is not needed any more. */
int weir_join_pick_column(const struct weir_column *const *sources, uint32_t source_count,
			  const struct weir_join_pick *picks, uint32_t count, const struct weir_selection *wanted,
			  struct weir_account *account, struct weir_arena *arena, struct weir_column *out,
			  struct weir_array **nested, struct weir_error *err);

#endif
