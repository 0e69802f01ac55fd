/* join_keys: the keys of a vector's rows, as the hash table of a join wants them.
 *
 * One key column of a number that takes at most eight bytes is a word, compared as such. Other keys are bytes (keys.h),
 * of which the table first compares the hash. Rows with a null among their keys equal nothing, and are left out. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_KEYS_H
#define WEIR_OPS_EXCHANGE_JOIN_KEYS_H

#include "ops/exchange/keys.h"

struct weir_join_keys {
	const struct weir_key_columns *columns; /* the same types for both sides of a join */
	bool is_word;
	uint32_t count;                  /* of rows whose keys are not null */
	uint16_t rows[WEIR_VECTOR_ROWS]; /* their places in the vector */
	uint64_t tags[WEIR_VECTOR_ROWS]; /* the word, or the hash of the bytes */
	uint64_t hashes[WEIR_VECTOR_ROWS];
	struct weir_key_list list; /* of bytes; entry i is that of rows[i] */
};

bool weir_join_keys_are_words(const struct weir_key_columns *columns);
void weir_join_keys_init(struct weir_join_keys *keys, struct weir_account *account,
			 const struct weir_key_columns *columns);
void weir_join_keys_release(struct weir_join_keys *keys);
/* Of the vector's selected rows. Decodes the key columns. */
int weir_join_keys_take(struct weir_join_keys *keys, struct weir_vector *vector, struct weir_error *err);

#endif
