/* join FILE|CHAIN --on KEYS: the plan half; join_run.c runs it.
 *
 * Columns of the result: those of the left side, then those of the right side without its keys; in a right join the
 * keys are the right side's and stand there. A name that both sides have gets a suffix; semi and anti joins have the
 * columns of one side as they are. */
#include "ops/exchange/join.h"

#include "ops/exchange/keys.h"
#include "ops/ops_impl.h"

#include <stdio.h>
#include <string.h>

static const char *const how_names[] = {
	[WEIR_JOIN_INNER] = "inner",         [WEIR_JOIN_LEFT] = "left",
	[WEIR_JOIN_RIGHT] = "right",         [WEIR_JOIN_FULL] = "full",
	[WEIR_JOIN_LEFT_SEMI] = "left_semi", [WEIR_JOIN_RIGHT_SEMI] = "right_semi",
	[WEIR_JOIN_LEFT_ANTI] = "left_anti", [WEIR_JOIN_RIGHT_ANTI] = "right_anti",
};
enum { HOW_COUNT = sizeof(how_names) / sizeof(*how_names), LEFT = WEIR_JOIN_LEFT_SIDE, RIGHT = WEIR_JOIN_RIGHT_SIDE };
enum { PARTITIONS_MAX = 4096, UINT64_DIGITS = 20 };

/* A column of the result, by the names of what it is made of: columns move when others are dropped. */
struct join_column {
	const char *from[WEIR_JOIN_SIDES]; /* NULL: not of that side */
};

struct join_config {
	const char *chain; /* of the second side, as text; NULL when built by a program */
	enum weir_join_how how;
	uint32_t key_count;
	const char *const *keys[WEIR_JOIN_SIDES];
	const char *suffixes[WEIR_JOIN_SIDES]; /* NULL: none given */
	uint32_t partitions;
	/* Made by bind. */
	struct join_column *columns; /* as many as the schema has */
	const struct weir_type **key_types;
};

/* ---- words ---- */

static const char *second_text(const struct weir_node *node)
{
	return ((const struct join_config *)node->config)->chain;
}

static void second_set(struct weir_node *node, struct weir_node *second)
{
	((struct join_config *)node->config)->chain = NULL;
	node->inputs[1] = second;
}

static int parse_keys(struct weir_op_env *env, const char *text, const char *const **out, uint32_t *count,
		      struct weir_error *err)
{
	const char *const *parts;
	const char **names;
	int code = weir_words_split(env, text, &parts, count, err);

	if (code)
		return code;
	names = weir_arena_alloc_zero(env->arena, (*count + 1) * sizeof(*names), err);
	if (!names)
		return err->code;
	for (uint32_t i = 0; i < *count; i++) {
		names[i] = weir_words_name(env, parts[i], parts[i] + strlen(parts[i]), err);
		if (!names[i])
			return err->code;
	}
	*out = names;
	return WEIR_OK;
}

static int parse_how(const char *text, enum weir_join_how *out, struct weir_error *err)
{
	for (uint32_t i = 0; i < HOW_COUNT; i++) {
		if (strcmp(text, how_names[i]) == 0) {
			*out = i;
			return WEIR_OK;
		}
	}
	return weir_error_set(
		err, WEIR_E_INVALID,
		"--how is inner, left, right, full, left_semi, right_semi, left_anti or right_anti, not '%s'", text);
}

/* A path is short for reading it. */
static const char *chain_of(struct weir_op_env *env, const char *word, struct weir_error *err)
{
	size_t length = strcspn(word, " \t\n");
	char verb[16] = "";

	if (length < sizeof(verb))
		memcpy(verb, word, length);
	if (!word[0] || (word[length] && weir_op_find(verb)))
		return weir_arena_strdup(env->arena, word, err);
	return strchr(word, '\'') ? weir_arena_printf(env->arena, err, "read \"%s\"", word)
				  : weir_arena_printf(env->arena, err, "read '%s'", word);
}

