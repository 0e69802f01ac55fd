/* Equality: same nulls, and the same values where there are no nulls.
 *
 * A range is compared by its validity first, then run by run of valid rows, each run in one typed loop; what lies under
 * a null is never looked at. */
#include "arrow/arrow_impl.h"

struct compare {
	bool nan_equal;
};

static bool ranges_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			 const struct weir_array *b, int64_t b_row, int64_t count);

/* A half's bits are not a number that C compares; its zero has two signs and its NaN many forms. */
static bool halves_equal(const uint16_t *a, const uint16_t *b, int64_t count, bool nan_equal)
{
	for (int64_t i = 0; i < count; i++) {
		bool a_nan = (a[i] & 0x7fff) > 0x7c00, b_nan = (b[i] & 0x7fff) > 0x7c00;
		bool zeros = !((a[i] | b[i]) & 0x7fff);

		if (a_nan || b_nan ? !(a_nan && b_nan && nan_equal) : a[i] != b[i] && !zeros)
			return false;
	}
	return true;
}

#define FLOATS_EQUAL(NAME, TYPE)                                                                                       \
	static bool NAME(const TYPE *a, const TYPE *b, int64_t count, bool nan_equal)                                  \
	{                                                                                                              \
		bool equal = true;                                                                                     \
                                                                                                                       \
		for (int64_t i = 0; i < count; i++)                                                                    \
			equal &= a[i] == b[i] || (nan_equal && a[i] != a[i] && b[i] != b[i]);                          \
		return equal;                                                                                          \
	}
FLOATS_EQUAL(floats_equal, float)
FLOATS_EQUAL(doubles_equal, double)

static bool fixed_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			const struct weir_array *b, int64_t b_row, int64_t count)
{
	size_t width = a->type->byte_width;
	const uint8_t *x = a->buffers[1].data + (size_t)a_row * width, *y = b->buffers[1].data + (size_t)b_row * width;

	switch (a->type->id) {
	case WEIR_HALF:
		return halves_equal((const uint16_t *)x, (const uint16_t *)y, count, how->nan_equal);
	case WEIR_FLOAT:
		return floats_equal((const float *)x, (const float *)y, count, how->nan_equal);
	case WEIR_DOUBLE:
		return doubles_equal((const double *)x, (const double *)y, count, how->nan_equal);
	default:
		return !width || !memcmp(x, y, width * (size_t)count);
	}
}

#define LENGTHS_EQUAL(NAME, TYPE)                                                                                      \
	static bool NAME(const TYPE *a, const TYPE *b, int64_t count)                                                  \
	{                                                                                                              \
		TYPE difference = 0;                                                                                   \
                                                                                                                       \
		for (int64_t i = 0; i < count; i++)                                                                    \
			difference |= (TYPE)((a[i + 1] - a[i]) ^ (b[i + 1] - b[i]));                                   \
		return !difference;                                                                                    \
	}
LENGTHS_EQUAL(lengths32_equal, int32_t)
LENGTHS_EQUAL(lengths64_equal, int64_t)

/* Strings and lists: the same lengths, and then the same items in one stretch. */
static bool variable_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			   const struct weir_array *b, int64_t b_row, int64_t count)
{
	int64_t a_begin = offset_at(a, a_row), b_begin = offset_at(b, b_row);
	int64_t size = offset_at(a, a_row + count) - a_begin;
	const uint8_t *x = a->buffers[1].data, *y = b->buffers[1].data;

	if (type_offset_width(a->type) == 4
		    ? !lengths32_equal((const int32_t *)x + a_row, (const int32_t *)y + b_row, count)
		    : !lengths64_equal((const int64_t *)x + a_row, (const int64_t *)y + b_row, count))
		return false;
	if (a->type->layout == WEIR_LAYOUT_BYTES)
		return !size || !memcmp(a->buffers[2].data + a_begin, b->buffers[2].data + b_begin, (size_t)size);
	return ranges_equal(how, a->children[0], a_begin, b->children[0], b_begin, size);
}

