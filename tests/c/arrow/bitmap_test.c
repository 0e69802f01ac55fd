/* Runs of bits against a model of one byte a bit, at every alignment, in buffers without a byte to spare. */
#include "arrow/bitmap.h"
#include "support.h"

#include <stdlib.h>

#include "random.h"

enum { BITS = 200 };

/* Exactly as many bytes as the bits need: ASan sees a step too far. */
static uint8_t *random_bits(int64_t count, char *model, int percent)
{
	uint8_t *bits = calloc(1, weir_bits_size(count));

	for (int64_t i = 0; i < count; i++) {
		model[i] = random_next() % 100 < (uint64_t)percent;
		if (model[i])
			weir_bit_set(bits, i);
	}
	return bits;
}

static void test_against_a_model(void **state)
{
	char from_model[BITS], to_model[BITS];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		int64_t from_size = 1 + (int64_t)(random_next() % BITS), to_size = 1 + (int64_t)(random_next() % BITS);
		uint8_t *from = random_bits(from_size, from_model, round % 2 ? 50 : 95);
		uint8_t *to = random_bits(to_size, to_model, 50);
		int64_t from_at = (int64_t)(random_next() % (uint64_t)from_size);
		int64_t to_at = (int64_t)(random_next() % (uint64_t)to_size);
		int64_t room = from_size - from_at < to_size - to_at ? from_size - from_at : to_size - to_at;
		int64_t count = (int64_t)(random_next() % (uint64_t)(room + 1)), set = 0, at, run;

		for (int64_t i = 0; i < count; i++)
			set += from_model[from_at + i];
		assert_int_equal(weir_bits_count(from, from_at, count), set);

		weir_bits_copy(to, to_at, from, from_at, count);
		memcpy(to_model + to_at, from_model + from_at, (size_t)count);
		for (int64_t i = 0; i < to_size; i++)
			assert_int_equal(weir_bit_get(to, i), to_model[i]);
		assert_true(weir_bits_equal(to, to_at, from, from_at, count));
		if (count) {
			int64_t flip = to_at + (int64_t)(random_next() % (uint64_t)count);

			to[flip >> 3] ^= (uint8_t)(1 << (flip & 7));
			assert_false(weir_bits_equal(to, to_at, from, from_at, count));
			to[flip >> 3] ^= (uint8_t)(1 << (flip & 7));
		}

		at = 0;
		for (int64_t i = 0; i < count;) {
			int64_t end;

			if (!from_model[from_at + i]) {
				i++;
				continue;
			}
			for (end = i; end < count && from_model[from_at + end];)
				end++;
			run = weir_bits_run(from, from_at, &at, count);
			assert_int_equal(at, i);
			assert_int_equal(run, end - i);
			at += run;
			i = end;
		}
		assert_int_equal(weir_bits_run(from, from_at, &at, count), 0);

		weir_bits_fill(to, to_at, count, round & 1);
		memset(to_model + to_at, round & 1, (size_t)count);
		for (int64_t i = 0; i < to_size; i++)
			assert_int_equal(weir_bit_get(to, i), to_model[i]);
		free(from);
		free(to);
	}
}

static void test_no_bitmap_is_one_run(void **state)
{
	int64_t at = 3;

	(void)state;
	assert_int_equal(weir_bits_run(NULL, 0, &at, 10), 7);
	at = 10;
	assert_int_equal(weir_bits_run(NULL, 0, &at, 10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_model),
		cmocka_unit_test(test_no_bitmap_is_one_run),
	};

	random_state = 7;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