static const char *const options[] = {"on=", "right-on=", "how=", "left-suffix=", "right-suffix=", "partitions=", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct join_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, options, err) : err->code;
	const char *on = weir_words_option(words, "on"), *right_on = weir_words_option(words, "right-on");
	const char *how = weir_words_option(words, "how"), *partitions = weir_words_option(words, "partitions");
	uint32_t right_count = 0;
	int64_t count = 0;

	if (code)
		return code;
	node->config = config;
	config->chain = chain_of(env, words->words[0], err);
	if (!config->chain)
		return err->code;
	if (!on)
		return weir_error_set(err, WEIR_E_INVALID, "which columns to join on is not said (usage: %s)",
				      node->op->usage);
	code = parse_keys(env, on, &config->keys[LEFT], &config->key_count, err);
	if (!code)
		code = parse_keys(env, right_on ? right_on : on, &config->keys[RIGHT], &right_count, err);
	if (!code && config->key_count == 0)
		code = weir_error_set(err, WEIR_E_INVALID, "at least one column to join on is needed");
	if (!code && config->key_count != right_count)
		code = weir_error_set(err, WEIR_E_INVALID,
				      "there are %u columns to join on at the left and %u at the right",
				      config->key_count, right_count);
	if (!code && how)
		code = parse_how(how, &config->how, err);
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES && !code; s++) {
		const char *suffix = weir_words_option(words, s == LEFT ? "left-suffix" : "right-suffix");

		config->suffixes[s] = suffix ? weir_arena_strdup(env->arena, suffix, err) : NULL;
		if (suffix && !config->suffixes[s])
			code = err->code;
	}
	if (!code && partitions)
		code = weir_parse_count(partitions, &count, err);
	if (!code && partitions && count < 1)
		code = weir_error_set(err, WEIR_E_INVALID, "--partitions is at least 1, not %lld", (long long)count);
	config->partitions = (uint32_t)(count < PARTITIONS_MAX ? count : PARTITIONS_MAX);
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct join_config *config = node->config;
	int code = weir_save_string(save, config->chain, err);

	if (!code)
		code = weir_save_u32(save, config->how, err);
	if (!code)
		code = weir_save_u32(save, config->partitions, err);
	if (!code)
		code = weir_save_u32(save, config->key_count, err);
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES && !code; s++) {
		for (uint32_t i = 0; i < config->key_count && !code; i++)
			code = weir_save_string(save, config->keys[s][i], err);
		if (!code)
			code = weir_save_string(save, config->suffixes[s], err);
	}
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct join_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t how = 0;
	int code = config ? weir_load_string(load, &config->chain, err) : err->code;

	node->config = config;
	if (!code)
		code = weir_load_u32(load, &how, err);
	if (!code)
		code = weir_load_u32(load, &config->partitions, err);
	if (!code)
		code = weir_load_count(load, 4, &config->key_count, err);
	if (!code && (how >= HOW_COUNT || config->key_count == 0 || config->partitions > PARTITIONS_MAX))
		code = weir_error_set(err, WEIR_E_DATA,
				      "the saved plan joins in a way that this version does not know");
	if (code)
		return code;
	config->how = how;
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES && !code; s++) {
		const char **names = weir_arena_alloc_zero(env->arena, config->key_count * sizeof(*names), err);

		code = names ? WEIR_OK : err->code;
		for (uint32_t i = 0; i < config->key_count && !code; i++) {
			code = weir_load_string(load, &names[i], err);
			if (!code && !names[i])
				code = weir_error_set(err, WEIR_E_DATA,
						      "the saved plan joins on a column without a name");
		}
		config->keys[s] = names;
		if (!code)
			code = weir_load_string(load, &config->suffixes[s], err);
	}
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct join_config *config = node->config;
	int code = weir_text_printf(out, err, "join %s on ", how_names[config->how]);

	for (uint32_t i = 0; i < config->key_count && !code; i++) {
		bool alike = strcmp(config->keys[LEFT][i], config->keys[RIGHT][i]) == 0;

		code = weir_text_printf(out, err, "%s%s%s%s", i ? ", " : "", config->keys[LEFT][i], alike ? "" : " = ",
					alike ? "" : config->keys[RIGHT][i]);
	}
	return code;
}

/* ---- columns ---- */

static bool is_one_sided(enum weir_join_how how)
{
	return how >= WEIR_JOIN_LEFT_SEMI;
}

/* The side whose rows a semi or anti join gives. */
static uint32_t given_side(enum weir_join_how how)
{
	return how == WEIR_JOIN_RIGHT_SEMI || how == WEIR_JOIN_RIGHT_ANTI ? RIGHT : LEFT;
}

static bool has_name(const struct weir_schema *schema, const char *name)
{
	for (uint32_t i = 0; i < schema->field_count; i++) {
		if (strcmp(schema->fields[i].name, name) == 0)
			return true;
	}
	return false;
}

static int64_t key_named(const struct join_config *config, uint32_t side, const char *name)
{
	for (uint32_t i = 0; i < config->key_count; i++) {
		if (strcmp(config->keys[side][i], name) == 0)
			return i;
	}
	return -1;
}

