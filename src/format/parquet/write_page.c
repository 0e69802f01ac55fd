/* Closing a page: levels and values become one piece of bytes, which is compressed and appended to the leaf's stream of
 * finished bytes, and what the indexes must know of it is noted.
 *
 *     v1   header │ compressed: length, repetition levels, length, definition levels, values
 *     v2   header │ repetition levels, definition levels │ compressed: values
 *
 * Whether a chunk is compressed is decided by its first page: when the codec saves less than COMPRESS_GAIN_MIN there,
 * the chunk is stored as it is, which readers then need not inflate either (docs/decisions/0012-parquet-writing.md).
 */
#include "format/parquet/write_impl.h"

#include <string.h>

enum {
	SEGMENT_MIN = 4 << 10,
	SEGMENT_MAX = 512 << 10,
	SLACK_PAGES = 4,                  /* a buffer that holds more than so many pages and */
	BUFFER_KEPT = 256 << 10,          /* this is given back */
	COMPRESS_GAIN_MIN = 3,            /* percent */
	COMPRESS_SMALL_MAX = 4 << 10,     /* up to here the codec that was asked for is kept, whatever it saves */
	DICTIONARY_STORED_MAX = 64 << 10, /* a larger dictionary page is worth a try of its own */
};

/* One row may make a page far larger than the others: its memory is not kept. */
static void trim(struct parquet_buffer *buffer, const struct parquet_shared *shared, struct weir_account *account)
{
	if (buffer->capacity > SLACK_PAGES * shared->page_bytes_max + BUFFER_KEPT)
		parquet_buffer_release(buffer, account);
}

void parquet_page_begin(struct parquet_leaf_writer *leaf)
{
	struct parquet_shared *shared = leaf->shared;
	struct parquet_buffer *const buffers[] = {
		&leaf->data,      &leaf->definition, &leaf->repetition,      &leaf->lengths,
		&shared->scratch, &shared->page,     &shared->scratch_values};

	leaf->page_rows = leaf->page_levels = leaf->page_values = 0;
	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
		trim(buffers[i], shared, &shared->account);
	leaf->definition.size = leaf->repetition.size = 0;
	leaf->data.size = leaf->data.data ? leaf->headroom : 0;
	leaf->lengths.size = 0;
	parquet_running_init(&leaf->running, leaf->leaf);
}

int parquet_page_data(struct parquet_leaf_writer *leaf, struct weir_error *err)
{
	int code;

	if (leaf->data.data)
		return WEIR_OK;
	code = parquet_buffer_reserve(&leaf->data, leaf->headroom, &leaf->shared->account, err);
	leaf->data.size = code ? 0 : leaf->headroom;
	return code;
}

static int segment_append(struct parquet_leaf_writer *leaf, const void *bytes, size_t size, struct weir_error *err)
{
	const uint8_t *from = bytes;

	leaf->bytes_finished += size;
	leaf->shared->bytes_finished += size;
	while (size > 0) {
		struct parquet_segment *last = leaf->last;
		size_t n;

		if (!last || last->size == last->capacity) {
			/* As large as all before it: few pieces, and little is lost at the end of small columns. */
			size_t wanted = leaf->bytes_finished > SEGMENT_MAX   ? SEGMENT_MAX
					: leaf->bytes_finished < SEGMENT_MIN ? SEGMENT_MIN
									     : leaf->bytes_finished;
			size_t whole = weir_alloc_size(wanted + sizeof(*last));

			last = weir_alloc(&leaf->shared->account, whole, err);
			if (!last)
				return err->code;
			*last = (struct parquet_segment){.capacity = (uint32_t)(whole - sizeof(*last))};
			if (leaf->last)
				leaf->last->next = last;
			else
				leaf->first = last;
			leaf->last = last;
		}
		n = last->capacity - last->size < size ? last->capacity - last->size : size;
		memcpy(last->bytes + last->size, from, n);
		last->size += (uint32_t)n;
		from += n;
		size -= n;
	}
	return WEIR_OK;
}

