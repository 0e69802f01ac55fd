/* Rows of a column, out of a body that is fetched piece by piece.
 *
 * All rows of a field are taken as they lie: whole buffers, children whole, nothing copied but what does not lie on the
 * boundary that its values need, and layouts that differ from ours. Some of its rows are cut out: of each buffer the bytes
 * of those rows, of a child the rows that they use; offsets are then counted from the first of them, bits from a byte's
 * first. So what is fetched is what the rows need, wherever they lie in however large a batch:
 *
 *     offsets   … │ 70 │ 75 │ 75 │ 91 │ …        rows [1, 4)       0 │ 5 │ 5 │ 21
 *     bytes     ………└──── 21 bytes ────┘………                         21 bytes
 *
 * Lengths that the message claims are compared with what is there before anything is allocated for them, and what comes out
 * is validated like any array from outside.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/convert_impl.h"
#include "arrow/ipc_impl.h"

enum { VIEW_SIZE = 16, VIEW_INLINE_MAX = 12 };

struct rows {
	struct weir_ipc_layout *layout;
	const struct weir_ipc_body *body;
	struct weir_array *const *dictionaries;
};

/* The rows wanted of one node. */
struct span {
	const struct ipc_node *node;
	int64_t begin, end;
};

static bool is_whole(const struct span *span)
{
	return span->begin == 0 && span->end == span->node->length;
}

/* ---- bytes ---- */

static int inflate(struct rows *rows, uint32_t number, struct weir_error *err)
{
	struct weir_ipc_layout *layout = rows->layout;
	struct ipc_pair at = layout->buffers.items[number];
	struct weir_buffer bytes;
	int code;

	if (layout->inflated.items[number].data || at.second == 0)
		return WEIR_OK;
	code = rows->body->fetch(rows->body->state, (uint64_t)at.first, (uint64_t)at.second, &bytes, err);
	if (code)
		return code;
	code = ipc_decompress(&layout->codec, layout->codec_kind, &bytes, &layout->inflated.items[number], err);
	weir_buffer_release(&bytes);
	return code;
}

/* How long a buffer is, once inflated. */
static int buffer_size(struct rows *rows, uint32_t number, uint64_t *out, struct weir_error *err)
{
	if (rows->layout->codec_kind == CODEC_NONE) {
		*out = (uint64_t)rows->layout->buffers.items[number].second;
		return WEIR_OK;
	}
	if (inflate(rows, number, err))
		return err->code;
	*out = rows->layout->inflated.items[number].size;
	return WEIR_OK;
}

/* `size` bytes of a buffer from `from` on, which must be there, on a multiple of `align`; data NULL when size is 0. */
static int take(struct rows *rows, uint32_t number, uint64_t from, uint64_t size, uint32_t align,
		struct weir_buffer *out, struct weir_error *err)
{
	struct weir_ipc_layout *layout = rows->layout;
	struct weir_buffer found;
	uint64_t there = 0;
	uint8_t *copy;
	int code = buffer_size(rows, number, &there, err);

	*out = (struct weir_buffer){0};
	if (code)
		return code;
	if (weir_range_outside(from, size, there))
		return weir_error_set(err, WEIR_E_DATA,
				      "buffer %u has %llu bytes, but %llu bytes from byte %llu on are needed", number,
				      (unsigned long long)there, (unsigned long long)size, (unsigned long long)from);
	if (size == 0)
		return WEIR_OK;
	if (layout->codec_kind == CODEC_NONE) {
		code = rows->body->fetch(rows->body->state, (uint64_t)layout->buffers.items[number].first + from, size,
					 out, err);
		if (code)
			return code;
	} else {
		*out = weir_buffer_ref(&layout->inflated.items[number]);
		out->data += from;
		out->size = size;
	}
	if ((uintptr_t)out->data % align == 0)
		return WEIR_OK;
	found = *out;
	code = weir_buffer_new(layout->account, size, out, &copy, err);
	if (!code)
		memcpy(copy, found.data, size);
	weir_buffer_release(&found);
	return code;
}

static int take_all(struct rows *rows, uint32_t number, uint32_t align, struct weir_buffer *out, struct weir_error *err)
{
	uint64_t size = 0;

	if (buffer_size(rows, number, &size, err)) {
		*out = (struct weir_buffer){0};
		return err->code;
	}
	return take(rows, number, 0, size, align, out, err);
}

