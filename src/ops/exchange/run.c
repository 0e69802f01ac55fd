#include "ops/exchange/run.h"

#include "base/hash.h"
#include "arrow/block.h"
#include "arrow/packed.h"

#include <string.h>

/* What a merge has of a run beside its open chunk: a cursor, keys of some rows and their order, arrays over the
 * chunk. */
enum {
	OPEN_BYTES = 10 << 10,
	OPEN_COLUMN_BYTES = 256, /* for each column more */
	CHUNK_BYTES_MIN = 28 << 10,
	CHUNK_BYTES_MAX = 1 << 20,
	CHUNK_COLUMN_BYTES = 256, /* what a chunk has of each column at least: opening one costs as much as these */
	CHUNKS_OPEN = 192,        /* so many are open in a merge of 20 times the limit */
	PAGE_BYTES = 4 << 10,
	UNIT_BYTES = 64,           /* what a chunk on disk is filled up to */
	WRITTEN_BYTES = 512 << 10, /* together */
	WIDE_ROW_BYTES = 256,
	GIVEN_BYTES = 8 << 20,     /* what leaves a lane (ops/chunks.c) */
	GIVEN_BYTES_MIN = 2 << 20, /* small blocks would stay small */
};

int64_t weir_run_batch_bytes(const struct weir_batch *batch)
{
	struct weir_chunk_plan plan;
	struct weir_error ignored = {0};

	return weir_chunk_measure(batch, &plan, &ignored) ? INT64_MAX : (int64_t)plan.size;
}

void weir_run_space_drop(struct weir_run_space *space, struct weir_chunk *chunk)
{
	if (!chunk)
		return;
	if (weir_chunk_is_resident(chunk))
		atomic_fetch_sub_explicit(&space->resident, (int64_t)weir_chunk_footprint(chunk), memory_order_relaxed);
	weir_chunk_unref(chunk);
}

static void chunk_drop(struct weir_run_space *space, struct weir_run_chunk *chunk)
{
	if (chunk->is_given)
		weir_chunk_unref(chunk->chunk);
	else
		weir_run_space_drop(space, chunk->chunk);
	chunk->chunk = NULL;
}

static void chunk_release(struct weir_run_space *space, struct weir_run_chunk *chunk)
{
	chunk_drop(space, chunk);
	weir_repeats_release(&chunk->repeats, space->account);
	weir_free(space->account, (void *)chunk->fence, chunk->fence_size);
}

void weir_sorted_run_free(struct weir_run_space *space, struct weir_sorted_run *run)
{
	if (!run)
		return;
	for (size_t i = 0; i < run->chunks.count && !run->keys.count; i++)
		chunk_release(space, &run->chunks.items[i]);
	weir_list_release(&run->chunks, space->account);
	weir_spool_release(&run->spool);
	weir_free(space->account, run->unwritten, run->unwritten_max);
	weir_free(space->account, run->last, run->last_size);
	weir_drawn_free(space->account, run->drawn);
	if (run->reserved) {
		weir_free(&run->account, run->order, run->order ? (size_t)run->row_count * sizeof(*run->order) : 0);
		weir_key_list_release(&run->keys);
		weir_batch_unref(run->batch);
		weir_account_release(&run->account);
		atomic_fetch_sub_explicit(&space->resident, run->reserved, memory_order_relaxed);
	}
	weir_free(space->account, run, sizeof(*run));
}

/* Columns and the columns inside them. */
static uint32_t node_count(const struct weir_field *fields, uint32_t count)
{
	uint32_t nodes = count;

	for (uint32_t i = 0; i < count; i++)
		nodes += node_count(fields[i].type->fields, fields[i].type->field_count);
	return nodes;
}

