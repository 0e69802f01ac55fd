/* What need not be read: row groups and pages that statistics, page index or bloom filters prove to hold no row for
 * which the predicate is true.
 *
 *     row group    min, max, nulls of each column chunk              → may the predicate be true anywhere in it?
 *                  bloom filter: is one of the values x == v, x in (…) asks for among them?
 *     page         column index: min, max, nulls of each page        → the same for each run of rows in which no column
 *                  offset index: which rows a page has                 changes its page
 *
 * What is not a bound is not used: deprecated statistics where signed bytes are not the type's order, NaN, INT96 and
 * intervals, nested columns, any index that contradicts itself. Pruning reads metadata only; an index that cannot be
 * read proves nothing, and what is wrong with the file shows when its pages are read.
 */
#define XXH_INLINE_ALL
#include "base/checked.h"
#include "expr/scalar.h"
#include "format/parquet/read_impl.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { BLOOM_HEADER_MAX = 256, BLOOM_BLOCK = 32, INDEX_MAX = 16 << 20 };

/* ── bounds ── */

static bool is_ordered(const struct parquet_file *file, const struct parquet_leaf_info *info, bool deprecated)
{
	enum parquet_physical physical = (enum parquet_physical)info->element->physical;

	if (physical == PARQUET_INT96 || info->convert == PARQUET_FROM_INTERVAL || info->convert == PARQUET_ALL_NULL)
		return false;
	if (!deprecated)
		return file->metadata.has_column_orders;
	/* Ordered by signed bytes, whatever the type: right for these alone. */
	return (physical == PARQUET_INT32 || physical == PARQUET_INT64 || physical == PARQUET_FLOAT ||
		physical == PARQUET_DOUBLE || physical == PARQUET_BOOLEAN) &&
	       (!weir_type_is_integer(info->type) || weir_type_is_signed(info->type));
}

static double half_to_double(uint16_t half)
{
	int exponent = half >> 10 & 0x1f;
	double fraction = half & 0x3ff, value;

	if (exponent == 0x1f)
		value = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexp(fraction, -24);
	else
		value = ldexp(fraction + 1024, exponent - 25);
	return half & 0x8000 ? -value : value;
}

/* An Arrow value in memory as a scalar. */
static bool scalar_set(const struct weir_type *type, const uint8_t *value, struct weir_scalar *out)
{
	uint16_t half;
	float single;

	switch (type->id) {
	case WEIR_INT8:
		out->integer = *(const int8_t *)value;
		return true;
	case WEIR_UINT8:
		out->integer = *value;
		return true;
	case WEIR_INT16: {
		int16_t small;

		memcpy(&small, value, 2);
		out->integer = small;
		return true;
	}
	case WEIR_UINT16:
		memcpy(&half, value, 2);
		out->integer = half;
		return true;
	case WEIR_UINT32: {
		uint32_t small;

		memcpy(&small, value, 4);
		out->integer = small;
		return true;
	}
	case WEIR_INT32:
	case WEIR_DATE32:
	case WEIR_TIME32: {
		int32_t small;

		memcpy(&small, value, 4);
		out->integer = small;
		return true;
	}
	case WEIR_UINT64:
		memcpy(&out->unsigned_, value, 8);
		return true;
	case WEIR_INT64:
	case WEIR_DATE64:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		memcpy(&out->integer, value, 8);
		return true;
	case WEIR_HALF:
		memcpy(&half, value, 2);
		out->real = half_to_double(half);
		return !isnan(out->real);
	case WEIR_FLOAT:
		memcpy(&single, value, 4);
		out->real = single;
		return !isnan(out->real);
	case WEIR_DOUBLE:
		memcpy(&out->real, value, 8);
		return !isnan(out->real);
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		memset(out->decimal, value[type->byte_width - 1] & 0x80 ? 0xff : 0, sizeof(out->decimal));
		memcpy(out->decimal, value, type->byte_width);
		return true;
	default:
		return false;
	}
}

