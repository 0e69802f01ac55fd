/* extremes: the least and the greatest of a column's values, and one such value kept. */
#ifndef WEIR_OPS_EXTREMES_H
#define WEIR_OPS_EXTREMES_H

#include "expr/scalar.h"

/* A value that outlives its vector. All-zero is none. */
struct weir_bound {
	bool known;
	struct weir_scalar value;
	uint8_t *bytes; /* owned copy of what value.bytes points to */
	size_t capacity;
};

/* Whether values of the type are bytes, of any length. */
bool weir_bound_has_bytes(const struct weir_type *type);
int weir_bound_set(struct weir_bound *bound, const struct weir_scalar *value, struct weir_account *account,
		   struct weir_error *err);
void weir_bound_release(struct weir_bound *bound, struct weir_account *account);

/* Places of the least and the greatest among the rows of a FLAT column (bits too), none of them null; count ≥ 1. False:
 * the type has no order, or all are NaN. */
bool weir_extremes(const struct weir_column *column, const uint32_t *rows, uint32_t count, uint32_t *least,
		   uint32_t *greatest);

#endif
