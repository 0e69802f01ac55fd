/* json: the structs of the JSON reader.
 *
 *     json_options  what the user asked for
 *     json_file     an opened file: its layout and schema. Immutable, shared by lanes.
 *     json_window   whole records of a file's text, and the entries (kernels_impl.h) of it
 *     json_keys     the names of an object's fields, found in the order in which they came last time
 *     json_shape    a nested type with the keys of its structs
 *     json_reader   one lane's: walks the records of a range, notes where values lie, decodes what is asked for
 *
 *     text ─ index ─▶ entries ─ walk ─▶ for each row and wanted column the entry at which its value begins
 *                                           └─ decode, when and for which rows somebody asks ─▶ columns
 */
#ifndef WEIR_FORMAT_JSON_JSON_IMPL_H
#define WEIR_FORMAT_JSON_JSON_IMPL_H

#include "base/list.h"
#include "base/number.h"
#include "format/cuts.h"
#include "format/format.h"
#include "format/json/kernels_impl.h"
#include "format/text_input.h"

enum {
	JSON_DEPTH_DEFAULT = 1024,
	JSON_RECORD_MAX = 0x7fffffff, /* bytes: entries are 32 bits */
};

/* ── options.c ── */

enum json_layout {
	JSON_LAYOUT_AUTO,
	JSON_LAYOUT_LINES,   /* objects, none of which contains a line end */
	JSON_LAYOUT_ARRAY,   /* one array of objects */
	JSON_LAYOUT_OBJECTS, /* objects one after another, line ends anywhere */
};
enum json_dates { JSON_DATES_INFER, JSON_DATES_NAMED, JSON_DATES_TEXT }; /* named: of columns whose names say so */
enum json_nonfinite { JSON_NONFINITE_ALLOW, JSON_NONFINITE_ERROR };
enum json_surrogates { JSON_SURROGATES_ERROR, JSON_SURROGATES_REPLACE };
enum json_unexpected { JSON_UNEXPECTED_INFER, JSON_UNEXPECTED_IGNORE, JSON_UNEXPECTED_ERROR };

struct json_given {
	const char *path; /* "a", "b.c"; [] steps into a list: "d.[].e" */
	const char *type_text;
};

struct json_options {
	enum json_layout layout;
	enum json_surrogates surrogates;
	enum json_unexpected unexpected;
	bool infer_all;
	enum json_dates dates;         /* which strings may be timestamps */
	bool mixed_refused;            /* what is no string, in a column of strings that nobody gave */
	enum json_nonfinite nonfinite; /* NaN, Infinity and -Infinity */
	uint32_t depth_max;
	struct weir_stream_options stream;
	const struct json_given *given; /* types= */
	uint32_t given_count;
};

extern const char *const json_option_names[];
/* What holds without options. */
extern const struct json_options json_options_default;
int json_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		       struct weir_error *err);
static inline const struct json_options *json_options_of(const struct weir_read_setup *setup)
{
	return setup->options ? setup->options : &json_options_default;
}
/* Whether the user gave this column's type. */
bool json_options_given(const struct json_options *options, const char *column);

/* ── file.c ── */

struct json_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct weir_read_setup *setup;
	const struct json_options *options;
	enum json_layout layout; /* never AUTO */
	bool is_plain;
	uint64_t first; /* the byte at which text begins: behind a byte order mark */
};

/* How many line ends lie before a byte of a plain file. For messages: it reads all of it. */
int json_lines_before(const struct json_file *file, uint64_t offset, uint64_t *lines, struct weir_error *err);
/* Fills layout, is_plain and first from the head of the stream; file, setup and options are there. */
int json_layout_find(struct weir_account *account, struct json_file *file, struct weir_error *err);

/* ── window.c ── */

struct json_window {
	struct weir_text_input input;
	const struct json_kernels *kernels;
	enum json_layout layout;
	const char *path;
	/* Of input.text: entries are places in it, `entry_count` of them, then some that lie at `input.end`, where the
	 * text has a 0. */
	const uint8_t *text;
	uint32_t *entries;
	size_t entry_capacity, entry_count;
	bool has_escapes, is_ascii;
	uint64_t newlines; /* in the text */
	uint64_t line;     /* line ends between the place where it was opened and text[0] */
	uint64_t column;   /* bytes between the line's beginning and text[0] */
};

