/* The types of leaves: from physical and logical types, and the annotations of older writers, to Arrow's. */
#include "arrow/value.h"
#include "format/parquet/schema_impl.h"

static const struct weir_type *decimal_type(struct parquet_schema_build *build, int32_t precision, int32_t scale)
{
	if (precision <= 0 || precision > 76 || scale > precision) {
		parquet_schema_refuse(build, WEIR_E_DATA, "a decimal whose precision or scale makes no sense");
		return NULL;
	}
	return weir_type_decimal(build->file->account, precision <= 38 ? WEIR_DECIMAL128 : WEIR_DECIMAL256, precision,
				 scale, build->err);
}

static const struct weir_type *temporal(struct parquet_schema_build *build, enum weir_type_id id,
					enum weir_time_unit unit, bool utc)
{
	return weir_type_temporal(build->file->account, id, unit, utc && id == WEIR_TIMESTAMP ? "UTC" : NULL,
				  build->err);
}

static const struct weir_type *integer_type(uint8_t bits, bool is_signed)
{
	switch (bits) {
	case 8:
		return weir_type_of(is_signed ? WEIR_INT8 : WEIR_UINT8);
	case 16:
		return weir_type_of(is_signed ? WEIR_INT16 : WEIR_UINT16);
	case 32:
		return weir_type_of(is_signed ? WEIR_INT32 : WEIR_UINT32);
	case 64:
		return weir_type_of(is_signed ? WEIR_INT64 : WEIR_UINT64);
	default:
		return NULL;
	}
}

/* What the annotations of old writers mean, in the words of the new ones. */
static struct parquet_logical logical_of(const struct parquet_element *element)
{
	struct parquet_logical logical = element->logical;

	if (logical.kind != PARQUET_LOGICAL_NONE)
		return logical;
	switch (element->converted) {
	case PARQUET_UTF8:
		logical.kind = PARQUET_LOGICAL_STRING;
		break;
	case PARQUET_ENUM:
		logical.kind = PARQUET_LOGICAL_ENUM;
		break;
	case PARQUET_JSON:
		logical.kind = PARQUET_LOGICAL_JSON;
		break;
	case PARQUET_BSON:
		logical.kind = PARQUET_LOGICAL_BSON;
		break;
	case PARQUET_DECIMAL:
		logical.kind = PARQUET_LOGICAL_DECIMAL;
		logical.precision = element->precision;
		logical.scale = element->scale;
		break;
	case PARQUET_DATE:
		logical.kind = PARQUET_LOGICAL_DATE;
		break;
	case PARQUET_TIME_MILLIS:
	case PARQUET_TIME_MICROS:
		logical.kind = PARQUET_LOGICAL_TIME;
		logical.unit = element->converted == PARQUET_TIME_MILLIS ? WEIR_MILLI : WEIR_MICRO;
		logical.utc = true;
		break;
	case PARQUET_TIMESTAMP_MILLIS:
	case PARQUET_TIMESTAMP_MICROS:
		logical.kind = PARQUET_LOGICAL_TIMESTAMP;
		logical.unit = element->converted == PARQUET_TIMESTAMP_MILLIS ? WEIR_MILLI : WEIR_MICRO;
		logical.utc = true;
		break;
	case PARQUET_UINT_8:
	case PARQUET_UINT_16:
	case PARQUET_UINT_32:
	case PARQUET_UINT_64:
		logical.kind = PARQUET_LOGICAL_INTEGER;
		logical.bit_width = (uint8_t)(8 << (element->converted - PARQUET_UINT_8));
		break;
	case PARQUET_INT_8:
	case PARQUET_INT_16:
	case PARQUET_INT_32:
	case PARQUET_INT_64:
		logical.kind = PARQUET_LOGICAL_INTEGER;
		logical.bit_width = (uint8_t)(8 << (element->converted - PARQUET_INT_8));
		logical.is_signed = true;
		break;
	default:
		break;
	}
	return logical;
}

/* A new reference, or NULL with err set. An annotation that does not fit the physical type is as good as none: the
 * values are still what the physical type says. */
