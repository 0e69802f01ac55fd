/* What happens in time. Everything that will happen lies in one heap of moments; the earliest comes true, is told to
 * the core, and what the core wants done about it makes further moments. */
#include "backend/sim/sim_impl.h"

#include <inttypes.h>
#include <string.h>

enum { STRAGGLER = 1000 };

bool sim_chance(struct world *world, uint32_t percent)
{
	return random_below(&world->random, 100) < percent;
}

bool sim_fault(struct world *world, uint32_t percent)
{
	return world->faults && percent && sim_chance(world, percent);
}

/* --- the future --- */

static bool earlier(const struct moment *a, const struct moment *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_will_happen(struct world *world, uint64_t after, struct moment moment)
{
	struct moments *future = &world->future;
	size_t at = future->count;

	moment.at = world->now + after;
	moment.order = world->order++;
	if (weir_list_push(future, world->account, &world->err, moment)) {
		sim_broken(world, "no memory", __LINE__);
		return;
	}
	for (; at > 0 && earlier(&moment, &future->items[(at - 1) / 2]); at = (at - 1) / 2)
		future->items[at] = future->items[(at - 1) / 2];
	future->items[at] = moment;
}

static struct moment next_moment(struct world *world)
{
	struct moments *future = &world->future;
	struct moment first = future->items[0], last = future->items[--future->count];
	size_t at = 0;

	for (;;) {
		size_t down = 2 * at + 1;

		if (down >= future->count)
			break;
		if (down + 1 < future->count && earlier(&future->items[down + 1], &future->items[down]))
			down++;
		if (!earlier(&future->items[down], &last))
			break;
		future->items[at] = future->items[down];
		at = down;
	}
	if (future->count > 0)
		future->items[at] = last;
	world->now = first.at;
	return first;
}

uint64_t sim_soon(struct world *world)
{
	uint64_t time = world->config.lockstep ? 10 : random_below(&world->random, 100);

	return random_below(&world->random, 1000) < world->config.straggler_permille ? time * STRAGGLER : time;
}

/* --- talking to the core --- */

static const char *const event_names[] = {"start",     "slot ready", "slot died", "split cut", "splits end",
					  "output",    "done",       "failed",    "ask",       "return",
					  "wait turn", "enough",     "spilled",   "restored",  "taken",
					  "measured",  "cancel",     "tick",      "budget"};
static const char *const action_names[] = {
	"cut split",   "start task",  "grant",     "give up",   "turn",  "stop task", "start worker",
	"kill worker", "output kept", "drop",      "resume",    "spill", "restore",   "free",
	"deliver",     "trim",        "stop slot", "set timer", "end",   "pause",     "task part"};

static void note(struct world *world, uint64_t value)
{
	world->result->trace_hash = sim_mix(world->result->trace_hash ^ (value + 0x9e3779b97f4a7c15u));
}

static void trace_event(struct world *world, const struct weir_event *event)
{
	note(world, (uint64_t)event->kind << 48 ^ (uint64_t)event->stage << 40 ^ event->slot);
	note(world, event->run.task ^ (uint64_t)event->run.attempt << 32 ^ event->chunk);
	note(world, (uint64_t)event->bytes);
	if (world->trace)
		fprintf(world->trace,
			"%8" PRIu64 " %6" PRIu64 " %-10s stage %u slot %d/%u task %" PRIx64 ".%u chunk %" PRIx64
			" bytes %" PRId64 " code %d\n",
			world->result->events, world->now, event_names[event->kind], event->stage, (int)event->slot,
			event->generation, event->run.task, event->run.attempt, event->chunk, event->bytes,
			event->code);
}

static void trace_action(struct world *world, const struct weir_action *action)
{
	note(world, (uint64_t)action->kind << 48 ^ (uint64_t)action->stage << 40 ^ action->slot);
	note(world, action->run.task ^ (uint64_t)action->run.attempt << 32 ^ action->chunk);
	note(world, (uint64_t)action->bytes);
	if (world->trace)
		fprintf(world->trace,
			"                    → %-12s stage %u slot %u/%u task %" PRIx64 ".%u chunk %" PRIx64
			" bytes %" PRId64 " code %d %s\n",
			action_names[action->kind], action->stage, action->slot, action->generation, action->run.task,
			action->run.attempt, action->chunk, action->bytes, action->code,
			action->reason ? action->reason : "");
}

static int refuse(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	(void)account;
	return weir_error_set(err, WEIR_E_MEMORY, "no %lld bytes, says the simulation", (long long)more);
}

/* A step that finds no memory must leave everything as it was. */
static void step(struct world *world, const struct weir_event *event, struct weir_actions *actions)
{
	struct weir_core_stats before, after;
	size_t count = actions->count;

	world->result->events++;
	if (world->faults && random_below(&world->random, 1000) < world->config.allocation_permille) {
		weir_core_stats(world->core, &before);
		atomic_store(&world->core_account.grant, atomic_load(&world->core_account.used));
		if (weir_core_step(world->core, event, world->now, actions, &world->err) == WEIR_OK) {
			atomic_store(&world->core_account.grant, INT64_MAX);
			return;
		}
		atomic_store(&world->core_account.grant, INT64_MAX);
		weir_core_stats(world->core, &after);
		PROMISE(world, !memcmp(&before, &after, sizeof(before)) && actions->count == count,
			"a step that failed has changed something");
		world->result->seen |= WEIR_SIM_ALLOCATION_FAILED;
	}
	if (weir_core_step(world->core, event, world->now, actions, &world->err))
		sim_broken(world, "a step failed though there was memory", __LINE__);
}

static void perform(struct world *world, const struct weir_action *action, const struct weir_event *event, bool stale,
		    struct weir_actions *actions);
static bool stops_without_cause(struct world *world, const struct weir_action *action, const struct weir_event *event);

void sim_tell(struct world *world, struct weir_event event, bool stale)
{
	struct weir_actions actions = {0};

	trace_event(world, &event);
	world->arriving = event.kind == WEIR_EV_OUTPUT ? event.bytes : 0;
	step(world, &event, &actions);
	if (world->cause)
		world->winding_down = true;
	for (size_t i = 0; i < actions.count && !world->winding_down; i++)
		if (stops_without_cause(world, &actions.items[i], &event))
			sim_wound_down(world);
	if (!world->winding_down)
		sim_note_bundles(world); /* as it was when the core decided, and below as it is after */
	/* The list grows while it is walked: a cut split is answered at once. */
	for (size_t i = 0; i < actions.count && !world->result->broken[0]; i++) {
		struct weir_action action = actions.items[i];

		trace_action(world, &action);
		PROMISE(world, !world->ended || action.kind == WEIR_DO_STOP_SLOT || action.kind == WEIR_DO_OUTPUT_DROP,
			"an action after the end");
		perform(world, &action, &event, stale, &actions);
	}
	weir_list_release(&actions, &world->core_account);
	PROMISE(world, world->parts.count == 0, "parts of a task that was not started");
	if (!world->ended && !world->winding_down && !world->result->broken[0])
		sim_note_bundles(world);
}

/* Also says it again later, at times. */
void sim_say(struct world *world, struct weir_event event)
{
	if (sim_fault(world, world->config.repeat_percent))
		sim_will_happen(world, sim_soon(world) * 5,
				(struct moment){.kind = MESSAGE, .event = event, .repeat = true});
	sim_tell(world, event, false);
}

/* --- disk, consumer, measurements --- */

static void disk_done(struct world *world, uint64_t id)
{
	struct chunk *chunk = sim_chunk(world, id);
	struct weir_event event = {.chunk = id};

	if (!chunk) {
		sim_broken(world, "a chunk is gone that the disk works on", __LINE__);
		return;
	}
	if (chunk->where == CHUNK_SPILLING) {
		event.kind = WEIR_EV_SPILLED;
		event.code = sim_fault(world, world->config.spill_fail_percent) ? WEIR_E_NO_SPACE : WEIR_OK;
		chunk->where = event.code ? CHUNK_RESIDENT : CHUNK_SPILLED;
		chunk->unspillable |= event.code != 0;
		if (event.code)
			world->result->seen |= WEIR_SIM_SPILL_FAILED;
		else
			world->resident -= chunk->bytes;
	} else {
		event.kind = WEIR_EV_RESTORED;
		event.code = sim_fault(world, world->config.corrupt_percent) ? WEIR_E_SPILL_CORRUPT : WEIR_OK;
		chunk->where = event.code ? CHUNK_LOST : CHUNK_RESIDENT;
		if (event.code) {
			world->resident -= chunk->bytes;
			if ((chunk->place.length != 2 || ++chunk->losses > WEIR_ATTEMPTS_MAX) && !world->cause &&
			    !chunk->doomed)
				world->cause = WEIR_E_SPILL_CORRUPT;
		}
	}
	sim_tell(world, event, false);
}

/* Up at once, down slowly, and only by those at work. What was assumed counts until one is measured that has done
 * something. */
static void estimate(struct world *world, uint32_t stage, const struct worker *worker)
{
	if (worker->memory > world->peak[stage])
		world->peak[stage] = worker->memory;
	if (world->assumes[stage] && world->tasks_done[stage]) {
		world->assumes[stage] = false;
		world->estimate[stage] = world->peak[stage];
	}
	if (worker->memory > world->estimate[stage])
		world->estimate[stage] = worker->memory;
	else if (worker->count > 0 && !world->assumes[stage])
		world->estimate[stage] -= (world->estimate[stage] - worker->memory) / 256;
}

void sim_swing(struct world *world, struct worker *worker, int64_t bytes)
{
	world->swings -= worker->swing;
	worker->swing = bytes > 0 ? bytes : 0;
	world->swings += worker->swing;
}

static void measures(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	struct weir_event event = {.kind = WEIR_EV_MEASURED, .slot = WEIR_NO_SLOT};
	uint32_t stage = (uint32_t)random_below(&world->random, options->stage_count);

	if (sim_is_lanes(world, stage) || !sim_chance(world, 50)) {
		event.bytes = options->budget < INT64_MAX
				      ? (int64_t)random_below(&world->random, (uint64_t)options->budget)
				      : world->config.unit;
		if (options->budget < INT64_MAX) {
			world->excess = event.bytes > world->excess ? event.bytes
								    : world->excess + (event.bytes - world->excess) / 4;
			if (world->excess > world->budget / 2)
				world->excess = world->budget / 2;
		}
	} else {
		uint32_t slot = (uint32_t)random_below(&world->random, world->config.stages[stage].slots);
		struct worker *worker = &world->workers[stage][slot];
		int64_t assumed = world->config.stages[stage].slot_memory;

		if ((worker->state != WORKER_UP && worker->state != WORKER_STARTING) || worker->stopped ||
		    worker->killed)
			return;
		event.stage = stage;
		event.slot = slot;
		event.generation = worker->generation;
		event.bytes = sim_chance(world, world->config.worker_grows_percent)
				      ? assumed * 2 + world->config.unit * (int64_t)random_below(&world->random, 8)
				      : assumed / 2;
		world->workers_memory -= worker->memory;
		worker->memory = event.bytes > assumed ? event.bytes : assumed;
		world->workers_memory += worker->memory;
		event.apart = sim_chance(world, 30) ? world->config.unit * (int64_t)random_below(&world->random, 8) : 0;
		sim_swing(world, worker, event.bytes + event.apart - worker->memory);
		estimate(world, stage, worker);
	}
	sim_tell(world, event, false);
	sim_check_limit(world);
}

/* One that is at work takes more than anybody thought. */
static void runs_away(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	struct weir_event event = {.kind = WEIR_EV_MEASURED};

	for (uint32_t s = 0; s < options->stage_count; s++)
		for (uint32_t w = 0; w < world->config.stages[s].slots && !sim_is_lanes(world, s); w++) {
			struct worker *worker = &world->workers[s][w];

			if (worker->state != WORKER_UP || worker->stopped || worker->killed || !worker->count ||
			    options->budget == INT64_MAX || sim_chance(world, 50))
				continue;
			event.stage = s;
			event.slot = w;
			event.generation = worker->generation;
			event.bytes = worker->memory +
				      (int64_t)random_below(&world->random, (uint64_t)options->limit * 5 / 4);
			world->workers_memory += event.bytes - worker->memory;
			worker->memory = event.bytes;
			sim_swing(world, worker, 0);
			estimate(world, s, worker);
			sim_tell(world, event, false);
			sim_check_limit(world);
			return;
		}
}

/* Many times in a row, so that it is seen to be idle. */
static void measures_long(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	uint32_t stage = (uint32_t)random_below(&world->random, options->stage_count);
	uint32_t slot = (uint32_t)random_below(&world->random, world->config.stages[stage].slots);

	for (uint32_t i = 0; i < 220 && !sim_is_lanes(world, stage) && !world->ended && !world->result->broken[0];
	     i++) {
		struct worker *worker = &world->workers[stage][slot];
		struct weir_event event = {.kind = WEIR_EV_MEASURED, .stage = stage, .slot = slot};

		if (worker->state != WORKER_UP || worker->stopped || worker->killed)
			return;
		event.generation = worker->generation;
		event.bytes = worker->memory;
		sim_swing(world, worker, 0);
		estimate(world, stage, worker);
		sim_tell(world, event, false);
	}
}

/* One worker of each stage is paid for, unless it is another run's turn. */
static void tell_budget(struct world *world, struct weir_event event)
{
	const struct weir_core_options *options = &world->config.options;
	int64_t floor = 0;

	for (uint32_t s = 0; s < options->stage_count && !event.parked; s++)
		floor += sim_is_lanes(world, s) ? 0 : world->config.stages[s].slot_memory;
	world->told = event;
	world->budget = event.bytes > floor ? event.bytes : floor;
	if (world->budget > options->limit)
		world->budget = options->limit;
	if (world->budget < world->budget_min)
		world->budget_min = world->budget;
	sim_tell(world, event, false);
}

static void budget_changes(struct world *world)
{
	const struct weir_core_options *options = &world->config.options;
	struct weir_event event = {.kind = WEIR_EV_BUDGET};
	struct random own = {.state = world->random.state ^ 0x9e3779b97f4a7c15u};

	if (options->budget == INT64_MAX)
		return;
	event.bytes = (int64_t)random_below(&world->random, (uint64_t)options->budget * 3 / 2);
	/* Random numbers of its own: those of the world are the same with it and without. */
	event.apart = random_below(&own, 3) ? 0 : (int64_t)random_below(&own, (uint64_t)options->limit / 2 + 1);
	event.lent = random_below(&own, 3) ? 0 : (int64_t)random_below(&own, (uint64_t)options->limit / 2 + 1);
	if (event.lent)
		sim_will_happen(world, random_below(&own, 500), (struct moment){.kind = LENT_BACK});
	event.parked = random_below(&own, 4) == 0;
	if (event.parked) {
		world->result->seen |= WEIR_SIM_PARKED;
		event.bytes = random_below(&own, 2) ? 0 : event.bytes;
		sim_will_happen(world, random_below(&own, 500), (struct moment){.kind = LENT_BACK});
	}
	world->result->seen |= WEIR_SIM_BUDGET;
	tell_budget(world, event);
	sim_check_parked(world);
}

/* --- actions --- */

/* Stopping a task is in order behind enough, and for a run that has brought back what was lost. */
static bool stops_without_cause(struct world *world, const struct weir_action *action, const struct weir_event *event)
{
	if (action->kind == WEIR_DO_END)
		return action->code == WEIR_E_LIMIT;
	if (action->kind == WEIR_DO_KILL_WORKER && action->bytes > 0)
		return false;
	if (action->kind == WEIR_DO_KILL_WORKER)
		return world->workers[action->stage][action->slot].count > 0 ||
		       world->workers[action->stage][action->slot].state == WORKER_STARTING;
	if (action->kind != WEIR_DO_STOP_TASK)
		return false;
	if (sim_is_lanes(world, action->stage)) {
		struct lane *lane = &world->lanes[action->stage][action->slot];
		struct place at = sim_lane_position(world, lane);

		if (action->stage == 0 && lane->run.attempt >= WEIR_REBUILD_ATTEMPT)
			return event->kind != WEIR_EV_OUTPUT && event->kind != WEIR_EV_ENOUGH;
		return !sim_behind_enough(world, &at);
	}
	for (uint32_t i = 0; i < world->workers[action->stage][action->slot].count; i++) {
		struct batch *batch = &world->workers[action->stage][action->slot].batches[i];
		struct chunk *chunk = sim_chunk(world, batch->chunk);

		if (batch->run.task == action->run.task && chunk)
			return !sim_chunk_unwanted(world, chunk);
	}
	return true;
}

static void stop_task(struct world *world, const struct weir_action *action)
{
	world->result->seen |= world->enough_seen ? WEIR_SIM_ENOUGH_STOPS : 0;
	if (sim_is_lanes(world, action->stage)) {
		struct lane *lane = &world->lanes[action->stage][action->slot];

		PROMISE(world, lane->busy, "a stop for a lane that does nothing");
		lane->stop = true;
		if (lane->wait != LANE_RUNS)
			sim_lane_goes_on(world, action->stage, action->slot);
		return;
	}
	for (uint32_t i = 0; i < world->workers[action->stage][action->slot].count; i++)
		if (world->workers[action->stage][action->slot].batches[i].run.task == action->run.task)
			world->workers[action->stage][action->slot].batches[i].stop = true;
}

static void give_up(struct world *world, const struct weir_action *action)
{
	struct lane *lane = &world->lanes[action->stage][action->slot];

	world->result->seen |= WEIR_SIM_GIVE_UP;
	PROMISE(world, sim_is_lanes(world, action->stage) && lane->busy, "a task to give up that does not run");
	lane->give_up = true;
	if (lane->wait != LANE_RUNS) {
		lane->unwinding = true;
		sim_lane_goes_on(world, action->stage, action->slot);
	}
}

static void start_worker(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];

	PROMISE(world, !sim_is_lanes(world, action->stage) && !worker->stopped, "a worker where there can be none");
	PROMISE(world, worker->state == WORKER_NONE || worker->state == WORKER_DEAD, "a worker started twice");
	PROMISE(world, action->generation > worker->generation, "a generation used twice");
	worker->state = WORKER_STARTING;
	worker->generation = action->generation;
	worker->given = worker->count = 0;
	worker->killed = false;
	sim_check_worker_start(world, action);
	sim_worker_goes_on(world, action->stage, action->slot);
}

