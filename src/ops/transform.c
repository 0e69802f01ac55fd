/* A C function of the program as a step. Vectors are gathered into batches of the size that the function wants, each
 * batch goes through it in the lane's own thread, and what comes back goes on as vectors:
 *
 *     vector ─▶ rest ─▶ gather ─ full, or the split's end ─▶ apply ─▶ made ─▶ vector, vector, …
 *
 * `rest` is what is left of the vector that was pushed: it stays valid while its own output is drained, since nobody in
 * front of this step is asked meanwhile. The input of a call lives until the last row of its output has gone on,
 * because the output may share its buffers.
 *
 * What the function gives is foreign data and is checked like it: schema, lengths, offsets, text.
 */
#include "ops/function.h"
#include "ops/ops_impl.h"

#include <stdio.h>
#include <string.h>

enum { BATCH_ROWS = 16384, BATCH_BYTES = 1 << 20 };

struct transform_config {
	struct weir_transform_function *function;
	uint32_t in_count; /* columns_in; 0: all */
	const char *const *in_names;
	struct weir_schema *made; /* the columns that the function makes; the plan keeps it */
};

struct transform_step {
	struct weir_account *account;
	struct weir_step_ops ops; /* with the function's own name */
	struct weir_transform_function *function;
	struct weir_schema *input, *given, *made,
		*output; /* references; `given` is what the function gets of the input */
	uint32_t *from;  /* per column of `given`: its column in the input; the plan's */
	struct output_column {
		bool is_made;
		uint32_t column; /* of `made` or of the input */
	} * columns;             /* of the output, when columns are added; the plan's */
};

struct transform_lane {
	struct weir_account account;
	const struct transform_step *step;
	struct weir_context call;
	void *state;
	bool has_state;
	struct ArrowSchema given; /* exported once */
	struct weir_gather *gather;
	struct weir_vector rest;
	uint32_t rest_taken; /* selected rows of `rest` that are in the gather */
	struct weir_batch *input, *made;
	int64_t made_row;
	bool draining_call; /* HAVE_MORE was said: the next drain is not yet the split's end */
	struct weir_arena arena;
	/* Where the rows in the gather, or of the call, came from. */
	char source[256];
	int64_t row_first, row_last; /* −1: unknown */
	uint16_t rows[WEIR_VECTOR_ROWS];
};

/* ---- the plan's half ---- */

static void function_release(void *object)
{
	weir_transform_function_unref(object);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	node->config = weir_arena_alloc_zero(env->arena, sizeof(struct transform_config), err);
	return node->config ? weir_words_expect(words, "transform", 0, 0, NULL, err) : err->code;
}

int weir_transform_set(struct weir_op_env *env, struct weir_node *node, struct weir_transform_function *function,
		       struct weir_error *err)
{
	struct transform_config *config = node->config;

	WEIR_ASSERT(node->op == &weir_op_transform && !config->function);
	atomic_fetch_add_explicit(&function->refs, 1, memory_order_relaxed);
	config->function = function;
	return env->keep(env, function, function_release, err);
}

/* The function is asked what it makes of a batch of no rows. */
static int ask(struct weir_op_env *env, const struct weir_transform *def, const struct weir_schema *given,
	       struct weir_schema **made, struct weir_error *err)
{
	struct weir_context context = {.name = def->name};
	struct ArrowSchema schema_in = {0}, schema_out = {0};
	struct ArrowArray in = {0}, out = {0};
	struct weir_gather *gather = NULL;
	struct weir_batch *empty = NULL;
	void *state = def->data;
	bool has_state = false;
	int returned = 0, code = weir_gather_new(env->account, given, &gather, err);

