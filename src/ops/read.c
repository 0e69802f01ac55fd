/* read PATH…: the verb: its words, its saved form, what rules push into it. What it finds out about the files is
 * read_bind.c, with read_files.c; the running half is read_source.c; the matching of files to the dataset's schema is
 * read_match.c. */
#include "ops/read_impl.h"

#include <stdlib.h>
#include <string.h>

static const char *const option_names[] = {"unify-schemas",
					   "no-hive",
					   "format=",
					   "columns=",
					   "path-column=",
					   "include-paths",
					   "missing=",
					   "partition-style=",
					   "partition-base=",
					   "partition-names=",
					   "partition-integers=",
					   "blocks=",
					   "part=",
					   "no-metadata",
					   NULL};

static const char *const *format_options(uint32_t n)
{
	static const char *const none[] = {NULL};
	const struct weir_format_ops *format = weir_format_at(n);

	return !format ? NULL : format->option_names ? format->option_names : none;
}

static bool is_own(const char *name)
{
	for (const char *const *option = option_names; *option; option++) {
		size_t length = strcspn(*option, "=");

		if (strlen(name) == length && memcmp(name, *option, length) == 0)
			return true;
	}
	return false;
}

/* Its own options and those of every format: which format it will be is not known yet. */
static int check_words(struct weir_op_env *env, const struct weir_node *node, const struct weir_words *words,
		       struct weir_error *err)
{
	const char *const *more;
	const char **all;
	uint32_t count = 0;

	for (const char *const *option = option_names; *option; option++)
		count++;
	for (uint32_t i = 0; (more = format_options(i)); i++)
		for (; *more; more++)
			count++;
	all = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*all), err);
	if (!all)
		return err->code;
	count = 0;
	for (const char *const *option = option_names; *option; option++)
		all[count++] = *option;
	for (uint32_t i = 0; (more = format_options(i)); i++)
		for (; *more; more++)
			all[count++] = *more;
	return weir_words_expect(words, node->op->usage, 1, UINT32_MAX, all, err);
}

static int keep_settings(struct weir_op_env *env, struct read_config *config, const struct weir_words *words,
			 struct weir_error *err)
{
	struct weir_setting *settings = weir_arena_alloc_zero(env->arena, (words->option_count + 1) * sizeof(*settings),
							      err);

	if (!settings)
		return err->code;
	config->settings = settings;
	for (uint32_t i = 0; i < words->option_count; i++) {
		const struct weir_setting *option = &words->options[i];
		struct weir_setting *setting = &settings[config->setting_count];

		if (is_own(option->name))
			continue;
		setting->name = weir_arena_strdup(env->arena, option->name, err);
		if (option->value)
			setting->value = weir_arena_strdup(env->arena, option->value, err);
		if (!setting->name || (option->value && !setting->value))
			return err->code;
		config->setting_count++;
	}
	return WEIR_OK;
}

static int parse_missing(const char *value, bool *skip, struct weir_error *err)
{
	*skip = value && strcmp(value, "skip") == 0;
	if (!value || *skip || strcmp(value, "error") == 0)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_INVALID, "--missing is error or skip, not '%s'", value);
}

