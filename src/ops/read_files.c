/* Which files a read has, and how they are opened. */
#include "ops/read_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define STANDARD_INPUT "standard input"

void weir_read_missing_untold(void *context, const struct weir_error *why)
{
	(void)context, (void)why;
}

int weir_read_files_init(struct read_files *files, struct weir_account *account, const struct read_config *config,
			 const char *const *extensions, void (*missing)(void *context, const struct weir_error *why),
			 void *context, struct weir_error *err)
{
	struct weir_list_options options = {.hive = config->hive && config->paths_style == READ_PATHS_LISTED,
					    .compressed = true,
					    .extensions = extensions};

	*files = (struct read_files){.config = config};
	weir_arena_init(&files->arena, account);
	if (config->input)
		return WEIR_OK;
	if (config->format) {
		options.compressed = weir_format_is_streamed(config->format);
		options.extensions = config->format->extensions && config->format->extensions[0]
					     ? config->format->extensions
					     : NULL;
	}
	if (config->skip_missing) {
		options.missing = missing;
		options.missing_context = context;
	}
	return weir_listing_new(account, config->paths, config->path_count, &options, &files->listing, err);
}

int weir_read_files_next(struct read_files *files, struct weir_listed *out, bool *done, struct weir_error *err)
{
	if (!files->config->input) {
		int code = weir_listing_next(files->listing, out, done, err);

		if (!code && !*done && files->config->paths_style != READ_PATHS_LISTED)
			code = weir_read_paths_split(files->config, &files->arena, out, err);
		return code;
	}
	*done = files->input_given;
	files->input_given = true;
	*out = (struct weir_listed){.path = STANDARD_INPUT, .size = weir_file_size(files->config->input)};
	return WEIR_OK;
}

void weir_read_files_release(struct read_files *files)
{
	weir_listing_free(files->listing);
	weir_arena_release(&files->arena);
	*files = (struct read_files){0};
}

bool weir_read_may_skip(const struct read_config *config, const struct weir_error *err)
{
	return config->skip_missing && (err->code == WEIR_E_NOT_FOUND || err->code == WEIR_E_IO) &&
	       err->errno_value != EMFILE && err->errno_value != ENFILE;
}

int weir_read_open_file(struct weir_account *account, const struct read_config *config, const char *path,
			struct weir_file **out, struct weir_error *err)
{
	if (!config->input)
		return weir_file_open(account, path, out, err);
	*out = weir_file_ref(config->input);
	return WEIR_OK;
}

int weir_read_open(struct weir_account *account, const struct read_config *config, const char *path,
		   struct weir_format_file **out, bool *unreadable, struct weir_error *err)
{
	struct weir_file *file = NULL;
	int code = weir_read_open_file(account, config, path, &file, err);

	*out = NULL;
	if (unreadable)
		*unreadable = code && weir_read_may_skip(config, err);
	if (code)
		return unreadable && *unreadable ? WEIR_OK : code;
	code = config->format->open(account, &config->setup, file, out, err);
	weir_error_at_source(err, path);
	weir_file_unref(file);
	return code;
}

/* ---- the format ---- */

static void unref_file(void *file)
{
	weir_file_unref(file);
}

/* Once a plan: what a pipe has given cannot be had again. */
static int open_input(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	int code;

	if (config->input || config->path_count != 1 || strcmp(config->paths[0], "-") != 0) {
		if (config->input && weir_file_is_pipe(config->input))
			weir_file_watch_pipe(config->input, env->cancelled);
		return WEIR_OK;
	}
	code = weir_file_open_pipe(env->account, STDIN_FILENO, STANDARD_INPUT, &config->input, err);
	if (code)
		return code;
	code = env->keep(env, config->input, unref_file, err);
	if (code)
		config->input = NULL;
	else if (weir_file_is_pipe(config->input))
		weir_file_watch_pipe(config->input, env->cancelled);
	return code;
}

/* The format is not read from front to back. */
static int put_input_down(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	struct weir_file *file = NULL;
	int code = weir_file_spool(env->account, config->input, env->cancelled, &file, err);

	if (!code)
		code = env->keep(env, file, unref_file, err);
	if (!code)
		config->input = file;
	return code;
}

/* The names that count in folders as long as any format will do. */
static int all_extensions(struct weir_arena *arena, const char *const **out, struct weir_error *err)
{
	const struct weir_format_ops *format;
	const char **extensions;
	uint32_t count = 0;

	for (uint32_t i = 0; (format = weir_format_at(i)); i++)
		for (const char *const *e = format->extensions; e && *e; e++)
			count++;
	extensions = weir_arena_alloc_zero(arena, (count + 1) * sizeof(*extensions), err);
	if (!extensions)
		return err->code;
	count = 0;
	for (uint32_t i = 0; (format = weir_format_at(i)); i++)
		for (const char *const *e = format->extensions; e && *e; e++)
			extensions[count++] = *e;
	*out = extensions;
	return WEIR_OK;
}

static int fail_unknown(const char *what, struct weir_error *err)
{
	char names[128];

	return weir_error_set(err, WEIR_E_INVALID, "%s does not tell its format: say it with --format (%s)", what,
			      weir_format_names(NULL, names, sizeof(names)));
}

static int format_of_input(struct read_config *config, struct weir_error *err)
{
	char first[WEIR_MAGIC_MAX];
	const void *bytes = first;
	size_t size = sizeof(first);
	int code;

	if (weir_file_is_pipe(config->input)) {
		code = weir_file_head(config->input, WEIR_MAGIC_MAX, &bytes, &size, err);
	} else {
		size = weir_file_size(config->input) < size ? (size_t)weir_file_size(config->input) : size;
		code = weir_file_read(config->input, 0, first, size, err);
	}
	if (code)
		return code;
	config->format = weir_format_for_bytes(bytes, size);
	return config->format ? WEIR_OK : fail_unknown("standard input", err);
}

/* Folders and patterns: the first file decides. */
static int format_of_files(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	const char *const *extensions = NULL;
	struct read_files files = {0};
	struct weir_listed listed;
	bool done;
	int code;

	config->format = weir_format_for_path(config->paths[0]);
	if (config->format)
		return WEIR_OK;
	code = all_extensions(env->arena, &extensions, err);
	if (!code)
		code = weir_read_files_init(&files, env->account, config, extensions, weir_read_missing_untold, NULL,
					    err);
	if (!code)
		code = weir_read_files_next(&files, &listed, &done, err);
	if (!code && done)
		code = weir_error_set(err, WEIR_E_NOT_FOUND, "none of the paths is there");
	if (!code) {
		config->format = weir_format_for_path(listed.path);
		if (!config->format) {
			code = fail_unknown("the file", err);
			weir_error_at_source(err, listed.path);
		}
	}
	weir_read_files_release(&files);
	return code;
}

int weir_read_choose_format(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	char names[128];
	int code = open_input(env, config, err);

	if (code)
		return code;
	config->format = NULL;
	if (config->format_name) {
		config->format = weir_format_by_name(config->format_name);
		if (!config->format)
			return weir_error_set(err, WEIR_E_INVALID, "there is no reader of '%s' files; there are %s",
					      config->format_name, weir_format_names(NULL, names, sizeof(names)));
	} else {
		code = config->input ? format_of_input(config, err) : format_of_files(env, config, err);
		if (code)
			return code;
	}
	if (config->input && weir_file_is_pipe(config->input) && !weir_format_is_streamed(config->format))
		return put_input_down(env, config, err);
	return WEIR_OK;
}
