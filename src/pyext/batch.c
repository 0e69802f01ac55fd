/* Batch: rows of several columns as Python sees them, and the functions of the module that make one. */
#include "base/text.h"
#include "pyext/values_impl.h"

#include <string.h>

struct pyext_values *values_of_module(PyObject *module)
{
	return pyext_state_of(module)->values;
}

struct pyext_values *values_of_object(PyObject *self)
{
	return values_of_module(pyext_module_of(self));
}

PyObject *values_raise(struct pyext_values *v, const struct weir_error *err)
{
	return pyext_raise(v->module, err);
}

PyObject *batch_wrap(struct pyext_values *v, struct weir_batch *batch, struct api_keeper *keeper)
{
	struct batch_object *self;

	if (!batch)
		return NULL;
	self = PyObject_New(struct batch_object, (PyTypeObject *)v->batch_type);
	if (!self) {
		weir_batch_unref(batch);
		return NULL;
	}
	self->batch = batch;
	self->keeper = keeper ? keeper : &v->keeper;
	api_keeper_ref(self->keeper);
	self->pid = values_pid(v, self->keeper);
	return (PyObject *)self;
}

static void batch_dealloc(PyObject *object)
{
	struct batch_object *self = (struct batch_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	struct pyext_values *v = values_of_object(object);

	if (values_may_free(self->pid)) {
		weir_batch_unref(self->batch);
		api_keeper_unref(self->keeper);
	}
	PyObject_Free(self);
	if (v)
		values_drain(v);
	Py_DECREF(type);
}

/* ---- what it holds ---- */

static PyObject *get_num_rows(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromLongLong(((struct batch_object *)self)->batch->row_count);
}

static PyObject *get_num_columns(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLong(((struct batch_object *)self)->batch->column_count);
}

static PyObject *get_names(PyObject *self, void *unused)
{
	const struct weir_schema *schema = ((struct batch_object *)self)->batch->schema;
	PyObject *names = PyList_New(schema->field_count);

	(void)unused;
	for (uint32_t i = 0; names && i < schema->field_count; i++) {
		PyObject *name = PyUnicode_InternFromString(schema->fields[i].name);

		if (!name)
			Py_CLEAR(names);
		else
			PyList_SetItem(names, i, name);
	}
	return names;
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromLongLong(weir_batch_bytes(((struct batch_object *)self)->batch));
}

static PyObject *metadata_dict(const struct weir_metadata *metadata)
{
	PyObject *dict = PyDict_New();

	for (uint32_t i = 0; dict && i < metadata->count; i++) {
		const struct weir_metadata_entry *entry = &metadata->entries[i];
		PyObject *key = PyBytes_FromString(entry->key);
		PyObject *value = PyBytes_FromStringAndSize(entry->value, entry->value_size);

		if (!key || !value || PyDict_SetItem(dict, key, value))
			Py_CLEAR(dict);
		Py_XDECREF(key);
		Py_XDECREF(value);
	}
	return dict;
}

static PyObject *field_tuple(struct pyext_values *v, const struct weir_field *field)
{
	struct weir_error err = {0};
	struct weir_text text;
	PyObject *metadata = metadata_dict(&field->metadata), *result = NULL;

	weir_text_init(&text, v->account);
	if (metadata) {
		if (weir_type_print(field->type, &text, &err))
			values_raise(v, &err);
		else
			result = Py_BuildValue("(ss#OO)", field->name, text.data, (Py_ssize_t)text.size,
					       field->nullable ? Py_True : Py_False, metadata);
	}
	weir_text_release(&text);
	Py_XDECREF(metadata);
	return result;
}

static PyObject *batch_schema(PyObject *self, PyObject *unused)
{
	const struct weir_schema *schema = ((struct batch_object *)self)->batch->schema;
	PyObject *fields = PyList_New(schema->field_count);

	(void)unused;
	for (uint32_t i = 0; fields && i < schema->field_count; i++) {
		PyObject *field = field_tuple(values_of_object(self), &schema->fields[i]);

		if (!field)
			Py_CLEAR(fields);
		else
			PyList_SetItem(fields, i, field);
	}
	return fields;
}

static PyObject *batch_repr(PyObject *object)
{
	const struct weir_batch *batch = ((struct batch_object *)object)->batch;
	struct pyext_values *v = values_of_object(object);
	struct weir_error err = {0};
	struct weir_text text;
	PyObject *result = NULL;
	int code;

	weir_text_init(&text, v->account);
	code = weir_text_printf(&text, &err, "<Batch of %lld row%s", (long long)batch->row_count,
				batch->row_count == 1 ? "" : "s");
	for (uint32_t i = 0; !code && i < batch->column_count; i++) {
		code = weir_text_puts(&text, i ? ", " : ": ", &err);
		if (!code)
			code = weir_field_print(&batch->schema->fields[i], &text, &err);
	}
	if (!code)
		code = weir_text_puts(&text, ">", &err);
	result = code ? values_raise(v, &err) : PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "replace");
	weir_text_release(&text);
	return result;
}

