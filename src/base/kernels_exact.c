/* Vectors of the compiler's, as wide as the level's registers, and as many of them as make WEIR_EXACT_LANES. */
#include "base/kernels_exact.h"
#include "base/cpu.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 8 };
#elif defined(__AVX2__)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
enum { VECTORS = WEIR_EXACT_LANES / LANES };

typedef double reals __attribute__((vector_size(8 * LANES)));
typedef int64_t words __attribute__((vector_size(8 * LANES)));

static const int64_t magnitude_mask = INT64_MAX;

static uint64_t greatest(const double *values, uint32_t count)
{
	words most[VECTORS] = {0};
	int64_t greatest = 0;

	for (uint32_t i = 0; i < count; i += WEIR_EXACT_LANES) {
		for (uint32_t v = 0; v < VECTORS; v++) {
			words bits, is_greater;

			memcpy(&bits, values + i + v * LANES, sizeof(bits));
			bits &= magnitude_mask;
			is_greater = bits > most[v];
			most[v] = (bits & is_greater) | (most[v] & ~is_greater);
		}
	}
	for (uint32_t i = 0; i < WEIR_EXACT_LANES; i++) {
		int64_t bits = most[i / LANES][i % LANES];

		greatest = bits > greatest ? bits : greatest;
	}
	return (uint64_t)greatest;
}

static bool take(double *values, uint32_t count, double high, double low, double sums[2])
{
	reals first[VECTORS] = {0}, second[VECTORS] = {0};
	words left[VECTORS] = {0};
	int64_t any = 0;

	for (uint32_t i = 0; i < count; i += WEIR_EXACT_LANES) {
		for (uint32_t v = 0; v < VECTORS; v++) {
			double *at = values + i + v * LANES;
			reals value, part;
			words bits;

			memcpy(&value, at, sizeof(value));
			part = (value + high) - high;
			first[v] += part;
			value -= part;
			part = (value + low) - low;
			second[v] += part;
			value -= part;
			memcpy(&bits, &value, sizeof(bits));
			left[v] |= bits;
			memcpy(at, &value, sizeof(value));
		}
	}
	sums[0] = sums[1] = 0;
	for (uint32_t i = 0; i < WEIR_EXACT_LANES; i++) {
		sums[0] += first[i / LANES][i % LANES];
		sums[1] += second[i / LANES][i % LANES];
		any |= left[i / LANES][i % LANES];
	}
	return any & magnitude_mask;
}

extern const struct weir_exact_kernels WEIR_KERNEL(weir_exact_kernels);
const struct weir_exact_kernels WEIR_KERNEL(weir_exact_kernels) = {.greatest = greatest, .take = take};
