/* What a node has seen as one type, or none. */
#include "arrow/value.h"
#include "pyext/infer.h"

#define IDS_UNSIGNED                                                                                                   \
	(UINT32_C(1) << WEIR_UINT8 | UINT32_C(1) << WEIR_UINT16 | UINT32_C(1) << WEIR_UINT32 |                         \
	 UINT32_C(1) << WEIR_UINT64)
#define IDS_SIGNED                                                                                                     \
	(UINT32_C(1) << WEIR_INT8 | UINT32_C(1) << WEIR_INT16 | UINT32_C(1) << WEIR_INT32 | UINT32_C(1) << WEIR_INT64)
#define IDS_FLOAT (UINT32_C(1) << WEIR_HALF | UINT32_C(1) << WEIR_FLOAT | UINT32_C(1) << WEIR_DOUBLE)

static enum weir_type_id widest(uint32_t ids)
{
	return (enum weir_type_id)(31 - __builtin_clz(ids));
}

static const struct weir_type *raised(struct pyext_values *v, const struct weir_type *type,
				      const struct weir_error *err)
{
	if (!type)
		values_raise(v, err);
	return type;
}

static const struct weir_type *number_type(const struct infer *node)
{
	uint32_t whole = node->ids & (IDS_UNSIGNED | IDS_SIGNED);
	bool ints = node->kinds & KIND_INT || whole;

	if (node->kinds & KIND_FLOAT || node->ids & IDS_FLOAT) {
		if (ints)
			return node->magnitude > UINT64_C(1) << 53 ? NULL : weir_type_of(WEIR_DOUBLE);
		return weir_type_of(node->kinds & KIND_FLOAT ? WEIR_DOUBLE : widest(node->ids));
	}
	if (node->kinds & KIND_INT)
		return node->wide_unsigned ? NULL : weir_type_of(WEIR_INT64);
	if (!(whole & IDS_UNSIGNED) || !(whole & IDS_SIGNED))
		return weir_type_of(widest(whole));
	/* An unsigned number needs a signed one of twice its width. */
	if (whole & UINT32_C(1) << WEIR_UINT64)
		return node->wide_unsigned ? NULL : weir_type_of(WEIR_INT64);
	{
		int up = WEIR_INT16 + (int)(widest(whole & IDS_UNSIGNED) - WEIR_UINT8);
		int own = (int)widest(whole & IDS_SIGNED);

		return weir_type_of((enum weir_type_id)(up > own ? up : own));
	}
}

static const struct weir_type *decimal_type(struct pyext_values *v, const struct infer *node)
{
	struct weir_error err = {0};
	int64_t digits = node->kinds & KIND_INT ? 1 : 0;

	for (uint64_t rest = node->magnitude; rest >= 10; rest /= 10)
		digits++;
	digits = (node->digits > digits ? node->digits : digits) + node->scale;
	if (digits < 1)
		digits = 1;
	if (digits > 76)
		return NULL;
	return raised(v,
		      weir_type_decimal(v->account, digits > 38 ? WEIR_DECIMAL256 : WEIR_DECIMAL128, (int32_t)digits,
					(int32_t)node->scale, &err),
		      &err);
}

/* Of a unit that holds the time farthest from 1970, or the longest. */
static const struct weir_type *temporal(struct pyext_values *v, const struct infer *node, enum weir_type_id id,
					enum weir_time_unit unit, const char *zone)
{
	struct weir_error err = {0};

	if (node->nanos / (uint64_t)(1000000000 / weir_unit_per_second(unit)) > INT64_MAX)
		return NULL;
	return raised(v, weir_type_temporal(v->account, id, unit, zone, &err), &err);
}

/* Of datetime64: days alone are dates. */
static const struct weir_type *moment_type(struct pyext_values *v, const struct infer *node)
{
	static const uint64_t day_nanos = UINT64_C(86400) * 1000000000;

	if (!node->days || node->clock)
		return temporal(v, node, WEIR_TIMESTAMP, node->unit, NULL);
	return node->nanos / day_nanos > INT32_MAX ? NULL : weir_type_of(WEIR_DATE32);
}

static const struct weir_type *list_type(struct pyext_values *v, const struct infer *node)
{
	struct weir_field item = {.name = "item", .nullable = true};
	struct weir_error err = {0};
	const struct weir_type *type;

	item.type = infer_type(v, node->item);
	if (!item.type)
		return NULL;
	type = weir_type_list(v->account, node->bytes > INT32_MAX ? WEIR_LARGE_LIST : WEIR_LIST_TYPE, &item, 0, false,
			      &err);
	weir_type_unref(item.type);
	return raised(v, type, &err);
}

static const struct weir_type *struct_type(struct pyext_values *v, const struct infer *node)
{
	size_t size = (node->field_count ? node->field_count : 1) * sizeof(struct weir_field);
	struct weir_field *fields = PyMem_Calloc(1, size);
	const struct weir_type *type = NULL;
	struct weir_error err = {0};
	uint32_t count = 0;

	if (!fields) {
		PyErr_NoMemory();
		return NULL;
	}
	for (; count < node->field_count; count++) {
		fields[count].name = PyUnicode_AsUTF8AndSize(node->fields[count].name, NULL);
		fields[count].nullable = true;
		fields[count].type = infer_type(v, &node->fields[count].node);
		if (!fields[count].type)
			goto out;
	}
	type = raised(v, weir_type_struct(v->account, fields, count, &err), &err);
out:
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
	PyMem_Free(fields);
	return type;
}

const struct weir_type *infer_type(struct pyext_values *v, const struct infer *node)
{
	uint32_t kinds = node->kinds;
	struct weir_error err = {0};

	if (!kinds)
		return weir_type_of(WEIR_NULL);
	if (kinds == KIND_BOOL)
		return weir_type_of(WEIR_BOOL);
	if (!(kinds & ~(uint32_t)(KIND_INT | KIND_FLOAT | KIND_NUMPY)))
		return number_type(node);
	if (!(kinds & ~(uint32_t)(KIND_STR | KIND_BYTES))) {
		bool large = node->bytes > INT32_MAX;

		return node->first == KIND_STR ? weir_type_of(large ? WEIR_LARGE_STRING : WEIR_STRING)
					       : weir_type_of(large ? WEIR_LARGE_BINARY : WEIR_BINARY);
	}
	if (kinds & KIND_DECIMAL && !(kinds & ~(uint32_t)(KIND_DECIMAL | KIND_INT)))
		return decimal_type(v, node);
	switch (kinds) {
	case KIND_DATETIME:
		return node->aware && node->naive
			       ? NULL
			       : temporal(v, node, WEIR_TIMESTAMP, node->unit, node->aware ? node->zone : NULL);
	case KIND_DATE:
		return weir_type_of(WEIR_DATE32);
	case KIND_TIME:
		return temporal(v, node, WEIR_TIME64, WEIR_MICRO, NULL);
	case KIND_DELTA:
		return temporal(v, node, WEIR_DURATION, node->unit == WEIR_NANO ? WEIR_NANO : WEIR_MICRO, NULL);
	case KIND_MOMENT:
		return moment_type(v, node);
	case KIND_SPAN:
		return temporal(v, node, WEIR_DURATION, node->unit, NULL);
	case KIND_UUID:
		return raised(v, uuid_type(v, &err), &err);
	case KIND_LIST:
		return list_type(v, node);
	case KIND_DICT:
		return struct_type(v, node);
	default:
		return NULL;
	}
}