	*made = NULL;
	if (!code)
		code = weir_gather_finish(gather, &empty, err);
	if (!code)
		code = weir_cdata_export_schema(given, &schema_in, err);
	if (!code)
		code = weir_cdata_export_batch(empty, &in, err);
	if (!code && def->create) {
		returned = def->create(def->data, &context, &state);
		has_state = returned == 0;
		if (returned)
			code = weir_context_failed(&context, "create", returned, err);
	}
	if (!code) {
		returned = def->apply(state, &context, &schema_in, &in, &schema_out, &out);
		if (returned)
			code = weir_context_failed(&context, "apply", returned, err);
		else if (!schema_out.release)
			code = weir_error_set(
				err, WEIR_E_INVALID,
				"the function was asked for its schema with a batch of no rows and gave none: set "
				"output_schema, or say columns_out");
		else
			code = weir_cdata_import_schema(env->account, &schema_out, made, err);
	}
	if (has_state && def->destroy)
		def->destroy(state);
	if (in.release)
		in.release(&in);
	if (schema_in.release)
		schema_in.release(&schema_in);
	if (out.release)
		out.release(&out);
	if (schema_out.release)
		schema_out.release(&schema_out);
	weir_batch_unref(empty);
	weir_gather_free(gather);
	return code;
}

/* The columns that the function gets: numbers in `from` (room for as many as the input has, or were named). */
static int resolve(const struct transform_config *config, const struct weir_schema *input, uint32_t *from,
		   uint32_t *count, struct weir_error *err)
{
	*count = config->in_count ? config->in_count : input->field_count;
	for (uint32_t i = 0; i < *count; i++) {
		from[i] = i;
		if (config->in_count && weir_schema_find(input, config->in_names[i], &from[i], err))
			return err->code;
	}
	return WEIR_OK;
}

/* The columns that the function gets, in the plan's arena, and their schema (a reference). */
static int given_schema(struct weir_op_env *env, const struct transform_config *config, const struct weir_schema *input,
			uint32_t **from, struct weir_schema **out, struct weir_error *err)
{
	size_t capacity = (size_t)input->field_count + config->in_count + 1;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, capacity * sizeof(*fields), err);
	uint32_t count = 0;
	int code;

	*out = NULL;
	*from = fields ? weir_arena_alloc_zero(env->arena, capacity * sizeof(**from), err) : NULL;
	code = *from ? resolve(config, input, *from, &count, err) : err->code;
	if (code)
		return code;
	for (uint32_t i = 0; i < count; i++)
		fields[i] = input->fields[(*from)[i]];
	*out = weir_schema_new(env->account, fields, count, &input->metadata, err);
	return *out ? WEIR_OK : err->code;
}

/* The output when columns are added: the input's, those of the same name replaced, then the new ones. */
static int add_columns(struct weir_op_env *env, const struct weir_schema *input, const struct weir_schema *made,
		       struct output_column **columns, struct weir_schema **out, struct weir_error *err)
{
	size_t capacity = (size_t)input->field_count + made->field_count + 1;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, capacity * sizeof(*fields), err);
	struct output_column *list = fields ? weir_arena_alloc_zero(env->arena, capacity * sizeof(*list), err) : NULL;
	uint32_t n = 0;

	if (!list)
		return err->code;
	for (uint32_t i = 0; i < input->field_count; i++) {
		int64_t instead = weir_schema_index(made, input->fields[i].name);

		fields[n] = instead < 0 ? input->fields[i] : made->fields[instead];
		list[n++] = (struct output_column){instead >= 0, instead < 0 ? i : (uint32_t)instead};
	}
	for (uint32_t i = 0; i < made->field_count; i++) {
		if (weir_schema_index(input, made->fields[i].name) >= 0)
			continue;
		fields[n] = made->fields[i];
		list[n++] = (struct output_column){true, i};
	}
	*columns = list;
	*out = weir_schema_new(env->account, fields, n, &input->metadata, err);
	return *out ? WEIR_OK : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct transform_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	const struct weir_transform *def;
	struct weir_schema *given = NULL;
	uint32_t *from = NULL;
	int code = WEIR_OK;

	if (!config->function)
		return weir_error_set(err, WEIR_E_INVALID,
				      "a transform is a function of a program; the command has none");
	def = &config->function->def;
	if (def->columns_in)
		code = weir_words_split(env, def->columns_in, &config->in_names, &config->in_count, err);
	if (!code)
		code = given_schema(env, config, input, &from, &given, err);
	if (!code && def->columns_out)
		code = weir_function_schema(env->account, def->columns_out, &config->made, err);
	else if (!code)
		code = ask(env, def, given, &config->made, err);
	if (!code)
		code = weir_op_keep_schema(env, config->made, err);
	node->schema = config->made;
	node->rows_est = node->bytes_est = -1;
	if (!code && def->adds_columns) {
		struct output_column *columns;

		code = add_columns(env, input, config->made, &columns, &node->schema, err);
		if (!code)
			code = weir_op_keep_schema(env, node->schema, err);
		node->rows_est = node->inputs[0]->rows_est;
	}
	weir_schema_unref(given);
	if (code)
		weir_error_at_operator(err, def->name);
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct transform_config *config = node->config;

	return weir_text_printf(out, err, "transform %s: a function of the program",
				config->function ? config->function->def.name : "");
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct transform_config *config = node->config;
	uint32_t column;

	(void)env;
	(void)input;
	(void)wanted;
	if (!config->in_count || config->function->def.adds_columns) {
		memset(needed->wanted, true, needed->count);
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < config->in_count; i++) {
		if (weir_schema_find(node->inputs[0]->schema, config->in_names[i], &column, err))
			return err->code;
		needed->wanted[column] = true;
	}
	return WEIR_OK;
}

