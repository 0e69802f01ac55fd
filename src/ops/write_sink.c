/* The running half of write: files from vectors. A folder gets a file per split, made by whichever lane runs it; one
 * file, or standard output, gets the parts of all splits in order.
 *
 *     folder    part-000000.parquet  header │ part of split 0 │ footer
 *               part-000001.parquet  header │ part of split 1 │ footer          any lane, any time
 *     one file  header │ part of split 0 │ part of split 1 │ … │ footer          in turn
 *
 * In order means: the lane whose split is the oldest writes through; the others keep the encoded bytes of their part,
 * at most HELD_BYTES_MAX of them, then wait for their turn. A file with no rows is not made, except a single file or a
 * pipe, which somebody asked for by name.
 *
 * Text may be compressed as a whole: header, each MEMBER_BYTES of a part, and footer are members (gzip) or frames
 * (zstd, lz4) of their own, which every reader takes as one, so parts are compressed in parallel too.
 */
#include "io/stream.h"
#include "ops/write_impl.h"
#include "ops/write_stdout.h"

#include <stdio.h>
#include <string.h>

enum { HELD_BYTES_MAX = 16 << 20, WRITE_BUFFER = 256 << 10, MEMBER_BYTES = 1 << 20 };
/* Of a column that is read, decoded and encoded again: pages, windows, dictionaries. */
enum { COLUMN_BYTES = 32 << 10 };

/* The whole output, or a view of it for rows of one schema: then `root` is the whole, and what is below it is in
 * there. */
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
	if (!code && sink->writer_ops->header)
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
	struct write_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "write", err);
	int code;

	if (!lane)
		return err->code;
	weir_text_init(&lane->held, &lane->account);
	weir_text_init(&lane->member, &lane->account);
	lane->context = context;
	lane->sink = sink;
	code = sink->writer_ops->writer_new(&lane->account, sink->schema, &sink->options, &lane->writer, err);
	if (code) {
		weir_op_lane_free(lane, sizeof(*lane));
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

	split_abort(lane);
	lane->sink->writer_ops->writer_free(lane->writer);
	weir_codecs_free(lane->codecs);
	weir_op_lane_free(lane, sizeof(*lane));
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
		if (!code && sink->writer_ops->header)
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
		if (sink->writer_ops->footer)
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
		if (!code && sink->writer_ops->footer)
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
	code = weir_write_choose(config, &sink->writer_ops, &one_file, err);
	if (!code && !config->codec_given)
		sink->options.codec = sink->writer_ops->codec;
	if (!code)
		code = weir_write_text_codec(sink->writer_ops, config->target, config->codec_given, config->codec,
					     &sink->around, err);
	sink->ordered = one_file;
	if (!code && one_file && (config->rows_per_file || config->bytes_per_file))
		code = weir_error_set(err, WEIR_E_INVALID, "rows or bytes per file need a folder, '%s' is one file",
				      config->target);
	if (!code && !weir_write_is_pipe(config)) {
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

int weir_write_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
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
	fragment->held = !weir_write_is_pipe(node->config);
	return weir_fragment_sink(fragment, &sink_ops, sink);
}
