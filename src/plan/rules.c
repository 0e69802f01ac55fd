/* Rules, each a walk over the tree through the operators' own tables:
 *
 *   filters down      a conjunct moves below what it can pass (filter_below), as far as it goes: never below a limit,
 *                     since limits have no filter_below. What ends above a read is also given to the read, for pruning.
 *   limits down       a limit tells what is below it, through operators that keep rows one to one, how many rows are
 *                     wanted.
 *   columns down      each operator says what it needs of its inputs for what is wanted of it; reads shrink; then, on
 *                     the way up, everyone adapts to columns that moved (narrow).
 */
#include "plan/plan_impl.h"

#include <string.h>

enum { MERGED_DEPTH_MAX = 100 };

/* ---- filters ---- */

struct sink_filters {
	struct weir_plan *plan;
	struct weir_node *node;  /* the filter whose conjuncts are looked at */
	struct weir_expr *stays; /* what cannot move, joined by and */
	struct weir_error *err;
};

static int join(struct weir_plan *plan, struct weir_expr **all, const struct weir_expr *one, struct weir_error *err)
{
	struct weir_expr *operands[2] = {*all, NULL};
	int code = weir_expr_clone(one, plan->account, &operands[1], err);

	if (code)
		return code;
	*all = operands[0] ? weir_expr_call(plan->account, "and", operands, 2, err) : operands[1];
	return *all ? WEIR_OK : err->code;
}

/* Puts a filter for `predicate` (consumed) on each input of `below` that it can pass to; *moved false when it
 * cannot. */
static int push_below(struct weir_plan *plan, struct weir_node *below, const struct weir_expr *predicate, bool *moved,
		      struct weir_error *err)
{
	struct weir_expr *rewritten[2] = {NULL, NULL};
	uint32_t inputs = below->inputs[1] ? 2 : below->inputs[0] ? 1 : 0;
	int code = WEIR_OK;

	*moved = false;
	if (!below->op->rules.filter_below || inputs == 0)
		return WEIR_OK;
	for (uint32_t i = 0; !code && i < inputs; i++)
		code = below->op->rules.filter_below(&plan->env, below, i, predicate, &rewritten[i], err);
	if (below->op->rules.filters_apart)
		*moved = !code && (rewritten[0] || rewritten[1]);
	else
		*moved = !code && rewritten[0] && (inputs == 1 || rewritten[1]);
	for (uint32_t i = 0; i < inputs; i++) {
		struct weir_node *filter = NULL;

		if (!code && *moved && rewritten[i]) {
			code = weir_filter_new(&plan->env, below->inputs[i], rewritten[i], &filter, err);
			if (!code) {
				filter->schema = below->inputs[i]->schema;
				filter->rows_est = below->inputs[i]->rows_est < 0
							   ? -1
							   : (below->inputs[i]->rows_est + 2) / 3;
				filter->bytes_est = below->inputs[i]->bytes_est < 0
							    ? -1
							    : (below->inputs[i]->bytes_est + 2) / 3;
				below->inputs[i] = filter;
			}
		} else {
			weir_expr_free(rewritten[i]);
		}
	}
	return code;
}

static int sink_conjunct(void *context, const struct weir_expr *conjunct)
{
	struct sink_filters *sink = context;
	bool moved = false;
	/* A filter directly below is where this one would land anyway. */
	int code = weir_filter_predicate(sink->node->inputs[0])
			   ? WEIR_OK
			   : push_below(sink->plan, sink->node->inputs[0], conjunct, &moved, sink->err);

	return code || moved ? code : join(sink->plan, &sink->stays, conjunct, sink->err);
}

/* What a row is to such a filter depends on the rows that come to it: nothing moves into it, out of it or past it. */
static bool is_volatile_filter(const struct weir_node *node)
{
	return weir_filter_predicate(node) && weir_expr_is_volatile(weir_filter_predicate(node));
}

/* Two filters in a row become one, so that conjuncts are ordered together. */
static int merge_filters(struct weir_plan *plan, struct weir_node **link, struct weir_error *err)
{
	struct weir_node *node = *link, *below = node->inputs[0];
	struct weir_expr *all = NULL;
	int code;

	if (!weir_filter_predicate(node) || !weir_filter_predicate(below) || is_volatile_filter(node) ||
	    is_volatile_filter(below))
		return WEIR_OK;
	/* A conjunct more is a level more, and expressions have only so many: the rest is a filter of its own. */
	if (weir_expr_depth(weir_filter_predicate(node)) + weir_expr_depth(weir_filter_predicate(below)) >
	    MERGED_DEPTH_MAX)
		return WEIR_OK;
	code = join(plan, &all, weir_filter_predicate(below), err);
	if (!code)
		code = join(plan, &all, weir_filter_predicate(node), err);
	if (code) {
		weir_expr_free(all);
		return code;
	}
	code = weir_filter_new(&plan->env, below->inputs[0], all, link, err);
	if (code)
		return code;
	(*link)->schema = node->schema;
	(*link)->rows_est = below->rows_est;
	(*link)->bytes_est = below->bytes_est;
	return merge_filters(plan, link, err);
}

