/* gather: vectors go in, one growing batch comes out.
 *
 * Each column grows buffers of its own, doubling: validity bits (made only once a null is seen), then values, bits or
 * offsets, then the bytes of strings: the one copy that a value sees on its way. Nested columns grow in a builder, run
 * of rows after run of rows. A column of DICTIONARY_TYPE grows codes and the distinct values met so far; codes of a
 * vector's dictionary are mapped through a table kept as long as its id stays the same.
 *
 * Lists of one length of fixed-width values grow as if each list were one wide value, and move into a builder when the
 * first null comes. For them and for fixed-width columns a reader may write straight into the growing memory
 * (decode_to), which may be that of a chunk (place): then a value is copied once on its way from the file to where it
 * stays.
 *
 * Threads: one at a time.
 */
#include "base/checked.h"
#include "vector/distinct_impl.h"
#include "vector/kernels.h"

#include <string.h>

struct growing {
	uint8_t *data;
	size_t size, capacity;
	bool is_placed; /* somebody else's memory */
};

struct gather_column {
	const struct weir_type *type; /* borrowed from the schema */
	const struct weir_type *value_type;
	struct growing validity, values, bytes;
	int64_t null_count;
	bool has_validity;
	struct weir_builder nested;
	bool in_builder; /* lists of one length: a null came */
	uint64_t row_bytes;
	struct weir_distinct distinct; /* DICTIONARY_TYPE */
};

struct weir_gather {
	struct weir_account *account;
	struct weir_schema *schema;
	int64_t row_count, rows_expected;
	size_t bytes_expected;
	struct gather_column *columns;
};

/* Gathered rows of this many bytes are a sign that those expected will come. A few do not say how long the others
 * are. */
enum { EXPECT_BYTES = 64 << 10, EXPECT_ROWS = 16 };

static int grow(struct weir_gather *gather, struct growing *buffer, size_t size, struct weir_error *err)
{
	size_t capacity;
	uint8_t *data;

	if (size <= buffer->capacity)
		return WEIR_OK;
	capacity = buffer->capacity * 2 > size ? buffer->capacity * 2 : size;
	capacity = weir_round_up(capacity < 256 ? 256 : capacity, 64);
	if (buffer->is_placed) {
		data = weir_alloc(gather->account, capacity, err);
		if (data)
			memcpy(data, buffer->data, buffer->size);
	} else {
		data = weir_realloc(gather->account, buffer->data, buffer->capacity, capacity, err);
	}
	if (!data)
		return err->code;
	buffer->is_placed = false;
	buffer->data = data;
	buffer->capacity = capacity;
	return WEIR_OK;
}

static void growing_release(struct weir_gather *gather, struct growing *buffer)
{
	if (!buffer->is_placed)
		weir_free(gather->account, buffer->data, buffer->capacity);
	*buffer = (struct growing){0};
}

/* Room for `count` more rows of a column that has row_bytes, or for all that are expected. */
static int grow_rows(struct weir_gather *gather, struct gather_column *it, uint32_t count, struct weir_error *err)
{
	size_t size = it->values.size + (size_t)it->row_bytes * count, expected;

	if (size > it->values.capacity && size >= EXPECT_BYTES &&
	    !weir_mul_overflows((size_t)gather->rows_expected, (size_t)it->row_bytes, &expected) && expected > size &&
	    expected <= PTRDIFF_MAX / 2)
		size = expected;
	return grow(gather, &it->values, size, err);
}

/* So many bytes of values whose rows are as long as those before them, or what all rows that are expected would need
 * then. */
static size_t expected_bytes(const struct weir_gather *gather, const struct growing *buffer, size_t size)
{
	size_t expected;

	if (size <= buffer->capacity || size < EXPECT_BYTES || gather->row_count < EXPECT_ROWS ||
	    weir_mul_overflows(buffer->size / (size_t)gather->row_count + 1, (size_t)gather->rows_expected,
			       &expected) ||
	    expected > PTRDIFF_MAX / 2)
		return size;
	expected = expected < gather->bytes_expected ? expected : gather->bytes_expected;
	return expected > size ? expected : size;
}

