/* Flat columns: the rows of one vector from the pages of one leaf, for the rows that live.
 *
 * A vector's rows may lie in several pages. Each page gives a piece:
 *
 *     vector   0 ──────────── piece ────────────┬──────── piece ────────── n
 *     page          …│ rows taken before │ rows │ rows │ not yet … │
 *
 * Within a piece: definition levels become validity bits, values come packed (without the nulls) from the page's
 * decoder, are converted where Arrow's bytes differ, and are spread to their rows. When nothing needs to move, the
 * vector gets a pointer into the page. Pieces of codes stay codes; a chunk that fell back to plain values in the middle
 * of a vector makes the whole vector flat.
 *
 * A piece in which no row lives is not even read. In a piece with few, only what lies between the first and the last
 * is.
 */
#include "format/parquet/read_impl.h"

#include <string.h>

enum { SPARSE = 8 }; /* fewer than one row in so many lives: texts are picked one by one */

/* One decode in progress. */
struct flat {
	struct parquet_leaf *leaf;
	const struct weir_selection *selection;
	int64_t row_first; /* of the row group: row 0 of the vector */
	uint32_t row_count;
	bool has_codes, has_values; /* pieces so far */
	bool has_nulls;
	const void *values; /* set when the vector points into the page */
};

/* Selected rows of a piece: places [begin, end) in selection->rows. */
struct chosen {
	uint32_t begin, end;
};

static uint32_t place_of(const struct weir_selection *selection, uint32_t row)
{
	uint32_t low = 0, high = selection->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (selection->rows[middle] < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int rows_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	uint32_t present = count;

	if (count == 0)
		return WEIR_OK;
	if (leaf->info->def_max > 0 &&
	    parquet_rle_skip_ones(&leaf->definition, leaf->reader->kernels, count, &present) != count)
		return parquet_leaf_damaged(leaf, err, "The page ends before its definition levels.");
	leaf->taken += count;
	if (leaf->info->convert == PARQUET_ALL_NULL)
		return WEIR_OK;
	return parquet_values_skip(leaf, present, err);
}

static void bits_set(uint64_t *bits, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end && (i & 63); i++)
		bits[i >> 6] |= (uint64_t)1 << (i & 63);
	begin = (begin + 63) & ~63u;
	for (uint32_t i = begin; i < end; i += 64)
		bits[i >> 6] = UINT64_MAX;
}

/* Bits of a piece, at `row`; what follows is unspecified until its own piece is written. */
static void validity_put(struct flat *flat, uint32_t row, uint32_t count, uint32_t present)
{
	struct parquet_leaf *leaf = flat->leaf;

	if (present == count && !flat->has_nulls)
		return;
	if (!flat->has_nulls)
		bits_set(leaf->valid, 0, row);
	flat->has_nulls = true;
	if (present == count)
		bits_set(leaf->valid, row, row + count);
	else
		leaf->reader->kernels->copy_bits((const uint8_t *)leaf->valid_page, 0, count, leaf->valid, row);
}

static int log2_of(uint32_t width)
{
	return width && width <= 16 && (width & (width - 1)) == 0 ? __builtin_ctz(width) : -1;
}

static void spread(const struct parquet_leaf *leaf, uint32_t width, uint32_t count, const void *packed, void *out)
{
	int log2 = log2_of(width);
	const uint8_t *from = packed;

	if (log2 >= 0) {
		leaf->reader->kernels->spread[log2](leaf->valid_page, count, packed, out);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (leaf->valid_page[i >> 6] >> (i & 63) & 1) {
			memcpy((uint8_t *)out + (size_t)i * width, from, width);
			from += width;
		}
	}
}

static int out_reserve(struct flat *flat, struct parquet_memory *buffer, size_t width, struct weir_error *err)
{
	return parquet_memory_reserve(flat->leaf->reader->account, buffer,
				      (flat->leaf->reader->rows_cap + PARQUET_SLACK) * width, err);
}

static uint32_t value_width(const struct parquet_leaf_info *info)
{
	if (info->type->layout == WEIR_LAYOUT_BITS)
		return 1; /* more than enough */
	return info->width_arrow ? info->width_arrow : (uint32_t)sizeof(struct weir_view);
}