void weir_run_space_measure(struct weir_run_space *space, const struct weir_schema *schema, int64_t run_bytes,
			    int64_t merge_bytes)
{
	int64_t most;

	space->column_count = node_count(schema->fields, schema->field_count);
	space->chunk_bytes = run_bytes / 320;
	if (space->chunk_bytes < CHUNK_BYTES_MIN)
		space->chunk_bytes = CHUNK_BYTES_MIN;
	/* Of many columns more, as far as a merge has room for it. */
	most = merge_bytes / CHUNKS_OPEN - OPEN_BYTES - (int64_t)space->column_count * OPEN_COLUMN_BYTES;
	if (most > (int64_t)space->column_count * CHUNK_COLUMN_BYTES)
		most = (int64_t)space->column_count * CHUNK_COLUMN_BYTES;
	if (space->chunk_bytes < most)
		space->chunk_bytes = most;
	if (space->chunk_bytes > CHUNK_BYTES_MAX)
		space->chunk_bytes = CHUNK_BYTES_MAX;
}

/* ---- runs that lie ---- */

int64_t weir_run_chunk_rows(const struct weir_run_space *space, uint64_t bytes, int64_t row_count)
{
	int64_t row_bytes = row_count ? (int64_t)bytes / row_count : 0;
	int64_t rows = row_bytes ? space->chunk_bytes / row_bytes : (int64_t)WEIR_VECTOR_ROWS;

	return rows < 1 ? 1 : rows > row_count ? row_count : rows;
}

/* A run with so much room; *out NULL: there is none. */
static int lie(struct weir_run_space *space, int64_t reserve, struct weir_sorted_run **out, struct weir_error *err)
{
	struct weir_sorted_run *run;

	*out = NULL;
	if (atomic_fetch_add_explicit(&space->resident, reserve, memory_order_relaxed) + reserve >
	    space->resident_max) {
		atomic_fetch_sub_explicit(&space->resident, reserve, memory_order_relaxed);
		return WEIR_OK;
	}
	run = weir_alloc_zero(space->account, sizeof(*run), err);
	if (!run) {
		atomic_fetch_sub_explicit(&space->resident, reserve, memory_order_relaxed);
		return err->code;
	}
	run->space = space;
	run->reserved = reserve;
	weir_account_init(&run->account, space->account, "run");
	*out = run;
	return WEIR_OK;
}

int weir_run_lie(struct weir_run_space *space, struct weir_sorted_run **out, struct weir_error *err)
{
	*out = NULL;
	/* What is gathered grows by doubling, and its keys and order come on top. */
	return space->lying_bytes ? lie(space, 2 * space->lying_bytes, out, err) : WEIR_OK;
}

void weir_run_rise(struct weir_sorted_run *run)
{
	atomic_fetch_sub_explicit(&run->space->resident, run->reserved - 1, memory_order_relaxed);
	run->reserved = 1;
}

bool weir_run_stays(const struct weir_batch *batch, const uint32_t *rows)
{
	int64_t jumps = 0, count = batch->row_count;

	if (weir_run_batch_bytes(batch) / count >= WIDE_ROW_BYTES)
		return true;
	for (int64_t i = 1; i < count; i++)
		jumps += rows[i] != rows[i - 1] + 1;
	return jumps <= count / 16;
}

bool weir_run_is_in_order(const uint32_t *rows, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (rows[i] != (uint32_t)i)
			return false;
	return true;
}

static int fence_put(struct weir_sorted_run *run, const struct weir_run_chunk *chunk, struct weir_error *err)
{
	struct weir_run_chunk own = *chunk;
	uint8_t *copy;
	int code;

	own.fence_size = weir_fence_bytes(own.fence_size);
	if (run->keys.count)
		return weir_list_push(&run->chunks, run->space->account, err, own);
	copy = weir_alloc(run->space->account, own.fence_size, err);
	if (!copy)
		return err->code;
	memcpy(copy, own.fence, own.fence_size);
	own.fence = copy;
	code = weir_list_push(&run->chunks, run->space->account, err, own);
	if (code)
		chunk_release(run->space, &own);
	return code;
}

