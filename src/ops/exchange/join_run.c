/* The run of a join: which phases it has, and what gives its rows at last.
 *
 *     1  build side ─▶ rows in the store
 *     2  settle: a side that fits is opened and gets its tables; else what is loose of it goes into partitions
 *     3  probe side ─▶ rows in the store, in partitions           (nothing, if the build side fitted)
 *     4  settle: what is loose of it                              (the same)
 *     5  the join's source: vectors of the probe side's own chain, or of one partition after another
 *
 * A partition's build side is held in memory, in pieces if need be: one key may have any number of rows. For each piece the
 * partition's probe side is read from its beginning. */
#include "ops/exchange/join_impl.h"

#include "ops/ops_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
	BATCH_BYTES_MIN = 1 << 20,
	BATCH_BYTES_GOOD = 5 << 20, /* of smaller ones partitions cannot be many */
	BATCH_BYTES_MAX = 64 << 20,
	RESIDENT_LESS = 16 << 20,
	PIECE_BYTES_MIN = 2 << 20,
	SPLIT_BYTES = 4 << 20,
	ROW_BYTES_EST = 32,
	PART_BITS_MIN = 4,
	PART_BITS_EST = 6,  /* of a side that should have no rows */
	PART_BITS_MAX = 8,
};

/* ---- the state ---- */

static void side_release(struct weir_join_side *side)
{
	struct weir_account *account = side->state->account;
	size_t count = side->stored ? side->stored->field_count : 0;

	for (size_t i = 0; i < side->chunks.count; i++)
		weir_run_space_drop(&side->state->space, side->chunks.items[i].chunk);
	weir_list_release(&side->chunks, account);
	for (size_t i = 0; side->casts && i < count; i++)
		weir_program_free(side->casts[i]);
	weir_free(account, side->casts, side->casts ? count * sizeof(*side->casts) : 0);
	weir_free(account, side->from, side->from ? count * sizeof(*side->from) : 0);
	weir_free(account, side->keys, side->keys ? side->key_columns.count * sizeof(*side->keys) : 0);
	weir_schema_unref(side->stored);
}

void weir_join_state_drop_cells(struct weir_join_state *state)
{
	for (size_t i = 0; state->cells && i < (size_t)1 << state->table_bits; i++)
		weir_join_cells_release(&state->cells[i]);
	weir_free(state->account, state->cells, state->cells ? sizeof(*state->cells) << state->table_bits : 0);
	state->cells = NULL;
}

void weir_join_state_unref(void *object)
{
	struct weir_join_state *state = object;

	if (atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; state->tables && i < (size_t)1 << state->table_bits; i++)
		weir_join_table_release(&state->tables[i]);
	weir_free(state->account, state->tables, state->tables ? sizeof(*state->tables) << state->table_bits : 0);
	weir_join_state_drop_cells(state);
	weir_join_image_release(&state->image);
	side_release(&state->probe);
	side_release(&state->build);
	weir_free(state->account, state->outputs,
		  state->outputs ? (state->schema->field_count + 1) * sizeof(*state->outputs) : 0);
	weir_schema_unref(state->schema);
	pthread_mutex_destroy(&state->lock);
	weir_free(state->account, state, sizeof(*state));
}

/* The stored columns of a side while they are collected. */
struct stored {
	struct weir_field *fields;
	uint32_t *from;
	uint32_t count;
};

static uint32_t store_column(struct stored *stored, const struct weir_schema *schema, uint32_t from,
			     const struct weir_type *type)
{
	for (uint32_t i = 0; i < stored->count; i++) {
		if (stored->from[i] == from && weir_type_equal(stored->fields[i].type, type, false))
			return i;
	}
	stored->fields[stored->count] = schema->fields[from];
	stored->fields[stored->count].type = type;
	stored->from[stored->count] = from;
	return stored->count++;
}

/* A key as it is compared: the column itself where its values have that type. */
static uint32_t store_key(struct stored *stored, const struct weir_schema *schema, uint32_t from, const struct weir_type *type)
{
	for (uint32_t i = 0; i < stored->count; i++) {
		if (stored->from[i] == from && weir_type_equal(weir_type_values(stored->fields[i].type), type, false))
			return i;
	}
	if (weir_type_equal(weir_type_values(schema->fields[from].type), type, false))
		type = schema->fields[from].type;
	return store_column(stored, schema, from, type);
}

