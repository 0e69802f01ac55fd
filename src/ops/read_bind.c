/* What a read knows before it runs: format, files, schema, estimates.
 *
 * The schema is the first file's in listing order and what others add to it, or, of files that do not say their types,
 * what the format infers from some of them; then hive partition columns and the path. All files are looked at while
 * they are few, some of many, and with --unify-schemas every one. Hive values are int64 when all of a key's values are
 * integers, else strings; to know that, all paths are listed when the first one has partitions.
 *
 *     survey:   0 1 2 3 4 5 6 7 8 9 …       every stride-th path is kept as a sample; when there are too many, every
 *     samples:  0   2   4   6   8           second of them goes and the stride doubles
 */
#include "base/list.h"
#include "arrow/tensor.h"
#include "ops/read_impl.h"

#include <string.h>

enum {
	/* Files that are looked at: half to all of these, where there are as many. Types are inferred from the first 32
	 * KiB or so of each; of files that say their schema only the footer is read. */
	INFER_SAMPLES = 256,
	FOOTER_SAMPLES = 512, /* 8 µs each, from the page cache */
	INFER_FILES = 16,     /* open at a time: as many as a format looks at */
};

struct samples {
	const char *paths[FOOTER_SAMPLES]; /* in the plan's arena */
	uint32_t count, count_max;
	uint64_t stride;
};

static const char *setting(const struct read_config *config, const char *name)
{
	for (uint32_t i = config->setting_count; i-- > 0;) { /* the last one counts */
		if (strcmp(config->settings[i].name, name) == 0)
			return config->settings[i].value ? config->settings[i].value : "";
	}
	return NULL;
}

/* ---- options of the format ---- */

static bool knows(const struct weir_format_ops *format, const char *name)
{
	for (const char *const *option = format->option_names; option && *option; option++) {
		size_t length = strcspn(*option, "=");

		if (strlen(name) == length && memcmp(name, *option, length) == 0)
			return true;
	}
	return false;
}

static int parse_options(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	const struct weir_format_ops *format = config->format;
	char names[128];

	for (uint32_t i = 0; i < config->setting_count; i++) {
		const char *name = config->settings[i].name;

		if (!knows(format, name))
			return weir_error_set(
				err, WEIR_E_INVALID,
				"--%s is an option of %s, and what is read here is %s (--format says otherwise)", name,
				weir_format_names(name, names, sizeof(names)), format->name);
	}
	config->setup.options = NULL;
	if (!format->options_parse)
		return WEIR_OK;
	return format->options_parse(env->arena, config->settings, config->setting_count, &config->setup.options, err);
}

/* ---- survey ---- */

static bool is_integer(const char *text)
{
	size_t length = strlen(text), digits = length - (text[0] == '-');

	return digits > 0 && digits <= 18 && strspn(text + length - digits, "0123456789") == digits;
}

/* The first file that can be opened, when others may be left out. */
static int try_first(struct weir_op_env *env, struct read_config *config, const char *path, bool *usable,
		     struct weir_error *err)
{
	struct weir_file *file = NULL;
	int code;

	*usable = true;
	if (!config->skip_missing)
		return WEIR_OK;
	code = weir_read_open_file(env->account, config, path, &file, err);
	weir_file_unref(file);
	if (code && weir_read_may_skip(config, err)) {
		*usable = false;
		return WEIR_OK;
	}
	return code;
}

static int note_first(struct weir_op_env *env, struct read_config *config, const struct weir_listed *listed,
		      struct weir_error *err)
{
	uint32_t count = listed->partition_count + (config->path_column != NULL);

	config->first_path = weir_arena_strdup(env->arena, listed->path, err);
	config->partitions = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*config->partitions), err);
	if (!config->first_path || !config->partitions)
		return err->code;
	config->partition_count = count;
	for (uint32_t i = 0; i < listed->partition_count; i++) {
		config->partitions[i].name = weir_arena_strdup(env->arena, listed->partitions[i].key, err);
		config->partitions[i].reads_integer = true;
		config->partitions[i].is_integer = config->paths_style == READ_PATHS_LISTED ||
						   weir_read_paths_is_integer(config, listed->partitions[i].key);
		if (!config->partitions[i].name)
			return err->code;
	}
	if (config->path_column)
		config->partitions[count - 1] = (struct read_partition){.name = config->path_column, .is_path = true};
	return WEIR_OK;
}

