/* A run in this process: it makes the executor and the stages ready, starts their threads, and waits for the end in the
 * caller's thread, which measures memory ten times a second meanwhile and looks whether somebody asked to cancel.
 *
 *     new ─▶ wait ─▶ (clear ─▶ again ─▶ wait …) ─▶ free          cancel, wake and stats from any thread
 *
 *     first stage        then, as often as there are calls                    at last
 *     lanes: fragment ─▶ workers: call ─▶ lanes: template (if it has steps) ─▶ … ─▶ lanes with a sink, or the consumer
 *
 * Between stages lie chunks in the session's store. A run without calls has one stage and no chunks.
 *
 * A fragment behind an exchange has others before it. Each is first run to its end as a run of its own (a phase), by
 * the thread that waits for this one; memory is shared out anew afterwards. */
#include "base/clock.h"
#include "base/log.h"
#include "backend/local/local_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MEASURE_MS = 100, ASKED_MS = 5, RETURN_MS = 10 };
enum { CHUNK_BYTES = 8 << 20, WORKER_START = 16 << 20, BATCH_TIMES = 4, BUNDLE_BYTES = 128 << 20 };

/* ---- runs of one session ---- */

/* Runs share the session's memory equally; beyond that they take turns (share.c). With the session's lock. A run is
 * told of its share by its own thread, soon, and not from here: whoever tells it performs what follows, which may be to
 * cut a split. */
static void share_budget(struct weir_session *session)
{
	atomic_store_explicit(&session->runs_listed, (uint32_t)session->runs.count, memory_order_relaxed);
	for (size_t i = 0; i < session->runs.count; i++) {
		struct weir_local_run *run = session->runs.items[i];

		atomic_store_explicit(&run->budget_due, run->budget / (int64_t)session->runs.count,
				      memory_order_relaxed);
		pthread_cond_broadcast(&run->over);
	}
}

static int enlist(struct weir_local_run *run, struct weir_error *err)
{
	struct weir_session *session = run->session;
	int code;

	pthread_mutex_lock(&session->lock);
	code = weir_list_push(&session->runs, weir_mem_root(session->mem), err, run);
	run->listed = !code;
	if (!code)
		code = weir_local_share_begin(run, err);
	if (!code && session->runs.count > 1)
		share_budget(session);
	pthread_mutex_unlock(&session->lock);
	return code;
}

static void delist(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	size_t at = 0;

	weir_local_share_end(run);
	pthread_mutex_lock(&session->lock);
	if (run->listed) {
		while (session->runs.items[at] != run)
			at++;
		memmove(session->runs.items + at, session->runs.items + at + 1,
			(session->runs.count - at - 1) * sizeof(*session->runs.items));
		session->runs.count--;
		share_budget(session);
	}
	run->listed = false;
	pthread_mutex_unlock(&session->lock);
}

/* ---- making ready ---- */

static void stages_free(struct weir_local_run *run)
{
	for (uint32_t s = 0; s < run->stage_count; s++) {
		struct stage *stage = &run->stages[s];

		for (uint32_t i = 0; i < stage->lane_count; i++)
			pthread_cond_destroy(&stage->lanes[i].wake);
		weir_free(run->account, stage->lanes, stage->lane_count * sizeof(*stage->lanes));
		weir_free(run->account, stage->workers, stage->workers ? stage->slots * sizeof(*stage->workers) : 0);
		*stage = (struct stage){0};
	}
	run->stage_count = 0;
}

static int lanes_new(struct weir_local_run *run, struct stage *stage, uint32_t count, struct weir_error *err)
{
	stage->lanes = weir_alloc_zero(run->account, count * sizeof(*stage->lanes), err);
	if (!stage->lanes)
		return err->code;
	stage->lane_count = count;
	for (uint32_t i = 0; i < count; i++) {
		stage->lanes[i].run = run;
		stage->lanes[i].stage = stage;
		stage->lanes[i].number = i;
		pthread_cond_init(&stage->lanes[i].wake, NULL);
	}
	return WEIR_OK;
}

static int64_t or_default(int64_t given, int64_t instead)
{
	return given ? given : instead;
}

