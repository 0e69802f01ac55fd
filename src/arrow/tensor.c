#include "arrow/tensor.h"

#include "arrow/arrow_impl.h"

#include <jansson.h>

/* What Ray Data writes into files. */
#define LIST_TENSOR_NAME "ray.data.arrow_tensor"
#define LARGE_LIST_TENSOR_NAME "ray.data.arrow_tensor_v2"
#define LIST_RAGGED_NAME "ray.data.arrow_variable_shaped_tensor"

/* ---- what a field is ---- */

bool weir_field_has_extension(const struct weir_field *field, const char *name)
{
	uint32_t size = 0;
	const char *value = weir_metadata_get(&field->metadata, WEIR_EXTENSION_NAME, &size);

	return value && size == strlen(name) && memcmp(value, name, size) == 0;
}

/* Absent metadata is the same as empty metadata. */
static bool same_entry(const struct weir_field *a, const struct weir_field *b, const char *key)
{
	uint32_t x_size = 0, y_size = 0;
	const char *x = weir_metadata_get(&a->metadata, key, &x_size),
		   *y = weir_metadata_get(&b->metadata, key, &y_size);

	return x_size == y_size && (!x_size || memcmp(x, y, x_size) == 0);
}

static bool same_extension(const struct weir_field *a, const struct weir_field *b)
{
	return same_entry(a, b, WEIR_EXTENSION_NAME) && same_entry(a, b, WEIR_EXTENSION_METADATA);
}

bool weir_field_same(const struct weir_field *a, const struct weir_field *b)
{
	return weir_type_equal(a->type, b->type, false) && !weir_tensor_meets(a, b);
}

bool weir_schema_same(const struct weir_schema *a, const struct weir_schema *b)
{
	bool same = weir_schema_equal(a, b, false);

	for (uint32_t i = 0; same && i < a->field_count; i++)
		same = !weir_tensor_meets(&a->fields[i], &b->fields[i]);
	return same;
}

/* The field's extension metadata as JSON; NULL where it is none. */
static json_t *metadata_of(const struct weir_field *field)
{
	uint32_t size = 0;
	const char *text = weir_metadata_get(&field->metadata, WEIR_EXTENSION_METADATA, &size);

	return text && size ? json_loadb(text, size, JSON_DECODE_ANY, NULL) : NULL;
}

static bool read_shape(const json_t *shape, struct weir_tensor_shape *out)
{
	size_t count = json_array_size(shape);

	if (!json_is_array(shape) || count > WEIR_TENSOR_DIMS_MAX)
		return false;
	out->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		const json_t *size = json_array_get(shape, i);

		if (!json_is_integer(size) || json_integer_value(size) < 0)
			return false;
		out->sizes[i] = json_integer_value(size);
	}
	return true;
}

static bool read_order(const json_t *order, struct weir_tensor_shape *out)
{
	uint64_t seen = 0;

	out->permuted = false;
	if (!order || json_is_null(order))
		return true;
	if (!json_is_array(order) || json_array_size(order) != out->count)
		return false;
	for (uint32_t i = 0; i < out->count; i++) {
		json_int_t at = json_integer_value(json_array_get(order, i));

		if (at < 0 || at >= out->count || seen >> at & 1)
			return false;
		seen |= UINT64_C(1) << at;
		out->order[i] = (uint32_t)at;
		out->permuted = out->permuted || at != i; /* pyarrow says 0, 1, 2 of what is as it is */
	}
	return true;
}

static bool has_list_of_tensor(const struct weir_field *field)
{
	return (field->type->id == WEIR_LIST_TYPE && weir_field_has_extension(field, LIST_TENSOR_NAME)) ||
	       (field->type->id == WEIR_LARGE_LIST && weir_field_has_extension(field, LARGE_LIST_TENSOR_NAME));
}

/* False: more than an int64 holds. */
static bool item_count(const struct weir_tensor_shape *shape, int64_t *out)
{
	*out = 1;
	for (uint32_t i = 0; i < shape->count; i++)
		if (__builtin_mul_overflow(*out, shape->sizes[i], out))
			return false;
	return true;
}

