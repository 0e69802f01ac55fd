#include "ops/exchange/rows.h"

#include <string.h>

enum { HEAP_PAGE_MIN = 16 << 10, HEAP_PAGE_MAX = 1 << 20, LIST_MIN = 16 };

/* ---- the layout ---- */

bool weir_row_type_is_key(const struct weir_type *type)
{
	type = weir_type_values(type);
	if (type->layout != WEIR_LAYOUT_NESTED)
		return true;
	if (type->id != WEIR_STRUCT)
		return false;
	for (uint32_t i = 0; i < type->field_count; i++) {
		if (!weir_row_type_is_key(type->fields[i].type))
			return false;
	}
	return true;
}

static uint32_t width_of(const struct weir_type *type)
{
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return 0;
	case WEIR_LAYOUT_BITS:
		return 1;
	case WEIR_LAYOUT_FIXED:
		return type->byte_width;
	default:
		return sizeof(struct weir_view);
	}
}

static uint32_t align_of(uint32_t width)
{
	return width >= 8 && width % 8 == 0 ? 8 : width == 4 || width == 2 ? width : 1;
}

static uint32_t round_up(uint32_t value, uint32_t to)
{
	return (value + to - 1) / to * to;
}

int weir_row_layout_init(struct weir_row_layout *layout, struct weir_account *account,
			 const struct weir_type *const *types, uint32_t cell_count, uint32_t key_count,
			 uint32_t flags_bytes, uint32_t payload_bytes, struct weir_error *err)
{
	static const uint32_t aligns[] = {8, 4, 2, 1};
	uint32_t at;

	*layout = (struct weir_row_layout){.account = account, .cell_count = cell_count, .key_count = key_count};
	layout->flags_bytes = flags_bytes;
	layout->cells = weir_alloc_zero(account, (cell_count + 1) * sizeof(*layout->cells), err);
	layout->loose = layout->cells ? weir_alloc_zero(account, (flags_bytes + 1) * sizeof(*layout->loose), err)
				      : NULL;
	if (!layout->loose) {
		weir_row_layout_release(layout);
		return err->code;
	}
	at = sizeof(uint64_t);
	layout->validity_bytes = (cell_count + 7) / 8;
	if (layout->validity_bytes != 1 || flags_bytes) {
		layout->validity_offset = at;
		layout->flags_offset = at += layout->validity_bytes;
		at += flags_bytes;
	}
	for (uint32_t i = 0; i < cell_count; i++) {
		layout->cells[i].type = weir_type_values(types[i]);
		layout->cells[i].width = width_of(layout->cells[i].type);
		layout->cells[i].has_bytes = layout->cells[i].type->layout == WEIR_LAYOUT_BYTES ||
					     layout->cells[i].type->layout == WEIR_LAYOUT_NESTED;
		layout->has_bytes |= layout->cells[i].has_bytes;
		layout->cells[i].offset = UINT32_MAX;
	}
	if (key_count)
		at = round_up(at, 8);
	layout->key_offset = at;
	for (uint32_t a = 0; a < 4; a++) {
		for (uint32_t i = 0; i < key_count; i++) {
			if (align_of(layout->cells[i].width) != aligns[a])
				continue;
			layout->cells[i].offset = at;
			at += layout->cells[i].width;
		}
	}
	layout->key_bytes = at - layout->key_offset;
	/* Narrow cells fill the gap before the wide ones, which come in front of what is left of the narrow. */
	for (uint32_t i = key_count; i < cell_count; i++) {
		uint32_t width = layout->cells[i].width, align = align_of(width), place = round_up(at, align);

		if (align == 8 || place + width > round_up(at, 8))
			continue;
		layout->cells[i].offset = place;
		at = place + width;
	}
	for (uint32_t a = 0; a < 4; a++) {
		for (uint32_t i = 0; i < cell_count; i++) {
			if (layout->cells[i].offset != UINT32_MAX || align_of(layout->cells[i].width) != aligns[a])
				continue;
			layout->cells[i].offset = at = round_up(at, aligns[a]);
			at += layout->cells[i].width;
		}
	}
	layout->payload_offset = payload_bytes ? round_up(at, 8) : at;
	layout->payload_bytes = payload_bytes;
	layout->row_bytes = round_up(layout->payload_offset + payload_bytes, 8);
	return WEIR_OK;
}

