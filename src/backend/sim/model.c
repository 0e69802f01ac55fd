/* The world's own books, and the promises of exec.h held against them. Records of splits and chunks are made from what the
 * world did and was told; the order of things is found from their paths. */
#include "backend/sim/sim_impl.h"

#include <stdio.h>
#include <string.h>

void sim_broken(struct world *world, const char *text, int line)
{
	if (!world->result->broken[0])
		snprintf(world->result->broken, sizeof(world->result->broken), "%s (step %llu, check at line %d)", text,
			 (unsigned long long)world->result->events, line);
}

struct chunk *sim_chunk(struct world *world, uint64_t id)
{
	for (size_t i = 0; i < world->chunks.count; i++)
		if (world->chunks.items[i].id == id)
			return &world->chunks.items[i];
	return NULL;
}

struct chunk *sim_chunk_new(struct world *world)
{
	if (weir_list_push(&world->chunks, world->account, &world->err, (struct chunk){0}))
		return NULL;
	return &world->chunks.items[world->chunks.count - 1];
}

void sim_chunk_gone(struct world *world, struct chunk *chunk)
{
	*chunk = world->chunks.items[--world->chunks.count];
}

int64_t sim_used(const struct world *world)
{
	return world->granted + world->resident + world->workers_memory;
}

bool sim_behind_enough(const struct world *world, const struct place *place)
{
	return world->enough_seen && sim_place_compare(place, &world->enough) >= 0;
}

static struct place position(const struct place *place, uint32_t kept)
{
	struct place at = *place;

	at.at[at.length] = kept;
	return at;
}

bool sim_chunk_unwanted(const struct world *world, const struct chunk *chunk)
{
	struct place at = position(&chunk->place, chunk->kept);

	return sim_behind_enough(world, &at);
}

/* The oldest of all that is not done and still wanted, in stages up to `stage_last`. */
static bool oldest(const struct world *world, uint32_t stage_last, struct place *out)
{
	bool any = false;

	for (uint32_t i = 0; i < world->splits_cut && !any; i++)
		if (!world->splits[i].done) {
			*out = (struct place){.length = 1, .at = {i, world->splits[i].kept}};
			any = !sim_behind_enough(world, out);
		}
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];
		struct place at = position(&chunk->place, chunk->kept);

		if (chunk->done || chunk->doomed || chunk->held || chunk->place.length - 1 > stage_last ||
		    sim_behind_enough(world, &at))
			continue;
		if (!any || sim_place_compare(&at, out) < 0)
			*out = at;
		any = true;
	}
	return any;
}

static bool is_front(const struct world *world, const struct place *place)
{
	struct place front;

	return oldest(world, world->config.options.stage_count, &front) && !sim_place_compare(&front, place);
}

static bool can_spill(const struct chunk *chunk)
{
	return chunk->where == CHUNK_RESIDENT && !chunk->running && !chunk->delivered && !chunk->unspillable &&
	       chunk->bytes > 0;
}

static uint32_t workers_left(const struct world *world, uint32_t stage)
{
	uint32_t left = 0;

	for (uint32_t w = 0; w < world->config.stages[stage].slots; w++)
		left += world->workers[stage][w].counted && !world->workers[stage][w].retiring;
	return left;
}

/* Workers without a batch go, but for one a stage. */
void sim_check_retire(struct world *world, const struct weir_action *action)
{
	const struct worker *worker = &world->workers[action->stage][action->slot];

	world->result->seen |= WEIR_SIM_RETIRE;
	PROMISE(world, worker->count == 0 && !worker->retiring, "a worker let go that has work");
	PROMISE(world, worker->memory == action->bytes, "more memory expected of a worker than it has");
	PROMISE(world, workers_left(world, action->stage) > 1, "the last worker let go");
}

