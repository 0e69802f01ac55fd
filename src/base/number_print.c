/* Numbers to text. A double's shortest digits are found as in Giulietti, "The Schubfach way to render doubles" (2020):
 * the values that read back as v fill an interval around it; of the multiples of the largest 10^k that is not wider
 * than the interval at most two need looking at, of 10^(k+1) also two, and products with 128 bits of a power of ten,
 * rounded to odd, tell exactly which lie inside. The one with fewer digits wins, among equals the nearer to v.
 *
 *        lower                v                  upper        4 c − 2 │ 4 c │ 4 c + 2, scaled by a power of ten
 *     ─────┼───────┬──────────┼───────┬────────────┼───
 *                  s · 10^k           (s + 1) · 10^k
 */
#include "base/number_impl.h"

#include <math.h>
#include <stdlib.h>

struct shortest {
	uint64_t digits;
	int32_t exponent; /* value = digits · 10^exponent */
};

/* The leading 64 bits of a product of 192, the lowest set when anything is left out that could matter. */
static inline uint64_t round_to_odd(uint64_t ten_high, uint64_t ten_low, uint64_t value)
{
	uint64_t high, middle, carry;

	weir_mul128(ten_low, value, &carry);
	middle = weir_mul128(ten_high, value, &high);
	middle += carry;
	high += middle < carry;
	return high | (middle > 1);
}

static inline uint32_t round_to_odd_32(uint64_t ten, uint32_t value)
{
	unsigned __int128 product = (unsigned __int128)ten * value;

	return (uint32_t)(product >> 64) | ((uint32_t)(product >> 32) > 1);
}

/* floor(log10(2^q)), or of 3/4 · 2^q where the neighbour below is nearer. */
static inline int32_t decimal_exponent(int32_t q, bool nearer)
{
	return (int32_t)(((int64_t)q * 1262611 - (nearer ? 524031 : 0)) >> 22);
}

/* v, lower and upper in fourths of 10^exponent; an end belongs to the interval when `closed`. */
static inline struct shortest choose(uint64_t lower, uint64_t v, uint64_t upper, bool closed, int32_t exponent)
{
	uint64_t s = v / 4;
	bool below, above;

	lower += !closed;
	upper -= !closed;
	if (s >= 10) {
		uint64_t tenth = s / 10;

		below = lower <= 40 * tenth;
		above = 40 * tenth + 40 <= upper;
		if (below != above)
			return (struct shortest){tenth + above, exponent + 1};
	}
	below = lower <= 4 * s;
	above = 4 * s + 4 <= upper;
	if (below == above)
		above = v > 4 * s + 2 || (v == 4 * s + 2 && (s & 1));
	return (struct shortest){s + above, exponent};
}

/* Of a finite double that is not 0. */
static struct shortest shortest_double(uint64_t bits)
{
	uint64_t fraction = bits & (((uint64_t)1 << 52) - 1), c, high, low;
	int32_t biased = (int32_t)(bits >> 52 & 0x7ff), q, k, shift;
	bool nearer = !fraction && biased > 1;
	const struct weir_pow10 *ten;

	c = biased ? fraction | (uint64_t)1 << 52 : fraction;
	q = (biased ? biased : 1) - 1075;
	k = decimal_exponent(q, nearer);
	shift = q + weir_log2_pow10(-k) + 1;
	ten = weir_pow10(-k);
	low = ten->low + !weir_pow10_is_exact(-k); /* the algorithm wants it rounded up */
	high = ten->high + (low < ten->low);
	return choose(round_to_odd(high, low, (4 * c - 2 + nearer) << shift), round_to_odd(high, low, 4 * c << shift),
		      round_to_odd(high, low, (4 * c + 2) << shift), !(c & 1), k);
}

static struct shortest shortest_float(uint32_t bits)
{
	uint32_t fraction = bits & 0x7fffff, c;
	int32_t biased = (int32_t)(bits >> 23 & 0xff), q, k, shift;
	bool nearer = !fraction && biased > 1;
	const struct weir_pow10 *ten;
	uint64_t high;

	c = biased ? fraction | 1u << 23 : fraction;
	q = (biased ? biased : 1) - 150;
	k = decimal_exponent(q, nearer);
	shift = q + weir_log2_pow10(-k) + 1;
	ten = weir_pow10(-k);
	high = ten->high + (ten->low || !weir_pow10_is_exact(-k));
	return choose(round_to_odd_32(high, (4 * c - 2 + nearer) << shift), round_to_odd_32(high, 4 * c << shift),
		      round_to_odd_32(high, (4 * c + 2) << shift), !(c & 1), k);
}

