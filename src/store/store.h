/* store: chunks in shared memory without a name, counted, pinned, spilled and restored.
 *
 * A region is a memfd that one process writes and others map (MAP_PRIVATE, so that whoever scribbles gets its own
 * page). This process owns all free lists, those of the workers' regions too. Space is fallocated before use, or
 * written by a call: a full machine is WEIR_E_NO_SPACE or WEIR_E_MEMORY, never SIGBUS. Freed space is recycled warm
 * (LIFO), given back (hole punched) on trim.
 *
 *     chunk: reserve ─▶ write ─▶ seal ─▶ pin/unpin … ─▶ spill ⇄ restore ─▶ drop (last reference)
 *
 * Each chunk has pages of its own: a reader that scribbled into a page sees its private copy from then on, and would
 * see nothing of a second chunk that came to lie in it. All figures count whole pages of 4 KiB, in memory and on disk.
 *
 * Accounts add up at all times: resident + spilled == chunks alive (reserved ones too); pinned ≤ resident; held_by_user
 * ≤ pinned; resident + warm is what the memfds hold and what the store's account is charged for it (its own small lists
 * come on top). Spill files have no name; extents lie on 4 KiB boundaries with CRC32C kept in memory; several
 * directories are used in turn, a full one is passed over, and when all are full the error names them and the bytes
 * needed.
 *
 * Threads: every function may be called from any thread (one lock, rank: store, above base's frames; never held over
 * I/O of chunks, nor while memory is asked for).
 */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "base/mem.h"
#include "arrow/array.h"

struct weir_store;
struct weir_chunk;

struct weir_store_options {
	int64_t resident_max; /* of resident + warm; a backstop: the executor decides what is spilled. 0: none */
	/* free pages beyond go back to the kernel as they become free, or before others are made. 0: none does */
	int64_t warm_max;
	const char *const *spill_dirs; /* NULL-terminated; NULL: $TMPDIR or /tmp */
	int64_t spill_max;             /* 0: none */
	int64_t spill_memory_max;      /* of what is spilled to a tmpfs, which is memory; 0: none */
	/* size of the first memfd; 0: 64 MiB. Later ones double what there is */
	uint64_t region_size;
};

struct weir_store_stats {
	int64_t resident, warm, spilled, pinned, held_by_user, peak; /* peak: of resident + warm */
	int64_t spilled_memory;                                      /* of spilled, what lies in a tmpfs */
	uint64_t chunks, spill_writes, spill_reads, spill_bytes_written, spill_bytes_read;
};

int weir_store_new(struct weir_account *account, const struct weir_store_options *options, struct weir_store **out,
		   struct weir_error *err);
void weir_store_free(struct weir_store *store); /* asserts that no chunk and no worker's region is left */
void weir_store_stats(struct weir_store *store, struct weir_store_stats *out);
/* Gives warm pages back to the kernel until at most `keep_warm` bytes are warm. */
void weir_store_trim(struct weir_store *store, int64_t keep_warm);

/* Room for `size` ≥ 1 bytes in the driver's region, 4 KiB-aligned, pinned, writable at *bytes. A failed writer unrefs
 * it. */
int weir_chunk_reserve(struct weir_store *store, uint64_t size, struct weir_chunk **out, uint8_t **bytes,
		       struct weir_error *err);
/* The same, and `account` is charged for the footprint first: *charged, which is the caller's to unclaim. */
int weir_chunk_reserve_charged(struct weir_store *store, struct weir_account *account, uint64_t size,
			       struct weir_chunk **out, uint8_t **bytes, int64_t *charged, struct weir_error *err);
/* As above, without its pages, which come as they are written by weir_chunk_put: that takes some two thirds of the time
 * that it takes to make pages, map them and write into them, if pieces are small enough for the cache. Writers with
 * different numbers mostly do not wait for each other. Back makes what pages there are not yet, as has to be done
 * before the chunk is sealed, and from then on it is writable at *bytes. */
int weir_chunk_reserve_bare(struct weir_store *store, struct weir_account *account, uint32_t writer, uint64_t size,
			    struct weir_chunk **out, int64_t *charged, struct weir_error *err);
int weir_chunk_put(struct weir_chunk *chunk, uint64_t offset, const void *bytes, uint64_t size, struct weir_error *err);
int weir_chunk_back(struct weir_chunk *chunk, uint8_t **bytes, struct weir_error *err);
/* The batch as a sealed chunk that describes itself (arrow/block.h). `account` is charged for its footprint; NULL:
 * nobody is. */
int weir_chunk_of_batch(struct weir_store *store, struct weir_account *account, const struct weir_batch *batch,
			struct weir_chunk **out, struct weir_error *err);
/* Immutable from here on; 1 ≤ `size` ≤ reserved (the rest is given back). Unpins. */
void weir_chunk_seal(struct weir_chunk *chunk, uint64_t size);

