#include "ops/exchange/join_cells.h"

#include "ops/exchange/join_table.h"

/* A word that hardly any key is: a random one, beyond those of narrower types. */
#define VACANT UINT64_C(0x7c3e91d5a86b04f3)

enum { BUCKETS_MIN = 16, AHEAD = 32 };

bool weir_join_cell_layout_add(struct weir_join_cell_layout *layout, uint32_t column, const struct weir_type *type)
{
	const struct weir_type *values = weir_type_values(type);
	uint32_t used = 0, width = values->byte_width;

	if (values->layout != WEIR_LAYOUT_FIXED || (width != 1 && width != 2 && width != 4 && width != 8))
		return false;
	for (uint32_t i = 0; i < layout->count; i++) {
		if (layout->columns[i].column == column)
			return true;
		used += layout->columns[i].width;
	}
	if (used + width > WEIR_JOIN_CELL_BYTES)
		return false;
	layout->columns[layout->count++] = (struct weir_join_cell_column){
		.column = column, .offset = used, .width = width};
	return true;
}

/* Three quarters of the places may be taken. */
static uint64_t buckets_for(uint64_t rows)
{
	uint64_t count = BUCKETS_MIN;

	while (count * (WEIR_JOIN_BUCKET * 3 / 4) < rows)
		count *= 2;
	return count;
}

uint64_t weir_join_cells_bytes(uint64_t rows, uint64_t span)
{
	if (span)
		return (span + 1) * sizeof(uint64_t) + (span / 64 + 1) * sizeof(uint64_t);
	return buckets_for(rows + rows / 16) * sizeof(struct weir_join_bucket) + rows * WEIR_JOIN_FILTER_BITS / 8 * 2;
}

int weir_join_cells_init(struct weir_join_cells *cells, struct weir_account *account, uint64_t rows, uint64_t least,
			 uint64_t span, struct weir_error *err)
{
	bool has_all;

	*cells = (struct weir_join_cells){.account = account, .least = least, .span = span};
	if (span) {
		cells->values = weir_alloc(account, (span + 1) * sizeof(*cells->values), err);
		cells->there = weir_alloc_zero(account, (span / 64 + 1) * sizeof(*cells->there), err);
		has_all = cells->values && cells->there;
	} else {
		/* Somewhat more than its share of the rows may have a part of the hashes. */
		cells->count = buckets_for(rows + rows / 16);
		cells->buckets = weir_alloc(account, cells->count * sizeof(*cells->buckets), err);
		has_all = cells->buckets &&
			  !weir_join_filter_init(&cells->filter, account, cells->count * WEIR_JOIN_BUCKET,
						 cells->count * sizeof(*cells->buckets), err);
	}
	if (!has_all) {
		weir_join_cells_release(cells);
		return err->code;
	}
	for (uint64_t i = 0; i < cells->count; i++)
		cells->buckets[i] = (struct weir_join_bucket){.keys = {VACANT, VACANT, VACANT, VACANT}};
	if (span)
		memset(cells->values, 0, (span + 1) * sizeof(*cells->values));
	return WEIR_OK;
}

void weir_join_cells_release(struct weir_join_cells *cells)
{
	if (!cells->account)
		return;
	weir_free(cells->account, cells->buckets, cells->buckets ? cells->count * sizeof(*cells->buckets) : 0);
	weir_free(cells->account, cells->values, cells->values ? (cells->span + 1) * sizeof(*cells->values) : 0);
	weir_free(cells->account, cells->there, cells->there ? (cells->span / 64 + 1) * sizeof(*cells->there) : 0);
	weir_join_filter_release(&cells->filter, cells->account);
	*cells = (struct weir_join_cells){0};
}

static bool add_numbers(struct weir_join_cells *cells, const struct weir_join_keys *keys, const uint64_t *values)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		uint64_t at = keys->tags[i] - cells->least, bit = (uint64_t)1 << (at & 63);

		if (values && cells->there[at >> 6] & bit)
			return false;
		cells->there[at >> 6] |= bit;
		if (values)
			cells->values[at] = values[keys->rows[i]];
	}
	return true;
}

/* Which of the bucket's keys it is, as a bit. */
static inline uint32_t match(const struct weir_join_bucket *bucket, uint64_t key)
{
	return (uint32_t)(bucket->keys[0] == key) | (uint32_t)(bucket->keys[1] == key) << 1 |
	       (uint32_t)(bucket->keys[2] == key) << 2 | (uint32_t)(bucket->keys[3] == key) << 3;
}

/* False: it is there already, or would look like a free place. */
static inline bool add(struct weir_join_cells *cells, uint64_t hash, uint64_t key, uint64_t value, bool is_set)
{
	struct weir_join_bucket *bucket;
	uint32_t vacant, at;

	for (uint64_t i = hash;; i++) {
		bucket = &cells->buckets[i & (cells->count - 1)];
		if (match(bucket, key))
			return is_set && key != VACANT;
		vacant = match(bucket, VACANT);
		if (vacant)
			break;
	}
	at = (uint32_t)__builtin_ctz(vacant);
	bucket->keys[at] = key;
	bucket->values[at] = value;
	weir_join_filter_add(&cells->filter, hash);
	return true;
}

