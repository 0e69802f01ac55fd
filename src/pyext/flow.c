/* Flow: a recipe of steps, as the words that the command takes, and what words cannot carry.
 *
 * A mistake is raised by the step that makes it; the flow keeps it too, and is of no more use then. Threads: looking at
 * a flow (schema, explain, start, copy) lets the GIL go, and any number may look; a step meanwhile is refused. */
#include "base/list.h"
#include "base/mem.h"
#include "arrow/cdata.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <string.h>
#include <unistd.h>

static struct flow_object *flow_wrap(PyTypeObject *type, PyObject *session, struct weir_flow *flow)
{
	struct flow_object *self = PyObject_New(struct flow_object, type);

	if (!self) {
		weir_flow_free(flow);
		return NULL;
	}
	self->session = Py_NewRef(session);
	self->flow = flow;
	self->pid = (int64_t)getpid();
	self->lookers = 0;
	if (!flow) {
		PyErr_NoMemory();
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return self;
}

static PyObject *flow_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"session", NULL};
	struct pyext_state *state = pyext_state_of(PyType_GetModule(type));
	PyObject *session;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Flow", names, state->session_type, &session))
		return NULL;
	if (pyext_need_here(((struct session_object *)session)->pid, "Session"))
		return NULL;
	return (PyObject *)flow_wrap(type, session, weir_flow_new(((struct session_object *)session)->session));
}

static void flow_dealloc(PyObject *object)
{
	struct flow_object *self = (struct flow_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (self->flow && pyext_here(self->pid)) {
		/* What it reads may be a stream of the program's, whose release may want the GIL in another thread. */
		Py_BEGIN_ALLOW_THREADS;
		weir_flow_free(self->flow);
		Py_END_ALLOW_THREADS;
	}
	Py_XDECREF(self->session);
	PyObject_Free(self);
	Py_DECREF(type);
}

int pyext_flow_may_change(struct flow_object *self)
{
	if (pyext_need_here(self->pid, "Flow"))
		return -1;
	if (!self->lookers)
		return 0;
	PyErr_SetString(PyExc_RuntimeError, "the Flow is in use by another thread: give that a copy");
	return -1;
}

PyObject *pyext_flow_stepped(struct flow_object *self, int code)
{
	struct weir_error err = {0};

	if (!code)
		Py_RETURN_NONE;
	api_flow_check(self->flow, &err);
	return pyext_raise(pyext_module_of((PyObject *)self), &err);
}

/* ---- words ---- */

/* A dict, or pairs of a name and a value or None. */
static int texts_of_options(PyObject *options, struct pyext_texts *out)
{
	PyObject *list = !options                ? PyList_New(0)
			 : PyDict_Check(options) ? PyDict_Items(options)
						 : PySequence_List(options);
	int failed = !list || pyext_texts_init(out, list ? 2 * PyList_Size(list) : 0);

	for (Py_ssize_t i = 0; !failed && i < PyList_Size(list); i++) {
		PyObject *pair = PySequence_Tuple(PyList_GetItem(list, i));

		if (pair && PyTuple_Size(pair) != 2)
			PyErr_SetString(PyExc_ValueError, "an option of a step is a pair: name, value");
		failed = !pair || PyTuple_Size(pair) != 2 ||
			 pyext_texts_add(out, PyTuple_GetItem(pair, 0), false, "the name of an option") ||
			 pyext_texts_add(out, PyTuple_GetItem(pair, 1), true, "the value of an option");
		Py_XDECREF(pair);
	}
	Py_XDECREF(list);
	return failed ? -1 : 0;
}

/* Texts that are names and values by turns, as the C API wants them: ended by an empty option, to be freed by
 * PyMem_Free. */
static struct weir_option *settings_of(const struct pyext_texts *options)
{
	struct weir_option *settings = PyMem_Calloc(options->count / 2 + 1, sizeof(*settings));

	if (!settings) {
		PyErr_NoMemory();
		return NULL;
	}
	for (size_t i = 0; i < options->count / 2; i++)
		settings[i] = (struct weir_option){options->items[2 * i], options->items[2 * i + 1]};
	return settings;
}

static PyObject *flow_step(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"verb", "words", "options", NULL};
	struct flow_object *self = (struct flow_object *)object;
	PyObject *words = NULL, *options = NULL, *done = NULL;
	struct pyext_texts word_texts = {0}, option_texts = {0};
	struct weir_option *settings = NULL;
	const char *verb;
	int code;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|OO:step", names, &verb, &words, &options) ||
	    pyext_flow_may_change(self))
		return NULL;
	if (pyext_texts_of(&word_texts, words, "a word of a step") || texts_of_options(options, &option_texts))
		goto out;
	settings = settings_of(&option_texts);
	if (!settings)
		goto out;
	code = weir_flow_step(self->flow, verb, word_texts.items, settings);
	done = pyext_flow_stepped(self, code);
out:
	PyMem_Free(settings);
	pyext_texts_release(&option_texts);
	pyext_texts_release(&word_texts);
	return done;
}

