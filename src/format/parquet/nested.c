/* Nested columns: plain Arrow arrays for the rows of one vector, from the levels and values of their leaves.
 *
 * Each leaf has an entry (repetition, definition) per value, null or empty list. Every node of the type is built from
 * the entries of its first leaf alone, top down, and knows from its list ancestors which entries are its own:
 *
 *     a slot of the node:     repetition ≤ rep_slot and definition ≥ def_slot      (0, 0 outside of any list)
 *     valid:                  definition ≥ def_present
 *     an element of a list:   repetition ≤ rep_element and definition ≥ def_element
 *
 * so the children of a list are built with (rep_element, def_element) in place of (rep_slot, def_slot). Leaves that
 * disagree about the number of slots are damage, found where their lengths meet.
 *
 *     rows   [1, 2]  null  []  [3]        r d    r d    r d    r d    r d
 *     entries                             0 3    1 3    0 0    0 1    0 3        values 1 2 3
 */
#include "format/parquet/nested_impl.h"

#include <string.h>

enum { SPARSE = 4, PAGE_LARGE = 16 << 20, LARGE = 64 << 10 };

struct make {
	struct parquet_column *column;
	struct weir_account *account;
	struct weir_error *err;
	bool has_blanks; /* rows that nobody looks at came without values */
};

/* Which entries are slots of a node. */
struct slots {
	uint16_t rep, def;
};

static struct parquet_leaf *first_leaf(const struct make *make, const struct parquet_shape *shape)
{
	return &make->column->leaves[shape->leaf_begin - make->column->shape->leaf_begin];
}

static int damaged(const struct make *make, const struct parquet_shape *shape)
{
	return parquet_leaf_damaged(first_leaf(make, shape), make->err,
				    "The columns of a nested type have different numbers of elements.");
}

static struct parquet_levels *levels_of(const struct make *make, const struct parquet_shape *shape)
{
	return &make->column->levels[shape->leaf_begin - make->column->shape->leaf_begin];
}

/* Validity of a node's slots: *count of them, *nulls. The buffer stays absent when there are no nulls. */
static int validity(const struct make *make, const struct parquet_shape *shape, struct slots slots, int64_t *count,
		    int64_t *nulls, struct weir_buffer *out)
{
	const struct parquet_levels *levels = levels_of(make, shape);
	const uint16_t *def = (const uint16_t *)levels->def.data, *rep = (const uint16_t *)levels->rep.data;
	uint64_t *bits, word = 0;
	uint8_t *writable;
	int64_t at = 0, set = 0;

	*out = (struct weir_buffer){0};
	if (levels->is_even) {
		*count = slots.rep == 0 ? make->column->reader->vector_rows : levels->value_count;
		*nulls = 0;
		return WEIR_OK;
	}
	if (levels->all_present) {
		for (uint32_t i = 0; i < levels->count; i++)
			at += rep[i] <= slots.rep;
		*count = at;
		*nulls = 0;
		return WEIR_OK;
	}
	if (weir_buffer_new(make->account, (uint64_t)levels->count / 64 * 8 + 16, out, &writable, make->err))
		return make->err->code;
	bits = (uint64_t *)writable;
	for (uint32_t i = 0; i < levels->count; i++) {
		if (rep[i] > slots.rep || def[i] < slots.def)
			continue;
		word |= (uint64_t)(def[i] >= shape->def_present) << (at & 63);
		set += def[i] >= shape->def_present;
		if ((++at & 63) == 0) {
			bits[(at >> 6) - 1] = word;
			word = 0;
		}
	}
	bits[at >> 6] = word;
	*count = at;
	*nulls = at - set;
	if (set == at)
		weir_buffer_release(out);
	return WEIR_OK;
}

/* ── leaves ── */

static int leaf_bytes(const struct make *make, const struct parquet_levels *levels, struct weir_array *array,
		      const uint8_t *bits)
{
	bool is_large = array->type->id == WEIR_LARGE_STRING || array->type->id == WEIR_LARGE_BINARY;
	const uint32_t *sizes = (const uint32_t *)levels->values.data;
	uint8_t *offsets, *bytes;
	uint64_t at = 0;
	uint32_t value = 0;

	if (!is_large && levels->bytes_size > INT32_MAX)
		return weir_error_set(make->err, WEIR_E_LIMIT, "More than 2 GiB of texts in the lists of one vector.");
	if (weir_buffer_new(make->account, ((uint64_t)array->length + 1) * (is_large ? 8 : 4), &array->buffers[1],
			    &offsets, make->err) ||
	    weir_buffer_new(make->account, levels->bytes_size, &array->buffers[2], &bytes, make->err))
		return make->err->code;
	if (levels->bytes_size)
		memcpy(bytes, levels->bytes.data, levels->bytes_size);
	for (int64_t i = 0; i <= array->length; i++) {
		if (is_large)
			((int64_t *)offsets)[i] = (int64_t)at;
		else
			((int32_t *)offsets)[i] = (int32_t)at;
		if (i < array->length && (!bits || bits[i >> 3] >> (i & 7) & 1))
			at += sizes[value++];
	}
	return WEIR_OK;
}

