/* Where a record seems to begin, in the middle of an array or of objects without lines.
 *
 * A { is taken for a record's when what stands before it could end another record, the object that it begins is whole,
 * has fields of the dataset and no others at its own level, at least half as many as there are, and is followed by what
 * may follow a record. An object inside a record can look like that; then the guess is wrong, the range before says so
 * (format/cuts.h), and the range is read again. Nothing here has to be right.
 */
#include "format/json/json_impl.h"

#include <string.h>

enum {
	GUESS_BYTES = 64 << 10,
	BEFORE_BYTES = 256, /* looked at in front of the range */
	OBJECTS_TRIED_MAX = 64,
	RECORD_BYTES_MAX = 8 << 20, /* a record that is larger is not looked for its end */
};

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* The last byte before `at` that is not blank; 0 when none is in the text. */
static uint8_t byte_before(const uint8_t *text, size_t at)
{
	while (at > 0 && is_blank(text[at - 1]))
		at--;
	return at ? text[at - 1] : 0;
}

/* Whether the object at the beginning of the window is a record. */
static bool is_record(const struct json_window *window, const struct json_keys *keys, uint32_t depth_max, bool *is_cut)
{
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries;
	struct weir_error ignored = {0};
	uint32_t entry = 1, known = 0;
	uint8_t behind;

	*is_cut = false;
	while (text[entries[entry]] == '"' && text[entries[entry + 1]] == '"' && text[entries[entry + 2]] == ':') {
		uint32_t begin = entries[entry] + 1;

		if (json_keys_find(keys, text + begin, entries[entry + 1] - begin) == JSON_NO_FIELD)
			return false;
		known++;
		entry = json_skip_value(window, entry + 3, depth_max, &ignored);
		if (!entry) {
			*is_cut = !ignored.code;
			return false;
		}
		if (text[entries[entry]] != ',')
			break;
		entry++;
	}
	*is_cut = entries[entry] == window->input.end;
	if (text[entries[entry]] != '}' || known * 2 < keys->count)
		return false;
	entry++;
	behind = text[entries[entry]];
	if (entries[entry] == window->input.end)
		return true;
	if (window->layout == JSON_LAYOUT_OBJECTS)
		return behind == '{';
	return behind == ']' || (behind == ',' && (text[entries[entry + 1]] == '{' || !text[entries[entry + 1]]));
}

/* Looks at the object at input.begin, with as much text behind it as it takes. */
static int try_object(struct json_cursor *cursor, const struct json_keys *keys, uint32_t depth_max, bool *is,
		      struct weir_error *err)
{
	struct json_window *window = &cursor->window;
	bool is_cut = true;
	int code = WEIR_OK;

	*is = false;
	for (size_t size = GUESS_BYTES; !code && is_cut && !*is && size <= RECORD_BYTES_MAX; size *= 4) {
		code = json_window_fill(window, window->input.begin, size, err);
		if (!code)
			*is = is_record(window, keys, depth_max, &is_cut);
		is_cut = is_cut && !window->input.at_end;
	}
	return code;
}

int json_record_guess(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t begin,
		      uint64_t end, const struct json_keys *keys, uint64_t *start, struct weir_error *err)
{
	struct json_window *window = &cursor->window;
	struct weir_text_input *input = &window->input;
	uint64_t from = begin > file->first + BEFORE_BYTES ? begin - BEFORE_BYTES : file->first;
	uint32_t tried = 0;
	int code = json_window_open(window, io, file->base.file, from, &file->options->stream, file->layout, err);

	*start = UINT64_MAX;
	if (!code)
		code = weir_text_input_fill(input, GUESS_BYTES, err);
	while (!code && tried < OBJECTS_TRIED_MAX && input->begin < input->end) {
		uint8_t before = 0;
		const uint8_t *found = input->text + input->begin;
		uint64_t place;
		bool is;

		if (input->offset + input->begin < begin)
			found = begin - input->offset < input->end ? input->text + (begin - input->offset) : NULL;
		found = found ? memchr(found, '{', (size_t)(input->text + input->end - found)) : NULL;
		if (!found) {
			/* What stands before the next one is kept. */
			if (input->offset + input->end >= end || input->at_end)
				break;
			input->begin = input->end > BEFORE_BYTES ? input->end - BEFORE_BYTES : 0;
			code = weir_text_input_fill(input, GUESS_BYTES, err);
			begin = begin > input->offset + BEFORE_BYTES ? begin : input->offset + BEFORE_BYTES;
			continue;
		}
		place = input->offset + (uint64_t)(found - input->text);
		if (place >= end)
			break;
		before = byte_before(input->text, (size_t)(found - input->text));
		begin = place + 1;
		if (before && before != (file->layout == JSON_LAYOUT_ARRAY ? ',' : '}'))
			continue;
		input->begin = (size_t)(found - input->text);
		tried++;
		code = try_object(cursor, keys, file->options->depth_max, &is, err);
		if (!code && is) {
			*start = place;
			return WEIR_OK;
		}
		input->begin = 0;
	}
	return code;
}
