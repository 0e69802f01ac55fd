/* exec: decides everything and performs nothing.
 *
 *     weir_core_step(core, event, now, actions)
 *
 * A state machine: no threads, no clock, no system call, no address takes part in a decision, so equal events give
 * equal actions. A backend performs the actions and reports what happened: `local` with threads and processes, `sim`
 * with a virtual clock and a grudge. Whoever has an event calls step under the backend's one lock.
 *
 * The run is a chain of stages. A stage of LANES runs native fragments in threads of this process: its tasks are splits
 * (first stage) or batches (later ones). A stage of WORKERS hands batches to processes. Between stages lie chunks in
 * the store. Most runs have one stage: read … sink.
 *
 *     source ─ CUT ─▶ split ─▶ [lane slot] ─ OUTPUT ─▶ chunk ─▶ [worker slot] ─▶ chunk ─▶ [lane slot] ─▶ sink, or consumer
 *
 * Messages may come late, twice, or from the dead: each names (task, attempt) and (slot, generation); stale ones are
 * ignored. A task's input chunk stays pinned until its whole output is accepted; only what was not accepted runs again.
 *
 * Promises, whatever is reported in whatever order:
 *   - each split and batch is accepted exactly once, or the run fails with the first cause;
 *   - Σ grants + resident chunks + worker memory ≤ budget, but for the named escapes below. A worker counts as much as
 *     was assumed or measured, whichever is more, from its slot's first start on, so one that died can always be
 *     replaced, until it is killed for its memory;
 *   - while the run has not ended there is an event to wait for: it never stalls;
 *   - a task is tried at most ATTEMPTS_MAX times for deaths of its own making, KILLS_MAX for kills from outside
 *     (counted anew when the others of its stage are killed as often: that is a storm, not this task); from the third
 *     on it has a fresh worker to itself; one that was short of memory is tried once more, when it is the front, no
 *     other worker is busy, and idle ones and chunks that were let go for it are gone;
 *   - a task is one chunk, or a bundle of neighbours in the input's order; a bundle is the same in every attempt;
 *   - after END no slot runs, nothing is pinned, granted or queued.
 *
 * What keeps it moving. Everything in a run has a position in the input's order; the front is the oldest thing that is
 * not done. Escapes, all of them the front's, each met by the simulation (docs/decisions/0020-escapes.md):
 *   - FRONT_STARTS: no policy holds the front back: it starts, or goes on after an output, whatever waits downstream;
 *     and it does not wait for more rows than it has when nothing moves that could bring them;
 *   - FRONT_TAKES: what stands behind the front gives way: chunks are spilled, tasks give up, from the youngest on,
 *     workers without a batch are let go but for one a stage;
 *   - OLDEST_OVERDRAW: when nothing is left to take and nothing on its way back, the front is granted what it asks
 *     beyond the budget, up to the limit; past that the run fails with WEIR_E_LIMIT and the figures. So is a worker
 *     that has the front, or for which a front that stands still may be waiting. What is lent is waited for, and a
 *     batch that is to have all memory waits until nothing is.
 * What nobody decides (an output larger than its allowance, a worker that grows) may pass the budget; then nothing is
 * given out, chunks are spilled and idle workers let go until it is kept again. Past the limit, workers that have grown
 * are stopped at their work, from the youngest on, and what they ran is repeated by itself.
 */
#ifndef WEIR_EXEC_EXEC_H
#define WEIR_EXEC_EXEC_H

#include "base/error.h"
#include "base/list.h"

#define WEIR_ATTEMPTS_MAX 3
#define WEIR_KILLS_MAX 10
/* Workers that die before they are up, one after another: what each counts, and how much ends the run. On a busy
 * machine somebody who kills every few milliseconds meets each worker before it is up. */
#define WEIR_SPAWN_DIED 10
#define WEIR_SPAWN_KILLED 1
#define WEIR_SPAWNS_MAX 100
#define WEIR_REBUILD_ATTEMPT (1u << 16) /* attempts from here on run a split again for the sake of one lost chunk */
/* Where order is kept: so many splits may be cut for each task that slots of all stages can have at once. */
#define WEIR_WINDOW_SPLITS 2

/* How much work a worker is given ahead. To sleep and be woken between two tasks costs a hundredth of that. */
#define WEIR_AHEAD_NS 1000000u

enum weir_stage_kind { WEIR_STAGE_LANES, WEIR_STAGE_WORKERS };

