/* chunk: the life of a chunk.
 *
 *     reserve ─▶ RESERVED ─ seal ─▶ RESIDENT ─ spill ─▶ SPILLING ─▶ SPILLED ─ pin, restore ─▶ RESTORING ─▶ RESIDENT
 *                                      ▲ ▲                 │           ▲                          │
 *                                      │ └─ pinned, failed ┘           └────────── failed ────────┘
 *                                    adopt
 *
 * A chunk is written out while its memory stays where it is, so whoever pins it meanwhile does not wait: the spilling
 * thread finds the pin when it is done, throws the extent away and leaves the chunk resident. Reading back is done by
 * the first who wants it; others wait for that one and, if it failed, try themselves and get their own error.
 *
 * A restored chunk lies in the driver's region, wherever it lay before. Its extent goes at once: a chunk is in memory
 * or on disk, never both, so that the figures add up.
 */
#include "base/checked.h"
#include "base/pagemap.h"
#include "arrow/block.h"
#include "store/store.h"
#include "store/store_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int64_t footprint(const struct weir_chunk *chunk)
{
	return (int64_t)store_pages(chunk->size);
}

static struct weir_region *region_of(const struct weir_chunk *chunk)
{
	return chunk->range->home;
}

static uint8_t *bytes_of(const struct weir_chunk *chunk)
{
	return region_of(chunk)->bytes + chunk->range->offset;
}

/* --- making --- */

/* Nobody else knows it yet. */
static struct weir_chunk *chunk_new(struct weir_store *store, struct weir_error *err)
{
	struct weir_chunk *chunk = weir_alloc_zero(&store->heap, sizeof(*chunk), err);

	if (!chunk)
		return NULL;
	chunk->store = store;
	atomic_init(&chunk->refs, 1);
	return chunk;
}

static int reserve(struct weir_store *store, struct weir_region *region, uint64_t size, int writer,
		   struct weir_chunk **out, struct weir_error *err)
{
	struct weir_chunk *chunk = chunk_new(store, err);

	*out = NULL;
	if (!chunk)
		return err->code;
	/* Sealing cannot fail, so what it may need is there beforehand. */
	chunk->spare = weir_range_new(&store->heap, err);
	if (!chunk->spare || weir_region_take(store, region, size, writer, &chunk->range, err)) {
		weir_range_free(&store->heap, chunk->spare);
		weir_free(&store->heap, chunk, sizeof(*chunk));
		return err->code;
	}
	chunk->size = size;
	chunk->state = CHUNK_RESERVED;
	chunk->is_bare = writer != STORE_BACKED;
	chunk->is_foreign = region != NULL;
	chunk->pins = 1;
	pthread_mutex_lock(&store->lock);
	store->chunks++;
	store->pinned += footprint(chunk);
	pthread_mutex_unlock(&store->lock);
	*out = chunk;
	return WEIR_OK;
}

int weir_chunk_reserve(struct weir_store *store, uint64_t size, struct weir_chunk **out, uint8_t **bytes,
		       struct weir_error *err)
{
	int code = reserve(store, NULL, size, STORE_BACKED, out, err);

	if (!code)
		*bytes = bytes_of(*out);
	return code;
}

static int reserve_charged(struct weir_store *store, struct weir_account *account, uint64_t size, int writer,
			   struct weir_chunk **out, int64_t *charged, struct weir_error *err)
{
	int code;

	*charged = (int64_t)store_pages(size);
	code = weir_account_claim(account, *charged, err);
	if (code)
		return code;
	code = reserve(store, NULL, size, writer, out, err);
	if (code)
		weir_account_unclaim(account, *charged);
	return code;
}

int weir_chunk_reserve_charged(struct weir_store *store, struct weir_account *account, uint64_t size,
			       struct weir_chunk **out, uint8_t **bytes, int64_t *charged, struct weir_error *err)
{
	int code = reserve_charged(store, account, size, STORE_BACKED, out, charged, err);

	if (!code)
		*bytes = bytes_of(*out);
	return code;
}

int weir_chunk_reserve_bare(struct weir_store *store, struct weir_account *account, uint32_t writer, uint64_t size,
			    struct weir_chunk **out, int64_t *charged, struct weir_error *err)
{
	return reserve_charged(store, account, size, (int)(writer % STORE_SPACES), out, charged, err);
}

int weir_chunk_put(struct weir_chunk *chunk, uint64_t offset, const void *bytes, uint64_t size, struct weir_error *err)
{
	WEIR_ASSERT(chunk->state == CHUNK_RESERVED && chunk->is_bare);
	return weir_region_write(chunk->range, offset, bytes, size, err);
}

