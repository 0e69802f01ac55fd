/* limit N: the first N rows in input order.
 *
 * Lanes run splits at the same time, but only the lane whose split is the oldest knows how many rows came before its
 * own. It passes rows on at once. The others keep theirs back (at most N rows, and at most BUFFER_BYTES before they
 * wait for their turn), and pass them on when their turn has come:
 *
 *     push, not our turn ─▶ gather ─ enough rows, or the split's end ─▶ wait for the turn ─▶ drain ─▶ straight through
 */
#include "ops/ops_impl.h"

enum { BUFFER_BYTES = 8 << 20 };

struct limit_config {
	int64_t rows;
};

struct limit_step {
	struct weir_account *account;
	struct weir_schema *schema;
	int64_t rows;
	_Atomic int64_t own;
	_Atomic int64_t *remaining; /* our own, or shared; changed only in turn, which also orders it: relaxed */
};

struct limit_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct limit_step *step;
	struct weir_gather *gather;
	struct weir_batch *batch; /* what is being drained */
	int64_t batch_row;
	struct weir_arena arena; /* of the vector made from the batch */
	bool direct;             /* our turn has come in this split */
	uint16_t rows[WEIR_VECTOR_ROWS];
};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct limit_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, "limit ROWS", 1, 1, NULL, err) : err->code;

	if (code)
		return code;
	node->config = config;
	return weir_parse_count(words->words[0], &config->rows, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct limit_config *config = node->config;
	const struct weir_node *input = node->inputs[0];

	(void)env;
	(void)err;
	node->schema = input->schema;
	node->rows_est = input->rows_est < 0 || input->rows_est > config->rows ? config->rows : input->rows_est;
	node->bytes_est = input->rows_est > 0 && input->bytes_est >= 0
				  ? (int64_t)((double)input->bytes_est * (double)node->rows_est /
					      (double)input->rows_est)
				  : -1;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct limit_config *config = node->config;

	return weir_text_printf(out, err, "limit %lld", (long long)config->rows);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct limit_config *config = node->config;

	return weir_save_i64(save, config->rows, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct limit_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_load_i64(load, &config->rows, err) : err->code;

	if (!code && config->rows < 0)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has a negative limit");
	node->config = config;
	return code;
}

int64_t weir_limit_rows(const struct weir_node *node)
{
	return node->op == &weir_op_limit ? ((const struct limit_config *)node->config)->rows : -1;
}

/* ---- running ---- */

static void step_free(void *state)
{
	struct limit_step *step = state;

	weir_schema_unref(step->schema);
	weir_free(step->account, step, sizeof(*step));
}

static void lane_clear(struct limit_lane *lane)
{
	weir_batch_unref(lane->batch);
	lane->batch = NULL;
	lane->batch_row = 0;
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	lane->direct = false;
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct limit_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "limit", err);

	if (!lane)
		return err->code;
	weir_arena_init(&lane->arena, &lane->account);
	lane->context = context;
	lane->step = state;
	*out = lane;
	return WEIR_OK;
}

static void lane_free(void *state)
{
	struct limit_lane *lane = state;

	lane_clear(lane);
	weir_arena_release(&lane->arena);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	(void)split;
	(void)err;
	lane_clear(state);
	return WEIR_OK;
}

/* Cuts the vector to what is left of the limit. Only in turn. */
static void take(struct limit_lane *lane, struct weir_vector *vector, enum weir_progress *progress)
{
	struct limit_step *step = lane->step;
	int64_t remaining = atomic_load_explicit(step->remaining, memory_order_relaxed);

	if (vector->selection.count >= remaining) {
		if (!vector->selection.rows && remaining < vector->selection.count) {
			for (uint32_t i = 0; i < (uint32_t)remaining; i++)
				lane->rows[i] = (uint16_t)i;
			vector->selection.rows = lane->rows;
		}
		vector->selection.count = (uint32_t)remaining;
		*progress = WEIR_SPLIT_DONE;
		lane->context->enough(lane->context);
	}
	atomic_store_explicit(step->remaining, remaining - vector->selection.count, memory_order_relaxed);
}

