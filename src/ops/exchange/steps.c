/* steps: where there are more runs than a lane can have open at once, neighbours become one run first.
 *
 *     runs:   0 1 2 3 4 5 6 7 8 9        as many as can be open: 6
 *     steps:  0 1 2 3 └─5'─┘ └─7'──┘     only so many that the rest can be, the last ones, by as many lanes as there are
 *
 * A fragment of its own between that of the runs and that of the ranges: its splits are the steps, its sink writes what
 * comes of each as a run, and lets go of what it was made of. Mostly there is nothing to do, and it is not run.
 *
 * Runs are in the order of their splits here, and a step takes neighbours, so what comes of it has a place in that
 * order: that of the first. Rows with equal keys stay as they were.
 *
 * One level is enough for data of hundreds of times the limit. Beyond that lanes ask for more memory than there is, and
 * the run ends with the figures.
 */
#include "ops/exchange/ordered_impl.h"

#include <stdlib.h>
#include <string.h>

static int compare_runs(const void *a_object, const void *b_object)
{
	const struct weir_sorted_run *a = *(struct weir_sorted_run *const *)a_object;
	const struct weir_sorted_run *b = *(struct weir_sorted_run *const *)b_object;

	if (a->split != b->split)
		return a->split < b->split ? -1 : 1;
	return (a->part > b->part) - (a->part < b->part);
}

/* ---- which ---- */

static bool is_needed(const void *object)
{
	const struct weir_ordered *state = object;
	uint64_t sum = 0;

	for (size_t i = 0; i < state->runs.count; i++)
		sum += weir_run_open_bytes(state->runs.items[i]);
	return state->runs.count > 2 && sum > state->merge_bytes;
}

static int plan(struct weir_ordered *state, struct weir_error *err)
{
	size_t count = state->runs.count, most, steps, merged;
	uint64_t sum = 0;
	int code = WEIR_OK;

	qsort(state->runs.items, count, sizeof(*state->runs.items), compare_runs);
	for (size_t i = 0; i < count; i++)
		sum += weir_run_open_bytes(state->runs.items[i]);
	/* As if all were alike. */
	most = (size_t)(state->merge_bytes / (sum / count + 1));
	most = most < 2 ? 2 : most;
	if (most >= count)
		most = count - 1;
	steps = (count - most + most - 2) / (most > 1 ? most - 1 : 1);
	steps = steps < state->threads ? state->threads : steps;
	/* Each step leaves one. */
	merged = count - most + steps;
	merged = merged > count ? count : merged;
	steps = steps > merged / 2 ? merged / 2 : steps;
	for (size_t i = 0; i < steps && !code; i++) {
		struct weir_ordered_step step = {.first = count - merged + i * merged / steps};

		step.count = count - merged + (i + 1) * merged / steps - step.first;
		code = weir_list_push(&state->steps, state->account, err, step);
	}
	atomic_store_explicit(&state->depth, 2, memory_order_relaxed);
	return code;
}

void weir_ordered_settle_steps(struct weir_ordered *state)
{
	size_t count = 0;

	for (size_t i = 0; i < state->steps.count; i++) {
		struct weir_ordered_step *step = &state->steps.items[i];

		state->runs.items[step->first] = step->run;
		step->run = NULL;
	}
	for (size_t i = 0; i < state->runs.count; i++)
		if (state->runs.items[i])
			state->runs.items[count++] = state->runs.items[i];
	state->runs.count = count;
	if (count)
		qsort(state->runs.items, count, sizeof(*state->runs.items), compare_runs);
}

/* ---- the source: a step is a split ---- */

struct step_source {
	struct weir_ordered *state;
	bool is_planned;
	size_t next;
};

struct merge_lane {
	struct weir_lane_context *context;
	struct weir_ordered *state;
	struct weir_merge *merge;
};

static bool source_is_needed(const void *object)
{
	return is_needed(((const struct step_source *)object)->state);
}

