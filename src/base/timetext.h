/* timetext: dates, times of day and timestamps as ISO 8601 text and back, in the proleptic Gregorian calendar.
 *
 *     date       2024-02-29
 *     time       12:30   12:30:15   12:30:15.125
 *     timestamp  2024-02-29   2024-02-29 12   2024-02-29T12:30   2024-02-29 12:30:15.123456789
 *                each that has a time also with Z, +hh, +hhmm or +hh:mm behind it
 *
 * That is what pyarrow reads as such. A text is taken whole or not at all; no blanks, no 24:00, no leap seconds, no
 * days that the month does not have. A unit is given by its decimal digits: 0 for seconds, 3, 6 or 9.
 */
#ifndef WEIR_BASE_TIMETEXT_H
#define WEIR_BASE_TIMETEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_TIME_TEXT_MAX = 64 }; /* what printing may write */

struct weir_timestamp_text {
	int64_t seconds;      /* since 1970 by the text's own clock; less zone_seconds it is UTC */
	uint32_t nanoseconds; /* of the second */
	int32_t zone_seconds; /* east of UTC */
	uint8_t fraction_digits;
	bool has_time, has_zone;
};

/* `*days` since 1970-01-01. The two `_signed` ones take a '-' in front too, for the years before 0. */
bool weir_parse_date_signed(const char *text, size_t size, int32_t *days);
bool weir_scan_timestamp_signed(const char *text, size_t size, struct weir_timestamp_text *out);
bool weir_parse_date(const char *text, size_t size, int32_t *days);
/* Since midnight. False too when the unit cannot hold the fraction. */
bool weir_parse_time(const char *text, size_t size, uint32_t digits, int64_t *out);
bool weir_scan_timestamp(const char *text, size_t size, struct weir_timestamp_text *out);
/* Since 1970 in UTC. False: the unit cannot hold the fraction, or 64 bits the result. */
bool weir_timestamp_units(const struct weir_timestamp_text *text, uint32_t digits, int64_t *out);

/* Printing returns the size. Years take four digits or as many as they need, with a '-' before year 0; the fraction has
 * all of the unit's digits. */
size_t weir_format_date(int64_t days, char *out);
size_t weir_format_time(int64_t units, uint32_t digits, char *out);
/* "2024-02-29 12:30:15.125"; `separator` is ' ' or 'T'. */
size_t weir_format_timestamp(int64_t units, uint32_t digits, char separator, char *out);

#endif
