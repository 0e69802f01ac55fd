/* run: rows in order. Made by one lane out of one batch, read by any.
 *
 * Where there is room a run lies in memory of the process. If its rows came nearly in order, or are wide, they stay as
 * they were gathered, with their order beside them: payload moves once, when it is merged, or never. Otherwise they are
 * moved, column by column, while the batch is in the cache: a merge that reads a few bytes at a time at random from all
 * of memory is slower than one more copy. Where there is no room a run is cut into chunks of the store, whose rows lie
 * in order, which go to disk where they are too many; so it is where values are in dictionaries, which the rows of a
 * batch share.
 *
 *     as gathered:  batch, order: 3 0 2 1 …      in chunks:  ┌─────────┬─────────┬─────────┬──
 *                   keys in order                            │ chunk 0 │ chunk 1 │ chunk 2 │ …
 *                                                            └─────────┴─────────┴─────────┴──
 *
 * Rows that are in order as they come are chunks, too, as large as those that leave a lane: where nothing else comes
 * between, they go to what follows as they are.
 *
 * All are seen as chunks with a fence each, the key of the chunk's first row; those of a run that lies are only places
 * in it. Of a long key a fence has the beginning, and so has a bound: whether a row is before that does not depend on
 * what comes behind it. A row that is larger than a chunk is one by itself. Of such a run a merge needs nothing but the
 * fence until the row's turn has come. All runs of an exchange together may have so much in memory; a chunk that would
 * be beyond it goes to disk, by the lane that made it, together with those that follow it: of what is written half a
 * megabyte at a time the page cache makes large pieces, which cost the system a third of what chunks of ten pages do,
 * to write, to read and to forget. (Pages of the process cost the kernel two thirds of what the store's shared ones
 * do.)
 */
#ifndef WEIR_OPS_EXCHANGE_RUN_H
#define WEIR_OPS_EXCHANGE_RUN_H

#include "base/list.h"
#include "store/store.h"
#include "ops/exchange/keys.h"
#include "ops/exchange/numbers.h"

enum {
	WEIR_FENCE_BYTES = 1 << 10,       /* of a key, that fences, marks and bounds have at most */
	WEIR_LARGE_ROW_BYTES = 128 << 10, /* in chunks: one of these is open at a time */
};

/* It may be the beginning of a key, not all of it. */
static inline bool weir_fence_is_cut(uint32_t size)
{
	return size == WEIR_FENCE_BYTES;
}

static inline uint32_t weir_fence_bytes(uint32_t key_size)
{
	return key_size < WEIR_FENCE_BYTES ? key_size : WEIR_FENCE_BYTES;
}

struct weir_run_chunk {
	struct weir_chunk *chunk;      /* a block; NULL: it is on disk, packed, or the run lies */
	struct weir_spool_place place; /* on disk */
	uint64_t size;                 /* of its block */
	int64_t row_first, row_count;  /* in the run */
	const uint8_t *fence;          /* owned by the chunk, or one of the run's keys where it has them */
	uint32_t fence_size;
	uint32_t key_size; /* of the whole key, where the fence is cut; and its hash, by which equal ones are known */
	uint64_t key_hash;
	uint32_t mark; /* all its rows are before that one, which is counted from 1 on; 0: not known */
	bool is_given; /* what follows has it, too, and it counts there */
	bool is_bare;  /* its last column was not written: it is made of `repeats`, or of what the run has drawn */
	struct weir_repeats repeats;
};

/* Keys at which chunks of all runs end, as far as that is known before there are more runs than one: where a range
 * begins at one of them, no chunk is in two ranges, and none is read twice. */
enum { WEIR_RUN_MARKS = 127 };

struct weir_run_marks {
	uint32_t count, size;
	uint32_t ends[WEIR_RUN_MARKS]; /* in `bytes` */
	uint8_t bytes[];
};

void weir_run_marks_free(struct weir_account *account, struct weir_run_marks *marks); /* NULL is fine */
const uint8_t *weir_run_mark(const struct weir_run_marks *marks, uint32_t number, uint32_t *size);

