/* hashed: groups by hashing.
 *
 *     before:  lane: vector ─▶ hash ─▶ table of groups ─ full, or the split's end ─▶ parts: groups   (pages: memory, then disk)
 *                                  └─ it does not shrink ────────────────────────▶ parts: rows
 *     behind:  a few parts are a split ─▶ lane: table of their groups and rows, merged ─▶ groups
 *
 * A lane's table stays as small as the cache. When it is full, its rows go to the parts and it begins anew; when nearly
 * every row was a group of its own, rows go to the parts without it for a while, as they are (a value is smaller than
 * what sums it up), and then it is tried again. So few groups cost nothing but the table, and many are partitioned at
 * once.
 *
 * Behind, parts are of a size that fits the cache, and no two of them have a key in common. Where the groups of a split
 * do not fit into its memory, it is done in two passes over the same pages, each for one value of the hash's next bit,
 * and each of those in two more where that does not do: nothing is written again.
 *
 * Rows whose keys are codes of small dictionaries find their group without a hash (direct.h), once somebody has looked
 * for it.
 */
#include "ops/exchange/hashed.h"

#include "ops/exchange/direct.h"
#include "ops/exchange/regroup.h"
#include "ops/exchange/selected.h"

#include <string.h>

enum {
	RESIDENT_LESS = 16 << 20,
	TABLE_BYTES = 1 << 20,   /* of a lane's table before, with its rows */
	SKETCHES_MAX = 64 << 20, /* the same with sketches, at most */
	SPLIT_BYTES = 2 << 20,   /* of pages: less are taken together */
	LIST_BYTES = 16 << 20,   /* of its rows' lists */
	STRAIGHT_VECTORS = 256,  /* without a table, then it is tried again */
	BUDGET_MIN = 1 << 20,
	REGROUP_BYTES = 64 << 20,
	REGROUP_BYTES_MIN = 4 << 20,
	REGROUP_TRIES = 4, /* parts that must shrink before all of them are tried */
	DEPTH_MAX = 24,
};

/* ---- what both halves share ---- */

struct hashed_state {
	_Atomic uint32_t refs;
	const char *name;
	struct weir_account *account;
	const struct weir_schema *input;
	struct weir_schema *output;
	struct weir_accumulators accumulators;
	struct weir_parts parts; /* of groups */
	struct weir_plain plain; /* rows as they came */
	struct weir_parts plain_parts;
	uint32_t threads;      /* that fill parts */
	uint64_t budget;       /* of a lane's groups behind */
	int64_t regroup_bytes; /* in pages of a lane before it tries to shrink them */
	uint64_t table_bytes;  /* of a lane's table before */
	/* Figures for stats; relaxed. */
	_Atomic uint64_t rows_kept, bytes_kept, partitions, rows_max;
	_Atomic uint32_t depth;
};

static void state_unref(void *object)
{
	struct hashed_state *state = object;

	if (atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1)
		return;
	weir_parts_release(&state->plain_parts);
	weir_parts_release(&state->parts);
	weir_plain_release(&state->plain);
	weir_accumulators_release(&state->accumulators);
	weir_schema_unref(state->input);
	weir_schema_unref(state->output);
	weir_free(state->account, state, sizeof(*state));
}

static int state_new(struct weir_op_env *env, const struct weir_schema *schema, const struct weir_grouping *grouping,
		     struct hashed_state **out, struct weir_error *err)
{
	const struct weir_keeping *keeping = &env->keeping;
	uint32_t threads = keeping->threads ? keeping->threads : 1;
	struct hashed_state *state = weir_alloc_zero(env->account, sizeof(*state), err);
	struct weir_store *store = NULL;
	int64_t resident_max = keeping->memory_limit / 3 - RESIDENT_LESS, resident_min = keeping->memory_limit / 7;
	int code;

