/* local_impl: a session and its runs, as the files that run, share and end them see them. README.md says which does
 * what; pool.h and worker_impl.h have what is known of worker processes. */
#ifndef WEIR_BACKEND_LOCAL_LOCAL_IMPL_H
#define WEIR_BACKEND_LOCAL_LOCAL_IMPL_H

#include "arrow/block.h"
#include "backend/backend.h"
#include "backend/local/pool.h"

#include <pthread.h>

/* Below this not even one lane could work. */
#define SESSION_LIMIT_MIN ((int64_t)64 << 20)
/* Not for grants: the program itself, stacks, plans, listings, malloc's own loss. */
#define SESSION_RESERVE ((int64_t)12 << 20)

/* Of the limit: rows as large are mentioned where memory does not suffice for them. */
#define LARGE_ROW_SHARE 128

#define SHARE_STEP ((int64_t)1 << 20) /* runs are not told of less at once */

#define RUN_STAGES_MAX 32
#define RUN_PLACE_MAX (8 * (RUN_STAGES_MAX + 1))
#define RUN_LEFT_OUT_MAX 1000 /* of tasks that were left out, until somebody asks */
#define RUN_FAILURES_MAX 8    /* of tasks that may be tried again; the one that ends the run is among the last */

struct weir_session {
	struct weir_mem *mem;
	struct weir_io *io;
	int64_t memory_limit;
	uint32_t threads;
	int64_t rss_start;
	struct weir_log_sink log;
	char *spill_dir; /* NULL: the default */
	_Atomic uint32_t refs;
	/* Of all runs, as they last measured it: what their lanes use, and what of the store is in their books.
	 * Relaxed: each is right within a moment. */
	_Atomic int64_t lanes_used, chunks_booked;
	_Atomic int64_t held_for_loops; /* by what stands between runs and loops; relaxed, as above */
	_Atomic int64_t expected;       /* in the program's memory, by its loops; relaxed */
	_Atomic uint32_t runs_listed;
	_Atomic int64_t setups; /* of all runs: what workers are given to begin with, in memfds that only they map */
	/* of all runs: what their workers were last measured to have, and how many are at work; relaxed */
	_Atomic int64_t workers_measured;
	_Atomic uint32_t workers_busy;
	/* of the process that workers are made of, as last measured: all, and what none shares; relaxed */
	_Atomic int64_t launcher_bytes, launcher_alone;
	/* guards what follows up to `lock`, and runs' `load`; rank: inside run, before the store's (share.c) */
	pthread_mutex_t share_lock;
	struct session_sharing WEIR_LIST(struct weir_local_run *) sharing; /* those that run */
	struct weir_local_run *turn; /* it may go beyond its share; NULL: nobody wants to */
	uint64_t turn_number;        /* changes with it */
	uint64_t turn_cleared;       /* the last for which blocks that are kept went to disk */
	uint64_t taken_ns;           /* when the program last took something, or let go of some */
	int64_t held;                /* by the program, then */
	struct weir_mem *program;    /* its own memory for batches; NULL: none */
	pthread_mutex_t lock;        /* guards what follows; rank: session, before any run's */
	struct weir_store *store;
	struct session_runs WEIR_LIST(struct weir_local_run *) runs; /* those that wait for their end */
	struct session_kept WEIR_LIST(struct weir_chunk *) kept;     /* oldest first; not referenced */
};

struct stage;

/* A chunk by the executor's number. */
struct local_chunk {
	uint64_t number;
	struct weir_chunk *chunk; /* a reference; NULL: the place is free */
	int64_t rows;
	uint32_t path[RUN_STAGES_MAX + 1]; /* split, output, output of that … : its place in input order */
	uint32_t path_count;
	struct weir_origin *origin; /* a reference */
	/* When it is a task of lanes: what was accepted of its outputs, should it be redone. */
	uint32_t outputs_kept;
	int64_t rows_kept;
};
struct local_chunks WEIR_LIST(struct local_chunk);

