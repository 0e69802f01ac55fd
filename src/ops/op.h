/* op: the tables behind which operators live. A lane runs   source ─▶ step ─▶ … ─▶ sink   for one split after another.
 *
 * Each table has two halves: what belongs to the whole run (made once from the plan, shared by lanes, thread-safe) and
 * what belongs to one lane (`*_lane`, made once, kept from the first split to the last). Operators know no executor and
 * no threads: they get memory from their account (which may block or answer WEIR_E_GIVE_UP: unwind and return it; the
 * lane then calls split_abort everywhere and the split is redone), and return.
 *
 * A split is numbered by the source in input order. Steps change the vector in place: selection, columns.
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
	const _Atomic bool *cancelled; /* look at it in long loops */
	/* Sinks that must write in split order (one file, a pipe): blocks until every earlier split has ended, or
	 * returns WEIR_E_CANCELLED. is_turn only looks. */
	int (*wait_turn)(struct weir_lane_context *context, struct weir_error *err);
	bool (*is_turn)(struct weir_lane_context *context);
	/* A limit is satisfied: later splits are not wanted. */
	void (*enough)(struct weir_lane_context *context);
	/* In runs of several stages: hands a sealed chunk to the next stage, and waits until the lane may go on. Takes
	 * the reference over, on failure too. What the chunk takes has been charged to the lane's account, and is no
	 * more. `origin`: NULL where nobody knows. */
	int (*output)(struct weir_lane_context *context, struct weir_chunk *chunk, int64_t rows,
		      const struct weir_origin *origin, struct weir_error *err);
	/* When a split is redone: how many rows of what it puts out were handed over before. Once, at its beginning. */
	int (*rows_done)(struct weir_lane_context *context, int64_t *out, struct weir_error *err);
	/* About how many of the rows the next stage handles in the time that a task should take at least, as measured
	 * so far; 0: not known yet. NULL: nobody measures. */
	const _Atomic int64_t *pace_rows;
	void *backend; /* for those functions; copied along when an operator hands a context of its own to its inputs */
};

enum weir_progress {
	WEIR_HAVE_OUTPUT, /* the vector holds rows for the next step */
	WEIR_HAVE_MORE,   /* the same, and `drain` gives more before the next input */
	WEIR_NEED_INPUT,  /* nothing came of it */
	WEIR_SPLIT_DONE,  /* the rest of this split is not wanted (limit); the vector may hold its last rows */
};

struct weir_split_info {
	uint64_t number;
	/* behind the first stage: its number in input order as text, for names; NULL: `number` is it */
	const char *place;
	uint64_t bytes_est;  /* decoded */
	int64_t rows_est;    /* −1: unknown */
	uint64_t memory_est; /* what a lane needs at least while it runs it */
	bool is_counted;     /* `row_first` is known: so many rows of the source come before */
	uint64_t row_first;
	bool is_block; /* somebody asked for its rows as one piece, which it is small enough to be */
};

