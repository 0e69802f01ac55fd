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