/* ---- parts of it ---- */

/* from, to as a slice of Python would have them: negative from the end, cut at both ends. */
static int read_range(PyObject *args, PyObject *kwargs, const char *format, int64_t row_count, int64_t *from,
		      int64_t *to)
{
	static char *words[] = {"start", "stop", NULL};
	PyObject *stop = Py_None;
	Py_ssize_t start = 0, end = (Py_ssize_t)row_count;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, words, &start, &stop))
		return -1;
	if (stop != Py_None) {
		end = PyNumber_AsSsize_t(stop, NULL);
		if (end == -1 && PyErr_Occurred())
			return -1;
	}
	if (start < 0)
		start = start + row_count > 0 ? start + (Py_ssize_t)row_count : 0;
	if (end < 0)
		end += (Py_ssize_t)row_count;
	*to = end > row_count ? row_count : end < 0 ? 0 : end;
	*from = start > *to ? *to : start;
	return 0;
}

static struct weir_batch *slice(const struct weir_batch *batch, int64_t from, int64_t count, struct weir_error *err)
{
	size_t size = batch->column_count * sizeof(struct weir_array *);
	struct weir_array **columns = weir_alloc_zero(batch->account, size, err);
	struct weir_batch *result = NULL;
	bool done = columns != NULL;

	for (uint32_t i = 0; done && i < batch->column_count; i++) {
		columns[i] = weir_array_slice(batch->columns[i], from, count, err);
		done = columns[i] != NULL;
	}
	if (done)
		result = weir_batch_new(batch->account, batch->schema, count, columns, err);
	for (uint32_t i = 0; columns && i < batch->column_count; i++)
		weir_array_unref(columns[i]);
	weir_free(batch->account, columns, size);
	return result;
}

static PyObject *batch_slice(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct batch_object *self = (struct batch_object *)object;
	struct weir_error err = {0};
	struct weir_batch *part;
	int64_t from, to;

	if (read_range(args, kwargs, "n|O:slice", self->batch->row_count, &from, &to))
		return NULL;
	part = slice(self->batch, from, to - from, &err);
	if (!part)
		return values_raise(values_of_object(object), &err);
	return batch_wrap(values_of_object(object), part, self->keeper);
}

static PyObject *batch_to_rows(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct batch_object *self = (struct batch_object *)object;
	int64_t from, to;

	if (read_range(args, kwargs, "|nO:rows", self->batch->row_count, &from, &to))
		return NULL;
	return batch_rows(values_of_object(object), self, from, to);
}

