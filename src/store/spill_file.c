/* spill_file: chunks leave memory for a file and come back byte for byte, or not at all.
 *
 * Chunks lie in the file as they lay in memory, each on a page boundary, so that other programs can open them there and
 * the file may be read and written past the page cache:
 *
 *     0                    4096                          12288
 *     ┌──────────────┬─────┬───────────────────────┬─────┬────────────
 *     │ chunk        │ gap │ chunk                 │ gap │ …
 *     └──────────────┴─────┴───────────────────────┴─────┴────────────
 *
 * Place and checksum stand in the extent, in memory, not in the file: there is no header to trust, and an extent that
 * points to another chunk's bytes fails its checksum. A dropped extent's place in the file goes to the free list; the
 * space of all that are free goes back to the file system, neighbours together, when they are more than what is in use,
 * or when the last was dropped: a hole costs the file system a transaction, and all who write have to wait for it. Much
 * of it goes back in a thread of its own, since some systems tell the disk of every block at once, which takes as long
 * as to write it. Space is fallocated before it is written, much at once, where the file system can, so that a full
 * disk is known before anything is copied.
 *
 * A folder on a tmpfs is memory. What lies there is counted apart, so that whoever keeps a limit can count it too, and
 * bounded: beyond that the folder is full. Nothing is reserved ahead there, and what is dropped goes at once.
 *
 * The file has no name from the start; the kernel cleans up however the process ends. It is opened when first needed:
 * most runs never spill.
 *
 * Threads: extents are taken and given under the store's lock, read and written outside it. pwrite and pread share no
 * position. The thread that gives space back has taken the ranges that it punches; it ends by itself, or with the file.
 */
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/nameless.h"
#include "store/store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SPILL_HINT "; if it happens again, let spill_dir be on another disk"

enum { DROPPED_BYTES = 32 << 20, HOLE_BYTES = 256 << 10, PUNCH_BYTES = 64 << 20, RESERVE_BYTES = 16 << 20 };

int weir_spill_file_open(struct weir_spill_file *file, struct weir_error *err)
{
	struct weir_store *store = file->store;
	struct statfs system;
	bool is_open, is_memory;
	int fd;

	pthread_mutex_lock(&store->lock);
	is_open = file->is_open;
	pthread_mutex_unlock(&store->lock);
	if (is_open)
		return WEIR_OK;
	fd = weir_open_nameless(file->directory);
	if (fd < 0)
		return weir_error_set_errno(err, errno, "%s: cannot spill there", file->directory);
	is_memory = !fstatfs(fd, &system) && system.f_type == TMPFS_MAGIC;
	pthread_mutex_lock(&store->lock);
	is_open = file->is_open; /* by another thread meanwhile */
	if (!is_open) {
		file->is_open = true;
		file->is_memory = is_memory;
		file->fd = fd;
	}
	pthread_mutex_unlock(&store->lock);
	if (is_open)
		close(fd);
	else if (is_memory)
		weir_log(
			WEIR_LOG_WARN,
			"spilling to %s, which is a tmpfs: that is memory and counts as such, a folder on a disk would help",
			file->directory);
	return WEIR_OK;
}

/* --- extents; under the lock --- */

static struct weir_range *extent_take(struct weir_spill_file *file, uint64_t size, struct weir_range **spares)
{
	struct weir_range *range = weir_space_take(&file->space, size, &spares[0]);

	if (!range) {
		weir_space_add(&file->space, spares[1], file, file->last, file->size, size);
		spares[1] = NULL;
		file->size += size;
		/* At least as long as wanted: it may have been joined with a free end. */
		range = weir_space_take(&file->space, size, &spares[0]);
	}
	if (!range->after)
		file->last = range;
	else if (!range->after->after)
		file->last = range->after;
	file->taken += range->size;
	return range;
}

static void extent_give(struct weir_spill_file *file, struct weir_range *range)
{
	range = weir_space_give(&file->space, range);
	if (!range->after)
		file->last = range;
}

/* --- bytes --- */

static int allocate(const struct weir_spill_file *file, uint64_t begin, uint64_t end)
{
	int failed;

	do {
		failed = fallocate(file->fd, 0, (off_t)begin, (off_t)(end - begin));
	} while (failed && errno == EINTR);
	return failed && errno != EOPNOTSUPP && errno != ENOSYS ? -1 : 0;
}

/* Space for the range. Where it was used before, and has gone back since, writing itself finds out whether there is
 * some. */
static int reserve(struct weir_spill_file *file, const struct weir_range *range)
{
	struct weir_store *store = file->store;
	uint64_t begin, end = range->offset + range->size;

	if (file->is_memory)
		return allocate(file, range->offset, end);
	pthread_mutex_lock(&store->lock);
	begin = file->reserved;
	if (end > begin) {
		begin = begin > range->offset ? begin : range->offset;
		file->reserved = end + RESERVE_BYTES;
	} else {
		end = 0;
	}
	pthread_mutex_unlock(&store->lock);
	if (!end || !allocate(file, begin, end + RESERVE_BYTES))
		return 0;
	pthread_mutex_lock(&store->lock);
	file->reserved = end;
	pthread_mutex_unlock(&store->lock);
	return allocate(file, range->offset, end);
}

