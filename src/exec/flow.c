/* What happens next. Turns, pauses and asks are answered, tasks are started, from the last stage to the first (what is
 * nearest to the end frees most memory), and chunks are delivered, until nothing moves any more. Then the next split is
 * cut, the front is helped if it lacks memory or a lane, and whatever exceeds the budget is relieved. */
#include "exec/core_impl.h"

enum { CONSUMER_CHUNKS_A_SLOT = 4 };
/* Of the budget: a larger chunk is delivered only when no other one is out, since what is out cannot be spilled. */
enum { AHEAD_SHARE = 16 };

uint32_t weir_exec_capacity(const struct weir_core *core, uint32_t stage)
{
	if (stage == core->stage_count)
		return CONSUMER_CHUNKS_A_SLOT * (core->stages[stage - 1].spec.slots + 1);
	return core->stages[stage].spec.slots * (is_lanes(&core->stages[stage]) ? 2 : core->stages[stage].depth);
}

uint32_t weir_exec_waiting(const struct weir_core *core, uint32_t stage)
{
	if (stage == core->stage_count)
		return (uint32_t)core->deliveries.count;
	return (uint32_t)core->stages[stage].queue.count + core->stages[stage].flying;
}

bool weir_exec_passes(const struct weir_core *core, uint32_t stage, uint32_t index)
{
	const struct heap *waiting = stage == core->stage_count ? &core->deliveries : &core->stages[stage].queue;

	return waiting->count > 0 && weir_exec_item_before(core, index, waiting->items[0]);
}

/* A task's chunks are pinned and let go together. */
static void track_all(struct weir_core *core, uint32_t head)
{
	for (uint32_t i = head; core->spills && i != NO_ITEM; i = weir_exec_bundle_next(core, head, i))
		weir_exec_spill_track(core, i);
}

void weir_exec_accept(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	item->state = ITEM_QUEUED;
	track_all(core, index);
	if (core->enough && weir_exec_position_compare(core, item->path, core->enough) >= 0) {
		weir_exec_chunk_free(core, index);
		return;
	}
	if (item->attempt == 0 && weir_exec_bundles(core, item->stage)) {
		weir_exec_bundle_open(core, index);
		return;
	}
	weir_exec_heap_push(
		core, item->stage == core->stage_count ? &core->deliveries : &core->stages[item->stage].queue, index);
	/* Who stands before it and waits for rows learns that none will come from here. */
	weir_exec_bundle_look(core, item->before);
	weir_exec_bundle_look(core, item->after);
}

static bool serve_turns(struct weir_core *core)
{
	bool served = false;

	for (uint32_t s = 0; core->turning > 0 && s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];
		uint32_t oldest;
		const struct item *item;

		if (!is_lanes(stage) || !stage->flying)
			continue;
		oldest = weir_exec_oldest(core, MUTANT(21) ? 0 : s);
		if (oldest == NO_ITEM)
			continue;
		item = item_at(core, oldest);
		if (item->state != ITEM_RUNNING || item->stage != s || stage->slots[item->slot].wait != WAITS_TURN)
			continue;
		weir_exec_wait_end(core, stage, &stage->slots[item->slot]);
		emit(core,
		     (struct weir_action){
			     .kind = WEIR_DO_TURN, .stage = s, .slot = item->slot, .run = item_run(core, oldest)});
		served = true;
	}
	return served;
}

static bool resume_lanes(struct weir_core *core)
{
	uint32_t front = NO_ITEM;
	bool resumed = false;

	if (core->pausing > 0)
		front = weir_exec_front(core);
	for (uint32_t s = 0; core->pausing > 0 && s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];
		bool room = weir_exec_waiting(core, s + 1) < weir_exec_capacity(core, s + 1);

		for (uint32_t w = 0; is_lanes(stage) && w < stage->spec.slots; w++) {
			struct slot *slot = &stage->slots[w];

			if (slot->wait != WAITS_RESUME)
				continue;
			if (!room && slot_flight(stage, w)[0] != front && !MUTANT(17) &&
			    !weir_exec_passes(core, s + 1, slot_flight(stage, w)[0]))
				continue;
			weir_exec_wait_end(core, stage, slot);
			emit(core, (struct weir_action){.kind = WEIR_DO_RESUME,
							.stage = s,
							.slot = w,
							.run = item_run(core, slot_flight(stage, w)[0])});
			resumed = true;
		}
	}
	return resumed;
}

