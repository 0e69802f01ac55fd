#include "ops/exchange/rows_nested.h"

#include "arrow/bitmap.h"

#include <string.h>

static int64_t offset_in(const struct weir_array *array, int64_t place)
{
	const struct weir_type *type = array->type;
	bool is_large = type->id == WEIR_LARGE_LIST || type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;

	if (!array->buffers[1].data)
		return 0;
	return is_large ? ((const int64_t *)array->buffers[1].data)[place]
			: ((const int32_t *)array->buffers[1].data)[place];
}

/* Where the row's items begin in the child, and how many they are. */
static int64_t items_of(const struct weir_array *array, int64_t place, int64_t *count)
{
	if (array->type->id == WEIR_FIXED_LIST) {
		*count = array->type->list_size;
		return place * array->type->list_size;
	}
	*count = offset_in(array, place + 1) - offset_in(array, place);
	return offset_in(array, place);
}

uint64_t weir_nested_size(const struct weir_array *array, int64_t row)
{
	const struct weir_type *type = array->type;
	int64_t place = array->offset + row, count, first;
	uint64_t size = 1;

	if (!weir_array_is_valid(array, row))
		return size;
	if (type->id == WEIR_DICTIONARY_TYPE)
		return weir_nested_size(array->dictionary, weir_array_code(array, place));
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return size;
	case WEIR_LAYOUT_BITS:
		return size + 1;
	case WEIR_LAYOUT_FIXED:
		return size + type->byte_width;
	case WEIR_LAYOUT_BYTES:
		return size + 4 + (uint64_t)(offset_in(array, place + 1) - offset_in(array, place));
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (type->id == WEIR_STRUCT) {
		for (uint32_t i = 0; i < array->child_count; i++)
			size += weir_nested_size(array->children[i], place);
		return size;
	}
	first = items_of(array, place, &count);
	size += 4;
	for (int64_t i = 0; i < count; i++)
		size += weir_nested_size(array->children[0], first + i);
	return size;
}

/* One NaN for all. */
static void settle_nan(const struct weir_type *type, uint8_t *value)
{
	double wide;
	float narrow;
	uint16_t half;

	switch (type->id) {
	case WEIR_DOUBLE:
		memcpy(&wide, value, sizeof(wide));
		wide = wide != wide ? __builtin_nan("") : wide;
		memcpy(value, &wide, sizeof(wide));
		break;
	case WEIR_FLOAT:
		memcpy(&narrow, value, sizeof(narrow));
		narrow = narrow != narrow ? __builtin_nanf("") : narrow;
		memcpy(value, &narrow, sizeof(narrow));
		break;
	case WEIR_HALF:
		memcpy(&half, value, sizeof(half));
		half = (half & 0x7fff) > 0x7c00 ? 0x7e00 : half;
		memcpy(value, &half, sizeof(half));
		break;
	default:
		break;
	}
}

uint8_t *weir_nested_write(const struct weir_array *array, int64_t row, uint8_t *to)
{
	const struct weir_type *type = array->type;
	int64_t place = array->offset + row, count, first;
	uint32_t size;

	if (!weir_array_is_valid(array, row)) {
		*to = 0;
		return to + 1;
	}
	if (type->id == WEIR_DICTIONARY_TYPE)
		return weir_nested_write(array->dictionary, weir_array_code(array, place), to);
	*to++ = 1;
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return to;
	case WEIR_LAYOUT_BITS:
		*to = weir_bit_get(array->buffers[1].data, place);
		return to + 1;
	case WEIR_LAYOUT_FIXED:
		memcpy(to, array->buffers[1].data + (size_t)place * type->byte_width, type->byte_width);
		settle_nan(type, to);
		return to + type->byte_width;
	case WEIR_LAYOUT_BYTES:
		first = offset_in(array, place);
		size = (uint32_t)(offset_in(array, place + 1) - first);
		memcpy(to, &size, sizeof(size));
		if (size)
			memcpy(to + 4, array->buffers[2].data + first, size);
		return to + 4 + size;
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (type->id == WEIR_STRUCT) {
		for (uint32_t i = 0; i < array->child_count; i++)
			to = weir_nested_write(array->children[i], place, to);
		return to;
	}
	first = items_of(array, place, &count);
	size = (uint32_t)count;
	memcpy(to, &size, sizeof(size));
	to += 4;
	for (int64_t i = 0; i < count; i++)
		to = weir_nested_write(array->children[0], first + i, to);
	return to;
}

/* A value of a dictionary comes as an array of one row, which the builder unites with what it has. */
static int read_encoded(const uint8_t **bytes, struct weir_builder *out, struct weir_error *err)
{
	struct weir_builder value = {0};
	struct weir_array *plain = NULL, *encoded = NULL;
	int code = weir_builder_init(&value, out->type->dictionary_value, out->account, err);

	if (!code)
		code = weir_nested_read(bytes, &value, err);
	if (!code && !(plain = weir_builder_finish(&value, err)))
		code = err->code;
	if (!code && !(encoded = weir_array_encode(out->account, plain, out->type, err)))
		code = err->code;
	if (!code)
		code = weir_builder_array(out, encoded, 0, 1, err);
	weir_array_unref(encoded);
	weir_array_unref(plain);
	weir_builder_release(&value);
	return code;
}

int weir_nested_read(const uint8_t **bytes, struct weir_builder *out, struct weir_error *err)
{
	const struct weir_type *type = out->type;
	const uint8_t *from = *bytes;
	uint32_t count;
	int code = WEIR_OK;

	if (!*from) {
		(*bytes)++;
		return weir_builder_null(out, 1, err);
	}
	if (type->id == WEIR_DICTIONARY_TYPE)
		return read_encoded(bytes, out, err);
	*bytes = ++from;
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return weir_builder_null(out, 1, err);
	case WEIR_LAYOUT_BITS:
		(*bytes)++;
		return weir_builder_fixed(out, from, 1, err);
	case WEIR_LAYOUT_FIXED:
		*bytes += type->byte_width;
		return weir_builder_fixed(out, from, 1, err);
	case WEIR_LAYOUT_BYTES:
		memcpy(&count, from, sizeof(count));
		*bytes += 4 + (size_t)count;
		return weir_builder_bytes(out, from + 4, count, err);
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (type->id == WEIR_STRUCT) {
		for (uint32_t i = 0; i < type->field_count && !code; i++)
			code = weir_nested_read(bytes, &out->children[i], err);
		return code ? code : weir_builder_struct_end(out, err);
	}
	memcpy(&count, from, sizeof(count));
	*bytes += 4;
	for (uint32_t i = 0; i < count && !code; i++)
		code = weir_nested_read(bytes, &out->children[0], err);
	return code ? code : weir_builder_list_end(out, err);
}
