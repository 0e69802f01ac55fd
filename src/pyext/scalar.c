/* Arrays as plain Python values, by column: one switch on the type for many rows, nested types through their children's
 * rows at once.
 *
 *     numbers, bool   int, float, bool        list, large list, fixed list   list
 *     text, binary    str, bytes              struct                         dict
 *     decimal         Decimal                 map                            list of (key, value)
 *     interval        int or tuple            dictionary                     its values
 */
#include "arrow/decimal.h"
#include "arrow/value.h"
#include "pyext/values_impl.h"

void objects_release(PyObject **objects, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		Py_CLEAR(objects[i]);
}

static int64_t offset_of(const struct weir_array *array, int64_t at)
{
	const uint8_t *data = array->buffers[1].data;

	switch (array->type->id) {
	case WEIR_LARGE_BINARY:
	case WEIR_LARGE_STRING:
	case WEIR_LARGE_LIST:
		return ((const int64_t *)data)[at];
	default:
		return ((const int32_t *)data)[at];
	}
}

/* Each of these makes the value of one row, counted from the start of the buffers. */

static PyObject *bytes_object(const struct weir_array *array, int64_t row)
{
	int64_t from = offset_of(array, row), size = offset_of(array, row + 1) - from;
	const char *bytes = size ? (const char *)array->buffers[2].data + from : "";

	return weir_type_is_text(array->type) ? PyUnicode_DecodeUTF8(bytes, size, NULL)
					      : PyBytes_FromStringAndSize(bytes, size);
}

static PyObject *decimal_object(struct pyext_values *v, const struct weir_array *array, int64_t row)
{
	uint32_t width = array->type->byte_width;
	struct weir_int256 value = weir_int256_load(array->buffers[1].data + row * width, width);
	char text[96];
	size_t size = weir_decimal_format(&value, array->type->scale, text);

	return PyObject_CallFunction(v->decimal, "s#", text, (Py_ssize_t)size);
}

static PyObject *interval_object(const struct weir_array *array, int64_t row)
{
	const uint8_t *at = array->buffers[1].data + row * array->type->byte_width;
	int32_t months, days;
	int64_t nanos;

	memcpy(&months, at, 4);
	if (array->type->id == WEIR_INTERVAL_MONTHS)
		return PyLong_FromLong(months);
	memcpy(&days, at + 4, 4);
	if (array->type->id == WEIR_INTERVAL_DAY_TIME)
		return Py_BuildValue("(ii)", (int)months, (int)days);
	memcpy(&nanos, at + 8, 8);
	return Py_BuildValue("(iiL)", (int)months, (int)days, (long long)nanos);
}

static PyObject *temporal_object(struct pyext_values *v, const struct weir_array *array, int64_t row)
{
	const uint8_t *data = array->buffers[1].data;

	return time_object(v, array->type,
			   array->type->byte_width == 4 ? ((const int32_t *)data)[row] : ((const int64_t *)data)[row]);
}

#define EACH(make)                                                                                                     \
	for (int64_t i = 0; i < count; i++) {                                                                          \
		int64_t row = first + i;                                                                               \
                                                                                                                       \
		if (validity && !weir_bit_get(validity, row)) {                                                        \
			Py_INCREF(Py_None);                                                                            \
			out[i] = Py_None;                                                                              \
			continue;                                                                                      \
		}                                                                                                      \
		out[i] = (make);                                                                                       \
		if (!out[i]) {                                                                                         \
			objects_release(out, i);                                                                       \
			return -1;                                                                                     \
		}                                                                                                      \
	}                                                                                                              \
	return 0

#define VALUE(c_type) (((const c_type *)data)[row])

