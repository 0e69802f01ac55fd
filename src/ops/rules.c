/* Rules of operators whose output columns are those of their input, and the saved form of those that have none. */
#include "ops/ops_impl.h"

int weir_op_needs_same(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		       const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)input;
	(void)err;
	for (uint32_t i = 0; i < wanted->count; i++)
		needed->wanted[i] |= wanted->wanted[i];
	return WEIR_OK;
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

int weir_op_save_nothing(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	(void)node;
	(void)save;
	(void)err;
	return WEIR_OK;
}

int weir_op_load_nothing(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	(void)env;
	(void)node;
	(void)load;
	(void)err;
	return WEIR_OK;
}

int weir_op_no_consumer(const struct weir_node *node, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_INVALID, "%s gives its rows to the program, and this program takes none",
			      node->op->verb);
}
