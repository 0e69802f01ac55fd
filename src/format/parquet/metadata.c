/* Footer, page headers and indexes: from Thrift to structs, with every count and size checked against what is there.
 *
 * Parsing is one pass over the footer's bytes; the arrays go to an arena, statistics and key values stay where they
 * lie. What the format allows and weir does not need (sorting columns, encoding statistics, paths) is skipped.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "format/parquet/parquet_impl.h"

#include <string.h>

struct parse {
	struct thrift_reader reader;
	struct weir_arena *arena;
	struct weir_error *err;
	int code; /* an allocation failed */
};

static int parse_end(struct parse *parse, const char *what)
{
	if (parse->code)
		return parse->code;
	if (!parse->reader.fault)
		return WEIR_OK;
	weir_error_set(parse->err, WEIR_E_DATA, "The %s is damaged: %s.", what, parse->reader.fault);
	weir_error_at_offset(parse->err, (uint64_t)(parse->reader.fault_at - parse->reader.begin));
	return WEIR_E_DATA;
}

static void *parse_alloc(struct parse *parse, uint32_t count, size_t item_size)
{
	size_t size;
	void *memory;

	if (parse->code)
		return NULL;
	if (weir_mul_overflows((size_t)count, item_size, &size)) {
		thrift_fault(&parse->reader, "a count that no memory holds");
		return NULL;
	}
	memory = weir_arena_alloc_zero(parse->arena, size ? size : 1, parse->err);
	if (!memory) {
		parse->code = parse->err->code;
		thrift_fault(&parse->reader, "no memory");
	}
	return memory;
}

/* A list whose elements must be of `type`; 0 when they are not. */
static uint32_t list_of(struct parse *parse, const struct thrift_field *field, uint8_t type)
{
	struct thrift_reader *reader = &parse->reader;
	uint8_t element;
	uint32_t count;

	if (!thrift_expect(reader, field, THRIFT_LIST))
		return 0;
	count = thrift_list(reader, &element);
	if (element != type && !(type == THRIFT_TRUE && element == THRIFT_FALSE) && count > 0)
		thrift_fault(reader, "a list of another kind than the format's");
	return reader->fault ? 0 : count;
}

static bool is_true(const struct thrift_field *field)
{
	return field->type == THRIFT_TRUE;
}

static struct parquet_bytes bytes_field(struct thrift_reader *reader, const struct thrift_field *field)
{
	struct parquet_bytes bytes = {0};

	if (thrift_expect(reader, field, THRIFT_BINARY))
		bytes.data = thrift_binary(reader, &bytes.size);
	return bytes;
}

static int64_t i64_field(struct thrift_reader *reader, const struct thrift_field *field)
{
	return thrift_expect(reader, field, THRIFT_I64) ? thrift_i64(reader) : 0;
}

static int32_t i32_field(struct thrift_reader *reader, const struct thrift_field *field)
{
	return thrift_expect(reader, field, THRIFT_I32) ? thrift_i32(reader) : 0;
}

/* ── schema ── */

static enum weir_time_unit time_unit(struct thrift_reader *reader)
{
	struct thrift_field field = {0};
	enum weir_time_unit unit = WEIR_MILLI;

	while (thrift_struct_next(reader, &field)) {
		unit = field.id == 1 ? WEIR_MILLI : field.id == 2 ? WEIR_MICRO : WEIR_NANO;
		thrift_skip(reader, field.type);
	}
	return unit;
}

