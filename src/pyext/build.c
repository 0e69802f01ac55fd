/* Python values as arrays. Columns of plain floats, ints, bools and strs are taken in one pass that expects nothing
 * else; when it meets something else, and for all other columns, the type is inferred first and a builder filled
 * then. */
#include "arrow/decimal.h"
#include "arrow/value.h"
#include "pyext/infer.h"

#include <stdio.h>

void column_out_release(struct column_out *column)
{
	weir_array_unref(column->array);
	weir_schema_unref(column->schema);
	*column = (struct column_out){0};
}

void column_extend(struct column_out *column, const char *extension)
{
	uint32_t count = 0;

	if (column->shape[0])
		column->entries[count++] = (struct weir_metadata_entry){WEIR_EXTENSION_METADATA, column->shape,
									(uint32_t)strlen(column->shape)};
	column->entries[count++] = (struct weir_metadata_entry){WEIR_EXTENSION_NAME, extension,
								(uint32_t)strlen(extension)};
	column->metadata = (struct weir_metadata){count, column->entries};
}

/* ---- one value into a builder ---- */

static int refuse(struct pyext_values *v, const struct weir_error *err)
{
	values_raise(v, err);
	return -1;
}

static int append_number(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct weir_error err = {0};
	PyObject *number = NULL;
	long long whole = 0;
	unsigned long long bare = 0;
	double real = 0;
	union {
		uint8_t b;
		int8_t i8;
		int16_t i16;
		int32_t i32;
		int64_t i64;
		uint64_t u64;
		uint16_t half;
		float f;
		double d;
	} out = {.i64 = 0};

	if (weir_type_is_float(builder->type)) {
		real = PyFloat_AsDouble(value);
		if (real == -1.0 && PyErr_Occurred())
			return -1;
	} else if (builder->type->id == WEIR_BOOL) {
		int truth = PyObject_IsTrue(value);

		if (truth < 0)
			return -1;
		out.b = (uint8_t)truth;
	} else {
		number = PyNumber_Index(value);
		if (!number)
			return -1;
		if (builder->type->id == WEIR_UINT64)
			bare = PyLong_AsUnsignedLongLong(number);
		else
			whole = PyLong_AsLongLong(number);
		Py_DECREF(number);
		if (PyErr_Occurred())
			return -1;
		out.i64 = whole; /* little endian: the narrow ones are its first bytes */
	}
	switch (builder->type->id) {
	case WEIR_UINT64:
		out.u64 = bare;
		break;
	case WEIR_HALF:
		out.half = weir_float_to_half((float)real);
		break;
	case WEIR_FLOAT:
		out.f = (float)real;
		break;
	case WEIR_DOUBLE:
		out.d = real;
		break;
	default:
		break;
	}
	return weir_builder_fixed(builder, &out, 1, &err) ? refuse(v, &err) : 0;
}

static int append_bytes(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct weir_error err = {0};
	Py_ssize_t size = 0;
	const char *bytes;
	Py_buffer view;
	int code;

	if (PyUnicode_Check(value)) {
		bytes = PyUnicode_AsUTF8AndSize(value, &size);
		if (!bytes)
			return -1;
		return weir_builder_bytes(builder, bytes, (size_t)size, &err) ? refuse(v, &err) : 0;
	}
	if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE))
		return -1;
	code = weir_builder_bytes(builder, view.buf, (size_t)view.len, &err);
	PyBuffer_Release(&view);
	return code ? refuse(v, &err) : 0;
}

static int append_time(struct pyext_values *v, struct weir_builder *builder, PyObject *value, uint32_t kind)
{
	static const uint32_t kinds[] = {[WEIR_DATE32] = KIND_DATE,
					 [WEIR_TIME64] = KIND_TIME,
					 [WEIR_TIMESTAMP] = KIND_DATETIME,
					 [WEIR_DURATION] = KIND_DELTA};
	struct weir_error err = {0};
	struct time_value time;
	int64_t number;
	int32_t days;

	if (kind == KIND_MOMENT || kind == KIND_SPAN)
		return append_numpy_time(v, builder, value);
	if (time_read(v, value, kinds[builder->type->id], &time))
		return -1;
	if (builder->type->id == WEIR_DATE32) {
		days = (int32_t)time.days;
		return weir_builder_fixed(builder, &days, 1, &err) ? refuse(v, &err) : 0;
	}
	if (!time_in_unit(&time, builder->type->unit, &number)) {
		PyErr_SetString(PyExc_OverflowError, "a time that does not fit 64 bits beside others of its column");
		return -1;
	}
	return weir_builder_fixed(builder, &number, 1, &err) ? refuse(v, &err) : 0;
}

