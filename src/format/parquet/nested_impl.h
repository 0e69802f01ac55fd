/* nested: between levels.c, which walks the levels and values of one leaf row by row, and nested.c, which makes Arrow
 * arrays of them. */
#ifndef WEIR_FORMAT_PARQUET_NESTED_IMPL_H
#define WEIR_FORMAT_PARQUET_NESTED_IMPL_H

#include "format/parquet/read_impl.h"

enum parquet_evenness { PARQUET_EVEN_UNKNOWN, PARQUET_EVEN, PARQUET_UNEVEN };

/* What one leaf gives for the rows of one vector, and where it stands. */
struct parquet_levels {
	/* Of the vector: an entry per value, null or empty list, and the values that are there, packed, in Arrow's
	 * layout. */
	struct parquet_memory def, rep; /* uint16_t each */
	uint32_t count;
	struct parquet_memory values; /* FIXED: width_arrow each; BITS; BYTES: uint32_t sizes */
	size_t values_before;         /* the room that the last vector's took, which an array has now; 0: none */
	struct parquet_memory bytes;  /* BYTES: the texts */
	size_t bytes_size;
	uint32_t value_count;
	bool all_present; /* every entry is a value: nothing is null or empty at any level */
	/* All of the vector's rows are lists out of such pages (straight.c): there are no entries, but the ends of the
	 * lists. */
	bool is_even;
	struct parquet_memory ends; /* uint32_t each */
	bool is_alone;              /* of the column: lists of fixed-width values, so that all this may be */

	/* Of the page: levels decoded and not yet used are places [next, end). */
	uint16_t next_def[WEIR_VECTOR_ROWS + PARQUET_SLACK], next_rep[WEIR_VECTOR_ROWS + PARQUET_SLACK];
	uint32_t next, end;
	uint32_t decoded; /* of the page's entries */
	uint32_t used;    /* of the page's entries, for finding the place again after the page was dropped */
	int64_t row;  /* of the row group: rows that have ended before place `next`, or the one that is open there */
	bool is_open; /* an entry of row `row` has been used: it goes on until the next repetition level 0 */

	/* straight.c: whether the page is lists of one length and nothing else, and of which; whether its rows are
	 * being taken that way, so that next … end are empty and the cursors of levels are at its beginning; and where
	 * its values lie in the file, if it was not loaded. */
	enum parquet_evenness evenness;
	uint32_t list_size;
	bool is_straight;
	uint64_t values_offset;
};

/* Where the next level 0 stands in [at, count), or `count`: most stretches of long lists have none. */
static inline uint32_t parquet_find_zero(const uint16_t *levels, uint32_t at, uint32_t count)
{
	for (; at + 32 <= count; at += 32) {
		uint16_t zeros = 0;

		for (uint32_t i = 0; i < 32; i++)
			zeros |= levels[at + i] == 0;
		if (zeros)
			break;
	}
	while (at < count && levels[at])
		at++;
	return at;
}

/* Fills the vector's part with rows [row, row + count) of the row group. Rows that are not in `selection` may come as
 * one entry without value. */
int parquet_levels_read(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row, uint32_t count,
			const struct weir_selection *selection, struct weir_error *err);
/* Steps to the next page. */
int parquet_levels_page_next(struct parquet_leaf *leaf, struct parquet_levels *levels, struct weir_error *err);
/* Passes over rows by whole pages, as far as their rows are known without their levels. */
int parquet_levels_skip_pages(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row,
			      struct weir_error *err);
/* The next `count` ≤ WEIR_VECTOR_ROWS values of the page, in Arrow's layout (texts: views), in memory of the leaf's
 * that the next call uses again. */
int parquet_values_block(struct parquet_leaf *leaf, uint32_t count, const void **out, struct weir_error *err);
/* Room for `size` bytes, what is there kept. */
int parquet_levels_grow(struct parquet_leaf *leaf, struct parquet_memory *memory, size_t size, struct weir_error *err);
/* straight.c: the vector's rows [row, row + count), as many as pages allow: all of them, and is_even, or some, with
 * entries. */
int parquet_straight_read(struct parquet_leaf *leaf, struct parquet_levels *levels, int64_t row, uint32_t count,
			  struct weir_error *err);
void parquet_levels_rewind(struct parquet_levels *levels); /* a new chunk begins */
void parquet_levels_release(struct weir_account *account, struct parquet_levels *levels);

#endif
