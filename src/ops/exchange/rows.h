/* rows: rows as bytes, one after another, for hash tables and for what is kept between two phases.
 *
 *     page:  ┌───────┬───────┬───────┬─ ─ ─ ─ ─ ─ ─ ─┬─────────────────┐
 *            │ row 0 │ row 1 │ row 2 │     free      │ … bytes of rows │      rows grow from the front, bytes from the end
 *            └───────┴───────┴───────┴─ ─ ─ ─ ─ ─ ─ ─┴─────────────────┘
 *     row:   ┌──────────┬──────────┬───────┬────────┬────────┬─────────┐
 *            │ u64 hash │ validity │ flags │ cell 0 │ cell 1 │ payload │      all rows of a layout have one size
 *            └──────────┴──────────┴───────┴────────┴────────┴─────────┘
 *     cell:  FIXED    byte_width bytes
 *            BITS     a byte
 *            BYTES    16 bytes like struct weir_view, but with the distance from the cell to its bytes in the place
 *                     of a pointer
 *            NESTED   as BYTES, of the value written as bytes (rows_nested.h)
 *
 * Distances instead of pointers: a page can be written to disk and come back elsewhere. A cell that is null is zero.
 * The lowest byte of the hash is not used: where validity is one byte and there are no flags, it lies there, and the
 * row is eight bytes shorter. Flags and payload belong to whoever uses the rows (accumulators, a chain of equal rows);
 * put makes them zero. A row lies at a multiple of 8.
 *
 * The first cells are the key: it has a hash, and rows are equal when their keys are. A null equals a null and NaN
 * equals NaN, whatever its bits; −0.0 is not 0.0. Whoever wants nulls to equal nothing leaves such rows out before.
 *
 * The hash is fixed by definition, equal on every machine: h = 0x9e3779b97f4a7c15, then for each key column h =
 * weir_hash_u64(h ^ word), where the word of a value is
 *     numbers of up to 8 bytes   the value, sign-extended where it has a sign; floats their bits, NaN as 0x7ff8…
 *     booleans                   0 or 1
 *     16 bytes                   low ^ weir_hash_u64(high), little endian
 *     strings, other widths      weir_hash_bytes(bytes, size, 0); nested: of the value written as bytes
 *     null                       0x6a09e667f3bcc909
 *
 * Order of calls, for a vector: input_take, then (hash,) equal and fill as often as is wanted, until the next
 * input_take.
 */
#ifndef WEIR_OPS_EXCHANGE_ROWS_H
#define WEIR_OPS_EXCHANGE_ROWS_H

#include "base/list.h"
#include "vector/vector.h"
#include "ops/exchange/rows_nested.h"

struct weir_row_cell {
	const struct weir_type *type; /* of values; borrowed from the schema */
	uint32_t offset, width;       /* in the row */
	bool has_bytes;               /* BYTES or NESTED */
};

/* 16 bytes of the payload which, where a flag of the row is set, stand for bytes outside of it as a cell's do (more
 * than are inline). */
struct weir_row_loose {
	uint32_t offset, flags; /* in the row */
	uint8_t flag;
};

struct weir_row_layout {
	struct weir_account *account;
	uint32_t cell_count, key_count;
	struct weir_row_cell *cells;
	uint32_t validity_offset, validity_bytes, flags_offset, flags_bytes;
	/* the key's cells, without gaps, in the same order wherever their types are the same */
	uint32_t key_offset, key_bytes;
	uint32_t payload_offset, payload_bytes;
	uint32_t row_bytes;
	bool has_bytes; /* some cell has */
	uint32_t loose_count;
	struct weir_row_loose *loose; /* room for one a byte of flags */
};

/* Cells of these fields' types, the first `key_count` of them the key. */
int weir_row_layout_init(struct weir_row_layout *layout, struct weir_account *account,
			 const struct weir_type *const *types, uint32_t cell_count, uint32_t key_count,
			 uint32_t flags_bytes, uint32_t payload_bytes, struct weir_error *err);
