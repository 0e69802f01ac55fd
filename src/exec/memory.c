/* The governor: who may have how much memory, and who must give it back.
 *
 *     granted    what tasks may use. A lane asks for more; a worker's batch has an allowance for its output
 *     resident   chunks in memory. An output takes its bytes out of its maker's grant, so nothing is counted twice
 *     workers    private memory of worker processes: as assumed or as measured, whichever is more
 *     excess     what this process was measured to use beyond its accounts; taken off the budget
 *     swings     what workers had with their last batches beyond what they have now, and will have with the next ones;
 *                off the budget as well
 *
 * Asks are answered in order of age. When the oldest does not fit, younger chunks are spilled for it. When it is the
 * front, warm pages are given back, chunks are spilled from the far end, tasks are told to give up, the youngest first,
 * and then workers without a batch are let go. When nothing is left to take and nothing is on its way back, the front
 * may pass the budget, up to the limit (OLDEST_OVERDRAW); past that the run ends and says how much was missing. Before
 * that the front waits for what the user holds and will release, unless the user himself waits, which the backend
 * knows. */
#include "exec/core_impl.h"

#include <inttypes.h>
#include <string.h>

enum { SWINGS_SHARE = 2 };  /* at most this part of the budget is kept free for what workers will have again */
enum { EXCESS_FALLS = 4 };  /* when less excess is measured, this part of the difference comes back each time */
enum { RELIEF_SHARE = 16 }; /* while the front moves, this part of the budget may be exceeded */

int64_t weir_exec_room(const struct weir_core *core)
{
	int64_t most = core->budget / SWINGS_SHARE;

	return core->budget - core->excess - (core->swings < most ? core->swings : most) - core->granted -
	       core->resident - core->workers;
}

static int64_t used(const struct weir_core *core)
{
	return core->granted + core->resident + core->workers;
}

void weir_exec_books_changed(struct weir_core *core)
{
	WEIR_ASSERT(core->granted >= 0 && core->resident >= 0 && core->workers >= 0 && core->freeing >= 0);
	if (used(core) > core->stats.peak)
		core->stats.peak = used(core);
}

void weir_exec_grant_returned(struct weir_core *core, struct slot *slot, struct item *item, int64_t bytes)
{
	int64_t of_item = bytes < item->grant ? bytes : item->grant;
	int64_t of_slot = bytes - of_item < slot->kept ? bytes - of_item : slot->kept;

	item->grant -= of_item;
	slot->kept -= of_slot;
	if (item->giving_up)
		core->freeing -= of_item;
	core->granted -= of_item + of_slot;
}

/* The task is over: its grant goes back but for what its lane keeps. */
void weir_exec_grant_end(struct weir_core *core, struct slot *slot, struct item *item, int64_t kept)
{
	int64_t all = item->grant + slot->kept;

	if (item->giving_up && !MUTANT(23))
		core->freeing -= item->grant;
	item->giving_up = false;
	kept = kept < 0 ? 0 : kept < all ? kept : all;
	if (!MUTANT(1))
		core->granted -= all - kept;
	item->grant = 0;
	slot->kept = kept;
}

static void chunk_free(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	switch ((enum item_place)item->place) {
	case PLACE_SPILLING:
	case PLACE_RESTORING:
		item->doomed = true;
		return;
	case PLACE_RESIDENT:
		core->resident -= item->bytes;
		break;
	case PLACE_SPILLED:
		core->spilled -= item->bytes;
		break;
	case PLACE_NONE:
	case PLACE_LOST:
		break;
	}
	if (item->place == PLACE_RESIDENT || item->place == PLACE_SPILLED)
		emit(core, (struct weir_action){.kind = WEIR_DO_FREE, .chunk = item_chunk(core, index)});
	weir_exec_item_free(core, index);
}