bool weir_tensor_fixed(const struct weir_field *field, struct weir_tensor_shape *out)
{
	bool known, in_lists = has_list_of_tensor(field);
	int64_t count = 0;
	json_t *metadata;

	if (!in_lists && (field->type->id != WEIR_FIXED_LIST || !weir_field_has_extension(field, WEIR_FIXED_TENSOR)))
		return false;
	metadata = metadata_of(field);
	if (in_lists) {
		out->permuted = false;
		known = metadata && read_shape(metadata, out);
	} else {
		known = metadata && read_shape(json_object_get(metadata, "shape"), out) &&
			read_order(json_object_get(metadata, "permutation"), out);
	}
	json_decref(metadata);
	return known && item_count(out, &count) && (in_lists || count == field->type->list_size);
}

bool weir_tensor_ragged(const struct weir_field *field)
{
	const struct weir_type *type = field->type;
	bool plain, in_lists = weir_field_has_extension(field, LIST_RAGGED_NAME);
	json_t *metadata;

	if (type->id != WEIR_STRUCT || (!in_lists && !weir_field_has_extension(field, WEIR_RAGGED_TENSOR)) ||
	    type->field_count != 2 || strcmp(type->fields[0].name, "data") != 0 ||
	    strcmp(type->fields[1].name, "shape") != 0)
		return false;
	type = field->type->fields[1].type;
	if (field->type->fields[0].type->id != WEIR_LIST_TYPE && field->type->fields[0].type->id != WEIR_LARGE_LIST)
		return false;
	if (in_lists)
		return type->id == WEIR_LIST_TYPE && type->fields[0].type->id == WEIR_INT64;
	if (type->id != WEIR_FIXED_LIST || type->fields[0].type->id != WEIR_INT32 ||
	    type->list_size > WEIR_TENSOR_DIMS_MAX)
		return false;
	metadata = metadata_of(field);
	plain = !json_object_get(metadata, "permutation");
	json_decref(metadata);
	return plain;
}

/* ---- what two become ---- */

/* How many dimensions, at most; −1: no tensor, or one that says it in a way that is not understood. */
static int32_t dims_of(const struct weir_field *field)
{
	struct weir_tensor_shape shape;
	json_t *metadata;
	json_int_t dims;

	if (weir_tensor_fixed(field, &shape))
		return shape.permuted ? -1 : (int32_t)shape.count;
	if (!weir_tensor_ragged(field))
		return -1;
	if (field->type->fields[1].type->id == WEIR_FIXED_LIST)
		return field->type->fields[1].type->list_size;
	metadata = metadata_of(field);
	dims = json_is_integer(metadata) ? json_integer_value(metadata) : -1;
	json_decref(metadata);
	return dims > WEIR_TENSOR_DIMS_MAX ? -1 : (int32_t)dims;
}

bool weir_tensor_meets(const struct weir_field *a, const struct weir_field *b)
{
	int32_t x, y;

	if (!a->metadata.count || !b->metadata.count)
		return false;
	x = dims_of(a);
	y = x < 0 ? -1 : dims_of(b);
	return y >= 0 && (x != y || !same_extension(a, b));
}

/* The list that holds a row's items. */
static const struct weir_type *items_of(const struct weir_field *field)
{
	return field->type->id == WEIR_STRUCT ? field->type->fields[0].type : field->type;
}

/* 64-bit offsets are for rows that were too many for others: of Ray Data's types, which always have them, they say
 * nothing, and pyarrow wants none in the type that both become. */
static bool is_large(const struct weir_field *field)
{
	return weir_field_has_extension(field, WEIR_RAGGED_TENSOR) && items_of(field)->id == WEIR_LARGE_LIST;
}

const struct weir_type *weir_tensor_unify(struct weir_account *account, const struct weir_field *a,
					  const struct weir_field *b, struct weir_error *err)
{
	const struct weir_type *x = items_of(a), *y = items_of(b), *value, *type = NULL;
	bool large = is_large(a) || is_large(b);
	struct weir_field number = {.name = "item", .type = weir_type_of(WEIR_INT32), .nullable = true}, item = number;
	struct weir_field fields[2] = {{.name = "data", .nullable = true}, {.name = "shape", .nullable = true}};
	int32_t dims = dims_of(a);

	if (dims_of(b) > dims)
		dims = dims_of(b);
	item.type = value = weir_type_unify(account, x->fields[0].type, y->fields[0].type, err);
	if (!value)
		return NULL;
	fields[0].type = weir_type_list(account, large ? WEIR_LARGE_LIST : WEIR_LIST_TYPE, &item, 0, false, err);
	if (fields[0].type)
		fields[1].type = weir_type_list(account, WEIR_FIXED_LIST, &number, dims, false, err);
	if (fields[1].type)
		type = weir_type_struct(account, fields, 2, err);
	weir_type_unref(value);
	weir_type_unref(fields[0].type);
	weir_type_unref(fields[1].type);
	return type;
}