struct lane {
	struct weir_local_run *run;
	struct stage *stage;
	uint32_t number;
	pthread_t thread;
	bool thread_started;
	pthread_cond_t wake; /* with run->lock: one of the fields below has changed */
	/* Under run->lock: what the executor told it. */
	bool has_task, has_grant, has_turn, give_up, stop, resumed;
	struct weir_run task;
	struct local_chunks inputs; /* of a task behind the first stage; references */
	int64_t task_grant, grant_more;
	/* Set under the lock, read anywhere without it: the task is not wanted. */
	_Atomic bool cancelled;
	/* The lane's own. */
	struct weir_account account;
	struct weir_lane_context context;
	const struct weir_fragment *fragment; /* that its operators were made of */
	struct weir_block_cache blocks;
	struct weir_chain *chain;
	void *sink_lane;
	bool refused;     /* its last request for memory */
	bool confirmed;   /* the split is in turn and was read from the right place */
	bool sink_open;   /* split_begin succeeded, neither end nor abort was called */
	uint32_t outputs; /* of this attempt */
	uint64_t task_rows_out;
	_Atomic uint64_t rows_out_live;       /* relaxed: for progress only */
	struct weir_op_counts ops[32];        /* of finished splits; under run->lock */
	struct weir_op_counts ops_before[32]; /* of chains that were freed since */
	uint32_t op_count;
};

/* A split between being cut and being done; in a run of several stages until the end, since it may be run again. */
struct local_task {
	struct weir_split_info info;
	void *split;
	bool done;
	bool freed;      /* its split */
	bool stays;      /* one of its chunks was lost: it is made again */
	uint32_t chunks; /* of its own that are there, and may be lost */
	uint32_t outputs_kept;
	int64_t rows_kept;
};

/* A failure of user code: kept until it is known whether the run ends over it. */
struct local_failure {
	struct weir_run run; /* attempt 0: of none, the worker could not begin */
	struct weir_chunk *payload;
	struct weir_origin *origin; /* a reference */
	/* unless its task was not wanted any more: never forgotten, there are no more than tasks in flight */
	bool ends_run;
	char text[WEIR_WORKER_TEXT];
};

/* What a task was given: to say so when the run ends over it. */
struct local_given {
	struct weir_run run;
	struct weir_origin *origin; /* a reference */
	uint64_t rows;
	/* of an earlier attempt: the executor drops them by number, so they are mentioned */
	uint64_t outputs_kept;
	bool in_flight;
};

/* An error in user code that waits for what tasks before its own come to. */
struct local_error {
	struct weir_pool_event said; /* the reference to its payload is here */
	uint64_t since_ns;
};

/* What is known of a worker, for errors and for the bound on its memory. Under run->lock. */
struct local_worker {
	struct local_given given[WEIR_WORKER_FLIGHT_MAX]; /* the last ones */
	uint32_t given_next;
	uint32_t in_flight;
	bool starts;      /* its process is about to be ready: a constructor may take memory, too */
	bool leaves;      /* it was told to, and is not dead */
	int64_t measured; /* 0: not yet */
	int64_t lately;   /* the most that it was measured at, falling since; */
	uint64_t lately_ns;
	int64_t bound;
};

struct stage {
	struct weir_local_run *run;
	uint32_t index;
	enum weir_stage_kind kind;
	const char *name;
	uint64_t rows_out; /* of tasks done; under run->lock */
	/* LANES */
	struct lane *lanes;
	uint32_t lane_count;
	const struct weir_template *template; /* NULL: the first stage, whose fragment is the run's */
	/* WORKERS */
	const struct weir_call *call;
	uint32_t slots;
	/* rows that take TASK_NS; written under run->lock, read by lanes. 0: none were timed */
	_Atomic int64_t pace_rows;
	int64_t slot_memory; /* what a worker is taken to need before it is measured */
	struct local_worker *workers;
	struct local_errors WEIR_LIST(struct local_error) errors; /* not told yet; workers.c */
	struct weir_pool *pool;
	pthread_t thread;
	bool thread_started;
};