int weir_chunk_back(struct weir_chunk *chunk, uint8_t **bytes, struct weir_error *err)
{
	int code = weir_region_back(chunk->range, err);

	WEIR_ASSERT(chunk->state == CHUNK_RESERVED);
	if (code)
		return code;
	chunk->is_bare = false;
	*bytes = bytes_of(chunk);
	return WEIR_OK;
}

int weir_chunk_of_batch(struct weir_store *store, struct weir_account *account, const struct weir_batch *batch,
			struct weir_chunk **out, struct weir_error *err)
{
	struct weir_block_plan plan;
	struct weir_chunk *chunk;
	int64_t charged;
	uint8_t *bytes;
	int code = weir_block_measure(batch, &plan, err);

	if (!code)
		code = account ? weir_chunk_reserve_charged(store, account, plan.size, &chunk, &bytes, &charged, err)
			       : weir_chunk_reserve(store, plan.size, &chunk, &bytes, err);
	if (code)
		return code;
	code = weir_block_write(batch, &plan, bytes, err);
	if (code) {
		weir_chunk_unref(chunk);
		if (account)
			weir_account_unclaim(account, charged);
		return code;
	}
	weir_chunk_seal(chunk, plan.size);
	*out = chunk;
	return WEIR_OK;
}

int weir_region_reserve(struct weir_region *region, uint64_t size, struct weir_chunk **out, struct weir_error *err)
{
	WEIR_ASSERT(region->is_worker && !region->is_released);
	return reserve(region->store, region, size, STORE_BACKED, out, err);
}

/* A part of a reserved range that its chunk does not keep becomes free and warm; under the lock. */
static void give_part(struct weir_store *store, struct weir_range *part)
{
	struct weir_region *region = part->home;

	store->resident -= (int64_t)part->size;
	store->pinned -= (int64_t)part->size;
	store->warm += (int64_t)part->size;
	weir_space_give(region->space, part);
}

void weir_chunk_seal(struct weir_chunk *chunk, uint64_t size)
{
	struct weir_store *store = chunk->store;
	uint64_t pages = store_pages(size);

	WEIR_ASSERT(chunk->state == CHUNK_RESERVED && !chunk->is_bare && chunk->pins == 1 && size > 0 &&
		    size <= chunk->size);
	pthread_mutex_lock(&store->lock);
	if (pages < chunk->range->size)
		give_part(store, weir_space_cut(chunk->range, pages, &chunk->spare));
	chunk->size = size;
	chunk->state = CHUNK_RESIDENT;
	chunk->pins = 0;
	store->pinned -= footprint(chunk);
	pthread_mutex_unlock(&store->lock);
	weir_range_free(&store->heap, chunk->spare);
	chunk->spare = NULL;
}

/* room:  │ gap, freed │ the new chunk │ stays the room's │ */
int weir_chunk_adopt(struct weir_chunk *room, uint64_t offset, uint64_t size, struct weir_chunk **out,
		     struct weir_error *err)
{
	struct weir_store *store = room->store;
	struct weir_range *spare = NULL, *piece = room->range;
	uint64_t pages = store_pages(size), gap, left;
	struct weir_chunk *chunk;

	*out = NULL;
	WEIR_ASSERT(room->state == CHUNK_RESERVED);
	if (!piece || size == 0 || size > piece->size || offset % STORE_PAGE || offset < piece->offset ||
	    weir_range_outside(offset - piece->offset, size, piece->size))
		return weir_error_set(
			err, WEIR_E_INVALID,
			"a worker says that a chunk of %llu bytes lies at byte %llu, outside the room it was given",
			(unsigned long long)size, (unsigned long long)offset);
	chunk = chunk_new(store, err);
	spare = chunk ? weir_range_new(&store->heap, err) : NULL;
	if (!room->spare && spare)
		room->spare = weir_range_new(&store->heap, err);
	if (!spare || !room->spare) {
		weir_range_free(&store->heap, spare);
		weir_free(&store->heap, chunk, sizeof(*chunk));
		return err->code;
	}
	gap = offset - piece->offset;
	left = piece->size - gap - pages;
	pthread_mutex_lock(&store->lock);
	if (gap) {
		struct weir_range *unused = piece;

		piece = weir_space_cut(unused, gap, &spare);
		give_part(store, unused);
	}
	room->range = left ? weir_space_cut(piece, pages, &room->spare) : NULL;
	if (left)
		region_of(room)->in_use++;
	room->size = left;
	chunk->size = size;
	chunk->is_foreign = true;
	chunk->state = CHUNK_RESIDENT;
	chunk->range = piece;
	store->chunks++;
	store->pinned -= (int64_t)pages;
	pthread_mutex_unlock(&store->lock);
	weir_range_free(&store->heap, spare);
	*out = chunk;
	return WEIR_OK;
}

