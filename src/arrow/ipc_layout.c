/* Where the columns of a record batch lie: its field nodes and buffers, matched to the fields of the schema.
 *
 * A record batch lists nodes (length, nulls) and buffers (offset and length in the body) in the order in which fields
 * open. How many of each a column takes follows from its type and from how it lies in the message (enum ipc_wire):
 *
 *     nodes     a │ b │ b.item │ c │ …            roots: a, b, c
 *     buffers   validity, values │ validity, offsets │ validity, offsets, bytes │ …
 *
 * Everything is copied out, so that the metadata may go while the body is read piece by piece.
 */
#include "arrow/ipc_layout.h"

#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

struct cursor {
	struct weir_ipc_layout *layout;
	struct flat_vector nodes, variadics;
	uint32_t node, buffer, variadic, wire, dictionary;
	int16_t version;
};

void ipc_layout_init(struct weir_ipc_layout *layout, struct weir_account *account, const struct weir_field *fields,
		     uint32_t field_count, const uint8_t *wires)
{
	*layout = (struct weir_ipc_layout){.account = account,
					   .fields = fields,
					   .field_count = field_count,
					   .wires = wires,
					   .codec_kind = CODEC_NONE,
					   .codec = {.account = account}};
}

static void inflated_clear(struct weir_ipc_layout *layout)
{
	for (size_t i = 0; i < layout->inflated.count; i++)
		weir_buffer_release(&layout->inflated.items[i]);
	layout->inflated.count = 0;
}

void ipc_layout_release(struct weir_ipc_layout *layout)
{
	if (!layout->account)
		return;
	inflated_clear(layout);
	weir_list_release(&layout->inflated, layout->account);
	weir_list_release(&layout->nodes, layout->account);
	weir_list_release(&layout->buffers, layout->account);
	weir_list_release(&layout->roots, layout->account);
	ipc_codec_release(&layout->codec);
	*layout = (struct weir_ipc_layout){0};
}

static enum ipc_wire next_wire(struct cursor *c)
{
	return c->layout->wires ? (enum ipc_wire)c->layout->wires[c->wire++] : WIRE_PLAIN;
}

/* Passes over the wires of a dictionary's values, which lie in another message. */
static void skip_wires(struct cursor *c, const struct weir_type *type)
{
	enum ipc_wire wire = next_wire(c);

	if (wire >= WIRE_RUN_END_16) {
		next_wire(c);
		skip_wires(c, type);
		return;
	}
	if (type->id == WEIR_DICTIONARY_TYPE) {
		c->wire--;
		skip_wires(c, type->dictionary_value);
		return;
	}
	for (uint32_t i = 0; i < type->field_count; i++)
		skip_wires(c, type->fields[i].type);
}

static int take_variadic(struct cursor *c, struct ipc_node *node, struct weir_error *err)
{
	int64_t count;

	if (c->variadic >= c->variadics.count)
		return weir_error_set(err, WEIR_E_DATA, "a column of views does not say how many buffers it has");
	memcpy(&count, c->variadics.items + c->variadic++ * sizeof(count), sizeof(count));
	if (count < 0 || (uint64_t)count > c->layout->buffers.count)
		return weir_error_set(err, WEIR_E_DATA, "a column of views claims %lld buffers", (long long)count);
	node->variadic = (uint32_t)count;
	return WEIR_OK;
}

/* The buffers of the node itself. */
static int take_buffers(struct cursor *c, struct ipc_node *node, struct weir_error *err)
{
	uint64_t count;

	node->buffer = c->buffer;
	if (node->wire == WIRE_VIEW) {
		if (take_variadic(c, node, err))
			return err->code;
		count = 2 + (uint64_t)node->variadic;
	} else if (node->wire == WIRE_LIST_VIEW || node->wire == WIRE_LARGE_LIST_VIEW) {
		count = 3;
	} else if (node->wire >= WIRE_RUN_END_16) {
		/* Before version 5 a bitmap, always empty, was listed for runs too. */
		count = c->version == IPC_VERSION_4;
	} else if (node->type->id == WEIR_NULL) {
		count = 0;
	} else if (node->type->layout == WEIR_LAYOUT_BYTES) {
		count = 3;
	} else {
		count = node->type->layout != WEIR_LAYOUT_NESTED || type_offset_width(node->type) ? 2 : 1;
	}
	if (count > c->layout->buffers.count - c->buffer)
		return weir_error_set(err, WEIR_E_DATA, "a record batch has %zu buffers, fewer than its schema needs",
				      c->layout->buffers.count);
	c->buffer += (uint32_t)count;
	return WEIR_OK;
}

