/* Text in whole records, indexed.
 *
 * A window holds the records that are being read, and part of the one that follows. What is read of it is dropped by
 * the next fill, which moves the rest to the front, reads more, and indexes all of it from the beginning: a record
 * begins outside strings, so indexing can begin there. A record that does not fit makes the window grow; a window of
 * more than 4 GiB cannot be, since entries have 32 bits.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "format/json/json_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	INDEX_STEP = 16 << 10, /* text indexed before entries are made room for again */
	LONG_BYTES = 1 << 20,
	SENTINELS = 8, /* how far a walk looks ahead */
	EXCERPT = 40,
	SHRINK_FROM = 8, /* times what is wanted */
};

void json_window_init(struct json_window *window, struct weir_account *account)
{
	*window = (struct json_window){.kernels = json_kernels_choose()};
	weir_text_input_init(&window->input, account);
}

void json_window_release(struct json_window *window)
{
	if (!window->kernels)
		return;
	weir_free(window->input.account, window->entries, window->entry_capacity * sizeof(*window->entries));
	weir_text_input_release(&window->input);
	*window = (struct json_window){0};
}

int json_window_open(struct json_window *window, struct weir_io *io, struct weir_file *file, uint64_t offset,
		     const struct weir_stream_options *options, enum json_layout layout, struct weir_error *err)
{
	window->layout = layout;
	window->path = weir_file_path(file);
	window->entry_count = 0;
	window->line = window->column = 0;
	window->text = NULL;
	return weir_text_input_open(&window->input, io, file, offset, options, err);
}

/* Room for `count` entries; `expected`: how many there will be, about. */
static int entries_reserve(struct json_window *window, size_t count, size_t expected, struct weir_error *err)
{
	size_t capacity = expected > count ? expected : count + count / 2;
	uint32_t *entries;

	if (count <= window->entry_capacity)
		return WEIR_OK;
	capacity = weir_alloc_size(capacity * sizeof(*entries)) / sizeof(*entries);
	entries = weir_realloc(window->input.account, window->entries, window->entry_capacity * sizeof(*entries),
			       capacity * sizeof(*entries), err);
	if (!entries)
		return err->code;
	window->entries = entries;
	window->entry_capacity = capacity;
	return WEIR_OK;
}

static int index_all(struct json_window *window, struct weir_error *err)
{
	struct json_scan scan = {0};
	uint32_t end = (uint32_t)window->input.end;
	bool lines = window->layout == JSON_LAYOUT_LINES;

	window->entry_count = 0;
	memset(window->input.text + end, ' ', WEIR_TEXT_PAD);
	for (uint32_t at = 0; at < end; at += INDEX_STEP) {
		uint32_t step_end = end - at < INDEX_STEP ? end : at + INDEX_STEP;
		size_t needed = window->entry_count + INDEX_STEP + JSON_BLOCK + JSON_ENTRY_SLACK, expected = 0;

		/* A long record's entries take as much as its text: no room for half as many again. */
		if (at >= LONG_BYTES)
			expected = (size_t)((double)window->entry_count / at * end * 1.02) +
				   (needed - window->entry_count);
		if (entries_reserve(window, needed, expected, err))
			return err->code;
		window->entry_count += window->kernels->index(window->input.text, at, step_end, lines, &scan,
							      window->entries + window->entry_count);
	}
	if (entries_reserve(window, window->entry_count + SENTINELS, 0, err))
		return err->code;
	for (uint32_t i = 0; i < SENTINELS; i++)
		window->entries[window->entry_count + i] = end;
	window->input.text[end] = 0;
	window->newlines = scan.newlines;
	window->has_escapes = scan.escapes != 0;
	window->is_ascii = scan.high == 0;
	return WEIR_OK;
}

/* A long record is behind us: what it took goes back. */
static void shrink(struct json_window *window, size_t size)
{
	weir_text_input_shrink(&window->input, size);
	weir_free(window->input.account, window->entries, window->entry_capacity * sizeof(*window->entries));
	window->entries = NULL;
	window->entry_capacity = window->entry_count = 0;
}

int json_window_fill(struct json_window *window, size_t begin, size_t size, struct weir_error *err)
{
	struct weir_text_input *input = &window->input;
	uint64_t line = window->line, column = window->column;
	int code;

	if (begin && window->text) {
		const uint8_t *last = memrchr(window->text, '\n', begin);

		/* Those of all the text are known, and what stays is short. */
		line += window->newlines - window->kernels->count_newlines(window->text + begin, input->end - begin);
		column = last ? (uint64_t)(window->text + begin - last - 1) : column + begin;
	}
	input->begin = begin;
	if (size > JSON_RECORD_MAX)
		return weir_error_set(err, WEIR_E_LIMIT, "the longest that is read has 2 GiB");
	if (size < input->memory_size / SHRINK_FROM)
		shrink(window, size);
	code = weir_text_input_fill(input, size, err);
	if (!code && input->begin) {
		/* When everything was there already nothing has moved. */
		memmove(input->text, input->text + input->begin, input->end - input->begin);
		input->offset += input->begin;
		input->end -= input->begin;
		input->begin = 0;
	}
	window->text = input->text;
	if (input->begin == 0) {
		window->line = line;
		window->column = column;
	}
	if (code)
		return code;
	if (!input->text) /* an empty stream */
		return WEIR_OK;
	return index_all(window, err);
}

void json_window_place(const struct json_window *window, size_t at, uint64_t *line, uint64_t *column)
{
	const uint8_t *last = memrchr(window->text, '\n', at);

	*line = 1 + window->line + window->kernels->count_newlines(window->text, at);
	*column = 1 + (last ? (uint64_t)(window->text + at - last - 1) : window->column + at);
}

/* A little of the text at `at`, on one line, cut at whole characters. */
static void excerpt(const struct json_window *window, size_t at, char out[EXCERPT * 4 + 4])
{
	size_t end = window->input.end, size = 0;
	bool cut = false;

	for (; at < end && window->text[at] != '\n' && window->text[at] != '\r'; at++) {
		size_t width = weir_utf8_char_size(window->text + at, end - at);

		cut = size >= EXCERPT;
		if (cut)
			break;
		if (width <= 1) {
			out[size++] = width && window->text[at] >= 0x20 && window->text[at] != 0x7f
					      ? (char)window->text[at]
					      : '?';
		} else {
			memcpy(out + size, window->text + at, width);
			size += width;
			at += width - 1;
		}
	}
	if (cut)
		memcpy(out + size, "…", sizeof("…"));
	else
		out[size] = '\0';
}

int json_window_fail(const struct json_window *window, size_t at, struct weir_error *err, int code, const char *format,
		     ...)
{
	char what[512], near[EXCERPT * 4 + 4];
	uint64_t line, column;
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	json_window_place(window, at, &line, &column);
	excerpt(window, at, near);
	weir_error_set(err, code, "column %llu: %s%s%s%s", (unsigned long long)column, what, *near ? " at '" : "", near,
		       *near ? "'" : "");
	weir_error_at_line(err, (int64_t)line);
	weir_error_at_offset(err, window->input.offset + at);
	return code;
}
