/* Long arithmetic by words of 64 bits; division only by powers of ten, nineteen digits at a time. */
#include "arrow/decimal.h"

#include "base/exact.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP_DIGITS = 19 };

static uint64_t pow10_u64(int32_t exponent)
{
	uint64_t value = 1;

	while (exponent-- > 0)
		value *= 10;
	return value;
}

__int128 weir_int128_pow10(int32_t exponent)
{
	if (exponent <= STEP_DIGITS)
		return (__int128)pow10_u64(exponent);
	return (__int128)pow10_u64(STEP_DIGITS) * (__int128)pow10_u64(exponent - STEP_DIGITS);
}

struct weir_int256 weir_int256_from(__int128 value)
{
	uint64_t sign = value < 0 ? UINT64_MAX : 0;

	return (struct weir_int256){{(uint64_t)value, (uint64_t)((unsigned __int128)value >> 64), sign, sign}};
}

bool weir_int256_to_int128(const struct weir_int256 *a, __int128 *out)
{
	uint64_t sign = a->words[1] >> 63 ? UINT64_MAX : 0;

	*out = (__int128)((unsigned __int128)a->words[1] << 64 | a->words[0]);
	return a->words[2] == sign && a->words[3] == sign;
}

struct weir_int256 weir_int256_load(const void *bytes, uint32_t byte_width)
{
	struct weir_int256 out;
	__int128 narrow;

	if (byte_width == 16) {
		memcpy(&narrow, bytes, 16);
		return weir_int256_from(narrow);
	}
	memcpy(&out, bytes, 32);
	return out;
}

bool weir_int256_store(const struct weir_int256 *a, void *bytes, uint32_t byte_width)
{
	__int128 narrow;
	bool fits;

	if (byte_width == 16) {
		fits = weir_int256_to_int128(a, &narrow);
		memcpy(bytes, &narrow, 16);
		return fits;
	}
	memcpy(bytes, a, 32);
	return true;
}

struct weir_int256 weir_int256_negate(const struct weir_int256 *a)
{
	struct weir_int256 out;
	uint64_t carry = 1;

	for (int i = 0; i < 4; i++) {
		out.words[i] = ~a->words[i] + carry;
		carry = carry && !out.words[i];
	}
	return out;
}

bool weir_int256_add(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out)
{
	bool negative_a = weir_int256_negative(a), negative_b = weir_int256_negative(b);
	struct weir_int256 sum;
	uint64_t carry = 0;

	for (int i = 0; i < 4; i++) {
		unsigned __int128 word = (unsigned __int128)a->words[i] + b->words[i] + carry;

		sum.words[i] = (uint64_t)word;
		carry = (uint64_t)(word >> 64);
	}
	*out = sum;
	return negative_a == negative_b && weir_int256_negative(&sum) != negative_a;
}

bool weir_int256_sub(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out)
{
	struct weir_int256 negated = weir_int256_negate(b);
	bool negative_a = weir_int256_negative(a), negative_b = weir_int256_negative(b);

	weir_int256_add(a, &negated, out);
	return negative_a != negative_b && weir_int256_negative(out) != negative_a;
}

static struct weir_int256 magnitude(const struct weir_int256 *a)
{
	return weir_int256_negative(a) ? weir_int256_negate(a) : *a;
}

bool weir_int256_mul(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *out)
{
	bool negative = weir_int256_negative(a) != weir_int256_negative(b), lost = false;
	struct weir_int256 x = magnitude(a), y = magnitude(b), product = {{0}};

	for (int i = 0; i < 4; i++) {
		uint64_t carry = 0;

		for (int j = 0; j < 4; j++) {
			if (i + j >= 4) {
				lost |= (x.words[i] && y.words[j]) || carry;
				carry = 0;
				continue;
			}
			unsigned __int128 word = (unsigned __int128)x.words[i] * y.words[j] + product.words[i + j] +
						 carry;
			product.words[i + j] = (uint64_t)word;
			carry = (uint64_t)(word >> 64);
		}
		lost |= carry != 0;
	}
	lost |= weir_int256_negative(&product);
	*out = negative ? weir_int256_negate(&product) : product;
	return lost;
}