void weir_exec_chunk_free(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	uint32_t part = item->part_first;

	weir_exec_unlist(core, index);
	core->opens -= item->state == ITEM_OPEN;
	if (item->state == ITEM_OPEN)
		item->state = ITEM_QUEUED;
	item->part_first = item->part_last = NO_ITEM;
	while (part != NO_ITEM) {
		struct item *other = item_at(core, part);
		uint32_t next = other->part_next;

		WEIR_ASSERT(other->state == ITEM_PART);
		other->head = part; /* by itself: what it still has to do with the disk concerns nobody else */
		other->state = ITEM_QUEUED;
		other->part_next = NO_ITEM;
		core->parts--;
		chunk_free(core, part);
		part = next;
	}
	chunk_free(core, index);
}

static void spill(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	weir_exec_item_place(core, index, PLACE_SPILLING);
	core->freeing += item->bytes;
	core->io_pending++;
	core->stats.spills++;
	emit(core, (struct weir_action){.kind = WEIR_DO_SPILL, .chunk = item_chunk(core, index), .bytes = item->bytes});
}

/* Spills what lies behind `behind` until `bytes` will be free. False: there is nothing left to spill. */
static bool spill_for(struct weir_core *core, uint32_t behind, int64_t bytes)
{
	while (weir_exec_room(core) + core->freeing < bytes) {
		uint32_t index = weir_exec_spill_candidate(core, behind);

		if (index == NO_ITEM)
			return false;
		spill(core, index);
	}
	return true;
}

/* The youngest lane task behind `behind` that has a grant to lose. */
static uint32_t revoke_candidate(const struct weir_core *core, uint32_t behind)
{
	uint32_t last = NO_ITEM;

	for (uint32_t s = 0; s < core->stage_count; s++) {
		const struct stage *stage = &core->stages[s];

		if (!is_lanes(stage))
			continue;
		for (uint32_t w = 0; w < stage->spec.slots; w++) {
			uint32_t index = stage->slots[w].flight_count ? slot_flight(stage, w)[0] : NO_ITEM;
			const struct item *item;

			if (index == NO_ITEM || index == behind)
				continue;
			item = item_at(core, index);
			if (item->giving_up || item->stopping || item->grant == 0 ||
			    !weir_exec_item_before(core, behind, index))
				continue;
			if (last == NO_ITEM || weir_exec_item_before(core, last, index))
				last = index;
		}
	}
	return last;
}

/* Memory that comes back by itself: batches in workers end, tasks told to stop do, chunks under I/O can be spilled
 * after. */
static bool more_is_coming(const struct weir_core *core)
{
	if (core->freeing > 0 || core->io_pending > 0)
		return true;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		const struct stage *stage = &core->stages[s];

		if (!stage->flying)
			continue;
		if (!is_lanes(stage))
			return true;
		for (uint32_t w = 0; w < stage->spec.slots; w++)
			if (stage->slots[w].flight_count && item_at(core, slot_flight(stage, w)[0])->stopping)
				return true;
	}
	return false;
}

enum room { ROOM_READY, ROOM_COMING, ROOM_EXHAUSTED };

/* Makes everything behind the front give way to it. */
static enum room make_room(struct weir_core *core, uint32_t front, int64_t bytes)
{
	if (weir_exec_room(core) >= bytes)
		return ROOM_READY;
	if (!core->trimmed) {
		core->trimmed = true;
		emit(core, (struct weir_action){.kind = WEIR_DO_TRIM, .bytes = bytes - weir_exec_room(core)});
	}
	while (!spill_for(core, front, bytes)) {
		uint32_t victim = MUTANT(3) ? NO_ITEM : revoke_candidate(core, front);

		if (victim != NO_ITEM)
			weir_exec_give_up(core, victim);
		else if (!weir_exec_pool_shrink(core))
			break;
	}
	return more_is_coming(core) ? ROOM_COMING : ROOM_EXHAUSTED;
}

