/* The whole way of a chunk: a lane makes batches, the executor decides, worker processes copy them, a consumer compares
 * every value; with little memory, so that chunks are spilled, and with workers killed at random moments.
 *
 * Nothing may be lost or doubled, and at the end every account is zero. The driver here is one thread, as a backend
 * without lanes of its own would be; the killer is another, so that the moments are really random.
 */
#include "backend/support.h"
#include "backend/local/pool.h"
#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <time.h>

enum { WORKERS = 2, LANE_STAGE = 0, WORKER_STAGE = 1, SPLIT_CHUNKS_MAX = 5, BATCHES_MAX = 60000 };

struct killer {
	pthread_mutex_t lock; /* guards pidfds and stop */
	int pidfds[WORKERS];
	bool stop;
	struct random random;
	_Atomic uint64_t progress; /* batches delivered; relaxed, it only paces the killing */
	pthread_t thread;
};

struct entry {
	uint64_t number; /* the executor's */
	struct weir_chunk *chunk;
	uint64_t batch; /* which it holds; the test's own knowledge */
};

/* One lane, stepped by the main thread. */
struct lane {
	bool has_task, waits_grant;
	struct weir_run run;
	int64_t grant;
	uint32_t made, count;
	struct weir_chunk *next; /* made, but without a grant yet */
};

struct driver {
	struct fixture *f;
	struct source source;
	struct weir_core *core;
	struct weir_pool *pool;
	int setup;
	struct WEIR_LIST(struct weir_pool_event) queue;
	size_t queue_head;
	struct weir_actions actions;
	struct weir_pool_events said;
	struct WEIR_LIST(struct entry) chunks;
	struct weir_chunk *reporting; /* of the OUTPUT that is being stepped */
	uint64_t reporting_batch;
	struct lane lane;
	uint64_t splits, splits_wanted, kills_wanted;
	uint32_t *split_chunks; /* made by each split */
	uint8_t *seen;          /* batch → times delivered */
	uint64_t batches, delivered, deaths, spills, last_delivered;
	struct random random;
	uint32_t generations[WORKERS];
	bool ordered, tight, ended;
	int end_code;
	char reason[256];
	struct killer killer;
};

static int64_t rows_of(uint64_t batch)
{
	struct random random = {batch ^ 0x5eed};

	/* Mostly small, some of a few hundred KiB. */
	return 1 + (int64_t)random_below(&random, random_below(&random, 20) ? 400 : 6000);
}

static uint64_t batch_number(uint64_t split, uint64_t index)
{
	return split * SPLIT_CHUNKS_MAX + index;
}

static void post_with(struct driver *d, struct weir_pool_event event)
{
	assert_int_equal(weir_list_push(&d->queue, d->f->account, &d->f->err, event), 0);
}

static void post(struct driver *d, struct weir_event event)
{
	post_with(d, (struct weir_pool_event){.event = event});
}

static struct entry *find(struct driver *d, uint64_t number)
{
	for (size_t i = 0; i < d->chunks.count; i++)
		if (d->chunks.items[i].number == number)
			return &d->chunks.items[i];
	fail();
	return NULL;
}

/* --- the lane --- */

static void lane_go_on(struct driver *d)
{
	struct lane *lane = &d->lane;
	struct weir_pool_event output;

	if (lane->made == lane->count) {
		lane->has_task = false;
		post(d, (struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = LANE_STAGE, .run = lane->run});
		return;
	}
	if (!lane->next) {
		uint64_t batch = batch_number(lane->run.task, lane->made);
		struct weir_batch *made = batch_of(&d->source, batch, rows_of(batch), &d->f->err);

		lane->next = chunk_of_batch(d->f->store, made, &d->f->err);
		weir_batch_unref(made);
	}
	if (lane->grant < (int64_t)weir_chunk_footprint(lane->next)) {
		lane->waits_grant = true;
		post(d, (struct weir_event){.kind = WEIR_EV_ASK,
					    .stage = LANE_STAGE,
					    .bytes = (int64_t)weir_chunk_footprint(lane->next) - lane->grant});
		return;
	}
	lane->grant -= (int64_t)weir_chunk_footprint(lane->next);
	output = (struct weir_pool_event){.event = {.kind = WEIR_EV_OUTPUT,
						    .stage = LANE_STAGE,
						    .run = lane->run,
						    .chunk = lane->made,
						    .bytes = (int64_t)weir_chunk_footprint(lane->next),
						    .rows = 1},
					  .chunk = lane->next};
	lane->next = NULL;
	lane->made++;
	post_with(d, output);
}

