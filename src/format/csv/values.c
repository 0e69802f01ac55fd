/* One field's text as a value, by pyarrow's rules: blanks around numbers, dates and times are ignored (around booleans
 * and timestamps they are not), integers may be hexadecimal, a timestamp has an offset exactly when its type has a
 * zone.
 *
 * This is the slow and complete way, for what decode.c's loops do not recognise at once. */
#include "base/timetext.h"
#include "base/utf8.h"
#include "arrow/decimal.h"
#include "format/csv/csv_impl.h"

#include <string.h>

static uint32_t unit_digits(enum weir_time_unit unit)
{
	static const uint32_t digits[] = {[WEIR_SECOND] = 0, [WEIR_MILLI] = 3, [WEIR_MICRO] = 6, [WEIR_NANO] = 9};

	return digits[unit];
}

int csv_type_check(const struct weir_type *type, struct weir_error *err)
{
	char name[64];

	switch (weir_type_values(type)->id) {
	case WEIR_HALF:
	case WEIR_DURATION:
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
	case WEIR_STRUCT:
	case WEIR_MAP:
	case WEIR_DICTIONARY_TYPE:
		return weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"CSV text does not become %s: read the column as a type that it does become, and cast it",
			weir_type_name(type, name, sizeof(name)));
	default:
		return WEIR_OK;
	}
}

bool csv_is_null(const struct csv_options *options, const char *text, size_t size)
{
	for (uint32_t i = 0; i < options->null_count; i++)
		if (options->nulls[i].size == size && memcmp(options->nulls[i].data, text, size) == 0)
			return true;
	return false;
}

static void trim(const char **text, size_t *size)
{
	while (*size && (**text == ' ' || **text == '\t')) {
		++*text;
		--*size;
	}
	while (*size && ((*text)[*size - 1] == ' ' || (*text)[*size - 1] == '\t'))
		--*size;
}

/* 0x and as many digits as the type has at most; the bits, so that 0xff is −1 as an int8. */
static bool parse_hexadecimal(const char *text, size_t size, uint32_t byte_width, uint64_t *out)
{
	uint64_t value = 0;

	if (size < 3 || size > 2 + 2 * (size_t)byte_width || text[0] != '0' || (text[1] | 32) != 'x')
		return false;
	for (size_t i = 2; i < size; i++) {
		uint32_t digit = (uint8_t)text[i], letter = digit | 32;

		if (digit - '0' <= 9)
			value = value << 4 | (digit - '0');
		else if (letter - 'a' <= 5)
			value = value << 4 | (letter - 'a' + 10);
		else
			return false;
	}
	*out = value;
	return true;
}

static bool parse_integer(const struct weir_type *type, const char *text, size_t size, void *out)
{
	uint32_t bits = type->byte_width * 8;
	int64_t number;
	uint64_t natural;

	if (parse_hexadecimal(text, size, type->byte_width, &natural)) {
		memcpy(out, &natural, type->byte_width); /* little endian */
		return true;
	}
	if (weir_type_is_signed(type)) {
		if (!weir_parse_i64(text, size, &number) ||
		    (bits < 64 && (number < -(INT64_C(1) << (bits - 1)) || number >= INT64_C(1) << (bits - 1))))
			return false;
		memcpy(out, &number, type->byte_width);
		return true;
	}
	if (!weir_parse_u64(text, size, &natural) || (bits < 64 && natural >> bits))
		return false;
	memcpy(out, &natural, type->byte_width);
	return true;
}

static bool parse_boolean(const char *text, size_t size, void *out)
{
	static const char *const names[2][4] = {{"0", "false", "False", "FALSE"}, {"1", "true", "True", "TRUE"}};

	for (int value = 0; value < 2; value++)
		for (int i = 0; i < 4; i++)
			if (strlen(names[value][i]) == size && memcmp(names[value][i], text, size) == 0) {
				*(uint8_t *)out = (uint8_t)value;
				return true;
			}
	return false;
}

static struct weir_number_grammar grammar_of(uint8_t point)
{
	struct weir_number_grammar grammar = WEIR_NUMBER_PYTHON;

	grammar.point = (char)point;
	return grammar;
}

static bool parse_real(uint8_t point, const char *text, size_t size, double *out)
{
	return size > 0 && weir_parse_double(text, size, grammar_of(point), out) == size;
}

