/* repartition: the same rows in pieces that somebody asked for, which are splits of what follows, and so files of what
 * is written. By number or by size the rows stay in order; by keys, rows that are equal in them come into one piece.
 * How is in ordered.c: without keys all rows are alike and an order keeps them as they are, with keys the order is that
 * of the pieces' numbers (parted.c). */
#include "ops/ops_impl.h"
#include "ops/exchange/ordered.h"
#include "ops/exchange/parted.h"
#include "ops/exchange/rows.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 1 << 20 };

struct repartition_config {
	int64_t blocks, rows; /* one of them is not 0 */
	uint32_t count;
	const char **names; /* of the keys */
	bool sorts;         /* pieces are in the order of the keys, not in input order */
	const char *mark;   /* a column with the number of the piece; NULL: none */
};

static const char *const option_names[] = {"blocks=", "rows-per-block=", "keys=", "sort", "mark=", NULL};
#define USAGE "repartition --blocks N [--keys COLUMN,… [--sort] [--mark NAME]] | --rows-per-block N"

static int parse_number(const struct weir_words *words, const char *name, int64_t most, int64_t *out,
			struct weir_error *err)
{
	const char *text = weir_words_option(words, name);
	char *end;

	*out = 0;
	if (!text)
		return WEIR_OK;
	*out = strtoll(text, &end, 10);
	if (*end || !*text || *out < 1 || *out > most)
		return weir_error_set(err, WEIR_E_INVALID, "--%s wants a number from 1 to %lld, not '%s'", name,
				      (long long)most, text);
	return WEIR_OK;
}

static int parse_keys(struct weir_op_env *env, struct repartition_config *config, const char *text,
		      struct weir_error *err)
{
	const char *const *parts;
	uint32_t count = 0;
	int code = weir_words_split(env, text, &parts, &count, err);

	if (code)
		return code;
	config->names = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->names), err);
	if (!config->names)
		return err->code;
	for (; config->count < count; config->count++) {
		const char *name = weir_words_name(env, parts[config->count],
						   parts[config->count] + strlen(parts[config->count]), err);

		if (!name)
			return err->code;
		config->names[config->count] = name;
	}
	return count ? WEIR_OK : weir_error_set(err, WEIR_E_INVALID, "--keys wants at least one column");
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct repartition_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, USAGE, 0, 0, option_names, err) : err->code;
	const char *keys = code ? NULL : weir_words_option(words, "keys");
	const char *mark = code ? NULL : weir_words_option(words, "mark");

	if (!code)
		code = parse_number(words, "blocks", PARTS_MAX, &config->blocks, err);
	if (!code)
		code = parse_number(words, "rows-per-block", INT64_MAX, &config->rows, err);
	if (!code && keys)
		code = parse_keys(env, config, keys, err);
	if (code)
		return code;
	node->config = config;
	config->sorts = weir_words_option(words, "sort") != NULL;
	if (mark) {
		config->mark = weir_arena_strdup(env->arena, mark, err);
		if (!config->mark)
			return err->code;
	}
	if (!config->blocks == !config->rows)
		return weir_error_set(err, WEIR_E_INVALID, "repartition wants either --blocks or --rows-per-block");
	if (keys && config->rows)
		return weir_error_set(err, WEIR_E_INVALID,
				      "repartition by --keys wants --blocks: --rows-per-block counts rows off");
	if (!keys && (config->sorts || mark))
		return weir_error_set(err, WEIR_E_INVALID, "repartition takes --%s only with --keys",
				      mark ? "mark" : "sort");
	return WEIR_OK;
}

static int check_key(const struct repartition_config *config, const struct weir_schema *schema, const char *key,
		     struct weir_error *err)
{
	char name[64];
	uint32_t column;
	const struct weir_type *type;
	int code = weir_schema_find(schema, key, &column, err);

	if (code)
		return code;
	type = schema->fields[column].type;
	if (weir_row_type_is_key(type) && (!config->sorts || weir_key_type_has_order(type)))
		return WEIR_OK;
	weir_error_set(err, WEIR_E_TYPE, "column '%s' is of type %s, which %s", key,
		       weir_type_name(type, name, sizeof(name)), config->sorts ? "has no order" : "is no key");
	weir_error_at_column(err, key);
	return err->code;
}

/* The rows' columns and the number of their piece. */
static struct weir_schema *marked(struct weir_op_env *env, const struct weir_schema *schema, const char *mark,
				  struct weir_error *err)
{
	struct weir_field *fields = weir_arena_alloc(env->arena, (schema->field_count + 1) * sizeof(*fields), err);
	struct weir_schema *made;

	if (!fields)
		return NULL;
	memcpy(fields, schema->fields, schema->field_count * sizeof(*fields));
	fields[schema->field_count] = (struct weir_field){.name = mark, .type = weir_type_of(WEIR_UINT64)};
	made = weir_schema_new(env->account, fields, schema->field_count + 1, &schema->metadata, err);
	return made && !weir_op_keep_schema(env, made, err) ? made : NULL;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct repartition_config *config = node->config;
	const struct weir_node *input = node->inputs[0];
	int code = WEIR_OK;

