/* One lane's reader: walks a range of rows, batch by batch, and hands out vectors of undecoded columns.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * In a file the footer leads to the batches, and all dictionaries are read first, once per lane and file. In a stream
 * messages are taken as they come, and a dictionary that changes is there before the batch that needs it. Either way
 * only metadata is read here; columns bring their own bytes when they are asked for (column.c).
 *
 * Threads: a reader belongs to one lane; the file is shared and never written to.
 */
#include "format/ipc/read_impl.h"

#include <string.h>

enum {
	ROWS_FIRST = 64,        /* of the first vector when a limit follows */
	ROWS_WIDE = 1024,       /* many narrow columns still get this many */
	WINDOW_MAX = 256 << 10, /* of a column: what is read at once stays in the cache until it is used */
	WINDOW_MIN = 8 << 10,
	WINDOW_SHARE = 8,    /* of the account's room, for all windows */
	HEAVY_MIN = 4 << 20, /* bytes of a column in a batch from which on its rows are weighed before they are read */
};

static void columns_free(struct ipc_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		ipc_column_release(&self->columns[i]);
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->vector_columns, self->column_count * sizeof(*self->vector_columns));
	self->columns = NULL;
	self->vector_columns = NULL;
	self->column_count = 0;
}

static int columns_new(struct ipc_reader *self, struct weir_error *err)
{
	uint32_t count = self->scan->column_count;

	columns_free(self);
	self->columns = weir_alloc_zero(self->account, count * sizeof(*self->columns), err);
	self->vector_columns = weir_alloc_zero(self->account, count * sizeof(*self->vector_columns), err);
	if (!self->columns || !self->vector_columns) {
		weir_free(self->account, self->columns, count * sizeof(*self->columns));
		weir_free(self->account, self->vector_columns, count * sizeof(*self->vector_columns));
		self->columns = NULL;
		self->vector_columns = NULL;
		return err->code;
	}
	self->column_count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = self->scan->columns[i];

		self->columns[i] = (struct ipc_column){.pending = {ipc_column_decode},
						       .reader = self,
						       .number = number,
						       .type = self->file->base.schema->fields[number].type};
		weir_arena_init(&self->columns[i].values_arena, self->account);
	}
	return WEIR_OK;
}

static void batch_close(struct ipc_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		ipc_column_batch(&self->columns[i]);
	self->is_open = false;
	self->vector_rows = 0;
}

static void file_close(struct ipc_reader *self)
{
	batch_close(self);
	columns_free(self);
	weir_ipc_layout_free(self->layout);
	weir_ipc_dictionaries_free(self->dictionaries);
	self->layout = NULL;
	self->dictionaries = NULL;
	ipc_source_release(&self->source);
	self->stats.bytes_read += self->source.bytes_read;
	self->source = (struct ipc_source){0};
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->scan = NULL;
}

static int dictionaries_new(struct ipc_reader *self, struct weir_error *err)
{
	weir_ipc_dictionaries_free(self->dictionaries);
	self->dictionaries = NULL;
	self->dictionaries_read = false;
	if (weir_ipc_dictionaries_new(self->account, self->file->schema, self->file->is_stream, &self->dictionaries,
				      err))
		return err->code;
	for (uint32_t i = 0; i < self->column_count; i++)
		weir_ipc_dictionaries_want(self->dictionaries, self->columns[i].number);
	return WEIR_OK;
}

static int file_open(struct ipc_reader *self, struct ipc_file *file, const struct weir_scan *scan,
		     struct weir_error *err)
{
	weir_format_file_ref(&file->base);
	file_close(self);
	self->file = file;
	self->scan = scan;
	self->source = (struct ipc_source){
		.account = self->account, .file = file->base.file, .is_sequential = file->is_sequential};
	if (columns_new(self, err) || weir_ipc_layout_new(self->account, file->schema, &self->layout, err) ||
	    dictionaries_new(self, err)) {
		file_close(self);
		return err->code;
	}
	return WEIR_OK;
}

int ipc_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err)
{
	struct ipc_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_arrow_format;
	self->account = account;
	self->io = io;
	weir_arena_init(&self->arena, account);
	*out = &self->base;
	return WEIR_OK;
}

void ipc_reader_free(struct weir_format_reader *base)
{
	struct ipc_reader *self = (struct ipc_reader *)base;

	if (!self)
		return;
	file_close(self);
	weir_arena_release(&self->arena);
	weir_free(self->account, self, sizeof(*self));
}

