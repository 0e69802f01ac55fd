/* Page headers, indexes and the footer, in Thrift's compact protocol. The numbers are the field ids of parquet.thrift.
 *
 * The end of a file:
 *
 *     … row groups │ column indexes │ offset indexes │ FileMetaData │ its length │ PAR1
 *
 * Parts know positions relative to themselves; here, where all parts have a place, they become positions in the file.
 */
#include "base/text.h"
#include "arrow/ipc.h"
#include "format/parquet/write_impl.h"

#include <string.h>

enum { FLUSH_BYTES = 256 << 10 };

#define CREATED_BY "weir version " WEIR_VERSION

int parquet_page_header_write(const struct parquet_page_header *header, struct weir_text *out, struct weir_error *err)
{
	struct thrift_writer writer;

	thrift_writer_init(&writer, out, err);
	thrift_put_i32(&writer, 1, header->type);
	thrift_put_i32(&writer, 2, header->size_uncompressed);
	thrift_put_i32(&writer, 3, header->size_compressed);
	switch (header->type) {
	case PARQUET_PAGE_DATA:
		thrift_put_struct(&writer, 5);
		thrift_put_i32(&writer, 1, header->value_count);
		thrift_put_i32(&writer, 2, header->encoding);
		thrift_put_i32(&writer, 3, header->definition_encoding);
		thrift_put_i32(&writer, 4, header->repetition_encoding);
		break;
	case PARQUET_PAGE_DICTIONARY:
		thrift_put_struct(&writer, 7);
		thrift_put_i32(&writer, 1, header->value_count);
		thrift_put_i32(&writer, 2, header->encoding);
		break;
	default:
		thrift_put_struct(&writer, 8);
		thrift_put_i32(&writer, 1, header->value_count);
		thrift_put_i32(&writer, 2, header->null_count);
		thrift_put_i32(&writer, 3, header->row_count);
		thrift_put_i32(&writer, 4, header->encoding);
		thrift_put_i32(&writer, 5, header->definition_size);
		thrift_put_i32(&writer, 6, header->repetition_size);
		thrift_put_bool(&writer, 7, header->is_compressed);
	}
	thrift_put_struct_end(&writer);
	thrift_put_struct_end(&writer);
	return writer.code;
}

static enum parquet_boundary_order boundary_order(const struct parquet_leaf_writer *leaf)
{
	const struct parquet_page_info *before = NULL;
	bool ascending = true, descending = true;

	for (size_t i = 0; i < leaf->pages.count; i++) {
		const struct parquet_page_info *page = &leaf->pages.items[i];
		const uint8_t *a, *b;
		int min, max;

		if (page->all_null)
			continue;
		if (before) {
			a = leaf->bounds.data + before->bounds_at;
			b = leaf->bounds.data + page->bounds_at;
			min = parquet_compare(leaf->leaf, a, before->min_size, b, page->min_size);
			max = parquet_compare(leaf->leaf, a + before->min_size, before->max_size, b + page->min_size,
					      page->max_size);
			ascending &= min <= 0 && max <= 0;
			descending &= min >= 0 && max >= 0;
		}
		before = page;
	}
	return ascending ? PARQUET_ASCENDING : descending ? PARQUET_DESCENDING : PARQUET_UNORDERED;
}

int parquet_column_index_write(const struct parquet_leaf_writer *leaf, struct weir_text *out, struct weir_error *err)
{
	uint32_t count = (uint32_t)leaf->pages.count;
	struct thrift_writer writer;

	thrift_writer_init(&writer, out, err);
	thrift_put_list(&writer, 1, THRIFT_TRUE, count);
	for (uint32_t i = 0; i < count; i++)
		thrift_item_bool(&writer, leaf->pages.items[i].all_null);
	for (int which = 0; which < 2; which++) {
		thrift_put_list(&writer, which ? 3 : 2, THRIFT_BINARY, count);
		for (uint32_t i = 0; i < count; i++) {
			const struct parquet_page_info *page = &leaf->pages.items[i];
			const uint8_t *min = leaf->bounds.data + page->bounds_at;

			if (which)
				thrift_item_binary(&writer, min + page->min_size, page->max_size);
			else
				thrift_item_binary(&writer, min, page->min_size);
		}
	}
	thrift_put_i32(&writer, 4, boundary_order(leaf));
	thrift_put_list(&writer, 5, THRIFT_I64, count);
	for (uint32_t i = 0; i < count; i++)
		thrift_item_i64(&writer, (int64_t)leaf->pages.items[i].null_count);
	thrift_put_struct_end(&writer);
	return writer.code;
}

