#include "ops/exchange/keys.h"

#include "arrow/bitmap.h"

#include <string.h>

enum { CLASS_VALUE = WEIR_KEY_VALUE, CLASS_NAN = WEIR_KEY_NAN, CLASS_NULL = WEIR_KEY_NULL };

bool weir_key_type_has_order(const struct weir_type *type)
{
	type = weir_type_values(type);
	switch (type->id) {
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
		return false; /* a month has no fixed number of days */
	default:
		return type->layout != WEIR_LAYOUT_NESTED;
	}
}

bool weir_key_type_has_groups(const struct weir_type *type)
{
	type = weir_type_values(type);
	if (type->layout != WEIR_LAYOUT_NESTED)
		return true;
	for (uint32_t i = 0; i < type->field_count; i++)
		if (!weir_key_type_has_groups(type->fields[i].type))
			return false;
	return type->id == WEIR_STRUCT;
}

/* Bytes of a value in a key; 0: as many as it has itself. */
static uint32_t value_width(const struct weir_type *type)
{
	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		return 1;
	case WEIR_LAYOUT_FIXED:
		return type->byte_width;
	default:
		return 0;
	}
}

uint32_t weir_key_columns_width(const struct weir_key *keys, uint32_t count)
{
	uint32_t width = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (keys[i].type->layout == WEIR_LAYOUT_BYTES || keys[i].type->layout == WEIR_LAYOUT_NESTED)
			return 0;
		width += 1 + value_width(keys[i].type);
	}
	return width;
}

/* ---- the list ---- */

void weir_key_list_init(struct weir_key_list *list, struct weir_account *account, uint32_t width)
{
	*list = (struct weir_key_list){.account = account, .width = width};
}

void weir_key_list_clear(struct weir_key_list *list)
{
	list->count = 0;
	list->size = 0;
}

void weir_key_list_release(struct weir_key_list *list)
{
	if (!list->account)
		return;
	weir_free(list->account, list->ends, list->capacity * sizeof(*list->ends));
	weir_free(list->account, list->bytes, list->size_max);
	*list = (struct weir_key_list){0};
}

void weir_key_list_cut(struct weir_key_list *list, size_t count)
{
	WEIR_ASSERT(count <= list->count);
	list->count = count;
	list->size = list->width ? count * list->width : count ? list->ends[count - 1] : 0;
}

static int reserve_rows(struct weir_key_list *list, size_t more, struct weir_error *err)
{
	size_t wanted = list->count + more, capacity = list->capacity ? list->capacity : 64;
	uint64_t *ends;

	if (list->width || wanted <= list->capacity)
		return WEIR_OK;
	while (capacity < wanted)
		capacity += capacity / 2;
	ends = weir_realloc(list->account, list->ends, list->capacity * sizeof(*ends), capacity * sizeof(*ends), err);
	if (!ends)
		return err->code;
	list->ends = ends;
	list->capacity = capacity;
	return WEIR_OK;
}

static int reserve_bytes(struct weir_key_list *list, size_t more, struct weir_error *err)
{
	size_t wanted = list->size + more, size_max = list->size_max ? list->size_max : (size_t)4 << 10;
	uint8_t *bytes;

	if (wanted <= list->size_max)
		return WEIR_OK;
	while (size_max < wanted)
		size_max += size_max / 2;
	bytes = weir_realloc(list->account, list->bytes, list->size_max, size_max, err);
	if (!bytes)
		return err->code;
	list->bytes = bytes;
	list->size_max = size_max;
	return WEIR_OK;
}

int weir_key_list_arrange(const struct weir_key_list *list, const uint32_t *rows, struct weir_account *account,
			  struct weir_key_list *out, struct weir_error *err)
{
	uint32_t size;
	int code;

	weir_key_list_init(out, account, list->width);
	/* At once, and no more than that: these are kept. */
	out->bytes = weir_alloc(account, list->size, err);
	if (!out->bytes)
		return err->code;
	out->size_max = list->size;
	if (!list->width) {
		out->ends = weir_alloc(account, list->count * sizeof(*out->ends), err);
		if (!out->ends) {
			code = err->code;
			weir_key_list_release(out);
			return code;
		}
		out->capacity = list->count;
	}
	for (size_t i = 0; i < list->count; i++) {
		const uint8_t *key = weir_key_at(list, rows[i], &size);

		memcpy(out->bytes + out->size, key, size);
		out->size += size;
		if (!list->width)
			out->ends[i] = out->size;
	}
	out->count = list->count;
	return WEIR_OK;
}

int weir_key_list_append(struct weir_key_list *list, const uint8_t *key, uint32_t size, struct weir_error *err)
{
	int code = reserve_rows(list, 1, err);

	if (!code)
		code = reserve_bytes(list, size, err);
	if (code)
		return code;
	memcpy(list->bytes + list->size, key, size);
	list->size += size;
	if (!list->width)
		list->ends[list->count] = list->size;
	list->count++;
	return WEIR_OK;
}

