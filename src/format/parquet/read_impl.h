/* read: the structs of the Parquet reader.
 *
 *     parquet_file    an opened file: footer, schema, shapes. Immutable, shared by lanes.
 *     parquet_shape   one node of an Arrow type with the levels at which it is null, empty or there.
 *     parquet_reader  one lane's: walks a range of rows, hands out vectors of undecoded columns.
 *     parquet_column  one column of the vectors: one leaf, or for nested types several.
 *     parquet_leaf    a cursor over the pages of one column chunk: reads, skips, inflates, decodes.
 *
 * Who decodes what, when:
 *
 *     reader_next ─ hands out rows [r, r + n), columns UNDECODED ─▶ evaluator asks for column c and a selection
 *         ─▶ leaf c seeks page by page to r (pages nobody asked for are neither read nor inflated), inflates the page,
 *            passes over what nobody asked for inside it, and decodes
 *
 * Bytes that a vector may point into (pages, windows of the file) outlive it: a leaf that moves on while a vector is
 * out retires its buffers to the reader, which frees them at the next reader_next.
 */
#ifndef WEIR_FORMAT_PARQUET_READ_IMPL_H
#define WEIR_FORMAT_PARQUET_READ_IMPL_H

#include "base/list.h"
#include "format/format.h"
#include "format/parquet/delta_impl.h"
#include "format/parquet/kernels_impl.h"
#include "format/parquet/parquet_impl.h"
#include "format/parquet/rle_impl.h"

/* ── schema.c ── */

/* From the physical values of a file to Arrow's. */
enum parquet_convert {
	PARQUET_KEEP,           /* the same bytes */
	PARQUET_NARROW,         /* int32 to 8 or 16 bits */
	PARQUET_FROM_INT96,     /* Julian day and nanoseconds to units since 1970 */
	PARQUET_DECIMAL_INT,    /* int32 or int64 to 16 or 32 bytes */
	PARQUET_DECIMAL_FIXED,  /* big-endian bytes to 16 or 32 */
	PARQUET_DECIMAL_BYTES,  /* the same, each of its own length */
	PARQUET_FROM_INTERVAL,  /* months, days, milliseconds to months, days, nanoseconds */
	PARQUET_UNSCALE,        /* ÷ factor: seconds, which only ARROW:schema knows */
	PARQUET_DAYS_TO_MILLIS, /* date32 to date64 */
	PARQUET_ALL_NULL,       /* no values at all */
};

enum parquet_shape_kind { PARQUET_SHAPE_LEAF, PARQUET_SHAPE_STRUCT, PARQUET_SHAPE_LIST };

struct parquet_shape {
	enum parquet_shape_kind kind; /* LIST: lists of all kinds and maps */
	const struct weir_type *type; /* a reference */
	bool nullable;
	uint16_t def_present; /* a value (or a list, even if empty) is there from this definition level on */
	uint16_t def_element; /* LIST: an element is there from this level on */
	uint16_t rep_element; /* LIST: the repetition level of its second and later elements */
	uint32_t leaf_begin, leaf_end;
	uint32_t child_count;
	struct parquet_shape **children;
};

/* A leaf of the file's schema. */
struct parquet_leaf_info {
	const struct parquet_element *element;
	const struct weir_type
		*type; /* borrowed from its shape: what its values have in Arrow (dictionaries unwrapped) */
	char *path;    /* "a.list.element" */
	uint16_t def_max, rep_max;
	uint32_t width;       /* bytes of a physical value; 0: bits (BOOLEAN) or variable (BYTE_ARRAY) */
	uint32_t width_arrow; /* bytes of an Arrow value; 0: bits or views */
	enum parquet_convert convert;
	int64_t factor; /* UNSCALE; FROM_INT96: nanoseconds per unit */
	bool is_text;   /* must be UTF-8 */
};

struct parquet_file {
	struct weir_format_file base;
	struct weir_account *account;
	struct weir_arena arena;
	uint8_t *footer; /* statistics point into it */
	size_t footer_size;
	struct parquet_metadata metadata;
	struct parquet_leaf_info *leaves;
	uint32_t column_count;
	struct parquet_shape **columns; /* one per field of base.schema */
	uint64_t pages_end;             /* no page reaches past this byte: the footer's place */
	enum weir_time_unit int96_unit;
};

struct parquet_levels;

/* Fills leaves, columns and base.schema from metadata. */
int parquet_schema_build(struct parquet_file *file, struct weir_error *err);
void parquet_shape_release(struct parquet_shape *shape);

/* ── page.c ── */

struct parquet_reader;

struct parquet_memory {
	uint8_t *data;
	size_t capacity; /* PARQUET_PAD more than what is used */
};

/* A dictionary page, decoded. */
struct parquet_dictionary {
	struct weir_dictionary values;
	struct parquet_memory bytes, items; /* what views point to; the values */
};

