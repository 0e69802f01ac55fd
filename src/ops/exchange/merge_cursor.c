/* Cursors: the next rows of each run that is merged, and their keys; large rows when their turn has come. */
#include "ops/exchange/merge_impl.h"

#include <string.h>

enum { KEYS_BYTES = 128 << 10 }; /* that are read at once, but for one key that is larger */

uint32_t weir_cursor_key_width(const struct weir_merge *merge)
{
	return merge->key_columns.width > WEIR_FENCE_BYTES ? 0 : merge->key_columns.width;
}

void weir_cursor_close(struct cursor *cursor)
{
	weir_batch_unref(cursor->opened);
	cursor->opened = NULL;
	if (cursor->pinned)
		weir_chunk_unpin(cursor->pinned);
	cursor->pinned = NULL;
	cursor->is_unread = cursor->is_cut = false;
	weir_key_list_clear(&cursor->few);
}

/* Which comes first where keys are equal. */
static bool is_before(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	return run->split != bound->split ? run->split < bound->split : run->part < bound->part;
}

static bool is_of_run(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	return bound->row >= 0 && run->split == bound->split && run->part == bound->part;
}

/* Whether a row of a run with this key comes before the bound, which is of another run. */
static bool key_is_before(const struct weir_sorted_run *run, const uint8_t *key, uint32_t size,
			  const struct weir_bound *bound)
{
	int order = weir_key_compare(key, size, bound->key, bound->key_size);

	return order ? order < 0 : is_before(run, bound);
}

int weir_cursor_read_keys(struct weir_merge *merge, struct cursor *cursor, int64_t first, int64_t count,
			  struct weir_error *err)
{
	struct weir_vector rows = {.row_count = (uint32_t)count,
				   .selection = {.count = (uint32_t)count},
				   .column_count = merge->schema->field_count,
				   .columns = merge->key_columns_of,
				   .source_row = -1};
	int code = WEIR_OK;

	weir_arena_clear(&merge->key_arena);
	for (uint32_t k = 0; k < merge->key_columns.count && !code; k++) {
		uint32_t column = merge->key_columns.keys[k].column;

		code = weir_column_from_array(cursor->batch->columns[column], first, (uint32_t)count, &merge->key_arena,
					      &rows.columns[column], err);
	}
	weir_key_list_clear(&cursor->few);
	return code ? code : weir_key_list_push(&cursor->few, &merge->key_columns, &rows, err);
}

/* The first of the open chunk's rows that is not before the bound. */
static int rows_before(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk,
		       const struct weir_bound *bound, int64_t *out, struct weir_error *err)
{
	/* in the batch */
	int64_t low = 0, high = chunk->row_count, before = cursor->run->reserved ? chunk->row_first : 0;

	if (is_of_run(cursor->run, bound)) {
		low = bound->row - chunk->row_first;
		*out = low < 0 ? 0 : low > high ? high : low;
		return WEIR_OK;
	}
	if (cursor->is_unread) {
		*out = key_is_before(cursor->run, chunk->fence, chunk->fence_size, bound);
		return WEIR_OK;
	}
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		int code = weir_cursor_read_keys(merge, cursor, before + middle, 1, err);
		const uint8_t *key;
		uint32_t size;

		if (code)
			return code;
		key = weir_key_at(&cursor->few, 0, &size);
		if (key_is_before(cursor->run, key, size, bound))
			low = middle + 1;
		else
			high = middle;
	}
	*out = low;
	return WEIR_OK;
}

