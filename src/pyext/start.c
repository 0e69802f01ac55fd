/* Starting a task, in a thread of its own, so that a signal's handler runs while ten thousand files are opened.
 *
 *     caller                             thread
 *       │ copies the flow ───────────────▶ plans, opens, starts
 *       │ waits, looks for signals         │
 *       ▼ takes the task ◀──────────────── ▼ says that it is done
 *
 * When the handler raises, the caller leaves: the thread ends by itself, and the last of the two frees everything. The
 * flow's copy is the thread's, so nothing of Python's is touched there but through streams, which take the GIL
 * themselves. */
#include "base/clock.h"
#include "base/mem.h"
#include "pyext/pyext_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_NS = 50000000 };

struct starting {
	pthread_mutex_t lock; /* guards what follows; rank: alone */
	pthread_cond_t changed;
	bool is_done, is_left; /* by the thread; by the caller */
	struct weir_flow *flow;
	enum api_end end;
	struct weir_start_options options;
	struct weir_task *task;
	struct weir_error err;
	int code;
};

static void starting_free(struct starting *starting)
{
	if (starting->task) { /* nobody wanted it any more */
		api_task_stop(starting->task);
		api_task_unref(starting->task);
	}
	weir_flow_free(starting->flow);
	pthread_cond_destroy(&starting->changed);
	pthread_mutex_destroy(&starting->lock);
	weir_plain_free(starting);
}

static void start(struct starting *starting)
{
	starting->code = api_flow_task(starting->flow, starting->end, &starting->options, &starting->task,
				       &starting->err);
	if (starting->code)
		return;
	starting->code = api_task_start(starting->task, &starting->err);
	if (starting->code) {
		api_task_unref(starting->task);
		starting->task = NULL;
	}
}

static void *thread_main(void *argument)
{
	struct starting *starting = argument;
	bool is_left;

	start(starting);
	pthread_mutex_lock(&starting->lock);
	starting->is_done = true;
	is_left = starting->is_left;
	pthread_cond_signal(&starting->changed);
	pthread_mutex_unlock(&starting->lock);
	if (is_left)
		starting_free(starting);
	return NULL;
}

static struct starting *starting_new(const struct weir_flow *flow, enum api_end end,
				     const struct weir_start_options *options)
{
	struct starting *starting = weir_plain_alloc(sizeof(*starting));
	pthread_condattr_t monotonic;

	if (!starting)
		return NULL;
	*starting = (struct starting){.end = end, .options = *options};
	pthread_mutex_init(&starting->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&starting->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	starting->flow = weir_flow_copy(flow);
	if (!starting->flow) {
		starting_free(starting);
		return NULL;
	}
	return starting;
}

/* A little while, or until it is done. */
static bool wait_a_while(struct starting *starting)
{
	uint64_t until = weir_clock_ns() + LOOK_NS;
	struct timespec time = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
	bool is_done;

	pthread_mutex_lock(&starting->lock);
	if (!starting->is_done)
		pthread_cond_timedwait(&starting->changed, &starting->lock, &time);
	is_done = starting->is_done;
	pthread_mutex_unlock(&starting->lock);
	return is_done;
}

/* The handler of a signal has raised: whoever is the last frees. */
static void leave(struct starting *starting)
{
	bool is_done;

	pthread_mutex_lock(&starting->lock);
	starting->is_left = true;
	is_done = starting->is_done;
	pthread_mutex_unlock(&starting->lock);
	if (is_done)
		starting_free(starting);
}

int pyext_start(PyObject *module, struct flow_object *flow, enum api_end end, const struct weir_start_options *options,
		struct weir_task **out)
{
	struct starting *starting;
	pthread_attr_t detached;
	pthread_t thread;
	bool is_done = false;
	int failed;

	flow->lookers++;
	Py_BEGIN_ALLOW_THREADS;
	starting = starting_new(flow->flow, end, options);
	Py_END_ALLOW_THREADS;
	flow->lookers--;
	if (!starting) {
		PyErr_NoMemory();
		return -1;
	}
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	failed = pthread_create(&thread, &detached, thread_main, starting);
	pthread_attr_destroy(&detached);
	Py_BEGIN_ALLOW_THREADS;
	if (failed) { /* no thread is to be had: then without one */
		start(starting);
		is_done = true;
	}
	Py_END_ALLOW_THREADS;
	while (!is_done) {
		Py_BEGIN_ALLOW_THREADS;
		is_done = wait_a_while(starting);
		Py_END_ALLOW_THREADS;
		if (!is_done && PyErr_CheckSignals()) {
			Py_BEGIN_ALLOW_THREADS;
			leave(starting);
			Py_END_ALLOW_THREADS;
			return -1;
		}
	}
	*out = starting->task;
	starting->task = NULL;
	failed = starting->code;
	if (failed)
		pyext_raise(module, &starting->err);
	Py_BEGIN_ALLOW_THREADS;
	starting_free(starting);
	Py_END_ALLOW_THREADS;
	return failed ? -1 : 0;
}
