/* What runs tasks. A lane follows its script: it asks, makes outputs, waits for its turn, ends. A worker runs the first
 * of its batches; it may die at any moment, and what it had on the way may then still arrive. */
#include "backend/sim/sim_impl.h"

#include <string.h>

enum { ASKS_MAX = 30 }; /* then a worker is given room whatever the core says */

/* --- lanes --- */

void sim_lane_goes_on(struct world *world, uint32_t stage, uint32_t slot)
{
	struct lane *lane = &world->lanes[stage][slot];

	lane->wait = LANE_RUNS;
	sim_will_happen(world, sim_soon(world),
			(struct moment){.kind = LANE_GOES, .stage = stage, .slot = slot, .token = ++lane->token});
}

/* All chunks of a task come to its end together. */
static void task_ends(struct world *world, struct chunk *head, bool done)
{
	for (uint32_t part = 0; head && sim_part(world, head, part); part++) {
		struct chunk *chunk = sim_part(world, head, part);

		chunk->running = false;
		chunk->done |= done;
	}
}

/* Into what was accepted, if this is where rows go in the end. */
static void reaches_sink(struct world *world, uint32_t stage, struct chunk *head, const struct place *split)
{
	if (stage + 1 != world->config.options.stage_count || world->config.options.consumer)
		return;
	if (!head && weir_list_push(&world->accepted, world->account, &world->err, *split))
		sim_broken(world, "no memory", __LINE__);
	for (uint32_t part = 0; head && sim_part(world, head, part); part++)
		if (weir_list_push(&world->accepted, world->account, &world->err, sim_part(world, head, part)->origin))
			sim_broken(world, "no memory", __LINE__);
}

static void lane_ends(struct world *world, uint32_t stage, uint32_t slot, int code)
{
	struct lane *lane = &world->lanes[stage][slot];
	struct weir_event event = {.kind = code ? WEIR_EV_TASK_FAILED : WEIR_EV_TASK_DONE,
				   .stage = stage,
				   .slot = slot,
				   .run = lane->run,
				   .code = code};
	bool again = stage == 0 && lane->run.attempt >= WEIR_REBUILD_ATTEMPT;
	struct chunk *chunk = stage ? sim_chunk(world, lane->chunk) : NULL;

	if (sim_chance(world, 10))
		event.bytes = (int64_t)random_below(&world->random, (uint64_t)lane->grant / 4 + 1);
	world->granted -= lane->grant - event.bytes;
	lane->grant = lane->kept = event.bytes;
	lane->busy = false;
	lane->token++;
	task_ends(world, chunk, !code || lane->stop);
	if (stage == 0 && !again)
		world->splits[lane->run.task].running--;
	if (!code || lane->stop) {
		if (stage == 0 && !again)
			world->splits[lane->run.task].done = true;
		if (!code && !lane->stop)
			reaches_sink(world, stage, chunk, &lane->place);
	} else if (code != WEIR_E_GIVE_UP && !world->cause) {
		world->cause = code;
	}
	sim_say(world, event);
}

static void lane_waits(struct world *world, uint32_t stage, uint32_t slot, enum lane_wait wait, struct weir_event event)
{
	struct lane *lane = &world->lanes[stage][slot];

	if (lane->give_up) {
		lane_ends(world, stage, slot, WEIR_E_GIVE_UP);
		return;
	}
	world->turn_seen |= wait == LANE_TURN;
	lane->wait = wait;
	lane->asked = event.bytes;
	event.stage = stage;
	event.slot = slot;
	event.run = lane->run;
	if (event.kind == WEIR_EV_OUTPUT)
		sim_say(world, event);
	else
		sim_tell(world, event, false);
}

