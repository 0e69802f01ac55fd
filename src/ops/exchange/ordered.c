/* ordered: rows come in any order and leave in one.
 *
 *     before:  lane: vectors ─▶ batch and keys ─ full, or the split's end ─▶ order ─▶ run      (chunks: memory, then disk)
 *     behind:  ranges, cut where chunks begin ─▶ lane: merge of all runs within one range
 *
 * A run is of one split, or a part of one, so a split that is given up takes its runs along, and rows need no number to tell
 * which came first. Ranges are splits of what follows, in order. The input is read once.
 *
 * With a limit behind it a run keeps no more rows than that, and rows beyond the last that is still wanted of some run are
 * dropped as they come.
 *
 * A random order is an order by a number that depends on the seed and the row's number in the source; where that is not known, on its split
 * and its place among the rows that came here from that (numbers.h). While a run is made it is the row's key and nothing else; in a run that lies in memory it is a
 * column behind the others that nobody else sees; on disk it is not.
 */
#include "ops/exchange/ordered.h"

#include "ops/exchange/order.h"
#include "ops/exchange/ordered_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
	RUN_BYTES_MIN = 1 << 20,
	RUN_BYTES_GOOD = 6 << 20, /* smaller ones are no more chunks than this, but more of them are open in a merge */
	RANGE_BYTES_MIN = 4 << 20,
	RANGE_BYTES_MAX = 128 << 20,
	MARKED_SHARE = 8, /* of the limit, what a range has that begins and ends at marks */
	RESIDENT_LESS = 16 << 20,
	LYING_BYTES_MIN = 1 << 20,
	LYING_ROWS = 1 << 18,
	LYING_SHARE = 128, /* of all rows so far, what a run may have at least */
	WHOLE_BYTES_MAX = 256 << 20,
	MERGE_BYTES_MIN = 4 << 20,
};

/* ---- what both halves share ---- */

void weir_ordered_unref(void *object)
{
	struct weir_ordered *state = object;

	if (atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < state->runs.count; i++)
		weir_sorted_run_free(&state->space, state->runs.items[i]);
	for (size_t i = 0; i < state->steps.count; i++)
		weir_sorted_run_free(&state->space, state->steps.items[i].run);
	weir_list_release(&state->steps, state->account);
	weir_list_release(&state->runs, state->account);
	weir_list_release(&state->bounds, state->account);
	weir_free(state->account, state->cutoff, state->cutoff_size);
	weir_free(state->account, state->part_keys, (size_t)state->part_count * PART_KEY_BYTES);
	weir_free(state->account, state->keys, (state->columns.count + 1) * sizeof(*state->keys));
	weir_schema_unref(state->schema);
	weir_schema_unref(state->space.bare);
	weir_run_marks_free(state->account, atomic_load_explicit(&state->space.marks, memory_order_relaxed));
	pthread_mutex_destroy(&state->lock);
	weir_free(state->account, state, sizeof(*state));
}

struct weir_ordered *weir_ordered_ref(struct weir_ordered *state)
{
	atomic_fetch_add_explicit(&state->refs, 1, memory_order_relaxed);
	return state;
}

