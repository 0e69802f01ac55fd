/* sort KEY, …: all rows in the order of some columns. Stable: rows with equal keys stay in input order. How is in
 * ordered.c. top N by KEY, …: the first rows of that order, with what is greatest in front. */
#include "ops/ops_impl.h"
#include "ops/exchange/ordered.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sort_config {
	uint32_t count;
	const char **names;
	bool *descending;
	int64_t top;   /* of the verb top: how many rows; −1: sort */
	int64_t limit; /* −1: none */
};

/* ---- plan ---- */

static bool ends_in(const char *text, const char *word, size_t *length)
{
	size_t size = strlen(word), all = *length;

	if (all <= size || strncasecmp(text + all - size, word, size) ||
	    (text[all - size - 1] != ' ' && text[all - size - 1] != '\t'))
		return false;
	*length = all - size - 1;
	return true;
}

static int parse_key(struct weir_op_env *env, const char *text, struct sort_config *config, struct weir_error *err)
{
	size_t length = strlen(text);
	bool is_descending = ends_in(text, "desc", &length);

	if (!is_descending)
		is_descending = !ends_in(text, "asc", &length) && config->top >= 0;
	config->names[config->count] = weir_words_name(env, text, text + length, err);
	if (!config->names[config->count])
		return err->code;
	config->descending[config->count++] = is_descending;
	return WEIR_OK;
}

static struct sort_config *config_new(struct weir_op_env *env, uint32_t count, struct weir_error *err)
{
	struct sort_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return NULL;
	config->limit = config->top = -1;
	config->names = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->names), err);
	if (!config->names)
		return NULL;
	config->descending = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->descending), err);
	return config->descending ? config : NULL;
}

/* The words from `first` on are keys. */
static int parse_keys(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words, uint32_t first,
		      int64_t top, struct weir_error *err)
{
	struct sort_config *config;
	const char *const **parts;
	uint32_t *counts, count = 0;
	int code = WEIR_OK;

	parts = weir_arena_alloc_zero(env->arena, words->count * sizeof(*parts), err);
	counts = parts ? weir_arena_alloc_zero(env->arena, words->count * sizeof(*counts), err) : NULL;
	if (!counts)
		return err->code;
	for (uint32_t i = first; i < words->count && !code; i++) {
		code = weir_words_split(env, words->words[i], &parts[i], &counts[i], err);
		count += counts[i];
	}
	if (code)
		return code;
	config = config_new(env, count, err);
	if (!config)
		return err->code;
	config->top = top;
	for (uint32_t i = first; i < words->count && !code; i++)
		for (uint32_t k = 0; k < counts[i] && !code; k++)
			code = parse_key(env, parts[i][k], config, err);
	node->config = config;
	return code;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	int code = weir_words_expect(words, node->op->usage, 1, UINT32_MAX, NULL, err);

	return code ? code : parse_keys(env, node, words, 0, -1, err);
}