/* Its rows are those of the batch; row i has key rows[i] of `keys`, or key i where that is NULL. */
static int settle(struct weir_sorted_run *run, struct weir_batch *batch, const struct weir_key_list *keys,
		  const uint32_t *rows, struct weir_error *err)
{
	int64_t step, used;
	const uint8_t *last;
	uint32_t size;
	int code = WEIR_OK;

	run->row_count = batch->row_count;
	run->batch = weir_batch_ref(batch);
	used = weir_run_batch_bytes(batch);
	run->bytes = (uint64_t)(used < INT64_MAX ? used : weir_account_used(&run->account));
	step = weir_run_chunk_rows(run->space, run->bytes, run->row_count);
	step = step > (int64_t)WEIR_VECTOR_ROWS ? (int64_t)WEIR_VECTOR_ROWS : step;
	for (int64_t first = 0; first < run->row_count && !code; first += step) {
		struct weir_run_chunk chunk = {
			.row_first = first, .row_count = run->row_count - first < step ? run->row_count - first : step};

		chunk.fence = weir_key_at(keys, rows ? rows[first] : (size_t)first, &chunk.fence_size);
		code = fence_put(run, &chunk, err);
	}
	if (!code) {
		last = weir_key_at(keys, rows ? rows[run->row_count - 1] : (size_t)run->row_count - 1, &size);
		code = weir_run_end(run, last, size, err);
	}
	used = weir_account_used(&run->account);
	used = used > 0 ? used : 1;
	atomic_fetch_add_explicit(&run->space->resident, used - run->reserved, memory_order_relaxed);
	run->reserved = used;
	return code;
}

static int settle_in_order(struct weir_sorted_run *run, struct weir_batch *batch, const struct weir_key_list *keys,
			   const uint32_t *rows, struct weir_error *err)
{
	size_t size = (size_t)batch->row_count * sizeof(*rows);
	int code;

	/* In order: what follows is mostly one slice after the other, without a look at their keys. */
	if (weir_run_is_in_order(rows, batch->row_count))
		return settle(run, batch, keys, NULL, err);
	code = weir_key_list_arrange(keys, rows, &run->account, &run->keys, err);
	if (!code) {
		run->row_count = batch->row_count;
		run->order = weir_alloc(&run->account, size, err);
		if (!run->order)
			return err->code;
		memcpy(run->order, rows, size);
	}
	return code ? code : settle(run, batch, &run->keys, NULL, err);
}

int weir_run_settle(struct weir_sorted_run *run, struct weir_batch *batch, const struct weir_key_list *keys,
		    const uint32_t *rows, const struct weir_schema *schema, struct weir_error *err)
{
	struct weir_batch *whole = weir_batch_ref(batch);
	int code = weir_numbers_complete(&run->account, keys, NULL, schema, &whole, err);

	if (!code)
		code = settle_in_order(run, whole, keys, rows, err);
	weir_batch_unref(whole);
	return code;
}

/* Whose values taken rows would go on to share. */
static bool has_dictionary(const struct weir_array *array)
{
	bool has = array->dictionary != NULL;

	for (uint32_t i = 0; i < array->child_count && !has; i++)
		has = has_dictionary(array->children[i]);
	return has;
}

int weir_run_arrange(struct weir_run_space *space, struct weir_account *account, const struct weir_batch *batch,
		     const struct weir_key_list *keys, const uint32_t *rows, const struct weir_schema *schema,
		     struct weir_sorted_run **out, struct weir_error *err)
{
	int64_t count = batch->row_count, *numbers = NULL;
	int64_t bytes = weir_run_batch_bytes(batch) +
			(schema->field_count > batch->column_count ? count * (int64_t)sizeof(uint64_t) : 0);
	struct weir_sorted_run *run = NULL;
	struct weir_batch *taken = NULL;
	int code;

