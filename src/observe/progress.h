/* progress: one live line on a terminal, drawn by a thread of its own so that nothing in the run waits for it. */
#ifndef WEIR_OBSERVE_PROGRESS_H
#define WEIR_OBSERVE_PROGRESS_H

#include "backend/backend.h"

struct weir_progress_line;

/* Draws on stderr: every 100 ms, from 200 ms on, or a line a second where stderr is no terminal; bytes_total_est ≤ 0: unknown, then no share and no time left. NULL when a
 * thread could not be started: a run without progress is still a run. */
struct weir_progress_line *weir_progress_start(struct weir_local_run *run, int64_t bytes_total_est);
/* Erases the line and ends the thread. NULL is fine. */
void weir_progress_stop(struct weir_progress_line *line);

/* The line itself, without moving the cursor; for tests. At most `columns` characters: what does not fit is left out,
 * the least wanted first. Returns `buffer`. */
const char *weir_progress_format(const struct weir_run_stats *stats, int64_t bytes_total_est, uint64_t now_ns,
				 uint32_t columns, char *buffer, size_t size);

/* A report after the run: per operator rows and time, memory, waiting; appended to `out`. */
int weir_stats_print(const struct weir_run_stats *stats, struct weir_text *out, struct weir_error *err);

/* One line about a stage of a run: tasks, rows, workers and their memory, what it waited for; appended to `out`. */
int weir_stage_stats_print(const char *name, const struct weir_stage_stats *stats, struct weir_text *out,
			   struct weir_error *err);

/* 1234567 → "1.23M". Returns `buffer` (≥ 16 bytes). */
const char *weir_format_count(uint64_t count, char *buffer, size_t size);
/* Seconds for people: "0.42 s", "1:05", "2:03:04". */
const char *weir_format_duration(uint64_t ns, char *buffer, size_t size);

/* What takes a line of `drawn` columns off a terminal that is `width` wide now (0: unknown); the size. For tests. */
size_t weir_progress_erase(uint32_t drawn, uint32_t width, char *buffer, size_t size);

#endif
