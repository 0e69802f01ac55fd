/* union CHAIN: the rows of the input, then the rows of another chain ("read b/ then filter …"), with one schema.
 *
 * Each side is a chain of its own; the union is a source whose splits are those of the first side, then those of the
 * second. Columns are matched by name and unified (null → any, int → float, narrower → wider, missing → null).
 */
#include "ops/ops_impl.h"

struct union_config {
	const char *chain; /* of the second side, as text; NULL when built by a program */
};

enum { SIDES = 2 };

struct side {
	struct weir_fragment fragment; /* source and steps */
	struct weir_schema *schema;    /* what the side gives; the plan's */
	int64_t *from;                 /* per output column: its column, −1: missing */
	struct weir_program **casts;   /* per output column: NULL where it passes */
	bool done;                     /* whoever cuts splits */
	_Atomic bool enough; /* a limit inside the side has all its rows; relaxed: later splits give none anyway */
};

struct union_source {
	struct weir_account *account;
	struct weir_schema *schema; /* the plan's */
	struct side sides[SIDES];
	uint64_t split_count;
};

struct union_split {
	uint32_t side;
	struct weir_split_info info;
	void *split; /* of the side's source */
};

/* A limit inside a side ends that side, not the run. */
struct side_context {
	struct weir_lane_context context;
	struct side *side;
};

struct union_lane {
	struct weir_account account;
	struct side_context side_contexts[SIDES];
	struct union_source *source;
	struct weir_chain *chains[SIDES];
	struct weir_evaluator **evaluators[SIDES];
	struct weir_column *columns;
	struct weir_array **nulls;    /* MISSING nested columns */
	struct weir_array **promoted; /* nested casts of the current vector */
	uint32_t side;
	bool open;
};

static const uint64_t no_bits[1] = {0};
static const uint64_t no_value[4] = {0};

static const char *second_text(const struct weir_node *node)
{
	return ((const struct union_config *)node->config)->chain;
}

static void second_set(struct weir_node *node, struct weir_node *second)
{
	((struct union_config *)node->config)->chain = NULL;
	node->inputs[1] = second;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct union_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, NULL, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->chain = weir_arena_strdup(env->arena, words->words[0], err);
	return config->chain ? WEIR_OK : err->code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	return weir_save_string(save, ((const struct union_config *)node->config)->chain, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct union_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	node->config = config;
	return config ? weir_load_string(load, &config->chain, err) : err->code;
}

static int64_t sum_est(int64_t a, int64_t b)
{
	return a < 0 || b < 0 ? -1 : a + b;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *a = node->inputs[0], *b = node->inputs[1];

	node->schema = weir_schema_unify(env->account, a->schema, b->schema, err);
	if (!node->schema)
		return err->code;
	node->rows_est = sum_est(a->rows_est, b->rows_est);
	node->bytes_est = sum_est(a->bytes_est, b->bytes_est);
	return weir_op_keep_schema(env, node->schema, err);
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	(void)node;
	return weir_text_puts(out, "union", err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	(void)env;
	(void)err;
	for (uint32_t i = 0; i < wanted->count; i++) {
		int64_t column = weir_schema_index(node->inputs[input]->schema, node->schema->fields[i].name);

		if (wanted->wanted[i] && column >= 0)
			needed->wanted[column] = true;
	}
	return WEIR_OK;
}

/* Columns are found by name when the plan is built, so only the schema shrinks here. */
static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, (kept->count + 1) * sizeof(*fields), err);
	uint32_t n = 0;

	(void)narrowing;
	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < kept->count; i++) {
		if (kept->wanted[i])
			fields[n++] = node->schema->fields[i];
	}
	node->schema = weir_schema_new(env->account, fields, n, &node->schema->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

/* A predicate passes to a side where each column it reads exists with the type that the union gives it. */
struct passing {
	const struct weir_node *node;
	uint32_t input;
	bool blocked;
};

static int check_column(void *context, const char *name)
{
	struct passing *passing = context;
	const struct weir_schema *side = passing->node->inputs[passing->input]->schema;
	int64_t above = weir_schema_index(passing->node->schema, name), below = weir_schema_index(side, name);

	passing->blocked |= above < 0 || below < 0 ||
			    !weir_type_equal(passing->node->schema->fields[above].type, side->fields[below].type,
					     false);
	return WEIR_OK;
}

static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	struct passing passing = {.node = node, .input = input};

	*out = NULL;
	weir_expr_columns(predicate, check_column, &passing);
	return passing.blocked ? WEIR_OK : weir_expr_clone(predicate, env->account, out, err);
}

/* ---- running ---- */

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct union_source *source = state;

	for (uint32_t s = 0; s < SIDES; s++) {
		struct side *side = &source->sides[s];
		struct union_split *split;
		int code;

		if (side->done || atomic_load_explicit(&side->enough, memory_order_relaxed))
			continue;
		split = weir_alloc_zero(source->account, sizeof(*split), err);
		if (!split)
			return err->code;
		split->side = s;
		code = side->fragment.source_ops->split_next(side->fragment.source, &split->info, &split->split,
							     &side->done, err);
		if (code || side->done) {
			weir_free(source->account, split, sizeof(*split));
			if (code)
				return code;
			continue;
		}
		split->info.number = source->split_count++;
		*out = split->info;
		*split_out = split;
		*done = false;
		return WEIR_OK;
	}
	*done = true;
	return WEIR_OK;
}

