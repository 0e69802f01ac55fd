#include "ops/summary.h"

#include "arrow/value.h"
#include "vector/kernels.h"

#include <math.h>

enum weir_summary_kind weir_summary_kind(const struct weir_type *type)
{
	if (weir_type_is_integer(type) || type->id == WEIR_BOOL || type->id == WEIR_DURATION)
		return WEIR_SUMMARY_INTEGER;
	if (weir_type_is_float(type))
		return WEIR_SUMMARY_REAL;
	return weir_type_is_decimal(type) ? WEIR_SUMMARY_DECIMAL : WEIR_SUMMARY_NONE;
}

double weir_summary_real(const struct weir_type *type, const struct weir_scalar *value)
{
	struct weir_int256 decimal;

	switch (weir_summary_kind(type)) {
	case WEIR_SUMMARY_REAL:
		return value->real;
	case WEIR_SUMMARY_DECIMAL:
		decimal = weir_int256_load(value->decimal, 32);
		return weir_decimal_to_double(&decimal, type->scale);
	default:
		return type->id == WEIR_BOOL     ? value->boolean
		       : type->id == WEIR_UINT64 ? (double)value->unsigned_
						 : (double)value->integer;
	}
}

bool weir_summary_has_order(const struct weir_type *type)
{
	return !weir_type_is_nested(type) && type->id != WEIR_INTERVAL_MONTHS && type->id != WEIR_INTERVAL_DAY_TIME &&
	       type->id != WEIR_INTERVAL_MONTH_DAY_NANO;
}

void weir_summary_init(struct weir_summary *summary, struct weir_account *account, const struct weir_type *type,
		       uint32_t wants)
{
	*summary = (struct weir_summary){.account = account, .type = weir_type_values(type), .wants = wants};
}

void weir_summary_reset(struct weir_summary *summary)
{
	struct weir_summary empty = {.account = summary->account,
				     .type = summary->type,
				     .wants = summary->wants,
				     .least = summary->least,
				     .greatest = summary->greatest};

	empty.least.known = empty.greatest.known = false;
	if (!(summary->wants & (WEIR_WANTS_SUM | WEIR_WANTS_SQUARES))) {
		/* What is large has never been touched. */
		summary->rows = summary->nulls = summary->nans = 0;
		summary->sum = 0;
		summary->squares = summary->squares_high = 0;
		summary->decimal_sum = empty.decimal_sum;
		summary->least.known = summary->greatest.known = false;
		return;
	}
	*summary = empty;
}

void weir_summary_release(struct weir_summary *summary)
{
	weir_bound_release(&summary->least, summary->account);
	weir_bound_release(&summary->greatest, summary->account);
}

/* ---- sums ---- */

static inline void add_square(struct weir_summary *summary, unsigned __int128 magnitude)
{
	summary->squares_high += __builtin_add_overflow(summary->squares, magnitude * magnitude, &summary->squares);
}

/* 2^31 values of 64 bits, and more than a vector has of any, fit twice over before the sum could overflow 128 bits. */
#define INTEGERS(name, type)                                                                                           \
	static void integers_##name(struct weir_summary *summary, const void *values, const uint32_t *rows,            \
				    uint32_t count)                                                                    \
	{                                                                                                              \
		const type *items = values;                                                                            \
		__int128 sum = 0;                                                                                      \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			sum += items[rows[i]];                                                                         \
		summary->sum += sum;                                                                                   \
		for (uint32_t i = 0; summary->wants & WEIR_WANTS_SQUARES && i < count; i++) {                          \
			__int128 value = items[rows[i]];                                                               \
                                                                                                                       \
			add_square(summary, (unsigned __int128)(value < 0 ? -value : value));                          \
		}                                                                                                      \
	}
INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)

static void (*const integers[])(struct weir_summary *, const void *, const uint32_t *, uint32_t) = {
	integers_i8, integers_i16, integers_i32, integers_i64, integers_u8, integers_u16, integers_u32, integers_u64,
};

static void add_reals(struct weir_summary *summary, const double *values, uint32_t count)
{
	uint32_t nans = 0;

	for (uint32_t i = 0; i < count; i++)
		nans += values[i] != values[i];
	summary->nans += nans;
	if (summary->wants & WEIR_WANTS_SUM)
		weir_exact_add_many(&summary->real_sum, values, count);
	for (uint32_t i = 0; summary->wants & WEIR_WANTS_SQUARES && i < count; i++)
		weir_exact_squares_add(&summary->real_squares, values[i]);
}

static int add_decimals(struct weir_summary *summary, const uint8_t *values, const uint32_t *rows, uint32_t count,
			struct weir_error *err)
{
	uint32_t width = summary->type->byte_width;

	for (uint32_t i = 0; i < count; i++) {
		struct weir_int256 value = weir_int256_load(values + (size_t)rows[i] * width, width);

		/* Extremes of values too great to be added are no error. */
		if (summary->wants & WEIR_WANTS_SUM &&
		    weir_int256_add(&summary->decimal_sum, &value, &summary->decimal_sum))
			return weir_error_set(err, WEIR_E_OVERFLOW, "a sum of decimals does not fit 256 bits");
		if (summary->wants & WEIR_WANTS_SQUARES) {
			double real = weir_decimal_to_double(&value, summary->type->scale);

			add_reals(summary, &real, 1);
		}
	}
	return WEIR_OK;
}

