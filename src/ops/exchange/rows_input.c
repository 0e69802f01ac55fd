/* A vector made ready for a layout: its columns as cells have them, and the hashes of its keys. */
#include "base/hash.h"
#include "ops/exchange/rows.h"

#include <string.h>

enum { WORDS_MAX = 4 * WEIR_VECTOR_ROWS };

static const uint64_t hash_first = 0x9e3779b97f4a7c15u, word_null = 0x6a09e667f3bcc909u;

int weir_row_input_init(struct weir_row_input *input, struct weir_account *account,
			const struct weir_row_layout *layout, struct weir_error *err)
{
	*input = (struct weir_row_input){.account = account, .layout = layout};
	weir_arena_init(&input->arena, account);
	input->columns = weir_alloc_zero(account, (layout->cell_count + 1) * sizeof(*input->columns), err);
	input->words = input->columns ? weir_alloc_zero(account, (layout->cell_count + 1) * sizeof(*input->words), err)
				      : NULL;
	if (input->words)
		return WEIR_OK;
	weir_row_input_release(input);
	return err->code;
}

void weir_row_input_release(struct weir_row_input *input)
{
	if (!input->account)
		return;
	for (uint32_t i = 0; input->words && i < input->layout->cell_count; i++)
		weir_free(input->account, input->words[i].words, input->words[i].count * sizeof(uint64_t));
	weir_free(input->account, input->words, (input->layout->cell_count + 1) * sizeof(*input->words));
	weir_free(input->account, input->columns, (input->layout->cell_count + 1) * sizeof(*input->columns));
	weir_arena_release(&input->arena);
	*input = (struct weir_row_input){0};
}

static inline bool bit_of(const uint64_t *bits, uint32_t row)
{
	return bits[row >> 6] >> (row & 63) & 1;
}

/* Nested values as bytes, and views of them. */
static int take_nested(struct weir_row_input *input, const struct weir_column *column, uint32_t row_count,
		       struct weir_row_column *out, struct weir_error *err)
{
	struct weir_view *views = weir_arena_alloc_zero(&input->arena, (size_t)row_count * sizeof(*views) + 8, err);
	uint64_t *validity = views ? weir_arena_alloc_zero(&input->arena, row_count / 8 + 16, err) : NULL;

	if (!validity)
		return err->code;
	for (uint32_t i = 0; i < input->count; i++) {
		uint32_t row = weir_row_input_row(input, i);
		const struct weir_array *array = column->nested;
		int64_t place = column->nested_offset + row;
		uint64_t size;
		uint8_t *bytes;

		if (column->form == WEIR_DICTIONARY) {
			array = column->dictionary->nested;
			place = ((const uint32_t *)column->values)[row];
		} else if (column->form == WEIR_CONSTANT) {
			place = column->nested_offset;
		}
		if (!weir_column_valid(column, row) || !weir_array_is_valid(array, place))
			continue;
		size = weir_nested_size(array, place);
		if (size > UINT32_MAX)
			return weir_error_set(err, WEIR_E_LIMIT, "a nested value of %llu bytes is too large for a row",
					      (unsigned long long)size);
		bytes = weir_arena_alloc(&input->arena, size, err);
		if (!bytes)
			return err->code;
		weir_nested_write(array, place, bytes);
		views[row] = weir_view_make(bytes, (uint32_t)size);
		validity[row >> 6] |= (uint64_t)1 << (row & 63);
	}
	out->values = (const uint8_t *)views;
	out->validity = validity;
	return WEIR_OK;
}

static int take_bits(struct weir_row_input *input, const uint64_t *bits, uint32_t row_count,
		     struct weir_row_column *out, struct weir_error *err)
{
	uint8_t *bytes = weir_arena_alloc(&input->arena, row_count + 8, err);

	if (!bytes)
		return err->code;
	for (uint32_t i = 0; i < row_count; i++)
		bytes[i] = bit_of(bits, i);
	out->values = bytes;
	return WEIR_OK;
}

