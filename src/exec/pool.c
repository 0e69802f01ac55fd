/* Worker processes. A slot is ABSENT until its first process is started, then
 *
 *     STARTING ── ready ──▶ UP ── died, or killed ──▶ DEAD ── when wanted ──▶ STARTING (next generation)
 *
 * A worker's memory is booked when its slot first starts a process, and stays booked until the run ends or the worker
 * is let go for its memory; so one that died can always be replaced. The first worker of each stage is booked before
 * anything else. What is booked is what the stage assumes, or what its workers were measured to need if that is more. A
 * replacement for which that is too much is booked with what the stage assumes.
 *
 * The pool grows by one worker for each batch that waits, and shrinks to slots_min when measurements keep finding
 * workers idle. When memory is short idle workers go first. Past the limit, workers that have grown are stopped at
 * their work, the one with the youngest batch first. Their batches are repeated with no other worker busy; a batch that
 * is too large even then ends the run with an error that says how much it took.
 *
 * Of the batches given to a worker the first is taken to be the one it runs: when it dies that one is blamed, and the
 * others only wait again. */
#include "exec/core_impl.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* After workers were let go for memory, so many times a worker's need must be free before another is started:
 * otherwise it would be let go again at the next ask. */
enum { ROOM_TO_GROW_AGAIN = 4 };

void weir_exec_worker_start(struct weir_core *core, uint32_t stage_index, uint32_t slot_index)
{
	struct stage *stage = &core->stages[stage_index];
	struct slot *slot = &stage->slots[slot_index];

	int64_t more = stage->estimate - slot->memory;

	if (!slot->counted || more <= weir_exec_room(core)) {
		slot->counted = true;
		slot->memory += more > 0 ? more : 0;
		core->workers += more > 0 ? more : 0;
	}
	slot->state = SLOT_STARTING;
	slot->generation++;
	slot->given = slot->idle = 0;
	slot->measured = 0;
	emit(core, (struct weir_action){.kind = WEIR_DO_START_WORKER,
					.stage = stage_index,
					.slot = slot_index,
					.generation = slot->generation,
					.bytes = slot->memory});
}

static void come_up(const struct weir_core *core, struct stage *stage, struct slot *slot)
{
	if (!stage->up_since)
		stage->up_since = core->now;
	slot->state = SLOT_UP;
	slot->was_up = true;
	if (++stage->up > stage->stats.slots_peak)
		stage->stats.slots_peak = stage->up;
}

static void let_go(struct weir_core *core, uint32_t stage_index, uint32_t slot_index, bool last);

/* It had too little memory to begin with. Where others of its stage are there or about to be, it goes, and from then on
 * they start one by one; beside one that is there, the next not before there is plenty. The last one stays: should its
 * batch be short of memory, too, that will have all of it. */
static void came_up_short(struct weir_core *core, uint32_t stage_index, uint32_t slot_index)
{
	struct stage *stage = &core->stages[stage_index];
	bool has_others = false;

	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];

		if (w == slot_index || (slot->state != SLOT_UP && slot->state != SLOT_STARTING))
			continue;
		has_others = true;
		stage->shrunk |= slot->state == SLOT_UP;
	}
	stage->cramped |= has_others;
	if (has_others && !MUTANT(60))
		let_go(core, stage_index, slot_index, false);
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
			come_up(core, stage, slot);
		}
	} else if (slot->state == SLOT_STARTING && event->generation == slot->generation) {
		stage->spawns_failed = 0;
		come_up(core, stage, slot);
		if (event->code == WEIR_E_MEMORY)
			came_up_short(core, event->stage, event->slot);
	}
}

static const char *how_it_died(int code, char *buffer, size_t size)
{
	const char *name = code > 0 ? sigabbrev_np(code) : NULL;

	if (name)
		snprintf(buffer, size, "by SIG%s", name);
	else
		snprintf(buffer, size,
			 code == 0  ? "nobody knows how"
			 : code < 0 ? "by exit status %d"
				    : "by signal %d",
			 code < 0 ? -1 - code : code);
	return buffer;
}

