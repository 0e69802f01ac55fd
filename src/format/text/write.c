/* CSV and JSON lines, written: rows as lines of text. A part is a run of lines; CSV's header line is the file's header. */
#include "arrow/print.h"
#include "format/format.h"

#include <string.h>

enum { FLUSH_BYTES = 256 << 10 };

struct text_writer {
	struct weir_account *account;
	struct weir_schema *schema;
	bool json;
	struct weir_byte_sink sink;
	struct weir_text lines, cell;
	struct weir_text *names; /* JSON: `"name": ` of each column */
	uint64_t bytes, rows;
};

/* Quotes only where a reader would otherwise see something else (RFC 4180). An empty string is quoted, a null is not. */
static int append_cell(struct weir_text *lines, const char *bytes, size_t size, bool is_empty_text, struct weir_error *err)
{
	const char *run = bytes, *end = bytes + size;
	bool needed = is_empty_text;
	int code;

	for (const char *p = bytes; p < end && !needed; p++)
		needed = *p == ',' || *p == '"' || *p == '\n' || *p == '\r';
	if (!needed)
		return weir_text_append(lines, bytes, size, err);
	code = weir_text_puts(lines, "\"", err);
	for (const char *p = bytes; !code && p < end; p++) {
		if (*p != '"')
			continue;
		code = weir_text_append(lines, run, (size_t)(p - run + 1), err);
		run = p; /* the quote is written again */
	}
	if (!code && run < end)
		code = weir_text_append(lines, run, (size_t)(end - run), err);
	return code ? code : weir_text_puts(lines, "\"", err);
}

static int csv_row(struct text_writer *writer, const struct weir_batch *batch, int64_t row, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < batch->column_count; i++) {
		const struct weir_array *column = batch->columns[i];

		if (i)
			code = weir_text_append(&writer->lines, ",", 1, err);
		weir_text_clear(&writer->cell);
		if (!code)
			code = weir_print_value(column, row, WEIR_PRINT_CSV, &writer->cell, err);
		if (!code)
			code = append_cell(&writer->lines, writer->cell.data, writer->cell.size,
					   writer->cell.size == 0 && weir_array_is_valid(column, row), err);
	}
	return code ? code : weir_text_append(&writer->lines, "\n", 1, err);
}

static int json_row(struct text_writer *writer, const struct weir_batch *batch, int64_t row, struct weir_error *err)
{
	int code = weir_text_append(&writer->lines, "{", 1, err);

	for (uint32_t i = 0; !code && i < batch->column_count; i++) {
		code = weir_text_append(&writer->lines, writer->names[i].data, writer->names[i].size, err);
		if (!code)
			code = weir_print_value(batch->columns[i], row, WEIR_PRINT_JSON, &writer->lines, err);
	}
	return code ? code : weir_text_append(&writer->lines, "}\n", 2, err);
}

static int flush(struct text_writer *writer, struct weir_error *err)
{
	int code = writer->lines.size ? writer->sink.write(writer->sink.state, writer->lines.data, writer->lines.size, err)
				      : WEIR_OK;

	writer->bytes += writer->lines.size;
	weir_text_clear(&writer->lines);
	return code;
}

static void writer_free(struct weir_format_writer *base)
{
	struct text_writer *writer = (struct text_writer *)base;
	struct weir_account *account;

	if (!writer)
		return;
	account = writer->account;
	for (uint32_t i = 0; writer->names && i < writer->schema->field_count; i++)
		weir_text_release(&writer->names[i]);
	weir_free(account, writer->names, writer->schema->field_count * sizeof(*writer->names));
	weir_text_release(&writer->lines);
	weir_text_release(&writer->cell);
	weir_schema_unref(writer->schema);
	weir_free(account, writer, sizeof(*writer));
}

