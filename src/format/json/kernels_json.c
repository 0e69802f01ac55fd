/* The kernels, compiled once per CPU level: one load classifies 16, 32 or 64 bytes.
 *
 * Two table lookups by a byte's low nibble do most of it: a blank equals its table entry, and so does { } : , with bit
 * 5 set, which makes [ and ] look like { and }. Two control characters look like : and , that way; outside strings they
 * are then entries that nobody expects, as they should be.
 */
#include "format/json/kernels_impl.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct json_masks {
	uint64_t quote, backslash, op, blank, control, newline, high;
};

#if defined(__AVX512BW__) || defined(__AVX2__) || defined(__SSSE3__)
#define BLANK_TABLE ' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0
#define OP_TABLE 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0
#endif

#if defined(__AVX512BW__)
static inline struct json_masks classify(const uint8_t *text)
{
	const __m512i blanks = _mm512_broadcast_i32x4(_mm_setr_epi8(BLANK_TABLE));
	const __m512i ops = _mm512_broadcast_i32x4(_mm_setr_epi8(OP_TABLE));
	__m512i bytes = _mm512_loadu_si512(text);

	return (struct json_masks){
		.quote = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('"')),
		.backslash = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\\')),
		.op = _mm512_cmpeq_epi8_mask(_mm512_or_si512(bytes, _mm512_set1_epi8(0x20)),
					     _mm512_shuffle_epi8(ops, bytes)),
		.blank = _mm512_cmpeq_epi8_mask(bytes, _mm512_shuffle_epi8(blanks, bytes)),
		.control = _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(0x20)),
		.newline = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\n')),
		.high = _mm512_movepi8_mask(bytes),
	};
}
#elif defined(__AVX2__)
#define MASKS(a, b) ((uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32)
static inline struct json_masks classify(const uint8_t *text)
{
	const __m256i blanks = _mm256_setr_epi8(BLANK_TABLE, BLANK_TABLE);
	const __m256i ops = _mm256_setr_epi8(OP_TABLE, OP_TABLE);
	const __m256i bit5 = _mm256_set1_epi8(0x20), last = _mm256_set1_epi8(0x1f);
	const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'),
		      newline = _mm256_set1_epi8('\n');
	__m256i a = _mm256_loadu_si256((const __m256i *)text), b = _mm256_loadu_si256((const __m256i *)text + 1);

	return (struct json_masks){
		.quote = MASKS(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote)),
		.backslash = MASKS(_mm256_cmpeq_epi8(a, backslash), _mm256_cmpeq_epi8(b, backslash)),
		.op = MASKS(_mm256_cmpeq_epi8(_mm256_or_si256(a, bit5), _mm256_shuffle_epi8(ops, a)),
			    _mm256_cmpeq_epi8(_mm256_or_si256(b, bit5), _mm256_shuffle_epi8(ops, b))),
		.blank = MASKS(_mm256_cmpeq_epi8(a, _mm256_shuffle_epi8(blanks, a)),
			       _mm256_cmpeq_epi8(b, _mm256_shuffle_epi8(blanks, b))),
		.control = MASKS(_mm256_cmpeq_epi8(_mm256_max_epu8(a, last), last),
				 _mm256_cmpeq_epi8(_mm256_max_epu8(b, last), last)),
		.newline = MASKS(_mm256_cmpeq_epi8(a, newline), _mm256_cmpeq_epi8(b, newline)),
		.high = MASKS(a, b),
	};
}
#elif defined(__SSSE3__)
static inline struct json_masks classify(const uint8_t *text)
{
	const __m128i blanks = _mm_setr_epi8(BLANK_TABLE), ops = _mm_setr_epi8(OP_TABLE);
	const __m128i bit5 = _mm_set1_epi8(0x20), last = _mm_set1_epi8(0x1f);
	struct json_masks masks = {0};

	for (uint32_t part = 0; part < 4; part++) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)text + part);
		uint32_t shift = part * 16;

#define PART(x) ((uint64_t)(uint32_t)_mm_movemask_epi8(x) << shift)
		masks.quote |= PART(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
		masks.backslash |= PART(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
		masks.op |= PART(_mm_cmpeq_epi8(_mm_or_si128(bytes, bit5), _mm_shuffle_epi8(ops, bytes)));
		masks.blank |= PART(_mm_cmpeq_epi8(bytes, _mm_shuffle_epi8(blanks, bytes)));
		masks.control |= PART(_mm_cmpeq_epi8(_mm_max_epu8(bytes, last), last));
		masks.newline |= PART(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
		masks.high |= PART(bytes);
#undef PART
	}
	return masks;
}
#else
#include "format/json/classify_template.h"
#endif

#if defined(__AVX512F__)
static inline uint32_t *put_entries(uint64_t mask, uint32_t base, uint32_t *out)
{
	const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

	for (uint32_t part = 0; part < 4; part++) {
		__mmask16 bits = (__mmask16)(mask >> part * 16);
		__m512i places = _mm512_add_epi32(iota, _mm512_set1_epi32((int)(base + part * 16)));

		_mm512_storeu_si512(out, _mm512_maskz_compress_epi32(bits, places));
		out += __builtin_popcount(bits);
	}
	return out;
}
#else
/* Four at a time without asking whether there are so many: mispredicted branches cost more than stores. */
static inline uint32_t *put_entries(uint64_t mask, uint32_t base, uint32_t *out)
{
	uint32_t *end = out + __builtin_popcountll(mask);

	while (out < end) {
		for (uint32_t i = 0; i < 4; i++) {
			out[i] = base + (uint32_t)__builtin_ctzll(mask | UINT64_C(1) << 63);
			mask &= mask - 1;
		}
		out += 4;
	}
	return end;
}
#endif

#include "format/json/kernels_template.h"

static size_t count_newlines(const uint8_t *text, size_t size)
{
	size_t count = 0;

	for (size_t i = 0; i < size; i++)
		count += text[i] == '\n';
	return count;
}

extern const struct json_kernels WEIR_KERNEL(json_kernels);
const struct json_kernels WEIR_KERNEL(json_kernels) = {
	.index = index_text,
	.find_special = find_special,
	.count_newlines = count_newlines,
};
