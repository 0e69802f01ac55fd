/* Runs the executor through WEIR_SIM_SEEDS worlds (backend/sim), from WEIR_SIM_FROM (1) on. WEIR_SIM_SEED=n runs that
 * one alone, with a trace of all events and actions. The last line counts the seeds that passed and failed; what no
 * seed reached is a failure too. */
#include "backend/sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer, which is ten times slower, fewer: it looks at the code, not at the decisions. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SEEDS_DEFAULT 3000
#else
#define SEEDS_DEFAULT 20000
#endif

enum { TWICE_EVERY = 100, FAILURES_MAX = 5 };

static const char *const seen_names[] = {"an overdraft",
					 "a task given up",
					 "a spill",
					 "a chunk made again",
					 "a batch alone",
					 "a stale message",
					 "a stop behind a limit",
					 "a turn",
					 "a failed allocation",
					 "an overtaking chunk",
					 "a failed spill",
					 "outputs skipped in a second attempt",
					 "a worker let go",
					 "a bundle",
					 "a bundle that went with what there was",
					 "a task left out",
					 "outputs accepted by number",
					 "a worker stopped at the limit",
					 "a batch with all memory",
					 "an idle worker let go",
					 "a new budget",
					 "a task beyond the logical resources",
					 "a worker paused",
					 "room for an output beyond the budget",
					 "another run's turn",
					 "a split that came late",
					 "a worker that had too little memory to begin with"};

/* Worlds that something was found in, beyond those that are always run: bundles of bundles, spilling and restoring
 * without end. */
static const uint64_t found[] = {34915, 142465, 159797, 180741};

static int replay(struct weir_account *account, uint64_t seed)
{
	struct weir_sim_result result;

	if (weir_sim_run(account, seed, stdout, &result)) {
		printf("seed %" PRIu64 ": %s\n0 passed, 1 failed\n", seed, result.broken);
		return 1;
	}
	printf("seed %" PRIu64 " ended with code %d after %" PRIu64 " events\n1 passed, 0 failed\n", seed, result.code,
	       result.events);
	return 0;
}

int main(void)
{
	const char *one = getenv("WEIR_SIM_SEED"), *many = getenv("WEIR_SIM_SEEDS");
	uint64_t count = many ? strtoull(many, NULL, 10) : SEEDS_DEFAULT, events = 0, passed = 0, failed = 0;
	const char *from = getenv("WEIR_SIM_FROM");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	uint64_t codes[WEIR_CODE_COUNT] = {0};
	struct weir_mem *mem;
	struct weir_error err;
	uint32_t seen = 0;

	if (weir_mem_new(0, &mem, &err))
		return 1;
	if (one) {
		failed = (uint64_t)replay(weir_mem_root(mem), strtoull(one, NULL, 10));
		weir_mem_free(mem);
		return failed != 0;
	}
	for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++) {
		struct weir_sim_result result;

		if (weir_sim_run(weir_mem_root(mem), found[i], NULL, &result)) {
			printf("seed %" PRIu64 ": %s\n", found[i], result.broken);
			failed++;
		}
	}
	for (uint64_t seed = first; seed < first + count && failed < FAILURES_MAX; seed++) {
		struct weir_sim_result result, again;
		int code = weir_sim_run(weir_mem_root(mem), seed, NULL, &result);

		if (!code && seed % TWICE_EVERY == 0 &&
		    (weir_sim_run(weir_mem_root(mem), seed, NULL, &again) || again.trace_hash != result.trace_hash)) {
			code = WEIR_E_INTERNAL;
			snprintf(result.broken, sizeof(result.broken), "the second run of it went another way");
		}
		if (code)
			printf("seed %" PRIu64 ": %s\n", seed, result.broken);
		passed += !code;
		failed += code != 0;
		events += result.events;
		seen |= result.seen;
		codes[result.code]++;
	}
	for (int i = 0; i < WEIR_CODE_COUNT; i++)
		if (codes[i])
			printf("%8" PRIu64 " ended with %s\n", codes[i], weir_code_name(i));
	for (size_t i = 0; count >= 10000 && !failed && i < sizeof(seen_names) / sizeof(seen_names[0]); i++)
		if (!(seen & 1u << i)) {
			printf("no seed has seen %s\n", seen_names[i]);
			failed++;
		}
	printf("%" PRIu64 " events\n%" PRIu64 " passed, %" PRIu64 " failed\n", events, passed, failed);
	weir_mem_free(mem);
	return failed != 0;
}
