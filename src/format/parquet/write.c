/* The Parquet writer: struct weir_writer_ops. A file is "PAR1", the parts' row groups, indexes and footer.
 *
 *     writer_new ─▶ part_begin ─▶ push … ─▶ part_end ─▶ part_begin … ─▶ writer_free      one writer a lane
 *
 * push hands each column to its leaves; whatever the leaves finish is held, compressed, until the row group ends: then
 * chunk follows chunk into the sink. A row group ends at options.row_group_rows or _bytes, and early when memory asks:
 * when the writer holds more than a third of what the lane has left, or the room falls under a quarter of what it holds
 * (only then if ending it gives back a good part). Page and dictionary bounds shrink with the number of leaves, so that
 * a file of a thousand columns works in the same memory as one of ten.
 *
 * Threads: a writer belongs to one lane. header, footer and part_free touch no writer.
 */
#include "base/cpu.h"
#include "format/parquet/write_impl.h"

#include <string.h>

enum {
	GROUP_ROWS = 1 << 20,
	GROUP_BYTES = 128 << 20,
	PAGE_BYTES_MIN = 8 << 10,
	PAGE_BYTES_MAX = 1 << 20,
	WRITE_BYTES = 256 << 10, /* smaller pieces are gathered, larger ones written as they lie */
};

struct parquet_writer {
	struct parquet_shared shared;
	const struct weir_schema *schema; /* a reference */
	struct parquet_write_schema tree;
	struct parquet_leaf_writer *leaves;
	int64_t group_rows_max;
	uint64_t group_bytes_max;

	/* the part */
	struct weir_byte_sink sink;
	bool is_open;
	uint64_t part_bytes, part_rows, part_decoded;
	struct weir_account noted; /* pays for what the footer will want: no end of a row group gives that back */
	struct weir_arena arena;
	struct parquet_written_groups groups;
	struct parquet_buffer pending; /* bytes for the sink */

	/* the row group */
	uint64_t group_rows;
	int64_t held_before;
};

static struct parquet_writer *writer_of(struct weir_format_writer *writer)
{
	return (struct parquet_writer *)writer;
}

/* ── the sink ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int flush(struct parquet_writer *writer, struct weir_error *err)
{
	int code = WEIR_OK;

	if (writer->pending.size)
		code = writer->sink.write(writer->sink.state, writer->pending.data, writer->pending.size, err);
	writer->pending.size = 0;
	return code;
}

static int emit(struct parquet_writer *writer, const void *bytes, size_t size, struct weir_error *err)
{
	int code = WEIR_OK;

	writer->part_bytes += size;
	if (writer->pending.size + size > WRITE_BYTES)
		code = flush(writer, err);
	if (code)
		return code;
	if (size > WRITE_BYTES)
		return writer->sink.write(writer->sink.state, bytes, size, err);
	code = parquet_buffer_reserve(&writer->pending, size, &writer->shared.account, err);
	if (code)
		return code;
	memcpy(writer->pending.data + writer->pending.size, bytes, size);
	writer->pending.size += size;
	return WEIR_OK;
}

/* ── row groups ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static int64_t held(const struct parquet_writer *writer)
{
	return atomic_load_explicit(&writer->shared.account.used, memory_order_relaxed);
}

/* How much may be held before a row group should end. */
static int64_t held_max(const struct parquet_writer *writer)
{
	int64_t room = weir_account_room(&writer->shared.account);

	return room == INT64_MAX ? INT64_MAX : (held(writer) + (room > 0 ? room : 0)) / 3;
}

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max)
{
	return value < min ? min : value > max ? max : value;
}

static void group_begin(struct parquet_writer *writer, bool is_first)
{
	/* Open pages should take no more than half of a row group, and of what may be held an eighth: their buffers
	 * double as they grow, and the reader has pages too. */
	uint64_t count = writer->tree.leaf_count ? writer->tree.leaf_count : 1;
	uint64_t of_group = writer->group_bytes_max / (2 * count), of_held = (uint64_t)held_max(writer) / (8 * count);
	uint64_t leaf = of_group < of_held ? of_group : of_held;

	writer->shared.page_bytes_max = clamp(leaf, PAGE_BYTES_MIN, PAGE_BYTES_MAX);
	writer->shared.dictionary_bytes_max = writer->shared.page_bytes_max;
	writer->shared.bytes_finished = 0;
	writer->group_rows = 0;
	for (uint32_t i = 0; i < writer->tree.leaf_count; i++)
		parquet_leaf_begin(&writer->leaves[i], is_first);
	writer->held_before = held(writer);
}