static void logical_fields(struct thrift_reader *reader, struct parquet_logical *out)
{
	struct thrift_field field = {0};

	while (thrift_struct_next(reader, &field)) {
		switch (out->kind) {
		case PARQUET_LOGICAL_DECIMAL:
			if (field.id == 1)
				out->scale = i32_field(reader, &field);
			else if (field.id == 2)
				out->precision = i32_field(reader, &field);
			else
				thrift_skip(reader, field.type);
			break;
		case PARQUET_LOGICAL_TIME:
		case PARQUET_LOGICAL_TIMESTAMP:
			if (field.id == 1 && thrift_expect(reader, &field, THRIFT_TRUE))
				out->utc = is_true(&field);
			else if (field.id == 2 && thrift_expect(reader, &field, THRIFT_STRUCT))
				out->unit = time_unit(reader);
			else if (field.id > 2)
				thrift_skip(reader, field.type);
			break;
		case PARQUET_LOGICAL_INTEGER:
			if (field.id == 1 && thrift_expect(reader, &field, THRIFT_BYTE))
				out->bit_width = reader->at < reader->end ? *reader->at++ : 0;
			else if (field.id == 2 && thrift_expect(reader, &field, THRIFT_TRUE))
				out->is_signed = is_true(&field);
			else if (field.id > 2)
				thrift_skip(reader, field.type);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
}

static void logical(struct thrift_reader *reader, struct parquet_logical *out)
{
	struct thrift_field field = {0};

	while (thrift_struct_next(reader, &field)) {
		if (!thrift_expect(reader, &field, THRIFT_STRUCT))
			continue;
		*out = (struct parquet_logical){.kind = (enum parquet_logical_kind)field.id};
		logical_fields(reader, out);
	}
}

static const char *name_copy(struct parse *parse, struct parquet_bytes bytes)
{
	char *name;

	if (!bytes.data)
		return "";
	if (memchr(bytes.data, 0, bytes.size) || !weir_utf8_valid(bytes.data, bytes.size)) {
		thrift_fault(&parse->reader, "a column name that is not UTF-8 text");
		return "";
	}
	name = parse_alloc(parse, bytes.size + 1, 1);
	if (!name)
		return "";
	memcpy(name, bytes.data, bytes.size);
	return name;
}

static void element(struct parse *parse, struct parquet_element *out)
{
	struct thrift_reader *reader = &parse->reader;
	struct thrift_field field = {0};
	int32_t number;
	bool has_type = false;

	*out = (struct parquet_element){
		.name = "", .physical = PARQUET_GROUP, .converted = PARQUET_CONVERTED_NONE, .field_id = INT32_MIN};
	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			number = i32_field(reader, &field);
			if (number < 0 || number >= PARQUET_PHYSICAL_COUNT)
				thrift_fault(reader, "a column of an unknown physical type");
			out->physical = (uint8_t)number;
			has_type = true;
			break;
		case 2:
			out->type_length = i32_field(reader, &field);
			break;
		case 3:
			number = i32_field(reader, &field);
			if (number < 0 || number > PARQUET_REPEATED)
				thrift_fault(reader, "a column of an unknown repetition");
			out->repetition = (uint8_t)number;
			break;
		case 4:
			out->name = name_copy(parse, bytes_field(reader, &field));
			break;
		case 5:
			out->child_count = i32_field(reader, &field);
			break;
		case 6:
			out->converted = i32_field(reader, &field);
			break;
		case 7:
			out->scale = i32_field(reader, &field);
			break;
		case 8:
			out->precision = i32_field(reader, &field);
			break;
		case 9:
			out->field_id = i32_field(reader, &field);
			break;
		case 10:
			if (thrift_expect(reader, &field, THRIFT_STRUCT))
				logical(reader, &out->logical);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (out->child_count < 0)
		thrift_fault(reader, "a column with a negative number of children");
	if (out->child_count > 0) /* some writers give groups a type all the same */
		out->physical = PARQUET_GROUP;
	if (has_type && out->physical == PARQUET_FIXED && out->type_length <= 0)
		thrift_fault(reader, "a column of fixed length without a length");
}

/* ── row groups ── */

static void statistics(struct thrift_reader *reader, struct parquet_statistics *out)
{
	struct parquet_bytes min_old = {0}, max_old = {0};
	struct thrift_field field = {0};

	*out = (struct parquet_statistics){.null_count = -1, .distinct_count = -1};
	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			max_old = bytes_field(reader, &field);
			break;
		case 2:
			min_old = bytes_field(reader, &field);
			break;
		case 3:
			out->null_count = i64_field(reader, &field);
			break;
		case 4:
			out->distinct_count = i64_field(reader, &field);
			break;
		case 5:
			out->max = bytes_field(reader, &field);
			break;
		case 6:
			out->min = bytes_field(reader, &field);
			break;
		case 7:
			if (thrift_expect(reader, &field, THRIFT_TRUE))
				out->max_inexact = !is_true(&field);
			break;
		case 8:
			if (thrift_expect(reader, &field, THRIFT_TRUE))
				out->min_inexact = !is_true(&field);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (!out->min.data && !out->max.data && (min_old.data || max_old.data)) {
		out->min = min_old;
		out->max = max_old;
		out->deprecated = true;
	}
}

static void column_metadata(struct parse *parse, struct parquet_chunk *out)
{
	struct thrift_reader *reader = &parse->reader;
	struct thrift_field field = {0};
	uint32_t count;
	int32_t number;

	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			number = i32_field(reader, &field);
			out->physical = number >= 0 && number < PARQUET_PHYSICAL_COUNT ? (uint8_t)number
										       : PARQUET_PHYSICAL_COUNT;
			break;
		case 2:
			count = list_of(parse, &field, THRIFT_I32);
			for (uint32_t i = 0; i < count && !reader->fault; i++) {
				number = thrift_i32(reader);
				if (number >= 0 && number < 32)
					out->encodings |= 1u << number;
			}
			break;
		case 4:
			out->codec = i32_field(reader, &field);
			break;
		case 5:
			out->value_count = i64_field(reader, &field);
			break;
		case 6:
			out->size_uncompressed = i64_field(reader, &field);
			break;
		case 7:
			out->size_compressed = i64_field(reader, &field);
			break;
		case 9:
			out->data_offset = i64_field(reader, &field);
			break;
		case 11:
			out->dictionary_offset = i64_field(reader, &field);
			break;
		case 12:
			if (thrift_expect(reader, &field, THRIFT_STRUCT))
				statistics(reader, &out->statistics);
			break;
		case 14:
			out->bloom_offset = i64_field(reader, &field);
			break;
		case 15:
			out->bloom_size = i32_field(reader, &field);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
}

static void chunk(struct parse *parse, struct parquet_chunk *out)
{
	struct thrift_reader *reader = &parse->reader;
	struct thrift_field field = {0};
	bool has_metadata = false;

	*out = (struct parquet_chunk){.statistics = {.null_count = -1, .distinct_count = -1}};
	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			out->is_external = bytes_field(reader, &field).size > 0;
			break;
		case 3:
			if (thrift_expect(reader, &field, THRIFT_STRUCT))
				column_metadata(parse, out);
			has_metadata = true;
			break;
		case 4:
			out->offset_index_offset = i64_field(reader, &field);
			break;
		case 5:
			out->offset_index_size = i32_field(reader, &field);
			break;
		case 6:
			out->column_index_offset = i64_field(reader, &field);
			break;
		case 7:
			out->column_index_size = i32_field(reader, &field);
			break;
		case 8:
			out->is_encrypted = true;
			thrift_skip(reader, field.type);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (!has_metadata && !out->is_encrypted)
		thrift_fault(reader, "a column chunk without metadata");
	if (out->value_count < 0 || out->size_compressed < 0 || out->size_uncompressed < 0 || out->data_offset < 0)
		thrift_fault(reader, "a column chunk with a negative size, count or offset");
}

static void row_group(struct parse *parse, uint32_t leaf_count, struct parquet_row_group *out)
{
	struct thrift_reader *reader = &parse->reader;
	struct thrift_field field = {0};
	uint32_t count = 0;

	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			count = list_of(parse, &field, THRIFT_STRUCT);
			if (count != leaf_count) {
				thrift_fault(reader, "a row group with another number of columns than the schema");
				break;
			}
			out->chunks = parse_alloc(parse, count, sizeof(*out->chunks));
			for (uint32_t i = 0; i < count && !reader->fault; i++)
				chunk(parse, &out->chunks[i]);
			break;
		case 2:
			out->size_bytes = i64_field(reader, &field);
			break;
		case 3:
			out->row_count = i64_field(reader, &field);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (out->row_count < 0)
		thrift_fault(reader, "a row group with a negative number of rows");
	if (!out->chunks && leaf_count > 0)
		thrift_fault(reader, "a row group without columns");
}

static void key_value(struct thrift_reader *reader, struct parquet_key_value *out)
{
	struct thrift_field field = {0};

	while (thrift_struct_next(reader, &field)) {
		if (field.id == 1)
			out->key = bytes_field(reader, &field);
		else if (field.id == 2)
			out->value = bytes_field(reader, &field);
		else
			thrift_skip(reader, field.type);
	}
}

int parquet_metadata_parse(const uint8_t *footer, size_t size, struct weir_arena *arena, struct parquet_metadata *out,
			   struct weir_error *err)
{
	struct parse parse = {.arena = arena, .err = err};
	struct thrift_reader *reader = &parse.reader;
	struct thrift_field field = {0};
	uint32_t count;

	*out = (struct parquet_metadata){0};
	thrift_reader_init(reader, footer, size);
	while (thrift_field_next(reader, &field)) {
		switch (field.id) {
		case 1:
			out->version = i32_field(reader, &field);
			break;
		case 2:
			count = list_of(&parse, &field, THRIFT_STRUCT);
			out->elements = parse_alloc(&parse, count, sizeof(*out->elements));
			for (uint32_t i = 0; i < count && !reader->fault; i++) {
				element(&parse, &out->elements[i]);
				out->leaf_count += out->elements[i].physical != PARQUET_GROUP;
			}
			out->element_count = count;
			break;
		case 3:
			out->row_count = i64_field(reader, &field);
			break;
		case 4:
			count = list_of(&parse, &field, THRIFT_STRUCT);
			if (!out->elements)
				thrift_fault(reader, "row groups before the schema");
			out->row_groups = parse_alloc(&parse, count, sizeof(*out->row_groups));
			for (uint32_t i = 0; i < count && !reader->fault; i++)
				row_group(&parse, out->leaf_count, &out->row_groups[i]);
			out->row_group_count = count;
			break;
		case 5:
			count = list_of(&parse, &field, THRIFT_STRUCT);
			out->key_values = parse_alloc(&parse, count, sizeof(*out->key_values));
			for (uint32_t i = 0; i < count && !reader->fault; i++)
				key_value(reader, &out->key_values[i]);
			out->key_value_count = count;
			break;
		case 6:
			out->created_by = bytes_field(reader, &field);
			break;
		case 7:
			out->has_column_orders = true;
			thrift_skip(reader, field.type);
			break;
		case 8:
			out->is_encrypted = true;
			thrift_skip(reader, field.type);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (!reader->fault && out->element_count == 0)
		thrift_fault(reader, "there is no schema");
	if (!reader->fault && out->row_count < 0)
		thrift_fault(reader, "a negative number of rows");
	return parse_end(&parse, "footer");
}

/* ── pages ── */

static uint8_t encoding_field(struct thrift_reader *reader, const struct thrift_field *field)
{
	int32_t number = i32_field(reader, field);

	return number >= 0 && number < 255 ? (uint8_t)number : 255;
}

static void data_page(struct thrift_reader *reader, struct parquet_page_header *out)
{
	struct thrift_field field = {0};

	while (thrift_struct_next(reader, &field)) {
		if (field.id == 1)
			out->value_count = i32_field(reader, &field);
		else if (field.id == 2)
			out->encoding = encoding_field(reader, &field);
		else if (field.id == 3 && out->type == PARQUET_PAGE_DATA)
			out->definition_encoding = encoding_field(reader, &field);
		else if (field.id == 4 && out->type == PARQUET_PAGE_DATA)
			out->repetition_encoding = encoding_field(reader, &field);
		else
			thrift_skip(reader, field.type);
	}
}

static void data_page_v2(struct thrift_reader *reader, struct parquet_page_header *out)
{
	struct thrift_field field = {0};

	out->is_compressed = true;
	while (thrift_struct_next(reader, &field)) {
		switch (field.id) {
		case 1:
			out->value_count = i32_field(reader, &field);
			break;
		case 2:
			out->null_count = i32_field(reader, &field);
			break;
		case 3:
			out->row_count = i32_field(reader, &field);
			break;
		case 4:
			out->encoding = encoding_field(reader, &field);
			break;
		case 5:
			out->definition_size = i32_field(reader, &field);
			break;
		case 6:
			out->repetition_size = i32_field(reader, &field);
			break;
		case 7:
			if (thrift_expect(reader, &field, THRIFT_TRUE))
				out->is_compressed = is_true(&field);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
}

int parquet_page_header_parse(const uint8_t *bytes, size_t size, struct parquet_page_header *out, size_t *used,
			      struct weir_error *err)
{
	struct parse parse = {.err = err};
	struct thrift_reader *reader = &parse.reader;
	struct thrift_field field = {0};
	bool has_body = false;
	int32_t type = -1;

	*out = (struct parquet_page_header){0};
	thrift_reader_init(reader, bytes, size);
	while (thrift_field_next(reader, &field)) {
		switch (field.id) {
		case 1:
			type = i32_field(reader, &field);
			out->type = type >= 0 && type < 255 ? (uint8_t)type : 255;
			break;
		case 2:
			out->size_uncompressed = i32_field(reader, &field);
			break;
		case 3:
			out->size_compressed = i32_field(reader, &field);
			break;
		case 4:
			out->crc = (uint32_t)i32_field(reader, &field);
			out->has_crc = true;
			break;
		case 5:
		case 7:
			if (!thrift_expect(reader, &field, THRIFT_STRUCT))
				break;
			if (out->type == (field.id == 5 ? PARQUET_PAGE_DATA : PARQUET_PAGE_DICTIONARY)) {
				data_page(reader, out);
				has_body = true;
			} else {
				thrift_skip(reader, THRIFT_STRUCT);
			}
			break;
		case 8:
			if (!thrift_expect(reader, &field, THRIFT_STRUCT))
				break;
			data_page_v2(reader, out);
			has_body |= out->type == PARQUET_PAGE_DATA_V2;
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	*used = 0;
	if (reader->short_of_bytes)
		return WEIR_OK;
	if (!reader->fault && type < 0)
		thrift_fault(reader, "no page type");
	if (!reader->fault && !has_body &&
	    (type == PARQUET_PAGE_DATA || type == PARQUET_PAGE_DICTIONARY || type == PARQUET_PAGE_DATA_V2))
		thrift_fault(reader, "no header of the page's own type");
	if (!reader->fault && (out->size_uncompressed < 0 || out->size_compressed < 0))
		thrift_fault(reader, "a negative page size");
	if (!reader->fault && (out->value_count < 0 || out->null_count < 0 || out->row_count < 0 ||
			       out->definition_size < 0 || out->repetition_size < 0))
		thrift_fault(reader, "a negative count in a page header");
	*used = (size_t)(reader->at - bytes);
	return parse_end(&parse, "page header");
}

/* ── indexes ── */

static void page_location(struct thrift_reader *reader, struct parquet_page_location *out)
{
	struct thrift_field field = {0};

	while (thrift_struct_next(reader, &field)) {
		if (field.id == 1)
			out->offset = i64_field(reader, &field);
		else if (field.id == 2)
			out->size_compressed = i32_field(reader, &field);
		else if (field.id == 3)
			out->first_row = i64_field(reader, &field);
		else
			thrift_skip(reader, field.type);
	}
}

int parquet_offset_index_parse(const uint8_t *bytes, size_t size, struct weir_arena *arena,
			       struct parquet_offset_index *out, struct weir_error *err)
{
	struct parse parse = {.arena = arena, .err = err};
	struct thrift_field field = {0};

	*out = (struct parquet_offset_index){0};
	thrift_reader_init(&parse.reader, bytes, size);
	while (thrift_field_next(&parse.reader, &field)) {
		if (field.id != 1) {
			thrift_skip(&parse.reader, field.type);
			continue;
		}
		out->page_count = list_of(&parse, &field, THRIFT_STRUCT);
		out->pages = parse_alloc(&parse, out->page_count, sizeof(*out->pages));
		for (uint32_t i = 0; i < out->page_count && !parse.reader.fault; i++)
			page_location(&parse.reader, &out->pages[i]);
	}
	return parse_end(&parse, "offset index");
}

static struct parquet_bytes *bytes_list(struct parse *parse, const struct thrift_field *field, uint32_t *count)
{
	struct parquet_bytes *list;

	*count = list_of(parse, field, THRIFT_BINARY);
	list = parse_alloc(parse, *count, sizeof(*list));
	for (uint32_t i = 0; i < *count && !parse->reader.fault; i++)
		list[i].data = thrift_binary(&parse->reader, &list[i].size);
	return list;
}

int parquet_column_index_parse(const uint8_t *bytes, size_t size, struct weir_arena *arena,
			       struct parquet_column_index *out, struct weir_error *err)
{
	struct parse parse = {.arena = arena, .err = err};
	struct thrift_reader *reader = &parse.reader;
	uint32_t min_count = 0, max_count = 0, null_count = 0;
	struct thrift_field field = {0};
	int32_t order;

	*out = (struct parquet_column_index){0};
	thrift_reader_init(reader, bytes, size);
	while (thrift_field_next(reader, &field)) {
		switch (field.id) {
		case 1:
			out->page_count = list_of(&parse, &field, THRIFT_TRUE);
			out->null_pages = parse_alloc(&parse, out->page_count, sizeof(*out->null_pages));
			for (uint32_t i = 0; i < out->page_count && reader->at < reader->end && !reader->fault; i++)
				out->null_pages[i] = *reader->at++ == THRIFT_TRUE;
			break;
		case 2:
			out->min = bytes_list(&parse, &field, &min_count);
			break;
		case 3:
			out->max = bytes_list(&parse, &field, &max_count);
			break;
		case 4:
			order = i32_field(reader, &field);
			out->order = order == 1   ? PARQUET_ASCENDING
				     : order == 2 ? PARQUET_DESCENDING
						  : PARQUET_UNORDERED;
			break;
		case 5:
			null_count = list_of(&parse, &field, THRIFT_I64);
			out->null_counts = parse_alloc(&parse, null_count, sizeof(*out->null_counts));
			for (uint32_t i = 0; i < null_count && !reader->fault; i++)
				out->null_counts[i] = thrift_i64(reader);
			break;
		default:
			thrift_skip(reader, field.type);
		}
	}
	if (min_count != out->page_count || max_count != out->page_count)
		thrift_fault(reader, "its lists have different lengths");
	if (null_count != out->page_count)
		out->null_counts = NULL;
	return parse_end(&parse, "column index");
}

int parquet_bloom_header_parse(const uint8_t *bytes, size_t size, struct parquet_bloom_header *out, size_t *used,
			       struct weir_error *err)
{
	struct parse parse = {.err = err};
	struct thrift_reader *reader = &parse.reader;
	struct thrift_field field = {0}, choice;

	*out = (struct parquet_bloom_header){0};
	thrift_reader_init(reader, bytes, size);
	while (thrift_field_next(reader, &field)) {
		if (field.id == 1) {
			out->size_bytes = i32_field(reader, &field);
			continue;
		}
		if (field.id > 4 || !thrift_expect(reader, &field, THRIFT_STRUCT)) {
			if (field.id > 4)
				thrift_skip(reader, field.type);
			continue;
		}
		/* Unions of empty structs: number 1 is the only choice there is so far. */
		choice = (struct thrift_field){0};
		while (thrift_struct_next(reader, &choice)) {
			if (choice.id == 1 && field.id == 2)
				out->is_split_block = true;
			else if (choice.id == 1 && field.id == 3)
				out->is_xxhash = true;
			else if (choice.id == 1 && field.id == 4)
				out->is_uncompressed = true;
			thrift_skip(reader, choice.type);
		}
	}
	*used = (size_t)(reader->at - bytes);
	return parse_end(&parse, "bloom filter header");
}

/* ── codecs ── */

static const struct {
	int32_t parquet;
	enum weir_codec weir;
} codecs[] = {
	{PARQUET_UNCOMPRESSED, WEIR_CODEC_NONE}, {PARQUET_SNAPPY, WEIR_CODEC_SNAPPY},  {PARQUET_GZIP, WEIR_CODEC_GZIP},
	{PARQUET_BROTLI, WEIR_CODEC_BROTLI},     {PARQUET_LZ4, WEIR_CODEC_LZ4_HADOOP}, {PARQUET_ZSTD, WEIR_CODEC_ZSTD},
	{PARQUET_LZ4_RAW, WEIR_CODEC_LZ4_RAW},
};

int parquet_codec_to_weir(int32_t codec, enum weir_codec *out, struct weir_error *err)
{
	for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
		if (codecs[i].parquet == codec) {
			*out = codecs[i].weir;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_UNSUPPORTED,
			      codec == PARQUET_LZO ? "LZO compression is not supported."
						   : "Unknown compression codec %d.",
			      (int)codec);
}

int parquet_codec_from_weir(enum weir_codec codec, int32_t *out, struct weir_error *err)
{
	for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
		if (codecs[i].weir == codec) {
			*out = codecs[i].parquet;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_UNSUPPORTED, "Parquet files cannot be written with this codec (%d).",
			      (int)codec);
}