static void call_spec(const struct weir_session *session, const struct weir_call *call, struct weir_stage_spec *spec)
{
	int64_t chunk = or_default(call->chunk_bytes, CHUNK_BYTES), start = or_default(call->start, WORKER_START);

	*spec = (struct weir_stage_spec){
		.kind = WEIR_STAGE_WORKERS,
		.slots = (uint32_t)or_default(call->slots_max, session->threads),
		.in_flight_max = (uint32_t)or_default(call->in_flight, 2),
		.in_flight_short = call->in_flight ? 0 : WEIR_WORKER_FLIGHT_MAX,
		.slot_memory = or_default(call->memory, BATCH_TIMES * chunk + start),
		.slot_times = call->memory ? 0 : BATCH_TIMES,
		.slot_start = start,
		.name = call->name,
		.slots_first = (uint32_t)or_default(call->slots_first, 1),
		.slots_min = (uint32_t)or_default(call->slots_min, 1),
		.rows_min = call->whole_splits ? INT64_MAX : call->batch_rows,
		.by_split = call->whole_splits,
		.from_first = call->keeps_splits,
		.in_order = call->keeps_splits > 1,
		.rows_max_bytes = call->whole_splits ? chunk : 0,
		.milli_cpus = call->milli_cpus,
		.milli_gpus = call->milli_gpus,
		.errored_max = call->errored_max,
		.user_retries = call->user_retries,
		.attempts_max = call->attempts_max,
	};
	if (spec->slots < spec->slots_min)
		spec->slots = spec->slots_min;
	if (spec->in_flight_max > WEIR_WORKER_FLIGHT_MAX)
		spec->in_flight_max = WEIR_WORKER_FLIGHT_MAX;
}

/* What the executor is told of each stage; lanes' first grants come later. */
static int stage_specs(struct weir_local_run *run, struct weir_stage_spec *specs, uint32_t *count,
		       struct weir_error *err)
{
	const struct weir_run_tail *tail = run->tail;
	uint32_t threads = run->session->threads, lanes_max = run->fragment->lanes_max;

	specs[0] = (struct weir_stage_spec){.kind = WEIR_STAGE_LANES, .slots = threads, .name = "native"};
	if (lanes_max && lanes_max < threads)
		specs[0].slots = lanes_max;
	*count = 1 + (tail ? tail->stage_count : 0);
	if (*count > RUN_STAGES_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "%u stages in one run are more than %d", *count,
				      RUN_STAGES_MAX);
	for (uint32_t s = 1; s < *count; s++) {
		const struct weir_run_stage *stage = &tail->stages[s - 1];

		if (stage->kind == WEIR_STAGE_WORKERS) {
			call_spec(run->session, &stage->call, &specs[s]);
			continue;
		}
		specs[s] = (struct weir_stage_spec){.kind = WEIR_STAGE_LANES,
						    .slots = threads,
						    .name = stage->template.is_sink ? "write" : "native",
						    .rows_min = stage->template.rows_min,
						    .by_split = s > 1 && tail->stages[s - 2].call.keeps_splits};
		if (stage->template.lanes_max && stage->template.lanes_max < threads)
			specs[s].slots = stage->template.lanes_max;
	}
	return WEIR_OK;
}

/* Large first grants, since writers size their row groups by them, but never all: chunks want room too, and those who
 * ask. */
static void share_first_grants(const struct weir_local_run *run, struct weir_stage_spec *specs, uint32_t count,
			       int64_t budget)
{
	int64_t left = budget, lane = run->fragment->lane_bytes;
	uint32_t lanes = 0;

	/* Rather few that can work than many that cannot. */
	if (lane > 0 && budget / 4 * 3 / lane < specs[0].slots)
		specs[0].slots = budget / 4 * 3 > lane ? (uint32_t)(budget / 4 * 3 / lane) : 1;
	for (uint32_t s = 0; s < count; s++) {
		if (specs[s].kind == WEIR_STAGE_LANES)
			lanes += specs[s].slots;
		else
			left -= specs[s].slot_memory * specs[s].slots_first;
	}
	left = left > budget / 4 ? left : budget / 4;
	for (uint32_t s = 0; s < count; s++) {
		if (specs[s].kind == WEIR_STAGE_LANES)
			specs[s].slot_memory = run->tail ? left / 3 / lanes : left / 4 * 3 / lanes;
		/* A bundle lies in memory as a whole. */
		if (s > 0 && specs[s].rows_min == INT64_MAX) {
			int64_t most = or_default(specs[s].rows_max_bytes, BUNDLE_BYTES);

			specs[s].rows_max_bytes = left / 8 / specs[s].slots < most ? left / 8 / specs[s].slots : most;
		}
	}
}

/* Memory of this process that is in no account, beyond what the reserve is for: a program's own, malloc's loss. `anon`:
 * of weir_session_anon. */
static int64_t uncounted(const struct weir_session *session, int64_t anon, const struct weir_store_stats *store)
{
	int64_t bytes = anon - weir_session_accounted(session, store) - SESSION_RESERVE;

	return bytes > 0 ? bytes : 0;
}

