/* The array of items, with a list of free places and a list of chunks in memory; positions; the heaps in which items
 * wait for a slot, the oldest on top. */
#include "exec/core_impl.h"

#include <string.h>

/* A step makes at most two: a split or an output, and a split that runs again. */
enum { ITEMS_A_STEP = 2 };

int weir_exec_items_reserve(struct weir_core *core, struct weir_error *err)
{
	size_t want = (size_t)core->live + ITEMS_A_STEP;

	if (want <= core->reserved)
		return WEIR_OK;
	want += want / 2;
	if (want > core->item_capacity &&
	    weir_list_grow((void **)&core->items, core->item_size, &core->item_capacity, want, core->account, err))
		return err->code;
	for (uint32_t s = 0; s < core->stage_count; s++)
		if (weir_list_reserve(&core->stages[s].queue, core->account, err, want))
			return err->code;
	if (weir_list_reserve(&core->spillable, core->account, err, want))
		return err->code;
	if (weir_list_reserve(&core->deliveries, core->account, err, want))
		return err->code;
	core->reserved = want;
	return WEIR_OK;
}

uint32_t weir_exec_item_new(struct weir_core *core, uint32_t stage)
{
	uint32_t index = core->free_head, generation = 0;
	struct item *item;

	if (index == NO_ITEM) {
		index = core->item_count++;
		WEIR_ASSERT(index < core->item_capacity);
		item = item_at(core, index);
	} else {
		item = item_at(core, index);
		core->free_head = item->next;
		generation = item->generation;
	}
	memset(item, 0, core->item_size);
	item->generation = generation;
	item->stage = stage;
	item->slot = WEIR_NO_SLOT;
	item->next = item->held_first = item->held_last = NO_ITEM;
	item->part_first = item->part_last = item->part_next = NO_ITEM;
	item->head = index;
	item->rebuild = WEIR_NO_CHUNK;
	item->precedence = item->spill_at = UINT32_MAX;
	core->live++;
	if (stage < core->stage_count)
		core->stages[stage].live++;
	return index;
}

void weir_exec_item_free(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	WEIR_ASSERT(item->state != ITEM_FREE && !item->grant && !item->listed);
	weir_exec_item_place(core, index, PLACE_NONE);
	core->exclusives -= item->exclusive;
	if (item->stage < core->stage_count)
		core->stages[item->stage].live--;
	item->state = ITEM_FREE;
	item->generation++;
	item->next = core->free_head;
	core->free_head = index;
	core->live--;
}

static bool is_absent(enum item_place place)
{
	return place != PLACE_NONE && place != PLACE_RESIDENT;
}

/* Chunks in memory are listed: who looks for one to spill must not walk over all that were spilled before. */
void weir_exec_item_place(struct weir_core *core, uint32_t index, enum item_place place)
{
	struct item *item = item_at(core, index), *head = item_at(core, weir_exec_bundle_head(core, index));

	head->absent = head->absent + is_absent(place) - is_absent(item->place);
	head->spilled = head->spilled + (place == PLACE_SPILLED) - (item->place == PLACE_SPILLED);
	if (item->place == PLACE_RESIDENT) {
		if (item->resident_before == NO_ITEM)
			core->resident_head = item->resident_after;
		else
			item_at(core, item->resident_before)->resident_after = item->resident_after;
		if (item->resident_after != NO_ITEM)
			item_at(core, item->resident_after)->resident_before = item->resident_before;
	}
	item->place = (uint8_t)place;
	if (place == PLACE_RESIDENT) {
		item->resident_before = NO_ITEM;
		item->resident_after = core->resident_head;
		if (core->resident_head != NO_ITEM)
			item_at(core, core->resident_head)->resident_before = index;
		core->resident_head = index;
	}
	weir_exec_spill_track(core, index);
}

uint32_t weir_exec_item_find(const struct weir_core *core, uint64_t chunk)
{
	uint32_t index = (uint32_t)chunk;

	if (index >= core->item_count || item_at(core, index)->state == ITEM_FREE ||
	    item_at(core, index)->generation != chunk >> 32)
		return NO_ITEM;
	return index;
}

int weir_exec_position_compare(const struct weir_core *core, const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < core->stage_count + 2; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

bool weir_exec_item_before(const struct weir_core *core, uint32_t a, uint32_t b)
{
	int order = weir_exec_position_compare(core, item_at(core, a)->path, item_at(core, b)->path);

	return order < 0 || (order == 0 && item_at(core, a)->precedence < item_at(core, b)->precedence);
}

void weir_exec_heap_push(struct weir_core *core, struct heap *heap, uint32_t index)
{
	size_t at = heap->count++;

	WEIR_ASSERT(heap->count <= heap->capacity);
	while (at > 0) {
		size_t up = (at - 1) / 2;

		if (!weir_exec_item_before(core, index, heap->items[up]))
			break;
		heap->items[at] = heap->items[up];
		at = up;
	}
	heap->items[at] = index;
}

static void sift_down(struct weir_core *core, struct heap *heap, size_t at)
{
	uint32_t index = heap->items[at];

	for (;;) {
		size_t down = at * 2 + 1;

		if (down >= heap->count)
			break;
		if (down + 1 < heap->count && weir_exec_item_before(core, heap->items[down + 1], heap->items[down]))
			down++;
		if (!weir_exec_item_before(core, heap->items[down], index))
			break;
		heap->items[at] = heap->items[down];
		at = down;
	}
	heap->items[at] = index;
}

uint32_t weir_exec_heap_pop(struct weir_core *core, struct heap *heap)
{
	uint32_t first = heap->items[0];

	WEIR_ASSERT(heap->count > 0);
	heap->items[0] = heap->items[--heap->count];
	if (heap->count > 0)
		sift_down(core, heap, 0);
	return first;
}

void weir_exec_heap_filter(struct weir_core *core, struct heap *heap, bool (*keep)(struct weir_core *, uint32_t))
{
	size_t kept = 0;

	for (size_t i = 0; i < heap->count; i++)
		if (keep(core, heap->items[i]))
			heap->items[kept++] = heap->items[i];
	heap->count = kept;
	for (size_t at = kept / 2; at-- > 0;)
		sift_down(core, heap, at);
}
