/* worker_impl: one worker process in the driver.
 *
 *     worker.c         spawning, greeting, the end                    the process
 *     worker_flight.c  batches: giving, answers, what is held         the rings
 *     worker_watch.c   waiting, lines printed, memory, its bound      what the system says
 *
 * Fields marked W belong to the thread that waits: it reads and writes them without a lock. All others are under the
 * caller's lock (pool.c); W fields that others look at are atomic.
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_IMPL_H
#define WEIR_BACKEND_LOCAL_WORKER_IMPL_H

#include "backend/local/worker.h"
#include "backend/local/worker_link.h"

#include <stdatomic.h>

enum { SEEN_SOCKET = 1, SEEN_PROCESS = 2, SEEN_STDOUT = 4, SEEN_STDERR = 8 };

struct given { /* an input: a reference and a pin */
	struct weir_chunk *chunk;
	uint64_t number;
	uint32_t region;
};

struct flight {
	bool used;
	struct weir_run run;
	struct given one;    /* the parts, where it is one */
	struct given *parts; /* `one`, or part_count of them */
	uint32_t part_count;
	struct given list; /* where the parts stand, when there are several */
	struct weir_chunk *room;
	uint32_t outputs, kept; /* those of an earlier attempt that stand before them */
	uint64_t rows;
	uint64_t more, more_ns; /* bytes of room that it waits for, and since when */
	bool paused;            /* and is not to have for now */
};

struct known { /* a region that it was sent */
	uint32_t number, uses;
	uint64_t size;
};

#define WORKER_STOP_MS 500 /* for a worker that was asked to exit */

struct pipe_end {   /* W */
	int fd;     /* −1: closed */
	char *line; /* the beginning of a line, WEIR_PRINT_LINE_MAX bytes */
	size_t size;
};

struct weir_worker {
	struct weir_account *account;
	struct weir_store *store;
	const struct weir_launcher *launcher;
	uint32_t number, generation;
	uint64_t ticket; /* W */
	bool has_ticket; /* W */
	int socket, lifeline, bell;
	int pidfd;      /* −1 until it has greeted; written by W under the lock */
	int64_t pid;    /* likewise, 0 */
	uint32_t seen;  /* W: what poll said */
	bool has_ended; /* W */
	int status;     /* W: once it has ended */
	struct worker_rings *rings;
	uint32_t taken; /* W: from to_driver */
	uint64_t region_size, setup_size;
	struct weir_region *region; /* NULL until it has greeted */
	struct weir_chunk *broken_room;
	bool is_ready, is_stopping, rooms_wait;
	uint64_t stopping_ns; /* since when */
	bool is_dead;
	bool is_distrusted;     /* it said what cannot be: not listened to any more */
	_Atomic bool is_doomed; /* to be killed before it has greeted; relaxed: the doorbell is rung after it */
	struct flight flights[WEIR_WORKER_FLIGHT_MAX];
	_Atomic uint32_t flight_count; /* relaxed: for others a hint */
	uint64_t part_next;
	struct WEIR_LIST(struct given) held; /* by number */
	int64_t held_bytes;
	struct WEIR_LIST(struct known) known;
	struct pipe_end prints[2];
	int statm; /* −1: not open */
	int64_t memory_peak;
	uint64_t state_ns;                             /* when its state was looked at */
	uint64_t measured_ns;                          /* when its memory was */
	uint32_t stopped_count;                        /* so many looks in a row it was stopped */
	int64_t bound, unused_virtual, regions_mapped; /* see worker_watch.c */
};

/* worker.c */
void weir_worker_distrust(struct weir_worker *worker);
void weir_worker_attend(struct weir_worker *worker); /* W, without the lock: what was seen of its process */

/* worker_flight.c */
int weir_worker_take_messages(struct weir_worker *worker, struct weir_worker_event *out, struct weir_error *err);
void weir_worker_flights_end(struct weir_worker *worker); /* and what is held */

/* worker_watch.c: asks the system about all of them, without waiting. W. */
void weir_workers_look(struct weir_worker *const *workers, uint32_t count);
void weir_worker_apply_bound(struct weir_worker *worker);
void weir_worker_watch_begin(struct weir_worker *worker); /* it is up */
/* W: whether somebody has stopped it (SIGSTOP) for as long as this process, which was not, has looked on. */
bool weir_worker_is_stopped(struct weir_worker *worker, uint64_t now_ns);
void weir_worker_watch_release(struct weir_worker *worker);

/* Any place that a worker's own figures come from: sent before the task that needs it. */
int weir_send_with_fds(int socket, const void *bytes, size_t size, const int *fds, size_t count);

/* descriptors.c: one has its descriptors from now on (1), or not any more (−1). */
void weir_descriptors_note_worker(int change);

#endif