static int side_casts(struct weir_join_side *side, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < side->stored->field_count && !code; i++) {
		const struct weir_type *type = side->stored->fields[i].type;

		if (!weir_type_equal(type, side->input->fields[side->from[i]].type, false))
			code = weir_op_cast_program(side->state->account, side->input, side->from[i], type, &side->casts[i], err);
	}
	return code;
}

/* Which columns of its chain a side keeps, and which of them are the keys. */
static int side_init(struct weir_join_state *state, struct weir_join_side *side, const struct weir_joining *joining,
		     uint32_t s, struct weir_arena *arena, struct weir_error *err)
{
	const struct weir_schema *schema = joining->schemas[s];
	uint32_t most = joining->schema->field_count + joining->key_count, columns = joining->schema->field_count;
	struct stored stored = {.fields = weir_arena_alloc_zero(arena, (most + 1) * sizeof(*stored.fields), err)};

	side->input = schema;
	side->key_columns.count = joining->key_count;
	stored.from = stored.fields ? weir_arena_alloc_zero(arena, (most + 1) * sizeof(*stored.from), err) : NULL;
	side->keys = stored.from ? weir_alloc_zero(state->account, joining->key_count * sizeof(*side->keys), err) : NULL;
	if (!side->keys)
		return err->code;
	for (uint32_t i = 0; i < columns; i++) {
		uint32_t from = joining->columns[i].from[s], *to = side->is_build ? &state->outputs[i].build : &state->outputs[i].probe;
		const struct weir_type *type;

		*to = WEIR_JOIN_NONE;
		if (from == WEIR_JOIN_NONE)
			continue;
		type = schema->fields[from].type;
		/* Only the keys of a full join may have another type than in their side. */
		if (!weir_type_equal(weir_type_values(type), weir_type_values(joining->schema->fields[i].type), false))
			type = weir_type_values(joining->schema->fields[i].type);
		*to = store_column(&stored, schema, from, type);
	}
	for (uint32_t k = 0; k < joining->key_count; k++)
		side->keys[k] = (struct weir_key){
			.column = store_key(&stored, schema, joining->keys[s][k], joining->key_types[k])};
	side->stored = weir_schema_new(state->account, stored.fields, stored.count, NULL, err);
	if (!side->stored)
		return err->code;
	side->from = weir_alloc_zero(state->account, stored.count * sizeof(*side->from), err);
	side->casts = side->from ? weir_alloc_zero(state->account, stored.count * sizeof(*side->casts), err) : NULL;
	if (!side->casts)
		return err->code;
	memcpy(side->from, stored.from, stored.count * sizeof(*side->from));
	for (uint32_t k = 0; k < joining->key_count; k++)
		side->keys[k].type = weir_type_values(side->stored->fields[side->keys[k].column].type);
	side->key_columns.keys = side->keys;
	side->key_columns.width = weir_key_columns_width(side->keys, joining->key_count);
	return side_casts(side, err);
}

