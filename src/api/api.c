/* The public functions. A stream is a job whose run goes on in a thread of its own and hands batches over through a queue
 * of QUEUE_BATCHES places:
 *
 *     lanes ─▶ deliver ─▶ [ b b b · ] ─▶ get_next
 *
 * deliver waits while the queue is full (the run's backpressure), get_next while it is empty. Releasing the stream cancels
 * the run, lets deliver go and joins the thread.
 */
#include "weir/weir.h"
#include "base/text.h"
#include "ops/collect.h"
#include "api/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { QUEUE_BATCHES = 4 };

static int give_message(const struct weir_error *err, char *message, size_t size)
{
	if (message && size)
		weir_error_format(err, message, size);
	return err->code;
}

static struct weir_session_options session_options(const struct weir_options *options)
{
	struct weir_session_options out = {0};

	if (options && options->struct_size >= offsetof(struct weir_options, memory_limit) + sizeof(options->memory_limit))
		out.memory_limit = options->memory_limit;
	if (options && options->struct_size >= offsetof(struct weir_options, threads) + sizeof(options->threads))
		out.threads = options->threads;
	return out;
}

/* ---- input: an Arrow stream of the program ---- */

struct input {
	struct weir_account *account;
	struct weir_schema *schema;
	struct ArrowArrayStream stream;
};

static int input_failed(struct input *input, int errno_value, struct weir_error *err)
{
	const char *text = input->stream.get_last_error ? input->stream.get_last_error(&input->stream) : NULL;

	return weir_error_set(err, WEIR_E_INVALID, "the program's stream failed: %s", text ? text : strerror(errno_value));
}

static int input_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct input *input = state;
	struct ArrowArray array = {0};
	int failed = input->stream.get_next(&input->stream, &array);

	*out = NULL;
	if (failed)
		return input_failed(input, failed, err);
	if (!array.release)
		return WEIR_OK;
	return weir_cdata_import_batch(input->account, input->schema, &array, out, err);
}

static void input_release(void *state)
{
	struct input *input = state;

	if (input->stream.release)
		input->stream.release(&input->stream);
	weir_schema_unref(input->schema);
	weir_free(input->account, input, sizeof(*input));
}

static int set_input(struct weir_job *job, struct ArrowArrayStream *stream, struct weir_error *err)
{
	struct weir_node *node = weir_plan_root(job->plan);
	struct weir_account *account = weir_session_account(job->session);
	struct input *input = weir_alloc_zero(account, sizeof(*input), err);
	struct ArrowSchema schema = {0};
	int failed;

	if (!input)
		return err->code;
	input->account = account;
	input->stream = *stream;
	stream->release = NULL;
	while (node && node->inputs[0])
		node = node->inputs[0];
	failed = input->stream.get_schema(&input->stream, &schema);
	if (failed)
		input_failed(input, failed, err);
	else
		failed = weir_cdata_import_schema(account, &schema, &input->schema, err);
	if (!failed && (!node || node->op != weir_op_find("batches")))
		failed = weir_error_set(err, WEIR_E_INVALID, "a stream was given, but the chain does not begin with batches");
	if (failed) {
		input_release(input);
		return err->code;
	}
	return weir_batches_set(weir_plan_env(job->plan), node, input->schema,
				(struct weir_batch_source){input_next, input_release, input}, err);
}

static int job_begin(struct weir_job *job, const char *chain, const struct weir_options *options,
		     struct ArrowArrayStream *input, struct weir_error *err)
{
	struct weir_session_options own = session_options(options);
	int code = weir_job_init(job, &own, err);

	if (!code)
		code = weir_plan_parse_text(job->plan, chain, err);
	if (!code && input && input->release)
		code = set_input(job, input, err);
	if (input && input->release)
		input->release(input);
	return code;
}

int weir_run_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
		   struct weir_result *result, char *message, size_t message_size)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = job_begin(&job, chain, options, input, &err);

	if (!code)
		code = weir_job_prepare(&job, &err);
	if (!code)
		code = weir_job_run(&job, &err);
	if (job.run && result && result->struct_size >= sizeof(*result)) {
		struct weir_run_stats stats;

		weir_local_run_stats(job.run, &stats);
		result->rows_in = stats.rows_in;
		result->rows_out = stats.rows_out;
		result->memory_peak = stats.memory_peak;
	}
	weir_job_release(&job);
	return code ? give_message(&err, message, message_size) : WEIR_OK;
}

/* ---- output: the run as an Arrow stream ---- */

struct output {
	struct weir_job job;
	pthread_t thread;
	bool thread_started;
	pthread_mutex_t lock; /* guards what follows; rank: stream, nothing is taken inside it */
	pthread_cond_t changed;
	struct weir_batch *queue[QUEUE_BATCHES];
	uint32_t head, count;
	bool finished, abandoned;
	struct weir_error error;
	char message[1600];
	/* The stream and every array it gave out, children included: whoever is last frees the session. */
	_Atomic uint32_t refs;
};

static int deliver(void *state, struct weir_batch *batch, struct weir_error *err)
{
	struct output *output = state;
	int code = WEIR_OK;

	pthread_mutex_lock(&output->lock);
	while (output->count == QUEUE_BATCHES && !output->abandoned)
		pthread_cond_wait(&output->changed, &output->lock);
	if (output->abandoned) {
		weir_batch_unref(batch);
		code = weir_error_set(err, WEIR_E_CANCELLED, "the stream was released");
	} else {
		output->queue[(output->head + output->count++) % QUEUE_BATCHES] = batch;
	}
	pthread_cond_broadcast(&output->changed);
	pthread_mutex_unlock(&output->lock);
	return code;
}

