/* One worker process: batches go and come back, whatever it says is checked, and it never outlives its driver. */
#include "backend/support.h"
#include "base/clock.h"
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
	int doorbell, setup;
	bool spins;
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
		weir_workers_wait(&s->worker, 1, s->doorbell, -1, &s->spins);
	}
}

static void spawn_by(struct setting *s, const char *setup, const struct weir_launcher *launcher)
{
	struct weir_worker_options options = {.store = s->f->store,
					      .launcher = launcher,
					      .setup_size = strlen(setup),
					      .region_size = 64 << 20,
					      .number = 3,
					      .generation = 17,
					      .doorbell = s->doorbell};

	s->setup = options.setup = setup_of(setup);
	assert_int_equal(weir_worker_spawn(s->f->account, &options, &s->worker, &s->f->err), 0);
}

static void begin_by(struct setting *s, struct fixture *f, const char *setup, const struct weir_launcher *launcher)
{
	*s = (struct setting){.f = f, .doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	fixture_store(f, (struct weir_store_options){0});
	source_init(&s->source, f->account, &f->err);
	spawn_by(s, setup, launcher);
}

static void begin(struct setting *s, struct fixture *f, const char *setup)
{
	begin_by(s, f, setup, test_launcher());
}

static void end(struct setting *s)
{
	weir_worker_free(s->worker);
	source_release(&s->source);
	close(s->doorbell);
	close(s->setup);
	assert_int_equal(s->f->store->pinned, 0);
	assert_int_equal(s->f->store->resident, 0);
}

static void give_parts(struct setting *s, uint64_t task, const struct weir_batch_range *parts, uint32_t count,
		       uint64_t room)
{
	assert_int_equal(weir_worker_give(s->worker, (struct weir_run){.stage = 1, .task = task, .attempt = 2}, parts,
					  count, room, (struct weir_batch_kept){0}, &s->f->err),
			 0);
}

static void give(struct setting *s, struct weir_chunk *chunk, uint64_t task, uint64_t first, uint64_t count,
		 uint64_t room)
{
	give_parts(s, task, &(struct weir_batch_range){chunk, first, count}, 1, room);
}

static struct weir_chunk *chunk_of_key(struct setting *s, uint64_t key, int64_t rows)
{
	struct weir_batch *batch = batch_of(&s->source, key, rows, &s->f->err);
	struct weir_chunk *chunk = chunk_of_batch(s->f->store, batch, &s->f->err);

	weir_batch_unref(batch);
	return chunk;
}

static void test_batches_come_back(void **state)
{
	struct fixture *f = *state;
	struct random random = random_seeded(1);
	struct setting s;

	begin(&s, f, "identity");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	for (uint64_t round = 0; round < 100; round++) {
		int64_t rows = 1 + (int64_t)random_below(&random, 3000);
		uint64_t first[2], count[2];
		struct weir_chunk *chunk = chunk_of_key(&s, round, rows);

		for (int i = 0; i < 2; i++) {
			first[i] = random_below(&random, (size_t)rows);
			count[i] = random_below(&random, (size_t)(rows - (int64_t)first[i])) + 1;
			/* Sometimes too little room: the worker asks for more. */
			give(&s, chunk, round * 2 + (uint64_t)i, first[i], count[i], random_below(&random, 200000));
		}
		assert_int_equal(weir_worker_in_flight(s.worker), 2);
		assert_true(f->store->pinned > 0);
		for (int i = 0; i < 2; i++) {
			struct weir_worker_event event = receive(&s);
			int which = (int)(event.run.task - round * 2);

			assert_int_equal(event.kind, WEIR_WORKER_OUTPUT);
			assert_int_equal(event.run.attempt, 2);
			assert_true(which == 0 || which == 1);
			assert_int_equal(event.row_count, count[which]);
			assert_int_equal(event.number, 0);
			assert_true(chunk_is(&s.source, event.chunk, round, rows, (int64_t)first[which],
					     (int64_t)count[which], &f->err));
			weir_chunk_unref(event.chunk);
			event = receive(&s);
			assert_int_equal(event.kind, WEIR_WORKER_DONE);
			assert_int_equal(event.run.task, round * 2 + (uint64_t)which);
			assert_int_equal(event.row_count, count[which]);
		}
		assert_int_equal(f->store->pinned, 0);
		weir_chunk_unref(chunk);
	}
	end(&s);
}

/* One batch given to a worker of this manner; what is reported last. */
static struct weir_worker_event one_batch(struct setting *s, struct fixture *f, const char *setup, bool kill_it)
{
	struct weir_worker_event event;
	struct weir_chunk *chunk;

	begin(s, f, setup);
	assert_int_equal(receive(s).kind, WEIR_WORKER_READY);
	chunk = chunk_of_key(s, 1, 100);
	give(s, chunk, 1, 0, 100, 100000);
	if (kill_it)
		weir_worker_kill(s->worker);
	do {
		event = receive(s);
		if (event.kind == WEIR_WORKER_OUTPUT)
			weir_chunk_unref(event.chunk);
	} while (event.kind == WEIR_WORKER_OUTPUT);
	assert_int_equal(weir_worker_in_flight(s->worker), 0);
	assert_int_equal(f->store->pinned, 0);
	/* The input is intact whatever happened to the worker. */
	assert_true(chunk_is(&s->source, chunk, 1, 100, 0, 100, &f->err));
	weir_chunk_unref(chunk);
	return event;
}

static void check_payload(struct fixture *f, struct weir_chunk *chunk, uint64_t size)
{
	const uint8_t *bytes;

	assert_non_null(chunk);
	assert_int_equal(weir_chunk_size(chunk), size);
	assert_int_equal(weir_chunk_pin(chunk, &bytes, &f->err), 0);
	for (uint64_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], 'a' + i % 26);
	weir_chunk_unpin(chunk);
	weir_chunk_unref(chunk);
}

