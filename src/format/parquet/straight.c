/* Lists of one length from the file straight to where they stay: no levels in between, and no values.
 *
 * Vectors of numbers (embeddings) are lists of n values each, none of them null. Their levels say so in every entry:
 * the repetition is a 0 and n − 1 times 1, again and again, the definition the same number throughout. Runs and packed
 * groups are compared with that a run at a time; where a page passes, row r of it is n values at r × n, and nothing
 * more has to be looked at. In a page that is stored as it is (no codec, plain values, no checksum) the values are not
 * even read into the window:
 *
 *     page  │ header │ levels │ values …                                     │
 *             ╰─ window ────╯   ╰─ one read of the file into the chunk ──────╯
 *
 * Pages in other codecs and encodings are loaded as always, and their values copied or decoded to their place. A page
 * that does not pass, because something is null, empty or of another length, because a row goes on in the next page or
 * because it is damaged, is left to nested.c: the rows before it have been taken, and it takes the others.
 *
 * Lists that may have any length often have the same one all the same. Their pages are looked at in the same way, with
 * the length of the page's first list; their values go to the vector's memory, and no levels but the lists' ends come
 * of them.
 */
#include "format/parquet/nested_impl.h"

#include <string.h>

/* Below, one read for the whole page is cheaper. Sanitized builds, which hostile and random files are fed to, read
 * small pages in this way too, since those files are small. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#define IS_SANITIZED __has_feature(address_sanitizer)
#else
#define IS_SANITIZED 0
#endif

enum {
	PAGE_SMALL = IS_SANITIZED ? 1 : 64 << 10,
	LEVELS_MAX = 256 << 10, /* of a page that is not loaded */
	LEVELS_GUESS = 4 << 10,
};

static bool is_stored(const struct parquet_leaf *leaf)
{
	const struct parquet_page_header *header = &leaf->page.header;

	return leaf->codec == WEIR_CODEC_NONE || (header->type == PARQUET_PAGE_DATA_V2 && !header->is_compressed);
}

/* The level bytes at the page's beginning, without what follows; NULL with err->code 0: more than is worth it. */
static int levels_fetch(struct parquet_leaf *leaf, const uint8_t **bytes, size_t *size, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;
	size_t page = (size_t)header->size_uncompressed, need;

	*bytes = NULL;
	if (header->type == PARQUET_PAGE_DATA_V2) {
		need = (size_t)header->repetition_size + (size_t)header->definition_size;
	} else {
		/* Two lengths, each before what it measures. */
		if (header->repetition_encoding != PARQUET_RLE || header->definition_encoding != PARQUET_RLE)
			return WEIR_OK;
		need = 0;
		for (int i = 0; i < 2; i++) {
			const uint8_t *at = NULL;
			uint32_t length;

			if (need + 4 > page || need + 4 > LEVELS_MAX)
				return WEIR_OK;
			if (parquet_window_fetch(leaf, leaf->page.body_offset, need + 4, &at, err))
				return err->code;
			memcpy(&length, at + need, 4);
			need += 4;
			if (length > page - need || length > LEVELS_MAX)
				return WEIR_OK;
			need += length;
		}
	}
	if (need > LEVELS_MAX || need > page)
		return WEIR_OK;
	/* As much with the next page's header. */
	leaf->readahead = need + LEVELS_GUESS < leaf->reader->window_bytes_max ? need + LEVELS_GUESS
									       : leaf->reader->window_bytes_max;
	*size = need;
	return parquet_window_fetch(leaf, leaf->page.body_offset, need, bytes, err);
}

/* Do the cursors of levels, at the page's beginning, tell of lists of one length alone? `list_size` 0: of whichever
 * length. */
