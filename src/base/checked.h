/* checked: arithmetic on lengths that come from outside. Each is true when the result does NOT fit. */
#ifndef WEIR_BASE_CHECKED_H
#define WEIR_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define weir_add_overflows(a, b, out) __builtin_add_overflow((a), (b), (out))
#define weir_sub_overflows(a, b, out) __builtin_sub_overflow((a), (b), (out))
#define weir_mul_overflows(a, b, out) __builtin_mul_overflow((a), (b), (out))

/* True when [offset, offset + length) does not lie inside [0, size). */
static inline bool weir_range_outside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset > size || length > size - offset;
}

static inline size_t weir_round_up(size_t value, size_t power_of_two)
{
	return (value + power_of_two - 1) & ~(power_of_two - 1);
}

#endif
