/* What the slots that run tasks say, and what they are told. A lane is one of
 *
 *     up ── START_TASK ──▶ running ──▶ done, or given up (its task goes back into the queue)
 *                           │   ▲
 *          ASK, WAIT_TURN,  ▼   │  GRANT, TURN, RESUME
 *          OUTPUT         waiting ── GIVE_UP, STOP_TASK ──▶ unwinding
 *
 * A lane's outputs are accepted as they come: a lane cannot die alone. When its task was given up and runs again, outputs
 * that were accepted before are dropped by number. A worker's outputs are held until its batch is done. */
#include "exec/core_impl.h"

#include <string.h>

void weir_exec_wait_begin(struct weir_core *core, struct slot *slot, enum slot_wait wait)
{
	WEIR_ASSERT(slot->wait == WAITS_NOT);
	slot->wait = (uint8_t)wait;
	slot->wait_since = core->now;
	if (wait == WAITS_MEMORY)
		core->asker = NO_ITEM;
	core->asking += wait == WAITS_MEMORY;
	core->turning += wait == WAITS_TURN;
	core->pausing += wait == WAITS_RESUME;
}

void weir_exec_wait_end(struct weir_core *core, struct stage *stage, struct slot *slot)
{
	uint64_t waited = core->now - slot->wait_since;

	switch ((enum slot_wait)slot->wait) {
	case WAITS_NOT:
		break;
	case WAITS_MEMORY:
		core->asking--;
		core->asker = NO_ITEM;
		core->stats.wait_ns_memory += waited;
		stage->stats.wait_ns[WEIR_WAIT_MEMORY] += waited;
		break;
	case WAITS_TURN:
		core->turning--;
		core->stats.wait_ns_turn += waited;
		stage->stats.wait_ns[WEIR_WAIT_TURN] += waited;
		break;
	case WAITS_RESUME:
		core->pausing--;
		core->stats.wait_ns_downstream += waited;
		stage->stats.wait_ns[WEIR_WAIT_DOWNSTREAM] += waited;
		break;
	}
	slot->wait = WAITS_NOT;
	slot->asked = 0;
}

static void tell(struct weir_core *core, uint32_t index, enum weir_action_kind kind)
{
	const struct item *item = item_at(core, index);

	emit(core, (struct weir_action){.kind = kind,
					.stage = item->stage,
					.slot = item->slot,
					.generation = core->stages[item->stage].slots[item->slot].generation,
					.run = item_run(core, index)});
}

void weir_exec_give_up(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	struct slot *slot = &core->stages[item->stage].slots[item->slot];

	WEIR_ASSERT(!item->giving_up && !item->stopping && item->state == ITEM_RUNNING);
	item->giving_up = true;
	item->need = item->grant + slot->asked;
	core->freeing += item->grant;
	core->stats.give_ups++;
	weir_exec_wait_end(core, &core->stages[item->stage], slot);
	tell(core, index, WEIR_DO_GIVE_UP);
}

void weir_exec_stop_task(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	if (item->stopping)
		return;
	if (item->giving_up)
		core->freeing -= item->grant;
	item->giving_up = false;
	item->stopping = true;
	weir_exec_wait_end(core, &core->stages[item->stage], &core->stages[item->stage].slots[item->slot]);
	tell(core, index, WEIR_DO_STOP_TASK);
}

uint32_t weir_exec_running(const struct weir_core *core, const struct weir_event *event)
{
	const struct stage *stage;
	const struct slot *slot;

	if (event->stage >= core->stage_count || event->slot >= core->stages[event->stage].spec.slots)
		return NO_ITEM;
	stage = &core->stages[event->stage];
	slot = &stage->slots[event->slot];
	if (!is_lanes(stage) && event->generation != slot->generation)
		return NO_ITEM;
	for (uint32_t i = 0; i < slot->flight_count; i++) {
		uint32_t index = slot_flight(stage, event->slot)[i];
		struct weir_run run = item_run(core, index);

		if (run.task == event->run.task && (run.attempt == event->run.attempt || MUTANT(8)))
			return index;
	}
	return NO_ITEM;
}