/* Warm frames leave room for what is in no account, and for other processes. */
static void leave_room(struct weir_session *session, int64_t anon, const struct weir_store_stats *store)
{
	int64_t workers = atomic_load_explicit(&session->workers_measured, memory_order_relaxed);
	int64_t launcher = atomic_load_explicit(workers ? &session->launcher_alone : &session->launcher_bytes,
						memory_order_relaxed);

	weir_mem_beside(session->mem, SESSION_RESERVE + uncounted(session, anon, store) + workers + launcher);
}

/* A run that begins goes by what it finds, and so do warm frames: it may be over before it is measured. */
static int64_t uncounted_now(struct weir_session *session)
{
	struct weir_store *kept = weir_session_store_made(session);
	struct weir_store_stats store = {0};
	int64_t anon;

	if (kept)
		weir_store_stats(kept, &store);
	if (!weir_session_anon(session, &store, &anon))
		return 0;
	leave_room(session, anon, &store);
	return uncounted(session, anon, &store);
}

/* What the session holds already, and what the fragment's sink will keep, is not there for grants. */
static int64_t held_by_session(const struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	struct weir_mem_stats stats;
	int64_t held;

	weir_mem_stats(session->mem, &stats);
	held = stats.used - stats.apart + run->fragment->outside_bytes -
	       atomic_load_explicit(&session->setups, memory_order_relaxed) -
	       atomic_load_explicit(&session->lanes_used, memory_order_relaxed) -
	       atomic_load_explicit(&session->chunks_booked, memory_order_relaxed);
	held = (held > 0 ? held : 0) + uncounted_now(session) -
	       atomic_load_explicit(&session->held_for_loops, memory_order_relaxed);
	return held > 0 ? held : 0;
}

/* What is going to be kept of this run's own rows is off its budget from the start: measured, it would come too
 * late. */
static int64_t held_soon(const struct weir_local_run *run)
{
	int64_t most = run->tail ? run->tail->consumer.kept_max : 0, kept = most ? weir_session_kept(run->session) : 0;

	return kept < most ? most - kept : 0;
}

/* The most of it that grants make way for: half of the limit is always theirs. */
static int64_t held_max(const struct weir_local_run *run)
{
	return run->session->memory_limit / 2 - SESSION_RESERVE;
}

/* Beyond that, blocks that are kept go to disk: mostly they are what an exchange has read already. Not under the
 * lock. */
static void clear_kept(const struct weir_local_run *run)
{
	int64_t bytes = held_by_session(run) - held_max(run);

	if (bytes > 0)
		weir_session_spill_some(run->session, bytes);
}

/* A core and lanes for the fragment as it is now; those of an earlier attempt go. */
static int equip(struct weir_local_run *run, struct weir_error *err)
{
	struct weir_session *session = run->session;
	struct weir_stage_spec specs[RUN_STAGES_MAX];
	struct weir_core_options options = {.stages = specs};
	struct weir_core *core = NULL;
	int64_t setups;
	int code = stage_specs(run, specs, &options.stage_count, err);

	if (!code)
		code = weir_descriptors_fit(run, specs, options.stage_count, err);
	if (code)
		return code;
	options.limit = session->memory_limit;
	run->beside = weir_session_store_made(session);
	setups = atomic_load_explicit(&session->setups, memory_order_relaxed);
	run->held = held_by_session(run) + held_soon(run);
	if (run->held > held_max(run))
		run->held = held_max(run);
	options.budget = session->memory_limit - SESSION_RESERVE - run->held - setups;
	if (options.budget < session->memory_limit / 8)
		options.budget = session->memory_limit / 8;
	run->budget = run->share = run->share_told = options.budget;
	if (run->store) {
		struct weir_store_stats store;

		weir_store_stats(run->store, &store);
		run->program_before = weir_session_program_bytes(session);
		run->handed_out_before = store.held_by_user;
	}
	share_first_grants(run, specs, options.stage_count, options.budget);
	/* The promise is limit + 10 % for the process as the kernel sees it, what the reserve is for included. */
	options.overdraft = session->memory_limit + session->memory_limit / 10 - SESSION_RESERVE * 3 / 4 - run->held -
			    setups;
	if (options.overdraft > options.limit)
		options.overdraft = options.limit;
	if (options.overdraft < options.budget)
		options.overdraft = options.budget;
	run->overdraft = options.overdraft;
	run->parked_told = false;
	if (run->tail) {
		options.consumer = options.preserve_order = run->tail->consumer.deliver != NULL;
		options.milli_cpus = run->tail->milli_cpus;
		options.milli_gpus = run->tail->milli_gpus;
	}
	code = weir_core_new(run->account, &options, &core, err);
	if (code)
		return code;
	stages_free(run);
	weir_core_free(run->core);
	run->core = core;
	run->stage_count = options.stage_count;
	for (uint32_t s = 0; !code && s < options.stage_count; s++) {
		struct stage *stage = &run->stages[s];
		const struct weir_run_stage *given = s ? &run->tail->stages[s - 1] : NULL;

		*stage = (struct stage){.run = run, .index = s, .kind = specs[s].kind, .name = specs[s].name};
		stage->template = given && given->kind == WEIR_STAGE_LANES ? &given->template : NULL;
		stage->call = given && given->kind == WEIR_STAGE_WORKERS ? &given->call : NULL;
		stage->slots = specs[s].slots;
		stage->slot_memory = specs[s].slot_memory;
		if (specs[s].kind == WEIR_STAGE_LANES)
			code = lanes_new(run, stage, specs[s].slots, err);
		else if (!(stage->workers = weir_alloc_zero(run->account, stage->slots * sizeof(*stage->workers), err)))
			code = err->code;
	}
	return code;
}

