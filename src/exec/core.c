/* The state machine: takes one event, and says what to do about it. A step reserves all memory that it may need before
 * it changes anything, handles the event, lets everything settle (flow.c), and checks whether the run is over.
 *
 * The end. A run succeeds when there are no more splits, no item is left and no worker has yet to die. On an error the
 * first cause is kept, lanes are told to stop, busy workers are killed, and I/O under way is waited for; then
 * everything is freed, and END says why. */
#include "exec/core_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_exec_fail(struct weir_core *core, uint32_t index, int code, const char *format, ...)
{
	va_list args;

	if (core->ending)
		return;
	core->ending = code;
	if (index != NO_ITEM) {
		core->culprit = item_run(core, index);
		core->culprit_split = item_at(core, index)->path[0];
	}
	va_start(args, format);
	vsnprintf(core->reason, sizeof(core->reason), format, args);
	va_end(args);
}

static int check_options(const struct weir_core_options *options, struct weir_error *err)
{
	int64_t workers = 0;

	if (options->stage_count == 0 || options->stages[0].kind != WEIR_STAGE_LANES)
		return weir_error_set(err, WEIR_E_INVALID, "a run begins with a stage of lanes");
	if (options->budget < 0 || options->limit < options->budget)
		return weir_error_set(err, WEIR_E_INVALID, "the budget must lie between 0 and the limit");
	if (options->overdraft && (options->overdraft < options->budget || options->limit < options->overdraft))
		return weir_error_set(err, WEIR_E_INVALID, "the overdraft must lie between the budget and the limit");
	for (uint32_t s = 0; s < options->stage_count; s++) {
		const struct weir_stage_spec *spec = &options->stages[s];

		if (spec->slots == 0 || spec->slot_memory < 0)
			return weir_error_set(err, WEIR_E_INVALID, "stage %u has no slots, or memory below zero", s);
		if (spec->slots_first > spec->slots || spec->slots_min > spec->slots)
			return weir_error_set(err, WEIR_E_INVALID, "stage %u begins with more slots than it may have",
					      s);
		if (spec->kind != WEIR_STAGE_WORKERS)
			continue;
		if (spec->in_flight_max == 0)
			return weir_error_set(err, WEIR_E_INVALID, "stage %u gives its workers no batches", s);
		if (spec->slot_memory > options->budget - workers) {
			int64_t wanted = spec->slot_memory + workers;
			/* Half of the limit is what others have at most. */
			int64_t enough = (options->budget > options->limit / 2
						  ? wanted + options->limit - options->budget
						  : 2 * wanted) +
					 wanted / 4;
			char has[24], needs[24], give[24];

			return weir_error_set(
				err, WEIR_E_LIMIT,
				"%s: one worker of each stage needs %s, and what else is in memory leaves %s: give at least %s (memory_limit=), or let a worker ask for less (memory=)",
				spec->name, weir_format_bytes(wanted, needs, sizeof(needs)),
				weir_format_bytes(options->budget, has, sizeof(has)),
				weir_format_bytes(enough, give, sizeof(give)));
		}
		workers += spec->slot_memory;
	}
	return WEIR_OK;
}

/* Lanes share equally what the first workers leave. */
static void share_budget(struct weir_core *core)
{
	int64_t left = core->budget, share;
	uint32_t lanes = 0;

	for (uint32_t s = 0; s < core->stage_count; s++) {
		if (is_lanes(&core->stages[s]))
			lanes += core->stages[s].spec.slots;
		else
			left -= core->stages[s].spec.slot_memory;
	}
	share = left > 0 ? left / lanes : 0;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		if (is_lanes(stage))
			stage->first_grant = stage->spec.slot_memory < share ? stage->spec.slot_memory : share;
	}
}

static size_t flight_size(const struct stage *stage)
{
	return (size_t)stage->spec.slots * stage->flight_max * sizeof(uint32_t);
}

int weir_core_new(struct weir_account *account, const struct weir_core_options *options, struct weir_core **out,
		  struct weir_error *err)
{
	size_t path_size = ((size_t)options->stage_count + 2) * sizeof(uint64_t);
	struct weir_core *core = NULL;

