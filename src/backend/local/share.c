/* Memory among runs at the same time. Each has its share of the budget; together the shares are what one run has by
 * itself. Beyond its share a run's oldest task may go up to the limit, with what the others leave, by turns:
 *
 *     wants        its oldest waits for more than the run's share has (weir_core_load)
 *     has the turn of those that want, the one that has waited longest, until it wants no more and no batch of it has
 *                  all memory
 *     the others   have what it leaves, alike. Who has more than that is parked: nothing of it starts, what only waits
 *                  gives up what it has (exec.h, BUDGET)
 *
 * The one with the turn waits for what will be heard of by itself in other runs, and for what the program was handed
 * while it is at work (lent). When none of them moves, what they still have is theirs (apart), as is what the program
 * keeps while all its loops wait, up to half of the limit; it goes on with the rest, or ends with an error that has the
 * figures. So nobody waits for one that cannot move.
 *
 * A run does not move either while its threads wait for somebody outside: for rows of another run (functions in front
 * of an exchange, a stream that the program makes), or for the program to take some (weir_local_wait_begin). None of
 * them has its run's lock meanwhile, so that the run hears of turns all the same (cut.c), and nothing here takes
 * another run's.
 *
 * Threads. Figures of all runs are under session->share_lock, which is taken inside a run's lock and takes the store's
 * alone. A run is told what follows from them by its own threads, at their next measurement or when they are woken. */
#include "base/clock.h"
#include "backend/local/local_impl.h"

#include <string.h>

#define LEAST ((int64_t)8 << 20)      /* with less than that a run only keeps memory from others */
#define UNMEASURED ((int64_t)8 << 20) /* of a worker at work */
#define QUIET_NS ((uint64_t)1000000000)

enum { HANDED_OUT_PART = 2 };

/* ---- threads that wait for somebody outside ---- */

static _Thread_local struct local_here *here;

void weir_local_here_begin(struct local_here *place, struct weir_local_run *run)
{
	*place = (struct local_here){.run = run, .above = here};
	here = place;
}

void weir_local_here_end(struct local_here *place)
{
	here = place->above;
}

static void change_blocked(int change)
{
	for (const struct local_here *at = here; at; at = at->above) {
		atomic_fetch_add_explicit(&at->run->blocked, change, memory_order_relaxed);
		if (at->cuts)
			atomic_fetch_add_explicit(&at->run->blocked_cutting, change, memory_order_relaxed);
	}
}

void weir_local_wait_begin(void)
{
	change_blocked(1);
}

void weir_local_wait_end(void)
{
	change_blocked(-1);
}

/* ---- figures ---- */

bool weir_local_is_shared(const struct weir_local_run *run)
{
	return atomic_load_explicit(&run->session->runs_listed, memory_order_relaxed) > 1;
}

static void wake_all(struct weir_session *session)
{
	for (size_t i = 0; i < session->sharing.count; i++)
		pthread_cond_broadcast(&session->sharing.items[i]->over);
}

int weir_local_share_begin(struct weir_local_run *run, struct weir_error *err)
{
	struct weir_session *session = run->session;
	int code;

	pthread_mutex_lock(&session->share_lock);
	run->load = (struct local_load){0};
	code = weir_list_push(&session->sharing, weir_mem_root(session->mem), err, run);
	pthread_mutex_unlock(&session->share_lock);
	return code;
}

static void end_turn(struct weir_session *session)
{
	session->turn = NULL;
	session->turn_number++;
	wake_all(session);
}

void weir_local_share_end(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	size_t at = 0;

	pthread_mutex_lock(&session->share_lock);
	while (at < session->sharing.count && session->sharing.items[at] != run)
		at++;
	if (at < session->sharing.count) {
		memmove(session->sharing.items + at, session->sharing.items + at + 1,
			(session->sharing.count - at - 1) * sizeof(*session->sharing.items));
		session->sharing.count--;
	}
	if (session->turn == run)
		end_turn(session);
	pthread_mutex_unlock(&session->share_lock);
}

int64_t weir_local_launcher_part(const struct weir_session *session, int64_t bytes)
{
	int64_t all = atomic_load_explicit(&session->workers_measured, memory_order_relaxed);
	int64_t alone = atomic_load_explicit(&session->launcher_alone, memory_order_relaxed);

	return bytes < all ? (int64_t)((double)alone * (double)bytes / (double)all) : all > 0 ? alone : 0;
}

