/* Builders: arrays that grow at their end.
 *
 *     init → (null | fixed | bytes | children + list_end/struct_end | array)* → finish → … → release
 *
 * The memory of each buffer grows by doubling and becomes the array's own at finish; nothing is copied then. Validity
 * does not exist before the first null. Offsets have a first entry, 0, written with the first row.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"

int weir_builder_init(struct weir_builder *builder, const struct weir_type *type, struct weir_account *account,
		      struct weir_error *err)
{
	*builder = (struct weir_builder){.type = weir_type_ref(type), .account = account};
	if (!type->field_count)
		return WEIR_OK;
	builder->children = weir_alloc_zero(account, type->field_count * sizeof(*builder->children), err);
	if (!builder->children)
		goto fail;
	builder->child_count = type->field_count;
	for (uint32_t i = 0; i < type->field_count; i++)
		if (weir_builder_init(&builder->children[i], type->fields[i].type, account, err))
			goto fail;
	return WEIR_OK;
fail:
	weir_builder_release(builder);
	return err->code;
}

static void release_memory(struct weir_builder *builder)
{
	weir_free(builder->account, builder->validity, builder->validity_capacity);
	weir_free(builder->account, builder->values, builder->values_capacity);
	weir_free(builder->account, builder->bytes, builder->bytes_capacity);
	builder->validity = builder->values = builder->bytes = NULL;
	builder->validity_capacity = builder->values_capacity = builder->bytes_capacity = builder->bytes_size = 0;
	builder->length = builder->null_count = 0;
	weir_array_unref(builder->dictionary);
	builder->dictionary = NULL;
	dictionary_table_free(builder->table);
	builder->table = NULL;
}

void weir_builder_release(struct weir_builder *builder)
{
	if (!builder->account)
		return;
	release_memory(builder);
	for (uint32_t i = 0; i < builder->child_count; i++)
		weir_builder_release(&builder->children[i]);
	weir_free(builder->account, builder->children, builder->child_count * sizeof(*builder->children));
	weir_type_unref(builder->type);
	*builder = (struct weir_builder){0};
}

uint64_t weir_builder_memory(const struct weir_builder *builder)
{
	uint64_t bytes = builder->validity_capacity + builder->values_capacity + builder->bytes_capacity;

	for (uint32_t i = 0; i < builder->child_count; i++)
		bytes += weir_builder_memory(&builder->children[i]);
	return bytes;
}

static int grow(struct weir_builder *builder, uint8_t **memory, size_t *capacity, size_t size, bool exact,
		struct weir_error *err)
{
	size_t wanted = exact ? size : size + size / 2 + 64;
	uint8_t *larger;

	if (size > (size_t)PTRDIFF_MAX / 2)
		return weir_error_set(err, WEIR_E_MEMORY, "a buffer of %zu bytes cannot exist", size);
	wanted = weir_round_up(wanted, 64);
	larger = *memory ? weir_realloc(builder->account, *memory, *capacity, wanted, err)
			 : weir_alloc(builder->account, wanted, err);
	if (!larger)
		return err->code;
	*memory = larger;
	*capacity = wanted;
	return WEIR_OK;
}

static inline int need(struct weir_builder *builder, uint8_t **memory, size_t *capacity, size_t size,
		       struct weir_error *err)
{
	return size <= *capacity ? WEIR_OK : grow(builder, memory, capacity, size, false, err);
}

static int need_validity(struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	return need(builder, &builder->validity, &builder->validity_capacity, weir_bits_size(builder->length + count),
		    err);
}

/* Room for `count` more values or offsets. Sizes in bytes stay far below 2^63: lengths are bounded in check_count. */
static int need_values(struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	uint64_t length = (uint64_t)(builder->length + count), width = builder->type->byte_width, size;

	if (builder->type->layout == WEIR_LAYOUT_BITS)
		size = weir_bits_size((int64_t)length);
	else if (builder->type->layout == WEIR_LAYOUT_FIXED)
		size = length * width;
	else
		size = (length + 1) * type_offset_width(builder->type);
	return need(builder, &builder->values, &builder->values_capacity, size, err);
}