	if (!state)
		return err->code;
	atomic_init(&state->refs, 1);
	state->name = grouping->name;
	state->account = env->account;
	state->input = weir_schema_ref(schema);
	state->output = weir_schema_ref(grouping->output);
	code = weir_accumulators_init(&state->accumulators, env->account, grouping->aggregates, state->input,
				      grouping->keys, grouping->key_count, err);
	if (!code)
		code = weir_plain_init(&state->plain, env->account, &state->accumulators, state->input, err);
	if (!code && !keeping->store)
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "there is no session to keep rows in");
	if (!code)
		code = keeping->store(keeping->session, &store, err);
	if (code) {
		state_unref(state);
		return code;
	}
	/* Open pages of all parts have to fit, and more parts are less to be read twice; lanes before need little. */
	resident_max = resident_max > resident_min ? resident_max : resident_min;
	if (state->accumulators.layout.key_count)
		threads = weir_parts_lanes(resident_max / (state->plain.account ? 2 : 1), threads);
	state->threads = threads;
	weir_parts_init(&state->parts, env->account, store, &state->accumulators.layout, resident_max,
			state->plain.account ? 2 * threads : threads);
	if (state->plain.account) {
		weir_parts_init(&state->plain_parts, env->account, store, &state->plain.layout, resident_max, threads);
		weir_parts_share(&state->plain_parts, &state->parts);
	}
	/* Two lanes should have room for it: others wait, which costs less than to read pages again. */
	state->budget = (uint64_t)((keeping->memory_limit - resident_max - RESIDENT_LESS) / 10 * 6 /
				   (threads < 2 ? threads : 2));
	state->budget = state->budget < BUDGET_MIN ? BUDGET_MIN : state->budget;
	state->regroup_bytes = resident_max / threads / 2 < REGROUP_BYTES ? resident_max / threads / 2 : REGROUP_BYTES;
	if (state->regroup_bytes < REGROUP_BYTES_MIN)
		state->regroup_bytes = REGROUP_BYTES_MIN;
	/* Sketches are larger than what they are of, until they have many values: fewer, larger tables. */
	state->table_bytes = TABLE_BYTES;
	if (state->accumulators.has_sketches && state->budget / 2 > TABLE_BYTES)
		state->table_bytes = state->budget / 2 < SKETCHES_MAX ? state->budget / 2 : SKETCHES_MAX;
	*out = state;
	return WEIR_OK;
}

/* ---- before: groups of a lane ---- */

struct sink_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct hashed_state *state;
	struct weir_parts_lane *parts, *plain; /* plain NULL: there are groups alone */
	struct weir_row_input input, plain_input;
	struct weir_row_heap heap;
	struct weir_table table;
	struct weir_arena arena;
	uint64_t rows_in;             /* since the table was empty */
	uint32_t straight;            /* so many vectors more without it */
	struct weir_regroup *regroup; /* NULL: not needed yet */
	int64_t regroup_at;           /* bytes in pages at which it is tried */
	struct weir_direct direct;
	uint8_t *rows[WEIR_VECTOR_ROWS];
};

static void lane_forget(struct sink_lane *lane)
{
	weir_direct_forget(&lane->direct);
	weir_table_clear(&lane->table);
	weir_row_heap_clear(&lane->heap);
	lane->rows_in = 0;
}

static void lane_free(void *object)
{
	struct sink_lane *lane = object;
	struct weir_account *account = lane->context->account;

	weir_row_input_release(&lane->input);
	weir_row_input_release(&lane->plain_input);
	if (lane->regroup)
		weir_regroup_release(lane->regroup);
	weir_free(&lane->account, lane->regroup, lane->regroup ? sizeof(*lane->regroup) : 0);
	weir_row_heap_release(&lane->heap);
	weir_table_release(&lane->table);
	weir_arena_release(&lane->arena);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct hashed_state *state = object;
	const struct weir_row_layout *layout = &state->accumulators.layout;
	struct sink_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "groups");
	lane->context = context;
	lane->state = state;
	weir_arena_init(&lane->arena, &lane->account);
	weir_row_heap_init(&lane->heap, &lane->account, layout);
	lane->regroup_at = state->regroup_bytes;
	code = weir_row_input_init(&lane->input, &lane->account, layout, err);
	if (!code)
		code = weir_table_init(&lane->table, &lane->account, layout, err);
	if (!code)
		code = weir_parts_lane_new(&state->parts, &lane->parts, err);
	if (!code && state->plain.account)
		code = weir_row_input_init(&lane->plain_input, &lane->account, &state->plain.layout, err);
	if (!code && state->plain.account)
		code = weir_parts_lane_new(&state->plain_parts, &lane->plain, err);
	if (code)
		lane_free(lane);
	else
		*out = lane;
	return code;
}

static int64_t held_bytes(const struct sink_lane *lane)
{
	return lane->parts->held + (lane->plain ? lane->plain->held : 0);
}

