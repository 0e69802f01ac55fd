/* The half of an ordered exchange that stands before: a lane gathers the rows of its split, and their keys, until they
 * are as many as a run may have, and keeps them as a run.
 *
 *     vectors ─▶ ┌ batch ┬ keys ┐ ─ full, or the split's end ─▶ rows in the keys' order ─▶ run
 *                └───────┴──────┘
 *     a run is   blocks, as they came     where its rows were in order anyway
 *                lying (run.h)            where memory has room
 *                chunks, to disk          else
 *
 * With a limit behind it a run keeps no more rows than that, and rows beyond the last that is still wanted of some run
 * (the cutoff) are dropped as they come.
 */
#include "ops/exchange/order.h"
#include "ops/exchange/ordered_impl.h"

#include <string.h>

enum {
	LYING_ROWS = 1 << 18,
	LYING_SHARE = 128, /* of all rows so far, what a run may have at least */
};

/* Numbers were drawn, and are in the keys: columns have them only where rows stay in memory. */
static bool is_bare(const struct weir_ordered *state)
{
	return state->is_random && state->space.bare && state->space.bare->field_count;
}

struct runs_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct weir_ordered *state;
	struct weir_gather *gather;
	/* what is gathered will be this run, as it is; NULL: it will be cut into chunks */
	struct weir_sorted_run *lying;
	struct weir_key_list keys;
	uint64_t split;
	int64_t rows_est;  /* of the split; −1: unknown */
	int64_t rows_full; /* of the last run that became as large as one in chunks may; 0: none did */
	uint32_t parts;
	struct WEIR_LIST(struct weir_sorted_run *) runs; /* of this split; in the session's memory */
	uint8_t *cutoff;                                 /* a copy of the state's */
	uint32_t cutoff_size, cutoff_version;
	uint16_t kept[WEIR_VECTOR_ROWS];
	/* A random order: numbers of this split's rows, and a vector with them. */
	struct weir_draw draw;
	uint16_t rest[WEIR_VECTOR_ROWS];
	struct weir_column *numbered;
	uint64_t numbers[WEIR_VECTOR_ROWS];
};

static void split_abort(void *object)
{
	struct runs_lane *lane = object;

	weir_gather_free(lane->gather);
	lane->gather = NULL;
	weir_sorted_run_free(&lane->state->space, lane->lying);
	lane->lying = NULL;
	weir_key_list_release(&lane->keys);
	weir_key_list_init(&lane->keys, &lane->account, lane->state->columns.width);
	for (size_t i = 0; i < lane->runs.count; i++)
		weir_sorted_run_free(&lane->state->space, lane->runs.items[i]);
	lane->runs.count = 0;
}

static void lane_free(void *object)
{
	struct runs_lane *lane = object;
	struct weir_account *account = lane->context->account;

	split_abort(lane);
	weir_list_release(&lane->runs, lane->state->account);
	weir_key_list_release(&lane->keys);
	weir_free(lane->state->account, lane->cutoff, lane->cutoff_size);
	weir_free(&lane->account, lane->numbered,
		  lane->numbered ? lane->state->schema->field_count * sizeof(*lane->numbered) : 0);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct weir_ordered *state = object;
	struct runs_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "runs");
	lane->context = context;
	lane->state = state;
	weir_key_list_init(&lane->keys, &lane->account, state->columns.width);
	if (state->is_random) {
		lane->numbered = weir_alloc_zero(&lane->account, state->schema->field_count * sizeof(*lane->numbered),
						 err);
		if (!lane->numbered) {
			lane_free(lane);
			return err->code;
		}
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	struct runs_lane *lane = object;

	(void)err;
	lane->split = split->number;
	lane->rows_est = split->rows_est;
	lane->parts = 0;
	if (lane->state->counts_rows && split->is_counted)
		weir_draw_begin_at(&lane->draw, lane->state->seed, split->row_first);
	else if (lane->state->is_random)
		weir_draw_begin(&lane->draw, lane->state->seed, split->number);
	return WEIR_OK;
}

/* ---- the first rows only ---- */