/* What workers are given exists once, however many map it, and counts as long as the run may start one. */
static int charge_setups(struct weir_local_run *run, struct weir_error *err)
{
	const char *largest = NULL;
	int64_t bytes = 0, most = 0;
	char size[32], limit[32];

	for (uint32_t s = 0; s < run->tail->stage_count; s++) {
		const struct weir_call *call = &run->tail->stages[s].call;

		if (run->tail->stages[s].kind != WEIR_STAGE_WORKERS)
			continue;
		bytes += (int64_t)call->setup_size;
		if ((int64_t)call->setup_size > most) {
			most = (int64_t)call->setup_size;
			largest = call->name;
		}
	}
	/* The session's account asks nobody, and a worker that finds no room would be blamed for it. */
	if (bytes > run->session->memory_limit - SESSION_RESERVE - WORKER_START ||
	    weir_account_charge(run->account, bytes, err))
		return weir_error_set(err, WEIR_E_MEMORY,
				      "%s and what it refers to take %s, which the memory limit of %s has no room for",
				      largest ? largest : "the function", weir_format_bytes(most, size, sizeof(size)),
				      weir_format_bytes(run->session->memory_limit, limit, sizeof(limit)));
	run->setups = bytes;
	atomic_fetch_add_explicit(&run->session->setups, bytes, memory_order_relaxed);
	return WEIR_OK;
}

int weir_local_run_new_staged(struct weir_session *session, struct weir_fragment *fragment,
			      const struct weir_run_tail *tail, struct weir_local_run **out, struct weir_error *err)
{
	struct weir_account *account = weir_session_account(session);
	struct weir_local_run *run = weir_alloc_zero(account, sizeof(*run), err);
	pthread_condattr_t monotonic;
	int code = WEIR_OK;

	if (!run)
		return err->code;
	run->session = session;
	run->fragment = fragment;
	run->tail = tail;
	run->account = account;
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->disk_wake, NULL);
	pthread_cond_init(&run->cut_wake, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&run->over, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (tail) {
		code = weir_session_store(session, &run->store, err);
		if (!code)
			code = weir_prints_init(&run->prints, account, -1, err);
		if (!code)
			code = charge_setups(run, err);
	}
	if (!code) {
		clear_kept(run);
		code = equip(run, err);
	}
	if (code) {
		weir_local_run_free(run);
		return code;
	}
	*out = run;
	return WEIR_OK;
}

int weir_local_run_new(struct weir_session *session, struct weir_fragment *fragment, struct weir_local_run **out,
		       struct weir_error *err)
{
	return weir_local_run_new_staged(session, fragment, NULL, out, err);
}

/* Each exchange has a sink in a fragment that runs before, whatever its source became a part of. */
static void exchange_counts(const struct weir_fragment *fragment, struct weir_run_stats *out)
{
	const uint32_t capacity = sizeof(out->exchanges) / sizeof(*out->exchanges);

	for (const struct weir_fragment *f = fragment->before; f; f = f->next) {
		struct weir_exchange_counts counts = {0};

		exchange_counts(f, out);
		if (out->exchange_count < capacity && f->sink_ops->exchange_counts &&
		    f->sink_ops->exchange_counts(f->sink, &counts))
			out->exchanges[out->exchange_count++] = counts;
	}
}

static uint64_t rows_pruned(const struct weir_local_run *run)
{
	const struct weir_source_ops *ops = run->fragment->source_ops;

	return ops->rows_pruned ? ops->rows_pruned(run->fragment->source) : 0;
}

void weir_local_run_clear(struct weir_local_run *run)
{
	pthread_mutex_lock(&run->lock);
	weir_local_tasks_free(run);
	run->cleared = true;
	pthread_mutex_unlock(&run->lock);
}