/* What the lane has kept becomes less, where keys come again and again. */
static int shrink(struct sink_lane *lane, struct weir_error *err)
{
	struct hashed_state *state = lane->state;
	bool shrank = true;
	int code = WEIR_OK;

	if (!lane->regroup) {
		lane->regroup = weir_alloc_zero(&lane->account, sizeof(*lane->regroup), err);
		if (!lane->regroup)
			return err->code;
		code = weir_regroup_init(lane->regroup, &lane->account, &state->accumulators, state->input,
					 &state->plain, err);
		if (code) {
			weir_free(&lane->account, lane->regroup, sizeof(*lane->regroup));
			lane->regroup = NULL;
			return code;
		}
	}
	for (uint32_t p = 0; p < weir_parts_count(&state->parts) && (shrank || p >= REGROUP_TRIES) && !code; p++)
		code = weir_regroup_part(lane->regroup, lane->parts, lane->plain, p, &shrank, err);
	lane->regroup_at = 2 * held_bytes(lane);
	if (lane->regroup_at < state->regroup_bytes)
		lane->regroup_at = state->regroup_bytes;
	return code;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	struct sink_lane *lane = object;
	bool shrinks = held_bytes(lane) > lane->regroup_at && !lane->state->accumulators.has_lists;
	int code = shrinks ? shrink(lane, err) : WEIR_OK;

	(void)split;
	if (code)
		return code;
	weir_parts_lane_mark(lane->parts);
	if (lane->plain)
		weir_parts_lane_mark(lane->plain);
	return WEIR_OK;
}

static int put_group(struct sink_lane *lane, const uint8_t *row, struct weir_error *err)
{
	const struct weir_accumulators *accumulators = &lane->state->accumulators;
	uint8_t *to = NULL, *tail = NULL;
	int code;

	if (!accumulators->has_lists)
		return weir_parts_lane_put_row(lane->parts, row, err);
	code = weir_parts_lane_room(lane->parts, weir_row_hash(row),
				    weir_accumulators_tail_bytes(accumulators, row, &lane->heap), &to, &tail, err);
	if (!code)
		weir_accumulators_copy(accumulators, row, &lane->heap, to, tail);
	return code;
}

/* The table's rows go to the parts. */
static int flush(struct sink_lane *lane, struct weir_error *err)
{
	uint32_t row_bytes = lane->state->accumulators.layout.row_bytes;
	int code = WEIR_OK;

	for (size_t p = 0; p < lane->heap.pages.count && !code; p++) {
		const struct weir_row_page *page = &lane->heap.pages.items[p];

		for (uint32_t i = 0; i < page->row_count && !code; i++) {
			weir_accumulators_pack(&lane->state->accumulators, page->memory + (size_t)i * row_bytes);
			code = put_group(lane, page->memory + (size_t)i * row_bytes, err);
		}
	}
	if (!code)
		lane_forget(lane);
	return code;
}

/* Rows go to the parts without a table. */
static int push_straight(struct sink_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	struct hashed_state *state = lane->state;
	int code;

	lane->straight--;
	if (lane->plain) {
		code = weir_row_input_take(&lane->plain_input, vector, state->plain.columns, true, err);
		return code ? code : weir_parts_lane_put(lane->plain, &lane->plain_input, lane->rows, err);
	}
	code = weir_row_input_take(&lane->input, vector, state->accumulators.numbers, true, err);
	if (!code)
		code = weir_parts_lane_put(lane->parts, &lane->input, lane->rows, err);
	return code ? code : weir_accumulators_push(&state->accumulators, vector, lane->rows, NULL, &lane->arena, err);
}

/* The groups of the vector's rows, by hash. */
static int find_by_hash(struct sink_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	uint32_t made;
	int code = weir_row_input_take(&lane->input, vector, lane->state->accumulators.numbers, true, err);

	return code ? code
		    : weir_table_find_or_make(&lane->table, &lane->input, &lane->heap.maker, lane->rows, &made, err);
}

