/* Views, list views, small decimals and runs become plain arrays.
 *
 *     view of a text, 16 bytes:   ┌──────────┬───────────────────────────────────┐
 *       up to 12 bytes            │ i32 size │ the bytes themselves              │
 *                                 ├──────────┼────────┬──────────────┬───────────┤
 *       longer                    │ i32 size │ prefix │ i32 buffer # │ i32 offset│
 *                                 └──────────┴────────┴──────────────┴───────────┘
 *
 * A list view has an offset and a size a row; rows may overlap, leave gaps and come in any order. Runs have the row at
 * which each ends, and one value each.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

enum { VIEW_SIZE = 16, VIEW_INLINE_MAX = 12 };

static int too_short(const char *what, uint64_t size, int64_t rows, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "a buffer of %s has %llu bytes, too few for %lld rows", what,
			      (unsigned long long)size, (long long)rows);
}

/* Whether `rows` items of `width` bytes are there. */
static bool holds(const struct weir_buffer *buffer, int64_t rows, unsigned width)
{
	return (uint64_t)rows <= buffer->size / width;
}

static bool row_is_valid(const struct ipc_rows *rows, int64_t row)
{
	return !rows->null_count || weir_bit_get(rows->validity->data, row);
}

/* The result without its values: type, length and validity. */
static struct weir_array *array_begin(struct weir_account *account, const struct ipc_rows *rows, struct weir_error *err)
{
	struct weir_array *array = weir_array_new(account, rows->type, err);

	if (!array)
		return NULL;
	array->length = rows->length;
	array->null_count = rows->null_count;
	if (rows->null_count)
		array->buffers[0] = weir_buffer_ref(rows->validity);
	return array;
}

/* Where the bytes of a view lie. */
static int view_bytes(const uint8_t *view, const struct weir_buffer *data, uint64_t data_count, const uint8_t **out,
		      int32_t *size, struct weir_error *err)
{
	int32_t words[4];

	memcpy(words, view, sizeof(words));
	*size = words[0];
	*out = view + 4;
	if (*size >= 0 && *size <= VIEW_INLINE_MAX)
		return WEIR_OK;
	if (*size < 0 || words[2] < 0 || (uint64_t)words[2] >= data_count || words[3] < 0 ||
	    weir_range_outside((uint64_t)words[3], (uint64_t)*size, data[words[2]].size))
		return weir_error_set(err, WEIR_E_DATA, "a view of %d bytes points outside its buffers", *size);
	*out = data[words[2]].data + words[3];
	return WEIR_OK;
}

static int put_offset(uint8_t *offsets, unsigned width, int64_t at, int64_t value, struct weir_error *err)
{
	if (width == 8) {
		((int64_t *)offsets)[at] = value;
		return WEIR_OK;
	}
	if (value > INT32_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED,
				      "a column of views has more than 2 GiB or 2^31 items in one batch");
	((int32_t *)offsets)[at] = (int32_t)value;
	return WEIR_OK;
}

/* Memory for length + 1 offsets, the first of them 0. */
static int offsets_new(struct weir_account *account, struct weir_array *array, uint8_t **out, struct weir_error *err)
{
	unsigned width = type_offset_width(array->type);
	int code = weir_buffer_new(account, ((uint64_t)array->length + 1) * width, &array->buffers[1], out, err);

	return code ? code : put_offset(*out, width, 0, 0, err);
}

struct weir_array *ipc_convert_views(struct weir_account *account, const struct ipc_rows *rows,
				     const struct weir_buffer *views, const struct weir_buffer *data,
				     uint64_t data_count, struct weir_error *err)
{
	unsigned width = type_offset_width(rows->type);
	struct weir_array *array = NULL;
	const uint8_t *bytes;
	uint8_t *offsets, *to;
	int64_t total = 0;
	int32_t size;
	int code = WEIR_OK;

	if (!holds(views, rows->length, VIEW_SIZE)) {
		too_short("views", views->size, rows->length, err);
		return NULL;
	}
	array = array_begin(account, rows, err);
	if (!array || offsets_new(account, array, &offsets, err))
		goto fail;
	for (int64_t i = 0; i < rows->length; i++) {
		if (row_is_valid(rows, i)) {
			if (view_bytes(views->data + i * VIEW_SIZE, data, data_count, &bytes, &size, err))
				goto fail;
			total += size; /* at most 2^31 a row: no overflow with as many rows as fit in memory */
		}
		code = put_offset(offsets, width, i + 1, total, err);
		if (code)
			goto fail;
	}
	if (weir_buffer_new(account, (uint64_t)total, &array->buffers[2], &to, err))
		goto fail;
	for (int64_t i = 0; i < rows->length; i++) {
		if (!row_is_valid(rows, i))
			continue;
		if (view_bytes(views->data + i * VIEW_SIZE, data, data_count, &bytes, &size, err))
			goto fail;
		memcpy(to, bytes, (size_t)size);
		to += size;
	}
	return array;
fail:
	weir_array_unref(array);
	return NULL;
}

static int64_t load_word(const struct weir_buffer *buffer, unsigned width, int64_t at)
{
	return width == 4 ? ((const int32_t *)buffer->data)[at] : ((const int64_t *)buffer->data)[at];
}

