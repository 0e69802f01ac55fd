/* A thread for each stage of worker processes: it waits for what they say and posts it to the executor. What the
 * executor wants of them is performed by whoever has the event, through the pool, which allows that.
 *
 * Memory. The executor books what workers were measured to have, some times a second. In between the kernel bounds them
 * (RLIMIT_DATA): those at work share what is left of the limit after this process and all workers as last measured. A
 * worker that exceeds its bound gets MemoryError; the executor then gives its batch to one worker while no other works,
 * which has a wider bound accordingly.
 *
 * Errors. Where the first error in user code ends the run, it should be the same one each time: that of the first row,
 * if several rows have one. So an error is posted only when the tasks that were started before its own have ended, or a
 * second later. To the executor it is just a message that comes late. */
#include "base/clock.h"
#include "backend/local/local_impl.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEASURE_NS 25000000
#define TASK_NS 2000000.0      /* batches that take less go several at a time: a task costs some 40 µs by itself */
#define BOUNDS_OLD_NS 1000000u /* bounds of this age are set anew where it matters */
/* of what a worker had more before, so small a part is forgotten at each measurement: half of it within half a second
 * */
#define LATELY_FALLS 32
#define ROOM_MEASURED ((int64_t)1 << 20) /* for less nobody is measured anew */
#define LAUNCHER_NS 100000000
#define PACE_MAX ((double)(1 << 30))
#define ORIGIN_TOLD 4 /* sources that a message names */
#define ERROR_WAITS_NS ((uint64_t)1000000000)
#define BOUND_STEP ((int64_t)1 << 20) /* bounds are rounded to this, to be changed less often */

/* ---- failures ---- */

static void failure_release(struct local_failure *failure)
{
	if (failure->payload)
		weir_chunk_unref(failure->payload);
	weir_origin_unref(failure->origin);
	*failure = (struct local_failure){0};
}

void weir_local_failures_free(struct weir_local_run *run)
{
	for (size_t i = 0; i < run->failures.count; i++)
		failure_release(&run->failures.items[i]);
	run->failures.count = 0;
	for (size_t i = 0; i < run->left_out.count; i++)
		failure_release(&run->left_out.items[i]);
	run->left_out.count = 0;
	failure_release(&run->failure);
	run->has_failure = false;
}

/* Whether the run ends over this error. */
static bool ends_run(const struct stage *stage, const struct weir_pool_event *said)
{
	return said->event.kind == WEIR_EV_TASK_FAILED && said->event.code == WEIR_E_USER &&
	       !stage->call->errored_max && !stage->call->user_retries;
}

/* Keeps what a worker said about its failure until the executor has decided. */
static void remember(struct weir_local_run *run, const struct weir_pool_event *said)
{
	struct local_failure failure = {.run = said->event.run, .payload = said->chunk};
	const struct stage *stage = &run->stages[said->event.stage];
	const struct local_given *given;
	struct weir_error ignored = {0};

	failure.ends_run = ends_run(stage, said);
	if (said->event.kind == WEIR_EV_CANCEL)
		failure.run = (struct weir_run){.stage = said->event.stage};
	else if ((given = weir_local_given(stage, said->event.slot, &said->event.run)))
		failure.origin = weir_origin_ref(given->origin);
	memcpy(failure.text, said->text, sizeof(failure.text));
	for (size_t i = 0; run->failures.count >= RUN_FAILURES_MAX && i < run->failures.count; i++)
		if (!run->failures.items[i].ends_run) {
			failure_release(&run->failures.items[i]);
			memmove(&run->failures.items[i], &run->failures.items[i + 1],
				(--run->failures.count - i) * sizeof(*run->failures.items));
			break;
		}
	if (weir_list_push(&run->failures, run->account, &ignored, failure))
		failure_release(&failure);
}

/* Rows of one source have a place of their own in an error, those of several are told in its text. */
static void tell_origin(struct weir_error *err, const struct weir_origin *origin)
{
	size_t count = origin ? origin->parts.count : 0, size = strlen(err->message);
	const struct weir_origin_part *parts = count ? origin->parts.items : NULL;

	if (count == 1) {
		const char *source = weir_origin_source(origin, parts);

		weir_error_at_source(err, source[0] ? source : NULL);
		if (parts->row_first >= 0)
			weir_error_at_rows(err, parts->row_first, parts->row_last - parts->row_first + 1);
	}
	for (size_t i = 0; count > 1 && i < count; i++) {
		const char *source = weir_origin_source(origin, &parts[i]);
		char rows[64] = "";

		if (i == ORIGIN_TOLD - 1 && count > ORIGIN_TOLD) { /* those before, and the last one */
			i = count - 1;
			source = weir_origin_source(origin, &parts[i]);
		}
		if (parts[i].row_first >= 0)
			snprintf(rows, sizeof(rows), "rows %lld to %lld of ", (long long)parts[i].row_first,
				 (long long)parts[i].row_last);
		if (size < sizeof(err->message))
			snprintf(err->message + size, sizeof(err->message) - size, "%s%s%s",
				 i == 0                                  ? "; it was given "
				 : i + 1 == count && count > ORIGIN_TOLD ? " … and "
				 : i + 1 == count                        ? " and "
									 : ", ",
				 rows, source[0] ? source : "what no file holds");
		size = strlen(err->message);
	}
}

