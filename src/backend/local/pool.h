/* pool: the worker processes of one stage, between the executor and worker.c.
 *
 * Performs what the executor says of its stage (START_WORKER, KILL_WORKER, START_TASK, PAUSE, RESUME, STOP_SLOT) and
 * reports what happened (SLOT_READY, OUTPUT, TASK_DONE, TASK_FAILED, SLOT_DIED, and CANCEL when a worker says that none
 * can work). Decides nothing.
 *
 * Threads: perform, wake, bound and pid from any thread, also while one thread waits; wait and measure from one thread
 * at a time; new and free alone. One lock, rank: pool, below a run's and above the store's; never held while it sleeps.
 */
#ifndef WEIR_BACKEND_LOCAL_POOL_H
#define WEIR_BACKEND_LOCAL_POOL_H

#include "backend/local/prints.h"
#include "backend/local/worker.h"

struct weir_pool_options {
	struct weir_store *store;
	uint32_t stage, slots;
	const struct weir_launcher *launcher; /* borrowed */
	int setup; /* a memfd of setup_size bytes that each worker maps; borrowed, any when size 0 */
	uint64_t setup_size;
	/* of a worker's memory for outputs, which is sparse: at least what can ever lie there at once, as much as the
	 * machine has. 0: 1 GiB */
	uint64_t region_size;
	struct weir_prints *prints; /* where their lines go, borrowed; NULL: they write where this process does */
	/* May a worker have room for `bytes` of outputs, beyond what it was given with its task? The event is an ASK
	 * with slot, generation and run. Asked by the waiting thread, without the pool's lock, and again every few
	 * milliseconds while the worker waits; after ROOM_PATIENCE_NS in which no worker of the pool was given any, it
	 * is given all the same. NULL: always. */
	bool (*may_have_room)(void *self, const struct weir_event *ask);
	/* for another run, which will give memory back: then there is a reason to be patient. NULL: never */
	bool (*waits)(void *self);
	void *self;
};

struct weir_pool_event {
	struct weir_event event;  /* OUTPUT: event.chunk is its number in this attempt, from 0 */
	struct weir_chunk *chunk; /* a reference for the receiver: OUTPUT; TASK_FAILED, CANCEL: the payload, or NULL */
	int64_t pid;              /* of the worker that it is about; 0: unknown */
	int status;               /* SLOT_DIED: a wait status, or WEIR_STATUS_… */
	int64_t memory_peak;      /* SLOT_DIED: the most that was measured */
	struct weir_worker_rows at;  /* SLOT_DIED: of the task that it was at */
	bool waits_for_room;         /* MEASURED: it has made its result */
	char text[WEIR_WORKER_TEXT]; /* TASK_FAILED, CANCEL: in short */
};
struct weir_pool_events WEIR_LIST(struct weir_pool_event);

struct weir_pool;

int weir_pool_new(struct weir_account *account, const struct weir_pool_options *options, struct weir_pool **out,
		  struct weir_error *err);
void weir_pool_free(struct weir_pool *pool); /* no worker is left */
/* `parts`: the input of START_TASK, in order; their chunks are resident. A worker that cannot be started is an
 * error. */
int weir_pool_perform(struct weir_pool *pool, const struct weir_action *action, const struct weir_batch_range *parts,
		      uint32_t part_count, struct weir_error *err);
/* Waits at most timeout_ns (−1: for ever) for something to report and appends it to `out`, whose memory is the
 * account's. Lines that workers print go to options.prints on the way. */
int weir_pool_wait(struct weir_pool *pool, int64_t timeout_ns, struct weir_pool_events *out, struct weir_error *err);
void weir_pool_wake(struct weir_pool *pool); /* ends a wait; any thread, and signal handlers */
/* Appends a MEASURED event for each worker that is up: its private memory and the inputs that it still holds on to. */
int weir_pool_measure(struct weir_pool *pool, struct weir_pool_events *out, struct weir_error *err);
/* How much private memory the worker may have; it gets MemoryError past that. 0: as much as it likes. For the process
 * that is up in this slot now and for all that follow it. */
void weir_pool_bound(struct weir_pool *pool, uint32_t slot, int64_t bytes);
int weir_pool_pid(struct weir_pool *pool, uint32_t slot); /* 0: none, or it has not greeted yet */

#endif
