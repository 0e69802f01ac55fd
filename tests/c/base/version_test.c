/* The library says which version it is: three numbers. */
#include "weir/weir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void version_is_three_numbers(void **state)
{
	unsigned major, minor, patch;
	char rest;

	(void)state;
	assert_int_equal(sscanf(weir_version(), "%u.%u.%u%c", &major, &minor, &patch, &rest), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_three_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
