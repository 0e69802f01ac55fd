/* Against the C library, which rounds exactly: text of many shapes made from random bit patterns. Python's float() and
 * repr() are asked in tests/python/test_number.py. */
#include "base/number.h"
#include "support.h"

#include <math.h>

static double random_double(struct random *random)
{
	uint64_t bits = random_next(random);
	double value;

	switch (random_below(random, 5)) {
	case 0:
		return (double)(int64_t)bits / (double)(1 + random_below(random, 1000));
	case 1:
		return (double)((int64_t)bits >> (20 + random_below(random, 40))) / 1000;
	case 2:
		bits &= 0x800fffffffffffff; /* subnormal */
		break;
	default:
		break;
	}
	memcpy(&value, &bits, 8);
	return isfinite(value) ? value : 0.5;
}

static bool same(double a, double b)
{
	return memcmp(&a, &b, 8) == 0 || (isnan(a) && isnan(b));
}

/* On the heap and exact, so that a read past the end is seen. */
static double parse(const char *text)
{
	size_t size = strlen(text), used;
	char *copy = malloc(size ? size : 1);
	double value = 0;

	memcpy(copy, text, size);
	used = weir_parse_double(copy, size, WEIR_NUMBER_PYTHON, &value);
	if (used != size)
		fail_msg("'%s': %zu bytes of %zu are a number", text, used, size);
	if (size <= 8) {
		double quick;

		if (weir_parse_double_short(copy, size, '.', &quick) && !same(quick, value))
			fail_msg("'%s': %a in short, %a in full", text, quick, value);
	}
	free(copy);
	return value;
}

static void check_parse(const char *text)
{
	double value = parse(text), expected = strtod(text, NULL);
	float narrow = 0, expected_narrow = strtof(text, NULL);

	if (!same(value, expected))
		fail_msg("'%s': %a instead of %a", text, value, expected);
	weir_parse_float(text, strlen(text), WEIR_NUMBER_PYTHON, &narrow);
	if (!same(narrow, expected_narrow))
		fail_msg("'%s' as float: %a instead of %a", text, narrow, expected_narrow);
}

static void reads_what_printf_writes(void **state)
{
	static const char *const formats[] = {"%.17g", "%.25g", "%.3g", "%.16e", "%.40e", "%.8f"};
	struct random random = random_seeded(21);
	char text[1200];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		double value = random_double(&random);

		snprintf(text, sizeof(text), formats[i % 6], value);
		check_parse(text);
		if (i % 100 == 0) {
			snprintf(text, sizeof(text), "%.800g", value);
			check_parse(text);
		}
	}
}

/* The text halfway between two neighbours, and the texts just below and above it. */
static void rounds_ties_to_even(void **state)
{
	struct random random = random_seeded(22);
	char text[1200];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		double value = fabs(random_double(&random)), next = nextafter(value, INFINITY);
		float narrow = (float)value;
		size_t length;

		if (isinf(next))
			continue;
		/* long double holds a double's half step, and %.1100Lg prints all of its digits */
		snprintf(text, sizeof(text), "%.1100Lg", (long double)value / 2 + (long double)next / 2);
		check_parse(text);
		length = strlen(text);
		if (!strchr(text, 'e') && strchr(text, '.')) {
			memcpy(text + length, "0000000001", 11);
			check_parse(text);
		}
		if (isfinite(narrow) && narrow < 0x1p127f) {
			snprintf(text, sizeof(text), "%.300g",
				 (double)narrow / 2 + (double)nextafterf(narrow, INFINITY) / 2);
			check_parse(text);
		}
	}
}

