/* The kernels of kernels.h, compiled once per CPU level.
 *
 * Plain loops, and where the benchmark beside them (bench/micro/vector_kernels.c) shows 1.3 times, the processor's own
 * instructions: comparisons to masks and VPCOMPRESSD at v4 (VPCOMPRESSW is not part of that level, so rows are
 * compressed as 32 bits, sixteen at a time, and narrowed), PEXT over byte positions at v3.
 */
#include "base/cpu.h"
#include "vector/kernels.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void bits_and(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		out[i] = a[i] & b[i];
}

static void bits_or(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		out[i] = a[i] | b[i];
}

static void bits_and_not(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		out[i] = a[i] & ~b[i];
}

static void bits_not(uint64_t *out, const uint64_t *a, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		out[i] = ~a[i];
}

/* Rows `base` + j for each set bit j of `word`, to `out`; may write past the last one, up to 16 in all from any set of
 * 16 bits. Returns how many. */
static inline uint32_t select_word(uint64_t word, uint32_t base, uint16_t *out)
{
#if defined(__AVX512F__)
	const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	uint32_t kept = 0;

	for (uint32_t part = 0; part < 4; part++) {
		__mmask16 mask = (__mmask16)(word >> part * 16);
		__m512i rows = _mm512_add_epi32(iota, _mm512_set1_epi32((int)(base + part * 16)));

		_mm256_storeu_si256((__m256i *)(out + kept),
				    _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, rows)));
		kept += (uint32_t)__builtin_popcount(mask);
	}
	return kept;
#elif defined(__BMI2__)
	uint32_t kept = 0;

	/* Few bits are sooner found one by one. */
	if (__builtin_popcountll(word) < 20) {
		for (; word; word &= word - 1)
			out[kept++] = (uint16_t)(base + (uint32_t)__builtin_ctzll(word));
		return kept;
	}
	for (uint32_t part = 0; part < 8; part++) {
		uint64_t byte = word >> part * 8 & 0xff;
		uint64_t lanes = _pdep_u64(byte, 0x0101010101010101u) * 0xff;
		uint64_t positions = _pext_u64(0x0706050403020100u, lanes);
		__m128i rows = _mm_add_epi16(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)positions)),
					     _mm_set1_epi16((short)(base + part * 8)));

		_mm_storeu_si128((__m128i *)(out + kept), rows);
		kept += (uint32_t)__builtin_popcountll(byte);
	}
	return kept;
#else
	uint32_t kept = 0;

	for (; word; word &= word - 1)
		out[kept++] = (uint16_t)(base + (uint32_t)__builtin_ctzll(word));
	return kept;
#endif
}

static uint32_t select_all(const uint64_t *keep, const uint64_t *valid, uint32_t row_count, uint16_t *rows_out)
{
	uint32_t kept = 0, i = 0;

	for (; i + 64 <= row_count; i += 64) {
		uint64_t word = valid ? keep[i / 64] & valid[i / 64] : keep[i / 64];

		if (word)
			kept += select_word(word, i, rows_out + kept);
	}
	if (i < row_count) {
		uint64_t word = valid ? keep[i / 64] & valid[i / 64] : keep[i / 64];

		/* One by one: what select_word writes past the last row could pass the end of the output. */
		for (word &= ((uint64_t)1 << (row_count - i)) - 1; word; word &= word - 1)
			rows_out[kept++] = (uint16_t)(i + (uint32_t)__builtin_ctzll(word));
	}
	return kept;
}

static uint32_t select_rows(const uint16_t *rows, uint32_t count, const uint64_t *keep, const uint64_t *valid,
			    uint16_t *rows_out)
{
	uint32_t kept = 0, k = 0;

#if defined(__AVX512F__)
	for (; k + 16 <= count; k += 16) {
		__m512i row = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(rows + k)));
		__m512i word = _mm512_srli_epi32(row, 5);
		__m512i bit = _mm512_and_epi32(row, _mm512_set1_epi32(31));
		__m512i bits = _mm512_i32gather_epi32(word, (const int *)keep, 4);

		if (valid)
			bits = _mm512_and_epi32(bits, _mm512_i32gather_epi32(word, (const int *)valid, 4));
		bits = _mm512_srlv_epi32(bits, bit);
		__mmask16 mask = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
		_mm256_storeu_si256((__m256i *)(rows_out + kept),
				    _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, row)));
		kept += (uint32_t)__builtin_popcount(mask);
	}
