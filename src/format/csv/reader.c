/* One lane's reader: a window of text at a time is indexed, its lines become rows, and rows go out as vectors whose
 * columns are fields that nobody has looked into yet.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 *     text   ┌────────────┬───────────────────────┬──────────────────┬──────────┐
 *            │ handed out │ the vector that is out│ indexed lines    │ part of a│
 *            │            │                       │ for the next one │ line     │
 *            └────────────┴───────────────────────┴──────────────────┴──────────┘
 *            0                                    line_begin                    end
 *
 * A window holds WINDOW_BYTES, so that text, index and values of a vector stay in the cache together. When no whole
 * line is left, the window slides and the part of a line is indexed again; when it is full of one line, it grows.
 *
 * A range is the lines whose first byte lies in it. Lines are counted where they are used, exactly: errors name them.
 *
 * Threads: a reader belongs to one lane; the file is shared and never written to, its cuts have a lock of their own.
 */
#include "format/csv/csv_impl.h"
#include "format/cuts.h"

#include <string.h>

enum {
	WINDOW_BYTES = 256 << 10,
	BEYOND_BYTES = 4 << 10, /* read behind a range's end at first: its last line ends there */
	ROWS_FIRST = 64,        /* of the first vector when a limit follows */
	ENDS_FIRST = 64 << 10,
	TEXT_SHOWN = 200, /* of a row in a message */
};

int csv_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err)
{
	struct csv_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_csv_format;
	self->account = account;
	self->io = io;
	self->kernels = csv_kernels_choose();
	weir_text_input_init(&self->input, account);
	weir_arena_init(&self->arena, account);
	*out = &self->base;
	return WEIR_OK;
}

static void columns_free(struct csv_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		weir_free(self->account, self->columns[i].values, self->columns[i].values_size);
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->vector_columns, self->column_count * sizeof(*self->vector_columns));
	self->columns = NULL;
	self->vector_columns = NULL;
	self->column_count = 0;
}

static void reader_close(struct csv_reader *self)
{
	weir_text_input_close(&self->input);
	weir_arena_clear(&self->arena);
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->scan = NULL;
	self->is_done = true;
}

void csv_reader_free(struct weir_format_reader *base)
{
	struct csv_reader *self = (struct csv_reader *)base;

	if (!self)
		return;
	reader_close(self);
	columns_free(self);
	weir_text_input_release(&self->input);
	weir_arena_release(&self->arena);
	csv_rows_release(&self->rows, self->account);
	weir_free(self->account, self->index.ends, self->ends_size);
	weir_free(self->account, self->index.lines, self->lines_size);
	weir_free(self->account, self, sizeof(*self));
}

/* ---- places ---- */

/* Lines up to text[at], counted from the range's first. */
static uint64_t lines_until(const struct csv_reader *self, uint32_t at)
{
	if (at == self->window) /* also before there is any text */
		return self->lines;
	return self->lines + weir_text_line_ends(self->input.text + self->window, at - self->window);
}

void csv_error_place(const struct csv_reader *self, uint32_t at, struct weir_error *err)
{
	uint64_t line = lines_until(self, at) + 1;

	weir_error_at_source(err, weir_file_path(self->file->base.file));
	if (err->has_line)
		return;
	if (self->file->base.cuts)
		err->line_in_range = 1;
	else
		line += self->file->data_line - 1;
	weir_error_at_line(err, (int64_t)line);
}

/* ---- opening ---- */

static bool is_given(const struct csv_options *options, const char *name)
{
	for (uint32_t i = 0; i < options->type_count; i++)
		if (strcmp(options->types[i].name, name) == 0)
			return true;
	return false;
}

