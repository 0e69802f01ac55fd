/* Flows: recipes, kept as the words that the command would take, so that both build the same plans in the same way.
 *
 * A step is put into a plan of the flow's own at once, which finds mistakes where they are made, and into a new plan
 * whenever the flow runs: plans are changed by the optimiser and can be used once. What words cannot carry (streams,
 * functions, other flows) is counted and shared. */
#include "ops/blocks.h"
#include "ops/collect.h"
#include "api/api_impl.h"
#include "api/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A step in worker processes. Counted: copies of the flow share it. */
struct flow_call {
	_Atomic uint32_t refs;
	struct weir_call call; /* with a descriptor and a name of its own */
	char name[160];
	void (*release)(void *held); /* whatever keeps the launcher alive; NULL: nothing has to */
	void *held;
};

/* Blocks that a flow reads. Counted, each of them too. */
struct flow_blocks {
	_Atomic uint32_t refs;
	struct weir_schema *schema; /* of all of them together */
	size_t count;
	struct weir_block *blocks[];
};

struct flow_step {
	const char *verb; /* NULL: words[0] is a chain, or it is a call */
	struct flow_call *call;
	struct flow_blocks *blocks;
	struct weir_words words;
	struct weir_transform_function *transform;
	struct weir_source_function *source;
	struct api_stream *stream;
	struct weir_flow *other; /* its second input: union, join */
};

struct weir_flow {
	struct weir_session *session;
	struct weir_account *account;
	struct weir_arena arena; /* of the words */
	struct WEIR_LIST(struct flow_step) steps;
	struct weir_plan *check;  /* the steps, unbound */
	struct weir_error *error; /* of the first step that could not be added */
};

/* ---- streams ---- */

