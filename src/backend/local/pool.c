/* weir_pool_wait reads the workers' rings each time. It looks at their processes after a sleep, and when LOOK_NS have
 * passed since it last did: a busy pool never sleeps, and a dead worker's batches must not wait until it does.
 *
 * One thread waits, any may perform. The lock is held for one worker's answers or for one action. The waiting thread
 * looks at rings and descriptors without it, so these must stay: a worker that is replaced goes to the graveyard, and
 * only the waiting thread frees what is there. */
#include "backend/local/pool.h"
#include "base/clock.h"
#include "base/log.h"
#include "backend/local/worker_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS 1000000u
#define ROOM_SLACK 4096      /* an output may need a little more than its input: buffers begin at whole cache lines */
#define ROOM_LOOK_NS 2000000 /* while somebody waits for room: what frees memory rings no bell */
#define ROOM_PATIENCE_NS 1000000000u /* then it is given whoever says no: it might be what all wait for */
#define ROOM_REFUSE_NS 10000000000u  /* there is none in the machine */
/* for a worker that was told to go while the run goes on: what it has may be waited for */
#define LEAVE_NS 10000000000u
#define LAUNCHES_MAX 16 /* of one worker, because the launcher's process was killed */

struct slot {
	struct weir_worker *worker; /* NULL: none */
	uint32_t generation, launches;
	int64_t bound;
};

struct weir_pool {
	struct weir_account *account;
	struct weir_pool_options options;
	int doorbell;
	bool spins; /* of the thread that waits: whether its last wait was short */
	bool has_lock;
	pthread_mutex_t lock; /* guards slots, what is in workers and not the waiting thread's, and the graveyard */
	struct slot *slots;
	struct WEIR_LIST(struct weir_worker *) graveyard; /* has room for all slots' */
	/* The waiting thread's. */
	struct weir_worker **watched; /* as the slots were when it last looked */
	uint64_t looked_ns;
	uint64_t room_given_ns; /* when a worker that waited for room last got some */
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
	pool->doorbell = weir_fd_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (pool->doorbell < 0) {
		weir_error_set_errno(err, errno, "no descriptor for a pool of workers");
		goto fail;
	}
	pool->slots = weir_alloc_zero(account, sizeof(*pool->slots) * options->slots, err);
	pool->watched = pool->slots ? weir_alloc_zero(account, sizeof(*pool->watched) * options->slots, err) : NULL;
	if (!pool->watched)
		goto fail;
	if (pthread_mutex_init(&pool->lock, NULL)) {
		weir_error_set(err, WEIR_E_MEMORY, "no lock for a pool of workers");
		goto fail;
	}
	pool->has_lock = true;
	*out = pool;
	return WEIR_OK;
fail:
	weir_pool_free(pool);
	return err->code;
}

/* The waiting thread, or alone. */
static void free_dead(struct weir_pool *pool)
{
	for (;;) {
		struct weir_worker *worker = NULL;

		pthread_mutex_lock(&pool->lock);
		if (pool->graveyard.count)
			worker = pool->graveyard.items[--pool->graveyard.count];
		pthread_mutex_unlock(&pool->lock);
		if (!worker)
			return;
		weir_worker_free(worker);
	}
}

struct print_out {
	struct weir_pool *pool;
	uint32_t slot;
	int64_t pid;
};

static void print_line(void *self, bool is_stderr, const char *text, size_t size)
{
	const struct print_out *out = self;

	weir_prints_put(out->pool->options.prints, &(struct weir_print){.stage = out->pool->options.stage,
									.slot = out->slot,
									.pid = out->pid,
									.is_stderr = is_stderr,
									.text = (char *)text,
									.size = size});
}

void weir_pool_free(struct weir_pool *pool)
{
	struct weir_account *account;

	if (!pool)
		return;
	account = pool->account;
	if (pool->has_lock) {
		/* All are told before the first is waited for. */
		for (uint32_t i = 0; i < pool->options.slots; i++) {
			struct weir_worker *worker = pool->slots[i].worker;

			if (worker && weir_worker_in_flight(worker) == 0 && weir_worker_pid(worker))
				weir_worker_stop(worker);
			else if (worker)
				weir_worker_kill(worker);
		}
		for (uint32_t i = 0; i < pool->options.slots; i++) {
			struct weir_worker *worker = pool->slots[i].worker;

			if (worker && worker->is_stopping && pool->options.prints)
				weir_worker_read_rest(worker, print_line, &(struct print_out){pool, i, worker->pid});
			weir_worker_free(worker);
		}
		free_dead(pool);
		weir_list_release(&pool->graveyard, account);
		pthread_mutex_destroy(&pool->lock);
	}
	weir_free(account, pool->slots, pool->slots ? sizeof(*pool->slots) * pool->options.slots : 0);
	weir_free(account, pool->watched, pool->watched ? sizeof(*pool->watched) * pool->options.slots : 0);
	if (pool->doorbell >= 0)
		close(pool->doorbell);
	weir_free(account, pool, sizeof(*pool));
}

