/* Feeds bytes to a format's reader as if they were a file, whole and in pieces, with and without selections. Whatever
 * they are, the outcome is rows or an error with the code of damaged or unsupported data, and every byte is given back.
 * Shared by the hostile-file tests and the fuzz target. */
#ifndef WEIR_TESTS_FORMAT_FEED_H
#define WEIR_TESTS_FORMAT_FEED_H

#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FEED_GRANT ((int64_t)64 << 20)
#define FEED_GRANT_SMALL ((int64_t)300 << 10) /* so little that columns take turns */
#define FEED_SMALL 5                          /* `every` for a run with it */
#define FEED_ROWS_MAX 200000                  /* a footer may promise more rows than a test has time for */

struct feed {
	const struct weir_format_ops *format;
	struct weir_mem *mem;
	struct weir_account account;
	struct weir_io *io;
	struct weir_format_reader *reader;
	int fd;
	bool may_fail; /* failures are injected: WEIR_E_MEMORY and WEIR_E_IO are answers too */
	/* of the last run */
	struct weir_error error;
	int64_t rows;
};

static int feed_ask(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	(void)account;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than granted", (long long)more);
}

static void feed_must(int code, const struct weir_error *err)
{
	char text[2048];

	if (!code)
		return;
	fprintf(stderr, "%s\n", weir_error_format(err, text, sizeof(text)));
	abort();
}

static inline void feed_begin(struct feed *feed, const struct weir_format_ops *format)
{
	memset(feed, 0, sizeof(*feed));
	feed->format = format;
	feed_must(weir_mem_new(0, &feed->mem, &feed->error), &feed->error);
	weir_account_init(&feed->account, weir_mem_root(feed->mem), "feed");
	feed->account.ask = feed_ask;
	atomic_store(&feed->account.grant, FEED_GRANT);
	feed_must(weir_io_new(weir_mem_root(feed->mem), 1, &feed->io, &feed->error), &feed->error);
	feed_must(feed->format->reader_new(&feed->account, feed->io, &feed->reader, &feed->error), &feed->error);
	feed->fd = memfd_create("feed", MFD_CLOEXEC);
	if (feed->fd < 0)
		abort();
}

static inline void feed_end(struct feed *feed)
{
	feed->format->reader_free(feed->reader);
	weir_io_free(feed->io);
	weir_account_release(&feed->account);
	weir_mem_free(feed->mem);
	close(feed->fd);
}

static int feed_vectors(struct feed *feed, struct weir_format_file *file, const struct weir_scan *scan, uint32_t every,
			struct weir_error *err)
{
	struct weir_range range = {
		.end = (uint64_t)(file->row_count < FEED_ROWS_MAX ? file->row_count : FEED_ROWS_MAX)};
	uint16_t rows[WEIR_VECTOR_ROWS];
	int64_t seen = 0;

	/* Not from the beginning: pages are to be skipped too. Who does not know its rows has one range. */
	range.begin = every > 1 ? range.end / 3 : 0;
	if (file->row_count < 0)
		range = (struct weir_range){.end = INT64_MAX};
	if (feed->format->reader_open(feed->reader, file, scan, &range, err))
		return err->code;
	for (uint32_t number = 0;; number++) {
		struct weir_vector vector;
		struct weir_batch *batch;

		if (feed->format->reader_next(feed->reader, &vector, err))
			return err->code;
		seen += vector.row_count;
		if (vector.row_count == 0 || seen > FEED_ROWS_MAX)
			return WEIR_OK;
		if (every > 1 && number % 3 == 1)
			continue;
		if (every > 1) {
			uint32_t count = 0;

			for (uint32_t row = number; row < vector.row_count; row += every)
				rows[count++] = (uint16_t)row;
			if (count == 0)
				continue; /* vectors in chains have at least one row selected */
			vector.selection = (struct weir_selection){.count = count, .rows = rows};
		}
		/* Follows every view and offset. */
		if (weir_vector_to_batch(&vector, file->schema, &feed->account, &batch, err))
			return err->code;
		for (uint32_t i = 0; i < batch->column_count; i++)
			if (weir_array_validate(batch->columns[i], true, err) && !feed->may_fail)
				feed_must(err->code, err);
		feed->rows += batch->row_count;
		weir_batch_unref(batch);
	}
}

struct feed_ranges {
	uint64_t end, count;
};

/* Ranges follow each other. */
static int feed_range(void *context, const struct weir_range *range)
{
	struct feed_ranges *seen = context;

	if (range->begin < seen->end || range->end <= range->begin)
		abort();
	seen->end = range->end;
	seen->count++;
	return WEIR_OK;
}

static int feed_file(struct feed *feed, struct weir_file *bytes, uint32_t every, struct weir_error *err)
{
	struct weir_format_file *file;
	struct weir_scan scan = {0};
	uint32_t *columns;
	int code;

	if (feed->format->open(&feed->account, NULL, bytes, &file, err))
		return err->code;
	scan.column_count = file->schema->field_count;
	columns = weir_alloc(&feed->account, scan.column_count * sizeof(*columns), err);
	if (!columns) {
		weir_format_file_unref(file);
		return err->code;
	}
	for (uint32_t i = 0; i < scan.column_count; i++)
		columns[i] = i;
	scan.columns = columns;
	code = feed->format->ranges(file, &scan, 4096, feed_range, &(struct feed_ranges){0}, err);
	if (!code)
		code = feed_vectors(feed, file, &scan, every, err);
	weir_free(&feed->account, columns, scan.column_count * sizeof(*columns));
	weir_format_file_unref(file);
	return code;
}

/* One run; the error is in feed->error, the rows that came before it in feed->rows. */
static inline int feed_run(struct feed *feed, const void *bytes, size_t size, uint32_t every)
{
	struct weir_file *file;
	char path[64];
	int code;

	feed->rows = 0;
	weir_error_clear(&feed->error);
	/* Buffers that are kept from run to run would take all of the small grant. */
	feed->format->reader_free(feed->reader);
	feed->reader = NULL;
	atomic_store(&feed->account.grant, every == FEED_SMALL ? FEED_GRANT_SMALL : FEED_GRANT);
	code = feed->format->reader_new(&feed->account, feed->io, &feed->reader, &feed->error);
	if (code && feed->may_fail)
		return code;
	feed_must(code, &feed->error);
	if (ftruncate(feed->fd, 0) || pwrite(feed->fd, bytes, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", feed->fd);
	code = weir_file_open(weir_mem_root(feed->mem), path, &file, &feed->error);
	if (code && feed->may_fail)
		return code;
	feed_must(code, &feed->error);
	code = feed_file(feed, file, every, &feed->error);
	weir_file_unref(file);
	if (feed->may_fail && (code == WEIR_E_MEMORY || code == WEIR_E_IO))
		return code;
	if (code && code != WEIR_E_DATA && code != WEIR_E_UNSUPPORTED && code != WEIR_E_LIMIT && code != WEIR_E_VALUE)
		feed_must(code, &feed->error);
	/* An error of the reader names the file. */
	if (code == WEIR_E_DATA && !feed->error.source[0])
		feed_must(code, &feed->error);
	return code;
}

#endif
