/* Events to the executor, and its actions to whom they concern. Whoever has an event posts it here, under the run's
 * lock, and performs the resulting actions at once. Performing may cause further events (a split was cut); they queue
 * up and are given in order, never recursively. Nothing here waits: what takes long (disk, processes, streams) is
 * handed to a thread. */
#include "base/clock.h"
#include "backend/local/local_impl.h"

#include <stdio.h>
#include <string.h>

/* Every thread ends, also one that has not come round to reporting itself yet. */
static void end_run(struct weir_local_run *run, int code)
{
	run->ended = true;
	run->end_code = code;
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];

		for (uint32_t i = 0; i < stage->lane_count; i++) {
			stage->lanes[i].stop = true;
			pthread_cond_signal(&stage->lanes[i].wake);
		}
		if (stage->pool)
			weir_pool_wake(stage->pool);
	}
	pthread_cond_broadcast(&run->disk_wake);
	pthread_cond_broadcast(&run->cut_wake);
	pthread_cond_broadcast(&run->over);
}

void weir_local_give_up(struct weir_local_run *run, const struct weir_error *err)
{
	if (!run->error.code)
		run->error = *err;
	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; i < run->stages[s].lane_count; i++)
			atomic_store_explicit(&run->stages[s].lanes[i].cancelled, true, memory_order_relaxed);
	end_run(run, err->code);
}

/* An event that is lost would never be answered, so the run ends with it. */
static void queue_event(struct weir_local_run *run, const struct local_event *event)
{
	struct weir_error err = {0};

	if (weir_list_push(&run->events, run->account, &err, *event)) {
		if (event->chunk)
			weir_chunk_unref(event->chunk);
		weir_origin_unref(event->origin);
		weir_local_give_up(run, &err);
	}
}

static void answer(struct weir_local_run *run, struct weir_event event)
{
	queue_event(run, &(struct local_event){.event = event});
}

void weir_local_task_over(struct weir_local_run *run, struct local_task *task)
{
	if (task->freed || !task->done || task->chunks > 0 || task->stays)
		return;
	run->fragment->source_ops->split_free(run->fragment->source, task->split);
	task->freed = true;
}

/* Frees splits that are done, from the front: what is left begins with the oldest unfinished one. Where chunks are made
 * of them they may have to run again, and stay until these are gone. */
static void drop_done_tasks(struct weir_local_run *run)
{
	size_t n = 0;

	if (run->cleared) /* whoever takes the last chunks says so after the end */
		return;
	while (run->first_open < run->first_task + run->tasks.count &&
	       run->tasks.items[run->first_open - run->first_task].done)
		run->first_open++;
	if (run->fragment->source_ops->splits_over)
		run->fragment->source_ops->splits_over(run->fragment->source, run->first_open);
	for (; n < run->first_open - run->first_task; n++) {
		weir_local_task_over(run, &run->tasks.items[n]);
		if (!run->tasks.items[n].freed)
			break;
	}
	if (n == 0)
		return;
	memmove(run->tasks.items, run->tasks.items + n, (run->tasks.count - n) * sizeof(*run->tasks.items));
	run->tasks.count -= n;
	run->first_task += n;
}

void weir_local_tasks_free(struct weir_local_run *run)
{
	for (size_t i = 0; i < run->tasks.count; i++)
		if (!run->tasks.items[i].freed)
			run->fragment->source_ops->split_free(run->fragment->source, run->tasks.items[i].split);
	run->tasks.count = 0;
}

void weir_local_say_value(struct weir_error *err, const char *value)
{
	size_t size = strlen(err->message);

	if (value[0])
		snprintf(err->message + size, sizeof(err->message) - size, "; %s", value);
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
	if (!err->value[0])
		weir_local_say_value(err, place->value);
}

static void on_end(struct weir_local_run *run, const struct weir_action *action)
{
	if (action->code && !run->error.code) {
		const char *reason = action->reason ? action->reason : weir_code_text(action->code);
		const char *name = action->run.attempt && action->run.stage < run->stage_count
					   ? run->stages[action->run.stage].name
					   : NULL;
		size_t size = name ? strlen(name) : 0;

		/* The reason begins with the stage's name; the error has a place of its own for it. */
		if (name && !strncmp(reason, name, size) && !strncmp(reason + size, ": ", 2))
			reason += size + 2;
		weir_error_set(&run->error, action->code, "%s", reason);
		/* Lanes run many operators: which one it was, they say themselves. */
		if (name && run->stages[action->run.stage].kind == WEIR_STAGE_WORKERS)
			weir_error_at_operator(&run->error, name);
		weir_local_add_origin(run, action);
	}
	if (action->code == WEIR_E_LIMIT && run->error.code == WEIR_E_LIMIT)
		add_place(&run->error, &run->refused);
	weir_local_failure_choose(run, action);
	end_run(run, action->code);
}

/* The task's inputs: the first chunk and those of TASK_PART before it. */
static int lane_inputs(struct weir_local_run *run, struct lane *lane, uint64_t first, struct weir_error *err)
{
	WEIR_ASSERT(lane->inputs.count == 0);
	if (first == WEIR_NO_CHUNK)
		return WEIR_OK;
	for (size_t i = 0; i <= run->parts.count; i++) {
		struct local_chunk *chunk = weir_local_chunk(run, i ? run->parts.items[i - 1] : first);

		WEIR_ASSERT(chunk);
		if (weir_list_push(&lane->inputs, run->account, err, *chunk))
			return err->code;
		weir_chunk_ref(chunk->chunk);
	}
	return WEIR_OK;
}

