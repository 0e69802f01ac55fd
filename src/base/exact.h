/* exact: sums of doubles without any rounding, so that the order of adding, and how many add, does not matter.
 *
 * A sum is a number of fixed point, wide enough for every double: digit i stands for digits[i] × 2^(32 i − 1074). A
 * double's 53 bits, shifted to their place, fall into two neighbouring digits. Digits are 64 bits wide and may be
 * negative, so that many values are added before carries are settled.
 *
 *     digits[67] … digits[i + 1]  digits[i] … digits[0]
 *                  └─ 52 bits ──┘└ 32 bits ┘              of one value
 */
#ifndef WEIR_BASE_EXACT_H
#define WEIR_BASE_EXACT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	WEIR_EXACT_DIGITS = 68,
	WEIR_EXACT_ADDS_MAX = 1024, /* each adds less than 2^52 to a digit */
	WEIR_EXACT_SQUARE_DIGITS = 136,
	WEIR_EXACT_SQUARE_ADDS_MAX = 1 << 30, /* less than 2^32 */
};

/* All-zero is the sum of nothing. */
struct weir_exact {
	int64_t digits[WEIR_EXACT_DIGITS];
	uint32_t adds;
	bool has_nan, has_plus, has_minus; /* NaN, +inf, −inf were added */
};

#if defined(__SIZEOF_FLOAT128__)
typedef __float128 weir_wide_float;
#else
typedef long double weir_wide_float;
#endif

void weir_exact_settle(struct weir_exact *sum);

static inline void weir_exact_add(struct weir_exact *sum, double value)
{
	uint64_t bits, mantissa;
	uint32_t exponent, place;
	unsigned __int128 wide;
	int64_t low, high;

	memcpy(&bits, &value, sizeof(bits));
	exponent = (uint32_t)(bits >> 52) & 0x7ff;
	mantissa = bits & (((uint64_t)1 << 52) - 1);
	if (__builtin_expect(exponent == 0x7ff, 0)) {
		sum->has_nan |= mantissa != 0;
		sum->has_plus |= mantissa == 0 && !(bits >> 63);
		sum->has_minus |= mantissa == 0 && bits >> 63;
		return;
	}
	if (exponent) {
		mantissa |= (uint64_t)1 << 52;
		exponent--;
	}
	place = exponent >> 5;
	wide = (unsigned __int128)mantissa << (exponent & 31);
	low = (int64_t)(uint32_t)wide;
	high = (int64_t)(wide >> 32);
	sum->digits[place] += bits >> 63 ? -low : low;
	sum->digits[place + 1] += bits >> 63 ? -high : high;
	if (++sum->adds == WEIR_EXACT_ADDS_MAX)
		weir_exact_settle(sum);
}

/* The same as adding one after the other, sooner. */
void weir_exact_add_many(struct weir_exact *sum, const double *values, uint32_t count);
/* count × 2^1024, one beyond the greatest double. */
void weir_exact_add_beyond(struct weir_exact *sum, int64_t count);

/* The sum of squares, in the same way: a square has 106 bits and twice the exponent, digits[i] stands for 2^(32 i −
 * 2148). NaN and infinities are left out. */
struct weir_exact_squares {
	uint64_t digits[WEIR_EXACT_SQUARE_DIGITS];
	uint32_t adds;
};

void weir_exact_squares_settle(struct weir_exact_squares *sum);

static inline void weir_exact_squares_add(struct weir_exact_squares *sum, double value)
{
	uint64_t bits, mantissa, *digits;
	uint32_t exponent, shift;
	unsigned __int128 square;

	memcpy(&bits, &value, sizeof(bits));
	exponent = (uint32_t)(bits >> 52) & 0x7ff;
	mantissa = bits & (((uint64_t)1 << 52) - 1);
	if (__builtin_expect(exponent == 0x7ff, 0))
		return;
	if (exponent) {
		mantissa |= (uint64_t)1 << 52;
		exponent--;
	}
	digits = &sum->digits[2 * exponent >> 5];
	shift = 2 * exponent & 31;
	square = (unsigned __int128)mantissa * mantissa;
	digits[4] += (uint64_t)(square >> 64 >> (64 - shift)); /* shift is even and below 32 */
	square <<= shift;
	for (uint32_t i = 0; i < 4; i++)
		digits[i] += (uint32_t)(square >> (32 * i));
	if (++sum->adds == WEIR_EXACT_SQUARE_ADDS_MAX)
		weir_exact_squares_settle(sum);
}

void weir_exact_squares_merge(struct weir_exact_squares *to, const struct weir_exact_squares *from);

void weir_exact_merge(struct weir_exact *to, const struct weir_exact *from);
/* The double nearest to the sum; NaN and infinities as IEEE adds them. */
double weir_exact_value(const struct weir_exact *sum);
/* The same with more bits. */
weir_wide_float weir_exact_wide(const struct weir_exact *sum);
/* count × squares − sum², rounded once: what `count` values differ by, however far from zero they are. NaN where one is
 * not finite. */
weir_wide_float weir_exact_spread(const struct weir_exact *sum, const struct weir_exact_squares *squares,
				  uint64_t count);

#endif