static bool parse_decimal(const struct weir_type *type, uint8_t point, const char *text, size_t size, void *out)
{
	struct weir_int256 value;
	char copy[128];

	if (size > 0 && *text == '+') {
		text++;
		size--;
		if (size && (*text == '-' || *text == '+'))
			return false;
	}
	if (point != '.') {
		if (size > sizeof(copy) || memchr(text, '.', size))
			return false;
		for (size_t i = 0; i < size; i++)
			copy[i] = text[i] == (char)point ? '.' : text[i];
		text = copy;
	}
	return weir_decimal_parse(text, size, type->precision, type->scale, &value) &&
	       weir_int256_store(&value, out, type->byte_width);
}

static bool parse_timestamp(const struct weir_type *type, const char *text, size_t size, int64_t *out)
{
	struct weir_timestamp_text scanned;

	return weir_scan_timestamp(text, size, &scanned) && scanned.has_zone == (type->timezone != NULL) &&
	       scanned.fraction_digits <= unit_digits(type->unit) &&
	       weir_timestamp_units(&scanned, unit_digits(type->unit), out);
}

/* A fraction is one of seconds only where its unit has as many digits, were they zeroes: a type is not to depend on a
 * row's value. */
static bool parse_time(const char *text, size_t size, uint32_t digits, int64_t *out)
{
	const char *point = memchr(text, '.', size);

	return weir_parse_time(text, size, digits, out) && (!point || (size_t)(text + size - point - 1) <= digits);
}

bool csv_value_parse(const struct weir_type *type, uint8_t point, const char *text, size_t size, void *out)
{
	double real;
	float narrow;
	int64_t wide;
	int32_t days;

	if (type->id == WEIR_BOOL)
		return parse_boolean(text, size, out);
	if (type->id == WEIR_TIMESTAMP)
		return parse_timestamp(type, text, size, out);
	if (type->id == WEIR_FIXED_BINARY) {
		if (size == type->byte_width)
			memcpy(out, text, size);
		return size == type->byte_width;
	}
	trim(&text, &size);
	if (size == 0)
		return false;
	switch (type->id) {
	case WEIR_DOUBLE:
		if (!parse_real(point, text, size, &real))
			return false;
		memcpy(out, &real, sizeof(real));
		return true;
	case WEIR_FLOAT:
		if (weir_parse_float(text, size, grammar_of(point), &narrow) != size)
			return false;
		memcpy(out, &narrow, sizeof(narrow));
		return true;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		return parse_decimal(type, point, text, size, out);
	case WEIR_DATE32:
		return weir_parse_date(text, size, out);
	case WEIR_DATE64:
		if (!weir_parse_date(text, size, &days))
			return false;
		wide = (int64_t)days * 86400000;
		memcpy(out, &wide, sizeof(wide));
		return true;
	case WEIR_TIME32:
	case WEIR_TIME64:
		if (!parse_time(text, size, unit_digits(type->unit), &wide))
			return false;
		memcpy(out, &wide, type->byte_width);
		return true;
	default:
		return weir_type_is_integer(type) && parse_integer(type, text, size, out);
	}
}

size_t csv_unquote(const struct csv_dialect *dialect, const char *text, size_t size, char *out)
{
	bool inside = dialect->has_quote && size > 0 && (uint8_t)text[0] == dialect->quote;
	size_t used = 0;

	for (size_t i = inside; i < size; i++) {
		uint8_t byte = (uint8_t)text[i];

		if (dialect->has_escape && byte == dialect->escape && i + 1 < size) {
			out[used++] = text[++i];
		} else if (inside && byte == dialect->quote) {
			if (dialect->doubled && i + 1 < size && (uint8_t)text[i + 1] == dialect->quote)
				out[used++] = text[++i];
			else
				inside = false;
		} else {
			out[used++] = text[i];
		}
	}
	return used;
}

/* ---- inference ---- */

#define KIND(kind) (1u << (kind))
enum { TEXT_KINDS = KIND(CSV_STRING) | KIND(CSV_BINARY), NUMBER_KINDS = KIND(CSV_REAL) | TEXT_KINDS };

static uint32_t timestamp_kinds(const struct weir_timestamp_text *text)
{
	uint32_t kinds = 0;
	int64_t units;

	if (text->fraction_digits == 0 && weir_timestamp_units(text, 0, &units))
		kinds |= text->has_zone ? KIND(CSV_TIMESTAMP_UTC) : KIND(CSV_TIMESTAMP);
	if (weir_timestamp_units(text, 9, &units))
		kinds |= text->has_zone ? KIND(CSV_TIMESTAMP_NS_UTC) : KIND(CSV_TIMESTAMP_NS);
	return kinds;
}

