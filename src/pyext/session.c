/* Session: memory with a limit, and threads. Flows and tasks keep theirs. */
#include "base/mem.h"
#include "backend/backend.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <unistd.h>

#define KEPT_WARM ((size_t)8 << 20)

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"memory_limit", "threads", "spill_dir", NULL};
	PyObject *module = PyType_GetModule(type), *spill_dir = NULL;
	struct weir_options options = {.struct_size = sizeof(options), .log = pyext_log_write};
	struct weir_error err = {0};
	struct session_object *self = NULL;
	struct weir_session *session = NULL;
	long long memory_limit = 0;
	int threads = 0, code;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LiO&:Session", names, &memory_limit, &threads,
					 pyext_path_converter, &spill_dir))
		return NULL;
	if (threads < 0) {
		PyErr_Format(PyExc_ValueError, "threads is %d", threads);
		goto out;
	}
	options.memory_limit = memory_limit;
	options.threads = (uint32_t)threads;
	options.spill_dir = spill_dir ? PyBytes_AsString(spill_dir) : NULL;
	options.log_data = pyext_log_here(module);
	self = options.log_data ? PyObject_New(struct session_object, type) : NULL;
	if (!self)
		goto out;
	self->session = NULL;
	self->charged = 0;
	self->pid = (int64_t)getpid();
	Py_BEGIN_ALLOW_THREADS;
	code = api_session_new(&options, &session, &err);
	Py_END_ALLOW_THREADS;
	self->session = session;
	if (!code) {
		weir_session_program(session, pyext_values_account(module)->mem);
	} else {
		pyext_raise(module, &err);
		Py_DECREF((PyObject *)self);
		self = NULL;
	}
out:
	Py_XDECREF(spill_dir);
	return (PyObject *)self;
}

static void session_dealloc(PyObject *object)
{
	struct session_object *self = (struct session_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->session && pyext_here(self->pid)) {
		weir_account_discharge(weir_session_account(self->session), self->charged);
		weir_session_program(self->session, NULL);
		Py_BEGIN_ALLOW_THREADS;
		weir_session_free(self->session);
		Py_END_ALLOW_THREADS;
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *session_memory(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct session_object *self = (struct session_object *)object;
	struct weir_mem_stats stats;

	if (pyext_need_here(self->pid, "Session"))
		return NULL;
	Py_BEGIN_ALLOW_THREADS; /* it waits for locks */
	weir_session_memory(self->session, &stats);
	Py_END_ALLOW_THREADS;
	return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "limit", (long long)weir_session_memory_limit(self->session),
			     "used", (long long)stats.used, "warm", (long long)stats.warm, "mapped",
			     (long long)stats.mapped, "peak", (long long)stats.peak);
}

static PyObject *session_spilled(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct session_object *self = (struct session_object *)object;
	uint64_t written, read;

	if (pyext_need_here(self->pid, "Session"))
		return NULL;
	Py_BEGIN_ALLOW_THREADS; /* it waits for locks */
	weir_session_spilled(self->session, &written, &read);
	Py_END_ALLOW_THREADS;
	return Py_BuildValue("(KK)", (unsigned long long)written, (unsigned long long)read);
}

/* Under the GIL, so that two of them do not both find the last room. */
static PyObject *session_charge(PyObject *object, PyObject *args)
{
	struct session_object *self = (struct session_object *)object;
	struct weir_mem_stats stats;
	struct weir_error err = {0};
	long long bytes;

	if (!PyArg_ParseTuple(args, "L:charge", &bytes) || pyext_need_here(self->pid, "Session"))
		return NULL;
	if (bytes < -self->charged) {
		PyErr_SetString(PyExc_ValueError, "more is given back than was charged");
		return NULL;
	}
	if (bytes < 0) {
		weir_account_discharge(weir_session_account(self->session), -bytes);
	} else {
		Py_BEGIN_ALLOW_THREADS;
		weir_session_memory(self->session, &stats);
		Py_END_ALLOW_THREADS;
		if (bytes > weir_session_memory_limit(self->session) - stats.used)
			Py_RETURN_FALSE;
		if (weir_account_charge(weir_session_account(self->session), bytes, &err))
			return pyext_raise(pyext_module_of(object), &err);
	}
	self->charged += bytes;
	Py_RETURN_TRUE;
}

static PyObject *session_hold(PyObject *object, PyObject *args)
{
	struct session_object *self = (struct session_object *)object;
	struct weir_mem *values = pyext_values_account(pyext_module_of(object))->mem;
	struct weir_mem_stats stats;
	long long bytes;

	if (!PyArg_ParseTuple(args, "L:hold", &bytes) || pyext_need_here(self->pid, "Session"))
		return NULL;
	Py_BEGIN_ALLOW_THREADS; /* it waits for a lock */
	/* What is kept comes and goes in pieces: few of them stay warm. Where rows are kept as they came there are
	 * none. */
	weir_mem_stats(values, &stats);
	if (stats.used || stats.warm)
		weir_mem_trim(values, KEPT_WARM);
	weir_session_hold(self->session, bytes);
	Py_END_ALLOW_THREADS;
	Py_RETURN_NONE;
}

static PyObject *session_expect(PyObject *object, PyObject *args)
{
	struct session_object *self = (struct session_object *)object;
	long long bytes;

	if (!PyArg_ParseTuple(args, "L:expect", &bytes) || pyext_need_here(self->pid, "Session"))
		return NULL;
	weir_session_expect(self->session, bytes);
	Py_RETURN_NONE;
}

static PyObject *session_get_memory_limit(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromLongLong(weir_session_memory_limit(((struct session_object *)self)->session));
}

static PyObject *session_get_threads(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromLong((long)weir_session_threads(((struct session_object *)self)->session));
}

static PyMethodDef session_methods[] = {
	{"memory", session_memory, METH_NOARGS, "Bytes: limit, used, warm (free and kept for reuse), mapped, peak."},
	{"spilled", session_spilled, METH_NOARGS, "Bytes written to disk so far, and read back from there."},
	{"charge", session_charge, METH_VARARGS,
	 "charge($self, bytes, /)\n--\n\nCounts memory that the program has outside the engine, or no more when negative. "
	 "False: the limit has no room for it, and nothing is counted."},
	{"hold", session_hold, METH_VARARGS,
	 "hold($self, bytes, /)\n--\n\nSo much more is kept for loops over rows, or less when negative: runs go without it."},
	{"expect", session_expect, METH_VARARGS,
	 "expect($self, bytes, /)\n--\n\nSo much more is going to be joined for loops over rows, or less when negative: there is to be room."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef session_properties[] = {
	{"memory_limit", session_get_memory_limit, NULL, "In bytes.", NULL},
	{"threads", session_get_threads, NULL, "Lanes of a run.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot session_slots[] = {
	{Py_tp_doc,
	 "Session(memory_limit=0, threads=0, spill_dir=None)\n--\n\nMemory with a limit, and threads. 0: 60 % of "
	 "the machine's memory; one thread a CPU."},
	{Py_tp_new, session_new},
	{Py_tp_dealloc, session_dealloc},
	{Py_tp_methods, session_methods},
	{Py_tp_getset, session_properties},
	{0, NULL},
};

static PyType_Spec session_spec = {
	.name = "weir._weir.Session",
	.basicsize = sizeof(struct session_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = session_slots,
};

int pyext_add_session(PyObject *module)
{
	return pyext_add_type(module, &session_spec, &pyext_state_of(module)->session_type);
}