/* The function makes what it makes. Its own columns are found by name when the plan is built. */
/* ---- the lane's half ---- */

static void end_call(struct transform_lane *lane)
{
	weir_batch_unref(lane->made);
	weir_batch_unref(lane->input);
	lane->made = lane->input = NULL;
	lane->made_row = 0;
}

static void lane_clear(struct transform_lane *lane)
{
	end_call(lane);
	weir_gather_free(lane->gather);
	lane->gather = NULL;
	lane->rest = (struct weir_vector){0};
	lane->rest_taken = 0;
	lane->draining_call = false;
}

static void lane_free(void *state)
{
	struct transform_lane *lane = state;
	const struct weir_transform *def = &lane->step->function->def;

	lane_clear(lane);
	if (lane->has_state && def->destroy)
		def->destroy(lane->state);
	if (lane->given.release)
		lane->given.release(&lane->given);
	weir_arena_release(&lane->arena);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct transform_step *step = state;
	const struct weir_transform *def = &step->function->def;
	struct transform_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "transform", err);
	int code;

	if (!lane)
		return err->code;
	weir_arena_init(&lane->arena, &lane->account);
	lane->step = step;
	lane->call = (struct weir_context){.name = def->name, .cancelled = context->cancelled, .thread = context->lane};
	lane->state = def->data;
	code = weir_cdata_export_schema(step->given, &lane->given, err);
	if (!code && def->create) {
		int returned = def->create(def->data, &lane->call, &lane->state);

		lane->has_state = returned == 0;
		if (returned) {
			code = weir_context_failed(&lane->call, "create", returned, err);
			weir_error_at_operator(err, def->name);
		}
	}
	if (code) {
		lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	(void)split;
	(void)err;
	lane_clear(state);
	return WEIR_OK;
}

/* The columns that the function gets, of the gathered batch. */
static int give(struct transform_lane *lane, struct ArrowArray *in, struct weir_error *err)
{
	const struct transform_step *step = lane->step;
	struct weir_array **columns;
	struct weir_batch *given;
	int code;

	if (!lane->input->column_count || step->given->field_count == 0) {
		given = weir_batch_new(&lane->account, step->given, lane->input->row_count, NULL, err);
	} else {
		size_t size = step->given->field_count * sizeof(*columns);

		columns = weir_alloc(&lane->account, size, err);
		if (!columns)
			return err->code;
		for (uint32_t i = 0; i < step->given->field_count; i++)
			columns[i] = lane->input->columns[step->from[i]];
		given = weir_batch_new(&lane->account, step->given, lane->input->row_count, columns, err);
		weir_free(&lane->account, columns, size);
	}
	if (!given)
		return err->code;
	code = weir_cdata_export_batch(given, in, err);
	weir_batch_unref(given);
	return code;
}