bool weir_exec_front_moves(const struct weir_core *core)
{
	uint32_t front = weir_exec_front(core);
	const struct item *item;

	if (front == NO_ITEM || MUTANT(41))
		return true;
	item = item_at(core, front);
	if (item->state == ITEM_RUNNING)
		return core->stages[item->stage].slots[item->slot].wait == WAITS_NOT;
	return item->state == ITEM_DELIVERED || (item->absent > 0 && item->spilled == 0);
}

/* Workers that were paused, when there is place again; and all of them when the front stands still, which may be for
 * want of their rows, their slot or their memory. */
static bool resume_workers(struct weir_core *core)
{
	bool moves = weir_exec_front_moves(core), resumed = false;

	for (uint32_t s = 0; s < core->stage_count; s++) {
		const struct stage *stage = &core->stages[s];
		bool room = weir_exec_waiting(core, s + 1) < weir_exec_capacity(core, s + 1);

		for (uint32_t w = 0; !is_lanes(stage) && w < stage->spec.slots; w++) {
			if (stage->slots[w].wait != WAITS_RESUME || (!room && moves))
				continue;
			weir_exec_worker_resume(core, s, w);
			resumed = true;
		}
	}
	return resumed;
}

static void start(struct weir_core *core, uint32_t index, uint32_t slot_index)
{
	struct item *item = item_at(core, index);
	struct stage *stage = &core->stages[item->stage];
	struct slot *slot = &stage->slots[slot_index];
	int64_t room = weir_exec_room(core), grant = weir_exec_start_need(core, item->stage, index);

	if (grant > room)
		grant = room > 0 ? room : 0;
	weir_exec_heap_pop(core, &stage->queue);
	item->state = ITEM_RUNNING;
	track_all(core, index);
	item->slot = slot_index;
	/* Several lost chunks of one split may be made again side by side: their attempts must differ. */
	item->attempt = item->rebuild == WEIR_NO_CHUNK ? item->attempt + 1
						       : WEIR_REBUILD_ATTEMPT + core->rebuild_count++;
	if (item->number == 0)
		item->number = ++stage->numbered;
	item->outputs = 0;
	item->need = 0;
	item->grant = grant;
	stage->held_by = 0;
	core->granted += grant;
	if (slot->flight_count == 0)
		weir_exec_slot_taken(core, stage, slot);
	slot_flight(stage, slot_index)[slot->flight_count++] = index;
	slot->given++;
	slot->idle = 0;
	slot->alone = item->alone;
	core->exclusive_runs |= item->exclusive && !MUTANT(34);
	stage->flying++;
	core->lanes_running += is_lanes(stage);
	for (uint32_t part = item->part_first; part != NO_ITEM; part = item_at(core, part)->part_next)
		emit(core, (struct weir_action){.kind = WEIR_DO_TASK_PART,
						.stage = item->stage,
						.slot = slot_index,
						.generation = slot->generation,
						.run = item_run(core, index),
						.chunk = item_chunk(core, part),
						.bytes = item_at(core, part)->bytes});
	emit(core, (struct weir_action){.kind = WEIR_DO_START_TASK,
					.stage = item->stage,
					.slot = slot_index,
					.generation = slot->generation,
					.run = item_run(core, index),
					.chunk = item->place == PLACE_NONE ? WEIR_NO_CHUNK : item_chunk(core, index),
					.bytes = grant + slot->kept,
					.outputs_kept = is_lanes(stage) ? 0 : item->path[item->stage + 1],
					.rows_kept = item->rows_kept});
}

void weir_exec_slot_taken(struct weir_core *core, struct stage *stage, struct slot *slot)
{
	stage->busy++;
	slot->busy_since = core->now;
	core->cpus_taken += stage->spec.milli_cpus;
	core->gpus_taken += stage->spec.milli_gpus;
}

void weir_exec_slot_left(struct weir_core *core, struct stage *stage, struct slot *slot)
{
	stage->busy--;
	stage->stats.busy_ns += core->now - slot->busy_since;
	core->cpus_taken -= stage->spec.milli_cpus;
	core->gpus_taken -= stage->spec.milli_gpus;
}

static uint32_t idle_lane(const struct stage *stage)
{
	for (uint32_t w = 0; w < stage->spec.slots; w++)
		if (stage->slots[w].state == SLOT_UP && stage->slots[w].flight_count == 0)
			return w;
	return WEIR_NO_SLOT;
}

