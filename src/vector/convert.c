/* Between vectors and Arrow batches. The way out is a gatherer that is pushed once; the way in points into the batch,
 * except for bits (copied, since theirs may begin anywhere and end at any byte) and views (made here). */
#include "vector/kernels.h"

#include <string.h>

int weir_vector_to_batch(struct weir_vector *vector, const struct weir_schema *schema, struct weir_account *account,
			 struct weir_batch **out, struct weir_error *err)
{
	struct weir_gather *gather = NULL;
	int code = weir_gather_new(account, schema, &gather, err);

	if (!code)
		code = weir_gather_push(gather, vector, err);
	if (!code)
		code = weir_gather_finish(gather, out, err);
	weir_gather_free(gather);
	return code;
}

/* Bits [offset, offset + count) of a bitmap as whole words. */
static uint64_t *bits_copy(const uint8_t *bitmap, int64_t offset, uint32_t count, struct weir_arena *arena,
			   struct weir_error *err)
{
	uint32_t words = WEIR_BIT_WORDS(count);
	uint64_t *out = weir_arena_alloc_zero(arena, words * 8 + 8, err);
	const uint8_t *from = bitmap + offset / 8;
	uint32_t shift = (uint32_t)(offset % 8);
	size_t bytes = ((size_t)shift + count + 7) / 8;

	if (!out || !count)
		return out;
	if (!shift) {
		memcpy(out, from, bytes);
		return out;
	}
	for (uint32_t i = 0; i < words; i++) {
		uint64_t low = 0, high = 0;
		size_t at = (size_t)i * 8, left = bytes - at;

		memcpy(&low, from + at, left < 8 ? left : 8);
		if (left > 8)
			high = from[at + 8];
		out[i] = low >> shift | high << (64 - shift);
	}
	return out;
}

static int views_make(const struct weir_array *array, int64_t from, uint32_t count, const uint64_t *validity,
		      struct weir_view *views, struct weir_error *err)
{
	const uint8_t *bytes = array->buffers[2].data;
	bool is_large = array->type->id == WEIR_LARGE_STRING || array->type->id == WEIR_LARGE_BINARY;
	const int32_t *small = (const int32_t *)array->buffers[1].data;
	const int64_t *large = (const int64_t *)array->buffers[1].data;

	for (uint32_t i = 0; i < count; i++) {
		int64_t begin = is_large ? large[from + i] : small[from + i];
		int64_t end = is_large ? large[from + i + 1] : small[from + i + 1];

		if (validity && !(validity[i >> 6] >> (i & 63) & 1)) {
			views[i] = (struct weir_view){0};
			continue;
		}
		if (end - begin > (int64_t)UINT32_MAX)
			return weir_error_set(err, WEIR_E_LIMIT, "a value of %lld bytes is longer than 4 GiB",
					      (long long)(end - begin));
		views[i] = weir_view_make(bytes ? bytes + begin : (const uint8_t *)"", (uint32_t)(end - begin));
	}
	return WEIR_OK;
}

/* Arrow's dictionaries may hold nulls; ours may not: they become null rows. */
static int from_dictionary(const struct weir_array *array, int64_t from, uint32_t count, struct weir_arena *arena,
			   struct weir_column *out, struct weir_error *err)
{
	const struct weir_array *values = array->dictionary;
	bool has_nulls = weir_array_null_count(values) > 0;
	uint32_t *codes = weir_arena_alloc_aligned(arena, ((size_t)count + 1) * sizeof(*codes), err);
	uint64_t *validity = (uint64_t *)out->validity;
	struct weir_dictionary *dictionary;