static int64_t between(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* The side whose rows are asked for one after another; the other's are held. */
static uint32_t probe_side(const struct weir_joining *joining, int64_t held_max)
{
	int64_t left = joining->bytes_est[WEIR_JOIN_LEFT_SIDE], right = joining->bytes_est[WEIR_JOIN_RIGHT_SIDE];
	bool is_left_smaller = left >= 0 && right >= 0 && left < right;

	switch (joining->how) {
	case WEIR_JOIN_LEFT_SEMI:
	case WEIR_JOIN_LEFT_ANTI:
		return WEIR_JOIN_LEFT_SIDE;
	case WEIR_JOIN_RIGHT_SEMI:
	case WEIR_JOIN_RIGHT_ANTI:
		return WEIR_JOIN_RIGHT_SIDE;
	case WEIR_JOIN_LEFT: /* rows without a partner can be told at once only while they pass by */
		return is_left_smaller && right > held_max ? WEIR_JOIN_RIGHT_SIDE : WEIR_JOIN_LEFT_SIDE;
	case WEIR_JOIN_RIGHT:
		return left > held_max && right >= 0 && right < left ? WEIR_JOIN_LEFT_SIDE : WEIR_JOIN_RIGHT_SIDE;
	default:
		return is_left_smaller ? WEIR_JOIN_RIGHT_SIDE : WEIR_JOIN_LEFT_SIDE;
	}
}

static bool keeps_all(enum weir_join_how how, uint32_t side)
{
	switch (how) {
	case WEIR_JOIN_FULL:
		return true;
	case WEIR_JOIN_LEFT:
	case WEIR_JOIN_LEFT_ANTI:
		return side == WEIR_JOIN_LEFT_SIDE;
	case WEIR_JOIN_RIGHT:
	case WEIR_JOIN_RIGHT_ANTI:
		return side == WEIR_JOIN_RIGHT_SIDE;
	default:
		return false;
	}
}

static enum weir_join_gives gives(enum weir_join_how how)
{
	if (how == WEIR_JOIN_LEFT_SEMI || how == WEIR_JOIN_RIGHT_SEMI)
		return WEIR_JOIN_SEMI;
	return how == WEIR_JOIN_LEFT_ANTI || how == WEIR_JOIN_RIGHT_ANTI ? WEIR_JOIN_ANTI : WEIR_JOIN_PAIRS;
}

/* Whether a partition of the build side fits, with its table, into a piece: else the other side is read again. Of narrow rows the table is
 * the larger part. */
static bool piece_holds_part(const struct weir_join_state *state, int64_t bytes, int64_t rows)
{
	if (bytes < 0)
		return false; /* nobody knows: it is cut at all only if there is much */
	rows = rows < 0 ? bytes / ROW_BYTES_EST : rows;
	rows >>= state->part_bits;
	return (bytes >> state->part_bits) + (int64_t)weir_join_table_bytes(&state->build.key_columns, (uint64_t)rows) <=
	       state->piece_bytes / 4 * 3;
}

static void share_memory(struct weir_join_state *state, const struct weir_joining *joining, int64_t limit, uint32_t build)
{
	int64_t threads = state->threads, bytes = joining->bytes_est[build];

	/* Rather few lanes with large batches, and so many partitions, than many: of a partition that does not fit the other side is read again. */
	state->lanes = (uint32_t)between(limit / 6 / BATCH_BYTES_GOOD, 1, threads);
	state->batch_bytes = between(limit / 6 / state->lanes, BATCH_BYTES_MIN, BATCH_BYTES_MAX);
	state->space.resident_max = between(limit / 3 - RESIDENT_LESS, 0, INT64_MAX);
	/* Two lanes should have room for it, beside what others have while they wait. */
	state->piece_bytes = between(threads > 2 ? limit / 16 : limit / 6 / threads, PIECE_BYTES_MIN, INT64_MAX);
	state->loose_max = state->build.keeps_all ? 0 : state->space.resident_max;
	state->part_bits = joining->partitions || bytes ? PART_BITS_MIN : PART_BITS_EST;
	/* Not so many that a batch has little more than crumbs for each, with a page half empty behind every one. */
	while (state->part_bits < PART_BITS_MAX &&
	       (1u << state->part_bits < joining->partitions || !piece_holds_part(state, bytes, joining->rows_est[build])) &&
	       (int64_t)WEIR_JOIN_CRUMB_BYTES << (state->part_bits + 2) <= state->batch_bytes)
		state->part_bits++;
}

static int state_new(struct weir_op_env *env, const struct weir_joining *joining, uint32_t *probe,
		     struct weir_join_state **out, struct weir_error *err)
{
	const struct weir_keeping *keeping = &env->keeping;
	struct weir_join_state *state = weir_alloc_zero(env->account, sizeof(*state), err);
	int code = WEIR_OK;

	if (!state)
		return err->code;
	atomic_init(&state->refs, 1);
	pthread_mutex_init(&state->lock, NULL);
	state->account = state->space.account = env->account;
	state->threads = keeping->threads ? keeping->threads : 1;
	state->held_max = between(keeping->memory_limit / 5 * 2 - RESIDENT_LESS, 0, INT64_MAX);
	state->schema = weir_schema_ref(joining->schema);
	state->gives = gives(joining->how);
	state->probe.state = state->build.state = state;
	state->build.is_build = true;
	*probe = probe_side(joining, state->held_max);
	state->probe.number = *probe;
	state->build.number = 1 - *probe;
	state->probe.keeps_all = keeps_all(joining->how, *probe);
	state->build.keeps_all = keeps_all(joining->how, 1 - *probe);
	state->outputs = weir_alloc_zero(env->account, (joining->schema->field_count + 1) * sizeof(*state->outputs), err);
	if (!state->outputs)
		code = err->code;
	if (!code)
		code = side_init(state, &state->probe, joining, *probe, env->arena, err);
	if (!code)
		code = side_init(state, &state->build, joining, 1 - *probe, env->arena, err);
	if (!code)
		share_memory(state, joining, keeping->memory_limit, 1 - *probe);
	if (!code && !keeping->store)
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "there is no session to keep rows in");
	if (!code)
		code = keeping->store(keeping->session, &state->space.store, err);
	if (code)
		weir_join_state_unref(state);
	else
		*out = state;
	return code;
}

