#include "ops/exchange/parts.h"

#include <string.h>

enum {
	PAGE_BYTES_MIN = 4 << 10,
	PAGE_BYTES_MAX = 64 << 10,
	BITS_MAX = 8,
	BITS_MIN = 4,
	PIECE_PAGES = 16,
	FILL_ROWS = 128,
	AHEAD_BYTES = 256 << 10,
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
	parts->resident = &parts->resident_own;
	pthread_mutex_init(&parts->lock, NULL);
	/* Many parts have small tables, so that none has to be read twice; large pages are fewer reads. */
	while ((int64_t)((parts->page_bytes << parts->bits) * threads) > resident_max / 2) {
		if (parts->page_bytes > PAGE_BYTES_MIN)
			parts->page_bytes /= 2;
		else if (parts->bits > BITS_MIN)
			parts->bits--;
		else
			break;
	}
	parts->piece_bytes = parts->page_bytes * PIECE_PAGES;
}

uint32_t weir_parts_lanes(int64_t resident_max, uint32_t threads)
{
	int64_t most = resident_max / 2 / (PAGE_BYTES_MIN << BITS_MAX);

	return most < 1 ? 1 : most < (int64_t)threads ? (uint32_t)most : threads;
}

void weir_parts_share(struct weir_parts *parts, struct weir_parts *with)
{
	parts->bits = with->bits;
	parts->page_bytes = with->page_bytes;
	parts->piece_bytes = with->piece_bytes;
	parts->resident_max = with->resident_max;
	parts->resident = with->resident;
}

/* ---- memory of pages ---- */

static struct weir_parts_spare *spare_of(struct weir_parts_lane *lane, uint64_t size)
{
	return &lane->spare[size == lane->parts->page_bytes ? 2 : size != PAGE_BYTES_MIN];
}

/* Large pages have memory of their own; others are used again. */
static void memory_leave(struct weir_parts_lane *lane, uint8_t *memory, uint64_t size)
{
	struct weir_parts *parts = lane->parts;
	struct weir_parts_spare *spare = spare_of(lane, size);

	if (!memory)
		return;
	atomic_fetch_sub_explicit(parts->resident, (int64_t)size, memory_order_relaxed);
	lane->held -= (int64_t)size;
	if (size > parts->page_bytes)
		weir_free(parts->account, memory, size);
	else if (spare->count < spare->capacity)
		spare->items[spare->count++] = memory;
}

static int piece_take(struct weir_parts_lane *lane, struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	uint8_t *piece;
	int code = weir_list_reserve(&lane->pieces, parts->account, err, lane->pieces.count + 1);

	/* As many spare pages as there can be, so that none is lost. */
	for (uint32_t i = 0; i < 3 && !code; i++)
		code = weir_list_reserve(&lane->spare[i], parts->account, err,
					 i < 2 ? weir_parts_count(parts) : (lane->pieces.count + 1) * PIECE_PAGES);
	piece = code ? NULL : weir_alloc(parts->account, parts->piece_bytes, err);
	if (!piece)
		return err->code;
	lane->pieces.items[lane->pieces.count++] = piece;
	lane->piece_used = 0;
	return WEIR_OK;
}

static int memory_take(struct weir_parts_lane *lane, uint64_t size, uint8_t **out, struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	int code = WEIR_OK;

	if (size > parts->page_bytes) {
		*out = weir_alloc(parts->account, size, err);
		code = *out ? WEIR_OK : err->code;
	} else if (spare_of(lane, size)->count) {
		*out = spare_of(lane, size)->items[--spare_of(lane, size)->count];
	} else {
		if (!lane->pieces.count || lane->piece_used + size > parts->piece_bytes)
			code = piece_take(lane, err);
		if (!code) {
			*out = lane->pieces.items[lane->pieces.count - 1] + lane->piece_used;
			lane->piece_used += size;
		}
	}
	if (!code) {
		atomic_fetch_add_explicit(parts->resident, (int64_t)size, memory_order_relaxed);
		lane->held += (int64_t)size;
	}
	return code;
}

static void page_drop(struct weir_parts_lane *lane, struct weir_parts_page *page)
{
	memory_leave(lane, page->memory, page->size); /* what is on disk goes with the lane */
}

static void open_drop(struct weir_parts_lane *lane, struct weir_parts_list *part)
{
	memory_leave(lane, part->open.memory, part->open.size);
	part->open = (struct weir_row_page){0};
}

