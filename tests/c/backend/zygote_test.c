/* Workers from a zygote: it may be killed, slow, unable or gone, and nothing outlives the driver. */
#include "backend/crew.h"
#include "backend/local/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct weir_zygote *zygote_of(const char *manner)
{
	const char *program = strdup(beside("test_zygote")), *worker = test_launcher()->name;
	struct weir_error err = {0};
	struct weir_zygote *zygote;

	if (weir_zygote_new((const char *const[]){program, worker, manner, NULL}, NULL, &zygote, &err)) {
		print_error("%s\n", err.message);
		fail();
	}
	free((char *)program);
	return zygote;
}

static void begin(struct crew *crew, void **state, struct weir_zygote *zygote, const char *setup)
{
	crew_begin(crew, *state, setup, weir_zygote_launcher(zygote), NULL);
}

static void test_batches_come_back(void **state)
{
	struct weir_zygote *zygote = zygote_of(NULL);
	struct crew crew;

	begin(&crew, state, zygote, "identity");
	for (uint32_t slot = 0; slot < CREW_SLOTS; slot++)
		crew_do(&crew, WEIR_DO_START_WORKER, slot);
	for (uint32_t slot = 0; slot < CREW_SLOTS; slot++)
		assert_int_equal(crew_hear(&crew).event.kind, WEIR_EV_SLOT_READY);
	for (uint64_t task = 0; task < 100; task++)
		crew_trip(&crew, task % CREW_SLOTS, task);
	assert_int_equal(weir_zygote_restarts(zygote), 0);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

static void test_a_zygote_in_python(void **state)
{
	const char *program = "/usr/bin/env", *worker = test_launcher()->name;
	struct fixture *f = *state;
	struct weir_zygote *zygote;
	struct weir_pool_event said;
	struct crew crew;

	assert_int_equal(weir_zygote_new((const char *const[]){program, "python3", "-S", "tests/c/backend/zygote.py",
							       worker, NULL},
					 NULL, &zygote, &f->err),
			 0);
	begin(&crew, state, zygote, "exit 7 value=9000031"); /* row 4 of batch 9 */
	crew_start(&crew, 0);
	crew_start(&crew, 1);
	for (uint64_t task = 0; task < 9; task++)
		crew_trip(&crew, task % 2, task);
	crew_give(&crew, 0, 9, 300);
	said = crew_expect(&crew, WEIR_EV_SLOT_DIED, 0);
	assert_true(WIFEXITED(said.status));
	assert_int_equal(WEXITSTATUS(said.status), 7);
	assert_int_equal(said.event.code, -1 - 7);
	crew_start(&crew, 0);
	crew_trip(&crew, 0, 10);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

static void dies(void **state, struct weir_zygote *zygote, const char *setup, enum weir_death death, int code)
{
	struct weir_pool_event said;
	struct crew crew;

	begin(&crew, state, zygote, setup);
	crew_start(&crew, 1);
	crew_give(&crew, 1, 1, 10);
	said = crew_hear(&crew);
	if (said.event.kind == WEIR_EV_OUTPUT) {
		weir_chunk_unref(said.chunk);
		said = crew_hear(&crew);
	}
	assert_int_equal(said.event.kind, WEIR_EV_SLOT_DIED);
	assert_int_equal(said.event.death, death);
	assert_int_equal(said.event.code, code);
	crew_end(&crew);
}

static void test_how_workers_end(void **state)
{
	struct weir_zygote *zygote = zygote_of(NULL);

	dies(state, zygote, "exit 3", WEIR_DEATH_OWN, -1 - 3);
	dies(state, zygote, "segfault", WEIR_DEATH_OWN, SIGSEGV);
	dies(state, zygote, "kill", WEIR_DEATH_OUTSIDE, SIGKILL);
	dies(state, zygote, "die 5", WEIR_DEATH_OUTSIDE, SIGKILL);
	dies(state, zygote, "lie 0", WEIR_DEATH_OWN, SIGKILL);
	weir_zygote_free(zygote);
}

static void test_the_zygote_is_killed(void **state)
{
	struct weir_zygote *zygote = zygote_of(NULL);
	struct weir_pool_event said;
	struct crew crew;
	int pid;

	begin(&crew, state, zygote, "kill value=5000015"); /* row 0 of batch 5 */
	crew_start(&crew, 0);
	crew_start(&crew, 1);
	assert_int_equal(kill(weir_zygote_pid(zygote), SIGKILL), 0);
	crew_trip(&crew, 0, 1); /* who is up goes on */
	crew_trip(&crew, 1, 2);
	/* Nobody can tell how this one ended. */
	crew_give(&crew, 0, 5, 10);
	said = crew_expect(&crew, WEIR_EV_SLOT_DIED, 0);
	assert_int_equal(said.status, WEIR_STATUS_UNKNOWN);
	assert_int_equal(said.event.death, WEIR_DEATH_OUTSIDE);
	crew_start(&crew, 0);
	assert_int_equal(weir_zygote_restarts(zygote), 1);
	crew_trip(&crew, 0, 3);

	/* With a request that it has not looked at: it is made again, and nobody hears of it. */
	pid = weir_zygote_pid(zygote);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	crew_do(&crew, WEIR_DO_START_WORKER, 2);
	assert_int_equal(kill(pid, SIGKILL), 0);
	crew_expect(&crew, WEIR_EV_SLOT_READY, 2);
	assert_int_equal(weir_zygote_restarts(zygote), 2);
	crew_trip(&crew, 2, 4);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

static void test_a_zygote_that_cannot_fork(void **state)
{
	struct weir_zygote *zygote = zygote_of("nofork");
	struct weir_pool_event said;
	struct crew crew;

	begin(&crew, state, zygote, "identity");
	crew_do(&crew, WEIR_DO_START_WORKER, 0);
	said = crew_expect(&crew, WEIR_EV_SLOT_DIED, 0);
	assert_int_equal(said.pid, 0);
	assert_int_equal(weir_zygote_restarts(zygote), 0);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

/* It would do so for ever: not asked again behind the executor's back. */
static void test_a_zygote_that_ends_by_itself(void **state)
{
	struct weir_zygote *zygote = zygote_of("exit");
	struct weir_pool_event said;
	struct crew crew;

	begin(&crew, state, zygote, "identity");
	for (int i = 0; i < 3; i++) {
		crew_do(&crew, WEIR_DO_START_WORKER, 0);
		said = crew_expect(&crew, WEIR_EV_SLOT_DIED, 0);
		assert_true(WIFEXITED(said.status));
		assert_int_equal(WEXITSTATUS(said.status), 9);
	}
	assert_int_equal(weir_zygote_restarts(zygote), 2);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

static void test_a_zygote_that_does_not_listen(void **state)
{
	struct weir_zygote *zygote = zygote_of("mute");
	struct fixture *f = *state;
	uint64_t begun;
	struct crew crew;
	int code = WEIR_OK, count = 0;

	begin(&crew, state, zygote, "identity");
	begun = weir_clock_ns();
	/* Each replaces the one before, which is not up. */
	for (; count < 4000 && !code; count++)
		code = crew_try(&crew, WEIR_DO_START_WORKER, 0);
	print_message("%d requests, then: %s\n", count, f->err.message);
	assert_int_not_equal(code, WEIR_OK);
	crew_end(&crew);
	weir_zygote_free(zygote);
	assert_true(weir_clock_ns() - begun < 20000000000u);
}

static void test_a_program_that_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct weir_zygote *zygote;

	assert_int_equal(weir_zygote_new((const char *const[]){"/no/such/zygote", NULL}, NULL, &zygote, &f->err),
			 WEIR_E_NOT_FOUND);
	assert_null(zygote);
}

/* --- drivers of other kinds, each a process of its own --- */

struct family {
	int zygote, workers[2];
};

/* Two workers, one of them busy for ever, and their numbers. */
static void raise_family(void **state, struct crew *crew, struct family *out)
{
	struct weir_zygote *zygote = zygote_of(NULL);

	begin(crew, state, zygote, "hang value=7000021");
	crew_start(crew, 0);
	crew_start(crew, 1);
	crew_trip(crew, 0, 1);
	crew_give(crew, 1, 7, 10);
	*out = (struct family){weir_zygote_pid(zygote), {weir_pool_pid(crew->pool, 0), weir_pool_pid(crew->pool, 1)}};
}

/* As grandchildren they are handed to this process, which sees their end. */
static void test_nothing_survives_the_driver(void **state)
{
	struct family family;
	struct pollfd gone[3];
	int ends[2], status;
	pid_t driver;

	assert_int_equal(pipe(ends), 0);
	driver = fork(); /* this process has one thread */
	assert_true(driver >= 0);
	if (driver == 0) {
		struct crew crew;

		raise_family(state, &crew, &family);
		if (write(ends[1], &family, sizeof(family)) != sizeof(family))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], &family, sizeof(family)), sizeof(family));
	gone[0] = (struct pollfd){.fd = pidfd_open(family.zygote, 0), .events = POLLIN};
	gone[1] = (struct pollfd){.fd = pidfd_open(family.workers[0], 0), .events = POLLIN};
	gone[2] = (struct pollfd){.fd = pidfd_open(family.workers[1], 0), .events = POLLIN};
	assert_int_equal(poll(gone, 3, 0), 0);
	assert_int_equal(kill(driver, SIGKILL), 0);
	assert_int_equal(waitpid(driver, &status, 0), driver);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(poll(&gone[i], 1, 1000), 1);
		close(gone[i].fd);
	}
	close(ends[0]);
	close(ends[1]);
}

/* The whole trip, in a process that was changed by `change` first. Zero: all went well. */
static void in_a_driver(void **state, void (*change)(void))
{
	pid_t driver = fork();
	int status;

	assert_true(driver >= 0);
	if (driver == 0) {
		struct weir_zygote *zygote;
		struct crew crew;

		change();
		zygote = zygote_of(NULL);
		begin(&crew, state, zygote, "exit 7 value=9000031");
		crew_start(&crew, 0);
		crew_start(&crew, 1);
		for (uint64_t task = 0; task < 9; task++)
			crew_trip(&crew, task % 2, task);
		crew_give(&crew, 0, 9, 300);
		crew_expect(&crew, WEIR_EV_SLOT_DIED, 0);
		crew_start(&crew, 0);
		crew_trip(&crew, 0, 10);
		crew_end(&crew);
		weir_zygote_free(zygote);
		_exit(77);
	}
	assert_int_equal(waitpid(driver, &status, 0), driver);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 77);
}

