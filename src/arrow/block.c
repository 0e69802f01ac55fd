/* Schema, dictionaries and one record batch in a row. The schema's bytes are copied before they are looked at: they may
 * lie in memory that another process can still write to, and the copy is what the next block's are compared with. */
#include "arrow/block.h"
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

#include <string.h>

struct weir_block_schema {
	struct weir_account *account;
	struct ipc_schema parsed;
	uint64_t size;
	uint8_t bytes[];
};

/* ---- writing ---- */

/* Dictionaries are numbered as they are met, parents first; a parent is written after those inside its values. Without
 * memory they are only measured. */
struct dictionary_walk {
	uint32_t next;
	uint64_t size;
	uint8_t *out;
};

static int walk_dictionaries(struct dictionary_walk *walk, const struct weir_array *array, struct weir_error *err)
{
	struct weir_chunk_plan plan;
	int code = WEIR_OK;

	if (array->type->id == WEIR_DICTIONARY_TYPE) {
		uint32_t number = walk->next++;

		code = walk_dictionaries(walk, array->dictionary, err);
		if (!code)
			code = weir_dictionary_measure(array->dictionary, &plan, err);
		if (!code && walk->out)
			code = weir_dictionary_write(number, false, array->dictionary, &plan, walk->out + walk->size,
						     err);
		if (!code)
			walk->size += plan.size;
		return code;
	}
	for (uint32_t i = 0; !code && i < array->child_count; i++)
		code = walk_dictionaries(walk, array->children[i], err);
	return code;
}

static int put_dictionaries(const struct weir_batch *batch, uint8_t *out, uint64_t *size, struct weir_error *err)
{
	struct dictionary_walk walk = {.out = out};
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < batch->column_count; i++)
		code = walk_dictionaries(&walk, batch->columns[i], err);
	*size = walk.size;
	return code;
}

int weir_block_measure(const struct weir_batch *batch, struct weir_block_plan *out, struct weir_error *err)
{
	struct weir_chunk_plan chunk = {0};
	int code;

	*out = (struct weir_block_plan){0};
	code = ipc_schema_measure(batch->schema, &out->schema_size, err);
	if (!code)
		code = put_dictionaries(batch, NULL, &out->dictionaries_size, err);
	if (!code)
		code = weir_chunk_measure(batch, &chunk, err);
	out->batch_size = chunk.size;
	out->size = out->schema_size + out->dictionaries_size + out->batch_size;
	out->large = chunk.large;
	out->large.offset += out->schema_size + out->dictionaries_size;
	return code;
}

int weir_block_write(const struct weir_batch *batch, const struct weir_block_plan *plan, uint8_t *out,
		     struct weir_error *err)
{
	struct weir_chunk_plan chunk;
	uint64_t size;
	int code = weir_chunk_measure(batch, &chunk, err);

	if (code)
		return code;
	WEIR_ASSERT(chunk.size == plan->batch_size);
	ipc_schema_write(batch->schema, plan->schema_size, out);
	code = put_dictionaries(batch, out + plan->schema_size, &size, err);
	if (code)
		return code;
	WEIR_ASSERT(size == plan->dictionaries_size);
	return weir_chunk_write(batch, &chunk, out + plan->schema_size + plan->dictionaries_size, err);
}

void weir_block_places(const struct weir_batch *batch, const struct weir_block_plan *plan, uint64_t *places,
		       uint64_t *offsets)
{
	uint64_t at = plan->size;

	/* Each buffer is on a boundary, and the last ends with the block. */
	for (uint32_t i = batch->column_count; i-- > 0;) {
		const struct weir_array *column = batch->columns[i];
		const struct weir_array *values = column->child_count ? column->children[0] : column;
		const struct weir_type *type = values->type;

		if (type->layout == WEIR_LAYOUT_BYTES)
			at -= weir_round_up((uint64_t)offset_at(values, values->length), IPC_ALIGN);
		else if (type->layout == WEIR_LAYOUT_BITS)
			at -= weir_round_up(weir_bits_size(values->length), IPC_ALIGN);
		else
			at -= weir_round_up((uint64_t)values->length * type->byte_width, IPC_ALIGN);
		places[i] = at;
		if (type->layout == WEIR_LAYOUT_BYTES)
			at -= weir_round_up(((uint64_t)values->length + 1) * type_offset_width(type), IPC_ALIGN);
		if (offsets)
			offsets[i] = at;
		if (column->null_count)
			at -= weir_round_up(weir_bits_size(column->length), IPC_ALIGN);
	}
}