static int add_values(struct weir_summary *summary, const struct weir_column *column, const uint32_t *rows,
		      uint32_t count, struct weir_error *err)
{
	const struct weir_type *type = summary->type;

	switch (weir_summary_kind(type)) {
	case WEIR_SUMMARY_NONE:
		return WEIR_OK;
	case WEIR_SUMMARY_DECIMAL:
		return add_decimals(summary, column->values, rows, count, err);
	case WEIR_SUMMARY_REAL:
		/* Doubles of all rows lie as they are wanted. */
		if (type->id == WEIR_DOUBLE && rows[count - 1] == count - 1) {
			add_reals(summary, column->values, count);
			return WEIR_OK;
		}
		for (uint32_t i = 0; i < count;) {
			double values[512];
			uint32_t n;

			for (n = 0; n < sizeof(values) / sizeof(*values) && i < count; n++, i++) {
				struct weir_scalar value;

				if (type->id == WEIR_DOUBLE) {
					values[n] = ((const double *)column->values)[rows[i]];
				} else if (type->id == WEIR_FLOAT) {
					values[n] = (double)((const float *)column->values)[rows[i]];
				} else {
					weir_scalar_load(column, rows[i], &value);
					values[n] = value.real;
				}
			}
			add_reals(summary, values, n);
		}
		return WEIR_OK;
	case WEIR_SUMMARY_INTEGER:
		break;
	}
	if (type->id == WEIR_BOOL) {
		for (uint32_t i = 0; i < count; i++) {
			bool is = ((const uint64_t *)column->values)[rows[i] >> 6] >> (rows[i] & 63) & 1;

			summary->sum += is;
			add_square(summary, is);
		}
		return WEIR_OK;
	}
	integers[type->id == WEIR_DURATION ? WEIR_I64 : weir_type_number(type)](summary, column->values, rows, count);
	return WEIR_OK;
}

/* ---- rows ---- */

static int take_bounds(struct weir_summary *summary, const struct weir_scalar *least,
		       const struct weir_scalar *greatest, struct weir_error *err)
{
	int code = WEIR_OK;

	if (!summary->least.known || weir_scalar_compare(least, &summary->least.value) < 0)
		code = weir_bound_set(&summary->least, least, summary->account, err);
	if (!code && (!summary->greatest.known || weir_scalar_compare(greatest, &summary->greatest.value) > 0))
		code = weir_bound_set(&summary->greatest, greatest, summary->account, err);
	return code;
}

int weir_summary_push(struct weir_summary *summary, const struct weir_vector *vector, uint32_t column, uint32_t *rows,
		      struct weir_arena *arena, struct weir_error *err)
{
	struct weir_column values = vector->columns[column];
	const struct weir_selection *selection = &vector->selection;
	struct weir_scalar low, high;
	bool is_whole = !selection->rows && !values.validity && !values.nested;
	uint32_t selected = selection->count; /* which, for all that the compiler knows, lies in `rows` */
	uint32_t count = is_whole ? selected : 0, least, greatest;
	int code;

	summary->rows += selected;
	if (summary->type->id == WEIR_NULL) {
		summary->nulls += selected;
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < count; i++)
		rows[i] = i;
	for (uint32_t i = 0; i < selected && !is_whole; i++) {
		uint32_t row = selection->rows ? selection->rows[i] : i;
		bool valid = weir_column_valid(&values, row);

		if (valid && values.nested)
			valid = weir_array_is_valid(values.nested, values.nested_offset + row);
		if (valid)
			rows[count++] = row;
	}
	summary->nulls += selected - count;
	if (!count || !summary->wants)
		return WEIR_OK;
	code = weir_column_flatten(&values, selection, vector->row_count, arena, err);
	if (!code)
		code = add_values(summary, &values, rows, count, err);
	if (code || !(summary->wants & WEIR_WANTS_BOUNDS) || !weir_extremes(&values, rows, count, &least, &greatest))
		return code;
	weir_scalar_load(&values, least, &low);
	weir_scalar_load(&values, greatest, &high);
	return take_bounds(summary, &low, &high, err);
}

int weir_summary_merge(struct weir_summary *to, const struct weir_summary *from, struct weir_error *err)
{
	to->rows += from->rows;
	to->nulls += from->nulls;
	to->nans += from->nans;
	if (__builtin_add_overflow(to->sum, from->sum, &to->sum) ||
	    weir_int256_add(&to->decimal_sum, &from->decimal_sum, &to->decimal_sum))
		return weir_error_set(err, WEIR_E_OVERFLOW, "a sum does not fit");
	to->squares_high += from->squares_high + __builtin_add_overflow(to->squares, from->squares, &to->squares);
	weir_exact_merge(&to->real_sum, &from->real_sum);
	weir_exact_squares_merge(&to->real_squares, &from->real_squares);
	return from->least.known ? take_bounds(to, &from->least.value, &from->greatest.value, err) : WEIR_OK;
}

