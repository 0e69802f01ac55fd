/* One lane's reader: walks the records of a range and hands out vectors of columns that are not decoded yet.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * A vector's rows lie in one window: next walks records until the window has no more whole ones, or the vector is full.
 * A range stands for the records whose first byte lies in it; where its first one begins may be a guess
 * (format/cuts.h). Checksums are compared for every record that is walked, whatever is wanted of it.
 */
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

enum {
	ROWS_FIRST = 64,       /* of the first vector when a limit follows */
	WINDOW_KEEP = 4 << 20, /* what a long record took beyond is given back */
};

static void columns_free(struct tf_reader *self)
{
	struct weir_account *account = self->account;
	uint32_t count = self->scan.column_count;

	for (uint32_t i = 0; self->columns && i < count; i++) {
		struct tf_column *column = &self->columns[i];

		weir_free(account, column->spans, WEIR_VECTOR_ROWS * sizeof(*column->spans));
		weir_free(account, column->decoded, WEIR_VECTOR_ROWS * 16);
		weir_free(account, column->validity, WEIR_VECTOR_ROWS / 8);
		weir_array_unref(column->nested);
	}
	weir_free(account, self->columns, count * sizeof(*self->columns));
	weir_free(account, self->vector_columns, count * sizeof(*self->vector_columns));
	self->columns = NULL;
	self->vector_columns = NULL;
	weir_name_scan_clear(&self->scan);
}

static int column_init(struct tf_reader *self, struct tf_column *column, const struct weir_field *field,
		       struct weir_error *err)
{
	struct weir_account *account = self->account;
	struct tf_shape shape;

	WEIR_ASSERT(tf_shape_of(field->type, &shape));
	column->pending.decode = tf_column_decode;
	column->reader = self;
	column->field = field;
	column->is_list = field->type->id == WEIR_LIST_TYPE;
	column->item = column->is_list ? field->type->fields[0].type : field->type;
	column->spans = weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*column->spans), err);
	if (column->spans && !column->is_list)
		column->decoded = weir_alloc(account, WEIR_VECTOR_ROWS * 16, err);
	if (column->decoded)
		column->validity = weir_alloc(account, WEIR_VECTOR_ROWS / 8, err);
	return column->spans && (column->is_list || column->validity) ? WEIR_OK : err->code;
}

static int columns_new(struct tf_reader *self, struct weir_schema *schema, const struct weir_scan *scan,
		       struct weir_error *err)
{
	struct weir_account *account = self->account;
	uint32_t count = scan->column_count;

	columns_free(self);
	if (weir_name_scan_set(&self->scan, schema, scan, err))
		return err->code;
	self->columns = weir_alloc_zero(account, count * sizeof(*self->columns), err);
	if (self->columns)
		self->vector_columns = weir_alloc_zero(account, count * sizeof(*self->vector_columns), err);
	if (!self->vector_columns)
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		if (column_init(self, &self->columns[i], &schema->fields[scan->columns[i]], err))
			return err->code;
	return WEIR_OK;
}

static void reader_close(struct tf_reader *self)
{
	weir_text_input_close(&self->input);
	weir_text_input_shrink(&self->input, WINDOW_KEEP);
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->is_done = true;
}

int tf_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		  struct weir_error *err)
{
	struct tf_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_tfrecord_format;
	self->account = account;
	self->io = io;
	self->is_done = true;
	weir_text_input_init(&self->input, account);
	weir_name_scan_init(&self->scan, account);
	self->offsets = weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*self->offsets), err);
	if (!self->offsets) {
		weir_free(account, self, sizeof(*self));
		return err->code;
	}
	*out = &self->base;
	return WEIR_OK;
}

void tf_reader_free(struct weir_format_reader *base)
{
	struct tf_reader *self = (struct tf_reader *)base;

	if (!self)
		return;
	reader_close(self);
	columns_free(self);
	weir_text_input_release(&self->input);
	weir_free(self->account, self->offsets, WEIR_VECTOR_ROWS * sizeof(*self->offsets));
	weir_free(self->account, self, sizeof(*self));
}

int tf_reader_place(struct tf_reader *self, uint64_t offset, uint64_t record, struct weir_error *err)
{
	int64_t before = 0;

	weir_error_at_source(err, weir_file_path(self->file->base.file));
	weir_error_at_offset(err, offset);
	if (self->start)
		before = tf_frames_before(self->file->base.file, self->start);
	if (before >= 0)
		weir_error_at_row(err, before + (int64_t)record);
	return err->code;
}

/* Where the range's records begin. */
static int start_find(struct tf_reader *self, struct weir_error *err)
{
	const struct weir_range *range = &self->range;
	struct weir_file *file = self->file->base.file;
	int code;

	self->start = 0;
	if (range->begin == 0 || weir_cuts_start(self->file->base.cuts, range->number, &self->start))
		return WEIR_OK;
	code = weir_text_input_open(&self->input, self->io, file, range->begin, &self->file->options->stream, err);
	return code ? code
		    : tf_frame_guess(&self->input, weir_file_size(file), range->begin, range->end, &self->start, err);
}

int tf_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		   const struct weir_range *range, struct weir_error *err)
{
	struct tf_reader *self = (struct tf_reader *)base;

	weir_format_file_ref(file);
	reader_close(self);
	self->file = (struct tf_file *)file;
	self->range = *range;
	self->records = 0;
	self->vector_rows = 0;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	/* Files of one dataset have one schema, the very same: then everything is kept. */
	if (!weir_name_scan_is(&self->scan, file->schema, scan) && columns_new(self, file->schema, scan, err)) {
		columns_free(self);
		goto fail;
	}
	if (start_find(self, err))
		goto fail;
	if (self->start >= range->end && range->begin) {
		/* No record begins in it. */
		if (self->start != UINT64_MAX)
			return weir_cuts_end(file->cuts, range->number, self->start, self->start, 0, err);
		return WEIR_OK;
	}
	if (weir_text_input_open(&self->input, self->io, file->file, self->start, &self->file->options->stream, err))
		goto fail;
	self->is_done = false;
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(file->file));
	reader_close(self);
	return err->code;
}

