/* read PATH…: the logical half: paths, schema, what rules push into it. The running half is read_source.c, the matching of
 * files to the dataset's schema is read_match.c.
 *
 * The schema is the first file's in listing order, then hive partition columns; with --unify-schemas every footer is read
 * first. Hive values are int64 when all of a key's values are integers, else strings; to know that, all paths are listed
 * when the first one has partitions.
 */
#include "ops/read_impl.h"

#include <string.h>

static const char *const option_names[] = {"unify-schemas", "no-hive", "format=", "columns=", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words, struct weir_error *err)
{
	struct read_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	const char **paths;
	const char *value;
	int code = config ? weir_words_expect(words, node->op->usage, 1, UINT32_MAX, option_names, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->limit = -1;
	paths = weir_arena_alloc(env->arena, words->count * sizeof(*paths), err);
	if (!paths)
		return err->code;
	for (uint32_t i = 0; i < words->count; i++) {
		paths[i] = weir_arena_strdup(env->arena, words->words[i], err);
		if (!paths[i])
			return err->code;
	}
	config->paths = paths;
	config->path_count = words->count;
	config->unify = weir_words_option(words, "unify-schemas") != NULL;
	config->hive = weir_words_option(words, "no-hive") == NULL;
	value = weir_words_option(words, "format");
	if (value && !(config->format_name = weir_arena_strdup(env->arena, value, err)))
		return err->code;
	value = weir_words_option(words, "columns");
	if (value)
		code = weir_words_split(env, value, &config->column_names, &config->column_name_count, err);
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct read_config *config = node->config;
	int code = weir_save_u32(save, config->path_count, err);

	for (uint32_t i = 0; !code && i < config->path_count; i++)
		code = weir_save_string(save, config->paths[i], err);
	if (!code)
		code = weir_save_u32(save, config->column_name_count, err);
	for (uint32_t i = 0; !code && i < config->column_name_count; i++)
		code = weir_save_string(save, config->column_names[i], err);
	if (!code)
		code = weir_save_string(save, config->format_name, err);
	if (!code)
		code = weir_save_u32(save, (uint32_t)config->unify | (uint32_t)config->hive << 1, err);
	return code;
}

static int load_strings(struct weir_op_env *env, struct weir_load *load, const char *const **out, uint32_t *count,
			struct weir_error *err)
{
	const char **strings;
	int code = weir_load_count(load, 4, count, err);

	if (code || *count == 0)
		return code;
	strings = weir_arena_alloc_zero(env->arena, *count * sizeof(*strings), err);
	if (!strings)
		return err->code;
	for (uint32_t i = 0; !code && i < *count; i++) {
		code = weir_load_string(load, &strings[i], err);
		if (!code && !strings[i])
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan reads a file without a name");
	}
	*out = strings;
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct read_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t flags;
	int code = config ? load_strings(env, load, &config->paths, &config->path_count, err) : err->code;

	if (!code)
		code = load_strings(env, load, &config->column_names, &config->column_name_count, err);
	if (!code)
		code = weir_load_string(load, &config->format_name, err);
	if (!code)
		code = weir_load_u32(load, &flags, err);
	if (code)
		return code;
	if (config->path_count == 0)
		return weir_error_set(err, WEIR_E_DATA, "the saved plan reads nothing");
	node->config = config;
	config->limit = -1;
	config->unify = flags & 1;
	config->hive = flags >> 1 & 1;
	return WEIR_OK;
}

/* ---- bind ---- */

int weir_read_listing(struct weir_account *account, const struct read_config *config, struct weir_listing **out,
		      struct weir_error *err)
{
	struct weir_list_options options = {.hive = config->hive, .extensions = config->format->extensions};

	return weir_listing_new(account, config->paths, config->path_count, &options, out, err);
}

int weir_read_open(struct weir_account *account, const struct read_config *config, const char *path,
		   struct weir_format_file **out, struct weir_error *err)
{
	struct weir_file *file = NULL;
	int code = weir_file_open(account, path, &file, err);

	if (code)
		return code;
	code = config->format->open(account, &config->setup, file, out, err);
	weir_error_at_source(err, path);
	weir_file_unref(file);
	return code;
}

static bool is_integer(const char *text)
{
	size_t length = strlen(text), digits = length - (text[0] == '-');

	return digits > 0 && digits <= 18 && strspn(text + length - digits, "0123456789") == digits;
}

/* Looks at all paths: how many bytes, and of which type each partition key is. Stops early where nobody needs more. */
static int survey(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	struct weir_listing *listing = NULL;
	struct weir_listed listed;
	bool done = false;
	int code = weir_read_listing(env->account, config, &listing, err);

	while (!code && !done) {
		code = weir_listing_next(listing, &listed, &done, err);
		if (code || done)
			break;
		if (config->files_seen == 0 && listed.partition_count) {
			config->partitions =
				weir_arena_alloc_zero(env->arena, listed.partition_count * sizeof(*config->partitions), err);
			if (!config->partitions) {
				code = err->code;
				break;
			}
			config->partition_count = listed.partition_count;
			for (uint32_t i = 0; i < listed.partition_count; i++) {
				config->partitions[i].name = weir_arena_strdup(env->arena, listed.partitions[i].key, err);
				config->partitions[i].is_integer = true;
			}
		}
		if (config->files_seen == 0) {
			config->first_path = weir_arena_strdup(env->arena, listed.path, err);
			if (!config->first_path)
				code = err->code;
		}
		for (uint32_t i = 0; i < config->partition_count && i < listed.partition_count; i++) {
			const char *value = listed.partitions[i].value;

			if (value && !is_integer(value))
				config->partitions[i].is_integer = false;
		}
		config->files_seen++;
		config->bytes_seen += listed.size;
		if (!config->partition_count && !config->unify && config->files_seen >= READ_SURVEY_FILES_MAX) {
			config->more_files = true;
			break;
		}
	}
	weir_listing_free(listing);
	return code;
}

/* --unify-schemas: the common schema of every file. */
static int unify_all(struct weir_op_env *env, struct read_config *config, struct weir_schema **schema,
		     struct weir_error *err)
{
	struct weir_listing *listing = NULL;
	struct weir_listed listed;
	bool done = false;
	int code = weir_read_listing(env->account, config, &listing, err);

	while (!code && !done) {
		struct weir_format_file *file = NULL;
		struct weir_schema *both;

		code = weir_listing_next(listing, &listed, &done, err);
		if (code || done)
			break;
		code = weir_read_open(env->account, config, listed.path, &file, err);
		if (code)
			break;
		both = weir_schema_unify(env->account, *schema, file->schema, err);
		if (both) {
			weir_schema_unref(*schema);
			*schema = both;
		} else {
			code = err->code;
			weir_error_at_source(err, listed.path);
		}
		weir_format_file_unref(file);
	}
	weir_listing_free(listing);
	return code;
}

/* File columns, then partition columns (which win over file columns of the same name, as everywhere else). */
static int add_partitions(struct weir_op_env *env, struct read_config *config, const struct weir_schema *file,
			  struct weir_schema **out, struct weir_error *err)
{
	uint32_t n = 0;
	struct weir_field *fields = weir_arena_alloc_zero(
		env->arena, ((size_t)file->field_count + config->partition_count + 1) * sizeof(*fields), err);

	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < file->field_count; i++) {
		bool is_partition = false;

		for (uint32_t p = 0; p < config->partition_count; p++)
			is_partition |= strcmp(config->partitions[p].name, file->fields[i].name) == 0;
		if (!is_partition)
			fields[n++] = file->fields[i];
	}
	for (uint32_t p = 0; p < config->partition_count; p++)
		fields[n++] = (struct weir_field){
			.name = config->partitions[p].name,
			.type = weir_type_of(config->partitions[p].is_integer ? WEIR_INT64 : WEIR_STRING),
			.nullable = true,
		};
	*out = weir_schema_new(env->account, fields, n, &file->metadata, err);
	return *out ? WEIR_OK : err->code;
}

