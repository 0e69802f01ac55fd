/* Every kernel of the Parquet reader against a loop that takes one value at a time, for every width and many lengths.
 * Run once per CPU level. */
#include "format/parquet/delta_impl.h"
#include "format/parquet/kernels_impl.h"
#include "format/parquet/rle_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

enum { COUNT = 300, ROOM = COUNT + 2 * PARQUET_SLACK };

static void random_bytes(uint8_t *out, size_t size)
{
	for (size_t i = 0; i < size; i++)
		out[i] = (uint8_t)random_next();
}

static uint64_t bits_at(const uint8_t *in, uint64_t bit, uint32_t width)
{
	uint64_t value = 0;

	for (uint32_t b = 0; b < width; b++)
		value |= (uint64_t)(in[(bit + b) >> 3] >> ((bit + b) & 7) & 1) << b;
	return value;
}

static bool bit_get(const uint64_t *bits, uint32_t at)
{
	return bits[at >> 6] >> (at & 63) & 1;
}

static void test_unpack(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint8_t in[COUNT * 8 + PARQUET_PAD];
	static uint32_t out[ROOM];
	static uint64_t wide[ROOM];

	(void)state;
	for (uint32_t width = 0; width <= 64; width++) {
		for (uint32_t count = 0; count <= COUNT; count += 1 + count / 3) {
			random_bytes(in, sizeof(in));
			kernels->unpack64(in, width, count, wide);
			for (uint32_t i = 0; i < count; i++)
				assert_int_equal(wide[i], bits_at(in, (uint64_t)i * width, width));
			if (width > 32)
				continue;
			kernels->unpack32(in, width, count, out);
			for (uint32_t i = 0; i < count; i++)
				assert_int_equal(out[i], bits_at(in, (uint64_t)i * width, width));
		}
	}
}

static void test_spread_and_gather(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint8_t packed[ROOM * 16 + 1], out[ROOM * 16], values[64 * 16];
	static uint32_t codes[ROOM];
	uint64_t valid[ROOM / 64 + 2];

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t count = (uint32_t)(random_next() % COUNT), log2 = round % 5, width = 1u << log2, rank = 0;
		const uint8_t *from = packed + round % 2; /* pages are not aligned */

		random_bytes(packed, sizeof(packed));
		random_bytes(values, sizeof(values));
		for (size_t i = 0; i < sizeof(valid) / 8; i++)
			valid[i] = round % 7 == 0 ? UINT64_MAX : round % 7 == 1 ? 0 : random_next() & random_next();
		kernels->spread[log2](valid, count, from, out);
		for (uint32_t i = 0; i < count; i++)
			if (bit_get(valid, i))
				assert_memory_equal(out + (size_t)i * width, from + (size_t)rank++ * width, width);
		for (uint32_t i = 0; i < count; i++)
			codes[i] = (uint32_t)(random_next() % 64);
		kernels->gather[log2](values, codes, count, out);
		for (uint32_t i = 0; i < count; i++)
			assert_memory_equal(out + (size_t)i * width, values + (size_t)codes[i] * width, width);
	}
}

static void test_bits(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	uint64_t in[ROOM / 64 + 4], out[ROOM / 64 + 4], valid[ROOM / 64 + 4], before[ROOM / 64 + 4];

	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		uint32_t count = (uint32_t)(random_next() % COUNT), from = (uint32_t)(random_next() % 80), ones = 0,
			 rank = 0;
		uint32_t to = (uint32_t)(random_next() % 80);

		random_bytes((uint8_t *)in, sizeof(in));
		random_bytes((uint8_t *)out, sizeof(out));
		random_bytes((uint8_t *)valid, sizeof(valid));
		memcpy(before, out, sizeof(out));
		kernels->copy_bits((const uint8_t *)in, from, count, out, to);
		for (uint32_t i = 0; i < to; i++)
			assert_int_equal(bit_get(out, i), bit_get(before, i));
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(bit_get(out, to + i), bit_get(in, from + i));
		for (uint32_t i = 0; i < count; i++)
			ones += bit_get(valid, i);
		assert_int_equal(kernels->count_bits(valid, count), ones);
		kernels->spread_bits(valid, count, in, out);
		for (uint32_t i = 0; i < count; i++)
			if (bit_get(valid, i))
				assert_int_equal(bit_get(out, i), bit_get(in, rank++));
	}
}

static void test_views(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint8_t page[COUNT * 50 + PARQUET_PAD];
	static struct weir_view views[ROOM];

	(void)state;
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t count = 1 + (uint32_t)(random_next() % COUNT), at = 0;

		random_bytes(page, sizeof(page));
		for (uint32_t i = 0; i < count; i++) {
			uint32_t size = (uint32_t)(random_next() % (round % 2 ? 14 : 46));

			memcpy(page + at, &size, 4);
			at += 4 + size;
		}
		assert_ptr_equal(kernels->views(page, page + at, count, views), page + at);
		assert_ptr_equal(kernels->views_skip(page, page + at, count), page + at);
		for (uint32_t i = 0, place = 0; i < count; i++) {
			struct weir_view same;
			uint32_t size;

			memcpy(&size, page + place, 4);
			same = weir_view_make(page + place + 4, size);
			assert_memory_equal(&views[i], &same, sizeof(same));
			place += 4 + size;
		}
		assert_true(kernels->lengths_max(page, page + at) <= 46);
		assert_int_equal(kernels->lengths_max(page, page + at - 1), UINT32_MAX);
		/* A page one byte short. */
		assert_null(kernels->views(page, page + at - 1, count, views));
		assert_null(kernels->views_skip(page, page + at - 1, count));
		assert_null(kernels->views(page, page + at, count + 1, views));
	}
}