/* "2/8": the third of eight. */
static int parse_part(const char *value, struct read_config *config, struct weir_error *err)
{
	char *end, *last = NULL;

	config->part = strtoll(value, &end, 10);
	if (end != value && *end == '/')
		config->part_count = strtoll(end + 1, &last, 10);
	if (last && last != end + 1 && !*last && config->part >= 0 && config->part < config->part_count)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_INVALID,
			      "--part is a number from 0 and how many there are, such as 2/8, not '%s'", value);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct read_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	const char **paths;
	const char *value;
	int code = config ? check_words(env, node, words, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->limit = -1;
	paths = weir_arena_alloc(env->arena, words->count * sizeof(*paths), err);
	if (!paths)
		return err->code;
	for (uint32_t i = 0; i < words->count; i++) {
		if (strcmp(words->words[i], "-") == 0 && words->count > 1)
			return weir_error_set(
				err, WEIR_E_INVALID,
				"standard input (-) can only be read alone: use union to read files as well");
		paths[i] = weir_arena_strdup(env->arena, words->words[i], err);
		if (!paths[i])
			return err->code;
	}
	config->paths = paths;
	config->path_count = words->count;
	config->unify = weir_words_option(words, "unify-schemas") != NULL;
	config->hive = weir_words_option(words, "no-hive") == NULL;
	config->bare = weir_words_option(words, "no-metadata") != NULL;
	value = weir_words_option(words, "format");
	if (value && !(config->format_name = weir_arena_strdup(env->arena, value, err)))
		return err->code;
	value = weir_words_option(words, "path-column");
	if (!value && weir_words_option(words, "include-paths"))
		value = "path";
	if (value && !(config->path_column = weir_arena_strdup(env->arena, value, err)))
		return err->code;
	value = weir_words_option(words, "columns");
	if (value)
		code = weir_words_split(env, value, &config->column_names, &config->column_name_count, err);
	if (!code && (value = weir_words_option(words, "blocks")))
		code = weir_parse_count(value, &config->blocks, err);
	if (!code && (value = weir_words_option(words, "part")))
		code = parse_part(value, config, err);
	if (!code)
		code = parse_missing(weir_words_option(words, "missing"), &config->skip_missing, err);
	if (!code)
		code = weir_read_paths_parse(env, config, words, err);
	return code ? code : keep_settings(env, config, words, err);
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
		code = weir_save_u32(save,
				     (uint32_t)config->unify | (uint32_t)config->hive << 1 |
					     (uint32_t)config->skip_missing << 2 | (uint32_t)config->bare << 3,
				     err);
	if (!code)
		code = weir_save_string(save, config->path_column, err);
	if (!code)
		code = weir_save_i64(save, config->blocks, err);
	if (!code)
		code = weir_save_i64(save, config->part, err);
	if (!code)
		code = weir_save_i64(save, config->part_count, err);
	if (!code)
		code = weir_read_paths_save(config, save, err);
	if (!code)
		code = weir_save_u32(save, config->setting_count, err);
	for (uint32_t i = 0; !code && i < config->setting_count; i++) {
		code = weir_save_string(save, config->settings[i].name, err);
		if (!code)
			code = weir_save_string(save, config->settings[i].value, err);
	}
	return code;
}

int weir_read_load_strings(struct weir_op_env *env, struct weir_load *load, const char *const **out, uint32_t *count,
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

/* Formats rely on a value where their option takes one. */
static int check_settings(const struct weir_setting *settings, uint32_t count, struct weir_error *err)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *const *more;
		bool known = false;

		for (uint32_t f = 0; (more = format_options(f)); f++) {
			for (; *more; more++) {
				size_t length = strcspn(*more, "=");

				known |= strlen(settings[i].name) == length &&
					 memcmp(settings[i].name, *more, length) == 0 &&
					 ((*more)[length] == '=') == (settings[i].value != NULL);
			}
		}
		if (!known)
			return weir_error_set(err, WEIR_E_DATA,
					      "the saved plan has an option --%s that no format knows",
					      settings[i].name);
	}
	return WEIR_OK;
}

static int load_settings(struct weir_op_env *env, struct weir_load *load, struct read_config *config,
			 struct weir_error *err)
{
	struct weir_setting *settings;
	uint32_t count;
	int code = weir_load_count(load, 8, &count, err);