/* ── the footer ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Text on its way to the sink, and the position in the file that it has come to. */
struct output {
	struct weir_byte_sink sink;
	struct weir_text text;
	uint64_t flushed;
	struct weir_error *err;
};

static uint64_t position(const struct output *output)
{
	return output->flushed + output->text.size;
}

static int flush(struct output *output, size_t at_least)
{
	int code;

	if (output->text.size == 0 || output->text.size < at_least)
		return WEIR_OK;
	code = output->sink.write(output->sink.state, output->text.data, output->text.size, output->err);
	output->flushed += output->text.size;
	weir_text_clear(&output->text);
	return code;
}

static int write_column_indexes(struct output *output, const struct parquet_part *part, uint32_t leaf_count)
{
	for (size_t g = 0; g < part->groups.count; g++)
		for (uint32_t i = 0; i < leaf_count; i++) {
			struct parquet_written_chunk *chunk = &part->groups.items[g].chunks[i];
			int code;

			if (!chunk->column_index.size)
				continue;
			chunk->meta.column_index_offset = (int64_t)position(output);
			chunk->meta.column_index_size = (int32_t)chunk->column_index.size;
			code = weir_text_append(&output->text, chunk->column_index.data, chunk->column_index.size,
						output->err);
			if (!code)
				code = flush(output, FLUSH_BYTES);
			if (code)
				return code;
		}
	return WEIR_OK;
}

static int write_offset_indexes(struct output *output, const struct parquet_part *part, uint64_t part_offset,
				uint32_t leaf_count)
{
	for (size_t g = 0; g < part->groups.count; g++)
		for (uint32_t i = 0; i < leaf_count; i++) {
			struct parquet_written_chunk *chunk = &part->groups.items[g].chunks[i];
			int64_t offset = (int64_t)part_offset + chunk->meta.data_offset, row = 0;
			uint64_t begin = position(output);
			struct thrift_writer writer;
			int code;

			if (!chunk->page_count)
				continue;
			thrift_writer_init(&writer, &output->text, output->err);
			thrift_put_list(&writer, 1, THRIFT_STRUCT, chunk->page_count);
			for (uint32_t p = 0; p < chunk->page_count; p++) {
				thrift_item_struct(&writer);
				thrift_put_i64(&writer, 1, offset);
				thrift_put_i32(&writer, 2, (int32_t)chunk->pages[p].size_compressed);
				thrift_put_i64(&writer, 3, row);
				thrift_put_struct_end(&writer);
				offset += chunk->pages[p].size_compressed;
				row += chunk->pages[p].row_count;
			}
			thrift_put_struct_end(&writer);
			chunk->meta.offset_index_offset = (int64_t)begin;
			chunk->meta.offset_index_size = (int32_t)(position(output) - begin);
			code = writer.code ? writer.code : flush(output, FLUSH_BYTES);
			if (code)
				return code;
		}
	return WEIR_OK;
}

static void put_logical(struct thrift_writer *writer, const struct parquet_logical *logical)
{
	if (logical->kind == PARQUET_LOGICAL_NONE)
		return;
	thrift_put_struct(writer, 10);
	thrift_put_struct(writer, (int16_t)logical->kind);
	switch (logical->kind) {
	case PARQUET_LOGICAL_DECIMAL:
		thrift_put_i32(writer, 1, logical->scale);
		thrift_put_i32(writer, 2, logical->precision);
		break;
	case PARQUET_LOGICAL_TIME:
	case PARQUET_LOGICAL_TIMESTAMP:
		thrift_put_bool(writer, 1, logical->utc);
		thrift_put_struct(writer, 2);
		/* A union of empty structs: milliseconds 1, microseconds 2, nanoseconds 3. */
		thrift_put_struct(writer, (int16_t)logical->unit);
		thrift_put_struct_end(writer);
		thrift_put_struct_end(writer);
		break;
	case PARQUET_LOGICAL_INTEGER:
		thrift_put_byte(writer, 1, (int8_t)logical->bit_width);
		thrift_put_bool(writer, 2, logical->is_signed);
		break;
	default:
		break;
	}
	thrift_put_struct_end(writer);
	thrift_put_struct_end(writer);
}
_Static_assert(WEIR_MILLI == 1 && WEIR_MICRO == 2 && WEIR_NANO == 3, "units are the field ids of Parquet's TimeUnit");