/* ---- the source ---- */

struct join_source {
	struct weir_join_state *state;
	struct weir_join_gate *gate;
	const struct weir_fragment *chain; /* of the probe side */
	_Atomic bool enough;               /* a limit inside it has all its rows; relaxed: later splits give none anyway */
	uint64_t split_count;
	uint32_t part; /* the next that no split has */
	bool is_sorted;
};

struct join_split {
	struct weir_split_info info;
	void *inner;                  /* of the chain's source */
	uint32_t part_first, part_end;
};

/* A limit inside the probe side's chain ends that, not the run. */
struct chain_context {
	struct weir_lane_context context;
	struct join_source *source;
};

/* A partition in work. */
struct pair {
	bool is_open;
	uint32_t part, part_end;
	const struct weir_join_chunk *build, *build_end, *probe_begin, *probe, *probe_end; /* chunks that come next */
	bool has_piece, is_last;
	struct weir_join_image image;
	struct weir_join_table table;
	bool has_table;
	uint64_t *build_seen, *probe_seen;
	size_t build_seen_size, probe_seen_size; /* bytes */
	struct weir_join_open open;
	int64_t row;         /* the next of the open one */
	uint64_t row_number; /* in the partition's probe side */
	bool is_at_rest;     /* rows of the build side without a partner are next */
	uint64_t rest;
};

struct source_lane {
	struct weir_lane_context *context;
	struct join_source *source;
	struct chain_context chain_context;
	struct weir_chain *chain; /* NULL: pairs */
	struct weir_join_projection projection;
	struct weir_join_probe *probe;
	bool has_more;
	bool is_open; /* a split of the chain */
	struct pair pair;
	struct weir_arena arena;
	struct weir_join_keys *keys; /* of the build side, while a table is made */
};

static int compare_chunks(const void *a_object, const void *b_object)
{
	const struct weir_join_chunk *a = a_object, *b = b_object;

	return (a->part > b->part) - (a->part < b->part);
}

static void sort_chunks(struct weir_join_side *side)
{
	if (side->chunks.count)
		qsort(side->chunks.items, side->chunks.count, sizeof(*side->chunks.items), compare_chunks);
}

/* The first chunk of a partition, or where it would be. */
static const struct weir_join_chunk *chunk_of(const struct weir_join_side *side, uint32_t part)
{
	size_t low = 0, high = side->chunks.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (side->chunks.items[middle].part < part)
			low = middle + 1;
		else
			high = middle;
	}
	return side->chunks.items + low;
}

static void part_figures(const struct weir_join_side *side, uint32_t part, uint64_t *bytes, uint64_t *rows)
{
	const struct weir_join_chunk *end = chunk_of(side, part + 1);

	for (const struct weir_join_chunk *chunk = chunk_of(side, part); chunk < end; chunk++) {
		*bytes += weir_chunk_footprint(chunk->chunk);
		*rows += (uint64_t)chunk->rows;
	}
}

/* Partitions go together until there is something to do. */
static bool next_parts(struct join_source *source, struct join_split *split)
{
	struct weir_join_state *state = source->state;
	uint64_t bytes = 0, rows_sum = 0;

	if (!source->is_sorted) {
		sort_chunks(&state->probe);
		sort_chunks(&state->build);
		source->is_sorted = true;
	}
	split->part_first = source->part;
	while (source->part < 1u << state->part_bits && bytes < SPLIT_BYTES) {
		uint64_t rows = 0;

		part_figures(&state->probe, source->part, &bytes, &rows);
		part_figures(&state->build, source->part, &bytes, &rows);
		source->part++;
		rows_sum += rows;
		if (rows > atomic_load_explicit(&state->part_rows_max, memory_order_relaxed))
			atomic_store_explicit(&state->part_rows_max, rows, memory_order_relaxed);
	}
	split->part_end = source->part;
	split->info = (struct weir_split_info){.rows_est = (int64_t)rows_sum,
					       .bytes_est = bytes,
					       .memory_est = (uint64_t)state->piece_bytes};
	return rows_sum > 0;
}

