#include "observe/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { DRAW_MS = 100, FIRST_MS = 200, COLUMNS_DEFAULT = 100 };

struct weir_progress_line {
	struct weir_local_run *run;
	int64_t bytes_total_est;
	pthread_t thread;
	pthread_mutex_t lock; /* guards stop and drawn; rank: alone, nothing is taken inside it */
	pthread_cond_t wake;
	bool stop, drawn;
};

const char *weir_format_count(uint64_t count, char *buffer, size_t size)
{
	static const char units[] = "\0kMGTP";
	double value = (double)count;
	size_t unit = 0;

	while (value >= 999.5 && unit < 5) {
		value /= 1000;
		unit++;
	}
	if (unit == 0)
		snprintf(buffer, size, "%llu", (unsigned long long)count);
	else
		snprintf(buffer, size, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
	return buffer;
}

const char *weir_format_duration(uint64_t ns, char *buffer, size_t size)
{
	uint64_t seconds = (ns + 500000000) / 1000000000;

	if (ns < 10000000000u)
		snprintf(buffer, size, "%.2f s", (double)ns / 1e9);
	else if (seconds < 3600)
		snprintf(buffer, size, "%llu:%02llu", (unsigned long long)seconds / 60, (unsigned long long)seconds % 60);
	else
		snprintf(buffer, size, "%llu:%02llu:%02llu", (unsigned long long)seconds / 3600,
			 (unsigned long long)seconds / 60 % 60, (unsigned long long)seconds % 60);
	return buffer;
}

/* Appends to a buffer that never overflows. */
static size_t put(char *buffer, size_t size, size_t at, const char *format, const char *a, const char *b)
{
	int n = at < size ? snprintf(buffer + at, size - at, format, a, b) : 0;

	return n < 0 ? at : at + (size_t)n < size ? at + (size_t)n : size - 1;
}

/* Cuts after `columns` characters, never inside one. */
static void cut(char *text, uint32_t columns)
{
	uint32_t n = 0;

	for (char *p = text; *p; p++) {
		if (((unsigned char)*p & 0xc0) != 0x80 && n++ == columns) {
			*p = 0;
			return;
		}
	}
}

const char *weir_progress_format(const struct weir_run_stats *stats, int64_t bytes_total_est, uint64_t now_ns,
				 uint32_t columns, char *buffer, size_t size)
{
	char a[32], b[32];
	uint64_t elapsed = now_ns > stats->started_ns ? now_ns - stats->started_ns : 1;
	double share = bytes_total_est > 0 ? (double)stats->bytes_est_done / (double)bytes_total_est : -1;
	size_t at = 0;

	buffer[0] = 0;
	if (stats->splits_all_known && stats->bytes_est_known)
		share = (double)stats->bytes_est_done / (double)stats->bytes_est_known;
	if (share >= 0) {
		snprintf(a, sizeof(a), "%3.0f%%", 100 * (share > 1 ? 1 : share));
		at = put(buffer, size, at, "%s%s  ", a, "");
	}
	for (uint32_t i = 0; i < stats->op_count; i++)
		at = put(buffer, size, at, i ? " › %s %s" : "%s %s", stats->ops[i].name,
			 weir_format_count(stats->ops[i].rows_out, a, sizeof(a)));
	at = put(buffer, size, at, "  %s (%s/s)", weir_format_bytes((int64_t)stats->bytes_est_done, a, sizeof(a)),
		 weir_format_bytes((int64_t)((double)stats->bytes_est_done * 1e9 / (double)elapsed), b, sizeof(b)));
	at = put(buffer, size, at, "  memory %s of %s", weir_format_bytes(stats->memory_used, a, sizeof(a)),
		 weir_format_bytes(stats->memory_limit, b, sizeof(b)));
	at = put(buffer, size, at, "  %s%s", weir_format_duration(elapsed, a, sizeof(a)), "");
	if (share > 0.02 && share < 1)
		put(buffer, size, at, ", %s left%s",
		    weir_format_duration((uint64_t)((double)elapsed * (1 - share) / share), a, sizeof(a)), "");
	cut(buffer, columns);
	return buffer;
}

static uint32_t terminal_columns(void)
{
	struct winsize window;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : COLUMNS_DEFAULT;
}

static void write_all(const char *text, size_t size)
{
	/* Not worth an error: the line is drawn again soon. */
	ssize_t n = write(STDERR_FILENO, text, size);
	(void)n;
}

static void erase(struct weir_progress_line *line)
{
	if (line->drawn)
		write_all("\r\033[K", 4);
	line->drawn = false;
}

static void draw(struct weir_progress_line *line)
{
	struct weir_run_stats stats;
	char text[1024] = "\r\033[K";

	weir_local_run_stats(line->run, &stats);
	weir_progress_format(&stats, line->bytes_total_est, weir_clock_ns(), terminal_columns(), text + 4, sizeof(text) - 4);
	pthread_mutex_lock(&line->lock);
	if (!line->stop) {
		write_all(text, strlen(text));
		line->drawn = true;
	}
	pthread_mutex_unlock(&line->lock);
}

/* A log line comes: step aside. */
static void before_log(void *context)
{
	struct weir_progress_line *line = context;

	pthread_mutex_lock(&line->lock);
	erase(line);
	pthread_mutex_unlock(&line->lock);
}

static void *progress_main(void *argument)
{
	struct weir_progress_line *line = argument;
	uint64_t next_ns = weir_clock_ns() + FIRST_MS * 1000000ull;

	pthread_mutex_lock(&line->lock);
	while (!line->stop) {
		struct timespec until = {.tv_sec = (time_t)(next_ns / 1000000000), .tv_nsec = (long)(next_ns % 1000000000)};

		if (pthread_cond_timedwait(&line->wake, &line->lock, &until) == 0 || line->stop)
			continue;
		pthread_mutex_unlock(&line->lock);
		draw(line);
		next_ns = weir_clock_ns() + DRAW_MS * 1000000ull;
		pthread_mutex_lock(&line->lock);
	}
	pthread_mutex_unlock(&line->lock);
	return NULL;
}

struct weir_progress_line *weir_progress_start(struct weir_local_run *run, int64_t bytes_total_est)
{
	struct weir_progress_line *line = weir_plain_alloc(sizeof(*line));
	pthread_condattr_t monotonic;

	if (!line)
		return NULL;
	line->run = run;
	line->bytes_total_est = bytes_total_est;
	pthread_mutex_init(&line->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&line->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (pthread_create(&line->thread, NULL, progress_main, line)) {
		weir_plain_free(line);
		return NULL;
	}
	weir_log_hook(before_log, NULL, line);
	return line;
}

void weir_progress_stop(struct weir_progress_line *line)
{
	if (!line)
		return;
	weir_log_hook(NULL, NULL, NULL);
	pthread_mutex_lock(&line->lock);
	line->stop = true;
	erase(line);
	pthread_cond_signal(&line->wake);
	pthread_mutex_unlock(&line->lock);
	pthread_join(line->thread, NULL);
	pthread_cond_destroy(&line->wake);
	pthread_mutex_destroy(&line->lock);
	weir_plain_free(line);
}