int ipc_reader_open(struct weir_format_reader *base, struct weir_format_file *opened, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err)
{
	struct ipc_reader *self = (struct ipc_reader *)base;
	struct ipc_file *file = (struct ipc_file *)opened;

	batch_close(self);
	/* Ranges of one file follow each other: its dictionaries stay. */
	if ((self->file != file || self->scan != scan) && file_open(self, file, scan, err))
		return err->code;
	if (file->is_stream &&
	    (dictionaries_new(self, err) || ipc_source_rewind(&self->source, self->io, file->stream_begin, err))) {
		weir_error_at_source(err, weir_file_path(file->base.file));
		file_close(self);
		return err->code;
	}
	self->row = (int64_t)range->begin;
	self->row_end = file->is_stream ? INT64_MAX : (int64_t)range->end;
	self->batch = 0;
	self->batch_begin = self->batch_rows = 0;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	return WEIR_OK;
}

/* ---- batches ---- */

static int dictionaries_read(struct ipc_reader *self, struct weir_error *err)
{
	struct weir_ipc_body body = ipc_source_body(&self->source);
	int code = WEIR_OK;

	if (self->dictionaries_read || !weir_ipc_dictionaries_wanted(self->dictionaries))
		return WEIR_OK;
	for (uint32_t i = 0; !code && i < self->file->dictionary_count; i++) {
		const struct weir_ipc_block *block = &self->file->blocks.items[i];

		code = ipc_source_message(&self->source, block->offset,
					  block->offset + block->metadata_size + block->body_size, err);
		if (!code && self->source.head.kind != WEIR_IPC_DICTIONARY)
			code = weir_error_set(err, WEIR_E_DATA, "the footer names a dictionary that is none");
		if (!code)
			code = weir_ipc_dictionaries_read(self->dictionaries, self->source.metadata.bytes,
							  self->source.head.metadata_size, &body, err);
		if (code)
			weir_error_at_offset(err, block->offset);
	}
	self->dictionaries_read = !code;
	/* Some of them are there: when the split is redone it begins anew. */
	if (code)
		file_close(self);
	return code;
}

/* Rows a vector of this batch is to have. */
static void rows_plan(struct ipc_reader *self)
{
	int64_t room = weir_account_room(self->account);
	double total = 0, widest = 0, count, wide;
	size_t window = (size_t)(room > 0 ? room : 0) / WINDOW_SHARE / (self->column_count ? self->column_count : 1);

	for (uint32_t i = 0; i < self->column_count; i++) {
		struct ipc_column *column = &self->columns[i];
		uint64_t size = weir_ipc_column_size(self->layout, column->number);
		double least = self->file->row_bytes[column->number];

		column->row_bytes = (double)size / (double)self->batch_rows;
		/* Of runs and of what is compressed, buffers say little. */
		if (column->row_bytes < least)
			column->row_bytes = least;
		column->is_heavy = !self->source.head.is_compressed && size > HEAVY_MIN;
		total += column->row_bytes;
		widest = column->row_bytes > widest ? column->row_bytes : widest;
	}
	count = (double)WEIR_VECTOR_BYTES / (total > 1 ? total : 1);
	wide = (double)WEIR_VECTOR_BYTES / (widest > 1 ? widest : 1);
	wide = wide < ROWS_WIDE ? wide : ROWS_WIDE;
	count = count > wide ? count : wide;
	count = count < WEIR_VECTOR_ROWS ? count : WEIR_VECTOR_ROWS;
	/* Whole words of validity bits. */
	self->rows_cap = count < 64 ? (uint32_t)(count > 1 ? count : 1) : (uint32_t)count & ~63u;
	self->window_bytes = window < WINDOW_MIN ? WINDOW_MIN : window > WINDOW_MAX ? WINDOW_MAX : window;
}

/* The message at hand is a batch with rows. */
static int batch_open(struct ipc_reader *self, struct weir_error *err)
{
	uint64_t begin = UINT64_MAX, end = 0;

	if (weir_ipc_layout_read(self->layout, self->source.metadata.bytes, self->source.head.metadata_size, err))
		return err->code;
	for (uint32_t i = 0; i < self->column_count; i++) {
		uint64_t first, last;

		weir_ipc_column_span(self->layout, self->columns[i].number, &first, &last);
		if (first == last)
			continue;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
	}
	ipc_source_span(&self->source, begin < end ? begin : 0, end);
	rows_plan(self);
	self->is_open = true;
	return WEIR_OK;
}

/* The batch of a file that holds the next row. */
static int file_batch(struct ipc_reader *self, struct weir_error *err)
{
	const struct ipc_file *file = self->file;
	const struct weir_ipc_block *block;
	size_t low = 0, high = file->batches.count;
	int code = dictionaries_read(self, err);

	if (code)
		return code;
	/* The last one that begins at or before the row: empty ones begin where the next does. */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (file->batches.items[middle].row_begin <= self->row)
			low = middle;
		else
			high = middle;
	}
	self->batch = (uint32_t)low;
	self->batch_begin = file->batches.items[low].row_begin;
	self->batch_rows = file->batches.items[low].row_count;
	WEIR_ASSERT(self->row >= self->batch_begin && self->row < self->batch_begin + self->batch_rows);
	block = &file->blocks.items[file->dictionary_count + low];
	code = ipc_source_message(&self->source, block->offset, block->offset + block->metadata_size + block->body_size,
				  err);
	if (!code && (self->source.head.kind != WEIR_IPC_BATCH || self->source.head.row_count != self->batch_rows))
		code = weir_error_set(err, WEIR_E_DATA, "the file was changed while it was read");
	if (!code)
		code = batch_open(self, err);
	if (code)
		weir_error_at_offset(err, block->offset);
	return code;
}

