/* region: memfds, and which of their pages exist.
 *
 * A memfd is sparse: it has the size of its region from the start and holds only the pages that were fallocated. A bit
 * a page says which, so that the account is charged for what the kernel really holds:
 *
 *     chunk    chunk    free, warm   free, cold                     chunk
 *     ┌───────┬────────┬───────────┬──────────────────────────────┬────────┬───
 *     │███████│████████│███████████│                              │████████│
 *     └───────┴────────┴───────────┴──────────────────────────────┴────────┴───
 *       resident          warm       costs nothing                  resident
 *
 * The driver's regions share a space, so that the best place is found whichever memfd it lies in. Each new one is as
 * large as all before it together: a handful of descriptors serves any amount of memory, and a small run maps little.
 * What is written without being mapped lies in regions of its writer's space: a file is written by one thread at a
 * time. A worker's region has a space of its own. When the worker is gone nothing there will be written again, so its
 * free pages go to the kernel at once and its descriptor with the last chunk.
 *
 * Pages are backed (and punched) outside the lock: whoever has taken a range is alone with its bits, but the words of
 * the bitmap are shared, so bits are read and written under the lock and fallocate is given the whole range, pages that
 * are there already included.
 */
#include "base/checked.h"
#include "base/fault.h"
#include "store/store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define POPULATE_MIN ((uint64_t)64 << 10)

/* --- bits; under the lock --- */

static uint64_t backed_bytes(const struct weir_region *region, const struct weir_range *range)
{
	uint64_t count = 0, page = range->offset / STORE_PAGE, end = page + range->size / STORE_PAGE;

	while (page < end) {
		uint64_t left = 64 - page % 64, word = region->backed[page / 64] >> page % 64;

		if (left > end - page) {
			left = end - page;
			word &= ((uint64_t)1 << left) - 1;
		}
		count += (uint64_t)__builtin_popcountll(word);
		page += left;
	}
	return count * STORE_PAGE;
}

static void backed_set(struct weir_region *region, const struct weir_range *range, bool value)
{
	uint64_t page = range->offset / STORE_PAGE, end = page + range->size / STORE_PAGE;

	while (page < end) {
		uint64_t left = 64 - page % 64, mask = ~(uint64_t)0;

		if (left > end - page) {
			left = end - page;
			mask = ((uint64_t)1 << left) - 1;
		}
		mask <<= page % 64;
		if (value)
			region->backed[page / 64] |= mask;
		else
			region->backed[page / 64] &= ~mask;
		page += left;
	}
}

/* --- making and removing --- */

static void region_free(struct weir_region *region)
{
	struct weir_store *store = region->store;

	if (region->bytes)
		munmap(region->bytes, region->size);
	if (region->view)
		munmap(region->view, region->size);
	if (region->memfd >= 0)
		close(region->memfd);
	weir_free(&store->heap, region->backed, region->backed_size);
	weir_free(&store->heap, region, sizeof(*region));
}

/* Takes over the memfd, on failure too. It is mapped, but in no list yet. space NULL: it is a worker's. */
static int region_new(struct weir_store *store, int memfd, uint64_t size, struct weir_space *space,
		      struct weir_region **out, struct weir_error *err)
{
	struct weir_region *region = weir_alloc_zero(&store->heap, sizeof(*region), err);
	bool is_worker = !space;
	void *bytes;

	if (!region) {
		close(memfd);
		return err->code;
	}
	region->store = store;
	region->memfd = memfd;
	region->size = size;
	region->is_worker = is_worker;
	region->backed_size = (size / STORE_PAGE + 63) / 64 * 8;
	region->backed = weir_alloc_zero(&store->heap, region->backed_size, err);
	region->first = region->backed ? weir_range_new(&store->heap, err) : NULL;
	if (!region->first)
		goto fail;
	bytes = weir_fault(WEIR_FAULT_MAP) ? MAP_FAILED
					   : mmap(NULL, size, PROT_READ | (is_worker ? 0 : PROT_WRITE),
						  MAP_SHARED | MAP_NORESERVE, memfd, 0);
	if (bytes == MAP_FAILED) {
		weir_error_set_errno(err, errno, "cannot map %llu bytes of shared memory", (unsigned long long)size);
		goto fail;
	}
	region->bytes = bytes;
	region->space = is_worker ? &region->own_space : space;
	region->own_space.account = &store->heap;
	*out = region;
	return WEIR_OK;
fail:
	weir_range_free(&store->heap, region->first);
	region_free(region);
	return err->code;
}

