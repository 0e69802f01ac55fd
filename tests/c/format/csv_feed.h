/* Feeds bytes to the CSV reader as if they were a file, the first two of them as options: an error or rows; the same
 * rows, or the same error, when the file is cut somewhere and its ranges are read from behind, whatever was guessed.
 * Every byte is given back. (Of two values that do not fit, which one is met first depends on the vectors; of lines
 * that are no rows the first one is.) Shared by the hostile-file tests and the fuzz target. */
#ifndef WEIR_TESTS_CSV_FEED_H
#define WEIR_TESTS_CSV_FEED_H

#include "format/csv/csv_impl.h"
#include "format/cuts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct outcome {
	int code;
	int64_t line;
	uint64_t rows, hash;
};

struct run {
	struct weir_account *account;
	struct weir_io *io;
	struct weir_file *file;
	struct weir_read_setup setup;
	struct weir_arena arena;
	bool may_fail; /* failures are injected: nothing is compared */
};

static void hash_in(struct outcome *out, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < size; i++)
		out->hash = (out->hash ^ at[i]) * UINT64_C(0x100000001b3);
	out->hash = (out->hash ^ size) * UINT64_C(0x100000001b3);
}

static void hash_vector(struct outcome *out, const struct weir_vector *vector)
{
	for (uint32_t row = 0; row < vector->row_count; row++, out->rows++) {
		for (uint32_t i = 0; i < vector->column_count; i++) {
			const struct weir_column *column = &vector->columns[i];
			const struct weir_type *type = weir_type_values(column->type);

			if (!weir_column_valid(column, row)) {
				hash_in(out, "null", 4);
			} else if (type->layout == WEIR_LAYOUT_BYTES) {
				const struct weir_view *view = (const struct weir_view *)column->values + row;

				hash_in(out, weir_view_bytes(view), view->size);
			} else if (type->layout == WEIR_LAYOUT_BITS) {
				hash_in(out, ((const uint64_t *)column->values)[row >> 6] >> (row & 63) & 1 ? "1" : "0",
					1);
			} else {
				hash_in(out, (const uint8_t *)column->values + (size_t)row * type->byte_width,
					type->byte_width);
			}
		}
	}
}

static int read_range(struct weir_format_reader *reader, struct weir_format_file *file, const struct weir_scan *scan,
		      const struct weir_range *range, uint64_t *start, struct outcome *out)
{
	struct weir_error err = {0};
	struct weir_vector vector;

	*out = (struct outcome){.hash = out->hash, .rows = out->rows};
	out->code = csv_reader_open(reader, file, scan, range, &err);
	*start = out->code ? UINT64_MAX : csv_reader_start(reader);
	while (!out->code) {
		out->code = csv_reader_next(reader, &vector, &err);
		if (out->code || vector.row_count == 0)
			break;
		out->code = weir_vector_decode_all(&vector, &err);
		if (!out->code)
			hash_vector(out, &vector);
	}
	out->line = err.line;
	return out->code;
}

/* Cut at `cut` (0: whole), the second range read first. */
static struct outcome read_file(struct run *run, uint64_t cut, int guess)
{
	struct outcome out = {.hash = 1}, second = {.hash = 1};
	struct weir_format_reader *reader = NULL;
	struct weir_format_file *file = NULL;
	struct weir_error err = {0};
	uint32_t columns[64];
	struct weir_scan scan = {.columns = columns};
	uint64_t start = 0;

	out.code = csv_file_open(run->account, &run->setup, run->file, &file, &err);
	if (out.code)
		return out;
	for (; scan.column_count < file->schema->field_count && scan.column_count < 64; scan.column_count++)
		columns[scan.column_count] = scan.column_count;
	if (file->schema->field_count == 0) {
		weir_format_file_unref(file);
		return out;
	}
	if (csv_reader_new(run->account, run->io, &reader, &err)) {
		if (!run->may_fail)
			abort();
		weir_format_file_unref(file);
		return out;
	}
	if (cut) {
		struct weir_range ranges[2] = {
			{.number = 0, .begin = ((struct csv_file *)file)->data_offset, .end = cut},
			{.number = 1, .begin = cut, .end = UINT64_MAX}};

		((struct csv_file *)file)->guess_forced = guess;
		out.code = weir_cuts_new(run->account, &file->cuts, &err);
		if (out.code) {
			if (!run->may_fail)
				abort();
			goto out;
		}
		read_range(reader, file, &scan, &ranges[1], &start, &second);
		if (!read_range(reader, file, &scan, &ranges[0], &(uint64_t){0}, &out)) {
			bool stands = weir_cuts_confirm(file->cuts, 1, start);
			uint64_t rows_before = out.rows;

			/* Rows are hashed one after the other, so the second range is read behind the first in any
			 * case. */
			read_range(reader, file, &scan, &ranges[1], &start, &out);
			if (run->may_fail)
				goto out;
			if (!weir_cuts_confirm(file->cuts, 1, start) ||
			    (stands && (second.code != out.code || second.rows != out.rows - rows_before)))
				abort();
			if (out.code)
				out.line += (int64_t)weir_cuts_line(file->cuts, 1) -
					    (int64_t)((struct csv_file *)file)->data_line;
		}
		out.line += out.line ? (int64_t)((struct csv_file *)file)->data_line - 1 : 0;
	} else {
		read_range(reader, file, &scan, &(struct weir_range){.end = UINT64_MAX}, &start, &out);
	}
out:
	csv_reader_free(reader);
	weir_format_file_unref(file);
	return out;
}

