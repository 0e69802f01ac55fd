/* Promotion: an array as its column's unified type. Allowed is what unify.c would choose, so that nothing is lost that
 * the rules there do not give away.
 *
 * Numbers are converted in one loop for each pair of types; where a value may not fit, the loop notes that one did not,
 * and only then the row is looked for, since what lies under a null must not fail. Strings and lists of another offset
 * width keep their bytes and items.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/tensor.h"
#include "arrow/decimal.h"

struct promote {
	struct weir_account *account;
	bool exact; /* no integer may lose digits as a float */
	struct weir_error *err;
};

static struct weir_array *promote(const struct promote *p, const struct weir_array *from, const struct weir_type *type);
static struct weir_array *promote_field(const struct promote *p, const struct weir_array *array,
					const struct weir_field *from, const struct weir_field *to);

static struct weir_array *refuse(const struct promote *p, const struct weir_array *from, const struct weir_type *type)
{
	char a[256], b[256];

	weir_error_set(p->err, WEIR_E_TYPE, "%s cannot become %s without loss",
		       weir_type_name(from->type, a, sizeof(a)), weir_type_name(type, b, sizeof(b)));
	return NULL;
}

static struct weir_array *refuse_row(const struct promote *p, const struct weir_array *from,
				     const struct weir_type *type, int64_t row)
{
	char a[128], b[128];

	weir_error_set(p->err, WEIR_E_CAST, "a value of type %s does not fit %s",
		       weir_type_name(from->type, a, sizeof(a)), weir_type_name(type, b, sizeof(b)));
	weir_error_at_row(p->err, row);
	return NULL;
}

static bool is_null(const struct weir_array *array, int64_t row)
{
	return array->null_count != 0 && array->buffers[0].data &&
	       !weir_bit_get(array->buffers[0].data, array->offset + row);
}

/* A new array of the type with the rows' validity, from row 0 on; `width` bytes a row in buffers[1]. */
static struct weir_array *begin(const struct promote *p, const struct weir_array *from, const struct weir_type *type,
				uint64_t width, uint8_t **values)
{
	struct weir_array *to = weir_array_new(p->account, type, p->err);
	uint64_t size;
	uint8_t *bits;

	if (!to)
		return NULL;
	to->length = from->length;
	to->null_count = weir_array_null_count(from);
	if (weir_mul_overflows((uint64_t)from->length, width, &size)) {
		weir_error_set(p->err, WEIR_E_OVERFLOW, "%lld rows are too many", (long long)from->length);
		goto fail;
	}
	if (to->null_count) {
		if (weir_buffer_new(p->account, weir_bits_size(from->length), &to->buffers[0], &bits, p->err))
			goto fail;
		memset(bits, 0, to->buffers[0].size);
		weir_bits_copy(bits, 0, from->buffers[0].data, from->offset, from->length);
	}
	if (values && weir_buffer_new(p->account, size, &to->buffers[1], values, p->err))
		goto fail;
	return to;
fail:
	weir_array_unref(to);
	return NULL;
}

static float float_of_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff, bits;
	float value;

	if (exponent == 31) {
		bits = sign | 0x7f800000 | fraction << 13;
	} else if (exponent) {
		bits = sign | (exponent + 112) << 23 | fraction << 13;
	} else {
		/* Zero, or a subnormal: the fraction counts steps of 2^-24. */
		value = (float)fraction * 0x1p-24f;
		memcpy(&bits, &value, 4);
		bits |= sign;
	}
	memcpy(&value, &bits, 4);
	return value;
}

/* Exact for the integers of eight bits, which are all that become halves. */
static uint16_t half_of_small(int value)
{
	float number = (float)value;
	uint32_t bits;

	if (!value)
		return 0;
	memcpy(&bits, &number, 4);
	return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
}

