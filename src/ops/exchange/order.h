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

/* By their keys, stable. Windows are set here. All keys are equal in their first `from` bytes. `spare` is as large as `items`. */
void weir_windowed_order(const struct weir_key_view *views, struct weir_windowed *items, struct weir_windowed *spare,
			 size_t count, uint32_t from);
/* By their windows alone, stable. `spare` is as large as `items`. */
void weir_windows_order(struct weir_windowed *items, struct weir_windowed *spare, size_t count);

/* What weir_key_order needs of memory for so many keys, besides `rows`. */
size_t weir_key_order_bytes(size_t count);
/* rows[0 … count) become the numbers of the keys in ascending order. At most 2^32 − 1 keys. */
int weir_key_order(const struct weir_key_list *keys, struct weir_account *account, uint32_t *rows,
		   struct weir_error *err);

#endif
