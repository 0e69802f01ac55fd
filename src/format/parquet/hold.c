/* Columns in turns: when the account has no room for a page of every column, or when few rows are picked (picks.c), a
 * leaf inflates its page, decodes as many rows as its share of the memory holds, all or those that are picked, and lets
 * the page go; the next vectors are served from what is held.
 *
 *     column 0   inflate ▸ decode W rows ▸ drop        serve      serve      serve    …   inflate again …
 *     column 1             inflate ▸ decode W rows ▸ drop  serve  serve      serve    …
 *
 * At most one page at a time is inflated. A page is inflated again for every W of its rows, which is the price: W is as
 * large as the share allows, and pages smaller than the share stay (is_held is set for each leaf by itself). Texts are
 * copied out of the page here, the only place that does so, and held as a plain page has them. What changes its form
 * (from codes to plain values) ends W.
 *
 * Tried and dropped: re-inflating for every vector (a page of 50,000 rows 50 times over); holding views beside the
 * texts (half as many rows, twice the time for 1,000 columns at 256M).
 */
#include "base/checked.h"
#include "format/parquet/read_impl.h"

#include <string.h>

enum { PICKED_WINDOW_MAX = 1 << 20 };

struct parquet_hold {
	int64_t row_begin, row_end; /* all of them are held, or those that are picked */
	bool is_picked;
	size_t pick;    /* of the picks: the first that is held */
	uint32_t count; /* rows held */
	enum weir_form form;
	bool is_flat; /* codes are not kept as codes: they and plain values meet in one vector */
	bool has_nulls;
	size_t width, rows_max;
	struct parquet_memory values, valid; /* valid: a bit a row, kept from the first null on */
	size_t bytes_size;                   /* of texts in `values` */
	size_t served_count, served;         /* the text of row `served_count` of those held begins at byte `served` */
	const struct weir_dictionary *dictionary;
};

/* Columns of nulls alone. */
static const uint64_t no_bits = 0;

void parquet_hold_release(struct parquet_leaf *leaf)
{
	struct weir_account *account = leaf->reader->account;

	if (!leaf->hold)
		return;
	parquet_memory_release(account, &leaf->hold->values);
	parquet_memory_release(account, &leaf->hold->valid);
	weir_free(account, leaf->hold, sizeof(*leaf->hold));
	leaf->hold = NULL;
}

static size_t form_width(const struct parquet_leaf *leaf, enum weir_form form)
{
	if (form == WEIR_DICTIONARY)
		return sizeof(uint32_t);
	return leaf->info->width_arrow ? leaf->info->width_arrow : sizeof(struct weir_view);
}

static bool is_bits(const struct parquet_hold *hold, const struct parquet_leaf *leaf)
{
	return hold->form == WEIR_FLAT && leaf->info->type->layout == WEIR_LAYOUT_BITS;
}

static bool is_views(const struct parquet_hold *hold, const struct parquet_leaf *leaf)
{
	return hold->form == WEIR_FLAT && leaf->info->type->layout == WEIR_LAYOUT_BYTES;
}

/* What a leaf may hold. Picks are handed out at their places in the vector, which takes room as well. */
static size_t share_of(const struct parquet_leaf *leaf)
{
	const struct parquet_reader *reader = leaf->reader;

	return reader->is_tight && leaf->hold->is_picked ? reader->hold_bytes / 2 : reader->hold_bytes;
}

/* Too large to stay beside what is held, or for the few rows that are picked. */
static bool is_large_dictionary(const struct parquet_leaf *leaf)
{
	const struct parquet_dictionary *dictionary = leaf->dictionary;

	return dictionary && (dictionary->bytes.capacity + dictionary->items.capacity > leaf->reader->hold_bytes ||
			      (leaf->hold->is_picked && dictionary->values.count > leaf->reader->picks.rows.count / 2));
}

static bool is_valid(const struct weir_column *column, uint32_t row)
{
	return !column->validity || column->validity[row >> 6] >> (row & 63) & 1;
}

static uint32_t row_at(const struct weir_selection *selection, uint32_t i)
{
	return selection->rows ? selection->rows[i] : i;
}

/* The value of a row, also where it is a code. NULL: null, or a code of a dictionary without values. */
static const void *value_at(const struct weir_column *column, size_t width, uint32_t row)
{
	const uint8_t *values = column->values;
	uint32_t code;

	if (!is_valid(column, row))
		return NULL;
	if (column->form != WEIR_DICTIONARY)
		return values + row * width;
	code = ((const uint32_t *)column->values)[row];
	return code < column->dictionary->count ? (const uint8_t *)column->dictionary->values + code * width : NULL;
}

