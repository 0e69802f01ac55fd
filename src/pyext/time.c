/* Dates and times as Python's own objects. The C API of datetime is outside the limited API, so objects are made by the
 * constructors' other form, the bytes that pickles hold, which costs a fifth of a call with numbers:
 *
 *     date      year (2, big endian) │ month │ day
 *     time      hour │ minute │ second │ microsecond (3, big endian)
 *     datetime  the one after the other
 *
 * Zones are looked up once a text.
 *
 *     date32/64     date           timestamp s, ms, us   datetime, aware where the type has a zone
 *     time32/64     time, digits   timestamp ns          pandas.Timestamp; without pandas a datetime where no digit
 *                   past us cut                          is lost, else numpy.datetime64
 *     duration      timedelta      duration ns           pandas.Timedelta; without pandas by the same rule
 */
#include "arrow/value.h"
#include "pyext/values_impl.h"

enum { YEAR_MIN = 1, YEAR_MAX = 9999, DATE_SIZE = 4, CLOCK_SIZE = 6 };

static PyObject *out_of_range(const struct weir_type *type, int64_t value)
{
	char name[64];

	return PyErr_Format(PyExc_ValueError, "%lld as %s lies outside the years 1 to 9999 that Python's dates have",
			    (long long)value, weir_type_name(type, name, sizeof(name)));
}

static void put_date(uint8_t *state, const struct weir_calendar_day *day)
{
	state[0] = (uint8_t)(day->year >> 8);
	state[1] = (uint8_t)day->year;
	state[2] = (uint8_t)day->month;
	state[3] = (uint8_t)day->day;
}

static void put_clock(uint8_t *state, int second, int micros)
{
	state[0] = (uint8_t)(second / 3600);
	state[1] = (uint8_t)(second / 60 % 60);
	state[2] = (uint8_t)(second % 60);
	state[3] = (uint8_t)(micros >> 16);
	state[4] = (uint8_t)(micros >> 8);
	state[5] = (uint8_t)micros;
}

static PyObject *from_state(PyObject *type, const uint8_t *state, Py_ssize_t size, PyObject *zone)
{
	PyObject *bytes = PyBytes_FromStringAndSize((const char *)state, size), *result;

	if (!bytes)
		return NULL;
	result = PyObject_CallFunctionObjArgs(type, bytes, zone, NULL);
	Py_DECREF(bytes);
	return result;
}

static PyObject *date_object(struct pyext_values *v, const struct weir_type *type, int64_t value, int64_t days)
{
	struct weir_calendar_day day = weir_calendar_day(days);
	uint8_t state[DATE_SIZE];

	if (day.year < YEAR_MIN || day.year > YEAR_MAX)
		return out_of_range(type, value);
	put_date(state, &day);
	return from_state(v->datetime.date, state, DATE_SIZE, NULL);
}

/* "+05:30", "-08", "+0530" */
static PyObject *offset_zone(struct pyext_values *v, const char *text)
{
	int hours = 0, minutes = 0, count = 0;
	PyObject *delta, *zone;

	for (const char *at = text + 1; *at; at++) {
		if (*at == ':')
			continue;
		if (*at < '0' || *at > '9' || count == 4)
			return PyErr_Format(PyExc_ValueError, "'%s' is no offset of a time zone", text);
		if (count++ < 2)
			hours = hours * 10 + (*at - '0');
		else
			minutes = minutes * 10 + (*at - '0');
	}
	minutes += hours * 60;
	delta = PyObject_CallFunction(v->datetime.timedelta, "ii", 0, (*text == '-' ? -minutes : minutes) * 60);
	zone = delta ? PyObject_CallFunctionObjArgs(v->datetime.timezone, delta, NULL) : NULL;
	Py_XDECREF(delta);
	return zone;
}

PyObject *time_zone(struct pyext_values *v, const char *text)
{
	PyObject *zone, *module;

	if (!v->zones)
		v->zones = PyDict_New();
	if (!v->zones)
		return NULL;
	zone = PyDict_GetItemString(v->zones, text);
	if (zone)
		return zone;
	if (weir_timezone_is_utc(text)) {
		zone = v->datetime.utc;
		Py_INCREF(zone);
	} else if (*text == '+' || *text == '-') {
		zone = offset_zone(v, text);
	} else {
		module = PyImport_ImportModule("zoneinfo");
		zone = module ? PyObject_CallMethod(module, "ZoneInfo", "s", text) : NULL;
		Py_XDECREF(module);
	}
	if (!zone)
		return NULL;
	if (PyDict_SetItemString(v->zones, text, zone)) {
		Py_DECREF(zone);
		return NULL;
	}
	Py_DECREF(zone); /* the dict has it */
	return zone;
}

