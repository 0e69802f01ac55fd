/* held: the values of whole groups, column by column, for aggregates that need them in order or all at once.
 *
 *     rows of groups ─▶ gather ─ some megabytes, at the end of a group ─▶ each column ordered ─▶ ranked.h, or lists
 *
 * Columns are ordered one by one, all groups together, by counting; then rows are dealt to their groups. So many small
 * groups cost no more than one large one. */
#ifndef WEIR_OPS_EXCHANGE_HELD_H
#define WEIR_OPS_EXCHANGE_HELD_H

#include "ops/exchange/keys.h"
#include "ops/exchange/ranked.h"

/* One of the items that are told from here; a list's result is in `ranked` too. */
struct weir_held_item {
	uint32_t column; /* of those that are held */
	struct weir_ranked *ranked;
};

/* One lane's. All-zero is empty. */
struct weir_held {
	struct weir_account *account;
	struct weir_schema *schema; /* of what is held */
	uint32_t *columns;          /* where that is in vectors */
	struct weir_column *parts;  /* of a vector, as many */
	struct weir_gather *gather;
	struct WEIR_LIST(int64_t) ends; /* of groups that are complete, in rows */
};

/* The columns of the schema that `columns` names. */
int weir_held_init(struct weir_held *held, struct weir_account *account, const struct weir_schema *schema,
		   const uint32_t *columns, uint32_t count, struct weir_error *err);
void weir_held_release(struct weir_held *held);
int weir_held_clear(struct weir_held *held, struct weir_error *err);
/* Selected rows [begin, begin + count) are of the group at hand. */
int weir_held_push(struct weir_held *held, const struct weir_vector *vector, uint32_t begin, uint32_t count,
		   struct weir_error *err);
int weir_held_end(struct weir_held *held, struct weir_error *err); /* of the group */
static inline uint64_t weir_held_bytes(const struct weir_held *held)
{
	return held->gather ? weir_gather_bytes(held->gather) : 0;
}
/* The results of all groups that have ended; what is left are the rows of the one at hand. */
int weir_held_settle(struct weir_held *held, const struct weir_held_item *items, uint32_t count,
		     struct weir_error *err);

#endif