/* OLDEST_OVERDRAW: only for the front, only when nothing behind it could still give memory back, only up to the limit. */
static void check_overdraw(struct world *world, const struct place *place, const struct lane *except)
{
	world->result->seen |= WEIR_SIM_OVERDRAW;
	PROMISE(world, is_front(world, place), "memory beyond the budget for one that is not the oldest");
	PROMISE(world, sim_used(world) <= world->config.options.limit, "memory beyond the limit");
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct lane *lane = &world->lanes[s][w];

			if (!sim_is_lanes(world, s))
				PROMISE(world,
					world->workers[s][w].count == 0 &&
						(world->workers[s][w].state != WORKER_UP ||
						 world->workers[s][w].memory == 0 || workers_left(world, s) < 2),
					"overdraft while a worker works, or could be let go");
			else if (lane->busy && lane != except)
				PROMISE(world, lane->grant <= lane->kept, "overdraft while a younger task has memory");
		}
	for (size_t i = 0; i < world->chunks.count; i++) {
		struct place at = position(&world->chunks.items[i].place, world->chunks.items[i].kept);

		PROMISE(world, !can_spill(&world->chunks.items[i]) || !sim_place_compare(&at, place),
			"overdraft while a chunk could be spilled");
	}
}

static bool over_budget(const struct world *world)
{
	return sim_used(world) > world->config.options.budget;
}

static struct lane *lane_of(struct world *world, const struct weir_action *action)
{
	if (action->stage >= world->config.options.stage_count || !sim_is_lanes(world, action->stage) ||
	    action->slot >= world->config.stages[action->stage].slots) {
		sim_broken(world, "an action for a lane that does not exist", __LINE__);
		return NULL;
	}
	return &world->lanes[action->stage][action->slot];
}

struct place sim_lane_position(const struct world *world, const struct lane *lane)
{
	const struct chunk *chunk;

	if (lane->run.stage == 0)
		return lane->place.length > 1 ? lane->place /* runs again for a lost chunk */
					      : position(&lane->place, world->splits[lane->run.task].kept);
	chunk = sim_chunk((struct world *)world, lane->chunk);
	return position(&lane->place, chunk ? chunk->kept : 0);
}

static void start_lane(struct world *world, const struct weir_action *action, struct lane *lane, struct chunk *chunk)
{
	int64_t growth = action->bytes - lane->grant;

	PROMISE(world, lane->up && !lane->stopped && !lane->busy, "a task for a lane that is not ready");
	PROMISE(world, growth >= 0, "a grant below what the lane has kept");
	lane->busy = true;
	lane->give_up = lane->unwinding = lane->stop = lane->turn_done = lane->enough_done = false;
	lane->asks_done = lane->outputs_done = 0;
	lane->wait = LANE_RUNS;
	lane->run = action->run;
	lane->chunk = action->chunk;
	lane->grant = action->bytes;
	world->granted += growth;
	memset(&lane->place, 0, sizeof(lane->place));
	if (action->stage == 0) {
		struct split *split = &world->splits[action->run.task];

		lane->place.length = 1;
		lane->place.at[0] = action->run.task;
		PROMISE(world, action->run.task < world->splits_cut, "a split that was never cut");
		if (action->run.attempt >= WEIR_REBUILD_ATTEMPT) {
			PROMISE(world, split->lost > 0, "a split run again though nothing of it was lost");
			world->result->seen |= WEIR_SIM_REBUILD;
			lane->place.length = 2; /* which one is known when it is kept */
		} else {
			PROMISE(world, !split->done && !split->running, "a split started twice");
			split->running++;
		}
		sim_script(&world->config, &(struct place){.length = 1, .at = {action->run.task}}, &lane->script);
	} else {
		lane->place = chunk->place;
		sim_script(&world->config, &lane->place, &lane->script);
	}
	if (growth > 0)
		PROMISE(world, !over_budget(world), "a start beyond the budget");
}

