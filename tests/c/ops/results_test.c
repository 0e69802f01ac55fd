/* Sinks whose result is one batch for the program (sample, profile, aggregate): what they give, and that every failing
 * allocation ends the run with an error and leaves nothing (leaks are ASan's to find). */
#include "base/fault.h"
#include "ops/collect.h"
#include "api/job.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int keep(void *state, struct weir_batch *batch, struct weir_error *err)
{
	(void)err;
	*(struct weir_batch **)state = batch;
	return WEIR_OK;
}

/* Runs the chain; its rows, or −1 with an error. */
static int64_t run(const char *chain, struct weir_error *err)
{
	struct weir_session_options options = {.memory_limit = 128 << 20, .threads = 2};
	struct weir_batch *result = NULL;
	struct weir_consumer consumer = {.deliver = keep, .state = &result};
	struct weir_job job = {0};
	int64_t rows = -1;
	int code = weir_job_init(&job, &options, err);

	if (!code)
		code = weir_plan_parse_text(job.plan, chain, err);
	if (!code) {
		struct weir_node *root = weir_plan_root(job.plan);

		assert_true(weir_result_set(root, &consumer));
		code = weir_job_prepare(&job, err);
	}
	if (!code)
		code = weir_job_run(&job, err);
	if (!code) {
		rows = result ? result->row_count : 0;
		if (result)
			assert_int_equal(weir_array_validate(result->columns[0], true, err), 0);
	}
	weir_batch_unref(result);
	weir_job_release(&job);
	return rows;
}

static const struct {
	const char *chain;
	int64_t rows;
} chains[] = {
	{"range 50000 then with 's = concat(\"row \", str(id)), f = id / 7' then sample 6000", 6000},
	{"range 9000 then with 's = concat(\"a longer row \", str(id)), n = None if id % 3 == 0 else id' then profile",
	 3},
	{"range 9000 then with 's = concat(\"a longer row \", str(id)), f = id / 7, n = None if id % 3 == 0 else id, "
	 "d = literal(\"1.50\", \"decimal128(5, 2)\"), t = literal(\"2024-01-01\", \"date32\")' then aggregate "
	 "'sum(id), mean(f), std(f), std(n, 0), min(s), max(s), sum(d), std(d), max(t), absmax(f), count(n), count()'",
	 1},
	{"range 9000 then with 'k = id % 50, s = concat(\"a longer row \", str(id)), n = None if id % 3 == 0 else id' then "
	 "group 'k, n' 'count() sum(id) min(s) max(s) std(id) mean(n)' then group k 'n = count()' then sample 100",
	 50},
};
enum { CHAIN_COUNT = sizeof(chains) / sizeof(chains[0]) };

static void test_results(void **state)
{
	struct weir_error err = {0};

	(void)state;
	for (uint32_t i = 0; i < CHAIN_COUNT; i++)
		assert_int_equal(run(chains[i].chain, &err), chains[i].rows);
	assert_int_equal(run("range 10 then sample 20", &err), 10);
	assert_int_equal(run("range 0 then sample 20", &err), 0);
	assert_int_equal(run("range 0 then aggregate 'sum(id)' 'count()'", &err), 1);
}

static void test_nobody_takes_the_rows(void **state)
{
	struct weir_session_options options = {0};
	struct weir_error err = {0};
	struct weir_job job = {0};

	(void)state;
	assert_int_equal(weir_job_init(&job, &options, &err), 0);
	assert_int_equal(weir_plan_parse_text(job.plan, "range 10 then profile", &err), 0);
	assert_int_equal(weir_job_prepare(&job, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.message, "takes none"));
	weir_job_release(&job);
}

static void test_failing_allocations(void **state)
{
#ifdef WEIR_FAULTS
	struct weir_error err = {0};

	(void)state;
	for (uint32_t i = 0; i < CHAIN_COUNT; i++) {
		uint64_t count, stride;

		weir_fault_disarm();
		assert_int_equal(run(chains[i].chain, &err), chains[i].rows);
		count = weir_fault_count(WEIR_FAULT_ALLOC);
		stride = count / 300 + 1;
		for (uint64_t n = 1; n <= count; n += stride) {
			int64_t rows;

			weir_error_clear(&err);
			weir_fault_arm(WEIR_FAULT_ALLOC, n, ENOMEM, n / stride % 3 == 2);
			rows = run(chains[i].chain, &err);
			weir_fault_disarm();
			if (rows != chains[i].rows && (rows >= 0 || err.code == WEIR_E_INTERNAL || !err.message[0]))
				fail_msg("%s, allocation %" PRIu64 ": %" PRId64 " rows, %s", chains[i].chain, n, rows,
					 err.message);
		}
	}
#else
	(void)state;
	skip(); /* builds with -Dfaults=true have it */
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_nobody_takes_the_rows),
		cmocka_unit_test(test_failing_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
