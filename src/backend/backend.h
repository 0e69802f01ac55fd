/* backend: runs fragments. `local` is threads in this process (and worker processes); the executor decides, the backend
 * performs. */
#ifndef WEIR_BACKEND_BACKEND_H
#define WEIR_BACKEND_BACKEND_H

#include "base/list.h"
#include "base/log.h"
#include "store/store.h"
#include "ops/fragment.h"
#include "ops/origin.h"
#include "exec/exec.h"

struct weir_session_options {
	int64_t memory_limit; /* 0: default (60 % of the machine or cgroup) */
	uint32_t threads;     /* 0: the CPUs this process may use */
	const char *const *spill_dirs;
	struct weir_log_sink log; /* where its threads' lines go; all-zero: stderr */
};

/* Owns memory, I/O threads and the store. Counted; any thread. Runs at the same time share the limit alike. */
struct weir_session;
int weir_session_new(const struct weir_session_options *options, struct weir_session **out, struct weir_error *err);
struct weir_session *weir_session_ref(struct weir_session *session);
void weir_session_free(struct weir_session *session);                             /* lets go of one reference */
const struct weir_log_sink *weir_session_log(const struct weir_session *session); /* NULL: stderr */
struct weir_account *weir_session_account(struct weir_session *session);
struct weir_io *weir_session_io(struct weir_session *session);
int64_t weir_session_memory_limit(const struct weir_session *session);
uint32_t weir_session_threads(const struct weir_session *session);
/* `used` is without what the store keeps warm, which is nobody's; `warm` has it. */
void weir_session_memory(struct weir_session *session, struct weir_mem_stats *out);
/* Bytes written to disk and read back from there so far, whoever did it. */
void weir_session_spilled(struct weir_session *session, uint64_t *written, uint64_t *read);
/* While nothing runs: pages of chunks that are gone go back to the machine, but for a few. */
void weir_session_trim(struct weir_session *session);
/* What a consumer keeps of its rows in memory that no account of the session has (a buffer to shuffle in, batches made
 * ready): so much more, or less when negative. Runs go without it from now on; what is measured does not count it a
 * second time. */
void weir_session_hold(struct weir_session *session, int64_t bytes);
/* Memory in which batches of the program lie that loops have joined: what is in use there since a run began counts as
 * handed to the program. NULL: it may be gone from now on. */
void weir_session_program(struct weir_session *session, struct weir_mem *mem);
/* A loop will have so much more in use there, or less when negative, so that there is room before it does. */
void weir_session_expect(struct weir_session *session, int64_t bytes);
/* Chunks between stages and blocks that are kept; made when first asked for. */
int weir_session_store(struct weir_session *session, struct weir_store **out, struct weir_error *err);
/* Chunks that are kept after their run (blocks) may be spilled when they are many: the session holds a list of them,
 * which does not keep them alive. Forget comes before the last reference goes. */
int weir_session_keep(struct weir_session *session, struct weir_chunk *chunk, struct weir_error *err);
void weir_session_forget(struct weir_session *session, struct weir_chunk *chunk);
/* Spills of these, the oldest first, until at most `resident_max` bytes are in memory. Waits for the disk. Fails
 * where more than twice as much stays since the disk is full, or cannot be written to. */
int weir_session_spill(struct weir_session *session, int64_t resident_max, struct weir_error *err);
/* Bytes of them in memory. */
int64_t weir_session_kept(struct weir_session *session);
/* So much of them, as far as there is as much that can go. */
void weir_session_spill_some(struct weir_session *session, int64_t bytes);

/* ---- runs of several stages ---- */

struct weir_launcher; /* backend/local/launcher.h: how a worker process is made */

/* A step that runs in worker processes: one Python function, as the engine sees it. Zero means the default
 * throughout. */
struct weir_call {
	const char *name; /* "MapBatches(f)", for messages and stats */
	const struct weir_launcher *launcher;
	int setup; /* a memfd of setup_size bytes: what a worker is to do */
	uint64_t setup_size;
	uint32_t slots_min;   /* workers that stay: 1 */
	uint32_t slots_max;   /* as many as the session has threads */
	uint32_t slots_first; /* started with the run: 1 */
	uint32_t in_flight;   /* batches given to a worker ahead: 2 */
	/* a task holds at least so many rows, if there are; chunks in front end on multiples of it */
	int64_t batch_rows;
	int64_t chunk_bytes; /* about how large chunks in front of it are: 8 MiB */
	uint32_t
		fine; /* > 0: a task holds one batch; without batch_rows, so many rows of a split at first, then more */
	uint32_t fine_first; /* the same of the first split, which may be the only one; 0: as fine */
	uint32_t paced;      /* 1: with fine and batch_rows, several batches where they take little time */
	/* 1: what splits are matters: behind it, what a sink gets at once is of one, and which ones make a task of
	 * batch_rows does not depend on who is ready first. 2: nor where some splits have as many rows by themselves
	 * and others have not */
	uint32_t keeps_splits;
	uint32_t whole_splits; /* 1: a task holds what there is of one split, up to chunk_bytes; batch_rows is 0 */
	uint32_t milli_cpus, milli_gpus; /* of the session's, by one busy worker */
	/* what a worker is taken to need until it is measured: 4 × chunk_bytes + start, or 4 × the largest batch that
	 * waits for it, if that is more */
	int64_t memory;
	int64_t start;         /* of that, what it has before its first batch: 16 MiB */
	int64_t errored_max;   /* tasks whose function may fail; they are left out. −1: any number */
	uint32_t user_retries; /* a function that fails is called again so often */
	/* a batch may end its worker so often, the last time with the run; 0: three times */
	uint32_t attempts_max;
};

/* Native steps behind a call. Their rows have no schema before they come, so a fragment is made for each one that is
 * met, whose source is `blocks` (ops/blocks.h). Any thread. */