/* Values for codes, into out + row. Codes of rows that do not live may be anything. */
static void gather_checked(struct flat *flat, const uint32_t *codes, uint32_t row, uint32_t count)
{
	const struct weir_dictionary *dictionary = &flat->leaf->dictionary->values;
	uint32_t width = value_width(flat->leaf->info);
	uint8_t *out = flat->leaf->out.data + (size_t)row * width;

	for (uint32_t i = 0; i < count; i++)
		if (codes[i] < dictionary->count)
			memcpy(out + (size_t)i * width, (const uint8_t *)dictionary->values + (size_t)codes[i] * width,
			       width);
}

static int codes_piece(struct flat *flat, uint32_t row, uint32_t count, uint32_t present, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	uint32_t *codes;

	if (out_reserve(flat, &leaf->codes, sizeof(uint32_t), err))
		return err->code;
	codes = (uint32_t *)leaf->codes.data + row;
	if (present == count) {
		if (parquet_values_read(leaf, count, codes, err))
			return err->code;
	} else {
		uint32_t *packed;

		if (out_reserve(flat, &leaf->scratch, sizeof(uint32_t), err))
			return err->code;
		packed = (uint32_t *)leaf->scratch.data;
		if (parquet_values_read(leaf, present, packed, err))
			return err->code;
		/* Codes of nulls must lie inside the dictionary. */
		memset(packed + present, 0, PARQUET_SLACK * sizeof(*packed));
		memset(codes, 0, count * sizeof(*codes));
		leaf->reader->kernels->spread[2](leaf->valid_page, count, packed, codes);
	}
	if (flat->has_values)
		gather_checked(flat, codes, row, count);
	else
		flat->has_codes = true;
	return WEIR_OK;
}

/* From here on the vector is flat: earlier pieces in codes or inside a page become values in `out`. */
static int values_begin(struct flat *flat, uint32_t row, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;

	if (out_reserve(flat, &leaf->out, value_width(leaf->info), err))
		return err->code;
	if (flat->has_codes) {
		gather_checked(flat, (const uint32_t *)leaf->codes.data, 0, row);
		flat->has_codes = false;
	}
	flat->has_values = true;
	return WEIR_OK;
}

static int bits_piece(struct flat *flat, uint32_t row, uint32_t count, uint32_t present, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	uint64_t packed[WEIR_VECTOR_ROWS / 64 + 4], spread_out[WEIR_VECTOR_ROWS / 64 + 2];
	const uint64_t *bits = packed;

	if (parquet_values_read(leaf, present, packed, err))
		return err->code;
	if (present < count) {
		leaf->reader->kernels->spread_bits(leaf->valid_page, count, packed, spread_out);
		bits = spread_out;
	}
	leaf->reader->kernels->copy_bits((const uint8_t *)bits, 0, count, (uint64_t *)leaf->out.data, row);
	return WEIR_OK;
}

/* Few rows live: only their texts become views, the others' lengths are passed over. */
static int views_pick(struct flat *flat, uint32_t row, uint32_t count, uint32_t present, struct chosen chosen,
		      struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	struct parquet_values *values = &leaf->values;
	struct weir_view *out = (struct weir_view *)leaf->out.data;
	const uint8_t *at = values->at;
	uint32_t passed = 0, rank = 0,
		 counted = 0; /* values passed; the rank of row `counted` among the present ones */

	for (uint32_t i = chosen.begin; i < chosen.end; i++) {
		uint32_t local = flat->selection->rows[i] - row, target = local;

		if (present < count) {
			for (; counted + 64 <= local; counted += 64)
				rank += (uint32_t)__builtin_popcountll(leaf->valid_page[counted >> 6]);
			if (!(leaf->valid_page[local >> 6] >> (local & 63) & 1))
				continue;
			target = rank + (uint32_t)__builtin_popcountll(leaf->valid_page[local >> 6] &
								       (((uint64_t)1 << (local & 63)) - 1));
		}
		at = kernels->views_skip(at, values->end, target - passed);
		if (at)
			at = kernels->views(at, values->end, 1, &out[row + local]);
		if (!at)
			return parquet_leaf_damaged(leaf, err, "A text is longer than its page.");
		passed = target + 1;
		if (leaf->info->is_text && !values->is_checked &&
		    parquet_views_check(leaf, &out[row + local], 1, flat->row_first + row + local, err))
			return err->code;
	}
	at = kernels->views_skip(at, values->end, present - passed);
	if (!at)
		return parquet_leaf_damaged(leaf, err, "A text is longer than its page.");
	values->at = at;
	parquet_page_hand(leaf);
	return WEIR_OK;
}