static inline __attribute__((always_inline)) void gather_width(const struct weir_column *column, size_t width,
							       const struct weir_selection *selection,
							       bool is_flattened, uint8_t *out)
{
	const uint8_t *values = column->values;

	for (uint32_t i = 0; i < selection->count; i++, out += width) {
		uint32_t row = row_at(selection, i);

		if (!is_flattened) {
			memcpy(out, values + row * width, width);
		} else {
			uint32_t code = ((const uint32_t *)column->values)[row];

			/* Codes of nulls lie inside, or there are none. */
			if (code < column->dictionary->count)
				memcpy(out, (const uint8_t *)column->dictionary->values + code * width, width);
			else
				memset(out, 0, width);
		}
	}
}

/* The selected rows, packed; values in place of codes when the dictionary is not to stay. */
static void gather(const struct weir_column *column, size_t width, const struct weir_selection *selection,
		   bool is_flattened, uint8_t *out)
{
	if (!selection->rows && !is_flattened)
		memcpy(out, column->values, selection->count * width);
	else if (width == 8)
		gather_width(column, 8, selection, is_flattened, out);
	else if (width == 4)
		gather_width(column, 4, selection, is_flattened, out);
	else
		gather_width(column, width, selection, is_flattened, out);
}

static void bit_put(uint8_t *bits, size_t at, bool bit)
{
	bits[at >> 3] = (uint8_t)((bits[at >> 3] & ~(1u << (at & 7))) | (unsigned)bit << (at & 7));
}

static void bits_take(const struct parquet_leaf *leaf, const uint64_t *bits, const struct weir_selection *selection,
		      uint32_t at, uint8_t *out)
{
	if (!selection->rows)
		leaf->reader->kernels->copy_bits((const uint8_t *)bits, 0, selection->count, (uint64_t *)out, at);
	else
		for (uint32_t i = 0; i < selection->count; i++)
			bit_put(out, at + i, bits[selection->rows[i] >> 6] >> (selection->rows[i] & 63) & 1);
}

static void validity_take(struct parquet_leaf *leaf, const struct weir_column *column,
			  const struct weir_selection *selection)
{
	struct parquet_hold *hold = leaf->hold;
	static const uint64_t ones[WEIR_VECTOR_ROWS / 64] = {[0 ... WEIR_VECTOR_ROWS / 64 - 1] = UINT64_MAX};

	if (!column->validity && !hold->has_nulls)
		return;
	if (!hold->has_nulls)
		memset(hold->valid.data, 0xff, (hold->count + 7) / 8);
	hold->has_nulls = true;
	bits_take(leaf, column->validity ? column->validity : ones, selection, hold->count, hold->valid.data);
}

/* Room for `more` bytes of texts. False when the share is used up. */
static int texts_room(struct parquet_leaf *leaf, size_t more, uint32_t count, bool must, bool *fits,
		      struct weir_error *err)
{
	struct parquet_hold *hold = leaf->hold;
	size_t share = share_of(leaf), capacity = hold->values.capacity, wanted = hold->bytes_size + more + PARQUET_PAD;
	uint8_t *larger;

	*fits = wanted <= share || must || wanted <= capacity;
	if (!*fits || wanted <= capacity)
		return WEIR_OK;
	if (hold->bytes_size == 0) {
		/* All of the share, or as much as the picks take if the others are as long as these. */
		size_t guess = hold->is_picked ? (hold->rows_max / count + 1) * more / 8 * 9 : share;

		guess = guess < share ? guess : share;
		return parquet_memory_reserve(leaf->reader->account, &hold->values, guess > more ? guess : more, err);
	}
	capacity = weir_round_up(capacity / 4 * 5 > wanted ? capacity / 4 * 5 : wanted, 4096);
	larger = weir_realloc(leaf->reader->account, hold->values.data, hold->values.capacity, capacity, err);
	if (!larger)
		return err->code;
	hold->values = (struct parquet_memory){.data = larger, .capacity = capacity};
	return WEIR_OK;
}

