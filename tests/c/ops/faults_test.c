/* A chain from file to file, with the n-th allocation, map, open, read, write or rename failing: it ends well with the
 * whole output, or with an error that says why and no output at all. Leaks are ASan's to find, hangs the alarm's.
 *
 * All calls of a kind are counted in a clean run; then every stride-th of them fails, once and (every third time) from
 * then on: some 60 of a kind, 400 with WEIR_FULL; WEIR_FAULT_STRIDE sets another stride. */
#include "weir/weir.h"
#include "base/error.h"
#include "base/fault.h"
#include "remove_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#ifdef WEIR_FAULTS

enum { ROWS = 30000, TEXT_FILES = 40, TEXT_ROWS = 300, RUNS_QUICK = 60, RUNS_FULL = 400, HANG_S = 120 };

static char folder[256];

static int run(const char *chain, uint64_t *rows, char *message, size_t size)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 128 << 20, .threads = 2};
	struct weir_result result = {.struct_size = sizeof(result)};
	int code;

	message[0] = '\0';
	alarm(HANG_S);
	code = weir_run_chain(chain, &options, NULL, &result, message, size);
	alarm(0);
	*rows = result.rows_out;
	return code;
}

static void chain_text(char *text, size_t size, const char *format)
{
	snprintf(text, size, format, folder, folder);
}

/* Small files, every third compressed; in one that no sample sees an id is a text. */
static int put_text(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/text", folder);
	if (mkdir(path, 0700))
		return -1;
	for (int f = 0; f < TEXT_FILES; f++) {
		/* "T": zlib writes as it is. */
		const char *mode = f % 3 == 2 ? "wb1" : "wT";
		gzFile out;

		snprintf(path, sizeof(path), "%s/text/%02d.csv%s", folder, f, f % 3 == 2 ? ".gz" : "");
		out = gzopen(path, mode);
		if (!out)
			return -1;
		gzputs(out, "id,x\n");
		for (int i = 0; i < TEXT_ROWS; i++)
			gzprintf(out, "%d%s,%d.5\n", i, f == 17 && i == TEXT_ROWS / 2 ? "a" : "", i % 10);
		if (gzclose(out) != Z_OK)
			return -1;
	}
	return 0;
}

static void must_run(const char *format, uint64_t rows_expected)
{
	char chain[1024], message[1024];
	uint64_t rows;
	int code;

	chain_text(chain, sizeof(chain), format);
	code = run(chain, &rows, message, sizeof(message));
	if (code)
		fail_msg("%s: %s", chain, message);
	if (rows != rows_expected)
		fail_msg("%s: %" PRIu64 " rows, not %" PRIu64, chain, rows, rows_expected);
}