/* A payload may fit the room or not. */
static void test_a_failed_batch(void **state)
{
	static const struct {
		const char *setup;
		uint64_t size;
	} cases[] = {{"fail 1000", 1000}, {"fail 3000000", 3000000}};
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		struct weir_worker_event event;
		struct setting s;

		event = one_batch(&s, f, cases[i].setup, false);
		assert_int_equal(event.kind, WEIR_WORKER_FAILED);
		assert_int_equal(event.code, WEIR_E_USER);
		assert_string_equal(event.text, "as it was told");
		check_payload(f, event.chunk, cases[i].size);
		end(&s);
		if (i == 0) {
			weir_store_free(f->store);
			f->store = NULL;
		}
	}
}

/* Too large for the worker's region: what happened is known all the same. */
static void test_a_payload_without_room(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "fail 100000000", false);
	assert_int_equal(event.kind, WEIR_WORKER_FAILED);
	assert_int_equal(event.code, WEIR_E_USER);
	assert_null(event.chunk);
	end(&s);
}

static void test_a_setup_that_fails(void **state)
{
	static const char *const setups[] = {"broken 20000", "broken_exit 20000"};
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		struct weir_worker_event event;
		struct setting s;

		begin(&s, f, setups[i]);
		event = receive(&s);
		assert_int_equal(event.kind, WEIR_WORKER_BROKEN);
		assert_int_equal(event.code, WEIR_E_USER);
		assert_string_equal(event.text, "cannot begin");
		check_payload(f, event.chunk, 20000);
		if (i == 1) {
			event = receive(&s);
			assert_int_equal(event.kind, WEIR_WORKER_DIED);
			assert_int_equal(event.status, 0);
		}
		end(&s);
		if (i == 0) {
			weir_store_free(f->store);
			f->store = NULL;
		}
	}
}

static void test_several_outputs(void **state)
{
	struct fixture *f = *state;
	struct weir_worker_event event;
	struct weir_chunk *chunk;
	struct setting s;

	begin(&s, f, "split 7");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	chunk = chunk_of_key(&s, 9, 1000);
	give(&s, chunk, 5, 0, 1000, 10000); /* room for two pages of them */
	for (uint32_t i = 0; i < 143; i++) {
		event = receive(&s);
		assert_int_equal(event.kind, WEIR_WORKER_OUTPUT);
		assert_int_equal(event.number, i);
		assert_int_equal(event.row_count, i < 142 ? 7 : 6);
		assert_true(chunk_is(&s.source, event.chunk, 9, 1000, i * 7, (int64_t)event.row_count, &f->err));
		weir_chunk_unref(event.chunk);
	}
	event = receive(&s);
	assert_int_equal(event.kind, WEIR_WORKER_DONE);
	assert_int_equal(event.row_count, 1000);
	weir_chunk_unref(chunk);
	end(&s);
}