/* ---- digits ---- */

static const char pairs[201] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445"
	"46474849505152535455565758596061626364656667686970717273747576777879808182838485868788899091"
	"9293949596979899";

static inline void put2(uint32_t value, char *out)
{
	memcpy(out, pairs + value * 2, 2);
}

static inline void put4(uint32_t value, char *out)
{
	put2(value / 100, out);
	put2(value % 100, out + 2);
}

static inline void put8(uint32_t value, char *out)
{
	put4(value / 10000, out);
	put4(value % 10000, out + 4);
}

static uint32_t digit_count(uint64_t value)
{
	static const uint64_t powers[20] = {0,
					    10,
					    100,
					    1000,
					    10000,
					    100000,
					    1000000,
					    10000000,
					    100000000,
					    1000000000,
					    10000000000,
					    100000000000,
					    1000000000000,
					    10000000000000,
					    100000000000000,
					    1000000000000000,
					    10000000000000000,
					    100000000000000000,
					    1000000000000000000,
					    10000000000000000000u};
	/* 1233 / 4096 is a little less than log10(2). */
	uint32_t guess = (uint32_t)(64 - __builtin_clzll(value | 1)) * 1233 >> 12;

	return guess + (value >= powers[guess]);
}

void weir_format_padded(uint64_t value, uint32_t width, char *out)
{
	while (width >= 8) {
		width -= 8;
		put8((uint32_t)(value % 100000000), out + width);
		value /= 100000000;
	}
	uint32_t rest = (uint32_t)value;

	if (width >= 4) {
		width -= 4;
		put4(rest % 10000, out + width);
		rest /= 10000;
	}
	if (width >= 2) {
		width -= 2;
		put2(rest % 100, out + width);
		rest /= 100;
	}
	if (width)
		*out = (char)('0' + rest % 10);
}

size_t weir_format_u64(uint64_t value, char *out)
{
	uint32_t count;

	if (value < 10) {
		*out = (char)('0' + value);
		return 1;
	}
	if (value < 100) {
		put2((uint32_t)value, out);
		return 2;
	}
	count = digit_count(value);
	weir_format_padded(value, count, out);
	return count;
}

size_t weir_format_i64(int64_t value, char *out)
{
	bool negative = value < 0;

	*out = '-';
	return negative + weir_format_u64(negative ? -(uint64_t)value : (uint64_t)value, out + negative);
}

/* ---- the layout of repr() ---- */

static struct shortest without_zeros(struct shortest s)
{
	static const uint32_t powers[] = {100000000, 10000, 100, 10};
	static const int32_t exponents[] = {8, 4, 2, 1};

	if (s.digits % 10)
		return s;
	for (int i = 0; i < 4; i++) {
		while (s.digits % powers[i] == 0) {
			s.digits /= powers[i];
			s.exponent += exponents[i];
		}
	}
	return s;
}

/* Digits with a point behind the first `point` of them, of which there are more. */
static size_t put_pointed(uint64_t digits, int32_t count, int32_t point, char *out)
{
	weir_format_padded(digits, (uint32_t)count, out + 1);
	memmove(out, out + 1, (size_t)point);
	out[point] = '.';
	return (size_t)count + 1;
}

/* Digits behind "0." and at most six zeros. */
static size_t put_fraction(uint64_t digits, int32_t count, int32_t zeros, char *out)
{
	memcpy(out, "0.000000", 8);
	weir_format_padded(digits, (uint32_t)count, out + 2 + zeros);
	return (size_t)(2 + zeros + count);
}

/* Digits with a point behind the first one, if there are more, and the exponent's letter and sign. */
static size_t put_mantissa(uint64_t digits, int32_t count, bool is_small, char *out)
{
	size_t size = count > 1 ? (size_t)count + 1 : 1;

	weir_format_padded(digits, (uint32_t)count, out + 1);
	out[0] = out[1];
	if (count > 1)
		out[1] = '.';
	out[size] = 'e';
	out[size + 1] = is_small ? '-' : '+';
	return size + 2;
}