static void *output_main(void *argument)
{
	struct output *output = argument;
	struct weir_error err = {0};

	weir_job_run(&output->job, &err);
	pthread_mutex_lock(&output->lock);
	output->error = err;
	output->finished = true;
	pthread_cond_broadcast(&output->changed);
	pthread_mutex_unlock(&output->lock);
	return NULL;
}

static void output_unref(struct output *output)
{
	/* acq_rel: the last one frees what the others used. */
	if (atomic_fetch_sub_explicit(&output->refs, 1, memory_order_acq_rel) != 1)
		return;
	weir_job_release(&output->job);
	pthread_cond_destroy(&output->changed);
	pthread_mutex_destroy(&output->lock);
	weir_plain_free(output);
}

/* Stops the run and drops what nobody took. */
static void output_stop(struct output *output)
{
	if (output->thread_started) {
		pthread_mutex_lock(&output->lock);
		output->abandoned = true;
		pthread_cond_broadcast(&output->changed);
		pthread_mutex_unlock(&output->lock);
		weir_local_run_cancel(output->job.run);
		pthread_join(output->thread, NULL);
	}
	for (; output->count; output->count--, output->head = (output->head + 1) % QUEUE_BATCHES)
		weir_batch_unref(output->queue[output->head]);
}

static void output_release(struct ArrowArrayStream *stream)
{
	struct output *output = stream->private_data;

	output_stop(output);
	output_unref(output);
	stream->release = NULL;
}

/* An array that keeps the session's memory alive: the original's release and private data, and the keeper. */
struct kept_array {
	void (*release)(struct ArrowArray *array);
	void *private_data;
	struct output *output;
};

static void kept_release(struct ArrowArray *array)
{
	struct kept_array *kept = array->private_data;
	struct output *output = kept->output;

	array->release = kept->release;
	array->private_data = kept->private_data;
	weir_plain_free(kept);
	array->release(array);
	array->release = NULL;
	output_unref(output);
}

/* Each node by itself: a consumer may move children out and release the parent. False: no memory; what was done holds. */
static bool keep_array(struct output *output, struct ArrowArray *array)
{
	struct kept_array *kept = weir_plain_alloc(sizeof(*kept));
	bool done = kept != NULL;

	if (!kept)
		return false;
	*kept = (struct kept_array){array->release, array->private_data, output};
	atomic_fetch_add_explicit(&output->refs, 1, memory_order_relaxed);
	array->release = kept_release;
	array->private_data = kept;
	for (int64_t i = 0; done && i < array->n_children; i++)
		done = keep_array(output, array->children[i]);
	return done && (!array->dictionary || keep_array(output, array->dictionary));
}

static int output_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	struct output *output = stream->private_data;
	struct weir_error err = {0};

	if (weir_cdata_export_schema(output->job.fragment.schema, out, &err)) {
		weir_error_format(&err, output->message, sizeof(output->message));
		return EIO;
	}
	return 0;
}

static int output_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct output *output = stream->private_data;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&output->lock);
	while (output->count == 0 && !output->finished)
		pthread_cond_wait(&output->changed, &output->lock);
	if (output->count) {
		batch = output->queue[output->head];
		output->head = (output->head + 1) % QUEUE_BATCHES;
		output->count--;
		pthread_cond_broadcast(&output->changed);
	} else {
		err = output->error;
	}
	pthread_mutex_unlock(&output->lock);
	if (batch) {
		if (!weir_cdata_export_batch(batch, out, &err) && !keep_array(output, out)) {
			out->release(out);
			weir_error_set(&err, WEIR_E_MEMORY, "no memory to hand out a batch");
		}
		weir_batch_unref(batch);
	}
	if (!err.code)
		return 0;
	weir_error_format(&err, output->message, sizeof(output->message));
	return EIO;
}

static const char *output_last_error(struct ArrowArrayStream *stream)
{
	struct output *output = stream->private_data;

	return output->message[0] ? output->message : NULL;
}

int weir_stream_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
		      struct ArrowArrayStream *out, char *message, size_t message_size)
{
	struct weir_error err = {0};
	struct output *output = weir_plain_alloc(sizeof(*output));
	struct weir_consumer consumer = {.deliver = deliver, .state = output};
	int code;

	if (!output) {
		if (input && input->release)
			input->release(input);
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for a stream");
		return give_message(&err, message, message_size);
	}
	atomic_init(&output->refs, 1);
	pthread_mutex_init(&output->lock, NULL);
	pthread_cond_init(&output->changed, NULL);
	code = job_begin(&output->job, chain, options, input, &err);
	if (!code)
		code = weir_plan_add(output->job.plan, "collect", &(struct weir_words){0}, &err);
	if (!code) {
		weir_collect_set(weir_plan_root(output->job.plan), &consumer);
		code = weir_job_prepare(&output->job, &err);
	}
	if (!code) {
		int failed = pthread_create(&output->thread, NULL, output_main, output);

		output->thread_started = !failed;
		if (failed)
			code = weir_error_set_errno(&err, failed, "cannot start a thread");
	}
	if (code) {
		output_unref(output);
		return give_message(&err, message, message_size);
	}
	*out = (struct ArrowArrayStream){
		.get_schema = output_schema,
		.get_next = output_next,
		.get_last_error = output_last_error,
		.release = output_release,
		.private_data = output,
	};
	return WEIR_OK;
}