	for (uint32_t i = 0; i < config->count && !code; i++)
		code = check_key(config, input->schema, config->names[i], err);
	for (uint32_t i = 0; config->mark && i < input->schema->field_count && !code; i++)
		if (!strcmp(input->schema->fields[i].name, config->mark))
			code = weir_error_set(err, WEIR_E_INVALID,
					      "there is a column '%s' already: --mark wants another name",
					      config->mark);
	if (code)
		return code;
	node->rows_est = input->rows_est;
	node->bytes_est = input->bytes_est;
	node->schema = config->mark ? marked(env, input->schema, config->mark, err) : input->schema;
	return node->schema ? WEIR_OK : err->code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct repartition_config *config = node->config;
	int code = config->blocks ? weir_text_printf(out, err, "repartition into %lld", (long long)config->blocks)
				  : weir_text_printf(out, err, "repartition by %lld rows", (long long)config->rows);

	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_text_printf(out, err, "%s%s", i ? ", " : " by ", config->names[i]);
	if (!code && config->sorts)
		code = weir_text_puts(out, ", sorted", err);
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct repartition_config *config = node->config;
	int code = weir_save_i64(save, config->blocks, err);

	if (!code)
		code = weir_save_i64(save, config->rows, err);
	if (!code)
		code = weir_save_u32(save, config->sorts, err);
	if (!code)
		code = weir_save_string(save, config->mark, err);
	if (!code)
		code = weir_save_u32(save, config->count, err);
	for (uint32_t i = 0; i < config->count && !code; i++)
		code = weir_save_string(save, config->names[i], err);
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct repartition_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t sorts = 0, count = 0;
	int code = config ? weir_load_i64(load, &config->blocks, err) : err->code;

	if (!code)
		code = weir_load_i64(load, &config->rows, err);
	if (!code)
		code = weir_load_u32(load, &sorts, err);
	if (!code)
		code = weir_load_string(load, &config->mark, err);
	if (!code)
		code = weir_load_count(load, 4, &count, err);
	if (!code) {
		config->names = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->names), err);
		code = config->names ? WEIR_OK : err->code;
	}
	for (; !code && config->count < count; config->count++) {
		code = weir_load_string(load, &config->names[config->count], err);
		if (!code && !config->names[config->count])
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan cuts by a column without a name");
	}
	if (!code &&
	    (sorts > 1 || config->blocks < 0 || config->blocks > PARTS_MAX || config->rows < 0 ||
	     !config->blocks == !config->rows || (config->rows && count) || (!count && (sorts || config->mark))))
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan cuts into pieces that there cannot be");
	if (code)
		return code;
	config->sorts = sorts;
	node->config = config;
	return WEIR_OK;
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct repartition_config *config = node->config;
	int code = weir_op_needs_same(env, node, input, wanted, needed, err);

	return code ? code : weir_op_needs_names(node->inputs[0]->schema, config->names, config->count, needed, err);
}

/* The mark stays, whatever the input has left. */
static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	const struct repartition_config *config = node->config;

	if (!config->mark)
		return weir_op_narrow_same(env, node, narrowing, kept, err);
	for (uint32_t i = 0; i + 1 < kept->count; i++)
		kept->wanted[i] = narrowing->kept[0].wanted[i];
	kept->wanted[kept->count - 1] = true;
	node->schema = marked(env, node->inputs[0]->schema, config->mark, err);
	return node->schema ? WEIR_OK : err->code;
}

static int build_keys(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		      struct weir_error *err)
{
	const struct repartition_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct weir_schema *numbered = config->mark ? node->schema : marked(env, input, "", err);
	uint32_t *columns = weir_arena_alloc_zero(env->arena, (config->count + 1) * sizeof(*columns), err);
	struct weir_key *keys = weir_arena_alloc_zero(env->arena, (config->count + 1) * sizeof(*keys), err);
	int code = numbered && columns && keys ? WEIR_OK : err->code;

	if (code)
		return code;
	keys[0] = (struct weir_key){.column = input->field_count, .type = weir_type_of(WEIR_UINT64)};
	for (uint32_t i = 0; i < config->count && !code; i++) {
		code = weir_schema_find(input, config->names[i], &columns[i], err);
		if (!code)
			keys[i + 1] = (struct weir_key){.column = columns[i],
							.type = weir_type_values(input->fields[columns[i]].type)};
	}
	if (!code)
		code = weir_parted_step(env, fragment, input, columns, config->count, (uint64_t)config->blocks, err);
	if (!code)
		code = weir_ordered_cut(env, fragment, numbered,
					&(struct weir_ordering){.keys = keys,
								.key_count = 1 + (config->sorts ? config->count : 0),
								.name = "repartition",
								.limit = -1,
								.part_count = config->blocks},
					err);
	return code || config->mark ? code : weir_parted_hide(env, fragment, err);
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct repartition_config *config = node->config;

	if (config->count)
		return build_keys(env, node, fragment, err);
	return weir_ordered_cut(
		env, fragment, node->schema,
		&(struct weir_ordering){
			.name = "repartition", .limit = -1, .part_count = config->blocks, .part_rows = config->rows},
		err);
}

const struct weir_op weir_op_repartition = {
	.verb = "repartition",
	.usage = USAGE,
	.help = "Cuts the same rows into other pieces; writing a folder makes a file for each. All rows are kept first, on disk if\n"
		"they do not fit into memory. Without keys they stay in order.\n"
		"\n"
		"  --blocks N           N pieces, whose sizes differ by at most one row\n"
		"  --rows-per-block N   pieces of N rows, except the last\n"
		"  --keys A,B           with --blocks: rows that are equal in these columns come into the same piece\n"
		"  --sort               with --keys: each piece in the order of these columns\n"
		"  --mark NAME          with --keys: a column with the number of the piece\n"
		"\n"
		"  weir read data/ then repartition --blocks 8 then write eight/\n"
		"  weir read orders/ then repartition --blocks 16 --keys customer --sort then write by_customer/\n",
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