#define AS_IS(value) (value)
#define LOOP(FROM, TO, HOW)                                                                                            \
	do {                                                                                                           \
		const FROM *in = (const FROM *)from->buffers[1].data + from->offset;                                   \
		TO *out = (TO *)values;                                                                                \
		for (int64_t i = 0; i < from->length; i++)                                                             \
			out[i] = (TO)HOW(in[i]);                                                                       \
	} while (0)

#define INTEGERS(CASE)                                                                                                 \
	CASE(WEIR_INT8, int8_t)                                                                                        \
	CASE(WEIR_UINT8, uint8_t)                                                                                      \
	CASE(WEIR_INT16, int16_t)                                                                                      \
	CASE(WEIR_UINT16, uint16_t)                                                                                    \
	CASE(WEIR_INT32, int32_t)                                                                                      \
	CASE(WEIR_UINT32, uint32_t)                                                                                    \
	CASE(WEIR_INT64, int64_t)                                                                                      \
	CASE(WEIR_UINT64, uint64_t)

/* One function a target: from integers of any type. */
#define FROM_INTEGERS_CASE(ID, FROM)                                                                                   \
	case ID:                                                                                                       \
		LOOP(FROM, target, AS_IS);                                                                             \
		break;
#define FROM_INTEGERS(TO)                                                                                              \
	static void integers_to_##TO(const struct weir_array *from, uint8_t *values)                                   \
	{                                                                                                              \
		typedef TO target;                                                                                     \
		switch (from->type->id) {                                                                              \
			INTEGERS(FROM_INTEGERS_CASE)                                                                   \
		default:                                                                                               \
			break;                                                                                         \
		}                                                                                                      \
	}

FROM_INTEGERS(uint16_t)
FROM_INTEGERS(uint32_t)
FROM_INTEGERS(uint64_t)
FROM_INTEGERS(float)
FROM_INTEGERS(double)

static void to_integers(const struct weir_array *from, const struct weir_type *type, uint8_t *values)
{
	/* Widening keeps the bits of either sign, so the unsigned targets serve both. */
	switch (type->byte_width) {
	case 2:
		integers_to_uint16_t(from, values);
		break;
	case 4:
		integers_to_uint32_t(from, values);
		break;
	case 8:
		integers_to_uint64_t(from, values);
		break;
	default:
		break;
	}
}

static void to_floats(const struct weir_array *from, const struct weir_type *type, uint8_t *values)
{
	if (type->id == WEIR_HALF) {
		if (from->type->id == WEIR_INT8)
			LOOP(int8_t, uint16_t, half_of_small);
		else
			LOOP(uint8_t, uint16_t, half_of_small);
	} else if (type->id == WEIR_FLOAT) {
		if (from->type->id == WEIR_HALF)
			LOOP(uint16_t, float, float_of_half);
		else
			integers_to_float(from, values);
	} else if (from->type->id == WEIR_HALF) {
		LOOP(uint16_t, double, float_of_half);
	} else if (from->type->id == WEIR_FLOAT) {
		LOOP(float, double, AS_IS);
	} else {
		integers_to_double(from, values);
	}
}

/* The first integer of 64 bits that a double does not hold; −1: there is none. From 2^53 on a double may hold one by
 * chance; that is not asked. */
static int64_t first_inexact(const struct weir_array *from, const double *values)
{
	const double most = 9007199254740992.0;

	for (int64_t i = 0; i < from->length; i++)
		if ((values[i] >= most || values[i] <= -most) && !is_null(from, i))
			return i;
	return -1;
}

static struct weir_array *promote_number(const struct promote *p, const struct weir_array *from,
					 const struct weir_type *type)
{
	uint8_t *values;
	struct weir_array *to = begin(p, from, type, type->byte_width, &values);

	if (!to)
		return NULL;
	if (weir_type_is_float(type)) {
		int64_t row = -1;

		to_floats(from, type, values);
		if (p->exact && from->type->byte_width == 8 && !weir_type_is_float(from->type))
			row = first_inexact(from, (const double *)values);
		if (row < 0)
			return to;
		weir_array_unref(to);
		return refuse_row(p, from, type, row);
	}
	to_integers(from, type, values);
	if (from->type->id == WEIR_UINT64) {
		const int64_t *out = (const int64_t *)values;
		int64_t wrong = 0;

		for (int64_t i = 0; i < from->length; i++)
			wrong |= out[i];
		for (int64_t i = 0; wrong < 0 && i < from->length; i++)
			if (out[i] < 0 && !is_null(from, i)) {
				weir_array_unref(to);
				return refuse_row(p, from, type, i);
			}
	}
	return to;
}

