/* The dictionary of an open chunk: distinct values in the order in which they came, and a table to find them.
 *
 *     slots     ┌───┬───┬───┬───┬──         code + 1, by hash, linear probing, doubled when half full
 *               │ 0 │ 3 │ 1 │ 0 │ …
 *     body      ┌───────┬───────┬───────    the values in PLAIN form: the dictionary page as it is written
 *               │ v0    │ v1    │ v2 …
 *     entries   offset in the body and hash of each value, for values of variable size
 *
 * Values of 4 and 8 bytes are found by comparing with the body itself; longer ones compare hashes first. Short strings
 * are hashed as the two words of their view, without a call.
 */
#include "base/hash.h"
#include "format/parquet/write_impl.h"

#include <string.h>

enum { SLOTS_MIN = 256, ENTRIES_MIN = 64 };

static uint32_t hash_u64(uint64_t value)
{
	return (uint32_t)(weir_hash_u64(value) >> 32);
}

static uint32_t hash_view(const struct weir_view *view)
{
	uint64_t words[2];

	if (view->size > WEIR_VIEW_INLINE)
		return (uint32_t)(weir_hash_bytes(view->data, view->size, 0) >> 32);
	memcpy(words, view, sizeof(words));
	/* One multiplication each; weir_hash_u64 spreads what is left. */
	return hash_u64(words[0] * 0x9e3779b97f4a7c15u ^ (words[1] + 0x632be59bd9b4e019u));
}

static uint32_t hash_fixed(const uint8_t *value, uint32_t width)
{
	uint64_t word = 0;

	if (width == 8) {
		memcpy(&word, value, 8);
		return hash_u64(word);
	}
	if (width == 4) {
		memcpy(&word, value, 4);
		return hash_u64(word);
	}
	return (uint32_t)(weir_hash_bytes(value, width, 0) >> 32);
}

static int slots_grow(struct parquet_dictionary *dictionary, uint32_t width, struct weir_account *account,
		      struct weir_error *err)
{
	uint32_t count = dictionary->slot_count ? dictionary->slot_count * 2 : SLOTS_MIN;
	uint32_t *slots = weir_alloc_zero(account, count * sizeof(*slots), err);

	if (!slots)
		return err->code;
	for (uint32_t code = 0; code < dictionary->count; code++) {
		uint32_t hash = width ? hash_fixed(dictionary->body.data + (size_t)code * width, width)
				      : dictionary->entries[code].hash;
		uint32_t at = hash & (count - 1);

		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = code + 1;
	}
	weir_free(account, dictionary->slots, dictionary->slot_count * sizeof(*dictionary->slots));
	dictionary->slots = slots;
	dictionary->slot_count = count;
	return WEIR_OK;
}

/* Values of a width that the compiler knows: 4 or 8, or any. */
static inline __attribute__((always_inline)) int put_fixed(struct parquet_dictionary *dictionary, uint32_t width,
							   const uint8_t *values, size_t count, uint32_t *codes,
							   struct weir_account *account, struct weir_error *err)
{
	uint32_t mask = dictionary->slot_count - 1;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *value = values + i * width;
		uint32_t at = hash_fixed(value, width) & mask;
		uint32_t slot;

		while ((slot = dictionary->slots[at]) != 0 &&
		       memcmp(dictionary->body.data + (size_t)(slot - 1) * width, value, width) != 0)
			at = (at + 1) & mask;
		if (slot) {
			codes[i] = slot - 1;
			continue;
		}
		codes[i] = dictionary->count;
		memcpy(dictionary->body.data + dictionary->body.size, value, width);
		dictionary->body.size += width;
		dictionary->slots[at] = ++dictionary->count;
		if (dictionary->count * 2 > dictionary->slot_count) {
			int code = slots_grow(dictionary, width, account, err);

			if (code)
				return code;
			mask = dictionary->slot_count - 1;
		}
	}
	return WEIR_OK;
}

int parquet_dictionary_fixed(struct parquet_dictionary *dictionary, uint32_t width, const uint8_t *values, size_t count,
			     uint32_t *codes, struct weir_account *account, struct weir_error *err)
{
	int code = parquet_buffer_reserve(&dictionary->body, count * width, account, err);

	if (!code && !dictionary->slot_count)
		code = slots_grow(dictionary, width, account, err);
	if (code)
		return code;
	if (width == 8)
		return put_fixed(dictionary, 8, values, count, codes, account, err);
	if (width == 4)
		return put_fixed(dictionary, 4, values, count, codes, account, err);
	return put_fixed(dictionary, width, values, count, codes, account, err);
}