static int need_bytes(struct weir_builder *builder, size_t size, struct weir_error *err)
{
	size_t total;

	if (weir_add_overflows(builder->bytes_size, size, &total))
		return weir_error_set(err, WEIR_E_MEMORY, "an array's bytes pass the address space");
	if (total > INT32_MAX && type_offset_width(builder->type) == 4)
		return builder_refuse_size(builder->type, err);
	return need(builder, &builder->bytes, &builder->bytes_capacity, total, err);
}

int builder_refuse_size(const struct weir_type *type, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_OVERFLOW,
			      "one array of type %s cannot hold more than 2147483647 %s (2^31 - 1); large_%s can",
			      type_words[type->id], weir_type_is_nested(type) ? "items" : "bytes",
			      type->id == WEIR_MAP ? "list" : type_words[type->id]);
}

static int check_count(const struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	uint64_t width = builder->type->byte_width ? builder->type->byte_width : 8;
	uint64_t total = (uint64_t)builder->length + (uint64_t)count;

	WEIR_ASSERT(count >= 0);
	/* A builder of nulls has no memory to run out of. */
	if (total > (uint64_t)PTRDIFF_MAX / 2 / width)
		return weir_error_set(err, WEIR_E_OVERFLOW, "an array of %llu rows is too long",
				      (unsigned long long)total);
	return WEIR_OK;
}

static int append_valid(struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	if (!builder->validity)
		return WEIR_OK;
	if (need_validity(builder, count, err))
		return err->code;
	weir_bits_fill(builder->validity, builder->length, count, true);
	return WEIR_OK;
}

static int begin_validity(struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	bool fresh = !builder->null_count;

	if (need_validity(builder, count, err))
		return err->code;
	if (fresh)
		weir_bits_fill(builder->validity, 0, builder->length, true);
	return WEIR_OK;
}

/* The offset at which row `length` begins, that is, where the last one ended. */
static int64_t last_offset(const struct weir_builder *builder)
{
	if (!builder->length)
		return 0;
	return type_offset_width(builder->type) == 4 ? ((int32_t *)builder->values)[builder->length]
						     : ((int64_t *)builder->values)[builder->length];
}

static void put_first_offset(struct weir_builder *builder)
{
	if (!builder->length)
		memset(builder->values, 0, type_offset_width(builder->type));
}

/* `count` rows that end where the last one ended. */
static void repeat_offset(struct weir_builder *builder, int64_t count)
{
	int64_t last = last_offset(builder);

	put_first_offset(builder);
	if (type_offset_width(builder->type) == 4) {
		int32_t *offsets = (int32_t *)builder->values + builder->length + 1;

		for (int64_t i = 0; i < count; i++)
			offsets[i] = (int32_t)last;
	} else {
		int64_t *offsets = (int64_t *)builder->values + builder->length + 1;

		for (int64_t i = 0; i < count; i++)
			offsets[i] = last;
	}
}

int weir_builder_null(struct weir_builder *builder, int64_t count, struct weir_error *err)
{
	const struct weir_type *type = builder->type;
	int64_t child_count = count;

	if (!count || check_count(builder, count, err))
		return count ? err->code : WEIR_OK;
	if (type->layout == WEIR_LAYOUT_NULL) {
		builder->length += count;
		builder->null_count += count;
		return WEIR_OK;
	}
	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
	case WEIR_LAYOUT_FIXED:
	case WEIR_LAYOUT_BYTES:
		if (need_values(builder, count, err))
			return err->code;
		break;
	default:
		if (type_offset_width(type)) {
			if (need_values(builder, count, err))
				return err->code;
			break;
		}
		if (type->id == WEIR_FIXED_LIST && weir_mul_overflows(count, type->list_size, &child_count))
			return weir_error_set(err, WEIR_E_OVERFLOW, "too many items");
		for (uint32_t i = 0; i < builder->child_count; i++)
			if (weir_builder_null(&builder->children[i], child_count, err))
				return err->code;
	}
	if (begin_validity(builder, count, err))
		return err->code;
	weir_bits_fill(builder->validity, builder->length, count, false);
	if (type->layout == WEIR_LAYOUT_BITS)
		weir_bits_fill(builder->values, builder->length, count, false);
	else if (type->layout == WEIR_LAYOUT_FIXED && type->byte_width)
		memset(builder->values + (uint64_t)builder->length * type->byte_width, 0,
		       (uint64_t)count * type->byte_width);
	else if (type_offset_width(type))
		repeat_offset(builder, count);
	builder->length += count;
	builder->null_count += count;
	return WEIR_OK;
}

