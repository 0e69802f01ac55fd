/* Task: a flow that runs. It is waited for by its doorbell, so that a signal is seen at once and other threads go on.
 *
 * Whoever drops a Task stops its run and frees its memory; batches that were handed out stay. The end of the
 * interpreter stops what still runs, before Python itself is taken apart: streams of the program that a run reads may
 * need it. */
#include "backend/backend.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* Where another thread of the process got the signal, nothing interrupts this one: it looks by itself. */
enum { LOOK_MS = 100, PRINTS_MAX = 65536 };

struct task_object {
	PyObject_HEAD
	PyObject *session;
	struct weir_task *task;
	int64_t pid;
	bool gives_rows;
	PyObject *prints;              /* a list: what was printed and not asked for yet */
	struct pyext_display *display; /* NULL: it shows nothing */
	PyObject *show;                /* called with such lists by whoever waits; NULL: they are kept for prints() */
	struct task_object *next, **link; /* of the module's list; link NULL: not in it */
};

static void hide(struct task_object *self)
{
	if (self->display)
		pyext_display_hide(self->display);
}

/* ---- the list of tasks that may run ---- */

static void unlink_task(struct task_object *self)
{
	if (!self->link)
		return;
	*self->link = self->next;
	if (self->next)
		self->next->link = self->link;
	self->link = NULL;
}

PyObject *pyext_stop_tasks(PyObject *module, PyObject *Py_UNUSED(unused))
{
	struct pyext_state *state = pyext_state_of(module);

	state->is_ending = true;
	state->ending_thread = PyThread_get_thread_ident();
	while (state->tasks) {
		struct task_object *self = state->tasks;

		unlink_task(self);
		if (!pyext_here(self->pid))
			continue;
		Py_INCREF((PyObject *)self);
		hide(self);
		Py_BEGIN_ALLOW_THREADS;
		api_task_stop(self->task);
		Py_END_ALLOW_THREADS;
		Py_DECREF((PyObject *)self);
	}
	Py_RETURN_NONE;
}

static int link_task(PyObject *module, struct task_object *self)
{
	struct pyext_state *state = pyext_state_of(module);

	if (!state->at_exit) {
		PyObject *atexit = PyImport_ImportModule("atexit"), *hook = NULL, *done = NULL;

		if (atexit)
			hook = PyObject_GetAttrString(module, "_stop_tasks");
		if (hook)
			done = PyObject_CallMethod(atexit, "register", "O", hook);
		state->at_exit = done != NULL;
		Py_XDECREF(done);
		Py_XDECREF(hook);
		Py_XDECREF(atexit);
		if (!state->at_exit)
			return -1;
	}
	self->next = state->tasks;
	self->link = &state->tasks;
	if (self->next)
		self->next->link = &self->next;
	state->tasks = self;
	return 0;
}

/* ---- life ---- */

static void stop_and_unref(struct weir_task *task)
{
	Py_BEGIN_ALLOW_THREADS;
	api_task_stop(task);
	api_task_unref(task);
	Py_END_ALLOW_THREADS;
}

PyObject *pyext_task_new(PyObject *module, PyObject *session, struct weir_task *task, bool gives_rows)
{
	struct task_object *self = PyObject_New(struct task_object, pyext_state_of(module)->task_type);

	if (!self) {
		stop_and_unref(task);
		return NULL;
	}
	self->session = Py_NewRef(session);
	self->task = task;
	self->pid = (int64_t)getpid();
	self->gives_rows = gives_rows;
	self->prints = NULL;
	self->show = NULL;
	self->display = NULL;
	self->next = NULL;
	self->link = NULL;
	if (link_task(module, self)) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return (PyObject *)self;
}