/* --- references --- */

struct weir_chunk *weir_chunk_ref(struct weir_chunk *chunk)
{
	atomic_fetch_add_explicit(&chunk->refs, 1, memory_order_relaxed);
	return chunk;
}

void weir_chunk_unref(struct weir_chunk *chunk)
{
	struct weir_store *store;

	/* acq_rel: the last one must see what the others did before they let go. */
	if (!chunk || atomic_fetch_sub_explicit(&chunk->refs, 1, memory_order_acq_rel) != 1)
		return;
	store = chunk->store;
	pthread_mutex_lock(&store->lock);
	WEIR_ASSERT(chunk->state != CHUNK_SPILLING && chunk->state != CHUNK_RESTORING);
	WEIR_ASSERT(chunk->pins == (chunk->state == CHUNK_RESERVED) && chunk->owners == 0);
	store->chunks--;
	if (chunk->state == CHUNK_RESERVED)
		store->pinned -= footprint(chunk);
	else if (chunk->state == CHUNK_SPILLED)
		store->spilled -= footprint(chunk);
	pthread_mutex_unlock(&store->lock);
	if (chunk->state == CHUNK_SPILLED)
		weir_spill_file_drop(chunk->extent);
	else if (chunk->range)
		weir_region_give(store, chunk->range, !chunk->is_bare);
	weir_range_free(&store->heap, chunk->spare);
	weir_free(&store->heap, chunk, sizeof(*chunk));
}

uint64_t weir_chunk_size(const struct weir_chunk *chunk)
{
	return chunk->size;
}

uint64_t weir_chunk_footprint(const struct weir_chunk *chunk)
{
	return store_pages(chunk->size);
}

bool weir_chunk_is_foreign(const struct weir_chunk *chunk)
{
	return chunk->is_foreign;
}

bool weir_chunk_is_resident(const struct weir_chunk *chunk)
{
	bool resident;

	pthread_mutex_lock(&chunk->store->lock);
	resident = chunk->state != CHUNK_SPILLED && chunk->state != CHUNK_RESTORING;
	pthread_mutex_unlock(&chunk->store->lock);
	return resident;
}

/* --- coming back --- */

/* SPILLED, under the lock, which is let go meanwhile. */
static int restore(struct weir_chunk *chunk, struct weir_error *err)
{
	struct weir_store *store = chunk->store;
	struct weir_range *range;
	int code;

	chunk->state = CHUNK_RESTORING;
	pthread_mutex_unlock(&store->lock);
	code = weir_region_take(store, NULL, chunk->size, STORE_BACKED, &range, err);
	if (!code) {
		struct weir_region *region = range->home;

		code = weir_spill_file_read(chunk->extent, region->bytes + range->offset, chunk->size, err);
		if (code)
			weir_region_give(store, range, true);
	}
	if (!code)
		weir_spill_file_drop(chunk->extent);
	pthread_mutex_lock(&store->lock);
	if (!code) {
		chunk->range = range;
		chunk->extent = (struct weir_extent){0};
		store->spilled -= footprint(chunk);
		store->spill_reads++;
		store->spill_bytes_read += chunk->size;
	}
	chunk->state = code ? CHUNK_SPILLED : CHUNK_RESIDENT;
	pthread_cond_broadcast(&store->settled);
	return code;
}

/* Under the lock: in memory, or the error why not. */
static int make_resident(struct weir_chunk *chunk, struct weir_error *err)
{
	WEIR_ASSERT(chunk->state != CHUNK_RESERVED);
	while (chunk->state == CHUNK_RESTORING)
		pthread_cond_wait(&chunk->store->settled, &chunk->store->lock);
	return chunk->state == CHUNK_SPILLED ? restore(chunk, err) : WEIR_OK;
}

int weir_chunk_restore(struct weir_chunk *chunk, struct weir_error *err)
{
	int code;

	pthread_mutex_lock(&chunk->store->lock);
	code = make_resident(chunk, err);
	pthread_mutex_unlock(&chunk->store->lock);
	return code;
}

