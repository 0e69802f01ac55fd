/* Lists of one length from the file straight to where they stay: no levels and no values in between.
 *
 * Vectors of numbers (embeddings) are lists of n values each, none of them null. Their levels say so in every entry: the
 * repetition is a 0 and n − 1 times 1, again and again, the definition the same number throughout. Runs and packed groups
 * are compared with that a run at a time; where a page passes, row r of it is n values at r × n, and nothing more has to be
 * looked at. In a page that is stored as it is (no codec, plain values, no checksum) the values are not even read into
 * the window:
 *
 *     page  │ header │ levels │ values …                                     │
 *             ╰─ window ────╯   ╰─ one read of the file into the chunk ──────╯
 *
 * Pages in other codecs and encodings are loaded as always, and their values copied or decoded to their place. A page that
 * does not pass, because something is null, empty or of another length, because a row goes on in the next page or because it
 * is damaged, is left to nested.c: the rows before it have been taken, and it takes the others.
 */
#include "format/parquet/nested_impl.h"

#include <string.h>

enum {
	PAGE_SMALL = 64 << 10,  /* one read for the whole page is cheaper */
	LEVELS_MAX = 256 << 10, /* of a page that is not loaded */
	LEVELS_GUESS = 4 << 10,
};

bool parquet_column_is_straight(const struct parquet_column *column)
{
	const struct parquet_shape *shape = column->shape;
	const struct parquet_leaf_info *info = column->leaves[0].info;

	return column->levels && column->leaf_count == 1 && weir_type_row_bytes(shape->type) > 0 &&
	       shape->type->id == WEIR_FIXED_LIST && shape->children[0]->kind == PARQUET_SHAPE_LEAF &&
	       info->rep_max == 1 && info->width > 0 && info->width_arrow == shape->type->fields[0].type->byte_width &&
	       info->convert != PARQUET_ALL_NULL;
}

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

/* Do the cursors of levels, at the page's beginning, tell of lists of one length alone? */
static bool levels_are_even(const struct parquet_leaf *leaf, uint32_t list_size)
{
	const struct parquet_page *page = &leaf->page;
	uint64_t count = (uint64_t)page->header.value_count;

	if (count % list_size ||
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
	if (!levels_are_even(leaf, list_size))
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
	if (levels_are_even(leaf, list_size))
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
	if (levels->evenness != PARQUET_EVEN || levels->used % list_size)
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

int parquet_straight_lists(struct weir_pending *pending, uint32_t first, uint32_t count, uint8_t *out, uint32_t *done,
			   struct weir_error *err)
{
	struct parquet_column *self = (struct parquet_column *)pending;
	struct parquet_reader *reader = self->reader;
	struct parquet_leaf *leaf = &self->leaves[0];
	struct parquet_levels *levels = &self->levels[0];
	uint32_t list_size = (uint32_t)self->shape->type->list_size;
	int64_t row = reader->vector_row + first, end = row + count;
	uint64_t row_bytes = weir_type_row_bytes(self->shape->type);

	*done = 0;
	/* Memory is short: nested.c knows what to do about large pages. */
	if (reader->is_tight || levels->is_open || levels->row > row)
		return WEIR_OK;
	if (parquet_levels_skip_pages(leaf, levels, row, err))
		goto fail;
	while (levels->row < end) {
		uint64_t left = (uint64_t)leaf->page.header.value_count - levels->used, some;
		bool ready;

		if (!leaf->has_page || left == 0) {
			if (leaf->has_page && leaf->is_last)
				break;
			if (parquet_levels_page_next(leaf, levels, err))
				goto fail;
			continue;
		}
		if (page_ready(leaf, levels, list_size, &ready, err))
			goto fail;
		if (!ready)
			break;
		some = left / list_size;
		if (levels->row < row) {
			some = some < (uint64_t)(row - levels->row) ? some : (uint64_t)(row - levels->row);
			if (!levels->values_offset && parquet_values_skip(leaf, (uint32_t)some * list_size, err))
				goto fail;
		} else {
			some = some < (uint64_t)(end - levels->row) ? some : (uint64_t)(end - levels->row);
			if (values_read(leaf, levels, some * list_size, out, err))
				goto fail;
			out += some * row_bytes;
			*done += (uint32_t)some;
		}
		levels->used += (uint32_t)some * list_size;
		levels->row += (int64_t)some;
	}
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(reader->file->base.file));
	weir_error_at_row(err, reader->file->metadata.row_groups[reader->row_group].row_begin + reader->vector_row);
	return err->code;
}
