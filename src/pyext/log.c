/* Log lines of the engine's threads on their way to Python: they wait in a ring until a Python thread calls the module,
 * which hands them to logging.getLogger("weir"). Past LINES_MAX the oldest give way and are counted. */
#include "base/mem.h"
#include "pyext/pyext_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 64, LINE_SIZE = 1200 };

struct pyext_log {
	pthread_mutex_t lock; /* guards what follows; rank: innermost, nothing is called inside it */
	uint32_t head, count;
	uint64_t lost;
	struct log_line {
		enum weir_log_level level;
		char text[LINE_SIZE];
	} lines[LINES_MAX];
};

struct pyext_log *pyext_log_new(void)
{
	struct pyext_log *log = weir_plain_alloc(sizeof(*log));

	if (log)
		pthread_mutex_init(&log->lock, NULL);
	else
		PyErr_NoMemory();
	return log;
}

void pyext_log_free(struct pyext_log *log)
{
	if (log)
		pthread_mutex_destroy(&log->lock);
	weir_plain_free(log);
}

void pyext_log_write(void *data, enum weir_log_level level, const char *text)
{
	struct pyext_log *log = data;
	struct log_line *line;

	pthread_mutex_lock(&log->lock);
	if (log->count == LINES_MAX) {
		log->head = (log->head + 1) % LINES_MAX;
		log->count--;
		log->lost++;
	}
	line = &log->lines[(log->head + log->count++) % LINES_MAX];
	line->level = level;
	snprintf(line->text, sizeof(line->text), "%s", text);
	pthread_mutex_unlock(&log->lock);
}

static bool take(struct pyext_log *log, struct log_line *out)
{
	bool taken;

	pthread_mutex_lock(&log->lock);
	taken = log->count || log->lost;
	if (log->lost) {
		out->level = WEIR_LOG_WARN;
		snprintf(out->text, sizeof(out->text), "%llu lines were lost before these",
			 (unsigned long long)log->lost);
		log->lost = 0;
	} else if (taken) {
		*out = log->lines[log->head];
		log->head = (log->head + 1) % LINES_MAX;
		log->count--;
	}
	pthread_mutex_unlock(&log->lock);
	return taken;
}

bool pyext_log_waits(struct pyext_log *log)
{
	bool waits;

	pthread_mutex_lock(&log->lock);
	waits = log->count || log->lost;
	pthread_mutex_unlock(&log->lock);
	return waits;
}

int pyext_log_drain(struct pyext_log *log)
{
	/* ERROR, WARN, INFO, DEBUG, TRACE in the numbers of logging. */
	static const int levels[] = {40, 30, 20, 10, 5};
	PyObject *logging, *logger = NULL, *done;
	struct log_line line;

	if (!log || !take(log, &line))
		return 0;
	logging = PyImport_ImportModule("logging");
	if (logging)
		logger = PyObject_CallMethod(logging, "getLogger", "s", "weir");
	Py_XDECREF(logging);
	if (!logger)
		return -1;
	do {
		PyObject *text = PyUnicode_DecodeUTF8(line.text, (Py_ssize_t)strlen(line.text), "backslashreplace");

		done = text ? PyObject_CallMethod(logger, "log", "isO", levels[line.level], "%s", text) : NULL;
		Py_XDECREF(text);
		Py_XDECREF(done);
	} while (done && take(log, &line));
	Py_DECREF(logger);
	return done ? 0 : -1;
}
