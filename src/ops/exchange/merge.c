/* Each run has a cursor with one chunk open, and the keys of the next few of its rows. The cursors form a heap by the key of
 * their next row. A vector ends early where a chunk does, since its strings still point into it; the next chunk is opened
 * by the next call. There may be hundreds of cursors, so each is kept small. */
#include "ops/exchange/merge.h"

#include "arrow/block.h"
#include "ops/exchange/interleave.h"

#include <string.h>

enum { KEYS_AT_ONCE = 256 };

struct cursor {
	const struct weir_sorted_run *run;
	size_t chunk;          /* the next to be opened */
	bool is_open;
	int64_t row, row_end;  /* in the open chunk: the next, and where it or the range ends */
	bool ends;             /* with this chunk */
	uint64_t prefix;       /* of the next row's key */
	const uint8_t *key;
	uint32_t key_size;
	struct weir_chunk *pinned;
	uint8_t *copy; /* of one that is on disk */
	size_t copy_size;
	struct weir_batch *batch;
	struct weir_arena arena;
	struct weir_column *columns;
	struct weir_key_list keys; /* of the rows from keys_first on */
	int64_t keys_first;
};

struct weir_merge {
	struct weir_account account;
	struct weir_account *parent;
	struct weir_schema *schema;
	struct weir_key_columns key_columns;
	struct weir_block_cache cache;
	struct weir_bound from, to;
	struct cursor *cursors;
	size_t cursor_count;
	uint32_t *heap;
	size_t heap_count;
	uint32_t pending; /* the cursor whose chunk has ended; UINT32_MAX: none */
	uint32_t rows_max;
	struct weir_arena arena; /* of the vector that was handed out */
	struct weir_arena key_arena; /* of key columns while they are looked at */
	struct weir_column *key_columns_of; /* as many as there are columns; those of keys are filled in */
	const struct weir_column **sources;
	struct weir_array **nested;
	struct weir_pick picks[WEIR_VECTOR_ROWS];
};

int weir_merge_new(struct weir_account *account, const struct weir_schema *schema,
		   const struct weir_key_columns *columns, struct weir_merge **out, struct weir_error *err)
{
	struct weir_merge *merge = weir_alloc_zero(account, sizeof(*merge), err);

	if (!merge)
		return err->code;
	merge->parent = account;
	weir_account_init(&merge->account, account, "merge");
	merge->schema = weir_schema_ref(schema);
	merge->key_columns = *columns;
	weir_arena_init(&merge->arena, &merge->account);
	weir_arena_init(&merge->key_arena, &merge->account);
	merge->key_columns_of =
		weir_alloc_zero(&merge->account, (schema->field_count + 1) * sizeof(*merge->key_columns_of), err);
	if (!merge->key_columns_of) {
		weir_merge_free(merge);
		return err->code;
	}
	merge->nested = weir_alloc_zero(&merge->account, (schema->field_count + 1) * sizeof(*merge->nested), err);
	if (!merge->nested) {
		weir_merge_free(merge);
		return err->code;
	}
	*out = merge;
	return WEIR_OK;
}

/* ---- cursors ---- */

static void chunk_close(struct weir_merge *merge, struct cursor *cursor)
{
	weir_batch_unref(cursor->batch);
	cursor->batch = NULL;
	if (cursor->pinned)
		weir_chunk_unpin(cursor->pinned);
	cursor->pinned = NULL;
	weir_arena_clear(&cursor->arena);
	weir_key_list_clear(&cursor->keys);
	cursor->is_open = false;
	(void)merge;
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

/* The keys of `count` rows of the open chunk. */
static int read_keys(struct weir_merge *merge, struct cursor *cursor, int64_t first, int64_t count, struct weir_error *err)
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

		code = weir_column_from_array(cursor->batch->columns[column], first, (uint32_t)count,
					      &merge->key_arena, &rows.columns[column], err);
	}
	weir_key_list_clear(&cursor->keys);
	cursor->keys_first = first;
	return code ? code : weir_key_list_push(&cursor->keys, &merge->key_columns, &rows, err);
}