void weir_pool_wake(struct weir_pool *pool)
{
	const uint64_t one = 1;

	(void)!write(pool->doorbell, &one, sizeof(one));
}

int weir_pool_pid(struct weir_pool *pool, uint32_t slot)
{
	int pid;

	pthread_mutex_lock(&pool->lock);
	pid = pool->slots[slot].worker ? weir_worker_pid(pool->slots[slot].worker) : 0;
	pthread_mutex_unlock(&pool->lock);
	return pid;
}

void weir_pool_bound(struct weir_pool *pool, uint32_t slot, int64_t bytes)
{
	pthread_mutex_lock(&pool->lock);
	pool->slots[slot].bound = bytes;
	if (pool->slots[slot].worker)
		weir_worker_bound(pool->slots[slot].worker, bytes);
	pthread_mutex_unlock(&pool->lock);
}

/* --- performing --- */

static int start_worker(struct weir_pool *pool, uint32_t number, uint32_t generation, struct weir_error *err)
{
	struct slot *slot = &pool->slots[number];
	struct weir_worker_options options = {
		.store = pool->options.store,
		.launcher = pool->options.launcher,
		.setup = pool->options.setup,
		.setup_size = pool->options.setup_size,
		.region_size = pool->options.region_size,
		.number = number,
		.generation = generation,
		.doorbell = pool->doorbell,
		.has_prints = pool->options.prints != NULL,
		.rooms_wait = pool->options.may_have_room != NULL,
	};
	struct weir_worker *worker;
	int code;

	pthread_mutex_lock(&pool->lock);
	options.bound = slot->bound;
	pthread_mutex_unlock(&pool->lock);
	if (weir_worker_spawn(pool->account, &options, &worker, err))
		return err->code;
	pthread_mutex_lock(&pool->lock);
	code = weir_list_reserve(&pool->graveyard, pool->account, err, pool->graveyard.count + 1);
	if (!code) {
		if (slot->worker) /* the one before it, dead */
			pool->graveyard.items[pool->graveyard.count++] = slot->worker;
		slot->worker = worker;
		slot->launches = slot->generation == generation ? slot->launches + 1 : 1;
		slot->generation = generation;
		worker = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	weir_worker_free(worker);
	weir_pool_wake(pool); /* it is to be watched too */
	return code;
}

static uint64_t input_size(const struct weir_batch_range *parts, uint32_t count)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < count; i++)
		size += weir_chunk_size(parts[i].chunk);
	return size;
}

int weir_pool_perform(struct weir_pool *pool, const struct weir_action *action, const struct weir_batch_range *parts,
		      uint32_t part_count, struct weir_error *err)
{
	struct slot *slot;
	int code = WEIR_OK;

	WEIR_ASSERT(action->stage == pool->options.stage && action->slot < pool->options.slots);
	if (action->kind == WEIR_DO_START_WORKER)
		return start_worker(pool, action->slot, action->generation, err);
	slot = &pool->slots[action->slot];
	pthread_mutex_lock(&pool->lock);
	/* START_TASK names the worker that is up; the others may come for one that is gone. */
	if (!slot->worker || (action->kind != WEIR_DO_START_TASK && slot->generation != action->generation))
		goto out;
	switch (action->kind) {
	case WEIR_DO_KILL_WORKER:
		weir_worker_kill(slot->worker);
		weir_pool_wake(pool); /* who has not greeted is ended by the waiting thread */
		break;
	case WEIR_DO_STOP_SLOT:
		weir_worker_stop(slot->worker);
		break;
	case WEIR_DO_PAUSE:
		weir_worker_pause(slot->worker, action->run, true);
		break;
	case WEIR_DO_RESUME:
		weir_worker_pause(slot->worker, action->run, false);
		weir_pool_wake(pool); /* it may wait for room since */
		break;
	case WEIR_DO_START_TASK:
		code = weir_worker_give(
			slot->worker, action->run, parts, part_count, input_size(parts, part_count) + ROOM_SLACK,
			(struct weir_batch_kept){(uint32_t)action->outputs_kept, action->rows_kept}, err);
		break;
	default:
		code = weir_error_set(err, WEIR_E_INTERNAL, "action %d is not a pool's", (int)action->kind);
	}
out:
	pthread_mutex_unlock(&pool->lock);
	return code;
}

/* --- reporting --- */