static struct weir_event cut(struct world *world)
{
	struct weir_event event = {.kind = WEIR_EV_SPLITS_END};

	world->cutting = false;
	if (world->splits_cut < world->config.split_count) {
		event.kind = WEIR_EV_SPLIT_CUT;
		event.bytes = sim_split_need(&world->config, world->splits_cut++);
	} else {
		world->cut_end = true;
	}
	return event;
}

static void cut_split(struct world *world, struct weir_actions *actions)
{
	struct random own = {.state = world->random.state ^ 0xd1b54a32d192ed03u}; /* as in budget_changes */
	struct weir_event event;

	PROMISE(world, !world->cut_end && !world->enough_seen, "a split asked for after the last");
	PROMISE(world, !world->cutting, "a split asked for while another is cut");
	sim_check_cut(world);
	world->cutting = true;
	if (random_below(&own, 100) < world->config.late_cut_percent) {
		world->result->seen |= WEIR_SIM_LATE_CUT;
		sim_will_happen(world, random_below(&own, 200), (struct moment){.kind = SPLIT_COMES});
		return;
	}
	event = cut(world);
	trace_event(world, &event);
	step(world, &event, actions);
}

static void stop_slot(struct world *world, const struct weir_action *action)
{
	struct lane *lane = &world->lanes[action->stage][action->slot];
	struct worker *worker = &world->workers[action->stage][action->slot % SIM_WORKERS_MAX];

	if (sim_is_lanes(world, action->stage)) {
		PROMISE(world, lane->up && !lane->busy, "a lane sent home that is at work");
		lane->stopped = true;
		world->granted -= lane->grant;
		lane->grant = lane->kept = 0;
		return;
	}
	PROMISE(world, worker->count == 0, "a worker sent home that is at work");
	worker->stopped = true;
	sim_swing(world, worker, 0);
	if (worker->state != WORKER_DEAD && worker->counted) {
		world->workers_memory -= worker->memory;
		worker->counted = false;
		worker->memory = 0;
	}
}