void json_window_init(struct json_window *window, struct weir_account *account);
void json_window_release(struct json_window *window);
int json_window_open(struct json_window *window, struct weir_io *io, struct weir_file *file, uint64_t offset,
		     const struct weir_stream_options *options, enum json_layout layout, struct weir_error *err);
/* The text from `begin` on comes to the front, at least `size` bytes of it if there are so many, and is indexed. After
 * a failure it lies at input.begin, and only its place is to be trusted. */
int json_window_fill(struct json_window *window, size_t begin, size_t size, struct weir_error *err);
/* Line (from 1, in the range) and column (in bytes, from 1) of text[at]. */
void json_window_place(const struct json_window *window, size_t at, uint64_t *line, uint64_t *column);
/* Fills err with what is wrong at text[at], its place and a piece of the text. Returns the code. */
int json_window_fail(const struct json_window *window, size_t at, struct weir_error *err, int code, const char *format,
		     ...) __attribute__((format(printf, 5, 6)));

/* ── keys.c ── */

struct json_key {
	uint64_t low, high, low_mask, high_mask; /* the first 16 bytes of `name"`, little endian */
	const char *name;
	uint64_t serial; /* of the last object that had it */
	uint32_t size;   /* of the name */
	uint32_t next;   /* the field that came after it last time */
	uint32_t slot;   /* the caller's */
};
#define JSON_NO_FIELD UINT32_MAX

struct json_keys {
	struct weir_account *account;
	struct json_key *keys; /* in the order of the fields */
	uint32_t count;
	uint32_t first;  /* the field that came first last time */
	uint64_t serial; /* of the object being read */
	uint32_t *table; /* by hash; JSON_NO_FIELD: empty */
	uint32_t table_mask;
};

int json_keys_init(struct json_keys *keys, struct weir_account *account, const struct weir_field *fields,
		   uint32_t count, struct weir_error *err);
void json_keys_release(struct json_keys *keys);
uint32_t json_keys_find(const struct json_keys *keys, const void *name, size_t size);

/* Whether the string that begins at `text` (behind its quote) is this name. Reads 16 bytes of text. */
static inline bool json_key_is(const struct json_key *key, const uint8_t *text)
{
	uint64_t low, high;

	__builtin_memcpy(&low, text, 8);
	__builtin_memcpy(&high, text + 8, 8);
	if (((low ^ key->low) & key->low_mask) | ((high ^ key->high) & key->high_mask))
		return false;
	return key->size < 16 ||
	       (__builtin_memcmp(text + 16, key->name + 16, key->size - 16) == 0 && text[key->size] == '"');
}

/* ── value.c ── */

/* The bytes of a string between its quotes, unescaped into the arena when it has escapes. UTF-8 is checked. `at` is the
 * place of its first byte, for messages. */
int json_string_read(const struct json_window *window, const struct json_options *options, size_t at, size_t end,
		     struct weir_arena *arena, const uint8_t **bytes, size_t *size, struct weir_error *err);

/* A value as text: a string's bytes, or how anything else is spelled. */
int json_text_read(const struct json_window *window, const struct json_options *options, uint32_t entry,
		   struct weir_arena *arena, const uint8_t **bytes, size_t *size, struct weir_error *err);
/* Neither escapes nor anything but ASCII. Reads up to 7 bytes more. */
static inline bool json_is_plain(const uint8_t *text, size_t size)
{
	const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
	uint64_t found = 0, word, slash;

	for (size_t at = 0; at < size; at += 8) {
		__builtin_memcpy(&word, text + at, 8);
		if (size - at < 8)
			word &= (UINT64_C(1) << (size - at) * 8) - 1;
		slash = word ^ ones * '\\';
		found |= word | ((slash - ones) & ~slash);
	}
	return !(found & high);
}

enum json_word { JSON_WORD_NULL, JSON_WORD_BOOL, JSON_WORD_INTEGER, JSON_WORD_REAL, JSON_WORD_WRONG };

/* What a number or word is. An integer that 64 bits cannot hold is REAL, as in pyarrow. */
enum json_word json_word_kind(const struct json_options *options, const uint8_t *text, size_t size);

