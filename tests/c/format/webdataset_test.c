/* WebDataset shards: those of the fuzz corpus, each with every byte changed, cut off at every length, and read in two
 * ranges. */
#include "base/fault.h"
#include "corpus.h"
#include "inferred_feed.h"

#include <errno.h>

static int load(void **state)
{
	(void)state;
	return corpus_load("webdataset");
}

static void test_every_sample_begins_a_range(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		int code = inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, 0);
		int64_t rows = feed.row_count;
		char *text;

		if ((code == WEIR_OK) != corpus_is_good(i))
			fail_msg("%s: %s", corpus_files[i].name, feed.error.message);
		if (code)
			continue;
		assert_true(rows > 1);
		text = strndup(feed.rows.data, feed.rows.size);
		for (int64_t cut = 1; cut <= rows; cut++) {
			assert_int_equal(
				inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, (uint64_t)cut),
				WEIR_OK);
			assert_int_equal(feed.row_count, rows);
			assert_memory_equal(feed.rows.data, text, feed.rows.size);
		}
		free(text);
	}
	inferred_feed_end(&feed);
}

static void test_every_byte_changed(void **state)
{
	struct inferred_feed feed;
	uint64_t noticed = 0, runs = 0;

	(void)state;
	inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		for (size_t at = 0; at < corpus_files[i].size; at++) {
			corpus_files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
			noticed += inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, 0) != WEIR_OK;
			corpus_files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
			runs++;
		}
	}
	print_message("%llu of %llu changes were noticed\n", (unsigned long long)noticed, (unsigned long long)runs);
	assert_true(noticed > runs / 8);
	inferred_feed_end(&feed);
}

static bool is_header(const uint8_t *block)
{
	return memcmp(block + 257, "ustar", 5) == 0;
}

/* The same with checksums that agree. */
static void test_every_byte_of_headers_changed_and_summed(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		uint8_t *bytes = corpus_files[i].bytes, saved[512];

		for (size_t block = 0; block + 512 <= corpus_files[i].size; block += 512) {
			if (!is_header(bytes + block))
				continue;
			memcpy(saved, bytes + block, 512);
			for (size_t at = 0; at < 512; at++) {
				for (uint32_t bit = 0; bit < 8; bit++) {
					unsigned sum = 8 * ' ';

					bytes[block + at] ^= (uint8_t)(1 << bit);
					for (size_t k = 0; k < 512; k++)
						sum += k >= 148 && k < 156 ? 0 : bytes[block + k];
					snprintf((char *)bytes + block + 148, 8, "%06o", sum);
					bytes[block + 155] = ' ';
					inferred_feed_run(&feed, bytes, corpus_files[i].size, 0);
					memcpy(bytes + block, saved, 512);
				}
			}
		}
	}
	inferred_feed_end(&feed);
}

static void test_every_end(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		/* A whole header at least: what is there of a member is all of it, or it is an error. */
		for (size_t size = 0; size < corpus_files[i].size; size++)
			if (inferred_feed_run(&feed, corpus_files[i].bytes, size, 0) == WEIR_OK)
				assert_true(size >= 512);
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
	for (uint32_t i = 0; i < corpus_count; i++) {
		for (size_t k = 0; corpus_is_good(i) && k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			for (uint64_t nth = 1;; nth++) {
				uint64_t calls;
				int code;

				inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
				feed.may_fail = true;
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, false);
				code = inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, 1);
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
		cmocka_unit_test(test_every_sample_begins_a_range),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_every_byte_of_headers_changed_and_summed),
		cmocka_unit_test(test_every_end),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failure),
#endif
	};

	return cmocka_run_group_tests_name("WebDataset", tests, load, corpus_unload);
}
