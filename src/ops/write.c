/* write TARGET: files from vectors. A folder gets a file per split, made by whichever lane runs it; one file, or standard
 * output, gets the parts of all splits in order.
 *
 *     folder    part-000000.parquet  header │ part of split 0 │ footer
 *               part-000001.parquet  header │ part of split 1 │ footer          any lane, any time
 *     one file  header │ part of split 0 │ part of split 1 │ … │ footer          in turn
 *
 * In order means: the lane whose split is the oldest writes through; the others keep the encoded bytes of their part, at
 * most HELD_BYTES_MAX of them, then wait for their turn. A file with no rows is not made, except a single file or a pipe,
 * which somebody asked for by name.
 *
 * Text may be compressed as a whole: header, each MEMBER_BYTES of a part, and footer are members (gzip) or frames (zstd, lz4)
 * of their own, which every reader takes as one, so parts are compressed in parallel too.
 */
#include "base/checked.h"
#include "io/stream.h"
#include "ops/ops_impl.h"
#include "ops/write_stdout.h"
#include "ops/write_text.h"

#include <stdio.h>
#include <string.h>

enum { HELD_BYTES_MAX = 16 << 20, WRITE_BUFFER = 256 << 10, MEMBER_BYTES = 1 << 20 };
/* Of a column that is read, decoded and encoded again: pages, windows, dictionaries. */
enum { COLUMN_BYTES = 32 << 10 };

struct write_config {
	const char *target; /* "-": standard output */
	const char *format; /* name of the writer; NULL: by extension, else Parquet */
	const char *encoding;
	const char *name, *extension; /* of files in folders: instead of "part" and of the format's own; NULL: those */
	enum weir_write_mode mode;
	bool durable, no_dictionary, no_page_index, data_page_v2, objects_pickled;
	bool codec_given; /* else it is the writer's own */
	enum weir_codec codec;
	int64_t codec_level, rows_per_file, bytes_per_file, row_group_rows, row_group_bytes;
	struct weir_write_text text;
};

/* The whole output, or a view of it for rows of one schema: then `root` is the whole, and what is below it is in there. */
struct write_sink {
	struct weir_account *account;
	struct weir_schema *schema;
	const struct weir_writer_ops *writer_ops;
	struct weir_writer_options options;
	enum weir_codec around; /* what text is compressed with as a whole */
	int64_t rows_per_file, bytes_per_file;
	const char *name, *extension; /* the config's: in the plan's arena, which outlives the run */
	bool ordered;
	struct write_sink *root;    /* itself where there are no views */
	struct weir_output *output; /* NULL: standard output, or ignored */
	bool ignored;
	struct weir_stdout out;
	/* Ordered only; changed by the lane whose turn it is, and at commit. */
	const _Atomic bool *cancelled; /* of that lane */
	struct weir_output_file *file;
	uint64_t size;
	bool header_done, has_rows;
	struct WEIR_LIST(struct weir_part *) parts;
	struct WEIR_LIST(uint64_t) offsets;
};

struct write_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct write_sink *sink;
	struct weir_format_writer *writer;
	uint64_t split;
	const char *place; /* its number as text, or NULL */
	uint32_t files_of_split;
	bool part_open;
	struct weir_output_file *file; /* folder: the open one */
	uint64_t file_rows;
	struct weir_text held; /* folder: the write buffer; ordered: bytes before our turn */
	bool in_turn;
	bool part_is_empty; /* ordered: nothing of it is in the file yet */
	struct weir_codecs *codecs;
	struct weir_text member; /* text that is not compressed yet */
};

/* ---- plan ---- */

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

static bool is_pipe(const struct write_config *config)
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

static int choose_writer(const struct write_config *config, const struct weir_writer_ops **out, bool *one_file,
			 struct weir_error *err)
{
	const struct weir_writer_ops *by_extension = writer_for_target(config->target);

	*one_file = is_pipe(config) || by_extension;
	if (config->format) {
		*out = weir_writer_by_name(config->format);
		if (!*out)
			return weir_error_set(err, WEIR_E_INVALID, "no writer for the format '%s' (there are: %s)",
					      config->format, weir_writer_names());
	} else {
		*out = by_extension ? by_extension : weir_writer_by_name(is_pipe(config) ? "csv" : "parquet");
	}
	if (is_pipe(config) && (*out)->in_pipes)
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
	code = choose_writer(config, &writer, &one_file, err);
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
	int code = choose_writer(config, &writer, &one_file, err);