/* Where the runs of one exchange lie. */
struct weir_run_space {
	struct weir_account *account; /* the session's: runs outlive lanes */
	struct weir_store *store;
	int64_t resident_max;
	int64_t chunk_bytes;
	uint32_t column_count; /* children of columns included */
	int64_t lying_bytes;   /* about how large a run may become that lies as it was gathered; 0: none may */
	/* Rows' columns without the last, which has numbers that need not be written (numbers.h); NULL: there are
	 * none. */
	struct weir_schema *bare;
	bool repeats;   /* its numbers repeat, and are what keys begin with; else they were drawn */
	bool has_marks; /* ranges may begin at any key */
	/* once there is a run to take them from; owned by whoever has the space */
	struct weir_run_marks *_Atomic marks;
	_Atomic int64_t resident;       /* relaxed: a figure to stay below */
	_Atomic uint64_t spilled, read; /* relaxed: figures for stats: bytes written to disk, and read back */
};

struct weir_sorted_run {
	struct weir_run_space *space;
	uint64_t split; /* whose rows these are */
	uint32_t part;  /* of that split */
	int64_t row_count;
	uint64_t bytes;
	uint8_t *last; /* the key of its last row */
	uint32_t last_size;
	struct weir_run_chunks WEIR_LIST(struct weir_run_chunk) chunks;
	struct weir_spool spool; /* of those that are on disk */
	size_t footprint_max;    /* of those, but for large rows */
	size_t large_max;        /* of large rows */
	/* blocks of its last chunks, each of whole pages, that go to disk together; NULL: there are none */
	uint8_t *unwritten;
	size_t unwritten_max, unwritten_size, unwritten_count;
	struct weir_drawn *drawn; /* NULL: numbers were not drawn, or are written */
	/* Where it lies: */
	struct weir_account account; /* of all that follows, and of the batch while it is gathered */
	int64_t reserved;            /* of the space's resident bytes; 0: it does not lie */
	struct weir_batch *batch;
	uint32_t *order; /* row i is row order[i] of the batch; NULL: row i */
	/* only where there is `order`; other runs are asked for theirs when they are merged */
	struct weir_key_list keys;
};

/* How large its chunks are, where a run has so many bytes, and a merge so much memory. */
void weir_run_space_measure(struct weir_run_space *space, const struct weir_schema *schema, int64_t run_bytes,
			    int64_t merge_bytes);

/* How many of so many rows and bytes make a chunk, if all rows were alike. */
int64_t weir_run_chunk_rows(const struct weir_run_space *space, uint64_t bytes, int64_t row_count);

/* A run with room to lie, whose rows are to be gathered in memory of run->account; *out NULL: there is no room. */
int weir_run_lie(struct weir_run_space *space, struct weir_sorted_run **out, struct weir_error *err);
/* Its rows are those of the batch in the order of `rows`, which are as many. The batch is of run->account's memory.
 * Where it lacks the last column of `schema`, that is made of the keys. */
int weir_run_settle(struct weir_sorted_run *run, struct weir_batch *batch, const struct weir_key_list *keys,
		    const uint32_t *rows, const struct weir_schema *schema, struct weir_error *err);
/* A run of the batch's rows in the order of `rows`, which are as many: moved, in memory of its own; *out NULL: there is
 * no room. `schema` as above. Memory that is needed meanwhile comes from `account`. */
int weir_run_arrange(struct weir_run_space *space, struct weir_account *account, const struct weir_batch *batch,
		     const struct weir_key_list *keys, const uint32_t *rows, const struct weir_schema *schema,
		     struct weir_sorted_run **out, struct weir_error *err);
/* A run of a batch's rows, which are in order as they are: in chunks that are as large as what leaves a lane, so that
 * they can be given on; *out NULL: there is no room. */
int weir_run_keep(struct weir_run_space *space, const struct weir_batch *batch, const struct weir_key_list *keys,
		  struct weir_sorted_run **out, struct weir_error *err);