static void test_ascii_and_streams(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint8_t in[2000], out[2000];
	static const uint32_t widths[] = {1, 2, 3, 4, 5, 8, 12, 16};

	(void)state;
	memset(in, 'a', sizeof(in));
	for (size_t size = 0; size < 700; size += 1 + size / 9) {
		assert_true(kernels->is_ascii(in, size));
		for (size_t at = 0; at < size; at++) {
			in[at] = 0x80;
			assert_false(kernels->is_ascii(in, size));
			in[at] = 'a';
		}
	}
	random_bytes(in, sizeof(in));
	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
		uint32_t count = 100, width = widths[w];

		kernels->join_streams(in, count + 3, width, count, out);
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t b = 0; b < width; b++)
				assert_int_equal(out[i * width + b], in[b * (count + 3) + i]);
	}
}

static void test_max_fill_and_sums(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint32_t values[ROOM];
	static uint64_t deltas[ROOM], sums[ROOM];

	(void)state;
	for (uint32_t count = 0; count < COUNT; count++) {
		uint64_t last = random_next(), sum = last, min = random_next();
		uint32_t max = 0;

		for (uint32_t i = 0; i < count; i++) {
			values[i] = (uint32_t)random_next();
			max = values[i] > max ? values[i] : max;
			deltas[i] = sums[i] = random_next();
		}
		assert_int_equal(kernels->max32(values, count), max);
		kernels->fill32(values, count, 17);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(values[i], 17);
		kernels->sum_deltas(sums, count, min, &last);
		for (uint32_t i = 0; i < count; i++) {
			sum += deltas[i] + min;
			assert_int_equal(sums[i], sum);
		}
		assert_int_equal(last, sum);
	}
}

/* A hybrid of runs and groups, written here, read in pieces of all sizes, some skipped. */
static void test_hybrid(void **state)
{
	const struct parquet_kernels *kernels = parquet_kernels_choose();
	static uint8_t bytes[1 << 16];
	static uint32_t want[1 << 13], got[(1 << 13) + PARQUET_SLACK];

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		uint32_t width = 1 + round % 32, size = 0, count = 0, at = 0;
		uint64_t limit = (uint64_t)1 << width;
		struct parquet_rle rle;

		memset(bytes, 0, sizeof(bytes));
		while (count < 2000) {
			uint32_t some = 1 + (uint32_t)(random_next() % 40), value = (uint32_t)(random_next() % limit);

			if (random_next() % 2) { /* a run */
				bytes[size++] = (uint8_t)(some << 1);
				memcpy(bytes + size, &value, (width + 7) / 8);
				size += (width + 7) / 8;
				for (uint32_t i = 0; i < some; i++)
					want[count++] = value;
			} else { /* groups of eight */
				uint32_t groups = 1 + some % 9;

				bytes[size++] = (uint8_t)(groups << 1 | 1);
				for (uint32_t i = 0; i < groups * 8; i++) {
					value = (uint32_t)(random_next() % limit);
					want[count++] = value;
					for (uint32_t b = 0; b < width; b++)
						bytes[size + ((i * width + b) >> 3)] |=
							(uint8_t)((value >> b & 1) << ((i * width + b) & 7));
				}
				size += groups * width;
			}
		}
		parquet_rle_init(&rle, bytes, bytes + size, width);
		while (at < count) {
			uint32_t some = 1 + (uint32_t)(random_next() % 100);

			some = some < count - at ? some : count - at;
			if (random_next() % 3 == 0) {
				assert_int_equal(parquet_rle_skip(&rle, some), some);
			} else if (width == 1 && random_next() % 2) {
				uint64_t bits[4];
				uint32_t ones, counted = 0;

				assert_int_equal(parquet_rle_read_bits(&rle, kernels, some, bits, &ones), some);
				for (uint32_t i = 0; i < some; i++) {
					assert_int_equal(bit_get(bits, i), want[at + i]);
					counted += want[at + i];
				}
				assert_int_equal(ones, counted);
			} else {
				assert_int_equal(parquet_rle_read(&rle, kernels, some, got), some);
				assert_memory_equal(got, want + at, some * 4);
			}
			at += some;
		}
		assert_int_equal(parquet_rle_read(&rle, kernels, 100, got), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unpack),
		cmocka_unit_test(test_spread_and_gather),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_ascii_and_streams),
		cmocka_unit_test(test_max_fill_and_sums),
		cmocka_unit_test(test_hybrid),
	};

	random_state = 7;
	return cmocka_run_group_tests_name("parquet kernels", tests, NULL, NULL);
}
