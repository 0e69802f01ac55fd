/* Arrow files and streams, written. A part is record batches of up to BATCH_ROWS rows, in either:
 *
 *     file     ARROW1, schema │ batches of part 0 │ batches of part 1 │ … │ end mark, footer, ARROW1
 *     stream   schema         │ batches of part 0 │ …                     │ end mark
 *
 * Everything lies on multiples of 64 bytes, so that a mapped file is used where it lies. Dictionary types are written
 * as their values, inside lists and structs too: parts are made in parallel, and a file's dictionaries would have to be
 * agreed on between them.
 */
#include "base/list.h"
#include "arrow/ipc.h"
#include "format/format.h"

#include <string.h>

enum {
	BATCH_ROWS = 65536,
	BATCH_BYTES = 8 << 20,
	/* a batch is closed when so many of its size no longer fit: it is copied, and compressed, on its way */
	ROOM_SHARE = 4,
	HEAD_SIZE = 8,
	ALIGN = 64,
};

struct ipc_part {
	struct weir_part base;
	struct blocks WEIR_LIST(struct weir_ipc_block) blocks; /* offsets from the part's first byte */
};

struct ipc_writer {
	struct weir_account *account;
	struct weir_schema *gathered; /* without dictionary types at the top */
	struct weir_schema *schema;   /* without any */
	struct weir_array **columns;  /* of the batch that is written */
	struct weir_gather *gather;
	struct weir_ipc_compressor *compressor; /* NULL: plain */
	struct weir_byte_sink sink;
	struct blocks blocks;
	uint64_t bytes, bytes_plain, rows;
	int64_t batch_rows;
};

/* ---- types without dictionaries ---- */

static bool has_dictionary(const struct weir_type *type)
{
	if (type->id == WEIR_DICTIONARY_TYPE)
		return true;
	for (uint32_t i = 0; i < type->field_count; i++)
		if (has_dictionary(type->fields[i].type))
			return true;
	return false;
}

/* A new reference; NULL with err set. */
static const struct weir_type *plain_type(struct weir_account *account, const struct weir_type *type,
					  struct weir_error *err)
{
	const struct weir_type *plain = NULL;
	struct weir_field *fields;
	uint32_t done = 0;

	type = weir_type_values(type);
	if (!has_dictionary(type))
		return weir_type_ref(type);
	fields = weir_alloc_zero(account, type->field_count * sizeof(*fields), err);
	if (!fields)
		return NULL;
	for (; done < type->field_count; done++) {
		fields[done] = type->fields[done];
		fields[done].type = plain_type(account, fields[done].type, err);
		if (!fields[done].type)
			break;
	}
	if (done == type->field_count)
		plain = type->id == WEIR_STRUCT
				? weir_type_struct(account, fields, done, err)
				: weir_type_list(account, type->id, &fields[0], type->list_size, type->ordered, err);
	for (uint32_t i = 0; i < done; i++)
		weir_type_unref(fields[i].type);
	weir_free(account, fields, type->field_count * sizeof(*fields));
	return plain;
}

/* `deep`: inside nested types too. */
static struct weir_schema *plain_schema(struct weir_account *account, const struct weir_schema *schema, bool deep,
					struct weir_error *err)
{
	struct weir_field *fields = weir_alloc_zero(account, schema->field_count * sizeof(*fields), err);
	struct weir_schema *plain = NULL;
	uint32_t done = 0;

	if (!fields)
		return NULL;
	for (; done < schema->field_count; done++) {
		fields[done] = schema->fields[done];
		fields[done].type = deep ? plain_type(account, fields[done].type, err)
					 : weir_type_ref(weir_type_values(fields[done].type));
		if (!fields[done].type)
			break;
	}
	if (done == schema->field_count)
		plain = weir_schema_new(account, fields, done, &schema->metadata, err);
	for (uint32_t i = 0; i < done; i++)
		weir_type_unref(fields[i].type);
	weir_free(account, fields, schema->field_count * sizeof(*fields));
	return plain;
}

/* ---- writer ---- */

static void writer_free(struct weir_format_writer *base)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	struct weir_account *account;

	if (!writer)
		return;
	account = writer->account;
	weir_gather_free(writer->gather);
	weir_ipc_compressor_free(writer->compressor);
	if (writer->columns)
		weir_free(account, writer->columns, writer->schema->field_count * sizeof(*writer->columns));
	weir_list_release(&writer->blocks, account);
	weir_schema_unref(writer->schema);
	weir_schema_unref(writer->gathered);
	weir_free(account, writer, sizeof(*writer));
}

