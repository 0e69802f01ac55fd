/* join_cells: what a join takes of a row, beside the row's key: found with one look at memory, where a table
 * (join_table.h) gives a row's number, and its columns are looked at one after another, each somewhere else.
 *
 *     bucket:  ┌──────┬──────┬──────┬──────┬───────┬───────┬───────┬───────┐      one line of the cache, named by the hash's
 *              │ key  │ key  │ key  │ key  │ value │ value │ value │ value │      lower bits; filled from the left, VACANT is
 *              └──────┴──────┴──────┴──────┴───────┴───────┴───────┴───────┘      free; what has no place goes to the next
 *
 *     numbers that lie close together:  values from the least to the greatest, and a bit for each that is there
 *
 * All four keys are compared at once, so that hardly a jump depends on the data: a jump that was foreseen wrongly costs
 * as much as the memory does.
 *
 * For keys that are words, each there once, with columns of fixed width that take eight bytes together and have no
 * nulls. Whether a key is there twice shows only when it is added: then the cells are given up for a table. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_CELLS_H
#define WEIR_OPS_EXCHANGE_JOIN_CELLS_H

#include "ops/exchange/join_filter.h"
#include "ops/exchange/join_keys.h"

enum { WEIR_JOIN_CELL_BYTES = 8, WEIR_JOIN_BUCKET = 4 };

/* Columns of a side, and where in a value they lie. */
struct weir_join_cell_layout {
	bool is_wanted; /* false: no cells */
	bool is_set;    /* only whether a key is there is asked: it may be there twice */
	uint32_t count;
	struct weir_join_cell_column {
		uint32_t column, offset, width;
	} columns[WEIR_JOIN_CELL_BYTES];
};

struct weir_join_bucket {
	uint64_t keys[WEIR_JOIN_BUCKET], values[WEIR_JOIN_BUCKET];
};

struct weir_join_cells {
	struct weir_account *account;
	struct weir_join_bucket *buckets; /* NULL: values */
	uint64_t count, used;             /* of buckets, a power of two; of their places */
	struct weir_join_filter filter;
	uint64_t *values, *there;
	uint64_t least, span;
};

/* False: it does not fit, or is of another kind. */
bool weir_join_cell_layout_add(struct weir_join_cell_layout *layout, uint32_t column, const struct weir_type *type);

/* Room for so many rows; span > 0: for the numbers from least on. */
int weir_join_cells_init(struct weir_join_cells *cells, struct weir_account *account, uint64_t rows, uint64_t least,
			 uint64_t span, struct weir_error *err);
void weir_join_cells_release(struct weir_join_cells *cells);
uint64_t weir_join_cells_bytes(uint64_t rows, uint64_t span);
/* Those rows whose hash begins with the `bits` bits `part`; values by place in the vector, NULL: a set. False: a key is
 * there twice, or has the one value that cells cannot have. */
bool weir_join_cells_add(struct weir_join_cells *cells, const struct weir_join_keys *keys, const uint64_t *values,
			 uint32_t bits, uint64_t part);
/* As weir_join_table_find; values[i] is of keys->rows[i], 0 where nothing was found. found[i].first is 0. */
struct weir_join_found;
uint32_t weir_join_cells_find(const struct weir_join_cells *cells, uint32_t bits, const struct weir_join_keys *keys,
			      bool filtered, struct weir_join_found *found, uint64_t *values);
/* A column of `count` values at the places of keys->rows, 0 at the others, in the arena. */
int weir_join_cells_column(const struct weir_join_cell_column *column, const struct weir_join_keys *keys,
			   const uint64_t *values, uint32_t count, struct weir_arena *arena, struct weir_column *out,
			   struct weir_error *err);

#endif
