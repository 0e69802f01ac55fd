/* Modules, types and functions of Python, imported at their first use and kept until the module goes. Nothing here runs
 * at import: a program that never asks for NumPy never loads it. */
#include "pyext/values_impl.h"

static int get(PyObject *module, const char *name, PyObject **out)
{
	*out = PyObject_GetAttrString(module, name);
	return *out ? 0 : -1;
}

static void drop_numpy(struct pyext_values *v)
{
	PyObject **all = (PyObject **)&v->numpy;

	for (size_t i = 0; i < sizeof(v->numpy) / sizeof(*all); i++)
		Py_CLEAR(all[i]);
}

static PyObject *new_dtype(PyObject *dtype, const char *name)
{
	return PyObject_CallFunction(dtype, "s", name);
}

static int fill_numpy(struct numpy_objects *numpy, PyObject *module)
{
	static const char *const numbers[] = {
		[WEIR_BOOL] = "bool",     [WEIR_INT8] = "int8",    [WEIR_INT16] = "int16",   [WEIR_INT32] = "int32",
		[WEIR_INT64] = "int64",   [WEIR_UINT8] = "uint8",  [WEIR_UINT16] = "uint16", [WEIR_UINT32] = "uint32",
		[WEIR_UINT64] = "uint64", [WEIR_HALF] = "float16", [WEIR_FLOAT] = "float32", [WEIR_DOUBLE] = "float64",
	};
	static const char *const times[UNIT_COUNT] = {"M8[s]", "M8[ms]", "M8[us]", "M8[ns]"};
	static const char *const deltas[UNIT_COUNT] = {"m8[s]", "m8[ms]", "m8[us]", "m8[ns]"};
	PyObject *dtype = NULL;
	int failed = get(module, "dtype", &dtype) || get(module, "generic", &numpy->generic) ||
		     get(module, "empty", &numpy->empty) || get(module, "frombuffer", &numpy->frombuffer) ||
		     get(module, "ascontiguousarray", &numpy->ascontiguousarray) ||
		     get(module, "asarray", &numpy->asarray) || get(module, "stack", &numpy->stack) ||
		     get(module, "concatenate", &numpy->concatenate) || get(module, "datetime64", &numpy->datetime64) ||
		     get(module, "timedelta64", &numpy->timedelta64) || get(module, "longlong", &numpy->longlong) ||
		     get(module, "ulonglong", &numpy->ulonglong);

	for (int id = WEIR_BOOL; !failed && id <= WEIR_DOUBLE; id++) {
		numpy->dtypes[id] = new_dtype(dtype, numbers[id]);
		failed = !numpy->dtypes[id] || get(numpy->dtypes[id], "type", &numpy->scalars[id]);
	}
	for (int unit = 0; !failed && unit < UNIT_COUNT; unit++) {
		numpy->time_dtypes[unit] = new_dtype(dtype, times[unit]);
		numpy->delta_dtypes[unit] = new_dtype(dtype, deltas[unit]);
		failed = !numpy->time_dtypes[unit] || !numpy->delta_dtypes[unit];
	}
	if (!failed) {
		numpy->object_dtype = new_dtype(dtype, "O");
		numpy->day_dtype = new_dtype(dtype, "M8[D]");
		numpy->int64_name = PyUnicode_InternFromString("i8");
		failed = !numpy->object_dtype || !numpy->day_dtype || !numpy->int64_name;
	}
	Py_XDECREF(dtype);
	/* Last: its presence says that the rest is there. */
	return failed || get(module, "ndarray", &numpy->ndarray) ? -1 : 0;
}

int values_need_numpy(struct pyext_values *v)
{
	PyObject *module;
	int failed;

	if (v->numpy.ndarray)
		return 0;
	module = PyImport_ImportModule("numpy");
	if (!module)
		return -1;
	drop_numpy(v);
	failed = fill_numpy(&v->numpy, module);
	Py_DECREF(module);
	return failed;
}

bool values_have_numpy(struct pyext_values *v)
{
	PyObject *name, *module;

	if (v->numpy.ndarray)
		return true;
	name = PyUnicode_FromString("numpy");
	module = name ? PyImport_GetModule(name) : NULL;
	Py_XDECREF(name);
	/* While NumPy imports itself its names are not there yet; nor are its objects. */
	if (module) {
		drop_numpy(v);
		fill_numpy(&v->numpy, module);
		Py_DECREF(module);
	}
	PyErr_Clear();
	return v->numpy.ndarray != NULL;
}

int values_need_datetime(struct pyext_values *v)
{
	struct datetime_objects *d = &v->datetime;
	PyObject *module;
	int failed;

	if (d->epoch_utc)
		return 0;
	module = PyImport_ImportModule("datetime");
	if (!module)
		return -1;
	Py_CLEAR(d->datetime);
	failed = get(module, "datetime", &d->datetime) || get(module, "date", &d->date) ||
		 get(module, "time", &d->time) || get(module, "timedelta", &d->timedelta) ||
		 get(module, "timezone", &d->timezone) || get(d->timezone, "utc", &d->utc);
	if (!failed) {
		d->epoch = PyObject_CallFunction(d->datetime, "iii", 1970, 1, 1);
		d->epoch_date = PyObject_CallFunction(d->date, "iii", 1970, 1, 1);
		if (d->epoch && d->epoch_date)
			d->epoch_utc = PyObject_CallFunction(d->datetime, "iiiiiiiO", 1970, 1, 1, 0, 0, 0, 0, d->utc);
		failed = !d->epoch_utc;
	}
	Py_DECREF(module);
	return failed ? -1 : 0;
}

