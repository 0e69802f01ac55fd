/* op: the tables behind which operators live. A lane runs   source ─▶ step ─▶ … ─▶ sink   for one split after another.
 *
 * Each table has two halves: functions of the whole run (whose state is made once from the plan, shared by lanes and
 * thread-safe), and functions of one lane (whose state is made by lane_new and kept from the first split to the last).
 *
 * Operators do not know the executor or threads. They take memory from their account. That may block, or fail with
 * WEIR_E_GIVE_UP: then they unwind and return that code, the lane calls split_abort of every operator, and the split is
 * redone.
 *
 * The source numbers splits in input order. Steps change the vector in place: its selection, its columns.
 */
#ifndef WEIR_OPS_OP_H
#define WEIR_OPS_OP_H

#include "vector/vector.h"
#include "io/file.h"
#include "format/format.h"

struct weir_chunk;
struct weir_op_counts;
struct weir_origin;

/* What a lane offers to its operators. */
struct weir_lane_context {
	struct weir_account *account; /* the lane's; operators make children of it */
	struct weir_io *io;
	uint32_t lane;
	const _Atomic bool *cancelled; /* to be checked in long loops */
	/* For sinks that must write in split order (one file, a pipe): blocks until every earlier split has ended, or
	 * returns WEIR_E_CANCELLED. is_turn only asks. */
	int (*wait_turn)(struct weir_lane_context *context, struct weir_error *err);
	bool (*is_turn)(struct weir_lane_context *context);
	/* A limit is satisfied: later splits are not needed. */
	void (*enough)(struct weir_lane_context *context);
	/* In runs of several stages: hands a sealed chunk to the next stage, and waits until the lane may go on.
	 * Consumes the reference, also on failure. The chunk's memory was charged to the lane's account, and no longer
	 * is. `origin`: NULL if not known. */
	int (*output)(struct weir_lane_context *context, struct weir_chunk *chunk, int64_t rows,
		      const struct weir_origin *origin, struct weir_error *err);
	/* When a split is redone: how many of its output rows have already been handed over. Called once, at the
	 * beginning of the split. */
	int (*rows_done)(struct weir_lane_context *context, int64_t *out, struct weir_error *err);
	/* Roughly how many rows the next stage handles in the shortest time that a task should take, as measured so
	 * far; 0: not known yet. NULL: it is not measured. */
	const _Atomic int64_t *pace_rows;
	void *backend; /* for those functions; copied along when an operator hands a context of its own to its inputs */
};

enum weir_progress {
	WEIR_HAVE_OUTPUT, /* the vector holds rows for the next step */
	WEIR_HAVE_MORE,   /* the same, and `drain` gives more before the next input */
	WEIR_NEED_INPUT,  /* no rows came of this input */
	WEIR_SPLIT_DONE,  /* the rest of this split is not needed (limit); the vector may hold its last rows */
};

struct weir_split_info {
	uint64_t number;
	/* after the first stage: its number in input order as text, for names of files; NULL: use `number` */
	const char *place;
	uint64_t bytes_est;  /* decoded */
	int64_t rows_est;    /* −1: unknown */
	uint64_t memory_est; /* what a lane needs at least while it runs it */
	bool is_counted;     /* `row_first` is known: so many rows of the source come before */
	uint64_t row_first;
	bool is_block; /* its rows are wanted as one piece, and are few enough for that */
};

