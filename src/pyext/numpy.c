/* Columns as NumPy arrays, without NumPy's headers: views are frombuffer over a Buffer object, everything else is
 * written into the memory of numpy.empty through the buffer protocol.
 *
 *     numbers            view; integers with nulls: float64 and NaN; floats with nulls: a copy with NaN
 *     bool               bytes of bits; with nulls: objects
 *     timestamp, date    datetime64 of the unit (date32: days), NaT; duration: timedelta64
 *     null               float32 NaN; in lists objects
 *     list               objects: 1-D arrays, slices of one array of all items
 *     fixed_size_list    (rows, size, …) over the items; with nulls of its own: objects
 *     struct             objects: dicts in which lists are arrays
 *     dictionary         as its values
 *     the rest           objects with None
 */
#include "arrow/value.h"
#include "pyext/values_impl.h"

#include <math.h>

static bool has_nulls(const struct weir_array *array, int64_t at, int64_t count)
{
	const uint8_t *validity = array->buffers[0].data;

	if (!validity || array->null_count == 0)
		return false;
	return weir_bits_count(validity, array->offset + at, count) != count;
}

/* numpy.empty(count, dtype), and its memory until the view is released. */
static PyObject *empty_new(struct pyext_values *v, int64_t count, PyObject *dtype, int flags, Py_buffer *view)
{
	PyObject *length = PyLong_FromLongLong(count), *array;

	if (!length)
		return NULL;
	array = PyObject_CallFunctionObjArgs(v->numpy.empty, length, dtype, NULL);
	Py_DECREF(length);
	if (array && view && PyObject_GetBuffer(array, view, PyBUF_WRITABLE | flags))
		Py_CLEAR(array);
	return array;
}

PyObject *numpy_objects_new(struct pyext_values *v, int64_t count, Py_buffer *view)
{
	return empty_new(v, count, v->numpy.object_dtype, PyBUF_FORMAT | PyBUF_ND, view);
}

/* Puts new references into the slots, whatever was there. */
static void put(void **slots, int64_t at, PyObject *object)
{
	PyObject *old = slots[at];

	slots[at] = object;
	Py_XDECREF(old);
}

/* An array over memory that lies in `array`; with `writable` a copy. */
static PyObject *view_new(const struct numpy_request *request, const struct weir_array *array, const void *data,
			  int64_t count, uint32_t width, PyObject *dtype)
{
	struct pyext_values *v = request->v;
	PyObject *exporter, *result;
	Py_buffer view;

	if (count && !request->writable) {
		exporter = exporter_new(v, array, request->keeper, data, (Py_ssize_t)(count * width));
		if (!exporter)
			return NULL;
		result = PyObject_CallFunctionObjArgs(v->numpy.frombuffer, exporter, dtype, NULL);
		Py_DECREF(exporter);
		return result;
	}
	if (!count)
		return empty_new(v, 0, dtype, 0, NULL);
	/* NumPy exports no buffer of its datetimes, so their memory comes as bytes and is seen through a view. */
	result = empty_new(v, count * width, v->numpy.dtypes[WEIR_UINT8], 0, &view);
	if (!result)
		return NULL;
	memcpy(view.buf, data, (size_t)(count * width));
	PyBuffer_Release(&view);
	exporter = PyObject_CallMethodObjArgs(result, v->names.view, dtype, NULL);
	Py_DECREF(result);
	return exporter;
}

/* ---- numbers with nulls, bits, days ---- */

static double number_at(const struct weir_array *array, int64_t row)
{
	const uint8_t *data = array->buffers[1].data;

	switch (array->type->id) {
	case WEIR_INT8:
		return ((const int8_t *)data)[row];
	case WEIR_INT16:
		return ((const int16_t *)data)[row];
	case WEIR_INT32:
		return ((const int32_t *)data)[row];
	case WEIR_INT64:
		return (double)((const int64_t *)data)[row];
	case WEIR_UINT8:
		return data[row];
	case WEIR_UINT16:
		return ((const uint16_t *)data)[row];
	case WEIR_UINT32:
		return ((const uint32_t *)data)[row];
	default:
		return (double)((const uint64_t *)data)[row];
	}
}

/* What stands for null in the memory of a float or a time of `width` bytes. */
static void null_pattern(enum weir_type_id id, uint8_t out[8])
{
	static const uint16_t half = 0x7e00;
	static const float single = NAN;
	static const double full = NAN;
	static const int64_t time = INT64_MIN;

	memcpy(out,
	       id == WEIR_HALF     ? (const void *)&half
	       : id == WEIR_FLOAT  ? (const void *)&single
	       : id == WEIR_DOUBLE ? (const void *)&full
				   : (const void *)&time,
	       id == WEIR_HALF    ? 2
	       : id == WEIR_FLOAT ? 4
				  : 8);
}