static bool levels_are_even(const struct parquet_leaf *leaf, struct parquet_levels *levels, uint64_t list_size)
{
	const struct parquet_page *page = &leaf->page;
	uint64_t count = (uint64_t)page->header.value_count;

	if (list_size == 0)
		list_size = parquet_rle_first_list(leaf->repetition, count);
	levels->list_size = (uint32_t)list_size;
	if (list_size == 0 || count % list_size ||
	    (page->row_end >= 0 && (uint64_t)(page->row_end - page->row_begin) != count / list_size))
		return false;
	return parquet_rle_is_all(leaf->definition, count, leaf->info->def_max) &&
	       parquet_rle_is_lists(leaf->repetition, count, list_size);
}

/* A large page that is stored as it is: its levels alone are read. */
static int look_stored(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t list_size,
		       struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;
	const uint8_t *bytes;
	size_t size = 0, used = 0;

	if (levels_fetch(leaf, &bytes, &size, err))
		return err->code;
	if (!bytes)
		return WEIR_OK;
	if (parquet_page_levels(leaf, bytes, size, &used, err)) {
		*err = (struct weir_error){0}; /* nested.c meets it again, and says where */
		return WEIR_OK;
	}
	if ((size_t)header->value_count > ((size_t)header->size_uncompressed - used) / leaf->info->width)
		return WEIR_OK;
	if (!levels_are_even(leaf, levels, list_size))
		return WEIR_OK;
	levels->evenness = PARQUET_EVEN;
	levels->values_offset = leaf->page.body_offset + used;
	leaf->reader->stats.pages_decoded++;
	return WEIR_OK;
}

/* Finds out whether the current page is even, once. */
static int look(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t list_size, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;

	levels->evenness = PARQUET_UNEVEN;
	levels->values_offset = 0;
	if (!leaf->page.bytes && is_stored(leaf) && header->encoding == PARQUET_PLAIN && !header->has_crc &&
	    leaf->info->convert == PARQUET_KEEP && header->size_uncompressed >= PAGE_SMALL &&
	    header->size_uncompressed == header->size_compressed)
		return look_stored(leaf, levels, list_size, err);
	if (leaf->page.bytes ? parquet_page_restart(leaf, err) : parquet_page_load(leaf, err))
		return err->code;
	if (levels_are_even(leaf, levels, list_size))
		levels->evenness = PARQUET_EVEN;
	/* nested.c would go on from where the cursors were. */
	levels->is_straight = true;
	return WEIR_OK;
}

/* Values of the page from entry `used` on. */
static int values_read(struct parquet_leaf *leaf, const struct parquet_levels *levels, uint64_t count, uint8_t *out,
		       struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;
	size_t width = leaf->info->width_arrow, size = (size_t)count * width;

	if (levels->values_offset) {
		uint64_t offset = levels->values_offset + (uint64_t)levels->used * width, end = offset + size;
		struct weir_file *file = reader->file->base.file;
		size_t some = 0;

		/* The window had to go on to the levels' end, and may hold some of the values. */
		if (leaf->window_size && !leaf->window_run && offset >= leaf->window_offset &&
		    offset < leaf->window_offset + leaf->window_size) {
			some = leaf->window_size - (size_t)(offset - leaf->window_offset);
			some = some < size ? some : size;
			memcpy(out, leaf->window_at + (offset - leaf->window_offset), some);
		}
		if (some < size && weir_file_read(file, offset + some, out + some, size - some, err)) {
			weir_error_at_column(err, leaf->info->path);
			return err->code;
		}
		reader->stats.bytes_read += size - some;
		if (end < leaf->chunk_end)
			weir_file_advise(file, end, size < leaf->chunk_end - end ? size : leaf->chunk_end - end);
		return WEIR_OK;
	}
	while (count > 0) {
		bool is_plain = leaf->values.decoder == &parquet_plain_fixed && leaf->info->convert == PARQUET_KEEP;
		uint32_t some = is_plain ? (uint32_t)(count < UINT32_MAX ? count : UINT32_MAX)
					 : (uint32_t)(count < WEIR_VECTOR_ROWS ? count : WEIR_VECTOR_ROWS);
		const void *read;

		if (is_plain) {
			if (parquet_values_read(leaf, some, out, err))
				return err->code;
		} else {
			if (parquet_values_block(leaf, some, &read, err))
				return err->code;
			memcpy(out, read, some * width);
		}
		out += some * width;
		count -= some;
	}
	return WEIR_OK;
}

