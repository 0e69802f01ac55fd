/* Columns whose values are arrays: of one shape they are stacked into a fixed tensor, of several with the same number
 * of dimensions they become a ragged one, laid end to end:
 *
 *     struct │ data: list<T> │ offsets 0, 4, 10 … │ values of row 0 │ row 1 │ …
 *            │ shape: fixed_size_list<int32>[dims] │ 2, 2 │ 3, 2 │ …
 *
 * None is a null row. Arrays without dimensions are the scalars that they hold. */
#include "pyext/infer.h"

struct gather {
	struct pyext_values *v;
	PyObject *const *values;
	int64_t count;
	/* What the arrays have in common. */
	int64_t first_sizes[WEIR_TENSOR_DIMS_MAX];
	int64_t dims; /* −1: none seen */
	int64_t nulls, total;
	bool same_shape;
	PyObject *dtype; /* of the array before: borrowed, only compared */
};

static int refuse(struct pyext_values *v, const struct weir_error *err)
{
	values_raise(v, err);
	return -1;
}

static bool is_null(PyObject *value)
{
	return !value || value == Py_None;
}

/* 0, 1: not of a dtype that tensors have, −1. */
static int check_dtype(struct gather *g, PyObject *array)
{
	struct pyext_values *v = g->v;
	PyObject *dtype = PyObject_GetAttr(array, v->names.dtype), *text = NULL;
	struct numpy_time time;
	const char *chars;
	int answer = -1;

	/* Those of plain numbers exist once, and live on. */
	if (dtype && dtype == g->dtype && (PyObject *)Py_TYPE(array) == v->numpy.ndarray) {
		Py_DECREF(dtype);
		return 0;
	}
	if (dtype)
		text = PyObject_GetAttr(dtype, v->names.str); /* "<f4" */
	chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (chars)
		answer = !*chars || !strchr("biufMm", chars[1]) || strlen(chars) < 3 || !strcmp(chars + 1, "f16") ||
					 !strcmp(chars + 1, "f12") ||
					 (strchr("Mm", chars[1]) && !numpy_time_read(chars, &time)) ||
					 PyObject_HasAttrString(array, "mask")
				 ? 1
				 : 0;
	g->dtype = NULL;
	for (int id = WEIR_BOOL; !answer && id <= WEIR_DOUBLE; id++)
		if (dtype == v->numpy.dtypes[id])
			g->dtype = dtype;
	Py_XDECREF(text);
	Py_XDECREF(dtype);
	return answer;
}

static int look(struct gather *g, PyObject *array)
{
	PyObject *shape;
	int64_t size = 1;
	Py_ssize_t dims;
	int answer = check_dtype(g, array);

	if (answer)
		return answer;
	shape = PyObject_GetAttr(array, g->v->names.shape);
	if (!shape)
		return -1;
	dims = PyTuple_Size(shape);
	if (dims > WEIR_TENSOR_DIMS_MAX || (g->dims >= 0 && dims != g->dims))
		answer = 1;
	for (Py_ssize_t i = 0; !answer && i < dims; i++) {
		int64_t part = PyLong_AsLongLong(PyTuple_GetItem(shape, i));

		size *= part;
		if (part > INT32_MAX)
			answer = 1;
		if (g->dims < 0)
			g->first_sizes[i] = part;
		else if (part != g->first_sizes[i])
			g->same_shape = false;
	}
	if (g->dims < 0)
		g->dims = dims;
	g->total += size;
	Py_DECREF(shape);
	return answer;
}

/* The values as a list, with `instead` (may be NULL: left out) for nulls. */
static PyObject *list_of(const struct gather *g, PyObject *instead)
{
	PyObject *list = PyList_New(0);

	for (int64_t i = 0; list && i < g->count; i++) {
		PyObject *value = is_null(g->values[i]) ? instead : g->values[i];

		if (value && PyList_Append(list, value))
			Py_CLEAR(list);
	}
	return list;
}