int weir_builder_fixed(struct weir_builder *builder, const void *values, int64_t count, struct weir_error *err)
{
	const struct weir_type *type = builder->type;
	const uint8_t *bools = values;

	WEIR_ASSERT(type->layout == WEIR_LAYOUT_FIXED || type->layout == WEIR_LAYOUT_BITS);
	if (!count)
		return WEIR_OK;
	if (check_count(builder, count, err) || need_values(builder, count, err) || append_valid(builder, count, err))
		return err->code;
	if (type->layout == WEIR_LAYOUT_FIXED) {
		if (type->byte_width)
			memcpy(builder->values + (uint64_t)builder->length * type->byte_width, values,
			       (uint64_t)count * type->byte_width);
	} else {
		for (int64_t i = 0; i < count; i += 64) {
			int64_t step = count - i < 64 ? count - i : 64;
			uint64_t word = 0;

			for (int64_t bit = 0; bit < step; bit++)
				word |= (uint64_t)(bools[i + bit] & 1) << bit;
			weir_bits_store(builder->values, builder->length + i, step, word);
		}
	}
	builder->length += count;
	return WEIR_OK;
}

int weir_builder_bytes(struct weir_builder *builder, const void *bytes, size_t size, struct weir_error *err)
{
	WEIR_ASSERT(builder->type->layout == WEIR_LAYOUT_BYTES);
	if (need_values(builder, 1, err) || need_bytes(builder, size, err) || append_valid(builder, 1, err))
		return err->code;
	put_first_offset(builder);
	if (size)
		memcpy(builder->bytes + builder->bytes_size, bytes, size);
	builder->bytes_size += size;
	if (type_offset_width(builder->type) == 4)
		((int32_t *)builder->values)[builder->length + 1] = (int32_t)builder->bytes_size;
	else
		((int64_t *)builder->values)[builder->length + 1] = (int64_t)builder->bytes_size;
	builder->length++;
	return WEIR_OK;
}

int weir_builder_list_end(struct weir_builder *builder, struct weir_error *err)
{
	int64_t end = builder->children[0].length;

	if (builder->type->id == WEIR_FIXED_LIST) {
		if (end != (builder->length + 1) * builder->type->list_size)
			return weir_error_set(err, WEIR_E_INVALID, "a list of %lld items where there must be %d",
					      (long long)(end - builder->length * builder->type->list_size),
					      builder->type->list_size);
		if (append_valid(builder, 1, err))
			return err->code;
		builder->length++;
		return WEIR_OK;
	}
	WEIR_ASSERT(type_offset_width(builder->type) && end >= last_offset(builder));
	if (end > INT32_MAX && type_offset_width(builder->type) == 4)
		return builder_refuse_size(builder->type, err);
	if (need_values(builder, 1, err) || append_valid(builder, 1, err))
		return err->code;
	put_first_offset(builder);
	if (type_offset_width(builder->type) == 4)
		((int32_t *)builder->values)[builder->length + 1] = (int32_t)end;
	else
		((int64_t *)builder->values)[builder->length + 1] = end;
	builder->length++;
	return WEIR_OK;
}

int weir_builder_struct_end(struct weir_builder *builder, struct weir_error *err)
{
	WEIR_ASSERT(builder->type->id == WEIR_STRUCT);
	for (uint32_t i = 0; i < builder->child_count; i++)
		WEIR_ASSERT(builder->children[i].length == builder->length + 1);
	if (append_valid(builder, 1, err))
		return err->code;
	builder->length++;
	return WEIR_OK;
}

int weir_builder_dictionary(struct weir_builder *builder, const struct weir_array *values, struct weir_error *err)
{
	WEIR_ASSERT(builder->type->id == WEIR_DICTIONARY_TYPE && !builder->dictionary);
	if (dictionary_check_codes(builder->type->dictionary_index, values->length, err))
		return err->code;
	builder->dictionary = weir_array_ref(values);
	return WEIR_OK;
}

