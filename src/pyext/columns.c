/* Batches from Python: a mapping of columns, or a list of mappings, which is turned into columns of references
 * first. */
#include "pyext/infer.h"

/* torch.Tensor, without importing torch. */
static bool is_torch(PyObject *value)
{
	PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__module__");
	const char *text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
	bool torch = text && (!strcmp(text, "torch") || !strncmp(text, "torch.", 6)) &&
		     PyObject_HasAttrString(value, "detach");

	PyErr_Clear();
	Py_XDECREF(module);
	return torch;
}

/* What NumPy has no type for (bfloat16, those of 8 bits) as float32, and what is conjugated or negated only in name
 * done in earnest. */
static PyObject *torch_made_plain(struct pyext_values *v, PyObject *host)
{
	bool other_type = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
	PyObject *mirrored, *plain, *array;

	if (!other_type && !PyErr_ExceptionMatches(PyExc_RuntimeError))
		return NULL;
	PyErr_Clear();
	mirrored = PyObject_CallMethod(host, other_type ? "float" : "resolve_conj", NULL);
	plain = mirrored ? PyObject_CallMethod(mirrored, "resolve_neg", NULL) : NULL;
	array = plain ? PyObject_CallMethodObjArgs(plain, v->names.numpy, NULL) : NULL;
	Py_XDECREF(mirrored);
	Py_XDECREF(plain);
	return array;
}

static PyObject *torch_to_numpy(struct pyext_values *v, PyObject *tensor)
{
	PyObject *plain, *host, *array;

	if (values_need_numpy(v))
		return NULL;
	plain = PyObject_CallMethodObjArgs(tensor, v->names.detach, NULL);
	host = plain ? PyObject_CallMethodObjArgs(plain, v->names.cpu, NULL) : NULL;
	array = host ? PyObject_CallMethodObjArgs(host, v->names.numpy, NULL) : NULL;
	if (host && !array)
		array = torch_made_plain(v, host);
	Py_XDECREF(plain);
	Py_XDECREF(host);
	return array;
}

/* What NumPy makes of a Series, a frame or a tensor of another library; what Arrow has is a list of its values. NULL
 * without an error: it is none, or an array of Python objects, which says no more than the object itself. */
static PyObject *array_like_to_numpy(struct pyext_values *v, PyObject *value)
{
	PyObject *array, *type = NULL, *kind = NULL;
	bool objects;

	if (PyObject_HasAttrString(value, "to_pylist"))
		return PyObject_CallMethod(value, "to_pylist", NULL);
	if (!PyObject_HasAttrString(value, "__array__") || !PyObject_HasAttrString(value, "__len__") ||
	    values_need_numpy(v) || PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)v->numpy.generic)) {
		PyErr_Clear();
		return NULL;
	}
	array = PyObject_CallFunctionObjArgs(v->numpy.asarray, value, NULL);
	type = array ? PyObject_GetAttrString(array, "dtype") : NULL;
	kind = type ? PyObject_GetAttrString(type, "kind") : NULL;
	objects = kind && PyUnicode_CompareWithASCIIString(kind, "O") == 0;
	Py_XDECREF(type);
	Py_XDECREF(kind);
	if (objects)
		Py_CLEAR(array);
	return array;
}

int values_as_arrays(struct pyext_values *v, const char *name, PyObject **values, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		PyObject *value = values[i], *array;

		if (!value || value == Py_None)
			continue;
		if (value_kind(v, value) != KIND_OTHER)
			return 0;
		array = is_torch(value) ? torch_to_numpy(v, value) : array_like_to_numpy(v, value);
		if (!array && !PyErr_Occurred())
			return 0;
		if (!array)
			return build_failed_at(name, i, value);
		values[i] = array;
		Py_DECREF(value);
	}
	return 0;
}

int column_from_list(struct pyext_values *v, const char *name, PyObject *list, struct column_out *out)
{
	Py_ssize_t count = PySequence_Size(list);
	PyObject **values;
	int failed = 0;

	if (count < 0)
		return -1;
	values = PyMem_Calloc((size_t)count + 1, sizeof(*values));
	if (!values) {
		PyErr_NoMemory();
		return -1;
	}
	/* Held: reading values may run code that changes the list. */
	for (Py_ssize_t i = 0; !failed && i < count; i++) {
		values[i] = PySequence_GetItem(list, i);
		failed = values[i] ? 0 : -1;
	}
	if (!failed)
		failed = values_as_arrays(v, name, values, count);
	if (!failed)
		failed = column_from_values(v, name, values, count, out);
	objects_release(values, count);
	PyMem_Free(values);
	return failed;
}

static int refuse_column(const char *name, PyObject *value)
{
	PyObject *type = PyType_GetName(Py_TYPE(value));

	if (type)
		PyErr_Format(
			PyExc_ValueError,
			"column '%s' is of type %U: a column is a list, a NumPy array, a torch tensor, a pandas Series "
			"or an Arrow array, with one value for each row",
			name, type);
	Py_XDECREF(type);
	return -1;
}

