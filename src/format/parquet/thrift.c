/* Thrift's compact protocol, as much of it as Parquet's metadata uses.
 *
 *     field:  │ id delta (4 bits) │ type (4 bits) │ value      delta 0: the id follows as a zigzag varint
 *     list:   │ count (4 bits) │ type (4 bits) │ values …      count 15: it follows as a varint
 *     binary: │ varint size │ bytes        integers: zigzag varints        struct: fields, then a zero byte
 *
 * A bool field has its value in its type. All input is from outside: sizes are compared with what is left, depth is
 * bounded, and after the first fault the reader only gives zeros.
 */
#include "format/parquet/parquet_impl.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

void thrift_fault(struct thrift_reader *reader, const char *what)
{
	if (reader->fault)
		return;
	reader->fault = what;
	reader->fault_at = reader->at;
	reader->at = reader->end;
}

static void cut_short(struct thrift_reader *reader)
{
	if (reader->fault)
		return;
	thrift_fault(reader, "the metadata ends early");
	reader->short_of_bytes = true;
}

static uint8_t byte_next(struct thrift_reader *reader)
{
	if (reader->at == reader->end) {
		cut_short(reader);
		return 0;
	}
	return *reader->at++;
}

uint64_t thrift_varint(struct thrift_reader *reader)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64; shift += 7) {
		uint8_t byte = byte_next(reader);

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	thrift_fault(reader, "a number of more than ten bytes");
	return 0;
}

int64_t thrift_i64(struct thrift_reader *reader)
{
	uint64_t value = thrift_varint(reader);

	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

int32_t thrift_i32(struct thrift_reader *reader)
{
	int64_t value = thrift_i64(reader);

	if (value != (int32_t)value) {
		thrift_fault(reader, "a number that does not fit into 32 bits");
		return 0;
	}
	return (int32_t)value;
}

double thrift_double(struct thrift_reader *reader)
{
	double value = 0;

	if ((size_t)(reader->end - reader->at) < sizeof(value)) {
		cut_short(reader);
		return 0;
	}
	memcpy(&value, reader->at, sizeof(value));
	reader->at += sizeof(value);
	return value;
}

const uint8_t *thrift_binary(struct thrift_reader *reader, uint32_t *size)
{
	uint64_t length = thrift_varint(reader);
	const uint8_t *bytes = reader->at;

	*size = 0;
	if (length > INT32_MAX) {
		thrift_fault(reader, "a text longer than 2 GiB");
		return NULL;
	}
	if (length > (uint64_t)(reader->end - reader->at)) {
		cut_short(reader);
		return NULL;
	}
	if (reader->fault)
		return NULL;
	reader->at += length;
	*size = (uint32_t)length;
	return bytes;
}

bool thrift_field_next(struct thrift_reader *reader, struct thrift_field *field)
{
	uint8_t byte = byte_next(reader);
	int64_t id;

	if (byte == THRIFT_STOP)
		return false; /* a fault gives zeros and so ends here too */
	field->type = byte & 0x0f;
	id = byte >> 4 ? field->id + (byte >> 4) : thrift_i64(reader);
	if (id <= 0 || id > INT16_MAX || field->type == THRIFT_STOP || field->type > THRIFT_UUID) {
		thrift_fault(reader, "a field that no struct has");
		return false;
	}
	field->id = (int16_t)id;
	return !reader->fault;
}

uint32_t thrift_list(struct thrift_reader *reader, uint8_t *element_type)
{
	uint8_t byte = byte_next(reader);
	uint64_t count = byte >> 4;

	*element_type = byte & 0x0f;
	if (count == 15)
		count = thrift_varint(reader);
	/* Every element takes a byte at least. */
	if (count > (uint64_t)(reader->end - reader->at)) {
		if (count > INT32_MAX)
			thrift_fault(reader, "a list of more than 2^31 elements");
		else
			cut_short(reader);
		return 0;
	}
	return (uint32_t)count;
}

bool thrift_enter(struct thrift_reader *reader)
{
	if (reader->depth >= DEPTH_MAX) {
		thrift_fault(reader, "structs nested too deeply");
		return false;
	}
	reader->depth++;
	return !reader->fault;
}

void thrift_leave(struct thrift_reader *reader)
{
	reader->depth--;
}

static void skip_bytes(struct thrift_reader *reader, size_t size)
{
	if ((size_t)(reader->end - reader->at) < size)
		cut_short(reader);
	else
		reader->at += size;
}

/* `in_list`: bools are a byte of their own there. */
static void skip_value(struct thrift_reader *reader, uint8_t type, bool in_list)
{
	struct thrift_field field = {0};
	uint32_t count, size;
	uint8_t element;

	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		if (in_list)
			byte_next(reader);
		return;
	case THRIFT_BYTE:
		byte_next(reader);
		return;
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64:
		thrift_varint(reader);
		return;
	case THRIFT_DOUBLE:
		skip_bytes(reader, 8);
		return;
	case THRIFT_UUID:
		skip_bytes(reader, 16);
		return;
	case THRIFT_BINARY:
		thrift_binary(reader, &size);
		return;
	case THRIFT_LIST:
	case THRIFT_SET:
		if (!thrift_enter(reader))
			return;
		count = thrift_list(reader, &element);
		for (uint32_t i = 0; i < count && !reader->fault; i++)
			skip_value(reader, element, true);
		thrift_leave(reader);
		return;
	case THRIFT_MAP: {
		uint64_t entries = thrift_varint(reader);

		if (entries == 0)
			return;
		if (!thrift_enter(reader))
			return;
		element = byte_next(reader);
		for (uint64_t i = 0; i < entries && !reader->fault; i++) {
			skip_value(reader, element >> 4, true);
			skip_value(reader, element & 0x0f, true);
		}
		thrift_leave(reader);
		return;
	}
	case THRIFT_STRUCT:
		if (!thrift_enter(reader))
			return;
		while (thrift_field_next(reader, &field))
			skip_value(reader, field.type, false);
		thrift_leave(reader);
		return;
	default:
		thrift_fault(reader, "a value of an unknown kind");
	}
}

