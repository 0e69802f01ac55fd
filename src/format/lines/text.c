/* What a line is made of: white space or not, and bytes that are no characters. */
#include "base/utf8.h"
#include "format/lines/lines_impl.h"

#include <string.h>

/* Bytes of the white space that begins here; 0: none does. */
static size_t space_size(const uint8_t *text, size_t left)
{
	uint8_t first = text[0];

	if ((first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20))
		return 1;
	if (first == 0xc2 && left >= 2) /* U+0085, U+00A0 */
		return text[1] == 0x85 || text[1] == 0xa0 ? 2 : 0;
	if (left < 3)
		return 0;
	if (first == 0xe1) /* U+1680 */
		return text[1] == 0x9a && text[2] == 0x80 ? 3 : 0;
	if (first == 0xe2 && text[1] == 0x80) /* U+2000 … U+200A, U+2028, U+2029, U+202F */
		return (text[2] >= 0x80 && text[2] <= 0x8a) || text[2] == 0xa8 || text[2] == 0xa9 || text[2] == 0xaf
			       ? 3
			       : 0;
	if (first == 0xe2) /* U+205F */
		return text[1] == 0x81 && text[2] == 0x9f ? 3 : 0;
	return first == 0xe3 && text[1] == 0x80 && text[2] == 0x80 ? 3 : 0; /* U+3000 */
}

bool lines_is_empty(const uint8_t *text, size_t size)
{
	size_t at = 0;

	while (at < size) {
		size_t space = space_size(text + at, size - at);

		if (space == 0)
			return false;
		at += space;
	}
	return true;
}

/* How many bytes from here on could have begun a character: at least 1. */
static size_t broken_size(const uint8_t *text, size_t left)
{
	uint8_t first = text[0], low = 0x80, high = 0xbf;
	size_t size, good = 1;

	if (first >= 0xc2 && first <= 0xdf)
		size = 2;
	else if (first >= 0xe0 && first <= 0xef)
		size = 3;
	else if (first >= 0xf0 && first <= 0xf4)
		size = 4;
	else
		return 1;
	/* The second byte has bounds of its own: no overlong forms, no surrogates, nothing past U+10FFFF. */
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	while (good < size && good < left && text[good] >= low && text[good] <= high) {
		good++;
		low = 0x80;
		high = 0xbf;
	}
	return good;
}

size_t lines_repair(const uint8_t *text, size_t size, enum lines_errors errors, uint8_t *out)
{
	size_t at = 0, used = 0;

	while (at < size) {
		size_t good = weir_utf8_valid_prefix(text + at, size - at);

		memcpy(out + used, text + at, good);
		at += good;
		used += good;
		if (at == size)
			break;
		if (errors == LINES_REPLACE) {
			memcpy(out + used, "\xef\xbf\xbd", 3);
			used += 3;
		}
		at += broken_size(text + at, size - at);
	}
	return used;
}
