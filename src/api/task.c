/* Tasks: jobs that run. The rows of one that gives them go through a queue of QUEUE_BATCHES places:
 *
 *     lanes ─▶ deliver ─▶ [ b b b · ] ─▶ api_task_next     (an Arrow stream, or rows)
 *
 * deliver waits while the queue is full (the run's backpressure), the consumer while it is empty. Releasing the
 * consumer cancels the run, lets deliver go and joins the threads.
 *
 * A run of several stages puts chunks of the store into the queue, two at most, so that nobody has to wait; they become
 * batches, in place, when the consumer takes them. Where rows are kept (API_END_BLOCKS) a thread of the task is the
 * consumer.
 *
 * References: the program's handle, the consumer, and every array that was given out, children included; whoever is
 * last frees the job and with it the session. The threads have none: whoever stops the task joins them first.
 */
#include "base/clock.h"
#include "base/log.h"
#include "ops/collect.h"
#include "observe/progress.h"
#include "api/api_impl.h"
#include "api/stages.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE_BATCHES = 4, QUEUE_SHARE = 8 /* of the limit */, PROGRESS_MS = 100, LOOK_MS = 50 };
enum { BATCH_BYTES_MIN = 64 << 10, BATCH_BYTES_MAX = 8 << 20, HELD_BYTES_MAX = 256 << 20 };

/* What waits for the consumer: a batch, or a chunk with the number that the run has for it. */
struct queued {
	struct weir_batch *batch;
	int64_t bytes; /* of a batch */
	struct weir_chunk *chunk;
	uint64_t number;
	struct weir_place place;
};

struct weir_task {
	struct api_keeper keeper; /* first */
	struct weir_job job;
	bool gives_rows, keeps_rows;
	_Atomic bool claimed;   /* a stream or rows have it; relaxed: the handle is used by one thread at a time */
	_Atomic bool cancelled; /* relaxed: whoever waits looks again soon. Set in signal handlers */
	struct weir_start_options options;
	pthread_t thread, progress_thread, keeping_thread;
	bool thread_started, progress_started, keeping_started; /* changed by whoever starts or stops, one at a time */
	pthread_mutex_t lock; /* guards what follows; rank: stream, nothing is taken inside it */
	pthread_cond_t changed;
	struct queued queue[QUEUE_BATCHES];
	uint32_t head, count;
	int64_t queued_bytes; /* of batches in it */
	uint64_t bytes_out;   /* of all that was queued */
	bool finished, abandoned, stopping, stopped;
	bool run_over; /* nothing more is delivered */
	bool at_work;  /* the program, while somebody takes the next batch for it */
	struct weir_error keeping_error;
	bool progress_ended;
	int doorbell; /* an eventfd that is 1 while there is something to see; valid when has_doorbell */
	bool has_doorbell, rung;
	struct weir_error error;
	/* The consumer's own. */
	struct weir_block_cache cache;
	struct weir_place place;                      /* of what was taken last */
	struct WEIR_LIST(struct weir_block *) blocks; /* kept; the keeping thread's until it is joined */
};

/* ---- references ---- */

static void task_free(struct api_keeper *keeper)
{
	struct weir_task *task = (struct weir_task *)keeper;

	for (size_t i = 0; i < task->blocks.count; i++)
		weir_block_unref(task->blocks.items[i]);
	if (task->job.session) {
		weir_list_release(&task->blocks, weir_session_account(task->job.session));
		weir_block_cache_release(&task->cache);
	}
	weir_job_release(&task->job);
	if (task->has_doorbell)
		close(task->doorbell);
	pthread_cond_destroy(&task->changed);
	pthread_mutex_destroy(&task->lock);
	weir_plain_free(task);
}

struct api_keeper *api_task_keeper(struct weir_task *task)
{
	return &task->keeper;
}

void api_task_unref(struct weir_task *task)
{
	api_keeper_unref(&task->keeper);
}

