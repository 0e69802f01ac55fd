/* The fixed layouts are read eight bytes at a time:
 *
 *     Y Y Y Y - M M -   D D T h h : m m   : s s
 *     └── load 8 ────┘  └── load 8 ───┘
 *
 * Each word is compared with its separators, and what is left must be digits. What is shorter or longer than a whole
 * timestamp goes on byte by byte.
 */
#include "base/timetext.h"

#include "base/calendar.h"
#include "base/number.h"

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

static inline uint64_t load8(const char *p)
{
	uint64_t word;

	memcpy(&word, p, 8);
	return word;
}

/* Two digits at byte `at` of a word of digits 0 … 9. */
static inline uint32_t pair(uint64_t word, uint32_t at)
{
	return (uint32_t)(word >> at * 8 & 0xff) * 10 + (uint32_t)(word >> (at + 1) * 8 & 0xff);
}

/* "YYYY-MM-DD", checked; days since 1970. `before_zero`: a '-' stood in front. */
static inline bool date(const char *text, bool before_zero, int32_t *out)
{
	static const uint8_t lengths[16] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0};
	uint64_t word = load8(text) ^ 0x2d30302d30303030; /* "0000-00-" */
	uint32_t year, month, day, century, tens = (uint8_t)(text[8] - '0'), ones = (uint8_t)(text[9] - '0');

	if (word & 0xff0000ff00000000 || !weir_digits8_valid(word) || tens > 9 || ones > 9)
		return false;
	year = pair(word, 0) * 100 + pair(word, 2);
	/* The calendar comes again every 400 years. */
	if (before_zero)
		year = 10000 - year;
	month = pair(word, 5);
	day = tens * 10 + ones;
	if (month > 12 || day - 1 >= lengths[month])
		return false;
	/* A century is a leap year when 16 divides it, since 25 does. */
	if (month == 2 && day == 29 && year & (year % 100 ? 3 : 15))
		return false;
	/* Years from March, 400 of them added, so that nothing is negative. */
	year += 400 - (month <= 2);
	month += month <= 2 ? 12 : 0;
	century = year / 100;
	*out = (int32_t)(year * 1461 / 4 - century + century / 4 + (979 * month - 2919) / 32 + day) -
	       (719468 + 146097 + 1) - (before_zero ? 25 * 146097 : 0);
	return true;
}

static inline bool two_digits(const char **text, const char *end, uint32_t *out)
{
	uint32_t tens, ones;

	if (end - *text < 2)
		return false;
	tens = (uint8_t)((*text)[0] - '0');
	ones = (uint8_t)((*text)[1] - '0');
	*out = tens * 10 + ones;
	*text += 2;
	return tens <= 9 && ones <= 9;
}

static bool symbol(const char **text, const char *end, char wanted)
{
	if (*text == end || **text != wanted)
		return false;
	++*text;
	return true;
}

/* [.digits], one to nine of them. */
static bool fraction(const char **text, const char *end, uint32_t *nanoseconds, uint8_t *digits)
{
	uint32_t value = 0, count = 0;

	*nanoseconds = 0;
	*digits = 0;
	if (!symbol(text, end, '.'))
		return true;
	for (; *text < end && (uint8_t)(**text - '0') <= 9 && count < 9; ++*text, count++)
		value = value * 10 + (uint8_t)(**text - '0');
	*nanoseconds = value * powers[9 - count];
	*digits = (uint8_t)count;
	return count > 0;
}

/* hh[:mm[:ss[.fraction]]] in seconds; `least` of the two-digit parts must be there. */
static bool clock(const char **text, const char *end, uint32_t least, uint32_t *seconds, uint32_t *nanoseconds,
		  uint8_t *digits)
{
	static const uint32_t limits[] = {24, 60, 60}, weights[] = {3600, 60, 1};
	uint32_t part, count = 0;

	*seconds = *nanoseconds = 0;
	*digits = 0;
	do {
		if (!two_digits(text, end, &part) || part >= limits[count])
			return false;
		*seconds += part * weights[count++];
	} while (count < 3 && symbol(text, end, ':'));
	return count >= least && (count < 3 || fraction(text, end, nanoseconds, digits));
}

static bool zone(const char **text, const char *end, int32_t *seconds)
{
	uint32_t hours, minutes = 0;
	bool west = **text == '-';

	*seconds = 0;
	if (symbol(text, end, 'Z'))
		return true;
	if (**text != '+' && !west)
		return false;
	++*text;
	if (!two_digits(text, end, &hours))
		return false;
	if (*text < end) {
		symbol(text, end, ':');
		if (!two_digits(text, end, &minutes))
			return false;
	}
	if (hours > 23 || minutes > 59)
		return false;
	*seconds = (int32_t)(hours * 3600 + minutes * 60);
	*seconds = west ? -*seconds : *seconds;
	return true;
}

bool weir_parse_date(const char *text, size_t size, int32_t *days)
{
	return size == 10 && date(text, false, days);
}

bool weir_parse_date_signed(const char *text, size_t size, int32_t *days)
{
	bool before_zero = size == 11 && *text == '-';

	return size == (before_zero ? 11 : 10) && date(text + before_zero, before_zero, days);
}

bool weir_parse_time(const char *text, size_t size, uint32_t digits, int64_t *out)
{
	const char *end = text + size;
	uint32_t seconds, nanoseconds;
	uint8_t written;

	if (!clock(&text, end, 2, &seconds, &nanoseconds, &written) || text != end || nanoseconds % powers[9 - digits])
		return false;
	*out = (int64_t)seconds * powers[digits] + nanoseconds / powers[9 - digits];
	return true;
}

