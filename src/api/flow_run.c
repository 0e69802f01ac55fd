/* Flows in one call: run, counted, or asked what they are. */
#include "base/text.h"
#include "plan/plan.h"
#include "api/api_impl.h"
#include "api/stages.h"

#include <string.h>

int weir_flow_run(const struct weir_flow *flow, struct weir_stats *stats, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	struct weir_stats all;
	int code = stats ? api_check_size("weir_stats", stats->struct_size, &err) : WEIR_OK;

	if (!code)
		code = api_flow_task(flow, API_END_NONE, NULL, &task, &err);
	if (code)
		return api_report(&err, error);
	code = api_task_run(task, &err);
	if (stats) {
		api_task_stats(task, &all);
		API_COPY_OUT(stats, &all);
	}
	api_task_unref(task);
	return code ? api_report(&err, error) : WEIR_OK;
}

int weir_flow_count(const struct weir_flow *flow, int64_t *row_count, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	struct weir_stats stats;
	int code = api_need(row_count, "`row_count` of weir_flow_count", error);

	if (code)
		return code;
	*row_count = -1;
	code = api_flow_task(flow, API_END_COUNT, NULL, &task, &err);
	if (code)
		return api_report(&err, error);
	code = api_task_run(task, &err);
	api_task_stats(task, &stats);
	if (!code)
		*row_count = (int64_t)stats.rows_out;
	api_task_unref(task);
	return code ? api_report(&err, error) : WEIR_OK;
}

int api_flow_claim(const struct weir_flow *flow, struct weir_task **out, struct weir_error *err)
{
	int code = api_flow_task(flow, API_END_COLLECT, NULL, out, err);

	if (code)
		return code;
	code = api_task_start(*out, err);
	if (!code)
		code = api_task_claim(*out, err);
	api_task_unref(*out);
	return code;
}

int weir_flow_schema(const struct weir_flow *flow, struct ArrowSchema *out, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = api_need(out, "`out` of weir_flow_schema", error);

	if (code)
		return code;
	*out = (struct ArrowSchema){0};
	code = api_flow_check(flow, &err);
	if (!code && api_flow_first_call(flow) < api_flow_step_count(flow))
		code = weir_error_set(&err, WEIR_E_UNSUPPORTED,
				      "what columns a function returns is known when it has run; take its first rows");
	if (!code)
		code = weir_job_init_in(&job, api_flow_session(flow), &err);
	if (!code)
		code = api_flow_build(flow, job.plan, API_BUILD_LOOK, &err);
	if (!code)
		code = weir_plan_bind(job.plan, &err);
	if (!code)
		code = api_export_schema(weir_plan_root(job.plan)->schema, out, &err);
	weir_job_release(&job);
	return code ? api_report(&err, error) : WEIR_OK;
}

int weir_flow_explain(const struct weir_flow *flow, char **out, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	struct weir_text text = {0};
	int code = api_need(out, "`out` of weir_flow_explain", error);

	if (code)
		return code;
	*out = NULL;
	code = api_flow_check(flow, &err);
	if (!code)
		code = weir_job_init_in(&job, api_flow_session(flow), &err);
	if (!code) {
		weir_text_init(&text, weir_session_account(job.session));
		code = api_flow_build(flow, job.plan, API_BUILD_LOOK, &err);
	}
	if (!code)
		code = weir_plan_bind(job.plan, &err);
	if (!code)
		code = weir_plan_optimise(job.plan, &err);
	if (!code)
		code = api_flow_explain_stages(flow, &text, &err);
	if (!code)
		code = weir_plan_explain(job.plan, &text, &err);
	if (!code) {
		*out = weir_plain_alloc(text.size + 1);
		if (*out)
			memcpy(*out, text.data, text.size);
		else
			code = weir_error_set(&err, WEIR_E_MEMORY, "no memory for a text of %zu bytes", text.size);
	}
	if (text.account)
		weir_text_release(&text);
	weir_job_release(&job);
	return code ? api_report(&err, error) : WEIR_OK;
}

void weir_text_free(char *text)
{
	weir_plain_free(text);
}
