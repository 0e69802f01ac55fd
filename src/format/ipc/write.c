/* Arrow IPC stream, written: the schema message is the header, record batches are the parts, the end-of-stream marker is the
 * footer. Dictionary types are written as their values: a stream's dictionaries would have to be agreed on between parts. */
#include "arrow/ipc.h"
#include "format/format.h"

#include <string.h>

enum { BATCH_ROWS = 65536, BATCH_BYTES = 8 << 20 };

struct ipc_writer {
	struct weir_account *account;
	struct weir_schema *schema; /* without dictionary types */
	struct weir_gather *gather;
	struct weir_byte_sink sink;
	uint64_t bytes, rows;
};

static struct weir_schema *plain_schema(struct weir_account *account, const struct weir_schema *schema,
					struct weir_error *err)
{
	struct weir_field *fields = weir_alloc_zero(account, schema->field_count * sizeof(*fields), err);
	struct weir_schema *plain = NULL;

	if (!fields)
		return NULL;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		fields[i] = schema->fields[i];
		fields[i].type = weir_type_values(fields[i].type);
	}
	plain = weir_schema_new(account, fields, schema->field_count, &schema->metadata, err);
	weir_free(account, fields, schema->field_count * sizeof(*fields));
	return plain;
}

static void writer_free(struct weir_format_writer *base)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	struct weir_account *account;

	if (!writer)
		return;
	account = writer->account;
	weir_gather_free(writer->gather);
	weir_schema_unref(writer->schema);
	weir_free(account, writer, sizeof(*writer));
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_format_writer **out, struct weir_error *err)
{
	struct ipc_writer *writer = weir_alloc_zero(account, sizeof(*writer), err);

	(void)options;
	if (!writer)
		return err->code;
	writer->account = account;
	writer->schema = plain_schema(account, schema, err);
	if (!writer->schema) {
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
	writer->bytes = writer->rows = 0;
	return weir_gather_new(writer->account, writer->schema, &writer->gather, err);
}

static int flush(struct ipc_writer *writer, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	struct weir_chunk_plan plan;
	uint8_t *bytes = NULL;
	int code;

	if (weir_gather_rows(writer->gather) == 0)
		return WEIR_OK;
	code = weir_gather_finish(writer->gather, &batch, err);
	if (!code)
		code = weir_chunk_measure(batch, &plan, err);
	if (!code) {
		bytes = weir_alloc(writer->account, plan.size, err);
		code = bytes ? weir_chunk_write(batch, &plan, bytes, err) : err->code;
	}
	if (!code)
		code = writer->sink.write(writer->sink.state, bytes, plan.size, err);
	if (!code) {
		writer->bytes += plan.size;
		writer->rows += (uint64_t)batch->row_count;
	}
	if (bytes)
		weir_free(writer->account, bytes, plan.size);
	weir_batch_unref(batch);
	return code;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	int code = WEIR_OK;

	if (weir_gather_rows(writer->gather) + vector->selection.count > BATCH_ROWS)
		code = flush(writer, err);
	if (!code)
		code = weir_gather_push(writer->gather, vector, err);
	if (!code && weir_gather_bytes(writer->gather) >= BATCH_BYTES)
		code = flush(writer, err);
	return code;
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct ipc_writer *writer = (struct ipc_writer *)base;
	int code = flush(writer, err);

	if (code)
		return code;
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	**out = (struct weir_part){.bytes = writer->bytes, .rows = writer->rows, .bytes_decoded = writer->bytes};
	return WEIR_OK;
}

static void part_free(struct weir_account *account, struct weir_part *part)
{
	weir_free(account, part, sizeof(*part));
}

static int header(struct weir_account *account, const struct weir_schema *schema,
		  const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	struct weir_schema *plain = plain_schema(account, schema, err);
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

static int footer(struct weir_account *account, const struct weir_schema *schema,
		  const struct weir_writer_options *options, struct weir_part *const *parts, const uint64_t *offsets,
		  uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	static const uint8_t end_of_stream[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};

	(void)account;
	(void)schema;
	(void)options;
	(void)parts;
	(void)offsets;
	(void)count;
	return sink.write(sink.state, end_of_stream, sizeof(end_of_stream), err);
}

const struct weir_writer_ops weir_arrow_writer = {
	.name = "arrow",
	.extension = ".arrows",
	.writer_new = writer_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = header,
	.footer = footer,
	.writer_free = writer_free,
};
