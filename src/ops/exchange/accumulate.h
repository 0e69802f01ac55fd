/* accumulate: what a group's row holds of the values it has seen.
 *
 *     flags:    a byte for each column: some value, some null, some extreme is known
 *     payload:  u64 rows │ for each column, as far as its functions need it: u64 values │ sum │ squares │ least │
 *               greatest │ …
 *     cells:    the least and the greatest string, and sketches, behind the key's cells (they have bytes, and travel as
 *               such)
 *
 * A column of which quantiles are asked has a list of its values, as doubles, without NaN: in a heap the number of the
 * list (weir_row_heap_list), in pages how many there are and the distance to them.
 *
 * Sums: integers 128 bits; decimals 256; floats two doubles, the second being what the first has lost by rounding, or
 * more of them where these are not all of it (accumulate_real.c). Squares (for std): integers 192 bits; else the first
 * value, and distances from it (accumulate_impl.h). Each can be merged with one of other rows of the group. A column is
 * looked at once, whichever functions want something of it.
 */
#ifndef WEIR_OPS_EXCHANGE_ACCUMULATE_H
#define WEIR_OPS_EXCHANGE_ACCUMULATE_H

#include "ops/aggregate.h"
#include "ops/exchange/frequent.h"
#include "ops/exchange/quantiles.h"
#include "ops/exchange/rows.h"

#define WEIR_NOWHERE UINT32_MAX

/* One column's part. Offsets are in the row; WEIR_NOWHERE: it is not needed. */
struct weir_accumulator {
	uint32_t column;              /* in vectors */
	const struct weir_type *type; /* of values */
	enum weir_summary_kind kind;
	uint32_t flags, values, nans, zeros, sum, squares;
	uint32_t least, greatest;           /* values of FIXED and BITS types, as they lie in a column */
	uint32_t least_cell, greatest_cell; /* strings: which cell */
	uint32_t list;
};

/* What an item holds that estimates; cell WEIR_NOWHERE: it does not. */
struct weir_sketch {
	enum weir_aggregate_function function;
	uint32_t summary; /* which of the accumulators its column's is */
	uint32_t cell;
	struct weir_quantiles quantiles; /* approx_quantile */
	uint32_t capacity;               /* approx_top_k */
};

/* All of a verb's, and the layout of its rows: key cells, then those of extremes, then the payload. */
struct weir_accumulators {
	struct weir_account *account;
	const struct weir_aggregates *aggregates; /* borrowed */
	const struct weir_schema *schema;         /* of the input; borrowed */
	uint32_t count, rows;                     /* rows: the offset of their number */
	struct weir_accumulator *items;
	bool has_sketches;
	struct weir_sketch *sketches; /* by item */
	uint32_t *numbers;            /* by cell: the column it is made of; WEIR_NOWHERE: none */
	uint32_t cells_max;
	bool has_lists;
	struct weir_row_layout layout;
};

/* Whether an item of that type of values can be accumulated: all but those that need the values of a group in order. */
bool weir_accumulators_take_type(const struct weir_aggregate_item *item, const struct weir_type *type);
/* Whether it can, where the values of a group can be held: quantiles of numbers. */
bool weir_accumulators_list_type(const struct weir_aggregate_item *item, const struct weir_type *type);
/* keys: columns by number. All items can be accumulated. */
int weir_accumulators_init(struct weir_accumulators *accumulators, struct weir_account *account,
			   const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			   const uint32_t *keys, uint32_t key_count, struct weir_error *err);
void weir_accumulators_release(struct weir_accumulators *accumulators);

/* The selected rows of the vector go into rows[i]. heap: where strings and sketches are kept; NULL: each row is new and
 * has been filled with its own values, so they are there, and there are no sketches. Decodes columns. The arena is for
 * one call. */
int weir_accumulators_push(const struct weir_accumulators *accumulators, struct weir_vector *vector,
			   uint8_t *const *rows, struct weir_row_heap *heap, struct weir_arena *arena,
			   struct weir_error *err);
/* `from` goes into `to`, a row of the heap. */
int weir_accumulators_merge(const struct weir_accumulators *accumulators, uint8_t *to, const uint8_t *from,
			    struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err);
/* Makes a row of the heap as small as it can be, before it is copied elsewhere. */
void weir_accumulators_pack(const struct weir_accumulators *accumulators, uint8_t *row);
/* A row of a heap as one of a page, with its lists: what it needs beside the row, and the copy. Back again: the lists
 * of a row that was copied into the heap from a page. */
uint64_t weir_accumulators_tail_bytes(const struct weir_accumulators *accumulators, const uint8_t *row,
				      const struct weir_row_heap *heap);
void weir_accumulators_copy(const struct weir_accumulators *accumulators, const uint8_t *row,
			    const struct weir_row_heap *heap, uint8_t *to, uint8_t *tail);
int weir_accumulators_adopt(const struct weir_accumulators *accumulators, uint8_t *row, const uint8_t *from,
			    struct weir_row_heap *heap, struct weir_error *err);
/* The result of an item for each row, of the type it has in the output's schema; not of exact quantiles (selected.h).
 * *nested: as in weir_rows_take. */
int weir_accumulators_take(const struct weir_accumulators *accumulators, const struct weir_aggregate_item *item,
			   const struct weir_type *type, const uint8_t *const *rows, uint32_t count,
			   struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
			   struct weir_error *err);

#endif