static int find(struct sink_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_accumulators *accumulators = &lane->state->accumulators;
	struct weir_direct *direct = &lane->direct;
	struct weir_vector missing = *vector;
	int code = WEIR_OK;

	/* For all rows, before some of them are looked at alone. */
	for (uint32_t c = 0; c < accumulators->layout.cell_count && !code; c++)
		if (accumulators->numbers[c] != WEIR_NOWHERE)
			code = weir_column_decode(vector, accumulators->numbers[c], err);
	if (code)
		return code;
	if (!weir_direct_find(direct, vector, accumulators->numbers, accumulators->layout.key_count))
		return find_by_hash(lane, vector, err);
	if (direct->missing_count) {
		missing.selection = (struct weir_selection){.count = direct->missing_count, .rows = direct->missing};
		code = find_by_hash(lane, &missing, err);
		if (code)
			return code;
		for (uint32_t i = 0; i < direct->missing_count; i++)
			direct->rows[direct->missing_numbers[i]] = lane->rows[i];
	}
	weir_direct_take(direct, vector->selection.count, lane->rows);
	return WEIR_OK;
}

static int push(void *object, struct weir_vector *vector, struct weir_error *err)
{
	struct sink_lane *lane = object;
	const struct weir_accumulators *accumulators = &lane->state->accumulators;
	int code;

	if (lane->straight)
		return push_straight(lane, vector, err);
	code = find(lane, vector, err);
	if (!code)
		code = weir_accumulators_push(accumulators, vector, lane->rows, &lane->heap, &lane->arena, err);
	lane->rows_in += vector->selection.count;
	if (code || (lane->heap.bytes + weir_table_bytes(&lane->table) <= lane->state->table_bytes &&
		     lane->heap.list_bytes <= LIST_BYTES))
		return code;
	if (lane->heap.row_count * 2 > lane->rows_in &&
	    (lane->plain || !(accumulators->has_sketches || accumulators->has_lists)))
		lane->straight = STRAIGHT_VECTORS;
	return flush(lane, err);
}

static int split_end(void *object, struct weir_error *err)
{
	return flush(object, err);
}

static void split_abort(void *object)
{
	struct sink_lane *lane = object;

	lane_forget(lane);
	weir_parts_lane_cut(lane->parts);
	if (lane->plain)
		weir_parts_lane_cut(lane->plain);
}

static uint64_t part_rows(const struct hashed_state *state, uint32_t part)
{
	return weir_parts_rows(&state->parts, part) +
	       (state->plain.account ? weir_parts_rows(&state->plain_parts, part) : 0);
}

static uint64_t part_bytes(const struct hashed_state *state, uint32_t part)
{
	return weir_parts_bytes(&state->parts, part) +
	       (state->plain.account ? weir_parts_bytes(&state->plain_parts, part) : 0);
}

static int commit(void *object, struct weir_error *err)
{
	struct hashed_state *state = object;
	int code = weir_parts_finish(&state->parts, err);

	if (!code && state->plain.account)
		code = weir_parts_finish(&state->plain_parts, err);
	for (uint32_t p = 0; p < weir_parts_count(&state->parts) && !code; p++) {
		atomic_fetch_add_explicit(&state->rows_kept, part_rows(state, p), memory_order_relaxed);
		atomic_fetch_add_explicit(&state->bytes_kept, part_bytes(state, p), memory_order_relaxed);
	}
	return code;
}

static bool exchange_counts(const void *object, struct weir_exchange_counts *out)
{
	const struct hashed_state *state = object;

	*out = (struct weir_exchange_counts){
		.name = state->name,
		.rows = atomic_load_explicit(&state->rows_kept, memory_order_relaxed),
		.bytes = atomic_load_explicit(&state->bytes_kept, memory_order_relaxed),
		.bytes_spilled = atomic_load_explicit(&state->parts.spilled, memory_order_relaxed) +
				 atomic_load_explicit(&state->plain_parts.spilled, memory_order_relaxed),
		.bytes_read = atomic_load_explicit(&state->parts.read, memory_order_relaxed) +
			      atomic_load_explicit(&state->plain_parts.read, memory_order_relaxed),
		.partitions = atomic_load_explicit(&state->partitions, memory_order_relaxed),
		.rows_max = atomic_load_explicit(&state->rows_max, memory_order_relaxed),
		.depth = atomic_load_explicit(&state->depth, memory_order_relaxed) + 1,
	};
	return true;
}

static const struct weir_sink_ops sink_ops = {
	.name = "group",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = state_unref,
	.exchange_counts = exchange_counts,
};

/* ---- behind: parts become groups ---- */

struct group_source {
	struct hashed_state *state;
	uint32_t next; /* part */
	uint64_t number;
};

struct group_split {
	uint32_t first, end; /* parts */
};

/* One value of the hash's next bits below those of the parts. */
struct pass {
	uint32_t depth, value;
};

