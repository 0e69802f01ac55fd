/* Parts of dates and timestamps, truncation to a unit, and text by a pattern. Parts are int64, as Arrow gives them:
 * weekday counts from Monday, 0; week is ISO's; millisecond, microsecond and nanosecond are the three digits each.
 *
 * A timestamp with a zone counts from UTC; its parts are those of the wall clock there, so zones other than UTC need
 * the zone's rules (timezone.h).
 */
#include "expr/program.h"
#include "expr/text_writer.h"
#include "expr/timezone.h"

#include <stdlib.h>
#include <string.h>

enum {
	PART_YEAR,
	PART_QUARTER,
	PART_MONTH,
	PART_WEEK,
	PART_DAY,
	PART_HOUR,
	PART_MINUTE,
	PART_SECOND,
	PART_MILLISECOND,
	PART_MICROSECOND,
	PART_NANOSECOND,
	PART_WEEKDAY,
	PART_ISOWEEKDAY,
	PART_DAYOFYEAR,
};

static const char *const part_names[] = {"year",   "quarter", "month",       "week",        "day",       "hour",
					 "minute", "second",  "millisecond", "microsecond", "nanosecond"};

static bool is_time(const struct weir_type *type)
{
	return type->id == WEIR_TIME32 || type->id == WEIR_TIME64;
}

struct clock {
	int64_t per_second;               /* units a second; 0: days */
	int64_t units_per_day;            /* 1 for days */
	const struct weir_timezone *zone; /* NULL: UTC or naive */
};

static inline int64_t value_at(const struct weir_column *column, uint32_t row)
{
	return column->type->byte_width == 4 ? ((const int32_t *)column->values)[row]
					     : ((const int64_t *)column->values)[row];
}

/* The wall clock's count of units. */
static inline int64_t local_at(const struct weir_column *column, uint32_t row, const struct clock *clock)
{
	int64_t value = value_at(column, row);

	int64_t local;

	/* At the ends of time the clock shows UTC. */
	if (clock->zone &&
	    !__builtin_add_overflow(value,
				    weir_timezone_offset(clock->zone, weir_floor_div(value, clock->per_second)) *
					    clock->per_second,
				    &local))
		return local;
	return value;
}

static int64_t weekday_of(int64_t days)
{
	/* 1970-01-01 was a Thursday. */
	return weir_floor_mod(days + 3, 7);
}

static int64_t iso_week(int64_t days)
{
	/* The week belongs to the year of its Thursday. */
	int64_t thursday = days - weekday_of(days) + 3;
	struct weir_calendar_day day = weir_calendar_day(thursday);

	return (thursday - weir_calendar_number(day.year, 1, 1)) / 7 + 1;
}

#define PART_LOOP(EXPRESSION)                                                                                          \
	for (uint32_t k = 0; k < call->rows.count; k++) {                                                              \
		uint32_t row = weir_call_row(call, k);                                                                 \
		int64_t units = local_at(column, row, clock);                                                          \
                                                                                                                       \
		out[row] = (EXPRESSION);                                                                               \
	}                                                                                                              \
	break

#define DAYS weir_floor_div(units, clock->units_per_day)
#define OF_DAY weir_floor_mod(units, clock->units_per_day)