/* Nothing, where it was never measured: it did not live that long. */
static const char *how_much_it_had(const struct weir_core *core, const struct slot *slot, char *buffer, size_t size)
{
	char has[24], limit[24];

	buffer[0] = 0;
	if (slot->measured)
		snprintf(buffer, size, ", with %s of memory (limit %s)",
			 weir_format_bytes(slot->measured, has, sizeof(has)),
			 weir_format_bytes(core->limit, limit, sizeof(limit)));
	return buffer;
}

/* A kill from outside says little about the batch that was hit, unless it is always the same one. When the others of
 * its stage were hit as often since, it is a storm, and the count begins again. */
static void blame(struct weir_core *core, struct stage *stage, uint32_t index, const struct weir_event *event)
{
	struct item *item = item_at(core, index);
	const struct slot *slot = &stage->slots[item->slot];
	char how[48], memory[64];

	core->stats.retries++;
	stage->stats.retries++;
	if (event->death == WEIR_DEATH_OWN) {
		if (++item->own_deaths >= weir_attempts_max(&stage->spec) + MUTANT(11))
			weir_exec_fail(core, index, WEIR_E_WORKER,
				       "%s: a batch of split %" PRIu64 " ended its worker %" PRIu32
				       " time%s, last %s%s",
				       stage->spec.name, item->path[0], item->own_deaths,
				       item->own_deaths == 1 ? "" : "s", how_it_died(event->code, how, sizeof(how)),
				       how_much_it_had(core, slot, memory, sizeof(memory)));
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
		weir_exec_fail(core, index, WEIR_E_WORKER,
			       "%s: the worker was killed from outside %d times while it ran a batch of split %" PRIu64
			       ", last %s%s: the system had no memory left, or somebody's hand",
			       stage->spec.name, WEIR_KILLS_MAX, item->path[0],
			       how_it_died(event->code, how, sizeof(how)),
			       how_much_it_had(core, slot, memory, sizeof(memory)));
}

void weir_exec_slot_died(struct weir_core *core, const struct weir_event *event)
{
	struct stage *stage;
	struct slot *slot;
	bool first = true;
	char how[48], memory[64];

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
	else if (slot->state == SLOT_STARTING)
		stage->spawns_failed += event->death == WEIR_DEATH_OWN ? WEIR_SPAWN_DIED : WEIR_SPAWN_KILLED;
	if (slot->state == SLOT_STARTING && stage->spawns_failed >= WEIR_SPAWNS_MAX)
		weir_exec_fail(
			core, NO_ITEM, WEIR_E_WORKER, "%s: one worker after another %s before it was up, last %s%s%s",
			stage->spec.name, event->death == WEIR_DEATH_OWN ? "died" : "was killed from outside",
			how_it_died(event->code, how, sizeof(how)), how_much_it_had(core, slot, memory, sizeof(memory)),
			event->death == WEIR_DEATH_OWN ? "" : ": the system had no memory left, or somebody's hand");
	slot->state = SLOT_DEAD;
	while (slot->flight_count > 0) {
		uint32_t index = slot_flight(stage, event->slot)[0];

		if (first && !core->ending && !item_at(core, index)->stopping && !slot->over)
			blame(core, stage, index, event);
		first = false;
		weir_exec_task_lost(core, index);
	}
	core->freeing -= slot->leaving;
	slot->leaving = 0;
	weir_exec_swing(core, slot, 0);
	slot->over = false;
	core->workers -= slot->memory;
	slot->memory = slot->retiring ? 0 : stage->spec.slot_memory;
	core->workers += slot->memory;
	if (slot->retiring) {
		slot->state = SLOT_ABSENT;
		slot->counted = slot->retiring = false;
	}
}

/* A batch that wants to be alone waits for a worker that has run nothing yet, and has one ended if there is none. One
 * that is to have all memory has those ended first that have run something: what they keep is in its way. */
static uint32_t fresh_worker(struct weir_core *core, uint32_t stage_index, bool has_all)
{
	struct stage *stage = &core->stages[stage_index];
	uint32_t idle = WEIR_NO_SLOT, dead = WEIR_NO_SLOT, fresh = WEIR_NO_SLOT;

	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];

		if (slot->state == SLOT_UP && slot->flight_count == 0 && slot->given == 0)
			fresh = fresh == WEIR_NO_SLOT ? w : fresh;
		else if (slot->state == SLOT_UP && slot->flight_count == 0 && idle == WEIR_NO_SLOT)
			idle = w;
		if (slot->state == SLOT_STARTING || slot->state == SLOT_DYING)
			return WEIR_NO_SLOT;
		if (slot->state == SLOT_DEAD && dead == WEIR_NO_SLOT)
			dead = w;
	}
	if (has_all && idle != WEIR_NO_SLOT && !MUTANT(49))
		dead = fresh = WEIR_NO_SLOT;
	if (fresh != WEIR_NO_SLOT)
		return fresh;
	if (dead != WEIR_NO_SLOT) {
		weir_exec_worker_start(core, stage_index, dead);
	} else if (idle != WEIR_NO_SLOT) {
		weir_exec_swing(core, &stage->slots[idle], 0);
		stage->slots[idle].state = SLOT_DYING;
		core->workers_dying++;
		emit(core, (struct weir_action){.kind = WEIR_DO_KILL_WORKER,
						.stage = stage_index,
						.slot = idle,
						.generation = stage->slots[idle].generation});
	}
	return WEIR_NO_SLOT;
}