struct weir_stage_spec {
	enum weir_stage_kind kind;
	uint32_t slots;         /* lanes or workers, at most */
	uint32_t in_flight_max; /* WORKERS: batches given to one worker ahead (2) */
	/* WORKERS: where tasks are short, as many as take WEIR_AHEAD_NS, at most so many; 0: as above */
	uint32_t in_flight_short;
	int64_t slot_memory; /* what one slot is assumed to need: a lane's first grant, a worker's private memory */
	const char *name;    /* for messages, borrowed */
	/* Zero in all that follows: no such wish. */
	uint32_t slots_first; /* WORKERS: started with the run, as far as they fit; one always is */
	/* WORKERS: the same, and so many stay when others are let go for having nothing to do. Memory that is short may
	 * take them all the same, but for one */
	uint32_t slots_min;
	/* stages after the first: a task holds at least so many rows, if there are so many: neighbouring chunks,
	 * between which nothing can come any more, are bundled (TASK_PART) */
	int64_t rows_min;
	bool by_split;          /* with rows_min: a bundle holds chunks of one split only, */
	bool from_first;        /* or it begins where the one before it ends, whichever of its chunks is there first, */
	bool in_order;          /* also if that one alone has rows enough: some splits have, and some have not */
	int64_t rows_max_bytes; /* a bundle is not larger, but one chunk always goes; 0: half the budget */
	/* WORKERS: before any task is done, a worker that starts is taken to need so many times the largest */
	uint32_t slot_times;
	int64_t slot_start; /* task that its chunks can make, and slot_start, where that is more than slot_memory */
	uint32_t milli_cpus, milli_gpus; /* what one busy slot takes of the run's; thousandths */
	int64_t errored_max;   /* WORKERS: tasks that may fail with WEIR_E_USER and are left out; −1: any number */
	uint32_t user_retries; /* WORKERS: a task that fails with WEIR_E_USER is tried again so often first */
	/* WORKERS: a task may end its worker so often, the last time with the run; 0: WEIR_ATTEMPTS_MAX */
	uint32_t attempts_max;
};

static inline uint32_t weir_attempts_max(const struct weir_stage_spec *spec)
{
	return spec->attempts_max ? spec->attempts_max : WEIR_ATTEMPTS_MAX;
}

struct weir_core_options {
	int64_t budget;    /* bytes for grants, chunks and workers together; INT64_MAX: no limit */
	int64_t limit;     /* the hard one: budget ≤ limit */
	int64_t overdraft; /* how far the front may go alone, budget … limit; 0: the limit */
	const struct weir_stage_spec *stages;
	uint32_t stage_count;
	bool preserve_order;             /* chunks for the consumer in task order, never overtaking */
	bool consumer;                   /* the last stage's chunks go to a consumer (else the last stage is a sink) */
	uint64_t milli_cpus, milli_gpus; /* thousandths that busy slots may take together; 0: no bound */
	/* outputs of a running worker task held until it is done; beyond that they are accepted by number as they come.
	 * 0: 64 MiB, or a sixteenth of the budget if that is less */
	int64_t held_bytes_max;
};

struct weir_run { /* one attempt of one task */
	uint32_t stage;
	uint64_t task;
	uint32_t attempt;
	/* of the task in its stage, from 0, in the order of their first starts; for who is told, not compared */
	uint32_t number;
};

enum weir_death { WEIR_DEATH_OWN /* SIGSEGV, SIGBUS, SIGABRT, exit */, WEIR_DEATH_OUTSIDE /* SIGKILL, SIGTERM */ };