/* A lane's own word about its only task. It comes from this process and is never late; a run, where given, must match. */
static uint32_t of_lane(const struct weir_core *core, const struct weir_event *event)
{
	const struct stage *stage;

	if (event->stage >= core->stage_count || event->slot >= core->stages[event->stage].spec.slots)
		return NO_ITEM;
	stage = &core->stages[event->stage];
	if (!is_lanes(stage) || !stage->slots[event->slot].flight_count)
		return NO_ITEM;
	return event->run.attempt ? weir_exec_running(core, event) : slot_flight(stage, event->slot)[0];
}

void weir_exec_flight_remove(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	struct stage *stage = &core->stages[item->stage];
	struct slot *slot = &stage->slots[item->slot];
	uint32_t *flight = slot_flight(stage, item->slot), at = 0;

	while (flight[at] != index)
		at++;
	slot->flight_count--;
	memmove(flight + at, flight + at + 1, (slot->flight_count - at) * sizeof(*flight));
	stage->flying--;
	core->lanes_running -= is_lanes(stage);
	if (is_lanes(stage))
		weir_exec_wait_end(core, stage, slot);
	slot->alone = false;
	item->slot = WEIR_NO_SLOT;
	item->outputs = 0;
}

/* A lane that was told to unwind and says something else meanwhile is told again. */
static bool told_again(struct weir_core *core, uint32_t index)
{
	const struct item *item = item_at(core, index);

	if (item->giving_up)
		tell(core, index, WEIR_DO_GIVE_UP);
	else if (item->stopping)
		tell(core, index, WEIR_DO_STOP_TASK);
	return item->giving_up || item->stopping;
}

void weir_exec_ask(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = of_lane(core, event);
	struct slot *slot;

	if (index == NO_ITEM || told_again(core, index))
		return;
	slot = &core->stages[event->stage].slots[event->slot];
	if (slot->wait != WAITS_NOT)
		return;
	slot->asked = event->bytes > 0 ? event->bytes : 0;
	weir_exec_wait_begin(core, slot, WAITS_MEMORY);
}

void weir_exec_return(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = of_lane(core, event);

	if (index != NO_ITEM && event->bytes > 0)
		weir_exec_grant_returned(core, &core->stages[event->stage].slots[event->slot], item_at(core, index),
					 event->bytes);
}

void weir_exec_wait_turn(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = of_lane(core, event);
	struct slot *slot;

	if (index == NO_ITEM || told_again(core, index))
		return;
	core->ordered = true;
	slot = &core->stages[event->stage].slots[event->slot];
	if (slot->wait == WAITS_NOT)
		weir_exec_wait_begin(core, slot, WAITS_TURN);
}

static void drop_output(struct weir_core *core, const struct weir_event *event)
{
	emit(core, (struct weir_action){.kind = WEIR_DO_OUTPUT_DROP,
					.stage = event->stage,
					.slot = event->slot,
					.generation = event->generation,
					.run = event->run,
					.chunk = event->chunk});
}

/* The bytes were part of the maker's grant; what exceeds it comes on top, and is spilled for if need be. */
static void keep_output(struct weir_core *core, uint32_t maker, uint32_t index, const struct weir_event *event)
{
	struct item *item = item_at(core, index), *of = item_at(core, maker);

	item->bytes = event->bytes > 0 ? event->bytes : 0;
	item->rows = event->rows > 0 ? event->rows : 0;
	weir_exec_item_place(core, index, PLACE_RESIDENT);
	core->resident += item->bytes;
	if (!MUTANT(25))
		weir_exec_grant_returned(core, &core->stages[of->stage].slots[of->slot], of, item->bytes);
	emit(core, (struct weir_action){.kind = WEIR_DO_OUTPUT_KEPT,
					.stage = event->stage,
					.slot = event->slot,
					.generation = event->generation,
					.run = event->run,
					.chunk = item_chunk(core, index),
					.bytes = item->bytes});
}