/* Texts lie as in a plain page, each after its length, nulls as empty ones: views are made when a vector is served. */
static int texts_take(struct parquet_leaf *leaf, const struct weir_column *column,
		      const struct weir_selection *selection, bool must, bool *taken, struct weir_error *err)
{
	struct parquet_hold *hold = leaf->hold;
	size_t size = 0;

	for (uint32_t i = 0; i < selection->count; i++) {
		const struct weir_view *view = value_at(column, sizeof(*view), row_at(selection, i));

		size += 4 + (view ? view->size : 0);
	}
	if (texts_room(leaf, size, selection->count, must, taken, err))
		return err->code;
	for (uint32_t i = 0; i < selection->count && *taken; i++) {
		const struct weir_view *view = value_at(column, sizeof(*view), row_at(selection, i));
		uint8_t *to = hold->values.data + hold->bytes_size;
		uint32_t length = view ? view->size : 0;

		memcpy(to, &length, 4);
		if (length)
			memcpy(to + 4, weir_view_bytes(view), length);
		hold->bytes_size += 4 + length;
	}
	return WEIR_OK;
}

/* The first rows decide in which form all are held, and how many there may be. */
static int hold_begin(struct parquet_leaf *leaf, const struct weir_column *column, enum weir_form form,
		      struct weir_error *err)
{
	struct weir_account *account = leaf->reader->account;
	struct parquet_hold *hold = leaf->hold;
	size_t picks_left = leaf->reader->picks.rows.count - hold->pick;

	hold->form = form;
	hold->dictionary = form == WEIR_DICTIONARY ? column->dictionary : NULL;
	hold->width = form_width(leaf, form);
	hold->rows_max = share_of(leaf) / (is_views(hold, leaf) ? 4 : hold->width);
	if (hold->rows_max < leaf->reader->rows_cap)
		hold->rows_max = leaf->reader->rows_cap;
	if (hold->is_picked && hold->rows_max > picks_left)
		hold->rows_max = picks_left;
	if (parquet_memory_reserve(account, &hold->valid, hold->rows_max / 8 + 16, err))
		return err->code;
	if (is_views(hold, leaf) || form == WEIR_CONSTANT)
		return WEIR_OK;
	return parquet_memory_reserve(account, &hold->values, (hold->rows_max + PARQUET_SLACK) * hold->width, err);
}

/* Takes over the selected rows. False when their form or their size does not go with what is held already. */
static int rows_take(struct parquet_leaf *leaf, const struct weir_column *column,
		     const struct weir_selection *selection, bool must, bool *taken, struct weir_error *err)
{
	struct parquet_hold *hold = leaf->hold;
	bool is_flattened = column->form == WEIR_DICTIONARY && (hold->is_flat || is_large_dictionary(leaf));
	enum weir_form form = is_flattened ? WEIR_FLAT : column->form;

	*taken = false;
	if (hold->count == 0) {
		if (hold_begin(leaf, column, form, err))
			return err->code;
	} else if (hold->form != form || (form == WEIR_DICTIONARY && hold->dictionary != column->dictionary)) {
		return WEIR_OK;
	}
	*taken = true;
	if (is_views(hold, leaf)) {
		if (texts_take(leaf, column, selection, must, taken, err) || !*taken)
			return err->code;
	} else if (is_bits(hold, leaf)) {
		bits_take(leaf, column->values, selection, hold->count, hold->values.data);
	} else if (hold->form != WEIR_CONSTANT) {
		gather(column, hold->width, selection, is_flattened, hold->values.data + hold->count * hold->width);
	}
	if (hold->form != WEIR_CONSTANT)
		validity_take(leaf, column, selection);
	hold->count += selection->count;
	return WEIR_OK;
}

/* Of `count` rows from `row` on: all, or those that are picked. */
static struct weir_selection rows_wanted(const struct parquet_leaf *leaf, int64_t row, uint32_t count, uint16_t *rows)
{
	const struct parquet_picks *picks = &leaf->reader->picks;
	struct weir_selection wanted = {.count = count};
	uint32_t from = (uint32_t)(row - picks->begin);
	size_t at = leaf->hold->pick + leaf->hold->count;

	if (!leaf->hold->is_picked)
		return wanted;
	wanted = (struct weir_selection){.rows = rows};
	for (; at < picks->rows.count && picks->rows.items[at] < from + count; at++)
		rows[wanted.count++] = (uint16_t)(picks->rows.items[at] - from);
	return wanted;
}

static void fill_begin(struct parquet_leaf *leaf, int64_t row)
{
	struct parquet_hold *hold = leaf->hold;

	hold->row_begin = hold->row_end = row;
	hold->pick = hold->is_picked ? parquet_picks_place(&leaf->reader->picks, row) : 0;
	hold->count = 0;
	hold->has_nulls = false;
	hold->bytes_size = hold->served_count = hold->served = 0;
}