void api_stream_unref(struct api_stream *stream)
{
	/* acq_rel: the last one releases what the others may have used. */
	if (!stream || atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (stream->stream.release)
		stream->stream.release(&stream->stream);
	weir_plain_free(stream);
}

int api_set_input(struct weir_plan *plan, struct weir_node *node, struct ArrowArrayStream *stream,
		  struct weir_error *err)
{
	struct weir_op_env *env = weir_plan_env(plan);
	struct weir_batch_source source;
	struct weir_schema *schema = NULL;
	int code = weir_cdata_import_stream(env->account, stream, &schema, &source, err);

	if (!code)
		code = weir_batches_set(env, node, schema, source, err);
	weir_schema_unref(schema);
	return code;
}

/* Its schema alone: it stays where it is. */
static int look_at_stream(struct weir_plan *plan, struct api_stream *stream, struct weir_error *err)
{
	struct weir_op_env *env = weir_plan_env(plan);
	struct ArrowSchema foreign = {0};
	struct weir_schema *schema = NULL;
	int code;

	if (atomic_load_explicit(&stream->taken, memory_order_relaxed))
		return weir_error_set(err, WEIR_E_INVALID,
				      "the flow reads an Arrow stream, which can be read once, and it was");
	if (stream->stream.get_schema(&stream->stream, &foreign)) {
		const char *text = stream->stream.get_last_error(&stream->stream);

		return weir_error_set(err, WEIR_E_IO, "the Arrow stream failed: %s",
				      text ? text : "its producer gives no reason");
	}
	code = weir_cdata_import_schema(env->account, &foreign, &schema, err);
	if (!code)
		code = weir_batches_set(env, weir_plan_root(plan), schema, (struct weir_batch_source){0}, err);
	weir_schema_unref(schema);
	return code;
}

static int take_stream(struct weir_plan *plan, struct api_stream *stream, struct weir_error *err)
{
	/* acquire: as it was given. */
	if (atomic_exchange_explicit(&stream->taken, true, memory_order_acquire))
		return weir_error_set(err, WEIR_E_INVALID,
				      "the flow reads an Arrow stream, which can be read once, and it was");
	return api_set_input(plan, weir_plan_root(plan), &stream->stream, err);
}

/* ---- steps ---- */

static void call_unref(struct flow_call *call)
{
	/* acq_rel, here and below: the last one frees what the others used. */
	if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (call->call.setup >= 0)
		close(call->call.setup);
	if (call->release)
		call->release(call->held);
	weir_plain_free(call);
}

static void blocks_unref(struct flow_blocks *blocks)
{
	if (!blocks || atomic_fetch_sub_explicit(&blocks->refs, 1, memory_order_acq_rel) != 1)
		return;
	weir_schema_unref(blocks->schema);
	for (size_t i = 0; i < blocks->count; i++)
		weir_block_unref(blocks->blocks[i]);
	weir_plain_free(blocks);
}

static void step_release(struct flow_step *step)
{
	call_unref(step->call);
	blocks_unref(step->blocks);
	weir_transform_function_unref(step->transform);
	weir_source_function_unref(step->source);
	api_stream_unref(step->stream);
	weir_flow_free(step->other);
}

static int build_steps(const struct weir_flow *flow, size_t first, size_t last, struct weir_plan *plan,
		       enum api_build build, struct weir_error *err);

/* A verb with a second input: its first word would be the text of it, and is empty. */
static int build_two(const struct flow_step *step, struct weir_plan *plan, enum api_build build, struct weir_error *err)
{
	struct weir_node *first = weir_plan_take_root(plan), *second;
	int code = api_flow_first_call(step->other) < step->other->steps.count
			   ? weir_error_set(
				     err, WEIR_E_UNSUPPORTED,
				     "a flow with functions in worker processes can be put together with others only "
				     "after it was materialized")
			   : build_steps(step->other, 0, step->other->steps.count, plan, build, err);

	second = weir_plan_take_root(plan);
	weir_plan_set_root(plan, first);
	if (!code && !second)
		code = weir_error_set(err, WEIR_E_INVALID, "the other flow is empty");
	if (!code && second->op->ends)
		code = weir_error_set(err, WEIR_E_INVALID, "the other flow ends in '%s', so it has no rows to give",
				      second->op->verb);
	if (!code)
		code = weir_plan_add(plan, step->verb, &step->words, err);
	if (!code)
		weir_plan_root(plan)->op->second_set(weir_plan_root(plan), second);
	else
		weir_error_at_operator(err, step->verb);
	return code;
}

static int build_step(const struct flow_step *step, struct weir_plan *plan, enum api_build build,
		      struct weir_error *err)
{
	int code;

	/* A call is no part of a plan; it only cannot come first, or behind a sink. */
	if (step->call && (!weir_plan_root(plan) || weir_plan_root(plan)->op->ends))
		return weir_error_set(err, WEIR_E_INVALID, "%s needs rows: it cannot come %s", step->call->name,
				      weir_plan_root(plan) ? "behind a sink" : "first");
	if (step->call)
		return WEIR_OK;
	if (!step->verb)
		return weir_plan_parse_text(plan, step->words.words[0], err);
	if (step->other)
		return build_two(step, plan, build, err);
	code = weir_plan_add(plan, step->verb, &step->words, err);
	if (code || build == API_BUILD_CHECK)
		return code;
	if (step->stream)
		code = build == API_BUILD_RUN ? take_stream(plan, step->stream, err)
					      : look_at_stream(plan, step->stream, err);
	if (step->blocks)
		code = weir_blocks_set(weir_plan_env(plan), weir_plan_root(plan), step->blocks->schema,
				       step->blocks->blocks, step->blocks->count, err);
	if (step->source)
		code = weir_source_set(weir_plan_env(plan), weir_plan_root(plan), step->source, err);
	if (step->transform)
		code = weir_transform_set(weir_plan_env(plan), weir_plan_root(plan), step->transform, err);
	return code;
}

static int build_steps(const struct weir_flow *flow, size_t first, size_t last, struct weir_plan *plan,
		       enum api_build build, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = first; !code && i < last; i++)
		code = build_step(&flow->steps.items[i], plan, build, err);
	return code;
}

