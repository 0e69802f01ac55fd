/* weir_micro_exec: events that the executor decides in a second, on one core. The driver performs nothing: it answers
 * each action with the event that a backend would report, at once, so that almost all time is the executor's own. */
#include "base/clock.h"
#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

enum { ROUNDS = 5, EVENTS_MAX = 1 << 12 };

static struct weir_mem *mem;
static struct weir_core *core;
static struct weir_actions actions;
static struct weir_event ring[EVENTS_MAX];
static uint32_t ring_head, ring_count;
static uint64_t splits_left, events;
static int64_t ask_bytes;
static uint32_t stage_count, outputs;
static struct weir_core_stats stats;

static void will_report(struct weir_event event)
{
	if (ring_count == EVENTS_MAX)
		abort();
	ring[(ring_head + ring_count++) % EVENTS_MAX] = event;
}

static void step(struct weir_event event)
{
	struct weir_error err;

	events++;
	if (weir_core_step(core, &event, events, &actions, &err))
		abort();
}

static void report(enum weir_event_kind kind, const struct weir_action *action, int64_t bytes, uint64_t chunk, int code)
{
	will_report((struct weir_event){.kind = kind,
					.stage = action->stage,
					.slot = action->slot,
					.generation = action->generation,
					.run = action->run,
					.bytes = bytes,
					.rows = 1,
					.chunk = chunk,
					.code = code});
}

static void answer(const struct weir_action *action)
{
	bool first = action->stage == 0;

	switch (action->kind) {
	case WEIR_DO_CUT_SPLIT:
		step((struct weir_event){.kind = splits_left ? WEIR_EV_SPLIT_CUT : WEIR_EV_SPLITS_END});
		splits_left -= splits_left > 0;
		break;
	case WEIR_DO_START_TASK:
		if (first) {
			report(WEIR_EV_ASK, action, ask_bytes, 0, 0);
		} else {
			if (stage_count > 1)
				report(WEIR_EV_OUTPUT, action, MIB, 0, 0);
			report(WEIR_EV_TASK_DONE, action, 0, 0, 0);
		}
		break;
	case WEIR_DO_GRANT:
		for (uint32_t i = 0; i < outputs; i++)
			report(WEIR_EV_OUTPUT, action, MIB, i, 0);
		if (!outputs)
			report(WEIR_EV_RETURN, action, ask_bytes / 2, 0, 0);
		report(WEIR_EV_TASK_DONE, action, 0, 0, 0);
		break;
	case WEIR_DO_GIVE_UP:
		report(WEIR_EV_TASK_FAILED, action, 0, 0, WEIR_E_GIVE_UP);
		break;
	case WEIR_DO_START_WORKER:
		report(WEIR_EV_SLOT_READY, action, 0, 0, 0);
		break;
	case WEIR_DO_SPILL:
		report(WEIR_EV_SPILLED, action, 0, action->chunk, 0);
		break;
	case WEIR_DO_RESTORE:
		report(WEIR_EV_RESTORED, action, 0, action->chunk, 0);
		break;
	case WEIR_DO_DELIVER:
		report(WEIR_EV_TAKEN, action, 0, action->chunk, 0);
		break;
	default:
		break;
	}
}

static double run(const struct weir_stage_spec *stages, uint32_t count, int64_t budget, uint64_t splits, int64_t ask)
{
	struct weir_core_options options = {.budget = budget,
					    .limit = budget,
					    .stages = stages,
					    .stage_count = count,
					    .consumer = count > 1,
					    .preserve_order = count > 1};
	struct weir_error err;
	uint64_t begin;
	double rate;

	if (weir_core_new(weir_mem_root(mem), &options, &core, &err))
		abort();
	stage_count = count;
	outputs = count > 1 ? 4 : 0;
	splits_left = splits;
	ask_bytes = ask;
	events = ring_head = ring_count = 0;
	will_report((struct weir_event){.kind = WEIR_EV_START});
	for (uint32_t slot = 0; slot < stages[0].slots; slot++)
		will_report((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = slot});
	begin = weir_clock_ns();
	while (!weir_core_ended(core)) {
		struct weir_event event = ring[ring_head];

		if (ring_count == 0)
			abort();
		ring_head = (ring_head + 1) % EVENTS_MAX;
		ring_count--;
		actions.count = 0;
		step(event);
		for (size_t i = 0; i < actions.count; i++) {
			struct weir_action action = actions.items[i];

			answer(&action);
		}
	}
	rate = (double)events / ((double)(weir_clock_ns() - begin) / 1e9);
	weir_core_stats(core, &stats);
	weir_core_free(core);
	return rate;
}

static void measure(const char *name, const struct weir_stage_spec *stages, uint32_t count, int64_t budget,
		    uint64_t splits, int64_t ask)
{
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double rate = run(stages, count, budget, splits, ask);

		best = rate > best ? rate : best;
	}
	printf("%-46s %6.2f million events/s, %llu give-ups, %llu spills\n", name, best / 1e6,
	       (unsigned long long)stats.give_ups, (unsigned long long)stats.spills);
}

int main(void)
{
	struct weir_stage_spec two = {.kind = WEIR_STAGE_LANES, .slots = 2, .slot_memory = 8 * MIB, .name = "scan"};
	struct weir_stage_spec many = {.kind = WEIR_STAGE_LANES, .slots = 64, .slot_memory = 2 * MIB, .name = "scan"};
	struct weir_stage_spec chain[] = {
		{.kind = WEIR_STAGE_LANES, .slots = 16, .slot_memory = 8 * MIB, .name = "scan"},
		{.kind = WEIR_STAGE_WORKERS, .slots = 16, .in_flight_max = 2, .slot_memory = 16 * MIB, .name = "map"},
	};
	struct weir_error err;

	if (weir_mem_new(0, &mem, &err))
		return 1;
	measure("2 lanes, room for all", &two, 1, 256 * MIB, 200000, 4 * MIB);
	measure("64 lanes, room for all", &many, 1, 1024 * MIB, 200000, 4 * MIB);
	measure("64 lanes, memory for a quarter of them", &many, 1, 96 * MIB, 100000, 4 * MIB);
	measure("16 lanes, 16 workers, in order, room for all", chain, 2, 2048 * MIB, 50000, 4 * MIB);
	measure("16 lanes, 16 workers, in order, short of memory", chain, 2, 40 * MIB, 20000, 4 * MIB);
	chain[1].rows_min = 1000;
	measure("the same, 100,000 chunks in bundles of 1,000", chain, 2, (int64_t)1 << 40, 25000, 4 * MIB);
	chain[1].rows_min = INT64_MAX;
	measure("the same, 100,000 chunks in one bundle", chain, 2, (int64_t)1 << 40, 25000, 4 * MIB);
	weir_list_release(&actions, weir_mem_root(mem));
	weir_mem_free(mem);
	return 0;
}