static int64_t between(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* The columns of runs: the rows' own, and for a random order the number by which it goes. */
static int schema_of_runs(struct weir_ordered *state, const struct weir_schema *schema, const struct weir_ordering *ordering,
			  struct weir_error *err)
{
	uint32_t count = schema->field_count;
	struct weir_field *fields;

	if (!ordering->is_random) {
		state->schema = weir_schema_ref(schema);
		/* Its last column is the number of the range. */
		if (ordering->part_count && ordering->key_count)
			state->space.bare = weir_schema_new(state->account, schema->fields, count - 1, &schema->metadata, err);
		state->space.repeats = state->space.bare != NULL;
		return ordering->part_count && ordering->key_count && !state->space.bare ? err->code : WEIR_OK;
	}
	/* Where few rows are kept of those that were drawn, they are not all there. */
	if (ordering->limit < 0)
		state->space.bare = weir_schema_ref(schema);
	fields = weir_alloc(state->account, (count + 1) * sizeof(*fields), err);
	if (!fields)
		return err->code;
	memcpy(fields, schema->fields, count * sizeof(*fields));
	fields[count] = (struct weir_field){.name = "", .type = weir_type_of(WEIR_UINT64)};
	state->schema = weir_schema_new(state->account, fields, count + 1, &schema->metadata, err);
	weir_free(state->account, fields, (count + 1) * sizeof(*fields));
	return state->schema ? WEIR_OK : err->code;
}

static int keys_of_runs(struct weir_ordered *state, const struct weir_ordering *ordering, struct weir_error *err)
{
	state->columns.count = ordering->is_random ? 1 : ordering->key_count;
	state->keys = weir_alloc_zero(state->account, (state->columns.count + 1) * sizeof(*state->keys), err);
	if (!state->keys)
		return err->code;
	if (ordering->is_random)
		state->keys[0] = (struct weir_key){.column = state->schema->field_count - 1,
						   .type = weir_type_of(WEIR_UINT64)};
	else if (ordering->key_count)
		memcpy(state->keys, ordering->keys, ordering->key_count * sizeof(*state->keys));
	state->columns.keys = state->keys;
	state->columns.width = weir_key_columns_width(state->keys, state->columns.count);
	return WEIR_OK;
}

static int state_new(struct weir_op_env *env, const struct weir_schema *schema, const struct weir_ordering *ordering,
		     struct weir_ordered **out, struct weir_error *err)
{
	const struct weir_keeping *keeping = &env->keeping;
	struct weir_ordered *state = weir_alloc_zero(env->account, sizeof(*state), err);
	int code;

	if (!state)
		return err->code;
	atomic_init(&state->refs, 1);
	atomic_init(&state->depth, 1);
	pthread_mutex_init(&state->lock, NULL);
	state->account = env->account;
	state->limit = ordering->limit;
	state->is_random = ordering->is_random;
	state->seed = ordering->seed;
	state->name = ordering->name;
	state->keeps_groups = ordering->keeps_groups;
	state->group_key_count = ordering->group_key_count;
	state->part_count = ordering->part_count;
	state->part_rows = ordering->part_rows;
	state->is_asked = ordering->ordered != NULL;
	/* Rather few lanes and large runs than many small ones, which would have to be merged in steps, each row written twice. */
	state->threads = (uint32_t)between(keeping->threads, 1, between(keeping->memory_limit / 4 / RUN_BYTES_GOOD, 1, UINT32_MAX));
	code = schema_of_runs(state, schema, ordering, err);
	if (!code)
		code = keys_of_runs(state, ordering, err);
	if (!code && !keeping->store)
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "there is no session to keep rows in");
	if (!code)
		code = keeping->store(keeping->session, &state->space.store, err);
	if (code) {
		weir_ordered_unref(state);
		return code;
	}
	/* Few runs are good for the merge, which has a chunk of each open in every lane. */
	state->run_bytes = between(keeping->memory_limit / 4 / state->threads, RUN_BYTES_MIN, (int64_t)1 << 30);
	state->space.account = env->account;
	state->space.resident_max = between(keeping->memory_limit / 3 - RESIDENT_LESS, 0, INT64_MAX);
	/* What a lane makes out of its turn lies in memory until then. */
	state->range_bytes_max = between(keeping->memory_limit / 8 * 3, RANGE_BYTES_MAX, INT64_MAX);
	/* A lane out of its turn can have all of it. */
	state->marked_bytes = between(keeping->memory_limit / MARKED_SHARE, RANGE_BYTES_MIN, INT64_MAX);
	state->space.has_marks = ordering->limit < 0 && !ordering->keeps_groups && !ordering->part_count && !ordering->part_rows;
	state->whole_bytes = (uint64_t)between(keeping->memory_limit / 4, 0, WHOLE_BYTES_MAX);
	/* Two lanes should have room for it. */
	state->merge_bytes = (uint64_t)between((keeping->memory_limit - state->space.resident_max - RESIDENT_LESS) / 20 * 9,
					       MERGE_BYTES_MIN, INT64_MAX);
	weir_run_space_measure(&state->space, state->schema, state->run_bytes, (int64_t)state->merge_bytes);
	/* All lanes together reserve less than half of what may be resident. */
	if (state->run_bytes / 2 >= LYING_BYTES_MIN)
		state->space.lying_bytes = state->run_bytes / 2;
	*out = state;
	return WEIR_OK;
}

/* Numbers were drawn, and are in the keys: columns have them only where rows stay in memory. */
static bool is_bare(const struct weir_ordered *state)
{
	return state->is_random && state->space.bare && state->space.bare->field_count;
}

