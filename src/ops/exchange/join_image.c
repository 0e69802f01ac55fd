#include "ops/exchange/join_image.h"

#include <string.h>

static const uint64_t no_bits[1] = {0};

int weir_join_open(struct weir_join_open *open, struct weir_account *account, struct weir_run_space *space,
		   const struct weir_schema *schema, struct weir_chunk *chunk, struct weir_error *err)
{
	size_t size = weir_chunk_size(chunk);
	const uint8_t *bytes;
	int code;

	*open = (struct weir_join_open){0};
	if (weir_chunk_is_resident(chunk)) {
		code = weir_chunk_pin(chunk, &bytes, err);
		if (!code)
			open->pinned = chunk;
	} else {
		open->copy = weir_alloc(account, size, err);
		if (!open->copy)
			return err->code;
		open->copy_size = size;
		bytes = open->copy;
		atomic_fetch_add_explicit(&space->read, weir_chunk_footprint(chunk), memory_order_relaxed);
		code = weir_chunk_read(chunk, open->copy, err);
	}
	if (!code)
		code = weir_packed_open(account, schema, bytes, size, &open->batch, err);
	if (code)
		weir_join_close(open, account);
	return code;
}

void weir_join_close(struct weir_join_open *open, struct weir_account *account)
{
	weir_batch_unref(open->batch);
	if (open->pinned)
		weir_chunk_unpin(open->pinned);
	weir_free(account, open->copy, open->copy_size);
	*open = (struct weir_join_open){0};
}

void weir_join_image_init(struct weir_join_image *image, struct weir_account *account, const struct weir_schema *schema)
{
	*image = (struct weir_join_image){.account = account, .schema = schema};
	weir_arena_init(&image->arena, account);
}

int weir_join_image_add(struct weir_join_image *image, struct weir_run_space *space, struct weir_chunk *chunk,
			struct weir_error *err)
{
	struct weir_join_open open;
	int code = weir_list_reserve(&image->chunks, image->account, err, image->chunks.count + 1);

	if (!code)
		code = weir_join_open(&open, image->account, space, image->schema, chunk, err);
	if (code)
		return code;
	WEIR_ASSERT(open.batch->row_count <= WEIR_JOIN_CHUNK_ROWS);
	image->chunks.items[image->chunks.count++] = open;
	image->bytes += weir_chunk_footprint(chunk);
	return WEIR_OK;
}

/* The most that one of its rows has beyond a width that all have; of what is nested, all that they have together. */
static uint64_t value_bytes_max(const struct weir_array *array)
{
	bool is_large = array->type->id == WEIR_LARGE_STRING || array->type->id == WEIR_LARGE_BINARY;
	int64_t most = 0;

	if (array->type->layout == WEIR_LAYOUT_NESTED)
		return (uint64_t)weir_array_rows_bytes(array, 0, array->length);
	for (int64_t i = array->offset; array->type->layout == WEIR_LAYOUT_BYTES && i < array->offset + array->length;
	     i++) {
		const int64_t *large = (const int64_t *)array->buffers[1].data + i;
		const int32_t *small = (const int32_t *)array->buffers[1].data + i;
		int64_t size = is_large ? large[1] - large[0] : small[1] - small[0];

		most = size > most ? size : most;
	}
	return (uint64_t)most;
}

static int add_sources(struct weir_join_image *image, uint32_t column, struct weir_error *err)
{
	const struct weir_type *type = image->schema->fields[column].type, *values = weir_type_values(type);
	size_t count = image->chunks.count;
	struct weir_column *columns = weir_arena_alloc_zero(&image->arena, (count + 1) * sizeof(*columns), err);
	size_t width = values->layout == WEIR_LAYOUT_FIXED && values->byte_width > 16 ? values->byte_width : 16;
	void *zeros = weir_arena_alloc_zero(&image->arena, width, err);
	uint64_t most = 0;
	int code = WEIR_OK;

	image->sources[column] = weir_arena_alloc_zero(&image->arena, (count + 1) * sizeof(**image->sources), err);
	if (!columns || !zeros || !image->sources[column])
		return err->code;
	for (size_t i = 0; i < count && !code; i++) {
		const struct weir_batch *batch = image->chunks.items[i].batch;
		uint64_t bytes = value_bytes_max(batch->columns[column]);

		most = bytes > most ? bytes : most;
		image->sources[column][i] = &columns[i];
		code = weir_column_from_array(batch->columns[column], 0, (uint32_t)batch->row_count, &image->arena,
					      &columns[i], err);
	}
	image->value_bytes_max += most;
	columns[count] = (struct weir_column){
		.type = type, .form = WEIR_CONSTANT, .validity = no_bits, .values = zeros};
	image->sources[column][count] = &columns[count];
	return code;
}

