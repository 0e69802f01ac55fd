/* Rows as fresh plain dicts. Every dict is a copy of one template that has all keys already, so that it never grows,
 * and values are put in column by column over some hundred rows, which stay in the cache meanwhile. */
#include "pyext/values_impl.h"

enum { PIECE_ROWS = 256, COLLECT_ROWS = 512 };

struct row_column {
	PyObject *key;
	PyObject *whole;   /* tensors and objects: the column as NumPy has it */
	PyObject **shared; /* dictionaries: the values, made once */
	int64_t shared_count;
	bool uuids;
};

static PyObject *template_new(const struct weir_schema *schema, struct row_column *columns)
{
	PyObject *template = PyDict_New();

	for (uint32_t i = 0; template && i < schema->field_count; i++) {
		columns[i].key = PyUnicode_InternFromString(schema->fields[i].name);
		if (!columns[i].key || PyDict_SetItem(template, columns[i].key, Py_None)) {
			Py_CLEAR(template);
		} else if (PyDict_Size(template) != (Py_ssize_t)i + 1) {
			PyErr_Format(PyExc_ValueError, "two columns are named '%s', so rows cannot be dicts",
				     schema->fields[i].name);
			Py_CLEAR(template);
		}
	}
	return template;
}

static int put_piece(PyObject *const *rows, int64_t count, PyObject *key, PyObject **values)
{
	int failed = 0;

	for (int64_t i = 0; i < count; i++) {
		if (!failed)
			failed = PyDict_SetItem(rows[i], key, values[i]);
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
	struct weir_tensor_shape shape;

	return field->metadata.count &&
	       (weir_tensor_fixed(field, &shape) || weir_tensor_ragged(field) || field_is_object(field));
}

/* A piece of a column as objects, which are the caller's. */
static int make_piece(struct pyext_values *v, const struct weir_batch *batch, uint32_t c,
		      const struct row_column *column, int64_t from, int64_t done, int64_t piece, PyObject **made)
{
	const struct weir_array *array = batch->columns[c];
	int failed = 0;

	if (column->shared)
		dictionary_pick(array, from + done, piece, column->shared, made);
	else
		failed = column->whole ? items_of(column->whole, done, piece, made)
				       : values_objects(v, array, from + done, piece, made);
	if (!failed && column->uuids)
		failed = uuids_from_bytes(v, made, piece);
	if (failed)
		name_column(batch->schema->fields[c].name);
	return failed;
}

static int fill(struct pyext_values *v, const struct batch_object *self, int64_t from, PyObject *rows,
		const struct row_column *columns, PyObject *template)
{
	const struct weir_batch *batch = self->batch;
	int64_t count = PyList_Size(rows);
	PyObject *made[PIECE_ROWS], *dicts[PIECE_ROWS];

	for (int64_t done = 0; done < count; done += PIECE_ROWS) {
		int64_t piece = count - done < PIECE_ROWS ? count - done : PIECE_ROWS;

		for (int64_t i = 0; i < piece; i++) {
			dicts[i] = PyDict_Copy(template);
			if (!dicts[i])
				return -1;
			PyList_SetItem(rows, done + i, dicts[i]);
		}
		for (uint32_t c = 0; c < batch->column_count; c++) {
			if (make_piece(v, batch, c, &columns[c], from, done, piece, made) ||
			    put_piece(dicts, piece, columns[c].key, made))
				return -1;
		}
	}
	return 0;
}

/* What is made of a column as a whole, before its rows are gone through. */
static int begin_column(const struct numpy_request *request, const struct weir_field *field,
			const struct weir_array *array, int64_t from, int64_t count, struct row_column *column)
{
	if (dictionary_shares(array, count)) {
		column->shared = dictionary_made(request->v, array);
		column->shared_count = array->dictionary->length;
		return column->shared ? 0 : -1;
	}
	column->uuids = field_is_uuid(field);
	if (!is_extension(field))
		return 0;
	if (!values_need_numpy(request->v))
		column->whole = numpy_column(request, field, array, from, count);
	return column->whole ? 0 : -1;
}

static void end_column(struct row_column *column)
{
	Py_XDECREF(column->key);
	Py_XDECREF(column->whole);
	if (column->shared)
		objects_release(column->shared, column->shared_count);
	PyMem_Free(column->shared);
}

PyObject *batch_values(struct pyext_values *v, const struct batch_object *self, uint32_t c)
{
	const struct weir_batch *batch = self->batch;
	struct numpy_request request = {.v = v, .keeper = self->keeper};
	struct row_column column = {0};
	PyObject *made[PIECE_ROWS], *values = PyList_New(batch->row_count);
	int failed = !values ||
		     begin_column(&request, &batch->schema->fields[c], batch->columns[c], 0, batch->row_count, &column);
	bool paused = !failed && batch->row_count >= COLLECT_ROWS && PyGC_Disable();

	for (int64_t done = 0; done < batch->row_count && !failed; done += PIECE_ROWS) {
		int64_t piece = batch->row_count - done < PIECE_ROWS ? batch->row_count - done : PIECE_ROWS;

		failed = make_piece(v, batch, c, &column, 0, done, piece, made);
		for (int64_t i = 0; i < piece && !failed; i++)
			PyList_SetItem(values, done + i, made[i]);
	}
	if (paused)
		PyGC_Enable();
	end_column(&column);
	if (failed)
		Py_CLEAR(values);
	return values;
}

PyObject *batch_rows(struct pyext_values *v, const struct batch_object *self, int64_t from, int64_t to)
{
	const struct weir_batch *batch = self->batch;
	struct numpy_request request = {.v = v, .keeper = self->keeper};
	struct row_column *columns = PyMem_Calloc(batch->column_count + 1, sizeof(*columns));
	PyObject *template, *rows = NULL;
	bool paused = false;
	int failed = 0;

	if (!columns)
		return PyErr_NoMemory();
	template = template_new(batch->schema, columns);
	rows = template ? PyList_New(to - from) : NULL;
	failed = rows ? 0 : -1;
	for (uint32_t c = 0; !failed && c < batch->column_count; c++)
		failed = begin_column(&request, &batch->schema->fields[c], batch->columns[c], from, to - from,
				      &columns[c]);
	/* Nothing here can become garbage; looking for it costs as much as making the rows. */
	paused = !failed && to - from >= COLLECT_ROWS && PyGC_Disable();
	if (!failed)
		failed = fill(v, self, from, rows, columns, template);
	if (paused)
		PyGC_Enable();
	for (uint32_t c = 0; c < batch->column_count; c++)
		end_column(&columns[c]);
	PyMem_Free(columns);
	Py_XDECREF(template);
	if (failed)
		Py_CLEAR(rows);
	return rows;
}