	*out = NULL;
	for (uint32_t i = 0; i < batch->column_count; i++)
		if (has_dictionary(batch->columns[i]))
			return WEIR_OK;
	/* Of a large row with a long key a merge needs less where it is a chunk. */
	if (!space->lying_bytes || bytes > space->resident_max ||
	    (bytes / count >= WEIR_LARGE_ROW_BYTES && keys->size / keys->count >= WEIR_FENCE_BYTES))
		return WEIR_OK;
	/* Frames are somewhat larger than what is asked for. */
	code = lie(space, bytes + bytes / 8, &run, err);
	if (code || !run)
		return code;
	numbers = weir_alloc(account, (size_t)count * sizeof(*numbers), err);
	code = numbers ? WEIR_OK : err->code;
	if (!code)
		weir_foresee(numbers, (size_t)count * sizeof(*numbers));
	for (int64_t i = 0; i < count && !code; i++)
		numbers[i] = rows[i];
	if (!code)
		code = weir_batch_take(&run->account, batch, numbers, count, &taken, err);
	if (!code)
		code = weir_numbers_complete(&run->account, keys, rows, schema, &taken, err);
	if (!code)
		code = settle(run, taken, keys, rows, err);
	weir_batch_unref(taken);
	weir_free(account, numbers, numbers ? (size_t)count * sizeof(*numbers) : 0);
	if (code)
		weir_sorted_run_free(space, run);
	else
		*out = run;
	return code;
}

/* The page in which the last bytes to be forgotten ended is over now, too. */
static void forget_bytes(const struct weir_buffer *buffer, int64_t begin, int64_t end, struct weir_forgotten *forgotten)
{
	begin -= begin < PAGE_BYTES ? begin : PAGE_BYTES;
	if (buffer->data && end > begin && (uint64_t)end <= buffer->size)
		weir_forget_add(forgotten, (uint8_t *)buffer->data + begin, (size_t)(end - begin));
}

void weir_run_forget(struct weir_sorted_run *run, int64_t begin, int64_t end, struct weir_forgotten *forgotten)
{
	for (size_t i = 0; i < run->chunks.count && !run->reserved && run->chunks.items[i].row_first < end; i++) {
		struct weir_run_chunk *chunk = &run->chunks.items[i];

		if (chunk->chunk && chunk->row_first + chunk->row_count <= end && weir_chunk_is_resident(chunk->chunk))
			chunk_drop(run->space, chunk);
	}
	/* Where rows are not in their order, those before are anywhere. */
	if (!run->reserved || run->order)
		return;
	for (uint32_t i = 0; i < run->batch->column_count; i++) {
		const struct weir_array *array = run->batch->columns[i];
		const struct weir_type *type = array->type;
		int64_t from = array->offset + begin, to = array->offset + end;

		if (type->layout == WEIR_LAYOUT_FIXED) {
			forget_bytes(&array->buffers[1], from * type->byte_width, to * type->byte_width, forgotten);
		} else if (type->layout == WEIR_LAYOUT_BYTES && array->buffers[1].data) {
			bool is_large = type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;
			const int64_t *large = (const int64_t *)array->buffers[1].data;
			const int32_t *small = (const int32_t *)array->buffers[1].data;

			forget_bytes(&array->buffers[2], is_large ? large[from] : small[from],
				     is_large ? large[to] : small[to], forgotten);
		}
	}
}

/* ---- runs in chunks ---- */

int weir_batch_take(struct weir_account *account, const struct weir_batch *batch, const int64_t *rows, int64_t count,
		    struct weir_batch **out, struct weir_error *err)
{
	uint32_t column_count = batch->column_count;
	struct weir_array **columns = weir_alloc_zero(account, (column_count + 1) * sizeof(*columns), err);
	int code;

	*out = NULL;
	if (!columns)
		return err->code;
	code = weir_arrays_take(account, batch->columns, column_count, rows, count, columns, err);
	if (!code) {
		*out = weir_batch_new(account, batch->schema, count, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; i < column_count; i++)
		weir_array_unref(columns[i]);
	weir_free(account, columns, (column_count + 1) * sizeof(*columns));
	return code;
}

/* The batch as a sealed chunk of packed rows, in memory, that nobody counts yet. */
static int pack_chunk(struct weir_run_space *space, const struct weir_batch *batch, struct weir_chunk **out,
		      struct weir_error *err)
{
	struct weir_packed_plan plan;
	struct weir_batch *trimmed = NULL;
	uint8_t *bytes;
	int code = weir_batch_trim(batch->account, batch, &trimmed, err);

