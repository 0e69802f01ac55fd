/* The core by hand, one situation a test: what must be answered to what. The simulation covers the rest. */
#include "base/support.h"
#include "exec/exec.h"

#define MIB ((int64_t)1 << 20)

static struct weir_mem *mem;
static struct weir_core *core;
static struct weir_actions actions;
static struct weir_error err;
static uint64_t splits_left;
static int64_t split_need, held_max, output_rows, pool_limit;
static struct weir_stage_spec map_spec;

static int setup(void **state)
{
	(void)state;
	split_need = held_max = output_rows = 0;
	pool_limit = 64 * MIB;
	map_spec = (struct weir_stage_spec){0};
	return weir_mem_new(0, &mem, &err);
}

static int teardown(void **state)
{
	(void)state;
	weir_core_free(core);
	core = NULL;
	weir_list_release(&actions, weir_mem_root(mem));
	weir_mem_free(mem);
	return 0;
}

static void begin(uint32_t lanes, int64_t slot_memory, int64_t budget, int64_t limit, uint64_t splits)
{
	struct weir_stage_spec spec = {
		.kind = WEIR_STAGE_LANES, .slots = lanes, .slot_memory = slot_memory, .name = "scan"};
	struct weir_core_options options = {.budget = budget, .limit = limit, .stages = &spec, .stage_count = 1};

	assert_int_equal(weir_core_new(weir_mem_root(mem), &options, &core, &err), WEIR_OK);
	splits_left = splits;
}

/* Steps, and answers CUT_SPLIT as a backend does whose source waits for nobody: at once. All actions of both are left
 * in `actions`. */
static void step(struct weir_event event)
{
	actions.count = 0;
	assert_int_equal(weir_core_step(core, &event, 0, &actions, &err), WEIR_OK);
	for (size_t i = 0; i < actions.count; i++)
		if (actions.items[i].kind == WEIR_DO_CUT_SPLIT) {
			struct weir_event answer = {.kind = WEIR_EV_SPLITS_END, .bytes = split_need};

			if (splits_left > 0) {
				splits_left--;
				answer.kind = WEIR_EV_SPLIT_CUT;
			}
			assert_int_equal(weir_core_step(core, &answer, 0, &actions, &err), WEIR_OK);
		}
}

static const struct weir_action *find(enum weir_action_kind kind, uint32_t slot)
{
	for (size_t i = 0; i < actions.count; i++)
		if (actions.items[i].kind == kind && actions.items[i].slot == slot)
			return &actions.items[i];
	return NULL;
}

static struct weir_run started(uint32_t slot)
{
	const struct weir_action *action = find(WEIR_DO_START_TASK, slot);

	assert_non_null(action);
	return action->run;
}

static void done(uint32_t slot, struct weir_run run)
{
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .slot = slot, .run = run});
}

static void an_empty_input_ends_at_once(void **state)
{
	(void)state;
	begin(2, MIB, 8 * MIB, 8 * MIB, 0);
	step((struct weir_event){.kind = WEIR_EV_START});
	assert_false(weir_core_ended(core));
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	assert_true(weir_core_ended(core));
	assert_non_null(find(WEIR_DO_STOP_SLOT, 0));
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_OK);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1}); /* a lane that came late is sent home */
	assert_non_null(find(WEIR_DO_STOP_SLOT, 1));
}

static void splits_go_to_lanes_in_order(void **state)
{
	struct weir_run a, b;

	(void)state;
	begin(2, MIB, 8 * MIB, 8 * MIB, 3);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	a = started(1);
	assert_int_equal(a.task, 0);
	assert_int_equal(a.attempt, 1);
	assert_int_equal(find(WEIR_DO_START_TASK, 1)->bytes, MIB);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	b = started(0);
	assert_int_equal(b.task, 1);
	done(1, a);
	a = started(1);
	assert_int_equal(a.task, 2);
	done(1, (struct weir_run){.task = 2, .attempt = 7}); /* not a run of ours */
	assert_null(find(WEIR_DO_END, 0));
	done(0, b);
	assert_non_null(find(WEIR_DO_STOP_SLOT, 0));
	done(1, a);
	assert_true(weir_core_ended(core));
}