static void reads_hard_texts(void **state)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"0.0",
		"-0e5",
		"1",
		"+1",
		".5",
		"5.",
		"-.5e-3",
		"007",
		"1e5",
		"1E+5",
		"1e-5",
		"1e400",
		"-1e400",
		"1e-400",
		"0e999999999999999999999",
		"1e999999999999999999999",
		"1e-999999999999999999999",
		"9007199254740993",
		"9007199254740992.5",
		"9007199254740993.0000000000000000000000000000000000000001",
		"179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953"
		"514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236"
		"903222948165808559332123347747974e-500",
		"1.7976931348623157e308",
		"1.7976931348623158e308",
		"1.7976931348623159e308",
		"1.797693134862315807e308",
		"2.2250738585072011e-308",
		"2.2250738585072014e-308",
		"4.9406564584124654e-324",
		"2.4703282292062327e-324",
		"2.4703282292062328e-324",
		"2.47032822920623272088284396434110686182e-324",
		"3.4028234663852886e38",
		"3.4028235677973366e38",
		"3.4028235677973362e38",
		"1.401298464324817e-45",
		"7.006492321624085e-46",
		"7.006492321624086e-46",
		"1.00000017881393432617187499",
		"1.00000017881393432617187500",
		"1.00000017881393432617187501",
		"8388609.5",
		"16777217",
		"0.1",
		"0.2",
		"0.3",
		"1e22",
		"1e23",
		"1e-22",
		"1e-23",
		"12345678901234567890",
		"123456789012345678901234567890",
		"0.00000000000000000000000000000000001",
		"0.000000000000000000000000000000000012345678901234567890123",
		"1234567890123456789012345678901234567890e-30",
		"6.02214076e23",
		"1448997445238699",
		"7.2057594037927933e16",
		"72057594037927933",
		"inf",
		"-inf",
		"nan",
		"Infinity",
		"-INFINITY",
		"NaN",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		check_parse(texts[i]);
	check_parse(
		"100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
		"0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000");
}

static size_t used(const char *text, uint32_t flags, char point)
{
	double value;

	return weir_parse_double(text, strlen(text), (struct weir_number_grammar){flags, point}, &value);
}

static void keeps_to_the_grammar(void **state)
{
	double value;

	(void)state;
	assert_int_equal(used("", 31, '.'), 0);
	assert_int_equal(used("-", 31, '.'), 0);
	assert_int_equal(used(".", 31, '.'), 0);
	assert_int_equal(used("-.e5", 31, '.'), 0);
	assert_int_equal(used("e5", 31, '.'), 0);
	assert_int_equal(used(" 1", 31, '.'), 0);
	assert_int_equal(used("1 ", 31, '.'), 1);
	assert_int_equal(used("1_0", 31, '.'), 1);
	assert_int_equal(used("0x10", 31, '.'), 1);
	assert_int_equal(used("1e", 31, '.'), 1);
	assert_int_equal(used("1e+", 31, '.'), 1);
	assert_int_equal(used("1.5.5", 31, '.'), 3);
	assert_int_equal(used("+1", 0, '.'), 0);
	assert_int_equal(used("+1", WEIR_NUMBER_PLUS, '.'), 2);
	assert_int_equal(used(".5", 0, '.'), 0);
	assert_int_equal(used("5.", 0, '.'), 1);
	assert_int_equal(used("5.e3", WEIR_NUMBER_EXPONENT, '.'), 1);
	assert_int_equal(used("5.", WEIR_NUMBER_BARE_POINT, '.'), 2);
	assert_int_equal(used("05", 0, '.'), 0);
	assert_int_equal(used("0", 0, '.'), 1);
	assert_int_equal(used("0.5", 0, '.'), 3);
	assert_int_equal(used("05", WEIR_NUMBER_ZEROS, '.'), 2);
	assert_int_equal(used("1e5", 0, '.'), 1);
	assert_int_equal(used("nan", 0, '.'), 0);
	assert_int_equal(used("-Infinity", WEIR_NUMBER_JSON_NAMES, '.'), 9);
	assert_int_equal(used("inf", WEIR_NUMBER_JSON_NAMES, '.'), 0);
	assert_int_equal(used("infinit", WEIR_NUMBER_NAMES, '.'), 3);
	assert_int_equal(used("1.5", 31, ','), 1);
	assert_int_equal(used("1,5", 31, ','), 3);
	assert_int_equal(weir_parse_double("12,75", 5, (struct weir_number_grammar){31, ','}, &value), 5);
	assert_true(value == 12.75);
	assert_true(weir_parse_double_short("12,75", 5, ',', &value) && value == 12.75);
	assert_false(weir_parse_double_short("1.2.3", 5, '.', &value));
	assert_false(weir_parse_double_short("", 0, '.', &value));
	assert_false(weir_parse_double_short("-", 1, '.', &value));
	assert_false(weir_parse_double_short("-.", 2, '.', &value));
	assert_false(weir_parse_double_short("1e5", 3, '.', &value));
	assert_false(weir_parse_double_short("12\xb0", 3, '.', &value));
}