bool weir_exec_clear_for(struct weir_core *core, uint32_t front)
{
	uint32_t index;

	if (!core->trimmed) {
		core->trimmed = true;
		emit(core, (struct weir_action){.kind = WEIR_DO_TRIM, .bytes = core->limit});
	}
	while (core->budget < INT64_MAX && (index = weir_exec_spill_candidate(core, front)) != NO_ITEM)
		spill(core, index);
	while (!MUTANT(62) && (index = revoke_candidate(core, front)) != NO_ITEM)
		weir_exec_give_up(core, index);
	while (weir_exec_pool_shrink(core))
		;
	return core->freeing == 0 && core->workers_dying == 0;
}

/* While more than half of the budget is free a task gets as much again as it has, beyond what it asks for: where there
 * are few tasks first grants are small for so many lanes, and operators go by what is left of theirs (row groups,
 * windows). */
static int64_t step_of(const struct weir_core *core, const struct item *item, int64_t bytes, int64_t room)
{
	int64_t step = (bytes + GRANT_STEP - 1) / GRANT_STEP * GRANT_STEP, spare = (room - step - core->budget / 2) / 2;

	return step + (spare > 0 ? (spare < item->grant ? spare : item->grant) : 0);
}

static void grant(struct weir_core *core, uint32_t index, int64_t room)
{
	struct item *item = item_at(core, index);
	struct slot *slot = &core->stages[item->stage].slots[item->slot];
	int64_t bytes = slot->asked;

	if (bytes <= INT64_MAX - GRANT_STEP && room >= 0) {
		int64_t step = step_of(core, item, bytes, room);

		if (step <= room || MUTANT(4))
			bytes = step;
	}
	item->grant += bytes;
	core->granted += bytes;
	weir_exec_wait_end(core, &core->stages[item->stage], slot);
	emit(core, (struct weir_action){.kind = WEIR_DO_GRANT,
					.stage = item->stage,
					.slot = item->slot,
					.run = item_run(core, index),
					.bytes = bytes});
}

static uint32_t oldest_asker(const struct weir_core *core)
{
	uint32_t oldest = NO_ITEM;

	if (core->asker != NO_ITEM)
		return core->asker;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		const struct stage *stage = &core->stages[s];

		for (uint32_t w = 0; is_lanes(stage) && w < stage->spec.slots; w++)
			if (stage->slots[w].wait == WAITS_MEMORY &&
			    (oldest == NO_ITEM || weir_exec_item_before(core, slot_flight(stage, w)[0], oldest)))
				oldest = slot_flight(stage, w)[0];
	}
	return oldest;
}

/* Strictly by age: a large ask of an older task is not passed by small ones of younger tasks. */
bool weir_exec_serve_asks(struct weir_core *core)
{
	bool served = false;

	while (core->asking > 0) {
		uint32_t index = core->asker = oldest_asker(core);
		const struct item *item = item_at(core, index);
		int64_t bytes = core->stages[item->stage].slots[item->slot].asked;

		if (weir_exec_room(core) < bytes && !MUTANT(26)) {
			spill_for(core, index, bytes);
			break;
		}
		grant(core, index, weir_exec_room(core));
		served = true;
	}
	return served;
}

static bool older_wants_room(const struct weir_core *core, uint32_t index)
{
	for (uint32_t s = 0; s < core->stage_count; s++)
		for (uint32_t w = 0; !is_lanes(&core->stages[s]) && w < core->stages[s].spec.slots; w++) {
			const struct slot *slot = &core->stages[s].slots[w];

			if (slot->room_asked && slot->room_for != index && !MUTANT(44) &&
			    (index == NO_ITEM || weir_exec_item_before(core, slot->room_for, index)))
				return true;
		}
	return false;
}

