/* Where rows were read: parts in order, what is left out, what is too much. */
#include "memory_fixture.h"

#include "ops/origin.h"

#include <stdio.h>

static void add(struct weir_origin *origin, const char *source, int64_t first, int64_t last, int64_t rows)
{
	struct weir_error err = {0};

	assert_int_equal(weir_origin_add(origin, source, first, last, rows, &err), WEIR_OK);
}

static void check(const struct weir_origin *origin, size_t at, const char *source, int64_t first, int64_t last,
		  int64_t rows)
{
	const struct weir_origin_part *part = &origin->parts.items[at];

	assert_true(at < origin->parts.count);
	assert_string_equal(weir_origin_source(origin, part), source);
	assert_int_equal(part->row_first, first);
	assert_int_equal(part->row_last, last);
	assert_int_equal(part->rows, rows);
}

static void test_parts(void **state)
{
	struct fixture *f = *state;
	struct weir_account *account = f->account;
	struct weir_origin origin, *shared, *cut, *made;

	weir_origin_init(&origin, account);
	add(&origin, "a", 0, 99, 100);
	add(&origin, "a", 100, 199, 100); /* goes on */
	add(&origin, "a", 300, 349, 50);  /* does not, and no row in between is missing from either */
	add(&origin, "b", 0, 99, 20);
	add(&origin, "b", 200, 299, 20); /* rows are missing anyway */
	add(&origin, "c", -1, -1, 10);
	add(&origin, "c", -1, -1, 10);
	add(&origin, NULL, -1, -1, 5);
	assert_int_equal(origin.parts.count, 5);
	check(&origin, 0, "a", 0, 199, 200);
	check(&origin, 1, "a", 300, 349, 50);
	check(&origin, 2, "b", 0, 299, 40);
	check(&origin, 3, "c", -1, -1, 20);
	check(&origin, 4, "", -1, -1, 5);
	shared = weir_origin_share(account, &origin);
	weir_origin_release(&origin);
	assert_non_null(shared);
	cut = weir_origin_cut(account, shared, 210, 60);
	assert_int_equal(cut->parts.count, 2);
	check(cut, 0, "a", 310, 349, 40);
	check(cut, 1, "b", 0, 299, 20);
	made = weir_origin_untraced(account, shared);
	assert_false(made->is_traced);
	assert_true(shared->is_traced);
	assert_ptr_equal(weir_origin_untraced(account, made), made); /* a second reference */
	weir_origin_unref(made);
	weir_origin_unref(made);
	weir_origin_unref(cut);
	weir_origin_unref(weir_origin_ref(shared));
	weir_origin_unref(shared);
	weir_origin_unref(NULL);
}

static void test_nothing_is_known(void **state)
{
	struct fixture *f = *state;
	struct weir_origin origin;

	weir_origin_init(&origin, f->account);
	assert_null(weir_origin_share(f->account, &origin));
	add(&origin, NULL, -1, -1, 10);
	assert_null(weir_origin_share(f->account, &origin));
	weir_origin_release(&origin);
}

/* Of many small files the first and the last are known, and it takes no more memory than they do. */
static void test_too_many(void **state)
{
	struct fixture *f = *state;
	struct weir_origin origin, *shared;
	size_t names = 0;
	char name[16];

	weir_origin_init(&origin, f->account);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "%05d", i);
		add(&origin, name, 0, 1, 2);
		names = i == WEIR_ORIGIN_PARTS ? origin.names.size : names;
	}
	assert_int_equal(origin.names.size, names);
	assert_int_equal(origin.parts.count, WEIR_ORIGIN_PARTS);
	check(&origin, 0, "00000", 0, 1, 2);
	check(&origin, WEIR_ORIGIN_PARTS - 2, "00254", 0, 1, 2);
	check(&origin, WEIR_ORIGIN_PARTS - 1, "09999", 0, 1, 2);
	assert_int_equal(origin.rows_between, 2 * (10000 - WEIR_ORIGIN_PARTS));
	/* Two of the same file, the last time. */
	add(&origin, "09999", 7, 8, 2);
	check(&origin, WEIR_ORIGIN_PARTS - 1, "09999", 0, 8, 4);
	shared = weir_origin_share(f->account, &origin);
	check(shared, shared->parts.count - 1, "09999", 0, 8, 4);
	assert_int_equal(shared->rows_between, 2 * (10000 - WEIR_ORIGIN_PARTS));
	weir_origin_unref(shared);
	weir_origin_clear(&origin);
	add(&origin, "z", 5, 5, 1);
	check(&origin, 0, "z", 5, 5, 1);
	weir_origin_release(&origin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_parts),
		memory_test(test_nothing_is_known),
		memory_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
