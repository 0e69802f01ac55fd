#include "ops/exchange/join_table.h"

#include "base/hash.h"

#include <string.h>

enum {
	CAPACITY_MIN = 64,
	AHEAD = 24,
};

static uint64_t capacity_for(uint64_t keys)
{
	uint64_t capacity = CAPACITY_MIN;

	while (capacity - capacity / 4 < keys)
		capacity *= 2;
	return capacity;
}

uint64_t weir_join_table_bytes(const struct weir_key_columns *columns, uint64_t rows)
{
	uint64_t bytes = capacity_for(rows) * sizeof(struct weir_join_entry) + rows * sizeof(uint32_t);

	bytes += rows * WEIR_JOIN_FILTER_BITS / 8 * 2;
	return weir_join_keys_are_words(columns) ? bytes : bytes + capacity_for(rows) * sizeof(uint32_t) + rows * 48;
}

int weir_join_table_init(struct weir_join_table *table, struct weir_account *account,
			 const struct weir_key_columns *columns, uint64_t keys_est, struct weir_error *err)
{
	*table = (struct weir_join_table){.account = account, .capacity = capacity_for(keys_est)};
	table->is_word = weir_join_keys_are_words(columns);
	weir_key_list_init(&table->keys, account, columns->width);
	/* Written, not only zero: a page that is read first is mapped twice. */
	table->entries = weir_alloc(account, table->capacity * sizeof(*table->entries), err);
	if (table->entries)
		memset(table->entries, 0, table->capacity * sizeof(*table->entries));
	if (table->entries && !table->is_word)
		table->places = weir_alloc(account, table->capacity * sizeof(*table->places), err);
	if (!table->entries || (!table->is_word && !table->places) ||
	    weir_join_filter_init(&table->filter, account, table->capacity, table->capacity * sizeof(*table->entries),
				  err)) {
		weir_join_table_release(table);
		return err->code;
	}
	return WEIR_OK;
}

int weir_join_table_init_slots(struct weir_join_table *table, struct weir_account *account, uint64_t least,
			       uint64_t span, struct weir_error *err)
{
	*table = (struct weir_join_table){.account = account, .least = least, .span = span, .is_word = true};
	table->slots = weir_alloc(account, (span + 2) * sizeof(*table->slots), err);
	if (!table->slots) {
		*table = (struct weir_join_table){0};
		return err->code;
	}
	memset(table->slots, 0, (span + 2) * sizeof(*table->slots));
	return WEIR_OK;
}

void weir_join_table_release(struct weir_join_table *table)
{
	if (!table->account)
		return;
	weir_free(table->account, table->entries, table->entries ? table->capacity * sizeof(*table->entries) : 0);
	weir_free(table->account, table->places, table->places ? table->capacity * sizeof(*table->places) : 0);
	weir_join_filter_release(&table->filter, table->account);
	weir_free(table->account, table->slots, table->slots ? (table->span + 2) * sizeof(*table->slots) : 0);
	weir_free(table->account, table->rows, table->rows_capacity * sizeof(*table->rows));
	weir_key_list_release(&table->keys);
	*table = (struct weir_join_table){0};
}

/* Where an entry's keys begin to be looked for. */
static uint64_t hash_of(const struct weir_join_table *table, uint64_t tag)
{
	return table->is_word ? weir_hash_u64(tag) : tag;
}

static int grow(struct weir_join_table *table, struct weir_error *err)
{
	uint64_t capacity = table->capacity * 2;
	struct weir_join_entry *entries = weir_alloc_zero(table->account, capacity * sizeof(*entries), err);
	uint32_t *places = NULL;

	if (!entries)
		return err->code;
	if (!table->is_word) {
		places = weir_alloc(table->account, capacity * sizeof(*places), err);
		if (!places) {
			weir_free(table->account, entries, capacity * sizeof(*entries));
			return err->code;
		}
	}
	/* Places are read before they are written (table.c). */
	weir_foresee(entries, capacity * sizeof(*entries));
	for (uint64_t i = 0; i < table->capacity; i++) {
		uint64_t at = hash_of(table, table->entries[i].tag) & (capacity - 1);

		if (!table->entries[i].count)
			continue;
		while (entries[at].count)
			at = (at + 1) & (capacity - 1);
		entries[at] = table->entries[i];
		if (places)
			places[at] = table->places[i];
	}
	weir_free(table->account, table->entries, table->capacity * sizeof(*entries));
	weir_free(table->account, table->places, table->places ? table->capacity * sizeof(*places) : 0);
	table->entries = entries;
	table->places = places;
	table->capacity = capacity;
	return WEIR_OK;
}

