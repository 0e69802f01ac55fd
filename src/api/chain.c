/* Chains of verbs in one call, without handles: a session of their own, a task, an end. */
#include "api/api_impl.h"

#include <string.h>

static int give_message(const struct weir_error *err, char *message, size_t size)
{
	if (message && size)
		weir_error_format(err, message, size);
	return err->code;
}

/* The chain's first verb. */
static int set_input(struct weir_plan *plan, struct ArrowArrayStream *stream, struct weir_error *err)
{
	struct weir_node *node = weir_plan_root(plan);

	while (node && node->inputs[0])
		node = node->inputs[0];
	if (!node || node->op != weir_op_find("batches"))
		return weir_error_set(err, WEIR_E_INVALID,
				      "a stream was given, but the chain does not begin with batches");
	return api_set_input(plan, node, stream, err);
}

static int task_of(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
		   enum api_end end, struct weir_task **out, struct weir_error *err)
{
	struct weir_session *session = NULL;
	struct weir_job job = {0};
	int code = chain ? WEIR_OK : weir_error_set(err, WEIR_E_INVALID, "the chain is NULL");

	if (!code)
		code = api_session_new(options, &session, err);
	if (!code)
		code = weir_job_init_in(&job, session, err);
	weir_session_free(session);
	if (!code)
		code = weir_plan_parse_text(job.plan, chain, err);
	if (!code && input && input->release)
		code = set_input(job.plan, input, err);
	if (input && input->release)
		input->release(input);
	if (code) {
		weir_job_release(&job);
		return code;
	}
	return api_task_new(&job, end, NULL, out, err);
}

int weir_run_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
		   struct weir_result *result, char *message, size_t message_size)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	struct weir_stats stats;
	int code = task_of(chain, options, input, API_END_CHAIN, &task, &err);

	if (code)
		return give_message(&err, message, message_size);
	code = api_task_run(task, &err);
	if (result && result->struct_size >= sizeof(*result)) {
		api_task_stats(task, &stats);
		result->rows_in = stats.rows_in;
		result->rows_out = stats.rows_out;
		result->memory_peak = stats.memory_peak;
	}
	api_task_unref(task);
	return code ? give_message(&err, message, message_size) : WEIR_OK;
}

int weir_stream_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
		      struct ArrowArrayStream *out, char *message, size_t message_size)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	int code = task_of(chain, options, input, API_END_COLLECT, &task, &err);

	if (!code) {
		code = api_task_start(task, &err);
		if (!code)
			code = api_task_claim(task, &err);
		if (!code)
			code = api_export_stream(task, out, &err);
		api_task_unref(task);
	}
	return code ? give_message(&err, message, message_size) : WEIR_OK;
}