/* The chunk, with a reference for the caller, who counts it from now on; NULL: it is too small to go on by itself. */
struct weir_chunk *weir_run_give(struct weir_run_space *space, struct weir_run_chunk *chunk);
bool weir_run_is_in_order(const uint32_t *rows, int64_t count);
/* Nobody will look at its rows before `end` again; of those before `begin` that was said before. Memory of the process
 * is added to what will be forgotten. */
void weir_run_forget(struct weir_sorted_run *run, int64_t begin, int64_t end, struct weir_forgotten *forgotten);
/* It will not lie: its room is others'. What was gathered stays until it is freed. */
void weir_run_rise(struct weir_sorted_run *run);
/* Whether rows that come in this order are better left where they are: most follow the one before, or they are wide. */
bool weir_run_stays(const struct weir_batch *batch, const uint32_t *rows);

/* The batch as a sealed chunk, packed (arrow/packed.h): in memory while there is room, else on disk. Drop lets go of
 * it; NULL is fine. */
int weir_run_space_put(struct weir_run_space *space, const struct weir_batch *batch, struct weir_chunk **out,
		       struct weir_error *err);
void weir_run_space_drop(struct weir_run_space *space, struct weir_chunk *chunk);
/* What its rows take as a block. */
int64_t weir_run_batch_bytes(const struct weir_batch *batch);
/* Rows first … first + count − 1. */
int weir_batch_slice(const struct weir_batch *batch, int64_t first, int64_t count, struct weir_batch **out,
		     struct weir_error *err);
/* Some rows of a batch as one of their own. */
int weir_batch_take(struct weir_account *account, const struct weir_batch *batch, const int64_t *rows, int64_t count,
		    struct weir_batch **out, struct weir_error *err);

/* A run in chunks, empty, and its next chunk: the rows of a batch, in order, behind those before; `fence` is the key of
 * the first, or what it begins with. */
struct weir_sorted_run *weir_run_new(struct weir_run_space *space, struct weir_error *err);
int weir_run_append(struct weir_sorted_run *run, const struct weir_batch *batch, const uint8_t *fence,
		    uint32_t fence_size, struct weir_error *err);
/* No row comes behind the one with this key. */
int weir_run_end(struct weir_sorted_run *run, const uint8_t *key, uint32_t size, struct weir_error *err);
/* About what a merge needs for it while it is open, beside the one large row that it has of all runs. */
uint64_t weir_run_open_bytes(const struct weir_sorted_run *run);

/* The first `count` rows of a batch in the order of `rows`, whose keys are `keys`, as chunks. The caller's reference to
 * the batch goes, so that its columns can while they are taken. Memory that is needed meanwhile comes from `account`.
 * `draw`: the numbers of all of them are those that were drawn last, and no column of the batch; NULL: they were not
 * drawn. */
int weir_sorted_run_new(struct weir_run_space *space, struct weir_account *account, struct weir_batch *batch,
			const struct weir_key_list *keys, const uint32_t *rows, int64_t count,
			const struct weir_draw *draw, struct weir_sorted_run **out, struct weir_error *err);
/* Whether it is one large row. */
bool weir_run_chunk_is_large(const struct weir_run_chunk *chunk);
/* The bytes of a chunk that is on disk, of which there are as many as it takes there; and: they will be wanted soon. */
size_t weir_run_chunk_footprint(const struct weir_run_chunk *chunk);
int weir_run_chunk_read(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk, uint8_t *to,
			struct weir_error *err);
void weir_run_chunk_expect(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk);
/* A chunk's rows as they were read; those of a bare one get the column that it lacks. *batch is replaced. */
int weir_run_chunk_complete(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk,
			    struct weir_account *account, const struct weir_schema *schema, struct weir_batch **batch,
			    struct weir_error *err);
void weir_sorted_run_free(struct weir_run_space *space, struct weir_sorted_run *run); /* NULL is fine */

#endif
