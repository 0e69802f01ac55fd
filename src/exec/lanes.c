/* What slots say about their tasks, lanes' and workers' alike, and what they are told. A lane's states:
 *
 *     up ── START_TASK ──▶ running ──▶ done, or given up (its task goes back into the queue)
 *                           │   ▲
 *          ASK, WAIT_TURN,  ▼   │  GRANT, TURN, RESUME
 *          OUTPUT         waiting ── GIVE_UP, STOP_TASK ──▶ unwinding
 *
 * A lane cannot die alone, so its outputs are accepted as they come. When its task was given up and runs again, as many
 * outputs as were accepted before are dropped. A worker's outputs are held until its batch is done; when they have
 * become many, those made so far are accepted as well, and a second attempt's outputs are dropped up to that number. */
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
		waited = weir_exec_waited(core, (uint32_t)(stage - core->stages) + 1, slot->wait_since);
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
	struct stage *stage = &core->stages[item->stage];
	struct slot *slot = &stage->slots[item->slot];

	if (item->stopping)
		return;
	if (item->giving_up)
		core->freeing -= item->grant;
	item->giving_up = false;
	item->stopping = true;
	weir_exec_unlist(core, index);
	if (is_lanes(stage))
		weir_exec_wait_end(core, stage, slot);
	else if (slot_flight(stage, item->slot)[0] == index)
		weir_exec_worker_resume(core, item->stage, item->slot);
	if (slot->room_asked && slot->room_for == index)
		weir_exec_room_answered(core, slot);
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

/* A lane's own word about its only task. It comes from this process and is never late; a run, where given, must
 * match. */
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
	if (slot->flight_count == 0)
		weir_exec_slot_left(core, stage, slot);
	stage->flying--;
	core->lanes_running -= is_lanes(stage);
	if (is_lanes(stage) || at == 0)
		weir_exec_wait_end(core, stage, slot);
	if (slot->room_asked && slot->room_for == index)
		weir_exec_room_answered(core, slot);
	slot->alone = false;
	if (item->exclusive) /* while such a one runs, nothing runs beside it */
		core->exclusive_runs = false;
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

	if (event->stage < core->stage_count && !is_lanes(&core->stages[event->stage])) {
		weir_exec_room_asked(core, event);
		return;
	}
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
	struct item *head = item_at(core, weir_exec_bundle_head(core, index));
	int64_t bytes = event->bytes > 0 ? event->bytes : 0, rows = event->rows > 0 ? event->rows : 0;

	head->task_bytes += bytes - item->bytes; /* one that was lost counts already */
	head->task_rows += rows - item->rows;
	item->bytes = bytes;
	item->rows = rows;
	weir_exec_item_place(core, index, PLACE_RESIDENT);
	core->resident += item->bytes;
	if (item->stage < core->stage_count)
		weir_exec_assume(&core->stages[item->stage], bytes, rows);
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
	} else if (ordinal != item_at(core, lost)->path[1]) {
		drop_output(core, event);
		weir_exec_wait_begin(core, &core->stages[of->stage].slots[of->slot], WAITS_RESUME);
	} else {
		keep_output(core, maker, lost, event);
		weir_exec_stop_task(core, maker);
	}
}

static void spread(struct weir_spread *of, uint64_t value, bool first)
{
	of->min = first || value < of->min ? value : of->min;
	of->max = first || value > of->max ? value : of->max;
	of->total += value;
}

static void hand_over(struct weir_core *core, uint32_t maker, uint32_t index)
{
	struct weir_stage_stats *stats = &core->stages[item_at(core, maker)->stage].stats;
	uint64_t rows = (uint64_t)item_at(core, index)->rows, bytes = (uint64_t)item_at(core, index)->bytes;

	stats->rows_out += rows;
	stats->bytes_out += bytes;
	spread(&stats->output_rows, rows, stats->outputs == 0);
	spread(&stats->output_bytes, bytes, stats->outputs == 0);
	stats->outputs++;
	weir_exec_list(core, index, maker);
	weir_exec_accept(core, index);
}

/* The outputs held with a task are accepted or forgotten. */
static void held_end(struct weir_core *core, uint32_t index, bool accept)
{
	struct item *item = item_at(core, index);
	uint32_t held = item->held_first;

	item->held_first = item->held_last = NO_ITEM;
	item->held_bytes = 0;
	while (held != NO_ITEM) {
		uint32_t next = item_at(core, held)->next;

		item_at(core, held)->next = NO_ITEM;
		if (accept)
			hand_over(core, index, held);
		else
			weir_exec_chunk_free(core, held);
		held = next;
	}
}

