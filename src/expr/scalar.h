/* scalar: single values of any non-nested type, between literals, constant columns and bounds. */
#ifndef WEIR_EXPR_SCALAR_H
#define WEIR_EXPR_SCALAR_H

#include "arrow/value.h"
#include "expr/expr.h"

enum { WEIR_SCALAR_STORE_MAX = 32 };

/* The value as it lies in a column: at most 32 bytes, except FIXED_BINARY, which the caller takes from `bytes`. */
void weir_scalar_store(const struct weir_scalar *value, void *out);
/* Row `row` of a decoded column; bytes are borrowed from it. */
void weir_scalar_load(const struct weir_column *column, uint32_t row, struct weir_scalar *out);
/* < 0, 0, > 0 for two of one type, neither null; 2 when unordered (NaN). */
int weir_scalar_compare(const struct weir_scalar *a, const struct weir_scalar *b);
int weir_scalar_parse(const struct weir_type *type, const char *text, size_t size, struct weir_scalar *out,
		      struct weir_error *err);
int weir_scalar_print(const struct weir_scalar *value, struct weir_text *out, struct weir_error *err);

int weir_view_compare(const struct weir_view *a, const struct weir_view *b);
static inline bool weir_view_equal(const struct weir_view *a, const struct weir_view *b)
{
	uint64_t head_a, head_b, tail_a, tail_b;

	__builtin_memcpy(&head_a, a, 8);
	__builtin_memcpy(&head_b, b, 8);
	if (head_a != head_b)
		return false;
	if (a->size <= WEIR_VIEW_INLINE) {
		__builtin_memcpy(&tail_a, a->tail, 8);
		__builtin_memcpy(&tail_b, b->tail, 8);
		return tail_a == tail_b;
	}
	return a->data == b->data || !__builtin_memcmp(a->data, b->data, a->size);
}

#endif
