/* quantiles: a sketch of how values are distributed, in bytes that grow to a bound, whatever the number of values.
 *
 *     few values:   u64 count │ u32 levels = 1 │ u32 used │ values as they came
 *     many:         u64 count │ u32 levels     │ u32 used │ least, greatest, coins, pairs │ sizes │ level n … level 1 │ level 0
 *
 * A value of level n stands for 2ⁿ. When the room is full, level 0 is sorted and every second of its values goes up to
 * level 1, the others go; a level that is longer than its share then does the same. The shares shrink by a third a
 * level from the highest down, so all levels but the lowest have three times that of the highest. Which half goes up is
 * a coin of the values themselves, tossed for every other time: the next time it is the other half, so that what one
 * has lost the other brings.
 *
 * Values are numbers whose order is that of their bits (weir_quantiles_bits). Up to `room` of them all are there and
 * results are exact; beyond, the rank of a result is off by about 1 / (4 × precision) of all rows (one standard
 * deviation).
 *
 * The bytes may lie anywhere, and be moved. Two sketches of the same precision make one; what that says may depend on
 * which values came together first, within the bounds.
 */
#ifndef WEIR_OPS_EXCHANGE_QUANTILES_H
#define WEIR_OPS_EXCHANGE_QUANTILES_H

#include "base/arena.h"

/* One for all sketches of a precision. */
struct weir_quantiles {
	uint32_t share; /* of the highest level */
	uint32_t room;  /* of values in all */
};

void weir_quantiles_init(struct weir_quantiles *quantiles, double precision);

static inline uint64_t weir_quantiles_bits(double value)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &value, sizeof(bits));
	return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
static inline double weir_quantiles_value(uint64_t bits)
{
	double value;

	bits = bits >> 63 ? bits ^ (uint64_t)1 << 63 : ~bits;
	__builtin_memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Bytes for a sketch without values; it is made there. */
enum { WEIR_QUANTILES_NEW = 64 };
void weir_quantiles_new(uint8_t *sketch);
/* The bytes of it that have a meaning: what is to be kept of it. */
uint32_t weir_quantiles_used(const uint8_t *sketch);
/* Values into a sketch of `size` bytes, as many as have room; *done: how many. Where that is not all, *wanted says how
 * many bytes it should get before the rest; 0: none, as it has made room. The arena is for what is needed meanwhile. */
int weir_quantiles_push(const struct weir_quantiles *quantiles, uint8_t *sketch, uint32_t size, const uint64_t *values,
			uint32_t count, uint32_t *done, uint32_t *wanted, struct weir_arena *arena,
			struct weir_error *err);
/* What both have, as a new sketch in memory of the arena. */
int weir_quantiles_merge(const struct weir_quantiles *quantiles, const uint8_t *a, const uint8_t *b,
			 struct weir_arena *arena, const uint8_t **out, uint32_t *out_size, struct weir_error *err);
/* The values at the shares (0 … 1) of a sketch that has some. */
int weir_quantiles_take(const uint8_t *sketch, const double *shares, uint32_t count, double *out,
			struct weir_arena *arena, struct weir_error *err);

#endif
