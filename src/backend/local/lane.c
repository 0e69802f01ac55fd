/* A lane: one thread with its own instance of a fragment. It waits for a task, runs it from source to sink, reports,
 * and waits again. Its operators keep their state from task to task. A lane that has to wait for work, or that gives up
 * its task, frees them, so that an idle lane holds next to no memory.
 *
 * A task of the first stage is a split. Behind a worker stage it is a bundle of chunks, each a batch with a schema of
 * its own: the lane asks the stage's template for the fragment of that schema, and makes its operators anew when that
 * is not the fragment it has. For the sink a bundle is one split as long as the schema stays the same. Where another
 * schema means another file, the chunks of a bundle are first promoted to a common schema, as far as nothing is lost by
 * it.
 *
 * Operators reach the executor through the lane's context and its account's `ask`: each posts an event under the run's
 * lock and sleeps on `wake` until the executor has answered. Fields of struct lane say which of them the lock guards.
 * */
#include "ops/blocks.h"
#include "backend/local/local_impl.h"

#include <stdio.h>
#include <string.h>

/* What operators may keep while their lane waits for the next chunk, which comes soon or never: less than it takes to
 * make them anew is worth. */
#define IDLE_KEEP ((int64_t)1 << 20)

static int answer_to_waiting(struct lane *lane, struct weir_error *err)
{
	if (lane->give_up)
		return weir_error_set(err, WEIR_E_GIVE_UP,
				      "the split is given up for an older one that needs the memory");
	return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
}

static struct weir_event event_of(const struct lane *lane, enum weir_event_kind kind)
{
	return (struct weir_event){.kind = kind, .stage = lane->stage->index, .slot = lane->number};
}

static bool unwanted(const struct lane *lane)
{
	return lane->give_up || lane->stop || atomic_load_explicit(&lane->cancelled, memory_order_relaxed);
}

/* An allocation would pass the grant. */
static int ask(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	struct lane *lane = asked;
	struct weir_local_run *run = lane->run;
	int64_t grant = atomic_load_explicit(&account->grant, memory_order_relaxed);
	int64_t short_of = atomic_load_explicit(&account->used, memory_order_relaxed) + more - grant;
	struct weir_event asking = event_of(lane, WEIR_EV_ASK);
	int code = WEIR_OK;

	weir_local_return_free(run);
	pthread_mutex_lock(&run->lock);
	weir_local_measure_soon(run);
	if (!unwanted(lane)) {
		lane->has_grant = false;
		asking.bytes = short_of;
		weir_local_post(run, asking);
		while (!lane->has_grant && !unwanted(lane))
			pthread_cond_wait(&lane->wake, &run->lock);
	} else {
		lane->has_grant = false;
	}
	if (lane->has_grant) {
		atomic_store_explicit(&account->grant, grant + lane->grant_more, memory_order_relaxed);
		lane->grant_more = 0;
	} else {
		code = answer_to_waiting(lane, err);
		lane->refused = true;
	}
	pthread_mutex_unlock(&run->lock);
	return code;
}

static int wait_for_turn(struct weir_lane_context *context, struct weir_error *err)
{
	struct lane *lane = context->backend;
	struct weir_local_run *run = lane->run;
	int code = WEIR_OK;

	pthread_mutex_lock(&run->lock);
	if (!lane->has_turn && !unwanted(lane)) {
		weir_local_post(run, event_of(lane, WEIR_EV_WAIT_TURN));
		while (!lane->has_turn && !unwanted(lane))
			pthread_cond_wait(&lane->wake, &run->lock);
	}
	if (!lane->has_turn)
		code = answer_to_waiting(lane, err);
	pthread_mutex_unlock(&run->lock);
	return code;
}

/* In turn, what the split is made of is certain: whoever is told that it is its turn may let rows go. */
static int wait_turn(struct weir_lane_context *context, struct weir_error *err)
{
	struct lane *lane = context->backend;
	int code = wait_for_turn(context, err);

	if (!code && !lane->confirmed && weir_chain_needs_confirm(lane->chain)) {
		code = weir_chain_confirm(lane->chain, NULL, err);
		lane->confirmed = !code;
	}
	return code;
}

