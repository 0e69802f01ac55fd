/* Tasks: waiting, cancelling from threads and signal handlers, stats, progress, logs, sessions that are busy. */
#include "remove_tree.h"

#include "weir/weir.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/weir_task_XXXXXX";
static struct weir_session *session;

static int open_session(void **state)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 128 << 20, .threads = 3};

	(void)state;
	return weir_session_open(&options, &session, NULL);
}

static int close_session(void **state)
{
	(void)state;
	weir_session_close(session);
	return 0;
}

static struct weir_flow *chain(const char *text)
{
	struct weir_flow *flow = weir_flow_new(session);

	assert_int_equal(weir_flow_chain(flow, text), WEIR_OK);
	return flow;
}

static struct weir_task *start(const char *text, const struct weir_start_options *options)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = chain(text);
	struct weir_task *task;

	if (weir_flow_start(flow, options, &task, &error))
		fail_msg("%s", weir_error_text(error));
	weir_flow_free(flow);
	return task;
}

static void test_wait_and_stats(void **state)
{
	struct weir_task *task = start("range 3M then filter 'id % 2 == 0' then count", NULL);
	struct weir_stats stats = {.struct_size = sizeof(stats)};
	struct weir_operator_stats op = {.struct_size = sizeof(op)};
	struct weir_exchange_stats exchange = {.struct_size = sizeof(exchange)};

	(void)state;
	assert_int_equal(weir_task_wait(task, NULL), WEIR_OK);
	assert_int_equal(weir_task_wait(task, NULL), WEIR_OK);
	assert_int_equal(weir_task_stats(task, &stats), WEIR_OK);
	assert_int_equal(stats.finished, 1);
	assert_int_equal(stats.rows_in, 3000000);
	assert_int_equal(stats.rows_out, 1500000);
	assert_int_equal(stats.splits_done, stats.splits_total);
	assert_int_equal(stats.bytes_done, stats.bytes_total);
	assert_int_equal(stats.threads, 3);
	assert_true(stats.elapsed_ns > 0);
	assert_int_equal(weir_task_operator(task, 0, &op), WEIR_OK);
	assert_string_equal(op.name, "range");
	assert_int_equal(weir_task_operator(task, 1, &op), WEIR_OK);
	assert_string_equal(op.name, "filter");
	assert_int_equal(op.rows_out, 1500000);
	assert_int_equal(weir_task_operator(task, 2, &op), WEIR_E_INVALID);
	assert_int_equal(weir_task_exchange(task, 0, &exchange), WEIR_E_INVALID);
	/* A struct of an older program: no more is written than it has. */
	memset(&stats, 0x55, sizeof(stats));
	stats.struct_size = offsetof(struct weir_stats, rows_out);
	assert_int_equal(weir_task_stats(task, &stats), WEIR_OK);
	assert_int_equal(stats.rows_in, 3000000);
	assert_int_equal(stats.rows_out, 0x5555555555555555);
	weir_task_free(task);
}

static void test_exchanges(void **state)
{
	struct weir_task *task = start("range 1M then sort 'id desc' then shuffle then sort id then count", NULL);
	struct weir_exchange_stats stats = {.struct_size = sizeof(stats)};
	const char *const names[] = {"sort", "shuffle", "sort"};

	(void)state;
	assert_int_equal(weir_task_wait(task, NULL), WEIR_OK);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(weir_task_exchange(task, i, &stats), WEIR_OK);
		assert_string_equal(stats.name, names[i]);
		assert_int_equal(stats.rows, 1000000);
		assert_true(stats.bytes >= 8000000 && stats.bytes < 40000000);
		assert_int_equal(stats.bytes_spilled, 0);
		assert_true(stats.runs >= 1 && stats.partitions >= 1);
		assert_true(stats.partition_rows_max * stats.partitions >= stats.rows &&
			    stats.partition_rows_max <= stats.rows);
		assert_int_equal(stats.depth, 1);
	}
	assert_int_equal(weir_task_exchange(task, 3, &stats), WEIR_E_INVALID);
	weir_task_free(task);
}

static void *cancel_soon(void *task)
{
	struct weir_stats stats = {.struct_size = sizeof(stats)};

	/* When it has begun. */
	do
		weir_task_stats(task, &stats);
	while (stats.splits_done == 0);
	weir_task_cancel(task);
	return NULL;
}

