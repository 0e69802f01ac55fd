/* sim: the executor driven by a virtual clock with a grudge.
 *
 * One seed makes one world: a chain of stages, splits, what each task will ask for and put out, how much memory there
 * is, which faults happen how often. The world performs the core's actions as a backend would, reports what comes of
 * them, late, twice or from the dead where messages can be so, and keeps its own books. After every step the books are
 * held against the core's promises (exec.h). It never looks into the core.
 *
 * Each run has two phases: first faults happen, then they stop, and the run has to come to its end.
 */
#ifndef WEIR_BACKEND_SIM_SIM_H
#define WEIR_BACKEND_SIM_SIM_H

#include "base/mem.h"

#include <stdio.h>

struct weir_sim_result {
	uint64_t events;     /* steps taken */
	uint64_t trace_hash; /* of all events and actions: equal for equal seeds */
	int code;            /* what END said */
	uint32_t seen;       /* bits of enum weir_sim_seen */
	char broken[256];    /* the promise that was not kept; empty when all were */
};

/* What happened at least once, so that a test can tell whether its seeds reach everything. */
enum weir_sim_seen {
	WEIR_SIM_OVERDRAW = 1 << 0,
	WEIR_SIM_GIVE_UP = 1 << 1,
	WEIR_SIM_SPILL = 1 << 2,
	WEIR_SIM_REBUILD = 1 << 3,
	WEIR_SIM_ALONE = 1 << 4,
	WEIR_SIM_STALE = 1 << 5,
	WEIR_SIM_ENOUGH_STOPS = 1 << 6,
	WEIR_SIM_TURN = 1 << 7,
	WEIR_SIM_ALLOCATION_FAILED = 1 << 8,
	WEIR_SIM_OVERTAKEN = 1 << 9,
	WEIR_SIM_SPILL_FAILED = 1 << 10,
	WEIR_SIM_REDO_SKIPPED = 1 << 11,
	WEIR_SIM_RETIRE = 1 << 12,
	WEIR_SIM_BUNDLE = 1 << 13,
	WEIR_SIM_SHORT = 1 << 14,
	WEIR_SIM_LEFT_OUT = 1 << 15,
	WEIR_SIM_BY_NUMBER = 1 << 16,
	WEIR_SIM_OVER_LIMIT = 1 << 17,
	WEIR_SIM_EXCLUSIVE = 1 << 18,
	WEIR_SIM_IDLE = 1 << 19,
	WEIR_SIM_BUDGET = 1 << 20,
	WEIR_SIM_RESOURCES = 1 << 21,
	WEIR_SIM_PAUSE = 1 << 22,
	WEIR_SIM_ROOM = 1 << 23,
	WEIR_SIM_PARKED = 1 << 24,
	WEIR_SIM_LATE_CUT = 1 << 25,
	WEIR_SIM_CRAMPED = 1 << 26,
};

/* Returns 0 when every promise was kept. `trace`, where given, receives one line for each event and action. */
int weir_sim_run(struct weir_account *account, uint64_t seed, FILE *trace, struct weir_sim_result *result);

#endif