static void kill_worker(struct world *world, const struct weir_action *action)
{
	struct worker *worker = &world->workers[action->stage][action->slot];

	PROMISE(world, worker->generation == action->generation, "a worker killed that is not there");
	worker->killed = true;
	if (action->bytes > 0)
		sim_check_retire(world, action);
	sim_swing(world, worker, 0);
	sim_will_happen(world, sim_soon(world),
			(struct moment){.kind = WORKER_DIES,
					.stage = action->stage,
					.slot = action->slot,
					.generation = action->generation});
}

static void dropped(struct world *world, const struct weir_action *action, const struct weir_event *event, bool stale)
{
	(void)action;
	PROMISE(world, event->kind == WEIR_EV_OUTPUT, "an output dropped that was not reported");
	if (stale)
		world->result->seen |= WEIR_SIM_STALE;
	else if (event->run.attempt > 1 && event->run.attempt < WEIR_REBUILD_ATTEMPT)
		world->result->seen |= WEIR_SIM_REDO_SKIPPED;
}

/* Before a stage has done anything, its workers are taken to need a multiple of the largest task that its chunks can
 * make. */
static void assume(struct world *world, uint32_t stage, int64_t bytes, int64_t rows)
{
	const struct weir_stage_spec *spec;
	double size = bytes > 0 ? (double)bytes : 0;
	int64_t needs;

	if (stage == world->config.options.stage_count || sim_is_lanes(world, stage))
		return;
	spec = &world->config.stages[stage];
	if (rows > 0 && rows < spec->rows_min && spec->rows_min < INT64_MAX)
		size = size / (double)rows * (double)spec->rows_min;
	needs = (int64_t)(size * spec->slot_times + (double)spec->slot_start);
	if (!spec->slot_times || world->tasks_done[stage] || needs <= world->estimate[stage])
		return;
	world->estimate[stage] = needs;
	world->assumes[stage] = true;
}

