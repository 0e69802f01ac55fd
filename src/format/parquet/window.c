/* Windows: the bytes of the file that leaves read their pages from, and the memory that pages lie in.
 *
 * A leaf reads its chunk in windows (page.c says how large). Files with many columns and small row groups have chunks
 * of a few KiB, one after the other: read one by one that is a system call for each. So when leaves are asked for in
 * the order in which their chunks lie, the next ones are read along into the reader's `run`, and each leaf has its
 * window there:
 *
 *     chunks   │ c0 │ c1 │ c2 │ c3 │ … │ c9 │ not scanned │ c11 │
 *     read      one  ╰──── one run ────────╯               one
 *
 * The next run takes the place of the last. A leaf that comes back for more of its chunk finds its window gone and
 * reads it by itself; a vector that points into the run keeps it until it is gone itself. Pages that are stored
 * uncompressed and serve several vectors are copied out.
 *
 * A row group's first bytes, and what follows a window, are announced to the kernel, which reads them while we inflate.
 */
#include "base/checked.h"
#include "format/parquet/read_impl.h"

#include <string.h>

enum {
	RUN_CHUNK_MAX = 64 << 10, /* larger chunks are read by themselves */
	RUN_MAX = 512 << 10,
	ADVISE_MAX = 8 << 20, /* of a row group, when it is opened */
	ADVISE_CALLS_MAX = 16,
};

/* A little more than asked for, in steps of a quarter (a sixteenth of what is large), so that pages of about one size
 * share one buffer. */
static size_t capacity_for(size_t size)
{
	int below = size < (4 << 20) ? 2 : 4;
	size_t step = (size_t)1 << (size < 512 ? 6 : 63 - __builtin_clzll(size) - below);

	return weir_round_up(size, step);
}

int parquet_memory_reserve(struct weir_account *account, struct parquet_memory *buffer, size_t size,
			   struct weir_error *err)
{
	size_t capacity = capacity_for(size + PARQUET_PAD);

	if (buffer->data && buffer->capacity >= size + PARQUET_PAD)
		return WEIR_OK;
	parquet_memory_release(account, buffer);
	buffer->data = weir_alloc(account, capacity, err);
	if (!buffer->data)
		return err->code;
	buffer->capacity = capacity;
	return WEIR_OK;
}

void parquet_memory_release(struct weir_account *account, struct parquet_memory *buffer)
{
	if (buffer->data)
		weir_free(account, buffer->data, buffer->capacity);
	*buffer = (struct parquet_memory){0};
}

/* Lets go of a buffer: at once, or when the vector that may point into it is gone. */
int parquet_memory_retire(struct parquet_leaf *leaf, struct parquet_memory *buffer, bool handed, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;

	if (!buffer->data)
		return WEIR_OK;
	if (!handed) {
		parquet_memory_release(reader->account, buffer);
		return WEIR_OK;
	}
	if (weir_list_push(&reader->retired, reader->account, err, *buffer))
		return err->code;
	*buffer = (struct parquet_memory){0};
	return WEIR_OK;
}

void parquet_window_check(struct parquet_leaf *leaf)
{
	if (leaf->window_run && leaf->window_run != leaf->reader->run_number) {
		leaf->window_run = 0;
		leaf->window_size = 0;
	}
}

static int run_read(struct parquet_reader *reader, uint64_t offset, uint64_t end, struct parquet_leaf *leaf,
		    struct weir_error *err)
{
	size_t size = (size_t)(end - offset);

	reader->run_size = 0;
	reader->run_number++;
	if (reader->run_handed && parquet_memory_retire(leaf, &reader->run, true, err))
		return err->code;
	reader->run_handed = false;
	if (parquet_memory_reserve(reader->account, &reader->run, size, err) ||
	    weir_file_read(reader->file->base.file, offset, reader->run.data, size, err))
		return err->code;
	memset(reader->run.data + size, 0, PARQUET_PAD);
	reader->run_offset = offset;
	reader->run_size = size;
	reader->stats.bytes_read += size;
	return WEIR_OK;
}

/* The first `size` bytes of a small chunk in the run, which is read when the chunk before this one was the last that
 * was wanted. False when it is not there. */
static int run_take(struct parquet_leaf *leaf, size_t size, bool *taken, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	uint64_t offset = leaf->chunk_begin, end;
	bool is_next = reader->run_next == offset;

	*taken = false;
	reader->run_next = leaf->chunk_end;
	if (leaf->run_end <= leaf->chunk_end || leaf->chunk_end - leaf->chunk_begin > RUN_CHUNK_MAX || reader->is_tight)
		return WEIR_OK;
	if (reader->run_size == 0 || offset < reader->run_offset ||
	    weir_range_outside(offset - reader->run_offset, size, reader->run_size)) {
		if (!is_next)
			return WEIR_OK;
		end = leaf->run_end - offset < RUN_MAX ? leaf->run_end : offset + RUN_MAX;
		if (end < offset + size)
			return WEIR_OK;
		if (run_read(reader, offset, end, leaf, err))
			return err->code;
	}
	leaf->window_at = reader->run.data + (offset - reader->run_offset);
	leaf->window_run = reader->run_number;
	leaf->window_offset = offset;
	leaf->window_size = size;
	*taken = true;
	return WEIR_OK;
}