/* ---- before: runs ---- */

struct runs_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct weir_ordered *state;
	struct weir_gather *gather;
	struct weir_sorted_run *lying; /* what is gathered will be this run, as it is; NULL: it will be cut into chunks */
	struct weir_key_list keys;
	uint64_t split;
	int64_t rows_est; /* of the split; −1: unknown */
	int64_t rows_full; /* of the last run that became as large as one in chunks may; 0: none did */
	uint32_t parts;
	struct WEIR_LIST(struct weir_sorted_run *) runs; /* of this split; in the session's memory */
	uint8_t *cutoff; /* a copy of the state's */
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
		lane->numbered = weir_alloc_zero(&lane->account, state->schema->field_count * sizeof(*lane->numbered), err);
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

/* A run in memory has so many rows at most: their columns are in the cache, one at a time, when they are put in order, which decides
 * what that costs. Of very many rows it has more, so that a merge does not have too many runs. */
static int64_t lying_rows(const struct weir_ordered *state)
{
	return between((int64_t)(atomic_load_explicit(&state->kept_rows, memory_order_relaxed) / LYING_SHARE), LYING_ROWS, INT32_MAX);
}

static int gather_begin(struct runs_lane *lane, struct weir_error *err)
{
	struct weir_ordered *state = lane->state;
	int64_t most = between(state->space.lying_bytes / row_width(state->schema), 0, lying_rows(state) + (int64_t)WEIR_VECTOR_ROWS);
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
			code = weir_run_arrange(&state->space, &lane->account, batch, &lane->keys, rows, state->schema, &run, err);
		if (!code && !run)
			code = weir_sorted_run_new(&state->space, &lane->account, batch, &lane->keys, rows, wanted,
						   is_bare(state) ? &lane->draw : NULL, &run, err);
	}
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
	weir_batch_unref(batch);
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
		atomic_fetch_add_explicit(&state->kept_rows, (uint64_t)lane->runs.items[i]->row_count, memory_order_relaxed);
		atomic_fetch_add_explicit(&state->kept_bytes, lane->runs.items[i]->bytes, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&state->kept_runs, lane->runs.count, memory_order_relaxed);
	pthread_mutex_lock(&state->lock);
	for (size_t i = 0; i < lane->runs.count && !code; i++) {
		code = weir_list_push(&state->runs, state->account, err, lane->runs.items[i]);
		if (code) { /* those that went over are the state's already */
			memmove(lane->runs.items, lane->runs.items + i, (lane->runs.count - i) * sizeof(*lane->runs.items));
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

static bool exchange_counts(const void *object, struct weir_exchange_counts *out)
{
	const struct weir_ordered *state = object;

	*out = (struct weir_exchange_counts){
		.name = state->name,
		.rows = atomic_load_explicit(&state->kept_rows, memory_order_relaxed),
		.bytes = atomic_load_explicit(&state->kept_bytes, memory_order_relaxed),
		.bytes_spilled = atomic_load_explicit(&state->space.spilled, memory_order_relaxed),
		.bytes_read = atomic_load_explicit(&state->space.read, memory_order_relaxed),
		.runs = atomic_load_explicit(&state->kept_runs, memory_order_relaxed),
		.partitions = atomic_load_explicit(&state->ranges, memory_order_relaxed),
		.rows_max = atomic_load_explicit(&state->range_rows_max, memory_order_relaxed),
		.depth = atomic_load_explicit(&state->depth, memory_order_relaxed),
	};
	return true;
}

static const struct weir_sink_ops sink_ops = {
	.name = "runs",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = weir_ordered_unref,
	.exchange_counts = exchange_counts,
};

/* ---- behind: ranges ---- */

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
					   .key_size = weir_key_beginning(&state->columns, state->group_key_count, chunk->fence,
									  chunk->fence_size),
					   .row = -1};
	if (weir_fence_is_cut(chunk->fence_size))
		return (struct weir_bound){.key = chunk->fence, .key_size = chunk->fence_size, .row = -1};
	return (struct weir_bound){
		.key = chunk->fence, .key_size = chunk->fence_size, .split = run->split, .part = run->part, .row = chunk->row_first};
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

/* Bounds at marks, about so many chunks apart, and in between where there are far more: few rows were known when marks were made. */
static int cut_at_marks(struct weir_ordered *state, const struct weir_run_marks *marks, const struct weir_bound *fences, size_t count,
			size_t chunks, struct weir_error *err)
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
	const struct weir_run_marks *marks =
		state->steps.count ? NULL : atomic_load_explicit(&state->space.marks, memory_order_acquire);
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
			code = weir_list_push(&fences, state->account, err, bound_at(state, run, &run->chunks.items[c]));
	}
	state->open_bytes += LARGE_TIMES * large;
	/* Many, so that pages of those that are over are soon there for what follows; of runs on disk each bound is in the middle
	 * of a chunk that is read twice. */
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
		size_t chunks = (size_t)((double)fences.count * (double)state->marked_bytes / (double)(state->bytes + 1));

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
					.is_block = state->part_count && state->columns.count && state->bytes <= state->whole_bytes};
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *object, void *split)
{
	weir_free(((struct range_source *)object)->state->account, split, sizeof(struct range_split));
}