void weir_row_layout_release(struct weir_row_layout *layout)
{
	if (layout->account) {
		weir_free(layout->account, layout->cells,
			  layout->cells ? (layout->cell_count + 1) * sizeof(*layout->cells) : 0);
		weir_free(layout->account, layout->loose,
			  layout->loose ? (layout->flags_bytes + 1) * sizeof(*layout->loose) : 0);
	}
	*layout = (struct weir_row_layout){0};
}

void weir_row_layout_loose(struct weir_row_layout *layout, uint32_t offset, uint32_t flags, uint8_t flag)
{
	WEIR_ASSERT(layout->loose_count < layout->flags_bytes);
	layout->loose[layout->loose_count++] = (struct weir_row_loose){.offset = offset, .flags = flags, .flag = flag};
}

/* ---- writing rows ---- */

static inline bool bit_of(const uint64_t *bits, uint32_t row)
{
	return bits[row >> 6] >> (row & 63) & 1;
}

static inline __attribute__((always_inline)) void fill_width(const struct weir_row_input *input, const uint8_t *values,
							     const uint32_t *which, uint32_t count,
							     uint8_t *const *rows, uint32_t offset, uint32_t width)
{
	for (uint32_t k = 0; k < count; k++)
		memcpy(rows[which[k]] + offset, values + (size_t)weir_row_input_row(input, which[k]) * width, width);
}

static void fill_fixed(const struct weir_row_input *input, const struct weir_row_cell *cell, const uint8_t *values,
		       const uint32_t *which, uint32_t count, uint8_t *const *rows)
{
	switch (cell->width) {
	case 1:
		fill_width(input, values, which, count, rows, cell->offset, 1);
		break;
	case 4:
		fill_width(input, values, which, count, rows, cell->offset, 4);
		break;
	case 8:
		fill_width(input, values, which, count, rows, cell->offset, 8);
		break;
	default:
		fill_width(input, values, which, count, rows, cell->offset, cell->width);
	}
}

static void fill_nulls(const struct weir_row_input *input, uint32_t c, const uint32_t *which, uint32_t count,
		       uint8_t *const *rows)
{
	const struct weir_row_cell *cell = &input->layout->cells[c];
	const uint64_t *validity = input->columns[c].validity;
	uint32_t place = input->layout->validity_offset + (c >> 3);

	if (!validity)
		return;
	for (uint32_t k = 0; k < count; k++) {
		uint8_t *row = rows[which[k]];

		if (bit_of(validity, weir_row_input_row(input, which[k])))
			continue;
		row[place] &= (uint8_t) ~(1u << (c & 7));
		memset(row + cell->offset, 0, cell->width);
	}
}

/* All valid, all else zero; cells come over it. */
static inline void fill_head(const struct weir_row_layout *layout, uint8_t *row, uint64_t hash)
{
	if (!layout->validity_offset)
		hash |= 0xff;
	memcpy(row, &hash, sizeof(hash));
	if (layout->validity_offset && layout->validity_bytes + layout->flags_bytes <= sizeof(uint64_t)) {
		uint64_t head = layout->validity_bytes < 8 ? ((uint64_t)1 << 8 * layout->validity_bytes) - 1
							   : UINT64_MAX;

		/* Every row has these eight bytes, if not of its head then of its first cells or its payload. */
		if (layout->row_bytes > layout->validity_offset)
			memcpy(row + layout->validity_offset, &head, sizeof(head));
	} else if (layout->validity_offset) {
		memset(row + layout->validity_offset, 0xff, layout->validity_bytes);
		memset(row + layout->flags_offset, 0, layout->flags_bytes);
	}
	for (uint32_t at = layout->payload_offset; at < layout->payload_offset + layout->payload_bytes; at += 8)
		memset(row + at, 0, 8);
}