void weir_local_failure_choose(struct weir_local_run *run, const struct weir_action *end)
{
	for (size_t i = run->failures.count; i-- > 0 && end->code && !run->has_failure;) {
		struct local_failure *failure = &run->failures.items[i];
		bool is_it = failure->run.attempt == 0 || (end->code == WEIR_E_USER && end->run.attempt == 0) ||
			     (failure->run.stage == end->run.stage && failure->run.task == end->run.task &&
			      failure->run.attempt == end->run.attempt);

		if (!is_it)
			continue;
		run->failure = *failure;
		run->has_failure = true;
		run->failure_stage = failure->run.stage;
		*failure = (struct local_failure){0};
		weir_error_clear(&run->error);
		weir_error_set(&run->error, end->code, "%s",
			       run->failure.text[0] ? run->failure.text : weir_code_text(end->code));
		weir_error_at_operator(&run->error, run->stages[run->failure_stage].name);
		tell_origin(&run->error, run->failure.origin);
	}
}

static void describe(const struct weir_local_run *run, const struct local_failure *failure, uint32_t stage,
		     struct weir_failure *out)
{
	out->payload = failure->payload ? weir_chunk_ref(failure->payload) : NULL;
	out->payload_size = out->payload ? weir_chunk_size(out->payload) : 0;
	snprintf(out->operator_name, sizeof(out->operator_name), "%s", run->stages[stage].name);
	out->origin = weir_origin_ref(failure->origin);
}

bool weir_local_run_failure(struct weir_local_run *run, struct weir_failure *out)
{
	*out = (struct weir_failure){0};
	pthread_mutex_lock(&run->lock);
	if (run->has_failure)
		describe(run, &run->failure, run->failure_stage, out);
	pthread_mutex_unlock(&run->lock);
	return run->has_failure;
}

bool weir_local_run_left_out(struct weir_local_run *run, struct weir_failure *out)
{
	bool some;

	*out = (struct weir_failure){0};
	pthread_mutex_lock(&run->lock);
	some = run->left_out.count > 0;
	if (some) {
		describe(run, &run->left_out.items[0], run->left_out.items[0].run.stage, out);
		failure_release(&run->left_out.items[0]);
		memmove(run->left_out.items, run->left_out.items + 1,
			--run->left_out.count * sizeof(*run->left_out.items));
	}
	pthread_mutex_unlock(&run->lock);
	return some;
}

static uint64_t left_out_count(const struct stage *stage)
{
	struct weir_stage_stats stats;

	weir_core_stage_stats(stage->run->core, (uint32_t)(stage - stage->run->stages), &stats);
	return stats.tasks_errored;
}

/* The executor went on without the task whose failure was remembered last. */
static void note_left_out(struct weir_local_run *run, const struct weir_run *task)
{
	struct weir_error ignored = {0};

	for (size_t i = run->failures.count; i-- > 0;) {
		struct local_failure *failure = &run->failures.items[i];

		if (failure->run.stage != task->stage || failure->run.task != task->task ||
		    failure->run.attempt != task->attempt)
			continue;
		if (run->left_out.count < RUN_LEFT_OUT_MAX &&
		    !weir_list_push(&run->left_out, run->account, &ignored, *failure))
			*failure = (struct local_failure){0};
		failure_release(failure);
		memmove(failure, failure + 1, (--run->failures.count - i) * sizeof(*failure));
		return;
	}
}

/* ---- memory ---- */

/* What this process takes now, but for what user code keeps in it. */
static int64_t own_memory(const struct weir_local_run *run)
{
	struct weir_store_stats store;
	int64_t anon = 0, his;

	weir_store_stats(run->store, &store);
	weir_session_anon(run->session, &store, &anon);
	/* What he was handed is in memory, too; but he may keep all of it, so that workers have half of the limit
	 * whatever he does. */
	his = store.held_by_user > run->session->memory_limit / 2 ? store.held_by_user - run->session->memory_limit / 2
								  : 0;
	return anon + store.resident + store.warm + store.spilled_memory - his +
	       atomic_load_explicit(&run->session->setups, memory_order_relaxed);
}

