/* A side of a join in the store. A lane gathers its split's rows into a batch; a full batch, or the split's last one,
 * becomes chunks: one a partition, or as they lie.
 *
 * Rows stay loose while the build side is small enough to be held as a whole, and where a batch has so few that
 * partitions would be crumbs. If there turn out to be many, a phase of its own reads the loose ones again and puts them
 * into partitions.
 *
 * Without an interest in rows that have no partner, those with a null key are left out here. */
#include "ops/exchange/join_impl.h"

#include <string.h>

enum { LOOSE_BYTES = 2 << 20, SETTLE_BYTES = 64 << 20, TAKEN_PARTS = 4 };

/* ---- columns ---- */

int weir_join_projection_init(struct weir_join_projection *projection, struct weir_account *account,
			      const struct weir_join_side *side, struct weir_error *err)
{
	uint32_t count = side->stored->field_count;
	int code = WEIR_OK;

	*projection = (struct weir_join_projection){.side = side, .account = account};
	projection->evaluators = weir_alloc_zero(account, count * sizeof(*projection->evaluators), err);
	projection->columns = weir_alloc_zero(account, count * sizeof(*projection->columns), err);
	if (!projection->evaluators || !projection->columns)
		code = err->code;
	for (uint32_t i = 0; i < count && !code; i++) {
		if (side->casts[i])
			code = weir_evaluator_new(account, side->casts[i], &projection->evaluators[i], err);
	}
	if (code)
		weir_join_projection_release(projection);
	return code;
}

void weir_join_projection_release(struct weir_join_projection *projection)
{
	uint32_t count = projection->side ? projection->side->stored->field_count : 0;

	for (uint32_t i = 0; projection->evaluators && i < count; i++)
		weir_evaluator_free(projection->evaluators[i]);
	weir_free(projection->account, projection->evaluators,
		  projection->evaluators ? count * sizeof(*projection->evaluators) : 0);
	weir_free(projection->account, projection->columns,
		  projection->columns ? count * sizeof(*projection->columns) : 0);
	*projection = (struct weir_join_projection){0};
}

int weir_join_project(struct weir_join_projection *projection, struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_join_side *side = projection->side;
	uint32_t count = side->stored->field_count;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count && !code; i++) {
		if (!projection->evaluators[i])
			continue;
		code = weir_evaluator_eval(projection->evaluators[i], vector, &projection->columns[i], err);
		projection->columns[i].type = side->stored->fields[i].type;
	}
	/* After what is computed: a column that was decoded for it is not decoded twice. */
	for (uint32_t i = 0; i < count; i++) {
		if (!projection->evaluators[i])
			projection->columns[i] = vector->columns[side->from[i]];
	}
	vector->columns = projection->columns;
	vector->column_count = count;
	return code;
}

/* ---- the sink ---- */

struct join_sink {
	struct weir_join_side *side;
	bool settles;
};

struct sink_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct join_sink *sink;
	struct weir_join_side *side;
	struct weir_join_projection projection;
	struct weir_gather *gather;
	int64_t rows_full;                /* of the last batch that became full; 0: none did */
	struct WEIR_LIST(uint16_t) slots; /* the hash's upper bits of each gathered row */
	struct weir_join_chunks chunks;   /* of this split; in the session's memory */
	struct weir_join_keys keys;
	uint16_t slot_of[WEIR_VECTOR_ROWS]; /* by place in the vector */
};

static int64_t chunk_bytes(const struct weir_join_chunk *chunk)
{
	return (int64_t)weir_chunk_footprint(chunk->chunk);
}

static void drop_chunk(struct weir_join_side *side, const struct weir_join_chunk *chunk)
{
	if (chunk->part == WEIR_JOIN_LOOSE)
		atomic_fetch_sub_explicit(&side->loose_bytes, chunk_bytes(chunk), memory_order_relaxed);
	weir_run_space_drop(&side->state->space, chunk->chunk);
}

static void forget_batch(struct sink_lane *lane)
{
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	weir_list_release(&lane->slots, &lane->account);
}

static void split_abort(void *object)
{
	struct sink_lane *lane = object;

	forget_batch(lane);
	for (size_t i = 0; i < lane->chunks.count; i++)
		drop_chunk(lane->side, &lane->chunks.items[i]);
	lane->chunks.count = 0;
}

