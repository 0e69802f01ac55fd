/* space: which ranges of a region or a spill file are free.
 *
 * All ranges of a home, free and taken, form a list by offset, so that a range finds its neighbours and is joined with
 * the free ones in a few steps. Free ones are also on the list of their class, the last freed first, since its pages
 * are likeliest to be warm. Classes are four to a doubling:
 *
 *     4K 5K… │ 8K 10K 12K 14K │ 16K 20K 24K 28K │ …
 *
 * A request looks at the first few of its own class, then takes the head of the next larger class that has one, and
 * cuts off what it does not need; so the choice is nearly the best fit and its cost does not grow with the number of
 * ranges.
 *
 * Nothing is kept in the free space itself: workers write there. A range in use has its node already, so giving it back
 * cannot fail. Threads: the caller's lock.
 */
#include "store/store_impl.h"

#define SCAN_MAX 16 /* ranges of the own class looked at, some of which may be too small */

struct weir_range *weir_range_new(struct weir_account *account, struct weir_error *err)
{
	return weir_alloc_zero(account, sizeof(struct weir_range), err);
}

void weir_range_free(struct weir_account *account, struct weir_range *range)
{
	weir_free(account, range, sizeof(*range));
}

static unsigned class_of(uint64_t size)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(size);

	WEIR_ASSERT(log2 >= STORE_PAGE_BITS && log2 <= STORE_SIZE_BITS);
	return (log2 - STORE_PAGE_BITS) * 4 + (unsigned)(size >> (log2 - 2) & 3);
}

static void link_free(struct weir_space *space, struct weir_range *range)
{
	unsigned class = class_of(range->size);

	range->is_free = true;
	range->previous = NULL;
	range->next = space->classes[class];
	if (range->next)
		range->next->previous = range;
	space->classes[class] = range;
	space->occupied[class / 64] |= (uint64_t)1 << class % 64;
}

static void unlink_free(struct weir_space *space, struct weir_range *range)
{
	unsigned class = class_of(range->size);

	WEIR_ASSERT(range->is_free);
	if (range->next)
		range->next->previous = range->previous;
	if (range->previous)
		range->previous->next = range->next;
	else
		space->classes[class] = range->next;
	if (!space->classes[class])
		space->occupied[class / 64] &= ~((uint64_t)1 << class % 64);
	range->is_free = false;
	range->previous = range->next = NULL;
}

/* `second` lies behind `first`; its node is freed. */
static void join(struct weir_space *space, struct weir_range *first, struct weir_range *second)
{
	WEIR_ASSERT(first->home == second->home && first->offset + first->size == second->offset);
	first->size += second->size;
	first->after = second->after;
	if (first->after)
		first->after->before = first;
	weir_range_free(space->account, second);
}

struct weir_range *weir_space_give(struct weir_space *space, struct weir_range *range)
{
	struct weir_range *before = range->before, *after = range->after;

	WEIR_ASSERT(!range->is_free);
	if (after && after->is_free) {
		unlink_free(space, after);
		join(space, range, after);
	}
	if (before && before->is_free) {
		unlink_free(space, before);
		join(space, before, range);
		range = before;
	}
	link_free(space, range);
	return range;
}

void weir_space_add(struct weir_space *space, struct weir_range *range, void *home, struct weir_range *last,
		    uint64_t offset, uint64_t size)
{
	WEIR_ASSERT(size > 0 && offset % STORE_PAGE == 0 && size % STORE_PAGE == 0);
	*range = (struct weir_range){.home = home, .offset = offset, .size = size, .before = last};
	if (last)
		last->after = range;
	weir_space_give(space, range);
}

struct weir_range *weir_space_cut(struct weir_range *range, uint64_t size, struct weir_range **spare)
{
	struct weir_range *rest = *spare;

	WEIR_ASSERT(size > 0 && size < range->size && size % STORE_PAGE == 0 && rest);
	*spare = NULL;
	*rest = (struct weir_range){.home = range->home,
				    .offset = range->offset + size,
				    .size = range->size - size,
				    .before = range,
				    .after = range->after};
	if (rest->after)
		rest->after->before = rest;
	range->after = rest;
	range->size = size;
	return rest;
}

static struct weir_range *find(struct weir_space *space, uint64_t size)
{
	unsigned class = class_of(size), scanned = 0;
	struct weir_range *range = space->classes[class];

	for (; range && scanned < SCAN_MAX; range = range->next, scanned++)
		if (range->size >= size)
			return range;
	for (unsigned at = class + 1; at < STORE_CLASS_COUNT; at = (at / 64 + 1) * 64) {
		uint64_t word = space->occupied[at / 64] >> at % 64;

		if (word)
			return space->classes[at + (unsigned)__builtin_ctzll(word)];
	}
	/* Rather a long look than a new region. */
	while (range && range->size < size)
		range = range->next;
	return range;
}

struct weir_range *weir_space_take(struct weir_space *space, uint64_t size, struct weir_range **spare)
{
	struct weir_range *range = find(space, size);

	WEIR_ASSERT(size > 0 && size % STORE_PAGE == 0);
	if (!range)
		return NULL;
	unlink_free(space, range);
	/* Its neighbours are in use, else they would have been joined. */
	if (range->size > size)
		link_free(space, weir_space_cut(range, size, spare));
	return range;
}

void weir_space_take_range(struct weir_space *space, struct weir_range *range)
{
	unlink_free(space, range);
}

void weir_space_remove(struct weir_space *space, struct weir_range *range)
{
	WEIR_ASSERT(!range->before && !range->after);
	unlink_free(space, range);
	weir_range_free(space->account, range);
}
