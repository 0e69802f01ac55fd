/* A column without nesting to its leaf: which of the selected rows are present, then their values, whatever the form. */
#include "format/parquet/write_impl.h"

int parquet_write_flat(struct parquet_leaf_writer *leaf, const struct weir_column *column,
		       const struct weir_selection *selection, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	struct parquet_values values = {
		.form = column->form,
		.values = column->values,
		.dictionary = column->dictionary,
		.rows = selection->rows,
		.count = selection->count,
	};
	const uint64_t *valid = column->validity;
	int code;

	if (leaf->leaf->convert == PARQUET_CONVERT_NULL) {
		values.count = 0;
	} else if (column->form == WEIR_CONSTANT) {
		if (valid && !(valid[0] & 1))
			values.count = 0;
	} else if (valid) {
		size_t present = shared->kernels->select_present(valid, selection->rows, selection->count,
								 shared->present);

		if (present != selection->count) {
			values.rows = shared->present;
			values.count = present;
		}
	}
	code = parquet_leaf_levels_flat(leaf, valid, selection->rows, selection->count, values.count, err);
	if (!code)
		code = parquet_leaf_values(leaf, &values, err);
	return code ? code : parquet_leaf_rows_end(leaf, selection->count, err);
}