static int64_t workers_memory(const struct weir_local_run *run)
{
	int64_t bytes = weir_local_launcher_part(run->session, run->workers_measured);

	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; run->stages[s].workers && i < run->stages[s].slots; i++) {
			const struct local_worker *worker = &run->stages[s].workers[i];

			bytes += worker->measured ? worker->measured : worker->in_flight ? UNMEASURED : 0;
		}
	return bytes;
}

void weir_local_share_note(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	struct weir_core_load core;
	struct local_load load;

	weir_core_load(run->core, &core);
	load = (struct local_load){.budget = run->budget,
				   .share = run->share,
				   .booked = core.booked,
				   .has = core.without_workers + workers_memory(run),
				   .delivered = core.delivered,
				   .wants = core.wants,
				   .has_all = core.has_all,
				   .active = (int)core.active};
	pthread_mutex_lock(&session->share_lock);
	load.wants_since_ns = !load.wants ? 0 : run->load.wants ? run->load.wants_since_ns : weir_clock_ns();
	load.turn_seen = run->load.turn_seen;
	/* Somebody may have waited for that. */
	if (session->turn ? session->turn != run && load.active < run->load.active : load.wants && !run->load.wants)
		wake_all(session);
	run->load = load;
	pthread_mutex_unlock(&session->share_lock);
}

/* ---- turns ---- */

/* Whoever makes a stream may wait for anybody, without a word: one that has not been heard of for a while is not waited
 * for. */
static bool cuts_for_long(const struct weir_local_run *run)
{
	uint64_t since = atomic_load_explicit(&run->cut_since_ns, memory_order_relaxed);

	return since && weir_clock_ns() - since >= QUIET_NS &&
	       atomic_load_explicit(&run->blocked_cutting, memory_order_relaxed) == 0;
}

/* Nothing will be heard of it by itself: it knows whose turn it is, and all that is active in it waits. */
static bool is_still(const struct weir_local_run *run)
{
	return run->load.turn_seen == run->session->turn_number &&
	       run->load.active <= atomic_load_explicit(&run->blocked, memory_order_relaxed) + cuts_for_long(run);
}

static void choose(struct weir_session *session)
{
	struct weir_local_run *first = NULL;

	if (session->turn && !session->turn->load.wants && !session->turn->load.has_all)
		end_turn(session);
	for (size_t i = 0; !session->turn && i < session->sharing.count; i++) {
		struct weir_local_run *run = session->sharing.items[i];

		if (run->load.wants && (!first || run->load.wants_since_ns < first->load.wants_since_ns))
			first = run;
	}
	if (first) {
		session->turn = first;
		session->turn_number++;
		wake_all(session);
	}
}

/* What the run with the turn leaves each of the others. */
static int64_t left_by_turn(const struct weir_session *session)
{
	const struct weir_local_run *run = session->turn;
	int64_t left;

	if (run->load.has_all || run->load.wants == INT64_MAX)
		return 0;
	left = (run->load.budget - run->load.booked - run->load.wants) / ((int64_t)session->sharing.count - 1);
	return left > 0 ? left : 0;
}

/* Some have more than their share, since they had their turn: the others go without it. */
static int64_t left_without_turn(const struct weir_session *session, const struct weir_local_run *run)
{
	int64_t beyond = 0, within = 0;

	for (size_t i = 0; i < session->sharing.count; i++) {
		const struct weir_local_run *other = session->sharing.items[i];
		int64_t more = other->load.has - other->load.share;

		beyond += more > 0 ? more : 0;
		within += more <= 0;
	}
	return run->load.has > run->share || !within
		       ? run->share
		       : run->share - (beyond / within < run->share ? beyond / within : run->share);
}

/* What the program holds of all runs' rows: chunks, and batches that loops have made of them. */
static int64_t handed_out(struct weir_local_run *run)
{
	struct weir_store_stats store = {0};

	if (run->store)
		weir_store_stats(run->store, &store);
	return store.held_by_user + weir_session_program_bytes(run->session);
}