struct parquet_page {
	struct parquet_page_header header;
	uint64_t offset, body_offset;
	int64_t row_begin,
		row_end;      /* in the row group; row_end −1 when levels must tell (v1 pages of nested columns) */
	const uint8_t *bytes; /* inflated; NULL: not yet */
	const uint8_t *values, *values_end;
};

/* How the values of a page are encoded: the decoder and its state. */
struct parquet_decoder;

struct parquet_values {
	const struct parquet_decoder *decoder;
	const uint8_t *at, *end;
	uint64_t bit;               /* booleans: the next one, from `at` */
	struct parquet_rle rle;     /* codes, booleans */
	struct parquet_delta delta; /* numbers, lengths, prefix lengths */
	struct parquet_delta delta_suffix;
	size_t stride, stride_at; /* BYTE_STREAM_SPLIT */
	bool is_checked;          /* the page is UTF-8 as a whole: no text in it needs a look */
	bool is_codes;            /* values are codes of the chunk's dictionary */
};

struct parquet_leaf {
	struct parquet_reader *reader;
	const struct parquet_leaf_info *info;
	const struct parquet_chunk *chunk; /* NULL: nothing open */
	enum weir_codec codec;

	/* The chunk's bytes: [window_offset, + window_size) of the file are at window_at, in `window` or in the
	 * reader's run of that number. */
	uint64_t chunk_begin, chunk_end, next_offset;
	uint64_t run_end; /* of the scanned chunks that follow without a gap */
	struct parquet_memory window;
	const uint8_t *window_at;
	uint64_t window_run; /* 0: `window` */
	uint64_t window_offset;
	size_t window_size, readahead;
	struct parquet_offset_index index; /* page_count 0: none */
	bool index_tried;

	bool has_page;
	struct parquet_page page;
	struct parquet_memory inflated;
	uint64_t dictionary_body; /* 0: no dictionary page met */
	struct parquet_page_header dictionary_header;
	struct parquet_dictionary *dictionary;       /* NULL: not loaded */
	struct parquet_dictionary *dictionary_spare; /* memory of the last chunk's */

	/* Inside the page. */
	uint32_t taken; /* levels (flat: rows) passed */
	struct parquet_rle definition, repetition;
	struct parquet_values values;
	struct parquet_memory previous; /* DELTA_BYTE_ARRAY: the text before */
	size_t previous_size;

	bool handed, handed_window; /* the vector that is out may point into `inflated`, into `window` */
	int64_t values_seen;        /* of pages passed, the current one included; −1 after a jump */
	bool is_last;               /* no page after the current one */

	/* hold.c: memory is short, so pages do not stay. */
	bool is_held;
	struct parquet_hold *hold;

	/* Decoded, recycled from vector to vector. */
	struct parquet_memory out, codes, scratch, packed;
	uint64_t valid[WEIR_VECTOR_ROWS / 64 + 2], valid_page[WEIR_VECTOR_ROWS / 64 + 2];
};

struct parquet_column {
	struct weir_pending pending; /* first */
	struct parquet_reader *reader;
	const struct parquet_shape *shape;
	const char *name;
	uint32_t leaf_count;
	struct parquet_leaf *leaves;
	struct parquet_levels *levels; /* nested.c: one per leaf; NULL for flat columns */
	struct weir_array *nested;     /* what the vector that is out points to */
};

struct parquet_row_span {
	int64_t begin, end;
};

/* picks.c: rows [begin, end) of the open row group that the predicate keeps, counted from `begin`. */
struct parquet_picks {
	bool is_wanted, is_found;
	int64_t begin, end;
	struct picked_rows WEIR_LIST(uint32_t) rows;
	size_t vector_begin, vector_end; /* those of the vector that is out */
	const struct weir_program *predicate;
	struct weir_evaluator *evaluator; /* of `predicate` */
};

struct parquet_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct weir_codecs *codecs;
	const struct parquet_kernels *kernels;
	struct parquet_file *file; /* a reference; NULL: nothing open */
	const struct weir_scan *scan;
	uint32_t column_count;
	struct parquet_column *columns;
	struct weir_column *vector_columns;
	struct retired WEIR_LIST(struct parquet_memory) retired;
	struct weir_arena arena; /* of the open row group: indexes */

	int64_t row, row_end; /* of the file: what is still to be handed out */
	uint32_t row_group;   /* the open one; UINT32_MAX: none */
	int64_t vector_row;   /* of the row group: row 0 of the vector that is out */
	uint32_t vector_rows;
	uint32_t rows_cap;                                     /* of any vector of this row group */
	uint32_t rows_max;                                     /* of the next vector */
	struct spans WEIR_LIST(struct parquet_row_span) spans; /* of the row group, alive by the page index */
	size_t span;
	bool has_spans;
	struct parquet_picks picks;
	size_t window_bytes_max;       /* of a leaf */
	struct parquet_memory run;     /* bytes [run_offset, + run_size) of the file: small chunks, read together */
	uint64_t run_offset, run_next; /* run_next: the end of the chunk that was begun last */
	size_t run_size;
	uint64_t run_number;  /* rises with every one that is read */
	bool run_handed;      /* the vector that is out may point into it */
	bool is_one_vector;   /* the row group is handed out at once: nothing of it is needed afterwards */
	bool is_tight;        /* there is not memory for a page of every column */
	size_t hold_bytes;    /* of a leaf, when it is */
	uint64_t page_budget; /* of all pages and windows */
	struct weir_format_stats stats;
};

