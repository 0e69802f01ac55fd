/* Zygote: the process from which workers are forked. Flows that call Python functions keep theirs, and so do their
 * tasks. */
#include "base/mem.h"
#include "backend/local/launcher.h"
#include "backend/local/zygote.h"
#include "pyext/pyext_impl.h"

#include <unistd.h>

/* The object, and each flow and run that may start workers. Counted in C, since runs end in any thread. */
struct kept_zygote {
	_Atomic uint32_t refs;
	struct weir_zygote *zygote;
};

struct zygote_object {
	PyObject_HEAD
	struct kept_zygote *kept;
	int64_t pid;
};

void pyext_zygote_release(void *held)
{
	struct kept_zygote *kept = held;

	/* acq_rel: the last one frees what the others used. */
	if (atomic_fetch_sub_explicit(&kept->refs, 1, memory_order_acq_rel) != 1)
		return;
	weir_zygote_free(kept->zygote);
	weir_plain_free(kept);
}

/* NAME=value of each item, as a list of bytes objects; NULL with an exception. */
static PyObject *lines_of_env(PyObject *env)
{
	PyObject *items = PyMapping_Items(env), *lines = items ? PyList_New(0) : NULL;

	for (Py_ssize_t i = 0; lines && i < PyList_Size(items); i++) {
		PyObject *line = PyUnicode_FromFormat("%S=%S", PyTuple_GetItem(PyList_GetItem(items, i), 0),
						      PyTuple_GetItem(PyList_GetItem(items, i), 1));

		if (!line || PyList_Append(lines, line))
			Py_CLEAR(lines);
		Py_XDECREF(line);
	}
	Py_XDECREF(items);
	return lines;
}

static PyObject *zygote_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"argv", "env", NULL};
	PyObject *module = PyType_GetModule(type), *argv, *env = Py_None, *lines = NULL;
	struct pyext_texts argv_texts = {0}, env_texts = {0};
	struct zygote_object *self = NULL;
	struct weir_error err = {0};
	struct kept_zygote *kept;
	int code;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Zygote", names, &argv, &env))
		return NULL;
	if (pyext_texts_of(&argv_texts, argv, "a word of argv"))
		goto out;
	if (argv_texts.count == 0) {
		PyErr_SetString(PyExc_ValueError, "argv is empty");
		goto out;
	}
	if (env != Py_None && (!(lines = lines_of_env(env)) || pyext_texts_of(&env_texts, lines, "a variable")))
		goto out;
	kept = weir_plain_alloc(sizeof(*kept));
	self = kept ? PyObject_New(struct zygote_object, type) : NULL;
	if (!self) {
		weir_plain_free(kept);
		PyErr_NoMemory();
		goto out;
	}
	atomic_init(&kept->refs, 1);
	self->kept = kept;
	self->pid = (int64_t)getpid();
	Py_BEGIN_ALLOW_THREADS;
	code = weir_zygote_new(argv_texts.items, lines ? env_texts.items : NULL, &kept->zygote, &err);
	Py_END_ALLOW_THREADS;
	if (code) {
		pyext_raise(module, &err);
		Py_DECREF((PyObject *)self);
		self = NULL;
	}
out:
	pyext_texts_release(&env_texts);
	pyext_texts_release(&argv_texts);
	Py_XDECREF(lines);
	return (PyObject *)self;
}