static int split_next(void *object, struct weir_split_info *out, void **split, bool *done, struct weir_error *err)
{
	struct step_source *source = object;
	struct weir_ordered *state = source->state;
	struct weir_ordered_step *step;
	size_t large = 0;
	int code = source->is_planned ? WEIR_OK : plan(state, err);

	source->is_planned = true;
	*done = source->next == state->steps.count;
	if (code || *done)
		return code;
	step = &state->steps.items[source->next];
	*out = (struct weir_split_info){.number = source->next++, .memory_est = 2 << 20};
	for (size_t i = 0; i < step->count; i++) {
		const struct weir_sorted_run *run = state->runs.items[step->first + i];

		out->rows_est += run->row_count;
		out->bytes_est += run->bytes;
		out->memory_est += weir_run_open_bytes(run);
		large = run->large_max > large ? run->large_max : large;
	}
	out->memory_est += LARGE_TIMES * large;
	*split = step;
	return WEIR_OK;
}

static void split_free(void *object, void *split)
{
	(void)object;
	(void)split;
}

static int merge_lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct weir_ordered *state = ((struct step_source *)object)->state;
	struct merge_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
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

static int split_open(void *object, void *split, struct weir_error *err)
{
	static const struct weir_bound none;
	struct merge_lane *lane = object;
	const struct weir_ordered_step *step = split;

	return weir_merge_open(lane->merge, lane->state->runs.items + step->first, step->count, &none, &none, err);
}

static int next(void *object, struct weir_vector *out, struct weir_error *err)
{
	struct merge_lane *lane = object;
	int code = weir_merge_next(lane->merge, out, err);

	if (!code && !out->row_count)
		weir_merge_close(lane->merge);
	return code;
}

static void merge_abort(void *object)
{
	weir_merge_close(((struct merge_lane *)object)->merge);
}

static void merge_lane_free(void *object)
{
	struct merge_lane *lane = object;

	weir_merge_free(lane->merge);
	weir_free(lane->context->account, lane, sizeof(*lane));
}

static void source_free(void *object)
{
	struct step_source *source = object;
	struct weir_account *account = source->state->account;

	weir_ordered_unref(source->state);
	weir_free(account, source, sizeof(*source));
}

static const struct weir_source_ops source_ops = {
	.name = "merge",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = merge_lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = merge_abort,
	.lane_free = merge_lane_free,
	.is_needed = source_is_needed,
	.free = source_free,
};

/* ---- the sink: a split is a run ---- */

struct run_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct weir_ordered *state;
	struct weir_ordered_step *step;
	struct weir_sorted_run *run;
	struct weir_gather *gather;
	struct weir_key_list fence; /* the key of the first row that was gathered */
	uint32_t chunk_rows;
};

static void run_abort(void *object)
{
	struct run_lane *lane = object;

	weir_gather_free(lane->gather);
	lane->gather = NULL;
	weir_sorted_run_free(&lane->state->space, lane->run);
	lane->run = NULL;
	weir_key_list_clear(&lane->fence);
}

static void run_lane_free(void *object)
{
	struct run_lane *lane = object;
	struct weir_account *account = lane->context->account;

	run_abort(lane);
	weir_key_list_release(&lane->fence);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int run_lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct weir_ordered *state = object;
	struct run_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "steps");
	lane->context = context;
	lane->state = state;
	weir_key_list_init(&lane->fence, &lane->account, state->columns.width);
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	struct run_lane *lane = object;
	struct weir_ordered *state = lane->state;

	lane->step = &state->steps.items[split->number];
	lane->chunk_rows = (uint32_t)weir_run_chunk_rows(&state->space, split->bytes_est, split->rows_est);
	lane->chunk_rows = lane->chunk_rows ? lane->chunk_rows : 1;
	lane->run = weir_run_new(&state->space, err);
	if (!lane->run)
		return err->code;
	lane->run->split = state->runs.items[lane->step->first]->split;
	lane->run->part = state->runs.items[lane->step->first]->part;
	return weir_gather_new(&lane->account, state->schema, &lane->gather, err);
}

