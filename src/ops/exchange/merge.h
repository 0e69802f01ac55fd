/* merge: runs become one stream of rows in order, or a part of it between two bounds.
 *
 * Rows are ordered by their key, then by split, part and place in their run: no two are alike, so any row is a bound,
 * also one in the middle of many with the same key. */
#ifndef WEIR_OPS_EXCHANGE_MERGE_H
#define WEIR_OPS_EXCHANGE_MERGE_H

#include "ops/exchange/run.h"

/* In front of a row. key NULL: no bound. */
struct weir_bound {
	const uint8_t *key;
	uint32_t key_size; /* WEIR_FENCE_BYTES at most, but of one that weir_merge_rank is asked about */
	uint64_t split;
	uint32_t part;
	int64_t row; /* in its run; −1: in front of all rows whose keys begin with `key`, and split and part are 0 */
	uint32_t mark; /* which of the runs' marks it is, counted from 1 on; 0: none of them */
};

/* Nobody will look at rows in front of `to` again; of those in front of `from` that was said before. NULL: of none. */
void weir_runs_forget(struct weir_sorted_run *const *runs, size_t count, const struct weir_bound *from,
		      const struct weir_bound *to);

struct weir_merge;
int weir_merge_new(struct weir_account *account, const struct weir_schema *schema,
		   const struct weir_key_columns *columns, struct weir_merge **out, struct weir_error *err);
/* The runs are borrowed until close. */
int weir_merge_open(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
		    const struct weir_bound *from, const struct weir_bound *to, struct weir_error *err);
/* row_count 0 at the end. What the vector points to stays until the next call. */
int weir_merge_next(struct weir_merge *merge, struct weir_vector *out, struct weir_error *err);
/* Where the next rows are a chunk of a run, all of it, that lies in memory: that, with a reference for the caller, who
 * counts it from now on; they do not come by next. *out NULL: they do. */
int weir_merge_next_chunk(struct weir_merge *merge, struct weir_chunk **out, int64_t *rows, struct weir_error *err);
/* Where all runs lie in memory as columns that are not nested: a block of the next rows, as large as those that leave a
 * lane, with its first columns, which are those of `schema`; they do not come by next. The caller, one of the run's
 * lanes, counts it. *out NULL: they do. */
int weir_merge_make_chunk(struct weir_merge *merge, const struct weir_schema *schema, uint32_t lane,
			  struct weir_chunk **out, int64_t *rows, struct weir_error *err);
/* How many rows of the runs are in front of the bound. Only while nothing is open. */
int weir_merge_rank(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
		    const struct weir_bound *bound, int64_t *out, struct weir_error *err);
void weir_merge_close(struct weir_merge *merge);
void weir_merge_free(struct weir_merge *merge);

#endif
