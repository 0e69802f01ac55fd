/* Memory with a bound, so that lengths that lie are refused by the account rather than by the system. Include cmocka
 * first. */
#ifndef WEIR_TESTS_ARROW_BOUNDED_MEMORY_H
#define WEIR_TESTS_ARROW_BOUNDED_MEMORY_H

#include "base/mem.h"

static struct weir_mem *mem;
static struct weir_account *account;

static int setup(void **state)
{
	struct weir_error err = {0};

	(void)state;
	if (weir_mem_new((int64_t)256 << 20, &mem, &err))
		return -1;
	account = weir_mem_root(mem);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	weir_mem_free(mem);
	return 0;
}

#endif
