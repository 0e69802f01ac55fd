/* Several dictionaries made one, and values made codes: a hash table from value to code over a builder that holds the
 * values.
 *
 * Codes only ever grow, so those already written stay right. Values of nested types are not compared, only appended:
 * such dictionaries are rare, and a double in a dictionary is legal.
 */
#include "base/hash.h"
#include "base/list.h"
#include "arrow/arrow_impl.h"

struct dictionary_table {
	struct weir_account *account;
	struct weir_builder values;
	int64_t null_code; /* -1: no null so far */
	int64_t *slots;    /* codes, -1 where empty; open addressing, at most half full */
	size_t slot_count; /* a power of two, or 0 */
	size_t used_count;
	struct WEIR_LIST(uint64_t) hashes; /* by code */
	/* Arrays in a row often share their dictionary. */
	const struct weir_array *last;
	int64_t *last_map;
	size_t last_size;
};

static bool compares(const struct dictionary_table *table)
{
	enum weir_layout layout = table->values.type->layout;

	return layout == WEIR_LAYOUT_FIXED || layout == WEIR_LAYOUT_BYTES || layout == WEIR_LAYOUT_BITS;
}

static int64_t *find_slot(const struct dictionary_table *table, uint64_t hash, const uint8_t *bytes, size_t size)
{
	const struct weir_builder *values = &table->values;
	size_t mask = table->slot_count - 1, at = hash & mask;

	for (;; at = (at + 1) & mask) {
		int64_t code = table->slots[at];
		const uint8_t *there;
		size_t there_size;
		uint8_t bit;

		if (code < 0)
			return &table->slots[at];
		if (table->hashes.items[code] != hash)
			continue;
		if (values->type->layout == WEIR_LAYOUT_BITS) {
			bit = weir_bit_get(values->values, code);
			there = &bit;
			there_size = 1;
		} else if (values->type->layout == WEIR_LAYOUT_FIXED) {
			there = values->values + (size_t)code * size;
			there_size = size;
		} else if (type_offset_width(values->type) == 4) {
			const int32_t *offsets = (const int32_t *)values->values + code;

			there = values->bytes + offsets[0];
			there_size = (size_t)(offsets[1] - offsets[0]);
		} else {
			const int64_t *offsets = (const int64_t *)values->values + code;

			there = values->bytes + offsets[0];
			there_size = (size_t)(offsets[1] - offsets[0]);
		}
		if (there_size == size && (!size || !memcmp(there, bytes, size)))
			return &table->slots[at];
	}
}

static int widen(struct dictionary_table *table, struct weir_error *err)
{
	size_t count = table->slot_count ? table->slot_count * 2 : 64;
	int64_t *old = table->slots, *slots;

	if (table->used_count * 2 < table->slot_count)
		return WEIR_OK;
	slots = weir_alloc(table->account, count * sizeof(*slots), err);
	if (!slots)
		return err->code;
	memset(slots, 0xff, count * sizeof(*slots));
	for (size_t i = 0; i < table->slot_count; i++) {
		size_t at;

		if (old[i] < 0)
			continue;
		at = table->hashes.items[old[i]] & (count - 1);
		while (slots[at] >= 0)
			at = (at + 1) & (count - 1);
		slots[at] = old[i];
	}
	weir_free(table->account, old, table->slot_count * sizeof(*old));
	table->slots = slots;
	table->slot_count = count;
	return WEIR_OK;
}

static int append(struct dictionary_table *table, const uint8_t *bytes, size_t size, uint64_t hash, int64_t *slot,
		  struct weir_error *err)
{
	struct weir_builder *values = &table->values;
	int64_t code = values->length;

	if (weir_list_push(&table->hashes, table->account, err, hash))
		return err->code;
	if (values->type->layout == WEIR_LAYOUT_BYTES ? weir_builder_bytes(values, bytes, size, err)
						      : weir_builder_fixed(values, bytes, 1, err))
		return err->code;
	/* A double of the first dictionary keeps its position; the first of them is the one found. */
	if (*slot < 0) {
		*slot = code;
		table->used_count++;
	}
	return WEIR_OK;
}

