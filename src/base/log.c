/* A line is built in a buffer and leaves in one write, so lines of several threads do not mix. The level and the hook
 * are the process's, not a session's: stderr is one, too. */
#include "base/log.h"
#include "base/base_impl.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MAX = 4096, LINE_MAX = 4 * MESSAGE_MAX + 64, LEVEL_UNKNOWN = -1 };

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

/* Relaxed: a level that is seen a line late does no harm. */
static _Atomic int current = LEVEL_UNKNOWN;
static void (*hook_before)(void *), (*hook_after)(void *);
static void *hook_context;
/* A thread works for one session at a time, and whoever logs knows of none. */
static _Thread_local const struct weir_log_sink *thread_sink;

int weir_log_level(void)
{
	int level = atomic_load_explicit(&current, memory_order_relaxed);
	const char *wanted;

	if (level != LEVEL_UNKNOWN)
		return level;
	level = WEIR_LOG_WARN;
	wanted = getenv("WEIR_LOG");
	for (int i = 0; wanted && i <= WEIR_LOG_TRACE; i++)
		if (strcmp(wanted, names[i]) == 0)
			level = i;
	atomic_store_explicit(&current, level, memory_order_relaxed);
	return level;
}

void weir_log_level_set(enum weir_log_level level)
{
	atomic_store_explicit(&current, (int)level, memory_order_relaxed);
}

void weir_log_hook(void (*before)(void *), void (*after)(void *), void *context)
{
	hook_before = before;
	hook_after = after;
	hook_context = context;
}

const struct weir_log_sink *weir_log_use(const struct weir_log_sink *sink)
{
	const struct weir_log_sink *before = thread_sink;

	thread_sink = sink;
	return before;
}

size_t weir_log_escape(char *line, size_t used, const char *message, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size;) {
		unsigned char c = (unsigned char)message[i];
		size_t length = c < 0x80 ? 1 : weir_utf8_char_size(message + i, size - i);

		/* U+0080 … U+009F are control characters, too. */
		if (length == 0 || c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)message[i + 1] < 0xa0)) {
			line[used++] = '\\';
			if (c == '\n' || c == '\t') {
				line[used++] = c == '\n' ? 'n' : 't';
			} else {
				line[used++] = 'x';
				line[used++] = digits[c >> 4];
				line[used++] = digits[c & 15];
			}
			i++;
			continue;
		}
		memcpy(line + used, message + i, length);
		used += length;
		i += length;
	}
	return used;
}

void weir_log_write(enum weir_log_level level, const char *format, ...)
{
	char message[MESSAGE_MAX], line[LINE_MAX];
	int errno_before = errno, length;
	size_t size, used, written = 0;
	va_list args;

	va_start(args, format);
	length = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	size = length < 0 ? 0 : (size_t)length;
	if (size >= sizeof(message))
		size = weir_text_cut(message, sizeof(message) - 1);
	if (thread_sink) {
		line[weir_log_escape(line, 0, message, size)] = '\0';
		thread_sink->write(thread_sink->data, level, line);
		errno = errno_before;
		return;
	}
	used = (size_t)snprintf(line, sizeof(line), "weir: %s: ", names[level]);
	used = weir_log_escape(line, used, message, size);
	line[used++] = '\n';
	if (hook_before)
		hook_before(hook_context);
	while (written < used) {
		ssize_t n = write(STDERR_FILENO, line + written, used - written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* there is nowhere left to say it */
		written += (size_t)n;
	}
	if (hook_after)
		hook_after(hook_context);
	errno = errno_before;
}