int api_flow_check(const struct weir_flow *flow, struct weir_error *err)
{
	if (!flow)
		return weir_error_set(err, WEIR_E_INVALID,
				      "the flow is NULL: weir_flow_new had no session, or no memory");
	if (flow->error)
		*err = *flow->error;
	else if (flow->steps.count == 0)
		return weir_error_set(err, WEIR_E_INVALID, "the flow is empty: begin it with weir_flow_read");
	return err->code;
}

int api_flow_build(const struct weir_flow *flow, struct weir_plan *plan, enum api_build build, struct weir_error *err)
{
	int code = api_flow_check(flow, err);

	return code ? code : build_steps(flow, 0, api_flow_first_call(flow), plan, build, err);
}

/* ---- stages ---- */

size_t api_flow_first_call(const struct weir_flow *flow)
{
	size_t i = 0;

	while (i < flow->steps.count && !flow->steps.items[i].call)
		i++;
	return i;
}

size_t api_flow_step_count(const struct weir_flow *flow)
{
	return flow->steps.count;
}

int api_flow_explain_stages(const struct weir_flow *flow, struct weir_text *out, struct weir_error *err)
{
	size_t first_call = api_flow_first_call(flow);
	int code = WEIR_OK;

	for (size_t i = flow->steps.count; !code && i-- > first_call;) {
		const struct flow_step *step = &flow->steps.items[i];

		if (step->call)
			code = weir_text_printf(out, err, "%s: in worker processes", step->call->name);
		else
			code = weir_text_puts(out, step->verb ? step->verb : "", err);
		for (uint32_t k = 0; !code && !step->call && k < step->words.count; k++)
			code = weir_text_printf(out, err, " %s", step->words.words[k]);
		if (!code)
			code = weir_text_puts(out, "\n", err);
	}
	return code;
}

bool api_flow_has_sink(const struct weir_flow *flow)
{
	const struct weir_node *root = weir_plan_root(flow->check);

	return root && root->op->ends;
}

static int stage_steps(const void *state, size_t first, size_t last, struct weir_plan *plan, struct weir_error *err)
{
	return build_steps(state, first, last, plan, API_BUILD_RUN, err);
}

static const struct weir_call *stage_call(const void *state, size_t step)
{
	const struct weir_flow *flow = state;

	return flow->steps.items[step].call ? &flow->steps.items[step].call->call : NULL;
}

static void stage_free(void *state)
{
	weir_flow_free(state);
}

int api_flow_steps(const struct weir_flow *flow, struct api_steps *out, struct weir_error *err)
{
	struct weir_flow *copy = weir_flow_copy(flow);

	if (!copy)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a flow");
	*out = (struct api_steps){.build = stage_steps,
				  .call = stage_call,
				  .free = stage_free,
				  .state = copy,
				  .count = flow->steps.count};
	return WEIR_OK;
}

struct weir_session *api_flow_session(const struct weir_flow *flow)
{
	return flow->session;
}

/* Keeps the error for whoever runs the flow. */
static int fail(struct weir_flow *flow, const struct weir_error *err)
{
	if (!flow->error)
		api_report(err, &flow->error);
	return err->code;
}