static int take_node(struct cursor *c, const struct weir_type *type, struct weir_error *err)
{
	struct weir_ipc_layout *layout = c->layout;
	/* A dictionary's own place in the wires is that of its values, unless it is a value of runs. */
	bool is_code = type->id == WEIR_DICTIONARY_TYPE && (!layout->wires || layout->wires[c->wire] < WIRE_RUN_END_16);
	struct ipc_node node = {.type = type, .wire = is_code ? WIRE_PLAIN : next_wire(c)};
	size_t at = layout->nodes.count;
	struct ipc_pair pair;
	int code = WEIR_OK;

	if (c->node >= c->nodes.count)
		return weir_error_set(err, WEIR_E_DATA,
				      "a record batch has %u field nodes, fewer than its schema needs", c->nodes.count);
	memcpy(&pair, c->nodes.items + c->node++ * sizeof(pair), sizeof(pair));
	if (pair.first < 0 || pair.second < -1 || pair.second > pair.first)
		return weir_error_set(err, WEIR_E_DATA, "a field node claims %lld rows, %lld of them null",
				      (long long)pair.first, (long long)pair.second);
	node.length = pair.first;
	node.null_count = pair.second;
	if (take_buffers(c, &node, err))
		return err->code;
	if (is_code) {
		node.dictionary = c->dictionary;
		c->dictionary += ipc_type_dictionaries(type);
		if (layout->wires)
			skip_wires(c, type->dictionary_value);
	}
	code = weir_list_push(&layout->nodes, layout->account, err, node);
	if (!code && node.wire >= WIRE_RUN_END_16) {
		code = take_node(c,
				 weir_type_of(node.wire == WIRE_RUN_END_16   ? WEIR_INT16
					      : node.wire == WIRE_RUN_END_32 ? WEIR_INT32
									     : WEIR_INT64),
				 err);
		if (!code)
			code = take_node(c, type, err);
	} else if (!code && !is_code) {
		for (uint32_t i = 0; !code && i < type->field_count; i++)
			code = take_node(c, type->fields[i].type, err);
	}
	if (!code)
		layout->nodes.items[at].end = (uint32_t)layout->nodes.count;
	return code;
}

static int copy_buffers(struct weir_ipc_layout *layout, const struct flat_vector *buffers, struct weir_error *err)
{
	if (weir_list_reserve(&layout->buffers, layout->account, err, buffers->count))
		return err->code;
	if (buffers->count)
		memcpy(layout->buffers.items, buffers->items, buffers->count * sizeof(struct ipc_pair));
	layout->buffers.count = buffers->count;
	for (uint32_t i = 0; i < buffers->count; i++) {
		struct ipc_pair at = layout->buffers.items[i];

		if (at.first < 0 || at.second < 0 ||
		    weir_range_outside((uint64_t)at.first, (uint64_t)at.second, layout->body_size))
			return weir_error_set(
				err, WEIR_E_DATA,
				"buffer %u lies outside the message's body: %lld bytes from byte %lld of %llu", i,
				(long long)at.second, (long long)at.first, (unsigned long long)layout->body_size);
	}
	if (layout->codec_kind == CODEC_NONE)
		return WEIR_OK;
	if (weir_list_reserve(&layout->inflated, layout->account, err, buffers->count))
		return err->code;
	if (buffers->count)
		memset(layout->inflated.items, 0, buffers->count * sizeof(struct weir_buffer));
	layout->inflated.count = buffers->count;
	return WEIR_OK;
}

static int read_codec(struct weir_ipc_layout *layout, const struct flat_table *record, const struct flat *flat,
		      struct weir_error *err)
{
	struct flat_table compression;
	uint8_t method = 0;

	layout->codec_kind = CODEC_NONE;
	if (flat_child(record, RECORD_COMPRESSION, &compression)) {
		layout->codec_kind = flat_u8(&compression, COMPRESSION_CODEC, CODEC_LZ4_FRAME);
		method = flat_u8(&compression, COMPRESSION_METHOD, 0);
	}
	if (flat_check(flat, "record batch", err))
		return err->code;
	if (method != 0 || layout->codec_kind > CODEC_ZSTD)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a record batch is compressed in an unknown way");
	if (layout->codec_kind != CODEC_NONE && layout->is_chunk)
		return weir_error_set(err, WEIR_E_DATA, "a chunk is compressed, but chunks never are");
	return WEIR_OK;
}