static bool output_exists(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void remove_output(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(remove_tree(path), 0);
}

struct scenario {
	const char *name, *chain, *check;
	uint64_t rows;
};

static const struct scenario scenarios[] = {
	{"out",
	 "read '%s/in' then filter 'id %% 3 == 1 and s.startswith(\"row\")' then with 'd = id * 2' then write '%s/out'",
	 "read '%s/out' then write '%s/check' --mode overwrite", ROWS / 3},
	{"one.parquet", "read '%s/in' then drop s then limit 20000 then write '%s/one.parquet' --compression zstd",
	 "read '%s/one.parquet' then write '%s/check' --mode overwrite", 20000},
	/* Types from samples, one of them too narrow: it begins again. Compressed files, and one that is not there. */
	{"text.parquet",
	 "read '%1$s/text' '%1$s/gone.csv' --path-column p --missing skip then filter 'id is not None' then write '%1$s/text.parquet'",
	 "read '%s/text.parquet' then write '%s/check' --mode overwrite", TEXT_FILES *TEXT_ROWS},
	{"one.csv.gz", "read '%s/in' then limit 20000 then write '%s/one.csv.gz'",
	 "read '%s/one.csv.gz' then write '%s/check' --mode overwrite", 20000},
	/* Groups in order, their values in order and held, and counted first. */
	{"groups", "read '%s/in' then with 'k = id %% 100' then groups k then write '%s/groups'",
	 "read '%s/groups' then write '%s/check' --mode overwrite", ROWS},
	{"held.parquet",
	 "read '%s/in' then with 'k = id %% 1000' then group k 'quantile(id)' 'unique(s)' 'list(s)' then write '%s/held.parquet'",
	 "read '%s/held.parquet' then write '%s/check' --mode overwrite", 1000},
	{"counted.parquet",
	 "read '%s/in' then with 'k = id %% 10' then group k 'count_distinct(s)' 'approx_top_k(s, 3)' then write '%s/counted.parquet'",
	 "read '%s/counted.parquet' then write '%s/check' --mode overwrite", 10},
	{"quantile.parquet",
	 "read '%s/in' then group '' 'quantile(id)' 'approx_quantile(id)' 'sum(id)' then write '%s/quantile.parquet'",
	 "read '%s/quantile.parquet' then write '%s/check' --mode overwrite", 1},
	{"sketches.parquet",
	 "read '%s/in' then with 'k = id %% 100' then group k 'approx_quantile(id)' 'approx_top_k(s, 3, 2)' then write "
	 "'%s/sketches.parquet'",
	 "read '%s/sketches.parquet' then write '%s/check' --mode overwrite", 100},
	{"json", "read '%s/in' then filter 'id < 3000' then write '%s/json' --format json",
	 "read '%s/json' then write '%s/check' --mode overwrite", 3000},
	/* One side held in memory, and both in partitions. */
	{"held",
	 "read '%1$s/in' then join \"read '%1$s/in' then filter 'id < 9000' then select 'k = id, t = s'\" --on id --right-on k then "
	 "write '%1$s/held'",
	 "read '%s/held' then write '%s/check' --mode overwrite", 9000},
	{"parted",
	 "read '%1$s/in' then join \"read '%1$s/in' then filter 'id < 9000' then select 's, k = id'\" --on s --how full then "
	 "write '%1$s/parted'",
	 "read '%s/parted' then write '%s/check' --mode overwrite", ROWS},
};

static uint64_t stride(uint64_t count)
{
	const char *text = getenv("WEIR_FAULT_STRIDE");
	uint64_t chosen = text ? strtoull(text, NULL, 10) : count / (getenv("WEIR_FULL") ? RUNS_FULL : RUNS_QUICK);

	return chosen ? chosen : 1;
}

static void one_failure(const struct scenario *s, enum weir_fault_kind kind, uint64_t nth, int errno_value, bool always)
{
	char chain[1024], message[1024];
	uint64_t rows;
	int code;

	remove_output(s->name);
	chain_text(chain, sizeof(chain), s->chain);
	weir_fault_arm(kind, nth, errno_value, always);
	code = run(chain, &rows, message, sizeof(message));
	weir_fault_disarm();
	if (code == WEIR_OK) {
		if (rows != s->rows)
			fail_msg("kind %d, call %" PRIu64 ": %" PRIu64 " rows", kind, nth, rows);
		must_run(s->check, s->rows);
		return;
	}
	if (output_exists(s->name))
		fail_msg("kind %d, call %" PRIu64 ": an output in spite of: %s", kind, nth, message);
	if (message[0] == '\0' || code == WEIR_E_INTERNAL || code == WEIR_E_DATA || code == WEIR_E_CANCELLED)
		fail_msg("kind %d, call %" PRIu64 ": code %d says: %s", kind, nth, code, message);
}

static void sweep(enum weir_fault_kind kind, int errno_value)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		char chain[1024], message[1024];
		uint64_t rows, count, step;

		remove_output(scenarios[i].name);
		chain_text(chain, sizeof(chain), scenarios[i].chain);
		weir_fault_disarm();
		assert_int_equal(run(chain, &rows, message, sizeof(message)), 0);
		count = weir_fault_count(kind);
		step = stride(count);
		printf("kind %d, %s: %" PRIu64 " calls, every %" PRIu64 "\n", kind, scenarios[i].name, count, step);
		for (uint64_t n = 1; n <= count; n += step)
			one_failure(&scenarios[i], kind, n, errno_value, n / step % 3 == 2);
	}
}

static void test_alloc(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_ALLOC, ENOMEM);
}

static void test_map(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_MAP, ENOMEM);
}

static void test_open(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_OPEN, EMFILE);
}

static void test_read(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_READ, EIO);
}

static void test_write(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_WRITE, ENOSPC);
}

static void test_rename(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_RENAME, EACCES);
}

static int set_up(void **state)
{
	char chain[1024], message[1024];
	uint64_t rows;

	(void)state;
	snprintf(folder, sizeof(folder), "%s/weir-faults-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return -1;
	snprintf(chain, sizeof(chain),
		 "range %d then with 's = concat(\"row \", str(id))' then write '%s/in' --row-group-rows 5000", ROWS,
		 folder);
	if (run(chain, &rows, message, sizeof(message))) {
		printf("%s\n", message);
		return -1;
	}
	return put_text();
}

static int tear_down(void **state)
{
	(void)state;
	return remove_tree(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc), cmocka_unit_test(test_map),   cmocka_unit_test(test_open),
		cmocka_unit_test(test_read),  cmocka_unit_test(test_write), cmocka_unit_test(test_rename),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

static void test_needs_faults(void **state)
{
	(void)state;
	skip(); /* builds with -Dfaults=true have it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_needs_faults)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
