/* One lane's reader: walks a range of rows, row group by row group, and hands out vectors of undecoded columns.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * How many rows a vector has follows from the widths in the footer: about WEIR_VECTOR_BYTES, at most WEIR_VECTOR_ROWS.
 * Vectors never cross a row group. What a vector points into lives until the next call of next or open.
 *
 * Threads: a reader belongs to one lane; the file is shared and never written to.
 */
#include "base/checked.h"
#include "format/parquet/nested_impl.h"

#include <string.h>

enum {
	ROWS_FIRST = 64,        /* of the first vector when a limit follows */
	ROWS_WIDE = 1024,       /* many narrow columns still get this many */
	WINDOW_MAX = 256 << 10, /* of a leaf: what is read at once stays in the cache until it is inflated */
	WINDOW_SHARE = 8,       /* of the account's room, for all windows */
	PAGE_GUESS = 1 << 20,   /* what writers aim at; known only when a page is met */
	PAGE_LARGE = 4 << 20,   /* two of these are not to be held for one vector */
	HOLD_MIN = 4 << 10,
	TEXT_GUESS = 32, /* bytes of a text whose length only its dictionary knows */
};
#define NO_ROW_GROUP UINT32_MAX

static void columns_free(struct parquet_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct parquet_column *column = &self->columns[i];

		for (uint32_t l = 0; l < column->leaf_count; l++)
			parquet_leaf_release(&column->leaves[l]);
		for (uint32_t l = 0; column->levels && l < column->leaf_count; l++)
			parquet_levels_release(self->account, &column->levels[l]);
		weir_free(self->account, column->levels, column->leaf_count * sizeof(*column->levels));
		weir_free(self->account, column->leaves, column->leaf_count * sizeof(*column->leaves));
	}
	weir_free(self->account, self->columns, self->column_count * sizeof(*self->columns));
	weir_free(self->account, self->vector_columns, self->column_count * sizeof(*self->vector_columns));
	self->columns = NULL;
	self->vector_columns = NULL;
	self->column_count = 0;
}

/* Leaves of the last file serve the next one too, buffers and all, when there are as many. */
static bool columns_fit(const struct parquet_reader *self, const struct parquet_file *file,
			const struct weir_scan *scan)
{
	if (!self->columns || self->column_count != scan->column_count)
		return false;
	for (uint32_t i = 0; i < scan->column_count; i++) {
		const struct parquet_shape *shape = file->columns[scan->columns[i]];

		if (self->columns[i].leaf_count != shape->leaf_end - shape->leaf_begin ||
		    (self->columns[i].levels != NULL) != (shape->kind != PARQUET_SHAPE_LEAF))
			return false;
	}
	return true;
}

static int columns_new(struct parquet_reader *self, const struct parquet_file *file, const struct weir_scan *scan,
		       struct weir_error *err)
{
	uint32_t count = scan->column_count;

	columns_free(self);
	self->columns = weir_alloc_zero(self->account, count * sizeof(*self->columns), err);
	if (!self->columns)
		return err->code;
	self->vector_columns = weir_alloc_zero(self->account, count * sizeof(*self->vector_columns), err);
	if (!self->vector_columns) {
		weir_free(self->account, self->columns, count * sizeof(*self->columns));
		self->columns = NULL;
		return err->code;
	}
	self->column_count = count;
	for (uint32_t i = 0; i < count; i++) {
		const struct parquet_shape *shape = file->columns[scan->columns[i]];
		struct parquet_column *column = &self->columns[i];
		uint32_t leaf_count = shape->leaf_end - shape->leaf_begin;

		column->leaves = weir_alloc_zero(self->account, leaf_count * sizeof(*column->leaves), err);
		if (!column->leaves)
			return err->code;
		column->leaf_count = leaf_count;
		for (uint32_t l = 0; l < leaf_count; l++)
			column->leaves[l].reader = self;
		if (shape->kind == PARQUET_SHAPE_LEAF)
			continue;
		column->levels = weir_alloc_zero(self->account, leaf_count * sizeof(*column->levels), err);
		if (!column->levels)
			return err->code;
	}
	return WEIR_OK;
}

static void columns_bind(struct parquet_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct parquet_column *column = &self->columns[i];

		column->reader = self;
		column->shape = self->file->columns[self->scan->columns[i]];
		column->pending.decode = column->levels ? parquet_nested_decode : parquet_flat_decode;
		for (uint32_t l = 0; l < column->leaf_count; l++)
			column->leaves[l].info = &self->file->leaves[column->shape->leaf_begin + l];
		parquet_straight_plan(column);
	}
}

