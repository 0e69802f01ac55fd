#include "ops/extremes.h"

#include <string.h>

bool weir_bound_has_bytes(const struct weir_type *type)
{
	type = weir_type_values(type);
	return type->layout == WEIR_LAYOUT_BYTES || type->id == WEIR_FIXED_BINARY;
}

int weir_bound_set(struct weir_bound *bound, const struct weir_scalar *value, struct weir_account *account,
		   struct weir_error *err)
{
	size_t size = weir_bound_has_bytes(value->type) ? value->bytes.size : 0;

	if (size > bound->capacity) {
		uint8_t *bytes = weir_realloc(account, bound->bytes, bound->capacity, size, err);

		if (!bytes)
			return err->code;
		bound->bytes = bytes;
		bound->capacity = size;
	}
	bound->value = *value;
	bound->value.type = weir_type_values(value->type);
	bound->known = true;
	if (weir_bound_has_bytes(value->type)) {
		if (size)
			memcpy(bound->bytes, weir_view_bytes(&value->bytes), size);
		bound->value.bytes = weir_view_make(bound->bytes ? bound->bytes : (const uint8_t *)"", (uint32_t)size);
	}
	return WEIR_OK;
}

void weir_bound_release(struct weir_bound *bound, struct weir_account *account)
{
	weir_free(account, bound->bytes, bound->capacity);
	*bound = (struct weir_bound){0};
}

/* Places of the least and the greatest of values[rows[…]]; a NaN is neither. */
#define EXTREMES(name, type)                                                                                           \
	static bool extremes_##name(const void *values, const uint32_t *rows, uint32_t count, uint32_t *least,         \
				    uint32_t *greatest)                                                                \
	{                                                                                                              \
		const type *items = values;                                                                            \
		bool found = false;                                                                                    \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++) {                                                                 \
			type value = items[rows[i]];                                                                   \
                                                                                                                       \
			if (value != value)                                                                            \
				continue;                                                                              \
			if (!found || value < items[*least])                                                           \
				*least = rows[i];                                                                      \
			if (!found || value > items[*greatest])                                                        \
				*greatest = rows[i];                                                                   \
			found = true;                                                                                  \
		}                                                                                                      \
		return found;                                                                                          \
	}
EXTREMES(i8, int8_t)
EXTREMES(i16, int16_t)
EXTREMES(i32, int32_t)
EXTREMES(i64, int64_t)
EXTREMES(u8, uint8_t)
EXTREMES(u16, uint16_t)
EXTREMES(u32, uint32_t)
EXTREMES(u64, uint64_t)
EXTREMES(f32, float)
EXTREMES(f64, double)

static bool extremes_view(const void *values, const uint32_t *rows, uint32_t count, uint32_t *least, uint32_t *greatest)
{
	const struct weir_view *views = values;

	*least = *greatest = rows[0];
	for (uint32_t i = 1; i < count; i++) {
		if (weir_view_compare(&views[rows[i]], &views[*least]) < 0)
			*least = rows[i];
		else if (weir_view_compare(&views[rows[i]], &views[*greatest]) > 0)
			*greatest = rows[i];
	}
	return true;
}

/* Of types that are rarer or wider. */
static bool extremes_any(const struct weir_column *column, const uint32_t *rows, uint32_t count, uint32_t *least,
			 uint32_t *greatest)
{
	struct weir_scalar low, high, value;
	bool found = false;

	for (uint32_t i = 0; i < count; i++) {
		weir_scalar_load(column, rows[i], &value);
		if (weir_scalar_compare(&value, &value) != 0) /* NaN */
			continue;
		if (!found || weir_scalar_compare(&value, &low) < 0) {
			low = value;
			*least = rows[i];
		}
		if (!found || weir_scalar_compare(&value, &high) > 0) {
			high = value;
			*greatest = rows[i];
		}
		found = true;
	}
	return found;
}

bool weir_extremes(const struct weir_column *column, const uint32_t *rows, uint32_t count, uint32_t *least,
		   uint32_t *greatest)
{
	const struct weir_type *type = weir_type_values(column->type);
	const void *values = column->values;

	switch (type->id) {
	case WEIR_INT8:
		return extremes_i8(values, rows, count, least, greatest);
	case WEIR_INT16:
		return extremes_i16(values, rows, count, least, greatest);
	case WEIR_INT32:
	case WEIR_DATE32:
	case WEIR_TIME32:
		return extremes_i32(values, rows, count, least, greatest);
	case WEIR_INT64:
	case WEIR_DATE64:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		return extremes_i64(values, rows, count, least, greatest);
	case WEIR_UINT8:
		return extremes_u8(values, rows, count, least, greatest);
	case WEIR_UINT16:
		return extremes_u16(values, rows, count, least, greatest);
	case WEIR_UINT32:
		return extremes_u32(values, rows, count, least, greatest);
	case WEIR_UINT64:
		return extremes_u64(values, rows, count, least, greatest);
	case WEIR_FLOAT:
		return extremes_f32(values, rows, count, least, greatest);
	case WEIR_DOUBLE:
		return extremes_f64(values, rows, count, least, greatest);
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
	case WEIR_NULL:
		return false; /* without an order */
	default:
		return type->layout == WEIR_LAYOUT_BYTES ? extremes_view(values, rows, count, least, greatest)
							 : extremes_any(column, rows, count, least, greatest);
	}
}