	if (code || count == 0)
		return code;
	settings = weir_arena_alloc_zero(env->arena, count * sizeof(*settings), err);
	if (!settings)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		code = weir_load_string(load, &settings[i].name, err);
		if (!code && !settings[i].name)
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan has an option without a name");
		if (!code)
			code = weir_load_string(load, &settings[i].value, err);
	}
	if (!code)
		code = check_settings(settings, count, err);
	config->settings = settings;
	config->setting_count = count;
	return code;
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct read_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t flags;
	int code = config ? weir_read_load_strings(env, load, &config->paths, &config->path_count, err) : err->code;

	if (!code)
		code = weir_read_load_strings(env, load, &config->column_names, &config->column_name_count, err);
	if (!code)
		code = weir_load_string(load, &config->format_name, err);
	if (!code)
		code = weir_load_u32(load, &flags, err);
	if (!code)
		code = weir_load_string(load, &config->path_column, err);
	if (!code)
		code = weir_load_i64(load, &config->blocks, err);
	if (!code)
		code = weir_load_i64(load, &config->part, err);
	if (!code)
		code = weir_load_i64(load, &config->part_count, err);
	if (!code)
		code = weir_read_paths_load(env, config, load, err);
	if (!code)
		code = load_settings(env, load, config, err);
	if (code)
		return code;
	if (config->path_count == 0 || config->blocks < 0 || config->part < 0 ||
	    (config->part_count ? config->part >= config->part_count : config->part != 0))
		return weir_error_set(err, WEIR_E_DATA, "the saved plan reads nothing");
	node->config = config;
	config->limit = -1;
	config->unify = flags & 1;
	config->hive = flags >> 1 & 1;
	config->skip_missing = flags >> 2 & 1;
	config->bare = flags >> 3 & 1;
	return WEIR_OK;
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
	return weir_read_set_schema(env, node, err);
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
		code = weir_text_puts(out,
				      config->column_count ? "; columns "
				      : weir_format_is_streamed(config->format)
					      ? "; no columns: rows are only counted"
					      : "; no columns: row counts from footers",
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
	.usage =
		"read PATH … [--format F] [--columns A,B] [--path-column NAME] [--missing skip] [--unify-schemas] [--no-hive] [--no-metadata] "
		"[--partition-style S] [options of the format]",
	.help = "Reads files. A PATH is a file, a folder, or a pattern (*, ?, [ab], {a,b}, **); several may be given; - is\n"
		"standard input. Folders like year=2024/city=Oslo/ give columns year and city. The names tell the format; text\n"
		"formats may be compressed (.gz, .zst, .bz2, .xz, .lz4, .snappy). For options of formats see docs/formats.md.\n"
		"\n"
		"  --format F           the format, whatever the files are called; needed for - unless the first bytes tell\n"
		"  --columns A,B        only these columns\n"
		"  --path-column NAME   add a column with each row's file; --include-paths is --path-column path\n"
		"  --missing skip       skip paths that do not exist or cannot be opened; by default (error) they end the run\n"
		"  --unify-schemas      look at every file first for the common schema; by default, at some if there are many\n"
		"  --no-hive            do not make columns of folder names\n"
		"  --int96 UNIT         s, ms, us or ns: the unit of Parquet's old timestamps; the default, ns, ends in 2262\n"
		"  --no-metadata        ignore what writers of the files noted beside the columns, as pandas does\n"
		"  --blocks N           cut into at least N pieces, as far as the files allow\n"
		"  --part I/N           only part I, from 0, of N equal parts of each file's rows (Parquet, Arrow)\n"
		"  --partition-style hive|dir   text columns from all folders of the path: key=value, or (dir) plain values\n"
		"  --partition-base DIR         only from folders below this one\n"
		"  --partition-names A,B        the columns' names (dir)\n"
		"  --partition-integers A,B     the columns that are integers\n"
		"\n"
		"  weir read 'data/*.parquet' then limit 10\n"
		"  weir read a.parquet b.parquet --unify-schemas then write both.parquet\n"
		"  zcat log.csv.gz | weir read - --format csv then count\n",
	.options = option_names,
	.options_more = format_options,
	.inputs_min = 0,
	.inputs_max = 0,
	.parse = parse,
	.bind = weir_read_bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = weir_read_build,
	.rules = {.narrow = narrow, .absorb_filter = absorb_filter, .absorb_limit = absorb_limit},
};
