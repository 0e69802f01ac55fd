/* Blocks of merged rows, made where they will lie.
 *
 *     picks of all rows ─▶ how long strings are ─▶ room in the store ─▶ a piece of a column, in the cache ─▶ its place
 *
 * A vector would be a copy between, and what gathers vectors into a batch another. It needs runs whose rows all stay
 * where they are while the block is made, so those that lie in memory (run.h), and columns that are not nested. Pieces
 * are put into the block by the system, which makes its pages of them: to clear pages, to map them and then to write
 * into them, behind all caches, takes longer than that copy. */
#include "ops/exchange/merge_impl.h"

#include <string.h>

enum {
	BLOCK_BYTES = 8 << 20,        /* what leaves a lane (ops/chunks.c) */
	BLOCK_BYTES_MIN = 64 << 10,   /* below, a copy costs nothing */
	BLOCK_ROWS_MAX = 1 << 20,     /* so that picks are no more than the block */
	PIECE_ROWS = WEIR_SPANS_ROWS, /* whose picks are in the cache while one column after the other is filled */
	PIECE_BYTES = WEIR_SPANS_BYTES, /* of a column, but of one row */
};

struct making {
	struct weir_merge *merge;
	const struct weir_schema *schema;
	uint32_t lane;
	struct weir_array **columns;
	uint64_t *places;  /* in the block; of strings, their bytes */
	uint64_t *offsets; /* of strings */
	uint8_t *piece;
	size_t piece_size;
	uint64_t *ends; /* of the bytes of strings so far, by column */
	int64_t rows_max, rows;
	uint64_t fixed_bytes; /* of a row: all but the bytes of strings */
	uint64_t bytes;       /* of strings so far */
};

static const struct weir_cells *cells_of(const struct making *making, uint32_t column)
{
	return making->merge->cells + column * making->merge->cursor_count;
}

static bool can_make(const struct weir_merge *merge, const struct weir_schema *schema)
{
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct weir_type *type = schema->fields[i].type;

		if (type->layout == WEIR_LAYOUT_NESTED || type->layout == WEIR_LAYOUT_NULL ||
		    type->id == WEIR_DICTIONARY_TYPE)
			return false;
	}
	return !merge->has_chunks && schema->field_count && merge->cursor_count;
}

static int64_t rows_left(const struct weir_merge *merge)
{
	int64_t rows = (int64_t)(merge->item_count - merge->item_at) + merge->picks_count - merge->picks_at;

	for (size_t i = 0; i < merge->active_count; i++)
		rows += merge->cursors[merge->active[i]].row_end - merge->cursors[merge->active[i]].row;
	return rows;
}

static unsigned offset_width(const struct weir_type *type)
{
	return type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY ? 8 : 4;
}

/* Everything but values, which have no place yet: validity, bits and offsets are copied into the block, which is
 * little. */
static int column_begin(struct making *making, uint32_t i, struct weir_error *err)
{
	struct weir_account *account = &making->merge->account;
	const struct weir_type *type = making->schema->fields[i].type;
	struct weir_array *column = making->columns[i] = weir_array_new(account, type, err);
	uint64_t bits_size = ((uint64_t)making->rows_max / 64 + 1) * 8;
	uint8_t *to;
	int code = column ? WEIR_OK : err->code;

	if (!code && making->merge->has_nulls[i])
		code = weir_buffer_new(account, bits_size, &column->buffers[0], &to, err);
	if (!code && type->layout == WEIR_LAYOUT_BITS)
		code = weir_buffer_new(account, bits_size, &column->buffers[1], &to, err);
	if (!code && type->layout == WEIR_LAYOUT_BYTES) {
		code = weir_buffer_new(account, ((uint64_t)making->rows_max + 1) * offset_width(type),
				       &column->buffers[1], &to, err);
		if (!code)
			memset(to, 0, offset_width(type));
	}
	return code;
}

/* How many of so many picks the block takes more: not those with which strings become far too long. */
static uint32_t count_fitting(struct making *making, const struct weir_pick *picks, uint32_t count)
{
	for (; count; count /= 2) {
		uint64_t bytes = 0;

		for (uint32_t i = 0; i < making->schema->field_count; i++) {
			struct weir_array *column = making->columns[i];
			unsigned width = offset_width(column->type);

			if (column->type->layout != WEIR_LAYOUT_BYTES)
				continue;
			making->places[i] = weir_interleave_ends(cells_of(making, i), picks, count, making->ends[i],
								 (uint8_t *)column->buffers[1].data +
									 (uint64_t)(making->rows + 1) * width);
			bytes += making->places[i];
		}
		if (bytes > 2 * BLOCK_BYTES)
			continue;
		making->bytes = bytes;
		for (uint32_t i = 0; i < making->schema->field_count; i++)
			if (making->columns[i]->type->layout == WEIR_LAYOUT_BYTES)
				making->ends[i] = making->places[i];
		break;
	}
	return count;
}

