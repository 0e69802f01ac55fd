/* block: one batch as bytes that say themselves what they are. Such bytes lie between the stages of a run, in workers
 * and in spill files.
 *
 *     0             64 × n
 *     ┌─────────────┬──────────────┬───┬──────────────────────────────┐
 *     │ schema      │ dictionary 1 │ … │ record batch: a chunk, ipc.h │      each message on a 64-byte boundary
 *     └─────────────┴──────────────┴───┴──────────────────────────────┘
 *
 * It is an Arrow stream of one batch without its end mark, which a stream may lack: any Arrow library reads it. A
 * dictionary inside another's values comes before it. All dictionaries of the batch are there, so that a block needs no
 * other.
 */
#ifndef WEIR_ARROW_BLOCK_H
#define WEIR_ARROW_BLOCK_H

#include "arrow/array.h"
#include "arrow/ipc.h"

/* Two steps, so that a block is written once, straight into its place: measure, then write into `size` bytes. */
struct weir_block_plan {
	uint64_t size; /* of the whole block, a multiple of 64 */
	uint64_t schema_size;
	uint64_t dictionaries_size;
	uint64_t batch_size;
	struct weir_large_buffer large; /* of the record batch; its offset is that in the block */
};
int weir_block_measure(const struct weir_batch *batch, struct weir_block_plan *out, struct weir_error *err);
int weir_block_write(const struct weir_batch *batch, const struct weir_block_plan *plan, uint8_t *out,
		     struct weir_error *err);

/* Where in a block of the batch the values of each column begin; of strings, their bytes. Columns are whole, not
 * slices, and not nested, but for lists of one length. `offsets`, if it is not NULL: where those of strings begin. What
 * lies there already when the block is written is not copied. */
void weir_block_places(const struct weir_batch *batch, const struct weir_block_plan *plan, uint64_t *places,
		       uint64_t *offsets);

/* A block whose rows are written into it before it is one: rows of `schema` where each column has as many bytes in
 * every row (FIXED layouts, lists of one length of them) and none is null. `places` gets, for each column, where in the
 * block its values lie if there are `rows` of them; plan, what all of it takes. When at most so many have been put
 * there, weir_block_write over arrays of those places makes a block of it, moving what has to lie closer. The schema
 * must qualify. */
int weir_block_frame(struct weir_account *account, const struct weir_schema *schema, int64_t rows,
		     struct weir_block_plan *plan, uint64_t *places, struct weir_error *err);

/* The last schema that was read, as bytes and as an object: blocks that follow each other with equal schemas share it,
 * and only the first of them is parsed. All-zero is empty. One thread at a time. */
struct weir_block_schema;
struct weir_block_cache {
	struct weir_account *account; /* that schemas are made of, which may outlive batches; NULL: the batches' own */
	struct weir_block_schema *last;
};
void weir_block_cache_release(struct weir_block_cache *cache);

/* The batch over the block's own bytes (64-byte aligned); `owner` is referenced by each array, NULL: the bytes outlive
 * them. Everything that would lead outside the bytes is checked in any case; `deep` also checks the contents (offsets
 * between the first and the last, codes, UTF-8), for bytes from a process that is not trusted. */
int weir_block_open(struct weir_account *account, struct weir_block_cache *cache, const uint8_t *bytes, uint64_t size,
		    struct weir_owner *owner, bool deep, struct weir_batch **out, struct weir_error *err);

#endif