/* Puts `count` bits at bit position `at` of the buffer, whose bits past `at` are then unspecified but in its
 * capacity. */
static int bits_append(struct weir_gather *gather, struct growing *buffer, int64_t at, const uint64_t *bits,
		       uint32_t count, struct weir_error *err)
{
	size_t words = ((size_t)at + count + 63) / 64;
	uint32_t shift = (uint32_t)(at & 63);
	uint64_t *out;
	int code = grow(gather, buffer, (words + 1) * 8, err);

	if (code || !count)
		return code;
	out = (uint64_t *)buffer->data + at / 64;
	if (!shift) {
		memcpy(out, bits, WEIR_BIT_WORDS(count) * 8);
	} else {
		uint64_t carry = *out & (((uint64_t)1 << shift) - 1);

		for (uint32_t i = 0; i < WEIR_BIT_WORDS(count); i++) {
			out[i] = carry | bits[i] << shift;
			carry = bits[i] >> (64 - shift);
		}
		/* There is a spare word, so this one is inside. */
		out[WEIR_BIT_WORDS(count)] = carry;
	}
	buffer->size = ((size_t)at + count + 7) / 8;
	return WEIR_OK;
}

static int64_t bits_count(const uint64_t *bits, uint32_t count)
{
	int64_t set = 0;
	uint32_t i = 0;

	for (; i < count / 64; i++)
		set += __builtin_popcountll(bits[i]);
	if (count % 64)
		set += __builtin_popcountll(bits[i] & (((uint64_t)1 << count % 64) - 1));
	return set;
}

static void bits_fill(uint64_t *bits, uint32_t count, bool value)
{
	memset(bits, value ? 0xff : 0, WEIR_BIT_WORDS(count) * 8);
}

/* The validity of the selected rows, dense, in `scratch`; false when all are present. */
static bool validity_of(const struct weir_column *column, const struct weir_selection *selection, uint64_t *scratch)
{
	if (!column->validity)
		return false;
	if (column->form == WEIR_CONSTANT) {
		if (*column->validity & 1)
			return false;
		bits_fill(scratch, selection->count, false);
		return true;
	}
	if (selection->rows)
		weir_vector_kernels()->gather_bits(scratch, column->validity, selection->rows, selection->count);
	else
		memcpy(scratch, column->validity, WEIR_BIT_WORDS(selection->count) * 8);
	return bits_count(scratch, selection->count) != selection->count;
}

static int validity_append(struct weir_gather *gather, struct gather_column *it, int64_t at, const uint64_t *valid,
			   uint32_t count, struct weir_error *err)
{
	uint64_t ones[WEIR_VECTOR_ROWS / 64];
	int code = WEIR_OK;

	if (!valid && !it->has_validity)
		return WEIR_OK;
	if (!it->has_validity) {
		size_t size = ((size_t)at + 63) / 64 * 8;

		code = grow(gather, &it->validity, size + 8, err);
		if (code)
			return code;
		memset(it->validity.data, 0xff, size);
		it->has_validity = true;
	}
	if (!valid) {
		bits_fill(ones, count, true);
		valid = ones;
	} else {
		it->null_count += count - bits_count(valid, count);
	}
	return bits_append(gather, &it->validity, at, valid, count, err);
}

