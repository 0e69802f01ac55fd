/* Few numbers in order: what order.c ends with, compiled once per CPU level (kernels_order.c). */
#ifndef WEIR_OPS_EXCHANGE_ORDER_IMPL_H
#define WEIR_OPS_EXCHANGE_ORDER_IMPL_H

#include <stddef.h>
#include <stdint.h>

struct weir_order_kernels {
	uint32_t few;       /* numbers that a part may have to be put in order at once */
	uint32_t part_bits; /* parts had better have about 2^part_bits of them */
	/* Parts follow each other, and no number of one is greater than one of the next: part i ends in front of
	 * from[ends[i]]. None has more than `few`. They are ascending in `to`, which may be `from`. */
	void (*order_parts)(const uint64_t *from, uint64_t *to, const uint32_t *ends, uint32_t parts);
};

#endif
