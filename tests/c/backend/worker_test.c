/* One worker process: batches go and come back, whatever it says is checked, and it never outlives its driver. */
#include "backend/support.h"
#include "base/fault.h"
#include "backend/local/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct setting {
	struct fixture *f;
	struct source source;
	struct weir_worker *worker;
	int doorbell;
};

static struct weir_worker_event receive(struct setting *s)
{
	struct weir_worker_event event;

	for (;;) {
		if (weir_worker_receive(s->worker, true, &event, &s->f->err)) {
			print_error("%s\n", s->f->err.message);
			fail();
		}
		if (event.kind != WEIR_WORKER_NONE)
			return event;
		weir_workers_wait(&s->worker, 1, s->doorbell, -1);
	}
}

static void spawn(struct setting *s, const char *manner)
{
	const struct weir_worker_options options = {.store = s->f->store,
						    .argv = (const char *const[]){copy_worker(), manner, NULL},
						    .setup = s->source.setup.data,
						    .setup_size = s->source.setup.size,
						    .region_size = 64 << 20,
						    .number = 3,
						    .generation = 17,
						    .doorbell = s->doorbell};

	assert_int_equal(weir_worker_spawn(s->f->account, &options, &s->worker, &s->f->err), 0);
}

static void begin(struct setting *s, struct fixture *f, const char *manner)
{
	*s = (struct setting){.f = f, .doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	fixture_store(f, (struct weir_store_options){0});
	source_init(&s->source, f->account, &f->err);
	spawn(s, manner);
}

static void end(struct setting *s)
{
	weir_worker_free(s->worker);
	source_release(&s->source);
	close(s->doorbell);
	assert_int_equal(s->f->store->pinned, 0);
	assert_int_equal(s->f->store->resident, 0);
}

static void give(struct setting *s, struct weir_chunk *chunk, uint64_t task, uint64_t first, uint64_t count,
		 uint64_t room)
{
	assert_int_equal(weir_worker_give(s->worker, (struct weir_run){.stage = 1, .task = task, .attempt = 2},
					  (struct weir_batch_range){chunk, first, count}, room, &s->f->err),
			 0);
}

static void test_batches_come_back(void **state)
{
	struct fixture *f = *state;
	struct random random = random_seeded(1);
	struct setting s;

	begin(&s, f, NULL);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	for (uint64_t round = 0; round < 100; round++) {
		int64_t rows = 1 + (int64_t)random_below(&random, 3000);
		uint64_t first[2], count[2];
		struct weir_batch *batch = batch_of(&s.source, round, rows, &f->err);
		struct weir_chunk *chunk = chunk_of_batch(f->store, batch, &f->err);

		for (int i = 0; i < 2; i++) {
			first[i] = random_below(&random, (size_t)rows);
			count[i] = random_below(&random, (size_t)(rows - (int64_t)first[i])) + 1;
			/* Sometimes too little room: the worker asks for more. */
			give(&s, chunk, round * 2 + (uint64_t)i, first[i], count[i], random_below(&random, 200000));
		}
		weir_batch_unref(batch);
		assert_int_equal(weir_worker_in_flight(s.worker), 2);
		assert_true(f->store->pinned > 0);
		for (int i = 0; i < 2; i++) {
			struct weir_worker_event event = receive(&s);
			int which = (int)(event.run.task - round * 2);

			assert_int_equal(event.kind, WEIR_WORKER_DONE);
			assert_int_equal(event.run.attempt, 2);
			assert_true(which == 0 || which == 1);
			assert_int_equal(event.row_count, count[which]);
			assert_true(chunk_is(&s.source, event.chunk, round, rows, (int64_t)first[which],
					     (int64_t)count[which], &f->err));
			weir_chunk_unref(event.chunk);
		}
		assert_int_equal(f->store->pinned, 0);
		weir_chunk_unref(chunk);
	}
	end(&s);
}

/* One batch given to a worker of this manner; what is reported last. */
static struct weir_worker_event one_batch(struct setting *s, struct fixture *f, const char *manner, bool kill_it)
{
	struct weir_worker_event event;
	struct weir_batch *batch;
	struct weir_chunk *chunk;

	begin(s, f, manner);
	assert_int_equal(receive(s).kind, WEIR_WORKER_READY);
	batch = batch_of(&s->source, 1, 100, &f->err);
	chunk = chunk_of_batch(f->store, batch, &f->err);
	weir_batch_unref(batch);
	give(s, chunk, 1, 0, 100, 100000);
	if (kill_it)
		weir_worker_kill(s->worker);
	event = receive(s);
	assert_int_equal(weir_worker_in_flight(s->worker), 0);
	assert_int_equal(f->store->pinned, 0);
	/* The input is intact whatever happened to the worker. */
	assert_true(chunk_is(&s->source, chunk, 1, 100, 0, 100, &f->err));
	weir_chunk_unref(chunk);
	return event;
}

static void test_a_failed_batch(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "fail", false);
	assert_int_equal(event.kind, WEIR_WORKER_FAILED);
	assert_int_equal(event.code, WEIR_E_VALUE);
	assert_string_equal(event.text, "as it was told");
	end(&s);
}

static void test_a_crash_is_the_batchs_own(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "crash", false);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_int_equal(event.death, WEIR_DEATH_OWN);
	end(&s);
}

static void test_a_kill_comes_from_outside(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "hang", true);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_int_equal(event.death, WEIR_DEATH_OUTSIDE);
	end(&s);
}

