/* The dictionaries that record batches refer to, as dictionary batches bring, append to or replace them.
 *
 * A message names a dictionary by its id, which several fields may share; each field that is wanted gets an array of
 * its own, since fields may still see the values as different types (a name inside, a view). A dictionary whose values
 * have dictionaries in turn has the lower number and comes after them.
 */
#include "arrow/ipc_impl.h"

#include <string.h>

int ipc_dictionaries_init(struct weir_ipc_dictionaries *dictionaries, struct weir_account *account,
			  const struct ipc_schema *schema, bool is_stream, struct weir_error *err)
{
	size_t count = schema->dictionaries.count;

	*dictionaries = (struct weir_ipc_dictionaries){.account = account, .schema = schema, .is_stream = is_stream};
	dictionaries->values = weir_alloc_zero(account, count * sizeof(*dictionaries->values), err);
	dictionaries->wanted = weir_alloc_zero(account, count * sizeof(*dictionaries->wanted), err);
	return dictionaries->values && dictionaries->wanted ? WEIR_OK : err->code;
}

void ipc_dictionaries_release(struct weir_ipc_dictionaries *dictionaries)
{
	size_t count;

	if (!dictionaries->account)
		return;
	count = dictionaries->schema->dictionaries.count;
	for (size_t i = 0; dictionaries->values && i < count; i++)
		weir_array_unref(dictionaries->values[i]);
	weir_free(dictionaries->account, dictionaries->values, count * sizeof(*dictionaries->values));
	weir_free(dictionaries->account, dictionaries->wanted, count * sizeof(*dictionaries->wanted));
	*dictionaries = (struct weir_ipc_dictionaries){0};
}

/* Values for the dictionary with a number, as the message has them. */
static int read_values(struct weir_ipc_dictionaries *dictionaries, const struct ipc_message *message,
		       const struct flat_table *record, uint32_t number, const struct weir_ipc_body *body,
		       struct weir_array **out, struct weir_error *err)
{
	const struct ipc_dictionary *dictionary = &dictionaries->schema->dictionaries.items[number];
	struct weir_field field = {.name = "dictionary", .type = dictionary->value};
	struct weir_ipc_layout layout;
	int code;

	ipc_layout_init(&layout, dictionaries->account, &field, 1,
			dictionaries->schema->wires.items + dictionary->wire);
	code = ipc_layout_read(&layout, message, record, err);
	if (!code)
		code = ipc_rows_read(&layout, 0, 0, layout.row_count, body, dictionaries->values + number + 1,
				     !dictionaries->shallow, out, err);
	ipc_layout_release(&layout);
	return code;
}

static int keep_values(struct weir_ipc_dictionaries *dictionaries, uint32_t number, struct weir_array *values,
		       bool is_delta, struct weir_error *err)
{
	struct weir_array **slot = &dictionaries->values[number], *joined;

	if (is_delta && *slot) {
		joined = weir_array_concat(dictionaries->account, (struct weir_array *[]){*slot, values}, 2, err);
		weir_array_unref(values);
		if (!joined)
			return err->code;
		values = joined;
	}
	weir_array_unref(*slot);
	*slot = values;
	return WEIR_OK;
}

int ipc_dictionaries_read(struct weir_ipc_dictionaries *dictionaries, const struct ipc_message *message,
			  const struct weir_ipc_body *body, struct weir_error *err)
{
	int64_t id = flat_i64(&message->header, DICTIONARY_ID, 0);
	bool is_delta = flat_u8(&message->header, DICTIONARY_IS_DELTA, 0), found = false;
	struct flat_table record;
	int code;

	flat_child(&message->header, DICTIONARY_DATA, &record);
	code = flat_check(&message->flat, "dictionary batch", err);
	if (code)
		return code;
	for (uint32_t number = 0; number < dictionaries->schema->dictionaries.count; number++) {
		struct weir_array *values;

		if (dictionaries->schema->dictionaries.items[number].id != id)
			continue;
		found = true;
		if (!dictionaries->wanted[number])
			continue;
		if (!dictionaries->is_stream && dictionaries->values[number] && !is_delta)
			return weir_error_set(err, WEIR_E_DATA, "dictionary %lld comes twice in a file", (long long)id);
		code = read_values(dictionaries, message, &record, number, body, &values, err);
		if (!code)
			code = keep_values(dictionaries, number, values, is_delta, err);
		if (code)
			return code;
	}
	if (!found)
		return weir_error_set(err, WEIR_E_DATA, "dictionary %lld does not belong to any field", (long long)id);
	return WEIR_OK;
}

int weir_ipc_dictionaries_new(struct weir_account *account, const struct weir_ipc_schema *schema, bool is_stream,
			      struct weir_ipc_dictionaries **out, struct weir_error *err)
{
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	if (ipc_dictionaries_init(*out, account, &schema->parsed, is_stream, err)) {
		ipc_dictionaries_release(*out);
		weir_free(account, *out, sizeof(**out));
		*out = NULL;
		return err->code;
	}
	return WEIR_OK;
}

void weir_ipc_dictionaries_free(struct weir_ipc_dictionaries *dictionaries)
{
	struct weir_account *account;

	if (!dictionaries)
		return;
	account = dictionaries->account;
	ipc_dictionaries_release(dictionaries);
	weir_free(account, dictionaries, sizeof(*dictionaries));
}

/* The number of a column's first dictionary. */
static uint32_t first_number(const struct weir_ipc_dictionaries *dictionaries, uint32_t column)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < column; i++)
		number += ipc_type_dictionaries(dictionaries->schema->schema->fields[i].type);
	return number;
}

void weir_ipc_dictionaries_want(struct weir_ipc_dictionaries *dictionaries, uint32_t column)
{
	uint32_t count = ipc_type_dictionaries(dictionaries->schema->schema->fields[column].type);

	if (count)
		memset(dictionaries->wanted + first_number(dictionaries, column), true, count);
}

bool weir_ipc_dictionaries_wanted(const struct weir_ipc_dictionaries *dictionaries)
{
	for (size_t i = 0; i < dictionaries->schema->dictionaries.count; i++)
		if (dictionaries->wanted[i])
			return true;
	return false;
}

int weir_ipc_dictionaries_read(struct weir_ipc_dictionaries *dictionaries, const uint8_t *metadata, uint64_t size,
			       const struct weir_ipc_body *body, struct weir_error *err)
{
	struct ipc_message message;
	int code = ipc_metadata_open(metadata, size, &message, err);

	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_DICTIONARY)
		return weir_error_set(err, WEIR_E_DATA, "the message is not a dictionary batch");
	return ipc_dictionaries_read(dictionaries, &message, body, err);
}
