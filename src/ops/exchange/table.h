/* table: finds rows by their keys.
 *
 *     entries:  ┌────────────┬──────────────────┐
 *               │ 16 of hash │ 48 of an address │  …  a power of two of them, at most 5/8 in use; 0: free
 *               └────────────┴──────────────────┘
 *
 * An entry's place is the hash's lowest bits but eight, or the next free one behind it. The 16 bits beside the address
 * (32 … 47 of the hash; the highest choose partitions and would be alike in one) tell most strangers apart without a
 * look at the row. Work is done for a vector at a time, in loops: places and prefetch, entries, rows.
 *
 * Rows belong to whoever made them and stay where they are as long as they are in the table. No two rows in it have the
 * same key: who wants to keep several chains them in the payload (weir_table_add_rows tells which one was first).
 */
#ifndef WEIR_OPS_EXCHANGE_TABLE_H
#define WEIR_OPS_EXCHANGE_TABLE_H

#include "ops/exchange/rows.h"

struct weir_table {
	struct weir_account *account;
	const struct weir_row_layout *layout;
	uint64_t *entries; /* NULL: none yet */
	size_t capacity, count;
	/* Work space for one vector. */
	uint32_t *waiting, *compared, *made;
	uint64_t *places;
	uint8_t **tails;
};

int weir_table_init(struct weir_table *table, struct weir_account *account, const struct weir_row_layout *layout,
		    struct weir_error *err);
void weir_table_clear(struct weir_table *table); /* no rows; keeps the memory */
void weir_table_release(struct weir_table *table);
static inline size_t weir_table_bytes(const struct weir_table *table)
{
	return table->capacity * sizeof(*table->entries);
}
/* Room for `more` rows beyond those there are. Others ask for it themselves. */
int weir_table_reserve(struct weir_table *table, size_t more, struct weir_error *err);

/* rows[i]: the row that has the key of the input's row i, NULL: none has. The input has hashes. At most a vector's
 * rows. */
void weir_table_find(struct weir_table *table, const struct weir_row_input *input, uint8_t **rows);
/* The same, where the rows that are not found are made and filled (flags and payload zero). made: how many. After a
 * failure the table can only be cleared. */
int weir_table_find_or_make(struct weir_table *table, const struct weir_row_input *input, struct weir_row_maker *maker,
			    uint8_t **rows, uint32_t *made, struct weir_error *err);
/* The same for rows of another layout, whose keys are of the same types (weir_row_keys_same). */
int weir_table_find_rows(struct weir_table *table, const struct weir_row_layout *layout, const uint8_t *const *rows,
			 uint32_t count, struct weir_row_maker *maker, uint8_t **found, struct weir_error *err);
/* found[i]: the row of the table with the key of rows[i]; where there was none, rows[i] itself, which is in the table
 * now. For up to WEIR_VECTOR_ROWS rows. */
int weir_table_add_rows(struct weir_table *table, uint8_t *const *rows, uint32_t count, uint8_t **found,
			struct weir_error *err);
/* The same, where what goes into the table is a copy made by the maker; is_new[i] says so. */
int weir_table_copy_rows(struct weir_table *table, const uint8_t *const *rows, uint32_t count,
			 struct weir_row_maker *maker, uint8_t **found, bool *is_new, struct weir_error *err);

#endif