static PyObject *flow_chain(PyObject *object, PyObject *text)
{
	struct flow_object *self = (struct flow_object *)object;
	struct pyext_texts texts = {0};
	PyObject *done = NULL;

	if (pyext_flow_may_change(self))
		return NULL;
	if (pyext_texts_init(&texts, 1) == 0 && pyext_texts_add(&texts, text, false, "a chain") == 0)
		done = pyext_flow_stepped(self, weir_flow_chain(self->flow, texts.items[0]));
	pyext_texts_release(&texts);
	return done;
}

/* ---- what words cannot carry ---- */

static PyObject *flow_union(PyObject *object, PyObject *other)
{
	struct flow_object *self = (struct flow_object *)object;

	if (Py_TYPE(other) != Py_TYPE(object)) {
		PyErr_Format(PyExc_TypeError, "union needs a Flow, not %R", (PyObject *)Py_TYPE(other));
		return NULL;
	}
	if (pyext_flow_may_change(self) || pyext_need_here(((struct flow_object *)other)->pid, "Flow"))
		return NULL;
	return pyext_flow_stepped(self, weir_flow_union(self->flow, ((struct flow_object *)other)->flow));
}

static PyObject *flow_join(PyObject *object, PyObject *args)
{
	struct flow_object *self = (struct flow_object *)object;
	PyObject *other, *options = NULL, *done = NULL;
	struct pyext_texts option_texts = {0};
	struct weir_option *settings = NULL;

	if (!PyArg_ParseTuple(args, "OO:join", &other, &options))
		return NULL;
	if (Py_TYPE(other) != Py_TYPE(object)) {
		PyErr_Format(PyExc_TypeError, "join needs a Flow, not %R", (PyObject *)Py_TYPE(other));
		return NULL;
	}
	if (pyext_flow_may_change(self) || pyext_need_here(((struct flow_object *)other)->pid, "Flow") ||
	    texts_of_options(options, &option_texts))
		goto out;
	settings = settings_of(&option_texts);
	if (!settings)
		goto out;
	done = pyext_flow_stepped(self, weir_flow_join(self->flow, ((struct flow_object *)other)->flow, settings));
out:
	PyMem_Free(settings);
	pyext_texts_release(&option_texts);
	return done;
}

static PyObject *flow_read_stream(PyObject *object, PyObject *source)
{
	struct flow_object *self = (struct flow_object *)object;
	struct ArrowArrayStream *stream;
	PyObject *capsule, *done = NULL;

	if (pyext_flow_may_change(self))
		return NULL;
	capsule = PyObject_CallMethod(source, "__arrow_c_stream__", NULL);
	if (!capsule)
		return NULL;
	stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
	/* Moved: what is left in the capsule is a released stream. */
	if (stream)
		done = pyext_flow_stepped(self, weir_flow_read_stream(self->flow, stream));
	Py_DECREF(capsule);
	return done;
}

static PyObject *flow_copy(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct flow_object *self = (struct flow_object *)object;

	if (pyext_need_here(self->pid, "Flow"))
		return NULL;
	return (PyObject *)flow_wrap(Py_TYPE(object), self->session, weir_flow_copy(self->flow));
}

/* ---- looking and running ---- */

PyObject *pyext_batch_of_schema(PyObject *module, const struct weir_schema *schema)
{
	struct weir_account *account = pyext_values_account(module);
	struct weir_error err = {0};
	struct weir_batch *batch = NULL;
	struct WEIR_LIST(struct weir_array *) columns = {0};
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		struct weir_builder builder = {0};
		struct weir_array *column = NULL;

		code = weir_builder_init(&builder, schema->fields[i].type, account, &err);
		if (!code && !(column = weir_builder_finish(&builder, &err)))
			code = err.code;
		weir_builder_release(&builder);
		if (!code)
			code = weir_list_push(&columns, account, &err, column);
		if (code)
			weir_array_unref(column);
	}
	if (!code && !(batch = weir_batch_new(account, schema, 0, columns.items, &err)))
		code = err.code;
	for (size_t i = 0; i < columns.count; i++)
		weir_array_unref(columns.items[i]);
	weir_list_release(&columns, account);
	return code ? pyext_raise(module, &err) : pyext_batch_new(module, batch, NULL);
}

static PyObject *flow_schema(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct flow_object *self = (struct flow_object *)object;
	PyObject *module = pyext_module_of(object), *batch = NULL;
	struct ArrowSchema exported = {0};
	struct weir_error *error = NULL, err = {0};
	struct weir_schema *schema = NULL;

	if (pyext_need_here(self->pid, "Flow"))
		return NULL;
	self->lookers++;
	Py_BEGIN_ALLOW_THREADS;
	weir_flow_schema(self->flow, &exported, &error);
	Py_END_ALLOW_THREADS;
	self->lookers--;
	if (error)
		return pyext_raise_free(module, error);
	if (weir_cdata_import_schema(pyext_values_account(module), &exported, &schema, &err))
		return pyext_raise(module, &err);
	batch = pyext_batch_of_schema(module, schema);
	weir_schema_unref(schema);
	return batch;
}