static int kernel_part(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *column = &call->arguments[0];
	const struct clock *clock = call->node->data;
	int64_t *out = call->values, second = clock->per_second;

	(void)err;
	switch (call->node->op) {
	case PART_YEAR:
		PART_LOOP(weir_calendar_day(DAYS).year);
	case PART_QUARTER:
		PART_LOOP((weir_calendar_day(DAYS).month - 1) / 3 + 1);
	case PART_MONTH:
		PART_LOOP(weir_calendar_day(DAYS).month);
	case PART_WEEK:
		PART_LOOP(iso_week(DAYS));
	case PART_DAY:
		PART_LOOP(weir_calendar_day(DAYS).day);
	case PART_WEEKDAY:
		PART_LOOP(weekday_of(DAYS));
	case PART_ISOWEEKDAY:
		PART_LOOP(weekday_of(DAYS) + 1);
	case PART_DAYOFYEAR:
		PART_LOOP(DAYS - weir_calendar_number(weir_calendar_day(DAYS).year, 1, 1) + 1);
	case PART_HOUR:
		PART_LOOP(OF_DAY / (3600 * second));
	case PART_MINUTE:
		PART_LOOP(OF_DAY / (60 * second) % 60);
	case PART_SECOND:
		PART_LOOP(OF_DAY / second % 60);
	case PART_MILLISECOND:
		PART_LOOP(second < 1000 ? 0 : OF_DAY % second / (second / 1000));
	case PART_MICROSECOND:
		PART_LOOP(second < 1000000 ? 0 : OF_DAY % second / (second / 1000000) % 1000);
	default:
		PART_LOOP(second < 1000000000 ? 0 : OF_DAY % 1000);
	}
	return WEIR_OK;
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
}

static void release_zone(void *zone)
{
	weir_timezone_free(zone);
}

static int clock_new(struct weir_program *program, const struct weir_node *node, const struct weir_type *type,
		     const struct clock **out, struct weir_error *err)
{
	struct clock *clock = weir_arena_alloc_zero(&program->arena, sizeof(*clock), err);
	struct weir_timezone *zone;
	int code;

	if (!clock)
		return err->code;
	*out = clock;
	if (type->id == WEIR_DATE32) {
		clock->units_per_day = 1;
		clock->per_second = 1;
		return WEIR_OK;
	}
	clock->per_second = type->id == WEIR_DATE64 ? 1000 : weir_unit_per_second(type->unit);
	clock->units_per_day = 86400 * clock->per_second;
	if (type->id != WEIR_TIMESTAMP || !type->timezone || weir_timezone_is_utc(type->timezone))
		return WEIR_OK;
	code = weir_timezone_new(program->account, type->timezone, &zone, err);
	if (code)
		return weir_bind_fail(program, node, err, code, "%.200s", err->message);
	clock->zone = zone;
	return weir_program_own(program, release_zone, zone, err);
}

static int bind_part(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	bool has_days = type->id == WEIR_DATE32 || type->id == WEIR_DATE64 || type->id == WEIR_TIMESTAMP;
	bool has_clock = type->id == WEIR_TIMESTAMP || type->id == WEIR_TIME32 || type->id == WEIR_TIME64;
	bool of_clock = node->op >= PART_HOUR && node->op <= PART_NANOSECOND;
	const struct clock *clock;
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_INT64), NULL, err);
	if (!(of_clock ? has_clock : has_days))
		return refuse(program, node, err);
	code = clock_new(program, node, type, &clock, err);
	if (code)
		return code;
	node->data = clock;
	weir_bind_kernel(node, weir_type_of(WEIR_INT64), kernel_part);
	node->needs_rows = true;
	return WEIR_OK;
}

struct truncation {
	const struct clock *clock;
	uint32_t to; /* TO_FLOOR … */
	uint32_t part;
	int64_t step; /* units, for a day and below */
};

static int64_t first_day(int64_t days, uint32_t part)
{
	struct weir_calendar_day day = weir_calendar_day(days);

	switch (part) {
	case PART_YEAR:
		return weir_calendar_number(day.year, 1, 1);
	case PART_QUARTER:
		return weir_calendar_number(day.year, (day.month - 1) / 3 * 3 + 1, 1);
	case PART_MONTH:
		return weir_calendar_number(day.year, day.month, 1);
	default:
		return days - weekday_of(days);
	}
}

enum { TO_FLOOR, TO_CEIL, TO_NEAREST };

/* The first day of the unit after the one that begins with `days`. */
static int64_t next_first_day(int64_t days, uint32_t part)
{
	struct weir_calendar_day day = weir_calendar_day(days);
	int64_t months = part == PART_YEAR ? 12 : part == PART_QUARTER ? 3 : 1, month = day.month - 1 + months;

	return part == PART_WEEK ? days + 7 : weir_calendar_number(day.year + month / 12, (int)(month % 12 + 1), 1);
}