static void spread_wide(const uint8_t *bits, int64_t count, uint32_t width, const uint8_t *packed, uint8_t *out)
{
	for (int64_t i = 0; i < count; i++, out += width) {
		if (bits[i >> 3] >> (i & 7) & 1) {
			memcpy(out, packed, width);
			packed += width;
		} else {
			memset(out, 0, width);
		}
	}
}

static int leaf_fixed(const struct make *make, struct parquet_levels *levels, struct weir_array *array,
		      const uint8_t *bits)
{
	uint32_t width = array->type->byte_width;
	uint64_t size = (uint64_t)array->length * width;
	uint8_t *out;

	/* Nothing is missing, and the memory is not much larger than what lies in it: the array takes it as it is. */
	if (!bits && size >= levels->values.capacity / 2 && size >= LARGE && levels->values.capacity % 64 == 0) {
		struct parquet_memory memory = levels->values;

		levels->values = (struct parquet_memory){0};
		levels->values_before = memory.capacity;
		return weir_buffer_adopt(make->account, memory.data, memory.capacity, size, &array->buffers[1],
					 make->err);
	}
	if (weir_buffer_new(make->account, (uint64_t)array->length * width, &array->buffers[1], &out, make->err))
		return make->err->code;
	if (!bits) {
		if (array->length)
			memcpy(out, levels->values.data, (size_t)array->length * width);
		return WEIR_OK;
	}
	spread_wide(bits, array->length, width, levels->values.data, out);
	return WEIR_OK;
}

static int leaf_bits(const struct make *make, const struct parquet_levels *levels, struct weir_array *array,
		     const uint8_t *bits)
{
	const uint8_t *packed = levels->values.data;
	uint8_t *out;
	int64_t value = 0;

	if (weir_buffer_new(make->account, ((uint64_t)array->length + 7) / 8, &array->buffers[1], &out, make->err))
		return make->err->code;
	memset(out, 0, ((size_t)array->length + 7) / 8);
	for (int64_t i = 0; i < array->length; i++) {
		if (bits && !(bits[i >> 3] >> (i & 7) & 1))
			continue;
		out[i >> 3] |= (uint8_t)((packed[value >> 3] >> (value & 7) & 1) << (i & 7));
		value++;
	}
	return WEIR_OK;
}

static int make_values(const struct make *make, const struct parquet_shape *shape, struct slots slots,
		       struct weir_array *array)
{
	struct parquet_levels *levels = levels_of(make, shape);
	const uint8_t *bits;
	int64_t nulls;

	if (validity(make, shape, slots, &array->length, &nulls, &array->buffers[0]))
		return make->err->code;
	array->null_count = nulls;
	if (array->type->layout == WEIR_LAYOUT_NULL) {
		weir_buffer_release(&array->buffers[0]);
		array->null_count = array->length;
		return WEIR_OK;
	}
	if (array->length - nulls != levels->value_count)
		return damaged(make, shape);
	bits = array->buffers[0].data;
	switch (array->type->layout) {
	case WEIR_LAYOUT_BITS:
		return leaf_bits(make, levels, array, bits);
	case WEIR_LAYOUT_BYTES:
		return leaf_bytes(make, levels, array, bits);
	default:
		return leaf_fixed(make, levels, array, bits);
	}
}

/* A new array, or NULL with err set. A dictionary has the values of this vector's rows: pages may be coded or not, and
 * the file's own dictionary may have far more than these rows use. */
static struct weir_array *make_leaf(const struct make *make, const struct parquet_shape *shape, struct slots slots)
{
	struct weir_array *values = weir_array_new(make->account, weir_type_values(shape->type), make->err), *codes;

	if (!values)
		return NULL;
	if (make_values(make, shape, slots, values)) {
		weir_array_unref(values);
		return NULL;
	}
	if (shape->type->id != WEIR_DICTIONARY_TYPE)
		return values;
	codes = weir_array_encode(make->account, values, shape->type, make->err);
	weir_array_unref(values);
	return codes;
}