static void lane_free(void *object)
{
	struct sink_lane *lane = object;
	struct weir_account *account = lane->context->account;

	split_abort(lane);
	weir_list_release(&lane->chunks, lane->side->state->account);
	weir_join_projection_release(&lane->projection);
	weir_join_keys_release(&lane->keys);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct join_sink *sink = object;
	struct sink_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "join");
	lane->context = context;
	lane->sink = sink;
	lane->side = sink->side;
	weir_join_keys_init(&lane->keys, &lane->account, &sink->side->key_columns);
	code = sink->settles ? WEIR_OK : weir_join_projection_init(&lane->projection, &lane->account, sink->side, err);
	if (code)
		lane_free(lane);
	else
		*out = lane;
	return code;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	(void)object;
	(void)split;
	(void)err;
	return WEIR_OK;
}

static int put(struct sink_lane *lane, const struct weir_batch *batch, uint16_t part, struct weir_error *err)
{
	struct weir_join_side *side = lane->side;
	struct weir_join_chunk chunk = {.rows = batch->row_count, .part = part};
	int code = weir_run_space_put(&side->state->space, batch, &chunk.chunk, err);

	if (code)
		return code;
	if (part == WEIR_JOIN_LOOSE)
		atomic_fetch_add_explicit(&side->loose_bytes, chunk_bytes(&chunk), memory_order_relaxed);
	code = weir_list_push(&lane->chunks, side->state->account, err, chunk);
	if (code)
		drop_chunk(side, &chunk);
	return code;
}

static int put_slice(struct sink_lane *lane, const struct weir_batch *batch, int64_t first, int64_t count,
		     uint16_t part, struct weir_error *err)
{
	uint32_t n = 0;
	struct weir_array **columns = weir_alloc_zero(&lane->account, batch->column_count * sizeof(*columns), err);
	struct weir_batch *slice = NULL;
	int code = columns ? WEIR_OK : err->code;

	for (; n < batch->column_count && !code; n++) {
		columns[n] = weir_array_slice(batch->columns[n], first, count, err);
		if (!columns[n])
			code = err->code;
	}
	if (!code) {
		slice = weir_batch_new(&lane->account, batch->schema, count, columns, err);
		code = slice ? put(lane, slice, part, err) : err->code;
	}
	weir_batch_unref(slice);
	for (uint32_t i = 0; columns && i < batch->column_count; i++)
		weir_array_unref(columns[i]);
	weir_free(&lane->account, columns, columns ? batch->column_count * sizeof(*columns) : 0);
	return code;
}

static int put_loose(struct sink_lane *lane, const struct weir_batch *batch, int64_t bytes, struct weir_error *err)
{
	int64_t step = LOOSE_BYTES / (bytes / batch->row_count + 1);
	int code = WEIR_OK;

	step = step < 1 ? 1 : step > WEIR_JOIN_CHUNK_ROWS ? WEIR_JOIN_CHUNK_ROWS : step;
	for (int64_t first = 0; first < batch->row_count && !code; first += step)
		code = put_slice(lane, batch, first, batch->row_count - first < step ? batch->row_count - first : step,
				 WEIR_JOIN_LOOSE, err);
	return code;
}

/* Rows in the order of their partitions, by counting; then each partition's as chunks. Many rows are taken at once,
 * column by column: what is read of one stays in the cache until its neighbours are wanted. */
