/* What the phases of a join share: which side is held and which is asked for row by row (the build and the probe side),
 * which columns each keeps in the store and which of them are keys, and who may have how much of the memory.
 *
 * A column is stored once, also where it is a key and a column of the result; a key whose type is not that in which
 * both sides are compared is stored a second time, cast. */
#include "ops/exchange/join_impl.h"

#include "ops/ops_impl.h"

#include <string.h>

enum {
	BATCH_BYTES_MIN = 1 << 20,
	BATCH_BYTES_GOOD = 5 << 20, /* of smaller ones partitions cannot be many */
	BATCH_BYTES_MAX = 64 << 20,
	RESIDENT_LESS = 16 << 20,
	PIECE_BYTES_MIN = 2 << 20,
	ROW_BYTES_EST = 32,
	PART_BITS_MIN = 4,
	PART_BITS_EST = 6, /* of a side that should have no rows */
	PART_BITS_MAX = 8,
};

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
static uint32_t store_key(struct stored *stored, const struct weir_schema *schema, uint32_t from,
			  const struct weir_type *type)
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
			code = weir_op_cast_program(side->state->account, side->input, side->from[i], type,
						    &side->casts[i], err);
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
	side->keys = stored.from ? weir_alloc_zero(state->account, joining->key_count * sizeof(*side->keys), err)
				 : NULL;
	if (!side->keys)
		return err->code;
	for (uint32_t i = 0; i < columns; i++) {
		uint32_t from = joining->columns[i].from[s],
			 *to = side->is_build ? &state->outputs[i].build : &state->outputs[i].probe;
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

/* Whether a partition of the build side fits, with its table, into a piece: else the other side is read again. Of
 * narrow rows the table is the larger part. */
static bool piece_holds_part(const struct weir_join_state *state, int64_t bytes, int64_t rows)
{
	if (bytes < 0)
		return false; /* nobody knows: it is cut at all only if there is much */
	rows = rows < 0 ? bytes / ROW_BYTES_EST : rows;
	rows >>= state->part_bits;
	return (bytes >> state->part_bits) +
		       (int64_t)weir_join_table_bytes(&state->build.key_columns, (uint64_t)rows) <=
	       state->piece_bytes / 4 * 3;
}

static void share_memory(struct weir_join_state *state, const struct weir_joining *joining, int64_t limit,
			 uint32_t build)
{
	int64_t threads = state->threads, bytes = joining->bytes_est[build];

	/* Rather few lanes with large batches, and so many partitions, than many: of a partition that does not fit the
	 * other side is read again. */
	state->lanes = (uint32_t)between(limit / 6 / BATCH_BYTES_GOOD, 1, threads);
	state->batch_bytes = between(limit / 6 / state->lanes, BATCH_BYTES_MIN, BATCH_BYTES_MAX);
	state->space.resident_max = between(limit / 3 - RESIDENT_LESS, 0, INT64_MAX);
	/* Two lanes should have room for it, beside what others have while they wait. */
	state->piece_bytes = between(threads > 2 ? limit / 16 : limit / 6 / threads, PIECE_BYTES_MIN, INT64_MAX);
	state->loose_max = state->build.keeps_all ? 0 : state->space.resident_max;
	state->part_bits = joining->partitions || bytes ? PART_BITS_MIN : PART_BITS_EST;
	/* Not so many that a batch has little more than crumbs for each, with a page half empty behind every one. */
	while (state->part_bits < PART_BITS_MAX &&
	       (1u << state->part_bits < joining->partitions ||
		!piece_holds_part(state, bytes, joining->rows_est[build])) &&
	       (int64_t)WEIR_JOIN_CRUMB_BYTES << (state->part_bits + 2) <= state->batch_bytes)
		state->part_bits++;
}

int weir_join_state_new(struct weir_op_env *env, const struct weir_joining *joining, uint32_t *probe,
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
	state->outputs = weir_alloc_zero(env->account, (joining->schema->field_count + 1) * sizeof(*state->outputs),
					 err);
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