static int push_fixed(struct weir_gather *gather, struct gather_column *it, const struct weir_column *column,
		      const struct weir_selection *selection, struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	size_t width = it->value_type->byte_width, size = width * selection->count;
	bool is_power = width && !(width & (width - 1)) && width <= 32;
	uint32_t log2 = is_power ? (uint32_t)__builtin_ctz((unsigned)width) : 0;
	const uint8_t *values = column->values;
	const uint32_t *codes = column->values;
	uint8_t *out;
	int code = grow_rows(gather, it, selection->count, err);

	if (code)
		return code;
	out = it->values.data + it->values.size;
	it->values.size += size;
	if (column->form == WEIR_FLAT && !selection->rows) {
		if (size)
			memcpy(out, values, size);
	} else if (column->form == WEIR_FLAT && is_power) {
		kernels->gather[log2](out, values, selection->rows, selection->count);
	} else if (column->form == WEIR_FLAT) {
		for (uint32_t k = 0; k < selection->count; k++)
			memcpy(out + k * width, values + selection->rows[k] * width, width);
	} else if (column->form == WEIR_CONSTANT || !column->dictionary->count) {
		bool valid = column->form == WEIR_CONSTANT && weir_column_valid(column, 0);

		for (uint32_t k = 0; k < selection->count; k++) {
			if (valid)
				memcpy(out + k * width, values, width);
			else
				memset(out + k * width, 0, width);
		}
	} else if (!selection->rows && is_power) {
		kernels->lookup[log2](out, column->dictionary->values, codes, selection->count);
	} else {
		values = column->dictionary->values;
		for (uint32_t k = 0; k < selection->count; k++) {
			uint32_t row = selection->rows ? selection->rows[k] : k;

			memcpy(out + k * width, values + codes[row] * width, width);
		}
	}
	return WEIR_OK;
}

static int push_bits(struct weir_gather *gather, struct gather_column *it, int64_t at, const struct weir_column *column,
		     const struct weir_selection *selection, struct weir_error *err)
{
	uint64_t scratch[WEIR_VECTOR_ROWS / 64];
	const uint64_t *bits = column->values;

	if (column->form == WEIR_CONSTANT || (column->form == WEIR_DICTIONARY && !column->dictionary->count)) {
		bits_fill(scratch, selection->count,
			  column->form == WEIR_CONSTANT && weir_column_valid(column, 0) && *bits & 1);
		bits = scratch;
	} else if (column->form == WEIR_DICTIONARY) {
		const uint32_t *codes = column->values;

		bits_fill(scratch, selection->count, false);
		bits = column->dictionary->values;
		for (uint32_t k = 0; k < selection->count; k++) {
			uint32_t code = codes[selection->rows ? selection->rows[k] : k];

			scratch[k >> 6] |= (bits[code >> 6] >> (code & 63) & 1) << (k & 63);
		}
		bits = scratch;
	} else if (selection->rows) {
		weir_vector_kernels()->gather_bits(scratch, bits, selection->rows, selection->count);
		bits = scratch;
	}
	return bits_append(gather, &it->values, at, bits, selection->count, err);
}

static inline const struct weir_view *view_at(const struct weir_column *column, uint32_t row)
{
	const struct weir_view *views = column->values;

	switch (column->form) {
	case WEIR_CONSTANT:
		return views;
	case WEIR_DICTIONARY:
		return (const struct weir_view *)column->dictionary->values + ((const uint32_t *)column->values)[row];
	default:
		return views + row;
	}
}

static int push_bytes(struct weir_gather *gather, struct gather_column *it, const struct weir_column *column,
		      const struct weir_selection *selection, const uint64_t *valid, struct weir_error *err)
{
	bool is_large = it->value_type->id == WEIR_LARGE_STRING || it->value_type->id == WEIR_LARGE_BINARY;
	size_t width = is_large ? 8 : 4, total = 0, at = it->bytes.size;
	uint32_t count = selection->count;
	int code = grow(gather, &it->values, expected_bytes(gather, &it->values, it->values.size + (count + 1) * width),
			err);

	if (code)
		return code;
	if (!it->values.size) {
		memset(it->values.data, 0, width);
		it->values.size = width;
	}
	for (uint32_t k = 0; k < count; k++) {
		if (!valid || valid[k >> 6] >> (k & 63) & 1)
			total += view_at(column, selection->rows ? selection->rows[k] : k)->size;
	}
	if (!is_large && at + total > INT32_MAX)
		return weir_error_set(err, WEIR_E_LIMIT, "more than 2 GiB of text in one batch need large_%s",
				      weir_type_is_text(it->value_type) ? "string" : "binary");
	/* Short values are written as sixteen bytes at once: leave room for the last one to run over. */
	code = grow(gather, &it->bytes, expected_bytes(gather, &it->bytes, at + total + 16), err);
	if (code)
		return code;
	for (uint32_t k = 0; k < count; k++) {
		if (!valid || valid[k >> 6] >> (k & 63) & 1) {
			const struct weir_view *view = view_at(column, selection->rows ? selection->rows[k] : k);

			if (view->size <= WEIR_VIEW_INLINE)
				memcpy(it->bytes.data + at, view->prefix, WEIR_VIEW_INLINE);
			else
				memcpy(it->bytes.data + at, view->data, view->size);
			at += view->size;
		}
		if (is_large)
			((int64_t *)(it->values.data + it->values.size))[k] = (int64_t)at;
		else
			((int32_t *)(it->values.data + it->values.size))[k] = (int32_t)at;
	}
	it->values.size += count * width;
	it->bytes.size = at;
	return WEIR_OK;
}

