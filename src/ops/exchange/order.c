/* Keys are sorted by eight bytes at a time: those behind what all keys have in common, then, among keys that
 * are equal so far, those behind what these have in common, and so on.
 *
 *     key:   ████████ common ████████│ window: 8 bytes │ what only ties are asked for
 *
 * So small numbers in wide keys and texts that all begin alike cost no more than others. What is in order already is
 * noticed in one pass and left alone.
 *
 * What is moved is one number for each key: how far its window is above the least one, and behind that which key it is.
 * Of windows that are far apart the lowest bits give way to that; keys of which the rest is equal are looked at once
 * more.
 *
 *     place:  63                              0
 *             │ window − least │ index of key │        smaller ones first: equal windows stay as they were
 *
 * Numbers are sorted from the top: between the least and the greatest, so many equal parts that each has few, if they
 * are spread evenly, and each is put into its own by counting. Few are put in order at once, by what the processor is
 * best at (kernels_order.c); a part that has many is sorted in the same way. Random keys move twice, not once for each
 * of eight bytes. Where one part would have most of the numbers, parts are by magnitude instead: of few great values
 * and many small ones it is the small ones that are told apart. What a heavy key has is one part in the end, which is
 * in order as it comes.
 */
#include "ops/exchange/order.h"

#include "base/cpu.h"
#include "ops/exchange/order_impl.h"

#include <string.h>

enum {
	PARTS_BITS_MAX = 11,
	MANY = 1 << 14,      /* numbers that the second cache does not have by themselves: */
	PARTS_BITS_MANY = 9, /* more parts would be more lines than the first has */
	FEW_KEYS = 24,       /* that are compared as they are */
	MAGNITUDE_BITS = 5,
	PARTS_SKEWED = 64 << MAGNITUDE_BITS,
	SAMPLED = 64,
};

WEIR_KERNEL_DECLARE(struct weir_order_kernels, weir_order_kernels);

/* ---- numbers ---- */

/* How numbers are moved: those that differ in their lowest `same_bits` alone are in order where they come. */
struct moving {
	const struct weir_order_kernels *kernels;
	uint64_t *to; /* where they are in the end: where they were, or in the spare room */
	uint32_t same_bits;
};

static void order_few(const struct moving *how, const uint64_t *from, size_t count)
{
	uint32_t end = (uint32_t)count;

	how->kernels->order_parts(from, how->to, &end, 1);
}

/* False: they are in order. */
static bool find_bounds(const uint64_t *numbers, size_t count, uint64_t *least, uint64_t *greatest)
{
	uint64_t low = numbers[0], high = low, before = low;
	bool is_sorted = true;

	for (size_t i = 1; i < count; i++) {
		uint64_t number = numbers[i];

		is_sorted &= before <= number;
		low = number < low ? number : low;
		high = number > high ? number : high;
		before = number;
	}
	*least = low;
	*greatest = high;
	return !is_sorted;
}

/* Where most values are small beside the greatest: the part of one that is `value` above the least, by its highest bit
 * and the five behind it. Ascending, as the values are. */
static inline uint32_t magnitude_of(uint64_t value)
{
	/* Small ones, which are as likely as not, are no case of their own. */
	uint32_t above = 63 - MAGNITUDE_BITS - (uint32_t)__builtin_clzll(value | 1 << MAGNITUDE_BITS);

	return (above << MAGNITUDE_BITS) + (uint32_t)(value >> above);
}

static void order_part(uint64_t *from, uint64_t *other, size_t count, struct moving how);

static void order_parts(uint64_t *from, uint64_t *other, const uint32_t *ends, uint32_t parts, struct moving how)
{
	uint64_t *to = how.to;

	for (uint32_t part = 0, first = 0; part < parts; first = ends[part++]) {
		how.to = to + first;
		if (ends[part] > first)
			order_part(from + first, other + first, ends[part] - first, how);
	}
}

static void order_skewed(uint64_t *from, uint64_t *other, size_t count, uint64_t least, struct moving how)
{
	uint32_t ends[PARTS_SKEWED] = {0}, sum = 0;

	for (size_t i = 0; i < count; i++)
		ends[magnitude_of((from[i] - least) >> how.same_bits)]++;
	for (uint32_t part = 0; part < PARTS_SKEWED; part++) {
		uint32_t here = ends[part];

		ends[part] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++)
		other[ends[magnitude_of((from[i] - least) >> how.same_bits)]++] = from[i];
	order_parts(other, from, ends, PARTS_SKEWED, how);
}