static void rebuilt(struct weir_core *core, uint32_t maker, const struct weir_event *event, uint64_t ordinal)
{
	struct item *of = item_at(core, maker);
	uint32_t lost = weir_exec_item_find(core, of->rebuild);

	if (lost == NO_ITEM) {
		drop_output(core, event);
		weir_exec_stop_task(core, maker);
	} else if (ordinal != of->path[1]) {
		drop_output(core, event);
		weir_exec_wait_begin(core, &core->stages[of->stage].slots[of->slot], WAITS_RESUME);
	} else {
		keep_output(core, maker, lost, event);
		weir_exec_stop_task(core, maker);
	}
}

static void count_out(struct stage *stage, const struct item *output)
{
	stage->stats.rows_out += (uint64_t)output->rows;
	stage->stats.bytes_out += (uint64_t)output->bytes;
}

void weir_exec_output(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_running(core, event), child;
	struct item *item, *made;
	struct stage *stage;
	uint64_t ordinal;

	if (index == NO_ITEM) {
		drop_output(core, event);
		return;
	}
	item = item_at(core, index);
	stage = &core->stages[item->stage];
	if (event->chunk != item->outputs) { /* the message came twice; a gap cannot be */
		if (event->chunk > item->outputs)
			weir_exec_fail(core, WEIR_E_INTERNAL, "%s: an output was reported out of order",
				       stage->spec.name);
		return;
	}
	ordinal = item->outputs++;
	if (item->stopping || item->giving_up) {
		drop_output(core, event);
		told_again(core, index);
		return;
	}
	if (item->rebuild != WEIR_NO_CHUNK) {
		rebuilt(core, index, event, ordinal);
		return;
	}
	if (is_lanes(stage)) {
		weir_exec_wait_end(core, stage, &stage->slots[event->slot]);
		weir_exec_wait_begin(core, &stage->slots[event->slot], WAITS_RESUME);
		if (ordinal < item->path[item->stage + 1] && !MUTANT(9)) {
			drop_output(core, event);
			return;
		}
	}
	if (item->stage + 1 == core->stage_count && !core->has_consumer) {
		drop_output(core, event);
		weir_exec_fail(core, WEIR_E_INTERNAL, "%s: a sink made an output", stage->spec.name);
		return;
	}
	child = weir_exec_item_new(core, item->stage + 1);
	made = item_at(core, child);
	memcpy(made->path, item->path, (item->stage + 1) * sizeof(*made->path));
	made->path[item->stage + 1] = ordinal;
	made->state = ITEM_HELD;
	keep_output(core, index, child, event);
	if (is_lanes(stage)) {
		item->path[item->stage + 1] = ordinal + 1;
		count_out(stage, made);
		weir_exec_accept(core, child);
	} else if (MUTANT(10)) {
		weir_exec_accept(core, child);
	} else {
		if (item->held_first == NO_ITEM)
			item->held_first = child;
		else
			item_at(core, item->held_last)->next = child;
		item->held_last = child;
	}
}

/* Takes the task out of its slot; what it had made but not handed over is accepted or forgotten. */
static void end_run(struct weir_core *core, uint32_t index, int64_t kept, bool accept)
{
	struct item *item = item_at(core, index);
	uint32_t held = item->held_first;

	weir_exec_grant_end(core, &core->stages[item->stage].slots[item->slot], item, kept);
	weir_exec_flight_remove(core, index);
	item->held_first = item->held_last = NO_ITEM;
	while (held != NO_ITEM) {
		struct item *output = item_at(core, held);
		uint32_t next = output->next;

		output->next = NO_ITEM;
		if (accept) {
			count_out(&core->stages[item->stage], output);
			weir_exec_accept(core, held);
		} else {
			weir_exec_chunk_free(core, held);
		}
		held = next;
	}
}