enum weir_event_kind {
	WEIR_EV_START, /* once, first */
	/* slot, generation: a lane's thread / a worker process is up. Once is enough: after that a slot is ready
	 * whenever its task has ended; saying it again does no harm. A worker's: code = WEIR_E_MEMORY: it had too
	 * little to begin with; it tries again with its first batch */
	WEIR_EV_SLOT_READY,
	/* slot, generation, death: workers only. For the message: code = the signal that ended it, or −1 − its exit
	 * status, 0 when nobody knows */
	WEIR_EV_SLOT_DIED,
	WEIR_EV_SPLIT_CUT,  /* answer to CUT_SPLIT: bytes = memory the split needs at least */
	WEIR_EV_SPLITS_END, /* answer to CUT_SPLIT: there are no more */
	/* slot, generation, run: it made a chunk of `bytes` and `rows`, the `chunk`-th of this attempt from 0. The
	 * bytes leave the slot's grant. KEPT or DROP answers in the same step */
	WEIR_EV_OUTPUT,
	/* slot, run: all its outputs are reported; bytes = of its grant, what the lane keeps for its next task (an open
	 * writer's); the rest is given back. A worker's: times as it measured them */
	WEIR_EV_TASK_DONE,
	/* slot, run, code. A lane's: WEIR_E_GIVE_UP is redone, anything else ends the run; bytes as above. A worker's:
	 * WEIR_E_MEMORY is tried again with no other worker busy, WEIR_E_USER as the stage says; bytes = private memory
	 * it had then, if known */
	WEIR_EV_TASK_FAILED,
	/* slot: its lane wants `bytes` more and waits (GRANT or GIVE_UP answers). A worker's, with run and generation:
	 * it wants room for `bytes` of outputs; GRANT answers in the same step, or nothing: then it asks again soon */
	WEIR_EV_ASK,
	WEIR_EV_RETURN,    /* slot: gives `bytes` of its grant back */
	WEIR_EV_WAIT_TURN, /* slot: waits until all earlier tasks of its stage are done (TURN or GIVE_UP answers) */
	WEIR_EV_ENOUGH,    /* slot's task satisfied the limit: later tasks are not wanted */
	WEIR_EV_SPILLED,   /* chunk: written, memory free; code ≠ 0: it failed */
	WEIR_EV_RESTORED, /* chunk: in memory again; code ≠ 0: failed (corrupt: rebuilt by running its maker again when
	                          * that is possible, else the run ends) */
	WEIR_EV_TAKEN,    /* chunk: the consumer has received it; from now on it is the user's, not the budget's */
	/* bytes: measured private memory: of the worker (stage, slot, generation), or with WEIR_NO_SLOT what this
	 * process has beyond its accounts. apart: what the worker had more a moment ago, and will have again with its
	 * next batch: nobody else is given that */
	WEIR_EV_MEASURED,
	WEIR_EV_CANCEL, /* code: why, when something outside any task went wrong; 0: WEIR_E_CANCELLED */
	/* bytes: the budget from now on: other runs share the limit, which stays as it is. apart: of the overdraft,
	 * what others have; lent: what the user was handed and will let go of by himself, or what other runs will.
	 * parked: another run needs the memory: nothing starts or is delivered, what was begun may end, and what waits
	 * for memory gives up what it has */
	WEIR_EV_BUDGET,
};

#define WEIR_NO_SLOT UINT32_MAX

/* Of one task in a worker: from its start to its end, the process's work in all threads, inside the user's function. 0:
 * not known. */
struct weir_task_times {
	uint64_t wall_ns, cpu_ns, call_ns;
};

struct weir_event {
	enum weir_event_kind kind;
	uint32_t stage, slot, generation;
	struct weir_run run;
	uint64_t chunk;
	int64_t bytes, rows, apart, lent;
	bool parked;
	int code;
	enum weir_death death;
	bool last;
	struct weir_task_times times;
};

enum weir_action_kind {
	WEIR_DO_CUT_SPLIT, /* ask the source for its next split; SPLIT_CUT or SPLITS_END answers, at once or
	                       * when it is there; it is asked for one at a time */
	/* slot, run, chunk (input, or WEIR_NO_CHUNK), bytes = its grant, with what the lane kept. A worker's grant is
	 * its allowance for outputs. With later stages, a split may be started again after it was done, when a chunk of
	 * it was lost: keep splits until END. Of a bundle the first chunk, the others were named by TASK_PART just
	 * before */
	WEIR_DO_START_TASK,
	WEIR_DO_GRANT,   /* slot: bytes more, go on */
	WEIR_DO_GIVE_UP, /* slot: unwind its task (now if it waits, else at its next ask), then TASK_FAILED(GIVE_UP) */
	WEIR_DO_TURN,    /* slot: its turn has come */
	WEIR_DO_STOP_TASK,    /* slot: its task is not wanted any more: end it soon, then TASK_FAILED(CANCELLED) */
	WEIR_DO_START_WORKER, /* slot, generation */
	/* slot, generation; bytes > 0: for its memory, which is free when it is dead; it may be at work */
	WEIR_DO_KILL_WORKER,
	WEIR_DO_OUTPUT_KEPT, /* run, chunk: the output's number from now on */
	/* run, chunk = its number in that attempt: not wanted, forget it (nothing to do if it was) */
	WEIR_DO_OUTPUT_DROP,
	/* slot: a lane that made an OUTPUT may go on (it pauses after each until told); a worker after PAUSE */
	WEIR_DO_RESUME,
	WEIR_DO_SPILL,
	WEIR_DO_RESTORE,
	WEIR_DO_FREE,      /* chunk */
	WEIR_DO_DELIVER,   /* chunk: to the consumer */
	WEIR_DO_TRIM,      /* give warm pages back: bytes are wanted */
	WEIR_DO_STOP_SLOT, /* slot: no more work will come; a lane ends, a worker exits */
	/* code: WEIR_OK: every task is done, commit; else why not. Lanes told STOP_SLOT just before may still finish
	 * what they hold; wait for their threads before the commit. After an error of a task: run = that attempt
	 * (attempt 0: it was none), chunk = the number of the split it came of */
	WEIR_DO_END,
	/* slot, run: a worker whose task makes outputs faster than they are used begins no further one before RESUME;
	 * one or two that are on their way do no harm */
	WEIR_DO_PAUSE,
	/* slot, run, chunk: the second, third … input of the bundle that the next START_TASK starts */
	WEIR_DO_TASK_PART,
};