static void the_oldest_gets_what_the_youngest_has(void **state)
{
	struct weir_run a, b;

	(void)state;
	begin(2, 4 * MIB, 10 * MIB, 10 * MIB, 2);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	b = started(1);
	step((struct weir_event){.kind = WEIR_EV_ASK, .slot = 1, .bytes = 5 * MIB}); /* the younger one waits */
	assert_int_equal(actions.count, 0);
	step((struct weir_event){.kind = WEIR_EV_ASK, .slot = 0, .bytes = 5 * MIB});
	assert_non_null(find(WEIR_DO_TRIM, 0));
	assert_non_null(find(WEIR_DO_GIVE_UP, 1));
	assert_null(find(WEIR_DO_GRANT, 0));
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .slot = 1, .run = b, .code = WEIR_E_GIVE_UP});
	assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, 5 * MIB);
	assert_null(find(WEIR_DO_START_TASK, 1)); /* not before there is room for all it had and wanted */
	done(0, a);
	b = started(0);
	assert_int_equal(b.task, 1);
	assert_int_equal(b.attempt, 2);
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->bytes, 9 * MIB);
	done(0, b);
	assert_true(weir_core_ended(core));
}

static void alone_it_may_pass_the_budget_but_not_the_limit(void **state)
{
	struct weir_run a;

	(void)state;
	begin(1, 4 * MIB, 8 * MIB, 12 * MIB, 1);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 7 * MIB});
	assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, 7 * MIB);
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 7 * MIB});
	assert_non_null(find(WEIR_DO_STOP_TASK, 0));
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .run = a, .code = WEIR_E_CANCELLED});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_LIMIT);
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "7.0 MiB"));
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "12.0 MiB"));
}

/* What the user was handed is waited for; what others have for good is not there. */
static void beyond_the_budget_it_waits_for_what_is_lent(void **state)
{
	struct weir_run a;

	(void)state;
	begin(1, 4 * MIB, 8 * MIB, 20 * MIB, 1);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB, .lent = 10 * MIB});
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 7 * MIB});
	assert_null(find(WEIR_DO_GRANT, 0));
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB, .lent = 9 * MIB});
	assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, 7 * MIB);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB, .apart = 8 * MIB});
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 2 * MIB});
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .run = a, .code = WEIR_E_CANCELLED});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_LIMIT);
}

static void while_it_is_another_runs_turn_nothing_starts(void **state)
{
	struct weir_core_load load;
	struct weir_run a;

	(void)state;
	begin(1, 4 * MIB, 8 * MIB, 20 * MIB, 2);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	a = started(0);
	weir_core_load(core, &load);
	assert_int_equal(load.active, 1);
	assert_int_equal(load.wants, 0);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB, .lent = 20 * MIB});
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 7 * MIB});
	weir_core_load(core, &load);
	assert_int_equal(load.active, 0);
	assert_int_equal(load.wants, 7 * MIB);
	assert_int_equal(load.booked, 4 * MIB);
	/* Its own turn, and it is given what the others leave; then another's. */
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB, .apart = 9 * MIB});
	assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, 7 * MIB);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .parked = true});
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .run = a});
	assert_null(find(WEIR_DO_START_TASK, 0));
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 8 * MIB});
	assert_non_null(find(WEIR_DO_START_TASK, 0));
}

static void while_much_is_free_a_task_gets_more_than_it_asks_for(void **state)
{
	/* As much again as it has, then half of what is free beyond half of the budget. */
	static const int64_t granted[] = {5 * MIB, 10 * MIB, 7 * MIB};
	int64_t more = 0;

	(void)state;
	begin(4, 4 * MIB, 64 * MIB, 64 * MIB, 1);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	started(0);
	for (int i = 0; i < 3; i++) {
		step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = MIB});
		assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, granted[i]);
	}
	for (int i = 0; i < 12; i++) {
		step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = MIB});
		more = find(WEIR_DO_GRANT, 0)->bytes;
	}
	assert_int_equal(more, MIB);
}

/* What the process has more is off the budget as soon as it is measured; what it has less comes back by quarters. */
static void what_was_measured_beside_is_not_given_out(void **state)
{
	(void)state;
	begin(2, MIB, 64 * MIB, 64 * MIB, 2);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .slot = WEIR_NO_SLOT, .bytes = 16 * MIB});
	step((struct weir_event){.kind = WEIR_EV_ASK, .slot = 1, .bytes = 47 * MIB}); /* of 46 */
	assert_null(find(WEIR_DO_GRANT, 1));
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .slot = WEIR_NO_SLOT, .bytes = 16 * MIB});
	assert_null(find(WEIR_DO_GRANT, 1));
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .slot = WEIR_NO_SLOT, .bytes = 12 * MIB});
	assert_int_equal(find(WEIR_DO_GRANT, 1)->bytes, 47 * MIB);
}

static void turns_come_in_order(void **state)
{
	struct weir_run a, b;

	(void)state;
	begin(2, MIB, 8 * MIB, 8 * MIB, 2);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	b = started(1);
	step((struct weir_event){.kind = WEIR_EV_WAIT_TURN, .slot = 1});
	assert_null(find(WEIR_DO_TURN, 1));
	step((struct weir_event){.kind = WEIR_EV_WAIT_TURN, .slot = 0});
	assert_non_null(find(WEIR_DO_TURN, 0));
	done(0, a);
	assert_non_null(find(WEIR_DO_TURN, 1));
	done(1, b);
	assert_true(weir_core_ended(core));
}