static int append_decimal(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	const struct weir_type *type = builder->type;
	struct weir_error err = {0};
	struct decimal_value decimal;
	struct weir_int256 digits, scaled;
	uint8_t bytes[32];
	int known = decimal_read(v, value, &decimal);

	if (known < 0)
		return -1;
	/* The type was made for these values. */
	if (!known ||
	    !weir_decimal_parse(decimal.text, strlen(decimal.text), WEIR_DECIMAL256_PRECISION_MAX, 0, &digits) ||
	    !weir_decimal_rescale(&digits, (int32_t)-decimal.exponent, type->scale, false, &scaled) ||
	    !weir_int256_store(&scaled, bytes, type->byte_width)) {
		PyErr_Format(PyExc_ValueError, "%R does not fit a decimal of %d digits", value, type->precision);
		return -1;
	}
	return weir_builder_fixed(builder, bytes, 1, &err) ? refuse(v, &err) : 0;
}

/* Items of an array, each as the builder's type wants it. */
static int append_buffer(struct pyext_values *v, struct weir_builder *items, PyObject *array)
{
	struct weir_error err = {0};
	Py_buffer view;
	PyObject *list;
	int failed = 0;

	if (PyObject_GetBuffer(array, &view, PyBUF_FORMAT | PyBUF_STRIDES)) {
		PyErr_Clear();
		return append_numpy_times(v, items, array);
	}
	if (view.ndim == 1 && buffer_id(&view) == items->type->id && PyBuffer_IsContiguous(&view, 'C')) {
		failed = weir_builder_fixed(items, view.buf, view.shape[0], &err) ? refuse(v, &err) : 0;
		PyBuffer_Release(&view);
		return failed;
	}
	PyBuffer_Release(&view);
	list = PyObject_CallMethodObjArgs(array, v->names.tolist, NULL);
	if (!list)
		return -1;
	for (Py_ssize_t i = 0; !failed && i < PyList_Size(list); i++)
		failed = build_append(v, items, PyList_GetItem(list, i));
	Py_DECREF(list);
	return failed;
}

/* Plain ints or floats from a list, many at a time. Returns how many were taken before something else came, or −1. */
static Py_ssize_t append_plain_items(struct pyext_values *v, struct weir_builder *items, PyObject *list,
				     Py_ssize_t from)
{
	enum { PIECE = 128 };
	bool real = items->type->id == WEIR_DOUBLE;
	struct weir_error err = {0};
	Py_ssize_t count = PyList_Size(list), at = from;
	int overflow;
	union {
		int64_t whole;
		double real;
	} piece[PIECE];

	while (at < count) {
		int64_t filled = 0;

		for (; filled < PIECE && at < count; filled++, at++) {
			PyObject *item = PyList_GetItem(list, at);

			if (real && PyFloat_CheckExact(item))
				piece[filled].real = PyFloat_AsDouble(item);
			else if (!real && PyLong_CheckExact(item))
				piece[filled].whole = PyLong_AsLongLongAndOverflow(item, &overflow);
			else
				break;
		}
		if (filled && weir_builder_fixed(items, piece, filled, &err))
			return refuse(v, &err);
		if (filled < PIECE)
			break;
	}
	return at - from;
}