/* What everybody has now. */
static int64_t all_memory(const struct weir_local_run *run)
{
	return own_memory(run) + atomic_load_explicit(&run->session->workers_measured, memory_order_relaxed) +
	       atomic_load_explicit(&run->session->launcher_alone, memory_order_relaxed);
}

/* Chunks that go to disk leave pages for others, which are in the way of a worker that grows. */
static void trim_store(const struct weir_local_run *run)
{
	int64_t over = all_memory(run) - run->session->memory_limit;
	struct weir_store_stats store;

	weir_store_stats(run->store, &store);
	if (over > 0 && store.warm > 0)
		weir_store_trim(run->store, store.warm > over ? store.warm - over : 0);
}

/* What it may still have beside other runs; `slack`: of all of them. */
static int64_t left_of_share(const struct weir_local_run *run, int64_t slack)
{
	int64_t runs = atomic_load_explicit(&run->session->runs_listed, memory_order_relaxed);
	struct weir_core_load load;

	weir_core_load(run->core, &load);
	return run->allowed + slack / (runs > 1 ? runs : 1) - load.without_workers - run->workers_measured -
	       weir_local_launcher_part(run->session, run->workers_measured);
}

static void note_measured(struct weir_local_run *run, struct local_worker *worker, int64_t bytes)
{
	run->workers_measured += bytes - worker->measured;
	atomic_fetch_add_explicit(&run->session->workers_measured, bytes - worker->measured, memory_order_relaxed);
	worker->measured = bytes;
}

/* What a worker that is at work had more a moment ago: it lets go of a batch's memory and takes as much for the next
 * one. Who waits for room has made all that it will make. */
static int64_t swing(struct local_worker *worker, bool waits)
{
	uint64_t now = weir_clock_ns();

	if (worker->measured >= worker->lately) {
		worker->lately = worker->measured;
		worker->lately_ns = now;
	} else if (now - worker->lately_ns >= MEASURE_NS) {
		worker->lately -= (worker->lately - worker->measured) / LATELY_FALLS;
		worker->lately_ns = now;
	}
	return worker->in_flight > 0 && !waits ? worker->lately - worker->measured : 0;
}

/* What those take that start and were not measured yet. */
static int64_t taken_soon(const struct weir_local_run *run)
{
	int64_t bytes = 0;

	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; run->stages[s].workers && i < run->stages[s].slots; i++)
			if (run->stages[s].workers[i].starts && !run->stages[s].workers[i].measured)
				bytes += run->stages[s].slot_memory;
	return bytes;
}

/* `coming`: what is about to be taken beside them. */
static void bound_workers(struct weir_local_run *run, int64_t coming)
{
	int64_t limit = run->session->memory_limit,
		left = limit + limit / 20 - all_memory(run) - coming - taken_soon(run), share, most;
	struct weir_core_load load;

	if (run->parked_told)
		return; /* those at work are to end: another run waits for them */
	run->bounded_ns = weir_clock_ns();
	run->bounds_for = run->workers_busy_peak ? run->workers_busy_peak : 1;
	run->workers_busy_peak = run->workers_busy;
	share = left > 0 ? left / run->bounds_for : 0;
	if (weir_local_is_shared(run) && left > 0) {
		int64_t own = (left_of_share(run, limit / 20) - coming) / run->bounds_for;
		uint32_t others = atomic_load_explicit(&run->session->workers_busy, memory_order_relaxed) -
				  run->workers_busy;
		/* Of what none has now, half is theirs alike: a run of many has too little for a worker to begin
		 * with. */
		int64_t of_all = left / 2 / (run->bounds_for + others);

		share = own < of_all ? of_all : own < share ? own : share;
	}
	/* Past the limit the executor would stop it: rather it is told that there is no more, and may do with less. */
	weir_core_load(run->core, &load);
	most = limit - load.without_workers - atomic_load_explicit(&run->session->launcher_alone, memory_order_relaxed);
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];

		/* Where a GPU is used the address space says nothing. */
		for (uint32_t i = 0; stage->workers && !stage->call->milli_gpus && i < stage->slots; i++) {
			struct local_worker *worker = &stage->workers[i];
			int64_t bound = worker->measured ? worker->measured + share : stage->slot_memory + share;

			if (bound > most)
				bound = most > worker->measured ? most : worker->measured;
			bound = (bound + BOUND_STEP - 1) / BOUND_STEP * BOUND_STEP;
			if (bound != worker->bound)
				weir_pool_bound(stage->pool, i, bound);
			worker->bound = bound;
		}
	}
}