static void task_dealloc(PyObject *object)
{
	struct task_object *self = (struct task_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	unlink_task(self);
	if (pyext_here(self->pid)) {
		hide(self);
		stop_and_unref(self->task);
	}
	pyext_display_free(self->display);
	Py_XDECREF(self->prints);
	Py_XDECREF(self->show);
	Py_XDECREF(self->session);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- waiting ---- */

/* Nobody asks for what is printed: half of it goes, and a line says so. */
static int drop_oldest(PyObject *lines)
{
	Py_ssize_t dropped = PyList_Size(lines) - PRINTS_MAX / 2;
	PyObject *text, *line;
	int failed;

	if (PyList_SetSlice(lines, 0, dropped, NULL))
		return -1;
	text = PyUnicode_FromFormat("%zd lines were printed before these, and are lost", dropped);
	line = text ? Py_BuildValue("(ssN)", "(weir)", "stderr", text) : NULL;
	failed = !line || PyList_Insert(lines, 0, line);
	Py_XDECREF(line);
	return failed ? -1 : 0;
}

/* Keeps lines for whoever asks; takes the list over. Another thread may have asked meanwhile: what it got stays as it
 * is. */
static int keep_lines(struct task_object *self, PyObject *lines)
{
	PyObject *before = self->prints;

	self->prints = before ? PySequence_Concat(before, lines) : Py_NewRef(lines);
	Py_XDECREF(before);
	Py_DECREF(lines);
	if (self->prints && PyList_Size(self->prints) > PRINTS_MAX)
		return drop_oldest(self->prints);
	return self->prints ? 0 : -1;
}

/* Calls the function that shows lines; takes the list over. */
static int show_lines(PyObject *show, PyObject *lines)
{
	PyObject *done;

	Py_INCREF(show);
	done = PyObject_CallFunctionObjArgs(show, lines, NULL);
	Py_DECREF(show);
	Py_DECREF(lines);
	Py_XDECREF(done);
	return done ? 0 : -1;
}

/* Log lines and what user code printed, as far as they have come. */
static int hand_out(struct task_object *self)
{
	struct pyext_log *log = pyext_log_here(pyext_module_of((PyObject *)self));
	PyObject *lines = log ? pyext_prints_take(self->task) : NULL;
	int failed = 0;

	if (!lines)
		return -1;
	if ((self->show && PyList_Size(lines)) || pyext_log_waits(log))
		pyext_display_aside(self->display);
	if (PyList_Size(lines) == 0)
		Py_DECREF(lines);
	else
		failed = self->show ? show_lines(self->show, lines) : keep_lines(self, lines);
	return failed ? -1 : pyext_log_drain(log);
}

/* What ended the task: user code's own error, or the engine's. */
static PyObject *raise_end(struct task_object *self, const struct weir_error *err)
{
	PyObject *module = pyext_module_of((PyObject *)self);
	struct weir_failure failure = {0};

	if (api_task_failure(self->task, &failure))
		return pyext_raise_failure(module, err, &failure);
	return pyext_raise(module, err);
}

/* Until the doorbell rings, or a little while; −1 with what a signal handler of the program raised. */
static int wait_a_while(struct task_object *self)
{
	PyObject *module = pyext_module_of((PyObject *)self);
	struct pyext_state *state = pyext_state_of(module);
	struct weir_error err = {0};
	struct pollfd doorbell = {.fd = api_task_fd(self->task, &err), .events = POLLIN};
	int count;

	if (doorbell.fd < 0) {
		pyext_raise(module, &err);
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS;
	api_wait_begin();
	count = poll(&doorbell, 1, LOOK_MS);
	api_wait_end();
	Py_END_ALLOW_THREADS;
	/* Only daemon threads are left beside the one that ends the interpreter: they are to say nothing more. */
	while (state->is_ending && state->ending_thread != PyThread_get_thread_ident()) {
		Py_BEGIN_ALLOW_THREADS;
		poll(NULL, 0, -1);
		Py_END_ALLOW_THREADS;
	}
	if (self->display && pyext_display_tick(self->display))
		return -1;
	return count == 1 ? 0 : PyErr_CheckSignals();
}

/* A Batch; NULL without an exception at the end. */
static PyObject *take(struct task_object *self)
{
	PyObject *module = pyext_module_of((PyObject *)self);

	for (;;) {
		struct weir_error err = {0};
		struct weir_batch *batch;
		bool ended;
		int code;

		/* A chunk is checked, and the run told that it may go on. */
		Py_BEGIN_ALLOW_THREADS;
		code = api_task_take(self->task, &batch, &ended, &err);
		Py_END_ALLOW_THREADS;
		if (hand_out(self)) {
			weir_batch_unref(batch);
			return NULL;
		}
		if (batch)
			return pyext_batch_new(module, batch, api_task_keeper(self->task));
		if (code)
			return raise_end(self, &err);
		if (ended || wait_a_while(self))
			return NULL;
	}
}

/* The same, with what is shown meanwhile. */
static PyObject *take_shown(struct task_object *self)
{
	PyObject *batch;

	if (self->display && pyext_display_tick(self->display))
		return NULL;
	batch = take(self);
	if (!batch)
		hide(self);
	return batch;
}

static PyObject *task_iternext(PyObject *object)
{
	struct task_object *self = (struct task_object *)object;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	if (!self->gives_rows) {
		PyErr_SetString(PyExc_ValueError, "the Task gives no rows: wait for it");
		return NULL;
	}
	return take_shown(self);
}

static PyObject *task_next(PyObject *object, PyObject *Py_UNUSED(unused))
{
	PyObject *batch = task_iternext(object);

	if (!batch && !PyErr_Occurred())
		Py_RETURN_NONE;
	return batch;
}

static PyObject *task_at_work(PyObject *object, PyObject *at_work)
{
	struct task_object *self = (struct task_object *)object;
	int yes = PyObject_IsTrue(at_work);

	if (yes < 0)
		return NULL;
	if (self->task && pyext_here(self->pid))
		api_task_at_work(self->task, yes);
	Py_RETURN_NONE;
}

static PyObject *task_wait(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	struct weir_error err = {0};

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	if (self->gives_rows) {
		PyErr_SetString(PyExc_ValueError, "the Task gives rows: take them with next, or close it");
		return NULL;
	}
	while (!api_task_ended(self->task, &err)) {
		if (wait_a_while(self) || hand_out(self)) {
			hide(self);
			return NULL;
		}
	}
	hide(self);
	if (hand_out(self))
		return NULL;
	if (err.code)
		return raise_end(self, &err);
	Py_RETURN_NONE;
}

static PyObject *task_cancel(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	weir_task_cancel(self->task);
	Py_RETURN_NONE;
}

static PyObject *task_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;

	if (!pyext_here(self->pid))
		Py_RETURN_NONE;
	unlink_task(self);
	hide(self);
	Py_BEGIN_ALLOW_THREADS;
	api_task_stop(self->task);
	Py_END_ALLOW_THREADS;
	if (hand_out(self))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *task_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
	return Py_NewRef(self);
}

static PyObject *task_exit(PyObject *self, PyObject *Py_UNUSED(args))
{
	return task_close(self, NULL);
}

static PyObject *task_prints(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	PyObject *prints;

	if (pyext_need_here(self->pid, "Task") || hand_out(self))
		return NULL;
	prints = self->prints;
	self->prints = NULL;
	return prints ? prints : PyList_New(0);
}

static PyObject *task_left_out(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	struct weir_failure failure;
	PyObject *list, *one;
	int failed = 0;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	list = PyList_New(0);
	while (list && !failed && self->task && api_task_left_out(self->task, &failure)) {
		one = pyext_failure_new(pyext_module_of(object), &failure);
		failed = !one || PyList_Append(list, one);
		Py_XDECREF(one);
	}
	if (failed)
		Py_CLEAR(list);
	return list;
}

static PyObject *task_show(PyObject *object, PyObject *show)
{
	struct task_object *self = (struct task_object *)object;
	PyObject *before = self->show;

	self->show = show == Py_None ? NULL : Py_NewRef(show);
	Py_XDECREF(before);
	Py_RETURN_NONE;
}

static PyObject *task_display(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"target", "from_ns", "operators", "whole_names", "asking", NULL};
	struct task_object *self = (struct task_object *)object;
	struct pyext_display_options options = {.fd = -1};
	PyObject *target, *asking = Py_None;
	long long from_ns = 0;
	int operators = 1, whole_names = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|LppO:display", names, &target, &from_ns, &operators,
					 &whole_names, &asking) ||
	    pyext_need_here(self->pid, "Task"))
		return NULL;
	if (self->display) {
		PyErr_SetString(PyExc_ValueError, "the Task has a display already");
		return NULL;
	}
	if (PyLong_Check(target))
		options.fd = (int)PyLong_AsLong(target);
	else
		options.write = target;
	if (PyErr_Occurred())
		return NULL;
	options.from_ns = from_ns > 0 ? (uint64_t)from_ns : 0;
	options.operators = operators;
	options.whole_names = whole_names;
	options.asking = asking == Py_None ? NULL : asking;
	self->display = pyext_display_new(self->task, &options);
	if (!self->display)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *task_hide(PyObject *object, PyObject *Py_UNUSED(unused))
{
	if (pyext_here(((struct task_object *)object)->pid)) /* a child of a fork leaves the parent's display alone */
		hide((struct task_object *)object);
	Py_RETURN_NONE;
}