/* `at`: where its record begins in the window. */
static int feature_new(struct tf_reader *self, const struct tf_feature *feature, size_t at, struct weir_error *err)
{
	const struct tf_options *options = self->file->options;

	if (options->unexpected == TF_UNEXPECTED_IGNORE ||
	    (options->unexpected == TF_UNEXPECTED_INFER && !self->scan.wants_all))
		return WEIR_OK;
	if (options->unexpected == TF_UNEXPECTED_ERROR)
		return weir_error_set(err, WEIR_E_VALUE, "Found extra unexpected feature %.*s not in specified schema",
				      (int)(feature->name_size < 200 ? feature->name_size : 200), feature->name);
	if (tf_misfits_note(self, at, err))
		return err->code;
	weir_error_set(
		err, WEIR_E_MISFIT,
		"the record has the feature '%.*s', which none of those looked at has; --infer all looks at all of them, --types names it",
		(int)(feature->name_size < 200 ? feature->name_size : 200), feature->name);
	return err->code;
}

/* Notes where the record's features lie. A damaged record is that first, and only then one with an unknown feature:
 * behind damage nothing was looked at. */
static int walk_record(struct tf_reader *self, const struct tf_frame *frame, uint32_t row, struct weir_error *err)
{
	const uint8_t *text = self->input.text;
	struct tf_walk walk = tf_walk_begin(text + frame->begin, frame->size);
	struct tf_feature feature, unknown = {0};
	bool has_unknown = false;

	for (uint32_t i = 0; i < self->scan.column_count; i++)
		self->columns[i].spans[row].begin = WEIR_NO_NAME;
	while (tf_walk_next(&walk, &feature)) {
		uint32_t at = weir_name_index_find(&self->scan.names, feature.name, feature.name_size);

		if (at == WEIR_NO_NAME && !has_unknown) {
			unknown = feature;
			has_unknown = true;
		} else if (at == WEIR_NO_NAME) {
			continue;
		} else if (self->scan.slots[at] != WEIR_NO_NAME) {
			self->columns[self->scan.slots[at]].spans[row] = (struct tf_span){
				.begin = (uint32_t)(feature.bytes - text), .size = (uint32_t)feature.size};
		}
	}
	if (walk.broken)
		return weir_error_set(err, WEIR_E_DATA, "the record is no tf.train.Example: it has %s", walk.broken);
	return has_unknown ? feature_new(self, &unknown, self->input.begin, err) : WEIR_OK;
}

/* Records up to a full vector, the end of the window's or of the range's. */
static int walk(struct tf_reader *self, uint32_t *rows, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;
	uint64_t file_size = self->file->is_plain ? weir_file_size(self->file->base.file) : 0;
	bool found = true, more = false;
	struct tf_frame frame;

	while (*rows < self->rows_max) {
		uint64_t offset = weir_text_input_offset(input);

		if (offset >= self->range.end) {
			self->is_done = true;
			break;
		}
		/* What rows point to must stay: the window moves between vectors. */
		if (tf_frame_next(input, file_size, *rows == 0, true, &frame, &found, &more, err))
			return tf_reader_place(self, offset, self->records + *rows, err);
		if (!found) {
			self->is_done = !more;
			break;
		}
		self->offsets[*rows] = (uint32_t)input->begin;
		if (walk_record(self, &frame, *rows, err))
			return tf_reader_place(self, offset, self->records + *rows, err);
		self->stats.bytes_read += TF_HEAD_BYTES + frame.size + TF_TAIL_BYTES;
		tf_frame_pass(input, &frame);
		++*rows;
	}
	if (self->is_done && self->file->base.cuts)
		return weir_cuts_end(self->file->base.cuts, self->range.number, self->start,
				     weir_text_input_offset(input), self->records + *rows, err);
	return WEIR_OK;
}

int tf_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct tf_reader *self = (struct tf_reader *)base;
	uint32_t rows = 0;
	int code = WEIR_OK;

	*out = (struct weir_vector){0};
	if (!self->is_done)
		code = walk(self, &rows, err);
	/* Rows before a wrong one are handed out first: they may be all that somebody wants. */
	if (code && rows && code != WEIR_E_MISFIT && !self->is_done) {
		weir_error_clear(err);
		code = WEIR_OK;
	}
	if (code || !rows)
		return code;
	self->rows_max = WEIR_VECTOR_ROWS;
	for (uint32_t i = 0; i < self->scan.column_count; i++)
		self->vector_columns[i] = (struct weir_column){.type = self->columns[i].field->type,
							       .form = WEIR_UNDECODED,
							       .pending = &self->columns[i].pending};
	*out = (struct weir_vector){
		.row_count = rows,
		.selection = {.count = rows},
		.column_count = self->scan.column_count,
		.columns = self->vector_columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = self->start ? -1 : (int64_t)self->records,
	};
	self->vector_rows = rows;
	self->records += rows;
	return WEIR_OK;
}

uint64_t tf_reader_start(const struct weir_format_reader *base)
{
	return ((const struct tf_reader *)base)->start;
}

void tf_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct tf_reader *)base)->stats;
}
