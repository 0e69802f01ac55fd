/* The rows of a batch as chunks of a run, in order: where these end. */
#include "ops/exchange/run.h"

#include <string.h>

enum {
	TAKEN_PARTS = 4,    /* of a run that becomes chunks: about so much of it is there twice */
	MARK_ROWS_MIN = 64, /* between two marks, in the run that they are taken from */
	NUMBER_KEY_BYTES = 9,
	UNLIKE_TIMES = 4, /* what a chunk is to have at most */
	PAGE_BYTES = 4 << 10,
};

/* So many rows more or less that a chunk that takes `size` bytes takes whole pages. */
static int64_t rows_to_page(const struct weir_batch *batch, uint64_t size)
{
	int64_t row_bytes = weir_run_batch_bytes(batch) / batch->row_count,
		pages = (int64_t)(size + PAGE_BYTES / 2) / PAGE_BYTES;
	/* columns are filled up to 64 bytes */
	int64_t left = pages * PAGE_BYTES - (int64_t)size - 64 * (int64_t)batch->column_count;

	/* A row is somewhat more than that: so too many go, or too few come, rather than the other way round. */
	return left < 0 && row_bytes ? -((row_bytes - 1 - left) / row_bytes) : left / (row_bytes + 1);
}

/* How many of rows first … count − 1, in order, are in the piece that the first one is in. */
static int64_t piece_rows(const struct weir_key_list *keys, const uint32_t *rows, int64_t first, int64_t count)
{
	int64_t low = first + 1, high = count;
	uint32_t size;
	const uint8_t *key = weir_key_at(keys, rows[first], &size);

	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if (!memcmp(weir_key_at(keys, rows[middle], &size), key, NUMBER_KEY_BYTES))
			low = middle + 1;
		else
			high = middle;
	}
	return low - first;
}

/* ---- marks ---- */

void weir_run_marks_free(struct weir_account *account, struct weir_run_marks *marks)
{
	if (marks)
		weir_free(account, marks, sizeof(*marks) + marks->size);
}

const uint8_t *weir_run_mark(const struct weir_run_marks *marks, uint32_t number, uint32_t *size)
{
	uint32_t begin = number ? marks->ends[number - 1] : 0;

	*size = marks->ends[number] - begin;
	return marks->bytes + begin;
}

/* Keys that cut these rows, which are in order, into parts that are about alike. */
static int marks_new(struct weir_account *account, const struct weir_key_list *keys, const uint32_t *rows,
		     int64_t count, struct weir_run_marks **out, struct weir_error *err)
{
	const uint8_t *before = NULL;
	uint32_t size = 0, before_size = 0, bytes = 0;

	for (int64_t i = 1; i <= WEIR_RUN_MARKS; i++) {
		weir_key_at(keys, rows[i * count / (WEIR_RUN_MARKS + 1)], &size);
		bytes += weir_fence_bytes(size);
	}
	*out = weir_alloc_zero(account, sizeof(**out) + bytes, err);
	if (!*out)
		return err->code;
	(*out)->size = bytes;
	bytes = 0;
	for (int64_t i = 1; i <= WEIR_RUN_MARKS; i++) {
		const uint8_t *key = weir_key_at(keys, rows[i * count / (WEIR_RUN_MARKS + 1)], &size);

		size = weir_fence_bytes(size);
		if (before && !weir_key_compare(before, before_size, key, size))
			continue;
		memcpy((*out)->bytes + bytes, key, size);
		before = key;
		before_size = size;
		bytes += size;
		(*out)->ends[(*out)->count++] = bytes;
	}
	return WEIR_OK;
}

/* The marks of all runs: the first that is large enough gives them. NULL: there are none. */
static int marks_of(struct weir_run_space *space, const struct weir_key_list *keys, const uint32_t *rows, int64_t count,
		    struct weir_run_marks **out, struct weir_error *err)
{
	struct weir_run_marks *mine = NULL;
	int code;

	/* acquire, and release below: whoever sees them sees what is in them. */
	*out = atomic_load_explicit(&space->marks, memory_order_acquire);
	if (*out || !space->has_marks || count < MARK_ROWS_MIN * (WEIR_RUN_MARKS + 1))
		return WEIR_OK;
	code = marks_new(space->account, keys, rows, count, &mine, err);
	if (code)
		return code;
	if (atomic_compare_exchange_strong_explicit(&space->marks, out, mine, memory_order_acq_rel,
						    memory_order_acquire))
		*out = mine;
	else
		weir_run_marks_free(space->account, mine);
	return WEIR_OK;
}

