/* Each run has a cursor: its next row, and the keys of the next few, or of all where the run lies in memory as it was
 * gathered. A run in chunks has one of them open. There may be hundreds of cursors, so each is kept small.
 *
 *     cursor 0:  ──●───────●──●────┊●──        keys that are at hand
 *     cursor 1:  ────●─●──●────●───●           its last one is the least of the last ones: no row that is not at hand comes
 *     cursor 2:  ●────●────────●───┊─●─        before it, so all up to here are the next batch
 *
 * Rows are ordered by the batch: those of all cursors up to the bound are put in a row, cursor by cursor, and sorted,
 * which keeps equal ones in the order of their runs. That costs a third of what a heap of cursors does, whose every
 * step is a guess. A vector of it is made column by column. Where a chunk ends the batch does, since its strings point
 * into it; the next chunk is opened when the batch has been handed out. Where the first cursor has many rows before the
 * next one's first, they are taken without looking at others, and rows in order that all come from one place are not
 * moved at all.
 *
 * A large row (run.h) is not read before its turn: its key is the fence. There is room for one of them, so it is the
 * only one of its vector. While a fence is the beginning of a key only, rows are picked one at a time, and where
 * beginnings are alike the rows are read for their keys, of which no more is kept than tells them apart. That long keys
 * are equal is known by their sizes and hashes. */
#include "ops/exchange/merge.h"

#include "ops/exchange/merge_impl.h"

#include <string.h>

enum {
	KEYS_MIN = 128,       /* that are read at once, of each cursor */
	BATCH_ROWS = 1 << 13, /* about */
	STREAK = 64,
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
	merge->key_columns_of = weir_alloc_zero(&merge->account,
						(schema->field_count + 1) * sizeof(*merge->key_columns_of), err);
	if (!merge->key_columns_of) {
		weir_merge_free(merge);
		return err->code;
	}
	merge->nested = weir_alloc_zero(&merge->account, (schema->field_count + 1) * sizeof(*merge->nested), err);
	if (merge->nested)
		merge->has_nulls = weir_alloc_zero(&merge->account,
						   (schema->field_count + 1) * sizeof(*merge->has_nulls), err);
	if (!merge->has_nulls) {
		weir_merge_free(merge);
		return err->code;
	}
	*out = merge;
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
	if (merge->from.key && least &&
	    weir_key_compare(merge->from.key, merge->from.key_size, least, least_size) > 0) {
		least = merge->from.key;
		least_size = merge->from.key_size;
	}
	if (merge->to.key && greatest &&
	    weir_key_compare(merge->to.key, merge->to.key_size, greatest, greatest_size) < 0) {
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
	merge->items = weir_alloc(&merge->account, merge->items_max * sizeof(*merge->items), err);
	merge->places = merge->items ? weir_alloc(&merge->account, 2 * merge->items_max * sizeof(*merge->places), err)
				     : NULL;
	return merge->places ? weir_spans_new(&merge->account, count, &merge->spans, err) : err->code;
}

/* For an open chunk of each run that has some on disk. */
static int room_for_copies(struct weir_merge *merge, struct weir_sorted_run *const *runs, size_t count,
			   struct weir_error *err)
{
	size_t size = 0;

	for (size_t i = 0; i < count; i++) {
		size += runs[i]->footprint_max;
		merge->large_max = runs[i]->large_max > merge->large_max ? runs[i]->large_max : merge->large_max;
	}
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
	merge->large_max = 0;
	merge->has_large = false;
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
		weir_key_list_init(&merge->cursors[i].few, &merge->account, weir_cursor_key_width(merge));
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
			code = weir_cursor_lie(merge, cursor, &has_row, err);
		} else {
			cursor->chunk = from->key ? weir_cursor_first_chunk(runs[i], from) : 0;
			code = weir_cursor_next_chunk(merge, cursor, &has_row, err);
		}
		if (!code && has_row)
			merge->active[merge->active_count++] = (uint32_t)i;
		bytes += runs[i]->bytes;
		rows += runs[i]->row_count;
	}
	bytes = rows ? bytes / (uint64_t)rows : 0;
	merge->row_bytes = (int64_t)bytes;
	merge->rows_max = bytes ? (uint32_t)(WEIR_VECTOR_BYTES / bytes) : WEIR_VECTOR_ROWS;
	merge->rows_max = merge->rows_max < 1                  ? 1
			  : merge->rows_max > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS
							       : merge->rows_max;
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
	weir_cursor_forget_large(merge);
}

