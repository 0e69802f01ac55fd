/* NumPy arrays as columns. Numbers lie as Arrow wants them and are borrowed, if they are in order and in one piece;
 * other layouts are put in order by NumPy first.
 *
 *     b, i, u, f          bool (packed into bits), numbers          2-D and more: tensors of a fixed shape
 *     M8, m8              timestamp (days: date32), duration; NaT is null
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

static struct weir_array *numbers(struct pyext_values *v, PyObject *array, const struct weir_type *type)
{
	struct weir_buffer values = {0};
	int64_t count;

	if (borrow(v, array, type->byte_width, &values, &count))
		return NULL;
	return flat_array(v, type, count, &values);
}

/* ---- times ---- */

/* "<M8[ns]": the unit, as NumPy writes it; empty for one without. */
static void unit_text(const char *dtype_text, char *out, size_t size)
{
	const char *open = strchr(dtype_text, '[');
	size_t length = open ? strcspn(open + 1, "]") : 0;

	snprintf(out, size, "%.*s", (int)length, open ? open + 1 : "");
}

static int unit_of(PyObject *dtype, struct pyext_values *v, char *out, size_t size)
{
	PyObject *text = PyObject_GetAttr(dtype, v->names.str);
	const char *chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

	if (chars)
		unit_text(chars, out, size);
	Py_XDECREF(text);
	return chars ? 0 : -1;
}

/* NaT is null. */
static int nat_to_null(struct pyext_values *v, struct weir_array *array)
{
	const int64_t *data = (const int64_t *)array->buffers[1].data;
	struct weir_error err = {0};
	uint8_t *bits = NULL;

	for (int64_t i = 0; i < array->length; i++) {
		if (data[i] != INT64_MIN)
			continue;
		if (!bits) {
			if (weir_buffer_new(v->account, weir_bits_size(array->length), &array->buffers[0], &bits, &err))
				return refuse(v, &err);
			memset(bits, 0xff, weir_bits_size(array->length));
		}
		weir_bit_clear(bits, i);
		array->null_count++;
	}
	return 0;
}

/* Days of 64 bits as those of 32. 1: one does not fit. */
static int to_days(struct pyext_values *v, struct weir_array **array)
{
	const int64_t *from = (const int64_t *)(*array)->buffers[1].data;
	int64_t count = (*array)->length;
	struct weir_error err = {0};
	struct weir_buffer values;
	struct weir_array *days;
	uint8_t *data;

	if (weir_buffer_new(v->account, (uint64_t)count * 4, &values, &data, &err))
		return refuse(v, &err);
	for (int64_t i = 0; i < count; i++) {
		if (from[i] != INT64_MIN && from[i] != (int32_t)from[i]) {
			weir_buffer_release(&values);
			return 1;
		}
		((int32_t *)data)[i] = from[i] == INT64_MIN ? 0 : (int32_t)from[i];
	}
	days = flat_array(v, weir_type_of(WEIR_DATE32), count, &values);
	if (!days)
		return -1;
	days->buffers[0] = weir_buffer_ref(&(*array)->buffers[0]);
	days->null_count = (*array)->null_count;
	weir_array_unref(*array);
	*array = days;
	return 0;
}

/* Which of Arrow's units holds NumPy's, and what to convert to first: "" for nothing. False: none does. A multiple
 * ("25us") is held by the unit that it is one of. */
static bool time_plan(bool moment, const char *unit, const char **convert, enum weir_time_unit *out, bool *days)
{
	static const char *const same[UNIT_COUNT] = {"s", "ms", "us", "ns"};
	static const char *const single[2][UNIT_COUNT] = {{"m8[s]", "m8[ms]", "m8[us]", "m8[ns]"},
							  {"M8[s]", "M8[ms]", "M8[us]", "M8[ns]"}};
	size_t digits = strspn(unit, "0123456789");

	unit += digits;
	*convert = "";
	*days = false;
	*out = WEIR_SECOND;
	for (int i = 0; i < UNIT_COUNT; i++)
		if (!strcmp(unit, same[i])) {
			*out = (enum weir_time_unit)i;
			*convert = digits ? single[moment][i] : "";
			return true;
		}
	if (moment && !digits && !strcmp(unit, "D")) {
		*days = true;
		return true;
	}
	if (moment && (!strcmp(unit, "Y") || !strcmp(unit, "M") || !strcmp(unit, "W") || !strcmp(unit, "D"))) {
		*convert = "M8[D]";
		*days = true;
		return true;
	}
	/* Hours are whole seconds. A moment without a unit ("generic") is NaT; a difference is a number of nobody knows
	 * what. */
	if (!*unit && !moment)
		return false;
	if (!strcmp(unit, "h") || !strcmp(unit, "m") || !strcmp(unit, "D") || !strcmp(unit, "W") || !*unit) {
		*convert = moment ? "M8[s]" : "m8[s]";
		return true;
	}
	return false;
}

