/* chunks: rows leave for the next stage of the run, as blocks of one batch in the store.
 *
 *     vectors ─▶ gather ─▶ batch ─▶ chunk (store) ─▶ context->output
 *
 * Where every column has as many bytes in each row, the chunk is there first, and rows are gathered in their places in
 * it: a reader may decode straight into it (vector.h, decode_to), and only the messages around the values are written
 * at the end. If it turns out otherwise, because there are nulls or more rows than were foreseen, the batch is copied
 * as any other.
 *
 * A chunk ends on a multiple of the next step's batch, counted from the split's first row, nearest to chunk_bytes; the
 * last of a split holds what is left, too. How many rows that makes is taken from the rows before. It may come out
 * differently when a split is redone: then rows that were handed over already are left out, so boundaries need not be
 * the same.
 *
 * Rows that lie in the store as a block already (a sort of what was in order) are handed over as that block.
 *
 * A split that somebody asked for as one piece (`is_block`: repartition by keys) is one chunk, unless the next step
 * wants batches.
 *
 * Rows that come in groups (exchange/groups.c) are cut between groups only: the chunk goes on until the group has ended
 * that it is full in.
 *
 * The lane pays for a chunk until it is handed over; then the executor counts it.
 */
#include "ops/blocks.h"
#include "ops/ops_impl.h"
#include "ops/origin.h"
#include "ops/exchange/groups.h"
#include "ops/exchange/segment.h"

#include <stdio.h>
#include <string.h>

enum {
	CHUNK_BYTES = 8 << 20,
	ROWS_MAX = 1 << 24,
	ROOM_BYTES_MIN = 64 << 10, /* below, a copy costs nothing */
	FINE_LAST = 8,             /* the last rows of few come in so many chunks */
};

struct chunks_sink {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_chunks_options options;
	uint32_t row_bytes; /* as far as the types tell */
	bool is_even;       /* they tell all, when nothing is null */
	bool keeps_groups;  /* the last column numbers them */
	struct weir_key_columns group_keys;
};

struct chunks_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct chunks_sink *sink;
	struct weir_gather *gather;
	int64_t rows_skip; /* handed over by an earlier attempt, and not met again yet */
	int64_t rows_done; /* of this split, in chunks */
	uint64_t bytes_done;
	/* The last chunk, of this split or one before; 0: there was none. */
	int64_t rows_met;
	uint64_t row_bytes_met;
	int64_t rows_wanted; /* of the chunk at hand */
	struct weir_origin origin;
	int64_t group; /* of the last row; where the sink keeps groups */
	int64_t group_rows;
	char group_text[64]; /* of one that is larger than a chunk; "": not yet */

	/* The chunk that rows are gathered in; NULL: none, they are gathered apart. The lane has been charged for its
	 * footprint. */
	struct weir_chunk *room;
	uint8_t *room_bytes;
	int64_t room_charged;
	uint64_t *places;  /* one a column */
	int64_t rows_left; /* of the split, as far as is known, when it began; −1: not */
	uint64_t bytes_left;
	bool is_first; /* the run's first split, and it is to be cut finer */
	bool no_room;  /* one did not do: the rest of the split goes without */
	bool is_whole; /* the split is one chunk */
};

void weir_chunks_set(struct weir_node *node, const struct weir_chunks_options *options)
{
	WEIR_ASSERT(node->op == &weir_op_chunks);
	*(struct weir_chunks_options *)node->config = *options;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	node->config = weir_arena_alloc_zero(env->arena, sizeof(struct weir_chunks_options), err);
	return node->config ? weir_words_expect(words, "chunks", 0, 0, NULL, err) : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	(void)env;
	(void)err;
	node->schema = node->inputs[0]->schema;
	node->rows_est = node->inputs[0]->rows_est;
	node->bytes_est = node->inputs[0]->bytes_est;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct weir_chunks_options *options = node->config;

	return options->batch_rows ? weir_text_printf(out, err, "chunks: to the next stage, in batches of %lld rows",
						      (long long)options->batch_rows)
				   : weir_text_puts(out, "chunks: to the next stage", err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	(void)load;
	return parse(env, node, &(struct weir_words){0}, err);
}

/* ---- running ---- */

static uint32_t type_bytes(const struct weir_type *type)
{
	uint32_t bytes = 0;

	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
	case WEIR_LAYOUT_BITS:
		return 1;
	case WEIR_LAYOUT_FIXED:
		return type->byte_width;
	case WEIR_LAYOUT_BYTES:
		return 16;
	case WEIR_LAYOUT_NESTED:
		for (uint32_t i = 0; i < type->field_count; i++)
			bytes += type_bytes(type->fields[i].type);
		return type->id == WEIR_FIXED_LIST && type->list_size > 0 &&
				       bytes < UINT32_MAX / (uint32_t)type->list_size
			       ? bytes * (uint32_t)type->list_size
			       : bytes + 8;
	}
	return 8;
}

