/* What one batch costs on its way to a worker process and back, with two in flight: a room is reserved, the message
 * sent, the chunk opened and copied over there, the answer checked and adopted, the output dropped. Beside it the plain
 * copy of as many bytes between warm pages, which no transport can be faster than.
 *
 *     weir_micro_worker_hop PATH_OF_TEST_WORKER [batches]
 */
#include "arrow/block.h"
#include "base/clock.h"
#include "backend/local/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT = 2, ROUNDS = 5 };

static struct weir_error err;

static void check(int failed)
{
	if (!failed)
		return;
	fprintf(stderr, "%s\n", err.message);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct weir_chunk *make_chunk(struct weir_store *store, const struct weir_schema *schema,
				     struct weir_account *account, int64_t rows)
{
	struct weir_builder builder;
	struct weir_block_plan plan;
	struct weir_array *column;
	struct weir_batch *batch;
	struct weir_chunk *chunk = NULL;
	uint8_t *bytes = NULL;

	check(weir_builder_init(&builder, weir_type_of(WEIR_INT64), account, &err));
	for (int64_t i = 0; i < rows; i++)
		check(weir_builder_fixed(&builder, &i, 1, &err));
	column = weir_builder_finish(&builder, &err);
	check(!column);
	weir_builder_release(&builder);
	batch = weir_batch_new(account, schema, rows, &column, &err);
	check(!batch);
	check(weir_block_measure(batch, &plan, &err));
	check(weir_chunk_reserve(store, plan.size, &chunk, &bytes, &err));
	check(weir_block_write(batch, &plan, bytes, &err));
	weir_chunk_seal(chunk, plan.size);
	weir_batch_unref(batch);
	weir_array_unref(column);
	return chunk;
}

/* Nanoseconds between answers, one for each batch; the whole time is returned. */
static uint64_t hop(struct weir_worker *worker, int doorbell, struct weir_chunk *chunk, uint64_t rows, uint64_t batches,
		    uint64_t *gaps)
{
	uint64_t begun = weir_clock_ns(), last = begun, given = 0, done = 0;

	while (done < batches) {
		struct weir_worker_event event;

		while (given < batches && weir_worker_in_flight(worker) < IN_FLIGHT)
			check(weir_worker_give(worker, (struct weir_run){.task = given++},
					       &(struct weir_batch_range){chunk, 0, rows}, 1,
					       weir_chunk_size(chunk) + 4096, &err));
		check(weir_worker_receive(worker, false, &event, &err));
		if (event.kind == WEIR_WORKER_NONE) {
			weir_workers_wait(&worker, 1, doorbell, 1000000000);
			continue;
		}
		if (event.kind == WEIR_WORKER_OUTPUT) {
			weir_chunk_unref(event.chunk);
			continue;
		}
		check(event.kind != WEIR_WORKER_DONE);
		gaps[done++] = weir_clock_ns() - last;
		last += gaps[done - 1];
	}
	return last - begun;
}

/* Of both processes: on a machine with other work to do this says more than the time that passes. */
static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double copy_us(const void *from, void *to, uint64_t size, uint64_t count)
{
	uint64_t begun = weir_clock_ns();

	for (uint64_t i = 0; i < count; i++) {
		memcpy(to, from, size);
		__asm__ volatile("" ::"r"(to) : "memory");
	}
	return (double)(weir_clock_ns() - begun) / 1e3 / (double)count;
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = {1 << 10, 64 << 10, 1 << 20};
	uint64_t batches = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
	int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const struct weir_field field = {.name = "n", .type = weir_type_of(WEIR_INT64)};
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_worker *worker;
	struct weir_store *store;
	struct weir_spawner spawner;
	int setup = memfd_create("setup", MFD_CLOEXEC);
	struct weir_mem *mem;
	uint64_t *gaps;
	clockid_t over_there;

	if (argc < 2) {
		fprintf(stderr, "usage: weir_micro_worker_hop PATH_OF_TEST_WORKER [batches]\n");
		return 2;
	}
	check(weir_mem_new(0, &mem, &err));
	account = weir_mem_root(mem);
	check(weir_store_new(account, &(struct weir_store_options){0}, &store, &err));
	schema = weir_schema_new(account, &field, 1, NULL, &err);
	check(!schema);
	weir_spawner_init(&spawner, (const char *const[]){argv[1], NULL});
	check(write(setup, "identity", 8) != 8);
	check(weir_worker_spawn(account,
				&(struct weir_worker_options){.store = store,
							      .launcher = &spawner.launcher,
							      .setup = setup,
							      .setup_size = 8,
							      .doorbell = doorbell},
				&worker, &err));
	for (;;) {
		struct weir_worker_event event;

		check(weir_worker_receive(worker, true, &event, &err));
		if (event.kind == WEIR_WORKER_READY)
			break;
		check(event.kind == WEIR_WORKER_DIED && weir_error_set(&err, WEIR_E_WORKER, "the worker died"));
		weir_workers_wait(&worker, 1, doorbell, -1);
	}
	check(clock_getcpuclockid(weir_worker_pid(worker), &over_there));
	gaps = calloc(batches, sizeof(*gaps));
	printf("%9s %12s %10s %10s %10s %10s %10s %12s   (%d in flight, best and median of %d rounds of %llu)\n",
	       "chunk", "us a batch", "median", "p50 gap", "p99 gap", "cpu here", "there", "plain copy", IN_FLIGHT,
	       ROUNDS, (unsigned long long)batches);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t rows = sizes[s] / 8, count = sizes[s] > 100000 ? batches / 10 : batches, totals[ROUNDS];
		struct weir_chunk *chunk = make_chunk(store, schema, account, (int64_t)rows);
		uint64_t p50[ROUNDS], p99[ROUNDS], here, there;
		const uint8_t *bytes;
		void *target;

		here = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		there = cpu_ns(over_there);
		for (int round = 0; round < ROUNDS; round++) {
			totals[round] = hop(worker, doorbell, chunk, rows, count, gaps);
			qsort(gaps, count, sizeof(*gaps), compare);
			p50[round] = gaps[count / 2];
			p99[round] = gaps[count * 99 / 100];
		}
		here = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - here;
		there = cpu_ns(over_there) - there;
		qsort(totals, ROUNDS, sizeof(*totals), compare);
		qsort(p50, ROUNDS, sizeof(*p50), compare);
		qsort(p99, ROUNDS, sizeof(*p99), compare);
		check(weir_chunk_pin(chunk, &bytes, &err));
		target = weir_alloc_zero(account, weir_chunk_size(chunk), &err);
		check(!target);
		printf("%8lluK %12.2f %10.2f %10.2f %10.2f %10.2f %10.2f %12.2f\n", (unsigned long long)sizes[s] >> 10,
		       (double)totals[0] / 1e3 / (double)count, (double)totals[ROUNDS / 2] / 1e3 / (double)count,
		       (double)p50[ROUNDS / 2] / 1e3, (double)p99[ROUNDS / 2] / 1e3,
		       (double)here / 1e3 / (double)(count * ROUNDS), (double)there / 1e3 / (double)(count * ROUNDS),
		       copy_us(bytes, target, weir_chunk_size(chunk), count));
		weir_free(account, target, weir_chunk_size(chunk));
		weir_chunk_unpin(chunk);
		weir_chunk_unref(chunk);
	}
	free(gaps);
	weir_worker_free(worker);
	close(setup);
	weir_schema_unref(schema);
	weir_store_free(store);
	weir_mem_free(mem);
	return 0;
}