/* Where some value is NaN, a copy with one NaN for all. */
#define SETTLE(name, type, is_nan, nan)                                                                                \
	static int name(struct weir_row_input *input, uint32_t row_count, struct weir_row_column *out,                 \
			struct weir_error *err)                                                                        \
	{                                                                                                              \
		const type *from = (const type *)out->values;                                                          \
		bool any = false;                                                                                      \
		type *to;                                                                                              \
                                                                                                                       \
		for (uint32_t i = 0; i < row_count; i++)                                                               \
			any |= is_nan(from[i]);                                                                        \
		if (!any)                                                                                              \
			return WEIR_OK;                                                                                \
		to = weir_arena_alloc(&input->arena, row_count * sizeof(*to), err);                                    \
		if (!to)                                                                                               \
			return err->code;                                                                              \
		for (uint32_t i = 0; i < row_count; i++)                                                               \
			to[i] = is_nan(from[i]) ? (nan) : from[i];                                                     \
		out->values = (const uint8_t *)to;                                                                     \
		return WEIR_OK;                                                                                        \
	}
#define IS_NAN_64(bits) (((bits)&INT64_MAX) > 0x7ff0000000000000)
#define IS_NAN_32(bits) (((bits)&INT32_MAX) > 0x7f800000)
#define IS_NAN_16(bits) (((bits)&0x7fff) > 0x7c00)
SETTLE(settle_doubles, uint64_t, IS_NAN_64, 0x7ff8000000000000u)
SETTLE(settle_floats, uint32_t, IS_NAN_32, 0x7fc00000u)
SETTLE(settle_halves, uint16_t, IS_NAN_16, 0x7e00u)

/* ---- hashes ---- */

static uint64_t word_of_bytes(const struct weir_view *view)
{
	return weir_hash_bytes(weir_view_bytes(view), view->size, 0);
}

static uint64_t word_of_wide(const uint8_t *value, uint32_t width)
{
	uint64_t halves[2];

	if (width != 16)
		return weir_hash_bytes(value, width, 0);
	memcpy(halves, value, 16);
	return halves[0] ^ weir_hash_u64(halves[1]);
}

/* The word of one value as cells have it. */
static uint64_t word_of(const struct weir_row_cell *cell, const uint8_t *value)
{
	bool is_signed = cell->type->id != WEIR_BOOL && !weir_type_is_float(cell->type) &&
			 (!weir_type_is_integer(cell->type) || weir_type_is_signed(cell->type)) &&
			 cell->type->id != WEIR_FIXED_BINARY;
	uint64_t word = 0;

	if (cell->has_bytes)
		return word_of_bytes((const struct weir_view *)value);
	if (cell->width != 1 && cell->width != 2 && cell->width != 4 && cell->width != 8)
		return cell->width ? word_of_wide(value, cell->width) : word_null;
	memcpy(&word, value, cell->width);
	if (is_signed && cell->width < 8)
		word = (uint64_t)((int64_t)(word << (64 - 8 * cell->width)) >> (64 - 8 * cell->width));
	return word;
}

static void fold_any(const struct weir_row_input *input, const struct weir_row_cell *cell,
		     const struct weir_row_column *column)
{
	uint32_t stride = cell->width;

	for (uint32_t i = 0; i < input->count; i++) {
		uint32_t row = weir_row_input_row(input, i);
		bool valid = stride && (!column->validity || bit_of(column->validity, row));

		input->hashes[i] = weir_hash_u64(
			input->hashes[i] ^ (valid ? word_of(cell, column->values + (size_t)row * stride) : word_null));
	}
}