void weir_rows_fill(const struct weir_row_input *input, const uint32_t *which, uint32_t count, uint8_t *const *rows,
		    uint8_t *const *tails)
{
	const struct weir_row_layout *layout = input->layout;
	uint8_t *ends[WEIR_VECTOR_ROWS];

	for (uint32_t k = 0; k < count; k++) {
		uint8_t *row = rows[which[k]];

		fill_head(layout, row, input->hashes[which[k]]);
		if (layout->has_bytes)
			ends[k] = tails[which[k]];
	}
	for (uint32_t c = 0; c < layout->cell_count; c++) {
		const struct weir_row_cell *cell = &layout->cells[c];
		const struct weir_row_column *column = &input->columns[c];

		if (!cell->has_bytes) {
			if (cell->width)
				fill_fixed(input, cell, column->values, which, count, rows);
			fill_nulls(input, c, which, count, rows);
			continue;
		}
		for (uint32_t k = 0; k < count; k++) {
			uint32_t row = weir_row_input_row(input, which[k]);
			struct weir_view view = {0};

			if (!column->validity || bit_of(column->validity, row))
				view = ((const struct weir_view *)column->values)[row];
			if (view.size > WEIR_VIEW_INLINE) {
				memcpy(ends[k], view.data, view.size);
				view.data = ends[k];
				ends[k] += view.size;
			}
			weir_row_view_put(rows[which[k]] + cell->offset, view);
		}
		fill_nulls(input, c, which, count, rows);
	}
}

/* ---- equality ---- */

static bool views_equal(const uint8_t *cell, const struct weir_view *view)
{
	uint64_t a[2], b[2];

	memcpy(a, cell, 16);
	memcpy(b, view, 16);
	if (a[0] != b[0])
		return false;
	return view->size <= WEIR_VIEW_INLINE ? a[1] == b[1] : !memcmp(cell + (intptr_t)a[1], view->data, view->size);
}

/* Whether one row's cell is what the input has: the general case. */
static bool cell_equal(const struct weir_row_input *input, uint32_t c, uint32_t i, const uint8_t *row)
{
	const struct weir_row_cell *cell = &input->layout->cells[c];
	const struct weir_row_column *column = &input->columns[c];
	uint32_t at = weir_row_input_row(input, i);
	bool valid = !column->validity || bit_of(column->validity, at);

	if (valid != weir_row_valid(input->layout, row, c))
		return false;
	if (!valid)
		return true;
	return cell->has_bytes ? views_equal(row + cell->offset, (const struct weir_view *)column->values + at)
			       : !memcmp(row + cell->offset, column->values + (size_t)at * cell->width, cell->width);
}

/* Splits which[] by a condition on i and its row, without branches. */
#define SPLIT(condition)                                                                                               \
	for (uint32_t k = 0; k < count; k++) {                                                                         \
		uint32_t i = which[k];                                                                                 \
		const uint8_t *row = rows[i];                                                                          \
		bool equal = (condition);                                                                              \
                                                                                                                       \
		which[kept] = i;                                                                                       \
		unequal[others] = i;                                                                                   \
		kept += equal;                                                                                         \
		others += !equal;                                                                                      \
	}

static inline uint64_t load64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline uint32_t load32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

uint32_t weir_rows_equal(const struct weir_row_input *input, uint32_t *which, uint32_t count, uint8_t *const *rows,
			 uint32_t *unequal, uint32_t *unequal_count)
{
	const struct weir_row_layout *layout = input->layout;
	uint32_t others = *unequal_count;

	for (uint32_t c = 0; c < layout->key_count && count; c++) {
		const struct weir_row_cell *cell = &layout->cells[c];
		const uint8_t *values = input->columns[c].values;
		uint32_t kept = 0, offset = cell->offset;

		if (!input->columns[c].validity && cell->width == 8)
			SPLIT((weir_row_valid(layout, row, c) &
			       (int)(load64(row + offset) ==
				     load64(values + (size_t)weir_row_input_row(input, i) * 8))))
		else if (!input->columns[c].validity && cell->width == 4)
			SPLIT((weir_row_valid(layout, row, c) &
			       (int)(load32(row + offset) ==
				     load32(values + (size_t)weir_row_input_row(input, i) * 4))))
		else
			SPLIT(cell_equal(input, c, i, row))
		count = kept;
	}
	*unequal_count = others;
	return count;
}