/* `width` bytes for each row; `more` rows than the span has. */
static int take_fixed(struct rows *rows, const struct span *span, uint32_t number, uint32_t width, uint32_t align,
		      int64_t more, struct weir_buffer *out, struct weir_error *err)
{
	uint64_t from, size;

	*out = (struct weir_buffer){0};
	if (is_whole(span))
		return take_all(rows, number, align, out, err);
	if (weir_mul_overflows((uint64_t)span->begin, width, &from) ||
	    weir_mul_overflows((uint64_t)(span->end - span->begin + more), width, &size))
		return weir_error_set(err, WEIR_E_DATA, "%lld rows are too many", (long long)span->end);
	return take(rows, number, from, size, align, out, err);
}

static int take_bits(struct rows *rows, const struct span *span, uint32_t number, struct weir_buffer *out,
		     struct weir_error *err)
{
	int64_t count = span->end - span->begin, shift = span->begin & 7;
	struct weir_buffer found;
	uint8_t *to;
	int code;

	if (is_whole(span))
		return take_all(rows, number, 1, out, err);
	code = take(rows, number, (uint64_t)span->begin >> 3, weir_bits_size(shift + count), 1, out, err);
	if (code || shift == 0 || count == 0)
		return code;
	found = *out;
	code = weir_buffer_new(rows->layout->account, weir_bits_size(count), out, &to, err);
	if (!code) {
		to[weir_bits_size(count) - 1] = 0;
		weir_bits_copy(to, 0, found.data, shift, count);
	}
	weir_buffer_release(&found);
	return code;
}

/* Validity of the rows, long enough, and how many are null. Absent when none is. */
static int take_validity(struct rows *rows, const struct span *span, struct weir_buffer *out, int64_t *null_count,
			 struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	int64_t count = span->end - span->begin;
	uint64_t there = 0;
	int code = buffer_size(rows, node->buffer, &there, err);

	*null_count = 0;
	*out = (struct weir_buffer){0};
	if (code)
		return code;
	if (there == 0 || node->null_count == 0) {
		if (node->null_count > 0)
			return weir_error_set(err, WEIR_E_DATA,
					      "%lld nulls are claimed, but there is no validity bitmap",
					      (long long)node->null_count);
		return WEIR_OK;
	}
	if (there < weir_bits_size(node->length))
		return weir_error_set(err, WEIR_E_DATA, "a validity bitmap of %llu bytes is too short for %lld rows",
				      (unsigned long long)there, (long long)node->length);
	code = take_bits(rows, span, node->buffer, out, err);
	if (code)
		return code;
	/* A claim about all rows stands until the array is validated; before that nobody looks at more than whether it is 0. */
	*null_count = is_whole(span) && node->null_count >= 0
			      ? node->null_count
			      : (count ? count - weir_bits_count(out->data, 0, count) : 0);
	if (*null_count == 0)
		weir_buffer_release(out);
	return WEIR_OK;
}

static uint32_t value_align(const struct weir_type *type)
{
	unsigned width = type_offset_width(type);

	if (width)
		return width;
	if (type->layout != WEIR_LAYOUT_FIXED || type->id == WEIR_FIXED_BINARY)
		return 1;
	return type->byte_width < 8 ? type->byte_width : 8;
}