/* Whether both sides have a column of that name, the right one not as a key. */
static bool clashes(const struct weir_node *node, const char *name)
{
	return has_name(node->inputs[LEFT]->schema, name) && has_name(node->inputs[RIGHT]->schema, name) &&
	       key_named(node->config, RIGHT, name) < 0;
}

static bool is_suffixed(const struct weir_node *node, uint32_t side, const char *name)
{
	const struct join_config *config = node->config;

	return config->suffixes[side] && config->suffixes[side][0] && clashes(node, name) &&
	       (side == RIGHT || key_named(config, LEFT, name) < 0);
}

static int check_suffixes(const struct weir_node *node, struct weir_error *err)
{
	static const char *const words[] = {"Left", "left", "Right", "right"};
	const struct join_config *config = node->config;
	const struct weir_schema *left = node->inputs[LEFT]->schema;
	char names[200] = "";
	size_t size = 0;

	for (uint32_t i = 0; i < left->field_count; i++) {
		const char *name = left->fields[i].name;

		if (clashes(node, name) && size + strlen(name) + 8 < sizeof(names))
			size += (size_t)snprintf(names + size, sizeof(names) - size, "%s'%s'", size ? ", " : "", name);
	}
	if (size && !config->suffixes[LEFT] && !config->suffixes[RIGHT])
		return weir_error_set(
			err, WEIR_E_INVALID,
			"Left and right columns suffixes cannot be both None (overlapping columns: [%s]): "
			"--left-suffix, --right-suffix",
			names);
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++) {
		const struct weir_schema *schema = node->inputs[s]->schema;

		for (uint32_t i = 0; i < schema->field_count; i++) {
			char name[256];

			if (!is_suffixed(node, s, schema->fields[i].name))
				continue;
			snprintf(name, sizeof(name), "%s%s", schema->fields[i].name, config->suffixes[s]);
			if (has_name(schema, name) && !is_suffixed(node, s, name))
				return weir_error_set(
					err, WEIR_E_INVALID,
					"%s columns suffix '%s' collides with existing %s columns: ['%s']",
					words[2 * s], config->suffixes[s], words[2 * s + 1], name);
		}
	}
	return WEIR_OK;
}

struct columns_out {
	struct weir_field *fields;
	struct join_column *columns;
	uint32_t count;
};

static bool is_taken(const struct columns_out *out, const char *name)
{
	for (uint32_t i = 0; i < out->count; i++) {
		if (strcmp(out->fields[i].name, name) == 0)
			return true;
	}
	return false;
}

static int add_column(struct weir_op_env *env, const struct weir_node *node, uint32_t side,
		      const struct weir_field *field, struct columns_out *out, struct weir_error *err)
{
	const struct join_config *config = node->config;
	int64_t key = key_named(config, side, field->name);
	const char *name = field->name, *suffix = config->suffixes[RIGHT];
	struct join_column *column = &out->columns[out->count];

	column->from[side] = field->name;
	out->fields[out->count] = *field;
	if (is_suffixed(node, side, field->name)) {
		name = weir_arena_printf(env->arena, err, "%s%s", field->name, config->suffixes[side]);
		if (!name)
			return err->code;
	}
	if (side == RIGHT && is_taken(out, name)) {
		name = weir_arena_printf(env->arena, err, "%s%s", name, suffix && suffix[0] ? suffix : "_right");
		if (!name)
			return err->code;
	}
	if (is_taken(out, name))
		return weir_error_set(err, WEIR_E_INVALID,
				      "the join would have two columns '%s': --left-suffix, --right-suffix", name);
	out->fields[out->count].name = name;
	/* The keys of a full join are of whichever side has the row. */
	if (config->how == WEIR_JOIN_FULL && key >= 0) {
		column->from[RIGHT] = config->keys[RIGHT][key];
		if (!weir_type_equal(weir_type_values(field->type), config->key_types[key], false))
			out->fields[out->count].type = config->key_types[key];
	}
	if (config->how == WEIR_JOIN_FULL || (config->how == WEIR_JOIN_LEFT && side == RIGHT) ||
	    (config->how == WEIR_JOIN_RIGHT && side == LEFT))
		out->fields[out->count].nullable = true;
	out->count++;
	return WEIR_OK;
}

