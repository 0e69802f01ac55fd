/* selected: exact quantiles of numbers that are all there, by selecting instead of sorting. */
#ifndef WEIR_OPS_EXCHANGE_SELECTED_H
#define WEIR_OPS_EXCHANGE_SELECTED_H

#include "ops/exchange/accumulate.h"

/* The value of rank (count − 1) × q, between two values as far as it lies between two ranks. Moves the values about;
 * none is NaN, and there is one at least. */
double weir_selected_quantile(double *values, uint32_t count, double q);
/* The item's result for each row of the heap: null where there is no value, or one is null and "nulls" was said. */
int weir_selected_take(const struct weir_accumulators *accumulators, const struct weir_aggregate_item *item,
		       struct weir_row_heap *heap, const uint8_t *const *rows, uint32_t count, struct weir_arena *arena,
		       struct weir_column *out, struct weir_error *err);

#endif
