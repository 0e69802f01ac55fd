/* weir_micro_json FILE [COLUMN …]: how fast JSON text is scanned, indexed, walked and decoded, on one core. GB/s of
 * text, by the thread's CPU time.
 *
 *     newlines   counting line ends: nothing that reads every byte is faster
 *     index      entries of every window
 *     walk       rows and where their wanted values lie; nothing decoded
 *     read       the same, decoded
 */
#include "base/clock.h"
#include "format/json/json_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct weir_account *account;
static struct weir_io *io;
static struct weir_error err;

static void check(int code)
{
	char text[512];

	if (!code)
		return;
	fprintf(stderr, "%s\n", weir_error_format(&err, text, sizeof(text)));
	exit(1);
}

static double count_lines(struct weir_file *file)
{
	struct json_window window;
	size_t lines = 0;
	uint64_t begin = weir_clock_thread_cpu_ns();

	json_window_init(&window, account);
	check(weir_text_input_open(&window.input, io, file, 0, &(struct weir_stream_options){0}, &err));
	for (;;) {
		window.input.begin = window.input.end;
		check(weir_text_input_fill(&window.input, 256 << 10, &err));
		if (window.input.begin == window.input.end)
			break;
		lines += window.kernels->count_newlines(window.input.text, window.input.end);
	}
	json_window_release(&window);
	if (!lines)
		exit(1);
	return (double)(weir_clock_thread_cpu_ns() - begin);
}

static double index_all(struct weir_file *file)
{
	struct json_window window;
	size_t entries = 0;
	uint64_t begin = weir_clock_thread_cpu_ns();

	json_window_init(&window, account);
	check(json_window_open(&window, io, file, 0, &(struct weir_stream_options){0}, JSON_LAYOUT_LINES, &err));
	do {
		check(json_window_fill(&window, window.input.end, 256 << 10, &err));
		entries += window.entry_count;
	} while (window.input.end);
	json_window_release(&window);
	if (!entries)
		exit(1);
	return (double)(weir_clock_thread_cpu_ns() - begin);
}

static uint64_t rows;

static double read_all(struct weir_format_file *opened, const struct weir_scan *scan, bool decode)
{
	struct weir_format_reader *reader;
	struct weir_vector vector;
	uint64_t begin = weir_clock_thread_cpu_ns();

	rows = 0;
	check(weir_json_format.reader_new(account, io, &reader, &err));
	check(weir_json_format.reader_open(reader, opened, scan,
					   &(struct weir_range){.end = weir_file_size(opened->file)}, &err));
	do {
		check(weir_json_format.reader_next(reader, &vector, &err));
		if (decode && vector.row_count)
			check(weir_vector_decode_all(&vector, &err));
		rows += vector.row_count;
	} while (vector.row_count);
	weir_json_format.reader_free(reader);
	return (double)(weir_clock_thread_cpu_ns() - begin);
}

int main(int argc, char **argv)
{
	struct weir_mem *mem;
	struct weir_file *file;
	struct weir_format_file *opened;
	struct weir_read_setup setup = {0};
	struct weir_schema *schema;
	uint32_t columns[256], all[256], count = 0;
	double size;

	if (argc < 2)
		return 2;
	check(weir_mem_new(0, &mem, &err));
	account = weir_mem_root(mem);
	check(weir_io_new(account, 1, &io, &err));
	setup.io = io;
	check(weir_file_open(account, argv[1], &file, &err));
	check(weir_json_format.infer(account, &setup, &file, 1, &schema, &err));
	setup.schema = schema;
	check(weir_json_format.open(account, &setup, file, &opened, &err));
	for (uint32_t i = 0; i < schema->field_count && i < 256; i++)
		all[i] = i;
	for (int i = 2; i < argc && count < 256; i++)
		check(weir_schema_find(schema, argv[i], &columns[count++], &err));
	size = (double)weir_file_size(file);
	for (int round = 0; round < 3; round++) {
		struct weir_scan some = {.columns = columns, .column_count = count};
		struct weir_scan every = {.columns = all, .column_count = schema->field_count};

		printf("newlines %.2f  index %.2f  walk %.2f  read %.2f (%u columns)  walk %.2f  read %.2f (all %u)  %llu rows\n",
		       size / count_lines(file), size / index_all(file), size / read_all(opened, &some, false),
		       size / read_all(opened, &some, true), count, size / read_all(opened, &every, false),
		       size / read_all(opened, &every, true), schema->field_count, (unsigned long long)rows);
	}
	return 0;
}
