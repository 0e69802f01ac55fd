/* The kernels of kernels_impl.h, compiled once per CPU level.
 *
 * Unpacking: eight values of w bits lie in w bytes. A vector register takes four of them in each half: a byte shuffle
 * brings the four bytes that hold a value to its place, a shift and a mask do the rest. That reaches values that span
 * at most four bytes, so 25 bits (7 + 25 = 32); wider ones go through 64-bit loads.
 *
 *     bits   …│ v3 │ v2 │ v1 │ v0 │     shuffle →   │ bytes of v0 │ bytes of v1 │ …     >> (i·w mod 8), & mask
 */
#include "base/cpu.h"
#include "format/parquet/kernels_impl.h"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

static inline uint64_t load64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return value;
}

static inline uint32_t load32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return value;
}

/* A constant width lets the compiler unroll eight values into shifts by constants. */
static inline __attribute__((always_inline)) void unpack_eights(const uint8_t *in, uint32_t width, uint32_t count,
								uint32_t *out)
{
	const uint64_t mask = ((uint64_t)1 << width) - 1;

	for (uint32_t i = 0; i < count; i += 8, in += width, out += 8)
		for (uint32_t j = 0; j < 8; j++)
			out[j] = (uint32_t)(load64(in + (j * width >> 3)) >> (j * width & 7) & mask);
}

#ifdef __AVX2__
static void unpack_shuffled(const uint8_t *in, uint32_t width, uint32_t count, uint32_t *out)
{
	const __m256i mask = _mm256_set1_epi32((int)(((uint64_t)1 << width) - 1));
	const uint32_t half = 4 * width >> 3; /* where the four upper values begin */
	/* Where each value begins, in bits from its half's first byte; the upper four may begin inside that byte. */
	const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
	const __m256i upper = _mm256_setr_epi32(0, 0, 0, 0, 7, 7, 7, 7);
	const __m256i bit = _mm256_add_epi32(_mm256_mullo_epi32(number, _mm256_set1_epi32((int)width)),
					     _mm256_and_si256(upper, _mm256_set1_epi32((int)(4 * width))));
	const __m256i shift = _mm256_and_si256(bit, _mm256_set1_epi32(7));
	const __m256i shuffle = _mm256_add_epi32(
		_mm256_mullo_epi32(_mm256_srli_epi32(bit, 3), _mm256_set1_epi32(0x01010101)),
		_mm256_set1_epi32(0x03020100));

	for (uint32_t i = 0; i < count; i += 8, in += width, out += 8) {
		__m128i low = _mm_loadu_si128((const __m128i *)in);
		__m128i high = _mm_loadu_si128((const __m128i *)(in + half));
		__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);

		both = _mm256_shuffle_epi8(both, shuffle);
		both = _mm256_and_si256(_mm256_srlv_epi32(both, shift), mask);
		_mm256_storeu_si256((__m256i *)out, both);
	}
}
#endif

static void unpack32(const uint8_t *in, uint32_t width, uint32_t count, uint32_t *out)
{
#ifdef __AVX2__
	if (width > 0 && width <= 25) {
		unpack_shuffled(in, width, count, out);
		return;
	}
#endif
	switch (width) {
	case 0:
		memset(out, 0, count * sizeof(*out));
		return;
#define WIDTH(w)                                                                                                       \
	case w:                                                                                                        \
		unpack_eights(in, w, count, out);                                                                      \
		return;
#ifndef __AVX2__
		WIDTH(1)
		WIDTH(2)
		WIDTH(3)
		WIDTH(4)
		WIDTH(5)
		WIDTH(6) WIDTH(7) WIDTH(8) WIDTH(9) WIDTH(10) WIDTH(11) WIDTH(12) WIDTH(13) WIDTH(14) WIDTH(15)
			WIDTH(16) WIDTH(17) WIDTH(18) WIDTH(19) WIDTH(20) WIDTH(21) WIDTH(22) WIDTH(23) WIDTH(24)
				WIDTH(25)
#endif
					WIDTH(26) WIDTH(27) WIDTH(28) WIDTH(29) WIDTH(30) WIDTH(31)
#undef WIDTH
						case 32 : memcpy(out, in, count * sizeof(*out));
	}
}

