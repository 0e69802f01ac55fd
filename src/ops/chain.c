/* A vector goes down the steps until one keeps it back or it comes out at the end. When the source is at its end, each
 * step in turn is drained and what it held back goes down the steps behind it:
 *
 *     source ──▶ step 0 ──▶ step 1 ──▶ … ──▶ out          draining == 0: from the source
 *                  └ drain ────▶                          draining == k: from step k − 1's drain
 *
 * A step that reported HAVE_MORE in between is drained before anything in front of it is asked again (`more`; with
 * several such steps the last one first, so each holds at most what it was pushed once).
 *
 * A step that reports SPLIT_DONE ends the split: whatever stands in front of it is not asked again.
 */
#include "base/clock.h"
#include "ops/fragment.h"

struct chain_step {
	const struct weir_step_ops *ops;
	void *lane;
	bool has_more;
	struct weir_op_counts counts;
};

struct weir_chain {
	struct weir_account *account;
	const struct weir_source_ops *source_ops;
	void *source;
	void *source_lane;
	struct weir_op_counts source_counts;
	struct chain_step *steps;
	uint32_t step_count;
	uint32_t draining; /* 0: the source still gives; k: step k − 1 is being drained */
	bool split_open;
	const struct weir_lane_context *context;
};

int weir_chain_new(const struct weir_fragment *fragment, struct weir_lane_context *context, struct weir_chain **out,
		   struct weir_error *err)
{
	struct weir_account *account = context->account;
	struct weir_chain *chain = weir_alloc_zero(account, sizeof(*chain), err);
	int code = WEIR_OK;

	if (!chain)
		return err->code;
	chain->account = account;
	chain->context = context;
	chain->source_ops = fragment->source_ops;
	chain->source_counts.name = fragment->source_ops->name;
	chain->steps = weir_alloc_zero(account, fragment->steps.count * sizeof(*chain->steps), err);
	if (!chain->steps) {
		code = err->code;
		goto out;
	}
	chain->step_count = (uint32_t)fragment->steps.count;
	code = fragment->source_ops->lane_new(fragment->source, context, &chain->source_lane, err);
	for (uint32_t i = 0; !code && i < chain->step_count; i++) {
		struct chain_step *step = &chain->steps[i];

		step->ops = fragment->steps.items[i].ops;
		step->counts.name = step->ops->name;
		code = step->ops->lane_new(fragment->steps.items[i].state, context, &step->lane, err);
	}
out:
	if (code) {
		weir_chain_free(chain);
		return code;
	}
	*out = chain;
	return WEIR_OK;
}

void weir_chain_free(struct weir_chain *chain)
{
	if (!chain)
		return;
	for (uint32_t i = chain->step_count; i-- > 0;) {
		if (chain->steps[i].lane)
			chain->steps[i].ops->lane_free(chain->steps[i].lane);
	}
	if (chain->source_lane)
		chain->source_ops->lane_free(chain->source_lane);
	weir_free(chain->account, chain->steps, chain->step_count * sizeof(*chain->steps));
	weir_free(chain->account, chain, sizeof(*chain));
}

int weir_chain_open(struct weir_chain *chain, const struct weir_split_info *info, void *split, struct weir_error *err)
{
	int code;

	WEIR_ASSERT(!chain->split_open);
	chain->draining = 0;
	chain->split_open = true;
	code = chain->source_ops->split_open(chain->source_lane, split, err);
	for (uint32_t i = 0; !code && i < chain->step_count; i++) {
		chain->steps[i].has_more = false;
		if (chain->steps[i].ops->split_begin)
			code = chain->steps[i].ops->split_begin(chain->steps[i].lane, info, err);
	}
	return code;
}

static void count(struct weir_op_counts *counts, const struct weir_vector *vector, uint64_t *clock_ns)
{
	uint64_t now = weir_clock_ns();

	counts->time_ns += now - *clock_ns;
	*clock_ns = now;
	counts->rows_out += vector->selection.count;
	counts->vectors++;
}

/* Where the next vector comes from: 0 the source, k the drain of step k − 1; step_count + 1: the split is at its
 * end. */
static uint32_t origin(const struct weir_chain *chain)
{
	for (uint32_t k = chain->step_count; k > chain->draining; k--) {
		if (chain->steps[k - 1].has_more)
			return k;
	}
	return chain->draining;
}

