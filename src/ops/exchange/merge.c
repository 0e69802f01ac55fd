/* Each run has a cursor: its next row, and the keys of the next few, or of all where the run lies in memory as it was gathered. A
 * run in chunks has one of them open. The cursors form a heap by the key of their next row. There may be hundreds of cursors, so
 * each is kept small.
 *
 * A vector is first picked, row by row, then made, column by column. It ends early where a chunk does, since its strings still
 * point into it; the next chunk is opened by the next call. A cursor that was first several times in a row is asked for as many
 * rows as come before the next cursor's at once; rows in order that all come from one place are not moved at all. */
#include "ops/exchange/merge.h"

#include "arrow/block.h"
#include "ops/exchange/interleave.h"

#include <string.h>

enum { KEYS_AT_ONCE = 256, STREAK = 8 };

struct cursor {
	const struct weir_sorted_run *run;
	size_t chunk;         /* the next to be opened */
	int64_t row, row_end; /* in the open chunk, or in a run that lies: the next, and where it or the range ends */
	const uint32_t *order; /* where rows are in the batch; NULL: in order */
	const struct weir_batch *batch;
	bool ends; /* with this chunk */
	const uint8_t *key; /* of the next row */
	uint32_t key_size;
	struct weir_chunk *pinned;
	uint8_t *copy; /* of one that is on disk */
	size_t copy_size;
	struct weir_batch *opened; /* of the open chunk */
	const struct weir_key_list *keys; /* of the rows from keys_first on */
	int64_t keys_first;
	struct weir_key_list few; /* of a chunk's rows */
};

/* A cursor in the heap. The window is eight bytes of its next row's key, behind what all keys have in common. */
struct head {
	uint64_t window;
	uint32_t number;
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
	struct weir_cells *cells; /* by column, then by cursor: what is open */
	bool *has_nulls;          /* by column: so far */
	struct head *heap;
	size_t heap_count;
	uint32_t window_at;
	bool is_exact; /* keys with equal windows are equal */
	uint32_t pending; /* the cursor whose chunk has ended; UINT32_MAX: none */
	uint32_t rows_max;
	struct weir_arena arena; /* of the vector that was handed out */
	struct weir_arena key_arena; /* of key columns while they are looked at */
	struct weir_column *key_columns_of; /* as many as there are columns; those of keys are filled in */
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
	if (merge->nested)
		merge->has_nulls = weir_alloc_zero(&merge->account, (schema->field_count + 1) * sizeof(*merge->has_nulls), err);
	if (!merge->has_nulls) {
		weir_merge_free(merge);
		return err->code;
	}
	*out = merge;
	return WEIR_OK;
}

/* ---- cursors ---- */

static void chunk_close(struct cursor *cursor)
{
	weir_batch_unref(cursor->opened);
	cursor->opened = NULL;
	if (cursor->pinned)
		weir_chunk_unpin(cursor->pinned);
	cursor->pinned = NULL;
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
	weir_key_list_clear(&cursor->few);
	cursor->keys = &cursor->few;
	cursor->keys_first = first;
	return code ? code : weir_key_list_push(&cursor->few, &merge->key_columns, &rows, err);
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
		key = weir_key_at(cursor->keys, 0, &size);
		if (key_is_before(cursor->run, key, size, bound))
			low = middle + 1;
		else
			high = middle;
	}
	*out = low;
	return WEIR_OK;
}

/* The first row of a run that lies, in its order, that is not before the bound. */
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

/* What the cursor's picks point into. */
static void show_cells(struct weir_merge *merge, struct cursor *cursor)
{
	size_t number = (size_t)(cursor - merge->cursors);

	for (uint32_t i = 0; i < merge->schema->field_count; i++) {
		struct weir_cells *cells = &merge->cells[i * merge->cursor_count + number];

		weir_cells_init(cells, cursor->batch->columns[i]);
		merge->has_nulls[i] = merge->has_nulls[i] || weir_cells_have_nulls(cells);
	}
}

/* Its next row is the one to be compared. */
static int cursor_show(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	int64_t left = cursor->row_end - cursor->row;
	int code;

	if (cursor->row >= cursor->keys_first + (int64_t)cursor->keys->count || cursor->row < cursor->keys_first) {
		code = read_keys(merge, cursor, cursor->row, left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE, err);
		if (code)
			return code;
	}
	cursor->key = weir_key_at(cursor->keys, (size_t)(cursor->row - cursor->keys_first), &cursor->key_size);
	return WEIR_OK;
}

