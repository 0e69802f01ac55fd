/* select, with, rename, drop: four verbs, one operator. Each is a list of output columns, an input column passed on (in
 * the form it has, undecoded too) or an expression.
 *
 *     select a, b, total = x * 2     exactly these, in this order
 *     with total = x * 2, y = z      all input columns; a name that exists is replaced in its place
 *     rename old=new                 all input columns, some with new names
 *     drop a, b                      all input columns but these
 */
#include "ops/ops_impl.h"

#include <ctype.h>
#include <string.h>

struct item {                   /* what the user wrote */
	const char *name;       /* output name; drop: the column */
	const char *text;       /* expression, or rename: the old name; NULL in drop and for a bare select */
	struct weir_expr *expr; /* of text, except in rename */
};

struct output { /* what bind made of it */
	const char *name;
	int64_t input; /* ≥ 0: that column; −1: expr */
	const struct weir_expr *expr;
};

struct project_config {
	uint32_t item_count;
	struct item *items;
	uint32_t output_count; /* 0 before bind */
	struct output *outputs;
};

struct project_step {
	struct weir_account *account;
	uint32_t output_count;
	int64_t *inputs; /* −1: a root of the program */
	uint32_t *roots;
	struct weir_program *program; /* all expressions; NULL: columns only */
};

struct project_lane {
	struct weir_account account;
	const struct project_step *step;
	struct weir_evaluator *evaluator; /* NULL: columns only */
	struct weir_column *columns;
};

