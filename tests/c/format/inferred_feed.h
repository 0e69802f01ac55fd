/* Feeds bytes to the reader of a format whose types are inferred, as if they were a file: inferred, opened, read whole
 * or in two ranges, all columns. The outcome is rows, as text, or an error. Shared by the tests and the fuzz
 * targets. */
#ifndef WEIR_TESTS_INFERRED_FEED_H
#define WEIR_TESTS_INFERRED_FEED_H

#include "arrow/print.h"
#include "format/cuts.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct inferred_feed {
	const struct weir_format_ops *format;
	struct weir_mem *mem;
	struct weir_account *root;
	struct weir_account account;
	struct weir_io *io;
	struct weir_arena arena;
	struct weir_read_setup setup;
	int fd;
	bool may_fail; /* failures are injected */
	/* of the last run */
	struct weir_error error;
	struct weir_text rows; /* a line a row */
	int64_t row_count;
	bool guessed_wrong;
};

static int inferred_feed_ask(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	(void)account;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than granted", (long long)more);
}

static inline void inferred_feed_begin(struct inferred_feed *feed, const struct weir_format_ops *format,
				       const struct weir_setting *settings, uint32_t count)
{
	memset(feed, 0, sizeof(*feed));
	feed->format = format;
	if (weir_mem_new(0, &feed->mem, &feed->error))
		abort();
	feed->root = weir_mem_root(feed->mem);
	weir_account_init(&feed->account, feed->root, "feed");
	feed->account.ask = inferred_feed_ask;
	atomic_store(&feed->account.grant, (int64_t)64 << 20);
	weir_arena_init(&feed->arena, feed->root);
	weir_text_init(&feed->rows, feed->root);
	if (weir_io_new(feed->root, 1, &feed->io, &feed->error) ||
	    feed->format->options_parse(&feed->arena, settings, count, &feed->setup.options, &feed->error))
		abort();
	feed->setup.io = feed->io;
	feed->fd = memfd_create("feed", MFD_CLOEXEC);
	if (feed->fd < 0)
		abort();
}

static inline void inferred_feed_end(struct inferred_feed *feed)
{
	weir_text_release(&feed->rows);
	weir_arena_release(&feed->arena);
	weir_io_free(feed->io);
	weir_account_release(&feed->account); /* asserts that nothing is left */
	weir_mem_free(feed->mem);
	close(feed->fd);
}

static int inferred_feed_range(struct inferred_feed *feed, struct weir_format_reader *reader,
			       struct weir_format_file *file, const struct weir_range *range, struct weir_text *rows,
			       int64_t *row_count, struct weir_error *err)
{
	uint32_t columns[1024];
	struct weir_scan scan = {.columns = columns, .column_count = file->schema->field_count};
	struct weir_vector vector;
	int code;

	if (scan.column_count > 1024)
		return weir_error_set(err, WEIR_E_DATA, "too many columns for this test");
	for (uint32_t i = 0; i < scan.column_count; i++)
		columns[i] = i;
	code = feed->format->reader_open(reader, file, &scan, range, err);
	while (!code) {
		struct weir_batch *batch = NULL;

		code = feed->format->reader_next(reader, &vector, err);
		if (code || vector.row_count == 0)
			break;
		code = weir_vector_to_batch(&vector, file->schema, &feed->account, &batch, err);
		for (uint32_t i = 0; !code && i < batch->column_count; i++)
			if (weir_array_validate(batch->columns[i], true, err) && !feed->may_fail)
				abort();
		for (int64_t row = 0; !code && row < batch->row_count; row++) {
			for (uint32_t i = 0; !code && i < batch->column_count; i++)
				code = weir_print_value(batch->columns[i], row, WEIR_PRINT_JSON, rows, err);
			if (!code)
				code = weir_text_append(rows, "\n", 1, err);
			++*row_count;
		}
		weir_batch_unref(batch);
	}
	return code;
}

/* Both ranges, the second one first, so that it begins at a guess; then again if the guess was wrong. */
static int inferred_feed_cut(struct inferred_feed *feed, struct weir_format_reader *reader,
			     struct weir_format_file *file, uint64_t cut, uint64_t size, struct weir_error *err)
{
	struct weir_range ranges[2] = {{.end = cut}, {.number = 1, .begin = cut, .end = size}};
	struct weir_text second;
	int64_t second_count = 0;
	struct weir_error first = {0};
	uint64_t start;
	int code, late;

	weir_text_init(&second, feed->root);
	late = inferred_feed_range(feed, reader, file, &ranges[1], &second, &second_count, &first);
	start = file->cuts ? feed->format->reader_start(reader) : 0;
	code = inferred_feed_range(feed, reader, file, &ranges[0], &feed->rows, &feed->row_count, err);
	if (!code && file->cuts && (late || !weir_cuts_confirm(file->cuts, 1, start))) {
		feed->guessed_wrong = true;
		weir_text_clear(&second);
		second_count = 0;
		code = inferred_feed_range(feed, reader, file, &ranges[1], &second, &second_count, err);
	} else if (!code && late) {
		*err = first;
		code = late;
	}
	if (!code)
		code = weir_text_append(&feed->rows, second.size ? second.data : "", second.size, err);
	feed->row_count += second_count;
	weir_text_release(&second);
	return code;
}

/* `cut` 0: whole. */
static inline int inferred_feed_run(struct inferred_feed *feed, const void *bytes, size_t size, uint64_t cut)
{
	struct weir_error *err = &feed->error;
	struct weir_format_reader *reader = NULL;
	struct weir_format_file *file = NULL;
	struct weir_schema *schema = NULL;
	struct weir_file *opened = NULL;
	char path[64];
	int code;

	weir_error_clear(err);
	weir_text_clear(&feed->rows);
	feed->row_count = 0;
	feed->guessed_wrong = false;
	if (ftruncate(feed->fd, 0) || pwrite(feed->fd, bytes, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", feed->fd);
	code = weir_file_open(feed->root, path, &opened, err);
	feed->setup.schema = NULL;
	if (!code)
		code = feed->format->infer(&feed->account, &feed->setup, &opened, 1, &schema, err);
	feed->setup.schema = schema;
	if (!code)
		code = feed->format->open(&feed->account, &feed->setup, opened, &file, err);
	if (!code)
		code = feed->format->reader_new(&feed->account, feed->io, &reader, err);
	if (!code && cut)
		code = inferred_feed_cut(feed, reader, file, cut, size, err);
	else if (!code)
		code = inferred_feed_range(feed, reader, file, &(struct weir_range){.end = size}, &feed->rows,
					   &feed->row_count, err);
	if (reader)
		feed->format->reader_free(reader);
	weir_format_file_unref(file);
	weir_schema_unref(schema);
	weir_file_unref(opened);
	/* What is broken is said with its place; nothing else can come of bytes. */
	if (code && !feed->may_fail && code != WEIR_E_DATA && code != WEIR_E_UNSUPPORTED && code != WEIR_E_LIMIT &&
	    code != WEIR_E_VALUE) {
		fprintf(stderr, "%s\n", err->message);
		abort();
	}
	if (code == WEIR_E_DATA && !feed->may_fail && ((!err->has_line && !err->has_offset) || !err->source[0])) {
		fprintf(stderr, "no place: %s\n", err->message);
		abort();
	}
	return code;
}

#endif
