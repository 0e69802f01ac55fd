/* The world's own books, and the promises of exec.h held against them. Records of splits and chunks are made from what
 * the world did and was told; the order of things is found from their paths. */
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

struct place sim_position(const struct place *place, uint32_t kept)
{
	struct place at = *place;

	at.at[at.length] = kept;
	return at;
}

bool sim_chunk_unwanted(const struct world *world, const struct chunk *chunk)
{
	struct place at = sim_position(&chunk->place, chunk->kept);

	return sim_behind_enough(world, &at);
}

/* The oldest of all that is not done and still wanted, in stages up to `stage_last`. */
bool sim_oldest(const struct world *world, uint32_t stage_last, struct place *out)
{
	bool any = false;

	for (uint32_t i = 0; i < world->splits_cut && !any; i++)
		if (!world->splits[i].done) {
			*out = (struct place){.length = 1, .at = {i, world->splits[i].kept}};
			any = !sim_behind_enough(world, out);
		}
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];
		struct place at = sim_position(&chunk->place, chunk->kept);

		if (chunk->done || chunk->doomed || chunk->held || chunk->place.length - 1 > stage_last ||
		    sim_behind_enough(world, &at))
			continue;
		if (!any || sim_place_compare(&at, out) < 0)
			*out = at;
		any = true;
	}
	return any;
}

bool sim_is_front(const struct world *world, const struct place *place)
{
	struct place front;

	return sim_oldest(world, world->config.options.stage_count, &front) && !sim_place_compare(&front, place);
}

static bool can_spill(const struct chunk *chunk)
{
	return chunk->where == CHUNK_RESIDENT && !chunk->running && !chunk->delivered && !chunk->unspillable &&
	       chunk->bytes > 0;
}

static bool over_budget(const struct world *world)
{
	return sim_used(world) > world->budget;
}

int64_t sim_overdraft(const struct world *world)
{
	int64_t most = world->config.options.limit - world->told.apart;

	return most > world->budget ? most : world->budget;
}

static uint32_t workers_left(const struct world *world, uint32_t stage)
{
	uint32_t left = 0;

	for (uint32_t w = 0; w < world->config.stages[stage].slots; w++)
		left += world->workers[stage][w].counted && !world->workers[stage][w].retiring;
	return left;
}

/* Whether somebody wants memory that is not there. */
static bool is_short(struct world *world)
{
	int64_t swings = world->swings < world->budget / 2 ? world->swings : world->budget / 2;
	int64_t room = world->budget - world->excess - swings - sim_used(world);

	if (room < 0)
		return true;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct lane *lane = &world->lanes[s][w];
			const struct worker *worker = &world->workers[s][w % SIM_WORKERS_MAX];

			if (sim_is_lanes(world, s)
				    ? lane->busy && lane->wait == LANE_ASKS && lane->asked > room
				    : worker->count > 0 &&
					      worker->batches[0].asked - worker->batches[0].allowance > room)
				return true;
		}
	for (size_t i = 0; i < world->chunks.count; i++)
		if ((world->chunks.items[i].where == CHUNK_SPILLED && world->chunks.items[i].bytes > room) ||
		    world->chunks.items[i].exclusive)
			return true;
	return false;
}

/* Workers without a batch go, but for one a stage; while memory is not short, but for slots_min. Past the limit one
 * that has grown goes from its work. */