struct weir_account *api_task_account(const struct weir_task *task)
{
	return weir_session_account(task->job.session);
}

const struct weir_schema *api_task_schema(const struct weir_task *task)
{
	return task->job.fragment.schema;
}

/* ---- the queue ---- */

static void wait_a_while(struct weir_task *task, uint32_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000L;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_cond_timedwait(&task->changed, &task->lock, &until);
}

/* With the lock held, after any change of the queue or the end. The counter of an eventfd neither fills up nor fails
 * here. What is kept is taken by a thread of its own: nobody else is to be woken for it. */
static void ring(struct weir_task *task)
{
	bool wanted = (task->count && !task->keeps_rows) || task->finished;

	pthread_cond_broadcast(&task->changed);
	if (!task->has_doorbell || task->rung == wanted)
		return;
	WEIR_ASSERT((wanted ? eventfd_write(task->doorbell, 1) : eventfd_read(task->doorbell, &(eventfd_t){0})) == 0);
	task->rung = wanted;
}

int api_task_fd(struct weir_task *task, struct weir_error *err)
{
	int fd = -1;

	pthread_mutex_lock(&task->lock);
	if (!task->has_doorbell) {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0) {
			weir_error_set_errno(err, errno, "no descriptor to wait for a task with");
		} else {
			task->doorbell = fd;
			task->has_doorbell = true;
			weir_local_run_bell(task->job.run, fd);
			ring(task);
		}
	}
	fd = task->has_doorbell ? task->doorbell : -1;
	pthread_mutex_unlock(&task->lock);
	return fd;
}

static bool is_cancelled(const struct weir_task *task)
{
	return atomic_load_explicit(&task->cancelled, memory_order_relaxed);
}

/* Rows may be larger than batches commonly are: few of those wait. */
static bool is_full(const struct weir_task *task, int64_t bytes)
{
	return task->count == QUEUE_BATCHES ||
	       (task->count && task->queued_bytes + bytes > weir_session_memory_limit(task->job.session) / QUEUE_SHARE);
}

static int deliver(void *state, struct weir_batch *batch, struct weir_error *err)
{
	struct weir_task *task = state;
	int64_t bytes = weir_batch_bytes(batch);
	int code = WEIR_OK;

	pthread_mutex_lock(&task->lock);
	/* A signal handler cannot wake anybody, so this looks by itself. */
	while (is_full(task, bytes) && !task->abandoned && !is_cancelled(task)) {
		weir_local_wait_begin();
		wait_a_while(task, LOOK_MS);
		weir_local_wait_end();
	}
	if (task->abandoned || is_cancelled(task)) {
		weir_batch_unref(batch);
		code = weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
	} else {
		task->bytes_out += (uint64_t)bytes;
		task->queued_bytes += bytes;
		task->queue[(task->head + task->count++) % QUEUE_BATCHES] = (struct queued){.batch = batch,
											    .bytes = bytes};
	}
	ring(task);
	pthread_mutex_unlock(&task->lock);
	return code;
}

/* Under the run's lock: the executor delivers no more than fit. */
static bool deliver_chunk(void *state, struct weir_chunk *chunk, uint64_t number, struct weir_place place)
{
	struct weir_task *task = state;
	bool unwanted;

	pthread_mutex_lock(&task->lock);
	unwanted = task->abandoned || is_cancelled(task);
	if (unwanted) {
		weir_chunk_unref(chunk);
	} else {
		WEIR_ASSERT(task->count < QUEUE_BATCHES);
		task->bytes_out += weir_chunk_size(chunk);
		task->queue[(task->head + task->count++) % QUEUE_BATCHES] = (struct queued){
			.chunk = chunk, .number = number, .place = place};
	}
	ring(task);
	pthread_mutex_unlock(&task->lock);
	return unwanted;
}