static struct weir_pool_event event_of(const struct weir_pool *pool, uint32_t slot, enum weir_event_kind kind)
{
	return (struct weir_pool_event){.event = {.kind = kind,
						  .stage = pool->options.stage,
						  .slot = slot,
						  .generation = pool->slots[slot].generation},
					.pid = pool->slots[slot].worker->pid};
}

/* Under the lock. */
static void report(struct weir_pool *pool, uint32_t slot, struct weir_worker_event *said, struct weir_pool_events *out)
{
	struct weir_pool_event event = event_of(pool, slot, WEIR_EV_SLOT_READY);

	event.event.run = said->run;
	event.event.rows = (int64_t)said->row_count;
	event.event.code = said->code;
	event.chunk = said->chunk;
	memcpy(event.text, said->text, sizeof(event.text));
	switch (said->kind) {
	case WEIR_WORKER_OUTPUT:
		event.event.kind = WEIR_EV_OUTPUT;
		event.event.chunk = said->number;
		event.event.bytes = (int64_t)weir_chunk_footprint(said->chunk);
		break;
	case WEIR_WORKER_DONE:
		event.event.kind = WEIR_EV_TASK_DONE;
		event.event.times = said->times;
		break;
	case WEIR_WORKER_FAILED:
		event.event.kind = WEIR_EV_TASK_FAILED;
		if (said->code == WEIR_E_MEMORY)
			event.event.bytes = weir_worker_measure(pool->slots[slot].worker);
		break;
	case WEIR_WORKER_BROKEN:
		event.event.kind = WEIR_EV_CANCEL;
		break;
	case WEIR_WORKER_DIED:
		event.event.kind = WEIR_EV_SLOT_DIED;
		event.event.death = said->death;
		event.event.code = said->status < 0            ? 0
				   : WIFSIGNALED(said->status) ? WTERMSIG(said->status)
							       : -1 - WEXITSTATUS(said->status);
		event.status = said->status;
		event.memory_peak = weir_worker_memory_peak(pool->slots[slot].worker);
		event.at = weir_worker_at(pool->slots[slot].worker);
		break;
	default:
		break;
	}
	out->items[out->count++] = event;
}

/* What the system has said of them; without the lock, since an end may have to be waited for. */
static void attend(struct weir_pool *pool)
{
	for (uint32_t slot = 0; slot < pool->options.slots; slot++) {
		struct weir_worker *worker = pool->watched[slot];

		if (!worker)
			continue;
		weir_worker_attend(worker);
		if (pool->options.prints)
			weir_worker_read_prints(worker, print_line, &(struct print_out){pool, slot, worker->pid});
	}
}

static int collect_slot(struct weir_pool *pool, uint32_t number, struct weir_pool_events *out, bool *launch,
			struct weir_error *err)
{
	struct slot *slot = &pool->slots[number];

	while (slot->worker && slot->worker == pool->watched[number]) {
		struct weir_worker_event said;

		/* Room for the report first: an output that cannot be reported would be lost. */
		if (weir_list_reserve(out, pool->account, err, out->count + 1) ||
		    weir_worker_receive(slot->worker, false, &said, err))
			return err->code;
		if (said.kind == WEIR_WORKER_NONE)
			break;
		*launch = said.kind == WEIR_WORKER_DIED && said.status == WEIR_STATUS_LOST &&
			  slot->launches < LAUNCHES_MAX && !slot->worker->is_doomed;
		if (*launch)
			break;
		report(pool, number, &said, out);
	}
	return WEIR_OK;
}

