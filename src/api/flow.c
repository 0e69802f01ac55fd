/* Flows: recipes, kept as the words that the command would take, so that both build the same plans in the same way.
 *
 * A step is put into a plan of the flow's own at once, which finds mistakes where they are made, and into a new plan whenever
 * the flow runs: plans are changed by the optimiser and can be used once. What words cannot carry (streams, functions, other
 * flows) is counted and shared. */
#include "ops/collect.h"
#include "api/api_impl.h"

#include <stdio.h>
#include <string.h>

struct flow_step {
	const char *verb; /* NULL: words[0] is a chain */
	struct weir_words words;
	struct weir_transform_function *transform;
	struct weir_source_function *source;
	struct api_stream *stream;
	struct weir_flow *other; /* union */
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

static void step_release(struct flow_step *step)
{
	weir_transform_function_unref(step->transform);
	weir_source_function_unref(step->source);
	api_stream_unref(step->stream);
	weir_flow_free(step->other);
}

static int build_steps(const struct weir_flow *flow, struct weir_plan *plan, enum api_build build,
		       struct weir_error *err);

static int build_union(const struct flow_step *step, struct weir_plan *plan, enum api_build build,
		       struct weir_error *err)
{
	struct weir_words words = {.count = 1, .words = (const char *const[]){""}};
	struct weir_node *first = weir_plan_take_root(plan), *second;
	int code = build_steps(step->other, plan, build, err);

	second = weir_plan_take_root(plan);
	weir_plan_set_root(plan, first);
	if (!code && !second)
		code = weir_error_set(err, WEIR_E_INVALID, "the other flow is empty");
	if (!code && second->op->ends)
		code = weir_error_set(err, WEIR_E_INVALID, "the other flow ends in '%s', so it has no rows to give",
				      second->op->verb);
	if (!code)
		code = weir_plan_add(plan, "union", &words, err);
	if (!code)
		weir_union_set(weir_plan_root(plan), second);
	else
		weir_error_at_operator(err, "union");
	return code;
}

static int build_step(const struct flow_step *step, struct weir_plan *plan, enum api_build build,
		      struct weir_error *err)
{
	int code;

	if (!step->verb)
		return weir_plan_parse_text(plan, step->words.words[0], err);
	if (step->other)
		return build_union(step, plan, build, err);
	code = weir_plan_add(plan, step->verb, &step->words, err);
	if (code || build == API_BUILD_CHECK)
		return code;
	if (step->stream)
		code = build == API_BUILD_RUN ? take_stream(plan, step->stream, err)
					      : look_at_stream(plan, step->stream, err);
	if (step->source)
		code = weir_source_set(weir_plan_env(plan), weir_plan_root(plan), step->source, err);
	if (step->transform)
		code = weir_transform_set(weir_plan_env(plan), weir_plan_root(plan), step->transform, err);
	return code;
}

static int build_steps(const struct weir_flow *flow, struct weir_plan *plan, enum api_build build,
		       struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < flow->steps.count; i++)
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

	return code ? code : build_steps(flow, plan, build, err);
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
static int add_words(struct weir_flow *flow, const char *verb, const char *const *words, size_t count,
		     const struct weir_option *options)
{
	struct flow_step step = {.verb = verb};
	struct weir_error err = {0};
	struct weir_setting *settings = NULL;
	uint32_t n = 0;

	if (!flow)
		return WEIR_E_INVALID;
	for (size_t i = 0; i < count; i++) {
		if (!words[i])
			return missing(flow, verb, "an argument");
	}
	if (count > UINT32_MAX)
		return missing(flow, verb, "what stands after 4,294,967,295 arguments");
	while (options && options[n].name)
		n++;
	if (n && !(settings = weir_arena_alloc_zero(&flow->arena, n * sizeof(*settings), &err)))
		return fail(flow, &err);
	for (uint32_t i = 0; i < n; i++)
		settings[i] = (struct weir_setting){.name = options[i].name, .value = options[i].value};
	step.words = (struct weir_words){
		.count = (uint32_t)count, .words = words, .option_count = n, .options = settings};
	return add(flow, &step);
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

	if (size == 0 || name[size - 1] == '\\')
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

		weir_error_set(&err, WEIR_E_INVALID,
			       name[0] ? "the column name %s cannot be written here" : "a column name is empty", name);
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

int weir_flow_union(struct weir_flow *flow, const struct weir_flow *other)
{
	struct flow_step step = {.verb = "union"};
	struct weir_error err = {0};

	if (!other)
		return missing(flow, "union", "the other flow");
	if (other->error) {
		err = *other->error;
		return flow ? fail(flow, &err) : err.code;
	}
	step.other = weir_flow_copy(other);
	if (!step.other) {
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a flow");
		return flow ? fail(flow, &err) : err.code;
	}
	return add(flow, &step);
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
