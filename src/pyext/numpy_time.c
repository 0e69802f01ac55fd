/* NumPy's datetime64 and timedelta64 on their way in: alone, at the top of a column or in lists and dicts, and in
 * arrays.
 *
 *     datetime64     in Arrow                         timedelta64   in Arrow
 *     Y, M, W, D     date32                           W, D, h, m    duration[s]
 *     h, m           timestamp[s]                     s … ns        duration of the unit
 *     s … ns         timestamp of the unit            Y, M, none    nothing: they are of no known length
 *     none           timestamp[s]: it can only be NaT
 *     finer than ns  nothing                          finer than ns nothing
 *
 * NaT is null. A multiple ("25us") has the type of its unit. Values of several units get the finest one, if all of them
 * fit it: every conversion is checked, since NumPy's own wrap around. What no type holds becomes a Python object. In
 * lists and dicts so does all that is not in one of Arrow's units, the same one everywhere: as Ray Data has it.
 *
 * Scalars and arrays of times export no buffer of int64: a scalar's eight bytes are read as such, an array's through a
 * view. */
#include "arrow/value.h"
#include "pyext/infer.h"

#include <stdlib.h>

enum { DAY_SECONDS = 86400, YEARS_MAX = 1 << 30 };
static const int64_t SECOND_NANOS = 1000000000, DAY_NANOS = DAY_SECONDS * INT64_C(1000000000);

/* "<M8[25us]" */
bool numpy_time_read(const char *dtype_text, struct numpy_time *out)
{
	static const struct {
		const char *name;
		struct numpy_time span, moment;
	} units[] = {
		{"Y", {0}, {.days = true, .months = 12, .factor = 1}},
		{"M", {0}, {.days = true, .months = 1, .factor = 1}},
		{"W", {.factor = 7 * DAY_SECONDS}, {.days = true, .factor = 7}},
		{"D", {.factor = DAY_SECONDS}, {.days = true, .factor = 1}},
		{"h", {.factor = 3600}, {.factor = 3600}},
		{"m", {.factor = 60}, {.factor = 60}},
		{"s", {.factor = 1}, {.factor = 1}},
		{"ms", {.unit = WEIR_MILLI, .factor = 1}, {.unit = WEIR_MILLI, .factor = 1}},
		{"us", {.unit = WEIR_MICRO, .factor = 1}, {.unit = WEIR_MICRO, .factor = 1}},
		{"ns", {.unit = WEIR_NANO, .factor = 1}, {.unit = WEIR_NANO, .factor = 1}},
	};
	bool moment = dtype_text[1] == 'M';
	const char *open = strchr(dtype_text, '[');
	char *name = NULL;
	long multiple = open ? strtol(open + 1, &name, 10) : 0;
	size_t length = name ? strcspn(name, "]") : 0;

	if (!length) {
		*out = (struct numpy_time){.moment = moment, .nameless = true};
		return true;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strlen(units[i].name) != length || memcmp(units[i].name, name, length))
			continue;
		*out = moment ? units[i].moment : units[i].span;
		out->moment = moment;
		if (!out->factor || __builtin_mul_overflow(out->factor, multiple ? multiple : 1, &out->factor))
			return false;
		/* "1000ns" equals "us", for NumPy too. */
		for (; out->unit > WEIR_SECOND && out->factor % 1000 == 0; out->factor /= 1000)
			out->unit--;
		return true;
	}
	return false;
}

/* Of a scalar or an array. 0, 1: no type holds what it counts, or these are no times; −1. To write a dtype as text
 * takes NumPy longer than all the rest: it is done where the dtype is not that of the value before. */
static int time_of(struct pyext_values *v, PyObject *value, struct numpy_time *out)
{
	PyObject *dtype = PyObject_GetAttr(value, v->names.dtype), *text = NULL, *before = NULL;
	const char *chars;
	int same = dtype && v->times_dtype ? PyObject_RichCompareBool(dtype, v->times_dtype, Py_EQ) : 0, answer = -1;

	if (!dtype || same < 0)
		goto out;
	if (same) {
		*out = v->times;
		answer = 0;
		goto out;
	}
	text = PyObject_GetAttr(dtype, v->names.str);
	chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (chars)
		answer = *chars && (chars[1] == 'M' || chars[1] == 'm') && numpy_time_read(chars, out) ? 0 : 1;
	if (!answer) {
		v->times = *out;
		before = v->times_dtype;
		v->times_dtype = Py_NewRef(dtype);
	}
out:
	Py_XDECREF(before);
	Py_XDECREF(text);
	Py_XDECREF(dtype);
	return answer;
}

