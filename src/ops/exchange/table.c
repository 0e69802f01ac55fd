#include "ops/exchange/table.h"

#include <string.h>

enum {
	CAPACITY_MIN = 1024,
	AHEAD = 24, /* rows */
};

static const uint64_t address_mask = ((uint64_t)1 << 48) - 1;

static inline uint64_t salt_of(uint64_t hash)
{
	return hash << 16 & ~address_mask;
}

/* Where an entry is looked for first. */
static inline uint64_t place_of(uint64_t hash, size_t capacity)
{
	return hash >> 8 & (capacity - 1);
}

static inline uint8_t *row_of(uint64_t entry)
{
	return (uint8_t *)(uintptr_t)(entry & address_mask);
}

int weir_table_init(struct weir_table *table, struct weir_account *account, const struct weir_row_layout *layout,
		    struct weir_error *err)
{
	*table = (struct weir_table){.account = account, .layout = layout};
	table->waiting = weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*table->waiting), err);
	table->compared = table->waiting ? weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*table->compared), err) : NULL;
	table->made = table->compared ? weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*table->made), err) : NULL;
	table->places = table->made ? weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*table->places), err) : NULL;
	table->tails = table->places ? weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(*table->tails), err) : NULL;
	if (table->tails)
		return WEIR_OK;
	weir_table_release(table);
	return err->code;
}

void weir_table_clear(struct weir_table *table)
{
	if (table->count)
		memset(table->entries, 0, table->capacity * sizeof(*table->entries));
	table->count = 0;
}

void weir_table_release(struct weir_table *table)
{
	struct weir_account *account = table->account;

	if (!account)
		return;
	weir_free(account, table->entries, table->capacity * sizeof(*table->entries));
	weir_free(account, table->waiting, WEIR_VECTOR_ROWS * sizeof(*table->waiting));
	weir_free(account, table->compared, WEIR_VECTOR_ROWS * sizeof(*table->compared));
	weir_free(account, table->made, WEIR_VECTOR_ROWS * sizeof(*table->made));
	weir_free(account, table->places, WEIR_VECTOR_ROWS * sizeof(*table->places));
	weir_free(account, table->tails, WEIR_VECTOR_ROWS * sizeof(*table->tails));
	*table = (struct weir_table){0};
}

int weir_table_reserve(struct weir_table *table, size_t more, struct weir_error *err)
{
	size_t wanted = (table->count + more) / 5 * 8 + 8, capacity = table->capacity ? table->capacity : CAPACITY_MIN;
	uint64_t *entries;

	if (wanted <= table->capacity)
		return WEIR_OK;
	while (capacity < wanted)
		capacity *= 2;
	entries = weir_alloc_zero(table->account, capacity * sizeof(*entries), err);
	if (!entries)
		return err->code;
	/* Each place is read before it is written: a page that is not there yet would be met twice, and the second time
	 * all processors are told. */
	weir_foresee(entries, capacity * sizeof(*entries));
	for (size_t i = 0; i < table->capacity; i++) {
		uint64_t entry = table->entries[i];
		size_t place;

		if (i + 16 < table->capacity && table->entries[i + 16])
			__builtin_prefetch(row_of(table->entries[i + 16]));
		if (!entry)
			continue;
		place = place_of(weir_row_hash(row_of(entry)), capacity);
		while (entries[place])
			place = (place + 1) & (capacity - 1);
		entries[place] = entry;
	}
	weir_free(table->account, table->entries, table->capacity * sizeof(*entries));
	table->entries = entries;
	table->capacity = capacity;
	return WEIR_OK;
}

static void begin(struct weir_table *table, const struct weir_row_input *input)
{
	for (uint32_t i = 0; i < input->count; i++) {
		table->waiting[i] = i;
		table->places[i] = place_of(input->hashes[i], table->capacity);
	}
}

static void begin_rows(struct weir_table *table, const uint8_t *const *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		table->waiting[i] = i;
		table->places[i] = place_of(weir_row_hash(rows[i]), table->capacity);
	}
}

/* What is looked at a few rows later. Of all those of a vector asked for at once the processor drops most, since it can
 * wait for a few at a time. */
static inline void fetch(const struct weir_table *table, uint32_t k, uint32_t waiting)
{
	if (k + AHEAD < waiting)
		__builtin_prefetch(&table->entries[table->places[table->waiting[k + AHEAD]]]);
}

/* The first entry from *place on that is free or has the salt. */
static inline uint64_t look(const struct weir_table *table, uint64_t *place, uint64_t salt)
{
	size_t mask = table->capacity - 1;
	uint64_t at = *place, entry;

	while ((entry = table->entries[at]) && (entry & ~address_mask) != salt)
		at = (at + 1) & mask;
	*place = at;
	return entry;
}

void weir_table_find(struct weir_table *table, const struct weir_row_input *input, uint8_t **rows)
{
	uint32_t waiting = input->count;
	size_t mask = table->capacity - 1;

	if (!table->count) {
		memset(rows, 0, input->count * sizeof(*rows));
		return;
	}
	begin(table, input);
	while (waiting) {
		uint32_t compared = 0, again = 0;

		for (uint32_t k = 0; k < waiting; k++) {
			uint32_t i = table->waiting[k];
			uint64_t entry = look(table, &table->places[i], salt_of(input->hashes[i]));

			fetch(table, k, waiting);
			rows[i] = entry ? row_of(entry) : NULL;
			__builtin_prefetch(rows[i]);
			table->compared[compared] = i;
			compared += entry != 0;
		}
		weir_rows_equal(input, table->compared, compared, rows, table->waiting, &again);
		for (uint32_t k = 0; k < again; k++) {
			uint32_t i = table->waiting[k];

			table->places[i] = (table->places[i] + 1) & mask;
			rows[i] = NULL;
		}
		waiting = again;
	}
}

