/* CSV, JSON lines and JSON arrays, written. A part is a run of lines; CSV's names are the file's header, an array's
 * brackets its header and footer, the comma between two parts the write operator's (weir_writer_ops.separator). */
#include "arrow/value.h"
#include "format/text/text_impl.h"

/* ---- options ---- */

static int fail_option(struct weir_error *err, const char *what)
{
	return weir_error_set(err, WEIR_E_INVALID, "%s", what);
}

static bool is_structure(char c)
{
	return c == '\n' || c == '\r' || c == 0;
}

/* What numbers are made of: not to be told from a delimiter. */
static bool is_of_numbers(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
	       c == '+';
}

static int make_style(const struct weir_text_options *options, bool json, uint32_t column_count,
		      struct text_style *style, struct weir_error *err)
{
	const char *null_text = json ? "null" : options->null_text ? options->null_text : "";

	*style = (struct text_style){
		.json = json,
		.delimiter = options->delimiter ? options->delimiter : ',',
		.quote = options->quote && !json ? options->quote : '"',
		.quoting = options->quoting,
		.names_non_finite = options->names_non_finite,
		.bare_floats = options->bare_floats,
		.terminator = {options->crlf && !json ? '\r' : '\n', '\n'},
		.terminator_size = options->crlf && !json ? 2 : 1,
		.null_size = (uint32_t)strlen(null_text),
	};
	style->escape = options->escape ? options->escape : style->quote;
	if (style->null_size > TEXT_NULL_MAX)
		return fail_option(err, "the spelling of null has more than 64 bytes");
	memcpy(style->null_text, null_text, style->null_size);
	if (json)
		return WEIR_OK;
	if (is_structure(style->delimiter) || is_of_numbers(style->delimiter))
		return fail_option(err, "the delimiter is a line's end, or part of numbers");
	if (is_structure(style->quote) || is_of_numbers(style->quote) || style->quote == style->delimiter)
		return fail_option(err, "the quote is a line's end, part of numbers, or the delimiter");
	if (is_structure(style->escape) || style->escape == style->delimiter)
		return fail_option(err, "the escape is a line's end or the delimiter");
	if (text_is_special(style, (const uint8_t *)null_text, style->null_size))
		return fail_option(err, "the spelling of null holds the delimiter, a quote or a line's end");
	/* An empty line is no row to most readers. */
	style->quotes_empty = style->null_size == 0 || column_count == 1;
	if (column_count == 1 && style->null_size == 0 && style->quoting != WEIR_QUOTING_NONE) {
		style->null_text[0] = style->null_text[1] = style->quote;
		style->null_size = 2;
	}
	return WEIR_OK;
}

/* ---- writers ---- */

static void cells_release(struct text_cells *kept, struct weir_account *account)
{
	weir_free(account, kept->cells, kept->cells_capacity);
	weir_free(account, kept->bytes, kept->capacity);
	*kept = (struct text_cells){0};
}

static void writer_free(struct weir_format_writer *base)
{
	struct text_writer *writer = (struct text_writer *)base;
	struct weir_account *account;

	if (!writer)
		return;
	account = writer->account;
	for (uint32_t i = 0; writer->columns && i < writer->schema->field_count; i++) {
		struct text_column *column = &writer->columns[i];

		cells_release(&column->kept, account);
		if (column->prefix)
			weir_free(account, column->prefix, column->prefix_size + TEXT_PADDING);
		weir_free(account, column->shape, sizeof(*column->shape));
	}
	weir_free(account, writer->columns, writer->schema->field_count * sizeof(*writer->columns));
	text_out_release(&writer->out);
	text_out_release(&writer->scratch);
	text_out_release(&writer->scratch_binary);
	weir_schema_unref(writer->schema);
	weir_free(account, writer, sizeof(*writer));
}

/* `,"name":` as JSON. */
static int make_prefix(struct text_writer *writer, struct text_column *column, bool is_first, struct weir_error *err)
{
	struct text_out *scratch = &writer->scratch;
	int code;

	scratch->p = scratch->data;
	if (!is_first)
		*scratch->p++ = ',';
	code = text_put_json(scratch, (const uint8_t *)column->name, strlen(column->name), err);
	*scratch->p++ = ':';
	if (code)
		return code;
	if (scratch->p - scratch->data > TEXT_NAME_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED,
				      "the column name '%.60s…' has more than %d bytes as JSON", column->name,
				      TEXT_NAME_MAX);
	column->prefix = weir_alloc_zero(writer->account, (size_t)(scratch->p - scratch->data) + TEXT_PADDING, err);
	if (!column->prefix)
		return err->code;
	column->prefix_size = (uint32_t)(scratch->p - scratch->data);
	memcpy(column->prefix, scratch->data, column->prefix_size);
	return WEIR_OK;
}