/* How many of the first cursor's next rows, of at most so many, come before `next`. */
static uint32_t rows_in_front(const struct weir_merge *merge, uint32_t number, const struct head *next, uint32_t most)
{
	uint32_t low = 1, high = most;

	/* The last of them first: mostly it is before, too. Those up to `low` are, those behind `high` are not. */
	for (uint32_t at = high; low < high; at = low + (high - low + 1) / 2) {
		struct head probe = weir_cursor_head(merge, number, at - 1);

		if (comes_before(merge, &probe, next))
			low = at;
		else
			high = at - 1;
	}
	return low;
}

/* Opens the next chunk where one has ended, forgets cursors that are at their end, and sees that all others, where
 * there are several, have keys at hand. */
static int cursors_ready(struct weir_merge *merge, struct weir_error *err)
{
	size_t kept = 0;
	int code = WEIR_OK;

	for (size_t i = 0; i < merge->active_count && !code; i++) {
		struct cursor *cursor = &merge->cursors[merge->active[i]];
		bool has_row = cursor->row < cursor->row_end;

		if (!has_row)
			code = weir_cursor_next_chunk(merge, cursor, &has_row, err);
		if (!code && has_row)
			merge->active[kept++] = merge->active[i];
	}
	if (code)
		return code;
	merge->active_count = kept;
	merge->has_cut = false;
	for (size_t i = 0; i < kept && merge->has_large; i++)
		merge->has_cut |= merge->cursors[merge->active[i]].is_cut;
	/* One that is alone is not compared. */
	for (size_t i = 0; i < kept && kept > 1 && !code; i++)
		code = weir_cursor_show(merge, &merge->cursors[merge->active[i]], err);
	return code;
}

