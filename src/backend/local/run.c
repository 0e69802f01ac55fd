/* A run in this process: the executor under one lock, lanes as threads, and the caller's own thread, which waits, measures
 * memory ten times a second and looks whether somebody asked to cancel.
 *
 * Whoever has an event gives it to the core and performs the actions at once. Performing may cause further events (a split
 * was cut); they queue up and are given in order, never recursively.
 */
#include "base/clock.h"
#include "base/log.h"
#include "backend/local/local_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MEASURE_MS = 100 };

/* Every lane ends, also one whose thread has not come round to reporting itself yet. */
static void end_run(struct weir_local_run *run, int code)
{
	run->ended = true;
	run->end_code = code;
	for (uint32_t i = 0; i < run->lane_count; i++) {
		run->lanes[i].stop = true;
		pthread_cond_signal(&run->lanes[i].wake);
	}
	pthread_cond_broadcast(&run->over);
}

/* The run cannot go on: nobody could even queue an event. */
static void give_up_run(struct weir_local_run *run, const struct weir_error *err)
{
	if (!run->error.code)
		run->error = *err;
	for (uint32_t i = 0; i < run->lane_count; i++)
		atomic_store_explicit(&run->lanes[i].cancelled, true, memory_order_relaxed);
	end_run(run, err->code);
}

/* An event that is lost would never be answered, so the run ends with it. */
static void queue_event(struct weir_local_run *run, struct weir_event event)
{
	struct weir_error err = {0};

	if (weir_list_push(&run->events, run->account, &err, event))
		give_up_run(run, &err);
}

static void cut_split(struct weir_local_run *run)
{
	const struct weir_fragment *fragment = run->fragment;
	struct local_task task = {0};
	struct weir_error err = {0};
	bool done = false;
	int code = run->splits_end
			   ? WEIR_OK
			   : fragment->source_ops->split_next(fragment->source, &task.info, &task.split, &done, &err);

	if (!code && !done && !run->splits_end) {
		WEIR_ASSERT(task.info.number == run->first_task + run->tasks.count);
		code = weir_list_push(&run->tasks, run->account, &err, task);
		if (!code) {
			run->bytes_est_known += task.info.bytes_est;
			queue_event(run, (struct weir_event){.kind = WEIR_EV_SPLIT_CUT,
							     .bytes = (int64_t)task.info.memory_est});
			return;
		}
		fragment->source_ops->split_free(fragment->source, task.split);
	}
	run->splits_end = true;
	if (code) { /* before the end of splits, which might be the end of everything */
		weir_error_at_operator(&err, fragment->source_ops->name);
		if (!run->error.code)
			run->error = err;
		queue_event(run, (struct weir_event){.kind = WEIR_EV_CANCEL, .code = code});
	}
	queue_event(run, (struct weir_event){.kind = WEIR_EV_SPLITS_END});
}

/* Frees splits that are done, from the front: what is left begins with the oldest unfinished one. */
static void drop_done_tasks(struct weir_local_run *run)
{
	size_t n = 0;

	while (n < run->tasks.count && run->tasks.items[n].done) {
		run->fragment->source_ops->split_free(run->fragment->source, run->tasks.items[n].split);
		n++;
	}
	if (n == 0)
		return;
	memmove(run->tasks.items, run->tasks.items + n, (run->tasks.count - n) * sizeof(*run->tasks.items));
	run->tasks.count -= n;
	run->first_task += n;
}

/* Where the lane stood whose request the run ended over. */
static void add_place(struct weir_error *err, const struct weir_error *place)
{
	weir_error_at_source(err, place->source[0] ? place->source : NULL);
	weir_error_at_column(err, place->column[0] ? place->column : NULL);
	weir_error_at_operator(err, place->operator_name[0] ? place->operator_name : NULL);
	if (place->has_row)
		weir_error_at_row(err, place->row);
	if (place->has_offset)
		weir_error_at_offset(err, place->offset);
	if (place->has_line && !place->line_in_range)
		weir_error_at_line(err, place->line);
	if (place->value[0]) {
		size_t size = strlen(err->message);

		snprintf(err->message + size, sizeof(err->message) - size, "; %s", place->value);
	}
}