/* Pieces one behind the other into [offset, offset + size) of the file. */
static int write_pieces(struct weir_spill_file *file, const struct weir_spool_piece *pieces, uint32_t count,
			uint64_t offset, uint64_t size, struct weir_error *err)
{
	struct iovec vector[WEIR_SPOOL_PIECES_MAX];
	struct iovec *next = vector;
	uint64_t done = 0;
	bool is_limit;

	WEIR_ASSERT(count <= WEIR_SPOOL_PIECES_MAX);
	for (uint32_t i = 0; i < count; i++)
		vector[i] = (struct iovec){.iov_base = (void *)pieces[i].bytes, .iov_len = pieces[i].size};
	/* Whole pages, as ranges are: of others the last block would not come back. */
	if (reserve(file, &(struct weir_range){.offset = offset, .size = store_pages(size)}))
		goto fail;
	while (done < size) {
		ssize_t n = weir_fault(WEIR_FAULT_WRITE)
				    ? -1
				    : pwritev(file->fd, next, (int)(count - (uint32_t)(next - vector)),
					      (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			goto fail;
		done += (uint64_t)n;
		for (; n > 0 && (size_t)n >= next->iov_len; next++)
			n -= (ssize_t)next->iov_len;
		if (n > 0) {
			next->iov_base = (uint8_t *)next->iov_base + n;
			next->iov_len -= (size_t)n;
		}
	}
	return WEIR_OK;
fail:
	/* A limit on file sizes is, to whoever spills, a full disk. */
	is_limit = errno == EFBIG;
	return weir_error_set_errno(err, is_limit ? ENOSPC : errno, "%s: cannot spill %llu bytes%s", file->directory,
				    (unsigned long long)size,
				    is_limit ? ", more than the limit on file sizes (ulimit -f) allows" : "");
}

static void punch(const struct weir_spill_file *file, uint64_t offset, uint64_t size)
{
	/* Where holes cannot be punched the space comes back with the file: not an error. */
	(void)!fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

int weir_spill_file_take(struct weir_spill_file *file, uint64_t size, struct weir_range **out, struct weir_error *err)
{
	struct weir_store *store = file->store;
	struct weir_range *spares[2] = {NULL, NULL};
	int code = weir_spill_file_open(file, err);

	if (code)
		return code;
	for (int i = 0; i < 2; i++) {
		spares[i] = weir_range_new(&store->heap, err);
		if (!spares[i]) {
			code = err->code;
			goto out;
		}
	}
	pthread_mutex_lock(&store->lock);
	if (file->is_memory && store->spill_memory_max &&
	    store->spilled_memory + (int64_t)store_pages(size) > store->spill_memory_max) {
		code = weir_error_set(
			err, WEIR_E_NO_SPACE,
			"%s: cannot spill %llu bytes: it is a tmpfs, which is memory, and %lld bytes of it are all that "
			"the memory limit leaves: choose a folder on a disk",
			file->directory, (unsigned long long)size, (long long)store->spill_memory_max);
	} else {
		*out = extent_take(file, store_pages(size), spares);
		store->spilled_memory += file->is_memory ? (int64_t)(*out)->size : 0;
	}
	pthread_mutex_unlock(&store->lock);
out:
	for (int i = 0; i < 2; i++)
		weir_range_free(&store->heap, spares[i]);
	return code;
}

int weir_spill_file_fill(const struct weir_range *range, uint64_t offset, const struct weir_spool_piece *pieces,
			 uint32_t count, uint64_t size, struct weir_error *err)
{
	WEIR_ASSERT(offset + size <= range->size);
	return write_pieces(range->home, pieces, count, range->offset + offset, size, err);
}

int weir_spill_file_write(struct weir_spill_file *file, const uint8_t *bytes, uint64_t size, struct weir_extent *out,
			  struct weir_error *err)
{
	int code = weir_spill_file_take(file, size, &out->range, err);

	if (code)
		return code;
	code = weir_spill_file_fill(out->range, 0, &(struct weir_spool_piece){bytes, size}, 1, size, err);
	if (code)
		weir_spill_file_drop(*out);
	else
		out->crc = weir_crc32c(0, bytes, size);
	return code;
}

int weir_spill_file_get(const struct weir_range *range, uint64_t offset, uint32_t crc, uint8_t *bytes, uint64_t size,
			struct weir_error *err)
{
	const struct weir_spill_file *file = range->home;
	uint64_t done = 0;

	offset += range->offset;
	while (done < size) {
		ssize_t n = weir_fault(WEIR_FAULT_READ)
				    ? -1
				    : pread(file->fd, bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			weir_error_set_errno(err, errno, "cannot read back %llu spilled bytes",
					     (unsigned long long)size);
		else if (n == 0)
			weir_error_set(
				err, WEIR_E_SPILL_CORRUPT,
				"the spill file ends inside a chunk of %llu bytes: something has truncated it" SPILL_HINT,
				(unsigned long long)size);
		if (n <= 0)
			goto fail;
		done += (uint64_t)n;
	}
	if (weir_crc32c(0, bytes, size) == crc)
		return WEIR_OK;
	weir_error_set(err, WEIR_E_SPILL_CORRUPT, "a spilled chunk of %llu bytes came back changed" SPILL_HINT,
		       (unsigned long long)size);
fail:
	weir_error_at_source(err, file->directory);
	weir_error_at_offset(err, offset);
	return err->code;
}

int weir_spill_file_read(struct weir_extent extent, uint8_t *bytes, uint64_t size, struct weir_error *err)
{
	return weir_spill_file_get(extent.range, 0, extent.crc, bytes, size, err);
}

void weir_spill_file_expect(struct weir_extent extent, uint64_t size)
{
	const struct weir_spill_file *file = extent.range->home;

	/* Where it is not done, reading is slower, that is all. */
	(void)!posix_fadvise(file->fd, (off_t)extent.range->offset, (off_t)size, POSIX_FADV_WILLNEED);
}

/* --- space goes back --- */

/* Free ranges that are worth a hole become the file's holes, if there is enough of them. Under the lock; their
 * bytes. */
static uint64_t take_holes(struct weir_spill_file *file)
{
	uint64_t bytes = 0;

	if (!file->dropped || (file->taken && (file->dropped < DROPPED_BYTES || file->dropped < file->taken)))
		return 0;
	file->dropped = 0;
	for (struct weir_range *range = file->last; range; range = range->before) {
		if (!range->is_free || (file->taken && range->size < HOLE_BYTES))
			continue;
		weir_space_take_range(&file->space, range);
		range->next = file->holes;
		file->holes = range;
		bytes += range->size;
	}
	return bytes;
}

/* Punches the holes, and those that there are then. Not under the lock. */
static void sweep(struct weir_spill_file *file)
{
	struct weir_store *store = file->store;
	bool is_ending = false;

	do {
		/* Nobody else looks at them; those who end do not wait for more than one step. */
		for (const struct weir_range *range = file->holes; range; range = range->next) {
			for (uint64_t done = 0; done < range->size && !is_ending; done += PUNCH_BYTES) {
				punch(file, range->offset + done,
				      range->size - done < PUNCH_BYTES ? range->size - done : PUNCH_BYTES);
				pthread_mutex_lock(&store->lock);
				is_ending = file->is_ending;
				pthread_mutex_unlock(&store->lock);
			}
		}
		pthread_mutex_lock(&store->lock);
		while (file->holes) {
			struct weir_range *range = file->holes;

			file->holes = range->next;
			range->next = NULL;
			extent_give(file, range);
		}
		file->is_sweeping = !is_ending && take_holes(file);
		is_ending = !file->is_sweeping;
		pthread_mutex_unlock(&store->lock);
	} while (!is_ending);
}

static void *sweeper_main(void *file)
{
	sweep(file);
	return NULL;
}

void weir_spill_file_drop(struct weir_extent extent)
{
	struct weir_spill_file *file = extent.range->home;
	uint64_t bytes = 0;
	bool is_here = false;

	if (file->is_memory)
		punch(file, extent.range->offset, extent.range->size);
	pthread_mutex_lock(&file->store->lock);
	file->taken -= extent.range->size;
	file->dropped += file->is_memory ? 0 : extent.range->size;
	file->store->spilled_memory -= file->is_memory ? (int64_t)extent.range->size : 0;
	extent_give(file, extent.range);
	/* Nobody has written there, so that takes no time. */
	if (!file->taken && file->reserved > file->size) {
		punch(file, file->size, file->reserved - file->size);
		file->reserved = file->size;
	}
	if (!file->is_sweeping) {
		bytes = take_holes(file);
		file->is_sweeping = bytes > 0;
	}
	if (bytes) {
		/* The one before has let go of the lock for the last time. */
		if (file->has_sweeper)
			pthread_join(file->sweeper, NULL);
		file->has_sweeper = bytes >= DROPPED_BYTES && !pthread_create(&file->sweeper, NULL, sweeper_main, file);
		is_here = !file->has_sweeper;
	}
	pthread_mutex_unlock(&file->store->lock);
	if (is_here)
		sweep(file);
}

void weir_spill_file_release(struct weir_spill_file *file)
{
	if (!file->store)
		return;
	pthread_mutex_lock(&file->store->lock);
	file->is_ending = true;
	pthread_mutex_unlock(&file->store->lock);
	if (file->has_sweeper)
		pthread_join(file->sweeper, NULL);
	if (file->last)
		weir_space_remove(&file->space, file->last);
	if (file->is_open)
		close(file->fd);
	weir_strfree(&file->store->heap, file->directory);
	*file = (struct weir_spill_file){0};
}