/* A bound as the file has it, plainly encoded, as a scalar. False when there is none to be had from it. */
static bool bound_set(const struct parquet_leaf_info *info, struct parquet_bytes bytes, struct weir_scalar *out)
{
	struct weir_error ignored = {0};
	struct weir_view view;
	uint8_t value[32], padded[32 + 8] = {0};

	*out = (struct weir_scalar){.type = info->type};
	if (!bytes.data)
		return false;
	if (info->type->layout == WEIR_LAYOUT_BITS) {
		out->boolean = bytes.size == 1 && bytes.data[0];
		return bytes.size == 1;
	}
	if (info->type->layout == WEIR_LAYOUT_BYTES || info->type->id == WEIR_FIXED_BINARY) {
		out->bytes = weir_view_make(bytes.data, bytes.size);
		return true;
	}
	if (info->width_arrow > sizeof(value))
		return false;
	if (info->element->physical == PARQUET_BYTE_ARRAY) { /* decimals */
		view = weir_view_make(bytes.data, bytes.size);
		return bytes.size > 0 && !parquet_convert(info, &view, 1, value, &ignored) &&
		       scalar_set(info->type, value, out);
	}
	if (bytes.size != info->width)
		return false;
	if (bytes.size > sizeof(value))
		return false;
	/* Conversion may load past the value. */
	memcpy(padded, bytes.data, bytes.size);
	if (info->convert == PARQUET_KEEP)
		memcpy(value, bytes.data, bytes.size);
	else if (parquet_convert(info, padded, 1, value, &ignored))
		return false;
	return scalar_set(info->type, value, out);
}

static void bounds_set(const struct parquet_leaf_info *info, struct parquet_bytes min, struct parquet_bytes max,
		       struct weir_bounds *out)
{
	out->has_min = bound_set(info, min, &out->min);
	out->has_max = bound_set(info, max, &out->max);
	/* One side is NaN: the other is not to be trusted. */
	if (weir_type_is_float(info->type) && min.data && max.data && (!out->has_min || !out->has_max))
		out->has_min = out->has_max = false;
}

/* The flat leaf behind a column of the scan, or NULL. */
static const struct parquet_leaf_info *leaf_of(const struct parquet_file *file, const struct weir_scan *scan,
					       uint32_t column, uint32_t *leaf)
{
	const struct parquet_shape *shape = file->columns[scan->columns[column]];

	if (shape->kind != PARQUET_SHAPE_LEAF)
		return NULL;
	*leaf = shape->leaf_begin;
	return &file->leaves[*leaf];
}

static void chunk_bounds(const struct parquet_file *file, const struct weir_scan *scan, uint32_t row_group,
			 uint32_t column, struct weir_bounds *out)
{
	const struct parquet_row_group *group = &file->metadata.row_groups[row_group];
	const struct parquet_statistics *statistics;
	const struct parquet_leaf_info *info;
	uint32_t leaf = 0;

	*out = (struct weir_bounds){.row_count = group->row_count};
	info = leaf_of(file, scan, column, &leaf);
	if (!info || group->chunks[leaf].is_encrypted)
		return;
	statistics = &group->chunks[leaf].statistics;
	out->has_null_count = statistics->null_count >= 0 && statistics->null_count <= group->row_count;
	out->null_count = statistics->null_count;
	if (info->convert == PARQUET_ALL_NULL) {
		out->has_null_count = true;
		out->null_count = group->row_count;
	}
	if (is_ordered(file, info, statistics->deprecated))
		bounds_set(info, statistics->min, statistics->max, out);
}

