/* The chunks that could be spilled: those in memory that wait and that nobody works on. From a run's first spill on
 * they are kept in a heap with the youngest on top, so that the chunk that will be needed last is found at once,
 * however many small ones there are. A run that never spills pays nothing.
 *
 * A chunk's position does not change while it waits, so the heap stays in order by itself. */
#include "exec/core_impl.h"

#define NOT_TRACKED UINT32_MAX

/* Nobody works on it and nobody holds it. A bundle that runs has all its chunks pinned. */
static bool is_idle(const struct weir_core *core, uint32_t index)
{
	switch ((enum item_state)item_at(core, index)->state) {
	case ITEM_QUEUED:
	case ITEM_OPEN:
	case ITEM_HELD:
		return true;
	case ITEM_PART:
		return item_at(core, weir_exec_bundle_head(core, index))->state != ITEM_RUNNING;
	case ITEM_FREE:
	case ITEM_RUNNING:
	case ITEM_DELIVERED:
		break;
	}
	return false;
}

static bool can_be_spilled(const struct weir_core *core, uint32_t index)
{
	const struct item *item = item_at(core, index);

	return item->place == PLACE_RESIDENT && !item->unspillable && item->bytes > 0 && item->state != ITEM_FREE &&
	       (is_idle(core, index) || MUTANT(2));
}

static void set(struct weir_core *core, size_t at, uint32_t index)
{
	core->spillable.items[at] = index;
	item_at(core, index)->spill_at = (uint32_t)at;
}

static void rise(struct weir_core *core, size_t at)
{
	uint32_t index = core->spillable.items[at];

	for (; at > 0; at = (at - 1) / 2) {
		uint32_t up = core->spillable.items[(at - 1) / 2];

		if (!weir_exec_item_before(core, up, index))
			break;
		set(core, at, up);
	}
	set(core, at, index);
}

static void sink(struct weir_core *core, size_t at)
{
	const struct heap *heap = &core->spillable;
	uint32_t index = heap->items[at];

	for (;;) {
		size_t down = at * 2 + 1;

		if (down >= heap->count)
			break;
		if (down + 1 < heap->count && weir_exec_item_before(core, heap->items[down], heap->items[down + 1]))
			down++;
		if (!weir_exec_item_before(core, index, heap->items[down]))
			break;
		set(core, at, heap->items[down]);
		at = down;
	}
	set(core, at, index);
}

void weir_exec_spill_track(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);
	struct heap *heap = &core->spillable;
	uint32_t at = item->spill_at;

	if (!core->spills || can_be_spilled(core, index) == (at != NOT_TRACKED))
		return;
	if (at == NOT_TRACKED) {
		WEIR_ASSERT(heap->count < heap->capacity);
		heap->items[heap->count++] = index;
		rise(core, heap->count - 1);
		return;
	}
	item->spill_at = NOT_TRACKED;
	if (at == --heap->count)
		return;
	set(core, at, heap->items[heap->count]);
	rise(core, at);
	sink(core, item_at(core, heap->items[heap->count])->spill_at);
}

uint32_t weir_exec_spill_candidate(struct weir_core *core, uint32_t behind)
{
	uint32_t last;

	if (!core->spills) {
		core->spills = true;
		for (uint32_t i = core->resident_head; i != NO_ITEM; i = item_at(core, i)->resident_after)
			weir_exec_spill_track(core, i);
	}
	last = core->spillable.count > 0 ? core->spillable.items[0] : NO_ITEM;
	if (last == NO_ITEM || behind == NO_ITEM)
		return last;
	/* If it is one of the bundle that memory is wanted for, all behind it is spilled: a bundle has nothing in
	 * between. */
	return weir_exec_bundle_head(core, last) == behind || !weir_exec_item_before(core, behind, last) ? NO_ITEM
													 : last;
}
