/* Worker processes. A slot is ABSENT until its first process is started, then
 *
 *     STARTING ── ready ──▶ UP ── died, or killed ──▶ DEAD ── when wanted ──▶ STARTING (next generation)
 *
 * The memory of a worker is booked when its slot first starts one and stays booked until the end, so a worker that died
 * can always be started again; or until it is let go for its memory. The first worker of each stage is booked before anything else.
 *
 * Of the batches given to a worker it runs the first; when it dies, that one is blamed, the others only wait again. */
#include "exec/core_impl.h"

#include <inttypes.h>

/* After workers were let go, so many times a worker's memory must be free before one is started: or it would be let go
 * again at the next ask. */
enum { ROOM_TO_GROW_AGAIN = 4 };

void weir_exec_worker_start(struct weir_core *core, uint32_t stage_index, uint32_t slot_index)
{
	struct stage *stage = &core->stages[stage_index];
	struct slot *slot = &stage->slots[slot_index];

	if (!slot->counted) {
		slot->counted = true;
		slot->memory = stage->spec.slot_memory;
		core->workers += slot->memory;
	}
	slot->state = SLOT_STARTING;
	slot->generation++;
	slot->given = 0;
	emit(core, (struct weir_action){.kind = WEIR_DO_START_WORKER,
					.stage = stage_index,
					.slot = slot_index,
					.generation = slot->generation,
					.bytes = stage->spec.slot_memory});
}

static void come_up(struct stage *stage, struct slot *slot)
{
	slot->state = SLOT_UP;
	slot->was_up = true;
	if (++stage->up > stage->stats.slots_peak)
		stage->stats.slots_peak = stage->up;
}

void weir_exec_slot_ready(struct weir_core *core, const struct weir_event *event)
{
	struct stage *stage;
	struct slot *slot;

	if (event->stage >= core->stage_count || event->slot >= core->stages[event->stage].spec.slots)
		return;
	stage = &core->stages[event->stage];
	slot = &stage->slots[event->slot];
	if (is_lanes(stage)) {
		if (slot->state == SLOT_STOPPED || core->ended) {
			emit(core, (struct weir_action){
					   .kind = WEIR_DO_STOP_SLOT, .stage = event->stage, .slot = event->slot});
		} else if (slot->state != SLOT_UP) {
			come_up(stage, slot);
		}
	} else if (slot->state == SLOT_STARTING && event->generation == slot->generation) {
		stage->spawns_failed = 0;
		come_up(stage, slot);
	}
}

/* A kill from outside says little about the batch that was hit, unless it is always the same one. When the others of its
 * stage were hit as often since, it is a storm, and the count begins again. */
static void blame(struct weir_core *core, struct stage *stage, uint32_t index, enum weir_death death)
{
	struct item *item = item_at(core, index);

	core->stats.retries++;
	stage->stats.retries++;
	if (death == WEIR_DEATH_OWN) {
		if (++item->own_deaths >= WEIR_ATTEMPTS_MAX + MUTANT(11))
			weir_exec_fail(core, WEIR_E_WORKER,
				       "%s: a batch of split %" PRIu64 " ended its worker %d times", stage->spec.name,
				       item->path[0], WEIR_ATTEMPTS_MAX);
		return;
	}
	if (item->kills == 0)
		item->kills_before = stage->kills;
	stage->kills++;
	item->kills++;
	if (item->kills >= ALONE_FROM && !MUTANT(20))
		item->alone = true;
	if (item->kills < WEIR_KILLS_MAX)
		return;
	if (stage->kills - item->kills_before >= 2 * (uint64_t)item->kills)
		item->kills = 0;
	else
		weir_exec_fail(core, WEIR_E_WORKER,
			       "%s: the worker was killed %d times while it ran a batch of split %" PRIu64
			       ": out of memory, or an operator's hand",
			       stage->spec.name, WEIR_KILLS_MAX, item->path[0]);
}

void weir_exec_slot_died(struct weir_core *core, const struct weir_event *event)
{
	struct stage *stage;
	struct slot *slot;
	bool first = true;

	if (event->stage >= core->stage_count || event->slot >= core->stages[event->stage].spec.slots)
		return;
	stage = &core->stages[event->stage];
	slot = &stage->slots[event->slot];
	if (is_lanes(stage) || (event->generation != slot->generation && !MUTANT(12)) || slot->state == SLOT_DEAD ||
	    slot->state == SLOT_ABSENT || slot->state == SLOT_STOPPED)
		return;
	stage->stats.deaths++;
	stage->up -= slot->was_up;
	slot->was_up = false;
	if (slot->state == SLOT_DYING)
		core->workers_dying--;
	else if (slot->state == SLOT_STARTING && ++stage->spawns_failed >= SPAWNS_MAX)
		weir_exec_fail(core, WEIR_E_WORKER, "%s: %d workers in a row died before they were up",
			       stage->spec.name, SPAWNS_MAX);
	if (slot->retiring) {
		core->freeing -= slot->memory;
		core->workers -= slot->memory;
		slot->memory = 0;
		slot->state = SLOT_ABSENT;
		slot->counted = slot->retiring = false;
		return;
	}
	slot->state = SLOT_DEAD;
	core->workers += stage->spec.slot_memory - slot->memory;
	slot->memory = stage->spec.slot_memory;
	while (slot->flight_count > 0) {
		uint32_t index = slot_flight(stage, event->slot)[0];

		if (first && !core->ending && !item_at(core, index)->stopping)
			blame(core, stage, index, event->death);
		first = false;
		weir_exec_task_lost(core, index);
	}
}

