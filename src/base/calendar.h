/* calendar: days since 1970-01-01 and back, in the proleptic Gregorian calendar, for any year. */
#ifndef WEIR_BASE_CALENDAR_H
#define WEIR_BASE_CALENDAR_H

#include <stdint.h>

struct weir_calendar_day {
	int64_t year;
	uint32_t month, day; /* from 1 */
};

int64_t weir_calendar_number(int64_t year, uint32_t month, uint32_t day);
struct weir_calendar_day weir_calendar_day(int64_t days);

#endif