/* Who takes memory past an older one that waits for it would only be made to give it back. */
bool weir_exec_older_waits(const struct weir_core *core, uint32_t index)
{
	uint32_t asker, front;

	if (index == NO_ITEM && core->asking > 0)
		return true;
	asker = core->asking > 0 ? oldest_asker(core) : NO_ITEM;
	if (asker != NO_ITEM && asker != index && (index == NO_ITEM || weir_exec_item_before(core, asker, index)))
		return true;
	if (core->rooms_asked > 0 && older_wants_room(core, index))
		return true;
	if (core->spilled == 0)
		return false;
	front = weir_exec_front(core);
	/* It waits until it has all memory (weir_exec_clear_for): what comes back meanwhile would be spilled again,
	 * without end. */
	if (front != NO_ITEM && front != index && item_at(core, front)->exclusive &&
	    item_at(core, front)->state == ITEM_QUEUED && !MUTANT(55))
		return true;
	return front != NO_ITEM && front != index && item_at(core, front)->state != ITEM_OPEN &&
	       item_at(core, front)->spilled > 0;
}

static void restore(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	weir_exec_item_place(core, index, PLACE_RESTORING);
	core->spilled -= item->bytes;
	core->resident += item->bytes;
	core->io_pending++;
	core->stats.restores++;
	emit(core,
	     (struct weir_action){.kind = WEIR_DO_RESTORE, .chunk = item_chunk(core, index), .bytes = item->bytes});
}

bool weir_exec_restore(struct weir_core *core, uint32_t head)
{
	bool restored = false;

	/* What comes back while memory is cleared for another would have to go again, and again. */
	if (weir_exec_memory_is_taken(core) && weir_exec_front(core) != head && !MUTANT(55))
		return false;
	for (uint32_t i = head; i != NO_ITEM; i = weir_exec_bundle_next(core, head, i)) {
		if (item_at(core, i)->place != PLACE_SPILLED)
			continue;
		if (weir_exec_room(core) < item_at(core, i)->bytes || weir_exec_older_waits(core, head))
			break;
		restore(core, i);
		restored = true;
	}
	return restored;
}

/* Whether so much fits below the overdraft when what is lent has come back, and not before; or another run has its
 * turn. */
static bool waits_for_lent(const struct weir_core *core, int64_t bytes)
{
	int64_t left = core->overdraft - used(core);

	return core->parked || (left >= bytes && left - core->lent < bytes && !MUTANT(53));
}

bool weir_exec_start_waits(const struct weir_core *core, uint32_t index)
{
	int64_t need = weir_exec_start_need(core, item_at(core, index)->stage, index);

	return core->lent > 0 && weir_exec_room(core) < need && waits_for_lent(core, need);
}

/* OLDEST_OVERDRAW. Returns false when it has to wait, and when even that does not help; the run then ends. */
static bool overdraw(struct weir_core *core, uint32_t index, int64_t bytes)
{
	const struct item *item = item_at(core, index);
	int64_t enough = bytes < INT64_MAX / 4 ? used(core) + bytes + bytes / 4 + (core->limit - core->overdraft)
					       : bytes;
	char needs[24], has[24], limit[24], give[24];

	if (waits_for_lent(core, bytes))
		return false;
	if ((core->overdraft - used(core) >= bytes && core->overdraft >= used(core)) || MUTANT(5))
		return true;
	weir_exec_fail(core, index, WEIR_E_LIMIT,
		       "%s: one %s needs %s more and %s are in use already, the limit is %s: give at least %s",
		       core->stages[item->stage < core->stage_count ? item->stage : core->stage_count - 1].spec.name,
		       item->stage ? "batch" : "split", weir_format_bytes(bytes, needs, sizeof(needs)),
		       weir_format_bytes(used(core), has, sizeof(has)),
		       weir_format_bytes(core->limit, limit, sizeof(limit)),
		       weir_format_bytes(enough, give, sizeof(give)));
	return false;
}