/* Rows that are only counted; the run does. */
static bool drop_chunk(void *state, struct weir_chunk *chunk, uint64_t number, struct weir_place place)
{
	(void)state;
	(void)number;
	(void)place;
	weir_chunk_unref(chunk);
	return true;
}

/* With the lock held. */
static int take(struct weir_task *task, struct queued *out, struct weir_error *err)
{
	*out = (struct queued){0};
	if (task->count) {
		*out = task->queue[task->head];
		task->head = (task->head + 1) % QUEUE_BATCHES;
		task->count--;
		task->queued_bytes -= out->bytes;
		ring(task);
	} else if (task->finished) {
		*err = task->error;
		return err->code;
	}
	return WEIR_OK;
}

/* What was taken as a batch, without the lock. A chunk's arrays lie over its own bytes and keep it. */
static int open_taken(struct weir_task *task, struct queued *taken, struct weir_batch **out, struct weir_error *err)
{
	struct weir_owner *owner = NULL;
	const uint8_t *bytes;
	int code;

	*out = taken->batch;
	task->place = taken->place;
	if (!taken->chunk)
		return WEIR_OK;
	code = weir_chunk_owner(taken->chunk, &owner, &bytes, err);
	if (!code)
		code = weir_block_open(weir_session_account(task->job.session), &task->cache, bytes,
				       weir_chunk_size(taken->chunk), owner, weir_chunk_is_foreign(taken->chunk), out,
				       err);
	weir_owner_unref(owner);
	weir_chunk_unref(taken->chunk);
	weir_local_run_taken(task->job.run, taken->number);
	return code;
}

/* With the lock held: the program waits itself, and lets go of nothing before the next batch is there. */
static void tell_awaited(struct weir_task *task)
{
	if (!task->at_work)
		weir_local_run_awaited(task->job.run);
}

void api_task_at_work(struct weir_task *task, bool at_work)
{
	pthread_mutex_lock(&task->lock);
	task->at_work = at_work;
	if (task->job.run && task->count == 0 && !task->finished)
		tell_awaited(task);
	pthread_mutex_unlock(&task->lock);
}

int api_task_next(struct weir_task *task, struct weir_batch **out, struct weir_error *err)
{
	struct queued taken;
	int code;

	*out = NULL;
	pthread_mutex_lock(&task->lock);
	while (task->count == 0 && !task->finished) {
		tell_awaited(task);
		weir_local_wait_begin();
		pthread_cond_wait(&task->changed, &task->lock);
		weir_local_wait_end();
	}
	code = take(task, &taken, err);
	pthread_mutex_unlock(&task->lock);
	return code ? code : open_taken(task, &taken, out, err);
}

struct weir_place api_task_place(const struct weir_task *task)
{
	return task->place;
}

int api_task_take(struct weir_task *task, struct weir_batch **out, bool *ended, struct weir_error *err)
{
	struct queued taken;
	int code;

	*out = NULL;
	pthread_mutex_lock(&task->lock);
	*ended = task->count == 0 && task->finished;
	if (task->count == 0 && !task->finished)
		tell_awaited(task);
	code = take(task, &taken, err);
	pthread_mutex_unlock(&task->lock);
	return code ? code : open_taken(task, &taken, out, err);
}

void api_wait_begin(void)
{
	weir_local_wait_begin();
}

void api_wait_end(void)
{
	weir_local_wait_end();
}

bool api_task_ended(struct weir_task *task, struct weir_error *err)
{
	bool ended;

	pthread_mutex_lock(&task->lock);
	ended = task->finished;
	if (ended)
		*err = task->error;
	pthread_mutex_unlock(&task->lock);
	return ended;
}

/* ---- starting and stopping ---- */

/* Batches in lanes, in the queue and in the program's hands take a quarter of the memory: half of it for themselves,
 * half for what they take while they grow. */
