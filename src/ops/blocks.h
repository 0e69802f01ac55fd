/* blocks: batches that lie in the store, as the source and the sink of native chains.
 *
 * Between the stages of a run lie chunks, each a batch with its own schema (arrow/block.h). The sink `chunks` makes
 * them of vectors and hands them to the backend; the source `blocks` makes vectors of them, and of batches that a
 * program gave or keeps. Both are made by programs and backends, not by words: their states are given to the node
 * before bind.
 */
#ifndef WEIR_OPS_BLOCKS_H
#define WEIR_OPS_BLOCKS_H

#include "arrow/block.h"
#include "store/store.h"
#include "ops/node.h"

/* Rows that are kept, readable any number of times: a chunk of the store, which may be spilled, or a batch in the
 * program's own memory. Immutable, counted; any thread. */
struct weir_block {
	_Atomic uint32_t refs;
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_chunk *chunk; /* or */
	struct weir_batch *batch;
	int64_t row_count;
	uint64_t bytes; /* that its rows take by themselves */
	/* of the run that made it: the split that its rows come of, and which of its chunks */
	uint32_t split, split_chunk;
	/* Who is told that it goes: before its chunk is let go, and after everything is freed. NULL: nobody. */
	void (*forget)(void *holder, struct weir_chunk *chunk);
	void (*release)(void *holder);
	void *holder;
};

/* Of a chunk: `batch` is what it holds. Each takes references of its own. */
int weir_block_of_chunk(struct weir_account *account, struct weir_chunk *chunk, const struct weir_batch *batch,
			struct weir_block **out, struct weir_error *err);
int weir_block_of_batch(struct weir_account *account, const struct weir_batch *batch, struct weir_block **out,
			struct weir_error *err);
struct weir_block *weir_block_ref(struct weir_block *block);
void weir_block_unref(struct weir_block *block); /* NULL is fine */
/* Its rows, in memory as long as the batch lives. */
int weir_block_batch(struct weir_account *account, struct weir_block *block, struct weir_batch **out,
		     struct weir_error *err);

/* On a node of the verb "blocks": the schema of its rows, and the blocks, each a split, or several where an exchange
 * follows and they are many and small. None: a backend opens batches of its
 * own as splits (weir_batch_split). Blocks whose schema is another are made to fit. */
int weir_blocks_set(struct weir_op_env *env, struct weir_node *node, const struct weir_schema *schema,
		    struct weir_block *const *blocks, size_t count, struct weir_error *err);
/* A split of that source that is not cut by it: `batch` has the node's schema and outlives the split. `origin` says in
 * messages where the rows are from, the first of them as number `row_first`; NULL: nobody knows. */
struct weir_batch_split {
	struct weir_block *block; /* NULL here */
	struct weir_batch *batch;
	const char *origin;
	int64_t row_first;
	struct weir_block *const *more; /* that follow in the same split, as many as */
	size_t more_count;              /* this; none here */
};

/* On a node of the verb "chunks". */
struct weir_chunks_options {
	struct weir_store *store;
	int64_t batch_rows;  /* chunks end on multiples of it, counted from the split's first row; 0: anywhere */
	int64_t chunk_bytes; /* about so large, but one batch always fits; 0: 8 MiB */
	/* > 0: one batch a chunk; without batch_rows, so many rows in a split's first chunks, then more */
	uint32_t fine;
	bool paced; /* with batch_rows: several batches where they take little time */
	/* the same of the run's first split, of which the last chunks are small, too; 0: as any other's */
	uint32_t fine_first;
};
void weir_chunks_set(struct weir_node *node, const struct weir_chunks_options *options);

#endif
