/* Rows leave for the program. The lane whose turn it is delivers as it goes; the others gather at most batch_bytes and wait. */
#include "ops/collect.h"

#include "ops/ops_impl.h"

enum { BATCH_ROWS = 65536, BATCH_BYTES = 8 << 20 };

struct collect_sink {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_consumer consumer;
	uint64_t row_bytes; /* 0: rows have different numbers of them */
};

struct collect_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct collect_sink *sink;
	struct weir_gather *gather;
	int64_t rows_left; /* of the split, as far as is known; −1: not */
	bool in_turn;
};

void weir_collect_set(struct weir_node *node, const struct weir_consumer *consumer)
{
	WEIR_ASSERT(node->op == &weir_op_collect);
	*(struct weir_consumer *)node->config = *consumer;
}

bool weir_result_set(struct weir_node *node, const struct weir_consumer *consumer)
{
	if (node->op == &weir_op_sample)
		weir_sample_set(node, consumer);
	else if (node->op == &weir_op_profile)
		weir_profile_set(node, consumer);
	else if (node->op == &weir_op_aggregate)
		weir_aggregate_set(node, consumer);
	else
		return false;
	return true;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	node->config = weir_arena_alloc_zero(env->arena, sizeof(struct weir_consumer), err);
	return node->config ? weir_words_expect(words, "collect", 0, 0, NULL, err) : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	(void)env;
	(void)err;
	node->schema = node->inputs[0]->schema;
	node->rows_est = node->inputs[0]->rows_est;
	node->bytes_est = node->inputs[0]->bytes_est;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	(void)node;
	return weir_text_puts(out, "collect: to the program, in order", err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	(void)node;
	(void)save;
	(void)err;
	return WEIR_OK;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	(void)load;
	return parse(env, node, &(struct weir_words){0}, err);
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct collect_sink *sink = state;
	struct collect_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "collect");
	lane->context = context;
	lane->sink = sink;
	/* Batches leave the lane with the program, so the session pays for them. */
	code = weir_gather_new(sink->account, sink->schema, &lane->gather, err);
	if (code) {
		weir_account_release(&lane->account);
		weir_free(context->account, lane, sizeof(*lane));
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static void lane_free(void *state)
{
	struct collect_lane *lane = state;
	struct weir_account *account = lane->context->account;

	weir_gather_free(lane->gather);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static void drop_rows(struct collect_lane *lane)
{
	struct weir_batch *batch = NULL;
	struct weir_error ignored = {0};

	if (weir_gather_rows(lane->gather) > 0 && !weir_gather_finish(lane->gather, &batch, &ignored))
		weir_batch_unref(batch);
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct collect_lane *lane = state;

	(void)err;
	drop_rows(lane);
	lane->in_turn = false;
	lane->rows_left = split->rows_est;
	return WEIR_OK;
}

/* The first rows of a batch have come: how many it is going to have, so that its memory does not have to grow. */
static void expect(struct collect_lane *lane, uint32_t first)
{
	const struct collect_sink *sink = lane->sink;
	int64_t rows = sink->row_bytes ? (int64_t)(sink->consumer.batch_bytes / sink->row_bytes) + first : 0;

	weir_gather_expect(lane->gather, rows < lane->rows_left ? rows : lane->rows_left);
}

static int deliver(struct collect_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code = WEIR_OK;

	if (!lane->in_turn)
		code = lane->context->wait_turn(lane->context, err);
	lane->in_turn = !code;
	if (!code && weir_gather_rows(lane->gather) > 0) {
		code = weir_gather_finish(lane->gather, &batch, err);
		if (!code)
			code = lane->sink->consumer.deliver(lane->sink->consumer.state, batch, err);
	}
	return code;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct collect_lane *lane = state;
	int64_t rows_max = lane->sink->consumer.batch_rows ? lane->sink->consumer.batch_rows : BATCH_ROWS;
	int code = WEIR_OK;

	if (weir_gather_rows(lane->gather) > 0 && weir_gather_rows(lane->gather) + vector->selection.count > rows_max &&
	    (lane->in_turn || lane->context->is_turn(lane->context)))
		code = deliver(lane, err);
	if (!code && weir_gather_rows(lane->gather) == 0)
		expect(lane, vector->selection.count);
	if (!code)
		code = weir_gather_push(lane->gather, vector, err);
	if (lane->rows_left >= 0)
		lane->rows_left -= lane->rows_left < vector->selection.count ? lane->rows_left
									     : vector->selection.count;
	if (!code && weir_gather_bytes(lane->gather) >= lane->sink->consumer.batch_bytes)
		code = deliver(lane, err);
	return code;
}

static int split_end(void *state, struct weir_error *err)
{
	struct collect_lane *lane = state;

	return weir_gather_rows(lane->gather) > 0 ? deliver(lane, err) : WEIR_OK;
}

static void split_abort(void *state)
{
	drop_rows(state);
}

static int commit(void *state, struct weir_error *err)
{
	(void)state;
	(void)err;
	return WEIR_OK;
}

static void sink_free(void *state)
{
	struct collect_sink *sink = state;

	weir_schema_unref(sink->schema);
	weir_free(sink->account, sink, sizeof(*sink));
}

static const struct weir_sink_ops sink_ops = {
	.name = "collect",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = sink_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct weir_consumer *consumer = node->config;
	struct collect_sink *sink;

	if (!consumer->deliver)
		return weir_op_no_consumer(node, err);
	sink = weir_alloc_zero(env->account, sizeof(*sink), err);
	if (!sink)
		return err->code;
	sink->account = env->account;
	sink->schema = weir_schema_ref(node->schema);
	sink->consumer = *consumer;
	for (uint32_t i = 0; i < node->schema->field_count; i++) {
		uint64_t bytes = weir_type_row_bytes(node->schema->fields[i].type);

		if (!bytes) {
			sink->row_bytes = 0;
			break;
		}
		sink->row_bytes += bytes;
	}
	fragment->ordered = true;
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_collect = {
	.verb = "collect",
	.usage = "collect",
	.help = "Hands the rows to the program that built the plan.\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = weir_op_needs_same},
};