/* Takes over what the step holds, also on failure. Words and options are copied. */
static int add(struct weir_flow *flow, struct flow_step *step)
{
	struct weir_error err = {0};
	const char **words;
	struct weir_setting *options;
	int code;

	if (!flow || flow->error) {
		step_release(step);
		return flow ? flow->error->code : WEIR_E_INVALID;
	}
	words = weir_arena_alloc_zero(&flow->arena, (step->words.count + 1) * sizeof(*words), &err);
	options = weir_arena_alloc_zero(&flow->arena, (step->words.option_count + 1) * sizeof(*options), &err);
	code = words && options ? WEIR_OK : err.code;
	if (!code && step->verb && !(step->verb = weir_arena_strdup(&flow->arena, step->verb, &err)))
		code = err.code;
	for (uint32_t i = 0; !code && i < step->words.count; i++) {
		if (!(words[i] = weir_arena_strdup(&flow->arena, step->words.words[i], &err)))
			code = err.code;
	}
	for (uint32_t i = 0; !code && i < step->words.option_count; i++) {
		const struct weir_setting *from = &step->words.options[i];

		options[i].name = weir_arena_strdup(&flow->arena, from->name, &err);
		options[i].value = from->value ? weir_arena_strdup(&flow->arena, from->value, &err) : NULL;
		if (!options[i].name || (from->value && !options[i].value))
			code = err.code;
	}
	step->words.words = words;
	step->words.options = options;
	if (!code)
		code = build_step(step, flow->check, API_BUILD_CHECK, &err);
	if (!code)
		code = weir_list_push(&flow->steps, flow->account, &err, *step);
	if (code)
		step_release(step);
	return code ? fail(flow, &err) : WEIR_OK;
}

/* ---- flows ---- */

struct weir_flow *weir_flow_new(struct weir_session *session)
{
	struct weir_error err = {0};
	struct weir_flow *flow = session ? weir_alloc_zero(weir_session_account(session), sizeof(*flow), &err) : NULL;

	if (!flow)
		return NULL;
	flow->session = weir_session_ref(session);
	flow->account = weir_session_account(session);
	weir_arena_init(&flow->arena, flow->account);
	if (weir_plan_new(flow->account, weir_session_io(session), &flow->check, &err)) {
		weir_flow_free(flow);
		return NULL;
	}
	return flow;
}

void weir_flow_free(struct weir_flow *flow)
{
	struct weir_session *session;

	if (!flow)
		return;
	session = flow->session;
	for (size_t i = 0; i < flow->steps.count; i++)
		step_release(&flow->steps.items[i]);
	weir_list_release(&flow->steps, flow->account);
	weir_plan_free(flow->check);
	weir_arena_release(&flow->arena);
	weir_error_free(flow->error);
	weir_free(flow->account, flow, sizeof(*flow));
	weir_session_free(session);
}

static void ref(_Atomic uint32_t *refs)
{
	atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

struct weir_flow *weir_flow_copy(const struct weir_flow *flow)
{
	struct weir_flow *copy = flow ? weir_flow_new(flow->session) : NULL;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < flow->steps.count && !copy->error; i++) {
		struct flow_step step = flow->steps.items[i];

		if (step.call)
			ref(&step.call->refs);
		if (step.blocks)
			ref(&step.blocks->refs);
		if (step.transform)
			ref(&step.transform->refs);
		if (step.source)
			ref(&step.source->refs);
		if (step.stream)
			ref(&step.stream->refs);
		if (step.other)
			step.other = weir_flow_copy(step.other);
		add(copy, &step);
	}
	if (flow->error && !copy->error)
		api_report(flow->error, &copy->error);
	return copy;
}

const struct weir_error *weir_flow_error(const struct weir_flow *flow)
{
	return flow ? flow->error : NULL;
}

/* ---- the verbs ---- */

static int missing(struct weir_flow *flow, const char *verb, const char *what)
{
	struct weir_error err = {0};

	weir_error_set(&err, WEIR_E_INVALID, "%s is NULL", what);
	weir_error_at_operator(&err, verb);
	return flow ? fail(flow, &err) : WEIR_E_INVALID;
}

/* options: ends with a NULL name; the program's struct and the engine's are told apart only here. */
static int settings_of(struct weir_flow *flow, const struct weir_option *options, struct weir_words *words,
		       struct weir_error *err)
{
	struct weir_setting *settings;
	uint32_t n = 0;

	while (options && options[n].name)
		n++;
	if (!n)
		return WEIR_OK;
	settings = weir_arena_alloc_zero(&flow->arena, n * sizeof(*settings), err);
	if (!settings)
		return err->code;
	for (uint32_t i = 0; i < n; i++)
		settings[i] = (struct weir_setting){.name = options[i].name, .value = options[i].value};
	words->options = settings;
	words->option_count = n;
	return WEIR_OK;
}

