/* keys: what rows are ordered by, as bytes that memcmp orders.
 *
 *     row:  ┌───────┬─────────────┬───────┬─────────────────────┐
 *           │ class │ value       │ class │ value               │ …       one pair a key column
 *           └───────┴─────────────┴───────┴─────────────────────┘
 *
 * The class comes first and is the same in both directions: 0 for a value, 1 for NaN, 2 for null, so that numbers come
 * before NaN and NaN before null whichever way they go. Values are big endian with the sign turned around; bytes have
 * each 0x00 followed by 0xff and end in 0x00 0x00, so that no value is the beginning of another. Descending columns
 * have the value's bits turned over. −0.0 is 0.0, unless the key tells them apart. The value of a struct is the pairs
 * of its fields, that of a list the pairs of its items, each behind a 1, and a 0.
 *
 * Keys of one list of columns either all have one width, or each has its own.
 */
#ifndef WEIR_OPS_EXCHANGE_KEYS_H
#define WEIR_OPS_EXCHANGE_KEYS_H

#include "vector/vector.h"

enum weir_key_class { WEIR_KEY_VALUE, WEIR_KEY_NAN, WEIR_KEY_NULL };

struct weir_key {
	uint32_t column;
	const struct weir_type *type; /* of its values; borrowed from the schema */
	bool is_descending;
	bool tells_zeros_apart; /* −0.0 is another value than 0.0, and before it: for groups, not for an order */
};

/* Which columns, and how wide their keys are: 0 where that depends on the row. */
struct weir_key_columns {
	uint32_t count;
	const struct weir_key *keys;
	uint32_t width;
};

/* Whether there is an order on the type's values. */
bool weir_key_type_has_order(const struct weir_type *type);
/* Whether equal values have equal keys, and others have others: for groups any order will do. Structs too, not
 * lists. */
bool weir_key_type_has_groups(const struct weir_type *type);
/* The width of a list of keys. */
uint32_t weir_key_columns_width(const struct weir_key *keys, uint32_t count);

/* The keys of some rows, one after another. All-zero with an account is empty; clear keeps the memory. */
struct weir_key_list {
	struct weir_account *account;
	uint32_t width; /* 0: ends[i] is where key i ends */
	size_t count, capacity;
	uint64_t *ends;
	uint8_t *bytes;
	size_t size, size_max;
};

void weir_key_list_init(struct weir_key_list *list, struct weir_account *account, uint32_t width);
void weir_key_list_clear(struct weir_key_list *list);
void weir_key_list_release(struct weir_key_list *list);
/* Appends the keys of a vector's selected rows. Decodes their columns. */
int weir_key_list_push(struct weir_key_list *list, const struct weir_key_columns *columns, struct weir_vector *vector,
		       struct weir_error *err);
/* The same keys in another order, in memory of `account`: key i is that of rows[i]. */
int weir_key_list_arrange(const struct weir_key_list *list, const uint32_t *rows, struct weir_account *account,
			  struct weir_key_list *out, struct weir_error *err);
/* Appends a key that is bytes already. */
int weir_key_list_append(struct weir_key_list *list, const uint8_t *key, uint32_t size, struct weir_error *err);
/* Takes the last rows off again. */
void weir_key_list_cut(struct weir_key_list *list, size_t count);

static inline const uint8_t *weir_key_at(const struct weir_key_list *list, size_t i, uint32_t *size)
{
	uint64_t begin;

	if (list->width) {
		*size = list->width;
		return list->bytes + i * list->width;
	}
	begin = i ? list->ends[i - 1] : 0;
	*size = (uint32_t)(list->ends[i] - begin);
	return list->bytes + begin;
}

/* How many bytes of a key the first `count` of its columns have: all of them where it was cut within these. */
uint32_t weir_key_beginning(const struct weir_key_columns *columns, uint32_t count, const uint8_t *key, uint32_t size);

/* Where a key's first eight bytes, as a number, order like the key itself; shorter ones are filled up with zeros. */
static inline uint64_t weir_key_prefix(const uint8_t *key, uint32_t size)
{
	uint64_t word = 0;

	__builtin_memcpy(&word, key, size < 8 ? size : 8);
	return __builtin_bswap64(word);
}

/* Keys are never beginnings of one another, so the shorter size decides nothing but the end of the comparison. */
static inline int weir_key_compare(const uint8_t *a, uint32_t a_size, const uint8_t *b, uint32_t b_size)
{
	int order = __builtin_memcmp(a, b, a_size < b_size ? a_size : b_size);

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

#endif
