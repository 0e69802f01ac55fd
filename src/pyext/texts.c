/* Texts of Python objects for the engine: lists of zero-terminated UTF-8. */
#include "pyext/pyext_impl.h"

void pyext_texts_release(struct pyext_texts *texts)
{
	Py_CLEAR(texts->bytes);
	PyMem_Free(texts->items);
	*texts = (struct pyext_texts){0};
}

int pyext_texts_init(struct pyext_texts *texts, Py_ssize_t capacity)
{
	*texts = (struct pyext_texts){.bytes = PyList_New(0), .capacity = (size_t)capacity};
	if (texts->bytes)
		texts->items = PyMem_Calloc((size_t)capacity + 1, sizeof(*texts->items));
	if (!texts->items && texts->bytes)
		PyErr_NoMemory();
	return texts->items ? 0 : -1;
}

int pyext_texts_add(struct pyext_texts *texts, PyObject *object, bool may_be_none, const char *what)
{
	PyObject *path = NULL, *bytes = NULL;
	char *text = NULL; /* names of files need not be text: surrogates go back to bytes */

	if (may_be_none && object == Py_None) {
		texts->items[texts->count++] = NULL;
		return 0;
	}
	path = PyOS_FSPath(object);
	if (!path) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError, "%s must be str, bytes or os.PathLike, not %R", what,
				     (PyObject *)Py_TYPE(object));
		return -1;
	}
	bytes = PyBytes_Check(path) ? Py_NewRef(path) : PyUnicode_AsEncodedString(path, "utf-8", "surrogateescape");
	if (bytes && PyBytes_AsStringAndSize(bytes, &text, NULL) == 0 && PyList_Append(texts->bytes, bytes) == 0)
		texts->items[texts->count++] = text;
	Py_XDECREF(bytes);
	Py_DECREF(path);
	return text && !PyErr_Occurred() ? 0 : -1;
}

int pyext_texts_of(struct pyext_texts *out, PyObject *words, const char *what)
{
	PyObject *list = words ? PySequence_List(words) : PyList_New(0);
	int failed = !list || pyext_texts_init(out, list ? PyList_Size(list) : 0);

	for (Py_ssize_t i = 0; !failed && i < PyList_Size(list); i++)
		failed = pyext_texts_add(out, PyList_GetItem(list, i), false, what);
	Py_XDECREF(list);
	return failed ? -1 : 0;
}