static int split_next(void *object, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct join_source *source = object;
	struct weir_join_gate *gate = source->gate;
	struct join_split *split = weir_alloc_zero(source->state->account, sizeof(*split), err);
	int code = WEIR_OK;

	if (!split)
		return err->code;
	if (!source->state->is_broadcast)
		*done = !next_parts(source, split);
	else if (atomic_load_explicit(&source->enough, memory_order_relaxed))
		*done = true;
	else
		code = gate->inner_ops->split_next(gate->inner, &split->info, &split->inner, done, err);
	if (code || *done) {
		weir_free(source->state->account, split, sizeof(*split));
		return code;
	}
	split->info.number = source->split_count++;
	*out = split->info;
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *object, void *split_object)
{
	struct join_source *source = object;
	struct join_split *split = split_object;

	if (!split)
		return;
	if (split->inner)
		source->gate->inner_ops->split_free(source->gate->inner, split->inner);
	weir_free(source->state->account, split, sizeof(*split));
}

static void piece_close(struct source_lane *lane)
{
	struct pair *pair = &lane->pair;
	struct weir_account *account = lane->context->account;

	weir_join_close(&pair->open, account);
	weir_arena_clear(&lane->arena);
	if (pair->has_table)
		weir_join_table_release(&pair->table);
	pair->has_table = false;
	weir_join_image_release(&pair->image);
	weir_free(account, pair->build_seen, pair->build_seen_size);
	pair->build_seen = NULL;
	pair->build_seen_size = 0;
	pair->has_piece = pair->is_at_rest = false;
}

static void pair_close(struct source_lane *lane)
{
	struct pair *pair = &lane->pair;

	piece_close(lane);
	weir_free(lane->context->account, pair->probe_seen, pair->probe_seen_size);
	*pair = (struct pair){0};
}

static void split_abort(void *object)
{
	struct source_lane *lane = object;

	if (lane->is_open)
		weir_chain_abort(lane->chain);
	lane->is_open = false;
	lane->has_more = false;
	pair_close(lane);
}

static void lane_free(void *object)
{
	struct source_lane *lane = object;
	struct weir_account *account = lane->context->account;

	pair_close(lane);
	weir_join_probe_free(lane->probe);
	weir_join_projection_release(&lane->projection);
	weir_chain_free(lane->chain);
	weir_arena_release(&lane->arena);
	if (lane->keys) {
		weir_join_keys_release(lane->keys);
		weir_free(account, lane->keys, sizeof(*lane->keys));
	}
	weir_free(account, lane, sizeof(*lane));
}

static void chain_enough(struct weir_lane_context *context)
{
	atomic_store_explicit(&((struct chain_context *)context)->source->enough, true, memory_order_relaxed);
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct join_source *source = object;
	struct weir_join_state *state = source->state;
	struct source_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	lane->context = context;
	lane->source = source;
	weir_arena_init(&lane->arena, context->account);
	code = weir_join_probe_new(context->account, state, &lane->probe, err);
	if (!code && state->is_broadcast) {
		lane->chain_context = (struct chain_context){.context = *context, .source = source};
		lane->chain_context.context.enough = chain_enough;
		code = weir_chain_new(source->chain, &lane->chain_context.context, &lane->chain, err);
		if (!code)
			code = weir_join_projection_init(&lane->projection, context->account, &state->probe, err);
		weir_join_probe_set(lane->probe, &(struct weir_join_against){.image = &state->image,
									     .tables = state->tables,
									     .cells = state->cells,
									     .table_bits = state->table_bits,
									     .is_last = true});
	} else if (!code) {
		lane->keys = weir_alloc_zero(context->account, sizeof(*lane->keys), err);
		if (lane->keys)
			weir_join_keys_init(lane->keys, context->account, &state->build.key_columns);
		else
			code = err->code;
	}
	if (code)
		lane_free(lane);
	else
		*out = lane;
	return code;
}