static void lane_drop(struct weir_parts_lane *lane)
{
	struct weir_parts *parts = lane->parts;

	for (uint32_t p = 0; lane->items && p < weir_parts_count(parts); p++) {
		struct weir_parts_list *part = &lane->items[p];

		open_drop(lane, part);
		for (size_t i = 0; i < part->pages.count; i++)
			page_drop(lane, &part->pages.items[i]);
		weir_list_release(&part->pages, parts->account);
	}
	for (size_t i = 0; i < lane->pieces.count; i++)
		weir_free(parts->account, lane->pieces.items[i], parts->piece_bytes);
	weir_list_release(&lane->pieces, parts->account);
	for (uint32_t i = 0; i < 3; i++)
		weir_list_release(&lane->spare[i], parts->account);
	weir_list_release(&lane->full, parts->account);
	weir_spool_release(&lane->spool);
	weir_free(parts->account, lane->items, lane->items ? weir_parts_count(parts) * sizeof(*lane->items) : 0);
	weir_free(parts->account, lane, sizeof(*lane));
}

void weir_parts_release(struct weir_parts *parts)
{
	if (!parts->account)
		return;
	for (size_t l = 0; l < parts->lanes.count; l++)
		lane_drop(parts->lanes.items[l]);
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
	weir_spool_init(&lane->spool, parts->store);
	lane->items = weir_alloc_zero(parts->account, weir_parts_count(parts) * sizeof(*lane->items), err);
	if (!lane->items) {
		lane_drop(lane);
		return err->code;
	}
	pthread_mutex_lock(&parts->lock);
	code = weir_list_push(&parts->lanes, parts->account, err, lane);
	pthread_mutex_unlock(&parts->lock);
	if (code) {
		lane_drop(lane);
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

	if (!part->open.memory)
		return WEIR_OK;
	code = weir_list_reserve(&part->pages, account, err, part->pages.count + 1);
	if (!code)
		code = weir_list_push(
			&lane->full, account, err,
			(struct weir_parts_full){.part = (uint32_t)(part - lane->items), .page = part->pages.count});
	if (code)
		return code;
	part->pages.items[part->pages.count++] = (struct weir_parts_page){
		.memory = part->open.memory, .size = part->open.size, .row_count = part->open.row_count};
	part->open = (struct weir_row_page){0};
	return WEIR_OK;
}

static int pages_spill(struct weir_parts_lane *lane, struct weir_parts_page **pages, uint32_t count,
		       struct weir_error *err)
{
	struct weir_spool_piece pieces[WEIR_SPOOL_PIECES_MAX];
	struct weir_spool_place places[WEIR_SPOOL_PIECES_MAX];
	int code;

	WEIR_ASSERT(count > 0 && count <= WEIR_SPOOL_PIECES_MAX);
	for (uint32_t i = 0; i < count; i++)
		pieces[i] = (struct weir_spool_piece){.bytes = pages[i]->memory, .size = pages[i]->size};
	code = weir_spool_write(&lane->spool, pieces, count, places, err);
	for (uint32_t i = 0; i < count && !code; i++) {
		memory_leave(lane, pages[i]->memory, pages[i]->size);
		pages[i]->memory = NULL;
		pages[i]->place = places[i];
		atomic_fetch_add_explicit(&lane->parts->spilled, pages[i]->size, memory_order_relaxed);
	}
	return code;
}

int weir_parts_lane_settle(struct weir_parts_lane *lane, struct weir_error *err)
{
	struct weir_parts *parts = lane->parts;
	struct weir_parts_page *pages[WEIR_SPOOL_PIECES_MAX];
	int64_t going = 0;
	uint32_t count = 0;
	int code = WEIR_OK;

	for (size_t i = 0; i < lane->full.count && !code; i++) {
		const struct weir_parts_full *full = &lane->full.items[i];

		if (atomic_load_explicit(parts->resident, memory_order_relaxed) - going > parts->resident_max) {
			pages[count] = &lane->items[full->part].pages.items[full->page];
			going += (int64_t)pages[count++]->size;
		}
		if (count == WEIR_SPOOL_PIECES_MAX) {
			code = pages_spill(lane, pages, count, err);
			going = count = 0;
		}
	}
	if (!code && count)
		code = pages_spill(lane, pages, count, err);
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
	size = size < bytes && bytes <= parts->page_bytes ? parts->page_bytes : size < bytes ? bytes : size;
	code = memory_take(lane, size, &part->open.memory, err);
	if (!code)
		part->open.size = part->open.bytes_begin = size;
	return code;
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
	if (code)
		return code;
	weir_row_page_put(&part->open, row_bytes, tail_bytes, row, tail);
	/* A page of one huge row is full: as many as there are parts would be more than the memory. It stays until the
	 * next settling. */
	return row_bytes + tail_bytes > parts->page_bytes ? page_close(lane, part, err) : WEIR_OK;
}

static int lane_make(struct weir_row_maker *maker, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		     struct weir_error *err)
{
	return make((struct weir_parts_lane *)maker, hash, tail_bytes, row, tail, err);
}

int weir_parts_lane_put(struct weir_parts_lane *lane, const struct weir_row_input *input, uint8_t **rows,
			struct weir_error *err)
{
	uint32_t which[WEIR_VECTOR_ROWS];
	uint8_t *tails[WEIR_VECTOR_ROWS];
	int code = weir_parts_lane_settle(lane, err);

	/* Some at a time, so that a row is still in the nearest cache when its next cell is written. */
	for (uint32_t first = 0, end; first < input->count && !code; first = end) {
		end = first + FILL_ROWS < input->count ? first + FILL_ROWS : input->count;
		for (uint32_t i = first; i < end && !code; i++) {
			which[i] = i;
			code = make(lane, input->hashes[i], input->bytes ? input->bytes[i] : 0, &rows[i], &tails[i],
				    err);
			__builtin_prefetch(rows[i], 1);
		}
		if (!code)
			weir_rows_fill(input, which + first, end - first, rows, tails);
	}
	return code;
}

int weir_parts_lane_room(struct weir_parts_lane *lane, uint64_t hash, uint64_t tail_bytes, uint8_t **row,
			 uint8_t **tail, struct weir_error *err)
{
	int code = lane->full.count ? weir_parts_lane_settle(lane, err) : WEIR_OK;

	return code ? code : make(lane, hash, tail_bytes, row, tail, err);
}

int weir_parts_lane_put_row(struct weir_parts_lane *lane, const uint8_t *row, struct weir_error *err)
{
	const struct weir_row_layout *layout = lane->parts->layout;
	uint8_t *to = NULL, *tail = NULL;
	int code = lane->full.count ? weir_parts_lane_settle(lane, err) : WEIR_OK;

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
						      .is_open = part->open.memory != NULL};
	}
}