static bool is_turn(struct weir_lane_context *context)
{
	struct lane *lane = context->backend;
	struct weir_local_run *run = lane->run;
	struct weir_error err = {0};
	bool turn = true;

	pthread_mutex_lock(&run->lock);
	/* Behind the first stage only the executor knows, and it is asked when it is time to wait. */
	turn = lane->has_turn || (lane->stage->index == 0 && run->first_open == lane->task.task);
	pthread_mutex_unlock(&run->lock);
	/* A split that turns out to be read from the wrong place never says that it is its turn: it ends in
	 * wait_turn. */
	if (turn && !lane->confirmed && weir_chain_needs_confirm(lane->chain))
		turn = lane->confirmed = weir_chain_confirm(lane->chain, NULL, &err) == WEIR_OK;
	return turn;
}

static void enough(struct weir_lane_context *context)
{
	struct lane *lane = context->backend;
	struct weir_event event = event_of(lane, WEIR_EV_ENOUGH);

	event.run = lane->task;
	pthread_mutex_lock(&lane->run->lock);
	weir_local_post(lane->run, event);
	pthread_mutex_unlock(&lane->run->lock);
}

/* An output, or with `chunk` NULL the mention of one that was accepted before; then the lane waits until it may go on.
 * With the lock held. */
static int put_out(struct lane *lane, struct weir_chunk *chunk, int64_t rows, const struct weir_origin *origin,
		   struct weir_error *err)
{
	struct weir_local_run *run = lane->run;
	struct local_event made = {.event = event_of(lane, WEIR_EV_OUTPUT), .chunk = chunk};

	if (unwanted(lane)) {
		if (chunk)
			weir_chunk_unref(chunk);
		return answer_to_waiting(lane, err);
	}
	if (chunk) {
		int64_t bytes = (int64_t)weir_chunk_footprint(chunk);
		int64_t grant = atomic_load_explicit(&lane->account.grant, memory_order_relaxed);

		atomic_store_explicit(&lane->account.grant, grant > bytes ? grant - bytes : 0, memory_order_relaxed);
		made.event.bytes = bytes;
		made.event.rows = rows;
		made.origin = weir_origin_share(run->account, origin);
	}
	made.event.run = lane->task;
	made.event.chunk = lane->outputs++;
	lane->resumed = false;
	weir_local_post_output(run, &made);
	while (!lane->resumed && !unwanted(lane))
		pthread_cond_wait(&lane->wake, &run->lock);
	return lane->resumed ? WEIR_OK : answer_to_waiting(lane, err);
}

static int output(struct weir_lane_context *context, struct weir_chunk *chunk, int64_t rows,
		  const struct weir_origin *origin, struct weir_error *err)
{
	struct lane *lane = context->backend;
	int code = WEIR_OK;

	/* What was read from a guess does not leave before the guess is known to be right. */
	if (!lane->confirmed && weir_chain_needs_confirm(lane->chain))
		code = context->wait_turn(context, err);
	if (code) {
		weir_chunk_unref(chunk);
		return code;
	}
	pthread_mutex_lock(&lane->run->lock);
	code = put_out(lane, chunk, rows, origin, err);
	pthread_mutex_unlock(&lane->run->lock);
	return code;
}

static int rows_done(struct weir_lane_context *context, int64_t *out, struct weir_error *err)
{
	struct lane *lane = context->backend;
	struct weir_local_run *run = lane->run;
	uint32_t outputs = 0;
	int code = WEIR_OK;

	*out = 0;
	pthread_mutex_lock(&run->lock);
	/* A chunk that was lost is found again by its number: nothing is left out then. */
	if (lane->outputs > 0 || lane->task.attempt >= WEIR_REBUILD_ATTEMPT) {
		outputs = 0;
	} else if (lane->stage->index == 0) {
		outputs = run->tasks.items[lane->task.task - run->first_task].outputs_kept;
		*out = run->tasks.items[lane->task.task - run->first_task].rows_kept;
	} else {
		const struct local_chunk *input = weir_local_chunk(run, lane->task.task);

		outputs = input ? input->outputs_kept : 0;
		*out = input ? input->rows_kept : 0;
	}
	while (!code && lane->outputs < outputs)
		code = put_out(lane, NULL, 0, NULL, err);
	pthread_mutex_unlock(&run->lock);
	return code;
}

static void release_operators(struct lane *lane)
{
	if (lane->chain) {
		memcpy(lane->ops_before, lane->ops, sizeof(lane->ops));
		weir_chain_free(lane->chain);
	}
	if (lane->sink_lane)
		lane->fragment->sink_ops->lane_free(lane->sink_lane);
	lane->chain = NULL;
	lane->sink_lane = NULL;
	lane->sink_open = false;
	weir_account_spares_free(&lane->account);
}

