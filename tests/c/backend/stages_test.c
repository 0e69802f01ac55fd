/* Runs of several stages, through the functions that programs and bindings call: native steps, worker processes, native
 * steps again, a sink or a consumer. Every row is there once and in order, whatever dies; memory is empty at the end
 * (the session asserts it). */
#include "remove_tree.h"

#include "api/handles.h"

#include <dirent.h>
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/test_worker.h"

/* Memory that nothing waits for, and little memory: as much as a few plain workers need. Instrumented processes take
 * several times that for themselves, in no account. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ENOUGH ((int64_t)4 << 30)
#else
#define ENOUGH ((int64_t)512 << 20)
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
/* Instrumented workers have had 1.5 GiB each after 15 million rows. */
#define TIGHT (1536 << 20)
#define TIGHT_ROWS "4M"
enum { TIGHT_COUNT = 4000000, SPILLS = false };
#else
#define TIGHT (144 << 20)
#define TIGHT_ROWS "12M"
enum { TIGHT_COUNT = 12000000, SPILLS = true };
#endif

static char folder[] = "/tmp/weir_stages_XXXXXX";

static struct weir_session *open_session(int64_t memory_limit, uint32_t threads)
{
	struct weir_options options = {
		.struct_size = sizeof(options), .memory_limit = memory_limit, .threads = threads, .spill_dir = folder};
	struct weir_session *session;

	assert_int_equal(weir_session_open(&options, &session, NULL), 0);
	return session;
}

static void chain(struct weir_flow *flow, const char *text)
{
	if (weir_flow_chain(flow, text))
		fail_msg("%s: %s", text, weir_error_text(weir_flow_error(flow)));
}

static void call_with(struct weir_flow *flow, const char *what, struct weir_call call)
{
	int setup = setup_of(what);

	call.name = call.name ? call.name : what;
	call.launcher = test_launcher();
	call.setup = setup;
	call.setup_size = strlen(what);
	if (api_flow_call(flow, &call, NULL, NULL))
		fail_msg("%s", weir_error_text(weir_flow_error(flow)));
	close(setup);
}

static void call(struct weir_flow *flow, const char *what)
{
	call_with(flow, what, (struct weir_call){0});
}

static struct weir_task *start(struct weir_flow *flow, enum api_end end)
{
	struct weir_error err = {0};
	struct weir_task *task;

	if (api_flow_task(flow, end, NULL, &task, &err) || api_task_start(task, &err))
		fail_msg("%s", err.message);
	return task;
}

static void finish(struct weir_task *task)
{
	api_task_stop(task);
	api_task_unref(task);
}

/* The first column's values are what they were plus `added`, first to last, in order. Returns the batches. */
static int64_t expect_rows(struct weir_task *task, int64_t first, int64_t count, int64_t added)
{
	struct weir_error err = {0};
	struct weir_batch *batch;
	int64_t next = first, batches = 0;

	for (;;) {
		if (api_task_next(task, &batch, &err))
			fail_msg("after %lld rows: %s", (long long)(next - first), err.message);
		if (!batch)
			break;
		batches++;
		for (int64_t i = 0; i < batch->row_count; i++) {
			const struct weir_array *column = batch->columns[0];
			int64_t value = ((const int64_t *)column->buffers[1].data)[column->offset + i];

			if (value != next + added)
				fail_msg("%lld where %lld was due", (long long)value, (long long)(next + added));
			next++;
		}
		weir_batch_unref(batch);
	}
	assert_int_equal(next - first, count);
	return batches;
}

static void test_a_call_between_native_steps(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_stage_stats stats;
	struct weir_task *task;

	(void)state;
	chain(flow, "range 5M then filter 'id >= 1000000'");
	call(flow, "add 7");
	chain(flow, "filter 'id < 3000007'");
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 1000000, 2000000, 7);
	assert_string_equal(api_task_stage_stats(task, 1, &stats), "add 7");
	assert_true(stats.tasks_done > 0 && stats.rows_in == 4000000);
	assert_null(api_task_stage_stats(task, 3, &stats));
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_calls_in_a_row(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_task *task;

	(void)state;
	chain(flow, "range 1M");
	call(flow, "add 1");
	call(flow, "split 1000");
	call(flow, "add 2");
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, 1000000, 3);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

