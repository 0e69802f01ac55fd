/* The policies that must all agree before a task starts. Each is one function and one line of the table; none knows the
 * others. The front is asked of none of them (flow.c): that is what keeps a run from stalling. */
#include "exec/core_impl.h"

/* What a start takes out of the room: a lane's first grant, or all it had and asked for when it gave up; a batch's
 * allowance for its output, taken to be as large as its input. */
int64_t weir_exec_start_need(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	int64_t need = core->stages[stage].first_grant;
	const struct item *item;

	if (index == NO_ITEM)
		return need;
	item = item_at(core, index);
	if (!is_lanes(&core->stages[stage]))
		return item->bytes;
	if (stage == 0 && item->bytes > need)
		need = item->bytes;
	return item->need > need ? item->need : need;
}

static bool concurrency_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	const struct weir_stage_spec *spec = &core->stages[stage].spec;

	(void)index;
	return core->stages[stage].flying < (MUTANT(27) ? 1 : (uint64_t)spec->slots * spec->in_flight_max);
}

static bool memory_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	return weir_exec_room(core) >= weir_exec_start_need(core, stage, index) && !weir_exec_older_waits(core, index);
}

/* Only where order is kept: results that wait for an earlier one must stay few. */
static bool window_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	uint32_t front;

	if (stage > 0 || index != NO_ITEM || !(core->ordered || core->preserve_order))
		return true;
	front = weir_exec_front(core);
	return front == NO_ITEM || core->split_next - item_at(core, front)->path[0] <
					   (uint64_t)WEIR_WINDOW_SPLITS * core->stages[0].spec.slots + MUTANT(14);
}

static bool downstream_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	(void)index;
	return weir_exec_waiting(core, stage + 1) < weir_exec_capacity(core, stage + 1);
}

struct policy {
	const char *name;
	bool (*allows)(const struct weir_core *core, uint32_t stage, uint32_t index);
};

static const struct policy policies[] = {
	{"concurrency cap", concurrency_allows},
	{"memory budget", memory_allows},
	{"order window", window_allows},
	{"downstream capacity", downstream_allows},
	{"lending between operators", NULL}, /* budgets of their own, lent from the last operator backwards */
	{"actor pools", NULL},               /* a worker that keeps state takes only batches of its own class */
	{"fractions", NULL},                 /* num_cpus and num_gpus below one */
};

bool weir_exec_policies_agree(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (policies[i].allows && !policies[i].allows(core, stage, index))
			return false;
	return true;
}
