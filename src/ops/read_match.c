/* A later file's columns are found by name. The same type passes; one that can be widened without loss is cast; a
 * missing column is null; a column that the dataset does not have is left out, with one warning; anything else is
 * refused with both files' names. */
#include "arrow/tensor.h"
#include "ops/read_impl.h"

#include <string.h>

void weir_read_match_unref(struct read_match *match)
{
	/* acq_rel: the last one frees what the others read. */
	if (!match || atomic_fetch_sub_explicit(&match->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; match->columns && i < match->column_count; i++)
		weir_program_free(match->columns[i].cast);
	weir_program_free(match->predicate);
	weir_free(match->account, match->columns, match->column_count * sizeof(*match->columns));
	weir_free(match->account, match->scan_columns, match->column_count * sizeof(*match->scan_columns));
	weir_schema_unref(match->file_schema);
	weir_free(match->account, match, sizeof(*match));
}

static int64_t partition_number(const struct read_config *config, const char *name)
{
	for (uint32_t p = 0; p < config->partition_count; p++) {
		if (strcmp(config->partitions[p].name, name) == 0)
			return p;
	}
	return -1;
}

/* Decides how one column comes about; *file_column is set for SAME and CAST. */
static int match_column(struct weir_account *account, const struct read_config *config,
			const struct weir_schema *file_schema, const char *path, const struct weir_field *want,
			struct read_match_column *column, uint32_t *file_column, struct weir_error *err)
{
	int64_t partition = partition_number(config, want->name);
	const struct weir_field *have;
	struct weir_field common = {0};
	uint32_t found = UINT32_MAX, before = 0;
	char a[96], b[96];

	column->type = want->type;
	column->field = want;
	if (partition >= 0) {
		column->how = READ_PARTITION;
		column->from = (uint32_t)partition;
		return WEIR_OK;
	}
	/* Of several columns with one name the n-th is the file's n-th. */
	for (const struct weir_field *field = config->schema->fields; field < want; field++)
		before += strcmp(field->name, want->name) == 0;
	for (uint32_t i = 0; i < file_schema->field_count && found == UINT32_MAX; i++) {
		if (strcmp(file_schema->fields[i].name, want->name) == 0 && before-- == 0)
			found = i;
	}
	if (found == UINT32_MAX) {
		column->how = READ_MISSING;
		return WEIR_OK;
	}
	*file_column = found;
	have = &file_schema->fields[found];
	if (weir_field_same(have, want)) {
		column->how = READ_SAME;
		return WEIR_OK;
	}
	/* The wanted type first: fields that both have keep its order. */
	if (weir_tensor_meets(want, have))
		weir_field_unify(account, want, have, &common, err);
	else
		common.type = weir_type_unify(account, want->type, have->type, err);
	if (common.type && (weir_type_equal(common.type, want->type, false) ||
			    weir_type_equal(weir_type_values(common.type), weir_type_values(want->type), false))) {
		weir_type_unref(common.type);
		weir_error_clear(err);
		column->how = READ_CAST;
		return WEIR_OK;
	}
	weir_type_unref(common.type);
	weir_error_set(err, WEIR_E_TYPE,
		       "the column is %s here and %s in %s; nothing converts one to the other without loss%s",
		       weir_type_name(have->type, a, sizeof(a)), weir_type_name(want->type, b, sizeof(b)),
		       config->first_path, config->unify ? "" : " (try --unify-schemas)");
	weir_error_at_source(err, path);
	weir_error_at_column(err, want->name);
	return err->code;
}

/* Pruning speaks of the file's own statistics: of the predicate's conjuncts it may use those that read nothing but
 * columns which pass unchanged. */
struct usable {
	struct weir_account *account;
	const struct read_match *match;
	const struct weir_schema *scan_schema;
	struct weir_expr *all;
	bool is_usable;
	struct weir_error *err;
};

static int check_column(void *context, const char *name)
{
	struct usable *usable = context;
	bool same = false;

	for (uint32_t i = 0; i < usable->match->column_count; i++) {
		const struct read_match_column *column = &usable->match->columns[i];

		same |= column->how == READ_SAME && strcmp(usable->scan_schema->fields[column->from].name, name) == 0;
	}
	usable->is_usable &= same;
	return WEIR_OK;
}

static int collect_usable(void *context, const struct weir_expr *conjunct)
{
	struct usable *usable = context;
	struct weir_expr *operands[2] = {usable->all, NULL};
	int code;

	usable->is_usable = true;
	weir_expr_columns(conjunct, check_column, usable);
	if (!usable->is_usable)
		return WEIR_OK;
	code = weir_expr_clone(conjunct, usable->account, &operands[1], usable->err);
	if (code)
		return code;
	if (!usable->all) {
		usable->all = operands[1];
		return WEIR_OK;
	}
	usable->all = weir_expr_call(usable->account, "and", operands, 2, usable->err);
	return usable->all ? WEIR_OK : usable->err->code;
}

static int make_predicate(struct weir_account *account, const struct read_config *config, struct read_match *match,
			  const struct weir_schema *scan_schema, struct weir_error *err)
{
	struct usable usable = {.account = account, .match = match, .scan_schema = scan_schema, .err = err};
	int code = weir_expr_conjuncts(config->predicate, collect_usable, &usable);

	if (!code && usable.all)
		code = weir_program_new(account, usable.all, scan_schema, &match->predicate, err);
	weir_expr_free(usable.all);
	return code;
}

int weir_read_match_new(struct weir_account *account, const struct read_config *config,
			const struct weir_schema *file_schema, const char *path, struct read_match **out,
			struct weir_error *err)
{
	struct read_match *match = weir_alloc_zero(account, sizeof(*match), err);
	struct weir_schema *scan_schema = NULL;
	struct weir_field *fields = NULL;
	uint32_t scanned = 0, count = config->column_count;
	int code = WEIR_OK;

	if (!match)
		return err->code;
	atomic_init(&match->refs, 1);
	match->account = account;
	match->file_schema = weir_schema_ref(file_schema);
	match->column_count = count;
	match->columns = weir_alloc_zero(account, count * sizeof(*match->columns), err);
	match->scan_columns = weir_alloc_zero(account, count * sizeof(*match->scan_columns), err);
	fields = weir_alloc_zero(account, count * sizeof(*fields), err);
	if (!match->columns || !match->scan_columns || !fields)
		code = err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		struct read_match_column *column = &match->columns[i];
		uint32_t file_column = 0;

		code = match_column(account, config, file_schema, path, &config->schema->fields[config->columns[i]],
				    column, &file_column, err);
		if (!code && (column->how == READ_SAME || column->how == READ_CAST)) {
			fields[scanned] = file_schema->fields[file_column];
			match->scan_columns[scanned] = file_column;
			column->from = scanned++;
		}
	}
	if (!code) {
		scan_schema = weir_schema_new(account, fields, scanned, NULL, err);
		code = scan_schema ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; !code && i < count; i++) {
		struct read_match_column *column = &match->columns[i];

		if (column->how == READ_CAST && !weir_type_is_nested(weir_type_values(column->type)))
			code = weir_op_cast_program(account, scan_schema, column->from, weir_type_values(column->type),
						    &column->cast, err);
	}
	if (!code && config->predicate)
		code = make_predicate(account, config, match, scan_schema, err);
	match->scan = (struct weir_scan){.columns = match->scan_columns,
					 .column_count = scanned,
					 .predicate = match->predicate,
					 .vectors_small = config->limit >= 0 && config->limit < WEIR_VECTOR_ROWS};
	weir_schema_unref(scan_schema);
	weir_free(account, fields, count * sizeof(*fields));
	if (code) {
		weir_read_match_unref(match);
		return code;
	}
	*out = match;
	return WEIR_OK;
}
