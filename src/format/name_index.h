/* name_index: texts to numbers, 0, 1, 2 in the order in which they were added: the columns of files whose records name
 * their values one by one.
 *
 *     init ─▶ (add | find)… ─▶ release
 *
 * Threads: one at a time; `find` remembers what was found.
 */
#ifndef WEIR_FORMAT_NAME_INDEX_H
#define WEIR_FORMAT_NAME_INDEX_H

#include "base/list.h"

#define WEIR_NO_NAME UINT32_MAX

struct weir_name_entry {
	const char *text; /* borrowed */
	uint32_t size;
};

struct weir_name_index {
	struct weir_account *account;
	struct WEIR_LIST(struct weir_name_entry) list;
	uint32_t *table; /* by hash; WEIR_NO_NAME: empty */
	uint32_t table_size;
	uint32_t last; /* found before: the next one is mostly behind it */
};

void weir_name_index_init(struct weir_name_index *names, struct weir_account *account);
void weir_name_index_release(struct weir_name_index *names); /* twice is fine */
/* The text stays the caller's, and there, as long as the names. */
int weir_name_index_add(struct weir_name_index *names, const char *text, size_t size, struct weir_error *err);
/* WEIR_NO_NAME: not there */
uint32_t weir_name_index_find(struct weir_name_index *names, const void *text, size_t size);

#endif