void sim_lane_goes(struct world *world, uint32_t stage, uint32_t slot)
{
	struct lane *lane = &world->lanes[stage][slot];
	/* A run for a lost chunk does what the split did. */
	struct place place = {.length = 1, .at = {lane->run.task}}, of = place;
	struct chunk *head = stage ? sim_chunk(world, lane->chunk) : NULL;
	uint32_t number = lane->outputs_done;

	if (head) {
		place = of = head->origin;
		sim_task_output(world, head, lane->outputs_done, &of, &number);
	}
	if (lane->stop) {
		lane_ends(world, stage, slot, WEIR_E_CANCELLED);
		return;
	}
	if (lane->unwinding) {
		lane_ends(world, stage, slot, WEIR_E_GIVE_UP);
		return;
	}
	if (lane->grant > 0 && sim_chance(world, 10)) {
		struct weir_event event = {.kind = WEIR_EV_RETURN, .stage = stage, .slot = slot, .run = lane->run};

		event.bytes = (int64_t)random_below(&world->random, (uint64_t)lane->grant + 1);
		lane->grant -= event.bytes;
		world->granted -= event.bytes;
		lane->token++;
		sim_lane_goes_on(world, stage, slot);
		sim_tell(world, event, false);
		return;
	}
	if (lane->asks_done < lane->script.ask_count &&
	    (lane->asks_done <= lane->outputs_done || lane->outputs_done == lane->script.output_count)) {
		lane_waits(world, stage, slot, LANE_ASKS,
			   (struct weir_event){.kind = WEIR_EV_ASK,
					       .bytes = sim_ask_bytes(&world->config, &place, lane->asks_done++)});
		return;
	}
	if (lane->outputs_done < lane->script.output_count) {
		int64_t bytes = sim_output_bytes(&world->config, &of, number);

		if (lane->grant < bytes)
			lane_waits(world, stage, slot, LANE_ASKS,
				   (struct weir_event){.kind = WEIR_EV_ASK, .bytes = bytes - lane->grant});
		else
			lane_waits(world, stage, slot, LANE_RESUME,
				   (struct weir_event){.kind = WEIR_EV_OUTPUT,
						       .chunk = lane->outputs_done++,
						       .bytes = bytes,
						       .rows = sim_output_rows(&world->config, &of, number)});
		return;
	}
	if (lane->script.fails && lane->run.attempt < WEIR_REBUILD_ATTEMPT) {
		lane_ends(world, stage, slot, WEIR_E_DATA);
		return;
	}
	if (lane->script.turn && !lane->turn_done) {
		lane->turn_done = true;
		lane_waits(world, stage, slot, LANE_TURN, (struct weir_event){.kind = WEIR_EV_WAIT_TURN});
		return;
	}
	if (lane->script.enough && !lane->enough_done) {
		struct place end = lane->place, origin = place;

		lane->enough_done = true;
		for (uint32_t part = 1; head && sim_part(world, head, part); part++) {
			end = sim_part(world, head, part)->place;
			origin = sim_part(world, head, part)->origin;
		}
		end.at[end.length - 1]++;
		origin.at[origin.length - 1]++;
		if (!world->enough_seen || sim_place_compare(&end, &world->enough) < 0) {
			world->enough = end;
			world->enough_origin = origin;
		}
		world->enough_seen = true;
		for (size_t i = 0; i < world->chunks.count; i++)
			if (!world->chunks.items[i].delivered && sim_chunk_unwanted(world, &world->chunks.items[i]))
				world->chunks.items[i].doomed = true;
		sim_lane_goes_on(world, stage, slot);
		sim_tell(world,
			 (struct weir_event){.kind = WEIR_EV_ENOUGH, .stage = stage, .slot = slot, .run = lane->run},
			 false);
		return;
	}
	lane_ends(world, stage, slot, WEIR_OK);
}

/* --- workers --- */

void sim_worker_goes_on(struct world *world, uint32_t stage, uint32_t slot)
{
	sim_will_happen(world, sim_soon(world),
			(struct moment){.kind = WORKER_GOES,
					.stage = stage,
					.slot = slot,
					.generation = world->workers[stage][slot].generation});
}

/* What came of a batch's outputs when the batch came to its end. */
static void outputs_of(struct world *world, const struct weir_run *run, bool accepted)
{
	for (size_t i = 0; i < world->chunks.count; i++) {
		struct chunk *chunk = &world->chunks.items[i];

		if (!chunk->held || chunk->maker.stage != run->stage || chunk->maker.task != run->task ||
		    chunk->maker.attempt != run->attempt)
			continue;
		if (accepted)
			chunk->held = false;
		else
			chunk->doomed = true;
	}
}

static void user_failed(struct world *world, uint32_t stage, struct chunk *chunk)
{
	const struct weir_stage_spec *spec = &world->config.stages[stage];

	if (++chunk->user_failures <= spec->user_retries)
		return;
	if (spec->errored_max >= 0 && world->errored[stage] >= (uint64_t)spec->errored_max) {
		world->cause = world->cause ? world->cause : WEIR_E_USER;
		return;
	}
	world->errored[stage]++;
	sim_leave_out(world, chunk);
	task_ends(world, chunk, true);
}

/* What a task took, as its worker says; short ones may be given further ahead. */
static uint64_t takes_ns(struct world *world, uint32_t stage)
{
	const struct weir_stage_spec *spec = &world->config.stages[stage];
	uint64_t ns = 1000 + random_below(&world->random, sim_chance(world, 20) ? 5000000 : 400000), ahead;
	uint64_t *of = &world->task_ns[stage], up = ns < 2 * *of ? ns : 2 * *of;

	*of = *of == 0 ? ns : ns > *of ? *of + (up - *of) / 8 + 1 : *of - (*of - ns) / 8;
	ahead = WEIR_AHEAD_NS / *of;
	if (ahead > spec->in_flight_short)
		ahead = spec->in_flight_short;
	world->depth[stage] = ahead > spec->in_flight_max ? (uint32_t)ahead : spec->in_flight_max;
	return ns;
}

