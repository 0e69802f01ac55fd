/* Fields become values, a column at a time, for the rows that live.
 *
 * Each type has a loop with a quick reading of what most fields look like: digits, perhaps a sign and a point, dates
 * and timestamps of the usual shape, texts without quotes. Quick readings load whole words around a field, past both
 * ends of it: the window has room for that. What they do not recognise (quotes, blanks, nulls, exponents …) is read by
 * values.c; they never accept what values.c would not, nor anything that may be a null spelling (null_first).
 */
#include "base/utf8.h"
#include "format/csv/csv_impl.h"
#include "format/cuts.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The fields of one column. */
struct fields {
	const uint8_t *text;
	const uint32_t *ends, *before; /* of row r: ends[r × width]; begins at before[r × before_step] + before_add */
	uint32_t width, before_step, before_add;
};

static struct fields fields_of(const struct csv_column *column)
{
	const struct csv_rows *rows = &column->reader->rows;
	struct fields fields = {.text = column->reader->input.text,
				.ends = rows->ends + column->field,
				.width = rows->width,
				.before = rows->starts,
				.before_step = 1};

	if (column->field > 0) {
		fields.before = rows->ends + column->field - 1;
		fields.before_step = rows->width;
		fields.before_add = 1;
	}
	return fields;
}

static inline uint32_t field_begin(const struct fields *fields, uint32_t row)
{
	return fields->before[(size_t)row * fields->before_step] + fields->before_add;
}

static inline uint32_t field_end(const struct fields *fields, uint32_t row)
{
	return fields->ends[(size_t)row * fields->width];
}

static inline void set_null(struct csv_column *column, uint32_t row)
{
	column->has_null = true;
	column->valid[row >> 6] &= ~((uint64_t)1 << (row & 63));
}

/* ---- what does not fit ---- */

static int misfit(const struct csv_column *column, uint32_t row, const char *text, size_t size, struct weir_error *err)
{
	const struct csv_reader *reader = column->reader;
	const struct weir_read_setup *setup = reader->file->setup;
	const struct weir_type *wider;
	int shown = (int)(size < 80 ? size : 80);
	const char *more = size > 80 ? "…" : "";
	char name[64], wider_name[64] = "string";
	uint64_t start;
	bool is_text = weir_type_is_text(column->type);

	weir_type_name(column->type, name, sizeof(name));
	if (column->is_given) {
		if (is_text)
			weir_error_set(err, WEIR_E_DATA,
				       "the text is not UTF-8 (--encoding latin1 may be what it is; "
				       "--types '%s=binary' keeps its bytes)",
				       column->name);
		else
			weir_error_set(err, WEIR_E_DATA, "'%.*s%s' is no %s", shown, text, more, name);
	} else {
		uint32_t kinds = csv_kinds_of_type(column->type) &
				 csv_kinds_of(reader->file->dialect.point, text, size);

		wider = csv_type_of_kinds(reader->account, kinds, true, err);
		if (!wider)
			return err->code;
		weir_type_name(wider, wider_name, sizeof(wider_name));
		weir_type_unref(wider);
		if (is_text)
			weir_error_set(err, WEIR_E_MISFIT,
				       "the text is not UTF-8, as what the types were inferred from was "
				       "(--encoding latin1 may be what it is; --types '%s=binary' keeps its "
				       "bytes)",
				       column->name);
		else
			weir_error_set(err, WEIR_E_MISFIT,
				       "'%.*s%s' is no %s, which the column seemed to be "
				       "(--types '%s=%s' says what it is, --infer all looks at every row first)",
				       shown, text, more, name, column->name, wider_name);
	}
	weir_error_at_column(err, column->name);
	weir_error_at_value(err, text, size);
	csv_error_place(reader, reader->rows.starts[row], err);
	/* A range that began at the wrong place reads nonsense, which is no reason to widen anything. */
	if (!column->is_given && setup->misfit &&
	    !(reader->file->base.cuts && weir_cuts_start(reader->file->base.cuts, reader->range.number, &start) &&
	      start != reader->start))
		csv_misfits_note(column->reader);
	return err->code;
}

/* ---- the slow way ---- */

struct plain {
	const char *text;
	size_t size;
	bool is_quoted, is_missing;
};