static int make_columns(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct join_config *config = node->config;
	const struct weir_schema *sides[] = {node->inputs[LEFT]->schema, node->inputs[RIGHT]->schema};
	uint32_t most = sides[LEFT]->field_count + sides[RIGHT]->field_count;
	struct columns_out out = {.fields = weir_arena_alloc_zero(env->arena, (most + 1) * sizeof(*out.fields), err)};
	int code = out.fields ? check_suffixes(node, err) : err->code;

	if (code)
		return code;
	out.columns = weir_arena_alloc_zero(env->arena, (most + 1) * sizeof(*out.columns), err);
	if (!out.columns)
		return err->code;
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++) {
		bool has_keys = s == (config->how == WEIR_JOIN_RIGHT ? RIGHT : LEFT);

		for (uint32_t i = 0; i < sides[s]->field_count && !code; i++) {
			if (has_keys || key_named(config, s, sides[s]->fields[i].name) < 0)
				code = add_column(env, node, s, &sides[s]->fields[i], &out, err);
		}
	}
	if (code)
		return code;
	config->columns = out.columns;
	node->schema = weir_schema_new(env->account, out.fields, out.count, &sides[LEFT]->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int one_side(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct join_config *config = node->config;
	uint32_t side = given_side(config->how);
	const struct weir_schema *schema = node->inputs[side]->schema;

	config->columns = weir_arena_alloc_zero(env->arena, (schema->field_count + 1) * sizeof(*config->columns), err);
	if (!config->columns)
		return err->code;
	for (uint32_t i = 0; i < schema->field_count; i++)
		config->columns[i].from[side] = schema->fields[i].name;
	node->schema = node->inputs[side]->schema;
	return WEIR_OK;
}

/* ---- keys ---- */

static void release_type(void *type)
{
	weir_type_unref(type);
}

static int refuse_key(const struct join_config *config, uint32_t key, uint32_t side, const struct weir_type *type,
		      struct weir_error *err)
{
	char text[96];
	int code = weir_error_set(
		err, WEIR_E_TYPE,
		"cannot join on column '%s' of the %s side, which is of type %s (nested types and intervals "
		"have no keys)",
		config->keys[side][key], side == LEFT ? "left" : "right", weir_type_name(type, text, sizeof(text)));

	weir_error_at_column(err, config->keys[side][key]);
	return code;
}

/* No integer type has all values of both. */
static bool are_wider_together(const struct weir_type *a, const struct weir_type *b)
{
	return (a->id == WEIR_UINT64 && weir_type_is_integer(b) && weir_type_is_signed(b)) ||
	       (b->id == WEIR_UINT64 && weir_type_is_integer(a) && weir_type_is_signed(a));
}

/* In what type the n-th keys of both sides are compared. */
static int unify_key(struct weir_op_env *env, const struct weir_node *node, uint32_t n, struct weir_error *err)
{
	struct join_config *config = node->config;
	const struct weir_type *types[WEIR_JOIN_SIDES], *unified;
	struct weir_error why = {0};
	char texts[WEIR_JOIN_SIDES][96];

	for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++) {
		const struct weir_schema *schema = node->inputs[s]->schema;
		uint32_t column;
		int code = weir_schema_find(schema, config->keys[s][n], &column, &why);

		if (code)
			return weir_error_set(err, code, "the %s side has %s", s == LEFT ? "left" : "right",
					      why.message);
		types[s] = weir_type_values(schema->fields[column].type);
		if (!weir_key_type_has_order(types[s]))
			return refuse_key(config, n, s, schema->fields[column].type, err);
		weir_type_name(types[s], texts[s], sizeof(texts[s]));
	}
	if (are_wider_together(types[LEFT], types[RIGHT]))
		unified = weir_type_decimal(env->account, WEIR_DECIMAL128, UINT64_DIGITS, 0, &why);
	else
		unified = weir_type_unify(env->account, types[LEFT], types[RIGHT], &why);
	/* Large numbers would meet others than themselves as floating-point ones. */
	if (unified && weir_type_is_float(unified) &&
	    (weir_type_is_float(types[LEFT]) != weir_type_is_float(types[RIGHT])) && types[LEFT]->id != WEIR_NULL &&
	    types[RIGHT]->id != WEIR_NULL) {
		weir_type_unref(unified);
		unified = NULL;
	}
	if (!unified)
		return weir_error_set(
			err, WEIR_E_TYPE,
			"cannot join column '%s', which is %s, with column '%s', which is %s: cast one of them",
			config->keys[LEFT][n], texts[LEFT], config->keys[RIGHT][n], texts[RIGHT]);
	config->key_types[n] = weir_type_values(unified);
	return env->keep(env, (void *)(uintptr_t)unified, release_type, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct join_config *config = node->config;
	const struct weir_node *left = node->inputs[LEFT], *right = node->inputs[RIGHT];
	int code = WEIR_OK;

	config->key_types = weir_arena_alloc_zero(env->arena, config->key_count * sizeof(*config->key_types), err);
	if (!config->key_types)
		return err->code;
	for (uint32_t i = 0; i < config->key_count && !code; i++)
		code = unify_key(env, node, i, err);
	if (!code)
		code = is_one_sided(config->how) ? one_side(env, node, err) : make_columns(env, node, err);
	/* Mostly one side has each key once: as many rows as the larger one has. */
	node->rows_est = left->rows_est < 0 || right->rows_est < 0 ? -1
			 : left->rows_est > right->rows_est        ? left->rows_est
								   : right->rows_est;
	node->bytes_est = left->bytes_est < 0 || right->bytes_est < 0 ? -1 : left->bytes_est + right->bytes_est;
	return code;
}

/* ---- rules ---- */

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct join_config *config = node->config;
	const struct weir_schema *schema = node->inputs[input]->schema;
	int code = weir_op_needs_names(schema, config->keys[input], config->key_count, needed, err);

	(void)env;
	for (uint32_t i = 0; i < wanted->count && !code; i++)
		if (wanted->wanted[i] && config->columns[i].from[input])
			code = weir_op_needs_names(schema, &config->columns[i].from[input], 1, needed, err);
	return code;
}