struct weir_template {
	/* Borrowed until the run is freed; the same for equal schemas. */
	int (*fragment)(void *state, const struct weir_schema *schema, const struct weir_fragment **out,
			struct weir_error *err);
	int (*commit)(void *state, struct weir_error *err); /* once, after the last lane is gone */
	void *state;
	bool is_sink;       /* it ends in one; else in `chunks` */
	bool by_schema;     /* that begins another file for another schema */
	uint32_t lanes_max; /* 0: any */
	int64_t rows_min;   /* a task holds so many rows if it can: INT64_MAX: as many as memory allows well */
};

struct weir_run_stage {
	enum weir_stage_kind kind;
	struct weir_call call;         /* WORKERS */
	struct weir_template template; /* LANES */
};

/* Of which split of the first stage rows were made, and of which of the split's chunks (0 if that is the last
 * stage). */
struct weir_place {
	uint32_t split, chunk;
};

/* Takes the last stage's chunks, in order. Called under the run's lock: it must neither wait nor call the run; what was
 * delivered and not taken is two chunks at most. Takes the reference over. True: it is taken already. */
struct weir_run_consumer {
	bool (*deliver)(void *state, struct weir_chunk *chunk, uint64_t number, struct weir_place place);
	void *state;
	int64_t kept_max; /* bytes of the session's kept chunks that it lets stay in memory; 0: it keeps none */
};

/* What follows the first fragment, which then ends in `chunks`. All borrowed until the run is freed. */
struct weir_run_tail {
	const struct weir_run_stage *stages;
	uint32_t stage_count;
	struct weir_run_consumer consumer; /* deliver NULL: the last stage is a sink */
	uint64_t milli_cpus, milli_gpus;   /* 0: no bound */
};

/* Why user code ended the run, as its worker told it. */
struct weir_failure {
	struct weir_chunk *payload; /* NULL: there is none. A reference for the receiver */
	uint64_t payload_size;
	char operator_name[128];
	struct weir_origin *origin; /* likewise; of the task's rows */
};

/* A line that a worker printed; borrowed. */
struct weir_run_print {
	const char *operator_name;
	uint32_t slot;
	int64_t pid;
	bool is_stderr;
	uint64_t dropped; /* lines lost before this one */
	const char *text; /* NULL: none came after those that were lost */
	size_t size;
};

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
	struct weir_op_counts ops[32]; /* of the first 32 operators of all stages, summed over lanes */
	uint32_t stage_count;
	uint32_t exchange_count;
	struct weir_exchange_counts exchanges[16]; /* of the first 16, in the order in which they run */
};

/* Runs until the end, an error or cancellation; commits the sink. The fragment stays the caller's. What has to be run
 * before it (ops/fragment.h) is run first, each as a run of its own inside this one: to whoever looks they are one. */
struct weir_local_run;
int weir_local_run_new(struct weir_session *session, struct weir_fragment *fragment, struct weir_local_run **out,
		       struct weir_error *err);
/* The same with stages behind the fragment. `tail` NULL: none. */
int weir_local_run_new_staged(struct weir_session *session, struct weir_fragment *fragment,
			      const struct weir_run_tail *tail, struct weir_local_run **out, struct weir_error *err);
int weir_local_run_wait(struct weir_local_run *run,
			struct weir_error *err); /* starts lanes; returns when all is over */
/* After a wait that failed: clear lets go of the fragment's splits, so that the fragment can be released and built
 * again in its place; again makes ready for another wait. A cancellation in between counts for it. */
void weir_local_run_clear(struct weir_local_run *run);
/* After it has been waited for the last time. True: it had exchanges, and looks at its fragment no more, which may be
 * ended. */
bool weir_local_run_retire(struct weir_local_run *run);
/* Whether it failed in what has to be run before its fragment: then nothing has been seen of the result. */
bool weir_local_run_failed_before(const struct weir_local_run *run);
int weir_local_run_again(struct weir_local_run *run, struct weir_error *err);
void weir_local_run_cancel(struct weir_local_run *run); /* async-signal-safe, any thread; seen within 100 ms */
void weir_local_run_wake(struct weir_local_run *run);   /* a cancellation is seen at once; any thread */
void weir_local_run_stats(struct weir_local_run *run, struct weir_run_stats *out); /* any thread, while it runs too */
const char *weir_local_run_stage_stats(struct weir_local_run *run, uint32_t stage,
				       struct weir_stage_stats *out); /* its name */
/* The consumer has a delivered chunk; any thread, outside of deliver. */
void weir_local_run_taken(struct weir_local_run *run, uint64_t number);
/* The consumer has nothing to do but wait for the next chunk: what it still holds is not going to come back meanwhile.
 * Any thread. */
void weir_local_run_awaited(struct weir_local_run *run);
/* The calling thread waits for somebody outside (the program, rows of another run), until the end. If it is one that
 * works for a run, that run does not move by it meanwhile. */
void weir_local_wait_begin(void);
void weir_local_wait_end(void);
/* After a wait that failed; false: no user code did. */
bool weir_local_run_failure(struct weir_local_run *run, struct weir_failure *out);
/* A task that failed and that the run went on without, the oldest first, each once; false: no more. Any thread. */
bool weir_local_run_left_out(struct weir_local_run *run, struct weir_failure *out);
/* Rung when workers have printed something: an eventfd, borrowed until the run is freed. */
void weir_local_run_bell(struct weir_local_run *run, int eventfd);
/* Hands out what workers have printed since the last call; any one thread. */
void weir_local_run_prints(struct weir_local_run *run, void (*each)(void *state, const struct weir_run_print *line),
			   void *state);
void weir_local_run_free(struct weir_local_run *run);

#endif