static bool may_have_nulls(const struct weir_array *array)
{
	return array->buffers[0].data && array->null_count != 0;
}

/* Lists of one length without nulls, as wide values. *done false: a null is among them, and nothing was pushed. */
static int push_lists(struct weir_gather *gather, struct gather_column *it, const struct weir_column *column,
		      const struct weir_selection *selection, bool *done, struct weir_error *err)
{
	const struct weir_array *lists = column->nested, *items = lists ? lists->children[0] : NULL;
	int64_t size = it->type->list_size;
	const uint8_t *values;
	uint32_t run;
	uint8_t *out;
	int code;

	*done = false;
	if (column->form != WEIR_FLAT || column->validity || may_have_nulls(lists) || may_have_nulls(items))
		return WEIR_OK;
	code = grow_rows(gather, it, selection->count, err);
	if (code)
		return code;
	values = items->buffers[1].data +
		 (uint64_t)(items->offset + (lists->offset + column->nested_offset) * size) * items->type->byte_width;
	out = it->values.data + it->values.size;
	for (uint32_t k = 0; k < selection->count; k += run, out += run * it->row_bytes) {
		uint32_t row = selection->rows ? selection->rows[k] : k;

		run = selection->rows ? 1 : selection->count;
		while (k + run < selection->count && selection->rows[k + run] == row + run)
			run++;
		memcpy(out, values + row * it->row_bytes, run * it->row_bytes);
	}
	it->values.size += selection->count * it->row_bytes;
	*done = true;
	return WEIR_OK;
}

/* A null has come among lists of one length. */
static int lists_to_builder(struct weir_gather *gather, struct gather_column *it, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t at = 0; !code && at < it->values.size; at += it->row_bytes) {
		code = weir_builder_fixed(&it->nested.children[0], it->values.data + at, it->type->list_size, err);
		if (!code)
			code = weir_builder_list_end(&it->nested, err);
	}
	growing_release(gather, &it->values);
	it->in_builder = true;
	return code;
}

static int push_nested(struct gather_column *it, const struct weir_column *column,
		       const struct weir_selection *selection, struct weir_error *err)
{
	const uint32_t *codes = column->values;
	uint32_t k = 0;
	int code = WEIR_OK;

	while (!code && k < selection->count) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		uint32_t run = 1;

		if (!weir_column_valid(column, row)) {
			code = weir_builder_null(&it->nested, 1, err);
		} else if (column->form == WEIR_CONSTANT) {
			code = weir_builder_array(&it->nested, column->nested, column->nested_offset, 1, err);
		} else if (column->form == WEIR_DICTIONARY) {
			code = weir_builder_array(&it->nested, column->dictionary->nested, codes[row], 1, err);
		} else {
			while (k + run < selection->count && weir_column_valid(column, row + run) &&
			       (!selection->rows || selection->rows[k + run] == row + run))
				run++;
			code = weir_builder_array(&it->nested, column->nested, column->nested_offset + row, run, err);
		}
		k += run;
	}
	return code ? code : weir_builder_settle(&it->nested, err);
}