static bool is_zero(const struct weir_int256 *a)
{
	return !(a->words[0] | a->words[1] | a->words[2] | a->words[3]);
}

/* Of magnitudes below 2^255, bit by bit where a word of 128 does not hold both. */
static void divide_magnitudes(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *quotient,
			      struct weir_int256 *rest)
{
	*quotient = *rest = (struct weir_int256){{0}};
	if (!(a->words[2] | a->words[3] | b->words[2] | b->words[3])) {
		unsigned __int128 x = (unsigned __int128)a->words[1] << 64 | a->words[0];
		unsigned __int128 y = (unsigned __int128)b->words[1] << 64 | b->words[0], q = x / y, r = x % y;

		quotient->words[0] = (uint64_t)q;
		quotient->words[1] = (uint64_t)(q >> 64);
		rest->words[0] = (uint64_t)r;
		rest->words[1] = (uint64_t)(r >> 64);
		return;
	}
	for (int bit = 255; bit >= 0; bit--) {
		for (int i = 3; i > 0; i--)
			rest->words[i] = rest->words[i] << 1 | rest->words[i - 1] >> 63;
		rest->words[0] = rest->words[0] << 1 | (a->words[bit / 64] >> bit % 64 & 1);
		if (weir_int256_compare(rest, b) >= 0) {
			weir_int256_sub(rest, b, rest);
			quotient->words[bit / 64] |= (uint64_t)1 << bit % 64;
		}
	}
}

bool weir_int256_divide(const struct weir_int256 *a, const struct weir_int256 *b, struct weir_int256 *quotient,
			struct weir_int256 *rest)
{
	static const struct weir_int256 one = {{1}};
	bool negative_a = weir_int256_negative(a), negative_b = weir_int256_negative(b);
	struct weir_int256 x = magnitude(a), y = magnitude(b);
	bool lost = weir_int256_negative(&x) || weir_int256_negative(&y); /* −2^255 is its own magnitude */

	divide_magnitudes(&x, &y, quotient, rest);
	if (negative_a)
		*rest = weir_int256_negate(rest);
	if (negative_a != negative_b) {
		*quotient = weir_int256_negate(quotient);
		if (!is_zero(rest)) {
			weir_int256_sub(quotient, &one, quotient);
			weir_int256_add(rest, b, rest);
		}
	}
	return lost;
}

int weir_int256_compare(const struct weir_int256 *a, const struct weir_int256 *b)
{
	int64_t high_a = (int64_t)a->words[3], high_b = (int64_t)b->words[3];

	if (high_a != high_b)
		return high_a < high_b ? -1 : 1;
	for (int i = 2; i >= 0; i--) {
		if (a->words[i] != b->words[i])
			return a->words[i] < b->words[i] ? -1 : 1;
	}
	return 0;
}

/* a × 10^exponent; true when it does not fit. */
static bool mul_pow10(const struct weir_int256 *a, int32_t exponent, struct weir_int256 *out)
{
	bool lost = false;

	*out = *a;
	while (exponent > 0) {
		int32_t step = exponent < STEP_DIGITS ? exponent : STEP_DIGITS;
		struct weir_int256 power = weir_int256_from((__int128)pow10_u64(step));

		lost |= weir_int256_mul(out, &power, out);
		exponent -= step;
	}
	return lost;
}

/* Unsigned division in place; returns the remainder. */
static uint64_t div_small(struct weir_int256 *a, uint64_t divisor)
{
	uint64_t rest = 0;

	for (int i = 3; i >= 0; i--) {
		unsigned __int128 word = (unsigned __int128)rest << 64 | a->words[i];

		a->words[i] = (uint64_t)(word / divisor);
		rest = (uint64_t)(word % divisor);
	}
	return rest;
}

