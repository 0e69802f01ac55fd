/* Memory among runs: who has the turn, whom it waits for, and whom it does not since nothing will be heard of it. Cores
 * are real; lanes, workers and threads are what the tests say. */
#include "base/clock.h"
#include "base/support.h"
#include "backend/local/local_impl.h"

#define MIB ((int64_t)1 << 20)
#define LIMIT (64 * MIB)
#define GRANT (4 * MIB)

enum { RUNS = 3, SECOND = 1000000000 };

static struct weir_session session;
static struct weir_local_run runs[RUNS];
static struct weir_error err;

static void run_begin(struct weir_local_run *run, uint32_t lanes)
{
	struct weir_stage_spec spec = {.kind = WEIR_STAGE_LANES, .slots = lanes, .slot_memory = GRANT, .name = "scan"};
	struct weir_core_options options = {.budget = LIMIT / RUNS, .limit = LIMIT, .stages = &spec, .stage_count = 1};

	*run = (struct weir_local_run){.session = &session,
				       .account = weir_mem_root(session.mem),
				       .budget = LIMIT,
				       .share = LIMIT / RUNS,
				       .overdraft = LIMIT,
				       .cleared = true};
	pthread_cond_init(&run->over, NULL);
	assert_int_equal(weir_core_new(weir_mem_root(session.mem), &options, &run->core, &err), WEIR_OK);
	assert_int_equal(weir_local_share_begin(run, &err), WEIR_OK);
}

static int setup(void **state)
{
	(void)state;
	session = (struct weir_session){.memory_limit = LIMIT};
	pthread_mutex_init(&session.share_lock, NULL);
	assert_int_equal(weir_mem_new(0, &session.mem, &err), WEIR_OK);
	for (uint32_t i = 0; i < RUNS; i++)
		run_begin(&runs[i], 2);
	atomic_store(&session.runs_listed, RUNS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RUNS; i++) {
		weir_local_share_end(&runs[i]);
		weir_list_release(&runs[i].actions, weir_mem_root(session.mem));
		weir_list_release(&runs[i].events, weir_mem_root(session.mem));
		weir_core_free(runs[i].core);
		pthread_cond_destroy(&runs[i].over);
	}
	assert_int_equal(session.sharing.count, 0);
	assert_null(session.turn);
	weir_list_release(&session.sharing, weir_mem_root(session.mem));
	weir_mem_free(session.mem);
	pthread_mutex_destroy(&session.share_lock);
	return 0;
}

static void step(struct weir_local_run *run, struct weir_event event)
{
	run->actions.count = 0;
	assert_int_equal(weir_core_step(run->core, &event, 0, &run->actions, &err), WEIR_OK);
}

/* The first split is a lane's; the next is being cut, and its answer is still to come. */
static struct weir_run one_split(struct weir_local_run *run)
{
	struct weir_run task = {0};