static PyObject *null_column(struct pyext_values *v, int64_t count)
{
	Py_buffer view;
	PyObject *result = empty_new(v, count, v->numpy.dtypes[WEIR_FLOAT], 0, &view);

	if (!result)
		return NULL;
	for (int64_t i = 0; i < count; i++)
		((float *)view.buf)[i] = NAN;
	PyBuffer_Release(&view);
	return result;
}

static PyObject *integers_with_nulls(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first = array->offset + at;
	Py_buffer view;
	PyObject *result = empty_new(v, count, v->numpy.dtypes[WEIR_DOUBLE], 0, &view);

	if (!result)
		return NULL;
	for (int64_t i = 0; i < count; i++)
		((double *)view.buf)[i] = weir_bit_get(validity, first + i) ? number_at(array, first + i) : NAN;
	PyBuffer_Release(&view);
	return result;
}

static PyObject *bools(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count)
{
	int64_t first = array->offset + at;
	Py_buffer view;
	PyObject *result = empty_new(v, count, v->numpy.dtypes[WEIR_BOOL], 0, &view);

	if (!result)
		return NULL;
	for (int64_t i = 0; i < count; i++)
		((uint8_t *)view.buf)[i] = weir_bit_get(array->buffers[1].data, first + i);
	PyBuffer_Release(&view);
	return result;
}

/* Fixed values of 2, 4 or 8 bytes, those of null rows replaced by what stands for null. date32 widens to 64 bits. */
static PyObject *fixed_copy(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
			    PyObject *dtype)
{
	const uint8_t *validity = array->buffers[0].data, *data = array->buffers[1].data;
	bool days = array->type->id == WEIR_DATE32;
	uint32_t width = days ? 8 : array->type->byte_width;
	int64_t first = array->offset + at;
	uint8_t null[8];
	Py_buffer view;
	PyObject *raw = empty_new(v, count * width, v->numpy.dtypes[WEIR_UINT8], 0, &view), *result;

	if (!raw)
		return NULL;
	null_pattern(array->type->id, null);
	if (days)
		for (int64_t i = 0; i < count; i++)
			((int64_t *)view.buf)[i] = ((const int32_t *)data)[first + i];
	else if (count)
		memcpy(view.buf, data + first * width, (size_t)(count * width));
	for (int64_t i = 0; validity && i < count; i++)
		if (!weir_bit_get(validity, first + i))
			memcpy((uint8_t *)view.buf + i * width, null, width);
	PyBuffer_Release(&view);
	result = PyObject_CallMethodObjArgs(raw, v->names.view, dtype, NULL);
	Py_DECREF(raw);
	return result;
}

static PyObject *fixed(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count,
		       PyObject *dtype)
{
	uint32_t width = array->type->byte_width;

	if (array->type->id == WEIR_DATE32 || has_nulls(array, at, count))
		return fixed_copy(request->v, array, at, count, dtype);
	return view_new(request, array, array->buffers[1].data + (array->offset + at) * width, count, width, dtype);
}

/* ---- objects ---- */

static PyObject *objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count)
{
	enum { PIECE = 512 };
	PyObject *made[PIECE], **shared = NULL;
	Py_buffer view;
	PyObject *result;

	if (dictionary_shares(array, count)) {
		shared = dictionary_made(v, array);
		if (!shared)
			return NULL;
	}
	result = numpy_objects_new(v, count, &view);
	if (!result)
		goto out;
	for (int64_t done = 0; done < count; done += PIECE) {
		int64_t piece = count - done < PIECE ? count - done : PIECE;

		if (shared) {
			dictionary_pick(array, at + done, piece, shared, made);
		} else if (values_objects(v, array, at + done, piece, made)) {
			Py_CLEAR(result);
			break;
		}
		for (int64_t i = 0; i < piece; i++)
			put(view.buf, done + i, made[i]);
	}
	PyBuffer_Release(&view);
out:
	if (shared)
		objects_release(shared, array->dictionary->length);
	PyMem_Free(shared);
	return result;
}

static int64_t list_offset(const struct weir_array *array, int64_t row)
{
	const uint8_t *data = array->buffers[1].data;

	return array->type->id == WEIR_LARGE_LIST ? ((const int64_t *)data)[row] : ((const int32_t *)data)[row];
}