/* Whether the first of equal parts would have more than a quarter of the numbers, by some of them. */
static bool is_skewed(const uint64_t *from, size_t count, uint64_t least, uint32_t shift)
{
	uint32_t first = 0;

	for (size_t i = 0; i < SAMPLED; i++)
		first += !((from[i * (count / SAMPLED)] - least) >> shift);
	return first > SAMPLED / 4;
}

/* All are between the least and the greatest; how they are spread in between does not matter for what comes out. */
static void order_between(uint64_t *from, uint64_t *other, size_t count, uint64_t least, uint64_t greatest,
			  struct moving how)
{
	uint32_t ends[1 << PARTS_BITS_MAX], sum = 0, most = 0, bits, width, shift;

	least = least >> how.same_bits << how.same_bits;
	bits = 64 - (uint32_t)__builtin_clzll(count >> how.kernels->part_bits);
	bits = count > MANY ? PARTS_BITS_MANY : bits > PARTS_BITS_MAX ? PARTS_BITS_MAX : bits;
	width = 64 - (uint32_t)__builtin_clzll(greatest - least);
	shift = width > bits ? width - bits : 0;
	shift = shift < how.same_bits ? how.same_bits : shift;
	if (shift > how.same_bits && count > PARTS_SKEWED && is_skewed(from, count, least, shift)) {
		order_skewed(from, other, count, least, how);
		return;
	}
	memset(ends, 0, sizeof(*ends) << bits);
	for (size_t i = 0; i < count; i++)
		ends[(from[i] - least) >> shift]++;
	for (uint32_t part = 0; part < 1u << bits; part++) {
		uint32_t here = ends[part];

		most = here > most ? here : most;
		ends[part] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++)
		other[ends[(from[i] - least) >> shift]++] = from[i];
	if (shift > how.same_bits && most > how.kernels->few)
		order_parts(other, from, ends, 1u << bits, how);
	else if (shift > how.same_bits)
		how.kernels->order_parts(other, how.to, ends, 1u << bits);
	else if (how.to != other)
		memcpy(how.to, other, count * sizeof(*other));
}

static void order_part(uint64_t *from, uint64_t *other, size_t count, struct moving how)
{
	uint64_t least, greatest;

	if (count <= how.kernels->few)
		order_few(&how, from, count);
	else if (find_bounds(from, count, &least, &greatest))
		order_between(from, other, count, least, greatest, how);
	else if (how.to != from)
		memcpy(how.to, from, count * sizeof(*from));
}

void weir_numbers_order(uint64_t *numbers, uint64_t *spare, size_t count)
{
	order_part(numbers, spare, count,
		   (struct moving){.kernels = WEIR_KERNEL_CHOOSE(weir_order_kernels), .to = numbers});
}

/* ---- windows ---- */

uint32_t weir_place_bits(size_t count)
{
	return count > 1 ? 64 - (uint32_t)__builtin_clzll(count - 1) : 1;
}

/* Windows, in the spare room. */
struct windows {
	uint64_t least, greatest;
	bool is_sorted;
};

static struct windows windows_of(const uint64_t *spare, size_t count)
{
	struct windows windows;

	windows.is_sorted = !find_bounds(spare, count, &windows.least, &windows.greatest);
	return windows;
}

/* Puts places in the order of their windows, which are overwritten. How many of the lowest bits were left out: places
 * that are equal but for which they are may be in the wrong order then. */
static uint32_t order_by_windows(uint64_t *places, uint64_t *spare, size_t count, const struct windows *windows,
				 uint32_t place_bits)
{
	uint64_t mask = ((uint64_t)1 << place_bits) - 1, span = windows->greatest - windows->least;
	uint32_t bits = span ? 64 - (uint32_t)__builtin_clzll(span) : 0;
	uint32_t left_out = bits + place_bits > 64 ? bits + place_bits - 64 : 0;
	struct moving how = {.kernels = WEIR_KERNEL_CHOOSE(weir_order_kernels), .to = places, .same_bits = place_bits};

	for (size_t i = 0; i < count; i++)
		places[i] = (spare[i] - windows->least) >> left_out << place_bits | (places[i] & mask);
	if (!windows->is_sorted && count <= how.kernels->few)
		order_few(&how, places, count);
	else if (!windows->is_sorted)
		order_between(places, spare, count, 0, span >> left_out << place_bits | mask, how);
	return left_out;
}