	*out = NULL;
	if (check_options(options, err))
		goto fail;
	core = weir_alloc_zero(account, sizeof(*core), err);
	if (!core)
		goto fail;
	core->account = account;
	core->budget = options->budget;
	core->limit = options->limit;
	core->overdraft = core->overdraft_most = options->overdraft ? options->overdraft : options->limit;
	core->preserve_order = options->preserve_order;
	core->has_consumer = options->consumer;
	core->milli_cpus = options->milli_cpus;
	core->milli_gpus = options->milli_gpus;
	core->held_bytes_max = options->held_bytes_max;
	if (core->held_bytes_max <= 0)
		core->held_bytes_max = options->budget / HELD_SHARE < HELD_BYTES_MAX ? options->budget / HELD_SHARE
										     : HELD_BYTES_MAX;
	core->free_head = core->resident_head = core->asker = core->first = core->last = NO_ITEM;
	core->item_size = sizeof(struct item) + path_size;
	core->stats.budget = options->budget;
	core->stages = weir_alloc_zero(account, options->stage_count * sizeof(*core->stages), err);
	if (!core->stages)
		goto fail;
	core->stage_count = options->stage_count;
	core->enough_path = weir_alloc_zero(account, path_size, err);
	if (!core->enough_path)
		goto fail;
	for (uint32_t s = 0; s < options->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		stage->spec = options->stages[s];
		stage->estimate = stage->spec.slot_memory;
		if (!stage->spec.name)
			stage->spec.name = "stage";
		if (is_lanes(stage))
			stage->spec.in_flight_max = 1;
		stage->depth = stage->flight_max = stage->spec.in_flight_max;
		if (!is_lanes(stage) && stage->spec.in_flight_short > stage->flight_max)
			stage->flight_max = stage->spec.in_flight_short;
		core->slot_count += stage->spec.slots * stage->flight_max;
		core->lane_slots += is_lanes(stage) ? stage->spec.slots : 0;
		stage->slots = weir_alloc_zero(account, stage->spec.slots * sizeof(*stage->slots), err);
		if (!stage->slots)
			goto fail;
		stage->flight = weir_alloc_zero(account, flight_size(stage), err);
		if (!stage->flight)
			goto fail;
	}
	share_budget(core);
	*out = core;
	return WEIR_OK;
fail:
	weir_core_free(core);
	return err->code;
}

void weir_core_free(struct weir_core *core)
{
	struct weir_account *account;

	if (!core)
		return;
	account = core->account;
	for (uint32_t s = 0; s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		if (stage->slots)
			weir_free(account, stage->slots, stage->spec.slots * sizeof(*stage->slots));
		if (stage->flight)
			weir_free(account, stage->flight, flight_size(stage));
		weir_list_release(&stage->queue, account);
	}
	weir_list_release(&core->deliveries, account);
	weir_list_release(&core->spillable, account);
	weir_free(account, core->items, core->item_capacity * core->item_size);
	if (core->enough_path)
		weir_free(account, core->enough_path, ((size_t)core->stage_count + 2) * sizeof(uint64_t));
	if (core->stages)
		weir_free(account, core->stages, core->stage_count * sizeof(*core->stages));
	weir_free(account, core, sizeof(*core));
}

/* One step emits at most a few actions for each slot and for each item. */
static int reserve(struct weir_core *core, struct weir_actions *out, struct weir_error *err)
{
	size_t want = out->count + 16 + 8 * (size_t)core->slot_count + 2 * ((size_t)core->live + 2);

	if (weir_exec_items_reserve(core, err))
		return err->code;
	return weir_list_reserve(out, core->account, err, want);
}

static void stop_slot(struct weir_core *core, uint32_t stage, uint32_t index)
{
	struct slot *slot = &core->stages[stage].slots[index];

	if (slot->counted)
		core->workers -= slot->memory;
	slot->counted = false;
	slot->memory = 0;
	weir_exec_swing(core, slot, 0);
	core->granted -= slot->kept;
	slot->kept = 0;
	slot->state = SLOT_STOPPED;
	emit(core, (struct weir_action){
			   .kind = WEIR_DO_STOP_SLOT, .stage = stage, .slot = index, .generation = slot->generation});
}

static void end(struct weir_core *core)
{
	for (uint32_t s = 0; s < core->stage_count; s++)
		for (uint32_t w = 0; w < core->stages[s].spec.slots; w++) {
			struct slot *slot = &core->stages[s].slots[w];

			if (slot->state == SLOT_UP || slot->state == SLOT_STARTING)
				stop_slot(core, s, w);
			else if (slot->counted)
				core->workers -= slot->memory;
			slot->counted = false;
		}
	WEIR_ASSERT(core->live == 0 && core->parts == 0 && core->opens == 0 && core->first == NO_ITEM &&
		    (core->granted == 0 || WEIR_MUTANT) && core->resident == 0 && core->spilled == 0 &&
		    core->workers == 0);
	core->ended = true;
	emit(core, (struct weir_action){.kind = WEIR_DO_END,
					.code = core->ending,
					.reason = core->ending ? core->reason : NULL,
					.run = core->culprit,
					.chunk = core->culprit.attempt ? core->culprit_split : WEIR_NO_CHUNK});
}