/* What is accepted by number fills the next stage's queue; its maker goes on when there is place, or when the front
 * stands still (flow.c). */
static void pause_worker(struct weir_core *core, uint32_t index)
{
	const struct item *item = item_at(core, index);
	struct slot *slot = &core->stages[item->stage].slots[item->slot];

	if (slot->wait != WAITS_NOT || slot->state != SLOT_UP ||
	    weir_exec_waiting(core, item->stage + 1) < weir_exec_capacity(core, item->stage + 1))
		return;
	weir_exec_wait_begin(core, slot, WAITS_RESUME);
	tell(core, index, WEIR_DO_PAUSE);
}

void weir_exec_worker_resume(struct weir_core *core, uint32_t stage, uint32_t slot_index)
{
	struct slot *slot = &core->stages[stage].slots[slot_index];

	if (slot->wait != WAITS_RESUME)
		return;
	weir_exec_wait_end(core, &core->stages[stage], slot);
	tell(core, slot_flight(&core->stages[stage], slot_index)[0], WEIR_DO_RESUME);
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
			weir_exec_fail(core, index, WEIR_E_INTERNAL, "%s: an output was reported out of order",
				       stage->spec.name);
		return;
	}
	ordinal = item->outputs++;
	if (!is_lanes(stage) && stage->slots[event->slot].room_asked)
		weir_exec_room_answered(core, &stage->slots[event->slot]); /* somebody has given it */
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
	}
	if (ordinal < item->path[item->stage + 1] && !(is_lanes(stage) ? MUTANT(9) : MUTANT(29))) {
		drop_output(core, event);
		return;
	}
	if (item->stage + 1 == core->stage_count && !core->has_consumer) {
		drop_output(core, event);
		weir_exec_fail(core, index, WEIR_E_INTERNAL, "%s: a sink made an output", stage->spec.name);
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
		hand_over(core, index, child);
		return;
	}
	if (item->held_first == NO_ITEM)
		item->held_first = child;
	else
		item_at(core, item->held_last)->next = child;
	item->held_last = child;
	item->held_bytes += made->bytes;
	if (item->held_bytes > core->held_bytes_max || MUTANT(10)) {
		if (!MUTANT(10) && !MUTANT(30))
			item->path[item->stage + 1] = ordinal + 1;
		for (uint32_t held = item->held_first; held != NO_ITEM && !MUTANT(52); held = item_at(core, held)->next)
			item->rows_kept += item_at(core, held)->rows;
		held_end(core, index, true);
		pause_worker(core, index);
	}
}

