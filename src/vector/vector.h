/* vector: what native steps hand to each other: at most 4,096 rows, columns in one of four forms, and a selection
 * instead of a copy after a filter.
 *
 * Lifetime: a vector and everything it points to is borrowed from its producer until that producer's next call. A
 * consumer that keeps something copies it (into a page, a chunk, a row). So nothing here is counted, and a fused chain
 * runs without a single reference operation.
 *
 * Values: column.values by the layout of weir_type_values(type):
 *     FIXED   byte_width bytes a row          BITS    one bit a row, least significant first
 *     BYTES   struct weir_view a row          NESTED  column.nested, an Arrow array; row i is nested_offset + i
 * FLAT has row_count values, at the row's own position also when the rows were decoded for a selection only: positions
 * that are not selected are unspecified (a view there must not be followed; a bit or number may be computed with, an
 * error raised for it must not be reported). CONSTANT has one value, index 0. DICTIONARY has uint32_t codes in values
 * and values of its own in `dictionary` (codes of null rows are unspecified but inside the dictionary, or 0 when it is
 * empty). UNDECODED has only `pending`; weir_column_decode turns it into one of the others, once, for the rows selected
 * then.
 *
 * Validity: bit set = value present; NULL = all present. CONSTANT: one bit. Bits of unselected rows are unspecified.
 */
#ifndef WEIR_VECTOR_VECTOR_H
#define WEIR_VECTOR_VECTOR_H

#include "base/arena.h"
#include "arrow/array.h"

#define WEIR_VECTOR_ROWS 4096u
#define WEIR_VECTOR_BYTES ((size_t)1 << 20) /* producers take fewer rows when they are wide */

/* A string or binary value: up to 12 bytes inline, else a prefix and a pointer. Unused inline bytes are zero, so that
 * equal short values are equal as 16 bytes. */
struct weir_view {
	uint32_t size;
	uint8_t prefix[4];
	union {
		uint8_t tail[8];
		const uint8_t *data;
	};
};
_Static_assert(sizeof(struct weir_view) == 16, "views are 16 bytes");
#define WEIR_VIEW_INLINE 12u

static inline const uint8_t *weir_view_bytes(const struct weir_view *view)
{
	return view->size <= WEIR_VIEW_INLINE ? view->prefix : view->data;
}

static inline struct weir_view weir_view_make(const void *bytes, uint32_t size)
{
	struct weir_view view = {.size = size};

	if (size <= WEIR_VIEW_INLINE) {
		__builtin_memcpy(view.prefix, bytes, size);
	} else {
		__builtin_memcpy(view.prefix, bytes, 4);
		view.data = (const uint8_t *)bytes;
	}
	return view;
}

enum weir_form { WEIR_FLAT, WEIR_CONSTANT, WEIR_DICTIONARY, WEIR_UNDECODED };

/* Rows that live, ascending. rows NULL: all of 0 … count − 1 (then count == row_count). */
struct weir_selection {
	uint32_t count;
	const uint16_t *rows;
};

/* Values shared by many vectors. `id` is unique in the process and never reused: consumers may cache by it what they
 * computed per value. No nulls inside. `values` as in a FLAT column. Lives at least until the producer moves on. */
struct weir_dictionary {
	uint64_t id;
	uint32_t count;
	const void *values;
	const struct weir_array *nested; /* NESTED layouts */
};

/* A number for a new dictionary. */
uint64_t weir_dictionary_id_new(void);

struct weir_column;

/* A column that its source has not decoded yet. */
struct weir_pending {
	/* Fills `column` (form, values, validity …) for the selected rows; everything else in it stays. */
	int (*decode)(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		      struct weir_error *err);
	/* Straight to where they stay: writes the values of rows [first, first + count), as they lie in an Arrow array,
	 * to `out` (weir_type_row_bytes a row, no byte more). *done: how many of them, from `first` on; it stops where
	 * a row is null, or where the usual way is as good. Rows before first + *done are gone then: later calls, of
	 * decode too, are for later rows alone. NULL: never. */
	int (*decode_to)(struct weir_pending *pending, uint32_t first, uint32_t count, uint8_t *out, uint32_t *done,
			 struct weir_error *err);
};

/* Bytes of a row that is not null where every row has as many, in one buffer: FIXED layouts, and lists of one length of
 * them. 0: others. */
uint64_t weir_type_row_bytes(const struct weir_type *type);

struct weir_column {
	const struct weir_type *type; /* may be DICTIONARY_TYPE: then values have its value type */
	enum weir_form form;
	const uint64_t *validity;
	const void *values;
	const struct weir_dictionary *dictionary;
	const struct weir_array *nested;
	int64_t nested_offset;
	struct weir_pending *pending;
};