/* ---- values ---- */

/* A column's values by row, whatever its form. */
struct values {
	const struct weir_column *column;
	const void *values;
	const uint32_t *codes; /* NULL: none */
	bool is_constant;
};

static struct values values_of(const struct weir_column *column)
{
	struct values values = {.column = column, .values = column->values};

	if (column->form == WEIR_DICTIONARY) {
		values.codes = column->values;
		values.values = column->dictionary->values;
	}
	values.is_constant = column->form == WEIR_CONSTANT;
	return values;
}

static inline uint32_t place_of(const struct values *values, uint32_t row)
{
	return values->codes ? values->codes[row] : values->is_constant ? 0 : row;
}

static inline uint32_t row_of(const struct weir_selection *selection, uint32_t i)
{
	return selection->rows ? selection->rows[i] : i;
}

static void turn_over(uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)~bytes[i];
}

/* `size` bytes of a little-endian number as big-endian, with the sign turned around where there is one. */
static void put_number(uint8_t *to, const uint8_t *from, uint32_t size, bool is_signed)
{
	for (uint32_t i = 0; i < size; i++)
		to[i] = from[size - 1 - i];
	if (is_signed)
		to[0] ^= 0x80;
}

static bool is_signed(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		return false;
	default:
		return true;
	}
}

static bool is_float(const struct weir_type *type)
{
	return type->id == WEIR_HALF || type->id == WEIR_FLOAT || type->id == WEIR_DOUBLE;
}

/* The class of a float, and its bits so that they order like unsigned numbers. */
static uint8_t put_float(uint8_t *to, const uint8_t *from, uint32_t size, bool tells_zeros_apart)
{
	const uint32_t mantissa = size == 8 ? 52 : size == 4 ? 23 : 10;
	const uint64_t sign = (uint64_t)1 << (8 * size - 1), infinity = (sign - 1) & ~(((uint64_t)1 << mantissa) - 1);
	uint64_t bits = 0;

	memcpy(&bits, from, size);
	if ((bits & (sign - 1)) > infinity) {
		memset(to, 0, size);
		return CLASS_NAN;
	}
	if (bits == sign && !tells_zeros_apart) /* −0.0 */
		bits = 0;
	bits = bits & sign ? ~bits : bits | sign;
	put_number(to, (const uint8_t *)&bits, size, false);
	return CLASS_VALUE;
}

/* Class and value of a null, or of what lies at `from`; of bits, at bit `place`. The value is `width` bytes. */
static void put_value(const struct weir_type *type, const struct weir_key *key, bool is_valid, const void *values,
		      uint64_t place, uint32_t width, uint8_t *to)
{
	const uint8_t *from = values;

	if (!is_valid || type->layout == WEIR_LAYOUT_NULL) {
		to[0] = CLASS_NULL;
		memset(to + 1, 0, width);
		return;
	}
	to[0] = CLASS_VALUE;
	if (type->layout == WEIR_LAYOUT_BITS)
		to[1] = weir_bit_get(from, (int64_t)place);
	else if (is_float(type))
		to[0] = put_float(to + 1, from + place * width, width, key->tells_zeros_apart);
	else if (type->id == WEIR_FIXED_BINARY)
		memcpy(to + 1, from + place * width, width);
	else
		put_number(to + 1, from + place * width, width, is_signed(type));
	if (key->is_descending)
		turn_over(to + 1, width);
}

static void put_fixed(const struct weir_key *key, const struct values *values, uint32_t row, uint32_t width,
		      uint8_t *to)
{
	put_value(key->type, key, weir_column_valid(values->column, row), values->values, place_of(values, row), width,
		  to);
}

/* The usual case on its own: numbers of eight or four bytes. */
static bool push_numbers(const struct weir_key *key, const struct values *values,
			 const struct weir_selection *selection, uint8_t *to, uint32_t stride)
{
	const struct weir_type *type = key->type;
	uint64_t flip = key->is_descending ? UINT64_MAX : 0;

	if (values->column->validity || type->layout != WEIR_LAYOUT_FIXED || is_float(type) ||
	    type->id == WEIR_FIXED_BINARY || (type->byte_width != 8 && type->byte_width != 4))
		return false;
	if (type->byte_width == 8) {
		uint64_t sign = is_signed(type) ? (uint64_t)1 << 63 : 0;

		for (uint32_t i = 0; i < selection->count; i++, to += stride) {
			uint64_t word = ((const uint64_t *)values->values)[place_of(values, row_of(selection, i))];

			to[0] = CLASS_VALUE;
			word = __builtin_bswap64((word ^ sign) ^ flip);
			memcpy(to + 1, &word, 8);
		}
	} else {
		uint32_t sign = is_signed(type) ? (uint32_t)1 << 31 : 0;

		for (uint32_t i = 0; i < selection->count; i++, to += stride) {
			uint32_t word = ((const uint32_t *)values->values)[place_of(values, row_of(selection, i))];

			to[0] = CLASS_VALUE;
			word = __builtin_bswap32((word ^ sign) ^ (uint32_t)flip);
			memcpy(to + 1, &word, 4);
		}
	}
	return true;
}

