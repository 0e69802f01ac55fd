/* Arrow's newer layouts on import: the foreign array's parts, found and measured, go to convert.c. The last buffer of
 * an array of views holds the sizes of those between the views and itself; other buffers' sizes follow from the
 * rows. */
#include "base/checked.h"
#include "arrow/cdata_impl.h"
#include "arrow/convert_impl.h"

/* `count` rows of `width` bytes in a foreign buffer, from the array's offset on. head has bounded both. */
static struct weir_buffer foreign_rows(const void *data, int64_t offset, int64_t count, unsigned width)
{
	if (!data)
		return (struct weir_buffer){0};
	return (struct weir_buffer){.data = (const uint8_t *)data + (uint64_t)offset * width,
				    .size = (uint64_t)count * width};
}

/* Length and validity of the foreign array, the bits of its rows alone from 0 on: converted arrays have no offset. */
static int import_rows(const struct cdata_import *import, const struct weir_type *type, const struct ArrowArray *from,
		       int64_t buffers_min, struct weir_buffer *validity, struct convert_rows *rows,
		       struct weir_error *err)
{
	struct weir_array *head = weir_array_new(import->account, type, err);
	uint8_t *to;

	*validity = (struct weir_buffer){0};
	if (!head || cdata_import_head(import, from, buffers_min, head, err))
		goto out;
	*rows = (struct convert_rows){
		.type = type, .length = head->length, .null_count = head->null_count, .validity = validity};
	if (!head->buffers[0].data || head->null_count == 0) {
		rows->null_count = 0;
	} else if (!weir_buffer_new(import->account, weir_bits_size(head->length), validity, &to, err)) {
		memset(to, 0, validity->size);
		weir_bits_copy(to, 0, head->buffers[0].data, head->offset, head->length);
	} else {
		goto out;
	}
	weir_array_unref(head);
	return WEIR_OK;
out:
	weir_array_unref(head);
	return err->code;
}

/* The buffers that views point into. */
static struct weir_buffer *import_view_data(const struct cdata_import *import, const struct ArrowArray *from,
					    uint64_t count, struct weir_error *err)
{
	struct weir_buffer *data = weir_alloc_zero(import->account, count * sizeof(*data), err);
	const uint8_t *sizes = from->buffers[from->n_buffers - 1];
	int64_t size;

	for (uint64_t i = 0; data && i < count; i++) {
		memcpy(&size, sizes + 8 * i, sizeof(size));
		if (size > 0 && from->buffers[2 + i])
			data[i] = (struct weir_buffer){.data = from->buffers[2 + i], .size = (uint64_t)size};
	}
	return data;
}

struct weir_array *cdata_convert_view(const struct cdata_import *import, const struct weir_type *type,
				      const struct ArrowArray *from, struct weir_error *err)
{
	struct weir_buffer validity, views, *data;
	struct convert_rows rows;
	struct weir_array *array = NULL;
	uint64_t count;

	if (import_rows(import, type, from, 3, &validity, &rows, err))
		return NULL;
	count = (uint64_t)from->n_buffers - 3;
	if (count > SIZE_MAX / sizeof(*data) || (count && !from->buffers[from->n_buffers - 1])) {
		weir_error_set(err, WEIR_E_DATA, "an array of views without the sizes of its buffers");
	} else {
		data = import_view_data(import, from, count, err);
		views = foreign_rows(from->buffers[1], from->offset, rows.length, 16);
		if (data)
			array = convert_views(import->account, &rows, &views, data, count, err);
		weir_free(import->account, data, count * sizeof(*data));
	}
	weir_buffer_release(&validity);
	return array;
}

struct weir_array *cdata_convert_list_view(const struct cdata_import *import, const struct ArrowSchema *foreign,
					   const struct weir_type *type, const struct ArrowArray *from,
					   struct weir_error *err)
{
	unsigned width = type_offset_width(type);
	struct weir_buffer validity, offsets, sizes;
	struct weir_array *items = NULL, *array = NULL;
	struct convert_rows rows;

	if (import_rows(import, type, from, 3, &validity, &rows, err))
		return NULL;
	if (from->n_children != 1 || !from->children || !from->children[0]) {
		weir_error_set(err, WEIR_E_DATA, "a list view array without its child");
		goto out;
	}
	items = cdata_import_node(import, foreign->children[0], type->fields[0].type, from->children[0], err);
	if (!items || weir_array_validate(items, false, err))
		goto out;
	offsets = foreign_rows(from->buffers[1], from->offset, rows.length, width);
	sizes = foreign_rows(from->buffers[2], from->offset, rows.length, width);
	array = convert_list_views(import->account, &rows, &offsets, &sizes, items, err);
out:
	weir_array_unref(items);
	weir_buffer_release(&validity);
	return array;
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
	unsigned width = run_end_width(foreign);
	struct weir_array *values, *array = NULL;
	const struct ArrowArray *ends;
	struct weir_buffer end_rows;
	int64_t last;

	if (!width || from->n_children != 2 || !from->children || !from->children[0] || !from->children[1] ||
	    from->length < 0 || from->offset < 0) {
		weir_error_set(err, WEIR_E_DATA, "a run-end-encoded array without run ends, values or length");
		return NULL;
	}
	ends = from->children[0];
	if (ends->n_buffers < 2 || !ends->buffers || ends->length < 0 || ends->offset < 0 || ends->null_count > 0 ||
	    weir_add_overflows(ends->offset, ends->length, &last) || last > INT64_MAX / 64) {
		weir_error_set(err, WEIR_E_DATA, "a run-end-encoded array with unusable run ends");
		return NULL;
	}
	values = cdata_import_node(import, foreign->children[1], type, from->children[1], err);
	if (values && !weir_array_validate(values, false, err)) {
		end_rows = foreign_rows(ends->buffers[1], ends->offset, ends->length, width);
		array = convert_runs(import->account, from->offset, from->length, &end_rows, width, ends->length,
				     values, err);
	}
	weir_array_unref(values);
	return array;
}

struct weir_array *cdata_convert_decimal(const struct cdata_import *import, const struct weir_type *type,
					 unsigned width, const struct ArrowArray *from, struct weir_error *err)
{
	struct weir_buffer validity, values;
	struct weir_array *array;
	struct convert_rows rows;

	if (import_rows(import, type, from, 2, &validity, &rows, err))
		return NULL;
	values = foreign_rows(from->buffers[1], from->offset, rows.length, width);
	array = convert_decimals(import->account, &rows, &values, width, err);
	weir_buffer_release(&validity);
	return array;
}