bool weir_local_run_retire(struct weir_local_run *run)
{
	bool has_exchanges;

	pthread_mutex_lock(&run->lock);
	has_exchanges = !run->cleared && run->fragment->before;
	if (has_exchanges) {
		exchange_counts(run->fragment, &run->retired);
		run->retired.rows_pruned = rows_pruned(run);
		run->first_task += run->tasks.count; /* they are still known to have been */
		weir_local_tasks_free(run);
		run->cleared = true;
	}
	pthread_mutex_unlock(&run->lock);
	return has_exchanges;
}

int weir_local_run_again(struct weir_local_run *run, struct weir_error *err)
{
	int code;

	clear_kept(run);
	pthread_mutex_lock(&run->lock);
	code = equip(run, err);
	if (!code) {
		run->events.count = run->actions.count = 0;
		run->first_task = run->first_open = run->splits_done = run->rows_delivered = 0;
		run->bytes_est_known = run->bytes_est_done = run->refused_task = run->ended_ns = 0;
		run->splits_end = run->ended = run->stepping = run->cleared = run->phases_over = false;
		run->phases = (struct weir_run_stats){0};
		run->end_code = WEIR_OK;
		weir_error_clear(&run->error);
		weir_error_clear(&run->refused);
	}
	pthread_mutex_unlock(&run->lock);
	return code;
}

void weir_local_run_free(struct weir_local_run *run)
{
	if (!run)
		return;
	weir_local_tasks_free(run);
	weir_local_chunks_free(run);
	weir_local_failures_free(run);
	weir_list_release(&run->tasks, run->account);
	weir_list_release(&run->events, run->account);
	weir_list_release(&run->actions, run->account);
	weir_list_release(&run->chunks, run->account);
	weir_list_release(&run->parts, run->account);
	weir_list_release(&run->measures, run->account);
	weir_list_release(&run->disk_queue, run->account);
	weir_list_release(&run->failures, run->account);
	weir_list_release(&run->left_out, run->account);
	weir_prints_release(&run->prints);
	weir_core_free(run->core);
	stages_free(run);
	weir_descriptors_return(run);
	atomic_fetch_sub_explicit(&run->session->setups, run->setups, memory_order_relaxed);
	weir_account_discharge(run->account, run->setups);
	pthread_cond_destroy(&run->over);
	pthread_cond_destroy(&run->disk_wake);
	pthread_cond_destroy(&run->cut_wake);
	pthread_mutex_destroy(&run->lock);
	weir_free(run->account, run, sizeof(*run));
}

/* ---- running ---- */

void weir_local_run_cancel(struct weir_local_run *run)
{
	/* relaxed: the waiting thread looks again within MEASURE_MS */
	atomic_store_explicit(&run->cancel_requested, true, memory_order_relaxed);
}

void weir_local_run_wake(struct weir_local_run *run)
{
	pthread_mutex_lock(&run->lock);
	if (run->phase)
		weir_local_run_wake(run->phase);
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
}

void weir_local_return_free(struct weir_local_run *run)
{
	uint64_t now = weir_clock_ns(), before = atomic_load_explicit(&run->returned_ns, memory_order_relaxed);
	struct weir_mem_stats stats;
	struct weir_store_stats store = {0};
	int64_t anon;

	/* Tasks of later stages are short: once in a while will do for them. */
	if (run->tail && now - before < RETURN_MS * 1000000ull)
		return;
	atomic_store_explicit(&run->returned_ns, now, memory_order_relaxed);
	if (run->beside)
		weir_store_stats(run->beside, &store);
	if (!weir_session_anon(run->session, &store, &anon))
		return;
	weir_mem_stats(run->session->mem, &stats);
	if (anon > run->session->memory_limit - SESSION_RESERVE / 2)
		weir_mem_trim(run->session->mem, 0);
	else if (anon - (stats.used - stats.apart) - stats.warm > SESSION_RESERVE / 2)
		weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
}

/* Its part of what the session's runs use. */
static void tell_session(struct weir_local_run *run, int64_t used, int64_t booked)
{
	atomic_fetch_add_explicit(&run->session->lanes_used, used - run->told_used, memory_order_relaxed);
	atomic_fetch_add_explicit(&run->session->chunks_booked, booked - run->told_booked, memory_order_relaxed);
	run->told_used = used;
	run->told_booked = booked;
}

/* Without the chunks that it makes: those are the store's. */
static int64_t own_bytes(const struct weir_account *account)
{
	return atomic_load_explicit(&account->used, memory_order_relaxed) -
	       atomic_load_explicit(&account->claimed, memory_order_relaxed);
}

