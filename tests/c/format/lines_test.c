/* Text files cut at every byte into two ranges give the lines of the whole. */
#include "lines_cut.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEXT(literal)                                                                                                  \
	{                                                                                                              \
		literal, sizeof(literal) - 1                                                                           \
	}

static const struct {
	const char *bytes;
	size_t size;
} texts[] = {
	TEXT(""),
	TEXT("\n"),
	TEXT("a"),
	TEXT("a\n"),
	TEXT("\na\n\n\nb"),
	TEXT("a\r\nb\r\n\r\nc\rd\r"),
	TEXT("\r\n\r\n"),
	TEXT("\xef\xbb\xbf"),
	TEXT("\xef\xbb\xbf"
	     "first\nsecond\n"),
	TEXT("\xef\xbb\xbf\n\nthird\n"),
	TEXT("a\0b\n\0\n\0"),
	TEXT("Z\xc3\xbcrich\n\xf0\x9f\x98\x80\n  \t\n x \n"),
	TEXT("one line that is longer than twelve bytes\nand another one of that kind\n\n\nend"),
};

static void test_every_cut(void **state)
{
	struct feed feed;

	(void)state;
	feed_begin(&feed, &weir_lines_format);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const uint8_t *bytes = (const uint8_t *)texts[i].bytes;
		struct weir_format_file *file = lines_open(&feed, bytes, texts[i].size);
		struct lines whole = {0}, expected = {0};
		struct weir_error err = {0};

		assert_int_equal(lines_range(&feed, file, 0, texts[i].size, &whole, &err), WEIR_OK);
		if (lines_expect(bytes, texts[i].size, &expected)) {
			assert_int_equal(whole.count, expected.count);
			assert_int_equal(whole.size, expected.size);
			if (whole.size)
				assert_memory_equal(whole.text, expected.text, whole.size);
		}
		for (size_t cut = 1; cut < texts[i].size; cut++)
			assert_true(lines_cut_agrees(&feed, file, texts[i].size, cut, &whole, WEIR_OK));
		free(whole.text);
		free(expected.text);
		weir_format_file_unref(file);
	}
	feed_end(&feed);
}

/* Windows and lines of all proportions. */
static void test_long_lines(void **state)
{
	enum { SIZE = 3 << 20 };
	uint8_t *bytes = malloc(SIZE);
	struct feed feed;

	(void)state;
	assert_non_null(bytes);
	feed_begin(&feed, &weir_lines_format);
	for (size_t step = 700; step < SIZE; step = step * 5 + 3) {
		struct lines whole = {0}, expected = {0};
		struct weir_format_file *file;
		struct weir_error err = {0};

		for (size_t i = 0; i < SIZE; i++)
			bytes[i] = i % step == step - 1 ? '\n' : (uint8_t)('a' + i % 23);
		file = lines_open(&feed, bytes, SIZE);
		assert_true(lines_expect(bytes, SIZE, &expected));
		assert_int_equal(lines_range(&feed, file, 0, SIZE, &whole, &err), WEIR_OK);
		assert_int_equal(whole.size, expected.size);
		assert_memory_equal(whole.text, expected.text, whole.size);
		for (size_t cut = 1; cut < SIZE; cut += SIZE / 7)
			assert_true(lines_cut_agrees(&feed, file, SIZE, cut, &whole, WEIR_OK));
		free(whole.text);
		free(expected.text);
		weir_format_file_unref(file);
	}
	feed_end(&feed);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_long_lines),
	};

	return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