void parquet_column_bounds(struct weir_format_file *base, uint32_t column, struct weir_bounds *out)
{
	const struct parquet_file *file = (const struct parquet_file *)base;
	const struct weir_scan scan = {.columns = &column, .column_count = 1};
	bool has_values = false;
	uint32_t leaf = 0;

	*out = (struct weir_bounds){.has_null_count = true, .has_min = true, .has_max = true};
	if (!leaf_of(file, &scan, 0, &leaf)) {
		*out = (struct weir_bounds){.row_count = base->row_count};
		return;
	}
	for (uint32_t i = 0; i < file->metadata.row_group_count; i++) {
		const struct parquet_statistics *statistics = &file->metadata.row_groups[i].chunks[leaf].statistics;
		struct weir_bounds chunk;

		chunk_bounds(file, &scan, i, 0, &chunk);
		out->row_count += chunk.row_count;
		out->null_count += chunk.null_count;
		out->has_null_count &= chunk.has_null_count;
		if (chunk.has_null_count && chunk.null_count == chunk.row_count)
			continue; /* without a value there is no bound to know */
		out->has_min &= chunk.has_min && !statistics->min_inexact;
		out->has_max &= chunk.has_max && !statistics->max_inexact;
		if (out->has_min && (!has_values || weir_scalar_compare(&chunk.min, &out->min) < 0))
			out->min = chunk.min;
		if (out->has_max && (!has_values || weir_scalar_compare(&chunk.max, &out->max) > 0))
			out->max = chunk.max;
		has_values = true;
	}
	out->has_min &= has_values;
	out->has_max &= has_values;
}

/* ── bloom filters ── */

/* The bytes that the filter was fed with for a value of this kind; 0: not known. */
static uint32_t bloom_key(const struct parquet_leaf_info *info, const struct weir_scalar *value, uint8_t *key,
			  const uint8_t **out)
{
	int32_t small;
	float single;

	*out = key;
	if (value->is_null || value->type->id != info->type->id ||
	    (info->convert != PARQUET_KEEP && info->convert != PARQUET_NARROW))
		return 0;
	switch ((enum parquet_physical)info->element->physical) {
	case PARQUET_INT32:
		small = (int32_t)value->integer;
		memcpy(key, &small, 4);
		return 4;
	case PARQUET_INT64:
		memcpy(key, &value->integer, 8);
		return 8;
	case PARQUET_FLOAT:
		single = (float)value->real;
		memcpy(key, &single, 4);
		return value->real == 0 ? 0 : 4; /* zero has two forms */
	case PARQUET_DOUBLE:
		memcpy(key, &value->real, 8);
		return value->real == 0 ? 0 : 8;
	case PARQUET_BYTE_ARRAY:
		*out = weir_view_bytes(&value->bytes);
		return value->bytes.size;
	default:
		return 0;
	}
}

/* Is the value in the filter? True also when nobody can tell. */
static bool bloom_may_have(const struct parquet_file *file, const struct parquet_chunk *chunk,
			   const struct parquet_bloom_header *header, uint64_t bits_offset, const void *key,
			   uint32_t size)
{
	static const uint32_t salt[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
					 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
	uint64_t hash = XXH64(key, size, 0), blocks = (uint64_t)header->size_bytes / BLOOM_BLOCK;
	uint64_t block = (hash >> 32) * blocks >> 32;
	struct weir_error ignored = {0};
	uint32_t words[8];

	(void)chunk;
	if (weir_file_read(file->base.file, bits_offset + block * BLOOM_BLOCK, words, BLOOM_BLOCK, &ignored))
		return true;
	for (uint32_t i = 0; i < 8; i++)
		if (!(words[i] >> ((uint32_t)hash * salt[i] >> 27) & 1))
			return false;
	return true;
}

/* False when the filter has none of the values that the predicate asks for. */
static bool bloom_may_match(const struct parquet_file *file, const struct parquet_chunk *chunk,
			    const struct parquet_leaf_info *info, const struct weir_scalar *values, uint32_t count)
{
	uint64_t offset = (uint64_t)chunk->bloom_offset, there;
	struct parquet_bloom_header header;
	struct weir_error ignored = {0};
	uint8_t bytes[BLOOM_HEADER_MAX];
	size_t used;

	if (chunk->bloom_offset <= 0 || offset >= file->pages_end)
		return true;
	there = file->pages_end - offset < sizeof(bytes) ? file->pages_end - offset : sizeof(bytes);
	if (weir_file_read(file->base.file, offset, bytes, there, &ignored) ||
	    parquet_bloom_header_parse(bytes, (size_t)there, &header, &used, &ignored) || !header.is_split_block ||
	    !header.is_xxhash || !header.is_uncompressed || header.size_bytes < BLOOM_BLOCK ||
	    weir_range_outside(offset + used, (uint64_t)header.size_bytes, file->pages_end))
		return true;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *key;
		uint8_t fixed[8];
		uint32_t size = bloom_key(info, &values[i], fixed, &key);

		if (size == 0 || bloom_may_have(file, chunk, &header, offset + used, key, size))
			return true;
	}
	return false;
}

