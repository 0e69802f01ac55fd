/* join_filter: which keys are surely not in a table: two bits for each key, both in the one word that the hash names,
 * in a sixteenth of a table's memory. Where most of a vector's rows have no partner, that is all that is looked at for
 * most of them.
 *
 * Only tables that are larger than the cache have one; all-zero is none. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_FILTER_H
#define WEIR_OPS_EXCHANGE_JOIN_FILTER_H

#include "base/mem.h"

#include <string.h>

enum {
	WEIR_JOIN_FILTERED_BYTES = 1 << 20, /* of entries; smaller tables are in the cache */
	WEIR_JOIN_FILTER_BITS = 8,          /* a key, at least */
};

struct weir_join_filter {
	uint64_t *words; /* NULL: none */
	uint64_t count;  /* a power of two */
};

static inline uint64_t weir_join_filter_word(const struct weir_join_filter *filter, uint64_t hash)
{
	return hash >> 20 & (filter->count - 1);
}

/* Bits of the hash that neither choose the word nor, of a small table, the place. */
static inline uint64_t weir_join_filter_mask(uint64_t hash)
{
	return (uint64_t)1 << (hash >> 50 & 63) | (uint64_t)1 << (hash >> 14 & 63);
}

static inline void weir_join_filter_add(struct weir_join_filter *filter, uint64_t hash)
{
	if (filter->words)
		filter->words[weir_join_filter_word(filter, hash)] |= weir_join_filter_mask(hash);
}

static inline bool weir_join_filter_has(const struct weir_join_filter *filter, uint64_t hash)
{
	uint64_t mask = weir_join_filter_mask(hash);

	return !filter->words || (filter->words[weir_join_filter_word(filter, hash)] & mask) == mask;
}

/* For a table of so many places, three quarters of which may be taken, and so many bytes. */
static inline int weir_join_filter_init(struct weir_join_filter *filter, struct weir_account *account,
					uint64_t capacity, uint64_t bytes, struct weir_error *err)
{
	uint64_t words = 1;

	*filter = (struct weir_join_filter){0};
	if (bytes <= WEIR_JOIN_FILTERED_BYTES)
		return WEIR_OK;
	while (words * 64 < capacity / 4 * 3 * WEIR_JOIN_FILTER_BITS)
		words *= 2;
	filter->words = weir_alloc(account, words * sizeof(*filter->words), err);
	if (!filter->words)
		return err->code;
	memset(filter->words, 0, words * sizeof(*filter->words));
	filter->count = words;
	return WEIR_OK;
}

static inline void weir_join_filter_release(struct weir_join_filter *filter, struct weir_account *account)
{
	weir_free(account, filter->words, filter->count * sizeof(*filter->words));
	*filter = (struct weir_join_filter){0};
}

#endif