/* A field without its quotes and escapes; bytes that had to be moved are in the reader's arena. */
static int plain_text(const struct csv_column *column, const struct fields *fields, uint32_t row, struct plain *out,
		      struct weir_error *err)
{
	const struct csv_dialect *dialect = &column->reader->file->dialect;
	uint32_t begin = field_begin(fields, row), end = field_end(fields, row);
	const char *text = (const char *)fields->text + begin;
	size_t size = end - begin;
	char *copy;

	*out = (struct plain){.text = text, .size = size};
	if (begin > end) {
		*out = (struct plain){.text = "", .is_missing = true};
		return WEIR_OK;
	}
	out->is_quoted = dialect->has_quote && size && (uint8_t)text[0] == dialect->quote;
	if (!out->is_quoted && !(dialect->has_escape && memchr(text, dialect->escape, size)))
		return WEIR_OK;
	if (out->is_quoted && size >= 2 && (uint8_t)text[size - 1] == dialect->quote &&
	    !memchr(text + 1, dialect->quote, size - 2) &&
	    !(dialect->has_escape && memchr(text, dialect->escape, size))) {
		out->text = text + 1;
		out->size = size - 2;
		return WEIR_OK;
	}
	copy = weir_arena_alloc(&column->reader->arena, size, err);
	if (!copy)
		return err->code;
	out->text = copy;
	out->size = csv_unquote(dialect, text, size, copy);
	return WEIR_OK;
}

static bool is_null(const struct csv_column *column, const struct plain *plain)
{
	const struct csv_options *options = column->reader->file->options;

	if (plain->is_missing)
		return true;
	if (plain->is_quoted && !options->quoted_null)
		return false;
	return csv_is_null(options, plain->text, plain->size);
}

/* `out` is where the row's value goes; a boolean is one byte. */
static int slow_value(struct csv_column *column, const struct fields *fields, uint32_t row, void *out,
		      struct weir_error *err)
{
	struct plain plain;

	if (plain_text(column, fields, row, &plain, err)) {
		csv_error_place(column->reader, column->reader->rows.starts[row], err);
		return err->code;
	}
	if (is_null(column, &plain)) {
		set_null(column, row);
		memset(out, 0, column->type->byte_width);
		return WEIR_OK;
	}
	if (csv_value_parse(column->type, column->reader->file->dialect.point, plain.text, plain.size, out))
		return WEIR_OK;
	return misfit(column, row, plain.text, plain.size, err);
}

/* ---- quick readings ---- */

