/* text: CSV and JSON, written. What the files of this folder share.
 *
 *     write.c   the tables of the formats; parts, header line, footer; columns prepared for each vector
 *     rows.c    rows of a vector as lines: the loop over rows and columns, numbers and times, cells kept per
 *               dictionary value
 *     cells.c   strings, bytes and nested values: quoting, escaping
 *     output.c  the buffer that they write into
 *
 * Bytes go into a buffer with TEXT_SLACK free bytes behind its limit: whoever has seen p ≤ limit may write that many
 * without asking again. When p has passed the limit the buffer goes to the sink, in the middle of a row too, so it
 * never grows; a value of a gigabyte goes through in pieces.
 *
 *     data                      p        limit            data + capacity
 *     ├─────────────────────────┼──────────┼─────────────────┤
 *       text                      room       slack
 */
#ifndef WEIR_FORMAT_TEXT_IMPL_H
#define WEIR_FORMAT_TEXT_IMPL_H

#include "arrow/tensor.h"
#include "format/format.h"

#include <string.h>

enum {
	TEXT_FLUSH_BYTES = 256 << 10,
	TEXT_SLACK = 64 << 10,
	TEXT_KEEP_BYTES = 4 << 20, /* of a scratch buffer, from one vector to the next */
	TEXT_PIECE = 8 << 10,      /* of a string; escaped, six times that fits the slack */
	TEXT_NAME_MAX = 4 << 10,   /* of a prefix that is copied without asking */
	TEXT_PADDING = 16,
	TEXT_NULL_MAX = 64,
	TEXT_KEPT_VALUES_MAX = 1 << 17, /* of a dictionary */
};

struct text_out {
	struct weir_account *account;
	struct weir_byte_sink sink; /* write NULL: the buffer grows instead */
	char *data, *p, *limit;
	size_t capacity;
	uint64_t flushed_bytes;
};

int text_out_init(struct text_out *out, struct weir_account *account, struct weir_error *err);
void text_out_release(struct text_out *out);
int text_out_flush(struct text_out *out, struct weir_error *err);
void text_out_trim(struct text_out *out);                        /* an empty one that has grown large */
int text_out_full(struct text_out *out, struct weir_error *err); /* p has passed the limit */

static inline int text_out_room(struct text_out *out, struct weir_error *err)
{
	return __builtin_expect(out->p > out->limit, 0) ? text_out_full(out, err) : WEIR_OK;
}

/* How text is to look, with the defaults filled in. */
struct text_style {
	bool json;
	char delimiter, quote;
	char escape; /* the quote itself: doubled */
	enum weir_quoting quoting;
	bool names_non_finite; /* JSON: NaN, not null */
	bool bare_floats;      /* CSV: 1, not 1.0 */
	char null_text[TEXT_NULL_MAX + TEXT_PADDING];
	uint32_t null_size;
	bool quotes_empty; /* an empty string would be taken for a null, or its line for none */
	char terminator[2];
	uint32_t terminator_size;
};

/* ---- cells.c ---- */

/* A string cell. `*needs_quotes` (quoting none) is set when it cannot be written. */
int text_put_csv(struct text_out *out, const struct text_style *style, const uint8_t *bytes, size_t size, bool quoted,
		 bool *needs_quotes, struct weir_error *err);
int text_put_json(struct text_out *out, const uint8_t *bytes, size_t size, struct weir_error *err);
/* Printable ASCII as it is, everything else and the backslash as \xNN; into a scratch buffer. */
int text_put_binary(struct text_out *scratch, const uint8_t *bytes, size_t size, struct weir_error *err);
/* Row `place` (the array's offset is in it) as a JSON value; not null. */
int text_put_nested(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		    const struct weir_array *array, int64_t place, struct weir_error *err);
/* The same of a tensor: a list for each of its dimensions, within each other. */
int text_put_tensor(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		    const struct weir_array *array, int64_t place, const struct weir_tensor_shape *shape,
		    struct weir_error *err);
size_t text_format_interval(const struct weir_type *type, const void *value, char *out);
/* Whether a CSV reader would see something else than this text. */
bool text_is_special(const struct text_style *style, const uint8_t *bytes, size_t size);

static inline char *text_copy(char *p, const void *bytes, size_t size)
{
	memcpy(p, bytes, size);
	return p + size;
}

/* For short texts that have TEXT_PADDING readable bytes behind them. */
static inline char *text_copy_padded(char *p, const char *bytes, size_t size)
{
	memcpy(p, bytes, TEXT_PADDING);
	if (size > TEXT_PADDING)
		memcpy(p + TEXT_PADDING, bytes + TEXT_PADDING, size - TEXT_PADDING);
	return p + size;
}

/* ---- rows.c ---- */

enum text_kind {
	TEXT_NULL,
	TEXT_BOOL,
	TEXT_I8,
	TEXT_I16,
	TEXT_I32,
	TEXT_I64,
	TEXT_U8,
	TEXT_U16,
	TEXT_U32,
	TEXT_U64,
	TEXT_HALF,
	TEXT_FLOAT,
	TEXT_DOUBLE,
	TEXT_DATE,
	TEXT_TIMESTAMP,
	TEXT_STRING,
	TEXT_BINARY,
	TEXT_FIXED_BINARY,
	TEXT_INTERVAL,
	TEXT_NESTED,
	TEXT_OTHER, /* what weir_value_format prints */
};

/* Cells of dictionary values, as they were written the first time. Dropped when the dictionary changes. */
struct text_cells {
	uint64_t id; /* of the dictionary; 0: none */
	uint32_t count;
	struct text_cell {
		uint32_t begin, size; /* size 0: not kept */
	} * cells;
	size_t cells_capacity;
	char *bytes;
	uint32_t size, capacity;
};

struct text_column {
	const struct weir_type *type; /* of values */
	const char *name;
	enum text_kind kind;
	bool quoted;         /* always; strings, bytes and nested values see to it themselves */
	bool wraps;          /* the others: a quote before and after */
	uint8_t unit_digits; /* of times */
	char *prefix;        /* JSON: `,"name":` */
	uint32_t prefix_size;
	struct weir_tensor_shape *shape; /* of tensors of several dimensions, all of one shape; else NULL */
	/* Of this vector. */
	const uint64_t *validity;
	const void *values;
	const uint32_t *codes; /* rows are codes of `values`; NULL: rows are values */
	const struct weir_array *nested;
	int64_t nested_offset;
	uint32_t row_mask; /* 0: constant */
	bool keeps;        /* cells of codes */
	struct text_cells kept;
};

struct text_writer {
	struct weir_account *account;
	struct weir_schema *schema;
	struct text_style style;
	struct text_out out, scratch, scratch_binary;
	struct text_column *columns;
	bool is_array; /* JSON: rows are separated by commas */
	uint64_t rows;
};

enum text_kind text_kind_of(const struct weir_type *type);
/* The selected rows of a vector that text_column are set to. */
int text_write_csv(struct text_writer *writer, const struct weir_vector *vector, struct weir_error *err);
int text_write_json(struct text_writer *writer, const struct weir_vector *vector, struct weir_error *err);

#endif
