/* The window over a stream of text: sliding, growing, offsets; line ends; which parts of files are samples. */
#include "format/text_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILE_SIZE = 1 << 20 };

static void test_window(void **state)
{
	static uint8_t bytes[FILE_SIZE];
	struct weir_stream_options options = {0};
	struct weir_text_input input;
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_io *io;
	struct weir_file *file;
	uint64_t seen = 0;
	char path[64];
	int fd = memfd_create("text", MFD_CLOEXEC);

	(void)state;
	for (size_t i = 0; i < FILE_SIZE; i++)
		bytes[i] = (uint8_t)(i * 31 + (i >> 8));
	assert_int_equal(write(fd, bytes, FILE_SIZE), FILE_SIZE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(weir_mem_new(0, &mem, &err), 0);
	assert_int_equal(weir_io_new(weir_mem_root(mem), 1, &io, &err), 0);
	assert_int_equal(weir_file_open(weir_mem_root(mem), path, &file, &err), 0);
	weir_text_input_init(&input, weir_mem_root(mem));
	for (uint64_t begin = 0; begin < 3000; begin += 1234) {
		assert_int_equal(weir_text_input_open(&input, io, file, begin, &options, &err), 0);
		for (seen = begin; !(input.at_end && input.begin == input.end); seen += 777) {
			/* more than is there: it grows, and keeps what is unread */
			size_t want = seen % 5 ? 4000 : 90000;

			assert_int_equal(weir_text_input_fill(&input, want, &err), 0);
			assert_true(input.at_end || input.end - input.begin >= want);
			assert_int_equal(weir_text_input_offset(&input), seen < FILE_SIZE ? seen : FILE_SIZE);
			assert_memory_equal(input.text + input.begin, bytes + weir_text_input_offset(&input),
					    input.end - input.begin);
			input.begin += input.end - input.begin < 777 ? input.end - input.begin : 777;
		}
		assert_int_equal(input.offset + input.end, FILE_SIZE);
	}
	weir_text_input_release(&input);
	weir_text_input_release(&input);
	weir_file_unref(file);
	weir_io_free(io);
	weir_mem_free(mem);
	close(fd);
}

static void test_line_ends(void **state)
{
	static const struct {
		const char *text;
		uint64_t count;
	} cases[] = {{"", 0},       {"a", 0},    {"a\n", 1}, {"\n\n", 2},
		     {"a\r\nb", 1}, {"a\rb", 1}, {"a\r", 1}, {"\r\r\n\n", 3}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(weir_text_line_ends(cases[i].text, strlen(cases[i].text)), cases[i].count);
}

static void test_samples(void **state)
{
	struct weir_text_sample samples[WEIR_SAMPLES_MAX];

	(void)state;
	assert_int_equal(weir_sample_file_count(0), 0);
	assert_int_equal(weir_sample_file_count(3), 3);
	assert_int_equal(weir_sample_file_count(1000), WEIR_SAMPLE_FILES);
	assert_int_equal(weir_sample_file(0, 1000), 0);
	assert_int_equal(weir_sample_file(WEIR_SAMPLE_FILES - 1, 1000), 999);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(weir_sample_file(i, 3), i);
	assert_int_equal(weir_text_samples(100, true, 1, samples), 1);
	assert_int_equal(weir_text_samples((uint64_t)1 << 40, false, 1, samples), 1);
	assert_int_equal(weir_text_samples((uint64_t)1 << 40, true, 1, samples), 3);
	assert_int_equal(samples[0].begin, 0);
	assert_int_equal(samples[1].begin, (uint64_t)1 << 39);
	assert_int_equal(samples[2].begin + samples[2].size, (uint64_t)1 << 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
