/* One lane's reader: a window of text at a time, whose lines go out as views into it.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * A range stands for the lines whose first byte lies in it: a reader of a range that begins inside the file looks for
 * the first line feed from the byte before it on, and reads on past its end to the end of its last line. So cuts need
 * no agreement between lanes. What lanes then do not know is the number of a line; when an error needs it, what lies
 * before is counted.
 *
 * A line ends with LF or CR LF, neither of which is part of it, or with the file. A vector's text is checked for UTF-8
 * in one go, line ends included.
 *
 * Threads: a reader belongs to one lane; the file is shared and never written to.
 */
#include "base/utf8.h"
#include "format/lines/lines_impl.h"

#include <string.h>

enum {
	WINDOW_BYTES = 256 << 10,
	BEYOND_BYTES = 4 << 10, /* read behind a range's end at first: its last line ends there */
	ROWS_FIRST = 64,        /* of the first vector when a limit follows */
	COUNT_BYTES = 32 << 10,
};

struct lines_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct lines_file *file; /* a reference */
	struct weir_text_input input;
	struct weir_range range;
	struct weir_view *views; /* WEIR_VECTOR_ROWS */
	struct weir_column *columns;
	uint32_t column_count;
	struct weir_arena arena; /* repaired lines of the vector that is out */
	/* the range's first line is yet to come: it is the range's wherever a byte order mark put it */
	bool is_first;
	bool is_done;
	uint64_t lines; /* ended before input.begin, counted from where the stream was opened */
	int64_t row;
	uint32_t rows_max;
	struct weir_format_stats stats;
};

int lines_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		     struct weir_error *err)
{
	struct lines_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_lines_format;
	self->account = account;
	self->io = io;
	self->is_done = true;
	weir_text_input_init(&self->input, account);
	weir_arena_init(&self->arena, account);
	self->views = weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*self->views), err);
	if (!self->views) {
		lines_reader_free(&self->base);
		return err->code;
	}
	*out = &self->base;
	return WEIR_OK;
}

static void reader_close(struct lines_reader *self)
{
	weir_text_input_close(&self->input);
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->is_done = true;
}

void lines_reader_free(struct weir_format_reader *base)
{
	struct lines_reader *self = (struct lines_reader *)base;

	if (!self)
		return;
	reader_close(self);
	weir_text_input_release(&self->input);
	weir_arena_release(&self->arena);
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->views, self->views ? WEIR_VECTOR_ROWS * sizeof(*self->views) : 0);
	weir_free(self->account, self, sizeof(*self));
}

/* ---- places ---- */

/* Line feeds before a byte of a plain file. Without memory of the account, which may have run out. */
static int count_before(const struct lines_reader *self, uint64_t offset, uint64_t *out, struct weir_error *err)
{
	uint8_t bytes[COUNT_BYTES];

	*out = 0;
	for (uint64_t at = 0; at < offset; at += COUNT_BYTES) {
		size_t size = offset - at < COUNT_BYTES ? (size_t)(offset - at) : COUNT_BYTES;

		if (weir_file_read(self->file->base.file, at, bytes, size, err))
			return err->code;
		for (size_t i = 0; i < size; i++)
			*out += bytes[i] == '\n';
	}
	return WEIR_OK;
}

/* The file, the byte and the number of the line that begins at text[at]; `lines` of the vector lie before it. */
static void error_place(struct lines_reader *self, size_t at, uint64_t lines, struct weir_error *err)
{
	struct weir_error ignored = {0};
	uint64_t offset = self->input.offset + at, before = self->lines + lines;

	weir_error_at_source(err, weir_file_path(self->file->base.file));
	if (!self->file->is_plain) {
		weir_error_at_line(err, (int64_t)before + 1);
		return;
	}
	/* Without it the message still has the byte. */
	if (self->range.begin == 0 || !count_before(self, offset, &before, &ignored))
		weir_error_at_line(err, (int64_t)before + 1);
	weir_error_at_offset(err, offset);
}

/* ---- the window ---- */

