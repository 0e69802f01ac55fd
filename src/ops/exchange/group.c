/* group KEYS FUNCTION(COLUMN) …: one row for each combination of keys; unique COLUMNS: the same without functions. How
 * is in hashed.c; in segments.c where a function needs all values of a group, but for quantiles of values that can be
 * held. */
#include "ops/exchange/accumulate.h"
#include "ops/exchange/hashed.h"
#include "ops/exchange/segments.h"

#include <string.h>

struct group_config {
	uint32_t count;
	const char **names; /* of keys */
	bool all;           /* every column is a key */
	struct weir_aggregates aggregates;
};

/* ---- plan ---- */

static struct group_config *config_new(struct weir_op_env *env, struct weir_node *node, uint32_t count,
				       struct weir_error *err)
{
	struct group_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return NULL;
	config->names = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->names), err);
	node->config = config;
	return config->names ? config : NULL;
}

static int add_key(struct group_config *config, const char *name, struct weir_error *err)
{
	for (uint32_t i = 0; i < config->count; i++) {
		if (strcmp(config->names[i], name) == 0)
			return weir_error_set(err, WEIR_E_INVALID, "'%s' is a key twice", name);
	}
	config->names[config->count++] = name;
	return WEIR_OK;
}

/* "a, b" and so on, from one word or several. */
static int parse_keys(struct weir_op_env *env, struct weir_node *node, const char *const *words, uint32_t word_count,
		      struct group_config **out, struct weir_error *err)
{
	struct group_config *config;
	uint32_t capacity = 0, count;
	const char *const *parts;
	int code = WEIR_OK;

	for (uint32_t w = 0; w < word_count; w++) {
		for (const char *p = words[w]; *p; p++)
			capacity += *p == ',';
		capacity++;
	}
	config = *out = config_new(env, node, capacity, err);
	if (!config)
		return err->code;
	for (uint32_t w = 0; w < word_count && !code; w++) {
		if (!words[w][strspn(words[w], " \t\n")])
			continue;
		code = weir_words_split(env, words[w], &parts, &count, err);
		for (uint32_t i = 0; i < count && !code; i++) {
			const char *name = weir_words_name(env, parts[i], parts[i] + strlen(parts[i]), err);

			code = name ? add_key(config, name, err) : err->code;
		}
	}
	return code;
}

static int parse_group(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		       struct weir_error *err)
{
	struct group_config *config;
	struct weir_words items = *words;
	int code = weir_words_expect(words, node->op->usage, 1, UINT32_MAX, NULL, err);

	if (!code)
		code = parse_keys(env, node, words->words, 1, &config, err);
	if (code)
		return code;
	items.words++;
	items.count--;
	code = weir_aggregates_parse(env, &items, &config->aggregates, err);
	if (!code && !config->count && !config->aggregates.item_count)
		code = weir_error_set(err, WEIR_E_INVALID, "neither keys nor functions (usage: %s)", node->op->usage);
	return code;
}

static int parse_unique(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
			struct weir_error *err)
{
	struct group_config *config;
	struct weir_words none = {0};
	int code = weir_words_expect(words, node->op->usage, 0, UINT32_MAX, NULL, err);

	if (!code)
		code = parse_keys(env, node, words->words, words->count, &config, err);
	if (code)
		return code;
	config->all = !config->count;
	return weir_aggregates_parse(env, &none, &config->aggregates, err);
}

/* The columns that are keys, by number. */
static int find_keys(struct weir_op_env *env, const struct weir_node *node, const uint32_t **out, uint32_t *count,
		     struct weir_error *err)
{
	const struct group_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	uint32_t *keys;