void sim_check_retire(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];
	uint32_t left = workers_left(world, action->stage);

	PROMISE(world, action->bytes == (worker->memory > 0 ? worker->memory : 1),
		"more memory expected of a worker than it has");
	PROMISE(world, !worker->retiring && !worker->over, "a worker let go twice");
	if (worker->count > 0) {
		struct chunk *chunk = sim_chunk(world, worker->batches[0].chunk);
		int64_t wanted = worker->batches[0].asked > 0 ? worker->batches[0].asked - worker->batches[0].allowance
							      : 0;

		world->result->seen |= WEIR_SIM_OVER_LIMIT;
		PROMISE(world,
			(worker->memory > world->config.stages[action->stage].slot_memory || wanted > 0) &&
				((world->told.parked && wanted > 0) ||
				 sim_used(world) + wanted >
					 (wanted > 0 ? sim_overdraft(world) : world->config.options.limit)),
			"a worker let go that has work");
		worker->over = true;
		worker->retiring = left > 1;
		if (chunk && !worker->batches[0].stop)
			chunk->alone = chunk->exclusive = true;
		return;
	}
	world->result->seen |= WEIR_SIM_RETIRE;
	PROMISE(world, left > 1 || world->told.parked, "the last worker let go");
	if (!is_short(world) && !worker->is_short) {
		world->result->seen |= WEIR_SIM_IDLE;
		PROMISE(world, left > world->config.stages[action->stage].slots_min,
			"fewer workers than there should be, without need");
	}
	worker->retiring = left > 1;
}

/* What a worker is booked with: what the stage's workers were seen to need. */
void sim_check_worker_start(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];
	int64_t assumed = world->config.stages[action->stage].slot_memory, had = worker->memory;

	if (!worker->counted)
		PROMISE(world, action->bytes == world->estimate[action->stage],
			"a worker started without regard to what others of its stage need");
	else
		PROMISE(world, action->bytes >= assumed && action->bytes <= world->estimate[action->stage],
			"a worker booked with something nobody measured");
	for (uint32_t w = 0; world->cramped[action->stage] && w < world->config.stages[action->stage].slots; w++)
		PROMISE(world,
			w == action->slot || world->workers[action->stage][w].state != WORKER_STARTING ||
				world->workers[action->stage][w].killed,
			"workers that had too little memory together start together again");
	worker->memory = action->bytes;
	world->workers_memory += worker->memory - had;
	worker->counted = true;
	PROMISE(world, worker->memory <= had || !over_budget(world), "a worker beyond the budget");
}

/* A worker that breaks the limit is stopped at once, when nothing else is on its way to be free. */
void sim_check_limit(struct world *world)
{
	int64_t stays = sim_used(world);
	bool grown = false;

	if (world->cause || world->winding_down || sim_used(world) <= world->config.options.limit)
		return;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct worker *worker = &world->workers[s][w % SIM_WORKERS_MAX];

			if (sim_is_lanes(world, s)) {
				if (world->lanes[s][w].busy && world->lanes[s][w].give_up)
					stays -= world->lanes[s][w].grant;
				continue;
			}
			if (worker->killed && worker->state != WORKER_DEAD)
				stays -= worker->memory;
			grown |= worker->state == WORKER_UP && !worker->killed && worker->count > 0 &&
				 worker->memory > world->config.stages[s].slot_memory;
		}
	for (size_t i = 0; i < world->chunks.count; i++)
		if (world->chunks.items[i].where == CHUNK_SPILLING)
			stays -= world->chunks.items[i].bytes;
	PROMISE(world, !grown || stays <= world->config.options.limit, "a worker breaks the limit and may go on");
}

/* As many as were asked for from the beginning, as far as there is memory for them and something they could be busy
 * with. */
void sim_check_begin(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;

	for (uint32_t s = 0; s < options->stage_count; s++) {
		const struct weir_stage_spec *spec = &world->config.stages[s];
		uint32_t wanted = spec->slots_first > spec->slots_min ? spec->slots_first : spec->slots_min, has = 0;

		for (uint32_t w = 0; w < spec->slots && !sim_is_lanes(world, s); w++)
			has += world->workers[s][w].state == WORKER_STARTING;
		if (sim_is_lanes(world, s))
			continue;
		PROMISE(world,
			has >= 1 && (has >= wanted || world->budget - sim_used(world) < spec->slot_memory ||
				     (options->milli_cpus && (has + 1) * spec->milli_cpus > options->milli_cpus) ||
				     (options->milli_gpus && (has + 1) * spec->milli_gpus > options->milli_gpus)),
			"fewer workers at the beginning than were asked for");
	}
}

