/* What the files of the CSV reader share.
 *
 *     text ─▶ index (kernels_csv.c): where fields and lines end ─▶ rows (rows.c): those that count, all of one width
 *          ─▶ vectors of undecoded columns (reader.c) ─▶ a column's fields become values when asked for (decode.c)
 */
#ifndef WEIR_FORMAT_CSV_IMPL_H
#define WEIR_FORMAT_CSV_IMPL_H

#include "base/number.h"
#include "format/format.h"
#include "format/text_input.h"

/* What is special in the text. A character that is not in use is stored as the delimiter, which is harmless to look
 * for. */
struct csv_dialect {
	uint8_t delimiter, quote, escape, comment, point;
	bool has_quote, has_escape, has_comment;
	bool doubled; /* "" inside quotes is one quote */
};

enum csv_ragged { CSV_RAGGED_ERROR, CSV_RAGGED_SKIP, CSV_RAGGED_FILL };
enum csv_strings_null { CSV_STRINGS_NEVER, CSV_STRINGS_UNQUOTED, CSV_STRINGS_ALWAYS };

struct csv_text {
	const char *data;
	uint32_t size;
};

struct csv_given_type {
	const char *name, *spelling;
};

struct csv_options {
	struct csv_dialect dialect;
	bool delimiter_given, has_header, infer_all, quoted_null;
	bool text_only; /* infer nothing: every column is a string */
	enum csv_ragged ragged;
	enum csv_strings_null strings_null;
	uint64_t skip_lines;
	struct weir_stream_options stream;
	const struct csv_text *nulls;
	uint32_t null_count;
	const char *const *names; /* NULL: from the header, or f0, f1 … */
	uint32_t name_count;
	const struct csv_given_type *types;
	uint32_t type_count;
	_Atomic bool *skipping_told; /* a file with rows that were skipped has been reported; NULL: none is to be */
};

extern const char *const csv_option_names[];
int csv_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		      struct weir_error *err);
extern const struct csv_options csv_options_default;
/* The dialect for a file: .tsv implies tabs. */
struct csv_dialect csv_dialect_for(const struct csv_options *options, const char *path);

/* ---- index ---- */

/* Where the index stands between two bytes. */
enum csv_state {
	CSV_LINE_START,
	CSV_FIELD_START, /* behind a delimiter */
	CSV_IN_FIELD,    /* quotes are letters here */
	CSV_IN_QUOTES,
	CSV_QUOTE_ENDED, /* behind a quote that ended a field, or is the first of two */
	CSV_ESCAPED_IN_FIELD,
	CSV_ESCAPED_IN_QUOTES,
	CSV_IN_COMMENT,
};

/* Ends of fields and, of those, which end a line. Positions count from `text`. The caller leaves room: the index stops
 * when there is not room for CSV_BLOCK more ends or lines. */
enum { CSV_BLOCK = 64 };

struct csv_index {
	const uint8_t *text;
	uint32_t size, at; /* bytes before `at` are indexed */
	bool is_last;      /* nothing follows the text: a CR at its end is a line end */
	enum csv_state state;
	uint32_t *ends;
	uint32_t end_count, end_capacity;
	uint32_t *lines; /* numbers in `ends` */
	uint32_t line_count, line_capacity;
	/* Seen since the caller reset them: bytes ≥ 0x80, carriage returns, line ends inside quotes, quotes that are
	 * letters. */
	bool has_high, has_cr, has_inner_lines, has_inner_quotes;
};

struct csv_kernels {
	void (*index)(struct csv_index *index, const struct csv_dialect *dialect);
};
const struct csv_kernels *csv_kernels_choose(void);

/* ---- rows.c: lines that count, as rows of one width ---- */

struct csv_rows {
	/* Field f of row r ends at ends[r × width + f] and begins behind the field before it, the first one at
	 * starts[r]. A field that begins behind its own end is missing (a short row that is filled). */
	const uint32_t *ends;
	uint32_t *starts;
	uint32_t width, count;
	uint32_t begin_next; /* where the line behind those used begins */
	uint32_t *made;      /* rows that had to be put together */
	size_t made_capacity, starts_capacity;
};

/* What to do with lines that are no rows of that width. */
struct csv_row_rules {
	struct csv_dialect dialect;
	enum csv_ragged ragged;
	uint32_t width;
};

/* Where a line of another width was found, when it is an error. */
struct csv_odd_line {
	bool found;
	uint32_t begin, end, fields;
};

/* At most `row_max` rows of the index's lines, the first of which begins at `begin`. Says how many lines were used and
 * how many of them skipped for their width. */
int csv_rows_make(struct csv_rows *rows, struct weir_account *account, const struct csv_row_rules *rules,
		  const struct csv_index *index, uint32_t begin, uint32_t line_max, uint32_t row_max,
		  uint32_t *lines_used, uint32_t *skipped, struct csv_odd_line *odd, struct weir_error *err);
void csv_rows_release(struct csv_rows *rows, struct weir_account *account);

/* ---- values.c: one field's text as a value ---- */