struct group_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct hashed_state *state;
	struct group_split split;
	struct weir_regroup regroup;
	struct weir_part_reader reader;
	struct weir_arena arena; /* of the vector that was given last */
	struct weir_column *columns;
	struct weir_array **nested;
	struct pass passes[DEPTH_MAX + 1];
	uint32_t pass_count;  /* to be done */
	uint32_t depth_least; /* of passes that may fit, as far as those that did not have shown */
	/* Of the split before: parts are alike, so what did not fit there is not tried again here. */
	uint32_t depth_before;
	uint64_t rows_before;
	uint64_t rows_read; /* in this pass, of others too */
	bool is_read;       /* the groups of a pass are in the heap */
	size_t page;        /* of the heap: what comes out next */
	uint32_t row;
	const uint8_t *rows[WEIR_VECTOR_ROWS];
};

static int split_next(void *object, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct group_source *source = object;
	struct hashed_state *state = source->state;
	uint32_t count = weir_parts_count(&state->parts);
	struct group_split split = {.first = source->next, .end = source->next};
	uint64_t bytes = 0, rows = 0, most;
	struct group_split *copy;

	while (split.end < count && (!rows || bytes + part_bytes(state, split.end) <= SPLIT_BYTES)) {
		bytes += part_bytes(state, split.end);
		rows += part_rows(state, split.end++);
	}
	/* Without keys there is one row, whatever came. */
	*done = !rows && (source->number || state->accumulators.layout.key_count);
	if (*done)
		return WEIR_OK;
	copy = weir_alloc(state->account, sizeof(*copy), err);
	if (!copy)
		return err->code;
	*copy = split;
	*split_out = copy;
	source->next = split.end;
	*out = (struct weir_split_info){
		.number = source->number++,
		.rows_est = (int64_t)rows,
		.bytes_est = bytes,
		.memory_est = (bytes < state->budget ? bytes : state->budget) + (1 << 20),
	};
	atomic_fetch_add_explicit(&state->partitions, 1, memory_order_relaxed);
	most = atomic_load_explicit(&state->rows_max, memory_order_relaxed);
	if (rows > most)
		atomic_store_explicit(&state->rows_max, rows, memory_order_relaxed);
	return WEIR_OK;
}

static void split_free(void *object, void *split)
{
	weir_free(((struct group_source *)object)->state->account, split, sizeof(struct group_split));
}

static void group_forget(struct group_lane *lane)
{
	weir_part_reader_close(&lane->reader);
	weir_regroup_clear(&lane->regroup);
	lane->is_read = false;
	lane->page = 0;
	lane->row = 0;
}

static void vector_release(struct group_lane *lane)
{
	for (uint32_t i = 0; lane->nested && i < lane->state->output->field_count; i++) {
		weir_array_unref(lane->nested[i]);
		lane->nested[i] = NULL;
	}
	weir_arena_clear(&lane->arena);
}

static void group_lane_free(void *object)
{
	struct group_lane *lane = object;
	struct weir_account *account = lane->context->account;
	uint32_t count = lane->state->output->field_count;

	group_forget(lane);
	vector_release(lane);
	weir_free(&lane->account, lane->columns, lane->columns ? (count + 1) * sizeof(*lane->columns) : 0);
	weir_free(&lane->account, lane->nested, lane->nested ? (count + 1) * sizeof(*lane->nested) : 0);
	weir_regroup_release(&lane->regroup);
	weir_arena_release(&lane->arena);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int group_lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct hashed_state *state = ((struct group_source *)object)->state;
	struct group_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	uint32_t count = state->output->field_count;
	int code = WEIR_OK;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "groups");
	lane->context = context;
	lane->state = state;
	weir_arena_init(&lane->arena, &lane->account);
	lane->columns = weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->columns), err);
	lane->nested = lane->columns ? weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->nested), err) : NULL;
	if (!lane->nested)
		code = err->code;
	if (!code)
		code = weir_regroup_init(&lane->regroup, &lane->account, &state->accumulators, state->input,
					 &state->plain, err);
	if (code)
		group_lane_free(lane);
	else
		*out = lane;
	return code;
}