static void put_schema(struct thrift_writer *writer, const struct parquet_write_schema *schema)
{
	thrift_put_list(writer, 2, THRIFT_STRUCT, schema->element_count);
	for (uint32_t i = 0; i < schema->element_count; i++) {
		const struct parquet_element *element = &schema->elements[i];
		bool is_group = element->physical == PARQUET_GROUP;

		thrift_item_struct(writer);
		if (!is_group)
			thrift_put_i32(writer, 1, element->physical);
		if (element->physical == PARQUET_FIXED)
			thrift_put_i32(writer, 2, element->type_length);
		if (i > 0)
			thrift_put_i32(writer, 3, element->repetition);
		thrift_put_string(writer, 4, element->name);
		if (is_group)
			thrift_put_i32(writer, 5, element->child_count);
		if (element->converted != PARQUET_CONVERTED_NONE)
			thrift_put_i32(writer, 6, element->converted);
		if (element->converted == PARQUET_DECIMAL) {
			thrift_put_i32(writer, 7, element->scale);
			thrift_put_i32(writer, 8, element->precision);
		}
		if (element->field_id != INT32_MIN)
			thrift_put_i32(writer, 9, element->field_id);
		put_logical(writer, &element->logical);
		thrift_put_struct_end(writer);
	}
}

static void put_statistics(struct thrift_writer *writer, int16_t id, const struct parquet_statistics *statistics)
{
	thrift_put_struct(writer, id);
	if (statistics->null_count >= 0)
		thrift_put_i64(writer, 3, statistics->null_count);
	if (statistics->min.data) {
		thrift_put_binary(writer, 5, statistics->max.data, statistics->max.size);
		thrift_put_binary(writer, 6, statistics->min.data, statistics->min.size);
		thrift_put_bool(writer, 7, !statistics->max_inexact);
		thrift_put_bool(writer, 8, !statistics->min_inexact);
	}
	thrift_put_struct_end(writer);
}

static void put_encodings(struct thrift_writer *writer, const struct parquet_written_chunk *chunk)
{
	uint32_t encodings = chunk->meta.encodings;

	thrift_put_list(writer, 2, THRIFT_I32, (uint32_t)__builtin_popcount(encodings));
	for (int32_t i = 0; i < 32; i++)
		if (encodings >> i & 1)
			thrift_item_i32(writer, i);
}

static void put_encoding_stats(struct thrift_writer *writer, const struct parquet_written_chunk *chunk,
			       int32_t data_page_type)
{
	bool coded = chunk->pages_coded > 0, plain = chunk->pages_plain > 0;

	thrift_put_list(writer, 13, THRIFT_STRUCT, (uint32_t)(2 * coded + plain));
	for (int which = coded ? 0 : 2; which < 2 + plain; which++) {
		thrift_item_struct(writer);
		thrift_put_i32(writer, 1, which == 0 ? PARQUET_PAGE_DICTIONARY : data_page_type);
		thrift_put_i32(writer, 2,
			       which == 0   ? PARQUET_PLAIN
			       : which == 1 ? PARQUET_RLE_DICTIONARY
					    : chunk->plain_encoding);
		thrift_put_i32(writer, 3,
			       which == 0   ? 1
			       : which == 1 ? (int32_t)chunk->pages_coded
					    : (int32_t)chunk->pages_plain);
		thrift_put_struct_end(writer);
	}
}

