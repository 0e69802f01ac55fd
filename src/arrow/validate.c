/* Validation: after it, every loop over the array may trust its offsets, codes and lengths.
 *
 * The array is walked once, children whole (also rows that no parent row uses: they may be shared). The path to the
 * place is kept on the stack as a chain of names and written out only when something is wrong.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "arrow/arrow_impl.h"

#include <stdarg.h>
#include <stdio.h>

struct place {
	const struct place *parent;
	const char *name;
};

static size_t write_path(const struct place *place, char *buffer, size_t size)
{
	size_t used = place->parent ? write_path(place->parent, buffer, size) : 0;
	int more;

	if (!place->name || used >= size)
		return used;
	more = snprintf(buffer + used, size - used, "%s%s", used ? "." : "", place->name);
	return used + (size_t)(more > 0 ? more : 0);
}

static int fail(const struct place *place, int64_t row, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(const struct place *place, int64_t row, struct weir_error *err, const char *format, ...)
{
	char message[256], path[sizeof(err->column)] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	weir_error_set(err, WEIR_E_DATA, "%s", message);
	write_path(place, path, sizeof(path));
	if (*path)
		weir_error_at_column(err, path);
	if (row >= 0)
		weir_error_at_row(err, row);
	return WEIR_E_DATA;
}

static int check_buffer(const struct weir_array *array, int at, uint64_t need, size_t align, const struct place *place,
			struct weir_error *err)
{
	static const char *const names[] = {"validity bitmap", "values or offsets", "bytes"};
	const struct weir_buffer *buffer = &array->buffers[at];

	if (buffer->size < need || (!buffer->data && need))
		return fail(place, -1, err, "the %s of a %s array of %lld rows need %llu bytes, but there are %llu",
			    names[at], type_words[array->type->id], (long long)array->length, (unsigned long long)need,
			    (unsigned long long)(buffer->data ? buffer->size : 0));
	if ((uintptr_t)buffer->data % align)
		return fail(place, -1, err, "the %s of a %s array are not aligned to %zu bytes", names[at],
			    type_words[array->type->id], align);
	return WEIR_OK;
}

static int check_validity(const struct weir_array *array, int64_t end, const struct place *place,
			  struct weir_error *err)
{
	int64_t nulls;

	if (!array->buffers[0].data)
		return array->null_count > 0 ? fail(place, -1, err, "%lld nulls, but no validity bitmap",
						    (long long)array->null_count)
					     : WEIR_OK;
	if (check_buffer(array, 0, weir_bits_size(end), 1, place, err))
		return err->code;
	if (array->null_count < 0)
		return WEIR_OK;
	nulls = array->length - weir_bits_count(array->buffers[0].data, array->offset, array->length);
	if (nulls != array->null_count)
		return fail(place, -1, err, "the array says that it has %lld nulls, but it has %lld",
			    (long long)array->null_count, (long long)nulls);
	return WEIR_OK;
}

/* Ascending from 0 or more to at most `limit`. The first loop only finds that something is wrong, without a branch. */
#define CHECK_OFFSETS(NAME, TYPE)                                                                                      \
	static int NAME(const TYPE *offsets, int64_t count, int64_t limit, const struct place *place,                  \
			struct weir_error *err)                                                                        \
	{                                                                                                              \
		bool wrong = offsets[0] < 0 || offsets[count] > limit;                                                 \
                                                                                                                       \
		for (int64_t i = 0; i < count; i++)                                                                    \
			wrong |= offsets[i + 1] < offsets[i];                                                          \
		if (!wrong)                                                                                            \
			return WEIR_OK;                                                                                \
		for (int64_t i = 0; i < count; i++)                                                                    \
			if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > limit)                   \
				return fail(place, i, err, "offsets %lld to %lld do not lie within 0 to %lld",         \
					    (long long)offsets[i], (long long)offsets[i + 1], (long long)limit);       \
		return fail(place, -1, err, "offset %lld does not lie within 0 to %lld", (long long)offsets[0],        \
			    (long long)limit);                                                                         \
	}
CHECK_OFFSETS(check_offsets32, int32_t)
CHECK_OFFSETS(check_offsets64, int64_t)

static int check_offsets(const struct weir_array *array, int64_t end, int64_t limit, const struct place *place,
			 struct weir_error *err)
{
	unsigned width = type_offset_width(array->type);
	uint64_t need;