static int blooms_may_match(const struct parquet_file *file, const struct weir_scan *scan, uint32_t row_group,
			    bool *may_match, struct weir_error *err)
{
	const struct parquet_row_group *group = &file->metadata.row_groups[row_group];

	for (uint32_t i = 0; i < scan->column_count && *may_match; i++) {
		const struct parquet_leaf_info *info;
		const struct weir_scalar *values;
		uint32_t leaf = 0, count;

		info = leaf_of(file, scan, i, &leaf);
		if (!info || group->chunks[leaf].bloom_offset <= 0)
			continue;
		if (weir_program_equalities(scan->predicate, i, &values, &count, err))
			return err->code;
		if (count > 0)
			*may_match = bloom_may_match(file, &group->chunks[leaf], info, values, count);
	}
	return WEIR_OK;
}

int parquet_row_group_may_match(const struct parquet_file *file, const struct weir_scan *scan, uint32_t row_group,
				struct weir_bounds *bounds, bool *may_match, struct weir_error *err)
{
	*may_match = true;
	if (!scan->predicate)
		return WEIR_OK;
	for (uint32_t i = 0; i < scan->column_count; i++)
		chunk_bounds(file, scan, row_group, i, &bounds[i]);
	*may_match = weir_program_may_match(scan->predicate, bounds);
	return *may_match ? blooms_may_match(file, scan, row_group, may_match, err) : WEIR_OK;
}

/* ── pages ── */

/* The page index of one column of the predicate. */
struct paged {
	uint32_t column;
	const struct parquet_leaf_info *info;
	struct parquet_column_index index;
	struct parquet_offset_index pages;
	uint32_t page; /* the one that holds the current run */
};

static const uint8_t *index_bytes(struct parquet_reader *reader, int64_t offset, int32_t size, struct weir_error *err)
{
	const struct parquet_file *file = reader->file;
	uint8_t *bytes;

	if (offset <= 0 || size <= 0 || size > INDEX_MAX ||
	    weir_range_outside((uint64_t)offset, (uint64_t)size, file->pages_end))
		return NULL;
	bytes = weir_arena_alloc(&reader->arena, (size_t)size, err);
	if (!bytes || weir_file_read(file->base.file, (uint64_t)offset, bytes, (uint64_t)size, err))
		return NULL;
	reader->stats.bytes_read += (uint64_t)size;
	return bytes;
}

/* False when there is no page index, or none that makes sense. */
static bool paged_open(struct parquet_reader *reader, const struct parquet_row_group *group, uint32_t column,
		       struct paged *out)
{
	const struct parquet_chunk *chunk;
	struct weir_error ignored = {0};
	const uint8_t *index, *pages;
	uint32_t leaf = 0;

	*out = (struct paged){.column = column};
	out->info = leaf_of(reader->file, reader->scan, column, &leaf);
	if (!out->info || !is_ordered(reader->file, out->info, false))
		return false;
	chunk = &group->chunks[leaf];
	index = index_bytes(reader, chunk->column_index_offset, chunk->column_index_size, &ignored);
	pages = index ? index_bytes(reader, chunk->offset_index_offset, chunk->offset_index_size, &ignored) : NULL;
	if (!pages ||
	    parquet_column_index_parse(index, (size_t)chunk->column_index_size, &reader->arena, &out->index,
				       &ignored) ||
	    parquet_offset_index_parse(pages, (size_t)chunk->offset_index_size, &reader->arena, &out->pages,
				       &ignored) ||
	    out->index.page_count != out->pages.page_count || out->index.page_count < 2)
		return false;
	for (uint32_t i = 0; i < out->pages.page_count; i++) {
		int64_t row = out->pages.pages[i].first_row;

		if (i == 0 ? row != 0 : row < out->pages.pages[i - 1].first_row)
			return false;
	}
	return true;
}