/* `key` is that of the last row that some run keeps of as many as are wanted. */
static int cutoff_lower(struct weir_ordered *state, const uint8_t *key, uint32_t size, struct weir_error *err)
{
	uint8_t *copy = weir_alloc(state->account, size, err);

	if (!copy)
		return err->code;
	memcpy(copy, key, size);
	pthread_mutex_lock(&state->lock);
	if (!state->cutoff || weir_key_compare(copy, size, state->cutoff, state->cutoff_size) < 0) {
		weir_free(state->account, state->cutoff, state->cutoff_size);
		state->cutoff = copy;
		state->cutoff_size = size;
		copy = NULL;
		atomic_fetch_add_explicit(&state->cutoff_version, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&state->lock);
	weir_free(state->account, copy, copy ? size : 0);
	return WEIR_OK;
}

static int cutoff_look(struct runs_lane *lane, struct weir_error *err)
{
	struct weir_ordered *state = lane->state;
	int code = WEIR_OK;

	if (atomic_load_explicit(&state->cutoff_version, memory_order_relaxed) == lane->cutoff_version)
		return WEIR_OK;
	pthread_mutex_lock(&state->lock);
	weir_free(state->account, lane->cutoff, lane->cutoff_size);
	lane->cutoff_size = 0;
	lane->cutoff = weir_alloc(state->account, state->cutoff_size, err);
	if (lane->cutoff) {
		memcpy(lane->cutoff, state->cutoff, state->cutoff_size);
		lane->cutoff_size = state->cutoff_size;
		lane->cutoff_version = atomic_load_explicit(&state->cutoff_version, memory_order_relaxed);
	} else {
		code = err->code;
	}
	pthread_mutex_unlock(&state->lock);
	return code;
}

/* Of the keys that were just pushed, those of rows that may be wanted stay, and so do these rows. */
static void drop_beyond(struct runs_lane *lane, struct weir_vector *vector, size_t first)
{
	struct weir_key_list *keys = &lane->keys;
	uint32_t count = 0;
	size_t bytes = first ? (keys->width ? first * keys->width : keys->ends[first - 1]) : 0;

	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t size;
		const uint8_t *key = weir_key_at(keys, first + i, &size);

		if (weir_key_compare(key, size, lane->cutoff, lane->cutoff_size) > 0)
			continue;
		/* Keys move to the front, over those that were read already. */
		memmove(keys->bytes + bytes, key, size);
		bytes += size;
		lane->kept[count] = vector->selection.rows ? vector->selection.rows[i] : (uint16_t)i;
		if (!keys->width)
			keys->ends[first + count] = bytes;
		count++;
	}
	keys->count = first + count;
	keys->size = bytes;
	vector->selection = (struct weir_selection){.count = count, .rows = lane->kept};
}

/* ---- runs ---- */

/* Bytes of a row in columns of one width, and a few for each other one. */
static int64_t row_width(const struct weir_schema *schema)
{
	int64_t width = 1;

	for (uint32_t i = 0; i < schema->field_count; i++)
		width += schema->fields[i].type->layout == WEIR_LAYOUT_FIXED ? schema->fields[i].type->byte_width : 16;
	return width;
}

/* A run in memory has so many rows at most: their columns are in the cache, one at a time, when they are put in order,
 * which decides what that costs. Of very many rows it has more, so that a merge does not have too many runs. */
static int64_t lying_rows(const struct weir_ordered *state)
{
	return between((int64_t)(atomic_load_explicit(&state->kept_rows, memory_order_relaxed) / LYING_SHARE),
		       LYING_ROWS, INT32_MAX);
}

static int gather_begin(struct runs_lane *lane, struct weir_error *err)
{
	struct weir_ordered *state = lane->state;
	int64_t most = between(state->space.lying_bytes / row_width(state->schema), 0,
			       lying_rows(state) + (int64_t)WEIR_VECTOR_ROWS);
	int code = WEIR_OK;

	/* Of the first rows of all, a run keeps few. */
	if (state->limit < 0)
		code = weir_run_lie(&state->space, &lane->lying, err);
	if (!code)
		code = weir_gather_new(lane->lying ? &lane->lying->account : &lane->account,
				       is_bare(state) ? state->space.bare : state->schema, &lane->gather, err);
	/* Growing costs pages that are new each time; where there is room, it is taken at once. */
	if (!code && lane->lying && lane->rows_est > 0)
		weir_gather_expect(lane->gather, between(lane->rows_est, 0, most), state->space.lying_bytes);
	else if (!code && !lane->lying)
		weir_gather_expect(lane->gather, lane->rows_full, state->run_bytes);
	return code;
}

