/* Files that lie: each small file of the fuzz corpus with every byte changed, and cut at every length. The reader may
 * find nothing wrong (a value changed is another value), must never crash, read outside its buffers or forget memory.
 * Shared by the formats' tests, each of which says what is its own in `hostile`. */
#ifndef WEIR_TESTS_FORMAT_HOSTILE_H
#define WEIR_TESTS_FORMAT_HOSTILE_H

#include "base/fault.h"
#include "format_feed.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FILE_MAX = 64 << 10 };

static const struct hostile {
	const struct weir_format_ops *format;
	const char *name, *folder;
	/* Files whose names begin like this may end early, or have no rows; NULL: none. */
	const char *open_ended, *empty;
} hostile;

static bool begins(const char *name, const char *with)
{
	return with && strncmp(name, with, strlen(with)) == 0;
}

struct files {
	uint32_t count;
	struct {
		char name[256];
		uint8_t *bytes;
		size_t size;
	} items[256];
};

static struct files files;

static int load(void **state)
{
	DIR *dir = opendir(hostile.folder);
	struct dirent *entry;

	(void)state;
	assert_non_null(dir);
	while ((entry = readdir(dir)) && files.count < 256) {
		char path[512];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", hostile.folder, entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		snprintf(files.items[files.count].name, sizeof(files.items[0].name), "%s", entry->d_name);
		files.items[files.count].bytes = malloc(FILE_MAX);
		files.items[files.count].size = fread(files.items[files.count].bytes, 1, FILE_MAX, file);
		files.count++;
		fclose(file);
	}
	closedir(dir);
	assert_true(files.count >= 10);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < files.count; i++)
		free(files.items[i].bytes);
	return 0;
}

static void test_the_corpus_is_read(void **state)
{
	struct feed feed;

	(void)state;
	feed_begin(&feed, hostile.format);
	for (uint32_t i = 0; i < files.count; i++) {
		if (feed_run(&feed, files.items[i].bytes, files.items[i].size, 1)) {
			char text[2048];

			fail_msg("%s: %s", files.items[i].name, weir_error_format(&feed.error, text, sizeof(text)));
		}
		assert_true(feed.rows > 0 || begins(files.items[i].name, hostile.empty));
		assert_int_equal(feed_run(&feed, files.items[i].bytes, files.items[i].size, FEED_SMALL), WEIR_OK);
	}
	feed_end(&feed);
}

static void test_every_byte_changed(void **state)
{
	static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x10};
	struct feed feed;
	uint64_t found = 0, runs = 0;

	(void)state;
	for (uint32_t i = 0; i < files.count; i++) {
		uint8_t *bytes = files.items[i].bytes;

		feed_begin(&feed, hostile.format);
		for (size_t at = 0; at < files.items[i].size; at++) {
			uint8_t change = changes[at % 4];

			bytes[at] ^= change;
			found += feed_run(&feed, bytes, files.items[i].size,
					  at % 3 == 0   ? 1
					  : at % 3 == 1 ? 3
							: FEED_SMALL) != WEIR_OK;
			bytes[at] ^= change;
			runs++;
		}
		feed_end(&feed);
	}
	print_message("%llu of %llu changes were noticed\n", (unsigned long long)found, (unsigned long long)runs);
	assert_true(found > runs / 4);
}

static void test_every_cut(void **state)
{
	struct feed feed;

	(void)state;
	for (uint32_t i = 0; i < files.count; i++) {
		feed_begin(&feed, hostile.format);
		for (size_t size = 0; size < files.items[i].size; size++)
			if (feed_run(&feed, files.items[i].bytes, size, 1) == WEIR_OK)
				assert_true(begins(files.items[i].name, hostile.open_ended));
		feed_end(&feed);
	}
}

#ifdef WEIR_FAULTS
/* The n-th allocation or read of a run fails, for every n: the run fails with it, and nothing is left behind. */
static void test_every_failure(void **state)
{
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_MAP, WEIR_FAULT_READ};
	uint64_t failed = 0;
	struct feed feed;

	(void)state;
	for (uint32_t i = 0; i < files.count; i++) {
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			for (uint64_t nth = 1;; nth++) {
				uint64_t calls;
				int code;

				feed_begin(&feed, hostile.format);
				feed.may_fail = true;
				/* EINVAL: not one of those that a read tries again. */
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, false);
				code = feed_run(&feed, files.items[i].bytes, files.items[i].size,
						i % 2 ? 1 : FEED_SMALL);
				calls = weir_fault_count(kinds[k]);
				weir_fault_disarm();
				feed_end(&feed);
				failed += code != WEIR_OK;
				if (calls < nth) {
					assert_int_equal(code, WEIR_OK);
					break;
				}
			}
		}
	}
	print_message("%llu failures\n", (unsigned long long)failed);
	assert_true(failed > 100);
}
#endif

static inline int hostile_run(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_corpus_is_read),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_every_cut),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failure),
#endif
	};

	return cmocka_run_group_tests_name(hostile.name, tests, load, unload);
}

#endif
