/* C functions of the program that give rows, in one of two ways:
 *
 *     splits      the program's own numbers 0 … n − 1. A lane opens one, asks for batches until there are none, closes
 *                 it. One that is given up is closed and opened again.
 *     one stream  (split_count 0) opened when the first split is cut. Each batch is a split, taken one after another
 *                 and kept until the split is done, so that it can be redone.
 */
#include "ops/function.h"
#include "ops/ops_impl.h"

#include <stdio.h>

struct source_config {
	struct weir_source_function *function;
	struct weir_schema *schema; /* the plan keeps it */
};

struct source {
	struct weir_account *account;
	struct weir_source_ops ops; /* with the function's own name */
	struct weir_source_function *function;
	struct weir_schema *schema;
	int64_t split_next;
	/* One stream. */
	struct weir_context call;
	void *state;
	bool is_open, ended;
	int64_t row_next;
};

struct source_split {
	int64_t number;
	struct weir_batch *batch; /* of one stream */
	int64_t row_first;
};

struct source_lane {
	struct weir_account account;
	struct source *source;
	struct weir_arena arena;
	struct weir_context call;
	void *state;
	bool is_open;
	int64_t split;
	struct weir_batch *batch;
	int64_t row;       /* in the batch */
	int64_t row_first; /* of the batch in its split, or in the stream */
	char name[256];    /* of where the rows are from, for messages */
};

/* ---- the plan's half ---- */

static void function_release(void *object)
{
	weir_source_function_unref(object);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	node->config = weir_arena_alloc_zero(env->arena, sizeof(struct source_config), err);
	return node->config ? weir_words_expect(words, "source", 0, 0, NULL, err) : err->code;
}

int weir_source_set(struct weir_op_env *env, struct weir_node *node, struct weir_source_function *function,
		    struct weir_error *err)
{
	struct source_config *config = node->config;

	WEIR_ASSERT(node->op == &weir_op_source && !config->function);
	atomic_fetch_add_explicit(&function->refs, 1, memory_order_relaxed);
	config->function = function;
	return env->keep(env, function, function_release, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct source_config *config = node->config;
	int code;

	if (!config->function)
		return weir_error_set(err, WEIR_E_INVALID, "a source is a function of a program; the command has none");
	code = weir_function_schema(env->account, config->function->def.columns, &config->schema, err);
	if (!code)
		code = weir_op_keep_schema(env, config->schema, err);
	if (code)
		weir_error_at_operator(err, config->function->def.name);
	node->schema = config->schema;
	node->rows_est = node->bytes_est = -1;
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct source_config *config = node->config;

	return weir_text_printf(out, err, "source %s: a function of the program",
				config->function ? config->function->def.name : "");
}

/* ---- running ---- */

static int fail_at(const struct weir_source *def, struct weir_error *err, int64_t split, int64_t row)
{
	char place[320];

	if (err->code == WEIR_E_GIVE_UP)
		return err->code;
	weir_error_at_operator(err, def->name);
	if (def->split_count) {
		snprintf(place, sizeof(place), "%s, split %lld", def->name, (long long)split);
		weir_error_at_source(err, place);
	}
	if (row >= 0)
		weir_error_at_row(err, row);
	return err->code;
}

static int open_state(const struct weir_source *def, struct weir_context *call, int64_t split, void **state,
		      struct weir_error *err)
{
	int returned;

	*state = def->data;
	if (!def->open)
		return WEIR_OK;
	call->text[0] = 0;
	returned = def->open(def->data, call, split, state);
	return returned ? weir_context_failed(call, "open", returned, err) : WEIR_OK;
}

/* The next batch with rows, or NULL at the end. */
static int next_batch(struct weir_account *account, const struct source *source, struct weir_context *call, void *state,
		      struct weir_batch **out, struct weir_error *err)
{
	const struct weir_source *def = &source->function->def;

	for (*out = NULL; !*out;) {
		struct ArrowArray array = {0};
		struct ArrowSchema none = {0};
		int returned, code;

		call->text[0] = 0;
		returned = def->next(state, call, &array);
		if (returned) {
			if (array.release)
				array.release(&array);
			return weir_context_failed(call, "next", returned, err);
		}
		if (!array.release)
			return WEIR_OK;
		code = weir_function_import(account, source->schema, &none, &array, out, err);
		if (code)
			return code;
		if ((*out)->row_count == 0) {
			weir_batch_unref(*out);
			*out = NULL;
			if (call->cancelled && atomic_load_explicit(call->cancelled, memory_order_relaxed))
				return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
		}
	}
	return WEIR_OK;
}

/* One stream: its next batch. */
static int stream_next(struct source *source, struct weir_batch **out, struct weir_error *err)
{
	const struct weir_source *def = &source->function->def;
	int code = WEIR_OK;

	*out = NULL;
	if (source->ended)
		return WEIR_OK;
	if (!source->is_open) {
		code = open_state(def, &source->call, 0, &source->state, err);
		source->is_open = !code;
	}
	if (!code)
		code = next_batch(source->account, source, &source->call, source->state, out, err);
	source->ended = code || !*out;
	return code ? fail_at(def, err, 0, source->row_next) : WEIR_OK;
}

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct source *source = state;
	const struct weir_source *def = &source->function->def;
	struct weir_batch *batch = NULL;
	struct source_split *split;