static int keep(struct parquet_writer *writer, const void *bytes, size_t size, struct parquet_bytes *out,
		struct weir_error *err)
{
	uint8_t *copy = weir_arena_alloc(&writer->arena, size ? size : 1, err);

	if (!copy)
		return err->code;
	memcpy(copy, bytes, size);
	*out = (struct parquet_bytes){.data = copy, .size = (uint32_t)size};
	return WEIR_OK;
}

static int note_chunk(struct parquet_writer *writer, struct parquet_leaf_writer *leaf,
		      struct parquet_written_chunk *out, struct weir_error *err)
{
	const struct weir_writer_options *options = &writer->shared.options;
	struct parquet_chunk *meta = &out->meta;
	int code = parquet_codec_from_weir(leaf->codec, &meta->codec, err);

	if (code)
		return code;
	meta->physical = leaf->leaf->physical;
	meta->value_count = (int64_t)leaf->levels_total;
	meta->encodings = leaf->encodings | 1u << PARQUET_RLE;          /* levels */
	meta->encodings |= leaf->pages_coded ? 1u << PARQUET_PLAIN : 0; /* the dictionary page */
	meta->statistics.null_count = (int64_t)leaf->nulls_total;
	out->pages_coded = leaf->pages_coded;
	out->pages_plain = leaf->pages_plain;
	out->plain_encoding = leaf->plain_encoding;
	if (options->statistics && leaf->range.state == PARQUET_RANGE_KNOWN) {
		code = keep(writer, leaf->range.min, leaf->range.min_size, &meta->statistics.min, err);
		if (!code)
			code = keep(writer, leaf->range.max, leaf->range.max_size, &meta->statistics.max, err);
		meta->statistics.min_inexact = leaf->range.min_inexact;
		meta->statistics.max_inexact = leaf->range.max_inexact;
	}
	if (code || !options->page_index)
		return code;
	out->page_count = (uint32_t)leaf->pages.count;
	out->pages = weir_arena_alloc(&writer->arena, out->page_count * sizeof(*out->pages), err);
	if (!out->pages)
		return err->code;
	for (uint32_t i = 0; i < out->page_count; i++) {
		out->pages[i].size_compressed = leaf->pages.items[i].size_compressed;
		out->pages[i].row_count = leaf->pages.items[i].row_count;
	}
	if (!options->statistics || leaf->unbounded || leaf->leaf->order == PARQUET_ORDER_NONE)
		return WEIR_OK;
	weir_text_clear(&writer->shared.header);
	code = parquet_column_index_write(leaf, &writer->shared.header, err);
	return code ? code
		    : keep(writer, writer->shared.header.data, writer->shared.header.size, &out->column_index, err);
}

static int write_chunk(struct parquet_writer *writer, struct parquet_leaf_writer *leaf,
		       struct parquet_written_chunk *out, struct weir_error *err)
{
	uint64_t begin = writer->part_bytes;
	int code = WEIR_OK;

	out->meta.size_uncompressed = (int64_t)leaf->bytes_uncompressed;
	if (leaf->pages_coded) {
		const uint8_t *page;
		size_t size;

		code = parquet_leaf_dictionary_page(leaf, &page, &size, err);
		out->meta.dictionary_offset = (int64_t)begin;
		out->meta.size_uncompressed += (int64_t)(writer->shared.header.size + leaf->dictionary.body.size);
		if (!code)
			code = emit(writer, writer->shared.header.data, writer->shared.header.size, err);
		if (!code)
			code = emit(writer, page, size, err);
	}
	out->meta.data_offset = (int64_t)writer->part_bytes;
	for (struct parquet_segment *segment = leaf->first; segment && !code; segment = segment->next)
		code = emit(writer, segment->bytes, segment->size, err);
	out->meta.size_compressed = (int64_t)(writer->part_bytes - begin);
	return code ? code : note_chunk(writer, leaf, out, err);
}