static int split_open(void *object, void *split_object, struct weir_error *err)
{
	struct source_lane *lane = object;
	struct join_split *split = split_object;

	lane->has_more = false;
	if (!lane->chain) {
		lane->pair = (struct pair){.part = split->part_first, .part_end = split->part_end};
		return WEIR_OK;
	}
	lane->is_open = true;
	return weir_chain_open(lane->chain, &split->info, split->inner, err);
}

static bool needs_confirm(void *object)
{
	const struct source_lane *lane = object;

	return lane->chain && weir_chain_needs_confirm(lane->chain);
}

static int confirm(void *object, struct weir_error *failure, struct weir_error *err)
{
	struct source_lane *lane = object;

	return lane->chain ? weir_chain_confirm(lane->chain, failure, err) : WEIR_OK;
}

/* ---- pairs of partitions ---- */

static void pair_begin(struct source_lane *lane)
{
	struct pair *pair = &lane->pair;
	const struct weir_join_state *state = lane->source->state;

	pair->is_open = true;
	pair->build = chunk_of(&state->build, pair->part);
	pair->build_end = chunk_of(&state->build, pair->part + 1);
	pair->probe_begin = chunk_of(&state->probe, pair->part);
	pair->probe_end = chunk_of(&state->probe, pair->part + 1);
}

/* As many of the build side's chunks as may be held, one at least. */
static int piece_open(struct source_lane *lane, struct weir_error *err)
{
	struct pair *pair = &lane->pair;
	struct weir_join_state *state = lane->source->state;
	struct weir_account *account = lane->context->account;
	uint64_t rows = 0;
	int code = WEIR_OK;

	weir_join_image_init(&pair->image, account, state->build.stored);
	while (pair->build < pair->build_end && !code && pair->image.chunks.count < WEIR_JOIN_CHUNK_ROWS) {
		rows += (uint64_t)pair->build->rows;
		if (pair->image.chunks.count &&
		    pair->image.bytes + weir_chunk_footprint(pair->build->chunk) +
				    weir_join_table_bytes(&state->build.key_columns, rows) >
			    (uint64_t)state->piece_bytes)
			break;
		code = weir_join_image_add(&pair->image, &state->space, pair->build->chunk, err);
		pair->build++;
	}
	if (!code)
		code = weir_join_image_finish(&pair->image, err);
	if (!code && pair->image.chunks.count) {
		code = weir_join_image_index(&pair->image, lane->keys, &lane->arena, &(struct weir_join_part){.rows = rows},
					     account, &pair->table, err);
		pair->has_table = !code;
	}
	pair->is_last = pair->build == pair->build_end;
	return code;
}

static int seen_new(struct source_lane *lane, struct weir_error *err)
{
	struct pair *pair = &lane->pair;
	struct weir_join_state *state = lane->source->state;
	struct weir_account *account = lane->context->account;
	uint64_t rows = 0;

	if (state->build.keeps_all && pair->image.chunks.count) {
		pair->build_seen_size = pair->image.chunks.count * WEIR_JOIN_CHUNK_ROWS / 8;
		pair->build_seen = weir_alloc_zero(account, pair->build_seen_size, err);
		if (!pair->build_seen) {
			pair->build_seen_size = 0;
			return err->code;
		}
	}
	if (pair->is_last || pair->probe_seen || (!state->probe.keeps_all && state->gives == WEIR_JOIN_PAIRS))
		return WEIR_OK;
	for (const struct weir_join_chunk *chunk = pair->probe_begin; chunk < pair->probe_end; chunk++)
		rows += (uint64_t)chunk->rows;
	pair->probe_seen_size = (rows / 64 + 1) * 8;
	pair->probe_seen = weir_alloc_zero(account, pair->probe_seen_size, err);
	if (!pair->probe_seen) {
		pair->probe_seen_size = 0;
		return err->code;
	}
	return WEIR_OK;
}