int values_try_pandas(struct pyext_values *v)
{
	struct datetime_objects *d = &v->datetime;
	PyObject *module;
	int failed;

	if (d->pandas_tried)
		return 0;
	module = PyImport_ImportModule("pandas");
	if (!module) {
		if (!PyErr_ExceptionMatches(PyExc_ImportError))
			return -1;
		PyErr_Clear();
		d->pandas_tried = true;
		return 0;
	}
	failed = get(module, "NaT", &d->nat) || get(module, "Timedelta", &d->pandas_delta) ||
		 get(module, "Timestamp", &d->timestamp);
	d->pandas_tried = !failed;
	Py_DECREF(module);
	return failed;
}

int values_need_decimal(struct pyext_values *v)
{
	PyObject *module;

	if (v->decimal)
		return 0;
	module = PyImport_ImportModule("decimal");
	if (!module)
		return -1;
	get(module, "Decimal", &v->decimal);
	Py_DECREF(module);
	return v->decimal ? 0 : -1;
}

int values_need_uuid(struct pyext_values *v)
{
	PyObject *module;
	int failed;

	if (v->uuid)
		return 0;
	module = PyImport_ImportModule("uuid");
	failed = module ? get(module, "UUID", &v->uuid) : -1;
	Py_XDECREF(module);
	return failed;
}

bool values_have_uuid(struct pyext_values *v)
{
	PyObject *name, *module;

	if (v->uuid)
		return true;
	name = PyUnicode_FromString("uuid");
	module = name ? PyImport_GetModule(name) : NULL;
	if (module)
		get(module, "UUID", &v->uuid); /* not there yet: the module is being imported */
	Py_XDECREF(name);
	Py_XDECREF(module);
	PyErr_Clear();
	return v->uuid != NULL;
}

int values_need_pickle(struct pyext_values *v)
{
	PyObject *module;

	if (v->loads)
		return 0;
	module = PyImport_ImportModule("cloudpickle");
	if (!module)
		return -1;
	Py_CLEAR(v->dumps);
	if (!get(module, "dumps", &v->dumps))
		get(module, "loads", &v->loads);
	Py_DECREF(module);
	return v->loads ? 0 : -1;
}

/* ---- what the garbage collector sees ---- */

static int visit_all(PyObject *const *objects, size_t count, visitproc visit, void *arg)
{
	for (size_t i = 0; i < count; i++)
		Py_VISIT(objects[i]);
	return 0;
}

int pyext_values_visit(struct pyext_values *v, visitproc visit, void *arg)
{
	struct datetime_objects *d = &v->datetime;
	int code = visit_all((PyObject *const *)&v->numpy, sizeof(v->numpy) / sizeof(PyObject *), visit, arg);

	if (code)
		return code;
	Py_VISIT(d->datetime);
	Py_VISIT(d->date);
	Py_VISIT(d->time);
	Py_VISIT(d->timedelta);
	Py_VISIT(d->timezone);
	Py_VISIT(d->timestamp);
	Py_VISIT(d->pandas_delta);
	Py_VISIT(v->times_dtype);
	Py_VISIT(v->decimal);
	Py_VISIT(v->uuid);
	Py_VISIT(v->zones);
	Py_VISIT(v->dumps);
	Py_VISIT(v->loads);
	Py_VISIT(v->batch_type);
	Py_VISIT(v->buffer_type);
	return 0;
}

void values_clear(struct pyext_values *v)
{
	struct datetime_objects *d = &v->datetime;
	PyObject **names = (PyObject **)&v->names;

	drop_numpy(v);
	Py_CLEAR(d->epoch_utc);
	Py_CLEAR(d->epoch);
	Py_CLEAR(d->epoch_date);
	Py_CLEAR(d->utc);
	Py_CLEAR(d->datetime);
	Py_CLEAR(d->date);
	Py_CLEAR(d->time);
	Py_CLEAR(d->timedelta);
	Py_CLEAR(d->timezone);
	Py_CLEAR(d->timestamp);
	Py_CLEAR(d->pandas_delta);
	Py_CLEAR(d->nat);
	d->pandas_tried = false;
	Py_CLEAR(v->times_dtype);
	Py_CLEAR(v->decimal);
	Py_CLEAR(v->uuid);
	Py_CLEAR(v->zones);
	Py_CLEAR(v->dumps);
	Py_CLEAR(v->loads);
	Py_CLEAR(v->batch_type);
	Py_CLEAR(v->buffer_type);
	for (size_t i = 0; i < sizeof(v->names) / sizeof(*names); i++)
		Py_CLEAR(names[i]);
}