#define FOLD(name, type, wide)                                                                                         \
	static void name(const struct weir_row_input *input, const uint8_t *values)                                    \
	{                                                                                                              \
		const type *from = (const type *)values;                                                               \
                                                                                                                       \
		if (input->rows)                                                                                       \
			for (uint32_t i = 0; i < input->count; i++)                                                    \
				input->hashes[i] = weir_hash_u64(input->hashes[i] ^                                    \
								 (uint64_t)(wide)from[input->rows[i]]);                \
		else                                                                                                   \
			for (uint32_t i = 0; i < input->count; i++)                                                    \
				input->hashes[i] = weir_hash_u64(input->hashes[i] ^ (uint64_t)(wide)from[i]);          \
	}
FOLD(fold_i32, int32_t, int64_t)
FOLD(fold_u32, uint32_t, uint64_t)
FOLD(fold_64, uint64_t, uint64_t)

static void fold_views(const struct weir_row_input *input, const struct weir_view *views)
{
	for (uint32_t i = 0; i < input->count; i++)
		input->hashes[i] = weir_hash_u64(input->hashes[i] ^
						 word_of_bytes(&views[weir_row_input_row(input, i)]));
}

static void fold(const struct weir_row_input *input, const struct weir_row_cell *cell,
		 const struct weir_row_column *column)
{
	bool is_float = weir_type_is_float(cell->type);

	if (column->validity || (cell->type->layout != WEIR_LAYOUT_FIXED && !cell->has_bytes))
		fold_any(input, cell, column);
	else if (cell->has_bytes)
		fold_views(input, (const struct weir_view *)column->values);
	else if (cell->width == 8)
		fold_64(input, column->values);
	else if (cell->width == 4 && !is_float &&
		 (!weir_type_is_integer(cell->type) || weir_type_is_signed(cell->type)) &&
		 cell->type->id != WEIR_FIXED_BINARY)
		fold_i32(input, column->values);
	else if (cell->width == 4)
		fold_u32(input, column->values);
	else
		fold_any(input, cell, column);
}

/* Words of a dictionary's values, once for each dictionary. */
static int fold_codes(struct weir_row_input *input, uint32_t c, const struct weir_column *column,
		      struct weir_error *err)
{
	const struct weir_row_cell *cell = &input->layout->cells[c];
	const struct weir_dictionary *dictionary = column->dictionary;
	struct weir_row_words *cached = &input->words[c];
	const uint32_t *codes = column->values;

	if (!cached->words || cached->id != dictionary->id || cached->count < dictionary->count) {
		weir_free(input->account, cached->words, cached->count * sizeof(uint64_t));
		*cached = (struct weir_row_words){0};
		cached->words = weir_alloc(input->account, dictionary->count * sizeof(uint64_t), err);
		if (!cached->words)
			return err->code;
		cached->count = dictionary->count;
		cached->id = dictionary->id;
		for (uint32_t i = 0; i < dictionary->count; i++) {
			const uint8_t *value = (const uint8_t *)dictionary->values + (size_t)i * cell->width;
			uint64_t settled = 0;

			if (weir_type_is_float(cell->type)) {
				memcpy(&settled, value, cell->width);
				if (cell->width == 8   ? IS_NAN_64(settled)
				    : cell->width == 4 ? IS_NAN_32(settled)
						       : IS_NAN_16(settled))
					settled = cell->width == 8   ? 0x7ff8000000000000u
						  : cell->width == 4 ? 0x7fc00000u
								     : 0x7e00u;
				value = (const uint8_t *)&settled;
			}
			cached->words[i] = word_of(cell, value);
		}
	}
	if (!column->validity && !input->rows)
		for (uint32_t i = 0; i < input->count; i++)
			input->hashes[i] = weir_hash_u64(input->hashes[i] ^ cached->words[codes[i]]);
	else
		for (uint32_t i = 0; i < input->count; i++) {
			uint32_t row = weir_row_input_row(input, i);
			bool valid = !column->validity || bit_of(column->validity, row);

			input->hashes[i] = weir_hash_u64(input->hashes[i] ^
							 (valid ? cached->words[codes[row]] : word_null));
		}
	return WEIR_OK;
}