static void size_batches(const struct weir_session *session, struct weir_consumer *consumer)
{
	int64_t quarter = weir_session_memory_limit(session) / 4;
	int64_t count = (int64_t)weir_session_threads(session) + QUEUE_BATCHES + 2, bytes = quarter / 2 / count;

	bytes = bytes < BATCH_BYTES_MIN ? BATCH_BYTES_MIN : bytes > BATCH_BYTES_MAX ? BATCH_BYTES_MAX : bytes;
	consumer->batch_bytes = (uint64_t)bytes;
	consumer->held_bytes = quarter / 2 < HELD_BYTES_MAX ? quarter / 2 : HELD_BYTES_MAX;
}

static int64_t kept_max(const struct weir_session *session)
{
	return weir_session_memory_limit(session) / 4;
}

/* Rows that are kept: as blocks, of which a quarter of the memory may be in it. A failure cancels the run. */
static void *keeping_main(void *argument)
{
	struct weir_task *task = argument;
	struct weir_session *session = task->job.session;
	struct weir_error err = {0};
	int code = WEIR_OK;

	weir_log_use(weir_session_log(session));
	for (;;) {
		struct weir_block *block = NULL;
		struct queued taken;
		bool over;

		pthread_mutex_lock(&task->lock);
		while (task->count == 0 && !task->run_over)
			pthread_cond_wait(&task->changed, &task->lock);
		over = task->count == 0;
		take(task, &taken, &err);
		pthread_mutex_unlock(&task->lock);
		if (over)
			break;
		if (!code) {
			code = api_block_from_chunk(session, taken.chunk, &block, &err);
			if (!code)
				block->split = taken.place.split, block->split_chunk = taken.place.chunk;
			if (!code && (code = weir_list_push(&task->blocks, weir_session_account(session), &err, block)))
				weir_block_unref(block);
			if (!code)
				code = weir_session_spill(session, kept_max(session), &err);
			if (code)
				weir_job_cancel(&task->job);
		}
		weir_chunk_unref(taken.chunk);
		weir_local_run_taken(task->job.run, taken.number);
	}
	if (code) {
		pthread_mutex_lock(&task->lock);
		task->keeping_error = err;
		pthread_mutex_unlock(&task->lock);
	}
	return NULL;
}

struct weir_block *const *api_task_blocks(struct weir_task *task, size_t *count)
{
	*count = task->blocks.count;
	return task->blocks.items;
}

const struct weir_schema *api_task_columns(const struct weir_task *task)
{
	return task->job.stages ? api_stages_schema(task->job.stages) : NULL;
}

/* A flow with calls, or whose rows are kept: what follows the plan is stages. */
static int add_stages(struct weir_task *task, const struct weir_flow *flow, enum api_end end, struct weir_error *err)
{
	struct weir_run_consumer consumer = {.deliver = deliver_chunk, .state = task};
	size_t first_call = api_flow_first_call(flow);
	enum api_tail_end tail = API_TAIL_CONSUMER;
	bool has_sink = api_flow_has_sink(flow);
	struct weir_chunks_options chunks;
	struct api_steps steps;
	int code;

	if (has_sink && (end == API_END_COUNT || end == API_END_COLLECT || end == API_END_BLOCKS))
		return weir_error_set(err, WEIR_E_INVALID, "the flow ends in a sink, so it gives no rows");
	if (has_sink) {
		tail = API_TAIL_SINK;
	} else if (end == API_END_NONE || end == API_END_CHAIN) {
		return weir_error_set(err, WEIR_E_INVALID, "nothing becomes of the rows: end the flow with a sink");
	} else if (end == API_END_COUNT) {
		tail = API_TAIL_COUNT;
		consumer.deliver = drop_chunk;
	} else {
		task->gives_rows = end != API_END_BLOCKS;
		task->keeps_rows = end == API_END_BLOCKS;
		consumer.kept_max = task->keeps_rows ? kept_max(task->job.session) : 0;
	}
	code = api_flow_steps(flow, &steps, err);
	if (!code)
		code = api_stages_new(task->job.session, &steps, first_call, tail, &consumer, &task->job.stages, err);
	if (!code)
		code = weir_plan_add(task->job.plan, "chunks", &(struct weir_words){0}, err);
	if (code)
		return code;
	chunks = api_stages_chunks(task->job.stages);
	weir_chunks_set(weir_plan_root(task->job.plan), &chunks);
	return WEIR_OK;
}