/* Takes the task out of its slot; what it had made but not handed over is accepted or forgotten. */
static void end_run(struct weir_core *core, uint32_t index, int64_t kept, bool accept)
{
	struct item *item = item_at(core, index);

	weir_exec_grant_end(core, &core->stages[item->stage].slots[item->slot], item, kept);
	weir_exec_flight_remove(core, index);
	held_end(core, index, accept);
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

/* What a worker measured. Short tasks are given further ahead, so that nobody sleeps between two of them. */
static void timed(struct stage *stage, const struct weir_task_times *times)
{
	struct weir_stage_stats *stats = &stage->stats;
	uint64_t depth;

	if (is_lanes(stage) || times->wall_ns == 0)
		return;
	spread(&stats->wall_ns, times->wall_ns, stats->tasks_timed == 0);
	spread(&stats->cpu_ns, times->cpu_ns, stats->tasks_timed == 0);
	spread(&stats->call_ns, times->call_ns, stats->tasks_timed == 0);
	stats->tasks_timed++;
	/* One that had to wait for its processor says little: no step up is larger than the time so far. */
	if (stage->task_ns == 0)
		stage->task_ns = times->wall_ns;
	else if (times->wall_ns > stage->task_ns)
		stage->task_ns += ((times->wall_ns < 2 * stage->task_ns ? times->wall_ns : 2 * stage->task_ns) -
				   stage->task_ns) /
					  TIMES_FOLLOW +
				  1;
	else
		stage->task_ns -= (stage->task_ns - times->wall_ns) / TIMES_FOLLOW;
	depth = WEIR_AHEAD_NS / stage->task_ns;
	if (depth < stage->spec.in_flight_max)
		depth = stage->spec.in_flight_max;
	stage->depth = depth < stage->flight_max ? (uint32_t)depth : stage->flight_max;
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
		weir_exec_fail(core, index, WEIR_E_INTERNAL, "%s: a split that ran again made less than the first time",
			       core->stages[0].spec.name);
	if (wanted) {
		core->stats.tasks_done++;
		core->stats.splits_done += item->stage == 0;
		core->stages[item->stage].stats.tasks_done++;
		timed(&core->stages[item->stage], &event->times);
		core->stages[item->stage].stats.rows_in += (uint64_t)item->task_rows;
		core->stages[item->stage].stats.bytes_in += (uint64_t)item->task_bytes;
	}
	end_run(core, index, event->bytes, wanted);
	weir_exec_chunk_free(core, index);
}

/* Beside other batches it had too little memory; with no other worker busy it may have enough. What user code raises is
 * tried again as often as the stage says. */
static bool runs_again(struct weir_core *core, uint32_t index, int code)
{
	struct item *item = item_at(core, index);

	if (code == WEIR_E_MEMORY && !item->exclusive) {
		item->exclusive = item->alone = true;
		core->exclusives++;
		return true;
	}
	return code == WEIR_E_USER && ++item->user_failures <= core->stages[item->stage].spec.user_retries + MUTANT(37);
}

/* So many tasks may fail for good in user code; their rows are left out. */
static bool left_out(struct stage *stage, const struct item *item)
{
	const struct weir_stage_spec *spec = &stage->spec;

	if (item->user_failures < spec->user_retries ||
	    (spec->errored_max >= 0 && stage->stats.tasks_errored >= (uint64_t)spec->errored_max + MUTANT(38)))
		return false;
	stage->stats.tasks_errored++;
	return true;
}

static void refuse_task(struct weir_core *core, uint32_t index, const struct weir_event *event)
{
	const struct item *item = item_at(core, index);
	const struct stage *stage = &core->stages[item->stage];
	int code = event->code ? event->code : WEIR_E_INTERNAL;
	int64_t memory = event->bytes > 0 ? event->bytes : stage->slots[item->slot].memory;
	char has[24], batch[24], limit[24];

	if (!is_lanes(stage) && code == WEIR_E_MEMORY)
		weir_exec_fail(core, index, code,
			       "%s: out of memory on a batch of %s by itself, with %s in its worker; the limit is %s",
			       stage->spec.name, weir_format_bytes(item->task_bytes, batch, sizeof(batch)),
			       weir_format_bytes(memory, has, sizeof(has)),
			       weir_format_bytes(core->limit, limit, sizeof(limit)));
	else
		weir_exec_fail(core, index, code, "%s: %s", stage->spec.name, weir_code_text(code));
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
	if (!is_lanes(stage) && event->code == WEIR_E_USER && left_out(stage, item)) {
		end_run(core, index, 0, false);
		weir_exec_chunk_free(core, index);
		return;
	}
	if (!(is_lanes(stage) ? event->code == WEIR_E_GIVE_UP : runs_again(core, index, event->code)))
		refuse_task(core, index, event);
	end_run(core, index, is_lanes(stage) ? event->bytes : 0, false);
	core->stats.retries += !core->ending;
	stage->stats.retries += !core->ending;
	weir_exec_accept(core, index);
}

static bool is_wanted(struct weir_core *core, uint32_t index)
{
	if (weir_exec_position_compare(core, item_at(core, index)->path, core->enough_path) < 0)
		return true;
	weir_exec_chunk_free(core, index);
	return false;
}

/* What lies behind the end of this task is not wanted: not its remaining siblings, and not what its makers would
 * make. */
void weir_exec_enough(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = of_lane(core, event);
	const struct item *item;

	if (index == NO_ITEM || item_at(core, index)->stopping)
		return;
	item = item_at(core, index);
	if (core->enough && weir_exec_position_compare(core, item->path, core->enough) >= 0)
		return;
	if (item->part_last != NO_ITEM)
		item = item_at(core, item->part_last);
	core->enough = core->enough_path;
	memset(core->enough, 0, (core->stage_count + 2) * sizeof(*core->enough));
	memcpy(core->enough, item->path, (item->stage + 1) * sizeof(*core->enough));
	core->enough[item->stage]++;
	core->cut_all = true;
	core->quiet = true;
	for (uint32_t i = core->last, before; i != NO_ITEM; i = before) {
		before = item_at(core, i)->before;
		if (weir_exec_position_compare(core, item_at(core, i)->path, core->enough) < 0)
			break;
		if (item_at(core, i)->state == ITEM_OPEN)
			weir_exec_chunk_free(core, i);
	}
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
	core->quiet = false;
	for (uint32_t i = core->last, before; i != NO_ITEM; i = before) {
		bool wanted = weir_exec_position_compare(core, item_at(core, i)->path, core->enough) < 0;

		before = item_at(core, i)->before;
		weir_exec_bundle_look(core, i);
		if (wanted)
			break;
	}
}
