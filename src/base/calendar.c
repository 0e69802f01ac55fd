#include "base/calendar.h"

static int64_t floor_div(int64_t value, int64_t by)
{
	return value / by - (value % by < 0);
}

int64_t weir_calendar_number(int64_t year, uint32_t month, uint32_t day)
{
	int64_t era, year_of_era, day_of_year;

	/* Years begin in March here, so that the leap day is the last. */
	year -= month <= 2;
	era = floor_div(year, 400);
	year_of_era = year - era * 400;
	day_of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

struct weir_calendar_day weir_calendar_day(int64_t days)
{
	struct weir_calendar_day out;
	int64_t era, day_of_era, year_of_era, day_of_year, march_month;

	days += 719468;
	era = floor_div(days, 146097);
	day_of_era = days - era * 146097;
	year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	march_month = (5 * day_of_year + 2) / 153;
	out.day = (uint32_t)(day_of_year - (153 * march_month + 2) / 5 + 1);
	out.month = (uint32_t)(march_month < 10 ? march_month + 3 : march_month - 9);
	out.year = year_of_era + era * 400 + (out.month <= 2);
	return out;
}