/* The caller's reference to the batch goes. */
static int make_run(struct runs_lane *lane, struct weir_batch *batch, struct weir_error *err)
{
	struct weir_ordered *state = lane->state;
	int64_t count = batch->row_count, wanted = state->limit >= 0 && state->limit < count ? state->limit : count;
	uint32_t *rows = weir_alloc(&lane->account, (size_t)count * sizeof(*rows), err), size;
	struct weir_sorted_run *run = NULL;
	/* A place for it first: what has become a run must not be lost. */
	int code = rows ? weir_list_push(&lane->runs, state->account, err, (struct weir_sorted_run *)NULL) : err->code;

	if (!code)
		code = is_bare(state) ? weir_draw_order(&lane->draw, &lane->keys, &lane->account, rows, err)
				      : weir_key_order(&lane->keys, &lane->account, rows, err);
	if (!code && wanted && weir_ordered_is_plain(state) && weir_run_is_in_order(rows, count))
		code = weir_run_keep(&state->space, batch, &lane->keys, &run, err);
	if (!code && !run && lane->lying && weir_run_stays(batch, rows)) {
		code = weir_run_settle(lane->lying, batch, &lane->keys, rows, state->schema, err);
		if (!code) {
			run = lane->lying;
			lane->lying = NULL;
		}
	} else if (!code && !run && wanted) {
		if (lane->lying)
			weir_run_rise(lane->lying);
		if (state->limit < 0)
			code = weir_run_arrange(&state->space, &lane->account, batch, &lane->keys, rows, state->schema,
						&run, err);
		if (!code && !run) {
			code = weir_sorted_run_new(&state->space, &lane->account, batch, &lane->keys, rows, wanted,
						   is_bare(state) ? &lane->draw : NULL, &run, err);
			batch = NULL;
		}
	}
	weir_batch_unref(batch);
	if (!code && run) {
		run->split = lane->split;
		run->part = lane->parts++;
		lane->runs.items[lane->runs.count - 1] = run;
	}
	if (!code && wanted && wanted == state->limit) {
		const uint8_t *key = weir_key_at(&lane->keys, rows[wanted - 1], &size);

		code = cutoff_lower(state, key, size, err);
	}
	weir_free(&lane->account, rows, rows ? (size_t)count * sizeof(*rows) : 0);
	return code;
}

static int seal(struct runs_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code;

	if (!lane->gather || weir_gather_rows(lane->gather) == 0)
		return WEIR_OK;
	code = weir_gather_finish(lane->gather, &batch, err);
	/* The next run may lie elsewhere, or not at all. */
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	if (!code)
		code = make_run(lane, batch, err);
	weir_sorted_run_free(&lane->state->space, lane->lying);
	lane->lying = NULL;
	weir_key_list_clear(&lane->keys);
	if (lane->state->is_random)
		weir_draw_begin_run(&lane->draw);
	return code;
}

/* The vector with a column more: the numbers of its rows. */
static void add_numbers(struct runs_lane *lane, struct weir_vector *vector)
{
	uint32_t count = vector->column_count;

	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t row = vector->selection.rows ? vector->selection.rows[i] : i;

		lane->numbers[row] = weir_draw_number(&lane->draw);
	}
	memcpy(lane->numbered, vector->columns, count * sizeof(*lane->numbered));
	lane->numbered[count] = (struct weir_column){.type = weir_type_of(WEIR_UINT64), .values = lane->numbers};
	vector->columns = lane->numbered;
	vector->column_count = count + 1;
}