/* Whether all loops over runs wait for rows: then none lets go of what it holds. */
static bool all_loops_wait(const struct weir_session *session)
{
	for (size_t i = 0; i < session->sharing.count; i++) {
		const struct weir_local_run *run = session->sharing.items[i];

		if (run->tail && run->tail->consumer.deliver &&
		    !atomic_load_explicit(&run->awaited, memory_order_relaxed))
			return false;
	}
	return true;
}

/* What it held, `held`, if it is at work with them: then it lets go of it. Nobody knows whether it will ever; who has
 * taken nothing and let go of nothing for QUIET_NS may be waiting for the very run that asks. */
static int64_t held_by_program(struct weir_local_run *run, int64_t held, bool *is_at_work)
{
	struct weir_session *session = run->session;
	int64_t before = run->handed_out_before + run->program_before;
	uint64_t now = weir_clock_ns();

	if (held != session->held)
		session->taken_ns = now;
	session->held = held;
	*is_at_work = now - session->taken_ns < QUIET_NS && !all_loops_wait(session);
	return *is_at_work && held > before ? held - before : 0;
}

bool weir_local_share_waits(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	bool waits;

	pthread_mutex_lock(&session->share_lock);
	waits = session->turn && session->turn != run && session->sharing.count > 1;
	pthread_mutex_unlock(&session->share_lock);
	return waits;
}

static bool is_to_clear(const struct weir_local_run *run)
{
	return run->session->turn == run && run->load.wants == INT64_MAX &&
	       run->session->turn_cleared != run->session->turn_number;
}

void weir_local_share_clear(struct weir_local_run *run)
{
	struct weir_session *session = run->session;
	uint64_t turn;
	bool wanted;

	if (!weir_local_is_shared(run))
		return;
	pthread_mutex_lock(&session->share_lock);
	wanted = is_to_clear(run);
	turn = session->turn_number;
	pthread_mutex_unlock(&session->share_lock);
	if (!wanted)
		return;
	weir_session_spill_some(session, INT64_MAX);
	pthread_mutex_lock(&session->share_lock);
	session->turn_cleared = turn;
	pthread_mutex_unlock(&session->share_lock);
}

void weir_local_share(struct weir_local_run *run, struct local_share *out)
{
	struct weir_session *session = run->session;
	bool is_at_work = false;
	int64_t left, held;

	*out = (struct local_share){.budget = run->share};
	if (!weir_local_is_shared(run) || run->ended)
		return;
	weir_local_share_note(run);
	held = handed_out(run);
	pthread_mutex_lock(&session->share_lock);
	if (session->sharing.count > 1) {
		choose(session);
		run->load.turn_seen = session->turn_number;
		left = session->turn ? left_by_turn(session) : 0;
		out->has_turn = session->turn == run;
		if (out->has_turn) {
			int64_t most = session->memory_limit / HANDED_OUT_PART,
				kept = held - run->handed_out_before - run->program_before;

			out->lent = held_by_program(run, held, &is_at_work) + is_to_clear(run);
			/* While all of its loops wait the program keeps what it has, and it may be much. */
			out->apart = is_at_work || kept < 0 ? 0 : kept < most ? kept : most;
		}
		if (!session->turn) {
			out->waits = true;
			out->budget = left_without_turn(session, run);
		} else if (session->turn != run) {
			out->waits = true;
			out->parked = left < LEAST || run->load.has > left;
			out->budget = left < run->share ? left : run->share;
		}
		for (size_t i = 0; session->turn == run && i < session->sharing.count; i++) {
			const struct weir_local_run *other = session->sharing.items[i];
			int64_t has = other->load.has;

			if (other == run)
				continue;
			if (is_still(other)) {
				int64_t soon = is_at_work ? other->load.delivered : 0;

				out->apart += has - soon;
				out->lent += soon;
			} else {
				/* It may grow to what it was given before it ends. */
				int64_t most = has > left ? other->load.share : left;

				out->lent += has > most ? has : most;
			}
		}
		/* Its books have workers at what they are taken to need; the others have only what they have. */
		if (out->has_turn && out->apart > 0) {
			out->apart -= run->load.booked - run->load.has;
			out->apart = out->apart > 0 ? out->apart : 0;
		}
	}
	pthread_mutex_unlock(&session->share_lock);
}

/* ---- what the executor is told ---- */