static const struct weir_type *stored_type(struct parquet_schema_build *build, const struct parquet_element *element)
{
	struct parquet_logical logical = logical_of(element);
	const struct weir_type *type = NULL;

	if (logical.kind == PARQUET_LOGICAL_UNKNOWN)
		return weir_type_ref(weir_type_of(WEIR_NULL));
	switch ((enum parquet_physical)element->physical) {
	case PARQUET_BOOLEAN:
		return weir_type_ref(weir_type_of(WEIR_BOOL));
	case PARQUET_INT32:
		if (logical.kind == PARQUET_LOGICAL_INTEGER && logical.bit_width <= 32)
			type = integer_type(logical.bit_width, logical.is_signed);
		else if (logical.kind == PARQUET_LOGICAL_DATE)
			type = weir_type_of(WEIR_DATE32);
		else if (logical.kind == PARQUET_LOGICAL_TIME && logical.unit == WEIR_MILLI)
			return temporal(build, WEIR_TIME32, WEIR_MILLI, false);
		else if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		return weir_type_ref(type ? type : weir_type_of(WEIR_INT32));
	case PARQUET_INT64:
		if (logical.kind == PARQUET_LOGICAL_INTEGER && logical.bit_width == 64)
			type = integer_type(64, logical.is_signed);
		else if (logical.kind == PARQUET_LOGICAL_TIME && logical.unit != WEIR_MILLI)
			return temporal(build, WEIR_TIME64, logical.unit, false);
		else if (logical.kind == PARQUET_LOGICAL_TIMESTAMP)
			return temporal(build, WEIR_TIMESTAMP, logical.unit, logical.utc);
		else if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		return weir_type_ref(type ? type : weir_type_of(WEIR_INT64));
	case PARQUET_INT96:
		return temporal(build, WEIR_TIMESTAMP, build->file->int96_unit, false);
	case PARQUET_FLOAT:
		return weir_type_ref(weir_type_of(WEIR_FLOAT));
	case PARQUET_DOUBLE:
		return weir_type_ref(weir_type_of(WEIR_DOUBLE));
	case PARQUET_BYTE_ARRAY:
		if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		if (logical.kind == PARQUET_LOGICAL_STRING || logical.kind == PARQUET_LOGICAL_JSON ||
		    logical.kind == PARQUET_LOGICAL_ENUM)
			return weir_type_ref(weir_type_of(WEIR_STRING));
		return weir_type_ref(weir_type_of(WEIR_BINARY));
	case PARQUET_FIXED:
		if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		if (logical.kind == PARQUET_LOGICAL_FLOAT16 && element->type_length == 2)
			return weir_type_ref(weir_type_of(WEIR_HALF));
		if (element->converted == PARQUET_INTERVAL && element->type_length == 12)
			return weir_type_ref(weir_type_of(WEIR_INTERVAL_MONTH_DAY_NANO));
		return weir_type_fixed_binary(build->file->account, (uint32_t)element->type_length, build->err);
	default:
		parquet_schema_refuse(build, WEIR_E_DATA, "a column without a type");
		return NULL;
	}
}

static uint32_t physical_width(const struct parquet_element *element)
{
	switch ((enum parquet_physical)element->physical) {
	case PARQUET_INT32:
	case PARQUET_FLOAT:
		return 4;
	case PARQUET_INT64:
	case PARQUET_DOUBLE:
		return 8;
	case PARQUET_INT96:
		return 12;
	case PARQUET_FIXED:
		return (uint32_t)element->type_length;
	default:
		return 0;
	}
}

/* ── what ARROW:schema knows better ── */

/* Of another unit than the hint's, since the writer was told so: the zone holds all the same. Consumes `stored`. */
static const struct weir_type *in_zone(struct parquet_schema_build *build, const struct weir_type *stored,
				       const char *zone)
{
	const struct weir_type *type = weir_type_temporal(build->file->account, WEIR_TIMESTAMP, stored->unit, zone,
							  build->err);

	weir_type_unref(stored);
	return type;
}

/* The type to use in place of `stored` (whose reference is taken over), or `stored` itself where the hint does not
 * fit. */