static int split_open(void *object, void *split, struct weir_error *err)
{
	struct group_lane *lane = object;
	uint64_t rows = 0;

	(void)err;
	group_forget(lane);
	lane->split = *(const struct group_split *)split;
	lane->passes[0] = (struct pass){0};
	lane->pass_count = 1;
	for (uint32_t p = lane->split.first; p < lane->split.end; p++)
		rows += part_rows(lane->state, p);
	lane->depth_least = rows >= lane->rows_before - lane->rows_before / 8 ? lane->depth_before : 0;
	lane->depth_before = lane->depth_least;
	lane->rows_before = rows;
	return WEIR_OK;
}

static inline bool is_of_pass(const struct group_lane *lane, const struct pass *pass, uint64_t hash)
{
	return !pass->depth || (hash << lane->state->parts.bits >> (64 - pass->depth)) == pass->value;
}

/* Rows of the part that belong to the pass. is_full: the groups do not fit. */
static int read_part(struct group_lane *lane, struct weir_parts *parts, const struct pass *pass, uint32_t part,
		     bool *is_full, struct weir_error *err)
{
	uint32_t row_bytes = parts->layout->row_bytes, count, n = 0;
	const uint8_t *page;
	int code;

	weir_part_reader_open(&lane->reader, parts, part, &lane->account);
	for (;;) {
		code = weir_part_reader_next(&lane->reader, &page, &count, err);
		if (code || !count)
			return code;
		for (uint32_t i = 0; i < count && !code; i++) {
			lane->rows[n] = page + (size_t)i * row_bytes;
			n += is_of_pass(lane, pass, weir_row_hash(lane->rows[n]));
			if (n == WEIR_REGROUP_STEP || (n && i + 1 == count)) {
				code = parts == &lane->state->parts
					       ? weir_regroup_add_groups(&lane->regroup, lane->rows, n, err)
					       : weir_regroup_add_rows(&lane->regroup, lane->rows, n, err);
				n = 0;
			}
		}
		if (code)
			return code;
		if (atomic_load_explicit(lane->context->cancelled, memory_order_relaxed))
			return weir_error_set(err, WEIR_E_CANCELLED, "cancelled");
		lane->rows_read += count;
		*is_full = weir_regroup_bytes(&lane->regroup) > lane->state->budget && lane->regroup.heap.row_count > 1;
		if (*is_full && pass->depth < DEPTH_MAX)
			return WEIR_OK;
	}
}

/* How deep passes have to be, if the rows that were not read are like those that were. */
static uint32_t depth_wanted(const struct group_lane *lane, const struct pass *pass)
{
	uint64_t rows = 0;
	uint32_t depth = pass->depth + 1;

	for (uint32_t p = lane->split.first; p < lane->split.end; p++)
		rows += part_rows(lane->state, p);
	for (uint64_t fit = lane->rows_read * 2; fit < rows && depth < DEPTH_MAX; fit *= 2)
		depth++;
	return depth;
}

/* The groups of the last pass, or of a half of it. */
static int read_pass(struct group_lane *lane, struct weir_error *err)
{
	uint32_t deepest;

	for (;;) {
		struct pass *pass = &lane->passes[lane->pass_count - 1];
		bool is_full = pass->depth < lane->depth_least;
		int code = WEIR_OK;

		lane->rows_read = 0;
		for (uint32_t p = lane->split.first; p < lane->split.end && !code && !is_full; p++) {
			code = read_part(lane, &lane->state->parts, pass, p, &is_full, err);
			if (!code && !is_full && lane->state->plain.account)
				code = read_part(lane, &lane->state->plain_parts, pass, p, &is_full, err);
		}
		weir_part_reader_close(&lane->reader);
		if (code)
			return code;
		if (!is_full || pass->depth == DEPTH_MAX)
			break;
		if (pass->depth >= lane->depth_least)
			lane->depth_least = lane->depth_before = depth_wanted(lane, pass);
		/* The other half is done later. */
		group_forget(lane);
		code = weir_regroup_shrink(&lane->regroup, err);
		if (code)
			return code;
		pass[1] = (struct pass){.depth = pass->depth + 1, .value = pass->value * 2};
		*pass = (struct pass){.depth = pass->depth + 1, .value = pass->value * 2 + 1};
		lane->pass_count++;
		deepest = atomic_load_explicit(&lane->state->depth, memory_order_relaxed);
		if (pass->depth > deepest)
			atomic_store_explicit(&lane->state->depth, pass->depth, memory_order_relaxed);
	}
	lane->pass_count--;
	lane->is_read = true;
	return WEIR_OK;
}

