/* The pages of one column chunk: found, read in windows, inflated.
 *
 *     chunk_begin                    window_offset      next_offset                         chunk_end
 *     ┌────────┬─────────┬───────────┬───╔══════════════╪═══════════════╗────────────────────┐
 *     │ header │ dict…   │ header    │ … ║ header │ page bytes          ║ …                  │
 *     └────────┴─────────┴───────────┴───╚══════════════╪═══════════════╝────────────────────┘
 *
 * A page's header is parsed where it lies in the window; its body is read only when load asks for it. As long as pages
 * are wanted the window grows, so that a chunk is read in few large pieces; a page that is passed over shrinks it, so
 * that only headers are read. A page that is stored uncompressed is decoded where it lies in the window.
 *
 * The place of a v1 page's values is known only after inflating it, since levels come first. Values that lie aligned
 * can be handed out without a copy; a page without nulls has levels of a length that can be foretold (one run), so the
 * page is inflated to where that puts its values on a boundary.
 */
#include "base/checked.h"
#include "format/parquet/read_impl.h"

#include <libdeflate.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	WINDOW_MIN = 4 << 10, /* headers only */
	WINDOW_FIRST = 64 << 10,
	HEADER_GUESS = 256,
	HEADER_MAX = 16 << 20, /* statistics of long strings stand in it */
};

int parquet_leaf_damaged(const struct parquet_leaf *leaf, struct weir_error *err, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	weir_error_set(err, WEIR_E_DATA, "%s", text);
	weir_error_at_source(err, weir_file_path(leaf->reader->file->base.file));
	weir_error_at_column(err, leaf->info->path);
	weir_error_at_offset(err, leaf->has_page ? leaf->page.offset : leaf->next_offset);
	return WEIR_E_DATA;
}

/* parquet-mr before 1.2.9, or one that does not say. */
static bool is_old_mr(const struct parquet_bytes *created_by)
{
	static const char name[] = "parquet-mr", old[] = "parquet-mr version 1.2.";
	uint32_t size = created_by->size;

	if (!created_by->data || size < sizeof(name) - 1 || memcmp(created_by->data, name, sizeof(name) - 1) != 0)
		return false;
	return size == sizeof(name) - 1 ||
	       (size >= sizeof(old) - 1 && memcmp(created_by->data, old, sizeof(old) - 3) == 0 &&
		created_by->data[sizeof(old) - 3] <= '2' && created_by->data[sizeof(old) - 2] == '.');
}

int parquet_leaf_open(struct parquet_leaf *leaf, const struct parquet_chunk *chunk, struct weir_error *err)
{
	const struct parquet_file *file = leaf->reader->file;
	uint64_t begin = (uint64_t)chunk->data_offset;

	parquet_leaf_close(leaf);
	leaf->chunk = chunk;
	leaf->next_offset = begin;
	if (chunk->is_encrypted) {
		weir_error_set(err, WEIR_E_UNSUPPORTED,
			       "The column is encrypted; weir does not read encrypted columns.");
		goto fail;
	}
	if (chunk->is_external) {
		weir_error_set(err, WEIR_E_UNSUPPORTED, "The column's data is in another file.");
		goto fail;
	}
	if (chunk->physical != leaf->info->element->physical)
		return parquet_leaf_damaged(leaf, err, "The column chunk has another type than the schema says.");
	if (parquet_codec_to_weir(chunk->codec, &leaf->codec, err))
		goto fail;
	/* Some writers leave the dictionary's offset out, some set it to 0: then it is the first page all the same. */
	if (chunk->dictionary_offset > 0 && chunk->dictionary_offset < chunk->data_offset)
		begin = (uint64_t)chunk->dictionary_offset;
	if (begin < 4 || weir_range_outside(begin, (uint64_t)chunk->size_compressed, file->pages_end))
		return parquet_leaf_damaged(leaf, err, "The column chunk (%llu bytes at %llu) lies outside the file.",
					    (unsigned long long)chunk->size_compressed, (unsigned long long)begin);
	leaf->chunk_begin = leaf->next_offset = begin;
	leaf->chunk_end = begin + (uint64_t)chunk->size_compressed;
	/* Old parquet-mr left the dictionary page's header out of the size; no such header is larger than this. */
	if (is_old_mr(&file->metadata.created_by))
		leaf->chunk_end += file->pages_end - leaf->chunk_end < 100 ? file->pages_end - leaf->chunk_end : 100;
	leaf->readahead = WINDOW_FIRST;
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(file->base.file));
	weir_error_at_column(err, leaf->info->path);
	return err->code;
}