static int push_rows(struct runs_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	struct weir_ordered *state = lane->state;
	size_t first = lane->keys.count;
	struct weir_vector numbered = *vector, *keyed = vector;
	int64_t bytes;
	bool is_full;
	int code = WEIR_OK;

	if (state->limit == 0)
		return WEIR_OK;
	if (state->is_random) {
		add_numbers(lane, &numbered);
		keyed = &numbered;
		vector = is_bare(state) ? vector : keyed;
	}
	if (!lane->gather)
		code = gather_begin(lane, err);
	if (!code && state->limit > 0)
		code = cutoff_look(lane, err);
	if (!code)
		code = weir_key_list_push(&lane->keys, &state->columns, keyed, err);
	if (!code && lane->cutoff)
		drop_beyond(lane, vector, first);
	if (!code && vector->selection.count)
		code = weir_gather_push(lane->gather, vector, err);
	if (code)
		return code;
	bytes = (int64_t)(lane->keys.size + 4 * lane->keys.count);
	if (lane->lying)
		is_full = bytes + weir_account_used(&lane->lying->account) >= state->space.lying_bytes ||
			  (int64_t)lane->keys.count >= lying_rows(state);
	else
		is_full = bytes + (int64_t)(weir_gather_bytes(lane->gather) +
					    (is_bare(state) ? 0 : weir_key_order_bytes(lane->keys.count))) >=
			  state->run_bytes;
	if (is_full && !lane->lying)
		lane->rows_full = (int64_t)lane->keys.count;
	return is_full || lane->keys.count > UINT32_MAX / 2 ? seal(lane, err) : WEIR_OK;
}

/* A run has rows of one section. */
static int push(void *object, struct weir_vector *vector, struct weir_error *err)
{
	struct runs_lane *lane = object;
	uint32_t count = vector->selection.count, here = count;
	struct weir_vector rest = *vector;
	int code = WEIR_OK;

	if (lane->state->is_random && count > lane->draw.left) {
		here = (uint32_t)lane->draw.left;
		for (uint32_t i = here; i < count; i++)
			lane->rest[i - here] = vector->selection.rows ? vector->selection.rows[i] : (uint16_t)i;
		vector->selection.count = here;
		rest.selection = (struct weir_selection){.count = count - here, .rows = lane->rest};
	}
	if (here)
		code = push_rows(lane, vector, err);
	if (code || here == count)
		return code;
	code = seal(lane, err);
	weir_draw_begin_at(&lane->draw, lane->state->seed, lane->draw.row_next);
	return code ? code : push_rows(lane, &rest, err);
}

static int split_end(void *object, struct weir_error *err)
{
	struct runs_lane *lane = object;
	struct weir_ordered *state = lane->state;
	int code = seal(lane, err);

	if (code)
		return code;
	/* Between splits a lane keeps nothing, so that whoever is older can have its memory. */
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	weir_sorted_run_free(&state->space, lane->lying);
	lane->lying = NULL;
	weir_key_list_release(&lane->keys);
	weir_key_list_init(&lane->keys, &lane->account, state->columns.width);
	for (size_t i = 0; i < lane->runs.count; i++) {
		atomic_fetch_add_explicit(&state->kept_rows, (uint64_t)lane->runs.items[i]->row_count,
					  memory_order_relaxed);
		atomic_fetch_add_explicit(&state->kept_bytes, lane->runs.items[i]->bytes, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&state->kept_runs, lane->runs.count, memory_order_relaxed);
	pthread_mutex_lock(&state->lock);
	for (size_t i = 0; i < lane->runs.count && !code; i++) {
		code = weir_list_push(&state->runs, state->account, err, lane->runs.items[i]);
		if (code) { /* those that went over are the state's already */
			memmove(lane->runs.items, lane->runs.items + i,
				(lane->runs.count - i) * sizeof(*lane->runs.items));
			lane->runs.count -= i;
		}
	}
	pthread_mutex_unlock(&state->lock);
	if (!code)
		lane->runs.count = 0;
	return code;
}

static int commit(void *object, struct weir_error *err)
{
	(void)object, (void)err;
	return WEIR_OK;
}

const struct weir_sink_ops weir_ordered_runs_ops = {
	.name = "runs",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = weir_ordered_unref,
	.exchange_counts = weir_ordered_counts,
};