/* A worker's own memfd: sealed against shrinking, at least `size` bytes. Takes over the descriptor, on failure too. */
struct weir_region;
int weir_region_adopt(struct weir_store *store, int memfd, uint64_t size, struct weir_region **out,
		      struct weir_error *err);
/* The worker is gone: its region stays until its last chunk is dropped. */
void weir_region_release(struct weir_store *store, struct weir_region *region);
/* Room for a worker to write into: a reserved chunk in its region, pinned; weir_chunk_place tells where. It is sealed
 * as one chunk, or cut into several by weir_chunk_adopt; unref gives back what is left. */
int weir_region_reserve(struct weir_region *region, uint64_t size, struct weir_chunk **out, struct weir_error *err);
/* A sealed chunk at [offset, offset + size) of the region, in the room reserved for it. The figures come from a worker:
 * they must lie in the room, on a 4 KiB boundary, behind the chunks adopted before, or it is WEIR_E_INVALID. */
int weir_chunk_adopt(struct weir_chunk *room, uint64_t offset, uint64_t size, struct weir_chunk **out,
		     struct weir_error *err);

struct weir_chunk *weir_chunk_ref(struct weir_chunk *chunk);
void weir_chunk_unref(struct weir_chunk *chunk);
uint64_t weir_chunk_size(const struct weir_chunk *chunk);
uint64_t weir_chunk_footprint(const struct weir_chunk *chunk); /* its size in whole pages, as the figures count it */
/* Resident and staying so until unpin. A spilled chunk is restored first (WEIR_E_SPILL_CORRUPT when it came back
 * changed). */
int weir_chunk_pin(struct weir_chunk *chunk, const uint8_t **bytes, struct weir_error *err);
void weir_chunk_unpin(struct weir_chunk *chunk);
/* Where it lies, for a message to a worker: region number, memfd and offset. Only while pinned. */
void weir_chunk_place(const struct weir_chunk *chunk, uint32_t *region, int *memfd, uint64_t *offset);
/* An owner for arrays over the chunk: pins it until released, and counts it as held_by_user. Writes to *bytes by code
 * that ignores `const` are seen by whoever has this owner, and go with it; another owner of the chunk has other
 * pages. */
int weir_chunk_owner(struct weir_chunk *chunk, struct weir_owner **out, const uint8_t **bytes, struct weir_error *err);
/* Not pinned when called; a no-op when spilled. WEIR_E_CANCELLED: it was pinned while it was written, and stays. */
int weir_chunk_spill(struct weir_chunk *chunk, struct weir_error *err);
int weir_chunk_restore(struct weir_chunk *chunk, struct weir_error *err); /* a no-op when resident */
bool weir_chunk_is_resident(const struct weir_chunk *chunk);
/* Whether a worker has written it: what it says of itself may be wrong then. */
bool weir_chunk_is_foreign(const struct weir_chunk *chunk);
/* Its bytes into memory of the caller's; where it is spilled, it stays so. */
int weir_chunk_read(struct weir_chunk *chunk, uint8_t *to, struct weir_error *err);

/* A spool: bytes that go to disk from memory of the caller's and are read from there, many small pieces that all go
 * together at the end. A piece is a place in the caller's keeping, no chunk: a dozen bytes of bookkeeping, and no copy
 * in the store's memory. One thread writes; any may read what was written. */
struct weir_spool {
	struct weir_store *store;
	struct weir_spool_extents {
		struct weir_range **items;
		size_t count, capacity;
	} extents;
	size_t open;   /* the extent that is being filled; of no meaning where there is none */
	uint64_t used; /* of that one */
	uint64_t written;
	/* Pieces are large and end anywhere: places are counted in parts of a page, and what is written by one call has
	 * an extent of its own with nothing left free behind it. Set before the first is written. */
	bool is_dense;
};

struct weir_spool_piece {
	const uint8_t *bytes;
	uint64_t size;
};

struct weir_spool_place {
	uint32_t extent, unit, crc; /* in which extent, how many pages of 4 KiB (dense: 64 bytes) from its beginning */
};

enum { WEIR_SPOOL_PIECES_MAX = 32 }; /* of one call */

void weir_spool_init(struct weir_spool *spool, struct weir_store *store);
/* On failure some may have been written; none of them has a place. */
int weir_spool_write(struct weir_spool *spool, const struct weir_spool_piece *pieces, uint32_t count,
		     struct weir_spool_place *places, struct weir_error *err);
/* WEIR_E_SPILL_CORRUPT: it came back changed. */
int weir_spool_read(const struct weir_spool *spool, struct weir_spool_place place, uint8_t *to, uint64_t size,
		    struct weir_error *err);
/* It will be read soon: the system may begin to fetch it. */
void weir_spool_expect(const struct weir_spool *spool, struct weir_spool_place place, uint64_t size);
void weir_spool_release(struct weir_spool *spool);

#endif