void weir_local_bound_workers(struct weir_local_run *run)
{
	bound_workers(run, 0);
}

static bool is_busy(const struct local_worker *worker)
{
	return worker->in_flight > 0 || worker->starts;
}

static void count_busy(struct weir_local_run *run, const struct local_worker *worker, bool was_busy)
{
	uint32_t change = (uint32_t)is_busy(worker) - (uint32_t)was_busy;

	run->workers_busy += change;
	atomic_fetch_add_explicit(&run->session->workers_busy, change, memory_order_relaxed);
}

/* Its process is being started, or is ready. */
static void count_start(struct stage *stage, uint32_t slot, bool starts)
{
	struct local_worker *worker = &stage->workers[slot];
	bool was_busy = is_busy(worker);

	worker->starts = starts;
	count_busy(stage->run, worker, was_busy);
	if (stage->run->workers_busy > stage->run->workers_busy_peak)
		stage->run->workers_busy_peak = stage->run->workers_busy;
	if (starts) /* the bound is there before the process */
		weir_local_bound_workers(stage->run);
}

/* A worker has more or fewer batches. Bounds depend on how many work. */
static void count_flight(struct stage *stage, uint32_t slot, int change)
{
	struct local_worker *worker = &stage->workers[slot];
	struct weir_local_run *run = stage->run;
	bool was_busy = is_busy(worker);

	worker->in_flight = change == 0 ? 0 : worker->in_flight + (uint32_t)change;
	if (change == 0) {
		worker->starts = worker->leaves = false;
		worker->lately = 0;
		note_measured(run, worker, 0);
	}
	count_busy(run, worker, was_busy);
	if (run->workers_busy > run->workers_busy_peak)
		run->workers_busy_peak = run->workers_busy;
	/* What a dead one had is the others': a batch that waited for it may want it at once. One that is given to the
	 * only worker at work may be to have all memory: the bound that was right for several would be its end. */
	if (run->workers_busy > run->bounds_for || change == 0)
		weir_local_bound_workers(run);
	else if (!was_busy && run->workers_busy == 1 && weir_clock_ns() - run->bounded_ns > BOUNDS_OLD_NS) {
		run->workers_busy_peak = 1;
		weir_local_bound_workers(run);
	}
}

/* ---- what the executor wants of workers ---- */

static void fail(struct weir_local_run *run, const struct stage *stage, struct weir_error *err)
{
	weir_error_at_operator(err, stage->name);
	if (!run->error.code)
		run->error = *err;
	weir_local_post(run, (struct weir_event){.kind = WEIR_EV_CANCEL, .code = err->code});
}

static bool is_same(const struct weir_run *a, const struct weir_run *b)
{
	return a->task == b->task && a->attempt == b->attempt;
}

struct local_given *weir_local_given(const struct stage *stage, uint32_t slot, const struct weir_run *run)
{
	for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++)
		if (stage->workers[slot].given[i].run.attempt && is_same(&stage->workers[slot].given[i].run, run))
			return &stage->workers[slot].given[i];
	return NULL;
}

/* The origins of all its parts, one after another. NULL: that of a part is not known, so it cannot be said which row is
 * whose. */
static struct weir_origin *given_origin(struct weir_local_run *run, const struct local_chunk *first)
{
	struct weir_origin all, *shared = NULL;
	struct weir_error ignored = {0};
	int code;

	if (run->parts.count == 0 || !first->origin)
		return weir_origin_ref(first->origin);
	weir_origin_init(&all, run->account);
	code = weir_origin_append(&all, first->origin, &ignored);
	for (size_t i = 0; i < run->parts.count && !code; i++) {
		const struct weir_origin *part = weir_local_chunk(run, run->parts.items[i])->origin;

		code = part ? weir_origin_append(&all, part, &ignored) : WEIR_E_INVALID;
	}
	if (!code)
		shared = weir_origin_share(run->account, &all);
	weir_origin_release(&all);
	return shared;
}

static void note_given(struct weir_local_run *run, struct local_worker *worker, const struct weir_action *start)
{
	struct local_given *given = &worker->given[worker->given_next++ % WEIR_WORKER_FLIGHT_MAX];
	const struct local_chunk *first = weir_local_chunk(run, start->chunk);

	weir_origin_unref(given->origin);
	given->run = start->run;
	given->in_flight = true;
	given->outputs_kept = start->outputs_kept;
	given->origin = given_origin(run, first);
	given->rows = (uint64_t)first->rows;
	for (size_t i = 0; i < run->parts.count; i++)
		given->rows += (uint64_t)weir_local_chunk(run, run->parts.items[i])->rows;
}

