/* join_table: which rows have a key. Made of one side of a join, asked by the rows of the other.
 *
 *     entries:  ┌─────┬───────┬───────┐
 *               │ tag │ first │ count │ …      linear probing from the hash's lower bits; count 0: free
 *               └─────┴───────┴───────┘
 *                         │
 *           count 1: the row itself      more: rows[first] … rows[first + count − 1]
 *
 * The tag is the key itself where that is a word, so that a row is found with one look at memory; else it is the hash,
 * and the bytes of each different key lie in a list, entry by entry.
 *
 * A table that is larger than the cache has a filter in front (join_filter.h).
 *
 * Whole numbers that lie close together need no entries, only a slot for each number from the least to the greatest:
 * the row that has it and 1, or, where several rows have one number, where its rows end in `rows`.
 *
 * add every row, then settle; where settle says so count every row, or place it, once more and settle again; then
 * find. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_TABLE_H
#define WEIR_OPS_EXCHANGE_JOIN_TABLE_H

#include "ops/exchange/join_filter.h"
#include "ops/exchange/join_keys.h"

struct weir_join_entry {
	uint64_t tag;
	uint32_t first, count;
};

/* Rows with one key: as in an entry. */
struct weir_join_found {
	uint32_t first, count;
};

struct weir_join_table {
	struct weir_account *account;
	struct weir_join_entry *entries;
	uint32_t *places; /* of keys that are no words: which of `keys` an entry has */
	uint64_t capacity, used;
	struct weir_join_filter filter;
	struct weir_key_list keys;
	bool is_word;
	uint64_t row_count; /* that were added */
	/* of numbers that lie close together; NULL: entries. One more than there are numbers, which is 0 */
	uint32_t *slots;
	uint64_t least, span;
	bool is_listed; /* some have several rows: those of number i are rows[slots[i]] up to rows[slots[i + 1]] */
	bool has_twice;
	uint32_t *rows; /* of keys that several have */
	uint64_t rows_capacity;
};

/* Room for about so many different keys at once. */
int weir_join_table_init(struct weir_join_table *table, struct weir_account *account,
			 const struct weir_key_columns *columns, uint64_t keys_est, struct weir_error *err);
/* Instead: slots for the words from `least` to least + span − 1. */
int weir_join_table_init_slots(struct weir_join_table *table, struct weir_account *account, uint64_t least,
			       uint64_t span, struct weir_error *err);
void weir_join_table_release(struct weir_join_table *table);
/* Those rows whose hash begins with the `bits` bits `part`; row i of the vector is number base + i. */
int weir_join_table_add(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t base, uint32_t bits,
			uint64_t part, struct weir_error *err);
enum weir_join_again { WEIR_JOIN_READY, WEIR_JOIN_COUNT, WEIR_JOIN_PLACE };
int weir_join_table_settle(struct weir_join_table *table, enum weir_join_again before, enum weir_join_again *again,
			   struct weir_error *err);
void weir_join_table_count(struct weir_join_table *table, const struct weir_join_keys *keys);
void weir_join_table_place(struct weir_join_table *table, const struct weir_join_keys *keys, uint32_t base,
			   uint32_t bits, uint64_t part);
/* Of 2^bits tables, that of a row's hash is asked. found[i] is of keys->rows[i]. With `filtered`, filters first, where
 * there are some: worth it where most rows are not found. Returns how many are. */
uint32_t weir_join_table_find(const struct weir_join_table *tables, uint32_t bits, const struct weir_join_keys *keys,
			      bool filtered, struct weir_join_found *found);
/* About how much memory a table of so many rows takes. */
uint64_t weir_join_table_bytes(const struct weir_key_columns *columns, uint64_t rows);

#endif