/* Where the unit begins that holds `units`, and where the next one does. False: outside of all timestamps. */
static bool unit_around(const struct truncation *it, int64_t units, int64_t *low, int64_t *high)
{
	int64_t per_day = it->clock->units_per_day, day;

	if (it->part < PART_DAY) {
		day = first_day(weir_floor_div(units, per_day), it->part);
		return !__builtin_mul_overflow(day, per_day, low) &&
		       !__builtin_mul_overflow(next_first_day(day, it->part), per_day, high);
	}
	return !__builtin_mul_overflow(weir_floor_div(units, it->step), it->step, low) &&
	       !__builtin_add_overflow(*low, it->step, high);
}

static int kernel_truncate(struct weir_call *call, struct weir_error *err)
{
	const struct truncation *it = call->node->data;
	const struct weir_column *column = &call->arguments[0];
	bool narrow = column->type->byte_width == 4;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t units = local_at(column, row, it->clock), low = 0, high = 0;

		if (!unit_around(it, units, &low, &high))
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the %s lies outside of all timestamps",
					      part_names[it->part]);
		/* As Arrow has it, the beginning of a year, a quarter or a month goes up to the next one. */
		if (it->to == TO_FLOOR || (it->to == TO_NEAREST && units - low < high - units) ||
		    (units == low && it->part >= PART_WEEK))
			units = low;
		else
			units = high;
		if (it->clock->zone)
			units = weir_timezone_to_utc(it->clock->zone, units, it->clock->per_second);
		if (narrow)
			((int32_t *)call->values)[row] = (int32_t)units;
		else
			((int64_t *)call->values)[row] = units;
	}
	return WEIR_OK;
}

static int bind_truncate(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	const struct weir_node *unit = node->arguments[1];
	struct truncation *it = weir_arena_alloc_zero(&program->arena, sizeof(*it), err);
	const uint8_t *name;
	int64_t second;
	int code;

	if (!it)
		return err->code;
	if (!weir_node_is_constant(unit) || !weir_type_is_text(unit->type) || unit->value.is_null)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "the unit is a text literal: truncate(x, 'month')");
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (type->id != WEIR_DATE32 && type->id != WEIR_DATE64 && type->id != WEIR_TIMESTAMP && !is_time(type))
		return refuse(program, node, err);
	name = weir_view_bytes(&unit->value.bytes);
	for (it->part = 0; it->part <= PART_NANOSECOND; it->part++) {
		if (strlen(part_names[it->part]) == unit->value.bytes.size &&
		    !memcmp(part_names[it->part], name, unit->value.bytes.size))
			break;
	}
	if (it->part > PART_NANOSECOND)
		return weir_bind_fail(
			program, node, err, WEIR_E_NAME,
			"no unit '%.*s'; there are year, quarter, month, week, day, hour, minute, second, "
			"millisecond, microsecond, nanosecond",
			(int)(unit->value.bytes.size < 40 ? unit->value.bytes.size : 40), (const char *)name);
	if (is_time(type) && it->part <= PART_DAY)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "a time of day has no %s", part_names[it->part]);
	it->to = node->op;
	code = clock_new(program, node, type, &it->clock, err);
	if (code)
		return code;
	second = it->clock->per_second;
	switch (it->part) {
	case PART_HOUR:
		it->step = 3600 * second;
		break;
	case PART_MINUTE:
		it->step = 60 * second;
		break;
	case PART_SECOND:
		it->step = second;
		break;
	case PART_MILLISECOND:
		it->step = second / 1000;
		break;
	case PART_MICROSECOND:
		it->step = second / 1000000;
		break;
	case PART_NANOSECOND:
		it->step = 1;
		break;
	default:
		it->step = it->clock->units_per_day;
	}
	if (it->step < 1 || type->id == WEIR_DATE32)
		it->step = 1;
	node->data = it;
	node->count = 1;
	weir_bind_kernel(node, type, kernel_truncate);
	node->needs_rows = true;
	node->may_fail = true;
	return WEIR_OK;
}