bool weir_exec_memory_is_taken(const struct weir_core *core)
{
	uint32_t front = core->exclusives > 0 && !MUTANT(34) ? weir_exec_front(core) : NO_ITEM;

	return core->exclusive_runs || (front != NO_ITEM && item_at(core, front)->exclusive);
}

/* Such a batch waits until it is the front, no worker is busy, nothing is lent, and what is cleared for it is gone;
 * meanwhile none is given work. */
static bool may_be_busy(struct weir_core *core, uint32_t index)
{
	if (!item_at(core, index)->exclusive || MUTANT(34))
		return !weir_exec_memory_is_taken(core);
	if (weir_exec_front(core) != index || core->exclusive_runs)
		return false;
	for (uint32_t s = 0; s < core->stage_count; s++)
		if (!is_lanes(&core->stages[s]) && core->stages[s].busy > 0)
			return false;
	if (core->lent > 0 && !MUTANT(57))
		return false;
	return weir_exec_clear_for(core, index) || MUTANT(46);
}

/* Whether a worker is about to come up for each that waits. Then none is given ahead to one that is busy: nobody knows
 * how long it has to wait there. */
static bool each_has_one_coming(const struct stage *stage)
{
	uint64_t starting = 0;

	for (uint32_t w = 0; w < stage->spec.slots; w++)
		starting += stage->slots[w].state == SLOT_STARTING;
	return starting >= stage->queue.count && !MUTANT(45);
}

uint32_t weir_exec_worker_for(struct weir_core *core, uint32_t stage_index, uint32_t index)
{
	struct stage *stage = &core->stages[stage_index];
	bool wake = weir_exec_resources_left(core, stage_index) || weir_exec_front(core) == index || MUTANT(33);
	uint32_t best = WEIR_NO_SLOT;

	if (!may_be_busy(core, index))
		return WEIR_NO_SLOT;
	if (item_at(core, index)->alone)
		return wake ? fresh_worker(core, stage_index, item_at(core, index)->exclusive) : WEIR_NO_SLOT;
	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];

		if (slot->state != SLOT_UP || slot->alone || slot->flight_count >= stage->depth ||
		    (!wake && slot->flight_count == 0))
			continue;
		if (best == WEIR_NO_SLOT || slot->flight_count < stage->slots[best].flight_count)
			best = w;
	}
	if (best != WEIR_NO_SLOT && stage->slots[best].flight_count > 0 && each_has_one_coming(stage))
		return WEIR_NO_SLOT;
	return best;
}