int weir_chunk_read(struct weir_chunk *chunk, uint8_t *to, struct weir_error *err)
{
	struct weir_store *store = chunk->store;
	const uint8_t *bytes;
	int code;

	pthread_mutex_lock(&store->lock);
	WEIR_ASSERT(chunk->state != CHUNK_RESERVED);
	while (chunk->state == CHUNK_RESTORING)
		pthread_cond_wait(&store->settled, &store->lock);
	if (chunk->state == CHUNK_SPILLED) {
		chunk->state = CHUNK_RESTORING; /* others wait meanwhile: the extent must stay */
		pthread_mutex_unlock(&store->lock);
		code = weir_spill_file_read(chunk->extent, to, chunk->size, err);
		pthread_mutex_lock(&store->lock);
		chunk->state = CHUNK_SPILLED;
		store->spill_reads += !code;
		store->spill_bytes_read += code ? 0 : chunk->size;
		pthread_cond_broadcast(&store->settled);
		pthread_mutex_unlock(&store->lock);
		return code;
	}
	pthread_mutex_unlock(&store->lock);
	code = weir_chunk_pin(chunk, &bytes, err);
	if (code)
		return code;
	memcpy(to, bytes, chunk->size);
	weir_chunk_unpin(chunk);
	return WEIR_OK;
}

int weir_chunk_pin(struct weir_chunk *chunk, const uint8_t **bytes, struct weir_error *err)
{
	struct weir_store *store = chunk->store;
	int code;

	pthread_mutex_lock(&store->lock);
	code = make_resident(chunk, err);
	if (!code) {
		if (chunk->pins++ == 0)
			store->pinned += footprint(chunk);
		*bytes = bytes_of(chunk);
	}
	pthread_mutex_unlock(&store->lock);
	return code;
}

void weir_chunk_unpin(struct weir_chunk *chunk)
{
	struct weir_store *store = chunk->store;

	pthread_mutex_lock(&store->lock);
	WEIR_ASSERT(chunk->pins > 0 && chunk->state != CHUNK_RESERVED);
	if (--chunk->pins == 0)
		store->pinned -= footprint(chunk);
	pthread_mutex_unlock(&store->lock);
}

void weir_chunk_place(const struct weir_chunk *chunk, uint32_t *region, int *memfd, uint64_t *offset)
{
	/* Without the lock: while it is pinned, by the caller, nobody moves it. */
	*region = region_of(chunk)->number;
	*memfd = region_of(chunk)->memfd;
	*offset = chunk->range->offset;
}

/* --- leaving --- */

/* Each directory in turn, from the one after the last used. */
static int write_out(struct weir_store *store, uint32_t first, const uint8_t *bytes, uint64_t size,
		     struct weir_extent *out, struct weir_error *err)
{
	char all[sizeof(err->message)];
	size_t length = 0;
	int code = WEIR_E_IO;

	for (uint32_t i = 0; i < store->file_count; i++) {
		struct weir_spill_file *file = &store->files[(first + i) % store->file_count];
		int now = weir_spill_file_write(file, bytes, size, out, err);

		if (!now) {
			weir_error_clear(err);
			return WEIR_OK;
		}
		if (i == 0 || now == WEIR_E_NO_SPACE)
			code = now;
		if (length < sizeof(all))
			length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s", i ? "; " : "",
						   err->message);
	}
	return store->file_count == 1 ? code : weir_error_set(err, code, "%s", all);
}

int weir_chunk_spill(struct weir_chunk *chunk, struct weir_error *err)
{
	struct weir_store *store = chunk->store;
	struct weir_range *range = NULL;
	struct weir_extent extent = {0};
	bool kept = false;
	uint32_t first;
	int code = WEIR_OK;

	pthread_mutex_lock(&store->lock);
	WEIR_ASSERT(chunk->state != CHUNK_RESERVED);
	while (chunk->state == CHUNK_RESTORING || chunk->state == CHUNK_SPILLING)
		pthread_cond_wait(&store->settled, &store->lock);
	if (chunk->state == CHUNK_SPILLED)
		goto out;
	if (chunk->pins) {
		code = weir_error_set(err, WEIR_E_CANCELLED, "a pinned chunk is not spilled");
		goto out;
	}
	if (store->spill_max && store->spilled + footprint(chunk) > store->spill_max) {
		code = weir_error_set(
			err, WEIR_E_NO_SPACE, "%s: a chunk of %llu bytes would pass the spill limit of %lld bytes",
			store->files[0].directory, (unsigned long long)chunk->size, (long long)store->spill_max);
		goto out;
	}
	chunk->state = CHUNK_SPILLING;
	store->spilled += footprint(chunk); /* already, for the limit */
	first = store->file_next++ % store->file_count;
	pthread_mutex_unlock(&store->lock);

	code = write_out(store, first, bytes_of(chunk), chunk->size, &extent, err);

	pthread_mutex_lock(&store->lock);
	kept = !code && chunk->pins;
	if (code || kept) {
		store->spilled -= footprint(chunk);
		chunk->state = CHUNK_RESIDENT;
	} else {
		range = chunk->range;
		chunk->range = NULL;
		chunk->extent = extent;
		chunk->state = CHUNK_SPILLED;
		store->spill_writes++;
		store->spill_bytes_written += chunk->size;
	}
	pthread_cond_broadcast(&store->settled);
out:
	pthread_mutex_unlock(&store->lock);
	if (range)
		weir_region_give(store, range, true);
	if (kept) {
		weir_spill_file_drop(extent);
		code = weir_error_set(err, WEIR_E_CANCELLED, "a chunk that was pinned while it was spilled stays");
	}
	return code;
}

