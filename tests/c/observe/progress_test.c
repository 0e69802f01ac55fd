/* What people read of a run: counts, durations, the line at every width, the report. */
#include "base/text.h"
#include "observe/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t second = 1000000000;

static struct weir_run_stats half_done(void)
{
	struct weir_run_stats stats = {.started_ns = 5 * second,
				       .bytes_est_done = 1 << 30,
				       .bytes_est_known = INT64_C(1) << 31,
				       .memory_used = 10 << 20,
				       .memory_limit = 256 << 20,
				       .lanes = 2,
				       .op_count = 3};

	stats.ops[0] = (struct weir_op_counts){.name = "read", .rows_out = 20000000, .vectors = 9, .time_ns = second};
	stats.ops[1] = (struct weir_op_counts){.name = "filter", .rows_out = 1234567, .vectors = 9, .time_ns = second};
	stats.ops[2] = (struct weir_op_counts){.name = "project", .rows_out = 999, .vectors = 9};
	return stats;
}

static void counts_and_durations(void **state)
{
	static const struct {
		uint64_t count;
		const char *text;
	} counts[] = {
		{0, "0"},         {999, "999"},      {1000, "1.00k"},    {9999, "10.0k"},       {99950, "100k"},
		{999499, "999k"}, {999500, "1.00M"}, {1234567, "1.23M"}, {7000000000, "7.00G"}, {UINT64_MAX, "18447P"}};
	static const struct {
		uint64_t ns;
		const char *text;
	} durations[] = {{0, "0.00 s"},         {420000000, "0.42 s"},    {9990000000, "9.99 s"},
			 {65000000000, "1:05"}, {3599400000000, "59:59"}, {7384000000000, "2:03:04"}};
	char buffer[32];

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		assert_string_equal(weir_format_count(counts[i].count, buffer, sizeof(buffer)), counts[i].text);
	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++)
		assert_string_equal(weir_format_duration(durations[i].ns, buffer, sizeof(buffer)), durations[i].text);
}

static void the_line_says_all(void **state)
{
	struct weir_run_stats stats = half_done();
	char line[1024];

	(void)state;
	assert_string_equal(weir_progress_format(&stats, INT64_C(1) << 31, 15 * second, 200, line, sizeof(line)),
			    " 50%  0:10, 0:10 left  read 20.0M › filter 1.23M › project 999  102.4 MiB/s  "
			    "memory 10.0 MiB of 256.0 MiB  1.0 GiB read");
	assert_string_equal(weir_progress_format(&stats, -1, 15 * second, 200, line, sizeof(line)),
			    "0:10  read 20.0M › filter 1.23M › project 999  102.4 MiB/s  memory 10.0 MiB of 256.0 MiB  "
			    "1.0 GiB read");
	assert_string_equal(weir_progress_format(&stats, INT64_C(1) << 31, 15 * second, 52, line, sizeof(line)),
			    " 50%  0:10, 0:10 left  read 20.0M › … › project 999");
}

/* At every width: it fits, is cut between pieces only, and grows with the room. */
static void every_width(void **state)
{
	struct weir_run_stats stats = half_done();
	size_t last = 0;
	char line[1024];

	(void)state;
	for (uint32_t columns = 0; columns < 150; columns++) {
		uint32_t width = 0;
		size_t size;

		weir_progress_format(&stats, INT64_C(1) << 31, 15 * second, columns, line, sizeof(line));
		size = strlen(line);
		for (const char *p = line; *p; p++)
			width += ((unsigned char)*p & 0xc0) != 0x80;
		assert_true(width <= columns);
		assert_true(size == 0 || line[size - 1] != ' ');
		assert_true(columns >= 60 || size >= last);
		last = size;
	}
	for (size_t room = 1; room < 130; room++) {
		memset(line, 'x', sizeof(line));
		weir_progress_format(&stats, INT64_C(1) << 31, 15 * second, 200, line, room);
		assert_non_null(memchr(line, 0, room));
		assert_int_equal(line[room], 'x');
	}
}

