/* Lines become rows: blank lines and comments go, lines of another width are an error, skipped or filled with nulls.
 *
 * Nearly always every line is a row and has the right width. Then the index's own array is the rows, since field f of
 * row r is number r × width + f in it; nothing is copied. Only where a line is odd are rows put together in an array of
 * their own.
 */
#include "format/csv/csv_impl.h"

#include <string.h>

static int reserve(uint32_t **items, size_t *capacity, size_t count, struct weir_account *account,
		   struct weir_error *err)
{
	size_t size = weir_alloc_size(count * sizeof(**items)) / sizeof(**items);
	uint32_t *memory;

	if (count <= *capacity)
		return WEIR_OK;
	memory = weir_alloc(account, size * sizeof(*memory), err);
	if (!memory)
		return err->code;
	weir_free(account, *items, *capacity * sizeof(**items));
	*items = memory;
	*capacity = size;
	return WEIR_OK;
}

void csv_rows_release(struct csv_rows *rows, struct weir_account *account)
{
	weir_free(account, rows->made, rows->made_capacity * sizeof(*rows->made));
	weir_free(account, rows->starts, rows->starts_capacity * sizeof(*rows->starts));
	*rows = (struct csv_rows){0};
}

/* How many lines from the first on are rows as they are. */
static uint32_t regular_lines(const struct csv_index *index, uint32_t width, uint32_t line_max)
{
	uint32_t line = 0;

	while (line < line_max && index->lines[line] == (line + 1) * width - 1)
		line++;
	return line;
}

/* A line end may be two bytes; a field ends before both. */
static uint32_t trimmed(const uint8_t *text, uint32_t begin, uint32_t end)
{
	return end > begin && text[end - 1] == '\r' && text[end] == '\n' ? end - 1 : end;
}

/* Line by line into `made`. */
static int put_together(struct csv_rows *rows, struct weir_account *account, const struct csv_row_rules *rules,
			const struct csv_index *index, uint32_t begin, uint32_t line_max, uint32_t row_max,
			uint32_t *lines_used, uint32_t *skipped, struct csv_odd_line *odd, struct weir_error *err)
{
	uint32_t width = rules->width, line = 0, first = 0;

	if (reserve(&rows->made, &rows->made_capacity, (size_t)(row_max < line_max ? row_max : line_max) * width,
		    account, err))
		return err->code;
	rows->ends = rows->made;
	for (; line < line_max && rows->count < row_max; line++) {
		uint32_t fields = index->lines[line] + 1 - first, end = index->ends[index->lines[line]];
		uint32_t last = trimmed(index->text, begin, end);
		uint32_t *out = rows->made + (size_t)rows->count * width;
		bool is_blank = fields == 1 && last == begin;
		bool is_comment = rules->dialect.has_comment && last > begin &&
				  index->text[begin] == rules->dialect.comment;

		if (is_blank || is_comment) {
			/* not a row */
		} else if (fields == width || (fields < width && rules->ragged == CSV_RAGGED_FILL)) {
			memcpy(out, index->ends + first, fields * sizeof(*out));
			for (uint32_t i = fields - 1; i < width; i++)
				out[i] = last;
			rows->starts[rows->count++] = begin;
		} else if (rules->ragged == CSV_RAGGED_SKIP) {
			++*skipped;
		} else {
			*odd = (struct csv_odd_line){true, begin, last, fields};
			break;
		}
		first = index->lines[line] + 1;
		begin = end + 1;
	}
	*lines_used = line;
	rows->begin_next = begin;
	return WEIR_OK;
}

int csv_rows_make(struct csv_rows *rows, struct weir_account *account, const struct csv_row_rules *rules,
		  const struct csv_index *index, uint32_t begin, uint32_t line_max, uint32_t row_max,
		  uint32_t *lines_used, uint32_t *skipped, struct csv_odd_line *odd, struct weir_error *err)
{
	uint32_t width = rules->width, line_limit = line_max < row_max ? line_max : row_max;

	rows->width = width;
	rows->count = 0;
	*lines_used = *skipped = 0;
	odd->found = false;
	if (reserve(&rows->starts, &rows->starts_capacity, line_limit, account, err))
		return err->code;
	/* Blank lines are lines of one field. */
	if (width == 1 || rules->dialect.has_comment || regular_lines(index, width, line_limit) < line_limit)
		return put_together(rows, account, rules, index, begin, line_max, row_max, lines_used, skipped, odd,
				    err);
	rows->ends = index->ends;
	rows->count = *lines_used = line_limit;
	for (uint32_t row = 0; row < line_limit; row++) {
		rows->starts[row] = begin;
		begin = index->ends[(row + 1) * width - 1] + 1;
	}
	rows->begin_next = begin;
	for (uint32_t row = 0; index->has_cr && row < line_limit; row++) {
		uint32_t *end = &index->ends[(row + 1) * width - 1];

		*end = trimmed(index->text, rows->starts[row], *end);
	}
	return WEIR_OK;
}