struct weir_array *ipc_convert_list_views(struct weir_account *account, const struct ipc_rows *rows,
					  const struct weir_buffer *offsets, const struct weir_buffer *sizes,
					  const struct weir_array *items, struct weir_error *err)
{
	unsigned width = type_offset_width(rows->type);
	struct weir_array *array = NULL;
	int64_t total = 0, *picks = NULL;
	bool in_order = true;
	uint8_t *to;

	if (!holds(offsets, rows->length, width) || !holds(sizes, rows->length, width)) {
		too_short("offsets or sizes", offsets->size, rows->length, err);
		return NULL;
	}
	array = array_begin(account, rows, err);
	if (!array || offsets_new(account, array, &to, err))
		goto fail;
	for (int64_t i = 0; i < rows->length; i++) {
		if (row_is_valid(rows, i)) {
			int64_t first = load_word(offsets, width, i), size = load_word(sizes, width, i);

			if (first < 0 || size < 0 ||
			    weir_range_outside((uint64_t)first, (uint64_t)size, (uint64_t)items->length)) {
				weir_error_set(
					err, WEIR_E_DATA, "row %lld is %lld items from item %lld, but there are %lld",
					(long long)i, (long long)size, (long long)first, (long long)items->length);
				goto fail;
			}
			in_order &= size == 0 || first == total;
			if (weir_add_overflows(total, size, &total)) {
				weir_error_set(err, WEIR_E_DATA, "a column of list views has more than 2^63 items");
				goto fail;
			}
		}
		if (put_offset(to, width, i + 1, total, err))
			goto fail;
	}
	if (in_order) {
		array->children[0] = weir_array_ref(items);
		return array;
	}
	if ((uint64_t)total > SIZE_MAX / sizeof(*picks)) {
		weir_error_set(err, WEIR_E_MEMORY, "a column of list views has %lld items", (long long)total);
		goto fail;
	}
	picks = weir_alloc(account, (size_t)total * sizeof(*picks), err);
	if (!picks)
		goto fail;
	for (int64_t i = 0, at = 0; i < rows->length; i++) {
		int64_t first, size;

		if (!row_is_valid(rows, i))
			continue;
		first = load_word(offsets, width, i);
		size = load_word(sizes, width, i);
		for (int64_t k = 0; k < size; k++)
			picks[at++] = first + k;
	}
	array->children[0] = weir_array_take(account, items, picks, total, err);
	weir_free(account, picks, (size_t)total * sizeof(*picks));
	if (array->children[0])
		return array;
fail:
	weir_array_unref(array);
	return NULL;
}

/* To 128 bits, with the sign. */
struct weir_array *ipc_convert_decimals(struct weir_account *account, const struct ipc_rows *rows,
					const struct weir_buffer *values, unsigned width, struct weir_error *err)
{
	struct weir_array *array;
	uint8_t *to;

	if (!holds(values, rows->length, width)) {
		too_short("decimals", values->size, rows->length, err);
		return NULL;
	}
	array = array_begin(account, rows, err);
	if (!array || weir_buffer_new(account, (uint64_t)rows->length * 16, &array->buffers[1], &to, err)) {
		weir_array_unref(array);
		return NULL;
	}
	for (int64_t i = 0; i < rows->length; i++) {
		int64_t value = load_word(values, width, i);

		((int64_t *)to)[2 * i] = value;
		((int64_t *)to)[2 * i + 1] = value < 0 ? -1 : 0;
	}
	return array;
}

static int64_t run_end(const struct weir_array *ends, int64_t at)
{
	switch (ends->type->byte_width) {
	case 2:
		return ((const int16_t *)ends->buffers[1].data)[ends->offset + at];
	case 4:
		return ((const int32_t *)ends->buffers[1].data)[ends->offset + at];
	default:
		return ((const int64_t *)ends->buffers[1].data)[ends->offset + at];
	}
}

struct weir_array *ipc_convert_runs(struct weir_account *account, int64_t length, const struct weir_array *ends,
				    const struct weir_array *values, struct weir_error *err)
{
	struct weir_array *array;
	int64_t *picks, row = 0;

	if (ends->null_count || ends->length > values->length) {
		weir_error_set(err, WEIR_E_DATA, "%lld runs have %lld values", (long long)ends->length,
			       (long long)values->length);
		return NULL;
	}
	/* First that the runs ascend and reach the end: then as much is there as is asked for. */
	for (int64_t run = 0; run < ends->length; run++) {
		int64_t end = run_end(ends, run);

		if (end <= row) {
			weir_error_set(err, WEIR_E_DATA, "run %lld ends at row %lld, not after row %lld",
				       (long long)run, (long long)end, (long long)row);
			return NULL;
		}
		row = end;
	}
	if (row < length) {
		weir_error_set(err, WEIR_E_DATA, "the runs end at row %lld of %lld", (long long)row, (long long)length);
		return NULL;
	}
	if ((uint64_t)length > SIZE_MAX / sizeof(*picks)) {
		weir_error_set(err, WEIR_E_MEMORY, "a column of runs has %lld rows", (long long)length);
		return NULL;
	}
	picks = weir_alloc(account, (size_t)length * sizeof(*picks), err);
	if (!picks)
		return NULL;
	row = 0;
	for (int64_t run = 0; run < ends->length && row < length; run++) {
		int64_t end = run_end(ends, run);

		for (; row < end && row < length; row++)
			picks[row] = run;
	}
	array = weir_array_take(account, values, picks, length, err);
	weir_free(account, picks, (size_t)length * sizeof(*picks));
	return array;
}