static int append_list(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct weir_error err = {0};
	PyObject *items;
	int failed = 0;

	if (v->numpy.ndarray && PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)v->numpy.ndarray)) {
		failed = append_buffer(v, &builder->children[0], value);
	} else {
		const struct weir_type *type = builder->type->fields[0].type;
		bool plain = PyList_CheckExact(value) && (type->id == WEIR_INT64 || type->id == WEIR_DOUBLE);

		items = PySequence_Fast(value, "a sequence is wanted");
		if (!items)
			return -1;
		for (Py_ssize_t i = 0; !failed && i < PySequence_Size(items); i++) {
			Py_ssize_t taken = plain ? append_plain_items(v, &builder->children[0], value, i) : 0;
			PyObject *item;

			i += taken > 0 ? taken : 0;
			if (taken < 0 || i >= PySequence_Size(items)) {
				failed = taken < 0 ? -1 : 0;
				break;
			}
			item = PySequence_GetItem(items, i);

			failed = item ? build_append(v, &builder->children[0], item) : -1;
			Py_XDECREF(item);
		}
		Py_DECREF(items);
	}
	if (failed)
		return -1;
	return weir_builder_list_end(builder, &err) ? refuse(v, &err) : 0;
}

static int append_struct(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct weir_error err = {0};

	for (uint32_t i = 0; i < builder->child_count; i++) {
		PyObject *key = PyUnicode_InternFromString(builder->type->fields[i].name);
		PyObject *item = key ? PyDict_GetItemWithError(value, key) : NULL;
		int failed = !item && PyErr_Occurred() ? -1 : 0;

		Py_XDECREF(key);
		if (!failed) {
			Py_XINCREF(item);
			failed = build_append(v, &builder->children[i], item);
			Py_XDECREF(item);
		}
		if (failed)
			return -1;
	}
	return weir_builder_struct_end(builder, &err) ? refuse(v, &err) : 0;
}

int build_append(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct weir_error err = {0};
	uint32_t kind = value_kind(v, value);

	if (kind == 0)
		return weir_builder_null(builder, 1, &err) ? refuse(v, &err) : 0;
	switch (builder->type->id) {
	case WEIR_STRING:
	case WEIR_LARGE_STRING:
	case WEIR_BINARY:
	case WEIR_LARGE_BINARY:
		return append_bytes(v, builder, value);
	case WEIR_DATE32:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		return append_time(v, builder, value, kind);
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		return append_decimal(v, builder, value);
	case WEIR_FIXED_BINARY:
		return append_uuid(v, builder, value);
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
		return append_list(v, builder, value);
	case WEIR_STRUCT:
		return append_struct(v, builder, value);
	default:
		return append_number(v, builder, value);
	}
}

/* ---- columns ---- */

int build_failed_at(const char *name, int64_t row, PyObject *value)
{
	PyObject *type, *error, *trace, *text, *kind;

	PyErr_Fetch(&type, &error, &trace);
	text = error ? PyObject_Str(error) : NULL;
	kind = value ? PyType_GetName(Py_TYPE(value)) : NULL;
	/* What cannot be made from one text stays as it is: an error of encoding has five arguments. */
	if (text && kind && type) {
		if (PyErr_GivenExceptionMatches(type, PyExc_UnicodeError))
			PyErr_Format(PyExc_ValueError,
				     "column '%s', row %lld: a str with a lone surrogate cannot be UTF-8 (%U)", name,
				     (long long)row, text);
		else if (PyErr_GivenExceptionMatches(type, PyExc_Exception))
			PyErr_Format(PyErr_GivenExceptionMatches(type, PyExc_OverflowError) ? PyExc_OverflowError
				     : PyErr_GivenExceptionMatches(type, PyExc_TypeError)   ? PyExc_TypeError
				     : PyErr_GivenExceptionMatches(type, PyExc_MemoryError) ? PyExc_MemoryError
											    : PyExc_ValueError,
				     "column '%s', row %lld, a value of type %U: %U", name, (long long)row, kind, text);
	}
	if (PyErr_Occurred()) {
		Py_XDECREF(type);
		Py_XDECREF(error);
		Py_XDECREF(trace);
	} else {
		PyErr_Restore(type, error, trace);
	}
	Py_XDECREF(text);
	Py_XDECREF(kind);
	return -1;
}