static int note_shape(struct text_writer *writer, struct text_column *column, const struct weir_field *field,
		      struct weir_error *err)
{
	struct weir_tensor_shape shape;

	if (!weir_tensor_fixed(field, &shape) || shape.permuted || shape.count < 2)
		return WEIR_OK;
	column->shape = weir_alloc(writer->account, sizeof(shape), err);
	if (!column->shape)
		return err->code;
	*column->shape = shape;
	return WEIR_OK;
}

static bool is_number(enum text_kind kind, const struct weir_type *type)
{
	return (kind >= TEXT_I8 && kind <= TEXT_DOUBLE) || type->id == WEIR_DECIMAL128 || type->id == WEIR_DECIMAL256;
}

static bool is_text(enum text_kind kind)
{
	return kind == TEXT_STRING || kind == TEXT_BINARY || kind == TEXT_FIXED_BINARY || kind == TEXT_NESTED;
}

static int make_column(struct text_writer *writer, uint32_t number, struct weir_error *err)
{
	static const uint8_t digits[] = {[WEIR_SECOND] = 0, [WEIR_MILLI] = 3, [WEIR_MICRO] = 6, [WEIR_NANO] = 9};
	struct text_column *column = &writer->columns[number];
	const struct text_style *style = &writer->style;
	const struct weir_type *type = weir_type_values(writer->schema->fields[number].type);
	bool is_time = weir_type_is_temporal(type) && type->id != WEIR_DURATION;

	column->type = type;
	column->name = writer->schema->fields[number].name;
	column->kind = text_kind_of(type);
	column->unit_digits = digits[type->unit];
	if (note_shape(writer, column, &writer->schema->fields[number], err))
		return err->code;
	if (style->json) {
		column->wraps = is_time;
		return make_prefix(writer, column, number == 0, err);
	}
	column->quoted = style->quoting == WEIR_QUOTING_ALL ||
			 (style->quoting == WEIR_QUOTING_NONNUMERIC && !is_number(column->kind, type)) ||
			 (style->quoting == WEIR_QUOTING_STRINGS && is_text(column->kind)) ||
			 (is_time && (style->delimiter == ' ' || style->delimiter == ':'));
	if (column->quoted && style->quoting == WEIR_QUOTING_NONE) {
		weir_error_set(err, WEIR_E_VALUE,
			       "a time holds the delimiter '%c', and --quoting none leaves no way to write it",
			       style->delimiter);
		weir_error_at_column(err, column->name);
		return err->code;
	}
	column->wraps = column->quoted && !is_text(column->kind);
	return WEIR_OK;
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, bool json, bool is_array,
		      struct weir_format_writer **out, struct weir_error *err)
{
	struct text_writer *writer = weir_alloc_zero(account, sizeof(*writer), err);
	int code;

	if (!writer)
		return err->code;
	writer->account = account;
	writer->schema = weir_schema_ref(schema);
	writer->is_array = is_array;
	code = make_style(&options->text, json, schema->field_count, &writer->style, err);
	if (!code)
		code = text_out_init(&writer->out, account, err);
	if (!code)
		code = text_out_init(&writer->scratch, account, err);
	if (!code && !json)
		code = text_out_init(&writer->scratch_binary, account, err);
	if (!code) {
		writer->columns = weir_alloc_zero(account, schema->field_count * sizeof(*writer->columns), err);
		code = writer->columns ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; !code && i < schema->field_count; i++)
		code = make_column(writer, i, err);
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
	return writer_new(account, schema, options, false, false, out, err);
}

static int jsonl_new(struct weir_account *account, const struct weir_schema *schema,
		     const struct weir_writer_options *options, struct weir_format_writer **out, struct weir_error *err)
{
	return writer_new(account, schema, options, true, false, out, err);
}

static int json_new(struct weir_account *account, const struct weir_schema *schema,
		    const struct weir_writer_options *options, struct weir_format_writer **out, struct weir_error *err)
{
	return writer_new(account, schema, options, true, true, out, err);
}

/* ---- parts ---- */

static int part_begin(struct weir_format_writer *base, struct weir_byte_sink sink, struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;

	(void)err;
	writer->out.sink = sink;
	writer->out.p = writer->out.data;
	writer->out.flushed_bytes = 0;
	writer->rows = 0;
	return WEIR_OK;
}

/* Room to keep the cells of this dictionary, if it is not the one before. */
static int cells_prepare(struct text_writer *writer, struct text_column *column,
			 const struct weir_dictionary *dictionary, struct weir_error *err)
{
	struct text_cells *kept = &column->kept;
	size_t need = dictionary->count * sizeof(*kept->cells);

	if (kept->id == dictionary->id)
		return WEIR_OK;
	kept->id = 0;
	kept->size = 0;
	if (need > kept->cells_capacity) {
		weir_free(writer->account, kept->cells, kept->cells_capacity);
		kept->cells_capacity = 0;
		kept->cells = weir_alloc(writer->account, weir_alloc_size(need), err);
		if (!kept->cells)
			return err->code;
		kept->cells_capacity = weir_alloc_size(need);
	}
	memset(kept->cells, 0, need);
	kept->id = dictionary->id;
	return WEIR_OK;
}