static int group_end(struct parquet_writer *writer, struct weir_error *err)
{
	struct parquet_written_group group = {.row_count = (int64_t)writer->group_rows};
	uint32_t count = writer->tree.leaf_count;
	int code = WEIR_OK;

	if (writer->group_rows == 0)
		return WEIR_OK;
	group.chunks = weir_arena_alloc_zero(&writer->arena, (count ? count : 1) * sizeof(*group.chunks), err);
	if (!group.chunks)
		return err->code;
	for (uint32_t i = 0; i < count && !code; i++) {
		struct parquet_leaf_writer *leaf = &writer->leaves[i];

		code = parquet_leaf_end(leaf, err);
		if (!code)
			code = write_chunk(writer, leaf, &group.chunks[i], err);
		if (!code) {
			group.size_bytes += group.chunks[i].meta.size_uncompressed;
			group.size_compressed += group.chunks[i].meta.size_compressed;
			parquet_leaf_begin(leaf, false); /* its memory may serve the next chunk's dictionary page */
		} else {
			weir_error_at_column(err, leaf->leaf->path[0]);
		}
	}
	if (!code)
		code = weir_list_push(&writer->groups, &writer->noted, err, group);
	if (!code)
		code = flush(writer, err);
	if (!code) {
		writer->part_rows += writer->group_rows;
		writer->part_decoded += (uint64_t)group.size_bytes;
		/* Buffers of many leaves may be most of what is held; kept, they would leave no room to grow in. */
		if (held(writer) > held_max(writer) / 2)
			for (uint32_t i = 0; i < count; i++)
				parquet_leaf_shrink(&writer->leaves[i]);
		group_begin(writer, false);
	}
	return code;
}

static bool group_is_full(const struct parquet_writer *writer)
{
	int64_t holds = held(writer), grown = holds - writer->held_before, room;

	if (writer->group_rows >= (uint64_t)writer->group_rows_max ||
	    writer->shared.bytes_finished >= writer->group_bytes_max)
		return true;
	room = weir_account_room(&writer->shared.account);
	/* What was grown since the group began is what its end gives back. */
	return room != INT64_MAX && grown > holds / 4 && (holds > held_max(writer) || room < holds / 4);
}