static void perform(struct world *world, const struct weir_action *action, const struct weir_event *event, bool stale,
		    struct weir_actions *actions)
{
	switch (action->kind) {
	case WEIR_DO_CUT_SPLIT:
		cut_split(world, actions);
		break;
	case WEIR_DO_START_TASK:
		PROMISE(world, !world->told.parked, "a task starts while it is another run's turn");
		sim_check_start(world, action);
		if (world->result->broken[0])
			break;
		if (sim_is_lanes(world, action->stage))
			sim_lane_goes_on(world, action->stage, action->slot);
		else if (world->workers[action->stage][action->slot].count == 1)
			sim_worker_goes_on(world, action->stage, action->slot);
		break;
	case WEIR_DO_GRANT:
		sim_check_grant(world, action);
		if (sim_is_lanes(world, action->stage))
			sim_lane_goes_on(world, action->stage, action->slot);
		break;
	case WEIR_DO_GIVE_UP:
		give_up(world, action);
		break;
	case WEIR_DO_TURN:
		sim_check_turn(world, action);
		sim_lane_goes_on(world, action->stage, action->slot);
		break;
	case WEIR_DO_STOP_TASK:
		stop_task(world, action);
		break;
	case WEIR_DO_START_WORKER:
		start_worker(world, action);
		break;
	case WEIR_DO_KILL_WORKER:
		kill_worker(world, action);
		break;
	case WEIR_DO_OUTPUT_KEPT:
		PROMISE(world, !stale, "an output of a dead or repeated run accepted");
		assume(world, action->stage + 1, event->bytes, event->rows);
		if (!stale)
			sim_check_output(world, action, event);
		break;
	case WEIR_DO_OUTPUT_DROP:
		dropped(world, action, event, stale);
		break;
	case WEIR_DO_RESUME:
		if (!sim_is_lanes(world, action->stage)) {
			sim_check_pause(world, action);
			break;
		}
		sim_check_resume(world, action);
		sim_lane_goes_on(world, action->stage, action->slot);
		break;
	case WEIR_DO_PAUSE:
		sim_check_pause(world, action);
		if (sim_fault(world, world->config.death_percent))
			sim_will_happen(world, sim_soon(world),
					(struct moment){.kind = WORKER_DIES,
							.stage = action->stage,
							.slot = action->slot,
							.generation = action->generation});
		break;
	case WEIR_DO_SPILL:
		sim_check_spill(world, action);
		sim_will_happen(world, sim_soon(world), (struct moment){.kind = DISK_DONE, .chunk = action->chunk});
		break;
	case WEIR_DO_RESTORE:
		sim_check_restore(world, action);
		sim_will_happen(world, sim_soon(world), (struct moment){.kind = DISK_DONE, .chunk = action->chunk});
		break;
	case WEIR_DO_FREE:
		sim_check_free(world, action);
		break;
	case WEIR_DO_DELIVER:
		PROMISE(world, !world->told.parked, "a chunk is handed out while it is another run's turn");
		sim_check_deliver(world, action);
		sim_will_happen(world, random_below(&world->random, world->config.pause_max),
				(struct moment){.kind = CONSUMER_TAKES, .chunk = action->chunk});
		break;
	case WEIR_DO_STOP_SLOT:
		stop_slot(world, action);
		break;
	case WEIR_DO_END:
		sim_check_end(world, action);
		break;
	case WEIR_DO_TASK_PART:
		if (weir_list_push(&world->parts, world->account, &world->err, action->chunk))
			sim_broken(world, "no memory", __LINE__);
		break;
	case WEIR_DO_TRIM:
		break;
	}
}

