/* job: a chain from text to a finished run, with everything it needs. The public functions and the command are made of
 * jobs. */
#ifndef WEIR_API_JOB_H
#define WEIR_API_JOB_H

#include "plan/plan.h"
#include "backend/backend.h"

struct api_stages;

struct weir_job {
	struct weir_session *session;
	struct weir_plan *plan;
	struct weir_fragment fragment;
	struct api_stages *stages;  /* behind the plan's; NULL: none */
	struct weir_local_run *run; /* stays the same when the job is repeated */
	_Atomic bool cancelled;
	bool was_repeated; /* because rows came back changed from disk */
};

/* An empty plan whose operators may keep rows in the session's store. */
int api_plan_new(struct weir_session *session, struct weir_plan **out, struct weir_error *err);

/* All-zero is empty; release takes it, twice too. */
int weir_job_init(struct weir_job *job, const struct weir_session_options *options, struct weir_error *err);
/* In a session that is there already; references it. */
int weir_job_init_in(struct weir_job *job, struct weir_session *session, struct weir_error *err);
/* Binds, optimises, builds; the run then exists and may be cancelled and asked for stats from other threads. */
int weir_job_prepare(struct weir_job *job, struct weir_error *err);
/* When an inferred type turns out too narrow, or rows came back changed from disk, and nothing has been seen of the
 * result and all input can be read again, the job is repeated (job.c), and a line in the log says so. */
int weir_job_run(struct weir_job *job, struct weir_error *err);
/* About how much is read, all together, once it is prepared; < 0: unknown. */
int64_t weir_job_source_bytes(const struct weir_job *job);
/* From any thread or a signal handler, once the job stands where it is prepared. */
void weir_job_cancel(struct weir_job *job);
void weir_job_release(struct weir_job *job);

#endif