void weir_local_add_origin(struct weir_local_run *run, const struct weir_action *end)
{
	const struct stage *stage = end->run.attempt && end->run.stage < run->stage_count ? &run->stages[end->run.stage]
											  : NULL;
	const struct local_given *given = NULL;

	for (uint32_t i = 0; stage && stage->kind == WEIR_STAGE_WORKERS && i < stage->slots && !given; i++)
		given = weir_local_given(stage, i, &end->run);
	if (given)
		tell_origin(&run->error, given->origin);
}

/* The task is not wanted any more, and somebody waits for its end. */
static void stop_waiting(struct stage *stage, const struct weir_run *run)
{
	for (size_t i = 0; i < stage->errors.count; i++)
		if (is_same(&stage->errors.items[i].said.event.run, run)) {
			stage->errors.items[i].since_ns = 0;
			weir_pool_wake(stage->pool);
		}
}

void weir_local_pool_perform(struct weir_local_run *run, const struct weir_action *action)
{
	struct stage *stage = &run->stages[action->stage];
	struct weir_batch_range few[16] = {{0}}, *parts = few;
	size_t count = action->kind == WEIR_DO_START_TASK ? run->parts.count + 1 : 0;
	struct weir_error err = {0};
	int code = WEIR_OK;

	if (action->kind == WEIR_DO_STOP_TASK || action->kind == WEIR_DO_GIVE_UP) {
		stop_waiting(stage, &action->run);
		return; /* its worker is killed, or its answer ignored */
	}
	if (action->kind == WEIR_DO_GRANT) { /* answers the ASK that is in the core now */
		run->room_granted = true;
		return;
	}
	if (count > sizeof(few) / sizeof(*few) && !(parts = weir_alloc(run->account, count * sizeof(*parts), &err)))
		code = err.code;
	for (size_t i = 0; !code && i < count; i++) {
		struct local_chunk *chunk = weir_local_chunk(run, i ? run->parts.items[i - 1] : action->chunk);

		WEIR_ASSERT(chunk);
		parts[i] = (struct weir_batch_range){.chunk = chunk->chunk, .row_count = (uint64_t)chunk->rows};
	}
	if (action->kind == WEIR_DO_STOP_SLOT) {
		stage->workers[action->slot].leaves = true;
		weir_local_tell_budget(run); /* before anybody is given what it still has */
	}
	if (count && !code)
		note_given(run, &stage->workers[action->slot], action);
	if (count)
		count_flight(stage, action->slot, 1);
	if (action->kind == WEIR_DO_START_WORKER)
		count_start(stage, action->slot, true);
	if (!code)
		code = weir_pool_perform(stage->pool, action, parts, (uint32_t)count, &err);
	if (parts != few)
		weir_free(run->account, parts, count * sizeof(*parts));
	if (count)
		run->parts.count = 0;
	if (code)
		fail(run, stage, &err);
	if (code && action->kind == WEIR_DO_START_WORKER) /* who never was says nothing, and would be waited for */
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_SLOT_DIED,
							 .stage = action->stage,
							 .slot = action->slot,
							 .generation = action->generation,
							 .death = WEIR_DEATH_OWN});
}

/* ---- what workers say ---- */

static int death_code(int status)
{
	if (status < 0)
		return 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : WIFEXITED(status) ? -1 - WEXITSTATUS(status) : 0;
}

/* It died at these rows of the oldest of its tasks. They may be anything, since they are the worker's. */
static void note_at(struct weir_account *account, struct local_worker *worker, const struct weir_worker_rows *at)
{
	struct local_given *oldest = NULL;
	struct weir_origin *whole;

	for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX && !oldest; i++) {
		struct local_given *given = &worker->given[(worker->given_next + i) % WEIR_WORKER_FLIGHT_MAX];

		oldest = given->in_flight ? given : NULL;
	}
	if (!oldest || at->count == 0 || at->first >= oldest->rows || at->count > oldest->rows - at->first ||
	    !oldest->origin || !oldest->origin->is_traced)
		return;
	whole = oldest->origin;
	oldest->origin = weir_origin_cut(account, whole, (int64_t)at->first, (int64_t)at->count);
	weir_origin_unref(whole);
}