static int flat_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
			PyObject **out)
{
	const uint8_t *validity = array->buffers[0].data, *data = array->buffers[1].data;
	int64_t first = array->offset + at;

	switch (array->type->id) {
	case WEIR_BOOL:
		EACH(PyBool_FromLong(weir_bit_get(data, row)));
	case WEIR_INT8:
		EACH(PyLong_FromLong(VALUE(int8_t)));
	case WEIR_INT16:
		EACH(PyLong_FromLong(VALUE(int16_t)));
	case WEIR_INT32:
		EACH(PyLong_FromLong(VALUE(int32_t)));
	case WEIR_INT64:
		EACH(PyLong_FromLongLong(VALUE(int64_t)));
	case WEIR_UINT8:
		EACH(PyLong_FromLong(VALUE(uint8_t)));
	case WEIR_UINT16:
		EACH(PyLong_FromLong(VALUE(uint16_t)));
	case WEIR_UINT32:
		EACH(PyLong_FromLong((long)VALUE(uint32_t)));
	case WEIR_UINT64:
		EACH(PyLong_FromUnsignedLongLong(VALUE(uint64_t)));
	case WEIR_HALF:
		EACH(PyFloat_FromDouble((double)weir_half_to_float(VALUE(uint16_t))));
	case WEIR_FLOAT:
		EACH(PyFloat_FromDouble((double)VALUE(float)));
	case WEIR_DOUBLE:
		EACH(PyFloat_FromDouble(VALUE(double)));
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		if (values_need_decimal(v))
			return -1;
		EACH(decimal_object(v, array, row));
	case WEIR_DATE32:
	case WEIR_DATE64:
	case WEIR_TIME32:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		if (values_need_datetime(v))
			return -1;
		EACH(temporal_object(v, array, row));
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
		EACH(interval_object(array, row));
	case WEIR_FIXED_BINARY:
		EACH(PyBytes_FromStringAndSize((const char *)data + row * array->type->byte_width,
					       array->type->byte_width));
	default:
		WEIR_ASSERT(weir_type_is_bytes(array->type));
		EACH(bytes_object(array, row));
	}
}

static int null_objects(int64_t count, PyObject **out)
{
	for (int64_t i = 0; i < count; i++) {
		Py_INCREF(Py_None);
		out[i] = Py_None;
	}
	return 0;
}

/* ---- nested ---- */

static PyObject **objects_new(int64_t count)
{
	/* Zeroed, so that releasing all of it is right at any time. */
	PyObject **objects = PyMem_Calloc((size_t)(count ? count : 1), sizeof(*objects));

	if (!objects)
		PyErr_NoMemory();
	return objects;
}

/* A map's entry as a tuple, from its struct's children. */
static int entry_objects(struct pyext_values *v, const struct weir_array *entries, int64_t at, int64_t count,
			 PyObject **out)
{
	PyObject **keys = objects_new(count), **items = objects_new(count);
	int failed = !keys || !items || values_objects(v, entries->children[0], entries->offset + at, count, keys);

	if (!failed)
		failed = values_objects(v, entries->children[1], entries->offset + at, count, items);
	for (int64_t i = 0; !failed && i < count; i++) {
		out[i] = PyTuple_Pack(2, keys[i], items[i]);
		if (!out[i]) {
			objects_release(out, i);
			failed = -1;
		}
	}
	for (int64_t i = 0; i < count; i++) {
		if (keys)
			Py_XDECREF(keys[i]);
		if (items)
			Py_XDECREF(items[i]);
	}
	PyMem_Free(keys);
	PyMem_Free(items);
	return failed ? -1 : 0;
}

static int list_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
			PyObject **out)
{
	const uint8_t *validity = array->buffers[0].data;
	const struct weir_array *child = array->children[0];
	int64_t first = array->offset + at, size = array->type->list_size;
	bool fixed = array->type->id == WEIR_FIXED_LIST;
	int64_t from = fixed ? first * size : offset_of(array, first);
	int64_t to = fixed ? (first + count) * size : offset_of(array, first + count);
	PyObject **items = objects_new(to - from);
	int failed;

	if (!items)
		return -1;
	failed = array->type->id == WEIR_MAP ? entry_objects(v, child, from, to - from, items)
					     : values_objects(v, child, from, to - from, items);
	for (int64_t i = 0; !failed && i < count; i++) {
		int64_t row = first + i;
		int64_t begin = fixed ? row * size : offset_of(array, row);
		int64_t end = fixed ? begin + size : offset_of(array, row + 1);

		if (validity && !weir_bit_get(validity, row)) {
			Py_INCREF(Py_None);
			out[i] = Py_None;
			continue;
		}
		out[i] = PyList_New(end - begin);
		if (!out[i]) {
			objects_release(out, i);
			failed = -1;
			break;
		}
		for (int64_t j = begin; j < end; j++) {
			PyList_SetItem(out[i], j - begin, items[j - from]);
			items[j - from] = NULL;
		}
	}
	objects_release(items, to - from);
	PyMem_Free(items);
	return failed ? -1 : 0;
}

