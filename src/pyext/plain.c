/* Columns of plain floats, ints, bools, strs, bytes or datetimes with nulls between them: read once, straight into the
 * buffers. The first value that is anything else ends it, and the column is inferred as any other. */
#include "pyext/infer.h"

/* Memory of a column under construction; the bitmap is made at the first null. */
struct plain {
	struct pyext_values *v;
	int64_t count, null_count;
	struct weir_buffer validity, values;
	uint8_t *bits, *data;
	struct weir_error err;
};

static int refuse(struct plain *plain)
{
	values_raise(plain->v, &plain->err);
	return -1;
}

static int begin(struct plain *plain, uint64_t size)
{
	return weir_buffer_new(plain->v->account, size, &plain->values, &plain->data, &plain->err) ? refuse(plain) : 0;
}

static int set_null(struct plain *plain, int64_t row)
{
	if (!plain->bits) {
		if (weir_buffer_new(plain->v->account, weir_bits_size(plain->count), &plain->validity, &plain->bits,
				    &plain->err))
			return refuse(plain);
		memset(plain->bits, 0xff, weir_bits_size(plain->count));
	}
	weir_bit_clear(plain->bits, row);
	plain->null_count++;
	return 0;
}

static void plain_release(struct plain *plain)
{
	weir_buffer_release(&plain->validity);
	weir_buffer_release(&plain->values);
}

/* Takes the buffers over; `bytes` may be NULL. */
static int finish(struct plain *plain, enum weir_type_id id, struct weir_buffer *bytes, struct column_out *out)
{
	struct weir_array *array = weir_array_new(plain->v->account, weir_type_of(id), &plain->err);

	if (!array)
		return refuse(plain);
	array->length = plain->count;
	array->null_count = plain->null_count;
	array->buffers[0] = plain->validity;
	array->buffers[1] = plain->values;
	if (bytes) {
		array->buffers[2] = *bytes;
		*bytes = (struct weir_buffer){0};
	}
	plain->validity = plain->values = (struct weir_buffer){0};
	out->array = array;
	return 0;
}

/* NaN is a float and stays one. Ints among the floats are taken while a double holds them exactly. */
static int floats(struct plain *plain, PyObject *const *values, struct column_out *out)
{
	double *data;
	int overflow;

	if (begin(plain, (uint64_t)plain->count * sizeof(double)))
		return -1;
	data = (double *)plain->data;
	for (int64_t i = 0; i < plain->count; i++) {
		PyObject *value = values[i];

		if (value && PyFloat_CheckExact(value)) {
			data[i] = PyFloat_AsDouble(value);
		} else if (!value || value == Py_None) {
			data[i] = 0;
			if (set_null(plain, i))
				return -1;
		} else if (PyLong_CheckExact(value)) {
			long long number = PyLong_AsLongLongAndOverflow(value, &overflow);

			if (overflow || number > (1LL << 53) || number < -(1LL << 53))
				return 1;
			data[i] = (double)number;
		} else {
			return 1;
		}
	}
	return finish(plain, WEIR_DOUBLE, NULL, out);
}

static int ints(struct plain *plain, PyObject *const *values, struct column_out *out)
{
	int64_t *data;
	int overflow;

	if (begin(plain, (uint64_t)plain->count * sizeof(int64_t)))
		return -1;
	data = (int64_t *)plain->data;
	for (int64_t i = 0; i < plain->count; i++) {
		PyObject *value = values[i];

		if (value && PyLong_CheckExact(value)) {
			data[i] = PyLong_AsLongLongAndOverflow(value, &overflow);
			if (overflow)
				return 1;
		} else if (!value || value == Py_None) {
			data[i] = 0;
			if (set_null(plain, i))
				return -1;
		} else {
			return 1;
		}
	}
	return finish(plain, WEIR_INT64, NULL, out);
}

static int bools(struct plain *plain, PyObject *const *values, struct column_out *out)
{
	if (begin(plain, weir_bits_size(plain->count)))
		return -1;
	memset(plain->data, 0, weir_bits_size(plain->count));
	for (int64_t i = 0; i < plain->count; i++) {
		if (values[i] == Py_True) {
			weir_bit_set(plain->data, i);
		} else if (!values[i] || values[i] == Py_None) {
			if (set_null(plain, i))
				return -1;
		} else if (values[i] != Py_False) {
			return 1;
		}
	}
	return finish(plain, WEIR_BOOL, NULL, out);
}

/* The bytes of a str, which keeps its UTF-8 once it was asked for it, or of a bytes. */
static const char *bytes_of(PyObject *value, bool text, Py_ssize_t *size)
{
	char *bytes = NULL;

	if (text)
		return PyUnicode_AsUTF8AndSize(value, size);
	return PyBytes_AsStringAndSize(value, &bytes, size) ? NULL : bytes;
}

