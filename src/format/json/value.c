/* Single values: what a number or word is, and strings without their escapes. */
#include "base/utf8.h"
#include "format/json/json_impl.h"

#include <string.h>

static bool is_word(const uint8_t *text, size_t size, const char *word)
{
	return size == strlen(word) && memcmp(text, word, size) == 0;
}

struct weir_number_grammar json_grammar(const struct json_options *options)
{
	struct weir_number_grammar grammar = WEIR_NUMBER_JSON;

	if (options->nonfinite == JSON_NONFINITE_ALLOW)
		grammar.flags |= WEIR_NUMBER_JSON_NAMES;
	return grammar;
}

enum json_word json_word_kind(const struct json_options *options, const uint8_t *text, size_t size)
{
	struct weir_numeral number;
	int64_t integer;

	if (is_word(text, size, "null"))
		return JSON_WORD_NULL;
	if (is_word(text, size, "true") || is_word(text, size, "false"))
		return JSON_WORD_BOOL;
	if (weir_numeral_scan((const char *)text, size, json_grammar(options), &number) != size || size == 0)
		return JSON_WORD_WRONG;
	if (number.name)
		return JSON_WORD_REAL;
	return number.is_integer && weir_numeral_i64(&number, &integer) ? JSON_WORD_INTEGER : JSON_WORD_REAL;
}

size_t json_value_end(const struct json_window *window, uint32_t entry)
{
	size_t begin = window->entries[entry], end = window->entries[entry + 1];

	while (end > begin && (window->text[end - 1] == ' ' || window->text[end - 1] == '\t' ||
			       window->text[end - 1] == '\r' || window->text[end - 1] == '\n'))
		end--;
	return end;
}

bool json_is_null(const struct json_window *window, uint32_t entry)
{
	size_t begin = window->entries[entry];

	return window->text[begin] == 'n' && json_value_end(window, entry) - begin == 4 &&
	       memcmp(window->text + begin, "null", 4) == 0;
}

/* Four hexadecimal digits; UINT32_MAX when they are not. */
static uint32_t hex4(const uint8_t *text, const uint8_t *end)
{
	uint32_t value = 0;

	if (end - text < 4)
		return UINT32_MAX;
	for (uint32_t i = 0; i < 4; i++) {
		uint8_t byte = text[i], low = byte | 0x20;
		uint32_t digit = byte >= '0' && byte <= '9' ? byte - (uint32_t)'0'
				 : low >= 'a' && low <= 'f' ? low - 'a' + 10u
							    : 16;

		if (digit == 16)
			return UINT32_MAX;
		value = value << 4 | digit;
	}
	return value;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t point)
{
	if (point < 0x80) {
		*out++ = (uint8_t)point;
	} else if (point < 0x800) {
		*out++ = (uint8_t)(0xc0 | point >> 6);
		*out++ = (uint8_t)(0x80 | (point & 63));
	} else if (point < 0x10000) {
		*out++ = (uint8_t)(0xe0 | point >> 12);
		*out++ = (uint8_t)(0x80 | (point >> 6 & 63));
		*out++ = (uint8_t)(0x80 | (point & 63));
	} else {
		*out++ = (uint8_t)(0xf0 | point >> 18);
		*out++ = (uint8_t)(0x80 | (point >> 12 & 63));
		*out++ = (uint8_t)(0x80 | (point >> 6 & 63));
		*out++ = (uint8_t)(0x80 | (point & 63));
	}
	return out;
}

/* \uXXXX, of which a second one may follow; `*from` is behind the u. UINT32_MAX: wrong digits. UINT32_MAX − 1: half a
 * surrogate pair. */
static uint32_t read_point(const uint8_t **from, const uint8_t *end)
{
	uint32_t point = hex4(*from, end), low;

	if (point == UINT32_MAX)
		return point;
	*from += 4;
	if (point < 0xd800 || point > 0xdfff)
		return point;
	if (point >= 0xdc00 || end - *from < 6 || (*from)[0] != '\\' || (*from)[1] != 'u')
		return UINT32_MAX - 1;
	low = hex4(*from + 2, end);
	if (low < 0xdc00 || low > 0xdfff)
		return UINT32_MAX - 1;
	*from += 6;
	return 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
}

static int unescape(const struct json_window *window, const struct json_options *options, size_t at, size_t end,
		    struct weir_arena *arena, const uint8_t **bytes, size_t *size, struct weir_error *err)
{
	const uint8_t *from = window->text + at, *stop = window->text + end;
	/* No escape becomes longer. */
	uint8_t *out = weir_arena_alloc(arena, end - at, err), *to = out;

	if (!out)
		return err->code;
	while (from < stop) {
		const uint8_t *backslash = memchr(from, '\\', (size_t)(stop - from));
		size_t run = (size_t)((backslash ? backslash : stop) - from);
		uint32_t point;

		memcpy(to, from, run);
		to += run;
		from += run;
		if (!backslash)
			break;
		from += 2;
		switch (backslash + 1 < stop ? backslash[1] : 0) {
		case '"':
		case '\\':
		case '/':
			*to++ = backslash[1];
			break;
		case 'b':
			*to++ = '\b';
			break;
		case 'f':
			*to++ = '\f';
			break;
		case 'n':
			*to++ = '\n';
			break;
		case 'r':
			*to++ = '\r';
			break;
		case 't':
			*to++ = '\t';
			break;
		case 'u':
			point = read_point(&from, stop);
			if (point == UINT32_MAX - 1 && options->surrogates == JSON_SURROGATES_REPLACE)
				point = 0xfffd;
			if (point == UINT32_MAX - 1)
				return json_window_fail(window, (size_t)(backslash - window->text), err, WEIR_E_DATA,
							"half of a surrogate pair stands alone (--surrogates replace "
							"makes it U+FFFD)");
			if (point == UINT32_MAX)
				return json_window_fail(window, (size_t)(backslash - window->text), err, WEIR_E_DATA,
							"four hexadecimal digits must follow \\u");
			to = put_utf8(to, point);
			break;
		default:
			return json_window_fail(window, (size_t)(backslash - window->text), err, WEIR_E_DATA,
						"no such escape");
		}
	}
	*bytes = out;
	*size = (size_t)(to - out);
	return WEIR_OK;
}

int json_string_read(const struct json_window *window, const struct json_options *options, size_t at, size_t end,
		     struct weir_arena *arena, const uint8_t **bytes, size_t *size, struct weir_error *err)
{
	if (!window->is_ascii) {
		size_t valid = weir_utf8_valid_prefix(window->text + at, end - at);

		if (valid < end - at)
			return json_window_fail(
				window, at + valid, err, WEIR_E_DATA,
				"the string is not UTF-8 (--encoding latin1, utf16 … if it is something else)");
	}
	*bytes = window->text + at;
	*size = end - at;
	if (window->has_escapes && memchr(*bytes, '\\', *size))
		return unescape(window, options, at, end, arena, bytes, size, err);
	return WEIR_OK;
}

int json_text_read(const struct json_window *window, const struct json_options *options, uint32_t entry,
		   struct weir_arena *arena, const uint8_t **bytes, size_t *size, struct weir_error *err)
{
	size_t begin = window->entries[entry];
	uint32_t behind;

	if (window->text[begin] == '"')
		return json_string_read(window, options, begin + 1, window->entries[entry + 1], arena, bytes, size,
					err);
	behind = json_value_check(window, options, entry, arena, err);
	if (!behind)
		return err->code;
	*bytes = window->text + begin;
	*size = (behind > entry + 1 ? window->entries[behind - 1] + 1 : json_value_end(window, entry)) - begin;
	return WEIR_OK;
}
