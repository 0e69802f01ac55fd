/* Output: a folder of files that appear together (io/output.h), for files that Python or several flows make.
 *
 *     Output(folder, mode) ─▶ .path (write files there) ─▶ .keep(count) … ─▶ .commit() | .close()
 *
 * close() without commit() removes everything; so does the end of the process, at the next write to that folder. */
#include "io/output.h"
#include "pyext/values_impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct output_object {
	PyObject_HEAD
	struct weir_output *output; /* NULL: closed */
	int64_t pid;
};

static int read_mode(const char *text, enum weir_write_mode *out)
{
	static const char *const names[] = {"append", "overwrite", "error"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (enum weir_write_mode)i;
			return 0;
		}
	PyErr_Format(PyExc_ValueError, "mode is append, overwrite or error, not %s", text);
	return -1;
}

static PyObject *output_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"folder", "mode", NULL};
	PyObject *module = PyType_GetModule(type), *folder = NULL;
	struct pyext_values *v = values_of_module(module);
	struct weir_output_options options = {0};
	struct output_object *self = NULL;
	struct weir_error err = {0};
	const char *mode = "append";
	char target[PATH_MAX];
	bool ignored = false;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|s:Output", names, PyUnicode_FSConverter, &folder, &mode))
		return NULL;
	if (read_mode(mode, &options.mode))
		goto out;
	if ((size_t)snprintf(target, sizeof(target), "%s/", PyBytes_AsString(folder)) >= sizeof(target)) {
		PyErr_SetString(PyExc_ValueError, "the path is too long");
		goto out;
	}
	self = PyObject_New(struct output_object, type);
	if (!self)
		goto out;
	self->output = NULL;
	self->pid = (int64_t)getpid();
	if (weir_output_begin(v->account, target, &options, &self->output, &ignored, &err)) {
		pyext_raise(module, &err);
		Py_DECREF((PyObject *)self);
		self = NULL;
	}
out:
	Py_XDECREF(folder);
	return (PyObject *)self;
}

static void output_release(struct output_object *self)
{
	if (self->output && pyext_here(self->pid))
		weir_output_free(self->output);
	self->output = NULL;
}

static void output_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	output_release((struct output_object *)object);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* The output, or NULL and an exception. */
static struct weir_output *output_of(PyObject *object)
{
	struct output_object *self = (struct output_object *)object;

	if (pyext_need_here(self->pid, "Output"))
		return NULL;
	if (!self->output)
		PyErr_SetString(PyExc_ValueError, "this Output is closed");
	return self->output;
}

static PyObject *output_get_path(PyObject *object, void *Py_UNUSED(closure))
{
	struct weir_output *output = output_of(object);
	struct weir_error err = {0};
	char path[PATH_MAX];

	if (!output)
		return NULL;
	if (weir_output_stage_path(output, path, sizeof(path), &err))
		return pyext_raise(pyext_module_of(object), &err);
	return PyUnicode_DecodeFSDefault(path);
}

static PyObject *output_keep(PyObject *object, PyObject *args)
{
	struct weir_output *output = output_of(object);
	unsigned int count = 1;

	if (!output || !PyArg_ParseTuple(args, "|I:keep", &count))
		return NULL;
	weir_output_adopt(output, count);
	Py_RETURN_NONE;
}

static PyObject *output_commit(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct weir_output *output = output_of(object);
	struct weir_error err = {0};
	int code;

	if (!output)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	code = weir_output_commit(output, &err);
	Py_END_ALLOW_THREADS;
	output_release((struct output_object *)object);
	if (code)
		return pyext_raise(pyext_module_of(object), &err);
	Py_RETURN_NONE;
}

static PyObject *output_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
	output_release((struct output_object *)object);
	Py_RETURN_NONE;
}

static PyMethodDef output_methods[] = {
	{"keep", output_keep, METH_VARARGS, "So many files more lie in the folder `path`."},
	{"commit", output_commit, METH_NOARGS, "All files appear; closes it."},
	{"close", output_close, METH_NOARGS, "Without commit() nothing is left. Closing twice is nothing."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef output_properties[] = {
	{"path", output_get_path, NULL, "Where files wait for the commit.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot output_slots[] = {
	{Py_tp_doc, "Output(folder, mode=\"append\")\n--\n\nFiles that appear in a folder all at once."},
	{Py_tp_new, output_new},
	{Py_tp_dealloc, output_dealloc},
	{Py_tp_methods, output_methods},
	{Py_tp_getset, output_properties},
	{0, NULL},
};

static PyType_Spec output_spec = {
	.name = "weir._weir.Output",
	.basicsize = sizeof(struct output_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = output_slots,
};

int pyext_add_output(PyObject *module)
{
	return pyext_add_type(module, &output_spec, &pyext_state_of(module)->output_type);
}
