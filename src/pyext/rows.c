/* Rows as fresh plain dicts. Every dict is a copy of one template that has all keys already, so that it never grows, and
 * values are put in column by column over some hundred rows, which stay in the cache meanwhile. */
#include "pyext/values_impl.h"

enum { PIECE_ROWS = 256, COLLECT_ROWS = 512 };

static PyObject *template_new(const struct weir_schema *schema, PyObject **keys)
{
	PyObject *template = PyDict_New();

	for (uint32_t i = 0; template && i < schema->field_count; i++) {
		keys[i] = PyUnicode_InternFromString(schema->fields[i].name);
		if (!keys[i] || PyDict_SetItem(template, keys[i], Py_None)) {
			Py_CLEAR(template);
		} else if (PyDict_Size(template) != (Py_ssize_t)i + 1) {
			PyErr_Format(PyExc_ValueError, "two columns are named '%s', so rows cannot be dicts",
				     schema->fields[i].name);
			Py_CLEAR(template);
		}
	}
	return template;
}

static int put_piece(PyObject *rows, int64_t at, int64_t count, PyObject *key, PyObject **values)
{
	int failed = 0;

	for (int64_t i = 0; i < count; i++) {
		if (!failed)
			failed = PyDict_SetItem(PyList_GetItem(rows, at + i), key, values[i]);
		Py_DECREF(values[i]);
	}
	return failed;
}

/* The items of an array or list. */
static int items_of(PyObject *sequence, int64_t at, int64_t count, PyObject **out)
{
	for (int64_t i = 0; i < count; i++) {
		out[i] = PySequence_GetItem(sequence, at + i);
		if (!out[i]) {
			objects_release(out, i);
			return -1;
		}
	}
	return 0;
}

static void name_column(const char *name)
{
	PyObject *type, *value, *trace, *text;

	PyErr_Fetch(&type, &value, &trace);
	text = value ? PyObject_Str(value) : NULL;
	if (text)
		PyErr_Format(type, "column '%s': %U", name, text);
	else
		PyErr_Restore(type, value, trace);
	if (text) {
		Py_DECREF(text);
		Py_XDECREF(type);
		Py_XDECREF(value);
		Py_XDECREF(trace);
	}
}

static bool is_extension(const struct weir_field *field)
{
	struct tensor_shape shape;

	return field->metadata.count && (tensor_fixed(field, &shape) || tensor_ragged(field) || field_is_object(field));
}

static int fill(struct pyext_values *v, const struct batch_object *self, int64_t from, PyObject *rows, PyObject **keys,
		PyObject **wholes, PyObject *template)
{
	const struct weir_batch *batch = self->batch;
	int64_t count = PyList_Size(rows);
	PyObject *made[PIECE_ROWS];

	for (int64_t done = 0; done < count; done += PIECE_ROWS) {
		int64_t piece = count - done < PIECE_ROWS ? count - done : PIECE_ROWS;

		for (int64_t i = 0; i < piece; i++) {
			PyObject *row = PyDict_Copy(template);

			if (!row)
				return -1;
			PyList_SetItem(rows, done + i, row);
		}
		for (uint32_t c = 0; c < batch->column_count; c++) {
			int failed = wholes[c] ? items_of(wholes[c], done, piece, made)
					       : values_objects(v, batch->columns[c], from + done, piece, made);

			if (failed) {
				name_column(batch->schema->fields[c].name);
				return -1;
			}
			if (put_piece(rows, done, piece, keys[c], made))
				return -1;
		}
	}
	return 0;
}

PyObject *batch_rows(struct pyext_values *v, const struct batch_object *self, int64_t from, int64_t to)
{
	const struct weir_batch *batch = self->batch;
	struct numpy_request request = {.v = v, .keeper = self->keeper};
	size_t columns = batch->column_count ? batch->column_count : 1;
	PyObject **keys = PyMem_Calloc(columns, sizeof(*keys)), **wholes = PyMem_Calloc(columns, sizeof(*wholes));
	PyObject *template = NULL, *rows = NULL;
	bool paused = false;
	int failed = -1;

	if (!keys || !wholes) {
		PyErr_NoMemory();
		goto out;
	}
	template = template_new(batch->schema, keys);
	rows = template ? PyList_New(to - from) : NULL;
	if (!rows)
		goto out;
	for (uint32_t c = 0; c < batch->column_count; c++) {
		const struct weir_field *field = &batch->schema->fields[c];

		if (!is_extension(field))
			continue;
		if (!values_need_numpy(v))
			wholes[c] = numpy_column(&request, field, batch->columns[c], from, to - from);
		if (!wholes[c])
			goto out;
	}
	/* Nothing here can become garbage; looking for it costs as much as making the rows. */
	paused = to - from >= COLLECT_ROWS && PyGC_Disable();
	failed = fill(v, self, from, rows, keys, wholes, template);
	if (paused)
		PyGC_Enable();
out:
	for (uint32_t c = 0; c < batch->column_count; c++) {
		if (keys)
			Py_XDECREF(keys[c]);
		if (wholes)
			Py_XDECREF(wholes[c]);
	}
	PyMem_Free(keys);
	PyMem_Free(wholes);
	Py_XDECREF(template);
	if (failed)
		Py_CLEAR(rows);
	return rows;
}