struct weir_number_grammar json_grammar(const struct json_options *options);

bool json_is_null(const struct json_window *window, uint32_t entry);
/* A number, word or nested value from its first to its last byte. */
size_t json_value_end(const struct json_window *window, uint32_t entry);
/* ── shape.c ── */

/* How values of a type are read. */
enum json_kind {
	JSON_NULL,
	JSON_BOOL,
	JSON_INTEGER,
	JSON_REAL,      /* float, double, half */
	JSON_STRING,    /* strings and, as they are spelled, everything else */
	JSON_BINARY,    /* strings alone */
	JSON_TIMESTAMP, /* strings */
	JSON_FIXED,     /* the rest of what weir_value_parse knows: dates, times, decimals, durations */
	JSON_LIST,
	JSON_STRUCT,
	JSON_MAP, /* an object, or as weir writes it: a list of objects with key and value */
};

struct json_shape {
	enum json_kind kind;
	const struct weir_type *type; /* borrowed; dictionaries unwrapped */
	uint32_t child_count;         /* LIST, MAP: 1; STRUCT: fields */
	struct json_shape *children;
	struct json_keys keys;          /* STRUCT */
	size_t length_last, bytes_last; /* what values of the last vector took, and a little more */
};

int json_shape_init(struct json_shape *shape, struct weir_account *account, const struct weir_type *type,
		    struct weir_error *err);
void json_shape_release(struct json_shape *shape, struct weir_account *account);

/* ── cursor.c ── */

/* What may stand at the next entry. */
enum json_place {
	JSON_AT_RECORD,
	JSON_BEFORE_ARRAY,  /* [ */
	JSON_IN_ARRAY,      /* the first record, or ] */
	JSON_BEHIND_RECORD, /* in an array: , or ] */
	JSON_BEHIND_ARRAY,  /* nothing */
};

/* From record to record of a range. */
struct json_cursor {
	struct json_window window;
	uint32_t entry; /* the next one */
	enum json_place place;
	uint64_t line_begin; /* LINES: of the line that `entry` is on, in the stream */
	uint64_t range_end;
	uint64_t start;       /* of the range's first record, in the stream */
	size_t window_size;   /* text to have at once, if one record is not larger */
	uint64_t stream_size; /* 0: not known */
};

enum json_step { JSON_ROW, JSON_MORE, JSON_END, JSON_FAILED };

void json_cursor_init(struct json_cursor *cursor, struct weir_account *account);
void json_cursor_release(struct json_cursor *cursor);
/* Opens a file at a record's beginning, or, at byte 0, at its text's. Nothing is read yet. */
int json_cursor_open(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t start,
		     uint64_t range_end, struct weir_error *err);
/* The place behind the first line end at or behind begin − 1; the file's size when there is none. */
int json_line_find(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t begin,
		   uint64_t *start, struct weir_error *err);
/* Where a record seems to begin at or behind `begin` and before `end`; UINT64_MAX when nothing looks like one. */
int json_record_guess(struct json_cursor *cursor, struct weir_io *io, const struct json_file *file, uint64_t begin,
		      uint64_t end, const struct json_keys *keys, uint64_t *start, struct weir_error *err);
/* Moves on to the next record. END: there is none in this range, and `entry` is where the next range's begin. MORE:
 * fill. */
enum json_step json_cursor_find(struct json_cursor *cursor, struct weir_error *err);
/* More text, from `entry` on; entries have other numbers then. */
int json_cursor_fill(struct json_cursor *cursor, struct weir_error *err);
/* `entry` behind the record that was read. */
void json_cursor_pass(struct json_cursor *cursor, uint32_t entry);

/* ── reader.c ── */

struct json_reader;

struct json_column {
	struct weir_pending pending;
	struct json_reader *reader;
	const struct weir_field *field;
	struct json_shape shape;
	uint32_t *values; /* by row: the entry at which its value begins; 0: there is none */
	/* Decoded. */
	uint8_t *decoded;
	size_t decoded_capacity;
	uint64_t *validity; /* WEIR_VECTOR_ROWS bits */
	struct weir_array *nested;
};

