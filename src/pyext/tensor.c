/* Tensors (arrow/tensor.h) as NumPy has them; storage that does not fit its metadata is shown as what it is. */
#include "pyext/values_impl.h"

bool field_is_object(const struct weir_field *field)
{
	return weir_field_has_extension(field, OBJECT_NAME) &&
	       (field->type->id == WEIR_BINARY || field->type->id == WEIR_LARGE_BINARY);
}

static PyObject *shape_tuple(int64_t rows, const struct weir_tensor_shape *shape)
{
	uint32_t front = rows >= 0;
	PyObject *tuple = PyTuple_New(shape->count + front);

	for (uint32_t i = 0; tuple && i < shape->count + front; i++) {
		PyObject *size = PyLong_FromLongLong(i < front ? rows : shape->sizes[i - front]);

		if (!size)
			Py_CLEAR(tuple);
		else
			PyTuple_SetItem(tuple, i, size);
	}
	return tuple;
}

static PyObject *permuted(struct pyext_values *v, PyObject *array, const struct weir_tensor_shape *shape)
{
	struct weir_tensor_shape order = {.count = shape->count + 1};
	PyObject *tuple, *result;

	for (uint32_t i = 0; i < shape->count; i++)
		order.sizes[i + 1] = shape->order[i] + 1;
	tuple = shape_tuple(-1, &order);
	result = tuple ? PyObject_CallMethodObjArgs(array, v->names.transpose, tuple, NULL) : NULL;
	Py_XDECREF(tuple);
	return result;
}

static int64_t list_offset(const struct weir_array *array, int64_t row)
{
	const void *offsets = array->buffers[1].data;

	row += array->offset;
	return array->type->id == WEIR_LARGE_LIST ? ((const int64_t *)offsets)[row] : ((const int32_t *)offsets)[row];
}

/* Whether each row's list has as many items as the shape says; *first: the child's row where they begin. */
static bool lists_fit(const struct weir_array *array, int64_t at, int64_t count, const struct weir_tensor_shape *shape,
		      int64_t *first, int64_t *size)
{
	*size = 1;
	for (uint32_t i = 0; i < shape->count; i++)
		*size *= shape->sizes[i];
	*first = count ? list_offset(array, at) : 0;
	for (int64_t i = 0; i < count; i++)
		if (list_offset(array, at + i + 1) - list_offset(array, at + i) != *size)
			return false;
	return true;
}

PyObject *tensor_fixed_numpy(const struct numpy_request *request, const struct weir_array *array, int64_t at,
			     int64_t count, const struct weir_tensor_shape *shape)
{
	struct pyext_values *v = request->v;
	int64_t size = array->type->list_size, first = (array->offset + at) * size;
	PyObject *items, *tuple, *result = NULL, *other;

	if (array->type->id != WEIR_FIXED_LIST && !lists_fit(array, at, count, shape, &first, &size))
		return numpy_array(request, array, at, count);
	items = numpy_array(request, array->children[0], first, count * size);
	tuple = items ? shape_tuple(count, shape) : NULL;
	if (tuple)
		result = PyObject_CallMethodObjArgs(items, v->names.reshape, tuple, NULL);
	Py_XDECREF(items);
	Py_XDECREF(tuple);
	if (result && shape->permuted) {
		other = permuted(v, result, shape);
		Py_DECREF(result);
		result = other;
	}
	if (result && array->buffers[0].data &&
	    weir_bits_count(array->buffers[0].data, array->offset + at, count) != count) {
		other = numpy_spread(v, array, at, count, result);
		Py_DECREF(result);
		result = other;
	}
	return result;
}

PyObject *tensor_ragged_numpy(const struct numpy_request *request, const struct weir_array *array, int64_t at,
			      int64_t count)
{
	struct pyext_values *v = request->v;
	const struct weir_array *shapes = array->children[1], *sizes = shapes->children[0];
	bool in_lists = shapes->type->id != WEIR_FIXED_LIST;
	int64_t first = array->offset + at, size = in_lists ? 0 : shapes->type->list_size;
	PyObject *rows = numpy_array(request, array->children[0], first, count), *result = NULL;
	Py_buffer view;

	if (rows)
		result = numpy_objects_new(v, count, &view);
	if (!result) {
		Py_XDECREF(rows);
		return NULL;
	}
	for (int64_t i = 0; result && i < count; i++) {
		struct weir_tensor_shape shape = {.count = (uint32_t)size};
		PyObject *row = NULL, *tuple = NULL, *item = NULL, **slot = (PyObject **)view.buf + i, *old = *slot;

		if (!weir_array_is_valid(array, at + i)) {
			Py_INCREF(Py_None);
			item = Py_None;
		} else {
			int64_t place = in_lists ? list_offset(shapes, first + i) : (shapes->offset + first + i) * size;

			if (in_lists) {
				int64_t dims = list_offset(shapes, first + i + 1) - place;

				shape.count = dims < 0 || dims > WEIR_TENSOR_DIMS_MAX ? 0 : (uint32_t)dims;
			}
			for (uint32_t d = 0; d < shape.count; d++)
				shape.sizes[d] =
					in_lists ? ((const int64_t *)sizes->buffers[1].data)[sizes->offset + place + d]
						 : ((const int32_t *)sizes->buffers[1].data)[sizes->offset + place + d];
			row = PySequence_GetItem(rows, i);
			tuple = row ? shape_tuple(-1, &shape) : NULL;
			if (tuple)
				item = PyObject_CallMethodObjArgs(row, v->names.reshape, tuple, NULL);
		}
		Py_XDECREF(row);
		Py_XDECREF(tuple);
		if (!item) {
			Py_CLEAR(result);
			break;
		}
		*slot = item;
		Py_XDECREF(old);
	}
	PyBuffer_Release(&view);
	Py_DECREF(rows);
	return result;
}
