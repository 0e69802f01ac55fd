/* Text is what ISO 8601 and Python write: 2024-02-29, 2024-02-29 12:30:00.125, 12:30, 1.5, 1e-07, True. */
#include "arrow/value.h"

#include "base/number.h"
#include "base/timetext.h"
#include "arrow/decimal.h"

#include <string.h>

bool weir_timezone_is_utc(const char *timezone)
{
	static const char *const names[] = {"UTC",     "Z",   "+00:00", "Etc/UTC", "GMT",
					    "Etc/GMT", "utc", "-00:00", "00:00"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(timezone, names[i]))
			return true;
	}
	return false;
}

float weir_half_to_float(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff, bits;
	float value;

	if (exponent == 0x1f) {
		bits = sign | 0x7f800000 | fraction << 13;
	} else if (exponent) {
		bits = sign | (exponent + 112) << 23 | fraction << 13;
	} else {
		value = (float)fraction * 0x1p-24f;
		return sign ? -value : value;
	}
	memcpy(&value, &bits, 4);
	return value;
}

uint16_t weir_float_to_half(float value)
{
	uint32_t bits, sign, fraction;
	int32_t exponent;

	memcpy(&bits, &value, 4);
	sign = bits >> 16 & 0x8000;
	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	exponent = (int32_t)(bits >> 23 & 0xff) - 127 + 15;
	fraction = bits & 0x7fffff;
	if (exponent >= 31)
		return (uint16_t)(sign | 0x7c00);
	if (exponent <= 0) {
		uint32_t shift, whole, half;

		if (exponent < -10)
			return (uint16_t)sign;
		fraction |= 0x800000;
		shift = (uint32_t)(14 - exponent);
		whole = fraction >> shift;
		half = 1u << (shift - 1);
		if ((fraction & (2 * half - 1)) > half || ((fraction & (2 * half - 1)) == half && (whole & 1)))
			whole++;
		return (uint16_t)(sign | whole);
	}
	uint32_t whole = (uint32_t)exponent << 10 | fraction >> 13;

	if ((fraction & 0x1fff) > 0x1000 || ((fraction & 0x1fff) == 0x1000 && (whole & 1)))
		whole++;
	return (uint16_t)(sign | whole);
}

static bool parse_integer(const struct weir_type *type, const char *text, size_t size, void *out)
{
	bool negative = size && text[0] == '-';
	uint64_t value;
	uint32_t bits = type->byte_width * 8;

	if (size && (text[0] == '-' || text[0] == '+')) {
		text++;
		size--;
	}
	if (!weir_parse_u64(text, size, &value))
		return false;
	if (weir_type_is_signed(type)) {
		uint64_t limit = ((uint64_t)1 << (bits - 1)) - !negative;

		if (value > limit)
			return false;
	} else if ((negative && value) || (bits < 64 && value >> bits)) {
		return false;
	}
	if (negative)
		value = -value;
	memcpy(out, &value, type->byte_width);
	return true;
}

static uint32_t unit_digits(const struct weir_type *type)
{
	static const uint8_t digits[] = {[WEIR_SECOND] = 0, [WEIR_MILLI] = 3, [WEIR_MICRO] = 6, [WEIR_NANO] = 9};

	return digits[type->unit];
}

static bool parse_timestamp(const struct weir_type *type, const char *text, size_t size, int64_t *out)
{
	struct weir_timestamp_text found;

	if (!weir_scan_timestamp_signed(text, size, &found))
		return false;
	/* A zone in the text needs one in the type; text without one is taken as UTC only where the type is UTC. */
	if (found.has_zone != (type->timezone != NULL) && (found.has_zone || !weir_timezone_is_utc(type->timezone)))
		return false;
	return weir_timestamp_units(&found, unit_digits(type), out);
}

static bool parse_bool(const char *text, size_t size, uint8_t *out)
{
	static const char *const words[] = {"false", "true", "False", "True", "FALSE", "TRUE", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i]) == size && !memcmp(words[i], text, size)) {
			*out = i & 1;
			return true;
		}
	}
	return false;
}