/* Every text of three bytes that could be part of a number: short and full agree, also about what is none. */
static void short_and_full_agree(void **state)
{
	static const char letters[] = "0159.-+,e n:/";
	char text[3];
	double quick = 0, value;
	int64_t whole, whole_quick = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(letters) * sizeof(letters) * sizeof(letters); i++) {
		text[0] = letters[i % sizeof(letters)];
		text[1] = letters[i / sizeof(letters) % sizeof(letters)];
		text[2] = letters[i / sizeof(letters) / sizeof(letters)];
		for (size_t size = 1; size <= 3; size++) {
			bool is = weir_parse_double(text, size, (struct weir_number_grammar){6, '.'}, &value) == size;

			assert_int_equal(weir_parse_double_short(text, size, '.', &quick), is);
			assert_true(!is || same(quick, value));
			is = weir_parse_i64(text, size, &whole);
			assert_int_equal(weir_parse_i64_short(text, size, &whole_quick), is);
			assert_true(!is || whole == whole_quick);
		}
	}
}

static void check_print(double value)
{
	char text[WEIR_NUMBER_TEXT_MAX + 1], shorter[64];
	size_t size = weir_format_double(value, text);
	int digits = 0;

	text[size] = 0;
	if (!same(strtod(text, NULL), value))
		fail_msg("%a is printed as %s", value, text);
	/* None with a digit less reads back. */
	for (const char *p = text; *p && *p != 'e'; p++)
		digits += *p >= '0' && *p <= '9' && (digits || *p != '0');
	if (!strchr(text, 'e'))
		for (const char *p = text + size - 1; p > text && (*p == '0' || *p == '.'); p--)
			digits -= *p == '0';
	if (digits > 1) {
		snprintf(shorter, sizeof(shorter), "%.*e", digits - 2, value);
		if (strtod(shorter, NULL) == value)
			fail_msg("%s is shorter than %s", shorter, text);
	}
}

static void prints_the_shortest(void **state)
{
	struct random random = random_seeded(23);
	char text[WEIR_NUMBER_TEXT_MAX + 1];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint32_t bits = (uint32_t)random_next(&random);
		float narrow, back;

		check_print(random_double(&random));
		memcpy(&narrow, &bits, 4);
		if (!isfinite(narrow))
			continue;
		text[weir_format_float(narrow, text)] = 0;
		back = strtof(text, NULL);
		if (memcmp(&narrow, &back, 4))
			fail_msg("%a is printed as %s", narrow, text);
	}
	for (int exponent = -1074; exponent < 1024; exponent++) {
		check_print(ldexp(1, exponent));
		check_print(nextafter(ldexp(1, exponent), 0));
		check_print(nextafter(ldexp(1, exponent), INFINITY));
	}
}

static void prints_as_repr(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{0, "0.0"},
		{-0.0, "-0.0"},
		{1, "1.0"},
		{-1.5, "-1.5"},
		{100, "100.0"},
		{1e15, "1000000000000000.0"},
		{9999999999999998, "9999999999999998.0"},
		{1e16, "1e+16"},
		{1.5e16, "1.5e+16"},
		{1e22, "1e+22"},
		{0.0001, "0.0001"},
		{0.00012, "0.00012"},
		{0.00001, "1e-05"},
		{0.000015, "1.5e-05"},
		{1e-7, "1e-07"},
		{5e-324, "5e-324"},
		{1.7976931348623157e308, "1.7976931348623157e+308"},
		{123456.789, "123456.789"},
		{0.1, "0.1"},
		{0.30000000000000004, "0.30000000000000004"},
		{2.5e-10, "2.5e-10"},
		{1e100, "1e+100"},
		{999999999, "999999999.0"},
		{1000000000, "1000000000.0"},
		{0.000001, "1e-06"},
		{1234.567891, "1234.567891"},
		{INFINITY, "inf"},
		{-INFINITY, "-inf"},
		{NAN, "nan"},
		{-NAN, "nan"},
		{9.5367431640625e-07, "9.5367431640625e-07"},
	};
	char text[WEIR_NUMBER_TEXT_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		text[weir_format_double(cases[i].value, text)] = 0;
		assert_string_equal(text, cases[i].text);
	}
	text[weir_format_float(0.1f, text)] = 0;
	assert_string_equal(text, "0.1");
	text[weir_format_float(16777216.0f, text)] = 0;
	assert_string_equal(text, "16777216.0");
	text[weir_format_float(1e-45f, text)] = 0;
	assert_string_equal(text, "1e-45");
}