bool weir_row_keys_equal(const struct weir_row_layout *layout, const uint8_t *a, const uint8_t *b)
{
	for (uint32_t c = 0; c < layout->key_count; c++) {
		const struct weir_row_cell *cell = &layout->cells[c];
		bool valid = weir_row_valid(layout, a, c);

		if (valid != weir_row_valid(layout, b, c))
			return false;
		if (!valid)
			continue;
		if (!cell->has_bytes) {
			if (cell->width == 8
				    ? *(const uint64_t *)(a + cell->offset) != *(const uint64_t *)(b + cell->offset)
				    : memcmp(a + cell->offset, b + cell->offset, cell->width))
				return false;
			continue;
		}
		struct weir_view view = weir_row_view(b + cell->offset);

		if (!views_equal(a + cell->offset, &view))
			return false;
	}
	return true;
}

static bool key_cells_same(const struct weir_row_layout *layout, const uint8_t *row,
			   const struct weir_row_layout *from_layout, const uint8_t *from)
{
	for (uint32_t c = 0; c < layout->key_count; c++) {
		const struct weir_row_cell *cell = &layout->cells[c];
		const uint8_t *mine = row + cell->offset, *other = from + from_layout->cells[c].offset;

		if (cell->has_bytes) {
			struct weir_view view = weir_row_view(other);

			if (!views_equal(mine, &view))
				return false;
		} else if (memcmp(mine, other, cell->width)) {
			return false;
		}
	}
	return true;
}

static inline uint8_t key_validity(const struct weir_row_layout *layout, const uint8_t *row)
{
	return (uint8_t)(row[layout->validity_offset] & ((1u << layout->key_count) - 1));
}

bool weir_row_keys_same(const struct weir_row_layout *layout, const uint8_t *row,
			const struct weir_row_layout *from_layout, const uint8_t *from)
{
	const uint8_t *mine = row + layout->key_offset, *other = from + from_layout->key_offset;
	uint32_t at = 0;

	if (key_validity(layout, row) != key_validity(from_layout, from))
		return false;
	/* A null is zero, and so is what a short string leaves of its cell. */
	for (; at + 8 <= layout->key_bytes && load64(mine + at) == load64(other + at); at += 8)
		;
	if (at == layout->key_bytes)
		return true;
	if (at + 8 > layout->key_bytes && !memcmp(mine + at, other + at, layout->key_bytes - at))
		return true;
	return layout->has_bytes && key_cells_same(layout, row, from_layout, from);
}

/* ---- rows to rows ---- */

/* What a field of a row stands for goes to `tail`, and the copy's field stands for that. Returns where it ends. */
static uint8_t *copy_tail(const uint8_t *from, uint8_t *to, uint8_t *tail)
{
	struct weir_view view = weir_row_view(from);

	if (view.size <= WEIR_VIEW_INLINE)
		return tail;
	memcpy(tail, view.data, view.size);
	view.data = tail;
	weir_row_view_put(to, view);
	return tail + view.size;
}

uint64_t weir_row_key_tail_bytes(const struct weir_row_layout *layout, const uint8_t *row)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; layout->has_bytes && c < layout->key_count; c++) {
		if (layout->cells[c].has_bytes && load32(row + layout->cells[c].offset) > WEIR_VIEW_INLINE)
			bytes += load32(row + layout->cells[c].offset);
	}
	return bytes;
}

