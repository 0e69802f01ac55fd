/* Schemas as messages and as footers of files. Each is measured by a builder without memory and then written by the
 * same calls. Dictionaries are numbered in the order in which fields open, parents first. */
#include "base/checked.h"
#include "arrow/ipc_impl.h"

#include <string.h>

static const struct flat_layout layout_message = {4, {2, 1, 4, 8}};
static const struct flat_layout layout_schema = {3, {2, 4, 4}};
static const struct flat_layout layout_field = {7, {4, 1, 1, 4, 4, 4, 4}};
static const struct flat_layout layout_encoding = {3, {8, 4, 1}};
static const struct flat_layout layout_entry = {2, {4, 4}};
static const struct flat_layout layout_footer = {4, {2, 4, 4, 4}};

static const struct flat_layout layout_empty = {0};
static const struct flat_layout layout_int = {2, {4, 1}};
static const struct flat_layout layout_unit = {1, {2}}; /* FloatingPoint, Date, Interval, Duration */
static const struct flat_layout layout_decimal = {3, {4, 4, 4}};
static const struct flat_layout layout_time = {2, {2, 4}};
static const struct flat_layout layout_timestamp = {2, {2, 4}};
static const struct flat_layout layout_size = {1, {4}}; /* FixedSizeBinary, FixedSizeList */
static const struct flat_layout layout_map = {1, {1}};

static const uint8_t type_numbers[WEIR_TYPE_ID_COUNT] = {
	[WEIR_NULL] = TYPE_NULL,
	[WEIR_BOOL] = TYPE_BOOL,
	[WEIR_INT8] = TYPE_INT,
	[WEIR_INT16] = TYPE_INT,
	[WEIR_INT32] = TYPE_INT,
	[WEIR_INT64] = TYPE_INT,
	[WEIR_UINT8] = TYPE_INT,
	[WEIR_UINT16] = TYPE_INT,
	[WEIR_UINT32] = TYPE_INT,
	[WEIR_UINT64] = TYPE_INT,
	[WEIR_HALF] = TYPE_FLOATING_POINT,
	[WEIR_FLOAT] = TYPE_FLOATING_POINT,
	[WEIR_DOUBLE] = TYPE_FLOATING_POINT,
	[WEIR_DECIMAL128] = TYPE_DECIMAL,
	[WEIR_DECIMAL256] = TYPE_DECIMAL,
	[WEIR_DATE32] = TYPE_DATE,
	[WEIR_DATE64] = TYPE_DATE,
	[WEIR_TIME32] = TYPE_TIME,
	[WEIR_TIME64] = TYPE_TIME,
	[WEIR_TIMESTAMP] = TYPE_TIMESTAMP,
	[WEIR_DURATION] = TYPE_DURATION,
	[WEIR_INTERVAL_MONTHS] = TYPE_INTERVAL,
	[WEIR_INTERVAL_DAY_TIME] = TYPE_INTERVAL,
	[WEIR_INTERVAL_MONTH_DAY_NANO] = TYPE_INTERVAL,
	[WEIR_BINARY] = TYPE_BINARY,
	[WEIR_LARGE_BINARY] = TYPE_LARGE_BINARY,
	[WEIR_STRING] = TYPE_UTF8,
	[WEIR_LARGE_STRING] = TYPE_LARGE_UTF8,
	[WEIR_FIXED_BINARY] = TYPE_FIXED_BINARY,
	[WEIR_LIST_TYPE] = TYPE_LIST,
	[WEIR_LARGE_LIST] = TYPE_LARGE_LIST,
	[WEIR_FIXED_LIST] = TYPE_FIXED_LIST,
	[WEIR_STRUCT] = TYPE_STRUCT,
	[WEIR_MAP] = TYPE_MAP,
};

