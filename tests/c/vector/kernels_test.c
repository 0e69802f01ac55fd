/* Every kernel against a loop of one line, on random data, at all counts around the block sizes. */
#include "vector/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 88172645463325252u;

static uint64_t random_u64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static const uint32_t counts[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4095, 4096};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]), ROWS = WEIR_VECTOR_ROWS };

static bool bit(const uint64_t *bits, uint32_t i)
{
	return bits[i >> 6] >> (i & 63) & 1;
}

static void fill_bits(uint64_t *bits, unsigned density)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		bits[i >> 6] &= ~((uint64_t)1 << (i & 63));
		if (random_u64() % 100 < density)
			bits[i >> 6] |= (uint64_t)1 << (i & 63);
	}
}

static uint32_t random_rows(uint16_t *rows, uint32_t row_count, unsigned density)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < row_count; i++) {
		if (random_u64() % 100 < density)
			rows[count++] = (uint16_t)i;
	}
	return count;
}

static void test_selection(void **state)
{
	static const unsigned densities[] = {0, 1, 30, 70, 100};
	uint64_t keep[ROWS / 64], valid[ROWS / 64];
	uint16_t rows[ROWS], out[ROWS];

	(void)state;
	for (uint32_t c = 0; c < COUNTS; c++) {
		for (uint32_t d = 0; d < 25; d++) {
			uint32_t count = random_rows(rows, counts[c], densities[d / 5]), kept = 0, got;
			bool with_valid = d & 1;
			struct weir_selection all = {.count = counts[c]}, some = {.count = count, .rows = rows};

			fill_bits(keep, densities[d % 5]);
			fill_bits(valid, 80);
			got = weir_select_bits(&all, keep, with_valid ? valid : NULL, out);
			for (uint32_t i = 0; i < counts[c]; i++) {
				if (bit(keep, i) && (!with_valid || bit(valid, i))) {
					assert_true(kept < got);
					assert_int_equal(out[kept++], i);
				}
			}
			assert_int_equal(got, kept);
			got = weir_select_bits(&some, keep, with_valid ? valid : NULL, out);
			kept = 0;
			for (uint32_t k = 0; k < count; k++) {
				if (bit(keep, rows[k]) && (!with_valid || bit(valid, rows[k]))) {
					assert_true(kept < got);
					assert_int_equal(out[kept++], rows[k]);
				}
			}
			assert_int_equal(got, kept);
			/* In place. */
			assert_int_equal(weir_select_bits(&some, keep, with_valid ? valid : NULL, rows), kept);
			assert_memory_equal(rows, out, kept * sizeof(*rows));
		}
	}
}

static void test_select_writes_no_further_than_its_rows(void **state)
{
	uint64_t keep[ROWS / 64];
	uint16_t *out;

	(void)state;
	memset(keep, 0xff, sizeof(keep));
	for (uint32_t c = 0; c < COUNTS; c++) {
		uint32_t room = (counts[c] + 15) / 16 * 16;
		struct weir_selection all = {.count = counts[c]};

		out = malloc(room * 2 + 1);
		assert_int_equal(weir_select_bits(&all, keep, NULL, out), counts[c]);
		free(out);
	}
}

static void test_gather_and_lookup(void **state)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	static uint8_t values[ROWS * 32], out[ROWS * 32];
	static uint32_t codes[ROWS];
	uint64_t bits[ROWS / 64], bits_out[ROWS / 64];
	uint16_t rows[ROWS], rows_out[ROWS];

	(void)state;
	for (size_t i = 0; i < sizeof(values); i++)
		values[i] = (uint8_t)random_u64();
	fill_bits(bits, 50);
	for (uint32_t c = 0; c < COUNTS; c++) {
		uint32_t count = random_rows(rows, counts[c], 60), kept = 0;

		for (uint32_t i = 0; i < ROWS; i++)
			codes[i] = (uint32_t)(random_u64() % ROWS);
		for (uint32_t log2 = 0; log2 < WEIR_WIDTH_LOG2_COUNT; log2++) {
			size_t width = (size_t)1 << log2;

			kernels->gather[log2](out, values, rows, count);
			for (uint32_t k = 0; k < count; k++)
				assert_memory_equal(out + k * width, values + rows[k] * width, width);
			kernels->lookup[log2](out, values, codes, counts[c]);
			for (uint32_t i = 0; i < counts[c]; i++)
				assert_memory_equal(out + i * width, values + codes[i] * width, width);
		}
		kernels->gather_bits(bits_out, bits, rows, count);
		for (uint32_t k = 0; k < count; k++)
			assert_int_equal(bit(bits_out, k), bit(bits, rows[k]));
		for (uint32_t size = 1; size <= ROWS; size = size * 3 + 1) {
			uint32_t small[ROWS];

			for (uint32_t i = 0; i < ROWS; i++)
				small[i] = codes[i] % size;
			kernels->lookup_bits(bits_out, values, size, small, counts[c]);
			for (uint32_t i = 0; i < counts[c]; i++)
				assert_int_equal(bit(bits_out, i), values[small[i]] & 1);
		}
		uint32_t got = kernels->lookup_rows(values, codes, rows, count, rows_out);
		for (uint32_t k = 0; k < count; k++) {
			if (values[codes[rows[k]]] & 1)
				assert_int_equal(rows_out[kept++], rows[k]);
		}
		assert_int_equal(got, kept);
	}
}