static void batch_ends(struct world *world, uint32_t stage, uint32_t slot, int code)
{
	struct worker *worker = &world->workers[stage][slot];
	struct batch batch = worker->batches[0];
	struct chunk *chunk = sim_chunk(world, batch.chunk);
	bool accepted = !code && !batch.stop;

	memmove(worker->batches, worker->batches + 1, --worker->count * sizeof(worker->batches[0]));
	worker->alone = false;
	world->granted -= batch.allowance;
	task_ends(world, chunk, !code || batch.stop);
	world->tasks_done[stage] += accepted;
	if (accepted)
		reaches_sink(world, stage, chunk, NULL);
	outputs_of(world, &batch.run, accepted);
	if (code == WEIR_E_MEMORY && !chunk->exclusive && !batch.stop)
		chunk->alone = chunk->exclusive = true; /* once more, with all memory */
	else if (code == WEIR_E_USER && !batch.stop)
		user_failed(world, stage, chunk);
	else if (code && !batch.stop && !world->cause)
		world->cause = code;
	if (worker->count)
		sim_worker_goes_on(world, stage, slot);
	sim_say(world, (struct weir_event){.kind = code ? WEIR_EV_TASK_FAILED : WEIR_EV_TASK_DONE,
					   .stage = stage,
					   .slot = slot,
					   .generation = worker->generation,
					   .run = batch.run,
					   .times.wall_ns = accepted ? takes_ns(world, stage) : 0,
					   .code = code});
}

static void count_death(struct world *world, uint32_t stage, struct chunk *chunk, enum weir_death death)
{
	if (death == WEIR_DEATH_OWN) {
		if (++chunk->own_deaths >= weir_attempts_max(&world->config.stages[stage]) && !world->cause)
			world->cause = WEIR_E_WORKER;
		return;
	}
	if (chunk->kills == chunk->forgiven)
		chunk->others = (uint32_t)world->stage_kills[stage];
	world->stage_kills[stage]++;
	chunk->kills++;
	chunk->alone |= chunk->kills >= 2;
	if (chunk->kills >= WEIR_KILLS_MAX + chunk->forgiven &&
	    world->stage_kills[stage] - chunk->others < 2 * (uint64_t)(chunk->kills - chunk->forgiven) && !world->cause)
		world->cause = WEIR_E_WORKER;
	else if (chunk->kills >= WEIR_KILLS_MAX + chunk->forgiven)
		chunk->forgiven = chunk->kills;
}

void sim_worker_dies(struct world *world, uint32_t stage, uint32_t slot, enum weir_death death)
{
	struct worker *worker = &world->workers[stage][slot];
	struct weir_event event = {.kind = WEIR_EV_SLOT_DIED,
				   .stage = stage,
				   .slot = slot,
				   .generation = worker->generation,
				   .death = death};
	int64_t assumed = world->config.stages[stage].slot_memory;

	if (worker->state == WORKER_STARTING && !worker->killed) {
		world->deaths_before_up[stage] += death == WEIR_DEATH_OWN ? 10 : 1;
		if (world->deaths_before_up[stage] >= 100 && !world->cause)
			world->cause = WEIR_E_WORKER;
	}
	for (uint32_t i = 0; i < worker->count; i++) {
		struct batch *batch = &worker->batches[i];
		struct chunk *chunk = sim_chunk(world, batch->chunk);

		/* What it had sent before it died may still be on its way. */
		if (i == 0 && sim_fault(world, world->config.late_percent)) {
			struct weir_event late = {.kind = sim_chance(world, 50) ? WEIR_EV_TASK_DONE : WEIR_EV_OUTPUT,
						  .stage = stage,
						  .slot = slot,
						  .generation = worker->generation,
						  .run = batch->run,
						  .chunk = batch->outputs_done,
						  .bytes = world->config.unit};

			if (sim_chance(world, 30))
				late.kind = WEIR_EV_TASK_FAILED, late.code = WEIR_E_DATA;
			sim_will_happen(world, sim_soon(world),
					(struct moment){.kind = MESSAGE, .event = late, .repeat = true});
		}
		world->granted -= batch->allowance;
		task_ends(world, chunk, batch->stop);
		if (!batch->stop && i == 0 && !world->winding_down && !worker->over)
			count_death(world, stage, chunk, death);
		outputs_of(world, &batch->run, false);
	}
	worker->count = 0;
	worker->alone = worker->over = false;
	worker->state = WORKER_DEAD;
	sim_swing(world, worker, 0);
	world->workers_memory += assumed - worker->memory;
	worker->memory = assumed;
	if (worker->retiring && !worker->stopped) {
		world->workers_memory -= assumed;
		worker->memory = 0;
		worker->counted = worker->retiring = false;
	}
	if (worker->stopped) { /* its slot is closed already */
		world->workers_memory -= assumed;
		worker->memory = 0;
	}
	sim_say(world, event);
}

