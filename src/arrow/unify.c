/* Unification: the one type that two columns which meet can both become without losing anything but, where integers
 * become floats, digits that a float has not.
 *
 *     null + any → any                    date32 + date64 → date64
 *     integers → the wider; of different  times, timestamps, durations → the finer unit
 *       sign → the signed one that holds  string + large → large; text + binary → binary;
 *       both (64 bits at most)              fixed binary + binary → binary
 *     integer + float → the float that    lists → the larger kind, of unified items
 *       holds the integer, double at most maps, structs → child by child, structs by name
 *     decimals, integer + decimal → one   dictionary + anything else → its values'
 *       that holds both                   tensors of several shapes → ragged ones
 */
#include "arrow/arrow_impl.h"
#include "arrow/tensor.h"

#include <stdio.h>

struct unify {
	struct weir_account *account;
	struct weir_error *err;
};

static const struct weir_type *unify(const struct unify *u, const struct weir_type *a, const struct weir_type *b);

static const struct weir_type *refuse(const struct unify *u, const struct weir_type *a, const struct weir_type *b)
{
	char x[256], y[256];

	weir_error_set(u->err, WEIR_E_TYPE, "%s and %s have no common type", weir_type_name(a, x, sizeof(x)),
		       weir_type_name(b, y, sizeof(y)));
	return NULL;
}

static const struct weir_type *unify_integers(const struct weir_type *a, const struct weir_type *b)
{
	static const enum weir_type_id by_width[] = {
		[1] = WEIR_INT8, [2] = WEIR_INT16, [4] = WEIR_INT32, [8] = WEIR_INT64};
	const struct weir_type *plus = weir_type_is_signed(a) ? b : a, *minus = plus == a ? b : a;
	uint32_t width;

	if (weir_type_is_signed(a) == weir_type_is_signed(b))
		return a->byte_width >= b->byte_width ? a : b;
	/* An unsigned integer needs a signed one of twice its width; there is none above 64 bits, and there the cast
	 * says so when a value does not fit. */
	width = 2 * plus->byte_width > minus->byte_width ? 2 * plus->byte_width : minus->byte_width;
	return weir_type_of(by_width[width > 8 ? 8 : width]);
}

static const struct weir_type *unify_number(const struct weir_type *integer, const struct weir_type *number)
{
	enum weir_type_id needed = integer->byte_width == 1   ? WEIR_HALF
				   : integer->byte_width == 2 ? WEIR_FLOAT
							      : WEIR_DOUBLE;

	return weir_type_of(needed > number->id ? needed : number->id);
}

static const struct weir_type *unify_decimals(const struct unify *u, int32_t a_precision, int32_t a_scale,
					      int32_t b_precision, int32_t b_scale, bool wide)
{
	int64_t scale = a_scale > b_scale ? a_scale : b_scale;
	int64_t a_whole = (int64_t)a_precision - a_scale, b_whole = (int64_t)b_precision - b_scale;
	int64_t precision = (a_whole > b_whole ? a_whole : b_whole) + scale;

	if (precision > 76) {
		weir_error_set(u->err, WEIR_E_TYPE, "decimals (%d, %d) and (%d, %d) have no common type of 76 digits",
			       a_precision, a_scale, b_precision, b_scale);
		return NULL;
	}
	return weir_type_decimal(u->account, wide || precision > 38 ? WEIR_DECIMAL256 : WEIR_DECIMAL128,
				 (int32_t)precision, (int32_t)scale, u->err);
}

static const struct weir_type *unify_with_decimal(const struct unify *u, const struct weir_type *decimal,
						  const struct weir_type *other)
{
	static const int32_t digits[] = {[1] = 3, [2] = 5, [4] = 10, [8] = 20};

	if (weir_type_is_float(other))
		return weir_type_of(other->id == WEIR_HALF ? WEIR_FLOAT : other->id);
	if (weir_type_is_integer(other)) {
		int32_t count = digits[other->byte_width] - (other->id == WEIR_INT64);

		return unify_decimals(u, decimal->precision, decimal->scale, count, 0, decimal->id == WEIR_DECIMAL256);
	}
	if (weir_type_is_decimal(other))
		return unify_decimals(u, decimal->precision, decimal->scale, other->precision, other->scale,
				      decimal->id == WEIR_DECIMAL256 || other->id == WEIR_DECIMAL256);
	return refuse(u, decimal, other);
}

static bool has_unit(const struct weir_type *type)
{
	return type->id >= WEIR_TIME32 && type->id <= WEIR_DURATION;
}