/* An array without memory, which is all that measuring needs. */
static struct weir_array *frame_array(struct weir_account *account, const struct weir_type *type, int64_t rows,
				      struct weir_error *err)
{
	struct weir_array *array = weir_array_new(account, type, err);

	if (!array)
		return NULL;
	array->length = rows;
	if (type->id != WEIR_FIXED_LIST)
		return array;
	array->children[0] = frame_array(account, type->fields[0].type, rows * type->list_size, err);
	if (array->children[0])
		return array;
	weir_array_unref(array);
	return NULL;
}

int weir_block_frame(struct weir_account *account, const struct weir_schema *schema, int64_t rows,
		     struct weir_block_plan *plan, uint64_t *places, struct weir_error *err)
{
	struct weir_array **arrays = weir_alloc_zero(account, schema->field_count * sizeof(*arrays), err);
	struct weir_batch *batch = NULL;
	int code = arrays ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		arrays[i] = frame_array(account, schema->fields[i].type, rows, err);
		if (!arrays[i])
			code = err->code;
	}
	if (!code) {
		batch = weir_batch_new(account, schema, rows, arrays, err);
		code = batch ? weir_block_measure(batch, plan, err) : err->code;
	}
	if (!code)
		weir_block_places(batch, plan, places, NULL);
	weir_batch_unref(batch);
	for (uint32_t i = 0; arrays && i < schema->field_count; i++)
		weir_array_unref(arrays[i]);
	weir_free(account, arrays, schema->field_count * sizeof(*arrays));
	return code;
}

/* ---- reading ---- */

static void schema_free(struct weir_block_schema *schema)
{
	if (!schema)
		return;
	ipc_schema_release(&schema->parsed);
	weir_free(schema->account, schema, sizeof(*schema) + schema->size);
}

void weir_block_cache_release(struct weir_block_cache *cache)
{
	schema_free(cache->last);
	cache->last = NULL;
}

static int parse_schema(struct weir_account *account, const uint8_t *bytes, uint64_t size,
			struct weir_block_schema **out, struct weir_error *err)
{
	struct weir_block_schema *schema = weir_alloc(account, sizeof(*schema) + size, err);
	struct ipc_message message;
	int code;

	if (!schema)
		return err->code;
	*schema = (struct weir_block_schema){.account = account, .size = size};
	memcpy(schema->bytes, bytes, size);
	code = ipc_message_open(schema->bytes, size, &message, err);
	if (!code && (message.metadata_size != size || message.header_type != HEADER_SCHEMA))
		code = weir_error_set(err, WEIR_E_DATA, "a block does not begin with a schema");
	if (!code)
		code = ipc_schema_parse(account, &message.flat, &message.header, &schema->parsed, err);
	if (code)
		schema_free(schema);
	else
		*out = schema;
	return code;
}

/* The schema at the block's beginning, of the cache if it is the same as the last. */
static int find_schema(struct weir_account *account, struct weir_block_cache *cache, const uint8_t *bytes,
		       uint64_t size, struct weir_error *err)
{
	struct weir_block_schema *schema = cache->last;
	uint8_t prefix[IPC_PREFIX_SIZE];
	uint64_t schema_size;
	int code;

	if (schema && schema->size <= size && memcmp(schema->bytes, bytes, schema->size) == 0)
		return WEIR_OK;
	if (size < sizeof(prefix))
		return weir_error_set(err, WEIR_E_DATA, "a block of %llu bytes has no schema",
				      (unsigned long long)size);
	memcpy(prefix, bytes, sizeof(prefix));
	code = weir_ipc_metadata_size(prefix, &schema_size, err);
	if (code)
		return code;
	if (schema_size > size)
		return weir_error_set(err, WEIR_E_DATA, "a block of %llu bytes ends inside its schema",
				      (unsigned long long)size);
	code = parse_schema(cache->account ? cache->account : account, bytes, schema_size, &schema, err);
	if (code)
		return code;
	schema_free(cache->last);
	cache->last = schema;
	return WEIR_OK;
}

