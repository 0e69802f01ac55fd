/* TFRecord files: those of the fuzz corpus, each with every byte changed, cut off at every length, and read in two ranges at every
 * place, the second one first; and lengths that lie. */
#include "base/fault.h"
#include "base/hash.h"
#include "inferred_feed.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FILES_MAX = 64, FILE_MAX = 64 << 10 };

static struct {
	char name[64];
	uint8_t *bytes;
	size_t size;
} files[FILES_MAX];
static uint32_t file_count;

static int load(void **state)
{
	DIR *dir = opendir("tests/fuzz/corpus/tfrecord");
	struct dirent *entry;

	(void)state;
	assert_non_null(dir);
	while ((entry = readdir(dir)) && file_count < FILES_MAX) {
		char path[512];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "tests/fuzz/corpus/tfrecord/%s", entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		snprintf(files[file_count].name, sizeof(files[0].name), "%.60s", entry->d_name);
		files[file_count].bytes = malloc(FILE_MAX);
		files[file_count].size = fread(files[file_count].bytes, 1, FILE_MAX, file);
		file_count++;
		fclose(file);
	}
	closedir(dir);
	assert_true(file_count >= 8);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < file_count; i++)
		free(files[i].bytes);
	return 0;
}

/* Names of the corpus that are read; the others are wrong on purpose. */
static bool is_good(uint32_t i)
{
	return strncmp(files[i].name, "bad_", 4) != 0;
}

static void test_every_cut_in_two(void **state)
{
	struct inferred_feed feed;
	uint64_t wrong_guesses = 0;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		int code = inferred_feed_run(&feed, files[i].bytes, files[i].size, 0);
		int64_t rows = feed.row_count;
		char *text;

		if ((code == WEIR_OK) != is_good(i))
			fail_msg("%s: %s", files[i].name, feed.error.message);
		if (code)
			continue;
		assert_true(rows > 0 || files[i].size == 0);
		text = strndup(feed.rows.size ? feed.rows.data : "", feed.rows.size);
		for (uint64_t cut = 1; cut < files[i].size; cut++) {
			assert_int_equal(inferred_feed_run(&feed, files[i].bytes, files[i].size, cut), WEIR_OK);
			assert_int_equal(feed.row_count, rows);
			assert_int_equal(feed.rows.size, strlen(text));
			if (feed.rows.size)
				assert_memory_equal(feed.rows.data, text, feed.rows.size);
			wrong_guesses += feed.guessed_wrong;
		}
		free(text);
	}
	/* A file of the corpus has records inside of records. */
	assert_true(wrong_guesses > 0);
	inferred_feed_end(&feed);
}

static void test_every_byte_changed(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		for (size_t at = 0; at < files[i].size; at++) {
			files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
			/* No byte of a file is without a checksum. */
			assert_int_not_equal(inferred_feed_run(&feed, files[i].bytes, files[i].size, 0), WEIR_OK);
			files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
		}
	}
	inferred_feed_end(&feed);
}

/* The same with checksums that agree: what is inside is wrong then. */
static void checksums_mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 16 <= size;) {
		uint64_t length;
		uint32_t crc = weir_crc32c(0, bytes + at, 8);

		crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
		memcpy(bytes + at + 8, &crc, 4);
		memcpy(&length, bytes + at, 8);
		if (length > size - at - 16)
			return;
		crc = weir_crc32c(0, bytes + at + 12, length);
		crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
		memcpy(bytes + at + 12 + length, &crc, 4);
		at += 16 + length;
	}
}

static void test_every_byte_changed_and_summed(void **state)
{
	uint8_t *copy = malloc(FILE_MAX);
	uint64_t noticed = 0, runs = 0;
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		for (size_t at = 0; at < files[i].size; at++) {
			for (uint32_t bit = 0; bit < 8; bit++) {
				memcpy(copy, files[i].bytes, files[i].size);
				copy[at] ^= (uint8_t)(1 << bit);
				checksums_mend(copy, files[i].size);
				noticed += inferred_feed_run(&feed, copy, files[i].size, 0) != WEIR_OK;
				runs++;
			}
		}
	}
	print_message("%llu of %llu changes were noticed\n", (unsigned long long)noticed, (unsigned long long)runs);
	assert_true(noticed > runs / 8);
	inferred_feed_end(&feed);
	free(copy);
}

static void test_every_end(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		size_t whole = 0;

		for (size_t size = 0; size < files[i].size; size++) {
			uint64_t length;

			/* Good where a record has just ended. */
			if (inferred_feed_run(&feed, files[i].bytes, size, 0) == WEIR_OK)
				assert_int_equal(size, whole);
			if (size == whole) {
				memcpy(&length, files[i].bytes + whole, 8);
				whole += 16 + length;
			}
		}
	}
	inferred_feed_end(&feed);
}

static void test_lengths_that_lie(void **state)
{
	static const uint64_t lengths[] = {1, 1 << 20, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT64_C(1) << 40, UINT64_MAX - 8, UINT64_MAX};
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint8_t bytes[16] = {0};

		memcpy(bytes, &lengths[i], 8);
		checksums_mend(bytes, sizeof(bytes));
		assert_int_equal(inferred_feed_run(&feed, bytes, sizeof(bytes), 0), WEIR_E_DATA);
		assert_non_null(strstr(feed.error.message, "says that it has"));
	}
	inferred_feed_end(&feed);
}

#ifdef WEIR_FAULTS
/* The n-th allocation or read of a run fails, for every n: the run fails with it, and nothing is left behind. */
static void test_every_failure(void **state)
{
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_MAP, WEIR_FAULT_READ};
	struct inferred_feed feed;
	uint64_t failed = 0;

	(void)state;
	for (uint32_t i = 0; i < file_count; i++) {
		for (size_t k = 0; is_good(i) && k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			for (uint64_t nth = 1;; nth++) {
				uint64_t calls;
				int code;

				inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
				feed.may_fail = true;
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, false);
				code = inferred_feed_run(&feed, files[i].bytes, files[i].size, files[i].size / 2);
				calls = weir_fault_count(kinds[k]);
				weir_fault_disarm();
				inferred_feed_end(&feed);
				failed += code != WEIR_OK;
				if (calls < nth)
					break;
			}
		}
	}
	print_message("%llu failures\n", (unsigned long long)failed);
	assert_true(failed > 100);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cut_in_two),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_every_byte_changed_and_summed),
		cmocka_unit_test(test_every_end),
		cmocka_unit_test(test_lengths_that_lie),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failure),
#endif
	};

	return cmocka_run_group_tests_name("TFRecord", tests, load, unload);
}