/* The cursor whose next row is the first, and the first row of all others, of which there are some. */
static void first_two(const struct weir_merge *merge, struct head *first, struct head *second)
{
	*first = weir_cursor_head(merge, merge->active[0], 0);
	second->number = UINT32_MAX;
	for (size_t i = 1; i < merge->active_count; i++) {
		struct head head = weir_cursor_head(merge, merge->active[i], 0);

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
	int64_t known = weir_cursor_known(merge, &merge->cursors[number]);

	return weir_cursor_head(merge, number, (known < merge->keys_max ? known : merge->keys_max) - 1);
}

/* The cursor's rows up to the bound, behind those that are there. */
static void collect(struct weir_merge *merge, uint32_t number, const struct head *bound)
{
	struct cursor *cursor = &merge->cursors[number];
	int64_t known = weir_cursor_known(merge, cursor);
	struct weir_windowed *to = merge->items + merge->item_count;
	uint32_t count = 0, most = known < merge->keys_max ? (uint32_t)known : merge->keys_max;

	for (; count < most; count++) {
		struct head head = weir_cursor_head(merge, number, count);

		/* One that is of the bound's own cursor is not behind it. */
		if (head.window > bound->window ||
		    (head.window == bound->window && number != bound->number && !ties_before(merge, &head, bound)))
			break;
		to[count] = (struct weir_windowed){
			.window = head.window, .row = (uint32_t)(cursor->row + count), .source = number};
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
		weir_windows_order(merge->items, merge->places, merge->places + merge->items_max, merge->item_count);
	else
		weir_items_order(merge->views, merge->items, merge->places, merge->places + merge->items_max,
				 merge->item_count, merge->window_at);
	merge->place_bits = weir_place_bits(merge->item_count);
}

/* How many of the first cursor's next rows come before those of all others. */
static int count_streak(struct weir_merge *merge, const struct head *first, const struct head *second, int64_t *out,
			struct weir_error *err)
{
	struct cursor *cursor = &merge->cursors[first->number];
	int64_t known = weir_cursor_known(merge, cursor);

	known = known < merge->rows_max ? known : merge->rows_max;
	*out = rows_in_front(merge, first->number, second, (uint32_t)known);
	/* All that are at hand: there may be far more, as where many rows have one key. */
	if (*out < known || known < STREAK || known == merge->rows_max)
		return WEIR_OK;
	return weir_cursor_find(merge, cursor, second, out, err);
}

/* Rows of one cursor that come before those of all others, if they are many. */
static int pick_streak(struct weir_merge *merge, uint32_t *out, bool *is_slice, struct weir_error *err)
{
	struct head first = {.number = merge->active[0]}, second;
	struct cursor *cursor;
	int64_t known;
	uint32_t count;
	int code = WEIR_OK;

	if (merge->active_count > 1)
		first_two(merge, &first, &second);
	cursor = &merge->cursors[first.number];
	known = cursor->row_end - cursor->row;
	if (merge->active_count > 1)
		code = count_streak(merge, &first, &second, &known, err);
	count = known < merge->rows_max ? (uint32_t)known : merge->rows_max;
	if (code || (merge->active_count > 1 && count < STREAK && count < merge->rows_max))
		return code;
	for (uint32_t i = 0; i < count; i++) {
		int64_t row = cursor->row + i;

		merge->picks[i] = (struct weir_pick){.source = first.number,
						     .row = cursor->order ? cursor->order[row] : (uint32_t)row};
	}
	cursor->row += count;
	*is_slice = !cursor->order;
	*out = count;
	return WEIR_OK;
}

/* The whole key of a large row that was not read. */
static int read_whole_key(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err)
{
	int code = weir_cursor_read_large(merge, cursor, err);

	if (!code)
		code = weir_cursor_read_keys(merge, cursor, 0, 1, err);
	weir_cursor_forget_large(merge);
	return code;
}

/* No more of a key than is needed to tell it from the others so far, so that many long ones fit. */
static int shorten_key(struct weir_merge *merge, struct cursor *cursor, uint32_t needed, struct weir_error *err)
{
	uint32_t size;
	const uint8_t *key = weir_key_at(&cursor->few, 0, &size);
	struct weir_key_list shorter;
	int code;

	cursor->is_cut = size > needed;
	if (!cursor->is_cut)
		return WEIR_OK;
	weir_key_list_init(&shorter, &merge->account, weir_cursor_key_width(merge));
	code = weir_key_list_append(&shorter, key, needed, err);
	weir_key_list_release(&cursor->few);
	cursor->few = shorter;
	return code;
}

/* As much of both keys as tells them apart; at least one of them is cut, and they begin alike. */
static int tell_apart(struct weir_merge *merge, struct cursor *a, struct cursor *b, struct weir_error *err)
{
	struct cursor *both[] = {a, b};
	const uint8_t *first, *second;
	uint32_t first_size, second_size, common = 0, needed;
	bool was_cut[] = {a->is_cut, b->is_cut};
	int code = WEIR_OK;

	for (size_t i = 0; i < 2 && !code; i++)
		code = was_cut[i] ? read_whole_key(merge, both[i], err) : WEIR_OK;
	if (code)
		return code;
	first = weir_cursor_head(merge, (uint32_t)(a - merge->cursors), 0).key;
	first_size = weir_cursor_head(merge, (uint32_t)(a - merge->cursors), 0).key_size;
	second = weir_cursor_head(merge, (uint32_t)(b - merge->cursors), 0).key;
	second_size = weir_cursor_head(merge, (uint32_t)(b - merge->cursors), 0).key_size;
	while (common < first_size && common < second_size && first[common] == second[common])
		common++;
	needed = common + WEIR_FENCE_BYTES;
	for (size_t i = 0; i < 2 && !code; i++)
		code = was_cut[i] ? shorten_key(merge, both[i], needed, err) : WEIR_OK;
	return code;
}

/* Whether the next row of a comes before that of b, which has a larger number. */
static int compare_next(struct weir_merge *merge, uint32_t a, uint32_t b, bool *is_before, struct weir_error *err)
{
	struct cursor *first = &merge->cursors[a], *second = &merge->cursors[b];
	int order, code;

	for (;;) {
		struct head one = weir_cursor_head(merge, a, 0), other = weir_cursor_head(merge, b, 0);

		order = memcmp(one.key, other.key, one.key_size < other.key_size ? one.key_size : other.key_size);
		if (order || !(first->is_cut || second->is_cut))
			break;
		if (first->is_cut && second->is_cut) {
			const struct weir_run_chunk *its = &first->run->chunks.items[first->chunk - 1];
			const struct weir_run_chunk *others = &second->run->chunks.items[second->chunk - 1];

			if (its->key_size == others->key_size && its->key_hash == others->key_hash)
				break;
		}
		code = tell_apart(merge, first, second, err);
		if (code)
			return code;
	}
	*is_before = order <= 0;
	return WEIR_OK;
}

/* The next row, where its key, or another's, is not all there. */
static int pick_one(struct weir_merge *merge, struct weir_error *err)
{
	uint32_t first = merge->active[0];
	struct cursor *cursor;
	int code = WEIR_OK;

	for (size_t i = 1; i < merge->active_count && !code; i++) {
		bool is_before = true;

		code = compare_next(merge, first, merge->active[i], &is_before, err);
		first = is_before ? first : merge->active[i];
	}
	cursor = &merge->cursors[first];
	merge->picks[0] = (struct weir_pick){.source = first,
					     .row = cursor->order ? cursor->order[cursor->row] : (uint32_t)cursor->row};
	cursor->row += !code;
	return code;
}

int weir_merge_pick(struct weir_merge *merge, uint32_t *out, bool *is_slice, struct weir_error *err)
{
	uint32_t count = 0;
	bool has_large = false;
	int code;

	*out = 0;
	*is_slice = false;
	if (merge->item_at == merge->item_count) {
		code = cursors_ready(merge, err);
		if (code || !merge->active_count)
			return code;
		if (merge->has_cut && merge->active_count > 1) {
			*out = 1;
			return pick_one(merge, err);
		}
		code = pick_streak(merge, out, is_slice, err);
		if (code || *out)
			return code;
		next_batch(merge);
	}
	for (; count < merge->rows_max && merge->item_at < merge->item_count; count++) {
		const struct weir_windowed *item =
			&merge->items[weir_place_index(merge->places[merge->item_at], merge->place_bits)];
		const uint32_t *order = merge->cursors[item->source].order;
		bool is_large = merge->cursors[item->source].is_unread;

		if (is_large && has_large)
			break;
		has_large |= is_large;
		merge->item_at++;
		merge->picks[count] = (struct weir_pick){.source = item->source,
							 .row = order ? order[item->row] : item->row};
	}
	*out = count;
	return WEIR_OK;
}

/* The rows of the next vector: first those that a block had no room for. */
static int next_picks(struct weir_merge *merge, uint32_t *count, bool *is_slice, struct weir_error *err)
{
	*count = merge->picks_count - merge->picks_at;
	*is_slice = false;
	if (!*count)
		return weir_merge_pick(merge, count, is_slice, err);
	memmove(merge->picks, merge->picks + merge->picks_at, *count * sizeof(*merge->picks));
	merge->picks_at = merge->picks_count = 0;
	return WEIR_OK;
}

int weir_merge_next(struct weir_merge *merge, struct weir_vector *out, struct weir_error *err)
{
	uint32_t count, column_count = merge->schema->field_count;
	bool is_slice;
	int code;

	*out = (struct weir_vector){0};
	vector_forget(merge);
	code = next_picks(merge, &count, &is_slice, err);
	if (code || !count)
		return code;
	for (uint32_t i = 0; i < count && merge->has_large && !code; i++) {
		struct cursor *cursor = &merge->cursors[merge->picks[i].source];

		if (!cursor->is_unread)
			continue;
		code = weir_cursor_read_large(merge, cursor, err);
		cursor->is_unread = false;
		if (!code)
			weir_cursor_show_cells(merge, cursor);
	}
	if (code)
		return code;
	is_slice |= count == 1;
	out->columns = weir_arena_alloc_zero(&merge->arena, (column_count + 1) * sizeof(*out->columns), err);
	if (!out->columns)
		return err->code;
	if (!is_slice)
		weir_spans_find(merge->spans, merge->picks, count);
	for (uint32_t i = 0; i < column_count && !code; i++) {
		if (is_slice)
			code = weir_column_from_array(merge->cursors[merge->picks[0].source].batch->columns[i],
						      merge->picks[0].row, count, &merge->arena, &out->columns[i], err);
		else
			code = weir_interleave(merge->cells + i * merge->cursor_count, merge->has_nulls[i],
					       merge->spans, merge->picks, count, &merge->account, &merge->arena,
					       &out->columns[i], &merge->nested[i], err);
	}
	out->row_count = out->selection.count = count;
	out->column_count = column_count;
	out->source_row = -1;
	return code;
}

/* Whether all rows of the cursor's open chunk come before that of another cursor. No row of it has a key beyond that
 * which the next chunk begins with, or that the run ends with. */
static bool is_in_front(const struct cursor *cursor, const struct head *first, const struct head *other)
{
	const struct weir_sorted_run *run = cursor->run;
	const struct weir_run_chunk *after = &run->chunks.items[cursor->chunk];
	bool has_after = cursor->chunk < run->chunks.count;
	const uint8_t *key = has_after ? after->fence : run->last;
	uint32_t size = has_after ? after->fence_size : run->last_size;
	int order = weir_key_compare(key, size, other->key, other->key_size);

	if (weir_fence_is_cut(size) && other->key_size >= size && !memcmp(key, other->key, size))
		return false;
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
	weir_cursor_forget_large(merge);
	code = cursors_ready(merge, err);
	if (code || !merge->active_count || merge->has_cut)
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
	weir_cursor_close(cursor);
	return WEIR_OK;
}

void weir_merge_close(struct weir_merge *merge)
{
	vector_forget(merge);
	for (size_t i = 0; i < merge->cursor_count; i++) {
		struct cursor *cursor = &merge->cursors[i];

		weir_cursor_close(cursor);
		weir_key_list_release(&cursor->few);
	}
	weir_free(&merge->account, merge->cursors,
		  merge->cursors ? (merge->cursor_count + 1) * sizeof(*merge->cursors) : 0);
	weir_free(&merge->account, merge->items, merge->items ? merge->items_max * sizeof(*merge->items) : 0);
	weir_free(&merge->account, merge->block_picks, merge->block_picks_max * sizeof(*merge->block_picks));
	merge->block_picks = NULL;
	merge->block_picks_max = 0;
	merge->picks_at = merge->picks_count = 0;
	weir_free(&merge->account, merge->places, merge->places ? 2 * merge->items_max * sizeof(*merge->places) : 0);
	weir_free(&merge->account, merge->active,
		  merge->active ? (merge->cursor_count + 1) * sizeof(*merge->active) : 0);
	weir_free(&merge->account, merge->views, merge->views ? (merge->cursor_count + 1) * sizeof(*merge->views) : 0);
	weir_free(&merge->account, merge->cells, merge->cells ? cells_size(merge) : 0);
	weir_spans_free(&merge->account, merge->spans);
	merge->spans = NULL;
	weir_free(&merge->account, merge->copies, merge->copies_size);
	merge->copies = NULL;
	merge->copies_size = 0;
	weir_free(&merge->account, merge->large, merge->large_size);
	merge->large = NULL;
	merge->large_size = 0;
	merge->cursors = NULL;
	merge->items = NULL;
	merge->places = NULL;
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