static int piece_begin(struct source_lane *lane, struct weir_error *err)
{
	struct pair *pair = &lane->pair;
	struct weir_join_state *state = lane->source->state;
	int code = piece_open(lane, err);

	pair->has_piece = true;
	if (!code)
		code = seen_new(lane, err);
	if (code)
		return code;
	pair->probe = pair->probe_begin;
	pair->row = 0;
	pair->row_number = 0;
	pair->rest = 0;
	if (!pair->is_last)
		atomic_fetch_or_explicit(&state->depth, 1, memory_order_relaxed);
	weir_join_probe_set(lane->probe, &(struct weir_join_against){.image = &pair->image,
								     .tables = &pair->table,
								     .build_seen = pair->build_seen,
								     .probe_seen = pair->probe_seen,
								     .is_last = pair->is_last});
	return WEIR_OK;
}

/* The next vector of the partition's probe side; row_count 0 behind the last. */
static int probe_vector(struct source_lane *lane, struct weir_vector *out, uint64_t *first, struct weir_error *err)
{
	struct pair *pair = &lane->pair;
	uint32_t here;
	int code;

	*out = (struct weir_vector){0};
	while (!pair->open.batch || pair->row == pair->open.batch->row_count) {
		weir_join_close(&pair->open, lane->context->account);
		if (pair->probe == pair->probe_end)
			return WEIR_OK;
		code = weir_join_open(&pair->open, lane->context->account, &lane->source->state->space,
				      lane->source->state->probe.stored, pair->probe->chunk, err);
		if (code)
			return code;
		pair->probe++;
		pair->row = 0;
	}
	here = (uint32_t)(pair->open.batch->row_count - pair->row);
	here = here > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS : here;
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(pair->open.batch, pair->row, here, &lane->arena, out, err);
	*first = pair->row_number;
	pair->row += here;
	pair->row_number += here;
	return code;
}

/* Whether nothing can come of a partition. */
static bool is_void(const struct source_lane *lane)
{
	const struct pair *pair = &lane->pair;
	const struct weir_join_state *state = lane->source->state;
	bool has_build = pair->build < pair->build_end, has_probe = pair->probe_begin < pair->probe_end;

	return (!has_build && !(has_probe && state->probe.keeps_all)) || (!has_probe && !(has_build && state->build.keeps_all));
}

static int next_of_pairs(struct source_lane *lane, struct weir_vector *out, struct weir_error *err)
{
	struct pair *pair = &lane->pair;
	enum weir_progress progress = WEIR_NEED_INPUT;
	uint64_t first = 0;
	int code;

	for (;;) {
		*out = (struct weir_vector){0};
		if (!pair->is_open) {
			if (pair->part == pair->part_end) {
				pair_close(lane);
				return WEIR_OK;
			}
			pair_begin(lane);
			if (is_void(lane)) {
				pair->is_open = false;
				pair->part++;
				continue;
			}
		}
		if (!pair->has_piece) {
			code = piece_begin(lane, err);
			if (code)
				return code;
		}
		if (pair->is_at_rest) {
			code = weir_join_probe_rest(lane->probe, &pair->rest, out, err);
			if (code || out->row_count)
				return code;
			piece_close(lane);
			if (pair->build < pair->build_end)
				continue;
			weir_free(lane->context->account, pair->probe_seen, pair->probe_seen_size);
			*pair = (struct pair){.part = pair->part + 1, .part_end = pair->part_end};
			continue;
		}
		code = probe_vector(lane, out, &first, err);
		if (code)
			return code;
		if (!out->row_count) {
			pair->is_at_rest = true;
			if (!pair->build_seen)
				pair->rest = UINT32_MAX;
			continue;
		}
		code = weir_join_probe_push(lane->probe, out, first, &progress, err);
		lane->has_more = !code && progress == WEIR_HAVE_MORE;
		if (code || progress != WEIR_NEED_INPUT)
			return code;
	}
}

static int next_of_chain(struct source_lane *lane, struct weir_vector *out, struct weir_error *err)
{
	enum weir_progress progress = WEIR_NEED_INPUT;
	int code;

	do {
		code = weir_chain_next(lane->chain, out, err);
		if (code || out->row_count == 0) {
			lane->is_open = code != WEIR_OK;
			return code;
		}
		code = weir_join_project(&lane->projection, out, err);
		if (!code)
			code = weir_join_probe_push(lane->probe, out, 0, &progress, err);
		if (code)
			return code;
	} while (progress == WEIR_NEED_INPUT);
	lane->has_more = progress == WEIR_HAVE_MORE;
	return WEIR_OK;
}

