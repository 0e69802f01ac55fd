#include "ops/exchange/direct.h"

#include <string.h>

void weir_direct_forget(struct weir_direct *direct)
{
	memset(direct->rows, 0, direct->size * sizeof(*direct->rows));
	direct->size = 0;
}

/* Whether the keys are codes of few values, and the same dictionaries as before; else they are from now on. */
static bool settle(struct weir_direct *direct, const struct weir_vector *vector, const uint32_t *keys,
		   uint32_t key_count)
{
	bool same = direct->size > 0;
	uint64_t size = 1;

	if (!key_count || key_count > WEIR_DIRECT_KEYS)
		return false;
	for (uint32_t k = 0; k < key_count; k++) {
		const struct weir_column *column = &vector->columns[keys[k]];

		if (column->form != WEIR_DICTIONARY)
			return false;
		size *= (uint64_t)column->dictionary->count + 1;
		if (size > WEIR_DIRECT_MAX)
			return false;
		same = same && column->dictionary->id == direct->ids[k] &&
		       column->dictionary->count == direct->counts[k];
	}
	if (same)
		return true;
	weir_direct_forget(direct);
	for (uint32_t k = 0; k < key_count; k++) {
		direct->ids[k] = vector->columns[keys[k]].dictionary->id;
		direct->counts[k] = vector->columns[keys[k]].dictionary->count;
	}
	direct->size = (uint32_t)size;
	return true;
}

static inline uint32_t code_of(const struct weir_column *column, uint32_t row, uint32_t count)
{
	bool valid = !column->validity || column->validity[row >> 6] >> (row & 63) & 1;

	return valid ? ((const uint32_t *)column->values)[row] : count;
}

bool weir_direct_find(struct weir_direct *direct, const struct weir_vector *vector, const uint32_t *keys,
		      uint32_t key_count)
{
	static uint8_t *const waiting = (uint8_t *)1;
	const struct weir_selection *selection = &vector->selection;
	uint32_t *numbers = direct->numbers;

	if (!settle(direct, vector, keys, key_count))
		return false;
	for (uint32_t k = 0; k < key_count; k++) {
		const struct weir_column *column = &vector->columns[keys[k]];
		const uint32_t *codes = column->values;
		uint32_t count = direct->counts[k];

		if (k == 0 && !column->validity && !selection->rows)
			memcpy(numbers, codes, selection->count * sizeof(*codes));
		else
			for (uint32_t i = 0; i < selection->count; i++) {
				uint32_t row = selection->rows ? selection->rows[i] : i;

				numbers[i] = (k ? numbers[i] * (count + 1) : 0) + code_of(column, row, count);
			}
	}
	direct->missing_count = 0;
	for (uint32_t i = 0; i < selection->count; i++) {
		if (__builtin_expect(direct->rows[numbers[i]] != NULL, 1))
			continue;
		direct->rows[numbers[i]] = waiting; /* for whoever asked first */
		direct->missing[direct->missing_count] = selection->rows ? selection->rows[i] : (uint16_t)i;
		direct->missing_numbers[direct->missing_count++] = numbers[i];
	}
	return true;
}

void weir_direct_take(const struct weir_direct *direct, uint32_t count, uint8_t **rows)
{
	for (uint32_t i = 0; i < count; i++)
		rows[i] = direct->rows[direct->numbers[i]];
}
