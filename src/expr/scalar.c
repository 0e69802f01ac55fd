/* Between the one wide form of a scalar and the many widths of columns. */
#include "expr/scalar.h"

#include "arrow/decimal.h"

#include <string.h>

static bool is_unsigned(const struct weir_type *type)
{
	return type->id >= WEIR_UINT8 && type->id <= WEIR_UINT64;
}

void weir_scalar_store(const struct weir_scalar *value, void *out)
{
	const struct weir_type *type = value->type;
	uint64_t word = 0;
	float single;
	uint16_t half;

	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		word = value->boolean;
		memcpy(out, &word, 8);
		return;
	case WEIR_LAYOUT_BYTES:
		memcpy(out, &value->bytes, sizeof(value->bytes));
		return;
	case WEIR_LAYOUT_FIXED:
		break;
	default:
		return;
	}
	switch (type->id) {
	case WEIR_HALF:
		half = weir_float_to_half((float)value->real);
		memcpy(out, &half, 2);
		return;
	case WEIR_FLOAT:
		single = (float)value->real;
		memcpy(out, &single, 4);
		return;
	case WEIR_DOUBLE:
		memcpy(out, &value->real, 8);
		return;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		memcpy(out, value->decimal, type->byte_width);
		return;
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
	case WEIR_FIXED_BINARY:
		memcpy(out, weir_view_bytes(&value->bytes),
		       type->byte_width < WEIR_SCALAR_STORE_MAX ? type->byte_width : WEIR_SCALAR_STORE_MAX);
		return;
	default:
		memcpy(out, &value->integer, type->byte_width);
	}
}

void weir_scalar_load(const struct weir_column *column, uint32_t row, struct weir_scalar *out)
{
	const struct weir_type *type = weir_type_values(column->type);
	const void *values = column->values;
	const uint8_t *at;

	*out = (struct weir_scalar){.type = type, .is_null = !weir_column_valid(column, row)};
	if (out->is_null || type->layout == WEIR_LAYOUT_NULL || type->layout == WEIR_LAYOUT_NESTED) {
		out->is_null = true;
		return;
	}
	if (column->form == WEIR_CONSTANT)
		row = 0;
	if (column->form == WEIR_DICTIONARY) {
		row = ((const uint32_t *)column->values)[row];
		values = column->dictionary->values;
	}
	if (type->layout == WEIR_LAYOUT_BITS) {
		out->boolean = ((const uint64_t *)values)[row >> 6] >> (row & 63) & 1;
		return;
	}
	if (type->layout == WEIR_LAYOUT_BYTES) {
		out->bytes = ((const struct weir_view *)values)[row];
		return;
	}
	at = (const uint8_t *)values + (size_t)row * type->byte_width;
	switch (type->id) {
	case WEIR_HALF:
		out->real = weir_half_to_float(*(const uint16_t *)at);
		break;
	case WEIR_FLOAT:
		out->real = *(const float *)at;
		break;
	case WEIR_DOUBLE:
		out->real = *(const double *)at;
		break;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256: {
		struct weir_int256 wide = weir_int256_load(at, type->byte_width);

		memcpy(out->decimal, &wide, 32);
		break;
	}
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
	case WEIR_FIXED_BINARY:
		out->bytes = weir_view_make(at, type->byte_width);
		break;
	default: {
		uint32_t unused = 64 - type->byte_width * 8;
		uint64_t word = 0;

		memcpy(&word, at, type->byte_width);
		if (unused && !is_unsigned(type))
			word = (uint64_t)((int64_t)(word << unused) >> unused);
		out->unsigned_ = word;
	}
	}
}

int weir_view_compare(const struct weir_view *a, const struct weir_view *b)
{
	uint32_t prefix_a, prefix_b, size = a->size < b->size ? a->size : b->size;
	int order;

	memcpy(&prefix_a, a->prefix, 4);
	memcpy(&prefix_b, b->prefix, 4);
	/* Bytes past the end are zero, so a shorter prefix is never larger; equal ones decide nothing. */
	if (prefix_a != prefix_b)
		return __builtin_bswap32(prefix_a) < __builtin_bswap32(prefix_b) ? -1 : 1;
	order = memcmp(weir_view_bytes(a), weir_view_bytes(b), size);
	return order ? order : (a->size > b->size) - (a->size < b->size);
}

int weir_scalar_compare(const struct weir_scalar *a, const struct weir_scalar *b)
{
	switch (a->type->layout) {
	case WEIR_LAYOUT_BITS:
		return a->boolean - b->boolean;
	case WEIR_LAYOUT_BYTES:
		return weir_view_compare(&a->bytes, &b->bytes);
	default:
		break;
	}
	if (weir_type_is_float(a->type)) {
		if (a->real != a->real || b->real != b->real)
			return 2;
		return (a->real > b->real) - (a->real < b->real);
	}
	if (weir_type_is_decimal(a->type)) {
		struct weir_int256 x, y;

		memcpy(&x, a->decimal, 32);
		memcpy(&y, b->decimal, 32);
		return weir_int256_compare(&x, &y);
	}
	if (a->type->id == WEIR_FIXED_BINARY)
		return weir_view_compare(&a->bytes, &b->bytes);
	if (a->type->id == WEIR_UINT64)
		return (a->unsigned_ > b->unsigned_) - (a->unsigned_ < b->unsigned_);
	return (a->integer > b->integer) - (a->integer < b->integer);
}

int weir_scalar_parse(const struct weir_type *type, const char *text, size_t size, struct weir_scalar *out,
		      struct weir_error *err)
{
	_Alignas(16) uint8_t stored[WEIR_SCALAR_STORE_MAX] = {0};
	struct weir_column column = {.type = type, .form = WEIR_CONSTANT, .values = stored};
	char name[64];

	if (type->layout == WEIR_LAYOUT_BYTES || type->id == WEIR_FIXED_BINARY) {
		*out = (struct weir_scalar){.type = type, .bytes = weir_view_make(text, (uint32_t)size)};
		if (type->id != WEIR_FIXED_BINARY || type->byte_width == size)
			return WEIR_OK;
	} else if (type->byte_width <= WEIR_SCALAR_STORE_MAX && weir_value_parse(type, text, size, stored)) {
		weir_scalar_load(&column, 0, out);
		return WEIR_OK;
	}
	return weir_error_set(err, WEIR_E_CAST, "'%.*s' is not a value of type %s", (int)(size > 80 ? 80 : size), text,
			      weir_type_name(type, name, sizeof(name)));
}

int weir_scalar_print(const struct weir_scalar *value, struct weir_text *out, struct weir_error *err)
{
	_Alignas(16) uint8_t stored[WEIR_SCALAR_STORE_MAX] = {0};
	char buffer[WEIR_VALUE_TEXT_MAX];
	size_t size;

	if (value->is_null)
		return weir_text_puts(out, "None", err);
	if (value->type->layout == WEIR_LAYOUT_BYTES || value->type->id == WEIR_FIXED_BINARY)
		return weir_text_append(out, weir_view_bytes(&value->bytes), value->bytes.size, err);
	weir_scalar_store(value, stored);
	size = weir_value_format(value->type, stored, buffer);
	return weir_text_append(out, buffer, size, err);
}