static int views_piece(struct flat *flat, uint32_t row, uint32_t count, uint32_t present, struct chosen chosen,
		       struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	struct weir_view *out = (struct weir_view *)leaf->out.data + row, *packed = out;

	if (leaf->values.decoder == &parquet_plain_bytes && flat->selection->rows &&
	    (chosen.end - chosen.begin) * SPARSE < count)
		return views_pick(flat, row, count, present, chosen, err);
	if (present < count) {
		if (out_reserve(flat, &leaf->scratch, sizeof(struct weir_view), err))
			return err->code;
		packed = (struct weir_view *)leaf->scratch.data;
	}
	if (parquet_values_read(leaf, present, packed, err))
		return err->code;
	if (leaf->info->is_text && !leaf->values.is_checked &&
	    parquet_views_check(leaf, packed, present, present == count ? flat->row_first + row : WEIR_NO_ROW, err))
		return err->code;
	if (present < count)
		spread(leaf, sizeof(struct weir_view), count, packed, out);
	return WEIR_OK;
}

static bool is_aligned(const void *pointer, uint32_t width)
{
	uint32_t align = width <= 8 && (width & (width - 1)) == 0 ? width : width == 16 || width == 32 ? 8 : 1;

	return ((uintptr_t)pointer & (align - 1)) == 0;
}

static int fixed_piece(struct flat *flat, uint32_t row, uint32_t count, uint32_t present, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	const struct parquet_leaf_info *info = leaf->info;
	uint32_t width = info->width_arrow;
	uint8_t *out = leaf->out.data + (size_t)row * width;
	const void *packed;

	if (info->convert == PARQUET_KEEP && leaf->values.decoder == &parquet_plain_fixed) {
		packed = leaf->values.at;
		if (parquet_values_skip(leaf, present, err))
			return err->code;
		if (present == count && row == 0 && is_aligned(packed, width) && count == flat->row_count) {
			flat->values = packed;
			parquet_page_hand(leaf);
			return WEIR_OK;
		}
		if (present == count)
			memcpy(out, packed, (size_t)count * width);
		else
			spread(leaf, width, count, packed, out);
		return WEIR_OK;
	}
	if (info->convert == PARQUET_KEEP && present == count)
		return parquet_values_read(leaf, present, out, err);
	if (parquet_memory_reserve(leaf->reader->account, &leaf->scratch,
				   parquet_values_size(leaf, leaf->reader->rows_cap + PARQUET_SLACK), err) ||
	    parquet_values_read(leaf, present, leaf->scratch.data, err))
		return err->code;
	packed = leaf->scratch.data;
	if (info->convert != PARQUET_KEEP) {
		uint8_t *converted = out;

		if (present < count) {
			if (out_reserve(flat, &leaf->packed, width, err))
				return err->code;
			converted = leaf->packed.data;
		}
		if (parquet_convert(info, packed, present, converted, err)) {
			weir_error_at_source(err, weir_file_path(leaf->reader->file->base.file));
			weir_error_at_column(err, info->path);
			weir_error_at_offset(err, leaf->page.offset);
			return err->code;
		}
		packed = converted;
	}
	if (present < count)
		spread(leaf, width, count, packed, out);
	return WEIR_OK;
}

/* `count` rows of the current page, from where it stands, to row `row` and on of the vector. */
static int piece(struct flat *flat, uint32_t row, uint32_t count, struct chosen chosen, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	uint32_t present = count;

	if (leaf->info->def_max > 0 &&
	    parquet_rle_read_bits(&leaf->definition, leaf->reader->kernels, count, leaf->valid_page, &present) != count)
		return parquet_leaf_damaged(leaf, err, "The page ends before its definition levels.");
	leaf->taken += count;
	validity_put(flat, row, count, present);
	if (leaf->info->convert == PARQUET_ALL_NULL)
		return WEIR_OK;
	if (leaf->values.is_codes)
		return codes_piece(flat, row, count, present, err);
	if (values_begin(flat, row, err))
		return err->code;
	if (leaf->info->type->layout == WEIR_LAYOUT_BITS)
		return bits_piece(flat, row, count, present, err);
	if (leaf->info->type->layout == WEIR_LAYOUT_BYTES)
		return views_piece(flat, row, count, present, chosen, err);
	return fixed_piece(flat, row, count, present, err);
}

