/* From record to record: where a range's records begin, and what stands between them.
 *
 *     lines      a range has the lines whose first byte lies in it; where they begin is certain
 *     array      a range has the objects whose { lies in it; between them ',', before the first '[', behind the last ']'
 *     objects    the same with nothing but blanks between them
 *
 * The end of a range of objects is where the next one's { is, or the file's end: what the next range compares its guess with.
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
	cursor->start = cursor->line_begin = start;
	cursor->range_end = range_end;
	return json_window_open(&cursor->window, io, file->base.file, file->is_plain ? start : 0, &file->options->stream,
				file->layout, err);
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

int json_cursor_fill(struct json_cursor *cursor, struct weir_error *err)
{
	struct json_window *window = &cursor->window;
	size_t begin = 0, unread = 0, size = cursor->window_size;

	if (window->text) {
		begin = window->entries[cursor->entry];
		unread = window->input.end - begin;
		if (size < unread + unread / 2)
			size = unread * 2;
	}
	cursor->entry = 0;
	return json_window_fill(window, begin, size, err);
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