int64_t weir_local_part(const struct weir_local_run *run, int64_t bytes)
{
	int64_t runs = atomic_load_explicit(&run->session->runs_listed, memory_order_relaxed);

	return bytes / (runs > 1 ? runs : 1);
}

/* What the user holds of chunks is his, but a loop works on parts of chunks and lets go of each when the next is there.
 * The machine should not be fuller than the limit for that, so the budget goes without; up to a part, since he may as
 * well keep all that he is given. */
static int64_t held_by_user(struct weir_local_run *run)
{
	int64_t bytes;
	struct weir_store_stats store;

	if (!run->store)
		return 0;
	weir_store_stats(run->store, &store);
	bytes = store.held_by_user - run->handed_out_before;
	return weir_local_part(run, (bytes > 0 ? bytes : 0) + weir_local_program_bytes(run));
}

/* What workers are made of, while there are none: they count what they have in common with it, and bring the rest
 * along. */
static int64_t launcher_bytes(const struct weir_local_run *run)
{
	const struct weir_session *session = run->session;
	bool has_workers = atomic_load_explicit(&session->workers_measured, memory_order_relaxed) ||
			   atomic_load_explicit(&session->workers_busy, memory_order_relaxed);

	return has_workers ? 0
			   : weir_local_part(run, atomic_load_explicit(&session->launcher_bytes, memory_order_relaxed));
}

/* What workers have that were told to go and are still there. The executor has forgotten them. */
static int64_t leaving_bytes(const struct weir_local_run *run)
{
	int64_t bytes = 0;

	for (uint32_t s = 0; s < run->stage_count; s++)
		for (uint32_t i = 0; run->stages[s].workers && i < run->stages[s].slots; i++)
			bytes += run->stages[s].workers[i].leaves ? run->stages[s].workers[i].measured : 0;
	return bytes;
}

static bool has_changed(int64_t before, int64_t now)
{
	return now - before >= SHARE_STEP || before - now >= SHARE_STEP || (now == 0) != (before == 0);
}

void weir_local_tell_budget(struct weir_local_run *run)
{
	int64_t bytes, most = run->session->memory_limit / HANDED_OUT_PART, held, apart, lent;
	int64_t launcher = launcher_bytes(run), leaving = leaving_bytes(run);
	struct local_share share;

	/* relaxed: figures; whoever put them there is not waited for */
	bytes = atomic_exchange_explicit(&run->budget_due, 0, memory_order_relaxed);
	if (bytes)
		run->share = bytes;
	held = held_by_user(run);
	apart = atomic_load_explicit(&run->session->held_for_loops, memory_order_relaxed);
	/* While he waits himself he keeps it: his own, then, and no reason for the oldest to wait. */
	lent = atomic_load_explicit(&run->awaited, memory_order_relaxed) ? 0 : held;
	bytes = (held < most ? held : most) + weir_local_part(run, apart) + launcher + leaving;
	weir_local_share(run, &share);
	/* Loops of other runs keep theirs for the program, which is not waited for. */
	apart = weir_local_part(run, apart) + share.apart + launcher;
	lent = share.waits ? run->session->memory_limit : leaving + (share.has_turn ? share.lent : lent);
	bytes = share.budget - bytes;
	run->allowed = share.waits ? share.budget : run->overdraft - apart - share.lent;
	if (run->ended || (!has_changed(run->share_told, bytes) && !(bytes == run->share && bytes != run->share_told) &&
			   !has_changed(run->apart_told, apart) && share.parked == run->parked_told &&
			   !has_changed(run->lent_told, lent)))
		return;
	run->share_told = bytes;
	run->apart_told = apart;
	run->parked_told = share.parked;
	run->lent_told = lent;
	atomic_store_explicit(&run->lent_by_user, share.waits ? 0 : lent - share.lent - leaving, memory_order_relaxed);
	weir_local_post(
		run,
		(struct weir_event){
			.kind = WEIR_EV_BUDGET, .bytes = bytes, .apart = apart, .lent = lent, .parked = share.parked});
}

void weir_local_run_awaited(struct weir_local_run *run)
{
	atomic_store_explicit(&run->awaited, true, memory_order_relaxed);
	/* Otherwise soon enough. */
	if (atomic_load_explicit(&run->lent_by_user, memory_order_relaxed) > run->session->memory_limit / 16)
		pthread_cond_broadcast(&run->over);
}