static uint64_t put_int(struct flat_builder *b, const struct weir_type *type)
{
	uint64_t table = flat_add_table(b, &layout_int, 3);

	flat_set(b, table, &layout_int, INT_BIT_WIDTH, (int64_t)type->byte_width * 8);
	flat_set(b, table, &layout_int, INT_IS_SIGNED, weir_type_is_signed(type));
	return table;
}

/* A table whose only field is an enum. */
static uint64_t put_unit(struct flat_builder *b, int64_t unit)
{
	uint64_t table = flat_add_table(b, &layout_unit, 1);

	flat_set(b, table, &layout_unit, 0, unit);
	return table;
}

static uint64_t put_size(struct flat_builder *b, int64_t size)
{
	uint64_t table = flat_add_table(b, &layout_size, 1);

	flat_set(b, table, &layout_size, 0, size);
	return table;
}

/* Every field is written, defaults too: no reader then needs to know them. */
static uint64_t put_type(struct flat_builder *b, const struct weir_type *type)
{
	uint64_t table;

	switch (type->id) {
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		return put_int(b, type);
	case WEIR_HALF:
	case WEIR_FLOAT:
	case WEIR_DOUBLE:
		return put_unit(b, type->id - WEIR_HALF);
	case WEIR_DATE32:
	case WEIR_DATE64:
		return put_unit(b, type->id - WEIR_DATE32);
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
		return put_unit(b, type->id - WEIR_INTERVAL_MONTHS);
	case WEIR_DURATION:
		return put_unit(b, type->unit);
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		table = flat_add_table(b, &layout_decimal, 7);
		flat_set(b, table, &layout_decimal, DECIMAL_PRECISION, type->precision);
		flat_set(b, table, &layout_decimal, DECIMAL_SCALE, type->scale);
		flat_set(b, table, &layout_decimal, DECIMAL_BIT_WIDTH, type->id == WEIR_DECIMAL128 ? 128 : 256);
		return table;
	case WEIR_TIME32:
	case WEIR_TIME64:
		table = flat_add_table(b, &layout_time, 3);
		flat_set(b, table, &layout_time, TIME_UNIT, type->unit);
		flat_set(b, table, &layout_time, TIME_BIT_WIDTH, type->id == WEIR_TIME32 ? 32 : 64);
		return table;
	case WEIR_TIMESTAMP:
		table = flat_add_table(b, &layout_timestamp, type->timezone ? 3 : 1);
		flat_set(b, table, &layout_timestamp, TIMESTAMP_UNIT, type->unit);
		if (type->timezone)
			flat_link(b, table, TIMESTAMP_TIMEZONE,
				  flat_add_string(b, type->timezone, (uint32_t)strlen(type->timezone)));
		return table;
	case WEIR_FIXED_BINARY:
		return put_size(b, type->byte_width);
	case WEIR_FIXED_LIST:
		return put_size(b, type->list_size);
	case WEIR_MAP:
		table = flat_add_table(b, &layout_map, 1);
		flat_set(b, table, &layout_map, 0, type->ordered);
		return table;
	default:
		return flat_add_table(b, &layout_empty, 0);
	}
}

static uint64_t put_metadata(struct flat_builder *b, const struct weir_metadata *metadata)
{
	uint64_t vector = flat_add_vector(b, metadata->count, 4, 4);

	for (uint32_t i = 0; i < metadata->count; i++) {
		const struct weir_metadata_entry *entry = &metadata->entries[i];
		uint64_t table = flat_add_table(b, &layout_entry, 3);

		flat_link_item(b, vector, i, table);
		flat_link(b, table, ENTRY_KEY, flat_add_string(b, entry->key, (uint32_t)strlen(entry->key)));
		flat_link(b, table, ENTRY_VALUE, flat_add_string(b, entry->value, entry->value_size));
	}
	return vector;
}

static uint64_t put_fields(struct flat_builder *b, const struct weir_field *fields, uint32_t count, int64_t *next_id);