struct weir_vector {
	uint32_t row_count;
	struct weir_selection selection;
	uint32_t column_count;
	struct weir_column *columns;
	/* Where row 0 came from, for messages: file and row number in it; −1: nobody knows (the middle of a text
	 * file). */
	const char *source;
	int64_t source_row;
};

/* Decodes an UNDECODED column for the vector's selection; a no-op otherwise. Later narrowing of the selection is
 * fine. */
int weir_column_decode(struct weir_vector *vector, uint32_t column, struct weir_error *err);
/* Whoever asked first is not to blame for what a file holds, nor for the memory that it takes: an error of decoding, if
 * `code` says there is one, is the read's. */
void weir_vector_blame(const struct weir_vector *vector, int code, struct weir_error *err);
int weir_vector_decode_all(struct weir_vector *vector, struct weir_error *err);
/* What a row's value has beyond a width that all have: bytes of a text, of what is nested. None if it is null, not
 * decoded, or a code. */
uint64_t weir_column_value_bytes(const struct weir_column *column, uint32_t row);
uint64_t weir_vector_value_bytes(const struct weir_vector *vector, uint32_t row); /* of all columns */

/* Cutting a vector by its selected rows: begin decodes all columns, so that each piece finds them; then cut takes
 * pieces of at most `count` rows off the front of `rest` until none are left. `numbers` has room for a vector's
 * rows. */
int weir_vector_cut_begin(struct weir_vector *vector, uint16_t *numbers, struct weir_vector *rest,
			  struct weir_error *err);
struct weir_vector weir_vector_cut(struct weir_vector *rest, uint64_t count);

static inline bool weir_column_valid(const struct weir_column *column, uint32_t row)
{
	if (column->form == WEIR_CONSTANT)
		row = 0;
	return !column->validity || column->validity[row >> 6] >> (row & 63) & 1;
}

/* flatten.c: makes a DICTIONARY or CONSTANT column FLAT for the selected rows, in memory of the arena. */
int weir_column_flatten(struct weir_column *column, const struct weir_selection *selection, uint32_t row_count,
			struct weir_arena *arena, struct weir_error *err);

/* convert.c: the selected rows as Arrow arrays (new memory of `account`), of the column's own type (DICTIONARY_TYPE is
 * encoded), and the way back: columns over rows [offset, offset + count) of a batch, views made in the arena. */
int weir_vector_to_batch(struct weir_vector *vector, const struct weir_schema *schema, struct weir_account *account,
			 struct weir_batch **out, struct weir_error *err);
int weir_column_from_array(const struct weir_array *array, int64_t offset, uint32_t count, struct weir_arena *arena,
			   struct weir_column *out, struct weir_error *err);
int weir_vector_from_batch(const struct weir_batch *batch, int64_t offset, uint32_t count, struct weir_arena *arena,
			   struct weir_vector *out, struct weir_error *err);

/* append.c: gathers vectors into one growing batch: the copy that a chunk, a sort run or a consumer needs. */
struct weir_gather;
int weir_gather_new(struct weir_account *account, const struct weir_schema *schema, struct weir_gather **out,
		    struct weir_error *err);
int weir_gather_push(struct weir_gather *gather, struct weir_vector *vector, struct weir_error *err);
/* The selected rows from number `begin` on, `count` of them. Parts of a vector are pushed in order. */
int weir_gather_push_part(struct weir_gather *gather, struct weir_vector *vector, uint32_t begin, uint32_t count,
			  struct weir_error *err);
/* About so many rows will come before finish: memory for them is taken at once when the first have come, and where
 * these say how long the others are, no more than `bytes_max` for a column. */
void weir_gather_expect(struct weir_gather *gather, int64_t rows, int64_t bytes_max);
/* Where the values of a column with weir_type_row_bytes are to lie, `capacity` bytes (a multiple of 64): borrowed until
 * finish or free, and what finish gives points into it if the rows fitted. Only while the gatherer is empty. */
void weir_gather_place(struct weir_gather *gather, uint32_t column, uint8_t *memory, size_t capacity);
int64_t weir_gather_rows(const struct weir_gather *gather);
uint64_t weir_gather_bytes(const struct weir_gather *gather);
int weir_gather_finish(struct weir_gather *gather, struct weir_batch **out, struct weir_error *err); /* empties it */
void weir_gather_free(struct weir_gather *gather);

/* selection.c */
/* rows of `selection` whose bit in `keep` (by row position) is set and, when `valid` is given, set there too; into
 * rows_out (WEIR_VECTOR_ROWS places; may be the selection's own array). Returns the count. */
uint32_t weir_select_bits(const struct weir_selection *selection, const uint64_t *keep, const uint64_t *valid,
			  uint16_t *rows_out);

#endif
