/* The reader of a stream or a file that lies in memory.
 *
 *     stream:  schema │ dictionary … │ record batch │ dictionary delta │ record batch │ … │ end mark
 *     file:    ARROW1 │ the same as a stream │ footer │ its size │ ARROW1
 *
 * A stream is read from front to back: a dictionary replaces the one with its id or, as a delta, is appended to it, and
 * the batches behind it see the change. A file's footer says where the messages are: all its dictionaries are read
 * first, none of them may be replaced, then the batches in the footer's order.
 */
#include "base/checked.h"
#include "arrow/ipc_impl.h"

#include <string.h>

enum { FILE_HEAD = 8, FOOTER_SIZE_SIZE = 4 };

struct weir_ipc_reader {
	struct weir_account *account;
	const uint8_t *bytes;
	uint64_t size, position; /* position: in a stream, of the next message */
	struct weir_owner *owner;
	struct ipc_schema schema;
	struct weir_ipc_dictionaries dictionaries;
	struct weir_ipc_layout layout; /* of the batch at hand */
	struct weir_array **columns;   /* room for one batch */
	bool is_file, at_end;
	struct flat_vector blocks; /* of a file: its record batches */
	uint32_t block;
	struct flat footer; /* what `blocks` lies in */
};

static int message_at(struct weir_ipc_reader *reader, uint64_t offset, uint64_t size, struct ipc_message *out,
		      struct weir_error *err)
{
	int code = ipc_message_open(reader->bytes + offset, size, out, err);

	if (code)
		weir_error_at_offset(err, offset);
	return code;
}

static int read_dictionary(struct weir_ipc_reader *reader, const struct ipc_message *message, struct weir_error *err)
{
	struct ipc_memory memory = {.bytes = message->body, .owner = reader->owner};
	struct weir_ipc_body body = ipc_memory_body(&memory);

	return ipc_dictionaries_read(&reader->dictionaries, message, &body, err);
}

/* All columns of a record batch. */
static int read_columns(struct weir_ipc_layout *layout, const struct ipc_message *message, struct weir_owner *owner,
			struct weir_array *const *dictionaries, bool deep, struct weir_array **out,
			struct weir_error *err)
{
	struct ipc_memory memory = {.bytes = message->body, .owner = owner};
	struct weir_ipc_body body = ipc_memory_body(&memory);
	uint32_t done = 0;
	int code = ipc_layout_read(layout, message, &message->header, err);

	for (; !code && done < layout->field_count; done += !code)
		code = ipc_rows_read(layout, done, 0, layout->row_count, &body, dictionaries, deep, &out[done], err);
	while (code && done > 0)
		weir_array_unref(out[--done]);
	return code;
}

static int read_batch(struct weir_ipc_reader *reader, const struct ipc_message *message, struct weir_batch **out,
		      struct weir_error *err)
{
	const struct weir_schema *schema = reader->schema.schema;
	int code = read_columns(&reader->layout, message, reader->owner, reader->dictionaries.values, true,
				reader->columns, err);

	if (code)
		return code;
	*out = weir_batch_new(reader->account, schema, reader->layout.row_count, reader->columns, err);
	for (uint32_t i = 0; i < schema->field_count; i++)
		weir_array_unref(reader->columns[i]);
	return *out ? WEIR_OK : err->code;
}

int weir_chunk_open(struct weir_account *account, const struct weir_schema *schema, const uint8_t *bytes, uint64_t size,
		    struct weir_owner *owner, struct weir_array *const *dictionaries, bool deep,
		    struct weir_batch **out, struct weir_error *err)
{
	size_t columns_size = sizeof(struct weir_array *) * schema->field_count;
	struct weir_array **columns;
	struct weir_ipc_layout layout;
	struct ipc_message message;
	int code = ipc_message_open(bytes, size, &message, err);

	*out = NULL;
	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_RECORD_BATCH)
		return weir_error_set(err, WEIR_E_DATA, "the chunk is not a record batch");
	columns = weir_alloc(account, columns_size, err);
	if (!columns)
		return err->code;
	ipc_layout_init(&layout, account, schema->fields, schema->field_count, NULL);
	layout.is_chunk = true;
	code = read_columns(&layout, &message, owner, dictionaries, deep, columns, err);
	if (!code) {
		*out = weir_batch_new(account, schema, layout.row_count, columns, err);
		code = *out ? WEIR_OK : err->code;
		for (uint32_t i = 0; i < schema->field_count; i++)
			weir_array_unref(columns[i]);
	}
	ipc_layout_release(&layout);
	weir_free(account, columns, columns_size);
	return code;
}