static int add_end(struct weir_plan *plan, enum api_end end, struct weir_task *task, struct weir_error *err)
{
	struct weir_consumer consumer = {.deliver = deliver, .state = task, .batch_rows = task->options.batch_rows};
	bool ends = weir_plan_root(plan) && weir_plan_root(plan)->op->ends;
	int code;

	if (end == API_END_NONE && !ends)
		return weir_error_set(
			err, WEIR_E_INVALID,
			"nothing becomes of the rows: end the flow with weir_flow_write, or take them with "
			"weir_flow_rows, weir_flow_stream or weir_flow_count");
	/* A sink may have a result, which is handed out as rows are. */
	if ((end == API_END_COLLECT || end == API_END_EITHER) && ends &&
	    weir_result_set(weir_plan_root(plan), &consumer)) {
		task->gives_rows = true;
		return WEIR_OK;
	}
	if (end == API_END_NONE || end == API_END_CHAIN || (end == API_END_EITHER && ends))
		return WEIR_OK;
	code = weir_plan_add(plan, end == API_END_COUNT ? "count" : "collect", &(struct weir_words){0}, err);
	if (!code && end != API_END_COUNT) {
		size_batches(task->job.session, &consumer);
		weir_collect_set(weir_plan_root(plan), &consumer);
		task->gives_rows = true;
	}
	return code;
}