#define INT256_CASE(ID, FROM)                                                                                          \
	case ID:                                                                                                       \
		return weir_int256_from(((const FROM *)values)[from->offset + row]);

/* An integer or a decimal of any width. */
static struct weir_int256 int256_at(const struct weir_array *from, int64_t row)
{
	const uint8_t *values = from->buffers[1].data;

	switch (from->type->id) {
		INTEGERS(INT256_CASE)
	default:
		return weir_int256_load(values + (uint64_t)(from->offset + row) * from->type->byte_width,
					from->type->byte_width);
	}
}

static struct weir_array *promote_decimal(const struct promote *p, const struct weir_array *from,
					  const struct weir_type *type)
{
	int32_t scale = weir_type_is_decimal(from->type) ? from->type->scale : 0;
	uint8_t *values;
	struct weir_array *to = begin(p, from, type, type->byte_width, &values);

	if (!to)
		return NULL;
	for (int64_t row = 0; row < from->length; row++) {
		struct weir_int256 value = is_null(from, row) ? weir_int256_from(0) : int256_at(from, row);

		if (!weir_decimal_rescale(&value, scale, type->scale, false, &value) ||
		    !weir_int256_fits(&value, type->precision)) {
			weir_array_unref(to);
			return refuse_row(p, from, type, row);
		}
		weir_int256_store(&value, values + (uint64_t)row * type->byte_width, type->byte_width);
	}
	return to;
}

static struct weir_array *promote_decimal_to_float(const struct promote *p, const struct weir_array *from,
						   const struct weir_type *type)
{
	uint8_t *values;
	struct weir_array *to = begin(p, from, type, type->byte_width, &values);

	if (!to)
		return NULL;
	for (int64_t row = 0; row < from->length; row++) {
		struct weir_int256 value = is_null(from, row) ? weir_int256_from(0) : int256_at(from, row);
		double number = weir_decimal_to_double(&value, from->type->scale);

		if (type->id == WEIR_DOUBLE)
			((double *)values)[row] = number;
		else
			((float *)values)[row] = (float)number;
	}
	return to;
}

#define SCALE_LOOP(FROM, TO)                                                                                           \
	do {                                                                                                           \
		const FROM *in = (const FROM *)from->buffers[1].data + from->offset;                                   \
		TO *out = (TO *)values;                                                                                \
		for (int64_t i = 0; i < from->length; i++)                                                             \
			wrong |= weir_mul_overflows(in[i], factor, &out[i]);                                           \
		for (int64_t i = 0; wrong && i < from->length; i++)                                                    \
			if (weir_mul_overflows(in[i], factor, &out[i]) && !is_null(from, i)) {                         \
				weir_array_unref(to);                                                                  \
				return refuse_row(p, from, type, i);                                                   \
			}                                                                                              \
	} while (0)

/* Dates, times, timestamps and durations to a finer unit. */
static struct weir_array *promote_temporal(const struct promote *p, const struct weir_array *from,
					   const struct weir_type *type)
{
	int64_t factor = from->type->id == WEIR_DATE32 ? 86400000 : 1;
	bool wrong = false;
	uint8_t *values;
	struct weir_array *to = begin(p, from, type, type->byte_width, &values);

	if (!to)
		return NULL;
	for (int unit = from->type->unit; unit < (int)type->unit; unit++)
		factor *= 1000;
	if (from->type->byte_width == 8)
		SCALE_LOOP(int64_t, int64_t);
	else if (type->byte_width == 8)
		SCALE_LOOP(int32_t, int64_t);
	else
		SCALE_LOOP(int32_t, int32_t);
	return to;
}

