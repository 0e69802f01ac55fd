/* Rows of a column, out of a body that is fetched piece by piece.
 *
 * All rows of a field are taken as they lie: whole buffers, children whole, nothing copied but what does not lie on the
 * boundary that its values need, and layouts that differ from ours. Some of its rows are cut out: of each buffer the
 * bytes of those rows, of a child the rows that they use; offsets are then counted from the first of them, bits from a
 * byte's first. So what is fetched is what the rows need, wherever they lie in however large a batch:
 *
 *     offsets   … │ 70 │ 75 │ 75 │ 91 │ …        rows [1, 4)       0 │ 5 │ 5 │ 21
 *     bytes     ………└──── 21 bytes ────┘………                         21 bytes
 *
 * Lengths that the message claims are compared with what is there before anything is allocated for them, and what comes
 * out is validated like any array from outside.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

static uint32_t value_align(const struct weir_type *type)
{
	unsigned width = type_offset_width(type);

	if (width)
		return width;
	if (type->layout != WEIR_LAYOUT_FIXED || type->id == WEIR_FIXED_BINARY)
		return 1;
	return type->byte_width < 8 ? type->byte_width : 8;
}

/* Offsets of a part, counted from its first. Wrong ones may wrap here: they are found when the array is validated. */
static int rebase(struct weir_account *account, struct weir_buffer *offsets, unsigned width, int64_t count,
		  int64_t first, struct weir_error *err)
{
	struct weir_buffer from = *offsets;
	uint8_t *to;
	int code;

	if (first == 0)
		return WEIR_OK;
	code = weir_buffer_new(account, from.size, offsets, &to, err);
	if (code) {
		*offsets = from;
		return code;
	}
	if (width == 4)
		for (int64_t i = 0; i < count; i++)
			((uint32_t *)to)[i] = ((const uint32_t *)from.data)[i] - (uint32_t)first;
	else
		for (int64_t i = 0; i < count; i++)
			((uint64_t *)to)[i] = ((const uint64_t *)from.data)[i] - (uint64_t)first;
	weir_buffer_release(&from);
	return WEIR_OK;
}

/* Offsets of the rows and the range of items or bytes that they cover: all of `length` for all rows. */
static int take_offsets(struct ipc_rows *rows, const struct ipc_span *span, int64_t length, struct weir_buffer *out,
			int64_t *first, int64_t *last, struct weir_error *err)
{
	unsigned width = type_offset_width(span->node->type);
	int64_t count = span->end - span->begin;
	int code = ipc_take_fixed(rows, span, span->node->buffer + 1, width, width, 1, out, err);

	*first = 0;
	*last = length;
	if (code || ipc_span_is_whole(span))
		return code;
	*first = ipc_offset_in(out, width, 0);
	*last = ipc_offset_in(out, width, count);
	if (*first < 0 || *last < *first || *last > length)
		return weir_error_set(err, WEIR_E_DATA, "offsets %lld to %lld do not lie within 0 to %lld",
				      (long long)*first, (long long)*last, (long long)length);
	return rebase(rows->layout->account, out, width, count + 1, *first, err);
}

/* ---- nodes ---- */

static int read_span(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out,
		     struct weir_error *err);

int ipc_read_child(struct ipc_rows *rows, const struct ipc_node *node, int64_t begin, int64_t end, bool all,
		   struct weir_array **out, struct weir_error *err)
{
	struct ipc_span span = {.node = node, .begin = begin, .end = all ? node->length : end};

	if (span.end > node->length)
		return weir_error_set(err, WEIR_E_DATA, "%lld rows where the parent needs %lld",
				      (long long)node->length, (long long)end);
	return read_span(rows, &span, out, err);
}

static struct weir_array *empty_array(struct weir_account *account, const struct weir_type *type,
				      struct weir_error *err)
{
	struct weir_builder builder;
	struct weir_array *array = NULL;

	if (!weir_builder_init(&builder, type, account, err))
		array = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	return array;
}

/* Where values must be, but are not, a place for nothing: consumers need no special case for empty arrays. */
static void stand_in(const struct weir_array *array, struct weir_buffer *buffer)
{
	if (!buffer->data && array->length == 0)
		*buffer = (struct weir_buffer){.data = array_zeros, .size = sizeof(array_zeros)};
	else if (!buffer->data)
		buffer->data = array_zeros;
}

