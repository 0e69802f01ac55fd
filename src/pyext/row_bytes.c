/* About how many bytes Python rows hold, so that a worker can make few large ones into a batch before there are many.
 * What is not known to hold bytes counts as one value. Long lists are looked at in places. */
#include "pyext/values_impl.h"

enum { VALUE = 32, ALL_MAX = 256, PLACES = 16, DEPTH_MAX = 6, MUTE_MAX = 8 };

/* Types met that do not say how many bytes they hold; never looked into, so that one may be gone meanwhile. Under the
 * GIL. */
static const PyTypeObject *mute[MUTE_MAX];
static uint32_t mute_next;

static Py_ssize_t value_bytes(struct pyext_values *v, PyObject *value, int depth);

static Py_ssize_t list_bytes(struct pyext_values *v, PyObject *list, int depth)
{
	Py_ssize_t count = PyList_Size(list), places = depth == 0 ? ALL_MAX : PLACES, sum = 0, seen = 0;
	Py_ssize_t step = count <= ALL_MAX ? 1 : count / places;

	for (Py_ssize_t i = 0; i < count; i += step, seen++) {
		Py_ssize_t bytes = value_bytes(v, PyList_GetItem(list, i), depth + 1);

		if (bytes < 0)
			return -1;
		sum += bytes;
	}
	return VALUE + (seen ? (Py_ssize_t)((double)sum / (double)seen * (double)count) : 0);
}

static Py_ssize_t dict_bytes(struct pyext_values *v, PyObject *dict, int depth)
{
	Py_ssize_t at = 0, sum = VALUE;
	PyObject *key, *value;

	while (PyDict_Next(dict, &at, &key, &value)) {
		Py_ssize_t bytes = value_bytes(v, value, depth + 1);

		if (bytes < 0)
			return -1;
		sum += bytes;
	}
	return sum;
}

/* Arrays and tensors say it themselves. */
static Py_ssize_t told_bytes(struct pyext_values *v, PyObject *value)
{
	PyObject *told;
	Py_ssize_t bytes;

	for (uint32_t i = 0; i < MUTE_MAX; i++)
		if (mute[i] == Py_TYPE(value))
			return VALUE;
	told = PyObject_GetAttr(value, v->names.nbytes);
	bytes = told && PyLong_Check(told) ? PyLong_AsSsize_t(told) : 0;
	if (!told)
		mute[mute_next++ % MUTE_MAX] = Py_TYPE(value);
	Py_XDECREF(told);
	if (PyErr_Occurred()) {
		if (!PyErr_ExceptionMatches(PyExc_Exception))
			return -1;
		PyErr_Clear();
		bytes = 0;
	}
	return VALUE + (bytes > 0 ? bytes : 0);
}

static Py_ssize_t value_bytes(struct pyext_values *v, PyObject *value, int depth)
{
	if (value == Py_None || PyLong_Check(value) || PyFloat_Check(value) || depth > DEPTH_MAX)
		return VALUE;
	if (PyUnicode_Check(value))
		return VALUE + PyUnicode_GetLength(value);
	if (PyBytes_Check(value))
		return VALUE + PyBytes_Size(value);
	if (PyDict_Check(value))
		return dict_bytes(v, value, depth);
	if (PyList_Check(value))
		return list_bytes(v, value, depth);
	return told_bytes(v, value);
}

PyObject *values_row_bytes(PyObject *module, PyObject *rows)
{
	Py_ssize_t bytes;

	if (!PyList_Check(rows)) {
		PyErr_SetString(PyExc_TypeError, "a list of rows is wanted");
		return NULL;
	}
	bytes = list_bytes(values_of_module(module), rows, 0);
	return bytes < 0 ? NULL : PyLong_FromSsize_t(bytes);
}
