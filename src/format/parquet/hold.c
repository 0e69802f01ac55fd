/* Columns in turns: when the account has no room for a page of every column, a leaf inflates its page, decodes as many
 * rows as its share of the memory holds, and lets the page go; the next vectors are served from what is held.
 *
 *     column 0   inflate ▸ decode W rows ▸ drop        serve      serve      serve    …   inflate again …
 *     column 1             inflate ▸ decode W rows ▸ drop  serve  serve      serve    …
 *
 * At most one page at a time is inflated. A page is inflated again for every W of its rows, which is the price: W is as
 * large as the share allows, and pages smaller than the share stay (is_held is set for each leaf by itself). Texts are
 * copied out of the page here, the only place that does so, and held as a plain page has them. What changes its form
 * (from codes to plain values) ends W.
 *
 * Tried and dropped: re-inflating for every vector (a page of 50,000 rows 50 times over); holding views beside the texts
 * (half as many rows, twice the time for 1,000 columns at 256M).
 */
#include "base/checked.h"
#include "format/parquet/read_impl.h"

#include <string.h>

struct parquet_hold {
	int64_t row_begin, row_end;
	enum weir_form form;
	bool is_flat; /* codes are not kept as codes: they and plain values meet in one vector */
	bool has_nulls;
	size_t width, rows_max;
	struct parquet_memory values, valid; /* valid: a bit a row, kept also without nulls */
	size_t bytes_size;                   /* of texts in `values` */
	int64_t served_row;                  /* the row whose text begins at byte `served` */
	size_t served;
	const struct weir_dictionary *dictionary;
};

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

static bool is_large_dictionary(const struct parquet_leaf *leaf)
{
	return leaf->dictionary &&
	       leaf->dictionary->bytes.capacity + leaf->dictionary->items.capacity > leaf->reader->hold_bytes;
}

/* The value of a row, also where it is a code. NULL: null, or a code of a dictionary without values. */
static const void *value_at(const struct weir_column *column, size_t width, uint32_t row)
{
	const uint8_t *values = column->values;
	uint32_t code;

	if (column->validity && !(column->validity[row >> 6] >> (row & 63) & 1))
		return NULL;
	if (column->form != WEIR_DICTIONARY)
		return values + row * width;
	code = ((const uint32_t *)column->values)[row];
	return code < column->dictionary->count ? (const uint8_t *)column->dictionary->values + code * width : NULL;
}

/* Values in place of codes, when the dictionary is too large to stay. */
static void gather(const struct parquet_hold *hold, const struct weir_column *column, uint32_t count, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++, out += hold->width) {
		const void *value = value_at(column, hold->width, i);

		if (value)
			memcpy(out, value, hold->width);
		else
			memset(out, 0, hold->width);
	}
}

/* Texts lie as in a plain page, each after its length, nulls as empty ones: views are made when a vector is served. */
static int texts_take(struct parquet_leaf *leaf, const struct weir_column *column, uint32_t count, bool must,
		      bool *taken, struct weir_error *err)
{
	struct parquet_hold *hold = leaf->hold;
	size_t size = 0, share = leaf->reader->hold_bytes;

	*taken = false;
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_view *view = value_at(column, sizeof(*view), i);

		size += 4 + (view ? view->size : 0);
	}
	if (hold->bytes_size == 0) {
		if (parquet_memory_reserve(leaf->reader->account, &hold->values, size > share ? size : share, err))
			return err->code;
	} else if (hold->bytes_size + size + PARQUET_PAD > hold->values.capacity) {
		size_t capacity = weir_round_up(hold->bytes_size + size + PARQUET_PAD, 4096);
		uint8_t *larger;

		if (!must)
			return WEIR_OK;
		larger = weir_realloc(leaf->reader->account, hold->values.data, hold->values.capacity, capacity, err);
		if (!larger)
			return err->code;
		hold->values = (struct parquet_memory){.data = larger, .capacity = capacity};
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_view *view = value_at(column, sizeof(*view), i);
		uint8_t *to = hold->values.data + hold->bytes_size;
		uint32_t length = view ? view->size : 0;

		memcpy(to, &length, 4);
		if (length)
			memcpy(to + 4, weir_view_bytes(view), length);
		hold->bytes_size += 4 + length;
	}
	*taken = true;
	return WEIR_OK;
}

