/* Rows leave for the program. The lane whose turn it is delivers as it goes. The others hold what they have made, while
 * all that is held is no more than held_bytes, and wait then: splits that fit into it are made at the same time,
 * however many batches they are. */
#include "ops/collect.h"

#include "base/list.h"
#include "ops/ops_impl.h"

enum { BATCH_ROWS = 65536, BATCH_BYTES = 8 << 20 };

struct collect_sink {
	struct weir_account *account;
	/* what batches are charged to: they leave the lane, and then the session, with the program */
	struct weir_account *handed;
	struct weir_schema *schema;
	struct weir_consumer consumer;
	uint64_t row_bytes;   /* 0: rows have different numbers of them */
	_Atomic int64_t held; /* relaxed: a figure to stay below */
};

struct collect_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct collect_sink *sink;
	struct weir_gather *gather;
	struct WEIR_LIST(struct weir_batch *) held; /* out of turn; in the session's memory, as they are */
	int64_t held_bytes;
	int64_t claimed;        /* what is gathered, which the lane pays for until it is held or delivered */
	int64_t rows_left;      /* of the split, as far as is known; −1: not */
	uint64_t row_bytes_met; /* of the last batch; 0: there was none */
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
	struct collect_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "collect", err);
	int code;

	if (!lane)
		return err->code;
	lane->context = context;
	lane->sink = sink;
	code = weir_gather_new(sink->handed, sink->schema, &lane->gather, err);
	if (code) {
		weir_op_lane_free(lane, sizeof(*lane));
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

/* Held batches are no more; the first `count` are others' already. */
static void drop_held(struct collect_lane *lane, size_t count)
{
	for (size_t i = count; i < lane->held.count; i++)
		weir_batch_unref(lane->held.items[i]);
	lane->held.count = 0;
	atomic_fetch_sub_explicit(&lane->sink->held, lane->held_bytes, memory_order_relaxed);
	lane->held_bytes = 0;
}

static void unclaim(struct collect_lane *lane)
{
	weir_account_unclaim(&lane->account, lane->claimed);
	lane->claimed = 0;
}

static void lane_free(void *state)
{
	struct collect_lane *lane = state;

	drop_held(lane, 0);
	unclaim(lane);
	weir_list_release(&lane->held, lane->sink->account);
	weir_gather_free(lane->gather);
	weir_op_lane_free(lane, sizeof(*lane));
}

static void drop_rows(struct collect_lane *lane)
{
	struct weir_batch *batch = NULL;
	struct weir_error ignored = {0};

	drop_held(lane, 0);
	if (weir_gather_rows(lane->gather) > 0 && !weir_gather_finish(lane->gather, &batch, &ignored))
		weir_batch_unref(batch);
	unclaim(lane);
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

/* The first rows of a batch have come: how many it is going to have, so that its memory does not have to grow. Rows of
 * which the types do not tell that are taken to be as wide as those before. */
static void expect(struct collect_lane *lane, uint32_t first)
{
	const struct collect_sink *sink = lane->sink;
	uint64_t row_bytes = sink->row_bytes ? sink->row_bytes : lane->row_bytes_met;
	int64_t rows = row_bytes ? (int64_t)(sink->consumer.batch_bytes / row_bytes) + first : 0;

	weir_gather_expect(lane->gather, rows < lane->rows_left ? rows : lane->rows_left,
			   (int64_t)sink->consumer.batch_bytes);
}

static int finish(struct collect_lane *lane, struct weir_batch **out, struct weir_error *err)
{
	lane->row_bytes_met = weir_gather_bytes(lane->gather) / (uint64_t)weir_gather_rows(lane->gather) + 1;
	return weir_gather_finish(lane->gather, out, err);
}

static int deliver_held(struct collect_lane *lane, struct weir_error *err)
{
	size_t done = 0;
	int code = WEIR_OK;

	while (done < lane->held.count && !code) /* it takes the batch over, on failure too */
		code = lane->sink->consumer.deliver(lane->sink->consumer.state, lane->held.items[done++], err);
	drop_held(lane, done);
	return code;
}

static int deliver(struct collect_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code = WEIR_OK;

	if (!lane->in_turn)
		code = lane->context->wait_turn(lane->context, err);
	lane->in_turn = !code;
	code = code ? code : deliver_held(lane, err);
	if (!code && weir_gather_rows(lane->gather) > 0) {
		code = finish(lane, &batch, err);
		if (!code)
			code = lane->sink->consumer.deliver(lane->sink->consumer.state, batch, err);
		unclaim(lane);
	}
	return code;
}

/* What is gathered waits here for the turn, if there is room; *out false: there is none, or it is our turn. */
static int hold(struct collect_lane *lane, bool *out, struct weir_error *err)
{
	struct collect_sink *sink = lane->sink;
	int64_t bytes = (int64_t)weir_gather_bytes(lane->gather);
	struct weir_batch *batch = NULL;
	int code;

	*out = false;
	if (lane->in_turn || lane->context->is_turn(lane->context))
		return WEIR_OK;
	if (atomic_fetch_add_explicit(&sink->held, bytes, memory_order_relaxed) + bytes > sink->consumer.held_bytes) {
		atomic_fetch_sub_explicit(&sink->held, bytes, memory_order_relaxed);
		return WEIR_OK;
	}
	lane->held_bytes += bytes;
	code = weir_list_reserve(&lane->held, sink->account, err, lane->held.count + 1);
	if (!code)
		code = finish(lane, &batch, err);
	if (!code) {
		lane->held.items[lane->held.count++] = batch;
		unclaim(lane);
	}
	*out = !code;
	return code;
}

/* The lane pays for what is gathered: batches are made in the session's memory, since the program may keep them. */
static int claim(struct collect_lane *lane, struct weir_error *err)
{
	int64_t more = (int64_t)weir_gather_bytes(lane->gather) - lane->claimed;
	int code = more > 0 ? weir_account_claim(&lane->account, more, err) : WEIR_OK;

	if (!code && more > 0)
		lane->claimed += more;
	return code;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct collect_lane *lane = state;
	int64_t rows_max = lane->sink->consumer.batch_rows ? lane->sink->consumer.batch_rows : BATCH_ROWS;
	bool is_held = false;
	int code = WEIR_OK;

	if (weir_gather_rows(lane->gather) > 0 && weir_gather_rows(lane->gather) + vector->selection.count > rows_max &&
	    (lane->in_turn || lane->context->is_turn(lane->context)))
		code = deliver(lane, err);
	if (!code && weir_gather_rows(lane->gather) == 0)
		expect(lane, vector->selection.count);
	if (!code)
		code = weir_gather_push(lane->gather, vector, err);
	if (!code)
		code = claim(lane, err);
	if (lane->rows_left >= 0)
		lane->rows_left -= lane->rows_left < vector->selection.count ? lane->rows_left
									     : vector->selection.count;
	if (!code && weir_gather_bytes(lane->gather) >= lane->sink->consumer.batch_bytes) {
		code = hold(lane, &is_held, err);
		if (!code && !is_held)
			code = deliver(lane, err);
	}
	return code;
}

static int split_end(void *state, struct weir_error *err)
{
	struct collect_lane *lane = state;

	return lane->held.count || weir_gather_rows(lane->gather) > 0 ? deliver(lane, err) : WEIR_OK;
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
	sink->handed = weir_mem_handed(env->account->mem);
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
	fragment->outside_bytes += sink->consumer.held_bytes;
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