/* |a| / 10^exponent, cut off; true when something was cut. */
static bool div_pow10(struct weir_int256 *a, int32_t exponent)
{
	bool cut = false;

	while (exponent > 0) {
		int32_t step = exponent < STEP_DIGITS ? exponent : STEP_DIGITS;

		cut |= div_small(a, pow10_u64(step)) != 0;
		exponent -= step;
	}
	return cut;
}

bool weir_int256_fits(const struct weir_int256 *a, int32_t precision)
{
	struct weir_int256 limit, one = weir_int256_from(1), size = magnitude(a);

	if (mul_pow10(&one, precision, &limit))
		return true;
	return !weir_int256_negative(&size) && weir_int256_compare(&size, &limit) < 0;
}

bool weir_decimal_rescale(const struct weir_int256 *a, int32_t scale_from, int32_t scale_to, bool rounds,
			  struct weir_int256 *out)
{
	int32_t up = scale_to - scale_from;
	struct weir_int256 size, half, one = weir_int256_from(5);
	bool negative = weir_int256_negative(a);

	if (up >= 0)
		return !mul_pow10(a, up, out);
	size = magnitude(a);
	if (rounds && !mul_pow10(&one, -up - 1, &half))
		weir_int256_add(&size, &half, &size);
	if (div_pow10(&size, -up) && !rounds)
		return false;
	*out = negative ? weir_int256_negate(&size) : size;
	return true;
}

struct weir_int256 weir_decimal_to_whole(const struct weir_int256 *a, int32_t scale, int direction)
{
	struct weir_int256 size = magnitude(a), one = weir_int256_from(1);
	bool negative = weir_int256_negative(a);

	if (scale <= 0) {
		mul_pow10(a, -scale, &size);
		return size;
	}
	if (div_pow10(&size, scale) && negative == (direction < 0))
		weir_int256_add(&size, &one, &size);
	return negative ? weir_int256_negate(&size) : size;
}

double weir_decimal_to_double(const struct weir_int256 *a, int32_t scale)
{
	struct weir_int256 size = magnitude(a);
	double value = 0;
	char text[96];

	/* One rounding when both fit a double exactly, else by way of the digits, which are rounded once. */
	if (!size.words[3] && !size.words[2] && !size.words[1] && size.words[0] < (uint64_t)1 << 53 && scale >= 0 &&
	    scale <= 22) {
		value = (double)size.words[0] / weir_pow10_exact[scale];
		return weir_int256_negative(a) ? -value : value;
	}
	weir_parse_double(text, weir_decimal_format(a, scale, text), WEIR_NUMBER_PYTHON, &value);
	return value;
}

double weir_decimal_mean(const struct weir_int256 *sum, int32_t scale, uint64_t count)
{
	struct weir_int256 size = magnitude(sum);
	weir_wide_float value = 0, power = 1;

	for (uint32_t i = 4; i-- > 0;)
		value = value * 0x1p64 + (weir_wide_float)size.words[i];
	for (int32_t i = scale < 0 ? -scale : scale; i > 0; i--)
		power *= 10;
	value = (scale < 0 ? value * power : value / power) / count;
	return (double)(weir_int256_negative(sum) ? -value : value);
}

/* What printf writes between the digits is the locale's, of any number of bytes. */
static void use_point(char *text)
{
	char *point = text + (*text == '-'), *rest;

	point += strspn(point, "0123456789");
	rest = point + strcspn(point, "0123456789");
	if (rest > point) {
		*point = '.';
		memmove(point + 1, rest, strlen(rest) + 1);
	}
}

bool weir_decimal_from_double(double value, int32_t precision, int32_t scale, struct weir_int256 *out)
{
	char text[512];

	if (!isfinite(value) || fabs(value) >= 1e77)
		return false;
	snprintf(text, sizeof(text), "%.*f", scale > 0 ? scale : 0, value);
	use_point(text);
	if (scale >= 0)
		return weir_decimal_parse(text, strlen(text), precision, scale, out);
	if (!weir_decimal_parse(text, strlen(text), WEIR_DECIMAL256_PRECISION_MAX, 0, out))
		return false;
	return weir_decimal_rescale(out, 0, scale, true, out) && weir_int256_fits(out, precision);
}