static int64_t chunk_bytes(const struct chunks_sink *sink)
{
	return sink->options.chunk_bytes > 0 ? sink->options.chunk_bytes : CHUNK_BYTES;
}

/* Whether chunks end at the row that was chosen, and not with the vector that it is in. */
static bool is_exact(const struct chunks_sink *sink)
{
	return sink->options.batch_rows || sink->options.fine;
}

/* How many rows the split still has, as far as can be told. */
static int64_t rows_ahead(const struct chunks_lane *lane)
{
	uint64_t bytes = lane->bytes_left > lane->bytes_done ? lane->bytes_left - lane->bytes_done : 0;

	return lane->rows_left >= 0 ? lane->rows_left - lane->rows_done
				    : (int64_t)(bytes / (lane->sink->row_bytes ? lane->sink->row_bytes : 1));
}

/* Nobody knows how long the function takes: a quarter of what came before lets several work on few rows, and is soon
 * large enough for many. Of groups one is a whole call, which may be a long one: they start with one, and what comes
 * last is little, too. So may the rows of the run's first split, which may be its only one, and a small one. */
static int64_t fine_rows(const struct chunks_lane *lane)
{
	const struct chunks_sink *sink = lane->sink;
	int64_t ahead = rows_ahead(lane), last = ahead / FINE_LAST,
		rows = lane->rows_done / (sink->keeps_groups ? 16 : 4);
	int64_t least = sink->keeps_groups ? 1 : lane->is_first ? sink->options.fine_first : sink->options.fine;

	if (lane->is_first && !sink->keeps_groups && last < sink->options.fine && rows > last && ahead > 0)
		rows = last;
	return rows > least ? rows : least;
}

/* One batch, or as many as make a task that is worth its messages, and with the last whole one what is left of the
 * split, if there is room for it: by itself that would be bundled with rows of the next split (exec/bundle.c), or not,
 * as they come. */
static int64_t batches_and_rest(const struct chunks_lane *lane, int64_t rows_max)
{
	int64_t batch = lane->sink->options.batch_rows, ahead = lane->rows_left >= 0 ? rows_ahead(lane) : 0;
	const _Atomic int64_t *pace = lane->sink->options.paced ? lane->context->pace_rows : NULL;
	int64_t rows = pace ? atomic_load_explicit(pace, memory_order_relaxed) : 0;

	rows = rows < rows_max ? rows : rows_max;
	rows = rows < 2 * batch ? batch : rows - rows % batch;
	return ahead > rows && ahead - rows < batch && ahead <= rows_max ? ahead : rows;
}

/* How many rows the next chunk is to have: whole batches, about chunk_bytes. */
static void choose_rows(struct chunks_lane *lane)
{
	const struct chunks_sink *sink = lane->sink;
	uint64_t row_bytes = lane->rows_done && !sink->is_even ? lane->bytes_done / (uint64_t)lane->rows_done
							       : sink->row_bytes;
	int64_t batch = sink->options.batch_rows, rows = chunk_bytes(sink) / (int64_t)(row_bytes ? row_bytes : 1);

	rows = rows < 1 ? 1 : rows > ROWS_MAX || lane->is_whole ? ROWS_MAX : rows;
	if (sink->options.fine && batch) {
		rows = batches_and_rest(lane, rows);
	} else if (batch) {
		rows = rows < batch ? batch : rows - rows % batch;
	} else if (sink->options.fine) {
		rows = rows < fine_rows(lane) ? rows : fine_rows(lane);
	}
	lane->rows_wanted = rows;
}

static size_t places_size(const struct chunks_sink *sink)
{
	return sink->schema->field_count * sizeof(uint64_t);
}

/* The gatherer holds nothing of it any more. */
static void room_drop(struct chunks_lane *lane)
{
	if (!lane->room)
		return;
	weir_chunk_unref(lane->room);
	weir_account_unclaim(&lane->account, lane->room_charged);
	lane->room = NULL;
}

