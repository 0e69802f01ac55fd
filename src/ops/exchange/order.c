/* Keys are sorted by eight bytes at a time: those behind what all keys have in common, then, among keys that
 * are equal so far, those behind what these have in common, and so on.
 *
 *     key:   ████████ common ████████│ window: 8 bytes │ what only ties are asked for
 *
 * So small numbers in wide keys and texts that all begin alike cost no more than others. What is in order already is
 * noticed in one pass and left alone.
 *
 * Windows are sorted from the top: between the least and the greatest, as many equal parts as there are items, about, and each
 * item is put into its own by counting. Mostly that leaves few in each, which one pass puts right; a part that has many is sorted
 * in the same way. Random keys move twice, not once for each of eight bytes. Where one part would have most of the items, parts
 * are by magnitude instead: of few great values and many small ones it is the small ones that are told apart.
 */
#include "ops/exchange/order.h"

#include <string.h>

enum { PARTS_BITS_MAX = 11, FEW = 24, MAGNITUDE_BITS = 5, PARTS_SKEWED = 64 << MAGNITUDE_BITS };

/* Copies them in order. Where they nearly are, that is one pass. `from` and `to` may be the same. */
static void insert_all(const struct weir_windowed *from, struct weir_windowed *to, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct weir_windowed moved = from[i];
		size_t at = i;

		for (; at > 0 && to[at - 1].window > moved.window; at--)
			to[at] = to[at - 1];
		to[at] = moved;
	}
}

/* False: they are in order. */
static bool find_bounds(const struct weir_windowed *items, size_t count, uint64_t *least, uint64_t *greatest)
{
	uint64_t low = items[0].window, high = low, before = low;
	bool is_sorted = true;

	for (size_t i = 1; i < count; i++) {
		uint64_t window = items[i].window;

		is_sorted &= before <= window;
		low = window < low ? window : low;
		high = window > high ? window : high;
		before = window;
	}
	*least = low;
	*greatest = high;
	return !is_sorted;
}

/* Where most values are small beside the greatest: the part of one that is `value` above the least, by its highest bit and the five
 * behind it. Ascending, as the values are. */
static inline uint32_t magnitude_of(uint64_t value)
{
	uint32_t above;

	if (value < (uint64_t)2 << MAGNITUDE_BITS)
		return (uint32_t)value;
	above = 63 - MAGNITUDE_BITS - (uint32_t)__builtin_clzll(value);
	return (above << MAGNITUDE_BITS) + (uint32_t)(value >> above);
}

static void order_skewed(struct weir_windowed *items, struct weir_windowed *spare, size_t count, uint64_t least)
{
	uint32_t ends[PARTS_SKEWED] = {0}, sum = 0;

	for (size_t i = 0; i < count; i++)
		ends[magnitude_of(items[i].window - least)]++;
	for (uint32_t part = 0; part < PARTS_SKEWED; part++) {
		uint32_t here = ends[part];

		ends[part] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++)
		spare[ends[magnitude_of(items[i].window - least)]++] = items[i];
	memcpy(items, spare, count * sizeof(*items));
	for (uint32_t part = (uint32_t)2 << MAGNITUDE_BITS, first = ends[part - 1]; part < PARTS_SKEWED; first = ends[part++])
		if (ends[part] - first > 1)
			weir_windows_order(items + first, spare + first, ends[part] - first);
}