/* Rows of the array's offsets, moved so that the first begins where the builder's last one ended. */
static void append_offsets(struct weir_builder *builder, const struct weir_array *array, int64_t first_row,
			   int64_t count, int64_t moved)
{
	if (type_offset_width(builder->type) == 4) {
		const int32_t *from = (const int32_t *)array->buffers[1].data + first_row + 1;
		int32_t *to = (int32_t *)builder->values + builder->length + 1;

		for (int64_t i = 0; i < count; i++)
			to[i] = (int32_t)(from[i] + moved);
	} else {
		const int64_t *from = (const int64_t *)array->buffers[1].data + first_row + 1;
		int64_t *to = (int64_t *)builder->values + builder->length + 1;

		for (int64_t i = 0; i < count; i++)
			to[i] = from[i] + moved;
	}
}

static int append_codes(struct weir_builder *builder, const struct weir_array *array, int64_t first_row, int64_t count,
			struct weir_error *err)
{
	const struct weir_type *index = builder->type->dictionary_index, *value = builder->type->dictionary_value;
	uint8_t *to = builder->values + (uint64_t)builder->length * index->byte_width;
	const int64_t *map;

	if (!builder->dictionary && !builder->table)
		builder->dictionary = weir_array_ref(array->dictionary);
	if (!builder->table && (array->dictionary == builder->dictionary ||
				weir_array_equal(array->dictionary, builder->dictionary, true))) {
		memcpy(to, array->buffers[1].data + (uint64_t)first_row * index->byte_width,
		       (uint64_t)count * index->byte_width);
		return WEIR_OK;
	}
	if (!builder->table && dictionary_table_new(builder->account, value, builder->dictionary, &builder->table, err))
		return err->code;
	if (dictionary_table_add(builder->table, array->dictionary, &map, err) ||
	    dictionary_check_codes(index, dictionary_table_count(builder->table), err))
		return err->code;
	dictionary_translate(index, array->buffers[1].data, first_row, count, array->buffers[0].data, map, to);
	return WEIR_OK;
}

static int append_values(struct weir_builder *builder, const struct weir_array *array, int64_t first_row, int64_t count,
			 struct weir_error *err)
{
	const struct weir_type *type = builder->type;
	int64_t begin, end, last, total;

	if (type->id == WEIR_DICTIONARY_TYPE)
		return append_codes(builder, array, first_row, count, err);
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return WEIR_OK;
	case WEIR_LAYOUT_BITS:
		weir_bits_copy(builder->values, builder->length, array->buffers[1].data, first_row, count);
		return WEIR_OK;
	case WEIR_LAYOUT_FIXED:
		if (type->byte_width)
			memcpy(builder->values + (uint64_t)builder->length * type->byte_width,
			       array->buffers[1].data + (uint64_t)first_row * type->byte_width,
			       (uint64_t)count * type->byte_width);
		return WEIR_OK;
	case WEIR_LAYOUT_BYTES:
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (type->id == WEIR_STRUCT || type->id == WEIR_FIXED_LIST) {
		int64_t each = type->id == WEIR_STRUCT ? 1 : type->list_size;

		for (uint32_t i = 0; i < builder->child_count; i++)
			if (weir_builder_array(&builder->children[i], array->children[i], first_row * each,
					       count * each, err))
				return err->code;
		return WEIR_OK;
	}
	last = last_offset(builder);
	begin = offset_at(array, first_row);
	end = offset_at(array, first_row + count);
	if (type->layout == WEIR_LAYOUT_BYTES) {
		if (need_bytes(builder, (size_t)(end - begin), err))
			return err->code;
		if (end > begin)
			memcpy(builder->bytes + builder->bytes_size, array->buffers[2].data + begin,
			       (size_t)(end - begin));
		builder->bytes_size += (size_t)(end - begin);
	} else {
		if (weir_add_overflows(last, end - begin, &total) ||
		    (total > INT32_MAX && type_offset_width(type) == 4))
			return builder_refuse_size(type, err);
		if (weir_builder_array(&builder->children[0], array->children[0], begin, end - begin, err))
			return err->code;
	}
	put_first_offset(builder);
	append_offsets(builder, array, first_row, count, last - begin);
	return WEIR_OK;
}

int weir_builder_array(struct weir_builder *builder, const struct weir_array *array, int64_t offset, int64_t count,
		       struct weir_error *err)
{
	const uint8_t *validity = array->buffers[0].data;
	int64_t first_row = array->offset + offset, nulls = 0;
	enum weir_layout layout = builder->type->layout;