static const struct weir_type *unify_temporal(const struct unify *u, const struct weir_type *a,
					      const struct weir_type *b)
{
	bool times = (a->id == WEIR_TIME32 || a->id == WEIR_TIME64) && (b->id == WEIR_TIME32 || b->id == WEIR_TIME64);
	enum weir_time_unit unit = a->unit > b->unit ? a->unit : b->unit;
	bool dates = (a->id == WEIR_DATE32 || a->id == WEIR_DATE64) && (b->id == WEIR_DATE32 || b->id == WEIR_DATE64);

	if (dates)
		return weir_type_of(WEIR_DATE64);
	if (!has_unit(a) || !has_unit(b) || (!times && a->id != b->id) || !a->timezone != !b->timezone ||
	    (a->timezone && strcmp(a->timezone, b->timezone)))
		return refuse(u, a, b);
	return weir_type_temporal(u->account, times ? (unit > WEIR_MILLI ? WEIR_TIME64 : WEIR_TIME32) : a->id, unit,
				  a->timezone, u->err);
}

static bool is_bytes_like(const struct weir_type *type)
{
	return weir_type_is_bytes(type) || type->id == WEIR_FIXED_BINARY;
}

static const struct weir_type *unify_bytes(const struct weir_type *a, const struct weir_type *b)
{
	bool large = type_offset_width(a) == 8 || type_offset_width(b) == 8;

	if (weir_type_is_text(a) && weir_type_is_text(b))
		return weir_type_of(large ? WEIR_LARGE_STRING : WEIR_STRING);
	return weir_type_of(large ? WEIR_LARGE_BINARY : WEIR_BINARY);
}

static bool is_list(const struct weir_type *type)
{
	return type->id == WEIR_LIST_TYPE || type->id == WEIR_LARGE_LIST || type->id == WEIR_FIXED_LIST;
}

/* Extension types meet only their like: the storage alone does not say what a value means. */
static int unify_extension(const struct unify *u, const struct weir_field *a, const struct weir_field *b)
{
	static const char *const keys[] = {"ARROW:extension:name", "ARROW:extension:metadata"};

	for (int i = 0; i < 2 && a->type->id != WEIR_NULL && b->type->id != WEIR_NULL; i++) {
		uint32_t x_size = 0, y_size = 0;
		const char *x = weir_metadata_get(&a->metadata, keys[i], &x_size);
		const char *y = weir_metadata_get(&b->metadata, keys[i], &y_size);

		/* Absent metadata is the same as empty metadata. */
		if (x_size == y_size && (!x_size || !memcmp(x, y, x_size)))
			continue;
		return weir_error_set(u->err, WEIR_E_TYPE, "the extension types '%s' (%.60s) and '%s' (%.60s) differ",
				      i   ? weir_metadata_get(&a->metadata, keys[0], NULL)
				      : x ? x
					  : "none",
				      i && x ? x : "",
				      i   ? weir_metadata_get(&b->metadata, keys[0], NULL)
				      : y ? y
					  : "none",
				      i && y ? y : "");
	}
	return WEIR_OK;
}

/* out->type is a new reference; name and metadata are borrowed from `a`, or from `b` where `a` is null, or static. */
static int unify_field(const struct unify *u, const struct weir_field *a, const struct weir_field *b,
		       struct weir_field *out)
{
	*out = a->type->id == WEIR_NULL ? *b : *a;
	out->name = a->name;
	out->nullable = a->nullable || b->nullable;
	out->type = NULL;
	if (weir_tensor_meets(a, b)) {
		weir_tensor_mark(out);
		out->type = weir_tensor_unify(u->account, a, b, u->err);
		return out->type ? WEIR_OK : u->err->code;
	}
	if (unify_extension(u, a, b))
		return u->err->code;
	out->type = unify(u, a->type, b->type);
	return out->type ? WEIR_OK : u->err->code;
}

static const struct weir_type *unify_lists(const struct unify *u, const struct weir_type *a, const struct weir_type *b)
{
	enum weir_type_id id = a->id == WEIR_LARGE_LIST || b->id == WEIR_LARGE_LIST ? WEIR_LARGE_LIST : WEIR_LIST_TYPE;
	const struct weir_type *type;
	struct weir_field item;

	if (a->id == WEIR_FIXED_LIST && b->id == WEIR_FIXED_LIST && a->list_size == b->list_size)
		id = WEIR_FIXED_LIST;
	if (unify_field(u, &a->fields[0], &b->fields[0], &item))
		return NULL;
	type = weir_type_list(u->account, id, &item, a->list_size, false, u->err);
	weir_type_unref(item.type);
	return type;
}

