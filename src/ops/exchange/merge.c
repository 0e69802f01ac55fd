/* Each run has a cursor: its next row, and the keys of the next few, or of all where the run lies in memory as it was gathered. A
 * run in chunks has one of them open. There may be hundreds of cursors, so each is kept small.
 *
 *     cursor 0:  ──●───────●──●────┊●──        keys that are at hand
 *     cursor 1:  ────●─●──●────●───●           its last one is the least of the last ones: no row that is not at hand comes
 *     cursor 2:  ●────●────────●───┊─●─        before it, so all up to here are the next batch
 *
 * Rows are ordered by the batch: those of all cursors up to the bound are put in a row, cursor by cursor, and sorted, which keeps
 * equal ones in the order of their runs. That costs a third of what a heap of cursors does, whose every step is a guess.
 * A vector of it is made column by column. Where a chunk ends the batch does, since its strings point into it; the next chunk is
 * opened when the batch has been handed out. Where the first cursor has many rows before the next one's first, they are taken
 * without looking at others, and rows in order that all come from one place are not moved at all. */
#include "ops/exchange/merge.h"

#include "arrow/block.h"
#include "ops/exchange/interleave.h"
#include "ops/exchange/order.h"

#include <string.h>

enum {
	KEYS_MIN = 128,       /* that are read at once, of each cursor */
	BATCH_ROWS = 1 << 13, /* about */
	STREAK = 64,
};

struct cursor {
	const struct weir_sorted_run *run;
	size_t chunk;         /* the next to be opened */
	int64_t row, row_end; /* in the open chunk, or in a run that lies: the next, and where it or the range ends */
	const uint32_t *order; /* where rows are in the batch; NULL: in order */
	const struct weir_batch *batch;
	bool ends; /* with this chunk */
	struct weir_chunk *pinned;
	uint8_t *copy; /* of one that is on disk: a part of the merge's, but while ranks are asked for */
	size_t copy_size; /* 0: it is a part */
	struct weir_batch *opened; /* of the open chunk */
	struct weir_key_list few; /* of a chunk's rows */
};

/* A row of a cursor. The window is eight bytes of its key, behind what all keys have in common. */
struct head {
	uint64_t window;
	const uint8_t *key;
	uint32_t key_size;
	uint32_t number; /* of the cursor */
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
	uint8_t *copies; /* in one piece, which is one that was used before: small ones would have to be cleared by the system each time */
	size_t copies_size;
	struct weir_cells *cells; /* by column, then by cursor: what is open */
	bool *has_nulls;          /* by column: so far */
	struct weir_key_view *views; /* by cursor: which keys are at hand */
	uint32_t *active;            /* cursors that have rows yet, ascending */
	size_t active_count;
	uint32_t keys_max; /* that are read at once */
	uint32_t window_at;
	bool is_exact; /* keys with equal windows are equal */
	bool has_chunks; /* some run does not lie */
	uint32_t rows_max;
	/* The batch, in order, and how many of it were handed out. */
	struct weir_windowed *items, *spare;
	size_t items_max, item_count, item_at;
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
	return code ? code : weir_key_list_push(&cursor->few, &merge->key_columns, &rows, err);
}

/* The first of the open chunk's rows that is not before the bound. */
static int rows_before(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk,
		       const struct weir_bound *bound, int64_t *out, struct weir_error *err)
{
	int64_t low = 0, high = chunk->row_count, before = cursor->run->reserved ? chunk->row_first : 0; /* in the batch */

	if (is_of_run(cursor->run, bound)) {
		low = bound->row - chunk->row_first;
		*out = low < 0 ? 0 : low > high ? high : low;
		return WEIR_OK;
	}
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		int code = read_keys(merge, cursor, before + middle, 1, err);
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

static size_t chunk_of(const struct weir_sorted_run *run, const struct weir_bound *bound);

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

/* Whether all rows of a chunk are before the bound, which is a mark or the beginning of a piece: where that is known without looking at
 * them. */
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

int64_t weir_bound_row(const struct weir_sorted_run *run, const struct weir_bound *bound)
{
	return run->chunks.count ? run->chunks.items[chunk_of(run, bound)].row_first : 0;
}

static int chunk_bytes(struct weir_merge *merge, struct cursor *cursor, const struct weir_run_chunk *chunk, const uint8_t **out,
		       struct weir_error *err)
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
		size = cursor->run->footprint_max;
		cursor->copy = weir_alloc(&merge->account, size, err);
		if (!cursor->copy)
			return err->code;
		cursor->copy_size = size;
	}
	*out = cursor->copy;
	return weir_run_chunk_read(cursor->run, chunk, cursor->copy, err);
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