static int push_dictionary(struct weir_gather *gather, struct gather_column *it, const struct weir_column *column,
			   const struct weir_selection *selection, const uint64_t *valid, struct weir_error *err)
{
	struct weir_distinct *distinct = &it->distinct;
	bool is_nested = it->value_type->layout == WEIR_LAYOUT_NESTED;
	const uint32_t *codes = column->values;
	uint32_t *out;
	int code = grow(gather, &it->values, it->values.size + selection->count * sizeof(*out), err);

	if (!code && column->form == WEIR_DICTIONARY)
		code = weir_distinct_map(distinct, column->dictionary, err);
	if (code)
		return code;
	out = (uint32_t *)(it->values.data + it->values.size);
	for (uint32_t k = 0; k < selection->count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		const void *values = column->values;
		uint32_t at = column->form == WEIR_CONSTANT ? 0 : row, *mapped = NULL;

		out[k] = 0;
		if (it->value_type->layout == WEIR_LAYOUT_NULL || (valid && !(valid[k >> 6] >> (k & 63) & 1)))
			continue;
		if (column->form == WEIR_DICTIONARY) {
			at = codes[row];
			values = column->dictionary->values;
			mapped = &distinct->map[at];
			if (*mapped) {
				out[k] = *mapped - 1;
				continue;
			}
		}
		if (is_nested) {
			const struct weir_array *array = mapped ? column->dictionary->nested : column->nested;

			out[k] = (uint32_t)distinct->values.length;
			code = weir_builder_array(&distinct->values, array,
						  mapped ? (int64_t)at : column->nested_offset + at, 1, err);
		} else {
			code = weir_distinct_find(distinct, values, at, &out[k], err);
		}
		if (code)
			return code;
		if (mapped)
			*mapped = out[k] + 1;
	}
	it->values.size += selection->count * sizeof(*out);
	return is_nested ? weir_builder_settle(&distinct->values, err) : WEIR_OK;
}

/* Rows from number `at` of the batch on. */
static int push_column(struct weir_gather *gather, struct gather_column *it, int64_t at,
		       const struct weir_column *column, const struct weir_selection *selection, struct weir_error *err)
{
	uint64_t scratch[WEIR_VECTOR_ROWS / 64];
	const uint64_t *valid = NULL;
	bool done = false;
	int code = WEIR_OK;

	if (it->type->layout == WEIR_LAYOUT_NULL)
		return WEIR_OK;
	if (it->type->id != WEIR_DICTIONARY_TYPE && it->value_type->layout == WEIR_LAYOUT_NESTED) {
		if (it->row_bytes && !it->in_builder)
			code = push_lists(gather, it, column, selection, &done, err);
		if (!code && !done && it->row_bytes && !it->in_builder)
			code = lists_to_builder(gather, it, err);
		return code || done ? code : push_nested(it, column, selection, err);
	}
	if (validity_of(column, selection, scratch))
		valid = scratch;
	code = validity_append(gather, it, at, valid, selection->count, err);
	if (code)
		return code;
	if (it->type->id == WEIR_DICTIONARY_TYPE)
		return push_dictionary(gather, it, column, selection, valid, err);
	switch (it->value_type->layout) {
	case WEIR_LAYOUT_BITS:
		return push_bits(gather, it, at, column, selection, err);
	case WEIR_LAYOUT_BYTES:
		return push_bytes(gather, it, column, selection, valid, err);
	default:
		return push_fixed(gather, it, column, selection, err);
	}
}

/* Lets the column's source write rows [first, first + count) of the vector where they stay; *done of them. */
static int push_straight(struct weir_gather *gather, struct gather_column *it, struct weir_vector *vector,
			 uint32_t column, uint32_t first, uint32_t count, uint32_t *done, struct weir_error *err)
{
	struct weir_pending *pending = vector->columns[column].pending;
	int code;

	*done = 0;
	if (!it->row_bytes || it->in_builder || vector->columns[column].form != WEIR_UNDECODED || !pending->decode_to)
		return WEIR_OK;
	code = grow_rows(gather, it, count, err);
	if (!code) {
		code = pending->decode_to(pending, first, count, it->values.data + it->values.size, done, err);
		weir_vector_blame(vector, code, err);
	}
	if (code || !*done)
		return code;
	WEIR_ASSERT(*done <= count);
	it->values.size += it->row_bytes * *done;
	return it->type->layout == WEIR_LAYOUT_FIXED ? validity_append(gather, it, gather->row_count, NULL, *done, err)
						     : WEIR_OK;
}