int ipc_layout_read(struct weir_ipc_layout *layout, const struct ipc_message *message, const struct flat_table *record,
		    struct weir_error *err)
{
	struct flat_vector buffers = flat_items(record, RECORD_BUFFERS, sizeof(struct ipc_pair));
	struct cursor cursor = {.layout = layout,
				.nodes = flat_items(record, RECORD_NODES, sizeof(struct ipc_pair)),
				.variadics = flat_items(record, RECORD_VARIADIC, sizeof(int64_t)),
				.version = message->version};
	int code;

	inflated_clear(layout);
	layout->nodes.count = layout->buffers.count = layout->roots.count = 0;
	layout->row_count = flat_i64(record, RECORD_LENGTH, 0);
	layout->body_size = message->body_size;
	code = read_codec(layout, record, &message->flat, err);
	if (!code && layout->row_count < 0)
		code = weir_error_set(err, WEIR_E_DATA, "a record batch claims %lld rows",
				      (long long)layout->row_count);
	if (!code)
		code = copy_buffers(layout, &buffers, err);
	for (uint32_t i = 0; !code && i < layout->field_count; i++) {
		uint32_t root = (uint32_t)layout->nodes.count;

		code = weir_list_push(&layout->roots, layout->account, err, root);
		if (!code)
			code = take_node(&cursor, layout->fields[i].type, err);
		if (!code && layout->nodes.items[root].length != layout->row_count)
			code = weir_error_set(err, WEIR_E_DATA, "a column has %lld rows in a record batch of %lld",
					      (long long)layout->nodes.items[root].length,
					      (long long)layout->row_count);
		if (code && *layout->fields[i].name)
			weir_error_at_column(err, layout->fields[i].name);
	}
	return code;
}

int weir_ipc_layout_new(struct weir_account *account, const struct weir_ipc_schema *schema,
			struct weir_ipc_layout **out, struct weir_error *err)
{
	const struct weir_schema *columns = schema->parsed.schema;

	*out = weir_alloc(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	ipc_layout_init(*out, account, columns->fields, columns->field_count, schema->parsed.wires.items);
	return WEIR_OK;
}

void weir_ipc_layout_free(struct weir_ipc_layout *layout)
{
	struct weir_account *account;

	if (!layout)
		return;
	account = layout->account;
	ipc_layout_release(layout);
	weir_free(account, layout, sizeof(*layout));
}

int weir_ipc_layout_read(struct weir_ipc_layout *layout, const uint8_t *metadata, uint64_t size, struct weir_error *err)
{
	struct ipc_message message;
	int code = ipc_metadata_open(metadata, size, &message, err);

	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_RECORD_BATCH)
		return weir_error_set(err, WEIR_E_DATA, "the message is not a record batch");
	return ipc_layout_read(layout, &message, &message.header, err);
}

/* The buffers of a column are the ones up to those of the next. */
static uint32_t buffers_end(const struct weir_ipc_layout *layout, uint32_t column)
{
	return column + 1 < layout->roots.count ? layout->nodes.items[layout->roots.items[column + 1]].buffer
						: (uint32_t)layout->buffers.count;
}

uint64_t weir_ipc_column_size(const struct weir_ipc_layout *layout, uint32_t column)
{
	uint64_t size = 0, sum;

	for (uint32_t i = layout->nodes.items[layout->roots.items[column]].buffer; i < buffers_end(layout, column);
	     i++) {
		/* Buffers may overlap, and then add up to anything. */
		if (!weir_add_overflows(size, (uint64_t)layout->buffers.items[i].second, &sum))
			size = sum;
	}
	return size;
}

void weir_ipc_column_span(const struct weir_ipc_layout *layout, uint32_t column, uint64_t *begin, uint64_t *end)
{
	*begin = UINT64_MAX;
	*end = 0;
	for (uint32_t i = layout->nodes.items[layout->roots.items[column]].buffer; i < buffers_end(layout, column);
	     i++) {
		uint64_t first = (uint64_t)layout->buffers.items[i].first;
		uint64_t last = first + (uint64_t)layout->buffers.items[i].second;

		if (first == last)
			continue;
		*begin = first < *begin ? first : *begin;
		*end = last > *end ? last : *end;
	}
	*begin = *begin < *end ? *begin : *end;
}
