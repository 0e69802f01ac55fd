/* What the halves of an ordered exchange have in common (ordered.c): ordered_runs.c makes runs, steps.c runs of runs,
 * ordered_ranges.c merges them. */
#ifndef WEIR_OPS_EXCHANGE_ORDERED_IMPL_H
#define WEIR_OPS_EXCHANGE_ORDERED_IMPL_H

#include "ops/exchange/merge.h"
#include "ops/exchange/ordered.h"

#include <pthread.h>

enum {
	PART_KEY_BYTES = 9, /* of a uint64 that is not null (keys.h) */
	LARGE_TIMES = 3,    /* a large row is read, gathered and on its way to what follows */
	RANGE_BYTES_MIN = 4 << 20,
	RANGE_BYTES_MAX = 128 << 20,
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
	/* of a random order: its rows come as the source has them, so that their numbers there are known */
	bool counts_rows;
	uint64_t seed;
	const char *name;
	/* relaxed: figures for stats */
	_Atomic uint64_t kept_runs, kept_rows, kept_bytes, ranges, range_rows_max;
	_Atomic uint32_t depth;
	bool keeps_groups;
	uint32_t group_key_count;
	int64_t part_count, part_rows;
	int64_t range_bytes_max; /* where runs are on disk */
	int64_t marked_bytes;    /* of a range, where ranges begin at marks */
	uint64_t whole_bytes;    /* of all rows: up to here a range that somebody asked for comes in one piece */
	uint8_t *part_keys;      /* of bounds: PART_KEY_BYTES each */
	pthread_mutex_t lock;    /* guards what follows, while runs are made; rank: alone */
	struct WEIR_LIST(struct weir_sorted_run *) runs;
	/* No row with a key above this one is among the first `limit`. */
	uint8_t *cutoff;
	uint32_t cutoff_size;
	_Atomic uint32_t cutoff_version; /* relaxed: a lane that sees it late keeps rows that it need not */
	/* Steps: neighbours among the runs that become one before the ranges are cut. Made when it is asked whether
	 * there are any. */
	struct WEIR_LIST(struct weir_ordered_step) steps;
	uint64_t merge_bytes; /* what a lane may have open while it merges */
	/* Ranges: bounds[i] is where range i + 1 begins. Made by the first split_next. */
	bool is_cut;
	struct WEIR_LIST(struct weir_bound) bounds;
	uint64_t bytes, open_bytes;
	int64_t rows;
	/* How many of the ranges, from the first, are over, and of how many the runs have let go. relaxed: whoever sees
	 * it late lets go later; one lane at a time does it, up to `dropped`. */
	_Atomic uint64_t over, dropped;
	_Atomic bool is_dropping;
	bool is_asked; /* about rows that have left (rank) */
};

/* All rows come out, as they came, and may be cut anywhere. */
static inline bool weir_ordered_is_plain(const struct weir_ordered *state)
{
	return state->space.has_marks && !state->is_random;
}

static inline int64_t between(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

struct weir_ordered *weir_ordered_ref(struct weir_ordered *state);
/* Figures of all of it, for its sinks. */
bool weir_ordered_counts(const void *state, struct weir_exchange_counts *out);

/* ordered_runs.c: the sink that makes runs, which has a reference to the state. */
extern const struct weir_sink_ops weir_ordered_runs_ops;

/* ordered_ranges.c: the source that merges them. */
extern const struct weir_source_ops weir_ordered_ranges_ops;
int weir_ordered_ranges_new(struct weir_ordered *state, void **out, struct weir_error *err);

/* steps.c: cuts the chain behind the runs' sink, and again in front of the ranges' source, which is taken over, on
 * failure too: lanes in between merge neighbouring runs where there are too many of them. */
int weir_ordered_cut_steps(struct weir_ordered *state, const struct weir_schema *schema, void *ranges,
			   struct weir_fragment *fragment, struct weir_error *err);
/* Puts what steps made in the place of what they were made of. */
void weir_ordered_settle_steps(struct weir_ordered *state);

#endif