/* Rows of the row group that the reader is to hand out end here. */
static int64_t rows_end(const struct parquet_reader *reader)
{
	const struct parquet_row_group *group = &reader->file->metadata.row_groups[reader->row_group];
	int64_t end = reader->row_end - group->row_begin;

	return end < group->row_count ? end : group->row_count;
}

/* Nothing points into the page any more. One that has rows for the next stretch stays where there is memory for it. */
static void fill_end(struct parquet_leaf *leaf)
{
	struct parquet_reader *reader = leaf->reader;
	const struct parquet_hold *hold = leaf->hold;
	bool stays = hold->is_picked && !reader->is_tight && leaf->has_page && leaf->page.row_end > hold->row_end &&
		     hold->row_end < rows_end(reader);

	if (!stays)
		parquet_page_drop(leaf);
	if (!stays && hold->form != WEIR_DICTIONARY && is_large_dictionary(leaf)) {
		parquet_dictionary_free(reader->account, leaf->dictionary);
		leaf->dictionary = NULL;
	}
	parquet_memory_release(reader->account, &leaf->out);
	parquet_memory_release(reader->account, &leaf->codes);
	parquet_memory_release(reader->account, &leaf->scratch);
	parquet_memory_release(reader->account, &leaf->packed);
}

/* Decodes rows from the vector's first on until the share is used up. */
static int fill(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	int64_t row = reader->vector_row, row_end = leaf->hold->is_picked ? reader->picks.end : rows_end(reader);
	uint32_t row_count = reader->vector_rows;
	struct parquet_hold *hold = leaf->hold;
	uint16_t rows[WEIR_VECTOR_ROWS];

	if (hold->is_picked && !reader->is_tight && !leaf->has_page) {
		/* The window goes as soon as the page is decoded: it may be large. */
		uint64_t size = leaf->chunk_end - leaf->chunk_begin;

		leaf->readahead = size < PICKED_WINDOW_MAX ? (size_t)size : PICKED_WINDOW_MAX;
	}
	hold->is_flat = false;
	fill_begin(leaf, row);
	while (hold->row_end < row_end) {
		struct weir_column column = {.type = leaf->info->type};
		uint32_t done = (uint32_t)(hold->row_end - row), count;
		bool taken, must = done < row_count; /* the vector that is waited for */
		struct weir_selection wanted;

		count = must ? row_count - done : hold->is_picked ? reader->rows_cap : row_count;
		if (row_end - hold->row_end < count)
			count = (uint32_t)(row_end - hold->row_end);
		if (!must && !hold->is_picked && (size_t)hold->count + count > hold->rows_max)
			break;
		/* Never two pages at a time: what points into one is copied before the next is inflated. */
		if (parquet_page_seek(leaf, hold->row_end, err))
			return err->code;
		if (leaf->page.row_end - hold->row_end < count)
			count = (uint32_t)(leaf->page.row_end - hold->row_end);
		wanted = rows_wanted(leaf, hold->row_end, count, rows);
		if (wanted.count == 0) {
			hold->row_end += count;
			continue;
		}
		if (!must && hold->count > 0 && (size_t)hold->count + wanted.count > hold->rows_max)
			break;
		if (parquet_flat_rows(leaf, hold->row_end, count, &wanted, &column, err) ||
		    rows_take(leaf, &column, &wanted, must, &taken, err))
			return err->code;
		/* Copied: nothing points into the page. */
		leaf->handed = leaf->handed_window = false;
		if (taken) {
			hold->row_end += count;
			continue;
		}
		if (!must)
			break;
		/* From codes to values in the middle of the vector: again, all of it as values. */
		WEIR_ASSERT(!hold->is_flat);
		hold->is_flat = true;
		fill_begin(leaf, row);
	}
	WEIR_ASSERT(hold->row_end - row >= row_count);
	fill_end(leaf);
	return WEIR_OK;
}

/* Views of `count` of the texts held, from number `at` on. Vectors come in order, so the place of the last one leads to
 * the next. */
static int texts_serve(struct parquet_leaf *leaf, size_t at, uint32_t count, struct parquet_memory *out,
		       struct weir_error *err)
{
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	struct parquet_hold *hold = leaf->hold;
	const uint8_t *bytes = hold->values.data, *end = bytes + hold->bytes_size, *text;

	if (parquet_memory_reserve(leaf->reader->account, out, (count + PARQUET_SLACK) * sizeof(struct weir_view), err))
		return err->code;
	if (at < hold->served_count)
		hold->served_count = hold->served = 0;
	text = kernels->views_skip(bytes + hold->served, end, (uint32_t)(at - hold->served_count));
	WEIR_ASSERT(text);
	text = kernels->views(text, end, count, (struct weir_view *)out->data);
	WEIR_ASSERT(text);
	hold->served_count = at + count;
	hold->served = (size_t)(text - bytes);
	return WEIR_OK;
}