void weir_row_layout_release(struct weir_row_layout *layout);
/* One more, of another byte of flags than those before. */
void weir_row_layout_loose(struct weir_row_layout *layout, uint32_t offset, uint32_t flags, uint8_t flag);
/* Whether values of the type can be a key: all but lists and maps. */
bool weir_row_type_is_key(const struct weir_type *type);

/* Without its lowest byte, which may be the row's validity. */
static inline uint64_t weir_row_hash(const uint8_t *row)
{
	uint64_t hash;

	__builtin_memcpy(&hash, row, sizeof(hash));
	return hash & ~(uint64_t)0xff;
}
static inline bool weir_row_valid(const struct weir_row_layout *layout, const uint8_t *row, uint32_t cell)
{
	return row[layout->validity_offset + (cell >> 3)] >> (cell & 7) & 1;
}
/* The bytes of a cell that has some and is not null. */
static inline struct weir_view weir_row_view(const uint8_t *cell)
{
	struct weir_view view;

	__builtin_memcpy(&view, cell, sizeof(view));
	if (view.size > WEIR_VIEW_INLINE)
		view.data = cell + (intptr_t)view.data;
	return view;
}
/* Makes the cell stand for bytes that lie where the view says, at a place that keeps its distance from the cell. */
static inline void weir_row_view_put(uint8_t *cell, struct weir_view view)
{
	if (view.size > WEIR_VIEW_INLINE)
		view.data = (const uint8_t *)(view.data - cell);
	__builtin_memcpy(cell, &view, sizeof(view));
}

/* ---- a vector's rows ---- */

/* A column as cells are made of it: values at the rows' positions, of the cell's width, or views. */
struct weir_row_column {
	const uint8_t *values;
	const uint64_t *validity; /* NULL: no nulls */
};

/* A vector made ready for a layout. Row i below means the i-th selected row. */
struct weir_row_input {
	struct weir_account *account;
	const struct weir_row_layout *layout;
	struct weir_arena arena; /* of one vector */
	uint32_t count;
	const uint16_t *rows; /* NULL: all */
	struct weir_row_column *columns;
	uint64_t *bytes;  /* by row: what its cells need outside of the row; NULL: nothing */
	uint64_t *hashes; /* by row */
	/* By key column: words of a dictionary's values (rows.c), computed once for each. */
	struct weir_row_words {
		uint64_t id; /* of the dictionary; 0: none */
		uint32_t count;
		uint64_t *words;
	} * words;
};

int weir_row_input_init(struct weir_row_input *input, struct weir_account *account,
			const struct weir_row_layout *layout, struct weir_error *err);
void weir_row_input_release(struct weir_row_input *input);
/* Cell c is made of column numbers[c]; UINT32_MAX: it is null. Decodes the columns and, where `with_hash`, computes the
 * hashes. What it points to is the vector's, or lives until the next call. */
int weir_row_input_take(struct weir_row_input *input, struct weir_vector *vector, const uint32_t *numbers,
			bool with_hash, struct weir_error *err);
static inline uint32_t weir_row_input_row(const struct weir_row_input *input, uint32_t i)
{
	return input->rows ? input->rows[i] : i;
}

/* Writes hash, validity and cells of rows which[0 … count) to rows[which[k]], and their bytes to tails[which[k]] (room
 * for input->bytes of each; may be NULL where that is). Flags and payload become zero. The input has hashes. */
void weir_rows_fill(const struct weir_row_input *input, const uint32_t *which, uint32_t count, uint8_t *const *rows,
		    uint8_t *const *tails);
/* Of which[0 … count) keeps those whose keys are those of rows[which[k]], and puts the others into unequal; returns how
 * many are kept. The lists may not overlap. */
uint32_t weir_rows_equal(const struct weir_row_input *input, uint32_t *which, uint32_t count, uint8_t *const *rows,
			 uint32_t *unequal, uint32_t *unequal_count);
/* The same for two rows. */
bool weir_row_keys_equal(const struct weir_row_layout *layout, const uint8_t *a, const uint8_t *b);
/* The same for rows of two layouts whose keys are of the same types, eight at most. */
bool weir_row_keys_same(const struct weir_row_layout *layout, const uint8_t *row,
			const struct weir_row_layout *from_layout, const uint8_t *from);
