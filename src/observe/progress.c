/* Views, and the command's own: on a terminal the same lines over and over; elsewhere, when somebody insists, a line a
 * second.
 *
 * Whoever draws asks the run for its numbers first, and takes the lock for the writing alone: who holds a run's lock
 * may wait for somebody who wants to print. */
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
enum { TEXT_SIZE = 8192 };

/* ---- the terminal ---- */

/* Guards who has the terminal, and what that view has drawn; rank: alone, nothing is taken inside it. */
static pthread_mutex_t terminal_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_progress_view *terminal_of; /* NULL: free */
static pthread_once_t forks_seen = PTHREAD_ONCE_INIT;

/* Nothing that was drawn is the child's. */
static void in_child(void)
{
	pthread_mutex_init(&terminal_lock, NULL);
	terminal_of = NULL;
}

static void see_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* All zero: unknown. */
static struct winsize window_of(int fd)
{
	struct winsize window = {0};

	if (ioctl(fd, TIOCGWINSZ, &window))
		window = (struct winsize){0};
	return window;
}

static uint32_t columns_in(const struct winsize *window)
{
	return window->ws_col > COLUMNS_FREE ? (uint32_t)window->ws_col - COLUMNS_FREE : COLUMNS_DEFAULT;
}

/* What scrolls out of the window cannot be taken off any more. */
static uint32_t lines_in(const struct winsize *window)
{
	uint32_t lines = window->ws_row > 1 ? (uint32_t)window->ws_row - 1 : 1;

	return lines < WEIR_PROGRESS_LINES ? lines : WEIR_PROGRESS_LINES;
}

/* A terminal that has become narrower than a line has broken it: the cursor stands in the last part of the last. */
size_t weir_progress_erase(const uint32_t *widths, uint32_t line_count, uint32_t width, char *buffer, size_t size)
{
	uint32_t above = line_count ? line_count - 1 : 0;

	for (uint32_t i = 0; i < line_count && width; i++)
		above += widths[i] ? (widths[i] - 1) / width : 0;
	return (size_t)(above ? snprintf(buffer, size, "\r\033[%uA\033[J", above) : snprintf(buffer, size, "\r\033[K"));
}

static void write_all(int fd, const char *text, size_t size)
{
	/* Not worth an error: it is drawn again soon. */
	ssize_t n = write(fd, text, size);
	(void)n;
}

/* Inside the lock. */
static void take_off(struct weir_progress_view *view)
{
	char text[32];

	if (view->line_count)
		write_all(view->fd, text,
			  weir_progress_erase(view->widths, view->line_count, window_of(view->fd).ws_col, text,
					      sizeof(text)));
	view->line_count = 0;
}

/* ---- views ---- */

void weir_progress_look(struct weir_progress_view *view, struct weir_progress_now *out)
{
	uint64_t since = view->looked_ns;

	out->bytes_total_est = view->bytes_total_est;
	weir_local_run_stats(view->run, &out->run);
	out->ns = view->looked_ns = weir_clock_ns();
	out->stage_count = 0;
	for (uint32_t i = 0; i < out->run.stage_count && out->run.stage_count > 1 && i < WEIR_PROGRESS_STAGES; i++) {
		struct weir_progress_stage *stage = &out->stages[i];

		*stage = (struct weir_progress_stage){0};
		stage->name = weir_local_run_stage_stats(view->run, i, &stage->stats);
		if (!stage->name)
			break;
		for (int wait = 0; wait < WEIR_WAIT_COUNT; wait++) {
			uint64_t waited = stage->stats.wait_ns[wait], before = view->waited_ns[i][wait];

			/* That all slots are busy is no wait, they work. */
			if (since && wait != WEIR_WAIT_SLOT && waited > before &&
			    waited - before > (out->ns - since) / 2)
				stage->held_by = weir_wait_name((enum weir_wait)wait);
			view->waited_ns[i][wait] = waited;
		}
		out->stage_count++;
	}
}

void weir_progress_show(struct weir_progress_view *view)
{
	struct winsize window = window_of(view->fd);
	struct weir_progress_now now;
	char text[TEXT_SIZE], drawn[TEXT_SIZE + 64 + WEIR_PROGRESS_LINES];
	uint32_t count = 1, columns = columns_in(&window);
	size_t at = 0;

	pthread_once(&forks_seen, see_forks);
	weir_progress_look(view, &now);
	if (view->operators && lines_in(&window) > 1)
		count = weir_progress_lines(&now, view->whole_names, columns, lines_in(&window), text, sizeof(text));
	else
		weir_progress_format(&now, columns, text, sizeof(text));
	pthread_mutex_lock(&terminal_lock);
	if (!terminal_of)
		terminal_of = view;
	if (terminal_of == view) {
		const char *line = text;

		at = weir_progress_erase(view->widths, view->line_count, window.ws_col, drawn, sizeof(drawn));
		view->line_count = count;
		for (uint32_t i = 0; i < count; i++) {
			size_t size = strcspn(line, "\n");

			view->widths[i] = weir_progress_width(line, size);
			memcpy(drawn + at, line, size);
			at += size;
			if (i + 1 < count) {
				memcpy(drawn + at, "\r\n", 2);
				at += 2;
			}
			line += size + (line[size] != 0);
		}
		write_all(view->fd, drawn, at);
	}
	pthread_mutex_unlock(&terminal_lock);
}

void weir_progress_hide(struct weir_progress_view *view)
{
	pthread_mutex_lock(&terminal_lock);
	if (terminal_of == view) {
		take_off(view);
		terminal_of = NULL;
	}
	pthread_mutex_unlock(&terminal_lock);
}

void weir_progress_aside(void)
{
	pthread_mutex_lock(&terminal_lock);
	if (terminal_of)
		take_off(terminal_of);
	pthread_mutex_unlock(&terminal_lock);
}

/* ---- in a thread ---- */

struct weir_progress_line {
	struct weir_progress_view view;
	pthread_t thread;
	pthread_mutex_t lock; /* guards stop; rank: before the terminal's */
	pthread_cond_t wake;
	bool stop;
	bool terminal; /* stderr is one; else lines are added */
};

/* Inside the lock, so that nothing is drawn after the end. */
static void draw(struct weir_progress_line *line)
{
	struct weir_progress_now now;
	char text[1024];
	size_t size;

	if (line->terminal) {
		weir_progress_show(&line->view);
		return;
	}
	weir_progress_look(&line->view, &now);
	weir_progress_format(&now, COLUMNS_DEFAULT, text, sizeof(text) - 1);
	size = strlen(text);
	text[size++] = '\n';
	write_all(line->view.fd, text, size);
}

/* A log line comes: step aside. */
static void before_log(void *context)
{
	(void)context;
	weir_progress_aside();
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
		draw(line);
		next_ns = weir_clock_ns() + (line->terminal ? DRAW_MS : LOG_MS) * 1000000ull;
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
	line->view.run = run;
	line->view.bytes_total_est = bytes_total_est;
	line->view.fd = STDERR_FILENO;
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
	weir_progress_hide(&line->view);
	pthread_cond_signal(&line->wake);
	pthread_mutex_unlock(&line->lock);
	pthread_join(line->thread, NULL);
	pthread_cond_destroy(&line->wake);
	pthread_mutex_destroy(&line->lock);
	weir_plain_free(line);
}