/* The front waits for a lane of its stage, and all of them wait for it or for what stands behind it. */
static void free_a_slot(struct weir_core *core, uint32_t front)
{
	const struct stage *stage = &core->stages[item_at(core, front)->stage];
	uint32_t youngest = NO_ITEM;

	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		const struct slot *slot = &stage->slots[w];
		uint32_t index = slot->flight_count ? slot_flight(stage, w)[0] : NO_ITEM;

		if (slot->state != SLOT_UP)
			continue;
		if (index == NO_ITEM || slot->wait == WAITS_NOT || item_at(core, index)->giving_up ||
		    item_at(core, index)->stopping)
			return; /* it will be free by itself */
		if (youngest == NO_ITEM || weir_exec_item_before(core, youngest, index))
			youngest = index;
	}
	if (youngest != NO_ITEM && !MUTANT(6))
		weir_exec_give_up(core, youngest);
}

static void restore_front(struct weir_core *core, uint32_t front)
{
	for (uint32_t i = front; i != NO_ITEM; i = weir_exec_bundle_next(core, front, i)) {
		int64_t bytes = item_at(core, i)->bytes;
		enum room room;

		if (item_at(core, i)->place != PLACE_SPILLED)
			continue;
		room = make_room(core, front, bytes);
		if (room == ROOM_COMING || (room == ROOM_EXHAUSTED && !overdraw(core, front, bytes)))
			return;
		restore(core, i);
	}
}

void weir_exec_help_front(struct weir_core *core)
{
	uint32_t front = weir_exec_front(core);
	struct item *item;
	struct slot *slot;

	if (front == NO_ITEM)
		return;
	item = item_at(core, front);
	if (item->state == ITEM_RUNNING) {
		slot = &core->stages[item->stage].slots[item->slot];
		if (slot->wait != WAITS_MEMORY)
			return;
		switch (make_room(core, front, slot->asked)) {
		case ROOM_COMING:
			return;
		case ROOM_EXHAUSTED:
			if (!overdraw(core, front, slot->asked))
				return;
			break;
		case ROOM_READY:
			break;
		}
		grant(core, front, weir_exec_room(core));
	} else if (item->state == ITEM_QUEUED && item->spilled > 0) {
		restore_front(core, front);
	} else if (item->state == ITEM_QUEUED && item->stage < core->stage_count &&
		   is_lanes(&core->stages[item->stage])) {
		free_a_slot(core, front);
	}
}

/* Whether the front is in the worker's hands, or may be waiting for them: for its rows, its slot, or its end. */
static bool holds_up_front(const struct weir_core *core, const struct stage *stage, uint32_t slot)
{
	uint32_t front = weir_exec_front(core);

	for (uint32_t i = 0; i < stage->slots[slot].flight_count; i++)
		if (slot_flight(stage, slot)[i] == front)
			return true;
	if (weir_exec_front_moves(core) || core->workers_dying > 0)
		return false;
	for (uint32_t s = 0; s < core->stage_count; s++)
		for (uint32_t w = 0; !is_lanes(&core->stages[s]) && w < core->stages[s].spec.slots; w++)
			if (core->stages[s].slots[w].state == SLOT_STARTING)
				return false;
	return true;
}

static uint32_t workers_busy(const struct weir_core *core)
{
	uint32_t busy = 0;

	for (uint32_t s = 0; s < core->stage_count; s++)
		busy += is_lanes(&core->stages[s]) ? 0 : core->stages[s].busy;
	return busy;
}

void weir_exec_room_answered(struct weir_core *core, struct slot *slot)
{
	core->rooms_asked -= slot->room_asked;
	slot->room_asked = false;
}

/* Room for an output that is larger than the batch was allowed. The worker keeps the result and asks again and again;
 * it is told when there is memory, at once where the front depends on it. Workers that were measured at more than the
 * budget, for whatever reason, so go one at a time, and not at all past the limit. */