	WEIR_ASSERT(offset >= 0 && count >= 0 && count <= array->length - offset &&
		    array->type->id == builder->type->id);
	if (!count)
		return WEIR_OK;
	if (check_count(builder, count, err))
		return err->code;
	if ((layout != WEIR_LAYOUT_NULL && (layout != WEIR_LAYOUT_NESTED || type_offset_width(builder->type))) &&
	    need_values(builder, count, err))
		return err->code;
	if (layout == WEIR_LAYOUT_NULL)
		nulls = count;
	else if (validity && array->null_count != 0)
		nulls = count - weir_bits_count(validity, first_row, count);
	if (layout == WEIR_LAYOUT_NULL || !nulls) {
		if (append_valid(builder, count, err))
			return err->code;
	} else {
		if (begin_validity(builder, count, err))
			return err->code;
		weir_bits_copy(builder->validity, builder->length, validity, first_row, count);
	}
	if (append_values(builder, array, first_row, count, err))
		return err->code;
	builder->length += count;
	builder->null_count += nulls;
	return WEIR_OK;
}

int weir_builder_settle(struct weir_builder *builder, struct weir_error *err)
{
	for (uint32_t i = 0; i < builder->child_count; i++)
		if (weir_builder_settle(&builder->children[i], err))
			return err->code;
	if (builder->dictionary && !builder->table &&
	    dictionary_table_new(builder->account, builder->type->dictionary_value, builder->dictionary,
				 &builder->table, err))
		return err->code;
	weir_array_unref(builder->dictionary);
	builder->dictionary = NULL;
	return builder->table ? dictionary_table_settle(builder->table, err) : WEIR_OK;
}

void builder_measure(struct weir_builder *builder, const struct weir_array *array, int64_t offset, int64_t count)
{
	const struct weir_type *type = builder->type;
	int64_t first_row = array->offset + offset, begin, end;

	if (!count)
		return;
	builder->length += count;
	/* Only whether there may be nulls matters here. */
	builder->null_count += array->buffers[0].data && array->null_count != 0;
	if (type->id == WEIR_STRUCT || type->id == WEIR_FIXED_LIST) {
		int64_t each = type->id == WEIR_STRUCT ? 1 : type->list_size;

		for (uint32_t i = 0; i < builder->child_count; i++)
			builder_measure(&builder->children[i], array->children[i], first_row * each, count * each);
	} else if (type_offset_width(type)) {
		begin = offset_at(array, first_row);
		end = offset_at(array, first_row + count);
		if (type->layout == WEIR_LAYOUT_BYTES)
			builder->bytes_size += (size_t)(end - begin);
		else
			builder_measure(&builder->children[0], array->children[0], begin, end - begin);
	}
}

int builder_reserve(struct weir_builder *builder, struct weir_error *err)
{
	const struct weir_type *type = builder->type;
	int64_t length = builder->length, nulls = builder->null_count;
	size_t bytes_size = builder->bytes_size, size = 0;

	builder->length = builder->null_count = 0;
	builder->bytes_size = 0;
	if (check_count(builder, length, err))
		return err->code;
	for (uint32_t i = 0; i < builder->child_count; i++) {
		if (type_offset_width(type) == 4 && builder->children[i].length > INT32_MAX)
			return builder_refuse_size(type, err);
		if (builder_reserve(&builder->children[i], err))
			return err->code;
	}
	if (type->layout == WEIR_LAYOUT_BITS)
		size = weir_bits_size(length);
	else if (type->layout == WEIR_LAYOUT_FIXED)
		size = (size_t)length * type->byte_width;
	else if (type_offset_width(type))
		size = ((size_t)length + 1) * type_offset_width(type);
	if (bytes_size > INT32_MAX && type_offset_width(type) == 4)
		return builder_refuse_size(type, err);
	if (nulls && type->layout != WEIR_LAYOUT_NULL &&
	    grow(builder, &builder->validity, &builder->validity_capacity, weir_bits_size(length), true, err))
		return err->code;
	if (size && grow(builder, &builder->values, &builder->values_capacity, size, true, err))
		return err->code;
	if (bytes_size && grow(builder, &builder->bytes, &builder->bytes_capacity, bytes_size, true, err))
		return err->code;
	return WEIR_OK;
}