static int read_bytes(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array *array,
		      struct weir_error *err)
{
	uint32_t number = span->node->buffer + 2;
	int64_t first, last;
	uint64_t size = 0;
	int code = ipc_buffer_size(rows, number, &size, err);

	if (!code)
		code = take_offsets(rows, span, size < INT64_MAX ? (int64_t)size : INT64_MAX, &array->buffers[1],
				    &first, &last, err);
	if (!code)
		code = ipc_take(rows, number, (uint64_t)first, (uint64_t)(last - first), 1, &array->buffers[2], err);
	stand_in(array, &array->buffers[1]);
	if (!array->buffers[2].data)
		array->buffers[2].data = array_zeros;
	return code;
}

static int read_nested(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array *array,
		       struct weir_error *err)
{
	const struct ipc_node *node = span->node, *child = node + 1;
	const struct weir_type *type = node->type;
	int64_t first = span->begin, last = span->end;
	int code = WEIR_OK;

	if (type_offset_width(type)) {
		code = take_offsets(rows, span, child->length, &array->buffers[1], &first, &last, err);
		stand_in(array, &array->buffers[1]);
	} else if (type->id == WEIR_FIXED_LIST && (weir_mul_overflows(first, type->list_size, &first) ||
						   weir_mul_overflows(last, type->list_size, &last))) {
		code = weir_error_set(err, WEIR_E_DATA, "%lld rows are too many", (long long)span->end);
	}
	for (uint32_t i = 0; !code && i < type->field_count; i++) {
		code = ipc_read_child(rows, child, first, last, ipc_span_is_whole(span), &array->children[i], err);
		child = rows->layout->nodes.items + child->end;
	}
	return code;
}

static int read_plain(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array *array,
		      struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	const struct weir_type *type = node->type;
	struct weir_array *values;
	int code;

	array->length = span->end - span->begin;
	if (type->id == WEIR_NULL) {
		array->null_count = array->length;
		return WEIR_OK;
	}
	code = ipc_take_validity(rows, span, &array->buffers[0], &array->null_count, err);
	if (code)
		return code;
	if (type->layout == WEIR_LAYOUT_NESTED)
		return read_nested(rows, span, array, err);
	if (type->layout == WEIR_LAYOUT_BYTES)
		return read_bytes(rows, span, array, err);
	code = type->layout == WEIR_LAYOUT_BITS ? ipc_take_bits(rows, span, node->buffer + 1, &array->buffers[1], err)
						: ipc_take_fixed(rows, span, node->buffer + 1, type->byte_width,
								 value_align(type), 0, &array->buffers[1], err);
	stand_in(array, &array->buffers[1]);
	if (code || type->id != WEIR_DICTIONARY_TYPE)
		return code;
	/* A dictionary that was never sent is empty: no code but null fits. */
	values = rows->dictionaries ? rows->dictionaries[node->dictionary] : NULL;
	array->dictionary = values ? weir_array_ref(values)
				   : empty_array(rows->layout->account, type->dictionary_value, err);
	return array->dictionary ? WEIR_OK : err->code;
}

static int read_span(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out,
		     struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct weir_array *array;
	int code;

	switch (node->wire) {
	case WIRE_VIEW:
		return ipc_read_views(rows, span, out, err);
	case WIRE_LIST_VIEW:
	case WIRE_LARGE_LIST_VIEW:
		return ipc_read_list_views(rows, span, out, err);
	case WIRE_DECIMAL_32:
		return ipc_read_decimals(rows, span, 4, out, err);
	case WIRE_DECIMAL_64:
		return ipc_read_decimals(rows, span, 8, out, err);
	case WIRE_RUN_END_16:
	case WIRE_RUN_END_32:
	case WIRE_RUN_END_64:
		return ipc_read_runs(rows, span, out, err);
	case WIRE_PLAIN:
		break;
	}
	array = weir_array_new(rows->layout->account, node->type, err);
	if (!array)
		return err->code;
	code = read_plain(rows, span, array, err);
	if (code)
		weir_array_unref(array);
	else
		*out = array;
	return code;
}

