/* Plan, fragment and run of a job, which the command and the tasks of programs (task.c) have in common.
 *
 *     init ─▶ (verbs put into `plan`) ─▶ prepare ─▶ run ─▶ release
 *                                         bind, optimise, build    │ wait ─ failed, but may be repeated ─▶ rebuild ─┐
 *                                                                  └────────────────────────────────────────────────┘
 *
 * A run is repeated in place, so that threads that cancel or ask for stats notice nothing: with a wider type when an
 * inferred one was too narrow, once for each read; and once when rows came back changed from disk. Nothing of the
 * result may have been seen by then, and all input must still be there.
 *
 * Threads: cancel from any, and from signal handlers, once the job is prepared; everything else from one. */
#include "api/job.h"

#include "base/log.h"
#include "api/stages.h"

#include <stdio.h>

static int session_store(void *session, struct weir_store **out, struct weir_error *err)
{
	return weir_session_store(session, out, err);
}

int api_plan_new(struct weir_session *session, struct weir_plan **out, struct weir_error *err)
{
	int code = weir_plan_new(weir_session_account(session), weir_session_io(session), out, err);

	if (code)
		return code;
	weir_plan_env(*out)->keeping = (struct weir_keeping){.store = session_store,
							     .session = session,
							     .memory_limit = weir_session_memory_limit(session),
							     .threads = weir_session_threads(session)};
	return WEIR_OK;
}

int weir_job_init_in(struct weir_job *job, struct weir_session *session, struct weir_error *err)
{
	int code;

	*job = (struct weir_job){.session = weir_session_ref(session)};
	code = api_plan_new(session, &job->plan, err);
	if (code)
		weir_job_release(job);
	return code;
}

int weir_job_init(struct weir_job *job, const struct weir_session_options *options, struct weir_error *err)
{
	struct weir_session *session = NULL;
	int code;

	*job = (struct weir_job){0};
	code = weir_session_new(options, &session, err);
	if (!code)
		code = weir_job_init_in(job, session, err);
	weir_session_free(session);
	return code;
}

static int build(struct weir_job *job, struct weir_error *err)
{
	int code = weir_plan_bind(job->plan, err);

	if (!code)
		code = weir_plan_optimise(job->plan, err);
	return code ? code : weir_plan_build(job->plan, &job->fragment, err);
}

int weir_job_prepare(struct weir_job *job, struct weir_error *err)
{
	int code;

	weir_plan_env(job->plan)->cancelled = &job->cancelled;
	code = build(job, err);
	if (code)
		return code;
	return weir_local_run_new_staged(job->session, &job->fragment,
					 job->stages ? api_stages_tail(job->stages) : NULL, &job->run, err);
}

/* ---- repeating ---- */

static bool is_repeatable(const struct weir_node *node)
{
	return !node || (!node->op->once && weir_read_is_repeatable(node) && is_repeatable(node->inputs[0]) &&
			 is_repeatable(node->inputs[1]));
}

static int print_misfits(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	if (!node)
		return WEIR_OK;
	for (uint32_t i = 0; !code && i < 2; i++)
		code = print_misfits(node->inputs[i], out, err);
	return code ? code : weir_read_misfits_print(node, out, err);
}

static void tell(const struct weir_error *misfit, const char *wider)
{
	char line[32] = "";

	if (misfit->has_line)
		snprintf(line, sizeof(line), " line %lld", (long long)misfit->line);
	if (misfit->value[0])
		weir_log(WEIR_LOG_WARN, "column %s: '%s' in %s%s does not fit; reading again with %s", misfit->column,
			 misfit->value, misfit->source, line, wider);
	else
		weir_log(WEIR_LOG_WARN, "column %s: a value in %s%s does not fit; reading again with %s",
			 misfit->column, misfit->source, line, wider);
}

/* Nothing of the run has been seen, and what it read is still there. */
static bool may_repeat(const struct weir_job *job)
{
	return !job->stages && is_repeatable(weir_plan_root(job->plan)) &&
	       (job->fragment.held || weir_local_run_failed_before(job->run));
}

static int rebuild(struct weir_job *job, struct weir_error *err)
{
	int code;

	weir_local_run_clear(job->run);
	weir_fragment_release(&job->fragment);
	code = build(job, err);
	return code ? code : weir_local_run_again(job->run, err);
}

/* Rows came back changed from disk. What they were made of is read again, once: a disk that does it twice is broken. */
static int repeat_from_input(struct weir_job *job, bool *again, struct weir_error *err)
{
	struct weir_error why = {0};

	if (job->was_repeated || !may_repeat(job))
		return err->code;
	job->was_repeated = true;
	if (rebuild(job, &why)) {
		*err = why;
		return err->code;
	}
	weir_log(WEIR_LOG_WARN, "%s: %s; all is read again", err->source, err->message);
	*again = true;
	return err->code;
}

/* The run has failed for a misfit. *again when it is ready to be waited for once more; if it cannot be, the misfit
 * stays the error: it says what can be done. */
static int repeat_with_wider_types(struct weir_job *job, bool *again, struct weir_error *err)
{
	struct weir_text wider;
	struct weir_error why = {0};
	int code;

	if (!may_repeat(job))
		return err->code;
	weir_text_init(&wider, weir_session_account(job->session));
	code = print_misfits(weir_plan_root(job->plan), &wider, &why);
	if (!code && wider.size) {
		code = rebuild(job, &why);
		*again = !code;
		if (!code)
			tell(err, wider.data);
	}
	weir_text_release(&wider);
	/* A filter that was right for numbers may be none for text: what has to be said is still the misfit. */
	if (code == WEIR_E_CANCELLED || code == WEIR_E_MEMORY)
		*err = why;
	return err->code;
}

int weir_job_run(struct weir_job *job, struct weir_error *err)
{
	bool again;
	int code;

	do { /* ends: every read is widened once at most, and all is read anew once */
		weir_error_clear(err);
		again = false;
		code = weir_local_run_wait(job->run, err);
		if (code == WEIR_E_MISFIT)
			code = repeat_with_wider_types(job, &again, err);
		else if (code == WEIR_E_SPILL_CORRUPT)
			code = repeat_from_input(job, &again, err);
	} while (again);
	/* Whoever holds a batch of the result holds the job, but not what exchanges have in memory and on disk. */
	if (weir_local_run_retire(job->run))
		weir_fragment_end(&job->fragment);
	return code;
}

static int64_t source_bytes(const struct weir_node *node)
{
	int64_t sum = 0;

	if (!node->inputs[0])
		return node->bytes_est;
	for (uint32_t i = 0; i < 2 && node->inputs[i]; i++) {
		int64_t one = source_bytes(node->inputs[i]);

		if (one < 0)
			return -1;
		sum += one;
	}
	return sum;
}

int64_t weir_job_source_bytes(const struct weir_job *job)
{
	return source_bytes(weir_plan_root(job->plan));
}

void weir_job_cancel(struct weir_job *job)
{
	/* relaxed: whoever waits looks again soon */
	atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
	if (job->run)
		weir_local_run_cancel(job->run);
}

void weir_job_release(struct weir_job *job)
{
	weir_local_run_free(job->run);
	weir_fragment_release(&job->fragment);
	weir_plan_free(job->plan);
	api_stages_free(job->stages);
	weir_session_free(job->session);
	*job = (struct weir_job){0};
}