/* The first of the open chunk's rows that is not before the bound. */
static int rows_before(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk,
		       const struct weir_bound *bound, int64_t *out, struct weir_error *err)
{
	int64_t low = 0, high = chunk->row_count;

	if (is_of_run(cursor->run, bound)) {
		low = bound->row - chunk->row_first;
		*out = low < 0 ? 0 : low > high ? high : low;
		return WEIR_OK;
	}
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		int code = read_keys(merge, cursor, middle, 1, err);
		const uint8_t *key;
		uint32_t size;

		if (code)
			return code;
		key = weir_key_at(&cursor->keys, 0, &size);
		if (key_is_before(cursor->run, key, size, bound))
			low = middle + 1;
		else
			high = middle;
	}
	*out = low;
	return WEIR_OK;
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

static int chunk_bytes(struct weir_merge *merge, struct cursor *cursor, struct weir_chunk *chunk, const uint8_t **out,
		       struct weir_error *err)
{
	size_t size = weir_chunk_size(chunk);
	int code;

	if (weir_chunk_is_resident(chunk)) {
		code = weir_chunk_pin(chunk, out, err);
		if (!code)
			cursor->pinned = chunk;
		return code;
	}
	if (size > cursor->copy_size) {
		weir_free(&merge->account, cursor->copy, cursor->copy_size);
		cursor->copy_size = 0;
		cursor->copy = weir_alloc(&merge->account, size, err);
		if (!cursor->copy)
			return err->code;
		cursor->copy_size = size;
	}
	*out = cursor->copy;
	atomic_fetch_add_explicit(&cursor->run->space->read, weir_chunk_footprint(chunk), memory_order_relaxed);
	return weir_chunk_read(chunk, cursor->copy, err);
}

static int chunk_columns(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	uint32_t count = merge->schema->field_count;
	int code = WEIR_OK;

	cursor->columns = weir_arena_alloc_zero(&cursor->arena, (count + 1) * sizeof(*cursor->columns), err);
	if (!cursor->columns)
		return err->code;
	for (uint32_t i = 0; i < count && !code; i++)
		code = weir_column_from_array(cursor->batch->columns[i], 0, (uint32_t)cursor->batch->row_count,
					      &cursor->arena, &cursor->columns[i], err);
	return code;
}

/* Its next row is the one to be compared. */
static int cursor_show(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	int64_t left = cursor->row_end - cursor->row;
	int code;

	if (cursor->row >= cursor->keys_first + (int64_t)cursor->keys.count || cursor->row < cursor->keys_first) {
		code = read_keys(merge, cursor, cursor->row, left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE, err);
		if (code)
			return code;
	}
	cursor->key = weir_key_at(&cursor->keys, (size_t)(cursor->row - cursor->keys_first), &cursor->key_size);
	cursor->prefix = weir_key_prefix(cursor->key, cursor->key_size);
	return WEIR_OK;
}