/* One row about nothing. */
static int add_nothing(struct group_lane *lane, struct weir_error *err)
{
	uint8_t *row, *tail;
	int code = lane->regroup.heap.maker.make(&lane->regroup.heap.maker, 0, 0, &row, &tail, err);

	if (!code)
		memset(row, 0, lane->state->accumulators.layout.row_bytes);
	return code;
}

static int fill_vector(struct group_lane *lane, uint32_t count, struct weir_vector *out, struct weir_error *err)
{
	struct hashed_state *state = lane->state;
	const struct weir_accumulators *accumulators = &state->accumulators;
	const struct weir_aggregates *aggregates = accumulators->aggregates;
	uint32_t keys = accumulators->layout.key_count;
	int code = WEIR_OK;

	for (uint32_t c = 0; c < keys && !code; c++)
		code = weir_rows_take(&accumulators->layout, c, state->output->fields[c].type, lane->rows, count,
				      &lane->account, &lane->arena, &lane->columns[c], &lane->nested[c], err);
	for (uint32_t i = 0; i < aggregates->item_count && !code; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		struct weir_column *result = &lane->columns[keys + i];

		if (item->function == WEIR_QUANTILE)
			code = weir_selected_take(accumulators, item, &lane->regroup.heap, lane->rows, count,
						  &lane->arena, result, err);
		else
			code = weir_accumulators_take(accumulators, item, state->output->fields[keys + i].type,
						      lane->rows, count, &lane->arena, result, &lane->nested[keys + i],
						      err);
	}
	*out = (struct weir_vector){.row_count = count,
				    .selection = {.count = count},
				    .column_count = state->output->field_count,
				    .columns = lane->columns,
				    .source_row = -1};
	return code;
}

static int next(void *object, struct weir_vector *out, struct weir_error *err)
{
	struct group_lane *lane = object;
	uint32_t row_bytes = lane->state->accumulators.layout.row_bytes, count = 0;
	bool has_keys = lane->state->accumulators.layout.key_count;
	uint64_t bytes = 0;

	vector_release(lane);
	out->row_count = 0;
	for (;;) {
		int code;

		if (lane->is_read) {
			const struct weir_row_pages *pages = (const struct weir_row_pages *)&lane->regroup.heap.pages;

			while (lane->page < pages->count && count < WEIR_VECTOR_ROWS && bytes < WEIR_VECTOR_BYTES) {
				const struct weir_row_page *page = &pages->items[lane->page];

				if (lane->row == page->row_count) {
					lane->page++;
					lane->row = 0;
					continue;
				}
				lane->rows[count] = page->memory + (size_t)lane->row++ * row_bytes;
				bytes += row_bytes +
					 weir_row_tail_bytes(&lane->state->accumulators.layout, lane->rows[count]);
				count++;
			}
			if (count)
				return fill_vector(lane, count, out, err);
			group_forget(lane);
		}
		if (!lane->pass_count)
			return WEIR_OK;
		code = read_pass(lane, err);
		if (!code && !has_keys && !lane->regroup.heap.row_count)
			code = add_nothing(lane, err);
		if (code)
			return code;
	}
}

static void group_abort(void *object)
{
	struct group_lane *lane = object;

	group_forget(lane);
	vector_release(lane);
	lane->pass_count = 0;
}

static void source_free(void *object)
{
	struct group_source *source = object;
	struct weir_account *account = source->state->account;

	state_unref(source->state);
	weir_free(account, source, sizeof(*source));
}

static const struct weir_source_ops source_ops = {
	.name = "group",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = group_lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = group_abort,
	.lane_free = group_lane_free,
	.free = source_free,
};

int weir_hashed_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		    const struct weir_grouping *grouping, struct weir_error *err)
{
	struct hashed_state *state = NULL;
	struct group_source *source;
	int code = state_new(env, schema, grouping, &state, err);

	if (code)
		return code;
	source = weir_alloc_zero(env->account, sizeof(*source), err);
	if (!source) {
		state_unref(state);
		return err->code;
	}
	atomic_fetch_add_explicit(&state->refs, 1, memory_order_relaxed);
	source->state = state;
	fragment->outside_bytes += state->parts.resident_max;
	if (!fragment->lanes_max || state->threads < fragment->lanes_max)
		fragment->lanes_max = state->threads;
	return weir_fragment_cut(fragment, schema, &sink_ops, state, &source_ops, source, err);
}