/* ---- strftime ---- */

struct pattern {
	const struct clock *clock;
	uint32_t digits; /* of a second's fraction, which %S shows, as Arrow does */
	uint32_t size;
	const uint8_t *text;
	bool is_arrow;
};

struct moment {
	struct weir_calendar_day day;
	int64_t days, hour, minute, second, fraction;
	int64_t offset; /* seconds east of UTC */
};

enum { OP_AS_ARROW = 1 }; /* node->op of strftime: codes that nobody knows stay as they are */

static uint8_t *put_number(uint8_t *out, int64_t value, uint32_t width)
{
	char text[24];
	uint32_t size = 0;

	if (value < 0)
		*out++ = '-';
	do {
		text[size++] = (char)('0' + llabs(value % 10));
		value /= 10;
	} while (value);
	for (uint32_t i = size; i < width; i++)
		*out++ = '0';
	while (size)
		*out++ = (uint8_t)text[--size];
	return out;
}

static uint8_t *put_text(uint8_t *out, const char *text, size_t size)
{
	memcpy(out, text, size);
	return out + size;
}

static int64_t year_day(const struct moment *at)
{
	return at->days - weir_calendar_number(at->day.year, 1, 1) + 1;
}

/* NULL: there is no such code. At most CODE_BYTES_MAX bytes. */
enum { CODE_BYTES_MAX = 64 };
static uint8_t *put_code(uint8_t *out, uint8_t code, const struct moment *at, uint32_t digits)
{
	static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
					     "July",    "August",   "September", "October", "November", "December"};
	static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
					       "Friday", "Saturday", "Sunday"};
	const char *month = months[at->day.month - 1], *weekday = weekdays[weekday_of(at->days)];

	switch (code) {
	case 'Y':
		return put_number(out, at->day.year, 4);
	case 'y':
		return put_number(out, llabs(at->day.year) % 100, 2);
	case 'C':
		return put_number(out, weir_floor_div(at->day.year, 100), 2);
	case 'm':
		return put_number(out, at->day.month, 2);
	case 'd':
		return put_number(out, at->day.day, 2);
	case 'e':
		if (at->day.day < 10)
			*out++ = ' ';
		return put_number(out, at->day.day, 1);
	case 'j':
		return put_number(out, at->days - weir_calendar_number(at->day.year, 1, 1) + 1, 3);
	case 'H':
		return put_number(out, at->hour, 2);
	case 'I':
		return put_number(out, (at->hour + 11) % 12 + 1, 2);
	case 'M':
		return put_number(out, at->minute, 2);
	case 'S':
		out = put_number(out, at->second, 2);
		if (digits) {
			*out++ = '.';
			out = put_number(out, at->fraction, digits);
		}
		return out;
	case 'p':
		return put_text(out, at->hour < 12 ? "AM" : "PM", 2);
	case 'b':
	case 'h':
		return put_text(out, month, 3);
	case 'B':
		return put_text(out, month, strlen(month));
	case 'a':
		return put_text(out, weekday, 3);
	case 'A':
		return put_text(out, weekday, strlen(weekday));
	case 'u':
		return put_number(out, weekday_of(at->days) + 1, 1);
	case 'w':
		return put_number(out, (weekday_of(at->days) + 1) % 7, 1);
	case 'V':
		return put_number(out, iso_week(at->days), 2);
	case 'G':
		return put_number(out, weir_calendar_day(at->days - weekday_of(at->days) + 3).year, 4);
	case 'F':
		out = put_code(out, 'Y', at, 0);
		*out++ = '-';
		out = put_code(out, 'm', at, 0);
		*out++ = '-';
		return put_code(out, 'd', at, 0);
	case 'D':
		out = put_code(out, 'm', at, 0);
		*out++ = '/';
		out = put_code(out, 'd', at, 0);
		*out++ = '/';
		return put_code(out, 'y', at, 0);
	case 'R':
	case 'T':
		out = put_code(out, 'H', at, 0);
		*out++ = ':';
		out = put_code(out, 'M', at, 0);
		if (code == 'R')
			return out;
		*out++ = ':';
		return put_code(out, 'S', at, digits);
	case 'r':
		out = put_code(out, 'I', at, 0);
		*out++ = ':';
		out = put_code(out, 'M', at, 0);
		*out++ = ':';
		out = put_code(out, 'S', at, 0);
		*out++ = ' ';
		return put_code(out, 'p', at, 0);
	case 'x':
		return put_code(out, 'D', at, 0);
	case 'X':
		return put_code(out, 'T', at, 0);
	case 'c':
		out = put_code(out, 'a', at, 0);
		*out++ = ' ';
		out = put_code(out, 'b', at, 0);
		*out++ = ' ';
		out = put_code(out, 'e', at, 0);
		*out++ = ' ';
		out = put_code(out, 'T', at, 0);
		*out++ = ' ';
		return put_code(out, 'Y', at, 0);
	case 'U': /* weeks from the first Sunday on, from the first Monday on */
		return put_number(out, (year_day(at) + 6 - (weekday_of(at->days) + 1) % 7) / 7, 2);
	case 'W':
		return put_number(out, (year_day(at) + 6 - weekday_of(at->days)) / 7, 2);
	case 'g':
		return put_number(out, llabs(weir_calendar_day(at->days - weekday_of(at->days) + 3).year) % 100, 2);
	case 'z':
		*out++ = at->offset < 0 ? '-' : '+';
		out = put_number(out, llabs(at->offset) / 3600, 2);
		return put_number(out, llabs(at->offset) / 60 % 60, 2);
	case 'n':
		*out = '\n';
		return out + 1;
	case 't':
		*out = '\t';
		return out + 1;
	case '%':
		*out = '%';
		return out + 1;
	default:
		return NULL;
	}
}