void weir_row_key_copy(const struct weir_row_layout *layout, uint8_t *row, uint8_t *tail,
		       const struct weir_row_layout *from_layout, const uint8_t *from)
{
	memset(row, 0, layout->row_bytes);
	memcpy(row, from, sizeof(uint64_t));
	row[layout->validity_offset] = key_validity(from_layout, from);
	memcpy(row + layout->key_offset, from + from_layout->key_offset, layout->key_bytes);
	for (uint32_t c = 0; layout->has_bytes && c < layout->key_count; c++) {
		if (layout->cells[c].has_bytes)
			tail = copy_tail(from + from_layout->cells[c].offset, row + layout->cells[c].offset, tail);
	}
}

uint64_t weir_row_tail_bytes(const struct weir_row_layout *layout, const uint8_t *row)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; layout->has_bytes && c < layout->cell_count; c++) {
		uint32_t size;

		if (!layout->cells[c].has_bytes)
			continue;
		memcpy(&size, row + layout->cells[c].offset, sizeof(size));
		bytes += size > WEIR_VIEW_INLINE ? size : 0;
	}
	for (uint32_t i = 0; i < layout->loose_count; i++) {
		const struct weir_row_loose *loose = &layout->loose[i];

		if (row[loose->flags] & loose->flag)
			bytes += load32(row + loose->offset);
	}
	return bytes;
}

void weir_row_copy(const struct weir_row_layout *layout, const uint8_t *from, uint8_t *to, uint8_t *tail)
{
	memcpy(to, from, layout->row_bytes);
	for (uint32_t c = 0; layout->has_bytes && c < layout->cell_count; c++) {
		uint32_t offset = layout->cells[c].offset;

		if (layout->cells[c].has_bytes)
			tail = copy_tail(from + offset, to + offset, tail);
	}
	for (uint32_t i = 0; i < layout->loose_count; i++) {
		const struct weir_row_loose *loose = &layout->loose[i];

		if (from[loose->flags] & loose->flag)
			tail = copy_tail(from + loose->offset, to + loose->offset, tail);
	}
}

/* ---- rows to columns ---- */

static int take_validity(const struct weir_row_layout *layout, uint32_t cell, const uint8_t *const *rows,
			 uint32_t count, struct weir_arena *arena, struct weir_column *out, struct weir_error *err)
{
	uint32_t i = 0;
	uint64_t *words;

	/* Mostly there are none. */
	while (i < count && rows[i] && weir_row_valid(layout, rows[i], cell))
		i++;
	if (i == count)
		return WEIR_OK;
	words = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*words), err);
	if (!words)
		return err->code;
	for (i = 0; i < count; i++)
		words[i >> 6] |= (uint64_t)(rows[i] && weir_row_valid(layout, rows[i], cell)) << (i & 63);
	out->validity = words;
	return WEIR_OK;
}

static inline __attribute__((always_inline)) void take_width(const uint8_t *const *rows, uint32_t count,
							     uint32_t offset, uint8_t *to, uint32_t width)
{
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i])
			memcpy(to + (size_t)i * width, rows[i] + offset, width);
		else
			memset(to + (size_t)i * width, 0, width);
	}
}

static int take_nested_cells(const struct weir_row_layout *layout, uint32_t c, const struct weir_type *type,
			     const uint8_t *const *rows, uint32_t count, struct weir_account *account,
			     struct weir_array **nested, struct weir_error *err)
{
	struct weir_builder builder;
	int code = weir_builder_init(&builder, weir_type_values(type), account, err);

	for (uint32_t i = 0; i < count && !code; i++) {
		if (rows[i] && weir_row_valid(layout, rows[i], c)) {
			struct weir_view view = weir_row_view(rows[i] + layout->cells[c].offset);
			const uint8_t *bytes = weir_view_bytes(&view);

			code = weir_nested_read(&bytes, &builder, err);
		} else {
			code = weir_builder_null(&builder, 1, err);
		}
	}
	if (!code)
		code = weir_builder_settle(&builder, err);
	if (!code)
		*nested = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	return code ? code : *nested ? WEIR_OK : err->code;
}

