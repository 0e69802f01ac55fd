/* TFRecord files, written: a record a row, a tf.train.Example with a feature a column (example.c, frame.c have the
 * bytes).
 *
 * Integers go into Int64List, floats of any width into FloatList, texts and bytes into BytesList; lists of these have
 * all their values there, a null none. A column of tensors of one shape is bytes: a tensor as TensorFlow serialises it
 * (TensorProto with tensor_content). Lengths stand before what they measure, so a row is measured first, then written;
 * the buffer holds whole records and grows for a large one.
 */
#include "base/checked.h"
#include "arrow/bitmap.h"
#include "arrow/tensor.h"
#include "arrow/value.h"
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

enum {
	FLUSH_BYTES = 256 << 10,
	KEEP_BYTES = 4 << 20,
	TENSOR_HEAD_MAX = 16 + WEIR_TENSOR_DIMS_MAX * 13,
};

struct column {
	const char *name;
	uint32_t name_size;
	const struct weir_type *type; /* of values; of lists the item's */
	enum tf_kind kind;
	bool is_list, is_tensor;
	uint8_t tensor_head[TENSOR_HEAD_MAX]; /* all of a TensorProto but its content */
	uint32_t tensor_head_size;
	const struct weir_column *from; /* of this vector */
	/* Of this row. */
	const struct weir_array *items; /* lists: the child, rows [begin, begin + count) */
	int64_t begin, count;
	uint64_t payload; /* bytes of the values */
};

struct writer {
	struct weir_account *account;
	struct weir_schema *schema;
	struct column *columns;
	struct weir_byte_sink sink;
	uint8_t *buffer;
	size_t capacity, used;
	uint64_t flushed, rows;
};

/* ---- columns ---- */

static enum tf_kind kind_of(const struct weir_type *type)
{
	if (weir_type_is_integer(type))
		return TF_INT;
	if (weir_type_is_float(type))
		return TF_FLOAT;
	switch (type->id) {
	case WEIR_STRING:
	case WEIR_LARGE_STRING:
	case WEIR_BINARY:
	case WEIR_LARGE_BINARY:
	case WEIR_FIXED_BINARY:
		return TF_BYTES;
	default:
		return TF_NOTHING;
	}
}

static uint32_t varint_size(uint64_t value)
{
	return (uint32_t)((63 - __builtin_clzll(value | 1)) / 7 + 1);
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

/* TensorFlow's numbers of types; 0: none. */
static uint8_t tensor_type(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_FLOAT:
		return 1;
	case WEIR_DOUBLE:
		return 2;
	case WEIR_INT32:
		return 3;
	case WEIR_UINT8:
		return 4;
	case WEIR_INT16:
		return 5;
	case WEIR_INT8:
		return 6;
	case WEIR_INT64:
		return 9;
	case WEIR_BOOL:
		return 10;
	case WEIR_UINT16:
		return 17;
	case WEIR_HALF:
		return 19;
	case WEIR_UINT32:
		return 22;
	case WEIR_UINT64:
		return 23;
	default:
		return 0;
	}
}

/* dtype (1), tensor_shape (2) with a dim (2) a dimension, each with its size (1). */
static void tensor_head(struct column *column, const struct weir_tensor_shape *shape, uint8_t number)
{
	uint8_t *at = column->tensor_head;
	uint32_t size = 0;

	*at++ = 0x08;
	at = put_varint(at, number);
	for (uint32_t i = 0; i < shape->count; i++)
		size += 3 + varint_size((uint64_t)shape->sizes[i]);
	*at++ = 0x12;
	at = put_varint(at, size);
	for (uint32_t i = 0; i < shape->count; i++) {
		*at++ = 0x12;
		*at++ = (uint8_t)(1 + varint_size((uint64_t)shape->sizes[i]));
		*at++ = 0x08;
		at = put_varint(at, (uint64_t)shape->sizes[i]);
	}
	column->tensor_head_size = (uint32_t)(at - column->tensor_head);
}