/* One message of a block that the footer names. */
static int block_message(struct weir_ipc_reader *reader, const struct flat_vector *blocks, uint32_t index,
			 uint8_t header_type, struct ipc_message *out, uint64_t *offset, struct weir_error *err)
{
	struct ipc_file_block block;
	uint64_t size;
	int code;

	memcpy(&block, blocks->items + (uint64_t)index * sizeof(block), sizeof(block));
	*offset = (uint64_t)block.offset;
	if (block.offset < 0 || block.metadata_size < 0 || block.body_size < 0 ||
	    weir_add_overflows((uint64_t)block.metadata_size, (uint64_t)block.body_size, &size) ||
	    weir_range_outside(*offset, size, reader->size))
		return weir_error_set(err, WEIR_E_DATA,
				      "the footer names a block outside the file: %lld bytes from byte %lld",
				      (long long)block.body_size, (long long)block.offset);
	code = message_at(reader, *offset, size, out, err);
	if (code)
		return code;
	if (out->metadata_size == 0 || out->header_type != header_type)
		code = weir_error_set(err, WEIR_E_DATA, "the footer names a block that is of another kind");
	if (code)
		weir_error_at_offset(err, *offset);
	return code;
}

static int open_schema(struct weir_ipc_reader *reader, struct flat *flat, const struct flat_table *table,
		       struct weir_error *err)
{
	int code = ipc_schema_parse(reader->account, flat, table, &reader->schema, err);

	if (code)
		return code;
	code = ipc_dictionaries_init(&reader->dictionaries, reader->account, &reader->schema, !reader->is_file, err);
	if (code)
		return code;
	for (uint32_t i = 0; i < reader->schema.schema->field_count; i++)
		weir_ipc_dictionaries_want(&reader->dictionaries, i);
	ipc_layout_init(&reader->layout, reader->account, reader->schema.schema->fields,
			reader->schema.schema->field_count, reader->schema.wires.items);
	reader->columns = weir_alloc_zero(reader->account,
					  reader->schema.schema->field_count * sizeof(*reader->columns), err);
	return reader->columns ? WEIR_OK : err->code;
}

static int open_stream(struct weir_ipc_reader *reader, struct weir_error *err)
{
	struct ipc_message message;
	int code = message_at(reader, 0, reader->size, &message, err);

	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_SCHEMA)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow stream does not begin with a schema");
	reader->position = message.metadata_size + message.body_size;
	return open_schema(reader, &message.flat, &message.header, err);
}

static int open_file(struct weir_ipc_reader *reader, struct weir_error *err)
{
	uint64_t tail = FOOTER_SIZE_SIZE + WEIR_IPC_MAGIC_SIZE, footer_at, offset;
	struct flat_vector dictionaries;
	struct flat_table footer, schema;
	struct ipc_message message;
	uint32_t footer_size;
	int code;

	if (reader->size < FILE_HEAD + tail ||
	    memcmp(reader->bytes + reader->size - WEIR_IPC_MAGIC_SIZE, WEIR_IPC_MAGIC, WEIR_IPC_MAGIC_SIZE))
		return weir_error_set(err, WEIR_E_DATA, "the Arrow file is cut short: its end mark is missing");
	memcpy(&footer_size, reader->bytes + reader->size - tail, sizeof(footer_size));
	if (footer_size > INT32_MAX || footer_size > reader->size - tail - FILE_HEAD)
		return weir_error_set(err, WEIR_E_DATA, "the Arrow file's footer claims %u bytes", footer_size);
	footer_at = reader->size - tail - footer_size;
	flat_open(&reader->footer, reader->bytes + footer_at, footer_size, &footer);
	flat_child(&footer, FOOTER_SCHEMA, &schema);
	dictionaries = flat_items(&footer, FOOTER_DICTIONARIES, sizeof(struct ipc_file_block));
	reader->blocks = flat_items(&footer, FOOTER_RECORD_BATCHES, sizeof(struct ipc_file_block));
	code = flat_check(&reader->footer, "footer of the Arrow file", err);
	if (!code)
		code = open_schema(reader, &reader->footer, &schema, err);
	if (code) {
		weir_error_at_offset(err, footer_at);
		return code;
	}
	for (uint32_t i = 0; !code && i < dictionaries.count; i++) {
		code = block_message(reader, &dictionaries, i, HEADER_DICTIONARY, &message, &offset, err);
		if (!code)
			code = read_dictionary(reader, &message, err);
		if (code)
			weir_error_at_offset(err, offset);
	}
	return code;
}