	if (!codes)
		return err->code;
	if (values->length > (int64_t)UINT32_MAX)
		return weir_error_set(err, WEIR_E_LIMIT, "a dictionary of %lld values", (long long)values->length);
	if (has_nulls && !validity) {
		validity = weir_arena_alloc_aligned(arena, WEIR_BIT_WORDS(count) * 8 + 8, err);
		if (!validity)
			return err->code;
		memset(validity, 0xff, WEIR_BIT_WORDS(count) * 8);
		out->validity = validity;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (validity && !(validity[i >> 6] >> (i & 63) & 1)) {
			codes[i] = 0;
			continue;
		}
		codes[i] = (uint32_t)weir_array_code(array, from + i);
		if (has_nulls && !weir_array_is_valid(values, codes[i]))
			validity[i >> 6] &= ~((uint64_t)1 << (i & 63));
	}
	out->values = codes;
	out->form = WEIR_DICTIONARY;
	dictionary = weir_arena_alloc_zero(arena, sizeof(*dictionary), err);
	if (!dictionary)
		return err->code;
	dictionary->id = weir_dictionary_id_new();
	dictionary->count = (uint32_t)values->length;
	out->dictionary = dictionary;

	struct weir_column flat = {.type = values->type};
	int code = weir_column_from_array(values, 0, dictionary->count, arena, &flat, err);
	if (code)
		return code;
	dictionary->values = flat.values;
	dictionary->nested = flat.nested;
	/* A vector's worth of rows out of a far larger dictionary: its values are better as they are. */
	if (dictionary->count > 2 * WEIR_VECTOR_ROWS && weir_type_values(array->type)->layout != WEIR_LAYOUT_NESTED) {
		struct weir_selection all = {.count = count};

		return weir_column_flatten(out, &all, count, arena, err);
	}
	return WEIR_OK;
}

int weir_column_from_array(const struct weir_array *array, int64_t offset, uint32_t count, struct weir_arena *arena,
			   struct weir_column *out, struct weir_error *err)
{
	static const uint64_t nothing[1];
	int64_t from = array->offset + offset;
	const struct weir_type *type = array->type;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	if (array->buffers[0].data && array->null_count != 0 && type->layout != WEIR_LAYOUT_NULL) {
		out->validity = bits_copy(array->buffers[0].data, from, count, arena, err);
		if (!out->validity)
			return err->code;
	}
	if (type->id == WEIR_DICTIONARY_TYPE)
		return from_dictionary(array, from, count, arena, out, err);
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		out->form = WEIR_CONSTANT;
		out->validity = nothing;
		break;
	case WEIR_LAYOUT_BITS:
		out->values = bits_copy(array->buffers[1].data, from, count, arena, err);
		if (!out->values)
			return err->code;
		break;
	case WEIR_LAYOUT_FIXED:
		out->values = array->buffers[1].data ? array->buffers[1].data + from * type->byte_width : NULL;
		break;
	case WEIR_LAYOUT_BYTES: {
		struct weir_view *views = weir_arena_alloc_aligned(arena, ((size_t)count + 1) * sizeof(*views), err);

		if (!views)
			return err->code;
		out->values = views;
		return count ? views_make(array, from, count, out->validity, views, err) : WEIR_OK;
	}
	case WEIR_LAYOUT_NESTED:
		out->nested = array;
		out->nested_offset = offset;
		break;
	}
	return WEIR_OK;
}

int weir_vector_from_batch(const struct weir_batch *batch, int64_t offset, uint32_t count, struct weir_arena *arena,
			   struct weir_vector *out, struct weir_error *err)
{
	WEIR_ASSERT(count <= WEIR_VECTOR_ROWS && offset >= 0 && offset + count <= batch->row_count);
	*out = (struct weir_vector){.row_count = count, .column_count = batch->column_count, .source_row = -1};
	out->selection.count = count;
	out->columns = weir_arena_alloc_zero(arena, (batch->column_count + 1) * sizeof(*out->columns), err);
	if (!out->columns)
		return err->code;
	for (uint32_t i = 0; i < batch->column_count; i++) {
		int code = weir_column_from_array(batch->columns[i], offset, count, arena, &out->columns[i], err);

		if (code) {
			weir_error_at_column(err, batch->schema->fields[i].name);
			return code;
		}
	}
	return WEIR_OK;
}