/* ---- results ---- */

static weir_wide_float wide_sum(const struct weir_summary *summary)
{
	return weir_summary_kind(summary->type) == WEIR_SUMMARY_INTEGER ? (weir_wide_float)summary->sum
									: weir_exact_wide(&summary->real_sum);
}

double weir_summary_mean(const struct weir_summary *summary)
{
	uint64_t count = weir_summary_count(summary);

	if (weir_summary_kind(summary->type) == WEIR_SUMMARY_DECIMAL)
		return weir_decimal_mean(&summary->decimal_sum, summary->type->scale, count);
	return (double)(wide_sum(summary) / count);
}

bool weir_duration_mean(__int128 sum, uint64_t count, enum weir_time_unit unit, int64_t *out)
{
	__int128 whole = sum * (weir_unit_per_second(weir_mean_unit(unit)) / weir_unit_per_second(unit));
	__int128 mean = whole / (__int128)count, rest = whole % (__int128)count * 2;

	rest = rest < 0 ? -rest : rest;
	if (rest > (__int128)count || (rest == (__int128)count && mean % 2))
		mean += whole < 0 ? -1 : 1;
	*out = (int64_t)mean;
	return mean == (__int128)*out;
}

/* count × squares − sum², without any rounding; false: it does not fit 256 bits. */
static bool exact_spread(const struct weir_summary *summary, int64_t count, struct weir_int256 *out)
{
	struct weir_int256 times = weir_int256_from(count), sum = weir_int256_from(summary->sum), product, square;
	struct weir_int256 squares = {
		{(uint64_t)summary->squares, (uint64_t)(summary->squares >> 64), summary->squares_high, 0}};

	return !weir_int256_mul(&times, &squares, &product) && !weir_int256_mul(&sum, &sum, &square) &&
	       !weir_int256_sub(&product, &square, out);
}

double weir_summary_std(const struct weir_summary *summary, int64_t ddof)
{
	struct weir_int256 spread;
	int64_t count = (int64_t)weir_summary_count(summary);
	weir_wide_float sum, squares, variance;

	if (count <= ddof)
		return (double)NAN;
	if (weir_summary_kind(summary->type) != WEIR_SUMMARY_INTEGER) {
		variance = weir_exact_spread(&summary->real_sum, &summary->real_squares, (uint64_t)count) / count /
			   (count - ddof);
	} else if (exact_spread(summary, count, &spread)) {
		return sqrt(weir_decimal_to_double(&spread, 0) / (double)count / (double)(count - ddof));
	} else {
		sum = wide_sum(summary);
		squares = (weir_wide_float)summary->squares_high * 0x1p64 * 0x1p64 + (weir_wide_float)summary->squares;
		variance = (squares - sum * sum / count) / (count - ddof);
		variance = variance < 0 ? 0 : variance;
	}
	/* A variance may be too large or too small for a double whose root is neither. */
	if (variance > 0x1p900)
		return sqrt((double)(variance * 0x1p-1000 * 0x1p-200)) * 0x1p600;
	return variance < 0x1p-900 ? sqrt((double)(variance * 0x1p1000 * 0x1p200)) * 0x1p-600 : sqrt((double)variance);
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

static uint8_t *put_reals(uint8_t *at, const struct weir_summary *summary)
{
	bool has_squares = summary->wants & WEIR_WANTS_SQUARES;
	struct weir_exact settled = summary->real_sum;
	struct weir_exact_squares squares;
	uint8_t flags[8] = {settled.has_nan, settled.has_plus, settled.has_minus, has_squares};

	at = put(at, flags, sizeof(flags));
	weir_exact_settle(&settled);
	at = put(at, settled.digits, sizeof(settled.digits));
	if (!has_squares)
		return at;
	squares = summary->real_squares;
	weir_exact_squares_settle(&squares);
	return put(at, squares.digits, sizeof(squares.digits));
}

size_t weir_summary_store(const struct weir_summary *summary, uint8_t out[WEIR_SUMMARY_BYTES_MAX])
{
	uint32_t kind = weir_summary_kind(summary->type);
	int32_t scale = weir_type_is_decimal(summary->type)  ? summary->type->scale
			: summary->type->id == WEIR_DURATION ? 3 * (int32_t)summary->type->unit
							     : -1;
	uint8_t *at = put(out, &kind, sizeof(kind));

	at = put(at, &scale, sizeof(scale));
	if (kind == WEIR_SUMMARY_INTEGER) {
		at = put(at, &summary->sum, sizeof(summary->sum));
		at = put(at, &summary->squares, sizeof(summary->squares));
		at = put(at, &summary->squares_high, sizeof(summary->squares_high));
	} else if (kind == WEIR_SUMMARY_DECIMAL) {
		at = put(at, &summary->decimal_sum, sizeof(summary->decimal_sum));
		if (summary->wants & WEIR_WANTS_SQUARES)
			at = put_reals(at, summary);
	} else if (kind == WEIR_SUMMARY_REAL) {
		at = put_reals(at, summary);
	}
	return (size_t)(at - out);
}
