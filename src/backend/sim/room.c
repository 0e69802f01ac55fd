/* Room for outputs that are larger than their batches were allowed: workers ask for it and ask again, the core answers
 * at once or not. Who has the front is given it up to the limit, and nobody takes memory past an older one that
 * waits. */
#include "backend/sim/sim_impl.h"

/* Whether one of the worker's batches is the front. */
static bool has_front(struct world *world, const struct worker *worker)
{
	for (uint32_t i = 0; i < worker->count; i++) {
		const struct chunk *chunk = sim_chunk(world, worker->batches[i].chunk);
		struct place at = chunk ? sim_position(&chunk->place, chunk->kept) : (struct place){0};

		if (chunk && sim_is_front(world, &at))
			return true;
	}
	return false;
}

/* Whether memory is on its way back: then everybody may be let wait. */
static bool is_coming(const struct world *world)
{
	for (size_t i = 0; i < world->chunks.count; i++)
		if (world->chunks.items[i].where == CHUNK_SPILLING || world->chunks.items[i].where == CHUNK_RESTORING)
			return true;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots; w++) {
			const struct worker *worker = &world->workers[s][w % SIM_WORKERS_MAX];

			if (sim_is_lanes(world, s) ? world->lanes[s][w].busy && world->lanes[s][w].give_up
						   : worker->killed && worker->state != WORKER_DEAD)
				return true;
		}
	return false;
}

/* Room for a worker's output: beyond the budget only where the front is in its hands, or none of the lanes runs it. */
void sim_check_room(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];
	struct batch *batch = &worker->batches[0];

	PROMISE(world,
		worker->count > 0 && batch->asked > 0 && batch->run.task == action->run.task &&
			batch->run.attempt == action->run.attempt,
		"room for one that did not ask");
	PROMISE(world, batch->allowance + action->bytes >= batch->asked, "less room than was asked for");
	batch->allowance += action->bytes;
	batch->asks = 0;
	batch->asked = 0;
	world->granted += action->bytes;
	if (action->bytes == 0 || sim_used(world) <= world->budget)
		return;
	world->result->seen |= WEIR_SIM_ROOM;
	PROMISE(world, sim_used(world) <= sim_overdraft(world), "room beyond the limit");
	PROMISE(world, sim_used(world) + world->told.lent <= sim_overdraft(world), "room that the user still has");
	for (uint32_t s = 0; s < world->config.options.stage_count && !has_front(world, worker); s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && sim_is_lanes(world, s); w++) {
			const struct lane *lane = &world->lanes[s][w];
			struct place at = sim_lane_position(world, lane);

			PROMISE(world, !lane->busy || lane->wait != LANE_RUNS || !sim_is_front(world, &at),
				"room beyond the budget while the oldest goes on by itself");
		}
}

/* Who has the front is not let wait for memory that nobody will give back. */
void sim_check_refused(struct world *world, const struct worker *worker)
{
	const struct batch *batch = &worker->batches[0];

	if (world->winding_down || world->cause || batch->stop || worker->killed || world->told.parked ||
	    is_coming(world))
		return;
	PROMISE(world,
		!has_front(world, worker) ||
			sim_used(world) + batch->asked - batch->allowance + world->told.lent > sim_overdraft(world),
		"the oldest waits for room that could be had");
}

/* Memory is not taken past an older batch that waits for room. */
void sim_check_nobody_waits(struct world *world, const struct chunk *restored)
{
	struct place place = sim_position(&restored->place, restored->kept), at;

	for (uint32_t s = 0; s < world->config.options.stage_count && !sim_bundles(world, place.length - 1); s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			const struct worker *worker = &world->workers[s][w];
			const struct chunk *chunk = worker->count ? sim_chunk(world, worker->batches[0].chunk) : NULL;

			if (!chunk || worker->batches[0].asks == 0 || worker->batches[0].stop || worker->killed)
				continue;
			at = sim_position(&chunk->place, chunk->kept);
			PROMISE(world, sim_place_compare(&at, &place) >= 0, "restored past one that waits for room");
		}
}

/* What was cleared away for a batch that is to have all memory stays away until that has run. One that lost a chunk
 * waits for it first. */
void sim_check_cleared(struct world *world, const struct chunk *restored)
{
	for (size_t i = 0; i < world->chunks.count; i++)
		if (world->chunks.items[i].where == CHUNK_LOST)
			return;
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *chunk = &world->chunks.items[i];
		struct place at = sim_position(&chunk->place, chunk->kept);

		PROMISE(world,
			chunk == restored || !chunk->exclusive || chunk->running || chunk->doomed ||
				chunk->bundle == restored->bundle || !sim_is_front(world, &at),
			"a chunk comes back while memory is cleared for a batch");
	}
}

/* A batch that is to have all memory begins. */
void sim_check_lanes_have_none(struct world *world)
{
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && sim_is_lanes(world, s); w++) {
			const struct lane *lane = &world->lanes[s][w];

			PROMISE(world, !lane->busy || lane->stop || lane->grant <= lane->kept,
				"a batch that is to have all memory beside a lane with a grant");
		}
}

static bool all_memory_is_taken(struct world *world)
{
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			const struct worker *worker = &world->workers[s][w];

			if (worker->count > 0 && !worker->over && !worker->batches[0].stop &&
			    sim_chunk(world, worker->batches[0].chunk)->exclusive)
				return true;
		}
	return false;
}

/* A lane begins. */
void sim_check_beside_all(struct world *world, const struct lane *lane)
{
	struct place at = sim_position(&lane->place, lane->outputs_done);

	PROMISE(world, !all_memory_is_taken(world) || sim_is_front(world, &at),
		"a lane begins beside a batch that has all memory");
}

/* Another run is to have the memory: what only waits, be it for work or for room, does not keep any. */
void sim_check_parked(struct world *world)
{
	if (!world->told.parked || world->budget > 0 || world->winding_down || world->cause || world->ended)
		return;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			const struct worker *worker = &world->workers[s][w];

			PROMISE(world,
				worker->state != WORKER_UP || worker->stopped || worker->killed ||
					worker->memory == 0 || worker->count > 0,
				"a worker without work keeps its memory while it is another run's turn");
		}
}
