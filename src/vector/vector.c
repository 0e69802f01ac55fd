/* Decoding on demand, and what the other files of this folder share. */
#include "vector/vector.h"

#include "base/cpu.h"
#include "vector/kernels.h"

WEIR_KERNEL_DECLARE(struct weir_vector_kernels, weir_vector_kernels);

const struct weir_vector_kernels *weir_vector_kernels(void)
{
	return WEIR_KERNEL_CHOOSE(weir_vector_kernels);
}

uint64_t weir_dictionary_id_new(void)
{
	/* The one variable of the folder: ids are unique in the process or they are nothing. Relaxed: only the number
	 * itself is shared. */
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

enum weir_number weir_type_number(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_INT8:
		return WEIR_I8;
	case WEIR_INT16:
		return WEIR_I16;
	case WEIR_INT32:
	case WEIR_DATE32:
	case WEIR_TIME32:
	case WEIR_INTERVAL_MONTHS:
		return WEIR_I32;
	case WEIR_INT64:
	case WEIR_DATE64:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		return WEIR_I64;
	case WEIR_UINT8:
		return WEIR_U8;
	case WEIR_UINT16:
		return WEIR_U16;
	case WEIR_UINT32:
		return WEIR_U32;
	case WEIR_UINT64:
		return WEIR_U64;
	case WEIR_FLOAT:
		return WEIR_F32;
	case WEIR_DOUBLE:
		return WEIR_F64;
	default:
		return WEIR_NUMBER_COUNT;
	}
}

void weir_vector_blame(const struct weir_vector *vector, int code, struct weir_error *err)
{
	if (code && vector->source) {
		weir_error_at_operator(err, "read");
		weir_error_at_source(err, vector->source);
	}
}

uint64_t weir_type_row_bytes(const struct weir_type *type)
{
	uint64_t bytes;

	if (type->id == WEIR_DICTIONARY_TYPE)
		return 0;
	if (type->layout == WEIR_LAYOUT_FIXED)
		return type->byte_width;
	if (type->id != WEIR_FIXED_LIST || type->list_size <= 0 || type->fields[0].type->id == WEIR_DICTIONARY_TYPE ||
	    type->fields[0].type->layout != WEIR_LAYOUT_FIXED)
		return 0;
	bytes = (uint64_t)type->list_size * type->fields[0].type->byte_width;
	/* So that no vector's rows overflow anything. */
	return bytes <= UINT32_MAX ? bytes : 0;
}

int weir_column_decode(struct weir_vector *vector, uint32_t column, struct weir_error *err)
{
	struct weir_column *it = &vector->columns[column];
	int code;

	WEIR_ASSERT(column < vector->column_count);
	if (it->form != WEIR_UNDECODED)
		return WEIR_OK;
	code = it->pending->decode(it->pending, &vector->selection, it, err);
	weir_vector_blame(vector, code, err);
	WEIR_ASSERT(code || it->form != WEIR_UNDECODED);
	return code;
}

int weir_vector_decode_all(struct weir_vector *vector, struct weir_error *err)
{
	for (uint32_t i = 0; i < vector->column_count; i++) {
		int code = weir_column_decode(vector, i, err);

		if (code)
			return code;
	}
	return WEIR_OK;
}

int weir_vector_cut_begin(struct weir_vector *vector, uint16_t *numbers, struct weir_vector *rest,
			  struct weir_error *err)
{
	int code = weir_vector_decode_all(vector, err);

	*rest = *vector;
	if (!rest->selection.rows) {
		for (uint32_t i = 0; i < rest->selection.count; i++)
			numbers[i] = (uint16_t)i;
		rest->selection.rows = numbers;
	}
	return code;
}

struct weir_vector weir_vector_cut(struct weir_vector *rest, uint64_t count)
{
	struct weir_vector head = *rest;

	if (head.selection.count > count)
		head.selection.count = (uint32_t)count;
	rest->selection.rows += head.selection.count;
	rest->selection.count -= head.selection.count;
	return head;
}

uint64_t weir_column_value_bytes(const struct weir_column *column, uint32_t row)
{
	const struct weir_dictionary *shared = column->form == WEIR_DICTIONARY ? column->dictionary : NULL;
	enum weir_layout layout = column->type->layout;
	const struct weir_view *views;
	int64_t place;

	if ((layout != WEIR_LAYOUT_BYTES && layout != WEIR_LAYOUT_NESTED) || column->form == WEIR_UNDECODED ||
	    !weir_column_valid(column, row))
		return 0;
	place = shared ? ((const uint32_t *)column->values)[row] : column->form == WEIR_CONSTANT ? 0 : row;
	if (layout == WEIR_LAYOUT_NESTED)
		return (uint64_t)(shared ? weir_array_rows_bytes(shared->nested, place, 1)
					 : weir_array_rows_bytes(column->nested, column->nested_offset + place, 1));
	views = shared ? shared->values : column->values;
	return views[place].size;
}

uint64_t weir_vector_value_bytes(const struct weir_vector *vector, uint32_t row)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < vector->column_count; i++)
		bytes += weir_column_value_bytes(&vector->columns[i], row);
	return bytes;
}
