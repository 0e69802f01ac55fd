/* pyext: the module weir._weir, CPython's limited API of 3.11.
 *
 *     module.c   the module: what it contains, its state, its end      values.h   batches ⇄ Python values (batch.c …)
 *     errors.c   engine errors as exceptions                           log.c      log lines on their way to `logging`
 *                                                                      prints.c   what user code printed
 *     session.c  Session      flow.c  Flow      task.c  Task           texts.c    words for the engine
 *     block.c    Block: rows that are kept                             call.c     Flow.call: Python functions
 *     share.c    Shared: rows for another process                      display.c  what a Task shows while one waits
 *     zygote.c   Zygote: where workers come from                       worker.c   Worker: the other end, there
 *
 * Rules of the folder:
 *   - Types are heap types of one module, made from specs, without Py_TPFLAGS_BASETYPE: their module is found by
 *     PyType_GetModule. Nothing is global; what several files need is in struct pyext_state.
 *   - Functions return NULL (or −1) with an exception set, as everywhere in CPython. All want the GIL, and let it go
 *     around anything that waits, takes a lock that a run holds for long, or frees what may wait.
 *   - The engine's threads never call Python. What they have to say is kept in C until a Python thread comes by.
 *   - After a fork, what the parent made belongs to the parent: objects remember the process that made them
 *     (pyext_here), are refused in the child, and are forgotten there, not freed. A zygote imports the module and
 *     forks, so the module itself is everybody's; memory that it makes when first needed is made anew in a child.
 */
#ifndef WEIR_PYEXT_PYEXT_IMPL_H
#define WEIR_PYEXT_PYEXT_IMPL_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN

#include "base/error.h"
#include "api/handles.h"

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

struct weir_launcher;
struct weir_block;
struct weir_failure;
struct pyext_values;
struct pyext_log;
struct task_object;

struct pyext_state {
	/* values.h */
	struct pyext_values *values;
	/* errors.c: exceptions[code] raises for engine errors; a reference each, several codes may share one. */
	PyObject *error, *call_failed, *no_permission, *exceptions[WEIR_CODE_COUNT];
	PyTypeObject *session_type, *flow_type, *task_type, *worker_type, *worker_task_type, *zygote_type, *block_type,
		*shared_type, *output_type;
	/* task.c: tasks that are not stopped yet, so that the end of the interpreter can stop them. Guarded by the
	 * GIL. */
	struct task_object *tasks;
	bool at_exit;                /* the hook of the interpreter's end is set */
	bool is_ending;              /* and was called, */
	unsigned long ending_thread; /* by this thread */
	struct pyext_log *log;       /* of the process log_pid */
	int64_t log_pid;
};

struct pyext_state *pyext_state_of(PyObject *module);
/* Of an object of one of the module's types: borrowed. */
PyObject *pyext_module_of(PyObject *self);

/* ---- errors.c ---- */

int pyext_add_errors(PyObject *module);
int pyext_errors_visit(struct pyext_state *state, visitproc visit, void *arg);
void pyext_errors_clear(struct pyext_state *state);
/* Raises what the engine's error says: a subclass of Error and of the built-in exception that fits, with the attributes
 * code, message, operator, file, column, value, row, row_count, line, offset (None where nothing is known). Always
 * NULL. */
PyObject *pyext_raise(PyObject *module, const struct weir_error *err);
/* The same for an error of a public function; frees it. */
PyObject *pyext_raise_free(PyObject *module, struct weir_error *err);

/* The same for user code that failed in a worker: CallFailed, with payload, operator and origin. Releases the
 * failure. */
/* As (operator, origin, payload); releases the failure. */
PyObject *pyext_failure_new(PyObject *module, struct weir_failure *failure);
PyObject *pyext_raise_failure(PyObject *module, const struct weir_error *err, struct weir_failure *failure);

/* ---- processes ---- */

/* Whether this process made the object: `pid` is what getpid said then. */
bool pyext_here(int64_t pid);
/* The same, with an exception: "a Task cannot be used in a forked process". */
int pyext_need_here(int64_t pid, const char *what);

/* ---- log.c ---- */

/* Lines of the engine, from any thread, until a Python thread hands them to logging.getLogger("weir"). */
struct pyext_log *pyext_log_new(void);
void pyext_log_free(struct pyext_log *log);
struct pyext_log *pyext_log_here(PyObject *module); /* this process's; NULL with an exception */
void pyext_log_write(void *log, enum weir_log_level level, const char *line); /* a weir_log_sink's */
bool pyext_log_waits(struct pyext_log *log);                                  /* there are some */
int pyext_log_drain(struct pyext_log *log); /* 0 or −1: a handler of the program may raise */