bool weir_join_cells_add(struct weir_join_cells *cells, const struct weir_join_keys *keys, const uint64_t *values,
			 uint32_t bits, uint64_t part)
{
	uint16_t ours[WEIR_VECTOR_ROWS];
	uint32_t count = 0;
	bool is_added = true;

	if (cells->values)
		return add_numbers(cells, keys, values);
	for (uint32_t i = 0; i < keys->count; i++) {
		ours[count] = (uint16_t)i;
		count += !bits || keys->hashes[i] >> (64 - bits) == part;
	}
	/* There is always a free place, so that every search ends. */
	cells->used += count;
	if (cells->used > cells->count * WEIR_JOIN_BUCKET / 8 * 7)
		return false;
	for (uint32_t k = 0; k < count && is_added; k++) {
		if (k + AHEAD < count)
			__builtin_prefetch(&cells->buckets[keys->hashes[ours[k + AHEAD]] & (cells->count - 1)], 1);
		is_added = add(cells, keys->hashes[ours[k]], keys->tags[ours[k]],
			       values ? values[keys->rows[ours[k]]] : 0, !values);
	}
	return is_added;
}

static uint32_t find_numbers(const struct weir_join_cells *cells, const struct weir_join_keys *keys,
			     struct weir_join_found *found, uint64_t *values)
{
	uint32_t hits = 0;

	/* Out of range is the number behind the last, which is not there: no branch, and reads do not wait for each
	 * other. */
	for (uint32_t i = 0; i < keys->count; i++) {
		uint64_t at = keys->tags[i] - cells->least;
		uint32_t is_there;

		at = at < cells->span ? at : cells->span;
		is_there = cells->there[at >> 6] >> (at & 63) & 1;
		/* One that is not there is looked for where all of them are: in the cache. */
		values[i] = cells->values[is_there ? at : cells->span];
		found[i] = (struct weir_join_found){.count = is_there};
		hits += is_there;
	}
	return hits;
}

/* Those of which[0 … count). */
static inline __attribute__((always_inline)) uint32_t find(const struct weir_join_cells *cells, uint32_t bits,
							   const struct weir_join_keys *keys, const uint16_t *which,
							   uint32_t count, struct weir_join_found *found,
							   uint64_t *values)
{
	uint32_t hits = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = which ? which[k] : k, matched, at;
		const struct weir_join_cells *here = &cells[bits ? keys->hashes[i] >> (64 - bits) : 0];
		uint64_t place = keys->hashes[i], key = keys->tags[i];
		const struct weir_join_bucket *bucket;

		if (k + AHEAD < count) {
			uint64_t hash = keys->hashes[which ? which[k + AHEAD] : k + AHEAD];
			const struct weir_join_cells *later = &cells[bits ? hash >> (64 - bits) : 0];

			__builtin_prefetch(&later->buckets[hash & (later->count - 1)]);
		}
		do {
			bucket = &here->buckets[place++ & (here->count - 1)];
			matched = match(bucket, key);
		} while (!matched && bucket->keys[WEIR_JOIN_BUCKET - 1] != VACANT);
		/* The last place is free where nothing was found, and has the value 0. Nobody has the key VACANT. */
		at = (uint32_t)__builtin_ctz(matched | 1u << (WEIR_JOIN_BUCKET - 1));
		found[i] = (struct weir_join_found){.count = bucket->keys[at] != VACANT && matched};
		values[i] = bucket->values[at];
		hits += found[i].count;
	}
	return hits;
}

uint32_t weir_join_cells_find(const struct weir_join_cells *cells, uint32_t bits, const struct weir_join_keys *keys,
			      bool filtered, struct weir_join_found *found, uint64_t *values)
{
	uint16_t which[WEIR_VECTOR_ROWS];
	uint32_t count = 0;

	if (cells->values)
		return find_numbers(cells, keys, found, values);
	if (!filtered || !cells->filter.words)
		return find(cells, bits, keys, NULL, keys->count, found, values);
	for (uint32_t i = 0; i < keys->count; i++) {
		uint64_t hash = keys->hashes[i];

		found[i] = (struct weir_join_found){0};
		values[i] = 0;
		which[count] = (uint16_t)i;
		count += weir_join_filter_has(&cells[bits ? hash >> (64 - bits) : 0].filter, hash);
	}
	return find(cells, bits, keys, which, count, found, values);
}

static inline __attribute__((always_inline)) void put(uint8_t *to, const struct weir_join_keys *keys,
						      const uint64_t *values, uint32_t offset, uint32_t width)
{
	for (uint32_t i = 0; i < keys->count; i++)
		memcpy(to + (size_t)keys->rows[i] * width, (const uint8_t *)&values[i] + offset, width);
}

int weir_join_cells_column(const struct weir_join_cell_column *column, const struct weir_join_keys *keys,
			   const uint64_t *values, uint32_t count, struct weir_arena *arena, struct weir_column *out,
			   struct weir_error *err)
{
	uint8_t *to = weir_arena_alloc_aligned(arena, (size_t)count * column->width + 8, err);

	if (!to)
		return err->code;
	if (keys->count < count)
		memset(to, 0, (size_t)count * column->width);
	switch (column->width) {
	case 1:
		put(to, keys, values, column->offset, 1);
		break;
	case 2:
		put(to, keys, values, column->offset, 2);
		break;
	case 4:
		put(to, keys, values, column->offset, 4);
		break;
	default:
		put(to, keys, values, 0, 8);
	}
	out->form = WEIR_FLAT;
	out->values = to;
	return WEIR_OK;
}