/* ── groups ── */

static struct weir_array *make_array(const struct make *make, const struct parquet_shape *shape, struct slots slots);

static int make_struct(const struct make *make, const struct parquet_shape *shape, struct slots slots,
		       struct weir_array *array)
{
	if (validity(make, shape, slots, &array->length, &array->null_count, &array->buffers[0]))
		return make->err->code;
	for (uint32_t i = 0; i < shape->child_count; i++) {
		array->children[i] = make_array(make, shape->children[i], slots);
		if (!array->children[i])
			return make->err->code;
		if (array->children[i]->length != array->length)
			return damaged(make, shape);
	}
	return WEIR_OK;
}

/* Offsets of the lists, at most levels->count + 1; the number of elements is the last of them. */
static int64_t list_offsets(const struct make *make, const struct parquet_shape *shape, struct slots slots,
			    bool is_large, uint8_t *out)
{
	const struct parquet_levels *levels = levels_of(make, shape);
	const uint16_t *def = (const uint16_t *)levels->def.data, *rep = (const uint16_t *)levels->rep.data;
	int64_t slot = 0, elements = 0;

	if (levels->is_even) {
		const uint32_t *ends = (const uint32_t *)levels->ends.data;
		uint32_t count = make->column->reader->vector_rows;

		memset(out, 0, is_large ? 8 : 4);
		for (uint32_t i = 0; is_large && i < count; i++)
			((int64_t *)out)[i + 1] = ends[i];
		if (!is_large)
			memcpy(out + 4, ends, count * sizeof(*ends));
		return levels->value_count;
	}
	/* Lists of values, none of them in another list, nothing missing: an entry is an element. */
	if (levels->all_present && slots.rep == 0 && !is_large &&
	    shape->rep_element >= first_leaf(make, shape)->info->rep_max) {
		for (uint32_t i = 0; (i = parquet_find_zero(rep, i, levels->count)) < levels->count; i++)
			((int32_t *)out)[slot++] = (int32_t)i;
		((int32_t *)out)[slot] = (int32_t)levels->count;
		return levels->count;
	}
	for (uint32_t i = 0; i < levels->count; i++) {
		if (rep[i] <= slots.rep && def[i] >= slots.def) {
			if (is_large)
				((int64_t *)out)[slot] = elements;
			else
				((int32_t *)out)[slot] = (int32_t)elements; /* ≤ levels->count ≤ INT32_MAX */
			slot++;
		}
		elements += rep[i] <= shape->rep_element && def[i] >= shape->def_element;
	}
	if (is_large)
		((int64_t *)out)[slot] = elements;
	else
		((int32_t *)out)[slot] = (int32_t)elements;
	return elements;
}

/* Lists of one length have no offsets: a null one takes as many places among the elements as any other. */
static int fixed_elements(const struct make *make, const struct parquet_shape *shape, struct weir_array *array,
			  const int32_t *offsets, struct weir_array *elements)
{
	int64_t size = array->type->list_size, places = array->length * size, *rows;
	size_t bytes = ((size_t)places + 1) * sizeof(*rows);
	int code = WEIR_OK;

	if (elements->length == places && array->null_count == 0) {
		for (int64_t i = 0; i < array->length; i++)
			if (offsets[i + 1] - offsets[i] != size)
				return damaged(make, shape);
		array->children[0] = weir_array_ref(elements);
		return WEIR_OK;
	}
	rows = weir_alloc(make->account, bytes, make->err);
	if (!rows)
		return make->err->code;
	for (int64_t i = 0; i < array->length && !code; i++) {
		bool is_empty = offsets[i + 1] == offsets[i];

		if (!is_empty && offsets[i + 1] - offsets[i] != size)
			code = damaged(make, shape);
		else if (is_empty && !make->has_blanks && weir_array_is_valid(array, i))
			code = damaged(make, shape);
		for (int64_t j = 0; j < size && !code; j++)
			rows[i * size + j] = !is_empty ? offsets[i] + j : elements->length ? 0 : -1;
	}
	if (!code) {
		array->children[0] = weir_array_take(make->account, elements, rows, places, make->err);
		code = array->children[0] ? WEIR_OK : make->err->code;
	}
	weir_free(make->account, rows, bytes);
	return code;
}

static int make_fixed_list(const struct make *make, const struct parquet_shape *shape, struct slots slots,
			   struct weir_array *array)
{
	struct weir_array *elements = NULL;
	struct weir_buffer buffer = {0};
	uint8_t *offsets;
	int64_t count;
	int code;