static void page_bounds(const struct paged *paged, int64_t row_count, struct weir_bounds *out)
{
	const struct parquet_column_index *index = &paged->index;
	uint32_t page = paged->page;
	int64_t rows = (page + 1 < paged->pages.page_count ? paged->pages.pages[page + 1].first_row : row_count) -
		       paged->pages.pages[page].first_row;

	*out = (struct weir_bounds){.row_count = rows};
	if (index->null_pages[page]) {
		out->has_null_count = true;
		out->null_count = rows;
		return;
	}
	if (index->null_counts) {
		out->has_null_count = index->null_counts[page] >= 0 && index->null_counts[page] <= rows;
		out->null_count = index->null_counts[page];
	}
	bounds_set(paged->info, index->min[page], index->max[page], out);
}

/* Walks the runs of rows in which no column changes its page. */
static int runs_walk(struct parquet_reader *reader, const struct parquet_row_group *group, struct paged *paged,
		     uint32_t count, struct weir_bounds *bounds, struct weir_error *err)
{
	int64_t row = 0;

	while (row < group->row_count) {
		int64_t end = group->row_count;

		for (uint32_t i = 0; i < count; i++) {
			const struct parquet_offset_index *pages = &paged[i].pages;

			while (paged[i].page + 1 < pages->page_count &&
			       pages->pages[paged[i].page + 1].first_row <= row)
				paged[i].page++;
			if (paged[i].page + 1 < pages->page_count && pages->pages[paged[i].page + 1].first_row < end)
				end = pages->pages[paged[i].page + 1].first_row;
			page_bounds(&paged[i], group->row_count, &bounds[paged[i].column]);
		}
		if (!weir_program_may_match(reader->scan->predicate, bounds)) {
			reader->stats.pages_pruned++;
		} else if (reader->spans.count && reader->spans.items[reader->spans.count - 1].end == row) {
			reader->spans.items[reader->spans.count - 1].end = end;
		} else if (weir_list_push(&reader->spans, reader->account, err,
					  (struct parquet_row_span){.begin = row, .end = end})) {
			return err->code;
		}
		row = end;
	}
	return WEIR_OK;
}

struct wanted {
	struct parquet_reader *reader;
	const struct parquet_row_group *group;
	struct paged *paged;
	uint32_t count;
};

static void column_wanted(void *context, uint32_t column)
{
	struct wanted *wanted = context;

	if (column < wanted->reader->scan->column_count &&
	    paged_open(wanted->reader, wanted->group, column, &wanted->paged[wanted->count]))
		wanted->count++;
}

int parquet_pages_prune(struct parquet_reader *reader, uint32_t row_group, struct weir_error *err)
{
	const struct parquet_row_group *group = &reader->file->metadata.row_groups[row_group];
	const struct weir_scan *scan = reader->scan;
	struct wanted wanted = {.reader = reader, .group = group};
	struct weir_bounds *bounds;

	reader->spans.count = reader->span = 0;
	reader->has_spans = false;
	if (!scan->predicate || scan->column_count == 0)
		return WEIR_OK;
	bounds = weir_arena_alloc_zero(&reader->arena, scan->column_count * sizeof(*bounds), err);
	wanted.paged = bounds ? weir_arena_alloc_zero(&reader->arena, scan->column_count * sizeof(*wanted.paged), err)
			      : NULL;
	if (!wanted.paged)
		return err->code;
	weir_program_columns(scan->predicate, column_wanted, &wanted);
	if (wanted.count == 0)
		return WEIR_OK;
	for (uint32_t i = 0; i < scan->column_count; i++)
		chunk_bounds(reader->file, scan, row_group, i, &bounds[i]);
	reader->has_spans = true;
	return runs_walk(reader, group, wanted.paged, wanted.count, bounds, err);
}
