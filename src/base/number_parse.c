/* Text to numbers. Three ways, each taken when the one before cannot decide:
 *
 *   1. at most 2^53 · 10^±22: both are exact doubles, one multiplication or division rounds once;
 *   2. the first 19 digits times the leading 128 bits of the power of ten (Lemire, "Number parsing at a gigabyte per
 *      second", 2021, after Eisel): the product's leading bits are right unless what follows them is all ones. When
 *      there are more digits, the answers for the 19 digits and for the next larger number of 19 digits must agree;
 *   3. all digits as a big integer, compared with the point halfway between two neighbours.
 *
 * A double is told by at most 767 digits and one more that says whether anything follows.
 */
#include "base/number_impl.h"

#include "base/error.h"

#include <math.h>

enum { DIGITS_MAX = 19, EXACT_DIGITS_MAX = 770, LIMBS_MAX = 48 };
static const int64_t EXPONENT_MAX = 1000000000000000; /* larger ones say the same, and nothing overflows */

struct binary_form {
	int32_t fraction_bits,
		exponent_least; /* of the bit pattern's exponent 0, with the point behind the first bit */
	int32_t exponent_infinite;
	int32_t power_least, power_most; /* of ten: below, 19 digits are 0; above, infinite */
	int32_t tie_power_least, tie_power_most;
};

/* Ties need 5^power to fit beside the mantissa: the paper, section 8. */
static const struct binary_form double_form = {52, -1023, 2047, -342, 308, -4, 23};
static const struct binary_form float_form = {23, -127, 255, -64, 38, -17, 10};

/* ---- the text ---- */

static inline uint64_t load8(const char *p)
{
	uint64_t word;

	memcpy(&word, p, 8);
	return word ^ 0x3030303030303030;
}

/* Adds digits to *value, which wraps past 19 of them. */
static inline const char *scan_digits(const char *p, const char *end, uint64_t *value)
{
	uint64_t sum = *value;

	while (end - p >= 8) {
		uint64_t word = load8(p);

		if (!weir_digits8_valid(word))
			break;
		sum = sum * 100000000 + weir_digits8_value(word);
		p += 8;
	}
	for (; p < end && (uint8_t)(*p - '0') <= 9; p++)
		sum = sum * 10 + (uint8_t)(*p - '0');
	*value = sum;
	return p;
}

static size_t match(const char *p, const char *end, const char *word, bool exactly)
{
	size_t size = strlen(word);

	if ((size_t)(end - p) < size)
		return 0;
	for (size_t i = 0; i < size; i++) {
		if (p[i] != word[i] && (exactly || (p[i] | 0x20) != word[i]))
			return 0;
	}
	return size;
}

static size_t scan_name(const char *p, const char *end, uint32_t flags, char *name)
{
	size_t size = 0;

	if (flags & WEIR_NUMBER_NAMES) {
		*name = 'i';
		if ((size = match(p, end, "infinity", false)) || (size = match(p, end, "inf", false)))
			return size;
		*name = 'n';
		if ((size = match(p, end, "nan", false)))
			return size;
	}
	if (flags & WEIR_NUMBER_JSON_NAMES) {
		*name = 'i';
		if ((size = match(p, end, "Infinity", true)))
			return size;
		*name = 'n';
		size = match(p, end, "NaN", true);
	}
	return size;
}

/* e[+-]digits at p; 0 when there is none, and then the number ends before it. */
static size_t scan_exponent(const char *p, const char *end, int64_t *out)
{
	const char *begin = p, *first;
	int64_t value = 0;
	bool minus = false;

	p++;
	if (p < end && (*p == '-' || *p == '+'))
		minus = *p++ == '-';
	for (first = p; p < end && (uint8_t)(*p - '0') <= 9; p++) {
		if (value < EXPONENT_MAX)
			value = value * 10 + (*p - '0');
	}
	if (p == first)
		return 0;
	*out = minus ? -value : value;
	return (size_t)(p - begin);
}

/* More than 19 digits: those in front that count, and how far the point has moved. */
static void scan_truncated(struct weir_numeral *out, const char *point_at)
{
	const char *p = out->digits;
	uint64_t value = 0;
	int64_t exponent = 0;
	int count = 0;

	for (; p < out->digits_end && count < DIGITS_MAX; p++) {
		if (p == point_at)
			continue;
		value = value * 10 + (uint64_t)(*p - '0');
		count += value != 0;
		exponent -= point_at && p > point_at;
	}
	out->mantissa = value;
	/* Those left out before the point. */
	if (!point_at)
		exponent += out->digits_end - p;
	else if (p <= point_at)
		exponent += point_at - p;
	for (; p < out->digits_end && !out->truncated; p++)
		out->truncated = p != point_at && *p != '0';
	out->exponent += exponent;
}