static int64_t offset_in(const struct weir_buffer *offsets, unsigned width, int64_t at)
{
	return width == 4 ? ((const int32_t *)offsets->data)[at] : ((const int64_t *)offsets->data)[at];
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
static int take_offsets(struct rows *rows, const struct span *span, int64_t length, struct weir_buffer *out,
			int64_t *first, int64_t *last, struct weir_error *err)
{
	unsigned width = type_offset_width(span->node->type);
	int64_t count = span->end - span->begin;
	int code = take_fixed(rows, span, span->node->buffer + 1, width, width, 1, out, err);

	*first = 0;
	*last = length;
	if (code || is_whole(span))
		return code;
	*first = offset_in(out, width, 0);
	*last = offset_in(out, width, count);
	if (*first < 0 || *last < *first || *last > length)
		return weir_error_set(err, WEIR_E_DATA, "offsets %lld to %lld do not lie within 0 to %lld",
				      (long long)*first, (long long)*last, (long long)length);
	return rebase(rows->layout->account, out, width, count + 1, *first, err);
}

/* ---- nodes ---- */

static int read_span(struct rows *rows, const struct span *span, struct weir_array **out, struct weir_error *err);

static int read_child(struct rows *rows, const struct ipc_node *node, int64_t begin, int64_t end, bool all,
		      struct weir_array **out, struct weir_error *err)
{
	struct span span = {.node = node, .begin = begin, .end = all ? node->length : end};

	if (span.end > node->length)
		return weir_error_set(err, WEIR_E_DATA, "%lld rows where the parent needs %lld",
				      (long long)node->length, (long long)end);
	return read_span(rows, &span, out, err);
}

/* The places in the data buffers that the long views of valid rows use. */
static int measure_views(const struct span *span, const struct weir_buffer *validity, const struct weir_buffer *views,
			 uint64_t *begins, uint64_t *ends, struct weir_error *err)
{
	int32_t words[4];

	for (uint32_t i = 0; i < span->node->variadic; i++) {
		begins[i] = UINT64_MAX;
		ends[i] = 0;
	}
	for (int64_t i = 0; i < span->end - span->begin; i++) {
		uint64_t end;

		if (validity->data && !weir_bit_get(validity->data, i))
			continue;
		memcpy(words, views->data + i * VIEW_SIZE, sizeof(words));
		if (words[0] >= 0 && words[0] <= VIEW_INLINE_MAX)
			continue;
		if (words[0] < 0 || words[2] < 0 || (uint32_t)words[2] >= span->node->variadic || words[3] < 0) {
			weir_error_set(err, WEIR_E_DATA, "a view of %d bytes points outside its buffers", words[0]);
			weir_error_at_row(err, i);
			return err->code;
		}
		end = (uint64_t)words[3] + (uint64_t)words[0];
		if ((uint64_t)words[3] < begins[words[2]])
			begins[words[2]] = (uint64_t)words[3];
		if (end > ends[words[2]])
			ends[words[2]] = end;
	}
	return WEIR_OK;
}

/* Views that point into what is there of their buffers. */
static int rebase_views(struct weir_account *account, const struct span *span, struct weir_buffer *views,
			const uint64_t *begins, const struct weir_buffer *validity, struct weir_error *err)
{
	struct weir_buffer from = *views;
	int32_t words[4];
	uint8_t *to;

	if (weir_buffer_new(account, from.size, views, &to, err)) {
		*views = from;
		return err->code;
	}
	memcpy(to, from.data, from.size);
	weir_buffer_release(&from);
	for (int64_t i = 0; i < span->end - span->begin; i++) {
		if (validity->data && !weir_bit_get(validity->data, i))
			continue;
		memcpy(words, to + i * VIEW_SIZE, sizeof(words));
		if (words[0] <= VIEW_INLINE_MAX)
			continue;
		words[3] -= (int32_t)begins[words[2]];
		memcpy(to + i * VIEW_SIZE, words, sizeof(words));
	}
	return WEIR_OK;
}

static int take_view_data(struct rows *rows, const struct span *span, const struct weir_buffer *validity,
			  struct weir_buffer *views, struct weir_buffer *data, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	size_t size = (size_t)node->variadic * 2 * sizeof(uint64_t);
	uint64_t *begins;
	int code = WEIR_OK;

	for (uint32_t i = 0; is_whole(span) && !code && i < node->variadic; i++)
		code = take_all(rows, node->buffer + 2 + i, 1, &data[i], err);
	if (code || is_whole(span))
		return code;
	begins = weir_alloc(rows->layout->account, size, err);
	if (!begins)
		return err->code;
	code = measure_views(span, validity, views, begins, begins + node->variadic, err);
	for (uint32_t i = 0; !code && i < node->variadic; i++) {
		uint64_t end = begins[node->variadic + i];

		if (end)
			code = take(rows, node->buffer + 2 + i, begins[i], end - begins[i], 1, &data[i], err);
	}
	if (!code)
		code = rebase_views(rows->layout->account, span, views, begins, validity, err);
	weir_free(rows->layout->account, begins, size);
	return code;
}

static int read_views(struct rows *rows, const struct span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct convert_rows convert = {.type = node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, views = {0}, *data = NULL;
	size_t data_size = node->variadic * sizeof(*data);
	int code = take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = take_fixed(rows, span, node->buffer + 1, VIEW_SIZE, 8, 0, &views, err);
	if (!code) {
		data = weir_alloc_zero(rows->layout->account, data_size, err);
		code = data ? take_view_data(rows, span, &validity, &views, data, err) : err->code;
	}
	if (!code) {
		convert.validity = &validity;
		*out = convert_views(rows->layout->account, &convert, &views, data, node->variadic, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; data && i < node->variadic; i++)
		weir_buffer_release(&data[i]);
	weir_free(rows->layout->account, data, data_size);
	weir_buffer_release(&validity);
	weir_buffer_release(&views);
	return code;
}

/* The items that lists of valid rows use; none: first == last. */
static int measure_list_views(const struct span *span, unsigned width, const struct weir_buffer *validity,
			      const struct weir_buffer *offsets, const struct weir_buffer *sizes, int64_t *first,
			      int64_t *last, struct weir_error *err)
{
	*first = INT64_MAX;
	*last = 0;
	for (int64_t i = 0; i < span->end - span->begin; i++) {
		int64_t begin, size, end;

		if (validity->data && !weir_bit_get(validity->data, i))
			continue;
		begin = offset_in(offsets, width, i);
		size = offset_in(sizes, width, i);
		if (begin < 0 || size < 0 || weir_add_overflows(begin, size, &end)) {
			weir_error_set(err, WEIR_E_DATA, "a list of %lld items from item %lld on", (long long)size,
				       (long long)begin);
			weir_error_at_row(err, i);
			return err->code;
		}
		if (size == 0)
			continue;
		*first = begin < *first ? begin : *first;
		*last = end > *last ? end : *last;
	}
	*first = *first < *last ? *first : *last;
	return WEIR_OK;
}

/* Offsets of lists that have items, counted from `first`; those of others are 0, since they may lie anywhere. */
static int rebase_list_views(struct weir_account *account, const struct span *span, unsigned width,
			     struct weir_buffer *offsets, const struct weir_buffer *sizes, int64_t first,
			     struct weir_error *err)
{
	struct weir_buffer from = *offsets;
	uint8_t *to;

	if (from.size == 0)
		return WEIR_OK;
	if (weir_buffer_new(account, from.size, offsets, &to, err)) {
		*offsets = from;
		return err->code;
	}
	for (int64_t i = 0; i < span->end - span->begin; i++) {
		int64_t at = offset_in(sizes, width, i) ? offset_in(&from, width, i) - first : 0;

		if (width == 4)
			((int32_t *)to)[i] = (int32_t)at;
		else
			((int64_t *)to)[i] = at;
	}
	weir_buffer_release(&from);
	return WEIR_OK;
}

static int read_list_views(struct rows *rows, const struct span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct weir_account *account = rows->layout->account;
	struct convert_rows convert = {.type = node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, offsets = {0}, sizes = {0};
	unsigned width = type_offset_width(node->type);
	struct weir_array *items = NULL;
	int64_t first = 0, last = 0;
	int code = take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = take_fixed(rows, span, node->buffer + 1, width, width, 0, &offsets, err);
	if (!code)
		code = take_fixed(rows, span, node->buffer + 2, width, width, 0, &sizes, err);
	if (!code && !is_whole(span)) {
		code = measure_list_views(span, width, &validity, &offsets, &sizes, &first, &last, err);
		if (!code)
			code = rebase_list_views(account, span, width, &offsets, &sizes, first, err);
	}
	if (!code)
		code = read_child(rows, node + 1, first, last, is_whole(span), &items, err);
	/* The conversion gathers rows of it, which must be safe to do. */
	if (!code)
		code = weir_array_validate(items, false, err);
	if (!code) {
		convert.validity = &validity;
		*out = convert_list_views(account, &convert, &offsets, &sizes, items, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_buffer_release(&validity);
	weir_buffer_release(&offsets);
	weir_buffer_release(&sizes);
	weir_array_unref(items);
	return code;
}

static int read_decimals(struct rows *rows, const struct span *span, unsigned width, struct weir_array **out,
			 struct weir_error *err)
{
	struct convert_rows convert = {.type = span->node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, values = {0};
	int code = take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = take_fixed(rows, span, span->node->buffer + 1, width, width, 0, &values, err);
	if (!code) {
		convert.validity = &validity;
		*out = convert_decimals(rows->layout->account, &convert, &values, width, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_buffer_release(&validity);
	weir_buffer_release(&values);
	return code;
}

/* The first run that ends after `row`, by halves. Where the ends do not ascend it finds some run, and the conversion, which
 * looks at all it is given, finds the fault. */
static int find_run(struct rows *rows, const struct ipc_node *ends, int64_t row, int64_t *out, struct weir_error *err)
{
	uint32_t width = ends->type->byte_width;
	int64_t low = 0, high = ends->length;

	while (low < high) {
		int64_t middle = low + (high - low) / 2, end = 0;
		int16_t half;
		int32_t word;
		struct weir_buffer bytes;

		if (take(rows, ends->buffer + 1, (uint64_t)middle * width, width, 1, &bytes, err))
			return err->code;
		switch (width) {
		case 2:
			memcpy(&half, bytes.data, 2);
			end = half;
			break;
		case 4:
			memcpy(&word, bytes.data, 4);
			end = word;
			break;
		default:
			memcpy(&end, bytes.data, 8);
			break;
		}
		weir_buffer_release(&bytes);
		if (end > row)
			high = middle;
		else
			low = middle + 1;
	}
	*out = low;
	return WEIR_OK;
}

static int read_runs(struct rows *rows, const struct span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *ends_node = span->node + 1;
	const struct ipc_node *values_node = rows->layout->nodes.items + ends_node->end;
	struct weir_array *ends = NULL, *values = NULL;
	int64_t first = 0, last = ends_node->length;
	bool whole = is_whole(span);
	int code = WEIR_OK;

	/* Claimed rows are bounded by the buffers only here, where a run may stand for any number of them. */
	if (ends_node->length > values_node->length)
		return weir_error_set(err, WEIR_E_DATA, "%lld runs with %lld values", (long long)ends_node->length,
				      (long long)values_node->length);
	if (!whole && span->end > span->begin) {
		code = find_run(rows, ends_node, span->begin, &first, err);
		if (!code)
			code = find_run(rows, ends_node, span->end - 1, &last, err);
		last += last < ends_node->length;
	}
	if (!code)
		code = read_child(rows, ends_node, first, last, whole, &ends, err);
	if (!code)
		code = read_child(rows, values_node, first, last, whole, &values, err);
	if (!code)
		code = weir_array_validate(ends, false, err);
	if (!code)
		code = weir_array_validate(values, false, err);
	if (!code) {
		*out = convert_runs(rows->layout->account, span->begin, span->end - span->begin, &ends->buffers[1],
				    ends_node->type->byte_width, ends->length, values, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_array_unref(ends);
	weir_array_unref(values);
	return code;
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

static int read_bytes(struct rows *rows, const struct span *span, struct weir_array *array, struct weir_error *err)
{
	uint32_t number = span->node->buffer + 2;
	int64_t first, last;
	uint64_t size = 0;
	int code = buffer_size(rows, number, &size, err);

	if (!code)
		code = take_offsets(rows, span, size < INT64_MAX ? (int64_t)size : INT64_MAX, &array->buffers[1], &first,
				    &last, err);
	if (!code)
		code = take(rows, number, (uint64_t)first, (uint64_t)(last - first), 1, &array->buffers[2], err);
	stand_in(array, &array->buffers[1]);
	if (!array->buffers[2].data)
		array->buffers[2].data = array_zeros;
	return code;
}

static int read_nested(struct rows *rows, const struct span *span, struct weir_array *array, struct weir_error *err)
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
		code = read_child(rows, child, first, last, is_whole(span), &array->children[i], err);
		child = rows->layout->nodes.items + child->end;
	}
	return code;
}

static int read_plain(struct rows *rows, const struct span *span, struct weir_array *array, struct weir_error *err)
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
	code = take_validity(rows, span, &array->buffers[0], &array->null_count, err);
	if (code)
		return code;
	if (type->layout == WEIR_LAYOUT_NESTED)
		return read_nested(rows, span, array, err);
	if (type->layout == WEIR_LAYOUT_BYTES)
		return read_bytes(rows, span, array, err);
	code = type->layout == WEIR_LAYOUT_BITS
		       ? take_bits(rows, span, node->buffer + 1, &array->buffers[1], err)
		       : take_fixed(rows, span, node->buffer + 1, type->byte_width, value_align(type), 0,
				    &array->buffers[1], err);
	stand_in(array, &array->buffers[1]);
	if (code || type->id != WEIR_DICTIONARY_TYPE)
		return code;
	/* A dictionary that was never sent is empty: no code but null fits. */
	values = rows->dictionaries ? rows->dictionaries[node->dictionary] : NULL;
	array->dictionary = values ? weir_array_ref(values)
				   : empty_array(rows->layout->account, type->dictionary_value, err);
	return array->dictionary ? WEIR_OK : err->code;
}

static int read_span(struct rows *rows, const struct span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct weir_array *array;
	int code;

	switch (node->wire) {
	case WIRE_VIEW:
		return read_views(rows, span, out, err);
	case WIRE_LIST_VIEW:
	case WIRE_LARGE_LIST_VIEW:
		return read_list_views(rows, span, out, err);
	case WIRE_DECIMAL_32:
		return read_decimals(rows, span, 4, out, err);
	case WIRE_DECIMAL_64:
		return read_decimals(rows, span, 8, out, err);
	case WIRE_RUN_END_16:
	case WIRE_RUN_END_32:
	case WIRE_RUN_END_64:
		return read_runs(rows, span, out, err);
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
	struct rows rows = {.layout = layout, .body = body, .dictionaries = dictionaries};
	struct span span = {.node = &layout->nodes.items[layout->roots.items[field]], .begin = begin, .end = end};
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
static int offsets_between(struct rows *rows, const struct span *span, uint64_t *out, struct weir_error *err)
{
	unsigned width = type_offset_width(span->node->type);
	const int64_t at[2] = {span->begin, span->end};
	int64_t found[2];

	for (int i = 0; i < 2; i++) {
		struct weir_buffer bytes;

		if (take(rows, span->node->buffer + 1, (uint64_t)at[i] * width, width, width, &bytes, err))
			return err->code;
		found[i] = offset_in(&bytes, width, 0);
		weir_buffer_release(&bytes);
	}
	*out = found[1] > found[0] && found[0] >= 0 ? (uint64_t)(found[1] - found[0]) : 0;
	return WEIR_OK;
}

static int views_between(struct rows *rows, const struct span *span, uint64_t *out, struct weir_error *err)
{
	struct weir_buffer views;
	int32_t size;

	if (take_fixed(rows, span, span->node->buffer + 1, VIEW_SIZE, 8, 0, &views, err))
		return err->code;
	for (uint64_t i = 0; i < views.size / VIEW_SIZE; i++) {
		memcpy(&size, views.data + i * VIEW_SIZE, sizeof(size));
		*out += size > 0 ? (uint64_t)size : 0;
	}
	weir_buffer_release(&views);
	return WEIR_OK;
}

int weir_ipc_column_weigh(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			  const struct weir_ipc_body *body, uint64_t *out, struct weir_error *err)
{
	struct rows rows = {.layout = layout, .body = body};
	struct span span = {.node = &layout->nodes.items[layout->roots.items[column]], .begin = begin, .end = end};
	uint64_t count = (uint64_t)(end - begin), size = weir_ipc_column_size(layout, column), items = 0;
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
		*out = (uint64_t)((double)size / (double)span.node[1].length * (double)items);
	} else {
		*out = (uint64_t)((double)size / (double)layout->row_count * (double)count);
	}
	if (code && *layout->fields[column].name)
		weir_error_at_column(err, layout->fields[column].name);
	return code;
}

static int fetch_memory(void *state, uint64_t offset, uint64_t size, struct weir_buffer *out, struct weir_error *err)
{
	const struct ipc_memory *memory = state;

	(void)err;
	*out = (struct weir_buffer){
		.data = memory->bytes + offset, .size = size, .owner = weir_owner_ref(memory->owner)};
	return WEIR_OK;
}

struct weir_ipc_body ipc_memory_body(struct ipc_memory *memory)
{
	return (struct weir_ipc_body){.fetch = fetch_memory, .state = memory};
}
