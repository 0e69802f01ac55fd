/* parts: rows in partitions, by the highest bits of their hash, kept between two phases of a run.
 *
 *     lane 0:  part 0 ┌──────┐┌──────┐┌────┐   part 1 ┌──────┐┌───┐   …        a list of pages for each lane and part;
 *     lane 1:  part 0 ┌──────┐┌───┐            part 1 ┌───┐           …        full pages are sealed, the last one is open
 *
 * Pages are raw bytes, rows as in rows.h, in memory of the session's that is cut from pieces of a lane. All pages of an
 * exchange together have a share of the memory; a page that is full when the share is used up goes to disk, by the lane
 * that filled it, and stays there; its memory is the lane's next page. (As chunks of the store they would cost two
 * hundred bytes each of bookkeeping, beside a copy; there are a hundred thousand.)
 *
 * Order of calls: weir_parts_init; a lane: weir_parts_lane_new, then for each split  mark ─▶ put … ─▶ (nothing | cut back to
 * the mark); when all lanes are done, weir_parts_finish; then any number of readers, also several times over the same
 * part.
 *
 * Threads: a lane of parts belongs to one thread; the list of lanes has a lock (rank: alone), figures are atomic. After
 * finish everything is read only.
 */
#ifndef WEIR_OPS_EXCHANGE_PARTS_H
#define WEIR_OPS_EXCHANGE_PARTS_H

#include "store/store.h"
#include "ops/exchange/rows.h"

#include <pthread.h>

struct weir_parts_page {
	uint8_t *memory; /* NULL: it is on disk */
	uint64_t size;
	struct weir_spool_place place; /* where it is there */
	uint32_t row_count;
};

/* What one lane has put into one part. */
struct weir_parts_list {
	struct weir_row_page open; /* memory NULL: none */
	struct weir_parts_pages WEIR_LIST(struct weir_parts_page) pages;
	/* Where a split began: so many sealed pages, and so much in the open one. */
	struct weir_parts_mark {
		size_t pages;
		uint32_t row_count;
		uint64_t rows_end, bytes_begin;
		bool is_open;
	} mark;
};

/* A maker of rows, each in the part of its hash. */
struct weir_parts_lane {
	struct weir_row_maker maker;
	struct weir_parts *parts;
	struct weir_parts_list *items;
	/* Pages that are full, but may still be written to by whoever has just made rows in them: a part, and which of
	 * its. */
	struct WEIR_LIST(struct weir_parts_full {
		uint32_t part;
		size_t page;
	}) full;
	/* Memory: pieces that pages are cut from, the last one being used, and pages that are free again. */
	struct WEIR_LIST(uint8_t *) pieces;
	size_t piece_used;
	struct weir_parts_spare WEIR_LIST(uint8_t *) spare[3]; /* by size: a part's first, its second, later ones */
	int64_t held;                                          /* bytes of pages in memory */
	struct weir_spool spool;                               /* pages on disk */
};

struct weir_parts {
	struct weir_account *account; /* the session's: pages outlive lanes */
	struct weir_store *store;
	const struct weir_row_layout *layout;
	uint32_t bits;        /* 2^bits parts */
	uint64_t page_bytes;  /* of a page that is not a part's first ones, nor for a larger row */
	uint64_t piece_bytes; /* what pages are cut from */
	int64_t resident_max;
	_Atomic int64_t resident_own;
	_Atomic int64_t *resident;      /* of all that share; relaxed: a figure to stay below */
	_Atomic uint64_t spilled, read; /* bytes written to disk, and read from there */
	pthread_mutex_t lock;           /* guards the list */
	struct WEIR_LIST(struct weir_parts_lane *) lanes;
};

/* As many parts and as large pages as `threads` lanes can have open in half of the share. */
void weir_parts_init(struct weir_parts *parts, struct weir_account *account, struct weir_store *store,
		     const struct weir_row_layout *layout, int64_t resident_max, uint32_t threads);
/* How many of so many lanes can have pages of as many parts open as there may be, without more parts that have to be
 * read in passes. */
uint32_t weir_parts_lanes(int64_t resident_max, uint32_t threads);
/* Two exchanges' worth of rows in one share: as `with`, which stays at least as long. Before the first lane. */
void weir_parts_share(struct weir_parts *parts, struct weir_parts *with);
void weir_parts_release(struct weir_parts *parts);
static inline uint32_t weir_parts_count(const struct weir_parts *parts)
{
	return (uint32_t)1 << parts->bits;
}
static inline uint32_t weir_parts_of(const struct weir_parts *parts, uint64_t hash)
{
	return (uint32_t)(hash >> 32 >> (32 - parts->bits));
}

/* The lane is the parts' own, and stays theirs. */
int weir_parts_lane_new(struct weir_parts *parts, struct weir_parts_lane **out, struct weir_error *err);
void weir_parts_lane_mark(struct weir_parts_lane *lane);
void weir_parts_lane_cut(struct weir_parts_lane *lane); /* back to the mark */
/* Makes a row for each of the input (which has hashes) and fills it: rows[i], for whoever has something to add to flags
 * and payload before the next call. After a failure the lane is to be cut. */
int weir_parts_lane_put(struct weir_parts_lane *lane, const struct weir_row_input *input, uint8_t **rows,
			struct weir_error *err);
/* Room for a row and its bytes, to be filled before the next call. */
int weir_parts_lane_room(struct weir_parts_lane *lane, uint64_t hash, uint64_t tail_bytes, uint8_t **row,
			 uint8_t **tail, struct weir_error *err);
/* Copies a row. */
int weir_parts_lane_put_row(struct weir_parts_lane *lane, const uint8_t *row, struct weir_error *err);

/* Full pages go to disk where the share is used up. */
int weir_parts_lane_settle(struct weir_parts_lane *lane, struct weir_error *err);
/* Between splits, and settled: a lane's rows of one part that are in memory, its pages one after another from *at 0 on;
 * false behind the last. Then, what is to take their place: detach them, put other rows, and either drop them or attach
 * them again, which takes out what was put since. */
bool weir_parts_lane_page(const struct weir_parts_lane *lane, uint32_t part, size_t *at, struct weir_row_page *out);
int weir_parts_lane_detach(struct weir_parts_lane *lane, uint32_t part, struct weir_parts_list *out,
			   struct weir_error *err);
void weir_parts_lane_attach(struct weir_parts_lane *lane, uint32_t part, struct weir_parts_list *list);
void weir_parts_lane_drop(struct weir_parts_lane *lane, struct weir_parts_list *list);

/* Seals what is open. */
int weir_parts_finish(struct weir_parts *parts, struct weir_error *err);
/* Of one part, after finish. */
uint64_t weir_parts_rows(const struct weir_parts *parts, uint32_t part);
uint64_t weir_parts_bytes(const struct weir_parts *parts, uint32_t part);

/* Pages of a part, one at a time, whichever lane made them. All-zero is closed; close accepts it. */
struct weir_part_reader {
	struct weir_parts *parts;
	struct weir_account *account; /* of the memory for a page that is on disk */
	uint32_t part;
	size_t lane, page;
	uint8_t *memory;
	uint64_t size;
};
void weir_part_reader_open(struct weir_part_reader *reader, struct weir_parts *parts, uint32_t part,
			   struct weir_account *account);
/* Rows of the next page, at multiples of the layout's row_bytes; *row_count 0: there are none any more. They stay until
 * the next call. Writing to them is not allowed. */
int weir_part_reader_next(struct weir_part_reader *reader, const uint8_t **rows, uint32_t *row_count,
			  struct weir_error *err);
void weir_part_reader_close(struct weir_part_reader *reader);

#endif