/* Which rows, and where strings end. */
static int pick_rows(struct making *making, uint64_t bytes_wanted, struct weir_error *err)
{
	struct weir_merge *merge = making->merge;
	int code = WEIR_OK;

	while (making->rows < making->rows_max &&
	       making->bytes + (uint64_t)making->rows * making->fixed_bytes < bytes_wanted) {
		uint32_t left = merge->picks_count - merge->picks_at, count;
		bool is_slice;

		if (!left) {
			merge->picks_at = 0;
			code = weir_merge_pick(merge, &merge->picks_count, &is_slice, err);
			left = merge->picks_count;
		}
		if (code || !left)
			return code;
		count = making->rows_max - making->rows < left ? (uint32_t)(making->rows_max - making->rows) : left;
		count = count_fitting(making, merge->picks + merge->picks_at, count);
		memcpy(merge->block_picks + making->rows, merge->picks + merge->picks_at,
		       count * sizeof(*merge->picks));
		merge->picks_at += count;
		making->rows += count;
		if (!count)
			break;
	}
	return WEIR_OK;
}

static uint64_t end_of(const struct weir_array *strings, int64_t row)
{
	return offset_width(strings->type) == 8 ? (uint64_t)((const int64_t *)strings->buffers[1].data)[row]
						: (uint64_t)((const int32_t *)strings->buffers[1].data)[row];
}

/* Of so many rows of a column; 0 where it is bits. */
static uint64_t bytes_between(const struct weir_array *column, int64_t first, int64_t end)
{
	if (column->type->layout == WEIR_LAYOUT_BYTES)
		return end_of(column, end) - end_of(column, first);
	return column->type->layout == WEIR_LAYOUT_FIXED ? (uint64_t)(end - first) * column->type->byte_width : 0;
}

/* How many rows from `first` on are put at once. */
static uint32_t rows_of_piece(const struct making *making, int64_t first)
{
	uint32_t count = making->rows - first < PIECE_ROWS ? (uint32_t)(making->rows - first) : PIECE_ROWS;

	for (uint32_t i = 0; i < making->schema->field_count; i++)
		while (count > 1 && bytes_between(making->columns[i], first, first + count) > PIECE_BYTES)
			count /= 2;
	return count;
}

static int room_for_piece(struct making *making, uint64_t size, struct weir_error *err)
{
	struct weir_account *account = &making->merge->account;

	size = size < PIECE_BYTES ? PIECE_BYTES : size;
	if (size <= making->piece_size)
		return WEIR_OK;
	weir_free(account, making->piece, making->piece_size);
	making->piece_size = 0;
	making->piece = weir_alloc(account, size, err);
	if (!making->piece)
		return err->code;
	making->piece_size = size;
	return WEIR_OK;
}

/* Values of rows that were picked, to where they stay. */
static int put_values(struct making *making, struct weir_chunk *chunk, uint32_t i, int64_t first, uint32_t count,
		      struct weir_error *err)
{
	const struct weir_array *column = making->columns[i];
	const struct weir_pick *picks = making->merge->block_picks + first;
	uint64_t size = bytes_between(column, first, first + count),
		 at = making->places[i] + bytes_between(column, 0, first);
	int code = room_for_piece(making, size, err);

	if (code || !size)
		return code;
	if (column->type->layout == WEIR_LAYOUT_FIXED)
		weir_interleave_values(cells_of(making, i), making->merge->spans, picks, count,
				       column->type->byte_width, making->piece);
	else
		weir_interleave_bytes(cells_of(making, i), picks, count,
				      column->buffers[1].data + (size_t)first * offset_width(column->type),
				      making->piece, making->piece_size);
	return weir_chunk_put(chunk, at, making->piece, size, err);
}

static int put_columns(struct making *making, struct weir_chunk *chunk, struct weir_error *err)
{
	int code = WEIR_OK;

	for (int64_t first = 0, count; first < making->rows && !code; first += count) {
		count = rows_of_piece(making, first);
		weir_spans_find(making->merge->spans, making->merge->block_picks + first, (uint32_t)count);
		for (uint32_t i = 0; i < making->schema->field_count && !code; i++)
			code = put_values(making, chunk, i, first, (uint32_t)count, err);
	}
	for (uint32_t i = 0; i < making->schema->field_count && !code; i++) {
		const struct weir_array *column = making->columns[i];

		if (column->type->layout == WEIR_LAYOUT_BYTES)
			code = weir_chunk_put(chunk, making->offsets[i], column->buffers[1].data,
					      (uint64_t)(making->rows + 1) * offset_width(column->type), err);
	}
	return code;
}

static void fill_bits(const struct making *making)
{
	const struct weir_pick *picks = making->merge->block_picks;

	for (uint32_t i = 0; i < making->schema->field_count; i++) {
		struct weir_array *column = making->columns[i];

		column->length = making->rows;
		if (column->buffers[0].data)
			column->null_count = making->rows - weir_interleave_validity(
								    cells_of(making, i), picks, (uint32_t)making->rows,
								    (uint64_t *)column->buffers[0].data);
		if (column->type->layout == WEIR_LAYOUT_BITS)
			weir_interleave_bits(cells_of(making, i), picks, (uint32_t)making->rows,
					     (uint64_t *)column->buffers[1].data);
	}
}