static void start_worker_batch(struct world *world, const struct weir_action *action, struct chunk *chunk)
{
	struct worker *worker = &world->workers[action->stage][action->slot];

	PROMISE(world, worker->state == WORKER_UP && !worker->stopped && worker->generation == action->generation,
		"a batch for a worker that is not up");
	PROMISE(world, worker->count < world->config.stages[action->stage].in_flight_max,
		"a worker has too many batches");
	PROMISE(world, !worker->alone, "another batch beside one that must be alone");
	PROMISE(world, chunk->own_deaths < WEIR_ATTEMPTS_MAX, "a batch tried too often");
	if (chunk->alone) {
		PROMISE(world, worker->given == 0 && worker->count == 0,
			"a batch that must be alone is not, or its worker is not fresh");
		worker->alone = true;
		world->result->seen |= WEIR_SIM_ALONE;
	}
	if (worker->count >= SIM_FLIGHT_MAX)
		return;
	worker->given++;
	worker->batches[worker->count++] = (struct batch){
		.run = action->run, .chunk = action->chunk, .allowance = action->bytes};
	world->granted += action->bytes;
	if (action->bytes > 0)
		PROMISE(world, !over_budget(world), "a batch beyond the budget");
}

void sim_check_start(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = NULL;

	PROMISE(world,
		action->stage < world->config.options.stage_count &&
			action->slot < world->config.stages[action->stage].slots,
		"a task for a slot that does not exist");
	PROMISE(world, !world->winding_down, "a task started while everything is stopped");
	if (action->stage > 0) {
		chunk = sim_chunk(world, action->chunk);
		PROMISE(world, chunk != NULL, "a task on a chunk that is gone");
		if (!chunk)
			return;
		PROMISE(world, chunk->place.length == action->stage + 1, "a chunk for another stage");
		PROMISE(world, chunk->where == CHUNK_RESIDENT, "a task on a chunk that is not in memory");
		PROMISE(world, !chunk->running && !chunk->done, "a batch started twice");
		PROMISE(world, !chunk->held && !chunk->doomed, "a batch of output that was not accepted");
		PROMISE(world, !sim_chunk_unwanted(world, chunk), "a batch that is not wanted");
		chunk->running = true;
	} else {
		PROMISE(world, action->chunk == WEIR_NO_CHUNK, "a split with a chunk");
	}
	if (world->result->broken[0])
		return;
	if (sim_is_lanes(world, action->stage))
		start_lane(world, action, &world->lanes[action->stage][action->slot], chunk);
	else
		start_worker_batch(world, action, chunk);
}

void sim_check_grant(struct world *world, const struct weir_action *action)
{
	struct lane *lane = lane_of(world, action);
	struct place at;

	if (!lane)
		return;
	PROMISE(world, lane->busy && lane->wait == LANE_ASKS && !lane->give_up && !lane->stop,
		"a grant nobody asked for");
	PROMISE(world, action->bytes >= lane->asked, "a grant below what was asked");
	lane->grant += action->bytes;
	world->granted += action->bytes;
	if (action->bytes > 0 && over_budget(world)) {
		at = sim_lane_position(world, lane);
		if (lane->place.length > 1 && lane->run.stage == 0)
			oldest(world, world->config.options.stage_count, &at); /* it stands for a lost chunk */
		check_overdraw(world, &at, lane);
		PROMISE(world, action->bytes == lane->asked, "an overdraft larger than what was asked");
	}
}

/* The window: what waits for an earlier split must stay few, where order is kept. */
void sim_check_cut(struct world *world)
{
	uint64_t window = (uint64_t)WEIR_WINDOW_SPLITS * world->config.stages[0].slots;
	struct place front;

	PROMISE(world, !world->winding_down, "a split asked for while everything is stopped");
	if ((world->turn_seen || world->config.options.preserve_order) &&
	    oldest(world, world->config.options.stage_count, &front))
		PROMISE(world, world->splits_cut - front.at[0] < window, "a split outside the window");
}

