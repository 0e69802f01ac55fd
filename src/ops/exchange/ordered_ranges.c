/* The half of an ordered exchange that stands behind: the order is cut into ranges, which are the splits of what
 * follows, and a lane merges all runs within its range.
 *
 *     bounds: ─────┼─────────┼───────┼────      at marks, where chunks of all runs end; at the beginnings of chunks,
 *                                               where there are no marks; in front of a group's first row, or of the
 *                                               first row of a piece, where ranges are those of somebody who asked for
 *                                               them
 *
 * Pages of ranges that are over go to whoever needs some next.
 */
#include "ops/exchange/ordered_impl.h"

#include <stdlib.h>
#include <string.h>

struct range_source {
	struct weir_ordered *state;
	uint64_t next;
};

struct range_split {
	uint64_t number;
	struct weir_bound from, to;
};

struct range_lane {
	struct weir_lane_context *context;
	struct weir_ordered *state;
	struct weir_merge *merge;
	uint64_t rows; /* of the open range, so far */
};

static int compare_bounds(const void *a_object, const void *b_object)
{
	const struct weir_bound *a = a_object, *b = b_object;
	int order = weir_key_compare(a->key, a->key_size, b->key, b->key_size);

	if (order)
		return order;
	if (a->split != b->split)
		return a->split < b->split ? -1 : 1;
	if (a->part != b->part)
		return a->part < b->part ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

/* In front of a chunk, or in front of the first row with the group that the chunk begins with. */
static struct weir_bound bound_at(const struct weir_ordered *state, const struct weir_sorted_run *run,
				  const struct weir_run_chunk *chunk)
{
	if (state->keeps_groups)
		return (struct weir_bound){.key = chunk->fence,
					   .key_size = weir_key_beginning(&state->columns, state->group_key_count,
									  chunk->fence, chunk->fence_size),
					   .row = -1};
	if (weir_fence_is_cut(chunk->fence_size))
		return (struct weir_bound){.key = chunk->fence, .key_size = chunk->fence_size, .row = -1};
	return (struct weir_bound){.key = chunk->fence,
				   .key_size = chunk->fence_size,
				   .split = run->split,
				   .part = run->part,
				   .row = chunk->row_first};
}

/* Bounds in front of the first row with each number. */
static int cut_at_numbers(struct weir_ordered *state, struct weir_error *err)
{
	int code = WEIR_OK;

	state->part_keys = weir_alloc_zero(state->account, (size_t)state->part_count * PART_KEY_BYTES, err);
	if (!state->part_keys)
		return err->code;
	for (uint64_t i = 1; i < (uint64_t)state->part_count && !code; i++) {
		uint64_t number = __builtin_bswap64(i);
		uint8_t *key = state->part_keys + i * PART_KEY_BYTES;

		memcpy(key + 1, &number, sizeof(number));
		code = weir_list_push(&state->bounds, state->account, err,
				      (struct weir_bound){.key = key, .key_size = PART_KEY_BYTES, .row = -1});
	}
	return code;
}

/* Bounds in front of rows that are counted off, all of which are alike: runs follow each other. */
static int cut_at_rows(struct weir_ordered *state, struct weir_error *err)
{
	static const uint8_t no_key[1] = {0};
	int64_t parts = state->part_rows ? (state->rows + state->part_rows - 1) / state->part_rows : state->part_count;
	int64_t before = 0; /* rows of the runs before run r */
	size_t r = 0;
	int code = WEIR_OK;

	if (parts > state->rows)
		parts = state->rows;
	for (int64_t i = 1; i < parts && !code; i++) {
		int64_t at = state->part_rows ? i * state->part_rows : (int64_t)((__int128)i * state->rows / parts);

		while (at - before >= state->runs.items[r]->row_count)
			before += state->runs.items[r++]->row_count;
		code = weir_list_push(&state->bounds, state->account, err,
				      (struct weir_bound){.key = no_key,
							  .split = state->runs.items[r]->split,
							  .part = state->runs.items[r]->part,
							  .row = at - before});
	}
	return code;
}

/* Bounds at marks, about so many chunks apart, and in between where there are far more: few rows were known when marks
 * were made. */
static int cut_at_marks(struct weir_ordered *state, const struct weir_run_marks *marks, const struct weir_bound *fences,
			size_t count, size_t chunks, struct weir_error *err)
{
	struct weir_bound mark = {.row = -1};
	size_t since = 0;
	int code = WEIR_OK;

	mark.key = weir_run_mark(marks, 0, &mark.key_size);
	for (size_t i = 0; i < count && !code; i++, since++) {
		while (!code && mark.mark < marks->count && compare_bounds(&mark, &fences[i]) <= 0) {
			mark.mark++;
			if (4 * since >= 3 * chunks) {
				code = weir_list_push(&state->bounds, state->account, err, mark);
				since = 0;
			}
			if (mark.mark < marks->count)
				mark.key = weir_run_mark(marks, mark.mark, &mark.key_size);
		}
		if (!code && since >= 2 * chunks) {
			code = weir_list_push(&state->bounds, state->account, err, fences[i]);
			since = 0;
		}
	}
	return code;
}

/* Bounds at the beginnings of chunks, so that ranges are about alike. */
static int cut(struct weir_ordered *state, struct weir_error *err)
{
	struct WEIR_LIST(struct weir_bound) fences = {0};
	/* What steps have made has chunks that end anywhere. */
	const struct weir_run_marks *marks = state->steps.count
						     ? NULL
						     : atomic_load_explicit(&state->space.marks, memory_order_acquire);
	int64_t range_bytes, pieces;
	size_t ranges, large = 0;
	int code = WEIR_OK;

	state->is_cut = true;
	weir_ordered_settle_steps(state);
	for (size_t r = 0; r < state->runs.count && !code; r++) {
		const struct weir_sorted_run *run = state->runs.items[r];

		state->bytes += run->bytes;
		state->open_bytes += weir_run_open_bytes(run);
		large = run->large_max > large ? run->large_max : large;
		state->rows += run->row_count;
		for (size_t c = 0; c < run->chunks.count && !code; c++)
			code = weir_list_push(&fences, state->account, err,
					      bound_at(state, run, &run->chunks.items[c]));
	}
	state->open_bytes += LARGE_TIMES * large;
	/* Many, so that pages of those that are over are soon there for what follows; of runs on disk each bound is in
	 * the middle of a chunk that is read twice. */
	pieces = atomic_load_explicit(&state->space.spilled, memory_order_relaxed) ? 4 : 16;
	range_bytes = between((int64_t)state->bytes / (pieces * (int64_t)state->threads), RANGE_BYTES_MIN,
			      pieces == 4 ? state->range_bytes_max : RANGE_BYTES_MAX);
	ranges = state->limit >= 0 ? 1 : (size_t)((int64_t)state->bytes / range_bytes) + 1;
	if (state->keeps_groups && !state->group_key_count)
		ranges = 1;
	if (!code && (state->part_count || state->part_rows)) {
		code = state->columns.count ? cut_at_numbers(state, err) : cut_at_rows(state, err);
		ranges = 1;
	}
	if (!code && fences.count)
		qsort(fences.items, fences.count, sizeof(*fences.items), compare_bounds);
	if (!code && marks && marks->count) {
		size_t chunks = (size_t)((double)fences.count * (double)state->marked_bytes /
					 (double)(state->bytes + 1));

		code = cut_at_marks(state, marks, fences.items, fences.count, chunks ? chunks : 1, err);
	} else if (!code && ranges > 1 && fences.count) {
		for (size_t i = 1; i < ranges && !code; i++) {
			size_t at = i * fences.count / ranges;

			/* A group that is larger than a range has one of its own. */
			if (at > (i - 1) * fences.count / ranges &&
			    (!state->bounds.count ||
			     compare_bounds(&state->bounds.items[state->bounds.count - 1], &fences.items[at])))
				code = weir_list_push(&state->bounds, state->account, err, fences.items[at]);
		}
	}
	weir_list_release(&fences, state->account);
	atomic_store_explicit(&state->ranges, state->rows ? state->bounds.count + 1 : 0, memory_order_relaxed);
	return code;
}

static int split_next(void *object, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct range_source *source = object;
	struct weir_ordered *state = source->state;
	struct range_split *split;
	uint64_t count;
	int code = state->is_cut ? WEIR_OK : cut(state, err);

	if (code)
		return code;
	/* Without keys there is one group, also of no rows. */
	count = state->rows || (state->keeps_groups && !state->group_key_count) ? state->bounds.count + 1 : 0;
	*done = source->next == count;
	if (*done)
		return WEIR_OK;
	split = weir_alloc_zero(state->account, sizeof(*split), err);
	if (!split)
		return err->code;
	split->number = source->next;
	if (source->next)
		split->from = state->bounds.items[source->next - 1];
	if (source->next < state->bounds.count)
		split->to = state->bounds.items[source->next];
	*out = (struct weir_split_info){.number = source->next++,
					.rows_est = state->rows / (int64_t)count,
					.bytes_est = state->bytes / count,
					.memory_est = state->open_bytes + (2 << 20),
					.is_block = state->part_count && state->columns.count &&
						    state->bytes <= state->whole_bytes};
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *object, void *split)
{
	weir_free(((struct range_source *)object)->state->account, split, sizeof(struct range_split));
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct weir_ordered *state = ((struct range_source *)object)->state;
	struct range_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	lane->context = context;
	lane->state = state;
	code = weir_merge_new(context->account, state->schema, &state->columns, &lane->merge, err);
	if (code)
		weir_free(context->account, lane, sizeof(*lane));
	else
		*out = lane;
	return code;
}

static void splits_over(void *object, uint64_t count)
{
	atomic_store_explicit(&((struct range_source *)object)->state->over, count, memory_order_relaxed);
}

/* Pages of rows in ranges that are over go to whoever needs some next, which is mostly what the next ranges become:
 * pages that were never used cost far more. */
static void drop_over(struct weir_ordered *state)
{
	uint64_t over = atomic_load_explicit(&state->over, memory_order_relaxed);
	uint64_t before = atomic_load_explicit(&state->dropped, memory_order_relaxed);

	/* A few at a time: each call is an interruption of the other lanes. */
	if (state->is_asked || over > state->bounds.count || over <= before || over - before < state->bounds.count / 16)
		return;
	/* acquire: what the one before has dropped is gone. */
	if (atomic_exchange_explicit(&state->is_dropping, true, memory_order_acquire))
		return;
	before = atomic_load_explicit(&state->dropped, memory_order_relaxed);
	if (over > before) {
		atomic_store_explicit(&state->dropped, over, memory_order_relaxed);
		weir_runs_forget(state->runs.items, state->runs.count, before ? &state->bounds.items[before - 1] : NULL,
				 &state->bounds.items[over - 1]);
	}
	atomic_store_explicit(&state->is_dropping, false, memory_order_release);
}

static int split_open(void *object, void *split_object, struct weir_error *err)
{
	struct range_lane *lane = object;
	const struct range_split *split = split_object;

	lane->rows = 0;
	drop_over(lane->state);
	if (split->number < atomic_load_explicit(&lane->state->dropped, memory_order_relaxed))
		return weir_error_set(err, WEIR_E_SPILL_CORRUPT,
				      "what %s had made cannot be made again: its rows are gone", lane->state->name);
	return weir_merge_open(lane->merge, lane->state->runs.items, lane->state->runs.count, &split->from, &split->to,
			       err);
}

static void range_end(struct range_lane *lane)
{
	_Atomic uint64_t *most = &lane->state->range_rows_max;
	uint64_t before = atomic_load_explicit(most, memory_order_relaxed);

	weir_merge_close(lane->merge);
	while (before < lane->rows && !atomic_compare_exchange_weak_explicit(
					      most, &before, lane->rows, memory_order_relaxed, memory_order_relaxed))
		;
}

static int next(void *object, struct weir_vector *out, struct weir_error *err)
{
	struct range_lane *lane = object;
	int64_t limit = lane->state->limit;
	int code = WEIR_OK;

	/* Where there is a limit there is one range. */
	if (limit >= 0 && lane->rows >= (uint64_t)limit)
		*out = (struct weir_vector){0};
	else
		code = weir_merge_next(lane->merge, out, err);
	if (!code && limit >= 0 && lane->rows + out->row_count > (uint64_t)limit)
		out->row_count = out->selection.count = (uint32_t)((uint64_t)limit - lane->rows);
	lane->rows += out->row_count;
	if (!code && !out->row_count)
		range_end(lane);
	else if (!code && lane->state->is_random)
		out->column_count--;
	return code;
}

static int next_chunk(void *object, struct weir_chunk **chunk, int64_t *rows, struct weir_error *err)
{
	struct range_lane *lane = object;
	struct weir_ordered *state = lane->state;
	int code = WEIR_OK;

	*chunk = NULL;
	if (weir_ordered_is_plain(state))
		code = weir_merge_next_chunk(lane->merge, chunk, rows, err);
	/* Where it may begin anywhere it may be cut anywhere. */
	if (!code && !*chunk && state->space.has_marks)
		code = weir_merge_make_chunk(lane->merge, state->is_random ? state->space.bare : state->schema,
					     lane->context->lane, chunk, rows, err);
	if (!code && *chunk)
		lane->rows += (uint64_t)*rows;
	return code;
}

static void range_abort(void *object)
{
	weir_merge_close(((struct range_lane *)object)->merge);
}

static void lane_free(void *object)
{
	struct range_lane *lane = object;

	weir_merge_free(lane->merge);
	weir_free(lane->context->account, lane, sizeof(*lane));
}

static void range_free(void *object)
{
	struct range_source *source = object;
	struct weir_account *account = source->state->account;

	weir_ordered_unref(source->state);
	weir_free(account, source, sizeof(*source));
}

const struct weir_source_ops weir_ordered_ranges_ops = {
	.name = "merge",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.next_chunk = next_chunk,
	.split_abort = range_abort,
	.lane_free = lane_free,
	.splits_over = splits_over,
	.free = range_free,
};

int weir_ordered_ranges_new(struct weir_ordered *state, void **out, struct weir_error *err)
{
	struct range_source *source = weir_alloc_zero(state->account, sizeof(*source), err);

	if (!source)
		return err->code;
	source->state = weir_ordered_ref(state);
	*out = source;
	return WEIR_OK;
}