/* The next batch of a stream that has rows, or the end, which sets row_end. */
static int stream_batch(struct ipc_reader *self, struct weir_error *err)
{
	struct weir_ipc_body body = ipc_source_body(&self->source);

	for (;;) {
		int code = WEIR_OK;

		if (ipc_source_next(&self->source, err))
			return err->code;
		switch (self->source.head.kind) {
		case WEIR_IPC_END:
			self->row_end = self->row;
			return WEIR_OK;
		case WEIR_IPC_SCHEMA:
			code = weir_error_set(err, WEIR_E_DATA, "an Arrow stream has a second schema");
			break;
		case WEIR_IPC_DICTIONARY:
			code = weir_ipc_dictionaries_read(self->dictionaries, self->source.metadata.bytes,
							  self->source.head.metadata_size, &body, err);
			break;
		case WEIR_IPC_BATCH:
			self->batch_begin = self->row;
			self->batch_rows = self->source.head.row_count;
			if (self->batch_rows > INT64_MAX - self->row)
				code = weir_error_set(err, WEIR_E_DATA,
						      "the batches claim more rows than can be counted");
			else if (self->batch_rows > 0)
				code = batch_open(self, err);
			break;
		}
		if (code) {
			weir_error_at_offset(err, self->source.offset);
			return code;
		}
		if (self->is_open)
			return WEIR_OK;
	}
}

/* ---- vectors ---- */

static int vector_rows(struct ipc_reader *self, uint32_t *out, struct weir_error *err)
{
	int64_t left = self->batch_begin + self->batch_rows - self->row;
	uint32_t rows = self->rows_cap < self->rows_max ? self->rows_cap : self->rows_max;

	left = left < self->row_end - self->row ? left : self->row_end - self->row;
	rows = left < rows ? (uint32_t)left : rows;
	for (uint32_t i = 0; i < self->column_count; i++) {
		if (self->columns[i].is_heavy && ipc_column_weigh(&self->columns[i], self->vector_begin, &rows, err)) {
			weir_error_at_offset(err, self->source.offset);
			return err->code;
		}
	}
	*out = rows;
	return WEIR_OK;
}

static int next(struct ipc_reader *self, struct weir_vector *out, struct weir_error *err)
{
	int code = WEIR_OK;

	weir_arena_clear(&self->arena);
	*out = (struct weir_vector){0};
	if (self->is_open && self->row == self->batch_begin + self->batch_rows)
		batch_close(self);
	if (self->file && self->row < self->row_end && !self->is_open)
		code = self->file->is_stream ? stream_batch(self, err) : file_batch(self, err);
	if (code)
		return code;
	if (!self->file || self->row >= self->row_end) {
		/* Memory that the next range, of another file perhaps, does not need. */
		batch_close(self);
		return WEIR_OK;
	}
	self->vector_begin = self->row - self->batch_begin;
	if (vector_rows(self, &self->vector_rows, err))
		return err->code;
	for (uint32_t i = 0; i < self->column_count; i++)
		self->vector_columns[i] = (struct weir_column){
			.type = self->columns[i].type,
			.form = WEIR_UNDECODED,
			.pending = &self->columns[i].pending,
		};
	*out = (struct weir_vector){
		.row_count = self->vector_rows,
		.selection = {.count = self->vector_rows},
		.column_count = self->column_count,
		.columns = self->vector_columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = self->row,
	};
	self->row += self->vector_rows;
	self->rows_max = self->rows_max < WEIR_VECTOR_ROWS / 4 ? self->rows_max * 4 : WEIR_VECTOR_ROWS;
	return WEIR_OK;
}

int ipc_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct ipc_reader *self = (struct ipc_reader *)base;
	struct weir_file *file = self->file ? weir_file_ref(self->file->base.file) : NULL;
	int code = next(self, out, err);

	/* The file may have been let go of. */
	if (code && file)
		weir_error_at_source(err, weir_file_path(file));
	if (file)
		weir_file_unref(file);
	return code;
}

void ipc_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	const struct ipc_reader *self = (const struct ipc_reader *)base;

	*out = self->stats;
	out->bytes_read += self->source.bytes_read;
}
