/* Files as they are: a row a file, its bytes in one column, inflated where the name says that they are compressed.
 *
 * Any file is one, so the format is never guessed: it is asked for by name. A file of which the column is not wanted is
 * not read. The bytes lie in memory of the reader, as large as the largest file so far, asked of the account before
 * they are read.
 */
#include "base/checked.h"
#include "io/stream.h"
#include "format/format.h"

#include <string.h>

enum { GROW_MIN = 64 << 10 };
#define VALUE_MAX ((uint64_t)INT32_MAX) /* what offsets of 32 bits reach */

struct binary_options {
	struct weir_stream_options stream;
};

static const struct binary_options options_default = {.stream = {.encoding = WEIR_ENCODING_BYTES}};

struct binary_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct binary_options *options;
};

struct binary_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct binary_file *file; /* a reference; NULL: nothing is open, or it has been given out */
	bool is_out;
	struct weir_column *columns;
	uint32_t column_count;
	uint8_t *bytes;
	size_t capacity, size;
	struct weir_view view;
	struct weir_format_stats stats;
};

/* ---- file ---- */

static const char *const option_names[] = {"compression=", NULL};

static int options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count,
			 const void **out, struct weir_error *err)
{
	struct binary_options *options = weir_arena_alloc_zero(arena, sizeof(*options), err);
	int code = options ? WEIR_OK : err->code;

	if (options)
		*options = options_default;
	for (uint32_t i = 0; !code && i < count; i++)
		code = weir_compression_parse(settings[i].value, &options->stream.compression, err);
	*out = options;
	return code;
}

static void file_close(struct weir_format_file *base)
{
	struct binary_file *file = (struct binary_file *)base;

	weir_schema_unref(base->schema);
	weir_file_unref(base->file);
	weir_free(file->account, file, sizeof(*file));
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *bytes,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct weir_field field = {.name = "bytes", .type = weir_type_of(WEIR_BINARY), .nullable = true};
	struct binary_file *file = weir_alloc_zero(account, sizeof(*file), err);

	*out = NULL;
	if (!file)
		return err->code;
	file->account = account;
	file->options = setup && setup->options ? setup->options : &options_default;
	file->base.ops = &weir_binary_format;
	file->base.file = weir_file_ref(bytes);
	file->base.row_count = 1;
	file->base.bytes_decoded_est = weir_file_size(bytes);
	atomic_init(&file->base.refs, 1);
	file->base.schema = weir_schema_new(account, &field, 1, NULL, err);
	if (!file->base.schema) {
		file_close(&file->base);
		return err->code;
	}
	*out = &file->base;
	return WEIR_OK;
}

static int file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		       int (*visit)(void *context, const struct weir_range *range), void *context,
		       struct weir_error *err)
{
	(void)scan;
	(void)bytes_target;
	(void)err;
	return visit(context, &(struct weir_range){.end = 1, .bytes_decoded_est = base->bytes_decoded_est});
}

/* ---- reader ---- */

static int reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		      struct weir_error *err)
{
	struct binary_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_binary_format;
	self->account = account;
	self->io = io;
	*out = &self->base;
	return WEIR_OK;
}

static void reader_close(struct binary_reader *self)
{
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
}

static void reader_free(struct weir_format_reader *base)
{
	struct binary_reader *self = (struct binary_reader *)base;

	if (!self)
		return;
	reader_close(self);
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->bytes, self->capacity);
	weir_free(self->account, self, sizeof(*self));
}

static int reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		       const struct weir_range *range, struct weir_error *err)
{
	struct binary_reader *self = (struct binary_reader *)base;
	uint32_t count = scan->column_count;

	weir_format_file_ref(file);
	reader_close(self);
	self->file = (struct binary_file *)file;
	self->is_out = range->begin >= range->end;
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

static int reserve(struct binary_reader *self, uint64_t size, struct weir_error *err)
{
	size_t capacity = weir_alloc_size(size > GROW_MIN ? size : GROW_MIN);
	uint8_t *bytes;

	if (size <= self->capacity)
		return WEIR_OK;
	/* What is not needed any more goes before more is asked for. */
	if (self->size == 0) {
		weir_free(self->account, self->bytes, self->capacity);
		self->bytes = NULL;
		self->capacity = 0;
	}
	bytes = weir_alloc(self->account, capacity, err);
	if (!bytes)
		return err->code;
	if (self->size)
		memcpy(bytes, self->bytes, self->size);
	weir_free(self->account, self->bytes, self->capacity);
	self->bytes = bytes;
	self->capacity = capacity;
	return WEIR_OK;
}

/* The file's own size is enough when it is plain; one byte more shows that it has ended. */
static int read_all(struct binary_reader *self, struct weir_stream *stream, struct weir_error *err)
{
	uint64_t expected = weir_file_size(self->file->base.file);
	size_t got = 1;

	self->size = 0;
	if (reserve(self, (expected < VALUE_MAX ? expected : VALUE_MAX) + 1, err))
		return err->code;
	while (got) {
		if (self->size == self->capacity && reserve(self, (uint64_t)self->capacity * 2, err))
			return err->code;
		if (weir_stream_read(stream, self->bytes + self->size, self->capacity - self->size, &got, err))
			return err->code;
		self->size += got;
		if (self->size > VALUE_MAX)
			return weir_error_set(err, WEIR_E_LIMIT,
					      "the file has more than 2 GiB of bytes, more than a value may have");
	}
	self->stats.bytes_read += self->size;
	return WEIR_OK;
}

static int value_read(struct binary_reader *self, struct weir_error *err)
{
	struct weir_stream *stream = NULL;
	int code = weir_stream_open(self->account, self->io, self->file->base.file, 0, &self->file->options->stream,
				    &stream, err);

	if (!code)
		code = read_all(self, stream, err);
	weir_stream_close(stream);
	if (code)
		weir_error_at_source(err, weir_file_path(self->file->base.file));
	else
		self->view = weir_view_make(self->bytes, (uint32_t)self->size);
	return code;
}

static int reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct binary_reader *self = (struct binary_reader *)base;

	*out = (struct weir_vector){0};
	if (!self->file || self->is_out) {
		reader_close(self);
		return WEIR_OK;
	}
	if (self->column_count && value_read(self, err))
		return err->code;
	self->is_out = true;
	for (uint32_t i = 0; i < self->column_count; i++)
		self->columns[i] = (struct weir_column){
			.type = self->file->base.schema->fields[0].type, .form = WEIR_FLAT, .values = &self->view};
	*out = (struct weir_vector){
		.row_count = 1,
		.selection = {.count = 1},
		.column_count = self->column_count,
		.columns = self->columns,
		.source = weir_file_path(self->file->base.file),
	};
	return WEIR_OK;
}

static void reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct binary_reader *)base)->stats;
}

const struct weir_format_ops weir_binary_format = {
	.name = "binary",
	.option_names = option_names,
	.options_parse = options_parse,
	.open = file_open,
	.close = file_close,
	.ranges = file_ranges,
	.reader_new = reader_new,
	.reader_open = reader_open,
	.reader_next = reader_next,
	.reader_stats = reader_stats,
	.reader_free = reader_free,
};