static void region_link(struct weir_store *store, struct weir_region *region)
{
	region->number = store->region_number_next++;
	region->next = store->regions;
	store->regions = region;
	weir_space_add(region->space, region->first, region, NULL, 0, region->size);
}

static void region_unlink(struct weir_store *store, struct weir_region *region)
{
	struct weir_region **at = &store->regions;

	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	weir_space_remove(region->space, region->first);
}

static int memfd_new(uint64_t size, struct weir_error *err)
{
	int fd = weir_fault(WEIR_FAULT_MAP) ? -1 : memfd_create("weir", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		weir_error_set_errno(err, errno, "cannot make a memfd");
		return -1;
	}
	if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		weir_error_set_errno(err, errno, "cannot make a memfd of %llu bytes%s", (unsigned long long)size,
				     errno == EFBIG ? ", which the limit on file sizes (ulimit -f) bounds too" : "");
		close(fd);
		return -1;
	}
	return fd;
}

/* Makes a region of at least `size` bytes and adds it to one of the store's spaces. */
static int grow(struct weir_store *store, uint32_t space, uint64_t size, struct weir_error *err)
{
	struct weir_region *region;
	uint64_t wanted;
	int fd;

	pthread_mutex_lock(&store->lock);
	wanted = store->regions_size[space];
	pthread_mutex_unlock(&store->lock);
	if (wanted > STORE_REGION_SIZE_MAX)
		wanted = STORE_REGION_SIZE_MAX;
	if (wanted < store->region_size)
		wanted = store->region_size;
	if (wanted < size)
		wanted = size;
	fd = memfd_new(wanted, err);
	if (fd < 0 || region_new(store, fd, wanted, &store->spaces[space], &region, err))
		return err->code;
	pthread_mutex_lock(&store->lock);
	region_link(store, region);
	store->regions_size[space] += wanted;
	pthread_mutex_unlock(&store->lock);
	return WEIR_OK;
}

int weir_region_adopt(struct weir_store *store, int memfd, uint64_t size, struct weir_region **out,
		      struct weir_error *err)
{
	struct stat info;
	int seals = fcntl(memfd, F_GET_SEALS), code;