int weir_ipc_reader_new(struct weir_account *account, const uint8_t *bytes, uint64_t size, struct weir_owner *owner,
			struct weir_ipc_reader **out, struct weir_error *err)
{
	struct weir_ipc_reader *reader = weir_alloc_zero(account, sizeof(*reader), err);
	int code;

	*out = NULL;
	if (!reader)
		return err->code;
	reader->account = account;
	reader->bytes = bytes;
	reader->size = size;
	reader->owner = weir_owner_ref(owner);
	reader->is_file = size >= WEIR_IPC_MAGIC_SIZE && !memcmp(bytes, WEIR_IPC_MAGIC, WEIR_IPC_MAGIC_SIZE);
	code = reader->is_file ? open_file(reader, err) : open_stream(reader, err);
	if (code)
		weir_ipc_reader_free(reader);
	else
		*out = reader;
	return code;
}

const struct weir_schema *weir_ipc_reader_schema(const struct weir_ipc_reader *reader)
{
	return reader->schema.schema;
}

static int next_in_file(struct weir_ipc_reader *reader, struct weir_batch **out, struct weir_error *err)
{
	struct ipc_message message;
	uint64_t offset;
	int code;

	if (reader->block == reader->blocks.count)
		return WEIR_OK;
	code = block_message(reader, &reader->blocks, reader->block, HEADER_RECORD_BATCH, &message, &offset, err);
	if (!code)
		code = read_batch(reader, &message, out, err);
	if (code)
		weir_error_at_offset(err, offset);
	else
		reader->block++;
	return code;
}

static int next_in_stream(struct weir_ipc_reader *reader, struct weir_batch **out, struct weir_error *err)
{
	struct ipc_message message;
	int code = WEIR_OK;

	while (!code && !*out && !reader->at_end) {
		uint64_t offset = reader->position;

		/* Streams may also just end, between messages. */
		if (offset == reader->size) {
			reader->at_end = true;
			break;
		}
		code = message_at(reader, offset, reader->size - offset, &message, err);
		if (code)
			break;
		if (message.metadata_size == 0) {
			reader->at_end = true;
			break;
		}
		if (message.header_type == HEADER_DICTIONARY)
			code = read_dictionary(reader, &message, err);
		else if (message.header_type == HEADER_RECORD_BATCH)
			code = read_batch(reader, &message, out, err);
		else if (message.header_type == HEADER_SCHEMA)
			code = weir_error_set(err, WEIR_E_DATA, "an Arrow stream has a second schema");
		else
			code = weir_error_set(err, WEIR_E_UNSUPPORTED, "Arrow messages of kind %u are not supported",
					      message.header_type);
		if (code)
			weir_error_at_offset(err, offset);
		else
			reader->position = offset + message.metadata_size + message.body_size;
	}
	return code;
}

int weir_ipc_reader_next(struct weir_ipc_reader *reader, struct weir_batch **out, struct weir_error *err)
{
	*out = NULL;
	return reader->is_file ? next_in_file(reader, out, err) : next_in_stream(reader, out, err);
}

void weir_ipc_reader_free(struct weir_ipc_reader *reader)
{
	if (!reader)
		return;
	ipc_layout_release(&reader->layout);
	ipc_dictionaries_release(&reader->dictionaries);
	if (reader->columns)
		weir_free(reader->account, reader->columns,
			  reader->schema.schema->field_count * sizeof(*reader->columns));
	ipc_schema_release(&reader->schema);
	weir_owner_unref(reader->owner);
	weir_free(reader->account, reader, sizeof(*reader));
}