/* Whether anything in front of a stage is at work, or will be without anybody's doing. */
bool sim_upstream_moves(const struct world *world, uint32_t stage)
{
	if (world->cutting)
		return true;
	for (size_t i = 0; i < world->chunks.count; i++)
		if (world->chunks.items[i].where == CHUNK_SPILLING || world->chunks.items[i].where == CHUNK_RESTORING)
			return true;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct lane *lane = &world->lanes[s][w];
			const struct worker *worker = &world->workers[s][w % SIM_WORKERS_MAX];

			if (sim_is_lanes(world, s)) {
				if (s < stage && lane->busy && lane->wait == LANE_RUNS)
					return true;
			} else if ((s < stage && worker->count > 0) ||
				   (worker->killed && worker->state != WORKER_DEAD)) {
				return true;
			}
		}
	return false;
}

/* OLDEST_OVERDRAW: only for the front, only when nothing behind it could still give memory back, only up to the
 * limit. */
static void check_overdraw(struct world *world, const struct place *place, const struct lane *except)
{
	world->result->seen |= WEIR_SIM_OVERDRAW;
	PROMISE(world, sim_is_front(world, place), "memory beyond the budget for one that is not the oldest");
	PROMISE(world, sim_used(world) <= sim_overdraft(world), "memory beyond the limit");
	PROMISE(world, sim_used(world) + world->told.lent <= sim_overdraft(world), "memory that the user still has");
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
		struct place at = sim_position(&world->chunks.items[i].place, world->chunks.items[i].kept);

		/* The front's own chunks stay; which they are is not known before it starts. */
		PROMISE(world,
			!can_spill(&world->chunks.items[i]) || !sim_place_compare(&at, place) ||
				(place->length == at.length && sim_bundles(world, at.length - 1)),
			"overdraft while a chunk could be spilled");
	}
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
					      : sim_position(&lane->place, world->splits[lane->run.task].kept);
	chunk = sim_chunk((struct world *)world, lane->chunk);
	return sim_position(&lane->place, chunk ? chunk->kept : 0);
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
		sim_task_script(world, chunk, &lane->script);
	}
	if (growth > 0)
		PROMISE(world, !over_budget(world), "a start beyond the budget");
	sim_check_beside_all(world, lane);
}

/* Whether a worker is about to come up for each chunk that waits: then one who is busy is given nothing ahead. */
static bool each_has_a_worker(const struct world *world, uint32_t stage, size_t waiting)
{
	size_t starting = 0;

	for (uint32_t w = 0; w < world->config.stages[stage].slots; w++)
		starting += world->workers[stage][w].state == WORKER_STARTING && !world->workers[stage][w].killed;
	return starting >= waiting;
}

/* Chunks that wait for the stage, with `chunk`, which is about to be started. */
static size_t waiting_for(const struct world *world, uint32_t stage, const struct chunk *chunk)
{
	size_t waiting = 0;

	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *other = &world->chunks.items[i];

		waiting += other == chunk || (other->place.length == stage + 1 && !other->running && !other->done &&
					      !other->doomed && !other->held);
	}
	return waiting;
}

