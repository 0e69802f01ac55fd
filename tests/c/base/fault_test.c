/* The n-th call fails, no other; or all from the n-th on. Only in builds with failure injection is there anything to
 * see; in others the check is the constant false. */
#include "base/fault.h"
#include "base/clock.h"
#include "support.h"

#include <errno.h>
#include <unistd.h>

#ifdef WEIR_FAULTS

static void the_nth_call_fails(void **state)
{
	(void)state;
	for (uint64_t nth = 1; nth < 6; nth++) {
		for (int always = 0; always < 2; always++) {
			weir_fault_arm(WEIR_FAULT_WRITE, nth, ENOSPC, always);
			for (uint64_t call = 1; call < 10; call++) {
				errno = 0;
				assert_false(weir_fault(WEIR_FAULT_READ));
				assert_int_equal(weir_fault(WEIR_FAULT_WRITE), always ? call >= nth : call == nth);
				assert_int_equal(errno, (always ? call >= nth : call == nth) ? ENOSPC : 0);
			}
			assert_int_equal(weir_fault_count(WEIR_FAULT_WRITE), 9);
			weir_fault_disarm();
			assert_int_equal(weir_fault_count(WEIR_FAULT_WRITE), 0);
			assert_false(weir_fault(WEIR_FAULT_WRITE));
		}
	}
}

static char self[4096];

static void the_environment_arms(void **state)
{
	static const struct {
		const char *wanted, *says;
	} cases[] = {
		{"write:3:ENOSPC", "001000 28"},   {"write:3:ENOSPC:always", "001111 28"},
		{"write:1:EIO", "100000 5"},       {"read:1:EIO", "000000 0"},
		{"write:0:EIO", "000000 0"},       {"write:x:EIO", "000000 0"},
		{"write:1:EWHAT", "000000 0"},     {"write:1", "000000 0"},
		{"write:1:EIO:often", "000000 0"},
	};
	char command[5000], line[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *pipe;

		snprintf(command, sizeof(command), "WEIR_FAULT=%s '%s' child 2>/dev/null", cases[i].wanted, self);
		pipe = popen(command, "r");
		assert_non_null(pipe);
		assert_non_null(fgets(line, sizeof(line), pipe));
		assert_int_equal(pclose(pipe), 0);
		assert_string_equal(line, cases[i].says);
	}
}

static int child(void)
{
	int seen = 0;

	for (int i = 0; i < 6; i++) {
		bool fails = weir_fault(WEIR_FAULT_WRITE);

		seen = fails ? errno : seen;
		putchar(fails ? '1' : '0');
	}
	printf(" %d", seen);
	return 0;
}

#else

static void nothing_ever_fails(void **state)
{
	(void)state;
	for (int kind = 0; kind < WEIR_FAULT_KIND_COUNT; kind++)
		assert_false(weir_fault((enum weir_fault_kind)kind));
}

#endif

static void clocks_go_forward(void **state)
{
	uint64_t wall = weir_clock_ns(), cpu = weir_clock_thread_cpu_ns(), wall_after, cpu_after;
	volatile uint64_t work = 0;

	(void)state;
	do {
		for (int i = 0; i < 100000; i++)
			work = work + (uint64_t)i;
		wall_after = weir_clock_ns();
		cpu_after = weir_clock_thread_cpu_ns();
		assert_true(wall_after >= wall && cpu_after >= cpu);
	} while (cpu_after - cpu < 5000000);
	assert_true(work > 0);
	/* A thread cannot work for longer than it takes; a little for the two readings not being one. */
	assert_true(wall_after - wall + 1000000 >= cpu_after - cpu);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#ifdef WEIR_FAULTS
		cmocka_unit_test(the_nth_call_fails),
		cmocka_unit_test(the_environment_arms),
#else
		cmocka_unit_test(nothing_ever_fails),
#endif
		cmocka_unit_test(clocks_go_forward),
	};

#ifdef WEIR_FAULTS
	if (argc == 2 && strcmp(argv[1], "child") == 0)
		return child();
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
#else
	(void)argc;
	(void)argv;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