static inline uint64_t load8(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The last `count` bytes of a word, as digits: 0 to 8 of them. */
static inline uint64_t last_digits(const uint8_t *end, uint32_t count)
{
	static const uint64_t kept[9] = {0,
					 UINT64_C(0xff) << 56,
					 UINT64_C(0xffff) << 48,
					 UINT64_C(0xffffff) << 40,
					 UINT64_C(0xffffffff) << 32,
					 UINT64_C(0xffffffffff) << 24,
					 UINT64_C(0xffffffffffff) << 16,
					 UINT64_C(0xffffffffffffff) << 8,
					 UINT64_MAX};

	return (load8(end - 8) ^ UINT64_C(0x3030303030303030)) & kept[count];
}

/* 1 to 16 digits. */
static inline bool quick_natural(const uint8_t *text, uint32_t size, uint64_t *out)
{
	const uint8_t *end = text + size;
	uint64_t low, high;

	if (size - 1 > 15)
		return false;
	if (size <= 8) {
		low = last_digits(end, size);
		*out = weir_digits8_value(low);
		return weir_digits8_valid(low);
	}
	low = last_digits(end, 8);
	high = last_digits(end - 8, size - 8);
	*out = (uint64_t)weir_digits8_value(high) * 100000000 + weir_digits8_value(low);
	return weir_digits8_valid(low) && weir_digits8_valid(high);
}

static inline bool quick_integer(const uint8_t *text, uint32_t size, int64_t *out)
{
	bool negative = *text == '-';
	uint64_t natural;

	if (!quick_natural(text + negative, size - negative, &natural))
		return false;
	*out = negative ? -(int64_t)natural : (int64_t)natural;
	return true;
}

static inline uint32_t point_mask(const uint8_t *text, uint8_t point)
{
#if defined(__SSE2__)
	return (uint32_t)_mm_movemask_epi8(
		_mm_cmpeq_epi8(_mm_loadu_si128((const void *)text), _mm_set1_epi8((char)point)));
#else
	uint32_t mask = 0;

	for (uint32_t i = 0; i < 16; i++)
		mask |= (uint32_t)(text[i] == point) << i;
	return mask;
#endif
}

static const uint64_t whole_pow10[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* digits[.digits], at most 8 of each: as an integer and how many were behind the point. */
static inline bool quick_decimal(const uint8_t *text, uint32_t size, uint8_t point, uint64_t *out, uint32_t *scale)
{
	uint32_t mask, whole, fraction;
	uint64_t front, back;

	if (size - 1 > 15)
		return false;
	mask = point_mask(text, point) & ((1u << size) - 1);
	if (!mask) {
		*scale = 0;
		return quick_natural(text, size, out);
	}
	whole = (uint32_t)__builtin_ctz(mask);
	fraction = size - whole - 1;
	if (whole > 8 || fraction > 8 || size == 1)
		return false;
	front = last_digits(text + whole, whole);
	back = last_digits(text + size, fraction);
	if (!weir_digits8_valid(front) || !weir_digits8_valid(back))
		return false;
	*out = weir_digits8_value(front) * whole_pow10[fraction] + weir_digits8_value(back);
	*scale = fraction;
	return true;
}

static inline bool quick_double(const uint8_t *text, uint32_t size, uint8_t point, double *out)
{
	bool negative = *text == '-';
	uint64_t digits;
	uint32_t scale;

	/* Both are exact below 2^53, so the quotient is rounded once. */
	if (!quick_decimal(text + negative, size - negative, point, &digits, &scale) || digits >> 53)
		return false;
	*out = (double)digits / weir_pow10_exact[scale];
	*out = negative ? -*out : *out;
	return true;
}

/* YYYY-MM-DD, of a year and month that need no care. */
static inline bool quick_days(const uint8_t *text, int32_t *out)
{
	static const uint8_t month_days[16] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	uint64_t digits = load8(text) ^ UINT64_C(0x2d30302d30303030);
	uint32_t tens = (uint32_t)text[8] - '0', ones = (uint32_t)text[9] - '0', year, month, day, from_march, shifted;

	if (!weir_digits8_valid(digits) || (digits & UINT64_C(0xff0000ff00000000)) || tens > 3 || ones > 9)
		return false;
	year = (uint32_t)(digits & 0xff) * 1000 + (uint32_t)(digits >> 8 & 0xff) * 100 +
	       (uint32_t)(digits >> 16 & 0xff) * 10 + (uint32_t)(digits >> 24 & 0xff);
	month = (uint32_t)(digits >> 40 & 0xff) * 10 + (uint32_t)(digits >> 48 & 0xff);
	day = tens * 10 + ones;
	if (year == 0 || month - 1 > 11 || day - 1 >= month_days[month])
		return false; /* 29 February is left to those who know leap years */
	shifted = year - (month <= 2);
	from_march = month > 2 ? month - 3 : month + 9;
	*out = (int32_t)(365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * from_march + 2) / 5 +
			 day - 1) -
	       719468;
	return true;
}

/* HH:MM:SS as seconds. */
static inline bool quick_seconds(const uint8_t *text, uint32_t *out)
{
	uint64_t digits = load8(text) ^ UINT64_C(0x30303a30303a3030);
	uint32_t hours, minutes, seconds;

	if (!weir_digits8_valid(digits) || (digits & UINT64_C(0x0000ff0000ff0000)))
		return false;
	hours = (uint32_t)(digits & 0xff) * 10 + (uint32_t)(digits >> 8 & 0xff);
	minutes = (uint32_t)(digits >> 24 & 0xff) * 10 + (uint32_t)(digits >> 32 & 0xff);
	seconds = (uint32_t)(digits >> 48 & 0xff) * 10 + (uint32_t)(digits >> 56 & 0xff);
	*out = hours * 3600 + minutes * 60 + seconds;
	return (hours <= 23) & (minutes <= 59) & (seconds <= 59);
}

struct timestamp_rules {
	int64_t units_per_second;
	uint32_t digits;
	bool has_zone;
};

/* YYYY-MM-DD HH:MM:SS[.digits][Z], of years in which all units fit. */
static inline bool quick_timestamp(const uint8_t *text, uint32_t size, const struct timestamp_rules *rules,
				   int64_t *out)
{
	uint32_t seconds, fraction = 0;
	uint64_t units = 0;
	int32_t days;

	if (size - 19 > 12 || (text[10] != ' ' && text[10] != 'T') || !quick_days(text, &days) ||
	    !quick_seconds(text + 11, &seconds))
		return false;
	if (rules->has_zone) {
		if (text[size - 1] != 'Z')
			return false;
		size--;
	}
	if (size != 19) {
		fraction = size - 20;
		if (size < 21 || text[19] != '.' || fraction > rules->digits || fraction > 8)
			return false;
		units = last_digits(text + size, fraction);
		if (!weir_digits8_valid(units))
			return false;
		units = weir_digits8_value(units);
		for (uint32_t i = fraction; i < rules->digits; i++)
			units *= 10;
	}
	if (rules->digits == 9 && (days < -100000 || days > 100000))
		return false;
	*out = ((int64_t)days * 86400 + seconds) * rules->units_per_second + (int64_t)units;
	return true;
}

static inline bool quick_boolean(const uint8_t *text, uint32_t size, uint8_t *out)
{
	if (size == 1) {
		*out = *text == '1';
		return (*text | 1) == '1';
	}
	if (size == 4) {
		*out = 1;
		return memcmp(text, "true", 4) == 0 || memcmp(text, "True", 4) == 0;
	}
	*out = 0;
	return size == 5 && (memcmp(text, "false", 5) == 0 || memcmp(text, "False", 5) == 0);
}

/* ---- loops ---- */

/* Runs `quick` for every row that lives, and the slow way where it says no. `row`, `text` and `size` are there for
 * it. */
#define EACH_ROW(slot, quick)                                                                                          \
	do {                                                                                                           \
		uint32_t count_ = selection->rows ? selection->count : column->reader->rows.count;                     \
                                                                                                                       \
		for (uint32_t k_ = 0; k_ < count_; k_++) {                                                             \
			uint32_t row = selection->rows ? selection->rows[k_] : k_;                                     \
			uint32_t begin_ = field_begin(&fields, row), size = field_end(&fields, row) - begin_;          \
			const uint8_t *text = fields.text + begin_;                                                    \
                                                                                                                       \
			if (!column->null_first && (quick))                                                            \
				continue;                                                                              \
			if (slow_value(column, &fields, row, (slot), err))                                             \
				return err->code;                                                                      \
		}                                                                                                      \
	} while (0)

#define DEFINE_INTEGER(name, type)                                                                                     \
	static int name(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)     \
	{                                                                                                              \
		struct fields fields = fields_of(column);                                                              \
		type *out = (type *)column->values;                                                                    \
		int64_t wide;                                                                                          \
                                                                                                                       \
		EACH_ROW(&out[row], ((type)-1 > 0 && *text == '-')                                                     \
					    ? false                                                                    \
					    : quick_integer(text, size, &wide) &&                                      \
						      (out[row] = (type)wide, (int64_t)out[row] == wide));             \
		return WEIR_OK;                                                                                        \
	}
DEFINE_INTEGER(decode_i8, int8_t)
DEFINE_INTEGER(decode_i16, int16_t)
DEFINE_INTEGER(decode_i32, int32_t)
DEFINE_INTEGER(decode_i64, int64_t)
DEFINE_INTEGER(decode_u8, uint8_t)
DEFINE_INTEGER(decode_u16, uint16_t)
DEFINE_INTEGER(decode_u32, uint32_t)
DEFINE_INTEGER(decode_u64, uint64_t)

static int decode_double(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	uint8_t point = column->reader->file->dialect.point;
	struct weir_number_grammar grammar = {WEIR_NUMBER_BARE_POINT | WEIR_NUMBER_ZEROS | WEIR_NUMBER_EXPONENT,
					      (char)point};
	double *out = (double *)column->values;

	EACH_ROW(&out[row],
		 quick_double(text, size, point, &out[row]) ||
			 (size - 1 < 64 && weir_parse_double((const char *)text, size, grammar, &out[row]) == size));
	return WEIR_OK;
}

static int decode_date32(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	int32_t *out = (int32_t *)column->values;

	EACH_ROW(&out[row], size == 10 && quick_days(text, &out[row]));
	return WEIR_OK;
}

static int decode_timestamp(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	static const struct timestamp_rules units[] = {
		[WEIR_SECOND] = {1, 0, false},
		[WEIR_MILLI] = {1000, 3, false},
		[WEIR_MICRO] = {1000000, 6, false},
		[WEIR_NANO] = {1000000000, 9, false},
	};
	struct fields fields = fields_of(column);
	struct timestamp_rules rules = units[column->type->unit];
	int64_t *out = (int64_t *)column->values;

	rules.has_zone = column->type->timezone != NULL;
	EACH_ROW(&out[row], quick_timestamp(text, size, &rules, &out[row]));
	return WEIR_OK;
}

static inline bool quick_decimal128(const struct weir_type *type, uint8_t point, const uint8_t *text, uint32_t size,
				    __int128 *out)
{
	bool negative = *text == '-';
	uint64_t digits;
	uint32_t scale;
	int32_t missing;

	if (!quick_decimal(text + negative, size - negative, point, &digits, &scale))
		return false;
	missing = type->scale - (int32_t)scale;
	/* 16 digits at most, so two more are safe in 64 bits; what needs more care goes the slow way. */
	if (missing < 0 || missing > 2 || type->precision < 18)
		return false;
	digits *= whole_pow10[missing];
	*out = negative ? -(__int128)digits : (__int128)digits;
	return true;
}

static int decode_decimal128(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	uint8_t point = column->reader->file->dialect.point;
	__int128 *out = (__int128 *)column->values;

	EACH_ROW(&out[row], quick_decimal128(column->type, point, text, size, &out[row]));
	return WEIR_OK;
}

/* Types that are rare in text. */
static int decode_any(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	size_t width = column->type->byte_width;

	EACH_ROW(column->values + row * width, ((void)text, (void)size, false));
	return WEIR_OK;
}

static int decode_boolean(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	uint64_t *bits = (uint64_t *)column->values;
	uint32_t count = selection->rows ? selection->count : column->reader->rows.count;

	memset(bits, 0, (column->reader->rows.count + 63) / 64 * sizeof(*bits));
	for (uint32_t k = 0; k < count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k, begin = field_begin(&fields, row);
		uint64_t value[4] = {0};

		if ((column->null_first ||
		     !quick_boolean(fields.text + begin, field_end(&fields, row) - begin, (uint8_t *)value)) &&
		    slow_value(column, &fields, row, value, err))
			return err->code;
		bits[row >> 6] |= (uint64_t)(*(uint8_t *)value & 1) << (row & 63);
	}
	return WEIR_OK;
}

static inline struct weir_view make_view(const uint8_t *text, uint32_t size)
{
#if defined(__SSE2__)
	static const uint8_t kept[32] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct weir_view view;

	if (size <= WEIR_VIEW_INLINE) {
		__m128i bytes = _mm_and_si128(_mm_loadu_si128((const void *)text),
					      _mm_loadu_si128((const void *)(kept + 16 - size)));

		bytes = _mm_or_si128(_mm_slli_si128(bytes, 4), _mm_cvtsi32_si128((int)size));
		_mm_storeu_si128((__m128i *)&view, bytes);
		return view;
	}
#endif
	return weir_view_make(text, size);
}

static int decode_bytes(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	const struct csv_dialect *dialect = &column->reader->file->dialect;
	const struct csv_options *options = column->reader->file->options;
	struct weir_view *out = (struct weir_view *)column->values;
	bool checks_utf8 = column->reader->index.has_high && weir_type_is_text(column->type);
	bool all_plain = !dialect->has_escape && options->strings_null == CSV_STRINGS_NEVER;
	uint32_t count = selection->rows ? selection->count : column->reader->rows.count;
	uint8_t quote = dialect->quote;
	/* Where no quote is a letter, a field between two quotes has none inside. */
	bool quick_quotes = all_plain && dialect->has_quote && !checks_utf8 && !column->reader->index.has_inner_quotes;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		uint32_t begin = field_begin(&fields, row), end = field_end(&fields, row);
		struct plain plain;

		if (quick_quotes && end - begin - 2 < UINT32_MAX - 2 && fields.text[begin] == quote &&
		    fields.text[end - 1] == quote) {
			begin++;
			end--;
			out[row] = make_view(fields.text + begin, end - begin);
			continue;
		}
		if (all_plain && begin <= end && (begin == end || fields.text[begin] != quote)) {
			out[row] = make_view(fields.text + begin, end - begin);
			if (checks_utf8 && !weir_utf8_valid(fields.text + begin, end - begin))
				return misfit(column, row, (const char *)fields.text + begin, end - begin, err);
			continue;
		}
		if (plain_text(column, &fields, row, &plain, err)) {
			csv_error_place(column->reader, column->reader->rows.starts[row], err);
			return err->code;
		}
		if (plain.is_missing ||
		    (options->strings_null != CSV_STRINGS_NEVER &&
		     !(plain.is_quoted && (options->strings_null == CSV_STRINGS_UNQUOTED || !options->quoted_null)) &&
		     csv_is_null(options, plain.text, plain.size))) {
			set_null(column, row);
			out[row] = (struct weir_view){0};
			continue;
		}
		if (checks_utf8 && !weir_utf8_valid(plain.text, plain.size))
			return misfit(column, row, plain.text, plain.size, err);
		out[row] = weir_view_make(plain.text, (uint32_t)plain.size);
	}
	return WEIR_OK;
}

