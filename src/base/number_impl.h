/* What reading and printing of numbers share: powers of ten, and products of 128 bits. */
#ifndef WEIR_BASE_NUMBER_IMPL_H
#define WEIR_BASE_NUMBER_IMPL_H

#include "base/number.h"

enum { WEIR_POW10_FIRST = -342, WEIR_POW10_LAST = 324 };

/* The 128 leading bits of 10^e (its highest bit is set), cut off; e in 0 … 55 loses nothing. */
struct weir_pow10 {
	uint64_t high, low;
};

extern const struct weir_pow10 weir_pow10_table[WEIR_POW10_LAST - WEIR_POW10_FIRST + 1];

static inline const struct weir_pow10 *weir_pow10(int32_t exponent)
{
	return &weir_pow10_table[exponent - WEIR_POW10_FIRST];
}

static inline bool weir_pow10_is_exact(int32_t exponent)
{
	return exponent >= 0 && exponent <= 55;
}

/* floor(log2(10^e)), for |e| < 1650. */
static inline int32_t weir_log2_pow10(int32_t e)
{
	return (int32_t)((int64_t)e * 1741647 >> 19);
}

static inline uint64_t weir_mul128(uint64_t a, uint64_t b, uint64_t *high)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	*high = (uint64_t)(product >> 64);
	return (uint64_t)product;
}

#endif
