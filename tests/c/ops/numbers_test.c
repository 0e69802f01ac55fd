/* Numbers that are not written: those of a run made again are those that its rows had, in order, however runs were
 * cut. */
#include "memory_fixture.h"

#include "arrow/random_batch.h"
#include "ops/exchange/numbers.h"
#include "ops/exchange/order.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 20000 };

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t drawn_numbers[ROWS], made_again[ROWS];

/* A split of several runs; `cut` rows are drawn for each. `before`: as if one bucket had so many already. */
static void check_runs(struct weir_account *account, int cut, uint32_t before)
{
	struct weir_draw draw;
	struct weir_error err = {0};

	weir_draw_begin(&draw, 42, 3);
	draw.counts[7] = draw.before[7] = before;
	for (int begin = 0; begin < ROWS; begin += cut) {
		struct weir_drawn *drawn = NULL;
		int rows = ROWS - begin < cut ? ROWS - begin : cut;

		for (int i = 0; i < rows; i++)
			drawn_numbers[i] = weir_draw_number(&draw);
		qsort(drawn_numbers, (size_t)rows, sizeof(*drawn_numbers), compare_numbers);
		assert_ok(weir_drawn_new(account, &draw, &drawn, &err));
		weir_draw_begin_run(&draw);
		/* By chunks that end anywhere in a bucket. */
		for (int first = 0, count = 1; first < rows; first += count, count = count * 3 + 1) {
			count = count < rows - first ? count : rows - first;
			assert_ok(weir_drawn_numbers(drawn, first, count, account, made_again + first, &err));
		}
		assert_memory_equal(drawn_numbers, made_again, (size_t)rows * sizeof(*made_again));
		weir_drawn_free(account, drawn);
	}
}

static void test_drawn(void **state)
{
	struct weir_account *account = ((struct fixture *)*state)->account;

	check_runs(account, ROWS, 0);
	check_runs(account, 6007, 0);
	check_runs(account, 13, 0);
	check_runs(account, 6007, UINT16_MAX - 10);
	check_runs(account, 6007, 200000);
}

/* The order of a run's keys is that of the numbers, for runs that end anywhere. */
static void test_order(void **state)
{
	struct weir_account *account = ((struct fixture *)*state)->account;
	const struct weir_key key = {.type = weir_type_of(WEIR_UINT64)};
	const struct weir_key_columns columns = {.count = 1, .keys = &key, .width = weir_key_columns_width(&key, 1)};
	struct weir_key_list keys;
	struct weir_draw draw;
	struct weir_error err = {0};
	static uint32_t drawn_order[ROWS], key_order[ROWS];

	weir_key_list_init(&keys, account, columns.width);
	weir_draw_begin(&draw, 42, 3);
	for (int rows = 1; rows < ROWS; rows = rows * 5 + 3) {
		for (int begin = 0; begin < rows; begin += (int)WEIR_VECTOR_ROWS) {
			uint32_t left = (uint32_t)(rows - begin),
				 count = left < WEIR_VECTOR_ROWS ? left : WEIR_VECTOR_ROWS;
			struct weir_column column = {.type = key.type, .values = drawn_numbers + begin};
			struct weir_vector vector = {.row_count = count,
						     .column_count = 1,
						     .columns = &column,
						     .selection = {.count = count}};

			for (uint32_t i = 0; i < count; i++)
				drawn_numbers[begin + (int)i] = weir_draw_number(&draw);
			assert_ok(weir_key_list_push(&keys, &columns, &vector, &err));
		}
		assert_ok(weir_draw_order(&draw, &keys, account, drawn_order, &err));
		assert_ok(weir_key_order(&keys, account, key_order, &err));
		assert_memory_equal(drawn_order, key_order, (size_t)rows * sizeof(*key_order));
		weir_draw_begin_run(&draw);
		weir_key_list_clear(&keys);
	}
	weir_key_list_release(&keys);
}

/* Which number a row has does not depend on runs, and is fixed for all time. */
static void test_fixed(void **state)
{
	/* Made by another program. */
	static const uint64_t expected[] = {0x423fe7cbcc69434bu, 0x344d3ade36eb5415u, 0x7223526572eb9a43u,
					    0x508f59a22e3df13fu};
	struct weir_draw draw;

	(void)state;
	weir_draw_begin(&draw, 7, 1);
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		if (i == 1)
			weir_draw_begin_run(&draw);
		assert_int_equal(weir_draw_number(&draw), expected[i]);
	}
}

static void check_repeats(struct weir_account *account, int64_t rows, uint64_t each, bool is_worth_it)
{
	struct weir_array *array;
	struct weir_repeats repeats;
	struct weir_error err = {0};
	uint64_t *values;
	uint8_t *bytes;

	array = weir_array_new(account, weir_type_of(WEIR_UINT64), &err);
	assert_non_null(array);
	assert_ok(weir_buffer_new(account, (uint64_t)rows * sizeof(*values), &array->buffers[1], &bytes, &err));
	values = (uint64_t *)bytes;
	array->length = rows;
	for (int64_t i = 0; i < rows; i++)
		values[i] = (uint64_t)i / each * 5;
	assert_ok(weir_repeats_init(&repeats, account, array, &err));
	assert_int_equal(repeats.count > 0, is_worth_it);
	if (is_worth_it) {
		weir_repeats_numbers(&repeats, made_again);
		assert_memory_equal(values, made_again, (size_t)rows * sizeof(*values));
	}
	weir_repeats_release(&repeats, account);
	weir_repeats_release(&repeats, account);
	weir_array_unref(array);
}

static void test_repeats(void **state)
{
	struct weir_account *account = ((struct fixture *)*state)->account;

	check_repeats(account, 1, 1, true);
	check_repeats(account, 1000, 1000, true);
	check_repeats(account, 1000, 37, true);
	check_repeats(account, 1000, 2, false);
	check_repeats(account, 0, 1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_drawn),
		memory_test(test_order),
		memory_test(test_fixed),
		memory_test(test_repeats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