/* An event and what comes with it. */
struct local_event {
	struct weir_event event;
	struct weir_chunk *chunk;   /* OUTPUT: a reference */
	struct weir_origin *origin; /* likewise */
};

struct disk_job {
	uint64_t number;
	struct weir_chunk *chunk; /* a reference */
	bool restore;
};

/* What a run has and wants, as its executor says; share.c. */
struct local_load {
	int64_t budget, share; /* the run's, for who has not its lock */
	int64_t booked, has;   /* in its books; in memory, as far as it was measured, */
	int64_t delivered;     /* of which the program will take so much, if it comes for it */
	int64_t wants;
	bool has_all;
	int active;
	uint64_t wants_since_ns;
	uint64_t turn_seen; /* that its executor was told of */
};

/* What it may have beside the others. */
struct local_share {
	int64_t budget, apart, lent;
	bool has_turn;
	bool waits;  /* beyond its budget, for its turn */
	bool parked; /* for another's */
};

/* A thread works for a run; it may do so while it works for another. */
struct local_here {
	struct weir_local_run *run;
	struct local_here *above;
	bool cuts; /* it is the one that cuts its splits */
};

struct weir_local_run {
	struct weir_session *session;
	struct weir_fragment *fragment;
	const struct weir_run_tail *tail; /* NULL: one stage */
	struct weir_account *account;
	struct weir_store *store; /* NULL: one stage */
	/* the session's, whose pages count with the process's; NULL: nobody has wanted it yet */
	struct weir_store *beside;
	/* guards everything here, the core and the source; rank: run, before pools, store and frames */
	pthread_mutex_t lock;
	pthread_cond_t over; /* a thread of the run has ended, or the run */
	struct weir_core *core;
	struct weir_actions actions;
	struct WEIR_LIST(struct local_event) events; /* caused by performing actions, not yet given to the core */
	size_t event_at;                             /* the one in the core */
	bool stepping;
	struct WEIR_LIST(struct local_task) tasks; /* splits first_task … */
	uint64_t first_task, first_open;           /* in the list; not done */
	bool splits_end;
	/* Where the source waits for somebody (cut.c). */
	pthread_t cutter;
	bool cutter_started;
	bool cut_wanted;
	pthread_cond_t cut_wake;
	/* a split is being cut since; 0: none is. Relaxed, as the next two: looked at again */
	_Atomic uint64_t cut_since_ns;
	struct stage stages[RUN_STAGES_MAX];
	uint32_t stage_count;
	uint32_t threads_running;         /* of lanes, pools and disks */
	struct local_chunks chunks;       /* by the low half of their numbers */
	struct WEIR_LIST(uint64_t) parts; /* of the bundle whose START_TASK comes next */
	uint64_t rows_delivered;
	struct weir_pool_events measures;         /* of workers.c, within a call */
	bool room_granted;                        /* the worker's ASK that is in the core was answered */
	uint32_t workers_busy, workers_busy_peak; /* of all stages; the most since bounds were last set */
	int64_t workers_promised;                 /* of descriptors.c */
	uint32_t bounds_for;                      /* as many busy workers, */
	uint64_t bounded_ns;                      /* at this time */
	/* Disk threads. */
	struct WEIR_LIST(struct disk_job) disk_queue;
	pthread_cond_t disk_wake;
	pthread_t disk_threads[2];
	uint32_t disk_count;
	struct weir_prints prints;
	struct WEIR_LIST(struct local_failure) failures;
	struct WEIR_LIST(struct local_failure) left_out; /* that the run went on without; told to whoever asks */
	struct local_failure failure;                    /* that the run ended over */
	bool has_failure;
	uint32_t failure_stage;
	int64_t told_used, told_booked; /* its part of the session's sums */
	int64_t held;                   /* charged to the session before the run, and so not in the budget */
	int64_t setups;                 /* of its calls; charged to the session while the run lives */
	int64_t budget;                 /* of a run that has the session for itself */
	_Atomic int64_t budget_due;     /* another share of it, which the executor has not been told yet; 0: none */
	int64_t share;                  /* of the budget, */
	int64_t share_told;             /* and what is left of it beside what the user has been handed */
	int64_t apart_told;             /* of the overdraft, what loops and other runs have, */
	int64_t lent_told;              /* and what will come back; */
	_Atomic int64_t lent_by_user;   /* of that, what the user will let go of; written under the lock, relaxed */
	_Atomic bool awaited;           /* its consumer waits; relaxed: looked at when there is something to tell */
	struct local_load load;         /* under session->share_lock */
	/* threads that wait for somebody outside; whether it is the one that cuts */
	_Atomic int blocked, blocked_cutting;
	int64_t overdraft; /* of a run that has the session for itself */
	int64_t allowed;   /* what it may have in all, with its workers; where it is not alone */
	bool parked_told;
	int64_t workers_measured;      /* its part of the session's */
	int64_t handed_out_before;     /* by earlier runs; that is not taken off */
	int64_t program_before;        /* in the program's own memory; nor is that */
	bool listed;                   /* among the session's runs */
	struct weir_run_stats retired; /* of exchanges that have been let go of; the rest is empty */
	bool cleared; /* between two attempts: the fragment is being built anew and not to be looked at */
	bool ended;
	int end_code;
	struct weir_error error;   /* the first cause */
	struct weir_error refused; /* of the oldest lane that was refused memory: where it stood */
	uint64_t refused_task;
	_Atomic bool cancel_requested;
	const _Atomic bool *cancel_above; /* of the run that this one is a phase of; NULL: of none */
	/* What has to be run before the fragment: the phase under way, and the figures of those that are over. */
	struct weir_local_run *phase;
	struct weir_run_stats phases;
	bool phases_over;
	_Atomic uint64_t returned_ns; /* when free memory was last given back; relaxed, only to do it seldom */
	uint64_t measured_ns;         /* memory, by whoever did so last */
	uint64_t started_ns, ended_ns;
	uint64_t splits_done, bytes_est_known, bytes_est_done;
};