void weir_tensor_mark(struct weir_field *out)
{
	static const struct weir_metadata_entry entries[] = {
		{WEIR_EXTENSION_METADATA, WEIR_RAGGED_METADATA, sizeof(WEIR_RAGGED_METADATA) - 1},
		{WEIR_EXTENSION_NAME, WEIR_RAGGED_TENSOR, sizeof(WEIR_RAGGED_TENSOR) - 1},
	};

	/* Metadata is only ever read through. */
	out->metadata = (struct weir_metadata){.count = 2, .entries = (struct weir_metadata_entry *)(uintptr_t)entries};
}

/* ---- rows ---- */

struct rows {
	struct weir_account *account;
	const struct weir_array *from;
	struct weir_error *err;
};

static bool is_null(const struct weir_array *array, int64_t row)
{
	return array->null_count != 0 && array->buffers[0].data &&
	       !weir_bit_get(array->buffers[0].data, array->offset + row);
}

static int64_t list_offset(const struct weir_array *array, int64_t row)
{
	const uint8_t *offsets = array->buffers[1].data;

	row += array->offset;
	return array->type->id == WEIR_LARGE_LIST ? ((const int64_t *)offsets)[row] : ((const int32_t *)offsets)[row];
}

/* A row's sizes, ones in front. */
static int put_sizes(const struct rows *rows, const int64_t *sizes, int64_t count, int32_t dims, int32_t *out)
{
	int64_t front = dims - count;

	for (int64_t i = 0; i < dims; i++) {
		int64_t size = i < front ? 1 : sizes[i - front];

		if (size < 0 || size > INT32_MAX)
			return weir_error_set(rows->err, WEIR_E_DATA, "a tensor has the size %lld in one dimension",
					      (long long)size);
		out[i] = (int32_t)size;
	}
	return WEIR_OK;
}

/* The sizes of one row of a ragged column. */
static int ragged_sizes(const struct rows *rows, int64_t row, int32_t dims, int32_t *out)
{
	const struct weir_array *shapes = rows->from->children[1], *numbers = shapes->children[0];
	bool in_lists = shapes->type->id != WEIR_FIXED_LIST;
	int64_t sizes[WEIR_TENSOR_DIMS_MAX], at = rows->from->offset + row, first, count;

	if (in_lists) {
		first = list_offset(shapes, at);
		count = list_offset(shapes, at + 1) - first;
	} else {
		count = shapes->type->list_size;
		first = (shapes->offset + at) * count;
	}
	if (count < 0 || count > dims)
		return weir_error_set(rows->err, WEIR_E_DATA, "a tensor has %lld dimensions where %d are meant",
				      (long long)count, (int)dims);
	for (int64_t i = 0; i < count; i++)
		sizes[i] = in_lists ? ((const int64_t *)numbers->buffers[1].data)[numbers->offset + first + i]
				    : ((const int32_t *)numbers->buffers[1].data)[numbers->offset + first + i];
	return put_sizes(rows, sizes, count, dims, out);
}

/* A row that nobody selected may have been left empty by whoever decoded the others. */
static bool is_left_out(const struct rows *rows, int64_t row)
{
	return is_null(rows->from, row) ||
	       (rows->from->type->id != WEIR_FIXED_LIST && rows->from->type->id != WEIR_STRUCT &&
		list_offset(rows->from, row) == list_offset(rows->from, row + 1));
}

static bool has_no_items(const struct weir_tensor_shape *shape)
{
	int64_t count;

	return item_count(shape, &count) && !count;
}

/* A list of each row's sizes; shape is NULL of a column whose rows say their own. */
static struct weir_array *shapes_of(const struct rows *rows, const struct weir_tensor_shape *shape,
				    const struct weir_type *type)
{
	int32_t dims = type->list_size;
	int64_t count = rows->from->length;
	struct weir_array *array = weir_array_new(rows->account, type, rows->err), *child = NULL;
	uint8_t *data;
	int code = WEIR_OK;

	if (array)
		child = weir_array_new(rows->account, weir_type_of(WEIR_INT32), rows->err);
	if (!child ||
	    weir_buffer_new(rows->account, (uint64_t)(count * dims) * 4, &child->buffers[1], &data, rows->err)) {
		weir_array_unref(child);
		weir_array_unref(array);
		return NULL;
	}
	child->length = count * dims;
	array->length = count;
	array->children[0] = child;
	for (int64_t i = 0; !code && i < count; i++) {
		int32_t *out = (int32_t *)(void *)data + i * dims;

		if (is_left_out(rows, i) && !(shape && has_no_items(shape)))
			memset(out, 0, (size_t)dims * 4);
		else if (shape)
			code = put_sizes(rows, shape->sizes, shape->count, dims, out);
		else
			code = ragged_sizes(rows, i, dims, out);
	}
	if (code) {
		weir_array_unref(array);
		return NULL;
	}
	return array;
}