void thrift_skip(struct thrift_reader *reader, uint8_t type)
{
	skip_value(reader, type, false);
}

bool thrift_expect(struct thrift_reader *reader, const struct thrift_field *field, uint8_t type)
{
	if (field->type == type || (type == THRIFT_TRUE && field->type == THRIFT_FALSE))
		return true;
	thrift_skip(reader, field->type);
	return false;
}

/* ── writing ── */

static void put(struct thrift_writer *writer, const void *bytes, size_t size)
{
	if (!writer->code)
		writer->code = weir_text_append(writer->out, bytes, size, writer->err);
}

static void put_varint(struct thrift_writer *writer, uint64_t value)
{
	uint8_t bytes[10];
	size_t size = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[size++] = (uint8_t)(value | 0x80);
	bytes[size++] = (uint8_t)value;
	put(writer, bytes, size);
}

static void put_zigzag(struct thrift_writer *writer, int64_t value)
{
	put_varint(writer, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_field(struct thrift_writer *writer, int16_t id, uint8_t type)
{
	int16_t *last = &writer->last_id[writer->depth];
	uint8_t byte;

	WEIR_ASSERT(id > 0);
	if (id > *last && id - *last <= 15) {
		byte = (uint8_t)((id - *last) << 4 | type);
		put(writer, &byte, 1);
	} else {
		put(writer, &type, 1);
		put_zigzag(writer, id);
	}
	*last = id;
}

void thrift_writer_init(struct thrift_writer *writer, struct weir_text *out, struct weir_error *err)
{
	*writer = (struct thrift_writer){.out = out, .err = err};
}

void thrift_put_bool(struct thrift_writer *writer, int16_t id, bool value)
{
	put_field(writer, id, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_put_byte(struct thrift_writer *writer, int16_t id, int8_t value)
{
	put_field(writer, id, THRIFT_BYTE);
	put(writer, &value, 1);
}

void thrift_put_i16(struct thrift_writer *writer, int16_t id, int16_t value)
{
	put_field(writer, id, THRIFT_I16);
	put_zigzag(writer, value);
}

void thrift_put_i32(struct thrift_writer *writer, int16_t id, int32_t value)
{
	put_field(writer, id, THRIFT_I32);
	put_zigzag(writer, value);
}

void thrift_put_i64(struct thrift_writer *writer, int16_t id, int64_t value)
{
	put_field(writer, id, THRIFT_I64);
	put_zigzag(writer, value);
}

void thrift_put_binary(struct thrift_writer *writer, int16_t id, const void *bytes, size_t size)
{
	put_field(writer, id, THRIFT_BINARY);
	thrift_item_binary(writer, bytes, size);
}

void thrift_put_string(struct thrift_writer *writer, int16_t id, const char *text)
{
	thrift_put_binary(writer, id, text, strlen(text));
}

void thrift_put_struct(struct thrift_writer *writer, int16_t id)
{
	put_field(writer, id, THRIFT_STRUCT);
	thrift_item_struct(writer);
}

void thrift_item_struct(struct thrift_writer *writer)
{
	WEIR_ASSERT(writer->depth + 1 < THRIFT_WRITE_DEPTH_MAX);
	writer->last_id[++writer->depth] = 0;
}

void thrift_put_struct_end(struct thrift_writer *writer)
{
	static const uint8_t stop = THRIFT_STOP;

	put(writer, &stop, 1);
	if (writer->depth > 0)
		writer->depth--;
}

void thrift_put_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, uint32_t count)
{
	uint8_t byte = (uint8_t)((count < 15 ? count : 15) << 4 | element);

	put_field(writer, id, THRIFT_LIST);
	put(writer, &byte, 1);
	if (count >= 15)
		put_varint(writer, count);
}

void thrift_item_i32(struct thrift_writer *writer, int32_t value)
{
	put_zigzag(writer, value);
}

void thrift_item_i64(struct thrift_writer *writer, int64_t value)
{
	put_zigzag(writer, value);
}

void thrift_item_bool(struct thrift_writer *writer, bool value)
{
	uint8_t byte = value ? THRIFT_TRUE : THRIFT_FALSE;

	put(writer, &byte, 1);
}

void thrift_item_binary(struct thrift_writer *writer, const void *bytes, size_t size)
{
	put_varint(writer, size);
	if (size)
		put(writer, bytes, size);
}
