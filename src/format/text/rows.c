/* Rows of a vector as lines. One loop, made twice: for CSV and for JSON. A cell is a prefix (the delimiter, or the
 * name), and a value that a switch on the column's kind prints straight into the buffer; what is rare or long is left
 * to cells.c.
 *
 * A column of dictionary codes keeps the text of each value once it was printed, quotes and all: the next row with that
 * code is a copy.
 */
#include "base/number.h"
#include "base/timetext.h"
#include "arrow/value.h"
#include "format/text/scan_impl.h"

#include <math.h>

enum {
	KEPT_BYTES_MAX = 4 << 20, /* of one column */
	KEPT_CELL_MAX = 256,
};

enum text_kind text_kind_of(const struct weir_type *type)
{
	static const uint8_t kinds[WEIR_TYPE_ID_COUNT] = {
		[WEIR_NULL] = TEXT_NULL,
		[WEIR_BOOL] = TEXT_BOOL,
		[WEIR_INT8] = TEXT_I8,
		[WEIR_INT16] = TEXT_I16,
		[WEIR_INT32] = TEXT_I32,
		[WEIR_INT64] = TEXT_I64,
		[WEIR_UINT8] = TEXT_U8,
		[WEIR_UINT16] = TEXT_U16,
		[WEIR_UINT32] = TEXT_U32,
		[WEIR_UINT64] = TEXT_U64,
		[WEIR_HALF] = TEXT_HALF,
		[WEIR_FLOAT] = TEXT_FLOAT,
		[WEIR_DOUBLE] = TEXT_DOUBLE,
		[WEIR_DECIMAL128] = TEXT_OTHER,
		[WEIR_DECIMAL256] = TEXT_OTHER,
		[WEIR_DATE32] = TEXT_DATE,
		[WEIR_DATE64] = TEXT_OTHER,
		[WEIR_TIME32] = TEXT_OTHER,
		[WEIR_TIME64] = TEXT_OTHER,
		[WEIR_TIMESTAMP] = TEXT_TIMESTAMP,
		[WEIR_DURATION] = TEXT_I64,
		[WEIR_INTERVAL_MONTHS] = TEXT_INTERVAL,
		[WEIR_INTERVAL_DAY_TIME] = TEXT_INTERVAL,
		[WEIR_INTERVAL_MONTH_DAY_NANO] = TEXT_INTERVAL,
		[WEIR_BINARY] = TEXT_BINARY,
		[WEIR_LARGE_BINARY] = TEXT_BINARY,
		[WEIR_STRING] = TEXT_STRING,
		[WEIR_LARGE_STRING] = TEXT_STRING,
		[WEIR_FIXED_BINARY] = TEXT_FIXED_BINARY,
		[WEIR_LIST_TYPE] = TEXT_NESTED,
		[WEIR_LARGE_LIST] = TEXT_NESTED,
		[WEIR_FIXED_LIST] = TEXT_NESTED,
		[WEIR_STRUCT] = TEXT_NESTED,
		[WEIR_MAP] = TEXT_NESTED,
	};

	return (enum text_kind)kinds[type->id];
}

/* ---- strings, the common case ---- */

/* NULL: not that simple. Up to 16 bytes more than the string's are written. */
static inline char *plain_text(const struct text_style *style, const uint8_t *bytes, size_t size, const bool json,
			       char *p)
{
	bytes16 v, bad;
	size_t i = 0;

	if (size < 16) {
		v = load_short(bytes, size);
		bad = json ? json_specials(v) | (bytes16)(v >= all(0x80)) : csv_specials(style, v);
		if (size >= 8) {
			memcpy(p, &v, 8);
			memcpy(p + size - 8, (const char *)&v + 8, 8);
		} else {
			memcpy(p, &v, 8);
		}
		return any(bad) ? NULL : p + size;
	}
	for (bad = all(0); i + 16 <= size; i += 16) {
		v = load16(bytes + i);
		memcpy(p + i, &v, 16);
		bad |= json ? json_specials(v) | (bytes16)(v >= all(0x80)) : csv_specials(style, v);
	}
	v = load16(bytes + size - 16);
	memcpy(p + size - 16, &v, 16);
	bad |= json ? json_specials(v) | (bytes16)(v >= all(0x80)) : csv_specials(style, v);
	return any(bad) ? NULL : p + size;
}

