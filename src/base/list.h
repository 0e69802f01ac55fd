/* list: a growable array of plain values, by macros, so that each element type keeps its own struct:
 *
 *     struct names WEIR_LIST(char *);
 *     struct names names = {0};
 *     if (weir_list_push(&names, account, err, name)) …        evaluates to 0 or the error code
 *     weir_list_release(&names, account);
 */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H

#include "base/mem.h"

#define WEIR_LIST(type)                                                                                                \
	{                                                                                                              \
		type *items;                                                                                           \
		size_t count, capacity;                                                                                \
	}

int weir_list_grow(void **items, size_t item_size, size_t *capacity, size_t count_min, struct weir_account *account,
		   struct weir_error *err);

#define weir_list_reserve(list, account, err, count_min)                                                               \
	((count_min) <= (list)->capacity ? WEIR_OK                                                                     \
					 : weir_list_grow((void **)&(list)->items, sizeof(*(list)->items),             \
							  &(list)->capacity, (count_min), (account), (err)))

#define weir_list_push(list, account, err, ...)                                                                        \
	(weir_list_reserve(list, account, err, (list)->count + 1)                                                      \
		 ? (err)->code                                                                                         \
		 : ((list)->items[(list)->count++] = (__VA_ARGS__), WEIR_OK))

#define weir_list_release(list, account)                                                                               \
	(weir_free((account), (list)->items, (list)->capacity * sizeof(*(list)->items)), (list)->items = NULL,         \
	 (list)->count = (list)->capacity = 0)

#endif
