/* Python's dates, times and decimals as numbers. Times are read as a difference to 1970, which is right for every kind
 * of tzinfo and for pandas' own classes too. */
#include "arrow/value.h"
#include "pyext/infer.h"

#include <stdio.h>
#include <stdlib.h>

static int read_number(PyObject *object, PyObject *name, int64_t *out)
{
	PyObject *number = PyObject_GetAttr(object, name);

	if (!number)
		return -1;
	*out = PyLong_AsLongLong(number);
	Py_DECREF(number);
	return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static void settle_unit(struct time_value *value)
{
	value->unit = value->nanos % 1000      ? WEIR_NANO
		      : value->nanos % 1000000 ? WEIR_MICRO
		      : value->nanos           ? WEIR_MILLI
					       : WEIR_SECOND;
}

static int read_delta(struct pyext_values *v, PyObject *delta, struct time_value *out)
{
	int64_t micros, nanos = 0;

	if (read_number(delta, v->names.days, &out->days) || read_number(delta, v->names.seconds, &out->seconds) ||
	    read_number(delta, v->names.microseconds, &micros))
		return -1;
	/* pandas.Timedelta */
	if ((PyObject *)Py_TYPE(delta) != v->datetime.timedelta && PyObject_HasAttr(delta, v->names.nanoseconds) &&
	    read_number(delta, v->names.nanoseconds, &nanos))
		return -1;
	out->nanos = micros * 1000 + nanos;
	settle_unit(out);
	return 0;
}

static int read_clock(struct pyext_values *v, PyObject *time, struct time_value *out)
{
	int64_t hour, minute, second, micros;

	if (read_number(time, v->names.hour, &hour) || read_number(time, v->names.minute, &minute) ||
	    read_number(time, v->names.second, &second) || read_number(time, v->names.microsecond, &micros))
		return -1;
	*out = (struct time_value){.seconds = hour * 3600 + minute * 60 + second, .nanos = micros * 1000};
	settle_unit(out);
	return 0;
}

int time_read(struct pyext_values *v, PyObject *value, uint32_t kind, struct time_value *out)
{
	PyObject *epoch, *zone, *delta;
	int failed;

	if (values_need_datetime(v))
		return -1;
	if (kind == KIND_DELTA)
		return read_delta(v, value, out);
	if (kind == KIND_TIME)
		return read_clock(v, value, out);
	epoch = v->datetime.epoch_date;
	if (kind == KIND_DATETIME) {
		zone = PyObject_GetAttr(value, v->names.tzinfo);
		if (!zone)
			return -1;
		epoch = zone == Py_None ? v->datetime.epoch : v->datetime.epoch_utc;
		Py_DECREF(zone);
	}
	delta = PyNumber_Subtract(value, epoch);
	if (!delta)
		return -1;
	failed = read_delta(v, delta, out);
	Py_DECREF(delta);
	return failed;
}

bool time_in_unit(const struct time_value *value, enum weir_time_unit unit, int64_t *out)
{
	int64_t per = weir_unit_per_second(unit), seconds;

	if (__builtin_mul_overflow(value->days, 86400, &seconds) ||
	    __builtin_add_overflow(seconds, value->seconds, &seconds) || __builtin_mul_overflow(seconds, per, out))
		return false;
	return !__builtin_add_overflow(*out, value->nanos / (1000000000 / per), out);
}

/* 1: written; 0: the zone has no such attribute, or no text in it. */
static int zone_name(PyObject *zone, PyObject *attribute, char *out, size_t size)
{
	PyObject *name = PyObject_GetAttr(zone, attribute);
	const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	bool fits = text && *text && strlen(text) < size;

	PyErr_Clear();
	if (fits)
		memcpy(out, text, strlen(text) + 1);
	Py_XDECREF(name);
	return fits;
}

int time_zone_text(struct pyext_values *v, PyObject *value, char *out, size_t size)
{
	PyObject *zone = PyObject_GetAttr(value, v->names.tzinfo), *offset;
	int64_t days, seconds, minutes;
	int aware = -1;

	if (!zone)
		return -1;
	if (zone == Py_None) {
		Py_DECREF(zone);
		return 0;
	}
	if (zone == v->datetime.utc) {
		snprintf(out, size, "UTC");
		aware = 1;
	} else if (zone_name(zone, v->names.key, out, size) || zone_name(zone, v->names.zone, out, size)) {
		aware = 1;
	} else {
		offset = PyObject_CallMethodObjArgs(value, v->names.utcoffset, NULL);
		if (offset == Py_None) {
			aware = 0;
		} else if (offset && !read_number(offset, v->names.days, &days) &&
			   !read_number(offset, v->names.seconds, &seconds)) {
			minutes = (days * 86400 + seconds) / 60;
			snprintf(out, size, minutes ? "%c%02d:%02d" : "UTC", minutes < 0 ? '-' : '+',
				 (int)((minutes < 0 ? -minutes : minutes) / 60),
				 (int)((minutes < 0 ? -minutes : minutes) % 60));
			aware = 1;
		}
		Py_XDECREF(offset);
	}
	Py_DECREF(zone);
	return aware;
}

/* "-12.50", "1E+5", "0E-7": digits without the point, and where the point would be. */
int decimal_read(struct pyext_values *v, PyObject *value, struct decimal_value *out)
{
	PyObject *text = PyObject_Str(value);
	const char *at;
	size_t used = 0;
	int64_t after = 0;
	bool pointed = false;
	int result;

	(void)v;
	if (!text)
		return -1;
	at = PyUnicode_AsUTF8AndSize(text, NULL);
	*out = (struct decimal_value){0};
	if (at && (*at == '-' || *at == '+')) {
		if (*at == '-')
			out->text[used++] = '-';
		at++;
	}
	for (; at && used + 1 < sizeof(out->text); at++) {
		if (*at == '.') {
			pointed = true;
		} else if (*at >= '0' && *at <= '9') {
			/* Zeros in front count for nothing, but one is kept. */
			if (out->digits == 1 && out->text[used - 1] == '0')
				used--, out->digits--;
			out->text[used++] = *at;
			out->digits++;
			after += pointed;
		} else {
			break;
		}
	}
	out->exponent = -after;
	if (at && (*at == 'E' || *at == 'e')) {
		out->exponent += strtoll(at + 1, NULL, 10);
		at = "";
	}
	/* NaN, Infinity, or more digits than any type has. */
	result = !at ? -1 : *at == '\0' && out->digits && out->exponent >= -76 && out->exponent <= 76;
	Py_DECREF(text);
	return result;
}
