/* An opened Parquet file: its footer, its schema, and how its rows are cut into ranges.
 *
 * Opening takes one read for most files: the last FOOTER_GUESS bytes hold the footer's length and, mostly, the footer.
 */
#include "base/checked.h"
#include "format/parquet/read_impl.h"

#include <string.h>

enum { FOOTER_GUESS = 32 << 10, TAIL = 8 }; /* length, magic */

static int footer_refuse(struct weir_file *file, struct weir_error *err, int code, const char *what)
{
	weir_error_set(err, code, "%s", what);
	weir_error_at_source(err, weir_file_path(file));
	return code;
}

static int footer_read(struct parquet_file *self, struct weir_error *err)
{
	struct weir_file *file = self->base.file;
	uint64_t size = weir_file_size(file), footer_size;
	size_t guess = size < FOOTER_GUESS ? (size_t)size : FOOTER_GUESS;
	uint32_t length;
	uint8_t *bytes;

	if (size < 4 + TAIL)
		return footer_refuse(file, err, WEIR_E_DATA, "The file is too short to be a Parquet file.");
	bytes = weir_alloc(self->account, guess, err);
	if (!bytes)
		return err->code;
	if (weir_file_read(file, size - guess, bytes, guess, err))
		goto fail;
	if (memcmp(bytes + guess - 4, PARQUET_MAGIC_ENCRYPTED, 4) == 0) {
		footer_refuse(file, err, WEIR_E_UNSUPPORTED,
			      "The file is encrypted (its footer too); weir does not read encrypted Parquet files.");
		goto fail;
	}
	if (memcmp(bytes + guess - 4, PARQUET_MAGIC, 4) != 0) {
		footer_refuse(file, err, WEIR_E_DATA,
			      "The file does not end as a Parquet file does: it is cut short, or something else.");
		weir_error_at_offset(err, size - 4);
		goto fail;
	}
	memcpy(&length, bytes + guess - TAIL, 4);
	footer_size = length;
	if (footer_size + TAIL + 4 > size) {
		weir_error_set(err, WEIR_E_DATA, "The footer says it has %llu bytes; the file has %llu.",
			       (unsigned long long)footer_size, (unsigned long long)size);
		weir_error_at_source(err, weir_file_path(file));
		weir_error_at_offset(err, size - TAIL);
		goto fail;
	}
	self->pages_end = size - TAIL - footer_size;
	self->footer = weir_alloc(self->account, (size_t)footer_size + 1, err);
	if (!self->footer)
		goto fail;
	self->footer_size = (size_t)footer_size + 1;
	if (footer_size + TAIL <= guess)
		memcpy(self->footer, bytes + guess - TAIL - footer_size, (size_t)footer_size);
	else if (weir_file_read(file, self->pages_end, self->footer, footer_size, err))
		goto fail;
	weir_free(self->account, bytes, guess);
	if (parquet_metadata_parse(self->footer, (size_t)footer_size, &self->arena, &self->metadata, err)) {
		if (err->has_offset)
			err->offset += self->pages_end;
		weir_error_at_source(err, weir_file_path(file));
		return err->code;
	}
	return WEIR_OK;
fail:
	weir_free(self->account, bytes, guess);
	return err->code;
}

/* Decoded bytes of a leaf's chunk, about: what its pages inflate to, or its values where they are wider. */
static uint64_t chunk_bytes(const struct parquet_file *file, const struct parquet_row_group *group, uint32_t leaf)
{
	const struct parquet_leaf_info *info = &file->leaves[leaf];
	const struct parquet_chunk *chunk = &group->chunks[leaf];
	uint64_t values = (uint64_t)chunk->value_count * (info->width_arrow ? info->width_arrow : 1);

	return values > (uint64_t)chunk->size_uncompressed ? values : (uint64_t)chunk->size_uncompressed;
}

uint64_t parquet_column_bytes(const struct parquet_file *file, uint32_t row_group, uint32_t column)
{
	const struct parquet_shape *shape = file->columns[column];
	uint64_t bytes = 0;

	for (uint32_t leaf = shape->leaf_begin; leaf < shape->leaf_end; leaf++)
		bytes += chunk_bytes(file, &file->metadata.row_groups[row_group], leaf);
	return bytes;
}

