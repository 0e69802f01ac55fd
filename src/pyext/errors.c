/* Engine errors as Python exceptions.
 *
 * Each code has a class of its own that is both an Error and the built-in exception that the list in base/error.h
 * names, so a program may write `except weir.exceptions.Error`, `except FileNotFoundError` or the exact class:
 *
 *     Exception ◀── Error ◀──┬── NotFoundError ──▶ FileNotFoundError
 *                            ├── DataError ◀── MisfitError …
 *                            └── CallFailed        a Python function of the flow failed, in a worker
 */
#include "base/error.h"
#include "store/store.h"
#include "backend/backend.h"
#include "pyext/pyext_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct exception_class {
	int code;
	const char *name;
	const char *doc;
};

static const struct exception_class classes[] = {
	{WEIR_E_INVALID, "InvalidError", "An argument that makes no sense."},
	{WEIR_E_SYNTAX, "ExpressionError", "An expression that cannot be read."},
	{WEIR_E_NAME, "NameUnknownError", "No such column or function."},
	{WEIR_E_TYPE, "TypeMismatchError", "Types that do not fit together."},
	{WEIR_E_VALUE, "OutOfRangeError", "A value out of range."},
	{WEIR_E_OVERFLOW, "ArithmeticOverflowError", "A result that does not fit its type."},
	{WEIR_E_ZERO_DIVISION, "DivisionByZeroError", "Division by zero."},
	{WEIR_E_CAST, "CastError", "A value that cannot be converted."},
	{WEIR_E_DATA, "DataError", "A file or an Arrow array that is damaged or against its rules."},
	{WEIR_E_UNSUPPORTED, "UnsupportedError", "Known, but not supported."},
	{WEIR_E_IO, "ReadWriteError", "The system refused to read or write."},
	{WEIR_E_NOT_FOUND, "NotFoundError", "No such file or folder."},
	{WEIR_E_EXISTS, "ExistsError", "The target exists already."},
	{WEIR_E_NO_SPACE, "NoSpaceError", "The disk is full."},
	{WEIR_E_MEMORY, "OutOfMemoryError", "The system has no memory."},
	{WEIR_E_LIMIT, "MemoryLimitError", "It does not fit the memory limit; the message has the figures."},
	{WEIR_E_CANCELLED, "CancelledError", "Somebody cancelled the run."},
	{WEIR_E_WORKER, "WorkerError", "A worker process died."},
	{WEIR_E_SPILL_CORRUPT, "SpillError", "Spilled data came back changed."},
	{WEIR_E_INTERNAL, "InternalError", "A mistake in weir."},
	{WEIR_E_MISFIT, "MisfitError", "A value does not fit the type that was inferred."},
	{WEIR_E_FUNCTION, "FunctionError", "A function of the program failed."},
};

/* ---- the base class ---- */

/* KeyError would show its text in quotes, OSError its number: an error of the engine is one line for people. */
static PyObject *error_str(PyObject *self)
{
	PyObject *args = PyObject_GetAttrString(self, "args"), *text = NULL;

	if (!args)
		return NULL;
	if (PyTuple_Check(args) && PyTuple_Size(args) > 0)
		text = PyObject_Str(PyTuple_GetItem(args, 0));
	else
		text = PyUnicode_FromString("");
	Py_DECREF(args);
	return text;
}

static PyType_Slot error_slots[] = {
	{Py_tp_doc, "An error of the engine. What is not known of code, message, operator, file, column, value, row, "
		    "row_count, line and offset is None."},
	{Py_tp_str, error_str},
	{0, NULL},
};

static PyType_Spec error_spec = {
	.name = "weir._weir.Error",
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = error_slots,
};

static const char *const attributes[] = {"code", "message",   "operator", "file",   "column",  "value",
					 "row",  "row_count", "line",     "offset", "payload", "origin"};

static int add_base(PyObject *module, struct pyext_state *state)
{
	state->error = PyType_FromModuleAndSpec(module, &error_spec, PyExc_Exception);
	if (!state->error)
		return -1;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++) {
		if (PyObject_SetAttrString(state->error, attributes[i], Py_None))
			return -1;
	}
	return PyModule_AddObjectRef(module, "Error", state->error);
}

/* ---- a class a code ---- */

/* The built-in exception of a code, borrowed; NULL: none. Cancelling is not the user's Ctrl-C: that raises by
 * itself. */
static PyObject *builtin_of(int code)
{
	static const struct {
		const char *name;
		PyObject **exception;
	} builtins[] = {
		{"ValueError", &PyExc_ValueError},
		{"KeyError", &PyExc_KeyError},
		{"TypeError", &PyExc_TypeError},
		{"OverflowError", &PyExc_OverflowError},
		{"ZeroDivisionError", &PyExc_ZeroDivisionError},
		{"NotImplementedError", &PyExc_NotImplementedError},
		{"OSError", &PyExc_OSError},
		{"FileNotFoundError", &PyExc_FileNotFoundError},
		{"FileExistsError", &PyExc_FileExistsError},
		{"MemoryError", &PyExc_MemoryError},
		{"RuntimeError", &PyExc_RuntimeError},
	};
	const char *name = weir_code_python(code);

	if (code == WEIR_E_DATA)
		return PyExc_ValueError; /* as pyarrow's error for such files is one */
	for (size_t i = 0; i < sizeof(builtins) / sizeof(*builtins); i++) {
		if (strcmp(builtins[i].name, name) == 0)
			return *builtins[i].exception;
	}
	return NULL;
}