static uint64_t put_field(struct flat_builder *b, const struct weir_field *field, int64_t *next_id)
{
	bool is_dictionary = field->type->id == WEIR_DICTIONARY_TYPE;
	const struct weir_type *type = is_dictionary ? field->type->dictionary_value : field->type;
	uint32_t present = 1 << FIELD_NAME | 1 << FIELD_NULLABLE | 1 << FIELD_TYPE_TYPE | 1 << FIELD_TYPE |
			   1 << FIELD_CHILDREN;
	uint64_t table, encoding;

	if (is_dictionary)
		present |= 1 << FIELD_DICTIONARY;
	if (field->metadata.count)
		present |= 1 << FIELD_METADATA;
	table = flat_add_table(b, &layout_field, present);
	flat_set(b, table, &layout_field, FIELD_NULLABLE, field->nullable);
	flat_set(b, table, &layout_field, FIELD_TYPE_TYPE, type_numbers[type->id]);
	flat_link(b, table, FIELD_NAME, flat_add_string(b, field->name, (uint32_t)strlen(field->name)));
	flat_link(b, table, FIELD_TYPE, put_type(b, type));
	if (is_dictionary) {
		encoding = flat_add_table(b, &layout_encoding, 7);
		flat_link(b, table, FIELD_DICTIONARY, encoding);
		flat_set(b, encoding, &layout_encoding, ENCODING_ID, (*next_id)++);
		flat_set(b, encoding, &layout_encoding, ENCODING_ORDERED, field->type->ordered);
		flat_link(b, encoding, ENCODING_INDEX, put_int(b, field->type->dictionary_index));
	}
	/* Some readers want the vector of children even where there are none. */
	flat_link(b, table, FIELD_CHILDREN, put_fields(b, type->fields, type->field_count, next_id));
	if (field->metadata.count)
		flat_link(b, table, FIELD_METADATA, put_metadata(b, &field->metadata));
	return table;
}

static uint64_t put_fields(struct flat_builder *b, const struct weir_field *fields, uint32_t count, int64_t *next_id)
{
	uint64_t vector = flat_add_vector(b, count, 4, 4);

	for (uint32_t i = 0; i < count; i++)
		flat_link_item(b, vector, i, put_field(b, &fields[i], next_id));
	return vector;
}

static uint64_t put_schema(struct flat_builder *b, const struct weir_schema *schema)
{
	uint64_t table = flat_add_table(b, &layout_schema, schema->metadata.count ? 7 : 3);
	int64_t next_id = 0;

	flat_link(b, table, SCHEMA_FIELDS, put_fields(b, schema->fields, schema->field_count, &next_id));
	if (schema->metadata.count)
		flat_link(b, table, SCHEMA_METADATA, put_metadata(b, &schema->metadata));
	return table;
}

static void put_schema_message(struct flat_builder *b, const struct weir_schema *schema)
{
	uint64_t table = flat_add_table(b, &layout_message, 15);

	flat_set(b, table, &layout_message, MESSAGE_VERSION, IPC_VERSION_5);
	flat_set(b, table, &layout_message, MESSAGE_HEADER_TYPE, HEADER_SCHEMA);
	flat_link(b, table, MESSAGE_HEADER, put_schema(b, schema));
}

/* The vector's items are structs with 8-byte members. */
static uint64_t put_blocks(struct flat_builder *b, const struct weir_ipc_block *blocks, uint32_t count,
			   bool dictionaries)
{
	uint32_t chosen = 0;
	uint64_t vector;

	for (uint32_t i = 0; i < count; i++)
		chosen += blocks[i].is_dictionary == dictionaries;
	vector = flat_add_vector(b, chosen, sizeof(struct ipc_file_block), 8);
	if (!b->out)
		return vector;
	for (uint32_t i = 0, item = 0; i < count; i++) {
		struct ipc_file_block block = {.offset = (int64_t)blocks[i].offset,
					       .metadata_size = (int32_t)blocks[i].metadata_size,
					       .body_size = (int64_t)blocks[i].body_size};

		if (blocks[i].is_dictionary == dictionaries)
			memcpy(b->out + vector + 4 + item++ * sizeof(block), &block, sizeof(block));
	}
	return vector;
}