static int note_sample(struct weir_op_env *env, struct read_config *config, struct samples *samples, const char *path,
		       struct weir_error *err)
{
	if (config->files_seen % samples->stride)
		return WEIR_OK;
	if (samples->count == samples->count_max) {
		for (uint32_t i = 0; i < samples->count_max / 2; i++)
			samples->paths[i] = samples->paths[2 * i];
		samples->count = samples->count_max / 2;
		samples->stride *= 2;
		if (config->files_seen % samples->stride)
			return WEIR_OK;
	}
	samples->paths[samples->count] = weir_arena_strdup(env->arena, path, err);
	return samples->paths[samples->count++] ? WEIR_OK : err->code;
}

/* Looks at all paths: how many bytes, and of which type each partition key is. Stops early where nobody needs more. */
static int survey(struct weir_op_env *env, struct read_config *config, struct samples *samples, struct weir_error *err)
{
	struct read_files files = {0};
	struct weir_listed listed;
	uint32_t folders = 0;
	bool done = false;
	int code = weir_read_files_init(&files, env->account, config, NULL, weir_read_missing_untold, NULL, err);

	*samples = (struct samples){.stride = 1, .count_max = config->format->infer ? INFER_SAMPLES : FOOTER_SAMPLES};
	while (!code && !done) {
		code = weir_read_files_next(&files, &listed, &done, err);
		if (code || done)
			break;
		if (config->files_seen == 0) {
			bool usable;

			code = try_first(env, config, listed.path, &usable, err);
			if (!code && !usable)
				continue;
			if (!code)
				code = note_first(env, config, &listed, err);
			folders = listed.partition_count;
		}
		if (!code)
			code = note_sample(env, config, samples, listed.path, err);
		for (uint32_t i = 0; i < folders && i < listed.partition_count; i++) {
			const char *value = listed.partitions[i].value;

			if (!value || is_integer(value))
				continue;
			if (config->paths_style != READ_PATHS_LISTED && config->partitions[i].is_integer) {
				code = weir_error_set(err, WEIR_E_DATA, "the partition %s is no integer: '%s'",
						      config->partitions[i].name, value);
				weir_error_at_source(err, listed.path);
				break;
			}
			config->partitions[i].is_integer = config->partitions[i].reads_integer = false;
		}
		config->files_seen++;
		config->bytes_seen += listed.size;
		if (!folders && !config->unify &&
		    config->files_seen >= (config->format->infer ? READ_SURVEY_FILES_MAX : READ_SURVEY_FOOTERS_MAX)) {
			config->more_files = true;
			break;
		}
	}
	weir_read_files_release(&files);
	if (!code && config->files_seen == 0) { /* only where files may be left out */
		if (!err->code)
			weir_error_set(err, WEIR_E_NOT_FOUND, "none of the paths is there");
		return err->code;
	}
	return code;
}

/* ---- schema ---- */

/* --unify-schemas, of files that say their schema: the common one. */
static int unify_all(struct weir_op_env *env, struct read_config *config, struct weir_schema **schema,
		     struct weir_error *err)
{
	struct read_files files = {0};
	struct weir_listed listed;
	bool done = false, unreadable;
	int code = weir_read_files_init(&files, env->account, config, NULL, weir_read_missing_untold, NULL, err);

	while (!code && !done) {
		struct weir_format_file *file = NULL;
		struct weir_schema *both;

		code = weir_read_files_next(&files, &listed, &done, err);
		if (code || done)
			break;
		code = weir_read_open(env->account, config, listed.path, &file, &unreadable, err);
		if (code)
			break;
		if (unreadable)
			continue;
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
	weir_read_files_release(&files);
	return code;
}

/* The schema with the columns that some files have beyond the first's; what cannot be read or does not fit is for
 * whoever comes to it. */
static int unify_some(struct weir_op_env *env, const struct read_config *config, const struct samples *samples,
		      struct weir_schema **schema, struct weir_error *err)
{
	const struct weir_schema *last = NULL; /* of the file before: most have the same */
	struct weir_format_file *file = NULL, *before = NULL;
	bool unreadable;
	int code = WEIR_OK;

