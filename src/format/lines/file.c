/* Text files: a row a line, in one column. Nothing is read to open one: a line ends where a line feed is, so a plain
 * file may be cut at any byte, and the lines that begin in a range are the range's. */
#include "format/cuts.h"
#include "format/lines/lines_impl.h"

#include <string.h>

enum { RANGE_BYTES_MIN = 1 << 20 };

static const struct lines_options options_default;

static const char *const option_names[] = {"encoding=", "errors=", "compression=", "keep-empty-lines", NULL};

static int parse_errors(const char *value, enum lines_errors *out, struct weir_error *err)
{
	static const char *const names[] = {"strict", "replace", "ignore"};

	for (uint32_t i = 0; i < 3; i++) {
		if (strcmp(value, names[i]) == 0) {
			*out = (enum lines_errors)i;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_INVALID, "--errors is strict, replace or ignore, not '%s'", value);
}

static int options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count,
			 const void **out, struct weir_error *err)
{
	struct lines_options *options = weir_arena_alloc_zero(arena, sizeof(*options), err);
	int code = WEIR_OK;

	if (!options)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		const struct weir_setting *setting = &settings[i];

		if (strcmp(setting->name, "encoding") == 0)
			code = weir_encoding_parse(setting->value, &options->stream.encoding, err);
		else if (strcmp(setting->name, "compression") == 0)
			code = weir_compression_parse(setting->value, &options->stream.compression, err);
		else if (strcmp(setting->name, "errors") == 0)
			code = parse_errors(setting->value, &options->errors, err);
		else if (strcmp(setting->name, "keep-empty-lines") == 0)
			options->keep_empty = true;
	}
	*out = options;
	return code;
}

static void file_close(struct weir_format_file *base)
{
	struct lines_file *file = (struct lines_file *)base;

	weir_schema_unref(base->schema);
	weir_file_unref(base->file);
	weir_free(file->account, file, sizeof(*file));
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *bytes,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct weir_field field = {.name = "text", .type = weir_type_of(WEIR_STRING), .nullable = true};
	struct lines_file *file = weir_alloc_zero(account, sizeof(*file), err);

	*out = NULL;
	if (!file)
		return err->code;
	file->account = account;
	file->options = setup && setup->options ? setup->options : &options_default;
	file->is_plain = weir_stream_is_plain(bytes, &file->options->stream);
	file->base.ops = &weir_lines_format;
	file->base.file = weir_file_ref(bytes);
	file->base.row_count = -1;
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
	struct lines_file *file = (struct lines_file *)base;
	uint64_t size = weir_file_size(base->file);

	(void)scan;
	(void)err;
	if (!file->is_plain)
		return visit(context, &(struct weir_range){.end = UINT64_MAX, .bytes_decoded_est = size});
	return size ? weir_byte_ranges(0, size, bytes_target, RANGE_BYTES_MIN, 1, visit, context) : WEIR_OK;
}

static const char *const extensions[] = {".txt", ".log", ".text", NULL};

const struct weir_format_ops weir_lines_format = {
	.name = "text",
	.extensions = extensions,
	.option_names = option_names,
	.options_parse = options_parse,
	.open = file_open,
	.close = file_close,
	.ranges = file_ranges,
	.reader_new = lines_reader_new,
	.reader_open = lines_reader_open,
	.reader_next = lines_reader_next,
	.reader_stats = lines_reader_stats,
	.reader_free = lines_reader_free,
};