static int prepare(struct lane *lane, struct weir_error *err)
{
	int code = WEIR_OK;

	if (!lane->chain)
		code = weir_chain_new(lane->fragment, &lane->context, &lane->chain, err);
	if (!code && !lane->sink_lane)
		code = lane->fragment->sink_ops->lane_new(lane->fragment->sink, &lane->context, &lane->sink_lane, err);
	return code;
}

/* For errors: an exchange's sink goes by the verb that it is half of. */
static const char *sink_name(const struct lane *lane)
{
	const struct weir_sink_ops *ops = lane->fragment->sink_ops;
	struct weir_exchange_counts counts = {0};

	return ops->exchange_counts && ops->exchange_counts(lane->fragment->sink, &counts) && counts.name ? counts.name
													  : ops->name;
}

static int sink_end(struct lane *lane, struct weir_error *err)
{
	int code;

	if (!lane->sink_open)
		return WEIR_OK;
	code = lane->fragment->sink_ops->split_end(lane->sink_lane, err);
	if (!code)
		lane->sink_open = false;
	else
		weir_error_at_operator(err, sink_name(lane));
	return code;
}

/* What comes next, where it lies in the store as blocks already. */
static int push_chunks(struct lane *lane, struct weir_error *err)
{
	const struct weir_sink_ops *sink = lane->fragment->sink_ops;
	struct weir_chunk *chunk;
	int64_t rows;
	int code = weir_chain_next_chunk(lane->chain, &chunk, &rows, err);

	while (!code && chunk) {
		code = sink->push_chunk(lane->sink_lane, chunk, rows, err);
		lane->task_rows_out += (uint64_t)rows;
		atomic_fetch_add_explicit(&lane->rows_out_live, (uint64_t)rows, memory_order_relaxed);
		if (!code)
			code = weir_chain_next_chunk(lane->chain, &chunk, &rows, err);
	}
	return code;
}

/* Memory did not suffice for a vector: if a row of it is a good part of that, the error says which, and how large it
 * is. */
static void name_row(const struct lane *lane, const struct weir_vector *vector, int code, struct weir_error *err)
{
	uint64_t most = 0;
	uint32_t largest = 0;
	char size[24], text[48];

	if (code != WEIR_E_LIMIT && code != WEIR_E_MEMORY && !(code == WEIR_E_CANCELLED && lane->refused))
		return;
	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t row = vector->selection.rows ? vector->selection.rows[i] : i;
		uint64_t bytes = weir_vector_value_bytes(vector, row);

		if (bytes > most) {
			most = bytes;
			largest = row;
		}
	}
	if (most < (uint64_t)lane->run->session->memory_limit / LARGE_ROW_SHARE)
		return;
	weir_error_at_source(err, vector->source);
	if (vector->source_row >= 0)
		weir_error_at_row(err, vector->source_row + (int64_t)largest);
	snprintf(text, sizeof(text), "the row has %s", weir_format_bytes((int64_t)most, size, sizeof(size)));
	weir_error_at_value(err, text, strlen(text));
}

/* From the source to the sink; the sink's split is begun if it is not, and stays open. */
static int push_split(struct lane *lane, const struct weir_split_info *info, void *split, struct weir_error *err)
{
	const struct weir_sink_ops *sink = lane->fragment->sink_ops;
	struct weir_vector vector;
	int code = weir_chain_open(lane->chain, info, split, err);

	if (!code && !lane->sink_open) {
		code = sink->split_begin(lane->sink_lane, info, err);
		lane->sink_open = !code;
	}
	while (!code) {
		if (sink->takes_chunks && sink->takes_chunks(lane->sink_lane)) {
			code = push_chunks(lane, err);
			if (code)
				break;
		}
		code = weir_chain_next(lane->chain, &vector, err);
		if (code || vector.row_count == 0)
			break;
		code = sink->push(lane->sink_lane, &vector, err);
		if (code)
			name_row(lane, &vector, code, err);
		lane->task_rows_out += vector.selection.count;
		atomic_fetch_add_explicit(&lane->rows_out_live, vector.selection.count, memory_order_relaxed);
	}
	if (code)
		weir_error_at_operator(err, sink_name(lane));
	return code;
}