static int fail_quoting(const struct text_column *column, const struct weir_vector *vector, uint32_t row,
			struct weir_error *err)
{
	weir_error_set(
		err, WEIR_E_VALUE,
		"a value holds the delimiter, a quote or a line's end, and --quoting none leaves no way to write it");
	weir_error_at_column(err, column->name);
	if (vector->source) {
		weir_error_at_source(err, vector->source);
		if (vector->source_row >= 0)
			weir_error_at_row(err, vector->source_row + row);
	}
	return err->code;
}

static int put_string(struct text_writer *writer, const struct text_column *column, const uint8_t *bytes, size_t size,
		      bool *needs_quotes, struct weir_error *err)
{
	return writer->style.json
		       ? text_put_json(&writer->out, bytes, size, err)
		       : text_put_csv(&writer->out, &writer->style, bytes, size, column->quoted, needs_quotes, err);
}

static int put_nested(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		      const struct text_column *column, int64_t at, struct weir_error *err)
{
	const struct weir_array *array = column->nested;
	int64_t place = array->offset + column->nested_offset + at;

	return column->shape ? text_put_tensor(out, scratch, style, array, place, column->shape, err)
			     : text_put_nested(out, scratch, style, array, place, err);
}

/* What is printed elsewhere first: bytes, and in CSV nested values. */
static int put_scratch(struct text_writer *writer, const struct text_column *column, const struct text_out *scratch,
		       bool *needs_quotes, struct weir_error *err)
{
	return put_string(writer, column, (const uint8_t *)scratch->data, (size_t)(scratch->p - scratch->data),
			  needs_quotes, err);
}

static size_t format_double(const struct text_style *style, double value, const bool json, char *p)
{
	return !json && style->bare_floats ? weir_format_double_bare(value, p) : weir_format_double(value, p);
}

static size_t format_float(const struct text_style *style, float value, const bool json, char *p)
{
	return !json && style->bare_floats ? weir_format_float_bare(value, p) : weir_format_float(value, p);
}

/* A double that is not finite. */
static char *put_non_finite(const struct text_style *style, double value, const bool json, char *p)
{
	if (!json)
		return p + weir_format_double(value, p);
	if (!style->names_non_finite)
		return text_copy(p, "null", 4);
	if (isnan(value))
		return text_copy(p, "NaN", 3);
	return value < 0 ? text_copy(p, "-Infinity", 9) : text_copy(p, "Infinity", 8);
}

