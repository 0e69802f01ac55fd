/* Types: a static one for each id without parameters, counted ones for the rest.
 *
 * A counted type is one allocation (see arrow_impl.h) and holds references to the types of its fields, never the other
 * way round, so counting suffices. The depth is known when a type is made, and bounded there.
 */
#include "arrow/type.h"

#include "base/checked.h"
#include "arrow/arrow_impl.h"

#include <stdalign.h>

#define PLAIN(ID, LAYOUT, WIDTH)                                                                                       \
	[ID] = {.id = ID, .layout = WEIR_LAYOUT_##LAYOUT, .byte_width = WIDTH, .is_static = true}

static const struct weir_type plain_types[WEIR_TYPE_ID_COUNT] = {
	PLAIN(WEIR_NULL, NULL, 0),
	PLAIN(WEIR_BOOL, BITS, 0),
	PLAIN(WEIR_INT8, FIXED, 1),
	PLAIN(WEIR_INT16, FIXED, 2),
	PLAIN(WEIR_INT32, FIXED, 4),
	PLAIN(WEIR_INT64, FIXED, 8),
	PLAIN(WEIR_UINT8, FIXED, 1),
	PLAIN(WEIR_UINT16, FIXED, 2),
	PLAIN(WEIR_UINT32, FIXED, 4),
	PLAIN(WEIR_UINT64, FIXED, 8),
	PLAIN(WEIR_HALF, FIXED, 2),
	PLAIN(WEIR_FLOAT, FIXED, 4),
	PLAIN(WEIR_DOUBLE, FIXED, 8),
	PLAIN(WEIR_DATE32, FIXED, 4),
	PLAIN(WEIR_DATE64, FIXED, 8),
	PLAIN(WEIR_INTERVAL_MONTHS, FIXED, 4),
	PLAIN(WEIR_INTERVAL_DAY_TIME, FIXED, 8),
	PLAIN(WEIR_INTERVAL_MONTH_DAY_NANO, FIXED, 16),
	PLAIN(WEIR_BINARY, BYTES, 0),
	PLAIN(WEIR_LARGE_BINARY, BYTES, 0),
	PLAIN(WEIR_STRING, BYTES, 0),
	PLAIN(WEIR_LARGE_STRING, BYTES, 0),
};

const struct weir_type *weir_type_of(enum weir_type_id id)
{
	return id < WEIR_TYPE_ID_COUNT && plain_types[id].is_static ? &plain_types[id] : NULL;
}

const struct weir_type *weir_type_ref(const struct weir_type *type)
{
	if (type && !type->is_static)
		/* relaxed: whoever refers to it has it from someone who still holds it. */
		atomic_fetch_add_explicit(&((struct weir_type *)type)->refs, 1, memory_order_relaxed);
	return type;
}

void weir_type_unref(const struct weir_type *type)
{
	struct weir_type *mine = (struct weir_type *)type;

	if (!type || type->is_static ||
	    /* acq_rel: the last one must see what the others read and wrote before they let go. */
	    atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < mine->field_count; i++)
		weir_type_unref(mine->fields[i].type);
	weir_type_unref(mine->dictionary_index);
	weir_type_unref(mine->dictionary_value);
	weir_free(mine->account, mine, mine->allocated);
}

static struct weir_type *type_new(struct weir_account *account, enum weir_type_id id, enum weir_layout layout,
				  uint32_t byte_width, const struct weir_field *fields, uint32_t count,
				  const char *timezone, struct weir_error *err)
{
	size_t head = weir_round_up(sizeof(struct weir_type), alignof(struct weir_field));
	size_t size = head + fields_pack_size(fields, count, NULL, timezone);
	struct fields_pack pack;
	struct weir_type *type;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < count; i++)
		if (fields[i].type->depth >= depth)
			depth = fields[i].type->depth + 1;
	if (depth > WEIR_DEPTH_MAX) {
		weir_error_set(err, WEIR_E_UNSUPPORTED, "types nest more than %d levels deep", WEIR_DEPTH_MAX);
		return NULL;
	}
	type = weir_alloc_zero(account, size, err);
	if (!type)
		return NULL;
	type->id = id;
	type->layout = layout;
	type->byte_width = byte_width;
	type->depth = depth;
	type->account = account;
	type->allocated = size;
	atomic_init(&type->refs, 1);
	fields_pack_begin(&pack, (char *)type + head, fields, count, NULL);
	type->field_count = count;
	type->fields = fields_pack_fields(&pack, fields, count);
	type->timezone = fields_pack_string(&pack, timezone);
	return type;
}

