/* NumPy arrays as columns. Numbers lie as Arrow wants them and are borrowed, if they are in order and in one piece;
 * other layouts are put in order by NumPy first.
 *
 *     b, i, u, f          bool (packed into bits), numbers          2-D and more: tensors of a fixed shape
 *     M8, m8              numpy_time.c
 *     U, S, O, masked     by their values, as a list
 *     the rest            objects
 */
#include "pyext/infer.h"

#include <stdio.h>

static int refuse(struct pyext_values *v, const struct weir_error *err)
{
	values_raise(v, err);
	return -1;
}

/* Flat memory of an array in C order as a buffer: borrowed, or copied where no loop could read it. */
static int borrow(struct pyext_values *v, PyObject *array, uint32_t align, struct weir_buffer *out, int64_t *count)
{
	struct weir_error err = {0};
	uint8_t *copy;
	Py_buffer view;
	int code;

	if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
		return -1;
	*count = view.itemsize ? view.len / view.itemsize : 0;
	if (view.len && (uintptr_t)view.buf % align == 0) {
		*out = (struct weir_buffer){.data = view.buf, .size = (uint64_t)view.len};
		out->owner = python_owner_buffer(v, &view);
		return out->owner ? 0 : -1;
	}
	code = weir_buffer_new(v->account, (uint64_t)view.len, out, &copy, &err);
	if (!code && view.len)
		memcpy(copy, view.buf, (size_t)view.len);
	PyBuffer_Release(&view);
	return code ? refuse(v, &err) : 0;
}

static struct weir_array *flat_array(struct pyext_values *v, const struct weir_type *type, int64_t count,
				     struct weir_buffer *values)
{
	struct weir_error err = {0};
	struct weir_array *array = weir_array_new(v->account, type, &err);

	if (!array) {
		weir_buffer_release(values);
		refuse(v, &err);
		return NULL;
	}
	array->length = count;
	array->buffers[1] = *values;
	return array;
}

static struct weir_array *packed_bools(struct pyext_values *v, PyObject *array)
{
	struct weir_error err = {0};
	struct weir_buffer values;
	uint8_t *bits;
	Py_buffer view;

	if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
		return NULL;
	if (weir_buffer_new(v->account, weir_bits_size(view.len), &values, &bits, &err)) {
		PyBuffer_Release(&view);
		refuse(v, &err);
		return NULL;
	}
	memset(bits, 0, weir_bits_size(view.len));
	for (Py_ssize_t i = 0; i < view.len; i++)
		bits[i >> 3] |= (uint8_t)((((const uint8_t *)view.buf)[i] != 0) << (i & 7));
	PyBuffer_Release(&view);
	return flat_array(v, weir_type_of(WEIR_BOOL), view.len, &values);
}

struct weir_array *ndarray_numbers(struct pyext_values *v, PyObject *array, const struct weir_type *type)
{
	struct weir_buffer values = {0};
	int64_t count;

	if (borrow(v, array, type->byte_width, &values, &count))
		return NULL;
	return flat_array(v, type, count, &values);
}

/* ---- shapes ---- */

static int tensor_wrap(struct pyext_values *v, struct weir_array *items, const int64_t *sizes, int dims, int64_t rows,
		       struct column_out *out)
{
	struct weir_field item = {.name = "item", .type = items->type, .nullable = true};
	struct weir_error err = {0};
	const struct weir_type *type;
	size_t used = 0;
	int64_t size = 1;

	for (int i = 0; i < dims; i++)
		if (__builtin_mul_overflow(size, sizes[i], &size))
			size = INT64_MAX;
	if (size > INT32_MAX) {
		PyErr_Format(PyExc_ValueError, "a tensor of %lld values a row is larger than a column can hold",
			     (long long)size);
		return -1;
	}
	used = (size_t)snprintf(out->shape, sizeof(out->shape), "{\"shape\":[");
	for (int i = 0; i < dims; i++)
		used += (size_t)snprintf(out->shape + used, sizeof(out->shape) - used, "%s%lld", i ? "," : "",
					 (long long)sizes[i]);
	snprintf(out->shape + used, sizeof(out->shape) - used, "]}");
	type = weir_type_list(v->account, WEIR_FIXED_LIST, &item, (int32_t)size, false, &err);
	out->array = type ? weir_array_new(v->account, type, &err) : NULL;
	weir_type_unref(type);
	if (!out->array)
		return refuse(v, &err);
	out->array->length = rows;
	out->array->children[0] = weir_array_ref(items);
	column_extend(out, WEIR_FIXED_TENSOR);
	return 0;
}

static int by_values(struct pyext_values *v, const char *name, PyObject *array, bool as_objects, struct column_out *out)
{
	PyObject *list = as_objects ? PySequence_List(array) : PyObject_CallMethodObjArgs(array, v->names.tolist, NULL);
	int failed = list ? column_from_list(v, name, list, out) : -1;

	Py_XDECREF(list);
	return failed;
}

/* Rows that no tensor type holds: Python objects, without asking again what they are. */
static int rows_as_objects(struct pyext_values *v, const char *name, PyObject *array, struct column_out *out)
{
	Py_ssize_t count = PySequence_Size(array);
	PyObject **rows = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof(*rows));
	int failed = rows ? 0 : -1;

	if (count >= 0 && !rows)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; !failed && i < count; i++) {
		rows[i] = PySequence_GetItem(array, i);
		failed = rows[i] ? 0 : -1;
	}
	if (!failed)
		failed = column_of_objects(v, name, rows, count, out);
	for (Py_ssize_t i = 0; rows && i < count; i++)
		Py_XDECREF(rows[i]);
	PyMem_Free(rows);
	return failed;
}