/* The vector that was out is gone: what only it pointed into goes too. */
void parquet_vector_end(struct parquet_reader *self)
{
	for (size_t i = 0; i < self->retired.count; i++)
		parquet_memory_release(self->account, &self->retired.items[i]);
	self->retired.count = 0;
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct parquet_column *column = &self->columns[i];

		for (uint32_t l = 0; l < column->leaf_count; l++)
			column->leaves[l].handed = column->leaves[l].handed_window = false;
		if (column->nested)
			weir_array_unref(column->nested);
		column->nested = NULL;
	}
	self->vector_rows = 0;
	self->run_handed = false;
}

static void reader_close(struct parquet_reader *self)
{
	parquet_vector_end(self);
	for (uint32_t i = 0; i < self->column_count; i++)
		for (uint32_t l = 0; l < self->columns[i].leaf_count; l++)
			parquet_leaf_close(&self->columns[i].leaves[l]);
	self->row_group = NO_ROW_GROUP;
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->scan = NULL;
	self->row = self->row_end = 0;
}

int parquet_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		       struct weir_error *err)
{
	struct parquet_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_parquet_format;
	self->account = account;
	self->io = io;
	self->kernels = parquet_kernels_choose();
	self->row_group = NO_ROW_GROUP;
	weir_arena_init(&self->arena, account);
	if (weir_codecs_new(account, &self->codecs, err)) {
		weir_free(account, self, sizeof(*self));
		return err->code;
	}
	*out = &self->base;
	return WEIR_OK;
}

void parquet_reader_free(struct weir_format_reader *base)
{
	struct parquet_reader *self = (struct parquet_reader *)base;

	if (!self)
		return;
	reader_close(self);
	columns_free(self);
	weir_list_release(&self->retired, self->account);
	weir_list_release(&self->spans, self->account);
	parquet_memory_release(self->account, &self->run);
	parquet_picks_release(self);
	weir_arena_release(&self->arena);
	weir_codecs_free(self->codecs);
	weir_free(self->account, self, sizeof(*self));
}

int parquet_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
			const struct weir_range *range, struct weir_error *err)
{
	struct parquet_reader *self = (struct parquet_reader *)base;
	struct parquet_file *opened = (struct parquet_file *)file;

	WEIR_ASSERT(range->begin <= range->end && range->end <= (uint64_t)file->row_count);
	weir_format_file_ref(file);
	reader_close(self);
	self->file = opened;
	self->scan = scan;
	if (!columns_fit(self, opened, scan) && columns_new(self, opened, scan, err)) {
		reader_close(self);
		return err->code;
	}
	columns_bind(self);
	self->row = (int64_t)range->begin;
	self->row_end = (int64_t)range->end;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	return WEIR_OK;
}

/* Rows a vector of this row group is to have. */
static uint32_t rows_by_width(const struct parquet_reader *self, uint32_t group)
{
	uint64_t rows = (uint64_t)self->file->metadata.row_groups[group].row_count, total = 0, widest = 0, count, wide;

	for (uint32_t i = 0; i < self->column_count; i++) {
		uint64_t bytes = parquet_column_bytes(self->file, group, self->scan->columns[i]) / rows;

		total += bytes;
		widest = bytes > widest ? bytes : widest;
	}
	count = WEIR_VECTOR_BYTES / (total ? total : 1);
	wide = WEIR_VECTOR_BYTES / (widest ? widest : 1);
	wide = wide < ROWS_WIDE ? wide : ROWS_WIDE;
	count = count > wide ? count : wide;
	count = count < WEIR_VECTOR_ROWS ? count : WEIR_VECTOR_ROWS;
	/* Whole words of validity bits. */
	return count < 64 ? (uint32_t)(count ? count : 1) : (uint32_t)(count & ~(uint64_t)63);
}

static void windows_size(struct parquet_reader *self)
{
	int64_t room = weir_account_room(self->account);
	size_t leaves = 0, size;

	for (uint32_t i = 0; i < self->column_count; i++)
		leaves += self->columns[i].leaf_count;
	size = (size_t)(room > 0 ? room : 0) / WINDOW_SHARE / (leaves ? leaves : 1);
	self->window_bytes_max = size < WINDOW_MAX ? (size > 8192 ? size : 8192) : WINDOW_MAX;
}

/* What a leaf keeps from vector to vector: a window, a page, decoded rows. */
static uint64_t leaf_need(const struct parquet_reader *self, const struct parquet_chunk *chunk,
			  const struct parquet_leaf_info *info)
{
	uint64_t page = (uint64_t)chunk->size_uncompressed < PAGE_GUESS ? (uint64_t)chunk->size_uncompressed
									: PAGE_GUESS;
	uint64_t window = (uint64_t)chunk->size_compressed < self->window_bytes_max ? (uint64_t)chunk->size_compressed
										    : self->window_bytes_max;

	return page + window + (uint64_t)self->rows_cap * (info->width_arrow ? info->width_arrow : 16);
}

