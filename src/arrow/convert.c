/* Each conversion checks and measures in a first pass, then fills.
 *
 *     view of a text, 16 bytes:   ┌──────────┬───────────────────────────────────┐
 *       up to 12 bytes            │ i32 size │ the bytes themselves              │
 *                                 ├──────────┼────────┬──────────────┬───────────┤
 *       longer                    │ i32 size │ prefix │ i32 buffer # │ i32 offset│
 *                                 └──────────┴────────┴──────────────┴───────────┘
 *
 * A list view has an offset and a size a row; rows may overlap, leave gaps and come in any order. Runs have the row at
 * which each ends, and one value each. Both become row numbers for weir_array_take, unless the lists lie in order.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/convert_impl.h"

enum { VIEW_SIZE = 16, VIEW_INLINE_MAX = 12 };

static int64_t int_at(const struct weir_buffer *buffer, unsigned width, int64_t at)
{
	const uint8_t *data = buffer->data + (uint64_t)at * width;
	int16_t half;
	int32_t word;
	int64_t whole;

	switch (width) {
	case 2:
		memcpy(&half, data, 2);
		return half;
	case 4:
		memcpy(&word, data, 4);
		return word;
	default:
		memcpy(&whole, data, 8);
		return whole;
	}
}

/* That `count` items of `width` bytes are there. */
static int check_size(const struct weir_buffer *buffer, int64_t count, unsigned width, const char *what,
		      struct weir_error *err)
{
	if ((uint64_t)count <= buffer->size / width)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_DATA, "a buffer of %s has %llu bytes, too few for %lld rows", what,
			      (unsigned long long)buffer->size, (long long)count);
}

static bool is_valid(const struct convert_rows *rows, int64_t row)
{
	return !rows->validity->data || weir_bit_get(rows->validity->data, row);
}

static int at_row(int64_t row, struct weir_error *err)
{
	weir_error_at_row(err, row);
	return err->code;
}

/* The result without its values: type, length and validity. */
static struct weir_array *array_begin(struct weir_account *account, const struct convert_rows *rows,
				      struct weir_error *err)
{
	struct weir_array *array = weir_array_new(account, rows->type, err);

	if (!array)
		return NULL;
	array->length = rows->length;
	array->null_count = rows->validity->data ? rows->null_count : 0;
	array->buffers[0] = weir_buffer_ref(rows->validity);
	return array;
}

static int put_offset(const struct weir_type *type, uint8_t *offsets, int64_t at, int64_t value, struct weir_error *err)
{
	if (type_offset_width(type) == 8) {
		((int64_t *)offsets)[at] = value;
		return WEIR_OK;
	}
	if (value > INT32_MAX)
		return builder_refuse_size(type, err);
	((int32_t *)offsets)[at] = (int32_t)value;
	return WEIR_OK;
}

