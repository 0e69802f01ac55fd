/* One thread, one instance of the fragment. It waits for a split, runs it from source to sink, reports, waits again. Its
 * operators keep their state from split to split; a lane that has to wait for work, or that gives up its split, frees all of
 * it, so that an idle lane holds no memory.
 *
 * Operators reach the executor through the lane's context and its account's `ask`: each posts an event under the run's lock
 * and sleeps until the core has answered.
 */
#include "backend/local/local_impl.h"

#include <string.h>

static int answer_to_waiting(struct lane *lane, struct weir_error *err)
{
	if (lane->give_up)
		return weir_error_set(err, WEIR_E_GIVE_UP,
				      "the split is given up for an older one that needs the memory");
	return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
}

static bool unwanted(const struct lane *lane)
{
	return lane->give_up || lane->stop || atomic_load_explicit(&lane->cancelled, memory_order_relaxed);
}

/* An allocation would pass the grant. */
static int ask(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	struct lane *lane = asked;
	struct weir_local_run *run = lane->run;
	int64_t grant = atomic_load_explicit(&account->grant, memory_order_relaxed);
	int64_t short_of = atomic_load_explicit(&account->used, memory_order_relaxed) + more - grant;
	int code = WEIR_OK;

	weir_local_return_free(run);
	pthread_mutex_lock(&run->lock);
	if (!unwanted(lane)) {
		lane->has_grant = false;
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_ASK, .slot = lane->number, .bytes = short_of});
		while (!lane->has_grant && !unwanted(lane))
			pthread_cond_wait(&lane->wake, &run->lock);
	} else {
		lane->has_grant = false;
	}
	if (lane->has_grant) {
		atomic_store_explicit(&account->grant, grant + lane->grant_more, memory_order_relaxed);
		lane->grant_more = 0;
	} else {
		code = answer_to_waiting(lane, err);
		lane->refused = true;
	}
	pthread_mutex_unlock(&run->lock);
	return code;
}

static int wait_for_turn(struct weir_lane_context *context, struct weir_error *err)
{
	struct lane *lane = context->backend;
	struct weir_local_run *run = lane->run;
	int code = WEIR_OK;

	pthread_mutex_lock(&run->lock);
	if (!lane->has_turn && !unwanted(lane)) {
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_WAIT_TURN, .slot = lane->number});
		while (!lane->has_turn && !unwanted(lane))
			pthread_cond_wait(&lane->wake, &run->lock);
	}
	if (!lane->has_turn)
		code = answer_to_waiting(lane, err);
	pthread_mutex_unlock(&run->lock);
	return code;
}

/* In turn, what the split is made of is certain: whoever is told that it is its turn may let rows go. */
static int wait_turn(struct weir_lane_context *context, struct weir_error *err)
{
	struct lane *lane = context->backend;
	int code = wait_for_turn(context, err);

	if (!code && !lane->confirmed && weir_chain_needs_confirm(lane->chain)) {
		code = weir_chain_confirm(lane->chain, NULL, err);
		lane->confirmed = !code;
	}
	return code;
}

static bool is_turn(struct weir_lane_context *context)
{
	struct lane *lane = context->backend;
	struct weir_local_run *run = lane->run;
	struct weir_error err = {0};
	bool turn = true;

	pthread_mutex_lock(&run->lock);
	for (uint64_t task = run->first_task; task < lane->task.task && turn; task++)
		turn = run->tasks.items[task - run->first_task].done;
	pthread_mutex_unlock(&run->lock);
	/* A split that turns out to be read from the wrong place never says that it is its turn: it ends in wait_turn. */
	if (turn && !lane->confirmed && weir_chain_needs_confirm(lane->chain))
		turn = lane->confirmed = weir_chain_confirm(lane->chain, NULL, &err) == WEIR_OK;
	return turn;
}

static void enough(struct weir_lane_context *context)
{
	struct lane *lane = context->backend;

	pthread_mutex_lock(&lane->run->lock);
	weir_local_post(lane->run,
			(struct weir_event){.kind = WEIR_EV_ENOUGH, .slot = lane->number, .run = lane->task});
	pthread_mutex_unlock(&lane->run->lock);
}