static void lane_unwind(struct driver *d, int code)
{
	struct lane *lane = &d->lane;

	if (!lane->has_task)
		return;
	weir_chunk_unref(lane->next);
	lane->next = NULL;
	lane->has_task = lane->waits_grant = false;
	post(d, (struct weir_event){.kind = WEIR_EV_TASK_FAILED, .stage = LANE_STAGE, .run = lane->run, .code = code});
}

static void lane_start(struct driver *d, const struct weir_action *action)
{
	uint64_t split = action->run.task;

	assert_false(d->lane.has_task);
	d->lane = (struct lane){
		.has_task = true, .run = action->run, .grant = action->bytes, .count = d->split_chunks[split]};
	lane_go_on(d);
}

static void cut_split(struct driver *d)
{
	bool enough = d->splits >= d->splits_wanted && d->deaths >= d->kills_wanted;

	if (enough || d->splits >= BATCHES_MAX / SPLIT_CHUNKS_MAX) {
		post(d, (struct weir_event){.kind = WEIR_EV_SPLITS_END, .stage = LANE_STAGE});
		return;
	}
	d->split_chunks[d->splits] = 1 + (uint32_t)(d->splits % SPLIT_CHUNKS_MAX);
	d->batches += d->split_chunks[d->splits];
	d->splits++;
	post(d, (struct weir_event){.kind = WEIR_EV_SPLIT_CUT, .stage = LANE_STAGE, .bytes = 64 << 10});
}

/* --- the consumer --- */

static void deliver(struct driver *d, uint64_t number)
{
	struct entry *entry = find(d, number);

	if (!chunk_is(&d->source, entry->chunk, entry->batch, rows_of(entry->batch), 0, rows_of(entry->batch),
		      &d->f->err)) {
		print_error("batch %llu came back changed\n", (unsigned long long)entry->batch);
		fail();
	}
	assert_int_equal(d->seen[entry->batch]++, 0);
	if (d->ordered)
		assert_true(d->delivered == 0 || entry->batch > d->last_delivered);
	d->last_delivered = entry->batch;
	d->delivered++;
	atomic_store_explicit(&d->killer.progress, d->delivered, memory_order_relaxed);
	post(d, (struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = number});
}

/* --- performing --- */

static void watch_worker(struct driver *d, uint32_t slot)
{
	int pid = weir_pool_pid(d->pool, slot);

	pthread_mutex_lock(&d->killer.lock);
	if (d->killer.pidfds[slot] >= 0)
		close(d->killer.pidfds[slot]);
	d->killer.pidfds[slot] = pidfd_open(pid, 0);
	pthread_mutex_unlock(&d->killer.lock);
}