int ipc_rows_read(struct weir_ipc_layout *layout, uint32_t field, int64_t begin, int64_t end,
		  const struct weir_ipc_body *body, struct weir_array *const *dictionaries, bool deep,
		  struct weir_array **out, struct weir_error *err)
{
	const char *name = layout->fields[field].name;
	struct ipc_rows rows = {.layout = layout, .body = body, .dictionaries = dictionaries};
	struct ipc_span span = {.node = &layout->nodes.items[layout->roots.items[field]], .begin = begin, .end = end};
	int code;

	WEIR_ASSERT(begin >= 0 && begin <= end && end <= layout->row_count);
	*out = NULL;
	code = read_span(&rows, &span, out, err);
	/* The dictionaries were validated when they came. */
	if (!code)
		code = array_validate_column(*out, name, deep ? VALIDATE_DEEP : 0, err);
	if (!code)
		return WEIR_OK;
	weir_array_unref(*out);
	*out = NULL;
	if (*name)
		weir_error_at_column(err, name);
	return code;
}

int weir_ipc_column_rows(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			 const struct weir_ipc_body *body, const struct weir_ipc_dictionaries *dictionaries,
			 struct weir_array **out, struct weir_error *err)
{
	return ipc_rows_read(layout, column, begin, end, body, dictionaries->values, true, out, err);
}

/* What offsets cover at two rows. */
static int offsets_between(struct ipc_rows *rows, const struct ipc_span *span, uint64_t *out, struct weir_error *err)
{
	unsigned width = type_offset_width(span->node->type);
	const int64_t at[2] = {span->begin, span->end};
	int64_t found[2];

	for (int i = 0; i < 2; i++) {
		struct weir_buffer bytes;

		if (ipc_take(rows, span->node->buffer + 1, (uint64_t)at[i] * width, width, width, &bytes, err))
			return err->code;
		found[i] = ipc_offset_in(&bytes, width, 0);
		weir_buffer_release(&bytes);
	}
	*out = found[1] > found[0] && found[0] >= 0 ? (uint64_t)(found[1] - found[0]) : 0;
	return WEIR_OK;
}

static int views_between(struct ipc_rows *rows, const struct ipc_span *span, uint64_t *out, struct weir_error *err)
{
	struct weir_buffer views;
	int32_t size;

	if (ipc_take_fixed(rows, span, span->node->buffer + 1, WEIR_IPC_VIEW_SIZE, 8, 0, &views, err))
		return err->code;
	for (uint64_t i = 0; i < views.size / WEIR_IPC_VIEW_SIZE; i++) {
		memcpy(&size, views.data + i * WEIR_IPC_VIEW_SIZE, sizeof(size));
		*out += size > 0 ? (uint64_t)size : 0;
	}
	weir_buffer_release(&views);
	return WEIR_OK;
}

int weir_ipc_column_weigh(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			  const struct weir_ipc_body *body, uint64_t *out, struct weir_error *err)
{
	struct ipc_rows rows = {.layout = layout, .body = body};
	struct ipc_span span = {.node = &layout->nodes.items[layout->roots.items[column]], .begin = begin, .end = end};
	uint64_t count = (uint64_t)(end - begin), size = weir_ipc_column_size(layout, column), items = 0;
	double bytes = 0;
	int code = WEIR_OK;

	*out = 0;
	if (begin == end)
		return WEIR_OK;
	if (span.node->wire == WIRE_VIEW) {
		code = views_between(&rows, &span, out, err);
	} else if (span.node->wire == WIRE_PLAIN && span.node->type->layout == WEIR_LAYOUT_BYTES) {
		code = offsets_between(&rows, &span, out, err);
	} else if (span.node->wire == WIRE_PLAIN && type_offset_width(span.node->type) && span.node[1].length > 0) {
		code = offsets_between(&rows, &span, &items, err);
		bytes = (double)size / (double)span.node[1].length * (double)items;
	} else {
		bytes = (double)size / (double)layout->row_count * (double)count;
	}
	if (bytes > 0)
		*out = bytes < (double)INT64_MAX ? (uint64_t)bytes : INT64_MAX;
	if (code && *layout->fields[column].name)
		weir_error_at_column(err, layout->fields[column].name);
	return code;
}