/* ── the table ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static void writer_free(struct weir_format_writer *base)
{
	struct parquet_writer *writer = writer_of(base);
	struct weir_account *parent, *account;

	if (!writer)
		return;
	account = &writer->shared.account;
	parent = account->parent;
	if (writer->leaves)
		for (uint32_t i = 0; i < writer->tree.leaf_count; i++)
			parquet_leaf_writer_release(&writer->leaves[i]);
	weir_free(account, writer->leaves, writer->tree.leaf_count * sizeof(*writer->leaves));
	parquet_buffer_release(&writer->shared.scratch, account);
	parquet_buffer_release(&writer->shared.page, account);
	parquet_buffer_release(&writer->shared.scratch_values, account);
	parquet_buffer_release(&writer->pending, account);
	weir_text_release(&writer->shared.header);
	weir_codecs_free(writer->shared.codecs);
	weir_list_release(&writer->groups, &writer->noted);
	parquet_buffer_release(&writer->shared.nested_values, account);
	parquet_buffer_release(&writer->shared.missing_values, account);
	weir_arena_release(&writer->shared.arena);
	weir_arena_release(&writer->arena);
	parquet_write_schema_release(&writer->tree);
	weir_schema_unref(writer->schema);
	weir_account_release(account);
	weir_account_release(&writer->noted);
	weir_free(parent, writer, sizeof(*writer));
}

static int check_options(const struct weir_writer_options *options, struct weir_error *err)
{
	int32_t codec;
	int code = parquet_codec_from_weir(options->codec, &codec, err);

	if (code)
		return code;
	if (options->encoding && strcmp(options->encoding, "plain") && strcmp(options->encoding, "delta") &&
	    strcmp(options->encoding, "byte_stream_split"))
		return weir_error_set(err, WEIR_E_INVALID,
				      "encoding '%s' is not one of plain, delta, byte_stream_split", options->encoding);
	return WEIR_OK;
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_format_writer **out,
		      struct weir_error *err)
{
	struct parquet_writer *writer;
	struct weir_account *own;
	int code = check_options(options, err);

	*out = NULL;
	if (code)
		return code;
	writer = weir_alloc_zero(account, sizeof(*writer), err);
	if (!writer)
		return err->code;
	own = &writer->shared.account;
	weir_account_init(own, account, "parquet writer");
	weir_text_init(&writer->shared.header, own);
	weir_account_init(&writer->noted, account, "parquet metadata");
	weir_arena_init(&writer->arena, &writer->noted);
	weir_arena_init(&writer->shared.arena, own);
	writer->shared.kernels = parquet_encode_kernels_choose();
	writer->shared.options = *options;
	writer->group_rows_max = options->row_group_rows > 0 ? options->row_group_rows : GROUP_ROWS;
	writer->group_bytes_max = options->row_group_bytes > 0 ? (uint64_t)options->row_group_bytes : GROUP_BYTES;
	writer->schema = weir_schema_ref(schema);
	code = parquet_write_schema_init(&writer->tree, writer->schema, own, err);
	if (!code)
		code = weir_codecs_new(own, &writer->shared.codecs, err);
	if (code)
		goto failed;
	writer->leaves = weir_alloc_zero(own, writer->tree.leaf_count * sizeof(*writer->leaves), err);
	if (!writer->leaves) {
		code = err->code;
		goto failed;
	}
	for (uint32_t i = 0; i < writer->tree.leaf_count; i++)
		parquet_leaf_writer_init(&writer->leaves[i], &writer->tree.leaves[i], &writer->shared);
	*out = (struct weir_format_writer *)writer;
	return WEIR_OK;
failed:
	writer_free((struct weir_format_writer *)writer);
	return code;
}

static int part_begin(struct weir_format_writer *base, struct weir_byte_sink sink, struct weir_error *err)
{
	struct parquet_writer *writer = writer_of(base);

	(void)err;
	writer->sink = sink;
	writer->is_open = true;
	writer->part_bytes = writer->part_rows = writer->part_decoded = 0;
	writer->pending.size = 0;
	writer->groups.count = 0;
	weir_arena_clear(&writer->arena);
	group_begin(writer, true);
	return WEIR_OK;
}

static int push_column(struct parquet_writer *writer, struct weir_vector *vector, uint32_t field,
		       struct weir_error *err)
{
	const struct parquet_node *node = &writer->tree.nodes[writer->tree.field_nodes[field]];
	const struct weir_column *column = &vector->columns[field];
	const struct weir_type *type;
	int code = weir_column_decode(vector, field, err);

	if (code)
		return code;
	type = weir_type_values(column->type);
	WEIR_ASSERT(type->layout == node->type->layout && type->byte_width == node->type->byte_width);
	if (node->kind == PARQUET_NODE_LEAF)
		code = parquet_write_flat(&writer->leaves[node->leaf], column, &vector->selection, err);
	else
		code = parquet_write_nested(writer->tree.nodes, node, writer->leaves, column, &vector->selection,
					    &writer->shared, err);
	if (code && err->has_row) { /* the vector's: people count from the source's first, where that is known */
		err->has_row = vector->source_row >= 0;
		err->row += vector->source_row;
		weir_error_at_source(err, vector->source);
	}
	return code;
}

static int push_rows(struct parquet_writer *writer, struct weir_vector *vector, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < vector->column_count && !code; i++) {
		code = push_column(writer, vector, i, err);
		if (code)
			weir_error_at_column(err, writer->schema->fields[i].name);
	}
	if (code)
		return code;
	writer->group_rows += vector->selection.count;
	return group_is_full(writer) ? group_end(writer, err) : WEIR_OK;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct parquet_writer *writer = writer_of(base);
	uint16_t numbers[WEIR_VECTOR_ROWS];
	struct weir_vector rest;
	int code = WEIR_OK;

	WEIR_ASSERT(writer->is_open && vector->column_count == writer->tree.field_count);
	if (vector->selection.count == 0)
		return WEIR_OK;
	if (writer->group_rows + vector->selection.count <= (uint64_t)writer->group_rows_max)
		return push_rows(writer, vector, err);
	code = weir_vector_cut_begin(vector, numbers, &rest, err);
	while (!code && rest.selection.count > 0) {
		struct weir_vector head = weir_vector_cut(&rest, (uint64_t)writer->group_rows_max - writer->group_rows);

		code = push_rows(writer, &head, err);
	}
	return code;
}