size_t weir_numeral_scan(const char *text, size_t size, struct weir_number_grammar grammar, struct weir_numeral *out)
{
	const char *p = text, *end = text + size, *begin, *point_at = NULL, *whole_end;
	uint64_t mantissa = 0;
	int64_t count, exponent = 0, written = 0;

	*out = (struct weir_numeral){.point = grammar.point, .is_integer = true};
	if (p < end && (*p == '-' || (*p == '+' && grammar.flags & WEIR_NUMBER_PLUS)))
		out->negative = *p++ == '-';
	begin = p;
	p = whole_end = scan_digits(p, end, &mantissa);
	if (p == begin && p < end && *p != grammar.point) {
		size_t length = scan_name(p, end, grammar.flags, &out->name);

		return length ? (size_t)(p - text) + length : 0;
	}
	if (whole_end - begin > 1 && *begin == '0' && !(grammar.flags & WEIR_NUMBER_ZEROS))
		return 0;
	count = whole_end - begin;
	if (p < end && *p == grammar.point) {
		const char *fraction_end = scan_digits(p + 1, end, &mantissa);
		bool bare = whole_end == begin || fraction_end == p + 1;

		if (fraction_end - (p + 1) + count == 0)
			return 0;
		if (!bare || grammar.flags & WEIR_NUMBER_BARE_POINT) {
			point_at = p;
			p = fraction_end;
			exponent = point_at + 1 - p;
			count -= exponent;
			out->is_integer = false;
		} else if (whole_end == begin) {
			return 0;
		}
	}
	if (!count)
		return 0;
	out->digits = begin;
	out->digits_end = p;
	if (p < end && (*p | 0x20) == 'e' && grammar.flags & WEIR_NUMBER_EXPONENT) {
		size_t length = scan_exponent(p, end, &written);

		out->is_integer &= !length;
		p += length;
	}
	if (count <= DIGITS_MAX) {
		out->mantissa = mantissa;
		out->exponent = exponent + written;
	} else {
		out->exponent = written;
		scan_truncated(out, point_at);
	}
	return (size_t)(p - text);
}

/* ---- way 2 ---- */

/* The leading bits of mantissa · 10^power and what lies below them; mantissa has its highest bit set. */
static uint64_t product(uint64_t mantissa, int32_t power, uint64_t mask, uint64_t *low)
{
	const struct weir_pow10 *ten = weir_pow10(power);
	uint64_t low_word = ten->low, high, second_high;

	/* Up to 5^27 the divisor fits 64 bits, and rounding the reciprocal up is what makes ties come out (the
	 * paper). */
	if (power < 0 && power >= -27)
		low_word++;
	*low = weir_mul128(mantissa, ten->high, &high);
	if ((high & mask) == mask) {
		weir_mul128(mantissa, low_word, &second_high);
		*low += second_high;
		high += *low < second_high;
	}
	return high;
}

/* The bit pattern of mantissa · 10^power without its sign; false: not certain. */
static bool round_product(const struct binary_form *form, uint64_t mantissa, int64_t exponent, uint64_t *out)
{
	int32_t power, zeros, exponent_bits, shift;
	uint64_t high, low, fraction;
	uint64_t infinite = (uint64_t)form->exponent_infinite << form->fraction_bits;

	*out = 0;
	if (!mantissa || exponent < form->power_least)
		return true;
	if (exponent > form->power_most) {
		*out = infinite;
		return true;
	}
	power = (int32_t)exponent;
	zeros = __builtin_clzll(mantissa);
	high = product(mantissa << zeros, power, ~(uint64_t)0 >> (form->fraction_bits + 3), &low);
	if (low == ~(uint64_t)0 && (power < -27 || power > 55))
		return false;
	shift = (int32_t)(high >> 63) + 64 - form->fraction_bits - 3;
	fraction = high >> shift;
	exponent_bits = weir_log2_pow10(power) + 63 + (int32_t)(high >> 63) - zeros - form->exponent_least;
	if (exponent_bits <= 0) {
		if (1 - exponent_bits >= 64)
			return true;
		fraction >>= 1 - exponent_bits;
		fraction += fraction & 1;
		*out = fraction >> 1; /* the bit that may carry makes it a normal number */
		return true;
	}
	/* Exactly halfway, with the even neighbour below. */
	if (low <= 1 && power >= form->tie_power_least && power <= form->tie_power_most && (fraction & 3) == 1 &&
	    fraction << shift == high)
		fraction &= ~(uint64_t)1;
	fraction += fraction & 1;
	fraction >>= 1;
	/* The first bit is not stored: added to the exponent, it and a carry come out right. */
	*out = fraction + ((uint64_t)(exponent_bits - 1) << form->fraction_bits);
	if (*out > infinite)
		*out = infinite;
	return true;
}

