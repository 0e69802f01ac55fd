/* What the public functions share. */
#ifndef WEIR_API_API_IMPL_H
#define WEIR_API_API_IMPL_H

#include "ops/function.h"
#include "api/handles.h"

/* ---- error.c ---- */

/* Gives the program an error of its own, unless it wants none; returns its code. */
int api_report(const struct weir_error *err, struct weir_error **out);
/* For arguments that may not be NULL; 0 when `given` is not. */
int api_need(const void *given, const char *what, struct weir_error **out);

/* A struct of the program as this library knows it: what the program's does not have is zero. */
#define API_COPY_IN(to, from)                                                                                          \
	memcpy((to), (from), (from)->struct_size < sizeof(*(to)) ? (from)->struct_size : sizeof(*(to)))
/* The reverse: no more than the program has room for; its struct_size stays. */
#define API_COPY_OUT(to, from)                                                                                         \
	memcpy((char *)(to) + sizeof(size_t), (const char *)(from) + sizeof(size_t),                                   \
	       ((to)->struct_size < sizeof(*(from)) ? (to)->struct_size : sizeof(*(from))) - sizeof(size_t))
/* A struct_size that nobody set, or that is no size. */
int api_check_size(const char *what, size_t struct_size, struct weir_error *err);

/* ---- expression.c ---- */

/* Its text, in parentheses where it needs them; an error when it carries one, or is NULL. */
int api_expression_text(const struct weir_expression *expression, const char **out, struct weir_error *err);

/* ---- flow.c ---- */

/* An Arrow stream that a flow reads, and its copies may: whoever runs first takes it. */
struct api_stream {
	_Atomic uint32_t refs;
	_Atomic bool taken;
	struct ArrowArrayStream stream;
};
void api_stream_unref(struct api_stream *stream);
/* Gives the stream to a node of the verb `batches`; taken over, also on failure. */
int api_set_input(struct weir_plan *plan, struct weir_node *node, struct ArrowArrayStream *stream,
		  struct weir_error *err);

/* Puts the flow's steps into a plan: to run it, which takes the streams that it reads, or to look at it. */
enum api_build { API_BUILD_CHECK, API_BUILD_LOOK, API_BUILD_RUN };
/* The steps before the first call. */
int api_flow_build(const struct weir_flow *flow, struct weir_plan *plan, enum api_build build, struct weir_error *err);

struct api_steps;
size_t api_flow_first_call(const struct weir_flow *flow); /* its place; the number of steps: there is none */
size_t api_flow_step_count(const struct weir_flow *flow);
/* A line for each step from the last to the first call. */
int api_flow_explain_stages(const struct weir_flow *flow, struct weir_text *out, struct weir_error *err);
bool api_flow_has_sink(const struct weir_flow *flow);
/* A copy of the flow's steps, for stages (api/stages.h). */
int api_flow_steps(const struct weir_flow *flow, struct api_steps *out, struct weir_error *err);

/* ---- task.c ---- */

/* A job that is ready: bound, optimised, built. `job` is taken over, also on failure: its plan has all steps but the
 * end. */
int api_task_new(struct weir_job *job, enum api_end end, const struct weir_start_options *options,
		 struct weir_task **out, struct weir_error *err);
/* The one consumer: stops the run when it is released, and lets go of its reference. */
int api_task_claim(struct weir_task *task, struct weir_error *err);
void api_task_unclaim(struct weir_task *task);
/* Started, with its rows claimed and no handle left. */
int api_flow_claim(const struct weir_flow *flow, struct weir_task **out, struct weir_error *err);

#endif