void parquet_leaf_close(struct parquet_leaf *leaf)
{
	/* Its memory serves the next chunk's. */
	if (leaf->dictionary) {
		parquet_dictionary_free(leaf->reader->account, leaf->dictionary_spare);
		leaf->dictionary_spare = leaf->dictionary;
	}
	leaf->dictionary = NULL;
	parquet_hold_release(leaf);
	leaf->chunk = NULL;
	leaf->window_size = 0;
	leaf->window_run = 0;
	leaf->has_page = false;
	leaf->page = (struct parquet_page){0};
	leaf->dictionary_body = 0;
	leaf->index = (struct parquet_offset_index){0};
	leaf->index_tried = false;
	leaf->values_seen = 0;
	leaf->taken = 0;
}

void parquet_leaf_release(struct parquet_leaf *leaf)
{
	struct weir_account *account = leaf->reader->account;
	struct parquet_memory *buffers[] = {&leaf->window,  &leaf->inflated, &leaf->out,     &leaf->codes,
					    &leaf->scratch, &leaf->packed,   &leaf->previous};

	parquet_leaf_close(leaf);
	parquet_dictionary_free(account, leaf->dictionary_spare);
	leaf->dictionary_spare = NULL;
	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
		parquet_memory_release(account, buffers[i]);
}

/* The most that `size` bytes of a codec can stand for, so that a damaged header asks for no memory that its page cannot
 * fill. What the chunk says of itself is no measure: there are writers that give the compressed size twice. */
static uint64_t expanded_max(enum weir_codec codec, uint64_t size)
{
	switch (codec) {
	case WEIR_CODEC_NONE:
		return size;
	case WEIR_CODEC_SNAPPY:
		return size * 32 + 64;
	case WEIR_CODEC_LZ4_FRAME:
	case WEIR_CODEC_LZ4_RAW:
	case WEIR_CODEC_LZ4_HADOOP:
		return size * 256 + 64;
	case WEIR_CODEC_GZIP:
		return size * 1040 + 64;
	default:
		return INT32_MAX; /* a few bytes can be any number of zeroes */
	}
}

/* The header at `offset`; body_offset and sizes are checked against the chunk and the codec. */
static int header_at(struct parquet_leaf *leaf, uint64_t offset, struct parquet_page_header *header,
		     uint64_t *body_offset, struct weir_error *err)
{
	uint64_t left = leaf->chunk_end - offset;
	size_t size = left < HEADER_GUESS ? (size_t)left : HEADER_GUESS;
	uint64_t bytes_max;

	if (offset >= leaf->chunk_end)
		return parquet_leaf_damaged(leaf, err, "The column chunk ends before all of its rows.");
	for (;;) {
		const uint8_t *bytes = NULL;
		size_t used = 0, there;

		if (parquet_window_fetch(leaf, offset, size, &bytes, err))
			return err->code;
		there = leaf->window_size - (size_t)(offset - leaf->window_offset);
		if (parquet_page_header_parse(bytes, there, header, &used, err)) {
			uint64_t inside = err->has_offset ? err->offset : 0;

			err->has_offset = 0;
			weir_error_at_source(err, weir_file_path(leaf->reader->file->base.file));
			weir_error_at_column(err, leaf->info->path);
			weir_error_at_offset(err, offset + inside);
			return err->code;
		}
		if (used) {
			*body_offset = offset + used;
			break;
		}
		if (there >= left || there >= HEADER_MAX)
			return parquet_leaf_damaged(leaf, err, "A page header has no end.");
		size = there < HEADER_MAX / 2 ? there * 2 : HEADER_MAX;
		size = size < left ? size : (size_t)left;
	}
	if ((uint64_t)header->size_compressed > leaf->chunk_end - *body_offset)
		return parquet_leaf_damaged(leaf, err, "A page of %d bytes leads out of its column chunk.",
					    (int)header->size_compressed);
	bytes_max = expanded_max(leaf->codec, (uint64_t)header->size_compressed);
	if ((uint64_t)header->size_uncompressed > bytes_max)
		return parquet_leaf_damaged(
			leaf, err, "A page of %d bytes uncompressed, made of %d: more than there can be in them.",
			(int)header->size_uncompressed, (int)header->size_compressed);
	return WEIR_OK;
}

