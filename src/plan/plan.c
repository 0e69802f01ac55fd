/* The plan itself: its memory, its nodes, binding and building. Text is in text.c, rules in rules.c, bytes in
 * save.c. */
#include "plan/plan.h"

#include "plan/plan_impl.h"

#include <string.h>

static int keep(struct weir_op_env *env, void *object, void (*release)(void *object), struct weir_error *err)
{
	struct weir_plan *plan = env->plan;
	int code = weir_list_push(&plan->kept, plan->account, err, (struct kept){object, release});

	if (code)
		release(object);
	return code;
}

int weir_plan_new(struct weir_account *account, struct weir_io *io, struct weir_plan **out, struct weir_error *err)
{
	struct weir_plan *plan = weir_alloc_zero(account, sizeof(*plan), err);

	if (!plan)
		return err->code;
	plan->account = account;
	weir_arena_init(&plan->arena, account);
	plan->env = (struct weir_op_env){
		.account = account, .arena = &plan->arena, .io = io, .keep = keep, .plan = plan};
	*out = plan;
	return WEIR_OK;
}

void weir_plan_free(struct weir_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = plan->kept.count; i-- > 0;)
		plan->kept.items[i].release(plan->kept.items[i].object);
	weir_list_release(&plan->kept, plan->account);
	weir_arena_release(&plan->arena);
	weir_free(plan->account, plan, sizeof(*plan));
}

struct weir_node *weir_plan_root(const struct weir_plan *plan)
{
	return plan->root;
}

struct weir_node *weir_plan_take_root(struct weir_plan *plan)
{
	struct weir_node *root = plan->root;

	weir_plan_set_root(plan, NULL);
	return root;
}

void weir_plan_set_root(struct weir_plan *plan, struct weir_node *root)
{
	plan->root = root;
	plan->bound = plan->optimised = false;
}

struct weir_op_env *weir_plan_env(struct weir_plan *plan)
{
	return &plan->env;
}

struct weir_node *weir_plan_node(struct weir_plan *plan, const struct weir_op *op, struct weir_node *input,
				 struct weir_error *err)
{
	struct weir_node *node;

	if (!input && op->inputs_min > 0) {
		weir_error_set(err, WEIR_E_INVALID, "'%s' cannot come first: a chain begins with read or range",
			       op->verb);
		return NULL;
	}
	if (input && op->inputs_max == 0) {
		weir_error_set(err, WEIR_E_INVALID, "'%s' can only come first (use union to read more)", op->verb);
		return NULL;
	}
	if (input && input->op->ends) {
		weir_error_set(err, WEIR_E_INVALID, "'%s' can only come last", input->op->verb);
		return NULL;
	}
	node = weir_arena_alloc_zero(&plan->arena, sizeof(*node), err);
	if (!node)
		return NULL;
	node->op = op;
	node->inputs[0] = input;
	node->rows_est = node->bytes_est = -1;
	return node;
}

int weir_plan_add(struct weir_plan *plan, const char *verb, const struct weir_words *words, struct weir_error *err)
{
	const struct weir_op *op = weir_op_find(verb);
	struct weir_node *node;
	int code;

	if (!op)
		return weir_plan_unknown_verb(verb, err);
	node = weir_plan_node(plan, op, plan->root, err);
	if (!node)
		return err->code;
	code = op->parse(&plan->env, node, words, err);
	if (code) {
		weir_error_at_operator(err, verb);
		return code;
	}
	plan->root = node;
	plan->bound = plan->optimised = false;
	return WEIR_OK;
}

static int bind_node(struct weir_plan *plan, struct weir_node *node, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < 2; i++) {
		if (node->inputs[i])
			code = bind_node(plan, node->inputs[i], err);
	}
	/* A second input that was written as text. */
	if (!code && !node->inputs[1] && weir_node_second_text(node)) {
		const char *const *words;
		uint32_t count;

		code = weir_plan_split_text(plan, weir_node_second_text(node), &words, &count, err);
		if (!code)
			code = weir_plan_chain(plan, words, count, NULL, &node->inputs[1], err);
		if (!code && node->inputs[1]->op->ends)
			code = weir_error_set(err, WEIR_E_INVALID, "'%s' cannot end a chain that is part of another",
					      node->inputs[1]->op->verb);
		if (!code)
			code = bind_node(plan, node->inputs[1], err);
	}
	if (code)
		return code;
	code = node->op->bind(&plan->env, node, err);
	weir_error_at_operator(err, node->op->verb);
	return code;
}

int weir_plan_bind(struct weir_plan *plan, struct weir_error *err)
{
	int code;

	if (!plan->root)
		return weir_error_set(err, WEIR_E_INVALID, "the plan is empty");
	code = bind_node(plan, plan->root, err);
	plan->optimised = false;
	plan->bound = !code;
	return code;
}

int weir_plan_build(struct weir_plan *plan, struct weir_fragment *out, struct weir_error *err)
{
	int code;

	WEIR_ASSERT(plan->bound);
	weir_fragment_init(out, plan->account);
	code = weir_node_build(&plan->env, plan->root, out, err);
	if (!code && !out->sink_ops)
		code = weir_error_set(err, WEIR_E_INVALID,
				      "nothing becomes of the rows: end the chain with write or count");
	if (!code)
		out->schema = weir_schema_ref(plan->root->schema);
	if (code)
		weir_fragment_release(out);
	return code;
}
