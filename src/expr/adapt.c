#include "expr/adapt.h"

#include "base/number.h"
#include "arrow/decimal.h"

#include <math.h>
#include <string.h>

static __int128 integer_min(const struct weir_type *type)
{
	return weir_type_is_signed(type) ? -((__int128)1 << (type->byte_width * 8 - 1)) : 0;
}

static __int128 integer_max(const struct weir_type *type)
{
	return ((__int128)1 << (type->byte_width * 8 - weir_type_is_signed(type))) - 1;
}

static void set_integer(const struct weir_type *type, __int128 number, struct weir_scalar *value)
{
	*value = (struct weir_scalar){.type = type, .unsigned_ = (uint64_t)number};
}

/* A whole number, perhaps outside the type: then the comparison is with the type's end, and always or never true. */
static enum weir_adapted adapt_whole(const struct weir_type *type, __int128 number, struct weir_scalar *value,
				     enum weir_comparison *op)
{
	__int128 low = integer_min(type), high = integer_max(type);

	if (number < low) {
		*op = *op == WEIR_EQ || *op == WEIR_LT || *op == WEIR_LE ? WEIR_LT : WEIR_GE;
		number = low;
	} else if (number > high) {
		*op = *op == WEIR_EQ || *op == WEIR_GT || *op == WEIR_GE ? WEIR_GT : WEIR_LE;
		number = high;
	}
	set_integer(type, number, value);
	return WEIR_ADAPTED;
}

static enum weir_adapted adapt_to_integer(const struct weir_type *type, struct weir_scalar *value,
					  enum weir_comparison *op)
{
	double whole;

	if (value->type->id == WEIR_UINT64)
		return adapt_whole(type, (__int128)value->unsigned_, value, op);
	if (weir_type_is_integer(value->type))
		return adapt_whole(type, (__int128)value->integer, value, op);
	if (!weir_type_is_float(value->type) || isnan(value->real))
		return WEIR_NOT_ADAPTED;
	whole = floor(value->real);
	/* Far outside of any integer type; infinities too. */
	if (fabs(whole) > 1e30)
		return adapt_whole(type, whole < 0 ? -((__int128)1 << 100) : (__int128)1 << 100, value, op);
	if (whole != value->real) {
		/* Between two integers: less than it is at most the lower one. */
		if (*op == WEIR_EQ || *op == WEIR_NE)
			return adapt_whole(type, (__int128)1 << 100, value, op);
		*op = *op == WEIR_LT || *op == WEIR_LE ? WEIR_LE : WEIR_GT;
	}
	return adapt_whole(type, (__int128)whole, value, op);
}

static enum weir_adapted adapt_to_float(const struct weir_type *type, struct weir_scalar *value)
{
	double number;

	if (value->type->id == WEIR_UINT64)
		number = (double)value->unsigned_;
	else if (weir_type_is_integer(value->type))
		number = (double)value->integer;
	else if (weir_type_is_float(value->type))
		number = value->real;
	else
		return WEIR_NOT_ADAPTED;
	if (weir_type_is_integer(value->type) && fabs(number) > 0x1p53)
		return WEIR_NOT_ADAPTED;
	if (type->id == WEIR_FLOAT && !isnan(number) && (double)(float)number != number)
		return WEIR_NOT_ADAPTED;
	*value = (struct weir_scalar){.type = type, .real = number};
	return WEIR_ADAPTED;
}

/* 0.05 means the decimal 0.05, not the double nearest to it. */
static enum weir_adapted adapt_to_decimal(const struct weir_type *type, struct weir_scalar *value)
{
	struct weir_int256 decimal;
	char text[WEIR_NUMBER_TEXT_MAX];
	size_t size;

	if (value->type->id == WEIR_UINT64)
		size = weir_format_u64(value->unsigned_, text);
	else if (weir_type_is_integer(value->type))
		size = weir_format_i64(value->integer, text);
	else if (weir_type_is_float(value->type) && isfinite(value->real))
		size = weir_format_double(value->real, text);
	else
		return WEIR_NOT_ADAPTED;
	if (!weir_decimal_parse(text, size, type->precision, type->scale, &decimal))
		return WEIR_NOT_ADAPTED;
	*value = (struct weir_scalar){.type = type};
	memcpy(value->decimal, &decimal, sizeof(decimal));
	return WEIR_ADAPTED;
}

enum weir_adapted weir_adapt(const struct weir_type *type, struct weir_scalar *value, enum weir_comparison *op,
			     struct weir_error *err)
{
	if (weir_type_equal(type, value->type, false))
		return WEIR_ADAPTED;
	if (weir_type_is_integer(type))
		return adapt_to_integer(type, value, op);
	if (type->id == WEIR_FLOAT || type->id == WEIR_DOUBLE)
		return adapt_to_float(type, value);
	if (weir_type_is_decimal(type) && !weir_type_is_decimal(value->type))
		return adapt_to_decimal(type, value);
	if (weir_type_is_temporal(type) && weir_type_is_text(value->type)) {
		struct weir_view text = value->bytes;

		return weir_scalar_parse(type, (const char *)weir_view_bytes(&text), text.size, value, err)
			       ? WEIR_ADAPT_FAILED
			       : WEIR_ADAPTED;
	}
	if (weir_type_is_bytes(type) && weir_type_is_bytes(value->type)) {
		value->type = type;
		return WEIR_ADAPTED;
	}
	return WEIR_NOT_ADAPTED;
}