static int add_null(struct dictionary_table *table, struct weir_error *err)
{
	if (table->null_code < 0)
		table->null_code = table->values.length;
	if (compares(table) && weir_list_push(&table->hashes, table->account, err, 0))
		return err->code;
	return weir_builder_null(&table->values, 1, err);
}

/* One value that is not null; `row` counts from the buffers' begin. `keep_double`: appended even when it is there. */
static int add_value(struct dictionary_table *table, const struct weir_array *values, int64_t row, bool keep_double,
		     int64_t *code, struct weir_error *err)
{
	const uint8_t *data = values->buffers[1].data, *bytes;
	size_t size = values->type->byte_width;
	uint64_t hash;
	int64_t *slot;
	uint8_t bit;

	switch (values->type->layout) {
	case WEIR_LAYOUT_BITS:
		bit = weir_bit_get(data, row);
		bytes = &bit;
		size = 1;
		break;
	case WEIR_LAYOUT_FIXED:
		bytes = data + (size_t)row * size;
		break;
	default:
		bytes = values->buffers[2].data + offset_at(values, row);
		size = (size_t)(offset_at(values, row + 1) - offset_at(values, row));
	}
	if (widen(table, err))
		return err->code;
	hash = weir_hash_bytes(bytes, size, 0);
	slot = find_slot(table, hash, bytes, size);
	*code = *slot < 0 || keep_double ? table->values.length : *slot;
	return *code == table->values.length ? append(table, bytes, size, hash, slot, err) : WEIR_OK;
}

/* `map` NULL: every value is appended, whether it is there or not. */
static int add(struct dictionary_table *table, const struct weir_array *values, int64_t *map, struct weir_error *err)
{
	const uint8_t *validity = values->buffers[0].data;

	if (!compares(table)) {
		for (int64_t i = 0; map && i < values->length; i++)
			map[i] = table->values.length + i;
		return weir_builder_array(&table->values, values, 0, values->length, err);
	}
	for (int64_t i = 0; i < values->length; i++) {
		int64_t row = values->offset + i, code;

		if (validity && !weir_bit_get(validity, row)) {
			if (map && table->null_code >= 0) {
				map[i] = table->null_code;
				continue;
			}
			if (map)
				map[i] = table->values.length;
			if (add_null(table, err))
				return err->code;
			continue;
		}
		if (add_value(table, values, row, !map, &code, err))
			return err->code;
		if (map)
			map[i] = code;
	}
	return WEIR_OK;
}

static struct dictionary_table *table_new(struct weir_account *account, const struct weir_type *type,
					  struct weir_error *err)
{
	struct dictionary_table *table = weir_alloc_zero(account, sizeof(*table), err);

	if (!table)
		return NULL;
	table->account = account;
	table->null_code = -1;
	if (!weir_builder_init(&table->values, type, account, err))
		return table;
	dictionary_table_free(table);
	return NULL;
}

int dictionary_table_new(struct weir_account *account, const struct weir_type *type, const struct weir_array *first,
			 struct dictionary_table **out, struct weir_error *err)
{
	*out = table_new(account, type, err);
	if (*out && !add(*out, first, NULL, err))
		return WEIR_OK;
	dictionary_table_free(*out);
	*out = NULL;
	return err->code;
}

static void forget_last(struct dictionary_table *table)
{
	weir_array_unref(table->last);
	weir_free(table->account, table->last_map, table->last_size);
	table->last = NULL;
	table->last_map = NULL;
	table->last_size = 0;
}

void dictionary_table_free(struct dictionary_table *table)
{
	if (!table)
		return;
	forget_last(table);
	weir_free(table->account, table->slots, table->slot_count * sizeof(*table->slots));
	weir_list_release(&table->hashes, table->account);
	weir_builder_release(&table->values);
	weir_free(table->account, table, sizeof(*table));
}

int dictionary_table_add(struct dictionary_table *table, const struct weir_array *values, const int64_t **map,
			 struct weir_error *err)
{
	if (table->last != values) {
		forget_last(table);
		table->last_size = (size_t)values->length * sizeof(int64_t);
		table->last_map = weir_alloc(table->account, table->last_size, err);
		if (!table->last_map || add(table, values, table->last_map, err))
			return err->code;
		table->last = weir_array_ref(values);
	}
	*map = table->last_map;
	return WEIR_OK;
}

