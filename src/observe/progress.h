/* progress: what a run shows of itself while it runs, on a terminal or wherever somebody wants it as text.
 *
 *     run ─▶ weir_progress_look ─▶ weir_progress_now ─▶ weir_progress_format   one line
 *                                                    └▶ weir_progress_lines    that, and one for each operator
 *
 * A view draws this on a terminal, and is used by one thread at a time. The terminal is one: of several views of a
 * process the first to draw has it until it hides; the others draw nothing meanwhile. Whoever prints something else
 * calls weir_progress_aside first. */
#ifndef WEIR_OBSERVE_PROGRESS_H
#define WEIR_OBSERVE_PROGRESS_H

#include "backend/backend.h"

enum { WEIR_PROGRESS_STAGES = 16, WEIR_PROGRESS_LINES = 33 };

/* A run at one moment. */
struct weir_progress_now {
	uint64_t ns;             /* on the monotonic clock */
	int64_t bytes_total_est; /* ≤ 0: unknown; then no share and no time left */
	struct weir_run_stats run;
	uint32_t stage_count; /* of those below; 0: the run has one only */
	struct weir_progress_stage {
		const char *name;
		struct weir_stage_stats stats;
		const char *held_by; /* what it waited for most of the time since the last look; NULL: it worked */
	} stages[WEIR_PROGRESS_STAGES];
};

struct weir_progress_view {
	struct weir_local_run *run;
	int64_t bytes_total_est;
	int fd;
	bool operators;   /* a line for each */
	bool whole_names; /* of them, however long; else what does not fit is cut */
	/* its own */
	uint32_t line_count, widths[WEIR_PROGRESS_LINES]; /* of what stands there */
	uint64_t looked_ns, waited_ns[WEIR_PROGRESS_STAGES][WEIR_WAIT_COUNT];
};

void weir_progress_look(struct weir_progress_view *view, struct weir_progress_now *out);
/* Draws anew, in one write. */
void weir_progress_show(struct weir_progress_view *view);
/* Takes off what stands there, and lets go of the terminal. */
void weir_progress_hide(struct weir_progress_view *view);
/* Takes off what any view of the process has drawn, until it draws again. Any thread. */
void weir_progress_aside(void);

/* The same in a thread of its own, so that nothing in the run waits for it: on stderr, every 100 ms, from 200 ms on, or
 * a line a second where stderr is no terminal. NULL when a thread could not be started: a run without progress is still
 * a run. */
struct weir_progress_line;
struct weir_progress_line *weir_progress_start(struct weir_local_run *run, int64_t bytes_total_est);
/* Erases the line and ends the thread. NULL is fine. */
void weir_progress_stop(struct weir_progress_line *line);

/* One line, without moving the cursor, at most `columns` wide: what does not fit is left out, the least wanted first.
 * Returns `buffer`. */
const char *weir_progress_format(const struct weir_progress_now *now, uint32_t columns, char *buffer, size_t size);
/* A line of the whole and one for each operator, with "\n" between them, `lines_max` at most; how many. */
uint32_t weir_progress_lines(const struct weir_progress_now *now, bool whole_names, uint32_t columns,
			     uint32_t lines_max, char *buffer, size_t size);

/* A report after the run: per operator rows and time, memory, waiting; appended to `out`. */
int weir_stats_print(const struct weir_run_stats *stats, struct weir_text *out, struct weir_error *err);

/* One line about a stage of a run: tasks, rows, workers and their memory, what it waited for; appended to `out`. */
int weir_stage_stats_print(const char *name, const struct weir_stage_stats *stats, struct weir_text *out,
			   struct weir_error *err);

/* 1234567 → "1.23M". Returns `buffer` (≥ 16 bytes). */
const char *weir_format_count(uint64_t count, char *buffer, size_t size);
/* Seconds for people: "0.42 s", "1:05", "2:03:04". */
const char *weir_format_duration(uint64_t ns, char *buffer, size_t size);
/* Characters, each taken for one column. */
uint32_t weir_progress_width(const char *text, size_t size);

/* What takes lines of these widths off a terminal that is `width` wide now (0: unknown); the size. For tests. */
size_t weir_progress_erase(const uint32_t *widths, uint32_t line_count, uint32_t width, char *buffer, size_t size);

#endif