static void perform(struct driver *d, const struct weir_action *action)
{
	struct weir_batch_range batch = {0};
	struct entry *entry;
	int code;

	switch (action->kind) {
	case WEIR_DO_CUT_SPLIT:
		cut_split(d);
		return;
	case WEIR_DO_START_TASK:
		if (action->stage == LANE_STAGE) {
			lane_start(d, action);
			return;
		}
		entry = find(d, action->chunk);
		batch = (struct weir_batch_range){entry->chunk, 0, (uint64_t)rows_of(entry->batch)};
		/* fall through */
	case WEIR_DO_START_WORKER:
	case WEIR_DO_KILL_WORKER:
		if (weir_pool_perform(d->pool, action, &batch, 1, &d->f->err)) {
			print_error("%s\n", d->f->err.message);
			fail();
		}
		if (action->kind == WEIR_DO_START_WORKER) {
			d->generations[action->slot] = action->generation;
			/* Rarely before it is up: ten such deaths in a row would rightly end the run. */
			if (random_below(&d->random, 4) == 0)
				watch_worker(d, action->slot);
		}
		return;
	case WEIR_DO_STOP_SLOT:
		if (action->stage == WORKER_STAGE)
			assert_int_equal(weir_pool_perform(d->pool, action, &batch, 1, &d->f->err), 0);
		return;
	case WEIR_DO_GRANT:
		d->lane.grant += action->bytes;
		if (d->lane.waits_grant) {
			d->lane.waits_grant = false;
			lane_go_on(d);
		}
		return;
	case WEIR_DO_GIVE_UP:
		lane_unwind(d, WEIR_E_GIVE_UP);
		return;
	case WEIR_DO_STOP_TASK:
		lane_unwind(d, WEIR_E_CANCELLED);
		return;
	case WEIR_DO_RESUME:
		if (d->lane.has_task && !d->lane.waits_grant)
			lane_go_on(d);
		return;
	case WEIR_DO_OUTPUT_KEPT:
		assert_non_null(d->reporting);
		assert_int_equal(weir_list_push(&d->chunks, d->f->account, &d->f->err,
						(struct entry){action->chunk, d->reporting, d->reporting_batch}),
				 0);
		/* Also beyond what the executor asks for: whoever pins it next finds it all the same. */
		if (d->tight && random_below(&d->random, 3) == 0)
			assert_int_equal(weir_chunk_spill(d->reporting, &d->f->err), 0);
		d->reporting = NULL;
		return;
	case WEIR_DO_OUTPUT_DROP:
		weir_chunk_unref(d->reporting);
		d->reporting = NULL;
		return;
	case WEIR_DO_SPILL:
		d->spills++;
		code = weir_chunk_spill(find(d, action->chunk)->chunk, &d->f->err);
		post(d, (struct weir_event){.kind = WEIR_EV_SPILLED, .chunk = action->chunk, .code = code});
		return;
	case WEIR_DO_RESTORE:
		code = weir_chunk_restore(find(d, action->chunk)->chunk, &d->f->err);
		post(d, (struct weir_event){.kind = WEIR_EV_RESTORED, .chunk = action->chunk, .code = code});
		return;
	case WEIR_DO_FREE:
		entry = find(d, action->chunk);
		weir_chunk_unref(entry->chunk);
		*entry = d->chunks.items[--d->chunks.count];
		return;
	case WEIR_DO_DELIVER:
		deliver(d, action->chunk);
		return;
	case WEIR_DO_TRIM:
		weir_store_trim(d->f->store, 0);
		return;
	case WEIR_DO_END:
		d->ended = true;
		d->end_code = action->code;
		if (action->reason)
			snprintf(d->reason, sizeof(d->reason), "%s", action->reason);
		return;
	default:
		print_error("action %d\n", (int)action->kind);
		fail();
	}
}

static uint64_t batch_of_output(struct driver *d, const struct weir_event *event)
{
	/* A worker's task is named by the number of its input. */
	return event->stage == LANE_STAGE ? batch_number(event->run.task, event->chunk)
					  : find(d, event->run.task)->batch;
}

/* A stale attempt's input may be gone; then nobody will keep the output either. */
static bool is_known(const struct driver *d, uint64_t number)
{
	for (size_t i = 0; i < d->chunks.count; i++)
		if (d->chunks.items[i].number == number)
			return true;
	return false;
}

static void step(struct driver *d)
{
	struct weir_pool_event next = d->queue.items[d->queue_head++];

	if (d->queue_head == d->queue.count)
		d->queue.count = d->queue_head = 0;
	d->reporting = next.chunk;
	if (next.event.kind == WEIR_EV_OUTPUT && (next.event.stage == LANE_STAGE || is_known(d, next.event.run.task)))
		d->reporting_batch = batch_of_output(d, &next.event);
	if (next.event.kind == WEIR_EV_SLOT_DIED)
		d->deaths++;
	if (next.event.kind == WEIR_EV_SLOT_READY && next.event.stage == WORKER_STAGE)
		watch_worker(d, next.event.slot);
	d->actions.count = 0;
	assert_int_equal(weir_core_step(d->core, &next.event, weir_clock_ns(), &d->actions, &d->f->err), 0);
	for (size_t i = 0; i < d->actions.count; i++)
		perform(d, &d->actions.items[i]);
	assert_null(d->reporting);
}