/* Makes the page ready to have its values taken from entry `used` on. False: it is not for us. */
static int page_ready(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t list_size, bool *ready,
		      struct weir_error *err)
{
	bool is_new = levels->evenness == PARQUET_EVEN_UNKNOWN;

	*ready = false;
	if (is_new && look(leaf, levels, list_size, err))
		return err->code;
	if (levels->evenness != PARQUET_EVEN || levels->used % levels->list_size ||
	    (list_size && levels->list_size != list_size))
		return WEIR_OK;
	*ready = true;
	if (!levels->values_offset && (!levels->is_straight || is_new || !leaf->page.bytes)) {
		if (leaf->page.bytes ? parquet_page_restart(leaf, err) : parquet_page_load(leaf, err))
			return err->code;
		if (parquet_values_skip(leaf, levels->used, err))
			return err->code;
	}
	levels->is_straight = true;
	levels->next = levels->end = levels->decoded = 0;
	return WEIR_OK;
}

/* Steps to a page that has entries left. False at the end of the chunk. */
static int page_find(struct parquet_leaf *leaf, struct parquet_levels *levels, bool *found, struct weir_error *err)
{
	while (!leaf->has_page || levels->used == (uint32_t)leaf->page.header.value_count) {
		*found = !leaf->has_page || !leaf->is_last;
		if (!*found)
			return WEIR_OK;
		if (parquet_levels_page_next(leaf, levels, err))
			return err->code;
	}
	*found = true;
	return WEIR_OK;
}

/* Rows of the current page that are left, at most `most`. */
static uint32_t rows_some(const struct parquet_leaf *leaf, const struct parquet_levels *levels, int64_t most)
{
	uint32_t left = ((uint32_t)leaf->page.header.value_count - levels->used) / levels->list_size;

	return left < most ? left : (uint32_t)most;
}

static void rows_taken(struct parquet_levels *levels, uint32_t count)
{
	levels->used += count * levels->list_size;
	levels->row += count;
}

static int decode_to(struct weir_pending *pending, uint32_t first, uint32_t count, uint8_t *out, uint32_t *done,
		     struct weir_error *err)
{
	struct parquet_column *self = (struct parquet_column *)pending;
	struct parquet_reader *reader = self->reader;
	struct parquet_leaf *leaf = &self->leaves[0];
	struct parquet_levels *levels = &self->levels[0];
	uint32_t list_size = (uint32_t)self->shape->type->list_size, some;
	int64_t row = reader->vector_row + first, end = row + count;
	bool ready;

	*done = 0;
	/* Memory is short: nested.c knows what to do about large pages. */
	if (reader->is_tight || levels->is_open || levels->row > row)
		return WEIR_OK;
	if (parquet_levels_skip_pages(leaf, levels, row, err))
		goto fail;
	while (levels->row < end) {
		if (page_find(leaf, levels, &ready, err) || (ready && page_ready(leaf, levels, list_size, &ready, err)))
			goto fail;
		if (!ready)
			break;
		some = rows_some(leaf, levels, (levels->row < row ? row : end) - levels->row);
		if (levels->row < row) {
			if (!levels->values_offset && parquet_values_skip(leaf, some * list_size, err))
				goto fail;
		} else {
			if (values_read(leaf, levels, (uint64_t)some * list_size, out, err))
				goto fail;
			out += some * weir_type_row_bytes(self->shape->type);
			*done += some;
		}
		rows_taken(levels, some);
	}
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(reader->file->base.file));
	weir_error_at_row(err, reader->file->metadata.row_groups[reader->row_group].row_begin + reader->vector_row);
	return err->code;
}