	*count = config->all ? input->field_count : config->count;
	keys = weir_arena_alloc_zero(env->arena, (*count + 1) * sizeof(*keys), err);
	*out = keys;
	for (uint32_t i = 0; keys && i < *count; i++) {
		int code = WEIR_OK;
		char name[96];

		keys[i] = i;
		if (!config->all)
			code = weir_schema_find(input, config->names[i], &keys[i], err);
		if (code)
			return code;
		if (!weir_row_type_is_key(input->fields[keys[i]].type)) {
			code = weir_error_set(err, WEIR_E_TYPE,
					      "column '%s' is of type %s: lists and maps cannot be keys",
					      input->fields[keys[i]].name,
					      weir_type_name(input->fields[keys[i]].type, name, sizeof(name)));
			weir_error_at_column(err, input->fields[keys[i]].name);
			return code;
		}
	}
	return keys ? WEIR_OK : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct group_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	uint32_t items = config->aggregates.item_count, key_count = 0;
	const uint32_t *keys = NULL;
	struct weir_field *fields = NULL;
	int code = find_keys(env, node, &keys, &key_count, err);

	if (code)
		return code;
	fields = weir_arena_alloc_zero(env->arena, (key_count + items + 1) * sizeof(*fields), err);
	if (!fields)
		return err->code;
	for (uint32_t k = 0; k < key_count; k++)
		fields[k] = input->fields[keys[k]];
	for (uint32_t i = 0; i < items && !code; i++) {
		for (uint32_t k = 0; k < key_count && !code; k++) {
			if (strcmp(config->aggregates.items[i].name, fields[k].name) == 0)
				code = weir_error_set(err, WEIR_E_INVALID, "a result would be named '%s' like a key",
						      fields[k].name);
		}
	}
	if (!code)
		code = weir_aggregates_fields(&config->aggregates, input, env->account, fields + key_count, err);
	if (!code) {
		node->schema = weir_schema_new(env->account, fields, key_count + items,
					       config->all ? &input->metadata : &(struct weir_metadata){0}, err);
		code = node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
	}
	for (uint32_t i = 0; i < items; i++)
		weir_type_unref(fields[key_count + i].type);
	node->rows_est = key_count ? -1 : 1;
	node->bytes_est = -1;
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct group_config *config = node->config;
	int code = weir_text_puts(out, node->op->verb, err);

