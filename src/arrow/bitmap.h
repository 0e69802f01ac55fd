/* bitmap: runs of bits, least significant first, as Arrow lays validity and booleans. All work is by words of 64 bits;
 * no byte outside those that hold the bits [offset, offset + count) is touched, so foreign buffers need no padding. */
#ifndef WEIR_ARROW_BITMAP_H
#define WEIR_ARROW_BITMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool weir_bit_get(const uint8_t *bits, int64_t at)
{
	return bits[at >> 3] >> (at & 7) & 1;
}

static inline void weir_bit_set(uint8_t *bits, int64_t at)
{
	bits[at >> 3] |= (uint8_t)(1u << (at & 7));
}

static inline void weir_bit_clear(uint8_t *bits, int64_t at)
{
	bits[at >> 3] &= (uint8_t) ~(1u << (at & 7));
}

/* Bytes that hold `count` bits. */
static inline uint64_t weir_bits_size(int64_t count)
{
	return ((uint64_t)count + 7) >> 3;
}

/* The lowest `count` (1 … 64) bits of a word set. */
static inline uint64_t weir_bits_mask(int64_t count)
{
	return ~UINT64_C(0) >> (64 - count);
}

/* `count` (1 … 64) bits from `offset` on, the rest zero. */
static inline uint64_t weir_bits_load(const uint8_t *bits, int64_t offset, int64_t count)
{
	const uint8_t *from = bits + (offset >> 3);
	unsigned shift = offset & 7, size = (unsigned)(shift + (uint64_t)count + 7) >> 3;
	uint64_t word = 0;

	if (size >= 8) {
		memcpy(&word, from, 8);
		word >>= shift;
		if (size == 9)
			word |= (uint64_t)from[8] << (64 - shift);
	} else {
		memcpy(&word, from, size);
		word >>= shift;
	}
	return word & weir_bits_mask(count);
}

/* Sets `count` (1 … 64) bits from `offset` on to the lowest bits of `word`; the neighbours stay. */
void weir_bits_store(uint8_t *bits, int64_t offset, int64_t count, uint64_t word);
void weir_bits_copy(uint8_t *to, int64_t to_offset, const uint8_t *from, int64_t from_offset, int64_t count);
void weir_bits_fill(uint8_t *bits, int64_t offset, int64_t count, bool value);
int64_t weir_bits_count(const uint8_t *bits, int64_t offset, int64_t count);
bool weir_bits_equal(const uint8_t *a, int64_t a_offset, const uint8_t *b, int64_t b_offset, int64_t count);
/* The next run of set bits at or after `*at`, below `end`: its start comes in *at, its length is returned, 0 when there
 * is none. `bits` NULL: all are set. */
int64_t weir_bits_run(const uint8_t *bits, int64_t offset, int64_t *at, int64_t end);

#endif