#endif
	for (; k < count; k++) {
		uint16_t row = rows[k];
		uint64_t bit = keep[row >> 6] >> (row & 63);

		if (valid)
			bit &= valid[row >> 6] >> (row & 63);
		rows_out[kept] = row;
		kept += bit & 1;
	}
	return kept;
}

/* Left to itself the compiler uses gather instructions, which are slower than loads by half. */
#if defined(__clang__)
#define SCALAR_LOOPS
#define SCALAR_LOOP _Pragma("clang loop vectorize(disable)")
#else
#define SCALAR_LOOPS __attribute__((optimize("no-tree-vectorize")))
#define SCALAR_LOOP
#endif

#define GATHERS(width, type)                                                                                           \
	SCALAR_LOOPS static void gather_##width(void *out, const void *values, const uint16_t *rows, uint32_t count)   \
	{                                                                                                              \
		const type *from = values;                                                                             \
		type *to = out;                                                                                        \
                                                                                                                       \
		SCALAR_LOOP                                                                                            \
		for (uint32_t k = 0; k < count; k++)                                                                   \
			to[k] = from[rows[k]];                                                                         \
	}                                                                                                              \
                                                                                                                       \
	SCALAR_LOOPS static void lookup_##width(void *out, const void *values, const uint32_t *codes, uint32_t count)  \
	{                                                                                                              \
		const type *from = values;                                                                             \
		type *to = out;                                                                                        \
                                                                                                                       \
		SCALAR_LOOP                                                                                            \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			to[i] = from[codes[i]];                                                                        \
	}

struct bytes16 {
	uint64_t parts[2];
};
struct bytes32 {
	uint64_t parts[4];
};

GATHERS(1, uint8_t)
GATHERS(2, uint16_t)
GATHERS(4, uint32_t)
GATHERS(8, uint64_t)
GATHERS(16, struct bytes16)
GATHERS(32, struct bytes32)

static void gather_bits(uint64_t *out, const uint64_t *bits, const uint16_t *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 64) {
		uint32_t end = count - i < 64 ? count - i : 64;
		uint64_t word = 0;

		for (uint32_t j = 0; j < end; j++)
			word |= (bits[rows[i + j] >> 6] >> (rows[i + j] & 63) & 1) << j;
		out[i / 64] = word;
	}
}

static void lookup_bits(uint64_t *out, const uint8_t *table, uint32_t size, const uint32_t *codes, uint32_t count)
{
	uint32_t i = 0;

#if defined(__AVX512BW__)
	/* Up to 512 values fit one register: a word by the code's upper bits, a bit by its lower ones. */
	if (size <= 512) {
		uint64_t words[8] = {0};
		__m512i lut;

		for (uint32_t w = 0; w * 64 < size; w++) {
			uint32_t left = size - w * 64;
			__mmask64 there = left < 64 ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;

			words[w] = _mm512_mask_test_epi8_mask(there, _mm512_maskz_loadu_epi8(there, table + w * 64),
							      _mm512_set1_epi8(1));
		}
		lut = _mm512_loadu_si512(words);
		for (; i + 64 <= count; i += 64) {
			uint64_t word = 0;

			for (uint32_t j = 0; j < 64; j += 16) {
				__m512i code = _mm512_loadu_si512(codes + i + j);
				__m512i picked = _mm512_permutexvar_epi32(_mm512_srli_epi32(code, 5), lut);
				__m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1),
								_mm512_and_epi32(code, _mm512_set1_epi32(31)));

				word |= (uint64_t)_mm512_test_epi32_mask(picked, bit) << j;
			}
			out[i / 64] = word;
		}
	}
#endif
	(void)size;
	for (; i < count; i += 64) {
		uint32_t end = count - i < 64 ? count - i : 64;
		uint64_t word = 0;

		for (uint32_t j = 0; j < end; j++)
			word |= (uint64_t)(table[codes[i + j]] & 1) << j;
		out[i / 64] = word;
	}
}

static uint32_t lookup_rows(const uint8_t *table, const uint32_t *codes, const uint16_t *rows, uint32_t count,
			    uint16_t *rows_out)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint16_t row = rows[k];

		rows_out[kept] = row;
		kept += table[codes[row]] & 1;
	}
	return kept;
}

#if !defined(__AVX512BW__)
/* The top bits of 64 bytes. */
static inline uint64_t bytes_to_word(const uint8_t *bytes)
{
	uint64_t word = 0;

#if defined(__SSE2__)
	for (uint32_t j = 0; j < 64; j += 16)
		word |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(bytes + j))) << j;
#else
	for (uint32_t j = 0; j < 64; j++)
		word |= (uint64_t)(bytes[j] >> 7) << j;