static void put_footer(struct flat_builder *b, const struct weir_schema *schema, const struct weir_ipc_block *blocks,
		       uint32_t count)
{
	uint64_t table = flat_add_table(b, &layout_footer, 15);

	flat_set(b, table, &layout_footer, FOOTER_VERSION, IPC_VERSION_5);
	flat_link(b, table, FOOTER_SCHEMA, put_schema(b, schema));
	flat_link(b, table, FOOTER_DICTIONARIES, put_blocks(b, blocks, count, true));
	flat_link(b, table, FOOTER_RECORD_BATCHES, put_blocks(b, blocks, count, false));
}

/* Appends `size` bytes to be filled and gives them. */
static int text_extend(struct weir_text *out, uint64_t size, uint8_t **room, struct weir_error *err)
{
	static const uint8_t zeros[4096];
	size_t size_old = out->size;
	int code;

	while (out->size < size_old + size) {
		uint64_t left = size_old + size - out->size;

		code = weir_text_append(out, zeros, left < sizeof(zeros) ? left : sizeof(zeros), err);
		if (code) {
			out->size = size_old;
			return code;
		}
	}
	*room = (uint8_t *)out->data + size_old;
	return WEIR_OK;
}

static int refuse_large(uint64_t size, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_UNSUPPORTED,
			      "a schema of %llu bytes does not fit into an Arrow message, which holds 2 GiB",
			      (unsigned long long)size);
}

int ipc_schema_measure(const struct weir_schema *schema, uint64_t *size, struct weir_error *err)
{
	struct flat_builder builder;

	flat_begin(&builder, NULL, 0);
	put_schema_message(&builder, schema);
	if (builder.size > INT32_MAX - IPC_ALIGN)
		return refuse_large(builder.size, err);
	*size = weir_round_up(IPC_PREFIX_SIZE + builder.size, IPC_ALIGN);
	return WEIR_OK;
}

void ipc_schema_write(const struct weir_schema *schema, uint64_t size, uint8_t *out)
{
	const uint32_t prefix[2] = {UINT32_MAX, (uint32_t)(size - IPC_PREFIX_SIZE)};
	struct flat_builder builder;

	memset(out, 0, size);
	memcpy(out, prefix, sizeof(prefix));
	flat_begin(&builder, out + IPC_PREFIX_SIZE, size - IPC_PREFIX_SIZE);
	put_schema_message(&builder, schema);
}

int weir_ipc_write_schema(const struct weir_schema *schema, struct weir_text *out, struct weir_error *err)
{
	uint64_t size = 0;
	uint8_t *room;
	int code = ipc_schema_measure(schema, &size, err);

	if (!code)
		code = text_extend(out, size, &room, err);
	if (!code)
		ipc_schema_write(schema, size, room);
	return code;
}

int weir_ipc_write_footer(const struct weir_schema *schema, const struct weir_ipc_block *blocks, uint32_t count,
			  struct weir_text *out, struct weir_error *err)
{
	struct flat_builder builder;
	uint32_t footer_size;
	uint64_t size;
	uint8_t *room;
	int code;

	flat_begin(&builder, NULL, 0);
	put_footer(&builder, schema, blocks, count);
	flat_pad(&builder, 8);
	if (builder.size > INT32_MAX)
		return refuse_large(builder.size, err);
	size = builder.size;
	code = text_extend(out, size, &room, err);
	if (code)
		return code;
	flat_begin(&builder, room, size);
	put_footer(&builder, schema, blocks, count);
	footer_size = (uint32_t)size;
	code = weir_text_append(out, &footer_size, sizeof(footer_size), err);
	if (!code)
		code = weir_text_append(out, WEIR_IPC_MAGIC, WEIR_IPC_MAGIC_SIZE, err);
	return code;
}