static int struct_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
			  PyObject **out)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first = array->offset + at;
	PyObject **items = objects_new(count);
	int failed = items ? 0 : -1;

	for (int64_t i = 0; !failed && i < count; i++) {
		bool valid = !validity || weir_bit_get(validity, first + i);

		if (!valid)
			Py_INCREF(Py_None);
		out[i] = valid ? PyDict_New() : Py_None;
		if (!out[i]) {
			objects_release(out, i);
			PyMem_Free(items);
			return -1;
		}
	}
	for (uint32_t c = 0; !failed && c < array->child_count; c++) {
		PyObject *key = PyUnicode_InternFromString(array->type->fields[c].name);

		failed = !key || values_objects(v, array->children[c], first, count, items);
		for (int64_t i = 0; !failed && i < count; i++)
			if (out[i] != Py_None && PyDict_SetItem(out[i], key, items[i]))
				failed = -1;
		objects_release(items, count);
		Py_XDECREF(key);
	}
	if (failed && items)
		objects_release(out, count);
	PyMem_Free(items);
	return failed ? -1 : 0;
}

bool dictionary_shares(const struct weir_array *array, int64_t count)
{
	return array->type->id == WEIR_DICTIONARY_TYPE && !weir_type_is_nested(array->dictionary->type) &&
	       array->dictionary->length <= 4 * count;
}

PyObject **dictionary_made(struct pyext_values *v, const struct weir_array *array)
{
	PyObject **made = objects_new(array->dictionary->length);

	if (made && values_objects(v, array->dictionary, 0, array->dictionary->length, made)) {
		PyMem_Free(made);
		made = NULL;
	}
	return made;
}

void dictionary_pick(const struct weir_array *array, int64_t at, int64_t count, PyObject **made, PyObject **out)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first = array->offset + at;

	for (int64_t i = 0; i < count; i++) {
		out[i] = validity && !weir_bit_get(validity, first + i) ? Py_None
									: made[weir_array_code(array, first + i)];
		Py_INCREF(out[i]);
	}
}

static int dictionary_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
			      PyObject **out)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first = array->offset + at;
	PyObject **made;

	if (dictionary_shares(array, count)) {
		made = dictionary_made(v, array);
		if (!made)
			return -1;
		dictionary_pick(array, at, count, made, out);
		objects_release(made, array->dictionary->length);
		PyMem_Free(made);
		return 0;
	}
	for (int64_t i = 0; i < count; i++) {
		if (validity && !weir_bit_get(validity, first + i)) {
			Py_INCREF(Py_None);
			out[i] = Py_None;
		} else if (values_objects(v, array->dictionary, weir_array_code(array, first + i), 1, &out[i])) {
			objects_release(out, i);
			return -1;
		}
	}
	return 0;
}

int values_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count, PyObject **out)
{
	WEIR_ASSERT(at >= 0 && count >= 0 && at + count <= array->length);
	switch (array->type->id) {
	case WEIR_NULL:
		return null_objects(count, out);
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
	case WEIR_MAP:
		return count ? list_objects(v, array, at, count, out) : 0;
	case WEIR_STRUCT:
		return struct_objects(v, array, at, count, out);
	case WEIR_DICTIONARY_TYPE:
		return dictionary_objects(v, array, at, count, out);
	default:
		return flat_objects(v, array, at, count, out);
	}
}
