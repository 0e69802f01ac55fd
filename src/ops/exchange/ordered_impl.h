/* What the halves of an ordered exchange have in common: ordered.c (runs, ranges) and steps.c (runs of runs). */
#ifndef WEIR_OPS_EXCHANGE_ORDERED_IMPL_H
#define WEIR_OPS_EXCHANGE_ORDERED_IMPL_H

#include "ops/exchange/merge.h"
#include "ops/exchange/ordered.h"

#include <pthread.h>

enum {
	PART_KEY_BYTES = 9, /* of a uint64 that is not null (keys.h) */
	LARGE_TIMES = 3,    /* a large row is read, gathered and on its way to what follows */
};

/* Runs first … first + count − 1 in the order of splits, and what they became; NULL: not yet. */
struct weir_ordered_step {
	size_t first, count;
	struct weir_sorted_run *run;
};

struct weir_ordered {
	_Atomic uint32_t refs;
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_key_columns columns;
	struct weir_key *keys;
	struct weir_run_space space;
	int64_t run_bytes;
	uint32_t threads;
	int64_t limit;
	bool is_random;
	bool counts_rows; /* of a random order: its rows come as the source has them, so that their numbers there are known */
	uint64_t seed;
	const char *name;
	/* relaxed: figures for stats */
	_Atomic uint64_t kept_runs, kept_rows, kept_bytes, ranges, range_rows_max;
	_Atomic uint32_t depth;
	bool keeps_groups;
	uint32_t group_key_count;
	int64_t part_count, part_rows;
	int64_t range_bytes_max; /* where runs are on disk */
	int64_t marked_bytes; /* of a range, where ranges begin at marks */
	uint64_t whole_bytes; /* of all rows: up to here a range that somebody asked for comes in one piece */
	uint8_t *part_keys; /* of bounds: PART_KEY_BYTES each */
	pthread_mutex_t lock; /* guards what follows, while runs are made; rank: alone */
	struct WEIR_LIST(struct weir_sorted_run *) runs;
	/* No row with a key above this one is among the first `limit`. */
	uint8_t *cutoff;
	uint32_t cutoff_size;
	_Atomic uint32_t cutoff_version; /* relaxed: a lane that sees it late keeps rows that it need not */
	/* Steps: neighbours among the runs that become one before the ranges are cut. Made when it is asked whether there are any. */
	struct WEIR_LIST(struct weir_ordered_step) steps;
	uint64_t merge_bytes; /* what a lane may have open while it merges */
	/* Ranges: bounds[i] is where range i + 1 begins. Made by the first split_next. */
	bool is_cut;
	struct WEIR_LIST(struct weir_bound) bounds;
	uint64_t bytes, open_bytes;
	int64_t rows;
	/* How many of the ranges, from the first, are over, and of how many the runs have let go. relaxed: whoever sees it late lets
	 * go later; one lane at a time does it, up to `dropped`. */
	_Atomic uint64_t over, dropped;
	_Atomic bool is_dropping;
	bool is_asked; /* about rows that have left (rank) */
};

/* All rows come out, as they came, and may be cut anywhere. */
static inline bool weir_ordered_is_plain(const struct weir_ordered *state)
{
	return state->space.has_marks && !state->is_random;
}

struct weir_ordered *weir_ordered_ref(struct weir_ordered *state);

/* steps.c: cuts the chain behind the runs' sink, and again in front of the ranges' source, which is taken over, on failure too:
 * lanes in between merge neighbouring runs where there are too many of them. */
int weir_ordered_cut_steps(struct weir_ordered *state, const struct weir_schema *schema, const struct weir_sink_ops *runs_ops,
			   const struct weir_source_ops *ranges_ops, void *ranges, struct weir_fragment *fragment,
			   struct weir_error *err);
/* Puts what steps made in the place of what they were made of. */
void weir_ordered_settle_steps(struct weir_ordered *state);

#endif
