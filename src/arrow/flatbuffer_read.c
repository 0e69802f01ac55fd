/* Reading: nothing is verified beforehand, everything where it is touched. Positions are 32-bit, sums are made in
 * 64. */
#include "base/checked.h"
#include "arrow/flatbuffer_impl.h"

#include <string.h>

enum {
	TABLE_BYTES_MIN = 4, /* a table costs its parent at least an offset */
	TEXT_SHARE_MAX = 16, /* how often, on average, a message's bytes may be read as text */
	TEXT_FREE_BYTES = 4096,
};

void flat_fault(struct flat *flat, uint32_t at, const char *fault)
{
	if (flat->fault)
		return;
	flat->fault = fault;
	flat->fault_at = at;
}

int flat_check(const struct flat *flat, const char *what, struct weir_error *err)
{
	if (!flat->fault)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_DATA, "the %s is damaged: %s at byte %u of its %u bytes", what, flat->fault,
			      flat->fault_at, flat->size);
}

static uint16_t load_u16(const struct flat *flat, uint32_t at)
{
	uint16_t value;

	memcpy(&value, flat->bytes + at, sizeof(value));
	return value;
}

static uint32_t load_u32(const struct flat *flat, uint32_t at)
{
	uint32_t value;

	memcpy(&value, flat->bytes + at, sizeof(value));
	return value;
}

/* Follows the offset at `at`, behind whose target there must be four bytes at least. 0: there are not. */
static uint32_t follow(struct flat *flat, uint32_t at)
{
	uint64_t target = (uint64_t)at + load_u32(flat, at);

	if (target == at || weir_range_outside(target, 4, flat->size)) {
		flat_fault(flat, at, "an offset points outside");
		return 0;
	}
	return (uint32_t)target;
}

static bool open_table(struct flat *flat, uint32_t at, struct flat_table *out)
{
	int64_t vtable = (int64_t)at - (int32_t)load_u32(flat, at);

	*out = (struct flat_table){0};
	if (vtable < 0 || weir_range_outside((uint64_t)vtable, 4, flat->size)) {
		flat_fault(flat, at, "a table's description lies outside");
		return false;
	}
	*out = (struct flat_table){.flat = flat,
				   .at = at,
				   .vtable = (uint32_t)vtable,
				   .vtable_size = load_u16(flat, (uint32_t)vtable),
				   .size = load_u16(flat, (uint32_t)vtable + 2)};
	if (out->vtable_size < 4 || out->size < 4 || weir_range_outside(out->vtable, out->vtable_size, flat->size) ||
	    weir_range_outside(at, out->size, flat->size)) {
		*out = (struct flat_table){0};
		flat_fault(flat, at, "a table does not fit");
		return false;
	}
	return true;
}

void flat_open(struct flat *flat, const uint8_t *bytes, uint32_t size, struct flat_table *root)
{
	uint32_t at;

	*flat = (struct flat){.bytes = bytes,
			      .size = size,
			      .tables_left = size / TABLE_BYTES_MIN,
			      .text_left = (uint64_t)size * TEXT_SHARE_MAX + TEXT_FREE_BYTES};
	*root = (struct flat_table){0};
	if (size < 8) {
		flat_fault(flat, 0, "it ends early");
		return;
	}
	at = follow(flat, 0);
	if (at)
		open_table(flat, at, root);
}

/* Where a field's `width` bytes lie; 0 when it is absent. */
static uint32_t field_at(const struct flat_table *table, uint32_t field, uint32_t width)
{
	uint32_t slot = 4 + 2 * field, offset;

	if (!table->flat || table->flat->fault || slot + 2 > table->vtable_size)
		return 0;
	offset = load_u16(table->flat, table->vtable + slot);
	if (offset == 0)
		return 0;
	if (offset < 4 || offset + width > table->size) {
		flat_fault(table->flat, table->vtable + slot, "a field lies outside its table");
		return 0;
	}
	return table->at + offset;
}

uint8_t flat_u8(const struct flat_table *table, uint32_t field, uint8_t absent)
{
	uint32_t at = field_at(table, field, 1);

	return at ? table->flat->bytes[at] : absent;
}

int16_t flat_i16(const struct flat_table *table, uint32_t field, int16_t absent)
{
	uint32_t at = field_at(table, field, 2);

	return at ? (int16_t)load_u16(table->flat, at) : absent;
}

int32_t flat_i32(const struct flat_table *table, uint32_t field, int32_t absent)
{
	uint32_t at = field_at(table, field, 4);

	return at ? (int32_t)load_u32(table->flat, at) : absent;
}

int64_t flat_i64(const struct flat_table *table, uint32_t field, int64_t absent)
{
	uint32_t at = field_at(table, field, 8);
	int64_t value;

	if (!at)
		return absent;
	memcpy(&value, table->flat->bytes + at, sizeof(value));
	return value;
}

/* Counted where a parent names its children, before anyone makes room for them. */
static bool take_tables(struct flat *flat, uint32_t at, uint32_t count)
{
	if (count > flat->tables_left) {
		flat_fault(flat, at, "more tables than its size allows");
		return false;
	}
	flat->tables_left -= count;
	return true;
}

bool flat_child(const struct flat_table *table, uint32_t field, struct flat_table *out)
{
	uint32_t at = field_at(table, field, 4);

	*out = (struct flat_table){0};
	if (at && !take_tables(table->flat, at, 1))
		return false;
	if (at)
		at = follow(table->flat, at);
	return at && open_table(table->flat, at, out);
}

struct flat_vector flat_items(const struct flat_table *table, uint32_t field, uint32_t item_size)
{
	uint32_t at = field_at(table, field, 4), count;

	if (at)
		at = follow(table->flat, at);
	if (!at)
		return (struct flat_vector){0};
	count = load_u32(table->flat, at);
	if (weir_range_outside((uint64_t)at + 4, (uint64_t)count * item_size, table->flat->size)) {
		flat_fault(table->flat, at, "a vector does not fit");
		return (struct flat_vector){0};
	}
	return (struct flat_vector){
		.flat = table->flat, .at = at + 4, .count = count, .items = count ? table->flat->bytes + at + 4 : NULL};
}

struct flat_vector flat_tables(const struct flat_table *table, uint32_t field)
{
	struct flat_vector vector = flat_items(table, field, 4);

	if (vector.count && !take_tables(vector.flat, vector.at, vector.count))
		return (struct flat_vector){0};
	return vector;
}

bool flat_item_table(const struct flat_vector *vector, uint32_t index, struct flat_table *out)
{
	uint32_t at = 0;

	*out = (struct flat_table){0};
	if (vector->flat && !vector->flat->fault && index < vector->count)
		at = follow(vector->flat, vector->at + 4 * index);
	return at && open_table(vector->flat, at, out);
}

bool flat_string(const struct flat_table *table, uint32_t field, const char **out, uint32_t *size)
{
	struct flat_vector text = flat_items(table, field, 1);

	*out = "";
	*size = 0;
	if (!text.flat)
		return false;
	if (text.at + (uint64_t)text.count >= text.flat->size || text.flat->bytes[text.at + text.count] != 0) {
		flat_fault(text.flat, text.at, "a text does not end with NUL");
		return false;
	}
	if (text.count > text.flat->text_left) {
		flat_fault(text.flat, text.at, "more text than its size allows");
		return false;
	}
	text.flat->text_left -= text.count;
	*out = (const char *)text.flat->bytes + text.at;
	*size = text.count;
	return true;
}