	*out = NULL;
	/* Reading past the end of a memfd that was cut would be a signal. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memfd, &info) || info.st_size < 0 ||
	    (uint64_t)info.st_size < size || size < STORE_PAGE || size % STORE_PAGE || size >> STORE_SIZE_BITS) {
		close(memfd);
		return weir_error_set(err, WEIR_E_INVALID, "a worker's memfd is not one of %llu bytes, sealed",
				      (unsigned long long)size);
	}
	code = region_new(store, memfd, size, NULL, out, err);
	if (code)
		return code;
	pthread_mutex_lock(&store->lock);
	region_link(store, *out);
	pthread_mutex_unlock(&store->lock);
	return WEIR_OK;
}

uint8_t *weir_region_view(struct weir_region *region, struct weir_error *err)
{
	struct weir_store *store = region->store;
	uint8_t *view;
	void *bytes;

	pthread_mutex_lock(&store->lock);
	view = region->view;
	pthread_mutex_unlock(&store->lock);
	if (view)
		return view;
	bytes = weir_fault(WEIR_FAULT_MAP) ? MAP_FAILED
					   : mmap(NULL, region->size, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_NORESERVE, region->memfd, 0);
	if (bytes == MAP_FAILED) {
		weir_error_set_errno(err, errno, "cannot map %llu bytes of shared memory",
				     (unsigned long long)region->size);
		return NULL;
	}
	pthread_mutex_lock(&store->lock);
	view = region->view;
	if (!view)
		view = region->view = bytes;
	pthread_mutex_unlock(&store->lock);
	if (view != bytes)
		munmap(bytes, region->size);
	return view;
}

uint8_t *weir_region_map(struct weir_region *region, uint64_t offset, uint64_t size)
{
	void *bytes = weir_fault(WEIR_FAULT_MAP) ? MAP_FAILED
						 : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
							region->memfd, (off_t)offset);

	return bytes == MAP_FAILED ? NULL : bytes;
}

/* --- backing and punching; the range is the caller's alone --- */

/* Pages that are not there yet. */
static int fill(const struct weir_region *region, const struct weir_range *range, struct weir_error *err)
{
	int failed;

	do {
		failed = weir_fault(WEIR_FAULT_MAP) ||
			 fallocate(region->memfd, 0, (off_t)range->offset, (off_t)range->size);
	} while (failed && errno == EINTR);
	return failed ? weir_error_set_errno(err, errno, "no shared memory for %llu bytes",
					     (unsigned long long)range->size)
		      : WEIR_OK;
}

static int back(const struct weir_region *region, const struct weir_range *range, struct weir_error *err)
{
	int code = fill(region, range, err);

	/* They are about to be written: mapped in one call they cost less than by a fault each. Where the kernel does
	 * not know this, or has no place, they are mapped as they are met. */
	if (!code && !region->is_worker && range->size >= POPULATE_MIN)
		(void)madvise(region->bytes + range->offset, range->size, MADV_POPULATE_WRITE);
	return code;
}

static void punch(struct weir_region *region, const struct weir_range *range)
{
	int failed;

	do {
		failed = fallocate(region->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range->offset,
				   (off_t)range->size);
	} while (failed && errno == EINTR);
	/* A memfd can punch holes; a worker could only forbid it by seals that also forbid it to write. */
	WEIR_ASSERT(!failed || region->is_worker);
}

/* Gives a taken range's pages to the kernel and the range to the free list; not under the lock. The caller counts
 * in_use down, and says in `warm` whether the pages are among the warm ones. */
static void give_cold(struct weir_store *store, struct weir_range *range, bool warm)
{
	struct weir_region *region = range->home;
	uint64_t bytes;
	bool over;

	punch(region, range);
	pthread_mutex_lock(&store->lock);
	bytes = backed_bytes(region, range);
	backed_set(region, range, false);
	if (warm)
		store->warm -= (int64_t)bytes;
	weir_space_give(region->space, range);
	over = --region->in_use == 0 && region->is_released;
	if (over)
		region_unlink(store, region);
	pthread_mutex_unlock(&store->lock);
	weir_account_discharge(&store->memory, (int64_t)bytes);
	if (over)
		region_free(region);
}

/* Takes out free ranges that have warm pages, of one region or (NULL) of any, until they hold `wanted` bytes; under the
 * lock. They come chained by `next`: all in one pass, since a region of many small chunks has as many gaps. */
static struct weir_range *take_warm(struct weir_store *store, struct weir_region *only, int64_t wanted)
{
	struct weir_range *taken = NULL;

