/* Sums without rounding: against cases whose sums are known, against themselves in any order, and cut in any way. */
#include "base/exact.h"
#include "support.h"

#include <float.h>
#include <math.h>

static double sum_of(const double *values, uint32_t count)
{
	struct weir_exact sum = {0};

	for (uint32_t i = 0; i < count; i++)
		weir_exact_add(&sum, values[i]);
	return weir_exact_value(&sum);
}

#define SUM(...) sum_of((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void known_sums(void **state)
{
	(void)state;
	assert_true(sum_of(NULL, 0) == 0);
	assert_true(SUM(0.1) == 0.1);
	assert_true(SUM(1e308, 1, -1e308) == 1);
	assert_true(SUM(1e16, 1, -1e16) == 1);
	assert_true(SUM(-1e16, -1, 1e16) == -1);
	assert_true(SUM(0x1p-1074, 0x1p-1074) == 0x1p-1073);
	assert_true(SUM(DBL_MAX, DBL_MAX, -DBL_MAX) == DBL_MAX);
	assert_true(SUM(DBL_MAX, DBL_MAX) == (double)INFINITY);
	assert_true(SUM(-DBL_MAX, -DBL_MAX) == -(double)INFINITY);
	assert_true(SUM(DBL_MIN, -DBL_MIN, 0x1p-1074) == 0x1p-1074);
	/* Halves go to the even one, unless there is more below them. */
	assert_true(SUM(0x1p53, 1) == 0x1p53);
	assert_true(SUM(0x1p53, 1, 0x1p-1000) == 0x1p53 + 2);
	assert_true(SUM(0x1p53, 3) == 0x1p53 + 4);
	assert_true(SUM(0x1p53, 1, -0x1p-1000) == 0x1p53);
	assert_true(isnan(SUM(1, (double)NAN)));
	assert_true(SUM(1, (double)INFINITY) == (double)INFINITY);
	assert_true(isnan(SUM((double)INFINITY, -(double)INFINITY)));
}

static double random_double(struct random *random)
{
	uint64_t bits = random_next(random);
	double value;

	/* Of all exponents, but never NaN nor infinite. */
	if ((bits >> 52 & 0x7ff) == 0x7ff)
		bits &= ~((uint64_t)1 << 52);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* More values than fit between two settlings; in parts that are merged, and each taken away again. */
static void parts(void **state)
{
	enum { COUNT = 5000, PARTS = 7 };
	static double values[COUNT];
	struct random random = random_seeded(20);
	struct weir_exact whole = {0}, merged = {0}, part[PARTS] = {0};
	struct weir_exact_squares squares = {0}, merged_squares = {0}, part_squares[PARTS] = {0};

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t to = (uint32_t)(random_next(&random) % PARTS);

		values[i] = random_double(&random);
		weir_exact_add(&whole, values[i]);
		weir_exact_squares_add(&squares, values[i]);
		weir_exact_add(&part[to], values[i]);
		weir_exact_squares_add(&part_squares[to], values[i]);
	}
	for (uint32_t i = 0; i < PARTS; i++) {
		weir_exact_merge(&merged, &part[PARTS - 1 - i]);
		weir_exact_squares_merge(&merged_squares, &part_squares[i]);
	}
	weir_exact_settle(&whole);
	weir_exact_squares_settle(&squares);
	assert_memory_equal(whole.digits, merged.digits, sizeof(whole.digits));
	assert_memory_equal(squares.digits, merged_squares.digits, sizeof(squares.digits));
	for (uint32_t i = COUNT; i-- > 0;)
		weir_exact_add(&whole, -values[i]);
	assert_true(weir_exact_value(&whole) == 0);
}