static int find_column(struct pyext_values *v, const struct weir_batch *batch, PyObject *key, uint32_t *out)
{
	struct weir_error err = {0};
	const char *name;
	Py_ssize_t at;

	if (PyUnicode_Check(key)) {
		name = PyUnicode_AsUTF8AndSize(key, NULL);
		if (name && weir_schema_find(batch->schema, name, out, &err))
			values_raise(v, &err);
		return name && !err.code ? 0 : -1;
	}
	at = PyNumber_AsSsize_t(key, PyExc_IndexError);
	if (at == -1 && PyErr_Occurred())
		return -1;
	if (at < 0)
		at += batch->column_count;
	if (at < 0 || at >= (Py_ssize_t)batch->column_count) {
		PyErr_Format(PyExc_IndexError, "column %zd of %u", at, (unsigned)batch->column_count);
		return -1;
	}
	*out = (uint32_t)at;
	return 0;
}

static PyObject *batch_column(PyObject *object, PyObject *key)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	struct numpy_request request = {.v = v, .keeper = self->keeper};
	uint32_t at;

	if (find_column(v, self->batch, key, &at) || values_need_numpy(v))
		return NULL;
	return numpy_column(&request, &self->batch->schema->fields[at], self->batch->columns[at], 0,
			    self->batch->row_count);
}

static PyObject *batch_to_values(PyObject *object, PyObject *key)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	uint32_t at;

	return find_column(v, self->batch, key, &at) ? NULL : batch_values(v, self, at);
}

/* Columns under these fields as a Batch beside this one, with its rows and its memory. */
static PyObject *batch_beside(const struct batch_object *self, const struct weir_field *fields,
			      struct weir_array **columns, uint32_t count)
{
	struct pyext_values *v = values_of_object((PyObject *)self);
	const struct weir_batch *batch = self->batch;
	struct weir_error err = {0};
	struct weir_schema *schema = weir_schema_new(batch->account, fields, count, &batch->schema->metadata, &err);
	struct weir_batch *made = NULL;

	if (schema)
		made = weir_batch_new(batch->account, schema, batch->row_count, columns, &err);
	if (!made)
		values_raise(v, &err);
	weir_schema_unref(schema);
	return batch_wrap(v, made, self->keeper);
}

/* The columns in the order of their keys. */
static PyObject *batch_select(PyObject *object, PyObject *keys)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	const struct weir_batch *batch = self->batch;
	Py_ssize_t count = PySequence_Size(keys);
	struct weir_array **columns;
	struct weir_field *fields;
	PyObject *made = NULL;
	bool failed = false;

	if (count < 0)
		return NULL;
	columns = PyMem_Calloc((size_t)count + 1, sizeof(*columns));
	fields = PyMem_Calloc((size_t)count + 1, sizeof(*fields));
	if (!columns || !fields) {
		PyErr_NoMemory();
		goto out;
	}
	for (Py_ssize_t i = 0; !failed && i < count; i++) {
		PyObject *key = PySequence_GetItem(keys, i);
		uint32_t at = 0;

		failed = !key || find_column(v, batch, key, &at);
		Py_XDECREF(key);
		columns[i] = batch->columns[at];
		fields[i] = batch->schema->fields[at];
	}
	if (failed)
		goto out;
	made = batch_beside(self, fields, columns, (uint32_t)count);
out:
	PyMem_Free(columns);
	PyMem_Free(fields);
	return made;
}

/* The columns, with others in the place of those of their names and behind them. */
static PyObject *batch_with_columns(PyObject *object, PyObject *mapping)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	const struct weir_batch *batch = self->batch;
	struct weir_batch *others = batch_from_columns(v, mapping, batch->row_count);
	uint32_t count = batch->column_count, at;
	struct weir_array **columns;
	struct weir_field *fields;
	PyObject *made = NULL;

	if (!others)
		return NULL;
	columns = PyMem_Calloc((size_t)count + others->column_count + 1, sizeof(*columns));
	fields = PyMem_Calloc((size_t)count + others->column_count + 1, sizeof(*fields));
	if (!columns || !fields) {
		PyErr_NoMemory();
		goto out;
	}
	for (uint32_t i = 0; i < count; i++) {
		columns[i] = batch->columns[i];
		fields[i] = batch->schema->fields[i];
	}
	for (uint32_t i = 0; i < others->column_count; i++) {
		for (at = 0; at < batch->column_count; at++) {
			if (!strcmp(fields[at].name, others->schema->fields[i].name))
				break;
		}
		if (at == batch->column_count)
			at = count++;
		columns[at] = others->columns[i];
		fields[at] = others->schema->fields[i];
	}
	made = batch_beside(self, fields, columns, count);