void weir_windows_order(struct weir_windowed *items, struct weir_windowed *spare, size_t count)
{
	uint32_t ends[1 << PARTS_BITS_MAX], sum = 0, most = 0, bits, width, shift;
	uint64_t least, greatest;

	if (count <= FEW) {
		insert_all(items, items, count);
		return;
	}
	if (!find_bounds(items, count, &least, &greatest))
		return;
	bits = 64 - (uint32_t)__builtin_clzll(count);
	bits = bits > PARTS_BITS_MAX ? PARTS_BITS_MAX : bits;
	width = 64 - (uint32_t)__builtin_clzll(greatest - least);
	shift = width > bits ? width - bits : 0;
	memset(ends, 0, sizeof(*ends) << bits);
	for (size_t i = 0; i < count; i++)
		ends[(items[i].window - least) >> shift]++;
	for (uint32_t part = 0; part < 1u << bits; part++) {
		uint32_t here = ends[part];

		most = here > most ? here : most;
		ends[part] = sum;
		sum += here;
	}
	if (shift && count > PARTS_SKEWED && most > count / 4) {
		order_skewed(items, spare, count, least);
		return;
	}
	for (size_t i = 0; i < count; i++)
		spare[ends[(items[i].window - least) >> shift]++] = items[i];
	if (!shift) {
		memcpy(items, spare, count * sizeof(*items));
		return;
	}
	if (most <= FEW) {
		insert_all(spare, items, count);
		return;
	}
	for (uint32_t part = 0, first = 0; part < 1u << bits; first = ends[part++]) {
		uint32_t here = ends[part] - first;

		if (here <= FEW) {
			insert_all(spare + first, items + first, here);
			continue;
		}
		weir_windows_order(spare + first, items + first, here);
		memcpy(items + first, spare + first, here * sizeof(*items));
	}
}

size_t weir_key_order_bytes(size_t count)
{
	return 2 * count * sizeof(struct weir_windowed);
}

struct sorter {
	const struct weir_key_view *views;
	struct weir_windowed *spare; /* as many as there are items */
};

static inline const uint8_t *key_of(const struct sorter *sorter, const struct weir_windowed *item, uint32_t *size)
{
	const struct weir_key_view *view = &sorter->views[item->source];

	return weir_key_at(view->keys, (size_t)(item->row - view->row_first), size);
}

static inline uint64_t load_word(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return __builtin_bswap64(word);
}

static uint32_t common_of(const struct sorter *sorter, const struct weir_windowed *items, size_t count, uint32_t from)
{
	uint32_t first_size, size, common;
	const uint8_t *first = key_of(sorter, &items[0], &first_size);

	common = first_size;
	/* Keys of one length: eight bytes at once. */
	if (sorter->views->keys->width >= from + 8) {
		uint64_t word = load_word(first + from), differing = 0;

		for (size_t i = 1; i < count; i++)
			differing |= load_word(key_of(sorter, &items[i], &size) + from) ^ word;
		if (differing)
			return from + (uint32_t)__builtin_clzll(differing) / 8;
		from += 8;
	}
	for (size_t i = 1; i < count && common > from; i++) {
		const uint8_t *key = key_of(sorter, &items[i], &size);
		uint32_t end = size < common ? size : common, at = from;

		while (at < end && key[at] == first[at])
			at++;
		common = at;
	}
	return common;
}

static uint64_t window_at(const struct sorter *sorter, const struct weir_windowed *item, uint32_t from)
{
	uint32_t size;
	const uint8_t *key = key_of(sorter, item, &size);

	return from < size ? weir_key_prefix(key + from, size - from) : 0;
}

static int compare_from(const struct sorter *sorter, const struct weir_windowed *a, const struct weir_windowed *b, uint32_t from)
{
	uint32_t a_size, b_size;
	const uint8_t *a_key = key_of(sorter, a, &a_size), *b_key = key_of(sorter, b, &b_size);

	if (from >= a_size || from >= b_size)
		return (a_size > b_size) - (a_size < b_size);
	return weir_key_compare(a_key + from, a_size - from, b_key + from, b_size - from);
}

static bool is_sorted(const struct sorter *sorter, const struct weir_windowed *items, size_t count, uint32_t behind)
{
	for (size_t i = 1; i < count; i++) {
		if (items[i - 1].window > items[i].window)
			return false;
		if (items[i - 1].window == items[i].window && compare_from(sorter, &items[i - 1], &items[i], behind) > 0)
			return false;
	}
	return true;
}

