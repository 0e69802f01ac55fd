/* The levels and values of one leaf, by rows.
 *
 * A row is a run of entries whose first has repetition level 0. Levels are decoded ahead, a block at a time and never
 * past the page; values are read when their entries are used, so that both stay in step:
 *
 *     page     │ used │ next_def, next_rep: decoded ahead │ not decoded │
 *     rows     … r−1 │ r  r  r │ r+1  r+1 │ r+2 …
 *
 * A row may go on in the next page (old writers), so a row at a page's end has ended only when the next page says so.
 * Rows nobody asked for are passed over: by whole pages where their rows are known without levels (data pages v2,
 * offset index), else entry by entry, their values skipped.
 */
#include "format/parquet/nested_impl.h"

#include <string.h>

enum { BLOCK = WEIR_VECTOR_ROWS };

/* Another page: nothing of it is known or used. */
static void page_forget(struct parquet_levels *levels)
{
	levels->next = levels->end = levels->decoded = levels->used = 0;
	levels->is_straight = false;
	levels->evenness = PARQUET_EVEN_UNKNOWN;
}

void parquet_levels_rewind(struct parquet_levels *levels)
{
	page_forget(levels);
	levels->row = 0;
	levels->is_open = false;
}

void parquet_levels_release(struct weir_account *account, struct parquet_levels *levels)
{
	parquet_memory_release(account, &levels->def);
	parquet_memory_release(account, &levels->rep);
	parquet_memory_release(account, &levels->values);
	parquet_memory_release(account, &levels->bytes);
	parquet_memory_release(account, &levels->ends);
}

int parquet_levels_grow(struct parquet_leaf *leaf, struct parquet_memory *memory, size_t size, struct weir_error *err)
{
	size_t capacity = memory->capacity ? memory->capacity : 4096;
	uint8_t *larger;

	if (size + PARQUET_PAD <= memory->capacity)
		return WEIR_OK;
	while (capacity < size + PARQUET_PAD)
		capacity *= 2;
	larger = memory->data ? weir_realloc(leaf->reader->account, memory->data, memory->capacity, capacity, err)
			      : weir_alloc(leaf->reader->account, capacity, err);
	if (!larger)
		return err->code;
	memory->data = larger;
	memory->capacity = capacity;
	return WEIR_OK;
}

/* ── levels of the page ── */

static int level_block(struct parquet_leaf *leaf, struct parquet_rle *rle, uint16_t max, uint32_t count, uint16_t *out,
		       struct weir_error *err)
{
	uint32_t *wide;
	uint32_t highest = 0;

	if (max == 0) {
		memset(out, 0, count * sizeof(*out));
		return WEIR_OK;
	}
	if (parquet_memory_reserve(leaf->reader->account, &leaf->scratch, (BLOCK + PARQUET_SLACK) * sizeof(uint32_t),
				   err))
		return err->code;
	wide = (uint32_t *)leaf->scratch.data;
	if (parquet_rle_read(rle, leaf->reader->kernels, count, wide) != count)
		return parquet_leaf_damaged(leaf, err, "The page ends before its levels.");
	for (uint32_t i = 0; i < count; i++) {
		highest = wide[i] > highest ? wide[i] : highest;
		out[i] = (uint16_t)wide[i];
	}
	if (highest > max)
		return parquet_leaf_damaged(leaf, err, "A level of %u where %u is the highest.", highest, max);
	return WEIR_OK;
}

/* Decodes the next levels of the current page; none are left over. */
static int block_next(struct parquet_leaf *leaf, struct parquet_levels *levels, struct weir_error *err)
{
	uint32_t left = (uint32_t)leaf->page.header.value_count - levels->decoded;
	uint32_t count = left < BLOCK ? left : BLOCK;

	if (level_block(leaf, &leaf->repetition, leaf->info->rep_max, count, levels->next_rep, err) ||
	    level_block(leaf, &leaf->definition, leaf->info->def_max, count, levels->next_def, err))
		return err->code;
	levels->decoded += count;
	levels->next = 0;
	levels->end = count;
	return WEIR_OK;
}

/* ── values ── */