static inline uint64_t window_of(const struct weir_merge *merge, const struct weir_key_list *list, const uint8_t *key,
				 uint32_t size)
{
	uint64_t word;

	if (size < merge->window_at + 8 || key + merge->window_at + 8 > list->bytes + list->size)
		return weir_key_prefix(key + merge->window_at, size - merge->window_at);
	__builtin_memcpy(&word, key + merge->window_at, 8);
	return __builtin_bswap64(word);
}

static struct head head_of(const struct weir_merge *merge, uint32_t number)
{
	const struct cursor *cursor = &merge->cursors[number];

	return (struct head){.window = window_of(merge, cursor->keys, cursor->key, cursor->key_size), .number = number};
}

/* Opens the cursor's next chunk; *has_row false: there is none in the range any more. */
static int chunk_open(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
{
	const struct weir_run_chunk *chunk, *after;
	const uint8_t *bytes;
	int code;

	*has_row = false;
	if (cursor->run->reserved)
		return WEIR_OK;
	while (!cursor->ends && cursor->chunk < cursor->run->chunks.count) {
		chunk_close(cursor);
		chunk = &cursor->run->chunks.items[cursor->chunk++];
		after = cursor->chunk < cursor->run->chunks.count ? chunk + 1 : NULL;
		code = chunk_bytes(merge, cursor, chunk->chunk, &bytes, err);
		if (!code)
			code = weir_block_open(&merge->account, &merge->cache, bytes, weir_chunk_size(chunk->chunk), NULL,
					       false, &cursor->opened, err);
		if (code)
			return code;
		cursor->batch = cursor->opened;
		show_cells(merge, cursor);
		if (after && after->chunk)
			weir_chunk_expect(after->chunk);
		cursor->row = 0;
		cursor->row_end = chunk->row_count;
		if (merge->from.key)
			code = rows_before(merge, cursor, chunk, &merge->from, &cursor->row, err);
		if (!code && merge->to.key && !chunk_is_before(cursor->run, after, &merge->to)) {
			code = rows_before(merge, cursor, chunk, &merge->to, &cursor->row_end, err);
			cursor->ends = true;
		}
		weir_key_list_clear(&cursor->few);
		if (!code && cursor->row < cursor->row_end) {
			*has_row = true;
			return cursor_show(merge, cursor, err);
		}
		if (code)
			return code;
	}
	chunk_close(cursor);
	return WEIR_OK;
}

static int lying_open(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
{
	const struct weir_sorted_run *run = cursor->run;

	cursor->row = merge->from.key ? rows_lying_before(run, &merge->from) : 0;
	cursor->row_end = merge->to.key ? rows_lying_before(run, &merge->to) : run->row_count;
	cursor->order = run->order;
	cursor->batch = run->batch;
	cursor->keys = &run->keys;
	*has_row = cursor->row < cursor->row_end;
	if (!*has_row)
		return WEIR_OK;
	show_cells(merge, cursor);
	return cursor_show(merge, cursor, err);
}

/* ---- the heap ---- */

/* Where windows are equal: by keys, then by runs, which are in the order of their splits. */
static bool ties_before(const struct weir_merge *merge, const struct head *a, const struct head *b)
{
	const struct cursor *x = &merge->cursors[a->number], *y = &merge->cursors[b->number];
	int order = merge->is_exact ? 0 : weir_key_compare(x->key, x->key_size, y->key, y->key_size);

	return order ? order < 0 : a->number < b->number;
}

static inline bool comes_before(const struct weir_merge *merge, const struct head *a, const struct head *b)
{
	return a->window != b->window ? a->window < b->window : ties_before(merge, a, b);
}

static void sift_down(struct weir_merge *merge, size_t at)
{
	struct head *heap = merge->heap, moved = heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= merge->heap_count)
			break;
		child += child + 1 < merge->heap_count && comes_before(merge, &heap[child + 1], &heap[child]);
		if (!comes_before(merge, &heap[child], &moved))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
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
	if (has_row)
		merge->heap[0] = head_of(merge, merge->pending);
	else
		merge->heap[0] = merge->heap[--merge->heap_count];
	merge->pending = UINT32_MAX;
	if (merge->heap_count)
		sift_down(merge, 0);
	return WEIR_OK;
}

static size_t cells_size(const struct weir_merge *merge)
{
	return (merge->cursor_count + 1) * (merge->schema->field_count + 1) * sizeof(*merge->cells);
}

/* All keys in the range lie between the least and the greatest, so what these two begin with all begin with. */
static void set_window(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count)
{
	const uint8_t *least = NULL, *greatest = NULL;
	uint32_t least_size = 0, greatest_size = 0, common = 0;

	for (size_t i = 0; i < count; i++) {
		const struct weir_run_chunk *first = runs[i]->chunks.items;

		if (!runs[i]->chunks.count)
			continue;
		if (!least || weir_key_compare(first->fence, first->fence_size, least, least_size) < 0) {
			least = first->fence;
			least_size = first->fence_size;
		}
		if (!greatest || weir_key_compare(runs[i]->last, runs[i]->last_size, greatest, greatest_size) > 0) {
			greatest = runs[i]->last;
			greatest_size = runs[i]->last_size;
		}
	}
	if (merge->from.key && least && weir_key_compare(merge->from.key, merge->from.key_size, least, least_size) > 0) {
		least = merge->from.key;
		least_size = merge->from.key_size;
	}
	if (merge->to.key && greatest && weir_key_compare(merge->to.key, merge->to.key_size, greatest, greatest_size) < 0) {
		greatest = merge->to.key;
		greatest_size = merge->to.key_size;
	}
	while (common < least_size && common < greatest_size && least[common] == greatest[common])
		common++;
	merge->window_at = common;
	merge->is_exact = merge->key_columns.width && merge->key_columns.width <= common + 8;
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
	set_window(merge, runs, count);
	memset(merge->has_nulls, 0, (merge->schema->field_count + 1) * sizeof(*merge->has_nulls));
	for (size_t i = 0; i < count; i++) {
		weir_key_list_init(&merge->cursors[i].few, &merge->account, merge->key_columns.width);
		merge->cursors[i].keys = &merge->cursors[i].few;
	}
	merge->heap = weir_alloc(&merge->account, (count + 1) * sizeof(*merge->heap), err);
	merge->cells = merge->heap ? weir_alloc(&merge->account, cells_size(merge), err) : NULL;
	if (!merge->cells)
		return err->code;
	for (size_t i = 0; i < count && !code; i++) {
		struct cursor *cursor = &merge->cursors[i];
		bool has_row = false;

		cursor->run = runs[i];
		if (runs[i]->reserved) {
			code = lying_open(merge, cursor, &has_row, err);
		} else {
			cursor->chunk = from->key ? chunk_of(runs[i], from) : 0;
			code = chunk_open(merge, cursor, &has_row, err);
		}
		if (!code && has_row)
			merge->heap[merge->heap_count++] = head_of(merge, (uint32_t)i);
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

/* How many rows of the first cursor, of those whose keys are at hand, come before all other cursors' rows. */
static uint32_t rows_in_front(struct weir_merge *merge, const struct cursor *cursor, uint32_t most)
{
	int64_t known = cursor->keys_first + (int64_t)cursor->keys->count - cursor->row, left = cursor->row_end - cursor->row;
	uint32_t low = 1, high = most, size;
	const struct head *next = &merge->heap[1];
	struct head probe = merge->heap[0];
	struct cursor *first = &merge->cursors[probe.number];

	high = known < high ? (uint32_t)known : high;
	high = left < high ? (uint32_t)left : high;
	if (merge->heap_count == 1)
		return high;
	if (merge->heap_count > 2 && comes_before(merge, &merge->heap[2], &merge->heap[1]))
		next = &merge->heap[2];
	/* The last of them first: mostly it is before, too. Those up to `low` are, those behind `high` are not. */
	for (uint32_t at = high; low < high; at = low + (high - low + 1) / 2) {
		first->key = weir_key_at(cursor->keys, (size_t)(cursor->row + at - 1 - cursor->keys_first), &size);
		first->key_size = size;
		probe.window = window_of(merge, cursor->keys, first->key, size);
		if (comes_before(merge, &probe, next))
			low = at;
		else
			high = at - 1;
	}
	return low;
}

/* The rows of the next vector. *is_slice: they are neighbours in one batch. */
static int pick(struct weir_merge *merge, uint32_t *out, bool *is_slice, struct weir_error *err)
{
	uint32_t count = 0, streak = 0, last = UINT32_MAX;
	int code = WEIR_OK;

	*is_slice = true;
	while (count < merge->rows_max && merge->heap_count && !code) {
		uint32_t number = merge->heap[0].number, here = 1;
		struct cursor *cursor = &merge->cursors[number];

		streak = number == last ? streak + 1 : 0;
		*is_slice = *is_slice && !cursor->order && (number == last || last == UINT32_MAX);
		last = number;
		if (streak >= STREAK || merge->heap_count == 1)
			here = rows_in_front(merge, cursor, merge->rows_max - count);
		for (uint32_t i = 0; i < here; i++) {
			int64_t row = cursor->row + i;

			merge->picks[count++] = (struct weir_pick){
				.source = number, .row = cursor->order ? cursor->order[row] : (uint32_t)row};
		}
		cursor->row += here;
		if (cursor->row < cursor->row_end) {
			code = cursor_show(merge, cursor, err);
			if (!code) {
				merge->heap[0] = head_of(merge, number);
				sift_down(merge, 0);
			}
		} else if (cursor->run->reserved) {
			merge->heap[0] = merge->heap[--merge->heap_count];
			if (merge->heap_count)
				sift_down(merge, 0);
		} else {
			merge->pending = number;
			break;
		}
	}
	*out = count;
	return code;
}

int weir_merge_next(struct weir_merge *merge, struct weir_vector *out, struct weir_error *err)
{
	uint32_t count, column_count = merge->schema->field_count;
	bool is_slice;
	int code;

	*out = (struct weir_vector){0};
	vector_forget(merge);
	code = refill(merge, err);
	if (code || !merge->heap_count)
		return code;
	code = pick(merge, &count, &is_slice, err);
	if (code)
		return code;
	out->columns = weir_arena_alloc_zero(&merge->arena, (column_count + 1) * sizeof(*out->columns), err);
	if (!out->columns)
		return err->code;
	for (uint32_t i = 0; i < column_count && !code; i++) {
		if (is_slice)
			code = weir_column_from_array(merge->cursors[merge->picks[0].source].batch->columns[i],
						      merge->picks[0].row, count, &merge->arena, &out->columns[i], err);
		else
			code = weir_interleave(merge->cells + i * merge->cursor_count, merge->has_nulls[i], merge->picks, count,
					       &merge->account, &merge->arena, &out->columns[i], &merge->nested[i], err);
	}
	out->row_count = out->selection.count = count;
	out->column_count = column_count;
	out->source_row = -1;
	return code;
}

int weir_merge_rank(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
		    const struct weir_bound *bound, int64_t *out, struct weir_error *err)
{
	struct cursor cursor = {0};
	int code = WEIR_OK;

	WEIR_ASSERT(!merge->cursor_count);
	*out = 0;
	weir_key_list_init(&cursor.few, &merge->account, merge->key_columns.width);
	for (size_t i = 0; i < count && !code; i++) {
		const struct weir_run_chunk *chunk;
		const uint8_t *bytes;
		int64_t rows = 0;

		cursor.run = runs[i];
		if (runs[i]->reserved)
			*out += rows_lying_before(runs[i], bound);
		if (runs[i]->reserved || !runs[i]->chunks.count)
			continue;
		chunk = &runs[i]->chunks.items[chunk_of(runs[i], bound)];
		code = chunk_bytes(merge, &cursor, chunk->chunk, &bytes, err);
		if (!code)
			code = weir_block_open(&merge->account, &merge->cache, bytes, weir_chunk_size(chunk->chunk), NULL,
					       false, &cursor.opened, err);
		cursor.batch = cursor.opened;
		if (!code)
			code = rows_before(merge, &cursor, chunk, bound, &rows, err);
		*out += chunk->row_first + rows;
		chunk_close(&cursor);
	}
	weir_key_list_release(&cursor.few);
	weir_free(&merge->account, cursor.copy, cursor.copy_size);
	return code;
}

void weir_merge_close(struct weir_merge *merge)
{
	vector_forget(merge);
	for (size_t i = 0; i < merge->cursor_count; i++) {
		struct cursor *cursor = &merge->cursors[i];

		chunk_close(cursor);
		weir_key_list_release(&cursor->few);
		weir_free(&merge->account, cursor->copy, cursor->copy_size);
	}
	weir_free(&merge->account, merge->cursors, merge->cursors ? (merge->cursor_count + 1) * sizeof(*merge->cursors) : 0);
	weir_free(&merge->account, merge->heap, merge->heap ? (merge->cursor_count + 1) * sizeof(*merge->heap) : 0);
	weir_free(&merge->account, merge->cells, merge->cells ? cells_size(merge) : 0);
	merge->cursors = NULL;
	merge->heap = NULL;
	merge->cells = NULL;
	merge->cursor_count = merge->heap_count = 0;
}

void weir_merge_free(struct weir_merge *merge)
{
	struct weir_account *account;

	if (!merge)
		return;
	account = merge->parent;
	weir_merge_close(merge);
	weir_free(&merge->account, merge->has_nulls,
		  merge->has_nulls ? (merge->schema->field_count + 1) * sizeof(*merge->has_nulls) : 0);
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