static void enough_stops_what_lies_behind(void **state)
{
	struct weir_run run[3];

	(void)state;
	begin(3, MIB, 8 * MIB, 8 * MIB, 100);
	step((struct weir_event){.kind = WEIR_EV_START});
	for (uint32_t slot = 0; slot < 3; slot++) {
		step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = slot});
		run[slot] = started(slot);
	}
	step((struct weir_event){.kind = WEIR_EV_ENOUGH, .slot = 1});
	assert_non_null(find(WEIR_DO_STOP_TASK, 2));
	assert_null(find(WEIR_DO_STOP_TASK, 0));
	done(1, run[1]);
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .slot = 2, .run = run[2], .code = WEIR_E_CANCELLED});
	assert_false(weir_core_ended(core));
	done(0, run[0]);
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_OK);
}

static void the_first_cause_is_told(void **state)
{
	struct weir_run a, b;

	(void)state;
	begin(2, MIB, 8 * MIB, 8 * MIB, 100);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	b = started(1);
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .slot = 0, .run = a, .code = WEIR_E_DATA});
	assert_non_null(find(WEIR_DO_STOP_TASK, 1));
	step((struct weir_event){.kind = WEIR_EV_CANCEL});
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .slot = 1, .run = b, .code = WEIR_E_IO});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_DATA);
}

static void what_a_lane_keeps_stays_granted(void **state)
{
	struct weir_core_stats stats;
	struct weir_run a;

	(void)state;
	begin(1, 4 * MIB, 8 * MIB, 8 * MIB, 2);
	step((struct weir_event){.kind = WEIR_EV_START});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	a = started(0);
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .run = a, .bytes = MIB});
	a = started(0);
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->bytes, 5 * MIB);
	step((struct weir_event){.kind = WEIR_EV_RETURN, .bytes = 2 * MIB});
	weir_core_stats(core, &stats);
	assert_int_equal(stats.granted, 3 * MIB);
	done(0, a);
	assert_true(weir_core_ended(core));
	weir_core_stats(core, &stats);
	assert_int_equal(stats.granted, 0);
}

/* One lane that feeds a pool of two workers, whose output goes to a consumer in order; ready, with split 0 started.
 * What `map_spec` says is added to the pool's. */
static struct weir_run begin_pool(uint64_t splits)
{
	struct weir_stage_spec specs[] = {
		{.kind = WEIR_STAGE_LANES, .slots = 1, .slot_memory = 8 * MIB, .name = "scan"},
		map_spec,
	};
	struct weir_core_options options = {.budget = 64 * MIB,
					    .limit = pool_limit,
					    .stages = specs,
					    .stage_count = 2,
					    .preserve_order = true,
					    .consumer = true,
					    .milli_cpus = 1000,
					    .held_bytes_max = held_max};

	specs[1].kind = WEIR_STAGE_WORKERS;
	specs[1].slots = map_spec.slots ? map_spec.slots : 2;
	specs[1].in_flight_max = map_spec.in_flight_max ? map_spec.in_flight_max : 2;
	specs[1].slot_memory = MIB;
	specs[1].name = "map";
	assert_int_equal(weir_core_new(weir_mem_root(mem), &options, &core, &err), WEIR_OK);
	splits_left = splits;
	step((struct weir_event){.kind = WEIR_EV_START});
	assert_int_equal(find(WEIR_DO_START_WORKER, 0)->generation, 1);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .slot = 0, .generation = 1});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY});
	return started(0);
}

static void output(struct weir_event slot, struct weir_run run, uint64_t number, int64_t bytes)
{
	slot.kind = WEIR_EV_OUTPUT;
	slot.rows = output_rows;
	slot.run = run;
	slot.chunk = number;
	slot.bytes = bytes;
	step(slot);
}

static const struct weir_event lane_0, worker_0 = {.stage = 1, .generation = 1};

