/* From entries to rows: which entry each wanted field's value begins at.
 *
 * A walk reads entries alone, and the one byte that each stands for. Fields that nobody wants cost their name's
 * comparison and the entries of their value; no number or string of them is looked at. Brackets inside them are
 * counted, not paired: what is not read is not checked further.
 *
 * The text ends with a 0, and entries behind the last one lie there. A walk that meets it inside a record asks for more
 * text; when there is none, the file ends inside a record.
 */
#include "format/json/json_impl.h"

#include <string.h>

static const char *name_of(uint8_t byte)
{
	switch (byte) {
	case '{':
		return "'{'";
	case '}':
		return "'}'";
	case '[':
		return "'['";
	case ']':
		return "']'";
	case ':':
		return "':'";
	case ',':
		return "','";
	case '"':
		return "a string";
	case '\n':
		return "the end of the line";
	case 0:
		return "the end of the file";
	default:
		return "a number or a word";
	}
}

int json_unexpected_at(const struct json_window *window, uint32_t entry, const char *wanted, struct weir_error *err)
{
	uint32_t at = window->entries[entry];
	uint8_t byte = window->text[at];

	if (byte < 0x20 && byte != '\n' && at != window->input.end)
		return json_window_fail(window, at, err, WEIR_E_DATA,
					"a control character (U+%04X) stands where %s is expected", byte, wanted);
	return json_window_fail(window, at, err, WEIR_E_DATA, "%s stands where %s is expected", name_of(byte), wanted);
}

/* The text ended inside a string: at a control character, or at its end. */
static int string_broken(const struct json_window *window, uint32_t entry, struct weir_error *err)
{
	uint32_t at = window->entries[entry];
	uint8_t byte = window->text[at];

	if (byte == '\n')
		return json_window_fail(window, at, err, WEIR_E_DATA, "a string is not closed on its line");
	return json_window_fail(window, at, err, WEIR_E_DATA,
				"a control character (U+%04X) stands inside a string; JSON wants it escaped", byte);
}

static inline bool is_at_end(const struct json_window *window, uint32_t entry)
{
	return window->entries[entry] == window->input.end;
}

static uint32_t skip_nested(const struct json_window *window, uint32_t entry, uint32_t depth_max,
			    struct weir_error *err)
{
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries;
	uint32_t depth = 0;

	for (;; entry++) {
		switch (text[entries[entry]]) {
		case '{':
		case '[':
			if (++depth >= depth_max) {
				json_window_fail(window, entries[entry], err, WEIR_E_DATA,
						 "values are nested more than %u deep (--depth sets the limit)",
						 depth_max);
				return 0;
			}
			break;
		case '}':
		case ']':
			if (--depth == 0)
				return entry + 1;
			break;
		case '"':
			entry++;
			if (text[entries[entry]] != '"') {
				if (!is_at_end(window, entry))
					string_broken(window, entry, err);
				return 0;
			}
			break;
		case '\n':
			json_window_fail(window, entries[entry], err, WEIR_E_DATA,
					 "the line ends inside a value; if records span lines, say --layout objects");
			return 0;
		case 0:
			if (is_at_end(window, entry))
				return 0;
			break;
		}
	}
}

uint32_t json_skip_value(const struct json_window *window, uint32_t entry, uint32_t depth_max, struct weir_error *err)
{
	switch (window->text[window->entries[entry]]) {
	case '"':
		if (window->text[window->entries[entry + 1]] == '"')
			return entry + 2;
		if (!is_at_end(window, entry + 1))
			string_broken(window, entry + 1, err);
		return 0;
	case '{':
	case '[':
		return skip_nested(window, entry, depth_max, err);
	case 0:
		if (is_at_end(window, entry))
			return 0;
		json_unexpected_at(window, entry, "a value", err);
		return 0;
	case '}':
	case ']':
	case ':':
	case ',':
	case '\n':
	case 12: /* look like ',' and ':' to the kernels */
	case 26:
		json_unexpected_at(window, entry, "a value", err);
		return 0;
	default:
		return entry + 1;
	}
}