/* More text behind what is unread, which begins a line. */
static int window_fill(struct lines_reader *self, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;
	uint64_t offset = weir_text_input_offset(input), unread = input->end - input->begin, wanted = WINDOW_BYTES;
	uint64_t left = self->range.end > offset ? self->range.end - offset : 0;
	char size[16];

	if (left < wanted - BEYOND_BYTES)
		wanted = left + BEYOND_BYTES;
	if (unread > wanted / 2)
		wanted = unread * 2;
	if (unread > UINT32_MAX)
		weir_error_set(err, WEIR_E_LIMIT,
			       "the line that begins here is longer than 4 GiB, more than a value may be");
	else if (!weir_text_input_fill(input, wanted, err))
		return WEIR_OK;
	else if (err->code == WEIR_E_LIMIT && unread > WINDOW_BYTES / 2)
		weir_error_set(err, WEIR_E_LIMIT,
			       "the line that begins here is longer than %s and does not fit the memory limit",
			       weir_format_bytes((int64_t)unread, size, sizeof(size)));
	error_place(self, input->begin, 0, err);
	return err->code;
}

/* Passes over what belongs to the line that began before the range. */
static int skip_begun(struct lines_reader *self, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;

	for (;;) {
		const uint8_t *found = NULL;

		if (input->end > input->begin)
			found = memchr(input->text + input->begin, '\n', input->end - input->begin);
		if (found) {
			input->begin = (size_t)(found + 1 - input->text);
			return WEIR_OK;
		}
		input->begin = input->end;
		if (input->at_end)
			return WEIR_OK;
		if (weir_text_input_fill(input, WINDOW_BYTES, err))
			return err->code;
	}
}

/* In plain text the mark is still there. */
static int skip_mark(struct lines_reader *self, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;

	if (!self->file->is_plain)
		return WEIR_OK;
	if (weir_text_input_fill(input, 3, err))
		return err->code;
	if (input->end - input->begin >= 3 && memcmp(input->text + input->begin, WEIR_BYTE_ORDER_MARK, 3) == 0)
		input->begin += 3;
	return WEIR_OK;
}

static int columns_new(struct lines_reader *self, const struct weir_scan *scan, struct weir_error *err)
{
	uint32_t count = scan->column_count;

	if (count == self->column_count)
		return WEIR_OK;
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	self->column_count = 0;
	self->columns = weir_alloc_zero(self->account, count * sizeof(*self->columns), err);
	if (!self->columns)
		return err->code;
	self->column_count = count;
	return WEIR_OK;
}

int lines_reader_open(struct weir_format_reader *base, struct weir_format_file *opened, const struct weir_scan *scan,
		      const struct weir_range *range, struct weir_error *err)
{
	struct lines_reader *self = (struct lines_reader *)base;
	struct lines_file *file = (struct lines_file *)opened;
	uint64_t begin = range->begin ? range->begin - 1 : 0;
	int code;

	weir_format_file_ref(opened);
	reader_close(self);
	self->file = file;
	self->range = *range;
	self->lines = 0;
	self->row = 0;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	self->is_first = range->begin == 0;
	code = columns_new(self, scan, err);
	if (!code)
		code = weir_text_input_open(&self->input, self->io, opened->file, begin, &file->options->stream, err);
	if (!code)
		code = range->begin ? skip_begun(self, err) : skip_mark(self, err);
	if (code) {
		weir_error_at_source(err, weir_file_path(opened->file));
		reader_close(self);
		return code;
	}
	self->is_done = false;
	return WEIR_OK;
}

/* ---- lines ---- */

/* Lines as they lie in the window. */
struct taken {
	size_t begin, end; /* the text that they lie in */
	uint32_t count;    /* lines that are rows */
	uint64_t lines;    /* all */
};

