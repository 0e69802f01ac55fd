/* run: rows in order, as chunks of the store. Made by one lane out of one batch, read by any.
 *
 *     ┌─────────┬─────────┬─────────┬──
 *     │ chunk 0 │ chunk 1 │ chunk 2 │ …       each chunk a batch; the fence is the key of its first row
 *     └─────────┴─────────┴─────────┴──
 *       fence     fence     fence
 *
 * All runs of an exchange together may have so much in memory; a chunk that would be beyond it goes to disk at once, by the
 * lane that made it.
 */
#ifndef WEIR_OPS_EXCHANGE_RUN_H
#define WEIR_OPS_EXCHANGE_RUN_H

#include "base/list.h"
#include "store/store.h"
#include "ops/exchange/keys.h"

struct weir_run_chunk {
	struct weir_chunk *chunk;
	int64_t row_first, row_count; /* in the run */
	uint8_t *fence;
	uint32_t fence_size;
};

struct weir_run_space;

struct weir_sorted_run {
	struct weir_run_space *space;
	uint64_t split; /* whose rows these are */
	uint32_t part;  /* of that split */
	int64_t row_count;
	uint64_t bytes;
	struct weir_run_chunks WEIR_LIST(struct weir_run_chunk) chunks;
};

/* Where the runs of one exchange lie. */
struct weir_run_space {
	struct weir_account *account; /* the session's: runs outlive lanes */
	struct weir_store *store;
	int64_t resident_max;
	int64_t chunk_bytes;
	_Atomic int64_t resident; /* relaxed: a figure to stay below */
	_Atomic uint64_t spilled, read; /* relaxed: figures for stats: bytes written to disk, and read back */
};

/* The first `count` rows of a batch in the order of `rows`, whose keys are `keys`. Memory that is needed meanwhile comes from
 * `account`. */
int weir_sorted_run_new(struct weir_run_space *space, struct weir_account *account, const struct weir_batch *batch,
			const struct weir_key_list *keys, const uint32_t *rows, int64_t count,
			struct weir_sorted_run **out, struct weir_error *err);
void weir_sorted_run_free(struct weir_run_space *space, struct weir_sorted_run *run); /* NULL is fine */

#endif
