/* An opened JSON file: what its text looks like, and how it is cut into ranges of bytes.
 *
 * The first byte that is not blank tells an array from objects. Objects are lines when the first one has no line end in
 * it and one behind it; then every line end is a record's, and ranges are certain. Else ranges begin at guesses
 * (format/cuts.h).
 */
#include "base/checked.h"
#include "format/json/json_impl.h"

#include <string.h>

enum {
	HEAD_BYTES = 64 << 10,
	COUNT_BYTES = 1 << 20,
	RANGE_BYTES_MIN = 256 << 10,
};

int json_lines_before(const struct json_file *file, uint64_t offset, uint64_t *lines, struct weir_error *err)
{
	const struct json_kernels *kernels = json_kernels_choose();
	struct weir_account *account = file->account;
	uint8_t *buffer = weir_alloc(account, COUNT_BYTES, err);
	int code = buffer ? WEIR_OK : err->code;

	*lines = 0;
	for (uint64_t at = 0; !code && at < offset; at += COUNT_BYTES) {
		size_t size = offset - at < COUNT_BYTES ? (size_t)(offset - at) : COUNT_BYTES;

		code = weir_file_read(file->base.file, at, buffer, size, err);
		if (!code)
			*lines += kernels->count_newlines(buffer, size);
	}
	weir_free(account, buffer, COUNT_BYTES);
	return code;
}

static enum json_layout layout_of(const struct json_window *window)
{
	const uint8_t *text = window->text;
	struct weir_error ignored = {0};
	uint32_t begin = window->entries[0], behind;
	size_t end;

	if (text[begin] == '[')
		return JSON_LAYOUT_ARRAY;
	if (text[begin] != '{')
		return JSON_LAYOUT_LINES; /* and wrong: reading will say so */
	behind = json_skip_value(window, 0, UINT32_MAX, &ignored);
	end = behind ? window->entries[behind - 1] : window->input.end;
	if (memchr(text + begin, '\n', end - begin))
		return JSON_LAYOUT_OBJECTS;
	if (!behind || window->entries[behind] == window->input.end)
		return JSON_LAYOUT_LINES;
	return memchr(text + end, '\n', window->entries[behind] - end) ? JSON_LAYOUT_LINES : JSON_LAYOUT_OBJECTS;
}

int json_layout_find(struct weir_account *account, struct json_file *file, struct weir_error *err)
{
	const struct weir_read_setup *setup = file->setup;
	struct json_window window;
	int code;

	file->account = account;
	file->is_plain = weir_stream_is_plain(file->base.file, &file->options->stream);
	file->layout = file->options->layout;
	file->first = 0;
	json_window_init(&window, account);
	code = json_window_open(&window, setup->io, file->base.file, 0, &file->options->stream, JSON_LAYOUT_OBJECTS,
				err);
	if (!code)
		code = weir_text_input_fill(&window.input, HEAD_BYTES, err);
	if (!code && window.input.end >= 3 && memcmp(window.input.text, "\xef\xbb\xbf", 3) == 0)
		file->first = 3;
	if (!code)
		code = json_window_fill(&window, (size_t)file->first, window.input.end - (size_t)file->first, err);
	if (!code && file->layout == JSON_LAYOUT_AUTO)
		file->layout = window.text ? layout_of(&window) : JSON_LAYOUT_LINES;
	json_window_release(&window);
	return code;
}

static void file_close(struct weir_format_file *base)
{
	struct json_file *self = (struct json_file *)base;

	weir_schema_unref(base->schema);
	weir_cuts_free(base->cuts);
	weir_file_unref(base->file);
	weir_free(self->account, self, sizeof(*self));
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct json_file *self = weir_alloc_zero(account, sizeof(*self), err);
	int code;

	if (!self)
		return err->code;
	WEIR_ASSERT(setup->schema);
	self->account = account;
	self->setup = setup;
	self->options = json_options_of(setup);
	self->base = (struct weir_format_file){.ops = &weir_json_format, .file = weir_file_ref(file), .row_count = -1};
	atomic_init(&self->base.refs, 1);
	self->base.schema = weir_schema_ref(setup->schema);
	self->base.bytes_decoded_est = weir_file_size(file);
	code = json_layout_find(account, self, err);
	if (!code && self->is_plain && self->layout != JSON_LAYOUT_LINES) {
		code = weir_cuts_new(account, &self->base.cuts, err);
		if (!code)
			weir_cuts_begin(self->base.cuts, self->first, 1);
	}
	if (code) {
		weir_error_at_source(err, weir_file_path(file));
		file_close(&self->base);
		return code;
	}
	*out = &self->base;
	return WEIR_OK;
}

static int file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		       int (*visit)(void *context, const struct weir_range *range), void *context,
		       struct weir_error *err)
{
	const struct json_file *self = (const struct json_file *)base;
	uint64_t size = weir_file_size(base->file);
	double share = base->schema->field_count ? (double)scan->column_count / base->schema->field_count : 1;
	double bytes = (double)bytes_target / (share > 0.125 ? share : 0.125);

	(void)err;
	if (!self->is_plain)
		return visit(context, &(struct weir_range){.end = UINT64_MAX,
							   .bytes_decoded_est = (uint64_t)((double)size * share)});
	/* A range is as many bytes of what is wanted as were asked for, though others take time, too. */
	return weir_byte_ranges(0, size, bytes < (double)size ? (uint64_t)bytes : size, RANGE_BYTES_MIN, share, visit,
				context);
}

static const char *const extensions[] = {".jsonl", ".ndjson", ".json", NULL};

const struct weir_format_ops weir_json_format = {
	.name = "json",
	.extensions = extensions,
	.option_names = json_option_names,
	.options_parse = json_options_parse,
	.infer = json_infer,
	.open = file_open,
	.close = file_close,
	.ranges = file_ranges,
	.reader_new = json_reader_new,
	.reader_open = json_reader_open,
	.reader_next = json_reader_next,
	.reader_start = json_reader_start,
	.reader_stats = json_reader_stats,
	.reader_free = json_reader_free,
};