/* Backpressure: a lane that feeds a pool pauses while each worker has as many batches as it may have. */
void sim_check_resume(struct world *world, const struct weir_action *action)
{
	const struct weir_stage_spec *next = &world->config.stages[action->stage + 1];
	struct lane *lane = lane_of(world, action);
	uint32_t waiting = 0;
	struct place at;

	if (!lane)
		return;
	PROMISE(world, lane->busy && lane->wait == LANE_RESUME, "resumed though it did not pause");
	if (action->stage + 1 == world->config.options.stage_count || next->kind != WEIR_STAGE_WORKERS ||
	    (action->stage == 0 && lane->place.length > 1))
		return;
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];

		waiting += chunk->place.length == action->stage + 2 && !chunk->done && !chunk->doomed && !chunk->held;
	}
	at = sim_lane_position(world, lane);
	PROMISE(world, waiting < next->slots * next->in_flight_max || is_front(world, &at),
		"a lane goes on though the pool has its hands full");
}

/* Where nothing is scarce, nobody idles while there is work. Looked at when time is about to pass. */
void sim_check_busy(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	uint32_t last = options->stage_count - 1;
	bool waiting = false;

	if (options->budget < INT64_MAX || options->consumer || world->cause || world->winding_down)
		return;
	if (last == 0) {
		for (uint32_t w = 0; w < world->config.stages[0].slots; w++) {
			const struct lane *lane = &world->lanes[0][w];

			PROMISE(world,
				!lane->up || lane->busy || lane->stopped || world->cut_end || world->enough_seen ||
					world->turn_seen,
				"a lane idles while there are splits");
		}
	}
	if (sim_is_lanes(world, last))
		return;
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];

		if (chunk->alone && !chunk->done)
			return;
		waiting |= chunk->place.length == last + 1 && chunk->where == CHUNK_RESIDENT && !chunk->running &&
			   !chunk->done && !chunk->doomed && !chunk->held;
	}
	for (uint32_t w = 0; w < world->config.stages[last].slots && waiting; w++) {
		const struct worker *worker = &world->workers[last][w];

		PROMISE(world,
			worker->state != WORKER_UP || worker->killed ||
				worker->count == world->config.stages[last].in_flight_max,
			"a worker idles while a batch waits");
	}
}

void sim_check_turn(struct world *world, const struct weir_action *action)
{
	struct lane *lane = lane_of(world, action);
	struct place at, first;

	if (!lane)
		return;
	world->result->seen |= WEIR_SIM_TURN;
	PROMISE(world, lane->busy && lane->wait == LANE_TURN, "a turn nobody waited for");
	at = sim_lane_position(world, lane);
	if (oldest(world, action->stage, &first))
		PROMISE(world, sim_place_compare(&first, &at) >= 0, "a turn before an earlier task is done");
}

static void keep_of_lane(struct world *world, struct lane *lane, const struct weir_event *event, struct chunk *chunk)
{
	int64_t moved = chunk->bytes < lane->grant ? chunk->bytes : lane->grant;

	lane->grant -= moved;
	world->granted -= moved;
	if (lane->run.stage == 0) {
		struct split *split = &world->splits[lane->run.task];

		PROMISE(world, event->chunk == split->kept, "an output kept twice, or out of order");
		split->kept++;
	} else {
		struct chunk *input = sim_chunk(world, lane->chunk);

		PROMISE(world, input && event->chunk == input->kept, "an output kept twice, or out of order");
		if (input)
			input->kept++;
	}
}

/* The run made for a lost chunk brings it back under a new number. */
static bool brings_back(struct world *world, struct lane *lane, const struct weir_action *action,
			const struct weir_event *event)
{
	if (lane->run.stage != 0 || lane->place.length == 1)
		return false;
	for (size_t i = 0; i < world->chunks.count; i++) {
		struct chunk *chunk = &world->chunks.items[i];
		int64_t moved;

		if (chunk->where != CHUNK_LOST || chunk->id != WEIR_NO_CHUNK || chunk->place.length != 2 ||
		    chunk->place.at[0] != lane->run.task || chunk->place.at[1] != event->chunk)
			continue;
		chunk->id = action->chunk;
		chunk->where = CHUNK_RESIDENT;
		moved = chunk->bytes < lane->grant ? chunk->bytes : lane->grant;
		lane->grant -= moved;
		world->granted -= moved;
		world->resident += chunk->bytes;
		world->splits[lane->run.task].lost--;
		return true;
	}
	sim_broken(world, "an output kept that was not lost", __LINE__);
	return true;
}