/* Whether decode.c's quick readings could take a null for a value. They take no names of numbers. */
static bool null_looks_like_value(const struct csv_options *options, const struct weir_type *type, uint8_t point)
{
	uint64_t value[4];

	if (weir_type_is_bytes(type) || type->id == WEIR_FIXED_BINARY)
		return false;
	for (uint32_t i = 0; i < options->null_count; i++) {
		const struct csv_text *null = &options->nulls[i];
		bool is_named = weir_type_is_float(type) && null->size && strpbrk(null->data, "nNiI");

		if (!is_named && csv_value_parse(type, point, null->data, null->size, value))
			return true;
	}
	return false;
}

static int columns_open(struct csv_reader *self, struct weir_error *err)
{
	uint32_t count = self->scan->column_count;

	if (self->column_count != count) {
		columns_free(self);
		self->columns = weir_alloc_zero(self->account, count * sizeof(*self->columns), err);
		if (!self->columns)
			return err->code;
		self->vector_columns = weir_alloc_zero(self->account, count * sizeof(*self->vector_columns), err);
		if (!self->vector_columns) {
			weir_free(self->account, self->columns, count * sizeof(*self->columns));
			self->columns = NULL;
			return err->code;
		}
		self->column_count = count;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct csv_column *column = &self->columns[i];
		const struct weir_field *field = &self->file->base.schema->fields[self->scan->columns[i]];
		const struct csv_options *options = self->file->options;

		column->pending.decode = csv_decode;
		column->reader = self;
		column->field = self->scan->columns[i];
		column->name = field->name;
		column->type = weir_type_values(field->type);
		column->is_given = is_given(options, field->name);
		column->null_first = null_looks_like_value(options, column->type, self->file->dialect.point);
	}
	return WEIR_OK;
}

/* Everything in front of `offset` is passed over, in a stream that has to be read from its beginning. */
static int skip_to(struct csv_reader *self, uint64_t offset, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;

	while (weir_text_input_offset(input) < offset) {
		uint64_t left = offset - weir_text_input_offset(input);

		if (input->begin == input->end && weir_text_input_fill(input, WINDOW_BYTES, err))
			return err->code;
		if (input->begin == input->end)
			return WEIR_OK;
		input->begin += left < input->end - input->begin ? left : input->end - input->begin;
	}
	return WEIR_OK;
}

static void index_restart(struct csv_reader *self)
{
	struct csv_index *index = &self->index;

	index->line_capacity = (uint32_t)(self->lines_size / sizeof(*index->lines));
	index->text = self->input.text;
	index->size = (uint32_t)self->input.end;
	index->at = self->line_begin = (uint32_t)self->input.begin;
	index->is_last = self->input.at_end;
	index->state = CSV_LINE_START;
	index->end_count = index->line_count = 0;
	index->has_high = index->has_cr = index->has_inner_lines = index->has_inner_quotes = false;
}

static int find_start(struct csv_reader *self, struct weir_error *err)
{
	struct csv_file *file = self->file;
	struct weir_cuts *cuts = file->base.cuts;

	self->start = self->range.begin;
	if (self->range.begin <= file->data_offset) {
		self->start = file->data_offset;
		if (cuts)
			weir_cuts_begin(cuts, self->start, file->data_line);
		return WEIR_OK;
	}
	if (cuts && weir_cuts_start(cuts, self->range.number, &self->start))
		return WEIR_OK;
	return csv_guess_start(self, self->range.begin, &self->start, err);
}

int csv_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err)
{
	struct csv_reader *self = (struct csv_reader *)base;
	struct csv_file *opened = (struct csv_file *)file;
	const struct weir_stream_options *options = &opened->options->stream;

	weir_format_file_ref(file);
	reader_close(self);
	self->file = opened;
	self->scan = scan;
	self->range = *range;
	self->lines = 0;
	self->window = self->window_lines = 0;
	self->row = 0;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	if (columns_open(self, err) || find_start(self, err) ||
	    weir_text_input_open(&self->input, self->io, file->file, opened->is_plain ? self->start : 0, options,
				 err) ||
	    (!opened->is_plain && skip_to(self, self->start, err))) {
		weir_error_at_source(err, weir_file_path(file->file));
		reader_close(self);
		return err->code;
	}
	self->is_done = false;
	self->window = (uint32_t)self->input.begin;
	self->lines_used = 0;
	index_restart(self);
	return WEIR_OK;
}