/* ---- way 3 ---- */

struct big {
	uint32_t count;
	uint64_t limbs[LIMBS_MAX]; /* the lowest first; no zeros at the end */
};

static void big_multiply_add(struct big *big, uint64_t by, uint64_t carry)
{
	for (uint32_t i = 0; i < big->count; i++) {
		unsigned __int128 sum = (unsigned __int128)big->limbs[i] * by + carry;

		big->limbs[i] = (uint64_t)sum;
		carry = (uint64_t)(sum >> 64);
	}
	if (carry) {
		WEIR_ASSERT(big->count < LIMBS_MAX);
		big->limbs[big->count++] = carry;
	}
}

static void big_multiply_pow5(struct big *big, int64_t exponent)
{
	for (; exponent >= 27; exponent -= 27)
		big_multiply_add(big, 7450580596923828125u, 0);
	for (; exponent > 0; exponent--)
		big_multiply_add(big, 5, 0);
}

static void big_shift_left(struct big *big, int64_t bits)
{
	uint32_t words = (uint32_t)(bits / 64), rest = (uint32_t)(bits % 64);

	if (rest)
		big_multiply_add(big, (uint64_t)1 << rest, 0);
	WEIR_ASSERT(big->count + words <= LIMBS_MAX);
	memmove(big->limbs + words, big->limbs, big->count * sizeof(*big->limbs));
	memset(big->limbs, 0, words * sizeof(*big->limbs));
	big->count += words;
}

static int big_compare(const struct big *a, const struct big *b)
{
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	for (uint32_t i = a->count; i-- > 0;) {
		if (a->limbs[i] != b->limbs[i])
			return a->limbs[i] < b->limbs[i] ? -1 : 1;
	}
	return 0;
}

/* All digits that can matter, and the power of ten of the last of them. */
static int64_t big_digits(struct big *big, const struct weir_numeral *number)
{
	int64_t exponent = number->exponent;
	int count = 0;
	bool more = false;

	big->count = 0;
	for (const char *p = number->digits; p < number->digits_end; p++) {
		if (*p == number->point || (!count && *p == '0'))
			continue;
		if (count < EXACT_DIGITS_MAX) {
			big_multiply_add(big, 10, (uint64_t)(*p - '0'));
			count++;
		} else {
			more |= *p != '0';
		}
	}
	/* number->exponent belongs to the first 19 digits. */
	if (count > DIGITS_MAX)
		exponent -= count - DIGITS_MAX;
	if (more) {
		big_multiply_add(big, 10, 1);
		exponent--;
	}
	return exponent;
}

static uint64_t round_exact(const struct binary_form *form, const struct weir_numeral *number)
{
	struct big value, halfway = {.count = 1};
	uint64_t high, below, infinite = (uint64_t)form->exponent_infinite << form->fraction_bits;
	int32_t zeros = __builtin_clzll(number->mantissa), exponent_bits, shift;
	int64_t exponent, exponent2;
	int order;

	if (number->exponent < form->power_least)
		return 0;
	if (number->exponent > form->power_most)
		return infinite;
	/* The neighbour below: cut off, never rounded up. An answer too small by one is made good by the comparison. */
	weir_mul128(number->mantissa << zeros, weir_pow10((int32_t)number->exponent)->high, &high);
	shift = (int32_t)(high >> 63) + 64 - form->fraction_bits - 2;
	exponent_bits = weir_log2_pow10((int32_t)number->exponent) + 63 + (int32_t)(high >> 63) - zeros -
			form->exponent_least;
	if (exponent_bits <= 0) {
		shift += 1 - exponent_bits;
		exponent_bits = 1;
	}
	below = shift < 64 ? high >> shift : 0;
	/* value against (2 · below + 1) · 2^exponent2 */
	exponent2 = exponent_bits + form->exponent_least - form->fraction_bits - 1;
	halfway.limbs[0] = 2 * below + 1;
	exponent = big_digits(&value, number);
	if (exponent >= 0)
		big_multiply_pow5(&value, exponent);
	else
		big_multiply_pow5(&halfway, -exponent);
	if (exponent >= exponent2)
		big_shift_left(&value, exponent - exponent2);
	else
		big_shift_left(&halfway, exponent2 - exponent);
	order = big_compare(&value, &halfway);
	below += order > 0 || (order == 0 && (below & 1));
	below += (uint64_t)(exponent_bits - 1) << form->fraction_bits;
	return below > infinite ? infinite : below;
}