static void test_no_output(void **state)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, *state, "none", false);
	assert_int_equal(event.kind, WEIR_WORKER_DONE);
	assert_int_equal(event.row_count, 0);
	end(&s);
}

static void test_several_parts(void **state)
{
	enum { PARTS = 300 }; /* more than the ring has places */
	static struct weir_batch_range parts[PARTS];
	struct fixture *f = *state;
	struct weir_worker_event event;
	struct setting s;

	begin(&s, f, "identity");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	for (uint32_t i = 0; i < PARTS; i++)
		parts[i] = (struct weir_batch_range){chunk_of_key(&s, i, 20 + i), i % 20, 20};
	give_parts(&s, 5, parts, PARTS, 1 << 20);
	for (uint32_t i = 0; i < PARTS; i++)
		weir_chunk_unref(parts[i].chunk); /* the worker's own reference keeps them */
	for (uint32_t i = 0; i < PARTS; i++) {
		event = receive(&s);
		assert_int_equal(event.kind, WEIR_WORKER_OUTPUT);
		assert_true(chunk_is(&s.source, event.chunk, i, 20 + i, i % 20, 20, &f->err));
		weir_chunk_unref(event.chunk);
	}
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DONE);
	end(&s);
}

/* The worker keeps the inputs of its last tasks, while the places of others are used again and again, and some of what
 * it sees was scribbled over: neither may show in what it is given later, nor in the chunks themselves. */
static void keep_inputs(struct fixture *f, const char *setup, uint64_t held_min, uint64_t held_max)
{
	struct weir_worker_event event;
	struct setting s;

	begin(&s, f, setup);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	for (uint64_t round = 0; round < 200; round++) {
		int64_t rows = 1 + (int64_t)(round * 37 % 900);
		struct weir_chunk *chunk = chunk_of_key(&s, round, rows), *other = chunk_of_key(&s, round + 7, rows);

		give_parts(&s, round, (struct weir_batch_range[]){{chunk, 0, rows}, {other, 0, rows}}, 2, 100000);
		for (uint64_t i = 0; i < 2; i++) {
			event = receive(&s);
			assert_int_equal(event.kind, WEIR_WORKER_OUTPUT);
			assert_true(chunk_is(&s.source, event.chunk, round + 7 * i, rows, 0, rows, &f->err));
			weir_chunk_unref(event.chunk);
		}
		event = receive(&s);
		if (event.kind == WEIR_WORKER_FAILED)
			print_error("%s\n", event.text);
		assert_int_equal(event.kind, WEIR_WORKER_DONE);
		assert_true(chunk_is(&s.source, chunk, round, rows, 0, rows, &f->err));
		weir_chunk_unref(chunk);
		weir_chunk_unref(other);
	}
	assert_true(f->store->pinned >= (int64_t)held_min * 4096);
	assert_true(f->store->pinned <= (int64_t)held_max * (64 << 10));
	assert_true(weir_worker_measure(s.worker) >= (int64_t)held_min * 4096);
	end(&s);
}

/* What is mapped is about to be used, and counts; what nobody comes to use, less and less. */
static void test_memory_that_is_about_to_be_used(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunk;
	struct setting s;
	int64_t before, measured;

	begin(&s, f, "map 100000000");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	before = weir_worker_measure(s.worker);
	chunk = chunk_of_key(&s, 1, 10);
	give(&s, chunk, 1, 0, 10, 10000);
	weir_chunk_unref(receive(&s).chunk);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DONE);
	measured = weir_worker_measure(s.worker);
	assert_in_range(measured, before + 100000000, before + 110000000);
	/* However often one looks, it takes its time. */
	for (uint64_t begun_ns = weir_clock_ns(), until_ns = begun_ns; until_ns - begun_ns < 1000000;
	     until_ns = weir_clock_ns())
		measured = weir_worker_measure(s.worker);
	assert_in_range(measured, before + 50000000, before + 110000000);
	for (uint64_t begun_ns = weir_clock_ns();
	     measured > before + 10000000 && weir_clock_ns() - begun_ns < 60000000000u;)
		measured = weir_worker_measure(s.worker);
	assert_in_range(measured, 1, before + 10000000);
	weir_chunk_unref(chunk);
	end(&s);
}

