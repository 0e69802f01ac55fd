/* The core by hand, one situation a test: what must be answered to what. The simulation covers the rest. */
#include "base/support.h"
#include "exec/exec.h"

#define MIB ((int64_t)1 << 20)

static struct weir_mem *mem;
static struct weir_core *core;
static struct weir_actions actions;
static struct weir_error err;
static uint64_t splits_left;
static int64_t split_need;

static int setup(void **state)
{
	(void)state;
	split_need = 0;
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

/* Steps, and answers CUT_SPLIT as a backend must: at once. All actions of both are left in `actions`. */
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

/* One lane that feeds a pool of two workers, whose output goes to a consumer in order; ready, with split 0 started. */
static struct weir_run begin_pool(uint64_t splits)
{
	struct weir_stage_spec specs[] = {
		{.kind = WEIR_STAGE_LANES, .slots = 1, .slot_memory = 8 * MIB, .name = "scan"},
		{.kind = WEIR_STAGE_WORKERS, .slots = 2, .in_flight_max = 2, .slot_memory = MIB, .name = "map"},
	};
	struct weir_core_options options = {.budget = 64 * MIB,
					    .limit = 64 * MIB,
					    .stages = specs,
					    .stage_count = 2,
					    .preserve_order = true,
					    .consumer = true};

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
		cmocka_unit_test_setup_teardown(turns_come_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(enough_stops_what_lies_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_cause_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_lane_keeps_stays_granted, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_dead_worker_made_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_batch_may_end_its_worker_three_times, setup, teardown),
		cmocka_unit_test_setup_teardown(the_lane_pauses_for_a_full_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(too_small_a_budget_for_workers_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