static void test_cancel_from_a_thread(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = chain("range 100000M then with 'x = id * 2'");
	struct weir_task *task;
	pthread_t thread;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/never", folder);
	weir_flow_write(flow, path, NULL);
	assert_int_equal(weir_flow_start(flow, NULL, &task, NULL), WEIR_OK);
	weir_flow_free(flow);
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, task), 0);
	assert_int_equal(weir_task_wait(task, &error), WEIR_E_CANCELLED);
	assert_int_equal(weir_error_code(error), WEIR_E_CANCELLED);
	weir_error_free(error);
	pthread_join(thread, NULL);
	weir_task_free(task);
	assert_int_not_equal(access(path, F_OK), 0);
}

static struct weir_task *signalled;

static void on_alarm(int number)
{
	(void)number;
	weir_task_cancel(signalled);
}

static void test_cancel_from_a_signal_handler(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm}, before;

	(void)state;
	sigaction(SIGALRM, &action, &before);
	signalled = start("range 100000M then count", NULL);
	ualarm(30000, 0);
	assert_int_equal(weir_task_wait(signalled, NULL), WEIR_E_CANCELLED);
	weir_task_free(signalled);
	sigaction(SIGALRM, &before, NULL);
}

static _Atomic int waiting;

/* A source that has nothing to give until it is cancelled. */
static int next_never(void *state, struct weir_context *context, struct ArrowArray *out)
{
	(void)state;
	(void)out;
	waiting = 1;
	while (!weir_context_cancelled(context))
		usleep(1000);
	return weir_context_fail(context, "nothing came");
}

static void test_cancel_while_a_source_waits(void **state)
{
	struct weir_source source = {.struct_size = sizeof(source), .columns = "a: int64", .next = next_never};
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_task *task;

	(void)state;
	weir_flow_read_source(flow, &source);
	assert_int_equal(weir_flow_start(flow, NULL, &task, NULL), WEIR_OK);
	weir_flow_free(flow);
	while (!waiting)
		usleep(1000);
	weir_task_cancel(task);
	assert_int_equal(weir_task_wait(task, NULL), WEIR_E_CANCELLED);
	weir_task_free(task);
}

/* Nobody takes the rows: the lanes wait in the queue, and are let go all the same. */
static void test_cancel_while_nobody_takes(void **state)
{
	struct weir_task *task = start("range 100000M", NULL);

	(void)state;
	weir_task_cancel(task);
	assert_int_equal(weir_task_wait(task, NULL), WEIR_E_CANCELLED);
	weir_task_free(task);
	task = start("range 100000M", NULL);
	weir_task_free(task); /* without waiting */
}

static void test_cancelled_streams_and_rows(void **state)
{
	struct weir_error *error = NULL;
	struct weir_task *task = start("range 100000M", NULL);
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	struct weir_rows *rows;
	int failed;

	(void)state;
	assert_int_equal(weir_task_stream(task, &stream, NULL), WEIR_OK);
	assert_int_equal(weir_task_rows(task, &rows, &error), WEIR_E_INVALID);
	assert_non_null(strstr(weir_error_text(error), "taken already"));
	weir_error_free(error);
	weir_task_cancel(task);
	while (!(failed = stream.get_next(&stream, &batch)) && batch.release)
		batch.release(&batch);
	assert_int_not_equal(failed, 0);
	assert_non_null(stream.get_last_error(&stream));
	stream.release(&stream);
	assert_int_equal(weir_task_wait(task, NULL), WEIR_E_CANCELLED);
	weir_task_free(task);

	task = start("range 100000M", NULL);
	assert_int_equal(weir_task_rows(task, &rows, NULL), WEIR_OK);
	assert_int_equal(weir_rows_next(rows), 1);
	weir_task_cancel(task);
	while (weir_rows_next(rows))
		;
	assert_int_equal(weir_error_code(weir_rows_error(rows)), WEIR_E_CANCELLED);
	weir_task_free(task); /* before its rows */
	assert_int_equal(weir_rows_next(rows), 0);
	weir_rows_free(rows);
}

static void test_a_sink_gives_no_rows(void **state)
{
	struct weir_error *error = NULL;
	struct weir_task *task = start("range 10 then count", NULL);
	struct weir_rows *rows;

	(void)state;
	assert_int_equal(weir_task_rows(task, &rows, &error), WEIR_E_INVALID);
	assert_null(rows);
	assert_non_null(strstr(weir_error_text(error), "ends in 'count'"));
	weir_error_free(error);
	weir_task_free(task);
}