/* From the gather to the batch that drain hands out. */
static int stop_gathering(struct limit_lane *lane, struct weir_error *err)
{
	int code = lane->context->wait_turn(lane->context, err);

	lane->direct = true;
	if (!code && lane->gather)
		code = weir_gather_finish(lane->gather, &lane->batch, err);
	lane->batch_row = 0;
	return code;
}

static int drain(void *state, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err)
{
	struct limit_lane *lane = state;
	int64_t count;
	int code = WEIR_OK;

	*progress = WEIR_NEED_INPUT;
	if (!lane->batch && lane->gather && weir_gather_rows(lane->gather) > 0)
		code = stop_gathering(lane, err);
	if (code || !lane->batch)
		return code;
	count = lane->batch->row_count - lane->batch_row;
	if (count > WEIR_VECTOR_ROWS)
		count = WEIR_VECTOR_ROWS;
	if (count == 0) {
		weir_batch_unref(lane->batch);
		lane->batch = NULL;
		return WEIR_OK;
	}
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(lane->batch, lane->batch_row, (uint32_t)count, &lane->arena, out, err);
	if (code)
		return code;
	*progress = WEIR_HAVE_MORE;
	lane->batch_row += count;
	take(lane, out, progress);
	if (*progress == WEIR_SPLIT_DONE) {
		lane->batch_row = lane->batch->row_count;
		*progress = out->selection.count ? WEIR_HAVE_OUTPUT : WEIR_NEED_INPUT;
	}
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct limit_lane *lane = state;
	int code;

	if (lane->direct || (!lane->gather && lane->context->is_turn(lane->context))) {
		lane->direct = true;
		*progress = WEIR_HAVE_OUTPUT;
		take(lane, vector, progress);
		return WEIR_OK;
	}
	if (!lane->gather) {
		code = weir_gather_new(&lane->account, lane->step->schema, &lane->gather, err);
		if (code)
			return code;
	}
	code = weir_gather_push(lane->gather, vector, err);
	if (code)
		return code;
	vector->selection.count = 0;
	*progress = WEIR_NEED_INPUT;
	if (weir_gather_rows(lane->gather) >= lane->step->rows) {
		*progress = WEIR_SPLIT_DONE; /* more is never wanted of this split */
	} else if (weir_gather_bytes(lane->gather) > BUFFER_BYTES) {
		code = stop_gathering(lane, err);
		if (!code)
			code = drain(lane, vector, progress, err);
	}
	return code;
}

static const struct weir_step_ops step_ops = {
	.name = "limit",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.drain = drain,
	.lane_free = lane_free,
	.free = step_free,
};

/* The chain is built once for each schema that its rows have: the rows are counted together. */
static int share_remaining(struct weir_shared *shared, struct limit_step *step, struct weir_error *err)
{
	uint32_t place = shared->limits_met++;

	if (place == WEIR_SHARED_LIMITS)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "more than %d limits follow each other",
				      WEIR_SHARED_LIMITS);
	step->remaining = &shared->limits[place];
	if (place == shared->limit_count) {
		atomic_store_explicit(step->remaining, step->rows, memory_order_relaxed);
		shared->limit_count++;
	}
	return WEIR_OK;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct limit_config *config = node->config;
	struct limit_step *step = weir_alloc_zero(env->account, sizeof(*step), err);

	if (!step)
		return err->code;
	step->account = env->account;
	step->rows = config->rows;
	step->schema = weir_schema_ref(node->schema);
	atomic_init(&step->own, config->rows);
	step->remaining = &step->own;
	if (env->shared && share_remaining(env->shared, step, err)) {
		step_free(step);
		return err->code;
	}
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_limit = {
	.verb = "limit",
	.usage = "limit ROWS",
	.help = "Keeps the first ROWS rows in input order and stops reading as soon as it has them.\n"
		"\n"
		"  weir read data/ then filter 'price > 100' then limit 20\n",
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