int weir_gather_new(struct weir_account *account, const struct weir_schema *schema, struct weir_gather **out,
		    struct weir_error *err)
{
	struct weir_gather *gather = weir_alloc_zero(account, sizeof(*gather), err);
	int code = WEIR_OK;

	*out = NULL;
	if (!gather)
		return err->code;
	gather->account = account;
	gather->schema = weir_schema_ref(schema);
	gather->columns = weir_alloc_zero(account, schema->field_count * sizeof(*gather->columns), err);
	if (!gather->columns) {
		code = err->code;
		goto fail;
	}
	for (uint32_t i = 0; i < schema->field_count; i++) {
		struct gather_column *it = &gather->columns[i];

		it->type = schema->fields[i].type;
		it->value_type = weir_type_values(it->type);
		it->row_bytes = weir_type_row_bytes(it->type);
	}
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		struct gather_column *it = &gather->columns[i];

		if (it->type->id == WEIR_DICTIONARY_TYPE)
			code = weir_distinct_init(&it->distinct, it->value_type, account, err);
		else if (it->type->layout == WEIR_LAYOUT_NESTED)
			code = weir_builder_init(&it->nested, it->type, account, err);
	}
	if (!code) {
		*out = gather;
		return WEIR_OK;
	}
fail:
	weir_gather_free(gather);
	return code;
}

int weir_gather_push(struct weir_gather *gather, struct weir_vector *vector, struct weir_error *err)
{
	return weir_gather_push_part(gather, vector, 0, vector->selection.count, err);
}

/* Selected rows [begin, begin + count) of one column. */
static int push_part(struct weir_gather *gather, struct weir_vector *vector, uint32_t column, const uint16_t *rows,
		     uint32_t begin, uint32_t count, struct weir_error *err)
{
	struct gather_column *it = &gather->columns[column];
	struct weir_vector rest = *vector;
	uint32_t done = 0;
	int code = WEIR_OK;

	/* Ascending, so that as many as there are rows between the first and the last are all of them. */
	if (count && rows[begin + count - 1] - rows[begin] == (int)count - 1)
		code = push_straight(gather, it, vector, column, rows[begin], count, &done, err);
	if (code || done == count)
		return code;
	/* Decoded for all that are left, since other parts follow. */
	rest.selection.count -= begin + done;
	if (vector->selection.rows || begin + done)
		rest.selection.rows = rows + begin + done;
	code = weir_column_decode(&rest, column, err);
	if (code)
		return code;
	rest.selection.count = count - done;
	return push_column(gather, it, gather->row_count + done, &vector->columns[column], &rest.selection, err);
}

int weir_gather_push_part(struct weir_gather *gather, struct weir_vector *vector, uint32_t begin, uint32_t count,
			  struct weir_error *err)
{
	uint16_t numbers[WEIR_VECTOR_ROWS];
	const uint16_t *rows = vector->selection.rows;

	WEIR_ASSERT(vector->column_count == gather->schema->field_count);
	WEIR_ASSERT(begin + count <= vector->selection.count);
	if (!rows) {
		for (uint32_t i = 0; i < vector->selection.count; i++)
			numbers[i] = (uint16_t)i;
		rows = numbers;
	}
	for (uint32_t i = 0; i < vector->column_count; i++) {
		int code = push_part(gather, vector, i, rows, begin, count, err);

		if (code) {
			weir_error_at_column(err, gather->schema->fields[i].name);
			return code;
		}
	}
	gather->row_count += count;
	return WEIR_OK;
}

void weir_gather_expect(struct weir_gather *gather, int64_t rows, int64_t bytes_max)
{
	gather->bytes_expected = (size_t)bytes_max;
	gather->rows_expected = rows > 0 ? rows : 0;
}

void weir_gather_place(struct weir_gather *gather, uint32_t column, uint8_t *memory, size_t capacity)
{
	struct gather_column *it = &gather->columns[column];

	WEIR_ASSERT(gather->row_count == 0 && it->row_bytes && capacity % 64 == 0);
	growing_release(gather, &it->values);
	it->values = (struct growing){.data = memory, .capacity = capacity, .is_placed = true};
}

