/* Sketches, by their own promises: exact while they have room, within their bounds beyond it, the same wherever their
 * bytes lie and however they were put together; a coin that falls on one side would be seen. */
#include "memory_fixture.h"

#include "ops/exchange/frequent.h"
#include "ops/exchange/quantiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_next(uint64_t *random)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t seeded(uint64_t seed)
{
	const char *wanted = getenv("WEIR_SEED");

	seed = wanted ? strtoull(wanted, NULL, 0) : seed;
	printf("seed %llu (WEIR_SEED replays it)\n", (unsigned long long)seed);
	return seed;
}

/* ---- quantiles ---- */

/* A sketch in memory of exactly its size, so that a byte beyond it is seen. */
struct sketch {
	uint8_t *bytes;
	uint32_t size;
};

static void quantiles_add(const struct weir_quantiles *q, struct sketch *sketch, const double *values, uint32_t count,
			  struct weir_arena *arena)
{
	uint64_t *bits = malloc((count + 1) * sizeof(*bits));
	struct weir_error err = {0};

	if (!sketch->bytes) {
		sketch->bytes = malloc(sketch->size = WEIR_QUANTILES_NEW);
		weir_quantiles_new(sketch->bytes);
	}
	for (uint32_t i = 0; i < count; i++)
		bits[i] = weir_quantiles_bits(values[i]);
	for (uint32_t at = 0, done, wanted; at < count; at += done) {
		assert_int_equal(weir_quantiles_push(q, sketch->bytes, sketch->size, bits + at, count - at, &done,
						     &wanted, arena, &err),
				 0);
		if (wanted) {
			assert_true(wanted > sketch->size);
			sketch->bytes = realloc(sketch->bytes, sketch->size = wanted);
		}
		assert_true(weir_quantiles_used(sketch->bytes) <= sketch->size);
		weir_arena_clear(arena);
	}
	free(bits);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const struct sketch *sketch, double share, struct weir_arena *arena)
{
	struct weir_error err = {0};
	double value;

	assert_int_equal(weir_quantiles_take(sketch->bytes, &share, 1, &value, arena, &err), 0);
	weir_arena_clear(arena);
	return value;
}

static void test_bits_keep_the_order(void **state)
{
	static const double rising[] = {-INFINITY, -1e300, -1, -5e-324, -0.0, 0.0, 5e-324, 1, 1e300, INFINITY};

	(void)state;
	for (size_t i = 0; i < sizeof(rising) / sizeof(*rising); i++) {
		double back = weir_quantiles_value(weir_quantiles_bits(rising[i]));

		assert_memory_equal(&back, &rising[i], sizeof(back));
		if (i)
			assert_true(weir_quantiles_bits(rising[i - 1]) < weir_quantiles_bits(rising[i]));
	}
}

static void test_few_values_are_exact(void **state)
{
	struct fixture *f = *state;
	struct weir_quantiles q;
	struct weir_arena arena;
	struct sketch sketch = {0};
	uint64_t random = seeded(11);
	uint32_t count;
	double *values;

	weir_arena_init(&arena, f->account);
	weir_quantiles_init(&q, 20);
	count = q.room;
	values = malloc(count * sizeof(*values));
	for (uint32_t i = 0; i < count; i++)
		values[i] = (double)(int64_t)random_next(&random) / 1e12;
	for (uint32_t at = 0; at < count; at += 37)
		quantiles_add(&q, &sketch, values + at, count - at < 37 ? count - at : 37, &arena);
	qsort(values, count, sizeof(*values), compare_doubles);
	assert_true(quantile(&sketch, 0, &arena) == values[0]);
	assert_true(quantile(&sketch, 1, &arena) == values[count - 1]);
	for (uint32_t i = 1; i + 1 < count; i++)
		assert_true(quantile(&sketch, (i + 0.5) / count, &arena) == values[i]);
	free(sketch.bytes);
	free(values);
	weir_arena_release(&arena);
}

/* The numbers 0 … count − 1 in an order of their own, so that a value is its own rank. */
static double *ranks(uint32_t count, int order, uint64_t *random)
{
	double *values = malloc(count * sizeof(*values));

	for (uint32_t i = 0; i < count; i++)
		values[i] = order == 1 ? count - 1 - i : i;
	for (uint32_t i = count; order == 2 && i > 1; i--) {
		uint32_t other = (uint32_t)(random_next(random) % i);
		double swap = values[i - 1];

		values[i - 1] = values[other];
		values[other] = swap;
	}
	return values;
}

