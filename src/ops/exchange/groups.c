/* groups KEYS: all rows, those of a group one after another. A hidden number behind the columns, another one for each
 * group, lets whoever takes the rows tell groups apart without comparing keys; chunks are cut between groups only
 * (ops/chunks.c).
 *
 *     … ─▶ runs    ranges that cut no group apart ─▶ merge ─▶ number ─▶ chunks of whole groups ─▶ functions
 *
 * A number is the range's in the upper bits, and the group's in its range: the same group never has two, no two groups
 * have the same, and nothing else follows from it.
 */
#include "ops/exchange/groups.h"

#include "ops/ops_impl.h"
#include "ops/exchange/ordered.h"
#include "ops/exchange/segment.h"

#include <string.h>

enum { RANGE_SHIFT = 40 };

struct groups_config {
	uint32_t count;
	const char **names;
	const char *mark;
	bool may_cut; /* whoever takes the rows gets along with a part of a group */
};

static const char *const option_names[] = {"mark=", "cut", NULL};

/* ---- plan ---- */

static struct groups_config *config_new(struct weir_op_env *env, uint32_t count, struct weir_error *err)
{
	struct groups_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return NULL;
	config->names = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->names), err);
	return config->names ? config : NULL;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	int code = weir_words_expect(words, node->op->usage, 1, 1, option_names, err);
	const char *const *parts = NULL, *mark = code ? NULL : weir_words_option(words, "mark");
	struct groups_config *config;
	uint32_t count = 0;

	if (!code && words->words[0][strspn(words->words[0], " \t")])
		code = weir_words_split(env, words->words[0], &parts, &count, err);
	if (code)
		return code;
	config = config_new(env, count, err);
	if (!config)
		return err->code;
	for (; config->count < count; config->count++) {
		const char *part = parts[config->count];
		const char *name = weir_words_name(env, part, part + strlen(part), err);

		if (!name)
			return err->code;
		config->names[config->count] = name;
	}
	config->mark = mark ? mark : "group";
	config->may_cut = weir_words_option(words, "cut") != NULL;
	node->config = config;
	return WEIR_OK;
}

/* The input's columns, and the mark behind them. */
static int schema_set(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct groups_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct weir_field *fields = weir_arena_alloc(env->arena, (input->field_count + 1) * sizeof(*fields), err);

	if (!fields)
		return err->code;
	memcpy(fields, input->fields, input->field_count * sizeof(*fields));
	fields[input->field_count] = (struct weir_field){.name = config->mark, .type = weir_type_of(WEIR_INT64)};
	node->schema = weir_schema_new(env->account, fields, input->field_count + 1, &input->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct groups_config *config = node->config;
	const struct weir_node *input = node->inputs[0];
	int code = weir_op_check_types(input->schema, config->names, config->count, weir_key_type_has_groups,
				       "which nothing is grouped by", err);

	if (code)
		return code;
	for (uint32_t i = 0; i < input->schema->field_count; i++)
		if (!strcmp(input->schema->fields[i].name, config->mark))
			return weir_error_set(err, WEIR_E_INVALID,
					      "there is a column '%s' already: --mark wants another name",
					      config->mark);
	node->rows_est = input->rows_est;
	node->bytes_est = input->bytes_est;
	return schema_set(env, node, err);
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct groups_config *config = node->config;
	int code = weir_text_puts(out, config->count ? "groups by " : "groups: all rows are one", err);

	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_text_printf(out, err, "%s%s", i ? ", " : "", config->names[i]);
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct groups_config *config = node->config;
	int code = weir_save_string(save, config->mark, err);

	if (!code)
		code = weir_save_u32(save, config->may_cut, err);
	if (!code)
		code = weir_save_u32(save, config->count, err);
	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_save_string(save, config->names[i], err);
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct groups_config *config;
	const char *mark = NULL;
	uint32_t count = 0, may_cut = 0;
	int code = weir_load_string(load, &mark, err);

	if (!code)
		code = weir_load_u32(load, &may_cut, err);
	if (!code)
		code = weir_load_count(load, 4, &count, err);
	if (code)
		return code;
	config = config_new(env, count, err);
	if (!config)
		return err->code;
	for (; config->count < count && !code; config->count++) {
		code = weir_load_string(load, &config->names[config->count], err);
		if (!code && !config->names[config->count])
			break;
	}
	if (!code && (!mark || config->count < count))
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan groups by a column without a name");
	config->mark = mark;
	config->may_cut = may_cut != 0;
	node->config = config;
	return code;
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct groups_config *config = node->config;
	int code = weir_op_needs_same(env, node, input, wanted, needed, err);

	return code ? code : weir_op_needs_names(node->inputs[0]->schema, config->names, config->count, needed, err);
}

static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	for (uint32_t i = 0; i + 1 < kept->count; i++)
		kept->wanted[i] = narrowing->kept[0].wanted[i];
	kept->wanted[kept->count - 1] = true;
	return schema_set(env, node, err);
}

/* ---- running ---- */

struct groups_step {
	struct weir_account *account;
	uint32_t column_count; /* of the input */
	struct weir_key_columns columns;
};