int64_t weir_gather_rows(const struct weir_gather *gather)
{
	return gather->row_count;
}

uint64_t weir_gather_bytes(const struct weir_gather *gather)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < gather->schema->field_count; i++) {
		const struct gather_column *it = &gather->columns[i];

		bytes += it->validity.size + it->values.size + it->bytes.size + weir_builder_memory(&it->nested) +
			 weir_builder_memory(&it->distinct.values);
	}
	return bytes;
}

/* Grown memory that arrays point into from now on. */
struct grown {
	struct weir_owner owner;
	struct weir_account *account;
	uint8_t *data;
	size_t capacity;
};

static void grown_release(struct weir_owner *owner)
{
	struct grown *grown = (struct grown *)owner;

	weir_free(grown->account, grown->data, grown->capacity);
	weir_free(grown->account, grown, sizeof(*grown));
}

/* The grown bytes become a buffer, without a copy. */
static int seal(struct weir_gather *gather, struct growing *from, struct weir_buffer *out, struct weir_error *err)
{
	struct grown *grown;
	size_t padded = weir_round_up(from->size, 64);
	int code = grow(gather, from, padded ? padded : 64, err);

	if (code)
		return code;
	memset(from->data + from->size, 0, padded - from->size);
	if (from->is_placed) {
		*out = (struct weir_buffer){.data = from->data, .size = from->size};
		*from = (struct growing){0};
		return WEIR_OK;
	}
	grown = weir_alloc(gather->account, sizeof(*grown), err);
	if (!grown)
		return err->code;
	*grown = (struct grown){.owner = {.refs = 1, .release = grown_release},
				.account = gather->account,
				.data = from->data,
				.capacity = from->capacity};
	*out = (struct weir_buffer){.data = from->data, .size = from->size, .owner = &grown->owner};
	*from = (struct growing){0};
	return WEIR_OK;
}

/* Bits past the last row are zero in arrays. */
static void bits_trim(struct growing *buffer, int64_t count)
{
	if (buffer->size && count % 8)
		buffer->data[count / 8] &= (uint8_t)((1u << count % 8) - 1);
}

static int seal_codes(struct weir_gather *gather, const struct gather_column *it, struct weir_buffer *out,
		      struct weir_error *err)
{
	const struct weir_type *index = it->type->dictionary_index;
	const uint32_t *codes = (const uint32_t *)it->values.data;
	uint64_t count = (uint64_t)it->distinct.values.length;
	uint32_t bits = index->byte_width * 8 - (weir_type_is_signed(index) ? 1 : 0);
	uint8_t *writable;
	int code;
	char name[32];

	if (bits < 32 && count > (uint64_t)1 << bits)
		return weir_error_set(err, WEIR_E_VALUE,
				      "%llu distinct values do not fit dictionary indices of type %s",
				      (unsigned long long)count, weir_type_name(index, name, sizeof(name)));
	code = weir_buffer_new(gather->account, (uint64_t)gather->row_count * index->byte_width, out, &writable, err);
	if (code)
		return code;
	for (int64_t i = 0; i < gather->row_count; i++) {
		switch (index->byte_width) {
		case 1:
			writable[i] = (uint8_t)codes[i];
			break;
		case 2:
			((uint16_t *)writable)[i] = (uint16_t)codes[i];
			break;
		case 4:
			((uint32_t *)writable)[i] = codes[i];
			break;
		default:
			((uint64_t *)writable)[i] = codes[i];
		}
	}
	return WEIR_OK;
}

static void column_clear(struct weir_gather *gather, struct gather_column *it)
{
	growing_release(gather, &it->validity);
	growing_release(gather, &it->values);
	growing_release(gather, &it->bytes);
	weir_distinct_forget(&it->distinct);
	it->has_validity = it->in_builder = false;
	it->null_count = 0;
}

/* Lists of one length without nulls, over the grown bytes. */
static struct weir_array *lists_finish(struct weir_gather *gather, struct gather_column *it, struct weir_error *err)
{
	struct weir_array *lists = weir_array_new(gather->account, it->type, err), *items;