/* Kinds that the loop does not print itself. */
static int put_other(struct text_writer *writer, const struct text_column *column, const struct weir_vector *vector,
		     uint32_t row, uint32_t at, struct weir_error *err)
{
	const struct weir_type *type = column->type;
	const struct weir_view *view = (const struct weir_view *)column->values + at;
	const uint8_t *value = (const uint8_t *)column->values + (size_t)at * type->byte_width;
	struct text_out *out = &writer->out, *scratch = &writer->scratch;
	bool needs_quotes = false;
	float real;
	int code = WEIR_OK;

	switch (column->kind) {
	case TEXT_STRING:
		code = put_string(writer, column, weir_view_bytes(view), view->size, &needs_quotes, err);
		break;
	case TEXT_BINARY:
		code = text_put_binary(scratch, weir_view_bytes(view), view->size, err);
		if (!code)
			code = put_scratch(writer, column, scratch, &needs_quotes, err);
		break;
	case TEXT_FIXED_BINARY:
		code = text_put_binary(scratch, value, type->byte_width, err);
		if (!code)
			code = put_scratch(writer, column, scratch, &needs_quotes, err);
		break;
	case TEXT_NESTED:
		if (writer->style.json) {
			code = put_nested(out, scratch, &writer->style, column, at, err);
			break;
		}
		scratch->p = scratch->data;
		code = put_nested(scratch, &writer->scratch_binary, &writer->style, column, at, err);
		if (!code)
			code = put_scratch(writer, column, scratch, &needs_quotes, err);
		break;
	case TEXT_HALF:
		real = weir_half_to_float(((const uint16_t *)column->values)[at]);
		out->p = isfinite(real) ? out->p + format_float(&writer->style, real, writer->style.json, out->p)
					: put_non_finite(&writer->style, real, writer->style.json, out->p);
		break;
	case TEXT_INTERVAL:
		out->p += text_format_interval(type, value, out->p);
		break;
	default:
		out->p += weir_value_format(type, value, out->p);
		break;
	}
	return needs_quotes ? fail_quoting(column, vector, row, err) : code;
}

static inline bool bit_at(const uint64_t *bits, uint32_t row)
{
	return bits[row >> 6] >> (row & 63) & 1;
}

/* ---- cells kept ---- */

static void keep_cell(struct text_writer *writer, struct text_column *column, uint32_t code, const char *bytes,
		      size_t size)
{
	struct text_cells *kept = &column->kept;
	struct weir_error ignored = {0};

	if (kept->size + size + TEXT_PADDING > kept->capacity) {
		size_t capacity = kept->capacity ? (size_t)kept->capacity * 2 : 16 << 10;
		char *grown;

		/* Keeping is a convenience: without memory for it, cells are printed. */
		if (capacity > KEPT_BYTES_MAX || weir_account_room(writer->account) < (int64_t)capacity * 2)
			return;
		grown = weir_realloc(writer->account, kept->bytes, kept->capacity, capacity, &ignored);
		if (!grown)
			return;
		kept->bytes = grown;
		kept->capacity = (uint32_t)capacity;
	}
	memcpy(kept->bytes + kept->size, bytes, size);
	kept->cells[code] = (struct text_cell){kept->size, (uint32_t)size};
	kept->size += (uint32_t)size;
}

/* ---- the loop ---- */

#define PUT_INTEGER(type_, format_)                                                                                    \
	p += format_(((const type_ *)column->values)[at], p);                                                          \
	break

static inline __attribute__((always_inline)) int write_rows(struct text_writer *writer,
							    const struct weir_vector *vector, const bool json,
							    struct weir_error *err)
{
	const struct text_style *style = &writer->style;
	struct text_column *columns = writer->columns;
	struct text_out *out = &writer->out;
	uint32_t column_count = vector->column_count;
	const uint16_t *rows = vector->selection.rows;
	char *p = out->p;

