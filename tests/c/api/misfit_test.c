/* A type that was inferred too narrow, as a C program meets it: into files, and counted, the flow begins again and says
 * so; where rows have been handed out, or a function of the program has seen them, the error says what to do. */
#include "remove_tree.h"

#include "weir/weir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 700000, BAD = 450000 };

static char folder[] = "/tmp/weir_misfit_XXXXXX", path[64], target[64];
static struct weir_session *session;
static char told[512];
static int told_count;

static void take_line(void *data, enum weir_log_level level, const char *line)
{
	(void)data, (void)level;
	snprintf(told, sizeof(told), "%s", line);
	told_count++;
}

static int set_up(void **state)
{
	struct weir_options options = {.struct_size = sizeof(options), .threads = 2, .log = take_line};
	FILE *out;

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/data.csv", folder);
	snprintf(target, sizeof(target), "%s/out.parquet", folder);
	out = fopen(path, "w");
	fputs("id,name\n", out);
	for (int i = 0; i < ROWS; i++)
		fprintf(out, i == BAD ? "12a,row %1$d\n" : "%1$d,row %1$d\n", i);
	return fclose(out) || weir_session_open(&options, &session, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	weir_session_close(session);
	return remove_tree(folder);
}

static struct weir_flow *flow_new(void)
{
	struct weir_flow *flow = weir_flow_new(session);

	weir_flow_read(flow, path, NULL);
	told_count = 0;
	return flow;
}

static void assert_told(void)
{
	assert_int_equal(told_count, 1);
	assert_non_null(strstr(told, "column id: '12a' in"));
	assert_non_null(strstr(told, "line 450002"));
	assert_non_null(strstr(told, "reading again with id as string, not int64"));
}

static void into_files(void **state)
{
	struct weir_stats stats = {.struct_size = sizeof(stats)};
	struct weir_error *error = NULL;
	struct weir_flow *flow = flow_new();
	int64_t rows = 0;

	(void)state;
	weir_flow_write(flow, target, NULL);
	if (weir_flow_run(flow, &stats, &error))
		fail_msg("%s", weir_error_text(error));
	assert_told();
	assert_int_equal(stats.rows_out, ROWS);
	weir_flow_free(flow);
	flow = weir_flow_new(session);
	weir_flow_read(flow, target, NULL);
	weir_flow_filter(flow, "id == \"12a\"");
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(rows, 1);
	weir_flow_free(flow);
}

static void counted(void **state)
{
	struct weir_flow *flow = flow_new();
	int64_t rows = 0;

	(void)state;
	weir_flow_filter(flow, "id is not None");
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_told();
	assert_int_equal(rows, ROWS);
	weir_flow_free(flow);
}

/* In the background, asked for its stats all the time: they are the second attempt's in the end. */
static void asked_meanwhile(void **state)
{
	struct weir_error *error = NULL;
	struct weir_task *task = NULL;
	struct weir_stats stats = {.struct_size = sizeof(stats)};
	struct weir_flow *flow = flow_new();

	(void)state;
	unlink(target);
	weir_flow_write(flow, target, NULL);
	assert_int_equal(weir_flow_start(flow, NULL, &task, &error), WEIR_OK);
	do
		weir_task_stats(task, &stats);
	while (!stats.finished);
	assert_int_equal(weir_task_wait(task, &error), WEIR_OK);
	weir_task_stats(task, &stats);
	assert_int_equal(stats.rows_out, ROWS);
	assert_told();
	weir_task_free(task);
	weir_flow_free(flow);
}

static void handed_out(void **state)
{
	struct weir_flow *flow = flow_new();
	struct weir_rows *rows = NULL;
	const struct weir_error *error;

	(void)state;
	assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
	while (weir_rows_next(rows) == 1)
		;
	error = weir_rows_error(rows);
	assert_non_null(error);
	assert_int_equal(weir_error_code(error), WEIR_E_MISFIT);
	assert_string_equal(weir_error_column(error), "id");
	assert_string_equal(weir_error_value(error), "12a");
	assert_int_equal(weir_error_line(error), 450002);
	assert_string_equal(weir_error_file(error), path);
	assert_non_null(strstr(weir_error_text(error), "--types 'id=string'"));
	assert_int_equal(told_count, 0);
	weir_rows_free(rows);
	weir_flow_free(flow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(into_files),
		cmocka_unit_test(counted),
		cmocka_unit_test(asked_meanwhile),
		cmocka_unit_test(handed_out),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
