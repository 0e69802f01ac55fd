#include "arrow/print.h"

#include "base/calendar.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

/* "1e+16" and "1.0" as Python writes them, from digits that printf gave ("%.*e"). */
static int python_form(const char *scientific, struct weir_text *out, struct weir_error *err)
{
	char digits[32], text[64];
	size_t count = 0, n = 0;
	const char *p = scientific;
	bool negative = *p == '-';
	long exponent;

	for (p += negative; *p && *p != 'e'; p++) {
		if (*p != '.')
			digits[count++] = *p;
	}
	exponent = strtol(p + 1, NULL, 10);
	while (count > 1 && digits[count - 1] == '0')
		count--;
	if (negative)
		text[n++] = '-';
	if (exponent < -4 || exponent >= 16) {
		text[n++] = digits[0];
		if (count > 1)
			text[n++] = '.';
		memcpy(text + n, digits + 1, count - 1);
		n += count - 1;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "e%c%02ld", exponent < 0 ? '-' : '+', labs(exponent));
	} else if (exponent < 0) {
		text[n++] = '0';
		text[n++] = '.';
		for (long i = -1; i > exponent; i--)
			text[n++] = '0';
		memcpy(text + n, digits, count);
		n += count;
	} else {
		for (long i = 0; i <= exponent; i++)
			text[n++] = (size_t)i < count ? digits[i] : '0';
		text[n++] = '.';
		if (count > (size_t)exponent + 1) {
			memcpy(text + n, digits + exponent + 1, count - (size_t)exponent - 1);
			n += count - (size_t)exponent - 1;
		} else {
			text[n++] = '0';
		}
	}
	return weir_text_append(out, text, n, err);
}