/* --- time --- */

static void message(struct world *world, const struct moment *moment)
{
	if (moment->event.kind == WEIR_EV_SLOT_READY && sim_is_lanes(world, moment->event.stage))
		world->lanes[moment->event.stage][moment->event.slot].up = true;
	sim_tell(world, moment->event, moment->repeat);
}

static void takes(struct world *world, uint64_t id)
{
	struct chunk *chunk = sim_chunk(world, id);

	if (!chunk) /* the run was stopped meanwhile */
		return;
	chunk->done = true;
	world->consumer_holds--;
	sim_tell(world, (struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = id}, false);
}

static void comes_true(struct world *world, const struct moment *moment)
{
	struct worker *worker = &world->workers[moment->stage][moment->slot % SIM_WORKERS_MAX];

	switch (moment->kind) {
	case LANE_GOES:
		if (world->lanes[moment->stage][moment->slot].token == moment->token)
			sim_lane_goes(world, moment->stage, moment->slot);
		break;
	case WORKER_GOES:
		if (worker->generation == moment->generation)
			sim_worker_goes(world, moment->stage, moment->slot);
		break;
	case WORKER_DIES:
		if (worker->generation == moment->generation && worker->state != WORKER_DEAD)
			sim_worker_dies(world, moment->stage, moment->slot, WEIR_DEATH_OUTSIDE);
		break;
	case MESSAGE:
		message(world, moment);
		break;
	case DISK_DONE:
		disk_done(world, moment->chunk);
		break;
	case CONSUMER_TAKES:
		takes(world, moment->chunk);
		break;
	case SPLIT_COMES:
		sim_tell(world, cut(world), false);
		break;
	case LENT_BACK:
		world->told.lent = 0;
		world->told.parked = false;
		tell_budget(world, world->told);
		break;
	}
}