/* Binding has seen that every code is known, or may stay as it is. */
static uint8_t *put_pattern(uint8_t *out, const struct pattern *pattern, const struct moment *at)
{
	const uint8_t *text = pattern->text;

	for (uint32_t i = 0; i < pattern->size; i++) {
		uint8_t *behind = NULL;
		uint32_t code = i + 1;

		/* %Ey and %Od are %y and %d; %E and %O stay as they are with what else follows, be it a %. */
		if (text[i] == '%' && pattern->is_arrow && code + 1 < pattern->size &&
		    (text[code] == 'E' || text[code] == 'O')) {
			if (!strchr(text[code] == 'E' ? "cCxXyY" : "deHImMSuUVwWy", text[code + 1])) {
				memcpy(out, text + i, 3);
				out += 3;
				i += 2;
				continue;
			}
			code++;
		}
		if (text[i] == '%' && code < pattern->size)
			behind = put_code(out, text[code], at, pattern->digits);
		if (behind) {
			out = behind;
			i = code;
		} else {
			*out++ = text[i];
		}
	}
	return out;
}

static int kernel_strftime(struct weir_call *call, struct weir_error *err)
{
	const struct pattern *pattern = call->node->data;
	const struct clock *clock = pattern->clock;
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t units = local_at(&call->arguments[0], row & weir_call_mask(call, 0), clock), rest;
		struct moment at = {.days = weir_floor_div(units, clock->units_per_day)};
		uint8_t *begin = weir_text_room(&writer, (size_t)pattern->size * (CODE_BYTES_MAX / 2) + 4, err),
			*out = begin;

		if (!begin)
			return err->code;
		rest = weir_floor_mod(units, clock->units_per_day);
		at.day = weir_calendar_day(at.days);
		if (clock->units_per_day > 1) {
			at.fraction = rest % clock->per_second;
			rest /= clock->per_second;
			at.hour = rest / 3600;
			at.minute = rest / 60 % 60;
			at.second = rest % 60;
		}
		if (clock->zone)
			at.offset = weir_timezone_offset(
				clock->zone,
				weir_floor_div(value_at(&call->arguments[0], row & weir_call_mask(call, 0)),
					       clock->per_second));
		out = put_pattern(out, pattern, &at);
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, (size_t)(out - begin));
	}
	return WEIR_OK;
}

