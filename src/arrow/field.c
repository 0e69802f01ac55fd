/* Fields and their metadata packed behind a type or schema, in one allocation (drawing in arrow_impl.h): how much they
 * take, then their copies; and metadata compared and looked up. */
#include "arrow/arrow_impl.h"

#include <stdlib.h>

static void metadata_size(const struct weir_metadata *metadata, size_t *size)
{
	for (uint32_t i = 0; i < metadata->count; i++)
		*size += sizeof(*metadata->entries) + strlen(metadata->entries[i].key) + 1 +
			 metadata->entries[i].value_size + 1;
}

size_t fields_pack_size(const struct weir_field *fields, uint32_t count, const struct weir_metadata *metadata,
			const char *string)
{
	size_t size = sizeof(*fields) * count;

	for (uint32_t i = 0; i < count; i++) {
		size += strlen(fields[i].name) + 1;
		metadata_size(&fields[i].metadata, &size);
	}
	if (metadata)
		metadata_size(metadata, &size);
	if (string)
		size += strlen(string) + 1;
	return size;
}

void fields_pack_begin(struct fields_pack *pack, void *to, const struct weir_field *fields, uint32_t count,
		       const struct weir_metadata *metadata)
{
	size_t entries = metadata ? metadata->count : 0;

	for (uint32_t i = 0; i < count; i++)
		entries += fields[i].metadata.count;
	pack->fields = to;
	pack->entries = (struct weir_metadata_entry *)(pack->fields + count);
	pack->text = (char *)(pack->entries + entries);
}

static const char *pack_bytes(struct fields_pack *pack, const char *bytes, size_t size)
{
	char *text = pack->text;

	if (size)
		memcpy(text, bytes, size);
	text[size] = 0;
	pack->text += size + 1;
	return text;
}

const char *fields_pack_string(struct fields_pack *pack, const char *string)
{
	return string ? pack_bytes(pack, string, strlen(string)) : NULL;
}

static int entry_compare(const void *a, const void *b)
{
	const struct weir_metadata_entry *x = a, *y = b;
	int order = strcmp(x->key, y->key);
	uint32_t size = x->value_size < y->value_size ? x->value_size : y->value_size;

	/* A key may come twice; then the values decide, so that equal sets always lie in one order. */
	if (!order)
		order = memcmp(x->value, y->value, size);
	return order ? order : (x->value_size > y->value_size) - (x->value_size < y->value_size);
}

struct weir_metadata fields_pack_metadata(struct fields_pack *pack, const struct weir_metadata *metadata)
{
	struct weir_metadata copy = {0};

	if (!metadata || !metadata->count)
		return copy;
	copy.count = metadata->count;
	copy.entries = pack->entries;
	pack->entries += copy.count;
	for (uint32_t i = 0; i < copy.count; i++) {
		const struct weir_metadata_entry *entry = &metadata->entries[i];

		copy.entries[i].key = fields_pack_string(pack, entry->key);
		copy.entries[i].value = pack_bytes(pack, entry->value, entry->value_size);
		copy.entries[i].value_size = entry->value_size;
	}
	qsort(copy.entries, copy.count, sizeof(*copy.entries), entry_compare);
	return copy;
}

struct weir_field *fields_pack_fields(struct fields_pack *pack, const struct weir_field *fields, uint32_t count)
{
	struct weir_field *copy = pack->fields;

	for (uint32_t i = 0; i < count; i++) {
		copy[i].name = fields_pack_string(pack, fields[i].name);
		copy[i].type = weir_type_ref(fields[i].type);
		copy[i].nullable = fields[i].nullable;
		copy[i].metadata = fields_pack_metadata(pack, &fields[i].metadata);
	}
	return copy;
}

bool metadata_equal(const struct weir_metadata *a, const struct weir_metadata *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct weir_metadata_entry *x = &a->entries[i], *y = &b->entries[i];

		if (strcmp(x->key, y->key) || x->value_size != y->value_size ||
		    memcmp(x->value, y->value, x->value_size))
			return false;
	}
	return true;
}

bool fields_equal(const struct weir_field *a, const struct weir_field *b, uint32_t count, bool with_names,
		  bool with_metadata)
{
	for (uint32_t i = 0; i < count; i++)
		if (a[i].nullable != b[i].nullable || (with_names && strcmp(a[i].name, b[i].name)) ||
		    (with_metadata && !metadata_equal(&a[i].metadata, &b[i].metadata)) ||
		    !weir_type_equal(a[i].type, b[i].type, with_metadata))
			return false;
	return true;
}

const char *weir_metadata_get(const struct weir_metadata *metadata, const char *key, uint32_t *value_size)
{
	for (uint32_t i = 0; i < metadata->count; i++) {
		const struct weir_metadata_entry *entry = &metadata->entries[i];

		if (strcmp(entry->key, key))
			continue;
		if (value_size)
			*value_size = entry->value_size;
		return entry->value;
	}
	return NULL;
}
