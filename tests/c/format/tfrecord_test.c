/* TFRecord files: those of the fuzz corpus, each with every byte changed, cut off at every length, and read in two
 * ranges at every place, the second one first; and lengths that lie. */
#include "base/fault.h"
#include "base/hash.h"
#include "corpus.h"
#include "inferred_feed.h"

#include <errno.h>

static int load(void **state)
{
	(void)state;
	return corpus_load("tfrecord");
}

static void test_every_cut_in_two(void **state)
{
	struct inferred_feed feed;
	uint64_t wrong_guesses = 0;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		int code = inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, 0);
		int64_t rows = feed.row_count;
		char *text;

		if ((code == WEIR_OK) != corpus_is_good(i))
			fail_msg("%s: %s", corpus_files[i].name, feed.error.message);
		if (code)
			continue;
		assert_true(rows > 0 || corpus_files[i].size == 0);
		text = strndup(feed.rows.size ? feed.rows.data : "", feed.rows.size);
		for (uint64_t cut = 1; cut < corpus_files[i].size; cut++) {
			assert_int_equal(inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, cut),
					 WEIR_OK);
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
	for (uint32_t i = 0; i < corpus_count; i++) {
		for (size_t at = 0; at < corpus_files[i].size; at++) {
			corpus_files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
			/* No byte of a file is without a checksum. */
			assert_int_not_equal(inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size, 0),
					     WEIR_OK);
			corpus_files[i].bytes[at] ^= (uint8_t)(1 << at % 8);
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
	uint8_t *copy = malloc(CORPUS_FILE_MAX);
	uint64_t noticed = 0, runs = 0;
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		for (size_t at = 0; at < corpus_files[i].size; at++) {
			for (uint32_t bit = 0; bit < 8; bit++) {
				memcpy(copy, corpus_files[i].bytes, corpus_files[i].size);
				copy[at] ^= (uint8_t)(1 << bit);
				checksums_mend(copy, corpus_files[i].size);
				noticed += inferred_feed_run(&feed, copy, corpus_files[i].size, 0) != WEIR_OK;
				runs++;
			}
		}
	}
	print_message("%llu of %llu changes were noticed\n", (unsigned long long)noticed, (unsigned long long)runs);
	assert_true(noticed > runs / 8);
	inferred_feed_end(&feed);
	free(copy);
}

/* Behind a damaged record nothing is looked at for its types: the damage is the error, not the features that are new
 * there. */
static void test_damage_before_new_features(void **state)
{
	/* a: int64 [1]; b: int64 [1] and a feature that ends too late; c: int64 [1] */
	static const uint8_t good[] = {0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, 'a',
				       0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0x01};
	static const uint8_t bad[] = {0x0a, 0x10, 0x0a, 0x0a, 0x0a, 0x01, 'b',  0x12, 0x05,
				      0x1a, 0x03, 0x0a, 0x01, 0x01, 0x0a, 0x7f, 0x0a, 0x01};
	static const uint8_t values[] = {0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, 'a',
					 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x7f, 0x01};
	const struct {
		const uint8_t *bytes;
		size_t size;
	} second[] = {{bad, sizeof(bad)}, {values, sizeof(values)}};
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (size_t i = 0; i < 2; i++) {
		uint8_t bytes[256] = {0};
		size_t size = 0;

		for (uint32_t record = 0; record < 3; record++) {
			const uint8_t *from = record == 1 ? second[i].bytes : good;
			uint64_t length = record == 1 ? second[i].size : sizeof(good);

			memcpy(bytes + size, &length, 8);
			memcpy(bytes + size + 12, from, length);
			if (record == 2)
				bytes[size + 12 + 6] = 'c';
			size += 16 + length;
		}
		checksums_mend(bytes, size);
		assert_int_equal(inferred_feed_run(&feed, bytes, size, 0), WEIR_E_DATA);
		assert_non_null(strstr(feed.error.message, "it has"));
		assert_true(feed.row_count <= 1);
	}
	inferred_feed_end(&feed);
}

static void test_every_end(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	for (uint32_t i = 0; i < corpus_count; i++) {
		size_t whole = 0;

		for (size_t size = 0; size < corpus_files[i].size; size++) {
			uint64_t length;

			/* Good where a record has just ended. */
			if (inferred_feed_run(&feed, corpus_files[i].bytes, size, 0) == WEIR_OK)
				assert_int_equal(size, whole);
			if (size == whole) {
				memcpy(&length, corpus_files[i].bytes + whole, 8);
				whole += 16 + length;
			}
		}
	}
	inferred_feed_end(&feed);
}

static void test_lengths_that_lie(void **state)
{
	static const uint64_t lengths[] = {
		1, 1 << 20, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT64_C(1) << 40, UINT64_MAX - 8, UINT64_MAX};
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
	for (uint32_t i = 0; i < corpus_count; i++) {
		for (size_t k = 0; corpus_is_good(i) && k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			for (uint64_t nth = 1;; nth++) {
				uint64_t calls;
				int code;

				inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
				feed.may_fail = true;
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, false);
				code = inferred_feed_run(&feed, corpus_files[i].bytes, corpus_files[i].size,
							 corpus_files[i].size / 2);
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
		cmocka_unit_test(test_damage_before_new_features),
		cmocka_unit_test(test_every_end),
		cmocka_unit_test(test_lengths_that_lie),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failure),
#endif
	};

	return cmocka_run_group_tests_name("TFRecord", tests, load, corpus_unload);
}
