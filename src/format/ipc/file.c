/* An Arrow file or stream, opened: its schema, and of a file where its batches lie and how many rows each has.
 *
 *     file     ARROW1 │ schema │ dictionaries and batches │ end mark │ footer │ its size │ ARROW1
 *     stream   schema │ dictionaries and batches, in the order of their meaning │ end mark
 *
 * The first bytes decide which it is, not the name. The footer says where batches are but not how many rows they have:
 * their metadata is read for that, one small read each. A stream is not walked beforehand; it is one range. A pipe and
 * a compressed file are streams whatever they hold: behind its magic, a file is one too.
 */
#include "format/ipc/read_impl.h"

#include <string.h>

enum {
	HEAD_SIZE = 8,            /* the magic, padded */
	TAIL_SIZE = 10,           /* the footer's size, the magic */
	TAIL_READ_MAX = 64 << 10, /* a small file's footer comes with its tail */
	CUT_ALIGN = 64,           /* rows: so that bitmaps are cut between bytes */
	COMPRESSED_RATIO = 3,     /* of texts, when all that is known is their compressed size */
	PIECES_MAX = 1 << 16,     /* of one batch: of nulls and of runs it can have any number of rows */
};
#define BYTES_EST_MAX ((uint64_t)1 << 60)

static void file_close(struct weir_format_file *base)
{
	struct ipc_file *file = (struct ipc_file *)base;
	struct weir_account *account = file->account;

	weir_free(account, file->row_bytes, base->schema ? base->schema->field_count * sizeof(*file->row_bytes) : 0);
	weir_list_release(&file->batches, account);
	weir_list_release(&file->blocks, account);
	weir_schema_unref(base->schema);
	weir_ipc_schema_free(file->schema);
	weir_file_unref(base->file);
	weir_free(account, file, sizeof(*file));
}

/* ---- footer ---- */

static int footer_read(struct ipc_file *file, struct weir_error *err)
{
	uint64_t size = weir_file_size(file->base.file), tail_size = size < TAIL_READ_MAX ? size : TAIL_READ_MAX,
		 at = size;
	struct ipc_memory tail = {0};
	uint32_t footer_size = 0;
	int code = ipc_memory_reserve(file->account, &tail, tail_size, err);

	if (!code)
		code = weir_file_read(file->base.file, size - tail_size, tail.bytes, tail_size, err);
	if (code)
		goto out;
	if (size < HEAD_SIZE + TAIL_SIZE ||
	    memcmp(tail.bytes + tail_size - WEIR_IPC_MAGIC_SIZE, WEIR_IPC_MAGIC, WEIR_IPC_MAGIC_SIZE) != 0) {
		code = weir_error_set(err, WEIR_E_DATA,
				      "the Arrow file is cut short: it does not end with ARROW1, as it begins");
		goto out;
	}
	memcpy(&footer_size, tail.bytes + tail_size - TAIL_SIZE, sizeof(footer_size));
	at = size - TAIL_SIZE;
	if (footer_size > INT32_MAX || footer_size > size - TAIL_SIZE - HEAD_SIZE) {
		code = weir_error_set(err, WEIR_E_DATA, "the Arrow file's footer claims %u bytes", footer_size);
		goto out;
	}
	at -= footer_size;
	if (footer_size > tail_size - TAIL_SIZE) {
		code = ipc_memory_reserve(file->account, &tail, footer_size, err);
		if (!code)
			code = weir_file_read(file->base.file, at, tail.bytes, footer_size, err);
		tail_size = footer_size + TAIL_SIZE;
	}
	if (!code)
		code = weir_ipc_footer_open(file->account, tail.bytes + tail_size - TAIL_SIZE - footer_size,
					    footer_size, at, &file->schema, &file->blocks, err);
out:
	if (code)
		weir_error_at_offset(err, at);
	ipc_memory_release(file->account, &tail);
	return code;
}

/* ---- estimates ---- */

/* A file may claim any number of rows: of nulls, of runs. */
static uint64_t as_bytes(double bytes)
{
	return bytes < (double)BYTES_EST_MAX ? (uint64_t)bytes : BYTES_EST_MAX;
}

static double type_bytes(const struct weir_type *type)
{
	const struct weir_type *values = weir_type_values(type);

	switch (values->layout) {
	case WEIR_LAYOUT_NULL:
		return 0;
	case WEIR_LAYOUT_BITS:
		return 0.125;
	case WEIR_LAYOUT_FIXED:
		return values->byte_width;
	default:
		return sizeof(struct weir_view);
	}
}

/* How wide a row is in each column, from the batch at hand. */
static int estimate(struct ipc_file *file, const struct ipc_source *source, struct weir_error *err)
{
	struct weir_ipc_layout *layout = NULL;
	double rows = (double)source->head.row_count;
	int code = weir_ipc_layout_new(file->account, file->schema, &layout, err);

	if (!code)
		code = weir_ipc_layout_read(layout, source->metadata.bytes, source->head.metadata_size, err);
	for (uint32_t i = 0; !code && i < file->base.schema->field_count; i++) {
		double least = type_bytes(file->base.schema->fields[i].type), seen = 0;

		if (rows > 0)
			seen = (double)weir_ipc_column_size(layout, i) / rows;
		if (source->head.is_compressed)
			seen *= COMPRESSED_RATIO;
		file->row_bytes[i] = seen > least ? seen : least;
	}
	weir_ipc_layout_free(layout);
	return code;
}