	if (code)
		return code;
	weir_packed_measure(trimmed, &plan);
	code = weir_chunk_reserve(space->store, plan.size, out, &bytes, err);
	if (!code) {
		weir_packed_write(trimmed, &plan, bytes);
		weir_chunk_seal(*out, plan.size);
	}
	weir_batch_unref(trimmed);
	return code;
}

int weir_run_space_put(struct weir_run_space *space, const struct weir_batch *batch, struct weir_chunk **out,
		       struct weir_error *err)
{
	struct weir_chunk *chunk = NULL;
	int64_t footprint;
	int code = pack_chunk(space, batch, &chunk, err);

	if (code)
		return code;
	footprint = (int64_t)weir_chunk_footprint(chunk);
	if (atomic_fetch_add_explicit(&space->resident, footprint, memory_order_relaxed) + footprint >
	    space->resident_max) {
		atomic_fetch_sub_explicit(&space->resident, footprint, memory_order_relaxed);
		code = weir_chunk_spill(chunk, err);
		if (code) {
			weir_chunk_unref(chunk);
			return code;
		}
		atomic_fetch_add_explicit(&space->spilled, (uint64_t)footprint, memory_order_relaxed);
	}
	*out = chunk;
	return WEIR_OK;
}

struct weir_sorted_run *weir_run_new(struct weir_run_space *space, struct weir_error *err)
{
	struct weir_sorted_run *run = weir_alloc_zero(space->account, sizeof(*run), err);

	if (run)
		run->space = space;
	return run;
}

/* What is written of a batch: all of it, or all but numbers that the chunk knows then. */
static int bare_of(const struct weir_sorted_run *run, const struct weir_batch *batch, struct weir_run_chunk *chunk,
		   struct weir_batch **out, struct weir_error *err)
{
	const struct weir_run_space *space = run->space;
	int code = WEIR_OK;

	*out = weir_batch_ref(batch);
	chunk->is_bare = run->drawn;
	if (run->drawn || !space->repeats || !space->bare->field_count)
		return WEIR_OK;
	code = weir_repeats_init(&chunk->repeats, space->account, batch->columns[batch->column_count - 1], err);
	chunk->is_bare = chunk->repeats.count;
	if (code || !chunk->is_bare)
		return code;
	weir_batch_unref(*out);
	return weir_numbers_strip(batch->account, batch, space->bare, out, err);
}

int weir_run_chunk_complete(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk,
			    struct weir_account *account, const struct weir_schema *schema, struct weir_batch **batch,
			    struct weir_error *err)
{
	struct weir_buffer numbers = {0};
	struct weir_batch *whole = NULL;
	uint8_t *values;
	int code;