static inline __attribute__((always_inline)) void place_width(const uint32_t *rows, uint32_t from, uint32_t count,
							      size_t width, const uint8_t *values, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++)
		memcpy(out + (rows[i] - from) * width, values + i * width, width);
}

/* Packed values to their places in the vector. */
static void place(const uint32_t *rows, uint32_t from, uint32_t count, size_t width, const uint8_t *values,
		  uint8_t *out)
{
	if (width == 8)
		place_width(rows, from, count, 8, values, out);
	else if (width == 4)
		place_width(rows, from, count, 4, values, out);
	else if (width == 16)
		place_width(rows, from, count, 16, values, out);
	else
		place_width(rows, from, count, width, values, out);
}

static int picks_serve(struct parquet_leaf *leaf, struct weir_column *column, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	const struct parquet_picks *picks = &reader->picks;
	struct parquet_hold *hold = leaf->hold;
	const uint32_t *rows = picks->rows.items + picks->vector_begin;
	uint32_t count = (uint32_t)(picks->vector_end - picks->vector_begin);
	uint32_t from = (uint32_t)(reader->vector_row - picks->begin);
	size_t at = picks->vector_begin - hold->pick;
	struct parquet_memory *out = hold->form == WEIR_DICTIONARY ? &leaf->codes : &leaf->out;
	const uint8_t *values = hold->values.data + at * hold->width;

	for (uint32_t i = 0; i < count && hold->has_nulls; i++)
		bit_put((uint8_t *)leaf->valid, rows[i] - from, hold->valid.data[(at + i) >> 3] >> ((at + i) & 7) & 1);
	if (is_bits(hold, leaf)) {
		for (uint32_t i = 0; i < count; i++)
			bit_put((uint8_t *)leaf->valid_page, rows[i] - from,
				hold->values.data[(at + i) >> 3] >> ((at + i) & 7) & 1);
		column->values = leaf->valid_page;
		return WEIR_OK;
	}
	if (parquet_memory_reserve(reader->account, out, (reader->rows_cap + PARQUET_SLACK) * hold->width, err))
		return err->code;
	if (is_views(hold, leaf)) {
		if (texts_serve(leaf, at, count, &leaf->scratch, err))
			return err->code;
		values = leaf->scratch.data;
	}
	place(rows, from, count, hold->width, values, out->data);
	column->values = out->data;
	return WEIR_OK;
}

static int all_serve(struct parquet_leaf *leaf, struct weir_column *column, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	struct parquet_hold *hold = leaf->hold;
	uint32_t at = (uint32_t)(reader->vector_row - hold->row_begin), count = reader->vector_rows;

	if (hold->has_nulls)
		reader->kernels->copy_bits(hold->valid.data, at, count, leaf->valid, 0);
	if (is_bits(hold, leaf)) {
		reader->kernels->copy_bits(hold->values.data, at, count, leaf->valid_page, 0);
		column->values = leaf->valid_page;
	} else if (is_views(hold, leaf)) {
		if (texts_serve(leaf, at, count, &leaf->out, err))
			return err->code;
		column->values = leaf->out.data;
	} else {
		column->values = hold->values.data + at * hold->width;
	}
	return WEIR_OK;
}

int parquet_hold_rows(struct parquet_leaf *leaf, bool is_picked, struct weir_column *column, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	struct parquet_hold *hold = leaf->hold;
	int64_t row_first = reader->vector_row;

	if (!hold) {
		hold = leaf->hold = weir_alloc_zero(reader->account, sizeof(*hold), err);
		if (!hold)
			return err->code;
	}
	if (hold->is_picked != is_picked || row_first < hold->row_begin ||
	    row_first + reader->vector_rows > hold->row_end) {
		hold->is_picked = is_picked;
		hold->row_begin = hold->row_end = 0; /* nothing, if that fails */
		if (fill(leaf, err))
			return err->code;
	}
	column->form = hold->form;
	column->validity = hold->has_nulls ? leaf->valid : NULL;
	column->dictionary = hold->form == WEIR_DICTIONARY ? hold->dictionary : NULL;
	if (hold->form == WEIR_CONSTANT) {
		column->validity = &no_bits;
		column->values = NULL;
		return WEIR_OK;
	}
	return is_picked ? picks_serve(leaf, column, err) : all_serve(leaf, column, err);
}
