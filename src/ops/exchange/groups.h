/* groups: what the sink behind the verb must know, to cut its chunks between groups. */
#ifndef WEIR_OPS_EXCHANGE_GROUPS_H
#define WEIR_OPS_EXCHANGE_GROUPS_H

#include "ops/node.h"
#include "ops/exchange/keys.h"

/* Whether rows come from this node in groups that have to stay whole. Then its last column numbers them. */
bool weir_node_is_groups(const struct weir_node *node);
/* The columns that its groups are equal in. keys: count + 1 of them, of the account. */
int weir_groups_keys(const struct weir_node *node, struct weir_account *account, struct weir_key_columns *out,
		     struct weir_error *err);

#endif