static char kind_of(struct pyext_values *v, PyObject *dtype)
{
	PyObject *text = PyObject_GetAttr(dtype, v->names.kind);
	const char *chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	char kind = chars ? *chars : '\0';

	Py_XDECREF(text);
	return kind;
}

PyObject *ndarray_in_order(struct pyext_values *v, PyObject *array)
{
	PyObject *dtype = PyObject_GetAttr(array, v->names.dtype), *native = NULL, *other, *turned = NULL;
	PyObject *result = NULL;

	if (dtype)
		native = PyObject_GetAttr(dtype, v->names.isnative);
	if (native == Py_False) {
		other = PyObject_CallMethod(dtype, "newbyteorder", "s", "=");
		turned = other ? PyObject_CallMethodObjArgs(array, v->names.astype, other, NULL) : NULL;
		Py_XDECREF(other);
	} else if (native) {
		turned = Py_NewRef(array);
	}
	if (turned)
		result = PyObject_CallFunctionObjArgs(v->numpy.ascontiguousarray, turned, NULL);
	Py_XDECREF(turned);
	Py_XDECREF(native);
	Py_XDECREF(dtype);
	return result;
}

static int64_t read_sizes(struct pyext_values *v, PyObject *array, int64_t *sizes)
{
	PyObject *shape = PyObject_GetAttr(array, v->names.shape);
	Py_ssize_t dims = shape ? PyTuple_Size(shape) : -1;

	if (dims > WEIR_TENSOR_DIMS_MAX) {
		PyErr_Format(PyExc_ValueError, "an array of %zd dimensions", dims);
		dims = -1;
	}
	for (Py_ssize_t i = 0; i < dims; i++)
		sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
	Py_XDECREF(shape);
	return dims;
}

/* Any array: put in order first, or taken value by value. */
static int column_of_any(struct pyext_values *v, const char *name, PyObject *array, struct column_out *out)
{
	PyObject *dtype = PyObject_GetAttr(array, v->names.dtype), *whole = NULL;
	int64_t sizes[WEIR_TENSOR_DIMS_MAX + 1], dims;
	struct weir_array *items = NULL;
	bool masked = PyObject_HasAttrString(array, "mask");
	Py_buffer view;
	char kind = dtype ? kind_of(v, dtype) : '\0';
	int answer = -1;

	dims = kind ? read_sizes(v, array, sizes) : -1;
	if (dims < 0)
		goto out;
	if (dims == 0) {
		PyErr_Format(PyExc_ValueError, "column '%s' is an array without dimensions: one value a row is wanted",
			     name);
		goto out;
	}
	if (masked || strchr("USO", kind) || !strchr("biufMm", kind)) {
		answer = by_values(v, name, array, !masked && !strchr("USO", kind), out);
		goto out;
	}
	whole = ndarray_in_order(v, array);
	if (!whole)
		goto out;
	if (kind == 'M' || kind == 'm') {
		answer = array_of_numpy_times(v, whole, &items);
	} else if (kind == 'b') {
		items = packed_bools(v, whole);
		answer = items ? 0 : -1;
	} else if (!PyObject_GetBuffer(whole, &view, PyBUF_FORMAT | PyBUF_STRIDES)) {
		enum weir_type_id id = buffer_id(&view);

		PyBuffer_Release(&view);
		items = id == WEIR_NULL ? NULL : ndarray_numbers(v, whole, weir_type_of(id));
		answer = items ? 0 : id == WEIR_NULL ? 1 : -1; /* long double */
	}
	if (answer == 1) {
		answer = dims > 1 ? rows_as_objects(v, name, array, out) : by_values(v, name, array, true, out);
	} else if (!answer && dims > 1) {
		answer = tensor_wrap(v, items, sizes + 1, (int)dims - 1, sizes[0], out);
	} else if (!answer) {
		out->array = items;
		items = NULL;
	}
out:
	weir_array_unref(items);
	Py_XDECREF(whole);
	Py_XDECREF(dtype);
	return answer;
}

/* What most arrays are: numbers in C order and in this machine's. One look at the buffer tells; 1: it is not so. */
static int column_in_order(struct pyext_values *v, PyObject *array, struct column_out *out)
{
	struct weir_buffer values = {0};
	struct weir_array *items;
	enum weir_type_id id;
	int64_t sizes[WEIR_TENSOR_DIMS_MAX], count = 1;
	int dims, failed;
	Py_buffer view;

	if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) {
		PyErr_Clear();
		return 1;
	}
	id = buffer_id(&view);
	dims = view.ndim;
	if (id == WEIR_NULL || id == WEIR_BOOL || dims < 1 || dims > WEIR_TENSOR_DIMS_MAX || !view.len ||
	    (uintptr_t)view.buf % (uintptr_t)view.itemsize) {
		PyBuffer_Release(&view);
		return 1;
	}
	for (int i = 0; i < dims; i++) {
		sizes[i] = view.shape[i];
		count *= sizes[i];
	}
	values = (struct weir_buffer){.data = view.buf, .size = (uint64_t)view.len};
	values.owner = python_owner_buffer(v, &view);
	if (!values.owner)
		return -1;
	items = flat_array(v, weir_type_of(id), count, &values);
	if (!items)
		return -1;
	if (dims == 1) {
		out->array = items;
		return 0;
	}
	failed = tensor_wrap(v, items, sizes + 1, dims - 1, sizes[0], out);
	weir_array_unref(items);
	return failed;
}

int column_from_ndarray(struct pyext_values *v, const char *name, PyObject *array, struct column_out *out)
{
	int answer = (PyObject *)Py_TYPE(array) == v->numpy.ndarray ? column_in_order(v, array, out) : 1;

	return answer > 0 ? column_of_any(v, name, array, out) : answer;
}