static void part_free(struct weir_account *account, struct weir_part *base)
{
	struct parquet_part *part = (struct parquet_part *)base;

	if (!part)
		return;
	weir_list_release(&part->groups, account);
	weir_arena_release(&part->arena);
	weir_free(account, part, sizeof(*part));
}

static int copy_bytes(struct weir_arena *arena, struct parquet_bytes *bytes, struct weir_error *err)
{
	uint8_t *copy;

	if (!bytes->data)
		return WEIR_OK;
	copy = weir_arena_alloc(arena, bytes->size ? bytes->size : 1, err);
	if (!copy)
		return err->code;
	memcpy(copy, bytes->data, bytes->size);
	bytes->data = copy;
	return WEIR_OK;
}

static int copy_group(struct weir_arena *arena, struct parquet_written_group *group, uint32_t leaf_count,
		      struct weir_error *err)
{
	size_t size = leaf_count * sizeof(*group->chunks);
	struct parquet_written_chunk *chunks = weir_arena_alloc(arena, size ? size : 1, err);
	int code = chunks ? WEIR_OK : err->code;

	if (code)
		return code;
	memcpy(chunks, group->chunks, size);
	group->chunks = chunks;
	for (uint32_t i = 0; i < leaf_count && !code; i++) {
		struct parquet_written_chunk *chunk = &chunks[i];
		void *pages = weir_arena_alloc(arena, chunk->page_count * sizeof(*chunk->pages) + 1, err);

		if (!pages)
			return err->code;
		if (chunk->page_count)
			memcpy(pages, chunk->pages, chunk->page_count * sizeof(*chunk->pages));
		chunk->pages = pages;
		code = copy_bytes(arena, &chunk->column_index, err);
		if (!code)
			code = copy_bytes(arena, &chunk->meta.statistics.min, err);
		if (!code)
			code = copy_bytes(arena, &chunk->meta.statistics.max, err);
	}
	return code;
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct parquet_writer *writer = writer_of(base);
	struct parquet_part *part;
	int code;

	*out = NULL;
	WEIR_ASSERT(writer->is_open);
	writer->is_open = false;
	code = group_end(writer, err);
	if (code)
		return code;
	part = weir_alloc_zero(account, sizeof(*part), err);
	if (!part)
		return err->code;
	weir_arena_init(&part->arena, account);
	part->base = (struct weir_part){
		.bytes = writer->part_bytes,
		.rows = writer->part_rows,
		.bytes_decoded = writer->part_decoded,
	};
	for (size_t i = 0; i < writer->groups.count && !code; i++) {
		struct parquet_written_group group = writer->groups.items[i];

		code = copy_group(&part->arena, &group, writer->tree.leaf_count, err);
		if (!code)
			code = weir_list_push(&part->groups, account, err, group);
	}
	weir_arena_clear(&writer->arena);
	writer->groups.count = 0;
	if (code)
		part_free(account, &part->base);
	else
		*out = &part->base;
	return code;
}

static int header(struct weir_account *account, const struct weir_schema *schema,
		  const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err)
{
	(void)account;
	(void)schema;
	(void)options;
	return sink.write(sink.state, PARQUET_MAGIC, strlen(PARQUET_MAGIC), err);
}

const struct weir_writer_ops weir_parquet_writer = {
	.name = "parquet",
	.extension = ".parquet",
	.codec = WEIR_CODEC_SNAPPY,
	.writer_new = writer_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.header = header,
	.footer = parquet_footer_write,
	.writer_free = writer_free,
};

WEIR_KERNEL_DECLARE(struct parquet_encode_kernels, parquet_encode_kernels);

const struct parquet_encode_kernels *parquet_encode_kernels_choose(void)
{
	return WEIR_KERNEL_CHOOSE(parquet_encode_kernels);
}