static PyObject *new_class(PyObject *module, const char *name, const char *doc, PyObject *base, PyObject *builtin)
{
	char full_name[64] = "weir._weir.";
	PyObject *bases = builtin ? PyTuple_Pack(2, base, builtin) : PyTuple_Pack(1, base), *class;

	if (!bases)
		return NULL;
	snprintf(full_name, sizeof(full_name), "weir._weir.%s", name);
	class = PyErr_NewExceptionWithDoc(full_name, doc, bases, NULL);
	Py_DECREF(bases);
	if (class && PyModule_AddObjectRef(module, name, class)) {
		Py_DECREF(class);
		return NULL;
	}
	return class;
}

int pyext_add_errors(PyObject *module)
{
	struct pyext_state *state = pyext_state_of(module);

	if (add_base(module, state))
		return -1;
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		int code = classes[i].code;
		/* Damaged data is damaged data, wherever it was found. */
		bool is_data = code == WEIR_E_MISFIT || code == WEIR_E_SPILL_CORRUPT;
		PyObject *base = is_data ? state->exceptions[WEIR_E_DATA] : state->error;

		state->exceptions[code] = new_class(module, classes[i].name, classes[i].doc, base, builtin_of(code));
		if (!state->exceptions[code])
			return -1;
	}
	state->no_permission = new_class(module, "NoPermissionError",
					 "The system does not let this user read or write there.",
					 state->exceptions[WEIR_E_IO], PyExc_PermissionError);
	if (!state->no_permission)
		return -1;
	state->call_failed = new_class(
		module, "CallFailed",
		"A Python function of the flow failed in a worker: payload is what the worker sent about it, "
		"operator names the step, origin the rows.",
		state->error, NULL);
	return state->call_failed ? 0 : -1;
}

int pyext_errors_visit(struct pyext_state *state, visitproc visit, void *arg)
{
	Py_VISIT(state->error);
	Py_VISIT(state->call_failed);
	Py_VISIT(state->no_permission);
	for (int code = 0; code < WEIR_CODE_COUNT; code++)
		Py_VISIT(state->exceptions[code]);
	return 0;
}

void pyext_errors_clear(struct pyext_state *state)
{
	Py_CLEAR(state->error);
	Py_CLEAR(state->call_failed);
	Py_CLEAR(state->no_permission);
	for (int code = 0; code < WEIR_CODE_COUNT; code++)
		Py_CLEAR(state->exceptions[code]);
}

/* ---- raising ---- */

/* Takes the value over; 0 or −1. A value that could not be made (NULL, with its exception) fails too. */
static int set(PyObject *exception, const char *name, PyObject *value)
{
	int failed = value ? PyObject_SetAttrString(exception, name, value) : -1;

	Py_XDECREF(value);
	return failed;
}

/* Texts of the engine are UTF-8 unless a file or its name is not. */
static PyObject *text_of(const char *text, const char *otherwise)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), otherwise);
}

static int set_text(PyObject *exception, const char *name, const char *text)
{
	return text[0] ? set(exception, name, text_of(text, "backslashreplace")) : 0;
}

static int set_number(PyObject *exception, const char *name, bool known, int64_t value)
{
	return known ? set(exception, name, PyLong_FromLongLong(value)) : 0;
}

static int set_attributes(PyObject *exception, const struct weir_error *err)
{
	int failed = set(exception, "code", PyUnicode_FromString(weir_code_name(err->code)));

	failed = failed || set_text(exception, "message", err->message);
	failed = failed || set_text(exception, "operator", err->operator_name);
	failed = failed || set_text(exception, "column", err->column);
	failed = failed || set_text(exception, "value", err->value);
	failed = failed || set_number(exception, "row", err->has_row, err->row);
	failed = failed || set_number(exception, "row_count", err->has_row, err->row_count > 1 ? err->row_count : 1);
	failed = failed || set_number(exception, "line", err->has_line, err->line);
	failed = failed || set_number(exception, "offset", err->has_offset, (int64_t)err->offset);
	if (!failed && err->source[0])
		failed = set(exception, "file", text_of(err->source, "surrogateescape"));
	/* What programs ask an OSError for. */
	if (!failed && PyObject_IsInstance(exception, PyExc_OSError) == 1) {
		int number = err->errno_value                ? err->errno_value
			     : err->code == WEIR_E_NOT_FOUND ? ENOENT
			     : err->code == WEIR_E_EXISTS    ? EEXIST
			     : err->code == WEIR_E_NO_SPACE  ? ENOSPC
							     : EIO;

		failed = set_number(exception, "errno", true, number);
		failed = failed || set_text(exception, "strerror", err->message);
		if (!failed && err->source[0])
			failed = set(exception, "filename", text_of(err->source, "surrogateescape"));
	}
	return failed ? -1 : 0;
}