static bool scan_timestamp(const char *text, size_t size, bool before_zero, struct weir_timestamp_text *out)
{
	const char *end = text + size;
	uint32_t seconds;
	int32_t days;

	if (size < 10 || !date(text, before_zero, &days))
		return false;
	*out = (struct weir_timestamp_text){.seconds = (int64_t)days * 86400};
	if (size == 10)
		return true;
	if (text[10] != ' ' && text[10] != 'T')
		return false;
	out->has_time = true;
	if (size >= 19 && text[13] == ':' && text[16] == ':') {
		/* "DD hh:mm", of which the days are known to be digits. */
		uint64_t word = load8(text + 8) ^ ((uint64_t)(uint8_t)text[10] << 16 | 0x30303a3030003030);
		uint32_t tens = (uint8_t)(text[17] - '0'), ones = (uint8_t)(text[18] - '0');
		uint32_t hour = pair(word, 3), minute = pair(word, 6), second = tens * 10 + ones;

		if (word & 0x0000ff0000000000 || !weir_digits8_valid(word) || tens > 9 || ones > 9 || hour > 23 ||
		    minute > 59 || second > 59)
			return false;
		out->seconds += hour * 3600 + minute * 60 + second;
		text += 19;
		if (text == end)
			return true;
		if (!fraction(&text, end, &out->nanoseconds, &out->fraction_digits))
			return false;
	} else {
		text += 11;
		if (!clock(&text, end, 1, &seconds, &out->nanoseconds, &out->fraction_digits))
			return false;
		out->seconds += seconds;
	}
	if (text == end)
		return true;
	out->has_zone = true;
	return zone(&text, end, &out->zone_seconds) && text == end;
}

bool weir_scan_timestamp(const char *text, size_t size, struct weir_timestamp_text *out)
{
	return scan_timestamp(text, size, false, out);
}

bool weir_scan_timestamp_signed(const char *text, size_t size, struct weir_timestamp_text *out)
{
	bool before_zero = size && *text == '-';

	return scan_timestamp(text + before_zero, size - before_zero, before_zero, out);
}

bool weir_timestamp_units(const struct weir_timestamp_text *text, uint32_t digits, int64_t *out)
{
	uint32_t step = powers[9 - digits];
	int64_t seconds = text->seconds - text->zone_seconds, units;
	int64_t rest = text->nanoseconds / step;

	if (text->nanoseconds % step)
		return false;
	/* A negative second times the unit may just not fit where its sum with the fraction does. */
	if (seconds < 0 && rest) {
		seconds++;
		rest -= powers[digits];
	}
	return !__builtin_mul_overflow(seconds, (int64_t)powers[digits], &units) &&
	       !__builtin_add_overflow(units, rest, out);
}

/* ---- printing ---- */

size_t weir_format_date(int64_t days, char *out)
{
	struct weir_calendar_day day = weir_calendar_day(days);
	uint64_t year = day.year < 0 ? -(uint64_t)day.year : (uint64_t)day.year;
	size_t size = 0;

	if (day.year < 0)
		out[size++] = '-';
	if (year <= 9999) {
		weir_format_padded(year, 4, out + size);
		size += 4;
	} else {
		size += weir_format_u64(year, out + size);
	}
	out[size] = '-';
	weir_format_padded(day.month, 2, out + size + 1);
	out[size + 3] = '-';
	weir_format_padded(day.day, 2, out + size + 4);
	return size + 6;
}

/* hh:mm:ss[.fraction]; hours take more than two digits where they are not of a day. Inlined for each unit: divisions by
 * constants are several times as fast. */
static inline __attribute__((always_inline)) size_t format_time(int64_t units, const uint32_t digits, char *out)
{
	bool negative = units < 0;
	uint64_t size = negative ? -(uint64_t)units : (uint64_t)units, per_second = powers[digits];
	uint64_t seconds = size / per_second, hours = seconds / 3600;
	uint32_t rest = (uint32_t)(seconds % 3600);
	char *p = out;

	if (negative)
		*p++ = '-';
	if (hours < 100) {
		weir_format_padded(hours, 2, p);
		p += 2;
	} else {
		p += weir_format_u64(hours, p);
	}
	p[0] = ':';
	weir_format_padded(rest / 60, 2, p + 1);
	p[3] = ':';
	weir_format_padded(rest % 60, 2, p + 4);
	p += 6;
	if (digits) {
		*p = '.';
		weir_format_padded(size % per_second, digits, p + 1);
		p += digits + 1;
	}
	return (size_t)(p - out);
}

static inline __attribute__((always_inline)) size_t format_timestamp(int64_t units, const uint32_t digits,
								     char separator, char *out)
{
	int64_t per_day = (int64_t)86400 * powers[digits], days = units / per_day, rest = units % per_day;
	size_t size;

	if (rest < 0) {
		rest += per_day;
		days--;
	}
	size = weir_format_date(days, out);
	out[size] = separator;
	return size + 1 + format_time(rest, digits, out + size + 1);
}

size_t weir_format_time(int64_t units, uint32_t digits, char *out)
{
	return digits == 0   ? format_time(units, 0, out)
	       : digits == 3 ? format_time(units, 3, out)
	       : digits == 6 ? format_time(units, 6, out)
			     : format_time(units, 9, out);
}

size_t weir_format_timestamp(int64_t units, uint32_t digits, char separator, char *out)
{
	return digits == 0   ? format_timestamp(units, 0, separator, out)
	       : digits == 3 ? format_timestamp(units, 3, separator, out)
	       : digits == 6 ? format_timestamp(units, 6, separator, out)
			     : format_timestamp(units, 9, separator, out);
}
