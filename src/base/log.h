/* log: lines for people on stderr, or for whom the thread works for. WEIR_LOG=error|warn|info|debug|trace sets the
 * level (default warn). Control characters in messages are escaped. Safe from any thread: one write per line. */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include "weir/base.h"

#include <stddef.h>

int weir_log_level(void);
void weir_log_level_set(enum weir_log_level level);
void weir_log_write(enum weir_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes lines instead of stderr: without "weir: level: ", without a newline, escaped. From any thread. */
struct weir_log_sink {
	void (*write)(void *data, enum weir_log_level level, const char *line);
	void *data;
};
/* For the calling thread, until it is called again; NULL: stderr. Borrowed. Returns what it was. */
const struct weir_log_sink *weir_log_use(const struct weir_log_sink *sink);
/* Called around each line, so that a progress display can step aside. NULL: none. Set before threads start. */
void weir_log_hook(void (*before)(void *), void (*after)(void *), void *context);

/* Appends what is safe on a terminal to `line` from `used` on: what could move the cursor or is no text at all comes as
 * \n, \t or \x1b. Needs room for four times `size`. Returns the new length. */
size_t weir_log_escape(char *line, size_t used, const char *message, size_t size);

#define weir_log(level, ...) ((int)(level) <= weir_log_level() ? weir_log_write((level), __VA_ARGS__) : (void)0)

#endif
