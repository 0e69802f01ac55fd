/* Arrow's newer layouts, converted to the plain ones while they are imported.
 *
 * A view is 16 bytes, short texts inside, long ones in one of several buffers whose sizes the last buffer holds:
 *
 *     0        4        8        12       16
 *     │ length │ bytes, at most 12        │
 *     │ length │ prefix │ buffer │ offset │
 *
 * A list view has an offset and a size for each row, in any order; a run-end-encoded array has the row at which each of
 * its values ends. Both become row numbers, and those go to weir_array_take, which is why the children are validated
 * before anything else trusts them.
 */
#include "base/checked.h"
#include "arrow/cdata_impl.h"

struct view {
	int32_t length;
	union {
		uint8_t inlined[12];
		struct {
			uint8_t prefix[4];
			int32_t buffer, offset;
		};
	};
};
_Static_assert(sizeof(struct view) == 16, "as the format has it");

struct views {
	const uint8_t *views; /* not necessarily aligned */
	const void **buffers;
	const uint8_t *sizes;
	int64_t buffer_count;
};

static inline struct view view_at(const struct views *views, int64_t row)
{
	struct view view;

	memcpy(&view, views->views + row * 16, sizeof(view));
	return view;
}

static int check_view(const struct views *views, const struct view *view, int64_t row, struct weir_error *err)
{
	int64_t size;

	if (view->length >= 0 && view->length <= 12)
		return WEIR_OK;
	if (view->length >= 0 && view->buffer >= 0 && view->buffer < views->buffer_count && view->offset >= 0) {
		memcpy(&size, views->sizes + 8 * (int64_t)view->buffer, 8);
		if (size >= 0 && !weir_range_outside((uint64_t)view->offset, (uint64_t)view->length, (uint64_t)size) &&
		    views->buffers[view->buffer])
			return WEIR_OK;
	}
	weir_error_set(err, WEIR_E_DATA, "a string view points outside its buffers");
	weir_error_at_row(err, row);
	return WEIR_E_DATA;
}

static inline bool is_null(const struct weir_array *array, int64_t row)
{
	return array->buffers[0].data && !weir_bit_get(array->buffers[0].data, array->offset + row);
}

/* Checks every view and fills the offsets. */
static int measure_views(const struct views *views, const struct weir_array *to, int64_t first, int32_t *offsets,
			 struct weir_error *err)
{
	int64_t total = 0;

	offsets[0] = 0;
	for (int64_t row = 0; row < to->length; row++) {
		struct view view = view_at(views, first + row);

		if (!is_null(to, row)) {
			if (check_view(views, &view, row, err))
				return err->code;
			total += view.length;
			if (total > INT32_MAX)
				return builder_refuse_size(to->type, err);
		}
		offsets[row + 1] = (int32_t)total;
	}
	return WEIR_OK;
}

/* The validity of the rows alone, from bit 0 on: converted arrays have no offset. */
static int settle_validity(const struct cdata_import *import, struct weir_array *array, struct weir_error *err)
{
	struct weir_buffer old = array->buffers[0];
	uint8_t *to;

	array->buffers[0] = (struct weir_buffer){0};
	if (old.data && array->null_count != 0) {
		if (weir_buffer_new(import->account, weir_bits_size(array->length), &array->buffers[0], &to, err)) {
			weir_buffer_release(&old);
			return err->code;
		}
		memset(to, 0, array->buffers[0].size);
		weir_bits_copy(to, 0, old.data, array->offset, array->length);
	}
	weir_buffer_release(&old);
	array->offset = 0;
	return WEIR_OK;
}

static int convert_view(const struct cdata_import *import, const struct ArrowArray *from, struct weir_array *to,
			struct weir_error *err)
{
	struct views views = {0};
	int64_t first;
	int32_t *offsets;
	uint8_t *bytes, *raw;

	if (cdata_import_head(import, from, 3, to, err))
		return err->code;
	views.views = from->buffers[1];
	views.buffers = from->buffers + 2;
	views.buffer_count = from->n_buffers - 3;
	views.sizes = from->buffers[from->n_buffers - 1];
	if ((to->length && !views.views) || (views.buffer_count && !views.sizes))
		return weir_error_set(err, WEIR_E_DATA, "a string view array without its views or sizes");
	first = to->offset;
	if (weir_buffer_new(import->account, ((uint64_t)to->length + 1) * 4, &to->buffers[1], &raw, err))
		return err->code;
	offsets = (int32_t *)raw;
	if (measure_views(&views, to, first, offsets, err) ||
	    weir_buffer_new(import->account, (uint64_t)offsets[to->length], &to->buffers[2], &bytes, err))
		return err->code;
	for (int64_t row = 0; row < to->length; row++) {
		struct view view = view_at(&views, first + row);
		size_t size = (size_t)(offsets[row + 1] - offsets[row]);

		if (size)
			memcpy(bytes + offsets[row],
			       size <= 12 ? view.inlined : (const uint8_t *)views.buffers[view.buffer] + view.offset,
			       size);
	}
	return settle_validity(import, to, err);
}