void weir_exec_room_asked(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_running(core, event), front = weir_exec_front(core);
	struct stage *stage;
	struct slot *slot;
	struct item *item;
	int64_t more;

	if (index == NO_ITEM || item_at(core, index)->stopping)
		return;
	item = item_at(core, index);
	stage = &core->stages[item->stage];
	slot = &stage->slots[item->slot];
	if (slot->state != SLOT_UP)
		return;
	core->rooms_asked += !slot->room_asked;
	slot->room_asked = true;
	slot->room_for = index;
	more = event->bytes > item->grant ? event->bytes - item->grant : 0;
	slot->room_more = more;
	if (weir_exec_room(core) < more || weir_exec_older_waits(core, index)) {
		if (!holds_up_front(core, stage, item->slot) || MUTANT(42)) {
			/* What is spilled now is wanted back soon; while the front moves, memory comes by itself. */
			if (!weir_exec_front_moves(core))
				spill_for(core, index, more);
			return;
		}
		make_room(core, front, more);
		if (weir_exec_room(core) < more &&
		    (core->freeing > 0 || core->io_pending > 0 || waits_for_lent(core, more)))
			return;
		if (weir_exec_room(core) < more && core->overdraft - used(core) < more && !MUTANT(43)) {
			/* Others may still end. When none is left it has all memory once; then that is all there is. */
			if (workers_busy(core) == 1 && !item->exclusive)
				weir_exec_repeat_alone(core, index);
			else if (workers_busy(core) == 1)
				overdraw(core, index, more);
			return;
		}
	}
	weir_exec_room_answered(core, slot);
	item->grant += more;
	core->granted += more;
	emit(core, (struct weir_action){.kind = WEIR_DO_GRANT,
					.stage = item->stage,
					.slot = item->slot,
					.generation = slot->generation,
					.run = item_run(core, index),
					.bytes = more});
}

/* Something arrived that nobody could foresee (an output beyond its allowance, a grown worker): back below the budget,
 * and by all means below the limit. For another run that has its turn, all that can: who waits for memory would only
 * keep what it has. */
void weir_exec_relieve(struct weir_core *core)
{
	uint32_t front = weir_exec_front(core), victim;
	int64_t slack = weir_exec_front_moves(core) ? core->budget / RELIEF_SHARE : 0;

	while (!spill_for(core, front, -slack) && weir_exec_pool_shrink(core))
		;
	while (used(core) - core->freeing > (core->parked ? core->budget : core->limit) && !core->ending &&
	       !MUTANT(36)) {
		victim = front == NO_ITEM ? NO_ITEM : revoke_candidate(core, front);
		if (victim != NO_ITEM)
			weir_exec_give_up(core, victim);
		else if (!(core->parked && weir_exec_pool_yield(core)) &&
			 (used(core) - core->freeing <= core->limit || !weir_exec_pool_over(core)))
			break;
	}
}

/* What the front waits for that the budget does not have, and nothing of the run's own will bring. */
static int64_t wanted(const struct weir_core *core)
{
	uint32_t front = weir_exec_front(core);
	const struct item *item;
	int64_t most = 0;

	if (front == NO_ITEM || core->ending || core->freeing > 0 || core->io_pending > 0 || core->workers_dying > 0)
		return 0;
	item = item_at(core, front);
	if (item->state == ITEM_QUEUED && item->exclusive && workers_busy(core) == 0)
		return INT64_MAX;
	if (item->state == ITEM_QUEUED && item->absent == 0 && item->stage < core->stage_count &&
	    !is_lanes(&core->stages[item->stage]))
		most = weir_exec_start_need(core, item->stage, front);
	for (uint32_t s = 0; s < core->stage_count; s++)
		for (uint32_t w = 0; !is_lanes(&core->stages[s]) && w < core->stages[s].spec.slots; w++) {
			const struct slot *slot = &core->stages[s].slots[w];

			if (slot->room_asked && slot->room_more > most && holds_up_front(core, &core->stages[s], w))
				most = slot->room_more;
		}
	if (!more_is_coming(core)) {
		if (item->state == ITEM_RUNNING && core->stages[item->stage].slots[item->slot].wait == WAITS_MEMORY)
			most = core->stages[item->stage].slots[item->slot].asked;
		for (uint32_t i = front; item->state == ITEM_QUEUED && i != NO_ITEM;
		     i = weir_exec_bundle_next(core, front, i))
			if (item_at(core, i)->place == PLACE_SPILLED && item_at(core, i)->bytes > most)
				most = item_at(core, i)->bytes;
	}
	return most > weir_exec_room(core) ? most : 0;
}

