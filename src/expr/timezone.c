/* A zone is a sorted list of instants at which its offset changes, and a rule for the time after the last of them:
 *
 *     "TZif" header ─ data in 32 bits, skipped ─ "TZif" header ─ instants (8 bytes each) ─ types (1 each)
 *     ─ type: offset, is_dst, name ─ … ─ "\nCET-1CEST,M3.5.0,M10.5.0/3\n"
 *
 * A file of version 1 ends after the data in 32 bits and has no rule. Files are read whole, once while binding, and at
 * most ZONE_BYTES_MAX of them. They are looked for in $TZDIR, where systems keep them, and in the tzdata package of the
 * Python that is in use, for systems that have none.
 */
#include "expr/timezone.h"

#include "base/number.h"
#include "arrow/value.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECONDS_MAX = 1000000000000000;

enum { ZONE_BYTES_MAX = 1 << 18, HEADER = 44 };

/* A day in the year at which the rule changes over. */
struct change {
	char kind; /* 'M': month, week, weekday; 'J': day 1 … 365 without leap days; 'N': day 0 … 365 */
	int month, week, day;
	int64_t seconds; /* after midnight, local */
};

struct weir_timezone {
	struct weir_account *account;
	uint32_t count;
	int64_t *instants;
	int32_t *offsets; /* from that instant on */
	int32_t first_offset;
	bool has_rule, has_summer;
	int64_t winter_offset, summer_offset;
	struct change begin, end;
};

void weir_timezone_free(struct weir_timezone *zone)
{
	if (!zone)
		return;
	weir_free(zone->account, zone->instants, zone->count * sizeof(*zone->instants));
	weir_free(zone->account, zone->offsets, zone->count * sizeof(*zone->offsets));
	weir_free(zone->account, zone, sizeof(*zone));
}

static uint32_t big32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int64_t big64(const uint8_t *bytes)
{
	return (int64_t)((uint64_t)big32(bytes) << 32 | big32(bytes + 4));
}