/* How many rows make a task of TASK_NS: half what it was before, half what this one says. */
static void note_pace(struct stage *stage, const struct weir_event *done)
{
	const struct local_worker *worker = &stage->workers[done->slot];
	int64_t before = atomic_load_explicit(&stage->pace_rows, memory_order_relaxed);

	for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX && done->times.wall_ns; i++) {
		const struct local_given *given = &worker->given[i];
		double rows = (double)given->rows * TASK_NS / (double)done->times.wall_ns;

		if (!is_same(&given->run, &done->run))
			continue;
		rows = rows < PACE_MAX ? rows : PACE_MAX;
		atomic_store_explicit(&stage->pace_rows, before ? (before + (int64_t)rows) / 2 : (int64_t)rows,
				      memory_order_relaxed);
		return;
	}
}

/* `run` is over in this worker; NULL: everything is. */
static void note_over(struct local_worker *worker, const struct weir_run *run)
{
	for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++)
		if (!run || is_same(&worker->given[i].run, run))
			worker->given[i].in_flight = false;
}

/* Whether a task that was started before this one is not over. */
static bool has_earlier(const struct stage *stage, const struct weir_run *run)
{
	for (uint32_t w = 0; w < stage->slots; w++)
		for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++) {
			const struct local_given *given = &stage->workers[w].given[i];

			if (given->in_flight && given->run.number < run->number)
				return true;
		}
	return false;
}

static void tell_error(struct stage *stage, size_t at)
{
	struct weir_pool_event said = stage->errors.items[at].said;

	stage->errors.items[at] = stage->errors.items[--stage->errors.count];
	remember(stage->run, &said);
	weir_local_post(stage->run, said.event);
}

/* Tells what need not wait any longer, the first task's first. */
static void tell_errors(struct stage *stage)
{
	uint64_t now = stage->errors.count ? weir_clock_ns() : 0;

	while (stage->errors.count) {
		size_t first = 0;

		for (size_t i = 1; i < stage->errors.count; i++)
			if (stage->errors.items[i].said.event.run.number <
			    stage->errors.items[first].said.event.run.number)
				first = i;
		if (has_earlier(stage, &stage->errors.items[first].said.event.run) &&
		    now - stage->errors.items[first].since_ns < ERROR_WAITS_NS)
			return;
		tell_error(stage, first);
	}
}

/* Those of a worker that has died must be told first: its tasks run again otherwise. */
static void tell_errors_of(struct stage *stage, uint32_t slot)
{
	for (size_t i = stage->errors.count; i-- > 0;)
		if (stage->errors.items[i].said.event.slot == slot)
			tell_error(stage, i);
}

/* Takes the event over when it has to wait. */
static bool waits(struct stage *stage, const struct weir_pool_event *said)
{
	struct local_error error = {.said = *said, .since_ns = weir_clock_ns()};
	struct weir_error ignored = {0};

	return ends_run(stage, said) && (stage->errors.count || has_earlier(stage, &said->event.run)) &&
	       !weir_list_push(&stage->errors, stage->run->account, &ignored, error);
}

/* Before the first output of a second attempt. */
static void mention_kept(struct stage *stage, const struct weir_event *output)
{
	struct local_worker *worker = &stage->workers[output->slot];

	for (uint32_t i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++) {
		struct local_given *given = &worker->given[i];

		if (!given->in_flight || !is_same(&given->run, &output->run))
			continue;
		for (uint64_t number = 0; number < given->outputs_kept; number++) {
			struct weir_event mention = *output;

			mention.chunk = number;
			mention.bytes = mention.rows = 0;
			weir_local_post(stage->run, mention);
		}
		given->outputs_kept = 0;
	}
}

static void hear(struct stage *stage, struct weir_pool_event *said)
{
	struct weir_local_run *run = stage->run;
	uint64_t errored;

	switch (said->event.kind) {
	case WEIR_EV_OUTPUT:
		mention_kept(stage, &said->event);
		weir_local_post_output(run, &(struct local_event){.event = said->event, .chunk = said->chunk});
		return;
	case WEIR_EV_TASK_FAILED:
		count_flight(stage, said->event.slot, -1);
		note_over(&stage->workers[said->event.slot], &said->event.run);
		if (waits(stage, said))
			return;
		errored = left_out_count(stage);
		remember(run, said);
		weir_local_post(run, said->event);
		if (left_out_count(stage) != errored)
			note_left_out(run, &said->event.run);
		return;
	case WEIR_EV_CANCEL:
		remember(run, said);
		break;
	case WEIR_EV_SLOT_READY:
		count_start(stage, said->event.slot, false);
		break;
	case WEIR_EV_MEASURED:
		note_measured(run, &stage->workers[said->event.slot], said->event.bytes);
		said->event.apart = swing(&stage->workers[said->event.slot], said->waits_for_room);
		said->event.bytes += weir_local_launcher_part(run->session, said->event.bytes);
		break;
	case WEIR_EV_TASK_DONE:
		count_flight(stage, said->event.slot, -1);
		note_pace(stage, &said->event);
		note_over(&stage->workers[said->event.slot], &said->event.run);
		stage->rows_out += (uint64_t)said->event.rows;
		break;
	case WEIR_EV_SLOT_DIED:
		note_at(run->account, &stage->workers[said->event.slot], &said->at);
		count_flight(stage, said->event.slot, 0);
		note_over(&stage->workers[said->event.slot], NULL);
		tell_errors_of(stage, said->event.slot);
		said->event.code = death_code(said->status);
		break;
	default:
		break;
	}
	weir_local_post(run, said->event);
}

