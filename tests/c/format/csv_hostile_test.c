/* The seeds of the fuzz target, whole, shortened and changed; and with each allocation and each read failing in
 * turn. */
#include "csv_feed.h"

#include "base/fault.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEED_MAX = 64 << 10 };

static void each_seed(void (*visit)(uint8_t *bytes, size_t size))
{
	static uint8_t bytes[SEED_MAX];
	DIR *folder = opendir("tests/fuzz/corpus/csv");
	struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		char path[512];
		FILE *file;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "tests/fuzz/corpus/csv/%s", entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		size = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		visit(bytes, size);
		count++;
	}
	closedir(folder);
	assert_true(count > 20);
}

static void shorten_and_change(uint8_t *bytes, size_t size)
{
	static const char odd[] = "\"\n\r,\\#\xff";

	for (size_t end = 2; end <= size; end++)
		csv_feed(bytes, end, false);
	for (size_t i = 2; i < size; i++) {
		uint8_t kept = bytes[i];

		bytes[i] = (uint8_t)odd[i % (sizeof(odd) - 1)];
		csv_feed(bytes, size, false);
		bytes[i] = kept;
	}
}

static void test_changed(void **state)
{
	(void)state;
	each_seed(shorten_and_change);
}

#ifdef WEIR_FAULTS
static void fail_in_turn(uint8_t *bytes, size_t size)
{
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_READ};

	for (int k = 0; k < 2; k++) {
		for (uint64_t n = 1;; n++) {
			weir_fault_arm(kinds[k], n, kinds[k] == WEIR_FAULT_ALLOC ? ENOMEM : EIO, false);
			csv_feed(bytes, size, true);
			if (weir_fault_count(kinds[k]) < n)
				break;
		}
		weir_fault_disarm();
	}
}

static void test_faults(void **state)
{
	(void)state;
	each_seed(fail_in_turn);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changed),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_faults),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
