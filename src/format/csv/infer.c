/* Which types the columns of some files have: as pyarrow would say of the same rows.
 *
 * Every value belongs to a set of kinds (values.c); a column's kinds are those of all its values, and its type is the
 * first of them in pyarrow's order. Looked at are the heads of several files, and of large ones a part in the middle
 * and the end (format/text_input.h), or everything (--infer all). A part in the middle begins at a guess: what it says
 * is left out when its rows do not look like rows.
 *
 * The columns are the first file's that has any, and behind them those that others of the files looked at have beyond
 * them.
 */
#include "format/csv/csv_impl.h"

#include <string.h>

enum { INSIDE_WINDOW_MAX = 4 << 20, LOOK_ON_BYTES = 32 << 20 };

struct inference {
	struct weir_account *account;
	const struct weir_read_setup *setup;
	const struct csv_options *options;
	struct csv_head head; /* of the first file with columns; arena released at the end */
	struct inferred {
		uint32_t kinds;
		bool has_values;
	} * columns;
};

/* The number of the dataset's column with this name; UINT32_MAX: none. */
static uint32_t column_named(const struct inference *self, const char *name, uint32_t first)
{
	if (first < self->head.width && strcmp(self->head.names[first], name) == 0)
		return first;
	for (uint32_t i = 0; i < self->head.width; i++)
		if (strcmp(self->head.names[i], name) == 0)
			return i;
	return UINT32_MAX;
}

static int field_kinds(struct csv_reader *reader, struct inferred *column, uint32_t field, uint32_t row,
		       struct weir_error *err)
{
	const struct csv_options *options = reader->file->options;
	const struct csv_dialect *dialect = &reader->file->dialect;
	const struct csv_rows *rows = &reader->rows;
	const uint32_t *ends = rows->ends + (size_t)row * rows->width;
	uint32_t begin = field ? ends[field - 1] + 1 : rows->starts[row], end = ends[field];
	const char *text = (const char *)reader->input.text + begin;
	size_t size = end - begin;
	bool is_quoted;

	if (begin > end)
		return WEIR_OK;
	is_quoted = dialect->has_quote && size && (uint8_t)text[0] == dialect->quote;
	if (is_quoted || dialect->has_escape) {
		char *copy = weir_arena_alloc(&reader->arena, size, err);

		if (!copy)
			return err->code;
		size = csv_unquote(dialect, text, size, copy);
		text = copy;
	}
	if (!(is_quoted && !options->quoted_null) && csv_is_null(options, text, size))
		return WEIR_OK;
	column->has_values = true;
	if (column->kinds != 1u << CSV_BINARY)
		column->kinds &= csv_kinds_of(dialect->point, text, size);
	return WEIR_OK;
}

/* What follows in the range, at most LOOK_ON_BYTES of it, may have more that does not fit: all of it is noted at once,
 * since a run begins anew only once. The reader is of no use afterwards. */
void csv_misfits_note(struct csv_reader *reader)
{
	const struct weir_read_setup *setup = reader->file->setup;
	size_t size = reader->column_count * sizeof(struct inferred);
	struct weir_error ignored = {0};
	struct inferred *columns = weir_alloc_zero(reader->account, size, &ignored);
	uint64_t begin = weir_text_input_offset(&reader->input);
	struct weir_vector vector = {.row_count = reader->rows.count};
	int code = columns ? WEIR_OK : ignored.code;

	for (uint32_t i = 0; !code && i < reader->column_count; i++)
		columns[i].kinds = csv_kinds_of_type(reader->columns[i].type);
	while (!code && vector.row_count > 0 && weir_text_input_offset(&reader->input) - begin < LOOK_ON_BYTES) {
		for (uint32_t i = 0; !code && i < reader->column_count; i++)
			for (uint32_t row = 0; !code && !reader->columns[i].is_given && row < vector.row_count; row++)
				code = field_kinds(reader, &columns[i], reader->columns[i].field, row, &ignored);
		if (!code)
			code = csv_reader_next(&reader->base, &vector, &ignored);
	}
	for (uint32_t i = 0; columns && i < reader->column_count; i++) {
		const struct weir_type *wider = NULL;

		if (!reader->columns[i].is_given && columns[i].has_values)
			wider = csv_type_of_kinds(reader->account, columns[i].kinds, true, &ignored);
		if (wider && !weir_type_equal(wider, reader->columns[i].type, false))
			setup->misfit(setup->misfit_context, reader->columns[i].name, wider);
		weir_type_unref(wider);
	}
	weir_free(reader->account, columns, size);
}