uint64_t csv_reader_start(const struct weir_format_reader *base)
{
	return ((const struct csv_reader *)base)->start;
}

/* ---- the window ---- */

int csv_index_reserve(struct csv_reader *self, struct weir_error *err)
{
	struct csv_index *index = &self->index;

	if (!index->lines) {
		size_t size = weir_alloc_size((WEIR_VECTOR_ROWS + 2 * CSV_BLOCK) * sizeof(*index->lines));

		index->lines = weir_alloc(self->account, size, err);
		if (!index->lines)
			return err->code;
		self->lines_size = size;
		index->line_capacity = (uint32_t)(size / sizeof(*index->lines));
	}
	if (index->end_capacity - index->end_count < CSV_BLOCK) {
		size_t size = weir_alloc_size(self->ends_size ? self->ends_size * 2
							      : ENDS_FIRST * sizeof(*index->ends));
		uint32_t *ends = weir_alloc(self->account, size, err);

		if (!ends)
			return err->code;
		if (index->end_count)
			memcpy(ends, index->ends, index->end_count * sizeof(*ends));
		weir_free(self->account, index->ends, self->ends_size);
		index->ends = ends;
		self->ends_size = size;
		index->end_capacity = (uint32_t)(size / sizeof(*ends));
	}
	return WEIR_OK;
}

/* Lines that are out of the way are forgotten; what is indexed behind them moves to the front. */
static void lines_drop(struct csv_reader *self, uint32_t count)
{
	struct csv_index *index = &self->index;
	uint32_t ends;

	if (count == 0)
		return;
	ends = index->lines[count - 1] + 1;
	index->end_count -= ends;
	index->line_count -= count;
	memmove(index->ends, index->ends + ends, index->end_count * sizeof(*index->ends));
	memmove(index->lines, index->lines + count, index->line_count * sizeof(*index->lines));
	for (uint32_t i = 0; i < index->line_count; i++)
		index->lines[i] -= ends;
}

static void lines_count(struct csv_reader *self)
{
	self->lines = self->index.has_inner_lines ? lines_until(self, self->line_begin)
						  : self->lines + self->window_lines;
	self->window = self->line_begin;
	self->window_lines = 0;
}

/* How long the record is that begins the window, as far as its quotes tell; *whole: to its end. What was read of it is
 * lost. */
static uint64_t record_size(struct csv_reader *self, bool *whole)
{
	const struct csv_dialect *dialect = &self->file->dialect;
	struct weir_text_input *input = &self->input;
	size_t at = input->begin, end = input->end, capacity = input->end, got;
	bool is_quoted = false, is_escaped = false;
	struct weir_error ignored = {0};
	uint64_t size = 0;

	*whole = false;
	for (;;) {
		for (; at < end; at++, size++) {
			uint8_t byte = (uint8_t)input->text[at];

			if (is_escaped)
				is_escaped = false;
			else if (dialect->has_escape && byte == dialect->escape)
				is_escaped = true;
			else if (dialect->has_quote && byte == dialect->quote)
				is_quoted = !is_quoted;
			else if (byte == '\n' && !is_quoted)
				*whole = true;
			if (*whole)
				return size;
		}
		if (!input->stream || weir_stream_read(input->stream, input->text, capacity, &got, &ignored))
			return size;
		if (got == 0) {
			*whole = !is_quoted;
			return size;
		}
		at = 0;
		end = got;
	}
}

static int too_long(struct csv_reader *self, struct weir_error *err)
{
	bool whole;
	uint64_t size = record_size(self, &whole);

	weir_text_too_long(err, size, whole);
	csv_error_place(self, (uint32_t)self->input.begin, err);
	return err->code;
}