static void what_a_dead_worker_made_is_forgotten(void **state)
{
	struct weir_run split = begin_pool(1), batch;
	uint64_t half;

	(void)state;
	output(lane_0, split, 0, MIB);
	assert_non_null(find(WEIR_DO_RESUME, 0));
	batch = started(0);
	done(0, split);
	output(worker_0, batch, 0, MIB);
	half = find(WEIR_DO_OUTPUT_KEPT, 0)->chunk;
	output(worker_0, batch, 0, MIB); /* the same message again */
	assert_int_equal(actions.count, 0);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1, .death = WEIR_DEATH_OUTSIDE});
	assert_int_equal(find(WEIR_DO_FREE, 0)->chunk, half);
	assert_int_equal(find(WEIR_DO_START_WORKER, 0)->generation, 2);
	step((struct weir_event){
		.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 1, .run = batch}); /* from the dead */
	assert_int_equal(actions.count, 0);
	output(worker_0, batch, 1, MIB);
	assert_non_null(find(WEIR_DO_OUTPUT_DROP, 0));
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = 2});
	batch = started(0);
	assert_int_equal(batch.attempt, 2);
	output((struct weir_event){.stage = 1, .generation = 2}, batch, 0, MIB);
	assert_null(find(WEIR_DO_DELIVER, 0)); /* not before the batch is done */
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 2, .run = batch});
	half = find(WEIR_DO_DELIVER, 0)->chunk;
	step((struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = half});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_OK);
}

static void a_batch_may_end_its_worker_three_times(void **state)
{
	struct weir_run split = begin_pool(1);

	(void)state;
	output(lane_0, split, 0, MIB);
	done(0, split);
	for (uint32_t generation = 1; generation <= WEIR_ATTEMPTS_MAX; generation++) {
		step((struct weir_event){
			.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = generation, .death = WEIR_DEATH_OWN});
		if (generation == WEIR_ATTEMPTS_MAX)
			break;
		assert_null(find(WEIR_DO_END, 0));
		step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = generation + 1});
		assert_int_equal(started(0).attempt, generation + 1);
	}
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_WORKER);
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "map"));
}

static void the_lane_pauses_for_a_full_pool(void **state)
{
	struct weir_run split = begin_pool(1);
	uint64_t number = 0;

	(void)state;
	do {
		output(lane_0, split, number++, MIB);
		assert_true(number < 10);
	} while (find(WEIR_DO_RESUME, 0));
	assert_int_equal(number, 4); /* two workers, two batches each */
	assert_int_equal(find(WEIR_DO_OUTPUT_KEPT, 0)->run.task, split.task);
	step((struct weir_event){.kind = WEIR_EV_CANCEL});
	assert_non_null(find(WEIR_DO_STOP_TASK, 0));
	assert_non_null(find(WEIR_DO_KILL_WORKER, 0));
}

static size_t count(enum weir_action_kind kind)
{
	size_t found = 0;

	for (size_t i = 0; i < actions.count; i++)
		found += actions.items[i].kind == kind;
	return found;
}

static void worker_done(struct weir_run batch)
{
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 1, .run = batch});
}

static void neighbours_become_one_task(void **state)
{
	struct weir_stage_stats stats;
	struct weir_run split, batch;
	uint64_t first, second;

	(void)state;
	map_spec.rows_min = 100;
	output_rows = 60;
	split = begin_pool(2);
	output(lane_0, split, 0, MIB);
	first = find(WEIR_DO_OUTPUT_KEPT, 0)->chunk;
	assert_int_equal(count(WEIR_DO_START_TASK), 0);
	output(lane_0, split, 1, MIB);
	second = find(WEIR_DO_OUTPUT_KEPT, 0)->chunk;
	assert_int_equal(find(WEIR_DO_TASK_PART, 0)->chunk, second);
	assert_true(find(WEIR_DO_TASK_PART, 0) < find(WEIR_DO_START_TASK, 0));
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->chunk, first);
	batch = started(0);
	output(lane_0, split, 2, MIB);
	done(0, split); /* the next split may bring more */
	split = started(0);
	worker_done(batch);
	assert_int_equal(count(WEIR_DO_FREE), 2);
	assert_null(find(WEIR_DO_START_TASK, 0));
	weir_core_stage_stats(core, 1, &stats);
	assert_int_equal(stats.rows_in, 120);
	assert_int_equal(stats.tasks_done, 1);
	done(0, split); /* nothing, and no more splits: the rest goes as it is */
	worker_done(started(0));
	assert_true(weir_core_ended(core));
}

static void the_front_goes_with_what_there_is(void **state)
{
	struct weir_run split;

	(void)state;
	map_spec.rows_min = 100;
	output_rows = 60;
	split = begin_pool(2);
	output(lane_0, split, 0, 4 * MIB);
	assert_int_equal(count(WEIR_DO_START_TASK), 0);
	/* More rows would come if there were memory; there is none before this chunk is gone. */
	step((struct weir_event){.kind = WEIR_EV_ASK, .bytes = 60 * MIB});
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->stage, 1);
	assert_int_equal(count(WEIR_DO_TASK_PART), 0);
}