/* The first '=' that is an assignment: not ==, <=, >=, !=, and not inside quotes or brackets. */
static const char *find_assignment(const char *text)
{
	char quote = 0;
	int depth = 0;

	for (const char *p = text; *p; p++) {
		if (quote) {
			if (*p == '\\' && p[1])
				p++;
			else if (*p == quote)
				quote = 0;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (strchr("([{", *p)) {
			depth++;
		} else if (strchr(")]}", *p)) {
			depth--;
		} else if (*p == '=' && depth == 0) {
			if (p[1] == '=')
				return NULL;
			if (p > text && strchr("<>!", p[-1]))
				return NULL;
			return p;
		}
	}
	return NULL;
}

static int item_parse(struct weir_op_env *env, const struct weir_op *op, const char *text, struct item *item,
		      struct weir_error *err)
{
	const char *assignment = op == &weir_op_drop ? NULL : find_assignment(text);

	if (!assignment) {
		if (op == &weir_op_with || op == &weir_op_rename)
			return weir_error_set(err, WEIR_E_SYNTAX, "'%s' has no '=' (usage: %s)", text, op->usage);
		item->name = weir_words_name(env, text, text + strlen(text), err);
		return item->name ? WEIR_OK : err->code;
	}
	if (op == &weir_op_rename) { /* old=new */
		item->text = weir_words_name(env, text, assignment, err);
		item->name = item->text ? weir_words_name(env, assignment + 1, text + strlen(text), err) : NULL;
		return item->name ? WEIR_OK : err->code;
	}
	item->name = weir_words_name(env, text, assignment, err);
	item->text = item->name ? weir_arena_strdup(env->arena, assignment + 1, err) : NULL;
	return item->text ? weir_op_parse_expr(env, item->text, &item->expr, err) : err->code;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct project_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t capacity = 0;
	int code = config ? weir_words_expect(words, node->op->usage, 1, UINT32_MAX, NULL, err) : err->code;

	if (code)
		return code;
	node->config = config;
	for (uint32_t pass = 0; pass < 2; pass++) { /* count, then fill */
		for (uint32_t w = 0; w < words->count; w++) {
			const char *const *parts;
			uint32_t count;

			code = weir_words_split(env, words->words[w], &parts, &count, err);
			for (uint32_t i = 0; !code && pass && i < count; i++)
				code = item_parse(env, node->op, parts[i], &config->items[config->item_count++], err);
			if (code)
				return code;
			capacity += pass ? 0 : count;
		}
		if (!pass &&
		    !(config->items = weir_arena_alloc_zero(env->arena, capacity * sizeof(*config->items), err)))
			return err->code;
	}
	return WEIR_OK;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct project_config *config = node->config;
	int code = weir_save_u32(save, config->item_count, err);

	for (uint32_t i = 0; !code && i < config->item_count; i++) {
		code = weir_save_string(save, config->items[i].name, err);
		if (!code)
			code = weir_save_string(save, config->items[i].text, err);
	}
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct project_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_load_count(load, 8, &config->item_count, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->items = weir_arena_alloc_zero(env->arena, config->item_count * sizeof(*config->items), err);
	if (!config->items)
		return err->code;
	for (uint32_t i = 0; !code && i < config->item_count; i++) {
		struct item *item = &config->items[i];

		code = weir_load_string(load, &item->name, err);
		if (!code)
			code = weir_load_string(load, &item->text, err);
		if (!code && !item->name)
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan has a column without a name");
		if (!code && item->text && node->op != &weir_op_rename)
			code = weir_op_parse_expr(env, item->text, &item->expr, err);
	}
	return code;
}

static const struct item *item_named(const struct project_config *config, const char *name)
{
	for (uint32_t i = config->item_count; i-- > 0;) {
		if (strcmp(config->items[i].name, name) == 0)
			return &config->items[i];
	}
	return NULL;
}

/* Fills config->outputs from the items and the input's schema. */
static int resolve(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct project_config *config = node->config;
	const struct weir_schema *schema = node->inputs[0]->schema;
	uint32_t n = 0, column;
	int code;

	config->outputs = weir_arena_alloc_zero(
		env->arena, ((size_t)schema->field_count + config->item_count) * sizeof(*config->outputs), err);
	if (!config->outputs)
		return err->code;
	if (node->op == &weir_op_select) {
		for (uint32_t i = 0; i < config->item_count; i++) {
			const struct item *item = &config->items[i];
			struct output output = {.name = item->name, .input = -1, .expr = item->expr};

			for (uint32_t j = 0; j < i; j++) {
				if (strcmp(config->items[j].name, item->name) == 0)
					return weir_error_set(err, WEIR_E_INVALID, "column '%s' is selected twice",
							      item->name);
			}
			if (!item->expr) {
				code = weir_schema_find(schema, item->name, &column, err);
				if (code)
					return code;
				output.input = column;
			}
			config->outputs[n++] = output;
		}
		config->output_count = n;
		return WEIR_OK;
	}
	/* The others begin with all input columns; names that are given must exist, but for new ones in `with`. */
	if (node->op != &weir_op_with) {
		for (uint32_t i = 0; i < config->item_count; i++) {
			const struct item *item = &config->items[i];

			code = weir_schema_find(schema, node->op == &weir_op_rename ? item->text : item->name, &column,
						err);
			if (code)
				return code;
		}
	}
	for (uint32_t c = 0; c < schema->field_count; c++) {
		struct output output = {.name = schema->fields[c].name, .input = c};
		const struct item *item = item_named(config, output.name);

		if (node->op == &weir_op_drop && item)
			continue;
		if (node->op == &weir_op_with && item) {
			output.input = -1;
			output.expr = item->expr;
		}
		if (node->op == &weir_op_rename) {
			for (uint32_t i = 0; i < config->item_count; i++) {
				if (strcmp(config->items[i].text, schema->fields[c].name) == 0)
					output.name = config->items[i].name;
			}
		}
		config->outputs[n++] = output;
	}
	for (uint32_t i = 0; node->op == &weir_op_with && i < config->item_count; i++) {
		const struct item *item = &config->items[i];
		bool exists = false;

		for (uint32_t k = 0; k < n; k++)
			exists |= strcmp(config->outputs[k].name, item->name) == 0;
		if (!exists)
			config->outputs[n++] = (struct output){
				.name = item->name, .input = -1, .expr = item_named(config, item->name)->expr};
	}
	for (uint32_t i = 0; node->op == &weir_op_rename && i < n; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(config->outputs[i].name, config->outputs[j].name) == 0)
				return weir_error_set(err, WEIR_E_INVALID, "two columns would be named '%s'",
						      config->outputs[i].name);
		}
	}
	config->output_count = n;
	return WEIR_OK;
}