/* --- owners --- */

struct chunk_owner {
	struct weir_owner owner;
	struct weir_chunk *chunk;
	uint8_t *view; /* the chunk's bytes in a private map */
	bool is_alone; /* in a map that nobody else has, and not in the region's */
};

/* The last who has the chunk in the region's view stays so until his copies are gone: whoever comes meanwhile has his
 * own map. */
static void view_release(struct weir_chunk *chunk, uint8_t *view)
{
	struct weir_store *store = chunk->store;
	int64_t faults;
	bool last;

	pthread_mutex_lock(&store->lock);
	faults = chunk->faults;
	last = chunk->viewers == 1;
	chunk->viewers -= !last;
	pthread_mutex_unlock(&store->lock);
	if (!last)
		return;
	/* Pages that somebody wrote to are his copies; the next chunk in this place must not be hidden by them. */
	if ((faults < 0 || faults != weir_page_fault_count()) &&
	    weir_pagemap_has_copies(store->pagemap, view, footprint(chunk)))
		madvise(view, (size_t)footprint(chunk), MADV_DONTNEED);
	pthread_mutex_lock(&store->lock);
	chunk->viewers--;
	pthread_mutex_unlock(&store->lock);
}

static void owner_release(struct weir_owner *owner)
{
	struct chunk_owner *own = (struct chunk_owner *)owner;
	struct weir_chunk *chunk = own->chunk;
	struct weir_store *store = chunk->store;

	if (own->is_alone)
		munmap(own->view, (size_t)footprint(chunk));
	else
		view_release(chunk, own->view);
	pthread_mutex_lock(&store->lock);
	if (--chunk->owners == 0)
		store->held_by_user -= footprint(chunk);
	pthread_mutex_unlock(&store->lock);
	weir_free(&store->heap, own, sizeof(*own));
	weir_chunk_unpin(chunk);
	weir_chunk_unref(chunk);
}

/* Into the region's view; false: somebody is there already, and `even_so` is not set. */
static bool view_take(struct weir_chunk *chunk, int64_t faults, bool even_so)
{
	struct weir_store *store = chunk->store;
	bool taken;

	pthread_mutex_lock(&store->lock);
	taken = chunk->viewers == 0 || even_so;
	if (chunk->viewers == 0)
		chunk->faults = faults;
	chunk->viewers += taken;
	pthread_mutex_unlock(&store->lock);
	return taken;
}

int weir_chunk_owner(struct weir_chunk *chunk, struct weir_owner **out, const uint8_t **bytes, struct weir_error *err)
{
	struct weir_store *store = chunk->store;
	int64_t faults = weir_page_fault_count();
	struct chunk_owner *own;
	uint8_t *view;

	*out = NULL;
	if (weir_chunk_pin(chunk, bytes, err))
		return err->code;
	view = weir_region_view(region_of(chunk), err);
	own = view ? weir_alloc(&store->heap, sizeof(*own), err) : NULL;
	if (!own) {
		weir_chunk_unpin(chunk);
		return err->code;
	}
	atomic_init(&own->owner.refs, 1);
	own->owner.release = owner_release;
	own->chunk = weir_chunk_ref(chunk);
	own->view = view + chunk->range->offset;
	own->is_alone = false;
	if (!view_take(chunk, faults, false)) {
		/* What the other writes there is not for this one. Where the process has no place for a map, they
		 * share. */
		view = weir_region_map(region_of(chunk), chunk->range->offset, footprint(chunk));
		own->is_alone = view != NULL;
		if (view)
			own->view = view;
		else
			view_take(chunk, faults, true);
	}
	pthread_mutex_lock(&store->lock);
	if (chunk->owners++ == 0)
		store->held_by_user += footprint(chunk);
	pthread_mutex_unlock(&store->lock);
	*out = &own->owner;
	*bytes = own->view;
	return WEIR_OK;
}
