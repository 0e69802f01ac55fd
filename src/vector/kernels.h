/* kernels: the loops over vectors that are compiled once per CPU level (base/cpu.h) and chosen from a table.
 *
 * Bit arrays are words of 64, row i is bit i % 64 of word i / 64. Writers of bits write whole words:
 * WEIR_BIT_WORDS(count) of them; bits past the last row are unspecified. Values past `count` are never read.
 */
#ifndef WEIR_VECTOR_KERNELS_H
#define WEIR_VECTOR_KERNELS_H

#include "vector/vector.h"

#define WEIR_BIT_WORDS(count) (((count) + 63u) / 64u)

/* How numbers lie in memory, apart from what they mean: a date32 is an I32. */
enum weir_number {
	WEIR_I8,
	WEIR_I16,
	WEIR_I32,
	WEIR_I64,
	WEIR_U8,
	WEIR_U16,
	WEIR_U32,
	WEIR_U64,
	WEIR_F32,
	WEIR_F64,
	WEIR_NUMBER_COUNT
};
/* The number layout of a type, WEIR_NUMBER_COUNT when it has none (half, decimals, intervals, bytes, nested …). */
enum weir_number weir_type_number(const struct weir_type *type);

enum weir_comparison { WEIR_EQ, WEIR_NE, WEIR_LT, WEIR_LE, WEIR_GT, WEIR_GE, WEIR_COMPARISON_COUNT };

typedef void weir_compare_kernel(const void *a, const void *b, uint32_t count, uint64_t *bits);
typedef uint32_t weir_compare_rows_kernel(const void *a, const void *b, const uint16_t *rows, uint32_t count,
					  uint16_t *rows_out);

enum { WEIR_WIDTH_LOG2_COUNT = 6 }; /* 1, 2, 4, 8, 16, 32 bytes */

struct weir_vector_kernels {
	/* `out` may be an operand. */
	void (*bits_and)(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words);
	void (*bits_or)(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words);
	void (*bits_and_not)(uint64_t *out, const uint64_t *a, const uint64_t *b, uint32_t words); /* a & ~b */
	void (*bits_not)(uint64_t *out, const uint64_t *a, uint32_t words);

	/* The rows whose bit is set in `keep` and (unless NULL) in `valid`, ascending; of all rows, or of a list, which
	 * may be the output. rows_out has room for row_count rounded up to 16. */
	uint32_t (*select_all)(const uint64_t *keep, const uint64_t *valid, uint32_t row_count, uint16_t *rows_out);
	uint32_t (*select_rows)(const uint16_t *rows, uint32_t count, const uint64_t *keep, const uint64_t *valid,
				uint16_t *rows_out);

	/* out[k] = values[rows[k]], by the width's logarithm. */
	void (*gather[WEIR_WIDTH_LOG2_COUNT])(void *out, const void *values, const uint16_t *rows, uint32_t count);
	void (*gather_bits)(uint64_t *out, const uint64_t *bits, const uint16_t *rows, uint32_t count);
	/* out[i] = values[codes[i]] */
	void (*lookup[WEIR_WIDTH_LOG2_COUNT])(void *out, const void *values, const uint32_t *codes, uint32_t count);
	/* Bit i is bit 0 of table[codes[i]]; the table has `size` bytes. */
	void (*lookup_bits)(uint64_t *out, const uint8_t *table, uint32_t size, const uint32_t *codes, uint32_t count);
	/* The rows of the list for which bit 0 of table[codes[row]] is set. */
	uint32_t (*lookup_rows)(const uint8_t *table, const uint32_t *codes, const uint16_t *rows, uint32_t count,
				uint16_t *rows_out);

	/* a[i] op *b for all rows, a[i] op b[i], and the rows of a list for which a[row] op *b. */
	weir_compare_kernel *compare_constant[WEIR_NUMBER_COUNT][WEIR_COMPARISON_COUNT];
	weir_compare_kernel *compare_columns[WEIR_NUMBER_COUNT][WEIR_COMPARISON_COUNT];
	weir_compare_rows_kernel *compare_rows[WEIR_NUMBER_COUNT][WEIR_COMPARISON_COUNT];
};

const struct weir_vector_kernels *weir_vector_kernels(void);

#endif
