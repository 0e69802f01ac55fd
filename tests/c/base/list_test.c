/* Lists and texts: what was put in is there, whatever it took to grow. */
#include "base/list.h"
#include "base/checked.h"
#include "base/text.h"
#include "support.h"

struct point {
	int64_t x, y;
	char tag;
};

struct points WEIR_LIST(struct point);
struct bytes WEIR_LIST(char);

static struct weir_mem *mem;

static int setup(void **state)
{
	struct weir_error err;

	(void)state;
	return weir_mem_new(0, &mem, &err);
}

static int teardown(void **state)
{
	(void)state;
	weir_mem_free(mem);
	return 0;
}

static void pushed_items_stay(void **state)
{
	struct weir_account *root = weir_mem_root(mem);
	struct points points = {0};
	struct bytes bytes = {0};
	struct weir_error err;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		assert_int_equal(weir_list_push(&points, root, &err, (struct point){.x = i, .y = -i, .tag = 't'}),
				 WEIR_OK);
		assert_int_equal(weir_list_push(&bytes, root, &err, (char)i), WEIR_OK);
	}
	assert_int_equal(points.count, 50000);
	for (int i = 0; i < 50000; i++) {
		assert_true(points.items[i].x == i && points.items[i].y == -i && points.items[i].tag == 't');
		assert_int_equal(bytes.items[i], (char)i);
	}
	weir_list_release(&points, root);
	weir_list_release(&points, root);
	weir_list_release(&bytes, root);
	assert_true(!points.items && points.count == 0 && points.capacity == 0);
}

static void reserving_is_exact_or_more(void **state)
{
	struct weir_account *root = weir_mem_root(mem);
	struct points points = {0};
	struct weir_error err = {0};
	struct point *items;
	size_t none = 0;

	(void)state;
	assert_int_equal(weir_list_reserve(&points, root, &err, none), WEIR_OK);
	assert_null(points.items);
	assert_int_equal(weir_list_reserve(&points, root, &err, 5000), WEIR_OK);
	assert_true(points.capacity >= 5000 && points.count == 0);
	items = points.items;
	for (int i = 0; i < 5000; i++)
		assert_int_equal(weir_list_push(&points, root, &err, (struct point){.x = i}), WEIR_OK);
	assert_ptr_equal(points.items, items);
	/* Sizes that wrap around are refused and change nothing. */
	assert_int_equal(weir_list_reserve(&points, root, &err, SIZE_MAX / sizeof(struct point) + 2), WEIR_E_MEMORY);
	assert_int_equal(weir_list_reserve(&points, root, &err, SIZE_MAX), WEIR_E_MEMORY);
	assert_ptr_equal(points.items, items);
	assert_int_equal(points.items[4999].x, 4999);
	weir_list_release(&points, root);
}

static void text_grows(void **state)
{
	struct weir_error err = {0};
	struct weir_text text;
	size_t size = 0;

	(void)state;
	weir_text_init(&text, weir_mem_root(mem));
	weir_text_clear(&text);
	assert_int_equal(weir_text_append(&text, NULL, 0, &err), WEIR_OK);
	assert_string_equal(text.data, "");
	assert_int_equal(weir_text_puts(&text, "a", &err), WEIR_OK);
	assert_int_equal(weir_text_printf(&text, &err, "-%d-", 12), WEIR_OK);
	assert_int_equal(weir_text_append(&text, "b\0c", 3, &err), WEIR_OK);
	assert_int_equal(text.size, 8);
	assert_memory_equal(text.data, "a-12-b\0c", 9);
	weir_text_clear(&text);
	assert_string_equal(text.data, "");
	for (int i = 0; i < 30000; i++) {
		assert_int_equal(weir_text_printf(&text, &err, "%d,", i), WEIR_OK);
		size += (size_t)snprintf(NULL, 0, "%d,", i);
		assert_int_equal(text.size, size);
		assert_int_equal(text.data[size], '\0');
	}
	assert_int_equal(strncmp(text.data, "0,1,2,3,", 8), 0);
	assert_string_equal(text.data + size - 6, "29999,");
	assert_int_equal(weir_text_append(&text, "", SIZE_MAX, &err), WEIR_E_MEMORY);
	assert_int_equal(weir_text_append(&text, "", SIZE_MAX - size - 1, &err), WEIR_E_MEMORY);
	assert_int_equal(text.size, size);
	weir_text_release(&text);
	weir_text_release(&text);
}

static void checked_arithmetic(void **state)
{
	uint32_t out32;
	size_t out;

	(void)state;
	assert_true(weir_add_overflows(SIZE_MAX, (size_t)1, &out));
	assert_false(weir_add_overflows(SIZE_MAX - 1, (size_t)1, &out));
	assert_true(out == SIZE_MAX);
	assert_true(weir_sub_overflows((size_t)1, (size_t)2, &out));
	assert_true(weir_mul_overflows((uint64_t)65536, (uint64_t)65536, &out32));
	assert_false(weir_range_outside(0, 10, 10));
	assert_false(weir_range_outside(10, 0, 10));
	assert_true(weir_range_outside(10, 1, 10));
	assert_true(weir_range_outside(11, 0, 10));
	assert_true(weir_range_outside(UINT64_MAX, UINT64_MAX, 10));
	assert_true(weir_range_outside(1, UINT64_MAX, 10));
	assert_int_equal(weir_round_up(0, 64), 0);
	assert_int_equal(weir_round_up(1, 64), 64);
	assert_int_equal(weir_round_up(64, 64), 64);
	assert_int_equal(weir_round_up(65, 64), 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pushed_items_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(reserving_is_exact_or_more, setup, teardown),
		cmocka_unit_test_setup_teardown(text_grows, setup, teardown),
		cmocka_unit_test(checked_arithmetic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
