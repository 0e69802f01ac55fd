/* Zygote: the process from which workers are forked. Flows that call Python functions keep theirs, and so do their tasks. */
#include "backend/local/zygote.h"
#include "pyext/pyext_impl.h"

#include <unistd.h>

struct zygote_object {
	PyObject_HEAD struct weir_zygote *zygote;
	int64_t pid;
};

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
	struct weir_zygote *zygote = NULL;
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
	self = PyObject_New(struct zygote_object, type);
	if (!self)
		goto out;
	self->zygote = NULL;
	self->pid = (int64_t)getpid();
	Py_BEGIN_ALLOW_THREADS;
	code = weir_zygote_new(argv_texts.items, lines ? env_texts.items : NULL, &zygote, &err);
	Py_END_ALLOW_THREADS;
	self->zygote = zygote;
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

	if (self->zygote && pyext_here(self->pid)) {
		Py_BEGIN_ALLOW_THREADS;
		weir_zygote_free(self->zygote);
		Py_END_ALLOW_THREADS;
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

const struct weir_launcher *pyext_launcher_of(PyObject *module, PyObject *object)
{
	struct zygote_object *self = (struct zygote_object *)object;

	if (Py_TYPE(object) != pyext_state_of(module)->zygote_type) {
		PyErr_Format(PyExc_TypeError, "the launcher must be a Zygote, not %R", (PyObject *)Py_TYPE(object));
		return NULL;
	}
	return pyext_need_here(self->pid, "Zygote") ? NULL : weir_zygote_launcher(self->zygote);
}

static PyObject *zygote_get_pid(PyObject *object, void *Py_UNUSED(closure))
{
	struct zygote_object *self = (struct zygote_object *)object;

	return pyext_need_here(self->pid, "Zygote") ? NULL : PyLong_FromLong(weir_zygote_pid(self->zygote));
}

static PyObject *zygote_get_restarts(PyObject *object, void *Py_UNUSED(closure))
{
	struct zygote_object *self = (struct zygote_object *)object;

	return pyext_need_here(self->pid, "Zygote") ? NULL
						    : PyLong_FromUnsignedLongLong(weir_zygote_restarts(self->zygote));
}

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