	for (struct weir_region *region = only ? only : store->regions; region; region = only ? NULL : region->next) {
		for (struct weir_range *range = region->first; range && wanted > 0; range = range->after) {
			int64_t bytes = range->is_free ? (int64_t)backed_bytes(region, range) : 0;

			if (bytes == 0)
				continue;
			weir_space_take_range(region->space, range);
			region->in_use++;
			range->next = taken;
			taken = range;
			wanted -= bytes;
		}
	}
	return taken;
}

/* What take_warm took. Giving one may join it with others that were given, never with one that is still in the
 * chain. */
static void give_warm_cold(struct weir_store *store, struct weir_range *taken)
{
	while (taken) {
		struct weir_range *range = taken;

		taken = range->next;
		range->next = NULL;
		give_cold(store, range, true);
	}
}

void weir_store_trim(struct weir_store *store, int64_t keep_warm)
{
	for (;;) {
		struct weir_range *taken = NULL;

		pthread_mutex_lock(&store->lock);
		if (store->warm > keep_warm)
			taken = take_warm(store, NULL, store->warm - keep_warm);
		store->trimming += taken != NULL;
		pthread_mutex_unlock(&store->lock);
		if (!taken)
			return;
		give_warm_cold(store, taken);
		pthread_mutex_lock(&store->lock);
		if (--store->trimming == 0)
			pthread_cond_broadcast(&store->settled);
		pthread_mutex_unlock(&store->lock);
	}
}

/* Not under the lock. A quarter less than is allowed, so that it is not looked for at each chunk. */
static void cool(struct weir_store *store)
{
	bool is_warm;

	if (!store->warm_max)
		return;
	pthread_mutex_lock(&store->lock);
	is_warm = store->warm > store->warm_max;
	pthread_mutex_unlock(&store->lock);
	if (is_warm)
		weir_store_trim(store, store->warm_max / 4 * 3);
}

void weir_region_release(struct weir_store *store, struct weir_region *region)
{
	struct weir_range *taken;
	bool over;

	if (!region)
		return;
	WEIR_ASSERT(region->is_worker);
	for (;;) {
		pthread_mutex_lock(&store->lock);
		taken = take_warm(store, region, INT64_MAX);
		if (!taken)
			break;
		pthread_mutex_unlock(&store->lock);
		give_warm_cold(store, taken);
	}
	WEIR_ASSERT(!region->is_released);
	region->is_released = true;
	over = region->in_use == 0;
	if (over)
		region_unlink(store, region);
	pthread_mutex_unlock(&store->lock);
	if (over)
		region_free(region);
}

void weir_regions_release(struct weir_store *store)
{
	weir_store_trim(store, 0);
	while (store->regions) {
		struct weir_region *region = store->regions;

		WEIR_ASSERT(!region->is_worker && region->in_use == 0);
		region_unlink(store, region);
		region_free(region);
	}
}

/* --- taking and giving --- */

/* A range of the wanted size, its cold bytes promised; under the lock. *too_much: by how much the backstop is
 * passed. */
static struct weir_range *take(struct weir_store *store, struct weir_space *space, uint64_t size,
			       struct weir_range **spare, int64_t *cold, int64_t *too_much)
{
	struct weir_range *range = weir_space_take(space, size, spare);
	struct weir_region *region;
	int64_t warm;

	*too_much = 0;
	if (!range)
		return NULL;
	region = range->home;
	warm = (int64_t)backed_bytes(region, range);
	*cold = (int64_t)size - warm;
	if (store->resident_max && *cold > 0)
		*too_much = store->resident + store->warm + store->promised + *cold - store->resident_max;
	if (*too_much > 0) {
		weir_space_give(space, range);
		return NULL;
	}
	region->in_use++;
	store->promised += *cold;
	store->warm -= warm;
	store->resident += warm;
	return range;
}

static int over_limit(struct weir_store *store, uint64_t size, struct weir_error *err)
{
	struct weir_store_stats stats;

	weir_store_stats(store, &stats);
	return weir_error_set(err, WEIR_E_LIMIT,
			      "no room for a chunk of %llu bytes: the store holds %lld of at most %lld bytes",
			      (unsigned long long)size, (long long)stats.resident, (long long)store->resident_max);
}

/* Where it may lie: in the worker's region, in its writer's space, or in any. */
static struct weir_range *take_any(struct weir_store *store, struct weir_region *only, int writer, uint64_t size,
				   struct weir_range **spare, int64_t *cold, int64_t *too_much)
{
	struct weir_range *range = NULL;

	*too_much = 0;
	if (only || writer != STORE_BACKED)
		return take(store, only ? only->space : &store->spaces[writer % STORE_SPACES], size, spare, cold,
			    too_much);
	for (uint32_t i = 0; i < STORE_SPACES && *spare && !range && *too_much <= 0; i++)
		range = take(store, &store->spaces[i], size, spare, cold, too_much);
	return range;
}

/* Under pressure warm pages go first. */
static int find_place(struct weir_store *store, struct weir_region *only, int writer, uint64_t size,
		      struct weir_range **spare, struct weir_range **out, int64_t *cold, struct weir_error *err)
{
	bool trimmed = false;
	int64_t too_much, warm;