static void wind_down(struct weir_core *core)
{
	for (uint32_t s = 0; s < core->stage_count; s++) {
		struct stage *stage = &core->stages[s];

		for (uint32_t w = 0; w < stage->spec.slots; w++) {
			struct slot *slot = &stage->slots[w];

			if (is_lanes(stage)) {
				if (slot->flight_count)
					weir_exec_stop_task(core, slot_flight(stage, w)[0]);
				else if (slot->state == SLOT_UP)
					stop_slot(core, s, w);
			} else if (slot->state == SLOT_STARTING || (slot->state == SLOT_UP && slot->flight_count)) {
				slot->state = SLOT_DYING;
				core->workers_dying++;
				emit(core, (struct weir_action){.kind = WEIR_DO_KILL_WORKER,
								.stage = s,
								.slot = w,
								.generation = slot->generation});
			} else if (slot->state == SLOT_UP) {
				stop_slot(core, s, w);
			}
		}
	}
	if (core->lanes_running || core->workers_dying || (core->io_pending && !MUTANT(24)))
		return;
	for (uint32_t i = 0; i < core->item_count; i++)
		if (item_at(core, i)->state != ITEM_FREE && item_at(core, i)->state != ITEM_PART)
			weir_exec_chunk_free(core, i);
	for (uint32_t s = 0; s < core->stage_count; s++)
		core->stages[s].queue.count = 0;
	core->deliveries.count = core->delivered_count = 0;
	end(core);
}

/* Lanes of the last stage that will get nothing more may finish what they hold (files) while the others work. */
static void stop_idle_lanes(struct weir_core *core)
{
	struct stage *last = &core->stages[core->stage_count - 1];

	if (!is_lanes(last) || core->live - core->parts != last->flying)
		return;
	for (uint32_t w = 0; w < last->spec.slots; w++)
		if (last->slots[w].state == SLOT_UP && last->slots[w].flight_count == 0)
			stop_slot(core, core->stage_count - 1, w);
}

/* A stage to which nothing can come any more needs no workers. */
static void close_stages(struct weir_core *core)
{
	for (uint32_t s = 0; s < core->stage_count && core->stages[s].live == 0; s++) {
		struct stage *stage = &core->stages[s];
		bool left = false;

		for (uint32_t w = 0; !is_lanes(stage) && !stage->closed && w < stage->spec.slots; w++) {
			struct slot *slot = &stage->slots[w];

			if (slot->state == SLOT_UP)
				stop_slot(core, s, w);
			left |= slot->state == SLOT_STARTING || slot->state == SLOT_DYING;
		}
		stage->closed = !left;
	}
}

static void on_start(struct weir_core *core, const struct weir_event *event)
{
	(void)event;
	if (core->started)
		return;
	core->started = true;
	for (uint32_t s = 0; s < core->stage_count; s++)
		if (!is_lanes(&core->stages[s]))
			weir_exec_worker_start(core, s, 0);
	for (uint32_t s = 0; s < core->stage_count; s++)
		if (!is_lanes(&core->stages[s]))
			weir_exec_pool_begin(core, s);
}

static void on_split_cut(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index;

	WEIR_ASSERT(core->cutting);
	core->cutting = false;
	if (core->ending)
		return;
	index = weir_exec_item_new(core, 0);
	item_at(core, index)->path[0] = core->split_next++;
	item_at(core, index)->bytes = event->bytes > 0 ? event->bytes : 0;
	core->stats.splits_cut++;
	weir_exec_list(core, index, NO_ITEM);
	weir_exec_accept(core, index);
}

static void on_splits_end(struct weir_core *core, const struct weir_event *event)
{
	(void)event;
	core->cutting = false;
	core->cut_all = true;
	weir_exec_bundle_look(core, core->last);
}

static void on_taken(struct weir_core *core, const struct weir_event *event)
{
	uint32_t index = weir_exec_item_find(core, event->chunk);

	for (uint32_t i = 0; index != NO_ITEM && i < core->delivered_count; i++)
		if (core->delivered[i] == index) {
			core->delivered[i] = core->delivered[--core->delivered_count];
			weir_exec_chunk_free(core, index);
			return;
		}
}

static void on_cancel(struct weir_core *core, const struct weir_event *event)
{
	int code = event->code ? event->code : WEIR_E_CANCELLED;

	weir_exec_fail(core, NO_ITEM, code, "%s", weir_code_text(code));
}