static void check_ranks(const struct sketch *sketch, uint32_t count, double precision, struct weir_arena *arena)
{
	/* Seven standard deviations of what the header says. */
	double most = 7 * count / (4 * precision), off = 0;

	assert_true(quantile(sketch, 0, arena) == 0);
	assert_true(quantile(sketch, 1, arena) == count - 1);
	for (int i = 1; i < 100; i++) {
		double error = quantile(sketch, i / 100.0, arena) - i / 100.0 * count;

		assert_true(fabs(error) <= most);
		off += error / 99;
	}
	/* All on one side: the coins are not fair. */
	assert_true(fabs(off) <= most / 2);
}

static void test_many_values_are_within_bounds(void **state)
{
	struct fixture *f = *state;
	uint64_t random = seeded(12);

	for (int order = 0; order < 3; order++) {
		for (int size = 0; size < 2; size++) {
			uint32_t count = size ? 400000 : 3000;
			double precision = size ? 100 : 20, *values = ranks(count, order, &random);
			struct weir_quantiles q;
			struct weir_arena arena;
			struct sketch sketch = {0};

			weir_arena_init(&arena, f->account);
			weir_quantiles_init(&q, precision);
			for (uint32_t at = 0, part; at < count; at += part) {
				part = 1 + (uint32_t)(random_next(&random) % 5000);
				part = part < count - at ? part : count - at;
				quantiles_add(&q, &sketch, values + at, part, &arena);
			}
			check_ranks(&sketch, count, precision, &arena);
			assert_true(sketch.size <= q.room * 8 + 1024);
			free(sketch.bytes);
			free(values);
			weir_arena_release(&arena);
		}
	}
}

/* Sketches of parts, merged into one: of few and many values on either side. */
static void test_merged_sketches(void **state)
{
	struct fixture *f = *state;
	uint64_t random = seeded(13);
	enum { COUNT = 120000 };
	double *values = ranks(COUNT, 2, &random);
	struct weir_quantiles q;
	struct weir_arena scratch, arena;
	struct sketch all = {0};

	weir_arena_init(&arena, f->account);
	weir_arena_init(&scratch, f->account);
	weir_quantiles_init(&q, 50);
	for (uint32_t at = 0, part, turn = 0; at < COUNT; at += part, turn++) {
		struct sketch one = {0};
		const uint8_t *made;
		struct weir_error err = {0};
		uint32_t size;

		part = turn % 3 == 0 ? 1 : 1 + (uint32_t)(random_next(&random) % 9000);
		part = part < COUNT - at ? part : COUNT - at;
		quantiles_add(&q, &one, values + at, part, &scratch);
		if (!all.bytes) {
			all = one;
			continue;
		}
		assert_int_equal(weir_quantiles_merge(&q, turn & 1 ? all.bytes : one.bytes,
						      turn & 1 ? one.bytes : all.bytes, &arena, &made, &size, &err),
				 0);
		assert_int_equal(size, weir_quantiles_used(made));
		free(all.bytes);
		free(one.bytes);
		all.bytes = malloc(all.size = size);
		memcpy(all.bytes, made, size);
		weir_arena_clear(&arena);
	}
	check_ranks(&all, COUNT, 50, &arena);
	free(all.bytes);
	free(values);
	weir_arena_release(&arena);
	weir_arena_release(&scratch);
}

/* ---- frequent ---- */

static void frequent_add(struct sketch *sketch, uint32_t capacity, const char *value, uint64_t count,
			 struct weir_arena *arena)
{
	struct weir_error err = {0};
	uint32_t wanted, size = (uint32_t)strlen(value);

	if (!sketch->bytes) {
		sketch->bytes = malloc(sketch->size = WEIR_FREQUENT_NEW);
		weir_frequent_new(sketch->bytes);
	}
	for (;;) {
		uint8_t *more;

		assert_int_equal(weir_frequent_push(sketch->bytes, capacity, (const uint8_t *)value, size, count,
						    &wanted, arena, &err),
				 0);
		weir_arena_clear(arena);
		if (!wanted)
			return;
		more = malloc(wanted);
		weir_frequent_move(sketch->bytes, more, size);
		free(sketch->bytes);
		*sketch = (struct sketch){.bytes = more, .size = wanted};
	}
}

/* Values of every length around where they no longer fit into an entry. */
static void name_of(uint32_t i, char text[64])
{
	snprintf(text, 64, "%.*s%u", (int)(i % 29), "abcdefghijklmnopqrstuvwxyzABCDEF", i);
}

