/* kernels_exact: the loops of sums without rounding (exact.c), compiled once per CPU level. */
#ifndef WEIR_BASE_KERNELS_EXACT_H
#define WEIR_BASE_KERNELS_EXACT_H

#include <stdbool.h>
#include <stdint.h>

enum { WEIR_EXACT_LANES = 8 };

/* Counts are multiples of WEIR_EXACT_LANES. */
struct weir_exact_kernels {
	/* The bits of the greatest magnitude; those of infinities and NaN are greater than any number's. */
	uint64_t (*greatest)(const double *values, uint32_t count);
	/* Takes away from each value what adding it to `high` keeps of it, then what adding the rest to `low` keeps;
	 * both are powers of two. The sums of what was taken are in `sums`, and values hold what is left. False:
	 * nothing is. */
	bool (*take)(double *values, uint32_t count, double high, double low, double sums[2]);
};

#endif