/* Opens the cursor's next chunk; *has_row false: there is none in the range any more. */
static int chunk_open(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
{
	const struct weir_run_chunk *chunk, *after;
	const uint8_t *bytes;
	int code;

	*has_row = false;
	while (!cursor->ends && cursor->chunk < cursor->run->chunks.count) {
		chunk_close(merge, cursor);
		chunk = &cursor->run->chunks.items[cursor->chunk++];
		after = cursor->chunk < cursor->run->chunks.count ? chunk + 1 : NULL;
		code = chunk_bytes(merge, cursor, chunk->chunk, &bytes, err);
		if (!code)
			code = weir_block_open(&merge->account, &merge->cache, bytes, weir_chunk_size(chunk->chunk), NULL,
					       false, &cursor->batch, err);
		if (!code)
			code = chunk_columns(merge, cursor, err);
		if (code)
			return code;
		cursor->is_open = true;
		cursor->row = 0;
		cursor->row_end = chunk->row_count;
		if (merge->from.key)
			code = rows_before(merge, cursor, chunk, &merge->from, &cursor->row, err);
		if (!code && merge->to.key && !chunk_is_before(cursor->run, after, &merge->to)) {
			code = rows_before(merge, cursor, chunk, &merge->to, &cursor->row_end, err);
			cursor->ends = true;
		}
		weir_key_list_clear(&cursor->keys);
		if (!code && cursor->row < cursor->row_end) {
			*has_row = true;
			return cursor_show(merge, cursor, err);
		}
		if (code)
			return code;
	}
	chunk_close(merge, cursor);
	return WEIR_OK;
}

/* ---- the heap ---- */

static bool comes_before(const struct weir_merge *merge, uint32_t a_number, uint32_t b_number)
{
	const struct cursor *a = &merge->cursors[a_number], *b = &merge->cursors[b_number];
	int order;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix;
	order = weir_key_compare(a->key, a->key_size, b->key, b->key_size);
	if (order)
		return order < 0;
	return a->run->split != b->run->split ? a->run->split < b->run->split : a->run->part < b->run->part;
}

static void sift_down(struct weir_merge *merge, size_t at)
{
	uint32_t moved = merge->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= merge->heap_count)
			break;
		if (child + 1 < merge->heap_count && comes_before(merge, merge->heap[child + 1], merge->heap[child]))
			child++;
		if (!comes_before(merge, merge->heap[child], moved))
			break;
		merge->heap[at] = merge->heap[child];
		at = child;
	}
	merge->heap[at] = moved;
}

/* The first cursor's chunk has ended. */
static int refill(struct weir_merge *merge, struct weir_error *err)
{
	bool has_row;
	int code;

	if (merge->pending == UINT32_MAX)
		return WEIR_OK;
	code = chunk_open(merge, &merge->cursors[merge->pending], &has_row, err);
	if (code)
		return code;
	merge->pending = UINT32_MAX;
	if (!has_row)
		merge->heap[0] = merge->heap[--merge->heap_count];
	if (merge->heap_count)
		sift_down(merge, 0);
	return WEIR_OK;
}

int weir_merge_open(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
		    const struct weir_bound *from, const struct weir_bound *to, struct weir_error *err)
{
	uint64_t bytes = 0;
	int64_t rows = 0;
	int code = WEIR_OK;

	weir_merge_close(merge);
	merge->from = *from;
	merge->to = *to;
	merge->pending = UINT32_MAX;
	merge->cursors = weir_alloc_zero(&merge->account, (count + 1) * sizeof(*merge->cursors), err);
	if (!merge->cursors)
		return err->code;
	merge->cursor_count = count;
	for (size_t i = 0; i < count; i++) {
		weir_arena_init(&merge->cursors[i].arena, &merge->account);
		weir_key_list_init(&merge->cursors[i].keys, &merge->account, merge->key_columns.width);
	}
	merge->heap = weir_alloc(&merge->account, (count + 1) * sizeof(*merge->heap), err);
	merge->sources = merge->heap ? weir_alloc(&merge->account, (count + 1) * sizeof(*merge->sources), err) : NULL;
	if (!merge->sources)
		return err->code;
	for (size_t i = 0; i < count && !code; i++) {
		struct cursor *cursor = &merge->cursors[i];
		bool has_row = false;

		cursor->run = runs[i];
		cursor->chunk = from->key ? chunk_of(runs[i], from) : 0;
		code = chunk_open(merge, cursor, &has_row, err);
		if (!code && has_row)
			merge->heap[merge->heap_count++] = (uint32_t)i;
		bytes += runs[i]->bytes;
		rows += runs[i]->row_count;
	}
	for (size_t i = merge->heap_count / 2; i-- > 0 && !code;)
		sift_down(merge, i);
	bytes = rows ? bytes / (uint64_t)rows : 0;
	merge->rows_max = bytes ? (uint32_t)(WEIR_VECTOR_BYTES / bytes) : WEIR_VECTOR_ROWS;
	merge->rows_max = merge->rows_max < 1 ? 1 : merge->rows_max > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS : merge->rows_max;
	return code;
}