static void test_some_inputs_are_kept(void **state)
{
	keep_inputs(*state, "hold 10", 10, 10);
}

static void test_all_inputs_are_kept(void **state)
{
	keep_inputs(*state, "hold", 400, 400);
}

static void test_inputs_are_scribbled_over(void **state)
{
	keep_inputs(*state, "scribble", 0, 0);
}

static void test_a_child_of_a_worker_is_not_heard(void **state)
{
	keep_inputs(*state, "fork", 0, 0);
}

static void ends_as(struct fixture *f, const char *setup, enum weir_death death, bool kill_it)
{
	struct weir_worker_event event;
	struct setting s;

	event = one_batch(&s, f, setup, kill_it);
	if (event.kind != WEIR_WORKER_DIED || event.death != death)
		print_error("%s: event %d, death %d\n", setup, (int)event.kind, (int)event.death);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_int_equal(event.death, death);
	assert_int_equal(weir_worker_pid(s.worker), 0);
	end(&s);
	weir_store_free(f->store);
	f->store = NULL;
}

static void test_crashes_are_the_batchs_own(void **state)
{
	ends_as(*state, "abort", WEIR_DEATH_OWN, false);
	ends_as(*state, "segfault", WEIR_DEATH_OWN, false);
	ends_as(*state, "exit 0", WEIR_DEATH_OWN, false);
	ends_as(*state, "exit 7", WEIR_DEATH_OWN, false);
}

static void test_kills_come_from_outside(void **state)
{
	ends_as(*state, "hang", WEIR_DEATH_OUTSIDE, true);
	ends_as(*state, "die 3", WEIR_DEATH_OUTSIDE, false);
	ends_as(*state, "die 4", WEIR_DEATH_OUTSIDE, false);
	ends_as(*state, "die 5", WEIR_DEATH_OUTSIDE, false);
	ends_as(*state, "die 6", WEIR_DEATH_OUTSIDE, false);
}

static void test_liars_are_ended(void **state)
{
	static const char *const lies[] = {"lie 0", "lie 2", "lie 3", "lie 4", "lie 5", "lie 6", "lie 7"};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		ends_as(*state, lies[i], WEIR_DEATH_OWN, false);
	/* What concerns no batch of its own is ignored, and then it is only slow. */
	ends_as(*state, "lie 1", WEIR_DEATH_OUTSIDE, true);
}

/* Whatever it says, nothing is lost, nothing breaks, and its end is seen. How much of it is heard before it ends is a
   matter of time, so there are more seeds until enough was believed to say something. */
static void test_chaos(void **state)
{
	enum { SEEDS_MIN = 150, SEEDS_MAX = 3000, OUTPUTS_MIN = 20, ANSWERS_MIN = 5 };
	struct fixture *f = *state;
	uint64_t outputs = 0, answers = 0;

	for (int seed = 1; seed <= SEEDS_MIN || ((outputs < OUTPUTS_MIN || answers < ANSWERS_MIN) && seed <= SEEDS_MAX);
	     seed++) {
		struct weir_worker_event event;
		struct weir_chunk *chunk;
		struct setting s;
		char setup[32];

		snprintf(setup, sizeof(setup), "chaos %d", seed);
		begin(&s, f, setup);
		assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
		chunk = chunk_of_key(&s, 1, 1000);
		give(&s, chunk, 1, 0, 1000, 100000);
		give(&s, chunk, 2, 0, 1000, 100000);
		while ((event = receive(&s)).kind != WEIR_WORKER_DIED) {
			outputs += event.kind == WEIR_WORKER_OUTPUT;
			answers += event.kind != WEIR_WORKER_OUTPUT;
			weir_chunk_unref(event.chunk);
		}
		assert_true(chunk_is(&s.source, chunk, 1, 1000, 0, 1000, &f->err));
		weir_chunk_unref(chunk);
		end(&s);
		weir_store_free(f->store);
		f->store = NULL;
	}
	print_message("%llu outputs and %llu other answers believed\n", (unsigned long long)outputs,
		      (unsigned long long)answers);
	assert_true(outputs >= OUTPUTS_MIN && answers >= ANSWERS_MIN);
}