static int collect(struct weir_pool *pool, struct weir_pool_events *out, struct weir_error *err)
{
	for (uint32_t slot = 0; slot < pool->options.slots; slot++) {
		uint32_t generation;
		bool launch = false;
		int code;

		if (!pool->watched[slot])
			continue;
		pthread_mutex_lock(&pool->lock);
		code = collect_slot(pool, slot, out, &launch, err);
		generation = pool->slots[slot].generation;
		pthread_mutex_unlock(&pool->lock);
		if (!code && launch)
			code = start_worker(pool, slot, generation, err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

/* The room that the worker in a slot waits for, and since when; false: it waits for none. */
static bool wants_room(struct weir_pool *pool, uint32_t slot, struct weir_event *ask, uint64_t *since_ns)
{
	const struct weir_worker *worker = pool->watched[slot];

	*ask = (struct weir_event){.kind = WEIR_EV_ASK, .stage = pool->options.stage, .slot = slot};
	pthread_mutex_lock(&pool->lock);
	ask->generation = pool->slots[slot].generation;
	if (worker && worker == pool->slots[slot].worker)
		ask->bytes = (int64_t)weir_worker_wants_room(worker, &ask->run, since_ns);
	pthread_mutex_unlock(&pool->lock);
	return ask->bytes > 0;
}

/* Gives it when it may have it; `waited`: for so long nobody was given any. */
static void give_room(struct weir_pool *pool, const struct weir_event *ask, uint64_t waited)
{
	bool given = false;
	struct weir_run run;
	uint64_t since_ns;

	if ((waited < ROOM_PATIENCE_NS || (pool->options.waits && pool->options.waits(pool->options.self))) &&
	    !pool->options.may_have_room(pool->options.self, ask))
		return;
	pthread_mutex_lock(&pool->lock);
	if (weir_worker_wants_room(pool->watched[ask->slot], &run, &since_ns))
		given = weir_worker_give_room(pool->watched[ask->slot], waited >= ROOM_REFUSE_NS);
	pthread_mutex_unlock(&pool->lock);
	if (given)
		pool->room_given_ns = weir_clock_ns();
}

/* The one that has waited longest comes first; but all are asked for, since one may be allowed what others are not.
 * True: there was one that waited. */
static bool give_rooms(struct weir_pool *pool)
{
	uint32_t oldest = pool->options.slots;
	uint64_t oldest_ns = UINT64_MAX, since_ns = 0, now = weir_clock_ns();
	struct weir_event ask;

	for (uint32_t slot = 0; pool->options.may_have_room && slot < pool->options.slots; slot++)
		if (wants_room(pool, slot, &ask, &since_ns) && since_ns < oldest_ns) {
			oldest = slot;
			oldest_ns = since_ns;
		}
	if (oldest == pool->options.slots)
		return false;
	if (wants_room(pool, oldest, &ask, &since_ns))
		give_room(pool, &ask, now - (oldest_ns > pool->room_given_ns ? oldest_ns : pool->room_given_ns));
	for (uint32_t slot = 0; slot < pool->options.slots; slot++)
		if (slot != oldest && wants_room(pool, slot, &ask, &since_ns))
			give_room(pool, &ask, 0);
	return true;
}

static void look(struct weir_pool *pool)
{
	weir_workers_look(pool->watched, pool->options.slots);
	pool->looked_ns = weir_clock_ns();
	attend(pool);
}

int weir_pool_wait(struct weir_pool *pool, int64_t timeout_ns, struct weir_pool_events *out, struct weir_error *err)
{
	size_t before = out->count;
	bool waits;

	free_dead(pool); /* first: what is replaced from here on may be among the watched */
	pthread_mutex_lock(&pool->lock);
	for (uint32_t slot = 0; slot < pool->options.slots; slot++)
		pool->watched[slot] = pool->slots[slot].worker;
	pthread_mutex_unlock(&pool->lock);
	if (weir_clock_ns() - pool->looked_ns >= LOOK_NS)
		look(pool);
	if (collect(pool, out, err))
		return err->code;
	waits = give_rooms(pool);
	if (out->count > before)
		return WEIR_OK;
	if (waits && (timeout_ns < 0 || timeout_ns > ROOM_LOOK_NS))
		timeout_ns = ROOM_LOOK_NS;
	weir_workers_wait(pool->watched, pool->options.slots, pool->doorbell, timeout_ns, &pool->spins);
	attend(pool);
	return collect(pool, out, err);
}

/* One that was stopped from outside would hold its batches up for ever. They run elsewhere. */
static void end_stopped(struct weir_worker *worker)
{
	if (atomic_load_explicit(&worker->flight_count, memory_order_relaxed) == 0 ||
	    !weir_worker_is_stopped(worker, weir_clock_ns()))
		return;
	weir_log(
		WEIR_LOG_WARN,
		"the worker with pid %lld was stopped (SIGSTOP) and does not go on: it is ended, its batches run again",
		(long long)worker->pid);
	weir_worker_kill(worker);
}

int weir_pool_measure(struct weir_pool *pool, struct weir_pool_events *out, struct weir_error *err)
{
	int code = WEIR_OK;

	pthread_mutex_lock(&pool->lock);
	for (uint32_t slot = 0; !code && slot < pool->options.slots; slot++) {
		struct weir_worker *worker = pool->slots[slot].worker;
		struct weir_pool_event event;
		struct weir_run run;
		uint64_t since_ns;

		if (!worker || worker->is_dead)
			continue;
		end_stopped(worker);
		if (worker->is_stopping && weir_clock_ns() - worker->stopping_ns > LEAVE_NS)
			weir_worker_kill(worker);
		event = event_of(pool, slot, WEIR_EV_MEASURED);
		event.event.bytes = weir_worker_measure(worker);
		event.waits_for_room = weir_worker_wants_room(worker, &run, &since_ns) > 0;
		if (event.event.bytes > 0)
			code = weir_list_push(out, pool->account, err, event);
	}
	pthread_mutex_unlock(&pool->lock);
	return code;
}