/* The offsets of strings or lists in the target's width; a fixed width is counted up. */
static int promote_offsets(const struct promote *p, const struct weir_array *from, struct weir_array *to, int64_t each)
{
	unsigned old_width = type_offset_width(from->type), width = type_offset_width(to->type);
	int64_t last;
	uint8_t *out;

	if (old_width == width) {
		to->offset = from->offset;
		to->buffers[1] = weir_buffer_ref(&from->buffers[1]);
		return WEIR_OK;
	}
	if (weir_buffer_new(p->account, ((uint64_t)from->length + 1) * width, &to->buffers[1], &out, p->err))
		return p->err->code;
	if (old_width) {
		const int32_t *in = (const int32_t *)from->buffers[1].data + from->offset;

		for (int64_t i = 0; i <= from->length; i++)
			((int64_t *)out)[i] = in[i];
		return WEIR_OK;
	}
	if (weir_mul_overflows(from->offset + from->length, each, &last) || (width == 4 && last > INT32_MAX))
		return builder_refuse_size(to->type, p->err);
	for (int64_t i = 0; i <= from->length; i++) {
		int64_t offset = (from->offset + i) * each;

		if (width == 4)
			((int32_t *)out)[i] = (int32_t)offset;
		else
			((int64_t *)out)[i] = offset;
	}
	return WEIR_OK;
}

/* Validity that fits the offset which promote_offsets chose. */
static struct weir_array *begin_shared(const struct promote *p, const struct weir_array *from,
				       const struct weir_type *type)
{
	struct weir_array *to;

	if (type_offset_width(from->type) != type_offset_width(type))
		return begin(p, from, type, 0, NULL);
	to = weir_array_new(p->account, type, p->err);
	if (!to)
		return NULL;
	to->length = from->length;
	to->offset = from->offset;
	to->null_count = from->null_count;
	to->buffers[0] = weir_buffer_ref(&from->buffers[0]);
	return to;
}

static struct weir_array *promote_bytes(const struct promote *p, const struct weir_array *from,
					const struct weir_type *type)
{
	bool fixed = from->type->id == WEIR_FIXED_BINARY;
	struct weir_array *to = begin_shared(p, from, type);

	if (!to)
		return NULL;
	if (promote_offsets(p, from, to, from->type->byte_width)) {
		weir_array_unref(to);
		return NULL;
	}
	to->buffers[2] = weir_buffer_ref(&from->buffers[fixed ? 1 : 2]);
	return to;
}

static struct weir_array *promote_list(const struct promote *p, const struct weir_array *from,
				       const struct weir_type *type)
{
	struct weir_array *to = begin_shared(p, from, type);

	if (!to)
		return NULL;
	to->children[0] = promote_field(p, from->children[0], &from->type->fields[0], &type->fields[0]);
	if (!to->children[0] || (type_offset_width(type) && promote_offsets(p, from, to, from->type->list_size))) {
		weir_array_unref(to);
		return NULL;
	}
	return to;
}

static struct weir_array *nulls(const struct promote *p, const struct weir_type *type, int64_t count)
{
	struct weir_builder builder = {0};
	struct weir_array *array = NULL;

	if (!weir_builder_init(&builder, type, p->account, p->err) && !weir_builder_null(&builder, count, p->err))
		array = weir_builder_finish(&builder, p->err);
	weir_builder_release(&builder);
	return array;
}

/* The place of a child; −1: there is none. */
static int64_t child_of(const struct weir_array *array, const char *name)
{
	for (uint32_t i = 0; i < array->child_count; i++)
		if (!strcmp(array->type->fields[i].name, name))
			return i;
	return -1;
}

static bool has_field(const struct weir_type *type, const char *name)
{
	for (uint32_t i = 0; i < type->field_count; i++)
		if (!strcmp(type->fields[i].name, name))
			return true;
	return false;
}

