#include "base/exact.h"
#include "base/cpu.h"
#include "base/kernels_exact.h"

#include <math.h>

WEIR_KERNEL_DECLARE(struct weir_exact_kernels, weir_exact_kernels);

void weir_exact_settle(struct weir_exact *sum)
{
	int64_t carry = 0;

	for (uint32_t i = 0; i + 1 < WEIR_EXACT_DIGITS; i++) {
		int64_t digit = sum->digits[i] + carry;

		carry = digit >> 32;
		sum->digits[i] = digit & 0xffffffff;
	}
	sum->digits[WEIR_EXACT_DIGITS - 1] += carry; /* the sign is here */
	sum->adds = 0;
}

/* total × 2^(place − 1074) */
static void add_wide(struct weir_exact *sum, __int128 total, uint32_t place)
{
	unsigned __int128 rest = (unsigned __int128)(total < 0 ? -total : total);
	int64_t *digit = &sum->digits[place >> 5], sign = total < 0 ? -1 : 1;
	uint32_t shift = place & 31;

	*digit++ += sign * (int64_t)(uint32_t)((uint64_t)(uint32_t)rest << shift);
	for (rest >>= 32 - shift; rest; rest >>= 32)
		*digit++ += sign * (int64_t)(uint32_t)rest;
	if (++sum->adds == WEIR_EXACT_ADDS_MAX)
		weir_exact_settle(sum);
}

/* Many values at once: of a value that is added to a power of two 2^s, greater by far, only what is a multiple of 2^(s
 * − 53) is left in the sum; what that rounded away is a double itself. So a layer of digits is taken off all values by
 * additions alone, each exact, and the layers' sums are exact, too, since MANY_MAX values carry into LAYER_ROOM bits at
 * most:
 *
 *     value   ├──────────── 53 bits, anywhere ────────────┤
 *     2^s  ├─ LAYER_ROOM ─┼─ first layer ─┼─ second layer ─┼─ …      each 53 − LAYER_ROOM bits
 *
 * Two layers are all of most columns. */
enum { MANY_MAX = 1024, FEW_MAX = 16, LAYER_ROOM = 12, PASSES_MAX = 3, EXPONENT_MAX = 2046 - LAYER_ROOM };

static void add_one_by_one(struct weir_exact *sum, const double *values, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		weir_exact_add(sum, values[i]);
}

static void add_some(struct weir_exact *sum, const double *values, uint32_t count)
{
	const struct weir_exact_kernels *kernels = WEIR_KERNEL_CHOOSE(weir_exact_kernels);
	uint32_t padded = (count + WEIR_EXACT_LANES - 1) / WEIR_EXACT_LANES * WEIR_EXACT_LANES;
	double rest[MANY_MAX], high, sums[2];
	uint64_t bits;
	bool is_left = true;

	memcpy(rest, values, count * sizeof(*rest));
	memset(rest + count, 0, (padded - count) * sizeof(*rest));
	bits = kernels->greatest(rest, padded) >> 52;
	if (bits > EXPONENT_MAX || count <= FEW_MAX) {
		add_one_by_one(sum, values, count);
		return;
	}
	bits = (bits + LAYER_ROOM) << 52;
	memcpy(&high, &bits, sizeof(high));
	for (uint32_t pass = 0; is_left && pass < PASSES_MAX; pass++) {
		double low = high * 0x1p-41;

		is_left = kernels->take(rest, padded, high, low, sums);
		add_one_by_one(sum, sums, 2);
		high = low * 0x1p-41;
	}
	if (is_left)
		add_one_by_one(sum, rest, count);
}

void weir_exact_add_many(struct weir_exact *sum, const double *values, uint32_t count)
{
	for (uint32_t at = 0; at < count; at += MANY_MAX)
		add_some(sum, values + at, count - at < MANY_MAX ? count - at : MANY_MAX);
}

void weir_exact_add_beyond(struct weir_exact *sum, int64_t count)
{
	add_wide(sum, count, 1074 + 1024);
}

void weir_exact_merge(struct weir_exact *to, const struct weir_exact *from)
{
	struct weir_exact settled = *from;

	weir_exact_settle(&settled);
	weir_exact_settle(to);
	for (uint32_t i = 0; i < WEIR_EXACT_DIGITS; i++)
		to->digits[i] += settled.digits[i];
	weir_exact_settle(to);
	to->has_nan |= from->has_nan;
	to->has_plus |= from->has_plus;
	to->has_minus |= from->has_minus;
}

/* The sum without its sign, settled: no digit is negative. */
static bool magnitude(const struct weir_exact *sum, struct weir_exact *out)
{
	bool is_negative;

	*out = *sum;
	weir_exact_settle(out);
	is_negative = out->digits[WEIR_EXACT_DIGITS - 1] < 0;
	for (uint32_t i = 0; is_negative && i < WEIR_EXACT_DIGITS; i++)
		out->digits[i] = -out->digits[i];
	weir_exact_settle(out);
	return is_negative;
}

