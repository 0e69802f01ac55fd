/* Codes, messages and context; texts that do not fit are cut between characters, never inside one. */
#include "base/error.h"
#include "base/base_impl.h"
#include "base/utf8.h"
#include "support.h"

#include <errno.h>

static void every_code_has_name_text_and_exception(void **state)
{
	(void)state;
	for (int code = 0; code < WEIR_CODE_COUNT; code++) {
		assert_int_equal(strncmp(weir_code_name(code), "WEIR_", 5), 0);
		assert_true(strlen(weir_code_text(code)) > 0);
		assert_int_equal(strlen(weir_code_python(code)) > 0, code != WEIR_OK);
	}
	assert_string_equal(weir_code_name(WEIR_E_DATA), "WEIR_E_DATA");
	assert_string_equal(weir_code_python(WEIR_E_NOT_FOUND), "FileNotFoundError");
	assert_non_null(weir_code_text(-1));
	assert_non_null(weir_code_text(WEIR_CODE_COUNT));
}

static void set_fills_and_clears(void **state)
{
	struct weir_error err = {0};

	(void)state;
	err.code = WEIR_E_IO;
	weir_error_at_source(&err, "old");
	weir_error_at_row(&err, 5);
	errno = EBUSY;
	assert_int_equal(weir_error_set(&err, WEIR_E_DATA, "%d bytes of %s", 3, "x"), WEIR_E_DATA);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(err.code, WEIR_E_DATA);
	assert_string_equal(err.message, "3 bytes of x");
	assert_string_equal(err.source, "");
	assert_false(err.has_row);
	/* A message may quote the one that it replaces. */
	weir_error_set(&err, WEIR_E_INTERNAL, "after \"%s\"", err.message);
	assert_string_equal(err.message, "after \"3 bytes of x\"");
	weir_error_clear(&err);
	assert_int_equal(err.code, WEIR_OK);
}

static void errno_chooses_the_code(void **state)
{
	static const struct {
		int errno_value, code;
	} cases[] = {
		{ENOENT, WEIR_E_NOT_FOUND}, {ENOSPC, WEIR_E_NO_SPACE}, {EDQUOT, WEIR_E_NO_SPACE},
		{ENOMEM, WEIR_E_MEMORY},    {EEXIST, WEIR_E_EXISTS},   {EIO, WEIR_E_IO},
		{EACCES, WEIR_E_IO},
	};
	struct weir_error err;
	char longer[2000];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(weir_error_set_errno(&err, cases[i].errno_value, "cannot open %s", "f"),
				 cases[i].code);
		assert_int_equal(err.errno_value, cases[i].errno_value);
		assert_int_equal(strncmp(err.message, "cannot open f: ", 15), 0);
		assert_non_null(strstr(err.message, strerror(cases[i].errno_value)));
	}
	/* The reason outlives a message that is too long. */
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	weir_error_set_errno(&err, ENOSPC, "%s", longer);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_non_null(strstr(err.message, strerror(ENOSPC)));
}

static void context_is_added_once_and_only_to_errors(void **state)
{
	struct weir_error err = {0};

	(void)state;
	weir_error_at_source(&err, "f");
	weir_error_at_offset(&err, 1);
	weir_error_at_row(&err, 1);
	weir_error_at_column(&err, "c");
	weir_error_at_operator(&err, "o");
	assert_true(!err.source[0] && !err.has_offset && !err.has_row && !err.column[0] && !err.operator_name[0]);
	weir_error_set(&err, WEIR_E_DATA, "bad");
	weir_error_at_row(&err, WEIR_NO_ROW);
	weir_error_at_offset(&err, WEIR_NO_OFFSET);
	assert_true(!err.has_row && !err.has_offset);
	weir_error_at_source(&err, "inner");
	weir_error_at_source(&err, "outer");
	weir_error_at_row(&err, 0);
	weir_error_at_row(&err, 9);
	weir_error_at_offset(&err, 0);
	weir_error_at_offset(&err, 9);
	assert_string_equal(err.source, "inner");
	assert_true(err.has_row && err.row == 0 && err.has_offset && err.offset == 0);
}

static void format_is_one_line(void **state)
{
	struct weir_error err;
	char line[256], small[12];

	(void)state;
	weir_error_set(&err, WEIR_E_DATA, "page is cut short");
	assert_string_equal(weir_error_format(&err, line, sizeof(line)), "page is cut short");
	weir_error_at_source(&err, "data/a.parquet");
	assert_string_equal(weir_error_format(&err, line, sizeof(line)), "data/a.parquet: page is cut short");
	weir_error_at_column(&err, "price");
	weir_error_at_row(&err, 17);
	weir_error_at_offset(&err, 4096);
	assert_string_equal(weir_error_format(&err, line, sizeof(line)),
			    "data/a.parquet: column price, row 17, byte 4096: page is cut short");
	weir_error_at_operator(&err, "filter");
	assert_string_equal(weir_error_format(&err, line, sizeof(line)),
			    "data/a.parquet: operator filter, column price, row 17, byte 4096: page is cut short");
	assert_string_equal(weir_error_format(&err, small, sizeof(small)), "data/a.parq");
	weir_error_set(&err, WEIR_E_CANCELLED, "%s", "");
	assert_string_equal(weir_error_format(&err, line, sizeof(line)), "cancelled");
}

static void cuts_fall_between_characters(void **state)
{
	static const char *const characters[] = {"a", "é", "€", "𝄞"};
	struct random random = random_seeded(1);
	struct weir_error err;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		char text[1600], line[300];
		size_t size = 0, line_size = 1 + random_below(&random, sizeof(line) - 1);

		while (size < sizeof(text) - 5) {
			const char *character = characters[random_below(&random, 4)];

			memcpy(text + size, character, strlen(character));
			size += strlen(character);
		}
		text[size] = '\0';
		weir_error_set(&err, WEIR_E_DATA, "%s", text + 0);
		weir_error_at_source(&err, text);
		weir_error_at_column(&err, text);
		weir_error_at_operator(&err, text);
		weir_error_format(&err, line, line_size);
		assert_true(weir_utf8_valid(err.message, strlen(err.message)));
		assert_true(weir_utf8_valid(err.source, strlen(err.source)));
		assert_true(weir_utf8_valid(err.column, strlen(err.column)));
		assert_true(weir_utf8_valid(line, strlen(line)));
		assert_true(strlen(err.message) >= sizeof(err.message) - 4);
		assert_true(strlen(line) + 4 >= line_size);
		weir_error_set_errno(&err, EIO, "%s", text);
		assert_true(weir_utf8_valid(err.message, strlen(err.message)));
		assert_non_null(strstr(err.message, strerror(EIO)));
	}
}

static void whole_characters_are_left_alone(void **state)
{
	(void)state;
	assert_int_equal(weir_text_cut("a€", 4), 4);
	assert_int_equal(weir_text_cut("a€", 3), 1);
	assert_int_equal(weir_text_cut("a€", 2), 1);
	assert_int_equal(weir_text_cut("a€", 1), 1);
	assert_int_equal(weir_text_cut("", 0), 0);
	/* What is no UTF-8 at all is not shortened for ever. */
	assert_int_equal(weir_text_cut("\x80\x80\x80\x80\x80\x80", 6), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_has_name_text_and_exception),
		cmocka_unit_test(set_fills_and_clears),
		cmocka_unit_test(errno_chooses_the_code),
		cmocka_unit_test(context_is_added_once_and_only_to_errors),
		cmocka_unit_test(format_is_one_line),
		cmocka_unit_test(cuts_fall_between_characters),
		cmocka_unit_test(whole_characters_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