static void test_bits(void **state)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	uint64_t a[ROWS / 64], b[ROWS / 64], out[ROWS / 64];

	(void)state;
	fill_bits(a, 50);
	fill_bits(b, 50);
	kernels->bits_and(out, a, b, ROWS / 64);
	for (uint32_t i = 0; i < ROWS; i++)
		assert_int_equal(bit(out, i), bit(a, i) && bit(b, i));
	kernels->bits_or(out, a, b, ROWS / 64);
	for (uint32_t i = 0; i < ROWS; i++)
		assert_int_equal(bit(out, i), bit(a, i) || bit(b, i));
	kernels->bits_and_not(out, a, b, ROWS / 64);
	for (uint32_t i = 0; i < ROWS; i++)
		assert_int_equal(bit(out, i), bit(a, i) && !bit(b, i));
	kernels->bits_not(out, a, ROWS / 64);
	for (uint32_t i = 0; i < ROWS; i++)
		assert_int_equal(bit(out, i), !bit(a, i));
}

static bool holds(int order, bool unordered, enum weir_comparison op)
{
	if (unordered)
		return op == WEIR_NE;
	switch (op) {
	case WEIR_EQ:
		return order == 0;
	case WEIR_NE:
		return order != 0;
	case WEIR_LT:
		return order < 0;
	case WEIR_LE:
		return order <= 0;
	case WEIR_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

/* Few distinct values, so that equality happens; the extremes and NaN among them. */
#define TEST_COMPARE(name, type, number, low, high, special)                                                           \
	static void test_compare_##name(void **state)                                                                  \
	{                                                                                                              \
		const struct weir_vector_kernels *kernels = weir_vector_kernels();                                     \
		static type a[ROWS], b[ROWS];                                                                          \
		uint64_t bits[ROWS / 64];                                                                              \
		uint16_t rows[ROWS], rows_out[ROWS];                                                                   \
		const type values[] = {low, high, special, 0, 1, 2, (type)-1, 100};                                    \
                                                                                                                       \
		(void)state;                                                                                           \
		for (uint32_t i = 0; i < ROWS; i++) {                                                                  \
			a[i] = values[random_u64() % 8];                                                               \
			b[i] = values[random_u64() % 8];                                                               \
		}                                                                                                      \
		for (uint32_t c = 0; c < COUNTS * 8; c++) {                                                            \
			uint32_t count = counts[c / 8], row_count = random_rows(rows, count, 50);                      \
			type constant = values[c % 8];                                                                 \
                                                                                                                       \
			for (int op = 0; op < WEIR_COMPARISON_COUNT; op++) {                                           \
				uint32_t kept = 0, got;                                                                \
                                                                                                                       \
				kernels->compare_constant[number][op](a, &constant, count, bits);                      \
				for (uint32_t i = 0; i < count; i++)                                                   \
					assert_int_equal(bit(bits, i),                                                 \
							 holds((a[i] > constant) - (a[i] < constant),                  \
							       a[i] != a[i] || constant != constant, op));             \
				kernels->compare_columns[number][op](a, b, count, bits);                               \
				for (uint32_t i = 0; i < count; i++)                                                   \
					assert_int_equal(bit(bits, i), holds((a[i] > b[i]) - (a[i] < b[i]),            \
									     a[i] != a[i] || b[i] != b[i], op));       \
				got = kernels->compare_rows[number][op](a, &constant, rows, row_count, rows_out);      \
				for (uint32_t k = 0; k < row_count; k++) {                                             \
					type v = a[rows[k]];                                                           \
                                                                                                                       \
					if (holds((v > constant) - (v < constant), v != v || constant != constant,     \
						  op))                                                                 \
						assert_int_equal(rows_out[kept++], rows[k]);                           \
				}                                                                                      \
				assert_int_equal(got, kept);                                                           \
			}                                                                                              \
		}                                                                                                      \
	}

TEST_COMPARE(i8, int8_t, WEIR_I8, INT8_MIN, INT8_MAX, 5)
TEST_COMPARE(i16, int16_t, WEIR_I16, INT16_MIN, INT16_MAX, 5)
TEST_COMPARE(i32, int32_t, WEIR_I32, INT32_MIN, INT32_MAX, 5)
TEST_COMPARE(i64, int64_t, WEIR_I64, INT64_MIN, INT64_MAX, 5)
TEST_COMPARE(u8, uint8_t, WEIR_U8, 0, UINT8_MAX, 5)
TEST_COMPARE(u16, uint16_t, WEIR_U16, 0, UINT16_MAX, 5)
TEST_COMPARE(u32, uint32_t, WEIR_U32, 0, UINT32_MAX, 5)
TEST_COMPARE(u64, uint64_t, WEIR_U64, 0, UINT64_MAX, 5)
TEST_COMPARE(f32, float, WEIR_F32, -INFINITY, INFINITY, NAN)
TEST_COMPARE(f64, double, WEIR_F64, -INFINITY, INFINITY, NAN)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_selection),         cmocka_unit_test(test_select_writes_no_further_than_its_rows),
		cmocka_unit_test(test_gather_and_lookup), cmocka_unit_test(test_bits),
		cmocka_unit_test(test_compare_i8),        cmocka_unit_test(test_compare_i16),
		cmocka_unit_test(test_compare_i32),       cmocka_unit_test(test_compare_i64),
		cmocka_unit_test(test_compare_u8),        cmocka_unit_test(test_compare_u16),
		cmocka_unit_test(test_compare_u32),       cmocka_unit_test(test_compare_u64),
		cmocka_unit_test(test_compare_f32),       cmocka_unit_test(test_compare_f64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