/* descriptors.c. Fewer slots of workers, where there are not descriptors enough for all; an error where there are none
 * for one a stage. */
int weir_descriptors_fit(struct weir_local_run *run, struct weir_stage_spec *specs, uint32_t count,
			 struct weir_error *err);
void weir_descriptors_return(struct weir_local_run *run); /* its workers are gone */

/* session.c. Anonymous memory of this process since the session began, 0 where that cannot be told (false): what
 * accounts have of it, and of what they do not have at most a part of the limit. The rest is the program's own, rows
 * that it keeps as Python objects among it. */
bool weir_session_anon(const struct weir_session *session, const struct weir_store_stats *store, int64_t *out);
int64_t weir_session_accounted(const struct weir_session *session, const struct weir_store_stats *store);

struct weir_store *weir_session_store_made(struct weir_session *session); /* NULL: nobody has wanted it yet */

/* Bytes of the program's batches in memory of its own. Takes the share lock, as the next. */
int64_t weir_session_program_bytes(struct weir_session *session);
/* Of that, what the run goes without: what has come since it began, or what loops are about to make. */
int64_t weir_local_program_bytes(struct weir_local_run *run);

/* perform.c: gives the core an event and performs what it says. Under run->lock. */
void weir_local_post(struct weir_local_run *run, struct weir_event event);
/* The same of an output: takes the chunk over. */
void weir_local_post_output(struct weir_local_run *run, const struct local_event *event);
/* The run cannot go on, and nobody could even queue an event. */
void weir_local_give_up(struct weir_local_run *run, const struct weir_error *err);
void weir_local_tasks_free(struct weir_local_run *run);

