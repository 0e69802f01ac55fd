/* store_impl: what the files of this folder share, and what their tests and the probe look into.
 *
 *     store ──▶ regions ──▶ ranges, free or in a chunk            space.c  which ranges are free
 *       │                     ▲                                   region.c memfds: making, adopting, backing, punching
 *       │       chunk ────────┘   or, spilled:                    spill_file.c  bytes to disk and back
 *       └─────▶ spill files ──▶ ranges                            chunk.c  the life of a chunk
 *                     spool ────▲                                 spool.c  pieces that are no chunks
 */
#ifndef WEIR_STORE_STORE_IMPL_H
#define WEIR_STORE_STORE_IMPL_H

#include "store/store.h"

#include <pthread.h>

#define STORE_PAGE ((uint64_t)4096)
#define STORE_PAGE_BITS 12
#define STORE_SIZE_BITS 47 /* the whole of user space */
#define STORE_CLASS_COUNT ((STORE_SIZE_BITS - STORE_PAGE_BITS + 1) * 4)
#define STORE_REGION_SIZE ((uint64_t)64 << 20)
#define STORE_REGION_SIZE_MAX                                                                                          \
	((uint64_t)16 << 30) /* of one that is made larger than the first; a chunk may need more */
#define STORE_SPILL_DIRS_MAX 64
#define STORE_SPACES 4 /* so many writers do not wait for each other */
#define STORE_BACKED (-1)

static inline uint64_t store_pages(uint64_t size)
{
	return (size + STORE_PAGE - 1) & ~(STORE_PAGE - 1);
}

/* --- space.c --- */

struct weir_range {
	void *home;            /* the region or spill file it lies in; only neighbours of one home are joined */
	uint64_t offset, size; /* multiples of STORE_PAGE */
	struct weir_range *before, *after;  /* neighbours in the home */
	struct weir_range *previous, *next; /* while free: of the same class */
	bool is_free;
};

/* The free ranges of one or several homes, by class of size. All-zero plus an account is the empty one. */
struct weir_space {
	struct weir_account *account; /* where ranges come from */
	struct weir_range *classes[STORE_CLASS_COUNT];
	uint64_t occupied[(STORE_CLASS_COUNT + 63) / 64];
};

struct weir_range *weir_range_new(struct weir_account *account, struct weir_error *err);
void weir_range_free(struct weir_account *account, struct weir_range *range);
/* Adds [offset, offset + size) of `home` as free; `last` is the home's last range so far, or NULL. Takes over
 * `range`. */
void weir_space_add(struct weir_space *space, struct weir_range *range, void *home, struct weir_range *last,
		    uint64_t offset, uint64_t size);
/* NULL: nothing fits. What is left over needs a range: *spare, then set to NULL. */
struct weir_range *weir_space_take(struct weir_space *space, uint64_t size, struct weir_range **spare);
/* Takes this free range out, whole. */
void weir_space_take_range(struct weir_space *space, struct weir_range *range);
/* Cuts a taken range after `size` bytes; the rest, also taken, uses and empties *spare. */
struct weir_range *weir_space_cut(struct weir_range *range, uint64_t size, struct weir_range **spare);
/* Free again, and joined with free neighbours. Never fails. Returns the joined range. */
struct weir_range *weir_space_give(struct weir_space *space, struct weir_range *range);
/* A home is given up: frees all its ranges, which must be one free range. */
void weir_space_remove(struct weir_space *space, struct weir_range *range);

/* --- region.c --- */

struct weir_region {
	struct weir_store *store;
	struct weir_region *next;
	uint32_t number;
	bool is_worker, is_released;
	int memfd;
	uint64_t size;
	uint8_t *bytes;   /* MAP_SHARED; writable only where the region is the driver's */
	uint8_t *view;    /* MAP_PRIVATE, for owners; mapped when first wanted */
	uint64_t *backed; /* a bit for each page that the memfd holds; under the store's lock, as all below */
	size_t backed_size;
	struct weir_range *first; /* at offset 0 */
	struct weir_space *space; /* the store's, or its own */
	struct weir_space own_space;
	uint32_t in_use; /* ranges taken, also for trimming */
};

/* A range of `size` bytes, backed and charged, counted as resident. region NULL: one of the driver's. Where there is a
 * writer instead of STORE_BACKED it is counted as if it were backed: its pages come as they are written
 * (weir_region_write), or all that it lacks at once (weir_region_back). */
int weir_region_take(struct weir_store *store, struct weir_region *region, uint64_t size, int writer,
		     struct weir_range **out, struct weir_error *err);
int weir_region_write(const struct weir_range *range, uint64_t offset, const void *bytes, uint64_t size,
		      struct weir_error *err);
int weir_region_back(const struct weir_range *range, struct weir_error *err);
/* Back to the free list, warm, or to the kernel where nobody will reuse it, or it was not backed. Not under the
 * lock. */