/* Borrowed. As OSError does it, the number of the system's refusal tells which error it is. */
static PyObject *class_of(const struct pyext_state *state, const struct weir_error *err)
{
	int code = err->code > 0 && err->code < WEIR_CODE_COUNT ? err->code : WEIR_E_INTERNAL;

	if (code == WEIR_E_IO && (err->errno_value == EACCES || err->errno_value == EPERM))
		return state->no_permission;
	return state->exceptions[code] ? state->exceptions[code] : state->error;
}

PyObject *pyext_raise(PyObject *module, const struct weir_error *err)
{
	struct pyext_state *state = pyext_state_of(module);
	char buffer[sizeof(*err)];
	PyObject *text = text_of(weir_error_format(err, buffer, sizeof(buffer)), "backslashreplace");
	PyObject *class = class_of(state, err);
	PyObject *exception = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;

	if (exception && set_attributes(exception, err) == 0)
		PyErr_SetObject(class, exception);
	Py_XDECREF(exception);
	Py_XDECREF(text);
	return NULL;
}

/* (whether rows can be traced, ((source, rows, first row, last row) …)), as weir._origin takes it; None: nobody knows.
 * A source of None: of so many rows it is not known which they are. */
static PyObject *origin_of(const struct weir_failure *failure)
{
	const struct weir_origin *origin = failure->origin;
	size_t count = origin ? origin->parts.count : 0;
	PyObject *parts = count ? PyList_New(0) : NULL, *one = NULL;
	int failed = 0;

	if (!count)
		return Py_NewRef(Py_None);
	for (size_t i = 0; parts && i < count && !failed; i++) {
		const struct weir_origin_part *part = &origin->parts.items[i];

		if (i + 1 == count && origin->rows_between) {
			one = Py_BuildValue("(OLLL)", Py_None, (long long)origin->rows_between, -1LL, -1LL);
			failed = !one || PyList_Append(parts, one);
			Py_CLEAR(one);
		}
		if (!failed) {
			one = Py_BuildValue("(NLLL)", text_of(weir_origin_source(origin, part), "backslashreplace"),
					    (long long)part->rows, (long long)part->row_first,
					    (long long)part->row_last);
			failed = !one || PyList_Append(parts, one);
			Py_CLEAR(one);
		}
	}
	if (!parts || failed) {
		Py_XDECREF(parts);
		return NULL;
	}
	return Py_BuildValue("(NN)", PyBool_FromLong(origin->is_traced), parts);
}

static void failure_release(struct weir_failure *failure)
{
	if (failure->payload)
		weir_chunk_unref(failure->payload);
	weir_origin_unref(failure->origin);
	*failure = (struct weir_failure){0};
}

static PyObject *payload_of(PyObject *module, const struct weir_failure *failure)
{
	struct weir_error err = {0};
	const uint8_t *bytes;
	PyObject *payload;

	if (!failure->payload)
		return PyBytes_FromStringAndSize("", 0);
	if (weir_chunk_pin(failure->payload, &bytes, &err))
		return pyext_raise(module, &err);
	payload = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)failure->payload_size);
	weir_chunk_unpin(failure->payload);
	return payload;
}

PyObject *pyext_raise_failure(PyObject *module, const struct weir_error *err, struct weir_failure *failure)
{
	PyObject *class = pyext_state_of(module)->call_failed, *exception;
	char buffer[sizeof(*err)];

	exception = PyObject_CallFunction(class, "N",
					  text_of(weir_error_format(err, buffer, sizeof(buffer)), "backslashreplace"));
	if (exception && set_attributes(exception, err) == 0 &&
	    set(exception, "payload", payload_of(module, failure)) == 0 &&
	    set(exception, "origin", origin_of(failure)) == 0 &&
	    set(exception, "operator", text_of(failure->operator_name, "backslashreplace")) == 0)
		PyErr_SetObject(class, exception);
	Py_XDECREF(exception);
	failure_release(failure);
	return NULL;
}

PyObject *pyext_failure_new(PyObject *module, struct weir_failure *failure)
{
	PyObject *name = text_of(failure->operator_name, "backslashreplace"), *origin = origin_of(failure);
	PyObject *payload = payload_of(module, failure), *made = NULL;

	if (name && origin && payload)
		made = PyTuple_Pack(3, name, origin, payload);
	Py_XDECREF(name);
	Py_XDECREF(origin);
	Py_XDECREF(payload);
	failure_release(failure);
	return made;
}

PyObject *pyext_raise_free(PyObject *module, struct weir_error *err)
{
	pyext_raise(module, err);
	weir_error_free(err);
	return NULL;
}
