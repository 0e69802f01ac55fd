/* Everything that is not done, in one list in the input's order: splits, chunks that wait or are being worked on, and
 * chunks for the consumer.
 *
 *     3.0.1   3.0.2   3.1   3      4.0   4        what each is: 3.0.1 a chunk made by 3.0, 3 a split at work
 *     └ stage 2 ┘     └ 1 ┘ └ 0 ┘  └ 1 ┘ └ 0 ┘    and its stage
 *
 * A task's output comes directly before the task itself, since the task's position counts its outputs; a new split
 * comes last. So nothing is ever searched for. The first of the list is the front, and nothing can ever come between
 * two neighbours, unless the second is a task of an earlier stage, which may still make something. Not listed: outputs
 * that are held, parts of bundles (the first part stands for them), and tasks that were told to stop. */
#include "exec/core_impl.h"

void weir_exec_list(struct weir_core *core, uint32_t index, uint32_t at)
{
	struct item *item = item_at(core, index);
	uint32_t before = at == NO_ITEM ? core->last : item_at(core, at)->before;

	WEIR_ASSERT(!item->listed && (at == NO_ITEM || item_at(core, at)->listed));
	item->listed = true;
	item->before = before;
	item->after = at;
	if (before == NO_ITEM)
		core->first = index;
	else
		item_at(core, before)->after = index;
	if (at == NO_ITEM)
		core->last = index;
	else
		item_at(core, at)->before = index;
}

void weir_exec_unlink(struct weir_core *core, uint32_t index)
{
	struct item *item = item_at(core, index);

	WEIR_ASSERT(item->listed);
	item->listed = false;
	if (item->before == NO_ITEM)
		core->first = item->after;
	else
		item_at(core, item->before)->after = item->after;
	if (item->after == NO_ITEM)
		core->last = item->before;
	else
		item_at(core, item->after)->before = item->before;
}

void weir_exec_unlist(struct weir_core *core, uint32_t index)
{
	if (!item_at(core, index)->listed)
		return;
	weir_exec_unlink(core, index);
	weir_exec_bundle_look(core, item_at(core, index)->before);
	weir_exec_bundle_look(core, item_at(core, index)->after);
}

uint32_t weir_exec_oldest(const struct weir_core *core, uint32_t stage_last)
{
	uint32_t index = core->first;

	while (index != NO_ITEM && item_at(core, index)->stage > stage_last)
		index = item_at(core, index)->after;
	return index;
}

uint32_t weir_exec_front(const struct weir_core *core)
{
	return core->first;
}