/* ---- vectors ---- */

static void vector_forget(struct weir_merge *merge)
{
	for (uint32_t i = 0; merge->nested && i < merge->schema->field_count; i++) {
		weir_array_unref(merge->nested[i]);
		merge->nested[i] = NULL;
	}
	weir_arena_clear(&merge->arena);
}

static int pick(struct weir_merge *merge, uint32_t *out, struct weir_error *err)
{
	uint32_t count = 0;
	int code = WEIR_OK;

	while (count < merge->rows_max && merge->heap_count && !code) {
		struct cursor *cursor = &merge->cursors[merge->heap[0]];

		merge->picks[count++] = (struct weir_pick){.source = merge->heap[0], .row = (uint32_t)cursor->row};
		if (++cursor->row == cursor->row_end) {
			merge->pending = merge->heap[0];
			break;
		}
		code = cursor_show(merge, cursor, err);
		if (!code)
			sift_down(merge, 0);
	}
	*out = count;
	return code;
}

int weir_merge_next(struct weir_merge *merge, struct weir_vector *out, struct weir_error *err)
{
	uint32_t count, column_count = merge->schema->field_count;
	int code;

	*out = (struct weir_vector){0};
	vector_forget(merge);
	code = refill(merge, err);
	if (code || !merge->heap_count)
		return code;
	code = pick(merge, &count, err);
	if (code)
		return code;
	out->columns = weir_arena_alloc_zero(&merge->arena, (column_count + 1) * sizeof(*out->columns), err);
	if (!out->columns)
		return err->code;
	for (uint32_t i = 0; i < column_count && !code; i++) {
		for (size_t s = 0; s < merge->cursor_count; s++)
			merge->sources[s] = merge->cursors[s].is_open ? &merge->cursors[s].columns[i] : NULL;
		code = weir_interleave(merge->sources, (uint32_t)merge->cursor_count, merge->picks, count,
				       &merge->account, &merge->arena, &out->columns[i], &merge->nested[i], err);
	}
	out->row_count = out->selection.count = count;
	out->column_count = column_count;
	out->source_row = -1;
	return code;
}

void weir_merge_close(struct weir_merge *merge)
{
	vector_forget(merge);
	for (size_t i = 0; i < merge->cursor_count; i++) {
		struct cursor *cursor = &merge->cursors[i];

		chunk_close(merge, cursor);
		weir_arena_release(&cursor->arena);
		weir_key_list_release(&cursor->keys);
		weir_free(&merge->account, cursor->copy, cursor->copy_size);
	}
	weir_free(&merge->account, merge->cursors, merge->cursors ? (merge->cursor_count + 1) * sizeof(*merge->cursors) : 0);
	weir_free(&merge->account, merge->heap, merge->heap ? (merge->cursor_count + 1) * sizeof(*merge->heap) : 0);
	weir_free(&merge->account, merge->sources, merge->sources ? (merge->cursor_count + 1) * sizeof(*merge->sources) : 0);
	merge->cursors = NULL;
	merge->heap = NULL;
	merge->sources = NULL;
	merge->cursor_count = merge->heap_count = 0;
}

void weir_merge_free(struct weir_merge *merge)
{
	struct weir_account *account;

	if (!merge)
		return;
	account = merge->parent;
	weir_merge_close(merge);
	weir_free(&merge->account, merge->nested,
		  merge->nested ? (merge->schema->field_count + 1) * sizeof(*merge->nested) : 0);
	weir_free(&merge->account, merge->key_columns_of,
		  merge->key_columns_of ? (merge->schema->field_count + 1) * sizeof(*merge->key_columns_of) : 0);
	weir_arena_release(&merge->arena);
	weir_arena_release(&merge->key_arena);
	weir_block_cache_release(&merge->cache);
	weir_schema_unref(merge->schema);
	weir_account_release(&merge->account);
	weir_free(account, merge, sizeof(*merge));
}