void weir_exec_task_lost(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	bool stopping = item->stopping;

	end_run(core, index, 0, false);
	item->stopping = false;
	if (stopping || MUTANT(18))
		weir_exec_chunk_free(core, index);
	else
		weir_exec_accept(core, index);
}

void weir_exec_task_done(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_running(core, event);
	struct item *item;
	bool wanted;

	if (index == NO_ITEM)
		return;
	item = item_at(core, index);
	wanted = !item->stopping && item->rebuild == WEIR_NO_CHUNK;
	if (item->rebuild != WEIR_NO_CHUNK && !item->stopping)
		weir_exec_fail(core, WEIR_E_INTERNAL, "%s: a split that ran again made less than the first time",
			       core->stages[0].spec.name);
	if (wanted) {
		core->stats.tasks_done++;
		core->stats.splits_done += item->stage == 0;
		core->stages[item->stage].stats.tasks_done++;
		core->stages[item->stage].stats.rows_in += (uint64_t)item->rows;
		core->stages[item->stage].stats.bytes_in += item->stage ? (uint64_t)item->bytes : 0;
	}
	end_run(core, index, event->bytes, wanted);
	weir_exec_chunk_free(core, index);
}

void weir_exec_task_failed(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_running(core, event);
	struct item *item;
	struct stage *stage;

	if (index == NO_ITEM)
		return;
	item = item_at(core, index);
	stage = &core->stages[item->stage];
	if (item->stopping) {
		end_run(core, index, event->bytes, false);
		weir_exec_chunk_free(core, index);
		return;
	}
	end_run(core, index, event->bytes, false);
	if (is_lanes(stage) && event->code == WEIR_E_GIVE_UP) {
		core->stats.retries++;
		stage->stats.retries++;
	} else if (!is_lanes(stage) && event->code == WEIR_E_MEMORY && !item->alone) {
		item->alone = true; /* beside other batches it had too little; alone it may have enough */
		core->stats.retries++;
		stage->stats.retries++;
	} else {
		weir_exec_fail(core, event->code ? event->code : WEIR_E_INTERNAL, "%s: %s", stage->spec.name,
			       weir_code_text(event->code ? event->code : WEIR_E_INTERNAL));
	}
	weir_exec_accept(core, index);
}

static bool is_wanted(struct weir_core *core, uint32_t index)
{
	if (weir_exec_position_compare(core, item_at(core, index)->path, core->enough_path) < 0)
		return true;
	weir_exec_chunk_free(core, index);
	return false;
}

/* What lies behind the end of this task is not wanted: not its remaining siblings, and not what its makers would make. */
void weir_exec_enough(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = of_lane(core, event);
	const struct item *item;

	if (index == NO_ITEM || item_at(core, index)->stopping)
		return;
	item = item_at(core, index);
	if (core->enough && weir_exec_position_compare(core, item->path, core->enough) >= 0)
		return;
	core->enough = core->enough_path;
	memset(core->enough, 0, (core->stage_count + 2) * sizeof(*core->enough));
	memcpy(core->enough, item->path, (item->stage + 1) * sizeof(*core->enough));
	core->enough[item->stage]++;
	core->cut_all = true;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		weir_exec_heap_filter(core, &stage->queue, is_wanted);
		for (uint32_t w = 0; w < stage->spec.slots; w++)
			for (uint32_t i = 0; i < stage->slots[w].flight_count; i++) {
				uint32_t other = slot_flight(stage, w)[i];

				if (weir_exec_position_compare(core, item_at(core, other)->path, core->enough) >= 0 ||
				    MUTANT(19))
					weir_exec_stop_task(core, other);
			}
	}
	weir_exec_heap_filter(core, &core->deliveries, is_wanted);
}