static void perform(struct weir_local_run *run, const struct weir_action *action)
{
	struct lane *lane = action->slot < run->lane_count ? &run->lanes[action->slot] : NULL;

	switch (action->kind) {
	case WEIR_DO_CUT_SPLIT:
		cut_split(run);
		return;
	case WEIR_DO_START_TASK:
		lane->task = action->run;
		lane->task_grant = action->bytes;
		lane->has_task = true;
		lane->has_turn = lane->give_up = false;
		atomic_store_explicit(&lane->cancelled, false, memory_order_relaxed);
		break;
	case WEIR_DO_GRANT:
		lane->grant_more += action->bytes;
		lane->has_grant = true;
		break;
	case WEIR_DO_GIVE_UP:
		lane->give_up = true;
		break;
	case WEIR_DO_TURN:
		lane->has_turn = true;
		break;
	case WEIR_DO_STOP_TASK:
		atomic_store_explicit(&lane->cancelled, true, memory_order_relaxed);
		break;
	case WEIR_DO_STOP_SLOT:
		lane->stop = true;
		break;
	case WEIR_DO_TRIM:
		weir_mem_trim(run->session->mem, 0);
		return;
	case WEIR_DO_END:
		if (action->code && !run->error.code)
			weir_error_set(&run->error, action->code, "%s",
				       action->reason ? action->reason : weir_code_text(action->code));
		if (action->code == WEIR_E_LIMIT && run->error.code == WEIR_E_LIMIT)
			add_place(&run->error, &run->refused);
		end_run(run, action->code);
		return;
	default:
		/* Chunks and worker processes belong to runs with more than one stage. */
		WEIR_ASSERT(!"an action that a run of one stage does not have");
	}
	pthread_cond_signal(&lane->wake);
}

void weir_local_post(struct weir_local_run *run, struct weir_event event)
{
	struct weir_error err = {0};

	queue_event(run, event);
	if (run->stepping) /* performing an action caused it: the loop below has it next */
		return;
	run->stepping = true;
	for (size_t i = 0; i < run->events.count && !run->ended; i++) {
		run->actions.count = 0;
		if (weir_core_step(run->core, &run->events.items[i], weir_clock_ns(), &run->actions, &err)) {
			give_up_run(run, &err);
			break;
		}
		for (size_t k = 0; k < run->actions.count; k++) {
			struct weir_action action = run->actions.items[k];

			perform(run, &action);
		}
	}
	run->events.count = 0;
	run->stepping = false;
	drop_done_tasks(run);
}

/* release: whoever claims the session next finds it as the run left it. */
static void unclaim(struct weir_local_run *run)
{
	if (run->claimed)
		atomic_store_explicit(&run->session->running, false, memory_order_release);
	run->claimed = false;
}

static int claim(struct weir_local_run *run, struct weir_error *err)
{
	if (atomic_exchange_explicit(&run->session->running, true, memory_order_acquire))
		return weir_error_set(err, WEIR_E_INVALID,
				      "the session runs another flow already: wait for it, cancel it, or open another session");
	run->claimed = true;
	return WEIR_OK;
}

static void lanes_free(struct weir_local_run *run)
{
	for (uint32_t i = 0; i < run->lane_count; i++)
		pthread_cond_destroy(&run->lanes[i].wake);
	weir_free(run->account, run->lanes, run->lane_count * sizeof(*run->lanes));
	run->lanes = NULL;
	run->lane_count = 0;
}

/* A core and lanes for the fragment as it is now; those of an earlier attempt go. */
static int equip(struct weir_local_run *run, struct weir_error *err)
{
	struct weir_session *session = run->session;
	const struct weir_fragment *fragment = run->fragment;
	struct weir_stage_spec stage = {.kind = WEIR_STAGE_LANES, .slots = session->threads, .name = "native"};
	struct weir_core_options options = {.stages = &stage, .stage_count = 1};
	struct weir_core *core = NULL;
	struct lane *lanes;
	int code;

	if (fragment->lanes_max && fragment->lanes_max < stage.slots)
		stage.slots = fragment->lanes_max;
	options.limit = session->memory_limit;
	/* What the session holds already (listings, footers) is not there for grants; half of the limit always is. */
	run->held = atomic_load_explicit(&run->account->used, memory_order_relaxed) + fragment->outside_bytes;
	if (run->held > session->memory_limit / 2 - SESSION_RESERVE)
		run->held = session->memory_limit / 2 - SESSION_RESERVE;
	options.budget = session->memory_limit - SESSION_RESERVE - run->held;
	/* Large first grants, since writers size their row groups by them; a quarter is left for those who ask. */
	stage.slot_memory = options.budget / 4 * 3 / stage.slots;
	/* The promise is limit + 10 % for the process as the kernel sees it, what the reserve is for included. */
	options.overdraft = session->memory_limit + session->memory_limit / 10 - SESSION_RESERVE * 3 / 4 - run->held;
	if (options.overdraft > options.limit)
		options.overdraft = options.limit;
	if (options.overdraft < options.budget)
		options.overdraft = options.budget;
	code = weir_core_new(run->account, &options, &core, err);
	if (code)
		return code;
	lanes = weir_alloc_zero(run->account, stage.slots * sizeof(*lanes), err);
	if (!lanes) {
		weir_core_free(core);
		return err->code;
	}
	lanes_free(run);
	weir_core_free(run->core);
	run->core = core;
	run->lanes = lanes;
	run->lane_count = stage.slots;
	for (uint32_t i = 0; i < run->lane_count; i++) {
		run->lanes[i].run = run;
		run->lanes[i].number = i;
		pthread_cond_init(&run->lanes[i].wake, NULL);
	}
	return WEIR_OK;
}