static int page_check(struct parquet_leaf *leaf, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;

	if (leaf->values_seen >= 0 && header->value_count > leaf->chunk->value_count - leaf->values_seen)
		return parquet_leaf_damaged(leaf, err, "The pages have more values than the column chunk.");
	if (header->type != PARQUET_PAGE_DATA_V2)
		return WEIR_OK;
	if (header->definition_size > header->size_uncompressed ||
	    header->repetition_size > header->size_uncompressed - header->definition_size ||
	    header->definition_size > header->size_compressed ||
	    header->repetition_size > header->size_compressed - header->definition_size)
		return parquet_leaf_damaged(leaf, err, "The levels are longer than their page.");
	if (header->null_count > header->value_count || header->row_count > header->value_count ||
	    (leaf->info->rep_max == 0 && header->row_count != header->value_count))
		return parquet_leaf_damaged(leaf, err, "A page header contradicts itself.");
	return WEIR_OK;
}

/* The index says which rows the page has. Where its header says so too, they must agree: rows found by a wrong index
 * would be other rows. */
static int index_rows(struct parquet_leaf *leaf, struct weir_error *err)
{
	const struct parquet_offset_index *index = &leaf->index;
	uint32_t low = 0, high = index->page_count;
	int64_t begin, end;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if ((uint64_t)index->pages[middle].offset <= leaf->page.offset)
			low = middle;
		else
			high = middle;
	}
	begin = index->pages[low].first_row;
	end = low + 1 < index->page_count ? index->pages[low + 1].first_row
					  : leaf->reader->file->metadata.row_groups[leaf->reader->row_group].row_count;
	if ((uint64_t)index->pages[low].offset != leaf->page.offset ||
	    (leaf->page.row_begin >= 0 && leaf->page.row_begin != begin) ||
	    (leaf->page.row_end >= 0 && leaf->page.row_end != end))
		return parquet_leaf_damaged(leaf, err, "The offset index contradicts the pages.");
	leaf->page.row_begin = begin;
	leaf->page.row_end = end;
	return WEIR_OK;
}

int parquet_page_next(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_page_header header;
	int64_t row_begin = leaf->has_page ? leaf->page.row_end : 0;
	uint64_t offset, body = 0;

	for (;;) {
		offset = leaf->next_offset;
		if (header_at(leaf, offset, &header, &body, err))
			return err->code;
		leaf->next_offset = body + (uint64_t)header.size_compressed;
		if (header.type == PARQUET_PAGE_DATA || header.type == PARQUET_PAGE_DATA_V2)
			break;
		if (header.type == PARQUET_PAGE_DICTIONARY) {
			if (leaf->dictionary_body)
				return parquet_leaf_damaged(leaf, err, "The column chunk has two dictionaries.");
			leaf->dictionary_body = body;
			leaf->dictionary_header = header;
		}
	}
	leaf->has_page = true;
	leaf->page = (struct parquet_page){
		.header = header, .offset = offset, .body_offset = body, .row_begin = row_begin, .row_end = -1};
	leaf->taken = 0;
	if (page_check(leaf, err))
		return err->code;
	if (leaf->values_seen >= 0)
		leaf->values_seen += header.value_count;
	leaf->is_last = leaf->next_offset >= leaf->chunk_end || leaf->values_seen == leaf->chunk->value_count;
	if (row_begin >= 0 && leaf->info->rep_max == 0)
		leaf->page.row_end = row_begin + header.value_count;
	else if (row_begin >= 0 && header.type == PARQUET_PAGE_DATA_V2)
		leaf->page.row_end = row_begin + header.row_count;
	return leaf->index.page_count ? index_rows(leaf, err) : WEIR_OK;
}

/* An offset index tells where the page of a row is, without reading the headers before it. One that contradicts the
 * chunk is left alone: pages can still be walked. */
