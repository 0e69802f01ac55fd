/* Two ways to draw: on a terminal one line, over and over; elsewhere, when somebody insists, a line a second. */
#include "observe/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { DRAW_MS = 100, FIRST_MS = 200, LOG_MS = 1000, COLUMNS_DEFAULT = 120 };
enum { COLUMNS_FREE = 3 }; /* so that ^C does not wrap */

struct weir_progress_line {
	struct weir_local_run *run;
	int64_t bytes_total_est;
	pthread_t thread;
	pthread_mutex_t lock; /* guards stop and drawn; rank: alone, nothing is taken inside it */
	pthread_cond_t wake;
	bool stop;
	uint32_t drawn; /* columns of the line that stands there, 0: none */
	bool terminal;  /* of stderr; else lines are added */
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
		snprintf(buffer, size, "%llu:%02llu", (unsigned long long)seconds / 60,
			 (unsigned long long)seconds % 60);
	else
		snprintf(buffer, size, "%llu:%02llu:%02llu", (unsigned long long)seconds / 3600,
			 (unsigned long long)seconds / 60 % 60, (unsigned long long)seconds % 60);
	return buffer;
}

/* The line grows by pieces, the most wanted first. One that would not fit is left out whole, and so are those after it. */
struct pieces {
	char *text;
	size_t size, at;
	uint32_t columns, used;
	bool full;
};

/* Characters, each taken for one column: nothing here is wider. */
static uint32_t width_of(const char *text)
{
	uint32_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static bool add(struct pieces *line, const char *piece)
{
	uint32_t gap = line->at ? 2 : 0, width = width_of(piece) + gap;

	if (line->full || line->used + width > line->columns || line->at + strlen(piece) + gap >= line->size) {
		line->full = true;
		return false;
	}
	line->at += (size_t)snprintf(line->text + line->at, line->size - line->at, "%*s%s", (int)gap, "", piece);
	line->used += width;
	return true;
}

/* Rows past each operator; the middle of a long chain is left out when `brief`. */
static void format_ops(const struct weir_run_stats *stats, bool brief, char *buffer, size_t size)
{
	size_t at = 0;
	char count[32];

	buffer[0] = 0;
	for (uint32_t i = 0; i < stats->op_count && at < size; i++) {
		if (brief && i == 1 && stats->op_count > 2) {
			at += (size_t)snprintf(buffer + at, size - at, " › …");
			i = stats->op_count - 1;
		}
		if (at < size)
			at += (size_t)snprintf(buffer + at, size - at, "%s%s %s", i ? " › " : "", stats->ops[i].name,
					       weir_format_count(stats->ops[i].rows_out, count, sizeof(count)));
	}
}

static const char *format_clock(uint64_t ns, char *buffer, size_t size)
{
	uint64_t seconds = ns / 1000000000;

	if (seconds < 3600)
		snprintf(buffer, size, "%llu:%02llu", (unsigned long long)seconds / 60,
			 (unsigned long long)seconds % 60);
	else
		weir_format_duration(ns, buffer, size);
	return buffer;
}

const char *weir_progress_format(const struct weir_run_stats *stats, int64_t bytes_total_est, uint64_t now_ns,
				 uint32_t columns, char *buffer, size_t size)
{
	struct pieces line = {.text = buffer, .size = size, .columns = columns};
	char a[32], b[32], piece[512];
	uint64_t elapsed = now_ns > stats->started_ns ? now_ns - stats->started_ns : 1;
	double share = bytes_total_est > 0 ? (double)stats->bytes_est_done / (double)bytes_total_est : -1;

	buffer[0] = 0;
	if (stats->splits_all_known && stats->bytes_est_known)
		share = (double)stats->bytes_est_done / (double)stats->bytes_est_known;
	if (share >= 0) {
		snprintf(piece, sizeof(piece), "%3.0f%%", 100 * (share > 1 ? 1 : share));
		add(&line, piece);
	}
	if (share > 0.02 && share < 1)
		snprintf(piece, sizeof(piece), "%s, %s left", format_clock(elapsed, a, sizeof(a)),
			 format_clock((uint64_t)((double)elapsed * (1 - share) / share), b, sizeof(b)));
	else
		format_clock(elapsed, piece, sizeof(piece));
	add(&line, piece);
	format_ops(stats, false, piece, sizeof(piece));
	if (line.used + 2 + width_of(piece) > columns)
		format_ops(stats, true, piece, sizeof(piece));
	if (piece[0])
		add(&line, piece);
	snprintf(piece, sizeof(piece), "%s/s",
		 weir_format_bytes((int64_t)((double)stats->bytes_est_done * 1e9 / (double)elapsed), b, sizeof(b)));
	add(&line, piece);
	snprintf(piece, sizeof(piece), "memory %s of %s", weir_format_bytes(stats->memory_used, a, sizeof(a)),
		 weir_format_bytes(stats->memory_limit, b, sizeof(b)));
	add(&line, piece);
	snprintf(piece, sizeof(piece), "%s read", weir_format_bytes((int64_t)stats->bytes_est_done, a, sizeof(a)));
	add(&line, piece);
	return buffer;
}

/* 0: unknown. */
static uint32_t terminal_width(void)
{
	struct winsize window;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

static uint32_t terminal_columns(void)
{
	uint32_t width = terminal_width();

	return width > COLUMNS_FREE ? width - COLUMNS_FREE : COLUMNS_DEFAULT;
}

/* A terminal that has become narrower than the line has broken it: the cursor stands in its last part. */
size_t weir_progress_erase(uint32_t drawn, uint32_t width, char *buffer, size_t size)
{
	uint32_t above = drawn && width ? (drawn - 1) / width : 0;

	return (size_t)(above ? snprintf(buffer, size, "\r\033[%uA\033[J", above) : snprintf(buffer, size, "\r\033[K"));
}

static void write_all(const char *text, size_t size)
{
	/* Not worth an error: the line is drawn again soon. */
	ssize_t n = write(STDERR_FILENO, text, size);
	(void)n;
}

static void erase(struct weir_progress_line *line)
{
	char text[32];

	if (line->drawn && line->terminal)
		write_all(text, weir_progress_erase(line->drawn, terminal_width(), text, sizeof(text)));
	line->drawn = 0;
}

static void draw(struct weir_progress_line *line)
{
	struct weir_run_stats stats;
	char text[1024];
	size_t before, size;

	weir_local_run_stats(line->run, &stats);
	pthread_mutex_lock(&line->lock);
	before = line->terminal ? weir_progress_erase(line->drawn, terminal_width(), text, sizeof(text)) : 0;
	weir_progress_format(&stats, line->bytes_total_est, weir_clock_ns(), terminal_columns(), text + before,
			     sizeof(text) - before - 1);
	size = before + strlen(text + before);
	if (!line->terminal)
		text[size++] = '\n';
	if (!line->stop) {
		line->drawn = width_of(text + before);
		write_all(text, size);
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
	uint64_t next_ns = weir_clock_ns() + (line->terminal ? FIRST_MS : LOG_MS) * 1000000ull;

	pthread_mutex_lock(&line->lock);
	while (!line->stop) {
		struct timespec until = {.tv_sec = (time_t)(next_ns / 1000000000),
					 .tv_nsec = (long)(next_ns % 1000000000)};

		if (pthread_cond_timedwait(&line->wake, &line->lock, &until) == 0 || line->stop)
			continue;
		pthread_mutex_unlock(&line->lock);
		draw(line);
		next_ns = weir_clock_ns() + (line->terminal ? DRAW_MS : LOG_MS) * 1000000ull;
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
	line->terminal = isatty(STDERR_FILENO) != 0;
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