const struct weir_type *weir_type_decimal(struct weir_account *account, enum weir_type_id id, int32_t precision,
					  int32_t scale, struct weir_error *err)
{
	int32_t precision_max = id == WEIR_DECIMAL128 ? 38 : 76;
	struct weir_type *type;

	WEIR_ASSERT(id == WEIR_DECIMAL128 || id == WEIR_DECIMAL256);
	if (precision < 1 || precision > precision_max) {
		weir_error_set(err, WEIR_E_INVALID, "the precision of a decimal%s must lie between 1 and %d, not %d",
			       id == WEIR_DECIMAL128 ? "128" : "256", precision_max, precision);
		return NULL;
	}
	type = type_new(account, id, WEIR_LAYOUT_FIXED, id == WEIR_DECIMAL128 ? 16 : 32, NULL, 0, NULL, err);
	if (!type)
		return NULL;
	type->precision = precision;
	type->scale = scale;
	return type;
}

const struct weir_type *weir_type_temporal(struct weir_account *account, enum weir_type_id id, enum weir_time_unit unit,
					   const char *timezone, struct weir_error *err)
{
	struct weir_type *type;

	WEIR_ASSERT(id == WEIR_TIME32 || id == WEIR_TIME64 || id == WEIR_TIMESTAMP || id == WEIR_DURATION);
	if (unit > WEIR_NANO || (id == WEIR_TIME32 && unit > WEIR_MILLI) || (id == WEIR_TIME64 && unit < WEIR_MICRO)) {
		weir_error_set(err, WEIR_E_INVALID, "%s",
			       id == WEIR_TIME32   ? "time32 counts seconds or milliseconds"
			       : id == WEIR_TIME64 ? "time64 counts microseconds or nanoseconds"
						   : "unknown unit of time");
		return NULL;
	}
	/* An empty zone is how some writers say "none". */
	if (timezone && (!*timezone || id != WEIR_TIMESTAMP))
		timezone = NULL;
	type = type_new(account, id, WEIR_LAYOUT_FIXED, id == WEIR_TIME32 ? 4 : 8, NULL, 0, timezone, err);
	if (type)
		type->unit = unit;
	return type;
}

const struct weir_type *weir_type_fixed_binary(struct weir_account *account, uint32_t byte_width,
					       struct weir_error *err)
{
	if (byte_width > INT32_MAX) {
		weir_error_set(err, WEIR_E_INVALID, "a fixed-size binary value cannot have %u bytes", byte_width);
		return NULL;
	}
	return type_new(account, WEIR_FIXED_BINARY, WEIR_LAYOUT_FIXED, byte_width, NULL, 0, NULL, err);
}

const struct weir_type *weir_type_list(struct weir_account *account, enum weir_type_id id,
				       const struct weir_field *item, int32_t list_size, bool ordered,
				       struct weir_error *err)
{
	struct weir_type *type;

	WEIR_ASSERT(id == WEIR_LIST_TYPE || id == WEIR_LARGE_LIST || id == WEIR_FIXED_LIST || id == WEIR_MAP);
	if (id == WEIR_FIXED_LIST && list_size < 0) {
		weir_error_set(err, WEIR_E_INVALID, "a fixed-size list cannot have %d items", list_size);
		return NULL;
	}
	if (id == WEIR_MAP && (item->type->id != WEIR_STRUCT || item->type->field_count != 2)) {
		char name[128];

		weir_error_set(err, WEIR_E_INVALID, "the entries of a map must be a struct of key and value, not %s",
			       weir_type_name(item->type, name, sizeof(name)));
		return NULL;
	}
	type = type_new(account, id, WEIR_LAYOUT_NESTED, 0, item, 1, NULL, err);
	if (!type)
		return NULL;
	type->list_size = id == WEIR_FIXED_LIST ? list_size : 0;
	type->ordered = id == WEIR_MAP && ordered;
	return type;
}