struct weir_array *cdata_convert_view(const struct cdata_import *import, const struct weir_type *type,
				      const struct ArrowArray *from, struct weir_error *err)
{
	struct weir_array *array = weir_array_new(import->account, type, err);

	if (!array || !convert_view(import, from, array, err))
		return array;
	weir_array_unref(array);
	return NULL;
}

static inline int64_t int_at(const uint8_t *data, unsigned width, int64_t at)
{
	int16_t half;
	int32_t word;
	int64_t whole;

	switch (width) {
	case 2:
		memcpy(&half, data + at * 2, 2);
		return half;
	case 4:
		memcpy(&word, data + at * 4, 4);
		return word;
	default:
		memcpy(&whole, data + at * 8, 8);
		return whole;
	}
}

/* The new offsets; false in *in_order unless the child's rows are used one after the other. */
static int measure_lists(const struct ArrowArray *from, const struct weir_array *child, struct weir_array *to,
			 uint8_t *offsets, int64_t *total, bool *in_order, struct weir_error *err)
{
	unsigned width = type_offset_width(to->type);
	int64_t next = -1;

	*total = 0;
	*in_order = true;
	memset(offsets, 0, width);
	for (int64_t row = 0; row < to->length; row++) {
		int64_t at = to->offset + row;

		if (!is_null(to, row)) {
			int64_t offset = int_at(from->buffers[1], width, at),
				size = int_at(from->buffers[2], width, at);

			if (offset < 0 || size < 0 ||
			    weir_range_outside((uint64_t)offset, (uint64_t)size, (uint64_t)child->length) ||
			    weir_add_overflows(*total, size, total) || *total > INT64_MAX / 16) {
				weir_error_set(err, WEIR_E_DATA, "a list view points outside its child");
				weir_error_at_row(err, row);
				return WEIR_E_DATA;
			}
			*in_order &= !size || next < 0 || offset == next;
			next = size ? offset + size : next;
		}
		if (width == 4 && *total > INT32_MAX)
			return builder_refuse_size(to->type, err);
		if (width == 4)
			((int32_t *)offsets)[row + 1] = (int32_t)*total;
		else
			((int64_t *)offsets)[row + 1] = *total;
	}
	return WEIR_OK;
}

static struct weir_array *gather_items(const struct cdata_import *import, const struct ArrowArray *from,
				       const struct weir_array *child, const struct weir_array *to, int64_t total,
				       struct weir_error *err)
{
	unsigned width = type_offset_width(to->type);
	size_t size = (size_t)total * sizeof(int64_t);
	int64_t *rows = weir_alloc(import->account, size, err), used = 0;
	struct weir_array *items;

	if (!rows)
		return NULL;
	for (int64_t row = 0; row < to->length; row++) {
		int64_t count = offset_at(to, row + 1) - offset_at(to, row);
		int64_t begin = count ? int_at(from->buffers[1], width, to->offset + row) : 0;

		for (int64_t item = 0; item < count; item++)
			rows[used++] = begin + item;
	}
	items = weir_array_take(import->account, child, rows, total, err);
	weir_free(import->account, rows, size);
	return items;
}

/* Where the first list that has items begins. */
static int64_t first_item(const struct ArrowArray *from, const struct weir_array *to)
{
	for (int64_t row = 0; row < to->length; row++)
		if (offset_at(to, row + 1) > offset_at(to, row))
			return int_at(from->buffers[1], type_offset_width(to->type), to->offset + row);
	return 0;
}

static int convert_list_view(const struct cdata_import *import, const struct ArrowSchema *foreign,
			     const struct ArrowArray *from, struct weir_array *to, struct weir_error *err)
{
	unsigned width = type_offset_width(to->type);
	struct weir_array *child = NULL;
	int64_t total;
	bool in_order;
	uint8_t *offsets;

	if (cdata_import_head(import, from, 3, to, err))
		return err->code;
	if (from->n_children != 1 || !from->children || !from->children[0] ||
	    (to->length && (!from->buffers[1] || !from->buffers[2])))
		return weir_error_set(err, WEIR_E_DATA, "a list view array without its child, offsets or sizes");
	child = cdata_import_node(import, foreign->children[0], to->type->fields[0].type, from->children[0], err);
	if (!child || weir_array_validate(child, false, err) ||
	    weir_buffer_new(import->account, ((uint64_t)to->length + 1) * width, &to->buffers[1], &offsets, err) ||
	    measure_lists(from, child, to, offsets, &total, &in_order, err))
		goto out;
	if (in_order)
		to->children[0] = weir_array_slice(child, first_item(from, to), total, err);
	else
		to->children[0] = gather_items(import, from, child, to, total, err);
out:
	weir_array_unref(child);
	return to->children[0] ? settle_validity(import, to, err) : err->code;
}