static int bind_strftime(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	const struct weir_node *text = node->arguments[1];
	struct pattern *pattern = weir_arena_alloc_zero(&program->arena, sizeof(*pattern), err);
	struct moment any = {.day = {.year = 2024, .month = 1, .day = 1}};
	uint8_t room[CODE_BYTES_MAX];
	int code;

	if (!pattern)
		return err->code;
	if (!weir_node_is_constant(text) || !weir_type_is_text(text->type) || text->value.is_null)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "the pattern is a text literal: strftime(x, '%%Y-%%m-%%d')");
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_STRING), NULL, err);
	pattern->is_arrow = node->op == OP_AS_ARROW;
	if (type->id != WEIR_DATE32 && type->id != WEIR_DATE64 && type->id != WEIR_TIMESTAMP &&
	    !(pattern->is_arrow && is_time(type)))
		return refuse(program, node, err);
	pattern->size = text->value.bytes.size;
	pattern->text = weir_view_bytes(&text->value.bytes);
	pattern->digits = type->id == WEIR_DATE32 ? 0 : type->id == WEIR_DATE64 ? 3 : 3 * (uint32_t)type->unit;
	for (uint32_t i = 0; i < pattern->size; i++) {
		if (pattern->text[i] != '%')
			continue;
		if (i + 1 < pattern->size && pattern->text[i + 1] == 'z' &&
		    !(type->id == WEIR_TIMESTAMP && type->timezone))
			return weir_bind_fail(program, node, err, WEIR_E_VALUE, "there is no time zone for %%z");
		if (pattern->is_arrow) {
			i++;
			continue;
		}
		if (++i == pattern->size || !put_code(room, pattern->text[i], &any, 9))
			return weir_bind_fail(
				program, node, err, WEIR_E_VALUE,
				"strftime knows %%Y %%y %%C %%G %%g %%m %%b %%B %%d %%e %%j %%U %%W %%V %%a %%A %%u %%w "
				"%%H %%I %%M %%S %%p %%z %%F %%D %%T %%R %%r %%c %%x %%X %%n %%t %%%%");
	}
	code = clock_new(program, node, type, &pattern->clock, err);
	if (code)
		return code;
	node->data = pattern;
	node->count = 1;
	weir_bind_kernel(node, weir_type_of(WEIR_STRING), kernel_strftime);
	node->needs_rows = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_time[] = {
	{"year", 1, 1, bind_part, PART_YEAR},
	{"quarter", 1, 1, bind_part, PART_QUARTER},
	{"month", 1, 1, bind_part, PART_MONTH},
	{"week", 1, 1, bind_part, PART_WEEK},
	{"day", 1, 1, bind_part, PART_DAY},
	{"hour", 1, 1, bind_part, PART_HOUR},
	{"minute", 1, 1, bind_part, PART_MINUTE},
	{"second", 1, 1, bind_part, PART_SECOND},
	{"millisecond", 1, 1, bind_part, PART_MILLISECOND},
	{"microsecond", 1, 1, bind_part, PART_MICROSECOND},
	{"nanosecond", 1, 1, bind_part, PART_NANOSECOND},
	{"weekday", 1, 1, bind_part, PART_WEEKDAY},
	{"isoweekday", 1, 1, bind_part, PART_ISOWEEKDAY},
	{"dayofyear", 1, 1, bind_part, PART_DAYOFYEAR},
	{"strftime", 2, 2, bind_strftime, 0},
	{"arrow_strftime", 2, 2, bind_strftime, OP_AS_ARROW},
	{"truncate", 2, 2, bind_truncate, TO_FLOOR},
	{"ceil_time", 2, 2, bind_truncate, TO_CEIL},
	{"round_time", 2, 2, bind_truncate, TO_NEAREST},
	{0},
};
