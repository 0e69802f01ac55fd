/* Tensors: arrow.fixed_shape_tensor over fixed_size_list<T>[n], and arrow.variable_shape_tensor over
 * struct<data: list<T>, shape: fixed_size_list<int32>[dimensions]>; and as Ray Data has them in files: ray.data.arrow_tensor and
 * _v2 over list<T> and large_list<T>, the shape in the metadata as [2, 3], and ray.data.arrow_variable_shaped_tensor over
 * struct<data: large_list<T>, shape: list<int64>>. All are known by their field's metadata; storage that does not fit it is
 * shown as what it is. */
#include "pyext/values_impl.h"

#include <jansson.h>

bool field_has_extension(const struct weir_field *field, const char *name)
{
	uint32_t size = 0;
	const char *value = weir_metadata_get(&field->metadata, EXTENSION_NAME, &size);

	return value && size == strlen(name) && memcmp(value, name, size) == 0;
}

bool field_is_object(const struct weir_field *field)
{
	return field_has_extension(field, OBJECT_NAME) &&
	       (field->type->id == WEIR_BINARY || field->type->id == WEIR_LARGE_BINARY);
}

static bool read_shape(const json_t *shape, struct tensor_shape *out)
{
	size_t count = json_array_size(shape);

	if (!json_is_array(shape) || count > TENSOR_DIMS_MAX)
		return false;
	out->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		const json_t *size = json_array_get(shape, i);

		if (!json_is_integer(size) || json_integer_value(size) < 0)
			return false;
		out->sizes[i] = json_integer_value(size);
	}
	return true;
}

/* order[i]: which of the sizes comes i-th for the user. */
static bool read_order(const json_t *order, struct tensor_shape *out)
{
	uint64_t seen = 0;

	out->permuted = order && !json_is_null(order);
	if (!out->permuted)
		return true;
	if (!json_is_array(order) || json_array_size(order) != out->count)
		return false;
	for (uint32_t i = 0; i < out->count; i++) {
		json_int_t at = json_integer_value(json_array_get(order, i));

		if (at < 0 || at >= out->count || seen >> at & 1)
			return false;
		seen |= UINT64_C(1) << at;
		out->order[i] = (uint32_t)at;
	}
	return true;
}

static bool has_list_of_tensor(const struct weir_field *field)
{
	return (field->type->id == WEIR_LIST_TYPE && field_has_extension(field, LIST_TENSOR_NAME)) ||
	       (field->type->id == WEIR_LARGE_LIST && field_has_extension(field, LARGE_LIST_TENSOR_NAME));
}

bool tensor_fixed(const struct weir_field *field, struct tensor_shape *out)
{
	uint32_t size = 0;
	const char *text;
	json_t *metadata;
	int64_t product = 1;
	bool known, in_lists = has_list_of_tensor(field);

	if (!in_lists && (field->type->id != WEIR_FIXED_LIST || !field_has_extension(field, FIXED_TENSOR_NAME)))
		return false;
	text = weir_metadata_get(&field->metadata, EXTENSION_METADATA, &size);
	metadata = text ? json_loadb(text, size, 0, NULL) : NULL;
	if (in_lists) {
		out->permuted = false;
		known = metadata && read_shape(metadata, out);
	} else {
		known = metadata && read_shape(json_object_get(metadata, "shape"), out) &&
			read_order(json_object_get(metadata, "permutation"), out);
	}
	json_decref(metadata);
	for (uint32_t i = 0; known && i < out->count; i++)
		known = !__builtin_mul_overflow(product, out->sizes[i], &product);
	return known && (in_lists || product == field->type->list_size);
}

bool tensor_ragged(const struct weir_field *field)
{
	const struct weir_type *type = field->type;
	uint32_t size = 0;
	const char *text;
	json_t *metadata;
	bool plain = true, in_lists = field_has_extension(field, LIST_RAGGED_NAME);

	if (type->id != WEIR_STRUCT || (!in_lists && !field_has_extension(field, RAGGED_TENSOR_NAME)) || type->field_count != 2 ||
	    strcmp(type->fields[0].name, "data") != 0 || strcmp(type->fields[1].name, "shape") != 0)
		return false;
	type = field->type->fields[1].type;
	if (field->type->fields[0].type->id != WEIR_LIST_TYPE && field->type->fields[0].type->id != WEIR_LARGE_LIST)
		return false;
	if (in_lists)
		return type->id == WEIR_LIST_TYPE && type->fields[0].type->id == WEIR_INT64;
	if (type->id != WEIR_FIXED_LIST || type->fields[0].type->id != WEIR_INT32 || type->list_size > TENSOR_DIMS_MAX)
		return false;
	text = weir_metadata_get(&field->metadata, EXTENSION_METADATA, &size);
	metadata = text && size ? json_loadb(text, size, 0, NULL) : NULL;
	if (metadata)
		plain = !json_object_get(metadata, "permutation");
	json_decref(metadata);
	return plain;
}

static PyObject *shape_tuple(int64_t rows, const struct tensor_shape *shape)
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

static PyObject *permuted(struct pyext_values *v, PyObject *array, const struct tensor_shape *shape)
{
	struct tensor_shape order = {.count = shape->count + 1};
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
static bool lists_fit(const struct weir_array *array, int64_t at, int64_t count, const struct tensor_shape *shape,
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
			     int64_t count, const struct tensor_shape *shape)
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
		struct tensor_shape shape = {.count = (uint32_t)size};
		PyObject *row = NULL, *tuple = NULL, *item = NULL, **slot = (PyObject **)view.buf + i, *old = *slot;

		if (!weir_array_is_valid(array, at + i)) {
			Py_INCREF(Py_None);
			item = Py_None;
		} else {
			int64_t place = in_lists ? list_offset(shapes, first + i) : (shapes->offset + first + i) * size;

			if (in_lists) {
				int64_t dims = list_offset(shapes, first + i + 1) - place;

				shape.count = dims < 0 || dims > TENSOR_DIMS_MAX ? 0 : (uint32_t)dims;
			}
			for (uint32_t d = 0; d < shape.count; d++)
				shape.sizes[d] = in_lists ? ((const int64_t *)sizes->buffers[1].data)[sizes->offset + place + d]
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