struct weir_array *cdata_convert_list_view(const struct cdata_import *import, const struct ArrowSchema *foreign,
					   const struct weir_type *type, const struct ArrowArray *from,
					   struct weir_error *err)
{
	struct weir_array *array = weir_array_new(import->account, type, err);

	if (!array || !convert_list_view(import, foreign, from, array, err))
		return array;
	weir_array_unref(array);
	return NULL;
}

/* The value's row for each of `count` rows from `first` on. */
static int spread_runs(const struct ArrowArray *ends, unsigned width, int64_t value_count, int64_t first, int64_t count,
		       int64_t *rows, struct weir_error *err)
{
	const uint8_t *data = ends->n_buffers >= 2 && ends->buffers ? ends->buffers[1] : NULL;
	int64_t row = 0, last = 0;

	if (ends->length < 0 || ends->offset < 0 || ends->null_count > 0 || (ends->length && !data) ||
	    ends->length > value_count)
		return weir_error_set(err, WEIR_E_DATA, "a run-end-encoded array with unusable run ends");
	for (int64_t run = 0; run < ends->length && row < count; run++) {
		int64_t end = int_at(data, width, ends->offset + run);

		if (end <= last)
			return weir_error_set(err, WEIR_E_DATA, "run ends that do not ascend");
		last = end;
		for (int64_t stop = end - first < count ? end - first : count; row < stop; row++)
			rows[row] = run;
	}
	if (row < count)
		return weir_error_set(err, WEIR_E_DATA, "run ends that stop at row %lld of %lld", (long long)last,
				      (long long)(first + count));
	return WEIR_OK;
}

static unsigned run_end_width(const struct ArrowSchema *foreign)
{
	const char *format = foreign->children[0]->format ? foreign->children[0]->format : "";

	return !strcmp(format, "s") ? 2 : !strcmp(format, "i") ? 4 : !strcmp(format, "l") ? 8 : 0;
}

struct weir_array *cdata_convert_run_end(const struct cdata_import *import, const struct ArrowSchema *foreign,
					 const struct weir_type *type, const struct ArrowArray *from,
					 struct weir_error *err)
{
	struct weir_array *values = NULL, *result = NULL;
	unsigned width = run_end_width(foreign);
	int64_t *rows = NULL, end;
	size_t size = 0;

	if (!width || from->n_children != 2 || !from->children || !from->children[0] || !from->children[1] ||
	    from->length < 0 || from->offset < 0 || weir_add_overflows(from->length, from->offset, &end) ||
	    from->length > INT64_MAX / 16) {
		weir_error_set(err, WEIR_E_DATA, "a run-end-encoded array without usable run ends, values or length");
		return NULL;
	}
	values = cdata_import_node(import, foreign->children[1], type, from->children[1], err);
	if (!values || weir_array_validate(values, false, err))
		goto out;
	size = (size_t)from->length * sizeof(*rows);
	rows = weir_alloc(import->account, size, err);
	if (rows && !spread_runs(from->children[0], width, values->length, from->offset, from->length, rows, err))
		result = weir_array_take(import->account, values, rows, from->length, err);
out:
	weir_free(import->account, rows, size);
	weir_array_unref(values);
	return result;
}

static int convert_decimal(const struct cdata_import *import, unsigned width, const struct ArrowArray *from,
			   struct weir_array *to, struct weir_error *err)
{
	uint8_t *raw;
	int64_t *words;

	if (cdata_import_head(import, from, 2, to, err))
		return err->code;
	if (to->length && !from->buffers[1])
		return weir_error_set(err, WEIR_E_DATA, "a decimal array without its values");
	if (weir_buffer_new(import->account, (uint64_t)to->length * 16, &to->buffers[1], &raw, err))
		return err->code;
	words = (int64_t *)raw;
	for (int64_t row = 0; row < to->length; row++) {
		words[2 * row] = int_at(from->buffers[1], width, to->offset + row);
		words[2 * row + 1] = words[2 * row] < 0 ? -1 : 0;
	}
	return settle_validity(import, to, err);
}

struct weir_array *cdata_convert_decimal(const struct cdata_import *import, const struct weir_type *type,
					 unsigned width, const struct ArrowArray *from, struct weir_error *err)
{
	struct weir_array *array = weir_array_new(import->account, type, err);

	if (!array || !convert_decimal(import, width, from, array, err))
		return array;
	weir_array_unref(array);
	return NULL;
}