#endif
	return word;
}
#endif

#define TYPE int8_t
#define NAME(x) i8_##x
#if defined(__AVX512BW__)
#define LANES 64
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi8((char)(v))
#define MASK_EQ(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epi8_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE int16_t
#define NAME(x) i16_##x
#if defined(__AVX512BW__)
#define LANES 32
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi16((short)(v))
#define MASK_EQ(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epi16_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE int32_t
#define NAME(x) i32_##x
#if defined(__AVX512BW__)
#define LANES 16
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi32((int)(v))
#define MASK_EQ(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epi32_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE int64_t
#define NAME(x) i64_##x
#if defined(__AVX512BW__)
#define LANES 8
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi64((long long)(v))
#define MASK_EQ(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epi64_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE uint8_t
#define NAME(x) u8_##x
#if defined(__AVX512BW__)
#define LANES 64
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi8((char)(v))
#define MASK_EQ(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epu8_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE uint16_t
#define NAME(x) u16_##x
#if defined(__AVX512BW__)
#define LANES 32
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi16((short)(v))
#define MASK_EQ(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epu16_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE uint32_t
#define NAME(x) u32_##x
#if defined(__AVX512BW__)
#define LANES 16
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi32((int)(v))
#define MASK_EQ(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epu32_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE uint64_t
#define NAME(x) u64_##x
#if defined(__AVX512BW__)
#define LANES 8
#define LOAD(p) _mm512_loadu_si512(p)
#define SPLAT(v) _mm512_set1_epi64((long long)(v))
#define MASK_EQ(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_EQ)
#define MASK_NE(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_NE)
#define MASK_LT(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_LT)
#define MASK_LE(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_LE)
#define MASK_GT(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_NLE)
#define MASK_GE(a, b) _mm512_cmp_epu64_mask(a, b, _MM_CMPINT_NLT)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE float
#define NAME(x) f32_##x
#if defined(__AVX512BW__)
#define LANES 16
#define LOAD(p) _mm512_loadu_ps(p)
#define SPLAT(v) _mm512_set1_ps(v)
#define MASK_EQ(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define MASK_NE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ)
#define MASK_LT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define MASK_LE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define MASK_GT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define MASK_GE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#endif
#include "vector/kernels_compare_template.h"

#define TYPE double
#define NAME(x) f64_##x
#if defined(__AVX512BW__)
#define LANES 8
#define LOAD(p) _mm512_loadu_pd(p)
#define SPLAT(v) _mm512_set1_pd(v)
#define MASK_EQ(a, b) _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ)
#define MASK_NE(a, b) _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ)
#define MASK_LT(a, b) _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)
#define MASK_LE(a, b) _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ)
#define MASK_GT(a, b) _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ)
#define MASK_GE(a, b) _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ)
#endif
#include "vector/kernels_compare_template.h"

#define SIX(type, form)                                                                                                \
	{                                                                                                              \
		type##_##form##_eq, type##_##form##_ne, type##_##form##_lt, type##_##form##_le, type##_##form##_gt,    \
			type##_##form##_ge                                                                             \
	}
#define TEN(form)                                                                                                      \
	{                                                                                                              \
		[WEIR_I8] = SIX(i8, form), [WEIR_I16] = SIX(i16, form), [WEIR_I32] = SIX(i32, form),                   \
		[WEIR_I64] = SIX(i64, form), [WEIR_U8] = SIX(u8, form), [WEIR_U16] = SIX(u16, form),                   \
		[WEIR_U32] = SIX(u32, form), [WEIR_U64] = SIX(u64, form), [WEIR_F32] = SIX(f32, form),                 \
		[WEIR_F64] = SIX(f64, form),                                                                           \
	}

extern const struct weir_vector_kernels WEIR_KERNEL(weir_vector_kernels);
const struct weir_vector_kernels WEIR_KERNEL(weir_vector_kernels) = {
	.bits_and = bits_and,
	.bits_or = bits_or,
	.bits_and_not = bits_and_not,
	.bits_not = bits_not,
	.select_all = select_all,
	.select_rows = select_rows,
	.gather = {gather_1, gather_2, gather_4, gather_8, gather_16, gather_32},
	.gather_bits = gather_bits,
	.lookup = {lookup_1, lookup_2, lookup_4, lookup_8, lookup_16, lookup_32},
	.lookup_bits = lookup_bits,
	.lookup_rows = lookup_rows,
	.compare_constant = TEN(constant),
	.compare_columns = TEN(columns),
	.compare_rows = TEN(rows),
};
