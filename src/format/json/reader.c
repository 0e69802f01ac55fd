/* One lane's reader: walks the records of a range and hands out vectors of columns that are not decoded yet.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * A vector's rows lie in one window: next walks records until the window has no more whole ones, or the vector is full.
 * Then it is handed out; the call after that drops what was read and fills the window again.
 */
#include "vector/kernels.h"
#include "format/json/json_impl.h"

#include <string.h>

enum { ROWS_FIRST = 64 }; /* of the first vector when a limit follows */

static void columns_free(struct json_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct json_column *column = &self->columns[i];

		json_shape_release(&column->shape, self->account);
		weir_free(self->account, column->decoded, column->decoded_capacity);
		weir_free(self->account, column->validity,
			  WEIR_BIT_WORDS(WEIR_VECTOR_ROWS) * sizeof(*column->validity));
		weir_array_unref(column->nested);
	}
	weir_free(self->account, self->values, (size_t)self->column_count * self->rows_cap * sizeof(*self->values));
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->vector_columns, self->column_count * sizeof(*self->vector_columns));
	weir_free(self->account, self->columns_scanned, self->column_count * sizeof(*self->columns_scanned));
	self->values = NULL;
	self->columns = NULL;
	self->vector_columns = NULL;
	self->columns_scanned = NULL;
	self->column_count = 0;
	json_keys_release(&self->keys);
	weir_schema_unref(self->schema);
	self->schema = NULL;
}

/* Files of one dataset have one schema, mostly the very same: then everything is kept. */
static bool columns_fit(const struct json_reader *self, const struct weir_schema *schema, const struct weir_scan *scan)
{
	return self->schema == schema && self->column_count == scan->column_count &&
	       (!scan->column_count ||
		memcmp(self->columns_scanned, scan->columns, scan->column_count * sizeof(*scan->columns)) == 0);
}

static int columns_new(struct json_reader *self, const struct weir_schema *schema, const struct weir_scan *scan,
		       struct weir_error *err)
{
	struct weir_account *account = self->account;
	uint32_t count = scan->column_count;

	columns_free(self);
	self->schema = weir_schema_ref(schema);
	if (json_keys_init(&self->keys, account, schema->fields, schema->field_count, err))
		return err->code;
	self->columns = weir_alloc_zero(account, count * sizeof(*self->columns), err);
	self->vector_columns = self->columns ? weir_alloc_zero(account, count * sizeof(*self->vector_columns), err)
					     : NULL;
	self->columns_scanned = self->vector_columns ? weir_alloc(account, count * sizeof(*self->columns_scanned), err)
						     : NULL;
	self->values = self->columns_scanned
			       ? weir_alloc(account, (size_t)count * self->rows_cap * sizeof(*self->values), err)
			       : NULL;
	if (!self->values) {
		weir_free(account, self->columns_scanned, count * sizeof(*self->columns_scanned));
		weir_free(account, self->vector_columns, count * sizeof(*self->vector_columns));
		weir_free(account, self->columns, count * sizeof(*self->columns));
		self->columns = NULL;
		self->vector_columns = NULL;
		self->columns_scanned = NULL;
		return err->code;
	}
	self->column_count = count;
	if (count)
		memcpy(self->columns_scanned, scan->columns, count * sizeof(*self->columns_scanned));
	self->wants_all = true;
	for (uint32_t i = 0; i < count; i++) {
		struct json_column *column = &self->columns[i];

		column->pending.decode = json_column_decode;
		column->reader = self;
		column->field = &schema->fields[scan->columns[i]];
		column->values = self->values + (size_t)i * self->rows_cap;
		if (json_shape_init(&column->shape, account, weir_type_values(column->field->type), err)) {
			weir_error_at_column(err, column->field->name);
			return err->code;
		}
		column->validity = weir_alloc(account, WEIR_BIT_WORDS(WEIR_VECTOR_ROWS) * sizeof(*column->validity),
					      err);
		if (!column->validity)
			return err->code;
		self->keys.keys[scan->columns[i]].slot = i;
	}
	for (uint32_t i = 0; i < schema->field_count; i++)
		self->wants_all &= self->keys.keys[i].slot != JSON_NO_FIELD;
	return WEIR_OK;
}

static void reader_close(struct json_reader *self)
{
	weir_text_input_close(&self->cursor.window.input);
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->is_done = true;
}

int json_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		    struct weir_error *err)
{
	struct json_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_json_format;
	self->account = account;
	self->io = io;
	self->rows_cap = WEIR_VECTOR_ROWS;
	self->is_done = true;
	json_cursor_init(&self->cursor, account);
	weir_arena_init(&self->arena, account);
	*out = &self->base;
	return WEIR_OK;
}

void json_reader_free(struct weir_format_reader *base)
{
	struct json_reader *self = (struct json_reader *)base;

	if (!self)
		return;
	reader_close(self);
	columns_free(self);
	json_cursor_release(&self->cursor);
	weir_arena_release(&self->arena);
	weir_free(self->account, self, sizeof(*self));
}