/* A terminal that breaks lines at its edge: the cursor goes up over all parts but the last. */
static void narrowed_terminals_are_cleaned(void **state)
{
	static const struct {
		uint32_t drawn, width;
		const char *text;
	} cases[] = {
		{0, 80, "\r\033[K"},         {77, 80, "\r\033[K"},        {77, 77, "\r\033[K"},
		{77, 76, "\r\033[1A\033[J"}, {77, 40, "\r\033[1A\033[J"}, {77, 30, "\r\033[2A\033[J"},
		{77, 1, "\r\033[76A\033[J"}, {77, 0, "\r\033[K"},
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t size = weir_progress_erase(cases[i].drawn, cases[i].width, text, sizeof(text));

		assert_int_equal(size, strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
}

static void the_report(void **state)
{
	struct weir_run_stats stats = half_done();
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_text text;

	(void)state;
	stats.ended_ns = stats.started_ns + 2 * second;
	stats.splits_done = 7;
	stats.core.give_ups = 3;
	stats.core.wait_ns_memory = second / 2;
	assert_int_equal(weir_mem_new(64 << 20, &mem, &err), WEIR_OK);
	weir_text_init(&text, weir_mem_root(mem));
	stats.exchange_count = 1;
	stats.exchanges[0] = (struct weir_exchange_counts){.name = "sort",
							   .rows = 3000,
							   .bytes = 5 << 20,
							   .bytes_spilled = 4 << 20,
							   .bytes_read = 4 << 20,
							   .runs = 9,
							   .partitions = 4,
							   .rows_max = 900,
							   .depth = 1};
	assert_int_equal(weir_stats_print(&stats, &text, &err), WEIR_OK);
	assert_non_null(strstr(text.data, "sort: 3.00k rows, 5.0 MiB kept, 4.0 MiB written to disk, 4.0 MiB read; 9 runs, "
					  "4 partitions, the largest 1.20 × the mean, depth 1\n"));
	assert_non_null(strstr(text.data, "filter            1234567"));
	assert_non_null(strstr(text.data, "time 2.00 s on 2 lanes, 7 splits (3 given up for memory and redone)"));
	assert_non_null(strstr(text.data, "0.50 s waited for memory"));
	weir_text_release(&text);
	weir_mem_free(mem);
}

static void a_stage(void **state)
{
	struct weir_stage_stats stats = {.tasks_done = 12,
					 .rows_in = 1234567,
					 .rows_out = 10,
					 .retries = 2,
					 .tasks_errored = 1,
					 .slots_peak = 2,
					 .busy_ns = 3 * second,
					 .memory_peak = 80 << 20,
					 .memory_assumed = 64 << 20};
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_text text;

	(void)state;
	assert_int_equal(weir_mem_new(64 << 20, &mem, &err), WEIR_OK);
	weir_text_init(&text, weir_mem_root(mem));
	stats.wait_ns[WEIR_WAIT_SLOT] = second; /* all at work */
	assert_int_equal(weir_stage_stats_print("MapBatches(f)", &stats, &text, &err), WEIR_OK);
	assert_string_equal(text.data, "MapBatches(f): 12 tasks, 1.23M rows in, 10 out, 2 tried again, 1 left out, "
				       "3.00 s busy on 2 slots, 80.0 MiB measured in one of them, 64.0 MiB planned\n");
	stats.wait_ns[WEIR_WAIT_MEMORY] = second / 2;
	stats.wait_ns[WEIR_WAIT_DOWNSTREAM] = second;
	assert_int_equal(weir_stage_stats_print("f", &stats, &text, &err), WEIR_OK);
	assert_non_null(strstr(text.data, "planned; backpressure: memory budget 0.50 s, downstream capacity 1.00 s\n"));
	weir_text_release(&text);
	weir_mem_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_and_durations), cmocka_unit_test(the_line_says_all),
		cmocka_unit_test(every_width),          cmocka_unit_test(narrowed_terminals_are_cleaned),
		cmocka_unit_test(the_report),           cmocka_unit_test(a_stage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