/* Bounds of a coded page: of the values whose codes it has. */
static int coded_range(struct parquet_leaf_writer *leaf, const uint32_t *codes, struct parquet_range *out,
		       struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	const struct parquet_dictionary *dictionary = &leaf->dictionary;
	const struct parquet_leaf *schema = leaf->leaf;
	struct parquet_running running;
	uint8_t *used;
	int code;

	parquet_running_init(&running, schema);
	shared->scratch_values.size = 0;
	code = parquet_buffer_reserve(&shared->scratch_values, dictionary->count, &shared->account, err);
	if (code)
		return code;
	used = shared->scratch_values.data;
	memset(used, 0, dictionary->count);
	shared->kernels->mark_codes(codes, leaf->page_values, used);
	for (uint32_t i = 0; i < dictionary->count; i++)
		if (used[i])
			parquet_running_add(&running, schema, shared->kernels, dictionary->body.data,
					    schema->plain_width ? (size_t)i * schema->plain_width
								: dictionary->entries[i].offset,
					    NULL, 1);
	parquet_running_end(&running, schema, dictionary->body.data, leaf->page_values, out);
	return WEIR_OK;
}

static int note_page(struct parquet_leaf_writer *leaf, const struct parquet_range *range, uint64_t size_compressed,
		     struct weir_error *err)
{
	struct weir_account *account = &leaf->shared->account;
	struct parquet_page_info info = {
		.size_compressed = (uint32_t)size_compressed,
		.row_count = (uint32_t)leaf->page_rows,
		.null_count = leaf->page_levels - leaf->page_values,
		.all_null = leaf->page_values == 0,
		.bounds_at = (uint32_t)leaf->bounds.size,
	};
	int code;

	leaf->nulls_total += info.null_count;
	leaf->levels_total += leaf->page_levels;
	parquet_range_merge(&leaf->range, range, leaf->leaf);
	if (range->state == PARQUET_RANGE_UNKNOWN)
		leaf->unbounded = true;
	if (!leaf->shared->options.page_index)
		return WEIR_OK;
	if (range->state == PARQUET_RANGE_KNOWN) {
		info.min_size = range->min_size;
		info.max_size = range->max_size;
		code = parquet_buffer_reserve(&leaf->bounds, (size_t)info.min_size + info.max_size, account, err);
		if (code)
			return code;
		memcpy(leaf->bounds.data + leaf->bounds.size, range->min, info.min_size);
		memcpy(leaf->bounds.data + leaf->bounds.size + info.min_size, range->max, info.max_size);
		leaf->bounds.size += (size_t)info.min_size + info.max_size;
	}
	return weir_list_push(&leaf->pages, account, err, info);
}

/* Levels behind what is in `out`; with their length in front of each when `prefixed` (v1). */
static int encode_levels(struct parquet_leaf_writer *leaf, bool prefixed, struct parquet_buffer *out,
			 uint32_t *rep_size, uint32_t *def_size, struct weir_error *err)
{
	const struct parquet_encode_kernels *kernels = leaf->shared->kernels;
	size_t count = leaf->page_levels;
	bool flat = parquet_leaf_is_flat(leaf->leaf);
	size_t prefix = prefixed ? 4 : 0;

	*rep_size = *def_size = 0;
	for (int which = 0; which < 2; which++) {
		unsigned width = parquet_bit_width(which ? leaf->leaf->max_definition : leaf->leaf->max_repetition);
		struct parquet_buffer *levels = which ? &leaf->definition : &leaf->repetition;
		uint8_t *at;
		uint32_t size;
		int code;

		if (width == 0)
			continue;
		code = parquet_buffer_reserve(out, prefix + parquet_hybrid_bound(count, width), &leaf->shared->account,
					      err);
		if (code)
			return code;
		at = out->data + out->size + prefix;
		if (!flat) {
			size = (uint32_t)kernels->hybrid_u8(levels->data, count, width, at);
		} else if (leaf->page_values == count || leaf->page_values == 0) {
			/* One run of ones, or of zeros. */
			uint64_t header = (uint64_t)count << 1;

			size = 0;
			for (; header >= 0x80; header >>= 7)
				at[size++] = (uint8_t)(header | 0x80);
			at[size++] = (uint8_t)header;
			at[size++] = leaf->page_values != 0;
		} else {
			size = (uint32_t)kernels->hybrid_bits(levels->data, count, at);
		}
		if (prefixed)
			memcpy(at - 4, &size, 4);
		*(which ? def_size : rep_size) = size;
		out->size += prefix + size;
	}
	return WEIR_OK;
}