/* Workers that grow and shrink: the executor must make room, by spilling or with fewer of them. */
static void measure(struct driver *d)
{
	uint32_t slot = (uint32_t)random_below(&d->random, WORKERS);

	if (d->tight)
		post(d, (struct weir_event){.kind = WEIR_EV_MEASURED,
					    .stage = WORKER_STAGE,
					    .slot = slot,
					    .generation = d->generations[slot],
					    .bytes = (int64_t)random_below(&d->random, 2 << 20)});
}

static void wait_for_workers(struct driver *d)
{
	d->said.count = 0;
	if (weir_pool_wait(d->pool, -1, &d->said, &d->f->err)) {
		print_error("%s\n", d->f->err.message);
		fail();
	}
	for (size_t i = 0; i < d->said.count; i++)
		post_with(d, d->said.items[i]);
}

/* --- killing --- */

/* At random moments, but not faster than work gets done: where starting a process is slow (sanitizers, a busy machine)
 * no batch would survive. */
static void *kill_at_random(void *argument)
{
	struct killer *k = argument;
	uint64_t due = 0;
	bool stop = false;

	while (!stop) {
		struct timespec pause = {.tv_nsec = 20000 + (long)random_below(&k->random, 3000000)};
		size_t slot = random_below(&k->random, WORKERS);

		nanosleep(&pause, NULL);
		pthread_mutex_lock(&k->lock);
		stop = k->stop;
		if (!stop && atomic_load_explicit(&k->progress, memory_order_relaxed) >= due && k->pidfds[slot] >= 0 &&
		    !pidfd_send_signal(k->pidfds[slot], SIGKILL, NULL, 0))
			due = atomic_load_explicit(&k->progress, memory_order_relaxed) + random_below(&k->random, 16);
		pthread_mutex_unlock(&k->lock);
	}
	return NULL;
}