/* Workers whose memory is booked and stays so. */
static uint32_t workers_kept(const struct stage *stage)
{
	uint32_t kept = 0;

	for (uint32_t w = 0; w < stage->spec.slots; w++)
		kept += stage->slots[w].counted && !stage->slots[w].retiring;
	return kept;
}

/* Ends a worker for its memory. The last of a stage leaves what must be there for the next. */
static void let_go(struct weir_core *core, uint32_t stage_index, uint32_t slot_index, bool last)
{
	struct stage *stage = &core->stages[stage_index];
	struct slot *slot = &stage->slots[slot_index];

	slot->retiring = !last;
	weir_exec_swing(core, slot, 0);
	slot->state = SLOT_DYING;
	slot->leaving = slot->memory - (last ? stage->spec.slot_memory : 0);
	core->workers_dying++;
	core->freeing += slot->leaving;
	emit(core, (struct weir_action){.kind = WEIR_DO_KILL_WORKER,
					.stage = stage_index,
					.slot = slot_index,
					.generation = slot->generation,
					.bytes = slot->memory > 0 ? slot->memory : 1});
}

/* Lets one worker go that has nothing to do; the last of a stage stays. */
bool weir_exec_pool_shrink(struct weir_core *core)
{
	for (uint32_t s = core->stage_count; s-- > 0;) {
		struct stage *stage = &core->stages[s];
		uint32_t idle = WEIR_NO_SLOT;

		for (uint32_t w = 0; !is_lanes(stage) && w < stage->spec.slots; w++)
			if (stage->slots[w].state == SLOT_UP && stage->slots[w].flight_count == 0 &&
			    stage->slots[w].memory > 0)
				idle = w;
		if (idle == WEIR_NO_SLOT || (workers_kept(stage) < 2 && !MUTANT(28)))
			continue;
		stage->shrunk = true;
		let_go(core, s, idle, false);
		return true;
	}
	return false;
}

void weir_exec_pool_idle(struct weir_core *core, uint32_t stage_index, uint32_t slot_index)
{
	struct stage *stage = &core->stages[stage_index];
	struct slot *slot = &stage->slots[slot_index];
	uint32_t min = stage->spec.slots_min > 1 ? stage->spec.slots_min : 1;

	if (slot->flight_count > 0 || stage->queue.count > 0 || slot->memory == 0)
		slot->idle = 0;
	else if (++slot->idle >= IDLE_MEASURES && (workers_kept(stage) > min || MUTANT(39)))
		let_go(core, stage_index, slot_index, false);
}

/* Its worker is stopped, and it runs once more when it has all memory. */
void weir_exec_repeat_alone(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	struct stage *stage = &core->stages[item->stage];

	if (!item->stopping) {
		item->exclusive = item->alone = true;
		core->exclusives++;
		core->stats.retries++;
		stage->stats.retries++;
	}
	stage->slots[item->slot].over = true;
	let_go(core, item->stage, item->slot, workers_kept(stage) < 2);
}

/* Of the workers that grew and are at work, the one with the youngest batch; the front's own only when there is no
 * other. */
bool weir_exec_pool_over(struct weir_core *core)
{
	uint32_t victim = NO_ITEM;
	char has[24], beside[24], limit[24], batch[24];
	struct stage *stage;
	struct item *item;
	struct slot *slot;

	for (uint32_t s = 0; s < core->stage_count; s++)
		for (uint32_t w = 0; !is_lanes(&core->stages[s]) && w < core->stages[s].spec.slots; w++) {
			uint32_t index;

			slot = &core->stages[s].slots[w];
			if (slot->state != SLOT_UP || slot->flight_count == 0 ||
			    slot->memory <= core->stages[s].spec.slot_memory)
				continue;
			index = slot_flight(&core->stages[s], w)[0];
			if (victim == NO_ITEM || weir_exec_item_before(core, victim, index))
				victim = index;
		}
	if (victim == NO_ITEM)
		return false;
	item = item_at(core, victim);
	stage = &core->stages[item->stage];
	slot = &stage->slots[item->slot];
	if (item->exclusive) {
		weir_exec_fail(
			core, victim, WEIR_E_LIMIT,
			"%s: one batch of %s took %s in its worker by itself, with %s in use beside it; the limit "
			"is %s: smaller batches or a larger limit would help",
			stage->spec.name, weir_format_bytes(item->task_bytes, batch, sizeof(batch)),
			weir_format_bytes(slot->memory, has, sizeof(has)),
			weir_format_bytes(core->granted + core->resident + core->workers - slot->memory, beside,
					  sizeof(beside)),
			weir_format_bytes(core->limit, limit, sizeof(limit)));
		return true;
	}
	weir_exec_repeat_alone(core, victim);
	return true;
}