/* Reads rows of a range and notes their kinds. `columns` are the dataset's, by field of this file. */
static int read_range(struct inference *self, struct csv_reader *reader, struct csv_file *file, const uint32_t *columns,
		      const struct weir_range *range, struct weir_error *err)
{
	struct weir_scan scan = {0};
	struct weir_vector vector;
	int code = csv_reader_open(&reader->base, &file->base, &scan, range, err);

	while (!code) {
		code = csv_reader_next(&reader->base, &vector, err);
		if (code || vector.row_count == 0)
			break;
		for (uint32_t field = 0; !code && field < file->width; field++) {
			if (columns[field] == UINT32_MAX)
				continue;
			for (uint32_t row = 0; !code && row < vector.row_count; row++)
				code = field_kinds(reader, &self->columns[columns[field]], field, row, err);
		}
	}
	return code;
}

/* A part in the middle, on a copy of what is known, which counts only if the part could be read. */
static int read_inside(struct inference *self, struct csv_reader *reader, struct csv_file *file,
		       const uint32_t *columns, const struct weir_range *range, struct weir_error *err)
{
	size_t size = self->head.width * sizeof(*self->columns);
	struct inferred *before = weir_alloc(self->account, size, err);
	int code;

	if (!before)
		return err->code;
	memcpy(before, self->columns, size);
	/* At a wrong guess all that follows may look like one field. */
	reader->window_max = INSIDE_WINDOW_MAX;
	code = read_range(self, reader, file, columns, range, err);
	reader->window_max = 0;
	if (code == WEIR_E_DATA) {
		memcpy(self->columns, before, size);
		weir_error_clear(err);
		code = WEIR_OK;
	}
	weir_free(self->account, before, size);
	return code;
}

static int read_file(struct inference *self, struct csv_reader *reader, struct weir_file *input, uint32_t file_count,
		     struct weir_error *err)
{
	struct weir_text_sample samples[WEIR_SAMPLES_MAX];
	struct weir_format_file *base = NULL;
	struct csv_file *file;
	uint32_t *columns = NULL, width = 0, count;
	int code = csv_file_open(self->account, self->setup, input, &base, err);

	if (code)
		return code;
	file = (struct csv_file *)base;
	width = file->width;
	columns = weir_alloc(self->account, width * sizeof(*columns), err);
	if (!columns)
		code = err->code;
	for (uint32_t i = 0; !code && i < width; i++)
		columns[i] = column_named(self, base->schema->fields[i].name, i);
	count = weir_text_samples(weir_file_size(input), file->is_plain, file_count, samples);
	if (self->options->infer_all)
		count = 1;
	for (uint32_t i = 0; !code && width && i < count; i++) {
		struct weir_range range = {.begin = samples[i].begin, .end = samples[i].begin + samples[i].size};

		if (i == 0) {
			range.begin = file->data_offset;
			range.end = self->options->infer_all ? UINT64_MAX : file->data_offset + samples[i].size;
			code = read_range(self, reader, file, columns, &range, err);
		} else {
			code = read_inside(self, reader, file, columns, &range, err);
		}
	}
	weir_free(self->account, columns, width * sizeof(*columns));
	weir_error_at_source(err, weir_file_path(input));
	weir_format_file_unref(base);
	return code;
}

static int given_type(const struct inference *self, const char *name, const struct weir_type **out,
		      struct weir_error *err)
{
	*out = NULL;
	for (uint32_t i = 0; i < self->options->type_count; i++) {
		if (strcmp(self->options->types[i].name, name) != 0)
			continue;
		*out = weir_type_parse(self->account, self->options->types[i].spelling, err);
		return *out ? WEIR_OK : err->code;
	}
	return WEIR_OK;
}

static int check_given(const struct inference *self, struct weir_schema *schema, struct weir_error *err)
{
	for (uint32_t i = 0; i < self->options->type_count; i++) {
		uint32_t at;

		if (weir_schema_find(schema, self->options->types[i].name, &at, err))
			return err->code;
	}
	return WEIR_OK;
}

static int make_schema(const struct inference *self, struct weir_schema **out, struct weir_error *err)
{
	uint32_t width = self->head.width;
	struct weir_field *fields = weir_alloc_zero(self->account, width * sizeof(*fields), err);
	int code = fields ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < width; i++) {
		const struct inferred *column = &self->columns[i];

		fields[i].name = self->head.names[i];
		fields[i].nullable = true;
		code = given_type(self, fields[i].name, &fields[i].type, err);
		if (!code && !fields[i].type) {
			fields[i].type = self->options->text_only ? weir_type_ref(weir_type_of(WEIR_STRING))
								  : csv_type_of_kinds(self->account, column->kinds,
										      column->has_values, err);
			code = fields[i].type ? WEIR_OK : err->code;
		}
	}
	if (!code) {
		*out = weir_schema_new(self->account, fields, width, NULL, err);
		code = *out ? check_given(self, *out, err) : err->code;
		if (code) {
			weir_schema_unref(*out);
			*out = NULL;
		}
	}
	for (uint32_t i = 0; fields && i < width; i++)
		weir_type_unref(fields[i].type);
	weir_free(self->account, fields, width * sizeof(*fields));
	return code;
}