struct weir_source_ops {
	const char *name;
	/* Cuts the next split off the input. Called under the run's source lock, in order; *done at the end. */
	int (*split_next)(void *source, struct weir_split_info *out, void **split, bool *done, struct weir_error *err);
	/* Whether split_next may wait for the program or for another run. Then it is called without the lock, but still
	 * in order, and splits may be opened and freed meanwhile. NULL: it never waits. */
	bool (*waits)(const void *source);
	void (*split_free)(void *source, void *split);
	int (*lane_new)(void *source, struct weir_lane_context *context, void **lane, struct weir_error *err);
	int (*split_open)(void *lane, void *split, struct weir_error *err);
	/* row_count 0: the split is at its end */
	int (*next)(void *lane, struct weir_vector *out, struct weir_error *err);
	/* If the next rows are a whole block in the store, with the source's own schema: *chunk is that block, with a
	 * reference for the caller, and `next` skips these rows. *chunk NULL: they come by `next`. NULL: the source has
	 * no blocks. */
	int (*next_chunk)(void *lane, struct weir_chunk **chunk, int64_t *rows, struct weir_error *err);
	/* Called when every earlier split has ended, before anything of this split leaves the lane, and once more after
	 * its last row. WEIR_E_AGAIN: the split was read from a wrong place; what was made of it is dropped, and it is
	 * opened again. `failure`, when not NULL, is the error that ended the split; if the split was read from the
	 * right place, the position in that error is completed (lines are counted from the file's beginning). NULL:
	 * splits need no confirmation. */
	int (*confirm)(void *lane, struct weir_error *failure, struct weir_error *err);
	/* Whether confirm has to be called: the open split began with a guess, or its error lacks a position. */
	bool (*needs_confirm)(void *lane);
	void (*split_abort)(void *lane);
	void (*lane_free)(void *lane);
	/* The first `count` splits have ended successfully. They are opened again only if their results came back
	 * changed from disk; the source may refuse that. Called under the run's source lock. NULL: not interested. */
	void (*splits_over)(void *source, uint64_t count);
	/* For a fragment that has to run before another, called before it is run. False: there is nothing to do, and
	 * neither the source nor its sink is called at all. NULL: it is always run. */
	bool (*is_needed)(const void *source);
	/* For a source that runs a chain of its own in the lane: what the operators of that chain did, in their order.
	 * Returns how many there are, at most `capacity`. NULL: none. (fragment.h) */
	uint32_t (*counts)(const void *lane, struct weir_op_counts *out, uint32_t capacity);
	/* Called before the first split is cut, if later operators keep something for each split: then a few large
	 * splits are better than many small ones, as long as there are enough for all lanes. NULL: splits stay as they
	 * are. */
	void (*splits_join)(void *source);
	/* How many rows of the input have been skipped unread so far, since they were proven not to be needed. Any
	 * thread. NULL: none. */
	uint64_t (*rows_pruned)(const void *source);
	void (*free)(void *source);
};

static inline bool weir_source_waits(const struct weir_source_ops *ops, const void *source)
{
	return ops->waits && ops->waits(source);
}

struct weir_step_ops {
	const char *name;
	int (*lane_new)(void *step, struct weir_lane_context *context, void **lane, struct weir_error *err);
	/* NULL: nothing to do */
	int (*split_begin)(void *lane, const struct weir_split_info *split, struct weir_error *err);
	int (*push)(void *lane, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err);
	/* Gives rows that the step kept back. Called after HAVE_MORE, and at the end of a split, until it reports
	 * NEED_INPUT. NULL: it keeps none. */
	int (*drain)(void *lane, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err);
	void (*lane_free)(void *lane);
	void (*free)(void *step);
};

/* What an exchange (exchange/) has done so far, for stats. */
struct weir_exchange_counts {
	const char *name;                   /* the verb */
	uint64_t rows, bytes;               /* kept between its two halves, in memory and on disk */
	uint64_t bytes_spilled, bytes_read; /* written to disk and read back from there */
	uint64_t runs;                      /* sorted runs that were made; 0: it makes none */
	/* ranges of the order or of the hash, and the rows of the largest; 0: not known yet */
	uint64_t partitions, rows_max;
	uint32_t depth; /* how often a row is moved again after the first time, by merging or by partitioning */
};

struct weir_sink_ops {
	const char *name;
	int (*lane_new)(void *sink, struct weir_lane_context *context, void **lane, struct weir_error *err);
	int (*split_begin)(void *lane, const struct weir_split_info *split, struct weir_error *err);
	int (*push)(void *lane, struct weir_vector *vector, struct weir_error *err);
	/* Takes a block in the store as it is, whose rows have the sink's schema. Consumes the reference, also on
	 * failure. Called only if takes_chunks agrees at that moment. NULL, both: rows come as vectors. */
	bool (*takes_chunks)(const void *lane);
	int (*push_chunk)(void *lane, struct weir_chunk *chunk, int64_t rows, struct weir_error *err);
	/* The split's rows are safe with the sink (not yet visible outside). */
	int (*split_end)(void *lane, struct weir_error *err);
	void (*split_abort)(void *lane); /* nothing of this split may ever become visible */
	void (*lane_free)(void *lane);
	int (*commit)(void *sink, struct weir_error *err); /* once, after the last lane is gone */
	/* True: rows with another schema begin another file, so rows whose schemas can be made equal should come that
	 * way. NULL: no. */
	bool (*by_schema)(const void *sink);
	void (*free)(void *sink); /* without commit: abort */
	/* For the sink of an exchange: what the whole exchange has done, not only this half of it. Any thread, at any
	 * time. False: another sink reports it. NULL: this is not the sink of an exchange. */
	bool (*exchange_counts)(const void *sink, struct weir_exchange_counts *out);
};

/* Lanes call sources and steps through ops/chain.c, which counts their rows and time, and the sink by themselves
 * (backend/local/lane.c). */

#endif