static void release_operators(struct lane *lane)
{
	const struct weir_fragment *fragment = lane->run->fragment;

	if (lane->chain) {
		memcpy(lane->ops_before, lane->ops, sizeof(lane->ops));
		weir_chain_free(lane->chain);
	}
	if (lane->sink_lane)
		fragment->sink_ops->lane_free(lane->sink_lane);
	lane->chain = NULL;
	lane->sink_lane = NULL;
	lane->sink_open = false;
	weir_account_spares_free(&lane->account);
}

static int prepare(struct lane *lane, int64_t grant, struct weir_error *err)
{
	const struct weir_fragment *fragment = lane->run->fragment;
	int code = WEIR_OK;

	weir_local_return_free(lane->run);
	/* What the operators keep from the last split must fit the new grant, or they begin anew. */
	if (atomic_load_explicit(&lane->account.used, memory_order_relaxed) > grant)
		release_operators(lane);
	atomic_store_explicit(&lane->account.grant, grant, memory_order_relaxed);
	if (!lane->chain)
		code = weir_chain_new(fragment, &lane->context, &lane->chain, err);
	if (!code && !lane->sink_lane)
		code = fragment->sink_ops->lane_new(fragment->sink, &lane->context, &lane->sink_lane, err);
	return code;
}

static int run_split(struct lane *lane, const struct local_task *task, struct weir_error *err)
{
	const struct weir_sink_ops *sink = lane->run->fragment->sink_ops;
	struct weir_vector vector;
	int code;

	lane->task_rows_out = 0;
	lane->confirmed = false;
	code = weir_chain_open(lane->chain, &task->info, task->split, err);
	if (!code) {
		code = sink->split_begin(lane->sink_lane, &task->info, err);
		lane->sink_open = !code;
	}
	while (!code) {
		code = weir_chain_next(lane->chain, &vector, err);
		if (code || vector.row_count == 0)
			break;
		code = sink->push(lane->sink_lane, &vector, err);
		lane->task_rows_out += vector.selection.count;
		atomic_fetch_add_explicit(&lane->rows_out_live, vector.selection.count, memory_order_relaxed);
	}
	/* What a guess made of the split is nothing before the guess is known to be right; that includes its errors. */
	if (!code && weir_chain_needs_confirm(lane->chain)) {
		lane->confirmed = false;
		code = wait_turn(&lane->context, err);
	}
	if (!code)
		code = sink->split_end(lane->sink_lane, err);
	if (!code)
		lane->sink_open = false;
	else
		weir_error_at_operator(err, sink->name);
	return code;
}

/* The split failed. In turn it is known whether it was read from the right place, and how many lines are before it. */
static int judge_failure(struct lane *lane, int code, struct weir_error *err)
{
	struct weir_error judgement = {0};
	int verdict;

	/* The run ends over what this split asked for: every earlier one has ended, or nobody will know the line. */
	if (code == WEIR_E_CANCELLED && lane->refused && lane->chain && err->line_in_range) {
		if (weir_chain_confirm(lane->chain, err, &judgement))
			err->has_line = 0;
		return code;
	}
	if (code == WEIR_E_GIVE_UP || code == WEIR_E_CANCELLED || code == WEIR_E_AGAIN || !lane->chain)
		return code;
	/* A misfit may be met long after the source gave the vector, when somebody decodes a column of it. */
	if (code != WEIR_E_MISFIT && !weir_chain_needs_confirm(lane->chain))
		return code;
	verdict = wait_for_turn(&lane->context, &judgement);
	if (!verdict)
		verdict = weir_chain_confirm(lane->chain, err, &judgement);
	if (verdict)
		*err = judgement;
	return verdict ? verdict : code;
}

static void abandon_split(struct lane *lane)
{
	if (lane->chain)
		weir_chain_abort(lane->chain);
	if (lane->sink_open)
		lane->run->fragment->sink_ops->split_abort(lane->sink_lane);
	lane->sink_open = false;
}