bool weir_value_parse(const struct weir_type *type, const char *text, size_t size, void *out)
{
	struct weir_int256 decimal;
	int64_t whole;
	int32_t days;
	float narrow;
	uint16_t half;

	switch (type->id) {
	case WEIR_BOOL:
		return parse_bool(text, size, out);
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		return parse_integer(type, text, size, out);
	case WEIR_DURATION:
		return parse_integer(weir_type_of(WEIR_INT64), text, size, out);
	case WEIR_DOUBLE:
		return size && weir_parse_double(text, size, WEIR_NUMBER_PYTHON, out) == size;
	case WEIR_FLOAT:
		return size && weir_parse_float(text, size, WEIR_NUMBER_PYTHON, out) == size;
	case WEIR_HALF:
		if (!size || weir_parse_float(text, size, WEIR_NUMBER_PYTHON, &narrow) != size)
			return false;
		half = weir_float_to_half(narrow);
		memcpy(out, &half, 2);
		return true;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		return weir_decimal_parse(text, size, type->precision, type->scale, &decimal) &&
		       weir_int256_store(&decimal, out, type->byte_width);
	case WEIR_DATE32:
		return weir_parse_date_signed(text, size, out);
	case WEIR_DATE64:
		if (!weir_parse_date_signed(text, size, &days))
			return false;
		whole = (int64_t)days * 86400000;
		memcpy(out, &whole, 8);
		return true;
	case WEIR_TIME32:
	case WEIR_TIME64:
		if (!weir_parse_time(text, size, unit_digits(type), &whole))
			return false;
		memcpy(out, &whole, type->byte_width);
		return true;
	case WEIR_TIMESTAMP:
		return parse_timestamp(type, text, size, out);
	default:
		return false;
	}
}

static int64_t load_integer(const struct weir_type *type, const void *value)
{
	int64_t wide = 0;
	uint32_t unused = 64 - type->byte_width * 8;

	memcpy(&wide, value, type->byte_width);
	return unused ? (int64_t)((uint64_t)wide << unused) >> unused : wide;
}

size_t weir_value_format(const struct weir_type *type, const void *value, char *buffer)
{
	struct weir_int256 decimal;
	uint64_t natural = 0;
	size_t size;

	switch (type->id) {
	case WEIR_BOOL:
		size = *(const uint8_t *)value ? 4 : 5;
		memcpy(buffer, *(const uint8_t *)value ? "true" : "false", size);
		break;
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
	case WEIR_DURATION:
		size = weir_format_i64(load_integer(type, value), buffer);
		break;
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		memcpy(&natural, value, type->byte_width);
		size = weir_format_u64(natural, buffer);
		break;
	case WEIR_HALF:
		size = weir_format_float(weir_half_to_float(*(const uint16_t *)value), buffer);
		break;
	case WEIR_FLOAT:
		size = weir_format_float(*(const float *)value, buffer);
		break;
	case WEIR_DOUBLE:
		size = weir_format_double(*(const double *)value, buffer);
		break;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		decimal = weir_int256_load(value, type->byte_width);
		return weir_decimal_format(&decimal, type->scale, buffer);
	case WEIR_DATE32:
		size = weir_format_date(load_integer(type, value), buffer);
		break;
	case WEIR_DATE64:
		size = weir_format_date(weir_floor_div(load_integer(type, value), 86400000), buffer);
		break;
	case WEIR_TIME32:
	case WEIR_TIME64:
		size = weir_format_time(load_integer(type, value), unit_digits(type), buffer);
		break;
	case WEIR_TIMESTAMP:
		size = weir_format_timestamp(load_integer(type, value), unit_digits(type), ' ', buffer);
		/* With a zone the number counts from UTC, and so does the text. */
		if (type->timezone)
			buffer[size++] = 'Z';
		break;
	default:
		buffer[0] = '?';
		size = 1;
		break;
	}
	buffer[size] = 0;
	return size;
}