static void try_all(struct run *run, size_t size, uint32_t choice)
{
	static const struct weir_setting ragged[3] = {{"ragged", "error"}, {"ragged", "skip"}, {"ragged", "fill"}};
	struct weir_setting settings[8];
	struct weir_schema *schema = NULL;
	struct weir_error err = {0};
	struct outcome whole;
	uint32_t count = 0;

	settings[count++] = ragged[choice % 3];
	if (choice & 4)
		settings[count++] = (struct weir_setting){"escape", "\\"};
	if (choice & 8)
		settings[count++] = (struct weir_setting){"comment", "#"};
	if (choice & 16)
		settings[count++] = (struct weir_setting){"no-header", NULL};
	if (choice & 32)
		settings[count++] = (struct weir_setting){"quote", "none"};
	if (choice & 64)
		settings[count++] = (struct weir_setting){"no-doubled-quotes", NULL};
	if (choice & 128)
		settings[count++] = (struct weir_setting){"strings-null", "unquoted"};
	if (choice & 256)
		settings[count++] = (struct weir_setting){"infer", "none"};
	if (csv_options_parse(&run->arena, settings, count, &run->setup.options, &err)) {
		if (!run->may_fail)
			abort();
		return;
	}
	if (csv_infer(run->account, &run->setup, &run->file, 1, &schema, &err))
		return;
	run->setup.schema = schema;
	whole = read_file(run, 0, 0);
	for (uint32_t i = 0; i < 3 && size > 1; i++) {
		uint64_t cut = 1 + (choice * 31 + i * 17) % (size - 1);
		struct outcome cut_up = read_file(run, cut, (int)(choice + i) % 3 - 1);

		if (run->may_fail)
			continue;
		if (cut_up.code != whole.code ||
		    (!whole.code && (cut_up.rows != whole.rows || cut_up.hash != whole.hash)) ||
		    (whole.code == WEIR_E_DATA && cut_up.line != whole.line)) {
			fprintf(stderr, "cut at %llu: code %d and %d, rows %llu and %llu, line %lld and %lld\n",
				(unsigned long long)cut, whole.code, cut_up.code, (unsigned long long)whole.rows,
				(unsigned long long)cut_up.rows, (long long)whole.line, (long long)cut_up.line);
			abort();
		}
	}
	weir_schema_unref(schema);
}

static inline void csv_feed(const uint8_t *bytes, size_t size, bool may_fail)
{
	struct weir_error err = {0};
	struct run run = {.may_fail = may_fail};
	struct weir_mem *mem;
	uint32_t choice;
	char path[64];
	int fd;

	if (size < 2)
		return;
	choice = bytes[0] | (uint32_t)bytes[1] << 8;
	bytes += 2;
	size -= 2;
	fd = memfd_create("feed", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!weir_mem_new((int64_t)64 << 20, &mem, &err)) {
		run.account = weir_mem_root(mem);
		weir_arena_init(&run.arena, run.account);
		if (!weir_io_new(run.account, 1, &run.io, &err)) {
			run.setup.io = run.io;
			if (!weir_file_open(run.account, path, &run.file, &err)) {
				try_all(&run, size, choice);
				weir_file_unref(run.file);
			}
			weir_io_free(run.io);
		}
		weir_arena_release(&run.arena);
		weir_mem_free(mem); /* asserts that nothing is in use */
	}
	if (err.code && !may_fail)
		abort();
	close(fd);
}

#endif