static void integers(void **state)
{
	struct random random = random_seeded(24);
	char text[WEIR_NUMBER_TEXT_MAX + 1], expected[64];
	int64_t value;
	uint64_t natural;
	int32_t narrow;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t bits = random_next(&random) >> random_below(&random, 64);
		int64_t whole = random_below(&random, 2) ? (int64_t)bits : -(int64_t)bits;
		size_t size = weir_format_i64(whole, text);

		snprintf(expected, sizeof(expected), "%lld", (long long)whole);
		text[size] = 0;
		assert_string_equal(text, expected);
		assert_true(weir_parse_i64(text, size, &value) && value == whole);
		assert_int_equal(weir_parse_i32(text, size, &narrow), whole == (int32_t)whole);
		size = weir_format_u64(bits, text);
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)bits);
		text[size] = 0;
		assert_string_equal(text, expected);
		assert_true(weir_parse_u64(text, size, &natural) && natural == bits);
	}
	assert_true(weir_parse_i64("-9223372036854775808", 20, &value) && value == INT64_MIN);
	assert_false(weir_parse_i64("-9223372036854775809", 20, &value));
	assert_true(weir_parse_i64("9223372036854775807", 19, &value) && value == INT64_MAX);
	assert_false(weir_parse_i64("9223372036854775808", 19, &value));
	assert_true(weir_parse_u64("18446744073709551615", 20, &natural) && natural == UINT64_MAX);
	assert_false(weir_parse_u64("18446744073709551616", 20, &natural));
	assert_false(weir_parse_u64("99999999999999999999", 20, &natural));
	assert_false(weir_parse_u64("100000000000000000000", 21, &natural));
	assert_true(weir_parse_i64("-000000000000000000000000000012", 31, &value) && value == -12);
	assert_false(weir_parse_i64("", 0, &value));
	assert_false(weir_parse_i64("-", 1, &value));
	assert_false(weir_parse_i64("+1", 2, &value));
	assert_false(weir_parse_i64("12345678a", 9, &value));
	assert_false(weir_parse_u64("-1", 2, &natural));
}

static void numerals(void **state)
{
	struct weir_numeral numeral;
	int64_t value;
	uint64_t natural;

	(void)state;
	assert_int_equal(weir_numeral_scan("-120,", 5, WEIR_NUMBER_JSON, &numeral), 4);
	assert_true(numeral.is_integer && weir_numeral_i64(&numeral, &value) && value == -120);
	assert_int_equal(weir_numeral_scan("12e2", 4, WEIR_NUMBER_JSON, &numeral), 4);
	assert_true(!numeral.is_integer && !weir_numeral_i64(&numeral, &value) &&
		    weir_numeral_double(&numeral) == 1200);
	assert_int_equal(weir_numeral_scan("18446744073709551615", 20, WEIR_NUMBER_JSON, &numeral), 20);
	assert_true(!weir_numeral_i64(&numeral, &value) && weir_numeral_u64(&numeral, &natural) &&
		    natural == UINT64_MAX);
	assert_int_equal(weir_numeral_scan("123456789012345678901234567890", 30, WEIR_NUMBER_JSON, &numeral), 30);
	assert_true(numeral.is_integer && !weir_numeral_u64(&numeral, &natural));
	assert_true(weir_numeral_double(&numeral) == 123456789012345678901234567890.0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_printf_writes),
		cmocka_unit_test(rounds_ties_to_even),
		cmocka_unit_test(reads_hard_texts),
		cmocka_unit_test(keeps_to_the_grammar),
		cmocka_unit_test(short_and_full_agree),
		cmocka_unit_test(prints_the_shortest),
		cmocka_unit_test(prints_as_repr),
		cmocka_unit_test(integers),
		cmocka_unit_test(numerals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