/* ---- the three together ---- */

static uint64_t number_bits(const struct binary_form *form, const struct weir_numeral *number)
{
	uint64_t bits, bits_next;

	if (round_product(form, number->mantissa, number->exponent, &bits) &&
	    (!number->truncated ||
	     (round_product(form, number->mantissa + 1, number->exponent, &bits_next) && bits == bits_next)))
		return bits;
	return round_exact(form, number);
}

double weir_numeral_double(const struct weir_numeral *number)
{
	uint64_t bits;
	double value;

	if (number->name) {
		value = number->name == 'i' ? INFINITY : NAN;
	} else if (number->mantissa <= (uint64_t)1 << 53 && number->exponent >= -22 && number->exponent <= 22 &&
		   !number->truncated) {
		value = (double)number->mantissa;
		value = number->exponent < 0 ? value / weir_pow10_exact[-number->exponent]
					     : value * weir_pow10_exact[number->exponent];
	} else {
		bits = number_bits(&double_form, number);
		memcpy(&value, &bits, 8);
	}
	return number->negative ? -value : value;
}

float weir_numeral_float(const struct weir_numeral *number)
{
	uint32_t bits;
	float value;

	if (number->name) {
		value = number->name == 'i' ? INFINITY : NAN;
	} else if (number->mantissa <= (uint64_t)1 << 24 && number->exponent >= -10 && number->exponent <= 10 &&
		   !number->truncated) {
		float ten = (float)weir_pow10_exact[number->exponent < 0 ? -number->exponent : number->exponent];

		value = (float)number->mantissa;
		value = number->exponent < 0 ? value / ten : value * ten;
	} else {
		bits = (uint32_t)number_bits(&float_form, number);
		memcpy(&value, &bits, 4);
	}
	return number->negative ? -value : value;
}

size_t weir_parse_double(const char *text, size_t size, struct weir_number_grammar grammar, double *out)
{
	struct weir_numeral number;
	size_t used = weir_numeral_scan(text, size, grammar, &number);

	if (used)
		*out = weir_numeral_double(&number);
	return used;
}

size_t weir_parse_float(const char *text, size_t size, struct weir_number_grammar grammar, float *out)
{
	struct weir_numeral number;
	size_t used = weir_numeral_scan(text, size, grammar, &number);

	if (used)
		*out = weir_numeral_float(&number);
	return used;
}

/* ---- integers ---- */

/* The digits in front of the end, zeros first; false: another byte, or past 64 bits. */
static bool magnitude(const char *p, const char *end, uint64_t *out)
{
	uint64_t value = 0;

	if (p == end)
		return false;
	while (end - p > DIGITS_MAX && *p == '0')
		p++;
	if (end - p > DIGITS_MAX + 1)
		return false;
	if (end - p <= DIGITS_MAX) {
		p = scan_digits(p, end, &value);
		*out = value;
		return p == end;
	}
	for (; p < end; p++) {
		if ((uint8_t)(*p - '0') > 9 || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return false;
	}
	*out = value;
	return true;
}

static bool with_sign(uint64_t value, bool negative, int64_t *out)
{
	if (value > (uint64_t)INT64_MAX + negative)
		return false;
	*out = (int64_t)(negative ? -value : value);
	return true;
}

bool weir_parse_u64(const char *text, size_t size, uint64_t *out)
{
	return magnitude(text, text + size, out);
}

bool weir_parse_i64(const char *text, size_t size, int64_t *out)
{
	bool negative = size && *text == '-';
	uint64_t value;

	return magnitude(text + negative, text + size, &value) && with_sign(value, negative, out);
}

bool weir_numeral_u64(const struct weir_numeral *number, uint64_t *out)
{
	return number->is_integer && number->digits && !number->negative &&
	       magnitude(number->digits, number->digits_end, out);
}

bool weir_numeral_i64(const struct weir_numeral *number, int64_t *out)
{
	uint64_t value;

	return number->is_integer && number->digits && magnitude(number->digits, number->digits_end, &value) &&
	       with_sign(value, number->negative, out);
}
