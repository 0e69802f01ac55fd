/* The arrays of a record batch over the message's own bytes.
 *
 * A record batch lists field nodes (length, nulls) and buffers (offset, length in the body) in the order in which fields
 * open. The schema says how many of each a column takes. Nothing is copied but compressed buffers, buffers that do not
 * lie on the boundary that their values need, and columns whose layout differs from ours.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/convert_impl.h"
#include "arrow/ipc_impl.h"

struct cursor {
	const struct ipc_source *source;
	const struct ipc_message *message;
	struct flat_vector nodes, buffers, variadics;
	uint32_t node, buffer, variadic, wire, dictionary;
	int codec;
};

static int next_node(struct cursor *c, struct ipc_pair *out, struct weir_error *err)
{
	if (c->node >= c->nodes.count)
		return weir_error_set(err, WEIR_E_DATA,
				      "a record batch has %u field nodes, fewer than its schema needs", c->nodes.count);
	memcpy(out, c->nodes.items + c->node++ * sizeof(*out), sizeof(*out));
	if (out->first < 0 || out->second < -1 || out->second > out->first)
		return weir_error_set(err, WEIR_E_DATA, "a field node claims %lld rows, %lld of them null",
				      (long long)out->first, (long long)out->second);
	return WEIR_OK;
}

/* The next buffer, on a multiple of `align`; data NULL when it is empty. */
static int next_buffer(struct cursor *c, uint32_t align, struct weir_buffer *out, struct weir_error *err)
{
	struct weir_buffer found = {0};
	struct ipc_pair at;
	uint8_t *copy;
	int code;

	*out = found;
	if (c->buffer >= c->buffers.count)
		return weir_error_set(err, WEIR_E_DATA, "a record batch has %u buffers, fewer than its schema needs",
				      c->buffers.count);
	memcpy(&at, c->buffers.items + c->buffer++ * sizeof(at), sizeof(at));
	if (at.first < 0 || at.second < 0 ||
	    weir_range_outside((uint64_t)at.first, (uint64_t)at.second, c->message->body_size))
		return weir_error_set(err, WEIR_E_DATA,
				      "buffer %u lies outside the message's body: %lld bytes from byte %lld of %llu",
				      c->buffer - 1, (long long)at.second, (long long)at.first,
				      (unsigned long long)c->message->body_size);
	if (at.second == 0)
		return WEIR_OK;
	found.data = c->message->body + at.first;
	found.size = (uint64_t)at.second;
	found.owner = c->source->owner;
	if (c->codec == CODEC_NONE) {
		*out = weir_buffer_ref(&found);
	} else {
		code = ipc_decompress(c->source->codec, c->codec, &found, out, err);
		if (code)
			return code;
	}
	if ((uintptr_t)out->data % align == 0)
		return WEIR_OK;
	found = *out;
	code = weir_buffer_new(c->source->account, found.size, out, &copy, err);
	if (!code)
		memcpy(copy, found.data, found.size);
	weir_buffer_release(&found);
	return code;
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

/* Validity of a field, long enough, and its null count. Absent when nothing is null. */
static int next_validity(struct cursor *c, const struct ipc_pair *node, struct weir_buffer *out, int64_t *null_count,
			 struct weir_error *err)
{
	int code = next_buffer(c, 1, out, err);

	*null_count = 0;
	if (code)
		return code;
	if (!out->data || node->second == 0) {
		weir_buffer_release(out);
		if (node->second > 0)
			return weir_error_set(err, WEIR_E_DATA,
					      "%lld nulls are claimed, but there is no validity bitmap",
					      (long long)node->second);
		return WEIR_OK;
	}
	if (out->size < weir_bits_size(node->first)) {
		code = weir_error_set(err, WEIR_E_DATA, "a validity bitmap of %llu bytes is too short for %lld rows",
				      (unsigned long long)out->size, (long long)node->first);
		weir_buffer_release(out);
		return code;
	}
	/* A claim, until the array is validated; what comes before looks only at whether it is 0. */
	*null_count = node->second >= 0 ? node->second : node->first - weir_bits_count(out->data, 0, node->first);
	if (*null_count == 0)
		weir_buffer_release(out);
	return WEIR_OK;
}

static enum ipc_wire next_wire(struct cursor *c)
{
	return c->source->wires ? (enum ipc_wire)c->source->wires[c->wire++] : WIRE_PLAIN;
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

/* The values of the dictionary column at the cursor. A dictionary that was never sent is empty: no code but null fits. */
static struct weir_array *next_dictionary(struct cursor *c, const struct weir_type *type, struct weir_error *err)
{
	struct weir_array *values = c->source->dictionaries[c->dictionary];

	c->dictionary += ipc_type_dictionaries(type);
	if (c->source->wires)
		skip_wires(c, type->dictionary_value);
	return values ? weir_array_ref(values) : empty_array(c->source->account, type->dictionary_value, err);
}

static int next_array(struct cursor *c, const struct weir_type *type, struct weir_array **out, struct weir_error *err);

static int next_views(struct cursor *c, const struct weir_type *type, struct weir_array **out, struct weir_error *err)
{
	struct convert_rows rows = {.type = type};
	struct weir_buffer validity = {0}, views = {0}, *data = NULL;
	uint64_t count_max = c->buffers.count, done = 0;
	struct ipc_pair node;
	int64_t count = 0;
	int code = next_node(c, &node, err);

	if (!code)
		code = next_validity(c, &node, &validity, &rows.null_count, err);
	if (!code)
		code = next_buffer(c, 8, &views, err);
	if (code)
		goto out;
	if (c->variadic >= c->variadics.count) {
		code = weir_error_set(err, WEIR_E_DATA, "a column of views does not say how many buffers it has");
		goto out;
	}
	memcpy(&count, c->variadics.items + c->variadic++ * sizeof(count), sizeof(count));
	if (count < 0 || (uint64_t)count > count_max) {
		code = weir_error_set(err, WEIR_E_DATA, "a column of views claims %lld buffers", (long long)count);
		count = 0;
		goto out;
	}
	data = weir_alloc_zero(c->source->account, (size_t)count * sizeof(*data), err);
	if (!data) {
		code = err->code;
		goto out;
	}
	for (; !code && done < (uint64_t)count; done++)
		code = next_buffer(c, 1, &data[done], err);
	if (code)
		goto out;
	rows.length = node.first;
	rows.validity = &validity;
	*out = convert_views(c->source->account, &rows, &views, data, (uint64_t)count, err);
	code = *out ? WEIR_OK : err->code;
out:
	for (uint64_t i = 0; i < done; i++)
		weir_buffer_release(&data[i]);
	if (data)
		weir_free(c->source->account, data, (size_t)count * sizeof(*data));
	weir_buffer_release(&validity);
	weir_buffer_release(&views);
	return code;
}

static int next_list_views(struct cursor *c, const struct weir_type *type, struct weir_array **out,
			   struct weir_error *err)
{
	struct convert_rows rows = {.type = type};
	struct weir_buffer validity = {0}, offsets = {0}, sizes = {0};
	struct weir_array *items = NULL;
	struct ipc_pair node;
	int code = next_node(c, &node, err);

	if (!code)
		code = next_validity(c, &node, &validity, &rows.null_count, err);
	if (!code)
		code = next_buffer(c, value_align(type), &offsets, err);
	if (!code)
		code = next_buffer(c, value_align(type), &sizes, err);
	if (!code)
		code = next_array(c, type->fields[0].type, &items, err);
	/* The conversion gathers rows of it, which must be safe to do. */
	if (!code)
		code = weir_array_validate(items, false, err);
	if (!code) {
		rows.length = node.first;
		rows.validity = &validity;
		*out = convert_list_views(c->source->account, &rows, &offsets, &sizes, items, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_buffer_release(&validity);
	weir_buffer_release(&offsets);
	weir_buffer_release(&sizes);
	weir_array_unref(items);
	return code;
}

static int next_decimals(struct cursor *c, const struct weir_type *type, unsigned width, struct weir_array **out,
			 struct weir_error *err)
{
	struct convert_rows rows = {.type = type};
	struct weir_buffer validity = {0}, values = {0};
	struct ipc_pair node;
	int code = next_node(c, &node, err);

	if (!code)
		code = next_validity(c, &node, &validity, &rows.null_count, err);
	if (!code)
		code = next_buffer(c, width, &values, err);
	if (!code) {
		rows.length = node.first;
		rows.validity = &validity;
		*out = convert_decimals(c->source->account, &rows, &values, width, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_buffer_release(&validity);
	weir_buffer_release(&values);
	return code;
}

static int next_runs(struct cursor *c, enum ipc_wire wire, const struct weir_type *type, struct weir_array **out,
		     struct weir_error *err)
{
	const struct weir_type *ends_type = weir_type_of(wire == WIRE_RUN_END_16   ? WEIR_INT16
							 : wire == WIRE_RUN_END_32 ? WEIR_INT32
										   : WEIR_INT64);
	struct weir_array *ends = NULL, *values = NULL;
	struct weir_buffer validity = {0};
	struct ipc_pair node;
	int code = next_node(c, &node, err);

	/* Before version 5 a bitmap, always empty, was listed for runs too. */
	if (!code && c->message->version == IPC_VERSION_4)
		code = next_buffer(c, 1, &validity, err);
	weir_buffer_release(&validity);
	if (!code)
		code = next_array(c, ends_type, &ends, err);
	if (!code)
		code = next_array(c, type, &values, err);
	if (!code)
		code = weir_array_validate(ends, false, err);
	if (!code)
		code = weir_array_validate(values, false, err);
	if (!code) {
		*out = convert_runs(c->source->account, 0, node.first, &ends->buffers[1], ends_type->byte_width,
				    ends->length, values, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_array_unref(ends);
	weir_array_unref(values);
	return code;
}

/* Where values must be, but are not, a place for nothing: consumers need no special case for empty arrays. */
static void stand_in(const struct weir_array *array, struct weir_buffer *buffer)
{
	if (!buffer->data && array->length == 0)
		*buffer = (struct weir_buffer){.data = array_zeros, .size = sizeof(array_zeros)};
	else if (!buffer->data)
		buffer->data = array_zeros;
}

static int next_array(struct cursor *c, const struct weir_type *type, struct weir_array **out, struct weir_error *err)
{
	enum ipc_wire wire = type->id == WEIR_DICTIONARY_TYPE && c->source->wires &&
					     c->source->wires[c->wire] < WIRE_RUN_END_16
				     ? WIRE_PLAIN
				     : next_wire(c);
	struct weir_array *array;
	struct ipc_pair node;
	int code;

	if (wire == WIRE_VIEW)
		return next_views(c, type, out, err);
	if (wire == WIRE_LIST_VIEW || wire == WIRE_LARGE_LIST_VIEW)
		return next_list_views(c, type, out, err);
	if (wire == WIRE_DECIMAL_32 || wire == WIRE_DECIMAL_64)
		return next_decimals(c, type, wire == WIRE_DECIMAL_32 ? 4 : 8, out, err);
	if (wire >= WIRE_RUN_END_16)
		return next_runs(c, wire, type, out, err);

	array = weir_array_new(c->source->account, type, err);
	if (!array)
		return err->code;
	code = next_node(c, &node, err);
	if (code)
		goto fail;
	array->length = node.first;
	if (type->id == WEIR_NULL) {
		array->null_count = array->length;
		*out = array;
		return WEIR_OK;
	}
	code = next_validity(c, &node, &array->buffers[0], &array->null_count, err);
	if (!code && (type->layout != WEIR_LAYOUT_NESTED || type_offset_width(type))) {
		code = next_buffer(c, value_align(type), &array->buffers[1], err);
		stand_in(array, &array->buffers[1]);
	}
	if (!code && type->layout == WEIR_LAYOUT_BYTES) {
		code = next_buffer(c, 1, &array->buffers[2], err);
		if (!array->buffers[2].data)
			array->buffers[2].data = array_zeros;
	}
	if (!code && type->id == WEIR_DICTIONARY_TYPE) {
		array->dictionary = next_dictionary(c, type, err);
		code = array->dictionary ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; !code && i < type->field_count; i++)
		code = next_array(c, type->fields[i].type, &array->children[i], err);
	if (code)
		goto fail;
	*out = array;
	return WEIR_OK;
fail:
	weir_array_unref(array);
	return code;
}

int ipc_columns_read(const struct ipc_source *source, const struct ipc_message *message,
		     const struct flat_table *record, const struct weir_field *fields, uint32_t field_count,
		     struct weir_array **out, int64_t *row_count, struct weir_error *err)
{
	struct cursor cursor = {.source = source,
				.message = message,
				.nodes = flat_items(record, RECORD_NODES, sizeof(struct ipc_pair)),
				.buffers = flat_items(record, RECORD_BUFFERS, sizeof(struct ipc_pair)),
				.variadics = flat_items(record, RECORD_VARIADIC, sizeof(int64_t)),
				.codec = CODEC_NONE};
	struct flat_table compression;
	uint32_t done = 0;
	int code;

	*row_count = flat_i64(record, RECORD_LENGTH, 0);
	if (flat_child(record, RECORD_COMPRESSION, &compression))
		cursor.codec = flat_u8(&compression, COMPRESSION_CODEC, CODEC_LZ4_FRAME);
	code = flat_check(&message->flat, "record batch", err);
	if (code)
		return code;
	if (*row_count < 0)
		return weir_error_set(err, WEIR_E_DATA, "a record batch claims %lld rows", (long long)*row_count);
	if (cursor.codec != CODEC_NONE &&
	    (flat_u8(&compression, COMPRESSION_METHOD, 0) != 0 || cursor.codec > CODEC_ZSTD))
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a record batch is compressed in an unknown way");
	if (cursor.codec != CODEC_NONE && !source->codec)
		return weir_error_set(err, WEIR_E_DATA, "a chunk is compressed, but chunks never are");
	for (; !code && done < field_count; done++) {
		out[done] = NULL;
		code = next_array(&cursor, fields[done].type, &out[done], err);
		/* The dictionaries were validated when they came. */
		if (!code)
			code = array_validate_column(out[done], fields[done].name, source->deep ? VALIDATE_DEEP : 0,
						     err);
		if (!code && out[done]->length != *row_count)
			code = weir_error_set(err, WEIR_E_DATA, "a column has %lld rows in a record batch of %lld",
					      (long long)out[done]->length, (long long)*row_count);
		if (code && *fields[done].name)
			weir_error_at_column(err, fields[done].name);
	}
	if (!code)
		return WEIR_OK;
	while (done > 0)
		weir_array_unref(out[--done]);
	return code;
}

int weir_chunk_open(struct weir_account *account, const struct weir_schema *schema, const uint8_t *bytes, uint64_t size,
		    struct weir_owner *owner, struct weir_array *const *dictionaries, bool deep,
		    struct weir_batch **out, struct weir_error *err)
{
	struct ipc_source source = {.account = account, .owner = owner, .dictionaries = dictionaries, .deep = deep};
	size_t columns_size = sizeof(struct weir_array *) * schema->field_count;
	struct weir_array **columns = NULL;
	struct ipc_message message;
	int64_t row_count;
	int code = ipc_message_open(bytes, size, &message, err);

	*out = NULL;
	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_RECORD_BATCH)
		return weir_error_set(err, WEIR_E_DATA, "the chunk is not a record batch");
	columns = weir_alloc(account, columns_size, err);
	if (!columns)
		return err->code;
	code = ipc_columns_read(&source, &message, &message.header, schema->fields, schema->field_count, columns,
				&row_count, err);
	if (code)
		goto out;
	*out = weir_batch_new(account, schema, row_count, columns, err);
	if (!*out)
		code = err->code;
	for (uint32_t i = 0; i < schema->field_count; i++)
		weir_array_unref(columns[i]);
out:
	weir_free(account, columns, columns_size);
	return code;
}