/* Sizes first, as offsets, then the bytes. */
static int strings(struct plain *plain, const char *name, PyObject *const *values, bool text, struct column_out *out)
{
	struct weir_buffer bytes = {0};
	int64_t total = 0;
	int32_t *offsets;
	uint8_t *data;
	int answer = 1;

	if (begin(plain, ((uint64_t)plain->count + 1) * sizeof(int32_t)))
		return -1;
	offsets = (int32_t *)plain->data;
	offsets[0] = 0;
	for (int64_t i = 0; i < plain->count; i++) {
		PyObject *value = values[i];
		Py_ssize_t size = 0;

		if (value && (text ? PyUnicode_CheckExact(value) : PyBytes_CheckExact(value))) {
			if (!bytes_of(value, text, &size))
				return infer_is_no_text() ? 1 : build_failed_at(name, i, value);
		} else if (!value || value == Py_None) {
			if (set_null(plain, i))
				return -1;
		} else {
			return 1;
		}
		total += size;
		if (total > INT32_MAX)
			return 1;
		offsets[i + 1] = (int32_t)total;
	}
	if (weir_buffer_new(plain->v->account, (uint64_t)total, &bytes, &data, &plain->err))
		return refuse(plain);
	for (int64_t i = 0; i < plain->count; i++) {
		Py_ssize_t size;

		if (offsets[i + 1] > offsets[i])
			memcpy(data + offsets[i], bytes_of(values[i], text, &size),
			       (size_t)(offsets[i + 1] - offsets[i]));
	}
	answer = finish(plain, text ? WEIR_STRING : WEIR_BINARY, &bytes, out);
	weir_buffer_release(&bytes);
	return answer;
}

/* Naive datetimes, read once as microseconds, and brought to the coarsest unit that is exact for all of them. */
static int datetimes(struct plain *plain, const char *name, PyObject *const *values, struct column_out *out)
{
	struct pyext_values *v = plain->v;
	enum weir_time_unit unit = WEIR_SECOND;
	const struct weir_type *type;
	struct time_value time;
	int64_t *data, per;
	int answer = 1;

	if (begin(plain, (uint64_t)plain->count * sizeof(int64_t)))
		return -1;
	data = (int64_t *)plain->data;
	for (int64_t i = 0; i < plain->count; i++) {
		PyObject *value = values[i], *zone;

		data[i] = 0;
		if (!value || value == Py_None) {
			if (set_null(plain, i))
				return -1;
			continue;
		}
		if ((PyObject *)Py_TYPE(value) != v->datetime.datetime)
			return 1;
		zone = PyObject_GetAttr(value, v->names.tzinfo);
		Py_XDECREF(zone);
		if (zone != Py_None)
			return zone ? 1 : build_failed_at(name, i, value);
		if (time_read(v, value, KIND_DATETIME, &time))
			return build_failed_at(name, i, value);
		/* A datetime has microseconds, and those of its years fit. */
		time_in_unit(&time, WEIR_MICRO, &data[i]);
		unit = time.unit > unit ? time.unit : unit;
	}
	per = unit == WEIR_SECOND ? 1000000 : unit == WEIR_MILLI ? 1000 : 1;
	for (int64_t i = 0; per > 1 && i < plain->count; i++)
		data[i] /= per;
	type = weir_type_temporal(v->account, WEIR_TIMESTAMP, unit, NULL, &plain->err);
	if (!type)
		return refuse(plain);
	answer = finish(plain, WEIR_INT64, NULL, out);
	if (answer) {
		weir_type_unref(type);
	} else {
		weir_type_unref(out->array->type);
		out->array->type = type;
	}
	return answer;
}

int column_plain(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		 struct column_out *out)
{
	struct plain plain = {.v = v, .count = count};
	PyObject *first = NULL;
	int answer = 1;

	for (int64_t i = 0; i < count && (!first || first == Py_None); i++)
		first = values[i];
	if (!first || first == Py_None)
		return 1;
	if (PyFloat_CheckExact(first))
		answer = floats(&plain, values, out);
	else if (PyLong_CheckExact(first))
		answer = ints(&plain, values, out);
	else if (PyBool_Check(first))
		answer = bools(&plain, values, out);
	else if (PyUnicode_CheckExact(first) || PyBytes_CheckExact(first))
		answer = strings(&plain, name, values, PyUnicode_CheckExact(first), out);
	else if (v->datetime.datetime && (PyObject *)Py_TYPE(first) == v->datetime.datetime)
		answer = datetimes(&plain, name, values, out);
	plain_release(&plain);
	return answer;
}
