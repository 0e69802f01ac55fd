#ifndef WEIR_BACKEND_LOCAL_LOCAL_IMPL_H
#define WEIR_BACKEND_LOCAL_LOCAL_IMPL_H

#include "backend/backend.h"

#include <pthread.h>

/* Below this not even one lane could work. */
#define SESSION_LIMIT_MIN ((int64_t)64 << 20)
/* Not for grants: the program itself, stacks, plans, listings, malloc's own loss. */
#define SESSION_RESERVE ((int64_t)12 << 20)

struct weir_session {
	struct weir_mem *mem;
	struct weir_io *io;
	int64_t memory_limit;
	uint32_t threads;
	int64_t rss_start;
	struct weir_log_sink log;
	_Atomic uint32_t refs;
	_Atomic bool running; /* a run has it */
};

struct lane {
	struct weir_local_run *run;
	uint32_t number;
	pthread_t thread;
	bool thread_started;
	pthread_cond_t wake; /* with run->lock: one of the fields below has changed */
	/* Under run->lock: what the executor told it. */
	bool has_task, has_grant, has_turn, give_up, stop;
	struct weir_run task;
	int64_t task_grant, grant_more;
	/* Set under the lock, read anywhere without it: the task is not wanted. */
	_Atomic bool cancelled;
	/* The lane's own. */
	struct weir_account account;
	struct weir_lane_context context;
	struct weir_chain *chain;
	void *sink_lane;
	bool refused;   /* its last request for memory */
	bool confirmed; /* the split is in turn and was read from the right place */
	bool sink_open; /* split_begin succeeded, neither end nor abort was called */
	uint64_t task_rows_out;
	_Atomic uint64_t rows_out_live;       /* relaxed: for progress only */
	struct weir_op_counts ops[32];        /* of finished splits; under run->lock */
	struct weir_op_counts ops_before[32]; /* of chains that were freed since */
	uint32_t op_count;
};

/* A split between being cut and being done. */
struct local_task {
	struct weir_split_info info;
	void *split;
	bool done;
};

struct weir_local_run {
	struct weir_session *session;
	struct weir_fragment *fragment;
	struct weir_account *account;
	pthread_mutex_t
		lock; /* guards everything here, the core and the source; rank: run, taken before base's frames lock */
	pthread_cond_t over; /* a lane has ended, or the run */
	struct weir_core *core;
	struct weir_actions actions;
	struct WEIR_LIST(struct weir_event) events; /* caused by performing actions, not yet given to the core */
	bool stepping;
	struct WEIR_LIST(struct local_task) tasks; /* splits first_task … */
	uint64_t first_task;
	bool splits_end;
	struct lane *lanes;
	uint32_t lane_count, lanes_running;
	int64_t held; /* charged to the session before the run, and so not in the budget */
	bool claimed; /* the session is this run's */
	bool cleared; /* between two attempts: the fragment is being built anew and not to be looked at */
	bool ended;
	int end_code;
	struct weir_error error;   /* the first cause */
	struct weir_error refused; /* of the oldest lane that was refused memory: where it stood */
	uint64_t refused_task;
	_Atomic bool cancel_requested;
	uint64_t started_ns, ended_ns;
	uint64_t splits_done, rows_in, rows_out, bytes_est_known, bytes_est_done;
};

/* run.c: gives the core an event and performs what it says. Under run->lock. */
void weir_local_post(struct weir_local_run *run, struct weir_event event);
/* Gives free memory back that malloc keeps, when it is much, and warm frames near the limit: columns by the thousand grow and shrink below the size of a
 * frame, each lane's in an arena of its own. Without the lock; a lane calls it when it is about to use more. */
void weir_local_return_free(const struct weir_local_run *run);
/* lane.c */
void *weir_lane_main(void *argument);

#endif