int weir_local_run_new(struct weir_session *session, struct weir_fragment *fragment, struct weir_local_run **out,
		       struct weir_error *err)
{
	struct weir_account *account = weir_session_account(session);
	struct weir_local_run *run = weir_alloc_zero(account, sizeof(*run), err);
	pthread_condattr_t monotonic;
	int code;

	if (!run)
		return err->code;
	run->session = session;
	run->fragment = fragment;
	run->account = account;
	pthread_mutex_init(&run->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&run->over, &monotonic);
	pthread_condattr_destroy(&monotonic);
	code = claim(run, err);
	if (!code)
		code = equip(run, err);
	if (code) {
		weir_local_run_free(run);
		return code;
	}
	*out = run;
	return WEIR_OK;
}

static void tasks_free(struct weir_local_run *run)
{
	for (size_t i = 0; i < run->tasks.count; i++)
		run->fragment->source_ops->split_free(run->fragment->source, run->tasks.items[i].split);
	run->tasks.count = 0;
}

void weir_local_run_clear(struct weir_local_run *run)
{
	pthread_mutex_lock(&run->lock);
	tasks_free(run);
	run->cleared = true;
	pthread_mutex_unlock(&run->lock);
}

int weir_local_run_again(struct weir_local_run *run, struct weir_error *err)
{
	int code;

	pthread_mutex_lock(&run->lock);
	code = claim(run, err);
	if (!code)
		code = equip(run, err);
	if (!code) {
		run->events.count = run->actions.count = 0;
		run->first_task = run->splits_done = run->rows_in = run->rows_out = 0;
		run->bytes_est_known = run->bytes_est_done = run->refused_task = run->ended_ns = 0;
		run->splits_end = run->ended = run->stepping = run->cleared = false;
		run->end_code = WEIR_OK;
		weir_error_clear(&run->error);
		weir_error_clear(&run->refused);
	} else {
		unclaim(run);
	}
	pthread_mutex_unlock(&run->lock);
	return code;
}

void weir_local_run_free(struct weir_local_run *run)
{
	if (!run)
		return;
	unclaim(run);
	tasks_free(run);
	weir_list_release(&run->tasks, run->account);
	weir_list_release(&run->events, run->account);
	weir_list_release(&run->actions, run->account);
	weir_core_free(run->core);
	lanes_free(run);
	pthread_cond_destroy(&run->over);
	pthread_mutex_destroy(&run->lock);
	weir_free(run->account, run, sizeof(*run));
}

void weir_local_run_cancel(struct weir_local_run *run)
{
	/* relaxed: the waiting thread looks again within MEASURE_MS */
	atomic_store_explicit(&run->cancel_requested, true, memory_order_relaxed);
}

void weir_local_return_free(const struct weir_local_run *run)
{
	struct weir_mem_stats stats;
	struct weir_error ignored = {0};
	int64_t anon, shmem;

	if (weir_process_rss(&anon, &shmem, &ignored))
		return;
	weir_mem_stats(run->session->mem, &stats);
	if (anon - run->session->rss_start > run->session->memory_limit - SESSION_RESERVE / 2)
		weir_mem_trim(run->session->mem, 0);
	else if (anon - run->session->rss_start - stats.used - stats.warm > SESSION_RESERVE / 2)
		weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
}

/* What the kernel sees beyond what the lanes' accounts explain. */
static void measure(struct weir_local_run *run)
{
	struct weir_mem_stats stats;
	struct weir_error ignored = {0};
	int64_t anon, shmem, beyond;

	weir_local_return_free(run);
	if (weir_process_rss(&anon, &shmem, &ignored))
		return;
	weir_mem_stats(run->session->mem, &stats);
	/* Footers, listings and what sinks keep for their commit are charged to the session, not to a grant. */
	beyond = anon - run->session->rss_start - stats.warm - SESSION_RESERVE - run->held;
	for (uint32_t i = 0; i < run->lane_count; i++)
		beyond -= atomic_load_explicit(&run->lanes[i].account.used, memory_order_relaxed);
	weir_local_post(run, (struct weir_event){
				     .kind = WEIR_EV_MEASURED, .slot = WEIR_NO_SLOT, .bytes = beyond > 0 ? beyond : 0});
}