/* The field's lists are tensors of one dimension. */
static int mark_tensor(struct weir_op_env *env, struct weir_field *field, struct weir_error *err)
{
	struct weir_metadata_entry *entries = weir_arena_alloc_zero(env->arena, 2 * sizeof(*entries), err);
	char *shape = entries ? weir_arena_printf(env->arena, err, "{\"shape\":[%d]}", field->type->list_size) : NULL;

	if (!shape)
		return err->code;
	entries[0] = (struct weir_metadata_entry){"ARROW:extension:metadata", shape, (uint32_t)strlen(shape)};
	entries[1] = (struct weir_metadata_entry){"ARROW:extension:name", "arrow.fixed_shape_tensor", 24};
	field->metadata = (struct weir_metadata){.count = 2, .entries = entries};
	return WEIR_OK;
}

/* A column by another name is still a tensor, or one of Python objects. */
static struct weir_metadata metadata_of_column(const struct weir_expr *expr, const struct weir_schema *input,
					       const struct weir_type *type)
{
	const char *name = weir_expr_column_name(expr);

	for (uint32_t i = 0; name && i < input->field_count; i++)
		if (!strcmp(input->fields[i].name, name) && weir_type_equal(input->fields[i].type, type, false))
			return input->fields[i].metadata;
	return (struct weir_metadata){0};
}

/* node->schema from the outputs. */
static int set_schema(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct project_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, (config->output_count + 1) * sizeof(*fields),
							  err);
	int code = fields ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < config->output_count; i++) {
		const struct output *output = &config->outputs[i];
		struct weir_program *program;

		if (output->input >= 0) {
			fields[i] = input->fields[output->input];
			fields[i].name = output->name;
			weir_type_ref(fields[i].type);
			continue;
		}
		code = weir_program_new(env->account, output->expr, input, &program, err);
		if (code) {
			weir_error_at_column(err, output->name);
			break;
		}
		fields[i] = (struct weir_field){
			.name = output->name, .type = weir_type_ref(weir_program_type(program)), .nullable = true};
		if (weir_program_is_vector(program))
			code = mark_tensor(env, &fields[i], err);
		else
			fields[i].metadata = metadata_of_column(output->expr, input, fields[i].type);
		weir_program_free(program);
	}
	if (!code) {
		node->schema = weir_schema_new(env->account, fields, config->output_count, &input->metadata, err);
		code = node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
	}
	for (uint32_t i = 0; fields && i < config->output_count; i++)
		weir_type_unref(fields[i].type);
	return code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *input = node->inputs[0];
	int code = resolve(env, node, err);

	if (!code)
		code = set_schema(env, node, err);
	node->rows_est = input->rows_est;
	node->bytes_est = input->bytes_est;
	if (!code && node->bytes_est > 0 && input->schema->field_count)
		node->bytes_est = (int64_t)((double)input->bytes_est * node->schema->field_count /
					    input->schema->field_count);
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct project_config *config = node->config;
	int code = weir_text_puts(out, node->op->verb, err);

	for (uint32_t i = 0; !code && i < config->item_count; i++) {
		const struct item *item = &config->items[i];

		code = weir_text_puts(out, i ? ", " : " ", err);
		if (!code && node->op == &weir_op_rename)
			code = weir_text_printf(out, err, "%s=%s", item->text, item->name);
		else if (!code)
			code = weir_text_puts(out, item->name, err);
		if (!code && item->expr) {
			code = weir_text_puts(out, " = ", err);
			if (!code)
				code = weir_expr_print(item->expr, out, err);
		}
	}
	return code;
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct project_config *config = node->config;
	int code = WEIR_OK;

	(void)env;
	(void)input;
	for (uint32_t i = 0; !code && i < config->output_count; i++) {
		if (!wanted->wanted[i])
			continue;
		if (config->outputs[i].input >= 0)
			needed->wanted[config->outputs[i].input] = true;
		else
			code = weir_op_mark_columns(config->outputs[i].expr, node->inputs[0]->schema, needed, err);
	}
	return code;
}

