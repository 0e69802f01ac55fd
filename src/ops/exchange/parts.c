#include "ops/exchange/parts.h"

#include <string.h>

enum {
	PAGE_BYTES_MIN = 4 << 10,
	PAGE_BYTES_MAX = 64 << 10,
	BITS_MAX = 8,
	BITS_MIN = 4,
};

static int lane_make(struct weir_row_maker *maker, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		     struct weir_error *err);

void weir_parts_init(struct weir_parts *parts, struct weir_account *account, struct weir_store *store,
		     const struct weir_row_layout *layout, int64_t resident_max, uint32_t threads)
{
	*parts = (struct weir_parts){.account = account,
				     .store = store,
				     .layout = layout,
				     .bits = BITS_MAX,
				     .page_bytes = PAGE_BYTES_MAX,
				     .resident_max = resident_max};
	pthread_mutex_init(&parts->lock, NULL);
	/* Large pages make for long writes; many parts for small tables. */
	while ((int64_t)((parts->page_bytes << parts->bits) * threads) > resident_max / 2) {
		if (parts->page_bytes > 4 * PAGE_BYTES_MIN || (parts->bits == BITS_MIN && parts->page_bytes > PAGE_BYTES_MIN))
			parts->page_bytes /= 2;
		else if (parts->bits > BITS_MIN)
			parts->bits--;
		else
			break;
	}
}

static void page_drop(struct weir_parts *parts, struct weir_chunk *chunk)
{
	if (weir_chunk_is_resident(chunk))
		atomic_fetch_sub_explicit(&parts->resident, (int64_t)weir_chunk_footprint(chunk), memory_order_relaxed);
	weir_chunk_unref(chunk);
}

static void open_drop(struct weir_parts *parts, struct weir_parts_list *part)
{
	if (part->chunk)
		page_drop(parts, part->chunk);
	part->chunk = NULL;
	part->open = (struct weir_row_page){0};
}

void weir_parts_release(struct weir_parts *parts)
{
	if (!parts->account)
		return;
	for (size_t l = 0; l < parts->lanes.count; l++) {
		struct weir_parts_lane *lane = parts->lanes.items[l];

		for (uint32_t p = 0; p < weir_parts_count(parts); p++) {
			struct weir_parts_list *part = &lane->items[p];

			open_drop(parts, part);
			for (size_t i = 0; i < part->pages.count; i++)
				page_drop(parts, part->pages.items[i].chunk);
			weir_list_release(&part->pages, parts->account);
		}
		weir_list_release(&lane->full, parts->account);
		weir_free(parts->account, lane->items, weir_parts_count(parts) * sizeof(*lane->items));
		weir_free(parts->account, lane, sizeof(*lane));
	}
	weir_list_release(&parts->lanes, parts->account);
	pthread_mutex_destroy(&parts->lock);
	*parts = (struct weir_parts){0};
}

