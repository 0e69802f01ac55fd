/* worker_side: what runs in a worker process: greet, make ready, take tasks, answer.
 *
 *     open ─▶ ready ─▶ next ─▶ (room ─▶ output) … ─▶ done | failed ─▶ next … ─▶ release
 *          └▶ broken
 *
 * A task's inputs (parts) lie in private maps: code that scribbles there gets its own page, and neither crashes nor
 * changes the chunk. Each part is open until weir_side_part_release, which may come before the task is done or long
 * after it: what is still open when it is done is kept by the driver, and counted as this worker's. An output is
 * written into the room that `room` gives, which asks the driver for more while the result is kept: no function runs
 * again for want of room.
 *
 * Several tasks may be open at once, and be answered in any order.
 *
 * Threads: one, but weir_side_part_release may be called from any. In a forked child every function does nothing.
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_SIDE_H
#define WEIR_BACKEND_LOCAL_WORKER_SIDE_H

#include "base/list.h"
#include "backend/local/worker_link.h"

#include <pthread.h>

struct worker_mapped {
	uint32_t region;
	uint64_t size;
	uint8_t *bytes;
};

/* An input. Freed by release, but not before its task is done. */
struct weir_side_part {
	uint64_t number; /* in this worker's life */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t row_first, row_count; /* the rows of the chunk that the task is about */
	/* Inside. */
	int64_t faults;            /* side->faults when it was given */
	bool is_released, is_held; /* the latter: its task is over */
	struct weir_side_part *before, *next;
};

struct weir_side_task {
	uint64_t task;
	uint32_t attempt;
	uint32_t number;    /* among its stage's tasks, from 0 */
	uint64_t rows_kept; /* the first rows of its results, which an earlier attempt has given */
	uint32_t part_count;
	struct weir_side_part **parts; /* in order; each is open until it is released */
	/* Inside. */
	uint8_t *room; /* what is left of it */
	uint64_t room_size;
	uint32_t outputs;
	uint64_t begun_ns, begun_work_ns;
	struct weir_side_task *next;
};

/* All-zero is the empty value. */
struct weir_worker_side {
	struct weir_account *account;
	bool is_open, is_quitting;
	int bell, bell_driver;     /* valid while is_open */
	int pagemap;               /* valid while is_open; −1: there is none */
	const volatile char *here; /* not zero; a forked child has zero there */
	bool spins;                /* whether its last wait was short */
	int64_t faults;            /* page faults of the process when they were last counted; −1: unknown */
	struct worker_rings *rings;
	uint32_t taken;
	uint32_t worker, generation;
	uint8_t *setup; /* what the driver gave it to begin with; private, so that it may be written to */
	uint64_t setup_size;
	uint8_t *own; /* its own region, writable */
	uint64_t own_size;
	struct WEIR_LIST(struct worker_mapped) mapped;
	struct WEIR_LIST(struct worker_message) waiting; /* tasks that came while it waited for room */
	struct weir_side_task *tasks;                    /* that are open */
	struct weir_side_task setup_task;                /* has the room for the payload of `broken` */
	pthread_mutex_t lock;                            /* guards `parts` and writing to the ring; rank: the last */
	struct weir_side_part *parts;                    /* that are open, or whose task is */
};

/* Receives the driver's greeting on WORKER_SOCKET and answers it. From here on the process dies with its driver. */
int weir_worker_side_open(struct weir_worker_side *side, struct weir_account *account, struct weir_error *err);
/* The setup is done: tasks may come. `is_short`: there was too little memory for it; it is tried again with the first
 * task. */
void weir_worker_side_ready(struct weir_worker_side *side, bool is_short);
/* The setup failed, as it would anywhere: the run ends with `payload`. */
void weir_worker_side_broken(struct weir_worker_side *side, int code, const char *text, const void *payload,
			     uint64_t size);
/* Waits for a task, at most timeout_ns (−1: for ever); NULL: none came. *quit: there will be none. */
/* Which rows of its task it is at. */
void weir_worker_side_at(struct weir_worker_side *side, uint64_t first, uint64_t count);
int weir_worker_side_next(struct weir_worker_side *side, int64_t timeout_ns, struct weir_side_task **out, bool *quit,
			  struct weir_error *err);
/* Where the next output goes, `size` ≥ 1 bytes on a page of its own: what is left of the task's room, or more of it.
 * WEIR_E_MEMORY, WEIR_E_LIMIT …: the driver has none. */
int weir_worker_side_room(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size, uint8_t **bytes,
			  struct weir_error *err);
/* What is left of the task's room, whose bytes the process may use until an output lies there; 0: nothing. */
uint64_t weir_worker_side_left(const struct weir_side_task *task, uint8_t **bytes);
/* User code holds on to bytes of a room: they stay where they are, as pages of this process, and the region is mapped
 * at another place from here on. Rooms that were asked for before have moved with it. */
int weir_worker_side_keep(struct weir_worker_side *side, uint8_t *bytes, uint64_t size, struct weir_error *err);
/* What was written there, of at most that size. */
void weir_worker_side_output(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size,
			     uint64_t row_count);
/* Both end the task and free it. Its parts are freed when they have been released too. call_ns: of its time, what the
 * user's function took. */
void weir_worker_side_done(struct weir_worker_side *side, struct weir_side_task *task, uint64_t call_ns);
/* The payload may be of any size; where there is no room for it only code and text arrive. */
void weir_worker_side_failed(struct weir_worker_side *side, struct weir_side_task *task, int code, const char *text,
			     const void *payload, uint64_t size);
/* Nothing in this process reads the part's bytes any more. Once for each part; any thread. */
void weir_side_part_release(struct weir_worker_side *side, struct weir_side_part *part);
/* Drops the tasks that are open, as well. */
void weir_worker_side_release(struct weir_worker_side *side);

#endif