static PyObject *datetime_from(struct pyext_values *v, const struct weir_type *type, int64_t value, int64_t seconds,
			       int64_t micros)
{
	int64_t days = weir_floor_div(seconds, 86400);
	int second = (int)weir_floor_mod(seconds, 86400);
	struct weir_calendar_day day = weir_calendar_day(days);
	PyObject *plain, *zone = NULL, *result;
	uint8_t state[DATE_SIZE + CLOCK_SIZE];

	if (day.year < YEAR_MIN || day.year > YEAR_MAX)
		return out_of_range(type, value);
	if (type->timezone) {
		zone = time_zone(v, type->timezone);
		if (!zone)
			return NULL;
	}
	put_date(state, &day);
	put_clock(state + DATE_SIZE, second, (int)micros);
	plain = from_state(v->datetime.datetime, state, sizeof(state), zone);
	if (!plain || !zone || zone == v->datetime.utc)
		return plain;
	/* The fields are those of UTC so far. */
	result = PyObject_CallMethodObjArgs(zone, v->names.fromutc, plain, NULL);
	Py_DECREF(plain);
	return result;
}

static PyObject *nano_timestamp(struct pyext_values *v, const struct weir_type *type, int64_t value)
{
	PyObject *args, *kwargs, *result, *zone;

	if (values_try_pandas(v))
		return NULL;
	if (!v->datetime.timestamp) {
		if (value % 1000 == 0)
			return datetime_from(v, type, value, weir_floor_div(value, 1000000000),
					     weir_floor_mod(value, 1000000000) / 1000);
		if (values_need_numpy(v))
			return NULL;
		return PyObject_CallFunction(v->numpy.datetime64, "Ls", (long long)value, "ns");
	}
	if (value == INT64_MIN) {
		Py_INCREF(v->datetime.nat);
		return v->datetime.nat;
	}
	args = Py_BuildValue("(L)", (long long)value);
	kwargs = args ? Py_BuildValue("{s:s}", "unit", "ns") : NULL;
	result = NULL;
	if (kwargs && type->timezone) {
		zone = time_zone(v, type->timezone);
		if (!zone || PyDict_SetItemString(kwargs, "tz", zone))
			Py_CLEAR(kwargs);
	}
	if (kwargs)
		result = PyObject_Call(v->datetime.timestamp, args, kwargs);
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	return result;
}

static PyObject *duration_object(struct pyext_values *v, enum weir_time_unit unit, int64_t value)
{
	int64_t per = weir_unit_per_second(unit), seconds, rest;

	if (unit == WEIR_NANO) {
		if (values_try_pandas(v))
			return NULL;
		if (v->datetime.nat && value == INT64_MIN) {
			Py_INCREF(v->datetime.nat);
			return v->datetime.nat;
		}
		if (v->datetime.pandas_delta)
			return PyObject_CallFunction(v->datetime.pandas_delta, "L", (long long)value);
		if (value % 1000 != 0) {
			if (values_need_numpy(v))
				return NULL;
			return PyObject_CallFunction(v->numpy.timedelta64, "Ls", (long long)value, "ns");
		}
	}
	seconds = weir_floor_div(value, per);
	rest = weir_floor_mod(value, per);
	rest = unit == WEIR_NANO ? rest / 1000 : rest * (1000000 / per);
	if (seconds / 86400 > 999999999 || seconds / 86400 < -999999999)
		return PyErr_Format(PyExc_OverflowError, "a duration of %lld seconds does not fit a timedelta",
				    (long long)seconds);
	return PyObject_CallFunction(v->datetime.timedelta, "LLL", (long long)weir_floor_div(seconds, 86400),
				     (long long)weir_floor_mod(seconds, 86400), (long long)rest);
}

static PyObject *clock_object(struct pyext_values *v, const struct weir_type *type, int64_t value)
{
	int64_t per = weir_unit_per_second(type->unit);
	int64_t second = weir_floor_div(value, per), rest = weir_floor_mod(value, per);
	uint8_t state[CLOCK_SIZE];

	if (second < 0 || second >= 86400)
		return PyErr_Format(PyExc_ValueError, "%lld is no time of a day", (long long)value);
	rest = type->unit == WEIR_NANO ? rest / 1000 : rest * (1000000 / per);
	put_clock(state, (int)second, (int)rest);
	return from_state(v->datetime.time, state, CLOCK_SIZE, NULL);
}

PyObject *time_object(struct pyext_values *v, const struct weir_type *type, int64_t value)
{
	int64_t per;

	switch (type->id) {
	case WEIR_DATE32:
		return date_object(v, type, value, value);
	case WEIR_DATE64:
		return date_object(v, type, value, weir_floor_div(value, 86400000));
	case WEIR_TIME32:
	case WEIR_TIME64:
		return clock_object(v, type, value);
	case WEIR_DURATION:
		return duration_object(v, type->unit, value);
	default:
		break;
	}
	WEIR_ASSERT(type->id == WEIR_TIMESTAMP);
	if (type->unit == WEIR_NANO)
		return nano_timestamp(v, type, value);
	per = weir_unit_per_second(type->unit);
	return datetime_from(v, type, value, weir_floor_div(value, per), weir_floor_mod(value, per) * (1000000 / per));
}