static int compressor_new(struct ipc_writer *writer, const struct weir_writer_options *options, struct weir_error *err)
{
	switch (options->codec) {
	case WEIR_CODEC_NONE:
		return WEIR_OK;
	case WEIR_CODEC_ZSTD:
		return weir_ipc_compressor_new(writer->account, WEIR_IPC_ZSTD, options->codec_level,
					       &writer->compressor, err);
	case WEIR_CODEC_LZ4_RAW: /* as people say "lz4" */
	case WEIR_CODEC_LZ4_FRAME:
		return weir_ipc_compressor_new(writer->account, WEIR_IPC_LZ4, options->codec_level, &writer->compressor,
					       err);
	default:
		return weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"Arrow files are compressed with lz4 or zstd, or not at all (none); %s is not for them",
			weir_codec_name(options->codec));
	}
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_format_writer **out,
		      struct weir_error *err)
{
	struct ipc_writer *writer = weir_alloc_zero(account, sizeof(*writer), err);

	if (!writer)
		return err->code;
	writer->account = account;
	writer->batch_rows = options->row_group_rows > 0 ? options->row_group_rows : BATCH_ROWS;
	writer->gathered = plain_schema(account, schema, false, err);
	writer->schema = plain_schema(account, schema, true, err);
	if (writer->gathered && writer->schema)
		writer->columns = weir_alloc_zero(account, schema->field_count * sizeof(*writer->columns), err);
	if (!writer->columns || compressor_new(writer, options, err)) {
		writer_free((struct weir_format_writer *)writer);
		return err->code;
	}
	*out = (struct weir_format_writer *)writer;
	return WEIR_OK;
}

static int part_begin(struct weir_format_writer *base, struct weir_byte_sink sink, struct weir_error *err)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;

	weir_gather_free(writer->gather);
	writer->gather = NULL;
	writer->sink = sink;
	writer->blocks.count = 0;
	writer->bytes = writer->bytes_plain = writer->rows = 0;
	return weir_gather_new(writer->account, writer->gathered, &writer->gather, err);
}

static int send(struct ipc_writer *writer, const uint8_t *bytes, const struct weir_chunk_plan *plan,
		struct weir_error *err)
{
	struct weir_ipc_block block = {
		.offset = writer->bytes, .metadata_size = plan->metadata_size, .body_size = plan->body_size};

	if (weir_list_push(&writer->blocks, writer->account, err, block) ||
	    writer->sink.write(writer->sink.state, bytes, plan->size, err))
		return err->code;
	writer->bytes += plan->size;
	return WEIR_OK;
}

static int write_batch(struct ipc_writer *writer, const struct weir_batch *batch, struct weir_error *err)
{
	struct weir_buffer plain = {0}, packed = {0};
	struct weir_chunk_plan plan;
	uint8_t *bytes;
	int code = weir_chunk_measure(batch, &plan, err);

	if (!code)
		code = weir_buffer_new(writer->account, plan.size, &plain, &bytes, err);
	if (!code)
		code = weir_chunk_write(batch, &plan, bytes, err);
	writer->bytes_plain += code ? 0 : plan.size;
	if (!code && writer->compressor)
		code = weir_ipc_compress(writer->compressor, plain.data, plain.size, &packed, &plan, err);
	if (!code)
		code = send(writer, packed.data ? packed.data : plain.data, &plan, err);
	weir_buffer_release(&plain);
	weir_buffer_release(&packed);
	return code;
}

/* The batch with dictionaries inside nested columns replaced by their values. */
static int plain_batch(struct ipc_writer *writer, struct weir_batch **batch, struct weir_error *err)
{
	struct weir_batch *plain = NULL;
	uint32_t count = (*batch)->column_count, done = 0;

	if (weir_schema_equal(writer->gathered, writer->schema, false))
		return WEIR_OK;
	for (; done < count; done++) {
		struct weir_array *column = (*batch)->columns[done];

		writer->columns[done] = has_dictionary(column->type)
						? weir_array_promote(writer->account, column,
								     writer->schema->fields[done].type, err)
						: weir_array_ref(column);
		if (!writer->columns[done])
			break;
	}
	if (done == count)
		plain = weir_batch_new(writer->account, writer->schema, (*batch)->row_count, writer->columns, err);
	while (done > 0)
		weir_array_unref(writer->columns[--done]);
	if (!plain)
		return err->code;
	weir_batch_unref(*batch);
	*batch = plain;
	return WEIR_OK;
}

static int flush(struct ipc_writer *writer, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code;

	if (weir_gather_rows(writer->gather) == 0)
		return WEIR_OK;
	code = weir_gather_finish(writer->gather, &batch, err);
	if (!code)
		code = plain_batch(writer, &batch, err);
	if (!code)
		code = write_batch(writer, batch, err);
	if (!code)
		writer->rows += (uint64_t)batch->row_count;
	weir_batch_unref(batch);
	return code;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	uint64_t bytes;
	int code = WEIR_OK;

	if (weir_gather_rows(writer->gather) + vector->selection.count > writer->batch_rows)
		code = flush(writer, err);
	if (!code)
		code = weir_gather_push(writer->gather, vector, err);
	bytes = code ? 0 : weir_gather_bytes(writer->gather);
	if (!code && (bytes >= BATCH_BYTES || (int64_t)bytes * ROOM_SHARE > weir_account_room(writer->account)))
		code = flush(writer, err);
	return code;
}