/* A column as cells are made of it; its hash goes in on the way. */
static int take_column(struct weir_row_input *input, struct weir_vector *vector, uint32_t number, uint32_t c,
		       bool with_hash, struct weir_error *err)
{
	const struct weir_row_cell *cell = &input->layout->cells[c];
	struct weir_row_column *out = &input->columns[c];
	struct weir_column column;
	bool is_key = c < input->layout->key_count, folded = false;
	int code = number == UINT32_MAX ? WEIR_OK : weir_column_decode(vector, number, err);

	if (code)
		return code;
	*out = (struct weir_row_column){0};
	if (number != UINT32_MAX)
		column = vector->columns[number];
	if (number == UINT32_MAX || cell->type->layout == WEIR_LAYOUT_NULL) {
		uint64_t *none = weir_arena_alloc_zero(&input->arena, vector->row_count / 8 + 16, err);

		out->validity = none;
		if (!none)
			return err->code;
	} else if (cell->type->layout == WEIR_LAYOUT_NESTED) {
		code = take_nested(input, &column, vector->row_count, out, err);
	} else {
		/* Of numbers there may be more in a dictionary than are ever asked for. */
		if (is_key && with_hash && column.form == WEIR_DICTIONARY && cell->type->layout != WEIR_LAYOUT_BITS &&
		    (cell->has_bytes || column.dictionary->count <= WORDS_MAX)) {
			code = fold_codes(input, c, &column, err);
			folded = true;
		}
		if (!code)
			code = weir_column_flatten(&column, &vector->selection, vector->row_count, &input->arena, err);
		out->values = column.values;
		out->validity = column.validity;
		if (!code && cell->type->layout == WEIR_LAYOUT_BITS)
			code = take_bits(input, column.values, vector->row_count, out, err);
		if (!code && is_key && cell->type->id == WEIR_DOUBLE)
			code = settle_doubles(input, vector->row_count, out, err);
		if (!code && is_key && cell->type->id == WEIR_FLOAT)
			code = settle_floats(input, vector->row_count, out, err);
		if (!code && is_key && cell->type->id == WEIR_HALF)
			code = settle_halves(input, vector->row_count, out, err);
	}
	if (!code && is_key && with_hash && !folded)
		fold(input, cell, out);
	return code;
}

static int count_bytes(struct weir_row_input *input, struct weir_error *err)
{
	const struct weir_row_layout *layout = input->layout;

	input->bytes = NULL;
	if (!layout->has_bytes)
		return WEIR_OK;
	input->bytes = weir_arena_alloc_zero(&input->arena, (input->count + 1) * sizeof(uint64_t), err);
	if (!input->bytes)
		return err->code;
	for (uint32_t c = 0; c < layout->cell_count; c++) {
		const struct weir_row_column *column = &input->columns[c];
		const struct weir_view *views = (const struct weir_view *)column->values;

		if (!layout->cells[c].has_bytes)
			continue;
		for (uint32_t i = 0; i < input->count; i++) {
			uint32_t row = weir_row_input_row(input, i);

			if ((!column->validity || bit_of(column->validity, row)) && views[row].size > WEIR_VIEW_INLINE)
				input->bytes[i] += views[row].size;
		}
	}
	return WEIR_OK;
}

int weir_row_input_take(struct weir_row_input *input, struct weir_vector *vector, const uint32_t *numbers,
			bool with_hash, struct weir_error *err)
{
	int code = WEIR_OK;

	weir_arena_clear(&input->arena);
	input->count = vector->selection.count;
	input->rows = vector->selection.rows;
	input->hashes = NULL;
	if (with_hash) {
		input->hashes = weir_arena_alloc_aligned(&input->arena, (input->count + 1) * sizeof(uint64_t), err);
		if (!input->hashes)
			return err->code;
		for (uint32_t i = 0; i < input->count; i++)
			input->hashes[i] = hash_first;
	}
	for (uint32_t c = 0; c < input->layout->cell_count && !code; c++)
		code = take_column(input, vector, numbers[c], c, with_hash, err);
	return code ? code : count_bytes(input, err);
}
