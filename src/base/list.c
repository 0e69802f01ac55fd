#include "base/list.h"
#include "base/checked.h"

int weir_list_grow(void **items, size_t item_size, size_t *capacity, size_t count_min, struct weir_account *account,
		   struct weir_error *err)
{
	size_t count = *capacity * 2, bytes;
	void *grown;

	if (count < WEIR_ALIGN / item_size)
		count = WEIR_ALIGN / item_size;
	if (count < 4)
		count = 4;
	if (count < count_min)
		count = count_min;
	if (weir_mul_overflows(count, item_size, &bytes) || bytes > PTRDIFF_MAX)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a list of %zu items", count_min);
	/* A frame is charged whole, so it is used whole. */
	count = weir_alloc_size(bytes) / item_size;
	grown = weir_realloc(account, *items, *capacity * item_size, count * item_size, err);
	if (!grown)
		return err->code;
	*items = grown;
	*capacity = count;
	return WEIR_OK;
}
