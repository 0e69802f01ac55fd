/* What is shown of a run, as text that fits: numbers for people, one line for all, a line for each operator.
 *
 *      42%  0:03, 0:04 left  1.23M rows, 400k/s  memory 512.0 MiB of 2.0 GiB
 *       read           2.40M rows   800k/s
 *       MapBatches(f)  1.23M rows   400k/s  2 of 2 workers  4 queued  64.0 MiB each  waits: memory budget
 */
#include "observe/progress.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX = 100, NAME_PADDED_MAX = 40 };

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

uint32_t weir_progress_width(const char *text, size_t size)
{
	uint32_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

static uint32_t width_of(const char *text)
{
	return weir_progress_width(text, strlen(text));
}

/* ---- a line ---- */

/* It grows by pieces, the most wanted first. One that would not fit is left out whole, and so are those after it. */
struct pieces {
	char *text;
	size_t size, at;
	uint32_t columns, used;
	bool full;
};

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

/* What begins the lanes behind a function is none of the user's operators. */
static bool is_plumbing(const struct weir_op_counts *op)
{
	return strcmp(op->name, "blocks") == 0;
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
		if (i && is_plumbing(&stats->ops[i]))
			continue;
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

static uint64_t elapsed_ns(const struct weir_progress_now *now)
{
	return now->run.started_ns && now->ns > now->run.started_ns ? now->ns - now->run.started_ns : 1;
}

/* How much is done, < 0: unknown. Of what was read, each stage behind has done a part. */
static double share_of(const struct weir_progress_now *now)
{
	const struct weir_run_stats *stats = &now->run;
	double share = now->bytes_total_est > 0 ? (double)stats->bytes_est_done / (double)now->bytes_total_est : -1;

	if (stats->splits_all_known && stats->bytes_est_known)
		share = (double)stats->bytes_est_done / (double)stats->bytes_est_known;
	/* One split of which functions have had much, and that is not at its end: who knows how much. */
	if (now->stage_count && !stats->bytes_est_done)
		return -1;
	for (uint32_t i = 1; i < now->stage_count; i++) {
		uint64_t made = now->stages[i - 1].stats.rows_out, done = now->stages[i].stats.rows_in;

		if (done < made)
			share *= (double)done / (double)made;
	}
	return share > 1 ? 1 : share;
}

static void add_time(struct pieces *line, const struct weir_progress_now *now)
{
	uint64_t elapsed = elapsed_ns(now);
	double share = share_of(now);
	char a[32], b[32], piece[80];

	if (share >= 0) {
		snprintf(piece, sizeof(piece), "%3.0f%%", 100 * share);
		add(line, piece);
	}
	if (share > 0.02 && share < 1)
		snprintf(piece, sizeof(piece), "%s, %s left", format_clock(elapsed, a, sizeof(a)),
			 format_clock((uint64_t)((double)elapsed * (1 - share) / share), b, sizeof(b)));
	else
		format_clock(elapsed, piece, sizeof(piece));
	add(line, piece);
}

static void add_memory(struct pieces *line, const struct weir_run_stats *stats)
{
	char a[32], b[32], piece[80];

	snprintf(piece, sizeof(piece), "memory %s of %s", weir_format_bytes(stats->memory_used, a, sizeof(a)),
		 weir_format_bytes(stats->memory_limit, b, sizeof(b)));
	add(line, piece);
}

const char *weir_progress_format(const struct weir_progress_now *now, uint32_t columns, char *buffer, size_t size)
{
	struct pieces line = {.text = buffer, .size = size, .columns = columns};
	const struct weir_run_stats *stats = &now->run;
	char a[32], piece[512];

	buffer[0] = 0;
	add_time(&line, now);
	format_ops(stats, false, piece, sizeof(piece));
	if (line.used + 2 + width_of(piece) > columns)
		format_ops(stats, true, piece, sizeof(piece));
	if (piece[0])
		add(&line, piece);
	if (stats->bytes_est_done) {
		snprintf(piece, sizeof(piece), "%s/s",
			 weir_format_bytes((int64_t)((double)stats->bytes_est_done * 1e9 / (double)elapsed_ns(now)), a,
					   sizeof(a)));
		add(&line, piece);
	}
	add_memory(&line, stats);
	if (!stats->bytes_est_done) /* none yet, or the source does not know: rows of a program */
		return buffer;
	snprintf(piece, sizeof(piece), "%s read", weir_format_bytes((int64_t)stats->bytes_est_done, a, sizeof(a)));
	add(&line, piece);
	return buffer;
}

/* ---- a line for each operator ---- */

/* So many characters of a text, in bytes. */
static size_t bytes_of(const char *text, uint32_t characters)
{
	size_t at = 0;

	while (text[at] && characters) {
		at++;
		while (((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
		characters--;
	}
	return at;
}

/* "Map(a)->Map(b)->Map(c)" as "Map(a)->...->Map(c)", and what is still too long cut at its end. What could move the
 * cursor is '?'. */
static void shorten(const char *name, uint32_t most, char *buffer, size_t size)
{
	const char *first = strstr(name, "->"), *last = first;

	for (const char *at = first; at; at = strstr(at + 2, "->"))
		last = at;
	if (most && width_of(name) > most && first && last != first)
		snprintf(buffer, size, "%.*s->...%s", (int)(first - name), name, last);
	else
		snprintf(buffer, size, "%s", name);
	if (most && width_of(buffer) > most)
		snprintf(buffer + bytes_of(buffer, most - 1), size - bytes_of(buffer, most - 1), "…");
	for (char *at = buffer; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			*at = '?';
}

/* The stage of worker processes that an operator is, or −1; `from` is where the search goes on. */
static int stage_of(const struct weir_progress_now *now, const char *name, uint32_t *from)
{
	for (uint32_t i = *from; i < now->stage_count; i++) {
		if (strcmp(now->stages[i].name, name) == 0) {
			*from = i + 1;
			return (int)i;
		}
	}
	return -1;
}

static void add_stage(struct pieces *line, const struct weir_progress_stage *stage)
{
	const struct weir_stage_stats *stats = &stage->stats;
	char a[32], piece[80];

	snprintf(piece, sizeof(piece), "%u of %u worker%s busy", stats->slots_busy, stats->slots_up,
		 stats->slots_up == 1 ? "" : "s");
	add(line, piece);
	if (stats->queued) {
		snprintf(piece, sizeof(piece), "%u queued", stats->queued);
		add(line, piece);
	}
	if (stats->memory_peak) {
		snprintf(piece, sizeof(piece), "%s each", weir_format_bytes(stats->memory_peak, a, sizeof(a)));
		add(line, piece);
	}
	if (stats->retries || stats->deaths) {
		snprintf(piece, sizeof(piece), "%llu tried again",
			 (unsigned long long)(stats->retries + stats->deaths));
		add(line, piece);
	}
	if (stage->held_by) {
		snprintf(piece, sizeof(piece), "waits: %s", stage->held_by);
		add(line, piece);
	}
}

static void format_op(const struct weir_progress_now *now, const struct weir_op_counts *op, const char *name,
		      uint32_t name_width, uint32_t *from, struct pieces *line)
{
	char a[32], b[32], piece[512];
	int stage = stage_of(now, op->name, from);
	uint32_t width = width_of(name);

	snprintf(piece, sizeof(piece), "   %s%*s  %6s rows  %6s/s", name,
		 (int)(width < name_width ? name_width - width : 0), "", weir_format_count(op->rows_out, a, sizeof(a)),
		 weir_format_count((uint64_t)((double)op->rows_out * 1e9 / (double)elapsed_ns(now)), b, sizeof(b)));
	if (!add(line, piece)) { /* the name and as much as there is room for */
		piece[bytes_of(piece, line->columns)] = 0;
		line->full = false;
		add(line, piece);
		line->full = true;
	}
	if (stage >= 0)
		add_stage(line, &now->stages[stage]);
	for (uint32_t i = 0; i < now->run.exchange_count; i++) {
		const struct weir_exchange_counts *counts = &now->run.exchanges[i];

		if (strcmp(counts->name, op->name) || !counts->bytes_spilled)
			continue;
		snprintf(piece, sizeof(piece), "%s on disk",
			 weir_format_bytes((int64_t)counts->bytes_spilled, a, sizeof(a)));
		add(line, piece);
	}
}

uint32_t weir_progress_lines(const struct weir_progress_now *now, bool whole_names, uint32_t columns,
			     uint32_t lines_max, char *buffer, size_t size)
{
	const struct weir_run_stats *stats = &now->run;
	struct pieces line = {.text = buffer, .size = size, .columns = columns};
	uint32_t most = whole_names ? 0 : columns / 2 < NAME_MAX ? columns / 2 : NAME_MAX;
	uint32_t name_width = 0, count = 1, from = 0;
	char a[32], b[32], text[256];

	buffer[0] = 0;
	add_time(&line, now);
	snprintf(text, sizeof(text), "%s rows, %s/s", weir_format_count(stats->rows_out, a, sizeof(a)),
		 weir_format_count((uint64_t)((double)stats->rows_out * 1e9 / (double)elapsed_ns(now)), b, sizeof(b)));
	add(&line, text);
	add_memory(&line, stats);
	for (uint32_t i = 0; i < stats->op_count; i++) {
		uint32_t width;

		shorten(stats->ops[i].name, most, text, sizeof(text));
		width = width_of(text);
		if (width > name_width && width <= NAME_PADDED_MAX)
			name_width = width;
	}
	for (uint32_t i = 0; i < stats->op_count && count < lines_max; i++) {
		size_t at = line.at;

		if (is_plumbing(&stats->ops[i]) && i)
			continue;
		if (at + 2 >= size)
			break;
		buffer[at] = '\n';
		buffer[at + 1] = 0;
		line = (struct pieces){
			.text = buffer + at + 1, .size = size - at - 1, .columns = whole_names ? UINT32_MAX : columns};
		shorten(stats->ops[i].name, most, text, sizeof(text));
		format_op(now, &stats->ops[i], text, name_width, &from, &line);
		line.at += at + 1;
		count++;
	}
	return count;
}