static PyObject *flow_explain(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct flow_object *self = (struct flow_object *)object;
	struct weir_error *error = NULL;
	char *text = NULL;
	PyObject *shown;

	if (pyext_need_here(self->pid, "Flow"))
		return NULL;
	self->lookers++;
	Py_BEGIN_ALLOW_THREADS;
	weir_flow_explain(self->flow, &text, &error);
	Py_END_ALLOW_THREADS;
	self->lookers--;
	if (error)
		return pyext_raise_free(pyext_module_of(object), error);
	shown = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
	weir_text_free(text);
	return shown;
}

static int end_of(const char *name, enum api_end *out)
{
	static const struct {
		const char *name;
		enum api_end end;
	} ends[] = {{"collect", API_END_COLLECT},
		    {"count", API_END_COUNT},
		    {"sink", API_END_NONE},
		    {"blocks", API_END_BLOCKS}};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		if (strcmp(ends[i].name, name) == 0) {
			*out = ends[i].end;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError, "end is '%s', not collect, count, sink or blocks", name);
	return -1;
}

static PyObject *flow_start(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"end", "batch_rows", NULL};
	struct flow_object *self = (struct flow_object *)object;
	PyObject *module = pyext_module_of(object);
	struct weir_start_options options = {.struct_size = sizeof(options)};
	struct weir_task *task = NULL;
	const char *end_name = "collect";
	long long batch_rows = 0;
	enum api_end end;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|sL:start", names, &end_name, &batch_rows) ||
	    end_of(end_name, &end) || pyext_need_here(self->pid, "Flow"))
		return NULL;
	if (batch_rows < 0) {
		PyErr_Format(PyExc_ValueError, "batch_rows is %lld", batch_rows);
		return NULL;
	}
	options.batch_rows = batch_rows;
	if (pyext_start(module, self, end, &options, &task))
		return NULL;
	return pyext_task_new(module, self->session, task, end == API_END_COLLECT);
}

static PyMethodDef flow_methods[] = {
	{"step", (PyCFunction)(void (*)(void))flow_step, METH_VARARGS | METH_KEYWORDS,
	 "step($self, verb, words=(), options=())\n--\n\nAdds a step by its verb, as the command takes it. options: a dict, or pairs."},
	{"chain", flow_chain, METH_O,
	 "chain($self, text, /)\n--\n\nAdds steps as the command takes them: \"filter 'a > 1' then limit 5\"."},
	{"union", flow_union, METH_O,
	 "union($self, other, /)\n--\n\nThe rows so far, then those of the other Flow, which is copied."},
	{"join", flow_join, METH_VARARGS,
	 "join($self, other, options, /)\n--\n\nRows put together with those of the other Flow, which is copied, that have equal "
	 "keys; options are those of the verb."},
	{"read_stream", flow_read_stream, METH_O,
	 "read_stream($self, source, /)\n--\n\nReads anything that has __arrow_c_stream__, once."},
	{"read_blocks", pyext_flow_read_blocks, METH_O,
	 "read_blocks($self, blocks, /)\n--\n\nReads Blocks and Batches, at least one, in their order, any number of times."},
	{"call", (PyCFunction)(void (*)(void))pyext_flow_call, METH_VARARGS | METH_KEYWORDS,
	 "call($self, spec, setup, launcher)\n--\n\nAdds a step that runs in worker processes. spec: the fields of struct weir_call; "
	 "setup: descriptor\nand size of what each worker is given; launcher: a Zygote."},
	{"copy", flow_copy, METH_NOARGS, "copy($self)\n--\n\nThe same steps, to be continued in another way."},
	{"schema", flow_schema, METH_NOARGS,
	 "schema($self)\n--\n\nA Batch of no rows with the columns that the flow gives. Opens the first file."},
	{"explain", flow_explain, METH_NOARGS, "explain($self)\n--\n\nWhat would be done, as text."},
	{"start", (PyCFunction)(void (*)(void))flow_start, METH_VARARGS | METH_KEYWORDS,
	 "start($self, end='collect', batch_rows=0)\n--\n\nStarts a Task in the background: its rows are handed out (collect), counted "
	 "(count), kept\n(blocks), or written by the step that ends the flow (sink)."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot flow_slots[] = {
	{Py_tp_doc, "Flow(session)\n--\n\nA recipe of steps; nothing runs before start."},
	{Py_tp_new, flow_new},
	{Py_tp_dealloc, flow_dealloc},
	{Py_tp_methods, flow_methods},
	{0, NULL},
};

static PyType_Spec flow_spec = {
	.name = "weir._weir.Flow",
	.basicsize = sizeof(struct flow_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = flow_slots,
};

int pyext_add_flow(PyObject *module)
{
	return pyext_add_type(module, &flow_spec, &pyext_state_of(module)->flow_type);
}