	if (!def->split_count && stream_next(source, &batch, err))
		return err->code;
	*done = def->split_count ? source->split_next >= def->split_count : !batch;
	if (*done)
		return WEIR_OK;
	split = weir_alloc_zero(source->account, sizeof(*split), err);
	if (!split) {
		weir_batch_unref(batch);
		return err->code;
	}
	*split = (struct source_split){.number = source->split_next++, .batch = batch, .row_first = source->row_next};
	source->row_next += batch ? batch->row_count : 0;
	*out = (struct weir_split_info){.number = (uint64_t)split->number, .rows_est = batch ? batch->row_count : -1};
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *state, void *split_state)
{
	struct source_split *split = split_state;

	weir_batch_unref(split->batch);
	weir_free(((struct source *)state)->account, split, sizeof(*split));
}

static void close_split(struct source_lane *lane)
{
	const struct weir_source *def = &lane->source->function->def;

	weir_batch_unref(lane->batch);
	lane->batch = NULL;
	if (lane->is_open && def->close)
		def->close(lane->state);
	lane->is_open = false;
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct source *source = state;
	struct source_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "source", err);

	if (!lane)
		return err->code;
	weir_arena_init(&lane->arena, &lane->account);
	lane->source = source;
	lane->call = (struct weir_context){
		.name = source->function->def.name, .cancelled = context->cancelled, .thread = context->lane};
	*out = lane;
	return WEIR_OK;
}

static void lane_free(void *state)
{
	struct source_lane *lane = state;

	close_split(lane);
	weir_arena_release(&lane->arena);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int split_open(void *state, void *split_state, struct weir_error *err)
{
	struct source_lane *lane = state;
	const struct source_split *split = split_state;
	const struct weir_source *def = &lane->source->function->def;

	close_split(lane);
	lane->split = split->number;
	lane->row = 0;
	lane->row_first = split->row_first;
	if (split->batch) {
		lane->batch = weir_batch_ref(split->batch);
		snprintf(lane->name, sizeof(lane->name), "%s", def->name);
		return WEIR_OK;
	}
	snprintf(lane->name, sizeof(lane->name), "%s, split %lld", def->name, (long long)split->number);
	if (open_state(def, &lane->call, split->number, &lane->state, err))
		return fail_at(def, err, split->number, -1);
	lane->is_open = true;
	return WEIR_OK;
}

static int next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct source_lane *lane = state;
	const struct weir_source *def = &lane->source->function->def;
	int64_t count;
	int code;

	*out = (struct weir_vector){0};
	if (lane->is_open && (!lane->batch || lane->row == lane->batch->row_count)) {
		lane->row_first += lane->batch ? lane->batch->row_count : 0;
		weir_batch_unref(lane->batch);
		lane->batch = NULL;
		lane->row = 0;
		if (next_batch(&lane->account, lane->source, &lane->call, lane->state, &lane->batch, err))
			return fail_at(def, err, lane->split, lane->row_first);
	}
	count = lane->batch ? lane->batch->row_count - lane->row : 0;
	if (count > WEIR_VECTOR_ROWS)
		count = WEIR_VECTOR_ROWS;
	if (count == 0) {
		close_split(lane);
		return WEIR_OK;
	}
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(lane->batch, lane->row, (uint32_t)count, &lane->arena, out, err);
	out->source = lane->name;
	out->source_row = lane->row_first + lane->row;
	lane->row += count;
	return code;
}

static void split_abort(void *state)
{
	close_split(state);
}

static void source_free(void *state)
{
	struct source *source = state;
	const struct weir_source *def = &source->function->def;

	if (source->is_open && def->close)
		def->close(source->state);
	weir_source_function_unref(source->function);
	weir_schema_unref(source->schema);
	weir_free(source->account, source, sizeof(*source));
}

/* A stream's batches are made while a split is cut, by the program; its own splits are only numbers. */
static bool waits(const void *state)
{
	return !((const struct source *)state)->function->def.split_count;
}

static const struct weir_source_ops source_ops = {
	.name = "source",
	.split_next = split_next,
	.waits = waits,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.free = source_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct source_config *config = node->config;
	struct source *source = weir_alloc_zero(env->account, sizeof(*source), err);

	if (!source)
		return err->code;
	source->account = env->account;
	source->ops = source_ops;
	source->ops.name = config->function->def.name;
	atomic_fetch_add_explicit(&config->function->refs, 1, memory_order_relaxed);
	source->function = config->function;
	source->schema = weir_schema_ref(config->schema);
	source->call = (struct weir_context){.name = config->function->def.name, .cancelled = env->cancelled};
	return weir_fragment_source(fragment, &source->ops, source);
}

const struct weir_op weir_op_source = {
	.verb = "source",
	.usage = "source",
	.help = "Takes rows from a function of the program that built the plan.\n",
	.once = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_never,
	.load = weir_op_load_never,
	.build = build,
};