	if (!chunk->is_bare)
		return WEIR_OK;
	code = weir_buffer_new(account, (uint64_t)chunk->row_count * sizeof(uint64_t), &numbers, &values, err);
	if (code)
		return code;
	if (run->drawn)
		code = weir_drawn_numbers(run->drawn, chunk->row_first, chunk->row_count, account, (uint64_t *)values,
					  err);
	else
		weir_repeats_numbers(&chunk->repeats, (uint64_t *)values);
	if (code)
		weir_buffer_release(&numbers);
	else
		code = weir_numbers_append(account, *batch, schema, numbers, &whole, err);
	if (code)
		return code;
	weir_batch_unref(*batch);
	*batch = whole;
	return WEIR_OK;
}

/* ---- on disk ---- */

static size_t whole(uint64_t size, size_t unit)
{
	return (size_t)(size + unit - 1) / unit * unit;
}

bool weir_run_chunk_is_large(const struct weir_run_chunk *chunk)
{
	return chunk->row_count == 1 && chunk->size >= WEIR_LARGE_ROW_BYTES;
}

size_t weir_run_chunk_footprint(const struct weir_run_chunk *chunk)
{
	return whole(chunk->size, UNIT_BYTES);
}

int weir_run_chunk_read(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk, uint8_t *to,
			struct weir_error *err)
{
	atomic_fetch_add_explicit(&run->space->read, weir_run_chunk_footprint(chunk), memory_order_relaxed);
	return weir_spool_read(&run->spool, chunk->place, to, weir_run_chunk_footprint(chunk), err);
}

void weir_run_chunk_expect(const struct weir_sorted_run *run, const struct weir_run_chunk *chunk)
{
	if (!chunk->chunk && !run->reserved)
		weir_spool_expect(&run->spool, chunk->place, weir_run_chunk_footprint(chunk));
}

/* What waits for it goes to disk. */
static int write_chunks(struct weir_sorted_run *run, struct weir_error *err)
{
	struct weir_spool_piece pieces[WEIR_SPOOL_PIECES_MAX];
	struct weir_spool_place places[WEIR_SPOOL_PIECES_MAX];
	uint32_t count = (uint32_t)run->unwritten_count;
	struct weir_run_chunk *chunks = run->chunks.items + run->chunks.count - count;
	const uint8_t *bytes = run->unwritten;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count; i++) {
		pieces[i] = (struct weir_spool_piece){.bytes = bytes, .size = weir_run_chunk_footprint(&chunks[i])};
		bytes += pieces[i].size;
	}
	if (count)
		code = weir_spool_write(&run->spool, pieces, count, places, err);
	for (uint32_t i = 0; i < count && !code; i++)
		chunks[i].place = places[i];
	if (!code) {
		atomic_fetch_add_explicit(&run->space->spilled, whole(run->unwritten_size, PAGE_BYTES),
					  memory_order_relaxed);
		run->unwritten_size = run->unwritten_count = 0;
	}
	return code;
}

static void unwritten_free(struct weir_sorted_run *run)
{
	weir_free(run->space->account, run->unwritten, run->unwritten_max);
	run->unwritten = NULL;
	run->unwritten_max = 0;
}

/* Room for so many bytes behind those that wait, which may be none any more. */
static int unwritten_room(struct weir_sorted_run *run, size_t size, struct weir_error *err)
{
	int code = WEIR_OK;

	if (run->unwritten_size + size > run->unwritten_max || run->unwritten_count == WEIR_SPOOL_PIECES_MAX)
		code = write_chunks(run, err);
	if (code || size <= run->unwritten_max)
		return code;
	unwritten_free(run);
	run->unwritten = weir_alloc(run->space->account, size < WRITTEN_BYTES ? WRITTEN_BYTES : size, err);
	if (!run->unwritten)
		return err->code;
	run->unwritten_max = size < WRITTEN_BYTES ? WRITTEN_BYTES : size;
	if (!run->spool.store) {
		weir_spool_init(&run->spool, run->space->store);
		run->spool.is_dense = true;
	}
	return WEIR_OK;
}

/* The batch as a block in memory; *is_put false: there is no room. */
static int put_resident(struct weir_run_space *space, const struct weir_batch *batch, struct weir_run_chunk *chunk,
			bool *is_put, struct weir_error *err)
{
	struct weir_block_plan plan;
	int64_t footprint;
	int code;

	/* Before it is measured: mostly there is none. */
	if (atomic_load_explicit(&space->resident, memory_order_relaxed) >= space->resident_max)
		return WEIR_OK;
	code = weir_block_measure(batch, &plan, err);
	if (code)
		return code;
	footprint = (int64_t)whole(plan.size, PAGE_BYTES);
	if (atomic_fetch_add_explicit(&space->resident, footprint, memory_order_relaxed) + footprint <=
	    space->resident_max) {
		code = weir_chunk_of_batch(space->store, NULL, batch, &chunk->chunk, err);
		*is_put = !code;
		chunk->size = plan.size;
	}
	if (!*is_put)
		atomic_fetch_sub_explicit(&space->resident, footprint, memory_order_relaxed);
	return code;
}

/* The batch is the run's next chunk: a block in memory while there is room, else packed, on disk. */
static int put(struct weir_sorted_run *run, const struct weir_batch *batch, struct weir_run_chunk *chunk,
	       struct weir_error *err)
{
	struct weir_run_space *space = run->space;
	struct weir_packed_plan packed;
	bool is_put = false;
	uint8_t *to;
	int code = run->unwritten_count ? WEIR_OK : put_resident(space, batch, chunk, &is_put, err);