out:
	weir_batch_unref(others);
	PyMem_Free(columns);
	PyMem_Free(fields);
	return made;
}

/* Rows whose byte in the mask is not 0. */
static PyObject *batch_filter(PyObject *object, PyObject *mask)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	const struct weir_batch *batch = self->batch;
	struct weir_batch *result = NULL;
	struct weir_array **columns = NULL;
	struct weir_error err = {0};
	size_t words = ((size_t)batch->row_count + 63) / 64;
	uint64_t *bits = NULL;
	int64_t kept = 0;
	bool done;
	Py_buffer view;

	if (PyObject_GetBuffer(mask, &view, PyBUF_SIMPLE))
		return NULL;
	if (view.len != batch->row_count) {
		PyErr_Format(PyExc_ValueError, "a mask of %zd bytes for %lld rows", view.len,
			     (long long)batch->row_count);
		goto out;
	}
	bits = PyMem_Calloc(words + 1, sizeof(*bits));
	columns = PyMem_Calloc(batch->column_count + 1, sizeof(*columns));
	if (!bits || !columns) {
		PyErr_NoMemory();
		goto out;
	}
	for (int64_t i = 0; i < batch->row_count; i++) {
		uint64_t keep = ((const uint8_t *)view.buf)[i] != 0;

		bits[i >> 6] |= keep << (i & 63);
		kept += (int64_t)keep;
	}
	done = true;
	for (uint32_t i = 0; done && i < batch->column_count; i++) {
		columns[i] = weir_array_filter(batch->account, batch->columns[i], bits, &err);
		done = columns[i] != NULL;
	}
	if (done)
		result = weir_batch_new(batch->account, batch->schema, kept, columns, &err);
	if (!result)
		values_raise(v, &err);
	for (uint32_t i = 0; i < batch->column_count; i++)
		weir_array_unref(columns[i]);
out:
	PyMem_Free(bits);
	PyMem_Free(columns);
	PyBuffer_Release(&view);
	return batch_wrap(v, result, self->keeper);
}

/* Rows by their numbers, in that order: a buffer of int64, such as array("q") or an ndarray. */
static PyObject *batch_take(PyObject *object, PyObject *rows)
{
	const struct batch_object *self = (const struct batch_object *)object;
	struct pyext_values *v = values_of_object(object);
	const struct weir_batch *batch = self->batch;
	struct weir_batch *result = NULL;
	struct weir_array **columns = NULL;
	struct weir_error err = {0};
	const int64_t *numbers;
	int64_t count;
	bool done = true;
	Py_buffer view;

	if (PyObject_GetBuffer(rows, &view, PyBUF_ND | PyBUF_FORMAT))
		return NULL;
	numbers = view.buf;
	count = view.len / 8;
	if (view.itemsize != 8 || !view.format || !strchr("ql", view.format[strlen(view.format) - 1])) {
		PyErr_SetString(PyExc_TypeError, "rows are numbers of 64 bits, such as array('q', [2, 0])");
		goto out;
	}
	for (int64_t i = 0; i < count; i++) {
		if (numbers[i] < 0 || numbers[i] >= batch->row_count) {
			PyErr_Format(PyExc_IndexError, "there is no row %lld among %lld", (long long)numbers[i],
				     (long long)batch->row_count);
			goto out;
		}
	}
	columns = PyMem_Calloc(batch->column_count + 1, sizeof(*columns));
	if (!columns) {
		PyErr_NoMemory();
		goto out;
	}
	for (uint32_t i = 0; done && i < batch->column_count; i++) {
		columns[i] = weir_array_take(batch->account, batch->columns[i], numbers, count, &err);
		done = columns[i] != NULL;
	}
	if (done)
		result = weir_batch_new(batch->account, batch->schema, count, columns, &err);
	if (!result)
		values_raise(v, &err);
	for (uint32_t i = 0; i < batch->column_count; i++)
		weir_array_unref(columns[i]);
out:
	PyMem_Free(columns);
	PyBuffer_Release(&view);
	return batch_wrap(v, result, self->keeper);
}

