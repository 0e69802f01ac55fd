/* worker_link: the bytes between the driver and one worker process.
 *
 * A socket carries the greeting and descriptors. Everything else goes through a memfd that both map, with one ring in
 * each direction; each ring has one writer and one reader:
 *
 *     0        64       128      192      256                             256 + 64 × 128
 *     ┌────────┬────────┬────────┬────────┬──────────┬──────────┬───
 *     │written │taken   │waiting │cpu     │message 0 │message 1 │ …      to the worker
 *     ├────────┼────────┼────────┼────────┼──────────┼──────────┼───
 *     │written │taken   │waiting │cpu     │message 0 │message 1 │ …      to the driver
 *     ├────────┼────────┼────────┴────────┴──────────┴──────────┴───
 *     │at_first│at_count│     rows of its task that the worker is at, for the message when it dies; a count of 0: not known
 *     └────────┴────────┘
 *
 *   message, 128 bytes:
 *   0    4      8          12      16   24   32     36   40     48   56        64        72          80        88    92
 *   ┌────┬──────┬──────────┬───────┬────┬────┬──────┬────┬──────┬────┬─────────┬─────────┬───────────┬─────────┬─────┬────
 *   │kind│worker│generation│attempt│task│part│region│code│offset│size│row_first│row_count│room_offset│room_size│count│text
 *   └────┴──────┴──────────┴───────┴────┴────┴──────┴────┴──────┴────┴─────────┴─────────┴───────────┴─────────┴─────┴────
 *
 *     driver                                               worker
 *        │── hello ─────────── socket ──────────────────────▶│ maps rings and setup
 *        │◀───────────────────────────────────────── hello ──│ with its region; the kernel says which process it is
 *        │◀── READY ────────── rings ────────────────────────│ or BROKEN: nobody can do this setup
 *        │── TASK ──────────────────────────────────────────▶│ parts, a room
 *        │◀── OUTPUT ── OUTPUT ── MORE ──────────────────────│ the room is used up, the result is kept
 *        │── ROOM ──────────────────────────────────────────▶│
 *        │◀── OUTPUT ── DONE ────────────────────────────────│ or FAILED
 *        │◀── RELEASE ───────────────────────────────────────│ a part that was still in use then
 *        │── QUIT ──────────────────────────────────────────▶│
 *
 * A task of one part names it in the message. More lie in a list of struct worker_part in the driver's store, which the
 * message names instead; the i-th part's number is `part` + i.
 *
 * `written` and `taken` count messages and never go back. A reader that finds nothing spins for a while, if its last
 * wait was not a long one, then says `waiting` and sleeps on its doorbell, an eventfd; only then does the writer ring
 * it. An eventfd and not a futex, because the sleeper must also wake when the other process dies, and poll() waits for
 * both. A writer says on which `cpu` it was last seen: a reader on the same one does not spin, since it would only keep
 * the writer from running.
 *
 * Neither side trusts the other's figures further than it has checked them: a message is copied out before it is looked
 * at.
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_LINK_H
#define WEIR_BACKEND_LOCAL_WORKER_LINK_H

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define WORKER_MAGIC 0x72696577u /* "weir" */
#define WORKER_VERSION 6u
#define WORKER_SOCKET 3   /* descriptors a worker is started with */
#define WORKER_LIFELINE 4 /* the other end is the driver's: it hangs up when the driver is gone */
#define WORKER_RING_SIZE 64u
#define WORKER_SPIN_NS 50000u /* below this a sleeping peer costs more than it saves */

#define WORKER_NO_TASK UINT64_MAX /* MORE, ROOM: for the payload of BROKEN */

enum worker_message_kind {
	/* To the worker. */
	/* (task, attempt): `count` parts from number `part` on, rows; a room in its own region; code: the task's number
	 * in its stage; rows_kept: of its results, these are not wanted again */
	WORKER_TASK = 1,
	WORKER_ROOM,   /* (task, attempt): another room; code ≠ 0: there is none */
	WORKER_FORGET, /* region: none of its parts is in use, unmap it */
	WORKER_QUIT,
	/* To the driver. */
	/* code = WEIR_E_MEMORY: it had too little to set itself up, and tries again with its first task */
	WORKER_READY,
	WORKER_BROKEN, /* code, text, payload at (offset, size) of its region; size 0: none */
	/* (task, attempt): chunk at (offset, size) of its region, row_count; `count`: its number, from 0 */
	WORKER_OUTPUT,
	WORKER_MORE, /* (task, attempt): needs a room of `size` bytes; ROOM answers */
	/* (task, attempt): `count` outputs; code ≠ 0: the parts are held until RELEASE. Nanoseconds: offset = since it
	 * was begun, size = of work in all threads, row_count = in the user's function */
	WORKER_DONE,
	/* (task, attempt): code, text, payload as BROKEN; the parts are held until RELEASE where count ≠ 0 */
	WORKER_FAILED,
	WORKER_RELEASE,   /* part */
	WORKER_FORGOTTEN, /* region */
};

