/* A pool: told from many threads while one waits; what workers print; how much memory they have and may have. */
#include "backend/crew.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

/* --- threads --- */

enum { GIVERS = 3, TASKS = 6000, IN_FLIGHT = 2 };

/* The giving threads share what a run's lock would guard. */
struct yard {
	struct crew crew;
	pthread_mutex_t lock; /* guards all below; rank: above the pool's */
	pthread_cond_t moved;
	uint32_t busy[CREW_SLOTS];
	bool up[CREW_SLOTS];
	bool given[TASKS], outputs[TASKS], done[TASKS];
	uint64_t in_slot[CREW_SLOTS][IN_FLIGHT];
	uint64_t next, finished;
};

/* Under the lock. Behind one that came back from the dead there may be others that are given. */
static bool has_next(struct yard *yard)
{
	while (yard->next < TASKS && yard->given[yard->next])
		yard->next++;
	return yard->next < TASKS;
}

static void give_next(struct yard *yard, uint32_t slot)
{
	uint64_t task = yard->next++;

	yard->given[task] = true;
	yard->in_slot[slot][yard->busy[slot]++] = task;
	crew_give(&yard->crew, slot, task, 1 + (int64_t)(task % 50));
}

static void *give_tasks(void *argument)
{
	struct yard *yard = argument;

	pthread_mutex_lock(&yard->lock);
	while (yard->finished < TASKS) {
		bool gave = false;

		for (uint32_t slot = 0; slot < CREW_SLOTS && has_next(yard); slot++) {
			if (!yard->up[slot] || yard->busy[slot] >= IN_FLIGHT)
				continue;
			give_next(yard, slot);
			gave = true;
		}
		if (!gave)
			pthread_cond_wait(&yard->moved, &yard->lock);
		else { /* others have their turn */
			pthread_mutex_unlock(&yard->lock);
			sched_yield();
			pthread_mutex_lock(&yard->lock);
		}
	}
	pthread_mutex_unlock(&yard->lock);
	return NULL;
}

static void slot_died(struct yard *yard, uint32_t slot)
{
	yard->up[slot] = false;
	while (yard->busy[slot]) { /* what it had is to be done again */
		uint64_t task = yard->in_slot[slot][--yard->busy[slot]];

		yard->given[task] = yard->outputs[task] = false;
		if (task < yard->next)
			yard->next = task;
	}
	crew_do(&yard->crew, WEIR_DO_START_WORKER, slot);
}

static void task_done(struct yard *yard, uint32_t slot, uint64_t task)
{
	uint32_t at = yard->in_slot[slot][0] == task ? 0 : 1;

	assert_int_equal(yard->in_slot[slot][at], task);
	assert_true(yard->outputs[task] && !yard->done[task]);
	yard->done[task] = true;
	yard->in_slot[slot][at] = yard->in_slot[slot][--yard->busy[slot]];
	yard->finished++;
}