	step(run, (struct weir_event){.kind = WEIR_EV_START});
	/* It is not alone: beyond its share it waits. */
	step(run, (struct weir_event){.kind = WEIR_EV_BUDGET, .bytes = run->share, .lent = LIMIT});
	step(run, (struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 0});
	step(run, (struct weir_event){.kind = WEIR_EV_SPLIT_CUT});
	for (size_t i = 0; i < run->actions.count; i++)
		if (run->actions.items[i].kind == WEIR_DO_START_TASK)
			task = run->actions.items[i].run;
	assert_int_equal(task.attempt, 1);
	step(run, (struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	assert_int_equal(run->actions.count, 1);
	assert_int_equal(run->actions.items[0].kind, WEIR_DO_CUT_SPLIT);
	return task;
}

/* Its oldest waits for more than its share. */
static void wants(struct weir_local_run *run, int64_t bytes)
{
	one_split(run);
	step(run, (struct weir_event){.kind = WEIR_EV_SPLITS_END});
	step(run, (struct weir_event){.kind = WEIR_EV_ASK, .slot = 0, .bytes = bytes});
}

/* Only the cut is left of it: a lane has taken its memory along. */
static void only_cuts(struct weir_local_run *run)
{
	struct weir_run task = one_split(run);

	step(run, (struct weir_event){.kind = WEIR_EV_TASK_DONE, .slot = 0, .run = task, .bytes = GRANT / 2});
}

static struct local_share share_of(struct weir_local_run *run)
{
	struct local_share share;

	weir_local_share(run, &share);
	return share;
}

/* The first one wants, and all have heard of it. */
static struct local_share turn_of_first(void)
{
	struct local_share share;

	wants(&runs[0], LIMIT / 2);
	share = share_of(&runs[0]);
	assert_true(share.has_turn && !share.waits && !share.parked);
	for (uint32_t i = 1; i < RUNS; i++) {
		struct local_share other = share_of(&runs[i]);

		assert_true(other.waits && !other.has_turn);
	}
	return share_of(&runs[0]);
}

static void test_nobody_wants(void **state)
{
	(void)state;
	only_cuts(&runs[1]);
	for (uint32_t i = 0; i < RUNS; i++) {
		struct local_share share = share_of(&runs[i]);

		assert_true(share.waits && !share.has_turn && !share.parked);
		assert_int_equal(share.budget, LIMIT / RUNS);
	}
}

static void test_who_does_nothing_is_not_waited_for(void **state)
{
	struct local_share share = turn_of_first();

	(void)state;
	assert_int_equal(share.lent, 0);
	assert_int_equal(share.apart, 0);
}

static void test_who_has_not_heard_of_the_turn_is_waited_for(void **state)
{
	struct local_share share;

	(void)state;
	wants(&runs[0], LIMIT / 2);
	share = share_of(&runs[0]);
	assert_true(share.has_turn && share.lent > 0);
	share_of(&runs[1]);
	share_of(&runs[2]);
	assert_int_equal(share_of(&runs[0]).lent, 0);
}

static void test_a_lane_at_work_is_waited_for(void **state)
{
	struct weir_run task = one_split(&runs[1]);

	(void)state;
	step(&runs[1], (struct weir_event){.kind = WEIR_EV_SPLITS_END});
	assert_true(turn_of_first().lent >= GRANT);
	step(&runs[1], (struct weir_event){.kind = WEIR_EV_TASK_DONE, .slot = 0, .run = task});
	share_of(&runs[1]);
	assert_int_equal(share_of(&runs[0]).lent, 0);
}

/* The circle that has to be broken: the second run's next rows are those of the first, which has the turn. */
static void test_who_waits_for_rows_of_another_is_not_waited_for(void **state)
{
	struct local_here place;

	(void)state;
	only_cuts(&runs[1]);
	assert_true(turn_of_first().lent >= GRANT / 2); /* what it cuts may come at any time */
	weir_local_here_begin(&place, &runs[1]);
	place.cuts = true;
	weir_local_wait_begin();
	assert_int_equal(share_of(&runs[0]).lent, 0);
	assert_int_equal(share_of(&runs[0]).apart, GRANT / 2);
	weir_local_wait_end();
	assert_true(share_of(&runs[0]).lent > 0);
	weir_local_here_end(&place);
}

/* The third takes rows of the second, whose own come from the first: one thread, which stands in both. */
static void test_one_thread_may_wait_for_several(void **state)
{
	struct local_here outer, inner;

	(void)state;
	only_cuts(&runs[1]);
	only_cuts(&runs[2]);
	turn_of_first();
	weir_local_here_begin(&outer, &runs[2]);
	weir_local_here_begin(&inner, &runs[1]);
	outer.cuts = inner.cuts = true;
	weir_local_wait_begin();
	assert_int_equal(share_of(&runs[0]).lent, 0);
	assert_int_equal(share_of(&runs[0]).apart, GRANT);
	weir_local_wait_end();
	weir_local_here_end(&inner);
	weir_local_wait_begin();
	assert_true(share_of(&runs[0]).lent > 0);
	assert_int_equal(share_of(&runs[0]).apart, GRANT / 2);
	weir_local_wait_end();
	weir_local_here_end(&outer);
}

/* Whoever makes a stream may wait without saying so. */
static void test_a_stream_that_is_silent_is_not_waited_for(void **state)
{
	struct local_here place;
	struct weir_run task;

	(void)state;
	only_cuts(&runs[1]);
	turn_of_first();
	atomic_store(&runs[1].cut_since_ns, weir_clock_ns());
	assert_true(share_of(&runs[0]).lent > 0);
	atomic_store(&runs[1].cut_since_ns, weir_clock_ns() - 2ull * SECOND);
	assert_int_equal(share_of(&runs[0]).lent, 0);
	/* It is one thread, not two: a lane at work beside it counts. */
	step(&runs[1], (struct weir_event){.kind = WEIR_EV_SPLIT_CUT});
	task = runs[1].actions.items[0].run;
	step(&runs[1], (struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = 1});
	share_of(&runs[1]);
	weir_local_here_begin(&place, &runs[1]);
	place.cuts = true;
	weir_local_wait_begin();
	assert_int_equal(task.attempt, 1);
	assert_true(share_of(&runs[0]).lent > 0);
	weir_local_wait_end();
	weir_local_here_end(&place);
}

static void test_turns_go_by_age(void **state)
{
	(void)state;
	wants(&runs[1], LIMIT / 2);
	assert_true(share_of(&runs[1]).has_turn);
	wants(&runs[0], LIMIT / 2);
	wants(&runs[2], LIMIT / 2);
	assert_true(share_of(&runs[2]).waits);
	assert_true(share_of(&runs[0]).waits);
	weir_local_share_end(&runs[1]);
	assert_true(share_of(&runs[0]).waits); /* the other has waited longer, and is the next to look */
	assert_true(share_of(&runs[2]).has_turn);
}

/* All loops wait for rows, and none of them lets go of its batches. */
static void test_what_the_program_keeps_while_it_waits_is_apart(void **state)
{
	struct weir_mem *program;
	void *batch;

	(void)state;
	assert_int_equal(weir_mem_new(0, &program, &err), WEIR_OK);
	batch = weir_alloc(weir_mem_root(program), 8 * MIB, &err);
	assert_int_equal(turn_of_first().apart, 0);
	weir_session_program(&session, program);
	assert_in_range(share_of(&runs[0]).apart, 8 * MIB, 9 * MIB);
	assert_int_equal(share_of(&runs[0]).lent, 0);
	runs[0].program_before = 8 * MIB; /* that was there before */
	assert_in_range(share_of(&runs[0]).apart, 0, MIB);
	weir_session_program(&session, NULL);
	weir_free(weir_mem_root(program), batch, 8 * MIB);
	weir_mem_free(program);
}

/* The executor has forgotten it, and its memory is still there: the budget goes without, and the oldest waits for
 * it. */
static void test_a_worker_that_was_told_to_go_counts(void **state)
{
	struct local_worker worker = {.measured = 8 * MIB, .leaves = true};
	struct weir_local_run *run = &runs[0];

	(void)state;
	atomic_store(&session.runs_listed, 1);
	run->stages[0] = (struct stage){.workers = &worker, .slots = 1};
	run->stage_count = 1;
	run->workers_measured = worker.measured;
	atomic_store(&session.workers_measured, worker.measured);
	weir_local_tell_budget(run);
	assert_int_equal(run->share_told, run->share - worker.measured);
	assert_int_equal(run->lent_told, worker.measured);
	worker = (struct local_worker){0};
	weir_local_tell_budget(run);
	assert_int_equal(run->share_told, run->share);
	assert_int_equal(run->lent_told, 0);
	run->stage_count = 0;
	run->workers_measured = 0;
	atomic_store(&session.workers_measured, 0);
}

static void test_what_workers_are_made_of_counts_once(void **state)
{
	struct weir_local_run *run = &runs[0];

	(void)state;
	atomic_store(&session.runs_listed, 1);
	atomic_store(&session.launcher_bytes, 16 * MIB);
	atomic_store(&session.launcher_alone, 6 * MIB);
	weir_local_tell_budget(run); /* nobody shares it */
	assert_int_equal(run->share_told, run->share - 16 * MIB);
	assert_int_equal(run->apart_told, 16 * MIB);
	atomic_store(&session.workers_measured, 30 * MIB); /* workers bring along what they do not share */
	weir_local_tell_budget(run);
	assert_int_equal(run->share_told, run->share);
	assert_int_equal(run->apart_told, 0);
	assert_int_equal(weir_local_launcher_part(&session, 10 * MIB), 2 * MIB);
	assert_int_equal(weir_local_launcher_part(&session, 30 * MIB), 6 * MIB);
	atomic_store(&session.workers_measured, 0);
	assert_int_equal(weir_local_launcher_part(&session, 0), 0);
	atomic_store(&session.workers_busy, 1); /* one is being made of it */
	weir_local_tell_budget(run);
	assert_int_equal(run->share_told, run->share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_wants, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_does_nothing_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_has_not_heard_of_the_turn_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_lane_at_work_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_waits_for_rows_of_another_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_thread_may_wait_for_several, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_stream_that_is_silent_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns_go_by_age, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_the_program_keeps_while_it_waits_is_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_worker_that_was_told_to_go_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_workers_are_made_of_counts_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
