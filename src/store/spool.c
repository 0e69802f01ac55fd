/* spool: many small pieces on disk, one behind the other, of whoever writes them.
 *
 *     extents of the spill file, taken as they are needed:   │ piece │ piece │ piece │ … free │        │ piece │ … │
 *                                                            └ a place: extent, page, CRC32C, kept by the caller
 *
 * A chunk that is spilled has some two hundred bytes of bookkeeping and was in the store's memory before; of pieces of
 * a few pages, of which there are a hundred thousand, that is too much. Here neighbours are written by one call,
 * whomever they belong to, and nothing is given back before the end, which is one step for each extent.
 *
 * Threads: whoever writes is one thread; readers look at places only that were told to them afterwards. Figures of the
 * store are under its lock.
 */
#include "base/hash.h"
#include "base/list.h"
#include "store/store_impl.h"

#include <stdio.h>

enum { EXTENT_BYTES = 4 << 20, EXTENT_BYTES_MEMORY = 256 << 10 };

enum { DENSE_UNIT = 64 };

static uint64_t unit_of(const struct weir_spool *spool)
{
	return spool->is_dense ? DENSE_UNIT : STORE_PAGE;
}

void weir_spool_init(struct weir_spool *spool, struct weir_store *store)
{
	*spool = (struct weir_spool){.store = store};
}

/* A new one in some file, from number `first` on. Where the pieces are large it has room for them alone. */
static int extent_open(struct weir_spool *spool, uint32_t number, uint64_t size, struct weir_error *err)
{
	struct weir_store *store = spool->store;
	struct weir_spill_file *file = &store->files[number % store->file_count];
	struct weir_range *range = NULL;
	uint64_t wanted;
	int code = weir_list_reserve(&spool->extents, &store->heap, err, spool->extents.count + 1);

	if (!code)
		code = weir_spill_file_open(file, err);
	if (code)
		return code;
	wanted = file->is_memory ? EXTENT_BYTES_MEMORY : EXTENT_BYTES;
	code = weir_spill_file_take(file, spool->is_dense || size > wanted / 4 ? size : wanted, &range, err);
	if (code)
		return code;
	spool->extents.items[spool->extents.count] = range;
	spool->open = spool->extents.count++;
	spool->used = 0;
	return WEIR_OK;
}

static uint64_t room_of(const struct weir_spool *spool)
{
	return spool->extents.count ? spool->extents.items[spool->open]->size - spool->used : 0;
}

/* Pieces one behind the other, each but the last of whole units, all of which have `size`. */
static int write_run(struct weir_spool *spool, const struct weir_spool_piece *pieces, uint32_t count, uint64_t size,
		     struct weir_error *err)
{
	struct weir_store *store = spool->store;
	char all[sizeof(err->message)];
	size_t length = 0;
	uint32_t first;
	int code = WEIR_E_IO;

	pthread_mutex_lock(&store->lock);
	first = store->file_next++;
	pthread_mutex_unlock(&store->lock);
	/* Each directory in turn, as for chunks. */
	for (uint32_t i = 0; i < store->file_count; i++) {
		int now = i || room_of(spool) < size ? extent_open(spool, first + i, size, err) : WEIR_OK;

		if (!now)
			now = weir_spill_file_fill(spool->extents.items[spool->open], spool->used, pieces, count, size,
						   err);
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

static int count_written(struct weir_spool *spool, uint64_t size, struct weir_error *err)
{
	struct weir_store *store = spool->store;
	int code = WEIR_OK;

	pthread_mutex_lock(&store->lock);
	if (store->spill_max && store->spilled + (int64_t)size > store->spill_max) {
		code = weir_error_set(err, WEIR_E_NO_SPACE, "%s: %llu bytes would pass the spill limit of %lld bytes",
				      store->files[0].directory, (unsigned long long)size, (long long)store->spill_max);
	} else {
		store->spilled += (int64_t)size;
		store->spill_writes++;
		store->spill_bytes_written += size;
		spool->written += size;
	}
	pthread_mutex_unlock(&store->lock);
	return code;
}

int weir_spool_write(struct weir_spool *spool, const struct weir_spool_piece *pieces, uint32_t count,
		     struct weir_spool_place *places, struct weir_error *err)
{
	for (uint32_t first = 0, end; first < count; first = end) {
		uint64_t size = pieces[first].size, room = room_of(spool), at;
		int code;

		if (spool->is_dense && room < size)
			room = UINT64_MAX;
		for (end = first + 1; end < count && end - first < WEIR_SPOOL_PIECES_MAX && size % unit_of(spool) == 0;
		     end++) {
			if (size + pieces[end].size > room)
				break;
			size += pieces[end].size;
		}
		code = count_written(spool, store_pages(size), err);
		if (!code)
			code = write_run(spool, pieces + first, end - first, size, err);
		if (code)
			return code;
		at = spool->used;
		spool->used += store_pages(size);
		for (uint32_t i = first; i < end; i++) {
			places[i] = (struct weir_spool_place){.extent = (uint32_t)spool->open,
							      .unit = (uint32_t)(at / unit_of(spool)),
							      .crc = weir_crc32c(0, pieces[i].bytes, pieces[i].size)};
			at += pieces[i].size;
		}
	}
	return WEIR_OK;
}

int weir_spool_read(const struct weir_spool *spool, struct weir_spool_place place, uint8_t *to, uint64_t size,
		    struct weir_error *err)
{
	struct weir_store *store = spool->store;
	int code = weir_spill_file_get(spool->extents.items[place.extent], place.unit * unit_of(spool), place.crc, to,
				       size, err);

	pthread_mutex_lock(&store->lock);
	store->spill_reads += !code;
	store->spill_bytes_read += code ? 0 : size;
	pthread_mutex_unlock(&store->lock);
	return code;
}

void weir_spool_expect(const struct weir_spool *spool, struct weir_spool_place place, uint64_t size)
{
	struct weir_range part = *spool->extents.items[place.extent];

	part.offset += place.unit * unit_of(spool);
	weir_spill_file_expect((struct weir_extent){.range = &part}, size);
}

void weir_spool_release(struct weir_spool *spool)
{
	if (!spool->store)
		return;
	for (size_t i = 0; i < spool->extents.count; i++)
		weir_spill_file_drop((struct weir_extent){.range = spool->extents.items[i]});
	weir_list_release(&spool->extents, &spool->store->heap);
	pthread_mutex_lock(&spool->store->lock);
	spool->store->spilled -= (int64_t)spool->written;
	pthread_mutex_unlock(&spool->store->lock);
	*spool = (struct weir_spool){0};
}