static int refuse(const struct weir_field *field, struct weir_error *err)
{
	char name[64];

	weir_type_name(field->type, name, sizeof(name));
	if (weir_tensor_ragged(field))
		weir_error_set(
			err, WEIR_E_VALUE,
			"a column of tensors of different shapes cannot be written: serialise them to bytes first");
	else if (field->type->id == WEIR_NULL)
		weir_error_set(
			err, WEIR_E_VALUE,
			"Unable to infer type from partially missing column: every value is null; cast it, or drop it");
	else
		weir_error_set(
			err, WEIR_E_VALUE,
			"Value is of type %s, which we cannot convert to a supported tf.train.Feature storage type (bytes, float, or int): cast it",
			name);
	weir_error_at_column(err, field->name);
	return err->code;
}

static int column_init(struct column *column, const struct weir_field *field, struct weir_error *err)
{
	const struct weir_type *type = weir_type_values(field->type);
	struct weir_tensor_shape shape;

	column->name = field->name;
	column->name_size = (uint32_t)strlen(field->name);
	column->is_list = type->id == WEIR_LIST_TYPE || type->id == WEIR_LARGE_LIST || type->id == WEIR_FIXED_LIST;
	column->type = column->is_list ? type->fields[0].type : type;
	column->kind = kind_of(column->type);
	if (weir_tensor_fixed(field, &shape)) {
		uint8_t number = tensor_type(column->type);

		if (!number || shape.permuted)
			return refuse(field, err);
		column->is_tensor = true;
		column->kind = TF_BYTES;
		tensor_head(column, &shape, number);
	}
	return column->kind == TF_NOTHING ? refuse(field, err) : WEIR_OK;
}

static void writer_free(struct weir_format_writer *base)
{
	struct writer *self = (struct writer *)base;

	if (!self)
		return;
	weir_free(self->account, self->columns, self->schema->field_count * sizeof(*self->columns));
	weir_free(self->account, self->buffer, self->capacity);
	weir_schema_unref(self->schema);
	weir_free(self->account, self, sizeof(*self));
}

static int writer_new(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_format_writer **out,
		      struct weir_error *err)
{
	struct writer *self = weir_alloc_zero(account, sizeof(*self), err);
	int code;

	(void)options;
	if (!self)
		return err->code;
	self->account = account;
	self->schema = weir_schema_ref(schema);
	self->columns = weir_alloc_zero(account, schema->field_count * sizeof(*self->columns), err);
	if (self->columns)
		self->buffer = weir_alloc(account, FLUSH_BYTES, err);
	code = self->buffer ? WEIR_OK : err->code;
	self->capacity = self->buffer ? FLUSH_BYTES : 0;
	for (uint32_t i = 0; !code && i < schema->field_count; i++)
		code = column_init(&self->columns[i], &schema->fields[i], err);
	if (code) {
		writer_free((struct weir_format_writer *)self);
		return code;
	}
	*out = (struct weir_format_writer *)self;
	return WEIR_OK;
}

/* ---- values ---- */

static int64_t integer(const struct weir_type *type, const uint8_t *value)
{
	int64_t number = 0;

	memcpy(&number, value, type->byte_width); /* little endian */
	if (weir_type_is_signed(type) && type->byte_width < 8) {
		uint32_t shift = 64 - type->byte_width * 8;

		number = (int64_t)((uint64_t)number << shift) >> shift;
	}
	return number;
}

static float real(const struct weir_type *type, const uint8_t *value)
{
	double wide;
	float single;
	uint16_t half;

	if (type->id == WEIR_DOUBLE) {
		memcpy(&wide, value, 8);
		return (float)wide;
	}
	if (type->id == WEIR_HALF) {
		memcpy(&half, value, 2);
		return weir_half_to_float(half);
	}
	memcpy(&single, value, 4);
	return single;
}

/* The i-th of a row's values. */
static const uint8_t *fixed_at(const struct column *column, uint32_t row, int64_t i)
{
	const struct weir_column *from = column->from;
	const uint8_t *values = from->values;

	if (column->is_list)
		return column->items->buffers[1].data +
		       (size_t)(column->items->offset + column->begin + i) * column->type->byte_width;
	if (from->form == WEIR_DICTIONARY) {
		row = ((const uint32_t *)from->values)[row];
		values = from->dictionary->values;
	}
	return values + (size_t)(from->form == WEIR_CONSTANT ? 0 : row) * column->type->byte_width;
}

