/* store: chunks in shared memory without a name, counted, pinned, spilled and restored.
 *
 * A region is a memfd that one process writes and others map (MAP_PRIVATE, so that whoever scribbles gets its own page).
 * This process owns all free lists. Space is fallocated before use: a full machine is WEIR_E_NO_SPACE, never SIGBUS. Freed
 * space is recycled warm (LIFO), given back (hole punched) on trim.
 *
 *     chunk: reserve ─▶ write ─▶ seal ─▶ pin/unpin … ─▶ spill ⇄ restore ─▶ drop (last reference)
 *
 * Accounts add up at all times: resident + spilled == sealed bytes alive; pinned ≤ resident; held_by_user ≤ pinned;
 * everything resident or warm is charged to the store's account. Spill files have no name; extents lie on 4 KiB
 * boundaries with CRC32C kept in memory; several directories are used round robin, a full one is left out, and when all
 * are full the error names them and the bytes needed.
 * Threads: every function may be called from any thread (one lock, rank: store; never held over I/O of chunks).
 */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "base/mem.h"
#include "arrow/array.h"

struct weir_store;
struct weir_chunk;

struct weir_store_options {
	int64_t resident_max;            /* a backstop; the executor decides what is spilled */
	const char *const *spill_dirs;   /* NULL-terminated; NULL: $TMPDIR or /tmp */
	int64_t spill_max;               /* 0: none */
	uint64_t region_size;            /* size of one memfd; 0: 64 MiB */
};

struct weir_store_stats {
	int64_t resident, warm, spilled, pinned, held_by_user, peak;
	uint64_t chunks, spill_writes, spill_reads, spill_bytes_written, spill_bytes_read;
};

int weir_store_new(struct weir_account *account, const struct weir_store_options *options, struct weir_store **out,
		   struct weir_error *err);
void weir_store_free(struct weir_store *store); /* asserts that no chunk is left */
void weir_store_stats(struct weir_store *store, struct weir_store_stats *out);
void weir_store_trim(struct weir_store *store, int64_t keep_warm);

/* Room for `size` bytes in the driver's region, 64-byte aligned (4 KiB when ≥ 4 KiB), pinned, writable at *bytes. */
int weir_chunk_reserve(struct weir_store *store, uint64_t size, struct weir_chunk **out, uint8_t **bytes,
		       struct weir_error *err);
/* Immutable from here on; `size` may be smaller than reserved (the rest is given back). Unpins. */
void weir_chunk_seal(struct weir_chunk *chunk, uint64_t size);
/* A chunk that a worker wrote into its own region (already mapped here by weir_region_adopt). */
struct weir_region;
int weir_region_adopt(struct weir_store *store, int memfd, uint64_t size, struct weir_region **out, struct weir_error *err);
int weir_chunk_adopt(struct weir_store *store, struct weir_region *region, uint64_t offset, uint64_t size,
		     struct weir_chunk **out, struct weir_error *err);
/* The worker is gone: its region stays until its last chunk is dropped. */
void weir_region_release(struct weir_store *store, struct weir_region *region);

struct weir_chunk *weir_chunk_ref(struct weir_chunk *chunk);
void weir_chunk_unref(struct weir_chunk *chunk);
uint64_t weir_chunk_size(const struct weir_chunk *chunk);
/* Resident and staying so until unpin. A spilled chunk is restored first (WEIR_E_SPILL_CORRUPT when it came back changed). */
int weir_chunk_pin(struct weir_chunk *chunk, const uint8_t **bytes, struct weir_error *err);
void weir_chunk_unpin(struct weir_chunk *chunk);
/* Where it lies, for a message to a worker: region number, memfd and offset. Only while pinned. */
void weir_chunk_place(const struct weir_chunk *chunk, uint32_t *region, int *memfd, uint64_t *offset);
/* An owner for arrays over the chunk: pins it until released, and counts it as held_by_user. */
int weir_chunk_owner(struct weir_chunk *chunk, struct weir_owner **out, const uint8_t **bytes, struct weir_error *err);
int weir_chunk_spill(struct weir_chunk *chunk, struct weir_error *err);   /* not pinned; a no-op when spilled */
int weir_chunk_restore(struct weir_chunk *chunk, struct weir_error *err); /* a no-op when resident */

#endif