static bool is_special(const struct weir_exact *sum, double *out)
{
	if (!sum->has_nan && !sum->has_plus && !sum->has_minus)
		return false;
	*out = sum->has_nan || (sum->has_plus && sum->has_minus) ? (double)NAN
	       : sum->has_plus                                   ? (double)INFINITY
								 : -(double)INFINITY;
	return true;
}

double weir_exact_value(const struct weir_exact *sum)
{
	struct weir_exact settled;
	unsigned __int128 top = 0;
	bool is_negative, rest = false;
	int32_t at = WEIR_EXACT_DIGITS - 1;
	double value;

	if (is_special(sum, &value))
		return value;
	is_negative = magnitude(sum, &settled);
	while (at > 2 && !settled.digits[at])
		at--;
	/* Three digits have more bits than a double; what is below them only decides halves. */
	for (int32_t i = at; i >= at - 2; i--)
		top = top << 32 | (uint64_t)settled.digits[i];
	for (int32_t i = 0; i < at - 2; i++)
		rest |= settled.digits[i] != 0;
	value = ldexp((double)(top | rest), 32 * (at - 2) - 1074);
	return is_negative ? -value : value;
}

weir_wide_float weir_exact_wide(const struct weir_exact *sum)
{
	struct weir_exact settled;
	weir_wide_float value = 0;
	double special;
	bool is_negative;

	if (is_special(sum, &special))
		return special;
	is_negative = magnitude(sum, &settled);
	for (uint32_t i = WEIR_EXACT_DIGITS; i-- > 0;)
		value = value * 0x1p32 + (weir_wide_float)settled.digits[i];
	value *= 0x1p-1074;
	return is_negative ? -value : value;
}

void weir_exact_squares_settle(struct weir_exact_squares *sum)
{
	uint64_t carry = 0;

	for (uint32_t i = 0; i < WEIR_EXACT_SQUARE_DIGITS; i++) {
		uint64_t digit = sum->digits[i] + carry;

		carry = digit >> 32;
		sum->digits[i] = digit & 0xffffffff;
	}
	sum->adds = 0; /* 2^64 of the largest squares leave the last digit empty */
}

void weir_exact_squares_merge(struct weir_exact_squares *to, const struct weir_exact_squares *from)
{
	struct weir_exact_squares settled = *from;

	weir_exact_squares_settle(&settled);
	weir_exact_squares_settle(to);
	for (uint32_t i = 0; i < WEIR_EXACT_SQUARE_DIGITS; i++)
		to->digits[i] += settled.digits[i];
	weir_exact_squares_settle(to);
}

/* Digits of count × squares, and as many of sum². */
enum { SPREAD_DIGITS = WEIR_EXACT_SQUARE_DIGITS + 2 };

static void times(const struct weir_exact_squares *squares, uint64_t count, uint64_t *out)
{
	unsigned __int128 carry = 0;

	for (uint32_t i = 0; i < SPREAD_DIGITS; i++) {
		if (i < WEIR_EXACT_SQUARE_DIGITS)
			carry += (unsigned __int128)squares->digits[i] * count;
		out[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static void square(const struct weir_exact *sum, uint64_t *out)
{
	memset(out, 0, SPREAD_DIGITS * sizeof(*out));
	for (uint32_t i = 0; i < WEIR_EXACT_DIGITS; i++) {
		uint64_t carry = 0;

		if (!sum->digits[i])
			continue;
		for (uint32_t j = 0; j < WEIR_EXACT_DIGITS || carry; j++) {
			carry += out[i + j] +
				 (j < WEIR_EXACT_DIGITS ? (uint64_t)sum->digits[i] * (uint64_t)sum->digits[j] : 0);
			out[i + j] = (uint32_t)carry;
			carry >>= 32;
		}
	}
}

weir_wide_float weir_exact_spread(const struct weir_exact *sum, const struct weir_exact_squares *squares,
				  uint64_t count)
{
	uint64_t product[SPREAD_DIGITS], sum_squared[SPREAD_DIGITS];
	struct weir_exact_squares settled = *squares;
	struct weir_exact positive;
	weir_wide_float value = 0;
	double special;
	int64_t borrow = 0;

	if (is_special(sum, &special))
		return (weir_wide_float)NAN;
	magnitude(sum, &positive);
	weir_exact_squares_settle(&settled);
	times(&settled, count, product);
	square(&positive, sum_squared);
	for (uint32_t i = 0; i < SPREAD_DIGITS; i++) {
		borrow += (int64_t)product[i] - (int64_t)sum_squared[i];
		product[i] = (uint32_t)borrow;
		borrow >>= 32;
	}
	for (uint32_t i = SPREAD_DIGITS; i-- > 0;)
		value = value * 0x1p32 + (weir_wide_float)product[i];
	return value * 0x1p-1074 * 0x1p-1074;
}
