/* Sixteen bytes of a string at once: which of them CSV or JSON cannot take as they are. */
#ifndef WEIR_FORMAT_TEXT_SCAN_IMPL_H
#define WEIR_FORMAT_TEXT_SCAN_IMPL_H

#include "base/number.h"
#include "format/text/text_impl.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));

static inline bytes16 load16(const uint8_t *p)
{
	bytes16 v;

	memcpy(&v, p, 16);
	return v;
}

static inline bool any(bytes16 v)
{
	uint64_t words[2];

	memcpy(words, &v, 16);
	return words[0] | words[1];
}

static inline bytes16 all(uint8_t byte)
{
	return byte - (bytes16){0};
}

/* The last 16 bytes of fewer, of at least 1: those missing are copies of others. */
static inline bytes16 load_short(const uint8_t *p, size_t size)
{
	uint64_t words[2];
	bytes16 v;

	if (size >= 8) {
		memcpy(&words[0], p, 8);
		memcpy(&words[1], p + size - 8, 8);
	} else {
		words[0] = weir_load_short((const char *)p, size);
		/* Bytes above are zero: filled with the first, so that nothing is seen that is not there. */
		words[0] |= 0x0101010101010101u * *p << size * 8;
		words[1] = words[0];
	}
	memcpy(&v, words, 16);
	return v;
}

static inline bytes16 csv_specials(const struct text_style *style, bytes16 v)
{
	return (bytes16)(v == all((uint8_t)style->delimiter)) | (bytes16)(v == all((uint8_t)style->quote)) |
	       (bytes16)(v == all((uint8_t)style->escape)) | (bytes16)(v == all('\n')) | (bytes16)(v == all('\r'));
}

static inline bytes16 json_specials(bytes16 v)
{
	return (bytes16)(v < all(0x20)) | (bytes16)(v == all('"')) | (bytes16)(v == all('\\'));
}

#endif