/* A column of which nothing but nulls was seen. */
static int decode_null(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	struct fields fields = fields_of(column);
	uint32_t count = selection->rows ? selection->count : column->reader->rows.count;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		struct plain plain;

		if (plain_text(column, &fields, row, &plain, err))
			return err->code;
		if (!is_null(column, &plain))
			return misfit(column, row, plain.text, plain.size, err);
		set_null(column, row);
	}
	return WEIR_OK;
}

typedef int decode_function(struct csv_column *column, const struct weir_selection *selection, struct weir_error *err);

static decode_function *function_for(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_NULL:
		return decode_null;
	case WEIR_BOOL:
		return decode_boolean;
	case WEIR_INT8:
		return decode_i8;
	case WEIR_INT16:
		return decode_i16;
	case WEIR_INT32:
		return decode_i32;
	case WEIR_INT64:
		return decode_i64;
	case WEIR_UINT8:
		return decode_u8;
	case WEIR_UINT16:
		return decode_u16;
	case WEIR_UINT32:
		return decode_u32;
	case WEIR_UINT64:
		return decode_u64;
	case WEIR_DOUBLE:
		return decode_double;
	case WEIR_DATE32:
		return decode_date32;
	case WEIR_TIMESTAMP:
		return decode_timestamp;
	case WEIR_DECIMAL128:
		return decode_decimal128;
	case WEIR_BINARY:
	case WEIR_LARGE_BINARY:
	case WEIR_STRING:
	case WEIR_LARGE_STRING:
		return decode_bytes;
	default:
		return decode_any;
	}
}