/* By name; in a map, whose writers name key and value as they like, by place. */
static struct weir_array *promote_struct(const struct promote *p, const struct weir_array *from,
					 const struct weir_type *type, bool by_place)
{
	struct weir_array *to;

	for (uint32_t i = 0; !by_place && i < from->child_count; i++)
		if (!has_field(type, from->type->fields[i].name))
			return refuse(p, from, type);
	to = weir_array_new(p->account, type, p->err);
	if (!to)
		return NULL;
	to->length = from->length;
	to->offset = from->offset;
	to->null_count = from->null_count;
	to->buffers[0] = weir_buffer_ref(&from->buffers[0]);
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct weir_field *field = &type->fields[i];
		int64_t at = by_place ? (int64_t)i : child_of(from, field->name);

		to->children[i] = at >= 0 ? promote_field(p, from->children[at], &from->type->fields[at], field)
					  : nulls(p, field->type, from->offset + from->length);
		if (!to->children[i]) {
			weir_array_unref(to);
			return NULL;
		}
	}
	return to;
}

static struct weir_array *promote_map(const struct promote *p, const struct weir_array *from,
				      const struct weir_type *type)
{
	struct weir_array *to = begin_shared(p, from, type);

	if (!to)
		return NULL;
	to->children[0] = promote_struct(p, from->children[0], type->fields[0].type, true);
	if (!to->children[0] || promote_offsets(p, from, to, 0)) {
		weir_array_unref(to);
		return NULL;
	}
	return to;
}

#define CODES_LOOP(TYPE)                                                                                               \
	do {                                                                                                           \
		const TYPE *codes = (const TYPE *)from->buffers[1].data + from->offset;                                \
		for (int64_t i = 0; i < from->length; i++)                                                             \
			rows[i] = is_null(from, i) ? -1 : (int64_t)codes[i];                                           \
	} while (0)

static struct weir_array *promote_dictionary(const struct promote *p, const struct weir_array *from,
					     const struct weir_type *type)
{
	size_t size = (size_t)from->length * sizeof(int64_t);
	int64_t *rows = weir_alloc(p->account, size, p->err);
	struct weir_array *values = NULL, *result = NULL;

	if (!rows)
		return NULL;
	switch (from->type->byte_width) {
	case 1:
		CODES_LOOP(uint8_t);
		break;
	case 2:
		CODES_LOOP(uint16_t);
		break;
	case 4:
		CODES_LOOP(uint32_t);
		break;
	default:
		CODES_LOOP(uint64_t);
		break;
	}
	/* The few values first, then the many rows; unless one does not fit that perhaps no row uses. */
	values = promote(p, from->dictionary, type);
	if (values) {
		result = weir_array_take(p->account, values, rows, from->length, p->err);
	} else if (p->err->code == WEIR_E_CAST) {
		weir_error_clear(p->err);
		values = weir_array_take(p->account, from->dictionary, rows, from->length, p->err);
		result = values ? promote(p, values, type) : NULL;
	}
	weir_array_unref(values);
	weir_free(p->account, rows, size);
	return result;
}

/* Whether the rules of unification lead from the one plain type to the other. */
static bool leads_to(const struct promote *p, const struct weir_type *from, const struct weir_type *to)
{
	const struct weir_type *both = weir_type_unify(p->account, from, to, p->err);
	bool same = both && weir_type_equal(both, to, false);

	weir_type_unref(both);
	return same;
}

static struct weir_array *promote_plain(const struct promote *p, const struct weir_array *from,
					const struct weir_type *type)
{
	const struct weir_type *old = from->type;

	if (!leads_to(p, old, type))
		return p->err->code == WEIR_E_MEMORY ? NULL : refuse(p, from, type);
	if (weir_type_is_decimal(old) && weir_type_is_float(type))
		return promote_decimal_to_float(p, from, type);
	if (weir_type_is_decimal(type))
		return promote_decimal(p, from, type);
	if (weir_type_is_bytes(type))
		return promote_bytes(p, from, type);
	if (weir_type_is_temporal(type))
		return promote_temporal(p, from, type);
	return promote_number(p, from, type);
}

