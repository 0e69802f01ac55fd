/* Does the simulation find mistakes? The core is compiled into this program with all its planted mistakes (MUTANT in
 * exec/core_impl.h), each under a number; one at a time is switched on, and must be found within SEEDS_MAX seeds. Each
 * runs in a process of its own: a mistake may also be found by an assertion of the core itself, or by never ending. */
static int mutant;
#define WEIR_MUTANT mutant

/* One translation unit: the core inside the library has no mistakes and must not be taken. */
#include "exec/bundle.c"
#include "exec/core.c"
#include "exec/flow.c"
#include "exec/items.c"
#include "exec/lanes.c"
#include "exec/memory.c"
#include "exec/order.c"
#include "exec/policy.c"
#include "exec/pool.c"
#include "exec/spill.c"

#include "backend/sim/sim.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUTANT_COUNT = 62, SEEDS_MAX = 10000, SECONDS_MAX = 60 };

static const char *const mistakes[MUTANT_COUNT + 1] = {
	"none",
	"a grant is not given back at the end of its task",
	"the input of a running task is spilled",
	"nobody is made to give up for the oldest",
	"grants are rounded up without room",
	"the limit is not looked at",
	"the oldest waits for a lane that younger ones hold",
	"a corrupt chunk is taken for good",
	"the attempt of a message is not looked at",
	"a second attempt's outputs are accepted again",
	"a worker's outputs are accepted before its batch is done",
	"a batch may end its worker once too often",
	"the generation of a dead worker is not looked at",
	"a pool grows without room",
	"the window is one split too wide",
	"the oldest is held back by policies",
	"chunks are delivered as they come",
	"lanes do not pause for a full pool",
	"a dead worker's batches are forgotten",
	"enough stops earlier tasks too",
	"a batch that is killed again and again is not set apart",
	"a turn looks at the first stage alone",
	"dead workers are not replaced",
	"memory given up is expected for ever",
	"the end does not wait for the disk",
	"an output is counted in its maker's grant and again by itself",
	"asks are granted without room",
	"one task a stage runs at a time",
	"the last worker of a stage is let go for its memory",
	"what a generator had accepted is accepted again",
	"what is accepted by number is not counted",
	"bundles are sealed as they are, never joined",
	"the front waits for rows for ever",
	"more slots are busy than the logical resources allow",
	"a batch that needs all memory shares it",
	"what workers were measured to need is forgotten",
	"a worker may break the limit",
	"a failing batch is tried once too often",
	"one more failing batch is left out than allowed",
	"a pool shrinks below its least size",
	"a pool begins with one worker, whatever was asked",
	"workers stay paused though the front stands still",
	"a worker with the front waits for room as all others",
	"room for outputs is given past the limit",
	"what waits for room is passed by younger ones",
	"batches are given ahead though workers are about to come up",
	"a batch that is to have all memory does not wait for it",
	"rows of several splits go together where they should not",
	"the last of a split does not wait for those before it",
	"workers that have run something stay beside a batch that is to have all memory",
	"how large a batch is, is not looked at before its first worker is measured",
	"a bundle with rows enough does not wait for what may have it join",
	"a second attempt is not told how many rows were accepted",
	"the oldest takes what the user still has",
	"the oldest takes what others have",
	"what was cleared away for a batch that is to have all memory comes back",
	"tasks start while it is another run's turn",
	"a batch that is to have all memory does not wait for what is lent",
	"workers without work stay while it is another run's turn",
	"chunks are handed out while it is another run's turn",
	"a worker that had too little memory to begin with stays beside others",
	"workers that had too little memory together start together again",
	"lanes keep their memory beside a batch that is to have all of it",
};

static int find(struct weir_account *account)
{
	for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
		struct weir_sim_result result;

		if (weir_sim_run(account, seed, NULL, &result)) {
			printf("%2d %s: seed %llu: %s\n", mutant, mistakes[mutant], (unsigned long long)seed,
			       result.broken);
			return 1;
		}
	}
	return 0;
}

static int is_found(struct weir_account *account)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(SECONDS_MAX);
		status = find(account);
		fflush(stdout);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	if (WIFSIGNALED(status)) {
		printf("%2d %s: %s\n", mutant, mistakes[mutant],
		       WTERMSIG(status) == SIGALRM ? "it never ended" : "an assertion of the core");
		return WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGABRT;
	}
	return WEXITSTATUS(status) == 1;
}

int main(void)
{
	int passed = 0, failed = 0;
	struct weir_mem *mem;
	struct weir_error err;

	if (weir_mem_new(0, &mem, &err))
		return 1;
	for (mutant = 1; mutant <= MUTANT_COUNT; mutant++) {
		if (is_found(weir_mem_root(mem)) == 1) {
			passed++;
		} else {
			printf("%2d %s: not found in %d seeds\n", mutant, mistakes[mutant], SEEDS_MAX);
			failed++;
		}
	}
	weir_mem_free(mem);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