static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	struct join_config *config = node->config;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, (kept->count + 1) * sizeof(*fields), err);
	uint32_t n = 0;

	(void)narrowing;
	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < kept->count; i++) {
		if (!kept->wanted[i])
			continue;
		config->columns[n] = config->columns[i];
		fields[n++] = node->schema->fields[i];
	}
	node->schema = weir_schema_new(env->account, fields, n, &node->schema->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

/* A predicate passes to a side whose rows all come through, if it reads columns of that side alone; one that reads keys
 * alone passes to both sides, since rows that match have the same. */
struct passing {
	const struct weir_node *node;
	uint32_t input;
	bool is_of_side, is_of_keys;
	struct weir_account *account;
	struct WEIR_LIST(struct weir_expr *) columns;
	struct weir_error *err;
};

/* The column of the side that a column of the result stands for; NULL: none. */
static const char *below(const struct passing *passing, const char *name, bool *is_key)
{
	const struct join_config *config = passing->node->config;
	const struct weir_schema *schema = passing->node->schema, *side = passing->node->inputs[passing->input]->schema;
	uint32_t column = 0;

	*is_key = false;
	while (column < schema->field_count && strcmp(schema->fields[column].name, name) != 0)
		column++;
	if (column == schema->field_count)
		return NULL;
	for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++) {
		int64_t key = config->columns[column].from[s] ? key_named(config, s, config->columns[column].from[s])
							      : -1;
		uint32_t at;
		struct weir_error ignored = {0};

		if (key < 0 || weir_schema_find(side, config->keys[passing->input][key], &at, &ignored) ||
		    !weir_type_equal(weir_type_values(side->fields[at].type),
				     weir_type_values(schema->fields[column].type), false))
			continue;
		*is_key = true;
		return config->keys[passing->input][key];
	}
	return config->columns[column].from[passing->input];
}

static int check_column(void *context, const char *name)
{
	struct passing *passing = context;
	bool is_key;

	passing->is_of_side &= below(passing, name, &is_key) != NULL;
	passing->is_of_keys &= is_key;
	return WEIR_OK;
}

static const struct weir_expr *renamed(void *context, const char *name)
{
	struct passing *passing = context;
	bool is_key;
	const char *to = below(passing, name, &is_key);
	struct weir_expr *column;

	if (!to || strcmp(to, name) == 0 || passing->err->code)
		return NULL;
	column = weir_expr_column(passing->account, to, passing->err);
	if (column && weir_list_push(&passing->columns, passing->account, passing->err, column)) {
		weir_expr_free(column);
		column = NULL;
	}
	return column;
}