/* How many of these rows, which are in order, are before a mark. */
static int64_t rows_before_mark(const struct weir_run_marks *marks, uint32_t number, const struct weir_key_list *keys,
				const uint32_t *rows, int64_t low, int64_t high)
{
	uint32_t size, mark_size;
	const uint8_t *mark = weir_run_mark(marks, number, &mark_size);

	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		const uint8_t *key = weir_key_at(keys, rows[middle], &size);

		if (weir_key_compare(key, size, mark, mark_size) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Where marks fall in a run, and which is the next one. */
struct mark_places {
	const struct weir_run_marks *marks;
	uint32_t next;
	int64_t rows[WEIR_RUN_MARKS]; /* so many are before it */
};

static void mark_places_init(struct mark_places *places, const struct weir_run_marks *marks,
			     const struct weir_key_list *keys, const uint32_t *rows, int64_t count)
{
	places->marks = marks;
	places->next = 0;
	for (uint32_t i = 0; marks && i < marks->count; i++)
		places->rows[i] = rows_before_mark(marks, i, keys, rows, i ? places->rows[i - 1] : 0, count);
}

/* How many rows the next chunk has, so that it ends where a mark is: of few rows that are left before the next mark,
 * with those behind it. */
static int64_t rows_to_mark(struct mark_places *places, int64_t first, int64_t here, int64_t step)
{
	int64_t rows = 0;
	uint32_t next;

	if (!places->marks)
		return here;
	while (places->next < places->marks->count && places->rows[places->next] <= first)
		places->next++;
	for (next = places->next; next < places->marks->count && places->rows[next] - first <= step + step / 4; next++)
		rows = places->rows[next] - first;
	if (rows >= step / 2)
		return rows;
	if (next == places->marks->count)
		return here;
	/* As many chunks as there have to be, all alike. */
	rows = places->rows[next] - first;
	return (rows + (rows + step / 2) / step - 1) / ((rows + step / 2) / step);
}

/* The number of the first mark that all rows before `row` are before, from 1 on; 0: there is none. */
static uint32_t mark_above(const struct mark_places *places, int64_t row)
{
	for (uint32_t i = places->next; places->marks && i < places->marks->count; i++)
		if (places->rows[i] >= row)
			return i + 1;
	return 0;
}

/* How many rows the next chunk has. Where ranges are pieces that somebody asked for, none should begin inside a chunk,
 * which would be read twice. */
static int64_t chunk_rows(const struct weir_run_space *space, const struct weir_key_list *keys, const uint32_t *rows,
			  int64_t first, int64_t count, int64_t step)
{
	int64_t here = count - first < step ? count - first : step, piece;

	if (!space->repeats)
		return here;
	piece = piece_rows(keys, rows, first, count);
	/* As many chunks as there have to be, all alike. */
	if (piece > step + step / 4)
		return (piece + (piece + step / 2) / step - 1) / ((piece + step / 2) / step);
	if (piece >= step / 2)
		return piece;
	/* Small ones go together, the last one whole if it is one of them. */
	for (int64_t end = first + piece; end < first + here; end += piece) {
		piece = piece_rows(keys, rows, end, count);
		if (end + piece > first + here && end - first >= step / 4)
			return end - first;
	}
	return here;
}

/* Rows first … first + *count − 1, or fewer where some are far longer than others: a large one by itself. */
static int slice_alike(const struct weir_run_space *space, const struct weir_batch *batch, int64_t first,
		       int64_t *count, struct weir_batch **out, struct weir_error *err)
{
	int code = weir_batch_slice(batch, first, *count, out, err);

	while (!code && *count > 1 && weir_run_batch_bytes(*out) > UNLIKE_TIMES * space->chunk_bytes) {
		weir_batch_unref(*out);
		*out = NULL;
		*count /= 2;
		code = weir_batch_slice(batch, first, *count, out, err);
	}
	return code;
}

/* ---- rows in order ---- */

/* A batch's rows in the order of `rows`: some of them at a time, or all at once, where columns are small. */
struct taking {
	struct weir_account *account;
	struct weir_batch *batch; /* NULL: its columns are over */
	const uint32_t *rows;
	int64_t count, at_once;
	int64_t *numbers;         /* of rows that are taken */
	struct weir_batch *taken; /* rows first … end − 1 */
	int64_t first, end;
};

static bool has_small_columns(const struct weir_batch *batch)
{
	int64_t bytes = weir_run_batch_bytes(batch);

	for (uint32_t i = 0; i < batch->column_count; i++)
		if (weir_array_rows_bytes(batch->columns[i], 0, batch->row_count) > bytes / TAKEN_PARTS)
			return false;
	return true;
}

/* Column by column, and many rows of each: what is read of it, at random, stays in the cache until its neighbours are
 * wanted. Best all of them: of half a million numbers a value takes half as long as where a quarter is taken at a
 * time. */
static int taking_init(struct taking *taking, int64_t rows_min, struct weir_error *err)
{
	taking->at_once = has_small_columns(taking->batch) ? taking->count : taking->count / TAKEN_PARTS;
	taking->at_once = taking->at_once > rows_min ? taking->at_once : rows_min;
	taking->at_once = taking->at_once < taking->count ? taking->at_once : taking->count;
	taking->numbers = weir_alloc(taking->account, (size_t)taking->at_once * sizeof(*taking->numbers), err);
	return taking->numbers ? WEIR_OK : err->code;
}

static void taking_release(struct taking *taking)
{
	weir_batch_unref(taking->taken);
	weir_batch_unref(taking->batch);
	weir_free(taking->account, taking->numbers,
		  taking->numbers ? (size_t)taking->at_once * sizeof(*taking->numbers) : 0);
}

/* Each column goes when its rows have been taken, if nobody else has it. */
static int take_all(struct taking *taking, struct weir_error *err)
{
	uint32_t count = taking->batch->column_count;
	struct weir_schema *schema = weir_schema_ref(taking->batch->schema);
	struct weir_array **columns =
		weir_alloc_zero(taking->account, (count + 1) * sizeof(struct weir_array *), err);
	int code = columns ? WEIR_OK : err->code;

	for (uint32_t i = 0; i < count && !code; i++)
		columns[i] = weir_array_ref(taking->batch->columns[i]);
	weir_batch_unref(taking->batch);
	taking->batch = NULL;
	for (uint32_t i = 0; i < count && !code; i++) {
		struct weir_array *from = columns[i];

		code = weir_arrays_take(taking->account, &from, 1, taking->numbers, taking->count, &columns[i], err);
		weir_array_unref(from);
	}
	if (!code) {
		taking->taken = weir_batch_new(taking->account, schema, taking->count, columns, err);
		code = taking->taken ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; columns && i < count; i++)
		weir_array_unref(columns[i]);
	weir_free(taking->account, columns, columns ? (count + 1) * sizeof(struct weir_array *) : 0);
	weir_schema_unref(schema);
	return code;
}

/* The next rows, from `first` on. */
static int take_next(struct taking *taking, int64_t first, struct weir_error *err)
{
	int64_t count = taking->count - first < taking->at_once ? taking->count - first : taking->at_once;

	weir_batch_unref(taking->taken);
	taking->taken = NULL;
	taking->first = first;
	taking->end = first + count;
	for (int64_t i = 0; i < count; i++)
		taking->numbers[i] = taking->rows[first + i];
	return count == taking->count ? take_all(taking, err)
				      : weir_batch_take(taking->account, taking->batch, taking->numbers, count,
							&taking->taken, err);
}

int weir_sorted_run_new(struct weir_run_space *space, struct weir_account *account, struct weir_batch *batch,
			const struct weir_key_list *keys, const uint32_t *rows, int64_t count,
			const struct weir_draw *draw, struct weir_sorted_run **out, struct weir_error *err)
{
	struct weir_sorted_run *run = weir_run_new(space, err);
	struct taking taking = {.account = account, .batch = batch, .rows = rows, .count = count};
	struct weir_run_marks *marks = NULL;
	struct mark_places places;
	int64_t step, most;
	int code = run ? WEIR_OK : err->code;

	if (code) {
		weir_batch_unref(batch);
		return code;
	}
	code = marks_of(space, keys, rows, count, &marks, err);
	mark_places_init(&places, marks, keys, rows, count);
	/* A merge has the numbers as well while a chunk is open. */
	step = weir_run_chunk_rows(
		space,
		(uint64_t)(weir_run_batch_bytes(batch) + (draw ? batch->row_count * (int64_t)sizeof(uint64_t) : 0)),
		batch->row_count);
	step = step > count ? count : step;
	most = step + step / 2;
	if (!code)
		code = taking_init(&taking, most, err);
	if (!code && draw)
		code = weir_drawn_new(space->account, draw, &run->drawn, err);
	for (int64_t first = 0, here; first < count && !code; first += here) {
		struct weir_batch *part = NULL;
		const uint8_t *fence;
		uint32_t fence_size;

		here = rows_to_mark(&places, first, chunk_rows(space, keys, rows, first, count, step), step);
		here = here < most ? here : most;
		if (first + here > taking.end)
			code = take_next(&taking, first, err);
		fence = weir_key_at(keys, rows[first], &fence_size);
		if (!code)
			code = slice_alike(space, taking.taken, first - taking.first, &here, &part, err);
		if (!code)
			code = weir_run_append(run, part, fence, fence_size, err);
		weir_batch_unref(part);
		if (!code)
			run->chunks.items[run->chunks.count - 1].mark = mark_above(&places, first + here);
		/* The others are as large, unless values are of any size. */
		if (!code && !first && !marks && here == step && here < count) {
			step += rows_to_page(taking.taken, run->chunks.items[0].size);
			step = step > most * 4 / 5 ? most * 4 / 5 : step;
			step = step < 1 ? 1 : step; /* a row that is larger than a chunk is one */
		}
	}
	taking_release(&taking);
	if (!code) {
		uint32_t size;
		const uint8_t *key = weir_key_at(keys, rows[count - 1], &size);

		code = weir_run_end(run, key, size, err);
	}
	if (code)
		weir_sorted_run_free(space, run);
	else
		*out = run;
	return code;
}