/* What a row takes that is held decoded, texts of dictionaries written out. */
static uint64_t row_need(const struct parquet_reader *self, const struct parquet_row_group *group)
{
	uint64_t need = 1;

	for (uint32_t i = 0; i < self->column_count; i++) {
		const struct parquet_shape *shape = self->columns[i].shape;

		for (uint32_t leaf = shape->leaf_begin; leaf < shape->leaf_end; leaf++) {
			const struct parquet_leaf_info *info = &self->file->leaves[leaf];
			uint64_t bytes = (uint64_t)group->chunks[leaf].size_uncompressed / (uint64_t)group->row_count;

			need += info->width_arrow ? info->width_arrow : 16 + (bytes > TEXT_GUESS ? bytes : TEXT_GUESS);
		}
	}
	return need;
}

/* Half of what the account can have is for pages. When they need more, columns take turns (hold.c). */
static void turns_plan(struct parquet_reader *self, const struct parquet_row_group *group)
{
	int64_t room = weir_account_room(self->account);
	int64_t used = weir_account_used(self->account);
	uint64_t budget, need = 0, leaves = 0;
	uint32_t held = 0;

	self->is_tight = false;
	if (weir_add_overflows(room, used, &room))
		room = INT64_MAX;
	budget = self->page_budget = (uint64_t)room / 2;
	for (uint32_t i = 0; i < self->column_count; i++) {
		const struct parquet_shape *shape = self->columns[i].shape;

		for (uint32_t leaf = shape->leaf_begin; leaf < shape->leaf_end; leaf++, leaves++)
			need += leaf_need(self, &group->chunks[leaf], &self->file->leaves[leaf]);
	}
	leaves = leaves ? leaves : 1;
	self->hold_bytes = budget / leaves > HOLD_MIN ? (size_t)(budget / leaves) : HOLD_MIN;
	if (need > budget) {
		uint64_t rows = budget / 2 / row_need(self, group);

		self->is_tight = true;
		rows = rows < 64 ? 64 : rows & ~(uint64_t)63;
		self->rows_cap = rows < self->rows_cap ? (uint32_t)rows : self->rows_cap;
	}
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct parquet_column *column = &self->columns[i];

		for (uint32_t l = 0; l < column->leaf_count; l++) {
			uint32_t leaf = column->shape->leaf_begin + l;

			column->leaves[l].is_held = self->is_tight && !column->levels &&
						    leaf_need(self, &group->chunks[leaf], &self->file->leaves[leaf]) >
							    self->hold_bytes;
			held += column->leaves[l].is_held;
		}
	}
	parquet_picks_plan(self, group, need, held);
}

uint64_t parquet_pages_bytes(const struct parquet_reader *self)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < self->column_count; i++)
		for (uint32_t l = 0; l < self->columns[i].leaf_count; l++)
			size += self->columns[i].leaves[l].inflated.capacity +
				self->columns[i].leaves[l].window.capacity;
	return size;
}

/* Pages may be larger than turns_plan guessed, which shows only when one is met. Then the leaf takes turns too, with
 * less to hold, since a page that large lies beside what is held while it is decoded. */
bool parquet_page_is_too_much(struct parquet_leaf *leaf)
{
	struct parquet_reader *self = leaf->reader;
	uint64_t size = (uint64_t)leaf->page.header.size_uncompressed, share;
	uint32_t leaves = 0;

	if (!leaf->has_page || leaf->page.bytes || size <= PAGE_LARGE ||
	    size + parquet_pages_bytes(self) <= self->page_budget / 4 * 3)
		return false;
	for (uint32_t i = 0; i < self->column_count; i++)
		leaves += self->columns[i].leaf_count;
	share = self->page_budget / 4 / leaves;
	if (share < self->hold_bytes)
		self->hold_bytes = share > HOLD_MIN ? (size_t)share : HOLD_MIN;
	return true;
}

static int row_group_open(struct parquet_reader *self, uint32_t group, struct weir_error *err)
{
	const struct parquet_row_group *metadata = &self->file->metadata.row_groups[group];

	self->row_group = group;
	self->rows_cap = rows_by_width(self, group);
	weir_arena_clear(&self->arena);
	windows_size(self);
	turns_plan(self, metadata);
	if (parquet_pages_prune(self, group, err))
		return err->code;
	for (uint32_t i = 0; i < self->column_count; i++) {
		struct parquet_column *column = &self->columns[i];

		for (uint32_t l = 0; l < column->leaf_count; l++)
			if (parquet_leaf_open(&column->leaves[l], &metadata->chunks[column->shape->leaf_begin + l],
					      err))
				return err->code;
		for (uint32_t l = 0; column->levels && l < column->leaf_count; l++)
			parquet_levels_rewind(&column->levels[l]);
	}
	self->is_one_vector = !self->has_spans && metadata->row_count <= self->rows_cap &&
			      metadata->row_count <= self->rows_max && self->row == metadata->row_begin &&
			      metadata->row_count <= self->row_end - self->row;
	parquet_windows_plan(self);
	return WEIR_OK;
}