static int values_reserve(struct csv_column *column, struct weir_error *err)
{
	size_t width = weir_type_is_bytes(column->type) ? sizeof(struct weir_view)
		       : column->type->byte_width       ? column->type->byte_width
							: 8;
	/* A boolean's slow way writes a byte, a short value's may write eight. */
	size_t size = weir_alloc_size((size_t)column->reader->rows.count * width + 64);

	if (size <= column->values_size)
		return WEIR_OK;
	weir_free(column->reader->account, column->values, column->values_size);
	column->values_size = 0;
	column->values = weir_alloc(column->reader->account, size, err);
	if (!column->values)
		return err->code;
	column->values_size = size;
	return WEIR_OK;
}

int csv_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
	       struct weir_error *err)
{
	struct csv_column *self = (struct csv_column *)pending;
	static const uint64_t none = 0;

	if (values_reserve(self, err)) {
		csv_error_place(self->reader, self->reader->rows.starts[0], err);
		return err->code;
	}
	memset(self->valid, 0xff, (self->reader->rows.count + 63) / 64 * sizeof(self->valid[0]));
	self->has_null = false;
	if (function_for(self->type)(self, selection, err))
		return err->code;
	column->dictionary = NULL;
	if (self->type->id == WEIR_NULL) {
		column->form = WEIR_CONSTANT;
		column->validity = &none;
		column->values = NULL;
		return WEIR_OK;
	}
	column->form = WEIR_FLAT;
	column->validity = self->has_null ? self->valid : NULL;
	column->values = self->values;
	return WEIR_OK;
}
