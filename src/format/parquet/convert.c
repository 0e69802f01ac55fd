/* Physical values to Arrow's where their bytes differ: small integers, decimals, the timestamps and intervals of
 * old. */
#include "format/parquet/read_impl.h"

#include <string.h>

#define NANOS_PER_DAY (INT64_C(86400) * 1000000000)
#define JULIAN_1970 2440588

static void narrow(const uint8_t *in, uint32_t count, uint32_t width_in, uint32_t width, uint8_t *out)
{
	/* Little endian: the low bytes come first. Values that do not fit are the writer's fault; they wrap. */
	if (width == 1) {
		for (uint32_t i = 0; i < count; i++)
			out[i] = in[(size_t)i * width_in];
	} else if (width == 2) {
		for (uint32_t i = 0; i < count; i++)
			memcpy(out + (size_t)i * 2, in + (size_t)i * width_in, 2);
	} else {
		for (uint32_t i = 0; i < count; i++)
			memcpy(out + (size_t)i * 4, in + (size_t)i * width_in, 4);
	}
}

/* 64 bits of nanoseconds reach from 1677 to 2262; what lies outside must not come back as another time.
 * `nanos_per_unit`: of the unit that was asked for; what is less than one of it is dropped. */
static int from_int96(const uint8_t *in, uint32_t count, int64_t nanos_per_unit, int64_t *out, struct weir_error *err)
{
	for (uint32_t i = 0; i < count; i++, in += 12) {
		int64_t nanos, days;
		uint32_t julian;

		memcpy(&nanos, in, 8);
		memcpy(&julian, in + 8, 4);
		days = (int64_t)julian - JULIAN_1970;
		if (__builtin_mul_overflow(days, NANOS_PER_DAY / nanos_per_unit, &days) ||
		    __builtin_add_overflow(days, nanos / nanos_per_unit, &out[i]))
			return weir_error_set(
				err, WEIR_E_VALUE,
				"An INT96 timestamp (Julian day %u) lies outside the years 1677 to 2262 that "
				"nanoseconds can tell; read such columns in microseconds (--int96 us, in Python "
				"coerce_int96_timestamp_unit=\"us\"), or leave the column out to read the others.",
				julian);
	}
	return WEIR_OK;
}

static void decimal_int(const uint8_t *in, uint32_t count, uint32_t width, uint32_t width_arrow, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++, out += width_arrow) {
		int64_t value;

		if (width == 4) {
			int32_t small;

			memcpy(&small, in + (size_t)i * 4, 4);
			value = small;
		} else {
			memcpy(&value, in + (size_t)i * 8, 8);
		}
		memset(out + 8, value < 0 ? 0xff : 0, width_arrow - 8);
		memcpy(out, &value, 8);
	}
}

static int decimal_bytes(const uint8_t *in, uint32_t size, uint32_t width_arrow, uint8_t *out, struct weir_error *err)
{
	uint8_t fill = size && in[0] & 0x80 ? 0xff : 0;

	/* Leading bytes that only carry the sign may be more than fit. */
	while (size > width_arrow) {
		if (*in != fill || (in[1] & 0x80) != (fill & 0x80))
			return weir_error_set(err, WEIR_E_DATA, "A decimal of %u bytes, too large for its type.", size);
		in++;
		size--;
	}
	memset(out, fill, width_arrow);
	for (uint32_t b = 0; b < size; b++)
		out[b] = in[size - 1 - b];
	return WEIR_OK;
}

static int64_t load_be(const uint8_t *in)
{
	uint64_t value;

	memcpy(&value, in, 8);
	return (int64_t)__builtin_bswap64(value);
}

/* Up to 16 bytes, by loads of 8 that may reach past the value: pages and scratch memory are padded. */
static void decimal_fixed16(const uint8_t *in, uint32_t count, uint32_t width, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++, in += width, out += 16) {
		int64_t halves[2];

		if (width <= 8) {
			halves[0] = load_be(in) >> (8 * (8 - width));
			halves[1] = halves[0] >> 63;
		} else {
			halves[0] = load_be(in + width - 8);
			halves[1] = load_be(in) >> (8 * (16 - width));
		}
		memcpy(out, halves, 16);
	}
}

static void from_interval(const uint8_t *in, uint32_t count, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++, in += 12, out += 16) {
		uint32_t millis;
		int64_t nanos;

		memcpy(&millis, in + 8, 4);
		nanos = (int64_t)millis * 1000000;
		memcpy(out, in, 8);
		memcpy(out + 8, &nanos, 8);
	}
}

static void unscale(const struct parquet_leaf_info *info, const uint8_t *in, uint32_t count, void *out)
{
	for (uint32_t i = 0; i < count; i++) {
		if (info->width == 4) {
			int32_t value;

			memcpy(&value, in + (size_t)i * 4, 4);
			((int32_t *)out)[i] = (int32_t)(value / info->factor);
		} else {
			int64_t value;

			memcpy(&value, in + (size_t)i * 8, 8);
			((int64_t *)out)[i] = value / info->factor;
		}
	}
}

static void days_to_millis(const uint8_t *in, uint32_t count, int64_t *out)
{
	for (uint32_t i = 0; i < count; i++) {
		int32_t days;

		memcpy(&days, in + (size_t)i * 4, 4);
		out[i] = (int64_t)days * 86400000;
	}
}

int parquet_convert(const struct parquet_leaf_info *info, const void *in, uint32_t count, void *out,
		    struct weir_error *err)
{
	switch (info->convert) {
	case PARQUET_NARROW:
		narrow(in, count, info->width, info->width_arrow, out);
		return WEIR_OK;
	case PARQUET_FROM_INT96:
		return from_int96(in, count, info->factor, out, err);
	case PARQUET_DECIMAL_INT:
		decimal_int(in, count, info->width, info->width_arrow, out);
		return WEIR_OK;
	case PARQUET_DECIMAL_FIXED:
		if (info->width_arrow == 16 && info->width <= 16) {
			decimal_fixed16(in, count, info->width, out);
			return WEIR_OK;
		}
		for (uint32_t i = 0; i < count; i++)
			if (decimal_bytes((const uint8_t *)in + (size_t)i * info->width, info->width, info->width_arrow,
					  (uint8_t *)out + (size_t)i * info->width_arrow, err))
				return err->code;
		return WEIR_OK;
	case PARQUET_DECIMAL_BYTES:
		for (uint32_t i = 0; i < count; i++) {
			const struct weir_view *view = (const struct weir_view *)in + i;

			if (decimal_bytes(weir_view_bytes(view), view->size, info->width_arrow,
					  (uint8_t *)out + (size_t)i * info->width_arrow, err))
				return err->code;
		}
		return WEIR_OK;
	case PARQUET_FROM_INTERVAL:
		from_interval(in, count, out);
		return WEIR_OK;
	case PARQUET_UNSCALE:
		unscale(info, in, count, out);
		return WEIR_OK;
	case PARQUET_DAYS_TO_MILLIS:
		days_to_millis(in, count, out);
		return WEIR_OK;
	case PARQUET_KEEP:
	case PARQUET_ALL_NULL:
		break;
	}
	return weir_error_set(err, WEIR_E_INTERNAL, "No conversion of Parquet values (%d).", (int)info->convert);
}
