/* Rules of operators whose output columns are those of their input, perhaps with one more behind them; columns that are
 * given by name; the saved form of operators that have none, or must have none. */
#include "ops/ops_impl.h"

#include <string.h>

int weir_op_needs_same(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		       const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)input;
	(void)err;
	for (uint32_t i = 0; i < needed->count; i++)
		needed->wanted[i] |= wanted->wanted[i];
	return WEIR_OK;
}

int weir_op_needs_names(const struct weir_schema *schema, const char *const *names, uint32_t count,
			struct weir_columns *needed, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count && !code; i++) {
		uint32_t column;

		code = weir_schema_find(schema, names[i], &column, err);
		if (!code)
			needed->wanted[column] = true;
	}
	return code;
}

int weir_op_check_types(const struct weir_schema *schema, const char *const *names, uint32_t count,
			bool (*fits)(const struct weir_type *type), const char *why_not, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count && !code; i++) {
		char type[64];
		uint32_t column;

		code = weir_schema_find(schema, names[i], &column, err);
		if (code || fits(schema->fields[column].type))
			continue;
		code = weir_error_set(err, WEIR_E_TYPE, "column '%s' is of type %s, %s", names[i],
				      weir_type_name(schema->fields[column].type, type, sizeof(type)), why_not);
		weir_error_at_column(err, names[i]);
	}
	return code;
}

int weir_op_check_no_objects(const struct weir_schema *schema, const char *const *names, uint32_t count,
			     const char *why_not, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count && !code; i++) {
		uint32_t column;

		code = weir_schema_find(schema, names[i], &column, err);
		if (code || !weir_op_is_object(&schema->fields[column]))
			continue;
		code = weir_error_set(err, WEIR_E_TYPE,
				      "column '%s' holds Python objects, which %s: make numbers, text or bytes of them",
				      names[i], why_not);
		weir_error_at_column(err, names[i]);
	}
	return code;
}

int weir_op_narrow_same(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
			struct weir_columns *kept, struct weir_error *err)
{
	(void)env;
	(void)err;
	for (uint32_t i = 0; i < kept->count; i++)
		kept->wanted[i] = narrowing->kept[0].wanted[i];
	node->schema = node->inputs[0]->schema;
	return WEIR_OK;
}

int weir_op_narrow_nothing(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
			   struct weir_columns *kept, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)narrowing;
	(void)err;
	memset(kept->wanted, true, kept->count * sizeof(*kept->wanted));
	return WEIR_OK;
}

int weir_op_save_nothing(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	(void)node;
	(void)save;
	(void)err;
	return WEIR_OK;
}

int weir_op_load_nothing(struct weir_op_env *env, struct weir_node *node, struct weir_load *load,
			 struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)load;
	(void)err;
	return WEIR_OK;
}

int weir_op_save_never(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	(void)node;
	(void)save;
	return weir_error_set(err, WEIR_E_UNSUPPORTED, "a plan with rows or functions of this program cannot be saved");
}

int weir_op_load_never(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)load;
	return weir_error_set(err, WEIR_E_DATA, "a saved plan cannot have rows or functions of a program");
}

int weir_op_no_consumer(const struct weir_node *node, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_INVALID, "%s gives its rows to the program, and this program takes none",
			      node->op->verb);
}