	if (!code)
		code = weir_write_text_codec(writer, config->target, config->codec_given, config->codec, &codec, err);
	if (code)
		return code;
	if (!writer->is_text)
		codec = config->codec_given ? config->codec : writer->codec;
	if (is_pipe(config))
		return weir_text_printf(out, err, "write to standard output as %s, in order", writer->name);
	return weir_text_printf(out, err, "write %s (%s, %s%s, %s)", config->target, writer->name,
				weir_codec_name(codec), one_file ? ", one file, in order" : ", a file per split",
				modes[config->mode]);
}

/* ---- bytes ---- */

static int ordered_write(struct write_sink *sink, const void *bytes, uint64_t size, struct weir_error *err)
{
	int code = sink->output ? weir_output_file_write(sink->file, bytes, size, err)
				: weir_stdout_write(&sink->out, bytes, size, sink->cancelled, err);

	if (!code)
		sink->size += size;
	return code;
}

/* Compresses a whole member into *out, which the caller releases. */
static int compress(const struct write_sink *sink, struct weir_codecs *codecs, const void *bytes, size_t size,
		    struct weir_account *account, uint8_t **out, size_t *capacity, size_t *size_out,
		    struct weir_error *err)
{
	*capacity = weir_codec_bound(sink->around, size);
	*out = weir_alloc(account, *capacity, err);
	if (!*out)
		return err->code;
	return weir_codec_compress(codecs, sink->around, sink->options.codec_level, bytes, size, *out, *capacity,
				   size_out, err);
}

/* What lies around the parts: header, footer, and what stands between two. */
static int ordered_sink_write(void *state, const void *bytes, uint64_t size, struct weir_error *err)
{
	struct write_sink *sink = state;
	struct weir_codecs *codecs = NULL;
	uint8_t *out = NULL;
	size_t capacity = 0, size_out = 0;
	int code;

	if (sink->around == WEIR_CODEC_NONE)
		return ordered_write(sink, bytes, size, err);
	code = weir_codecs_new(sink->account, &codecs, err);
	if (!code)
		code = compress(sink, codecs, bytes, size, sink->account, &out, &capacity, &size_out, err);
	if (!code)
		code = ordered_write(sink, out, size_out, err);
	if (out)
		weir_free(sink->account, out, capacity);
	weir_codecs_free(codecs);
	return code;
}

/* Bytes of a part, whose turn it is. */
static int ordered_part_write(struct write_lane *lane, const void *bytes, uint64_t size, struct weir_error *err)
{
	struct write_sink *sink = lane->sink->root;
	const char *separator = sink->writer_ops->separator;
	int code = WEIR_OK;

	if (lane->part_is_empty && size) {
		if (sink->has_rows && separator)
			code = ordered_sink_write(sink, separator, strlen(separator), err);
		lane->part_is_empty = false;
		sink->has_rows = true;
	}
	return code ? code : ordered_write(sink, bytes, size, err);
}

/* One file has one schema: that of its first rows. */
static int check_schema(const struct weir_schema *first, const struct weir_schema *schema, struct weir_error *err)
{
	char names[2][64];

	if (first == schema || weir_schema_equal(first, schema, false))
		return WEIR_OK;
	for (uint32_t i = 0; i < first->field_count && i < schema->field_count; i++) {
		const struct weir_field *a = &first->fields[i], *b = &schema->fields[i];

		if (strcmp(a->name, b->name) == 0 && weir_type_equal(a->type, b->type, false))
			continue;
		return weir_error_set(
			err, WEIR_E_TYPE,
			"one file has one schema, but column %u is '%s' (%s) in the first rows and '%s' (%s) in "
			"others; write into a folder, or make them alike",
			i + 1, a->name, weir_type_name(a->type, names[0], sizeof(names[0])), b->name,
			weir_type_name(b->type, names[1], sizeof(names[1])));
	}
	return weir_error_set(
		err, WEIR_E_TYPE,
		"one file has one schema, but the first rows have %u columns and others %u; write into a folder, "
		"or make them alike",
		first->field_count, schema->field_count);
}

