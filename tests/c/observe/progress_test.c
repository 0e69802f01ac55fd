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

static struct weir_progress_now at(struct weir_run_stats stats, int64_t bytes_total_est)
{
	return (struct weir_progress_now){.ns = 15 * second, .bytes_total_est = bytes_total_est, .run = stats};
}

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
	struct weir_progress_now now = at(half_done(), INT64_C(1) << 31), unknown = at(half_done(), -1);
	char line[1024];

	(void)state;
	assert_string_equal(weir_progress_format(&now, 200, line, sizeof(line)),
			    " 50%  0:10, 0:10 left  read 20.0M › filter 1.23M › project 999  102.4 MiB/s  "
			    "memory 10.0 MiB of 256.0 MiB  1.0 GiB read");
	assert_string_equal(weir_progress_format(&unknown, 200, line, sizeof(line)),
			    "0:10  read 20.0M › filter 1.23M › project 999  102.4 MiB/s  memory 10.0 MiB of 256.0 MiB  "
			    "1.0 GiB read");
	unknown.run.bytes_est_done = 0;
	assert_string_equal(weir_progress_format(&unknown, 200, line, sizeof(line)),
			    "0:10  read 20.0M › filter 1.23M › project 999  memory 10.0 MiB of 256.0 MiB");
	assert_string_equal(weir_progress_format(&now, 52, line, sizeof(line)),
			    " 50%  0:10, 0:10 left  read 20.0M › … › project 999");
}

/* At every width: it fits, is cut between pieces only, and grows with the room. */
static void every_width(void **state)
{
	struct weir_progress_now now = at(half_done(), INT64_C(1) << 31);
	size_t last = 0;
	char line[1024];

	(void)state;
	for (uint32_t columns = 0; columns < 150; columns++) {
		uint32_t width = 0;
		size_t size;

		weir_progress_format(&now, columns, line, sizeof(line));
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
		weir_progress_format(&now, 200, line, room);
		assert_non_null(memchr(line, 0, room));
		assert_int_equal(line[room], 'x');
	}
}