/* How often value i comes at most and at least; false: it is not there. */
static bool frequent_find(const struct sketch *sketch, uint32_t i, uint64_t *most, uint64_t *least)
{
	char text[64];

	name_of(i, text);
	for (uint32_t at = 0; at < weir_frequent_count(sketch->bytes); at++) {
		uint32_t size;
		const uint8_t *value = weir_frequent_value(sketch->bytes, at, &size, most);

		if (size == strlen(text) && !memcmp(value, text, size)) {
			*least = weir_frequent_least(sketch->bytes, at);
			return true;
		}
	}
	return false;
}

static void frequent_pack(struct sketch *sketch)
{
	uint32_t size = weir_frequent_pack(sketch->bytes);
	uint8_t *packed = malloc(size);

	assert_true(size <= sketch->size);
	memcpy(packed, sketch->bytes, size);
	free(sketch->bytes);
	*sketch = (struct sketch){.bytes = packed, .size = size};
}

static void test_few_different_values_are_exact(void **state)
{
	enum { CAPACITY = 40, VALUES = 2 * CAPACITY };
	struct fixture *f = *state;
	uint64_t random = seeded(14), counts[VALUES] = {0}, most, least;
	struct sketch sketch = {0};
	struct weir_arena arena;

	weir_arena_init(&arena, f->account);
	for (int n = 0; n < 20000; n++) {
		uint32_t i = (uint32_t)(random_next(&random) % VALUES);
		char text[64];

		name_of(i, text);
		frequent_add(&sketch, CAPACITY, text, 1 + n % 3, &arena);
		counts[i] += 1 + (uint64_t)n % 3;
		if (n % 4999 == 0)
			frequent_pack(&sketch);
	}
	assert_int_equal(weir_frequent_count(sketch.bytes), VALUES);
	for (uint32_t i = 0; i < VALUES; i++) {
		assert_true(frequent_find(&sketch, i, &most, &least));
		assert_int_equal(most, counts[i]);
		assert_int_equal(least, counts[i]);
	}
	free(sketch.bytes);
	weir_arena_release(&arena);
}

/* Many values, few of them often: counts lie within what the sketch says of them, and that within rows / capacity. */
static void check_bounds(const struct sketch *sketch, uint32_t capacity, const uint64_t *counts, uint32_t values,
			 uint64_t rows)
{
	uint64_t most, least;

	assert_true(weir_frequent_count(sketch->bytes) <= 2 * capacity);
	for (uint32_t i = 0; i < values; i++) {
		if (!frequent_find(sketch, i, &most, &least)) {
			assert_true(counts[i] <= rows / capacity);
			continue;
		}
		assert_true(least <= counts[i] && counts[i] <= most);
		assert_true(most - least <= rows / capacity);
	}
}

static void test_many_different_values_are_within_bounds(void **state)
{
	enum { CAPACITY = 64, VALUES = 3000, ROWS = 60000, PARTS = 3 };
	struct fixture *f = *state;
	uint64_t random = seeded(15), *counts = calloc(VALUES, sizeof(*counts));
	struct sketch parts[PARTS] = {{0}};
	struct weir_arena arena;

	weir_arena_init(&arena, f->account);
	for (int n = 0; n < ROWS; n++) {
		uint64_t draw = random_next(&random);
		uint32_t i = (uint32_t)(draw % VALUES);
		char text[64];

		i = draw >> 60 < 12 ? i % 20 : i; /* three quarters are of twenty values */
		name_of(i, text);
		frequent_add(&parts[n % PARTS], CAPACITY, text, 1, &arena);
		counts[i]++;
	}
	for (uint32_t p = 1; p < PARTS; p++) {
		frequent_pack(&parts[p]);
		for (uint32_t at = 0; at < weir_frequent_count(parts[p].bytes); at++) {
			char text[64] = {0};
			uint32_t size;
			uint64_t most;
			const uint8_t *value = weir_frequent_value(parts[p].bytes, at, &size, &most);

			memcpy(text, value, size);
			frequent_add(&parts[0], CAPACITY, text, weir_frequent_least(parts[p].bytes, at), &arena);
		}
		weir_frequent_take_over(parts[0].bytes, parts[p].bytes);
		free(parts[p].bytes);
	}
	check_bounds(&parts[0], CAPACITY, counts, VALUES, ROWS);
	frequent_pack(&parts[0]);
	check_bounds(&parts[0], CAPACITY, counts, VALUES, ROWS);
	free(parts[0].bytes);
	free(counts);
	weir_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_bits_keep_the_order),
		memory_test(test_few_values_are_exact),
		memory_test(test_many_values_are_within_bounds),
		memory_test(test_merged_sketches),
		memory_test(test_few_different_values_are_exact),
		memory_test(test_many_different_values_are_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