static PyObject *task_blocks(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	PyObject *module = pyext_module_of(object), *list;
	struct weir_block *const *blocks;
	struct weir_error err = {0};
	size_t count;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	if (!api_task_ended(self->task, &err) || err.code) {
		PyErr_SetString(PyExc_ValueError, "the Task has no blocks: it has not ended, or not well");
		return NULL;
	}
	list = PyList_New(0);
	blocks = api_task_blocks(self->task, &count);
	for (size_t i = 0; list && i < count; i++) {
		PyObject *block = pyext_block_new(module, self->session, blocks[i]);

		if (!block || PyList_Append(list, block))
			Py_CLEAR(list);
		Py_XDECREF(block);
	}
	return list;
}

static PyObject *task_empty(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	const struct weir_schema *schema;
	struct weir_error err = {0};

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	if (!self->task || !api_task_ended(self->task, &err) || err.code) {
		PyErr_SetString(PyExc_ValueError, "the Task's columns are not known: it has not ended, or not well");
		return NULL;
	}
	schema = api_task_columns(self->task);
	if (!schema)
		Py_RETURN_NONE;
	return pyext_batch_of_schema(pyext_module_of(object), schema);
}

static PyObject *task_place(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	struct weir_place place;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	place = api_task_place(self->task);
	return Py_BuildValue("(II)", (unsigned)place.split, (unsigned)place.chunk);
}

