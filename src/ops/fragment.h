/* fragment: a chain of native operators ready to run: one source, steps, at most one sink. Built from a plan's nodes by
 * their `build`; run by a backend in as many lanes as it likes.
 *
 * An exchange (exchange/) needs all rows before it gives the first, so it cuts the chain. The part before it becomes a
 * fragment of its own, which ends in the exchange's sink and has to run to its end first; the chain then goes on with
 * the exchange's source:
 *
 *     read ─▶ filter ─▶ [sort's sink]        before
 *                        [sort's source] ─▶ select ─▶ write */
#ifndef WEIR_OPS_FRAGMENT_H
#define WEIR_OPS_FRAGMENT_H

#include "base/list.h"
#include "ops/op.h"

struct weir_fragment_step {
	const struct weir_step_ops *ops;
	void *state;
};

/* All-zero with an account is empty. */
struct weir_fragment {
	struct weir_account *account;
	const struct weir_source_ops *source_ops;
	void *source;
	struct WEIR_LIST(struct weir_fragment_step) steps;
	const struct weir_sink_ops *sink_ops;
	void *sink;
	struct weir_schema *schema; /* of the vectors that reach the sink; a reference */
	bool ordered;               /* the sink writes in split order */
	bool held;                  /* the sink shows nothing before its commit, so a run may start over */
	uint32_t lanes_max;         /* 0: any; 1 if the first split will probably do */
	int64_t outside_bytes;      /* what the sink may keep outside of the lanes' grants */
	bool lanes_strict;          /* more lanes would be wrong, not only useless */
	/* the least memory that a lane needs, if that is much: no more lanes are used than it leaves room for */
	int64_t lane_bytes;
	struct weir_fragment *before; /* those to be run to their end first, in order, linked by `next`; owned */
	struct weir_fragment *next;
};

void weir_fragment_init(struct weir_fragment *fragment, struct weir_account *account);
/* Each consumes the state, also on failure. */
int weir_fragment_source(struct weir_fragment *fragment, const struct weir_source_ops *ops, void *state);
int weir_fragment_step(struct weir_fragment *fragment, const struct weir_step_ops *ops, void *state,
		       struct weir_error *err);
int weir_fragment_sink(struct weir_fragment *fragment, const struct weir_sink_ops *ops, void *state);
/* A step that only so many lanes may run at the same time. */
void weir_fragment_limit_lanes(struct weir_fragment *fragment, uint32_t lanes_max);
/* Ends the chain so far, whose rows have this schema, in a sink, and begins a new one after it. Consumes both states,
 * also on failure. */
int weir_fragment_cut(struct weir_fragment *fragment, const struct weir_schema *schema,
		      const struct weir_sink_ops *sink_ops, void *sink, const struct weir_source_ops *source_ops,
		      void *source, struct weir_error *err);
/* `before` has a sink, and its rows have this schema. It will run to its end before `fragment` begins, after others
 * that were added before. It is moved, and stays where *out says; consumed, also on failure. */
int weir_fragment_before(struct weir_fragment *fragment, const struct weir_schema *schema, struct weir_fragment *before,
			 struct weir_fragment **out, struct weir_error *err);
/* Fragments that must run before `from`, a part of `fragment`, must run before `fragment` too. */
void weir_fragment_after(struct weir_fragment *fragment, struct weir_fragment *from);
/* It will not run any more: frees what exchanges keep. Sink and schema stay. */
void weir_fragment_end(struct weir_fragment *fragment);
void weir_fragment_release(struct weir_fragment *fragment); /* a sink that was not committed aborts */

/* The chain inside one lane, without the sink: source and steps as one thing that gives vectors. Used by lanes and by
 * operators with several inputs. */
struct weir_chain;
int weir_chain_new(const struct weir_fragment *fragment, struct weir_lane_context *context, struct weir_chain **out,
		   struct weir_error *err);
int weir_chain_open(struct weir_chain *chain, const struct weir_split_info *info, void *split, struct weir_error *err);
/* row_count 0 at the end of the split. Vectors have at least one selected row. */
int weir_chain_next(struct weir_chain *chain, struct weir_vector *out, struct weir_error *err);
/* The next rows as a block in the store, if the source has one and no step follows it; *chunk NULL: they come by
 * next. */
int weir_chain_next_chunk(struct weir_chain *chain, struct weir_chunk **chunk, int64_t *rows, struct weir_error *err);
/* Like the source's confirm (op.h); WEIR_OK if it has none. needs_confirm: whether a split may need it at all. */
int weir_chain_confirm(struct weir_chain *chain, struct weir_error *failure, struct weir_error *err);
bool weir_chain_needs_confirm(const struct weir_chain *chain);
void weir_chain_abort(struct weir_chain *chain);
void weir_chain_free(struct weir_chain *chain);

/* Per operator, summed over the splits that were not aborted; for stats. index 0: the source, then the steps. */
struct weir_op_counts {
	const char *name;
	uint64_t rows_out, vectors, time_ns;
};
uint32_t weir_chain_counts(const struct weir_chain *chain, struct weir_op_counts *out, uint32_t capacity);

#endif
