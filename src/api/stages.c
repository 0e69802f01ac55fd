/* Each stretch of native steps behind a call is a template: its steps, and a plan and fragment for each schema that has
 * come so far, kept until the stages are freed. Fragments of one template share what must exist once, such as the rest
 * of a limit or the written output (struct weir_shared).
 *
 * Threads: `fragment` from any lane, under the template's lock; everything else before the run or after it. */
#include "api/stages.h"
#include "plan/plan.h"
#include "api/job.h"

#include <pthread.h>
#include <string.h>

/* A chain of native steps, built for one schema. */
struct built {
	struct weir_schema *schema;
	struct weir_plan *plan;
	struct weir_fragment fragment;
};

struct template
{
	struct api_stages *stages;
	size_t first, last;                /* its steps */
	bool is_sink, counts;              /* ends in the last step; in `count`; else in `chunks` */
	struct weir_chunks_options chunks; /* for what comes next */
	pthread_mutex_t lock;              /* guards what follows; rank: before those of files and output */
	struct weir_shared shared;
	struct weir_plan *shared_plan; /* of the sink that was made before any rows came */
	struct WEIR_LIST(struct built *) built;
};

struct api_stages {
	struct weir_session *session;
	struct weir_account *account;
	struct weir_store *store;
	struct api_steps steps;
	struct weir_run_stage stages[64];
	struct template *templates[64]; /* by stage; NULL: a call */
	struct weir_run_tail tail;
};

/* ---- templates ---- */

static void built_free(struct weir_account *account, struct built *built)
{
	weir_fragment_release(&built->fragment);
	weir_plan_free(built->plan);
	weir_schema_unref(built->schema);
	weir_free(account, built, sizeof(*built));
}

static int plan_begin(struct template *template, const struct weir_schema *schema, struct weir_plan **out,
		      struct weir_error *err)
{
	struct api_stages *stages = template->stages;
	int code = api_plan_new(stages->session, out, err);

	if (code)
		return code;
	weir_plan_env(*out)->shared = &template->shared;
	code = weir_plan_add(*out, "blocks", &(struct weir_words){0}, err);
	return code ? code : weir_blocks_set(weir_plan_env(*out), weir_plan_root(*out), schema, NULL, 0, err);
}

static int plan_end(struct weir_plan *plan, struct weir_fragment *fragment, struct weir_error *err)
{
	int code = weir_plan_bind(plan, err);

	if (!code)
		code = weir_plan_optimise(plan, err);
	return code ? code : weir_plan_build(plan, fragment, err);
}

static int add_end(const struct template *template, struct weir_plan *plan, struct weir_error *err)
{
	int code;

	if (template->is_sink)
		return WEIR_OK;
	code = weir_plan_add(plan, template->counts ? "count" : "chunks", &(struct weir_words){0}, err);
	if (!code && !template->counts)
		weir_chunks_set(weir_plan_root(plan), &template->chunks);
	return code;
}

static int build(struct template *template, const struct weir_schema *schema, struct built **out,
		 struct weir_error *err)
{
	struct api_stages *stages = template->stages;
	struct built *built = weir_alloc_zero(stages->account, sizeof(*built), err);
	int code;

	if (!built)
		return err->code;
	template->shared.limits_met = 0;
	built->schema = weir_schema_ref(schema);
	code = plan_begin(template, schema, &built->plan, err);
	if (!code)
		code = stages->steps.build(stages->steps.state, template->first, template->last, built->plan, err);
	if (!code)
		code = add_end(template, built->plan, err);
	/* A sink that keeps something, and cannot share it, has seen the only schema that it can take. */
	if (!code && template->built.count && !template->shared.sink_ops && !weir_plan_root(built->plan)->op->stateless)
		code = weir_error_set(err, WEIR_E_TYPE,
				      "the rows change their columns on the way, and '%s' needs all of them alike",
				      weir_plan_root(built->plan)->op->verb);
	if (!code)
		code = plan_end(built->plan, &built->fragment, err);
	if (!code && built->fragment.before)
		code = weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"rows of a function in worker processes have to be kept before they are sorted or shuffled");
	if (!code)
		code = weir_list_push(&template->built, stages->account, err, built);
	if (code)
		built_free(stages->account, built);
	else
		*out = built;
	return code;
}

static int fragment(void *state, const struct weir_schema *schema, const struct weir_fragment **out,
		    struct weir_error *err)
{
	struct template *template = state;
	struct built *found = NULL;
	int code = WEIR_OK;

	pthread_mutex_lock(&template->lock);
	for (size_t i = 0; i < template->built.count && !found; i++)
		if (weir_schema_equal(template->built.items[i]->schema, schema, true))
			found = template->built.items[i];
	if (!found)
		code = build(template, schema, &found, err);
	pthread_mutex_unlock(&template->lock);
	if (!code)
		*out = &found->fragment;
	return code;
}

static int commit(void *state, struct weir_error *err)
{
	struct template *template = state;
	int code = WEIR_OK;

	if (template->shared.sink_ops)
		return template->shared.sink_ops->commit(template->shared.sink, err);
	for (size_t i = 0; !code && i < template->built.count; i++) {
		const struct weir_fragment *built = &template->built.items[i]->fragment;

		code = built->sink_ops->commit(built->sink, err);
	}
	return code;
}

static void template_free(struct template *template)
{
	struct weir_account *account;

	if (!template)
		return;
	account = template->stages->account;
	for (size_t i = 0; i < template->built.count; i++)
		built_free(account, template->built.items[i]);
	weir_list_release(&template->built, account);
	weir_shared_release(&template->shared);
	weir_plan_free(template->shared_plan);
	pthread_mutex_destroy(&template->lock);
	weir_free(account, template, sizeof(*template));
}

