/* Text is mostly ASCII, so runs of it are skipped 64 bytes at a time. What is not is judged 16 bytes at a time where
 * the processor can look up 16 nibbles at once, and character by character elsewhere, near the end and where an error
 * is to be found exactly. The second byte's range depends on the first (RFC 3629, section 4):
 *
 *     00..7F                                        E1..EC, EE..EF  80..BF 80..BF
 *     C2..DF 80..BF                                 F0              90..BF 80..BF 80..BF   (no overlong forms)
 *     E0     A0..BF 80..BF   (no overlong forms)    F1..F3          80..BF 80..BF 80..BF
 *     ED     80..9F 80..BF   (no surrogates)        F4              80..8F 80..BF 80..BF   (up to U+10FFFF)
 *
 * In vectors (the method of Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte", 2021): all
 * that can be wrong with two neighbours shows in three nibbles, the first byte's two and the second's upper one. Each
 * nibble gives the set of faults that it allows, as bits; a fault that all three allow is there. What is left, a third
 * or fourth byte, is a following byte after a following byte, which is right exactly where one two (three) places
 * before announces that many.
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

static bool ascii64(const unsigned char *p)
{
	uint64_t any = 0;

	for (int i = 0; i < 8; i++)
		any |= load8(p + 8 * i);
	return (any & HIGH_BITS) == 0;
}

/* From `at`, the first byte that is not ASCII, or `size`. */
static size_t skip_ascii(const unsigned char *p, size_t at, size_t size)
{
	while (size - at >= 64 && ascii64(p + at))
		at += 64;
	while (size - at >= 8) {
		uint64_t high = load8(p + at) & HIGH_BITS;

		if (high && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
			return at + (size_t)__builtin_ctzll(high) / 8;
		if (high)
			break;
		at += 8;
	}
	while (at < size && p[at] < 0x80)
		at++;
	return at;
}

#if defined(__SSE4_1__)

#include <smmintrin.h>

/* Faults of two neighbours. A byte "leads" from C0 on, "follows" from 80 to BF. */
enum {
	LEAD_ALONE = 1 << 0,                                  /* leads, and the next does not follow */
	FOLLOWS_ASCII = 1 << 1,                               /* follows what does not lead */
	OVERLONG_3 = 1 << 2,                                  /* E0 80..9F */
	SURROGATE = 1 << 3,                                   /* ED A0..BF */
	OVERLONG_2 = 1 << 4,                                  /* C0 or C1 and any */
	PAST_F4_8F = 1 << 5,                                  /* F4 or more, and 90..BF */
	F0_OR_F5_80 = 1 << 6,                                 /* F0 (overlong), or F5 or more, and 80..8F */
	FOLLOWS_TWICE = 1 << 7,                               /* no fault by itself, see above */
	ANY_LOW = LEAD_ALONE | FOLLOWS_ASCII | FOLLOWS_TWICE, /* whatever the first byte's lower nibble */
	SECOND_FOLLOWS = FOLLOWS_ASCII | FOLLOWS_TWICE | OVERLONG_2,
};

static __m128i faults(__m128i now, __m128i before)
{
	const __m128i nibble = _mm_set1_epi8(15);
	/* clang-format off */
	const __m128i first_upper = _mm_setr_epi8(
		FOLLOWS_ASCII, FOLLOWS_ASCII, FOLLOWS_ASCII, FOLLOWS_ASCII,
		FOLLOWS_ASCII, FOLLOWS_ASCII, FOLLOWS_ASCII, FOLLOWS_ASCII,
		(char)FOLLOWS_TWICE, (char)FOLLOWS_TWICE, (char)FOLLOWS_TWICE, (char)FOLLOWS_TWICE,
		LEAD_ALONE | OVERLONG_2,
		LEAD_ALONE,
		LEAD_ALONE | OVERLONG_3 | SURROGATE,
		LEAD_ALONE | PAST_F4_8F | F0_OR_F5_80);
	enum { PAST = ANY_LOW | PAST_F4_8F | F0_OR_F5_80 };
	const __m128i first_lower = _mm_setr_epi8(
		(char)(ANY_LOW | OVERLONG_2 | OVERLONG_3 | F0_OR_F5_80),
		(char)(ANY_LOW | OVERLONG_2),
		(char)ANY_LOW, (char)ANY_LOW,
		(char)(ANY_LOW | PAST_F4_8F),
		(char)PAST, (char)PAST, (char)PAST, (char)PAST, (char)PAST, (char)PAST, (char)PAST, (char)PAST,
		(char)(PAST | SURROGATE),
		(char)PAST, (char)PAST);
	const __m128i second_upper = _mm_setr_epi8(
		LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE,
		(char)(SECOND_FOLLOWS | OVERLONG_3 | F0_OR_F5_80),
		(char)(SECOND_FOLLOWS | OVERLONG_3 | PAST_F4_8F),
		(char)(SECOND_FOLLOWS | SURROGATE | PAST_F4_8F),
		(char)(SECOND_FOLLOWS | SURROGATE | PAST_F4_8F),
		LEAD_ALONE, LEAD_ALONE, LEAD_ALONE, LEAD_ALONE);
	/* clang-format on */
	__m128i one = _mm_alignr_epi8(now, before, 15); /* each byte's neighbour, one to three places before */
	__m128i two = _mm_alignr_epi8(now, before, 14);
	__m128i three = _mm_alignr_epi8(now, before, 13);
	__m128i pairs, third, fourth;

	pairs = _mm_and_si128(_mm_shuffle_epi8(first_upper, _mm_and_si128(_mm_srli_epi16(one, 4), nibble)),
			      _mm_shuffle_epi8(first_lower, _mm_and_si128(one, nibble)));
	pairs = _mm_and_si128(pairs, _mm_shuffle_epi8(second_upper, _mm_and_si128(_mm_srli_epi16(now, 4), nibble)));
	/* Saturating: 80 or more exactly from E0 (F0) on. */
	third = _mm_subs_epu8(two, _mm_set1_epi8(0xe0 - 0x80));
	fourth = _mm_subs_epu8(three, _mm_set1_epi8(0xf0 - 0x80));
	return _mm_xor_si128(pairs, _mm_and_si128(_mm_or_si128(third, fourth), _mm_set1_epi8((char)0x80)));
}

/* Not zero where the vector's last character wants more bytes than are left in it. */
static __m128i unfinished(__m128i vector)
{
	return _mm_subs_epu8(vector, _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, (char)0xef,
						   (char)0xdf, (char)0xbf));
}