static void index_load(struct parquet_leaf *leaf)
{
	const struct parquet_chunk *chunk = leaf->chunk;
	struct parquet_reader *reader = leaf->reader;
	const struct parquet_file *file = reader->file;
	struct parquet_offset_index index;
	struct weir_error ignored = {0};
	uint8_t *bytes;

	leaf->index_tried = true;
	if (chunk->offset_index_offset <= 0 || chunk->offset_index_size <= 0 ||
	    weir_range_outside((uint64_t)chunk->offset_index_offset, (uint64_t)chunk->offset_index_size,
			       file->pages_end))
		return;
	bytes = weir_arena_alloc(&reader->arena, (size_t)chunk->offset_index_size, &ignored);
	if (!bytes ||
	    weir_file_read(file->base.file, (uint64_t)chunk->offset_index_offset, bytes,
			   (uint64_t)chunk->offset_index_size, &ignored) ||
	    parquet_offset_index_parse(bytes, (size_t)chunk->offset_index_size, &reader->arena, &index, &ignored))
		return;
	for (uint32_t i = 0; i < index.page_count; i++) {
		const struct parquet_page_location *page = &index.pages[i];

		if (page->offset < 0 || (uint64_t)page->offset < leaf->chunk_begin ||
		    (uint64_t)page->offset >= leaf->chunk_end || page->first_row < 0 ||
		    (i > 0 && (page->offset <= page[-1].offset || page->first_row < page[-1].first_row)) ||
		    (i == 0 && page->first_row != 0))
			return;
	}
	leaf->index = index;
}

int parquet_page_index_seek(struct parquet_leaf *leaf, int64_t row, struct weir_error *err)
{
	const struct parquet_offset_index *index = &leaf->index;
	uint32_t low = 0, high;

	if (!leaf->index_tried)
		index_load(leaf);
	if (index->page_count == 0)
		return WEIR_OK;
	/* The dictionary is found by walking over it. */
	if (!leaf->has_page && parquet_page_next(leaf, err))
		return err->code;
	high = index->page_count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (index->pages[middle].first_row <= row)
			low = middle;
		else
			high = middle;
	}
	if (index->pages[low].first_row <= leaf->page.row_begin)
		return WEIR_OK;
	leaf->next_offset = (uint64_t)index->pages[low].offset;
	leaf->page.row_end = index->pages[low].first_row; /* where the page that parquet_page_next finds begins */
	leaf->values_seen = -1;
	return parquet_page_next(leaf, err);
}

void parquet_leaf_rewind(struct parquet_leaf *leaf)
{
	leaf->has_page = false;
	leaf->page.bytes = NULL;
	leaf->next_offset = leaf->chunk_begin;
	leaf->dictionary_body = 0;
	leaf->values_seen = 0;
}

int parquet_page_seek(struct parquet_leaf *leaf, int64_t row, struct weir_error *err)
{
	uint32_t passed = 0;
	bool asked = false;

	/* Back: hold.c had gone further than it could keep, or than is asked for now. */
	if (leaf->has_page && row < leaf->page.row_begin)
		parquet_leaf_rewind(leaf);
	else if (leaf->has_page && leaf->page.bytes && row < leaf->page.row_begin + leaf->taken)
		leaf->page.bytes = NULL;
	while (!leaf->has_page || row >= leaf->page.row_end) {
		/* Far away, and not in the next page: ask the index. */
		if (!asked && (passed == 2 || (!leaf->has_page && row > WEIR_VECTOR_ROWS))) {
			asked = true;
			if (parquet_page_index_seek(leaf, row, err))
				return err->code;
			continue;
		}
		if (leaf->has_page && !leaf->page.bytes)
			leaf->readahead = WINDOW_MIN; /* its bytes were not wanted */
		if (parquet_page_next(leaf, err))
			return err->code;
		passed++;
	}
	return WEIR_OK;
}

static size_t varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

/* How far from a boundary the page is to begin, so that its values begin on one if there are no nulls. */
static size_t inflate_shift(const struct parquet_leaf *leaf)
{
	if (leaf->page.header.type != PARQUET_PAGE_DATA || leaf->info->def_max != 1 || leaf->info->rep_max != 0)
		return 0;
	return -(4 + varint_size((uint64_t)leaf->page.header.value_count << 1) + 1) & 15;
}

/* Writers may leave a checksum of the page as it lies in the file. It costs a twentieth of inflating it. */
static int checksum(const struct parquet_leaf *leaf, const struct parquet_page_header *header, const uint8_t *bytes,
		    struct weir_error *err)
{
	if (!header->has_crc || libdeflate_crc32(0, bytes, (size_t)header->size_compressed) == header->crc)
		return WEIR_OK;
	return parquet_leaf_damaged(leaf, err,
				    "The page's bytes are not those that were written: its checksum differs.");
}

