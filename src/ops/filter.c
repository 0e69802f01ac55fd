/* filter EXPRESSION: keeps the rows for which the expression is true. A filter narrows the selection; nothing is
 * copied. */
#include "ops/ops_impl.h"

struct filter_config {
	struct weir_expr *predicate; /* kept by the plan */
};

struct filter_step {
	struct weir_account *account;
	struct weir_program *program;
};

struct filter_lane {
	struct weir_account account;
	struct weir_evaluator *evaluator;
};

const struct weir_expr *weir_filter_predicate(const struct weir_node *node)
{
	return node->op == &weir_op_filter ? ((const struct filter_config *)node->config)->predicate : NULL;
}

static int set_predicate(struct weir_op_env *env, struct weir_node *node, const char *text, struct weir_error *err)
{
	struct filter_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return err->code;
	node->config = config;
	return weir_op_parse_expr(env, text, &config->predicate, err);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	int code = weir_words_expect(words, "filter EXPRESSION", 1, 1, NULL, err);

	return code ? code : set_predicate(env, node, words->words[0], err);
}

int weir_filter_new(struct weir_op_env *env, struct weir_node *input, struct weir_expr *predicate,
		    struct weir_node **out, struct weir_error *err)
{
	struct filter_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	struct weir_node *node = config ? weir_arena_alloc_zero(env->arena, sizeof(*node), err) : NULL;
	int code = weir_op_keep_expr(env, predicate, err);

	if (code || !node)
		return err->code;
	config->predicate = predicate;
	node->op = &weir_op_filter;
	node->config = config;
	node->inputs[0] = input;
	*out = node;
	return WEIR_OK;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct filter_config *config = node->config;
	const struct weir_node *input = node->inputs[0];
	struct weir_program *program = NULL;
	int code = weir_program_new(env->account, config->predicate, input->schema, &program, err);

	if (code)
		return code;
	if (weir_type_values(weir_program_type(program))->id != WEIR_BOOL &&
	    weir_type_values(weir_program_type(program))->id != WEIR_NULL) {
		char type[96];

		code = weir_error_set(err, WEIR_E_TYPE, "a filter must be true or false, this one is %s",
				      weir_type_name(weir_program_type(program), type, sizeof(type)));
		weir_error_at_operator(err, "filter");
	}
	weir_program_free(program);
	node->schema = input->schema;
	/* Nothing is known of the values; a third is what planners say. */
	node->rows_est = input->rows_est < 0 ? -1 : (input->rows_est + 2) / 3;
	node->bytes_est = input->bytes_est < 0 ? -1 : (input->bytes_est + 2) / 3;
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct filter_config *config = node->config;
	int code = weir_text_puts(out, "filter ", err);

	return code ? code : weir_expr_print(config->predicate, out, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct filter_config *config = node->config;

	return weir_op_save_expr(save, config->predicate, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	const char *text;
	int code = weir_load_string(load, &text, err);

	if (!code && !text)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has a filter without an expression");
	return code ? code : set_predicate(env, node, text, err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct filter_config *config = node->config;

	(void)env;
	(void)input;
	for (uint32_t i = 0; i < wanted->count; i++)
		needed->wanted[i] |= wanted->wanted[i];
	return weir_op_mark_columns(config->predicate, node->inputs[0]->schema, needed, err);
}

static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	const struct filter_config *config = node->config;

	(void)input;
	*out = NULL;
	return weir_expr_is_volatile(config->predicate) ? WEIR_OK : weir_expr_clone(predicate, env->account, out, err);
}

/* ---- running ---- */

static void step_free(void *state)
{
	struct filter_step *step = state;

	weir_program_free(step->program);
	weir_free(step->account, step, sizeof(*step));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct filter_step *step = state;
	struct filter_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "filter", err);
	int code;

	if (!lane)
		return err->code;
	code = weir_evaluator_new(&lane->account, step->program, &lane->evaluator, err);
	if (code) {
		weir_op_lane_free(lane, sizeof(*lane));
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct filter_lane *lane = state;

	(void)err;
	weir_evaluator_split(lane->evaluator, split->number, split->place);
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct filter_lane *lane = state;
	int code = weir_evaluator_filter(lane->evaluator, vector, err);

	*progress = vector->selection.count ? WEIR_HAVE_OUTPUT : WEIR_NEED_INPUT;
	return code;
}

static void lane_free(void *state)
{
	struct filter_lane *lane = state;

	weir_evaluator_free(lane->evaluator);
	weir_op_lane_free(lane, sizeof(*lane));
}

static const struct weir_step_ops step_ops = {
	.name = "filter",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.lane_free = lane_free,
	.free = step_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct filter_config *config = node->config;
	struct filter_step *step = weir_alloc_zero(env->account, sizeof(*step), err);
	int code;

	if (!step)
		return err->code;
	step->account = env->account;
	code = weir_program_new(env->account, config->predicate, node->inputs[0]->schema, &step->program, err);
	if (code) {
		step_free(step);
		return code;
	}
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_filter = {
	.verb = "filter",
	.usage = "filter EXPRESSION",
	.help = "Keeps the rows for which EXPRESSION is true; rows where it is false or null are dropped.\n"
		"\n"
		"  weir read data/ then filter 'price > 100 and flag in (\"A\", \"R\")'\n"
		"  weir read data/ then filter 'name.startswith(\"Z\") or name is None'\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_same, .filter_below = filter_below},
};