struct reading {
	struct weir_account *account;
	const struct ipc_schema *schema;
	struct weir_owner *owner;
	bool deep;
};

static int read_columns(const struct reading *reading, const struct ipc_message *message,
			const struct weir_ipc_dictionaries *dictionaries, struct weir_batch **out,
			struct weir_error *err)
{
	const struct weir_schema *schema = reading->schema->schema;
	size_t columns_size = sizeof(struct weir_array *) * schema->field_count;
	struct weir_array **columns = weir_alloc(reading->account, columns_size, err);
	struct ipc_memory memory = {.bytes = message->body, .owner = reading->owner};
	struct weir_ipc_body body = ipc_memory_body(&memory);
	struct weir_ipc_layout layout;
	uint32_t done = 0;
	int code;

	if (!columns)
		return err->code;
	ipc_layout_init(&layout, reading->account, schema->fields, schema->field_count, reading->schema->wires.items);
	layout.is_chunk = true;
	code = ipc_layout_read(&layout, message, &message->header, err);
	for (; !code && done < schema->field_count; done += !code)
		code = ipc_rows_read(&layout, done, 0, layout.row_count, &body, dictionaries->values, reading->deep,
				     &columns[done], err);
	if (!code) {
		*out = weir_batch_new(reading->account, schema, layout.row_count, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	while (done > 0)
		weir_array_unref(columns[--done]);
	ipc_layout_release(&layout);
	weir_free(reading->account, columns, columns_size);
	return code;
}

static int read_dictionary(const struct reading *reading, const struct ipc_message *message,
			   struct weir_ipc_dictionaries *dictionaries, struct weir_error *err)
{
	struct ipc_memory memory = {.bytes = message->body, .owner = reading->owner};
	struct weir_ipc_body body = ipc_memory_body(&memory);

	return ipc_dictionaries_read(dictionaries, message, &body, err);
}

static int read_messages(const struct reading *reading, const uint8_t *bytes, uint64_t size,
			 struct weir_ipc_dictionaries *dictionaries, struct weir_batch **out, struct weir_error *err)
{
	struct ipc_message message;
	uint64_t at = 0;
	int code = WEIR_OK;

	while (!code && !*out) {
		code = ipc_message_open(bytes + at, size - at, &message, err);
		if (code)
			break;
		if (message.metadata_size && message.header_type == HEADER_RECORD_BATCH)
			code = read_columns(reading, &message, dictionaries, out, err);
		else if (message.metadata_size && message.header_type == HEADER_DICTIONARY)
			code = read_dictionary(reading, &message, dictionaries, err);
		else
			code = weir_error_set(err, WEIR_E_DATA, "a block has no record batch");
		at += message.metadata_size + message.body_size;
	}
	return code;
}

int weir_block_open(struct weir_account *account, struct weir_block_cache *cache, const uint8_t *bytes, uint64_t size,
		    struct weir_owner *owner, bool deep, struct weir_batch **out, struct weir_error *err)
{
	struct reading reading = {.account = account, .owner = owner, .deep = deep};
	struct weir_ipc_dictionaries dictionaries = {0};
	uint64_t schema_size;
	int code = find_schema(account, cache, bytes, size, err);

	*out = NULL;
	if (code)
		return code;
	schema_size = cache->last->size;
	reading.schema = &cache->last->parsed;
	if (reading.schema->dictionaries.count) {
		code = ipc_dictionaries_init(&dictionaries, account, reading.schema, true, err);
		for (uint32_t i = 0; !code && i < reading.schema->schema->field_count; i++)
			weir_ipc_dictionaries_want(&dictionaries, i);
		dictionaries.shallow = !deep;
	}
	if (!code)
		code = read_messages(&reading, bytes + schema_size, size - schema_size, &dictionaries, out, err);
	ipc_dictionaries_release(&dictionaries);
	return code;
}