/* A sink that needs no schema to begin is made before the run: what is wrong with its target is said at once, and a run
 * without rows commits all the same. */
static int make_sink(struct template *template, struct weir_error *err)
{
	struct api_stages *stages = template->stages;
	struct weir_fragment fragment = {0};
	const struct weir_node *root;
	struct weir_schema *none;
	int code;

	none = weir_schema_new(stages->account, NULL, 0, NULL, err);
	if (!none)
		return err->code;
	code = plan_begin(template, none, &template->shared_plan, err);
	if (!code)
		code = stages->steps.build(stages->steps.state, template->last - 1, template->last,
					   template->shared_plan, err);
	root = code ? NULL : weir_plan_root(template->shared_plan);
	if (root && root->op->early && !root->inputs[0]->inputs[0])
		code = plan_end(template->shared_plan, &fragment, err);
	weir_fragment_release(&fragment);
	weir_schema_unref(none);
	return code;
}

/* ---- stages ---- */

static struct weir_chunks_options chunks_for(const struct api_stages *stages, const struct weir_call *call)
{
	return (struct weir_chunks_options){.store = stages->store,
					    .batch_rows = call ? call->batch_rows : 0,
					    .chunk_bytes = call ? call->chunk_bytes : 0,
					    .fine = call ? call->fine : 0,
					    .fine_first = call ? call->fine_first : 0,
					    .paced = call && call->paced};
}

static struct weir_run_stage *stage_new(struct api_stages *stages, struct weir_error *err)
{
	if (stages->tail.stage_count == sizeof(stages->stages) / sizeof(*stages->stages)) {
		weir_error_set(err, WEIR_E_UNSUPPORTED,
			       "the flow has too many calls for one run; materialize in between");
		return NULL;
	}
	return &stages->stages[stages->tail.stage_count++];
}

static int add_template(struct api_stages *stages, size_t first, size_t last, enum api_tail_end end,
			const struct weir_call *next, struct weir_error *err)
{
	const struct weir_shared *shared;
	struct template *template;
	struct weir_run_stage *stage = stage_new(stages, err);

	if (!stage)
		return err->code;
	template = weir_alloc_zero(stages->account, sizeof(*template), err);
	if (!template)
		return err->code;
	pthread_mutex_init(&template->lock, NULL);
	template->stages = stages;
	template->first = first;
	template->last = last;
	template->is_sink = end == API_TAIL_SINK;
	template->counts = end == API_TAIL_COUNT;
	template->chunks = chunks_for(stages, next);
	stages->templates[stages->tail.stage_count - 1] = template;
	*stage = (struct weir_run_stage){
		.kind = WEIR_STAGE_LANES,
		.template = {.fragment = fragment,
			     .commit = commit,
			     .state = template,
			     .is_sink = template->is_sink || template->counts,
			     .rows_min = template->is_sink ? INT64_MAX : 0},
	};
	if (!template->is_sink || make_sink(template, err))
		return template->is_sink ? err->code : WEIR_OK;
	shared = &template->shared;
	stage->template.by_schema = shared->sink_ops && shared->sink_ops->by_schema &&
				    shared->sink_ops->by_schema(shared->sink);
	return WEIR_OK;
}

int api_stages_new(struct weir_session *session, const struct api_steps *steps, size_t first_call,
		   enum api_tail_end end, const struct weir_run_consumer *consumer, struct api_stages **out,
		   struct weir_error *err)
{
	struct weir_account *account = weir_session_account(session);
	struct api_stages *stages = weir_alloc_zero(account, sizeof(*stages), err);
	int code = WEIR_OK;

	if (!stages) {
		steps->free(steps->state);
		return err->code;
	}
	stages->session = session;
	stages->account = account;
	stages->steps = *steps;
	stages->tail.stages = stages->stages;
	code = weir_session_store(session, &stages->store, err);
	for (size_t at = first_call; !code && at < steps->count;) {
		const struct weir_call *call = steps->call(steps->state, at);
		struct weir_run_stage *stage;
		size_t next;

		if (call) {
			stage = stage_new(stages, err);
			if (stage)
				*stage = (struct weir_run_stage){.kind = WEIR_STAGE_WORKERS, .call = *call};
			code = stage ? WEIR_OK : err->code;
			at++;
			continue;
		}
		for (next = at; next < steps->count && !steps->call(steps->state, next);)
			next++;
		code = add_template(stages, at, next, next == steps->count ? end : API_TAIL_CONSUMER,
				    next == steps->count ? NULL : steps->call(steps->state, next), err);
		at = next;
	}
	/* Rows that are only counted, straight from a call, need no lane to do it. */
	if (end == API_TAIL_CONSUMER || (end == API_TAIL_COUNT && steps->call(steps->state, steps->count - 1)))
		stages->tail.consumer = *consumer;
	if (code)
		api_stages_free(stages);
	else
		*out = stages;
	return code;
}

const struct weir_run_tail *api_stages_tail(const struct api_stages *stages)
{
	return &stages->tail;
}

struct weir_chunks_options api_stages_chunks(const struct api_stages *stages)
{
	return chunks_for(stages, stages->tail.stage_count ? &stages->stages[0].call : NULL);
}

const struct weir_schema *api_stages_schema(const struct api_stages *stages)
{
	const struct template *last =
		stages->tail.stage_count ? stages->templates[stages->tail.stage_count - 1] : NULL;

	return last && !last->is_sink && !last->counts && last->built.count ? last->built.items[0]->fragment.schema
									    : NULL;
}

void api_stages_free(struct api_stages *stages)
{
	if (!stages)
		return;
	for (uint32_t i = 0; i < stages->tail.stage_count; i++)
		template_free(stages->templates[i]);
	stages->steps.free(stages->steps.state);
	weir_free(stages->account, stages, sizeof(*stages));
}