static bool dictionaries_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			       const struct weir_array *b, int64_t b_row, int64_t count)
{
	const struct weir_array *x = a->dictionary, *y = b->dictionary;

	bool reflexive = how->nan_equal || !(weir_type_is_float(x->type) || weir_type_is_nested(x->type));

	if (x == y && reflexive && fixed_equal(how, a, a_row, b, b_row, count))
		return true;
	/* Other codes may mean the same values. */
	for (int64_t i = 0; i < count; i++)
		if (!ranges_equal(how, x, weir_array_code(a, a_row + i), y, weir_array_code(b, b_row + i), 1))
			return false;
	return true;
}

static bool is_null(const struct weir_array *array, int64_t row)
{
	return (array->buffers[0].data && !weir_bit_get(array->buffers[0].data, row)) ||
	       !weir_array_is_valid(array->dictionary, weir_array_code(array, row));
}

/* A row is null by its own bit or by the value that its code means; both say the same. */
static bool null_values_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			      const struct weir_array *b, int64_t b_row, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		bool null = is_null(a, a_row + i);

		if (null != is_null(b, b_row + i) ||
		    (!null && !ranges_equal(how, a->dictionary, weir_array_code(a, a_row + i), b->dictionary,
					    weir_array_code(b, b_row + i), 1)))
			return false;
	}
	return true;
}

/* All rows are valid; rows count from the start of the buffers. */
static bool runs_equal(const struct compare *how, const struct weir_array *a, int64_t a_row, const struct weir_array *b,
		       int64_t b_row, int64_t count)
{
	const struct weir_type *type = a->type;

	if (type->id == WEIR_DICTIONARY_TYPE)
		return dictionaries_equal(how, a, a_row, b, b_row, count);
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return true;
	case WEIR_LAYOUT_BITS:
		return weir_bits_equal(a->buffers[1].data, a_row, b->buffers[1].data, b_row, count);
	case WEIR_LAYOUT_FIXED:
		return fixed_equal(how, a, a_row, b, b_row, count);
	case WEIR_LAYOUT_BYTES:
		return variable_equal(how, a, a_row, b, b_row, count);
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (type->id == WEIR_STRUCT || type->id == WEIR_FIXED_LIST) {
		int64_t each = type->id == WEIR_STRUCT ? 1 : type->list_size;

		for (uint32_t i = 0; i < a->child_count; i++)
			if (!ranges_equal(how, a->children[i], a_row * each, b->children[i], b_row * each,
					  count * each))
				return false;
		return true;
	}
	return variable_equal(how, a, a_row, b, b_row, count);
}

static const uint8_t *validity_of(const struct weir_array *array, int64_t row, int64_t count)
{
	const uint8_t *bits = array->buffers[0].data;

	return bits && array->null_count != 0 && weir_bits_count(bits, row, count) < count ? bits : NULL;
}

/* Rows count from the arrays' offsets. */
static bool ranges_equal(const struct compare *how, const struct weir_array *a, int64_t a_row,
			 const struct weir_array *b, int64_t b_row, int64_t count)
{
	const uint8_t *a_bits, *b_bits;
	int64_t at = 0, run;

	a_row += a->offset;
	b_row += b->offset;
	if (!count || a->type->layout == WEIR_LAYOUT_NULL)
		return true;
	if (a->type->id == WEIR_DICTIONARY_TYPE &&
	    (weir_array_null_count(a->dictionary) || weir_array_null_count(b->dictionary)))
		return null_values_equal(how, a, a_row, b, b_row, count);
	a_bits = validity_of(a, a_row, count);
	b_bits = validity_of(b, b_row, count);
	if (!a_bits != !b_bits || (a_bits && !weir_bits_equal(a_bits, a_row, b_bits, b_row, count)))
		return false;
	for (; (run = weir_bits_run(a_bits, a_row, &at, count)) > 0; at += run)
		if (!runs_equal(how, a, a_row + at, b, b_row + at, run))
			return false;
	return true;
}

bool weir_array_equal(const struct weir_array *a, const struct weir_array *b, bool nan_equal)
{
	struct compare how = {.nan_equal = nan_equal};

	if (a == b && nan_equal)
		return true;
	return a->length == b->length && weir_type_equal(a->type, b->type, false) &&
	       ranges_equal(&how, a, 0, b, 0, a->length);
}
