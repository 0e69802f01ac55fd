/* count: how many rows arrive. The number is the run's rows_out; nothing else comes of it. It wants no columns, so a
 * read in front of it without a filter is answered from footers.
 *
 * check: the same with every value decoded. What is wrong with a file shows itself. */
#include "ops/ops_impl.h"

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	(void)env;
	return weir_words_expect(words, node->op->usage, 0, 0, NULL, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	(void)env;
	(void)err;
	node->schema = node->inputs[0]->schema;
	node->rows_est = 1;
	node->bytes_est = 8;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	return weir_text_puts(out, node->op->verb, err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)input;
	(void)wanted;
	(void)needed;
	(void)err;
	return WEIR_OK;
}

/* ---- running: the backend counts the rows that reach a sink ---- */

static int lane_new(void *sink, struct weir_lane_context *context, void **lane, struct weir_error *err)
{
	(void)context;
	(void)err;
	*lane = sink;
	return WEIR_OK;
}

static int split_begin(void *lane, const struct weir_split_info *split, struct weir_error *err)
{
	(void)lane;
	(void)split;
	(void)err;
	return WEIR_OK;
}

static int push(void *lane, struct weir_vector *vector, struct weir_error *err)
{
	(void)lane;
	(void)vector;
	(void)err;
	return WEIR_OK;
}

static int push_decoded(void *lane, struct weir_vector *vector, struct weir_error *err)
{
	(void)lane;
	return weir_vector_decode_all(vector, err);
}

static int nothing(void *state, struct weir_error *err)
{
	(void)state;
	(void)err;
	return WEIR_OK;
}

static void nothing_left(void *state)
{
	(void)state;
}

static const struct weir_sink_ops sink_ops = {
	.name = "count",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = nothing,
	.split_abort = nothing_left,
	.lane_free = nothing_left,
	.commit = nothing,
	.free = nothing_left,
};

static const struct weir_sink_ops check_ops = {
	.name = "check",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push_decoded,
	.split_end = nothing,
	.split_abort = nothing_left,
	.lane_free = nothing_left,
	.commit = nothing,
	.free = nothing_left,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	(void)env;
	(void)err;
	fragment->held = true;
	return weir_fragment_sink(fragment, &sink_ops, node);
}

/* Not held: a value that does not fit what its column seemed to be is what it looks for. */
static int build_check(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		       struct weir_error *err)
{
	(void)env;
	(void)err;
	return weir_fragment_sink(fragment, &check_ops, node);
}

const struct weir_op weir_op_count = {
	.verb = "count",
	.usage = "count",
	.help = "Counts rows. Without a filter the footers of files are enough where these have the number.\n"
		"\n"
		"  weir read data/ then filter 'price > 100' then count\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.stateless = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_nothing,
	.load = weir_op_load_nothing,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_same},
};

const struct weir_op weir_op_check = {
	.verb = "check",
	.usage = "check",
	.help = "Reads and decodes everything, and keeps nothing.\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.stateless = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_nothing,
	.load = weir_op_load_nothing,
	.build = build_check,
	.rules = {.needs = weir_op_needs_same},
};