/* Compresses `size` bytes into shared->scratch behind what is there, or appends them as they are. */
static int compress_body(struct parquet_leaf_writer *leaf, const uint8_t *body, size_t size, bool is_first,
			 const uint8_t **out, size_t *out_size, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	size_t bound;
	int code;

	if (size > INT32_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a page of %zu bytes is more than Parquet allows", size);
	*out = body;
	*out_size = size;
	if (leaf->codec == WEIR_CODEC_NONE)
		return WEIR_OK;
	bound = weir_codec_bound(leaf->codec, size);
	shared->scratch.size = 0;
	code = parquet_buffer_reserve(&shared->scratch, bound, &shared->account, err);
	if (code)
		return code;
	code = weir_codec_compress(shared->codecs, leaf->codec, shared->options.codec_level, body, size,
				   shared->scratch.data, shared->scratch.capacity, out_size, err);
	if (code)
		return code;
	if (is_first && size > COMPRESS_SMALL_MAX && *out_size > size - size / 100 * COMPRESS_GAIN_MIN &&
	    leaf->dictionary.body.size <= DICTIONARY_STORED_MAX) {
		leaf->codec = WEIR_CODEC_NONE;
		*out_size = size;
		return WEIR_OK;
	}
	*out = shared->scratch.data;
	return WEIR_OK;
}

/* Codes of the open page behind what is in `out`. */
static int encode_codes(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	const uint32_t *codes = (const uint32_t *)(leaf->data.data + leaf->headroom);
	unsigned width = parquet_bit_width(leaf->dictionary.count - 1);
	int code = parquet_buffer_reserve(out, 1 + parquet_hybrid_bound(leaf->page_values, 32), &leaf->shared->account,
					  err);

	if (code)
		return code;
	width = width ? width : 1;
	out->data[out->size++] = (uint8_t)width;
	out->size += leaf->shared->kernels->hybrid_u32(codes, leaf->page_values, width, out->data + out->size);
	return WEIR_OK;
}

/* Levels and values as one piece, before compression, until the next call. */
struct body {
	const uint8_t *bytes;
	size_t size, levels_size;
	uint32_t rep_size, def_size;
};

static int page_body(struct parquet_leaf_writer *leaf, bool coded, bool v2, struct body *out, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	struct parquet_buffer *page = &shared->page;
	size_t values_size = leaf->data.size - leaf->headroom;
	bool whole; /* nothing of `data` is to follow */
	int code;

	page->size = 0;
	code = encode_levels(leaf, !v2, page, &out->rep_size, &out->def_size, err);
	if (code)
		return code;
	out->levels_size = page->size;
	if (coded) {
		code = encode_codes(leaf, page, err);
		whole = true;
	} else {
		code = parquet_encoding_values(leaf, page, &whole, err);
	}
	if (code)
		return code;
	if (whole) {
		out->bytes = page->data;
		out->size = page->size;
		return WEIR_OK;
	}
	out->size = page->size + values_size;
	if (page->size <= leaf->headroom) {
		uint8_t *begin = leaf->data.data + leaf->headroom - page->size;

		memcpy(begin, page->data, page->size);
		out->bytes = begin;
		return WEIR_OK;
	}
	code = parquet_buffer_reserve(page, values_size, &shared->account, err);
	if (code)
		return code;
	memcpy(page->data + page->size, leaf->data.data + leaf->headroom, values_size);
	out->bytes = page->data;
	return WEIR_OK;
}

static int page_range(struct parquet_leaf_writer *leaf, bool coded, struct parquet_range *out, struct weir_error *err)
{
	*out = (struct parquet_range){.state = leaf->page_values ? PARQUET_RANGE_UNKNOWN : PARQUET_RANGE_EMPTY};
	if (!leaf->shared->options.statistics)
		return WEIR_OK;
	if (coded)
		return coded_range(leaf, (const uint32_t *)(leaf->data.data + leaf->headroom), out, err);
	parquet_running_end(&leaf->running, leaf->leaf, leaf->data.data, leaf->page_values, out);
	return WEIR_OK;
}

int parquet_page_end(struct parquet_leaf_writer *leaf, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	struct parquet_page_header header = {0};
	struct parquet_range range;
	bool v2 = shared->options.data_page_v2, coded = leaf->coded && leaf->page_values > 0;
	size_t skip, stored_size = 0;
	const uint8_t *stored = NULL;
	struct body body;
	int code;

	if (leaf->page_levels == 0)
		return WEIR_OK;
	code = parquet_page_data(leaf, err);
	if (!code)
		code = page_range(leaf, coded, &range, err);
	if (!code)
		code = page_body(leaf, coded, v2, &body, err);
	if (code)
		return code;
	skip = v2 ? body.levels_size : 0; /* v2 leaves levels uncompressed */
	code = compress_body(leaf, body.bytes + skip, body.size - skip, !leaf->codec_chosen && leaf->page_values > 0,
			     &stored, &stored_size, err);
	if (code)
		return code;
	/* Pages of one chunk are all compressed or none: after a first page of nothing but nulls, which decides
	 * nothing, it is too late to store the others as they are. */
	leaf->codec_chosen = true;

	header.type = v2 ? PARQUET_PAGE_DATA_V2 : PARQUET_PAGE_DATA;
	header.size_uncompressed = (int32_t)body.size;
	header.size_compressed = (int32_t)(stored_size + skip);
	header.value_count = (int32_t)leaf->page_levels;
	header.encoding = coded ? PARQUET_RLE_DICTIONARY : leaf->plain_encoding;
	header.definition_encoding = header.repetition_encoding = PARQUET_RLE;
	header.null_count = (int32_t)(leaf->page_levels - leaf->page_values);
	header.row_count = (int32_t)leaf->page_rows;
	header.definition_size = (int32_t)body.def_size;
	header.repetition_size = (int32_t)body.rep_size;
	header.is_compressed = leaf->codec != WEIR_CODEC_NONE;
	weir_text_clear(&shared->header);
	code = parquet_page_header_write(&header, &shared->header, err);
	if (!code)
		code = segment_append(leaf, shared->header.data, shared->header.size, err);
	if (!code)
		code = segment_append(leaf, body.bytes, skip, err);
	if (!code)
		code = segment_append(leaf, stored, stored_size, err);
	if (!code)
		code = note_page(leaf, &range, shared->header.size + (uint64_t)header.size_compressed, err);
	if (code)
		return code;
	leaf->bytes_uncompressed += shared->header.size + (uint64_t)header.size_uncompressed;
	leaf->values_total += leaf->page_values;
	leaf->encodings |= 1u << header.encoding;
	if (coded)
		leaf->pages_coded++;
	else
		leaf->pages_plain++;
	parquet_page_begin(leaf);
	return WEIR_OK;
}

int parquet_leaf_dictionary_page(struct parquet_leaf_writer *leaf, const uint8_t **out, size_t *out_size,
				 struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	const struct parquet_dictionary *dictionary = &leaf->dictionary;
	struct parquet_page_header header = {
		.type = PARQUET_PAGE_DICTIONARY,
		.size_uncompressed = (int32_t)dictionary->body.size,
		.value_count = (int32_t)dictionary->count,
		.encoding = PARQUET_PLAIN,
	};
	int code = compress_body(leaf, dictionary->body.data, dictionary->body.size, false, out, out_size, err);

	if (code)
		return code;
	header.size_compressed = (int32_t)*out_size;
	weir_text_clear(&shared->header);
	return parquet_page_header_write(&header, &shared->header, err);
}
