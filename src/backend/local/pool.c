/* The pool looks at the workers' rings whenever it is asked, and at their processes when it has slept or DEATH_NS have
 * passed: a busy pool never sleeps, and a dead worker's batches must not wait until it does. */
#include "backend/local/pool.h"
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEATH_NS 1000000u
#define ROOM_SLACK 4096 /* an output may need a little more than its input: buffers begin at whole cache lines */

struct weir_pool {
	struct weir_account *account;
	struct weir_pool_options options;
	int doorbell;
	struct weir_worker **workers; /* a slot each; NULL: none */
	uint32_t *generations;
	uint64_t looked_ns;
};

int weir_pool_new(struct weir_account *account, const struct weir_pool_options *options, struct weir_pool **out,
		  struct weir_error *err)
{
	struct weir_pool *pool = weir_alloc_zero(account, sizeof(*pool), err);

	*out = NULL;
	if (!pool)
		return err->code;
	pool->account = account;
	pool->options = *options;
	pool->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pool->workers = weir_alloc_zero(account, sizeof(*pool->workers) * options->slots, err);
	pool->generations = pool->workers ? weir_alloc_zero(account, sizeof(*pool->generations) * options->slots, err)
					  : NULL;
	if (!pool->generations)
		goto fail;
	if (pool->doorbell < 0) {
		weir_error_set_errno(err, errno, "no descriptor for a pool of workers");
		goto fail;
	}
	*out = pool;
	return WEIR_OK;
fail:
	weir_pool_free(pool);
	return err->code;
}

void weir_pool_free(struct weir_pool *pool)
{
	struct weir_account *account;

	if (!pool)
		return;
	account = pool->account;
	/* All are asked before the first is waited for. */
	for (uint32_t i = 0; pool->workers && i < pool->options.slots; i++)
		if (pool->workers[i] && weir_worker_in_flight(pool->workers[i]) == 0)
			weir_worker_stop(pool->workers[i]);
	for (uint32_t i = 0; pool->workers && i < pool->options.slots; i++)
		weir_worker_free(pool->workers[i]);
	weir_free(account, pool->workers, pool->workers ? sizeof(*pool->workers) * pool->options.slots : 0);
	weir_free(account, pool->generations, pool->generations ? sizeof(*pool->generations) * pool->options.slots : 0);
	if (pool->doorbell >= 0)
		close(pool->doorbell);
	weir_free(account, pool, sizeof(*pool));
}

void weir_pool_wake(struct weir_pool *pool)
{
	const uint64_t one = 1;

	(void)!write(pool->doorbell, &one, sizeof(one));
}

int weir_pool_pid(const struct weir_pool *pool, uint32_t slot)
{
	return pool->workers[slot] ? weir_worker_pid(pool->workers[slot]) : 0;
}

static int start_worker(struct weir_pool *pool, const struct weir_action *action, struct weir_error *err)
{
	const struct weir_worker_options options = {
		.store = pool->options.store,
		.argv = pool->options.argv,
		.setup = pool->options.setup,
		.setup_size = pool->options.setup_size,
		.region_size = pool->options.region_size,
		.number = action->slot,
		.generation = action->generation,
		.doorbell = pool->doorbell,
	};

	weir_worker_free(pool->workers[action->slot]); /* the one before it, dead */
	pool->workers[action->slot] = NULL;
	pool->generations[action->slot] = action->generation;
	return weir_worker_spawn(pool->account, &options, &pool->workers[action->slot], err);
}

int weir_pool_perform(struct weir_pool *pool, const struct weir_action *action, struct weir_batch_range batch,
		      struct weir_error *err)
{
	struct weir_worker *worker;

	WEIR_ASSERT(action->stage == pool->options.stage && action->slot < pool->options.slots);
	if (action->kind == WEIR_DO_START_WORKER)
		return start_worker(pool, action, err);
	worker = pool->workers[action->slot];
	/* START_TASK names the worker that is up; the others may come for one that is gone. */
	if (!worker || (action->kind != WEIR_DO_START_TASK && pool->generations[action->slot] != action->generation))
		return WEIR_OK;
	switch (action->kind) {
	case WEIR_DO_KILL_WORKER:
		weir_worker_kill(worker);
		return WEIR_OK;
	case WEIR_DO_STOP_SLOT:
		weir_worker_stop(worker);
		return WEIR_OK;
	case WEIR_DO_START_TASK:
		return weir_worker_give(worker, action->run, batch, weir_chunk_size(batch.chunk) + ROOM_SLACK, err);
	default:
		return weir_error_set(err, WEIR_E_INTERNAL, "action %d is not a pool's", (int)action->kind);
	}
}

static struct weir_event event_of(const struct weir_pool *pool, uint32_t slot, enum weir_event_kind kind)
{
	return (struct weir_event){
		.kind = kind, .stage = pool->options.stage, .slot = slot, .generation = pool->generations[slot]};
}

static void report(struct weir_pool *pool, uint32_t slot, struct weir_worker_event *said, struct weir_pool_events *out)
{
	struct weir_pool_event one = {.event = event_of(pool, slot, WEIR_EV_SLOT_READY)}, two;

	switch (said->kind) {
	case WEIR_WORKER_DONE:
		one.event.kind = WEIR_EV_OUTPUT;
		one.event.run = said->run;
		one.event.bytes = (int64_t)weir_chunk_footprint(said->chunk);
		one.event.rows = (int64_t)said->row_count;
		one.event.last = true;
		one.chunk = said->chunk;
		two = (struct weir_pool_event){.event = event_of(pool, slot, WEIR_EV_TASK_DONE)};
		two.event.run = said->run;
		two.event.rows = one.event.rows;
		out->items[out->count++] = one;
		out->items[out->count++] = two;
		return;
	case WEIR_WORKER_FAILED:
		one.event.kind = WEIR_EV_TASK_FAILED;
		one.event.run = said->run;
		one.event.code = said->code;
		memcpy(one.text, said->text, sizeof(one.text));
		break;
	case WEIR_WORKER_DIED:
		one.event.kind = WEIR_EV_SLOT_DIED;
		one.event.death = said->death;
		break;
	default:
		break;
	}
	out->items[out->count++] = one;
}

static int collect(struct weir_pool *pool, bool look, struct weir_pool_events *out, struct weir_error *err)
{
	for (uint32_t slot = 0; slot < pool->options.slots; slot++) {
		while (pool->workers[slot]) {
			struct weir_worker_event said;

			/* Room for the report first: an output that cannot be reported would be lost. */
			if (weir_list_reserve(out, pool->account, err, out->count + 2) ||
			    weir_worker_receive(pool->workers[slot], look, &said, err))
				return err->code;
			if (said.kind == WEIR_WORKER_NONE)
				break;
			report(pool, slot, &said, out);
		}
	}
	return WEIR_OK;
}

int weir_pool_wait(struct weir_pool *pool, int64_t timeout_ns, struct weir_pool_events *out, struct weir_error *err)
{
	uint64_t now = weir_clock_ns();
	bool look = now - pool->looked_ns >= DEATH_NS;
	size_t before = out->count;

	if (look)
		pool->looked_ns = now;
	if (collect(pool, look, out, err))
		return err->code;
	if (out->count > before)
		return WEIR_OK;
	weir_workers_wait(pool->workers, pool->options.slots, pool->doorbell, timeout_ns);
	if (collect(pool, false, out, err))
		return err->code;
	if (out->count > before)
		return WEIR_OK;
	/* Woken without a message: a death, a greeting, the time, or weir_pool_wake. */
	pool->looked_ns = weir_clock_ns();
	return collect(pool, true, out, err);
}
