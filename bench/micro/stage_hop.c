/* What a batch costs through a whole run with a call in it: rows are made, gathered into a chunk, given to a worker
 * that copies them, and taken by a consumer that looks at one value. Small batches show the cost of a batch, large ones
 * that of a byte; beside it the plain copy of as many bytes.
 *
 *     weir_micro_stage_hop PATH_OF_TEST_WORKER [batches [rows]]
 */
#include "base/clock.h"
#include "api/handles.h"
#include "backend/local/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 5 };

static void check(int failed, const struct weir_error *err)
{
	if (!failed)
		return;
	fprintf(stderr, "%s\n", err->message);
	exit(1);
}

static int setup_of(const char *text)
{
	int fd = memfd_create("setup", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		exit(1);
	return fd;
}

/* Nanoseconds from the first batch to the last: the start of processes is another matter. */
static uint64_t run(struct weir_session *session, const struct weir_launcher *launcher, int64_t rows, int64_t batches)
{
	struct weir_call call = {.name = "identity",
				 .launcher = launcher,
				 .setup = setup_of("identity"),
				 .setup_size = strlen("identity"),
				 .batch_rows = rows,
				 .chunk_bytes = rows * 8,
				 .slots_min = 1,
				 .slots_max = 1};
	struct weir_flow *flow = weir_flow_new(session);
	struct weir_error err = {0};
	struct weir_task *task;
	struct weir_batch *batch;
	uint64_t begun = 0, ended = 0;
	int64_t got = 0;
	char text[64];

	snprintf(text, sizeof(text), "range %lld", (long long)(rows * batches));
	check(weir_flow_chain(flow, text), weir_flow_error(flow));
	check(api_flow_call(flow, &call, NULL, NULL), weir_flow_error(flow));
	check(api_flow_task(flow, API_END_COLLECT, NULL, &task, &err), &err);
	check(api_task_start(task, &err), &err);
	for (;;) {
		check(api_task_next(task, &batch, &err), &err);
		if (!batch)
			break;
		if (!begun)
			begun = weir_clock_ns();
		got += batch->row_count;
		ended = weir_clock_ns();
		weir_batch_unref(batch);
	}
	if (got != rows * batches)
		exit(1);
	api_task_stop(task);
	api_task_unref(task);
	weir_flow_free(flow);
	close(call.setup);
	return ended - begun;
}

static uint64_t copy_ns(size_t size, int64_t times)
{
	char *from = malloc(size), *to = malloc(size);
	uint64_t begun;

	memset(from, 1, size);
	memset(to, 2, size);
	begun = weir_clock_ns();
	for (int64_t i = 0; i < times; i++) {
		memcpy(to, from, size);
		__asm__ volatile("" ::"r"(to) : "memory");
	}
	begun = weir_clock_ns() - begun;
	free(from);
	free(to);
	return begun;
}

int main(int argc, char **argv)
{
	int64_t rows[] = {100, 1000, 10000, 100000, 1000000};
	size_t sizes = sizeof(rows) / sizeof(*rows);
	const char *worker[] = {argc > 1 ? argv[1] : "", NULL};
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = (int64_t)1 << 30, .threads = 2};
	struct weir_spawner spawner;
	struct weir_session *session;

	if (argc < 2) {
		fprintf(stderr, "usage: weir_micro_stage_hop PATH_OF_TEST_WORKER [batches [rows]]\n");
		return 2;
	}
	weir_spawner_init(&spawner, worker);
	if (weir_session_open(&options, &session, NULL))
		return 1;
	printf("%10s %14s %14s %10s\n", "rows", "us a batch", "copy alone", "GB/s");
	if (argc > 3) {
		rows[0] = strtoll(argv[3], NULL, 10);
		sizes = 1;
	}
	for (size_t i = 0; i < sizes; i++) {
		int64_t batches = argc > 2          ? strtoll(argv[2], NULL, 10)
				  : rows[i] < 10000 ? 20000
						    : 20000000 / rows[i] * 5;
		uint64_t best = UINT64_MAX;

		for (int round = 0; round < ROUNDS; round++) {
			uint64_t ns = run(session, &spawner.launcher, rows[i], batches);

			best = ns < best ? ns : best;
		}
		printf("%10lld %14.2f %14.2f %10.2f\n", (long long)rows[i], (double)best / (double)batches / 1e3,
		       (double)copy_ns((size_t)rows[i] * 8, 100) / 100e3,
		       (double)(rows[i] * 8 * batches) / (double)best);
	}
	weir_session_close(session);
	return 0;
}
