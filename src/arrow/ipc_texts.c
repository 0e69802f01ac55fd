/* Texts of a column of views where they lie.
 *
 *     in the message   size │ prefix │ buffer, offset        or   size │ up to 12 bytes
 *     here             size │ prefix │ pointer               or   the same, zeros behind the text
 *
 * Texts usually lie one behind the other in their buffers, so UTF-8 is checked for the whole part that is there, and
 * that no text begins or ends inside a character. Where that fails it may be the fault of bytes that no row uses: then
 * row by row.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

enum { INLINE_MAX = 12 };
_Static_assert(sizeof(struct weir_ipc_text) == WEIR_IPC_VIEW_SIZE, "a text takes the place of its view");

/* A view as messages have it. */
struct wire_view {
	int32_t size;
	uint8_t prefix[4];
	int32_t buffer, offset;
};

struct part {
	uint64_t begin, end; /* of a data buffer */
	bool is_text;        /* all of it is UTF-8 */
};

static int outside(const struct wire_view *view, int64_t row, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA, "a view of %d bytes points outside its buffers", view->size);
	weir_error_at_row(err, row);
	return err->code;
}

/* Which part of each data buffer the rows use. */
static int measure(const struct weir_ipc_texts *texts, const struct wire_view *views, int64_t count, struct part *parts,
		   struct weir_error *err)
{
	const uint8_t *validity = texts->validity.data;

	for (uint32_t i = 0; i < texts->data_count; i++)
		parts[i] = (struct part){.begin = UINT64_MAX};
	for (int64_t i = 0; i < count; i++) {
		const struct wire_view *view = &views[i];
		struct part *part;

		if ((uint32_t)view->size <= INLINE_MAX || (validity && !weir_bit_get(validity, i)))
			continue;
		if (view->size < 0 || view->buffer < 0 || (uint32_t)view->buffer >= texts->data_count ||
		    view->offset < 0)
			return outside(view, i, err);
		part = &parts[view->buffer];
		if ((uint64_t)view->offset < part->begin)
			part->begin = (uint64_t)view->offset;
		if ((uint64_t)view->offset + (uint64_t)view->size > part->end)
			part->end = (uint64_t)view->offset + (uint64_t)view->size;
	}
	return WEIR_OK;
}

static int not_text(int64_t row, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA, "a string value is not valid UTF-8");
	weir_error_at_row(err, row);
	return err->code;
}

/* Whether a character, rather than the inside of one, begins at `bytes`, or nothing does. */
static bool is_edge(const uint8_t *bytes, const uint8_t *end)
{
	return bytes == end || (*bytes & 0xc0) != 0x80;
}

static int fill(const struct weir_ipc_texts *texts, const struct wire_view *views, int64_t count,
		const struct part *parts, bool is_text, struct weir_ipc_text *out, struct weir_error *err)
{
	const uint8_t *validity = texts->validity.data;

	for (int64_t i = 0; i < count; i++) {
		const struct wire_view *view = &views[i];
		uint32_t size = (uint32_t)view->size;

		if (validity && !weir_bit_get(validity, i)) {
			out[i] = (struct weir_ipc_text){0};
		} else if (size <= INLINE_MAX) {
			uint64_t low = 0, high = 0;
			uint8_t *text = out[i].prefix;

			/* Two words of which the bytes behind the text are zero, whatever the file has there. */
			memcpy(&low, view->prefix, 8);
			memcpy(&high, (const uint8_t *)view + 8, 8);
			low = size >= 8 ? low : size ? low & ~UINT64_C(0) >> (64 - 8 * size) : 0;
			high = size > 4 ? high & ~UINT64_C(0) >> (64 - 8 * (size - 4)) : 0;
			out[i].size = size;
			memcpy(text, &low, 4);
			memcpy(text + 4, &high, 8);
			if (is_text && (low | high) & UINT64_C(0x8080808080808080) && !weir_utf8_valid(text, size))
				return not_text(i, err);
		} else {
			const struct weir_buffer *data = &texts->data[view->buffer];
			const struct part *part = &parts[view->buffer];
			const uint8_t *text = data->data + ((uint64_t)view->offset - part->begin);

			out[i].size = size;
			memcpy(out[i].prefix, text, 4);
			out[i].data = text;
			if (is_text &&
			    !(part->is_text && is_edge(text, NULL) && is_edge(text + size, data->data + data->size)) &&
			    !weir_utf8_valid(text, size))
				return not_text(i, err);
		}
	}
	return WEIR_OK;
}