	if (!code && !config->count)
		code = weir_text_puts(out, config->all ? " all columns" : " everything", err);
	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_text_printf(out, err, "%s%s", i ? ", " : " ", config->names[i]);
	if (!code && config->aggregates.item_count)
		code = weir_text_puts(out, ":", err);
	return code ? code : weir_aggregates_describe(&config->aggregates, out, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct group_config *config = node->config;
	int code = weir_save_u32(save, config->all, err);

	if (!code)
		code = weir_save_u32(save, config->count, err);
	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_save_string(save, config->names[i], err);
	return code ? code : weir_aggregates_save(&config->aggregates, save, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct group_config *config;
	uint32_t all = 0, count = 0;
	int code = weir_load_u32(load, &all, err);

	if (!code)
		code = weir_load_count(load, 4, &count, err);
	if (code)
		return code;
	config = config_new(env, node, count, err);
	if (!config)
		return err->code;
	config->all = all != 0;
	for (uint32_t i = 0; i < count && !code; i++) {
		const char *name = NULL;

		code = weir_load_string(load, &name, err);
		if (!code)
			code = name ? add_key(config, name, err)
				    : weir_error_set(err, WEIR_E_DATA,
						     "the saved plan groups by a column without a name");
	}
	return code ? code : weir_aggregates_load(env, load, &config->aggregates, err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct group_config *config = node->config;
	const uint32_t *keys;
	uint32_t count;
	int code = find_keys(env, node, &keys, &count, err);

	(void)input;
	(void)wanted;
	for (uint32_t i = 0; !code && i < count; i++)
		needed->wanted[keys[i]] = true;
	return code ? code : weir_aggregates_needs(&config->aggregates, node->inputs[0]->schema, needed, err);
}

/* What is asked of keys alone can be asked of rows. */
static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	const struct group_config *config = node->config;
	struct weir_columns read = {.count = node->schema->field_count};
	uint32_t keys = config->all ? read.count : config->count;
	int code;

	(void)input;
	*out = NULL;
	if (!keys || weir_expr_is_volatile(predicate))
		return WEIR_OK;
	read.wanted = weir_arena_alloc_zero(env->arena, read.count + 1, err);
	if (!read.wanted)
		return err->code;
	code = weir_op_mark_columns(predicate, node->schema, &read, err);
	for (uint32_t i = keys; i < read.count && !code; i++) {
		if (read.wanted[i])
			return WEIR_OK;
	}
	return code ? code : weir_expr_clone(predicate, env->account, out, err);
}

enum { HELD_SHARE = 32 };

/* Whether the plan tells that all values of all groups take a small part of the memory, so that any group can be held
 * whatever keys there are. Estimates are far off at times, hence a small part. */
static bool can_hold(const struct weir_op_env *env, const struct weir_node *node)
{
	const struct group_config *config = node->config;
	const struct weir_node *below = node->inputs[0];
	int64_t rows = 0;

	/* What a filter lets pass is a guess; the most that is known below it is not exceeded. */
	for (;; below = below->inputs[0]) {
		if (below->rows_est < 0)
			return false;
		rows = below->rows_est > rows ? below->rows_est : rows;
		if (!below->inputs[0] || below->inputs[1])
			break;
	}
	return rows <
	       env->keeping.memory_limit / HELD_SHARE / (int64_t)sizeof(double) / (config->aggregates.column_count + 1);
}

/* Whether some item needs the values of a group in order. */
static bool is_ordered(const struct weir_op_env *env, const struct weir_node *node)
{
	const struct group_config *config = node->config;
	const struct weir_aggregates *aggregates = &config->aggregates;
	const struct weir_schema *schema = node->inputs[0]->schema;
	bool holds = aggregates->is_holistic && can_hold(env, node);

	for (uint32_t i = 0; aggregates->is_holistic && i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		struct weir_error ignored = {0};
		uint32_t column = 0;

		if (!item->column || weir_schema_find(schema, item->column, &column, &ignored))
			continue;
		if (!weir_accumulators_take_type(item, weir_type_values(schema->fields[column].type)) &&
		    !(holds && weir_accumulators_list_type(item, weir_type_values(schema->fields[column].type))))
			return true;
	}
	return false;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct group_config *config = node->config;
	struct weir_grouping grouping = {
		.name = node->op->verb, .aggregates = &config->aggregates, .output = node->schema};
	int code = find_keys(env, node, &grouping.keys, &grouping.key_count, err);

	if (code)
		return code;
	if (is_ordered(env, node))
		return weir_segments_cut(env, fragment, node->inputs[0]->schema, grouping.keys, grouping.key_count,
					 &config->aggregates, node->schema, err);
	return weir_hashed_cut(env, fragment, node->inputs[0]->schema, &grouping, err);
}

const struct weir_op weir_op_group = {
	.verb = "group",
	.usage = "group KEYS [[NAME=]FUNCTION(COLUMN[, nulls]) …]",
	.help = "One row for each combination of values of the keys, with the results of functions over the rows that have it:\n"
		"count, sum, min, max, absmax, mean, std, missing_percent, zero_percent, quantile, unique, count_distinct, list,\n"
		"value_counts, approx_quantile and approx_top_k. Functions ignore nulls; with 'nulls' after the column a null makes\n"
		"the result null. Null is a key like any other, and so is NaN. Without functions you get the keys alone; with '' as\n"
		"keys, one row about all rows. Rows come in no particular order. What does not fit into memory goes to disk.\n"
		"\n"
		"  weir read orders/ then group 'flag, day' 'n = count() total = sum(price)' then write out/\n"
		"  weir read orders/ then group flag 'quantile(price, 0.9)' 'count_distinct(customer)'\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse_group,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_nothing, .filter_below = filter_below},
};

const struct weir_op weir_op_unique = {
	.verb = "unique",
	.usage = "unique [COLUMN, …]",
	.help = "Each combination of values of some columns once; without columns, each row once. Null is a value like any other, and\n"
		"so is NaN. Rows come in no particular order. What does not fit into memory goes to disk.\n"
		"\n"
		"  weir read orders/ then unique customer then count\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse_unique,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_nothing, .filter_below = filter_below},
};