static void take_lines(struct lines_reader *self, struct taken *taken)
{
	struct weir_text_input *input = &self->input;
	const uint8_t *text = input->text;
	bool keep_empty = self->file->options->keep_empty;
	size_t at = input->begin;

	*taken = (struct taken){.begin = at};
	while (at < input->end && taken->count < self->rows_max) {
		const uint8_t *feed = memchr(text + at, '\n', input->end - at);
		size_t end = feed ? (size_t)(feed - text) : input->end, next = feed ? end + 1 : end;

		if (!feed && !input->at_end)
			break;
		if (!self->is_first && input->offset + at >= self->range.end) {
			self->is_done = true;
			break;
		}
		self->is_first = false;
		if (feed && end > at && text[end - 1] == '\r')
			end--;
		if (keep_empty || (end > at && (text[at] > ' ' && text[at] < 0x80)) ||
		    !lines_is_empty(text + at, end - at))
			self->views[taken->count++] = (struct weir_view){.size = (uint32_t)(end - at),
									 .data = text + at};
		taken->lines++;
		at = next;
	}
	taken->end = at;
}

static int not_utf8(struct lines_reader *self, const struct taken *taken, struct weir_error *err)
{
	const uint8_t *text = self->input.text;
	size_t bad = taken->begin + weir_utf8_valid_prefix(text + taken->begin, taken->end - taken->begin), line = bad;
	uint64_t before = 0;

	while (line > taken->begin && text[line - 1] != '\n')
		line--;
	for (size_t i = taken->begin; i < line; i++)
		before += text[i] == '\n';
	weir_error_set(
		err, WEIR_E_DATA,
		"byte 0x%02x at place %zu of the line is not UTF-8; --encoding names another encoding, --errors replace "
		"or ignore takes the line as far as it goes",
		text[bad], bad - line + 1);
	error_place(self, line, before, err);
	return err->code;
}

/* A line of which nothing but white space is left counts as empty too. */
static int repair(struct lines_reader *self, uint32_t *count, struct weir_error *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < *count; i++) {
		struct weir_view view = self->views[i];
		uint8_t *out;

		if (!weir_utf8_valid(view.data, view.size)) {
			out = weir_arena_alloc(&self->arena, (size_t)view.size * LINES_REPAIR_MAX, err);
			if (!out)
				return err->code;
			view.size = (uint32_t)lines_repair(view.data, view.size, self->file->options->errors, out);
			view.data = out;
			if (!self->file->options->keep_empty && lines_is_empty(out, view.size))
				continue;
		}
		self->views[kept++] = view;
	}
	*count = kept;
	return WEIR_OK;
}

static void vector_make(struct lines_reader *self, uint32_t count, struct weir_vector *out)
{
	if (self->column_count)
		for (uint32_t i = 0; i < count; i++)
			self->views[i] = weir_view_make(self->views[i].data, self->views[i].size);
	for (uint32_t i = 0; i < self->column_count; i++)
		self->columns[i] = (struct weir_column){
			.type = self->file->base.schema->fields[0].type, .form = WEIR_FLAT, .values = self->views};
	*out = (struct weir_vector){
		.row_count = count,
		.selection = {.count = count},
		.column_count = self->column_count,
		.columns = self->columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = self->row,
	};
	self->row += count;
	self->rows_max = self->rows_max < WEIR_VECTOR_ROWS / 4 ? self->rows_max * 4 : WEIR_VECTOR_ROWS;
}

int lines_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct lines_reader *self = (struct lines_reader *)base;
	struct weir_text_input *input = &self->input;
	struct taken taken = {0};

	*out = (struct weir_vector){0};
	weir_arena_clear(&self->arena);
	while (!self->is_done && taken.count == 0) {
		take_lines(self, &taken);
		if (self->column_count && taken.count &&
		    !weir_utf8_valid(input->text + taken.begin, taken.end - taken.begin)) {
			if (self->file->options->errors == LINES_STRICT)
				return not_utf8(self, &taken, err);
			if (repair(self, &taken.count, err))
				return err->code;
		}
		self->lines += taken.lines;
		self->stats.bytes_read += taken.end - taken.begin;
		input->begin = taken.end;
		if (taken.count || self->is_done || taken.lines)
			continue;
		if (input->at_end)
			self->is_done = true;
		else if (window_fill(self, err))
			return err->code;
	}
	if (taken.count)
		vector_make(self, taken.count, out);
	return WEIR_OK;
}

void lines_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct lines_reader *)base)->stats;
}