static int add_validity(const struct gather *g, struct weir_array *array)
{
	struct weir_error err = {0};
	uint8_t *bits;

	if (!g->nulls)
		return 0;
	if (weir_buffer_new(g->v->account, weir_bits_size(g->count), &array->buffers[0], &bits, &err))
		return refuse(g->v, &err);
	memset(bits, 0, weir_bits_size(g->count));
	for (int64_t i = 0; i < g->count; i++)
		if (!is_null(g->values[i]))
			weir_bit_set(bits, i);
	array->null_count = g->nulls;
	return 0;
}

static int scalars(const struct gather *g, const char *name, struct column_out *out)
{
	PyObject *list = list_of(g, Py_None), *nothing = PyTuple_New(0);
	int failed = list && nothing ? 0 : -1;

	for (int64_t i = 0; !failed && i < g->count; i++) {
		PyObject *item;

		if (is_null(g->values[i]))
			continue;
		item = PyObject_GetItem(g->values[i], nothing);
		failed = !item || PyList_SetItem(list, i, item) ? -1 : 0;
	}
	if (!failed)
		failed = column_from_list(g->v, name, list, out);
	Py_XDECREF(list);
	Py_XDECREF(nothing);
	return failed;
}

/* As list_of, of ndarrays alone: those of derived classes (matrix) change their shape as they like. */
static PyObject *arrays_of(const struct gather *g, PyObject *instead)
{
	PyObject *list = list_of(g, instead);

	for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
		PyObject *array = PyList_GetItem(list, i);

		if ((PyObject *)Py_TYPE(array) == g->v->numpy.ndarray)
			continue;
		array = PyObject_CallFunctionObjArgs(g->v->numpy.asarray, array, NULL);
		if (!array || PyList_SetItem(list, i, array))
			Py_CLEAR(list);
	}
	return list;
}

static int fixed(const struct gather *g, const char *name, struct column_out *out)
{
	PyObject *first = NULL, *list, *stacked;
	int failed = -1;

	for (int64_t i = 0; is_null(first); i++)
		first = g->values[i];
	list = arrays_of(g, first);
	stacked = list ? PyObject_CallFunctionObjArgs(g->v->numpy.stack, list, NULL) : NULL;
	Py_XDECREF(list);
	if (stacked && !column_from_ndarray(g->v, name, stacked, out))
		failed = add_validity(g, out->array);
	Py_XDECREF(stacked);
	return failed;
}

/* All values end to end, as an array of one type. */
static struct weir_array *laid_out(const struct gather *g, const char *name)
{
	PyObject *list = arrays_of(g, NULL), *flat = list ? PyList_New(0) : NULL, *joined = NULL;
	struct column_out column = {0};
	struct weir_array *array = NULL;

	for (Py_ssize_t i = 0; flat && i < PyList_Size(list); i++) {
		PyObject *line = PyObject_CallMethod(PyList_GetItem(list, i), "ravel", NULL);

		if (!line || PyList_Append(flat, line))
			Py_CLEAR(flat);
		Py_XDECREF(line);
	}
	if (flat)
		joined = PyObject_CallFunctionObjArgs(g->v->numpy.concatenate, flat, NULL);
	if (joined && !column_from_ndarray(g->v, name, joined, &column)) {
		if (column.metadata.count)
			PyErr_Format(PyExc_ValueError,
				     "column '%s': arrays of several shapes with values that no type holds", name);
		else
			array = column.array;
		if (array)
			column.array = NULL;
	}
	column_out_release(&column);
	Py_XDECREF(joined);
	Py_XDECREF(flat);
	Py_XDECREF(list);
	return array;
}

/* Offsets of the data and the sizes, row by row. */
static int fill_shapes(const struct gather *g, bool large, uint8_t *offsets, int32_t *sizes)
{
	int64_t end = 0;

	for (int64_t i = 0; i <= g->count; i++) {
		PyObject *shape;
		int64_t size = 1;

		if (large)
			((int64_t *)offsets)[i] = end;
		else
			((int32_t *)offsets)[i] = (int32_t)end;
		if (i == g->count)
			break;
		if (is_null(g->values[i])) {
			memset(sizes + i * g->dims, 0, (size_t)g->dims * sizeof(*sizes));
			continue;
		}
		shape = PyObject_GetAttr(g->values[i], g->v->names.shape);
		if (!shape)
			return -1;
		for (int64_t d = 0; d < g->dims; d++) {
			sizes[i * g->dims + d] = (int32_t)PyLong_AsLongLong(PyTuple_GetItem(shape, d));
			size *= sizes[i * g->dims + d];
		}
		Py_DECREF(shape);
		end += size;
	}
	return 0;
}

