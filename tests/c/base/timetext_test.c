/* Every day of many years through the calendar, and the edges of what is a time; pyarrow is asked in
 * tests/python/test_timetext.py. */
#include "base/calendar.h"
#include "base/timetext.h"
#include "support.h"

/* Exact and on the heap, so that a read past the end is seen. */
static bool scan(const char *text, struct weir_timestamp_text *out)
{
	size_t size = strlen(text);
	char *copy = malloc(size ? size : 1);
	bool is;

	memcpy(copy, text, size);
	is = weir_scan_timestamp(copy, size, out);
	free(copy);
	return is;
}

static bool is_timestamp(const char *text)
{
	struct weir_timestamp_text found;

	return scan(text, &found);
}

static bool is_date(const char *text)
{
	int32_t days;

	return weir_parse_date(text, strlen(text), &days);
}

static bool is_time(const char *text, uint32_t digits)
{
	int64_t units;

	return weir_parse_time(text, strlen(text), digits, &units);
}

static void every_day(void **state)
{
	char text[WEIR_TIME_TEXT_MAX], expected[WEIR_TIME_TEXT_MAX];
	int64_t first = weir_calendar_number(0, 1, 1), end = weir_calendar_number(10000, 1, 1);
	int32_t back;

	(void)state;
	for (int64_t days = first; days < end; days++) {
		struct weir_calendar_day day = weir_calendar_day(days);

		assert_int_equal(weir_format_date(days, text), 10);
		if (!weir_parse_date(text, 10, &back) || back != days)
			fail_msg("%.10s is read as day %d, not %lld", text, back, (long long)days);
		if (days % 97 == 0) {
			snprintf(expected, sizeof(expected), "%04lld-%02u-%02u", (long long)day.year, day.month,
				 day.day);
			assert_memory_equal(text, expected, 10);
		}
	}
	for (int64_t days = weir_calendar_number(-9999, 1, 1); days < first; days += 13) {
		assert_int_equal(weir_format_date(days, text), 11);
		assert_false(weir_parse_date(text, 11, &back));
		assert_true(weir_parse_date_signed(text, 11, &back));
		assert_int_equal(back, days);
	}
}

static void what_is_no_date(void **state)
{
	static const char *const texts[] = {
		"",           "2020",       "2020-01",    "2020-1-01",  "2020-01-1",     "2020-01-011", "2020/01/01",
		"2020-00-01", "2020-13-01", "2020-01-00", "2020-01-32", "2021-02-29",    "1900-02-29",  "2020-04-31",
		"2020-06-31", "20a0-01-01", "2020-01-0a", "2020-01:01", "2020-0\xb1-01", "+2020-01-01", "-2020-01-01",
		" 2020-01-1", "2020-99-01"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (is_date(texts[i]) || is_timestamp(texts[i]))
			fail_msg("'%s' is no date", texts[i]);
	}
	assert_true(is_date("2000-02-29") && is_date("2024-02-29") && is_date("0000-02-29") && is_date("9999-12-31"));
}

static void times_of_day(void **state)
{
	int64_t units;
	char text[WEIR_TIME_TEXT_MAX];

	(void)state;
	for (int64_t second = 0; second < 86400; second++) {
		int64_t ns = second * 1000000000 + second % 1000 * 1000003;
		size_t size = weir_format_time(ns, 9, text);

		assert_int_equal(size, 18);
		assert_true(weir_parse_time(text, size, 9, &units));
		assert_int_equal(units, ns);
		assert_true(weir_parse_time(text, 8, 0, &units));
		assert_int_equal(units, second);
	}
	assert_true(is_time("12:30", 0) && is_time("12:30:15", 0) && is_time("23:59:59.999999999", 9));
	assert_false(is_time("12", 0) || is_time("24:00", 0) || is_time("12:60", 0) || is_time("12:30:60", 0));
	assert_false(is_time("12:30:15.5", 0) || is_time("12:30:15.1234", 3) || is_time("12:30:15.", 3));
	assert_false(is_time("12:30:15.1234567890", 9) || is_time("12:30Z", 0) || is_time("1:30", 0) || is_time("", 0));
	assert_true(is_time("12:30:15.500", 3) && is_time("12:30:15.5", 3));
}

