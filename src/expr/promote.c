/* The type in which two types meet, by Arrow's rules:
 *
 *     int, int          the wider one; signed with unsigned: the next wider signed, int64 at most
 *     int, float        float32 with float32, else float64; half floats are computed as float32
 *     decimal, int      the integer as a decimal; decimal, decimal: digits enough for both
 *     decimal, float    float64
 *     date, timestamp   the timestamp; two timestamps, times or durations: the finer unit
 *     string, string    string; with large_string: large_string; string with binary: binary
 *     null, anything    anything
 */
#include "arrow/decimal.h"
#include "expr/program.h"

#include <string.h>

static const struct weir_type *promote_integers(const struct weir_type *a, const struct weir_type *b)
{
	uint32_t width_a = a->byte_width, width_b = b->byte_width, width = width_a > width_b ? width_a : width_b;
	static const enum weir_type_id signed_ids[] = {
		[1] = WEIR_INT8, [2] = WEIR_INT16, [4] = WEIR_INT32, [8] = WEIR_INT64};
	static const enum weir_type_id unsigned_ids[] = {
		[1] = WEIR_UINT8, [2] = WEIR_UINT16, [4] = WEIR_UINT32, [8] = WEIR_UINT64};
	bool signed_a = weir_type_is_signed(a), signed_b = weir_type_is_signed(b);

	if (signed_a == signed_b)
		return weir_type_of(signed_a ? signed_ids[width] : unsigned_ids[width]);
	/* The unsigned one needs a bit more. */
	if ((signed_a ? width_b : width_a) == width && width < 8)
		width *= 2;
	return weir_type_of(signed_ids[width]);
}

static int32_t integer_digits(const struct weir_type *type)
{
	static const int32_t digits[] = {[1] = 3, [2] = 5, [4] = 10, [8] = 19};

	return type->id == WEIR_UINT64 ? 20 : digits[type->byte_width];
}

static const struct weir_type *promote_decimals(struct weir_program *program, const struct weir_type *a,
						const struct weir_type *b, struct weir_error *err)
{
	int32_t whole_a = weir_type_is_decimal(a) ? a->precision - a->scale : integer_digits(a);
	int32_t whole_b = weir_type_is_decimal(b) ? b->precision - b->scale : integer_digits(b);
	int32_t scale_a = weir_type_is_decimal(a) ? a->scale : 0, scale_b = weir_type_is_decimal(b) ? b->scale : 0;
	int32_t scale = scale_a > scale_b ? scale_a : scale_b;
	int32_t precision = (whole_a > whole_b ? whole_a : whole_b) + scale;
	enum weir_type_id id = a->id == WEIR_DECIMAL256 || b->id == WEIR_DECIMAL256 ||
					       precision > WEIR_DECIMAL128_PRECISION_MAX
				       ? WEIR_DECIMAL256
				       : WEIR_DECIMAL128;

	if (precision > WEIR_DECIMAL256_PRECISION_MAX)
		precision = WEIR_DECIMAL256_PRECISION_MAX;
	return weir_program_keep(program, weir_type_decimal(program->account, id, precision, scale, err), err);
}

static const struct weir_type *promote_temporals(struct weir_program *program, const struct weir_type *a,
						 const struct weir_type *b, struct weir_error *err)
{
	bool date_a = a->id == WEIR_DATE32 || a->id == WEIR_DATE64,
	     date_b = b->id == WEIR_DATE32 || b->id == WEIR_DATE64;
	bool time_a = a->id == WEIR_TIME32 || a->id == WEIR_TIME64,
	     time_b = b->id == WEIR_TIME32 || b->id == WEIR_TIME64;

	if (date_a && date_b)
		return weir_type_of(WEIR_DATE64);
	if (date_a && b->id == WEIR_TIMESTAMP && !b->timezone)
		return b;
	if (date_b && a->id == WEIR_TIMESTAMP && !a->timezone)
		return a;
	if (time_a && time_b)
		return a->unit > b->unit ? a : b;
	if (a->id == WEIR_TIMESTAMP && b->id == WEIR_TIMESTAMP && !a->timezone == !b->timezone)
		/* Instants are instants, whatever zone they are shown in; the first one's is kept. */
		return a->unit >= b->unit ? a
					  : weir_program_keep(program,
							      weir_type_temporal(program->account, WEIR_TIMESTAMP,
										 b->unit, a->timezone, err),
							      err);
	if (a->id == WEIR_DURATION && b->id == WEIR_DURATION)
		return a->unit > b->unit ? a : b;
	return NULL;
}

const struct weir_type *weir_promote(struct weir_program *program, const struct weir_type *a, const struct weir_type *b,
				     struct weir_error *err)
{
	bool number_a = weir_type_is_integer(a) || weir_type_is_float(a) || weir_type_is_decimal(a);
	bool number_b = weir_type_is_integer(b) || weir_type_is_float(b) || weir_type_is_decimal(b);

	if (a->id == WEIR_NULL)
		return b;
	if (b->id == WEIR_NULL || weir_type_equal(a, b, false))
		return a;
	if (number_a && number_b) {
		if (weir_type_is_integer(a) && weir_type_is_integer(b))
			return promote_integers(a, b);
		if (weir_type_is_float(a) || weir_type_is_float(b)) {
			if (a->id == WEIR_DOUBLE || b->id == WEIR_DOUBLE || weir_type_is_decimal(a) ||
			    weir_type_is_decimal(b))
				return weir_type_of(WEIR_DOUBLE);
			return weir_type_of(WEIR_FLOAT);
		}
		return promote_decimals(program, a, b, err);
	}
	if (weir_type_is_bytes(a) && weir_type_is_bytes(b)) {
		bool is_large = a->id == WEIR_LARGE_STRING || a->id == WEIR_LARGE_BINARY ||
				b->id == WEIR_LARGE_STRING || b->id == WEIR_LARGE_BINARY;

		if (weir_type_is_text(a) && weir_type_is_text(b))
			return weir_type_of(is_large ? WEIR_LARGE_STRING : WEIR_STRING);
		return weir_type_of(is_large ? WEIR_LARGE_BINARY : WEIR_BINARY);
	}
	if ((a->id == WEIR_FIXED_BINARY || weir_type_is_bytes(a)) &&
	    (b->id == WEIR_FIXED_BINARY || weir_type_is_bytes(b)))
		return weir_type_of(WEIR_BINARY);
	if (weir_type_is_temporal(a) && weir_type_is_temporal(b))
		return promote_temporals(program, a, b, err);
	return NULL;
}