/* A count in days, or in the unit. False: it does not fit 64 bits. */
static bool counted(const struct numpy_time *time, int64_t count, int64_t *out)
{
	int64_t year;

	if (time->nameless || __builtin_mul_overflow(count, time->factor, out))
		return false;
	if (!time->months)
		return true;
	if (__builtin_mul_overflow(*out, time->months, out))
		return false;
	year = 1970 + weir_floor_div(*out, 12);
	if (year < -YEARS_MAX || year > YEARS_MAX)
		return false;
	*out = weir_calendar_number(year, 1 + (uint32_t)weir_floor_mod(*out, 12), 1);
	return true;
}

/* A count as a value of a type, which is no coarser. False: it does not fit. */
static bool time_as(const struct numpy_time *time, int64_t count, const struct weir_type *type, int64_t *out)
{
	int64_t per = weir_unit_per_second(type->unit);
	bool date = type->id == WEIR_DATE32;

	if (!counted(time, count, out))
		return false;
	if (date)
		return time->days && *out == (int32_t)*out;
	return !__builtin_mul_overflow(*out, time->days ? DAY_SECONDS * per : per / weir_unit_per_second(time->unit),
				       out) &&
	       *out != INT64_MIN;
}

/* The array's counts as a new array of int64, in order and in one piece. */
static PyObject *counts_of(struct pyext_values *v, PyObject *array)
{
	PyObject *whole = ndarray_in_order(v, array), *counts = NULL;

	if (whole)
		counts = PyObject_CallMethodObjArgs(whole, v->names.view, v->numpy.int64_name, NULL);
	Py_XDECREF(whole);
	return counts;
}

/* ---- what a node learns of them ---- */

static enum infer_answer see(struct infer *node, const struct numpy_time *time, int64_t count)
{
	int64_t value;

	if (count == INT64_MIN)
		return INFER_FITS;
	if (!counted(time, count, &value))
		return INFER_OTHER;
	infer_extent(node,
		     (__int128)value * (time->days ? DAY_NANOS : SECOND_NANOS / weir_unit_per_second(time->unit)));
	return INFER_FITS;
}

static enum infer_answer see_unit(struct infer *node, const struct numpy_time *time, bool nested)
{
	bool own_unit = !time->days && !time->nameless && time->factor == 1;
	bool first = !(node->kinds & (KIND_MOMENT | KIND_SPAN));

	if (nested && (!own_unit || (!first && time->unit != node->unit)))
		return INFER_OTHER;
	node->kinds |= time->moment ? KIND_MOMENT : KIND_SPAN;
	node->days |= time->days;
	node->clock |= !time->days && !time->nameless;
	if (time->unit > node->unit)
		node->unit = time->unit;
	return INFER_FITS;
}

static int scalar_count(PyObject *value, int64_t *out)
{
	Py_buffer view;

	if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE))
		return -1;
	WEIR_ASSERT(view.len == sizeof(*out));
	memcpy(out, view.buf, sizeof(*out));
	PyBuffer_Release(&view);
	return 0;
}

enum infer_answer infer_numpy_time(struct pyext_values *v, struct infer *node, PyObject *value, bool nested)
{
	struct numpy_time time;
	int64_t count;
	int known = time_of(v, value, &time);

	if (known)
		return known < 0 ? INFER_FAILED : INFER_OTHER;
	if (scalar_count(value, &count))
		return INFER_FAILED;
	return see_unit(node, &time, nested) ? INFER_OTHER : see(node, &time, count);
}

enum infer_answer infer_numpy_times(struct pyext_values *v, struct infer *items, PyObject *array, int64_t *length)
{
	enum infer_answer answer;
	struct numpy_time time;
	PyObject *shape, *counts;
	Py_ssize_t dims;
	Py_buffer view;
	int known = time_of(v, array, &time);

	if (known)
		return known < 0 ? INFER_FAILED : INFER_OTHER;
	shape = PyObject_GetAttr(array, v->names.shape);
	dims = shape ? PyTuple_Size(shape) : -1;
	Py_XDECREF(shape);
	if (dims != 1)
		return dims < 0 ? INFER_FAILED : INFER_OTHER;
	counts = counts_of(v, array);
	if (!counts || PyObject_GetBuffer(counts, &view, PyBUF_C_CONTIGUOUS)) {
		Py_XDECREF(counts);
		return INFER_FAILED;
	}
	*length = view.len / (Py_ssize_t)sizeof(int64_t);
	answer = see_unit(items, &time, true);
	for (int64_t i = 0; !answer && i < *length; i++)
		answer = see(items, &time, ((const int64_t *)view.buf)[i]);
	PyBuffer_Release(&view);
	Py_DECREF(counts);
	return answer;
}

/* ---- into a builder of the type that a node found ---- */