static void put_chunk(struct thrift_writer *writer, const struct parquet_leaf *leaf,
		      const struct parquet_written_chunk *chunk, uint64_t part_offset, int32_t data_page_type)
{
	const struct parquet_chunk *meta = &chunk->meta;
	int64_t base = (int64_t)part_offset;

	thrift_item_struct(writer);
	/* Deprecated; 0 is what the format asks for. */
	thrift_put_i64(writer, 2, 0);
	thrift_put_struct(writer, 3);
	thrift_put_i32(writer, 1, meta->physical);
	put_encodings(writer, chunk);
	thrift_put_list(writer, 3, THRIFT_BINARY, leaf->path_count);
	for (uint32_t i = 0; i < leaf->path_count; i++)
		thrift_item_binary(writer, leaf->path[i], strlen(leaf->path[i]));
	thrift_put_i32(writer, 4, meta->codec);
	thrift_put_i64(writer, 5, meta->value_count);
	thrift_put_i64(writer, 6, meta->size_uncompressed);
	thrift_put_i64(writer, 7, meta->size_compressed);
	thrift_put_i64(writer, 9, base + meta->data_offset);
	if (chunk->pages_coded)
		thrift_put_i64(writer, 11, base + meta->dictionary_offset);
	put_statistics(writer, 12, &meta->statistics);
	put_encoding_stats(writer, chunk, data_page_type);
	thrift_put_struct_end(writer);
	if (chunk->page_count) {
		thrift_put_i64(writer, 4, meta->offset_index_offset);
		thrift_put_i32(writer, 5, meta->offset_index_size);
	}
	if (chunk->column_index.size) {
		thrift_put_i64(writer, 6, meta->column_index_offset);
		thrift_put_i32(writer, 7, meta->column_index_size);
	}
	thrift_put_struct_end(writer);
}

static int64_t chunk_begin(const struct parquet_written_chunk *chunk)
{
	return chunk->pages_coded ? chunk->meta.dictionary_offset : chunk->meta.data_offset;
}

static int base64(const uint8_t *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char block[1024];
	size_t filled = 0;
	int code = WEIR_OK;

	for (size_t i = 0; i < size && !code; i += 3) {
		uint32_t word = (uint32_t)bytes[i] << 16;
		size_t rest = size - i;

		word |= rest > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		word |= rest > 2 ? bytes[i + 2] : 0;
		block[filled++] = digits[word >> 18];
		block[filled++] = digits[word >> 12 & 63];
		block[filled++] = rest > 1 ? digits[word >> 6 & 63] : '=';
		block[filled++] = rest > 2 ? digits[word & 63] : '=';
		if (filled == sizeof(block)) {
			code = weir_text_append(out, block, filled, err);
			filled = 0;
		}
	}
	return code ? code : weir_text_append(out, block, filled, err);
}

#define ARROW_SCHEMA_KEY "ARROW:schema"

static int put_key_values(struct thrift_writer *writer, const struct weir_schema *schema, struct weir_account *account,
			  struct weir_error *err)
{
	const struct weir_metadata *metadata = &schema->metadata;
	struct weir_text message, encoded;
	uint32_t count = 1;
	int code;

	weir_text_init(&message, account);
	weir_text_init(&encoded, account);
	code = weir_ipc_write_schema(schema, &message, err);
	if (!code)
		code = base64((const uint8_t *)message.data, message.size, &encoded, err);
	if (code)
		goto out;
	for (uint32_t i = 0; i < metadata->count; i++)
		count += strcmp(metadata->entries[i].key, ARROW_SCHEMA_KEY) != 0;
	thrift_put_list(writer, 5, THRIFT_STRUCT, count);
	for (uint32_t i = 0; i < metadata->count; i++) {
		const struct weir_metadata_entry *entry = &metadata->entries[i];

		if (strcmp(entry->key, ARROW_SCHEMA_KEY) == 0)
			continue;
		thrift_item_struct(writer);
		thrift_put_string(writer, 1, entry->key);
		thrift_put_binary(writer, 2, entry->value, entry->value_size);
		thrift_put_struct_end(writer);
	}
	thrift_item_struct(writer);
	thrift_put_string(writer, 1, ARROW_SCHEMA_KEY);
	thrift_put_binary(writer, 2, encoded.data, encoded.size);
	thrift_put_struct_end(writer);
	code = writer->code;
out:
	weir_text_release(&message);
	weir_text_release(&encoded);
	return code;
}

static int write_file_metadata(struct output *output, const struct weir_schema *schema,
			       const struct parquet_write_schema *tree, const struct weir_writer_options *options,
			       struct weir_part *const *parts, const uint64_t *offsets, uint32_t count,
			       struct weir_account *account)
{
	int32_t data_page_type = options->data_page_v2 ? PARQUET_PAGE_DATA_V2 : PARQUET_PAGE_DATA;
	struct thrift_writer writer;
	uint64_t rows = 0, groups = 0, ordinal = 0;
	int code;