	for (uint32_t k = 0; k < vector->selection.count; k++) {
		uint32_t row = rows ? rows[k] : k;

		if (json) {
			if (writer->is_array && (writer->rows || k))
				p = text_copy(p, ",\n", 2);
			*p++ = '{';
		}
		for (uint32_t i = 0; i < column_count; i++) {
			struct text_column *column = &columns[i];
			uint32_t at = row & column->row_mask, code = 0;
			uint64_t flushed;
			char *begin;

			if (__builtin_expect(p > out->limit, 0)) {
				out->p = p;
				if (text_out_full(out, err))
					return err->code;
				p = out->p;
			}
			if (!json) {
				*p = style->delimiter;
				p += i > 0;
			} else {
				p = text_copy_padded(p, column->prefix, column->prefix_size);
			}
			if (column->kind == TEXT_NULL || (column->validity && !bit_at(column->validity, at))) {
				p = text_copy_padded(p, style->null_text, style->null_size);
				continue;
			}
			begin = p;
			if (column->codes) {
				at = code = column->codes[at];
				if (column->keeps && column->kept.cells[code].size) {
					struct text_cell cell = column->kept.cells[code];

					p = text_copy_padded(p, column->kept.bytes + cell.begin, cell.size);
					continue;
				}
			}
			flushed = out->flushed_bytes;
			*p = style->quote;
			p += column->wraps;
			switch (column->kind) {
			case TEXT_BOOL:
				p = bit_at(column->values, at) ? text_copy(p, "true", 4) : text_copy(p, "false", 5);
				break;
			case TEXT_I8:
				PUT_INTEGER(int8_t, weir_format_i64);
			case TEXT_I16:
				PUT_INTEGER(int16_t, weir_format_i64);
			case TEXT_I32:
				PUT_INTEGER(int32_t, weir_format_i64);
			case TEXT_I64:
				PUT_INTEGER(int64_t, weir_format_i64);
			case TEXT_U8:
				PUT_INTEGER(uint8_t, weir_format_u64);
			case TEXT_U16:
				PUT_INTEGER(uint16_t, weir_format_u64);
			case TEXT_U32:
				PUT_INTEGER(uint32_t, weir_format_u64);
			case TEXT_U64:
				PUT_INTEGER(uint64_t, weir_format_u64);
			case TEXT_FLOAT: {
				float value = ((const float *)column->values)[at];

				p = __builtin_expect(isfinite(value), 1) ? p + format_float(style, value, json, p)
									 : put_non_finite(style, value, json, p);
				break;
			}
			case TEXT_DOUBLE: {
				double value = ((const double *)column->values)[at];

				p = __builtin_expect(isfinite(value), 1) ? p + format_double(style, value, json, p)
									 : put_non_finite(style, value, json, p);
				break;
			}
			case TEXT_DATE:
				p += weir_format_date(((const int32_t *)column->values)[at], p);
				break;
			case TEXT_TIMESTAMP:
				p += weir_format_timestamp(((const int64_t *)column->values)[at], column->unit_digits,
							   ' ', p);
				/* With a zone the number counts from UTC, and so does the text. */
				*p = 'Z';
				p += column->type->timezone != NULL;
				break;
			case TEXT_STRING: {
				const struct weir_view *view = (const struct weir_view *)column->values + at;

				if (view->size - 1 < TEXT_PIECE && (json || !column->quoted)) {
					char *end = plain_text(style, weir_view_bytes(view), view->size, json,
							       p + json);

					if (__builtin_expect(end != NULL, 1) &&
					    (json || view->size != style->null_size ||
					     memcmp(p, style->null_text, view->size) != 0)) {
						if (json) {
							*p = '"';
							*end++ = '"';
						}
						p = end;
						break;
					}
				}
			}
				/* fall through */
			default:
				out->p = p;
				if (put_other(writer, column, vector, row, at, err))
					return err->code;
				p = out->p;
				break;
			}
			*p = style->quote;
			p += column->wraps;
			if (column->keeps && out->flushed_bytes == flushed && p - begin <= KEPT_CELL_MAX)
				keep_cell(writer, column, code, begin, (size_t)(p - begin));
		}
		if (json) {
			*p++ = '}';
			*p = '\n';
			p += !writer->is_array;
		} else {
			memcpy(p, style->terminator, 2);
			p += style->terminator_size;
		}
		if (__builtin_expect(p > out->limit, 0)) {
			out->p = p;
			if (text_out_full(out, err))
				return err->code;
			p = out->p;
		}
	}
	out->p = p;
	writer->rows += vector->selection.count;
	return WEIR_OK;
}

int text_write_csv(struct text_writer *writer, const struct weir_vector *vector, struct weir_error *err)
{
	return write_rows(writer, vector, false, err);
}

int text_write_json(struct text_writer *writer, const struct weir_vector *vector, struct weir_error *err)
{
	return write_rows(writer, vector, true, err);
}
