/* Amounts of memory: what is read, what is refused, what is printed. */
#include "base/mem.h"
#include "support.h"

static void amounts_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} cases[] = {
		{"0", 0},
		{"1000000", 1000000},
		{"1B", 1},
		{"256M", INT64_C(256) << 20},
		{"256m", INT64_C(256) << 20},
		{"256MiB", INT64_C(256) << 20},
		{"256 MiB", INT64_C(256) << 20},
		{"256MB", 256000000},
		{"1.5GiB", INT64_C(3) << 29},
		{"1.5G", INT64_C(3) << 29},
		{"2GB", 2000000000},
		{"64KiB", 65536},
		{"64K", 65536},
		{"64kB", 64000},
		{".5K", 512},
		{"1.K", 1024},
		{"0.1M", 104857},
		{"0.3333333333333333333333M", 349525},
		{"3T", INT64_C(3) << 40},
		{"3TiB", INT64_C(3) << 40},
		{"3TB", 3000000000000},
		{"1P", INT64_C(1) << 50},
		{"9223372036854775807", INT64_MAX},
		{"8191.9999P", INT64_C(9223371924264785123)},
	};
	struct weir_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t bytes = -1;

		if (weir_parse_bytes(cases[i].text, &bytes, &err))
			fail_msg("%s: %s", cases[i].text, err.message);
		if (bytes != cases[i].bytes)
			fail_msg("%s: %lld", cases[i].text, (long long)bytes);
	}
}

static void nonsense_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		" ",
		"M",
		".",
		".M",
		"-1",
		"+1",
		"1 2",
		"1X",
		"1MM",
		"1iB",
		"0x10",
		"1e3",
		"1..5K",
		"1.5.5K",
		" 1M",
		"1M ",
		"9223372036854775808",
		"8192P",
		"99999999999999999999999999999999999999999999",
		"9223372036854775807K",
		"inf",
		"nan",
		"1,5G",
		"1\t",
		"١M",
	};
	struct weir_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t bytes = 77;

		if (weir_parse_bytes(cases[i], &bytes, &err) != WEIR_E_INVALID)
			fail_msg("'%s' was read as %lld", cases[i], (long long)bytes);
		assert_int_equal(bytes, 77);
		assert_non_null(strstr(err.message, cases[i]));
	}
}

static void amounts_are_printed(void **state)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{1048524, "1023.9 KiB"},
		{1048575, "1.0 MiB"},
		{INT64_C(256) << 20, "256.0 MiB"},
		{(INT64_C(1) << 40) - 1, "1.0 TiB"},
		{INT64_C(5) << 50, "5.0 PiB"},
		{INT64_MAX, "8.0 EiB"},
		{-1536, "-1.5 KiB"},
		{INT64_MIN, "-8.0 EiB"},
	};
	char buffer[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(weir_format_bytes(cases[i].bytes, buffer, sizeof(buffer)), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_are_read),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(amounts_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