	for (uint32_t p = 0; p < count; p++) {
		rows += parts[p]->rows;
		groups += ((const struct parquet_part *)parts[p])->groups.count;
	}
	if (groups > INT32_MAX)
		return weir_error_set(output->err, WEIR_E_UNSUPPORTED, "%llu row groups are more than Parquet allows",
				      (unsigned long long)groups);
	thrift_writer_init(&writer, &output->text, output->err);
	thrift_put_i32(&writer, 1, 2);
	put_schema(&writer, tree);
	thrift_put_i64(&writer, 3, (int64_t)rows);
	thrift_put_list(&writer, 4, THRIFT_STRUCT, (uint32_t)groups);
	for (uint32_t p = 0; p < count; p++) {
		const struct parquet_part *part = (const struct parquet_part *)parts[p];

		for (size_t g = 0; g < part->groups.count; g++, ordinal++) {
			const struct parquet_written_group *group = &part->groups.items[g];

			thrift_item_struct(&writer);
			thrift_put_list(&writer, 1, THRIFT_STRUCT, tree->leaf_count);
			for (uint32_t i = 0; i < tree->leaf_count; i++)
				put_chunk(&writer, &tree->leaves[i], &group->chunks[i], offsets[p], data_page_type);
			thrift_put_i64(&writer, 2, group->size_bytes);
			thrift_put_i64(&writer, 3, group->row_count);
			if (tree->leaf_count)
				thrift_put_i64(&writer, 5, (int64_t)offsets[p] + chunk_begin(&group->chunks[0]));
			thrift_put_i64(&writer, 6, group->size_compressed);
			if (ordinal <= INT16_MAX)
				thrift_put_i16(&writer, 7, (int16_t)ordinal);
			thrift_put_struct_end(&writer);
			code = writer.code ? writer.code : flush(output, FLUSH_BYTES);
			if (code)
				return code;
		}
	}
	code = put_key_values(&writer, schema, account, output->err);
	if (code)
		return code;
	thrift_put_string(&writer, 6, CREATED_BY);
	thrift_put_list(&writer, 7, THRIFT_STRUCT, tree->leaf_count);
	for (uint32_t i = 0; i < tree->leaf_count; i++) {
		/* A union: the order that the type defines. */
		thrift_item_struct(&writer);
		thrift_put_struct(&writer, 1);
		thrift_put_struct_end(&writer);
		thrift_put_struct_end(&writer);
	}
	thrift_put_struct_end(&writer);
	return writer.code;
}

int parquet_footer_write(struct weir_account *account, const struct weir_schema *schema,
			 const struct weir_writer_options *options, struct weir_part *const *parts,
			 const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err)
{
	struct output output = {.sink = sink, .err = err, .flushed = strlen(PARQUET_MAGIC)};
	struct parquet_write_schema tree;
	uint64_t begin, size;
	uint8_t tail[8];
	int code = parquet_write_schema_init(&tree, schema, account, err);

	if (code)
		return code;
	weir_text_init(&output.text, account);
	if (count > 0)
		output.flushed = offsets[count - 1] + parts[count - 1]->bytes;
	for (uint32_t p = 0; p < count && !code; p++)
		code = write_column_indexes(&output, (const struct parquet_part *)parts[p], tree.leaf_count);
	for (uint32_t p = 0; p < count && !code; p++)
		code = write_offset_indexes(&output, (const struct parquet_part *)parts[p], offsets[p],
					    tree.leaf_count);
	begin = position(&output);
	if (!code)
		code = write_file_metadata(&output, schema, &tree, options, parts, offsets, count, account);
	if (code)
		goto out;
	size = position(&output) - begin;
	if (size > UINT32_MAX) {
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "a footer of %llu bytes is more than Parquet allows",
				      (unsigned long long)size);
		goto out;
	}
	for (int i = 0; i < 4; i++)
		tail[i] = (uint8_t)(size >> (8 * i));
	memcpy(tail + 4, PARQUET_MAGIC, 4);
	code = weir_text_append(&output.text, tail, sizeof(tail), err);
	if (!code)
		code = flush(&output, 0);
out:
	weir_text_release(&output.text);
	parquet_write_schema_release(&tree);
	return code;
}