static void test_many_threads_perform(void **state)
{
	static struct yard yard;
	struct random random = random_seeded(5);
	pthread_t givers[GIVERS];
	uint64_t kills = 0;

	memset(&yard, 0, sizeof(yard));
	crew_begin(&yard.crew, *state, "identity", test_launcher(), NULL);
	pthread_mutex_init(&yard.lock, NULL);
	pthread_cond_init(&yard.moved, NULL);
	for (uint32_t slot = 0; slot < CREW_SLOTS; slot++)
		crew_do(&yard.crew, WEIR_DO_START_WORKER, slot);
	for (int i = 0; i < GIVERS; i++)
		assert_int_equal(pthread_create(&givers[i], NULL, give_tasks, &yard), 0);
	while (yard.finished < TASKS) {
		struct weir_pool_event said = crew_hear(&yard.crew);
		uint32_t slot = said.event.slot;

		pthread_mutex_lock(&yard.lock);
		switch (said.event.kind) {
		case WEIR_EV_SLOT_READY:
			yard.up[slot] = true;
			break;
		case WEIR_EV_OUTPUT:
			yard.outputs[said.event.run.task] = true;
			assert_int_equal(said.event.rows, 1 + said.event.run.task % 50);
			weir_chunk_unref(said.chunk);
			break;
		case WEIR_EV_TASK_DONE:
			task_done(&yard, slot, said.event.run.task);
			if (random_below(&random, 200) == 0) {
				crew_do(&yard.crew, WEIR_DO_KILL_WORKER, slot);
				kills++;
			}
			break;
		case WEIR_EV_SLOT_DIED:
			slot_died(&yard, slot);
			break;
		default:
			fail();
		}
		pthread_cond_broadcast(&yard.moved);
		pthread_mutex_unlock(&yard.lock);
	}
	for (int i = 0; i < GIVERS; i++)
		pthread_join(givers[i], NULL);
	print_message("%d tasks, %llu kills\n", TASKS, (unsigned long long)kills);
	assert_true(kills > 3);
	crew_end(&yard.crew);
	pthread_mutex_destroy(&yard.lock);
	pthread_cond_destroy(&yard.moved);
}

static void *wake(void *argument)
{
	weir_pool_wake(argument);
	return NULL;
}

static void test_a_wait_ends_when_woken(void **state)
{
	struct crew crew;
	pthread_t thread;

	crew_begin(&crew, *state, "identity", test_launcher(), NULL);
	crew_start(&crew, 0);
	assert_int_equal(pthread_create(&thread, NULL, wake, crew.pool), 0);
	assert_int_equal(weir_pool_wait(crew.pool, -1, &crew.said, &crew.f->err), 0);
	pthread_join(thread, NULL);
	crew_end(&crew);
}

/* --- what happened to a batch --- */

static void test_failures_have_their_payload(void **state)
{
	struct weir_pool_event said;
	const uint8_t *bytes;
	struct crew crew;

	crew_begin(&crew, *state, "fail 100000", test_launcher(), NULL);
	crew_start(&crew, 0);
	crew_give(&crew, 0, 1, 10);
	said = crew_expect(&crew, WEIR_EV_TASK_FAILED, 0);
	assert_int_equal(said.event.code, WEIR_E_USER);
	assert_int_equal(said.event.run.task, 1);
	assert_int_equal(said.pid, weir_pool_pid(crew.pool, 0));
	assert_int_equal(weir_chunk_size(said.chunk), 100000);
	assert_int_equal(weir_chunk_pin(said.chunk, &bytes, &crew.f->err), 0);
	assert_int_equal(bytes[99999], 'a' + 99999 % 26);
	weir_chunk_unpin(said.chunk);
	weir_chunk_unref(said.chunk);
	crew_end(&crew);
}

static void test_a_setup_that_fails_ends_the_run(void **state)
{
	struct weir_pool_event said;
	struct crew crew;

	crew_begin(&crew, *state, "broken", test_launcher(), NULL);
	crew_do(&crew, WEIR_DO_START_WORKER, 0);
	said = crew_expect(&crew, WEIR_EV_CANCEL, 0);
	assert_int_equal(said.event.code, WEIR_E_USER);
	assert_int_equal(weir_chunk_size(said.chunk), strlen("cannot begin"));
	weir_chunk_unref(said.chunk);
	crew_end(&crew);
}

/* --- lines --- */

static void hear_lines(struct crew *crew, struct weir_prints *prints, uint64_t *lines, uint64_t *dropped)
{
	struct weir_print_list list = {0};

	*dropped += weir_prints_take(prints, &list);
	for (size_t i = 0; i < list.count; i++) {
		assert_int_equal(list.items[i].stage, CREW_STAGE);
		assert_int_equal(list.items[i].size, strlen(list.items[i].text));
		*dropped += list.items[i].dropped;
		if (list.items[i].is_stderr)
			assert_string_equal(list.items[i].text, "done");
		else
			assert_int_equal(strncmp(list.items[i].text, "line ", 5), 0);
		(*lines)++;
	}
	weir_print_list_release(&list, crew->f->account);
}