static int put_parts(struct sink_lane *lane, const struct weir_batch *batch, struct weir_error *err)
{
	uint32_t bits = lane->side->state->part_bits, parts = 1u << bits;
	size_t count = lane->slots.count;
	int64_t *rows = weir_alloc(&lane->account, (count + 1) * sizeof(*rows), err);
	size_t *ends = rows ? weir_alloc_zero(&lane->account, (parts + 1) * sizeof(*ends), err) : NULL;
	size_t begin = 0, taken_begin = 0, taken_end = 0;
	struct weir_batch *taken = NULL;
	int code = ends ? WEIR_OK : err->code;

	for (size_t i = 0; i < count && !code; i++)
		ends[(lane->slots.items[i] >> (16 - bits)) + 1]++;
	for (uint32_t p = 0; p < parts && !code; p++)
		ends[p + 1] += ends[p];
	/* ends[p] goes from where partition p begins to where it ends. */
	for (size_t i = 0; i < count && !code; i++)
		rows[ends[lane->slots.items[i] >> (16 - bits)]++] = (int64_t)i;
	for (uint32_t p = 0; p < parts && !code; p++) {
		for (; begin < ends[p] && !code;) {
			size_t here = ends[p] - begin;

			here = here > WEIR_JOIN_CHUNK_ROWS ? WEIR_JOIN_CHUNK_ROWS : here;
			if (begin + here > taken_end) {
				weir_batch_unref(taken);
				taken = NULL;
				taken_begin = begin;
				taken_end = begin + (count / TAKEN_PARTS > here ? count / TAKEN_PARTS : here);
				taken_end = taken_end < count ? taken_end : count;
				code = weir_batch_take(&lane->account, batch, rows + begin,
						       (int64_t)(taken_end - begin), &taken, err);
			}
			if (!code)
				code = put_slice(lane, taken, (int64_t)(begin - taken_begin), (int64_t)here,
						 (uint16_t)p, err);
			begin += here;
		}
	}
	weir_batch_unref(taken);
	weir_free(&lane->account, ends, ends ? (parts + 1) * sizeof(*ends) : 0);
	weir_free(&lane->account, rows, rows ? (count + 1) * sizeof(*rows) : 0);
	return code;
}

static bool may_be_loose(const struct sink_lane *lane, int64_t bytes)
{
	struct weir_join_state *state = lane->side->state;

	if (lane->sink->settles)
		return false;
	if (lane->side->is_build && !atomic_load_explicit(&state->is_partitioned, memory_order_relaxed)) {
		int64_t held = atomic_load_explicit(&lane->side->loose_bytes, memory_order_relaxed) + bytes;

		if (held <= state->loose_max)
			return true;
		atomic_store_explicit(&state->is_partitioned, true, memory_order_relaxed);
	}
	return bytes < (int64_t)WEIR_JOIN_CRUMB_BYTES << state->part_bits;
}

static int seal(struct sink_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int64_t bytes;
	int code;

	if (!lane->gather || weir_gather_rows(lane->gather) == 0)
		return WEIR_OK;
	bytes = (int64_t)weir_gather_bytes(lane->gather);
	code = weir_gather_finish(lane->gather, &batch, err);
	if (!code)
		code = may_be_loose(lane, bytes) ? put_loose(lane, batch, bytes, err) : put_parts(lane, batch, err);
	weir_batch_unref(batch);
	lane->slots.count = 0;
	return code;
}

/* The slots of the rows that stay; without an interest in rows that have no partner, those with a null key go. */
static int take_slots(struct sink_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	struct weir_join_keys *keys = &lane->keys;
	int code = weir_join_keys_take(keys, vector, err);

	if (!code && !lane->side->keeps_all)
		vector->selection = (struct weir_selection){.count = keys->count, .rows = keys->rows};
	if (!code)
		code = weir_list_reserve(&lane->slots, &lane->account, err,
					 lane->slots.count + vector->selection.count);
	if (code)
		return code;
	if (keys->count == vector->selection.count) {
		for (uint32_t i = 0; i < keys->count; i++)
			lane->slots.items[lane->slots.count++] = (uint16_t)(keys->hashes[i] >> 48);
		return WEIR_OK;
	}
	/* Those with a null key have no partner, and go anywhere: in one partition they would be too many for it. */
	for (uint32_t i = 0; i < WEIR_VECTOR_ROWS; i++)
		lane->slot_of[i] = (uint16_t)(i * 0x9E37u);
	for (uint32_t i = 0; i < keys->count; i++)
		lane->slot_of[keys->rows[i]] = (uint16_t)(keys->hashes[i] >> 48);
	for (uint32_t i = 0; i < vector->selection.count; i++)
		lane->slots.items[lane->slots.count++] =
			lane->slot_of[vector->selection.rows ? vector->selection.rows[i] : i];
	return WEIR_OK;
}