/* 1: no type holds it. */
static int times(struct pyext_values *v, PyObject *array, PyObject *dtype, bool moment, struct weir_array **out)
{
	struct weir_error err = {0};
	const struct weir_type *type;
	PyObject *converted = NULL, *whole = NULL;
	enum weir_time_unit unit;
	const char *convert;
	char text[32];
	bool days;
	int answer = -1;

	if (unit_of(dtype, v, text, sizeof(text)))
		return -1;
	if (!time_plan(moment, text, &convert, &unit, &days))
		return 1;
	if (*convert)
		converted = PyObject_CallMethod(array, "astype", "s", convert);
	else
		Py_INCREF(converted = array);
	if (converted)
		whole = PyObject_CallMethodObjArgs(converted, v->names.view, v->numpy.int64_name, NULL);
	Py_XDECREF(converted);
	if (!whole)
		return -1;
	*out = numbers(v, whole, weir_type_of(WEIR_INT64));
	Py_DECREF(whole);
	if (!*out || nat_to_null(v, *out))
		goto out;
	if (days) {
		answer = to_days(v, out);
		goto out;
	}
	type = weir_type_temporal(v->account, moment ? WEIR_TIMESTAMP : WEIR_DURATION, unit, NULL, &err);
	if (type) {
		weir_type_unref((*out)->type);
		(*out)->type = type;
		answer = 0;
	} else {
		refuse(v, &err);
	}
out:
	if (answer) {
		weir_array_unref(*out);
		*out = NULL;
	}
	return answer;
}

int column_of_times(struct pyext_values *v, PyObject *array, bool moment, struct weir_array **out)
{
	PyObject *dtype = PyObject_GetAttr(array, v->names.dtype);
	int answer = dtype ? times(v, array, dtype, moment, out) : -1;

	Py_XDECREF(dtype);
	return answer;
}

bool times_have_unit(const char *dtype_text)
{
	enum weir_time_unit unit;
	const char *convert;
	char text[32];
	bool days;

	if (dtype_text[1] != 'M' && dtype_text[1] != 'm')
		return true;
	unit_text(dtype_text, text, sizeof(text));
	return time_plan(dtype_text[1] == 'M', text, &convert, &unit, &days);
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

/* The array in this machine's order of bytes, and in one piece. A new reference. */
static PyObject *in_order(struct pyext_values *v, PyObject *array, PyObject *dtype)
{
	PyObject *native = PyObject_GetAttr(dtype, v->names.isnative), *turned = NULL, *other, *result;

	if (!native)
		return NULL;
	if (native == Py_False) {
		other = PyObject_CallMethod(dtype, "newbyteorder", "s", "=");
		turned = other ? PyObject_CallMethodObjArgs(array, v->names.astype, other, NULL) : NULL;
		Py_XDECREF(other);
		if (!turned) {
			Py_DECREF(native);
			return NULL;
		}
	}
	Py_DECREF(native);
	result = PyObject_CallFunctionObjArgs(v->numpy.ascontiguousarray, turned ? turned : array, NULL);
	Py_XDECREF(turned);
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
	whole = in_order(v, array, dtype);
	if (!whole)
		goto out;
	if (kind == 'M' || kind == 'm') {
		answer = times(v, whole, dtype, kind == 'M', &items);
	} else if (kind == 'b') {
		items = packed_bools(v, whole);
		answer = items ? 0 : -1;
	} else if (!PyObject_GetBuffer(whole, &view, PyBUF_FORMAT | PyBUF_STRIDES)) {
		enum weir_type_id id = buffer_id(&view);

		PyBuffer_Release(&view);
		items = id == WEIR_NULL ? NULL : numbers(v, whole, weir_type_of(id));
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