/* Sends the vector down from step `from`; leaves out->selection.count 0 when nothing comes out. */
static int push_down(struct weir_chain *chain, uint32_t from, struct weir_vector *out, uint64_t *clock_ns,
		     struct weir_error *err)
{
	for (uint32_t i = from; i < chain->step_count && out->selection.count > 0; i++) {
		struct chain_step *step = &chain->steps[i];
		enum weir_progress progress = WEIR_HAVE_OUTPUT;
		int code = step->ops->push(step->lane, out, &progress, err);

		if (code) {
			weir_error_at_operator(err, step->ops->name);
			return code;
		}
		step->has_more = progress == WEIR_HAVE_MORE;
		if (progress == WEIR_SPLIT_DONE && chain->draining < i + 1)
			chain->draining = i + 1; /* nothing in front of it is asked again */
		if (progress == WEIR_NEED_INPUT)
			out->selection.count = 0;
		count(&step->counts, out, clock_ns);
	}
	return WEIR_OK;
}

int weir_chain_next(struct weir_chain *chain, struct weir_vector *out, struct weir_error *err)
{
	uint64_t clock_ns = weir_clock_ns();

	WEIR_ASSERT(chain->split_open);
	for (;;) {
		uint32_t from = origin(chain);
		int code;

		if (atomic_load_explicit(chain->context->cancelled, memory_order_relaxed))
			return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
		if (from > chain->step_count) {
			chain->split_open = false;
			*out = (struct weir_vector){0};
			return WEIR_OK;
		}
		if (from == 0) {
			code = chain->source_ops->next(chain->source_lane, out, err);
			if (code) {
				weir_error_at_operator(err, chain->source_ops->name);
				return code;
			}
			if (out->row_count == 0) {
				chain->draining = 1;
				continue;
			}
			count(&chain->source_counts, out, &clock_ns);
		} else {
			struct chain_step *step = &chain->steps[from - 1];
			enum weir_progress progress = WEIR_NEED_INPUT;

			if (step->ops->drain) {
				code = step->ops->drain(step->lane, out, &progress, err);
				if (code) {
					weir_error_at_operator(err, step->ops->name);
					return code;
				}
			}
			if (progress == WEIR_NEED_INPUT) {
				step->has_more = false;
				if (from == chain->draining)
					chain->draining++;
				continue;
			}
			count(&step->counts, out, &clock_ns);
		}
		code = push_down(chain, from, out, &clock_ns, err);
		if (code)
			return code;
		if (out->selection.count > 0)
			return WEIR_OK;
	}
}

int weir_chain_next_chunk(struct weir_chain *chain, struct weir_chunk **chunk, int64_t *rows, struct weir_error *err)
{
	uint64_t clock_ns = weir_clock_ns();
	int code;

	*chunk = NULL;
	if (chain->step_count || chain->draining || !chain->source_ops->next_chunk)
		return WEIR_OK;
	if (atomic_load_explicit(chain->context->cancelled, memory_order_relaxed))
		return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
	code = chain->source_ops->next_chunk(chain->source_lane, chunk, rows, err);
	if (code)
		weir_error_at_operator(err, chain->source_ops->name);
	else if (*chunk)
		chain->source_counts.rows_out += (uint64_t)*rows;
	chain->source_counts.time_ns += weir_clock_ns() - clock_ns;
	return code;
}

bool weir_chain_needs_confirm(const struct weir_chain *chain)
{
	return chain->source_ops->needs_confirm && chain->source_ops->needs_confirm(chain->source_lane);
}

int weir_chain_confirm(struct weir_chain *chain, struct weir_error *failure, struct weir_error *err)
{
	return chain->source_ops->confirm ? chain->source_ops->confirm(chain->source_lane, failure, err) : WEIR_OK;
}

void weir_chain_abort(struct weir_chain *chain)
{
	if (!chain->split_open)
		return;
	chain->source_ops->split_abort(chain->source_lane);
	chain->split_open = false;
}

uint32_t weir_chain_counts(const struct weir_chain *chain, struct weir_op_counts *out, uint32_t capacity)
{
	uint32_t n = chain->source_ops->counts ? chain->source_ops->counts(chain->source_lane, out, capacity) : 0;
	struct weir_op_counts source = chain->source_counts;

	/* Its time is also that of what it runs itself. */
	for (uint32_t i = 0; i < n; i++)
		source.time_ns -= out[i].time_ns < source.time_ns ? out[i].time_ns : source.time_ns;
	if (n < capacity)
		out[n++] = source;
	for (uint32_t i = 0; i < chain->step_count && n < capacity; i++)
		out[n++] = chain->steps[i].counts;
	return n;
}