static int push(void *object, struct weir_vector *vector, struct weir_error *err)
{
	struct sink_lane *lane = object;
	struct weir_join_state *state = lane->side->state;
	int code = lane->sink->settles ? WEIR_OK : weir_join_project(&lane->projection, vector, err);

	if (!code && !lane->gather) {
		code = weir_gather_new(&lane->account, lane->side->stored, &lane->gather, err);
		/* What grows takes up to twice its room, and lanes wait for each other's. */
		if (!code)
			weir_gather_expect(lane->gather, lane->rows_full, state->batch_bytes);
	}
	if (!code)
		code = take_slots(lane, vector, err);
	if (code || !vector->selection.count)
		return code;
	code = weir_gather_push(lane->gather, vector, err);
	if (code ||
	    ((int64_t)weir_gather_bytes(lane->gather) < state->batch_bytes && lane->slots.count <= UINT32_MAX / 2))
		return code;
	lane->rows_full = weir_gather_rows(lane->gather);
	code = seal(lane, err);
	weir_gather_expect(lane->gather, lane->rows_full, state->batch_bytes);
	return code;
}

static int split_end(void *object, struct weir_error *err)
{
	struct sink_lane *lane = object;
	struct weir_join_side *side = lane->side;
	struct weir_join_state *state = side->state;
	int code = seal(lane, err);

	if (code)
		return code;
	/* Between splits a lane keeps nothing, so that whoever is older can have its memory. */
	forget_batch(lane);
	pthread_mutex_lock(&state->lock);
	code = weir_list_reserve(&side->chunks, state->account, err, side->chunks.count + lane->chunks.count);
	for (size_t i = 0; i < lane->chunks.count && !code; i++) {
		side->chunks.items[side->chunks.count++] = lane->chunks.items[i];
		if (!lane->sink->settles) {
			atomic_fetch_add_explicit(&side->rows, (uint64_t)lane->chunks.items[i].rows,
						  memory_order_relaxed);
			atomic_fetch_add_explicit(&side->bytes, (uint64_t)chunk_bytes(&lane->chunks.items[i]),
						  memory_order_relaxed);
		}
	}
	pthread_mutex_unlock(&state->lock);
	if (!code)
		lane->chunks.count = 0;
	return code;
}

static int table_of_part(struct weir_join_side *side, uint32_t part, struct weir_join_keys *keys,
			 struct weir_arena *arena, struct weir_error *err)
{
	struct weir_join_state *state = side->state;
	struct weir_join_part here = {.bits = state->table_bits,
				      .part = part,
				      .rows = atomic_load_explicit(&side->rows, memory_order_relaxed) >>
					      state->table_bits,
				      .least = state->slots.least,
				      .span = state->slots.span};
	bool is_made = false;
	int code = WEIR_OK;

	/* One that was begun before by whoever gave it up. */
	weir_join_table_release(&state->tables[part]);
	if (state->cells && !atomic_load_explicit(&state->lacks_cells, memory_order_relaxed)) {
		weir_join_cells_release(&state->cells[part]);
		code = weir_join_image_cells(&state->image, keys, arena, &here, &state->layout, state->account,
					     &state->cells[part], &is_made, err);
		if (!code && !is_made)
			atomic_store_explicit(&state->lacks_cells, true, memory_order_relaxed);
	}
	if (code || is_made)
		return code;
	return weir_join_image_index(&state->image, keys, arena, &here, state->account, &state->tables[part], err);
}

/* Where some have cells and others tables, because a key of theirs is there twice, all get tables. */
static int agree(struct weir_join_side *side, struct weir_error *err)
{
	struct weir_join_state *state = side->state;
	struct weir_join_keys *keys;
	struct weir_arena arena;
	int code = WEIR_OK;

	if (!state->cells || !atomic_load_explicit(&state->lacks_cells, memory_order_relaxed))
		return WEIR_OK;
	weir_join_state_drop_cells(state);
	keys = weir_alloc_zero(state->account, sizeof(*keys), err);
	if (!keys)
		return err->code;
	weir_arena_init(&arena, state->account);
	weir_join_keys_init(keys, state->account, &side->key_columns);
	for (uint32_t i = 0; i < 1u << state->table_bits && !code; i++) {
		if (!state->tables[i].account)
			code = table_of_part(side, i, keys, &arena, err);
	}
	weir_join_keys_release(keys);
	weir_arena_release(&arena);
	weir_free(state->account, keys, sizeof(*keys));
	return code;
}

/* What was loose is in partitions now. */
static int commit(void *object, struct weir_error *err)
{
	struct join_sink *sink = object;
	struct weir_join_side *side = sink->side;
	size_t kept = 0;

	if (!sink->settles)
		return WEIR_OK;
	if (side->state->is_broadcast)
		return side->is_build ? agree(side, err) : WEIR_OK;
	for (size_t i = 0; i < side->chunks.count; i++) {
		if (side->chunks.items[i].part == WEIR_JOIN_LOOSE)
			drop_chunk(side, &side->chunks.items[i]);
		else
			side->chunks.items[kept++] = side->chunks.items[i];
	}
	side->chunks.count = kept;
	return WEIR_OK;
}

