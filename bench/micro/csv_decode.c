/* weir_micro_csv FILE…: how fast one core reads CSV from the page cache, in GB of text a second: the newlines counted,
 * the text indexed and cut into rows, all columns decoded, and each column alone. Time of the processor, not of the
 * clock, so that other work beside it matters less. WEIR_CPU=v2|v3|v4 chooses the kernels. */
#include "format/format.h"
#include "format/text_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5 };

static struct weir_mem *mem;
static struct weir_account account;
static struct weir_io *io;
static struct weir_error err;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void must(int code)
{
	char text[2048];

	if (!code)
		return;
	fprintf(stderr, "%s\n", weir_error_format(&err, text, sizeof(text)));
	exit(1);
}

static void show(const char *what, const char *type, uint64_t size, uint64_t best_ns)
{
	printf("%-24s %-16s %7.2f GB/s\n", what, type, (double)size / (double)best_ns);
}

static void count_newlines(struct weir_file *file)
{
	struct weir_stream_options options = {0};
	struct weir_text_input input;
	uint64_t best = UINT64_MAX, lines = 0;

	weir_text_input_init(&input, &account);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = cpu_ns();

		must(weir_text_input_open(&input, io, file, 0, &options, &err));
		do {
			must(weir_text_input_fill(&input, 256 << 10, &err));
			for (const uint8_t *at = input.text + input.begin, *end = input.text + input.end;
			     (at = memchr(at, '\n', (size_t)(end - at))); at++)
				lines++;
			input.begin = input.end;
		} while (!input.at_end);
		begin = cpu_ns() - begin;
		best = begin < best ? begin : best;
	}
	weir_text_input_release(&input);
	show("newlines", "", weir_file_size(file), best);
}

static void measure(struct weir_format_reader *reader, struct weir_format_file *file, const struct weir_scan *scan,
		    const char *what, const char *type)
{
	struct weir_range range = {.end = weir_file_size(file->file)};
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = cpu_ns();

		must(reader->ops->reader_open(reader, file, scan, &range, &err));
		for (;;) {
			struct weir_vector vector;

			must(reader->ops->reader_next(reader, &vector, &err));
			if (vector.row_count == 0)
				break;
			must(weir_vector_decode_all(&vector, &err));
		}
		begin = cpu_ns() - begin;
		best = begin < best ? begin : best;
	}
	show(what, type, weir_file_size(file->file), best);
}

int main(int argc, char **argv)
{
	must(weir_mem_new(0, &mem, &err));
	weir_account_init(&account, weir_mem_root(mem), "bench");
	must(weir_io_new(&account, 1, &io, &err));
	for (int i = 1; i < argc; i++) {
		struct weir_read_setup setup = {.io = io};
		struct weir_format_reader *reader;
		struct weir_format_file *file;
		struct weir_schema *schema;
		struct weir_file *bytes;
		uint32_t *columns;

		must(weir_file_open(&account, argv[i], &bytes, &err));
		printf("%s: %.1f MB\n", argv[i], (double)weir_file_size(bytes) / 1e6);
		must(weir_csv_format.infer(&account, &setup, &bytes, 1, &schema, &err));
		setup.schema = schema;
		must(weir_csv_format.open(&account, &setup, bytes, &file, &err));
		must(weir_csv_format.reader_new(&account, io, &reader, &err));
		columns = weir_alloc(&account, schema->field_count * sizeof(*columns), &err);
		for (uint32_t c = 0; c < schema->field_count; c++)
			columns[c] = c;
		count_newlines(bytes);
		measure(reader, file, &(struct weir_scan){.columns = columns}, "rows", "");
		measure(reader, file, &(struct weir_scan){.columns = columns, .column_count = schema->field_count},
			"all columns", "");
		for (uint32_t c = 0; c < schema->field_count; c++) {
			char name[64];

			measure(reader, file, &(struct weir_scan){.columns = &columns[c], .column_count = 1},
				schema->fields[c].name, weir_type_name(schema->fields[c].type, name, sizeof(name)));
		}
		weir_free(&account, columns, schema->field_count * sizeof(*columns));
		weir_csv_format.reader_free(reader);
		weir_format_file_unref(file);
		weir_schema_unref(schema);
		weir_file_unref(bytes);
	}
	weir_io_free(io);
	weir_account_release(&account);
	weir_mem_free(mem);
	return 0;
}