/* What cells of the key have outside of the row; and a new row with the key of one of another layout, as above. All
 * else of it is zero. */
uint64_t weir_row_key_tail_bytes(const struct weir_row_layout *layout, const uint8_t *row);
void weir_row_key_copy(const struct weir_row_layout *layout, uint8_t *row, uint8_t *tail,
		       const struct weir_row_layout *from_layout, const uint8_t *from);
/* What the row's cells and loose bytes have outside of it. */
uint64_t weir_row_tail_bytes(const struct weir_row_layout *layout, const uint8_t *row);
/* Copies all of a row; its bytes go to `tail`. */
void weir_row_copy(const struct weir_row_layout *layout, const uint8_t *from, uint8_t *to, uint8_t *tail);

/* Cell `cell` of the rows as a FLAT column of that type (a DICTIONARY_TYPE has it as values), in memory of the arena;
 * long strings stay where they are. rows[i] NULL gives null. A nested column is a new array, in *nested, that the
 * caller lets go. */
int weir_rows_take(const struct weir_row_layout *layout, uint32_t cell, const struct weir_type *type,
		   const uint8_t *const *rows, uint32_t count, struct weir_account *account, struct weir_arena *arena,
		   struct weir_column *out, struct weir_array **nested, struct weir_error *err);

/* ---- pages ---- */

/* Where rows of a layout are put. */
struct weir_row_page {
	uint8_t *memory;
	uint64_t size;
	uint64_t rows_end, bytes_begin;
	uint32_t row_count;
};

/* A row and the room for its bytes; false: the page is full. */
static inline bool weir_row_page_put(struct weir_row_page *page, uint32_t row_bytes, uint64_t tail_bytes, uint8_t **row,
				     uint8_t **tail)
{
	if (page->bytes_begin - page->rows_end < row_bytes + tail_bytes)
		return false;
	*row = page->memory + page->rows_end;
	page->rows_end += row_bytes;
	page->bytes_begin -= tail_bytes;
	*tail = page->memory + page->bytes_begin;
	page->row_count++;
	return true;
}

/* Who gives room for new rows. */
struct weir_row_maker {
	int (*make)(struct weir_row_maker *maker, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		    struct weir_error *err);
};

/* Numbers that belong to a row of a heap, which has the list's number and 1 in its payload. */
struct weir_row_list {
	double *values;
	uint32_t count, capacity;
};

/* Rows in memory of an account, in the order in which they came; they stay where they are until clear. A maker. */
struct weir_row_heap {
	struct weir_row_maker maker;
	struct weir_account *account;
	const struct weir_row_layout *layout;
	struct weir_row_pages WEIR_LIST(struct weir_row_page) pages;
	uint64_t row_count, bytes; /* bytes: of all pages, and what was set later */
	struct weir_arena arena;   /* what was set later (weir_row_heap_set) */
	uint64_t bytes_set;
	struct WEIR_LIST(struct weir_row_list) lists;
	uint64_t list_bytes; /* not in `bytes` */
};

void weir_row_heap_init(struct weir_row_heap *heap, struct weir_account *account, const struct weir_row_layout *layout);
void weir_row_heap_clear(struct weir_row_heap *heap); /* keeps the first page */
void weir_row_heap_release(struct weir_row_heap *heap);
/* Makes a cell of a row of the heap stand for that many new bytes (more than are inline), which the caller fills; what
 * it stood for before stays where it is until clear. NULL: no memory. */
uint8_t *weir_row_heap_room(struct weir_row_heap *heap, uint8_t *cell, uint32_t size, struct weir_error *err);
/* Gives a cell of a row of the heap other bytes (copied); `was_valid`: it has some now. */
int weir_row_heap_set(struct weir_row_heap *heap, uint8_t *cell, bool was_valid, struct weir_view view,
		      struct weir_error *err);
/* Room for `more` numbers in the list whose number is at `field`, a new one where that is 0. */
struct weir_row_list *weir_row_heap_list(struct weir_row_heap *heap, uint8_t *field, uint32_t more,
					 struct weir_error *err);

#endif