int weir_join_image_finish(struct weir_join_image *image, struct weir_error *err)
{
	uint32_t count = image->schema->field_count;
	int code = WEIR_OK;

	image->sources = weir_arena_alloc_zero(&image->arena, (count + 1) * sizeof(*image->sources), err);
	if (!image->sources)
		return err->code;
	for (uint32_t i = 0; i < count && !code; i++)
		code = add_sources(image, i, err);
	return code;
}

void weir_join_image_release(struct weir_join_image *image)
{
	if (!image->account)
		return;
	for (size_t i = 0; i < image->chunks.count; i++)
		weir_join_close(&image->chunks.items[i], image->account);
	weir_list_release(&image->chunks, image->account);
	weir_arena_release(&image->arena);
	*image = (struct weir_join_image){0};
}

/* The keys of some rows of a chunk. */
static int read_keys(const struct weir_join_image *image, const struct weir_batch *batch, int64_t first, uint32_t count,
		     struct weir_join_keys *keys, struct weir_arena *arena, struct weir_error *err)
{
	struct weir_vector rows = {.row_count = count,
				   .selection = {.count = count},
				   .column_count = image->schema->field_count,
				   .source_row = -1};
	int code = WEIR_OK;

	weir_arena_clear(arena);
	rows.columns = weir_arena_alloc_zero(arena, (rows.column_count + 1) * sizeof(*rows.columns), err);
	if (!rows.columns)
		return err->code;
	for (uint32_t k = 0; k < keys->columns->count && !code; k++) {
		uint32_t column = keys->columns->keys[k].column;

		code = weir_column_from_array(batch->columns[column], first, count, arena, &rows.columns[column], err);
	}
	return code ? code : weir_join_keys_take(keys, &rows, err);
}

/* Each row once: into the table, or to its place in it. */
static int walk(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
		const struct weir_join_part *part, enum weir_join_again again, struct weir_join_table *table,
		struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; i < image->chunks.count && !code; i++) {
		const struct weir_batch *batch = image->chunks.items[i].batch;

		for (int64_t first = 0; first < batch->row_count && !code; first += WEIR_VECTOR_ROWS) {
			int64_t left = batch->row_count - first;
			uint32_t base = (uint32_t)i * WEIR_JOIN_CHUNK_ROWS + (uint32_t)first;

			code = read_keys(image, batch, first,
					 (uint32_t)(left < WEIR_VECTOR_ROWS ? left : WEIR_VECTOR_ROWS), keys, arena,
					 err);
			if (!code && again == WEIR_JOIN_COUNT)
				weir_join_table_count(table, keys);
			else if (!code && again == WEIR_JOIN_PLACE)
				weir_join_table_place(table, keys, base, part->bits, part->part);
			else if (!code)
				code = weir_join_table_add(table, keys, base, part->bits, part->part, err);
		}
	}
	return code;
}