/* The names of the first file that has some. */
static int find_head(struct inference *self, struct weir_file *const *files, uint32_t count, struct weir_error *err)
{
	for (uint32_t i = 0; i < count; i++) {
		int code;

		weir_arena_release(&self->head.arena);
		code = csv_head_read(self->account, self->setup->io, files[i], self->options, &self->head, err);
		if (code)
			return code;
		if (self->head.width)
			break;
	}
	if (self->head.width == 0) {
		weir_error_set(err, WEIR_E_DATA,
			       "the file is empty: it has no header that would name its columns (--names "
			       "names them)");
		weir_error_at_source(err, count ? weir_file_path(files[0]) : "");
		return err->code;
	}
	return WEIR_OK;
}

/* The names that this file has beyond those that are known. */
static int add_names(struct inference *self, const struct csv_head *head, struct weir_error *err)
{
	const char **names;
	uint32_t width = self->head.width, fresh = 0;

	for (uint32_t i = 0; i < head->width; i++)
		fresh += column_named(self, head->names[i], i) == UINT32_MAX;
	if (fresh == 0)
		return WEIR_OK;
	names = weir_arena_alloc(&self->head.arena, (width + fresh) * sizeof(*names), err);
	if (!names)
		return err->code;
	memcpy(names, self->head.names, width * sizeof(*names));
	for (uint32_t i = 0; i < head->width; i++) {
		if (column_named(self, head->names[i], i) != UINT32_MAX)
			continue;
		names[width] = weir_arena_strdup(&self->head.arena, head->names[i], err);
		if (!names[width++])
			return err->code;
	}
	self->head.names = names;
	self->head.width = width;
	return WEIR_OK;
}

/* What other files are named in their headers. One that cannot be read is for whoever comes to it. */
static int find_more(struct inference *self, struct weir_file *const *files, uint32_t count, uint32_t looked_at,
		     struct weir_error *err)
{
	int code = WEIR_OK;

	if (!self->options->has_header || self->options->names)
		return WEIR_OK;
	for (uint32_t i = 0; !code && i < looked_at; i++) {
		struct csv_head head;

		code = csv_head_read(self->account, self->setup->io,
				     files[self->options->infer_all ? i : weir_sample_file(i, count)], self->options,
				     &head, err);
		if (!code)
			code = add_names(self, &head, err);
		else if (code != WEIR_E_MEMORY) {
			weir_error_clear(err);
			code = WEIR_OK;
		}
		weir_arena_release(&head.arena);
	}
	return code;
}

static int begin_columns(struct inference *self, struct weir_error *err)
{
	self->columns = weir_alloc_zero(self->account, self->head.width * sizeof(*self->columns), err);
	if (!self->columns)
		return err->code;
	for (uint32_t i = 0; i < self->head.width; i++)
		self->columns[i].kinds = CSV_KINDS_ALL;
	return WEIR_OK;
}

int csv_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	      uint32_t count, struct weir_schema **out, struct weir_error *err)
{
	struct weir_read_setup alone = *setup;
	struct inference self = {
		.account = account, .setup = &alone, .options = setup->options ? setup->options : &csv_options_default};
	struct weir_format_reader *reader = NULL;
	uint32_t looked_at = self.options->infer_all ? count : weir_sample_file_count(count);
	int code;

	alone.schema = NULL;
	weir_arena_init(&self.head.arena, account);
	code = find_head(&self, files, count, err);
	if (!code && count > 1)
		code = find_more(&self, files, count, looked_at, err);
	if (!code)
		code = begin_columns(&self, err);
	if (!code)
		code = csv_reader_new(account, setup->io, &reader, err);
	for (uint32_t i = 0; !code && !self.options->text_only && i < looked_at; i++)
		code = read_file(&self, (struct csv_reader *)reader,
				 files[self.options->infer_all ? i : weir_sample_file(i, count)], count, err);
	if (!code)
		code = make_schema(&self, out, err);
	csv_reader_free(reader);
	weir_free(account, self.columns, self.head.width * sizeof(*self.columns));
	weir_arena_release(&self.head.arena);
	return code;
}
