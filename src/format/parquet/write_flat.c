/* A column without nesting to its leaf: which of the selected rows are present, then their values, whatever the form.
 * Long texts go in spans of rows, since a page can end only behind the rows of one call: a vector of images may have
 * gigabytes. */
#include "format/parquet/write_impl.h"

static int write_rows(struct parquet_leaf_writer *leaf, const struct weir_column *column,
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

static uint64_t view_bytes(const struct weir_column *column, uint32_t row)
{
	const struct weir_view *views = column->form == WEIR_DICTIONARY ? column->dictionary->values : column->values;

	if (!weir_column_valid(column, row))
		return 0;
	if (column->form == WEIR_DICTIONARY)
		return views[((const uint32_t *)column->values)[row]].size;
	return views[column->form == WEIR_CONSTANT ? 0 : row].size;
}

/* How many of the rows, one at least, have no more bytes than a page. */
static uint32_t span_rows(const struct weir_column *column, const struct weir_selection *rows, uint64_t bytes_max)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < rows->count; i++) {
		bytes += view_bytes(column, rows->rows ? rows->rows[i] : i);
		if (bytes > bytes_max)
			return i ? i : 1;
	}
	return rows->count;
}

int parquet_write_flat(struct parquet_leaf_writer *leaf, const struct weir_column *column,
		       const struct weir_selection *selection, struct weir_error *err)
{
	uint64_t bytes_max = leaf->shared->page_bytes_max;
	struct weir_selection rest = *selection;
	uint16_t numbers[WEIR_VECTOR_ROWS];
	int code = WEIR_OK;

	if (leaf->leaf->convert != PARQUET_CONVERT_VIEWS || span_rows(column, selection, bytes_max) == selection->count)
		return write_rows(leaf, column, selection, err);
	if (!rest.rows) {
		for (uint32_t i = 0; i < rest.count; i++)
			numbers[i] = (uint16_t)i;
		rest.rows = numbers;
	}
	while (rest.count > 0 && !code) {
		struct weir_selection span = {.count = span_rows(column, &rest, bytes_max), .rows = rest.rows};

		code = write_rows(leaf, column, &span, err);
		rest.rows += span.count;
		rest.count -= span.count;
	}
	return code;
}