/* Takes over `count` decoded rows. False when their form or their size does not go with what is held already. */
static int rows_take(struct parquet_leaf *leaf, struct weir_column *column, uint32_t count, bool must, bool *taken,
		     struct weir_error *err)
{
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	struct weir_account *account = leaf->reader->account;
	struct parquet_hold *hold = leaf->hold;
	bool is_flattened = column->form == WEIR_DICTIONARY && (hold->is_flat || is_large_dictionary(leaf));
	enum weir_form form = is_flattened ? WEIR_FLAT : column->form;
	uint32_t at = (uint32_t)(hold->row_end - hold->row_begin);
	bool is_first = at == 0;

	*taken = false;
	if (is_first) {
		size_t share = leaf->reader->hold_bytes;

		hold->form = form;
		hold->dictionary = form == WEIR_DICTIONARY ? column->dictionary : NULL;
		hold->width = form_width(leaf, hold->form);
		hold->rows_max = share / (is_views(hold, leaf) ? 4 : hold->width);
		if (hold->rows_max < leaf->reader->rows_cap)
			hold->rows_max = leaf->reader->rows_cap;
		if (parquet_memory_reserve(account, &hold->valid, hold->rows_max / 8 + 16, err))
			return err->code;
		if (!is_views(hold, leaf) &&
		    parquet_memory_reserve(account, &hold->values, (hold->rows_max + PARQUET_SLACK) * hold->width, err))
			return err->code;
	} else if (hold->form != form || (form == WEIR_DICTIONARY && hold->dictionary != column->dictionary)) {
		return WEIR_OK;
	}
	if (column->validity)
		kernels->copy_bits((const uint8_t *)column->validity, 0, count, (uint64_t *)hold->valid.data, at);
	else
		for (uint32_t i = 0; i < count; i++)
			hold->valid.data[(at + i) >> 3] |= (uint8_t)(1u << ((at + i) & 7));
	hold->has_nulls |= column->validity != NULL;
	if (hold->form == WEIR_CONSTANT) {
		*taken = true;
		return WEIR_OK;
	}
	if (is_bits(hold, leaf)) {
		kernels->copy_bits(column->values, 0, count, (uint64_t *)hold->values.data, at);
		*taken = true;
		return WEIR_OK;
	}
	if (is_views(hold, leaf))
		return texts_take(leaf, column, count, must, taken, err);
	if (is_flattened)
		gather(hold, column, count, hold->values.data + at * hold->width);
	else
		memcpy(hold->values.data + at * hold->width, column->values, count * hold->width);
	*taken = true;
	return WEIR_OK;
}