/* A page that is not compressed, where it stays. */
static int copy_out(struct parquet_leaf *leaf, const uint8_t *in, size_t size, struct weir_error *err)
{
	leaf->page.bytes = NULL;
	if (leaf->handed && parquet_memory_retire(leaf, &leaf->inflated, true, err))
		return err->code;
	leaf->handed = false;
	if (parquet_memory_reserve(leaf->reader->account, &leaf->inflated, size, err))
		return err->code;
	memcpy(leaf->inflated.data, in, size);
	memset(leaf->inflated.data + size, 0, PARQUET_PAD);
	leaf->page.bytes = leaf->inflated.data;
	return WEIR_OK;
}

static int inflate(struct parquet_leaf *leaf, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;
	struct parquet_reader *reader = leaf->reader;
	size_t size = (size_t)header->size_uncompressed, size_in = (size_t)header->size_compressed, raw = 0, shift;
	const uint8_t *in = NULL;
	bool is_compressed = leaf->codec != WEIR_CODEC_NONE;

	if (leaf->readahead < reader->window_bytes_max)
		leaf->readahead *= 4;
	if (leaf->readahead > reader->window_bytes_max)
		leaf->readahead = reader->window_bytes_max;
	if (parquet_window_fetch(leaf, leaf->page.body_offset, size_in, &in, err) || checksum(leaf, header, in, err))
		return err->code;
	if (header->type == PARQUET_PAGE_DATA_V2) {
		raw = (size_t)header->definition_size + (size_t)header->repetition_size; /* levels are not compressed */
		is_compressed &= header->is_compressed;
	}
	if (!is_compressed) {
		if (size != size_in)
			return parquet_leaf_damaged(
				leaf, err, "An uncompressed page with two different sizes (%zu, %zu).", size, size_in);
		leaf->page.bytes = in;
		/* The run goes on without it. */
		return leaf->window_run && !reader->is_one_vector ? copy_out(leaf, in, size, err) : WEIR_OK;
	}
	shift = inflate_shift(leaf);
	if (raw)
		shift = -raw & 15;
	if (leaf->handed && parquet_memory_retire(leaf, &leaf->inflated, true, err))
		return err->code;
	leaf->handed = false;
	if (parquet_memory_reserve(reader->account, &leaf->inflated, size + shift, err))
		goto fail;
	memcpy(leaf->inflated.data + shift, in, raw);
	if (size > raw && weir_codec_decompress(reader->codecs, leaf->codec, in + raw, size_in - raw,
						leaf->inflated.data + shift + raw, size - raw, err))
		goto fail;
	memset(leaf->inflated.data + shift + size, 0, PARQUET_PAD);
	leaf->page.bytes = leaf->inflated.data + shift;
	reader->stats.bytes_decompressed += size;
	/* A window that a large page made large is not kept beside it. */
	if (leaf->window.capacity > 2 * reader->window_bytes_max + 8192 && !leaf->handed_window) {
		parquet_memory_release(reader->account, &leaf->window);
		leaf->window_size = 0;
		leaf->window_run = 0;
	}
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(reader->file->base.file));
	weir_error_at_column(err, leaf->info->path);
	weir_error_at_offset(err, leaf->page.body_offset);
	return err->code;
}

static uint32_t bits_for(uint32_t max)
{
	return max ? 32 - (uint32_t)__builtin_clz(max) : 0;
}

/* Levels of a v1 page: a length and runs, or for old writers bare bits. Moves *at past them. */
static int levels_v1(struct parquet_leaf *leaf, uint8_t encoding, uint16_t max, const uint8_t **at, const uint8_t *end,
		     struct parquet_rle *out, struct weir_error *err)
{
	uint32_t width = bits_for(max);
	uint64_t size;

	if (max == 0)
		return WEIR_OK;
	if (encoding == PARQUET_RLE) {
		uint32_t length;

		if (end - *at < 4)
			return parquet_leaf_damaged(leaf, err, "The page ends inside its levels.");
		memcpy(&length, *at, 4);
		*at += 4;
		size = length;
	} else if (encoding == PARQUET_BIT_PACKED) {
		size = ((uint64_t)leaf->page.header.value_count * width + 7) / 8;
	} else {
		return parquet_leaf_damaged(leaf, err, "Levels in an unknown encoding (%d).", encoding);
	}
	if (size > (uint64_t)(end - *at))
		return parquet_leaf_damaged(leaf, err, "The levels (%llu bytes) are longer than their page.",
					    (unsigned long long)size);
	if (encoding == PARQUET_RLE)
		parquet_rle_init(out, *at, *at + size, width);
	else
		parquet_rle_init_bit_packed(out, *at, *at + size, width);
	*at += size;
	return WEIR_OK;
}

