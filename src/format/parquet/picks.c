/* Picks: which rows of a stretch the predicate keeps, found out before the other columns are decoded.
 *
 * A table of a thousand columns has a page and a dictionary of each in memory while its vectors go by, all of it for
 * the few rows that live. So where there are many columns, or little memory, the predicate's own columns are decoded
 * first, for all rows of a stretch; then each other column gives its picked rows of the whole stretch at once (hold.c)
 * and lets its pages go:
 *
 *     predicate's column   decode ▸ decode ▸ decode …  ─▶ picks ───╮
 *     column 1                                          inflate ▸ decode what is picked ▸ drop    serve  serve  serve …
 *     column 2                                                      inflate ▸ decode …  ▸ drop    serve  serve  serve …
 *
 * A page is inflated once and is in the cache while it is read; what stays is as large as what leaves.
 *
 * The vectors are those of before: the filter that follows evaluates its predicate again, on the columns that it reads,
 * and finds at most what was picked. Whoever asks for other rows gets them from the page.
 */
#include "format/parquet/nested_impl.h"

enum {
	LEAVES_MIN = 64,          /* fewer have room */
	BYTES_MIN = 16 << 20,     /* what a page of each column takes, at least: less stays in the cache */
	STRETCH_ROWS = 128 << 10, /* of a stretch */
	VECTORS_MIN = 4,          /* of a stretch: what fewer have in common is not worth it */
	HELD_SHARE = 4,           /* when memory is short: one in so many takes turns, at least */
	PREDICATE_SHARE = 8,      /* the predicate reads at most one in so many columns */
	SPARSE_MIN = 4,           /* one row in so many is picked, at most */
	SPARSE_MIN_TIGHT = 2,     /* the same, when memory is short */
};

struct reads {
	const struct parquet_reader *reader;
	uint32_t count;
	bool has_nested;
};

static void column_read(void *context, uint32_t column)
{
	struct reads *reads = context;

	reads->count++;
	reads->has_nested |= reads->reader->columns[column].levels != NULL;
}

void parquet_picks_plan(struct parquet_reader *reader, const struct parquet_row_group *group, uint64_t need,
			uint32_t held)
{
	struct parquet_picks *picks = &reader->picks;
	struct reads reads = {.reader = reader};

	picks->begin = picks->end = 0;
	picks->is_wanted = picks->is_found = false;
	if (!reader->scan->predicate || reader->scan->vectors_small || reader->column_count < 2 ||
	    group->row_count < VECTORS_MIN * (int64_t)reader->rows_cap)
		return;
	if (reader->is_tight ? held < reader->column_count / HELD_SHARE
			     : reader->column_count < LEAVES_MIN || need < BYTES_MIN)
		return;
	weir_program_columns(reader->scan->predicate, column_read, &reads);
	picks->is_wanted = reads.count > 0 && !reads.has_nested &&
			   reads.count * PREDICATE_SHARE <= reader->column_count;
}

void parquet_picks_release(struct parquet_reader *reader)
{
	weir_evaluator_free(reader->picks.evaluator);
	weir_list_release(&reader->picks.rows, reader->account);
	reader->picks = (struct parquet_picks){0};
}

static int evaluator_get(struct parquet_reader *reader, struct weir_error *err)
{
	struct parquet_picks *picks = &reader->picks;

	if (picks->evaluator && picks->predicate == reader->scan->predicate)
		return WEIR_OK;
	weir_evaluator_free(picks->evaluator);
	picks->evaluator = NULL;
	picks->predicate = reader->scan->predicate;
	return weir_evaluator_new(reader->account, picks->predicate, &picks->evaluator, err);
}

static int rows_add(struct parquet_picks *picks, struct parquet_reader *reader, int64_t row,
		    const struct weir_selection *selection, struct weir_error *err)
{
	uint32_t from = (uint32_t)(row - picks->begin), *to;

	if (weir_list_reserve(&picks->rows, reader->account, err, picks->rows.count + selection->count))
		return err->code;
	to = picks->rows.items + picks->rows.count;
	for (uint32_t i = 0; i < selection->count; i++)
		to[i] = from + (selection->rows ? selection->rows[i] : i);
	picks->rows.count += selection->count;
	return WEIR_OK;
}

