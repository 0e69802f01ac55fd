/* Slices, which share their buffers, and how many bytes rows take, as if they were written by themselves. */
#include "arrow/arrow_impl.h"

struct weir_array *weir_array_slice(const struct weir_array *array, int64_t offset, int64_t length,
				    struct weir_error *err)
{
	struct weir_array *slice;

	if (offset < 0 || length < 0 || offset > array->length || length > array->length - offset) {
		weir_error_set(err, WEIR_E_INVALID, "%lld rows from row %lld on do not lie in an array of %lld rows",
			       (long long)length, (long long)offset, (long long)array->length);
		return NULL;
	}
	if (length == array->length)
		return weir_array_ref(array);
	slice = weir_array_new(array->account, array->type, err);
	if (!slice)
		return NULL;
	slice->length = length;
	slice->offset = array->offset + offset;
	slice->null_count = array->null_count == 0 || !array->buffers[0].data ? 0 : -1;
	if (array->type->layout == WEIR_LAYOUT_NULL)
		slice->null_count = length;
	for (int i = 0; i < 3; i++)
		slice->buffers[i] = weir_buffer_ref(&array->buffers[i]);
	for (uint32_t i = 0; i < array->child_count; i++)
		slice->children[i] = weir_array_ref(array->children[i]);
	slice->dictionary = weir_array_ref(array->dictionary);
	return slice;
}

/* Bytes that rows [at, at + count) take, as if they were written by themselves; `whole`: with their dictionaries. */
static int64_t array_bytes(const struct weir_array *array, int64_t at, int64_t count, bool whole)
{
	const struct weir_type *type = array->type;
	int64_t first = array->offset + at, from, to, sum = 0;

	if (array->buffers[0].data)
		sum += (int64_t)weir_bits_size(count);
	switch (type->id) {
	case WEIR_NULL:
		return 0;
	case WEIR_BOOL:
		return sum + (int64_t)weir_bits_size(count);
	case WEIR_BINARY:
	case WEIR_STRING:
	case WEIR_LARGE_BINARY:
	case WEIR_LARGE_STRING:
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_MAP:
		from = offset_at(array, first);
		to = offset_at(array, first + count);
		sum += (count + 1) * type_offset_width(type);
		return sum + (array->child_count ? array_bytes(array->children[0], from, to - from, whole) : to - from);
	case WEIR_FIXED_LIST:
		return sum + array_bytes(array->children[0], first * type->list_size, count * type->list_size, whole);
	case WEIR_STRUCT:
		for (uint32_t i = 0; i < array->child_count; i++)
			sum += array_bytes(array->children[i], first, count, whole);
		return sum;
	case WEIR_DICTIONARY_TYPE:
		return sum + count * type->dictionary_index->byte_width +
		       (whole ? array_bytes(array->dictionary, 0, array->dictionary->length, whole) : 0);
	default:
		return sum + count * type->byte_width;
	}
}

int64_t weir_array_rows_bytes(const struct weir_array *array, int64_t first, int64_t count)
{
	return array_bytes(array, first, count, false);
}

int64_t weir_batch_bytes(const struct weir_batch *batch)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < batch->column_count; i++)
		sum += array_bytes(batch->columns[i], 0, batch->row_count, true);
	return sum;
}