/* The builder's memory becomes a buffer, without what doubling put on top of it when that is much. */
static int finish_buffer(struct weir_builder *builder, uint8_t **memory, size_t *capacity, uint64_t size,
			 struct weir_buffer *out, struct weir_error *err)
{
	size_t tight = weir_round_up(size ? size : 64, 64);
	uint8_t *data = *memory;

	if (!data) {
		WEIR_ASSERT(size <= sizeof(array_zeros));
		*out = (struct weir_buffer){.data = array_zeros, .size = size};
		return WEIR_OK;
	}
	if (*capacity - tight > tight / 8 + 4096) {
		data = weir_realloc(builder->account, data, *capacity, tight, err);
		if (!data)
			return err->code;
		*capacity = tight;
	}
	*memory = NULL;
	tight = *capacity;
	*capacity = 0;
	return weir_buffer_adopt(builder->account, data, tight, size, out, err);
}

static void clear_tail(uint8_t *bits, int64_t length)
{
	if (length & 7)
		weir_bits_fill(bits, length, 8 - (length & 7), false);
}

static int finish_buffers(struct weir_builder *builder, struct weir_array *array, struct weir_error *err)
{
	const struct weir_type *type = builder->type;
	uint64_t size = 0;

	if (builder->null_count && type->layout != WEIR_LAYOUT_NULL) {
		clear_tail(builder->validity, builder->length);
		if (finish_buffer(builder, &builder->validity, &builder->validity_capacity,
				  weir_bits_size(builder->length), &array->buffers[0], err))
			return err->code;
	}
	if (type->layout == WEIR_LAYOUT_BITS) {
		size = weir_bits_size(builder->length);
		if (builder->values)
			clear_tail(builder->values, builder->length);
	} else if (type->layout == WEIR_LAYOUT_FIXED) {
		size = (uint64_t)builder->length * type->byte_width;
	} else if (type_offset_width(type)) {
		size = ((uint64_t)builder->length + 1) * type_offset_width(type);
		if (builder->values)
			put_first_offset(builder);
	} else {
		return WEIR_OK;
	}
	if (finish_buffer(builder, &builder->values, &builder->values_capacity, size, &array->buffers[1], err))
		return err->code;
	if (type->layout != WEIR_LAYOUT_BYTES)
		return WEIR_OK;
	return finish_buffer(builder, &builder->bytes, &builder->bytes_capacity, builder->bytes_size,
			     &array->buffers[2], err);
}

/* No row was ever appended: the values are empty, but they must be there. */
static struct weir_array *empty_dictionary(struct weir_builder *builder, struct weir_error *err)
{
	struct weir_builder values = {0};
	struct weir_array *array = NULL;

	if (!weir_builder_init(&values, builder->type->dictionary_value, builder->account, err))
		array = weir_builder_finish(&values, err);
	weir_builder_release(&values);
	return array;
}

static int finish_dictionary(struct weir_builder *builder, struct weir_array *array, struct weir_error *err)
{
	if (builder->table)
		array->dictionary = dictionary_table_finish(builder->table, err);
	else if (builder->dictionary)
		array->dictionary = weir_array_ref(builder->dictionary);
	else
		array->dictionary = empty_dictionary(builder, err);
	return array->dictionary ? WEIR_OK : err->code;
}

struct weir_array *weir_builder_finish(struct weir_builder *builder, struct weir_error *err)
{
	struct weir_array *array = weir_array_new(builder->account, builder->type, err);

	if (!array)
		goto fail;
	array->length = builder->length;
	array->null_count = builder->null_count;
	for (uint32_t i = 0; i < builder->child_count; i++) {
		array->children[i] = weir_builder_finish(&builder->children[i], err);
		if (!array->children[i])
			goto fail;
	}
	if (finish_buffers(builder, array, err))
		goto fail;
	if (builder->type->id == WEIR_DICTIONARY_TYPE && finish_dictionary(builder, array, err))
		goto fail;
	release_memory(builder);
	return array;
fail:
	/* The builder has given away part of itself: all that is left to do with it is to release it. */
	weir_array_unref(array);
	return NULL;
}