/* The row group that holds the next row. */
static int row_group_find(struct parquet_reader *self, struct weir_error *err)
{
	const struct parquet_metadata *metadata = &self->file->metadata;
	uint32_t group = self->row_group == NO_ROW_GROUP ? 0 : self->row_group;

	while (group < metadata->row_group_count &&
	       self->row >= metadata->row_groups[group].row_begin + metadata->row_groups[group].row_count)
		group++;
	WEIR_ASSERT(group < metadata->row_group_count);
	if (group == self->row_group)
		return WEIR_OK;
	if (row_group_open(self, group, err)) {
		self->row_group = NO_ROW_GROUP;
		return err->code;
	}
	return WEIR_OK;
}

/* A vector ends where a large page ends, so that it does not keep two. */
static uint32_t rows_of_large_pages(const struct parquet_reader *self, uint32_t rows)
{
	for (uint32_t i = 0; i < self->column_count; i++) {
		const struct parquet_leaf *leaf = &self->columns[i].leaves[0];
		int64_t left = leaf->page.row_end - self->vector_row;

		if (!self->columns[i].levels && leaf->has_page && !leaf->is_held &&
		    leaf->page.header.size_uncompressed > PAGE_LARGE && left > 0 && left < rows)
			rows = (uint32_t)left;
	}
	return rows;
}

/* Moves on to the next row that the page index leaves, in this row group; `end` is where its span ends. False when
 * there is none: then the row is the next row group's first. */
static bool span_find(struct parquet_reader *self, const struct parquet_row_group *group, int64_t *end)
{
	int64_t row = self->row - group->row_begin;

	*end = group->row_begin + group->row_count;
	if (!self->has_spans)
		return true;
	while (self->span < self->spans.count && self->spans.items[self->span].end <= row)
		self->span++;
	if (self->span == self->spans.count) {
		self->stats.rows_pruned += (uint64_t)(*end - self->row);
		self->row = *end;
		return false;
	}
	*end = group->row_begin + self->spans.items[self->span].end;
	if (self->spans.items[self->span].begin > row) {
		self->stats.rows_pruned += (uint64_t)(self->spans.items[self->span].begin - row);
		self->row = group->row_begin + self->spans.items[self->span].begin;
	}
	return self->row < self->row_end;
}

void parquet_vector_columns(struct parquet_reader *self)
{
	for (uint32_t i = 0; i < self->column_count; i++)
		self->vector_columns[i] = (struct weir_column){
			.type = self->columns[i].shape->type,
			.form = WEIR_UNDECODED,
			.pending = &self->columns[i].pending,
		};
}

int parquet_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct parquet_reader *self = (struct parquet_reader *)base;
	const struct parquet_row_group *group;
	int64_t left, span_end;
	uint32_t rows;

	parquet_vector_end(self);
	*out = (struct weir_vector){0};
	do {
		if (!self->file || self->row >= self->row_end)
			return WEIR_OK;
		if (row_group_find(self, err))
			return err->code;
		group = &self->file->metadata.row_groups[self->row_group];
	} while (!span_find(self, group, &span_end));
	if (parquet_picks_find(self, self->row - group->row_begin, err))
		return err->code;
	rows = self->rows_cap < self->rows_max ? self->rows_cap : self->rows_max;
	left = span_end - self->row;
	left = left < self->row_end - self->row ? left : self->row_end - self->row;
	rows = left < rows ? (uint32_t)left : rows;
	self->vector_row = self->row - group->row_begin;
	rows = rows_of_large_pages(self, rows);
	self->vector_rows = rows;
	if (self->picks.is_found) {
		self->picks.vector_begin = parquet_picks_place(&self->picks, self->vector_row);
		self->picks.vector_end = parquet_picks_place(&self->picks, self->vector_row + rows);
	}
	parquet_vector_columns(self);
	*out = (struct weir_vector){
		.row_count = rows,
		.selection = {.count = rows},
		.column_count = self->column_count,
		.columns = self->vector_columns,
		.source = weir_file_path(self->file->base.file),
		.source_row = self->row,
	};
	self->row += rows;
	self->rows_max = self->rows_max < WEIR_VECTOR_ROWS / 4 ? self->rows_max * 4 : WEIR_VECTOR_ROWS;
	return WEIR_OK;
}

void parquet_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct parquet_reader *)base)->stats;
}
