/* Few rows of a dictionary's many values: a batch whose dictionaries have the values that its rows name, in the order
 * in which they name them first. Of a table with few distinct codes, one entry a row at most. */
#include "arrow/packed.h"

#include "arrow/arrow_impl.h"

#include <string.h>

enum {
	VALUES_MIN = 32,  /* so few are not worth looking for */
	VALUES_SHARE = 8, /* of the rows, as many values as that neither */
};

/* Where values have an order, it is that of the dictionary. */
static bool is_large(const struct weir_array *array)
{
	return array->type->id == WEIR_DICTIONARY_TYPE && !array->type->ordered &&
	       array->dictionary->length > VALUES_MIN && array->dictionary->length > array->length / VALUES_SHARE;
}

/* Codes that were met, by linear probing: slots have the number of a code in `values`, from 1 on. */
struct met {
	uint32_t *slots;
	uint64_t mask;
	int64_t *values;
	int64_t count;
};

static uint64_t number_of(struct met *met, uint64_t code)
{
	uint64_t at = (code * 0x9E3779B97F4A7C15u) >> 32 & met->mask;

	for (; met->slots[at]; at = (at + 1) & met->mask)
		if ((uint64_t)met->values[met->slots[at] - 1] == code)
			return met->slots[at] - 1;
	met->values[met->count++] = (int64_t)code;
	met->slots[at] = (uint32_t)met->count;
	return met->slots[at] - 1;
}

/* The array's rows in codes of the values that are met. */
static void translate(const struct weir_array *array, struct met *met, uint8_t *to)
{
	uint32_t width = array->type->byte_width;

	memset(to, 0, (size_t)array->length * width);
	for (int64_t i = 0; i < array->length; i++) {
		uint64_t number;

		if (array->buffers[0].data && !weir_bit_get(array->buffers[0].data, array->offset + i))
			continue;
		number = number_of(met, (uint64_t)weir_array_code(array, array->offset + i));
		/* The least byte is the first one. */
		memcpy(to + (size_t)i * width, &number, width);
	}
}

static int build(struct weir_account *account, const struct weir_array *array, struct met *met, struct weir_array **out,
		 struct weir_error *err)
{
	struct weir_array *made = weir_array_new(account, array->type, err);
	uint8_t *codes, *bits;
	int code;

	if (!made)
		return err->code;
	made->length = array->length;
	made->null_count = array->null_count;
	code = weir_buffer_new(account, (uint64_t)array->length * array->type->byte_width, &made->buffers[1], &codes,
			       err);
	if (!code)
		translate(array, met, codes);
	if (!code && array->buffers[0].data) {
		code = weir_buffer_new(account, weir_bits_size(array->length), &made->buffers[0], &bits, err);
		if (!code)
			weir_bits_copy(bits, 0, array->buffers[0].data, array->offset, array->length);
	}
	if (!code) {
		made->dictionary = weir_array_take(account, array->dictionary, met->values, met->count, err);
		code = made->dictionary ? WEIR_OK : err->code;
	}
	if (code)
		weir_array_unref(made);
	else
		*out = made;
	return code;
}

static int trim(struct weir_account *account, const struct weir_array *array, struct weir_array **out,
		struct weir_error *err)
{
	size_t slots = 64, values_size = ((size_t)array->length + 1) * sizeof(int64_t);
	struct met met = {0};
	int code;

	if (!is_large(array) || array->length > INT32_MAX) {
		*out = weir_array_ref(array);
		return WEIR_OK;
	}
	while (slots < 2 * (size_t)array->length)
		slots *= 2;
	met.mask = slots - 1;
	met.slots = weir_alloc_zero(account, slots * sizeof(*met.slots), err);
	met.values = met.slots ? weir_alloc(account, values_size, err) : NULL;
	code = met.values ? build(account, array, &met, out, err) : err->code;
	weir_free(account, met.values, met.values ? values_size : 0);
	weir_free(account, met.slots, met.slots ? slots * sizeof(*met.slots) : 0);
	return code;
}

int weir_batch_trim(struct weir_account *account, const struct weir_batch *batch, struct weir_batch **out,
		    struct weir_error *err)
{
	size_t size = (batch->column_count + 1) * sizeof(struct weir_array *);
	struct weir_array **columns;
	uint32_t done = 0, large = 0;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < batch->column_count; i++)
		large += is_large(batch->columns[i]);
	if (!large) {
		*out = weir_batch_ref(batch);
		return WEIR_OK;
	}
	columns = weir_alloc(account, size, err);
	if (!columns)
		return err->code;
	for (; done < batch->column_count && !code; done += !code)
		code = trim(account, batch->columns[done], &columns[done], err);
	if (!code) {
		*out = weir_batch_new(account, batch->schema, batch->row_count, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	while (done > 0)
		weir_array_unref(columns[--done]);
	weir_free(account, columns, size);
	return code;
}