static int filters_down(struct weir_plan *plan, struct weir_node **link, struct weir_error *err)
{
	struct weir_node *node;
	int code = merge_filters(plan, link, err);

	node = *link;
	if (!code && weir_filter_predicate(node) && !is_volatile_filter(node)) {
		struct sink_filters sink = {.plan = plan, .node = node, .err = err};

		code = weir_expr_conjuncts(weir_filter_predicate(node), sink_conjunct, &sink);
		if (code) {
			weir_expr_free(sink.stays);
			return code;
		}
		if (!sink.stays) { /* everything moved */
			*link = node->inputs[0];
			return filters_down(plan, link, err);
		}
		code = weir_filter_new(&plan->env, node->inputs[0], sink.stays, link, err);
		if (code)
			return code;
		(*link)->schema = node->schema;
		(*link)->rows_est = node->rows_est;
		(*link)->bytes_est = node->bytes_est;
		node = *link;
	}
	for (uint32_t i = 0; !code && i < 2; i++) {
		if (node->inputs[i])
			code = filters_down(plan, &node->inputs[i], err);
	}
	/* Pruning comes last, when the filter has all its conjuncts. */
	if (!code && weir_filter_predicate(node) && !is_volatile_filter(node) &&
	    node->inputs[0]->op->rules.absorb_filter)
		code = node->inputs[0]->op->rules.absorb_filter(&plan->env, node->inputs[0],
								weir_filter_predicate(node), err);
	return code;
}

/* ---- limits ---- */

static int limits_down(struct weir_plan *plan, struct weir_node *node, int64_t rows, struct weir_error *err)
{
	int64_t own = weir_limit_rows(node);
	int code = WEIR_OK;

	if (own >= 0 && (rows < 0 || own < rows))
		rows = own;
	if (rows >= 0 && node->op->rules.absorb_limit)
		code = node->op->rules.absorb_limit(&plan->env, node, rows, err);
	if (own < 0 && !node->op->rules.one_to_one && node->op->inputs_max > 0 && node != plan->root)
		rows = -1; /* a filter wants more rows than it gives, a sort wants all */
	for (uint32_t i = 0; !code && i < 2; i++) {
		if (node->inputs[i])
			code = limits_down(plan, node->inputs[i], node->inputs[1] ? -1 : rows, err);
	}
	return code;
}

/* ---- columns ---- */

static int columns_new(struct weir_plan *plan, const struct weir_schema *schema, struct weir_columns *out,
		       struct weir_error *err)
{
	out->count = schema->field_count;
	out->wanted = weir_arena_alloc_zero(&plan->arena, schema->field_count + 1, err);
	return out->wanted ? WEIR_OK : err->code;
}

static int columns_down(struct weir_plan *plan, struct weir_node *node, struct weir_columns *kept,
			struct weir_error *err)
{
	struct weir_narrowing narrowing = {0};
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < 2 && node->inputs[i]; i++) {
		struct weir_node *input = node->inputs[i];
		uint32_t *moved = weir_arena_alloc_zero(&plan->arena, (input->schema->field_count + 1) * sizeof(*moved),
							err);
		uint32_t n = 0;

		code = moved ? columns_new(plan, input->schema, &narrowing.kept[i], err) : err->code;
		if (code)
			break;
		if (node->op->rules.needs)
			code = node->op->rules.needs(&plan->env, node, i, kept, &narrowing.kept[i], err);
		else
			memset(narrowing.kept[i].wanted, true, narrowing.kept[i].count);
		if (!code)
			code = columns_down(plan, input, &narrowing.kept[i], err);
		for (uint32_t c = 0; c < narrowing.kept[i].count; c++)
			moved[c] = narrowing.kept[i].wanted[c] ? n++ : UINT32_MAX;
		narrowing.moved[i] = moved;
	}
	if (code)
		return code;
	if (node->op->rules.narrow)
		return node->op->rules.narrow(&plan->env, node, &narrowing, kept, err);
	/* It does not narrow: it has everything it had. */
	memset(kept->wanted, true, kept->count);
	if (node->inputs[0] && node->op->rules.needs)
		node->schema = node->inputs[0]->schema;
	return WEIR_OK;
}

int weir_plan_optimise(struct weir_plan *plan, struct weir_error *err)
{
	struct weir_columns all = {0};
	int code;

	WEIR_ASSERT(plan->bound);
	if (plan->optimised)
		return WEIR_OK;
	code = filters_down(plan, &plan->root, err);
	if (!code)
		code = limits_down(plan, plan->root, -1, err);
	if (!code)
		code = columns_new(plan, plan->root->schema, &all, err);
	if (!code) {
		memset(all.wanted, true, all.count);
		code = columns_down(plan, plan->root, &all, err);
	}
	plan->optimised = !code;
	return code;
}
