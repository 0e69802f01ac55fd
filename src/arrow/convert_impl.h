/* convert: arrays in Arrow's newer layouts become plain ones, on import and when messages are read.
 *
 * The inputs are borrowed buffers at any alignment, with rows from their first byte on; what they point to is checked
 * here. Children must have been validated. Results are new arrays without an offset; only validity is shared.
 */
#ifndef WEIR_ARROW_CONVERT_IMPL_H
#define WEIR_ARROW_CONVERT_IMPL_H

#include "arrow/array.h"

/* What the result has from its rows: bits of validity from 0 on, at least `length` of them; data NULL: none is null. */
struct convert_rows {
	const struct weir_type *type;
	int64_t length, null_count; /* null_count −1: not counted */
	const struct weir_buffer *validity;
};

struct weir_array *convert_views(struct weir_account *account, const struct convert_rows *rows,
				 const struct weir_buffer *views, const struct weir_buffer *data, uint64_t data_count,
				 struct weir_error *err);
/* Offsets and sizes have the width of the result's offsets. */
struct weir_array *convert_list_views(struct weir_account *account, const struct convert_rows *rows,
				      const struct weir_buffer *offsets, const struct weir_buffer *sizes,
				      const struct weir_array *items, struct weir_error *err);
/* `width`: 4 or 8 bytes. */
struct weir_array *convert_decimals(struct weir_account *account, const struct convert_rows *rows,
				    const struct weir_buffer *values, unsigned width, struct weir_error *err);
/* Rows first … first + length − 1 of `run_count` runs, whose ends are integers of 2, 4 or 8 bytes. */
struct weir_array *convert_runs(struct weir_account *account, int64_t first, int64_t length,
				const struct weir_buffer *ends, unsigned width, int64_t run_count,
				const struct weir_array *values, struct weir_error *err);

#endif
