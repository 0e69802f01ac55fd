/* decimal: 256-bit integers, as far as decimals need them. Decimals of 128 bits are __int128 in their hot loops; this
 * is for the wide ones, and for parsing, printing and rescaling.
 *
 * Little endian two's complement, the same bytes as in Arrow.
 */
#ifndef WEIR_ARROW_DECIMAL_H
#define WEIR_ARROW_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_DECIMAL128_PRECISION_MAX 38
#define WEIR_DECIMAL256_PRECISION_MAX 76

struct weir_int256 {
	uint64_t words[4];
};

static inline bool weir_int256_negative(const struct weir_int256 *a)
{
	return a->words[3] >> 63;
}

struct weir_int256 weir_int256_from(__int128 value);
bool weir_int256_to_int128(const struct weir_int256 *a, __int128 *out);                /* false: does not fit */
struct weir_int256 weir_int256_load(const void *bytes, uint32_t byte_width);           /* 16 or 32 */
bool weir_int256_store(const struct weir_int256 *a, void *bytes, uint32_t byte_width); /* false: does not fit */
struct weir_int256 weir_int256_negate(const struct weir_int256 *a);
/* True when the result does not fit. */
bool weir_int256_add(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out);
bool weir_int256_sub(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out);
bool weir_int256_mul(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out);
/* b ≠ 0. The quotient rounded down, as in Python: the rest has b's sign. True when the quotient does not fit. */
bool weir_int256_divide(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *quotient,
			struct weir_int256 *rest);
int weir_int256_compare(const struct weir_int256 *a, const struct weir_int256 *b);
/* |a| < 10^precision */
bool weir_int256_fits(const struct weir_int256 *a, int32_t precision);

/* Value × 10^(scale_to − scale_from). Losing digits: false unless `rounds` (half away from zero). False on overflow. */
bool weir_decimal_rescale(const struct weir_int256 *a, int32_t scale_from, int32_t scale_to, bool rounds,
			  struct weir_int256 *out);
/* Toward minus (direction −1) or plus infinity (+1) at scale 0, result at scale 0. */
struct weir_int256 weir_decimal_to_whole(const struct weir_int256 *a, int32_t scale, int direction);

double weir_decimal_to_double(const struct weir_int256 *a, int32_t scale);
/* The sum of `count` decimals by their number: of equal ones, what weir_decimal_to_double says of one. */
double weir_decimal_mean(const struct weir_int256 *sum, int32_t scale, uint64_t count);
/* The nearest decimal of that scale; false: not finite or does not fit `precision`. */
bool weir_decimal_from_double(double value, int32_t precision, int32_t scale, struct weir_int256 *out);
/* False: not a number, digits past the scale, or more than `precision` of them. */
bool weir_decimal_parse(const char *text, size_t size, int32_t precision, int32_t scale, struct weir_int256 *out);
/* Into at least 96 bytes; returns the size. */
size_t weir_decimal_format(const struct weir_int256 *a, int32_t scale, char *buffer);

static const __int128 weir_int128_max = ~((__int128)1 << 127);
__int128 weir_int128_pow10(int32_t exponent); /* 0 … 38 */

#endif