static bool start_next(struct weir_core *core, uint32_t s)
{
	struct stage *stage = &core->stages[s];
	uint32_t index, slot = WEIR_NO_SLOT;
	struct item *item;

	if (stage->queue.count == 0 || (core->parked && !MUTANT(56)))
		return false;
	index = stage->queue.items[0];
	item = item_at(core, index);
	if (item->absent > 0) {
		weir_exec_held_back(core, s, WEIR_WAIT_MEMORY);
		return item->spilled > 0 && weir_exec_restore(core, index);
	}
	if (is_lanes(stage)) {
		slot = idle_lane(stage);
		if (slot == WEIR_NO_SLOT) {
			weir_exec_held_back(core, s, WEIR_WAIT_SLOT);
			return false;
		}
	}
	if (!weir_exec_policies_agree(core, s, index) &&
	    (weir_exec_front(core) != index || (!is_lanes(stage) && weir_exec_start_waits(core, index)) || MUTANT(15)))
		return false;
	if (!is_lanes(stage)) {
		slot = weir_exec_worker_for(core, s, index);
		if (slot == WEIR_NO_SLOT) {
			weir_exec_held_back(core, s, WEIR_WAIT_SLOT);
			return weir_exec_pool_grow(core, s);
		}
	}
	start(core, index, slot);
	return true;
}

/* One split at a time. One that was given up goes before a new one. */
static void cut_next(struct weir_core *core)
{
	struct stage *stage = &core->stages[0];

	if (core->cutting || core->cut_all || core->parked || stage->queue.count > 0 ||
	    idle_lane(stage) == WEIR_NO_SLOT)
		return;
	if (!weir_exec_policies_agree(core, 0, NO_ITEM) && core->live > 0)
		return;
	core->cutting = true;
	emit(core, (struct weir_action){.kind = WEIR_DO_CUT_SPLIT});
}

/* In order. A chunk may overtake older ones only where order is not asked for, and when the queue is full. */
static bool deliver_next(struct weir_core *core)
{
	uint32_t index, older;
	struct item *item;

	if (core->deliveries.count == 0 || (core->parked && !MUTANT(59)))
		return false;
	index = core->deliveries.items[0];
	item = item_at(core, index);
	older = core->first;
	while (item_at(core, older)->state == ITEM_DELIVERED)
		older = item_at(core, older)->after;
	if (older != index && !MUTANT(16) &&
	    (core->preserve_order || core->deliveries.count < weir_exec_capacity(core, core->stage_count)))
		return false;
	/* Not before its turn: it would be spilled again for those that are before it. */
	if (item->spilled > 0)
		return weir_exec_restore(core, index);
	if (core->delivered_count == DELIVER_AHEAD || item->place != PLACE_RESIDENT ||
	    (core->delivered_count > 0 && item->bytes > core->budget / AHEAD_SHARE))
		return false;
	weir_exec_heap_pop(core, &core->deliveries);
	item->state = ITEM_DELIVERED;
	weir_exec_spill_track(core, index);
	core->delivered[core->delivered_count++] = index;
	emit(core,
	     (struct weir_action){.kind = WEIR_DO_DELIVER, .chunk = item_chunk(core, index), .bytes = item->bytes});
	return true;
}

/* What held a stage back since the last step. */
static void count_waits(struct weir_core *core)
{
	if (!core->held_back)
		return;
	core->held_back = false;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		if (stage->held_by)
			stage->stats.wait_ns[stage->held_by - 1] += weir_exec_waited(
				core, s + (stage->held_by - 1 == WEIR_WAIT_DOWNSTREAM), stage->held_since);
		stage->held_by = 0;
	}
}

void weir_exec_settle(struct weir_core *core)
{
	bool moved = true;

	count_waits(core);
	while (moved && !core->ending) {
		moved = false;
		if (core->turning > 0)
			moved |= serve_turns(core);
		if (core->pausing > 0)
			moved |= resume_lanes(core);
		if (core->asking > 0)
			moved |= weir_exec_serve_asks(core);
		for (uint32_t s = core->stage_count; s-- > 0;)
			while (start_next(core, s))
				moved = true;
		moved |= deliver_next(core);
		if (!moved && core->pausing > 0)
			moved = resume_workers(core);
		if (!moved) {
			cut_next(core);
			moved = core->opens > 0 && weir_exec_bundle_force(core);
		}
	}
	if (core->asking > 0 || core->live > core->stages[0].flying)
		weir_exec_help_front(core);
	if (core->asking == 0 && core->rooms_asked == 0)
		core->trimmed = false;
	if (weir_exec_room(core) < 0)
		weir_exec_relieve(core);
}
