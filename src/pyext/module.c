/* The module weir._weir: what it contains, its state, its end. Making it starts nothing and opens nothing. */
#include "weir/weir.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <unistd.h>

struct pyext_state *pyext_state_of(PyObject *module)
{
	return PyModule_GetState(module);
}

PyObject *pyext_module_of(PyObject *self)
{
	return PyType_GetModule(Py_TYPE(self));
}

int pyext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
	*out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *out ? PyModule_AddType(module, *out) : -1;
}

int pyext_path_converter(PyObject *object, void *out)
{
	*(PyObject **)out = NULL;
	return object == Py_None ? 1 : PyUnicode_FSConverter(object, out);
}

/* ---- processes ---- */

bool pyext_here(int64_t pid)
{
	return pid == (int64_t)getpid();
}

int pyext_need_here(int64_t pid, const char *what)
{
	if (pyext_here(pid))
		return 0;
	PyErr_Format(PyExc_RuntimeError,
		     "this %s belongs to the process %lld, of which this one is a fork: make it here", what,
		     (long long)pid);
	return -1;
}

struct pyext_log *pyext_log_here(PyObject *module)
{
	struct pyext_state *state = pyext_state_of(module);
	int64_t pid = (int64_t)getpid();

	/* The parent's may be locked for ever in a child: it is left behind. */
	if (state->log && state->log_pid == pid)
		return state->log;
	state->log = pyext_log_new();
	state->log_pid = pid;
	return state->log;
}

/* ---- the module ---- */

static int module_exec(PyObject *module)
{
	if (pyext_add_errors(module) || pyext_add_values(module) || pyext_add_session(module) ||
	    pyext_add_output(module) || pyext_add_flow(module) || pyext_add_task(module) || pyext_add_worker(module) ||
	    pyext_add_zygote(module) || pyext_add_block(module) || pyext_add_share(module))
		return -1;
	return PyModule_AddStringConstant(module, "__version__", weir_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct pyext_state *state = pyext_state_of(module);

	Py_VISIT(state->session_type);
	Py_VISIT(state->flow_type);
	Py_VISIT(state->task_type);
	Py_VISIT(state->worker_type);
	Py_VISIT(state->worker_task_type);
	Py_VISIT(state->zygote_type);
	Py_VISIT(state->block_type);
	Py_VISIT(state->shared_type);
	Py_VISIT(state->output_type);
	if (state->values && pyext_values_visit(state->values, visit, arg))
		return -1;
	return pyext_errors_visit(state, visit, arg);
}

static int module_clear(PyObject *module)
{
	struct pyext_state *state = pyext_state_of(module);

	Py_CLEAR(state->session_type);
	Py_CLEAR(state->flow_type);
	Py_CLEAR(state->task_type);
	Py_CLEAR(state->worker_type);
	Py_CLEAR(state->worker_task_type);
	Py_CLEAR(state->zygote_type);
	Py_CLEAR(state->block_type);
	Py_CLEAR(state->shared_type);
	Py_CLEAR(state->output_type);
	pyext_errors_clear(state);
	return 0;
}

static void module_free(void *module)
{
	struct pyext_state *state = pyext_state_of(module);

	module_clear(module);
	if (state->values)
		pyext_values_free(state->values);
	state->values = NULL;
	/* Not the log: a thread of a session that an array keeps alive may still have something to say. */
}

static PyMethodDef module_methods[] = {
	{"_stop_tasks", pyext_stop_tasks, METH_NOARGS,
	 "Stops every task that still runs; for the end of the interpreter."},
	{"end_with", pyext_end_with, METH_O,
	 "end_with($module, lifeline, /)\n--\n\nThis process, and what it has started, is killed when the pipe hangs up."},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, module_exec},
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "weir._weir",
	.m_doc = "The engine's handles. Programs use the package weir.",
	.m_size = sizeof(struct pyext_state),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__weir(void)
{
	return PyModuleDef_Init(&module_def);
}