static struct weir_key_view *view_of(struct weir_merge *merge, const struct cursor *cursor)
{
	return &merge->views[cursor - merge->cursors];
}

/* How many of the cursor's next rows have their keys at hand. */
static int64_t known_rows(struct weir_merge *merge, const struct cursor *cursor)
{
	const struct weir_key_view *view = view_of(merge, cursor);
	int64_t known = view->row_first + (int64_t)view->keys->count - cursor->row, left = cursor->row_end - cursor->row;

	return known < left ? known : left;
}

/* Keys of a good many of its next rows, if there are so many. */
static int cursor_show(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	int64_t left = cursor->row_end - cursor->row, known = known_rows(merge, cursor);

	if (known == left || known >= merge->keys_max / 4)
		return WEIR_OK;
	view_of(merge, cursor)->row_first = cursor->row;
	return read_keys(merge, cursor, cursor->row, left < merge->keys_max ? left : merge->keys_max, err);
}

/* Of a key that ends within the window: its last eight bytes, without those before it. */
static inline uint64_t window_of(const struct weir_merge *merge, const struct weir_key_list *list, const uint8_t *key,
				 uint32_t size)
{
	uint32_t at = merge->window_at;
	uint64_t word;

	if (size >= 8 && size > at && size < at + 8) {
		__builtin_memcpy(&word, key + size - 8, 8);
		return __builtin_bswap64(word) << 8 * (at + 8 - size);
	}
	if (size < at + 8 || key + at + 8 > list->bytes + list->size)
		return weir_key_prefix(key + at, size - at);
	__builtin_memcpy(&word, key + at, 8);
	return __builtin_bswap64(word);
}

/* The row `ahead` of the cursor's next, whose key is at hand. */
static inline struct head head_of(const struct weir_merge *merge, uint32_t number, int64_t ahead)
{
	const struct weir_key_view *view = &merge->views[number];
	struct head head = {.number = number};

	head.key = weir_key_at(view->keys, (size_t)(merge->cursors[number].row + ahead - view->row_first), &head.key_size);
	head.window = window_of(merge, view->keys, head.key, head.key_size);
	return head;
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
		code = chunk_bytes(merge, cursor, chunk, &bytes, err);
		if (!code)
			code = weir_block_open(&merge->account, &merge->cache, bytes, chunk->size, NULL,
					       false, &cursor->opened, err);
		if (!code)
			code = weir_run_chunk_complete(cursor->run, chunk, &merge->account, merge->schema, &cursor->opened, err);
		if (code)
			return code;
		cursor->batch = cursor->opened;
		show_cells(merge, cursor);
		if (after)
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
		view_of(merge, cursor)->row_first = cursor->row;
		if (!code && cursor->row < cursor->row_end) {
			*has_row = true;
			return WEIR_OK;
		}
		if (code)
			return code;
	}
	chunk_close(cursor);
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

static int lying_open(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err)
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
		*view_of(merge, cursor) = (struct weir_key_view){.keys = &run->keys};
	*has_row = cursor->row < cursor->row_end;
	if (*has_row)
		show_cells(merge, cursor);
	return WEIR_OK;
}

/* ---- which comes first ---- */

/* Where windows are equal: by keys, then by runs, which are in the order of their splits. */
static bool ties_before(const struct weir_merge *merge, const struct head *a, const struct head *b)
{
	int order = merge->is_exact ? 0 : weir_key_compare(a->key, a->key_size, b->key, b->key_size);

	return order ? order < 0 : a->number < b->number;
}

