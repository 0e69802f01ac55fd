#include "format/name_scan.h"

#include <string.h>

void weir_name_scan_init(struct weir_name_scan *scan, struct weir_account *account)
{
	*scan = (struct weir_name_scan){0};
	weir_name_index_init(&scan->names, account);
}

bool weir_name_scan_is(const struct weir_name_scan *scan, const struct weir_schema *schema, const struct weir_scan *of)
{
	return scan->schema == schema && scan->column_count == of->column_count &&
	       (!of->column_count || memcmp(scan->fields, of->columns, of->column_count * sizeof(*of->columns)) == 0);
}

int weir_name_scan_set(struct weir_name_scan *scan, const struct weir_schema *schema, const struct weir_scan *of,
		       struct weir_error *err)
{
	struct weir_account *account = scan->names.account;

	WEIR_ASSERT(!scan->schema);
	scan->schema = weir_schema_ref(schema);
	scan->column_count = of->column_count;
	scan->fields = weir_alloc(account, of->column_count * sizeof(*scan->fields), err);
	if (scan->fields)
		scan->slots = weir_alloc(account, schema->field_count * sizeof(*scan->slots), err);
	if (!scan->slots)
		return err->code;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		scan->slots[i] = WEIR_NO_NAME;
		if (weir_name_index_add(&scan->names, schema->fields[i].name, strlen(schema->fields[i].name), err))
			return err->code;
	}
	for (uint32_t i = 0; i < of->column_count; i++) {
		scan->fields[i] = of->columns[i];
		scan->slots[of->columns[i]] = i;
	}
	scan->wants_all = true;
	for (uint32_t i = 0; i < schema->field_count; i++)
		scan->wants_all &= scan->slots[i] != WEIR_NO_NAME;
	return WEIR_OK;
}

void weir_name_scan_clear(struct weir_name_scan *scan)
{
	struct weir_account *account = scan->names.account;

	weir_free(account, scan->fields, scan->column_count * sizeof(*scan->fields));
	weir_free(account, scan->slots, scan->schema ? scan->schema->field_count * sizeof(*scan->slots) : 0);
	weir_name_index_release(&scan->names);
	weir_schema_unref(scan->schema);
	*scan = (struct weir_name_scan){.names = scan->names};
}