static void split_free(void *state, void *split_state)
{
	struct union_source *source = state;
	struct union_split *split = split_state;
	struct weir_fragment *fragment;

	if (!split)
		return;
	fragment = &source->sides[split->side].fragment;
	fragment->source_ops->split_free(fragment->source, split->split);
	weir_free(source->account, split, sizeof(*split));
}

static void lane_free(void *state)
{
	struct union_lane *lane = state;
	size_t count = lane->source->schema->field_count;

	/* Promoted arrays share buffers with those of the sides' readers, and go before them. */
	for (size_t i = 0; i < count; i++) {
		if (lane->nulls)
			weir_array_unref(lane->nulls[i]);
		if (lane->promoted)
			weir_array_unref(lane->promoted[i]);
	}
	for (uint32_t s = 0; s < SIDES; s++) {
		weir_chain_free(lane->chains[s]);
		for (size_t i = 0; lane->evaluators[s] && i < count; i++)
			weir_evaluator_free(lane->evaluators[s][i]);
		weir_free(&lane->account, lane->evaluators[s], count * sizeof(*lane->evaluators[s]));
	}
	weir_free(&lane->account, lane->nulls, count * sizeof(*lane->nulls));
	weir_free(&lane->account, lane->promoted, count * sizeof(*lane->promoted));
	weir_free(&lane->account, lane->columns, count * sizeof(*lane->columns));
	weir_op_lane_free(lane, sizeof(*lane));
}

static void side_enough(struct weir_lane_context *context)
{
	atomic_store_explicit(&((struct side_context *)context)->side->enough, true, memory_order_relaxed);
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct union_source *source = state;
	size_t count = source->schema->field_count;
	struct union_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "union", err);
	int code = WEIR_OK;

	if (!lane)
		return err->code;
	lane->source = source;
	lane->columns = weir_alloc_zero(&lane->account, count * sizeof(*lane->columns), err);
	lane->nulls = weir_alloc_zero(&lane->account, count * sizeof(*lane->nulls), err);
	lane->promoted = weir_alloc_zero(&lane->account, count * sizeof(*lane->promoted), err);
	if (!lane->columns || !lane->nulls || !lane->promoted)
		code = err->code;
	for (uint32_t s = 0; !code && s < SIDES; s++) {
		struct side *side = &source->sides[s];

		lane->evaluators[s] = weir_alloc_zero(&lane->account, count * sizeof(*lane->evaluators[s]), err);
		lane->side_contexts[s] = (struct side_context){.context = *context, .side = side};
		lane->side_contexts[s].context.enough = side_enough;
		code = lane->evaluators[s]
			       ? weir_chain_new(&side->fragment, &lane->side_contexts[s].context, &lane->chains[s], err)
			       : err->code;
		for (uint32_t i = 0; !code && i < count; i++) {
			if (side->casts[i])
				code = weir_evaluator_new(&lane->account, side->casts[i], &lane->evaluators[s][i], err);
			if (!code && side->from[i] < 0 && !lane->nulls[i] &&
			    weir_type_is_nested(weir_type_values(source->schema->fields[i].type)))
				code = weir_op_null_array(&lane->account, source->schema->fields[i].type,
							  &lane->nulls[i], err);
		}
	}
	if (code) {
		lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_open(void *state, void *split_state, struct weir_error *err)
{
	struct union_lane *lane = state;
	struct union_split *split = split_state;

	lane->side = split->side;
	lane->open = true;
	return weir_chain_open(lane->chains[split->side], &split->info, split->split, err);
}

static bool needs_confirm(void *state)
{
	const struct union_lane *lane = state;

	return weir_chain_needs_confirm(lane->chains[lane->side]);
}

static int confirm(void *state, struct weir_error *failure, struct weir_error *err)
{
	struct union_lane *lane = state;

	return weir_chain_confirm(lane->chains[lane->side], failure, err);
}

static void split_abort(void *state)
{
	struct union_lane *lane = state;

	if (lane->open)
		weir_chain_abort(lane->chains[lane->side]);
	lane->open = false;
}

static int promote(struct union_lane *lane, struct weir_vector *vector, uint32_t column, uint32_t from,
		   struct weir_error *err)
{
	struct weir_column *out = &lane->columns[column];
	struct weir_array *slice;
	int code = weir_column_decode(vector, from, err);

	if (code)
		return code;
	slice = weir_array_slice(vector->columns[from].nested, vector->columns[from].nested_offset, vector->row_count,
				 err);
	if (!slice)
		return err->code;
	weir_array_unref(lane->promoted[column]);
	lane->promoted[column] = weir_array_promote_field(&lane->account, slice,
							  &lane->source->sides[lane->side].schema->fields[from],
							  &lane->source->schema->fields[column], err);
	weir_array_unref(slice);
	out->nested = lane->promoted[column];
	return out->nested ? WEIR_OK : err->code;
}

static int next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct union_lane *lane = state;
	const struct weir_schema *schema = lane->source->schema;
	const struct side *side = &lane->source->sides[lane->side];
	int code = weir_chain_next(lane->chains[lane->side], out, err);

	if (code || out->row_count == 0) {
		lane->open = code != WEIR_OK;
		return code;
	}
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		struct weir_column *column = &lane->columns[i];

		if (lane->evaluators[lane->side][i])
			code = weir_evaluator_eval(lane->evaluators[lane->side][i], out, column, err);
	}
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		const struct weir_type *type = schema->fields[i].type;
		struct weir_column *column = &lane->columns[i];
		int64_t from = side->from[i];

		if (from < 0) {
			*column = (struct weir_column){
				.type = type, .form = WEIR_CONSTANT, .validity = no_bits, .values = no_value};
			if (lane->nulls[i])
				*column = (struct weir_column){
					.type = type, .form = WEIR_FLAT, .nested = lane->nulls[i]};
		} else if (!lane->evaluators[lane->side][i] && weir_type_is_nested(weir_type_values(type)) &&
			   !weir_type_equal(type, side->schema->fields[from].type, false)) {
			*column = (struct weir_column){.type = type, .form = WEIR_FLAT};
			code = promote(lane, out, i, (uint32_t)from, err);
		} else if (!lane->evaluators[lane->side][i]) {
			*column = out->columns[from];
		}
		column->type = type;
	}
	out->columns = lane->columns;
	out->column_count = schema->field_count;
	return code;
}