/* Before it is up there is no batch to blame. */
static void test_deaths_before_it_is_up(void **state)
{
	struct fixture *f = *state;
	struct setting s;

	begin(&s, f, "die 1");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DIED);
	end(&s);
	weir_store_free(f->store);
	begin(&s, f, "die 2");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DIED);
	end(&s);
}

static void test_one_that_does_not_quit(void **state)
{
	uint64_t begun = weir_clock_ns();
	struct setting s;

	begin(&s, *state, "deaf");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	weir_worker_stop(s.worker);
	end(&s);
	assert_true(weir_clock_ns() - begun < 5000000000u);
}

/* What it made stays readable after it is gone, and its memory goes with the last chunk. */
static void test_chunks_outlive_their_worker(void **state)
{
	struct fixture *f = *state;
	struct weir_worker_event event;
	struct weir_region *region;
	struct weir_chunk *chunk;
	struct setting s;

	begin(&s, f, "identity");
	assert_int_equal(receive(&s).kind, WEIR_WORKER_READY);
	chunk = chunk_of_key(&s, 5, 1000);
	give(&s, chunk, 1, 0, 1000, 200000);
	event = receive(&s);
	assert_int_equal(event.kind, WEIR_WORKER_OUTPUT);
	assert_int_equal(receive(&s).kind, WEIR_WORKER_DONE);
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
	const char *const argv[] = {"/no/such/program", NULL};
	struct weir_spawner spawner;
	struct weir_worker_options options = {.launcher = &spawner.launcher};
	struct weir_worker *worker;

	weir_spawner_init(&spawner, argv);
	options.doorbell = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(weir_worker_spawn(f->account, &options, &worker, &f->err), WEIR_E_NOT_FOUND);
	assert_non_null(strstr(f->err.message, "/no/such/program"));
	close(options.doorbell);
}

static void test_programs_that_are_no_workers(void **state)
{
	const char *argv[] = {test_launcher()->name, "exit", NULL}; /* before it has greeted */
	struct fixture *f = *state;
	struct weir_worker_event event;
	struct weir_spawner spawner;
	struct setting s;

	weir_spawner_init(&spawner, argv);
	begin_by(&s, f, "identity", &spawner.launcher);
	event = receive(&s);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_true(WIFEXITED(event.status));
	assert_int_equal(WEXITSTATUS(event.status), 3);
	end(&s);
	weir_store_free(f->store);
	argv[1] = "hang"; /* never greets */
	begin_by(&s, f, "identity", &spawner.launcher);
	weir_worker_kill(s.worker);
	event = receive(&s);
	assert_int_equal(event.kind, WEIR_WORKER_DIED);
	assert_int_equal(event.death, WEIR_DEATH_OUTSIDE);
	end(&s);
	weir_store_free(f->store);
	begin_by(&s, f, "identity", &spawner.launcher);
	end(&s); /* freed before anything is known of it */
}

/* A driver with a worker that never ends is killed; the worker must be gone too. As this process's grandchild it would
 * be handed to init; as a subreaper this process gets it and sees its end. */
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

		begin(&s, f, "hang");
		if (receive(&s).kind != WEIR_WORKER_READY)
			_exit(1);
		give(&s, chunk_of_key(&s, 1, 100), 1, 0, 100, 100000);
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
	const struct weir_worker_options options = {.launcher = test_launcher(), .doorbell = s.doorbell};

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
		store_test(test_several_outputs),
		store_test(test_no_output),
		store_test(test_several_parts),
		store_test(test_some_inputs_are_kept),
		store_test(test_all_inputs_are_kept),
		store_test(test_memory_that_is_about_to_be_used),
		store_test(test_inputs_are_scribbled_over),
		store_test(test_a_child_of_a_worker_is_not_heard),
		store_test(test_a_failed_batch),
		store_test(test_a_payload_without_room),
		store_test(test_a_setup_that_fails),
		store_test(test_crashes_are_the_batchs_own),
		store_test(test_kills_come_from_outside),
		store_test(test_liars_are_ended),
		store_test(test_chaos),
		store_test(test_deaths_before_it_is_up),
		store_test(test_one_that_does_not_quit),
		store_test(test_chunks_outlive_their_worker),
		store_test(test_a_program_that_is_not_there),
		store_test(test_programs_that_are_no_workers),
		store_test(test_no_worker_survives_its_driver),
#ifdef WEIR_FAULTS
		store_test(test_each_failing_call_is_an_error),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