/* The first row of a run that has its keys, in its order, that is not before the bound. */
static int64_t rows_lying_before(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	int64_t low = 0, high = run->row_count;

	if (is_of_run(run, bound))
		return bound->row < high ? bound->row : high;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		uint32_t size;
		const uint8_t *key = weir_key_at(&run->keys, (size_t)middle, &size);

		if (key_is_before(run, key, size, bound))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether the first row of a chunk is before the bound. NULL: there is no chunk. */
static bool chunk_is_before(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk,
			    const struct weir_bound *bound)
{
	if (!chunk)
		return false;
	return is_of_run(run, bound) ? chunk->row_first <= bound->row
				     : key_is_before(run, chunk->fence, chunk->fence_size, bound);
}

/* The last chunk whose first row is before the bound, or the first one: rows in front of the bound may be in it. */
static size_t chunk_of(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	size_t low = 0, high = run->chunks.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (chunk_is_before(run, &run->chunks.items[middle], bound))
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

/* Whether all rows of a chunk are before the bound, which is a mark or the beginning of a piece: where that is known
 * without looking at them. */
static bool chunk_is_over(const struct weir_run_chunk *chunk, const struct weir_bound *bound)
{
	uint64_t number;

	if (chunk->mark && bound->mark)
		return chunk->mark <= bound->mark;
	if (!chunk->repeats.count || bound->row >= 0 || bound->key_size < 1 + sizeof(number))
		return false;
	memcpy(&number, bound->key + 1, sizeof(number));
	return chunk->repeats.items[chunk->repeats.count - 1].number < __builtin_bswap64(number);
}

/* So many rows, or more, are in front of the bound. */
static int64_t row_of(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	return bound && run->chunks.count ? run->chunks.items[chunk_of(run, bound)].row_first : 0;
}

void weir_runs_forget(struct weir_sorted_run *const *runs, size_t count, const struct weir_bound *from,
		      const struct weir_bound *to)
{
	struct weir_forgotten forgotten = {0};

	for (size_t i = 0; i < count; i++)
		weir_run_forget(runs[i], row_of(runs[i], from), row_of(runs[i], to), &forgotten);
	weir_forget_flush(&forgotten);
}

static int chunk_bytes(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk,
		       const uint8_t **out, struct weir_error *err)
{
	size_t size;
	int code;

	if (chunk->chunk) {
		code = weir_chunk_pin(chunk->chunk, out, err);
		if (!code)
			cursor->pinned = chunk->chunk;
		return code;
	}
	if (!cursor->copy) {
		size = weir_run_chunk_footprint(chunk);
		cursor->copy = weir_alloc(&merge->account, size, err);
		if (!cursor->copy)
			return err->code;
		cursor->copy_size = size;
	}
	*out = cursor->copy;
	return weir_run_chunk_read(cursor->run, chunk, cursor->copy, err);
}

void weir_cursor_show_cells(struct weir_merge *merge, struct cursor *cursor)
{
	size_t number = (size_t)(cursor - merge->cursors);

	for (uint32_t i = 0; i < merge->schema->field_count; i++) {
		struct weir_cells *cells = &merge->cells[i * merge->cursor_count + number];

		weir_cells_init(cells, cursor->batch->columns[i]);
		merge->has_nulls[i] = merge->has_nulls[i] || weir_cells_have_nulls(cells);
	}
}

/* About what the keys of the cursor's next rows take. */
static int64_t next_keys_bytes(const struct weir_merge *merge, const struct cursor *cursor, int64_t count)
{
	int64_t bytes = 0;

	for (uint32_t k = 0; k < merge->key_columns.count; k++)
		bytes += weir_array_rows_bytes(cursor->batch->columns[merge->key_columns.keys[k].column], cursor->row,
					       count);
	return bytes;
}

int weir_cursor_show(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	int64_t left = cursor->row_end - cursor->row, known = weir_cursor_known(merge, cursor);
	int64_t most = left < merge->keys_max ? left : merge->keys_max;

	if (known == left)
		return WEIR_OK;
	/* Long keys are copies of much, and may come many at a time among short ones. */
	while (!merge->key_columns.width && most > 1 && next_keys_bytes(merge, cursor, most) > KEYS_BYTES)
		most /= 2;
	if (known && known >= most / 4)
		return WEIR_OK;
	weir_cursor_view(merge, cursor)->row_first = cursor->row;
	return weir_cursor_read_keys(merge, cursor, cursor->row, most, err);
}

static int chunk_read(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk,
		      const uint8_t *bytes, struct weir_error *err)
{
	const struct weir_schema *schema = chunk->is_bare ? cursor->run->space->bare : merge->schema;
	int code = chunk->chunk ? weir_block_open(&merge->account, &merge->cache, bytes, chunk->size, NULL, false,
						  &cursor->opened, err)
				: weir_packed_open(&merge->account, schema, bytes, chunk->size, &cursor->opened, err);

	if (!code)
		code = weir_run_chunk_complete(cursor->run, chunk, &merge->account, merge->schema, &cursor->opened,
					       err);
	cursor->batch = cursor->opened;
	return code;
}

void weir_cursor_forget_large(struct weir_merge *merge)
{
	if (!merge->large_of)
		return;
	weir_batch_unref(merge->large_of->opened);
	merge->large_of->opened = NULL;
	if (merge->large_of->pinned)
		weir_chunk_unpin(merge->large_of->pinned);
	merge->large_of->pinned = NULL;
	merge->large_of = NULL;
}

int weir_cursor_read_large(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	const struct weir_run_chunk *chunk = &cursor->run->chunks.items[cursor->chunk - 1];
	const uint8_t *bytes;
	int code;

	weir_cursor_forget_large(merge);
	if (!merge->large && !chunk->chunk) {
		merge->large = weir_alloc(&merge->account, merge->large_max, err);
		if (!merge->large)
			return err->code;
		merge->large_size = merge->large_max;
	}
	bytes = merge->large;
	code = chunk->chunk ? chunk_bytes(merge, cursor, chunk, &bytes, err)
			    : weir_run_chunk_read(cursor->run, chunk, merge->large, err);
	if (code)
		return code;
	merge->large_of = cursor;
	return chunk_read(merge, cursor, chunk, bytes, err);
}

int weir_cursor_next_chunk(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
{
	const struct weir_run_chunk *chunk, *after;
	const uint8_t *bytes;
	int code;

	*has_row = false;
	if (cursor->run->reserved)
		return WEIR_OK;
	while (!cursor->ends && cursor->chunk < cursor->run->chunks.count) {
		weir_cursor_close(cursor);
		chunk = &cursor->run->chunks.items[cursor->chunk++];
		after = cursor->chunk < cursor->run->chunks.count ? chunk + 1 : NULL;
		cursor->is_unread = weir_run_chunk_is_large(chunk);
		merge->has_large |= cursor->is_unread;
		if (!cursor->is_unread) {
			code = chunk_bytes(merge, cursor, chunk, &bytes, err);
			if (!code)
				code = chunk_read(merge, cursor, chunk, bytes, err);
			if (code)
				return code;
			weir_cursor_show_cells(merge, cursor);
		}
		code = WEIR_OK;
		if (after && !weir_run_chunk_is_large(after))
			weir_run_chunk_expect(cursor->run, after);
		cursor->row = 0;
		cursor->row_end = chunk->row_count;
		if (merge->from.key && chunk_is_before(cursor->run, chunk, &merge->from))
			code = rows_before(merge, cursor, chunk, &merge->from, &cursor->row, err);
		if (!code && merge->to.key && !chunk_is_before(cursor->run, after, &merge->to)) {
			code = rows_before(merge, cursor, chunk, &merge->to, &cursor->row_end, err);
			cursor->ends = true;
		}
		weir_key_list_clear(&cursor->few);
		weir_cursor_view(merge, cursor)->row_first = cursor->row;
		*has_row = !code && cursor->row < cursor->row_end;
		if (*has_row && cursor->is_unread) {
			cursor->is_cut = weir_fence_is_cut(chunk->fence_size);
			code = weir_key_list_append(&cursor->few, chunk->fence, chunk->fence_size, err);
		}
		if (code || *has_row)
			return code;
	}
	weir_cursor_close(cursor);
	return WEIR_OK;
}

/* The first row of a run that lies that is not before the bound. */
static int lying_row(struct weir_merge *merge, struct cursor *cursor, const struct weir_bound *bound, int64_t *out,
		     struct weir_error *err)
{
	const struct weir_sorted_run *run = cursor->run;
	const struct weir_run_chunk *chunk = &run->chunks.items[chunk_of(run, bound)];
	int code;

	if (run->keys.count) {
		*out = rows_lying_before(run, bound);
		return WEIR_OK;
	}
	code = rows_before(merge, cursor, chunk, bound, out, err);
	*out += chunk->row_first;
	return code;
}

int weir_cursor_lie(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
{
	const struct weir_sorted_run *run = cursor->run;
	int code = WEIR_OK;

	cursor->order = run->order;
	cursor->batch = run->batch;
	cursor->row = 0;
	cursor->row_end = run->row_count;
	if (merge->from.key)
		code = lying_row(merge, cursor, &merge->from, &cursor->row, err);
	if (!code && merge->to.key)
		code = lying_row(merge, cursor, &merge->to, &cursor->row_end, err);
	if (code)
		return code;
	weir_key_list_clear(&cursor->few);
	if (run->keys.count)
		*weir_cursor_view(merge, cursor) = (struct weir_key_view){.keys = &run->keys};
	*has_row = cursor->row < cursor->row_end;
	if (*has_row)
		weir_cursor_show_cells(merge, cursor);
	return WEIR_OK;
}

int weir_cursor_find(struct weir_merge *merge, struct cursor *cursor, const struct head *other, int64_t *count,
		     struct weir_error *err)
{
	const struct weir_sorted_run *run = merge->cursors[other->number].run;
	struct weir_bound bound = {
		.key = other->key, .key_size = other->key_size, .split = run->split, .part = run->part};
	int64_t row;
	int code;

	/* A run with its keys has all of them at hand; beginnings of long ones do not say where they end. */
	if (!cursor->run->reserved || cursor->run->keys.count || other->key_size >= WEIR_FENCE_BYTES)
		return WEIR_OK;
	code = lying_row(merge, cursor, &bound, &row, err);
	weir_key_list_clear(&cursor->few);
	weir_cursor_view(merge, cursor)->row_first = cursor->row;
	*count = (row < cursor->row_end ? row : cursor->row_end) - cursor->row;
	return code;
}

size_t weir_cursor_first_chunk(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	size_t chunk = chunk_of(run, bound);

	return chunk + (run->chunks.count && chunk_is_over(&run->chunks.items[chunk], bound));
}

/* How many rows of a run are in front of the bound. Where its key is longer than fences are, several chunks come into
 * question. */
static int rank_in_run(struct weir_merge *merge, struct cursor *cursor, const struct weir_bound *bound, int64_t *out,
		       struct weir_error *err)
{
	const struct weir_sorted_run *run = cursor->run;
	struct weir_bound near = *bound;
	size_t at, last = chunk_of(run, bound);
	int code = WEIR_OK;

	near.key_size = near.key_size < WEIR_FENCE_BYTES ? near.key_size : WEIR_FENCE_BYTES;
	for (at = chunk_of(run, &near); at <= last && !code; at++) {
		const struct weir_run_chunk *chunk = &run->chunks.items[at];
		const uint8_t *bytes;
		int64_t rows = 0;

		if (!run->reserved) {
			code = chunk_bytes(merge, cursor, chunk, &bytes, err);
			if (!code)
				code = chunk_read(merge, cursor, chunk, bytes, err);
		}
		if (!code)
			code = rows_before(merge, cursor, chunk, bound, &rows, err);
		*out = chunk->row_first + rows;
		weir_cursor_close(cursor);
		weir_free(&merge->account, cursor->copy, cursor->copy_size);
		cursor->copy = NULL;
		cursor->copy_size = 0;
		if (rows < chunk->row_count)
			break;
	}
	return code;
}

int weir_merge_rank(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
		    const struct weir_bound *bound, int64_t *out, struct weir_error *err)
{
	struct cursor cursor = {0};
	int code = WEIR_OK;

	WEIR_ASSERT(!merge->cursor_count);
	*out = 0;
	weir_key_list_init(&cursor.few, &merge->account, weir_cursor_key_width(merge));
	for (size_t i = 0; i < count && !code; i++) {
		int64_t rows = 0;

		cursor.run = runs[i];
		cursor.batch = runs[i]->batch;
		if (runs[i]->keys.count)
			rows = rows_lying_before(runs[i], bound);
		else if (runs[i]->chunks.count)
			code = rank_in_run(merge, &cursor, bound, &rows, err);
		*out += rows;
	}
	weir_key_list_release(&cursor.few);
	return code;
}