static bool rule_name(const char **text)
{
	const char *begin = *text;

	if (**text == '<') {
		while (**text && **text != '>')
			++*text;
		if (!**text)
			return false;
		++*text;
		return true;
	}
	while (isalpha((unsigned char)**text))
		++*text;
	return *text - begin >= 3;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool rule_clock(const char **text, int64_t *out)
{
	int sign = 1;
	int64_t parts[3] = {0};
	char *end;

	if (**text == '-' || **text == '+')
		sign = *(*text)++ == '-' ? -1 : 1;
	for (int i = 0; i < 3; i++) {
		if (!isdigit((unsigned char)**text))
			return false;
		parts[i] = strtol(*text, &end, 10);
		*text = end;
		if (parts[i] > 167 || **text != ':')
			break;
		++*text;
	}
	*out = sign * (parts[0] * 3600 + parts[1] * 60 + parts[2]);
	return true;
}

static bool rule_change(const char **text, struct change *out)
{
	char *end;

	*out = (struct change){.kind = 'N', .seconds = 7200};
	if (*(*text)++ != ',')
		return false;
	if (**text == 'M') {
		out->kind = 'M';
		out->month = (int)strtol(*text + 1, &end, 10);
		if (*end != '.')
			return false;
		out->week = (int)strtol(end + 1, &end, 10);
		if (*end != '.')
			return false;
		out->day = (int)strtol(end + 1, &end, 10);
		if (out->month < 1 || out->month > 12 || out->week < 1 || out->week > 5 || out->day < 0 || out->day > 6)
			return false;
	} else {
		if (**text == 'J') {
			out->kind = 'J';
			++*text;
		}
		out->day = (int)strtol(*text, &end, 10);
		if (end == *text || out->day < 0 || out->day > 366)
			return false;
	}
	*text = end;
	if (**text == '/') {
		++*text;
		return rule_clock(text, &out->seconds);
	}
	return true;
}

static void parse_rule(struct weir_timezone *zone, const char *text)
{
	int64_t west;

	if (!rule_name(&text) || !rule_clock(&text, &west))
		return;
	zone->winter_offset = -west;
	if (*text) {
		zone->summer_offset = zone->winter_offset + 3600;
		if (!rule_name(&text))
			return;
		if (*text && *text != ',') {
			if (!rule_clock(&text, &west))
				return;
			zone->summer_offset = -west;
		}
		if (!rule_change(&text, &zone->begin) || !rule_change(&text, &zone->end) || *text)
			return;
		zone->has_summer = true;
	}
	zone->has_rule = true;
}

/* The local second at which a change falls in a year, counted from 1970. */
static int64_t change_at(const struct change *change, int64_t year)
{
	int64_t days = weir_calendar_number(year, 1, 1);
	bool is_leap = weir_calendar_number(year + 1, 1, 1) - days == 366;

	if (change->kind == 'M') {
		int64_t first = weir_calendar_number(year, (uint32_t)change->month, 1);
		int64_t next = change->month == 12 ? weir_calendar_number(year + 1, 1, 1)
						   : weir_calendar_number(year, (uint32_t)change->month + 1, 1);
		/* Sunday is 0; 1970-01-01 was a Thursday. */
		int64_t weekday = weir_floor_mod(first + 4, 7);

		days = first + weir_floor_mod(change->day - weekday, 7) + (change->week - 1) * 7;
		if (days >= next)
			days -= 7;
	} else if (change->kind == 'J') {
		days += change->day - 1 + (is_leap && change->day > 59);
	} else {
		days += change->day;
	}
	return days * 86400 + change->seconds;
}

static int64_t rule_offset(const struct weir_timezone *zone, int64_t seconds)
{
	int64_t year, begin, end;

	if (!zone->has_summer)
		return zone->winter_offset;
	year = weir_calendar_day(weir_floor_div(seconds + zone->winter_offset, 86400)).year;
	begin = change_at(&zone->begin, year) - zone->winter_offset;
	end = change_at(&zone->end, year) - zone->summer_offset;
	if (begin < end)
		return seconds >= begin && seconds < end ? zone->summer_offset : zone->winter_offset;
	return seconds >= end && seconds < begin ? zone->winter_offset : zone->summer_offset;
}

int64_t weir_timezone_offset(const struct weir_timezone *zone, int64_t seconds)
{
	uint32_t low = 0, high = zone->count;

	/* Thirty million years; further out nothing is to be told apart, and nothing overflows. */
	seconds = seconds > SECONDS_MAX ? SECONDS_MAX : seconds < -SECONDS_MAX ? -SECONDS_MAX : seconds;
	if (zone->has_rule && (!zone->count || seconds > zone->instants[zone->count - 1]))
		return rule_offset(zone, seconds);
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (zone->instants[middle] <= seconds)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? zone->offsets[low - 1] : zone->first_offset;
}

int64_t weir_timezone_to_utc(const struct weir_timezone *zone, int64_t units, int64_t per_second)
{
	int64_t whole = weir_floor_div(units, per_second);
	int64_t local = whole > SECONDS_MAX ? SECONDS_MAX : whole < -SECONDS_MAX ? -SECONDS_MAX : whole;
	int64_t before = weir_timezone_offset(zone, local - 86400), after = weir_timezone_offset(zone, local + 86400);
	bool fits_before = weir_timezone_offset(zone, local - before) == before;
	bool fits_after = weir_timezone_offset(zone, local - after) == after;
	int64_t offset = before;

	/* In a gap neither fits: the clock is read as if it had not been moved. */
	if (fits_after && (!fits_before || after > before))
		offset = after;
	return __builtin_sub_overflow(units, offset * per_second, &whole) ? units : whole;
}

/* The file's 64-bit part, or the only one. False: damaged. */
static bool parse_file(struct weir_timezone *zone, const uint8_t *bytes, size_t size, struct weir_error *err)
{
	size_t at = 0, need;
	uint32_t times, types, characters, leaps, standards, universals;
	const uint8_t *kinds, *infos;
	bool is_first_version;

	for (int block = 0; block < 2; block++) {
		uint32_t width = block ? 8 : 4;

		if (size - at < HEADER || memcmp(bytes + at, "TZif", 4))
			return false;
		is_first_version = bytes[at + 4] < '2';
		if (block && is_first_version)
			return false;
		universals = big32(bytes + at + 20);
		standards = big32(bytes + at + 24);
		leaps = big32(bytes + at + 28);
		times = big32(bytes + at + 32);
		types = big32(bytes + at + 36);
		characters = big32(bytes + at + 40);
		if ((times | types | characters | leaps | standards | universals) > ZONE_BYTES_MAX || !types)
			return false;
		at += HEADER;
		need = (size_t)times * width + times + (size_t)types * 6 + characters + (size_t)leaps * (width + 4) +
		       standards + universals;
		if (size - at < need)
			return false;
		if (!block && !is_first_version) {
			at += need;
			continue;
		}
		kinds = bytes + at + (size_t)times * width;
		infos = kinds + times;
		zone->first_offset = (int32_t)big32(infos);
		zone->count = times;
		zone->instants = weir_alloc(zone->account, times * sizeof(*zone->instants), err);
		zone->offsets = zone->instants ? weir_alloc(zone->account, times * sizeof(*zone->offsets), err) : NULL;
		if (!zone->offsets) {
			weir_free(zone->account, zone->instants, times * sizeof(*zone->instants));
			zone->instants = NULL;
			zone->count = 0;
			return false;
		}
		for (uint32_t i = 0; i < times; i++) {
			if (kinds[i] >= types)
				return false;
			zone->instants[i] = width == 8 ? big64(bytes + at + (size_t)i * 8)
						       : (int32_t)big32(bytes + at + (size_t)i * 4);
			zone->offsets[i] = (int32_t)big32(infos + (size_t)kinds[i] * 6);
			if (i && zone->instants[i] <= zone->instants[i - 1])
				return false;
		}
		at += need;
		if (is_first_version)
			return true;
	}
	if (at < size && bytes[at] == '\n') {
		char rule[128];
		size_t length = 0;

		for (at++; at < size && bytes[at] != '\n' && length + 1 < sizeof(rule); at++)
			rule[length++] = (char)bytes[at];
		rule[length] = 0;
		parse_rule(zone, rule);
	}
	return true;
}

static bool is_plain_name(const char *name)
{
	if (!*name || *name == '/' || strstr(name, "..") || strlen(name) > 64)
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("/_+-", *name))
			return false;
	}
	return true;
}