static int filter_below(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err)
{
	const struct join_config *config = node->config;
	struct passing passing = {.node = node,
				  .input = input,
				  .is_of_side = true,
				  .is_of_keys = true,
				  .account = env->account,
				  .err = err};
	bool is_left = config->how == WEIR_JOIN_LEFT || config->how == WEIR_JOIN_LEFT_SEMI ||
		       config->how == WEIR_JOIN_LEFT_ANTI;
	bool keeps_all = config->how == WEIR_JOIN_INNER ||
			 (config->how != WEIR_JOIN_FULL && is_left == (input == LEFT));
	int code;

	*out = NULL;
	weir_expr_columns(predicate, check_column, &passing);
	/* Where rows of both sides come through alone it has to be asked of both. */
	if (config->how == WEIR_JOIN_FULL) {
		struct passing other = passing;

		other.input = 1 - input;
		weir_expr_columns(predicate, check_column, &other);
		passing.is_of_keys &= other.is_of_keys;
	}
	if (!passing.is_of_keys && !(passing.is_of_side && keeps_all))
		return WEIR_OK;
	code = weir_expr_substitute(predicate, renamed, &passing, env->account, out, err);
	for (size_t i = 0; i < passing.columns.count; i++)
		weir_expr_free(passing.columns.items[i]);
	weir_list_release(&passing.columns, env->account);
	return code ? code : err->code;
}

/* ---- building ---- */

static int find_columns(const struct weir_node *node, struct weir_join_column *columns, struct weir_error *err)
{
	const struct join_config *config = node->config;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < node->schema->field_count && !code; i++) {
		for (uint32_t s = 0; s < WEIR_JOIN_SIDES && !code; s++) {
			const char *name = config->columns[i].from[s];

			columns[i].from[s] = WEIR_JOIN_NONE;
			if (name)
				code = weir_schema_find(node->inputs[s]->schema, name, &columns[i].from[s], err);
		}
	}
	return code;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct join_config *config = node->config;
	struct weir_fragment sides[WEIR_JOIN_SIDES];
	struct weir_join_column *columns = weir_arena_alloc_zero(
		env->arena, (node->schema->field_count + 1) * sizeof(*columns), err);
	struct weir_joining joining = {.how = config->how,
				       .key_count = config->key_count,
				       .key_types = config->key_types,
				       .schema = node->schema,
				       .columns = columns,
				       .partitions = config->partitions};
	int code = columns ? find_columns(node, columns, err) : err->code;

	for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++) {
		uint32_t *keys = code ? NULL
				      : weir_arena_alloc_zero(env->arena, config->key_count * sizeof(*keys), err);

		weir_fragment_init(&sides[s], env->account);
		joining.schemas[s] = node->inputs[s]->schema;
		joining.bytes_est[s] = node->inputs[s]->bytes_est;
		joining.rows_est[s] = node->inputs[s]->rows_est;
		joining.keys[s] = keys;
		if (!code && !keys)
			code = err->code;
		for (uint32_t i = 0; i < config->key_count && !code; i++)
			code = weir_schema_find(node->inputs[s]->schema, config->keys[s][i], &keys[i], err);
		if (!code)
			code = weir_node_build(env, node->inputs[s], &sides[s], err);
	}
	if (code) {
		for (uint32_t s = 0; s < WEIR_JOIN_SIDES; s++)
			weir_fragment_release(&sides[s]);
		return code;
	}
	return weir_join_cut(env, fragment, &joining, sides, err);
}

const struct weir_op weir_op_join = {
	.verb = "join",
	.usage = "join FILE|'CHAIN' --on COLUMNS [--right-on COLUMNS] [--how KIND] [--left-suffix TEXT] "
		 "[--right-suffix TEXT] [--partitions N]",
	.help = "Combines rows with those of files, or of another chain, that are equal in the columns given by --on. Nulls equal\n"
		"nothing, NaN equals NaN. If one side is small it is held in memory; otherwise both sides are cut into partitions\n"
		"by their keys, on disk where memory is short.\n"
		"\n"
		"  --on COLUMNS         the columns to compare\n"
		"  --right-on COLUMNS   their names on the other side, if these differ\n"
		"  --how KIND           inner: rows that have a partner (the default); left, right, full: also rows of the left side,\n"
		"                       the right side or both that have none; left_semi, right_semi: only the rows of one side\n"
		"                       that have a partner; left_anti, right_anti: only those that have none\n"
		"  --left-suffix TEXT, --right-suffix TEXT   for names that both sides have, which are an error without\n"
		"  --partitions N       about how many, if both sides are cut\n"
		"\n"
		"  weir read orders/ then join customers.parquet --on custkey then write joined/\n"
		"  weir read orders/ then join 'read customers/ then filter \"age > 30\"' --on custkey --right-on id --how left\n",
	.options = options,
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
	.rules = {.needs = needs, .narrow = narrow, .filter_below = filter_below, .filters_apart = true},
};
