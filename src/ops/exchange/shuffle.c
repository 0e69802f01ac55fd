/* shuffle: all rows in a random order, each order as likely as any other. The same seed gives the same order of the
 * same input, on any number of lanes. How is in ordered.c. */
#include "ops/ops_impl.h"
#include "ops/exchange/ordered.h"

#include <stdlib.h>

struct shuffle_config {
	uint64_t seed;
	int64_t limit; /* −1: none */
};

static const char *const option_names[] = {"seed=", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct shuffle_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, "shuffle [--seed N]", 0, 0, option_names, err) : err->code;

	if (code)
		return code;
	config->limit = -1;
	node->config = config;
	return weir_words_seed(words, &config->seed, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *input = node->inputs[0];

	(void)env;
	(void)err;
	((struct shuffle_config *)node->config)->limit = -1;
	node->schema = input->schema;
	node->rows_est = input->rows_est;
	node->bytes_est = input->bytes_est;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct shuffle_config *config = node->config;

	return weir_text_printf(out, err, "shuffle (seed %llu)", (unsigned long long)config->seed);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct shuffle_config *config = node->config;

	return weir_save_i64(save, (int64_t)config->seed, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct shuffle_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int64_t seed = 0;
	int code = config ? weir_load_i64(load, &seed, err) : err->code;

	if (code)
		return code;
	*config = (struct shuffle_config){.seed = (uint64_t)seed, .limit = -1};
	node->config = config;
	return WEIR_OK;
}

static int absorb_limit(struct weir_op_env *env, struct weir_node *node, int64_t rows, struct weir_error *err)
{
	struct shuffle_config *config = node->config;

	(void)env;
	(void)err;
	if (config->limit < 0 || rows < config->limit)
		config->limit = rows;
	return WEIR_OK;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct shuffle_config *config = node->config;

	return weir_ordered_cut(
		env, fragment, node->schema,
		&(struct weir_ordering){
			.is_random = true, .seed = config->seed, .name = "shuffle", .limit = config->limit},
		err);
}

const struct weir_op weir_op_shuffle = {
	.verb = "shuffle",
	.usage = "shuffle [--seed N]",
	.help = "All rows in a random order. The same seed gives the same order of the same input. What does not fit into memory\n"
		"goes to disk.\n"
		"\n"
		"  weir read data/ then shuffle --seed 7 then write shuffled/\n",
	.options = option_names,
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = weir_op_needs_same, .narrow = weir_op_narrow_same, .absorb_limit = absorb_limit},
};
