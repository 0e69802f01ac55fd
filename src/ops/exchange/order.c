/* Keys are sorted by eight bytes at a time, by counting: those behind what all keys have in common, then, among keys that
 * are equal so far, those behind what these have in common, and so on.
 *
 *     key:   ████████ common ████████│ window: 8 bytes │ what only ties are asked for
 *
 * So small numbers in wide keys and texts that all begin alike cost no more than others. What is in order already is
 * noticed in one pass and left alone.
 */
#include "ops/exchange/order.h"

#include <string.h>

enum { RADIX = 256, FEW = 48 };

struct element {
	uint64_t window;
	uint32_t row;
};

struct sorter {
	const struct weir_key_list *keys;
	struct element *spare; /* as many as there are keys */
};

size_t weir_key_order_bytes(size_t count)
{
	return 2 * count * sizeof(struct element);
}

static uint32_t common_of(const struct weir_key_list *keys, const struct element *elements, size_t count, uint32_t from)
{
	uint32_t first_size, size, common;
	const uint8_t *first = weir_key_at(keys, elements[0].row, &first_size);

	common = first_size;
	for (size_t i = 1; i < count && common > from; i++) {
		const uint8_t *key = weir_key_at(keys, elements[i].row, &size);
		uint32_t end = size < common ? size : common, at = from;

		while (at < end && key[at] == first[at])
			at++;
		common = at;
	}
	return common;
}

static uint64_t window_at(const struct weir_key_list *keys, uint32_t row, uint32_t from)
{
	uint32_t size;
	const uint8_t *key = weir_key_at(keys, row, &size);

	return from < size ? weir_key_prefix(key + from, size - from) : 0;
}

static int compare_from(const struct weir_key_list *keys, uint32_t a, uint32_t b, uint32_t from)
{
	uint32_t a_size, b_size;
	const uint8_t *a_key = weir_key_at(keys, a, &a_size), *b_key = weir_key_at(keys, b, &b_size);

	if (from >= a_size || from >= b_size)
		return (a_size > b_size) - (a_size < b_size);
	return weir_key_compare(a_key + from, a_size - from, b_key + from, b_size - from);
}

static bool is_sorted(const struct sorter *sorter, const struct element *elements, size_t count, uint32_t behind)
{
	for (size_t i = 1; i < count; i++) {
		if (elements[i - 1].window > elements[i].window)
			return false;
		if (elements[i - 1].window == elements[i].window &&
		    compare_from(sorter->keys, elements[i - 1].row, elements[i].row, behind) > 0)
			return false;
	}
	return true;
}

static void sort_few(const struct sorter *sorter, struct element *elements, size_t count, uint32_t behind)
{
	for (size_t i = 1; i < count; i++) {
		struct element moved = elements[i];
		size_t at = i;

		while (at > 0 && (elements[at - 1].window > moved.window ||
				  (elements[at - 1].window == moved.window &&
				   compare_from(sorter->keys, elements[at - 1].row, moved.row, behind) > 0))) {
			elements[at] = elements[at - 1];
			at--;
		}
		elements[at] = moved;
	}
}

/* By their windows alone, one byte after another from the last; bytes that all have in common are left out. */
static void sort_windows(const struct sorter *sorter, struct element *elements, size_t count)
{
	uint32_t counts[8][RADIX] = {{0}};
	struct element *from = elements, *to = sorter->spare;

	for (size_t i = 0; i < count; i++)
		for (uint32_t byte = 0; byte < 8; byte++)
			counts[byte][elements[i].window >> (8 * byte) & 0xff]++;
	for (uint32_t byte = 0; byte < 8; byte++) {
		uint32_t *places = counts[byte], sum = 0;
		struct element *swapped;

		if (places[from[0].window >> (8 * byte) & 0xff] == count)
			continue;
		for (uint32_t value = 0; value < RADIX; value++) {
			uint32_t here = places[value];

			places[value] = sum;
			sum += here;
		}
		for (size_t i = 0; i < count; i++)
			to[places[from[i].window >> (8 * byte) & 0xff]++] = from[i];
		swapped = from;
		from = to;
		to = swapped;
	}
	if (from != elements)
		memcpy(elements, from, count * sizeof(*elements));
}

/* Sorts elements whose keys are equal before `from`. */
static void sort_from(const struct sorter *sorter, struct element *elements, size_t count, uint32_t from)
{
	uint32_t common = common_of(sorter->keys, elements, count, from), behind = common + 8, size;

	for (size_t i = 0; i < count; i++)
		elements[i].window = window_at(sorter->keys, elements[i].row, common);
	if (is_sorted(sorter, elements, count, behind))
		return;
	if (count <= FEW) {
		sort_few(sorter, elements, count, behind);
		return;
	}
	sort_windows(sorter, elements, count);
	for (size_t first = 0, last; first < count; first = last) {
		last = first + 1;
		while (last < count && elements[last].window == elements[first].window)
			last++;
		weir_key_at(sorter->keys, elements[first].row, &size);
		if (last - first > 1 && (!sorter->keys->width || size > behind))
			sort_from(sorter, elements + first, last - first, behind);
	}
}

int weir_key_order(const struct weir_key_list *keys, struct weir_account *account, uint32_t *rows,
		   struct weir_error *err)
{
	struct sorter sorter = {.keys = keys};
	size_t count = keys->count;
	struct element *elements;

	if (count == 0)
		return WEIR_OK;
	elements = weir_alloc(account, 2 * count * sizeof(*elements), err);
	if (!elements)
		return err->code;
	sorter.spare = elements + count;
	for (size_t i = 0; i < count; i++)
		elements[i].row = (uint32_t)i;
	sort_from(&sorter, elements, count, 0);
	for (size_t i = 0; i < count; i++)
		rows[i] = elements[i].row;
	weir_free(account, elements, 2 * count * sizeof(*elements));
	return WEIR_OK;
}
