/* flatbuffer: the little of FlatBuffers that Arrow's messages need, read with distrust and written in one direction.
 *
 * Reading: open, then ask tables for fields. Every offset, vtable, vector and string is checked against the bytes when
 * it is touched; the first thing found wrong is kept in the struct, and from then on every field reads as absent and
 * every vector as empty. So a parser asks for all it wants and calls flat_check once, before it believes the answers.
 *
 * Writing: parents before children, which suits the format's forward offsets. A builder without memory only counts, so
 * the same calls made twice first measure and then write, straight into their place, without an intermediate copy.
 *
 *      u32 ──────────▶ root table                                     string, vector
 *     ┌──────┬────────────────────────┬──────────┬────────┬────────┬───────┬───────────────┐
 *     │ root │ vtable: size, size of  │ i32 back │ field  │ field  │ count │ items …       │
 *     │      │ table, u16 per field   │ to vtable│        │ u32 ───┼─▶     │ (NUL)         │
 *     └──────┴────────────────────────┴──────────┴────────┴────────┴───────┴───────────────┘
 *
 * Threads: none of this is shared.
 */
#ifndef WEIR_ARROW_FLATBUFFER_IMPL_H
#define WEIR_ARROW_FLATBUFFER_IMPL_H

#include "base/error.h"

#include <stdbool.h>

/* Tables may share children, so a small message can describe an enormous tree. An honest message visits each of its
 * tables about once and its texts a few times; what passes these bounds is refused. */
struct flat {
	const uint8_t *bytes;
	uint32_t size;
	uint32_t tables_left;
	uint64_t text_left;
	const char *fault; /* NULL: nothing wrong so far */
	uint32_t fault_at;
};

/* Absent (flat NULL): every field has its default. */
struct flat_table {
	struct flat *flat;
	uint32_t at, vtable;
	uint16_t vtable_size, size;
};

struct flat_vector {
	struct flat *flat;
	uint32_t at; /* of the first item */
	uint32_t count;
	const uint8_t *items; /* count × item_size bytes, at any alignment; NULL when empty */
};

/* Starts over `size` bytes and finds the root table. */
void flat_open(struct flat *flat, const uint8_t *bytes, uint32_t size, struct flat_table *root);
/* WEIR_E_DATA, naming `what` and the byte in it, when anything asked so far was damaged. */
int flat_check(const struct flat *flat, const char *what, struct weir_error *err);
/* Marks the message as damaged from outside, for rules that Arrow adds. */
void flat_fault(struct flat *flat, uint32_t at, const char *fault);

uint8_t flat_u8(const struct flat_table *table, uint32_t field, uint8_t absent);
int16_t flat_i16(const struct flat_table *table, uint32_t field, int16_t absent);
int32_t flat_i32(const struct flat_table *table, uint32_t field, int32_t absent);
int64_t flat_i64(const struct flat_table *table, uint32_t field, int64_t absent);
/* False, and an absent table, when the field is not there. */
bool flat_child(const struct flat_table *table, uint32_t field, struct flat_table *out);
/* The string lies in the message, NUL-terminated; it may hold NULs too, hence its size. False: not there (then ""). */
bool flat_string(const struct flat_table *table, uint32_t field, const char **out, uint32_t *size);
/* Absent gives count 0. */
struct flat_vector flat_items(const struct flat_table *table, uint32_t field, uint32_t item_size);
/* A vector of tables, then each by number. */
struct flat_vector flat_tables(const struct flat_table *table, uint32_t field);
bool flat_item_table(const struct flat_vector *vector, uint32_t index, struct flat_table *out);

/* out NULL: counts only. */
struct flat_builder {
	uint8_t *out;
	uint64_t size, capacity;
};

/* Bytes of each field of a table, by field number. */
struct flat_layout {
	uint8_t count;
	uint8_t widths[7];
};

/* `out` must be aligned to 8 where it finally lies. Writes the root offset, which the first table then fills. */
void flat_begin(struct flat_builder *builder, uint8_t *out, uint64_t capacity);
/* The table with those fields whose bit is set in `present`, all zero. Returns its position. */
uint64_t flat_add_table(struct flat_builder *builder, const struct flat_layout *layout, uint32_t present);
void flat_set(struct flat_builder *builder, uint64_t table, const struct flat_layout *layout, uint32_t field,
	      int64_t value);
/* Points a field, or an item of a vector of offsets, to a table, vector or string written later. */
void flat_link(struct flat_builder *builder, uint64_t table, uint32_t field, uint64_t target);
void flat_link_item(struct flat_builder *builder, uint64_t vector, uint32_t index, uint64_t target);
/* All-zero items; they begin at position + 4, aligned to `item_align` (4 or 8). */
uint64_t flat_add_vector(struct flat_builder *builder, uint32_t count, uint32_t item_size, uint32_t item_align);
uint64_t flat_add_string(struct flat_builder *builder, const void *text, uint32_t size);
/* Zeroes up to a multiple of `align`. */
void flat_pad(struct flat_builder *builder, uint32_t align);

#endif