static int not_finite(double value, struct weir_text *out, struct weir_error *err)
{
	return weir_text_puts(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf", err);
}

int weir_print_double(double value, struct weir_text *out, struct weir_error *err)
{
	char text[40];

	if (!isfinite(value))
		return not_finite(value, out, err);
	for (int digits = 14; digits < 17; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return python_form(text, out, err);
}

int weir_print_float(float value, struct weir_text *out, struct weir_error *err)
{
	char text[40];

	if (!isfinite(value))
		return not_finite((double)value, out, err);
	for (int digits = 5; digits < 9; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	return python_form(text, out, err);
}

static float half_to_float(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	float value = exponent == 0    ? ldexpf((float)fraction, -24)
		      : exponent == 31 ? (fraction ? NAN : INFINITY)
				       : ldexpf((float)(fraction | 1024), (int)exponent - 25);

	return half >> 15 ? -value : value;
}

/* Two's complement little endian, 16 or 32 bytes. */
static int print_decimal(const uint8_t *bytes, uint32_t width, int32_t scale, struct weir_text *out, struct weir_error *err)
{
	uint32_t words[8];
	char digits[96];
	uint32_t count = width / 4, n = 0;
	bool negative = bytes[width - 1] >> 7, is_zero;
	int code = WEIR_OK;

	memcpy(words, bytes, width);
	if (negative) {
		uint64_t carry = 1;

		for (uint32_t i = 0; i < count; i++) {
			carry += (uint32_t)~words[i];
			words[i] = (uint32_t)carry;
			carry >>= 32;
		}
	}
	do { /* least digit first */
		uint64_t rest = 0;

		is_zero = true;
		for (uint32_t i = count; i-- > 0;) {
			rest = rest << 32 | words[i];
			words[i] = (uint32_t)(rest / 10);
			rest %= 10;
			is_zero &= words[i] == 0;
		}
		digits[n++] = (char)('0' + rest);
	} while (!is_zero && n < sizeof(digits));
	if (negative)
		code = weir_text_puts(out, "-", err);
	if (!code && scale >= (int32_t)n) {
		code = weir_text_puts(out, "0.", err);
		for (int32_t i = scale; !code && i > (int32_t)n; i--)
			code = weir_text_puts(out, "0", err);
	}
	for (uint32_t i = n; !code && i-- > 0;) {
		code = weir_text_append(out, &digits[i], 1, err);
		if (!code && (int32_t)i == scale && scale > 0)
			code = weir_text_puts(out, ".", err);
	}
	for (int32_t i = 0; !code && i > scale; i--)
		code = weir_text_puts(out, "0", err);
	return code;
}

/* ---- time ---- */

static int print_date(int64_t days, struct weir_text *out, struct weir_error *err)
{
	struct weir_calendar_day date = weir_calendar_day(days);

	return weir_text_printf(out, err, "%s%04" PRId64 "-%02u-%02u", date.year < 0 ? "-" : "",
				date.year < 0 ? -date.year : date.year, date.month, date.day);
}

static const int64_t per_second[] = {1, 1000, 1000000, 1000000000};
static const int fraction_digits[] = {0, 3, 6, 9};

static int64_t floor_div(int64_t value, int64_t by)
{
	return value / by - (value % by < 0);
}

static int print_clock(int64_t in_day, enum weir_time_unit unit, struct weir_text *out, struct weir_error *err)
{
	int64_t seconds = in_day / per_second[unit], fraction = in_day % per_second[unit];
	int code = weir_text_printf(out, err, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600, seconds / 60 % 60,
				    seconds % 60);

	if (!code && unit != WEIR_SECOND)
		code = weir_text_printf(out, err, ".%0*" PRId64, fraction_digits[unit], fraction);
	return code;
}

static int print_timestamp(int64_t value, const struct weir_type *type, struct weir_text *out, struct weir_error *err)
{
	int64_t a_day = 86400 * per_second[type->unit], days = floor_div(value, a_day);
	int code = print_date(days, out, err);

	if (!code)
		code = weir_text_puts(out, " ", err);
	if (!code)
		code = print_clock(value - days * a_day, type->unit, out, err);
	if (!code && type->timezone) /* the value itself is in UTC */
		code = weir_text_puts(out, "Z", err);
	return code;
}

/* ---- bytes ---- */

int weir_print_json_string(const void *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	const uint8_t *p = bytes, *end = p + size, *run = p;
	int code = weir_text_puts(out, "\"", err);

	while (!code && p < end) {
		char escape[8] = "";

		if (*p == '"' || *p == '\\') {
			snprintf(escape, sizeof(escape), "\\%c", *p);
		} else if (*p < 0x20 || *p == 0x7f) {
			static const char letters[] = "btn.fr"; /* for 8 … 13; 11 has none */

			if (*p >= 8 && *p <= 13 && *p != 11)
				snprintf(escape, sizeof(escape), "\\%c", letters[*p - 8]);
			else
				snprintf(escape, sizeof(escape), "\\u%04x", *p);
		} else if (*p >= 0x80) {
			size_t length = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;

			if ((size_t)(end - p) >= length && weir_utf8_valid(p, length)) {
				p += length;
				continue;
			}
			snprintf(escape, sizeof(escape), "\\ufffd");
		} else {
			p++;
			continue;
		}
		code = weir_text_append(out, run, (size_t)(p - run), err);
		if (!code)
			code = weir_text_puts(out, escape, err);
		p++;
		run = p;
	}
	if (!code)
		code = weir_text_append(out, run, (size_t)(end - run), err);
	return code ? code : weir_text_puts(out, "\"", err);
}

/* Printable ASCII as it is, everything else as \xNN. */
static int print_binary(const uint8_t *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < size; i++) {
		if (bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\')
			code = weir_text_append(out, bytes + i, 1, err);
		else
			code = weir_text_printf(out, err, "\\x%02X", bytes[i]);
	}
	return code;
}

/* For a terminal: nothing in a value may move the cursor. */
static int print_visible(const uint8_t *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < size; i++) {
		if (bytes[i] == '\n')
			code = weir_text_puts(out, "\\n", err);
		else if (bytes[i] == '\t')
			code = weir_text_puts(out, "\\t", err);
		else if (bytes[i] < 0x20 || bytes[i] == 0x7f)
			code = weir_text_printf(out, err, "\\x%02x", bytes[i]);
		else
			code = weir_text_append(out, bytes + i, 1, err);
	}
	return code;
}

static int print_bytes(const struct weir_type *type, const uint8_t *bytes, size_t size, enum weir_print_style style,
		       struct weir_text *out, struct weir_error *err)
{
	struct weir_text escaped;
	int code;

	if (weir_type_is_text(type)) {
		if (style == WEIR_PRINT_JSON)
			return weir_print_json_string(bytes, size, out, err);
		return style == WEIR_PRINT_TABLE ? print_visible(bytes, size, out, err) : weir_text_append(out, bytes, size, err);
	}
	if (style != WEIR_PRINT_JSON)
		return print_binary(bytes, size, out, err);
	weir_text_init(&escaped, out->account);
	code = print_binary(bytes, size, &escaped, err);
	if (!code)
		code = weir_print_json_string(escaped.data, escaped.size, out, err);
	weir_text_release(&escaped);
	return code;
}

/* ---- any value ---- */

static int64_t offset_at(const struct weir_array *array, int64_t row, bool is_large)
{
	return is_large ? ((const int64_t *)array->buffers[1].data)[row] : ((const int32_t *)array->buffers[1].data)[row];
}

/* Text that stands between quotes in JSON. */
static int quoted(int (*print)(const struct weir_array *, int64_t, struct weir_text *, struct weir_error *),
		  const struct weir_array *array, int64_t place, enum weir_print_style style, struct weir_text *out,
		  struct weir_error *err)
{
	bool quotes = style == WEIR_PRINT_JSON;
	int code = quotes ? weir_text_puts(out, "\"", err) : WEIR_OK;

	if (!code)
		code = print(array, place, out, err);
	return code || !quotes ? code : weir_text_puts(out, "\"", err);
}

static int64_t integer_at(const struct weir_array *array, int64_t place)
{
	const void *values = array->buffers[1].data;

	switch (array->type->byte_width) {
	case 1:
		return ((const int8_t *)values)[place];
	case 2:
		return ((const int16_t *)values)[place];
	case 4:
		return ((const int32_t *)values)[place];
	default:
		return ((const int64_t *)values)[place];
	}
}

static int print_temporal(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	static const char *const units[] = {"s", "ms", "us", "ns"};
	const struct weir_type *type = array->type;
	int64_t value = integer_at(array, place);

	switch (type->id) {
	case WEIR_DATE32:
		return print_date(value, out, err);
	case WEIR_DATE64:
		return print_date(floor_div(value, 86400000), out, err);
	case WEIR_TIME32:
	case WEIR_TIME64:
		return print_clock(value, type->unit, out, err);
	case WEIR_TIMESTAMP:
		return print_timestamp(value, type, out, err);
	default:
		return weir_text_printf(out, err, "%" PRId64 "%s", value, units[type->unit]);
	}
}

static int print_interval(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	const uint8_t *at = array->buffers[1].data + (size_t)place * array->type->byte_width;
	int32_t a = 0, b = 0;
	int64_t c = 0;

	memcpy(&a, at, 4);
	if (array->type->id == WEIR_INTERVAL_MONTHS)
		return weir_text_printf(out, err, "%" PRId32 "mo", a);
	memcpy(&b, at + 4, 4);
	if (array->type->id == WEIR_INTERVAL_DAY_TIME)
		return weir_text_printf(out, err, "%" PRId32 "d%" PRId32 "ms", a, b);
	memcpy(&c, at + 8, 8);
	return weir_text_printf(out, err, "%" PRId32 "mo%" PRId32 "d%" PRId64 "ns", a, b, c);
}

static int print_list(const struct weir_array *items, int64_t begin, int64_t end, struct weir_text *out,
		      struct weir_error *err)
{
	int code = weir_text_puts(out, "[", err);

	for (int64_t i = begin; !code && i < end; i++) {
		if (i > begin)
			code = weir_text_puts(out, ", ", err);
		if (!code)
			code = weir_print_value(items, i, WEIR_PRINT_JSON, out, err);
	}
	return code ? code : weir_text_puts(out, "]", err);
}

static int print_struct(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	int code = weir_text_puts(out, "{", err);

	for (uint32_t i = 0; !code && i < array->child_count; i++) {
		const char *name = array->type->fields[i].name;

		if (i)
			code = weir_text_puts(out, ", ", err);
		if (!code)
			code = weir_print_json_string(name, strlen(name), out, err);
		if (!code)
			code = weir_text_puts(out, ": ", err);
		if (!code)
			code = weir_print_value(array->children[i], place, WEIR_PRINT_JSON, out, err);
	}
	return code ? code : weir_text_puts(out, "}", err);
}

static int print_nested(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	bool is_large = array->type->id == WEIR_LARGE_LIST;

	switch (array->type->id) {
	case WEIR_STRUCT:
		return print_struct(array, place, out, err);
	case WEIR_FIXED_LIST:
		return print_list(array->children[0], place * array->type->list_size, (place + 1) * array->type->list_size, out,
				  err);
	default:
		return print_list(array->children[0], offset_at(array, place, is_large), offset_at(array, place + 1, is_large),
				  out, err);
	}
}

static int print_number(const struct weir_array *array, int64_t place, enum weir_print_style style, struct weir_text *out,
			struct weir_error *err)
{
	const uint8_t *values = array->buffers[1].data;
	double value;

	switch (array->type->id) {
	case WEIR_UINT8:
		return weir_text_printf(out, err, "%u", values[place]);
	case WEIR_UINT16:
		return weir_text_printf(out, err, "%u", ((const uint16_t *)values)[place]);
	case WEIR_UINT32:
		return weir_text_printf(out, err, "%" PRIu32, ((const uint32_t *)values)[place]);
	case WEIR_UINT64:
		return weir_text_printf(out, err, "%" PRIu64, ((const uint64_t *)values)[place]);
	case WEIR_HALF:
	case WEIR_FLOAT:
	case WEIR_DOUBLE:
		value = array->type->id == WEIR_HALF    ? (double)half_to_float(((const uint16_t *)values)[place])
			: array->type->id == WEIR_FLOAT ? (double)((const float *)values)[place]
							: ((const double *)values)[place];
		if (style == WEIR_PRINT_JSON && !isfinite(value)) /* JSON has no such numbers */
			return weir_text_puts(out, "null", err);
		return array->type->id == WEIR_DOUBLE ? weir_print_double(value, out, err)
						      : weir_print_float((float)value, out, err);
	default:
		return weir_text_printf(out, err, "%" PRId64, integer_at(array, place));
	}
}

int weir_print_value(const struct weir_array *array, int64_t row, enum weir_print_style style, struct weir_text *out,
		     struct weir_error *err)
{
	const struct weir_type *type = array->type;
	int64_t place = array->offset + row;
	const uint8_t *values = array->buffers[1].data;

	if (!weir_array_is_valid(array, row))
		return style == WEIR_PRINT_CSV ? WEIR_OK : weir_text_puts(out, "null", err);
	if (type->id == WEIR_DICTIONARY_TYPE) {
		struct weir_array codes = *array;

		codes.type = type->dictionary_index;
		return weir_print_value(array->dictionary, integer_at(&codes, place), style, out, err);
	}
	if (type->layout == WEIR_LAYOUT_BITS) {
		bool bit = values[place >> 3] >> (place & 7) & 1;

		return weir_text_puts(out, bit ? "true" : "false", err);
	}
	if (type->layout == WEIR_LAYOUT_NESTED)
		return print_nested(array, place, out, err);
	if (type->layout == WEIR_LAYOUT_BYTES) {
		bool is_large = type->id == WEIR_LARGE_BINARY || type->id == WEIR_LARGE_STRING;
		int64_t begin = offset_at(array, place, is_large), end = offset_at(array, place + 1, is_large);

		return print_bytes(type, array->buffers[2].data + begin, (size_t)(end - begin), style, out, err);
	}
	if (type->id == WEIR_FIXED_BINARY)
		return print_bytes(type, values + (size_t)place * type->byte_width, type->byte_width, style, out, err);
	if (weir_type_is_decimal(type))
		return print_decimal(values + (size_t)place * type->byte_width, type->byte_width, type->scale, out, err);
	if (type->id >= WEIR_INTERVAL_MONTHS && type->id <= WEIR_INTERVAL_MONTH_DAY_NANO)
		return quoted(print_interval, array, place, style, out, err);
	if (weir_type_is_temporal(type))
		return quoted(print_temporal, array, place, style, out, err);
	return print_number(array, place, style, out, err);
}