static void test_a_liar_is_ended(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "lie", false);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_int_equal(event.death, WEIR_DEATH_OWN);
	assert_int_equal(weir_worker_pid(s.worker), 0);
	end(&s);
}

/* What it made stays readable after it is gone, and its memory goes with the last chunk. */
static void test_chunks_outlive_their_worker(void **state)
{
	struct fixture *f = *state;
	struct weir_worker_event event;
	struct weir_region *region;
	struct weir_batch *batch;
	struct weir_chunk *chunk;
	struct setting s;

	begin(&s, f, NULL);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	batch = batch_of(&s.source, 5, 1000, &f->err);
	chunk = chunk_of_batch(f->store, batch, &f->err);
	weir_batch_unref(batch);
	give(&s, chunk, 1, 0, 1000, 200000);
	event = receive(&s);
	assert_int_equal(event.kind, WEIR_WORKER_DONE);
	weir_chunk_unref(chunk);
	weir_worker_kill(s.worker);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DIED);
	weir_worker_free(s.worker);
	s.worker = NULL;
	assert_true(chunk_is(&s.source, event.chunk, 5, 1000, 0, 1000, &f->err));
	weir_chunk_unref(event.chunk);
	for (region = f->store->regions; region; region = region->next)
		assert_false(region->is_worker);
	end(&s);
}

static void test_a_program_that_is_not_there(void **state)
{
	struct fixture *f = *state;
	const struct weir_worker_options options = {.argv = (const char *const[]){"/no/such/program", NULL}};
	struct weir_worker *worker;

	assert_int_equal(weir_worker_spawn(f->account, &options, &worker, &f->err), WEIR_E_NOT_FOUND);
	assert_non_null(strstr(f->err.message, "/no/such/program"));
}

static void test_a_program_that_is_no_worker(void **state)
{
	struct setting s;

	begin(&s, *state, "old"); /* exits before it has greeted */
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DIED);
	end(&s);
}

/* A driver with a worker that never ends is killed; the worker must be gone too. As this process's grandchild it would be
 * handed to init; as a subreaper this process gets it and sees its end. */
static void test_no_worker_survives_its_driver(void **state)
{
	struct fixture *f = *state;
	int pipe_fds[2], pidfd, status;
	struct pollfd gone;
	pid_t driver, worker;

	assert_int_equal(pipe(pipe_fds), 0);
	driver = fork(); /* this process has one thread */
	assert_true(driver >= 0);
	if (driver == 0) {
		struct setting s;
		struct weir_batch *batch;

		begin(&s, f, "hang");
		if (receive(&s).kind != WEIR_WORKER_READY)
			_exit(1);
		batch = batch_of(&s.source, 1, 100, &f->err);
		give(&s, chunk_of_batch(f->store, batch, &f->err), 1, 0, 100, 100000);
		worker = weir_worker_pid(s.worker);
		if (write(pipe_fds[1], &worker, sizeof(worker)) != sizeof(worker))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipe_fds[0], &worker, sizeof(worker)), sizeof(worker));
	pidfd = pidfd_open(worker, 0);
	assert_true(pidfd >= 0);
	gone = (struct pollfd){.fd = pidfd, .events = POLLIN};
	assert_int_equal(poll(&gone, 1, 0), 0); /* it lives */
	assert_int_equal(kill(driver, SIGKILL), 0);
	assert_int_equal(waitpid(driver, &status, 0), driver);
	assert_int_equal(poll(&gone, 1, 5000), 1);
	close(pidfd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

#ifdef WEIR_FAULTS
/* Each call that spawning needs fails in turn; nothing is left, neither memory nor a process. */
static void test_each_failing_call_is_an_error(void **state)
{
	static const struct {
		enum weir_fault_kind kind;
		int errno_value, code;
	} kinds[] = {{WEIR_FAULT_ALLOC, ENOMEM, WEIR_E_MEMORY},
		     {WEIR_FAULT_MAP, ENOMEM, WEIR_E_MEMORY},
		     {WEIR_FAULT_SPAWN, EAGAIN, WEIR_E_IO}};
	struct fixture *f = *state;
	struct setting s = {.f = f, .doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	const struct weir_worker_options options = {.argv = (const char *const[]){copy_worker(), NULL},
						    .doorbell = s.doorbell};

	fixture_store(f, (struct weir_store_options){0});
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (uint64_t nth = 1;; nth++) {
			int code;

			weir_fault_arm(kinds[k].kind, nth, kinds[k].errno_value, false);
			code = weir_worker_spawn(f->account, &options, &s.worker, &f->err);
			weir_fault_disarm();
			if (!code) {
				assert_true(nth > 1);
				weir_worker_free(s.worker);
				break;
			}
			assert_int_equal(code, kinds[k].code);
			assert_null(s.worker);
		}
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
	close(s.doorbell);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_batches_come_back),
		store_test(test_a_failed_batch),
		store_test(test_a_crash_is_the_batchs_own),
		store_test(test_a_kill_comes_from_outside),
		store_test(test_a_liar_is_ended),
		store_test(test_chunks_outlive_their_worker),
		store_test(test_a_program_that_is_not_there),
		store_test(test_a_program_that_is_no_worker),
		store_test(test_no_worker_survives_its_driver),
#ifdef WEIR_FAULTS
		store_test(test_each_failing_call_is_an_error),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