/* "+02:00", "-0530", "+02" */
static bool parse_fixed(const char *name, int64_t *out)
{
	size_t size = strlen(name);
	uint64_t hours, minutes = 0;

	if ((*name != '+' && *name != '-') || size < 3 || !weir_parse_u64(name + 1, 2, &hours))
		return false;
	if (size == 6 ? name[3] != ':' || !weir_parse_u64(name + 4, 2, &minutes)
		      : size != 3 && (size != 5 || !weir_parse_u64(name + 3, 2, &minutes)))
		return false;
	*out = (int64_t)(hours * 3600 + minutes * 60);
	if (*name == '-')
		*out = -*out;
	return hours < 24 && minutes < 60;
}

/* ---- files ---- */

/* Where Python, too, looks; and the folders of Python's packages. */
static const char *const system_folders[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo",
					     "/etc/zoneinfo"};
static const char *const package_patterns[] = {"/usr/local/lib/python3*/site-packages/tzdata/zoneinfo",
					       "/usr/local/lib/python3*/dist-packages/tzdata/zoneinfo",
					       "/usr/lib/python3*/site-packages/tzdata/zoneinfo",
					       "/usr/lib/python3*/dist-packages/tzdata/zoneinfo"};

static FILE *open_in(const char *folder, const char *name)
{
	char path[512];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return NULL;
	return fopen(path, "rbe");
}

/* In the newest of the folders that match. */
static FILE *open_matching(const char *pattern, const char *name)
{
	glob_t found = {0};
	FILE *file = NULL;

	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = found.gl_pathc; !file && i-- > 0;)
			file = open_in(found.gl_pathv[i], name);
	}
	globfree(&found);
	return file;
}

static FILE *open_zone(const char *name)
{
	const char *folder = getenv("TZDIR"), *environment = getenv("VIRTUAL_ENV");
	char pattern[512];
	FILE *file = folder && *folder ? open_in(folder, name) : NULL;

	for (size_t i = 0; !file && i < sizeof(system_folders) / sizeof(*system_folders); i++)
		file = open_in(system_folders[i], name);
	folder = getenv("WEIR_TZDATA"); /* the package's folder, from a program that knows it */
	if (!file && folder && *folder)
		file = open_in(folder, name);
	if (!file && environment && *environment &&
	    (size_t)snprintf(pattern, sizeof(pattern), "%s/lib/python3*/site-packages/tzdata/zoneinfo", environment) <
		    sizeof(pattern))
		file = open_matching(pattern, name);
	for (size_t i = 0; !file && i < sizeof(package_patterns) / sizeof(*package_patterns); i++)
		file = open_matching(package_patterns[i], name);
	return file;
}

int weir_timezone_new(struct weir_account *account, const char *name, struct weir_timezone **out,
		      struct weir_error *err)
{
	struct weir_timezone *zone = weir_alloc_zero(account, sizeof(*zone), err);
	uint8_t *bytes = NULL;
	FILE *file = NULL;
	size_t size;
	int code = WEIR_OK;

	*out = NULL;
	if (!zone)
		return err->code;
	zone->account = account;
	if (parse_fixed(name, &zone->winter_offset)) {
		zone->has_rule = true;
		*out = zone;
		return WEIR_OK;
	}
	file = is_plain_name(name) ? open_zone(name) : NULL;
	if (!file) {
		code = weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"the time zone '%.64s' is not known to this system; TZDIR may name a folder of zoneinfo "
			"files",
			name);
		goto fail;
	}
	bytes = weir_alloc(account, ZONE_BYTES_MAX, err);
	if (!bytes) {
		code = err->code;
		goto fail;
	}
	weir_error_clear(err);
	size = fread(bytes, 1, ZONE_BYTES_MAX, file);
	if (ferror(file)) {
		code = weir_error_set_errno(err, errno, "cannot read the zoneinfo file of '%s'", name);
		goto fail;
	}
	if (!parse_file(zone, bytes, size, err)) {
		code = err->code
			       ? err->code
			       : weir_error_set(err, WEIR_E_UNSUPPORTED, "the zoneinfo file of '%s' is damaged", name);
		goto fail;
	}
	fclose(file);
	weir_free(account, bytes, ZONE_BYTES_MAX);
	*out = zone;
	return WEIR_OK;
fail:
	if (file)
		fclose(file);
	weir_free(account, bytes, ZONE_BYTES_MAX);
	weir_timezone_free(zone);
	return code;
}