int weir_join_image_range(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  uint64_t span_max, struct weir_join_part *part, struct weir_error *err)
{
	const struct weir_type *type = keys->columns->keys[0].type;
	int64_t least = INT64_MAX, most = INT64_MIN;
	int code = WEIR_OK;

	part->span = 0;
	if (!keys->is_word || !weir_type_is_integer(type) || type->id == WEIR_UINT64)
		return WEIR_OK;
	for (size_t i = 0; i < image->chunks.count && !code; i++) {
		const struct weir_batch *batch = image->chunks.items[i].batch;

		for (int64_t first = 0; first < batch->row_count && !code; first += WEIR_VECTOR_ROWS) {
			int64_t left = batch->row_count - first;

			code = read_keys(image, batch, first,
					 (uint32_t)(left < WEIR_VECTOR_ROWS ? left : WEIR_VECTOR_ROWS), keys, arena,
					 err);
			for (uint32_t k = 0; k < keys->count && !code; k++) {
				int64_t value = (int64_t)keys->tags[k];

				least = value < least ? value : least;
				most = value > most ? value : most;
			}
		}
		if (least <= most && (uint64_t)most - (uint64_t)least >= span_max)
			return code;
	}
	if (code || least > most)
		return code;
	part->least = (uint64_t)least;
	part->span = (uint64_t)most - (uint64_t)least + 1;
	return WEIR_OK;
}

int weir_join_image_index(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  const struct weir_join_part *part, struct weir_account *account, struct weir_join_table *out,
			  struct weir_error *err)
{
	enum weir_join_again again = WEIR_JOIN_READY;
	int code = part->span ? weir_join_table_init_slots(out, account, part->least, part->span, err)
			      : weir_join_table_init(out, account, keys->columns, part->rows, err);

	do {
		if (!code)
			code = walk(image, keys, arena, part, again, out, err);
		if (!code)
			code = weir_join_table_settle(out, again, &again, err);
	} while (!code && again != WEIR_JOIN_READY);
	if (code)
		weir_join_table_release(out);
	return code;
}

static inline __attribute__((always_inline)) void put_values(const struct weir_column *source, int64_t first,
							     uint32_t count, uint32_t offset, uint32_t width,
							     uint64_t *values)
{
	const uint32_t *codes = source->form == WEIR_DICTIONARY ? source->values : NULL;
	const uint8_t *from = codes ? source->dictionary->values : source->values;

	for (uint32_t i = 0; i < count; i++) {
		size_t place = codes ? codes[first + i] : source->form == WEIR_CONSTANT ? 0 : (size_t)first + i;

		memcpy((uint8_t *)&values[i] + offset, from + place * width, width);
	}
}

/* What cells have of some rows of a chunk. */
static void read_values(const struct weir_join_image *image, size_t chunk, int64_t first, uint32_t count,
			const struct weir_join_cell_layout *layout, uint64_t *values)
{
	memset(values, 0, count * sizeof(*values));
	for (uint32_t c = 0; c < layout->count; c++) {
		const struct weir_join_cell_column *column = &layout->columns[c];
		const struct weir_column *source = image->sources[column->column][chunk];

		if (column->width == 8)
			put_values(source, first, count, 0, 8, values);
		else if (column->width == 4)
			put_values(source, first, count, column->offset, 4, values);
		else
			put_values(source, first, count, column->offset, column->width, values);
	}
}

int weir_join_image_cells(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  const struct weir_join_part *part, const struct weir_join_cell_layout *layout,
			  struct weir_account *account, struct weir_join_cells *out, bool *is_made,
			  struct weir_error *err)
{
	uint64_t values[WEIR_VECTOR_ROWS];
	int code = weir_join_cells_init(out, account, part->rows, part->least, part->span, err);

	*is_made = !code;
	for (size_t i = 0; i < image->chunks.count && *is_made; i++) {
		int64_t rows = image->chunks.items[i].batch->row_count;

		for (int64_t first = 0; first < rows && *is_made; first += WEIR_VECTOR_ROWS) {
			uint32_t count = (uint32_t)(rows - first < WEIR_VECTOR_ROWS ? rows - first : WEIR_VECTOR_ROWS);

			code = read_keys(image, image->chunks.items[i].batch, first, count, keys, arena, err);
			if (!code && !layout->is_set)
				read_values(image, i, first, count, layout, values);
			*is_made = !code && weir_join_cells_add(out, keys, layout->is_set ? NULL : values, part->bits,
								part->part);
		}
	}
	if (!*is_made)
		weir_join_cells_release(out);
	return code;
}