static int bytes_append(struct parquet_leaf *leaf, struct parquet_levels *levels, const struct weir_view *views,
			uint32_t count, struct weir_error *err)
{
	uint32_t *sizes;
	size_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += views[i].size;
	if (parquet_levels_grow(leaf, &levels->values, ((size_t)levels->value_count + count) * sizeof(uint32_t), err) ||
	    parquet_levels_grow(leaf, &levels->bytes, levels->bytes_size + total, err))
		return err->code;
	sizes = (uint32_t *)levels->values.data + levels->value_count;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(levels->bytes.data + levels->bytes_size, weir_view_bytes(&views[i]), views[i].size);
		levels->bytes_size += views[i].size;
		sizes[i] = views[i].size;
	}
	levels->value_count += count;
	return WEIR_OK;
}

int parquet_values_block(struct parquet_leaf *leaf, uint32_t count, const void **out, struct weir_error *err)
{
	const struct parquet_leaf_info *info = leaf->info;
	struct parquet_reader *reader = leaf->reader;
	uint32_t width = info->width_arrow ? info->width_arrow : (uint32_t)sizeof(struct weir_view);
	bool handed = leaf->handed, handed_window = leaf->handed_window;

	if (parquet_memory_reserve(reader->account, &leaf->scratch, parquet_values_size(leaf, BLOCK + PARQUET_SLACK),
				   err) ||
	    parquet_values_read(leaf, count, leaf->scratch.data, err))
		return err->code;
	/* Everything is copied: the vector will not point into the page. */
	leaf->handed = handed;
	leaf->handed_window = handed_window;
	*out = leaf->scratch.data;
	if (info->type->layout == WEIR_LAYOUT_BITS)
		return WEIR_OK;
	if (leaf->values.is_codes) {
		const uint8_t *from = leaf->dictionary->values.values;
		const uint32_t *codes = *out;

		if (parquet_memory_reserve(reader->account, &leaf->packed, (BLOCK + PARQUET_SLACK) * (size_t)width,
					   err))
			return err->code;
		for (uint32_t i = 0; i < count; i++)
			memcpy(leaf->packed.data + (size_t)i * width, from + (size_t)codes[i] * width, width);
		*out = leaf->packed.data;
	} else if (info->convert != PARQUET_KEEP) {
		if (parquet_memory_reserve(reader->account, &leaf->packed, (BLOCK + PARQUET_SLACK) * (size_t)width,
					   err))
			return err->code;
		if (parquet_convert(info, leaf->scratch.data, count, leaf->packed.data, err)) {
			weir_error_at_column(err, info->path);
			weir_error_at_offset(err, leaf->page.offset);
			return err->code;
		}
		*out = leaf->packed.data;
	} else if (info->is_text && !leaf->values.is_checked &&
		   parquet_views_check(leaf, *out, count, WEIR_NO_ROW, err)) {
		return err->code;
	}
	return WEIR_OK;
}

/* `count` ≤ BLOCK values of the page, to the end of those of the vector. */
static int values_append(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t count,
			 struct weir_error *err)
{
	const struct parquet_leaf_info *info = leaf->info;
	struct parquet_reader *reader = leaf->reader;
	uint32_t width = info->width_arrow;
	const void *read;

	if (count == 0 || info->convert == PARQUET_ALL_NULL)
		return WEIR_OK;
	/* As they are in the page, straight to their place. */
	if (info->convert == PARQUET_KEEP && info->type->layout == WEIR_LAYOUT_FIXED && !leaf->values.is_codes) {
		size_t room = ((size_t)levels->value_count + count + PARQUET_SLACK) * width;
		bool handed = leaf->handed, handed_window = leaf->handed_window;

		if (!levels->values.data && levels->values_before > room)
			room = levels->values_before - PARQUET_PAD;
		if (parquet_levels_grow(leaf, &levels->values, room, err) ||
		    parquet_values_read(leaf, count, levels->values.data + (size_t)levels->value_count * width, err))
			return err->code;
		levels->value_count += count;
		leaf->handed = handed;
		leaf->handed_window = handed_window;
		return WEIR_OK;
	}
	if (parquet_values_block(leaf, count, &read, err))
		return err->code;
	if (info->type->layout == WEIR_LAYOUT_BITS) {
		if (parquet_levels_grow(leaf, &levels->values, ((size_t)levels->value_count + count) / 8 + 16, err))
			return err->code;
		reader->kernels->copy_bits(read, 0, count, (uint64_t *)levels->values.data, levels->value_count);
		levels->value_count += count;
		return WEIR_OK;
	}
	if (info->type->layout == WEIR_LAYOUT_BYTES)
		return bytes_append(leaf, levels, read, count, err);
	if (parquet_levels_grow(leaf, &levels->values, ((size_t)levels->value_count + count + PARQUET_SLACK) * width,
				err))
		return err->code;
	memcpy(levels->values.data + (size_t)levels->value_count * width, read, (size_t)count * width);
	levels->value_count += count;
	return WEIR_OK;
}