/* Lists must be as long as the shape says. */
static int check_lists(const struct rows *rows, const struct weir_tensor_shape *shape)
{
	int64_t want, have;

	if (rows->from->type->id == WEIR_FIXED_LIST || !item_count(shape, &want))
		return WEIR_OK;
	for (int64_t i = 0; i < rows->from->length; i++) {
		have = list_offset(rows->from, i + 1) - list_offset(rows->from, i);
		if (have == want || is_left_out(rows, i))
			continue;
		weir_error_set(rows->err, WEIR_E_DATA, "a tensor has %lld items where its shape says %lld",
			       (long long)have, (long long)want);
		weir_error_at_row(rows->err, i);
		return rows->err->code;
	}
	return WEIR_OK;
}

/* Lists with 32-bit offsets, of those with 64; nulls are the column's own, so that here there are none. */
static struct weir_array *narrow(const struct rows *rows, const struct weir_array *lists, const struct weir_type *type)
{
	int64_t first = list_offset(lists, 0), last = list_offset(lists, lists->length);
	struct weir_array *values, *array;
	uint8_t *offsets;

	if (last - first > INT32_MAX) {
		builder_refuse_size(type, rows->err);
		return NULL;
	}
	array = weir_array_new(rows->account, type, rows->err);
	if (!array || weir_buffer_new(rows->account, ((uint64_t)lists->length + 1) * 4, &array->buffers[1], &offsets,
				      rows->err)) {
		weir_array_unref(array);
		return NULL;
	}
	array->length = lists->length;
	for (int64_t i = 0; i <= lists->length; i++)
		((int32_t *)(void *)offsets)[i] = (int32_t)(list_offset(lists, i) - first);
	values = weir_array_slice(lists->children[0], first, last - first, rows->err);
	if (values)
		array->children[0] = weir_array_promote(rows->account, values, type->fields[0].type, rows->err);
	weir_array_unref(values);
	if (!array->children[0]) {
		weir_array_unref(array);
		return NULL;
	}
	return array;
}

static struct weir_array *items(const struct rows *rows, const struct weir_type *type)
{
	bool inside = rows->from->type->id == WEIR_STRUCT;
	struct weir_array *lists = inside ? weir_array_slice(rows->from->children[0], rows->from->offset,
							     rows->from->length, rows->err)
					  : weir_array_ref(rows->from);
	struct weir_array *made = NULL;

	if (lists && lists->type->id == WEIR_LARGE_LIST && type->id == WEIR_LIST_TYPE)
		made = narrow(rows, lists, type);
	else if (lists)
		made = weir_array_promote(rows->account, lists, type, rows->err);
	weir_array_unref(lists);
	return made;
}

struct weir_array *weir_tensor_promote(struct weir_account *account, const struct weir_array *from,
				       const struct weir_field *field, const struct weir_type *type,
				       struct weir_error *err)
{
	struct rows rows = {.account = account, .from = from, .err = err};
	struct weir_tensor_shape shape;
	bool fixed = weir_tensor_fixed(field, &shape);
	struct weir_array *to = NULL;
	uint8_t *bits;

	if (fixed && check_lists(&rows, &shape))
		return NULL;
	to = weir_array_new(account, type, err);
	if (!to)
		return NULL;
	to->length = from->length;
	to->null_count = weir_array_null_count(from);
	if (to->null_count) {
		if (weir_buffer_new(account, weir_bits_size(from->length), &to->buffers[0], &bits, err))
			goto fail;
		memset(bits, 0, to->buffers[0].size);
		weir_bits_copy(bits, 0, from->buffers[0].data, from->offset, from->length);
	}
	to->children[0] = items(&rows, type->fields[0].type);
	if (to->children[0])
		to->children[1] = shapes_of(&rows, fixed ? &shape : NULL, type->fields[1].type);
	if (to->children[1])
		return to;
fail:
	weir_array_unref(to);
	return NULL;
}
