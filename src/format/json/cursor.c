/* From record to record: where a range's records begin, and what stands between them.
 *
 *     lines      a range has the lines whose first byte lies in it; where they begin is certain
 *     array      a range has the objects whose { lies in it; between them ',', before the first '[', behind the
 *                last ']'
 *     objects    the same with nothing but blanks between them
 *
 * The end of a range of objects is where the next one's { is, or the file's end: what the next range compares its guess
 * with.
 */
#include "format/json/json_impl.h"

#include <string.h>

enum {
	WINDOW_BYTES = 256 << 10,
	SEEK_BYTES = 64 << 10,
};

void json_cursor_init(struct json_cursor *cursor, struct weir_account *account)
{
	*cursor = (struct json_cursor){.window_size = WINDOW_BYTES};
	json_window_init(&cursor->window, account);
}

void json_cursor_release(struct json_cursor *cursor)
{
	json_window_release(&cursor->window);
}

int json_cursor_open(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t start,
		     uint64_t range_end, struct weir_error *err)
{
	if (start < file->first)
		start = file->first;
	cursor->place = file->layout == JSON_LAYOUT_ARRAY && start == file->first ? JSON_BEFORE_ARRAY : JSON_AT_RECORD;
	cursor->entry = 0;
	cursor->start = start;
	cursor->line_begin = start == file->first ? 0 : start; /* a byte order mark is on its line */
	cursor->range_end = range_end;
	cursor->stream_size = file->is_plain ? weir_file_size(file->base.file) : 0;
	return json_window_open(&cursor->window, io, file->base.file, file->is_plain ? start : 0,
				&file->options->stream, file->layout, err);
}

int json_line_find(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t begin,
		   uint64_t *start, struct weir_error *err)
{
	struct weir_text_input *input = &cursor->window.input;
	int code = weir_text_input_open(input, io, file->base.file, begin - 1, &file->options->stream, err);

	while (!code) {
		const uint8_t *found;

		input->begin = input->end;
		code = weir_text_input_fill(input, SEEK_BYTES, err);
		if (code || input->begin == input->end)
			break;
		found = memchr(input->text + input->begin, '\n', input->end - input->begin);
		if (found) {
			*start = input->offset + (uint64_t)(found + 1 - input->text);
			return WEIR_OK;
		}
	}
	*start = weir_file_size(file->base.file);
	return code;
}

/* How long the record is that begins at `begin` and of which the window could not hold more; *whole: to its end. What
 * was read of it is lost. */
static uint64_t record_size(struct json_cursor *cursor, size_t begin, bool *whole)
{
	struct weir_text_input *input = &cursor->window.input;
	uint64_t size = input->end - begin;
	struct weir_error ignored = {0};
	size_t got;

	*whole = false;
	if (cursor->window.layout != JSON_LAYOUT_LINES || !input->stream)
		return size;
	while (!weir_stream_read(input->stream, input->text, input->end, &got, &ignored)) {
		const uint8_t *found = got ? memchr(input->text, '\n', got) : NULL;

		*whole = found || !got;
		size += found ? (uint64_t)(found - input->text) : got;
		if (*whole)
			break;
	}
	return size;
}

static int too_long(struct json_cursor *cursor, size_t begin, struct weir_error *err)
{
	struct json_window *window = &cursor->window;
	uint64_t line, column, size;
	bool whole;

	json_window_place(window, begin, &line, &column);
	size = record_size(cursor, begin, &whole);
	weir_text_too_long(err, size, whole);
	weir_error_at_line(err, (int64_t)line);
	weir_error_at_offset(err, window->input.offset + begin);
	return err->code;
}

int json_cursor_fill(struct json_cursor *cursor, struct weir_error *err)
{
	struct json_window *window = &cursor->window;
	struct weir_text_input *input = &window->input;
	size_t begin = 0, unread = 0, size = cursor->window_size;
	uint64_t left;

	if (window->text) {
		begin = window->entries[cursor->entry];
		unread = input->end - begin;
		if (size < unread + unread / 2) {
			size = unread * 2;
			/* Not much more than there is. */
			left = cursor->stream_size - (input->offset + input->end < cursor->stream_size
							      ? input->offset + input->end
							      : cursor->stream_size);
			if (cursor->stream_size && size > unread + left + 1)
				size = unread + (size_t)left + 1;
		}
	}
	cursor->entry = 0;
	if (!json_window_fill(window, begin, size, err))
		return WEIR_OK;
	if ((err->code == WEIR_E_LIMIT || err->code == WEIR_E_CANCELLED) && unread > cursor->window_size / 2)
		return too_long(cursor, input->begin, err);
	return err->code;
}

enum json_step json_cursor_find(struct json_cursor *cursor, struct weir_error *err)
{
	const struct json_window *window = &cursor->window;
	const uint64_t offset = window->input.offset;
	const bool lines = window->layout == JSON_LAYOUT_LINES;

	if (!window->text)
		return JSON_END; /* nothing at all */
	for (;; cursor->entry++) {
		uint32_t at = window->entries[cursor->entry];
		uint8_t byte = window->text[at];

		if (at == window->input.end) {
			if (!window->input.at_end)
				return JSON_MORE;
			if (cursor->place == JSON_BEHIND_ARRAY ||
			    (cursor->place == JSON_AT_RECORD && window->layout != JSON_LAYOUT_ARRAY))
				return JSON_END;
			break;
		}
		if (byte == '\n' && lines) {
			cursor->line_begin = offset + at + 1;
			continue;
		}
		if (lines && cursor->line_begin >= cursor->range_end)
			return JSON_END;
		if (cursor->place == JSON_BEFORE_ARRAY && byte == '[') {
			cursor->place = JSON_IN_ARRAY;
			continue;
		}
		if (cursor->place == JSON_BEHIND_RECORD && byte == ',') {
			cursor->place = JSON_AT_RECORD;
			continue;
		}
		if ((cursor->place == JSON_BEHIND_RECORD || cursor->place == JSON_IN_ARRAY) && byte == ']') {
			cursor->place = JSON_BEHIND_ARRAY;
			continue;
		}
		if (byte != '{' || (cursor->place != JSON_AT_RECORD && cursor->place != JSON_IN_ARRAY))
			break;
		if (!lines && offset + at >= cursor->range_end)
			return JSON_END;
		return JSON_ROW;
	}
	switch (cursor->place) {
	case JSON_BEFORE_ARRAY:
		json_unexpected_at(window, cursor->entry, "'['", err);
		break;
	case JSON_BEHIND_RECORD:
		json_unexpected_at(window, cursor->entry, "',' or ']'", err);
		break;
	case JSON_BEHIND_ARRAY:
		json_window_fail(window, window->entries[cursor->entry], err, WEIR_E_DATA,
				 "there is text behind the end of the array");
		break;
	default:
		json_unexpected_at(window, cursor->entry, "an object (a row)", err);
	}
	return JSON_FAILED;
}

void json_cursor_pass(struct json_cursor *cursor, uint32_t entry)
{
	cursor->entry = entry;
	cursor->place = cursor->window.layout == JSON_LAYOUT_ARRAY ? JSON_BEHIND_RECORD : JSON_AT_RECORD;
}