static void run(struct fixture *f, uint64_t seed, uint64_t splits, uint64_t kills, bool ordered, int64_t budget)
{
	const struct weir_stage_spec stages[] = {
		{.kind = WEIR_STAGE_LANES, .slots = 1, .slot_memory = 256 << 10, .name = "make"},
		{.kind = WEIR_STAGE_WORKERS,
		 .slots = WORKERS,
		 .in_flight_max = 2,
		 .slot_memory = 1 << 20,
		 .name = "copy"}};
	const struct weir_core_options options = {.budget = budget,
						  .limit = budget + (1 << 20),
						  .stages = stages,
						  .stage_count = 2,
						  .preserve_order = ordered,
						  .consumer = true};
	static struct driver driver;
	struct driver *d = &driver;
	struct weir_core_stats core;
	struct weir_store_stats stats;
	uint64_t begun;

	memset(d, 0, sizeof(*d));
	d->f = f;
	d->splits_wanted = splits;
	d->kills_wanted = kills;
	d->ordered = ordered;
	d->tight = budget < 4 << 20;
	d->random = (struct random){seed ^ 99};
	fixture_store(f, (struct weir_store_options){.region_size = 1 << 20});
	source_init(&d->source, f->account, &f->err);
	d->setup = setup_of("identity");
	d->split_chunks = calloc(BATCHES_MAX, sizeof(*d->split_chunks));
	d->seen = calloc(BATCHES_MAX, 1);
	assert_int_equal(weir_core_new(f->account, &options, &d->core, &f->err), 0);
	assert_int_equal(weir_pool_new(f->account,
				       &(struct weir_pool_options){.store = f->store,
								   .stage = WORKER_STAGE,
								   .slots = WORKERS,
								   .launcher = test_launcher(),
								   .setup = d->setup,
								   .setup_size = strlen("identity"),
								   .region_size = 256 << 20},
				       &d->pool, &f->err),
			 0);
	d->killer.random = (struct random){seed};
	d->killer.pidfds[0] = d->killer.pidfds[1] = -1;
	pthread_mutex_init(&d->killer.lock, NULL);
	if (kills)
		assert_int_equal(pthread_create(&d->killer.thread, NULL, kill_at_random, &d->killer), 0);

	begun = weir_clock_ns();
	post(d, (struct weir_event){.kind = WEIR_EV_START});
	post(d, (struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = LANE_STAGE});
	while (!d->ended) {
		while (d->queue.count && !d->ended)
			step(d);
		if (!d->ended) {
			measure(d);
			wait_for_workers(d);
		}
	}
	weir_core_stats(d->core, &core);
	if (d->end_code)
		print_error("%s\n", d->reason);
	assert_int_equal(d->end_code, WEIR_OK);

	weir_store_stats(f->store, &stats);
	print_message("%llu batches, %llu deaths, %llu retries, %llu spilled (%llu at the executor's word), %llu "
		      "restored, peak %lld KiB of %lld, %.2f s\n",
		      (unsigned long long)d->delivered, (unsigned long long)d->deaths, (unsigned long long)core.retries,
		      (unsigned long long)stats.spill_writes, (unsigned long long)d->spills,
		      (unsigned long long)stats.spill_reads, (long long)stats.peak >> 10, (long long)budget >> 10,
		      (double)(weir_clock_ns() - begun) / 1e9);

	/* Every batch once. */
	assert_int_equal(d->delivered, d->batches);
	for (uint64_t split = 0; split < d->splits; split++)
		for (uint64_t i = 0; i < SPLIT_CHUNKS_MAX; i++)
			assert_int_equal(d->seen[batch_number(split, i)], i < d->split_chunks[split]);
	assert_true(d->deaths >= kills);
	/* Whether the executor spills, too, is up to chance: once it has seen what workers take, it may do with one of
	 * them. */
	assert_true(!d->tight || (stats.spill_writes > 0 && stats.spill_reads > 0));

	if (kills) {
		pthread_mutex_lock(&d->killer.lock);
		d->killer.stop = true;
		pthread_mutex_unlock(&d->killer.lock);
		pthread_join(d->killer.thread, NULL);
	}
	/* What is still on its way is stale. */
	for (; d->queue_head < d->queue.count; d->queue_head++)
		weir_chunk_unref(d->queue.items[d->queue_head].chunk);
	weir_pool_free(d->pool);
	assert_int_equal(d->chunks.count, 0);
	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.resident + stats.spilled + stats.pinned + stats.held_by_user, 0);
	assert_int_equal(stats.chunks, 0);
	weir_store_trim(f->store, 0);
	assert_int_equal(f->store->memory.used, 0);
	assert_int_equal(memfd_bytes(f->store), 0);
	assert_int_equal(core.granted + core.resident + core.spilled + core.pinned + core.workers, 0);

	for (int i = 0; i < WORKERS; i++)
		if (d->killer.pidfds[i] >= 0)
			close(d->killer.pidfds[i]);
	pthread_mutex_destroy(&d->killer.lock);
	close(d->setup);
	weir_core_free(d->core);
	weir_list_release(&d->actions, f->account);
	weir_list_release(&d->queue, f->account);
	weir_list_release(&d->said, f->account);
	weir_list_release(&d->chunks, f->account);
	source_release(&d->source);
	free(d->split_chunks);
	free(d->seen);
}

static void test_without_kills(void **state)
{
	run(*state, 1, 500, 0, true, 8 << 20);
}

static void test_killed_at_random(void **state)
{
	run(*state, random_seeded(77).state, 1000, 200, false, 8 << 20);
}

static void test_killed_at_random_in_order_with_little_memory(void **state)
{
	run(*state, random_seeded(78).state, 600, 100, true, 3 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_without_kills),
		store_test(test_killed_at_random),
		store_test(test_killed_at_random_in_order_with_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