/* A batch that wants to be alone waits for a worker that has run nothing yet, and has one ended if there is none. */
static uint32_t fresh_worker(struct weir_core *core, uint32_t stage_index)
{
	struct stage *stage = &core->stages[stage_index];
	uint32_t idle = WEIR_NO_SLOT, dead = WEIR_NO_SLOT;

	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];

		if (slot->state == SLOT_UP && slot->flight_count == 0 && slot->given == 0)
			return w;
		if (slot->state == SLOT_STARTING || slot->state == SLOT_DYING)
			return WEIR_NO_SLOT;
		if (slot->state == SLOT_DEAD && dead == WEIR_NO_SLOT)
			dead = w;
		if (slot->state == SLOT_UP && slot->flight_count == 0 && idle == WEIR_NO_SLOT)
			idle = w;
	}
	if (dead != WEIR_NO_SLOT) {
		weir_exec_worker_start(core, stage_index, dead);
	} else if (idle != WEIR_NO_SLOT) {
		stage->slots[idle].state = SLOT_DYING;
		core->workers_dying++;
		emit(core, (struct weir_action){.kind = WEIR_DO_KILL_WORKER,
						.stage = stage_index,
						.slot = idle,
						.generation = stage->slots[idle].generation});
	}
	return WEIR_NO_SLOT;
}

uint32_t weir_exec_worker_for(struct weir_core *core, uint32_t stage_index, uint32_t index)
{
	struct stage *stage = &core->stages[stage_index];
	uint32_t best = WEIR_NO_SLOT;

	if (item_at(core, index)->alone)
		return fresh_worker(core, stage_index);
	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];

		if (slot->state != SLOT_UP || slot->alone || slot->flight_count >= stage->spec.in_flight_max)
			continue;
		if (best == WEIR_NO_SLOT || slot->flight_count < stage->slots[best].flight_count)
			best = w;
	}
	return best;
}

/* Lets one worker go that has nothing to do; the last of a stage stays. */
bool weir_exec_pool_shrink(struct weir_core *core)
{
	for (uint32_t s = core->stage_count; s-- > 0;) {
		struct stage *stage = &core->stages[s];
		uint32_t counted = 0, idle = WEIR_NO_SLOT;

		for (uint32_t w = 0; !is_lanes(stage) && w < stage->spec.slots; w++) {
			const struct slot *slot = &stage->slots[w];

			counted += slot->counted && !slot->retiring;
			if (slot->state == SLOT_UP && slot->flight_count == 0 && slot->memory > 0)
				idle = w;
		}
		if (idle == WEIR_NO_SLOT || (counted < 2 && !MUTANT(28)))
			continue;
		stage->shrunk = stage->slots[idle].retiring = true;
		stage->slots[idle].state = SLOT_DYING;
		core->workers_dying++;
		core->freeing += stage->slots[idle].memory;
		emit(core, (struct weir_action){.kind = WEIR_DO_KILL_WORKER,
						.stage = s,
						.slot = idle,
						.generation = stage->slots[idle].generation,
						.bytes = stage->slots[idle].memory});
		return true;
	}
	return false;
}

/* One more worker when all that are up have their hands full: dead ones first, their memory is booked. */
bool weir_exec_pool_grow(struct weir_core *core, uint32_t stage_index)
{
	struct stage *stage = &core->stages[stage_index];
	uint32_t dead = WEIR_NO_SLOT, absent = WEIR_NO_SLOT;

	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		if (stage->slots[w].state == SLOT_STARTING)
			return false;
		if (stage->slots[w].state == SLOT_DEAD && dead == WEIR_NO_SLOT && !MUTANT(22))
			dead = w;
		if (stage->slots[w].state == SLOT_ABSENT && absent == WEIR_NO_SLOT)
			absent = w;
	}
	if (dead != WEIR_NO_SLOT)
		weir_exec_worker_start(core, stage_index, dead);
	else if (absent != WEIR_NO_SLOT && core->asking == 0 &&
		 (weir_exec_room(core) / (stage->shrunk ? ROOM_TO_GROW_AGAIN : 1) >= stage->spec.slot_memory ||
		  MUTANT(13)))
		weir_exec_worker_start(core, stage_index, absent);
	else
		return false;
	return true;
}