int weir_parts_lane_new(struct weir_parts *parts, struct weir_parts_lane **out, struct weir_error *err)
{
	struct weir_parts_lane *lane = weir_alloc_zero(parts->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	lane->maker.make = lane_make;
	lane->parts = parts;
	lane->items = weir_alloc_zero(parts->account, weir_parts_count(parts) * sizeof(*lane->items), err);
	if (!lane->items) {
		weir_free(parts->account, lane, sizeof(*lane));
		return err->code;
	}
	pthread_mutex_lock(&parts->lock);
	code = weir_list_push(&parts->lanes, parts->account, err, lane);
	pthread_mutex_unlock(&parts->lock);
	if (code) {
		weir_free(parts->account, lane->items, weir_parts_count(parts) * sizeof(*lane->items));
		weir_free(parts->account, lane, sizeof(*lane));
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

/* ---- filling ---- */

/* The open page gets no rows any more. */
static int page_close(struct weir_parts_lane *lane, struct weir_parts_list *part, struct weir_error *err)
{
	struct weir_account *account = lane->parts->account;
	int code;

	if (!part->chunk)
		return WEIR_OK;
	code = weir_list_reserve(&part->pages, account, err, part->pages.count + 1);
	if (!code)
		code = weir_list_push(&lane->full, account, err,
				      (struct weir_parts_full){.chunk = part->chunk, .size = part->open.size});
	if (code)
		return code;
	part->pages.items[part->pages.count++] =
		(struct weir_parts_page){.chunk = part->chunk, .row_count = part->open.row_count};
	part->chunk = NULL;
	part->open = (struct weir_row_page){0};
	return WEIR_OK;
}

/* Full pages are sealed, and go to disk where the share is used up. */
static int pages_seal(struct weir_parts_lane *lane, bool spills, struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	int code = WEIR_OK;

	for (size_t i = 0; i < lane->full.count; i++) {
		struct weir_chunk *chunk = lane->full.items[i].chunk;
		int64_t footprint;

		weir_chunk_seal(chunk, lane->full.items[i].size);
		if (code || !spills || atomic_load_explicit(&parts->resident, memory_order_relaxed) <= parts->resident_max)
			continue;
		footprint = (int64_t)weir_chunk_footprint(chunk);
		code = weir_chunk_spill(chunk, err);
		if (code)
			continue;
		atomic_fetch_sub_explicit(&parts->resident, footprint, memory_order_relaxed);
		atomic_fetch_add_explicit(&parts->spilled, (uint64_t)footprint, memory_order_relaxed);
	}
	lane->full.count = 0;
	return code;
}

static int page_open(struct weir_parts_lane *lane, struct weir_parts_list *part, uint64_t bytes, struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	/* Parts with a few rows have small pages. */
	uint64_t size = part->pages.count < 2 ? (uint64_t)PAGE_BYTES_MIN << (2 * part->pages.count) : parts->page_bytes;
	int code = page_close(lane, part, err);

	if (code)
		return code;
	size = size > parts->page_bytes ? parts->page_bytes : size;
	size = size < bytes ? bytes : size;
	code = weir_chunk_reserve(parts->store, size, &part->chunk, &part->open.memory, err);
	if (code)
		return code;
	atomic_fetch_add_explicit(&parts->resident, (int64_t)weir_chunk_footprint(part->chunk), memory_order_relaxed);
	part->open.size = part->open.bytes_begin = size;
	return WEIR_OK;
}

static inline int make(struct weir_parts_lane *lane, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		       struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	struct weir_parts_list *part = &lane->items[weir_parts_of(parts, hash)];
	uint32_t row_bytes = parts->layout->row_bytes;
	int code;

	if (__builtin_expect(weir_row_page_put(&part->open, row_bytes, tail_bytes, row, tail), 1))
		return WEIR_OK;
	code = page_open(lane, part, row_bytes + tail_bytes, err);
	if (!code)
		weir_row_page_put(&part->open, row_bytes, tail_bytes, row, tail);
	return code;
}

static int lane_make(struct weir_row_maker *maker, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		     struct weir_error *err)
{
	return make((struct weir_parts_lane *)maker, hash, tail_bytes, row, tail, err);
}

int weir_parts_lane_put(struct weir_parts_lane *lane, const struct weir_row_input *input, uint8_t **rows, struct weir_error *err)
{
	uint32_t which[WEIR_VECTOR_ROWS];
	uint8_t *tails[WEIR_VECTOR_ROWS];
	int code = pages_seal(lane, true, err);

	for (uint32_t i = 0; i < input->count && !code; i++) {
		which[i] = i;
		code = make(lane, input->hashes[i], input->bytes ? input->bytes[i] : 0, &rows[i], &tails[i], err);
	}
	if (!code)
		weir_rows_fill(input, which, input->count, rows, tails);
	return code;
}

int weir_parts_lane_put_row(struct weir_parts_lane *lane, const uint8_t *row, struct weir_error *err)
{
	const struct weir_row_layout *layout = lane->parts->layout;
	uint8_t *to = NULL, *tail = NULL;
	int code = lane->full.count ? pages_seal(lane, true, err) : WEIR_OK;

	if (!code)
		code = make(lane, weir_row_hash(row), weir_row_tail_bytes(layout, row), &to, &tail, err);
	if (!code)
		weir_row_copy(layout, row, to, tail);
	return code;
}

/* ---- splits ---- */

void weir_parts_lane_mark(struct weir_parts_lane *lane)
{
	for (uint32_t p = 0; p < weir_parts_count(lane->parts); p++) {
		struct weir_parts_list *part = &lane->items[p];

		part->mark = (struct weir_parts_mark){.pages = part->pages.count,
						     .row_count = part->open.row_count,
						     .rows_end = part->open.rows_end,
						     .bytes_begin = part->open.bytes_begin,
						     .is_open = part->chunk != NULL};
	}
}

void weir_parts_lane_cut(struct weir_parts_lane *lane)
{
	struct weir_parts *parts = lane->parts;
	struct weir_error ignored = {0};

	pages_seal(lane, false, &ignored);
	for (uint32_t p = 0; p < weir_parts_count(parts); p++) {
		struct weir_parts_list *part = &lane->items[p];
		const struct weir_parts_mark *mark = &part->mark;
		/* The page that was open then may have been sealed since. */
		size_t kept = mark->pages + (mark->is_open && mark->row_count && part->pages.count > mark->pages);

		if (mark->is_open && part->pages.count == mark->pages) {
			part->open.row_count = mark->row_count;
			part->open.rows_end = mark->rows_end;
			part->open.bytes_begin = mark->bytes_begin;
			continue;
		}
		open_drop(parts, part);
		while (part->pages.count > kept)
			page_drop(parts, part->pages.items[--part->pages.count].chunk);
		if (kept > mark->pages)
			part->pages.items[mark->pages].row_count = mark->row_count;
	}
	weir_parts_lane_mark(lane);
}

int weir_parts_finish(struct weir_parts *parts, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t l = 0; l < parts->lanes.count && !code; l++) {
		struct weir_parts_lane *lane = parts->lanes.items[l];

		for (uint32_t p = 0; p < weir_parts_count(parts) && !code; p++) {
			if (lane->items[p].open.row_count)
				code = page_close(lane, &lane->items[p], err);
			else
				open_drop(parts, &lane->items[p]);
		}
		if (!code)
			code = pages_seal(lane, true, err);
	}
	return code;
}

/* ---- reading ---- */

uint64_t weir_parts_rows(const struct weir_parts *parts, uint32_t part)
{
	uint64_t rows = 0;

	for (size_t l = 0; l < parts->lanes.count; l++) {
		const struct weir_parts_list *of_lane = &parts->lanes.items[l]->items[part];

		for (size_t i = 0; i < of_lane->pages.count; i++)
			rows += of_lane->pages.items[i].row_count;
	}
	return rows;
}

uint64_t weir_parts_bytes(const struct weir_parts *parts, uint32_t part)
{
	uint64_t bytes = 0;

	for (size_t l = 0; l < parts->lanes.count; l++) {
		const struct weir_parts_list *of_lane = &parts->lanes.items[l]->items[part];

		for (size_t i = 0; i < of_lane->pages.count; i++)
			bytes += weir_chunk_size(of_lane->pages.items[i].chunk);
	}
	return bytes;
}

void weir_part_reader_open(struct weir_part_reader *reader, struct weir_parts *parts, uint32_t part,
			   struct weir_account *account)
{
	weir_part_reader_close(reader);
	*reader = (struct weir_part_reader){.parts = parts, .account = account, .part = part};
}

static void page_leave(struct weir_part_reader *reader)
{
	if (reader->pinned)
		weir_chunk_unpin(reader->pinned);
	reader->pinned = NULL;
}

/* A page on disk is read into memory of the reader's own, so that nothing of the store has to make room for it. */
static int page_read(struct weir_part_reader *reader, struct weir_chunk *chunk, const uint8_t **rows, struct weir_error *err)
{
	uint64_t size = weir_chunk_size(chunk);
	int code;

	if (weir_chunk_is_resident(chunk)) {
		code = weir_chunk_pin(chunk, rows, err);
		reader->pinned = code ? NULL : chunk;
		return code;
	}
	if (reader->size < size) {
		weir_free(reader->account, reader->memory, reader->size);
		reader->size = 0;
		reader->memory = weir_alloc(reader->account, size, err);
		if (!reader->memory)
			return err->code;
		reader->size = size;
	}
	code = weir_chunk_read(chunk, reader->memory, err);
	*rows = reader->memory;
	atomic_fetch_add_explicit(&reader->parts->read, size, memory_order_relaxed);
	return code;
}

int weir_part_reader_next(struct weir_part_reader *reader, const uint8_t **rows, uint32_t *row_count, struct weir_error *err)
{
	struct weir_parts *parts = reader->parts;

	page_leave(reader);
	*row_count = 0;
	for (; reader->lane < parts->lanes.count; reader->lane++, reader->page = 0) {
		const struct weir_parts_list *part = &parts->lanes.items[reader->lane]->items[reader->part];

		while (reader->page < part->pages.count) {
			const struct weir_parts_page *page = &part->pages.items[reader->page++];
			int code;

			if (!page->row_count)
				continue;
			code = page_read(reader, page->chunk, rows, err);
			if (!code)
				*row_count = page->row_count;
			return code;
		}
	}
	return WEIR_OK;
}

void weir_part_reader_close(struct weir_part_reader *reader)
{
	if (!reader->parts)
		return;
	page_leave(reader);
	weir_free(reader->account, reader->memory, reader->size);
	*reader = (struct weir_part_reader){0};
}