static void lane_free(void *state)
{
	struct chunks_lane *lane = state;

	weir_gather_free(lane->gather);
	weir_origin_release(&lane->origin);
	room_drop(lane);
	weir_free(&lane->account, lane->places, lane->places ? places_size(lane->sink) : 0);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct chunks_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "chunks", err);
	int code;

	if (!lane)
		return err->code;
	weir_origin_init(&lane->origin, &lane->account);
	lane->context = context;
	lane->sink = state;
	code = weir_gather_new(&lane->account, lane->sink->schema, &lane->gather, err);
	if (!code && lane->sink->is_even) {
		lane->places = weir_alloc(&lane->account, places_size(lane->sink), err);
		code = lane->places ? WEIR_OK : err->code;
	}
	if (code) {
		lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static void split_abort(void *state)
{
	struct chunks_lane *lane = state;

	weir_gather_free(lane->gather);
	lane->gather = NULL;
	weir_origin_release(&lane->origin);
	room_drop(lane);
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct chunks_lane *lane = state;
	int code = WEIR_OK;

	if (lane->gather && (weir_gather_rows(lane->gather) > 0 || lane->room))
		split_abort(lane);
	if (!lane->gather)
		code = weir_gather_new(&lane->account, lane->sink->schema, &lane->gather, err);
	lane->rows_done = 0;
	lane->bytes_done = 0;
	lane->rows_left = split->rows_est;
	lane->bytes_left = split->bytes_est;
	lane->is_first = lane->sink->options.fine_first && split->number == 0 && !split->place;
	lane->no_room = false;
	lane->is_whole = split->is_block && !lane->sink->keeps_groups && !is_exact(lane->sink);
	lane->group_text[0] = 0;
	choose_rows(lane);
	return code ? code : lane->context->rows_done(lane->context, &lane->rows_skip, err);
}

/* Takes a chunk to gather the next rows in, where that is possible and worth it. The gatherer is empty. */
static int room_begin(struct chunks_lane *lane, struct weir_error *err)
{
	const struct weir_schema *schema = lane->sink->schema;
	struct weir_block_plan plan;
	int64_t rows = lane->rows_wanted;
	int code;

	if (!lane->sink->is_even || lane->no_room || lane->room)
		return WEIR_OK;
	rows = rows < rows_ahead(lane) ? rows : rows_ahead(lane);
	if (rows < 1 || (uint64_t)rows * lane->sink->row_bytes < ROOM_BYTES_MIN)
		return WEIR_OK;
	code = weir_block_frame(&lane->account, schema, rows, &plan, lane->places, err);
	if (code)
		return code;
	lane->room_charged = (int64_t)((plan.size + 4095) / 4096 * 4096);
	code = weir_account_claim(&lane->account, lane->room_charged, err);
	if (code)
		return code;
	code = weir_chunk_reserve(lane->sink->options.store, plan.size, &lane->room, &lane->room_bytes, err);
	if (code) {
		weir_account_unclaim(&lane->account, lane->room_charged);
		return code;
	}
	for (uint32_t i = 0; i < schema->field_count; i++) {
		uint64_t end = i + 1 < schema->field_count ? lane->places[i + 1] : plan.size;

		weir_gather_place(lane->gather, i, lane->room_bytes + lane->places[i], end - lane->places[i]);
	}
	return WEIR_OK;
}

/* The first rows of a chunk are about to come. Where they get no room in it, memory for them is taken at once, as if
 * they were as wide as those of the chunk before: growing would copy them once more. A vector more than is wanted,
 * since neither is known well. */
static int gather_begin(struct chunks_lane *lane, struct weir_error *err)
{
	int64_t ahead = rows_ahead(lane), rows = ahead > lane->rows_met ? ahead : lane->rows_met;
	int64_t fit = lane->rows_met ? chunk_bytes(lane->sink) / (int64_t)lane->row_bytes_met : 0;
	int64_t more = lane->rows_met ? (int64_t)WEIR_VECTOR_BYTES / (int64_t)lane->row_bytes_met : 0;
	int code = room_begin(lane, err);

	rows = rows < lane->rows_wanted ? rows : lane->rows_wanted;
	rows = rows < fit ? rows : fit;
	if (!code && !lane->room)
		weir_gather_expect(
			lane->gather,
			rows > 0 ? rows + rows / 16 +
					   (more < (int64_t)WEIR_VECTOR_ROWS ? more : (int64_t)WEIR_VECTOR_ROWS)
				 : 0,
			chunk_bytes(lane->sink) + (int64_t)WEIR_VECTOR_BYTES);
	return code;
}

/* Are all values of the batch where the room had a place for them, and is there nothing else? */
static bool is_in_room(const struct chunks_lane *lane, const struct weir_batch *batch)
{
	for (uint32_t i = 0; i < batch->column_count; i++) {
		const struct weir_array *column = batch->columns[i];
		const struct weir_array *values = column->child_count ? column->children[0] : column;

		if (column->buffers[0].data || values->buffers[0].data ||
		    values->buffers[1].data != lane->room_bytes + lane->places[i])
			return false;
	}
	return true;
}

/* The batch, whose rows lie in the room, as the chunk that the room is. */
static int close_room(struct chunks_lane *lane, const struct weir_batch *batch, struct weir_chunk **out,
		      struct weir_error *err)
{
	struct weir_block_plan plan;
	int code = weir_block_measure(batch, &plan, err);

	if (!code)
		code = weir_block_write(batch, &plan, lane->room_bytes, err);
	if (code)
		return code;
	weir_chunk_seal(lane->room, plan.size);
	/* Less than was foreseen. */
	weir_account_unclaim(&lane->account, lane->room_charged - (int64_t)weir_chunk_footprint(lane->room));
	*out = lane->room;
	lane->room = NULL;
	return WEIR_OK;
}

/* The batch as a chunk, which is paid for by the lane. */
static int write_chunk(struct chunks_lane *lane, const struct weir_batch *batch, struct weir_chunk **out,
		       struct weir_error *err)
{
	struct weir_block_plan plan;
	int64_t footprint;
	uint8_t *bytes;
	int code = weir_block_measure(batch, &plan, err);

	if (code)
		return code;
	footprint = (int64_t)((plan.size + 4095) / 4096 * 4096);
	code = weir_account_claim(&lane->account, footprint, err);
	if (code)
		return code;
	code = weir_chunk_reserve(lane->sink->options.store, plan.size, out, &bytes, err);
	if (!code) {
		code = weir_block_write(batch, &plan, bytes, err);
		if (code)
			weir_chunk_unref(*out);
		else
			weir_chunk_seal(*out, plan.size);
	}
	if (code)
		weir_account_unclaim(&lane->account, footprint);
	else
		WEIR_ASSERT(footprint == (int64_t)weir_chunk_footprint(*out));
	return code;
}

static int hand_over(struct chunks_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	struct weir_chunk *chunk = NULL;
	int64_t rows = weir_gather_rows(lane->gather);
	uint64_t bytes;
	int code = weir_gather_finish(lane->gather, &batch, err);

	if (!code && lane->room && is_in_room(lane, batch))
		code = close_room(lane, batch, &chunk, err);
	else if (!code)
		code = write_chunk(lane, batch, &chunk, err);
	weir_batch_unref(batch);
	if (!code && lane->room)
		lane->no_room = true;
	room_drop(lane);
	if (code)
		return code;
	bytes = weir_chunk_footprint(chunk);
	lane->rows_done += rows;
	lane->bytes_done += bytes;
	lane->rows_met = rows;
	lane->row_bytes_met = bytes / (uint64_t)rows + 1;
	choose_rows(lane);
	/* What leaves the account here has left the grant there: nothing is counted twice, and nothing not at all. */
	weir_account_unclaim(&lane->account, (int64_t)bytes);
	code = lane->context->output(lane->context, chunk, rows, &lane->origin, err);
	weir_origin_clear(&lane->origin);
	return code;
}

static int64_t row_of(const struct weir_vector *vector, uint32_t selected)
{
	return vector->source_row < 0
		       ? -1
		       : vector->source_row + (vector->selection.rows ? vector->selection.rows[selected] : selected);
}

static int note_origin(struct chunks_lane *lane, const struct weir_vector *vector, uint32_t first, uint32_t last,
		       struct weir_error *err)
{
	if (weir_gather_rows(lane->gather) == 0)
		weir_origin_clear(&lane->origin);
	return weir_origin_add(&lane->origin, vector->source, row_of(vector, first), row_of(vector, last),
			       (int64_t)last - first + 1, err);
}

static bool has_other_source(const struct chunks_lane *lane, const struct weir_vector *vector)
{
	const struct weir_origin *origin = &lane->origin;

	return origin->parts.count && strcmp(weir_origin_source(origin, &origin->parts.items[origin->parts.count - 1]),
					     vector->source ? vector->source : "");
}

/* With another source a chunk of several batches ends, so that messages can say whose rows they are about. */
static int end_with_source(struct chunks_lane *lane, const struct weir_vector *vector, struct weir_error *err)
{
	int64_t batch = lane->sink->options.paced ? lane->sink->options.batch_rows : 0;
	int64_t rows = weir_gather_rows(lane->gather), wanted;

	if (!batch || !rows || !has_other_source(lane, vector))
		return WEIR_OK;
	wanted = (rows + batch - 1) / batch * batch;
	if (wanted < lane->rows_wanted)
		lane->rows_wanted = wanted;
	return rows >= lane->rows_wanted ? hand_over(lane, err) : WEIR_OK;
}

/* Selected rows [begin, begin + count) of the vector. */
static int gather(struct chunks_lane *lane, struct weir_vector *vector, uint32_t begin, uint32_t count,
		  struct weir_error *err)
{
	int64_t batch = lane->sink->options.batch_rows, rows;
	int code = note_origin(lane, vector, begin, begin + count - 1, err);

	if (!code)
		code = weir_gather_push_part(lane->gather, vector, begin, count, err);
	if (code)
		return code;
	rows = weir_gather_rows(lane->gather);
	/* Rows are wider than those before: the chunk ends with the batch that it is in. */
	if (rows < lane->rows_wanted && !lane->is_whole &&
	    (int64_t)weir_gather_bytes(lane->gather) >= chunk_bytes(lane->sink))
		lane->rows_wanted = batch ? (rows + batch - 1) / batch * batch : rows;
	return rows >= lane->rows_wanted ? hand_over(lane, err) : WEIR_OK;
}

/* ---- groups ---- */

static int64_t group_of(const struct weir_vector *vector, uint32_t selected)
{
	const struct weir_column *numbers = &vector->columns[vector->column_count - 1];

	return ((const int64_t *)numbers->values)[vector->selection.rows ? vector->selection.rows[selected] : selected];
}

/* The first selected row behind `at` that is of another group. */
static uint32_t group_end(const struct weir_vector *vector, uint32_t at)
{
	int64_t group = group_of(vector, at);

	while (at < vector->selection.count && group_of(vector, at) == group)
		at++;
	return at;
}

/* Where there was no memory for a group that is larger than a chunk, the message says which. */
static int blame_group(const struct chunks_lane *lane, int code, struct weir_error *err)
{
	char text[128], bytes[24];

	if (!lane->group_text[0] || (code != WEIR_E_CANCELLED && code != WEIR_E_LIMIT && code != WEIR_E_MEMORY))
		return code;
	snprintf(text, sizeof(text), "the group %s has %lld rows, %s, or more", lane->group_text,
		 (long long)lane->group_rows,
		 weir_format_bytes((int64_t)weir_gather_bytes(lane->gather), bytes, sizeof(bytes)));
	weir_error_at_value(err, text, strlen(text));
	return code;
}

static int push_groups(struct chunks_lane *lane, struct weir_vector *vector, uint32_t at, struct weir_error *err)
{
	const struct chunks_sink *sink = lane->sink;
	uint32_t count = vector->selection.count;
	int code = WEIR_OK;

	while (!code && at < count) {
		int64_t rows = weir_gather_rows(lane->gather), group = group_of(vector, at);
		bool is_full = rows >= lane->rows_wanted ||
			       (int64_t)weir_gather_bytes(lane->gather) >= chunk_bytes(sink);
		uint32_t end = count;

		if (group != lane->group || !rows) {
			if (is_full && rows)
				code = blame_group(lane, hand_over(lane, err), err);
			is_full = false;
			rows = weir_gather_rows(lane->gather);
			lane->group_text[0] = 0;
			lane->group_rows = 0;
		}
		if (code)
			break;
		if (is_full && !lane->group_text[0])
			weir_segment_text(sink->schema, &sink->group_keys, vector, at, lane->group_text,
					  sizeof(lane->group_text));
		if (is_full)
			end = group_end(vector, at);
		else if (count - at > lane->rows_wanted - rows)
			end = group_end(vector, at + (uint32_t)(lane->rows_wanted - rows) - 1);
		code = note_origin(lane, vector, at, end - 1, err);
		lane->group_rows = group == group_of(vector, end - 1) ? lane->group_rows + end - at : end - at;
		lane->group = group_of(vector, end - 1);
		if (!code)
			code = blame_group(lane, weir_gather_push_part(lane->gather, vector, at, end - at, err), err);
		at = end;
	}
	return code;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct chunks_lane *lane = state;
	uint32_t count = vector->selection.count, at = 0;
	int code = WEIR_OK;

	/* Handed over by an earlier attempt. */
	if (lane->rows_skip > 0) {
		at = lane->rows_skip < count ? (uint32_t)lane->rows_skip : count;
		lane->rows_skip -= at;
	}
	if (lane->sink->keeps_groups)
		return push_groups(lane, vector, at, err);
	if (at < count)
		code = end_with_source(lane, vector, err);
	while (!code && at < count) {
		int64_t room;
		uint32_t some = count - at;

		if (weir_gather_rows(lane->gather) == 0)
			code = gather_begin(lane, err);
		room = lane->rows_wanted - weir_gather_rows(lane->gather) +
		       (is_exact(lane->sink) || lane->room ? 0 : (int64_t)WEIR_VECTOR_ROWS);
		if (some > room)
			some = (uint32_t)(lane->rows_wanted - weir_gather_rows(lane->gather));
		if (!code)
			code = gather(lane, vector, at, some, err);
		at += some;
	}
	return code;
}

/* A block of the size that is made here, and rows are cut anywhere. */
static bool takes_chunks(const void *state)
{
	const struct chunks_lane *lane = state;
	const struct chunks_sink *sink = lane->sink;

	return !sink->keeps_groups && !is_exact(sink) && !lane->is_whole && lane->rows_skip == 0 &&
	       chunk_bytes(sink) >= CHUNK_BYTES;
}

static int push_chunk(void *state, struct weir_chunk *chunk, int64_t rows, struct weir_error *err)
{
	struct chunks_lane *lane = state;
	int64_t footprint = (int64_t)weir_chunk_footprint(chunk);
	int code = weir_gather_rows(lane->gather) > 0 ? hand_over(lane, err) : WEIR_OK;

	if (!code)
		code = weir_account_claim(&lane->account, footprint, err);
	if (code) {
		weir_chunk_unref(chunk);
		return code;
	}
	lane->rows_done += rows;
	lane->bytes_done += (uint64_t)footprint;
	choose_rows(lane);
	weir_account_unclaim(&lane->account, footprint);
	return lane->context->output(lane->context, chunk, rows, NULL, err);
}

static int split_end(void *state, struct weir_error *err)
{
	struct chunks_lane *lane = state;

	return weir_gather_rows(lane->gather) > 0 ? blame_group(lane, hand_over(lane, err), err) : WEIR_OK;
}

static int commit(void *state, struct weir_error *err)
{
	(void)state;
	(void)err;
	return WEIR_OK;
}

static void sink_free(void *state)
{
	struct chunks_sink *sink = state;

	weir_free(sink->account, (void *)sink->group_keys.keys,
		  sink->group_keys.keys ? (sink->group_keys.count + 1) * sizeof(*sink->group_keys.keys) : 0);
	weir_schema_unref(sink->schema);
	weir_free(sink->account, sink, sizeof(*sink));
}

static const struct weir_sink_ops sink_ops = {
	.name = "chunks",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.takes_chunks = takes_chunks,
	.push_chunk = push_chunk,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = sink_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct weir_chunks_options *options = node->config;
	struct chunks_sink *sink;

	if (!options->store)
		return weir_op_no_consumer(node, err);
	sink = weir_alloc_zero(env->account, sizeof(*sink), err);
	if (!sink)
		return err->code;
	sink->account = env->account;
	sink->schema = weir_schema_ref(node->schema);
	sink->options = *options;
	sink->is_even = node->schema->field_count > 0;
	for (uint32_t i = 0; i < node->schema->field_count; i++) {
		sink->row_bytes += type_bytes(node->schema->fields[i].type);
		sink->is_even &= weir_type_row_bytes(node->schema->fields[i].type) > 0;
	}
	if (weir_node_is_groups(node->inputs[0])) {
		sink->is_even = false;
		sink->keeps_groups = true;
		if (weir_groups_keys(node->inputs[0], env->account, &sink->group_keys, err)) {
			sink_free(sink);
			return err->code;
		}
	}
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_chunks = {
	.verb = "chunks",
	.usage = "chunks",
	.help = "Hands the rows to the next stage of the run.\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.stateless = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_nothing,
	.load = load,
	.build = build,
	.rules = {.needs = weir_op_needs_same},
};