int parquet_page_levels(struct parquet_leaf *leaf, const uint8_t *bytes, size_t size, size_t *used,
			struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->page.header;
	const struct parquet_leaf_info *info = leaf->info;
	const uint8_t *at = bytes, *end = bytes + size;

	if (header->type == PARQUET_PAGE_DATA_V2) {
		WEIR_ASSERT((uint64_t)header->repetition_size + (uint64_t)header->definition_size <= size);
		parquet_rle_init(&leaf->repetition, at, at + header->repetition_size, bits_for(info->rep_max));
		at += header->repetition_size;
		parquet_rle_init(&leaf->definition, at, at + header->definition_size, bits_for(info->def_max));
		at += header->definition_size;
	} else if (levels_v1(leaf, header->repetition_encoding, info->rep_max, &at, end, &leaf->repetition, err) ||
		   levels_v1(leaf, header->definition_encoding, info->def_max, &at, end, &leaf->definition, err)) {
		return err->code;
	}
	*used = (size_t)(at - bytes);
	return WEIR_OK;
}

int parquet_page_restart(struct parquet_leaf *leaf, struct weir_error *err)
{
	size_t size = (size_t)leaf->page.header.size_uncompressed, used = 0;

	leaf->taken = 0;
	if (parquet_page_levels(leaf, leaf->page.bytes, size, &used, err))
		goto fail;
	leaf->page.values = leaf->page.bytes + used;
	leaf->page.values_end = leaf->page.bytes + size;
	if (parquet_values_open(leaf, err))
		goto fail;
	return WEIR_OK;
fail:
	leaf->page.bytes = NULL; /* so that nobody goes on with half of it */
	return err->code;
}

int parquet_page_load(struct parquet_leaf *leaf, struct weir_error *err)
{
	if (leaf->page.bytes)
		return WEIR_OK;
	if (inflate(leaf, err) || parquet_page_restart(leaf, err))
		return err->code;
	leaf->reader->stats.pages_decoded++;
	return WEIR_OK;
}

void parquet_page_drop(struct parquet_leaf *leaf)
{
	WEIR_ASSERT(!leaf->handed && !leaf->handed_window);
	leaf->page.bytes = NULL;
	leaf->window_size = 0;
	leaf->window_run = 0;
	parquet_memory_release(leaf->reader->account, &leaf->inflated);
	parquet_memory_release(leaf->reader->account, &leaf->window);
}

/* ── the dictionary ── */

void parquet_dictionary_free(struct weir_account *account, struct parquet_dictionary *dictionary)
{
	if (!dictionary)
		return;
	parquet_memory_release(account, &dictionary->bytes);
	parquet_memory_release(account, &dictionary->items);
	weir_free(account, dictionary, sizeof(*dictionary));
}

static int dictionary_inflate(struct parquet_leaf *leaf, struct parquet_dictionary *dictionary, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->dictionary_header;
	struct parquet_reader *reader = leaf->reader;
	size_t size = (size_t)header->size_uncompressed, size_in = (size_t)header->size_compressed;
	uint8_t *read = NULL;
	const uint8_t *in;
	int code;

	/* It is often still in the window; if not, the window stays for the pages. */
	parquet_window_check(leaf);
	if (leaf->window_size && leaf->dictionary_body >= leaf->window_offset &&
	    !weir_range_outside(leaf->dictionary_body - leaf->window_offset, size_in, leaf->window_size)) {
		in = leaf->window_at + (leaf->dictionary_body - leaf->window_offset);
	} else {
		read = weir_alloc(reader->account, size_in + 1, err);
		if (!read)
			return err->code;
		code = weir_file_read(reader->file->base.file, leaf->dictionary_body, read, size_in, err);
		if (code)
			goto done;
		reader->stats.bytes_read += size_in;
		in = read;
	}
	code = checksum(leaf, header, in, err);
	if (!code)
		code = parquet_memory_reserve(reader->account, &dictionary->bytes, size, err);
	if (code)
		goto done;
	if (leaf->codec == WEIR_CODEC_NONE) {
		if (size != size_in) {
			code = parquet_leaf_damaged(
				leaf, err, "An uncompressed page with two different sizes (%zu, %zu).", size, size_in);
			goto done;
		}
		memcpy(dictionary->bytes.data, in, size);
	} else if (size > 0) {
		code = weir_codec_decompress(reader->codecs, leaf->codec, in, size_in, dictionary->bytes.data, size,
					     err);
		reader->stats.bytes_decompressed += size;
	}
	memset(dictionary->bytes.data + size, 0, PARQUET_PAD);
done:
	weir_free(reader->account, read, size_in + 1);
	return code;
}