/* The scanned columns as a schema of their own, in config->columns order. */
static int set_schema(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct read_config *config = node->config;
	struct weir_field *fields =
		weir_arena_alloc_zero(env->arena, (config->column_count + 1) * sizeof(*fields), err);

	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < config->column_count; i++)
		fields[i] = config->schema->fields[config->columns[i]];
	node->schema = weir_schema_new(env->account, fields, config->column_count, &config->schema->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int choose_columns(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	uint32_t count = config->column_name_count ? config->column_name_count : config->schema->field_count;

	config->columns = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->columns), err);
	if (!config->columns)
		return err->code;
	config->column_count = count;
	for (uint32_t i = 0; i < count; i++) {
		int code = WEIR_OK;

		config->columns[i] = i;
		if (config->column_name_count)
			code = weir_schema_find(config->schema, config->column_names[i], &config->columns[i], err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

static int choose_format(struct read_config *config, struct weir_error *err)
{
	if (config->format_name)
		config->format = weir_format_by_name(config->format_name);
	else
		config->format = weir_format_for_path(config->paths[0]);
	if (!config->format && !config->format_name)
		config->format = weir_format_by_name("parquet");
	if (!config->format)
		return weir_error_set(err, WEIR_E_INVALID, "no reader for the format '%s'", config->format_name);
	return WEIR_OK;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct read_config *config = node->config;
	struct weir_format_file *first = NULL;
	struct weir_schema *schema = NULL;
	int code = choose_format(config, err);

	config->files_seen = 0;
	config->bytes_seen = 0;
	config->more_files = false;
	config->partition_count = 0;
	if (!code)
		code = survey(env, config, err);
	if (!code)
		code = weir_read_open(env->account, config, config->first_path, &first, err);
	if (code)
		goto out;
	schema = weir_schema_ref(first->schema);
	if (config->unify)
		code = unify_all(env, config, &schema, err);
	if (!code)
		code = add_partitions(env, config, schema, &config->schema, err);
	weir_schema_unref(schema);
	if (!code)
		code = weir_op_keep_schema(env, config->schema, err);
	if (!code)
		code = choose_columns(env, config, err);
	if (!code)
		code = set_schema(env, node, err);
	if (code)
		goto out;
	/* One footer tells how bytes on disk become rows and decoded bytes; sizes of the others scale it. */
	config->decoded_per_byte = 4;
	node->rows_est = -1;
	if (weir_file_size(first->file) && first->bytes_decoded_est)
		config->decoded_per_byte = (double)first->bytes_decoded_est / (double)weir_file_size(first->file);
	if (first->row_count >= 0 && !config->more_files && weir_file_size(first->file))
		node->rows_est = config->files_seen == 1 ? first->row_count
							 : (int64_t)((double)first->row_count * (double)config->bytes_seen /
								     (double)weir_file_size(first->file));
	node->bytes_est = config->more_files ? -1 : (int64_t)((double)config->bytes_seen * config->decoded_per_byte);
out:
	weir_format_file_unref(first);
	return code;
}

/* ---- rules ---- */

static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	struct read_config *config = node->config;
	uint32_t n = 0;

	(void)narrowing;
	for (uint32_t i = 0; i < config->column_count; i++) {
		if (kept->wanted[i])
			config->columns[n++] = config->columns[i];
	}
	if (config->column_count && node->bytes_est > 0)
		node->bytes_est = (int64_t)((double)node->bytes_est * n / config->column_count);
	config->narrowed |= n < config->column_count;
	config->column_count = n;
	return set_schema(env, node, err);
}

static int absorb_filter(struct weir_op_env *env, struct weir_node *node, const struct weir_expr *predicate,
			 struct weir_error *err)
{
	struct read_config *config = node->config;
	struct weir_expr *copy = NULL;
	int code = weir_expr_clone(predicate, env->account, &copy, err);

	if (code)
		return code;
	if (config->predicate) { /* both must hold */
		struct weir_expr *operands[2] = {NULL, copy};

		code = weir_expr_clone(config->predicate, env->account, &operands[0], err);
		if (code) {
			weir_expr_free(copy);
			return code;
		}
		copy = weir_expr_call(env->account, "and", operands, 2, err);
		if (!copy)
			return err->code;
	}
	code = weir_op_keep_expr(env, copy, err);
	if (!code)
		config->predicate = copy;
	return code;
}

static int absorb_limit(struct weir_op_env *env, struct weir_node *node, int64_t rows, struct weir_error *err)
{
	struct read_config *config = node->config;

	(void)env;
	(void)err;
	if (config->limit < 0 || rows < config->limit)
		config->limit = rows;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct read_config *config = node->config;
	int code = weir_text_printf(out, err, "read %s%s", config->paths[0], config->path_count > 1 ? ", …" : "");

	if (!code && config->format)
		code = weir_text_printf(out, err, " (%s, %s%llu file%s)", config->format->name,
					config->more_files ? "more than " : "", (unsigned long long)config->files_seen,
					config->files_seen == 1 ? "" : "s");
	if (!code && config->narrowed) {
		code = weir_text_puts(out, config->column_count ? "; columns " : "; no columns: row counts from footers",
				      err);
		for (uint32_t i = 0; !code && i < config->column_count; i++) {
			if (i == 12) {
				code = weir_text_printf(out, err, ", … (%u)", config->column_count);
				break;
			}
			code = weir_text_printf(out, err, "%s%s", i ? ", " : "",
						config->schema->fields[config->columns[i]].name);
		}
	}
	if (!code && config->predicate) {
		code = weir_text_puts(out, "; pruned by ", err);
		if (!code)
			code = weir_expr_print(config->predicate, out, err);
	}
	if (!code && config->limit >= 0)
		code = weir_text_printf(out, err, "; stops after %lld rows", (long long)config->limit);
	return code;
}

const struct weir_op weir_op_read = {
	.verb = "read",
	.usage = "read PATH … [--unify-schemas] [--columns A,B] [--no-hive]",
	.help = "Reads files. A PATH is a file, a folder, or a pattern (*, ?, [ab], {a,b}, **); several may be given.\n"
		"Folders like year=2024/city=Oslo/ give columns year and city.\n"
		"\n"
		"  --unify-schemas   read every footer first and use the common schema; else the first file's schema holds\n"
		"  --columns A,B     only these columns\n"
		"  --no-hive         do not make columns of folder names\n"
		"  --format parquet  whatever the files are called\n"
		"\n"
		"  weir read 'data/*.parquet' then limit 10\n"
		"  weir read a.parquet b.parquet --unify-schemas then write both.parquet\n",
	.options = option_names,
	.inputs_min = 0,
	.inputs_max = 0,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = weir_read_build,
	.rules = {.narrow = narrow, .absorb_filter = absorb_filter, .absorb_limit = absorb_limit},
};
