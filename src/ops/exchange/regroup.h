/* regroup: groups and rows of a part become groups, in one table.
 *
 *     pages of groups ─────────────▶ found, or copied ─▶ merged ─┐
 *     pages of rows ─▶ as a vector ─▶ found, or made ─▶ pushed ──┴─▶ heap: one row for each key
 *
 * Behind the parts that makes the result. In front of them a lane does it with what it has kept so far, when that has
 * become much: memory that nobody has touched yet costs more than to use some again, and what shrinks need not go to
 * disk.
 */
#ifndef WEIR_OPS_EXCHANGE_REGROUP_H
#define WEIR_OPS_EXCHANGE_REGROUP_H

#include "ops/exchange/accumulate.h"
#include "ops/exchange/parts.h"
#include "ops/exchange/table.h"

/* How rows lie that are not groups yet: keys, then the columns that functions are about. All-zero: there are groups
 * alone, since one of those columns is nested. */
struct weir_plain {
	struct weir_account *account;
	uint32_t count, capacity, *columns; /* by cell: the column */
	struct weir_row_layout layout;
};

int weir_plain_init(struct weir_plain *plain, struct weir_account *account,
		    const struct weir_accumulators *accumulators, const struct weir_schema *input,
		    struct weir_error *err);
void weir_plain_release(struct weir_plain *plain);

enum { WEIR_REGROUP_STEP = 1024 };

struct weir_regroup {
	struct weir_account *account;
	const struct weir_accumulators *accumulators;
	const struct weir_schema *input;
	const struct weir_plain *plain;
	struct weir_row_heap heap; /* the groups */
	struct weir_table table;
	bool by_rows;   /* keys are found as they lie, without a vector of them */
	bool *is_taken; /* by cell of a row: it is wanted in the vector */
	struct weir_row_input rows;
	struct weir_arena take_arena, push_arena;
	struct weir_column *columns; /* of rows as a vector, by column of the input */
	struct weir_array **nested;
	uint8_t *found[WEIR_REGROUP_STEP];
	bool is_new[WEIR_REGROUP_STEP];
	uint64_t hashes[WEIR_REGROUP_STEP];
};

int weir_regroup_init(struct weir_regroup *regroup, struct weir_account *account,
		      const struct weir_accumulators *accumulators, const struct weir_schema *input,
		      const struct weir_plain *plain, struct weir_error *err);
void weir_regroup_release(struct weir_regroup *regroup);
void weir_regroup_clear(struct weir_regroup *regroup); /* no groups; keeps memory; accepts one that is released */
int weir_regroup_shrink(struct weir_regroup *regroup, struct weir_error *err); /* no groups, and a small table */
static inline uint64_t weir_regroup_bytes(const struct weir_regroup *regroup)
{
	return regroup->heap.bytes + regroup->heap.list_bytes + weir_table_bytes(&regroup->table);
}
/* At most WEIR_REGROUP_STEP of them. */
int weir_regroup_add_groups(struct weir_regroup *regroup, const uint8_t *const *rows, uint32_t count,
			    struct weir_error *err);
int weir_regroup_add_rows(struct weir_regroup *regroup, const uint8_t *const *rows, uint32_t count,
			  struct weir_error *err);
/* Without lists: what a lane has in memory of a part, groups and rows, becomes groups, where that shrinks it. On
 * failure it stays as it is. The regroup is empty before and after. */
int weir_regroup_part(struct weir_regroup *regroup, struct weir_parts_lane *groups, struct weir_parts_lane *rows,
		      uint32_t part, bool *shrank, struct weir_error *err);

#endif
