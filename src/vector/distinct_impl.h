/* distinct: the different values of a column, numbered in the order in which they come.
 *
 *     init ─▶ (map, find) … ─▶ finish `values` ─▶ forget ─▶ again, or release
 *
 * Values are found by their hashes, with open addressing. Those of a vector's dictionary are looked for once: a table
 * says which of its codes have which number, as long as its id stays the same. Nested values are not compared: whoever
 * has them appends to `values` himself, and enters their numbers in `map`. Threads: one at a time. */
#ifndef WEIR_VECTOR_DISTINCT_IMPL_H
#define WEIR_VECTOR_DISTINCT_IMPL_H

#include "base/list.h"
#include "arrow/array.h"
#include "vector/vector.h"

struct weir_distinct {
	struct weir_builder values;
	struct WEIR_LIST(uint64_t) hashes; /* of the values */
	uint32_t *slots;                   /* value number + 1 */
	uint32_t slot_count;               /* a power of two, or 0 */
	uint64_t mapped_id;                /* of the dictionary that `map` is for; 0: none */
	uint32_t *map;                     /* its code → number + 1; 0: not met */
	uint32_t map_count;
};

int weir_distinct_init(struct weir_distinct *distinct, const struct weir_type *type, struct weir_account *account,
		       struct weir_error *err);
/* From here on `map` is the table of this dictionary. */
int weir_distinct_map(struct weir_distinct *distinct, const struct weir_dictionary *dictionary, struct weir_error *err);
/* The number of the value that lies at `at` in the values of a column or dictionary, as vectors have them. */
int weir_distinct_find(struct weir_distinct *distinct, const void *values, uint32_t at, uint32_t *out,
		       struct weir_error *err);
/* The next value is number 0 again; `values` is empty already. */
void weir_distinct_forget(struct weir_distinct *distinct);
void weir_distinct_release(struct weir_distinct *distinct);

#endif