static PyObject *batch_numpy(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *words[] = {"writable", NULL};
	const struct batch_object *self = (const struct batch_object *)object;
	struct numpy_request request = {.v = values_of_object(object), .keeper = self->keeper};
	const struct weir_batch *batch = self->batch;
	PyObject *result;
	int writable = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:numpy", words, &writable) || values_need_numpy(request.v))
		return NULL;
	request.writable = writable;
	result = PyDict_New();
	for (uint32_t i = 0; result && i < batch->column_count; i++) {
		const struct weir_field *field = &batch->schema->fields[i];
		PyObject *key = PyUnicode_InternFromString(field->name);
		PyObject *column = key ? numpy_column(&request, field, batch->columns[i], 0, batch->row_count) : NULL;

		if (!column || PyDict_SetItem(result, key, column))
			Py_CLEAR(result);
		else if (PyDict_Size(result) != (Py_ssize_t)i + 1) {
			PyErr_Format(PyExc_ValueError, "two columns are named '%s', so columns cannot be a dict",
				     field->name);
			Py_CLEAR(result);
		}
		Py_XDECREF(key);
		Py_XDECREF(column);
	}
	return result;
}

/* ---- comparison ---- */

static PyObject *batch_compare(PyObject *a, PyObject *b, int operation)
{
	const struct weir_batch *x, *y;
	bool equal;

	if (Py_TYPE(a) != Py_TYPE(b) || (operation != Py_EQ && operation != Py_NE)) {
		Py_INCREF(Py_NotImplemented);
		return Py_NotImplemented;
	}
	x = ((struct batch_object *)a)->batch;
	y = ((struct batch_object *)b)->batch;
	equal = x->row_count == y->row_count && weir_schema_equal(x->schema, y->schema, true);
	for (uint32_t i = 0; equal && i < x->column_count; i++)
		equal = weir_array_equal(x->columns[i], y->columns[i], true);
	return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_ssize_t batch_length(PyObject *self)
{
	return (Py_ssize_t)((struct batch_object *)self)->batch->row_count;
}

/* ---- the type and the module's functions ---- */

PyDoc_STRVAR(slice_doc,
	     "slice($self, start, stop=None)\n--\n\nRows start to stop, as a slice of a list; nothing is copied.");
PyDoc_STRVAR(rows_doc,
	     "rows($self, start=0, stop=None)\n--\n\nThe rows as a list of fresh dicts of plain Python values.");
PyDoc_STRVAR(
	numpy_doc,
	"numpy($self, writable=False)\n--\n\nThe columns as a dict of NumPy arrays: read-only views where the memory "
	"allows, or copies of one's own with writable=True.");
PyDoc_STRVAR(column_doc, "column($self, key, /)\n--\n\nOne column, by name or position, as a NumPy array.");
PyDoc_STRVAR(values_doc,
	     "values($self, key, /)\n--\n\nOne column, by name or position, as a list of plain Python values.");
PyDoc_STRVAR(with_columns_doc,
	     "with_columns($self, columns, /)\n--\n\nA Batch with these columns, as batch_from_columns takes "
	     "them: in the place of columns of the same names, or behind the others.");
PyDoc_STRVAR(select_doc, "select($self, keys, /)\n--\n\nA Batch of some of the columns, by names or positions.");
PyDoc_STRVAR(take_doc,
	     "take($self, rows, /)\n--\n\nThe rows of these numbers (array('q') or an int64 array), in that order.");
PyDoc_STRVAR(filter_doc,
	     "filter($self, mask, /)\n--\n\nThe rows whose byte in the mask (bytes, or an array of bool) is not zero.");
PyDoc_STRVAR(schema_doc, "schema($self)\n--\n\nOne tuple a column: (name, type as text, nullable, metadata).");
PyDoc_STRVAR(batch_doc, "Rows of several columns in Arrow's memory layout.");

static PyMethodDef batch_methods[] = {
	{"schema", batch_schema, METH_NOARGS, schema_doc},
	{"slice", (PyCFunction)(void (*)(void))batch_slice, METH_VARARGS | METH_KEYWORDS, slice_doc},
	{"rows", (PyCFunction)(void (*)(void))batch_to_rows, METH_VARARGS | METH_KEYWORDS, rows_doc},
	{"numpy", (PyCFunction)(void (*)(void))batch_numpy, METH_VARARGS | METH_KEYWORDS, numpy_doc},
	{"column", batch_column, METH_O, column_doc},
	{"values", batch_to_values, METH_O, values_doc},
	{"select", batch_select, METH_O, select_doc},
	{"with_columns", batch_with_columns, METH_O, with_columns_doc},
	{"filter", batch_filter, METH_O, filter_doc},
	{"take", batch_take, METH_O, take_doc},
	{"__arrow_c_schema__", batch_c_schema, METH_NOARGS, NULL},
	{"__arrow_c_array__", (PyCFunction)(void (*)(void))batch_c_array, METH_VARARGS | METH_KEYWORDS, NULL},
	{"__arrow_c_stream__", (PyCFunction)(void (*)(void))batch_c_stream, METH_VARARGS | METH_KEYWORDS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_getters[] = {
	{"num_rows", get_num_rows, NULL, "The number of rows.", NULL},
	{"num_columns", get_num_columns, NULL, "The number of columns.", NULL},
	{"names", get_names, NULL, "The columns' names, in order.", NULL},
	{"nbytes", get_nbytes, NULL, "The bytes that these rows take.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
	{Py_tp_dealloc, batch_dealloc},
	{Py_tp_repr, batch_repr},
	{Py_tp_richcompare, batch_compare},
	{Py_tp_hash, PyObject_HashNotImplemented},
	{Py_tp_methods, batch_methods},
	{Py_tp_getset, batch_getters},
	{Py_sq_length, batch_length},
	{Py_tp_doc, (void *)batch_doc},
	{0, NULL},
};

PyType_Spec batch_spec = {
	.name = "weir._weir.Batch",
	.basicsize = sizeof(struct batch_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = batch_slots,
};

PyObject *pyext_batch_new(PyObject *module, struct weir_batch *batch, struct api_keeper *keeper)
{
	return batch_wrap(values_of_module(module), batch, keeper);
}

struct weir_batch *pyext_batch_get(PyObject *module, PyObject *object)
{
	if ((PyObject *)Py_TYPE(object) != values_of_module(module)->batch_type) {
		PyObject *name = PyType_GetName(Py_TYPE(object));

		if (name)
			PyErr_Format(PyExc_TypeError, "a Batch is wanted, not an object of type %U", name);
		Py_XDECREF(name);
		return NULL;
	}
	return ((struct batch_object *)object)->batch;
}

struct api_keeper *pyext_batch_keeper(PyObject *batch)
{
	return ((struct batch_object *)batch)->keeper;
}

struct weir_account *pyext_values_account(PyObject *module)
{
	return values_of_module(module)->account;
}