/* A terminal that breaks lines at its edge: the cursor goes up over all parts but the last. */
static void narrowed_terminals_are_cleaned(void **state)
{
	static const struct {
		uint32_t lines, widths[3], width;
		const char *text;
	} cases[] = {
		{0, {0}, 80, "\r\033[K"},
		{1, {77}, 80, "\r\033[K"},
		{1, {77}, 77, "\r\033[K"},
		{1, {77}, 76, "\r\033[1A\033[J"},
		{1, {77}, 40, "\r\033[1A\033[J"},
		{1, {77}, 30, "\r\033[2A\033[J"},
		{1, {77}, 1, "\r\033[76A\033[J"},
		{1, {77}, 0, "\r\033[K"},
		{3, {77, 40, 0}, 80, "\r\033[2A\033[J"},
		{3, {77, 40, 41}, 40, "\r\033[4A\033[J"},
		{3, {77, 40, 41}, 0, "\r\033[2A\033[J"},
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t size = weir_progress_erase(cases[i].widths, cases[i].lines, cases[i].width, text, sizeof(text));

		assert_int_equal(size, strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
}

/* read → f in workers → filter → g in workers. */
static struct weir_progress_now staged(void)
{
	struct weir_progress_now now = at(half_done(), INT64_C(1) << 30);
	struct weir_run_stats *stats = &now.run;

	stats->rows_out = 1000;
	stats->op_count = 5;
	stats->ops[0] = (struct weir_op_counts){.name = "read", .rows_out = 4000};
	stats->ops[1] = (struct weir_op_counts){.name = "Map(f)->Map(h)->Map(k)", .rows_out = 4000};
	stats->ops[2] = (struct weir_op_counts){.name = "blocks", .rows_out = 4000};
	stats->ops[3] = (struct weir_op_counts){.name = "filter", .rows_out = 2000};
	stats->ops[4] = (struct weir_op_counts){.name = "g", .rows_out = 1000};
	now.stage_count = 4;
	now.stages[0] = (struct weir_progress_stage){.name = "native", .stats = {.rows_out = 4000}};
	now.stages[1] = (struct weir_progress_stage){.name = "Map(f)->Map(h)->Map(k)",
						     .stats = {.rows_in = 4000,
							       .rows_out = 4000,
							       .slots_up = 2,
							       .slots_busy = 1,
							       .queued = 3,
							       .memory_peak = 16 << 20}};
	now.stages[2] = (struct weir_progress_stage){.name = "native", .stats = {.rows_in = 4000, .rows_out = 2000}};
	now.stages[3] = (struct weir_progress_stage){
		.name = "g",
		.stats = {.rows_in = 1000, .rows_out = 1000, .slots_up = 1, .retries = 2},
		.held_by = "memory budget"};
	return now;
}

static void a_line_for_each_operator(void **state)
{
	struct weir_progress_now now = staged();
	char text[4096];

	(void)state;
	/* All is read, and half of it is through the last function. */
	assert_int_equal(weir_progress_lines(&now, false, 117, 9, text, sizeof(text)), 5);
	assert_string_equal(
		text,
		" 50%  0:10, 0:10 left  1.00k rows, 100/s  memory 10.0 MiB of 256.0 MiB\n"
		"   read                     4.00k rows     400/s\n"
		"   Map(f)->Map(h)->Map(k)   4.00k rows     400/s  1 of 2 workers busy  3 queued  16.0 MiB each\n"
		"   filter                   2.00k rows     200/s\n"
		"   g                        1.00k rows     100/s  0 of 1 worker busy  2 tried again  waits: memory budget");
	assert_int_equal(weir_progress_lines(&now, false, 40, 9, text, sizeof(text)), 5);
	assert_non_null(strstr(text, "\n   Map(f)->...->Map(k)   4.00k rows    "));
	assert_null(strstr(text, "workers"));
	assert_int_equal(weir_progress_lines(&now, true, 40, 9, text, sizeof(text)), 5);
	assert_non_null(strstr(text, "\n   Map(f)->Map(h)->Map(k)   4.00k rows     400/s  1 of 2 workers busy"));
	assert_int_equal(weir_progress_lines(&now, false, 117, 2, text, sizeof(text)), 2);
	assert_null(strstr(text, "Map"));
	now.run.bytes_est_done = 0;
	weir_progress_lines(&now, false, 117, 1, text, sizeof(text));
	assert_string_equal(text, "0:10  1.00k rows, 100/s  memory 10.0 MiB of 256.0 MiB");
	now.run.ops[4].name = "a\033[2J\n";
	weir_progress_lines(&now, true, 40, 9, text, sizeof(text));
	assert_non_null(strstr(text, "\n   a?[2J?  "));
}

/* At every width and in any room, names of many bytes a character, too. */
static void lines_fit(void **state)
{
	struct weir_progress_now now = staged();
	char text[4096];

	(void)state;
	now.run.ops[3].name = "größer größer größer größer größer";
	for (uint32_t columns = 1; columns < 150; columns++) {
		uint32_t count = weir_progress_lines(&now, false, columns, 9, text, sizeof(text));
		const char *line = text;

		for (uint32_t i = 0; i < count; i++) {
			size_t size = strcspn(line, "\n");

			assert_true(weir_progress_width(line, size) <= columns);
			line += size + 1;
		}
	}
	for (size_t room = 1; room < 500; room++) {
		memset(text, 'x', sizeof(text));
		weir_progress_lines(&now, false, 100, 9, text, room);
		assert_non_null(memchr(text, 0, room));
		assert_int_equal(text[room], 'x');
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
	assert_non_null(strstr(text.data,
			       "sort: 3.00k rows, 5.0 MiB kept, 4.0 MiB written to disk, 4.0 MiB read; 9 runs, "
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
		cmocka_unit_test(counts_and_durations),
		cmocka_unit_test(the_line_says_all),
		cmocka_unit_test(every_width),
		cmocka_unit_test(narrowed_terminals_are_cleaned),
		cmocka_unit_test(the_report),
		cmocka_unit_test(a_stage),
		cmocka_unit_test(a_line_for_each_operator),
		cmocka_unit_test(lines_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