	for (uint32_t i = 1; i < samples->count; i++) {
		struct weir_schema *both = NULL;

		code = weir_read_open(env->account, config, samples->paths[i], &file, &unreadable, err);
		if (!code && file && !weir_schema_same(last ? last : *schema, file->schema))
			both = weir_schema_unify(env->account, *schema, file->schema, err);
		if (code == WEIR_E_MEMORY || err->code == WEIR_E_MEMORY)
			break;
		if (both) {
			weir_schema_unref(*schema);
			*schema = both;
		}
		code = WEIR_OK;
		weir_error_clear(err);
		if (file) {
			weir_format_file_unref(before);
			before = file;
			last = file->schema;
			file = NULL;
		}
	}
	weir_format_file_unref(file);
	weir_format_file_unref(before);
	return code ? code : err->code;
}

/* Some files, open while the format looks at them. */
struct looked_at {
	struct weir_file *files[INFER_FILES];
	uint32_t count;
};

static int look_open(struct weir_op_env *env, const struct read_config *config, const char *path,
		     struct looked_at *looked, struct weir_error *err)
{
	int code = weir_read_open_file(env->account, config, path, &looked->files[looked->count], err);

	if (!code)
		looked->count++;
	else if (weir_read_may_skip(config, err))
		code = WEIR_OK;
	return code;
}

/* What the format infers from these is added to *schema; they are closed. */
static int look(struct weir_op_env *env, const struct read_config *config, struct looked_at *looked,
		struct weir_schema **schema, struct weir_error *err)
{
	struct weir_schema *more = NULL, *both = NULL;
	int code = WEIR_OK;

	if (looked->count)
		code = config->format->infer(env->account, &config->setup, looked->files, looked->count, &more, err);
	if (!code && *schema && more) {
		code = weir_read_widen_schema(config->format, env->account, *schema, more, &both, err);
		weir_schema_unref(more);
		more = both;
	}
	if (!code && more) {
		weir_schema_unref(*schema);
		*schema = more;
	}
	for (uint32_t i = 0; i < looked->count; i++)
		weir_file_unref(looked->files[i]);
	looked->count = 0;
	return code;
}

static int look_from_to(struct weir_op_env *env, const struct read_config *config, const struct samples *samples,
			uint32_t begin, uint32_t end, struct weir_schema **schema, struct weir_error *err)
{
	struct looked_at looked = {.count = 0};
	int code = WEIR_OK;

	for (uint32_t i = begin; !code && i < end; i++)
		code = look_open(env, config, samples->paths[i], &looked, err);
	if (!code)
		return look(env, config, &looked, schema, err);
	for (uint32_t i = 0; i < looked.count; i++)
		weir_file_unref(looked.files[i]);
	return code;
}

static int look_at_samples(struct weir_op_env *env, const struct read_config *config, const struct samples *samples,
			   struct weir_schema **schema, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t begin = 0, end; !code && begin < samples->count; begin = end) {
		end = samples->count - begin > INFER_FILES ? begin + INFER_FILES : samples->count;
		code = look_from_to(env, config, samples, begin, end, schema, err);
		if (code != WEIR_E_DATA || samples->count == 1)
			continue;
		code = WEIR_OK;
		for (uint32_t i = begin; !code && i < end; i++) {
			*err = (struct weir_error){0};
			code = look_from_to(env, config, samples, i, i + 1, schema, err);
			if (code == WEIR_E_DATA && i > 0) /* it is for whoever comes to the file */
				code = WEIR_OK;
		}
		if (!code)
			*err = (struct weir_error){0};
	}
	return code;
}

/* Of formats whose files do not say their types. */
static int infer(struct weir_op_env *env, struct read_config *config, const struct samples *samples,
		 struct weir_schema **schema, struct weir_error *err)
{
	const char *how = setting(config, "infer");
	bool all = config->unify || (how && strcmp(how, "all") == 0), done = false;
	struct looked_at looked = {.count = 0};
	struct read_files files = {0};
	struct weir_listed listed;
	int code = WEIR_OK;

	if (!all)
		return look_at_samples(env, config, samples, schema, err);
	code = weir_read_files_init(&files, env->account, config, NULL, weir_read_missing_untold, NULL, err);
	while (!code && !done) {
		code = weir_read_files_next(&files, &listed, &done, err);
		if (!code && !done)
			code = look_open(env, config, listed.path, &looked, err);
		if (!code && looked.count == INFER_FILES)
			code = look(env, config, &looked, schema, err);
	}
	if (!code) {
		code = look(env, config, &looked, schema, err);
	} else {
		for (uint32_t i = 0; i < looked.count; i++)
			weir_file_unref(looked.files[i]);
	}
	weir_read_files_release(&files);
	return code;
}

