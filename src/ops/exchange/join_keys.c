#include "ops/exchange/join_keys.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

bool weir_join_keys_are_words(const struct weir_key_columns *columns)
{
	const struct weir_type *type = columns->keys[0].type;

	if (columns->count != 1 || type->layout != WEIR_LAYOUT_FIXED || type->id == WEIR_HALF)
		return false;
	return type->byte_width == 1 || type->byte_width == 2 || type->byte_width == 4 || type->byte_width == 8;
}

void weir_join_keys_init(struct weir_join_keys *keys, struct weir_account *account,
			 const struct weir_key_columns *columns)
{
	keys->columns = columns;
	keys->is_word = weir_join_keys_are_words(columns);
	keys->count = 0;
	weir_key_list_init(&keys->list, account, columns->width);
}

void weir_join_keys_release(struct weir_join_keys *keys)
{
	weir_key_list_release(&keys->list);
}

/* The selected rows without those that have a null key. */
static int find_rows(struct weir_join_keys *keys, struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_selection *selection = &vector->selection;
	int code = WEIR_OK;

	keys->count = selection->count;
	if (selection->rows)
		memcpy(keys->rows, selection->rows, selection->count * sizeof(*keys->rows));
	else
		for (uint32_t i = 0; i < selection->count; i++)
			keys->rows[i] = (uint16_t)i;
	for (uint32_t k = 0; k < keys->columns->count && !code; k++) {
		const struct weir_column *column = &vector->columns[keys->columns->keys[k].column];
		uint32_t kept = 0;

		code = weir_column_decode(vector, keys->columns->keys[k].column, err);
		if (code)
			break;
		if (keys->columns->keys[k].type->layout == WEIR_LAYOUT_NULL)
			keys->count = 0;
		if (!column->validity)
			continue;
		for (uint32_t i = 0; i < keys->count; i++) {
			keys->rows[kept] = keys->rows[i];
			kept += weir_column_valid(column, keys->rows[i]);
		}
		keys->count = kept;
	}
	return code;
}

/* Signed ones stay in their order when they are widened. */
static inline uint64_t word_at(const void *values, uint32_t width, bool is_signed, uint32_t place)
{
	if (is_signed && width < 8)
		return width == 1   ? (uint64_t)((const int8_t *)values)[place]
		       : width == 2 ? (uint64_t)((const int16_t *)values)[place]
				    : (uint64_t)((const int32_t *)values)[place];
	switch (width) {
	case 1:
		return ((const uint8_t *)values)[place];
	case 2:
		return ((const uint16_t *)values)[place];
	case 4:
		return ((const uint32_t *)values)[place];
	default:
		return ((const uint64_t *)values)[place];
	}
}

static inline __attribute__((always_inline)) void take_words(struct weir_join_keys *keys,
							     const struct weir_column *column, uint32_t width,
							     bool is_signed)
{
	const uint32_t *codes = column->form == WEIR_DICTIONARY ? column->values : NULL;
	const void *values = codes ? column->dictionary->values : column->values;

	if (codes) {
		for (uint32_t i = 0; i < keys->count; i++)
			keys->tags[i] = word_at(values, width, is_signed, codes[keys->rows[i]]);
	} else if (column->form == WEIR_CONSTANT) {
		for (uint32_t i = 0; i < keys->count; i++)
			keys->tags[i] = word_at(values, width, is_signed, 0);
	} else {
		for (uint32_t i = 0; i < keys->count; i++)
			keys->tags[i] = word_at(values, width, is_signed, keys->rows[i]);
	}
}

/* −0.0 is 0.0, and every NaN the same. */
static void settle_floats(struct weir_join_keys *keys, enum weir_type_id id)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		if (id == WEIR_DOUBLE) {
			double value;

			memcpy(&value, &keys->tags[i], sizeof(value));
			value = isnan(value) ? (double)NAN : value + 0.0;
			memcpy(&keys->tags[i], &value, sizeof(value));
		} else {
			uint32_t bits = (uint32_t)keys->tags[i];
			float value;

			memcpy(&value, &bits, sizeof(value));
			value = isnan(value) ? NAN : value + 0.0f;
			memcpy(&bits, &value, sizeof(value));
			keys->tags[i] = bits;
		}
	}
}

int weir_join_keys_take(struct weir_join_keys *keys, struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_key *key = &keys->columns->keys[0];
	const struct weir_column *column = &vector->columns[key->column];
	struct weir_vector chosen;
	bool is_signed;
	int code = find_rows(keys, vector, err);

	if (code || !keys->count)
		return code;
	if (!keys->is_word) {
		chosen = *vector;
		chosen.selection = (struct weir_selection){.count = keys->count, .rows = keys->rows};
		weir_key_list_clear(&keys->list);
		code = weir_key_list_push(&keys->list, keys->columns, &chosen, err);
		for (uint32_t i = 0; i < keys->count && !code; i++) {
			uint32_t size;
			const uint8_t *bytes = weir_key_at(&keys->list, i, &size);

			keys->tags[i] = keys->hashes[i] = weir_hash_bytes(bytes, size, 0);
		}
		return code;
	}
	is_signed = weir_type_is_integer(key->type) && weir_type_is_signed(key->type);
	switch (key->type->byte_width) {
	case 1:
		is_signed ? take_words(keys, column, 1, true) : take_words(keys, column, 1, false);
		break;
	case 2:
		is_signed ? take_words(keys, column, 2, true) : take_words(keys, column, 2, false);
		break;
	case 4:
		is_signed ? take_words(keys, column, 4, true) : take_words(keys, column, 4, false);
		break;
	default:
		take_words(keys, column, 8, false);
	}
	if (key->type->id == WEIR_DOUBLE || key->type->id == WEIR_FLOAT)
		settle_floats(keys, key->type->id);
	for (uint32_t i = 0; i < keys->count; i++)
		keys->hashes[i] = weir_hash_u64(keys->tags[i]);
	return WEIR_OK;
}