static const uint8_t *bytes_at(const struct column *column, uint32_t row, int64_t i, uint64_t *size)
{
	const struct weir_column *from = column->from;
	const struct weir_view *view = from->values;

	if (column->type->id == WEIR_FIXED_BINARY) {
		*size = column->type->byte_width;
		return fixed_at(column, row, i);
	}
	if (column->is_list) {
		const struct weir_array *items = column->items;
		int64_t at = items->offset + column->begin + i, begin, end;

		if (column->type->id == WEIR_LARGE_STRING || column->type->id == WEIR_LARGE_BINARY) {
			begin = ((const int64_t *)items->buffers[1].data)[at];
			end = ((const int64_t *)items->buffers[1].data)[at + 1];
		} else {
			begin = ((const int32_t *)items->buffers[1].data)[at];
			end = ((const int32_t *)items->buffers[1].data)[at + 1];
		}
		*size = (uint64_t)(end - begin);
		return items->buffers[2].data + begin;
	}
	if (from->form == WEIR_DICTIONARY)
		view = (const struct weir_view *)from->dictionary->values + ((const uint32_t *)from->values)[row];
	else if (from->form != WEIR_CONSTANT)
		view += row;
	*size = view->size;
	return weir_view_bytes(view);
}

/* ---- rows ---- */

/* Which values of a list are the row's. A null has none. */
static void list_find(struct column *column, uint32_t row)
{
	const struct weir_column *from = column->from;
	const struct weir_array *array = from->form == WEIR_DICTIONARY ? from->dictionary->nested : from->nested;
	int64_t at = array->offset;

	if (from->form == WEIR_DICTIONARY)
		at += ((const uint32_t *)from->values)[row];
	else
		at += from->nested_offset + (from->form == WEIR_CONSTANT ? 0 : row);
	column->items = array->children[0];
	column->begin = column->count = 0;
	if (array->buffers[0].data && !weir_bit_get(array->buffers[0].data, at)) {
		column->items = NULL;
	} else if (array->type->id == WEIR_FIXED_LIST) {
		column->count = array->type->list_size;
		column->begin = at * column->count;
	} else if (array->type->id == WEIR_LARGE_LIST) {
		const int64_t *offsets = (const int64_t *)array->buffers[1].data;

		column->begin = offsets[at];
		column->count = offsets[at + 1] - offsets[at];
	} else {
		const int32_t *offsets = (const int32_t *)array->buffers[1].data;

		column->begin = offsets[at];
		column->count = offsets[at + 1] - offsets[at];
	}
}

static int find_nulls(const struct column *column, struct weir_error *err)
{
	const struct weir_array *items = column->items;

	for (int64_t i = 0; items->buffers[0].data && i < column->count; i++) {
		if (!weir_bit_get(items->buffers[0].data, items->offset + column->begin + i)) {
			weir_error_set(err, WEIR_E_TYPE,
				       "a list holds a null, which no tf.train.Feature does: fill it or drop it");
			weir_error_at_column(err, column->name);
			return err->code;
		}
	}
	return WEIR_OK;
}

static uint64_t tensor_content_size(const struct column *column)
{
	return (uint64_t)column->count * (column->type->id == WEIR_BOOL ? 1 : column->type->byte_width);
}

static uint64_t tensor_size(const struct column *column)
{
	uint64_t content = tensor_content_size(column);

	return column->tensor_head_size + (content ? 1 + varint_size(content) + content : 0);
}