/* Slides the window and reads more; what is left of a line is indexed again with what follows it. */
static int window_fill(struct csv_reader *self, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;
	uint64_t offset, left, wanted = WINDOW_BYTES;
	size_t unread;

	lines_count(self);
	input->begin = self->line_begin;
	offset = weir_text_input_offset(input);
	unread = input->end - input->begin;
	left = self->range.end > offset ? self->range.end - offset : 0;
	if (left < wanted - BEYOND_BYTES)
		wanted = left + BEYOND_BYTES;
	if (unread > wanted / 2)
		wanted = unread * 2;
	if (self->window_max && wanted > self->window_max) {
		weir_error_set(err, WEIR_E_DATA, "a record is too long to be looked at for its types");
	} else if (wanted > UINT32_MAX - 2 * CSV_BLOCK) {
		weir_error_set(err, WEIR_E_LIMIT, "the longest record that is read has 2 GiB");
	} else if (!weir_text_input_fill(input, (size_t)wanted, err)) {
		self->window = (uint32_t)input->begin;
		index_restart(self);
		return WEIR_OK;
	}
	self->window = (uint32_t)input->begin; /* a fill that fails has moved the text all the same */
	if ((err->code == WEIR_E_LIMIT || err->code == WEIR_E_CANCELLED) && unread > WINDOW_BYTES / 2)
		return too_long(self, err);
	csv_error_place(self, (uint32_t)input->begin, err);
	return err->code;
}

/* The last line has no line end. */
static int last_line(struct csv_reader *self, struct weir_error *err)
{
	struct csv_index *index = &self->index;

	if (index->state == CSV_IN_QUOTES || index->state == CSV_ESCAPED_IN_QUOTES) {
		weir_error_set(err, WEIR_E_DATA,
			       "the record that begins here has a quoted field that is not closed before the "
			       "file ends");
		csv_error_place(self, self->line_begin, err);
		return err->code;
	}
	index->lines[index->line_count++] = index->end_count;
	index->ends[index->end_count++] = index->size;
	index->state = CSV_LINE_START;
	return WEIR_OK;
}

/* At least one whole line in the index, or none at the end of the text. */
static int lines_find(struct csv_reader *self, struct weir_error *err)
{
	struct csv_index *index = &self->index;

	for (;;) {
		if (csv_index_reserve(self, err))
			goto failed;
		if (index->at < index->size && index->line_count < self->rows_max)
			self->kernels->index(index, &self->file->dialect);
		if (index->line_count > 0)
			return WEIR_OK;
		if (index->at < index->size && index->end_capacity - index->end_count < CSV_BLOCK)
			continue;
		if (!self->input.at_end) {
			if (window_fill(self, err))
				return err->code;
			continue;
		}
		if (self->line_begin == index->size)
			return WEIR_OK;
		if (index->end_capacity - index->end_count < CSV_BLOCK)
			continue;
		return last_line(self, err);
	}
failed:
	csv_error_place(self, self->line_begin, err);
	return err->code;
}

