/* A session's memory for a test, which must be empty at its end. */
#ifndef WEIR_TESTS_MEMORY_FIXTURE_H
#define WEIR_TESTS_MEMORY_FIXTURE_H

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_error err;
};

static inline int fixture_begin(void **state)
{
	static struct fixture fixture;

	memset(&fixture, 0, sizeof(fixture));
	if (weir_mem_new(0, &fixture.mem, &fixture.err))
		return -1;
	fixture.account = weir_mem_root(fixture.mem);
	*state = &fixture;
	return 0;
}

static inline int fixture_end(void **state)
{
	struct fixture *fixture = *state;
	struct weir_mem_stats stats;

	weir_mem_stats(fixture->mem, &stats);
	if (stats.used) {
		/* Not freed: weir_mem_free would abort before the reason is shown. */
		print_error("%lld bytes are still in use\n", (long long)stats.used);
		return -1;
	}
	weir_mem_free(fixture->mem);
	return 0;
}

#define memory_test(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)

#endif