static int range_lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
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

/* Pages of rows in ranges that are over go to whoever needs some next, which is mostly what the next ranges become: pages that
 * were never used cost far more. */
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
		for (size_t i = 0; i < state->runs.count; i++)
			weir_run_forget(state->runs.items[i],
					before ? weir_bound_row(state->runs.items[i], &state->bounds.items[before - 1]) : 0,
					weir_bound_row(state->runs.items[i], &state->bounds.items[over - 1]));
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
		return weir_error_set(err, WEIR_E_SPILL_CORRUPT, "what %s had made cannot be made again: its rows are gone",
				      lane->state->name);
	return weir_merge_open(lane->merge, lane->state->runs.items, lane->state->runs.count, &split->from, &split->to, err);
}

static void range_end(struct range_lane *lane)
{
	_Atomic uint64_t *most = &lane->state->range_rows_max;
	uint64_t before = atomic_load_explicit(most, memory_order_relaxed);

	weir_merge_close(lane->merge);
	while (before < lane->rows && !atomic_compare_exchange_weak_explicit(most, &before, lane->rows, memory_order_relaxed,
									     memory_order_relaxed))
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
		code = weir_merge_make_chunk(lane->merge, state->is_random ? state->space.bare : state->schema, chunk, rows, err);
	if (!code && *chunk)
		lane->rows += (uint64_t)*rows;
	return code;
}

static void range_abort(void *object)
{
	weir_merge_close(((struct range_lane *)object)->merge);
}

static void range_lane_free(void *object)
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

static const struct weir_source_ops source_ops = {
	.name = "merge",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = range_lane_new,
	.split_open = split_open,
	.next = next,
	.next_chunk = next_chunk,
	.split_abort = range_abort,
	.lane_free = range_lane_free,
	.splits_over = splits_over,
	.free = range_free,
};

int weir_ordered_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const struct weir_ordering *ordering, struct weir_error *err)
{
	struct weir_ordered *state = NULL;
	struct range_source *source;
	int code = state_new(env, schema, ordering, &state, err);

	if (code)
		return code;
	state->counts_rows = ordering->is_random && !fragment->steps.count;
	fragment->outside_bytes += state->space.resident_max;
	if (!fragment->lanes_max || state->threads < fragment->lanes_max)
		fragment->lanes_max = state->threads;
	source = weir_alloc_zero(env->account, sizeof(*source), err);
	if (source) {
		source->state = weir_ordered_ref(state);
		code = weir_ordered_cut_steps(state, schema, &sink_ops, &source_ops, source, fragment, err);
	} else {
		code = err->code;
	}
	if (!code && ordering->ordered)
		*ordering->ordered = weir_ordered_ref(state);
	weir_ordered_unref(state);
	return code;
}

int weir_ordered_rank(struct weir_ordered *ordered, struct weir_account *account, const uint8_t *key, uint32_t size,
		      int64_t *out, struct weir_error *err)
{
	struct weir_merge *merge = NULL;
	int code = weir_merge_new(account, ordered->schema, &ordered->columns, &merge, err);

	if (!code)
		code = weir_merge_rank(merge, ordered->runs.items, ordered->runs.count,
				       &(struct weir_bound){.key = key, .key_size = size, .row = -1}, out, err);
	weir_merge_free(merge);
	return code;
}