/* ---- session.c, flow.c, task.c ---- */

int pyext_add_session(PyObject *module);
int pyext_add_output(PyObject *module);
int pyext_add_flow(PyObject *module);
int pyext_add_task(PyObject *module);
int pyext_add_block(PyObject *module);
int pyext_add_share(PyObject *module);
int pyext_add_worker(PyObject *module);
int pyext_add_zygote(PyObject *module);
/* What starts workers, of a Zygote, which is kept until the result is given to pyext_zygote_release, by any thread,
 * with or without the GIL. NULL with an exception for anything else. */
void *pyext_zygote_keep(PyObject *module, PyObject *zygote, const struct weir_launcher **launcher);
void pyext_zygote_release(void *kept);

struct session_object {
	PyObject_HEAD
	struct weir_session *session;
	int64_t pid;
	int64_t charged; /* Session.charge: memory of the program's own */
};

struct flow_object {
	PyObject_HEAD
	PyObject *session;
	struct weir_flow *flow;
	int64_t pid;
	uint32_t lookers; /* threads that use the flow without the GIL: it must not change */
};
int pyext_flow_may_change(struct flow_object *self); /* 0, or −1 with an exception */
/* After a step: None, or the flow's error raised. */
PyObject *pyext_flow_stepped(struct flow_object *self, int code);
/* Methods of Flow, in call.c and block.c. */
PyObject *pyext_flow_call(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *pyext_flow_read_blocks(PyObject *self, PyObject *blocks);
/* A batch of no rows: it has the names and types, and all that can be asked of a batch. */
PyObject *pyext_batch_of_schema(PyObject *module, const struct weir_schema *schema);
/* Takes a reference of its own. */
PyObject *pyext_block_new(PyObject *module, PyObject *session, struct weir_block *block);

/* Starts what the flow says; a signal's handler runs meanwhile. −1 with an exception. */
int pyext_start(PyObject *module, struct flow_object *flow, enum api_end end, const struct weir_start_options *options,
		struct weir_task **out);
/* A started task, of which the reference is taken over, also on failure. `session` is the one it runs in. */
PyObject *pyext_task_new(PyObject *module, PyObject *session, struct weir_task *task, bool gives_rows);
/* Stops whatever still runs: the interpreter is about to end. */
PyObject *pyext_stop_tasks(PyObject *module, PyObject *unused);
PyObject *pyext_end_with(PyObject *module, PyObject *lifeline);

/* ---- texts.c ---- */

/* UTF-8 texts of Python objects, valid as long as the list; items ends with a NULL. All-zero is empty. */
struct pyext_texts {
	PyObject *bytes; /* a list that owns them */
	const char **items;
	size_t count, capacity;
};
int pyext_texts_init(struct pyext_texts *texts, Py_ssize_t capacity);
void pyext_texts_release(struct pyext_texts *texts);
/* Of a str, bytes or path; None, where it may be, is NULL. `what` is for the TypeError: "a word of a step". */
int pyext_texts_add(struct pyext_texts *texts, PyObject *object, bool may_be_none, const char *what);
/* Of each item of a sequence; NULL: none. Released by the caller also on failure. */
int pyext_texts_of(struct pyext_texts *out, PyObject *sequence, const char *what);

/* For "O&": None or a path (str, bytes, os.PathLike) as a bytes object or NULL; a reference of the caller's. */
int pyext_path_converter(PyObject *object, void *out);

/* ---- display.c ---- */

struct pyext_display_options {
	int fd;           /* of a terminal, */
	PyObject *write;  /* or a function that is called with text */
	uint64_t from_ns; /* nothing is shown before this */
	bool operators, whole_names;
	/* of a loop: its since_ns is when the program began to wait, 0 while it works; NULL: it always waits */
	PyObject *asking;
};
struct pyext_display;
struct pyext_display *pyext_display_new(struct weir_task *task, const struct pyext_display_options *options);
void pyext_display_free(struct pyext_display *display);
int pyext_display_tick(struct pyext_display *display); /* draws, if it is time to; −1: a function of Python raised */
void pyext_display_hide(struct pyext_display *display);
/* Something else is about to be printed; NULL: by a task without a display. */
void pyext_display_aside(struct pyext_display *display);

/* ---- prints.c ---- */

/* What user code printed since the last call: a new list of (label, stream, line). */
PyObject *pyext_prints_take(struct weir_task *task);

/* A type from its spec, as an attribute of the module; the reference in *out is the state's. */
int pyext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);

#endif