static PyObject *lists(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first = array->offset + at, from = count ? list_offset(array, first) : 0;
	int64_t to = count ? list_offset(array, first + count) : 0;
	struct numpy_request inside = *request;
	PyObject *items, *result = NULL;
	Py_buffer view;

	if (inside.place == AT_TOP)
		inside.place = IN_LIST;
	items = numpy_array(&inside, array->children[0], from, to - from);
	if (items)
		result = numpy_objects_new(request->v, count, &view);
	if (!result)
		goto out;
	for (int64_t i = 0; i < count; i++) {
		PyObject *item = Py_None;

		if (validity && !weir_bit_get(validity, first + i))
			Py_INCREF(item);
		else
			item = PySequence_GetSlice(items, list_offset(array, first + i) - from,
						   list_offset(array, first + i + 1) - from);
		if (!item) {
			Py_CLEAR(result);
			break;
		}
		put(view.buf, i, item);
	}
	PyBuffer_Release(&view);
out:
	Py_XDECREF(items);
	return result;
}

/* (a, b, …) in front of the array's own sizes but its first. */
static PyObject *reshape(struct pyext_values *v, PyObject *array, int64_t rows, int64_t size)
{
	PyObject *shape = PyObject_GetAttr(array, v->names.shape), *front, *rest, *whole, *result = NULL;

	front = shape ? Py_BuildValue("(LL)", (long long)rows, (long long)size) : NULL;
	rest = front ? PySequence_GetSlice(shape, 1, PY_SSIZE_T_MAX) : NULL;
	whole = rest ? PySequence_Concat(front, rest) : NULL;
	if (whole)
		result = PyObject_CallMethodObjArgs(array, v->names.reshape, whole, NULL);
	Py_XDECREF(shape);
	Py_XDECREF(front);
	Py_XDECREF(rest);
	Py_XDECREF(whole);
	return result;
}

PyObject *numpy_spread(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
		       PyObject *rows)
{
	Py_buffer view;
	PyObject *result = numpy_objects_new(v, count, &view);

	if (!result)
		return NULL;
	for (int64_t i = 0; i < count; i++) {
		PyObject *item = Py_None;

		if (weir_array_is_valid(array, at + i))
			item = PySequence_GetItem(rows, i);
		else
			Py_INCREF(item);
		if (!item) {
			Py_CLEAR(result);
			break;
		}
		put(view.buf, i, item);
	}
	PyBuffer_Release(&view);
	return result;
}

static PyObject *fixed_lists(const struct numpy_request *request, const struct weir_array *array, int64_t at,
			     int64_t count)
{
	int64_t size = array->type->list_size;
	PyObject *items, *rows, *result;

	items = numpy_array(request, array->children[0], (array->offset + at) * size, count * size);
	if (!items)
		return NULL;
	rows = reshape(request->v, items, count, size);
	Py_DECREF(items);
	if (!rows || !has_nulls(array, at, count))
		return rows;
	result = numpy_spread(request->v, array, at, count, rows);
	Py_DECREF(rows);
	return result;
}

static int put_fields(const struct numpy_request *request, const struct weir_array *child, int64_t at, int64_t count,
		      PyObject *key, void **dicts)
{
	PyObject *column = numpy_array(request, child, at, count);
	int failed = column ? 0 : -1;

	for (int64_t i = 0; !failed && i < count; i++) {
		PyObject *item;

		if (dicts[i] == Py_None)
			continue;
		item = PySequence_GetItem(column, i);
		failed = !item || PyDict_SetItem(dicts[i], key, item) ? -1 : 0;
		Py_XDECREF(item);
	}
	Py_XDECREF(column);
	return failed;
}

static PyObject *structs(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count)
{
	struct pyext_values *v = request->v;
	PyObject *result = objects(v, array, at, count);
	struct numpy_request inside = *request;
	Py_buffer view;
	int failed = 0;

	inside.place = IN_DICT;

	if (!result || PyObject_GetBuffer(result, &view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_ND)) {
		Py_XDECREF(result);
		return NULL;
	}
	for (uint32_t c = 0; !failed && c < array->child_count; c++) {
		const struct weir_array *child = array->children[c];
		enum weir_type_id id = child->type->id;
		PyObject *key;

		if (id != WEIR_LIST_TYPE && id != WEIR_LARGE_LIST && id != WEIR_FIXED_LIST && id != WEIR_STRUCT)
			continue;
		key = PyUnicode_InternFromString(array->type->fields[c].name);
		failed = !key || put_fields(&inside, child, array->offset + at, count, key, view.buf) ? -1 : 0;
		Py_XDECREF(key);
	}
	PyBuffer_Release(&view);
	if (failed)
		Py_CLEAR(result);
	return result;
}

