/* value: single values as text and back, by type; and the calendar. What casts, literals and messages share. */
#ifndef WEIR_ARROW_VALUE_H
#define WEIR_ARROW_VALUE_H

#include "base/calendar.h"
#include "arrow/type.h"

enum { WEIR_VALUE_TEXT_MAX = 128 }; /* what weir_value_format needs at most */

/* Reads `size` bytes of text as a value of a FIXED or BITS type (a bool as one byte) into `out`; false when it is none,
 * or does not fit. No blanks around it. */
bool weir_value_parse(const struct weir_type *type, const char *text, size_t size, void *out);
/* The text that parse reads back, as Python would write it, terminated; returns its size. */
size_t weir_value_format(const struct weir_type *type, const void *value, char *buffer);

float weir_half_to_float(uint16_t half);
uint16_t weir_float_to_half(float value);

static inline int64_t weir_unit_per_second(enum weir_time_unit unit)
{
	return unit == WEIR_SECOND ? 1 : unit == WEIR_MILLI ? 1000 : unit == WEIR_MICRO ? 1000000 : 1000000000;
}
static inline int64_t weir_floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
static inline int64_t weir_floor_mod(int64_t a, int64_t b)
{
	int64_t rest = a % b;

	return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}
/* "UTC", "Z", "+00:00", "Etc/UTC": no table is needed. */
bool weir_timezone_is_utc(const char *timezone);

#endif