int parquet_memory_reserve(struct weir_account *account, struct parquet_memory *buffer, size_t size,
			   struct weir_error *err); /* contents are lost */
void parquet_memory_release(struct weir_account *account, struct parquet_memory *buffer);

/* ── window.c ── */
/* Lets go of a buffer: at once, or when the vector that may point into it is gone. */
int parquet_memory_retire(struct parquet_leaf *leaf, struct parquet_memory *buffer, bool handed,
			  struct weir_error *err);
/* Bytes [offset, offset + size) of the file, contiguous. `size` lies inside the chunk. */
int parquet_window_fetch(struct parquet_leaf *leaf, uint64_t offset, size_t size, const uint8_t **out,
			 struct weir_error *err);
/* Forgets a window in a run that is gone. */
void parquet_window_check(struct parquet_leaf *leaf);
/* The leaves of a row group are open: which lie next to each other, and what the kernel may read ahead. */
void parquet_windows_plan(struct parquet_reader *reader);

/* Begins a chunk; nothing is read yet. */
int parquet_leaf_open(struct parquet_leaf *leaf, const struct parquet_chunk *chunk, struct weir_error *err);
void parquet_leaf_close(struct parquet_leaf *leaf); /* the chunk; buffers stay for the next */
void parquet_leaf_release(struct parquet_leaf *leaf);
/* Makes the next data page the current one, by its header alone. WEIR_E_DATA when there is none. */
int parquet_page_next(struct parquet_leaf *leaf, struct weir_error *err);
/* Flat: makes the page with this row of the row group the current one. */
int parquet_page_seek(struct parquet_leaf *leaf, int64_t row, struct weir_error *err);
/* Jumps forward to the page with this row when an offset index tells where it is; else nothing happens. */
int parquet_page_index_seek(struct parquet_leaf *leaf, int64_t row, struct weir_error *err);
/* Reads and inflates the current page, if that was not done, and sets up levels and values at its beginning. */
int parquet_page_load(struct parquet_leaf *leaf, struct weir_error *err);
/* Levels and values of a loaded page at its beginning again. */
int parquet_page_restart(struct parquet_leaf *leaf, struct weir_error *err);
/* Sets up the cursors of the current page's levels, which are in its first `size` bytes; *used: how many of them they
 * take. */
int parquet_page_levels(struct parquet_leaf *leaf, const uint8_t *bytes, size_t size, size_t *used,
			struct weir_error *err);
/* Back to the beginning of the chunk. Not while a vector points into its page. */
void parquet_leaf_rewind(struct parquet_leaf *leaf);
/* Gives back the page's memory; load makes it again. Not while a vector points into it. */
void parquet_page_drop(struct parquet_leaf *leaf);
/* WEIR_E_DATA with file, column and the page's offset. */
int parquet_leaf_damaged(const struct parquet_leaf *leaf, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int parquet_dictionary_load(struct parquet_leaf *leaf, struct weir_error *err);
void parquet_dictionary_free(struct weir_account *account, struct parquet_dictionary *dictionary);

/* ── values.c and decode_*.c ── */

/* Notes that the vector that is out points into the current page. */
static inline void parquet_page_hand(struct parquet_leaf *leaf)
{
	if (leaf->page.bytes >= leaf->inflated.data && leaf->inflated.data &&
	    leaf->page.bytes < leaf->inflated.data + leaf->inflated.capacity)
		leaf->handed = true;
	else
		leaf->handed_window = true;
	if (leaf->page.bytes >= leaf->reader->run.data && leaf->reader->run.data &&
	    leaf->page.bytes < leaf->reader->run.data + leaf->reader->run.capacity)
		leaf->reader->run_handed = true;
}

/* Values of the leaf's physical type, packed: nulls are not among them. Bits for BOOLEAN, views for BYTE_ARRAY (into
 * the page, or into memory that the leaf retires), uint32_t codes for dictionary encodings. */
struct parquet_decoder {
	const char *name;
	/* leaf->values.at … end are set. */
	int (*open)(struct parquet_leaf *leaf, struct weir_error *err);
	/* `out` takes PARQUET_SLACK values more. */
	int (*read)(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err);
	int (*skip)(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err);
};
extern const struct parquet_decoder parquet_plain_fixed, parquet_plain_bits, parquet_plain_bytes, parquet_codes,
	parquet_rle_bits, parquet_delta_numbers, parquet_delta_lengths, parquet_delta_bytes, parquet_streams;

/* Chooses by the page's encoding and the leaf's type and opens. */
int parquet_values_open(struct parquet_leaf *leaf, struct weir_error *err);
int parquet_values_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err);
int parquet_values_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err);
/* Bytes of `count` values as read gives them. */
size_t parquet_values_size(const struct parquet_leaf *leaf, uint32_t count);

