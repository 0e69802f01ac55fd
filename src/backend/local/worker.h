/* worker: one worker process, seen from the driver.
 *
 *     spawn ─▶ (READY) ─▶ give … ─▶ (DONE | FAILED) … ─▶ (DIED), or stop ─▶ free
 *
 * A batch is given as a chunk and a row range; the answer is a chunk in the worker's own region. What the worker says is
 * checked before it is used: worker, generation, task, attempt, and that the chunk lies in the room it was given. Messages
 * that fit no batch in flight are ignored; figures that cannot be are the worker's end.
 * The input stays pinned and the room reserved until the answer is accepted or the worker is dead.
 *
 * No worker survives its driver: it holds one end of a pipe whose hanging up is a SIGKILL to it (worker_side.c).
 * Threads: one at a time.
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_H
#define WEIR_BACKEND_LOCAL_WORKER_H

#include "store/store.h"
#include "exec/exec.h"

#define WEIR_WORKER_FLIGHT_MAX 8

struct weir_worker;

struct weir_worker_options {
	struct weir_store *store;
	const char *const *argv; /* NULL-terminated; argv[0] is the program's path */
	const void *setup;       /* given to the worker with the greeting: what it is to do */
	uint64_t setup_size;
	uint64_t region_size; /* of the worker's own memory for outputs; sparse. 0: 1 GiB */
	uint32_t number, generation;
	int doorbell; /* an eventfd that the worker rings when the driver sleeps; borrowed */
};

/* Starts the process and greets it; does not wait for the answer. */
int weir_worker_spawn(struct weir_account *account, const struct weir_worker_options *options, struct weir_worker **out,
		      struct weir_error *err);
/* Kills it if it lives, reaps it, lets go of its inputs and its region. */
void weir_worker_free(struct weir_worker *worker);
void weir_worker_kill(struct weir_worker *worker); /* SIGKILL; DIED follows */
void weir_worker_stop(struct weir_worker *worker); /* asks it to exit when it is done */
int weir_worker_pid(const struct weir_worker *worker);
uint32_t weir_worker_in_flight(const struct weir_worker *worker);

struct weir_batch_range {
	struct weir_chunk *chunk; /* borrowed: the worker takes its own reference and a pin */
	uint64_t row_first, row_count;
};
/* `room` is what the output may need; if it is too little the worker says so and gets more. The worker may be dead, or not
 * up yet: then it is WEIR_OK all the same, and the batch is lost with it. */
int weir_worker_give(struct weir_worker *worker, struct weir_run run, struct weir_batch_range batch, uint64_t room,
		     struct weir_error *err);

enum weir_worker_event_kind {
	WEIR_WORKER_NONE,
	WEIR_WORKER_READY,
	WEIR_WORKER_DONE,
	WEIR_WORKER_FAILED,
	WEIR_WORKER_DIED
};

struct weir_worker_event {
	enum weir_worker_event_kind kind;
	struct weir_run run;      /* DONE, FAILED */
	struct weir_chunk *chunk; /* DONE: the output, a reference for the receiver */
	uint64_t row_count;       /* DONE, as the worker says */
	int code;                 /* FAILED */
	char text[40];            /* FAILED */
	enum weir_death death;    /* DIED; what was in flight has been let go */
};
/* The next thing that it has said; NONE: nothing. What it said before it died comes before DIED. `look` also asks the
 * system whether it has died or greets; without it only the ring is read. */
int weir_worker_receive(struct weir_worker *worker, bool look, struct weir_worker_event *out, struct weir_error *err);

/* Waits until one of them has something, the doorbell rings for another reason, or the time is over. Spins first, when
 * there are batches in flight. */
void weir_workers_wait(struct weir_worker *const *workers, uint32_t count, int doorbell, int64_t timeout_ns);

#endif