/* Fails the batch in user code as often as it is given out; returns its last run. */
static struct weir_run fail_batch(struct weir_run batch, int times)
{
	for (int i = 0; i < times; i++) {
		if (i > 0)
			batch = started(0);
		step((struct weir_event){
			.kind = WEIR_EV_TASK_FAILED, .stage = 1, .generation = 1, .run = batch, .code = WEIR_E_USER});
	}
	return batch;
}

static void user_errors_are_tried_again_and_left_out(void **state)
{
	struct weir_stage_stats stats;
	struct weir_run split, batch;

	(void)state;
	map_spec.errored_max = map_spec.user_retries = 1;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	fail_batch(started(0), 2);
	assert_int_equal(count(WEIR_DO_FREE), 1);
	weir_core_stage_stats(core, 1, &stats);
	assert_int_equal(stats.tasks_errored, 1);
	output(lane_0, split, 1, MIB);
	batch = fail_batch(started(0), 2); /* one too many */
	assert_int_equal(batch.attempt, 2);
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .run = split, .code = WEIR_E_CANCELLED});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_USER);
	assert_int_equal(find(WEIR_DO_END, 0)->run.task, batch.task);
	assert_int_equal(find(WEIR_DO_END, 0)->run.attempt, 2);
	assert_int_equal(find(WEIR_DO_END, 0)->chunk, 0); /* of split 0 */
}

static void a_generator_is_accepted_by_number(void **state)
{
	static const struct weir_event again = {.stage = 1, .generation = 2};
	struct weir_run split, batch;

	(void)state;
	held_max = 3 * MIB;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	batch = started(0);
	output(worker_0, batch, 0, 2 * MIB);
	assert_null(find(WEIR_DO_DELIVER, 0));
	output(worker_0, batch, 1, 2 * MIB);
	assert_non_null(find(WEIR_DO_DELIVER, 0));
	output(worker_0, batch, 2, 2 * MIB);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1});
	assert_int_equal(count(WEIR_DO_FREE), 1); /* the third, which was held */
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = 2});
	batch = started(0);
	for (uint64_t i = 0; i < 2; i++) {
		output(again, batch, i, 2 * MIB);
		assert_non_null(find(WEIR_DO_OUTPUT_DROP, 0));
	}
	output(again, batch, 2, 2 * MIB);
	assert_non_null(find(WEIR_DO_OUTPUT_KEPT, 0));
}

static void a_generator_pauses_for_a_slow_consumer(void **state)
{
	struct weir_run split, batch;
	uint64_t number = 0, first;

	(void)state;
	held_max = 1;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	batch = started(0);
	output(worker_0, batch, number++, MIB);
	first = find(WEIR_DO_DELIVER, 0)->chunk;
	do {
		output(worker_0, batch, number++, MIB);
		assert_true(number < 20);
	} while (!find(WEIR_DO_PAUSE, 0));
	assert_null(find(WEIR_DO_RESUME, 0));
	output(worker_0, batch, number++, MIB); /* that one was on its way */
	assert_int_equal(count(WEIR_DO_PAUSE), 0);
	step((struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = first});
	assert_null(find(WEIR_DO_RESUME, 0));
	while (!find(WEIR_DO_RESUME, 0)) { /* the consumer has the oldest; it moves */
		const struct weir_action *delivered = find(WEIR_DO_DELIVER, 0);

		assert_non_null(delivered);
		step((struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = delivered->chunk});
	}
	worker_done(batch);
	assert_null(find(WEIR_DO_END, 0));
}

static void a_worker_past_the_limit_is_stopped(void **state)
{
	struct weir_run split, batch;

	(void)state;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	batch = started(0);
	done(0, split);
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 1, .bytes = 70 * MIB});
	assert_int_equal(find(WEIR_DO_KILL_WORKER, 0)->bytes, 70 * MIB);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1});
	assert_int_equal(find(WEIR_DO_START_WORKER, 0)->bytes, MIB); /* not more than there is room for */
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = 2});
	assert_int_equal(started(0).task, batch.task);
	assert_int_equal(started(0).attempt, 2);
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 2, .bytes = 75 * MIB});
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 2});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_LIMIT);
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "map"));
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "75.0 MiB"));
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "64.0 MiB"));
}

/* Between two batches it has little, and the next one will want as much as the last. */
static void what_workers_will_have_again_is_not_given_out(void **state)
{
	struct weir_core_stats stats;
	struct weir_run split;

	(void)state;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	step((struct weir_event){
		.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 1, .bytes = 2 * MIB, .apart = 12 * MIB});
	weir_core_stats(core, &stats);
	step((struct weir_event){.kind = WEIR_EV_ASK,
				 .bytes = stats.budget - stats.granted - stats.resident - stats.workers - 8 * MIB});
	assert_null(find(WEIR_DO_GRANT, 0));
	step((struct weir_event){
		.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 1, .bytes = 2 * MIB, .apart = 4 * MIB});
	assert_non_null(find(WEIR_DO_GRANT, 0));
}

