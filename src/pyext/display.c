/* What a Task shows of itself while somebody waits for it: on a terminal, or as text that a function of Python writes
 * (a notebook).
 *
 * There is no thread for it: whoever waits looks up ten times a second anyway, and draws then, without the GIL. A
 * display of a loop is drawn only while the program waits for its next batch, and taken off before it gets it, so that
 * what it prints is never torn: `asking` is an object of Python that says since when it waits, also where another
 * thread fetches batches ahead. */
#include "base/clock.h"
#include "base/mem.h"
#include "observe/progress.h"
#include "pyext/pyext_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS_TEXT = 100 };
static const uint64_t draw_ns = 100000000,
		      text_ns = 500000000; /* between two drawings; a notebook sends each over a network */
static const uint64_t loop_ns = 200000000; /* a loop that waits for less shows nothing: it would flicker */

struct pyext_display {
	struct weir_progress_view view;
	struct pyext_display_options options;
	PyObject *write;  /* NULL: on the view's descriptor */
	PyObject *asking; /* NULL: nobody works between the batches */
	uint64_t drawn_ns;
	uint32_t width; /* of the text that `write` got last; 0: none stands there */
	/* held by who draws, from the question whether the program waits to the end; rank: before the terminal's */
	pthread_mutex_t drawing;
	bool is_shown; /* guarded by the GIL */
};

struct pyext_display *pyext_display_new(struct weir_task *task, const struct pyext_display_options *options)
{
	struct pyext_display *display = weir_plain_alloc(sizeof(*display));

	if (!display) {
		PyErr_NoMemory();
		return NULL;
	}
	display->options = *options;
	display->write = options->write ? Py_NewRef(options->write) : NULL;
	display->asking = options->asking ? Py_NewRef(options->asking) : NULL;
	pthread_mutex_init(&display->drawing, NULL);
	display->view.fd = options->fd;
	display->view.operators = options->operators;
	display->view.whole_names = options->whole_names;
	api_task_view(task, &display->view);
	return display;
}

void pyext_display_free(struct pyext_display *display)
{
	if (!display)
		return;
	Py_XDECREF(display->write);
	Py_XDECREF(display->asking);
	pthread_mutex_destroy(&display->drawing);
	weir_plain_free(display);
}

/* The text over the one before: a notebook knows "\r" and no more. */
static int write_text(struct pyext_display *display, const char *text)
{
	uint32_t width = weir_progress_width(text, strlen(text));
	uint32_t blank = display->width > width ? display->width - width : 0;
	char line[2048];
	PyObject *decoded, *done;

	snprintf(line, sizeof(line), "\r%s%*s%s", text, (int)blank, "", *text ? "" : "\r");
	display->width = width;
	decoded = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace");
	done = decoded ? PyObject_CallFunctionObjArgs(display->write, decoded, NULL) : NULL;
	Py_XDECREF(decoded);
	Py_XDECREF(done);
	return done ? 0 : -1;
}

static int draw(struct pyext_display *display)
{
	struct weir_progress_now now;
	char text[1024];

	display->is_shown = true;
	/* Who holds the run's lock may wait for the GIL. */
	Py_BEGIN_ALLOW_THREADS;
	if (display->write) {
		weir_progress_look(&display->view, &now);
		weir_progress_format(&now, COLUMNS_TEXT, text, sizeof(text));
	} else {
		weir_progress_show(&display->view);
	}
	Py_END_ALLOW_THREADS;
	return display->write ? write_text(display, text) : 0;
}

/* Whether the program has waited long enough to be told; −1: an exception. */
static int is_asked(const struct pyext_display *display, uint64_t now)
{
	PyObject *since = display->asking ? PyObject_GetAttrString(display->asking, "since_ns") : NULL;
	unsigned long long ns;

	if (!display->asking)
		return 1;
	ns = since ? PyLong_AsUnsignedLongLong(since) : 0;
	Py_XDECREF(since);
	return PyErr_Occurred() ? -1 : ns && now > ns && now - ns >= loop_ns;
}

int pyext_display_tick(struct pyext_display *display)
{
	uint64_t now = weir_clock_ns();
	int asked;

	if (now < display->options.from_ns || now - display->drawn_ns < (display->write ? text_ns : draw_ns) ||
	    pthread_mutex_trylock(&display->drawing))
		return 0;
	asked = is_asked(display, now);
	if (asked > 0) {
		display->drawn_ns = now;
		asked = draw(display);
	}
	pthread_mutex_unlock(&display->drawing);
	return asked < 0 ? -1 : 0;
}

void pyext_display_hide(struct pyext_display *display)
{
	PyObject *type, *value, *traceback;

	if (!display->is_shown)
		return;
	display->is_shown = false;
	if (!display->write) {
		Py_BEGIN_ALLOW_THREADS;
		pthread_mutex_lock(&display->drawing);
		weir_progress_hide(&display->view);
		pthread_mutex_unlock(&display->drawing);
		Py_END_ALLOW_THREADS;
		return;
	}
	/* On the way out of an error, too, which is what has to be told then. */
	PyErr_Fetch(&type, &value, &traceback);
	if (display->width && write_text(display, ""))
		PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

void pyext_display_aside(struct pyext_display *display)
{
	if (display && display->write)
		pyext_display_hide(display);
	Py_BEGIN_ALLOW_THREADS;
	weir_progress_aside();
	Py_END_ALLOW_THREADS;
}