/* What the kernel sees beyond what the lanes' accounts explain, and what the store keeps warm or for later. */
static void measure(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	struct weir_mem_stats stats;
	struct weir_store_stats store = {0};
	struct weir_core_stats core = {0};
	int64_t anon, beyond, kept, used = 0;

	run->measured_ns = weir_clock_ns();
	if (run->beside)
		weir_store_stats(run->beside, &store);
	if (!weir_session_anon(session, &store, &anon))
		return;
	weir_mem_stats(session->mem, &stats);
	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; i < run->stages[s].lane_count; i++)
			used += own_bytes(&run->stages[s].lanes[i].account);
	weir_core_stats(run->core, &core);
	tell_session(run, used, run->store ? core.resident + core.granted : 0);
	/* Footers, listings and what sinks keep for their commit are charged to the session, not to a grant. */
	beyond = anon - stats.warm - SESSION_RESERVE -
		 atomic_load_explicit(&session->lanes_used, memory_order_relaxed) -
		 atomic_load_explicit(&session->held_for_loops, memory_order_relaxed);
	if (run->store)
		beyond -= weir_local_program_bytes(run);
	beyond = beyond > 0 ? beyond : 0;
	/* What is resident and in no executor's books: rows of exchanges, blocks that are kept. What the user holds is
	 * not ours. */
	kept = store.resident - store.held_by_user -
	       atomic_load_explicit(&session->chunks_booked, memory_order_relaxed);
	beyond += kept > 0 ? kept : 0;
	leave_room(session, anon, &store);
	/* What was there before the run is off its budget already, be it in the process or in the store. */
	beyond = (beyond > run->held ? beyond - run->held : 0) + store.warm + store.spilled_memory;
	weir_local_post(run, (struct weir_event){.kind = WEIR_EV_MEASURED,
						 .slot = WEIR_NO_SLOT,
						 .bytes = weir_local_part(run, beyond)});
	weir_local_tell_budget(run);
}

void weir_local_measure_soon(struct weir_local_run *run)
{
	if (!run->ended && weir_clock_ns() - run->measured_ns >= ASKED_MS * 1000000ull)
		measure(run);
}

static int start_lanes(struct weir_local_run *run, struct stage *stage, struct weir_error *err)
{
	pthread_attr_t attributes;
	uint32_t started = 0;
	int failed = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)1 << 20);
	for (; started < stage->lane_count && !failed; started += !failed) {
		struct lane *lane = &stage->lanes[started];

		failed = pthread_create(&lane->thread, &attributes, weir_lane_main, lane);
		lane->thread_started = !failed;
		run->threads_running += !failed;
	}
	pthread_attr_destroy(&attributes);
	/* Some lanes are as good as all of them, only slower. */
	if (failed && started == 0)
		return weir_error_set_errno(err, failed, "cannot start a thread");
	if (failed)
		weir_log(WEIR_LOG_WARN, "only %u of %u threads could be started", started, stage->lane_count);
	return WEIR_OK;
}

/* Worker processes first: they take longest to be there. */
static int start_threads(struct weir_local_run *run, struct weir_error *err)
{
	int code = WEIR_OK;

	if (run->tail)
		code = weir_local_pools_start(run, err);
	if (!code)
		code = weir_local_cutter_start(run, err);
	if (!code) /* without a pool there is nobody to perform what follows */
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_START});
	if (!code && run->tail)
		code = weir_local_disks_start(run, err);
	for (uint32_t s = 0; !code && s < run->stage_count; s++)
		code = start_lanes(run, &run->stages[s], err);
	return code;
}

static void join_threads(struct weir_local_run *run)
{
	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; i < run->stages[s].lane_count; i++)
			if (run->stages[s].lanes[i].thread_started)
				pthread_join(run->stages[s].lanes[i].thread, NULL);
	weir_local_disks_join(run);
	weir_local_pools_join(run);
	weir_local_cutter_join(run);
}

static int commit(struct weir_local_run *run, struct weir_error *err)
{
	const struct stage *last = &run->stages[run->stage_count - 1];

	if (run->tail && run->tail->consumer.deliver)
		return WEIR_OK;
	if (last->template)
		return last->template->commit(last->template->state, err);
	return run->fragment->sink_ops->commit(run->fragment->sink, err);
}

static bool is_cancelled(const struct weir_local_run *run)
{
	/* relaxed: looked at again within MEASURE_MS */
	return atomic_load_explicit(&run->cancel_requested, memory_order_relaxed) ||
	       (run->cancel_above && atomic_load_explicit(run->cancel_above, memory_order_relaxed));
}

/* ---- phases ---- */