/* How many tasks `call` makes of so many rows. */
static int64_t tasks_of(const char *range, int64_t rows, struct weir_call call)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_stage_stats stats;
	struct weir_task *task;

	chain(flow, range);
	call_with(flow, "add 1", call);
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, rows, 1);
	assert_string_equal(api_task_stage_stats(task, 1, &stats), "add 1");
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
	return (int64_t)stats.tasks_done;
}

static void test_tasks_may_be_fine(void **state)
{
	(void)state;
	assert_int_equal(tasks_of("range 100", 100, (struct weir_call){.batch_rows = 10}), 1);
	/* One batch a task, or several where they take little time. */
	assert_int_equal(tasks_of("range 100", 100, (struct weir_call){.batch_rows = 10, .fine = 1}), 10);
	assert_in_range(tasks_of("range 1M", 1000000, (struct weir_call){.batch_rows = 10, .fine = 1, .paced = 1}), 2,
			20000);
	/* 16, 16, 16, 16, 16, 20; then a quarter more each time, until chunk_bytes. */
	assert_int_equal(tasks_of("range 100", 100, (struct weir_call){.fine = 16}), 6);
	assert_in_range(tasks_of("range 100k", 100000, (struct weir_call){.fine = 16}), 30, 60);
	/* One by one, then a quarter more each time, until chunk_bytes; of few rows the last come in small pieces,
	 * too. */
	assert_int_equal(tasks_of("range 16", 16, (struct weir_call){.fine = 16, .fine_first = 1}), 16);
	assert_in_range(tasks_of("range 100", 100, (struct weir_call){.fine = 16, .fine_first = 1}), 30, 50);
	assert_in_range(tasks_of("range 100k", 100000, (struct weir_call){.fine = 16, .fine_first = 1}), 50, 100);
	assert_in_range(tasks_of("range 100k", 100000, (struct weir_call){.fine = 16, .chunk_bytes = 8000}), 100, 400);
}