/* Beside others it goes; one that dies and comes back so, alone, stays and is given the batch. */
static void a_worker_with_too_little_memory_to_begin_goes(void **state)
{
	struct weir_run split;

	(void)state;
	map_spec.slots_first = 2;
	split = begin_pool(1);
	step((struct weir_event){
		.kind = WEIR_EV_SLOT_READY, .stage = 1, .slot = 1, .generation = 1, .code = WEIR_E_MEMORY});
	assert_int_equal(find(WEIR_DO_KILL_WORKER, 1)->generation, 1);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .slot = 1, .generation = 1});
	step((struct weir_event){
		.kind = WEIR_EV_SLOT_DIED, .stage = 1, .slot = 0, .generation = 1, .death = WEIR_DEATH_OUTSIDE});
	output(lane_0, split, 0, MIB);
	assert_int_equal(find(WEIR_DO_START_WORKER, 0)->generation, 2);
	step((struct weir_event){
		.kind = WEIR_EV_SLOT_READY, .stage = 1, .slot = 0, .generation = 2, .code = WEIR_E_MEMORY});
	assert_null(find(WEIR_DO_KILL_WORKER, 0));
	assert_int_equal(started(0).attempt, 1);
}

static void ask_for_room(struct weir_event slot, struct weir_run run, int64_t bytes)
{
	slot.kind = WEIR_EV_ASK;
	slot.run = run;
	slot.bytes = bytes;
	step(slot);
}

/* Workers that have more than the budget for good, busy or not: the front goes on all the same, others wait for it. */
static void the_front_has_room_beyond_the_budget(void **state)
{
	const struct weir_event worker_1 = {.stage = 1, .slot = 1, .generation = 1};
	struct weir_run split, first, second;
	uint64_t delivered;

	(void)state;
	pool_limit = 120 * MIB;
	map_spec.in_flight_max = 1;
	map_spec.slots_first = 2;
	split = begin_pool(1);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .slot = 1, .generation = 1});
	output(lane_0, split, 0, MIB);
	first = started(0);
	output(lane_0, split, 1, MIB);
	second = started(1);
	done(0, split);
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 0, .generation = 1, .bytes = 20 * MIB});
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 1, .generation = 1, .bytes = 70 * MIB});
	ask_for_room(worker_1, second, 8 * MIB);
	assert_null(find(WEIR_DO_GRANT, 1));
	ask_for_room(worker_0, first, 8 * MIB);
	assert_int_equal(find(WEIR_DO_GRANT, 0)->bytes, 7 * MIB); /* with what it was allowed before */
	output(worker_0, first, 0, 8 * MIB);
	delivered = find(WEIR_DO_DELIVER, 0)->chunk;
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 1, .run = first});
	assert_non_null(find(WEIR_DO_KILL_WORKER, 0)); /* it has nothing to do and more than there is */
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1});
	ask_for_room(worker_1, second, 8 * MIB); /* not the front yet: the consumer has something to take */
	assert_null(find(WEIR_DO_GRANT, 1));
	step((struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = delivered});
	ask_for_room(worker_1, second, 8 * MIB);
	assert_non_null(find(WEIR_DO_GRANT, 1));
}

/* A worker has more than the run's budget: its next batch begins when what is lent has come back, or in the run's
 * turn. */
static void beyond_the_budget_no_batch_begins_while_some_is_lent(void **state)
{
	struct weir_core_load load;
	struct weir_run split;

	(void)state;
	split = begin_pool(1);
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 1, .bytes = 20 * MIB});
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 16 * MIB, .lent = 64 * MIB});
	output(lane_0, split, 0, MIB);
	assert_null(find(WEIR_DO_START_TASK, 0));
	weir_core_load(core, &load);
	assert_int_equal(load.wants, MIB);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 16 * MIB});
	assert_non_null(find(WEIR_DO_START_TASK, 0));
}

/* Two batches at work, a third that waits. */
static void begin_three(struct weir_run *first, struct weir_run *second)
{
	struct weir_run split;

	pool_limit = 120 * MIB;
	map_spec.in_flight_max = 1;
	map_spec.slots_first = 2;
	split = begin_pool(1);
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .slot = 1, .generation = 1});
	output(lane_0, split, 0, MIB);
	*first = started(0);
	output(lane_0, split, 1, MIB);
	*second = started(1);
	output(lane_0, split, 2, MIB);
	done(0, split);
}