static int push_fixed(struct weir_key_list *list, const struct weir_key_columns *columns,
		      const struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_selection *selection = &vector->selection;
	uint32_t at = 0;

	if (reserve_bytes(list, (size_t)selection->count * list->width, err))
		return err->code;
	for (uint32_t k = 0; k < columns->count; k++) {
		const struct weir_key *key = &columns->keys[k];
		struct values values = values_of(&vector->columns[key->column]);
		uint32_t width = value_width(key->type);
		uint8_t *to = list->bytes + list->size + at;

		if (!push_numbers(key, &values, selection, to, list->width))
			for (uint32_t i = 0; i < selection->count; i++, to += list->width)
				put_fixed(key, &values, row_of(selection, i), width, to);
		at += 1 + width;
	}
	list->size += (size_t)selection->count * list->width;
	list->count += selection->count;
	return WEIR_OK;
}

static int push_bytes(struct weir_key_list *list, bool is_descending, const uint8_t *from, size_t size,
		      struct weir_error *err)
{
	size_t first;

	if (reserve_bytes(list, 2 * size + 2, err))
		return err->code;
	first = list->size;
	if (!size || !memchr(from, 0, size)) {
		memcpy(list->bytes + list->size, from, size);
		list->size += size;
	} else {
		for (size_t i = 0; i < size; i++) {
			list->bytes[list->size++] = from[i];
			if (!from[i])
				list->bytes[list->size++] = 0xff;
		}
	}
	list->bytes[list->size++] = 0;
	list->bytes[list->size++] = 0;
	if (is_descending)
		turn_over(list->bytes + first, (uint32_t)(list->size - first));
	return WEIR_OK;
}

static bool has_large_offsets(const struct weir_type *type)
{
	return type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;
}

static int push_nested(struct weir_key_list *list, const struct weir_key *key, const struct weir_array *array,
		       int64_t row, struct weir_error *err);

/* The items of a list, each behind a 1, and a 0. */
static int push_items(struct weir_key_list *list, const struct weir_key *key, const struct weir_array *array,
		      int64_t place, struct weir_error *err)
{
	const void *offsets = array->buffers[1].data;
	int64_t begin = place * array->type->list_size, end = begin + array->type->list_size;
	int code = WEIR_OK;

	if (array->type->id == WEIR_LARGE_LIST) {
		begin = ((const int64_t *)offsets)[place];
		end = ((const int64_t *)offsets)[place + 1];
	} else if (array->type->id != WEIR_FIXED_LIST) {
		begin = ((const int32_t *)offsets)[place];
		end = ((const int32_t *)offsets)[place + 1];
	}
	for (; begin < end && !code; begin++) {
		code = reserve_bytes(list, 1, err);
		if (code)
			return code;
		list->bytes[list->size++] = key->is_descending ? (uint8_t)~1 : 1;
		code = push_nested(list, key, array->children[0], begin, err);
	}
	if (!code)
		code = reserve_bytes(list, 1, err);
	if (!code)
		list->bytes[list->size++] = key->is_descending ? (uint8_t)~0 : 0;
	return code;
}

/* Class and value of a row of an array. */
static int push_nested(struct weir_key_list *list, const struct weir_key *key, const struct weir_array *array,
		       int64_t row, struct weir_error *err)
{
	const struct weir_type *type = array->type;
	int64_t place = array->offset + row, begin, end;
	bool is_valid = type->layout != WEIR_LAYOUT_NULL &&
			(!array->buffers[0].data || weir_bit_get(array->buffers[0].data, place));
	uint32_t width;
	int code;

	if (array->dictionary && is_valid)
		return push_nested(list, key, array->dictionary, weir_array_code(array, place), err);
	type = weir_type_values(type);
	width = value_width(type);
	code = reserve_bytes(list, 1 + width, err);
	if (code)
		return code;
	if (type->layout != WEIR_LAYOUT_BYTES && type->layout != WEIR_LAYOUT_NESTED) {
		put_value(type, key, is_valid, array->buffers[1].data, (uint64_t)place, width,
			  list->bytes + list->size);
		list->size += 1 + width;
		return WEIR_OK;
	}
	list->bytes[list->size++] = is_valid ? CLASS_VALUE : CLASS_NULL;
	if (!is_valid)
		return WEIR_OK;
	if (type->layout == WEIR_LAYOUT_BYTES) {
		const void *offsets = array->buffers[1].data;

		begin = has_large_offsets(type) ? ((const int64_t *)offsets)[place] : ((const int32_t *)offsets)[place];
		end = has_large_offsets(type) ? ((const int64_t *)offsets)[place + 1]
					      : ((const int32_t *)offsets)[place + 1];
		return push_bytes(list, key->is_descending, array->buffers[2].data + begin, (size_t)(end - begin), err);
	}
	if (type->id != WEIR_STRUCT)
		return push_items(list, key, array, place, err);
	for (uint32_t i = 0; i < array->child_count && !code; i++)
		code = push_nested(list, key, array->children[i], place, err);
	return code;
}