static int dictionary_items(struct parquet_leaf *leaf, struct parquet_dictionary *dictionary, struct weir_error *err)
{
	const struct parquet_page_header *header = &leaf->dictionary_header;
	const struct parquet_leaf_info *info = leaf->info;
	struct parquet_reader *reader = leaf->reader;
	uint32_t count = (uint32_t)header->value_count;
	const uint8_t *at = dictionary->bytes.data, *end = at + header->size_uncompressed;
	bool is_kept = info->convert == PARQUET_KEEP;
	struct parquet_memory packed = {0}, *views = is_kept ? &dictionary->items : &packed;
	const void *items = at;
	size_t size;
	int code = WEIR_OK;

	if (info->element->physical == PARQUET_BYTE_ARRAY) {
		/* Each takes the four bytes of its length. */
		if (count > (size_t)header->size_uncompressed / 4)
			return parquet_leaf_damaged(leaf, err, "The dictionary says it has %u values.", count);
		if (parquet_memory_reserve(reader->account, views, (size_t)count * sizeof(struct weir_view), err))
			return err->code;
		if (!reader->kernels->views(at, end, count, (struct weir_view *)views->data)) {
			code = parquet_leaf_damaged(leaf, err, "A text in the dictionary is longer than its page.");
			goto done;
		}
		if (info->is_text && !reader->kernels->is_ascii(at, (size_t)(end - at))) {
			code = parquet_views_check(leaf, (struct weir_view *)views->data, count, WEIR_NO_ROW, err);
			if (code)
				goto done;
		}
		items = views->data;
	} else if (info->element->physical == PARQUET_BOOLEAN || info->width == 0 ||
		   (size_t)count > (size_t)header->size_uncompressed / info->width) {
		return parquet_leaf_damaged(leaf, err, "The dictionary says it has %u values.", count);
	}
	if (!is_kept) {
		size = (size_t)count * info->width_arrow;
		code = parquet_memory_reserve(reader->account, &dictionary->items, size, err);
		if (code)
			goto done;
		code = parquet_convert(info, items, count, dictionary->items.data, err);
		if (code) {
			weir_error_at_source(err, weir_file_path(reader->file->base.file));
			weir_error_at_column(err, info->path);
			weir_error_at_offset(err, leaf->dictionary_body);
			goto done;
		}
		items = dictionary->items.data;
	}
	dictionary->values = (struct weir_dictionary){.id = weir_dictionary_id_new(), .count = count, .values = items};
done:
	parquet_memory_release(reader->account, &packed);
	return code;
}

int parquet_dictionary_load(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct weir_account *account = leaf->reader->account;
	struct parquet_dictionary *dictionary;

	if (leaf->dictionary)
		return WEIR_OK;
	if (!leaf->dictionary_body)
		return parquet_leaf_damaged(leaf, err, "A page of codes, but the column chunk has no dictionary.");
	if (leaf->dictionary_header.encoding != PARQUET_PLAIN &&
	    leaf->dictionary_header.encoding != PARQUET_PLAIN_DICTIONARY)
		return parquet_leaf_damaged(leaf, err, "A dictionary in an unknown encoding (%d).",
					    leaf->dictionary_header.encoding);
	dictionary = leaf->dictionary_spare;
	leaf->dictionary_spare = NULL;
	if (!dictionary) {
		dictionary = weir_alloc_zero(account, sizeof(*dictionary), err);
		if (!dictionary)
			return err->code;
	}
	if (dictionary_inflate(leaf, dictionary, err) || dictionary_items(leaf, dictionary, err)) {
		parquet_dictionary_free(account, dictionary);
		weir_error_at_source(err, weir_file_path(leaf->reader->file->base.file));
		weir_error_at_column(err, leaf->info->path);
		return err->code;
	}
	leaf->dictionary = dictionary;
	return WEIR_OK;
}