static int add_words(struct weir_flow *flow, const char *verb, const char *const *words, size_t count,
		     const struct weir_option *options)
{
	struct flow_step step = {.verb = verb};
	struct weir_error err = {0};

	if (!flow)
		return WEIR_E_INVALID;
	for (size_t i = 0; i < count; i++) {
		if (!words[i])
			return missing(flow, verb, "an argument");
	}
	if (count > UINT32_MAX)
		return missing(flow, verb, "what stands after 4,294,967,295 arguments");
	step.words = (struct weir_words){.count = (uint32_t)count, .words = words};
	return settings_of(flow, options, &step.words, &err) ? fail(flow, &err) : add(flow, &step);
}

static int add_word(struct weir_flow *flow, const char *verb, const char *word, const char *what,
		    const struct weir_option *options)
{
	return word ? add_words(flow, verb, &word, 1, options) : missing(flow, verb, what);
}

int weir_flow_read(struct weir_flow *flow, const char *path, const struct weir_option *options)
{
	return add_word(flow, "read", path, "the path", options);
}

int weir_flow_read_list(struct weir_flow *flow, const char *const *paths, size_t count,
			const struct weir_option *options)
{
	return paths ? add_words(flow, "read", paths, count, options) : missing(flow, "read", "the list of paths");
}

int weir_flow_read_stream(struct weir_flow *flow, struct ArrowArrayStream *stream)
{
	struct flow_step step = {.verb = "batches"};
	struct weir_error err = {0};

	if (!stream || !stream->release)
		return missing(flow, "batches", stream ? "the stream's release function" : "the stream");
	step.stream = weir_plain_alloc(sizeof(*step.stream));
	if (!step.stream) {
		stream->release(stream);
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a stream");
		return flow ? fail(flow, &err) : WEIR_E_INVALID;
	}
	atomic_init(&step.stream->refs, 1);
	step.stream->stream = *stream;
	stream->release = NULL;
	return add(flow, &step);
}

int api_flow_call(struct weir_flow *flow, const struct weir_call *call, void (*release)(void *held), void *held)
{
	struct flow_call *own = flow ? weir_plain_alloc(sizeof(*own)) : NULL;
	struct flow_step step = {.call = own};
	struct weir_error err = {0};

	if (!own) {
		if (release)
			release(held);
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a call");
		return flow ? fail(flow, &err) : WEIR_E_INVALID;
	}
	atomic_init(&own->refs, 1);
	own->call = *call;
	own->release = release;
	own->held = held;
	snprintf(own->name, sizeof(own->name), "%s", call->name ? call->name : "call");
	own->call.name = own->name;
	own->call.setup = -1;
	if (call->setup_size) {
		own->call.setup = fcntl(call->setup, F_DUPFD_CLOEXEC, 10);
		if (own->call.setup < 0) {
			weir_error_set_errno(&err, errno, "no descriptor for what %s needs", own->name);
			call_unref(own);
			return fail(flow, &err);
		}
	}
	return add(flow, &step);
}

/* What all of them have in common, as rows that meet are unified. */
static int unify_blocks(struct weir_flow *flow, struct flow_blocks *blocks, struct weir_error *err)
{
	blocks->schema = weir_schema_ref(blocks->blocks[0]->schema);
	for (size_t i = 1; i < blocks->count; i++) {
		const struct weir_schema *other = blocks->blocks[i]->schema;
		struct weir_schema *both;

		if (other == blocks->schema || weir_schema_equal(other, blocks->schema, true))
			continue;
		both = weir_schema_unify(flow->account, blocks->schema, other, err);
		if (!both)
			return err->code;
		weir_schema_unref(blocks->schema);
		blocks->schema = both;
	}
	return WEIR_OK;
}

