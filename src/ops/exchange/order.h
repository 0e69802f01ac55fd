/* order: in which order a list of keys comes, as numbers of rows. Stable: equal keys stay as they were. */
#ifndef WEIR_OPS_EXCHANGE_ORDER_H
#define WEIR_OPS_EXCHANGE_ORDER_H

#include "ops/exchange/keys.h"

/* What weir_key_order needs of memory for so many keys, besides `rows`. */
size_t weir_key_order_bytes(size_t count);
/* rows[0 … count) become the numbers of the keys in ascending order. At most 2^32 − 1 keys. */
int weir_key_order(const struct weir_key_list *keys, struct weir_account *account, uint32_t *rows,
		   struct weir_error *err);

#endif