static int run_split(struct lane *lane, const struct local_task *task, struct weir_error *err)
{
	int code = push_split(lane, &task->info, task->split, err);

	/* What a guess made of the split is nothing before the guess is known to be right; that includes its errors. */
	if (!code && weir_chain_needs_confirm(lane->chain)) {
		lane->confirmed = false;
		code = wait_turn(&lane->context, err);
	}
	return code ? code : sink_end(lane, err);
}

/* ---- behind a worker stage ---- */

/* "000007-000002": sorted as text, names made of it are in input order. */
static void place_of(const struct local_chunk *chunk, struct weir_split_info *info, char place[RUN_PLACE_MAX])
{
	size_t size = 0;

	place[0] = 0;
	info->number = 0;
	for (uint32_t i = 0; i < chunk->path_count; i++) {
		size += (size_t)snprintf(place + size, RUN_PLACE_MAX - size, "%s%06u", i ? "-" : "", chunk->path[i]);
		if (size >= RUN_PLACE_MAX)
			size = RUN_PLACE_MAX - 1;
		info->number = info->number << 20 | chunk->path[i];
	}
	info->place = place;
}

/* The operators for rows of this schema. */
static int use_schema(struct lane *lane, const struct weir_schema *schema, struct weir_error *err)
{
	const struct weir_template *template = lane->stage->template;
	const struct weir_fragment *fragment;
	int code = template->fragment(template->state, schema, &fragment, err);

	if (code || fragment == lane->fragment)
		return code ? code : prepare(lane, err);
	code = sink_end(lane, err);
	if (code)
		return code;
	release_operators(lane);
	lane->fragment = fragment;
	return prepare(lane, err);
}

/* The batch under the schema that it shares with others, where its values allow that. */
static int fit_batch(struct lane *lane, const struct weir_schema *schema, struct weir_batch **batch,
		     struct weir_error *err)
{
	struct weir_error failure = {0};
	struct weir_batch *fitted;

	if (!schema || weir_schema_equal((*batch)->schema, schema, true))
		return WEIR_OK;
	fitted = weir_batch_promote(&lane->account, *batch, schema, true, &failure);
	if (fitted) {
		weir_batch_unref(*batch);
		*batch = fitted;
		return WEIR_OK;
	}
	if (failure.code == WEIR_E_TYPE || failure.code == WEIR_E_CAST)
		return WEIR_OK;
	*err = failure;
	return err->code;
}

static int run_chunk(struct lane *lane, const struct local_chunk *chunk, const struct weir_schema *schema,
		     struct weir_error *err)
{
	struct weir_split_info info = {.rows_est = chunk->rows, .bytes_est = weir_chunk_size(chunk->chunk)};
	struct weir_batch_split split = {.row_first = -1};
	char place[RUN_PLACE_MAX];
	const uint8_t *bytes;
	int code = weir_chunk_pin(chunk->chunk, &bytes, err);

	if (code)
		return code;
	place_of(chunk, &info, place);
	/* It comes from a worker: nothing in it is believed. */
	code = weir_block_open(&lane->account, &lane->blocks, bytes, weir_chunk_size(chunk->chunk), NULL, true,
			       &split.batch, err);
	if (code == WEIR_E_DATA)
		weir_error_at_operator(err, "worker");
	if (!code)
		code = fit_batch(lane, schema, &split.batch, err);
	if (!code)
		code = use_schema(lane, split.batch->schema, err);
	if (!code)
		code = push_split(lane, &info, &split, err);
	/* Whatever the operators still hold of the batch goes before its bytes do. */
	if (code && lane->chain)
		weir_chain_abort(lane->chain);
	weir_batch_unref(split.batch);
	weir_chunk_unpin(chunk->chunk);
	return code;
}

static int schema_of(struct lane *lane, const struct local_chunk *chunk, struct weir_schema **out,
		     struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	const uint8_t *bytes;
	int code = weir_chunk_pin(chunk->chunk, &bytes, err);

	if (code)
		return code;
	code = weir_block_open(&lane->account, &lane->blocks, bytes, weir_chunk_size(chunk->chunk), NULL, false, &batch,
			       err);
	*out = code ? NULL : weir_schema_ref(batch->schema);
	weir_batch_unref(batch);
	weir_chunk_unpin(chunk->chunk);
	return code;
}

/* The schema of the inputs from `first` on, as far as they have one together: up to *end. What a file holds does not
 * depend on how rows were cut: a column that is null throughout a few of them, or whole numbers, or missing, begins no
 * other file. */