/* The end of those whose windows are equal, as far as places tell. */
static size_t end_of_equal(const uint64_t *places, size_t first, size_t count, uint32_t place_bits)
{
	size_t last = first + 1;

	while (last < count && places[last] >> place_bits == places[first] >> place_bits)
		last++;
	return last;
}

static void order_items(const struct weir_windowed *items, uint64_t *places, uint64_t *spare, size_t count,
			uint32_t place_bits)
{
	uint64_t mask = ((uint64_t)1 << place_bits) - 1;
	struct windows windows;

	for (size_t i = 0; i < count; i++)
		spare[i] = items[places[i] & mask].window;
	windows = windows_of(spare, count);
	if (!order_by_windows(places, spare, count, &windows, place_bits))
		return;
	for (size_t first = 0, last; first < count; first = last) {
		last = end_of_equal(places, first, count, place_bits);
		if (last - first > 1)
			order_items(items, places + first, spare + first, last - first, place_bits);
	}
}

static void places_init(uint64_t *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		places[i] = i;
}

void weir_windows_order(const struct weir_windowed *items, uint64_t *places, uint64_t *spare, size_t count)
{
	places_init(places, count);
	if (count > 1)
		order_items(items, places, spare, count, weir_place_bits(count));
}

/* ---- keys ---- */

struct sorter {
	/* A place is that of a key in a list, or of an item, whose key a view has. */
	const struct weir_key_list *keys;
	const struct weir_key_view *views;
	const struct weir_windowed *items;
	uint32_t width; /* of all keys; 0: each has its own */
	uint32_t place_bits;
};

static inline const uint8_t *key_of(const struct sorter *sorter, uint64_t place, uint32_t *size)
{
	size_t index = (size_t)(place & (((uint64_t)1 << sorter->place_bits) - 1));
	const struct weir_key_view *view;

	if (sorter->keys)
		return weir_key_at(sorter->keys, index, size);
	view = &sorter->views[sorter->items[index].source];
	return weir_key_at(view->keys, (size_t)(sorter->items[index].row - view->row_first), size);
}

static inline uint64_t load_word(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return __builtin_bswap64(word);
}

static uint32_t common_of(const struct sorter *sorter, const uint64_t *places, size_t count, uint32_t from)
{
	uint32_t first_size, size, common;
	const uint8_t *first = key_of(sorter, places[0], &first_size);

	common = first_size;
	/* Keys of one length: eight bytes at once. */
	if (sorter->width >= from + 8) {
		uint64_t word = load_word(first + from), differing = 0;

		for (size_t i = 1; i < count; i++)
			differing |= load_word(key_of(sorter, places[i], &size) + from) ^ word;
		if (differing)
			return from + (uint32_t)__builtin_clzll(differing) / 8;
		from += 8;
	}
	for (size_t i = 1; i < count && common > from; i++) {
		const uint8_t *key = key_of(sorter, places[i], &size);
		uint32_t end = size < common ? size : common, at = from;

		while (at < end && key[at] == first[at])
			at++;
		common = at;
	}
	return common;
}

static uint64_t window_at(const struct sorter *sorter, uint64_t place, uint32_t from)
{
	uint32_t size;
	const uint8_t *key = key_of(sorter, place, &size);

	return from < size ? weir_key_prefix(key + from, size - from) : 0;
}

/* The last eight bytes of keys of one width, at most sixteen behind `from`, in one pass: they are the windows if all
 * before them is equal, as it is of a number whose class all keys share. False: it is not. */
static bool last_windows(const struct sorter *sorter, const uint64_t *places, size_t count, uint32_t from,
			 uint64_t *spare, struct windows *out)
{
	uint32_t at = sorter->width - 8, before = at - from, size;
	uint64_t head, differing = 0, word;
	const uint8_t *key;

	if (sorter->width < from + 8 || before > 8)
		return false;
	key = key_of(sorter, places[0], &size);
	head = load_word(key + from);
	word = load_word(key + at);
	*out = (struct windows){.least = word, .greatest = word, .is_sorted = true};
	for (size_t i = 0; i < count; i++) {
		uint64_t last = word;

		key = key_of(sorter, places[i], &size);
		differing |= load_word(key + from) ^ head;
		word = load_word(key + at);
		spare[i] = word;
		out->is_sorted &= last <= word;
		out->least = word < out->least ? word : out->least;
		out->greatest = word > out->greatest ? word : out->greatest;
	}
	return !before || !(differing >> 8 * (8 - before));
}

