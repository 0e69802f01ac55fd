/* backend: runs fragments. `local` is threads in this process (and worker processes); the executor decides, the backend
 * performs. */
#ifndef WEIR_BACKEND_BACKEND_H
#define WEIR_BACKEND_BACKEND_H

#include "base/list.h"
#include "base/log.h"
#include "ops/fragment.h"
#include "exec/exec.h"

struct weir_session_options {
	int64_t memory_limit;   /* 0: default (60 % of the machine or cgroup) */
	uint32_t threads;       /* 0: the CPUs this process may use */
	const char *const *spill_dirs;
	struct weir_log_sink log; /* where its threads' lines go; all-zero: stderr */
};

/* Owns memory and I/O threads. Counted; any thread. It has one run at a time, since grants are made of the whole limit. */
struct weir_session;
int weir_session_new(const struct weir_session_options *options, struct weir_session **out, struct weir_error *err);
struct weir_session *weir_session_ref(struct weir_session *session);
void weir_session_free(struct weir_session *session); /* lets go of one reference */
const struct weir_log_sink *weir_session_log(const struct weir_session *session); /* NULL: stderr */
struct weir_account *weir_session_account(struct weir_session *session);
struct weir_io *weir_session_io(struct weir_session *session);
int64_t weir_session_memory_limit(const struct weir_session *session);
uint32_t weir_session_threads(const struct weir_session *session);
void weir_session_memory(struct weir_session *session, struct weir_mem_stats *out);

struct weir_run_stats {
	uint64_t started_ns, ended_ns; /* monotonic; ended 0 while running */
	uint64_t splits_done, splits_known;
	bool splits_all_known;
	uint64_t rows_in, rows_out, bytes_est_done, bytes_est_known;
	uint64_t rows_pruned; /* of the input: by statistics, without being read */
	int64_t memory_used, memory_peak, memory_limit;
	uint32_t lanes;
	struct weir_core_stats core;
	uint32_t op_count;
	struct weir_op_counts ops[32]; /* of the first 32 operators, summed over lanes */
};

/* Runs until the end, an error or cancellation; commits the sink. The fragment stays the caller's. */
struct weir_local_run;
int weir_local_run_new(struct weir_session *session, struct weir_fragment *fragment, struct weir_local_run **out,
		       struct weir_error *err);
int weir_local_run_wait(struct weir_local_run *run, struct weir_error *err); /* starts lanes; returns when all is over */
/* After a wait that failed: clear lets go of the fragment's splits, so that the fragment can be released and built again in
 * its place; again makes ready for another wait. A cancellation in between counts for it. */
void weir_local_run_clear(struct weir_local_run *run);
int weir_local_run_again(struct weir_local_run *run, struct weir_error *err);
void weir_local_run_cancel(struct weir_local_run *run); /* async-signal-safe, any thread */
void weir_local_run_stats(struct weir_local_run *run, struct weir_run_stats *out); /* any thread, while it runs too */
void weir_local_run_free(struct weir_local_run *run);

#endif