int api_flow_read_blocks(struct weir_flow *flow, struct weir_block *const *list, size_t count)
{
	struct flow_step step = {.verb = "blocks"};
	struct weir_error err = {0};
	struct flow_blocks *blocks;
	int code = WEIR_OK;

	if (!flow)
		return WEIR_E_INVALID;
	if (!count)
		return missing(flow, "blocks", "a block");
	blocks = weir_plain_alloc(sizeof(*blocks) + count * sizeof(*blocks->blocks));
	if (!blocks) {
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a list of %zu blocks", count);
		return fail(flow, &err);
	}
	atomic_init(&blocks->refs, 1);
	for (; blocks->count < count; blocks->count++)
		blocks->blocks[blocks->count] = weir_block_ref(list[blocks->count]);
	code = unify_blocks(flow, blocks, &err);
	if (code) {
		blocks_unref(blocks);
		weir_error_at_operator(&err, "blocks");
		return fail(flow, &err);
	}
	step.blocks = blocks;
	return add(flow, &step);
}

int weir_flow_read_source(struct weir_flow *flow, const struct weir_source *source)
{
	struct flow_step step = {.verb = "source"};
	struct weir_error err = {0};

	if (weir_source_function_new(source, &step.source, &err)) {
		weir_error_at_operator(&err, "source");
		return flow ? fail(flow, &err) : err.code;
	}
	return add(flow, &step);
}

int weir_flow_transform(struct weir_flow *flow, const struct weir_transform *transform)
{
	struct flow_step step = {.verb = "transform"};
	struct weir_error err = {0};

	if (weir_transform_function_new(transform, &step.transform, &err)) {
		weir_error_at_operator(&err, "transform");
		return flow ? fail(flow, &err) : err.code;
	}
	return add(flow, &step);
}

int weir_flow_filter(struct weir_flow *flow, const char *expression)
{
	return add_word(flow, "filter", expression, "the expression", NULL);
}

int weir_flow_filter_by(struct weir_flow *flow, struct weir_expression *expression)
{
	struct weir_error err = {0};
	const char *text = NULL;
	int code;

	if (api_expression_text(expression, &text, &err)) {
		weir_error_at_operator(&err, "filter");
		code = flow ? fail(flow, &err) : err.code;
	} else {
		code = add_word(flow, "filter", text, "the expression", NULL);
	}
	weir_expression_free(expression);
	return code;
}

int weir_flow_select(struct weir_flow *flow, const char *columns)
{
	return add_word(flow, "select", columns, "the list of columns", NULL);
}

int weir_flow_with(struct weir_flow *flow, const char *columns)
{
	return add_word(flow, "with", columns, "the list of columns", NULL);
}

/* What a name is put in so that the verb takes it as it is; NULL when nothing will do. */
static const char *quote_for(const char *name)
{
	size_t size = strlen(name);

	if (size > 0 && name[size - 1] == '\\')
		return NULL;
	return !strchr(name, '"') ? "\"" : !strchr(name, '\'') ? "'" : NULL;
}

/* `left` = `right`, names in quotes. */
static int add_assignment(struct weir_flow *flow, const char *verb, const char *left, const char *right,
			  bool right_is_name)
{
	const char *quotes[2] = {quote_for(left), right_is_name ? quote_for(right) : ""};
	struct weir_error err = {0};
	struct weir_text text;
	int code;

	if (!flow)
		return WEIR_E_INVALID;
	if (!quotes[0] || !quotes[1]) {
		const char *name = quotes[0] ? right : left;

		weir_error_set(&err, WEIR_E_INVALID, "the column name %s cannot be written here", name);
		weir_error_at_operator(&err, verb);
		return fail(flow, &err);
	}
	weir_text_init(&text, flow->account);
	code = weir_text_printf(&text, &err, "%s%s%s = %s%s%s", quotes[0], left, quotes[0], quotes[1], right,
				quotes[1]);
	code = code ? fail(flow, &err) : add_word(flow, verb, text.data, "", NULL);
	weir_text_release(&text);
	return code;
}