static bool exchange_counts(const void *object, struct weir_exchange_counts *out)
{
	const struct join_sink *sink = object;
	const struct weir_join_state *state = sink->side->state;

	if (sink->settles || !sink->side->is_build)
		return false;
	*out = (struct weir_exchange_counts){
		.name = "join",
		.rows = atomic_load_explicit(&state->build.rows, memory_order_relaxed) +
			atomic_load_explicit(&state->probe.rows, memory_order_relaxed),
		.bytes = atomic_load_explicit(&state->build.bytes, memory_order_relaxed) +
			 atomic_load_explicit(&state->probe.bytes, memory_order_relaxed),
		.bytes_spilled = atomic_load_explicit(&state->space.spilled, memory_order_relaxed),
		.bytes_read = atomic_load_explicit(&state->space.read, memory_order_relaxed),
		.partitions = atomic_load_explicit(&state->is_partitioned, memory_order_relaxed)
				      ? 1u << state->part_bits
				      : 0,
		.rows_max = atomic_load_explicit(&state->part_rows_max, memory_order_relaxed),
		.depth = atomic_load_explicit(&state->depth, memory_order_relaxed),
	};
	return true;
}

static void sink_free(void *object)
{
	struct join_sink *sink = object;
	struct weir_account *account = sink->side->state->account;

	weir_join_state_unref(sink->side->state);
	weir_free(account, sink, sizeof(*sink));
}

const struct weir_sink_ops weir_join_sink_ops = {
	.name = "join",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = sink_free,
	.exchange_counts = exchange_counts,
};

int weir_join_sink_new(struct weir_join_side *side, bool settles, void **out, struct weir_error *err)
{
	struct join_sink *sink = weir_alloc_zero(side->state->account, sizeof(*sink), err);

	if (!sink)
		return err->code;
	sink->side = side;
	sink->settles = settles;
	atomic_fetch_add_explicit(&side->state->refs, 1, memory_order_relaxed);
	*out = sink;
	return WEIR_OK;
}

/* ---- settling: what is loose again, or the tables ---- */

struct settle_source {
	struct weir_join_side *side;
	bool is_begun;
	size_t next;        /* chunk that is looked at next */
	size_t chunk_count; /* when it began: the sink adds more */
	uint32_t splits;
};

struct settle_split {
	size_t first, last; /* chunks */
	uint32_t table;
};

struct settle_lane {
	struct weir_lane_context *context;
	struct weir_join_side *side;
	struct weir_arena arena;
	struct weir_join_open open;
	struct settle_split split;
	size_t chunk; /* the next to be opened */
	int64_t row;  /* the next of the open one */
	struct weir_join_keys *keys;
};

/* All chunks; and whether its keys lie close enough together for slots. */
static int open_image(const struct settle_source *source, uint64_t rows, struct weir_error *err)
{
	struct weir_join_side *side = source->side;
	struct weir_join_state *state = side->state;
	struct weir_join_keys *keys;
	struct weir_arena arena;
	int code = WEIR_OK;

	weir_join_image_init(&state->image, state->account, side->stored);
	for (size_t i = 0; i < source->chunk_count && !code; i++)
		code = weir_join_image_add(&state->image, &state->space, side->chunks.items[i].chunk, err);
	if (!code)
		code = weir_join_image_finish(&state->image, err);
	if (code)
		return code;
	keys = weir_alloc_zero(state->account, sizeof(*keys), err);
	if (!keys)
		return err->code;
	weir_arena_init(&arena, state->account);
	weir_join_keys_init(keys, state->account, &side->key_columns);
	/* Four bytes each, where an entry of a table that is half full takes 32 for each row. */
	code = weir_join_image_range(&state->image, keys, &arena, rows * 4 + 1024, &state->slots, err);
	weir_join_keys_release(keys);
	weir_arena_release(&arena);
	weir_free(state->account, keys, sizeof(*keys));
	return code;
}

