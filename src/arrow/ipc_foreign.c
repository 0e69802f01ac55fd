/* Rows of columns whose layout in messages is not ours: views, list views, small decimals, runs. Cut out like any rows,
 * with what they point to, then converted (convert.c).
 *
 * A view of a text points anywhere into several buffers, a list view anywhere into its items; of those the part from
 * the first to the last byte or item that the rows use is fetched. Of runs those that cover the rows, found by halves.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "arrow/arrow_impl.h"
#include "arrow/convert_impl.h"
#include "arrow/ipc_impl.h"

enum { VIEW_SIZE = WEIR_IPC_VIEW_SIZE, VIEW_INLINE_MAX = 12 };

/* The places in the data buffers that the long views of valid rows use. */
static int measure_views(const struct ipc_span *span, const struct weir_buffer *validity,
			 const struct weir_buffer *views, uint64_t *begins, uint64_t *ends, struct weir_error *err)
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
static int rebase_views(struct weir_account *account, const struct ipc_span *span, struct weir_buffer *views,
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

static int take_view_data(struct ipc_rows *rows, const struct ipc_span *span, const struct weir_buffer *validity,
			  struct weir_buffer *views, struct weir_buffer *data, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	size_t size = (size_t)node->variadic * 2 * sizeof(uint64_t);
	uint64_t *begins;
	int code = WEIR_OK;

	for (uint32_t i = 0; ipc_span_is_whole(span) && !code && i < node->variadic; i++)
		code = ipc_take_all(rows, node->buffer + 2 + i, 1, &data[i], err);
	if (code || ipc_span_is_whole(span))
		return code;
	begins = weir_alloc(rows->layout->account, size, err);
	if (!begins)
		return err->code;
	code = measure_views(span, validity, views, begins, begins + node->variadic, err);
	for (uint32_t i = 0; !code && i < node->variadic; i++) {
		uint64_t end = begins[node->variadic + i];

		if (end)
			code = ipc_take(rows, node->buffer + 2 + i, begins[i], end - begins[i], 1, &data[i], err);
	}
	if (!code)
		code = rebase_views(rows->layout->account, span, views, begins, validity, err);
	weir_free(rows->layout->account, begins, size);
	return code;
}

int ipc_read_views(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct convert_rows convert = {.type = node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, views = {0}, *data = NULL;
	size_t data_size = node->variadic * sizeof(*data);
	int code = ipc_take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = ipc_take_fixed(rows, span, node->buffer + 1, VIEW_SIZE, 8, 0, &views, err);
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
static int measure_list_views(const struct ipc_span *span, unsigned width, const struct weir_buffer *validity,
			      const struct weir_buffer *offsets, const struct weir_buffer *sizes, int64_t *first,
			      int64_t *last, struct weir_error *err)
{
	*first = INT64_MAX;
	*last = 0;
	for (int64_t i = 0; i < span->end - span->begin; i++) {
		int64_t begin, size, end;

		if (validity->data && !weir_bit_get(validity->data, i))
			continue;
		begin = ipc_offset_in(offsets, width, i);
		size = ipc_offset_in(sizes, width, i);
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
static int rebase_list_views(struct weir_account *account, const struct ipc_span *span, unsigned width,
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
		int64_t at = ipc_offset_in(sizes, width, i) ? ipc_offset_in(&from, width, i) - first : 0;

		if (width == 4)
			((int32_t *)to)[i] = (int32_t)at;
		else
			((int64_t *)to)[i] = at;
	}
	weir_buffer_release(&from);
	return WEIR_OK;
}

int ipc_read_list_views(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out,
			struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	struct weir_account *account = rows->layout->account;
	struct convert_rows convert = {.type = node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, offsets = {0}, sizes = {0};
	unsigned width = type_offset_width(node->type);
	struct weir_array *items = NULL;
	int64_t first = 0, last = 0;
	int code = ipc_take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = ipc_take_fixed(rows, span, node->buffer + 1, width, width, 0, &offsets, err);
	if (!code)
		code = ipc_take_fixed(rows, span, node->buffer + 2, width, width, 0, &sizes, err);
	if (!code && !ipc_span_is_whole(span)) {
		code = measure_list_views(span, width, &validity, &offsets, &sizes, &first, &last, err);
		if (!code)
			code = rebase_list_views(account, span, width, &offsets, &sizes, first, err);
	}
	if (!code)
		code = ipc_read_child(rows, node + 1, first, last, ipc_span_is_whole(span), &items, err);
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

int ipc_read_decimals(struct ipc_rows *rows, const struct ipc_span *span, unsigned width, struct weir_array **out,
		      struct weir_error *err)
{
	struct convert_rows convert = {.type = span->node->type, .length = span->end - span->begin};
	struct weir_buffer validity = {0}, values = {0};
	int code = ipc_take_validity(rows, span, &validity, &convert.null_count, err);

	if (!code)
		code = ipc_take_fixed(rows, span, span->node->buffer + 1, width, width, 0, &values, err);
	if (!code) {
		convert.validity = &validity;
		*out = convert_decimals(rows->layout->account, &convert, &values, width, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_buffer_release(&validity);
	weir_buffer_release(&values);
	return code;
}

/* The first run that ends after `row`, by halves. Where the ends do not ascend it finds some run, and the conversion,
 * which looks at all it is given, finds the fault. */
static int find_run(struct ipc_rows *rows, const struct ipc_node *ends, int64_t row, int64_t *out,
		    struct weir_error *err)
{
	uint32_t width = ends->type->byte_width;
	int64_t low = 0, high = ends->length;

	while (low < high) {
		int64_t middle = low + (high - low) / 2, end = 0;
		int16_t half;
		int32_t word;
		struct weir_buffer bytes;

		if (ipc_take(rows, ends->buffer + 1, (uint64_t)middle * width, width, 1, &bytes, err))
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

int ipc_read_runs(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out, struct weir_error *err)
{
	const struct ipc_node *ends_node = span->node + 1;
	const struct ipc_node *values_node = rows->layout->nodes.items + ends_node->end;
	struct weir_array *ends = NULL, *values = NULL;
	int64_t first = 0, last = ends_node->length;
	bool whole = ipc_span_is_whole(span);
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
		code = ipc_read_child(rows, ends_node, first, last, whole, &ends, err);
	if (!code)
		code = ipc_read_child(rows, values_node, first, last, whole, &values, err);
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
