/* JSON text of every layout, cut at every byte, changed at every byte, cut short at every length, with every allocation
 * and read failing; and the kernels of this CPU level against the portable ones. */
#include "base/fault.h"
#include "format/json/json_impl.h"
#include "inferred_feed.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FILES_MAX = 64, FILE_MAX = 8 << 10 };

static struct {
	char name[64];
	uint8_t bytes[FILE_MAX];
	size_t size;
} files[FILES_MAX];
static uint32_t file_count;

static int load(void **state)
{
	const char *folder = "tests/fuzz/corpus/json";
	DIR *dir = opendir(folder);
	struct dirent *entry;

	(void)state;
	assert_non_null(dir);
	while ((entry = readdir(dir)) && file_count < FILES_MAX) {
		char path[512];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		snprintf(files[file_count].name, sizeof(files[0].name), "%.60s", entry->d_name);
		files[file_count].size = fread(files[file_count].bytes, 1, FILE_MAX, file);
		file_count++;
		fclose(file);
	}
	closedir(dir);
	assert_true(file_count >= 10);
	return 0;
}

static void test_every_cut_gives_the_same_rows(void **state)
{
	struct inferred_feed feed;
	uint32_t wrong = 0;

	(void)state;
	inferred_feed_begin(&feed, &weir_json_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		char *whole;
		int64_t rows;

		assert_int_equal(inferred_feed_run(&feed, files[i].bytes, files[i].size, 0), WEIR_OK);
		whole = feed.rows.size ? strdup(feed.rows.data) : strdup("");
		rows = feed.row_count;
		assert_true(rows > 0 || strncmp(files[i].name, "empty", 5) == 0);
		for (uint64_t cut = 1; cut < files[i].size; cut++) {
			assert_int_equal(inferred_feed_run(&feed, files[i].bytes, files[i].size, cut), WEIR_OK);
			assert_int_equal(feed.row_count, rows);
			assert_string_equal(feed.rows.size ? feed.rows.data : "", whole);
			wrong += feed.guessed_wrong;
		}
		free(whole);
	}
	assert_true(wrong > 0);
	inferred_feed_end(&feed);
}

static void test_every_byte_changed(void **state)
{
	static const uint8_t changes[] = {'"', '\\', '{', '}', '[', ']', ',', ':', '\n', ' ', 0, 0xff, '1', 'e', '-'};
	struct inferred_feed feed;
	uint64_t found = 0, runs = 0;

	(void)state;
	inferred_feed_begin(&feed, &weir_json_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++) {
		for (size_t at = 0; at < files[i].size; at++) {
			for (size_t k = 0; k < sizeof(changes); k++) {
				uint8_t before = files[i].bytes[at];

				files[i].bytes[at] = changes[k];
				found += inferred_feed_run(&feed, files[i].bytes, files[i].size,
							   at % 7 == 0 ? at / 2 + 1 : 0) != WEIR_OK;
				files[i].bytes[at] = before;
				runs++;
			}
		}
	}
	print_message("%llu of %llu changes were noticed\n", (unsigned long long)found, (unsigned long long)runs);
	assert_true(found > runs / 2);
	inferred_feed_end(&feed);
}

static void test_every_end(void **state)
{
	struct inferred_feed feed;

	(void)state;
	inferred_feed_begin(&feed, &weir_json_format, NULL, 0);
	for (uint32_t i = 0; i < file_count; i++)
		for (size_t size = 0; size < files[i].size; size++)
			(void)inferred_feed_run(&feed, files[i].bytes, size, size / 2); /* must not crash or leak */
	/* An array that is not closed is noticed wherever it ends. */
	for (size_t size = 1; size < sizeof("[{\"a\":1},{\"a\":2}]") - 1; size++)
		assert_int_equal(inferred_feed_run(&feed, "[{\"a\":1},{\"a\":2}]", size, 0), WEIR_E_DATA);
	inferred_feed_end(&feed);
}

