/* Lines of bytes through the text reader: whole and cut into two ranges, which must give the same lines. A second,
 * simple reading of the rules is the oracle. Shared by the C test and the fuzz target. */
#ifndef WEIR_TESTS_LINES_CUT_H
#define WEIR_TESTS_LINES_CUT_H

#include "base/utf8.h"
#include "format_feed.h"

struct lines {
	char *text; /* each line, then a byte 1 and a byte 0 */
	size_t size, capacity;
	uint32_t count;
};

static void lines_add(struct lines *lines, const void *bytes, size_t size)
{
	if (lines->size + size + 2 > lines->capacity) {
		lines->capacity = (lines->size + size + 2) * 2;
		lines->text = realloc(lines->text, lines->capacity);
		if (!lines->text)
			abort();
	}
	memcpy(lines->text + lines->size, bytes, size);
	memcpy(lines->text + lines->size + size, "\1\0", 2);
	lines->size += size + 2;
	lines->count++;
}

/* ASCII white space only: what else counts is held against Python. */
static bool lines_blank(const uint8_t *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] >= 0x80 || !strchr(" \t\n\v\f\r\x1c\x1d\x1e\x1f", text[i]) || text[i] == 0)
			return false;
	return true;
}

/* What the file's lines are. False when there is white space that only Python knows, or something is not UTF-8. */
static bool lines_expect(const uint8_t *bytes, size_t size, struct lines *out)
{
	size_t at = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] == 0xc2 || (bytes[i] >= 0xe1 && bytes[i] <= 0xe3))
			return false;
	if (!weir_utf8_valid(bytes, size))
		return false;
	while (at < size) {
		size_t end = at, next;

		while (end < size && bytes[end] != '\n')
			end++;
		next = end < size ? end + 1 : end;
		if (end < size && end > at && bytes[end - 1] == '\r')
			end--;
		if (!lines_blank(bytes + at, end - at))
			lines_add(out, bytes + at, end - at);
		at = next;
	}
	return true;
}

static int lines_range(struct feed *feed, struct weir_format_file *file, uint64_t begin, uint64_t end,
		       struct lines *out, struct weir_error *err)
{
	uint32_t column = 0;
	struct weir_scan scan = {.columns = &column, .column_count = 1, .vectors_small = begin % 2};
	struct weir_range range = {.begin = begin, .end = end};
	struct weir_vector vector;

	if (feed->format->reader_open(feed->reader, file, &scan, &range, err))
		return err->code;
	for (;;) {
		if (feed->format->reader_next(feed->reader, &vector, err))
			return err->code;
		if (vector.row_count == 0)
			return WEIR_OK;
		feed_must(weir_vector_decode_all(&vector, err), err);
		for (uint32_t i = 0; i < vector.row_count; i++) {
			const struct weir_view *view = (const struct weir_view *)vector.columns[0].values + i;

			lines_add(out, weir_view_bytes(view), view->size);
		}
	}
}

/* The file's bytes, opened; the caller unrefs. */
static inline struct weir_format_file *lines_open(struct feed *feed, const void *bytes, size_t size)
{
	struct weir_format_file *file;
	struct weir_file *opened;
	struct weir_error err = {0};
	char path[64];

	if (ftruncate(feed->fd, 0) || pwrite(feed->fd, bytes, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", feed->fd);
	feed_must(weir_file_open(weir_mem_root(feed->mem), path, &opened, &err), &err);
	feed_must(feed->format->open(&feed->account, NULL, opened, &file, &err), &err);
	weir_file_unref(opened);
	return file;
}

/* Cut at `cut`: false when the lines differ from those in `whole`. An error is an error in one of the halves, too. */
static inline bool lines_cut_agrees(struct feed *feed, struct weir_format_file *file, size_t size, size_t cut,
				    const struct lines *whole, int whole_code)
{
	struct lines got = {0};
	struct weir_error err = {0};
	int code = lines_range(feed, file, 0, cut, &got, &err);
	bool agrees;

	if (!code)
		code = lines_range(feed, file, cut, size, &got, &err);
	agrees = code == whole_code &&
		 (code || (got.size == whole->size && (!got.size || !memcmp(got.text, whole->text, got.size))));
	free(got.text);
	return agrees;
}

#endif
