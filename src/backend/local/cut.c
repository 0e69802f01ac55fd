/* Splits are cut off the source when the executor asks for one.
 *
 *     files, ranges, exchanges      by whoever has the event, at once, under the run's lock
 *     streams (source_ops->waits)   by a thread of the run, without the lock; the answer comes when it is there
 *
 * A stream is made by somebody else: the program, or a run of functions in front of this one. Nobody knows how long
 * that takes or what it waits for, and it may be memory that this run has. So the lock must be free meanwhile: lanes
 * and workers report, the run hears of its budget and gives back what another run's turn needs.
 *
 * Threads. One cut at a time, since the executor asks for one. Splits are opened and freed by others at the same
 * time. */
#include "base/clock.h"
#include "backend/local/local_impl.h"

struct cut {
	struct local_task task;
	struct weir_error err;
	bool done;
	int code;
};

static void take(const struct weir_fragment *fragment, struct cut *cut)
{
	cut->code = fragment->source_ops->split_next(fragment->source, &cut->task.info, &cut->task.split, &cut->done,
						     &cut->err);
}

/* Under run->lock: what the executor is told. False: of an error, too, which is to be told before. */
static bool keep(struct weir_local_run *run, struct cut *cut, struct weir_event *answer)
{
	const struct weir_fragment *fragment = run->fragment;

	if (!cut->code && !cut->done) {
		WEIR_ASSERT(cut->task.info.number == run->first_task + run->tasks.count);
		cut->code = weir_list_push(&run->tasks, run->account, &cut->err, cut->task);
		if (!cut->code) {
			run->bytes_est_known += cut->task.info.bytes_est;
			*answer = (struct weir_event){.kind = WEIR_EV_SPLIT_CUT,
						      .bytes = (int64_t)cut->task.info.memory_est};
			return true;
		}
		fragment->source_ops->split_free(fragment->source, cut->task.split);
	}
	run->splits_end = true;
	*answer = (struct weir_event){.kind = WEIR_EV_SPLITS_END};
	if (!cut->code)
		return true;
	weir_error_at_operator(&cut->err, fragment->source_ops->name);
	if (!run->error.code)
		run->error = cut->err;
	return false;
}

static void tell(struct weir_local_run *run, struct cut *cut)
{
	struct weir_event answer;

	if (!keep(run, cut, &answer)) /* before the end of splits, which might be the end of everything */
		weir_local_post(run, (struct weir_event){.kind = WEIR_EV_CANCEL, .code = cut->code});
	weir_local_post(run, answer);
}

void weir_local_cut(struct weir_local_run *run)
{
	struct cut cut = {.done = run->splits_end};

	if (run->cutter_started && !run->splits_end) {
		run->cut_wanted = true;
		pthread_cond_signal(&run->cut_wake);
		return;
	}
	if (!run->splits_end)
		take(run->fragment, &cut);
	tell(run, &cut);
}

static void *cutter_main(void *argument)
{
	struct weir_local_run *run = argument;
	struct local_here place;

	weir_local_here_begin(&place, run);
	place.cuts = true;
	weir_log_use(weir_session_log(run->session));
	pthread_mutex_lock(&run->lock);
	while (!run->ended) {
		struct cut cut = {0};

		if (!run->cut_wanted) {
			pthread_cond_wait(&run->cut_wake, &run->lock);
			continue;
		}
		run->cut_wanted = false;
		pthread_mutex_unlock(&run->lock);
		atomic_store_explicit(&run->cut_since_ns, weir_clock_ns(), memory_order_relaxed);
		take(run->fragment, &cut);
		atomic_store_explicit(&run->cut_since_ns, 0, memory_order_relaxed);
		pthread_mutex_lock(&run->lock);
		tell(run, &cut);
	}
	run->threads_running--;
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
	weir_local_here_end(&place);
	return NULL;
}

int weir_local_cutter_start(struct weir_local_run *run, struct weir_error *err)
{
	int failed;

	run->cut_wanted = false;
	if (!weir_source_waits(run->fragment->source_ops, run->fragment->source))
		return WEIR_OK;
	failed = pthread_create(&run->cutter, NULL, cutter_main, run);
	if (failed)
		return weir_error_set_errno(err, failed, "cannot start a thread");
	run->cutter_started = true;
	run->threads_running++;
	return WEIR_OK;
}

void weir_local_cutter_join(struct weir_local_run *run)
{
	if (run->cutter_started)
		pthread_join(run->cutter, NULL);
	run->cutter_started = false;
}