	for (;;) {
		pthread_mutex_lock(&store->lock);
		*out = take_any(store, only, writer, size, spare, cold, &too_much);
		/* A free range that is out may be all that a worker's region has. */
		while (!*out && only && *spare && too_much <= 0 && store->trimming > 0) {
			pthread_cond_wait(&store->settled, &store->lock);
			*out = take_any(store, only, writer, size, spare, cold, &too_much);
		}
		warm = store->warm;
		pthread_mutex_unlock(&store->lock);
		if (*out)
			return WEIR_OK;
		if (!*spare && !(*spare = weir_range_new(&store->heap, err)))
			return err->code;
		if (too_much > 0) {
			if (trimmed || warm == 0)
				return over_limit(store, size, err);
			trimmed = true;
			weir_store_trim(store, warm > too_much ? warm - too_much : 0);
		} else if (only) {
			return weir_error_set(err, WEIR_E_NO_SPACE,
					      "no room for %llu bytes in a worker's region of %llu bytes",
					      (unsigned long long)size, (unsigned long long)only->size);
		} else if (grow(store, writer == STORE_BACKED ? 0 : (uint32_t)writer % STORE_SPACES, size, err)) {
			return err->code;
		}
	}
}

int weir_region_back(const struct weir_range *range, struct weir_error *err)
{
	return fill(range->home, range, err);
}

int weir_region_write(const struct weir_range *range, uint64_t offset, const void *bytes, uint64_t size,
		      struct weir_error *err)
{
	const struct weir_region *region = range->home;
	uint64_t done = 0;

	WEIR_ASSERT(!region->is_worker && !weir_range_outside(offset, size, range->size));
	while (done < size) {
		ssize_t written = weir_fault(WEIR_FAULT_MAP)
					  ? -1
					  : pwrite(region->memfd, (const uint8_t *)bytes + done, size - done,
						   (off_t)(range->offset + offset + done));

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return weir_error_set_errno(err, errno, "no shared memory for %llu bytes",
						    (unsigned long long)(size - done));
		done += (uint64_t)written;
	}
	return WEIR_OK;
}

int weir_region_take(struct weir_store *store, struct weir_region *region, uint64_t size, int writer,
		     struct weir_range **out, struct weir_error *err)
{
	struct weir_range *spare, *range;
	int64_t cold = 0;
	int code;

	*out = NULL;
	if (size == 0 || size >> STORE_SIZE_BITS)
		return weir_error_set(err, WEIR_E_INVALID, "a chunk of %llu bytes", (unsigned long long)size);
	size = store_pages(size);
	spare = weir_range_new(&store->heap, err);
	if (!spare)
		return err->code;
	code = find_place(store, region, writer, size, &spare, &range, &cold, err);
	if (code)
		goto out;
	region = range->home;
	if (cold) {
		cool(store);
		code = weir_account_charge(&store->memory, cold, err);
		if (!code && writer == STORE_BACKED) {
			code = back(region, range, err);
			if (code)
				weir_account_discharge(&store->memory, cold);
		}
	}
	pthread_mutex_lock(&store->lock);
	store->promised -= cold;
	if (!code) {
		backed_set(region, range, true);
		store->resident += cold;
		if (store->resident + store->warm > store->peak)
			store->peak = store->resident + store->warm;
	} else {
		store->resident -= (int64_t)size - cold;
	}
	pthread_mutex_unlock(&store->lock);
	/* A failed fallocate may have undone an earlier one that was not yet written to: nothing there is trusted. */
	if (code)
		give_cold(store, range, false);
	else
		*out = range;
out:
	weir_range_free(&store->heap, spare);
	return code;
}

void weir_region_give(struct weir_store *store, struct weir_range *range, bool is_backed)
{
	struct weir_region *region = range->home;
	bool is_warm;

	pthread_mutex_lock(&store->lock);
	store->resident -= (int64_t)range->size;
	is_warm = is_backed && !region->is_released;
	if (is_warm) {
		store->warm += (int64_t)range->size;
		weir_space_give(region->space, range);
		region->in_use--;
	}
	pthread_mutex_unlock(&store->lock);
	if (is_warm)
		cool(store);
	else
		give_cold(store, range, false);
}