/* The figures of `more` behind those of `sum`: as if both had been one run. */
static void add_stats(struct weir_run_stats *sum, const struct weir_run_stats *more)
{
	const uint32_t capacity = sizeof(sum->ops) / sizeof(*sum->ops);

	sum->splits_done += more->splits_done;
	sum->splits_known += more->splits_known;
	sum->bytes_est_done += more->bytes_est_done;
	sum->bytes_est_known += more->bytes_est_known;
	sum->rows_pruned += more->rows_pruned;
	sum->core.give_ups += more->core.give_ups;
	sum->core.wait_ns_memory += more->core.wait_ns_memory;
	sum->core.wait_ns_turn += more->core.wait_ns_turn;
	for (uint32_t i = 0; i < more->op_count && sum->op_count < capacity; i++)
		sum->ops[sum->op_count++] = more->ops[i];
}

static int run_phase(struct weir_local_run *run, struct weir_fragment *fragment, struct weir_error *err)
{
	struct weir_local_run *phase = NULL;
	struct weir_run_stats stats;
	int code = WEIR_OK;

	/* Those before it first: they make what it may have to do. */
	for (struct weir_fragment *before = fragment->before; before && !code; before = before->next)
		code = run_phase(run, before, err);
	if (code || (fragment->source_ops->is_needed && !fragment->source_ops->is_needed(fragment->source)))
		return code;
	code = weir_local_run_new(run->session, fragment, &phase, err);
	if (code)
		return code;
	phase->phases_over = true;
	phase->cancel_above = run->cancel_above ? run->cancel_above : &run->cancel_requested;
	pthread_mutex_lock(&run->lock);
	run->phase = phase;
	pthread_mutex_unlock(&run->lock);
	code = weir_local_run_wait(phase, err);
	weir_local_run_stats(phase, &stats);
	pthread_mutex_lock(&run->lock);
	run->phase = NULL;
	add_stats(&run->phases, &stats);
	pthread_mutex_unlock(&run->lock);
	weir_local_run_free(phase);
	return code;
}

static int run_phases(struct weir_local_run *run, struct weir_error *err)
{
	int code = WEIR_OK;

	pthread_mutex_lock(&run->lock);
	if (!run->started_ns)
		run->started_ns = weir_clock_ns();
	pthread_mutex_unlock(&run->lock);
	if (run->phases_over) /* a phase: the run that it is part of has run what comes before it */
		return WEIR_OK;
	for (struct weir_fragment *before = run->fragment->before; before && !code; before = before->next)
		code = run_phase(run, before, err);
	if (code || !run->fragment->before)
		return code;
	/* What they left behind is charged to the session now. */
	clear_kept(run);
	pthread_mutex_lock(&run->lock);
	code = equip(run, err);
	pthread_mutex_unlock(&run->lock);
	return code;
}

bool weir_local_run_failed_before(const struct weir_local_run *run)
{
	return !run->phases_over;
}

/* Where memory did not suffice beside an exchange of large rows, these are the reason, and the message says so. */
static void name_rows(const struct weir_local_run *run, struct weir_error *err)
{
	struct weir_run_stats stats = {0};
	const struct weir_exchange_counts *found = NULL;
	size_t length = strlen(err->message);
	char size[24];

	exchange_counts(run->fragment, &stats);
	if (run->fragment->sink_ops && run->fragment->sink_ops->exchange_counts &&
	    stats.exchange_count < sizeof(stats.exchanges) / sizeof(*stats.exchanges) &&
	    run->fragment->sink_ops->exchange_counts(run->fragment->sink, &stats.exchanges[stats.exchange_count]))
		stats.exchange_count++;
	for (uint32_t i = 0; i < stats.exchange_count; i++) {
		const struct weir_exchange_counts *counts = &stats.exchanges[i];

		if (counts->rows &&
		    counts->bytes / counts->rows >= (uint64_t)run->session->memory_limit / LARGE_ROW_SHARE &&
		    (!found || counts->bytes / counts->rows > found->bytes / found->rows))
			found = counts;
	}
	if (found)
		snprintf(err->message + length, sizeof(err->message) - length,
			 "; rows of %s have %s on average, of which several lie in memory at once", found->name,
			 weir_format_bytes((int64_t)(found->bytes / found->rows), size, sizeof(size)));
}