/* Whether others of its stage are up or about to be. */
static bool has_others(const struct world *world, uint32_t stage, uint32_t slot)
{
	for (uint32_t w = 0; w < world->config.stages[stage].slots; w++) {
		const struct worker *other = &world->workers[stage][w];

		if (w != slot && !other->killed && !other->stopped &&
		    (other->state == WORKER_UP || other->state == WORKER_STARTING))
			return true;
	}
	return false;
}

/* It keeps its result and asks for room, again and again; a backend gives it in the end. */
static void worker_asks(struct world *world, uint32_t stage, uint32_t slot, int64_t bytes)
{
	struct worker *worker = &world->workers[stage][slot];
	struct batch *batch = &worker->batches[0];

	batch->asks++;
	batch->asked = bytes;
	sim_worker_goes_on(world, stage, slot);
	sim_tell(world,
		 (struct weir_event){.kind = WEIR_EV_ASK,
				     .stage = stage,
				     .slot = slot,
				     .generation = worker->generation,
				     .run = batch->run,
				     .bytes = bytes},
		 false);
	if (worker->count > 0 && batch->asked > 0)
		sim_check_refused(world, worker);
}

void sim_worker_goes(struct world *world, uint32_t stage, uint32_t slot)
{
	struct worker *worker = &world->workers[stage][slot];
	struct batch *batch = &worker->batches[0];
	struct script script;
	struct chunk *chunk;
	struct place of;
	uint32_t number;
	bool stays;

	if (worker->state == WORKER_STARTING) {
		if (sim_fault(world, world->config.death_percent / 4)) {
			sim_worker_dies(world, stage, slot, WEIR_DEATH_OUTSIDE);
			return;
		}
		worker->state = WORKER_UP;
		worker->is_short = sim_fault(world, world->config.memory_percent);
		world->deaths_before_up[stage] = 0;
		stays = !worker->is_short || worker->killed || !has_others(world, stage, slot);
		world->cramped[stage] |= !stays;
		world->result->seen |= worker->is_short ? WEIR_SIM_CRAMPED : 0;
		sim_say(world, (struct weir_event){.kind = WEIR_EV_SLOT_READY,
						   .stage = stage,
						   .slot = slot,
						   .generation = worker->generation,
						   .code = worker->is_short ? WEIR_E_MEMORY : WEIR_OK});
		PROMISE(world, stays || worker->killed || world->winding_down || world->ended || worker->stopped,
			"a worker that had too little memory to begin with stays beside others");
		return;
	}
	if (worker->state != WORKER_UP || worker->count == 0)
		return;
	chunk = sim_chunk(world, batch->chunk);
	sim_task_script(world, chunk, &script);
	if (batch->paused)
		return; /* RESUME makes it go on */
	if (batch->stop && sim_chance(world, 70)) {
		batch_ends(world, stage, slot, WEIR_E_CANCELLED);
	} else if (script.poison || sim_fault(world, world->config.own_percent)) {
		sim_worker_dies(world, stage, slot, WEIR_DEATH_OWN);
	} else if (sim_fault(world, world->config.death_percent)) {
		sim_worker_dies(world, stage, slot, WEIR_DEATH_OUTSIDE);
	} else if (batch->outputs_done < script.output_count &&
		   sim_task_output(world, chunk, batch->outputs_done, &of, &number)) {
		struct weir_event event = {.kind = WEIR_EV_OUTPUT,
					   .stage = stage,
					   .slot = slot,
					   .generation = worker->generation,
					   .run = batch->run,
					   .chunk = batch->outputs_done,
					   .bytes = sim_output_bytes(&world->config, &of, number),
					   .rows = sim_output_rows(&world->config, &of, number)};

		if (world->config.rooms && event.bytes > batch->allowance && batch->asks < ASKS_MAX) {
			worker_asks(world, stage, slot, event.bytes);
			return;
		}
		batch->asks = 0;
		batch->asked = 0;
		batch->outputs_done++;
		sim_worker_goes_on(world, stage, slot);
		sim_say(world, event);
	} else {
		batch_ends(world, stage, slot,
			   script.fails                                     ? WEIR_E_DATA
			   : chunk->user_failures < script.user_fails       ? WEIR_E_USER
			   : worker->is_short && !chunk->exclusive          ? WEIR_E_MEMORY
			   : sim_fault(world, world->config.memory_percent) ? WEIR_E_MEMORY
									    : WEIR_OK);
	}
}