static struct weir_array *promote(const struct promote *p, const struct weir_array *from, const struct weir_type *type)
{
	const struct weir_type *old = from->type;

	if (weir_type_equal(old, type, false))
		return weir_array_ref(from);
	if (old->id == WEIR_NULL)
		return nulls(p, type, from->length);
	if (old->id == WEIR_DICTIONARY_TYPE && type->id != WEIR_DICTIONARY_TYPE)
		return promote_dictionary(p, from, type);
	if (old->id == WEIR_STRUCT && type->id == WEIR_STRUCT)
		return promote_struct(p, from, type, false);
	if (old->id == WEIR_MAP && type->id == WEIR_MAP)
		return promote_map(p, from, type);
	if ((old->id == type->id && type->layout == WEIR_LAYOUT_NESTED && old->list_size == type->list_size) ||
	    (old->id == WEIR_LIST_TYPE && type->id == WEIR_LARGE_LIST) ||
	    (old->id == WEIR_FIXED_LIST && (type->id == WEIR_LIST_TYPE || type->id == WEIR_LARGE_LIST)))
		return promote_list(p, from, type);
	if (weir_type_is_nested(old) || weir_type_is_nested(type) || type->id == WEIR_DICTIONARY_TYPE)
		return refuse(p, from, type);
	return promote_plain(p, from, type);
}

static struct weir_array *promote_field(const struct promote *p, const struct weir_array *array,
					const struct weir_field *from, const struct weir_field *to)
{
	if (weir_tensor_meets(from, to) && weir_tensor_ragged(to))
		return weir_tensor_promote(p->account, array, from, to->type, p->err);
	return promote(p, array, to->type);
}

struct weir_array *weir_array_promote_field(struct weir_account *account, const struct weir_array *array,
					    const struct weir_field *from, const struct weir_field *to,
					    struct weir_error *err)
{
	struct promote p = {.account = account, .err = err};

	return promote_field(&p, array, from, to);
}

struct weir_array *weir_array_promote(struct weir_account *account, const struct weir_array *array,
				      const struct weir_type *type, struct weir_error *err)
{
	struct promote p = {.account = account, .err = err};

	return promote(&p, array, type);
}

/* A column that the batch lacks is null. */
static struct weir_array *column_of(const struct promote *p, const struct weir_batch *batch,
				    const struct weir_field *to)
{
	int64_t at = weir_schema_index(batch->schema, to->name);
	struct weir_builder builder;
	struct weir_array *array = NULL;

	if (at >= 0 && weir_field_same(&batch->schema->fields[at], to))
		return weir_array_ref(batch->columns[at]);
	if (at >= 0)
		return promote_field(p, batch->columns[at], &batch->schema->fields[at], to);
	if (!weir_builder_init(&builder, to->type, p->account, p->err) &&
	    !weir_builder_null(&builder, batch->row_count, p->err))
		array = weir_builder_finish(&builder, p->err);
	weir_builder_release(&builder);
	return array;
}

struct weir_batch *weir_batch_promote(struct weir_account *account, const struct weir_batch *batch,
				      const struct weir_schema *schema, bool exact, struct weir_error *err)
{
	struct promote p = {.account = account, .exact = exact, .err = err};
	struct weir_batch *promoted = NULL;
	struct weir_array **columns;
	uint32_t n = 0;

	columns = weir_alloc_zero(account, schema->field_count * sizeof(*columns), err);
	if (!columns)
		return NULL;
	for (; n < schema->field_count; n++) {
		columns[n] = column_of(&p, batch, &schema->fields[n]);
		if (!columns[n])
			break;
	}
	if (n == schema->field_count)
		promoted = weir_batch_new(account, schema, batch->row_count, columns, err);
	while (n-- > 0)
		weir_array_unref(columns[n]);
	weir_free(account, columns, schema->field_count * sizeof(*columns));
	return promoted;
}