/* A name that is not the one that came here last time. JSON_NO_FIELD: nobody knows it. */
static int key_find(struct json_reader *self, uint32_t entry, uint32_t *out, struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	uint32_t begin = window->entries[entry] + 1, end = window->entries[entry + 1];
	const uint8_t *name = window->text + begin;
	size_t size = end - begin;

	if (window->has_escapes && memchr(name, '\\', size) &&
	    json_string_read(window, self->file->options, begin, end, &self->arena, &name, &size, err))
		return err->code;
	*out = json_keys_find(&self->keys, name, size);
	return WEIR_OK;
}

static enum json_step stop(const struct json_window *window, uint32_t entry, const char *wanted, struct weir_error *err)
{
	if (is_at_end(window, entry) && !window->input.at_end)
		return JSON_MORE;
	json_unexpected_at(window, entry, wanted, err);
	return JSON_FAILED;
}

/* The fields of the object that begins at `entry`; *out is behind it. */
static enum json_step walk_object(struct json_reader *self, uint32_t entry, uint32_t row, uint32_t *out,
				  struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries;
	struct json_keys *keys = &self->keys;
	const uint32_t depth_max = self->file->options->depth_max;
	uint32_t wanted = self->column_count, *link = &keys->first, predicted = keys->first;
	const uint64_t serial = ++keys->serial;

	entry++;
	if (text[entries[entry]] == '}') {
		entry++;
		goto done;
	}
	for (;;) {
		uint32_t field = predicted, name = entry, value = entry + 3;
		struct json_key *key;

		if (text[entries[entry]] != '"')
			return stop(window, entry, "a field's name", err);
		if (predicted >= keys->count || !json_key_is(&keys->keys[predicted], text + entries[entry] + 1)) {
			if (text[entries[entry + 1]] != '"')
				goto broken_string;
			if (key_find(self, entry, &field, err))
				return JSON_FAILED;
			if (field != JSON_NO_FIELD)
				*link = field;
		}
		if (text[entries[entry + 2]] != ':')
			return stop(window, entry + 2, "':'", err);
		if (json_begins_scalar(text[entries[value]])) {
			entry = value + 1;
		} else if (text[entries[value]] == '"' && text[entries[value + 1]] == '"') {
			entry = value + 2;
		} else {
			entry = json_skip_value(window, value, depth_max, err);
			if (!entry) {
				if (err->code)
					return JSON_FAILED;
				return stop(window, (uint32_t)window->entry_count, "the rest of the record", err);
			}
		}
		if (field == JSON_NO_FIELD) {
			if (is_at_end(window, entry) && !window->input.at_end)
				return JSON_MORE; /* a number may go on */
			if (json_field_new(self, NULL, 0, name, value, err))
				return JSON_FAILED;
		} else {
			key = &keys->keys[field];
			if (key->slot != JSON_NO_FIELD) {
				if (key->serial == serial) {
					json_window_fail(window, entries[name], err, WEIR_E_DATA,
							 "the record has the field '%.100s' twice", key->name);
					return JSON_FAILED;
				}
				key->serial = serial;
				self->columns[key->slot].values[row] = value;
				wanted--;
			}
			link = &key->next;
			predicted = key->next;
		}
		if (text[entries[entry]] == '}') {
			entry++;
			break;
		}
		if (text[entries[entry]] != ',')
			return stop(window, entry, "',' or '}'", err);
		entry++;
		continue;
broken_string:
		if (is_at_end(window, entry + 1))
			return stop(window, entry + 1, "the rest of the record", err);
		string_broken(window, entry + 1, err);
		return JSON_FAILED;
	}
done:
	if (wanted)
		for (uint32_t i = 0; i < keys->count; i++)
			if (keys->keys[i].slot != JSON_NO_FIELD && keys->keys[i].serial != serial)
				self->columns[keys->keys[i].slot].values[row] = 0;
	*out = entry;
	return JSON_ROW;
}

enum json_step json_walk(struct json_reader *self, uint32_t row, struct weir_error *err)
{
	uint32_t behind = 0;
	enum json_step step = json_cursor_find(&self->cursor, err);

	if (step == JSON_ROW)
		step = walk_object(self, self->cursor.entry, row, &behind, err);
	if (step == JSON_ROW)
		json_cursor_pass(&self->cursor, behind);
	return step;
}