static int entries_append(struct parquet_leaf *leaf, struct parquet_levels *levels, const uint16_t *def,
			  const uint16_t *rep, uint32_t count, struct weir_error *err)
{
	size_t at = levels->count * sizeof(uint16_t), size = count * sizeof(uint16_t);

	if (levels->count > INT32_MAX - count)
		return weir_error_set(err, WEIR_E_LIMIT, "Rows with more than 2^31 values.");
	if (parquet_levels_grow(leaf, &levels->def, at + size, err) ||
	    parquet_levels_grow(leaf, &levels->rep, at + size, err))
		return err->code;
	memcpy(levels->def.data + at, def, size);
	memcpy(levels->rep.data + at, rep, size);
	levels->count += count;
	return WEIR_OK;
}

/* Uses `count` entries that were decoded ahead: keeps them and their values, or passes over them. */
static int entries_use(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t count, bool keep,
		       struct weir_error *err)
{
	const uint16_t *def = levels->next_def + levels->next, *rep = levels->next_rep + levels->next;
	uint32_t present = 0;

	for (uint32_t i = 0; i < count; i++)
		present += def[i] == leaf->info->def_max;
	if (keep) {
		levels->all_present &= present == count;
		if (entries_append(leaf, levels, def, rep, count, err) || values_append(leaf, levels, present, err))
			return err->code;
	} else if (leaf->info->convert != PARQUET_ALL_NULL && parquet_values_skip(leaf, present, err)) {
		return err->code;
	}
	levels->next += count;
	levels->used += count;
	return WEIR_OK;
}

/* ── pages ── */

/* The page's levels and values from its beginning; what was used of it before it was dropped is passed over again. */
static int page_open(struct parquet_leaf *leaf, struct parquet_levels *levels, struct weir_error *err)
{
	uint32_t used = levels->used;

	if (leaf->page.bytes && !levels->is_straight)
		return WEIR_OK;
	levels->is_straight = false;
	if (leaf->page.bytes ? parquet_page_restart(leaf, err) : parquet_page_load(leaf, err))
		return err->code;
	levels->next = levels->end = levels->decoded = levels->used = 0;
	while (levels->used < used) {
		uint32_t some;

		if (levels->next == levels->end && block_next(leaf, levels, err))
			return err->code;
		some = levels->end - levels->next < used - levels->used ? levels->end - levels->next
									: used - levels->used;
		if (entries_use(leaf, levels, some, false, err))
			return err->code;
	}
	return WEIR_OK;
}

int parquet_levels_page_next(struct parquet_leaf *leaf, struct parquet_levels *levels, struct weir_error *err)
{
	if (parquet_page_next(leaf, err))
		return err->code;
	page_forget(levels);
	if (leaf->page.row_begin >= 0 && leaf->page.row_begin != levels->row + levels->is_open)
		return parquet_leaf_damaged(leaf, err, "The pages before have other rows than the metadata says.");
	return WEIR_OK;
}

/* Is there an entry at `next`? Decodes, and goes on to the next page, until there is; false at the end of the chunk. */
static int entry_ready(struct parquet_leaf *leaf, struct parquet_levels *levels, bool *ready, struct weir_error *err)
{
	*ready = true;
	while (levels->next == levels->end || !leaf->page.bytes || levels->is_straight) {
		bool is_used_up = !leaf->has_page || levels->used == (uint32_t)leaf->page.header.value_count;

		if (is_used_up) {
			if (leaf->has_page && leaf->is_last) {
				*ready = false;
				return WEIR_OK;
			}
			if (parquet_levels_page_next(leaf, levels, err))
				return err->code;
			continue;
		}
		if (page_open(leaf, levels, err))
			return err->code;
		if (levels->next == levels->end && block_next(leaf, levels, err))
			return err->code;
	}
	return WEIR_OK;
}

