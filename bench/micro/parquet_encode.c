/* weir_micro_parquet_encode FILE…: what writing the columns of Parquet files costs, one after the other: rows are read
 * and decoded by weir, and only the writer's own calls are timed, into a sink that forgets. GB/s of decoded bytes, ns a
 * row, bytes a row in the file. EVERY=k keeps one row in k; CODEC=snappy|zstd|none…; WEIR_CPU=v2|v3|v4 chooses the
 * kernels; COLUMN=name writes that one only. */
#include "base/clock.h"
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3 };

static struct weir_mem *mem;
static struct weir_error err;
static uint16_t rows[WEIR_VECTOR_ROWS];
static struct weir_writer_options options = WEIR_WRITER_OPTIONS_DEFAULT;

static void must(int code)
{
	char text[2048];

	if (!code)
		return;
	fprintf(stderr, "%s\n", weir_error_format(&err, text, sizeof(text)));
	exit(1);
}

static int forget(void *state, const void *bytes, uint64_t size, struct weir_error *unused)
{
	(void)state;
	(void)bytes;
	(void)size;
	(void)unused;
	return WEIR_OK;
}

/* Nanoseconds in the writer. */
static uint64_t encode(struct weir_format_reader *reader, struct weir_format_file *file, uint32_t column,
		       uint32_t every, struct weir_part *facts)
{
	struct weir_account *root = weir_mem_root(mem);
	struct weir_scan scan = {.columns = &column, .column_count = 1};
	struct weir_range range = {.end = (uint64_t)file->row_count};
	struct weir_byte_sink sink = {.write = forget};
	struct weir_schema *schema = weir_schema_new(root, &file->schema->fields[column], 1, NULL, &err);
	struct weir_format_writer *writer;
	struct weir_part *part;
	uint64_t took = 0, begin;

	must(schema ? WEIR_OK : err.code);
	must(weir_parquet_writer.writer_new(root, schema, &options, &writer, &err));
	must(weir_parquet_writer.part_begin(writer, sink, &err));
	must(reader->ops->reader_open(reader, file, &scan, &range, &err));
	for (;;) {
		struct weir_vector vector;

		must(reader->ops->reader_next(reader, &vector, &err));
		if (vector.row_count == 0)
			break;
		if (every > 1) {
			vector.selection.count = 0;
			for (uint32_t row = 0; row < vector.row_count; row += every)
				rows[vector.selection.count++] = (uint16_t)row;
			vector.selection.rows = rows;
		}
		must(weir_vector_decode_all(&vector, &err));
		begin = weir_clock_thread_cpu_ns();
		must(weir_parquet_writer.push(writer, &vector, &err));
		took += weir_clock_thread_cpu_ns() - begin;
	}
	begin = weir_clock_thread_cpu_ns();
	must(weir_parquet_writer.part_end(writer, root, &part, &err));
	took += weir_clock_thread_cpu_ns() - begin;
	*facts = *part;
	weir_parquet_writer.part_free(root, part);
	weir_parquet_writer.writer_free(writer);
	weir_schema_unref(schema);
	return took;
}

static double measure(struct weir_format_reader *reader, struct weir_format_file *file, uint32_t column, uint32_t every)
{
	uint64_t best = UINT64_MAX;
	struct weir_part part;
	char type[64];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t took = encode(reader, file, column, every, &part);

		best = took < best ? took : best;
	}
	printf("%-20s %-24s %8.2f ns a row  %8.1f Mrows/s  %7.2f bytes a row\n", file->schema->fields[column].name,
	       weir_type_name(file->schema->fields[column].type, type, sizeof(type)), (double)best / (double)part.rows,
	       (double)part.rows / (double)best * 1e3, (double)part.bytes / (double)part.rows);
	return (double)best / (double)part.rows;
}

int main(int argc, char **argv)
{
	uint32_t every = getenv("EVERY") ? (uint32_t)strtoul(getenv("EVERY"), NULL, 10) : 1;
	const char *only = getenv("COLUMN");

	must(weir_mem_new(0, &mem, &err));
	if (getenv("CODEC"))
		must(weir_codec_parse(getenv("CODEC"), &options.codec, &err));
	for (int i = 1; i < argc; i++) {
		struct weir_account *root = weir_mem_root(mem);
		struct weir_format_file *file;
		struct weir_format_reader *reader;
		struct weir_file *bytes;
		struct weir_io *io;
		double total = 0;

		must(weir_io_new(root, 1, &io, &err));
		must(weir_file_open(root, argv[i], &bytes, &err));
		must(weir_parquet_format.open(root, NULL, bytes, &file, &err));
		must(weir_parquet_format.reader_new(root, io, &reader, &err));
		for (uint32_t column = 0; column < file->schema->field_count; column++)
			if (!only || strcmp(only, file->schema->fields[column].name) == 0)
				total += measure(reader, file, column, every);
		printf("%-20s %-24s %8.2f ns a row\n", argv[i], "all columns", total);
		weir_parquet_format.reader_free(reader);
		weir_format_file_unref(file);
		weir_file_unref(bytes);
		weir_io_free(io);
	}
	weir_mem_free(mem);
	return 0;
}