/* Memory for length + 1 offsets, the first of them 0. */
static int offsets_new(struct weir_account *account, struct weir_array *array, uint8_t **out, struct weir_error *err)
{
	unsigned width = type_offset_width(array->type);

	if (weir_buffer_new(account, ((uint64_t)array->length + 1) * width, &array->buffers[1], out, err))
		return err->code;
	return put_offset(array->type, *out, 0, 0, err);
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

static int fill_views(struct weir_account *account, const struct convert_rows *rows, const struct weir_buffer *views,
		      const struct weir_buffer *data, uint64_t data_count, struct weir_array *array,
		      struct weir_error *err)
{
	uint8_t *offsets, *to;
	const uint8_t *bytes;
	int64_t total = 0;
	int32_t size;

	if (offsets_new(account, array, &offsets, err))
		return err->code;
	for (int64_t i = 0; i < rows->length; i++) {
		if (is_valid(rows, i)) {
			if (view_bytes(views->data + i * VIEW_SIZE, data, data_count, &bytes, &size, err))
				return at_row(i, err);
			total += size; /* less than 2^31 for 16 bytes that are there: no overflow */
		}
		if (put_offset(array->type, offsets, i + 1, total, err))
			return err->code;
	}
	if (weir_buffer_new(account, (uint64_t)total, &array->buffers[2], &to, err))
		return err->code;
	for (int64_t i = 0; i < rows->length; i++) {
		if (!is_valid(rows, i))
			continue;
		if (view_bytes(views->data + i * VIEW_SIZE, data, data_count, &bytes, &size, err))
			return err->code;
		memcpy(to, bytes, (size_t)size);
		to += size;
	}
	return WEIR_OK;
}

struct weir_array *convert_views(struct weir_account *account, const struct convert_rows *rows,
				 const struct weir_buffer *views, const struct weir_buffer *data, uint64_t data_count,
				 struct weir_error *err)
{
	struct weir_array *array;

	if (check_size(views, rows->length, VIEW_SIZE, "views", err))
		return NULL;
	array = array_begin(account, rows, err);
	if (!array || !fill_views(account, rows, views, data, data_count, array, err))
		return array;
	weir_array_unref(array);
	return NULL;
}

struct list_views {
	const struct weir_buffer *offsets, *sizes;
	const struct weir_array *items;
	int64_t first, total; /* the first item that a row has; items of all rows */
	bool in_order;        /* the rows' items follow each other without gaps */
};

static int measure_lists(const struct convert_rows *rows, struct list_views *lists, uint8_t *offsets,
			 struct weir_error *err)
{
	unsigned width = type_offset_width(rows->type);
	int64_t next = -1;

	lists->in_order = true;
	for (int64_t i = 0; i < rows->length; i++) {
		if (is_valid(rows, i)) {
			int64_t first = int_at(lists->offsets, width, i), size = int_at(lists->sizes, width, i);

			if (first < 0 || size < 0 ||
			    weir_range_outside((uint64_t)first, (uint64_t)size, (uint64_t)lists->items->length) ||
			    weir_add_overflows(lists->total, size, &lists->total) ||
			    lists->total > INT64_MAX / (int64_t)sizeof(int64_t)) {
				weir_error_set(err, WEIR_E_DATA, "a list of %lld items from item %lld on, of %lld",
					       (long long)size, (long long)first, (long long)lists->items->length);
				return at_row(i, err);
			}
			if (size && next < 0)
				lists->first = first;
			lists->in_order &= !size || next < 0 || first == next;
			next = size ? first + size : next;
		}
		if (put_offset(rows->type, offsets, i + 1, lists->total, err))
			return err->code;
	}
	return WEIR_OK;
}

static struct weir_array *gather_items(struct weir_account *account, const struct convert_rows *rows,
				       const struct list_views *lists, struct weir_error *err)
{
	unsigned width = type_offset_width(rows->type);
	size_t size = (size_t)lists->total * sizeof(int64_t);
	int64_t *picks = weir_alloc(account, size, err), used = 0;
	struct weir_array *items;

	if (!picks)
		return NULL;
	for (int64_t i = 0; i < rows->length; i++) {
		int64_t first, count;

		if (!is_valid(rows, i))
			continue;
		first = int_at(lists->offsets, width, i);
		count = int_at(lists->sizes, width, i);
		for (int64_t k = 0; k < count; k++)
			picks[used++] = first + k;
	}
	items = weir_array_take(account, lists->items, picks, used, err);
	weir_free(account, picks, size);
	return items;
}

struct weir_array *convert_list_views(struct weir_account *account, const struct convert_rows *rows,
				      const struct weir_buffer *offsets, const struct weir_buffer *sizes,
				      const struct weir_array *items, struct weir_error *err)
{
	unsigned width = type_offset_width(rows->type);
	struct list_views lists = {.offsets = offsets, .sizes = sizes, .items = items};
	struct weir_array *array;
	uint8_t *to;

	if (check_size(offsets, rows->length, width, "offsets", err) ||
	    check_size(sizes, rows->length, width, "sizes", err))
		return NULL;
	array = array_begin(account, rows, err);
	if (!array || offsets_new(account, array, &to, err) || measure_lists(rows, &lists, to, err))
		goto fail;
	array->children[0] = lists.in_order ? weir_array_slice(items, lists.first, lists.total, err)
					    : gather_items(account, rows, &lists, err);
	if (array->children[0])
		return array;
fail:
	weir_array_unref(array);
	return NULL;
}

/* To 128 bits, with the sign. */
struct weir_array *convert_decimals(struct weir_account *account, const struct convert_rows *rows,
				    const struct weir_buffer *values, unsigned width, struct weir_error *err)
{
	struct weir_array *array;
	uint8_t *to;

	if (check_size(values, rows->length, width, "decimals", err))
		return NULL;
	array = array_begin(account, rows, err);
	if (!array || weir_buffer_new(account, (uint64_t)rows->length * 16, &array->buffers[1], &to, err)) {
		weir_array_unref(array);
		return NULL;
	}
	for (int64_t i = 0; i < rows->length; i++) {
		int64_t value = int_at(values, width, i);

		((int64_t *)to)[2 * i] = value;
		((int64_t *)to)[2 * i + 1] = value < 0 ? -1 : 0;
	}
	return array;
}

/* That the ends ascend and reach `end`: before memory for as many rows is asked for. */
static int check_runs(const struct weir_buffer *ends, unsigned width, int64_t run_count, int64_t end,
		      struct weir_error *err)
{
	int64_t last = 0;

	for (int64_t run = 0; run < run_count; run++) {
		int64_t next = int_at(ends, width, run);

		if (next <= last)
			return weir_error_set(err, WEIR_E_DATA, "run %lld ends at row %lld, not after row %lld",
					      (long long)run, (long long)next, (long long)last);
		last = next;
	}
	if (last < end)
		return weir_error_set(err, WEIR_E_DATA, "the runs end at row %lld of %lld", (long long)last,
				      (long long)end);
	return WEIR_OK;
}

struct weir_array *convert_runs(struct weir_account *account, int64_t first, int64_t length,
				const struct weir_buffer *ends, unsigned width, int64_t run_count,
				const struct weir_array *values, struct weir_error *err)
{
	struct weir_array *array;
	int64_t *picks, end, row = 0;
	size_t size;

	if (run_count > values->length || weir_add_overflows(first, length, &end) ||
	    length > INT64_MAX / (int64_t)sizeof(*picks)) {
		weir_error_set(err, WEIR_E_DATA, "%lld rows from row %lld on, in %lld runs with %lld values",
			       (long long)length, (long long)first, (long long)run_count, (long long)values->length);
		return NULL;
	}
	if (check_size(ends, run_count, width, "run ends", err) || check_runs(ends, width, run_count, end, err))
		return NULL;
	size = (size_t)length * sizeof(*picks);
	picks = weir_alloc(account, size, err);
	if (!picks)
		return NULL;
	for (int64_t run = 0; row < length; run++)
		for (int64_t stop = int_at(ends, width, run) - first; row < stop && row < length; row++)
			picks[row] = run;
	array = weir_array_take(account, values, picks, length, err);
	weir_free(account, picks, size);
	return array;
}
