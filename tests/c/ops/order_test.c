/* The order of keys is that of memcmp, and equal keys stay as they were, whatever values they have and however long
 * they are. */
#include "memory_fixture.h"
#include "random.h"

#include "ops/exchange/order.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 30000 };

/* How the numbers of a case are spread. */
static uint64_t spread(uint32_t kind, uint64_t i)
{
	uint64_t chance = random_next();

	switch (kind) {
	case 0:
		return chance;
	case 1: /* every magnitude */
		return chance >> (random_next() & 63);
	case 2: /* one that most have, in the middle */
		return chance & 3 ? (uint64_t)1 << 63 : random_next();
	case 3: /* few, and one far off */
		return i == KEYS / 2 ? UINT64_MAX : chance % 50;
	case 4: /* in order */
		return i / 3;
	case 5: /* in order but for one */
		return i == KEYS / 3 ? 0 : i;
	case 6: /* the other way round */
		return UINT64_MAX - i;
	case 7: /* small ones, with a heavy tail that starts at no round number */
		return 12345678901u + (chance >> (32 + (random_next() & 31)));
	default: /* all alike */
		return 42;
	}
}

enum { KINDS = 9 };

static void put_number(uint8_t *to, uint64_t number)
{
	for (uint32_t i = 0; i < 8; i++)
		to[i] = (uint8_t)(number >> (56 - 8 * i));
}

static void check(const struct weir_key_list *keys, struct weir_account *account, const char *what)
{
	struct weir_error err = {0};
	size_t count = keys->count, size = (count + 1) * sizeof(uint32_t);
	uint32_t *rows = weir_alloc(account, size, &err);
	uint8_t *seen = weir_alloc_zero(account, count + 1, &err);

	assert_true(rows && seen);
	assert_int_equal(weir_key_order(keys, account, rows, &err), WEIR_OK);
	for (size_t i = 0; i < count; i++) {
		uint32_t before_size, key_size;
		const uint8_t *before, *key;
		int order;

		assert_true(rows[i] < count && !seen[rows[i]]);
		seen[rows[i]] = 1;
		if (!i)
			continue;
		before = weir_key_at(keys, rows[i - 1], &before_size);
		key = weir_key_at(keys, rows[i], &key_size);
		order = weir_key_compare(before, before_size, key, key_size);
		if (order > 0 || (!order && rows[i - 1] > rows[i]))
			fail_msg("%s: rows %u and %u are not in order", what, rows[i - 1], rows[i]);
	}
	weir_free(account, rows, size);
	weir_free(account, seen, count + 1);
}

/* A class, a number, and in wide keys more bytes that only ties are asked for. */
static void test_numbers(void **state)
{
	static const uint32_t widths[] = {3, 8, 9, 10, 16, 18, 27};
	struct fixture *fixture = *state;
	char what[64];

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		for (uint32_t w = 0; w < sizeof(widths) / sizeof(*widths); w++) {
			struct weir_key_list keys;
			uint8_t key[40];

			random_state = 100 * kind + w;
			snprintf(what, sizeof(what), "numbers %u, %u bytes", kind, widths[w]);
			weir_key_list_init(&keys, fixture->account, widths[w]);
			for (uint64_t i = 0; i < KEYS; i++) {
				memset(key, 0, sizeof(key));
				put_number(key + 1, spread(kind, i));
				put_number(key + 9, spread(kind, i));
				put_number(key + 17, random_next() & 3);
				assert_int_equal(weir_key_list_append(&keys, key, widths[w], &fixture->err), WEIR_OK);
			}
			check(&keys, fixture->account, what);
			weir_key_list_release(&keys);
		}
	}
}

/* Of any length, none the beginning of another: two zeros end each. */
static void test_texts(void **state)
{
	struct fixture *fixture = *state;
	char what[64];

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		struct weir_key_list keys;
		char key[64];

		random_state = 7000 + kind;
		snprintf(what, sizeof(what), "texts %u", kind);
		weir_key_list_init(&keys, fixture->account, 0);
		for (uint64_t i = 0; i < KEYS; i++) {
			int length = snprintf(key, sizeof(key), "%s%llu", i & 1 ? "they all begin alike " : "they ",
					      (unsigned long long)spread(kind, i));

			memset(key + length, 0, 2);
			assert_int_equal(
				weir_key_list_append(&keys, (const uint8_t *)key, (uint32_t)length + 2, &fixture->err),
				WEIR_OK);
		}
		check(&keys, fixture->account, what);
		weir_key_list_release(&keys);
	}
}

static void test_few(void **state)
{
	struct fixture *fixture = *state;

	for (uint32_t count = 0; count < 300; count++) {
		for (uint32_t kind = 0; kind < 3; kind++) {
			struct weir_key_list keys;
			uint8_t key[9] = {0};

			random_state = 3 * count + kind;
			weir_key_list_init(&keys, fixture->account, sizeof(key));
			for (uint32_t i = 0; i < count; i++) {
				uint64_t chance = random_next();

				put_number(key + 1, kind == 0   ? chance % (count / 2 + 1)
						    : kind == 1 ? chance
								: count - i);
				assert_int_equal(weir_key_list_append(&keys, key, sizeof(key), &fixture->err), WEIR_OK);
			}
			check(&keys, fixture->account, "few");
			weir_key_list_release(&keys);
		}
	}
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

/* Without places: any numbers, the greatest one among them, of as many as are put in order in one way or another. */
static void test_plain_numbers(void **state)
{
	static const size_t counts[] = {1, 8, 9, 63, 64, 65, 66, 500, 1 << 11, 1 << 14, (1 << 14) + 1, 100000};
	static uint64_t numbers[2 * 100000], wanted[100000];

	(void)state;
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		for (uint32_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			random_state = 100 * kind + c;
			for (size_t i = 0; i < counts[c]; i++)
				numbers[i] = wanted[i] = i % 100 == 99 ? UINT64_MAX : spread(kind, i);
			qsort(wanted, counts[c], sizeof(*wanted), compare_numbers);
			weir_numbers_order(numbers, numbers + counts[c], counts[c]);
			for (size_t i = 0; i < counts[c]; i++)
				if (numbers[i] != wanted[i])
					fail_msg("numbers %u: number %zu of %zu is wrong", kind, i, counts[c]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_numbers, fixture_begin, fixture_end),
		cmocka_unit_test_setup_teardown(test_texts, fixture_begin, fixture_end),
		cmocka_unit_test_setup_teardown(test_few, fixture_begin, fixture_end),
		cmocka_unit_test(test_plain_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