bool weir_decimal_parse(const char *text, size_t size, int32_t precision, int32_t scale, struct weir_int256 *out)
{
	struct weir_int256 value = {{0}}, ten = weir_int256_from(10);
	size_t i = 0, digits = 0;
	bool negative = false, after_point = false;
	int32_t own_scale = 0;
	int64_t exponent = 0;

	if (i < size && (text[i] == '-' || text[i] == '+'))
		negative = text[i++] == '-';
	for (; i < size; i++) {
		if (text[i] == '.' && !after_point) {
			after_point = true;
			continue;
		}
		if (text[i] < '0' || text[i] > '9')
			break;
		struct weir_int256 digit = weir_int256_from(text[i] - '0');

		if (weir_int256_mul(&value, &ten, &value) || weir_int256_add(&value, &digit, &value))
			return false;
		digits++;
		own_scale += after_point;
	}
	if (!digits)
		return false;
	if (i < size && (text[i] == 'e' || text[i] == 'E')) {
		bool minus = false;
		size_t begin;

		i++;
		if (i < size && (text[i] == '-' || text[i] == '+'))
			minus = text[i++] == '-';
		for (begin = i; i < size && text[i] >= '0' && text[i] <= '9' && i - begin < 6; i++)
			exponent = exponent * 10 + (text[i] - '0');
		if (i == begin)
			return false;
		if (minus)
			exponent = -exponent;
	}
	if (i != size || exponent > 200 || exponent < -200)
		return false;
	if (negative)
		value = weir_int256_negate(&value);
	return weir_decimal_rescale(&value, own_scale - (int32_t)exponent, scale, false, out) &&
	       weir_int256_fits(out, precision);
}

/* All digits, the first one not 0 unless it is the only one. */
static uint32_t format_digits(struct weir_int256 size, char *out)
{
	uint64_t parts[5];
	uint32_t count = 0, at;

	while (size.words[1] | size.words[2] | size.words[3])
		parts[count++] = div_small(&size, 10000000000000000000u);
	at = (uint32_t)weir_format_u64(size.words[0], out);
	while (count) {
		weir_format_padded(parts[--count], STEP_DIGITS, out + at);
		at += STEP_DIGITS;
	}
	return at;
}

size_t weir_decimal_format(const struct weir_int256 *a, int32_t scale, char *buffer)
{
	char digits[WEIR_NUMBER_TEXT_MAX + 5 * STEP_DIGITS];
	uint32_t count = format_digits(magnitude(a), digits), whole;
	size_t at = 0;

	if (weir_int256_negative(a))
		buffer[at++] = '-';
	if (scale <= 0) {
		bool is_zero = count == 1 && digits[0] == '0';

		memcpy(buffer + at, digits, count);
		at += count;
		for (int32_t i = 0; i < -scale && i < 4 && !is_zero; i++)
			buffer[at++] = '0';
		/* Arrow's far negative scales are written with an exponent. */
		if (scale < -4 && !is_zero) {
			buffer[at++] = 'e';
			at += weir_format_i64(-(int64_t)scale - 4, buffer + at);
		}
	} else {
		whole = count > (uint32_t)scale ? count - (uint32_t)scale : 0;
		memcpy(buffer + at, digits, whole);
		at += whole;
		if (!whole)
			buffer[at++] = '0';
		buffer[at++] = '.';
		for (uint32_t zeros = (uint32_t)scale - (count - whole); zeros; zeros--)
			buffer[at++] = '0';
		memcpy(buffer + at, digits + whole, count - whole);
		at += count - whole;
	}
	buffer[at] = 0;
	return at;
}
