/* Reads files of any size within 64 MiB: the mean of a column of numbers, batch by batch. Ctrl-C ends it cleanly.
 *
 *     stream COLUMN FILE...
 */
#include <weir/weir.h>

#include <signal.h>
#include <stdio.h>

static struct weir_task *task;

static void on_interrupt(int number)
{
	(void)number;
	weir_task_cancel(task);
}

static void show_progress(void *data, const struct weir_stats *stats)
{
	(void)data;
	if (stats->bytes_total > 0 && !stats->finished)
		fprintf(stderr, "\r%3.0f%%  %lld MiB in use",
			100.0 * (double)stats->bytes_done / (double)stats->bytes_total,
			(long long)stats->memory_used >> 20);
}

struct mean {
	double sum;
	int64_t count;
};

static void add(struct mean *mean, const struct ArrowArray *column)
{
	const double *values = (const double *)column->buffers[1] + column->offset;
	const uint8_t *bits = column->buffers[0];

	for (int64_t i = 0; i < column->length; i++) {
		int64_t bit = column->offset + i;

		if (bits && !(bits[bit >> 3] >> (bit & 7) & 1))
			continue;
		mean->sum += values[i];
		mean->count++;
	}
}

int main(int argc, char **argv)
{
	struct weir_options options = {0};
	struct weir_start_options start = {0};
	struct weir_stats stats = {0};
	struct weir_session *session = NULL;
	struct weir_flow *flow;
	struct weir_error *error = NULL;
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	struct mean mean = {0, 0};

	if (argc < 3)
		return fprintf(stderr, "usage: stream COLUMN FILE...\n"), 2;
	options.struct_size = sizeof(options);
	options.memory_limit = 64 << 20;
	start.struct_size = sizeof(start);
	start.progress = show_progress;
	stats.struct_size = sizeof(stats);

	weir_session_open(&options, &session, &error);
	flow = weir_flow_new(session);
	weir_flow_read_list(flow, (const char *const *)argv + 2, (size_t)argc - 2, NULL);
	weir_flow_select(flow, argv[1]);
	/* Whatever kind of number it is, it comes as double. */
	weir_flow_with_by(flow, argv[1], weir_binary("cast", weir_column(argv[1]), weir_string("double")));
	if (!error && !weir_flow_start(flow, &start, &task, &error)) {
		signal(SIGINT, on_interrupt);
		if (!weir_task_stream(task, &stream, &error)) {
			/* The run is a few batches ahead of this loop, never more: it waits when the loop is slow. */
			while (!stream.get_next(&stream, &batch) && batch.release) {
				add(&mean, batch.children[0]);
				batch.release(&batch);
			}
			/* The stream says that it failed, the task all about it. */
			weir_task_wait(task, &error);
			stream.release(&stream);
		}
		signal(SIGINT, SIG_DFL);
		weir_task_stats(task, &stats);
	}
	weir_task_free(task);
	weir_flow_free(flow);
	weir_session_close(session);
	fprintf(stderr, "\r");
	if (error) {
		fprintf(stderr, "stream: %s\n", weir_error_text(error));
		weir_error_free(error);
		return 1;
	}
	printf("mean %.6g of %lld values, at most %.1f MiB\n", mean.count ? mean.sum / (double)mean.count : 0,
	       (long long)mean.count, (double)stats.memory_peak / (1 << 20));
	return 0;
}