const struct weir_type *weir_type_struct(struct weir_account *account, const struct weir_field *fields, uint32_t count,
					 struct weir_error *err)
{
	return type_new(account, WEIR_STRUCT, WEIR_LAYOUT_NESTED, 0, fields, count, NULL, err);
}

const struct weir_type *weir_type_dictionary(struct weir_account *account, const struct weir_type *index,
					     const struct weir_type *value, bool ordered, struct weir_error *err)
{
	char name[128];
	struct weir_type *type;

	if (!weir_type_is_integer(index)) {
		weir_error_set(err, WEIR_E_INVALID, "the codes of a dictionary must be integers, not %s",
			       weir_type_name(index, name, sizeof(name)));
		return NULL;
	}
	if (value->id == WEIR_DICTIONARY_TYPE) {
		weir_error_set(err, WEIR_E_UNSUPPORTED, "the values of a dictionary cannot be a dictionary again (%s)",
			       weir_type_name(value, name, sizeof(name)));
		return NULL;
	}
	type = type_new(account, WEIR_DICTIONARY_TYPE, WEIR_LAYOUT_FIXED, index->byte_width, NULL, 0, NULL, err);
	if (!type)
		return NULL;
	if (value->depth >= WEIR_DEPTH_MAX) {
		weir_type_unref(type);
		weir_error_set(err, WEIR_E_UNSUPPORTED, "types nest more than %d levels deep", WEIR_DEPTH_MAX);
		return NULL;
	}
	type->depth = value->depth + 1;
	type->dictionary_index = weir_type_ref(index);
	type->dictionary_value = weir_type_ref(value);
	type->ordered = ordered;
	return type;
}

bool weir_type_equal(const struct weir_type *a, const struct weir_type *b, bool with_metadata)
{
	if (a == b)
		return true;
	if (a->id != b->id || a->byte_width != b->byte_width || a->unit != b->unit || a->precision != b->precision ||
	    a->scale != b->scale || a->list_size != b->list_size || a->ordered != b->ordered ||
	    a->field_count != b->field_count || !a->timezone != !b->timezone ||
	    (a->timezone && strcmp(a->timezone, b->timezone)))
		return false;
	if (a->id == WEIR_DICTIONARY_TYPE)
		return weir_type_equal(a->dictionary_index, b->dictionary_index, with_metadata) &&
		       weir_type_equal(a->dictionary_value, b->dictionary_value, with_metadata);
	if (a->id == WEIR_MAP && !with_metadata) {
		const struct weir_type *x = a->fields[0].type, *y = b->fields[0].type;

		return a->fields[0].nullable == b->fields[0].nullable &&
		       fields_equal(x->fields, y->fields, 2, false, false);
	}
	return fields_equal(a->fields, b->fields, a->field_count, a->id == WEIR_STRUCT || with_metadata, with_metadata);
}

const struct weir_type *weir_type_values(const struct weir_type *type)
{
	return type->id == WEIR_DICTIONARY_TYPE ? type->dictionary_value : type;
}

bool weir_type_is_integer(const struct weir_type *type)
{
	return type->id >= WEIR_INT8 && type->id <= WEIR_UINT64;
}

bool weir_type_is_signed(const struct weir_type *type)
{
	return type->id >= WEIR_INT8 && type->id <= WEIR_INT64;
}

bool weir_type_is_float(const struct weir_type *type)
{
	return type->id >= WEIR_HALF && type->id <= WEIR_DOUBLE;
}

bool weir_type_is_bytes(const struct weir_type *type)
{
	return type->layout == WEIR_LAYOUT_BYTES;
}

bool weir_type_is_text(const struct weir_type *type)
{
	return type->id == WEIR_STRING || type->id == WEIR_LARGE_STRING;
}

bool weir_type_is_decimal(const struct weir_type *type)
{
	return type->id == WEIR_DECIMAL128 || type->id == WEIR_DECIMAL256;
}

bool weir_type_is_nested(const struct weir_type *type)
{
	return type->layout == WEIR_LAYOUT_NESTED;
}

bool weir_type_is_temporal(const struct weir_type *type)
{
	return type->id >= WEIR_DATE32 && type->id <= WEIR_INTERVAL_MONTH_DAY_NANO;
}