void sim_check_output(struct world *world, const struct weir_action *action, const struct weir_event *event)
{
	bool lanes = sim_is_lanes(world, event->stage);
	struct lane *lane = lanes ? &world->lanes[event->stage][event->slot] : NULL;
	struct chunk *chunk;
	struct place place;

	PROMISE(world,
		event->kind == WEIR_EV_OUTPUT && event->run.task == action->run.task &&
			event->run.attempt == action->run.attempt,
		"an output kept that was not reported now");
	PROMISE(world, !sim_chunk(world, action->chunk), "a chunk number given twice");
	if (world->result->broken[0] || (lanes && brings_back(world, lane, action, event)))
		return;
	if (lanes) {
		place = lane->place;
	} else {
		chunk = sim_chunk(world, world->workers[event->stage][event->slot].batches[0].chunk);
		if (!chunk) {
			sim_broken(world, "the input of a running batch is gone", __LINE__);
			return;
		}
		place = chunk->place;
	}
	place.at[place.length++] = event->chunk;
	chunk = sim_chunk_new(world);
	if (!chunk)
		return;
	chunk->id = action->chunk;
	chunk->place = place;
	chunk->bytes = event->bytes;
	chunk->maker = event->run;
	chunk->held = !lanes;
	world->resident += event->bytes;
	if (lanes) {
		keep_of_lane(world, lane, event, chunk);
	} else {
		struct batch *batch = &world->workers[event->stage][event->slot].batches[0];
		int64_t moved = event->bytes < batch->allowance ? event->bytes : batch->allowance;

		batch->allowance -= moved;
		world->granted -= moved;
	}
}

void sim_check_spill(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = sim_chunk(world, action->chunk);

	world->result->seen |= WEIR_SIM_SPILL;
	PROMISE(world, chunk && can_spill(chunk), "a chunk spilled that is in use, or not in memory");
	if (chunk)
		chunk->where = CHUNK_SPILLING;
}

void sim_check_restore(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = sim_chunk(world, action->chunk);
	struct place at;

	PROMISE(world, chunk && chunk->where == CHUNK_SPILLED && !chunk->doomed,
		"a chunk restored that is not spilled");
	if (!chunk)
		return;
	chunk->where = CHUNK_RESTORING;
	world->resident += chunk->bytes;
	at = position(&chunk->place, chunk->kept);
	if (chunk->bytes > 0 && over_budget(world))
		check_overdraw(world, &at, NULL);
}

void sim_check_free(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = sim_chunk(world, action->chunk);

	PROMISE(world, chunk != NULL, "a chunk freed that is gone");
	if (!chunk)
		return;
	PROMISE(world, chunk->where != CHUNK_SPILLING && chunk->where != CHUNK_RESTORING, "a chunk freed under I/O");
	PROMISE(world, !chunk->running || chunk->done, "the input of a running task freed");
	PROMISE(world,
		chunk->done || chunk->doomed || chunk->where == CHUNK_LOST || world->winding_down ||
			sim_chunk_unwanted(world, chunk),
		"a chunk freed before it was used");
	if (chunk->where == CHUNK_RESIDENT)
		world->resident -= chunk->bytes;
	if (chunk->where == CHUNK_LOST && !world->winding_down && !world->cause && !sim_chunk_unwanted(world, chunk) &&
	    !chunk->doomed) {
		chunk->id = WEIR_NO_CHUNK; /* the record waits for the one that will be made again */
		world->splits[chunk->place.at[0]].lost++;
		return;
	}
	sim_chunk_gone(world, chunk);
}

