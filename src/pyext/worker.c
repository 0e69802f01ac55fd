/* Worker: the Python half of a worker process.
 *
 *     Worker() ─▶ setup ─▶ next ─▶ output … ─▶ done | failed ─▶ next … ─▶ None: the end
 *                     └▶ broken
 *
 * A task's rows lie in a private map of the driver's memory and are looked at where they lie. Each part of them is
 * given back when the last view of it has died, which may be long after the task is done: user code may keep what it
 * was given.
 *
 *     view ─▶ Batch ─▶ weir_owner ─▶ struct link ◀─ Worker       the link goes with the last of them
 *
 * Threads: Python's; views may die in any. */
#include "base/mem.h"
#include "arrow/block.h"
#include "backend/local/worker_end.h"
#include "backend/local/worker_side.h"
#include "pyext/made_in_place.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <unistd.h>

/* How long a wait may be before signals are looked at. */
#define LOOK_NS ((int64_t)500 * 1000000)

struct link {
	_Atomic uint32_t refs;
	struct weir_worker_side side;
};

struct worker_object {
	PyObject_HEAD
	struct link *link;
	struct weir_block_cache cache;
	struct weir_side_task *task; /* that was given and not answered; NULL: none */
	int64_t pid;
	bool is_ready, is_quitting;
};

/* What next() gives: nothing but the rows, so that dropping it drops them. */
struct worker_task_object {
	PyObject_HEAD
	PyObject *batch;
	uint32_t number, attempt;
	uint64_t rows_kept;
};

/* ---- parts ---- */

static void link_unref(struct link *link)
{
	/* acq_rel: the last one frees what the others used. */
	if (atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) != 1)
		return;
	weir_worker_side_release(&link->side);
	weir_plain_free(link);
}

/* A part and the link that it came by. */
struct kept_part {
	struct link *link;
	struct weir_side_part *part;
};

static void part_released(void *arg)
{
	struct kept_part *kept = arg;

	weir_side_part_release(&kept->link->side, kept->part);
	link_unref(kept->link);
	weir_plain_free(kept);
}

/* The part's rows; the part is given back with them, also on failure. */
static PyObject *batch_of_part(struct worker_object *self, struct weir_side_part *part)
{
	PyObject *module = pyext_module_of((PyObject *)self), *batch, *rows;
	struct kept_part *kept = weir_plain_alloc(sizeof(*kept));
	struct weir_error err = {0};
	struct weir_owner *owner;
	struct weir_batch *opened = NULL;
	int code;

	if (!kept) {
		weir_side_part_release(&self->link->side, part);
		return PyErr_NoMemory();
	}
	*kept = (struct kept_part){self->link, part};
	atomic_fetch_add_explicit(&self->link->refs, 1, memory_order_relaxed);
	owner = pyext_owner_new(module, part_released, kept);
	if (!owner) {
		part_released(kept);
		return NULL;
	}
	/* What the driver sent is trusted: it checked it. */
	code = weir_block_open(pyext_values_account(module), &self->cache, part->bytes, part->size, owner, false,
			       &opened, &err);
	weir_owner_unref(owner);
	if (code)
		return pyext_raise(module, &err);
	if (part->row_first == 0 && part->row_count == (uint64_t)opened->row_count)
		return pyext_batch_new(module, opened, NULL);
	batch = pyext_batch_new(module, opened, NULL);
	rows = batch ? PyObject_CallMethod(batch, "slice", "LL", (long long)part->row_first,
					   (long long)(part->row_first + part->row_count))
		     : NULL;
	Py_XDECREF(batch);
	return rows;
}

/* One part as it lies; several are put together, since the function is to see them as one. */
static PyObject *batch_of_task(struct worker_object *self, struct weir_side_task *task)
{
	PyObject *list, *batch = NULL;
	uint32_t at = 0;

	if (task->part_count == 1)
		return batch_of_part(self, task->parts[0]);
	list = PyList_New(0);
	for (; list && at < task->part_count; at++) {
		PyObject *part = batch_of_part(self, task->parts[at]);

		if (!part || PyList_Append(list, part))
			Py_CLEAR(list);
		Py_XDECREF(part);
	}
	for (; at < task->part_count; at++)
		weir_side_part_release(&self->link->side, task->parts[at]);
	if (list)
		batch = PyObject_CallMethod(pyext_module_of((PyObject *)self), "batch_concat", "O", list);
	Py_XDECREF(list);
	return batch;
}