static int start_lanes(struct weir_local_run *run, struct weir_error *err)
{
	pthread_attr_t attributes;
	int failed = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)1 << 20);
	for (uint32_t i = 0; i < run->lane_count && !failed; i++) {
		failed = pthread_create(&run->lanes[i].thread, &attributes, weir_lane_main, &run->lanes[i]);
		run->lanes[i].thread_started = !failed;
		run->lanes_running += !failed;
	}
	pthread_attr_destroy(&attributes);
	/* Some lanes are as good as all of them, only slower. */
	if (failed && run->lanes_running == 0)
		return weir_error_set_errno(err, failed, "cannot start a thread");
	if (failed)
		weir_log(WEIR_LOG_WARN, "only %u of %u threads could be started", run->lanes_running, run->lane_count);
	return WEIR_OK;
}

int weir_local_run_wait(struct weir_local_run *run, struct weir_error *err)
{
	bool cancel_sent = false;
	int code;

	pthread_mutex_lock(&run->lock);
	if (!run->started_ns)
		run->started_ns = weir_clock_ns();
	weir_local_post(run, (struct weir_event){.kind = WEIR_EV_START});
	code = start_lanes(run, err);
	while (!code && run->lanes_running > 0) {
		struct timespec until;

		if (!cancel_sent && atomic_load_explicit(&run->cancel_requested, memory_order_relaxed)) {
			cancel_sent = true;
			weir_local_post(run, (struct weir_event){.kind = WEIR_EV_CANCEL, .code = WEIR_E_CANCELLED});
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += MEASURE_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		if (pthread_cond_timedwait(&run->over, &run->lock, &until) && !run->ended)
			measure(run);
	}
	pthread_mutex_unlock(&run->lock);
	for (uint32_t i = 0; i < run->lane_count; i++) {
		if (run->lanes[i].thread_started)
			pthread_join(run->lanes[i].thread, NULL);
	}
	if (!code && run->end_code) {
		*err = run->error;
		code = err->code ? err->code : weir_error_set(err, run->end_code, "%s", weir_code_text(run->end_code));
	}
	if (!code)
		code = run->fragment->sink_ops->commit(run->fragment->sink, err);
	pthread_mutex_lock(&run->lock);
	run->ended_ns = weir_clock_ns();
	pthread_mutex_unlock(&run->lock);
	weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
	unclaim(run);
	return code;
}

void weir_local_run_stats(struct weir_local_run *run, struct weir_run_stats *out)
{
	struct weir_mem_stats memory;

	*out = (struct weir_run_stats){0};
	weir_mem_stats(run->session->mem, &memory);
	pthread_mutex_lock(&run->lock);
	out->started_ns = run->started_ns;
	out->ended_ns = run->ended_ns;
	out->splits_done = run->splits_done;
	out->splits_known = run->first_task + run->tasks.count;
	out->splits_all_known = run->splits_end;
	out->bytes_est_known = run->bytes_est_known;
	out->bytes_est_done = run->bytes_est_done;
	out->lanes = run->lane_count;
	weir_core_stats(run->core, &out->core);
	out->memory_limit = run->session->memory_limit;
	out->memory_used = memory.used + memory.warm;
	out->memory_peak = memory.peak;
	out->rows_out = run->rows_out;
	if (!run->cleared && run->fragment->source_ops->rows_pruned)
		out->rows_pruned = run->fragment->source_ops->rows_pruned(run->fragment->source);
	for (uint32_t i = 0; i < run->lane_count; i++) {
		const struct lane *lane = &run->lanes[i];

		if (!out->op_count)
			out->op_count = lane->op_count;
		for (uint32_t k = 0; k < lane->op_count && k < out->op_count; k++) {
			out->ops[k].name = lane->ops[k].name;
			out->ops[k].rows_out += lane->ops[k].rows_out;
			out->ops[k].vectors += lane->ops[k].vectors;
			out->ops[k].time_ns += lane->ops[k].time_ns;
		}
	}
	out->rows_in = out->op_count ? out->ops[0].rows_out : 0;
	pthread_mutex_unlock(&run->lock);
}