/* What the function made, with the input's other columns when it only adds. */
static int complete(struct transform_lane *lane, struct weir_batch *made, struct weir_error *err)
{
	const struct transform_step *step = lane->step;
	uint32_t count = step->output->field_count;
	struct weir_array **columns;

	if (!step->function->def.adds_columns) {
		lane->made = weir_batch_ref(made);
		return WEIR_OK;
	}
	if (made->row_count != lane->input->row_count)
		return weir_error_set(err, WEIR_E_DATA,
				      "the function gave %lld rows for %lld, and it is to add columns",
				      (long long)made->row_count, (long long)lane->input->row_count);
	columns = weir_alloc(&lane->account, count * sizeof(*columns), err);
	if (!columns)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_batch *of = step->columns[i].is_made ? made : lane->input;

		columns[i] = of->columns[step->columns[i].column];
	}
	lane->made = weir_batch_new(&lane->account, step->output, made->row_count, columns, err);
	weir_free(&lane->account, columns, count * sizeof(*columns));
	return lane->made ? WEIR_OK : err->code;
}

static int call(struct transform_lane *lane, struct weir_error *err)
{
	const struct weir_transform *def = &lane->step->function->def;
	struct ArrowArray in = {0}, out = {0};
	struct ArrowSchema schema = {0};
	struct weir_batch *made = NULL;
	int code = weir_gather_finish(lane->gather, &lane->input, err), returned;

	if (!code)
		code = give(lane, &in, err);
	if (code)
		return code;
	lane->call.text[0] = 0;
	returned = def->apply(lane->state, &lane->call, &lane->given, &in, &schema, &out);
	if (in.release)
		in.release(&in);
	if (returned)
		code = weir_context_failed(&lane->call, "apply", returned, err);
	else if (!out.release)
		code = weir_error_set(
			err, WEIR_E_INVALID,
			"the function returned 0 but no batch: output->release is NULL, as if it were released");
	if (code) {
		if (out.release)
			out.release(&out);
		if (schema.release)
			schema.release(&schema);
	} else {
		code = weir_function_import(&lane->account, lane->step->made, &schema, &out, &made, err);
		if (!code)
			code = complete(lane, made, err);
		weir_batch_unref(made);
	}
	if (code && code != WEIR_E_GIVE_UP) {
		weir_error_at_operator(err, def->name);
		weir_error_at_source(err, lane->source[0] ? lane->source : NULL);
		if (lane->row_first >= 0)
			weir_error_at_rows(err, lane->row_first, lane->row_last - lane->row_first + 1);
	}
	return code;
}

/* Moves rows of `rest` into the gather, as many as the batch still takes; *full when it takes no more. */
static int gather(struct transform_lane *lane, bool *full, struct weir_error *err)
{
	const struct transform_step *step = lane->step;
	int64_t rows_max = step->function->def.batch_rows ? step->function->def.batch_rows : BATCH_ROWS, room;
	struct weir_vector part = lane->rest;
	uint32_t count = lane->rest.selection.count - lane->rest_taken;
	int64_t first, last;
	int code;

	if (!lane->gather) {
		code = weir_gather_new(&lane->account, step->input, &lane->gather, err);
		if (code)
			return code;
	}
	/* A batch has rows of one file, so that an error can say which. */
	if (weir_gather_rows(lane->gather) > 0 && count > 0 &&
	    strncmp(part.source ? part.source : "", lane->source, sizeof(lane->source) - 1) != 0) {
		*full = true;
		return WEIR_OK;
	}
	room = rows_max - weir_gather_rows(lane->gather);
	/* A column is decoded once, for the rows selected then: for all of them, when they are taken in pieces. */
	if (count > room && lane->rest_taken == 0) {
		code = weir_vector_decode_all(&lane->rest, err);
		if (code)
			return code;
	}
	if (count > room)
		count = (uint32_t)room;
	if (count > 0) {
		for (uint32_t i = 0; i < count; i++) {
			uint32_t k = lane->rest_taken + i;

			lane->rows[i] = part.selection.rows ? part.selection.rows[k] : (uint16_t)k;
		}
		first = part.source_row + lane->rows[0];
		last = part.source_row + lane->rows[count - 1];
		if (weir_gather_rows(lane->gather) == 0) {
			snprintf(lane->source, sizeof(lane->source), "%s", part.source ? part.source : "");
			lane->row_first = part.source && part.source_row >= 0 ? first : -1;
		}
		lane->row_last = last;
		/* All rows of the vector: in the form in which nothing needs to be picked. */
		if (count < part.row_count)
			part.selection = (struct weir_selection){.count = count, .rows = lane->rows};
		code = weir_gather_push(lane->gather, &part, err);
		if (code)
			return code;
		lane->rest_taken += count;
	}
	*full = weir_gather_rows(lane->gather) >= rows_max ||
		(!step->function->def.batch_rows && weir_gather_bytes(lane->gather) >= BATCH_BYTES);
	return WEIR_OK;
}