static int task_new(struct weir_job *job, const struct weir_flow *flow, enum api_end end,
		    const struct weir_start_options *options, struct weir_task **out, struct weir_error *err)
{
	bool staged = flow && (end == API_END_BLOCKS || api_flow_first_call(flow) < api_flow_step_count(flow));
	struct weir_task *task = weir_plain_alloc(sizeof(*task));
	const struct weir_log_sink *log = weir_log_use(weir_session_log(job->session));
	pthread_condattr_t monotonic;
	int code;

	if (!task) {
		weir_job_release(job);
		weir_log_use(log);
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a task");
	}
	atomic_init(&task->keeper.refs, 1);
	task->keeper.free = task_free;
	task->job = *job;
	*job = (struct weir_job){0};
	if (options)
		task->options = *options;
	pthread_mutex_init(&task->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&task->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	code = staged ? add_stages(task, flow, end, err) : add_end(task->job.plan, end, task, err);
	if (!code)
		code = weir_job_prepare(&task->job, err);
	weir_log_use(log);
	if (code) {
		api_task_unref(task);
		return code;
	}
	*out = task;
	return WEIR_OK;
}

int api_task_new(struct weir_job *job, enum api_end end, const struct weir_start_options *options,
		 struct weir_task **out, struct weir_error *err)
{
	return task_new(job, NULL, end, options, out, err);
}

static void finish(struct weir_task *task, struct weir_error *err)
{
	/* What was kept is complete before the task is. */
	pthread_mutex_lock(&task->lock);
	task->run_over = true;
	pthread_cond_broadcast(&task->changed);
	pthread_mutex_unlock(&task->lock);
	if (task->keeping_started)
		pthread_join(task->keeping_thread, NULL);
	task->keeping_started = false;
	pthread_mutex_lock(&task->lock);
	if (task->keeping_error.code)
		*err = task->keeping_error;
	task->error = *err;
	task->finished = true;
	ring(task);
	pthread_mutex_unlock(&task->lock);
}

int api_task_run(struct weir_task *task, struct weir_error *err)
{
	const struct weir_log_sink *log = weir_log_use(weir_session_log(task->job.session));
	int failed = task->keeps_rows ? pthread_create(&task->keeping_thread, NULL, keeping_main, task) : 0;

	task->keeping_started = task->keeps_rows && !failed;
	if (failed)
		weir_error_set_errno(err, failed, "cannot start a thread");
	else
		weir_job_run(&task->job, err);
	weir_log_use(log);
	finish(task, err);
	return err->code;
}

static void *task_main(void *argument)
{
	struct weir_error err = {0};

	api_task_run(argument, &err);
	return NULL;
}

static void *progress_main(void *argument)
{
	struct weir_task *task = argument;
	uint32_t ms = task->options.progress_ms ? task->options.progress_ms : PROGRESS_MS;
	bool finished = false;

	while (!finished) {
		uint64_t until_ns = weir_clock_ns() + (uint64_t)ms * 1000000;
		struct weir_stats stats;

		pthread_mutex_lock(&task->lock);
		while (!task->finished && weir_clock_ns() < until_ns)
			wait_a_while(task, (uint32_t)((until_ns - weir_clock_ns()) / 1000000) + 1);
		finished = task->finished;
		pthread_mutex_unlock(&task->lock);
		api_task_stats(task, &stats);
		stats.finished = finished; /* it may have ended since: the last call is still to come, and says so */
		task->options.progress(task->options.progress_data, &stats);
	}
	pthread_mutex_lock(&task->lock);
	task->progress_ended = true;
	pthread_cond_broadcast(&task->changed);
	pthread_mutex_unlock(&task->lock);
	return NULL;
}

int api_task_start(struct weir_task *task, struct weir_error *err)
{
	int failed = pthread_create(&task->thread, NULL, task_main, task);

	task->thread_started = !failed;
	if (failed)
		return weir_error_set_errno(err, failed, "cannot start a thread");
	task->progress_ended = true;
	if (task->options.progress) {
		task->progress_ended = false;
		failed = pthread_create(&task->progress_thread, NULL, progress_main, task);
		task->progress_started = !failed;
		if (failed) {
			/* A run without progress is still a run. */
			task->progress_ended = true;
			weir_log(WEIR_LOG_WARN, "progress cannot be shown: no thread could be started");
		}
	}
	return WEIR_OK;
}

/* What releases a batch may be the program's, so it does not happen inside the lock. */
static bool drop_first(struct weir_task *task)
{
	struct weir_error err = {0};
	struct queued taken;

	pthread_mutex_lock(&task->lock);
	take(task, &taken, &err);
	pthread_mutex_unlock(&task->lock);
	weir_batch_unref(taken.batch);
	if (taken.chunk)
		weir_chunk_unref(taken.chunk);
	return taken.batch || taken.chunk;
}

void api_task_stop(struct weir_task *task)
{
	pthread_mutex_lock(&task->lock);
	if (task->stopping) {
		while (!task->stopped)
			pthread_cond_wait(&task->changed, &task->lock);
		pthread_mutex_unlock(&task->lock);
		return;
	}
	task->stopping = true;
	task->abandoned = true;
	pthread_cond_broadcast(&task->changed);
	pthread_mutex_unlock(&task->lock);
	weir_task_cancel(task);
	if (task->job.run)
		weir_local_run_wake(task->job.run);
	weir_local_wait_begin(); /* a thread of another run may be the one that leaves a loop over this one's rows */
	if (task->thread_started)
		pthread_join(task->thread, NULL);
	if (task->progress_started)
		pthread_join(task->progress_thread, NULL);
	weir_local_wait_end();
	while (drop_first(task)) {
	}
	pthread_mutex_lock(&task->lock);
	task->stopped = true;
	pthread_cond_broadcast(&task->changed);
	pthread_mutex_unlock(&task->lock);
}

int api_task_claim(struct weir_task *task, struct weir_error *err)
{
	if (!task->gives_rows)
		return weir_error_set(err, WEIR_E_INVALID, "the flow ends in '%s', so it gives no rows",
				      weir_plan_root(task->job.plan)->op->verb);
	/* A stream has one schema, and says it first. */
	if (task->job.stages)
		return weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"the columns of a flow with functions in worker processes are known batch by batch only");
	if (atomic_exchange_explicit(&task->claimed, true, memory_order_relaxed))
		return weir_error_set(err, WEIR_E_INVALID, "the rows of the task are taken already");
	api_keeper_ref(&task->keeper);
	return WEIR_OK;
}