static void live(struct world *world)
{
	const struct config *config = &world->config;

	for (uint32_t s = 0; s < config->options.stage_count; s++)
		for (uint32_t w = 0; w < config->stages[s].slots && sim_is_lanes(world, s); w++) {
			struct weir_event ready = {.kind = WEIR_EV_SLOT_READY, .stage = s, .slot = w};

			sim_will_happen(world, random_below(&world->random, 50),
					(struct moment){.kind = MESSAGE, .event = ready});
		}
	sim_tell(world, (struct weir_event){.kind = WEIR_EV_START}, false);
	sim_check_begin(world);
	while (!world->ended && !world->result->broken[0]) {
		struct moment moment;

		if (world->future.count == 0) {
			sim_broken(world, "it has stalled: nothing will ever happen again", __LINE__);
			break;
		}
		if (world->result->events > SIM_STEPS_MAX) {
			sim_broken(world, "it does not come to an end", __LINE__);
			break;
		}
		world->faults = world->result->events < config->faults_until;
		if (world->result->events >= config->cancel_at && !world->winding_down) {
			world->cause = world->cause ? world->cause : WEIR_E_CANCELLED;
			sim_tell(world, (struct weir_event){.kind = WEIR_EV_CANCEL}, false);
			continue;
		}
		if (sim_fault(world, config->measure_percent))
			sim_chance(world, 20) ? measures_long(world) : measures(world);
		if (sim_fault(world, config->runaway_percent) && !world->ended)
			runs_away(world);
		if (sim_fault(world, config->budget_percent) && !world->ended)
			budget_changes(world);
		if (world->ended)
			break;
		if (world->future.count > 0 && world->future.items[0].at > world->now)
			sim_check_busy(world);
		moment = next_moment(world);
		comes_true(world, &moment);
	}
	/* What still arrives after the end changes nothing. */
	while (world->future.count > 0 && !world->result->broken[0]) {
		struct moment moment = next_moment(world);

		if (moment.kind == MESSAGE && moment.event.kind != WEIR_EV_START)
			message(world, &moment);
		else if (moment.kind == SPLIT_COMES)
			sim_tell(world, cut(world), false);
	}
}