/* Lines of the index that begin inside the range. */
static uint32_t lines_inside(const struct csv_reader *self)
{
	const struct csv_index *index = &self->index;
	uint64_t left = self->range.end - self->input.offset; /* what is there lies before the range's end, or at it */
	uint32_t low = 0, high = index->line_count;

	if (self->range.end <= self->input.offset + self->line_begin)
		return 0;
	if (index->size < left)
		return index->line_count;
	/* Line i > 0 begins behind the end of line i − 1. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (middle == 0 || index->ends[index->lines[middle - 1]] + (uint64_t)1 < left)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int range_end(struct csv_reader *self, struct weir_error *err)
{
	struct weir_cuts *cuts = self->file->base.cuts;

	self->is_done = true;
	lines_count(self);
	if (!cuts)
		return WEIR_OK;
	return weir_cuts_end(cuts, self->range.number, self->start, self->input.offset + self->line_begin, self->lines,
			     err);
}

static int odd_line(const struct csv_reader *self, const struct csv_odd_line *odd, struct weir_error *err)
{
	const char *text = (const char *)self->input.text + odd->begin;
	uint32_t size = odd->end - odd->begin, shown = size < TEXT_SHOWN ? size : TEXT_SHOWN;
	uint32_t width = self->file->width;

	weir_error_set(err, WEIR_E_DATA,
		       "the row has %u field%s instead of %u: %.*s%s (--ragged skip leaves such rows out%s)",
		       odd->fields, odd->fields == 1 ? "" : "s", width, (int)shown, text, shown < size ? "…" : "",
		       odd->fields < width ? ", --ragged fill puts nulls" : "");
	csv_error_place(self, odd->begin, err);
	return err->code;
}

static void note_skipped(const struct csv_reader *self, uint32_t count)
{
	if (count)
		atomic_fetch_add_explicit(&self->file->skipped, count, memory_order_relaxed);
}

static void vector_make(struct csv_reader *self, struct weir_vector *out)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		self->vector_columns[i] = (struct weir_column){
			.type = self->file->base.schema->fields[self->columns[i].field].type,
			.form = WEIR_UNDECODED,
			.pending = &self->columns[i].pending,
		};
	*out = (struct weir_vector){
		.row_count = self->rows.count,
		.selection = {.count = self->rows.count},
		.column_count = self->column_count,
		.columns = self->vector_columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = self->range.number ? WEIR_NO_ROW : self->row,
	};
	self->row += self->rows.count;
}

int csv_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct csv_reader *self = (struct csv_reader *)base;
	struct csv_odd_line odd;

	*out = (struct weir_vector){0};
	if (self->is_done)
		return WEIR_OK;
	weir_arena_clear(&self->arena);
	lines_drop(self, self->lines_used);
	self->lines_used = 0;
	for (;;) {
		struct csv_row_rules rules = {self->file->dialect, self->file->options->ragged, self->file->width};
		uint32_t inside, skipped;

		if (self->input.offset + self->line_begin >= self->range.end)
			return range_end(self, err);
		if (lines_find(self, err))
			return err->code;
		inside = lines_inside(self);
		if (inside == 0)
			return range_end(self, err);
		if (csv_rows_make(&self->rows, self->account, &rules, &self->index, self->line_begin, inside,
				  self->rows_max, &self->lines_used, &skipped, &odd, err)) {
			csv_error_place(self, self->line_begin, err);
			return err->code;
		}
		if (odd.found && self->rows.count == 0)
			return odd_line(self, &odd, err);
		note_skipped(self, skipped);
		self->window_lines += self->lines_used;
		self->line_begin = self->rows.begin_next < self->index.size ? self->rows.begin_next : self->index.size;
		if (self->rows.count > 0)
			break;
		lines_drop(self, self->lines_used);
		self->lines_used = 0;
	}
	if (self->rows_max < WEIR_VECTOR_ROWS)
		self->rows_max = self->rows_max * 4 < WEIR_VECTOR_ROWS ? self->rows_max * 4 : WEIR_VECTOR_ROWS;
	vector_make(self, out);
	return WEIR_OK;
}

void csv_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct csv_reader *)base)->stats;
}

const struct weir_format_ops weir_csv_format = {
	.name = "csv",
	.extensions = (const char *const[]){".csv", ".tsv", NULL},
	.option_names = csv_option_names,
	.options_parse = csv_options_parse,
	.infer = csv_infer,
	.open = csv_file_open,
	.close = csv_file_close,
	.ranges = csv_file_ranges,
	.reader_new = csv_reader_new,
	.reader_open = csv_reader_open,
	.reader_next = csv_reader_next,
	.reader_start = csv_reader_start,
	.reader_stats = csv_reader_stats,
	.reader_free = csv_reader_free,
};