/* Whether what is taken of a row can lie beside its key. */
static void plan_cells(struct weir_join_state *state)
{
	struct weir_join_cell_layout *layout = &state->layout;
	bool fits = weir_join_keys_are_words(&state->build.key_columns);

	for (uint32_t i = 0; i < state->schema->field_count && fits; i++) {
		uint32_t column = state->outputs[i].build;

		if (state->outputs[i].probe != WEIR_JOIN_NONE)
			continue;
		fits = weir_join_cell_layout_add(layout, column, state->build.stored->fields[column].type);
		for (size_t c = 0; c < state->image.chunks.count && fits; c++)
			fits = !state->image.sources[column][c]->validity;
	}
	layout->is_wanted = fits;
	layout->is_set = state->gives != WEIR_JOIN_PAIRS;
}

/* Whether a whole side fits: then it is opened, and each split makes one of the tables. */
static int decide(struct settle_source *source, struct weir_error *err)
{
	struct weir_join_side *side = source->side;
	struct weir_join_state *state = side->state;
	int64_t strings = 0;
	uint64_t bytes, rows = atomic_load_explicit(&side->rows, memory_order_relaxed);
	bool fits;
	int code;

	source->is_begun = true;
	source->chunk_count = side->chunks.count;
	if (!side->is_build || atomic_load_explicit(&state->is_partitioned, memory_order_relaxed))
		return WEIR_OK;
	for (uint32_t i = 0; i < side->stored->field_count; i++)
		strings += weir_type_values(side->stored->fields[i].type)->layout == WEIR_LAYOUT_BYTES;
	bytes = (uint64_t)atomic_load_explicit(&side->loose_bytes, memory_order_relaxed) +
		rows * 16 * (uint64_t)strings;
	fits = state->loose_max > 0 && (int64_t)bytes <= state->held_max && source->chunk_count < WEIR_JOIN_CHUNK_ROWS;
	code = fits ? open_image(source, rows, err) : WEIR_OK;
	if (code)
		return code;
	if (fits)
		plan_cells(state);
	if (state->layout.is_wanted &&
	    (int64_t)(bytes + weir_join_cells_bytes(rows, state->slots.span)) > state->held_max)
		state->layout.is_wanted = false;
	bytes += state->slots.span ? (state->slots.span + rows) * sizeof(uint32_t)
				   : weir_join_table_bytes(&side->key_columns, rows);
	state->is_broadcast = fits && (int64_t)bytes <= state->held_max;
	if (!state->is_broadcast) {
		weir_join_image_release(&state->image);
		state->slots = (struct weir_join_part){0};
		atomic_store_explicit(&state->is_partitioned, true, memory_order_relaxed);
		return WEIR_OK;
	}
	while (!state->slots.span && 1u << state->table_bits < state->threads && state->table_bits < 4 && rows > 100000)
		state->table_bits++;
	state->tables = weir_alloc_zero(state->account, sizeof(*state->tables) << state->table_bits, err);
	if (state->tables && state->layout.is_wanted)
		state->cells = weir_alloc_zero(state->account, sizeof(*state->cells) << state->table_bits, err);
	return state->tables && (state->cells || !state->layout.is_wanted) ? WEIR_OK : err->code;
}

static int settle_next_split(void *object, struct weir_split_info *out, void **split_out, bool *done,
			     struct weir_error *err)
{
	struct settle_source *source = object;
	struct weir_join_side *side = source->side;
	struct weir_join_state *state = side->state;
	struct settle_split split = {0};
	uint64_t bytes = 0;
	int code = source->is_begun ? WEIR_OK : decide(source, err);

	if (code)
		return code;
	if (state->is_broadcast) {
		*done = !side->is_build || source->splits >> state->table_bits;
		split.table = source->splits;
	} else {
		pthread_mutex_lock(&state->lock);
		for (; source->next < source->chunk_count && bytes < SETTLE_BYTES; source->next++) {
			if (side->chunks.items[source->next].part != WEIR_JOIN_LOOSE)
				continue;
			if (!bytes)
				split.first = source->next;
			split.last = source->next + 1;
			bytes += (uint64_t)chunk_bytes(&side->chunks.items[source->next]);
		}
		pthread_mutex_unlock(&state->lock);
		*done = !bytes;
	}
	if (*done)
		return WEIR_OK;
	*split_out = weir_alloc(state->account, sizeof(split), err);
	if (!*split_out)
		return err->code;
	memcpy(*split_out, &split, sizeof(split));
	*out = (struct weir_split_info){
		.number = source->splits++, .rows_est = -1, .bytes_est = bytes, .memory_est = LOOSE_BYTES};
	return WEIR_OK;
}