int weir_sim_run(struct weir_account *account, uint64_t seed, FILE *trace, struct weir_sim_result *result)
{
	struct weir_error err;
	struct world *world = weir_alloc_zero(account, sizeof(*world), &err);

	memset(result, 0, sizeof(*result));
	if (!world)
		return err.code;
	world->account = account;
	world->result = result;
	world->trace = trace;
	world->faults = true;
	world->random.state = seed ^ 0x5851f42d4c957f2du;
	sim_plan(&world->config, seed);
	world->budget = world->budget_min = world->config.options.budget;
	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		world->estimate[s] = world->peak[s] = world->config.stages[s].slot_memory,
		world->depth[s] = world->config.stages[s].in_flight_max;
	weir_account_init(&world->core_account, account, "core");
	world->core_account.ask = refuse;
	world->splits = weir_alloc_zero(account, (world->config.split_count + 1) * sizeof(*world->splits), &err);
	if (!world->splits || weir_core_new(&world->core_account, &world->config.options, &world->core, &err))
		sim_broken(world, "the core could not be made", __LINE__);
	else
		live(world);
	weir_core_free(world->core);
	weir_list_release(&world->future, account);
	weir_list_release(&world->chunks, account);
	weir_list_release(&world->accepted, account);
	weir_list_release(&world->left_out, account);
	weir_list_release(&world->parts, account);
	if (world->splits)
		weir_free(account, world->splits, (world->config.split_count + 1) * sizeof(*world->splits));
	weir_account_release(&world->core_account);
	weir_free(account, world, sizeof(*world));
	return result->broken[0] ? WEIR_E_INTERNAL : WEIR_OK;
}