static int write_chunk(struct run_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	const uint8_t *fence;
	uint32_t fence_size;
	int code = weir_gather_finish(lane->gather, &batch, err);

	if (code)
		return code;
	fence = weir_key_at(&lane->fence, 0, &fence_size);
	code = weir_run_append(lane->run, batch, fence, fence_size, err);
	if (code)
		weir_error_at_operator(err, lane->state->name);
	weir_batch_unref(batch);
	weir_key_list_clear(&lane->fence);
	return code;
}

static int push(void *object, struct weir_vector *vector, struct weir_error *err)
{
	struct run_lane *lane = object;
	int code = WEIR_OK;

	for (uint32_t begin = 0, count; begin < vector->selection.count && !code; begin += count) {
		uint32_t gathered = (uint32_t)weir_gather_rows(lane->gather);

		if (!gathered) {
			uint16_t row = vector->selection.rows ? vector->selection.rows[begin] : (uint16_t)begin;
			struct weir_vector first = *vector;

			first.selection = (struct weir_selection){.count = 1, .rows = &row};
			code = weir_key_list_push(&lane->fence, &lane->state->columns, &first, err);
		}
		count = vector->selection.count - begin;
		count = count < lane->chunk_rows - gathered ? count : lane->chunk_rows - gathered;
		if (!code)
			code = weir_gather_push_part(lane->gather, vector, begin, count, err);
		if (!code && (gathered + count == lane->chunk_rows ||
			      (int64_t)weir_gather_bytes(lane->gather) > 2 * lane->state->space.chunk_bytes))
			code = write_chunk(lane, err);
	}
	return code;
}

static int split_end(void *object, struct weir_error *err)
{
	struct run_lane *lane = object;
	struct weir_ordered *state = lane->state;
	const struct weir_sorted_run *last = state->runs.items[lane->step->first];
	int code = weir_gather_rows(lane->gather) ? write_chunk(lane, err) : WEIR_OK;

	for (size_t i = 1; i < lane->step->count; i++) {
		const struct weir_sorted_run *run = state->runs.items[lane->step->first + i];

		if (weir_key_compare(last->last, last->last_size, run->last, run->last_size) < 0)
			last = run;
	}
	if (!code)
		code = weir_run_end(lane->run, last->last, last->last_size, err);
	if (code)
		return code;
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	lane->step->run = lane->run;
	lane->run = NULL;
	/* Other lanes look at other runs. */
	for (size_t i = 0; i < lane->step->count; i++) {
		weir_sorted_run_free(&state->space, state->runs.items[lane->step->first + i]);
		state->runs.items[lane->step->first + i] = NULL;
	}
	return WEIR_OK;
}

static int commit(void *object, struct weir_error *err)
{
	(void)object;
	(void)err;
	return WEIR_OK;
}

static const struct weir_sink_ops sink_ops = {
	.name = "steps",
	.lane_new = run_lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = run_abort,
	.lane_free = run_lane_free,
	.commit = commit,
	.free = weir_ordered_unref,
};

int weir_ordered_cut_steps(struct weir_ordered *state, const struct weir_schema *schema, void *ranges,
			   struct weir_fragment *fragment, struct weir_error *err)
{
	struct step_source *source = weir_alloc_zero(state->account, sizeof(*source), err);
	int code;

	if (!source) {
		weir_ordered_ranges_ops.free(ranges);
		return err->code;
	}
	source->state = weir_ordered_ref(state);
	code = weir_fragment_cut(fragment, schema, &weir_ordered_runs_ops, weir_ordered_ref(state), &source_ops, source,
				 err);
	if (code) {
		weir_ordered_ranges_ops.free(ranges);
		return code;
	}
	return weir_fragment_cut(fragment, state->schema, &sink_ops, weir_ordered_ref(state), &weir_ordered_ranges_ops,
				 ranges, err);
}
