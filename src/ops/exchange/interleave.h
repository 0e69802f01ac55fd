/* interleave: one column out of rows of several, in any order. */
#ifndef WEIR_OPS_EXCHANGE_INTERLEAVE_H
#define WEIR_OPS_EXCHANGE_INTERLEAVE_H

#include "vector/vector.h"

/* Row `row` of source `source`. */
struct weir_pick {
	uint32_t source, row;
};

/* Columns of all sources are of one type, decoded. The result is FLAT, in memory of the arena; long strings stay where they
 * are. A nested column is a new array, in *nested, that the caller lets go when the column is not needed any more. */
int weir_interleave(const struct weir_column *const *sources, uint32_t source_count, const struct weir_pick *picks,
		    uint32_t count, struct weir_account *account, struct weir_arena *arena, struct weir_column *out,
		    struct weir_array **nested, struct weir_error *err);

#endif