static void settle_split_free(void *object, void *split)
{
	weir_free(((struct settle_source *)object)->side->state->account, split, sizeof(struct settle_split));
}

static void settle_abort(void *object)
{
	struct settle_lane *lane = object;

	weir_join_close(&lane->open, lane->context->account);
	weir_arena_clear(&lane->arena);
}

static void settle_lane_free(void *object)
{
	struct settle_lane *lane = object;
	struct weir_account *account = lane->context->account;

	settle_abort(lane);
	weir_arena_release(&lane->arena);
	if (lane->keys) {
		weir_join_keys_release(lane->keys);
		weir_free(account, lane->keys, sizeof(*lane->keys));
	}
	weir_free(account, lane, sizeof(*lane));
}

static int settle_lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct settle_source *source = object;
	struct settle_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	lane->context = context;
	lane->side = source->side;
	weir_arena_init(&lane->arena, context->account);
	lane->keys = weir_alloc_zero(context->account, sizeof(*lane->keys), err);
	if (!lane->keys) {
		settle_lane_free(lane);
		return err->code;
	}
	weir_join_keys_init(lane->keys, context->account, &source->side->key_columns);
	*out = lane;
	return WEIR_OK;
}

static int settle_open(void *object, void *split, struct weir_error *err)
{
	struct settle_lane *lane = object;

	(void)err;
	lane->split = *(struct settle_split *)split;
	lane->chunk = lane->split.first;
	lane->row = 0;
	return WEIR_OK;
}

static int settle_next(void *object, struct weir_vector *out, struct weir_error *err)
{
	struct settle_lane *lane = object;
	struct weir_join_side *side = lane->side;
	struct weir_join_state *state = side->state;
	uint32_t here;
	int code;

	*out = (struct weir_vector){0};
	if (state->is_broadcast)
		return table_of_part(side, lane->split.table, lane->keys, &lane->arena, err);
	weir_arena_clear(&lane->arena);
	while (!lane->open.batch || lane->row == lane->open.batch->row_count) {
		struct weir_chunk *chunk = NULL;

		weir_join_close(&lane->open, lane->context->account);
		pthread_mutex_lock(&state->lock);
		for (; lane->chunk < lane->split.last && !chunk; lane->chunk++) {
			if (side->chunks.items[lane->chunk].part == WEIR_JOIN_LOOSE)
				chunk = side->chunks.items[lane->chunk].chunk;
		}
		pthread_mutex_unlock(&state->lock);
		if (!chunk)
			return WEIR_OK;
		code = weir_join_open(&lane->open, lane->context->account, &state->space, side->stored, chunk, err);
		if (code)
			return code;
		lane->row = 0;
	}
	here = (uint32_t)(lane->open.batch->row_count - lane->row);
	here = here > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS : here;
	code = weir_vector_from_batch(lane->open.batch, lane->row, here, &lane->arena, out, err);
	lane->row += here;
	return code;
}

static void settle_free(void *object)
{
	struct settle_source *source = object;
	struct weir_account *account = source->side->state->account;

	weir_join_state_unref(source->side->state);
	weir_free(account, source, sizeof(*source));
}

#define SETTLE_OPS(text)                                                                                               \
	{                                                                                                              \
		.name = (text), .split_next = settle_next_split, .split_free = settle_split_free,                      \
		.lane_new = settle_lane_new, .split_open = settle_open, .next = settle_next,                           \
		.split_abort = settle_abort, .lane_free = settle_lane_free, .free = settle_free,                       \
	}
const struct weir_source_ops weir_join_settle_ops[WEIR_JOIN_SIDES] = {SETTLE_OPS("join left"),
								      SETTLE_OPS("join right")};
#undef SETTLE_OPS

int weir_join_settle_new(struct weir_join_side *side, void **out, struct weir_error *err)
{
	struct settle_source *source = weir_alloc_zero(side->state->account, sizeof(*source), err);

	if (!source)
		return err->code;
	source->side = side;
	atomic_fetch_add_explicit(&side->state->refs, 1, memory_order_relaxed);
	*out = source;
	return WEIR_OK;
}