	if (weir_mul_overflows((uint64_t)end + 1, width, &need))
		return fail(place, -1, err, "%lld rows are too many", (long long)end);
	if (check_buffer(array, 1, need, width, place, err))
		return err->code;
	return width == 4 ? check_offsets32((const int32_t *)array->buffers[1].data + array->offset, array->length,
					    limit, place, err)
			  : check_offsets64((const int64_t *)array->buffers[1].data + array->offset, array->length,
					    limit, place, err);
}

#define CHECK_CODES(NAME, TYPE)                                                                                        \
	static int NAME(const TYPE *codes, int64_t first, int64_t count, uint64_t value_count,                         \
			const struct place *place, struct weir_error *err)                                             \
	{                                                                                                              \
		bool wrong = false;                                                                                    \
                                                                                                                       \
		for (int64_t i = 0; i < count; i++)                                                                    \
			wrong |= codes[i] >= value_count;                                                              \
		for (int64_t i = 0; wrong && i < count; i++)                                                           \
			if (codes[i] >= value_count)                                                                   \
				return fail(place, first + i, err, "a code outside the dictionary of %llu values",     \
					    (unsigned long long)value_count);                                          \
		return WEIR_OK;                                                                                        \
	}
/* A negative code read without its sign is larger than any dictionary. */
CHECK_CODES(check_codes8, uint8_t)
CHECK_CODES(check_codes16, uint16_t)
CHECK_CODES(check_codes32, uint32_t)
CHECK_CODES(check_codes64, uint64_t)

static int check_codes(const struct weir_array *array, const struct place *place, struct weir_error *err)
{
	const struct weir_type *index = array->type->dictionary_index;
	const uint8_t *validity = array->null_count == 0 ? NULL : array->buffers[0].data,
		      *codes = array->buffers[1].data;
	uint64_t limit = (uint64_t)array->dictionary->length;
	int64_t at = 0, run;

	/* Only an array's valid rows need a code that means something. int8 −1 must not pass as 255. */
	if (weir_type_is_signed(index) && index->byte_width < 8) {
		uint64_t positive = UINT64_C(1) << (index->byte_width * 8 - 1);

		limit = limit < positive ? limit : positive;
	}
	for (; (run = weir_bits_run(validity, array->offset, &at, array->length)) > 0; at += run) {
		int64_t row = array->offset + at;
		int code;

		switch (index->byte_width) {
		case 1:
			code = check_codes8(codes + row, at, run, limit, place, err);
			break;
		case 2:
			code = check_codes16((const uint16_t *)codes + row, at, run, limit, place, err);
			break;
		case 4:
			code = check_codes32((const uint32_t *)codes + row, at, run, limit, place, err);
			break;
		default:
			code = check_codes64((const uint64_t *)codes + row, at, run, limit, place, err);
			break;
		}
		if (code)
			return code;
	}
	return WEIR_OK;
}

/* The bytes as a whole, then that no value begins inside a character. When that fails it may be the fault of bytes
 * under a null, which mean nothing: then row by row. */
static int check_text(const struct weir_array *array, const struct place *place, struct weir_error *err)
{
	const uint8_t *bytes = array->buffers[2].data, *validity = array->buffers[0].data;
	int64_t begin = offset_at(array, array->offset), end = offset_at(array, array->offset + array->length);
	bool whole = weir_utf8_valid(bytes + begin, (size_t)(end - begin));

	if (whole && type_offset_width(array->type) == 4) {
		const int32_t *offsets = (const int32_t *)array->buffers[1].data + array->offset;

		for (int64_t i = 0; i < array->length; i++)
			whole &= offsets[i] == end || (bytes[offsets[i]] & 0xc0) != 0x80;
	} else if (whole) {
		const int64_t *offsets = (const int64_t *)array->buffers[1].data + array->offset;

		for (int64_t i = 0; i < array->length; i++)
			whole &= offsets[i] == end || (bytes[offsets[i]] & 0xc0) != 0x80;
	}
	for (int64_t i = 0; !whole && i < array->length; i++) {
		int64_t row = array->offset + i, from = offset_at(array, row);

		if (validity && !weir_bit_get(validity, row))
			continue;
		if (!weir_utf8_valid(bytes + from, (size_t)(offset_at(array, row + 1) - from)))
			return fail(place, i, err, "a %s value is not valid UTF-8", type_words[array->type->id]);
	}
	return WEIR_OK;
}