/* From `at`, where a character begins, over whole vectors without a fault. Ends where a character begins. */
static size_t skip_vectors(const unsigned char *p, size_t at, size_t size)
{
	__m128i before = _mm_setzero_si128();
	size_t begin = at;

	for (; size - at >= 64; at += 64) {
		const __m128i *v = (const __m128i *)(const void *)(p + at);
		__m128i a = _mm_loadu_si128(v), b = _mm_loadu_si128(v + 1), c = _mm_loadu_si128(v + 2),
			d = _mm_loadu_si128(v + 3), wrong;

		if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) == 0)
			wrong = unfinished(before);
		else
			wrong = _mm_or_si128(_mm_or_si128(faults(a, before), faults(b, a)),
					     _mm_or_si128(faults(c, b), faults(d, c)));
		if (!_mm_testz_si128(wrong, wrong))
			break;
		before = d;
	}
	for (; size - at >= 16; at += 16) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(p + at)), wrong = faults(a, before);

		if (!_mm_testz_si128(wrong, wrong))
			break;
		before = a;
	}
	/* The last character may go on past what was looked at. */
	for (size_t back = 1; back <= 3 && back <= at - begin; back++)
		if (p[at - back] >= (back == 1 ? 0xc0 : back == 2 ? 0xe0 : 0xf0))
			return at - back;
	return at;
}

#else

static size_t skip_vectors(const unsigned char *p, size_t at, size_t size)
{
	(void)p;
	(void)size;
	return at;
}

#endif

size_t weir_utf8_valid_prefix(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	size_t at = skip_ascii(p, 0, size);

	/* Once in a text that is not ASCII, vectors take it all; a fault ends them just before it. */
	if (size - at >= 16)
		at = skip_vectors(p, at, size);
	while (at < size) {
		size_t length = weir_utf8_char_size(p + at, size - at);

		if (length == 0)
			break;
		at += length;
		if (p[at - 1] < 0x80)
			at = skip_ascii(p, at, size);
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