static void unpack64(const uint8_t *in, uint32_t width, uint32_t count, uint64_t *out)
{
	const uint64_t mask = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;

	if (width == 0) {
		memset(out, 0, count * sizeof(*out));
		return;
	}
	if (width <= 57) {
		for (uint32_t i = 0; i < count; i++) {
			uint64_t bit = (uint64_t)i * width;

			out[i] = load64(in + (bit >> 3)) >> (bit & 7) & mask;
		}
		return;
	}
	/* Up to nine bytes. */
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bit = (uint64_t)i * width;
		uint64_t low = load64(in + (bit >> 3)) >> (bit & 7);
		uint64_t high = (uint64_t)in[(bit >> 3) + 8] << 1 << (63 - (bit & 7));

		out[i] = (low | high) & mask;
	}
}

static uint32_t max32(const uint32_t *values, uint32_t count)
{
	uint32_t max = 0;

	for (uint32_t i = 0; i < count; i++)
		max = values[i] > max ? values[i] : max;
	return max;
}

static void fill32(uint32_t *out, uint32_t count, uint32_t value)
{
	for (uint32_t i = 0; i < count; i++)
		out[i] = value;
}

struct value16 {
	uint64_t half[2];
};

#define VALUE uint8_t
#define NAME(x) x##_1
#include "format/parquet/kernels_template.h"
#define VALUE uint16_t
#define NAME(x) x##_2
#include "format/parquet/kernels_template.h"
#define VALUE uint32_t
#define NAME(x) x##_4
#ifdef __AVX512F__
#define EXPAND_LANES 16
#define EXPAND(to, from, word)                                                                                         \
	_mm512_storeu_si512((to), _mm512_maskz_expand_epi32((__mmask16)(word), _mm512_loadu_si512(from)))
#endif
#include "format/parquet/kernels_template.h"
#define VALUE uint64_t
#define NAME(x) x##_8
#ifdef __AVX512F__
#define EXPAND_LANES 8
#define EXPAND(to, from, word)                                                                                         \
	_mm512_storeu_si512((to), _mm512_maskz_expand_epi64((__mmask8)(word), _mm512_loadu_si512(from)))
#endif
#include "format/parquet/kernels_template.h"
#define VALUE struct value16
#define NAME(x) x##_16
#include "format/parquet/kernels_template.h"

static void spread_bits(const uint64_t *valid, uint32_t count, const uint64_t *packed, uint64_t *out)
{
	uint64_t at = 0; /* bit of packed */

	for (uint32_t base = 0; base < count; base += 64) {
		uint64_t word = valid[base >> 6], taken, result = 0;

		if (count - base < 64)
			word &= ((uint64_t)1 << (count - base)) - 1;
		taken = load64((const uint8_t *)packed + (at >> 3)) >> (at & 7);
		if (at & 7)
			taken |= (uint64_t)((const uint8_t *)packed)[(at >> 3) + 8] << (64 - (at & 7));
#ifdef __BMI2__
		result = _pdep_u64(taken, word);
#else
		for (uint64_t rest = word; rest; rest &= rest - 1, taken >>= 1)
			result |= (rest & -rest) & -(taken & 1);
#endif
		out[base >> 6] = result;
		at += (uint64_t)__builtin_popcountll(word);
	}
}

/* Which bytes of a view hold text, by its size; 13 stands for all that do not fit inside. The length before a value and
 * its first twelve bytes lie in the page exactly as they do in a view. */
static const uint64_t keep_low[14] = {
	0x00000000ffffffff, 0x000000ffffffffff, 0x0000ffffffffffff, 0x00ffffffffffffff, UINT64_MAX,
	UINT64_MAX,         UINT64_MAX,         UINT64_MAX,         UINT64_MAX,         UINT64_MAX,
	UINT64_MAX,         UINT64_MAX,         UINT64_MAX,         UINT64_MAX,
};
static const uint64_t keep_high[14] = {
	0,
	0,
	0,
	0,
	0,
	0x00000000000000ff,
	0x000000000000ffff,
	0x0000000000ffffff,
	0x00000000ffffffff,
	0x000000ffffffffff,
	0x0000ffffffffffff,
	0x00ffffffffffffff,
	UINT64_MAX,
	0,
};

static const uint8_t *views(const uint8_t *at, const uint8_t *end, uint32_t count, struct weir_view *out)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t halves[2], size;
		uint32_t kind;

		if (end - at < 4)
			return NULL;
		size = load32(at);
		if (size > (uint64_t)(end - at) - 4)
			return NULL;
		kind = size <= WEIR_VIEW_INLINE ? (uint32_t)size : 13;
		halves[0] = load64(at) & keep_low[kind];
		halves[1] = (load64(at + 8) & keep_high[kind]) | (kind == 13 ? (uint64_t)(uintptr_t)(at + 4) : 0);
		memcpy(&out[i], halves, sizeof(out[i]));
		at += 4 + size;
	}
	return at;
}