/* ---- the task that is given ---- */

static void task_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(((struct worker_task_object *)object)->batch);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *task_get_batch(PyObject *self, void *Py_UNUSED(closure))
{
	return Py_NewRef(((struct worker_task_object *)self)->batch);
}

static PyObject *task_get_number(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLong(((struct worker_task_object *)self)->number);
}

static PyObject *task_get_attempt(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLong(((struct worker_task_object *)self)->attempt);
}

static PyObject *task_get_rows_kept(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLongLong(((struct worker_task_object *)self)->rows_kept);
}

static PyGetSetDef task_properties[] = {
	{"batch", task_get_batch, NULL, "The task's rows.", NULL},
	{"number", task_get_number, NULL,
	 "Of the task among those of its stage, from 0; whoever does it again has the same.", NULL},
	{"attempt", task_get_attempt, NULL, "0 for the first.", NULL},
	{"rows_kept", task_get_rows_kept, NULL, "Of its results, the first rows, which an earlier attempt has given.",
	 NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot task_slots[] = {
	{Py_tp_doc, "A task that a Worker was given."},
	{Py_tp_dealloc, task_dealloc},
	{Py_tp_getset, task_properties},
	{0, NULL},
};

static PyType_Spec task_spec = {
	.name = "weir._weir.WorkerTask",
	.basicsize = sizeof(struct worker_task_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = task_slots,
};

static PyObject *task_new(struct worker_object *self, struct weir_side_task *task)
{
	PyObject *module = pyext_module_of((PyObject *)self), *batch = batch_of_task(self, task);
	struct worker_task_object *made = NULL;

	if (batch)
		made = PyObject_New(struct worker_task_object, pyext_state_of(module)->worker_task_type);
	if (!made) {
		Py_XDECREF(batch);
		return NULL;
	}
	made->batch = batch;
	made->number = task->number;
	made->attempt = task->attempt;
	made->rows_kept = task->rows_kept;
	return (PyObject *)made;
}

/* ---- life ---- */

static PyObject *worker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {NULL};
	PyObject *module = PyType_GetModule(type);
	struct weir_account *account = pyext_values_account(module);
	struct weir_error err = {0};
	struct worker_object *self;
	struct link *link;
	int code;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Worker", names))
		return NULL;
	link = weir_plain_alloc(sizeof(*link));
	if (!link)
		return PyErr_NoMemory();
	atomic_init(&link->refs, 1);
	self = PyObject_New(struct worker_object, type);
	if (!self) {
		weir_plain_free(link);
		return NULL;
	}
	self->link = link;
	self->cache = (struct weir_block_cache){0};
	self->task = NULL;
	self->pid = (int64_t)getpid();
	self->is_ready = self->is_quitting = false;
	Py_BEGIN_ALLOW_THREADS;
	code = weir_worker_side_open(&link->side, account, &err);
	Py_END_ALLOW_THREADS;
	if (code) {
		Py_DECREF((PyObject *)self);
		return pyext_raise(module, &err);
	}
	return (PyObject *)self;
}

static void worker_dealloc(PyObject *object)
{
	struct worker_object *self = (struct worker_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (pyext_here(self->pid)) {
		weir_block_cache_release(&self->cache);
		link_unref(self->link);
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

PyObject *pyext_end_with(PyObject *module, PyObject *lifeline)
{
	struct weir_error err = {0};
	long fd = PyLong_AsLong(lifeline);

	if (fd == -1 && PyErr_Occurred())
		return NULL;
	if (weir_worker_end_with((int)fd, &err))
		return pyext_raise(module, &err);
	Py_RETURN_NONE;
}

/* ---- talking ---- */

/* A wait that signals end early; *task stays NULL when the time is over or there will be none. */
static int wait_for_task(struct worker_object *self, int64_t timeout_ns, struct weir_side_task **task)
{
	struct weir_error err = {0};
	int code = WEIR_OK;

	for (;;) {
		int64_t part_ns = timeout_ns >= 0 && timeout_ns < LOOK_NS ? timeout_ns : LOOK_NS;

		Py_BEGIN_ALLOW_THREADS;
		code = weir_worker_side_next(&self->link->side, part_ns, task, &self->is_quitting, &err);
		Py_END_ALLOW_THREADS;
		if (code) {
			pyext_raise(pyext_module_of((PyObject *)self), &err);
			return -1;
		}
		if (*task || self->is_quitting)
			return 0;
		if (PyErr_CheckSignals())
			return -1;
		if (timeout_ns >= 0 && (timeout_ns -= part_ns) <= 0)
			return 0;
	}
}

static PyObject *worker_short(PyObject *object, PyObject *Py_UNUSED(nothing))
{
	struct worker_object *self = (struct worker_object *)object;

	if (pyext_need_here(self->pid, "Worker"))
		return NULL;
	if (!self->is_ready)
		weir_worker_side_ready(&self->link->side, true);
	self->is_ready = true;
	Py_RETURN_NONE;
}

static PyObject *worker_next(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"idle_ms", NULL};
	struct worker_object *self = (struct worker_object *)object;
	struct weir_side_task *task = NULL;
	long long idle_ms = -1;
	PyObject *made;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|L:next", names, &idle_ms) ||
	    pyext_need_here(self->pid, "Worker"))
		return NULL;
	if (self->task) {
		PyErr_SetString(PyExc_RuntimeError, "the last task was not answered");
		return NULL;
	}
	if (!self->is_ready)
		weir_worker_side_ready(&self->link->side, false);
	self->is_ready = true;
	if (wait_for_task(self, idle_ms < 0 ? -1 : idle_ms * 1000000, &task))
		return NULL;
	if (!task) {
		if (self->is_quitting)
			Py_RETURN_NONE;
		return PyUnicode_FromString("idle");
	}
	/* Also when its rows cannot be looked at, as one batch of blocks that do not go together: that is its answer
	 * then. */
	self->task = task;
	made = task_new(self, task);
	made_in_place_begin(&self->link->side, task);
	return made;
}

static int need_task(struct worker_object *self)
{
	if (pyext_need_here(self->pid, "Worker"))
		return -1;
	if (self->task)
		return 0;
	PyErr_SetString(PyExc_RuntimeError, "there is no task to answer");
	return -1;
}

static PyObject *worker_output(PyObject *object, PyObject *given)
{
	struct worker_object *self = (struct worker_object *)object;
	PyObject *module = pyext_module_of(object);
	struct weir_batch *batch;
	struct weir_block_plan plan;
	struct weir_error err = {0};
	uint8_t *bytes;
	int code;

	if (need_task(self))
		return NULL;
	batch = pyext_batch_get(module, given);
	if (!batch)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	code = weir_block_measure(batch, &plan, &err);
	Py_END_ALLOW_THREADS;
	if (!code && weir_worker_side_left(self->task, &bytes) < plan.size)
		made_in_place_leave();
	Py_BEGIN_ALLOW_THREADS;
	if (!code)
		code = weir_worker_side_room(&self->link->side, self->task, plan.size, &bytes, &err);
	Py_END_ALLOW_THREADS;
	if (code)
		return pyext_raise(module, &err);
	if (made_in_place_output(batch, &plan, bytes))
		weir_worker_side_left(self->task, &bytes);
	Py_BEGIN_ALLOW_THREADS;
	code = weir_block_write(batch, &plan, bytes, &err);
	if (!code)
		weir_worker_side_output(&self->link->side, self->task, plan.size, (uint64_t)batch->row_count);
	Py_END_ALLOW_THREADS;
	if (code)
		return pyext_raise(module, &err);
	Py_RETURN_NONE;
}

static PyObject *worker_done(PyObject *object, PyObject *args)
{
	struct worker_object *self = (struct worker_object *)object;
	unsigned long long call_ns = 0;

	if (!PyArg_ParseTuple(args, "|K", &call_ns) || need_task(self))
		return NULL;
	made_in_place_end(pyext_module_of((PyObject *)self));
	weir_worker_side_done(&self->link->side, self->task, call_ns);
	self->task = NULL;
	Py_RETURN_NONE;
}

static PyObject *worker_failed(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"payload", "memory", "text", NULL};
	struct worker_object *self = (struct worker_object *)object;
	const char *text = "";
	Py_buffer payload;
	int memory = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|ps:failed", names, &payload, &memory, &text))
		return NULL;
	if (need_task(self)) {
		PyBuffer_Release(&payload);
		return NULL;
	}
	made_in_place_end(pyext_module_of(object));
	Py_BEGIN_ALLOW_THREADS;
	weir_worker_side_failed(&self->link->side, self->task, memory ? WEIR_E_MEMORY : WEIR_E_USER, text, payload.buf,
				(uint64_t)payload.len);
	Py_END_ALLOW_THREADS;
	self->task = NULL;
	PyBuffer_Release(&payload);
	Py_RETURN_NONE;
}

static PyObject *worker_broken(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"payload", "text", NULL};
	struct worker_object *self = (struct worker_object *)object;
	const char *text = "";
	Py_buffer payload;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|s:broken", names, &payload, &text))
		return NULL;
	if (pyext_need_here(self->pid, "Worker")) {
		PyBuffer_Release(&payload);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS;
	weir_worker_side_broken(&self->link->side, WEIR_E_USER, text, payload.buf, (uint64_t)payload.len);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&payload);
	Py_RETURN_NONE;
}

/* ---- what it was started with ---- */

/* The map stays as long as the process: user code may keep objects that lie in it. */
static PyObject *worker_get_setup(PyObject *self, void *Py_UNUSED(closure))
{
	struct weir_worker_side *side = &((struct worker_object *)self)->link->side;

	return PyMemoryView_FromMemory((char *)side->setup, (Py_ssize_t)side->setup_size, PyBUF_WRITE);
}

static PyObject *worker_get_number(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLong(((struct worker_object *)self)->link->side.worker);
}

static PyObject *worker_get_generation(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLong(((struct worker_object *)self)->link->side.generation);
}

/* What can still be given without asking. */
static PyObject *worker_get_room(PyObject *self, void *Py_UNUSED(closure))
{
	const struct weir_side_task *task = ((struct worker_object *)self)->task;
	uint8_t *bytes;

	return PyLong_FromUnsignedLongLong(task ? weir_worker_side_left(task, &bytes) : 0);
}

static PyObject *worker_at(PyObject *self, PyObject *arguments)
{
	unsigned long long first, count;

	if (!PyArg_ParseTuple(arguments, "KK", &first, &count))
		return NULL;
	weir_worker_side_at(&((struct worker_object *)self)->link->side, first, count);
	Py_RETURN_NONE;
}

static PyMethodDef worker_methods[] = {
	{"at", worker_at, METH_VARARGS,
	 "at($self, first, count, /)\n--\n\nSays which rows of its task it is at, for who has to tell of its death."},
	{"next", (PyCFunction)(void (*)(void))worker_next, METH_VARARGS | METH_KEYWORDS,
	 "next($self, idle_ms=-1)\n--\n\nWaits for a WorkerTask. 'idle': none came for so long. None: there will be none."},
	{"short", worker_short, METH_NOARGS,
	 "short($self)\n--\n\nThere was too little memory for the setup: it is tried again with the first task."},
	{"output", worker_output, METH_O,
	 "output($self, batch, /)\n--\n\nGives a Batch as a result of the task; there may be several."},
	{"done", worker_done, METH_VARARGS, "done($self)\n--\n\nThe task is done."},
	{"failed", (PyCFunction)(void (*)(void))worker_failed, METH_VARARGS | METH_KEYWORDS,
	 "failed($self, payload, memory=False, text='')\n--\n\nThe task failed; payload tells the driver how. memory: it may work alone."},
	{"broken", (PyCFunction)(void (*)(void))worker_broken, METH_VARARGS | METH_KEYWORDS,
	 "broken($self, payload, text='')\n--\n\nThe setup failed, as it would anywhere: the run ends."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef worker_properties[] = {
	{"setup", worker_get_setup, NULL, "What the driver gave all workers of the stage: a memoryview.", NULL},
	{"number", worker_get_number, NULL, "Among the workers of the stage, from 0.", NULL},
	{"room", worker_get_room, NULL, "Bytes of results for which the task has room already.", NULL},
	{"generation", worker_get_generation, NULL, "How often this place was filled before.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot worker_slots[] = {
	{Py_tp_doc,
	 "Worker()\n--\n\nThe worker's end of its link to the driver, over the descriptors it was started with. From here "
	 "on the\nprocess dies with its driver."},
	{Py_tp_new, worker_new},
	{Py_tp_dealloc, worker_dealloc},
	{Py_tp_methods, worker_methods},
	{Py_tp_getset, worker_properties},
	{0, NULL},
};

static PyType_Spec worker_spec = {
	.name = "weir._weir.Worker",
	.basicsize = sizeof(struct worker_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = worker_slots,
};

int pyext_add_worker(PyObject *module)
{
	struct pyext_state *state = pyext_state_of(module);

	if (pyext_add_type(module, &task_spec, &state->worker_task_type))
		return -1;
	return pyext_add_type(module, &worker_spec, &state->worker_type);
}