static int make_names(struct text_writer *writer, struct weir_error *err)
{
	uint32_t count = writer->schema->field_count;
	int code = WEIR_OK;

	writer->names = weir_alloc_zero(writer->account, count * sizeof(*writer->names), err);
	if (!writer->names)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		const char *name = writer->schema->fields[i].name;

		weir_text_init(&writer->names[i], writer->account);
		code = weir_text_puts(&writer->names[i], i ? ", " : "", err);
		if (!code)
			code = weir_print_json_string(name, strlen(name), &writer->names[i], err);
		if (!code)
			code = weir_text_puts(&writer->names[i], ": ", err);
	}
	return code;
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema, bool json,
		      struct weir_format_writer **out, struct weir_error *err)
{
	struct text_writer *writer = weir_alloc_zero(account, sizeof(*writer), err);
	int code;

	if (!writer)
		return err->code;
	writer->account = account;
	writer->schema = weir_schema_ref(schema);
	writer->json = json;
	weir_text_init(&writer->lines, account);
	weir_text_init(&writer->cell, account);
	code = json ? make_names(writer, err) : WEIR_OK;
	if (code) {
		writer_free((struct weir_format_writer *)writer);
		return code;
	}
	*out = (struct weir_format_writer *)writer;
	return WEIR_OK;
}

static int csv_new(struct weir_account *account, const struct weir_schema *schema,
		   const struct weir_writer_options *options, struct weir_format_writer **out, struct weir_error *err)
{
	(void)options;
	return writer_new(account, schema, false, out, err);
}

static int json_new(struct weir_account *account, const struct weir_schema *schema,
		    const struct weir_writer_options *options, struct weir_format_writer **out, struct weir_error *err)
{
	(void)options;
	return writer_new(account, schema, true, out, err);
}

static int part_begin(struct weir_format_writer *base, struct weir_byte_sink sink, struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;

	(void)err;
	weir_text_clear(&writer->lines);
	writer->sink = sink;
	writer->bytes = writer->rows = 0;
	return WEIR_OK;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;
	struct weir_batch *batch = NULL;
	int code = weir_vector_to_batch(vector, writer->schema, writer->account, &batch, err);

	for (int64_t row = 0; !code && row < batch->row_count; row++) {
		code = writer->json ? json_row(writer, batch, row, err) : csv_row(writer, batch, row, err);
		writer->rows++;
		if (!code && writer->lines.size >= FLUSH_BYTES)
			code = flush(writer, err);
	}
	weir_batch_unref(batch);
	return code;
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;
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

static int csv_header(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	struct weir_text line;
	int code = WEIR_OK;

	(void)options;
	weir_text_init(&line, account);
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		const char *name = schema->fields[i].name;

		if (i)
			code = weir_text_puts(&line, ",", err);
		if (!code)
			code = append_cell(&line, name, strlen(name), !*name, err);
	}
	if (!code)
		code = weir_text_puts(&line, "\n", err);
	if (!code)
		code = sink.write(sink.state, line.data, line.size, err);
	weir_text_release(&line);
	return code;
}

static int no_header(struct weir_account *account, const struct weir_schema *schema,
		     const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)account;
	(void)schema;
	(void)options;
	(void)sink;
	(void)err;
	return WEIR_OK;
}

static int no_footer(struct weir_account *account, const struct weir_schema *schema,
		     const struct weir_writer_options *options, struct weir_part *const *parts, const uint64_t *offsets,
		     uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)parts;
	(void)offsets;
	(void)count;
	return no_header(account, schema, options, sink, err);
}

const struct weir_writer_ops weir_csv_writer = {
	.name = "csv",
	.extension = ".csv",
	.writer_new = csv_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = csv_header,
	.footer = no_footer,
	.writer_free = writer_free,
};

const struct weir_writer_ops weir_jsonl_writer = {
	.name = "jsonl",
	.extension = ".jsonl",
	.writer_new = json_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = no_header,
	.footer = no_footer,
	.writer_free = writer_free,
};