/* The block of the rows that were picked. */
static int write_block(struct making *making, const struct weir_batch *batch, struct weir_chunk **out,
		       struct weir_error *err)
{
	struct weir_merge *merge = making->merge;
	struct weir_block_plan plan;
	struct weir_chunk *chunk;
	int64_t charged;
	uint8_t *bytes;
	int code = weir_block_measure(batch, &plan, err);

	if (code)
		return code;
	code = weir_chunk_reserve_bare(merge->cursors[0].run->space->store, &merge->account, making->lane, plan.size,
				       &chunk, &charged, err);
	if (code)
		return code;
	weir_block_places(batch, &plan, making->places, making->offsets);
	code = put_columns(making, chunk, err);
	if (!code)
		code = weir_chunk_back(chunk, &bytes, err);
	for (uint32_t i = 0; i < making->schema->field_count && !code; i++) {
		struct weir_array *column = making->columns[i];
		uint64_t size = bytes_between(column, 0, making->rows);

		if (column->type->layout == WEIR_LAYOUT_FIXED) {
			column->buffers[1] = (struct weir_buffer){.data = bytes + making->places[i], .size = size};
		} else if (column->type->layout == WEIR_LAYOUT_BYTES) {
			column->buffers[2] = (struct weir_buffer){.data = bytes + making->places[i], .size = size};
			weir_buffer_release(&column->buffers[1]);
			column->buffers[1] = (struct weir_buffer){.data = bytes + making->offsets[i],
								  .size = (uint64_t)(making->rows + 1) *
									  offset_width(column->type)};
		}
	}
	if (!code)
		code = weir_block_write(batch, &plan, bytes, err);
	if (code) {
		weir_chunk_unref(chunk);
	} else {
		weir_chunk_seal(chunk, plan.size);
		*out = chunk;
	}
	weir_account_unclaim(&merge->account, charged);
	return code;
}

static int make(struct making *making, uint64_t bytes_wanted, struct weir_chunk **out, struct weir_error *err)
{
	struct weir_merge *merge = making->merge;
	struct weir_batch *batch = NULL;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < making->schema->field_count && !code; i++)
		code = column_begin(making, i, err);
	if (!code)
		code = pick_rows(making, bytes_wanted, err);
	if (code || !making->rows)
		return code;
	fill_bits(making);
	batch = weir_batch_new(&merge->account, making->schema, making->rows, making->columns, err);
	code = batch ? write_block(making, batch, out, err) : err->code;
	weir_batch_unref(batch);
	return code;
}

int weir_merge_make_chunk(struct weir_merge *merge, const struct weir_schema *schema, uint32_t lane,
			  struct weir_chunk **out, int64_t *rows, struct weir_error *err)
{
	uint32_t count = schema->field_count;
	struct making making = {.merge = merge, .schema = schema, .lane = lane};
	int64_t left, bytes;
	int code = WEIR_OK;

	*out = NULL;
	if (!can_make(merge, schema))
		return WEIR_OK;
	left = rows_left(merge);
	bytes = left * merge->row_bytes;
	if (bytes < BLOCK_BYTES_MIN)
		return WEIR_OK;
	for (uint32_t i = 0; i < count; i++)
		making.fixed_bytes += schema->fields[i].type->layout == WEIR_LAYOUT_BYTES
					      ? offset_width(schema->fields[i].type)
				      : schema->fields[i].type->layout == WEIR_LAYOUT_BITS
					      ? 0
					      : schema->fields[i].type->byte_width;
	making.fixed_bytes += !making.fixed_bytes;
	making.rows_max = BLOCK_BYTES / (int64_t)making.fixed_bytes + (int64_t)WEIR_VECTOR_ROWS;
	making.rows_max = making.rows_max < BLOCK_ROWS_MAX ? making.rows_max : BLOCK_ROWS_MAX;
	if (!merge->block_picks) {
		size_t most = (size_t)(making.rows_max < left ? making.rows_max : left);

		merge->block_picks = weir_alloc(&merge->account, most * sizeof(*merge->block_picks), err);
		if (!merge->block_picks)
			return err->code;
		merge->block_picks_max = most;
	}
	making.rows_max = (int64_t)merge->block_picks_max;
	making.columns = weir_alloc_zero(&merge->account, count * sizeof(*making.columns), err);
	making.places = making.columns ? weir_alloc_zero(&merge->account, 3 * count * sizeof(*making.places), err)
				       : NULL;
	if (making.places) {
		making.offsets = making.places + count;
		making.ends = making.offsets + count;
		/* Blocks of a range are about alike. */
		code = make(&making, (uint64_t)(bytes / (bytes / BLOCK_BYTES + 1) + 1), out, err);
	} else {
		code = err->code;
	}
	*rows = making.rows;
	for (uint32_t i = 0; making.columns && i < count; i++)
		weir_array_unref(making.columns[i]);
	weir_free(&merge->account, making.piece, making.piece_size);
	weir_free(&merge->account, making.places, making.places ? 3 * count * sizeof(*making.places) : 0);
	weir_free(&merge->account, making.columns, making.columns ? count * sizeof(*making.columns) : 0);
	return code;
}