static void test_lines_arrive(void **state)
{
	struct fixture *f = *state;
	uint64_t lines = 0, dropped = 0;
	struct weir_prints prints;
	struct crew crew;

	assert_int_equal(weir_prints_init(&prints, f->account, -1, &f->err), 0);
	crew_begin(&crew, f, "print 3", test_launcher(), &prints);
	crew_start(&crew, 0);
	crew_start(&crew, 1);
	for (uint64_t task = 0; task < 20; task++)
		crew_trip(&crew, task % 2, task);
	while (lines < 20 * 4) {
		assert_int_equal(weir_pool_wait(crew.pool, 10000000, &crew.said, &f->err), 0);
		hear_lines(&crew, &prints, &lines, &dropped);
	}
	assert_int_equal(dropped, 0);
	crew_end(&crew);
	weir_prints_release(&prints);
	weir_prints_release(&prints);
}

/* Far more than is kept: neither does the worker wait, nor does it cost more memory, and it is known how much was
 * lost. */
static void test_too_many_lines(void **state)
{
	struct fixture *f = *state;
	uint64_t lines = 0, dropped = 0;
	struct weir_prints prints;
	struct crew crew;

	assert_int_equal(weir_prints_init(&prints, f->account, -1, &f->err), 0);
	crew_begin(&crew, f, "print 200000", test_launcher(), &prints);
	crew_start(&crew, 0);
	crew_trip(&crew, 0, 1);
	assert_true(prints.bytes <= WEIR_PRINTS_BYTES_MAX);
	hear_lines(&crew, &prints, &lines, &dropped);
	assert_true(lines > 1000 && lines < 100000);
	crew_trip(&crew, 0, 2);
	while (lines + dropped < 2 * 200001) {
		assert_int_equal(weir_pool_wait(crew.pool, 10000000, &crew.said, &f->err), 0);
		hear_lines(&crew, &prints, &lines, &dropped);
	}
	assert_int_equal(lines + dropped, 2 * 200001);
	assert_true(dropped > 100000);
	crew_end(&crew);
	weir_prints_release(&prints);
}

/* The last words of a worker arrive, without an end of line too. */
static void test_last_words(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"/bin/sh", "-c", "printf 'a\\rbc\\r\\nlast words'; exit 4", NULL};
	struct weir_print_list list = {0};
	struct weir_spawner spawner;
	struct weir_prints prints;
	struct crew crew;

	weir_spawner_init(&spawner, argv);
	assert_int_equal(weir_prints_init(&prints, f->account, -1, &f->err), 0);
	crew_begin(&crew, f, "identity", &spawner.launcher, &prints);
	crew_do(&crew, WEIR_DO_START_WORKER, 0);
	assert_int_equal(crew_expect(&crew, WEIR_EV_SLOT_DIED, 0).event.code, -1 - 4);
	weir_prints_take(&prints, &list);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.items[0].text, "bc");
	assert_string_equal(list.items[1].text, "last words");
	weir_print_list_release(&list, f->account);
	crew_end(&crew);
	weir_prints_release(&prints);
}

/* --- memory --- */

struct keeper {
	bool is_open;
	int asked;
};

static bool may_have_room(void *self, const struct weir_event *ask)
{
	struct keeper *keeper = self;

	assert_int_equal(ask->kind, WEIR_EV_ASK);
	assert_true(ask->bytes > 0 && ask->run.attempt > 0 && ask->generation > 0);
	keeper->asked++;
	return keeper->is_open;
}