int weir_rows_take(const struct weir_row_layout *layout, uint32_t cell, const struct weir_type *type,
		   const uint8_t *const *rows, uint32_t count, struct weir_account *account, struct weir_arena *arena,
		   struct weir_column *out, struct weir_array **nested, struct weir_error *err)
{
	static const uint64_t nothing[1];
	uint32_t offset = layout->cells[cell].offset, width = layout->cells[cell].width;
	struct weir_view *views;
	uint64_t *bits;
	uint8_t *to;
	int code;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	*nested = NULL;
	if (layout->cells[cell].type->layout == WEIR_LAYOUT_NULL) {
		out->form = WEIR_CONSTANT;
		out->validity = nothing;
		return WEIR_OK;
	}
	code = take_validity(layout, cell, rows, count, arena, out, err);
	if (code)
		return code;
	switch (layout->cells[cell].type->layout) {
	case WEIR_LAYOUT_NESTED:
		code = take_nested_cells(layout, cell, type, rows, count, account, nested, err);
		out->nested = *nested;
		return code;
	case WEIR_LAYOUT_BITS:
		bits = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*bits), err);
		for (uint32_t i = 0; bits && i < count; i++)
			bits[i >> 6] |= (uint64_t)(rows[i] && rows[i][offset]) << (i & 63);
		out->values = bits;
		return bits ? WEIR_OK : err->code;
	case WEIR_LAYOUT_BYTES:
		views = weir_arena_alloc_aligned(arena, ((size_t)count + 1) * sizeof(*views), err);
		for (uint32_t i = 0; views && i < count; i++)
			views[i] = rows[i] ? weir_row_view(rows[i] + offset) : (struct weir_view){0};
		out->values = views;
		return views ? WEIR_OK : err->code;
	default:
		break;
	}
	to = weir_arena_alloc_aligned(arena, (size_t)count * width + 8, err);
	if (!to)
		return err->code;
	out->values = to;
	if (width == 8)
		take_width(rows, count, offset, to, 8);
	else if (width == 4)
		take_width(rows, count, offset, to, 4);
	else
		take_width(rows, count, offset, to, width);
	return WEIR_OK;
}

/* ---- rows in memory ---- */

static int heap_make(struct weir_row_maker *maker, uint64_t hash, uint64_t tail_bytes, uint8_t **row, uint8_t **tail,
		     struct weir_error *err)
{
	struct weir_row_heap *heap = (struct weir_row_heap *)maker;
	uint32_t row_bytes = heap->layout->row_bytes;
	struct weir_row_page page = {0};
	int code;

	(void)hash;
	heap->row_count++;
	if (heap->pages.count &&
	    weir_row_page_put(&heap->pages.items[heap->pages.count - 1], row_bytes, tail_bytes, row, tail))
		return WEIR_OK;
	page.size = heap->pages.count ? heap->pages.items[heap->pages.count - 1].size * 2 : HEAP_PAGE_MIN;
	if (page.size > HEAP_PAGE_MAX)
		page.size = HEAP_PAGE_MAX;
	if (page.size < row_bytes + tail_bytes)
		page.size = row_bytes + tail_bytes;
	page.size = weir_alloc_size(page.size);
	code = weir_list_reserve(&heap->pages, heap->account, err, heap->pages.count + 1);
	if (!code && !(page.memory = weir_alloc(heap->account, page.size, err)))
		code = err->code;
	if (code)
		return code;
	page.bytes_begin = page.size;
	heap->bytes += page.size;
	heap->pages.items[heap->pages.count++] = page;
	weir_row_page_put(&heap->pages.items[heap->pages.count - 1], row_bytes, tail_bytes, row, tail);
	return WEIR_OK;
}

void weir_row_heap_init(struct weir_row_heap *heap, struct weir_account *account, const struct weir_row_layout *layout)
{
	*heap = (struct weir_row_heap){.maker = {.make = heap_make}, .account = account, .layout = layout};
	weir_arena_init(&heap->arena, account);
}

