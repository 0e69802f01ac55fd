/* handles: what stands behind the public handles, for bindings that live in the same library: whole errors instead of
 * copies, the engine's batches instead of Arrow structs, and a doorbell instead of a call that blocks.
 *
 * Call order of a task:  api_flow_task → api_task_start → api_task_take …, api_task_ended → api_task_stop →
 *                        api_task_unref.
 * Threads: as weir.h says; stop, cancel, stats and the doorbell from any. */
#ifndef WEIR_API_HANDLES_H
#define WEIR_API_HANDLES_H

#include "weir/weir.h"
#include "arrow/cdata.h"
#include "ops/blocks.h"
#include "api/job.h"

struct weir_progress_view;

/* ---- export.c ---- */

/* Whoever owns the memory that arrays in the program's hands point into: handles and arrays count, the last one
 * frees. */
struct api_keeper {
	_Atomic uint32_t refs;
	void (*free)(struct api_keeper *keeper);
};
void api_keeper_ref(struct api_keeper *keeper);
void api_keeper_unref(struct api_keeper *keeper);

/* A schema that needs nothing of anybody's memory, and a batch that keeps its own alive, child by child. */
int api_export_schema(const struct weir_schema *schema, struct ArrowSchema *out, struct weir_error *err);
int api_export_batch(struct api_keeper *keeper, const struct weir_batch *batch, struct ArrowArray *out,
		     struct weir_error *err);
/* The task's rows as a stream; takes over a claim, also on failure. */
int api_export_stream(struct weir_task *task, struct ArrowArrayStream *out, struct weir_error *err);

/* ---- session.c ---- */

int api_session_new(const struct weir_options *options, struct weir_session **out, struct weir_error *err);

/* ---- flow.c ---- */

/* The flow's own error, or that it is NULL. */
int api_flow_check(const struct weir_flow *flow, struct weir_error *err);
struct weir_session *api_flow_session(const struct weir_flow *flow);
/* Puts a step in worker processes on top. The call is copied and its setup descriptor dup'ed; `release`, when not NULL,
 * is called when no copy of the flow and no run of it needs the launcher any more, also when adding fails. */
int api_flow_call(struct weir_flow *flow, const struct weir_call *call, void (*release)(void *held), void *held);
/* Begins a flow with blocks (ops/blocks.h), at least one; references each. Their schemas are unified. */
int api_flow_read_blocks(struct weir_flow *flow, struct weir_block *const *blocks, size_t count);

/* ---- blocks.c ---- */

/* A block of a batch in the program's memory. It keeps the session. weir_block_unref lets go. */
int api_block_from_batch(struct weir_session *session, const struct weir_batch *batch, struct weir_block **out,
			 struct weir_error *err);
/* A block of a chunk that a run made; references it. It may be spilled from now on. */
int api_block_from_chunk(struct weir_session *session, struct weir_chunk *chunk, struct weir_block **out,
			 struct weir_error *err);
/* Its rows; they stay in memory as long as the batch lives. */
int api_block_batch(struct weir_session *session, struct weir_block *block, struct weir_batch **out,
		    struct weir_error *err);

/* ---- task.c ---- */

/* What becomes of the rows of a flow that does not say it. */
enum api_end {
	API_END_NONE,    /* it must end in a sink */
	API_END_CHAIN,   /* the same, and the plan itself says so in the command's words */
	API_END_COUNT,   /* they are counted */
	API_END_COLLECT, /* they are handed out */
	API_END_EITHER,  /* by a sink if there is one, else handed out */
	API_END_BLOCKS,  /* they are kept: api_task_blocks */
};

/* A task that is ready: bound, optimised, built; nothing runs yet. options may be NULL. */
int api_flow_task(const struct weir_flow *flow, enum api_end end, const struct weir_start_options *options,
		  struct weir_task **out, struct weir_error *err);
int api_task_start(struct weir_task *task, struct weir_error *err); /* in a thread of its own */
int api_task_run(struct weir_task *task, struct weir_error *err);   /* in this one */
void api_task_stats(struct weir_task *task, struct weir_stats *out);
int64_t api_task_budget(struct weir_task *task); /* bytes that its run may have now */
/* The next batch, a new reference; NULL at the end. */
int api_task_next(struct weir_task *task, struct weir_batch **out, struct weir_error *err);
/* The same without waiting: *out is NULL also when there is none yet, and *ended says which. */
int api_task_take(struct weir_task *task, struct weir_batch **out, bool *ended, struct weir_error *err);
/* Whether the program works with what it was given while another thread takes the next batch: it will let go of it, so
 * the run waits for that rather than go beyond its budget. From any thread; at first it does not. */
void api_task_at_work(struct weir_task *task, bool at_work);
/* The thread waits for a task, by its descriptor, until the end. */
void api_wait_begin(void);
void api_wait_end(void);
/* Where the batch that was taken last comes from, in a flow with calls (backend/backend.h). By whoever took it. */
struct weir_place api_task_place(const struct weir_task *task);
/* Whether it is over, and how it ended. */
bool api_task_ended(struct weir_task *task, struct weir_error *err);
/* The doorbell: a descriptor that can be read exactly while there is a batch to take or the task has ended. Made by the
 * first call, the task's own; nobody but the task reads it. −1 with an error when there are no descriptors. */
int api_task_fd(struct weir_task *task, struct weir_error *err);
struct weir_account *api_task_account(const struct weir_task *task);
const struct weir_schema *api_task_schema(const struct weir_task *task);
struct api_keeper *api_task_keeper(struct weir_task *task);
/* After a task with API_END_BLOCKS has ended well: its blocks in order, borrowed from the task. */
/* The columns of a result without rows, where native steps behind a call made it; NULL: nobody knows. At the end. */
const struct weir_schema *api_task_columns(const struct weir_task *task);
struct weir_block *const *api_task_blocks(struct weir_task *task, size_t *count);
/* After a task has failed: what user code has to say about it. False: it was not user code. */
bool api_task_failure(struct weir_task *task, struct weir_failure *out);
bool api_task_left_out(struct weir_task *task,
		       struct weir_failure *out); /* one that the task went on without; false: no more */
/* Hands out what user code has printed since the last call. The doorbell rings for it too, until it was called. */
void api_task_prints(struct weir_task *task, void (*each)(void *state, const struct weir_run_print *line), void *state);
/* Of a stage of the run, from 0; its name, or NULL when there is none. */
const char *api_task_stage_stats(struct weir_task *task, uint32_t stage, struct weir_stage_stats *out);
/* Makes a view (observe/progress.h) one of the task, which outlives it. */
void api_task_view(struct weir_task *task, struct weir_progress_view *view);
/* Stops the run, joins its threads and drops what nobody took; the task is over then. Once; a second one waits for the
 * first. */
void api_task_stop(struct weir_task *task);
void api_task_unref(struct weir_task *task);

#endif