void weir_region_give(struct weir_store *store, struct weir_range *range, bool is_backed);
uint8_t *weir_region_view(struct weir_region *region, struct weir_error *err);
/* A private map of these bytes alone, for munmap; NULL where the process can have no more. */
uint8_t *weir_region_map(struct weir_region *region, uint64_t offset, uint64_t size);
void weir_regions_release(struct weir_store *store); /* all of them: none is in use */

/* --- spill_file.c --- */

struct weir_spill_file {
	struct weir_store *store;
	char *directory; /* owned */
	bool is_open;
	bool is_memory; /* a tmpfs: what lies there counts. Valid while is_open */
	int fd;         /* valid while is_open */
	/* Under the store's lock. */
	uint64_t size, taken;
	uint64_t reserved; /* up to here space was asked for */
	struct weir_range *last;
	uint64_t dropped;         /* bytes that are free, but whose space has not gone back yet */
	struct weir_range *holes; /* being punched, by whoever has set is_sweeping; linked by `next` */
	bool is_sweeping, is_ending;
	bool has_sweeper; /* a thread, to be joined */
	pthread_t sweeper;
	struct weir_space space;
};

struct weir_extent {
	struct weir_range *range; /* its home is the file */
	uint32_t crc;
};

/* Opens the file if it is not; not under the lock. */
int weir_spill_file_open(struct weir_spill_file *file, struct weir_error *err);
/* Writes into an extent of its own. On failure the extent is given back. */
int weir_spill_file_write(struct weir_spill_file *file, const uint8_t *bytes, uint64_t size, struct weir_extent *out,
			  struct weir_error *err);
/* Fills `bytes`, or fails and leaves in it what must not be used. */
int weir_spill_file_read(struct weir_extent extent, uint8_t *bytes, uint64_t size, struct weir_error *err);
/* The same in steps: an extent of so many bytes that nobody has written; pieces one behind the other into it, `offset`
 * bytes from its beginning, all of which have `size`; some of it, whose checksum is `crc`. */
int weir_spill_file_take(struct weir_spill_file *file, uint64_t size, struct weir_range **out, struct weir_error *err);
int weir_spill_file_fill(const struct weir_range *range, uint64_t offset, const struct weir_spool_piece *pieces,
			 uint32_t count, uint64_t size, struct weir_error *err);
int weir_spill_file_get(const struct weir_range *range, uint64_t offset, uint32_t crc, uint8_t *bytes, uint64_t size,
			struct weir_error *err);
/* The system may begin to read it, into memory of its own. */
void weir_spill_file_expect(struct weir_extent extent, uint64_t size);
void weir_spill_file_drop(struct weir_extent extent);
void weir_spill_file_release(struct weir_spill_file *file);

/* --- store.c, chunk.c --- */

struct weir_store {
	struct weir_account memory; /* charged for resident + warm */
	struct weir_account heap;   /* ranges, chunks, regions */
	int64_t resident_max, warm_max, spill_max;
	uint64_t region_size;
	struct weir_spill_file *files;
	uint32_t file_count;
	int pagemap;            /* −1: none */
	pthread_mutex_t lock;   /* guards all below, and what says so above; rank: store */
	pthread_cond_t settled; /* with lock: a chunk is no longer SPILLING or RESTORING; nobody trims any more */
	uint32_t trimming;      /* threads that have free ranges out to give their pages back */
	/* of the driver's regions: what is mapped before it is written grows the first */
	struct weir_space spaces[STORE_SPACES];
	struct weir_region *regions;
	uint64_t regions_size[STORE_SPACES]; /* of the driver's */
	uint32_t region_number_next, file_next;
	int64_t resident, warm, spilled, pinned, held_by_user, peak;
	int64_t spilled_memory, spill_memory_max;
	int64_t promised; /* being backed: neither resident nor warm yet, but counted against resident_max */
	uint64_t chunks, spill_writes, spill_reads, spill_bytes_written, spill_bytes_read;
};

enum chunk_state {
	CHUNK_RESERVED, /* being written; pinned by its writer */
	CHUNK_RESIDENT,
	CHUNK_SPILLING, /* in memory and on its way out; a pin keeps it */
	CHUNK_SPILLED,
	CHUNK_RESTORING, /* one thread reads it back, others wait */
};

struct weir_chunk {
	struct weir_store *store;
	_Atomic uint32_t refs;
	uint64_t size;   /* fixed once sealed; before that, what was reserved and is left */
	bool is_foreign; /* a worker has written it */
	/* Under the store's lock. */
	enum chunk_state state;
	bool is_bare;                   /* when RESERVED: some of its pages may not be there */
	uint32_t pins, owners, viewers; /* viewers: owners in the region's view; the others have maps of their own */
	int64_t faults;                 /* the process's page faults when it got its first viewer */
	struct weir_range *range;       /* but when SPILLED or RESTORING */
	struct weir_extent extent;      /* when SPILLED or RESTORING */
	struct weir_range *spare;       /* when RESERVED: its writer's, for what sealing leaves over */
};

#endif
