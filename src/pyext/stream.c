/* An Arrow stream whose batches Python makes, one at a time, when they are asked for: __arrow_c_stream__ of a Dataset.
 *
 *     consumer, any thread ─ get_next ─▶ GIL ─▶ make() once, then next() ─▶ Batch ─▶ ArrowArray over its memory
 *
 * The schema is that of a Batch which is given, or which a function makes when the schema, or a batch, is first wanted;
 * what differs from it ends the stream with an error. After the end of the interpreter there is nothing to call, and
 * what Python held is left to the process's own end. */
#include "pyext/values_impl.h"

#include <errno.h>
#include <stdio.h>

struct python_stream {
	PyObject *module, *make, *iterator; /* iterator NULL: nothing has been asked for */
	PyObject *make_first;               /* gives `first`; NULL: it was given */
	struct weir_batch *first;           /* of no rows, for the schema; NULL: nobody has asked */
	struct api_keeper *keeper;          /* its */
	bool ended;
	char message[2048];
};

static int fail(struct python_stream *stream, const struct weir_error *err)
{
	weir_error_format(err, stream->message, sizeof(stream->message));
	return err->code == WEIR_E_MEMORY ? ENOMEM : EINVAL;
}

/* The pending exception as the stream's message. */
static int fail_python(struct python_stream *stream)
{
	PyObject *kind, *value, *traceback, *text = NULL;
	const char *utf8 = NULL;

	PyErr_Fetch(&kind, &value, &traceback);
	PyErr_NormalizeException(&kind, &value, &traceback);
	if (value)
		text = PyObject_Str(value);
	if (text)
		utf8 = PyUnicode_AsUTF8AndSize(text, NULL);
	PyErr_Clear();
	snprintf(stream->message, sizeof(stream->message), "%s", utf8 ? utf8 : "the Dataset failed");
	Py_XDECREF(text);
	Py_XDECREF(kind);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return EIO;
}

static void take_first(struct python_stream *stream, PyObject *schema, struct weir_batch *first)
{
	stream->first = weir_batch_ref(first);
	stream->keeper = ((struct batch_object *)schema)->keeper;
	api_keeper_ref(stream->keeper);
}

/* Under the GIL. */
static int make_first(struct python_stream *stream)
{
	PyObject *schema = PyObject_CallNoArgs(stream->make_first);
	struct weir_batch *first = schema ? pyext_batch_get(stream->module, schema) : NULL;

	if (first)
		take_first(stream, schema, first);
	Py_XDECREF(schema);
	return first ? 0 : fail_python(stream);
}

static int need_first(struct python_stream *stream)
{
	PyGILState_STATE state;
	int code;

	if (stream->first)
		return 0;
	if (!Py_IsInitialized()) {
		snprintf(stream->message, sizeof(stream->message), "Python has ended");
		return EIO;
	}
	state = PyGILState_Ensure();
	code = make_first(stream);
	PyGILState_Release(state);
	return code;
}

static int get_schema(struct ArrowArrayStream *out, struct ArrowSchema *schema)
{
	struct python_stream *stream = out->private_data;
	struct weir_error err = {0};
	int code = need_first(stream);

	if (code)
		return code;
	return api_export_schema(stream->first->schema, schema, &err) ? fail(stream, &err) : 0;
}

/* Under the GIL. */
static int next_batch(struct python_stream *stream, struct ArrowArray *array)
{
	struct weir_error err = {0};
	struct weir_batch *batch;
	PyObject *item;
	int code = 0;

	if (!stream->iterator) {
		PyObject *made = PyObject_CallNoArgs(stream->make);

		stream->iterator = made ? PyObject_GetIter(made) : NULL;
		Py_XDECREF(made);
		if (!stream->iterator)
			return fail_python(stream);
	}
	item = PyIter_Next(stream->iterator);
	if (!item) {
		stream->ended = true;
		return PyErr_Occurred() ? fail_python(stream) : 0;
	}
	batch = pyext_batch_get(stream->module, item);
	if (!batch) {
		code = fail_python(stream);
	} else if (!weir_schema_equal(batch->schema, stream->first->schema, false)) {
		snprintf(stream->message, sizeof(stream->message),
			 "a later block has other columns or types than the first, whose schema the stream has");
		code = EINVAL;
	} else if (api_export_batch(((struct batch_object *)item)->keeper, batch, array, &err)) {
		code = fail(stream, &err);
	}
	Py_DECREF(item);
	return code;
}

static int get_next(struct ArrowArrayStream *out, struct ArrowArray *array)
{
	struct python_stream *stream = out->private_data;
	PyGILState_STATE state;
	int code;

	*array = (struct ArrowArray){0};
	if (stream->ended)
		return 0;
	code = need_first(stream);
	if (code)
		return code;
	if (!Py_IsInitialized()) {
		snprintf(stream->message, sizeof(stream->message), "Python has ended");
		return EIO;
	}
	state = PyGILState_Ensure();
	code = next_batch(stream, array);
	PyGILState_Release(state);
	return code;
}

static const char *get_last_error(struct ArrowArrayStream *out)
{
	const struct python_stream *stream = out->private_data;

	return stream->message[0] ? stream->message : NULL;
}

static void release(struct ArrowArrayStream *out)
{
	struct python_stream *stream = out->private_data;
	struct api_keeper *keeper = stream->keeper;

	out->release = NULL;
	if (stream->first)
		weir_batch_unref(stream->first);
	if (Py_IsInitialized()) {
		PyGILState_STATE state = PyGILState_Ensure();

		Py_XDECREF(stream->iterator); /* a generator that is dropped stops its run */
		Py_XDECREF(stream->make);
		Py_XDECREF(stream->make_first);
		Py_XDECREF(stream->module);
		PyGILState_Release(state);
	}
	weir_plain_free(stream);
	if (keeper)
		api_keeper_unref(keeper);
}

PyObject *values_stream(PyObject *module, PyObject *args)
{
	struct ArrowArrayStream out = {get_schema, get_next, get_last_error, release, NULL};
	struct python_stream *stream;
	struct weir_batch *first = NULL;
	PyObject *schema, *make;

	if (!PyArg_ParseTuple(args, "OO:batch_stream", &schema, &make))
		return NULL;
	if (!PyCallable_Check(schema)) {
		first = pyext_batch_get(module, schema);
		if (!first)
			return NULL;
	}
	if (!PyCallable_Check(make)) {
		PyErr_Format(PyExc_TypeError, "batch_stream needs a function that gives batches, not %R",
			     (PyObject *)Py_TYPE(make));
		return NULL;
	}
	stream = weir_plain_alloc(sizeof(*stream));
	if (!stream)
		return PyErr_NoMemory();
	*stream = (struct python_stream){
		.module = Py_NewRef(module), .make = Py_NewRef(make), .make_first = first ? NULL : Py_NewRef(schema)};
	if (first)
		take_first(stream, schema, first);
	out.private_data = stream;
	return arrow_stream_capsule(&out);
}