/* Where the range's records begin. */
static int start_find(struct json_reader *self, uint64_t *start, struct weir_error *err)
{
	struct json_file *file = self->file;
	const struct weir_range *range = &self->range;

	*start = file->first;
	if (range->begin == 0)
		return WEIR_OK;
	if (file->layout == JSON_LAYOUT_LINES)
		return json_line_find(&self->cursor, self->io, file, range->begin, start, err);
	if (weir_cuts_start(file->base.cuts, range->number, start))
		return WEIR_OK;
	return json_record_guess(&self->cursor, self->io, file, range->begin, range->end, &self->keys, start, err);
}

int json_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		     const struct weir_range *range, struct weir_error *err)
{
	struct json_reader *self = (struct json_reader *)base;
	uint64_t start;

	weir_error_clear(err); /* whether it holds one is asked below */
	weir_format_file_ref(file);
	reader_close(self);
	self->file = (struct json_file *)file;
	self->range = *range;
	self->rows_before = 0;
	self->vector_rows = 0;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	if (!columns_fit(self, file->schema, scan) && columns_new(self, file->schema, scan, err)) {
		columns_free(self);
		goto fail;
	}
	if (start_find(self, &start, err))
		goto fail;
	self->cursor.start = start;
	if (start >= range->end && range->begin) {
		/* No record begins in it. */
		self->is_done = true;
		if (file->cuts && start != UINT64_MAX)
			return weir_cuts_end(file->cuts, range->number, start, start, 0, err);
		return WEIR_OK;
	}
	self->is_done = false;
	if (json_cursor_open(&self->cursor, self->io, self->file, start, range->end, err))
		goto fail;
	if (json_cursor_fill(&self->cursor, err)) {
		json_reader_place(self, err);
		goto fail;
	}
	return WEIR_OK;
fail:
	reader_close(self);
	return err->code;
}

/* The records of the range have been walked: the next range's begin here. */
static int range_end(struct json_reader *self, struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	size_t at = window->text ? window->entries[self->cursor.entry] : 0;

	self->is_done = true;
	if (!self->file->base.cuts)
		return WEIR_OK;
	return weir_cuts_end(self->file->base.cuts, self->range.number, self->cursor.start, window->input.offset + at,
			     window->line + (window->text ? window->kernels->count_newlines(window->text, at) : 0),
			     err);
}

int json_reader_place(struct json_reader *self, struct weir_error *err)
{
	const struct json_file *file = self->file;
	struct weir_error ignored = {0};
	uint64_t lines = 0;

	weir_error_at_source(err, weir_file_path(file->base.file));
	if (!err->has_line)
		return err->code;
	if (file->base.cuts) {
		err->line_in_range = 1;
	} else if (self->cursor.start && file->is_plain) {
		if (json_lines_before(file, self->cursor.start, &lines, &ignored))
			err->has_line = 0;
		else
			err->line += (int64_t)lines;
	}
	return err->code;
}

static void vector_make(struct json_reader *self, uint32_t rows, struct weir_vector *out)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		self->vector_columns[i] = (struct weir_column){
			.type = self->columns[i].field->type,
			.form = WEIR_UNDECODED,
			.pending = &self->columns[i].pending,
		};
	*out = (struct weir_vector){
		.row_count = rows,
		.selection = {.count = rows},
		.column_count = self->column_count,
		.columns = self->vector_columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = (int64_t)self->rows_before,
	};
	self->vector_rows = rows;
	self->rows_before += rows;
}

int json_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct json_reader *self = (struct json_reader *)base;
	uint32_t rows = 0;
	int code = WEIR_OK;

	weir_error_clear(err);
	weir_arena_clear(&self->arena);
	*out = (struct weir_vector){0};
	while (!self->is_done && rows < self->rows_max) {
		enum json_step step = json_walk(self, rows, err);

		if (step == JSON_ROW) {
			rows++;
			continue;
		}
		if (step == JSON_MORE && rows)
			break; /* what the rows point to must stay */
		if (step == JSON_MORE)
			code = json_cursor_fill(&self->cursor, err);
		else if (step == JSON_END)
			code = range_end(self, err);
		else
			code = err->code;
		/* Rows before a wrong one are handed out first: they may be all that somebody wants. */
		if (step == JSON_FAILED && rows && err->code != WEIR_E_MISFIT) {
			weir_error_clear(err);
			code = WEIR_OK;
			break;
		}
		if (code)
			return json_reader_place(self, err);
	}
	self->rows_max = WEIR_VECTOR_ROWS;
	if (rows)
		vector_make(self, rows, out);
	return WEIR_OK;
}

uint64_t json_reader_start(const struct weir_format_reader *base)
{
	return ((const struct json_reader *)base)->cursor.start;
}

void json_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct json_reader *)base)->stats;
}