static void timestamps(void **state)
{
	static const char *const bad[] = {
		"2020-01-01 ",
		"2020-01-01T",
		"2020-01-01t00:00",
		"2020-01-01Z",
		"2020-01-01 0",
		"2020-01-01 00:0",
		"2020-01-01 24:00",
		"2020-01-01 00:60",
		"2020-01-01 00:00:60",
		"2020-01-01 00:00:00.",
		"2020-01-01 00:00:00.1234567890",
		"2020-01-01 00:00:00 Z",
		"2020-01-01 00:00:00z",
		"2020-01-01 00:00+1",
		"2020-01-01 00:00:00+01:",
		"2020-01-01 00:00:00+01:3",
		"2020-01-01 00:00:00+24",
		"2020-01-01 00:00:00+23:60",
		"2020-01-01 00:00:0a",
		"2020-01-01 0a:00:00",

		"2020-01-01 00:00:00ZZ",
		"2020-01-01 00:00:00+01:000",
	};
	struct weir_timestamp_text found;
	int64_t units;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (is_timestamp(bad[i]))
			fail_msg("'%s' is no timestamp", bad[i]);
	}
	assert_true(scan("1970-01-02", &found) && found.seconds == 86400 && !found.has_time);
	assert_true(scan("1970-01-01 01", &found) && found.seconds == 3600 && found.has_time);
	assert_true(scan("1970-01-01T01:01", &found) && found.seconds == 3660);
	assert_true(scan("1970-01-01T01:01:01", &found) && found.seconds == 3661 && !found.fraction_digits);
	assert_true(scan("1969-12-31 23:59:59.25Z", &found) && found.seconds == -1 && found.nanoseconds == 250000000);
	assert_true(found.has_zone && found.zone_seconds == 0 && found.fraction_digits == 2);
	assert_false(weir_timestamp_units(&found, 0, &units));
	assert_true(weir_timestamp_units(&found, 3, &units) && units == -750);
	assert_true(scan("1970-01-01 00:00:00-01:30", &found) && found.zone_seconds == -5400);
	assert_true(weir_timestamp_units(&found, 0, &units) && units == 5400);
	assert_true(scan("1970-01-01 00+0130", &found) && found.zone_seconds == 5400);
	assert_true(scan("1970-01-01 00:00+01", &found) && found.zone_seconds == 3600);
	/* The ends of 64 bits of nanoseconds. */
	assert_true(scan("2262-04-11 23:47:16.854775807", &found) && weir_timestamp_units(&found, 9, &units));
	assert_true(units == INT64_MAX);
	assert_true(scan("2262-04-11 23:47:16.854775808", &found) && !weir_timestamp_units(&found, 9, &units));
	assert_true(scan("1677-09-21 00:12:43.145224192", &found) && weir_timestamp_units(&found, 9, &units));
	assert_true(units == INT64_MIN);
	assert_true(scan("1677-09-21 00:12:43.145224191", &found) && !weir_timestamp_units(&found, 9, &units));
	assert_true(scan("2262-04-11 23:47:16", &found) && weir_timestamp_units(&found, 9, &units));
}

static void prints_what_it_reads(void **state)
{
	static const uint32_t digits[] = {0, 3, 6, 9};
	struct random random = random_seeded(31);
	struct weir_timestamp_text found;
	char text[WEIR_TIME_TEXT_MAX];
	int64_t back;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint32_t unit = digits[i % 4];
		int64_t units = (int64_t)random_next(&random) >> (unit == 9 ? 0 : unit == 6 ? 6 : unit == 3 ? 16 : 26);
		size_t size = weir_format_timestamp(units, unit, i & 4 ? 'T' : ' ', text);

		if (!weir_scan_timestamp_signed(text, size, &found) || !weir_timestamp_units(&found, unit, &back) ||
		    back != units)
			fail_msg("%.*s is read as %lld, not %lld", (int)size, text, (long long)back, (long long)units);
	}
	/* As far as 64 bits go. */
	assert_true(weir_format_timestamp(INT64_MIN, 0, ' ', text) < WEIR_TIME_TEXT_MAX);
	assert_true(weir_format_timestamp(INT64_MAX, 0, ' ', text) < WEIR_TIME_TEXT_MAX);
	assert_true(weir_format_date(INT64_MAX / 2, text) < WEIR_TIME_TEXT_MAX);
	text[weir_format_time(INT64_MIN, 9, text)] = 0;
	assert_string_equal(text, "-2562047:47:16.854775808");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_day),  cmocka_unit_test(what_is_no_date),      cmocka_unit_test(times_of_day),
		cmocka_unit_test(timestamps), cmocka_unit_test(prints_what_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