static int row_groups_check(struct parquet_file *self, struct weir_error *err)
{
	int64_t rows = 0;

	for (uint32_t g = 0; g < self->metadata.row_group_count; g++) {
		struct parquet_row_group *group = &self->metadata.row_groups[g];

		group->row_begin = rows;
		if (weir_add_overflows(rows, group->row_count, &rows))
			return footer_refuse(self->base.file, err, WEIR_E_DATA, "The footer counts too many rows.");
		for (uint32_t leaf = 0; leaf < self->metadata.leaf_count; leaf++) {
			const struct parquet_leaf_info *info = &self->leaves[leaf];
			const struct parquet_chunk *chunk = &group->chunks[leaf];

			if (chunk->is_encrypted)
				continue;
			if (info->rep_max == 0 ? chunk->value_count != group->row_count
					       : chunk->value_count < group->row_count) {
				footer_refuse(self->base.file, err, WEIR_E_DATA,
					      "The footer counts other numbers of values and rows in a row group.");
				weir_error_at_column(err, info->path);
				return WEIR_E_DATA;
			}
			self->base.bytes_decoded_est += chunk_bytes(self, group, leaf);
		}
	}
	/* Some writers leave the file's own count at 0: the row groups are what is there. */
	if (self->metadata.row_count != rows && self->metadata.row_count != 0)
		return footer_refuse(self->base.file, err, WEIR_E_DATA,
				     "The footer counts other numbers of rows in the file and in its row groups.");
	self->metadata.row_count = rows;
	self->base.row_count = rows;
	return WEIR_OK;
}

static void file_close(struct weir_format_file *base)
{
	struct parquet_file *self = (struct parquet_file *)base;

	for (uint32_t i = 0; i < self->column_count; i++)
		parquet_shape_release(self->columns[i]);
	if (base->schema)
		weir_schema_unref(base->schema);
	weir_arena_release(&self->arena);
	weir_free(self->account, self->footer, self->footer_size);
	weir_file_unref(base->file);
	weir_free(self->account, self, sizeof(*self));
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct parquet_file *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	/* All else the footer says. */
	self->int96_unit = setup && setup->options ? *(const enum weir_time_unit *)setup->options : WEIR_NANO;
	self->account = account;
	weir_arena_init(&self->arena, account);
	self->base.ops = &weir_parquet_format;
	self->base.file = weir_file_ref(file);
	atomic_init(&self->base.refs, 1);
	if (footer_read(self, err))
		goto fail;
	if (parquet_schema_build(self, err)) {
		weir_error_at_source(err, weir_file_path(file));
		goto fail;
	}
	if (row_groups_check(self, err))
		goto fail;
	*out = &self->base;
	return WEIR_OK;
fail:
	file_close(&self->base);
	return err->code;
}

/* ── ranges ── */

/* A row group may be cut when a reader finds its way to a row without decoding what lies before: always in flat
 * columns, in nested ones with an offset index. */
static bool is_cuttable(const struct parquet_file *file, const struct weir_scan *scan, uint32_t row_group)
{
	for (uint32_t i = 0; i < scan->column_count; i++) {
		const struct parquet_shape *shape = file->columns[scan->columns[i]];

		for (uint32_t leaf = shape->leaf_begin; leaf < shape->leaf_end; leaf++)
			if (file->leaves[leaf].rep_max > 0 &&
			    file->metadata.row_groups[row_group].chunks[leaf].offset_index_size <= 0)
				return false;
	}
	return true;
}

enum { PIECE_COLUMN_BYTES_MIN = 256 << 10 }; /* decoded bytes of a column, on average, that a piece should have */

struct range_visit {
	int (*visit)(void *context, const struct weir_range *range);
	void *context;
	struct weir_range pending; /* row groups gathered so far; begin == end: none */
};

static int range_flush(struct range_visit *visit)
{
	struct weir_range range = visit->pending;

	visit->pending = (struct weir_range){0};
	return range.begin < range.end ? visit->visit(visit->context, &range) : WEIR_OK;
}

/* How many pieces a row group is worth. Each piece decodes every column's dictionary again, and the pages on its edges:
 * a wide row group, whose columns have a page or two each, would be decoded many times over. */
static uint64_t pieces_worth(uint64_t bytes, uint32_t column_count, uint64_t bytes_target)
{
	uint64_t pieces = (bytes + bytes_target / 2) / bytes_target;
	uint64_t bytes_min = (uint64_t)column_count * PIECE_COLUMN_BYTES_MIN;
	uint64_t pieces_max = (bytes + bytes_min / 2) / bytes_min;

	return pieces < pieces_max ? pieces : pieces_max;
}

