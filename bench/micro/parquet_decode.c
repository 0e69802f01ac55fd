/* weir_micro_parquet FILE…: how fast the columns of Parquet files are decoded, one after the other: pages read from the
 * page cache, inflated, decoded, nothing else. Decoded GB/s by the width of the values (strings: 16 bytes of view and
 * what the page holds), and rows a second. WEIR_CPU=v2|v3|v4 chooses the kernels; EVERY=k decodes one row in k. */
#include "base/clock.h"
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5 };

static struct weir_mem *mem;
static struct weir_error err;
static uint16_t rows[WEIR_VECTOR_ROWS];

static void must(int code)
{
	char text[2048];

	if (!code)
		return;
	fprintf(stderr, "%s\n", weir_error_format(&err, text, sizeof(text)));
	exit(1);
}

static uint64_t decode(struct weir_format_reader *reader, struct weir_format_file *file, const struct weir_scan *scan,
		       uint32_t every, uint32_t *forms)
{
	struct weir_range range = {.end = (uint64_t)file->row_count};
	uint64_t begin = weir_clock_ns();

	must(reader->ops->reader_open(reader, file, scan, &range, &err));
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
		*forms |= 1u << vector.columns[0].form;
	}
	return weir_clock_ns() - begin;
}

static void measure(struct weir_format_reader *reader, struct weir_format_file *file, uint32_t column, uint32_t every)
{
	struct weir_scan scan = {.columns = &column, .column_count = 1};
	const struct weir_type *type = file->schema->fields[column].type;
	struct weir_format_stats before, after;
	uint64_t best = UINT64_MAX;
	uint32_t forms = 0;
	char name[128];
	double bytes;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t took;

		reader->ops->reader_stats(reader, &before);
		took = decode(reader, file, &scan, every, &forms);
		reader->ops->reader_stats(reader, &after);
		best = took < best ? took : best;
	}
	bytes = (double)file->row_count * (type->byte_width ? type->byte_width : 16);
	printf("%-24s %-28s %7.2f GB/s out %8.1f Mrows/s   inflated %7.2f GB/s   %s%s\n",
	       file->schema->fields[column].name, weir_type_name(type, name, sizeof(name)), bytes / (double)best,
	       (double)file->row_count * 1e3 / (double)best,
	       (double)(after.bytes_decompressed - before.bytes_decompressed) / (double)best,
	       forms & 1u << WEIR_DICTIONARY ? "codes " : "", forms & 1u << WEIR_FLAT ? "flat" : "");
}

int main(int argc, char **argv)
{
	const char *every = getenv("EVERY");
	struct weir_account account;
	struct weir_io *io;

	must(weir_mem_new(0, &mem, &err));
	weir_account_init(&account, weir_mem_root(mem), "bench");
	must(weir_io_new(&account, 1, &io, &err));
	for (int i = 1; i < argc; i++) {
		struct weir_format_reader *reader;
		struct weir_format_file *file;
		struct weir_file *bytes;

		must(weir_file_open(&account, argv[i], &bytes, &err));
		must(weir_parquet_format.open(&account, NULL, bytes, &file, &err));
		must(weir_parquet_format.reader_new(&account, io, &reader, &err));
		printf("%s: %" PRId64 " rows\n", argv[i], file->row_count);
		for (uint32_t column = 0; column < file->schema->field_count; column++)
			measure(reader, file, column, every ? (uint32_t)strtoul(every, NULL, 10) : 1);
		weir_parquet_format.reader_free(reader);
		weir_format_file_unref(file);
		weir_file_unref(bytes);
	}
	weir_io_free(io);
	weir_account_release(&account);
	weir_mem_free(mem);
	return 0;
}