static void nothing_goes_to_disk_for_who_can_wait(void **state)
{
	const struct weir_event worker_1 = {.stage = 1, .slot = 1, .generation = 1};
	struct weir_run first, second;

	(void)state;
	begin_three(&first, &second);
	ask_for_room(worker_1, second, 80 * MIB);
	assert_null(find(WEIR_DO_GRANT, 1));
	assert_null(find(WEIR_DO_SPILL, 0)); /* the first batch moves: memory will come */
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 0, .generation = 1, .bytes = 60 * MIB});
	assert_null(find(WEIR_DO_SPILL, 0)); /* a little too much */
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 0, .generation = 1, .bytes = 70 * MIB});
	assert_non_null(find(WEIR_DO_SPILL, 0));
}

static void results_come_from_disk_in_their_turn(void **state)
{
	const struct weir_event worker_1 = {.stage = 1, .slot = 1, .generation = 1};
	struct weir_run first, second;
	uint64_t spilled = WEIR_NO_CHUNK;

	(void)state;
	begin_three(&first, &second);
	ask_for_room(worker_1, second, 20 * MIB);
	output(worker_1, second, 0, 20 * MIB);
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .slot = 1, .generation = 1, .run = second});
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 0, .generation = 1, .bytes = 70 * MIB});
	for (size_t i = 0; i < actions.count; i++) {
		if (actions.items[i].kind == WEIR_DO_SPILL && actions.items[i].bytes == 20 * MIB)
			spilled = actions.items[i].chunk;
	}
	assert_int_not_equal(spilled, WEIR_NO_CHUNK);
	step((struct weir_event){.kind = WEIR_EV_SPILLED, .chunk = spilled});
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .slot = 0, .generation = 1, .bytes = 2 * MIB});
	assert_null(find(WEIR_DO_RESTORE, 0)); /* there is room, but the first has to go before it */
	output(worker_0, first, 0, MIB);
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 1, .run = first});
	assert_non_null(find(WEIR_DO_DELIVER, 0));
	assert_int_equal(find(WEIR_DO_RESTORE, 0)->chunk, spilled);
}

/* A worker that needs most of the budget leaves lanes less to begin with; they begin all the same. */
static void lanes_begin_with_what_workers_leave(void **state)
{
	struct weir_run split;

	(void)state;
	split = begin_pool(2);
	output(lane_0, split, 0, MIB);
	started(0);
	step((struct weir_event){.kind = WEIR_EV_MEASURED, .stage = 1, .generation = 1, .bytes = 52 * MIB});
	done(0, split); /* the batch is the front */
	assert_int_equal(started(0).task, 1);
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->stage, 0);
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->bytes, 4 * MIB); /* 8 MiB is what they have beside small ones */
}

/* What lanes have is in its way, too: they give up, and begin again when it is done. */
static void who_has_all_memory_has_that_of_lanes(void **state)
{
	struct weir_run first, second, batch;

	(void)state;
	first = begin_pool(2);
	output(lane_0, first, 0, MIB);
	batch = started(0);
	done(0, first);
	second = started(0);
	step((struct weir_event){
		.kind = WEIR_EV_TASK_FAILED, .stage = 1, .generation = 1, .run = batch, .code = WEIR_E_MEMORY});
	assert_int_equal(find(WEIR_DO_GIVE_UP, 0)->run.task, second.task);
	assert_int_equal(count(WEIR_DO_START_TASK) + count(WEIR_DO_KILL_WORKER), 0);
	step((struct weir_event){.kind = WEIR_EV_TASK_FAILED, .run = second, .code = WEIR_E_GIVE_UP});
	assert_int_equal(count(WEIR_DO_START_TASK), 0);
	assert_int_equal(count(WEIR_DO_KILL_WORKER), 1); /* for a fresh one */
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = 2});
	assert_int_equal(count(WEIR_DO_START_TASK), 1);
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->stage, 1);
	batch = started(0);
	step((struct weir_event){.kind = WEIR_EV_TASK_DONE, .stage = 1, .generation = 2, .run = batch});
	assert_int_equal(find(WEIR_DO_START_TASK, 0)->stage, 0);
	assert_int_equal(started(0).task, second.task);
}

/* Past the limit it is made once more with all memory, then the run ends with the figures. */
static void room_beyond_the_limit_is_an_error(void **state)
{
	struct weir_event worker = worker_0;
	struct weir_run split, batch;

	(void)state;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	batch = started(0);
	done(0, split);
	ask_for_room(worker, batch, 90 * MIB);
	assert_non_null(find(WEIR_DO_KILL_WORKER, 0));
	ask_for_room(worker, batch, 90 * MIB); /* it was on its way already */
	assert_int_equal(actions.count, 0);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 1});
	step((struct weir_event){.kind = WEIR_EV_SLOT_READY, .stage = 1, .generation = 2});
	worker.generation = 2;
	batch = started(0);
	assert_int_equal(batch.attempt, 2);
	ask_for_room(worker, batch, 90 * MIB);
	step((struct weir_event){.kind = WEIR_EV_SLOT_DIED, .stage = 1, .generation = 2});
	assert_int_equal(find(WEIR_DO_END, 0)->code, WEIR_E_LIMIT);
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "89.0 MiB"));
	assert_non_null(strstr(find(WEIR_DO_END, 0)->reason, "64.0 MiB"));
}