static void start_worker_batch(struct world *world, const struct weir_action *action, struct chunk *chunk)
{
	struct worker *worker = &world->workers[action->stage][action->slot];

	PROMISE(world, worker->state == WORKER_UP && !worker->stopped && worker->generation == action->generation,
		"a batch for a worker that is not up");
	PROMISE(world, worker->count < world->depth[action->stage], "a worker has too many batches");
	PROMISE(world,
		worker->count == 0 ||
			!each_has_a_worker(world, action->stage, waiting_for(world, action->stage, chunk)),
		"a batch is given ahead though a worker is about to come up for it");
	PROMISE(world, !worker->alone, "another batch beside one that must be alone");
	PROMISE(world, chunk->own_deaths < weir_attempts_max(&world->config.stages[action->stage]),
		"a batch tried too often");
	PROMISE(world, chunk->user_failures <= world->config.stages[action->stage].user_retries,
		"a batch that failed tried too often");
	PROMISE(world, action->outputs_kept == chunk->kept && action->rows_kept == chunk->rows_kept,
		"a batch is not told what was accepted of it");
	if (chunk->exclusive) {
		struct place at = sim_position(&chunk->place, chunk->kept);

		world->result->seen |= WEIR_SIM_EXCLUSIVE;
		PROMISE(world, sim_is_front(world, &at), "a batch gets all memory before its turn");
		PROMISE(world, world->told.lent == 0, "a batch gets all memory before what is lent has come back");
		sim_check_lanes_have_none(world);
	}
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			const struct worker *other = &world->workers[s][w];
			const struct chunk *runs = other->count > 0 ? sim_chunk(world, other->batches[0].chunk) : NULL;

			PROMISE(world, other->count == 0 || !chunk->exclusive,
				"a batch that is to have all memory shares it");
			PROMISE(world,
				!chunk->exclusive || s != action->stage || w == action->slot ||
					other->state != WORKER_UP || other->given == 0,
				"a batch that is to have all memory beside a worker that keeps some");
			PROMISE(world, !other->killed || other->state == WORKER_DEAD || !chunk->exclusive,
				"a batch that is to have all memory does not wait for a worker's");
			PROMISE(world, !runs || !runs->exclusive || other->over,
				"a batch beside one that is to have all memory");
		}
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
		.run = action->run, .chunk = action->chunk, .allowance = action->bytes, .held = 0};
	world->granted += action->bytes;
	if (action->bytes > 0)
		PROMISE(world, !over_budget(world), "a batch beyond the budget");
}

static void start_chunk(struct world *world, const struct weir_action *action, struct chunk *chunk)
{
	PROMISE(world, chunk->place.length == action->stage + 1, "a chunk for another stage");
	PROMISE(world, chunk->where == CHUNK_RESIDENT, "a task on a chunk that is not in memory");
	PROMISE(world, !chunk->running && !chunk->done, "a batch started twice");
	PROMISE(world, !chunk->held && !chunk->doomed, "a batch of output that was not accepted");
	PROMISE(world, !sim_chunk_unwanted(world, chunk), "a batch that is not wanted");
}

/* What one more busy slot takes must be there, but for the front. */
static void check_resources(struct world *world, const struct weir_action *action, const struct place *at)
{
	const struct weir_core_options *options = &world->config.options;
	uint64_t cpus = world->config.stages[action->stage].milli_cpus;
	uint64_t gpus = world->config.stages[action->stage].milli_gpus;

	if ((!cpus && !gpus) ||
	    (!sim_is_lanes(world, action->stage) && world->workers[action->stage][action->slot].count > 0))
		return;
	for (uint32_t s = 0; s < options->stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++)
			if (sim_is_lanes(world, s) ? world->lanes[s][w].busy : world->workers[s][w].count > 0) {
				cpus += world->config.stages[s].milli_cpus;
				gpus += world->config.stages[s].milli_gpus;
			}
	if ((options->milli_cpus && world->config.stages[action->stage].milli_cpus && cpus > options->milli_cpus) ||
	    (options->milli_gpus && world->config.stages[action->stage].milli_gpus && gpus > options->milli_gpus)) {
		world->result->seen |= WEIR_SIM_RESOURCES;
		PROMISE(world, sim_is_front(world, at), "more busy than there are cores or devices");
	}
}

