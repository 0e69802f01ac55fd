/* Names of features. Records mostly have them in one order, so the next name is first compared with the one that is behind the
 * last; only when it is another is it looked up by hash. */
#include "base/hash.h"
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

void tf_names_init(struct tf_names *names, struct weir_account *account)
{
	*names = (struct tf_names){.account = account};
}

void tf_names_release(struct tf_names *names)
{
	weir_free(names->account, names->table, names->table_size * sizeof(*names->table));
	weir_list_release(&names->list, names->account);
	*names = (struct tf_names){.account = names->account};
}

static bool is(const struct tf_names *names, uint32_t number, const void *text, size_t size)
{
	const struct tf_name *name = &names->list.items[number];

	return name->size == size && (size == 0 || memcmp(name->text, text, size) == 0);
}

static void put(struct tf_names *names, uint32_t number)
{
	const struct tf_name *name = &names->list.items[number];
	uint32_t at = (uint32_t)weir_hash_bytes(name->text, name->size, 0) & (names->table_size - 1);

	while (names->table[at] != TF_NO_COLUMN)
		at = (at + 1) & (names->table_size - 1);
	names->table[at] = number;
}

int tf_names_add(struct tf_names *names, const char *text, size_t size, struct weir_error *err)
{
	struct tf_name name = {.text = text, .size = (uint32_t)size};

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

uint32_t tf_names_find(struct tf_names *names, const void *text, size_t size)
{
	uint32_t next = names->last + 1 < names->list.count ? names->last + 1 : 0, at;

	if (!names->list.count)
		return TF_NO_COLUMN;
	if (is(names, next, text, size))
		return names->last = next;
	at = (uint32_t)weir_hash_bytes(text, size, 0) & (names->table_size - 1);
	for (; names->table[at] != TF_NO_COLUMN; at = (at + 1) & (names->table_size - 1))
		if (is(names, names->table[at], text, size))
			return names->last = names->table[at];
	return TF_NO_COLUMN;
}
