/* write TARGET: its words, and which writer they mean; write_sink.c is the running half. */
#include "io/stream.h"
#include "ops/write_impl.h"

#include <string.h>

static const char *const option_names[] = {"mode=",
					   "format=",
					   "compression=",
					   "level=",
					   "rows-per-file=",
					   "bytes-per-file=",
					   "row-group-rows=",
					   "row-group-bytes=",
					   "encoding=",
					   "fsync",
					   "no-dictionary",
					   "no-page-index",
					   "page-v2",
					   "name=",
					   "extension=",
					   "objects-pickled",
					   WEIR_WRITE_TEXT_OPTIONS,
					   NULL};

static int parse_mode(const char *text, enum weir_write_mode *out, struct weir_error *err)
{
	static const char *const names[] = {"append", "overwrite", "error", "ignore"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (enum weir_write_mode)i;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_INVALID, "--mode is append, overwrite, error or ignore, not '%s'", text);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct write_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	const char *value;
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, option_names, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->target = weir_arena_strdup(env->arena, words->words[0], err);
	if (!config->target)
		return err->code;
	if ((value = weir_words_option(words, "format")))
		config->format = weir_arena_strdup(env->arena, value, err);
	if ((value = weir_words_option(words, "encoding")))
		config->encoding = weir_arena_strdup(env->arena, value, err);
	if ((value = weir_words_option(words, "name"))) {
		if (!*value || strchr(value, '/') || *value == '.' || *value == '_')
			return weir_error_set(
				err, WEIR_E_INVALID,
				"--name begins the names of files: no '/', no '.' or '_' in front, not '%s'", value);
		config->name = weir_arena_strdup(env->arena, value, err);
	}
	if ((value = weir_words_option(words, "extension"))) {
		if (*value != '.' || strchr(value, '/'))
			return weir_error_set(err, WEIR_E_INVALID,
					      "--extension is the end of a name, such as .json, not '%s'", value);
		config->extension = weir_arena_strdup(env->arena, value, err);
	}
	if ((value = weir_words_option(words, "mode")))
		code = parse_mode(value, &config->mode, err);
	if (!code && (value = weir_words_option(words, "compression"))) {
		code = weir_codec_parse(value, &config->codec, err);
		config->codec_given = true;
	}
	if (!code && (value = weir_words_option(words, "level")))
		code = weir_parse_count(value, &config->codec_level, err);
	if (!code && (value = weir_words_option(words, "rows-per-file")))
		code = weir_parse_count(value, &config->rows_per_file, err);
	if (!code && (value = weir_words_option(words, "bytes-per-file")))
		code = weir_parse_bytes(value, &config->bytes_per_file, err);
	if (!code && (value = weir_words_option(words, "row-group-rows")))
		code = weir_parse_count(value, &config->row_group_rows, err);
	if (!code && (value = weir_words_option(words, "row-group-bytes")))
		code = weir_parse_bytes(value, &config->row_group_bytes, err);
	if (!code)
		code = weir_write_text_parse(env->arena, words, &config->text, err);
	config->durable = weir_words_option(words, "fsync") != NULL;
	config->no_dictionary = weir_words_option(words, "no-dictionary") != NULL;
	config->no_page_index = weir_words_option(words, "no-page-index") != NULL;
	config->data_page_v2 = weir_words_option(words, "page-v2") != NULL;
	config->objects_pickled = weir_words_option(words, "objects-pickled") != NULL;
	return code;
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct write_config *config = node->config;
	const int64_t numbers[] = {config->mode,           config->durable,         config->no_dictionary,
				   config->no_page_index,  config->data_page_v2,    config->codec,
				   config->codec_level,    config->rows_per_file,   config->bytes_per_file,
				   config->row_group_rows, config->row_group_bytes, config->codec_given,
				   config->objects_pickled};
	int code = weir_save_string(save, config->target, err);

	if (!code)
		code = weir_save_string(save, config->format, err);
	if (!code)
		code = weir_save_string(save, config->encoding, err);
	if (!code)
		code = weir_save_string(save, config->name, err);
	if (!code)
		code = weir_save_string(save, config->extension, err);
	for (size_t i = 0; !code && i < sizeof(numbers) / sizeof(*numbers); i++)
		code = weir_save_i64(save, numbers[i], err);
	return code ? code : weir_write_text_save(&config->text, save, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct write_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int64_t numbers[13];
	int code = config ? weir_load_string(load, &config->target, err) : err->code;

	if (!code)
		code = weir_load_string(load, &config->format, err);
	if (!code)
		code = weir_load_string(load, &config->encoding, err);
	if (!code)
		code = weir_load_string(load, &config->name, err);
	if (!code)
		code = weir_load_string(load, &config->extension, err);
	for (size_t i = 0; !code && i < sizeof(numbers) / sizeof(*numbers); i++)
		code = weir_load_i64(load, &numbers[i], err);
	if (!code)
		code = weir_write_text_load(load, &config->text, err);
	if (code)
		return code;
	if (!config->target || numbers[0] < 0 || numbers[0] > WEIR_MODE_IGNORE || numbers[5] < 0 ||
	    numbers[5] >= WEIR_CODEC_COUNT)
		return weir_error_set(err, WEIR_E_DATA, "the saved plan has a write that makes no sense");
	node->config = config;
	config->mode = (enum weir_write_mode)numbers[0];
	config->durable = numbers[1];
	config->no_dictionary = numbers[2];
	config->no_page_index = numbers[3];
	config->data_page_v2 = numbers[4];
	config->codec = (enum weir_codec)numbers[5];
	config->codec_level = numbers[6];
	config->rows_per_file = numbers[7];
	config->bytes_per_file = numbers[8];
	config->row_group_rows = numbers[9];
	config->row_group_bytes = numbers[10];
	config->codec_given = numbers[11];
	config->objects_pickled = numbers[12];
	return WEIR_OK;
}

bool weir_write_is_pipe(const struct write_config *config)
{
	return strcmp(config->target, "-") == 0;
}

/* The writer whose extension the target ends in, that of a compression aside; or NULL. */
static const struct weir_writer_ops *writer_for_target(const char *target)
{
	size_t size = weir_compression_stem(target), at = size;
	char extension[16];

	while (at > 0 && target[at - 1] != '.' && target[at - 1] != '/')
		at--;
	if (at == 0 || target[at - 1] != '.' || size - at + 2 > sizeof(extension))
		return NULL;
	memcpy(extension, target + at - 1, size - at + 1);
	extension[size - at + 1] = 0;
	return weir_writer_for_extension(extension);
}

int weir_write_choose(const struct write_config *config, const struct weir_writer_ops **out, bool *one_file,
		      struct weir_error *err)
{
	const struct weir_writer_ops *by_extension = writer_for_target(config->target);

	*one_file = weir_write_is_pipe(config) || by_extension;
	if (config->format) {
		*out = weir_writer_by_name(config->format);
		if (!*out)
			return weir_error_set(err, WEIR_E_INVALID, "no writer for the format '%s' (there are: %s)",
					      config->format, weir_writer_names());
	} else {
		*out = by_extension ? by_extension
				    : weir_writer_by_name(weir_write_is_pipe(config) ? "csv" : "parquet");
	}
	if (weir_write_is_pipe(config) && (*out)->in_pipes)
		*out = (*out)->in_pipes;
	return WEIR_OK;
}

/* Whoever reads them back would have to unpickle what is in a file: so they are refused, or bytes like any others. */
static int bind_objects(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct write_config *config = node->config;
	const struct weir_schema *schema = node->schema;
	struct weir_field *fields = NULL;

	for (uint32_t i = 0; i < schema->field_count; i++) {
		if (!weir_op_is_object(&schema->fields[i]))
			continue;
		if (!config->objects_pickled)
			return weir_error_set(
				err, WEIR_E_UNSUPPORTED,
				"the column '%s' holds Python objects, which are not written unless --objects-pickled "
				"says so: make text, numbers or bytes of it, or drop it",
				schema->fields[i].name);
		if (!fields) {
			fields = weir_arena_alloc(env->arena, schema->field_count * sizeof(*fields), err);
			if (!fields)
				return err->code;
			memcpy(fields, schema->fields, schema->field_count * sizeof(*fields));
		}
		fields[i].metadata = (struct weir_metadata){0};
	}
	if (!fields)
		return WEIR_OK;
	node->schema = weir_schema_new(env->account, fields, schema->field_count, &schema->metadata, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_writer_ops *writer;
	const struct write_config *config = node->config;
	enum weir_codec around;
	bool one_file;
	int code;

	node->schema = node->inputs[0]->schema;
	node->rows_est = node->inputs[0]->rows_est;
	node->bytes_est = node->inputs[0]->bytes_est;
	code = weir_write_choose(config, &writer, &one_file, err);
	if (!code)
		code = weir_write_text_check(&config->text, writer, err);
	if (!code)
		code = bind_objects(env, node, err);
	return code ? code
		    : weir_write_text_codec(writer, config->target, config->codec_given, config->codec, &around, err);
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	static const char *const modes[] = {"append", "overwrite", "error", "ignore"};
	const struct write_config *config = node->config;
	const struct weir_writer_ops *writer;
	enum weir_codec codec;
	bool one_file;
	int code = weir_write_choose(config, &writer, &one_file, err);

	if (!code)
		code = weir_write_text_codec(writer, config->target, config->codec_given, config->codec, &codec, err);
	if (code)
		return code;
	if (!writer->is_text)
		codec = config->codec_given ? config->codec : writer->codec;
	if (weir_write_is_pipe(config))
		return weir_text_printf(out, err, "write to standard output as %s, in order", writer->name);
	return weir_text_printf(out, err, "write %s (%s, %s%s, %s)", config->target, writer->name,
				weir_codec_name(codec), one_file ? ", one file, in order" : ", a file per split",
				modes[config->mode]);
}

const struct weir_op weir_op_write = {
	.verb = "write",
	.usage = "write TARGET [--mode append|overwrite|error|ignore] [--format F] [--compression C] …",
	.help = "Writes files that appear complete and all at once, when the run has succeeded.\n"
		"TARGET is a folder, or one file if it has an extension that weir knows, or - for standard output.\n"
		"\n"
		"  --mode append|overwrite|error|ignore   what to do if TARGET exists (append)\n"
		"  --format parquet|csv|jsonl|json|arrow|arrows|tfrecord  default: by extension; Parquet in folders, CSV in pipes\n"
		"  --compression snappy|zstd|lz4|gzip|none, --level N\n"
		"  --rows-per-file N, --bytes-per-file B, --row-group-rows N, --row-group-bytes B\n"
		"  --name TEXT, --extension .E            name files in a folder TEXT_000000.E instead of part-000000\n"
		"  --fsync                                survive a power failure, not only a kill\n"
		"  --encoding E, --no-dictionary, --no-page-index, --page-v2   how Parquet is laid out\n"
		"  --objects-pickled                      write Python objects of functions as their pickles, which are bytes\n"
		"\n"
		"CSV and JSON, which are compressed if their name also ends in .gz, .zst or .lz4 (out.csv.gz), or with --compression:\n"
		"  --delimiter C, --quote C, --escape C   one byte each, or \\t; without --escape quotes are doubled\n"
		"  --quoting minimal|all|nonnumeric|strings|none  which CSV cells are quoted (minimal)\n"
		"  --null TEXT, --no-header, --line-terminator lf|crlf\n"
		"  --non-finite null|nan                  how JSON shows NaN and infinities (null)\n"
		"\n"
		"  weir read data/ then filter 'price > 100' then write out/ --mode overwrite\n"
		"  weir read data/ then select name,price then write prices.parquet --compression zstd\n"
		"  weir read data/ then write - --format jsonl | head\n"
		"  weir read data/ then write all.csv.gz --delimiter '\\t' --null NA\n",
	.options = option_names,
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.early = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = weir_write_build,
	.rules = {.needs = weir_op_needs_same},
};