static int read_texts(struct ipc_rows *rows, const struct ipc_span *span, struct weir_ipc_texts *out,
		      struct part *parts, struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	int64_t count = span->end - span->begin, null_count;
	bool is_text = weir_type_is_text(node->type);
	struct weir_buffer views = {0};
	uint8_t *texts;
	int code = ipc_take_validity(rows, span, &out->validity, &null_count, err);

	if (!code)
		code = ipc_take_fixed(rows, span, node->buffer + 1, WEIR_IPC_VIEW_SIZE, 8, 0, &views, err);
	if (!code && (uint64_t)count > views.size / WEIR_IPC_VIEW_SIZE)
		code = weir_error_set(err, WEIR_E_DATA, "a buffer of views has %llu bytes, too few for %lld rows",
				      (unsigned long long)views.size, (long long)count);
	if (!code)
		code = measure(out, (const struct wire_view *)views.data, count, parts, err);
	for (uint32_t i = 0; !code && i < out->data_count; i++) {
		if (parts[i].end == 0)
			continue;
		code = ipc_take(rows, node->buffer + 2 + i, parts[i].begin, parts[i].end - parts[i].begin, 1,
				&out->data[i], err);
		if (!code && is_text)
			parts[i].is_text = weir_utf8_valid(out->data[i].data, out->data[i].size);
	}
	if (!code)
		code = weir_buffer_new(rows->layout->account, (uint64_t)count * WEIR_IPC_VIEW_SIZE, &out->texts, &texts,
				       err);
	if (!code)
		code = fill(out, (const struct wire_view *)views.data, count, parts, is_text,
			    (struct weir_ipc_text *)texts, err);
	weir_buffer_release(&views);
	return code;
}

bool weir_ipc_column_is_views(const struct weir_ipc_layout *layout, uint32_t column)
{
	return layout->nodes.items[layout->roots.items[column]].wire == WIRE_VIEW;
}

int weir_ipc_column_texts(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			  const struct weir_ipc_body *body, struct weir_ipc_texts *out, struct weir_error *err)
{
	struct ipc_rows rows = {.layout = layout, .body = body};
	struct ipc_span span = {.node = &layout->nodes.items[layout->roots.items[column]], .begin = begin, .end = end};
	uint32_t count = span.node->variadic;
	struct part *parts;
	int code;

	WEIR_ASSERT(span.node->wire == WIRE_VIEW && begin >= 0 && begin <= end && end <= layout->row_count);
	*out = (struct weir_ipc_texts){.account = layout->account};
	out->data = weir_alloc_zero(layout->account, count * sizeof(*out->data), err);
	if (!out->data)
		return err->code;
	out->data_count = count;
	parts = weir_alloc(layout->account, count * sizeof(*parts), err);
	code = parts ? read_texts(&rows, &span, out, parts, err) : err->code;
	weir_free(layout->account, parts, count * sizeof(*parts));
	if (!code)
		return WEIR_OK;
	weir_ipc_texts_release(out);
	if (*layout->fields[column].name)
		weir_error_at_column(err, layout->fields[column].name);
	return code;
}

void weir_ipc_texts_release(struct weir_ipc_texts *texts)
{
	weir_buffer_release(&texts->validity);
	weir_buffer_release(&texts->texts);
	for (uint32_t i = 0; i < texts->data_count; i++)
		weir_buffer_release(&texts->data[i]);
	if (texts->account)
		weir_free(texts->account, texts->data, texts->data_count * sizeof(*texts->data));
	*texts = (struct weir_ipc_texts){0};
}
