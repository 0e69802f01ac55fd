/* keep FRACTION: each row with the same probability, by itself.
 *
 * A row's number is a hash of the seed, its split and its place among the rows that came here from that split; it is kept if
 * the number is below FRACTION × 2^64. So the rows depend on the input and the seed alone, not on lanes or timing, and a split
 * that is redone keeps the same rows again. */
#include "base/hash.h"
#include "ops/ops_impl.h"

#include <stdlib.h>
#include <string.h>

struct keep_config {
	double fraction;
	uint64_t seed;
};

struct keep_step {
	struct weir_account *account;
	uint64_t bound, seed; /* numbers below it are kept */
	bool keeps_all;
};

struct keep_lane {
	struct weir_account *account;
	const struct keep_step *step;
	uint64_t salt, position;
	uint16_t rows[WEIR_VECTOR_ROWS];
};

static const char *const option_names[] = {"seed=", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct keep_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, option_names, err) : err->code;
	const char *seed = code ? NULL : weir_words_option(words, "seed");
	char *end;

	if (code)
		return code;
	node->config = config;
	config->fraction = strtod(words->words[0], &end);
	if (*end || !*words->words[0] || !(config->fraction >= 0 && config->fraction <= 1))
		return weir_error_set(err, WEIR_E_INVALID, "keep wants a fraction between 0 and 1, not '%s'",
				      words->words[0]);
	if (seed) {
		config->seed = strtoull(seed, &end, 10);
		if (*end || !*seed)
			return weir_error_set(err, WEIR_E_INVALID, "--seed wants a whole number, not '%s'", seed);
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
	return code ? code : weir_save_i64(save, (int64_t)config->seed, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct keep_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int64_t bits = 0, seed = 0;
	int code = config ? weir_load_i64(load, &bits, err) : err->code;

	if (!code)
		code = weir_load_i64(load, &seed, err);
	if (code)
		return code;
	memcpy(&config->fraction, &bits, sizeof(bits));
	config->seed = (uint64_t)seed;
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

	(void)err;
	lane->salt = weir_hash_u64(lane->step->seed ^ weir_hash_u64(split->number + 1));
	lane->position = 0;
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct keep_lane *lane = state;
	const uint16_t *from = vector->selection.rows;
	uint32_t kept = 0;

	(void)err;
	if (!lane->step->keeps_all) {
		for (uint32_t i = 0; i < vector->selection.count; i++) {
			uint64_t number = weir_hash_u64(lane->salt + lane->position++);

			lane->rows[kept] = from ? from[i] : (uint16_t)i;
			kept += number < lane->step->bound;
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
	step->seed = config->seed;
	step->keeps_all = config->fraction >= 1;
	step->bound = step->keeps_all ? UINT64_MAX : (uint64_t)(config->fraction * 0x1p64);
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_keep = {
	.verb = "keep",
	.usage = "keep FRACTION [--seed N]",
	.help = "Keeps each row with the probability FRACTION. The same seed keeps the same rows of the same input.\n"
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