static PyObject *decoded(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count)
{
	const struct weir_type *type = array->type->dictionary_value;
	struct numpy_request copied = *request;
	struct weir_array *part, *plain = NULL;
	struct weir_error err = {0};
	PyObject *result;

	if (type->layout == WEIR_LAYOUT_BYTES || weir_type_is_decimal(type))
		return objects(request->v, array, at, count);
	part = weir_array_slice(array, at, count, &err);
	if (part)
		plain = weir_array_promote(request->v->account, part, type, &err);
	/* What was made here goes at once, so nothing may point into it. */
	copied.writable = true;
	result = plain ? numpy_array(&copied, plain, 0, count) : values_raise(request->v, &err);
	weir_array_unref(part);
	weir_array_unref(plain);
	return result;
}

PyObject *numpy_array(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count)
{
	struct pyext_values *v = request->v;
	const struct weir_type *type = array->type;

	switch (type->id) {
	case WEIR_NULL:
		return request->place == AT_TOP ? null_column(v, count) : objects(v, array, at, count);
	case WEIR_BOOL:
		return has_nulls(array, at, count) ? objects(v, array, at, count) : bools(v, array, at, count);
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		if (has_nulls(array, at, count))
			return integers_with_nulls(v, array, at, count);
		return fixed(request, array, at, count, v->numpy.dtypes[type->id]);
	case WEIR_HALF:
	case WEIR_FLOAT:
	case WEIR_DOUBLE:
		return fixed(request, array, at, count, v->numpy.dtypes[type->id]);
	case WEIR_DATE32:
		return fixed(request, array, at, count, v->numpy.day_dtype);
	case WEIR_DATE64:
		return fixed(request, array, at, count, v->numpy.time_dtypes[WEIR_MILLI]);
	case WEIR_TIMESTAMP:
		if (request->place == IN_DICT && type->unit != WEIR_NANO)
			return objects(v, array, at, count);
		return fixed(request, array, at, count, v->numpy.time_dtypes[type->unit]);
	case WEIR_DURATION:
		return fixed(request, array, at, count, v->numpy.delta_dtypes[type->unit]);
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
		return lists(request, array, at, count);
	case WEIR_FIXED_LIST:
		return fixed_lists(request, array, at, count);
	case WEIR_STRUCT:
		return structs(request, array, at, count);
	case WEIR_DICTIONARY_TYPE:
		return decoded(request, array, at, count);
	default:
		return objects(v, array, at, count);
	}
}

/* Once more, for an error that says what it is about. */
static PyObject *rebuilt(PyObject *pickled, const char *column)
{
	PyObject *module, *object;

	PyErr_Clear();
	module = PyImport_ImportModule("weir._errors");
	object = module ? PyObject_CallMethod(module, "rebuilt_object", "Os", pickled, column) : NULL;
	Py_XDECREF(module);
	return object;
}

/* Every value is what its own function pickled, in this run: files lose the extension's name when they are read. */
static PyObject *unpickled(struct pyext_values *v, const char *column, const struct weir_array *array, int64_t at,
			   int64_t count)
{
	Py_buffer view;
	PyObject *result;
	void **slots;

	if (values_need_pickle(v))
		return NULL;
	result = objects(v, array, at, count);
	if (!result || PyObject_GetBuffer(result, &view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_ND)) {
		Py_XDECREF(result);
		return NULL;
	}
	slots = view.buf;
	for (int64_t i = 0; i < count; i++) {
		PyObject *object;

		if (slots[i] == Py_None)
			continue;
		object = PyObject_CallFunctionObjArgs(v->loads, slots[i], NULL);
		if (!object && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
			object = rebuilt(slots[i], column);
		if (!object) {
			Py_CLEAR(result);
			break;
		}
		put(slots, i, object);
	}
	PyBuffer_Release(&view);
	return result;
}

PyObject *numpy_column(const struct numpy_request *request, const struct weir_field *field,
		       const struct weir_array *array, int64_t at, int64_t count)
{
	struct weir_tensor_shape shape;

	if (field->metadata.count) {
		if (weir_tensor_fixed(field, &shape))
			return tensor_fixed_numpy(request, array, at, count, &shape);
		if (weir_tensor_ragged(field))
			return tensor_ragged_numpy(request, array, at, count);
		if (field_is_object(field))
			return unpickled(request->v, field->name, array, at, count);
	}
	return numpy_array(request, array, at, count);
}
