/* Text is mostly ASCII, so runs of it are skipped 64 bytes at a time, and a character outside it is looked at byte by
 * byte. The second byte's range depends on the first (RFC 3629, section 4):
 *
 *     00..7F                                        E1..EC, EE..EF  80..BF 80..BF
 *     C2..DF 80..BF                                 F0              90..BF 80..BF 80..BF   (no overlong forms)
 *     E0     A0..BF 80..BF   (no overlong forms)    F1..F3          80..BF 80..BF 80..BF
 *     ED     80..9F 80..BF   (no surrogates)        F4              80..8F 80..BF 80..BF   (up to U+10FFFF)
 */
#include "base/utf8.h"

#include <string.h>

#define HIGH_BITS 0x8080808080808080u

static uint64_t load8(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static bool follows(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t weir_utf8_char_size(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	if (size == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xe0)
		return p[0] >= 0xc2 && size >= 2 && follows(p[1]) ? 2 : 0;
	if (p[0] < 0xf0) {
		if (size < 3 || !follows(p[1]) || !follows(p[2]))
			return 0;
		return (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ? 0 : 3;
	}
	if (p[0] > 0xf4 || size < 4 || !follows(p[1]) || !follows(p[2]) || !follows(p[3]))
		return 0;
	return (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ? 0 : 4;
}

/* From `at`, the first byte that is not ASCII, or `size`. */
static size_t skip_ascii(const unsigned char *p, size_t at, size_t size)
{
	uint64_t high;

	while (size - at >= 64) {
		uint64_t any = 0;

		for (int i = 0; i < 8; i++)
			any |= load8(p + at + 8 * i);
		if (any & HIGH_BITS)
			break;
		at += 64;
	}
	for (; size - at >= 8; at += 8) {
		high = load8(p + at) & HIGH_BITS;
		if (high)
			break;
	}
	while (at < size && p[at] < 0x80)
		at++;
	return at;
}

size_t weir_utf8_valid_prefix(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	size_t at = 0;

	while (at < size) {
		size_t length;

		if (p[at] < 0x80) {
			at = skip_ascii(p, at, size);
			continue;
		}
		length = weir_utf8_char_size(p + at, size - at);
		if (length == 0)
			break;
		at += length;
	}
	return at;
}

/* Every byte but those that follow in a character begins one: 10xxxxxx. */
size_t weir_utf8_length(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	size_t following = 0, at = 0;

	for (; size - at >= 8; at += 8) {
		uint64_t word = load8(p + at);

		following += (size_t)__builtin_popcountll(word & ~word << 1 & HIGH_BITS);
	}
	for (; at < size; at++)
		following += follows(p[at]);
	return size - following;
}