int weir_table_find_or_make(struct weir_table *table, const struct weir_row_input *input, struct weir_row_maker *maker,
			    uint8_t **rows, uint32_t *made, struct weir_error *err)
{
	uint32_t waiting = input->count;
	size_t mask;
	int code = weir_table_reserve(table, input->count, err);

	*made = 0;
	if (code)
		return code;
	mask = table->capacity - 1;
	begin(table, input);
	while (waiting) {
		uint32_t compared = 0, fresh = 0, again = 0;

		for (uint32_t k = 0; k < waiting; k++) {
			uint32_t i = table->waiting[k];
			uint64_t salt = salt_of(input->hashes[i]), entry = look(table, &table->places[i], salt);

			fetch(table, k, waiting);
			if (entry) {
				rows[i] = row_of(entry);
				__builtin_prefetch(rows[i]);
				table->compared[compared++] = i;
				continue;
			}
			code = maker->make(maker, input->hashes[i], input->bytes ? input->bytes[i] : 0, &rows[i],
					   &table->tails[i], err);
			if (code)
				return code;
			table->entries[table->places[i]] = salt | (uint64_t)(uintptr_t)rows[i];
			table->made[fresh++] = i;
		}
		if (fresh)
			weir_rows_fill(input, table->made, fresh, rows, table->tails);
		table->count += fresh;
		*made += fresh;
		weir_rows_equal(input, table->compared, compared, rows, table->waiting, &again);
		for (uint32_t k = 0; k < again; k++) {
			uint32_t i = table->waiting[k];

			table->places[i] = (table->places[i] + 1) & mask;
		}
		waiting = again;
	}
	return WEIR_OK;
}

/* The place of a row with the key of `row`, or the free one where it would be. */
static inline uint64_t seek(const struct weir_table *table, const uint8_t *row, uint64_t place, uint64_t *entry)
{
	uint64_t salt = salt_of(weir_row_hash(row));

	while ((*entry = look(table, &place, salt)) && !weir_row_keys_equal(table->layout, row_of(*entry), row))
		place = (place + 1) & (table->capacity - 1);
	return place;
}

int weir_table_find_rows(struct weir_table *table, const struct weir_row_layout *layout, const uint8_t *const *rows,
			 uint32_t count, struct weir_row_maker *maker, uint8_t **found, struct weir_error *err)
{
	uint32_t waiting = count;
	int code = weir_table_reserve(table, count, err);

	if (code)
		return code;
	begin_rows(table, rows, count);
	while (waiting) {
		uint32_t compared = 0, again = 0;

		for (uint32_t k = 0; k < waiting; k++) {
			uint32_t i = table->waiting[k];
			uint64_t hash = weir_row_hash(rows[i]), entry = look(table, &table->places[i], salt_of(hash));
			uint8_t *tail;

			fetch(table, k, waiting);
			if (entry) {
				found[i] = row_of(entry);
				__builtin_prefetch(found[i]);
				table->compared[compared++] = i;
				continue;
			}
			code = maker->make(maker, hash, weir_row_key_tail_bytes(layout, rows[i]), &found[i], &tail,
					   err);
			if (code)
				return code;
			weir_row_key_copy(table->layout, found[i], tail, layout, rows[i]);
			table->entries[table->places[i]] = salt_of(hash) | (uint64_t)(uintptr_t)found[i];
			table->count++;
		}
		for (uint32_t k = 0; k < compared; k++) {
			uint32_t i = table->compared[k];

			if (weir_row_keys_same(table->layout, found[i], layout, rows[i]))
				continue;
			table->places[i] = (table->places[i] + 1) & (table->capacity - 1);
			table->waiting[again++] = i;
		}
		waiting = again;
	}
	return WEIR_OK;
}

int weir_table_add_rows(struct weir_table *table, uint8_t *const *rows, uint32_t count, uint8_t **found,
			struct weir_error *err)
{
	int code = weir_table_reserve(table, count, err);

	if (code)
		return code;
	begin_rows(table, (const uint8_t *const *)rows, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t entry, place = seek(table, rows[i], table->places[i], &entry);

		fetch(table, i, count);
		if (!entry) {
			entry = salt_of(weir_row_hash(rows[i])) | (uint64_t)(uintptr_t)rows[i];
			table->entries[place] = entry;
			table->count++;
		}
		found[i] = row_of(entry);
	}
	return WEIR_OK;
}

int weir_table_copy_rows(struct weir_table *table, const uint8_t *const *rows, uint32_t count,
			 struct weir_row_maker *maker, uint8_t **found, bool *is_new, struct weir_error *err)
{
	const struct weir_row_layout *layout = table->layout;
	int code = weir_table_reserve(table, count, err);

	if (code)
		return code;
	begin_rows(table, rows, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t hash = weir_row_hash(rows[i]), entry, place = seek(table, rows[i], table->places[i], &entry);
		uint8_t *tail;

		fetch(table, i, count);
		is_new[i] = !entry;
		if (entry) {
			found[i] = row_of(entry);
			continue;
		}
		code = maker->make(maker, hash, weir_row_tail_bytes(layout, rows[i]), &found[i], &tail, err);
		if (code)
			return code;
		weir_row_copy(layout, rows[i], found[i], tail);
		table->entries[place] = salt_of(hash) | (uint64_t)(uintptr_t)found[i];
		table->count++;
	}
	return WEIR_OK;
}