static int compare_from(const struct sorter *sorter, uint64_t a, uint64_t b, uint32_t from)
{
	uint32_t a_size, b_size;
	const uint8_t *a_key = key_of(sorter, a, &a_size), *b_key = key_of(sorter, b, &b_size);

	if (from >= a_size || from >= b_size)
		return (a_size > b_size) - (a_size < b_size);
	return weir_key_compare(a_key + from, a_size - from, b_key + from, b_size - from);
}

static void sort_few(const struct sorter *sorter, uint64_t *places, size_t count, uint32_t from)
{
	for (size_t i = 1; i < count; i++) {
		uint64_t moved = places[i];
		size_t at = i;

		while (at > 0 && compare_from(sorter, places[at - 1], moved, from) > 0) {
			places[at] = places[at - 1];
			at--;
		}
		places[at] = moved;
	}
}

/* Sorts places whose keys are equal before `from`. */
static void sort_from(const struct sorter *sorter, uint64_t *places, uint64_t *spare, size_t count, uint32_t from)
{
	uint32_t common = sorter->width - 8, behind = sorter->width, left_out, size;
	struct windows windows;

	if (!last_windows(sorter, places, count, from, spare, &windows)) {
		common = common_of(sorter, places, count, from);
		behind = common + 8;
		for (size_t i = 0; i < count; i++)
			spare[i] = sorter->width >= behind ? load_word(key_of(sorter, places[i], &size) + common)
							   : window_at(sorter, places[i], common);
		windows = windows_of(spare, count);
	}
	left_out = order_by_windows(places, spare, count, &windows, sorter->place_bits);
	/* Nothing is behind the windows, which are all of the same length. */
	if (!left_out && sorter->width && sorter->width <= behind)
		return;
	for (size_t first = 0, last; first < count; first = last) {
		last = end_of_equal(places, first, count, sorter->place_bits);
		if (last - first == 1)
			continue;
		key_of(sorter, places[first], &size);
		if (last - first <= FEW_KEYS)
			sort_few(sorter, places + first, last - first, left_out ? common : behind);
		else if (left_out || size > behind)
			sort_from(sorter, places + first, spare + first, last - first, left_out ? common : behind);
	}
}

void weir_items_order(const struct weir_key_view *views, const struct weir_windowed *items, uint64_t *places,
		      uint64_t *spare, size_t count, uint32_t from)
{
	struct sorter sorter = {
		.views = views, .items = items, .width = views->keys->width, .place_bits = weir_place_bits(count)};

	places_init(places, count);
	if (count > 1)
		sort_from(&sorter, places, spare, count, from);
}

void weir_key_places_order(const struct weir_key_list *keys, uint64_t *places, uint64_t *spare, size_t count)
{
	struct sorter sorter = {.keys = keys, .width = keys->width, .place_bits = weir_place_bits(keys->count)};

	if (count > 1)
		sort_from(&sorter, places, spare, count, 0);
}

size_t weir_key_order_bytes(size_t count)
{
	return 2 * count * sizeof(uint64_t);
}

/* Where there is room: a size that the next split's keys, whose number differs a little, will ask for as well, so that
 * they get the same pages. */
static size_t places_bytes(size_t count, const struct weir_account *account)
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
	size_t count = keys->count, bytes;
	uint64_t *places, mask;

	if (count == 0)
		return WEIR_OK;
	if (keys_are_sorted(keys)) {
		for (size_t i = 0; i < count; i++)
			rows[i] = (uint32_t)i;
		return WEIR_OK;
	}
	bytes = places_bytes(count, account);
	places = weir_alloc(account, bytes, err);
	if (!places)
		return err->code;
	weir_foresee(places, weir_key_order_bytes(count));
	places_init(places, count);
	weir_key_places_order(keys, places, places + count, count);
	mask = ((uint64_t)1 << weir_place_bits(count)) - 1;
	for (size_t i = 0; i < count; i++)
		rows[i] = (uint32_t)(places[i] & mask);
	weir_free(account, places, bytes);
	return WEIR_OK;
}
