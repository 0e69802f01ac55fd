/* Memory of one lane of an operator. */
#include "ops/ops_impl.h"

void *weir_op_lane_new(struct weir_account *parent, size_t size, const char *name, struct weir_error *err)
{
	struct weir_account *account = weir_alloc_zero(parent, size, err);

	if (account)
		weir_account_init(account, parent, name);
	return account;
}

void weir_op_lane_free(void *lane, size_t size)
{
	struct weir_account *account = lane, *parent = account->parent;

	weir_account_release(account);
	weir_free(parent, lane, size);
}
