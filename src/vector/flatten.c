/* DICTIONARY and CONSTANT columns become FLAT, at the rows' own positions, for the rows selected.
 *
 * Codes of rows that are not selected may be anything, so they are not followed: with a list of rows the values are
 * looked up one by one, without one in a single kernel call.
 */
#include "vector/kernels.h"

#include <string.h>

static uint32_t width_of(const struct weir_type *type)
{
	return type->layout == WEIR_LAYOUT_BYTES ? (uint32_t)sizeof(struct weir_view) : type->byte_width;
}

static void spread_value(uint8_t *out, const uint8_t *value, uint32_t width, uint32_t count)
{
	switch (width) {
	case 1:
		memset(out, *value, count);
		return;
	case 2: {
		uint16_t one;

		memcpy(&one, value, sizeof(one));
		for (uint32_t i = 0; i < count; i++)
			((uint16_t *)out)[i] = one;
		return;
	}
	case 4: {
		uint32_t one;

		memcpy(&one, value, sizeof(one));
		for (uint32_t i = 0; i < count; i++)
			((uint32_t *)out)[i] = one;
		return;
	}
	case 8: {
		uint64_t one;

		memcpy(&one, value, sizeof(one));
		for (uint32_t i = 0; i < count; i++)
			((uint64_t *)out)[i] = one;
		return;
	}
	default:
		for (uint32_t i = 0; i < count; i++)
			memcpy(out + (size_t)i * width, value, width);
	}
}

static int flatten_constant(struct weir_column *column, const struct weir_type *type, uint32_t row_count,
			    struct weir_arena *arena, struct weir_error *err)
{
	uint32_t words = WEIR_BIT_WORDS(row_count);
	bool valid = weir_column_valid(column, 0);
	void *values;

	if (!valid) {
		uint64_t *validity = weir_arena_alloc_zero(arena, words * 8 + 8, err);

		if (!validity)
			return err->code;
		column->validity = validity;
	} else {
		column->validity = NULL;
	}
	if (type->layout == WEIR_LAYOUT_NULL) {
		column->values = NULL;
	} else if (type->layout == WEIR_LAYOUT_BITS) {
		bool bit = valid && *(const uint64_t *)column->values & 1;

		values = weir_arena_alloc_aligned(arena, words * 8 + 8, err);
		if (!values)
			return err->code;
		memset(values, bit ? 0xff : 0, words * 8);
		column->values = values;
	} else {
		size_t width = width_of(type);

		values = weir_arena_alloc_aligned(arena, width * row_count + 8, err);
		if (!values)
			return err->code;
		if (valid)
			spread_value(values, column->values, (uint32_t)width, row_count);
		else
			memset(values, 0, width * row_count);
		column->values = values;
	}
	column->form = WEIR_FLAT;
	return WEIR_OK;
}

static int flatten_dictionary(struct weir_column *column, const struct weir_type *type,
			      const struct weir_selection *selection, uint32_t row_count, struct weir_arena *arena,
			      struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	const struct weir_dictionary *dictionary = column->dictionary;
	const uint32_t *codes = column->values;
	const uint16_t *rows = selection->rows;
	size_t width = width_of(type);
	uint8_t *out;

	if (!dictionary->count) {
		/* All rows are null: any value will do. */
		static const uint64_t nothing[4];
		struct weir_column constant = {.type = column->type, .form = WEIR_CONSTANT, .values = nothing};

		if (width > sizeof(nothing))
			return weir_error_set(err, WEIR_E_UNSUPPORTED, "an empty dictionary of values of %zu bytes",
					      width);
		constant.validity = nothing;
		int code = flatten_constant(&constant, type, row_count, arena, err);
		if (!code)
			*column = constant;
		return code;
	}
	if (type->layout == WEIR_LAYOUT_BITS) {
		const uint64_t *bits = dictionary->values;
		uint64_t *words = weir_arena_alloc_zero(arena, WEIR_BIT_WORDS(row_count) * 8 + 8, err);

		if (!words)
			return err->code;
		for (uint32_t k = 0; k < selection->count; k++) {
			uint32_t row = rows ? rows[k] : k, code = codes[row];

			words[row >> 6] |= (bits[code >> 6] >> (code & 63) & 1) << (row & 63);
		}
		out = (uint8_t *)words;
	} else {
		const uint8_t *values = dictionary->values;
		bool is_power = width && !(width & (width - 1)) && width <= 32;

		out = weir_arena_alloc_aligned(arena, width * row_count + 8, err);
		if (!out)
			return err->code;
		if (!rows && is_power) {
			kernels->lookup[__builtin_ctz((unsigned)width)](out, values, codes, row_count);
		} else if (width == 8) {
			for (uint32_t k = 0; k < selection->count; k++)
				((uint64_t *)out)[rows[k]] = ((const uint64_t *)values)[codes[rows[k]]];
		} else if (width == 16) {
			for (uint32_t k = 0; k < selection->count; k++)
				memcpy(out + rows[k] * (size_t)16, values + codes[rows[k]] * (size_t)16, 16);
		} else {
			for (uint32_t k = 0; k < selection->count; k++) {
				uint32_t row = rows ? rows[k] : k;

				memcpy(out + row * width, values + codes[row] * width, width);
			}
		}
	}
	column->form = WEIR_FLAT;
	column->values = out;
	column->dictionary = NULL;
	return WEIR_OK;
}

int weir_column_flatten(struct weir_column *column, const struct weir_selection *selection, uint32_t row_count,
			struct weir_arena *arena, struct weir_error *err)
{
	const struct weir_type *type = weir_type_values(column->type);
	char name[128];

	WEIR_ASSERT(column->form != WEIR_UNDECODED);
	if (column->form == WEIR_FLAT)
		return WEIR_OK;
	/* An arena holds bytes, not counted arrays; the gatherer copies nested columns of every form instead. */
	if (type->layout == WEIR_LAYOUT_NESTED)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a %s column of type %s cannot be flattened",
				      column->form == WEIR_CONSTANT ? "constant" : "dictionary-coded",
				      weir_type_name(type, name, sizeof(name)));
	if (column->form == WEIR_CONSTANT)
		return flatten_constant(column, type, row_count, arena, err);
	return flatten_dictionary(column, type, selection, row_count, arena, err);
}
