/* Flow.call: a step that runs in worker processes. What the function is, only the workers know: the engine sees a
 * setup, which it gives to each of them, and how many there may be. */
#include "backend/backend.h"
#include "pyext/pyext_impl.h"

#include <limits.h>
#include <string.h>

struct call_number {
	const char *name;
	size_t offset;
	bool is_wide; /* int64_t, else uint32_t */
};

#define NUMBER(field)                                                                                                  \
	{                                                                                                              \
#field, offsetof(struct weir_call, field), sizeof(((struct weir_call *)0)->field) == 8                 \
	}
static const struct call_number numbers[] = {
	NUMBER(slots_min),    NUMBER(slots_max),    NUMBER(slots_first), NUMBER(in_flight), NUMBER(batch_rows),
	NUMBER(chunk_bytes),  NUMBER(fine),         NUMBER(fine_first),  NUMBER(paced),     NUMBER(keeps_splits),
	NUMBER(whole_splits), NUMBER(milli_cpus),   NUMBER(milli_gpus),  NUMBER(memory),    NUMBER(errored_max),
	NUMBER(user_retries), NUMBER(attempts_max), NUMBER(start),
};
#undef NUMBER

static int set_number(struct weir_call *call, const struct call_number *number, PyObject *value)
{
	char *place = (char *)call + number->offset;
	long long given = PyLong_AsLongLong(value);
	uint32_t narrow = (uint32_t)given;
	int64_t wide = given;

	if (given == -1 && PyErr_Occurred())
		return -1;
	if (number->is_wide ? given < -1 : given < 0 || given > UINT32_MAX) {
		PyErr_Format(PyExc_ValueError, "%s is %lld", number->name, given);
		return -1;
	}
	memcpy(place, number->is_wide ? (void *)&wide : (void *)&narrow,
	       number->is_wide ? sizeof(wide) : sizeof(narrow));
	return 0;
}

static int set_field(struct weir_call *call, PyObject *key, PyObject *value)
{
	const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

	if (!name)
		return -1;
	if (strcmp(name, "name") == 0) {
		call->name = PyUnicode_AsUTF8AndSize(value, NULL);
		return call->name ? 0 : -1;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (strcmp(name, numbers[i].name) == 0)
			return set_number(call, &numbers[i], value);
	}
	PyErr_Format(PyExc_TypeError, "a call has no field %R", key);
	return -1;
}

PyObject *pyext_flow_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"spec", "setup", "launcher", NULL};
	struct flow_object *self = (struct flow_object *)object;
	struct weir_call call = {0};
	PyObject *spec, *launcher, *key, *value;
	unsigned long long setup_size;
	Py_ssize_t at = 0;
	void *held;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!(iK)O:call", names, &PyDict_Type, &spec, &call.setup,
					 &setup_size, &launcher) ||
	    pyext_flow_may_change(self))
		return NULL;
	call.setup_size = setup_size;
	while (PyDict_Next(spec, &at, &key, &value)) {
		if (set_field(&call, key, value))
			return NULL;
	}
	if (!call.name) {
		PyErr_SetString(PyExc_TypeError, "a call needs a name");
		return NULL;
	}
	held = pyext_zygote_keep(pyext_module_of(object), launcher, &call.launcher);
	if (!held)
		return NULL;
	return pyext_flow_stepped(self, api_flow_call(self->flow, &call, pyext_zygote_release, held));
}
