/* Few numbers in order, compiled once per CPU level.
 *
 * At v4 by a network: each compares the same places whatever is in them, so nothing is guessed. Eight numbers are a
 * vector; two sorted halves become one by comparing the first with the last, the second with the last but one, and so
 * on, and then, in each half, places that are 1/2, 1/4, 1/8 … of it apart:
 *
 *     1 4 6 8 │ 2 3 5 7   ─▶   1 4 3 2 │ 8 6 5 7   ─▶   1 2 3 4 │ 5 6 8 7   ─▶   1 2 3 4 │ 5 6 7 8
 *
 * Places beyond the last have the greatest number. Of 2^13 random keys, all work counted, one takes 5.5 ns instead of
 * 11 (bench/micro/order_keys.c). Below v4, where vectors have no minimum of such numbers, each is moved in front of
 * those that are greater, which is good for a few that are nearly in order. */
#include "base/cpu.h"
#include "ops/exchange/order_impl.h"

#if defined(__AVX512F__)

#include <immintrin.h>

enum { LANES = 8, FEW = 64, PART_BITS = 4 };

#define INLINE static inline __attribute__((always_inline))

/* Each lane and its partner: those in `upper` get the greater. */
INLINE __m512i settle(__m512i lanes, __m512i partners, __mmask8 upper)
{
	return _mm512_mask_max_epu64(_mm512_min_epu64(lanes, partners), upper, lanes, partners);
}

INLINE __m512i backwards(__m512i lanes)
{
	return _mm512_permutexvar_epi64(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), lanes);
}

/* Lanes that are so many apart. */
INLINE __m512i settle_apart_1(__m512i lanes)
{
	return settle(lanes, _mm512_permutex_epi64(lanes, 0xb1), 0xaa);
}

INLINE __m512i settle_apart_2(__m512i lanes)
{
	return settle(lanes, _mm512_permutex_epi64(lanes, 0x4e), 0xcc);
}

INLINE __m512i settle_apart_4(__m512i lanes)
{
	return settle(lanes, _mm512_shuffle_i64x2(lanes, lanes, 0x4e), 0xf0);
}

INLINE __m512i order_1(__m512i lanes)
{
	lanes = settle_apart_1(lanes);
	lanes = settle_apart_1(settle(lanes, _mm512_permutex_epi64(lanes, 0x1b), 0xcc));
	lanes = settle_apart_2(settle(lanes, backwards(lanes), 0xf0));
	return settle_apart_1(lanes);
}

/* Vectors of which each half is in order. The upper half comes out of the first step backwards, which is as good. */
INLINE void merge_halves(__m512i *vectors, int count)
{
	int half = count / 2;
	__m512i greater[LANES / 2];

	for (int i = 0; i < half; i++) {
		__m512i other = backwards(vectors[count - 1 - i]);

		greater[i] = _mm512_max_epu64(vectors[i], other);
		vectors[i] = _mm512_min_epu64(vectors[i], other);
	}
	for (int i = 0; i < half; i++)
		vectors[half + i] = greater[i];
	for (int apart = half / 2; apart > 0; apart /= 2) {
		for (int i = 0; i < count; i++) {
			__m512i lower = vectors[i];

			if (i & apart)
				continue;
			vectors[i] = _mm512_min_epu64(lower, vectors[i + apart]);
			vectors[i + apart] = _mm512_max_epu64(lower, vectors[i + apart]);
		}
	}
	for (int i = 0; i < count; i++)
		vectors[i] = settle_apart_1(settle_apart_2(settle_apart_4(vectors[i])));
}

INLINE __mmask8 lanes_used(size_t count, int vector)
{
	size_t before = (size_t)vector * LANES;

	return count >= before + LANES ? 0xff : count <= before ? 0 : (__mmask8)((1u << (count - before)) - 1);
}

/* At most so many vectors of them. */
INLINE void order_vectors(const uint64_t *from, uint64_t *to, size_t count, int vector_count)
{
	__m512i vectors[LANES];

	for (int i = 0; i < vector_count; i++)
		vectors[i] = order_1(
			_mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), lanes_used(count, i), from + i * LANES));
	for (int merged = 2; merged <= vector_count; merged *= 2)
		for (int i = 0; i < vector_count; i += merged)
			merge_halves(vectors + i, merged);
	for (int i = 0; i < vector_count; i++)
		_mm512_mask_storeu_epi64(to + i * LANES, lanes_used(count, i), vectors[i]);
}

static void order_parts(const uint64_t *from, uint64_t *to, const uint32_t *ends, uint32_t parts)
{
	for (uint32_t part = 0, first = 0; part < parts; first = ends[part++]) {
		size_t count = ends[part] - first;

		if (count <= LANES)
			order_vectors(from + first, to + first, count, 1);
		else if (count <= 2 * LANES)
			order_vectors(from + first, to + first, count, 2);
		else if (count <= 4 * LANES)
			order_vectors(from + first, to + first, count, 4);
		else
			order_vectors(from + first, to + first, count, 8);
	}
}

#else

enum { FEW = 24, PART_BITS = 0 };

/* What is in parts is nearly in order: one pass puts it right. */
static void order_parts(const uint64_t *from, uint64_t *to, const uint32_t *ends, uint32_t parts)
{
	size_t count = parts ? ends[parts - 1] : 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t moved = from[i];
		size_t at = i;

		for (; at > 0 && to[at - 1] > moved; at--)
			to[at] = to[at - 1];
		to[at] = moved;
	}
}

#endif

extern const struct weir_order_kernels WEIR_KERNEL(weir_order_kernels);
const struct weir_order_kernels WEIR_KERNEL(weir_order_kernels) = {
	.few = FEW,
	.part_bits = PART_BITS,
	.order_parts = order_parts,
};
