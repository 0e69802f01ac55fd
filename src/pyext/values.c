/* The module's part that makes batches: its functions, its memory, its end. */
#include "pyext/values.h"

#include "pyext/values_impl.h"

/* The struct goes with the last array that lies in its memory, which may outlive the interpreter. */
static void values_free(struct api_keeper *keeper)
{
	struct pyext_values *v = (struct pyext_values *)keeper;

	weir_mem_free(v->mem);
	weir_plain_free(v);
}

static struct pyext_values *values_new(PyObject *module)
{
	struct pyext_values *v = weir_plain_alloc(sizeof(*v));
	struct weir_error err = {0};

	if (!v) {
		PyErr_NoMemory();
		return NULL;
	}
	if (weir_mem_new(0, &v->mem, &err)) {
		weir_plain_free(v);
		pyext_raise(module, &err);
		return NULL;
	}
	atomic_init(&v->keeper.refs, 1);
	v->keeper.free = values_free;
	v->account = weir_mem_root(v->mem);
	v->module = module;
	return v;
}

void pyext_values_free(struct pyext_values *values)
{
	values_clear(values);
	values_drain(values);
	values->module = NULL;
	api_keeper_unref(&values->keeper);
}

/* ---- functions ---- */

static PyObject *from_rows(PyObject *module, PyObject *rows)
{
	return batch_wrap(values_of_module(module), pyext_batch_from_rows(module, rows), NULL);
}

static PyObject *from_columns(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *words[] = {"columns", "num_rows", NULL};
	PyObject *columns, *rows = Py_None;
	int64_t row_count = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:batch_from_columns", words, &columns, &rows))
		return NULL;
	if (rows != Py_None) {
		row_count = PyLong_AsLongLong(rows);
		if (row_count == -1 && PyErr_Occurred())
			return NULL;
		if (row_count < 0)
			return PyErr_Format(PyExc_ValueError, "num_rows is %lld", (long long)row_count);
	}
	return batch_wrap(values_of_module(module), batch_from_columns(values_of_module(module), columns, row_count),
			  NULL);
}

struct weir_batch *pyext_batch_from_columns(PyObject *module, PyObject *columns)
{
	return batch_from_columns(values_of_module(module), columns, -1);
}

static PyObject *memory(PyObject *module, PyObject *unused)
{
	struct pyext_values *v = values_of_module(module);

	(void)unused;
	values_drain(v);
	return PyLong_FromLongLong(weir_account_used(v->account));
}

PyDoc_STRVAR(
	memory_doc,
	"batch_memory($module, /)\n--\n\nBytes of the batches that were made of Python values; borrowed memory is not in it.");
PyDoc_STRVAR(
	from_rows_doc,
	"batch_from_rows($module, rows, /)\n--\n\nA Batch of a list of mappings: columns in the order in which their "
	"names appear, missing ones null.");
PyDoc_STRVAR(
	from_columns_doc,
	"batch_from_columns($module, columns, num_rows=None)\n--\n\nA Batch of a mapping of names to lists, NumPy arrays, torch tensors "
	"or Arrow arrays of one length, which num_rows says where there are no columns.");
PyDoc_STRVAR(
	from_arrow_doc,
	"batch_from_arrow($module, source, objects=False)\n--\n\nThe Batches of anything with __arrow_c_stream__ or "
	"__arrow_c_array__; nothing is copied. Pickled objects stay bytes unless objects=True.");
PyDoc_STRVAR(
	concat_doc,
	"batch_concat($module, batches, /)\n--\n\nOne Batch of the rows of several, with a schema that holds them all.");
PyDoc_STRVAR(
	zip_doc,
	"batch_zip($module, batches, /)\n--\n\nOne Batch of the columns of several, which have as many rows. A name that is "
	"there twice becomes name_1.");

PyDoc_STRVAR(
	stream_doc,
	"batch_stream($module, schema, make, /)\n--\n\nThe capsule of an Arrow stream with the columns of the Batch "
	"`schema`, or of what it returns\nif it is a function, whose batches make() gives: each is called when it is first wanted.");

static PyMethodDef functions[] = {
	{"batch_from_rows", from_rows, METH_O, from_rows_doc},
	{"batch_from_columns", (PyCFunction)(void (*)(void))from_columns, METH_VARARGS | METH_KEYWORDS,
	 from_columns_doc},
	{"batch_from_arrow", (PyCFunction)(void (*)(void))values_from_arrow, METH_VARARGS | METH_KEYWORDS,
	 from_arrow_doc},
	{"batch_concat", values_concat, METH_O, concat_doc},
	{"batch_zip", values_zip, METH_O, zip_doc},
	{"batch_stream", values_stream, METH_VARARGS, stream_doc},
	{"row_bytes", values_row_bytes, METH_O,
	 "row_bytes($module, rows, /)\n--\n\nAbout how many bytes a list of rows holds, or of lists of them."},
	{"batch_memory", memory, METH_NOARGS, memory_doc},
	{NULL, NULL, 0, NULL},
};

static int add_names(struct pyext_values *v)
{
	static const char *const texts[] = {
#define X(name) #name,
		VALUES_NAMES(X)
#undef X
	};
	PyObject **names = (PyObject **)&v->names;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		names[i] = PyUnicode_InternFromString(texts[i]);
		if (!names[i])
			return -1;
	}
	return 0;
}

int pyext_add_values(PyObject *module)
{
	struct pyext_state *state = pyext_state_of(module);

	state->values = values_new(module);
	if (!state->values || add_names(state->values))
		return -1;
	if (pyext_add_type(module, &batch_spec, (PyTypeObject **)&state->values->batch_type) ||
	    pyext_add_type(module, &buffer_spec, (PyTypeObject **)&state->values->buffer_type))
		return -1;
	return PyModule_AddFunctions(module, functions);
}
