/* pool: the worker processes of one stage, between the executor and worker.c.
 *
 * Performs what the executor says of its stage (START_WORKER, KILL_WORKER, START_TASK, STOP_SLOT) and reports what
 * happened (SLOT_READY, OUTPUT, TASK_DONE, TASK_FAILED, SLOT_DIED). Decides nothing. Threads: one at a time, but for wake.
 */
#ifndef WEIR_BACKEND_LOCAL_POOL_H
#define WEIR_BACKEND_LOCAL_POOL_H

#include "backend/local/worker.h"

struct weir_pool_options {
	struct weir_store *store;
	uint32_t stage, slots;
	const char *const *argv; /* as in weir_worker_options, borrowed */
	const void *setup;
	uint64_t setup_size;
	uint64_t region_size;
};

struct weir_pool_event {
	struct weir_event event;
	struct weir_chunk *chunk; /* OUTPUT: a reference for the receiver */
	char text[40];            /* TASK_FAILED */
};
struct weir_pool_events WEIR_LIST(struct weir_pool_event);

struct weir_pool;

int weir_pool_new(struct weir_account *account, const struct weir_pool_options *options, struct weir_pool **out,
		  struct weir_error *err);
void weir_pool_free(struct weir_pool *pool); /* no worker is left */
/* `batch`: of START_TASK; its chunk is resident. A worker that cannot be started is an error. */
int weir_pool_perform(struct weir_pool *pool, const struct weir_action *action, struct weir_batch_range batch,
		      struct weir_error *err);
/* Waits at most timeout_ns (−1: for ever) for something to report and appends it to `out`, whose memory is the account's. */
int weir_pool_wait(struct weir_pool *pool, int64_t timeout_ns, struct weir_pool_events *out, struct weir_error *err);
void weir_pool_wake(struct weir_pool *pool);                    /* ends a wait; any thread, and signal handlers */
int weir_pool_pid(const struct weir_pool *pool, uint32_t slot); /* 0: none */

#endif