static void zygote_dealloc(PyObject *object)
{
	struct zygote_object *self = (struct zygote_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->kept && pyext_here(self->pid)) {
		Py_BEGIN_ALLOW_THREADS;
		pyext_zygote_release(self->kept);
		Py_END_ALLOW_THREADS;
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

static int need_open(struct zygote_object *self)
{
	if (pyext_need_here(self->pid, "Zygote"))
		return -1;
	if (self->kept)
		return 0;
	PyErr_SetString(PyExc_ValueError, "the Zygote is closed");
	return -1;
}

static PyObject *zygote_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct zygote_object *self = (struct zygote_object *)object;
	struct kept_zygote *kept = self->kept;

	self->kept = NULL;
	if (kept && pyext_here(self->pid)) {
		Py_BEGIN_ALLOW_THREADS;
		pyext_zygote_release(kept);
		Py_END_ALLOW_THREADS;
	}
	Py_RETURN_NONE;
}

void *pyext_zygote_keep(PyObject *module, PyObject *object, const struct weir_launcher **launcher)
{
	struct zygote_object *self = (struct zygote_object *)object;

	if (Py_TYPE(object) != pyext_state_of(module)->zygote_type) {
		PyErr_Format(PyExc_TypeError, "the launcher must be a Zygote, not %R", (PyObject *)Py_TYPE(object));
		return NULL;
	}
	if (need_open(self))
		return NULL;
	atomic_fetch_add_explicit(&self->kept->refs, 1, memory_order_relaxed);
	*launcher = weir_zygote_launcher(self->kept->zygote);
	return self->kept;
}

static PyObject *zygote_get_pid(PyObject *object, void *Py_UNUSED(closure))
{
	struct zygote_object *self = (struct zygote_object *)object;

	return need_open(self) ? NULL : PyLong_FromLong(weir_zygote_pid(self->kept->zygote));
}

static PyObject *zygote_get_restarts(PyObject *object, void *Py_UNUSED(closure))
{
	struct zygote_object *self = (struct zygote_object *)object;

	return pyext_need_here(self->pid, "Zygote")
		       ? NULL
		       : PyLong_FromUnsignedLongLong(weir_zygote_restarts(self->kept->zygote));
}

/* The launcher of an open one. It stays while the GIL is let go: `kept` is the caller's to release. */
static const struct weir_launcher *keep_launcher(struct zygote_object *self, struct kept_zygote **kept)
{
	if (need_open(self))
		return NULL;
	*kept = self->kept;
	atomic_fetch_add_explicit(&(*kept)->refs, 1, memory_order_relaxed);
	return weir_zygote_launcher((*kept)->zygote);
}

static PyObject *zygote_launch(PyObject *object, PyObject *args)
{
	const struct weir_launcher *launcher;
	struct weir_error err = {0};
	struct kept_zygote *kept;
	int fds[WEIR_LAUNCH_FDS], code;
	uint64_t ticket = 0;

	if (!PyArg_ParseTuple(args, "iiii:launch", &fds[0], &fds[1], &fds[2], &fds[3]))
		return NULL;
	launcher = keep_launcher((struct zygote_object *)object, &kept);
	if (!launcher)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	code = launcher->launch(launcher->self, fds, &ticket, &err);
	pyext_zygote_release(kept);
	Py_END_ALLOW_THREADS;
	return code ? pyext_raise(pyext_module_of(object), &err) : PyLong_FromUnsignedLongLong(ticket);
}

static PyObject *zygote_kill(PyObject *object, PyObject *args)
{
	const struct weir_launcher *launcher;
	struct kept_zygote *kept;
	unsigned long long ticket;

	if (!PyArg_ParseTuple(args, "K:kill", &ticket))
		return NULL;
	launcher = keep_launcher((struct zygote_object *)object, &kept);
	if (!launcher)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	launcher->kill(launcher->self, ticket);
	pyext_zygote_release(kept);
	Py_END_ALLOW_THREADS;
	Py_RETURN_NONE;
}

static PyObject *zygote_status(PyObject *object, PyObject *args)
{
	const struct weir_launcher *launcher;
	struct kept_zygote *kept;
	unsigned long long ticket;
	int status;

	if (!PyArg_ParseTuple(args, "K:status", &ticket))
		return NULL;
	launcher = keep_launcher((struct zygote_object *)object, &kept);
	if (!launcher)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	status = launcher->status(launcher->self, ticket, true);
	pyext_zygote_release(kept);
	Py_END_ALLOW_THREADS;
	return PyLong_FromLong(status);
}

static PyMethodDef zygote_methods[] = {
	{"launch", zygote_launch, METH_VARARGS,
	 "launch($self, socket, lifeline, stdout, stderr, /)\n--\n\nAsks for one more process with these descriptors, "
	 "which stay the caller's; -1 for an output: this process's own. Gives its ticket."},
	{"kill", zygote_kill, METH_VARARGS, "kill($self, ticket, /)\n--\n\nSIGKILL, if it is there."},
	{"status", zygote_status, METH_VARARGS,
	 "status($self, ticket, /)\n--\n\nThe wait status of one that has ended, after a moment at most; -1: nobody "
	 "knows, -2: it was never made. The ticket is used up."},
	{"close", zygote_close, METH_NOARGS,
	 "close($self)\n--\n\nLets go of the process: it ends when no flow and no run needs it any more."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef zygote_properties[] = {
	{"pid", zygote_get_pid, NULL, "Of the process.", NULL},
	{"restarts", zygote_get_restarts, NULL, "How often it had to be started again.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot zygote_slots[] = {
	{Py_tp_doc,
	 "Zygote(argv, env=None)\n--\n\nThe process from which workers are forked; argv starts it. It ends with this "
	 "object."},
	{Py_tp_new, zygote_new},
	{Py_tp_dealloc, zygote_dealloc},
	{Py_tp_methods, zygote_methods},
	{Py_tp_getset, zygote_properties},
	{0, NULL},
};

static PyType_Spec zygote_spec = {
	.name = "weir._weir.Zygote",
	.basicsize = sizeof(struct zygote_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = zygote_slots,
};

int pyext_add_zygote(PyObject *module)
{
	return pyext_add_type(module, &zygote_spec, &pyext_state_of(module)->zygote_type);
}