/* One worker of each stage always has its memory, except while another run has its turn. */
static void on_budget(struct weir_core *core, const struct weir_event *event)
{
	int64_t floor = 0;

	for (uint32_t s = 0; s < core->stage_count; s++)
		if (!is_lanes(&core->stages[s]))
			floor += core->stages[s].spec.slot_memory;
	core->parked = event->parked;
	if (core->parked)
		floor = 0;
	core->budget = event->bytes > floor ? event->bytes : floor;
	if (core->budget > core->limit)
		core->budget = core->limit;
	core->overdraft = core->overdraft_most - (MUTANT(54) ? 0 : event->apart);
	if (core->overdraft < core->budget)
		core->overdraft = core->budget;
	core->lent = event->lent;
	core->stats.budget = core->budget;
	share_budget(core);
}

static void (*const handlers[])(struct weir_core *core, const struct weir_event *event) = {
	[WEIR_EV_START] = on_start,
	[WEIR_EV_SLOT_READY] = weir_exec_slot_ready,
	[WEIR_EV_SLOT_DIED] = weir_exec_slot_died,
	[WEIR_EV_SPLIT_CUT] = on_split_cut,
	[WEIR_EV_SPLITS_END] = on_splits_end,
	[WEIR_EV_OUTPUT] = weir_exec_output,
	[WEIR_EV_TASK_DONE] = weir_exec_task_done,
	[WEIR_EV_TASK_FAILED] = weir_exec_task_failed,
	[WEIR_EV_ASK] = weir_exec_ask,
	[WEIR_EV_RETURN] = weir_exec_return,
	[WEIR_EV_WAIT_TURN] = weir_exec_wait_turn,
	[WEIR_EV_ENOUGH] = weir_exec_enough,
	[WEIR_EV_SPILLED] = weir_exec_spilled,
	[WEIR_EV_RESTORED] = weir_exec_restored,
	[WEIR_EV_TAKEN] = on_taken,
	[WEIR_EV_MEASURED] = weir_exec_measured,
	[WEIR_EV_CANCEL] = on_cancel,
	[WEIR_EV_BUDGET] = on_budget,
};

int weir_core_step(struct weir_core *core, const struct weir_event *event, uint64_t now_ns, struct weir_actions *out,
		   struct weir_error *err)
{
	WEIR_ASSERT((size_t)event->kind < sizeof(handlers) / sizeof(handlers[0]));
	if (reserve(core, out, err))
		return err->code;
	core->out = out;
	core->now = now_ns;
	core->stats.events++;
	if (core->ended) {
		if (event->kind == WEIR_EV_SLOT_READY)
			weir_exec_slot_ready(core, event);
		else if (event->kind == WEIR_EV_OUTPUT)
			weir_exec_output(core, event);
		return WEIR_OK;
	}
	handlers[event->kind](core, event);
	if (core->started && !core->ending)
		weir_exec_settle(core);
	weir_exec_books_changed(core);
	if (core->ending) {
		wind_down(core);
	} else if (core->cut_all && !core->cutting) {
		if (core->live == 0 && core->workers_dying == 0) {
			end(core);
		} else {
			stop_idle_lanes(core);
			close_stages(core);
		}
	}
	return WEIR_OK;
}

bool weir_core_ended(const struct weir_core *core)
{
	return core->ended;
}

void weir_core_stage_stats(const struct weir_core *core, uint32_t index, struct weir_stage_stats *out)
{
	const struct stage *stage = &core->stages[index];

	*out = stage->stats;
	out->queued = (uint32_t)stage->queue.count;
	out->memory_assumed = stage->estimate;
	for (uint32_t w = 0; w < stage->spec.slots; w++) {
		out->slots_up += stage->slots[w].state == SLOT_UP;
		out->slots_busy += stage->slots[w].flight_count > 0;
	}
}

void weir_core_stats(const struct weir_core *core, struct weir_core_stats *out)
{
	*out = core->stats;
	out->granted = core->granted;
	out->resident = core->resident;
	out->spilled = core->spilled;
	out->workers = core->workers;
	for (uint32_t i = 0; i < core->item_count; i++) {
		const struct item *item = item_at(core, i);

		if (item->place == PLACE_RESIDENT &&
		    (item->state == ITEM_RUNNING ||
		     (item->state == ITEM_PART &&
		      item_at(core, weir_exec_bundle_head(core, i))->state == ITEM_RUNNING)))
			out->pinned += item->bytes;
		else if (item->state == ITEM_DELIVERED)
			out->held_by_user += item->bytes;
	}
}