static int check_array(const struct weir_array *array, unsigned what, const struct place *place,
		       struct weir_error *err);

static int check_children(const struct weir_array *array, int64_t end, unsigned what, const struct place *place,
			  struct weir_error *err)
{
	const struct weir_type *type = array->type;

	if (array->child_count != type->field_count)
		return fail(place, -1, err, "%u children where the type has %u", array->child_count, type->field_count);
	for (uint32_t i = 0; i < array->child_count; i++) {
		const struct weir_array *child = array->children[i];
		struct place below = {.parent = place, .name = type->fields[i].name};
		int64_t need = type->id == WEIR_STRUCT ? end : 0;

		if (!child)
			return fail(&below, -1, err, "an array without its child");
		if (type->id == WEIR_FIXED_LIST && weir_mul_overflows(end, type->list_size, &need))
			return fail(place, -1, err, "%lld rows are too many", (long long)end);
		if (!weir_type_equal(child->type, type->fields[i].type, false))
			return fail(&below, -1, err, "a child's type differs from its parent's");
		if (child->length < need)
			return fail(&below, -1, err, "%lld rows where the parent needs %lld", (long long)child->length,
				    (long long)need);
		if (check_array(child, what, &below, err))
			return err->code;
	}
	return WEIR_OK;
}

static size_t alignment_of(const struct weir_type *type)
{
	if (type->id == WEIR_FIXED_BINARY)
		return 1;
	return type->byte_width < 8 ? type->byte_width : 8;
}

static int check_values(const struct weir_array *array, int64_t end, unsigned what, const struct place *place,
			struct weir_error *err)
{
	const struct weir_type *type = array->type;
	uint64_t need;

	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return WEIR_OK;
	case WEIR_LAYOUT_BITS:
		return check_buffer(array, 1, weir_bits_size(end), 1, place, err);
	case WEIR_LAYOUT_FIXED:
		if (weir_mul_overflows((uint64_t)end, type->byte_width, &need))
			return fail(place, -1, err, "%lld rows are too many", (long long)end);
		return check_buffer(array, 1, need, alignment_of(type), place, err);
	case WEIR_LAYOUT_BYTES:
		if (check_offsets(array, end,
				  array->buffers[2].size < INT64_MAX ? (int64_t)array->buffers[2].size : INT64_MAX,
				  place, err) ||
		    check_buffer(array, 2, (uint64_t)offset_at(array, end), 1, place, err))
			return err->code;
		return what & VALIDATE_DEEP && weir_type_is_text(type) ? check_text(array, place, err) : WEIR_OK;
	case WEIR_LAYOUT_NESTED:
		if (check_children(array, end, what, place, err))
			return err->code;
		return type_offset_width(type) ? check_offsets(array, end, array->children[0]->length, place, err)
					       : WEIR_OK;
	}
	return WEIR_OK;
}

static int check_array(const struct weir_array *array, unsigned what, const struct place *place, struct weir_error *err)
{
	int64_t end;

	if (array->length < 0 || array->offset < 0 || weir_add_overflows(array->offset, array->length, &end) ||
	    end == INT64_MAX)
		return fail(place, -1, err, "an array cannot have %lld rows from row %lld on", (long long)array->length,
			    (long long)array->offset);
	if (array->null_count < -1 || array->null_count > array->length)
		return fail(place, -1, err, "%lld nulls in %lld rows", (long long)array->null_count,
			    (long long)array->length);
	if (array->type->layout != WEIR_LAYOUT_NULL && check_validity(array, end, place, err))
		return err->code;
	if (check_values(array, end, what, place, err))
		return err->code;
	if (array->type->id != WEIR_DICTIONARY_TYPE)
		return WEIR_OK;
	if (!array->dictionary || !weir_type_equal(array->dictionary->type, array->type->dictionary_value, false))
		return fail(place, -1, err, "a dictionary array without the values of its type");
	if (what & VALIDATE_DICTIONARIES && check_array(array->dictionary, what, place, err))
		return err->code;
	return check_codes(array, place, err);
}

int weir_array_validate(const struct weir_array *array, bool deep, struct weir_error *err)
{
	struct place top = {0};

	return check_array(array, VALIDATE_DICTIONARIES | (deep ? VALIDATE_DEEP : 0), &top, err);
}

int array_validate_column(const struct weir_array *array, const char *name, unsigned what, struct weir_error *err)
{
	struct place top = {.name = name};

	return check_array(array, what, &top, err);
}