static int common_schema(struct lane *lane, size_t first, size_t *end, struct weir_schema **out, struct weir_error *err)
{
	struct weir_schema *schema = NULL, *next, *both;
	int code = WEIR_OK;

	for (*end = first; *end < lane->inputs.count; ++*end) {
		struct weir_error failure = {0};

		code = schema_of(lane, &lane->inputs.items[*end], &next, err);
		if (code)
			break;
		both = schema ? weir_schema_unify(lane->run->account, schema, next, &failure) : weir_schema_ref(next);
		weir_schema_unref(next);
		if (!both && failure.code == WEIR_E_TYPE)
			break;
		if (!both) {
			*err = failure;
			code = err->code;
			break;
		}
		weir_schema_unref(schema);
		schema = both;
	}
	if (code)
		weir_schema_unref(schema);
	*out = code ? NULL : schema;
	return code;
}

static int run_chunks(struct lane *lane, struct weir_error *err)
{
	struct weir_schema *schema = NULL;
	size_t end = 0;
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < lane->inputs.count; i++) {
		if (i == end && lane->inputs.count > 1 && lane->stage->template->by_schema) {
			weir_schema_unref(schema);
			code = common_schema(lane, i, &end, &schema, err);
		}
		if (!code)
			code = run_chunk(lane, &lane->inputs.items[i], schema, err);
	}
	weir_schema_unref(schema);
	return code ? code : sink_end(lane, err);
}

static void drop_inputs(struct lane *lane)
{
	for (size_t i = 0; i < lane->inputs.count; i++)
		weir_chunk_unref(lane->inputs.items[i].chunk);
	lane->inputs.count = 0;
}

/* ---- tasks ---- */

/* The split failed. In turn it is known whether it was read from the right place, and how many lines are before it. */
static int judge_failure(struct lane *lane, int code, struct weir_error *err)
{
	struct weir_error judgement = {0};
	int verdict;

	/* The run ends over what this split asked for: every earlier one has ended, or nobody will know the line. */
	if (code == WEIR_E_CANCELLED && lane->refused && lane->chain && err->line_in_range) {
		if (weir_chain_confirm(lane->chain, err, &judgement))
			err->has_line = 0;
		return code;
	}
	if (code == WEIR_E_GIVE_UP || code == WEIR_E_CANCELLED || code == WEIR_E_AGAIN || !lane->chain)
		return code;
	/* A misfit may be met long after the source gave the vector, when somebody decodes a column of it. */
	if (code != WEIR_E_MISFIT && !weir_chain_needs_confirm(lane->chain))
		return code;
	verdict = wait_for_turn(&lane->context, &judgement);
	if (!verdict)
		verdict = weir_chain_confirm(lane->chain, err, &judgement);
	if (verdict)
		*err = judgement;
	return verdict ? verdict : code;
}

static void abandon_split(struct lane *lane)
{
	if (lane->chain)
		weir_chain_abort(lane->chain);
	if (lane->sink_open)
		lane->fragment->sink_ops->split_abort(lane->sink_lane);
	lane->sink_open = false;
}

static void count_done(struct lane *lane)
{
	struct weir_local_run *run = lane->run;

	lane->stage->rows_out += lane->task_rows_out;
	if (lane->stage->index == 0) {
		struct local_task *task = &run->tasks.items[lane->task.task - run->first_task];

		task->done = true;
		run->splits_done++;
		run->bytes_est_done += task->info.bytes_est;
	}
	if (!lane->chain)
		return;
	lane->op_count = weir_chain_counts(lane->chain, lane->ops, sizeof(lane->ops) / sizeof(*lane->ops));
	for (uint32_t i = 0; i < lane->op_count; i++) {
		lane->ops[i].rows_out += lane->ops_before[i].rows_out;
		lane->ops[i].vectors += lane->ops_before[i].vectors;
		lane->ops[i].time_ns += lane->ops_before[i].time_ns;
	}
}

static void report(struct lane *lane, int code, const struct weir_error *err)
{
	struct weir_local_run *run = lane->run;
	struct weir_event event = event_of(lane, code ? WEIR_EV_TASK_FAILED : WEIR_EV_TASK_DONE);

	event.run = lane->task;
	event.code = code;
	if (code && code != WEIR_E_GIVE_UP && code != WEIR_E_CANCELLED && !run->error.code) {
		run->error = *err;
		if (code == WEIR_E_LIMIT || code == WEIR_E_MEMORY)
			weir_local_say_value(&run->error, err->value);
	}
	if (code == WEIR_E_CANCELLED && lane->refused && (!run->refused.code || lane->task.task < run->refused_task)) {
		run->refused = *err;
		run->refused_task = lane->task.task;
	}
	if (!code) {
		event.rows = (int64_t)lane->task_rows_out;
		count_done(lane);
	}
	lane->has_turn = lane->give_up = false;
	weir_local_post(run, event);
}