/* cut.c: asks the source for its next split and answers, now or when it is there. Under run->lock. */
void weir_local_cut(struct weir_local_run *run);
int weir_local_cutter_start(struct weir_local_run *run, struct weir_error *err);
void weir_local_cutter_join(struct weir_local_run *run);

/* chunks.c. Under run->lock but for the threads. */
struct local_chunk *weir_local_chunk(struct weir_local_run *run, uint64_t number); /* NULL: gone */
/* Keeps the output of the event in the core under its number; the chunk is the table's then. */
int weir_local_chunk_keep(struct weir_local_run *run, const struct weir_action *action, struct local_event *made,
			  struct weir_error *err);
void weir_local_chunk_drop(struct weir_local_run *run, uint64_t number);
/* Frees the split of a task that is done and of which nothing can be lost any more. */
void weir_local_task_over(struct weir_local_run *run, struct local_task *task);
void weir_local_chunks_free(struct weir_local_run *run);
int weir_local_disk_queue(struct weir_local_run *run, uint64_t number, bool restore, struct weir_error *err);
int weir_local_disks_start(struct weir_local_run *run, struct weir_error *err);
void weir_local_disks_join(struct weir_local_run *run);
/* workers.c */
int weir_local_pools_start(struct weir_local_run *run, struct weir_error *err);
void weir_local_pools_join(struct weir_local_run *run);
void weir_local_pool_perform(struct weir_local_run *run, const struct weir_action *action);
/* Memory did not suffice for something that the error's value names: the message says it, too. */
void weir_local_say_value(struct weir_error *err, const char *value);
/* Adds to the error what the task was given that the run ends over, where it was a worker's. */
void weir_local_add_origin(struct weir_local_run *run, const struct weir_action *end);
/* What was given to a worker as `run`; NULL: it is forgotten. */
struct local_given *weir_local_given(const struct stage *stage, uint32_t slot, const struct weir_run *run);
/* How much memory workers may have from now on, as the kernel enforces it. Under run->lock. */
void weir_local_bound_workers(struct weir_local_run *run);
void weir_local_failures_free(struct weir_local_run *run);
void weir_local_failure_choose(struct weir_local_run *run, const struct weir_action *end);

/* Gives free memory back that malloc keeps, when it is much, and warm frames near the limit: columns by the thousand
 * grow and shrink below the size of a frame, each lane's in an arena of its own. Without the lock; a lane calls it when
 * it is about to use more. */
void weir_local_return_free(struct weir_local_run *run);
/* Measures memory, if that was not done a moment ago: a lane is about to be given more. Under run->lock. */
void weir_local_measure_soon(struct weir_local_run *run);
/* share.c. A thread works for the run, until the end. */
void weir_local_here_begin(struct local_here *place, struct weir_local_run *run);
void weir_local_here_end(struct local_here *place);
bool weir_local_is_shared(const struct weir_local_run *run); /* there are others at the same time */
int weir_local_share_begin(struct weir_local_run *run, struct weir_error *err);
void weir_local_share_end(struct weir_local_run *run);
/* Of what the process that workers are made of has for itself, the part of those that have `bytes`. */
int64_t weir_local_launcher_part(const struct weir_session *session, int64_t bytes);
/* This run's part of what is off the budgets of all that run now: together they go without it once. */
int64_t weir_local_part(const struct weir_local_run *run, int64_t bytes);
/* The run's share of the budget, less what the user was handed, where it has changed. With the run's lock. */
void weir_local_tell_budget(struct weir_local_run *run);
void weir_local_share_note(struct weir_local_run *run); /* what it has now. Under run->lock, as the next */
void weir_local_share(struct weir_local_run *run, struct local_share *out);
bool weir_local_share_waits(struct weir_local_run *run); /* another has its turn. With no lock, or the run's */
void weir_local_share_clear(struct weir_local_run *run); /* for a batch that is to have all memory; without the lock */

/* lane.c */
void *weir_lane_main(void *argument);

#endif
