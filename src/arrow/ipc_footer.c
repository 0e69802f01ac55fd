/* Schemas and footers for those who read messages piece by piece. */
#include "base/checked.h"
#include "arrow/ipc_impl.h"

#include <string.h>

static struct weir_ipc_schema *schema_new(struct weir_account *account, struct weir_error *err)
{
	struct weir_ipc_schema *schema = weir_alloc_zero(account, sizeof(*schema), err);

	if (schema)
		schema->account = account;
	return schema;
}

void weir_ipc_schema_free(struct weir_ipc_schema *schema)
{
	if (!schema)
		return;
	ipc_schema_release(&schema->parsed);
	weir_free(schema->account, schema, sizeof(*schema));
}

struct weir_schema *weir_ipc_schema_columns(const struct weir_ipc_schema *schema)
{
	return schema->parsed.schema;
}

static int schema_parse(struct weir_account *account, struct flat *flat, const struct flat_table *table,
			struct weir_ipc_schema **out, struct weir_error *err)
{
	struct weir_ipc_schema *schema = schema_new(account, err);

	*out = NULL;
	if (!schema)
		return err->code;
	if (ipc_schema_parse(account, flat, table, &schema->parsed, err)) {
		weir_ipc_schema_free(schema);
		return err->code;
	}
	*out = schema;
	return WEIR_OK;
}

int weir_ipc_schema_open(struct weir_account *account, const uint8_t *metadata, uint64_t size,
			 struct weir_ipc_schema **out, struct weir_error *err)
{
	struct ipc_message message;
	int code = ipc_metadata_open(metadata, size, &message, err);

	*out = NULL;
	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_SCHEMA)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow stream does not begin with a schema");
	return schema_parse(account, &message.flat, &message.header, out, err);
}

static int add_blocks(struct weir_account *account, const struct flat_vector *vector, bool is_dictionary,
		      uint64_t file_size, struct weir_ipc_blocks *blocks, struct weir_error *err)
{
	for (uint32_t i = 0; i < vector->count; i++) {
		struct ipc_file_block block;
		uint64_t size;

		memcpy(&block, vector->items + (uint64_t)i * sizeof(block), sizeof(block));
		if (block.offset < 0 || block.metadata_size < WEIR_IPC_PREFIX_SIZE || block.body_size < 0 ||
		    weir_add_overflows((uint64_t)block.metadata_size, (uint64_t)block.body_size, &size) ||
		    weir_range_outside((uint64_t)block.offset, size, file_size))
			return weir_error_set(
				err, WEIR_E_DATA,
				"the footer names a block outside the file: %lld bytes, and %d of metadata, from byte %lld on",
				(long long)block.body_size, block.metadata_size, (long long)block.offset);
		if (weir_list_push(blocks, account, err,
				   (struct weir_ipc_block){.offset = (uint64_t)block.offset,
							   .metadata_size = (uint32_t)block.metadata_size,
							   .body_size = (uint64_t)block.body_size,
							   .is_dictionary = is_dictionary}))
			return err->code;
	}
	return WEIR_OK;
}

int weir_ipc_footer_open(struct weir_account *account, const uint8_t *footer, uint32_t size, uint64_t file_size,
			 struct weir_ipc_schema **out, struct weir_ipc_blocks *blocks, struct weir_error *err)
{
	struct flat_vector dictionaries, batches;
	struct flat_table root, table;
	struct flat flat;
	int code;

	*out = NULL;
	flat_open(&flat, footer, size, &root);
	flat_child(&root, FOOTER_SCHEMA, &table);
	dictionaries = flat_items(&root, FOOTER_DICTIONARIES, sizeof(struct ipc_file_block));
	batches = flat_items(&root, FOOTER_RECORD_BATCHES, sizeof(struct ipc_file_block));
	code = flat_check(&flat, "footer of the Arrow file", err);
	if (!code)
		code = add_blocks(account, &dictionaries, true, file_size, blocks, err);
	if (!code)
		code = add_blocks(account, &batches, false, file_size, blocks, err);
	if (!code)
		code = schema_parse(account, &flat, &table, out, err);
	return code;
}
