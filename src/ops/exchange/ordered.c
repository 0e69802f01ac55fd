/* ordered: rows come in any order and leave in one.
 *
 *     before:  lane: vectors ─▶ batch and keys ─ full, or the split's end ─▶ order ─▶ run      ordered_runs.c
 *     between: runs of runs, where there are too many to be open at once                       steps.c
 *     behind:  ranges, cut where chunks begin ─▶ lane: merge of all runs within one range      ordered_ranges.c
 *
 * This file has what the halves share, and puts them into the chain.
 *
 * A run is of one split, or a part of one, so a split that is given up takes its runs along, and rows need no number to
 * tell which came first. Ranges are splits of what follows, in order. The input is read once.
 *
 * A random order is an order by a number that depends on the seed and the row's number in the source; where that is not
 * known, on its split and its place among the rows that came here from that (numbers.h). While a run is made it is the
 * row's key and nothing else; in a run that lies in memory it is a column behind the others that nobody else sees; on
 * disk it is not.
 */
#include "ops/exchange/ordered.h"

#include "ops/exchange/ordered_impl.h"

#include <string.h>

enum {
	RUN_BYTES_MIN = 1 << 20,
	RUN_BYTES_GOOD = 6 << 20, /* smaller ones are no more chunks than this, but more of them are open in a merge */
	MARKED_SHARE = 8,         /* of the limit, what a range has that begins and ends at marks */
	RESIDENT_LESS = 16 << 20,
	LYING_BYTES_MIN = 1 << 20,
	WHOLE_BYTES_MAX = 256 << 20,
	MERGE_BYTES_MIN = 4 << 20,
};

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

/* The columns of runs: the rows' own, and for a random order the number by which it goes. */
static int schema_of_runs(struct weir_ordered *state, const struct weir_schema *schema,
			  const struct weir_ordering *ordering, struct weir_error *err)
{
	uint32_t count = schema->field_count;
	struct weir_field *fields;

	if (!ordering->is_random) {
		state->schema = weir_schema_ref(schema);
		/* Its last column is the number of the range. */
		if (ordering->part_count && ordering->key_count)
			state->space.bare = weir_schema_new(state->account, schema->fields, count - 1,
							    &schema->metadata, err);
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
	/* Rather few lanes and large runs than many small ones, which would have to be merged in steps, each row
	 * written twice. */
	state->threads = (uint32_t)between(keeping->threads, 1,
					   between(keeping->memory_limit / 4 / RUN_BYTES_GOOD, 1, UINT32_MAX));
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
	state->space.has_marks = ordering->limit < 0 && !ordering->keeps_groups && !ordering->part_count &&
				 !ordering->part_rows;
	state->whole_bytes = (uint64_t)between(keeping->memory_limit / 4, 0, WHOLE_BYTES_MAX);
	/* Two lanes should have room for it. */
	state->merge_bytes = (uint64_t)between((keeping->memory_limit - state->space.resident_max - RESIDENT_LESS) /
						       20 * 9,
					       MERGE_BYTES_MIN, INT64_MAX);
	weir_run_space_measure(&state->space, state->schema, state->run_bytes, (int64_t)state->merge_bytes);
	/* All lanes together reserve less than half of what may be resident. */
	if (state->run_bytes / 2 >= LYING_BYTES_MIN)
		state->space.lying_bytes = state->run_bytes / 2;
	*out = state;
	return WEIR_OK;
}

bool weir_ordered_counts(const void *object, struct weir_exchange_counts *out)
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

int weir_ordered_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const struct weir_ordering *ordering, struct weir_error *err)
{
	struct weir_ordered *state = NULL;
	void *ranges = NULL;
	int code = state_new(env, schema, ordering, &state, err);

	if (code)
		return code;
	state->counts_rows = ordering->is_random && !fragment->steps.count;
	fragment->outside_bytes += state->space.resident_max;
	if (!fragment->lanes_max || state->threads < fragment->lanes_max)
		fragment->lanes_max = state->threads;
	code = weir_ordered_ranges_new(state, &ranges, err);
	if (!code)
		code = weir_ordered_cut_steps(state, schema, ranges, fragment, err);
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