int parquet_levels_skip_pages(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row,
			      struct weir_error *err)
{
	const struct parquet_page *page = &leaf->page;

	if (!leaf->has_page && parquet_levels_page_next(leaf, levels, err))
		return err->code;
	if (row - levels->row > BLOCK && parquet_page_index_seek(leaf, row, err))
		return err->code;
	if (leaf->has_page && page->row_begin > levels->row) { /* the index led further */
		page_forget(levels);
		levels->row = page->row_begin;
		levels->is_open = false;
	}
	while (leaf->has_page && page->row_end >= 0 && page->row_end <= row && page->row_begin <= levels->row) {
		levels->row = page->row_end;
		levels->is_open = false;
		if (parquet_levels_page_next(leaf, levels, err))
			return err->code;
	}
	return WEIR_OK;
}

/* Entries up to the end of row `row_end` − 1, kept or not. */
static int rows_use(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row_end, bool keep,
		    struct weir_error *err)
{
	for (;;) {
		uint32_t count = 0, there;
		const uint16_t *rep;
		bool ready, is_past = false;

		if (entry_ready(leaf, levels, &ready, err))
			return err->code;
		if (!ready) {
			levels->row += levels->is_open;
			levels->is_open = false;
			if (levels->row < row_end)
				return parquet_leaf_damaged(leaf, err, "The column chunk ends before all of its rows.");
			return WEIR_OK;
		}
		rep = levels->next_rep + levels->next;
		there = levels->end - levels->next;
		if (!levels->is_open && rep[0] != 0)
			return parquet_leaf_damaged(leaf, err, "A row begins in the middle.");
		for (; (count = parquet_find_zero(rep, count, there)) < there; count++) {
			levels->row += levels->is_open;
			levels->is_open = false;
			if (levels->row == row_end) {
				is_past = true;
				break;
			}
			levels->is_open = true;
		}
		if (count > 0 && entries_use(leaf, levels, count, keep, err))
			return err->code;
		if (is_past)
			return WEIR_OK;
	}
}

/* A row that nobody looks at: an entry without a value, whatever the leaf. */
static int rows_blank(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t count, struct weir_error *err)
{
	static const uint16_t zero[256];

	while (count > 0) {
		uint32_t some = count < 256 ? count : 256;

		levels->all_present = false;
		if (entries_append(leaf, levels, zero, zero, some, err))
			return err->code;
		count -= some;
	}
	return WEIR_OK;
}

int parquet_levels_read(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row, uint32_t count,
			const struct weir_selection *selection, struct weir_error *err)
{
	uint32_t at = 0;

	levels->count = levels->value_count = 0;
	levels->bytes_size = 0;
	levels->all_present = true;
	levels->is_even = false;
	if (parquet_levels_skip_pages(leaf, levels, row, err))
		return err->code;
	if (levels->row < row && rows_use(leaf, levels, row, false, err))
		return err->code;
	/* A leaf of required elements all the way has a value in every row, so none can be left out. */
	if (!selection->rows || leaf->info->def_max == 0) {
		if (levels->is_alone && parquet_straight_read(leaf, levels, row, count, err))
			return err->code;
		return levels->is_even ? WEIR_OK : rows_use(leaf, levels, row + count, true, err);
	}
	for (uint32_t i = 0; i < selection->count;) {
		uint32_t run = 1, first = selection->rows[i];

		while (i + run < selection->count && selection->rows[i + run] == first + run)
			run++;
		if (rows_blank(leaf, levels, first - at, err))
			return err->code;
		if (first > at && rows_use(leaf, levels, row + first, false, err))
			return err->code;
		if (rows_use(leaf, levels, row + first + run, true, err))
			return err->code;
		at = first + run;
		i += run;
	}
	return rows_blank(leaf, levels, count - at, err);
}