/* A point from 1e-4 to below 1e16, an exponent of at least two digits elsewhere. */
static size_t layout(struct shortest s, char *out)
{
	int32_t count = (int32_t)digit_count(s.digits), point = count + s.exponent; /* digits before the point */
	uint32_t exponent;
	size_t size;

	if (point > 0 && point <= 16) {
		if (s.exponent < 0)
			return put_pointed(s.digits, count, point, out);
		weir_format_padded(s.digits, (uint32_t)count, out);
		memset(out + count, '0', 16);
		out[point] = '.';
		out[point + 1] = '0';
		return (size_t)point + 2;
	}
	if (point <= 0 && point > -4)
		return put_fraction(s.digits, count, -point, out);
	size = put_mantissa(s.digits, count, point < 1, out);
	exponent = (uint32_t)abs(point - 1);
	if (exponent >= 100)
		out[size++] = (char)('0' + exponent / 100);
	put2(exponent % 100, out + size);
	return size + 2;
}

/* As above without what can be left out: a point from 1e-6 to below 1e10, but none behind whole numbers. */
static size_t layout_bare(struct shortest s, char *out)
{
	int32_t count = (int32_t)digit_count(s.digits), point = count + s.exponent;
	size_t size;

	if (point > 0 && point <= 10) {
		if (s.exponent < 0)
			return put_pointed(s.digits, count, point, out);
		weir_format_padded(s.digits, (uint32_t)count, out);
		memset(out + count, '0', 16);
		return (size_t)point;
	}
	if (point <= 0 && point > -6)
		return put_fraction(s.digits, count, -point, out);
	size = put_mantissa(s.digits, count, point < 1, out);
	return size + weir_format_u64((uint64_t)abs(point - 1), out + size);
}

/* What has no digits to look for: `zero` with its sign, infinities, NaN; 0: it is another number. */
static size_t format_special(double value, const char *zero, char *out)
{
	bool negative = signbit(value);
	size_t size = 3;

	if (isnan(value)) {
		memcpy(out, "nan", 3);
		return size;
	}
	if (isfinite(value) && value != 0)
		return 0;
	*out = '-';
	if (value == 0)
		size = strlen(zero);
	memcpy(out + negative, value == 0 ? zero : "inf", size);
	return negative + size;
}

/* A number of at most six decimals and fifteen digits, as prices and measures are; 0: it is none. Two different numbers
 * of fifteen digits are never the same double, so when this one reads back as v, and exact integers divided round as
 * reading does, it has v's shortest digits. */
static size_t format_short(double value, char *out)
{
	uint64_t scaled, whole;
	uint32_t rest, zeros;
	size_t size;
	uint64_t word;

	if (!(value >= 1e-4 && value < 1e9))
		return 0;
	scaled = (uint64_t)(value * 1e6 + 0.5);
	if ((double)scaled / 1e6 != value)
		return 0;
	whole = scaled / 1000000;
	rest = (uint32_t)(scaled % 1000000);
	size = weir_format_u64(whole, out);
	out[size] = '.';
	put2(rest / 10000, out + size + 1);
	put4(rest % 10000, out + size + 3);
	/* The first decimal stays, zero or not; of the others the zeros at the end go. */
	memcpy(&word, out + size - 1, 8);
	word = word >> 24 ^ 0x3030303030;
	zeros = word ? (uint32_t)__builtin_clzll(word) / 8 - 3 : 5;
	return size + 7 - zeros;
}

size_t weir_format_double(double value, char *out)
{
	size_t size = format_special(value, "0.0", out);
	bool negative = signbit(value);
	uint64_t bits;

	if (size)
		return size;
	*out = '-';
	out += negative;
	size = format_short(fabs(value), out);
	if (size)
		return negative + size;
	memcpy(&bits, &value, 8);
	return negative + layout(without_zeros(shortest_double(bits)), out);
}

size_t weir_format_float(float value, char *out)
{
	size_t size = format_special(value, "0.0", out);
	bool negative = signbit(value);
	uint32_t bits;

	if (size)
		return size;
	*out = '-';
	memcpy(&bits, &value, 4);
	return negative + layout(without_zeros(shortest_float(bits)), out + negative);
}

size_t weir_format_double_bare(double value, char *out)
{
	size_t size = format_special(value, "0", out);
	bool negative = signbit(value);
	uint64_t bits;

	if (size)
		return size;
	*out = '-';
	out += negative;
	size = format_short(fabs(value), out);
	if (size)
		return negative + (memcmp(out + size - 2, ".0", 2) == 0 ? size - 2 : size);
	memcpy(&bits, &value, 8);
	return negative + layout_bare(without_zeros(shortest_double(bits)), out);
}

size_t weir_format_float_bare(float value, char *out)
{
	size_t size = format_special(value, "0", out);
	bool negative = signbit(value);
	uint32_t bits;

	if (size)
		return size;
	*out = '-';
	memcpy(&bits, &value, 4);
	return negative + layout_bare(without_zeros(shortest_float(bits)), out + negative);
}