static void a_pool_grows_by_what_waits(void **state)
{
	struct weir_run split;

	(void)state;
	map_spec.slots = 8;
	map_spec.in_flight_max = 1;
	split = begin_pool(1);
	output(lane_0, split, 0, MIB);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 4 * MIB}); /* no room for more workers */
	for (uint64_t i = 1; i < 4; i++)
		output(lane_0, split, i, 0);
	assert_int_equal(count(WEIR_DO_START_WORKER), 0);
	step((struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = 64 * MIB});
	assert_int_equal(count(WEIR_DO_START_WORKER), 3);
}

static void logical_resources_bound_the_busy(void **state)
{
	struct weir_run split, batch;

	(void)state;
	map_spec.milli_cpus = 600; /* of 1000: one at a time, but for the front */
	map_spec.slots_first = 2;
	map_spec.in_flight_max = 1;
	split = begin_pool(1);
	assert_null(find(WEIR_DO_START_WORKER, 1)); /* the second could never be busy beside the first */
	output(lane_0, split, 0, MIB);
	batch = started(0);
	output(lane_0, split, 1, MIB);
	assert_int_equal(count(WEIR_DO_START_TASK) + count(WEIR_DO_START_WORKER), 0);
	worker_done(batch);
	assert_int_equal(count(WEIR_DO_START_TASK), 1);
}

static void too_small_a_budget_for_workers_is_refused(void **state)
{
	struct weir_stage_spec specs[] = {
		{.kind = WEIR_STAGE_LANES, .slots = 1, .name = "scan"},
		{.kind = WEIR_STAGE_WORKERS, .slots = 2, .in_flight_max = 2, .slot_memory = 48 * MIB, .name = "map"},
	};
	struct weir_core_options options = {.budget = 40 * MIB, .limit = 40 * MIB, .stages = specs, .stage_count = 2};

	(void)state;
	assert_int_equal(weir_core_new(weir_mem_root(mem), &options, &core, &err), WEIR_E_LIMIT);
	assert_non_null(strstr(err.message, "48.0 MiB"));
	options.stages = specs + 1;
	options.stage_count = 1;
	assert_int_equal(weir_core_new(weir_mem_root(mem), &options, &core, &err), WEIR_E_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_empty_input_ends_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(splits_go_to_lanes_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_gets_what_the_youngest_has, setup, teardown),
		cmocka_unit_test_setup_teardown(alone_it_may_pass_the_budget_but_not_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(beyond_the_budget_it_waits_for_what_is_lent, setup, teardown),
		cmocka_unit_test_setup_teardown(while_it_is_another_runs_turn_nothing_starts, setup, teardown),
		cmocka_unit_test_setup_teardown(while_much_is_free_a_task_gets_more_than_it_asks_for, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_measured_beside_is_not_given_out, setup, teardown),
		cmocka_unit_test_setup_teardown(turns_come_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(enough_stops_what_lies_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_cause_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_lane_keeps_stays_granted, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_dead_worker_made_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_batch_may_end_its_worker_three_times, setup, teardown),
		cmocka_unit_test_setup_teardown(the_lane_pauses_for_a_full_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_become_one_task, setup, teardown),
		cmocka_unit_test_setup_teardown(the_front_goes_with_what_there_is, setup, teardown),
		cmocka_unit_test_setup_teardown(user_errors_are_tried_again_and_left_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_generator_is_accepted_by_number, setup, teardown),
		cmocka_unit_test_setup_teardown(a_generator_pauses_for_a_slow_consumer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_worker_past_the_limit_is_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(lanes_begin_with_what_workers_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(who_has_all_memory_has_that_of_lanes, setup, teardown),
		cmocka_unit_test_setup_teardown(the_front_has_room_beyond_the_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(beyond_the_budget_no_batch_begins_while_some_is_lent, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_goes_to_disk_for_who_can_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(results_come_from_disk_in_their_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(room_beyond_the_limit_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pool_grows_by_what_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(logical_resources_bound_the_busy, setup, teardown),
		cmocka_unit_test_setup_teardown(what_workers_will_have_again_is_not_given_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_worker_with_too_little_memory_to_begin_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(too_small_a_budget_for_workers_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