/* The predicate on rows [row, row + count). Leaves nothing handed out. */
static int evaluate(struct parquet_reader *reader, int64_t row, uint32_t count, struct weir_error *err)
{
	struct weir_vector vector = {
		.row_count = count,
		.selection = {.count = count},
		.column_count = reader->column_count,
		.columns = reader->vector_columns,
		.source = weir_file_path(reader->file->base.file),
		.source_row = reader->file->metadata.row_groups[reader->row_group].row_begin + row,
	};
	int code;

	reader->vector_row = row;
	reader->vector_rows = count;
	parquet_vector_columns(reader);
	code = weir_evaluator_filter(reader->picks.evaluator, &vector, err);
	if (!code)
		code = rows_add(&reader->picks, reader, row, &vector.selection, err);
	parquet_vector_end(reader);
	return code;
}

static void column_rewind(void *context, uint32_t column)
{
	struct parquet_reader *reader = context;

	parquet_leaf_rewind(&reader->columns[column].leaves[0]);
}

static int stretch(struct parquet_reader *reader, int64_t begin, int64_t end, struct weir_error *err)
{
	struct parquet_picks *picks = &reader->picks;
	size_t span = reader->span;
	int64_t row = begin;

	picks->begin = begin;
	picks->end = end;
	picks->rows.count = 0;
	while (row < end) {
		int64_t until = end;

		if (reader->has_spans) {
			while (span < reader->spans.count && reader->spans.items[span].end <= row)
				span++;
			if (span == reader->spans.count)
				break;
			row = reader->spans.items[span].begin > row ? reader->spans.items[span].begin : row;
			until = reader->spans.items[span].end < end ? reader->spans.items[span].end : end;
			if (row >= end)
				break;
		}
		until = until - row < reader->rows_cap ? until : row + reader->rows_cap;
		if (evaluate(reader, row, (uint32_t)(until - row), err))
			return err->code;
		row = until;
	}
	weir_program_columns(reader->scan->predicate, column_rewind, reader);
	return WEIR_OK;
}

int parquet_picks_find(struct parquet_reader *reader, int64_t row, struct weir_error *err)
{
	const struct parquet_row_group *group = &reader->file->metadata.row_groups[reader->row_group];
	struct parquet_picks *picks = &reader->picks;
	int64_t end = reader->row_end - group->row_begin;
	int code;

	if (!picks->is_wanted || (picks->is_found && row < picks->end))
		return WEIR_OK;
	picks->is_found = false;
	end = end < group->row_count ? end : group->row_count;
	end = end - row < STRETCH_ROWS ? end : row + STRETCH_ROWS;
	if (end - row < VECTORS_MIN * (int64_t)reader->rows_cap) {
		picks->is_wanted = false;
		return WEIR_OK;
	}
	code = evaluator_get(reader, err);
	if (!code)
		code = stretch(reader, row, end, err);
	switch (code) {
	case WEIR_OK:
		break;
	case WEIR_E_GIVE_UP:
	case WEIR_E_LIMIT:
	case WEIR_E_CANCELLED:
	case WEIR_E_MEMORY:
		return code;
	default:
		/* Whoever filters finds the error too, and knows whether the row lives. */
		weir_program_columns(reader->scan->predicate, column_rewind, reader);
		picks->is_wanted = false;
		*err = (struct weir_error){0};
		return WEIR_OK;
	}
	picks->is_found = (int64_t)picks->rows.count * (reader->is_tight ? SPARSE_MIN_TIGHT : SPARSE_MIN) <= end - row;
	picks->is_wanted = picks->is_found;
	return WEIR_OK;
}

size_t parquet_picks_place(const struct parquet_picks *picks, int64_t row)
{
	uint32_t wanted = (uint32_t)(row - picks->begin);
	size_t low = 0, high = picks->rows.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (picks->rows.items[middle] < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool parquet_picks_cover(const struct parquet_reader *reader, const struct weir_selection *selection)
{
	const struct parquet_picks *picks = &reader->picks;
	const uint32_t *at, *end;
	uint32_t from;

	if (!picks->is_found || !selection->rows || reader->vector_row < picks->begin ||
	    reader->vector_row + reader->vector_rows > picks->end)
		return false;
	from = (uint32_t)(reader->vector_row - picks->begin);
	at = picks->rows.items + picks->vector_begin;
	end = picks->rows.items + picks->vector_end;
	if (selection->count > (size_t)(end - at))
		return false;
	for (uint32_t i = 0; i < selection->count; i++, at++) {
		while (at < end && *at < from + selection->rows[i])
			at++;
		if (at == end || *at != from + selection->rows[i])
			return false;
	}
	return true;
}