static const uint8_t *views_skip(const uint8_t *at, const uint8_t *end, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t size;

		if (end - at < 4)
			return NULL;
		size = load32(at);
		if (size > (uint64_t)(end - at) - 4)
			return NULL;
		at += 4 + size;
	}
	return at;
}

static uint32_t lengths_max(const uint8_t *at, const uint8_t *end)
{
	uint32_t max = 0;

	while (at < end) {
		uint64_t size;

		if (end - at < 4)
			return UINT32_MAX;
		size = load32(at);
		if (size > (uint64_t)(end - at) - 4)
			return UINT32_MAX;
		max = size > max ? (uint32_t)size : max;
		at += 4 + size;
	}
	return max;
}

static bool is_ascii(const uint8_t *bytes, size_t size)
{
	size_t i = 0;

	for (; i + 256 <= size; i += 256) {
		uint64_t any = 0;

		for (uint32_t j = 0; j < 256; j += 8)
			any |= load64(bytes + i + j);
		if (any & 0x8080808080808080u)
			return false;
	}
	for (; i < size; i++)
		if (bytes[i] & 0x80)
			return false;
	return true;
}

static void copy_bits(const uint8_t *in, size_t from_bit, uint32_t count, uint64_t *out, uint32_t to_bit)
{
	in += from_bit >> 3;
	from_bit &= 7;
	out += to_bit >> 6;
	to_bit &= 63;
	if (to_bit) {
		uint64_t word = load64(in) >> from_bit;
		uint32_t room = 64 - to_bit;
		uint64_t kept = *out & (((uint64_t)1 << to_bit) - 1);

		if (from_bit)
			word |= (uint64_t)in[8] << (64 - from_bit);
		*out++ = kept | word << to_bit;
		if (count <= room)
			return;
		count -= room;
		from_bit += room;
		in += from_bit >> 3;
		from_bit &= 7;
	}
	for (uint32_t i = 0; i < count; i += 64, in += 8) {
		uint64_t word = load64(in) >> from_bit;

		if (from_bit)
			word |= (uint64_t)in[8] << (64 - from_bit);
		*out++ = word;
	}
}

static uint32_t count_bits(const uint64_t *bits, uint32_t count)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < count >> 6; i++)
		total += (uint32_t)__builtin_popcountll(bits[i]);
	if (count & 63)
		total += (uint32_t)__builtin_popcountll(bits[count >> 6] & (((uint64_t)1 << (count & 63)) - 1));
	return total;
}

static void join_streams(const uint8_t *in, size_t stride, uint32_t width, uint32_t count, uint8_t *out)
{
	switch (width) {
	case 2:
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t b = 0; b < 2; b++)
				out[i * 2 + b] = in[b * stride + i];
		return;
	case 4:
		for (uint32_t i = 0; i < count; i++) {
			uint32_t value = in[i] | (uint32_t)in[stride + i] << 8 | (uint32_t)in[2 * stride + i] << 16 |
					 (uint32_t)in[3 * stride + i] << 24;
			memcpy(out + i * 4, &value, 4);
		}
		return;
	case 8:
		for (uint32_t i = 0; i < count; i++) {
			uint64_t value = 0;

			for (uint32_t b = 0; b < 8; b++)
				value |= (uint64_t)in[b * stride + i] << (8 * b);
			memcpy(out + (size_t)i * 8, &value, 8);
		}
		return;
	default:
		for (uint32_t b = 0; b < width; b++)
			for (uint32_t i = 0; i < count; i++)
				out[(size_t)i * width + b] = in[b * stride + i];
	}
}

static void sum_deltas(uint64_t *values, uint32_t count, uint64_t min_delta, uint64_t *last)
{
	uint64_t sum = *last;

	for (uint32_t i = 0; i < count; i++) {
		sum += values[i] + min_delta;
		values[i] = sum;
	}
	*last = sum;
}

extern const struct parquet_kernels WEIR_KERNEL(parquet_kernels);
const struct parquet_kernels WEIR_KERNEL(parquet_kernels) = {
	.unpack32 = unpack32,
	.unpack64 = unpack64,
	.max32 = max32,
	.fill32 = fill32,
	.spread = {spread_1, spread_2, spread_4, spread_8, spread_16},
	.spread_bits = spread_bits,
	.views = views,
	.views_skip = views_skip,
	.lengths_max = lengths_max,
	.is_ascii = is_ascii,
	.copy_bits = copy_bits,
	.count_bits = count_bits,
	.gather = {gather_1, gather_2, gather_4, gather_8, gather_16},
	.join_streams = join_streams,
	.sum_deltas = sum_deltas,
};