struct seen {
	_Atomic int calls, finished;
	_Atomic uint64_t rows;
};

static void progress(void *data, const struct weir_stats *stats)
{
	struct seen *seen = data;

	seen->calls++;
	seen->finished += stats->finished;
	seen->rows = stats->rows_out;
}

static void test_progress(void **state)
{
	struct seen seen = {0};
	struct weir_start_options options = {
		.struct_size = sizeof(options), .progress = progress, .progress_data = &seen, .progress_ms = 1};
	struct weir_task *task = start("range 20M then filter 'id % 3 == 0' then count", &options);

	(void)state;
	assert_int_equal(weir_task_wait(task, NULL), WEIR_OK);
	assert_true(seen.calls >= 1);
	assert_int_equal(seen.finished, 1);
	assert_int_equal(seen.rows, 6666667);
	weir_task_free(task);
	assert_int_equal(seen.finished, 1);
}

static void test_batch_rows(void **state)
{
	struct weir_start_options options = {.struct_size = sizeof(options), .batch_rows = 5000};
	struct weir_task *task = start("range 1M", &options);
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	int64_t rows = 0;

	(void)state;
	assert_int_equal(weir_task_stream(task, &stream, NULL), WEIR_OK);
	weir_task_free(task);
	while (!stream.get_next(&stream, &batch) && batch.release) {
		assert_true(batch.length <= 5000);
		rows += batch.length;
		batch.release(&batch);
	}
	assert_int_equal(rows, 1000000);
	stream.release(&stream);
}

static void test_runs_side_by_side(void **state)
{
	struct weir_task *task = start("range 100000M", NULL);
	struct weir_flow *flow = chain("range 10");
	int64_t rows;

	(void)state;
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(rows, 10);
	weir_task_free(task);
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(rows, 10);
	weir_flow_free(flow);
}

static void *run_many(void *failures)
{
	for (int i = 0; i < 20; i++) {
		struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 64 << 20, .threads = 2};
		struct weir_session *own = NULL;
		struct weir_flow *flow;
		int64_t rows = 0;

		if (weir_session_open(&options, &own, NULL))
			++*(_Atomic int *)failures;
		flow = weir_flow_new(own);
		weir_flow_chain(flow, "range 100k then filter 'id % 10 == 0'");
		weir_session_close(own);
		if (weir_flow_count(flow, &rows, NULL) || rows != 10000)
			++*(_Atomic int *)failures;
		weir_flow_free(flow);
	}
	return NULL;
}

static void test_sessions_at_the_same_time(void **state)
{
	pthread_t threads[4];
	_Atomic int failures = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_many, &failures), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 0);
}

static void *build_many(void *failures)
{
	for (int i = 0; i < 50; i++) {
		struct weir_flow *flow = weir_flow_new(session);
		struct ArrowSchema schema = {0};
		struct weir_flow *copy;
		char *text = NULL;

		weir_flow_chain(flow, "range 1000 then with 'x = id * 2, y = str(id)'");
		weir_flow_filter_by(flow, weir_binary("==", weir_column("y"), weir_string("7")));
		copy = weir_flow_copy(flow);
		weir_flow_union(copy, flow);
		if (weir_flow_schema(copy, &schema, NULL) || schema.n_children != 3 ||
		    weir_flow_explain(flow, &text, NULL))
			++*(_Atomic int *)failures;
		else
			schema.release(&schema);
		weir_text_free(text);
		weir_flow_free(copy);
		weir_flow_free(flow);
	}
	return NULL;
}

/* A session is for all threads: building, typing, explaining. */
static void test_one_session_in_many_threads(void **state)
{
	pthread_t threads[4];
	_Atomic int failures = 0;
	struct weir_task *task = start("range 5M then count", NULL);

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, build_many, &failures), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 0);
	assert_int_equal(weir_task_wait(task, NULL), WEIR_OK);
	weir_task_free(task);
}

struct logged {
	_Atomic int lines;
	char last[256];
};

static void take_line(void *data, enum weir_log_level level, const char *line)
{
	struct logged *logged = data;

	if (level == WEIR_LOG_WARN && !logged->lines++)
		snprintf(logged->last, sizeof(logged->last), "%s", line);
}