struct worker_message {
	uint32_t kind;
	uint32_t worker, generation;
	uint32_t attempt;
	uint64_t task;
	uint64_t part;
	uint32_t region;
	uint32_t code;
	uint64_t offset, size;
	uint64_t row_first, row_count;
	uint64_t room_offset, room_size;
	uint32_t count;
	union {
		char text[36]; /* zero-terminated */
		/* TASK: rows of its results that were accepted of an earlier attempt, low half first */
		uint32_t rows_kept[2];
	};
};
static_assert(sizeof(struct worker_message) == 128 && offsetof(struct worker_message, count) == 88,
	      "a message is two cache lines");

struct worker_part {
	uint64_t offset, size;
	uint64_t row_first, row_count;
	uint32_t region;
	uint32_t unused;
};
static_assert(sizeof(struct worker_part) == 40, "fixed");

struct worker_ring {
	_Alignas(64) _Atomic uint32_t written;
	_Alignas(64) _Atomic uint32_t taken;
	_Alignas(64) _Atomic uint32_t waiting;
	_Alignas(64) _Atomic uint32_t cpu; /* of the writer; a hint */
	_Alignas(64) struct worker_message messages[WORKER_RING_SIZE];
};
static_assert(offsetof(struct worker_ring, messages) == 256 && sizeof(struct worker_ring) == 256 + 64 * 128,
	      "as drawn");

struct worker_rings {
	struct worker_ring to_worker, to_driver;
	_Atomic uint64_t at_first, at_count; /* relaxed: nobody looks at them but who buries it */
};
static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics that work between processes");

/* First on the socket, in both directions. From the driver with four descriptors: rings, the worker's doorbell, the
 * driver's doorbell, setup; from the worker with one: its region, of region_size bytes. */
struct worker_hello {
	uint32_t magic, version;
	uint32_t worker, generation;
	uint64_t region_size;
	uint64_t setup_size;
	int64_t bound; /* on its memory, from the beginning; 0: none. Later ones the driver sets itself */
};
static_assert(sizeof(struct worker_hello) == 40, "fixed");

/* Later on the socket, to the worker, each with one descriptor: a region that the next task needs. */
struct worker_region_note {
	uint32_t region;
	uint32_t unused;
	uint64_t size;
};
static_assert(sizeof(struct worker_region_note) == 16, "fixed");

static inline void worker_ring_say_cpu(struct worker_ring *ring)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	if (atomic_load_explicit(&ring->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&ring->cpu, cpu, memory_order_relaxed);
}

/* Whether the writer may be running while this thread does. */
static inline bool worker_ring_is_elsewhere(struct worker_ring *ring)
{
	return atomic_load_explicit(&ring->cpu, memory_order_relaxed) != (uint32_t)sched_getcpu();
}

/* False: full. */
static inline bool worker_ring_put(struct worker_ring *ring, const struct worker_message *message)
{
	uint32_t written = atomic_load_explicit(&ring->written, memory_order_relaxed); /* its only writer is here */

	if (written - atomic_load_explicit(&ring->taken, memory_order_acquire) >= WORKER_RING_SIZE)
		return false;
	ring->messages[written % WORKER_RING_SIZE] = *message;
	worker_ring_say_cpu(ring);
	/* seq_cst, as are the three below: the writer sets `written` and then looks at `waiting`, the reader sets
	 * `waiting` and then looks at `written`; one of the two must see the other. And who sees the count sees the
	 * message. */
	atomic_store_explicit(&ring->written, written + 1, memory_order_seq_cst);
	return true;
}

/* True when the reader sleeps and must be rung; after put. */
static inline bool worker_ring_sleeps(struct worker_ring *ring)
{
	return atomic_load_explicit(&ring->waiting, memory_order_seq_cst) &&
	       atomic_exchange_explicit(&ring->waiting, 0, memory_order_relaxed);
}

/* Messages there to be taken; more than WORKER_RING_SIZE: the writer is not to be trusted. `taken` is the reader's own
 * count, kept where the writer cannot reach it. */
static inline uint32_t worker_ring_count(struct worker_ring *ring, uint32_t taken)
{
	return atomic_load_explicit(&ring->written, memory_order_seq_cst) - taken;
}

static inline void worker_ring_take(struct worker_ring *ring, uint32_t *taken, struct worker_message *out)
{
	*out = ring->messages[*taken % WORKER_RING_SIZE];
	/* release: the writer may use the place only after it was read. */
	atomic_store_explicit(&ring->taken, ++*taken, memory_order_release);
}

/* Before sleeping; after it the ring is looked at once more. */
static inline void worker_ring_say_waiting(struct worker_ring *ring, bool waiting)
{
	atomic_store_explicit(&ring->waiting, waiting, memory_order_seq_cst);
}

/* What the two processes share is neither an account's nor a chunk. */
static inline void *worker_map(int fd, uint64_t size, int protection, int flags)
{
	return mmap(NULL, size, protection, flags, fd, 0); /* tidy-allow: shared with another process */
}

static inline void worker_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