	if (code || is_put)
		return code;
	weir_packed_measure(batch, &packed);
	chunk->size = packed.size;
	code = unwritten_room(run, weir_run_chunk_footprint(chunk), err);
	if (code)
		return code;
	to = run->unwritten + run->unwritten_size;
	weir_packed_write(batch, &packed, to);
	memset(to + packed.size, 0, weir_run_chunk_footprint(chunk) - packed.size);
	return WEIR_OK;
}

int weir_run_append(struct weir_sorted_run *run, const struct weir_batch *batch, const uint8_t *fence,
		    uint32_t fence_size, struct weir_error *err)
{
	struct weir_run_space *space = run->space;
	struct weir_run_chunk chunk = {
		.row_first = run->row_count, .row_count = batch->row_count, .fence_size = weir_fence_bytes(fence_size)};
	uint8_t *copy = weir_alloc(space->account, chunk.fence_size, err);
	struct weir_batch *bare = NULL, *written = NULL;
	size_t *most;
	int code;

	if (!copy)
		return err->code;
	memcpy(copy, fence, chunk.fence_size);
	chunk.fence = copy;
	if (weir_fence_is_cut(chunk.fence_size)) {
		chunk.key_size = fence_size;
		chunk.key_hash = weir_hash_bytes(fence, fence_size, 0);
	}
	code = bare_of(run, batch, &chunk, &bare, err);
	/* Each chunk has its own. */
	if (!code)
		code = weir_batch_trim(batch->account, bare, &written, err);
	if (!code)
		code = put(run, written, &chunk, err);
	weir_batch_unref(written);
	weir_batch_unref(bare);
	if (!code)
		code = weir_list_push(&run->chunks, space->account, err, chunk);
	if (code) {
		chunk_release(space, &chunk);
		return code;
	}
	if (!chunk.chunk) {
		run->unwritten_size += weir_run_chunk_footprint(&chunk);
		run->unwritten_count++;
		most = weir_run_chunk_is_large(&chunk) ? &run->large_max : &run->footprint_max;
		if (weir_run_chunk_footprint(&chunk) > *most)
			*most = weir_run_chunk_footprint(&chunk);
	}
	run->row_count += batch->row_count;
	run->bytes += chunk.size;
	return WEIR_OK;
}

int weir_run_end(struct weir_sorted_run *run, const uint8_t *key, uint32_t size, struct weir_error *err)
{
	int code = write_chunks(run, err);

	if (code)
		return code;
	unwritten_free(run);
	size = weir_fence_bytes(size);
	run->last = weir_alloc(run->space->account, size, err);
	if (!run->last)
		return err->code;
	run->last_size = size;
	memcpy(run->last, key, size);
	return WEIR_OK;
}

uint64_t weir_run_open_bytes(const struct weir_sorted_run *run)
{
	uint64_t most = 0;

	for (size_t i = 0; i < run->chunks.count; i++) {
		const struct weir_run_chunk *chunk = &run->chunks.items[i];
		uint64_t numbers = chunk->is_bare ? 8 * (uint64_t)chunk->row_count : 0;
		uint64_t bytes = run->reserved || chunk->chunk || weir_run_chunk_is_large(chunk)
					 ? numbers
					 : weir_run_chunk_footprint(chunk) + numbers;

		most = bytes > most ? bytes : most;
	}
	return most + OPEN_BYTES + (uint64_t)run->space->column_count * OPEN_COLUMN_BYTES;
}

/* ---- runs that can be given on ---- */

int weir_batch_slice(const struct weir_batch *batch, int64_t first, int64_t count, struct weir_batch **out,
		     struct weir_error *err)
{
	uint32_t n = 0, column_count = batch->column_count;
	struct weir_array **columns = weir_alloc_zero(batch->account, (column_count + 1) * sizeof(*columns), err);

