/* Writing: each table is preceded by a vtable of its own. Sharing equal vtables would save a few dozen bytes a message
 * and need a memory of what was written. */
#include "base/checked.h"
#include "arrow/flatbuffer_impl.h"

#include <string.h>

static void append(struct flat_builder *builder, const void *bytes, uint64_t size)
{
	if (builder->out && size) {
		WEIR_ASSERT(!weir_range_outside(builder->size, size, builder->capacity));
		if (bytes)
			memcpy(builder->out + builder->size, bytes, size);
		else
			memset(builder->out + builder->size, 0, size);
	}
	builder->size += size;
}

/* Zeroes until size ≡ phase (mod align). */
static void pad_to(struct flat_builder *builder, uint32_t align, uint32_t phase)
{
	append(builder, NULL, (phase - builder->size) & (align - 1));
}

void flat_pad(struct flat_builder *builder, uint32_t align)
{
	pad_to(builder, align, 0);
}

static void store(struct flat_builder *builder, uint64_t at, const void *bytes, uint32_t size)
{
	if (builder->out) {
		WEIR_ASSERT(!weir_range_outside(at, size, builder->size));
		memcpy(builder->out + at, bytes, size);
	}
}

static void store_offset(struct flat_builder *builder, uint64_t at, uint64_t target)
{
	uint32_t offset = (uint32_t)(target - at);

	WEIR_ASSERT(target > at);
	store(builder, at, &offset, sizeof(offset));
}

void flat_begin(struct flat_builder *builder, uint8_t *out, uint64_t capacity)
{
	*builder = (struct flat_builder){.out = out, .capacity = capacity};
	append(builder, NULL, 4);
}

uint64_t flat_add_table(struct flat_builder *builder, const struct flat_layout *layout, uint32_t present)
{
	uint16_t vtable[2 + sizeof(layout->widths)] = {0};
	uint16_t table_size = 4, vtable_size = (uint16_t)(4 + 2 * layout->count);
	bool is_root = builder->size == 4;
	uint64_t vtable_at, at;
	int32_t back;

	/* Widest first: with the first field on a multiple of 8 there are no holes. */
	for (uint32_t width = 8; width > 0; width /= 2) {
		for (uint32_t i = 0; i < layout->count; i++) {
			if (layout->widths[i] != width || !(present >> i & 1))
				continue;
			vtable[2 + i] = table_size;
			table_size = (uint16_t)(table_size + width);
		}
	}
	vtable[0] = vtable_size;
	vtable[1] = table_size;

	pad_to(builder, 2, 0);
	vtable_at = builder->size;
	append(builder, vtable, vtable_size);
	pad_to(builder, 8, 4);
	at = builder->size;
	back = (int32_t)(at - vtable_at);
	append(builder, &back, sizeof(back));
	append(builder, NULL, table_size - 4u);
	if (is_root)
		store_offset(builder, 0, at);
	return at;
}

/* Where a field of a written table lies. */
static uint64_t field_at(const struct flat_builder *builder, uint64_t table, uint32_t field)
{
	int32_t back;
	uint16_t offset;

	memcpy(&back, builder->out + table, sizeof(back));
	memcpy(&offset, builder->out + table - back + 4 + 2 * field, sizeof(offset));
	WEIR_ASSERT(offset != 0);
	return table + offset;
}

void flat_set(struct flat_builder *builder, uint64_t table, const struct flat_layout *layout, uint32_t field,
	      int64_t value)
{
	/* Little-endian: the low bytes come first. */
	if (builder->out)
		store(builder, field_at(builder, table, field), &value, layout->widths[field]);
}

void flat_link(struct flat_builder *builder, uint64_t table, uint32_t field, uint64_t target)
{
	if (builder->out)
		store_offset(builder, field_at(builder, table, field), target);
}

void flat_link_item(struct flat_builder *builder, uint64_t vector, uint32_t index, uint64_t target)
{
	store_offset(builder, vector + 4 + 4 * (uint64_t)index, target);
}

uint64_t flat_add_vector(struct flat_builder *builder, uint32_t count, uint32_t item_size, uint32_t item_align)
{
	uint64_t at;

	pad_to(builder, item_align, item_align - 4);
	at = builder->size;
	append(builder, &count, sizeof(count));
	append(builder, NULL, (uint64_t)count * item_size);
	return at;
}

uint64_t flat_add_string(struct flat_builder *builder, const void *text, uint32_t size)
{
	uint64_t at;

	pad_to(builder, 4, 0);
	at = builder->size;
	append(builder, &size, sizeof(size));
	append(builder, text, size);
	append(builder, NULL, 1);
	return at;
}