static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	struct project_config *config = node->config;
	uint32_t n = 0;

	for (uint32_t i = 0; i < config->output_count; i++) {
		struct output output = config->outputs[i];

		if (!kept->wanted[i])
			continue;
		if (output.input >= 0)
			output.input = narrowing->moved[0][output.input];
		config->outputs[n++] = output;
	}
	config->output_count = n;
	return set_schema(env, node, err);
}

struct passing {
	const struct weir_node *node;
	struct weir_op_env *env;
	struct weir_expr *found[64];
	uint32_t count;
	bool blocked;
};

/* A predicate may pass where every column it reads is an input column passed on; under its own name there. */
static const struct weir_expr *below_name(void *context, const char *name)
{
	struct passing *passing = context;
	const struct project_config *config = passing->node->config;
	struct weir_error err = {0};

	for (uint32_t i = 0; i < config->output_count; i++) {
		const struct output *output = &config->outputs[i];
		struct weir_expr *column;

		if (strcmp(output->name, name) != 0)
			continue;
		if (output->input < 0 || passing->count == 64)
			break;
		column = weir_expr_column(passing->env->account,
					  passing->node->inputs[0]->schema->fields[output->input].name, &err);
		if (!column)
			break;
		return passing->found[passing->count++] = column;
	}
	passing->blocked = true;
	return NULL;
}

static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	const struct project_config *config = node->config;
	struct passing passing = {.node = node, .env = env};
	int code;

	*out = NULL;
	for (uint32_t i = 0; i < config->output_count; i++) {
		if (config->outputs[i].expr && weir_expr_is_volatile(config->outputs[i].expr))
			return WEIR_OK;
	}
	code = weir_expr_substitute(predicate, below_name, &passing, env->account, out, err);

	(void)input;
	for (uint32_t i = 0; i < passing.count; i++)
		weir_expr_free(passing.found[i]);
	if (!code && passing.blocked) {
		weir_expr_free(*out);
		*out = NULL;
	}
	return code;
}

/* ---- running ---- */

static void step_free(void *state)
{
	struct project_step *step = state;

	weir_program_free(step->program);
	weir_free(step->account, step->roots, step->output_count * sizeof(*step->roots));
	weir_free(step->account, step->inputs, step->output_count * sizeof(*step->inputs));
	weir_free(step->account, step, sizeof(*step));
}

static void lane_free(void *state)
{
	struct project_lane *lane = state;
	uint32_t count = lane->step->output_count;

	weir_evaluator_free(lane->evaluator);
	weir_free(&lane->account, lane->columns, count * sizeof(*lane->columns));
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct project_step *step = state;
	struct project_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "project", err);
	int code = WEIR_OK;

	if (!lane)
		return err->code;
	lane->step = step;
	lane->columns = weir_alloc_zero(&lane->account, step->output_count * sizeof(*lane->columns), err);
	if (!lane->columns)
		code = err->code;
	if (!code && step->program)
		code = weir_evaluator_new(&lane->account, step->program, &lane->evaluator, err);
	if (code) {
		lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct project_lane *lane = state;

	(void)err;
	if (lane->evaluator)
		weir_evaluator_split(lane->evaluator, split->number, split->place);
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct project_lane *lane = state;
	const struct project_step *step = lane->step;

	/* Expressions first: what they decode in the input is then passed on decoded. */
	if (lane->evaluator)
		weir_evaluator_begin(lane->evaluator, vector);
	for (uint32_t i = 0; i < step->output_count; i++) {
		if (step->inputs[i] < 0) {
			int code = weir_evaluator_root(lane->evaluator, vector, step->roots[i], &lane->columns[i], err);

			if (code)
				return code;
		}
	}
	for (uint32_t i = 0; i < step->output_count; i++) {
		if (step->inputs[i] >= 0)
			lane->columns[i] = vector->columns[step->inputs[i]];
	}
	vector->columns = lane->columns;
	vector->column_count = step->output_count;
	*progress = WEIR_HAVE_OUTPUT;
	return WEIR_OK;
}

