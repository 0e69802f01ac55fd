#include "api/job.h"

int weir_job_init_in(struct weir_job *job, struct weir_session *session, struct weir_error *err)
{
	int code;

	*job = (struct weir_job){.session = weir_session_ref(session)};
	code = weir_plan_new(weir_session_account(session), weir_session_io(session), &job->plan, err);
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

int weir_job_prepare(struct weir_job *job, struct weir_error *err)
{
	int code = weir_plan_bind(job->plan, err);

	if (!code)
		code = weir_plan_optimise(job->plan, err);
	if (!code)
		code = weir_plan_build(job->plan, &job->fragment, err);
	return code ? code : weir_local_run_new(job->session, &job->fragment, &job->run, err);
}

int weir_job_run(struct weir_job *job, struct weir_error *err)
{
	return weir_local_run_wait(job->run, err);
}

void weir_job_release(struct weir_job *job)
{
	weir_local_run_free(job->run);
	weir_fragment_release(&job->fragment);
	weir_plan_free(job->plan);
	weir_session_free(job->session);
	*job = (struct weir_job){0};
}