static void part_free(struct weir_account *account, struct weir_part *base)
{
	struct ipc_part *part = (struct ipc_part *)base;

	weir_list_release(&part->blocks, account);
	weir_free(account, part, sizeof(*part));
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	struct ipc_part *part;
	int code = flush(writer, err);

	if (code)
		return code;
	part = weir_alloc_zero(account, sizeof(*part), err);
	if (!part)
		return err->code;
	part->base = (struct weir_part){
		.bytes = writer->bytes, .rows = writer->rows, .bytes_decoded = writer->bytes_plain};
	if (weir_list_reserve(&part->blocks, account, err, writer->blocks.count)) {
		part_free(account, &part->base);
		return err->code;
	}
	if (writer->blocks.count)
		memcpy(part->blocks.items, writer->blocks.items, writer->blocks.count * sizeof(*part->blocks.items));
	part->blocks.count = writer->blocks.count;
	*out = &part->base;
	return WEIR_OK;
}

/* ---- what lies around the parts ---- */

static int stream_header(struct weir_account *account, const struct weir_schema *schema,
			 const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	struct weir_schema *plain = plain_schema(account, schema, true, err);
	struct weir_text message;
	int code;

	(void)options;
	if (!plain)
		return err->code;
	weir_text_init(&message, account);
	code = weir_ipc_write_schema(plain, &message, err);
	if (!code)
		code = sink.write(sink.state, message.data, message.size, err);
	weir_text_release(&message);
	weir_schema_unref(plain);
	return code;
}

static int file_header(struct weir_account *account, const struct weir_schema *schema,
		       const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	static const uint8_t zeros[ALIGN - HEAD_SIZE];
	struct weir_schema *plain = plain_schema(account, schema, true, err);
	struct weir_text bytes;
	uint32_t length;
	int code;

	(void)options;
	if (!plain)
		return err->code;
	weir_text_init(&bytes, account);
	code = weir_text_append(&bytes, WEIR_IPC_MAGIC, HEAD_SIZE, err);
	if (!code)
		code = weir_ipc_write_schema(plain, &bytes, err);
	/* The magic has shifted the schema off its boundary: zeros behind it, which its length counts, bring the parts
	 * back. */
	if (!code)
		code = weir_text_append(&bytes, zeros, sizeof(zeros), err);
	if (!code) {
		memcpy(&length, bytes.data + HEAD_SIZE + 4, sizeof(length));
		length += (uint32_t)sizeof(zeros);
		memcpy(bytes.data + HEAD_SIZE + 4, &length, sizeof(length));
		code = sink.write(sink.state, bytes.data, bytes.size, err);
	}
	weir_text_release(&bytes);
	weir_schema_unref(plain);
	return code;
}

static int stream_footer(struct weir_account *account, const struct weir_schema *schema,
			 const struct weir_writer_options *options, struct weir_part *const *parts,
			 const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)account;
	(void)schema;
	(void)options;
	(void)parts;
	(void)offsets;
	(void)count;
	return sink.write(sink.state, WEIR_IPC_EOS, WEIR_IPC_EOS_SIZE, err);
}

static int file_footer(struct weir_account *account, const struct weir_schema *schema,
		       const struct weir_writer_options *options, struct weir_part *const *parts,
		       const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	struct weir_schema *plain = plain_schema(account, schema, true, err);
	struct blocks blocks = {0};
	struct weir_text bytes;
	int code = plain ? WEIR_OK : err->code;

	(void)options;
	weir_text_init(&bytes, account);
	for (uint32_t i = 0; !code && i < count; i++) {
		const struct ipc_part *part = (const struct ipc_part *)parts[i];

		for (size_t k = 0; !code && k < part->blocks.count; k++) {
			struct weir_ipc_block block = part->blocks.items[k];

			block.offset += offsets[i];
			code = weir_list_push(&blocks, account, err, block);
		}
	}
	if (!code)
		code = weir_text_append(&bytes, WEIR_IPC_EOS, WEIR_IPC_EOS_SIZE, err);
	if (!code)
		code = weir_ipc_write_footer(plain, blocks.items, (uint32_t)blocks.count, &bytes, err);
	if (!code)
		code = sink.write(sink.state, bytes.data, bytes.size, err);
	weir_text_release(&bytes);
	weir_list_release(&blocks, account);
	weir_schema_unref(plain);
	return code;
}

const struct weir_writer_ops weir_arrow_writer = {
	.name = "arrow",
	.extension = ".arrow",
	.in_pipes = &weir_arrows_writer,
	.codec = WEIR_CODEC_NONE,
	.writer_new = writer_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = file_header,
	.footer = file_footer,
	.writer_free = writer_free,
};

const struct weir_writer_ops weir_arrows_writer = {
	.name = "arrows",
	.extension = ".arrows",
	.codec = WEIR_CODEC_NONE,
	.writer_new = writer_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = stream_header,
	.footer = stream_footer,
	.writer_free = writer_free,
};