static struct weir_array *wrap(struct pyext_values *v, const struct weir_type *type, int64_t length,
			       struct weir_buffer *offsets, struct weir_array *const *children, struct weir_error *err)
{
	struct weir_array *array = type ? weir_array_new(v->account, type, err) : NULL;

	if (!array)
		return NULL;
	array->length = length;
	if (offsets)
		array->buffers[1] = weir_buffer_ref(offsets);
	for (uint32_t i = 0; i < array->child_count; i++)
		array->children[i] = weir_array_ref(children[i]);
	return array;
}

static int ragged(const struct gather *g, const char *name, struct column_out *out)
{
	struct pyext_values *v = g->v;
	struct weir_account *account = v->account;
	bool large = g->total > INT32_MAX;
	struct weir_error err = {0};
	struct weir_array *parts[2] = {0}, *items[2] = {laid_out(g, name), NULL};
	struct weir_buffer offsets = {0}, sizes = {0};
	const struct weir_type *data_type = NULL, *shape_type = NULL, *type = NULL;
	struct weir_field item = {.name = "item", .nullable = true};
	struct weir_field number = {.name = "item", .type = weir_type_of(WEIR_INT32), .nullable = true};
	struct weir_field fields[2] = {{.name = "data", .nullable = true}, {.name = "shape", .nullable = true}};
	uint8_t *offset_bytes, *size_bytes;
	int failed = -1;

	if (!items[0])
		return -1;
	if (weir_buffer_new(account, ((uint64_t)g->count + 1) * (large ? 8 : 4), &offsets, &offset_bytes, &err) ||
	    weir_buffer_new(account, (uint64_t)(g->count * g->dims) * 4, &sizes, &size_bytes, &err))
		goto out;
	if (fill_shapes(g, large, offset_bytes, (int32_t *)size_bytes))
		goto out;
	item.type = items[0]->type;
	fields[0].type = data_type = weir_type_list(account, large ? WEIR_LARGE_LIST : WEIR_LIST_TYPE, &item, 0, false,
						    &err);
	fields[1].type = shape_type = weir_type_list(account, WEIR_FIXED_LIST, &number, (int32_t)g->dims, false, &err);
	type = data_type && shape_type ? weir_type_struct(account, fields, 2, &err) : NULL;
	items[1] = type ? wrap(v, number.type, g->count * g->dims, &sizes, NULL, &err) : NULL;
	parts[0] = items[1] ? wrap(v, data_type, g->count, &offsets, &items[0], &err) : NULL;
	parts[1] = parts[0] ? wrap(v, shape_type, g->count, NULL, &items[1], &err) : NULL;
	out->array = parts[1] ? wrap(v, type, g->count, NULL, parts, &err) : NULL;
	if (out->array) {
		memcpy(out->shape, WEIR_RAGGED_METADATA, sizeof(WEIR_RAGGED_METADATA));
		column_extend(out, WEIR_RAGGED_TENSOR);
		failed = add_validity(g, out->array);
	}
out:
	if (err.code)
		refuse(v, &err);
	for (int i = 0; i < 2; i++) {
		weir_array_unref(parts[i]);
		weir_array_unref(items[i]);
	}
	weir_type_unref(data_type);
	weir_type_unref(shape_type);
	weir_type_unref(type);
	weir_buffer_release(&offsets);
	weir_buffer_release(&sizes);
	return failed;
}

int column_of_tensors(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		      struct column_out *out)
{
	struct gather g = {.v = v, .values = values, .count = count, .dims = -1, .same_shape = true};
	int answer;

	for (int64_t i = 0; i < count; i++) {
		if (is_null(values[i])) {
			g.nulls++;
			continue;
		}
		answer = look(&g, values[i]);
		if (answer)
			return answer;
	}
	if (g.dims == 0)
		return scalars(&g, name, out);
	return g.same_shape ? fixed(&g, name, out) : ragged(&g, name, out);
}