	if (!columns)
		return err->code;
	*out = NULL;
	for (; n < column_count; n++) {
		columns[n] = weir_array_slice(batch->columns[n], first, count, err);
		if (!columns[n])
			break;
	}
	if (n == column_count)
		*out = weir_batch_new(batch->account, batch->schema, count, columns, err);
	while (n-- > 0)
		weir_array_unref(columns[n]);
	weir_free(batch->account, columns, (column_count + 1) * sizeof(*columns));
	return *out ? WEIR_OK : err->code;
}

/* Rows [first, first + count) of the batch as the run's next chunk. */
static int keep(struct weir_sorted_run *run, const struct weir_batch *batch, const struct weir_key_list *keys,
		int64_t first, int64_t count, struct weir_error *err)
{
	struct weir_run_space *space = run->space;
	struct weir_run_chunk chunk = {.row_first = first, .row_count = count};
	const uint8_t *fence = weir_key_at(keys, (size_t)first, &chunk.fence_size);
	struct weir_batch *part = NULL;
	uint8_t *copy;
	int code;

	chunk.fence_size = weir_fence_bytes(chunk.fence_size);
	copy = weir_alloc(space->account, chunk.fence_size, err);
	if (!copy)
		return err->code;
	memcpy(copy, fence, chunk.fence_size);
	chunk.fence = copy;
	code = weir_batch_slice(batch, first, count, &part, err);
	if (!code)
		code = weir_chunk_of_batch(space->store, NULL, part, &chunk.chunk, err);
	weir_batch_unref(part);
	if (!code) {
		atomic_fetch_add_explicit(&space->resident, (int64_t)weir_chunk_footprint(chunk.chunk),
					  memory_order_relaxed);
		chunk.size = weir_chunk_size(chunk.chunk);
		run->bytes += chunk.size;
		code = weir_list_push(&run->chunks, space->account, err, chunk);
	}
	if (code)
		chunk_release(space, &chunk);
	else
		run->row_count += count;
	return code;
}

int weir_run_keep(struct weir_run_space *space, const struct weir_batch *batch, const struct weir_key_list *keys,
		  struct weir_sorted_run **out, struct weir_error *err)
{
	int64_t count = batch->row_count, bytes = weir_run_batch_bytes(batch), claimed, step;
	struct weir_sorted_run *run;
	const uint8_t *last;
	uint32_t size;
	int code = WEIR_OK;

	*out = NULL;
	if (!space->lying_bytes || space->bare || bytes < GIVEN_BYTES_MIN || bytes > space->resident_max)
		return WEIR_OK;
	/* None of it may have to go to disk: a merge has a chunk of each run that is there open, and these are
	 * large. */
	claimed = bytes + bytes / 8 + PAGE_BYTES;
	if (atomic_fetch_add_explicit(&space->resident, claimed, memory_order_relaxed) + claimed >
	    space->resident_max) {
		atomic_fetch_sub_explicit(&space->resident, claimed, memory_order_relaxed);
		return WEIR_OK;
	}
	run = weir_run_new(space, err);
	if (!run)
		code = err->code;
	step = count / (bytes / GIVEN_BYTES + 1) + 1;
	for (int64_t first = 0; first < count && !code; first += step)
		code = keep(run, batch, keys, first, count - first < step ? count - first : step, err);
	if (!code) {
		last = weir_key_at(keys, (size_t)count - 1, &size);
		code = weir_run_end(run, last, size, err);
	}
	atomic_fetch_sub_explicit(&space->resident, claimed, memory_order_relaxed);
	if (code)
		weir_sorted_run_free(space, run);
	else
		*out = run;
	return code;
}

struct weir_chunk *weir_run_give(struct weir_run_space *space, struct weir_run_chunk *chunk)
{
	if (weir_chunk_size(chunk->chunk) < GIVEN_BYTES_MIN / 2)
		return NULL;
	if (!chunk->is_given)
		atomic_fetch_sub_explicit(&space->resident, (int64_t)weir_chunk_footprint(chunk->chunk),
					  memory_order_relaxed);
	chunk->is_given = true;
	return weir_chunk_ref(chunk->chunk);
}
