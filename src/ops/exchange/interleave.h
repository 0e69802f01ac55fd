/* interleave: one column out of rows of several arrays, in any order: a vector's, or part of one that will stay. */
#ifndef WEIR_OPS_EXCHANGE_INTERLEAVE_H
#define WEIR_OPS_EXCHANGE_INTERLEAVE_H

#include "vector/vector.h"

/* Row `row` of source `source`. */
struct weir_pick {
	uint32_t source, row;
};

/* Where an array's rows lie, at hand. */
struct weir_cells {
	const struct weir_array *array;   /* borrowed */
	const uint8_t *validity;          /* bits from the array's offset on; NULL: no row is null */
	const uint8_t *values;            /* FIXED: of row 0; BYTES: its offset. NULL with DICTIONARY_TYPE */
	const uint8_t *bytes, *bytes_end; /* BYTES */
};

enum {
	WEIR_SPANS_ROWS = 1 << 13, /* of a piece: a column of them is in the cache, with what is made of it */
	WEIR_SPANS_BYTES = WEIR_SPANS_ROWS * 8,
};

/* The rows of a piece by source, where each source's are neighbours, as those of a run that is merged are. */
struct weir_spans {
	uint32_t source_count;
	bool hold;                        /* for the picks that were looked at last */
	uint16_t places[WEIR_SPANS_ROWS]; /* of the picks, where spans lie one behind the other */
	uint8_t between[WEIR_SPANS_BYTES];
	struct weir_span {
		uint32_t row;        /* the first */
		uint32_t begin, end; /* places; alike: the source has no row */
	} of[];
};

/* *out NULL: there are so few sources that the detour costs more than it saves. Free: NULL is fine. */
int weir_spans_new(struct weir_account *account, size_t source_count, struct weir_spans **out,
		   struct weir_error *err);
void weir_spans_free(struct weir_account *account, struct weir_spans *spans);
/* Looks at picks whose columns come next. NULL is fine. */
void weir_spans_find(struct weir_spans *spans, const struct weir_pick *picks, uint32_t count);

void weir_cells_init(struct weir_cells *cells, const struct weir_array *array);
/* Whether a row may be null. */
bool weir_cells_have_nulls(const struct weir_cells *cells);

/* All sources are of one type; `spans` NULL, or found for these picks. The result is FLAT, in memory of the arena; long
 * strings stay where they are. A nested column is a new array, in *nested, that the caller lets go when the column is
 * not needed any more. */
int weir_interleave(const struct weir_cells *sources, bool has_nulls, struct weir_spans *spans,
		    const struct weir_pick *picks, uint32_t count, struct weir_account *account,
		    struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
		    struct weir_error *err);

/* Into memory of the caller's; no source is nested or a dictionary. Values of one width; bits, a whole number of words,
 * and which rows are valid, as bits, and how many are. */
void weir_interleave_values(const struct weir_cells *sources, struct weir_spans *spans, const struct weir_pick *picks,
			    uint32_t count, size_t width, uint8_t *to);
void weir_interleave_bits(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			  uint64_t *to);
uint32_t weir_interleave_validity(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
				  uint64_t *to);
/* Strings, in two steps. Where each ends, if the first begins at `begin`: offsets of the type's width. Gives the last
 * end, which may be more than fits into one. */
uint64_t weir_interleave_ends(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			      uint64_t begin, uint8_t *ends);
/* Their bytes, one behind the other: that of picks[i] from where its offset is beyond the first one. There is room for
 * `size` bytes. */
void weir_interleave_bytes(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			   const uint8_t *offsets, uint8_t *to, uint64_t size);

#endif