static int parse_top(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		     struct weir_error *err)
{
	int code = weir_words_expect(words, node->op->usage, 2, UINT32_MAX, NULL, err);
	uint32_t first = !code && !strcmp(words->words[1], "by") ? 2 : 1;
	int64_t top;
	char *end;

	if (code)
		return code;
	top = strtoll(words->words[0], &end, 10);
	if (*end || !words->words[0][0] || top < 0)
		return weir_error_set(err, WEIR_E_INVALID, "top wants a number of rows, not '%s'", words->words[0]);
	if (first == words->count)
		return weir_error_set(err, WEIR_E_INVALID, "top wants at least one column: %s", node->op->usage);
	return parse_keys(env, node, words, first, top, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct sort_config *config = node->config;
	const struct weir_node *input = node->inputs[0];
	int code = weir_op_check_types(input->schema, config->names, config->count, weir_key_type_has_order,
				       "which has no order", err);

	(void)env;
	if (!code)
		code = weir_op_check_no_objects(input->schema, config->names, config->count, "have no order", err);
	if (code)
		return code;
	config->limit = config->top;
	node->schema = input->schema;
	node->rows_est = config->top >= 0 && config->top < input->rows_est ? config->top : input->rows_est;
	node->bytes_est = input->bytes_est;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct sort_config *config = node->config;
	int code = config->top < 0 ? weir_text_puts(out, "sort ", err)
				   : weir_text_printf(out, err, "top %lld by ", (long long)config->top);

	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_text_printf(out, err, "%s%s%s", i ? ", " : "", config->names[i],
					config->descending[i] ? " desc" : "");
	if (!code && config->limit >= 0 && config->limit != config->top)
		code = weir_text_printf(out, err, " (the first %lld)", (long long)config->limit);
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct sort_config *config = node->config;
	int code = weir_save_u32(save, config->count, err);

	for (uint32_t i = 0; i < config->count && !code; i++) {
		code = weir_save_string(save, config->names[i], err);
		if (!code)
			code = weir_save_u32(save, config->descending[i], err);
	}
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct sort_config *config;
	uint32_t count;
	int code = weir_load_count(load, 8, &count, err);

	if (code)
		return code;
	if (count == 0)
		return weir_error_set(err, WEIR_E_DATA, "the saved plan sorts by nothing");
	config = config_new(env, count, err);
	if (!config)
		return err->code;
	for (; config->count < count && !code; config->count++) {
		uint32_t descending = 0;

		code = weir_load_string(load, &config->names[config->count], err);
		if (!code)
			code = weir_load_u32(load, &descending, err);
		if (!code && (!config->names[config->count] || descending > 1))
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan sorts by a column without a name");
		config->descending[config->count] = descending;
	}
	node->config = config;
	return code;
}

static int save_top(const struct weir_node *node, struct weir_save *to, struct weir_error *err)
{
	int code = weir_save_i64(to, ((const struct sort_config *)node->config)->top, err);

	return code ? code : save(node, to, err);
}

static int load_top(struct weir_op_env *env, struct weir_node *node, struct weir_load *from, struct weir_error *err)
{
	int64_t top = 0;
	int code = weir_load_i64(from, &top, err);

	if (!code)
		code = top >= 0 ? load(env, node, from, err)
				: weir_error_set(err, WEIR_E_DATA, "the saved plan wants fewer rows than none");
	if (!code)
		((struct sort_config *)node->config)->top = top;
	return code;
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct sort_config *config = node->config;
	int code = weir_op_needs_same(env, node, input, wanted, needed, err);

	return code ? code : weir_op_needs_names(node->inputs[0]->schema, config->names, config->count, needed, err);
}

static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	(void)node;
	(void)input;
	return weir_expr_clone(predicate, env->account, out, err);
}

static int absorb_limit(struct weir_op_env *env, struct weir_node *node, int64_t rows, struct weir_error *err)
{
	struct sort_config *config = node->config;

	(void)env;
	(void)err;
	if (config->limit < 0 || rows < config->limit)
		config->limit = rows;
	return WEIR_OK;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct sort_config *config = node->config;
	struct weir_key *keys = weir_arena_alloc_zero(env->arena, (config->count + 1) * sizeof(*keys), err);
	int code = keys ? WEIR_OK : err->code;

	for (uint32_t i = 0; i < config->count && !code; i++) {
		keys[i].is_descending = config->descending[i];
		code = weir_schema_find(node->schema, config->names[i], &keys[i].column, err);
		if (!code)
			keys[i].type = weir_type_values(node->schema->fields[keys[i].column].type);
	}
	return code ? code
		    : weir_ordered_cut(env, fragment, node->schema,
				       &(struct weir_ordering){.keys = keys,
							       .key_count = config->count,
							       .name = node->op->verb,
							       .limit = config->limit},
				       err);
}

const struct weir_op weir_op_sort = {
	.verb = "sort",
	.usage = "sort COLUMN [desc], …",
	.help = "Sorts all rows by some columns, each ascending unless it says desc. Rows that are equal in them stay in input\n"
		"order. Numbers come before NaN, and NaN before nulls, in both directions; strings are in the order of their bytes.\n"
		"What does not fit into memory goes to disk. With a limit after it, only the first rows are kept.\n"
		"\n"
		"  weir read orders/ then sort 'day, price desc' then write sorted/\n"
		"  weir read orders/ then sort 'price desc' then limit 10\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs,
		  .narrow = weir_op_narrow_same,
		  .filter_below = filter_below,
		  .absorb_limit = absorb_limit},
};

const struct weir_op weir_op_top = {
	.verb = "top",
	.usage = "top N by COLUMN [asc], …",
	.help = "The N rows with the greatest values, the greatest first; with asc those with the smallest. Among equal rows the\n"
		"first ones win. NaN and nulls come last. Each thread keeps no more than N rows.\n"
		"\n"
		"  weir read orders/ then top 10 by price\n"
		"  weir read orders/ then top 5 by 'price asc, day' then write cheapest.csv\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse_top,
	.bind = bind,
	.describe = describe,
	.save = save_top,
	.load = load_top,
	.build = build,
	/* No filter passes: it would let other rows be the first. */
	.rules = {.needs = needs, .narrow = weir_op_narrow_same, .absorb_limit = absorb_limit},
};