int column_of_objects(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		      struct column_out *out)
{
	struct weir_error err = {0};
	PyObject **pickled;
	struct weir_builder builder = {0};
	int64_t total = 0;
	int failed;

	if (values_need_pickle(v))
		return -1;
	pickled = PyMem_Calloc((size_t)(count ? count : 1), sizeof(*pickled));
	failed = pickled ? 0 : (PyErr_NoMemory(), -1);
	for (int64_t i = 0; !failed && i < count; i++) {
		if (!values[i] || values[i] == Py_None)
			continue;
		pickled[i] = PyObject_CallFunctionObjArgs(v->dumps, values[i], NULL);
		if (!pickled[i])
			failed = build_failed_at(name, i, values[i]);
		else
			total += PyBytes_Size(pickled[i]);
	}
	if (!failed && weir_builder_init(&builder, weir_type_of(total > INT32_MAX ? WEIR_LARGE_BINARY : WEIR_BINARY),
					 v->account, &err))
		failed = refuse(v, &err);
	for (int64_t i = 0; !failed && i < count; i++)
		failed = build_append(v, &builder, pickled[i]);
	if (!failed) {
		out->array = weir_builder_finish(&builder, &err);
		failed = out->array ? 0 : refuse(v, &err);
		column_extend(out, OBJECT_NAME);
	}
	weir_builder_release(&builder);
	for (int64_t i = 0; pickled && i < count; i++)
		Py_XDECREF(pickled[i]);
	PyMem_Free(pickled);
	return failed;
}

static int column_of_type(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
			  const struct weir_type *type, struct column_out *out)
{
	struct weir_error err = {0};
	struct weir_builder builder = {0};
	int failed = weir_builder_init(&builder, type, v->account, &err) ? refuse(v, &err) : 0;

	for (int64_t i = 0; !failed && i < count; i++)
		if (build_append(v, &builder, values[i]))
			failed = build_failed_at(name, i, values[i]);
	if (!failed) {
		out->array = weir_builder_finish(&builder, &err);
		failed = out->array ? 0 : refuse(v, &err);
	}
	weir_builder_release(&builder);
	return failed;
}

/* The kinds at the top that are not inferred by nodes. */
static uint32_t top_kinds(struct pyext_values *v, PyObject *const *values, int64_t count)
{
	uint32_t kinds = 0;

	for (int64_t i = 0; i < count; i++) {
		uint32_t kind = value_kind(v, values[i]);

		kinds |= kind;
		/* Nothing special comes after a plain value without making it a column of objects, but lists and
		 * arrays. */
		if (kind && !(kind & (KIND_TENSOR | KIND_LIST)))
			break;
	}
	return kinds;
}

static int infer_column(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
			struct column_out *out)
{
	struct infer node = {0};
	const struct weir_type *type = NULL;
	enum infer_answer answer = INFER_FITS;
	int failed = 0;

	for (int64_t i = 0; !answer && i < count; i++) {
		answer = infer_visit(v, &node, values[i], 0);
		if (answer == INFER_FAILED)
			failed = build_failed_at(name, i, values[i]);
	}
	if (!answer) {
		type = infer_type(v, &node);
		failed = !type && PyErr_Occurred() ? -1 : 0;
	}
	if (type && node.kinds == KIND_UUID)
		column_extend(out, UUID_NAME);
	infer_release(&node);
	if (!failed)
		failed = type ? column_of_type(v, name, values, count, type, out)
			      : column_of_objects(v, name, values, count, out);
	weir_type_unref(type);
	return failed;
}

int column_from_values(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		       struct column_out *out)
{
	int answer = column_plain(v, name, values, count, out);
	uint32_t kinds;

	if (answer <= 0)
		return answer;
	kinds = top_kinds(v, values, count);
	if (kinds == KIND_TENSOR) {
		answer = column_of_tensors(v, name, values, count, out);
		if (answer <= 0)
			return answer;
		return column_of_objects(v, name, values, count, out);
	}
	if (kinds == KIND_OTHER) {
		answer = column_of_arrow_scalars(v, name, values, count, out);
		if (answer <= 0)
			return answer;
	}
	return infer_column(v, name, values, count, out);
}