/* With the lock held; gives it up while the task runs. */
static void run_task(struct lane *lane)
{
	struct weir_local_run *run = lane->run;
	struct local_task task = {0};
	struct weir_error err = {0};
	int code = WEIR_OK;

	/* A copy: the list may move while we run. */
	if (lane->stage->index == 0)
		task = run->tasks.items[lane->task.task - run->first_task];
	lane->refused = false;
	lane->outputs = 0;
	pthread_mutex_unlock(&run->lock);
	weir_local_return_free(run);
	/* What the operators keep from the last task must fit the new grant, or they begin anew. */
	if (atomic_load_explicit(&lane->account.used, memory_order_relaxed) > lane->task_grant)
		release_operators(lane);
	atomic_store_explicit(&lane->account.grant, lane->task_grant, memory_order_relaxed);
	do {
		if (code == WEIR_E_AGAIN) {
			abandon_split(lane);
			release_operators(lane);
			weir_error_clear(&err);
		}
		lane->task_rows_out = 0;
		lane->confirmed = false;
		if (lane->stage->index > 0)
			code = run_chunks(lane, &err);
		else if (!(code = prepare(lane, &err)))
			code = judge_failure(lane, run_split(lane, &task, &err), &err);
	} while (code == WEIR_E_AGAIN);
	if (code) {
		abandon_split(lane);
		release_operators(lane);
		/* Whoever the memory was given up for works from other arenas of malloc. */
		weir_mem_trim(run->session->mem, WEIR_WARM_MAX);
	}
	pthread_mutex_lock(&run->lock);
	drop_inputs(lane);
	report(lane, code, &err);
}

static bool keeps_much(const struct lane *lane)
{
	return (lane->chain || lane->sink_lane) &&
	       (lane->stage->index == 0 || atomic_load_explicit(&lane->account.used, memory_order_relaxed) > IDLE_KEEP);
}

void *weir_lane_main(void *argument)
{
	struct lane *lane = argument;
	struct weir_local_run *run = lane->run;
	uint32_t next = lane->stage->index + 1;
	struct local_here place;

	weir_local_here_begin(&place, run);
	weir_log_use(weir_session_log(run->session));
	weir_account_init(&lane->account, run->account, "lane");
	lane->account.ask = ask;
	lane->account.asked = lane;
	weir_account_spares_keep(&lane->account);
	lane->fragment = lane->stage->index == 0 ? run->fragment : NULL;
	lane->blocks.account = run->account; /* fragments are made of its schemas, for all lanes */
	lane->context = (struct weir_lane_context){
		.account = &lane->account,
		.io = run->session->io,
		.lane = lane->number,
		.cancelled = &lane->cancelled,
		.wait_turn = wait_turn,
		.is_turn = is_turn,
		.enough = enough,
		.output = output,
		.rows_done = rows_done,
		.pace_rows = next < run->stage_count && run->stages[next].kind == WEIR_STAGE_WORKERS
				     ? &run->stages[next].pace_rows
				     : NULL,
		.backend = lane,
	};
	pthread_mutex_lock(&run->lock);
	while (!lane->stop) {
		weir_local_post(run, event_of(lane, WEIR_EV_SLOT_READY));
		if (!lane->has_task && !lane->stop && keeps_much(lane)) {
			pthread_mutex_unlock(&run->lock);
			release_operators(lane);
			pthread_mutex_lock(&run->lock);
		}
		while (!lane->has_task && !lane->stop)
			pthread_cond_wait(&lane->wake, &run->lock);
		if (!lane->has_task)
			break;
		lane->has_task = false;
		run_task(lane);
	}
	drop_inputs(lane);
	weir_list_release(&lane->inputs, run->account);
	pthread_mutex_unlock(&run->lock);
	release_operators(lane);
	weir_block_cache_release(&lane->blocks);
	weir_account_release(&lane->account);
	pthread_mutex_lock(&run->lock);
	run->threads_running--;
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
	weir_local_here_end(&place);
	return NULL;
}