/* One table a verb, so that stats speak of the verb that was written. */
#define STEP_OPS(verb)                                                                                                 \
	{                                                                                                              \
		.name = (verb), .lane_new = lane_new, .split_begin = split_begin, .push = push,                        \
		.lane_free = lane_free, .free = step_free                                                              \
	}

static const struct weir_step_ops select_ops = STEP_OPS("select"), with_ops = STEP_OPS("with"),
				  rename_ops = STEP_OPS("rename"), drop_ops = STEP_OPS("drop");

static const struct weir_step_ops *step_ops_of(const struct weir_op *op)
{
	return op == &weir_op_select ? &select_ops
	       : op == &weir_op_with ? &with_ops
	       : op == &weir_op_drop ? &drop_ops
				     : &rename_ops;
}

/* Output i is an expression. */
static int add_root(struct project_step *step, const struct weir_expr *expr, const struct weir_schema *input,
		    uint32_t i, struct weir_error *err)
{
	return step->program ? weir_program_extend(step->program, expr, &step->roots[i], err)
			     : weir_program_new(step->account, expr, input, &step->program, err);
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct project_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct project_step *step = weir_alloc_zero(env->account, sizeof(*step), err);
	bool *passed = weir_arena_alloc_zero(env->arena, input->field_count + 1, err);
	int code = step && passed ? WEIR_OK : err->code;

	if (!step)
		return code;
	step->account = env->account;
	step->output_count = config->output_count;
	step->roots = weir_alloc_zero(env->account, step->output_count * sizeof(*step->roots), err);
	step->inputs = weir_alloc_zero(env->account, step->output_count * sizeof(*step->inputs), err);
	if (!step->roots || !step->inputs)
		code = err->code;
	for (uint32_t i = 0; !code && i < config->output_count; i++) {
		const struct output *output = &config->outputs[i];
		struct weir_expr *column;

		step->inputs[i] = output->input;
		if (output->input < 0) {
			code = add_root(step, output->expr, input, i, err);
		} else if (passed[output->input]) {
			/* An undecoded column is decoded once, so the second use of it goes through an expression. */
			column = weir_expr_column(env->account, input->fields[output->input].name, err);
			code = column ? add_root(step, column, input, i, err) : err->code;
			step->inputs[i] = -1;
			weir_expr_free(column);
		} else {
			passed[output->input] = true;
		}
	}
	if (code) {
		step_free(step);
		return code;
	}
	return weir_fragment_step(fragment, step_ops_of(node->op), step, err);
}

#define PROJECT_TABLE                                                                                                  \
	.inputs_min = 1, .inputs_max = 1, .parse = parse, .bind = bind, .describe = describe, .save = save,            \
	.load = load, .build = build,                                                                                  \
	.rules = {.needs = needs, .narrow = narrow, .filter_below = filter_below, .one_to_one = true}

const struct weir_op weir_op_select = {
	.verb = "select",
	.usage = "select COLUMN|NAME=EXPRESSION, …",
	.help = "Gives exactly these columns, in this order. A new column is NAME = EXPRESSION.\n"
		"\n"
		"  weir read data/ then select orderkey,price\n"
		"  weir read data/ then select 'orderkey, total = price * (1 - discount)'\n",
	PROJECT_TABLE,
};

const struct weir_op weir_op_with = {
	.verb = "with",
	.usage = "with NAME=EXPRESSION, …",
	.help = "Adds columns, or replaces columns that have the name already. Each expression sees the input's columns.\n"
		"\n"
		"  weir read data/ then with 'total = price * (1 - discount), year = shipdate.year()'\n",
	PROJECT_TABLE,
};

const struct weir_op weir_op_rename = {
	.verb = "rename",
	.usage = "rename OLD=NEW, …",
	.help = "Gives columns new names.\n"
		"\n"
		"  weir read data/ then rename price=amount,flag=state\n",
	PROJECT_TABLE,
};

const struct weir_op weir_op_drop = {
	.verb = "drop",
	.usage = "drop COLUMN, …",
	.help = "Leaves columns out.\n"
		"\n"
		"  weir read data/ then drop comment,tax\n",
	PROJECT_TABLE,
};