void sim_check_start(struct world *world, const struct weir_action *action)
{
	struct chunk *chunk = NULL;
	struct place at;

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
		start_chunk(world, action, chunk);
		for (size_t i = 0; i < world->parts.count; i++) {
			struct chunk *part = sim_chunk(world, world->parts.items[i]);

			if (part)
				start_chunk(world, action, part);
		}
		sim_check_bundle(world, action, chunk);
		world->parts.count = 0;
		if (world->result->broken[0])
			return;
		at = sim_position(&chunk->place, chunk->kept);
		check_resources(world, action, &at);
		for (uint32_t i = 0; sim_part(world, chunk, i); i++)
			sim_part(world, chunk, i)->running = true;
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
	struct lane *lane;
	struct place at;

	if (!sim_is_lanes(world, action->stage)) {
		sim_check_room(world, action);
		return;
	}
	lane = lane_of(world, action);
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
			sim_oldest(world, world->config.options.stage_count, &at); /* it stands for a lost chunk */
		check_overdraw(world, &at, lane);
		PROMISE(world, action->bytes == lane->asked, "an overdraft larger than what was asked");
	}
}

/* The window: what waits for an earlier split must stay few, where order is kept. */
void sim_check_cut(struct world *world)
{
	uint64_t window = 0;
	struct place front;

	PROMISE(world, !world->winding_down, "a split asked for while everything is stopped");
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		window += (uint64_t)WEIR_WINDOW_SPLITS * world->config.stages[s].slots *
			  (sim_is_lanes(world, s) ? 1 : world->depth[s]);
	/* What waits to be one task waits as one. */
	for (size_t i = 0; i < world->chunks.count; i++)
		window += sim_bundles(world, world->chunks.items[i].place.length - 1) && !world->chunks.items[i].done;
	if ((world->turn_seen || world->config.options.preserve_order) &&
	    sim_oldest(world, world->config.options.stage_count, &front))
		PROMISE(world, world->splits_cut - front.at[0] < window, "a split outside the window");
}

/* Backpressure: a lane that feeds a pool pauses while each worker has as many batches as it may have. */
void sim_check_resume(struct world *world, const struct weir_action *action)
{
	const struct weir_stage_spec *next = &world->config.stages[action->stage + 1];
	struct lane *lane = lane_of(world, action);
	struct place at, other;
	uint32_t waiting = 0;
	bool passes = false; /* something waits there that comes after what the lane makes */

	if (!lane)
		return;
	PROMISE(world, lane->busy && lane->wait == LANE_RESUME, "resumed though it did not pause");
	if (action->stage + 1 == world->config.options.stage_count || next->kind != WEIR_STAGE_WORKERS ||
	    (action->stage == 0 && lane->place.length > 1))
		return;
	at = sim_lane_position(world, lane);
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];

		other = sim_position(&chunk->place, chunk->kept);
		passes |= chunk->place.length == action->stage + 2 && !chunk->running && !chunk->done &&
			  sim_place_compare(&at, &other) < 0;
		/* At least so many tasks: of a bundle only the last chunk can have all the rows by itself. Where
		 * bundles are made in order even that may join what is to come. */
		if (next->rows_min > 0 &&
		    (chunk->bundle ? chunk->part > 0 : chunk->rows < next->rows_min || next->in_order))
			continue;
		waiting += chunk->place.length == action->stage + 2 && !chunk->done && !chunk->doomed && !chunk->held;
	}
	PROMISE(world, waiting < next->slots * world->depth[action->stage + 1] || sim_is_front(world, &at) || passes,
		"a lane goes on though the pool has its hands full");
}

