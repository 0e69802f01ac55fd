/* Stands in front of the source of a join's probe side, whose chain is run in a phase of its own, or by the join's
 * source: in the phase it has no splits when the build side is held. What it does not say itself is the source's
 * own. */
#include "ops/exchange/join_impl.h"

static int gate_next(void *object, struct weir_split_info *out, void **split, bool *done, struct weir_error *err)
{
	struct weir_join_gate *gate = object;

	*done = true;
	if (gate->state->is_broadcast)
		return WEIR_OK;
	/* Rows of a split become batches of their own: few large ones have large chunks of each partition. */
	if (!gate->is_begun && gate->inner_ops->splits_join)
		gate->inner_ops->splits_join(gate->inner);
	gate->is_begun = true;
	return gate->inner_ops->split_next(gate->inner, out, split, done, err);
}

static bool gate_waits(const void *object)
{
	const struct weir_join_gate *gate = object;

	return gate->inner_ops->waits(gate->inner);
}

static void gate_split_free(void *object, void *split)
{
	struct weir_join_gate *gate = object;

	gate->inner_ops->split_free(gate->inner, split);
}

static int gate_lane_new(void *object, struct weir_lane_context *context, void **lane, struct weir_error *err)
{
	struct weir_join_gate *gate = object;

	return gate->inner_ops->lane_new(gate->inner, context, lane, err);
}

static void gate_splits_over(void *object, uint64_t count)
{
	const struct weir_join_gate *gate = object;

	gate->inner_ops->splits_over(gate->inner, count);
}

static bool gate_is_needed(const void *object)
{
	const struct weir_join_gate *gate = object;

	return gate->inner_ops->is_needed(gate->inner);
}

static uint64_t gate_rows_pruned(const void *object)
{
	const struct weir_join_gate *gate = object;

	return gate->inner_ops->rows_pruned ? gate->inner_ops->rows_pruned(gate->inner) : 0;
}

static void gate_free(void *object)
{
	struct weir_join_gate *gate = object;
	struct weir_join_state *state = gate->state;
	struct weir_account *account = state->account;

	gate->inner_ops->free(gate->inner);
	weir_free(account, gate, sizeof(*gate));
	weir_join_state_unref(state);
}

int weir_join_gate_put(struct weir_fragment *fragment, struct weir_join_state *state, struct weir_join_gate **out,
		       struct weir_error *err)
{
	struct weir_join_gate *gate = weir_alloc_zero(state->account, sizeof(*gate), err);

	if (!gate)
		return err->code;
	atomic_fetch_add_explicit(&state->refs, 1, memory_order_relaxed);
	gate->state = state;
	gate->inner_ops = fragment->source_ops;
	gate->inner = fragment->source;
	gate->ops = *fragment->source_ops;
	gate->ops.split_next = gate_next;
	gate->ops.waits = gate->ops.waits ? gate_waits : NULL;
	gate->ops.split_free = gate_split_free;
	gate->ops.lane_new = gate_lane_new;
	gate->ops.splits_over = gate->ops.splits_over ? gate_splits_over : NULL;
	gate->ops.is_needed = gate->ops.is_needed ? gate_is_needed : NULL;
	gate->ops.splits_join = NULL;
	gate->ops.rows_pruned = gate_rows_pruned;
	gate->ops.free = gate_free;
	fragment->source_ops = &gate->ops;
	fragment->source = gate;
	*out = gate;
	return WEIR_OK;
}
