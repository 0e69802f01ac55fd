/* direct: groups of rows whose keys are codes of small dictionaries, found by number instead of by hash.
 *
 *     codes of the keys ─▶ one number ─▶ rows[number]        NULL: nobody has looked for it yet
 *
 * The numbers hold as long as the dictionaries stay the same, the rows as long as they lie where they are: forget both
 * when either changes. */
#ifndef WEIR_OPS_EXCHANGE_DIRECT_H
#define WEIR_OPS_EXCHANGE_DIRECT_H

#include "vector/vector.h"

enum { WEIR_DIRECT_KEYS = 4, WEIR_DIRECT_MAX = 1 << 14 };

struct weir_direct {
	uint64_t ids[WEIR_DIRECT_KEYS];    /* of the dictionaries */
	uint32_t counts[WEIR_DIRECT_KEYS]; /* their values; a null is one more */
	uint32_t size;                     /* numbers there are; 0: no dictionaries yet */
	uint32_t missing_count;
	uint8_t *rows[WEIR_DIRECT_MAX];
	uint32_t numbers[WEIR_VECTOR_ROWS]; /* of the vector's selected rows */
	uint16_t missing[WEIR_VECTOR_ROWS]; /* rows of the vector, one for each number that is not known */
	uint32_t missing_numbers[WEIR_VECTOR_ROWS];
};

void weir_direct_forget(struct weir_direct *direct);
/* The numbers of the vector's rows, whose columns `keys` are decoded; false: they have none. missing: a row for each
 * number whose place in `rows` has to be filled before take. */
bool weir_direct_find(struct weir_direct *direct, const struct weir_vector *vector, const uint32_t *keys,
		      uint32_t key_count);
/* rows[i] of each selected row. */
void weir_direct_take(const struct weir_direct *direct, uint32_t count, uint8_t **rows);

#endif