static void test_counting(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	int64_t count = 0;

	(void)state;
	chain(flow, "range 1M");
	call(flow, "repeat 2");
	assert_int_equal(weir_flow_count(flow, &count, NULL), 0);
	assert_int_equal(count, 2000000);
	chain(flow, "filter 'id % 2 == 0'");
	assert_int_equal(weir_flow_count(flow, &count, NULL), 0);
	assert_int_equal(count, 1000000);
	weir_flow_free(flow);
	/* A function that gives nothing. */
	flow = weir_flow_new(session);
	chain(flow, "range 100k");
	call(flow, "none");
	assert_int_equal(weir_flow_count(flow, &count, NULL), 0);
	assert_int_equal(count, 0);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_limit_stops_everything(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_task *task;

	(void)state;
	chain(flow, "range 100000M");
	call(flow, "add 5");
	chain(flow, "limit 123456");
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, 123456, 5);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_leaving_early(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error err = {0};
	struct weir_batch *batch;
	struct weir_task *task;

	(void)state;
	chain(flow, "range 100000M");
	call(flow, "identity");
	for (int n = 0; n < 3; n++) {
		task = start(flow, API_END_COLLECT);
		for (int i = 0; i < n; i++) {
			assert_int_equal(api_task_next(task, &batch, &err), 0);
			assert_non_null(batch);
			weir_batch_unref(batch);
		}
		finish(task);
	}
	weir_flow_free(flow);
	weir_session_close(session);
}

static int64_t count_of(struct weir_session *session, const char *text)
{
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error *error = NULL;
	int64_t count;

	chain(flow, text);
	if (weir_flow_count(flow, &count, &error))
		fail_msg("%s", weir_error_text(error));
	weir_flow_free(flow);
	return count;
}

/* What a loop holds of chunks is not given to others, up to a half of the limit; and again when it has let go of it. */
static void test_what_the_user_was_handed(void **state)
{
#if defined(__SANITIZE_THREAD__)
	skip(); /* what the instrument takes, here and in the workers, is many times what this is about */
#endif
	enum { LIMIT = 256 << 20, HELD_MAX = 200 };
	struct weir_session *session = open_session(LIMIT, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_batch *held[HELD_MAX], *batch;
	struct weir_error err = {0};
	struct weir_task *task;
	int64_t before, bytes = 0;
	int count = 0;

	(void)state;
	chain(flow, "range 100000M");
	call(flow, "identity");
	task = start(flow, API_END_COLLECT);
	assert_int_equal(api_task_next(task, &batch, &err), 0);
	weir_batch_unref(batch);
	before = api_task_budget(task);
	while (bytes < LIMIT * 5LL / 8) {
		if (api_task_next(task, &held[count], &err))
			fail_msg("%s, with %lld bytes held", err.message, (long long)bytes);
		bytes += held[count++]->row_count * 8;
		assert_true(count < HELD_MAX);
		if (bytes == LIMIT / 4)
			assert_in_range(before - api_task_budget(task), bytes / 8 * 7, bytes / 8 * 9);
	}
	assert_in_range(before - api_task_budget(task), LIMIT / 2 - (32 << 20), LIMIT / 2);
	while (count > 0)
		weir_batch_unref(held[--count]);
	/* The next that is taken tells. */
	assert_int_equal(api_task_next(task, &batch, &err), 0);
	assert_in_range(api_task_budget(task), before - batch->row_count * 16, before);
	weir_batch_unref(batch);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_written_files(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error *error = NULL;
	char target[128], text[256];

	(void)state;
	for (int one_file = 0; one_file < 2; one_file++) {
		flow = one_file ? weir_flow_new(session) : flow;
		snprintf(target, sizeof(target), "%s/out%s", folder, one_file ? ".parquet" : "");
		chain(flow, "range 3M");
		call(flow, "add 1");
		snprintf(text, sizeof(text), "with 'x = id * 2' then write %s", target);
		chain(flow, text);
		if (weir_flow_run(flow, NULL, &error))
			fail_msg("%s", weir_error_text(error));
		weir_flow_free(flow);
		snprintf(text, sizeof(text), "read %s then filter 'x == 2 * id'", target);
		assert_int_equal(count_of(session, text), 3000000);
		snprintf(text, sizeof(text), "read %s then limit 100 then filter 'id <= 100'", target);
		assert_int_equal(count_of(session, text), 100);
	}
	/* Nothing is written of a run that fails. */
	flow = weir_flow_new(session);
	chain(flow, "range 1M");
	call(flow, "fail value=900000");
	snprintf(target, sizeof(target), "%s/none", folder);
	snprintf(text, sizeof(text), "write %s", target);
	chain(flow, text);
	assert_int_not_equal(weir_flow_run(flow, NULL, NULL), 0);
	assert_int_equal(access(target, F_OK), -1);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_failures_tell_where(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_failure failure;
	struct weir_error err = {0};
	struct weir_batch *batch;
	struct weir_task *task;
	const uint8_t *bytes;

	(void)state;
	chain(flow, "range 1M");
	call_with(flow, "fail 100000 value=300000",
		  (struct weir_call){.name = "MapBatches(f)", .batch_rows = 1000, .chunk_bytes = 8000});
	task = start(flow, API_END_COLLECT);
	do {
		batch = NULL;
		if (!api_task_next(task, &batch, &err))
			assert_non_null(batch);
		weir_batch_unref(batch);
	} while (!err.code);
	assert_int_equal(err.code, WEIR_E_USER);
	assert_string_equal(err.operator_name, "MapBatches(f)");
	assert_true(api_task_failure(task, &failure));
	assert_string_equal(failure.operator_name, "MapBatches(f)");
	assert_int_equal(failure.payload_size, 100000);
	assert_int_equal(weir_chunk_pin(failure.payload, &bytes, &err), 0);
	assert_memory_equal(bytes, "abcdefgh", 8);
	weir_chunk_unpin(failure.payload);
	weir_chunk_unref(failure.payload);
	weir_origin_unref(failure.origin);
	finish(task);
	weir_flow_free(flow);
	/* A worker that cannot begin. */
	flow = weir_flow_new(session);
	weir_error_clear(&err);
	chain(flow, "range 1M");
	call(flow, "broken");
	task = start(flow, API_END_COLLECT);
	assert_int_equal(api_task_next(task, &batch, &err), WEIR_E_USER);
	assert_true(api_task_failure(task, &failure));
	assert_non_null(failure.payload);
	weir_chunk_unref(failure.payload);
	weir_origin_unref(failure.origin);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void test_errors_may_be_left_out(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_stage_stats stats;
	struct weir_error err = {0};
	struct weir_batch *batch = NULL;
	struct weir_task *task;
	int64_t rows = 0;

	(void)state;
	chain(flow, "range 100k");
	call_with(flow, "fail value=55555",
		  (struct weir_call){.batch_rows = 1000, .chunk_bytes = 8000, .errored_max = 1});
	task = start(flow, API_END_COLLECT);
	do {
		if (api_task_next(task, &batch, &err))
			fail_msg("%s", err.message);
		rows += batch ? batch->row_count : 0;
		weir_batch_unref(batch);
	} while (batch);
	assert_int_equal(rows, 99000);
	api_task_stage_stats(task, 1, &stats);
	assert_int_equal(stats.tasks_errored, 1);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

/* A process of its own that dies now and then; nothing is lost, nothing comes twice. */
static void test_deaths(void **state)
{
	static const char *const deaths[] = {"segfault", "kill", "exit 3", "die 4", "die 5"};
	struct weir_session *session = open_session(ENOUGH, 2);
	char what[256], once[128];

	(void)state;
	for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++) {
		struct weir_flow *flow = weir_flow_new(session);
		struct weir_task *task;

		snprintf(once, sizeof(once), "%s/once%zu", folder, i);
		snprintf(what, sizeof(what), "%s value=150000 once=%s", deaths[i], once);
		chain(flow, "range 300k");
		if (strncmp(deaths[i], "die", 3) == 0)
			snprintf(what, sizeof(what), "kill value=150000 once=%s", once);
		call_with(flow, what, (struct weir_call){.batch_rows = 1000, .chunk_bytes = 80000});
		task = start(flow, API_END_COLLECT);
		expect_rows(task, 0, 300000, 0);
		finish(task);
		assert_int_equal(access(once, F_OK), 0);
		weir_flow_free(flow);
	}
	weir_session_close(session);
}

struct killer {
	_Atomic bool stop;
	_Atomic int kills;
	struct weir_task *task;
	pthread_t thread;
};

/* One of this process's children, by luck. */
static int a_child(uint64_t *seed)
{
	int pids[64], count = 0;
	FILE *list;
	DIR *threads = opendir("/proc/self/task");

	for (struct dirent *entry; threads && (entry = readdir(threads));) {
		char path[320];

		snprintf(path, sizeof(path), "/proc/self/task/%s/children", entry->d_name);
		list = fopen(path, "re");
		while (list && count < 64 && fscanf(list, "%d", &pids[count]) == 1)
			count++;
		if (list)
			fclose(list);
	}
	closedir(threads);
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return count ? pids[(*seed >> 33) % (uint64_t)count] : 0;
}

static void *kill_now_and_then(void *argument)
{
	struct killer *killer = argument;
	uint64_t seed = 4711, done = 0;

	while (!killer->stop) {
		struct weir_stage_stats stats;
		int pid = 0;

		/* However slow this machine is, something gets done between two deaths. */
		nanosleep(&(struct timespec){0, 2000000}, NULL);
		api_task_stage_stats(killer->task, 1, &stats);
		if (stats.tasks_done >= done + 8)
			pid = a_child(&seed);
		if (pid && kill(pid, SIGKILL) == 0) {
			killer->kills++;
			done = stats.tasks_done;
		}
	}
	return NULL;
}

/* Workers die all the time, by another's hand: every row is written once. */
static void test_a_storm(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct killer killer = {0};
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error *error = NULL;
	char text[256];

	(void)state;
	chain(flow, "range 400k");
	call_with(flow, "sleep 1", (struct weir_call){.batch_rows = 1000, .chunk_bytes = 8000, .slots_first = 2});
	call_with(flow, "add 1", (struct weir_call){.batch_rows = 500, .chunk_bytes = 8000});
	snprintf(text, sizeof(text), "write %s/storm", folder);
	chain(flow, text);
	killer.task = start(flow, API_END_NONE);
	assert_int_equal(pthread_create(&killer.thread, NULL, kill_now_and_then, &killer), 0);
	weir_task_wait(killer.task, &error);
	killer.stop = true;
	pthread_join(killer.thread, NULL);
	if (error)
		fail_msg("after %d kills: %s", killer.kills, weir_error_text(error));
	assert_true(killer.kills > 0);
	finish(killer.task);
	weir_flow_free(flow);
	snprintf(text, sizeof(text), "read %s/storm", folder);
	assert_int_equal(count_of(session, text), 400000);
	for (int i = 0; i < 2; i++) {
		static const char *const conditions[] = {"id >= 1 and id <= 400000", "id < 1 or id > 400000"};

		snprintf(text, sizeof(text), "read %s/storm then filter '%s'", folder, conditions[i]);
		assert_int_equal(count_of(session, text), i ? 0 : 400000);
	}
	weir_session_close(session);
}

static void test_a_batch_that_kills_every_worker(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error err = {0};
	struct weir_batch *batch;
	struct weir_task *task;

	(void)state;
	chain(flow, "range 10k");
	call_with(flow, "segfault value=5000", (struct weir_call){.batch_rows = 1000, .chunk_bytes = 8000});
	task = start(flow, API_END_COLLECT);
	while (!api_task_next(task, &batch, &err)) {
		assert_non_null(batch);
		weir_batch_unref(batch);
	}
	assert_int_equal(err.code, WEIR_E_WORKER);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

/* Chunks end on multiples of the batch, and tails of splits are bundled with their neighbours. */
static void test_batches_are_whole(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_stage_stats stats;
	struct weir_task *task;

	(void)state;
	chain(flow, "range 3M then filter 'id % 3 != 1'");
	call_with(flow, "join", (struct weir_call){.batch_rows = 7000, .chunk_bytes = 1 << 16});
	chain(flow, "with 'id = id - id / 3'");
	task = start(flow, API_END_COLLECT);
	finish(task);
	task = start(flow, API_END_COUNT);
	{
		struct weir_error err = {0};
		struct weir_batch *batch;

		assert_int_equal(api_task_next(task, &batch, &err), 0);
	}
	api_task_stage_stats(task, 1, &stats);
	assert_int_equal(stats.rows_in, 2000000);
	/* Each has 7,000 rows or more, but for the last. */
	assert_true(stats.tasks_done <= 2000000 / 7000 + 1);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void expect_blocks(struct weir_session *session, struct weir_block *const *blocks, size_t count, int64_t rows,
			  int64_t added)
{
	for (int again = 0; again < 2; again++) {
		struct weir_flow *flow = weir_flow_new(session);
		struct weir_task *task;

		assert_int_equal(api_flow_read_blocks(flow, blocks, count), 0);
		if (again)
			call(flow, "add 1");
		task = start(flow, API_END_COLLECT);
		expect_rows(task, 0, rows, added + again);
		finish(task);
		weir_flow_free(flow);
	}
}

static void test_kept_and_read_again(void **state)
{
	/* Rows of 8 bytes, more than the quarter of memory that may stay in it. */
	struct weir_session *session = open_session(TIGHT, 2);
	struct weir_store_stats stats;
	struct weir_store *store;
	struct weir_error err = {0}, *error = NULL;

	(void)state;
	for (int with_call = 0; with_call < 2; with_call++) {
		struct weir_flow *flow = weir_flow_new(session);
		struct weir_block *kept[4096];
		struct weir_block *const *blocks;
		struct weir_task *task;
		size_t count;
		int64_t rows = 0, spilled;

		chain(flow, "range " TIGHT_ROWS);
		if (with_call)
			call(flow, "add 3");
		task = start(flow, API_END_BLOCKS);
		weir_flow_free(flow);
		if (weir_task_wait(task, &error))
			fail_msg("%s", weir_error_text(error));
		blocks = api_task_blocks(task, &count);
		assert_in_range(count, 2, 4096);
		for (size_t i = 0; i < count; i++) {
			kept[i] = weir_block_ref(blocks[i]);
			rows += kept[i]->row_count;
		}
		assert_int_equal(rows, TIGHT_COUNT);
		finish(task);
		assert_int_equal(weir_session_store(session, &store, &err), 0);
		weir_store_stats(store, &stats);
		assert_true(stats.spilled > 0 || !SPILLS);
		spilled = stats.spilled;
		expect_blocks(session, kept, count, TIGHT_COUNT, with_call ? 3 : 0);
		/* Reading them brings none of them back. */
		weir_store_stats(store, &stats);
		assert_true(stats.spilled >= spilled);
		for (size_t i = 0; i < count; i++)
			weir_block_unref(kept[i]);
		weir_store_stats(store, &stats);
		assert_int_equal(stats.resident, 0);
		assert_int_equal(stats.spilled, 0);
	}
	weir_session_close(session);
}

/* A slow second function and little memory: what waits in between is spilled, and comes back. */
static void test_little_memory(void **state)
{
	struct weir_session *session = open_session(TIGHT, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_task *task;

	(void)state;
	chain(flow, "range " TIGHT_ROWS);
	call_with(flow, "repeat 1", (struct weir_call){.memory = 16 << 20});
	call_with(flow, "add 4", (struct weir_call){.memory = 16 << 20});
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, TIGHT_COUNT, 4);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

/* A function that returns other columns from some row on: each file has its own schema, a limit counts all rows, one
 * file has to refuse. */
static void test_schemas_change_on_the_way(void **state)
{
	struct weir_call small = {.batch_rows = 1000, .chunk_bytes = 8000};
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_error *error = NULL;
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_block *const *blocks;
	struct weir_task *task;
	char text[256];
	size_t count;

	(void)state;
	chain(flow, "range 200k");
	call_with(flow, "widen 100000", small);
	snprintf(text, sizeof(text), "with 'x = id + 1' then limit 150000 then write %s/wide", folder);
	chain(flow, text);
	if (weir_flow_run(flow, NULL, &error))
		fail_msg("%s", weir_error_text(error));
	weir_flow_free(flow);
	snprintf(text, sizeof(text), "read %s/wide --unify-schemas then filter 'x == id + 1 and id < 150000'", folder);
	assert_int_equal(count_of(session, text), 150000);
	snprintf(text, sizeof(text), "read %s/wide --unify-schemas then filter 'more == id and id >= 100000'", folder);
	assert_int_equal(count_of(session, text), 50000);

	flow = weir_flow_new(session);
	chain(flow, "range 200k");
	call_with(flow, "widen 100000", small);
	snprintf(text, sizeof(text), "write %s/wide.parquet", folder);
	chain(flow, text);
	assert_int_equal(weir_flow_run(flow, NULL, &error), WEIR_E_TYPE);
	assert_non_null(strstr(weir_error_text(error), "one file has one schema"));
	weir_error_free(error);
	error = NULL;
	weir_flow_free(flow);

	/* What is kept is unified when it is read. */
	flow = weir_flow_new(session);
	chain(flow, "range 200k");
	call_with(flow, "widen 100000", small);
	task = start(flow, API_END_BLOCKS);
	weir_flow_free(flow);
	assert_int_equal(weir_task_wait(task, NULL), 0);
	blocks = api_task_blocks(task, &count);
	flow = weir_flow_new(session);
	assert_int_equal(api_flow_read_blocks(flow, blocks, count), 0);
	chain(flow, "filter 'more is null'");
	{
		int64_t rows;

		assert_int_equal(weir_flow_count(flow, &rows, &error), 0);
		assert_int_equal(rows, 100000);
	}
	weir_flow_free(flow);
	finish(task);
	weir_session_close(session);
}

/* Rows that come are few, or none: chunks without rows, files that are not made. */
static void test_nothing_comes(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error *error = NULL;
	struct weir_task *task;
	char text[256];

	(void)state;
	chain(flow, "range 100k then filter 'id < 0'");
	call(flow, "identity");
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, 0, 0);
	finish(task);
	snprintf(text, sizeof(text), "write %s/nothing", folder);
	chain(flow, text);
	if (weir_flow_run(flow, NULL, &error))
		fail_msg("%s", weir_error_text(error));
	weir_flow_free(flow);
	snprintf(text, sizeof(text), "%s/nothing", folder);
	assert_int_equal(access(text, F_OK), -1);
	/* An error of the target is said before anything runs. */
	flow = weir_flow_new(session);
	chain(flow, "range 100k");
	call(flow, "identity");
	chain(flow, "write /proc/none/x");
	assert_int_not_equal(weir_flow_run(flow, NULL, NULL), 0);
	weir_flow_free(flow);
	weir_session_close(session);
}

static void count_line(void *counter, const struct weir_run_print *line)
{
	assert_string_equal(line->operator_name, "Map(say)");
	assert_true(line->pid > 0);
	*(int *)counter += 1;
}

static void test_prints(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_task *task;
	int lines = 0;

	(void)state;
	chain(flow, "range 1000");
	call_with(flow, "print 10", (struct weir_call){.name = "Map(say)"});
	task = start(flow, API_END_COLLECT);
	expect_rows(task, 0, 1000, 0);
	api_task_prints(task, count_line, &lines);
	assert_int_equal(lines, 11);
	finish(task);
	weir_flow_free(flow);
	weir_session_close(session);
}

/* As many blocks as were asked for, at most one a row. */
static void test_number_of_blocks(void **state)
{
	static const struct {
		const char *text;
		size_t count;
	} cases[] = {{"range 100k --blocks 5000", 5000}, {"range 10 --blocks 3", 3}, {"range 2 --blocks 100", 2}};
	struct weir_session *session = open_session(ENOUGH, 2);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct weir_flow *flow = weir_flow_new(session);
		struct weir_block *const *blocks;
		struct weir_task *task;
		size_t count;

		chain(flow, cases[i].text);
		call(flow, "identity");
		task = start(flow, API_END_BLOCKS);
		assert_int_equal(weir_task_wait(task, NULL), 0);
		blocks = api_task_blocks(task, &count);
		assert_int_equal(count, cases[i].count);
		for (size_t k = 1; k < count; k++)
			assert_in_range(blocks[k]->row_count + 1 - blocks[0]->row_count, 0, 2);
		finish(task);
		weir_flow_free(flow);
	}
	weir_session_close(session);
}

/* Several runs of one session at the same time. */
static void test_side_by_side(void **state)
{
	struct weir_session *session = open_session(ENOUGH, 2);
	struct weir_task *tasks[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct weir_flow *flow = weir_flow_new(session);

		chain(flow, "range 2M");
		if (i)
			call(flow, "add 9");
		tasks[i] = start(flow, API_END_COLLECT);
		weir_flow_free(flow);
	}
	for (int i = 0; i < 3; i++) {
		expect_rows(tasks[i], 0, 2000000, i ? 9 : 0);
		finish(tasks[i]);
	}
	weir_session_close(session);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	(void)state;
	remove_tree(folder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_call_between_native_steps),
		cmocka_unit_test(test_calls_in_a_row),
		cmocka_unit_test(test_tasks_may_be_fine),
		cmocka_unit_test(test_counting),
		cmocka_unit_test(test_limit_stops_everything),
		cmocka_unit_test(test_leaving_early),
		cmocka_unit_test(test_what_the_user_was_handed),
		cmocka_unit_test(test_written_files),
		cmocka_unit_test(test_failures_tell_where),
		cmocka_unit_test(test_errors_may_be_left_out),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_a_storm),
		cmocka_unit_test(test_a_batch_that_kills_every_worker),
		cmocka_unit_test(test_batches_are_whole),
		cmocka_unit_test(test_kept_and_read_again),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_schemas_change_on_the_way),
		cmocka_unit_test(test_nothing_comes),
		cmocka_unit_test(test_prints),
		cmocka_unit_test(test_number_of_blocks),
		cmocka_unit_test(test_side_by_side),
	};

	return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