static bool same_bytes(const struct weir_join_table *table, uint64_t at, const struct weir_join_keys *keys, uint32_t i)
{
	uint32_t size, known_size;
	const uint8_t *bytes = weir_key_at(&keys->list, i, &size);
	const uint8_t *known = weir_key_at(&table->keys, table->places[at], &known_size);

	return size == known_size && memcmp(bytes, known, size) == 0;
}

/* The entry with the i-th key, or the free one where it belongs. */
static inline __attribute__((always_inline)) uint64_t look_up(const struct weir_join_table *table,
							      const struct weir_join_keys *keys, uint32_t i,
							      bool is_word)
{
	uint64_t mask = table->capacity - 1, at = keys->hashes[i] & mask;

	while (table->entries[at].count &&
	       (table->entries[at].tag != keys->tags[i] || (!is_word && !same_bytes(table, at, keys, i))))
		at = (at + 1) & mask;
	return at;
}

static inline bool is_of_part(uint64_t hash, uint32_t bits, uint64_t part)
{
	return !bits || hash >> (64 - bits) == part;
}

static int append_key(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t i,
		      struct weir_error *err)
{
	uint32_t size;
	const uint8_t *bytes = weir_key_at(&keys->list, i, &size);

	return weir_key_list_append(&table->keys, bytes, size, err);
}

static void add_slots(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t base)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		uint32_t *slot = &table->slots[keys->tags[i] - table->least];

		table->has_twice |= *slot != 0;
		*slot = base + keys->rows[i] + 1;
	}
	table->row_count += keys->count;
}

void weir_join_table_count(struct weir_join_table *table, const struct weir_join_keys *keys)
{
	for (uint32_t i = 0; i < keys->count; i++)
		table->slots[keys->tags[i] - table->least]++;
}

int weir_join_table_add(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t base, uint32_t bits,
			uint64_t part, struct weir_error *err)
{
	if (table->slots)
		add_slots(table, keys, base);
	for (uint32_t i = 0; i < keys->count && !table->slots; i++) {
		struct weir_join_entry *entry;
		uint64_t at;
		int code = WEIR_OK;

		if (i + AHEAD < keys->count)
			__builtin_prefetch(&table->entries[keys->hashes[i + AHEAD] & (table->capacity - 1)], 1);
		if (!is_of_part(keys->hashes[i], bits, part))
			continue;
		if (table->used >= table->capacity - table->capacity / 4)
			code = grow(table, err);
		if (code)
			return code;
		at = table->is_word ? look_up(table, keys, i, true) : look_up(table, keys, i, false);
		entry = &table->entries[at];
		table->row_count++;
		if (entry->count) {
			entry->count++;
			continue;
		}
		if (!table->is_word) {
			table->places[at] = (uint32_t)table->keys.count;
			code = append_key(table, keys, i, err);
			if (code)
				return code;
		}
		*entry = (struct weir_join_entry){.tag = keys->tags[i], .first = base + keys->rows[i], .count = 1};
		table->used++;
		weir_join_filter_add(&table->filter, keys->hashes[i]);
	}
	return WEIR_OK;
}

static void sum_slots(struct weir_join_table *table)
{
	uint32_t end = 0;

	/* A slot is where its number's rows end until all of them have been put in front of it. */
	for (uint64_t i = 0; i <= table->span + 1; i++) {
		end += table->slots[i];
		table->slots[i] = end;
	}
	table->is_listed = true;
}

int weir_join_table_settle(struct weir_join_table *table, enum weir_join_again before, enum weir_join_again *again,
			   struct weir_error *err)
{
	uint32_t end = 0;
	bool is_simple = table->slots ? !table->has_twice : table->used == table->row_count;

	*again = WEIR_JOIN_READY;
	if (is_simple || before == WEIR_JOIN_PLACE)
		return WEIR_OK;
	if (table->slots && before == WEIR_JOIN_COUNT) {
		sum_slots(table);
		*again = WEIR_JOIN_PLACE;
		return WEIR_OK;
	}
	*again = table->slots ? WEIR_JOIN_COUNT : WEIR_JOIN_PLACE;
	if (table->slots)
		memset(table->slots, 0, (table->span + 2) * sizeof(*table->slots));
	table->rows = weir_alloc(table->account, table->row_count * sizeof(*table->rows), err);
	if (!table->rows)
		return err->code;
	table->rows_capacity = table->row_count;
	/* `first` is where a key's rows end until all of them have been put in front of it. */
	for (uint64_t i = 0; i < table->capacity && !table->slots; i++) {
		if (table->entries[i].count < 2)
			continue;
		end += table->entries[i].count;
		table->entries[i].first = end;
	}
	return WEIR_OK;
}