static int entries_grow(struct parquet_dictionary *dictionary, struct weir_account *account, struct weir_error *err)
{
	uint32_t capacity = dictionary->entry_capacity ? dictionary->entry_capacity * 2 : ENTRIES_MIN;
	struct parquet_entry *entries = weir_realloc(account, dictionary->entries,
						     dictionary->entry_capacity * sizeof(*entries),
						     capacity * sizeof(*entries), err);

	if (!entries)
		return err->code;
	dictionary->entries = entries;
	dictionary->entry_capacity = capacity;
	return WEIR_OK;
}

static int view_insert(struct parquet_dictionary *dictionary, const struct weir_view *view, uint32_t hash, uint32_t at,
		       struct weir_account *account, struct weir_error *err)
{
	struct parquet_buffer *body = &dictionary->body;
	int code = parquet_buffer_reserve(body, 4 + (size_t)view->size, account, err);

	if (!code && dictionary->count == dictionary->entry_capacity)
		code = entries_grow(dictionary, account, err);
	if (code)
		return code;
	/* The page bound closes the dictionary long before; only a value of 4 GiB could come near. */
	if (body->size + 4 + (uint64_t)view->size > UINT32_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a value of %u bytes is too large for a page",
				      view->size);
	dictionary->entries[dictionary->count] = (struct parquet_entry){.offset = (uint32_t)body->size, .hash = hash};
	memcpy(body->data + body->size, &view->size, 4);
	memcpy(body->data + body->size + 4, weir_view_bytes(view), view->size);
	body->size += 4 + (size_t)view->size;
	dictionary->slots[at] = ++dictionary->count;
	return dictionary->count * 2 > dictionary->slot_count ? slots_grow(dictionary, 0, account, err) : WEIR_OK;
}

int parquet_dictionary_views(struct parquet_dictionary *dictionary, const struct weir_view *views, const uint16_t *rows,
			     size_t count, uint32_t *codes, struct weir_account *account, struct weir_error *err)
{
	int code = dictionary->slot_count ? WEIR_OK : slots_grow(dictionary, 0, account, err);

	for (size_t i = 0; i < count && !code; i++) {
		const struct weir_view *view = &views[rows ? rows[i] : i];
		const uint8_t *bytes = weir_view_bytes(view);
		uint32_t hash = hash_view(view), mask = dictionary->slot_count - 1, at = hash & mask, slot;

		for (; (slot = dictionary->slots[at]) != 0; at = (at + 1) & mask) {
			const struct parquet_entry *entry = &dictionary->entries[slot - 1];
			const uint8_t *there = dictionary->body.data + entry->offset;

			if (entry->hash == hash && memcmp(there, &view->size, 4) == 0 &&
			    memcmp(there + 4, bytes, view->size) == 0)
				break;
		}
		codes[i] = slot ? slot - 1 : dictionary->count;
		if (!slot)
			code = view_insert(dictionary, view, hash, at, account, err);
	}
	return code;
}

void parquet_dictionary_seal(struct parquet_dictionary *dictionary, struct weir_account *account)
{
	weir_free(account, dictionary->slots, dictionary->slot_count * sizeof(*dictionary->slots));
	weir_free(account, dictionary->entries, dictionary->entry_capacity * sizeof(*dictionary->entries));
	dictionary->slots = NULL;
	dictionary->entries = NULL;
	dictionary->slot_count = dictionary->entry_capacity = 0;
}

void parquet_dictionary_clear(struct parquet_dictionary *dictionary)
{
	dictionary->body.size = 0;
	if (dictionary->count && dictionary->slot_count)
		memset(dictionary->slots, 0, dictionary->slot_count * sizeof(*dictionary->slots));
	dictionary->count = 0;
}

void parquet_dictionary_release(struct parquet_dictionary *dictionary, struct weir_account *account)
{
	parquet_dictionary_seal(dictionary, account);
	parquet_buffer_release(&dictionary->body, account);
	*dictionary = (struct parquet_dictionary){0};
}