static int batches_read(struct ipc_file *file, struct weir_error *err)
{
	struct ipc_source source = {.account = file->account, .file = file->base.file};
	bool is_estimated = false;
	double row_bytes = 0;
	int64_t rows = 0;
	int code = WEIR_OK;

	for (size_t i = file->dictionary_count; !code && i < file->blocks.count; i++) {
		const struct weir_ipc_block *block = &file->blocks.items[i];
		struct ipc_batch batch;

		code = ipc_source_message(&source, block->offset,
					  block->offset + block->metadata_size + block->body_size, err);
		if (!code && source.head.kind != WEIR_IPC_BATCH)
			code = weir_error_set(err, WEIR_E_DATA, "the footer names a batch that is none");
		if (!code && !is_estimated && source.head.row_count > 0) {
			code = estimate(file, &source, err);
			is_estimated = true;
		}
		batch = (struct ipc_batch){.row_begin = rows,
					   .row_count = source.head.row_count,
					   .is_compressed = source.head.is_compressed};
		if (!code && __builtin_add_overflow(rows, batch.row_count, &rows))
			code = weir_error_set(err, WEIR_E_DATA, "the batches claim more rows than can be counted");
		if (!code)
			code = weir_list_push(&file->batches, file->account, err, batch);
		if (code)
			weir_error_at_offset(err, block->offset);
	}
	file->base.row_count = rows;
	for (uint32_t i = 0; i < file->base.schema->field_count; i++)
		row_bytes += file->row_bytes[i];
	file->base.bytes_decoded_est = as_bytes(row_bytes * (double)rows);
	ipc_source_release(&source);
	return code;
}

/* ---- open ---- */

static int columns_new(struct ipc_file *file, struct weir_error *err)
{
	file->base.schema = weir_schema_ref(weir_ipc_schema_columns(file->schema));
	file->row_bytes = weir_alloc_zero(file->account, file->base.schema->field_count * sizeof(*file->row_bytes),
					  err);
	return file->row_bytes ? WEIR_OK : err->code;
}

static int file_open(struct ipc_file *file, struct weir_error *err)
{
	int code = footer_read(file, err);

	if (!code)
		code = columns_new(file, err);
	while (file->dictionary_count < file->blocks.count && file->blocks.items[file->dictionary_count].is_dictionary)
		file->dictionary_count++;
	if (!code)
		code = batches_read(file, err);
	return code;
}

/* The schema of a stream that begins at `begin`; what is behind it is left to readers. */
static int stream_open(struct ipc_file *file, struct ipc_source *source, uint64_t begin, struct weir_error *err)
{
	uint64_t size = weir_file_size(file->base.file);
	int code = ipc_source_message(source, begin, size, err);

	if (!code && source->head.kind != WEIR_IPC_SCHEMA)
		code = weir_error_set(err, WEIR_E_DATA, "an Arrow stream does not begin with a schema");
	if (!code)
		code = weir_ipc_schema_open(file->account, source->metadata.bytes, source->head.metadata_size,
					    &file->schema, err);
	if (!code)
		code = columns_new(file, err);
	if (code)
		return code;
	for (uint32_t i = 0; i < file->base.schema->field_count; i++)
		file->row_bytes[i] = type_bytes(file->base.schema->fields[i].type);
	file->is_stream = true;
	file->stream_begin = source->next;
	file->base.row_count = -1;
	file->base.bytes_decoded_est = size;
	return WEIR_OK;
}

/* By the first bytes. What cannot be read anywhere has no use for a footer: in a file, too, all messages come in the
 * order in which they are needed. */
static int open_by_magic(struct ipc_file *file, struct weir_io *io, struct weir_error *err)
{
	struct ipc_source source = {
		.account = file->account, .file = file->base.file, .is_sequential = file->is_sequential};
	uint64_t size = weir_file_size(file->base.file), got = size < HEAD_SIZE ? size : HEAD_SIZE;
	uint8_t head[HEAD_SIZE] = {0};
	bool is_file;
	int code = ipc_source_rewind(&source, io, 0, err);

	if (!code)
		code = file->is_sequential ? ipc_source_head(&source, head, HEAD_SIZE, &got, err)
					   : weir_file_read(file->base.file, 0, head, got, err);
	is_file = memcmp(head, WEIR_IPC_MAGIC, WEIR_IPC_MAGIC_SIZE) == 0;
	if (!code && got == 0)
		code = weir_error_set(err, WEIR_E_DATA,
				      "there is nothing in it: even an Arrow stream of no rows has a schema");
	else if (!code && memcmp(head, "FEA1", 4) == 0)
		code = weir_error_set(err, WEIR_E_UNSUPPORTED,
				      "the file is in the first version of Feather, which weir does not read; "
				      "pyarrow.feather.read_table and write_feather make a file of version 2 of it");
	else if (!code && is_file && !file->is_sequential)
		code = file_open(file, err);
	else if (!code && !file->is_sequential)
		code = stream_open(file, &source, 0, err);
	else if (!code)
		code = ipc_source_rewind(&source, io, 0, err);
	if (!code && file->is_sequential)
		code = stream_open(file, &source, is_file ? HEAD_SIZE : 0, err);
	ipc_source_release(&source);
	return code;
}

