/* The report after a run: operators, stages, exchanges, memory, and what was waited for. */
#include "base/text.h"
#include "observe/progress.h"

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* sort: 30M rows, 1.2 GB kept, 900 MB written to disk, 900 MB read; 14 runs, 8 partitions, largest 1.05 × the mean,
 * depth 1 */
static int print_exchange(const struct weir_exchange_counts *counts, struct weir_text *out, struct weir_error *err)
{
	char a[32], b[32];
	int code = weir_text_printf(out, err, "%s: %s row%s, %s kept", counts->name,
				    weir_format_count(counts->rows, a, sizeof(a)), plural(counts->rows),
				    weir_format_bytes((int64_t)counts->bytes, b, sizeof(b)));

	if (!code && (counts->bytes_spilled || counts->bytes_read))
		code = weir_text_printf(out, err, ", %s written to disk, %s read",
					weir_format_bytes((int64_t)counts->bytes_spilled, a, sizeof(a)),
					weir_format_bytes((int64_t)counts->bytes_read, b, sizeof(b)));
	if (!code && counts->runs)
		code = weir_text_printf(out, err, "; %llu run%s", (unsigned long long)counts->runs,
					plural(counts->runs));
	if (!code && counts->partitions)
		code = weir_text_printf(out, err, "%s %llu partition%s", counts->runs ? "," : ";",
					(unsigned long long)counts->partitions, plural(counts->partitions));
	if (!code && counts->partitions > 1 && counts->rows && counts->rows_max)
		code = weir_text_printf(out, err, ", the largest %.2f × the mean",
					(double)counts->rows_max * (double)counts->partitions / (double)counts->rows);
	return code ? code : weir_text_printf(out, err, ", depth %u\n", counts->depth);
}

int weir_stats_print(const struct weir_run_stats *stats, struct weir_text *out, struct weir_error *err)
{
	char a[32], b[32];
	uint64_t wall = stats->ended_ns > stats->started_ns ? stats->ended_ns - stats->started_ns : 0;
	uint64_t in_chain = 0, slots = wall * (stats->lanes ? stats->lanes : 1);
	int code = weir_text_printf(out, err, "%-12s %12s %10s %14s\n", "operator", "rows out", "vectors",
				    "time (lanes)");

	for (uint32_t i = 0; !code && i < stats->op_count; i++) {
		in_chain += stats->ops[i].time_ns;
		code = weir_text_printf(out, err, "%-12s %12llu %10llu %14s\n", stats->ops[i].name,
					(unsigned long long)stats->ops[i].rows_out,
					(unsigned long long)stats->ops[i].vectors,
					weir_format_duration(stats->ops[i].time_ns, a, sizeof(a)));
	}
	if (!code)
		code = weir_text_printf(out, err, "%-12s %12llu %10s %14s\n", "sink, idle",
					(unsigned long long)stats->rows_out, "",
					weir_format_duration(slots > in_chain ? slots - in_chain : 0, a, sizeof(a)));
	if (!code && stats->rows_pruned)
		code = weir_text_printf(out, err, "%llu rows of the input ruled out by statistics, unread\n",
					(unsigned long long)stats->rows_pruned);
	for (uint32_t i = 0; !code && i < stats->exchange_count; i++)
		code = print_exchange(&stats->exchanges[i], out, err);
	if (!code)
		code = weir_text_printf(out, err, "time %s on %u lane%s, %llu split%s",
					weir_format_duration(wall, a, sizeof(a)), stats->lanes,
					stats->lanes == 1 ? "" : "s", (unsigned long long)stats->splits_done,
					stats->splits_done == 1 ? "" : "s");
	if (!code && stats->core.give_ups)
		code = weir_text_printf(out, err, " (%llu given up for memory and redone)",
					(unsigned long long)stats->core.give_ups);
	if (!code)
		code = weir_text_printf(out, err, "\nmemory peak %s of %s",
					weir_format_bytes(stats->memory_peak, a, sizeof(a)),
					weir_format_bytes(stats->memory_limit, b, sizeof(b)));
	if (!code && stats->core.wait_ns_memory)
		code = weir_text_printf(out, err, ", %s waited for memory",
					weir_format_duration(stats->core.wait_ns_memory, a, sizeof(a)));
	if (!code && stats->core.wait_ns_turn)
		code = weir_text_printf(out, err, ", %s waited for the turn",
					weir_format_duration(stats->core.wait_ns_turn, a, sizeof(a)));
	return code ? code : weir_text_puts(out, "\n", err);
}

/* What a task that could run waits for is backpressure; that all slots are busy is not, they work. */
static int print_waits(const struct weir_stage_stats *stats, struct weir_text *out, struct weir_error *err)
{
	const char *before = "; backpressure:";
	int code = WEIR_OK;
	char a[32];

	for (int wait = 0; !code && wait < WEIR_WAIT_COUNT; wait++) {
		if (wait == WEIR_WAIT_SLOT || !stats->wait_ns[wait])
			continue;
		code = weir_text_printf(out, err, "%s %s %s", before, weir_wait_name((enum weir_wait)wait),
					weir_format_duration(stats->wait_ns[wait], a, sizeof(a)));
		before = ",";
	}
	return code;
}

int weir_stage_stats_print(const char *name, const struct weir_stage_stats *stats, struct weir_text *out,
			   struct weir_error *err)
{
	char a[32], b[32];
	int code = weir_text_printf(out, err, "%s: %llu task%s, %s row%s in, %s out", name,
				    (unsigned long long)stats->tasks_done, plural(stats->tasks_done),
				    weir_format_count(stats->rows_in, a, sizeof(a)), plural(stats->rows_in),
				    weir_format_count(stats->rows_out, b, sizeof(b)));

	if (!code && stats->retries)
		code = weir_text_printf(out, err, ", %llu tried again", (unsigned long long)stats->retries);
	if (!code && stats->tasks_errored)
		code = weir_text_printf(out, err, ", %llu left out", (unsigned long long)stats->tasks_errored);
	if (!code && stats->slots_peak)
		code = weir_text_printf(out, err, ", %s busy on %u slot%s",
					weir_format_duration(stats->busy_ns, a, sizeof(a)), stats->slots_peak,
					plural(stats->slots_peak));
	if (!code && stats->memory_peak)
		code = weir_text_printf(out, err, ", %s measured in one of them, %s planned",
					weir_format_bytes(stats->memory_peak, a, sizeof(a)),
					weir_format_bytes(stats->memory_assumed, b, sizeof(b)));
	if (!code)
		code = print_waits(stats, out, err);
	return code ? code : weir_text_puts(out, "\n", err);
}