static int row_group_cut(struct range_visit *visit, const struct parquet_row_group *group, uint64_t bytes,
			 uint64_t pieces)
{
	uint64_t rows, row = 0, count = (uint64_t)group->row_count;

	rows = (count + pieces - 1) / pieces;
	rows = (rows + WEIR_VECTOR_ROWS - 1) / WEIR_VECTOR_ROWS * WEIR_VECTOR_ROWS;
	for (; row < count; row += rows) {
		uint64_t end = count - row < rows ? count : row + rows;
		struct weir_range range = {
			.begin = (uint64_t)group->row_begin + row,
			.end = (uint64_t)group->row_begin + end,
			.bytes_decoded_est = (uint64_t)((double)bytes * (double)(end - row) / (double)count),
		};
		int code = visit->visit(visit->context, &range);

		if (code)
			return code;
	}
	return WEIR_OK;
}

static int file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		       int (*visit)(void *context, const struct weir_range *range), void *context,
		       struct weir_error *err)
{
	const struct parquet_file *self = (const struct parquet_file *)base;
	struct range_visit state = {.visit = visit, .context = context};
	size_t bounds_size = (size_t)scan->column_count * sizeof(struct weir_bounds);
	struct weir_bounds *bounds = NULL;
	int code = WEIR_OK;

	if (scan->predicate) {
		bounds = weir_alloc(self->account, bounds_size, err);
		if (!bounds)
			return err->code;
	}
	for (uint32_t g = 0; g < self->metadata.row_group_count && !code; g++) {
		const struct parquet_row_group *group = &self->metadata.row_groups[g];
		uint64_t bytes = 0, rows = (uint64_t)group->row_count, pieces;
		bool may_match = true;

		if (rows == 0)
			continue;
		if (bounds)
			code = parquet_row_group_may_match(self, scan, g, bounds, &may_match, err);
		if (code)
			break;
		if (!may_match) {
			code = range_flush(&state);
			continue;
		}
		for (uint32_t i = 0; i < scan->column_count; i++)
			bytes += parquet_column_bytes(self, g, scan->columns[i]);
		pieces = bytes_target && scan->column_count ? pieces_worth(bytes, scan->column_count, bytes_target) : 0;
		if (pieces > 1 && is_cuttable(self, scan, g)) {
			code = range_flush(&state);
			if (!code)
				code = row_group_cut(&state, group, bytes, pieces);
			continue;
		}
		if (bytes_target && state.pending.end && state.pending.bytes_decoded_est + bytes > bytes_target)
			code = range_flush(&state);
		if (state.pending.end == 0)
			state.pending.begin = (uint64_t)group->row_begin;
		state.pending.end = (uint64_t)group->row_begin + rows;
		state.pending.bytes_decoded_est += bytes;
	}
	if (bounds)
		weir_free(self->account, bounds, bounds_size);
	return code ? code : range_flush(&state);
}

static const char *const extensions[] = {".parquet", ".parq", ".pq", NULL};

static const char *const option_names[] = {"int96=", NULL};

static int options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count,
			 const void **out, struct weir_error *err)
{
	static const char *const names[] = {
		[WEIR_SECOND] = "s", [WEIR_MILLI] = "ms", [WEIR_MICRO] = "us", [WEIR_NANO] = "ns"};
	enum weir_time_unit *unit = weir_arena_alloc_zero(arena, sizeof(*unit), err);

	if (!unit)
		return err->code;
	*unit = WEIR_NANO;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t found = 0;

		while (found < 4 && strcmp(settings[i].value, names[found]))
			found++;
		if (found == 4)
			return weir_error_set(err, WEIR_E_INVALID, "--int96 is s, ms, us or ns, not '%s'",
					      settings[i].value);
		*unit = (enum weir_time_unit)found;
	}
	*out = unit;
	return WEIR_OK;
}

const struct weir_format_ops weir_parquet_format = {
	.name = "parquet",
	.extensions = extensions,
	.option_names = option_names,
	.options_parse = options_parse,
	.open = file_open,
	.close = file_close,
	.column_bounds = parquet_column_bounds,
	.ranges = file_ranges,
	.reader_new = parquet_reader_new,
	.reader_open = parquet_reader_open,
	.reader_next = parquet_reader_next,
	.reader_stats = parquet_reader_stats,
	.reader_free = parquet_reader_free,
};
