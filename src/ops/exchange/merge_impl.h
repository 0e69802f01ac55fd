/* What picking rows (merge.c) and reading them (merge_cursor.c) have in common. */
#ifndef WEIR_OPS_EXCHANGE_MERGE_IMPL_H
#define WEIR_OPS_EXCHANGE_MERGE_IMPL_H

#include "arrow/block.h"
#include "arrow/packed.h"
#include "ops/exchange/interleave.h"
#include "ops/exchange/merge.h"
#include "ops/exchange/order.h"

struct cursor {
	const struct weir_sorted_run *run;
	size_t chunk;          /* the next to be opened */
	int64_t row, row_end;  /* in the open chunk, or in a run that lies: the next, and where it or the range ends */
	const uint32_t *order; /* where rows are in the batch; NULL: in order */
	const struct weir_batch *batch;
	bool ends;      /* with this chunk */
	bool is_unread; /* the open chunk is a large row, of which there is but the key */
	bool is_cut;    /* or what that begins with */
	struct weir_chunk *pinned;
	uint8_t *copy;             /* of one that is on disk: a part of the merge's, but while ranks are asked for */
	size_t copy_size;          /* 0: it is a part */
	struct weir_batch *opened; /* of the open chunk */
	struct weir_key_list few;  /* of a chunk's rows */
};

/* A row of a cursor. The window is eight bytes of its key, behind what all keys have in common. */
struct head {
	uint64_t window;
	const uint8_t *key;
	uint32_t key_size;
	uint32_t number; /* of the cursor */
};

struct weir_merge {
	struct weir_account account;
	struct weir_account *parent;
	struct weir_schema *schema;
	struct weir_key_columns key_columns;
	struct weir_block_cache cache;
	struct weir_bound from, to;
	struct cursor *cursors;
	size_t cursor_count;
	/* in one piece, which is one that was used before: small ones would have to be cleared by the system each time
	 * */
	uint8_t *copies;
	size_t copies_size;
	uint8_t *large; /* the large row that was read last */
	size_t large_size, large_max;
	struct cursor *large_of; /* whose it is; NULL: nobody's any more */
	bool has_large;
	bool has_cut;                /* some cursor that has rows yet has but the beginning of a key */
	struct weir_cells *cells;    /* by column, then by cursor: what is open */
	struct weir_spans *spans;    /* NULL: there are few cursors */
	bool *has_nulls;             /* by column: so far */
	struct weir_key_view *views; /* by cursor: which keys are at hand */
	uint32_t *active;            /* cursors that have rows yet, ascending */
	size_t active_count;
	uint32_t keys_max; /* that are read at once */
	uint32_t window_at;
	bool is_exact;   /* keys with equal windows are equal */
	bool has_chunks; /* some run does not lie */
	uint32_t rows_max;
	int64_t row_bytes; /* on average */
	/* The batch, its order, and how many of it were handed out. */
	struct weir_windowed *items;
	uint64_t *places; /* and as much room behind them */
	uint32_t place_bits;
	size_t items_max, item_count, item_at;
	struct weir_arena arena;            /* of the vector that was handed out */
	struct weir_arena key_arena;        /* of key columns while they are looked at */
	struct weir_column *key_columns_of; /* as many as there are columns; those of keys are filled in */
	struct weir_array **nested;
	struct weir_pick picks[WEIR_VECTOR_ROWS];
	uint32_t picks_at, picks_count; /* which of them have not been handed out */
	/* Where all rows are in memory: those of a block that is made (merge_block.c). */
	struct weir_pick *block_picks; /* NULL: none has been made */
	size_t block_picks_max;
};

static inline struct weir_key_view *weir_cursor_view(struct weir_merge *merge, const struct cursor *cursor)
{
	return &merge->views[cursor - merge->cursors];
}

/* How many of the cursor's next rows have their keys at hand. */
static inline int64_t weir_cursor_known(struct weir_merge *merge, const struct cursor *cursor)
{
	const struct weir_key_view *view = weir_cursor_view(merge, cursor);
	int64_t known = view->row_first + (int64_t)view->keys->count - cursor->row,
		left = cursor->row_end - cursor->row;

	return known < left ? known : left;
}

/* Of a key that ends within the window: its last eight bytes, without those before it. */
static inline uint64_t weir_cursor_window(const struct weir_merge *merge, const struct weir_key_list *list,
					  const uint8_t *key, uint32_t size)
{
	uint32_t at = merge->window_at;
	uint64_t word;

	if (size >= 8 && size > at && size < at + 8) {
		__builtin_memcpy(&word, key + size - 8, 8);
		return __builtin_bswap64(word) << 8 * (at + 8 - size);
	}
	if (size < at + 8 || key + at + 8 > list->bytes + list->size)
		return weir_key_prefix(key + at, size - at);
	__builtin_memcpy(&word, key + at, 8);
	return __builtin_bswap64(word);
}

/* The row `ahead` of the cursor's next, whose key is at hand. */
static inline struct head weir_cursor_head(const struct weir_merge *merge, uint32_t number, int64_t ahead)
{
	const struct weir_key_view *view = &merge->views[number];
	struct head head = {.number = number};

	head.key = weir_key_at(view->keys, (size_t)(merge->cursors[number].row + ahead - view->row_first),
			       &head.key_size);
	head.window = weir_cursor_window(merge, view->keys, head.key, head.key_size);
	return head;
}

/* The next rows, of which there are some: *count of them in merge->picks, 0 at the end. *is_slice: they are neighbours
 * in one batch. */
int weir_merge_pick(struct weir_merge *merge, uint32_t *count, bool *is_slice, struct weir_error *err);
/* Of keys that may be cut each has a width of its own: 0. */
uint32_t weir_cursor_key_width(const struct weir_merge *merge);
/* Opens the cursor's next chunk; *has_row false: there is none in the range any more. */
int weir_cursor_next_chunk(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err);
/* The rows of a run that lies. */
int weir_cursor_lie(struct weir_merge *merge, struct cursor *cursor, bool *has_row, struct weir_error *err);
void weir_cursor_close(struct cursor *cursor);
/* Which chunk of a run has the first row behind the bound. */
size_t weir_cursor_first_chunk(const struct weir_sorted_run *run, const struct weir_bound *bound);
/* Keys of a good many of its next rows, if there are so many. */
int weir_cursor_show(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err);
/* How many of its next rows come before that of another cursor, where that can be found without reading the keys of all
 * of them; *count stays where it cannot. Keys that were at hand are not any more. */
int weir_cursor_find(struct weir_merge *merge, struct cursor *cursor, const struct head *other, int64_t *count,
		     struct weir_error *err);
/* The keys of `count` rows of the open chunk. */
int weir_cursor_read_keys(struct weir_merge *merge, struct cursor *cursor, int64_t first, int64_t count,
			  struct weir_error *err);
/* What the cursor's picks point into. */
void weir_cursor_show_cells(struct weir_merge *merge, struct cursor *cursor);
/* The large row that the cursor is at; and: nobody needs the one any more that was read last. */
int weir_cursor_read_large(struct weir_merge *merge, struct cursor *cursor, struct weir_error *err);
void weir_cursor_forget_large(struct weir_merge *merge);

#endif