void weir_parts_lane_cut(struct weir_parts_lane *lane)
{
	lane->full.count = 0;
	for (uint32_t p = 0; p < weir_parts_count(lane->parts); p++) {
		struct weir_parts_list *part = &lane->items[p];
		const struct weir_parts_mark *mark = &part->mark;
		/* The page that was open then may have been closed since. */
		size_t kept = mark->pages + (mark->is_open && mark->row_count && part->pages.count > mark->pages);

		if (mark->is_open && part->pages.count == mark->pages) {
			part->open.row_count = mark->row_count;
			part->open.rows_end = mark->rows_end;
			part->open.bytes_begin = mark->bytes_begin;
			continue;
		}
		open_drop(lane, part);
		while (part->pages.count > kept)
			page_drop(lane, &part->pages.items[--part->pages.count]);
		if (kept > mark->pages)
			part->pages.items[mark->pages].row_count = mark->row_count;
	}
	weir_parts_lane_mark(lane);
}

/* ---- a part in the place of another ---- */

bool weir_parts_lane_page(const struct weir_parts_lane *lane, uint32_t part, size_t *at, struct weir_row_page *out)
{
	const struct weir_parts_list *list = &lane->items[part];

	for (; *at < list->pages.count; ++*at) {
		const struct weir_parts_page *page = &list->pages.items[*at];

		if (!page->memory)
			continue;
		++*at;
		*out = (struct weir_row_page){.memory = page->memory, .size = page->size, .row_count = page->row_count};
		return true;
	}
	*out = list->open;
	return (*at)++ == list->pages.count && list->open.memory;
}

int weir_parts_lane_detach(struct weir_parts_lane *lane, uint32_t part, struct weir_parts_list *out,
			   struct weir_error *err)
{
	struct weir_parts_list *list = &lane->items[part], kept = {0};
	size_t in_memory = 0;
	int code;