static int ordered_header(struct write_sink *sink, struct weir_schema *schema, struct weir_error *err)
{
	int code = WEIR_OK;

	if (sink->header_done)
		return check_schema(sink->schema, schema, err);
	weir_schema_ref(schema);
	weir_schema_unref(sink->schema);
	sink->schema = schema;
	if (sink->output)
		code = weir_output_file_new(sink->output, "", &sink->file, err);
	if (!code)
		code = sink->writer_ops->header(sink->account, sink->schema, &sink->options,
						(struct weir_byte_sink){ordered_sink_write, sink}, err);
	sink->header_done = !code;
	return code;
}

/* Our turn: the header if we are the first, then what we held. */
static int take_turn(struct write_lane *lane, struct weir_error *err)
{
	struct write_sink *sink = lane->sink->root;
	int code;

	if (lane->in_turn)
		return WEIR_OK;
	code = lane->context->wait_turn(lane->context, err);
	if (!code)
		sink->cancelled = lane->context->cancelled;
	if (!code)
		code = ordered_header(sink, lane->sink->schema, err);
	if (!code && lane->part_open)
		code = weir_list_push(&sink->offsets, sink->account, err, sink->size);
	if (!code && lane->held.size)
		code = ordered_part_write(lane, lane->held.data, lane->held.size, err);
	weir_text_release(&lane->held);
	lane->in_turn = !code;
	return code;
}

static int flush(struct write_lane *lane, struct weir_error *err)
{
	int code = lane->held.size ? weir_output_file_write(lane->file, lane->held.data, lane->held.size, err)
				   : WEIR_OK;

	weir_text_clear(&lane->held);
	return code;
}

/* Bytes as they are in the file. */
static int lane_put(struct write_lane *lane, const void *bytes, uint64_t size, struct weir_error *err)
{
	int code = WEIR_OK;

	if (lane->sink->ordered) {
		if (!lane->in_turn && lane->held.size + size > HELD_BYTES_MAX)
			code = take_turn(lane, err);
		if (code)
			return code;
		return lane->in_turn ? ordered_part_write(lane, bytes, size, err)
				     : weir_text_append(&lane->held, bytes, size, err);
	}
	if (lane->held.size + size > WRITE_BUFFER)
		code = flush(lane, err);
	if (code)
		return code;
	return size >= WRITE_BUFFER ? weir_output_file_write(lane->file, bytes, size, err)
				    : weir_text_append(&lane->held, bytes, size, err);
}

static int member_end(struct write_lane *lane, struct weir_error *err)
{
	uint8_t *out = NULL;
	size_t capacity = 0, size_out = 0;
	int code;

	if (!lane->member.size)
		return WEIR_OK;
	code = lane->codecs ? WEIR_OK : weir_codecs_new(&lane->account, &lane->codecs, err);
	if (!code)
		code = compress(lane->sink, lane->codecs, lane->member.data, lane->member.size, &lane->account, &out,
				&capacity, &size_out, err);
	weir_text_clear(&lane->member);
	if (!code)
		code = lane_put(lane, out, size_out, err);
	if (out)
		weir_free(&lane->account, out, capacity);
	return code;
}

static int lane_write(void *state, const void *bytes, uint64_t size, struct weir_error *err)
{
	struct write_lane *lane = state;
	const char *p = bytes;
	int code = WEIR_OK;

	if (lane->sink->around == WEIR_CODEC_NONE)
		return lane_put(lane, bytes, size, err);
	while (!code && size) {
		size_t room = MEMBER_BYTES - lane->member.size, piece = size < room ? (size_t)size : room;

		code = weir_text_append(&lane->member, p, piece, err);
		p += piece;
		size -= piece;
		if (!code && lane->member.size == MEMBER_BYTES)
			code = member_end(lane, err);
	}
	return code;
}