int dictionary_table_settle(struct dictionary_table *table, struct weir_error *err)
{
	forget_last(table);
	return weir_builder_settle(&table->values, err);
}

struct weir_array *dictionary_table_finish(struct dictionary_table *table, struct weir_error *err)
{
	return weir_builder_finish(&table->values, err);
}

int64_t dictionary_table_count(const struct dictionary_table *table)
{
	return table->values.length;
}

#define TRANSLATE(TYPE)                                                                                                \
	do {                                                                                                           \
		const TYPE *from = (const TYPE *)codes + offset;                                                       \
		TYPE *to = (TYPE *)out;                                                                                \
		for (int64_t i = 0; i < count; i++)                                                                    \
			to[i] = !validity || weir_bit_get(validity, offset + i) ? (TYPE)map[from[i]] : 0;              \
	} while (0)

void dictionary_translate(const struct weir_type *type, const uint8_t *codes, int64_t offset, int64_t count,
			  const uint8_t *validity, const int64_t *map, uint8_t *out)
{
	switch (type->byte_width) {
	case 1:
		/* A valid code is never negative, so the unsigned types read the signed ones too. */
		TRANSLATE(uint8_t);
		break;
	case 2:
		TRANSLATE(uint16_t);
		break;
	case 4:
		TRANSLATE(uint32_t);
		break;
	default:
		TRANSLATE(uint64_t);
		break;
	}
}

int dictionary_check_codes(const struct weir_type *type, int64_t value_count, struct weir_error *err)
{
	unsigned bits = type->byte_width * 8 - weir_type_is_signed(type);

	if (bits >= 63 || value_count <= INT64_C(1) << bits)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_OVERFLOW, "a dictionary of %lld values does not fit codes of type %s",
			      (long long)value_count, type_words[type->id]);
}

/* ── values to codes ── */

static void put_code(uint8_t *codes, uint32_t width, int64_t at, int64_t code)
{
	/* Little endian: the low bytes come first. */
	memcpy(codes + at * width, &code, width);
}

struct weir_array *weir_array_encode(struct weir_account *account, const struct weir_array *array,
				     const struct weir_type *type, struct weir_error *err)
{
	const struct weir_type *index = type->dictionary_index;
	const uint8_t *validity = array->buffers[0].data;
	bool is_null = array->type->layout == WEIR_LAYOUT_NULL;
	struct dictionary_table *table = NULL;
	struct weir_array *out = weir_array_new(account, type, err);
	int64_t end = array->offset + array->length;
	uint8_t *codes;

	if (!out)
		return NULL;
	WEIR_ASSERT(type->id == WEIR_DICTIONARY_TYPE && weir_type_equal(type->dictionary_value, array->type, false));
	table = table_new(account, array->type, err);
	if (!table || weir_buffer_new(account, (uint64_t)end * index->byte_width, &out->buffers[1], &codes, err))
		goto fail;
	if (!compares(table) && !is_null) {
		weir_error_set(err, WEIR_E_UNSUPPORTED, "values of type %s made a dictionary",
			       type_words[array->type->id]);
		goto fail;
	}
	out->length = array->length;
	out->offset = array->offset;
	out->null_count = is_null ? array->length : array->null_count;
	if (is_null) {
		uint8_t *none;

		if (weir_buffer_new(account, weir_bits_size(end), &out->buffers[0], &none, err))
			goto fail;
		memset(none, 0, weir_bits_size(end));
	} else if (validity) {
		out->buffers[0] = weir_buffer_ref(&array->buffers[0]);
	}
	for (int64_t row = array->offset; row < end; row++) {
		int64_t code = 0;

		if (!is_null && (!validity || weir_bit_get(validity, row)) &&
		    add_value(table, array, row, false, &code, err))
			goto fail;
		put_code(codes, index->byte_width, row, code);
	}
	if (dictionary_check_codes(index, table->values.length, err))
		goto fail;
	out->dictionary = dictionary_table_finish(table, err);
	if (!out->dictionary)
		goto fail;
	dictionary_table_free(table);
	return out;
fail:
	dictionary_table_free(table);
	weir_array_unref(out);
	return NULL;
}