void weir_join_table_place(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t base,
			   uint32_t bits, uint64_t part)
{
	for (uint32_t i = 0; i < keys->count && table->slots; i++)
		table->rows[--table->slots[keys->tags[i] - table->least]] = base + keys->rows[i];
	for (uint32_t i = 0; i < keys->count && !table->slots; i++) {
		struct weir_join_entry *entry;

		if (i + AHEAD < keys->count)
			__builtin_prefetch(&table->entries[keys->hashes[i + AHEAD] & (table->capacity - 1)], 1);
		if (!is_of_part(keys->hashes[i], bits, part))
			continue;
		entry = &table->entries[table->is_word ? look_up(table, keys, i, true)
						       : look_up(table, keys, i, false)];
		if (entry->count > 1)
			table->rows[--entry->first] = base + keys->rows[i];
	}
}

/* Those of which[0 … count). */
static inline __attribute__((always_inline)) uint32_t find(const struct weir_join_table *tables, uint32_t bits,
							   const struct weir_join_keys *keys, const uint16_t *which,
							   uint32_t count, struct weir_join_found *found, bool is_word)
{
	uint32_t hits = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = which ? which[k] : k;
		const struct weir_join_table *table = &tables[bits ? keys->hashes[i] >> (64 - bits) : 0];
		const struct weir_join_entry *entry;

		if (k + AHEAD < count) {
			uint64_t hash = keys->hashes[which ? which[k + AHEAD] : k + AHEAD];
			const struct weir_join_table *later = &tables[bits ? hash >> (64 - bits) : 0];

			__builtin_prefetch(&later->entries[hash & (later->capacity - 1)]);
		}
		entry = &table->entries[look_up(table, keys, i, is_word)];
		found[i] = (struct weir_join_found){.first = entry->first, .count = entry->count};
		hits += entry->count != 0;
	}
	return hits;
}

/* The keys that may be in the tables; the others are not found. */
static uint32_t sift(const struct weir_join_table *tables, uint32_t bits, const struct weir_join_keys *keys,
		     struct weir_join_found *found, uint16_t *which)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < keys->count; i++) {
		uint64_t hash = keys->hashes[i];
		bool may_be = weir_join_filter_has(&tables[bits ? hash >> (64 - bits) : 0].filter, hash);

		found[i] = (struct weir_join_found){0};
		which[count] = (uint16_t)i;
		count += may_be;
	}
	return count;
}

static uint32_t find_slots(const struct weir_join_table *table, const struct weir_join_keys *keys,
			   struct weir_join_found *found)
{
	uint32_t hits = 0;

	/* Out of range is the slot behind the last, which is empty: no branch, and reads do not wait for each other. */
	for (uint32_t i = 0; i < keys->count; i++) {
		uint64_t at = keys->tags[i] - table->least;

		at = at < table->span ? at : table->span;
		if (table->is_listed)
			found[i] = (struct weir_join_found){.first = table->slots[at],
							    .count = table->slots[at + 1] - table->slots[at]};
		else
			found[i] = (struct weir_join_found){.first = table->slots[at] - 1,
							    .count = table->slots[at] != 0};
	}
	/* A row alone is given as itself. */
	for (uint32_t i = 0; i < keys->count && table->is_listed; i++)
		if (found[i].count == 1)
			found[i].first = table->rows[found[i].first];
	for (uint32_t i = 0; i < keys->count; i++)
		hits += found[i].count != 0;
	return hits;
}

uint32_t weir_join_table_find(const struct weir_join_table *tables, uint32_t bits, const struct weir_join_keys *keys,
			      bool filtered, struct weir_join_found *found)
{
	uint16_t which[WEIR_VECTOR_ROWS];
	uint32_t count;

	if (tables->slots)
		return find_slots(tables, keys, found);
	if (!filtered || !tables->filter.words)
		return keys->is_word ? find(tables, bits, keys, NULL, keys->count, found, true)
				     : find(tables, bits, keys, NULL, keys->count, found, false);
	count = sift(tables, bits, keys, found, which);
	return keys->is_word ? find(tables, bits, keys, which, count, found, true)
			     : find(tables, bits, keys, which, count, found, false);
}