static int ipc_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *bytes,
		    struct weir_format_file **out, struct weir_error *err)
{
	static const struct weir_stream_options options = {.encoding = WEIR_ENCODING_BYTES};
	struct ipc_file *file = weir_alloc_zero(account, sizeof(*file), err);
	int code;

	*out = NULL;
	if (!file)
		return err->code;
	file->account = account;
	file->is_sequential = !weir_stream_is_plain(bytes, &options);
	file->base.ops = &weir_arrow_format;
	file->base.file = weir_file_ref(bytes);
	atomic_init(&file->base.refs, 1);
	code = open_by_magic(file, setup ? setup->io : NULL, err);
	if (code) {
		weir_error_at_source(err, weir_file_path(bytes));
		file_close(&file->base);
		return code;
	}
	*out = &file->base;
	return WEIR_OK;
}

/* ---- ranges ---- */

struct cutter {
	int (*visit)(void *context, const struct weir_range *range);
	void *context;
	double row_bytes;
	uint32_t number;
};

static int emit(struct cutter *cutter, int64_t begin, int64_t end)
{
	struct weir_range range = {.number = cutter->number++,
				   .begin = (uint64_t)begin,
				   .end = (uint64_t)end,
				   .bytes_decoded_est = as_bytes((double)(end - begin) * cutter->row_bytes)};

	return begin < end ? cutter->visit(cutter->context, &range) : WEIR_OK;
}

/* A batch that can be cut, into equal pieces. */
static int emit_pieces(struct cutter *cutter, const struct ipc_batch *batch, int64_t rows_target)
{
	int64_t most = (batch->row_count - 1) / rows_target + 1, count = most < PIECES_MAX ? most : PIECES_MAX;
	int64_t rows = (batch->row_count / count + CUT_ALIGN) / CUT_ALIGN * CUT_ALIGN;
	int64_t end = batch->row_begin + batch->row_count;
	int code = WEIR_OK;

	for (int64_t at = batch->row_begin, next; !code && at < end; at = next) {
		next = end - at < rows ? end : at + rows;
		code = emit(cutter, at, next);
	}
	return code;
}

/* Small batches together, large ones in pieces; but what is compressed is inflated whole, so by one lane. */
static int ipc_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		      int (*visit)(void *context, const struct weir_range *range), void *context,
		      struct weir_error *err)
{
	struct ipc_file *file = (struct ipc_file *)base;
	struct cutter cutter = {.visit = visit, .context = context};
	double rows_wanted;
	int64_t begin = 0, rows_target;
	int code = WEIR_OK;

	(void)err;
	for (uint32_t i = 0; i < scan->column_count; i++)
		cutter.row_bytes += file->row_bytes[scan->columns[i]];
	if (file->is_stream)
		return visit(context,
			     &(struct weir_range){.end = INT64_MAX, .bytes_decoded_est = base->bytes_decoded_est});
	if (bytes_target == 0)
		return emit(&cutter, 0, base->row_count);
	rows_wanted = (double)bytes_target / (cutter.row_bytes > 0.125 ? cutter.row_bytes : 0.125);
	rows_target = rows_wanted > WEIR_VECTOR_ROWS ? (int64_t)rows_wanted : WEIR_VECTOR_ROWS;
	for (size_t i = 0; !code && i < file->batches.count; i++) {
		const struct ipc_batch *batch = &file->batches.items[i];
		int64_t end = batch->row_begin + batch->row_count;

		if (end - begin > rows_target + rows_target / 2 && batch->row_begin > begin) {
			code = emit(&cutter, begin, batch->row_begin);
			begin = batch->row_begin;
		}
		if (!code && !batch->is_compressed && batch->row_count > rows_target + rows_target / 2) {
			code = emit_pieces(&cutter, batch, rows_target);
			begin = end;
		}
	}
	return code ? code : emit(&cutter, begin, base->row_count);
}

static const char *const extensions[] = {".arrow", ".feather", ".ipc", ".arrows", NULL};

const struct weir_format_ops weir_arrow_format = {
	.name = "arrow",
	.extensions = extensions,
	.streamed = true,
	.open = ipc_open,
	.close = file_close,
	.ranges = ipc_ranges,
	.reader_new = ipc_reader_new,
	.reader_open = ipc_reader_open,
	.reader_next = ipc_reader_next,
	.reader_stats = ipc_reader_stats,
	.reader_free = ipc_reader_free,
};