/* File columns, then partition columns (which win over file columns of the same name, as everywhere else; one of
 * integers stays one of integers). */
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

		for (uint32_t p = 0; p < config->partition_count; p++) {
			if (strcmp(config->partitions[p].name, file->fields[i].name) != 0)
				continue;
			is_partition = true;
			if (weir_type_is_integer(file->fields[i].type) && config->partitions[p].reads_integer)
				config->partitions[p].is_integer = true;
			if (config->partitions[p].is_path)
				return weir_error_set(
					err, WEIR_E_INVALID,
					"the files have a column '%s' themselves: give --path-column another name",
					config->path_column);
		}
		if (is_partition)
			continue;
		fields[n] = file->fields[i];
		/* Bytes of a file are bytes: only what this run pickled is ever unpickled. */
		if (weir_op_is_object(&fields[n]))
			fields[n].metadata = (struct weir_metadata){0};
		n++;
	}
	for (uint32_t p = 0; p < config->partition_count; p++)
		fields[n++] = (struct weir_field){
			.name = config->partitions[p].name,
			.type = weir_type_of(config->partitions[p].is_integer ? WEIR_INT64 : WEIR_STRING),
			.nullable = true,
		};
	*out = weir_schema_new(env->account, fields, n, config->bare ? NULL : &file->metadata, err);
	return *out ? WEIR_OK : err->code;
}

int weir_read_set_schema(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct read_config *config = node->config;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, (config->column_count + 1) * sizeof(*fields),
							  err);

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

/* One file tells how bytes on disk become rows and decoded bytes; sizes of the others scale it. */
static void estimate(struct weir_node *node, struct read_config *config, const struct weir_format_file *first)
{
	uint64_t size = weir_file_size(first->file);

	config->decoded_per_byte = 4;
	node->rows_est = node->bytes_est = -1;
	if (size && first->bytes_decoded_est)
		config->decoded_per_byte = (double)first->bytes_decoded_est / (double)size;
	if (config->more_files || weir_file_is_pipe(first->file))
		return;
	if (first->row_count >= 0 && size)
		node->rows_est = config->files_seen == 1 ? first->row_count
							 : (int64_t)((double)first->row_count *
								     (double)config->bytes_seen / (double)size);
	node->bytes_est = (int64_t)((double)config->bytes_seen * config->decoded_per_byte);
}

/* A plan that was optimised may be bound again: what rules have put in is put in again. */
static void forget(struct read_config *config)
{
	config->files_seen = config->bytes_seen = 0;
	config->more_files = config->narrowed = false;
	config->partition_count = 0;
	config->predicate = NULL;
	config->limit = -1;
}

static int prepare_misfits(struct weir_op_env *env, struct read_config *config, struct weir_error *err)
{
	int code = weir_read_misfits_new(env->account, &config->misfits, err);

	if (!code)
		code = env->keep(env, config->misfits, weir_read_misfits_free, err);
	if (code)
		config->misfits = NULL;
	return code;
}

int weir_read_bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct read_config *config = node->config;
	struct weir_format_file *first = NULL;
	struct weir_schema *schema = NULL;
	struct samples samples;
	int code;

	forget(config);
	config->setup = (struct weir_read_setup){.io = env->io};
	code = weir_read_choose_format(env, config, err);
	if (!code)
		code = parse_options(env, config, err);
	if (!code)
		code = survey(env, config, &samples, err);
	if (!code && config->format->infer) {
		code = infer(env, config, &samples, &schema, err);
		if (!code)
			code = weir_read_misfits_apply(config, env->account, &schema, err);
		if (!code)
			code = weir_op_keep_schema(env, weir_schema_ref(schema), err);
		if (!code && !config->misfits)
			code = prepare_misfits(env, config, err);
		config->setup.schema = schema; /* which the plan keeps */
		config->setup.misfit = weir_read_misfit;
		config->setup.misfit_context = config->misfits;
	}
	if (!code)
		code = weir_read_open(env->account, config, config->first_path, &first, NULL, err);
	if (code)
		goto out;
	if (!schema) {
		schema = weir_schema_ref(first->schema);
		if (config->unify)
			code = unify_all(env, config, &schema, err);
		else if (!config->format->streamed) /* text has one schema */
			code = unify_some(env, config, &samples, &schema, err);
	}
	if (!code)
		code = add_partitions(env, config, schema, &config->schema, err);
	if (!code)
		code = weir_op_keep_schema(env, config->schema, err);
	if (!code)
		code = choose_columns(env, config, err);
	if (!code)
		code = weir_read_set_schema(env, node, err);
	if (!code)
		estimate(node, config, first);
out:
	weir_schema_unref(schema);
	weir_format_file_unref(first);
	return code;
}