int weir_local_run_wait(struct weir_local_run *run, struct weir_error *err)
{
	bool cancel_sent = false;
	uint64_t due_ns;
	int code = run_phases(run, err);

	run->phases_over = !code;
	if (!code)
		code = enlist(run, err);
	if (code) {
		delist(run);
		return code;
	}
	pthread_mutex_lock(&run->lock);
	code = start_threads(run, err);
	if (code)
		weir_local_give_up(run, err);
	due_ns = weir_clock_ns() + MEASURE_MS * 1000000ull;
	while (run->threads_running > 0) {
		/* By the clock, however often it is woken before: loops and other runs do so all the time. */
		struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000u),
					 .tv_nsec = (long)(due_ns % 1000000000u)};

		if (!cancel_sent && is_cancelled(run)) {
			cancel_sent = true;
			weir_local_post(run, (struct weir_event){.kind = WEIR_EV_CANCEL, .code = WEIR_E_CANCELLED});
		}
		weir_local_tell_budget(run);
		pthread_cond_timedwait(&run->over, &run->lock, &until);
		if (weir_clock_ns() < due_ns)
			continue;
		weir_local_return_free(run);
		if (!run->ended)
			measure(run);
		due_ns = weir_clock_ns() + MEASURE_MS * 1000000ull;
	}
	pthread_mutex_unlock(&run->lock);
	delist(run);
	join_threads(run);
	tell_session(run, 0, 0);
	weir_local_chunks_free(run);
	if (!code && run->end_code) {
		*err = run->error;
		code = err->code ? err->code : weir_error_set(err, run->end_code, "%s", weir_code_text(run->end_code));
	}
	if (!code)
		code = commit(run, err);
	if (code == WEIR_E_LIMIT || code == WEIR_E_MEMORY)
		name_rows(run, err);
	pthread_mutex_lock(&run->lock);
	run->ended_ns = weir_clock_ns();
	pthread_mutex_unlock(&run->lock);
	weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
	if (run->store)
		weir_store_trim(run->store, WEIR_WARM_MAX);
	return code;
}

/* ---- stats ---- */

/* The operators of a stage, behind those before it. */
static void stage_ops(const struct stage *stage, struct weir_run_stats *out)
{
	uint32_t first = out->op_count, capacity = sizeof(out->ops) / sizeof(*out->ops);

	if (stage->kind == WEIR_STAGE_WORKERS && first < capacity) {
		out->ops[first].name = stage->name;
		out->ops[first].rows_out = stage->rows_out;
		out->op_count++;
	}
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		const struct lane *lane = &stage->lanes[i];

		for (uint32_t k = 0; k < lane->op_count && first + k < capacity; k++) {
			struct weir_op_counts *sum = &out->ops[first + k];

			sum->name = lane->ops[k].name;
			sum->rows_out += lane->ops[k].rows_out;
			sum->vectors += lane->ops[k].vectors;
			sum->time_ns += lane->ops[k].time_ns;
			if (out->op_count < first + k + 1)
				out->op_count = first + k + 1;
		}
	}
}

/* What the phases have done comes first. */
static void put_behind_phases(struct weir_local_run *run, struct weir_run_stats *out)
{
	struct weir_run_stats own = *out, phase;

	memcpy(out->ops, run->phases.ops, sizeof(out->ops));
	out->op_count = 0;
	out->splits_done = out->splits_known = out->bytes_est_done = out->bytes_est_known = out->rows_pruned = 0;
	add_stats(out, &run->phases);
	if (run->phase) {
		weir_local_run_stats(run->phase, &phase);
		add_stats(out, &phase);
	}
	add_stats(out, &own);
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
	out->stage_count = run->stage_count;
	out->lanes = run->stages[0].lane_count;
	weir_core_stats(run->core, &out->core);
	out->memory_limit = run->session->memory_limit;
	out->memory_used = memory.used + memory.warm;
	out->memory_peak = memory.peak;
	out->rows_out = run->tail && run->tail->consumer.deliver ? run->rows_delivered
								 : run->stages[run->stage_count - 1].rows_out;
	out->rows_pruned = run->cleared ? run->retired.rows_pruned : rows_pruned(run);
	out->exchange_count = run->retired.exchange_count;
	memcpy(out->exchanges, run->retired.exchanges, sizeof(out->exchanges));
	if (!run->cleared)
		exchange_counts(run->fragment, out);
	for (uint32_t s = 0; s < run->stage_count; s++)
		stage_ops(&run->stages[s], out);
	if (run->phase || run->phases.op_count)
		put_behind_phases(run, out);
	out->rows_in = out->op_count ? out->ops[0].rows_out : 0;
	pthread_mutex_unlock(&run->lock);
}

const char *weir_local_run_stage_stats(struct weir_local_run *run, uint32_t stage, struct weir_stage_stats *out)
{
	const char *name = NULL;

	*out = (struct weir_stage_stats){0};
	pthread_mutex_lock(&run->lock);
	if (stage < run->stage_count) {
		weir_core_stage_stats(run->core, stage, out);
		name = run->stages[stage].name;
	}
	pthread_mutex_unlock(&run->lock);
	return name;
}
