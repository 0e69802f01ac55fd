/* What user code printed in workers, as Python sees it: (label, stream, line), the label as in "(MapBatches(f)
 * pid=12)".
 *
 * The engine hands lines out inside a lock of its own, so they are copied there, and become Python's afterwards: making
 * an object may run any code of the program. */
#include "base/mem.h"
#include "backend/backend.h"
#include "pyext/pyext_impl.h"

#include <stdio.h>
#include <string.h>

struct line {
	struct line *next;
	char *label, *text; /* in the same memory */
	size_t size;
	uint64_t dropped;
	bool is_stderr, has_text;
};

struct lines {
	struct line *first, **last;
	uint64_t lost; /* for want of memory */
};

static void copy_line(void *state, const struct weir_run_print *print)
{
	struct lines *lines = state;
	size_t label_size = strlen(print->operator_name) + 32;
	struct line *line = weir_plain_alloc(sizeof(*line) + label_size + print->size + 1);

	if (!line) {
		lines->lost++;
		return;
	}
	line->label = (char *)(line + 1);
	line->text = line->label + label_size;
	line->size = print->size;
	line->dropped = print->dropped;
	line->is_stderr = print->is_stderr;
	if (print->pid) /* one that has not greeted has none yet */
		snprintf(line->label, label_size, "(%s pid=%lld)", print->operator_name, (long long)print->pid);
	else
		snprintf(line->label, label_size, "(%s)", print->operator_name);
	line->has_text = print->text != NULL;
	line->next = NULL;
	if (print->text)
		memcpy(line->text, print->text, print->size);
	*lines->last = line;
	lines->last = &line->next;
}

/* Takes the text over. */
static int append(PyObject *list, const char *label, const char *stream, PyObject *text)
{
	PyObject *tuple = text ? Py_BuildValue("(NsO)",
					       PyUnicode_DecodeUTF8(label, (Py_ssize_t)strlen(label), "replace"),
					       stream, text)
			       : NULL;
	int failed = !tuple || PyList_Append(list, tuple);

	Py_XDECREF(tuple);
	Py_XDECREF(text);
	return failed ? -1 : 0;
}

static int append_line(PyObject *list, const struct line *line)
{
	const char *stream = line->is_stderr ? "stderr" : "stdout";

	if (line->dropped &&
	    append(list, line->label, "stderr",
		   PyUnicode_FromFormat("%llu lines were printed faster than they could be shown, and are lost",
					(unsigned long long)line->dropped)))
		return -1;
	if (!line->has_text)
		return 0;
	return append(list, line->label, stream, PyUnicode_DecodeUTF8(line->text, (Py_ssize_t)line->size, "replace"));
}

PyObject *pyext_prints_take(struct weir_task *task)
{
	struct lines lines = {.last = &lines.first};
	PyObject *list;
	struct line *line;

	Py_BEGIN_ALLOW_THREADS;
	api_task_prints(task, copy_line, &lines);
	Py_END_ALLOW_THREADS;
	list = PyList_New(0);
	if (list && lines.lost) {
		Py_CLEAR(list);
		PyErr_NoMemory();
	}
	while ((line = lines.first)) {
		lines.first = line->next;
		if (list && append_line(list, line))
			Py_CLEAR(list);
		weir_plain_free(line);
	}
	return list;
}