static void start_lane(struct weir_local_run *run, struct lane *lane, const struct weir_action *action)
{
	struct weir_error err = {0};

	if (lane_inputs(run, lane, action->chunk, &err)) {
		weir_local_give_up(run, &err);
		return;
	}
	run->parts.count = 0;
	lane->task = action->run;
	lane->task_grant = action->bytes;
	lane->has_task = true;
	lane->has_turn = lane->give_up = false;
	atomic_store_explicit(&lane->cancelled, false, memory_order_relaxed);
}

static void perform_lane(struct weir_local_run *run, const struct weir_action *action)
{
	struct lane *lane = &run->stages[action->stage].lanes[action->slot];

	switch (action->kind) {
	case WEIR_DO_START_TASK:
		start_lane(run, lane, action);
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
	case WEIR_DO_RESUME:
		lane->resumed = true;
		break;
	case WEIR_DO_STOP_TASK:
		atomic_store_explicit(&lane->cancelled, true, memory_order_relaxed);
		break;
	case WEIR_DO_STOP_SLOT:
		lane->stop = true;
		break;
	default:
		WEIR_ASSERT(!"an action that lanes do not have");
	}
	pthread_cond_signal(&lane->wake);
}

static void deliver(struct weir_local_run *run, uint64_t number)
{
	struct local_chunk *chunk = weir_local_chunk(run, number);

	WEIR_ASSERT(chunk && run->tail && run->tail->consumer.deliver);
	run->rows_delivered += (uint64_t)chunk->rows;
	if (run->tail->consumer.deliver(run->tail->consumer.state, weir_chunk_ref(chunk->chunk), number,
					(struct weir_place){.split = chunk->path[0], .chunk = chunk->path[1]}))
		answer(run, (struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = number});
}

static void perform(struct weir_local_run *run, const struct weir_action *action)
{
	struct local_event *made = &run->events.items[run->event_at];
	struct weir_error err = {0};
	int code = WEIR_OK;

	switch (action->kind) {
	case WEIR_DO_CUT_SPLIT:
		weir_local_cut(run);
		break;
	case WEIR_DO_TASK_PART:
		code = weir_list_push(&run->parts, run->account, &err, action->chunk);
		break;
	case WEIR_DO_START_TASK:
	case WEIR_DO_GRANT:
	case WEIR_DO_GIVE_UP:
	case WEIR_DO_TURN:
	case WEIR_DO_PAUSE:
	case WEIR_DO_RESUME:
	case WEIR_DO_STOP_TASK:
	case WEIR_DO_STOP_SLOT:
	case WEIR_DO_START_WORKER:
	case WEIR_DO_KILL_WORKER:
		if (run->stages[action->stage].kind == WEIR_STAGE_LANES)
			perform_lane(run, action);
		else
			weir_local_pool_perform(run, action);
		break;
	case WEIR_DO_OUTPUT_KEPT:
		code = weir_local_chunk_keep(run, action, made, &err);
		break;
	case WEIR_DO_OUTPUT_DROP: /* what was not kept goes with its event */
		break;
	case WEIR_DO_SPILL:
	case WEIR_DO_RESTORE:
		code = weir_local_disk_queue(run, action->chunk, action->kind == WEIR_DO_RESTORE, &err);
		break;
	case WEIR_DO_FREE:
		weir_local_chunk_drop(run, action->chunk);
		break;
	case WEIR_DO_DELIVER:
		deliver(run, action->chunk);
		break;
	case WEIR_DO_TRIM:
		weir_mem_trim(run->session->mem, 0);
		if (run->store)
			weir_store_trim(run->store, 0);
		break;
	case WEIR_DO_END:
		on_end(run, action);
		break;
	}
	if (code)
		weir_local_give_up(run, &err);
}

void weir_local_post_output(struct weir_local_run *run, const struct local_event *event)
{
	struct weir_error err = {0};

	queue_event(run, event);
	if (run->stepping) /* performing an action caused it: the loop below has it next */
		return;
	run->stepping = true;
	for (size_t i = 0; i < run->events.count; i++) {
		struct weir_event one = run->events.items[i].event;

		run->event_at = i;
		run->actions.count = 0;
		if (!run->ended && weir_core_step(run->core, &one, weir_clock_ns(), &run->actions, &err))
			weir_local_give_up(run, &err);
		if (weir_local_is_shared(run))
			weir_local_share_note(run);
		for (size_t k = 0; k < run->actions.count; k++) {
			struct weir_action action = run->actions.items[k];

			perform(run, &action);
		}
		if (run->events.items[i].chunk)
			weir_chunk_unref(run->events.items[i].chunk);
		weir_origin_unref(run->events.items[i].origin);
		run->events.items[i].chunk = NULL;
		run->events.items[i].origin = NULL;
	}
	run->events.count = 0;
	run->stepping = false;
	drop_done_tasks(run);
}

void weir_local_post(struct weir_local_run *run, struct weir_event event)
{
	weir_local_post_output(run, &(struct local_event){.event = event});
}

void weir_local_run_taken(struct weir_local_run *run, uint64_t number)
{
	pthread_mutex_lock(&run->lock);
	atomic_store_explicit(&run->awaited, false, memory_order_relaxed);
	weir_local_tell_budget(run);
	weir_local_post(run, (struct weir_event){.kind = WEIR_EV_TAKEN, .chunk = number});
	pthread_mutex_unlock(&run->lock);
}