/* Where nothing is scarce, nobody idles while there is work. Looked at when time is about to pass. */
void sim_check_busy(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	uint32_t last = options->stage_count - 1;
	size_t waiting = 0;

	if (options->budget < INT64_MAX || options->consumer || world->cause || world->winding_down)
		return;
	if (last == 0) {
		for (uint32_t w = 0; w < world->config.stages[0].slots; w++) {
			const struct lane *lane = &world->lanes[0][w];

			PROMISE(world,
				!lane->up || lane->busy || lane->stopped || world->cut_end || world->cutting ||
					world->enough_seen || world->turn_seen,
				"a lane idles while there are splits");
		}
	}
	if (sim_is_lanes(world, last) || options->milli_cpus || options->milli_gpus)
		return;
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];

		if (chunk->alone && !chunk->done)
			return;
		waiting += chunk->place.length == last + 1 && chunk->where == CHUNK_RESIDENT && !chunk->running &&
			   !chunk->done && !chunk->doomed && !chunk->held && !chunk->bundle &&
			   chunk->rows >= world->config.stages[last].rows_min && !world->config.stages[last].in_order;
	}
	for (uint32_t w = 0; w < world->config.stages[last].slots && waiting; w++) {
		const struct worker *worker = &world->workers[last][w];

		PROMISE(world,
			worker->state != WORKER_UP || worker->killed || worker->count >= world->depth[last] ||
				(worker->count > 0 && each_has_a_worker(world, last, waiting)),
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
	if (sim_oldest(world, action->stage, &first))
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

static int64_t held_max(const struct world *world)
{
	int64_t most = (int64_t)64 << 20, share = world->config.options.budget / 16;

	return world->config.options.held_bytes_max ? world->config.options.held_bytes_max
	       : share < most                       ? share
						    : most;
}

/* More is held than may be: what there is so far is accepted by number. */
static void by_number(struct world *world, struct batch *batch, uint32_t kept)
{
	world->result->seen |= WEIR_SIM_BY_NUMBER;
	batch->held = 0;
	for (size_t i = 0; i < world->chunks.count; i++) {
		struct chunk *chunk = &world->chunks.items[i];

		if (chunk->id == batch->chunk) {
			chunk->kept = kept;
			chunk->rows_kept += batch->held_rows;
		}
		if (chunk->held && chunk->maker.stage == batch->run.stage && chunk->maker.task == batch->run.task &&
		    chunk->maker.attempt == batch->run.attempt) {
			chunk->held = false;
			chunk->doomed |= sim_chunk_unwanted(world, chunk);
		}
	}
	batch->held_rows = 0;
}

void sim_check_output(struct world *world, const struct weir_action *action, const struct weir_event *event)
{
	bool lanes = sim_is_lanes(world, event->stage);
	struct lane *lane = lanes ? &world->lanes[event->stage][event->slot] : NULL;
	struct chunk *chunk, *input;
	struct place place, origin;
	uint32_t number;

	PROMISE(world,
		event->kind == WEIR_EV_OUTPUT && event->run.task == action->run.task &&
			event->run.attempt == action->run.attempt,
		"an output kept that was not reported now");
	PROMISE(world, !sim_chunk(world, action->chunk), "a chunk number given twice");
	if (world->result->broken[0] || (lanes && brings_back(world, lane, action, event)))
		return;
	if (event->stage == 0) {
		place = origin = lane->place;
		number = (uint32_t)event->chunk;
	} else {
		input = sim_chunk(world,
				  lanes ? lane->chunk : world->workers[event->stage][event->slot].batches[0].chunk);
		if (!input || !sim_task_output(world, input, (uint32_t)event->chunk, &origin, &number)) {
			sim_broken(world, "the input of a running batch is gone", __LINE__);
			return;
		}
		PROMISE(world, lanes || event->chunk >= input->kept, "an output kept twice, or out of order");
		place = input->place;
	}
	place.at[place.length++] = event->chunk;
	origin.at[origin.length++] = number;
	chunk = sim_chunk_new(world);
	if (!chunk)
		return;
	chunk->id = action->chunk;
	chunk->place = place;
	chunk->origin = origin;
	chunk->bytes = event->bytes;
	chunk->rows = event->rows;
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
		batch->held += event->bytes;
		batch->held_rows += event->rows;
		if (batch->held > held_max(world))
			by_number(world, batch, (uint32_t)event->chunk + 1);
	}
}

/* Only what is accepted by number piles up, and only its maker is paused. */
void sim_check_pause(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];
	struct chunk *chunk = worker->count > 0 ? sim_chunk(world, worker->batches[0].chunk) : NULL;
	bool paused = action->kind == WEIR_DO_PAUSE;

	world->result->seen |= WEIR_SIM_PAUSE;
	PROMISE(world,
		chunk && worker->batches[0].run.task == action->run.task &&
			worker->batches[0].run.attempt == action->run.attempt && worker->batches[0].paused != paused,
		"a pause for a batch that does not run");
	PROMISE(world, !paused || !chunk || chunk->kept > 0, "a pause for a batch of which nothing was accepted");
	if (worker->count > 0)
		worker->batches[0].paused = paused;
	if (!paused)
		sim_worker_goes_on(world, action->stage, action->slot);
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
	sim_check_nobody_waits(world, chunk);
	sim_check_cleared(world, chunk);
	chunk->where = CHUNK_RESTORING;
	world->resident += chunk->bytes;
	at = sim_position(&chunk->place, chunk->kept);
	if (sim_bundles(world, chunk->place.length - 1)) { /* for the front, one of whose chunks it may be */
		struct place front;

		if (sim_oldest(world, world->config.options.stage_count, &front) && front.length == at.length)
			at = front;
	}
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
	PROMISE(world,
		!world->config.options.preserve_order || !world->delivered_any ||
			sim_place_compare(&world->delivered_origin, &chunk->origin) < 0,
		"rows delivered out of order");
	world->delivered_origin = chunk->origin;
	if (world->delivered_any && sim_place_compare(&chunk->place, &world->delivered_last) < 0) {
		PROMISE(world, !world->config.options.preserve_order, "delivered out of order");
		world->result->seen |= WEIR_SIM_OVERTAKEN;
	}
	world->delivered_last = chunk->place;
	world->delivered_any = true;
	world->consumer_holds++;
	if (weir_list_push(&world->accepted, world->account, &world->err, chunk->origin))
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
	if (!sim_oldest(world, world->config.options.stage_count, &front)) {
		sim_broken(world, "stopped without a cause", __LINE__);
		return;
	}
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			const struct worker *worker = &world->workers[s][w];
			const struct chunk *runs = worker->count ? sim_chunk(world, worker->batches[0].chunk) : NULL;
			int64_t wanted = worker->count ? worker->batches[0].asked - worker->batches[0].allowance : 0;

			wanted = world->arriving + (wanted > 0 ? wanted : 0);
			/* A batch that had all memory, and it was too little. */
			if (runs && runs->exclusive &&
			    (worker->memory > world->config.stages[s].slot_memory || wanted > 0) &&
			    sim_used(world) + wanted > sim_overdraft(world))
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
		struct place at = sim_position(&chunk->place, chunk->kept);

		bool beside = at.length == front.length && sim_bundles(world, at.length - 1);

		if (chunk->where == CHUNK_SPILLED && (!sim_place_compare(&at, &front) || beside))
			need = chunk->bytes > need ? chunk->bytes : need;
		else if (chunk->where == CHUNK_RESIDENT && (!can_spill(chunk) || beside))
			fixed += chunk->bytes;
	}
	PROMISE(world, need >= 0 && fixed + need > sim_overdraft(world), "stopped for memory that could be had");
}

static void check_result(struct world *world)
{
	uint64_t count, sum, seen_count = 0, seen_sum = 0;
	const struct place *end = world->enough_seen ? &world->enough_origin : NULL;
	uint64_t lost_count = 0, lost_sum = 0;

	sim_expected(&world->config, end, &count, &sum);
	for (size_t i = 0; i < world->left_out.count; i++)
		sim_expected_of(&world->config, &world->left_out.items[i], end, &lost_count, &lost_sum);
	count -= lost_count;
	sum -= lost_sum;
	for (size_t i = 0; i < world->accepted.count; i++) {
		if (end && sim_place_compare(&world->accepted.items[i], end) >= 0)
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