/* The next vector of the output; NEED_INPUT when there is none before more comes in, or at the end none at all. */
static int produce(struct transform_lane *lane, bool at_end, struct weir_vector *out, enum weir_progress *progress,
		   struct weir_error *err)
{
	for (;;) {
		bool full = false;
		int code = WEIR_OK;

		if (lane->made && lane->made_row < lane->made->row_count) {
			int64_t count = lane->made->row_count - lane->made_row;

			if (count > WEIR_VECTOR_ROWS)
				count = WEIR_VECTOR_ROWS;
			weir_arena_clear(&lane->arena);
			code = weir_vector_from_batch(lane->made, lane->made_row, (uint32_t)count, &lane->arena, out,
						      err);
			lane->made_row += count;
			lane->draining_call = true;
			*progress = WEIR_HAVE_MORE;
			return code;
		}
		end_call(lane);
		if (lane->rest_taken < lane->rest.selection.count)
			code = gather(lane, &full, err);
		if (!code && (full || (at_end && lane->gather && weir_gather_rows(lane->gather) > 0))) {
			code = call(lane, err);
			if (code)
				return code;
			continue;
		}
		if (!code && lane->rest_taken < lane->rest.selection.count)
			continue;
		lane->rest = (struct weir_vector){0};
		lane->rest_taken = 0;
		lane->draining_call = false;
		*progress = WEIR_NEED_INPUT;
		return code;
	}
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct transform_lane *lane = state;

	lane->rest = *vector;
	lane->rest_taken = 0;
	return produce(lane, false, vector, progress, err);
}

static int drain(void *state, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err)
{
	struct transform_lane *lane = state;

	return produce(lane, !lane->draining_call, out, progress, err);
}

static void step_free(void *state)
{
	struct transform_step *step = state;
	struct weir_account *account = step->account;

	weir_transform_function_unref(step->function);
	weir_schema_unref(step->input);
	weir_schema_unref(step->given);
	weir_schema_unref(step->made);
	weir_schema_unref(step->output);
	weir_free(account, step, sizeof(*step));
}

static const struct weir_step_ops step_ops = {
	.name = "transform",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.drain = drain,
	.lane_free = lane_free,
	.free = step_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct transform_config *config = node->config;
	const struct weir_transform *def = &config->function->def;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct transform_step *step = weir_alloc_zero(env->account, sizeof(*step), err);
	int code;

	if (!step)
		return err->code;
	step->account = env->account;
	step->ops = step_ops;
	step->ops.name = def->name;
	atomic_fetch_add_explicit(&config->function->refs, 1, memory_order_relaxed);
	step->function = config->function;
	step->input = weir_schema_ref(input);
	step->made = weir_schema_ref(config->made);
	code = given_schema(env, config, input, &step->from, &step->given, err);
	if (!code && def->adds_columns)
		code = add_columns(env, input, config->made, &step->columns, &step->output, err);
	else if (!code)
		step->output = weir_schema_ref(node->schema);
	if (code) {
		step_free(step);
		return code;
	}
	if (def->threads_max)
		weir_fragment_limit_lanes(fragment, def->threads_max);
	return weir_fragment_step(fragment, &step->ops, step, err);
}

const struct weir_op weir_op_transform = {
	.verb = "transform",
	.usage = "transform",
	.help = "Calls a function of the program that built the plan.\n",
	.once = true,
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_never,
	.load = weir_op_load_never,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_nothing},
};