/* The rows of one page. Narrows them to those between the first and the last that live when that spares work. */
static int page_rows(struct flat *flat, uint32_t row, uint32_t count, struct weir_error *err)
{
	struct parquet_leaf *leaf = flat->leaf;
	const struct weir_selection *selection = flat->selection;
	struct chosen chosen = {0, 0};
	int64_t before;

	if (selection->rows) {
		chosen.begin = place_of(selection, row);
		chosen.end = place_of(selection, row + count);
		if (chosen.begin == chosen.end)
			return WEIR_OK;
	}
	if (parquet_page_load(leaf, err))
		return err->code;
	if (selection->rows && (chosen.end - chosen.begin) * SPARSE < count) {
		uint32_t first = selection->rows[chosen.begin], last = selection->rows[chosen.end - 1];

		/* Values at their places cost nothing to pass over, and stay where they are. */
		if (leaf->values.decoder != &parquet_plain_fixed || leaf->info->def_max > 0) {
			row = first;
			count = last - first + 1;
		}
	}
	before = flat->row_first + row - leaf->page.row_begin - leaf->taken;
	WEIR_ASSERT(before >= 0);
	if (rows_skip(leaf, (uint32_t)before, err))
		return err->code;
	return piece(flat, row, count, chosen, err);
}

int parquet_flat_rows(struct parquet_leaf *leaf, int64_t row_first, uint32_t row_count,
		      const struct weir_selection *selection, struct weir_column *column, struct weir_error *err)
{
	struct flat flat = {.leaf = leaf, .selection = selection, .row_first = row_first, .row_count = row_count};
	uint32_t row = 0;

	while (row < row_count && (!selection->rows || selection->count > 0)) {
		int64_t left;
		uint32_t count;

		if (parquet_page_seek(leaf, row_first + row, err))
			return err->code;
		left = leaf->page.row_end - (row_first + row);
		count = left < row_count - row ? (uint32_t)left : row_count - row;
		if (page_rows(&flat, row, count, err))
			return err->code;
		row += count;
	}
	column->validity = flat.has_nulls ? leaf->valid : NULL;
	column->dictionary = NULL;
	if (leaf->info->convert == PARQUET_ALL_NULL) {
		static const uint64_t none = 0;

		column->form = WEIR_CONSTANT;
		column->validity = &none;
		column->values = NULL;
	} else if (flat.has_codes) {
		column->form = WEIR_DICTIONARY;
		column->values = leaf->codes.data;
		column->dictionary = &leaf->dictionary->values;
	} else {
		/* Places of rows that do not live may be computed with: they must be there. */
		if (!flat.values && out_reserve(&flat, &leaf->out, value_width(leaf->info), err))
			return err->code;
		column->form = WEIR_FLAT;
		column->values = flat.values ? flat.values : leaf->out.data;
	}
	return WEIR_OK;
}

/* Where the row is not known, damage is in one of the page's. */
static void error_at_rows(const struct parquet_leaf *leaf, int code, struct weir_error *err)
{
	const struct parquet_reader *reader = leaf->reader;
	int64_t first = reader->file->metadata.row_groups[reader->row_group].row_begin;

	if (code == WEIR_E_DATA && leaf->has_page && leaf->page.row_end > leaf->page.row_begin)
		weir_error_at_rows(err, first + leaf->page.row_begin, leaf->page.row_end - leaf->page.row_begin);
	else
		weir_error_at_row(err, first + reader->vector_row);
}

int parquet_flat_decode(struct weir_pending *pending, const struct weir_selection *selection,
			struct weir_column *column, struct weir_error *err)
{
	struct parquet_column *self = (struct parquet_column *)pending;
	struct parquet_reader *reader = self->reader;
	struct parquet_leaf *leaf = &self->leaves[0];
	/* When memory is short, a page that is small enough to stay costs less than its picks. */
	bool is_picked = (leaf->is_held || !reader->is_tight) && selection->count > 0 &&
			 parquet_picks_cover(reader, selection);
	int code = WEIR_OK;

	if (!is_picked && !leaf->is_held && (!selection->rows || selection->count > 0)) {
		code = parquet_page_seek(leaf, reader->vector_row, err);
		leaf->is_held = !code && parquet_page_is_too_much(leaf);
	}
	if (code)
		goto fail;
	if (is_picked || leaf->is_held)
		code = parquet_hold_rows(leaf, is_picked, column, err);
	else
		code = parquet_flat_rows(leaf, reader->vector_row, reader->vector_rows, selection, column, err);
	if (!code)
		return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(reader->file->base.file));
	error_at_rows(leaf, code, err);
	return code;
}
