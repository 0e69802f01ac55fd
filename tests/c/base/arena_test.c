/* Things keep their bytes and their alignment until clear; nothing stays charged after release. */
#include "base/arena.h"
#include "support.h"

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
	weir_mem_free(mem); /* asserts that nothing is in use */
	return 0;
}

static int64_t used(void)
{
	return atomic_load(&weir_mem_root(mem)->used);
}

static void things_do_not_overlap(void **state)
{
	enum { THINGS = 3000 };
	static unsigned char *things[THINGS];
	static size_t sizes[THINGS];
	struct random random = random_seeded(5);
	struct weir_arena arena;
	struct weir_error err;

	(void)state;
	weir_arena_init(&arena, weir_mem_root(mem));
	for (int round = 0; round < 5; round++) {
		for (int t = 0; t < THINGS; t++) {
			unsigned kind = (unsigned)random_below(&random, 3);

			sizes[t] = random_below(&random, random_below(&random, 100) ? 200 : 200000);
			things[t] = kind == 0   ? weir_arena_alloc(&arena, sizes[t], &err)
				    : kind == 1 ? weir_arena_alloc_zero(&arena, sizes[t], &err)
						: weir_arena_alloc_aligned(&arena, sizes[t], &err);
			assert_non_null(things[t]);
			assert_int_equal((uintptr_t)things[t] % (kind == 2 ? 64 : 16), 0);
			for (size_t i = 0; kind == 1 && i < sizes[t]; i++)
				assert_int_equal(things[t][i], 0);
			if (sizes[t] > 0)
				memset(things[t], t, sizes[t]);
		}
		for (int t = 0; t < THINGS; t++)
			for (size_t i = 0; i < sizes[t]; i++)
				assert_int_equal(things[t][i], (unsigned char)t);
		weir_arena_clear(&arena);
		assert_true(used() > 0 && used() <= 2 << 20);
	}
	weir_arena_release(&arena);
	assert_int_equal(used(), 0);
	weir_arena_release(&arena);
	weir_arena_clear(&arena);
	assert_non_null(weir_arena_alloc(&arena, 1, &err));
	weir_arena_release(&arena);
}

static void pieces_grow_with_the_need(void **state)
{
	struct weir_arena arena;
	struct weir_error err;

	(void)state;
	weir_arena_init(&arena, weir_mem_root(mem));
	assert_int_equal(used(), 0);
	assert_non_null(weir_arena_alloc(&arena, 10, &err));
	assert_true(used() <= 1024);
	/* A large thing does not end the piece that is being filled. */
	assert_non_null(weir_arena_alloc(&arena, 5 << 20, &err));
	for (int i = 0; i < 10; i++)
		assert_non_null(weir_arena_alloc(&arena, 10, &err));
	assert_true(used() < 6 << 20);
	weir_arena_clear(&arena);
	assert_true(used() <= 1024);
	for (int i = 0; i < 100000; i++)
		assert_non_null(weir_arena_alloc(&arena, 160, &err));
	assert_true(used() < (16 << 20) + (2 << 20));
	weir_arena_release(&arena);
}

static void texts_are_copied(void **state)
{
	struct weir_arena arena;
	struct weir_error err;

	(void)state;
	weir_arena_init(&arena, weir_mem_root(mem));
	assert_string_equal(weir_arena_strdup(&arena, "weir", &err), "weir");
	assert_string_equal(weir_arena_strdup(&arena, "", &err), "");
	assert_string_equal(weir_arena_strndup(&arena, "weirdly", 4, &err), "weir");
	assert_string_equal(weir_arena_printf(&arena, &err, "%s-%05d", "part", 7), "part-00007");
	assert_int_equal(strlen(weir_arena_printf(&arena, &err, "%*d", 300000, 7)), 300000);
	weir_arena_release(&arena);
}

static void too_much_is_an_error(void **state)
{
	struct weir_arena arena;
	struct weir_error err = {0};

	(void)state;
	weir_arena_init(&arena, weir_mem_root(mem));
	assert_null(weir_arena_alloc(&arena, SIZE_MAX - 8, &err));
	assert_int_equal(err.code, WEIR_E_MEMORY);
	assert_non_null(weir_arena_alloc(&arena, 8, &err));
	assert_null(weir_arena_alloc_aligned(&arena, SIZE_MAX, &err));
	assert_null(weir_arena_alloc(&arena, (size_t)1 << 60, &err));
	weir_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(things_do_not_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(pieces_grow_with_the_need, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_are_copied, setup, teardown),
		cmocka_unit_test_setup_teardown(too_much_is_an_error, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