static int next(void *object, struct weir_vector *out, struct weir_error *err)
{
	struct source_lane *lane = object;
	enum weir_progress progress;
	int code;

	if (lane->has_more) {
		code = weir_join_probe_drain(lane->probe, out, &progress, err);
		lane->has_more = !code && progress == WEIR_HAVE_MORE;
		if (code || progress != WEIR_NEED_INPUT)
			return code;
	}
	return lane->chain ? next_of_chain(lane, out, err) : next_of_pairs(lane, out, err);
}

static uint32_t counts(const void *object, struct weir_op_counts *out, uint32_t capacity)
{
	const struct source_lane *lane = object;

	return lane->chain ? weir_chain_counts(lane->chain, out, capacity) : 0;
}

static void source_free(void *object)
{
	struct join_source *source = object;
	struct weir_join_state *state = source->state;

	weir_free(state->account, source, sizeof(*source));
	weir_join_state_unref(state);
}

/* Where the build side is held, the other one's splits are the join's. */
static bool waits(const void *object)
{
	const struct join_source *source = object;

	return source->state->is_broadcast && weir_source_waits(source->gate->inner_ops, source->gate->inner);
}

static const struct weir_source_ops source_ops = {
	.name = "join",
	.split_next = split_next,
	.waits = waits,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.confirm = confirm,
	.needs_confirm = needs_confirm,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.counts = counts,
	.free = source_free,
};

/* ---- phases ---- */

/* A side's chain, which ends in the store, and what settles its rows. */
static int add_phases(struct weir_fragment *fragment, struct weir_join_side *side, struct weir_fragment *chain,
		      struct weir_fragment **made, struct weir_error *err)
{
	struct weir_fragment settle, *ignored;
	void *sink = NULL, *source = NULL;
	int code = weir_join_sink_new(side, false, &sink, err);

	if (code) {
		weir_fragment_release(chain);
		return code;
	}
	weir_fragment_sink(chain, &weir_join_sink_ops, sink);
	chain->outside_bytes += side->state->space.resident_max;
	if (!chain->lanes_max || side->state->lanes < chain->lanes_max)
		chain->lanes_max = side->state->lanes;
	code = weir_fragment_before(fragment, side->input, chain, made, err);
	if (!code)
		code = weir_join_settle_new(side, &source, err);
	if (code)
		return code;
	weir_fragment_init(&settle, fragment->account);
	weir_fragment_source(&settle, &weir_join_settle_ops[side->number], source);
	code = weir_join_sink_new(side, true, &sink, err);
	if (code) {
		weir_fragment_release(&settle);
		return code;
	}
	weir_fragment_sink(&settle, &weir_join_sink_ops, sink);
	settle.lanes_max = side->state->lanes;
	settle.outside_bytes = side->is_build ? side->state->held_max : side->state->space.resident_max;
	return weir_fragment_before(fragment, side->stored, &settle, &ignored, err);
}

int weir_join_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_joining *joining,
		  struct weir_fragment *sides, struct weir_error *err)
{
	struct weir_join_state *state = NULL;
	struct join_source *source = NULL;
	struct weir_fragment *chain = NULL, *ignored;
	struct weir_join_gate *gate = NULL;
	uint32_t probe = 0;
	int code = state_new(env, joining, &probe, &state, err);

	if (!code) {
		source = weir_alloc_zero(env->account, sizeof(*source), err);
		code = source ? weir_join_gate_put(&sides[probe], state, &gate, err) : err->code;
	}
	if (code) {
		for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++)
			weir_fragment_release(&sides[s]);
		weir_free(env->account, source, source ? sizeof(*source) : 0);
		if (state)
			weir_join_state_unref(state);
		return code;
	}
	source->state = state; /* with the first reference */
	source->gate = gate;
	if (sides[1 - probe].source_ops->splits_join)
		sides[1 - probe].source_ops->splits_join(sides[1 - probe].source);
	weir_fragment_source(fragment, &source_ops, source);
	code = add_phases(fragment, &state->build, &sides[1 - probe], &ignored, err);
	if (code) {
		weir_fragment_release(&sides[probe]);
		return code;
	}
	if (sides[probe].lanes_strict)
		weir_fragment_limit_lanes(fragment, sides[probe].lanes_max);
	code = add_phases(fragment, &state->probe, &sides[probe], &chain, err);
	source->chain = chain;
	return code;
}
