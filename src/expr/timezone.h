/* timezone: offsets from UTC by the rules of a zone. Fixed offsets ("+02:00") and, by zoneinfo files (TZif, RFC 8536,
 * versions 1 to 4), named zones; past the last transition in the file the POSIX rule at its end applies. The files are
 * the system's, or $TZDIR's, or where there are none those of Python's tzdata package ($WEIR_TZDATA, $VIRTUAL_ENV, the
 * usual folders). */
#ifndef WEIR_EXPR_TIMEZONE_H
#define WEIR_EXPR_TIMEZONE_H

#include "base/mem.h"

struct weir_timezone;

/* WEIR_E_UNSUPPORTED when the zone or its file is not known. */
int weir_timezone_new(struct weir_account *account, const char *name, struct weir_timezone **out,
		      struct weir_error *err);
void weir_timezone_free(struct weir_timezone *zone);
/* Seconds east of UTC at an instant (seconds since 1970). */
int64_t weir_timezone_offset(const struct weir_timezone *zone, int64_t seconds);
/* The instant that a wall clock shows `units` at (the earlier one when it shows it twice). */
int64_t weir_timezone_to_utc(const struct weir_timezone *zone, int64_t units, int64_t per_second);

#endif