/* For another run: who waits for room has to be repeated with more memory than there is, and who waits for work can be
 * started again. One that is to have all memory stays, since it would have it again only when this one's turn has
 * come. */
bool weir_exec_pool_yield(struct weir_core *core)
{
	for (uint32_t s = core->stage_count; s-- > 0 && !MUTANT(58);) {
		struct stage *stage = &core->stages[s];

		for (uint32_t w = stage->spec.slots; !is_lanes(stage) && w-- > 0;) {
			struct slot *slot = &stage->slots[w];

			if (slot->state != SLOT_UP || slot->memory == 0)
				continue;
			if (slot->flight_count == 0) {
				let_go(core, s, w, workers_kept(stage) < 2);
				return true;
			}
			if (slot->room_asked && !item_at(core, slot->room_for)->exclusive) {
				weir_exec_repeat_alone(core, slot->room_for);
				return true;
			}
		}
	}
	return false;
}

static bool grows_by_one(const struct weir_core *core, uint32_t stage_index)
{
	const struct stage *stage = &core->stages[stage_index];
	uint64_t count = workers_kept(stage) + 1;

	/* More than can be busy at once would only sit there. */
	if (count > 1 && ((core->milli_cpus && count * stage->spec.milli_cpus > core->milli_cpus) ||
			  (core->milli_gpus && count * stage->spec.milli_gpus > core->milli_gpus)))
		return false;
	return weir_exec_room(core) / (stage->shrunk ? ROOM_TO_GROW_AGAIN : 1) >= stage->estimate || MUTANT(13);
}

void weir_exec_pool_begin(struct weir_core *core, uint32_t stage_index)
{
	const struct weir_stage_spec *spec = &core->stages[stage_index].spec;
	uint32_t first = spec->slots_first > spec->slots_min ? spec->slots_first : spec->slots_min;

	for (uint32_t w = 1; w < first && grows_by_one(core, stage_index) && !MUTANT(40); w++)
		weir_exec_worker_start(core, stage_index, w);
}

/* When all that are up have their hands full, as many as batches wait: dead ones first, their memory is booked. */
bool weir_exec_pool_grow(struct weir_core *core, uint32_t stage_index)
{
	struct stage *stage = &core->stages[stage_index];
	uint64_t starting = 0, before, wanted;

	if (weir_exec_memory_is_taken(core))
		return false;
	for (uint32_t w = 0; w < stage->spec.slots; w++)
		starting += stage->slots[w].state == SLOT_STARTING;
	before = starting;
	wanted = stage->cramped && stage->queue.count > 1 && !MUTANT(61) ? 1 : stage->queue.count;
	for (uint32_t w = 0; w < stage->spec.slots && starting < wanted && !MUTANT(22); w++)
		if (stage->slots[w].state == SLOT_DEAD) {
			weir_exec_worker_start(core, stage_index, w);
			starting++;
		}
	for (uint32_t w = 0; w < stage->spec.slots && starting < wanted && core->asking == 0; w++)
		if (stage->slots[w].state == SLOT_ABSENT) {
			if (!grows_by_one(core, stage_index))
				break;
			weir_exec_worker_start(core, stage_index, w);
			starting++;
		}
	return starting > before;
}