void weir_core_load(const struct weir_core *core, struct weir_core_load *out)
{
	*out = (struct weir_core_load){.booked = used(core),
				       .without_workers = core->granted + core->resident,
				       .wants = wanted(core),
				       .has_all = core->exclusive_runs,
				       .active = core->io_pending + core->workers_dying + core->cutting};
	for (uint32_t i = 0; i < core->delivered_count; i++)
		out->delivered += item_at(core, core->delivered[i])->bytes;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		const struct stage *stage = &core->stages[s];

		for (uint32_t w = 0; w < stage->spec.slots; w++) {
			const struct slot *slot = &stage->slots[w];

			out->active += slot->state == SLOT_STARTING && !is_lanes(stage);
			out->active += slot->state == SLOT_UP && slot->flight_count > 0 && slot->wait == WAITS_NOT &&
				       !slot->room_asked;
		}
	}
}

void weir_exec_spilled(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_item_find(core, event->chunk);
	struct item *item;

	if (index == NO_ITEM || item_at(core, index)->place != PLACE_SPILLING)
		return;
	item = item_at(core, index);
	core->io_pending--;
	core->freeing -= item->bytes;
	if (event->code) {
		item->unspillable = true;
		weir_exec_item_place(core, index, PLACE_RESIDENT);
	} else {
		weir_exec_item_place(core, index, PLACE_SPILLED);
		core->resident -= item->bytes;
		core->spilled += item->bytes;
	}
	if (item->doomed)
		weir_exec_chunk_free(core, index);
}

/* Only what a split made can be made again: the input of a batch is freed when its output is accepted. */
static void rebuild(struct weir_core *core, uint32_t index, int code)
{
	struct item *item = item_at(core, index), *split;
	uint32_t again, head = weir_exec_bundle_head(core, index);

	emit(core, (struct weir_action){.kind = WEIR_DO_FREE, .chunk = item_chunk(core, index)});
	item->generation++;
	weir_exec_item_place(core, index, PLACE_LOST);
	if (item->stage != 1 || item->rebuilds >= WEIR_ATTEMPTS_MAX || !is_lanes(&core->stages[0])) {
		weir_exec_fail(core, NO_ITEM, code, "a spilled chunk of split %" PRIu64 " could not be read back",
			       item->path[0]);
		return;
	}
	item->rebuilds++;
	again = weir_exec_item_new(core, 0);
	split = item_at(core, again);
	/* It stands where the chunk's bundle stands, with the outputs that the bundle's own task has made already. */
	memcpy(split->path, item_at(core, head)->path, (core->stage_count + 2) * sizeof(*split->path));
	split->rebuild = item_chunk(core, index);
	split->split = item->path[0];
	split->precedence = core->lost_count++;
	core->stats.retries++;
	core->stages[0].stats.retries++;
	weir_exec_list(core, again, head);
	weir_exec_accept(core, again);
}