uint32_t csv_kinds_of(uint8_t point, const char *text, size_t size)
{
	const char *inner = text;
	size_t inner_size = size;
	struct weir_timestamp_text timestamp;
	uint32_t kinds = weir_utf8_valid(text, size) ? TEXT_KINDS : KIND(CSV_BINARY);
	uint8_t boolean;
	int32_t days;
	int64_t number;
	double real;

	if (size > 64) /* a number could be longer; nobody writes them so */
		return kinds | (parse_real(point, text, size, &real) ? KIND(CSV_REAL) : 0);
	if (parse_boolean(text, size, &boolean))
		kinds |= KIND(CSV_BOOLEAN);
	if (weir_scan_timestamp(text, size, &timestamp))
		kinds |= timestamp_kinds(&timestamp);
	trim(&inner, &inner_size);
	if (inner_size == 0)
		return kinds;
	if (parse_integer(weir_type_of(WEIR_INT64), inner, inner_size, &number))
		kinds |= KIND(CSV_INTEGER);
	if (parse_real(point, inner, inner_size, &real))
		kinds |= KIND(CSV_REAL);
	if (weir_parse_date(inner, inner_size, &days))
		kinds |= KIND(CSV_DATE);
	if (parse_time(inner, inner_size, 0, &number))
		kinds |= KIND(CSV_TIME);
	return kinds;
}

const struct weir_type *csv_type_of_kinds(struct weir_account *account, uint32_t kinds, bool has_values,
					  struct weir_error *err)
{
	if (!has_values)
		return weir_type_ref(weir_type_of(WEIR_NULL));
	switch ((enum csv_kind)__builtin_ctz(kinds | KIND(CSV_BINARY))) {
	case CSV_INTEGER:
		return weir_type_ref(weir_type_of(WEIR_INT64));
	case CSV_BOOLEAN:
		return weir_type_ref(weir_type_of(WEIR_BOOL));
	case CSV_DATE:
		return weir_type_ref(weir_type_of(WEIR_DATE32));
	case CSV_TIME:
		return weir_type_temporal(account, WEIR_TIME32, WEIR_SECOND, NULL, err);
	case CSV_TIMESTAMP:
		return weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_SECOND, NULL, err);
	case CSV_TIMESTAMP_UTC:
		return weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_SECOND, "UTC", err);
	case CSV_TIMESTAMP_NS:
		return weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_NANO, NULL, err);
	case CSV_TIMESTAMP_NS_UTC:
		return weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_NANO, "UTC", err);
	case CSV_REAL:
		return weir_type_ref(weir_type_of(WEIR_DOUBLE));
	case CSV_STRING:
		return weir_type_ref(weir_type_of(WEIR_STRING));
	default:
		return weir_type_ref(weir_type_of(WEIR_BINARY));
	}
}

/* What every value of the type is, besides: an integer is a real too, but not a boolean, since only 0 and 1 are. */
uint32_t csv_kinds_of_type(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_NULL:
		return CSV_KINDS_ALL;
	case WEIR_INT64:
		return KIND(CSV_INTEGER) | NUMBER_KINDS;
	case WEIR_BOOL:
		return KIND(CSV_BOOLEAN) | TEXT_KINDS;
	case WEIR_DATE32:
		return KIND(CSV_DATE) | KIND(CSV_TIMESTAMP) | KIND(CSV_TIMESTAMP_NS) | TEXT_KINDS;
	case WEIR_TIME32:
		return KIND(CSV_TIME) | TEXT_KINDS;
	case WEIR_TIMESTAMP:
		if (type->timezone)
			return (type->unit == WEIR_SECOND ? KIND(CSV_TIMESTAMP_UTC) : 0) | KIND(CSV_TIMESTAMP_NS_UTC) |
			       TEXT_KINDS;
		return (type->unit == WEIR_SECOND ? KIND(CSV_TIMESTAMP) : 0) | KIND(CSV_TIMESTAMP_NS) | TEXT_KINDS;
	case WEIR_DOUBLE:
		return NUMBER_KINDS;
	case WEIR_STRING:
		return TEXT_KINDS;
	default:
		return KIND(CSV_BINARY);
	}
}