/* convert.c: `count` physical values to Arrow's (never BOOLEAN or BYTE_ARRAY other than decimals). Never in place. */
int parquet_convert(const struct parquet_leaf_info *info, const void *in, uint32_t count, void *out,
		    struct weir_error *err);

/* ── column.c (flat), nested.c ── */
int parquet_flat_decode(struct weir_pending *pending, const struct weir_selection *selection,
			struct weir_column *column, struct weir_error *err);
int parquet_nested_decode(struct weir_pending *pending, const struct weir_selection *selection,
			  struct weir_column *column, struct weir_error *err);

/* straight.c: sets the column's decode_to where it can have one. */
void parquet_straight_plan(struct parquet_column *column);

/* Rows [row_first, + row_count) of the row group, at most rows_cap, from the leaf's pages. */
int parquet_flat_rows(struct parquet_leaf *leaf, int64_t row_first, uint32_t row_count,
		      const struct weir_selection *selection, struct weir_column *column, struct weir_error *err);

/* ── hold.c ── */
/* The same, rows of the vector that is out, from memory that holds some vectors' rows decoded, so that the page can go:
 * all rows, or those that are picked. */
int parquet_hold_rows(struct parquet_leaf *leaf, bool is_picked, struct weir_column *column, struct weir_error *err);
void parquet_hold_release(struct parquet_leaf *leaf);

/* Texts among the selected rows' views that are not UTF-8: WEIR_E_DATA, with the row of the file if that of the first
 * view (in the row group) is given. */
int parquet_views_check(const struct parquet_leaf *leaf, const struct weir_view *views, uint32_t count,
			int64_t row_first, struct weir_error *err);

/* ── picks.c ── */
/* Whether picks are worth finding in the row group that is being opened; `need` is what a page of each column takes,
 * `held` how many of them take turns. */
void parquet_picks_plan(struct parquet_reader *reader, const struct parquet_row_group *group, uint64_t need,
			uint32_t held);
/* Finds the picks of the stretch that begins with this row, if it is not inside one. No vector is out. */
int parquet_picks_find(struct parquet_reader *reader, int64_t row, struct weir_error *err);
/* How many picks lie before a row of the stretch. */
size_t parquet_picks_place(const struct parquet_picks *picks, int64_t row);
/* True when all of the selected rows of the vector that is out are picked. */
bool parquet_picks_cover(const struct parquet_reader *reader, const struct weir_selection *selection);
void parquet_picks_release(struct parquet_reader *reader);

/* ── prune.c ── */

void parquet_column_bounds(struct weir_format_file *file, uint32_t column, struct weir_bounds *out);
/* False when statistics or bloom filters prove that no row of the row group can match. `bounds` is room for one per
 * column of the scan. */
int parquet_row_group_may_match(const struct parquet_file *file, const struct weir_scan *scan, uint32_t row_group,
				struct weir_bounds *bounds, bool *may_match, struct weir_error *err);
/* Fills the reader's spans with the rows of the row group that its page index leaves. */
int parquet_pages_prune(struct parquet_reader *reader, uint32_t row_group, struct weir_error *err);

/* ── file.c ── */
/* Decoded bytes of a column of the schema in a row group, about. */
uint64_t parquet_column_bytes(const struct parquet_file *file, uint32_t row_group, uint32_t column);

/* ── reader.c: the reading half of weir_parquet_format ── */
/* What windows and inflated pages take now. */
uint64_t parquet_pages_bytes(const struct parquet_reader *reader);
/* The columns of a vector, undecoded, and what is to be done when it is gone. */
void parquet_vector_columns(struct parquet_reader *reader);
void parquet_vector_end(struct parquet_reader *reader);
/* The current page is large, not yet inflated, and with those that are would pass what pages may take. */
bool parquet_page_is_too_much(struct parquet_leaf *leaf);
int parquet_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		       struct weir_error *err);
int parquet_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
			const struct weir_range *range, struct weir_error *err);
int parquet_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
void parquet_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void parquet_reader_free(struct weir_format_reader *base);

#endif