/* A line that a lane logs: rows that are left out of a CSV file. */
static void test_logs_go_to_the_program(void **state)
{
	struct logged logged = {0};
	struct weir_options options = {.struct_size = sizeof(options), .log = take_line, .log_data = &logged};
	struct weir_session *own;
	struct weir_flow *flow;
	int64_t rows;
	char path[160];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/ragged.csv", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("a,b\n1,2\n3\n4,5\n", file);
	fclose(file);
	assert_int_equal(weir_session_open(&options, &own, NULL), WEIR_OK);
	flow = weir_flow_new(own);
	weir_flow_read(flow, path, (struct weir_option[]){{"ragged", "skip"}, {NULL, NULL}});
	weir_flow_filter(flow, "a > 0");
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(rows, 2);
	assert_true(logged.lines >= 1);
	assert_non_null(strstr(logged.last, "ragged.csv"));
	weir_flow_free(flow);
	weir_session_close(own);
}

/* A type that turns out too narrow: the run begins anew, and whoever watches it meanwhile sees nothing odd. */
static void test_begun_anew(void **state)
{
	struct logged logged = {0};
	struct seen seen = {0};
	struct weir_options options = {
		.struct_size = sizeof(options), .threads = 2, .log = take_line, .log_data = &logged};
	struct weir_start_options begin = {
		.struct_size = sizeof(begin), .progress = progress, .progress_data = &seen, .progress_ms = 1};
	struct weir_error *error = NULL;
	struct weir_session *own;
	struct weir_flow *flow;
	struct weir_task *task;
	char in[160], out[160];
	int64_t rows = 0;
	FILE *file;

	(void)state;
	snprintf(in, sizeof(in), "%s/late.csv", folder);
	snprintf(out, sizeof(out), "%s/late.parquet", folder);
	file = fopen(in, "w");
	assert_non_null(file);
	fputs("a,b\n", file);
	for (int i = 0; i < 3000000; i++)
		fprintf(file, i == 1300000 ? "x,%d\n" : "17,%d\n", i);
	fclose(file);
	assert_int_equal(weir_session_open(&options, &own, NULL), WEIR_OK);
	flow = weir_flow_new(own);
	weir_flow_read(flow, in, NULL);
	weir_flow_write(flow, out, NULL);
	assert_int_equal(weir_flow_start(flow, &begin, &task, NULL), WEIR_OK);
	if (weir_task_wait(task, &error))
		fail_msg("%s", weir_error_text(error));
	weir_task_free(task);
	weir_flow_free(flow);
	assert_true(logged.lines >= 1);
	assert_non_null(strstr(logged.last, "does not fit"));
	flow = weir_flow_new(own);
	weir_flow_read(flow, out, NULL);
	weir_flow_filter(flow, "a == 'x' or a == '17'");
	assert_int_equal(weir_flow_count(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(rows, 3000000);
	weir_flow_free(flow);
	/* Rows that the program has seen cannot be taken back. */
	flow = weir_flow_new(own);
	weir_flow_read(flow, in, NULL);
	{
		struct weir_rows *handed;

		assert_int_equal(weir_flow_rows(flow, &handed, NULL), WEIR_OK);
		while (weir_rows_next(handed))
			;
		assert_int_equal(weir_error_code(weir_rows_error(handed)), WEIR_E_MISFIT);
		assert_int_equal(weir_error_line(weir_rows_error(handed)), 1300002);
		assert_string_equal(weir_error_column(weir_rows_error(handed)), "a");
		assert_string_equal(weir_error_value(weir_rows_error(handed)), "x");
		weir_rows_free(handed);
	}
	weir_flow_free(flow);
	weir_session_close(own);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
	(void)state;
	remove_tree(folder);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_wait_and_stats),
		TEST(test_exchanges),
		TEST(test_cancel_from_a_thread),
		TEST(test_cancel_from_a_signal_handler),
		TEST(test_cancel_while_a_source_waits),
		TEST(test_cancel_while_nobody_takes),
		TEST(test_cancelled_streams_and_rows),
		TEST(test_a_sink_gives_no_rows),
		TEST(test_progress),
		TEST(test_batch_rows),
		TEST(test_runs_side_by_side),
		TEST(test_sessions_at_the_same_time),
		TEST(test_one_session_in_many_threads),
		TEST(test_logs_go_to_the_program),
		TEST(test_begun_anew),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