void weir_exec_restored(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_item_find(core, event->chunk);
	struct item *item;

	if (index == NO_ITEM || item_at(core, index)->place != PLACE_RESTORING)
		return;
	item = item_at(core, index);
	core->io_pending--;
	weir_exec_item_place(core, index, PLACE_RESIDENT);
	if (!event->code || MUTANT(7)) {
		if (item->doomed)
			weir_exec_chunk_free(core, index);
		return;
	}
	core->resident -= item->bytes;
	if (item->doomed) {
		weir_exec_item_place(core, index, PLACE_SPILLED);
		core->spilled += item->bytes;
		weir_exec_chunk_free(core, index);
	} else {
		rebuild(core, index, event->code);
	}
}

/* A batch that is larger than chunks commonly are, since the user said how many rows it has: a worker will need more
 * for it. */
void weir_exec_assume(struct stage *stage, int64_t bytes, int64_t rows)
{
	const struct weir_stage_spec *spec = &stage->spec;
	double needs = (double)bytes;

	if (is_lanes(stage) || !spec->slot_times || stage->stats.tasks_done > 0)
		return;
	if (rows > 0 && rows < spec->rows_min && spec->rows_min < INT64_MAX)
		needs = needs / (double)rows * (double)spec->rows_min; /* it will be one of several */
	needs = needs * spec->slot_times + (double)spec->slot_start;
	if (needs <= (double)stage->estimate || MUTANT(50))
		return;
	stage->estimate = needs < ASSUMED_MAX ? (int64_t)needs : (int64_t)ASSUMED_MAX;
	stage->assumes = true;
}

/* What the next worker is taken to need: as much as any was seen to need, and slowly less when those at work need
 * less. */
static void estimate(struct stage *stage, const struct slot *slot, int64_t bytes)
{
	if (bytes > stage->stats.memory_peak)
		stage->stats.memory_peak = bytes;
	if (stage->assumes && stage->stats.tasks_done > 0) {
		stage->assumes = false;
		stage->estimate = stage->stats.memory_peak > stage->spec.slot_memory ? stage->stats.memory_peak
										     : stage->spec.slot_memory;
	}
	if (bytes < stage->spec.slot_memory)
		bytes = stage->spec.slot_memory;
	if (bytes > stage->estimate)
		stage->estimate = MUTANT(35) ? stage->estimate : bytes;
	else if (slot->flight_count > 0 && !stage->assumes)
		stage->estimate -= (stage->estimate - bytes) / ESTIMATE_FALLS;
}

void weir_exec_swing(struct weir_core *core, struct slot *slot, int64_t bytes)
{
	core->swings += bytes - slot->swing;
	slot->swing = bytes;
}

/* What this process has more is off the budget at once, since it is there; what it has less comes back by quarters,
 * since it may be there again. */
void weir_exec_measured(struct weir_core *core, const struct weir_event *event)
{
	if (event->slot == WEIR_NO_SLOT) {
		int64_t bytes = event->bytes < 0 ? 0 : event->bytes;

		if (core->budget == INT64_MAX)
			return;
		core->excess = bytes > core->excess ? bytes : core->excess + (bytes - core->excess) / EXCESS_FALLS;
		/* What remains must let the oldest work without escapes. */
		if (core->excess > core->budget / 2)
			core->excess = core->budget / 2;
		return;
	}
	if (event->stage < core->stage_count && event->slot < core->stages[event->stage].spec.slots) {
		struct stage *stage = &core->stages[event->stage];
		struct slot *slot = &stage->slots[event->slot];
		int64_t swing;

		if (is_lanes(stage) || (slot->state != SLOT_UP && slot->state != SLOT_STARTING) ||
		    slot->generation != event->generation)
			return;
		estimate(stage, slot, event->bytes);
		slot->measured = event->bytes;
		core->workers -= slot->memory;
		slot->memory = event->bytes > stage->spec.slot_memory ? event->bytes : stage->spec.slot_memory;
		core->workers += slot->memory;
		swing = slot->measured + event->apart - slot->memory;
		weir_exec_swing(core, slot, swing > 0 ? swing : 0);
		if (slot->state == SLOT_UP)
			weir_exec_pool_idle(core, event->stage, event->slot);
	}
}