static void report(struct lane *lane, int code, const struct weir_error *err)
{
	struct weir_local_run *run = lane->run;
	struct weir_event event = {.slot = lane->number, .run = lane->task, .code = code};

	if (code) {
		event.kind = WEIR_EV_TASK_FAILED;
		if (code != WEIR_E_GIVE_UP && code != WEIR_E_CANCELLED && !run->error.code)
			run->error = *err;
		if (code == WEIR_E_CANCELLED && lane->refused &&
		    (!run->refused.code || lane->task.task < run->refused_task)) {
			run->refused = *err;
			run->refused_task = lane->task.task;
		}
	} else {
		struct local_task *task = &run->tasks.items[lane->task.task - run->first_task];

		event.kind = WEIR_EV_TASK_DONE;
		event.rows = (int64_t)lane->task_rows_out;
		task->done = true;
		run->splits_done++;
		run->rows_out += lane->task_rows_out;
		run->bytes_est_done += task->info.bytes_est;
		lane->op_count = weir_chain_counts(lane->chain, lane->ops, sizeof(lane->ops) / sizeof(*lane->ops));
		for (uint32_t i = 0; i < lane->op_count; i++) {
			lane->ops[i].rows_out += lane->ops_before[i].rows_out;
			lane->ops[i].vectors += lane->ops_before[i].vectors;
			lane->ops[i].time_ns += lane->ops_before[i].time_ns;
		}
	}
	lane->has_turn = lane->give_up = false;
	weir_local_post(run, event);
}

/* With the lock held; gives it up while the split runs. */
static void run_task(struct lane *lane)
{
	struct weir_local_run *run = lane->run;
	/* A copy: the list may move while we run. */
	struct local_task task = run->tasks.items[lane->task.task - run->first_task];
	struct weir_error err = {0};
	int code = WEIR_OK;

	lane->refused = false;
	pthread_mutex_unlock(&run->lock);
	do {
		if (code == WEIR_E_AGAIN) {
			abandon_split(lane);
			release_operators(lane);
			weir_error_clear(&err);
		}
		code = prepare(lane, lane->task_grant, &err);
		if (!code)
			code = judge_failure(lane, run_split(lane, &task, &err), &err);
	} while (code == WEIR_E_AGAIN);
	if (code) {
		abandon_split(lane);
		release_operators(lane);
		/* Whoever the memory was given up for works from other arenas of malloc. */
		weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
	}
	pthread_mutex_lock(&run->lock);
	report(lane, code, &err);
}

void *weir_lane_main(void *argument)
{
	struct lane *lane = argument;
	struct weir_local_run *run = lane->run;

	weir_log_use(weir_session_log(run->session));
	weir_account_init(&lane->account, run->account, "lane");
	lane->account.ask = ask;
	lane->account.asked = lane;
	weir_account_spares_keep(&lane->account);
	lane->context = (struct weir_lane_context){
		.account = &lane->account,
		.io = run->session->io,
		.lane = lane->number,
		.cancelled = &lane->cancelled,
		.wait_turn = wait_turn,
		.is_turn = is_turn,
		.enough = enough,
		.backend = lane,
	};
	pthread_mutex_lock(&run->lock);
	while (!lane->stop) {
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_SLOT_READY, .slot = lane->number});
		if (!lane->has_task && !lane->stop && (lane->chain || lane->sink_lane)) {
			pthread_mutex_unlock(&run->lock);
			release_operators(lane);
			pthread_mutex_lock(&run->lock);
		}
		while (!lane->has_task && !lane->stop)
			pthread_cond_wait(&lane->wake, &run->lock);
		if (!lane->has_task)
			break;
		lane->has_task = false;
		run_task(lane);
	}
	pthread_mutex_unlock(&run->lock);
	release_operators(lane);
	weir_account_release(&lane->account);
	pthread_mutex_lock(&run->lock);
	run->lanes_running--;
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}
