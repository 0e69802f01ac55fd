/* Bundles: a stage that wants at least so many rows a task gets neighbouring chunks together.
 *
 *     list   … 3.0  3.1  3 │ 4.0  4.1  4.2  4 …          3 and 4: splits at work
 *               └ open ┘         └─ full ──┘
 *
 * A chunk that is accepted opens a bundle; bundles that meet in the list (order.c) are joined while the first has too
 * few rows. The first chunk stands for all: it is listed, queued, run, tried again; its parts hang on it. A bundle is
 * sealed, that is queued, and never changes again, when
 *   - it has its rows, or the next chunk would make it too large, or is of another split where those stay apart
 *     (by_split);
 *   - nothing can be joined to it any more: what follows runs, is sealed, or belongs to a later stage, or there is no
 *     more;
 *   - it is the front, and nothing moves that could bring more (FRONT_STARTS): lanes wait for memory or for a place,
 *     the window is full. So waiting for rows never stalls a run.
 * Each chunk is joined once, and found in no time: the cost of a bundle does not depend on how many wait. */
#include "exec/core_impl.h"

bool weir_exec_bundles(const struct weir_core *core, uint32_t stage)
{
	return stage > 0 && stage < core->stage_count && core->stages[stage].spec.rows_min > 0;
}

uint32_t weir_exec_bundle_head(const struct weir_core *core, uint32_t index)
{
	while (item_at(core, index)->head != index) {
		struct item *item = item_at(core, index);

		item->head = item_at(core, item->head)->head;
		index = item->head;
	}
	return index;
}

uint32_t weir_exec_bundle_next(const struct weir_core *core, uint32_t head, uint32_t index)
{
	return index == head ? item_at(core, head)->part_first : item_at(core, index)->part_next;
}

static void seal(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	item->state = ITEM_QUEUED;
	core->opens--;
	weir_exec_heap_push(core, &core->stages[item->stage].queue, index);
}

/* Where bundles must not depend on who is ready first: what comes before it may still have it join. */
static bool may_be_joined(const struct weir_core *core, const struct item *item)
{
	const struct weir_stage_spec *spec = &core->stages[item->stage].spec;
	const struct item *before = item->before == NO_ITEM ? NULL : item_at(core, item->before);

	return before && (spec->by_split ? before->path[0] == item->path[0] : spec->from_first) && !MUTANT(48) &&
	       (before->stage < item->stage || (before->stage == item->stage && before->state == ITEM_OPEN));
}

static void join(struct weir_core *core, uint32_t to, uint32_t index)
{
	struct item *first = item_at(core, to), *item = item_at(core, index);

	weir_exec_unlink(core, index);
	item->state = ITEM_PART;
	item->head = to;
	item->part_next = item->part_first;
	if (first->part_last == NO_ITEM)
		first->part_first = index;
	else
		item_at(core, first->part_last)->part_next = index;
	first->part_last = item->part_last == NO_ITEM ? index : item->part_last;
	item->part_first = item->part_last = NO_ITEM;
	first->task_bytes += item->task_bytes;
	first->task_rows += item->task_rows;
	first->absent += item->absent;
	first->spilled += item->spilled;
	core->opens--;
	core->parts++;
}

static int64_t bytes_max(const struct weir_core *core, const struct stage *stage)
{
	return stage->spec.rows_max_bytes > 0 ? stage->spec.rows_max_bytes : core->budget / 2;
}

void weir_exec_bundle_look(struct weir_core *core, uint32_t index)
{
	if (core->quiet || core->ending)
		return;
	while (index != NO_ITEM && item_at(core, index)->state == ITEM_OPEN) {
		struct item *item = item_at(core, index), *next;
		struct stage *stage = &core->stages[item->stage];
		bool full = item->task_rows >= stage->spec.rows_min;

		if ((!full || (stage->spec.in_order && !MUTANT(51))) && may_be_joined(core, item))
			return;
		if (item->after == NO_ITEM) {
			if (full || core->cut_all)
				seal(core, index);
			return;
		}
		next = item_at(core, item->after);
		full |= stage->spec.by_split && next->path[0] != item->path[0] && !MUTANT(47);
		if (!full && next->stage < item->stage)
			return;
		if (full || next->stage > item->stage || next->state != ITEM_OPEN || MUTANT(31) ||
		    next->task_bytes > bytes_max(core, stage) - item->task_bytes) {
			seal(core, index);
			index = item->after; /* which may have waited for that */
		} else {
			join(core, index, item->after);
		}
	}
}

void weir_exec_bundle_open(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	item->state = ITEM_OPEN;
	core->opens++;
	weir_exec_bundle_look(core, item->before);
	if (item->state == ITEM_OPEN)
		weir_exec_bundle_look(core, index);
}

/* Whether anything in front of the stage is at work, so that rows may come, or a place for them. */
static bool upstream_moves(const struct weir_core *core, uint32_t stage_index)
{
	if (core->cutting || core->io_pending > 0 || core->workers_dying > 0)
		return true;
	for (uint32_t s = 0; s < stage_index; s++) {
		const struct stage *stage = &core->stages[s];

		if (!is_lanes(stage) && stage->flying > 0)
			return true;
		for (uint32_t w = 0; w < stage->spec.slots; w++) {
			const struct slot *slot = &stage->slots[w];

			if (is_lanes(stage) ? slot->flight_count > 0 && slot->wait == WAITS_NOT
					    : slot->state == SLOT_STARTING && stage->queue.count > 0)
				return true;
		}
	}
	return false;
}

bool weir_exec_bundle_force(struct weir_core *core)
{
	uint32_t front = weir_exec_front(core);

	if (front == NO_ITEM || item_at(core, front)->state != ITEM_OPEN || MUTANT(32) ||
	    upstream_moves(core, item_at(core, front)->stage))
		return false;
	seal(core, front);
	weir_exec_bundle_look(core, item_at(core, front)->after);
	return true;
}