/* Decodes rows from `row` on until the share is used up. */
static int fill(struct parquet_leaf *leaf, int64_t row, uint32_t row_count, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	const struct parquet_row_group *group = &reader->file->metadata.row_groups[reader->row_group];
	int64_t row_end = reader->row_end - group->row_begin;
	struct parquet_hold *hold = leaf->hold;

	if (row_end > group->row_count)
		row_end = group->row_count;
	hold->row_begin = hold->row_end = row;
	hold->is_flat = false;
	hold->has_nulls = false;
	hold->bytes_size = hold->served = 0;
	hold->served_row = row;
	while (hold->row_end < row_end) {
		struct weir_column column = {.type = leaf->info->type};
		struct weir_selection all = {0};
		uint32_t done = (uint32_t)(hold->row_end - row);
		bool taken, must = done < row_count; /* the vector that is waited for */

		all.count = must ? row_count - done : row_count;
		if (row_end - hold->row_end < all.count)
			all.count = (uint32_t)(row_end - hold->row_end);
		if (!must && (size_t)done + all.count > hold->rows_max)
			break;
		/* Never two pages at a time: what points into one is copied before the next is inflated. */
		if (parquet_page_seek(leaf, hold->row_end, err))
			return err->code;
		if (leaf->page.row_end - hold->row_end < all.count)
			all.count = (uint32_t)(leaf->page.row_end - hold->row_end);
		if (parquet_flat_rows(leaf, hold->row_end, all.count, &all, &column, err) ||
		    rows_take(leaf, &column, all.count, must, &taken, err))
			return err->code;
		/* Copied: nothing points into the page. */
		leaf->handed = leaf->handed_window = false;
		if (taken) {
			hold->row_end += all.count;
			continue;
		}
		if (!must)
			break;
		/* From codes to values in the middle of the vector: again, all of it as values. */
		WEIR_ASSERT(!hold->is_flat);
		hold->is_flat = true;
		hold->row_end = row;
		hold->has_nulls = false;
		hold->bytes_size = 0;
	}
	WEIR_ASSERT(hold->row_end - row >= row_count);
	parquet_page_drop(leaf);
	if (is_large_dictionary(leaf)) {
		parquet_dictionary_free(reader->account, leaf->dictionary);
		leaf->dictionary = NULL;
	}
	parquet_memory_release(reader->account, &leaf->out);
	parquet_memory_release(reader->account, &leaf->codes);
	parquet_memory_release(reader->account, &leaf->scratch);
	parquet_memory_release(reader->account, &leaf->packed);
	return WEIR_OK;
}

/* Views of the rows' texts. Vectors come in order, so the place of the last one leads to the next. */
static int texts_serve(struct parquet_leaf *leaf, int64_t row_first, uint32_t row_count, struct weir_error *err)
{
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	struct parquet_hold *hold = leaf->hold;
	const uint8_t *bytes = hold->values.data, *end = bytes + hold->bytes_size, *at;

	if (parquet_memory_reserve(leaf->reader->account, &leaf->out,
				   (row_count + PARQUET_SLACK) * sizeof(struct weir_view), err))
		return err->code;
	if (row_first < hold->served_row) {
		hold->served_row = hold->row_begin;
		hold->served = 0;
	}
	at = kernels->views_skip(bytes + hold->served, end, (uint32_t)(row_first - hold->served_row));
	WEIR_ASSERT(at);
	at = kernels->views(at, end, row_count, (struct weir_view *)leaf->out.data);
	WEIR_ASSERT(at);
	hold->served_row = row_first + row_count;
	hold->served = (size_t)(at - bytes);
	return WEIR_OK;
}

int parquet_hold_rows(struct parquet_leaf *leaf, int64_t row_first, uint32_t row_count, struct weir_column *column,
		      struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	struct parquet_hold *hold = leaf->hold;
	uint32_t at;

	if (!hold) {
		hold = leaf->hold = weir_alloc_zero(reader->account, sizeof(*hold), err);
		if (!hold)
			return err->code;
	}
	if (row_first < hold->row_begin || row_first + row_count > hold->row_end) {
		if (fill(leaf, row_first, row_count, err))
			return err->code;
	}
	at = (uint32_t)(row_first - hold->row_begin);
	if (hold->has_nulls)
		reader->kernels->copy_bits(hold->valid.data, at, row_count, leaf->valid, 0);
	column->form = hold->form;
	column->validity = hold->has_nulls ? leaf->valid : NULL;
	column->dictionary = hold->form == WEIR_DICTIONARY ? hold->dictionary : NULL;
	if (is_bits(hold, leaf)) {
		reader->kernels->copy_bits(hold->values.data, at, row_count, leaf->valid_page, 0);
		column->values = leaf->valid_page;
	} else if (is_views(hold, leaf)) {
		if (texts_serve(leaf, row_first, row_count, err))
			return err->code;
		column->values = leaf->out.data;
	} else {
		column->values = hold->values.data + at * hold->width;
	}
	return WEIR_OK;
}
