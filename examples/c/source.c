/* A custom source: a file format that weir does not know, read on all cores.
 *
 *     source IN.bin OUT.parquet
 *
 * IN.bin has records of 16 bytes: a time (int64, seconds since 1970) and a temperature (double; NaN means none). The
 * file is cut into splits of SPLIT_RECORDS records; weir opens them in parallel, several times if it must, and puts the
 * rows in order.
 */
#include <weir/weir.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_RECORDS = 1 << 20, BATCH_RECORDS = 1 << 14 };

struct record {
	int64_t time;
	double temperature;
};

/* One split being read. */
struct reader {
	FILE *file;
	int64_t left;
	struct weir_appender *output;
	struct record records[BATCH_RECORDS];
};

static void close_split(void *state)
{
	struct reader *reader = state;

	if (reader->file)
		fclose(reader->file);
	weir_appender_free(reader->output);
	free(reader);
}

static const char columns[] = "time: timestamp[s, tz=UTC] not null, temperature: double";

static int open_split(void *data, struct weir_context *context, int64_t split, void **out)
{
	const char *path = data;
	struct reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return weir_context_fail(context, "no memory");
	reader->left = SPLIT_RECORDS;
	reader->file = fopen(path, "rb");
	if (!reader->file ||
	    fseek(reader->file, (long)(split * SPLIT_RECORDS * (int64_t)sizeof(struct record)), SEEK_SET) ||
	    weir_appender_new(columns, &reader->output, NULL)) {
		weir_context_fail(context, "%s: %s", path, strerror(errno));
		close_split(reader);
		return 1;
	}
	*out = reader;
	return 0;
}

static int next_batch(void *state, struct weir_context *context, struct ArrowArray *out)
{
	struct reader *reader = state;
	size_t wanted = reader->left < BATCH_RECORDS ? (size_t)reader->left : BATCH_RECORDS;
	size_t count = wanted ? fread(reader->records, sizeof(struct record), wanted, reader->file) : 0;
	struct weir_error *error = NULL;

	if (ferror(reader->file))
		return weir_context_fail(context, "cannot be read: %s", strerror(errno));
	if (count == 0)
		return 0; /* the end: `out` is left alone */
	reader->left -= (int64_t)count;
	for (size_t i = 0; i < count; i++) {
		weir_append_int64(reader->output, 0, reader->records[i].time);
		if (isnan(reader->records[i].temperature))
			weir_append_null(reader->output, 1);
		else
			weir_append_double(reader->output, 1, reader->records[i].temperature);
	}
	if (weir_appender_finish(reader->output, NULL, out, &error)) {
		weir_context_fail(context, "%s", weir_error_text(error));
		weir_error_free(error);
		return 1;
	}
	return 0;
}

/* −1: it cannot be told. */
static int64_t record_count(const char *path)
{
	FILE *file = fopen(path, "rb");
	int64_t size = -1;

	if (file && !fseek(file, 0, SEEK_END))
		size = ftell(file);
	if (file)
		fclose(file);
	return size < 0 ? -1 : size / (int64_t)sizeof(struct record);
}

int main(int argc, char **argv)
{
	struct weir_session *session = NULL;
	struct weir_flow *flow;
	struct weir_error *error = NULL;
	struct weir_stats stats = {0};
	struct weir_source source = {0};
	int64_t count;

	if (argc != 3)
		return fprintf(stderr, "usage: source IN.bin OUT.parquet\n"), 2;
	count = record_count(argv[1]);
	if (count < 0)
		return perror(argv[1]), 1;
	source.struct_size = sizeof(source);
	source.name = "records";
	source.columns = columns;
	source.split_count = count / SPLIT_RECORDS + 1;
	source.open = open_split;
	source.next = next_batch;
	source.close = close_split;
	source.data = argv[1];
	stats.struct_size = sizeof(stats);

	weir_session_open(NULL, &session, &error);
	flow = weir_flow_new(session);
	weir_flow_read_source(flow, &source);
	weir_flow_filter(flow, "temperature is not None");
	weir_flow_write(flow, argv[2], NULL);
	if (!error && !weir_flow_run(flow, &stats, &error))
		printf("%llu of %llu records\n", (unsigned long long)stats.rows_out, (unsigned long long)stats.rows_in);
	weir_flow_free(flow);
	weir_session_close(session);
	if (!error)
		return 0;
	fprintf(stderr, "source: %s\n", weir_error_text(error));
	weir_error_free(error);
	return 1;
}