void weir_row_heap_clear(struct weir_row_heap *heap)
{
	while (heap->pages.count > 1) {
		struct weir_row_page *page = &heap->pages.items[--heap->pages.count];

		heap->bytes -= page->size;
		weir_free(heap->account, page->memory, page->size);
	}
	if (heap->pages.count) {
		struct weir_row_page *page = &heap->pages.items[0];

		page->row_count = 0;
		page->rows_end = 0;
		page->bytes_begin = page->size;
	}
	for (size_t i = 0; i < heap->lists.count; i++)
		weir_free(heap->account, heap->lists.items[i].values, heap->lists.items[i].capacity * sizeof(double));
	heap->lists.count = 0;
	heap->list_bytes = 0;
	heap->row_count = 0;
	heap->bytes -= heap->bytes_set;
	heap->bytes_set = 0;
	weir_arena_clear(&heap->arena);
}

void weir_row_heap_release(struct weir_row_heap *heap)
{
	if (!heap->account)
		return;
	weir_row_heap_clear(heap);
	if (heap->pages.count)
		weir_free(heap->account, heap->pages.items[0].memory, heap->pages.items[0].size);
	weir_list_release(&heap->pages, heap->account);
	weir_list_release(&heap->lists, heap->account);
	weir_arena_release(&heap->arena);
	*heap = (struct weir_row_heap){0};
}

uint8_t *weir_row_heap_room(struct weir_row_heap *heap, uint8_t *cell, uint32_t size, struct weir_error *err)
{
	struct weir_view view = {.size = size};
	uint8_t *room = weir_arena_alloc(&heap->arena, size, err);

	WEIR_ASSERT(size > WEIR_VIEW_INLINE);
	if (!room)
		return NULL;
	heap->bytes += size;
	heap->bytes_set += size;
	view.data = room;
	weir_row_view_put(cell, view);
	return room;
}

int weir_row_heap_set(struct weir_row_heap *heap, uint8_t *cell, bool was_valid, struct weir_view view,
		      struct weir_error *err)
{
	struct weir_view old = weir_row_view(cell);
	uint8_t *room;

	if (view.size <= WEIR_VIEW_INLINE) {
		weir_row_view_put(cell, view);
		return WEIR_OK;
	}
	/* What lies there is overwritten where it is long enough, so that a run of ever greater values of one length
	 * does not pile up. */
	if (was_valid && old.size >= view.size) {
		room = (uint8_t *)(uintptr_t)old.data;
	} else {
		room = weir_arena_alloc(&heap->arena, view.size, err);
		if (!room)
			return err->code;
		heap->bytes += view.size;
		heap->bytes_set += view.size;
	}
	memcpy(room, view.data, view.size);
	view.data = room;
	weir_row_view_put(cell, view);
	return WEIR_OK;
}

struct weir_row_list *weir_row_heap_list(struct weir_row_heap *heap, uint8_t *field, uint32_t more,
					 struct weir_error *err)
{
	uint64_t number = load64(field);
	struct weir_row_list *list;
	uint64_t capacity;
	double *values;

	if (!number) {
		if (weir_list_push(&heap->lists, heap->account, err, (struct weir_row_list){0}))
			return NULL;
		number = heap->lists.count;
		memcpy(field, &number, sizeof(number));
	}
	list = &heap->lists.items[number - 1];
	if (list->capacity - list->count >= more)
		return list;
	capacity = list->capacity * (uint64_t)2 < LIST_MIN ? LIST_MIN : list->capacity * (uint64_t)2;
	while (capacity < (uint64_t)list->count + more)
		capacity *= 2;
	if (capacity > UINT32_MAX) {
		weir_error_set(err, WEIR_E_LIMIT, "a group of more than %u values is too large to be held",
			       UINT32_MAX / 2);
		return NULL;
	}
	values = weir_realloc(heap->account, list->values, list->capacity * sizeof(double), capacity * sizeof(double),
			      err);
	if (!values)
		return NULL;
	heap->list_bytes += (capacity - list->capacity) * sizeof(double);
	list->values = values;
	list->capacity = (uint32_t)capacity;
	return list;
}