int column_from_object(struct pyext_values *v, const char *name, PyObject *value, struct column_out *out)
{
	PyObject *array = NULL;
	int failed;

	if (PyList_CheckExact(value) || PyList_Check(value) || PyTuple_Check(value))
		return column_from_list(v, name, value, out);
	if (values_have_numpy(v) && PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)v->numpy.ndarray))
		return column_from_ndarray(v, name, value, out);
	if (PyUnicode_Check(value) || PyBytes_Check(value) || PyDict_Check(value) || value == Py_None ||
	    PyLong_Check(value) || PyFloat_Check(value))
		return refuse_column(name, value);
	if (PyObject_HasAttr(value, v->names.__arrow_c_array__) ||
	    PyObject_HasAttr(value, v->names.__arrow_c_stream__)) {
		failed = column_from_arrow(v, name, value, out);
		/* pandas without pyarrow has the method and cannot do it. */
		if (!failed || !PyErr_ExceptionMatches(PyExc_ImportError))
			return failed;
		PyErr_Clear();
	}
	if (is_torch(value)) {
		array = torch_to_numpy(v, value);
		if (!array)
			return build_failed_at(name, 0, value);
	} else if (PyObject_HasAttrString(value, "__array__") && PyObject_HasAttrString(value, "__len__")) {
		if (values_need_numpy(v))
			return -1;
		array = PyObject_CallFunctionObjArgs(v->numpy.asarray, value, NULL);
		if (!array)
			return -1;
	}
	if (!array)
		return refuse_column(name, value);
	failed = column_from_ndarray(v, name, array, out);
	Py_DECREF(array);
	return failed;
}

bool is_mapping(PyObject *object)
{
	return PyDict_Check(object) || (PyMapping_Check(object) && PyObject_HasAttrString(object, "keys"));
}

/* A column's name as UTF-8, which lives as long as the str. */
const char *column_name_text(PyObject *key)
{
	Py_ssize_t size;
	const char *text;
	PyObject *type;

	if (!PyUnicode_Check(key)) {
		type = PyType_GetName(Py_TYPE(key));
		if (type)
			PyErr_Format(PyExc_ValueError, "columns are named by str, not by %R of type %U", key, type);
		Py_XDECREF(type);
		return NULL;
	}
	text = PyUnicode_AsUTF8AndSize(key, &size);
	if (text && strlen(text) != (size_t)size) {
		PyErr_Format(PyExc_ValueError, "the column name %R contains a NUL", key);
		text = NULL;
	}
	return text;
}

struct weir_batch *batch_of_columns(struct pyext_values *v, const char *const *names, const struct column_out *columns,
				    uint32_t count, int64_t row_count)
{
	struct weir_field *fields = PyMem_Calloc(count + 1, sizeof(*fields));
	struct weir_array **arrays = PyMem_Calloc(count + 1, sizeof(*arrays));
	struct weir_schema *schema = NULL;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};

	if (fields && arrays) {
		for (uint32_t i = 0; i < count; i++) {
			arrays[i] = columns[i].array;
			fields[i] = (struct weir_field){
				.name = names[i],
				.type = columns[i].array->type,
				.nullable = true,
				.metadata = columns[i].metadata,
			};
		}
		schema = weir_schema_new(v->account, fields, count, NULL, &err);
		if (schema)
			batch = weir_batch_new(v->account, schema, row_count, arrays, &err);
		if (!batch)
			values_raise(v, &err);
	} else {
		PyErr_NoMemory();
	}
	weir_schema_unref(schema);
	PyMem_Free(fields);
	PyMem_Free(arrays);
	return batch;
}

/* ---- a mapping of columns ---- */

static int read_columns(struct pyext_values *v, PyObject *items, uint32_t count, const char **names,
			struct column_out *columns)
{
	for (uint32_t i = 0; i < count; i++) {
		PyObject *pair = PySequence_GetItem(items, i), *key = pair ? PySequence_GetItem(pair, 0) : NULL;
		PyObject *value = key ? PySequence_GetItem(pair, 1) : NULL;
		int failed = -1;

		if (value) {
			/* The list of items holds the key, and with it the text. */
			names[i] = column_name_text(key);
			if (names[i])
				failed = column_from_object(v, names[i], value, &columns[i]);
		}
		Py_XDECREF(value);
		Py_XDECREF(key);
		Py_XDECREF(pair);
		if (failed)
			return -1;
		if (columns[i].array->length != columns[0].array->length) {
			PyErr_Format(PyExc_ValueError,
				     "columns of different lengths: '%s' has %lld rows, '%s' has %lld", names[0],
				     (long long)columns[0].array->length, names[i],
				     (long long)columns[i].array->length);
			return -1;
		}
	}
	return 0;
}

struct weir_batch *batch_from_columns(struct pyext_values *v, PyObject *mapping, int64_t row_count)
{
	PyObject *items, *type;
	Py_ssize_t count;
	struct column_out *columns;
	const char **names;
	struct weir_batch *batch = NULL;

	if (!is_mapping(mapping)) {
		type = PyType_GetName(Py_TYPE(mapping));
		if (type)
			PyErr_Format(PyExc_ValueError,
				     "a mapping of names to columns is wanted, not a value of type %U", type);
		Py_XDECREF(type);
		return NULL;
	}
	items = PyMapping_Items(mapping);
	if (!items)
		return NULL;
	count = PyList_Size(items);
	columns = PyMem_Calloc((size_t)count + 1, sizeof(*columns));
	names = PyMem_Calloc((size_t)count + 1, sizeof(*names));
	if (!columns || !names)
		PyErr_NoMemory();
	else if (!read_columns(v, items, (uint32_t)count, names, columns)) {
		if (count && row_count >= 0 && columns[0].array->length != row_count)
			PyErr_Format(PyExc_ValueError, "column '%s' has %lld rows, not %lld", names[0],
				     (long long)columns[0].array->length, (long long)row_count);
		else
			batch = batch_of_columns(v, names, columns, (uint32_t)count,
						 count           ? columns[0].array->length
						 : row_count > 0 ? row_count
								 : 0);
	}
	for (Py_ssize_t i = 0; columns && i < count; i++)
		column_out_release(&columns[i]);
	PyMem_Free(columns);
	PyMem_Free(names);
	Py_DECREF(items);
	return batch;
}