/* ---- lanes ---- */

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct write_sink *sink = state;
	struct write_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "write");
	weir_text_init(&lane->held, &lane->account);
	weir_text_init(&lane->member, &lane->account);
	lane->context = context;
	lane->sink = sink;
	code = sink->writer_ops->writer_new(&lane->account, sink->schema, &sink->options, &lane->writer, err);
	if (code) {
		weir_account_release(&lane->account);
		weir_free(context->account, lane, sizeof(*lane));
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static void split_abort(void *state)
{
	struct write_lane *lane = state;
	struct weir_error ignored = {0};

	if (lane->file)
		weir_output_file_close(lane->file, false, &ignored);
	lane->file = NULL;
	lane->part_open = false;
	weir_text_release(&lane->held);
	weir_text_release(&lane->member);
}

static void lane_free(void *state)
{
	struct write_lane *lane = state;
	struct weir_account *account = lane->context->account;

	split_abort(lane);
	lane->sink->writer_ops->writer_free(lane->writer);
	weir_codecs_free(lane->codecs);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct write_lane *lane = state;

	(void)err;
	lane->split = split->number;
	lane->place = split->place;
	lane->files_of_split = 0;
	lane->part_open = false;
	lane->in_turn = false;
	return WEIR_OK;
}

static int file_begin(struct write_lane *lane, struct weir_error *err)
{
	struct write_sink *sink = lane->sink;
	struct weir_byte_sink bytes = {lane_write, lane};
	int code = WEIR_OK;

	lane->file_rows = 0;
	if (!sink->ordered) {
		const char *around = weir_write_text_extension(sink->around);
		const char *extension = sink->extension ? sink->extension : sink->writer_ops->extension;
		const char *prefix = weir_output_name_prefix(sink->root->output), *place = lane->place;
		bool several = sink->rows_per_file || sink->bytes_per_file;
		char name[256], number[24], part[16] = "";

		snprintf(number, sizeof(number), "%06llu", (unsigned long long)lane->split);
		place = place ? place : number;
		if (sink->name) { /* as Ray Data calls its files, those of Parquet always with a number of their own */
			if (several || !sink->writer_ops->is_text)
				snprintf(part, sizeof(part), "-%u", lane->files_of_split);
			snprintf(name, sizeof(name), "%s_%s%s%s%s", sink->name, place, part, extension, around);
		} else {
			if (several)
				snprintf(part, sizeof(part), "-%03u", lane->files_of_split);
			snprintf(name, sizeof(name), "%spart-%s%s%s%s", prefix, place, part, extension, around);
		}
		code = weir_output_file_new(sink->root->output, name, &lane->file, err);
		if (!code)
			code = sink->writer_ops->header(&lane->account, sink->schema, &sink->options, bytes, err);
	} else if (lane->in_turn) {
		code = weir_list_push(&sink->root->offsets, sink->account, err, sink->root->size);
	}
	if (!code)
		code = sink->writer_ops->part_begin(lane->writer, bytes, err);
	lane->part_open = !code;
	lane->part_is_empty = true;
	lane->files_of_split++;
	return code;
}

static int file_end(struct write_lane *lane, struct weir_error *err)
{
	struct write_sink *sink = lane->sink;
	struct weir_part *part = NULL;
	uint64_t offset;
	int code;

	if (sink->ordered) {
		code = sink->writer_ops->part_end(lane->writer, sink->account, &part, err);
		if (!code)
			code = member_end(lane, err);
		if (!code)
			code = take_turn(lane, err);
		if (!code)
			code = weir_list_push(&sink->root->parts, sink->account, err, part);
		if (code && part)
			sink->writer_ops->part_free(sink->account, part);
		lane->part_open = false;
		return code;
	}
	code = sink->writer_ops->part_end(lane->writer, &lane->account, &part, err);
	if (!code) {
		/* Formats whose footer has places in it are not compressed as a whole. */
		offset = sink->around ? 0 : weir_output_file_size(lane->file) + lane->held.size - part->bytes;
		code = sink->writer_ops->footer(&lane->account, sink->schema, &sink->options, &part, &offset, 1,
						(struct weir_byte_sink){lane_write, lane}, err);
		sink->writer_ops->part_free(&lane->account, part);
	}
	if (!code)
		code = member_end(lane, err);
	if (!code)
		code = flush(lane, err);
	if (!code) {
		code = weir_output_file_close(lane->file, true, err);
		lane->file = NULL;
	}
	lane->part_open = false;
	return code;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct write_lane *lane = state;
	struct write_sink *sink = lane->sink;
	int code = WEIR_OK;

	if (sink->root->ignored)
		return WEIR_OK;
	if (sink->ordered && !lane->in_turn && lane->context->is_turn(lane->context))
		code = take_turn(lane, err);
	if (!code && !lane->part_open)
		code = file_begin(lane, err);
	if (!code && sink->rows_per_file && lane->file_rows + vector->selection.count > (uint64_t)sink->rows_per_file) {
		/* The vector goes into two files (or more): cut by selection. */
		uint16_t numbers[WEIR_VECTOR_ROWS];
		struct weir_vector rest;

		code = weir_vector_cut_begin(vector, numbers, &rest, err);
		while (!code && rest.selection.count > 0) {
			uint64_t room = (uint64_t)sink->rows_per_file - lane->file_rows;
			struct weir_vector head;

			if (room == 0) {
				code = file_end(lane, err);
				if (!code)
					code = file_begin(lane, err);
				continue;
			}
			head = weir_vector_cut(&rest, room);
			code = sink->writer_ops->push(lane->writer, &head, err);
			lane->file_rows += head.selection.count;
		}
		return code;
	}
	if (!code)
		code = sink->writer_ops->push(lane->writer, vector, err);
	lane->file_rows += vector->selection.count;
	if (!code && sink->bytes_per_file && !sink->ordered &&
	    weir_output_file_size(lane->file) + lane->held.size >= (uint64_t)sink->bytes_per_file)
		code = file_end(lane, err);
	return code;
}

static int split_end(void *state, struct weir_error *err)
{
	struct write_lane *lane = state;

	return lane->part_open ? file_end(lane, err) : WEIR_OK;
}

/* ---- the whole ---- */

static int commit(void *state, struct weir_error *err)
{
	struct write_sink *sink = state;
	int code = WEIR_OK;

	if (sink->ignored)
		return WEIR_OK;
	if (sink->ordered) {
		code = ordered_header(sink, sink->schema, err);
		WEIR_ASSERT(code || sink->parts.count == sink->offsets.count);
		if (!code)
			code = sink->writer_ops->footer(sink->account, sink->schema, &sink->options, sink->parts.items,
							sink->offsets.items, (uint32_t)sink->parts.count,
							(struct weir_byte_sink){ordered_sink_write, sink}, err);
		if (!code && sink->file) {
			code = weir_output_file_close(sink->file, true, err);
			sink->file = NULL;
		}
	}
	return code || !sink->output ? code : weir_output_commit(sink->output, err);
}

static void sink_free(void *state)
{
	struct write_sink *sink = state;
	struct weir_error ignored = {0};

	for (size_t i = 0; i < sink->parts.count; i++)
		sink->writer_ops->part_free(sink->account, sink->parts.items[i]);
	weir_list_release(&sink->parts, sink->account);
	weir_list_release(&sink->offsets, sink->account);
	if (sink->file)
		weir_output_file_close(sink->file, false, &ignored);
	if (sink->output)
		weir_output_free(sink->output);
	weir_stdout_close(&sink->out);
	weir_schema_unref(sink->schema);
	weir_free(sink->account, sink, sizeof(*sink));
}

static bool by_schema(const void *state)
{
	return !((const struct write_sink *)state)->ordered;
}

static const struct weir_sink_ops sink_ops = {
	.name = "write",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.by_schema = by_schema,
	.free = sink_free,
};

/* The output as rows of one schema see it. */
static int view_new(struct write_sink *root, struct weir_schema *schema, struct write_sink **out,
		    struct weir_error *err)
{
	struct write_sink *view = weir_alloc_zero(root->account, sizeof(*view), err);

	if (!view)
		return err->code;
	*view = (struct write_sink){
		.account = root->account,
		.schema = weir_schema_ref(schema),
		.writer_ops = root->writer_ops,
		.options = root->options,
		.around = root->around,
		.rows_per_file = root->rows_per_file,
		.bytes_per_file = root->bytes_per_file,
		.name = root->name,
		.extension = root->extension,
		.ordered = root->ordered,
		.root = root,
	};
	*out = view;
	return WEIR_OK;
}

static int build_root(struct weir_op_env *env, struct weir_node *node, struct write_sink **out, struct weir_error *err)
{
	const struct write_config *config = node->config;
	struct write_sink *sink = weir_alloc_zero(env->account, sizeof(*sink), err);
	bool one_file = false;
	int code = WEIR_OK;

	if (!sink)
		return err->code;
	sink->account = env->account;
	sink->root = sink;
	sink->schema = weir_schema_ref(node->schema);
	sink->rows_per_file = config->rows_per_file;
	sink->bytes_per_file = config->bytes_per_file;
	sink->name = config->name;
	sink->extension = config->extension;
	sink->options = (struct weir_writer_options){
		.codec = config->codec,
		.codec_level = (int)config->codec_level,
		.row_group_rows = config->row_group_rows,
		.row_group_bytes = config->row_group_bytes,
		.dictionary = !config->no_dictionary,
		.page_index = !config->no_page_index,
		.statistics = true,
		.data_page_v2 = config->data_page_v2,
		.encoding = config->encoding,
		.text = config->text.options,
	};
	code = choose_writer(config, &sink->writer_ops, &one_file, err);
	if (!code && !config->codec_given)
		sink->options.codec = sink->writer_ops->codec;
	if (!code)
		code = weir_write_text_codec(sink->writer_ops, config->target, config->codec_given, config->codec,
					     &sink->around, err);
	sink->ordered = one_file;
	if (!code && one_file && (config->rows_per_file || config->bytes_per_file))
		code = weir_error_set(err, WEIR_E_INVALID, "rows or bytes per file need a folder, '%s' is one file",
				      config->target);
	if (!code && !is_pipe(config)) {
		struct weir_output_options options = {
			.mode = config->mode, .durable = config->durable, .single_file = one_file};
		const char *target = config->target;
		size_t length = strlen(target);

		if (!one_file && (length == 0 || target[length - 1] != '/'))
			target = weir_arena_printf(env->arena, err, "%s/", target);
		code = target ? weir_output_begin(env->account, target, &options, &sink->output, &sink->ignored, err)
			      : err->code;
	} else if (!code) {
		weir_stdout_open(&sink->out);
	}
	if (code) {
		sink_free(sink);
		return code;
	}
	*out = sink;
	return WEIR_OK;
}

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct weir_shared *shared = env->shared;
	struct write_sink *sink = NULL;
	int code = WEIR_OK;

	if (!shared || !shared->sink) {
		code = build_root(env, node, &sink, err);
		if (!code && shared) {
			shared->sink_ops = &sink_ops;
			shared->sink = sink;
		}
	}
	if (!code && shared)
		code = view_new(shared->sink, node->schema, &sink, err);
	if (code)
		return code;
	fragment->ordered |= sink->ordered;
	fragment->lane_bytes = (int64_t)node->schema->field_count * COLUMN_BYTES;
	fragment->held = !is_pipe(node->config);
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_write = {
	.verb = "write",
	.usage = "write TARGET [--mode append|overwrite|error|ignore] [--format F] [--compression C] …",
	.help = "Writes files that appear all at once, complete, when the run has ended well.\n"
		"TARGET is a folder, or one file when it has an extension that weir knows, or - for standard output.\n"
		"\n"
		"  --mode append|overwrite|error|ignore   what to do when TARGET exists (append)\n"
		"  --format parquet|csv|jsonl|json|arrow|arrows|tfrecord  else by extension; Parquet in folders, CSV into pipes\n"
		"  --compression snappy|zstd|lz4|gzip|none, --level N\n"
		"  --rows-per-file N, --bytes-per-file B, --row-group-rows N, --row-group-bytes B\n"
		"  --name TEXT, --extension .E            of files in a folder: TEXT_000000.E instead of part-000000\n"
		"  --fsync                                survive a power failure, not only a kill\n"
		"  --encoding E, --no-dictionary, --no-page-index, --page-v2   how Parquet is laid out\n"
		"  --objects-pickled                      Python objects of functions as their pickles, which are bytes\n"
		"\n"
		"CSV and JSON, compressed when their name ends in .gz, .zst or .lz4 too (out.csv.gz), or with --compression:\n"
		"  --delimiter C, --quote C, --escape C   one byte each, or \\t; without --escape quotes are doubled\n"
		"  --quoting minimal|all|nonnumeric|strings|none  which CSV cells stand between quotes (minimal)\n"
		"  --null TEXT, --no-header, --line-terminator lf|crlf\n"
		"  --non-finite null|nan                  how JSON shows what is not a finite number (null)\n"
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
	.build = build,
	.rules = {.needs = weir_op_needs_same},
};
