/* number: numbers as text and back, free of locale, exact both ways.
 *
 * Reading a double is one call, weir_parse_double, or weir_numeral_scan and then weir_numeral_double,
 * weir_numeral_float or weir_numeral_i64, when the text decides what it is to become. Results are the nearest value,
 * ties to even, however many digits there are: equal to Python's float(). What a number may look like is the caller's
 * grammar.
 *
 * Reading returns how many bytes belong to the number, 0 for none: a field is a number when that is its whole size; a
 * JSON value ends there. Nothing is read outside [text, text + size).
 *
 * Printing writes the shortest text that reads back as the same value, as Python's repr() does: 0.1, 1.0, 1e-05, 1e+16,
 * nan, -inf. It is not terminated, and up to WEIR_NUMBER_TEXT_MAX bytes may be written whatever the size returned.
 */
#ifndef WEIR_BASE_NUMBER_H
#define WEIR_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WEIR_NUMBER_TEXT_MAX = 40 };

/* What is allowed beside -?digits[.digits]. */
enum weir_number_flags {
	WEIR_NUMBER_PLUS = 1,       /* +1 */
	WEIR_NUMBER_BARE_POINT = 2, /* .5 and 5. */
	WEIR_NUMBER_ZEROS = 4,      /* 007 */
	WEIR_NUMBER_EXPONENT = 8,   /* 1e5, 1E+5 */
	WEIR_NUMBER_NAMES = 16,     /* nan, inf, infinity in any case */
	WEIR_NUMBER_JSON_NAMES = 32 /* NaN, Infinity, exactly so */
};

struct weir_number_grammar {
	uint32_t flags;
	char point;
};

/* Python's float() without blanks and underscores, which is also what pyarrow takes in CSV; RFC 8259. */
#define WEIR_NUMBER_PYTHON ((struct weir_number_grammar){31, '.'})
#define WEIR_NUMBER_JSON ((struct weir_number_grammar){WEIR_NUMBER_EXPONENT, '.'})

/* A number's digits, not yet rounded to a type. Borrows the text. */
struct weir_numeral {
	uint64_t mantissa; /* the first 19 digits that count */
	int64_t exponent;  /* the value is about mantissa · 10^exponent */
	const char *digits, *digits_end;
	char point;
	bool negative, truncated;
	bool is_integer; /* neither point nor exponent */
	char name;       /* 'i' for infinity, 'n' for nan, 0 for a number */
};

size_t weir_numeral_scan(const char *text, size_t size, struct weir_number_grammar grammar, struct weir_numeral *out);
double weir_numeral_double(const struct weir_numeral *number);
float weir_numeral_float(const struct weir_numeral *number);
/* False: not an integer, or one that does not fit. */
bool weir_numeral_i64(const struct weir_numeral *number, int64_t *out);
bool weir_numeral_u64(const struct weir_numeral *number, uint64_t *out);

size_t weir_parse_double(const char *text, size_t size, struct weir_number_grammar grammar, double *out);
size_t weir_parse_float(const char *text, size_t size, struct weir_number_grammar grammar, float *out);

/* The whole of -?digits (the unsigned: digits), or false; also when it does not fit. */
bool weir_parse_i64(const char *text, size_t size, int64_t *out);
bool weir_parse_u64(const char *text, size_t size, uint64_t *out);

static inline bool weir_parse_i32(const char *text, size_t size, int32_t *out)
{
	int64_t wide;

	if (!weir_parse_i64(text, size, &wide) || wide != (int32_t)wide)
		return false;
	*out = (int32_t)wide;
	return true;
}

/* Bytes written. */
size_t weir_format_double(double value, char *out);
size_t weir_format_float(float value, char *out);
/* Whole numbers without ".0", exponents without zeros in front, a point from 1e-6 to below 1e10: as pyarrow writes
 * them. */
size_t weir_format_double_bare(double value, char *out);
size_t weir_format_float_bare(float value, char *out);
size_t weir_format_i64(int64_t value, char *out);
size_t weir_format_u64(uint64_t value, char *out);

/* Exactly `width` digits with zeros in front, at most 20; the value must fit. */
void weir_format_padded(uint64_t value, uint32_t width, char *out);

/* ---- short fields, inline ---- */

/* 1 … 8 bytes as a little-endian word, zeros above; reads no other bytes. */
static inline uint64_t weir_load_short(const char *text, size_t size)
{
	uint64_t word = 0;
	uint32_t low, high;

	if (size >= 8) {
		memcpy(&word, text, 8);
		return word;
	}
	if (size >= 4) {
		memcpy(&low, text, 4);
		memcpy(&high, text + size - 4, 4);
		return low | (uint64_t)high << (size - 4) * 8;
	}
	return (uint64_t)(uint8_t)text[0] | (uint64_t)(uint8_t)text[size / 2] << size / 2 * 8 |
	       (uint64_t)(uint8_t)text[size - 1] << (size - 1) * 8;
}

/* Of eight bytes 0 … 9, the first digit in the lowest byte, the number; of anything else nonsense. */
static inline uint32_t weir_digits8_value(uint64_t digits)
{
	digits = digits * 10 + (digits >> 8);
	return (uint32_t)(((digits & 0x000000ff000000ff) * 0x000f424000000064 +
			   (digits >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >>
			  32);
}

static inline bool weir_digits8_valid(uint64_t digits)
{
	return !((digits | (digits + 0x7676767676767676)) & 0x8080808080808080);
}

extern const double weir_pow10_exact[23]; /* 10^0 … 10^22 */

/* -?digits of at most 8 bytes, as most fields are. False decides nothing: ask weir_parse_i64. */
static inline bool weir_parse_i64_short(const char *text, size_t size, int64_t *out)
{
	uint64_t word;
	bool negative;

	if (size - 1 > 7)
		return false;
	word = weir_load_short(text, size);
	negative = (uint8_t)word == '-';
	word >>= negative * 8;
	size -= negative;
	if (!size)
		return false;
	word = (word << (8 - size) * 8) ^ (UINT64_C(0x3030303030303030) << (8 - size) * 8);
	if (!weir_digits8_valid(word))
		return false;
	*out = negative ? -(int64_t)weir_digits8_value(word) : (int64_t)weir_digits8_value(word);
	return true;
}

/* -?digits[point digits] of at most 8 bytes, .5 and 5. included. False decides nothing: ask weir_parse_double. */
static inline bool weir_parse_double_short(const char *text, size_t size, char point, double *out)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t word, found;
	uint32_t decimals = 0;
	bool negative;
	double value;

	if (size - 1 > 7)
		return false;
	word = weir_load_short(text, size);
	negative = (uint8_t)word == '-';
	word >>= negative * 8;
	size -= negative;
	found = word ^ (ones * (uint8_t)point);
	found = (found - ones) & ~found & ones * 0x80; /* its lowest bit is the first point */
	if (found) {
		uint32_t at = (uint32_t)__builtin_ctzll(found) & ~7u;
		uint64_t below = ((uint64_t)1 << at) - 1;

		word = (word & below) | (word >> 8 & ~below);
		size--;
		decimals = (uint32_t)size - at / 8;
	}
	if (!size || size > 8)
		return false;
	word = (word << (8 - size) * 8) ^ (UINT64_C(0x3030303030303030) << (8 - size) * 8);
	if (!weir_digits8_valid(word))
		return false;
	/* Both are exact, so the quotient is rounded once. */
	value = (double)weir_digits8_value(word) / weir_pow10_exact[decimals];
	*out = negative ? -value : value;
	return true;
}

#endif