#ifdef WEIR_FAULTS
static void test_every_failure(void **state)
{
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_MAP, WEIR_FAULT_READ};
	uint64_t failed = 0;

	(void)state;
	for (uint32_t i = 0; i < file_count; i++) {
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			for (uint64_t nth = 1;; nth++) {
				struct inferred_feed feed;
				uint64_t calls;
				int code;

				inferred_feed_begin(&feed, &weir_json_format, NULL, 0);
				feed.may_fail = true;
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, false);
				code = inferred_feed_run(&feed, files[i].bytes, files[i].size,
							 i % 2 ? files[i].size / 2 : 0);
				calls = weir_fault_count(kinds[k]);
				weir_fault_disarm();
				inferred_feed_end(&feed);
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

static uint64_t seed = 42;

static uint32_t random_below(uint32_t bound)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % bound;
}

static void test_kernels_equal_the_portable_ones(void **state)
{
	static const char alphabet[] = "\"\"\\\\{}[]:, \n\t\rab1\x0c\x1a\x01\xc3\xa9";
	const struct json_kernels *ours = json_kernels_choose(), *portable = json_kernels_portable();
	static uint8_t text[1024 + 2 * JSON_BLOCK];
	static uint32_t a[1024 + JSON_BLOCK + JSON_ENTRY_SLACK], b[1024 + JSON_BLOCK + JSON_ENTRY_SLACK];

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t size = random_below(1024), common = random_below(8);
		struct json_scan scan_a = {0}, scan_b = {0};
		size_t count_a, count_b;
		bool lines = round & 1;

		for (uint32_t i = 0; i < size; i++)
			text[i] = random_below(8) < common ? 'x'
							   : (uint8_t)alphabet[random_below(sizeof(alphabet) - 1)];
		memset(text + size, ' ', JSON_BLOCK);
		count_a = ours->index(text, 0, size, lines, &scan_a, a);
		count_b = portable->index(text, 0, size, lines, &scan_b, b);
		assert_int_equal(count_a, count_b);
		assert_memory_equal(a, b, count_a * sizeof(*a));
		assert_int_equal(scan_a.newlines, scan_b.newlines);
		assert_int_equal(scan_a.in_string, scan_b.in_string);
		assert_int_equal(scan_a.is_escaped, scan_b.is_escaped);
		assert_int_equal(!scan_a.escapes, !scan_b.escapes);
		assert_int_equal(!scan_a.high, !scan_b.high);
		assert_int_equal(ours->count_newlines(text, size), portable->count_newlines(text, size));
	}
}

/* What an entry is, said once more, slowly. */
static void test_entries_are_what_they_are_said_to_be(void **state)
{
	static const char alphabet[] = "\"\"\"\\{}[]:, \n1a";
	static uint8_t text[512 + 2 * JSON_BLOCK];
	static uint32_t entries[512 + JSON_BLOCK + JSON_ENTRY_SLACK];

	(void)state;
	for (uint32_t round = 0; round < 5000; round++) {
		uint32_t size = random_below(512), expected = 0;
		bool in_string = false, escaped = false, in_scalar = false;
		struct json_scan scan = {0};
		size_t count;

		for (uint32_t i = 0; i < size; i++)
			text[i] = (uint8_t)alphabet[random_below(sizeof(alphabet) - 1)];
		memset(text + size, ' ', JSON_BLOCK);
		count = json_kernels_choose()->index(text, 0, size, false, &scan, entries);
		for (uint32_t i = 0; i < size; i++) {
			uint8_t byte = text[i];
			bool is_quote = byte == '"' && !escaped, is_op = strchr("{}[]:,", byte) != NULL;
			bool is_scalar = !in_string && !is_quote && !is_op && byte != ' ' && byte != '\n';
			bool is_entry = is_quote || (!in_string && is_op) || (is_scalar && !in_scalar) ||
					(in_string && byte == '\n');

			if (is_entry) {
				assert_true(expected < count);
				assert_int_equal(entries[expected++], i);
			}
			escaped = byte == '\\' && !escaped;
			if (is_quote)
				in_string = !in_string;
			in_scalar = is_scalar;
		}
		assert_int_equal(expected, count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_equal_the_portable_ones),
		cmocka_unit_test(test_entries_are_what_they_are_said_to_be),
		cmocka_unit_test(test_every_cut_gives_the_same_rows),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_every_end),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failure),
#endif
	};

	return cmocka_run_group_tests_name("JSON", tests, load, NULL);
}