static int set_column(struct text_writer *writer, struct text_column *column, const struct weir_column *from,
		      struct weir_error *err)
{
	column->validity = from->validity;
	column->row_mask = from->form == WEIR_CONSTANT ? 0 : UINT32_MAX;
	column->nested = from->nested;
	column->nested_offset = from->nested_offset;
	column->codes = NULL;
	column->values = from->values;
	column->keeps = false;
	if (from->form != WEIR_DICTIONARY)
		return WEIR_OK;
	column->codes = from->values;
	column->values = from->dictionary->values;
	column->nested = from->dictionary->nested;
	column->nested_offset = 0;
	/* A dictionary much larger than what is printed of it is not worth its table. */
	column->keeps = from->dictionary->count && from->dictionary->count <= TEXT_KEPT_VALUES_MAX;
	return column->keeps ? cells_prepare(writer, column, from->dictionary, err) : WEIR_OK;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;
	int code = weir_vector_decode_all(vector, err);

	for (uint32_t i = 0; !code && i < vector->column_count; i++)
		code = set_column(writer, &writer->columns[i], &vector->columns[i], err);
	if (code)
		return code;
	code = writer->style.json ? text_write_json(writer, vector, err) : text_write_csv(writer, vector, err);
	text_out_trim(&writer->scratch);
	text_out_trim(&writer->scratch_binary);
	return code;
}

static int part_new(struct weir_account *account, uint64_t bytes, uint64_t rows, struct weir_part **out,
		    struct weir_error *err)
{
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	**out = (struct weir_part){.bytes = bytes, .rows = rows, .bytes_decoded = bytes};
	return WEIR_OK;
}

static void part_free(struct weir_account *account, struct weir_part *part)
{
	weir_free(account, part, sizeof(*part));
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct text_writer *writer = (struct text_writer *)base;
	int code = text_out_flush(&writer->out, err);

	return code ? code : part_new(account, writer->out.flushed_bytes, writer->rows, out, err);
}

/* ---- header and footer ---- */

static int csv_header(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	struct text_style style;
	struct text_out line;
	bool needs_quotes = false;
	int code = make_style(&options->text, false, schema->field_count, &style, err);

	if (code || options->text.no_header)
		return code;
	code = text_out_init(&line, account, err);
	if (code)
		return code;
	line.sink = sink;
	style.quotes_empty = true;
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		const char *name = schema->fields[i].name;

		if (i)
			*line.p++ = style.delimiter;
		code = text_put_csv(&line, &style, (const uint8_t *)name, strlen(name),
				    style.quoting != WEIR_QUOTING_MINIMAL && style.quoting != WEIR_QUOTING_NONE,
				    &needs_quotes, err);
		if (!code && needs_quotes) {
			code = weir_error_set(
				err, WEIR_E_VALUE,
				"the name of a column holds the delimiter, a quote or a line's end, and --quoting "
				"none leaves no way to write it");
			weir_error_at_column(err, name);
		}
		if (!code)
			code = text_out_room(&line, err);
	}
	line.p = text_copy(line.p, style.terminator, style.terminator_size);
	if (!code)
		code = text_out_flush(&line, err);
	text_out_release(&line);
	return code;
}

static int array_header(struct weir_account *account, const struct weir_schema *schema,
			const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)account;
	(void)schema;
	(void)options;
	return sink.write(sink.state, "[\n", 2, err);
}

static int array_footer(struct weir_account *account, const struct weir_schema *schema,
			const struct weir_writer_options *options, struct weir_part *const *parts,
			const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)account;
	(void)schema;
	(void)options;
	(void)parts;
	(void)offsets;
	(void)count;
	return sink.write(sink.state, "\n]\n", 3, err);
}

const struct weir_writer_ops weir_csv_writer = {
	.name = "csv",
	.extension = ".csv",
	.is_text = true,
	.writer_new = csv_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = csv_header,
	.writer_free = writer_free,
};

const struct weir_writer_ops weir_jsonl_writer = {
	.name = "jsonl",
	.extension = ".jsonl",
	.is_text = true,
	.writer_new = jsonl_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.writer_free = writer_free,
};

const struct weir_writer_ops weir_json_writer = {
	.name = "json",
	.extension = ".json",
	.separator = ",\n",
	.is_text = true,
	.writer_new = json_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = array_header,
	.footer = array_footer,
	.writer_free = writer_free,
};
