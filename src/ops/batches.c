/* Rows come from the program: each batch of an Arrow stream is a split, or, where an exchange follows, several that
 * come one after another. Batches are taken one after another; a batch larger than a split would be is handed out in
 * vectors all the same, nothing is copied. A split that is given up is opened again: its batches are kept until the
 * split is freed. */
#include "ops/collect.h"
#include "ops/ops_impl.h"

enum { JOINED_SHARE = 32, JOINED_BYTES_MIN = 1 << 20, JOINED_BYTES_MAX = 16 << 20 };

struct batches_config {
	struct weir_schema *schema;
	struct weir_batch_source source; /* next NULL: taken by a run already */
};

struct batches_source {
	struct weir_account *account;
	struct weir_batch_source source;
	int64_t memory_limit;
	int64_t joined_bytes; /* of a split of several batches, at least; 0: each is one */
	uint64_t count, rows; /* so far */
	bool ended;
};

struct batches_split {
	struct weir_account *account;
	struct WEIR_LIST(struct weir_batch *) batches;
};

struct batches_lane {
	struct weir_account account;
	struct weir_arena arena;
	struct batches_split *split;
	size_t batch; /* of the split */
	int64_t row;  /* of the batch */
	int64_t row_first;
};

static void config_release(void *object)
{
	struct batches_config *config = object;

	if (config->source.release)
		config->source.release(config->source.state);
	weir_schema_unref(config->schema);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct batches_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, "batches", 0, 0, NULL, err) : err->code;

	node->config = config;
	return code ? code : env->keep(env, config, config_release, err);
}

int weir_batches_set(struct weir_op_env *env, struct weir_node *node, const struct weir_schema *schema,
		     struct weir_batch_source source, struct weir_error *err)
{
	struct batches_config *config = node->config;

	(void)env;
	(void)err;
	WEIR_ASSERT(node->op == &weir_op_batches && !config->schema);
	config->schema = weir_schema_ref(schema);
	config->source = source;
	return WEIR_OK;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct batches_config *config = node->config;

	(void)env;
	if (!config->schema)
		return weir_error_set(err, WEIR_E_INVALID, "the plan reads batches, and the program gave none");
	node->schema = config->schema;
	node->rows_est = node->bytes_est = -1;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	(void)node;
	return weir_text_puts(out, "batches: from the program", err);
}

static void split_free(void *state, void *object)
{
	struct batches_split *split = object;

	(void)state;
	if (!split)
		return;
	for (size_t i = 0; i < split->batches.count; i++)
		weir_batch_unref(split->batches.items[i]);
	weir_list_release(&split->batches, split->account);
	weir_free(split->account, split, sizeof(*split));
}

/* The next batch that has rows; NULL: there is none. */
static int next_batch(struct batches_source *source, struct weir_batch **out, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code = WEIR_OK;

	do {
		weir_batch_unref(batch);
		batch = NULL;
		code = source->ended ? WEIR_OK : source->source.next(source->source.state, &batch, err);
		source->ended = source->ended || code || !batch;
	} while (batch && batch->row_count == 0);
	*out = batch;
	return code;
}

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct batches_source *source = state;
	struct batches_split *split;
	struct weir_batch *batch;
	int64_t bytes = 0;
	int code = next_batch(source, &batch, err);

	*done = !batch;
	if (!batch)
		return code;
	split = weir_alloc_zero(source->account, sizeof(*split), err);
	if (!split) {
		weir_batch_unref(batch);
		return err->code;
	}
	split->account = source->account;
	*out = (struct weir_split_info){.number = source->count++, .is_counted = true, .row_first = source->rows};
	while (!code && batch) {
		source->rows += (uint64_t)batch->row_count;
		out->rows_est += batch->row_count;
		bytes += source->joined_bytes ? weir_batch_bytes(batch) : 0;
		code = weir_list_push(&split->batches, source->account, err, batch);
		if (code)
			weir_batch_unref(batch);
		batch = NULL;
		if (!code && bytes < source->joined_bytes)
			code = next_batch(source, &batch, err);
	}
	if (code)
		split_free(state, split);
	else
		*split_out = split;
	return code;
}

/* What a lane holds of a stream is memory that the program has no use for meanwhile. */
static void splits_join(void *state)
{
	struct batches_source *source = state;
	int64_t bytes = source->memory_limit / JOINED_SHARE;

	source->joined_bytes = bytes < JOINED_BYTES_MIN   ? JOINED_BYTES_MIN
			       : bytes > JOINED_BYTES_MAX ? JOINED_BYTES_MAX
							  : bytes;
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct batches_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "batches", err);

	(void)state;
	if (!lane)
		return err->code;
	weir_arena_init(&lane->arena, &lane->account);
	*out = lane;
	return WEIR_OK;
}

static void lane_free(void *state)
{
	struct batches_lane *lane = state;

	weir_arena_release(&lane->arena);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int split_open(void *state, void *split, struct weir_error *err)
{
	struct batches_lane *lane = state;

	(void)err;
	lane->split = split;
	lane->batch = 0;
	lane->row = lane->row_first = 0;
	return WEIR_OK;
}

static int next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct batches_lane *lane = state;
	const struct weir_batch *batch = lane->split->batches.items[lane->batch];
	int64_t count;
	int code;

	if (lane->row == batch->row_count && lane->batch + 1 < lane->split->batches.count) {
		lane->row_first += lane->row;
		lane->row = 0;
		batch = lane->split->batches.items[++lane->batch];
	}
	count = batch->row_count - lane->row;
	if (count > WEIR_VECTOR_ROWS)
		count = WEIR_VECTOR_ROWS;
	*out = (struct weir_vector){0};
	if (count == 0)
		return WEIR_OK;
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(batch, lane->row, (uint32_t)count, &lane->arena, out, err);
	out->source_row = lane->row_first + lane->row;
	lane->row += count;
	return code;
}

static void split_abort(void *state)
{
	struct batches_lane *lane = state;

	lane->split = NULL;
}

static void source_free(void *state)
{
	struct batches_source *source = state;

	if (source->source.release)
		source->source.release(source->source.state);
	weir_free(source->account, source, sizeof(*source));
}

/* For whoever makes the stream. */
static bool waits(const void *state)
{
	(void)state;
	return true;
}

static const struct weir_source_ops source_ops = {
	.name = "batches",
	.split_next = split_next,
	.waits = waits,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.splits_join = splits_join,
	.free = source_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct batches_config *config = node->config;
	struct batches_source *source;

	if (!config->source.next)
		return weir_error_set(err, WEIR_E_INVALID, "batches of the program can be read once, and they were");
	source = weir_alloc_zero(env->account, sizeof(*source), err);
	if (!source)
		return err->code;
	source->account = env->account;
	source->source = config->source;
	source->memory_limit = env->keeping.memory_limit;
	config->source = (struct weir_batch_source){0};
	return weir_fragment_source(fragment, &source_ops, source);
}

const struct weir_op weir_op_batches = {
	.verb = "batches",
	.usage = "batches",
	.help = "Takes rows from the program that built the plan.\n",
	.once = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_never,
	.load = weir_op_load_never,
	.build = build,
};