static inline bool comes_before(const struct weir_merge *merge, const struct head *a, const struct head *b)
{
	return a->window != b->window ? a->window < b->window : ties_before(merge, a, b);
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

/* What picking needs, which is the more the more cursors there are. */
static int room_for_rows(struct weir_merge *merge, struct weir_error *err)
{
	size_t count = merge->cursor_count;

	merge->cells = weir_alloc(&merge->account, cells_size(merge), err);
	merge->views = merge->cells ? weir_alloc_zero(&merge->account, (count + 1) * sizeof(*merge->views), err) : NULL;
	merge->active = merge->views ? weir_alloc(&merge->account, (count + 1) * sizeof(*merge->active), err) : NULL;
	if (!merge->active)
		return err->code;
	merge->keys_max = count && BATCH_ROWS / count > KEYS_MIN ? (uint32_t)(BATCH_ROWS / count) : KEYS_MIN;
	merge->items_max = count * merge->keys_max;
	merge->items = weir_alloc(&merge->account, 2 * merge->items_max * sizeof(*merge->items), err);
	merge->spare = merge->items + merge->items_max;
	return merge->items ? WEIR_OK : err->code;
}

/* For an open chunk of each run that has some on disk. */
static int room_for_copies(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count, struct weir_error *err)
{
	size_t size = 0;

	for (size_t i = 0; i < count; i++)
		size += runs[i]->footprint_max;
	if (!size)
		return WEIR_OK;
	merge->copies = weir_alloc(&merge->account, size, err);
	if (!merge->copies)
		return err->code;
	merge->copies_size = size;
	size = 0;
	for (size_t i = 0; i < count; i++) {
		merge->cursors[i].copy = runs[i]->footprint_max ? merge->copies + size : NULL;
		size += runs[i]->footprint_max;
	}
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
	merge->cursors = weir_alloc_zero(&merge->account, (count + 1) * sizeof(*merge->cursors), err);
	if (!merge->cursors)
		return err->code;
	merge->cursor_count = count;
	merge->has_chunks = false;
	set_window(merge, runs, count);
	memset(merge->has_nulls, 0, (merge->schema->field_count + 1) * sizeof(*merge->has_nulls));
	for (size_t i = 0; i < count; i++)
		weir_key_list_init(&merge->cursors[i].few, &merge->account, merge->key_columns.width);
	code = room_for_rows(merge, err);
	if (code)
		return code;
	code = room_for_copies(merge, runs, count, err);
	for (size_t i = 0; i < count && !code; i++) {
		struct cursor *cursor = &merge->cursors[i];
		bool has_row = false;

		cursor->run = runs[i];
		merge->has_chunks |= !runs[i]->reserved;
		merge->views[i].keys = &cursor->few;
		if (runs[i]->reserved) {
			code = lying_open(merge, cursor, &has_row, err);
		} else {
			cursor->chunk = from->key ? chunk_of(runs[i], from) : 0;
			if (from->key && runs[i]->chunks.count && chunk_is_over(&runs[i]->chunks.items[cursor->chunk], from))
				cursor->chunk++;
			code = chunk_open(merge, cursor, &has_row, err);
		}
		if (!code && has_row)
			merge->active[merge->active_count++] = (uint32_t)i;
		bytes += runs[i]->bytes;
		rows += runs[i]->row_count;
	}
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

/* How many of the first cursor's next rows, of at most so many, come before `next`. */
static uint32_t rows_in_front(const struct weir_merge *merge, uint32_t number, const struct head *next, uint32_t most)
{
	uint32_t low = 1, high = most;

	/* The last of them first: mostly it is before, too. Those up to `low` are, those behind `high` are not. */
	for (uint32_t at = high; low < high; at = low + (high - low + 1) / 2) {
		struct head probe = head_of(merge, number, at - 1);

		if (comes_before(merge, &probe, next))
			low = at;
		else
			high = at - 1;
	}
	return low;
}

/* Opens the next chunk where one has ended, forgets cursors that are at their end, and sees that all others, where there are several,
 * have keys at hand. */
static int cursors_ready(struct weir_merge *merge, struct weir_error *err)
{
	size_t kept = 0;
	int code = WEIR_OK;

	for (size_t i = 0; i < merge->active_count && !code; i++) {
		struct cursor *cursor = &merge->cursors[merge->active[i]];
		bool has_row = cursor->row < cursor->row_end;

		if (!has_row)
			code = chunk_open(merge, cursor, &has_row, err);
		if (!code && has_row)
			merge->active[kept++] = merge->active[i];
	}
	if (code)
		return code;
	merge->active_count = kept;
	/* One that is alone is not compared. */
	for (size_t i = 0; i < kept && kept > 1 && !code; i++)
		code = cursor_show(merge, &merge->cursors[merge->active[i]], err);
	return code;
}

/* The cursor whose next row is the first, and the first row of all others, of which there are some. */
static void first_two(const struct weir_merge *merge, struct head *first, struct head *second)
{
	*first = head_of(merge, merge->active[0], 0);
	second->number = UINT32_MAX;
	for (size_t i = 1; i < merge->active_count; i++) {
		struct head head = head_of(merge, merge->active[i], 0);

		if (comes_before(merge, &head, first)) {
			*second = *first;
			*first = head;
		} else if (second->number == UINT32_MAX || comes_before(merge, &head, second)) {
			*second = head;
		}
	}
}

/* The last row of a cursor that may be in the batch. */
static struct head last_at_hand(struct weir_merge *merge, uint32_t number)
{
	int64_t known = known_rows(merge, &merge->cursors[number]);

	return head_of(merge, number, (known < merge->keys_max ? known : merge->keys_max) - 1);
}

/* The cursor's rows up to the bound, behind those that are there. */
static void collect(struct weir_merge *merge, uint32_t number, const struct head *bound)
{
	struct cursor *cursor = &merge->cursors[number];
	int64_t known = known_rows(merge, cursor);
	struct weir_windowed *to = merge->items + merge->item_count;
	uint32_t count = 0, most = known < merge->keys_max ? (uint32_t)known : merge->keys_max;

	for (; count < most; count++) {
		struct head head = head_of(merge, number, count);

		/* One that is of the bound's own cursor is not behind it. */
		if (head.window > bound->window || (head.window == bound->window && number != bound->number &&
						    !ties_before(merge, &head, bound)))
			break;
		to[count] = (struct weir_windowed){.window = head.window, .row = (uint32_t)(cursor->row + count), .source = number};
	}
	cursor->row += count;
	merge->item_count += count;
}

static void next_batch(struct weir_merge *merge)
{
	struct head bound = last_at_hand(merge, merge->active[0]);

	for (size_t i = 1; i < merge->active_count; i++) {
		struct head last = last_at_hand(merge, merge->active[i]);

		if (comes_before(merge, &last, &bound))
			bound = last;
	}
	merge->item_count = merge->item_at = 0;
	for (size_t i = 0; i < merge->active_count; i++)
		collect(merge, merge->active[i], &bound);
	WEIR_ASSERT(merge->item_count > 0 && merge->item_count <= merge->items_max);
	if (merge->is_exact)
		weir_windows_order(merge->items, merge->spare, merge->item_count);
	else
		weir_windowed_order(merge->views, merge->items, merge->spare, merge->item_count, merge->window_at);
}

/* Rows of one cursor that come before those of all others, if they are many. */
static uint32_t pick_streak(struct weir_merge *merge, bool *is_slice)
{
	struct head first = {.number = merge->active[0]}, second;
	struct cursor *cursor;
	int64_t known;
	uint32_t count;

	if (merge->active_count > 1)
		first_two(merge, &first, &second);
	cursor = &merge->cursors[first.number];
	known = merge->active_count > 1 ? known_rows(merge, cursor) : cursor->row_end - cursor->row;
	count = known < merge->rows_max ? (uint32_t)known : merge->rows_max;
	if (merge->active_count > 1) {
		count = rows_in_front(merge, first.number, &second, count);
		if (count < STREAK && count < merge->rows_max)
			return 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		int64_t row = cursor->row + i;

		merge->picks[i] =
			(struct weir_pick){.source = first.number, .row = cursor->order ? cursor->order[row] : (uint32_t)row};
	}
	cursor->row += count;
	*is_slice = !cursor->order;
	return count;
}

/* The rows of the next vector; *out 0: there is none. *is_slice: they are neighbours in one batch. */
static int pick(struct weir_merge *merge, uint32_t *out, bool *is_slice, struct weir_error *err)
{
	uint32_t count = 0;
	int code;

	*out = 0;
	*is_slice = false;
	if (merge->item_at == merge->item_count) {
		code = cursors_ready(merge, err);
		if (code || !merge->active_count)
			return code;
		*out = pick_streak(merge, is_slice);
		if (*out)
			return WEIR_OK;
		next_batch(merge);
	}
	for (; count < merge->rows_max && merge->item_at < merge->item_count; count++) {
		const struct weir_windowed *item = &merge->items[merge->item_at++];
		const uint32_t *order = merge->cursors[item->source].order;

		merge->picks[count] = (struct weir_pick){.source = item->source, .row = order ? order[item->row] : item->row};
	}
	*out = count;
	return WEIR_OK;
}

int weir_merge_next(struct weir_merge *merge, struct weir_vector *out, struct weir_error *err)
{
	uint32_t count, column_count = merge->schema->field_count;
	bool is_slice;
	int code;

	*out = (struct weir_vector){0};
	vector_forget(merge);
	code = pick(merge, &count, &is_slice, err);
	if (code || !count)
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

/* Whether all rows of the cursor's open chunk come before that of another cursor. No row of it has a key beyond that which the next
 * chunk begins with, or that the run ends with. */
static bool is_in_front(const struct cursor *cursor, const struct head *first, const struct head *other)
{
	const struct weir_sorted_run *run = cursor->run;
	const struct weir_run_chunk *after = &run->chunks.items[cursor->chunk];
	bool has_after = cursor->chunk < run->chunks.count;
	int order = weir_key_compare(has_after ? after->fence : run->last, has_after ? after->fence_size : run->last_size, other->key,
				     other->key_size);

	return order ? order < 0 : first->number < other->number;
}

int weir_merge_next_chunk(struct weir_merge *merge, struct weir_chunk **out, int64_t *rows, struct weir_error *err)
{
	struct head first, second;
	struct weir_run_chunk *chunk;
	struct cursor *cursor;
	int code;

	*out = NULL;
	if (!merge->has_chunks || merge->item_at < merge->item_count)
		return WEIR_OK;
	code = cursors_ready(merge, err);
	if (code || !merge->active_count)
		return code;
	first = (struct head){.number = merge->active[0]};
	if (merge->active_count > 1)
		first_two(merge, &first, &second);
	cursor = &merge->cursors[first.number];
	if (cursor->run->reserved || !cursor->pinned)
		return WEIR_OK;
	chunk = &cursor->run->chunks.items[cursor->chunk - 1];
	if (cursor->row || cursor->row_end < chunk->row_count || chunk->is_bare ||
	    (merge->active_count > 1 && !is_in_front(cursor, &first, &second)))
		return WEIR_OK;
	*out = weir_run_give(cursor->run->space, chunk);
	if (!*out)
		return WEIR_OK;
	vector_forget(merge);
	*rows = chunk->row_count;
	cursor->row = cursor->row_end;
	chunk_close(cursor);
	return WEIR_OK;
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
		if (runs[i]->reserved) {
			cursor.batch = runs[i]->batch;
			code = lying_row(merge, &cursor, bound, &rows, err);
			*out += rows;
		}
		if (runs[i]->reserved || !runs[i]->chunks.count)
			continue;
		chunk = &runs[i]->chunks.items[chunk_of(runs[i], bound)];
		code = chunk_bytes(merge, &cursor, chunk, &bytes, err);
		if (!code)
			code = weir_block_open(&merge->account, &merge->cache, bytes, chunk->size, NULL,
					       false, &cursor.opened, err);
		if (!code)
			code = weir_run_chunk_complete(runs[i], chunk, &merge->account, merge->schema, &cursor.opened, err);
		cursor.batch = cursor.opened;
		if (!code)
			code = rows_before(merge, &cursor, chunk, bound, &rows, err);
		*out += chunk->row_first + rows;
		chunk_close(&cursor);
		weir_free(&merge->account, cursor.copy, cursor.copy_size);
		cursor.copy = NULL;
		cursor.copy_size = 0;
	}
	weir_key_list_release(&cursor.few);
	return code;
}

void weir_merge_close(struct weir_merge *merge)
{
	vector_forget(merge);
	for (size_t i = 0; i < merge->cursor_count; i++) {
		struct cursor *cursor = &merge->cursors[i];

		chunk_close(cursor);
		weir_key_list_release(&cursor->few);
	}
	weir_free(&merge->account, merge->cursors, merge->cursors ? (merge->cursor_count + 1) * sizeof(*merge->cursors) : 0);
	weir_free(&merge->account, merge->items, merge->items ? 2 * merge->items_max * sizeof(*merge->items) : 0);
	weir_free(&merge->account, merge->active, merge->active ? (merge->cursor_count + 1) * sizeof(*merge->active) : 0);
	weir_free(&merge->account, merge->views, merge->views ? (merge->cursor_count + 1) * sizeof(*merge->views) : 0);
	weir_free(&merge->account, merge->cells, merge->cells ? cells_size(merge) : 0);
	weir_free(&merge->account, merge->copies, merge->copies_size);
	merge->copies = NULL;
	merge->copies_size = 0;
	merge->cursors = NULL;
	merge->items = NULL;
	merge->active = NULL;
	merge->views = NULL;
	merge->cells = NULL;
	merge->cursor_count = merge->active_count = merge->item_count = merge->item_at = 0;
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