/* WEIR_E_UNSUPPORTED for types that no text becomes. */
int csv_type_check(const struct weir_type *type, struct weir_error *err);
bool csv_is_null(const struct csv_options *options, const char *text, size_t size);
/* Whether `text`, out of its quotes and no null, is a value of this type (not text or bytes), written to `out`. */
bool csv_value_parse(const struct weir_type *type, uint8_t point, const char *text, size_t size, void *out);
/* Removes quotes and escapes; `out` has room for `size` bytes. Returns what is left. */
size_t csv_unquote(const struct csv_dialect *dialect, const char *text, size_t size, char *out);

/* Types that inference knows, in the order in which pyarrow tries them. A value's kinds are a set of bits. */
enum csv_kind {
	CSV_INTEGER,
	CSV_BOOLEAN,
	CSV_DATE,
	CSV_TIME,
	CSV_TIMESTAMP,
	CSV_TIMESTAMP_UTC,
	CSV_TIMESTAMP_NS,
	CSV_TIMESTAMP_NS_UTC,
	CSV_REAL,
	CSV_STRING,
	CSV_BINARY,
	CSV_KIND_COUNT
};
#define CSV_KINDS_ALL ((1u << CSV_KIND_COUNT) - 1)
uint32_t csv_kinds_of(uint8_t point, const char *text, size_t size);
/* A new reference. No kinds at all: null. */
const struct weir_type *csv_type_of_kinds(struct weir_account *account, uint32_t kinds, bool has_values,
					  struct weir_error *err);
/* The kinds of the values that a column of this inferred type may have held. */
uint32_t csv_kinds_of_type(const struct weir_type *type);

/* ---- file.c ---- */

struct csv_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct weir_read_setup *setup;
	const struct csv_options *options;
	struct csv_dialect dialect;
	bool is_plain;
	uint32_t width;           /* fields of a row; 0: there are none */
	uint64_t data_offset;     /* of the first line behind the header, in the stream */
	uint64_t data_line;       /* its number, from 1 */
	_Atomic uint64_t skipped; /* ragged rows */
	int guess_forced;         /* by tests: −1 every cut lies outside quotes, 1 inside */
};

struct csv_head {
	struct weir_arena arena;
	const char **names;
	uint32_t width;
	uint64_t data_offset, data_line;
	bool is_plain, is_empty;
};

/* Reads as much of a file as it takes to know its columns. The arena is the caller's to release, also on failure. */
int csv_head_read(struct weir_account *account, struct weir_io *io, struct weir_file *file,
		  const struct csv_options *options, struct csv_head *head, struct weir_error *err);
int csv_file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		  struct weir_format_file **out, struct weir_error *err);
void csv_file_close(struct weir_format_file *base);
int csv_file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		    int (*visit)(void *context, const struct weir_range *range), void *context, struct weir_error *err);

/* ---- infer.c ---- */
int csv_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	      uint32_t count, struct weir_schema **out, struct weir_error *err);

struct csv_reader;
/* A value did not fit: notes this and whatever else does not fit from here on. */
void csv_misfits_note(struct csv_reader *reader);

/* ---- reader.c, decode.c ---- */

struct csv_column {
	struct weir_pending pending;
	struct csv_reader *reader;
	uint32_t field; /* of a row */
	const char *name;
	const struct weir_type *type; /* of values: not DICTIONARY_TYPE */
	bool is_given;                /* by --types: a value that does not fit is an error for good */
	bool null_first;              /* some null spelling looks like a value */
	bool has_null;                /* of the vector decoded last */
	uint8_t *values;
	size_t values_size;
	uint64_t valid[WEIR_VECTOR_ROWS / 64 + 1];
};

struct csv_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	const struct csv_kernels *kernels;
	struct weir_text_input input;
	struct csv_index index;
	size_t ends_size, lines_size; /* of the index's arrays, in bytes */
	struct csv_rows rows;
	uint32_t line_begin; /* in the text: of the first line that is not out yet */
	uint32_t lines_used; /* of the index: they are out */
	struct csv_file *file;
	const struct weir_scan *scan;
	struct weir_range range;
	uint64_t start;        /* of the range's first line */
	uint64_t lines;        /* line ends between `start` and `window` */
	uint32_t window;       /* in the text: where lines were counted last */
	uint32_t window_lines; /* lines used since, not counting line ends inside quotes */
	bool is_done;
	uint64_t window_max; /* 0: as large as a record needs it */
	uint32_t rows_max;
	int64_t row; /* of the range */
	struct csv_column *columns;
	struct weir_column *vector_columns;
	uint32_t column_count;
	struct weir_arena arena; /* texts without their quotes, of one vector */
	struct weir_format_stats stats;
};

/* Room for a block more in the index. */
int csv_index_reserve(struct csv_reader *reader, struct weir_error *err);
int csv_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
	       struct weir_error *err);
/* The line on which a place of the window lies; sets it, and the file, in `err`. */
void csv_error_place(const struct csv_reader *reader, uint32_t at, struct weir_error *err);

int csv_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err);
int csv_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err);
int csv_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
uint64_t csv_reader_start(const struct weir_format_reader *base);
void csv_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void csv_reader_free(struct weir_format_reader *base);

/* ---- guess.c ---- */
/* Where the first line of a range that begins at byte `begin` probably begins: at or behind it. */
int csv_guess_start(struct csv_reader *reader, uint64_t begin, uint64_t *start, struct weir_error *err);

#endif