static void source_free(void *state)
{
	struct union_source *source = state;
	size_t count = source->schema->field_count;

	for (uint32_t s = 0; s < SIDES; s++) {
		struct side *side = &source->sides[s];

		for (size_t i = 0; side->casts && i < count; i++)
			weir_program_free(side->casts[i]);
		weir_free(source->account, side->casts, count * sizeof(*side->casts));
		weir_free(source->account, side->from, count * sizeof(*side->from));
		weir_fragment_release(&side->fragment);
	}
	weir_free(source->account, source, sizeof(*source));
}

static bool waits(const void *state)
{
	const struct union_source *source = state;
	bool waits = false;

	for (uint32_t s = 0; s < SIDES; s++)
		waits |= weir_source_waits(source->sides[s].fragment.source_ops, source->sides[s].fragment.source);
	return waits;
}

static const struct weir_source_ops source_ops = {
	.name = "union",
	.split_next = split_next,
	.waits = waits,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.confirm = confirm,
	.needs_confirm = needs_confirm,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.free = source_free,
};

static int match_side(struct weir_op_env *env, struct weir_node *node, struct union_source *source, uint32_t s,
		      struct weir_error *err)
{
	struct side *side = &source->sides[s];
	size_t count = source->schema->field_count;
	int code = WEIR_OK;

	side->schema = node->inputs[s]->schema;
	side->from = weir_alloc_zero(env->account, count * sizeof(*side->from), err);
	side->casts = weir_alloc_zero(env->account, count * sizeof(*side->casts), err);
	if (!side->from || !side->casts)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		const struct weir_field *field = &source->schema->fields[i];
		const struct weir_type *type = weir_type_values(field->type);

		side->from[i] = weir_schema_index(side->schema, field->name);
		if (side->from[i] >= 0 && !weir_type_is_nested(type) &&
		    !weir_type_equal(type, weir_type_values(side->schema->fields[side->from[i]].type), false))
			code = weir_op_cast_program(env->account, side->schema, (uint32_t)side->from[i], type,
						    &side->casts[i], err);
	}
	return code;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct union_source *source = weir_alloc_zero(env->account, sizeof(*source), err);
	int code = WEIR_OK;

	if (!source)
		return err->code;
	source->account = env->account;
	source->schema = node->schema;
	for (uint32_t s = 0; s < SIDES; s++)
		weir_fragment_init(&source->sides[s].fragment, env->account);
	for (uint32_t s = 0; !code && s < SIDES; s++) {
		code = weir_node_build(env, node->inputs[s], &source->sides[s].fragment, err);
		weir_fragment_after(fragment, &source->sides[s].fragment);
		if (source->sides[s].fragment.lanes_strict)
			weir_fragment_limit_lanes(fragment, source->sides[s].fragment.lanes_max);
		if (!code)
			code = match_side(env, node, source, s, err);
	}
	if (code) {
		source_free(source);
		return code;
	}
	return weir_fragment_source(fragment, &source_ops, source);
}

const struct weir_op weir_op_union = {
	.verb = "union",
	.usage = "union 'read PATH then …'",
	.help = "Gives the rows so far, then the rows of another chain. Columns are matched by name; a missing one is null.\n"
		"\n"
		"  weir read a/ then union 'read b/ then rename x=y' then write both/\n",
	.inputs_min = 2,
	.inputs_max = 2,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.second_text = second_text,
	.second_set = second_set,
	.rules = {.needs = needs, .narrow = narrow, .filter_below = filter_below},
};