struct json_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct json_file *file;
	const struct weir_scan *scan;
	struct weir_range range;
	struct json_cursor cursor;
	struct json_keys keys; /* of the file's schema; slot: the column, or JSON_NO_FIELD */
	struct weir_schema *schema;
	uint32_t *columns_scanned; /* what `columns` was made for */
	uint32_t column_count;
	struct json_column *columns;
	struct weir_column *vector_columns;
	uint32_t rows_cap;
	uint32_t *values;        /* of all columns */
	struct weir_arena arena; /* unescaped strings of the vector that is out */
	bool wants_all;          /* every field of the schema: then a new one would be missed */

	bool is_done;
	uint32_t rows_max;
	uint32_t vector_rows; /* of the vector that is out */
	uint64_t rows_before; /* in the range */
	struct weir_format_stats stats;
};

int json_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		    struct weir_error *err);
int json_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		     const struct weir_range *range, struct weir_error *err);
int json_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
uint64_t json_reader_start(const struct weir_format_reader *base);
void json_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void json_reader_free(struct weir_format_reader *base);

/* Completes an error's place: file, and lines before the range where they can be counted. */
int json_reader_place(struct json_reader *self, struct weir_error *err);

/* ── walk.c ── */

/* Takes the next record as row `row`. MORE: the window does not hold it whole; nothing has changed. */
enum json_step json_walk(struct json_reader *self, uint32_t row, struct weir_error *err);
/* Passes over the value that begins at an entry; the entry behind it, or 0 when the window ends before (with `err`
 * unset) or the text is wrong. */
uint32_t json_skip_value(const struct json_window *window, uint32_t entry, uint32_t depth_max, struct weir_error *err);
/* The first bytes of most numbers and words. */
static inline bool json_begins_scalar(uint8_t byte)
{
	return (uint8_t)(byte - '0') < 10 || byte == '-' || byte == 't' || byte == 'f' || byte == 'n';
}
/* What the text has at an entry where something else should be. */
int json_unexpected_at(const struct json_window *window, uint32_t entry, const char *wanted, struct weir_error *err);

/* ── decode.c ── */

int json_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		       struct weir_error *err);
/* One number, word or string as a value of a FIXED or BITS type (bool: a byte). False: it is none. */
bool json_scalar_read(const struct json_window *window, const struct json_options *options,
		      const struct json_shape *shape, uint32_t entry, struct weir_arena *arena, void *out);
/* A value does not fit its column's type. `top` is the column's value as a whole, `entry` the one inside it that is
 * wrong. */
int json_value_misfit(struct json_reader *self, const struct json_column *column, uint32_t top, uint32_t entry,
		      struct weir_error *err);

/* A value that is no string in a column of strings: an error if mixed=error says so, unless its type was given. */
int json_text_check(struct json_reader *self, const struct json_column *column, uint32_t entry, struct weir_error *err);

/* A field that the schema does not have: of the record (column NULL) or of an object inside a column's value. */
int json_field_new(struct json_reader *self, const struct json_column *column, uint32_t top, uint32_t name,
		   uint32_t value, struct weir_error *err);

/* ── nested.c ── */

int json_nested_decode(struct json_column *column, const struct weir_selection *selection, uint32_t row_count,
		       struct weir_error *err);

/* ── infer.c ── */

/* Reads a value strictly: the entry behind it, or 0 with err set. */
uint32_t json_value_check(const struct json_window *window, const struct json_options *options, uint32_t entry,
			  struct weir_arena *arena, struct weir_error *err);

int json_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	       uint32_t count, struct weir_schema **out, struct weir_error *err);
/* Tells the read of every column that the window's records show to be wider than it was taken to be, and of new
 * ones. */
int json_misfits_note(struct json_reader *self, struct weir_error *err);
/* The type that a single value asks for. A new reference. */
const struct weir_type *json_infer_value(struct weir_account *account, const struct json_options *options,
					 const struct json_window *window, uint32_t entry, struct weir_error *err);
/* The type of a column that has values of both; what both cannot be is a string. A new reference. */
const struct weir_type *json_infer_unify(struct weir_account *account, const struct weir_type *a,
					 const struct weir_type *b, struct weir_error *err);

#endif