/* What workers are made of: what it has stays when they are gone, and what none of them has in common with it is there
 * beside them. */
static void note_launcher(const struct stage *stage)
{
	const struct weir_launcher *launcher = stage->call->launcher;
	struct weir_session *session = stage->run->session;
	int64_t all = 0, alone = 0;

	if (launcher && launcher->memory)
		launcher->memory(launcher->self, &all, &alone);
	if (all == 0)
		return;
	atomic_store_explicit(&session->launcher_bytes, all, memory_order_relaxed);
	/* Between two workers all of it is its own, and will not be when the next one is there. */
	if (atomic_load_explicit(&session->workers_measured, memory_order_relaxed))
		atomic_store_explicit(&session->launcher_alone, alone, memory_order_relaxed);
}

static void *workers_main(void *argument)
{
	struct stage *stage = argument;
	struct weir_local_run *run = stage->run;
	uint64_t measured_ns = weir_clock_ns(), launcher_ns = 0;
	struct weir_pool_events said = {0};
	struct weir_error err = {0};
	bool ended = false;

	weir_log_use(weir_session_log(run->session));
	while (!ended) {
		uint64_t now = weir_clock_ns();
		int64_t left = (int64_t)(measured_ns + MEASURE_NS - now);
		bool measured = false;
		int code;

		said.count = 0;
		code = weir_pool_wait(stage->pool, left > 0 ? left : 0, &said, &err);
		if (!code && weir_clock_ns() - measured_ns >= MEASURE_NS) {
			measured_ns = weir_clock_ns();
			measured = true;
			if (measured_ns - launcher_ns >= LAUNCHER_NS) {
				launcher_ns = measured_ns;
				note_launcher(stage);
			}
			code = weir_pool_measure(stage->pool, &said, &err);
			weir_local_share_clear(run);
		}
		pthread_mutex_lock(&run->lock);
		for (size_t i = 0; i < said.count; i++)
			hear(stage, &said.items[i]);
		tell_errors(stage);
		if (measured && !run->ended) {
			trim_store(run);
			weir_local_tell_budget(run);
			weir_local_bound_workers(run);
		}
		if (code) { /* without its pool the run cannot even wind down */
			weir_error_at_operator(&err, stage->name);
			weir_local_give_up(run, &err);
		}
		ended = run->ended;
		pthread_mutex_unlock(&run->lock);
	}
	weir_list_release(&said, run->account);
	note_launcher(stage);
	pthread_mutex_lock(&run->lock);
	run->threads_running--;
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

/* ---- starting and ending ---- */

/* What all workers have at this moment, told to the executor. */
static int measure_all(struct weir_local_run *run, struct weir_error *err)
{
	int code = WEIR_OK;

	run->measures.count = 0;
	for (uint32_t s = 0; !code && s < run->stage_count; s++)
		if (run->stages[s].pool)
			code = weir_pool_measure(run->stages[s].pool, &run->measures, err);
	for (size_t i = 0; i < run->measures.count; i++)
		hear(&run->stages[run->measures.items[i].event.stage], &run->measures.items[i]);
	return code;
}

/* Outputs beyond what a task was allowed: the executor answers at once, or not. It goes by what workers have now, since
 * who asks has just made what he asks for; and before the pages are there others may not take them. */
static bool may_have_room(void *self, const struct weir_event *ask)
{
	struct weir_local_run *run = self;
	struct weir_error ignored = {0};
	bool granted;

	pthread_mutex_lock(&run->lock);
	if (ask->bytes >= ROOM_MEASURED)
		measure_all(run, &ignored);
	run->room_granted = false;
	weir_local_post(run, *ask);
	granted = run->room_granted;
	if (granted && ask->bytes >= ROOM_MEASURED)
		bound_workers(run, ask->bytes);
	pthread_mutex_unlock(&run->lock);
	return granted;
}

static bool waits_for_another(void *self)
{
	return weir_local_share_waits(self);
}

/* What lies there at once, also in the user's hands, is in the machine's memory. It is only mapped, but where the
 * system counts what is mapped, as much as the run may have must do, or a part of what this process may map. */
static uint64_t region_size(const struct weir_local_run *run)
{
	uint64_t size = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit;
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");

	if (file && fgetc(file) == '2')
		size = (uint64_t)run->session->memory_limit;
	if (file)
		fclose(file);
	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 16 < size)
		size = limit.rlim_cur / 16;
	/* Private maps of it count there: so it is for a Dataset that runs inside a worker. */
	if (!getrlimit(RLIMIT_DATA, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 16 < size)
		size = limit.rlim_cur / 16;
	return size;
}

int weir_local_pools_start(struct weir_local_run *run, struct weir_error *err)
{
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];
		const struct weir_pool_options options = {
			.store = run->store,
			.stage = s,
			.slots = stage->slots,
			.launcher = stage->call ? stage->call->launcher : NULL,
			.setup = stage->call ? stage->call->setup : -1,
			.setup_size = stage->call ? stage->call->setup_size : 0,
			.region_size = region_size(run),
			.prints = &run->prints,
			.may_have_room = may_have_room,
			.waits = waits_for_another,
			.self = run,
		};

		if (stage->kind == WEIR_STAGE_WORKERS && weir_pool_new(run->account, &options, &stage->pool, err))
			return err->code;
	}
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];
		int failed;

		if (stage->kind != WEIR_STAGE_WORKERS)
			continue;
		failed = pthread_create(&stage->thread, NULL, workers_main, stage);
		if (failed)
			return weir_error_set_errno(err, failed, "cannot start a thread");
		stage->thread_started = true;
		run->threads_running++;
	}
	return WEIR_OK;
}