/* Sets begin, count and payload of the row's values. */
static int measure(struct column *column, uint32_t row, struct weir_error *err)
{
	uint64_t size;

	column->payload = 0;
	column->count = weir_column_valid(column->from, row);
	if (column->count && column->is_list) {
		list_find(column, row);
		if (column->is_tensor) {
			if (!column->items)
				column->count = 0;
			else if (find_nulls(column, err))
				return err->code;
			size = column->items ? tensor_size(column) : 0;
			column->payload = column->items ? 1 + varint_size(size) + size : 0;
			return WEIR_OK;
		}
		if (column->items && find_nulls(column, err))
			return err->code;
	} else if (column->is_list) {
		column->items = NULL;
	}
	if (column->kind == TF_FLOAT)
		column->payload = (uint64_t)column->count * 4;
	for (int64_t i = 0; column->kind == TF_INT && i < column->count; i++) {
		int64_t value = integer(column->type, fixed_at(column, row, i));

		if (value < 0 && column->type->id == WEIR_UINT64) {
			weir_error_set(err, WEIR_E_VALUE,
				       "%llu does not fit 64 bits with a sign, which a tf.train.Feature has",
				       (unsigned long long)value);
			weir_error_at_column(err, column->name);
			return err->code;
		}
		column->payload += varint_size((uint64_t)value);
	}
	for (int64_t i = 0; column->kind == TF_BYTES && i < column->count; i++) {
		bytes_at(column, row, i, &size);
		column->payload += 1 + varint_size(size) + size;
	}
	return WEIR_OK;
}

/* Numbers are packed into one field. */
static uint64_t list_size(const struct column *column)
{
	if (column->kind == TF_BYTES || !column->payload)
		return column->payload;
	return 1 + varint_size(column->payload) + column->payload;
}

static uint64_t field_size(uint64_t size)
{
	return 1 + varint_size(size) + size;
}

static uint64_t entry_size(const struct column *column)
{
	return field_size(column->name_size) + field_size(field_size(list_size(column)));
}

static uint8_t *put_head(uint8_t *at, uint32_t number, uint64_t size)
{
	*at++ = (uint8_t)(number << 3 | 2);
	return put_varint(at, size);
}

static uint8_t *put_bytes(uint8_t *at, uint32_t number, const void *bytes, uint64_t size)
{
	at = put_head(at, number, size);
	if (size)
		memcpy(at, bytes, (size_t)size);
	return at + size;
}

static uint8_t *put_tensor(const struct column *column, uint8_t *at)
{
	uint64_t content = tensor_content_size(column);

	at = put_head(at, 1, tensor_size(column));
	memcpy(at, column->tensor_head, column->tensor_head_size);
	at += column->tensor_head_size;
	if (!content)
		return at;
	if (column->type->id != WEIR_BOOL)
		return put_bytes(at, 4, fixed_at(column, 0, 0), content);
	at = put_head(at, 4, content);
	for (int64_t i = 0; i < column->count; i++)
		*at++ = weir_bit_get(column->items->buffers[1].data, column->items->offset + column->begin + i);
	return at;
}

static uint8_t *put_values(const struct column *column, uint32_t row, uint8_t *at)
{
	if (!column->payload)
		return at;
	if (column->is_tensor)
		return put_tensor(column, at);
	if (column->kind != TF_BYTES)
		at = put_head(at, 1, column->payload);
	for (int64_t i = 0; i < column->count; i++) {
		float single;
		uint64_t size;

		if (column->kind == TF_INT) {
			at = put_varint(at, (uint64_t)integer(column->type, fixed_at(column, row, i)));
		} else if (column->kind == TF_FLOAT) {
			single = real(column->type, fixed_at(column, row, i));
			memcpy(at, &single, 4);
			at += 4;
		} else {
			const uint8_t *bytes = bytes_at(column, row, i, &size);

			at = put_bytes(at, 1, bytes, size);
		}
	}
	return at;
}

static uint8_t *put_feature(const struct column *column, uint32_t row, uint8_t *at)
{
	uint64_t list = list_size(column);

	at = put_head(at, 1, entry_size(column));
	at = put_bytes(at, 1, column->name, column->name_size);
	at = put_head(at, 2, field_size(list));
	at = put_head(at, column->kind == TF_BYTES ? 1 : column->kind == TF_FLOAT ? 2 : 3, list);
	return put_values(column, row, at);
}