void api_task_unclaim(struct weir_task *task)
{
	api_task_stop(task);
	api_task_unref(task);
}

/* ---- public ---- */

int api_flow_task(const struct weir_flow *flow, enum api_end end, const struct weir_start_options *options,
		  struct weir_task **out, struct weir_error *err)
{
	struct weir_job job = {0};
	int code = api_flow_check(flow, err);

	if (!code)
		code = weir_job_init_in(&job, api_flow_session(flow), err);
	if (!code)
		code = api_flow_build(flow, job.plan, API_BUILD_RUN, err);
	if (code) {
		weir_job_release(&job);
		return code;
	}
	return task_new(&job, flow, end, options, out, err);
}

int weir_flow_start(const struct weir_flow *flow, const struct weir_start_options *options, struct weir_task **out,
		    struct weir_error **error)
{
	struct weir_start_options own = {0};
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	int code = api_need(out, "`out` of weir_flow_start", error);

	if (code)
		return code;
	*out = NULL;
	if (options) {
		code = api_check_size("weir_start_options", options->struct_size, &err);
		if (!code)
			API_COPY_IN(&own, options);
	}
	if (!code)
		code = api_flow_task(flow, API_END_EITHER, &own, &task, &err);
	if (!code) {
		code = api_task_start(task, &err);
		if (code)
			api_task_unref(task);
	}
	if (code)
		return api_report(&err, error);
	*out = task;
	return WEIR_OK;
}

int weir_task_wait(struct weir_task *task, struct weir_error **error)
{
	struct weir_error err;
	int code = api_need(task, "the task", error);

	if (code)
		return code;
	pthread_mutex_lock(&task->lock);
	weir_local_wait_begin();
	while (!task->finished || !task->progress_ended)
		pthread_cond_wait(&task->changed, &task->lock);
	weir_local_wait_end();
	err = task->error;
	pthread_mutex_unlock(&task->lock);
	return err.code ? api_report(&err, error) : WEIR_OK;
}

bool api_task_failure(struct weir_task *task, struct weir_failure *out)
{
	return weir_local_run_failure(task->job.run, out);
}

bool api_task_left_out(struct weir_task *task, struct weir_failure *out)
{
	*out = (struct weir_failure){0};
	return task->job.run && weir_local_run_left_out(task->job.run, out);
}

void api_task_prints(struct weir_task *task, void (*each)(void *state, const struct weir_run_print *line), void *state)
{
	eventfd_t ignored;

	/* Lines that come from here on ring again. */
	pthread_mutex_lock(&task->lock);
	if (task->has_doorbell && !task->rung)
		(void)!eventfd_read(task->doorbell, &ignored);
	pthread_mutex_unlock(&task->lock);
	weir_local_run_prints(task->job.run, each, state);
}

void api_task_view(struct weir_task *task, struct weir_progress_view *view)
{
	view->run = task->job.run;
	view->bytes_total_est = weir_job_source_bytes(&task->job);
}

const char *api_task_stage_stats(struct weir_task *task, uint32_t stage, struct weir_stage_stats *out)
{
	return weir_local_run_stage_stats(task->job.run, stage, out);
}

void weir_task_cancel(struct weir_task *task)
{
	if (!task)
		return;
	atomic_store_explicit(&task->cancelled, true, memory_order_relaxed);
	weir_job_cancel(&task->job);
}