	code = validity(make, shape, slots, &array->length, &array->null_count, &array->buffers[0]);
	if (!code)
		code = weir_buffer_new(make->account, ((uint64_t)array->length + 1) * 4, &buffer, &offsets, make->err);
	if (code)
		return code;
	count = list_offsets(make, shape, slots, false, offsets);
	elements = make_array(make, shape->children[0], (struct slots){shape->rep_element, shape->def_element});
	if (!elements)
		code = make->err->code;
	else if (elements->length != count)
		code = damaged(make, shape);
	else
		code = fixed_elements(make, shape, array, (const int32_t *)offsets, elements);
	if (elements)
		weir_array_unref(elements);
	weir_buffer_release(&buffer);
	return code;
}

static int make_list(const struct make *make, const struct parquet_shape *shape, struct slots slots,
		     struct weir_array *array)
{
	bool is_large = array->type->id == WEIR_LARGE_LIST;
	int64_t elements;
	uint8_t *offsets;

	if (validity(make, shape, slots, &array->length, &array->null_count, &array->buffers[0]) ||
	    weir_buffer_new(make->account, ((uint64_t)array->length + 1) * (is_large ? 8 : 4), &array->buffers[1],
			    &offsets, make->err))
		return make->err->code;
	elements = list_offsets(make, shape, slots, is_large, offsets);
	array->children[0] = make_array(make, shape->children[0],
					(struct slots){shape->rep_element, shape->def_element});
	if (!array->children[0])
		return make->err->code;
	return array->children[0]->length == elements ? WEIR_OK : damaged(make, shape);
}

/* A new array, or NULL with err set. */
static struct weir_array *make_array(const struct make *make, const struct parquet_shape *shape, struct slots slots)
{
	struct weir_array *array;
	int code;

	if (shape->kind == PARQUET_SHAPE_LEAF)
		return make_leaf(make, shape, slots);
	array = weir_array_new(make->account, shape->type, make->err);
	if (!array)
		return NULL;
	if (shape->kind == PARQUET_SHAPE_STRUCT)
		code = make_struct(make, shape, slots, array);
	else if (array->type->id == WEIR_FIXED_LIST)
		code = make_fixed_list(make, shape, slots, array);
	else
		code = make_list(make, shape, slots, array);
	if (!code)
		return array;
	weir_array_unref(array);
	return NULL;
}

int parquet_nested_decode(struct weir_pending *pending, const struct weir_selection *selection,
			  struct weir_column *column, struct weir_error *err)
{
	struct parquet_column *self = (struct parquet_column *)pending;
	struct parquet_reader *reader = self->reader;
	/* Rows of the vector have left by straight.c. */
	bool is_behind = self->leaf_count == 1 && self->levels[0].row > reader->vector_row;
	/* Where many rows live, leaving out the others costs more than taking them along. */
	bool is_sparse = selection->rows && (is_behind || selection->count * SPARSE < reader->vector_rows);
	struct weir_selection rows = is_sparse ? *selection : (struct weir_selection){.count = reader->vector_rows};
	struct make make = {.column = self, .account = reader->account, .err = err, .has_blanks = is_sparse};

	WEIR_ASSERT(!is_behind || (is_sparse && reader->vector_row + selection->rows[0] >= self->levels[0].row));
	for (uint32_t l = 0; l < self->leaf_count; l++) {
		struct parquet_leaf *leaf = &self->leaves[l];

		if (parquet_levels_read(leaf, &self->levels[l], reader->vector_row, reader->vector_rows, &rows, err))
			goto fail;
		if (leaf->page.header.size_uncompressed > PAGE_LARGE &&
		    parquet_pages_bytes(reader) > reader->page_budget / 2)
			reader->is_tight = true;
		/* Everything is copied: when memory is short the page goes before the next leaf's comes. */
		if (reader->is_tight) {
			parquet_page_drop(leaf);
			parquet_memory_release(reader->account, &leaf->scratch);
			parquet_memory_release(reader->account, &leaf->packed);
		}
	}
	self->nested = make_array(&make, self->shape, (struct slots){0, 0});
	if (!self->nested)
		goto fail;
	if (self->nested->length != reader->vector_rows) {
		damaged(&make, self->shape);
		goto fail;
	}
	column->form = WEIR_FLAT;
	column->nested = self->nested;
	column->nested_offset = 0;
	column->validity = (const uint64_t *)self->nested->buffers[0].data;
	column->values = NULL;
	column->dictionary = NULL;
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(reader->file->base.file));
	weir_error_at_row(err, reader->file->metadata.row_groups[reader->row_group].row_begin + reader->vector_row);
	return err->code;
}