/* Results beyond what was expected wait until there is memory for them, and are not made again. */
static void test_room_is_waited_for(void **state)
{
	struct keeper keeper = {0};
	struct weir_pool_event said;
	uint32_t outputs = 0;
	uint64_t begun;
	struct crew crew;

	crew_begin_with(&crew, *state, "repeat 40",
			(struct weir_pool_options){
				.launcher = test_launcher(), .may_have_room = may_have_room, .self = &keeper});
	crew_start(&crew, 0);
	crew_give(&crew, 0, 1, 3000);
	while ((said = crew_hear_for(&crew, 300)).event.kind == WEIR_EV_OUTPUT) {
		weir_chunk_unref(said.chunk);
		outputs++;
	}
	assert_int_equal(said.event.kind, WEIR_EV_START); /* nothing more */
	assert_int_equal(outputs, 1);
	assert_true(keeper.asked > 3);
	keeper.is_open = true;
	while ((said = crew_hear(&crew)).event.kind == WEIR_EV_OUTPUT) {
		assert_int_equal(said.event.chunk, outputs);
		weir_chunk_unref(said.chunk);
		outputs++;
	}
	assert_int_equal(said.event.kind, WEIR_EV_TASK_DONE);
	assert_int_equal(outputs, 40);

	/* It might be what all others wait for: after a while it has some, whoever says no. */
	keeper.is_open = false;
	begun = weir_clock_ns();
	crew_give(&crew, 0, 2, 3000);
	for (int i = 0; i < 3; i++) {
		said = crew_expect(&crew, WEIR_EV_OUTPUT, 0);
		weir_chunk_unref(said.chunk);
	}
	assert_true(weir_clock_ns() - begun > 1500000000u);
	crew_do(&crew, WEIR_DO_KILL_WORKER, 0);
	while ((said = crew_hear(&crew)).event.kind == WEIR_EV_OUTPUT)
		weir_chunk_unref(said.chunk);
	assert_int_equal(said.event.kind, WEIR_EV_SLOT_DIED);
	crew_end(&crew);
}

static int64_t measured(struct crew *crew, uint32_t slot)
{
	int64_t bytes = 0;

	crew->heard = crew->said.count = 0;
	assert_int_equal(weir_pool_measure(crew->pool, &crew->said, &crew->f->err), 0);
	for (size_t i = 0; i < crew->said.count; i++) {
		assert_int_equal(crew->said.items[i].event.kind, WEIR_EV_MEASURED);
		if (crew->said.items[i].event.slot == slot)
			bytes = crew->said.items[i].event.bytes;
	}
	crew->heard = crew->said.count = 0;
	return bytes;
}

static void test_memory_is_measured(void **state)
{
	struct crew crew;
	int64_t before, after;

	crew_begin(&crew, *state, "grow 20000000", test_launcher(), NULL);
	assert_int_equal(measured(&crew, 0), 0);
	crew_start(&crew, 0);
	crew_start(&crew, 1);
	before = measured(&crew, 0);
	assert_true(before > 0);
	crew_trip(&crew, 0, 1);
	crew_trip(&crew, 0, 2);
	after = measured(&crew, 0);
	assert_true(after - before > 39000000 && after - before < 250000000);
	assert_true(measured(&crew, 1) < after - 20000000);
	crew_do(&crew, WEIR_DO_KILL_WORKER, 0);
	assert_int_equal(crew_expect(&crew, WEIR_EV_SLOT_DIED, 0).memory_peak, after);
	crew_end(&crew);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* As much as it may, whatever else it has mapped: its inputs, and the regions of a store that grows. */
static void test_memory_is_bounded(void **state)
{
	struct weir_pool_event said;
	struct crew crew;
	int64_t before;
	uint64_t task = 0;

	crew_begin(&crew, *state, "grow 10000000", test_launcher(), NULL);
	crew_start(&crew, 0);
	before = measured(&crew, 0);
	weir_pool_bound(crew.pool, 0, before + 55000000);
	for (; task < 5; task++)
		crew_trip(&crew, 0, task);
	crew_give(&crew, 0, task, 10);
	said = crew_expect(&crew, WEIR_EV_TASK_FAILED, 0);
	assert_int_equal(said.event.code, WEIR_E_MEMORY);
	assert_true(said.event.bytes > 50000000);
	weir_chunk_unref(said.chunk);
	crew_end(&crew);

	/* The next in its place is bounded too, until it is not. */
	crew_begin(&crew, *state, "grow 10000000", test_launcher(), NULL);
	weir_pool_bound(crew.pool, 0, 5000000);
	crew_start(&crew, 0);
	crew_give(&crew, 0, 1, 10);
	said = crew_expect(&crew, WEIR_EV_TASK_FAILED, 0);
	assert_int_equal(said.event.code, WEIR_E_MEMORY);
	weir_chunk_unref(said.chunk);
	weir_pool_bound(crew.pool, 0, 0);
	crew_end(&crew);
}
#endif

/* Regions of others that the process has mapped. */
static int regions_mapped(int pid)
{
	char path[64], line[512];
	int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "/memfd:worker ") != NULL;
	fclose(file);
	return count;
}