/* ---- stats ---- */

/* Questions about a run wait for its lock, whose holder may be waiting for the GIL (a source that is a Python
 * iterator): they are asked without it. */
#define WITHOUT_GIL(statement)                                                                                         \
	do {                                                                                                           \
		Py_BEGIN_ALLOW_THREADS;                                                                                \
		statement;                                                                                             \
		Py_END_ALLOW_THREADS;                                                                                  \
	} while (0)

/* Takes the value over. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
	int failed = value ? PyDict_SetItemString(dict, name, value) : -1;

	Py_XDECREF(value);
	return failed;
}

static PyObject *operators_of(struct weir_task *task)
{
	struct weir_operator_stats stats = {.struct_size = sizeof(stats)};
	PyObject *list = PyList_New(0);
	int code;

	for (uint32_t i = 0; list; i++) {
		PyObject *one;

		WITHOUT_GIL(code = weir_task_operator(task, i, &stats));
		if (code)
			break;
		one = Py_BuildValue("{s:s,s:K,s:K}", "name", stats.name, "rows_out", (unsigned long long)stats.rows_out,
				    "time_ns", (unsigned long long)stats.time_ns);
		if (!one || PyList_Append(list, one))
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *exchanges_of(struct weir_task *task)
{
	struct weir_exchange_stats stats = {.struct_size = sizeof(stats)};
	PyObject *list = PyList_New(0);
	int code;

	for (uint32_t i = 0; list; i++) {
		PyObject *one;

		WITHOUT_GIL(code = weir_task_exchange(task, i, &stats));
		if (code)
			break;
		one = Py_BuildValue("{s:s}", "name", stats.name);
#define NUMBER(field) put(one, #field, PyLong_FromUnsignedLongLong((unsigned long long)stats.field))
		if (!one || NUMBER(rows) || NUMBER(bytes) || NUMBER(bytes_spilled) || NUMBER(bytes_read) ||
		    NUMBER(runs) || NUMBER(partitions) || NUMBER(partition_rows_max) || NUMBER(depth) ||
		    PyList_Append(list, one))
			Py_CLEAR(list);
#undef NUMBER
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *stage_of(const char *name, const struct weir_stage_stats *stats)
{
	static const char *const waits[WEIR_WAIT_COUNT] = {
		[WEIR_WAIT_SLOT] = "slot",           [WEIR_WAIT_MEMORY] = "memory",
		[WEIR_WAIT_WINDOW] = "window",       [WEIR_WAIT_DOWNSTREAM] = "downstream",
		[WEIR_WAIT_RESOURCES] = "resources", [WEIR_WAIT_TURN] = "turn",
	};
	PyObject *stage = Py_BuildValue("{s:s}", "name", name), *wait = stage ? PyDict_New() : NULL;
	int failed = !wait;

#define NUMBER(field) put(stage, #field, PyLong_FromLongLong((long long)stats->field))
	failed = failed || NUMBER(tasks_done) || NUMBER(tasks_errored) || NUMBER(retries) || NUMBER(deaths) ||
		 NUMBER(rows_in) || NUMBER(rows_out) || NUMBER(bytes_in) || NUMBER(bytes_out) || NUMBER(slots_up) ||
		 NUMBER(slots_busy) || NUMBER(slots_peak) || NUMBER(queued) || NUMBER(memory_assumed) ||
		 NUMBER(memory_peak) || NUMBER(outputs) || NUMBER(busy_ns);
#undef NUMBER
#define SPREAD(field)                                                                                                  \
	put(stage, #field,                                                                                             \
	    Py_BuildValue("{s:K,s:K,s:K}", "min", (unsigned long long)stats->field.min, "max",                         \
			  (unsigned long long)stats->field.max, "total", (unsigned long long)stats->field.total))
	failed = failed || put(stage, "tasks_timed", PyLong_FromUnsignedLongLong(stats->tasks_timed)) ||
		 SPREAD(wall_ns) || SPREAD(cpu_ns) || SPREAD(call_ns) || SPREAD(output_rows) || SPREAD(output_bytes);
#undef SPREAD
	for (int i = 0; !failed && i < WEIR_WAIT_COUNT; i++)
		failed = put(wait, waits[i], PyLong_FromUnsignedLongLong(stats->wait_ns[i]));
	if (failed || PyDict_SetItemString(stage, "wait_ns", wait))
		Py_CLEAR(stage);
	Py_XDECREF(wait);
	return stage;
}

static PyObject *stages_of(struct weir_task *task)
{
	PyObject *list = PyList_New(0);
	struct weir_stage_stats stats;
	const char *name;

	for (uint32_t i = 0; list; i++) {
		PyObject *stage;

		WITHOUT_GIL(name = api_task_stage_stats(task, i, &stats));
		if (!name)
			break;
		stage = stage_of(name, &stats);
		if (!stage || PyList_Append(list, stage))
			Py_CLEAR(list);
		Py_XDECREF(stage);
	}
	return list;
}

static PyObject *task_stats(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct task_object *self = (struct task_object *)object;
	struct weir_stats stats;
	PyObject *dict;

	if (pyext_need_here(self->pid, "Task"))
		return NULL;
	WITHOUT_GIL(api_task_stats(self->task, &stats));
	dict = PyDict_New();
	if (!dict)
		return NULL;
#define NUMBER(name) put(dict, #name, PyLong_FromLongLong((long long)stats.name))
	if (NUMBER(rows_in) || NUMBER(rows_out) || NUMBER(splits_done) || NUMBER(splits_total) || NUMBER(bytes_done) ||
	    NUMBER(bytes_total) || NUMBER(elapsed_ns) || NUMBER(memory_used) || NUMBER(memory_peak) ||
	    NUMBER(memory_limit) || NUMBER(threads) || NUMBER(splits_redone) || NUMBER(wait_ns_memory) ||
	    NUMBER(wait_ns_order) || NUMBER(rows_pruned) || NUMBER(bytes_out) ||
	    put(dict, "finished", PyBool_FromLong(stats.finished)) ||
	    put(dict, "operators", operators_of(self->task)) || put(dict, "stages", stages_of(self->task)) ||
	    put(dict, "exchanges", exchanges_of(self->task)))
		Py_CLEAR(dict);
#undef NUMBER
	return dict;
}

static PyMethodDef task_methods[] = {
	{"at_work", task_at_work, METH_O,
	 "at_work($self, at_work, /)\n--\n\nWhether the program works with its batches while another thread takes the next one: the run "
	 "then waits\nfor what the program will let go of, rather than go beyond its budget. At first it does not."},
	{"next", task_next, METH_NOARGS, "next($self)\n--\n\nThe next Batch, in input order; None at the end."},
	{"wait", task_wait, METH_NOARGS, "wait($self)\n--\n\nWaits for the end; raises how it failed."},
	{"cancel", task_cancel, METH_NOARGS,
	 "cancel($self)\n--\n\nAsks the run to stop; who waits for it gets CancelledError."},
	{"close", task_close, METH_NOARGS,
	 "close($self)\n--\n\nStops the run and waits for that; frees what nobody took."},
	{"left_out", task_left_out, METH_NOARGS,
	 "left_out($self)\n--\n\nTasks that failed and were left out since the last call: (operator, origin, payload) each."},
	{"prints", task_prints, METH_NOARGS,
	 "prints($self)\n--\n\nWhat user code printed since the last call: (label, 'stdout' or 'stderr', line) each."},
	{"show", task_show, METH_O,
	 "show($self, function, /)\n--\n\nWhoever waits for the task calls this with lists of what prints() would give, as it comes."},
	{"display", (PyCFunction)(void (*)(void))task_display, METH_VARARGS | METH_KEYWORDS,
	 "display($self, target, from_ns=0, operators=True, whole_names=False, asking=None)\n--\n\nWhoever waits for the task draws "
	 "its progress: on a terminal's descriptor, or by calling a\nfunction with text. from_ns: of time.monotonic_ns(), when it begins; "
	 "asking: of a loop, its\nsince_ns is when the program began to wait, 0 while it works."},
	{"hide", task_hide, METH_NOARGS, "hide($self)\n--\n\nTakes the display off, until it is drawn again."},
	{"blocks", task_blocks, METH_NOARGS,
	 "blocks($self)\n--\n\nThe Blocks of a Task that keeps its rows and has ended."},
	{"empty", task_empty, METH_NOARGS,
	 "empty($self)\n--\n\nA Batch of no rows with the columns of a result without rows, behind the Task's end; None: nobody knows "
	 "them."},
	{"place", task_place, METH_NOARGS, "place($self)\n--\n\nAs Block.place, of the Batch that was given out last."},
	{"stats", task_stats, METH_NOARGS, "stats($self)\n--\n\nWhat it did so far, as a dict."},
	{"__enter__", task_enter, METH_NOARGS, NULL},
	{"__exit__", task_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot task_slots[] = {
	{Py_tp_doc, "A flow that runs, made by Flow.start. An iterator of its batches. Dropping it stops the run."},
	{Py_tp_dealloc, task_dealloc},
	{Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, task_iternext},
	{Py_tp_methods, task_methods},
	{0, NULL},
};

static PyType_Spec task_spec = {
	.name = "weir._weir.Task",
	.basicsize = sizeof(struct task_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = task_slots,
};

int pyext_add_task(PyObject *module)
{
	return pyext_add_type(module, &task_spec, &pyext_state_of(module)->task_type);
}