struct groups_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	const struct groups_step *step;
	struct weir_segmenter segmenter;
	struct weir_column *columns; /* of the vector with one more */
	int64_t number;              /* of the group at hand; the first one's is behind it */
	int64_t numbers[WEIR_VECTOR_ROWS];
};

static void lane_free(void *object)
{
	struct groups_lane *lane = object;
	struct weir_account *account = lane->context->account;

	weir_segmenter_release(&lane->segmenter);
	weir_free(&lane->account, lane->columns,
		  lane->columns ? (lane->step->column_count + 1) * sizeof(*lane->columns) : 0);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct groups_step *step = object;
	struct groups_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "groups");
	lane->context = context;
	lane->step = step;
	weir_segmenter_init(&lane->segmenter, &lane->account, &step->columns);
	lane->columns = weir_alloc_zero(&lane->account, (step->column_count + 1) * sizeof(*lane->columns), err);
	if (!lane->columns) {
		lane_free(lane);
		return err->code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	struct groups_lane *lane = object;

	(void)err;
	weir_segmenter_reset(&lane->segmenter);
	lane->number = ((int64_t)split->number << RANGE_SHIFT) - 1;
	return WEIR_OK;
}

static int push(void *object, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct groups_lane *lane = object;
	const struct weir_segmenter *segmenter = &lane->segmenter;
	uint32_t count = vector->column_count, start = 0;
	int code = weir_segmenter_push(&lane->segmenter, vector, err);

	if (code)
		return code;
	for (uint32_t i = 0; i < vector->selection.count; i++) {
		if (start < segmenter->count && segmenter->starts[start] == i) {
			lane->number++;
			start++;
		}
		lane->numbers[vector->selection.rows ? vector->selection.rows[i] : i] = lane->number;
	}
	WEIR_ASSERT(count == lane->step->column_count);
	memcpy(lane->columns, vector->columns, count * sizeof(*lane->columns));
	lane->columns[count] = (struct weir_column){.type = weir_type_of(WEIR_INT64), .values = lane->numbers};
	vector->columns = lane->columns;
	vector->column_count = count + 1;
	*progress = WEIR_HAVE_OUTPUT;
	return WEIR_OK;
}

static void step_free(void *object)
{
	struct groups_step *step = object;

	weir_free(step->account, (void *)step->columns.keys, (step->columns.count + 1) * sizeof(*step->columns.keys));
	weir_free(step->account, step, sizeof(*step));
}

static const struct weir_step_ops step_ops = {
	.name = "groups",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.lane_free = lane_free,
	.free = step_free,
};

int weir_groups_keys(const struct weir_node *node, struct weir_account *account, struct weir_key_columns *out,
		     struct weir_error *err)
{
	const struct groups_config *config = node->config;
	const struct weir_schema *schema = node->schema;
	struct weir_key *keys = weir_alloc_zero(account, (config->count + 1) * sizeof(*keys), err);
	int code = keys ? WEIR_OK : err->code;

	for (uint32_t i = 0; i < config->count && !code; i++) {
		code = weir_schema_find(schema, config->names[i], &keys[i].column, err);
		if (!code)
			keys[i].type = weir_type_values(schema->fields[keys[i].column].type);
		keys[i].tells_zeros_apart = true; /* as hashing does (rows.h) */
	}
	if (code) {
		weir_free(account, keys, keys ? (config->count + 1) * sizeof(*keys) : 0);
		return code;
	}
	*out = (struct weir_key_columns){
		.count = config->count, .keys = keys, .width = weir_key_columns_width(keys, config->count)};
	return WEIR_OK;
}

bool weir_node_is_groups(const struct weir_node *node)
{
	return node->op == &weir_op_groups && !((const struct groups_config *)node->config)->may_cut;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct weir_schema *input = node->inputs[0]->schema;
	struct groups_step *step = weir_alloc_zero(env->account, sizeof(*step), err);
	int code;

	if (!step)
		return err->code;
	step->account = env->account;
	step->column_count = input->field_count;
	code = weir_groups_keys(node, env->account, &step->columns, err);
	if (code) {
		weir_free(env->account, step, sizeof(*step));
		return code;
	}
	code = weir_ordered_cut(env, fragment, input,
				&(struct weir_ordering){.name = "groups",
							.keys = step->columns.keys,
							.key_count = step->columns.count,
							.limit = -1,
							.keeps_groups = true,
							.group_key_count = step->columns.count},
				err);
	if (code) {
		step_free(step);
		return code;
	}
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_groups = {
	.verb = "groups",
	.usage = "groups COLUMN, … [--mark NAME] [--cut]",
	.help = "Puts rows that are equal in some columns next to each other: groups are in the order of these columns, and the\n"
		"rows of a group in input order. A last column holds a number that differs from group to group. A function that\n"
		"follows gets whole groups. What does not fit into memory goes to disk.\n"
		"\n"
		"  --mark NAME   the name of that last column (group)\n"
		"  --cut         what follows may get parts of groups, so that no group is too large\n"
		"\n"
		"  weir read orders/ then groups 'customer, year' then write by_customer/\n",
	.options = option_names,
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = narrow},
};