#define WEIR_NO_CHUNK UINT64_MAX

struct weir_action {
	enum weir_action_kind kind;
	uint32_t stage, slot, generation;
	struct weir_run run;
	uint64_t chunk;
	int64_t bytes;
	/* START_TASK of a worker: so many outputs of earlier attempts were accepted, with so many rows */
	uint64_t outputs_kept;
	int64_t rows_kept;
	int code;
	const char *reason; /* END with an error: a sentence with figures; static or owned by the core */
};

struct weir_actions WEIR_LIST(
	struct weir_action); /* grown by the core from its account; the caller releases it there */

struct weir_core;

int weir_core_new(struct weir_account *account, const struct weir_core_options *options, struct weir_core **out,
		  struct weir_error *err);
void weir_core_free(struct weir_core *core);
/* Appends to `out` (the caller clears it). Fails only when memory for its own lists is out: then nothing has changed
 * and the same event may be given again. */
int weir_core_step(struct weir_core *core, const struct weir_event *event, uint64_t now_ns, struct weir_actions *out,
		   struct weir_error *err);
bool weir_core_ended(const struct weir_core *core);

/* For stats and for the question "why does it wait?": a copy of the accounts and of what each slot does. */
struct weir_core_stats {
	int64_t budget, granted, resident, spilled, pinned, held_by_user, workers, peak;
	uint64_t splits_cut, splits_done, tasks_done, retries, give_ups, spills, restores, events;
	uint64_t wait_ns_memory, wait_ns_turn, wait_ns_downstream; /* summed over slots */
};
void weir_core_stats(const struct weir_core *core, struct weir_core_stats *out);

/* For who shares memory among runs. */
struct weir_core_load {
	int64_t booked;          /* grants, chunks and workers, as they are in the books; */
	int64_t without_workers; /* the first two */
	int64_t delivered;       /* of these, what waits for the consumer to take it */
	/* the front, or what it depends on, waits for so much more than the run's budget has; INT64_MAX: for all there
	 * is; 0: for nothing, or what it waits for is on its way */
	int64_t wants;
	bool has_all;    /* a batch that is to have all memory runs */
	uint32_t active; /* lanes, workers, chunks under I/O: of which something will be heard without more memory */
};
void weir_core_load(const struct weir_core *core, struct weir_core_load *out);

/* Why tasks that could run do not: summed over the slots that wait, and over the time in which the oldest of the queue
 * did. */
enum weir_wait {
	WEIR_WAIT_SLOT,       /* all slots are busy */
	WEIR_WAIT_MEMORY,     /* memory budget */
	WEIR_WAIT_WINDOW,     /* order window */
	WEIR_WAIT_DOWNSTREAM, /* downstream capacity: backpressure */
	WEIR_WAIT_RESOURCES,  /* milli_cpus, milli_gpus */
	WEIR_WAIT_TURN,       /* an earlier task is not done */
	WEIR_WAIT_COUNT
};

struct weir_spread {
	uint64_t min, max, total;
};

struct weir_stage_stats {
	uint64_t tasks_done, tasks_errored, retries, deaths; /* deaths: of workers, whoever's hand */
	uint64_t rows_in, rows_out, bytes_in, bytes_out;     /* of tasks done; out: accepted */
	uint64_t outputs, busy_ns; /* chunks accepted; time in which slots had a task, summed */
	uint32_t slots_up, slots_busy, slots_peak, queued;
	int64_t memory_assumed,
		memory_peak; /* of one worker: what the next one is taken to need; the most that was measured */
	uint64_t wait_ns[WEIR_WAIT_COUNT];
	uint64_t tasks_timed; /* of tasks done: those whose times are known */
	struct weir_spread wall_ns, cpu_ns, call_ns;
	struct weir_spread output_rows, output_bytes; /* of the chunks accepted */
};
const char *weir_wait_name(enum weir_wait wait); /* "memory budget": the policy's */
void weir_core_stage_stats(const struct weir_core *core, uint32_t stage, struct weir_stage_stats *out);

#endif
