/* A program of the first header: its structs are smaller than today's, and what lies behind them must stay as it is. */
#include <weir/weir.h>

#include <stdio.h>
#include <string.h>

struct guarded_options {
	struct weir_options options;
	unsigned char after[256];
};

struct guarded_result {
	struct weir_result result;
	unsigned char after[256];
};

static int is_untouched(const unsigned char *after)
{
	for (int i = 0; i < 256; i++)
		if (after[i] != 0xa5)
			return 0;
	return 1;
}

int main(void)
{
	struct guarded_options given;
	struct guarded_result got;
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	char message[500] = "";
	long long rows = 0;

	memset(&given, 0xa5, sizeof(given)); /* bytes that no pointer, size or function could be */
	memset(&got, 0xa5, sizeof(got));
	given.options.struct_size = sizeof(given.options);
	given.options.memory_limit = 96 << 20;
	given.options.threads = 2;
	got.result.struct_size = sizeof(got.result);
	if (weir_run_chain("range 1M then filter 'id % 2 == 0' then count", &given.options, NULL, &got.result, message,
			   sizeof(message)))
		return fprintf(stderr, "run: %s\n", message), 1;
	if (got.result.rows_in != 1000000 || got.result.rows_out != 500000 || got.result.memory_peak <= 0)
		return fprintf(stderr, "result\n"), 1;
	if (!is_untouched(given.after) || !is_untouched(got.after))
		return fprintf(stderr, "written past the end\n"), 1;
	if (weir_run_chain("nonsense", &given.options, NULL, NULL, message, sizeof(message)) != 1 || !message[0])
		return fprintf(stderr, "the number of an error has changed\n"), 1;
	if (weir_stream_chain("range 100k", &given.options, NULL, &stream, message, sizeof(message)))
		return fprintf(stderr, "stream: %s\n", message), 1;
	while (!stream.get_next(&stream, &batch) && batch.release) {
		rows += batch.length;
		batch.release(&batch);
	}
	stream.release(&stream);
	printf("%s %lld\n", weir_version(), rows);
	return 0;
}