static int flush(struct writer *self, struct weir_error *err)
{
	size_t used = self->used;

	self->used = 0;
	self->flushed += used;
	return used ? self->sink.write(self->sink.state, self->buffer, used, err) : WEIR_OK;
}

static int reserve(struct writer *self, uint64_t size, struct weir_error *err)
{
	size_t capacity = weir_alloc_size(size > FLUSH_BYTES ? size : FLUSH_BYTES);

	if (size <= self->capacity - self->used)
		return WEIR_OK;
	if (flush(self, err))
		return err->code;
	if (size <= self->capacity)
		return WEIR_OK;
	weir_free(self->account, self->buffer, self->capacity);
	self->capacity = 0;
	self->buffer = weir_alloc(self->account, capacity, err);
	if (!self->buffer)
		return err->code;
	self->capacity = capacity;
	return WEIR_OK;
}

static int put_row(struct writer *self, uint32_t row, struct weir_error *err)
{
	uint64_t features = 0, record, size;
	uint32_t checksum;
	uint8_t *at, *begin;

	for (uint32_t i = 0; i < self->schema->field_count; i++) {
		if (measure(&self->columns[i], row, err))
			return err->code;
		features += field_size(entry_size(&self->columns[i]));
	}
	record = field_size(features);
	if (record > TF_RECORD_MAX)
		return weir_error_set(err, WEIR_E_VALUE,
				      "a row takes %llu bytes as a tf.train.Example, which may have 2 GiB",
				      (unsigned long long)record);
	size = TF_HEAD_BYTES + record + TF_TAIL_BYTES;
	if (reserve(self, size, err))
		return err->code;
	at = self->buffer + self->used;
	memcpy(at, &record, 8);
	checksum = tf_checksum(at, 8);
	memcpy(at + 8, &checksum, 4);
	begin = at += TF_HEAD_BYTES;
	at = put_head(at, 1, features);
	for (uint32_t i = 0; i < self->schema->field_count; i++)
		at = put_feature(&self->columns[i], row, at);
	WEIR_ASSERT((uint64_t)(at - begin) == record);
	checksum = tf_checksum(begin, (size_t)record);
	memcpy(at, &checksum, 4);
	self->used += (size_t)size;
	self->rows++;
	return WEIR_OK;
}

/* ---- the table ---- */

static int part_begin(struct weir_format_writer *base, struct weir_byte_sink sink, struct weir_error *err)
{
	struct writer *self = (struct writer *)base;

	(void)err;
	self->sink = sink;
	self->used = 0;
	self->flushed = self->rows = 0;
	return WEIR_OK;
}

static int push(struct weir_format_writer *base, struct weir_vector *vector, struct weir_error *err)
{
	struct writer *self = (struct writer *)base;
	int code = weir_vector_decode_all(vector, err);

	for (uint32_t i = 0; !code && i < vector->column_count; i++)
		self->columns[i].from = &vector->columns[i];
	for (uint32_t k = 0; !code && k < vector->selection.count; k++)
		code = put_row(self, vector->selection.rows ? vector->selection.rows[k] : k, err);
	if (!code && self->capacity > KEEP_BYTES) {
		code = flush(self, err);
		weir_free(self->account, self->buffer, self->capacity);
		self->capacity = 0;
		self->buffer = NULL;
	}
	return code;
}

static int part_end(struct weir_format_writer *base, struct weir_account *account, struct weir_part **out,
		    struct weir_error *err)
{
	struct writer *self = (struct writer *)base;

	if (flush(self, err))
		return err->code;
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	**out = (struct weir_part){.bytes = self->flushed, .rows = self->rows, .bytes_decoded = self->flushed};
	return WEIR_OK;
}

static void part_free(struct weir_account *account, struct weir_part *part)
{
	weir_free(account, part, sizeof(*part));
}

const struct weir_writer_ops weir_tfrecord_writer = {
	.name = "tfrecord",
	.extension = ".tfrecords",
	.is_text = true, /* compression is around the whole */
	.writer_new = writer_new,
	.part_begin = part_begin,
	.push = push,
	.part_end = part_end,
	.part_free = part_free,
	.writer_free = writer_free,
};