struct weir_source_ops {
	const char *name;
	/* Cuts the next split off the input. Called under the run's source lock, in order; *done at the end. */
	int (*split_next)(void *source, struct weir_split_info *out, void **split, bool *done, struct weir_error *err);
	/* Whether split_next may wait for somebody else: the program, or another run. Then it is called without the
	 * lock, in order all the same; splits are opened and freed meanwhile. NULL: it never waits. */
	bool (*waits)(const void *source);
	void (*split_free)(void *source, void *split);
	int (*lane_new)(void *source, struct weir_lane_context *context, void **lane, struct weir_error *err);
	int (*split_open)(void *lane, void *split, struct weir_error *err);
	/* row_count 0: the split is at its end */
	int (*next)(void *lane, struct weir_vector *out, struct weir_error *err);
	/* Where the next rows are a whole block in the store, of the source's own schema: that, with a reference for
	 * the caller, and they do not come by `next`. *chunk NULL: they do. NULL: it has none. */
	int (*next_chunk)(void *lane, struct weir_chunk **chunk, int64_t *rows, struct weir_error *err);
	/* Called when every earlier split has ended, before anything of this split leaves the lane and once more after
	 * its last row: WEIR_E_AGAIN when the split was read from a place that turned out wrong (it is then opened
	 * again, and what was made of it is dropped). `failure`, when not NULL, is the error that ended the split: if
	 * the split stands, its place is completed (lines are counted from the file's beginning). NULL: a split needs
	 * no confirming. */
	int (*confirm)(void *lane, struct weir_error *failure, struct weir_error *err);
	/* Whether the open split began at a guess, or its failure lacks a place: then confirm has to be called. */
	bool (*needs_confirm)(void *lane);
	void (*split_abort)(void *lane);
	void (*lane_free)(void *lane);
	/* The first so many splits have ended well. They are opened again only where what was made of them came back
	 * changed from disk, and may be refused then. Called under the run's source lock. NULL: nobody needs to
	 * know. */
	void (*splits_over)(void *source, uint64_t count);
	/* Asked before its fragment is run as one that has to be run before another: false: there is nothing to do, and
	 * neither it nor its sink is called at all. NULL: it is run. */
	bool (*is_needed)(const void *source);
	/* What operators in front of it did, where it runs a chain of its own in the lane, in the order of that;
	 * returns how many, `capacity` at most. NULL: none. (fragment.h) */
	uint32_t (*counts)(const void *lane, struct weir_op_counts *out, uint32_t capacity);
	/* Before the first split is cut: what follows keeps something for each split, and few large ones are better
	 * than many small ones, as far as lanes have enough to share. NULL: they stay as they are. */
	void (*splits_join)(void *source);
	/* Rows of the input that were proven not to be wanted without being read, so far. Any thread. NULL: none. */
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
	/* After HAVE_MORE, and at the end of a split, until it reports NEED_INPUT: rows kept back. NULL: keeps none. */
	int (*drain)(void *lane, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err);
	void (*lane_free)(void *lane);
	void (*free)(void *step);
};

/* What an exchange (exchange/) did so far, for stats. */
struct weir_exchange_counts {
	const char *name;                   /* the verb */
	uint64_t rows, bytes;               /* kept between its two halves, in memory and on disk */
	uint64_t bytes_spilled, bytes_read; /* written to disk and read back from there */
	uint64_t runs;                      /* sorted runs that were made; 0: it makes none */
	/* ranges of the order or of the hash, and the rows of the largest; 0: not known yet */
	uint64_t partitions, rows_max;
	uint32_t depth; /* how often a row is moved beyond the first time: steps of merging, or of partitioning again */
};

struct weir_sink_ops {
	const char *name;
	int (*lane_new)(void *sink, struct weir_lane_context *context, void **lane, struct weir_error *err);
	int (*split_begin)(void *lane, const struct weir_split_info *split, struct weir_error *err);
	int (*push)(void *lane, struct weir_vector *vector, struct weir_error *err);
	/* A block in the store is taken as it is, with its reference, on failure too; it holds rows of the sink's
	 * schema. Only where takes_chunks says that it would do now. NULL, both: rows come as vectors. */
	bool (*takes_chunks)(const void *lane);
	int (*push_chunk)(void *lane, struct weir_chunk *chunk, int64_t rows, struct weir_error *err);
	/* The split's rows are safe with the sink (not yet visible outside). */
	int (*split_end)(void *lane, struct weir_error *err);
	void (*split_abort)(void *lane); /* nothing of this split may ever become visible */
	void (*lane_free)(void *lane);
	int (*commit)(void *sink, struct weir_error *err); /* once, after the last lane is gone */
	/* Rows of another schema begin another file: those that can be alike should come so. NULL: no. */
	bool (*by_schema)(const void *sink);
	void (*free)(void *sink); /* without commit: abort */
	/* The sink of an exchange: what the exchange, not only this half of it, has done. Any thread, at any time.
	 * False: another sink speaks for it. NULL: it is none. */
	bool (*exchange_counts)(const void *sink, struct weir_exchange_counts *out);
};

/* One wrapper each, counting and checking the contract, is in backend/local/lane.c. */

#endif
