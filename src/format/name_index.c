/* Records mostly have them in one order, so the next name is first compared with the one that is behind the
 * last; only when it is another is it looked up by hash. */
#include "format/name_index.h"

#include "base/hash.h"

#include <string.h>

void weir_name_index_init(struct weir_name_index *names, struct weir_account *account)
{
	*names = (struct weir_name_index){.account = account};
}

void weir_name_index_release(struct weir_name_index *names)
{
	weir_free(names->account, names->table, names->table_size * sizeof(*names->table));
	weir_list_release(&names->list, names->account);
	*names = (struct weir_name_index){.account = names->account};
}

static bool is(const struct weir_name_index *names, uint32_t number, const void *text, size_t size)
{
	const struct weir_name_entry *name = &names->list.items[number];

	return name->size == size && (size == 0 || memcmp(name->text, text, size) == 0);
}

static void put(struct weir_name_index *names, uint32_t number)
{
	const struct weir_name_entry *name = &names->list.items[number];
	uint32_t at = (uint32_t)weir_hash_bytes(name->text, name->size, 0) & (names->table_size - 1);

	while (names->table[at] != WEIR_NO_NAME)
		at = (at + 1) & (names->table_size - 1);
	names->table[at] = number;
}

int weir_name_index_add(struct weir_name_index *names, const char *text, size_t size, struct weir_error *err)
{
	struct weir_name_entry name = {.text = text, .size = (uint32_t)size};

	if (names->list.count + 1 > names->table_size / 2) {
		uint32_t larger = names->table_size ? names->table_size * 2 : 16;
		uint32_t *table = weir_alloc(names->account, larger * sizeof(*table), err);

		if (!table)
			return err->code;
		weir_free(names->account, names->table, names->table_size * sizeof(*names->table));
		names->table = table;
		names->table_size = larger;
		memset(table, 0xff, larger * sizeof(*table));
		for (uint32_t i = 0; i < names->list.count; i++)
			put(names, i);
	}
	if (weir_list_push(&names->list, names->account, err, name))
		return err->code;
	put(names, (uint32_t)names->list.count - 1);
	return WEIR_OK;
}

uint32_t weir_name_index_find(struct weir_name_index *names, const void *text, size_t size)
{
	uint32_t next = names->last + 1 < names->list.count ? names->last + 1 : 0, at;

	if (!names->list.count)
		return WEIR_NO_NAME;
	if (is(names, next, text, size))
		return names->last = next;
	at = (uint32_t)weir_hash_bytes(text, size, 0) & (names->table_size - 1);
	for (; names->table[at] != WEIR_NO_NAME; at = (at + 1) & (names->table_size - 1))
		if (is(names, names->table[at], text, size))
			return names->last = names->table[at];
	return WEIR_NO_NAME;
}