int weir_flow_with_by(struct weir_flow *flow, const char *column, struct weir_expression *expression)
{
	struct weir_error err = {0};
	const char *text = NULL;
	int code;

	if (!column) {
		code = missing(flow, "with", "the name of the column");
	} else if (api_expression_text(expression, &text, &err)) {
		weir_error_at_operator(&err, "with");
		code = flow ? fail(flow, &err) : err.code;
	} else {
		code = add_assignment(flow, "with", column, text, false);
	}
	weir_expression_free(expression);
	return code;
}

int weir_flow_rename(struct weir_flow *flow, const char *column, const char *new_name)
{
	if (!column || !new_name)
		return missing(flow, "rename", "a name");
	return add_assignment(flow, "rename", column, new_name, true);
}

int weir_flow_drop(struct weir_flow *flow, const char *columns)
{
	return add_word(flow, "drop", columns, "the list of columns", NULL);
}

int weir_flow_limit(struct weir_flow *flow, int64_t row_count)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)row_count);
	return add_word(flow, "limit", text, "", NULL);
}

int weir_flow_sort(struct weir_flow *flow, const char *columns)
{
	return add_word(flow, "sort", columns, "the list of columns", NULL);
}

int weir_flow_top(struct weir_flow *flow, int64_t row_count, const char *columns)
{
	char text[24];

	if (!columns)
		return missing(flow, "top", "the list of columns");
	snprintf(text, sizeof(text), "%lld", (long long)row_count);
	return add_words(flow, "top", (const char *const[]){text, "by", columns}, 3, NULL);
}

int weir_flow_shuffle(struct weir_flow *flow, uint64_t seed)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
	return add_words(flow, "shuffle", NULL, 0, (struct weir_option[]){{"seed", text}, {NULL, NULL}});
}

int weir_flow_group(struct weir_flow *flow, const char *keys, const char *aggregates)
{
	if (!keys)
		return missing(flow, "group", "the list of keys");
	return add_words(flow, "group", (const char *const[]){keys, aggregates}, aggregates ? 2 : 1, NULL);
}

int weir_flow_unique(struct weir_flow *flow, const char *columns)
{
	return add_words(flow, "unique", &columns, columns ? 1 : 0, NULL);
}

int weir_flow_repartition(struct weir_flow *flow, const struct weir_option *options)
{
	return add_words(flow, "repartition", NULL, 0, options);
}

/* A verb whose second input is another flow; its words have an empty one in the place of it. */
static int add_two(struct weir_flow *flow, const char *verb, const struct weir_flow *other,
		   const struct weir_option *options)
{
	struct flow_step step = {.verb = verb, .words = {.count = 1, .words = (const char *const[]){""}}};
	struct weir_error err = {0};

	if (!other)
		return missing(flow, verb, "the other flow");
	if (other->error) {
		err = *other->error;
		return flow ? fail(flow, &err) : err.code;
	}
	step.other = weir_flow_copy(other);
	if (!step.other) {
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a flow");
		return flow ? fail(flow, &err) : err.code;
	}
	if (flow && settings_of(flow, options, &step.words, &err)) {
		step_release(&step);
		return fail(flow, &err);
	}
	return add(flow, &step);
}

int weir_flow_union(struct weir_flow *flow, const struct weir_flow *other)
{
	return add_two(flow, "union", other, NULL);
}

int weir_flow_join(struct weir_flow *flow, const struct weir_flow *other, const struct weir_option *options)
{
	return add_two(flow, "join", other, options);
}

int weir_flow_write(struct weir_flow *flow, const char *target, const struct weir_option *options)
{
	return add_word(flow, "write", target, "the target", options);
}

int weir_flow_step(struct weir_flow *flow, const char *verb, const char *const *words,
		   const struct weir_option *options)
{
	size_t count = 0;

	if (!verb)
		return missing(flow, "step", "the verb");
	while (words && words[count])
		count++;
	return add_words(flow, verb, words, count, options);
}

int weir_flow_chain(struct weir_flow *flow, const char *text)
{
	struct flow_step step = {.words = {.count = 1, .words = &text}};

	return text ? add(flow, &step) : missing(flow, "chain", "the text");
}