/* More regions than a worker keeps mapped: it forgets some, and is told of them again when they are needed. */
static void test_many_regions(void **state)
{
	enum { CHUNKS = 200 };
	struct fixture *f = *state;
	struct weir_chunk *chunks[CHUNKS];
	uint8_t *bytes;
	struct crew crew;

	crew_begin(&crew, f, "identity", test_launcher(), NULL);
	crew_start(&crew, 0);
	weir_pool_bound(crew.pool, 0, 200000000);
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < CHUNKS; i++) {
			struct weir_action action = {
				.kind = WEIR_DO_START_TASK, .stage = CREW_STAGE, .run = {.task = i, .attempt = 1}};
			struct weir_pool_event said;

			if (round == 0) {
				/* Each in a region of its own, as a worker's would be. */
				struct weir_batch *batch = batch_of(&crew.source, i, 10, &f->err);
				struct weir_region *region;
				struct weir_chunk *room;
				struct weir_block_plan plan;
				int fd = worker_memfd(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW), own = dup(fd);
				uint64_t offset;
				uint32_t number;
				int memfd;

				assert_int_equal(weir_region_adopt(f->store, fd, 1 << 20, &region, &f->err), 0);
				assert_int_equal(weir_block_measure(batch, &plan, &f->err), 0);
				assert_int_equal(weir_region_reserve(region, plan.size, &room, &f->err), 0);
				weir_chunk_place(room, &number, &memfd, &offset);
				bytes = calloc(1, plan.size);
				assert_int_equal(weir_block_write(batch, &plan, bytes, &f->err), 0);
				assert_int_equal(pwrite(own, bytes, plan.size, (off_t)offset), plan.size);
				free(bytes);
				close(own);
				assert_int_equal(weir_chunk_adopt(room, offset, plan.size, &chunks[i], &f->err), 0);
				weir_chunk_unref(room);
				weir_region_release(f->store, region);
				weir_batch_unref(batch);
			}
			assert_int_equal(weir_pool_perform(crew.pool, &action,
							   &(struct weir_batch_range){chunks[i], 0, 10}, 1, &f->err),
					 0);
			said = crew_expect(&crew, WEIR_EV_OUTPUT, 0);
			assert_true(chunk_is(&crew.source, said.chunk, i, 10, 0, 10, &f->err));
			weir_chunk_unref(said.chunk);
			crew_expect(&crew, WEIR_EV_TASK_DONE, 0);
		}
	}
	assert_true(regions_mapped(weir_pool_pid(crew.pool, 0)) >= 10);
	assert_true(regions_mapped(weir_pool_pid(crew.pool, 0)) <= 70);
	for (int i = 0; i < CHUNKS; i++)
		weir_chunk_unref(chunks[i]);
	crew_end(&crew);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_many_threads_perform),
		store_test(test_a_wait_ends_when_woken),
		store_test(test_failures_have_their_payload),
		store_test(test_a_setup_that_fails_ends_the_run),
		store_test(test_lines_arrive),
		store_test(test_too_many_lines),
		store_test(test_last_words),
		store_test(test_room_is_waited_for),
		store_test(test_memory_is_measured),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		store_test(test_memory_is_bounded),
#endif
		store_test(test_many_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