int parquet_window_fetch(struct parquet_leaf *leaf, uint64_t offset, size_t size, const uint8_t **out,
			 struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	struct weir_file *file = reader->file->base.file;
	size_t kept = 0, want = size;
	const uint8_t *kept_at = NULL;
	struct parquet_memory fresh = {0};
	bool taken = false;

	parquet_window_check(leaf);
	if (leaf->window_size && offset >= leaf->window_offset &&
	    !weir_range_outside(offset - leaf->window_offset, size, leaf->window_size)) {
		*out = leaf->window_at + (offset - leaf->window_offset);
		return WEIR_OK;
	}
	if (want < leaf->readahead)
		want = leaf->readahead;
	if (want > leaf->chunk_end - offset)
		want = leaf->chunk_end - offset;
	if (offset == leaf->chunk_begin && run_take(leaf, want, &taken, err))
		goto fail;
	if (taken) {
		*out = leaf->window_at;
		return WEIR_OK;
	}
	if (leaf->window_size && offset >= leaf->window_offset && offset < leaf->window_offset + leaf->window_size) {
		kept_at = leaf->window_at + (offset - leaf->window_offset);
		kept = leaf->window_size - (size_t)(offset - leaf->window_offset);
	}
	if (leaf->handed_window || leaf->window.capacity < want + PARQUET_PAD) {
		if (!leaf->handed_window && !kept) {
			leaf->window_size = 0;
			parquet_memory_release(reader->account, &leaf->window);
		}
		if (parquet_memory_reserve(reader->account, &fresh, want, err))
			return err->code;
		if (kept)
			memcpy(fresh.data, kept_at, kept);
		if (parquet_memory_retire(leaf, &leaf->window, leaf->handed_window, err)) {
			parquet_memory_release(reader->account, &fresh);
			return err->code;
		}
		leaf->window = fresh;
		leaf->handed_window = false;
	} else if (kept) {
		memmove(leaf->window.data, kept_at, kept);
	}
	leaf->window_at = leaf->window.data;
	leaf->window_run = 0;
	leaf->window_offset = offset;
	leaf->window_size = kept;
	if (weir_file_read(file, offset + kept, leaf->window.data + kept, want - kept, err))
		goto fail;
	reader->stats.bytes_read += want - kept;
	/* The next window, if pages are being taken one after the other. */
	if (want == reader->window_bytes_max && offset + want < leaf->chunk_end)
		weir_file_advise(file, offset + want, want);
	leaf->window_size = want;
	memset(leaf->window.data + want, 0, PARQUET_PAD);
	*out = leaf->window.data;
	return WEIR_OK;
fail:
	weir_error_at_column(err, leaf->info->path);
	return err->code;
}

/* Leaves of the reader in the order of the scan, from the last to the first. */
static struct parquet_leaf *leaf_before(struct parquet_reader *reader, uint32_t *column, uint32_t *leaf)
{
	while (*leaf == 0) {
		if (*column == 0)
			return NULL;
		(*column)--;
		*leaf = reader->columns[*column].leaf_count;
	}
	(*leaf)--;
	return &reader->columns[*column].leaves[*leaf];
}

void parquet_windows_plan(struct parquet_reader *reader)
{
	uint32_t column = reader->column_count, number = 0, calls = 0;
	uint64_t begin = 0, end = 0, total = 0, next_begin = 0, next_end = 0;
	struct parquet_leaf *leaf;

	reader->run_size = 0;
	reader->run_next = 0;
	while ((leaf = leaf_before(reader, &column, &number))) {
		leaf->run_end = leaf->chunk_end == next_begin ? next_end : leaf->chunk_end;
		next_begin = leaf->chunk_begin;
		next_end = leaf->run_end;
	}
	/* Announce the first bytes of each chunk, neighbours together. */
	for (column = 0; column < reader->column_count && calls < ADVISE_CALLS_MAX && total < ADVISE_MAX; column++) {
		for (number = 0; number < reader->columns[column].leaf_count; number++) {
			uint64_t some;

			leaf = &reader->columns[column].leaves[number];
			some = leaf->chunk_end - leaf->chunk_begin;
			some = some < reader->window_bytes_max ? some : reader->window_bytes_max;
			if (leaf->chunk_begin != end || end == 0) {
				if (end > begin) {
					weir_file_advise(reader->file->base.file, begin, end - begin);
					calls++;
				}
				begin = leaf->chunk_begin;
			}
			end = leaf->chunk_begin + some;
			total += some;
		}
	}
	if (end > begin)
		weir_file_advise(reader->file->base.file, begin, end - begin);
}