static const struct weir_type *restored(struct parquet_schema_build *build, const struct weir_type *stored,
					const struct weir_type *hint)
{
	const struct weir_type *type = NULL;

	switch (hint->id) {
	case WEIR_LARGE_STRING:
		if (stored->id == WEIR_STRING)
			type = weir_type_of(WEIR_LARGE_STRING);
		break;
	case WEIR_LARGE_BINARY:
		if (stored->id == WEIR_BINARY)
			type = weir_type_of(WEIR_LARGE_BINARY);
		break;
	case WEIR_TIMESTAMP:
		/* Parquet knows no seconds: they are stored as milliseconds. */
		if (stored->id == WEIR_TIMESTAMP &&
		    (hint->unit == stored->unit || (hint->unit == WEIR_SECOND && stored->unit == WEIR_MILLI)) &&
		    (hint->timezone != NULL) == (stored->timezone != NULL))
			type = hint;
		else if (stored->id == WEIR_TIMESTAMP && hint->timezone && stored->timezone)
			return in_zone(build, stored, hint->timezone);
		break;
	case WEIR_TIME32:
		if (stored->id == WEIR_TIME32)
			type = hint;
		break;
	case WEIR_DATE64:
		if (stored->id == WEIR_DATE32)
			type = hint;
		break;
	case WEIR_DURATION:
		if (stored->id == WEIR_INT64)
			type = hint;
		break;
	case WEIR_DECIMAL256:
		if (stored->id == WEIR_DECIMAL128 && stored->precision == hint->precision &&
		    stored->scale == hint->scale)
			type = hint;
		break;
	case WEIR_UINT32:
		if (stored->id == WEIR_INT64) /* files of version 1.0 */
			type = hint;
		break;
	default:
		break;
	}
	if (!type)
		return stored;
	type = weir_type_ref(type);
	weir_type_unref(stored);
	return type;
}

const struct weir_type *parquet_leaf_type(struct parquet_schema_build *build, const struct parquet_element *element,
					  const struct weir_type *hint)
{
	const struct weir_type *type = stored_type(build, element), *dictionary;

	if (!type || !hint)
		return type;
	if (hint->id != WEIR_DICTIONARY_TYPE)
		return restored(build, type, hint);
	type = restored(build, type, hint->dictionary_value);
	if (!type)
		return NULL;
	if (!weir_type_equal(type, hint->dictionary_value, false))
		return type;
	dictionary = weir_type_dictionary(build->file->account, hint->dictionary_index, type, hint->ordered,
					  build->err);
	weir_type_unref(type);
	return dictionary;
}

int parquet_leaf_convert(struct parquet_schema_build *build, const struct parquet_element *element,
			 struct parquet_leaf_info *info)
{
	const struct weir_type *type = info->type;
	bool is_milli = logical_of(element).unit == WEIR_MILLI;

	info->width = physical_width(element);
	info->width_arrow = type->layout == WEIR_LAYOUT_FIXED ? type->byte_width : 0;
	info->is_text = weir_type_is_text(type);
	info->convert = PARQUET_KEEP;
	if (type->id == WEIR_NULL) {
		info->convert = PARQUET_ALL_NULL;
	} else if (weir_type_is_decimal(type)) {
		info->convert = element->physical == PARQUET_BYTE_ARRAY ? PARQUET_DECIMAL_BYTES
				: element->physical == PARQUET_FIXED    ? PARQUET_DECIMAL_FIXED
									: PARQUET_DECIMAL_INT;
	} else if (element->physical == PARQUET_INT96) {
		info->convert = PARQUET_FROM_INT96;
		info->factor = INT64_C(1000000000) / weir_unit_per_second(build->file->int96_unit);
	} else if (type->id == WEIR_INTERVAL_MONTH_DAY_NANO) {
		info->convert = PARQUET_FROM_INTERVAL;
	} else if (type->id == WEIR_DATE64) {
		info->convert = PARQUET_DAYS_TO_MILLIS;
	} else if ((type->id == WEIR_TIMESTAMP || type->id == WEIR_TIME32) && type->unit == WEIR_SECOND && is_milli) {
		info->convert = PARQUET_UNSCALE;
		info->factor = 1000;
	} else if (info->width_arrow && info->width_arrow < info->width && element->physical != PARQUET_FIXED) {
		info->convert = PARQUET_NARROW;
	}
	WEIR_ASSERT(info->convert != PARQUET_KEEP || info->width == info->width_arrow);
	if (element->physical == PARQUET_FIXED && element->type_length > (1 << 24))
		return parquet_schema_refuse(build, WEIR_E_UNSUPPORTED, "values of a fixed length of more than 16 MiB");
	return WEIR_OK;
}