static int append(struct pyext_values *v, struct weir_builder *builder, const struct numpy_time *time, int64_t count)
{
	struct weir_error err = {0};
	int64_t value;
	int code;

	if (count == INT64_MIN) {
		code = weir_builder_null(builder, 1, &err);
	} else if (time_as(time, count, builder->type, &value)) {
		code = weir_builder_fixed(builder, &value, 1, &err); /* little endian: a date is the first four bytes */
	} else {
		PyErr_SetString(PyExc_OverflowError, "a time that does not fit the unit of its column");
		return -1;
	}
	if (code)
		values_raise(v, &err);
	return code ? -1 : 0;
}

/* 1: it has changed since its type was found. */
static int refuse_changed(int answer)
{
	if (answer > 0)
		PyErr_SetString(PyExc_ValueError, "times that are no longer what they were");
	return answer ? -1 : 0;
}

int append_numpy_time(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	struct numpy_time time;
	int64_t count;

	if (refuse_changed(time_of(v, value, &time)) || scalar_count(value, &count))
		return -1;
	return append(v, builder, &time, count);
}

int append_numpy_times(struct pyext_values *v, struct weir_builder *items, PyObject *array)
{
	struct numpy_time time;
	PyObject *counts;
	Py_buffer view;
	int failed = 0;

	if (refuse_changed(time_of(v, array, &time)))
		return -1;
	counts = counts_of(v, array);
	if (!counts || PyObject_GetBuffer(counts, &view, PyBUF_C_CONTIGUOUS)) {
		Py_XDECREF(counts);
		return -1;
	}
	for (Py_ssize_t i = 0; !failed && i < view.len / (Py_ssize_t)sizeof(int64_t); i++)
		failed = append(v, items, &time, ((const int64_t *)view.buf)[i]);
	PyBuffer_Release(&view);
	Py_DECREF(counts);
	return failed;
}

/* ---- whole arrays ---- */

/* NaT is null. */
static int nat_to_null(struct pyext_values *v, const int64_t *counts, struct weir_array *array)
{
	struct weir_error err = {0};
	uint8_t *bits = NULL;

	for (int64_t i = 0; i < array->length; i++) {
		if (counts[i] != INT64_MIN)
			continue;
		if (!bits) {
			if (weir_buffer_new(v->account, weir_bits_size(array->length), &array->buffers[0], &bits,
					    &err)) {
				values_raise(v, &err);
				return -1;
			}
			memset(bits, 0xff, weir_bits_size(array->length));
		}
		weir_bit_clear(bits, i);
		array->null_count++;
	}
	return 0;
}

/* The counts as values of the array's type, in memory of their own. 1: one does not fit. */
static int convert(struct pyext_values *v, const struct numpy_time *time, struct weir_array *array)
{
	const int64_t *counts = (const int64_t *)array->buffers[1].data;
	bool narrow = array->type->byte_width == sizeof(int32_t);
	struct weir_error err = {0};
	struct weir_buffer values;
	uint8_t *data;

	if (weir_buffer_new(v->account, (uint64_t)array->length * array->type->byte_width, &values, &data, &err)) {
		values_raise(v, &err);
		return -1;
	}
	for (int64_t i = 0; i < array->length; i++) {
		int64_t value = 0;

		if (counts[i] != INT64_MIN && !time_as(time, counts[i], array->type, &value)) {
			weir_buffer_release(&values);
			return 1;
		}
		if (narrow)
			((int32_t *)data)[i] = (int32_t)value;
		else
			((int64_t *)data)[i] = value;
	}
	weir_buffer_release(&array->buffers[1]);
	array->buffers[1] = values;
	return 0;
}

int array_of_numpy_times(struct pyext_values *v, PyObject *array, struct weir_array **out)
{
	struct weir_error err = {0};
	const struct weir_type *type = NULL;
	struct numpy_time time;
	PyObject *counts = NULL;
	int answer = time_of(v, array, &time);

	*out = NULL;
	if (answer)
		return answer;
	answer = -1;
	if (time.moment && time.days)
		type = weir_type_of(WEIR_DATE32);
	else
		type = weir_type_temporal(v->account, time.moment ? WEIR_TIMESTAMP : WEIR_DURATION, time.unit, NULL,
					  &err);
	if (!type) {
		values_raise(v, &err);
		goto out;
	}
	counts = counts_of(v, array);
	*out = counts ? ndarray_numbers(v, counts, weir_type_of(WEIR_INT64)) : NULL;
	if (!*out || nat_to_null(v, (const int64_t *)(*out)->buffers[1].data, *out))
		goto out;
	weir_type_unref((*out)->type);
	(*out)->type = weir_type_ref(type);
	answer = time.days || time.nameless || time.factor != 1 ? convert(v, &time, *out) : 0;
out:
	Py_XDECREF(counts);
	weir_type_unref(type);
	if (answer) {
		weir_array_unref(*out);
		*out = NULL;
	}
	return answer;
}