/* Many at once are as many one by one: of one size, of all, and with what is no number. */
static void many(void **state)
{
	struct random random = random_seeded(22);

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		static double values[5000];
		struct weir_exact one_by_one = {0}, together = {0};
		uint32_t count = (uint32_t)random_below(&random, round % 10 ? 40 : 5000);
		int spread = (int)random_below(&random, 80) + 1, base = (int)random_below(&random, 2000) - 1050;

		for (uint32_t i = 0; i < count; i++) {
			values[i] = round % 3 ? ldexp((double)(int64_t)random_next(&random),
						      base + (int)random_below(&random, (size_t)spread))
					      : random_double(&random);
			if (random_below(&random, 9) == 0)
				values[i] = random_below(&random, 2) ? 0.0 : -0.0;
			if (round % 50 == 49 && random_below(&random, 20) == 0)
				values[i] = (double)NAN;
			weir_exact_add(&one_by_one, values[i]);
		}
		weir_exact_add_many(&together, values, count);
		weir_exact_settle(&one_by_one);
		weir_exact_settle(&together);
		assert_memory_equal(one_by_one.digits, together.digits, sizeof(together.digits));
		assert_int_equal(one_by_one.has_nan, together.has_nan);
		assert_int_equal(one_by_one.has_plus, together.has_plus);
	}
}

/* Of few bits a double holds the square itself. */
static void squares(void **state)
{
	struct weir_exact_squares sum = {0};
	struct weir_exact as_values = {0}, zero = {0};
	struct random random = random_seeded(21);

	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		double value = ldexp((double)(random_next(&random) >> 38), (int)(random_next(&random) % 900) - 450);

		weir_exact_squares_add(&sum, value);
		weir_exact_add(&as_values, value * value);
	}
	assert_true((double)weir_exact_spread(&zero, &sum, 1) == weir_exact_value(&as_values));
	sum = (struct weir_exact_squares){0};
	weir_exact_squares_add(&sum, DBL_MAX);
	assert_true(weir_exact_spread(&zero, &sum, 1) == (weir_wide_float)DBL_MAX * (weir_wide_float)DBL_MAX);
	sum = (struct weir_exact_squares){0};
	weir_exact_squares_add(&sum, 0x1p-1074);
	assert_true(weir_exact_spread(&zero, &sum, 1) == (weir_wide_float)0x1p-1074 * (weir_wide_float)0x1p-1074);
	weir_exact_squares_add(&sum, (double)NAN);
	weir_exact_squares_add(&sum, (double)INFINITY);
	assert_true(weir_exact_spread(&zero, &sum, 1) == (weir_wide_float)0x1p-1074 * (weir_wide_float)0x1p-1074);
}

/* Far from zero, where the squares alone do not tell the values apart. */
static void spread(void **state)
{
	struct weir_exact sum = {0};
	struct weir_exact_squares squares = {0};
	struct random random = random_seeded(22);
	int64_t total = 0, total_squares = 0, count = 5000;

	(void)state;
	for (int64_t i = 0; i < count; i++) {
		int64_t apart = (int64_t)(random_next(&random) % 7) - 3;

		total += apart;
		total_squares += apart * apart;
		weir_exact_add(&sum, -0x1p52 + (double)apart);
		weir_exact_squares_add(&squares, -0x1p52 + (double)apart);
	}
	assert_true(weir_exact_spread(&sum, &squares, (uint64_t)count) ==
		    (weir_wide_float)(count * total_squares - total * total));
	weir_exact_add(&sum, -(double)INFINITY);
	assert_true(isnan((double)weir_exact_spread(&sum, &squares, (uint64_t)count)));
	sum = (struct weir_exact){0};
	squares = (struct weir_exact_squares){0};
	for (uint32_t i = 0; i < 3; i++) {
		weir_exact_add(&sum, i == 1 ? -DBL_MAX : DBL_MAX);
		weir_exact_squares_add(&squares, DBL_MAX);
	}
	assert_true(weir_exact_spread(&sum, &squares, 3) == 8 * ((weir_wide_float)DBL_MAX * (weir_wide_float)DBL_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_sums), cmocka_unit_test(parts),  cmocka_unit_test(many),
		cmocka_unit_test(squares),    cmocka_unit_test(spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
