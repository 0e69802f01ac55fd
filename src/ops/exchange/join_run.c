/* The run of a join: which phases it has, and what gives its rows at last.
 *
 *     1  build side ─▶ rows in the store
 *     2  settle: a side that fits is opened and gets its tables; else what is loose of it goes into partitions
 *     3  probe side ─▶ rows in the store, in partitions           (nothing, if the build side fitted)
 *     4  settle: what is loose of it                              (the same)
 *     5  the join's source: vectors of the probe side's own chain, or of pairs of partitions
 *
 * What the phases share is in join_state.c; rows on their way into the store are join_side.c's, pairs of partitions
 * join_pairs.c's. */
#include "ops/exchange/join_impl.h"

enum { SPLIT_BYTES = 4 << 20 }; /* of partitions: less are taken together */

/* ---- the source ---- */

struct join_source {
	struct weir_join_state *state;
	struct weir_join_gate *gate;
	const struct weir_fragment *chain; /* of the probe side */
	/* a limit inside it has all its rows; relaxed: later splits give none anyway */
	_Atomic bool enough;
	uint64_t split_count;
	uint32_t part; /* the next that no split has */
	bool is_sorted;
};

struct join_split {
	struct weir_split_info info;
	void *inner; /* of the chain's source */
	uint32_t part_first, part_end;
};

/* A limit inside the probe side's chain ends that, not the run. */
struct chain_context {
	struct weir_lane_context context;
	struct join_source *source;
};

struct source_lane {
	struct weir_lane_context *context;
	struct join_source *source;
	struct chain_context chain_context;
	struct weir_chain *chain; /* NULL: pairs */
	struct weir_join_projection projection;
	struct weir_join_probe *probe;
	bool has_more;
	bool is_open;                  /* a split of the chain */
	struct weir_join_pairs *pairs; /* NULL: the chain */
};

/* Partitions go together until there is something to do. */
static bool next_parts(struct join_source *source, struct join_split *split)
{
	struct weir_join_state *state = source->state;
	uint64_t bytes = 0, rows_sum = 0;

	if (!source->is_sorted) {
		weir_join_side_sort(&state->probe);
		weir_join_side_sort(&state->build);
		source->is_sorted = true;
	}
	split->part_first = source->part;
	while (source->part < 1u << state->part_bits && bytes < SPLIT_BYTES) {
		uint64_t rows = 0;

		weir_join_part_figures(&state->probe, source->part, &bytes, &rows);
		weir_join_part_figures(&state->build, source->part, &bytes, &rows);
		source->part++;
		rows_sum += rows;
		if (rows > atomic_load_explicit(&state->part_rows_max, memory_order_relaxed))
			atomic_store_explicit(&state->part_rows_max, rows, memory_order_relaxed);
	}
	split->part_end = source->part;
	split->info = (struct weir_split_info){
		.rows_est = (int64_t)rows_sum, .bytes_est = bytes, .memory_est = (uint64_t)state->piece_bytes};
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

static void split_abort(void *object)
{
	struct source_lane *lane = object;

	if (lane->is_open)
		weir_chain_abort(lane->chain);
	lane->is_open = false;
	lane->has_more = false;
	if (lane->pairs)
		weir_join_pairs_close(lane->pairs);
}

static void lane_free(void *object)
{
	struct source_lane *lane = object;
	struct weir_account *account = lane->context->account;

	weir_join_pairs_free(lane->pairs);
	weir_join_probe_free(lane->probe);
	weir_join_projection_release(&lane->projection);
	weir_chain_free(lane->chain);
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
		code = weir_join_pairs_new(context->account, state, lane->probe, &lane->pairs, err);
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
		weir_join_pairs_begin(lane->pairs, split->part_first, split->part_end);
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
	if (lane->chain)
		return next_of_chain(lane, out, err);
	code = weir_join_pairs_next(lane->pairs, out, &progress, err);
	lane->has_more = !code && progress == WEIR_HAVE_MORE;
	return code;
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
	int code = weir_join_state_new(env, joining, &probe, &state, err);

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