void sim_check_deliver(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = sim_chunk(world, action->chunk);

	PROMISE(world, world->config.options.consumer, "a delivery without a consumer");
	PROMISE(world,
		chunk && chunk->where == CHUNK_RESIDENT && !chunk->held && !chunk->doomed && !chunk->delivered &&
			chunk->place.length == world->config.options.stage_count + 1,
		"a chunk delivered that is not ready");
	if (!chunk)
		return;
	chunk->delivered = true;
	if (world->delivered_any && sim_place_compare(&chunk->place, &world->delivered_last) < 0) {
		PROMISE(world, !world->config.options.preserve_order, "delivered out of order");
		world->result->seen |= WEIR_SIM_OVERTAKEN;
	}
	world->delivered_last = chunk->place;
	world->delivered_any = true;
	world->consumer_holds++;
	if (weir_list_push(&world->accepted, world->account, &world->err, chunk->place))
		sim_broken(world, "no memory", __LINE__);
}

/* The core stops everything and no cause is known here: then memory must have been short beyond remedy. */
void sim_wound_down(struct world *world)
{
	struct place front;
	__int128 fixed = world->workers_memory, need = -1;

	if (world->winding_down)
		return;
	world->winding_down = true;
	if (world->cause)
		return;
	world->cause = WEIR_E_LIMIT;
	if (!oldest(world, world->config.options.stage_count, &front)) {
		sim_broken(world, "stopped without a cause", __LINE__);
		return;
	}
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && sim_is_lanes(world, s); w++) {
			const struct lane *lane = &world->lanes[s][w];
			struct place at = sim_lane_position(world, lane);

			if (lane->busy && lane->wait == LANE_ASKS &&
			    (!sim_place_compare(&at, &front) || (s == 0 && lane->place.length > 1 &&
								 front.length == 2 && front.at[0] == lane->run.task))) {
				need = lane->asked;
				fixed += lane->grant;
			} else {
				fixed += lane->grant < lane->kept ? lane->grant : lane->kept;
			}
		}
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];
		struct place at = position(&chunk->place, chunk->kept);

		if (chunk->where == CHUNK_SPILLED && !sim_place_compare(&at, &front))
			need = chunk->bytes;
		else if (chunk->where == CHUNK_RESIDENT && !can_spill(chunk))
			fixed += chunk->bytes;
	}
	PROMISE(world, need >= 0 && fixed + need > world->config.options.limit, "stopped for memory that could be had");
}

static void check_result(struct world *world)
{
	uint64_t count, sum, seen_count = 0, seen_sum = 0;

	sim_expected(&world->config, world->enough_seen ? &world->enough : NULL, &count, &sum);
	for (size_t i = 0; i < world->accepted.count; i++) {
		if (sim_behind_enough(world, &world->accepted.items[i]))
			continue;
		seen_count++;
		seen_sum += sim_place_hash(&world->accepted.items[i]);
	}
	PROMISE(world, seen_count >= count, "rows lost");
	PROMISE(world, seen_count <= count, "rows twice");
	PROMISE(world, seen_sum == sum, "rows lost and others twice");
}

void sim_check_end(struct world *world, const struct weir_action *action)
{
	PROMISE(world, !world->ended, "ended twice");
	if (action->code == WEIR_E_LIMIT && !world->cause)
		sim_wound_down(world);
	world->ended = true;
	world->result->code = action->code;
	PROMISE(world, action->code == world->cause, "ended with something else than the first cause");
	PROMISE(world, action->code == WEIR_OK || (action->reason && action->reason[0]), "an error without a reason");
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct worker *worker = &world->workers[s][w % SIM_WORKERS_MAX];

			if (sim_is_lanes(world, s))
				PROMISE(world,
					!world->lanes[s][w].busy &&
						(!world->lanes[s][w].up || world->lanes[s][w].stopped),
					"a lane left over at the end");
			else
				PROMISE(world, worker->count == 0 && (worker->state != WORKER_UP || worker->stopped),
					"a worker left over at the end");
		}
	PROMISE(world, world->granted == 0, "grants left over at the end");
	for (size_t i = 0; i < world->chunks.count; i++)
		PROMISE(world, world->chunks.items[i].where == CHUNK_LOST, "chunks left over at the end");
	if (action->code == WEIR_OK)
		check_result(world);
}
