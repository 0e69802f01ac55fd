/* keep FRACTION: each row with the same probability, by itself.
 *
 * Rows draw numbers in their order within a split, and those below FRACTION stay. The numbers are those of
 * numpy.random.default_rng((split, seed)), with --run (split, run, seed): who samples each block that way keeps the
 * same rows. They depend on the input and the seed alone, not on lanes or timing, and a split that is redone keeps the
 * same rows again. */
#include "base/draws.h"
#include "ops/ops_impl.h"

#include <stdlib.h>
#include <string.h>

struct keep_config {
	double fraction;
	uint64_t seed;
	int64_t run; /* −1: every run is the same */
};

struct keep_step {
	struct weir_account *account;
	struct keep_config config;
};

struct keep_lane {
	struct weir_account *account;
	const struct keep_step *step;
	struct weir_draws draws;
	uint16_t rows[WEIR_VECTOR_ROWS];
};

static const char *const option_names[] = {"seed=", "run=", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct keep_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, option_names, err) : err->code;
	const char *run = code ? NULL : weir_words_option(words, "run");
	char *end;

	if (code)
		return code;
	node->config = config;
	config->fraction = strtod(words->words[0], &end);
	if (*end || !*words->words[0] || !(config->fraction >= 0 && config->fraction <= 1))
		return weir_error_set(err, WEIR_E_INVALID, "keep wants a fraction between 0 and 1, not '%s'",
				      words->words[0]);
	code = weir_words_seed(words, &config->seed, err);
	if (code)
		return code;
	config->run = -1;
	if (run) {
		config->run = strtoll(run, &end, 10);
		if (*end || !*run || config->run < 0)
			return weir_error_set(err, WEIR_E_INVALID, "--run wants a whole number, not '%s'", run);
	}
	return WEIR_OK;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct keep_config *config = node->config;
	const struct weir_node *input = node->inputs[0];

	(void)env;
	(void)err;
	node->schema = input->schema;
	node->rows_est = input->rows_est < 0 ? -1 : (int64_t)((double)input->rows_est * config->fraction);
	node->bytes_est = input->bytes_est < 0 ? -1 : (int64_t)((double)input->bytes_est * config->fraction);
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct keep_config *config = node->config;

	return weir_text_printf(out, err, "keep %g of the rows (seed %llu)", config->fraction,
				(unsigned long long)config->seed);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct keep_config *config = node->config;
	int64_t bits;
	int code;

	memcpy(&bits, &config->fraction, sizeof(bits));
	code = weir_save_i64(save, bits, err);
	if (!code)
		code = weir_save_i64(save, (int64_t)config->seed, err);
	return code ? code : weir_save_i64(save, config->run, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct keep_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int64_t bits = 0, seed = 0, run = 0;
	int code = config ? weir_load_i64(load, &bits, err) : err->code;

	if (!code)
		code = weir_load_i64(load, &seed, err);
	if (!code)
		code = weir_load_i64(load, &run, err);
	if (code)
		return code;
	memcpy(&config->fraction, &bits, sizeof(bits));
	config->seed = (uint64_t)seed;
	config->run = run;
	node->config = config;
	if (!(config->fraction >= 0 && config->fraction <= 1))
		return weir_error_set(err, WEIR_E_DATA, "the saved plan keeps a fraction that is none");
	return WEIR_OK;
}

/* ---- running ---- */

static void step_free(void *state)
{
	struct keep_step *step = state;

	weir_free(step->account, step, sizeof(*step));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct keep_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	lane->account = context->account;
	lane->step = state;
	*out = lane;
	return WEIR_OK;
}

static void lane_free(void *state)
{
	struct keep_lane *lane = state;

	weir_free(lane->account, lane, sizeof(*lane));
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct keep_lane *lane = state;
	const struct keep_config *config = &lane->step->config;
	uint64_t seeds[3] = {split->number};
	uint32_t count = 1;

	(void)err;
	if (config->run >= 0)
		seeds[count++] = (uint64_t)config->run;
	seeds[count++] = config->seed;
	lane->draws = weir_draws_of(seeds, count);
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct keep_lane *lane = state;
	const uint16_t *from = vector->selection.rows;
	double fraction = lane->step->config.fraction;
	uint32_t kept = 0;

	(void)err;
	if (fraction < 1) {
		for (uint32_t i = 0; i < vector->selection.count; i++) {
			lane->rows[kept] = from ? from[i] : (uint16_t)i;
			kept += weir_draws_fraction(&lane->draws) < fraction;
		}
		vector->selection.rows = lane->rows;
		vector->selection.count = kept;
	}
	*progress = vector->selection.count ? WEIR_HAVE_OUTPUT : WEIR_NEED_INPUT;
	return WEIR_OK;
}

static const struct weir_step_ops step_ops = {
	.name = "keep",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.lane_free = lane_free,
	.free = step_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct keep_config *config = node->config;
	struct keep_step *step = weir_alloc_zero(env->account, sizeof(*step), err);

	if (!step)
		return err->code;
	step->account = env->account;
	step->config = *config;
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_keep = {
	.verb = "keep",
	.usage = "keep FRACTION [--seed N] [--run N]",
	.help = "Keeps each row with the probability FRACTION, independently of the others. The same --seed keeps the same rows of\n"
		"the same input; --run N chooses other rows for each N.\n"
		"\n"
		"  weir read data/ then keep 0.01 --seed 7 then write sample/\n",
	.options = option_names,
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = weir_op_needs_same, .narrow = weir_op_narrow_same},
};