void parquet_straight_plan(struct parquet_column *column)
{
	const struct parquet_shape *shape = column->shape;
	const struct parquet_leaf_info *info;

	column->pending.decode_to = NULL;
	if (!column->levels || column->leaf_count != 1) { /* a struct may have no leaf at all */
		for (uint32_t l = 0; column->levels && l < column->leaf_count; l++)
			column->levels[l].is_alone = false;
		return;
	}
	info = column->leaves[0].info;
	column->levels[0].is_alone = shape->kind == PARQUET_SHAPE_LIST &&
				     shape->children[0]->kind == PARQUET_SHAPE_LEAF && info->rep_max == 1 &&
				     info->type->layout == WEIR_LAYOUT_FIXED && info->width > 0 &&
				     info->width_arrow > 0 && info->convert != PARQUET_ALL_NULL;
	if (column->levels[0].is_alone && shape->type->id == WEIR_FIXED_LIST && weir_type_row_bytes(shape->type) > 0)
		column->pending.decode_to = decode_to;
}

/* ── into a vector ── */

/* Of the rows that were taken: the general way goes on behind them. */
static int entries_make(struct parquet_leaf *leaf, struct parquet_levels *levels, uint32_t rows, struct weir_error *err)
{
	const uint32_t *ends = (const uint32_t *)levels->ends.data;
	size_t size = levels->value_count * sizeof(uint16_t);
	uint16_t *def, *rep;

	if (parquet_levels_grow(leaf, &levels->def, size, err) || parquet_levels_grow(leaf, &levels->rep, size, err))
		return err->code;
	def = (uint16_t *)levels->def.data;
	rep = (uint16_t *)levels->rep.data;
	for (uint32_t i = 0; i < levels->value_count; i++) {
		def[i] = leaf->info->def_max;
		rep[i] = 1;
	}
	for (uint32_t i = 0; i < rows; i++)
		rep[i ? ends[i - 1] : 0] = 0;
	levels->count = levels->value_count;
	return WEIR_OK;
}

/* A page's last row has ended when the next page does not go on with it. */
int parquet_straight_read(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row, uint32_t count,
			  struct weir_error *err)
{
	uint32_t width = leaf->info->width_arrow, taken = 0, *ends;
	int64_t end = row + count;
	bool ready;

	if (leaf->reader->is_tight || levels->is_open || levels->row != row)
		return WEIR_OK;
	if (parquet_levels_grow(leaf, &levels->ends, count * sizeof(*ends), err))
		return err->code;
	ends = (uint32_t *)levels->ends.data;
	while (levels->row < end) {
		uint32_t some;
		size_t room;

		if (page_find(leaf, levels, &ready, err))
			return err->code;
		if (!ready) { /* the end of the chunk, and of its last row */
			levels->row += levels->is_open;
			levels->is_open = false;
			break;
		}
		if (page_ready(leaf, levels, 0, &ready, err))
			return err->code;
		if (!ready)
			break;
		levels->row += levels->is_open;
		levels->is_open = false;
		some = rows_some(leaf, levels, end - levels->row);
		if (some == 0 || (uint64_t)levels->value_count + (uint64_t)some * levels->list_size > INT32_MAX)
			break;
		room = ((size_t)levels->value_count + (size_t)some * levels->list_size + PARQUET_SLACK) * width;
		if (!levels->values.data && levels->values_before > room)
			room = levels->values_before - PARQUET_PAD;
		if (parquet_levels_grow(leaf, &levels->values, room, err) ||
		    values_read(leaf, levels, (uint64_t)some * levels->list_size,
				levels->values.data + (size_t)levels->value_count * width, err))
			return err->code;
		for (uint32_t i = 0; i < some; i++)
			ends[taken++] = levels->value_count += levels->list_size;
		rows_taken(levels, some);
		if (levels->used == (uint32_t)leaf->page.header.value_count) {
			levels->row--;
			levels->is_open = true;
		}
	}
	levels->is_even = taken == count && levels->row == end;
	return levels->is_even ? WEIR_OK : entries_make(leaf, levels, taken, err);
}
