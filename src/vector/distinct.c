#include "base/hash.h"
#include "vector/distinct_impl.h"

#include <string.h>

int weir_distinct_init(struct weir_distinct *distinct, const struct weir_type *type, struct weir_account *account,
		       struct weir_error *err)
{
	*distinct = (struct weir_distinct){0};
	return weir_builder_init(&distinct->values, type, account, err);
}

static int slots_grow(struct weir_distinct *distinct, struct weir_error *err)
{
	uint32_t count = distinct->slot_count ? distinct->slot_count * 2 : 64;
	uint32_t *slots = weir_alloc_zero(distinct->values.account, count * sizeof(*slots), err);

	if (!slots)
		return err->code;
	for (uint32_t i = 0; i < distinct->hashes.count; i++) {
		uint32_t slot = (uint32_t)distinct->hashes.items[i] & (count - 1);

		while (slots[slot])
			slot = (slot + 1) & (count - 1);
		slots[slot] = i + 1;
	}
	weir_free(distinct->values.account, distinct->slots, distinct->slot_count * sizeof(*slots));
	distinct->slots = slots;
	distinct->slot_count = count;
	return WEIR_OK;
}

/* The bytes of a value; those of a bit are at `bit`. */
static void value_bytes(const struct weir_type *type, const void *values, uint32_t at, uint8_t *bit,
			const uint8_t **bytes, size_t *size)
{
	if (type->layout == WEIR_LAYOUT_BYTES) {
		const struct weir_view *view = (const struct weir_view *)values + at;

		*bytes = weir_view_bytes(view);
		*size = view->size;
	} else if (type->layout == WEIR_LAYOUT_BITS) {
		*bit = ((const uint64_t *)values)[at >> 6] >> (at & 63) & 1;
		*bytes = bit;
		*size = 1;
	} else {
		*bytes = (const uint8_t *)values + (size_t)at * type->byte_width;
		*size = type->byte_width;
	}
}

static bool value_is(const struct weir_builder *values, uint32_t number, const uint8_t *bytes, size_t size)
{
	const struct weir_type *type = values->type;

	if (type->layout == WEIR_LAYOUT_BITS)
		return (values->values[number / 8] >> number % 8 & 1) == *bytes;
	if (type->layout == WEIR_LAYOUT_FIXED)
		return !memcmp(values->values + (size_t)number * type->byte_width, bytes, size);
	if (type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY) {
		const int64_t *offsets = (const int64_t *)values->values;

		return (size_t)(offsets[number + 1] - offsets[number]) == size &&
		       !memcmp(values->bytes + offsets[number], bytes, size);
	}
	const int32_t *offsets = (const int32_t *)values->values;

	return (size_t)(offsets[number + 1] - offsets[number]) == size &&
	       !memcmp(values->bytes + offsets[number], bytes, size);
}

int weir_distinct_find(struct weir_distinct *distinct, const void *values, uint32_t at, uint32_t *out,
		       struct weir_error *err)
{
	const struct weir_type *type = distinct->values.type;
	const uint8_t *bytes;
	uint8_t bit;
	size_t size;
	uint64_t hash;
	uint32_t slot, count = (uint32_t)distinct->hashes.count;
	int code = WEIR_OK;

	if (count >= distinct->slot_count / 2 && (code = slots_grow(distinct, err)))
		return code;
	value_bytes(type, values, at, &bit, &bytes, &size);
	hash = weir_hash_bytes(bytes, size, 0);
	for (slot = (uint32_t)hash & (distinct->slot_count - 1); distinct->slots[slot];
	     slot = (slot + 1) & (distinct->slot_count - 1)) {
		uint32_t number = distinct->slots[slot] - 1;

		if (distinct->hashes.items[number] == hash && value_is(&distinct->values, number, bytes, size)) {
			*out = number;
			return WEIR_OK;
		}
	}
	/* Room first: a value without its hash would be found by nobody. */
	code = weir_list_reserve(&distinct->hashes, distinct->values.account, err, distinct->hashes.count + 1);
	if (code)
		return code;
	code = type->layout == WEIR_LAYOUT_BYTES ? weir_builder_bytes(&distinct->values, bytes, size, err)
						 : weir_builder_fixed(&distinct->values, bytes, 1, err);
	if (code)
		return code;
	distinct->hashes.items[distinct->hashes.count++] = hash;
	distinct->slots[slot] = count + 1;
	*out = count;
	return WEIR_OK;
}

int weir_distinct_map(struct weir_distinct *distinct, const struct weir_dictionary *dictionary, struct weir_error *err)
{
	uint32_t *map;

	if (distinct->mapped_id == dictionary->id && distinct->map_count == dictionary->count)
		return WEIR_OK;
	map = weir_alloc_zero(distinct->values.account, dictionary->count * sizeof(*map), err);
	if (!map)
		return err->code;
	weir_free(distinct->values.account, distinct->map, distinct->map_count * sizeof(*map));
	distinct->map = map;
	distinct->map_count = dictionary->count;
	distinct->mapped_id = dictionary->id;
	return WEIR_OK;
}

void weir_distinct_forget(struct weir_distinct *distinct)
{
	struct weir_account *account = distinct->values.account;

	weir_list_release(&distinct->hashes, account);
	weir_free(account, distinct->slots, distinct->slot_count * sizeof(*distinct->slots));
	weir_free(account, distinct->map, distinct->map_count * sizeof(*distinct->map));
	distinct->slots = distinct->map = NULL;
	distinct->slot_count = distinct->map_count = 0;
	distinct->mapped_id = 0;
}

void weir_distinct_release(struct weir_distinct *distinct)
{
	weir_distinct_forget(distinct);
	weir_builder_release(&distinct->values);
}