static uint64_t elapsed(const struct weir_run_stats *stats)
{
	uint64_t end = stats->ended_ns ? stats->ended_ns : weir_clock_ns();

	return stats->started_ns && end > stats->started_ns ? end - stats->started_ns : 0;
}

int64_t api_task_budget(struct weir_task *task)
{
	struct weir_run_stats run;

	weir_local_run_stats(task->job.run, &run);
	return run.core.budget;
}

void api_task_stats(struct weir_task *task, struct weir_stats *out)
{
	struct weir_run_stats run;

	weir_local_run_stats(task->job.run, &run);
	*out = (struct weir_stats){
		.struct_size = sizeof(*out),
		.rows_in = run.rows_in,
		.rows_out = run.rows_out,
		.splits_done = run.splits_done,
		.splits_total = run.splits_all_known ? (int64_t)run.splits_known : -1,
		.bytes_done = run.bytes_est_done,
		.bytes_total = run.splits_all_known ? (int64_t)run.bytes_est_known : -1,
		.elapsed_ns = elapsed(&run),
		.memory_used = run.memory_used,
		.memory_peak = run.memory_peak,
		.memory_limit = run.memory_limit,
		.threads = run.lanes,
		.splits_redone = run.core.give_ups,
		.wait_ns_memory = run.core.wait_ns_memory,
		.wait_ns_order = run.core.wait_ns_turn,
		.rows_pruned = run.rows_pruned,
	};
	pthread_mutex_lock(&task->lock);
	out->finished = task->finished;
	out->bytes_out = task->bytes_out;
	pthread_mutex_unlock(&task->lock);
}

int weir_task_stats(struct weir_task *task, struct weir_stats *out)
{
	struct weir_stats stats;
	struct weir_error err = {0};

	if (!task || !out || api_check_size("weir_stats", out->struct_size, &err))
		return WEIR_E_INVALID;
	api_task_stats(task, &stats);
	API_COPY_OUT(out, &stats);
	return WEIR_OK;
}

int weir_task_operator(struct weir_task *task, uint32_t index, struct weir_operator_stats *out)
{
	struct weir_run_stats run;
	struct weir_operator_stats stats;
	struct weir_error err = {0};

	if (!task || !out || api_check_size("weir_operator_stats", out->struct_size, &err))
		return WEIR_E_INVALID;
	weir_local_run_stats(task->job.run, &run);
	if (index >= run.op_count)
		return WEIR_E_INVALID;
	stats = (struct weir_operator_stats){
		.name = run.ops[index].name, .rows_out = run.ops[index].rows_out, .time_ns = run.ops[index].time_ns};
	API_COPY_OUT(out, &stats);
	return WEIR_OK;
}

int weir_task_exchange(struct weir_task *task, uint32_t index, struct weir_exchange_stats *out)
{
	struct weir_run_stats run;
	struct weir_exchange_stats stats;
	const struct weir_exchange_counts *counts;
	struct weir_error err = {0};

	if (!task || !out || api_check_size("weir_exchange_stats", out->struct_size, &err))
		return WEIR_E_INVALID;
	weir_local_run_stats(task->job.run, &run);
	if (index >= run.exchange_count)
		return WEIR_E_INVALID;
	counts = &run.exchanges[index];
	stats = (struct weir_exchange_stats){.name = counts->name,
					     .rows = counts->rows,
					     .bytes = counts->bytes,
					     .bytes_spilled = counts->bytes_spilled,
					     .bytes_read = counts->bytes_read,
					     .runs = counts->runs,
					     .partitions = counts->partitions,
					     .partition_rows_max = counts->rows_max,
					     .depth = counts->depth};
	API_COPY_OUT(out, &stats);
	return WEIR_OK;
}

void weir_task_free(struct weir_task *task)
{
	if (!task)
		return;
	if (!atomic_load_explicit(&task->claimed, memory_order_relaxed))
		api_task_stop(task);
	api_task_unref(task);
}