static void close_some(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

static void close_standard(void)
{
	close_some((int[]){0, 1, 2}, 3);
}

static void close_to_four(void)
{
	close_some((int[]){0, 1, 2, 3, 4}, 5);
}

static void close_output(void)
{
	close_some((int[]){1}, 1);
}

static void be_a_daemon(void)
{
	setsid();
	if (fork() > 0) {
		int status;

		wait(&status);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	close_standard();
	umask(0);
}

static void ignore_children(void)
{
	signal(SIGCHLD, SIG_IGN);
}

static void have_few_descriptors(void)
{
	struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};

	setrlimit(RLIMIT_NOFILE, &limit);
}

static void test_drivers_of_all_kinds(void **state)
{
	in_a_driver(state, close_standard);
	in_a_driver(state, close_to_four);
	in_a_driver(state, close_output);
	in_a_driver(state, be_a_daemon);
	in_a_driver(state, ignore_children);
	in_a_driver(state, have_few_descriptors);
}

/* Whatever descriptor is the one too many: an error, and what was there still works. */
static void test_descriptors_run_out(void **state)
{
	struct weir_zygote *zygote = zygote_of(NULL);
	struct fixture *f = *state;
	struct rlimit before, limit;
	struct crew crew;
	int first, refused = 0;

	begin(&crew, state, zygote, "identity");
	crew_start(&crew, 0);
	crew_trip(&crew, 0, 1000); /* the store has its memory */
	getrlimit(RLIMIT_NOFILE, &before);
	/* Below the first free one, and then higher by one each time. */
	first = dup(0);
	close(first);
	for (rlim_t more = 0; more < 30; more++) {
		limit = (struct rlimit){.rlim_cur = (rlim_t)first + more, .rlim_max = before.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (crew_try(&crew, WEIR_DO_START_WORKER, 1)) {
			assert_int_equal(f->err.errno_value, EMFILE);
			refused++;
		} else {
			struct weir_pool_event said = {.event = {.kind = WEIR_EV_START}};

			/* It may lack one when it greets. */
			while (said.event.kind == WEIR_EV_START) {
				crew.heard = crew.said.count = 0;
				if (weir_pool_wait(crew.pool, 100000000, &crew.said, &f->err)) {
					assert_int_equal(f->err.errno_value, EMFILE);
					refused++;
					crew_do(&crew, WEIR_DO_KILL_WORKER, 1);
					break;
				}
				if (crew.said.count)
					said = crew.said.items[crew.heard++];
			}
		}
		crew_trip(&crew, 0, more);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(refused > 5 && refused < 30);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

/* A child that was forked from the driver has nothing to do with its zygote. */
static void test_a_forked_child_leaves_it_alone(void **state)
{
	struct weir_zygote *zygote = zygote_of(NULL);
	struct crew crew;
	int status;
	pid_t child;

	begin(&crew, state, zygote, "identity");
	crew_start(&crew, 0);
	child = fork();
	if (child == 0) {
		int code = crew_try(&crew, WEIR_DO_START_WORKER, 1);

		weir_zygote_free(zygote);
		_exit(code == WEIR_E_WORKER ? 77 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 77);
	crew_trip(&crew, 0, 1);
	crew_start(&crew, 1);
	assert_int_equal(weir_zygote_restarts(zygote), 0);
	crew_end(&crew);
	weir_zygote_free(zygote);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_batches_come_back),
		store_test(test_a_zygote_in_python),
		store_test(test_how_workers_end),
		store_test(test_the_zygote_is_killed),
		store_test(test_a_zygote_that_cannot_fork),
		store_test(test_a_zygote_that_ends_by_itself),
		store_test(test_a_zygote_that_does_not_listen),
		store_test(test_a_program_that_is_not_there),
		store_test(test_nothing_survives_the_driver),
		store_test(test_drivers_of_all_kinds),
		store_test(test_descriptors_run_out),
		store_test(test_a_forked_child_leaves_it_alone),
	};

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