static int push_struct(struct weir_key_list *list, const struct weir_key *key, const struct values *values,
		       uint32_t row, struct weir_error *err)
{
	const struct weir_column *column = values->column;
	bool is_shared = column->form == WEIR_DICTIONARY;

	if (weir_column_valid(column, row))
		return push_nested(list, key, is_shared ? column->dictionary->nested : column->nested,
				   (is_shared ? 0 : column->nested_offset) + place_of(values, row), err);
	if (reserve_bytes(list, 1, err))
		return err->code;
	list->bytes[list->size++] = CLASS_NULL;
	return WEIR_OK;
}

static int push_row(struct weir_key_list *list, const struct weir_key_columns *columns,
		    const struct weir_vector *vector, uint32_t row, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t k = 0; k < columns->count && !code; k++) {
		const struct weir_key *key = &columns->keys[k];
		struct values values = values_of(&vector->columns[key->column]);
		uint32_t width = value_width(key->type);
		const struct weir_view *view;

		if (key->type->layout == WEIR_LAYOUT_NESTED) {
			code = push_struct(list, key, &values, row, err);
			continue;
		}
		if (key->type->layout != WEIR_LAYOUT_BYTES) {
			code = reserve_bytes(list, 1 + width, err);
			if (!code)
				put_fixed(key, &values, row, width, list->bytes + list->size);
			list->size += code ? 0 : 1 + width;
			continue;
		}
		code = reserve_bytes(list, 1, err);
		if (code)
			break;
		if (!weir_column_valid(values.column, row)) {
			list->bytes[list->size++] = CLASS_NULL;
			continue;
		}
		list->bytes[list->size++] = CLASS_VALUE;
		view = (const struct weir_view *)values.values + place_of(&values, row);
		code = push_bytes(list, key->is_descending, weir_view_bytes(view), view->size, err);
	}
	return code;
}

int weir_key_list_push(struct weir_key_list *list, const struct weir_key_columns *columns, struct weir_vector *vector,
		       struct weir_error *err)
{
	size_t count = list->count;
	int code = WEIR_OK;

	for (uint32_t k = 0; k < columns->count && !code; k++)
		code = weir_column_decode(vector, columns->keys[k].column, err);
	if (code)
		return code;
	if (list->width)
		return push_fixed(list, columns, vector, err);
	code = reserve_rows(list, vector->selection.count, err);
	if (!code)
		code = reserve_bytes(list, 1, err); /* keys of no columns have none, but lie somewhere all the same */
	for (uint32_t i = 0; i < vector->selection.count && !code; i++) {
		code = push_row(list, columns, vector, row_of(&vector->selection, i), err);
		if (!code)
			list->ends[list->count++] = list->size;
	}
	if (code)
		weir_key_list_cut(list, count);
	return code;
}

/* Where the pair of a type ends that begins at `at`, or beyond `size` where the key was cut within it. */
static uint32_t pair_end(const struct weir_type *type, bool is_descending, const uint8_t *key, uint32_t size,
			 uint32_t at)
{
	const uint8_t zero = is_descending ? 0xff : 0;

	type = weir_type_values(type);
	if (at >= size)
		return size;
	if (type->layout != WEIR_LAYOUT_BYTES && type->layout != WEIR_LAYOUT_NESTED)
		return at + 1 + value_width(type);
	if (key[at++] == CLASS_NULL)
		return at;
	for (uint32_t i = 0; i < type->field_count; i++)
		at = pair_end(type->fields[i].type, is_descending, key, size, at);
	if (type->layout == WEIR_LAYOUT_NESTED)
		return at;
	/* A zero that is a value's own has another byte behind it than the last one has. */
	while (at + 1 < size && (key[at] != zero || key[at + 1] != zero))
		at += key[at] == zero ? 2 : 1;
	return at + 2;
}

uint32_t weir_key_beginning(const struct weir_key_columns *columns, uint32_t count, const uint8_t *key, uint32_t size)
{
	uint32_t at = 0;

	for (uint32_t k = 0; k < count; k++)
		at = pair_end(columns->keys[k].type, columns->keys[k].is_descending, key, size, at);
	return at < size ? at : size;
}
