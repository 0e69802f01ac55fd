/* The writer's kernels against decoders written from the format's description, value by value, at each CPU level. */
#include "format/parquet/write_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static const struct parquet_encode_kernels *kernels;
static uint64_t read_varint(const uint8_t **at)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static uint64_t read_bits(const uint8_t *bytes, size_t bit, unsigned width)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < width; i++)
		value |= (uint64_t)(bytes[(bit + i) / 8] >> (bit + i) % 8 & 1) << i;
	return value;
}

static void check_hybrid(const uint8_t *encoded, size_t size, const uint32_t *values, size_t count, unsigned width)
{
	const uint8_t *at = encoded;
	size_t i = 0;

	while (i < count) {
		uint64_t header = read_varint(&at), n = header >> 1;

		if (header & 1) {
			for (uint64_t k = 0; k < n * 8; k++, i++)
				if (i < count)
					assert_int_equal(read_bits(at, k * width, width), values[i]);
			at += n * width;
		} else {
			uint64_t value = read_bits(at, 0, (width + 7) / 8 * 8);

			assert_true(n > 0 && i + n <= count);
			for (uint64_t k = 0; k < n; k++)
				assert_int_equal(value, values[i++]);
			at += (width + 7) / 8;
		}
	}
	assert_int_equal(at - encoded, size);
}

/* Runs of random lengths, so that runs and packed groups alternate in every way. */
static void fill_runs(uint32_t *values, size_t count, unsigned width, unsigned run_max)
{
	for (size_t i = 0; i < count;) {
		uint32_t value = (uint32_t)(random_next() & (width == 32 ? UINT32_MAX : (1u << width) - 1));
		size_t run = 1 + random_next() % run_max;

		for (; run > 0 && i < count; run--)
			values[i++] = value;
	}
}

static void test_hybrid(void **state)
{
	static const unsigned runs[] = {1, 3, 9, 20, 100, 2000};
	enum { COUNT_MAX = 2000 };
	uint32_t values[COUNT_MAX];
	uint8_t levels[COUNT_MAX], bits[COUNT_MAX / 8 + 8];
	uint8_t *out = malloc(parquet_hybrid_bound(COUNT_MAX, 32));

	(void)state;
	for (unsigned width = 1; width <= 32; width++)
		for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++)
			for (int round = 0; round < 8; round++) {
				size_t count = 1 + random_next() % COUNT_MAX;

				fill_runs(values, count, width, runs[r]);
				check_hybrid(out, kernels->hybrid_u32(values, count, width, out), values, count, width);
				if (width > 8)
					continue;
				for (size_t i = 0; i < count; i++)
					levels[i] = (uint8_t)values[i];
				check_hybrid(out, kernels->hybrid_u8(levels, count, width, out), values, count, width);
				if (width > 1)
					continue;
				memset(bits, 0, sizeof(bits));
				for (size_t i = 0; i < count; i++)
					bits[i / 8] |= (uint8_t)(values[i] << i % 8);
				check_hybrid(out, kernels->hybrid_bits(bits, count, out), values, count, 1);
			}
	free(out);
}

static void check_delta(const uint8_t *encoded, size_t size, const uint64_t *values, size_t count, uint64_t mask)
{
	const uint8_t *at = encoded;
	uint64_t block = read_varint(&at), minis = read_varint(&at), total = read_varint(&at),
		 zigzag = read_varint(&at);
	uint64_t value = (zigzag >> 1) ^ -(zigzag & 1);
	size_t i = 0;

	assert_int_equal(total, count);
	assert_true(block % 128 == 0 && block / minis % 32 == 0);
	if (count)
		assert_int_equal(value & mask, values[i++] & mask);
	while (i < count) {
		uint64_t least = read_varint(&at), per = block / minis;
		const uint8_t *widths = at;

		least = (least >> 1) ^ -(least & 1);
		at += minis;
		for (uint64_t m = 0; m < minis; m++) {
			if (i >= count)
				break;
			for (uint64_t k = 0; k < per; k++) {
				if (i == count)
					break;
				value += least + read_bits(at, k * widths[m], widths[m]);
				assert_int_equal(value & mask, values[i++] & mask);
			}
			at += per / 8 * widths[m];
		}
	}
	assert_int_equal(at - encoded, size);
}

static void test_delta(void **state)
{
	enum { COUNT_MAX = 700 };
	uint64_t values[COUNT_MAX];
	uint32_t narrow[COUNT_MAX];
	uint8_t *out = malloc(parquet_delta_bound(COUNT_MAX, 8));

	(void)state;
	for (unsigned width = 0; width <= 64; width++)
		for (int round = 0; round < 20; round++) {
			size_t count = random_next() % COUNT_MAX;

			for (size_t i = 0; i < count; i++) {
				values[i] = width ? random_next() >> (64 - width) : 7;
				if (round % 2 && i)
					values[i] += values[i - 1];
				narrow[i] = (uint32_t)values[i];
			}
			check_delta(out, kernels->delta8((const uint8_t *)values, count, out), values, count,
				    UINT64_MAX);
			check_delta(out, kernels->delta4((const uint8_t *)narrow, count, out), values, count,
				    UINT32_MAX);
		}
	free(out);
}

static void test_split_streams(void **state)
{
	enum { COUNT_MAX = 100 };
	uint8_t in[COUNT_MAX * 8], out[COUNT_MAX * 8];

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)random_next();
	for (size_t count = 0; count < COUNT_MAX; count++) {
		kernels->split_streams8(in, count, out);
		for (size_t i = 0; i < count * 8; i++)
			assert_int_equal(out[i % 8 * count + i / 8], in[i]);
		kernels->split_streams4(in, count, out);
		for (size_t i = 0; i < count * 4; i++)
			assert_int_equal(out[i % 4 * count + i / 4], in[i]);
	}
}

static void test_bits(void **state)
{
	enum { COUNT = 900 };
	uint64_t valid[WEIR_VECTOR_ROWS / 64], picked[WEIR_VECTOR_ROWS / 64];
	uint16_t rows[COUNT], present[COUNT + 1];

	(void)state;
	for (int round = 0; round < 50; round++) {
		size_t count = 0, n, expected = 0;

		for (size_t i = 0; i < WEIR_VECTOR_ROWS / 64; i++)
			valid[i] = random_next() & random_next();
		for (uint32_t row = 0; row < WEIR_VECTOR_ROWS && count < COUNT; row++)
			if (random_next() % 5 == 0)
				rows[count++] = (uint16_t)row;
		n = kernels->select_present(valid, rows, count, present);
		kernels->select_bits(valid, rows, count, picked);
		for (size_t i = 0; i < count; i++) {
			bool bit = valid[rows[i] / 64] >> rows[i] % 64 & 1;

			assert_int_equal(picked[i / 64] >> i % 64 & 1, bit);
			if (bit)
				assert_int_equal(present[expected++], rows[i]);
		}
		assert_int_equal(n, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_split_streams),
		cmocka_unit_test(test_bits),
	};

	kernels = parquet_encode_kernels_choose();
	random_state = 20261115;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
