/* order: in which order a list of keys comes, as numbers of rows. Stable: equal keys stay as they were. */
#ifndef WEIR_OPS_EXCHANGE_ORDER_H
#define WEIR_OPS_EXCHANGE_ORDER_H

#include "ops/exchange/keys.h"

/* Eight bytes of a key, as a number that orders like them, and where the key's row is. */
struct weir_windowed {
	uint64_t window;
	uint32_t row, source;
};

/* The keys of a source's rows from row_first on. */
struct weir_key_view {
	const struct weir_key_list *keys;
	int64_t row_first;
};

/* Which of `count` things a number is about that has been put in order: what its lowest bits say, so many of them. */
uint32_t weir_place_bits(size_t count);
static inline size_t weir_place_index(uint64_t place, uint32_t bits)
{
	return (size_t)(place & (((uint64_t)1 << bits) - 1));
}

/* places[0 … count) become those of the items in ascending order, of weir_place_bits(count): by their keys, all of
 * which are equal in their first `from` bytes; or by their windows alone. Stable. `spare` is as large as `places`. */
void weir_items_order(const struct weir_key_view *views, const struct weir_windowed *items, uint64_t *places,
		      uint64_t *spare, size_t count, uint32_t from);
void weir_windows_order(const struct weir_windowed *items, uint64_t *places, uint64_t *spare, size_t count);
/* Some of a list's keys: on entry places are their numbers, ascending; then as above, of
 * weir_place_bits(keys->count). */
void weir_key_places_order(const struct weir_key_list *keys, uint64_t *places, uint64_t *spare, size_t count);
/* Plain numbers, ascending. */
void weir_numbers_order(uint64_t *numbers, uint64_t *spare, size_t count);

/* What weir_key_order needs of memory for so many keys, besides `rows`. */
size_t weir_key_order_bytes(size_t count);
/* rows[0 … count) become the numbers of the keys in ascending order. At most 2^32 − 1 keys. */
int weir_key_order(const struct weir_key_list *keys, struct weir_account *account, uint32_t *rows,
		   struct weir_error *err);

#endif