/* The position of a name; -1: not there; -2: more than once. */
static int64_t find(const struct weir_field *fields, uint32_t count, const char *name)
{
	int64_t found = -1;

	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(fields[i].name, name))
			found = found < 0 ? (int64_t)i : -2;
	return found;
}

static int check_names(const struct unify *u, const struct weir_field *fields, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (find(fields, count, fields[i].name) == -2)
			return weir_error_set(u->err, WEIR_E_NAME,
					      "column '%s' comes twice, so it cannot be matched by its name",
					      fields[i].name);
	return WEIR_OK;
}

static void add_context(struct weir_error *err, const char *name)
{
	char path[sizeof(err->column)];

	/* From the inside out: "a" in front of "item.b". */
	snprintf(path, sizeof(path), "%s%s%.100s", name, *err->column ? "." : "", err->column);
	*err->column = 0;
	weir_error_at_column(err, path);
}

/* The fields of both: those of `a` in their order, then those that only `b` has. Fills `out` (room for both) with new
 * references to types; on failure there are none. */
static int unify_fields(const struct unify *u, const struct weir_field *a, uint32_t a_count, const struct weir_field *b,
			uint32_t b_count, struct weir_field *out, uint32_t *out_count)
{
	uint32_t count = 0;
	bool same = a_count == b_count;

	for (uint32_t i = 0; same && i < a_count; i++)
		same = !strcmp(a[i].name, b[i].name);
	/* Matching column by column needs no search, which a thousand columns would feel. */
	if (!same && (check_names(u, a, a_count) || check_names(u, b, b_count)))
		return u->err->code;
	for (uint32_t i = 0; i < a_count; i++) {
		int64_t at = same ? (int64_t)i : find(b, b_count, a[i].name);

		if (at < 0) {
			out[count] = a[i];
			out[count].nullable = true;
			out[count++].type = weir_type_ref(a[i].type);
		} else if (unify_field(u, &a[i], &b[at], &out[count])) {
			add_context(u->err, a[i].name);
			goto fail;
		} else {
			count++;
		}
	}
	for (uint32_t i = 0; !same && i < b_count; i++) {
		if (find(a, a_count, b[i].name) >= 0)
			continue;
		out[count] = b[i];
		out[count].nullable = true;
		out[count++].type = weir_type_ref(b[i].type);
	}
	*out_count = count;
	return WEIR_OK;
fail:
	while (count > 0)
		weir_type_unref(out[--count].type);
	return u->err->code;
}

static const struct weir_type *unify_structs(const struct unify *u, const struct weir_type *a,
					     const struct weir_type *b)
{
	size_t size = ((size_t)a->field_count + b->field_count) * sizeof(struct weir_field);
	struct weir_field *fields = weir_alloc(u->account, size, u->err);
	const struct weir_type *type = NULL;
	uint32_t count = 0;

	if (!fields)
		return NULL;
	if (!unify_fields(u, a->fields, a->field_count, b->fields, b->field_count, fields, &count))
		type = weir_type_struct(u->account, fields, count, u->err);
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
	weir_free(u->account, fields, size);
	return type;
}

/* Keys and values are matched by their place; what writers call them differs. */
static const struct weir_type *unify_maps(const struct unify *u, const struct weir_type *a, const struct weir_type *b)
{
	const struct weir_field *x = a->fields[0].type->fields, *y = b->fields[0].type->fields;
	struct weir_field entries = a->fields[0], fields[2] = {{0}};
	const struct weir_type *type = NULL;

	entries.type = NULL;
	if (!unify_field(u, &x[0], &y[0], &fields[0]) && !unify_field(u, &x[1], &y[1], &fields[1]))
		entries.type = weir_type_struct(u->account, fields, 2, u->err);
	if (entries.type)
		type = weir_type_list(u->account, WEIR_MAP, &entries, 0, a->ordered && b->ordered, u->err);
	weir_type_unref(entries.type);
	weir_type_unref(fields[0].type);
	weir_type_unref(fields[1].type);
	return type;
}

