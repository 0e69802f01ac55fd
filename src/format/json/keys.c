/* The names of an object's fields.
 *
 * Records of a file mostly have their fields in one order. So each name remembers which one came after it last time,
 * and the next name is compared with that one first: two loads, two masks. Only when it is another is it looked up by
 * hash. A name written with escapes is found by its hash once they are gone.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "format/json/json_impl.h"

#include <string.h>

static void key_init(struct json_key *key, const char *name, uint32_t index)
{
	uint8_t bytes[16] = {0}, masks[16] = {0};
	size_t size = strlen(name), copied = size < 16 ? size : 16;

	*key = (struct json_key){.name = name, .size = (uint32_t)size, .next = index + 1, .slot = JSON_NO_FIELD};
	memcpy(bytes, name, copied);
	memset(masks, 0xff, copied);
	if (size < 16) {
		bytes[size] = '"';
		masks[size] = 0xff;
	}
	memcpy(&key->low, bytes, 8);
	memcpy(&key->high, bytes + 8, 8);
	memcpy(&key->low_mask, masks, 8);
	memcpy(&key->high_mask, masks + 8, 8);
	/* A name with one of these is never spelled as it is. */
	for (size_t i = 0; i < size; i++)
		if (name[i] == '"' || name[i] == '\\' || (uint8_t)name[i] < 0x20)
			key->low_mask = ~UINT64_C(0), key->low = 0;
}

int json_keys_init(struct json_keys *keys, struct weir_account *account, const struct weir_field *fields,
		   uint32_t count, struct weir_error *err)
{
	uint32_t table_size = 4;

	*keys = (struct json_keys){.account = account, .count = count};
	while (table_size < count * 2 + 2)
		table_size *= 2;
	keys->keys = weir_alloc(account, count * sizeof(*keys->keys), err);
	if (!keys->keys)
		return err->code;
	keys->table = weir_alloc(account, table_size * sizeof(*keys->table), err);
	if (!keys->table) {
		weir_free(account, keys->keys, count * sizeof(*keys->keys));
		keys->keys = NULL;
		return err->code;
	}
	keys->table_mask = table_size - 1;
	memset(keys->table, 0xff, table_size * sizeof(*keys->table));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at;

		key_init(&keys->keys[i], fields[i].name, i);
		/* The first of two fields with one name has it. */
		if (json_keys_find(keys, fields[i].name, keys->keys[i].size) != JSON_NO_FIELD)
			continue;
		at = (uint32_t)weir_hash_bytes(fields[i].name, keys->keys[i].size, 0) & keys->table_mask;
		while (keys->table[at] != JSON_NO_FIELD)
			at = (at + 1) & keys->table_mask;
		keys->table[at] = i;
	}
	if (count)
		keys->keys[count - 1].next = 0;
	return WEIR_OK;
}

void json_keys_release(struct json_keys *keys)
{
	if (!keys->keys)
		return;
	weir_free(keys->account, keys->keys, keys->count * sizeof(*keys->keys));
	weir_free(keys->account, keys->table, (keys->table_mask + 1) * sizeof(*keys->table));
	*keys = (struct json_keys){0};
}

uint32_t json_keys_find(const struct json_keys *keys, const void *name, size_t size)
{
	uint32_t at = (uint32_t)weir_hash_bytes(name, size, 0) & keys->table_mask;

	for (; keys->table[at] != JSON_NO_FIELD; at = (at + 1) & keys->table_mask) {
		const struct json_key *key = &keys->keys[keys->table[at]];

		if (key->size == size && memcmp(key->name, name, size) == 0)
			return keys->table[at];
	}
	return JSON_NO_FIELD;
}