static void sort_few(const struct sorter *sorter, struct weir_windowed *items, size_t count, uint32_t behind)
{
	for (size_t i = 1; i < count; i++) {
		struct weir_windowed moved = items[i];
		size_t at = i;

		while (at > 0 && (items[at - 1].window > moved.window ||
				  (items[at - 1].window == moved.window &&
				   compare_from(sorter, &items[at - 1], &moved, behind) > 0))) {
			items[at] = items[at - 1];
			at--;
		}
		items[at] = moved;
	}
}

/* Sorts items whose keys are equal before `from`. */
static void sort_from(const struct sorter *sorter, struct weir_windowed *items, size_t count, uint32_t from)
{
	uint32_t common = common_of(sorter, items, count, from), behind = common + 8, width = sorter->views->keys->width, size;

	/* Of keys that end within the window, the last eight bytes, without those before it. */
	if (width >= behind)
		for (size_t i = 0; i < count; i++)
			items[i].window = load_word(key_of(sorter, &items[i], &size) + common);
	else if (width >= 8 && width > common)
		for (size_t i = 0; i < count; i++)
			items[i].window = load_word(key_of(sorter, &items[i], &size) + width - 8) << 8 * (behind - width);
	else
		for (size_t i = 0; i < count; i++)
			items[i].window = window_at(sorter, &items[i], common);
	if (is_sorted(sorter, items, count, behind))
		return;
	if (count <= FEW) {
		sort_few(sorter, items, count, behind);
		return;
	}
	weir_windows_order(items, sorter->spare, count);
	/* Nothing is behind the windows, which are all of the same length. */
	if (width && width <= behind)
		return;
	for (size_t first = 0, last; first < count; first = last) {
		last = first + 1;
		while (last < count && items[last].window == items[first].window)
			last++;
		key_of(sorter, &items[first], &size);
		if (last - first > 1 && size > behind)
			sort_from(sorter, items + first, last - first, behind);
	}
}

void weir_windowed_order(const struct weir_key_view *views, struct weir_windowed *items, struct weir_windowed *spare,
			 size_t count, uint32_t from)
{
	struct sorter sorter = {.views = views, .spare = spare};

	if (count > 1)
		sort_from(&sorter, items, count, from);
}

/* Where there is room: a size that the next split's keys, whose number differs a little, will ask for as well, so that they get
 * the same pages. */
static size_t items_bytes(size_t count, const struct weir_account *account)
{
	size_t bytes = weir_key_order_bytes(count), rounded = WEIR_FRAME_MIN;

	while (rounded < bytes)
		rounded *= 2;
	return bytes < WEIR_FRAME_MIN || weir_account_room(account) / 4 < (int64_t)rounded ? bytes : rounded;
}

static bool keys_are_sorted(const struct weir_key_list *keys)
{
	uint32_t before_size, size;
	const uint8_t *before = weir_key_at(keys, 0, &before_size), *key;

	for (size_t i = 1; i < keys->count; i++, before = key, before_size = size) {
		key = weir_key_at(keys, i, &size);
		if (weir_key_compare(before, before_size, key, size) > 0)
			return false;
	}
	return true;
}

int weir_key_order(const struct weir_key_list *keys, struct weir_account *account, uint32_t *rows,
		   struct weir_error *err)
{
	struct weir_key_view view = {.keys = keys};
	size_t count = keys->count;
	struct weir_windowed *items;
	size_t bytes;

	if (count == 0)
		return WEIR_OK;
	if (keys_are_sorted(keys)) {
		for (size_t i = 0; i < count; i++)
			rows[i] = (uint32_t)i;
		return WEIR_OK;
	}
	bytes = items_bytes(count, account);
	items = weir_alloc(account, bytes, err);
	if (!items)
		return err->code;
	weir_foresee(items, weir_key_order_bytes(count));
	for (size_t i = 0; i < count; i++)
		items[i] = (struct weir_windowed){.row = (uint32_t)i};
	weir_windowed_order(&view, items, items + count, count, 0);
	for (size_t i = 0; i < count; i++)
		rows[i] = items[i].row;
	weir_free(account, items, bytes);
	return WEIR_OK;
}