static const struct weir_type *unify(const struct unify *u, const struct weir_type *a, const struct weir_type *b)
{
	if (weir_type_equal(a, b, true) || b->id == WEIR_NULL)
		return weir_type_ref(a);
	if (a->id == WEIR_NULL)
		return weir_type_ref(b);
	if (a->id == WEIR_DICTIONARY_TYPE || b->id == WEIR_DICTIONARY_TYPE)
		return unify(u, weir_type_values(a), weir_type_values(b));
	if (weir_type_is_integer(a) && weir_type_is_integer(b))
		return unify_integers(a, b);
	if (weir_type_is_float(a) && weir_type_is_float(b))
		return weir_type_of(a->id > b->id ? a->id : b->id);
	if (weir_type_is_integer(a) && weir_type_is_float(b))
		return unify_number(a, b);
	if (weir_type_is_float(a) && weir_type_is_integer(b))
		return unify_number(b, a);
	if (weir_type_is_decimal(a))
		return unify_with_decimal(u, a, b);
	if (weir_type_is_decimal(b))
		return unify_with_decimal(u, b, a);
	if (is_bytes_like(a) && is_bytes_like(b))
		return unify_bytes(a, b);
	if (weir_type_is_temporal(a) && weir_type_is_temporal(b))
		return unify_temporal(u, a, b);
	if (is_list(a) && is_list(b))
		return unify_lists(u, a, b);
	if (a->id == WEIR_MAP && b->id == WEIR_MAP)
		return unify_maps(u, a, b);
	if (a->id == WEIR_STRUCT && b->id == WEIR_STRUCT)
		return unify_structs(u, a, b);
	return refuse(u, a, b);
}

const struct weir_type *weir_type_unify(struct weir_account *account, const struct weir_type *a,
					const struct weir_type *b, struct weir_error *err)
{
	struct unify u = {.account = account, .err = err};

	return unify(&u, a, b);
}

int weir_field_unify(struct weir_account *account, const struct weir_field *a, const struct weir_field *b,
		     struct weir_field *out, struct weir_error *err)
{
	struct unify u = {.account = account, .err = err};

	return unify_field(&u, a, b, out);
}

/* ---- room for more ---- */

static const struct weir_type *large_struct(struct weir_account *account, const struct weir_type *type,
					    struct weir_error *err)
{
	size_t size = ((size_t)type->field_count + 1) * sizeof(struct weir_field);
	struct weir_field *fields = weir_alloc(account, size, err);
	const struct weir_type *made = NULL;
	uint32_t n = 0;

	if (!fields)
		return NULL;
	for (; n < type->field_count; n++) {
		fields[n] = type->fields[n];
		fields[n].type = weir_type_large(account, type->fields[n].type, err);
		if (!fields[n].type)
			break;
	}
	if (n == type->field_count)
		made = weir_type_struct(account, fields, n, err);
	while (n-- > 0)
		weir_type_unref(fields[n].type);
	weir_free(account, fields, size);
	return made;
}

const struct weir_type *weir_type_large(struct weir_account *account, const struct weir_type *type,
					struct weir_error *err)
{
	struct weir_field item;
	const struct weir_type *made;

	switch (type->id) {
	case WEIR_STRING:
		return weir_type_of(WEIR_LARGE_STRING);
	case WEIR_BINARY:
		return weir_type_of(WEIR_LARGE_BINARY);
	case WEIR_STRUCT:
		return large_struct(account, type, err);
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
		item = type->fields[0];
		item.type = weir_type_large(account, item.type, err);
		if (!item.type)
			return NULL;
		made = weir_type_list(account, type->id == WEIR_FIXED_LIST ? WEIR_FIXED_LIST : WEIR_LARGE_LIST, &item,
				      type->list_size, false, err);
		weir_type_unref(item.type);
		return made;
	default:
		return weir_type_ref(type);
	}
}

struct weir_schema *weir_schema_unify(struct weir_account *account, const struct weir_schema *a,
				      const struct weir_schema *b, struct weir_error *err)
{
	struct unify u = {.account = account, .err = err};
	size_t size = ((size_t)a->field_count + b->field_count) * sizeof(struct weir_field);
	struct weir_schema *schema = NULL;
	struct weir_field *fields;
	uint32_t count = 0;

	if (weir_schema_equal(a, b, true))
		return weir_schema_ref(a);
	fields = weir_alloc(account, size, err);
	if (!fields)
		return NULL;
	if (!unify_fields(&u, a->fields, a->field_count, b->fields, b->field_count, fields, &count))
		schema = weir_schema_new(account, fields, count, &a->metadata, err);
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
	weir_free(account, fields, size);
	return schema;
}
