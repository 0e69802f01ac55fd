/* The policies that must all agree before a task starts. Each is one function and one line of the table; none knows the
 * others. The front is asked of none of them (flow.c): that is what keeps a run from stalling. */
#include "exec/core_impl.h"

/* First grants were reckoned with workers as they are assumed to be. Those that need more leave lanes less to begin
 * with: else only the front would begin, and one split be made at a time. Two parts of three are for chunks, and for
 * lanes that ask for more. */
static int64_t first_grant(const struct weir_core *core, uint32_t stage)
{
	int64_t first = core->stages[stage].first_grant, part;

	if (core->workers == 0 || !is_lanes(&core->stages[stage]))
		return first;
	part = (core->budget - core->excess - core->workers) / 3 / core->lane_slots;
	if (part < GRANT_STEP)
		part = GRANT_STEP;
	return part < first ? part : first;
}

/* What a start takes out of the room: a lane's first grant, or all it had and asked for when it gave up; a batch's
 * allowance for its output, taken to be as large as its input. */
int64_t weir_exec_start_need(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	int64_t need = first_grant(core, stage);
	const struct item *item;

	if (index == NO_ITEM)
		return need;
	item = item_at(core, index);
	if (!is_lanes(&core->stages[stage]))
		return item->task_bytes;
	if (stage == 0 && item->bytes > need)
		need = item->bytes;
	return item->need > need ? item->need : need;
}

static bool concurrency_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	const struct stage *of = &core->stages[stage];

	(void)index;
	/* Not by depth: one slot may have more than that from before, while another has nothing. */
	return of->flying < (MUTANT(27) ? 1 : (uint64_t)of->spec.slots * of->flight_max);
}

static bool memory_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	/* What lanes made beside a batch that is to have all memory would be in its way. */
	if (is_lanes(&core->stages[stage]) && weir_exec_memory_is_taken(core) && !MUTANT(62))
		return false;
	return weir_exec_room(core) >= weir_exec_start_need(core, stage, index) && !weir_exec_older_waits(core, index);
}

/* Tasks that can be in hands at once. */
static uint64_t hands(const struct weir_core *core)
{
	uint64_t count = 0;

	for (uint32_t s = 0; s < core->stage_count; s++)
		count += (uint64_t)core->stages[s].spec.slots * core->stages[s].depth;
	return count;
}

/* Only where order is kept: results that wait for an earlier one must stay few. What was bundled waits as one. */
static bool window_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	uint32_t front;

	if (stage > 0 || index != NO_ITEM || !(core->ordered || core->preserve_order))
		return true;
	front = weir_exec_front(core);
	return front == NO_ITEM || core->split_next - item_at(core, front)->path[0] <
					   WEIR_WINDOW_SPLITS * hands(core) + core->parts + MUTANT(14);
}

/* Where order is kept, results of later splits may fill the next queue while those of earlier ones are still to
 * come. */
static bool downstream_allows(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	return weir_exec_waiting(core, stage + 1) < weir_exec_capacity(core, stage + 1) ||
	       (index != NO_ITEM && weir_exec_passes(core, stage + 1, index));
}

bool weir_exec_resources_left(const struct weir_core *core, uint32_t stage)
{
	const struct weir_stage_spec *spec = &core->stages[stage].spec;

	return (!core->milli_cpus || !spec->milli_cpus || core->cpus_taken + spec->milli_cpus <= core->milli_cpus) &&
	       (!core->milli_gpus || !spec->milli_gpus || core->gpus_taken + spec->milli_gpus <= core->milli_gpus);
}

/* A slot that is busy already takes nothing more for what it is given ahead. */
static bool resources_allow(const struct weir_core *core, uint32_t stage_index, uint32_t index)
{
	const struct stage *stage = &core->stages[stage_index];

	(void)index;
	return weir_exec_resources_left(core, stage_index) || MUTANT(33) || stage->flying < stage->busy * stage->depth;
}

struct policy {
	const char *name;
	enum weir_wait wait;
	bool (*allows)(const struct weir_core *core, uint32_t stage, uint32_t index);
};

static const struct policy policies[] = {
	{"concurrency cap", WEIR_WAIT_SLOT, concurrency_allows},
	{"memory budget", WEIR_WAIT_MEMORY, memory_allows},
	{"order window", WEIR_WAIT_WINDOW, window_allows},
	{"downstream capacity", WEIR_WAIT_DOWNSTREAM, downstream_allows},
	{"logical resources", WEIR_WAIT_RESOURCES, resources_allow},
};

bool weir_exec_policies_agree(struct weir_core *core, uint32_t stage, uint32_t index)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (!policies[i].allows(core, stage, index)) {
			weir_exec_held_back(core, stage, policies[i].wait);
			return false;
		}
	return true;
}

const char *weir_wait_name(enum weir_wait wait)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (policies[i].wait == wait)
			return policies[i].name;
	return "turn";
}

/* What a stage without a worker keeps waiting waits for a process to start, which no setting makes shorter: it does not
 * count. */
uint64_t weir_exec_waited(const struct weir_core *core, uint32_t stage_index, uint64_t since)
{
	const struct stage *stage =
		&core->stages[stage_index < core->stage_count ? stage_index : core->stage_count - 1];

	if (!is_lanes(stage) && !stage->up_since)
		return 0;
	return core->now - (!is_lanes(stage) && stage->up_since > since ? stage->up_since : since);
}

void weir_exec_held_back(struct weir_core *core, uint32_t stage, enum weir_wait by)
{
	core->held_back = true;
	core->stages[stage].held_by = (uint8_t)(by + 1);
	core->stages[stage].held_since = core->now;
}
