/* worker: one worker process, seen from the driver.
 *
 *     spawn ─▶ (READY) ─▶ give … ─▶ (OUTPUT … DONE | FAILED) … ─▶ (DIED), or stop ─▶ free
 *           └▶ (BROKEN: it cannot work, nor would another)
 *
 * A batch is given as chunks and row ranges; the answer is any number of chunks in the worker's own region. What the
 * worker says is checked before it is used: worker, generation, task, attempt, and that chunks lie in the room it was
 * given. Messages that fit no batch in flight are ignored; figures that cannot be are the worker's end. An input stays
 * pinned until the batch is done and the worker has let go of it, or is dead; the room stays reserved until the batch
 * is over.
 *
 * No worker survives its driver: it holds one end of a pipe, and kills itself when that hangs up (worker_end.h).
 * Threads: the caller's lock around every call (pool.c), but for weir_workers_wait.
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_H
#define WEIR_BACKEND_LOCAL_WORKER_H

#include "store/store.h"
#include "exec/exec.h"
#include "backend/local/launcher.h"

#define WEIR_WORKER_FLIGHT_MAX 16
#define WEIR_WORKER_TEXT 36 /* of an error, in short; the rest is in its payload */

struct weir_worker;

struct weir_worker_options {
	struct weir_store *store;
	const struct weir_launcher *launcher; /* borrowed */
	int setup; /* a memfd of setup_size bytes: what it is to do. Borrowed; any when size 0 */
	uint64_t setup_size;
	uint64_t region_size; /* of the worker's own memory for outputs; sparse. 0: 1 GiB */
	uint32_t number, generation;
	int doorbell;    /* an eventfd that the worker rings when the driver sleeps; borrowed */
	bool has_prints; /* its stdout and stderr are pipes to be read here (weir_worker_read_prints) */
	int64_t bound;   /* of its private memory, as weir_worker_bound */
	bool rooms_wait; /* more room is given by weir_worker_give_room, not at once */
};

/* Asks for the process and greets it; does not wait for the answer. */
int weir_worker_spawn(struct weir_account *account, const struct weir_worker_options *options, struct weir_worker **out,
		      struct weir_error *err);
/* Kills it if it lives, waits for its end, lets go of its inputs and its region. */
void weir_worker_free(struct weir_worker *worker);
void weir_worker_kill(struct weir_worker *worker);     /* SIGKILL; DIED follows */
void weir_worker_stop(struct weir_worker *worker);     /* asks it to exit when it is done */
int weir_worker_pid(const struct weir_worker *worker); /* 0: it has not greeted, or is gone */
uint32_t weir_worker_in_flight(const struct weir_worker *worker);

struct weir_batch_range {
	struct weir_chunk *chunk; /* borrowed: the worker takes its own reference and a pin */
	uint64_t row_first, row_count;
};
/* What was accepted of an earlier attempt: the first rows of the results are left out, outputs are numbered from
 * there. */
struct weir_batch_kept {
	uint32_t outputs;
	int64_t rows;
};
/* `room` is what the output may need; if it is too little the worker asks for more. If the worker is dead, or not up
 * yet, this is WEIR_OK all the same, and the batch is lost with it. */
int weir_worker_give(struct weir_worker *worker, struct weir_run run, const struct weir_batch_range *parts,
		     uint32_t part_count, uint64_t room, struct weir_batch_kept kept, struct weir_error *err);

enum weir_worker_event_kind {
	WEIR_WORKER_NONE,
	WEIR_WORKER_READY,
	WEIR_WORKER_OUTPUT,
	WEIR_WORKER_DONE,
	WEIR_WORKER_FAILED,
	WEIR_WORKER_BROKEN,
	WEIR_WORKER_DIED
};

struct weir_worker_event {
	enum weir_worker_event_kind kind;
	struct weir_run run;          /* OUTPUT, DONE, FAILED */
	struct weir_chunk *chunk;     /* OUTPUT; FAILED, BROKEN: the payload or NULL. A reference for the receiver */
	uint32_t number;              /* OUTPUT: which of this attempt's, from 0 */
	uint64_t row_count;           /* OUTPUT: as the worker says; DONE: of all its outputs */
	int code;                     /* FAILED, BROKEN */
	struct weir_task_times times; /* DONE: as the worker says */
	char text[WEIR_WORKER_TEXT];  /* FAILED, BROKEN */
	enum weir_death death;        /* DIED; what was in flight has been let go */
	int status;                   /* DIED: a wait status, or WEIR_STATUS_… */
};
/* The next thing that it has said; NONE: nothing. What it said before it died comes before DIED. `look` also asks the
 * system whether it has died or greets; without it only the ring is read. */
int weir_worker_receive(struct weir_worker *worker, bool look, struct weir_worker_event *out, struct weir_error *err);

/* It waits for more room, since `since_ns`: so many bytes; 0: it does not. */
uint64_t weir_worker_wants_room(const struct weir_worker *worker, struct weir_run *run, uint64_t *since_ns);
/* Gives it. False: there is none; with `refuse` it is told so, and its batch fails. */
bool weir_worker_give_room(struct weir_worker *worker, bool refuse);

/* Whether the batch is given more room when it asks; until it is over. */
void weir_worker_pause(struct weir_worker *worker, struct weir_run run, bool pause);

/* What it has written since the last call, as whole lines, is given to `line`. */
void weir_worker_read_prints(struct weir_worker *worker,
			     void (*line)(void *self, bool is_stderr, const char *text, size_t size), void *self);

/* RssAnon, what it has mapped and is about to use, and the inputs that it holds on to; 0: it is not up. Remembers the
 * largest. */
int64_t weir_worker_measure(struct weir_worker *worker);
/* Which rows of its task it was at when it died; count 0: not known. */
struct weir_worker_rows {
	uint64_t first, count;
};
struct weir_worker_rows weir_worker_at(const struct weir_worker *worker);
int64_t weir_worker_memory_peak(const struct weir_worker *worker);
/* What one that was asked to exit still prints, until its end, or as long as it has for that. */
void weir_worker_read_rest(struct weir_worker *worker,
			   void (*line)(void *self, bool is_stderr, const char *text, size_t size), void *self);
/* RLIMIT_DATA such that its private memory may grow to `bytes`, whatever it has mapped besides. 0: no bound. */
void weir_worker_bound(struct weir_worker *worker, int64_t bytes);

/* Waits until one of them has something, the doorbell rings for another reason, or the time is over. Spins first, when
 * there are batches in flight and the wait before was a short one (`spins`). Without the lock: none of them may be
 * freed meanwhile. */
void weir_workers_wait(struct weir_worker *const *workers, uint32_t count, int doorbell, int64_t timeout_ns,
		       bool *spins);

#endif