	/* A page of it that went to disk now would stay, and its rows be there twice. */
	for (size_t i = 0; i < lane->full.count; i++)
		WEIR_ASSERT(lane->full.items[i].part != part);
	for (size_t i = 0; i < list->pages.count; i++)
		in_memory += list->pages.items[i].memory != NULL;
	code = weir_list_reserve(&kept.pages, lane->parts->account, err, list->pages.count - in_memory);
	if (code)
		return code;
	*out = *list;
	out->pages.count = 0;
	for (size_t i = 0; i < list->pages.count; i++) {
		if (list->pages.items[i].memory)
			out->pages.items[out->pages.count++] = list->pages.items[i];
		else
			kept.pages.items[kept.pages.count++] = list->pages.items[i];
	}
	out->mark.pages = kept.pages.count;
	*list = kept;
	return WEIR_OK;
}

void weir_parts_lane_drop(struct weir_parts_lane *lane, struct weir_parts_list *list)
{
	open_drop(lane, list);
	for (size_t i = 0; i < list->pages.count; i++)
		page_drop(lane, &list->pages.items[i]);
	weir_list_release(&list->pages, lane->parts->account);
}

void weir_parts_lane_attach(struct weir_parts_lane *lane, uint32_t part, struct weir_parts_list *list)
{
	struct weir_parts_list made = lane->items[part];
	size_t kept = list->mark.pages;

	/* The list has room: what is kept was in it. */
	lane->full.count = 0;
	lane->items[part] = *list;
	for (size_t i = 0; i < kept; i++)
		lane->items[part].pages.items[lane->items[part].pages.count++] = made.pages.items[i];
	if (made.pages.count)
		memmove(made.pages.items, made.pages.items + kept,
			(made.pages.count - kept) * sizeof(*made.pages.items));
	made.pages.count -= kept;
	weir_parts_lane_drop(lane, &made);
	*list = (struct weir_parts_list){0};
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
				open_drop(lane, &lane->items[p]);
		}
		if (!code)
			code = weir_parts_lane_settle(lane, err);
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
			bytes += of_lane->pages.items[i].size;
	}
	return bytes;
}

void weir_part_reader_open(struct weir_part_reader *reader, struct weir_parts *parts, uint32_t part,
			   struct weir_account *account)
{
	weir_part_reader_close(reader);
	*reader = (struct weir_part_reader){.parts = parts, .account = account, .part = part};
}

/* A page on disk is read into memory of the reader's own. */
static int page_read(struct weir_part_reader *reader, const struct weir_parts_page *page, const uint8_t **rows,
		     struct weir_error *err)
{
	if (page->memory) {
		*rows = page->memory;
		return WEIR_OK;
	}
	if (reader->size < page->size) {
		weir_free(reader->account, reader->memory, reader->size);
		reader->size = 0;
		reader->memory = weir_alloc(reader->account, page->size, err);
		if (!reader->memory)
			return err->code;
		reader->size = page->size;
	}
	*rows = reader->memory;
	atomic_fetch_add_explicit(&reader->parts->read, page->size, memory_order_relaxed);
	return weir_spool_read(&reader->parts->lanes.items[reader->lane]->spool, page->place, reader->memory,
			       page->size, err);
}

/* While a page is looked at, the system may fetch one that comes a little later. */
static void expect(const struct weir_part_reader *reader, const struct weir_parts_list *part)
{
	size_t ahead = AHEAD_BYTES / reader->parts->page_bytes, first = reader->page ? reader->page + ahead : 0;

	for (size_t i = first; i <= reader->page + ahead && i < part->pages.count; i++)
		if (!part->pages.items[i].memory)
			weir_spool_expect(&reader->parts->lanes.items[reader->lane]->spool, part->pages.items[i].place,
					  part->pages.items[i].size);
}

int weir_part_reader_next(struct weir_part_reader *reader, const uint8_t **rows, uint32_t *row_count,
			  struct weir_error *err)
{
	struct weir_parts *parts = reader->parts;

	*row_count = 0;
	for (; reader->lane < parts->lanes.count; reader->lane++, reader->page = 0) {
		const struct weir_parts_list *part = &parts->lanes.items[reader->lane]->items[reader->part];

		while (reader->page < part->pages.count) {
			const struct weir_parts_page *page;
			int code;

			expect(reader, part);
			page = &part->pages.items[reader->page++];
			if (!page->row_count)
				continue;
			code = page_read(reader, page, rows, err);
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
	weir_free(reader->account, reader->memory, reader->size);
	*reader = (struct weir_part_reader){0};
}