void weir_local_pools_join(struct weir_local_run *run)
{
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];

		if (stage->thread_started)
			pthread_join(stage->thread, NULL);
		stage->thread_started = false;
		weir_pool_free(stage->pool);
		stage->pool = NULL;
		for (uint32_t i = 0; stage->workers && i < stage->slots * WEIR_WORKER_FLIGHT_MAX; i++) {
			struct local_given *given =
				&stage->workers[i / WEIR_WORKER_FLIGHT_MAX].given[i % WEIR_WORKER_FLIGHT_MAX];

			weir_origin_unref(given->origin);
			given->origin = NULL;
		}
		for (size_t i = 0; i < stage->errors.count; i++)
			if (stage->errors.items[i].said.chunk)
				weir_chunk_unref(stage->errors.items[i].said.chunk);
		weir_list_release(&stage->errors, run->account);
	}
	atomic_fetch_sub_explicit(&run->session->workers_measured, run->workers_measured, memory_order_relaxed);
	atomic_fetch_sub_explicit(&run->session->workers_busy, run->workers_busy, memory_order_relaxed);
	run->workers_measured = 0;
	run->workers_busy = 0;
	weir_descriptors_return(run);
}

/* ---- prints ---- */

void weir_local_run_prints(struct weir_local_run *run, void (*each)(void *state, const struct weir_run_print *line),
			   void *state)
{
	struct weir_print_list lines = {0};
	uint64_t dropped;

	if (!run->prints.is_open)
		return;
	dropped = weir_prints_take(&run->prints, &lines);
	for (size_t i = 0; i < lines.count; i++) {
		const struct weir_print *line = &lines.items[i];
		const struct weir_run_print out = {
			.operator_name = run->stages[line->stage].name,
			.slot = line->slot,
			.pid = line->pid,
			.is_stderr = line->is_stderr,
			.dropped = line->dropped,
			.text = line->text,
			.size = line->size,
		};

		each(state, &out);
	}
	if (dropped) { /* after the last of them, or all of them for want of memory */
		const struct weir_print *last = lines.count ? &lines.items[lines.count - 1] : NULL;
		const struct weir_run_print out = {
			.operator_name = run->stages[last ? last->stage : 0].name,
			.pid = last ? last->pid : 0,
			.is_stderr = true,
			.dropped = dropped,
		};

		each(state, &out);
	}
	weir_print_list_release(&lines, run->prints.account);
}

void weir_local_run_bell(struct weir_local_run *run, int eventfd)
{
	if (!run->prints.is_open)
		return;
	pthread_mutex_lock(&run->prints.lock);
	run->prints.doorbell = eventfd;
	pthread_mutex_unlock(&run->prints.lock);
}
