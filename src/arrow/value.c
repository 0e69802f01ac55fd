/* Text is what ISO 8601 and Python write: 2024-02-29, 2024-02-29 12:30:00.125, 12:30, 1.5, 1e-07, True. */
#include "arrow/value.h"

#include "base/number.h"
#include "arrow/decimal.h"

#include <stdio.h>
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

static bool digits(const char **text, const char *end, uint32_t count, uint32_t *out)
{
	*out = 0;
	if (end - *text < (ptrdiff_t)count)
		return false;
	for (; count; count--, ++*text) {
		if (**text < '0' || **text > '9')
			return false;
		*out = *out * 10 + (uint32_t)(**text - '0');
	}
	return true;
}

static bool symbol(const char **text, const char *end, char wanted)
{
	if (*text == end || **text != wanted)
		return false;
	++*text;
	return true;
}

static bool parse_date(const char **text, const char *end, int64_t *days)
{
	static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	uint32_t year, month, day;
	bool negative = symbol(text, end, '-'), leap;

	if (!digits(text, end, 4, &year) || !symbol(text, end, '-') || !digits(text, end, 2, &month) ||
	    !symbol(text, end, '-') || !digits(text, end, 2, &day) || month < 1 || month > 12 || day < 1)
		return false;
	leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	if (day > lengths[month - 1] + (uint32_t)(leap && month == 2))
		return false;
	*days = weir_calendar_number(negative ? -(int64_t)year : (int64_t)year, month, day);
	return true;
}

/* hh:mm[:ss[.fraction]] in units since midnight. */
static bool parse_clock(const char **text, const char *end, enum weir_time_unit unit, int64_t *out)
{
	uint32_t hour, minute, second = 0;
	int64_t fraction = 0, weight = weir_unit_per_second(unit);

	if (!digits(text, end, 2, &hour) || !symbol(text, end, ':') || !digits(text, end, 2, &minute))
		return false;
	if (symbol(text, end, ':')) {
		if (!digits(text, end, 2, &second))
			return false;
		if (symbol(text, end, '.')) {
			const char *begin = *text;

			for (; *text < end && **text >= '0' && **text <= '9'; ++*text) {
				weight /= 10;
				/* A digit that the unit cannot hold. */
				if (!weight && **text != '0')
					return false;
				fraction += weight * (**text - '0');
			}
			if (*text == begin)
				return false;
		}
	}
	if (hour > 23 || minute > 59 || second > 59)
		return false;
	*out = ((int64_t)hour * 3600 + minute * 60 + second) * weir_unit_per_second(unit) + fraction;
	return true;
}

/* Z, +hh:mm, +hhmm, +hh: seconds east. */
static bool parse_zone(const char **text, const char *end, int64_t *seconds, bool *found)
{
	uint32_t hours, minutes = 0;
	bool negative;

	*seconds = 0;
	*found = *text < end;
	if (!*found || symbol(text, end, 'Z'))
		return true;
	negative = **text == '-';
	if (!negative && **text != '+')
		return false;
	++*text;
	if (!digits(text, end, 2, &hours))
		return false;
	symbol(text, end, ':');
	if (*text < end && !digits(text, end, 2, &minutes))
		return false;
	if (hours > 23 || minutes > 59)
		return false;
	*seconds = (int64_t)hours * 3600 + minutes * 60;
	if (negative)
		*seconds = -*seconds;
	return true;
}

static bool parse_timestamp(const struct weir_type *type, const char *text, size_t size, int64_t *out)
{
	const char *end = text + size;
	int64_t days, clock = 0, zone = 0, seconds, per_second = weir_unit_per_second(type->unit);
	bool has_zone = false;

	if (!parse_date(&text, end, &days))
		return false;
	if (text < end) {
		if (*text != ' ' && *text != 'T')
			return false;
		text++;
		if (!parse_clock(&text, end, type->unit, &clock) || !parse_zone(&text, end, &zone, &has_zone) ||
		    text != end)
			return false;
	}
	/* A zone in the text needs one in the type; text without one is taken as UTC only where the type is UTC. */
	if (has_zone != (type->timezone != NULL) && (has_zone || !weir_timezone_is_utc(type->timezone)))
		return false;
	if (__builtin_mul_overflow(days, (int64_t)86400, &seconds) || __builtin_sub_overflow(seconds, zone, &seconds) ||
	    __builtin_mul_overflow(seconds, per_second, &seconds) || __builtin_add_overflow(seconds, clock, &seconds))
		return false;
	*out = seconds;
	return true;
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
	const char *end = text + size;
	struct weir_int256 decimal;
	int64_t whole;
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
	case WEIR_DATE64:
		if (!parse_date(&text, end, &whole) || text != end)
			return false;
		if (type->id == WEIR_DATE64) {
			whole *= 86400000;
			memcpy(out, &whole, 8);
		} else {
			int32_t days = (int32_t)whole;

			memcpy(out, &days, 4);
		}
		return true;
	case WEIR_TIME32:
	case WEIR_TIME64:
		if (!parse_clock(&text, end, type->unit, &whole) || text != end)
			return false;
		if (type->id == WEIR_TIME64) {
			memcpy(out, &whole, 8);
		} else {
			int32_t narrow = (int32_t)whole;

			memcpy(out, &narrow, 4);
		}
		return true;
	case WEIR_TIMESTAMP:
		return parse_timestamp(type, text, size, out);
	default:
		return false;
	}
}

static size_t format_date(int64_t days, char *buffer)
{
	struct weir_calendar_day civil = weir_calendar_day(days);

	return (size_t)snprintf(buffer, 32, "%s%04lld-%02u-%02u", civil.year < 0 ? "-" : "",
				(long long)(civil.year < 0 ? -civil.year : civil.year), civil.month, civil.day);
}

static size_t format_clock(int64_t units, enum weir_time_unit unit, char *buffer)
{
	static const int widths[] = {0, 3, 6, 9};
	int64_t per_second = weir_unit_per_second(unit), seconds = units / per_second;
	size_t size = (size_t)snprintf(buffer, 32, "%02lld:%02lld:%02lld", (long long)(seconds / 3600),
				       (long long)(seconds / 60 % 60), (long long)(seconds % 60));

	if (widths[unit])
		size += (size_t)snprintf(buffer + size, 16, ".%0*lld", widths[unit], (long long)(units % per_second));
	return size;
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
	int64_t whole, day_units;
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
		return format_date(load_integer(type, value), buffer);
	case WEIR_DATE64:
		return format_date(weir_floor_div(load_integer(type, value), 86400000), buffer);
	case WEIR_TIME32:
	case WEIR_TIME64:
		return format_clock(load_integer(type, value), type->unit, buffer);
	case WEIR_TIMESTAMP:
		whole = load_integer(type, value);
		day_units = 86400 * weir_unit_per_second(type->unit);
		size = format_date(weir_floor_div(whole, day_units), buffer);
		buffer[size++] = ' ';
		size += format_clock(weir_floor_mod(whole, day_units), type->unit, buffer + size);
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