	if (!lists)
		return NULL;
	items = lists->children[0] = weir_array_new(gather->account, it->type->fields[0].type, err);
	if (!items || seal(gather, &it->values, &items->buffers[1], err)) {
		weir_array_unref(lists);
		return NULL;
	}
	lists->length = gather->row_count;
	items->length = gather->row_count * it->type->list_size;
	return lists;
}

static struct weir_array *column_finish(struct weir_gather *gather, struct gather_column *it, struct weir_error *err)
{
	struct weir_array *array;
	int code = WEIR_OK;

	if (it->type->id != WEIR_DICTIONARY_TYPE && it->type->layout == WEIR_LAYOUT_NESTED)
		return it->row_bytes && !it->in_builder ? lists_finish(gather, it, err)
							: weir_builder_finish(&it->nested, err);
	array = weir_array_new(gather->account, it->type, err);
	if (!array)
		return NULL;
	array->length = gather->row_count;
	array->null_count = it->type->layout == WEIR_LAYOUT_NULL ? gather->row_count : it->null_count;
	if (it->type->layout == WEIR_LAYOUT_NULL)
		return array;
	bits_trim(&it->validity, gather->row_count);
	if (it->value_type->layout == WEIR_LAYOUT_BITS && it->type->id != WEIR_DICTIONARY_TYPE)
		bits_trim(&it->values, gather->row_count);
	if (it->has_validity && it->null_count)
		code = seal(gather, &it->validity, &array->buffers[0], err);
	if (!code && it->type->id == WEIR_DICTIONARY_TYPE) {
		code = seal_codes(gather, it, &array->buffers[1], err);
		if (!code) {
			array->dictionary = weir_builder_finish(&it->distinct.values, err);
			code = array->dictionary ? WEIR_OK : err->code;
		}
	} else if (!code) {
		if (it->type->layout == WEIR_LAYOUT_BYTES && !it->values.size) {
			/* No row was pushed: one offset all the same. */
			code = grow(gather, &it->values, 8, err);
			if (!code) {
				memset(it->values.data, 0, 8);
				it->values.size = it->type->id == WEIR_LARGE_STRING || it->type->id == WEIR_LARGE_BINARY
							  ? 8
							  : 4;
			}
		}
		if (!code)
			code = seal(gather, &it->values, &array->buffers[1], err);
		if (!code && it->type->layout == WEIR_LAYOUT_BYTES)
			code = seal(gather, &it->bytes, &array->buffers[2], err);
	}
	if (code) {
		weir_array_unref(array);
		return NULL;
	}
	return array;
}

int weir_gather_finish(struct weir_gather *gather, struct weir_batch **out, struct weir_error *err)
{
	uint32_t count = gather->schema->field_count;
	struct weir_array **arrays = weir_alloc_zero(gather->account, count * sizeof(*arrays), err);
	int code = arrays ? WEIR_OK : err->code;

	*out = NULL;
	for (uint32_t i = 0; !code && i < count; i++) {
		arrays[i] = column_finish(gather, &gather->columns[i], err);
		if (!arrays[i]) {
			weir_error_at_column(err, gather->schema->fields[i].name);
			code = err->code;
		} else {
			column_clear(gather, &gather->columns[i]);
		}
	}
	if (!code) {
		*out = weir_batch_new(gather->account, gather->schema, gather->row_count, arrays, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; arrays && i < count; i++) {
		if (arrays[i])
			weir_array_unref(arrays[i]);
	}
	weir_free(gather->account, arrays, count * sizeof(*arrays));
	gather->row_count = 0;
	return code;
}

void weir_gather_free(struct weir_gather *gather)
{
	if (!gather)
		return;
	for (uint32_t i = 0; gather->columns && i < gather->schema->field_count; i++) {
		column_clear(gather, &gather->columns[i]);
		weir_builder_release(&gather->columns[i].nested);
		weir_distinct_release(&gather->columns[i].distinct);
	}
	if (gather->columns)
		weir_free(gather->account, gather->columns, gather->schema->field_count * sizeof(*gather->columns));
	weir_schema_unref(gather->schema);
	weir_free(gather->account, gather, sizeof(*gather));
}
