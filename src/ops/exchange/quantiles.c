#include "ops/exchange/quantiles.h"

#include "base/hash.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 56, SHARE_MIN = 64, PRECISION_MAX = 65535 };

struct head {
	uint64_t count;
	uint32_t levels, used;
};

struct more {
	uint64_t least, greatest;
	uint64_t coins, pairs; /* by level: the last one, and whether the next is the other side of it */
	uint32_t sizes[LEVELS_MAX];
};

/* A sketch while it is worked on: levels as they lie, the highest first. */
struct opened {
	struct head head;
	struct more more;
	uint64_t *values;
};

void weir_quantiles_init(struct weir_quantiles *quantiles, double precision)
{
	uint32_t whole = precision > PRECISION_MAX ? PRECISION_MAX : (uint32_t)precision;

	quantiles->share = 4 * whole > SHARE_MIN ? 4 * whole : SHARE_MIN;
	quantiles->room = 4 * quantiles->share + 4 * LEVELS_MAX;
}

static uint32_t head_bytes(const struct head *head)
{
	return head->levels > 1 ? sizeof(struct head) + sizeof(struct more) : sizeof(struct head);
}

static struct head head_of(const uint8_t *sketch)
{
	struct head head;

	memcpy(&head, sketch, sizeof(head));
	return head;
}

void weir_quantiles_new(uint8_t *sketch)
{
	memcpy(sketch, &(struct head){.levels = 1}, sizeof(struct head));
}

uint32_t weir_quantiles_used(const uint8_t *sketch)
{
	struct head head = head_of(sketch);

	return head_bytes(&head) + head.used * 8;
}

/* ---- order ---- */

/* By the lowest byte, then the next …; `other` has as much room. Bytes that all values share are left out. */
static void sort_values(uint64_t *values, uint32_t count, uint64_t *other)
{
	uint32_t counts[8][256] = {{0}};
	uint64_t *from = values, *to = other, *swap;

	if (count < 2)
		return;
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t d = 0; d < 8; d++)
			counts[d][values[i] >> 8 * d & 255]++;
	for (uint32_t d = 0; d < 8; d++) {
		uint32_t begin = 0;

		if (counts[d][from[0] >> 8 * d & 255] == count)
			continue;
		for (uint32_t b = 0; b < 256; b++) {
			uint32_t here = counts[d][b];

			counts[d][b] = begin;
			begin += here;
		}
		for (uint32_t i = 0; i < count; i++)
			to[counts[d][from[i] >> 8 * d & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	if (from != values)
		memcpy(values, from, count * sizeof(*values));
}

static void merge_sorted(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count, uint64_t *to)
{
	while (a_count && b_count) {
		bool first = *a <= *b;

		*to++ = first ? *a : *b;
		a += first;
		a_count -= first;
		b += !first;
		b_count -= !first;
	}
	memcpy(to, a, a_count * sizeof(*a));
	memcpy(to + a_count, b, b_count * sizeof(*b));
}

/* ---- levels ---- */

/* How many values a level keeps; `below`: how far it is below the highest. */
static uint32_t share_of(const struct weir_quantiles *quantiles, uint32_t below)
{
	uint64_t share = quantiles->share;

	while (below-- && share > 2)
		share = share * 2 / 3;
	return share > 2 ? (uint32_t)share : 2;
}

static uint32_t toss(struct opened *opened, uint32_t level, const uint64_t *values, uint32_t count)
{
	uint64_t bit = (uint64_t)1 << level;
	uint64_t coin = weir_hash_u64(values[count / 2] ^ weir_hash_u64(opened->head.count + level)) & 1;

	if (opened->more.pairs & bit)
		coin = !(opened->more.coins & bit);
	opened->more.pairs ^= bit;
	opened->more.coins = coin ? opened->more.coins | bit : opened->more.coins & ~bit;
	return (uint32_t)coin;
}

/* Half of level 0 goes up, and of each level that is too long then. */
static int compress(const struct weir_quantiles *quantiles, struct opened *opened, struct weir_arena *arena,
		    struct weir_error *err)
{
	uint32_t levels = opened->head.levels, used = opened->head.used, carried = 0;
	uint64_t *carry = weir_arena_alloc(arena, (size_t)(used + 1) * 8, err);
	uint64_t *level = carry ? weir_arena_alloc(arena, (size_t)(used + 1) * 8, err) : NULL;
	uint64_t *out = level ? weir_arena_alloc(arena, (size_t)(used + 1) * 8, err) : NULL;
	uint64_t *end = out + used;
	const uint64_t *from = opened->values + used;

	if (!out)
		return err->code;
	for (uint32_t n = 0; n < levels || carried; n++) {
		uint32_t size = n < levels ? opened->more.sizes[n] : 0, count = size + carried, kept;

		from -= size;
		if (n == 0) {
			memcpy(level, from, size * sizeof(*level));
			sort_values(level, size, carry);
			if (levels == 1) {
				opened->more.least = level[0];
				opened->more.greatest = level[size - 1];
			}
		} else {
			merge_sorted(from, size, carry, carried, level);
		}
		carried = 0;
		kept = count;
		if (n + 1 < LEVELS_MAX && count > 1 &&
		    (n == 0 || count > share_of(quantiles, n + 1 < levels ? levels - 1 - n : 0))) {
			uint32_t coin = toss(opened, n, level, count);

			kept = count & 1;
			/* The one over stays, from the end that the coin says. */
			carried = count / 2;
			for (uint32_t i = 0; i < carried; i++)
				carry[i] = level[2 * i + coin + (kept && !coin)];
			if (kept)
				level[0] = coin ? level[count - 1] : level[0];
		}
		end -= kept;
		memcpy(end, level, kept * sizeof(*level));
		opened->more.sizes[n] = kept;
		if (n >= levels)
			levels = n + 1;
	}
	opened->head.levels = levels;
	opened->head.used = (uint32_t)(out + used - end);
	opened->values = end;
	return WEIR_OK;
}

static void open_sketch(const uint8_t *sketch, struct opened *out)
{
	out->head = head_of(sketch);
	if (out->head.levels > 1)
		memcpy(&out->more, sketch + sizeof(out->head), sizeof(out->more));
	else
		out->more = (struct more){.sizes = {out->head.used}};
}

static void close_sketch(const struct opened *opened, uint8_t *sketch)
{
	memcpy(sketch, &opened->head, sizeof(opened->head));
	if (opened->head.levels > 1)
		memcpy(sketch + sizeof(opened->head), &opened->more, sizeof(opened->more));
	memcpy(sketch + head_bytes(&opened->head), opened->values, (size_t)opened->head.used * 8);
}

static int make_room(const struct weir_quantiles *quantiles, uint8_t *sketch, struct weir_arena *arena,
		     struct weir_error *err)
{
	struct opened opened;
	int code;

	open_sketch(sketch, &opened);
	opened.values = weir_arena_alloc(arena, (size_t)(opened.head.used + 1) * 8, err);
	if (!opened.values)
		return err->code;
	memcpy(opened.values, sketch + head_bytes(&opened.head), (size_t)opened.head.used * 8);
	code = compress(quantiles, &opened, arena, err);
	if (!code)
		close_sketch(&opened, sketch);
	return code;
}

int weir_quantiles_push(const struct weir_quantiles *quantiles, uint8_t *sketch, uint32_t size, const uint64_t *values,
			uint32_t count, uint32_t *done, uint32_t *wanted, struct weir_arena *arena,
			struct weir_error *err)
{
	struct head head = head_of(sketch);
	uint32_t before = head_bytes(&head), room = (size - before) / 8, full = before + quantiles->room * 8, part;

	room = room < quantiles->room ? room : quantiles->room;
	part = room - head.used < count ? room - head.used : count;
	*done = part;
	*wanted = 0;
	memcpy(sketch + before + (size_t)head.used * 8, values, (size_t)part * 8);
	head.used += part;
	head.count += part;
	memcpy(sketch, &head, sizeof(head));
	if (head.levels > 1) {
		uint8_t *size_at = sketch + sizeof(head) + offsetof(struct more, sizes);
		uint64_t ends[2];
		uint32_t level_size;

		memcpy(&level_size, size_at, sizeof(level_size));
		level_size += part;
		memcpy(size_at, &level_size, sizeof(level_size));
		memcpy(ends, sketch + sizeof(head), sizeof(ends));
		for (uint32_t i = 0; i < part; i++) {
			ends[0] = values[i] < ends[0] ? values[i] : ends[0];
			ends[1] = values[i] > ends[1] ? values[i] : ends[1];
		}
		memcpy(sketch + sizeof(head), ends, sizeof(ends));
	}
	if (part == count)
		return WEIR_OK;
	if (room == quantiles->room)
		return make_room(quantiles, sketch, arena, err);
	/* Room for what a sketch of many values has before them, too, so that it need not be moved when it becomes
	 * one. */
	full += head.levels == 1 ? sizeof(struct more) : 0;
	*wanted = size > full / 2 ? full : size * 2;
	if (*wanted < full && *wanted < before + (head.used + count - part) * 8)
		*wanted = before + (head.used + count - part) * 8 < full ? before + (head.used + count - part) * 8
									 : full;
	return WEIR_OK;
}

int weir_quantiles_merge(const struct weir_quantiles *quantiles, const uint8_t *a, const uint8_t *b,
			 struct weir_arena *arena, const uint8_t **out, uint32_t *out_size, struct weir_error *err)
{
	struct opened one, two;
	const uint8_t *one_end, *two_end;
	uint64_t *end;
	uint8_t *made;
	int code = WEIR_OK;

	open_sketch(a, &one);
	open_sketch(b, &two);
	one_end = a + weir_quantiles_used(a);
	two_end = b + weir_quantiles_used(b);
	one.values = weir_arena_alloc(arena, ((size_t)one.head.used + two.head.used + 1) * 8, err);
	if (!one.values)
		return err->code;
	end = one.values + one.head.used + two.head.used;
	for (uint32_t n = 0; n < one.head.levels || n < two.head.levels; n++) {
		uint32_t x = n < one.head.levels ? one.more.sizes[n] : 0,
			 y = n < two.head.levels ? two.more.sizes[n] : 0;

		one_end -= (size_t)x * 8;
		two_end -= (size_t)y * 8;
		end -= x + y;
		if (n && x && y) {
			/* Both sorted; where they lie may be at any address. */
			uint64_t *both = weir_arena_alloc(arena, ((size_t)x + y) * 8, err);

			if (!both)
				return err->code;
			memcpy(both, one_end, (size_t)x * 8);
			memcpy(both + x, two_end, (size_t)y * 8);
			merge_sorted(both, x, both + x, y, end);
		} else {
			memcpy(end, one_end, (size_t)x * 8);
			memcpy(end + x, two_end, (size_t)y * 8);
		}
		one.more.sizes[n] = x + y;
	}
	if (two.head.levels > 1) {
		bool known = one.head.levels > 1;

		if (!known)
			one.more.least = one.more.greatest = two.more.least;
		for (uint32_t i = 0; !known && i < one.head.used; i++) {
			uint64_t value;

			memcpy(&value, a + sizeof(struct head) + (size_t)i * 8, 8);
			one.more.least = value < one.more.least ? value : one.more.least;
			one.more.greatest = value > one.more.greatest ? value : one.more.greatest;
		}
		one.more.least = two.more.least < one.more.least ? two.more.least : one.more.least;
		one.more.greatest = two.more.greatest > one.more.greatest ? two.more.greatest : one.more.greatest;
	} else if (one.head.levels > 1) {
		for (uint32_t i = 0; i < two.head.used; i++) {
			uint64_t value;

			memcpy(&value, b + sizeof(struct head) + (size_t)i * 8, 8);
			one.more.least = value < one.more.least ? value : one.more.least;
			one.more.greatest = value > one.more.greatest ? value : one.more.greatest;
		}
	}
	one.head.count += two.head.count;
	one.head.used += two.head.used;
	one.head.levels = one.head.levels > two.head.levels ? one.head.levels : two.head.levels;
	if (one.head.used > quantiles->room)
		code = compress(quantiles, &one, arena, err);
	if (code)
		return code;
	*out_size = head_bytes(&one.head) + one.head.used * 8;
	made = weir_arena_alloc(arena, *out_size, err);
	if (!made)
		return err->code;
	close_sketch(&one, made);
	*out = made;
	return WEIR_OK;
}

/* ---- results ---- */

struct weighed {
	uint64_t value, weight;
};

static int compare_weighed(const void *a_object, const void *b_object)
{
	const struct weighed *a = a_object, *b = b_object;

	return (a->value > b->value) - (a->value < b->value);
}

int weir_quantiles_take(const uint8_t *sketch, const double *shares, uint32_t count, double *out,
			struct weir_arena *arena, struct weir_error *err)
{
	struct opened opened;
	struct weighed *all;
	const uint8_t *from;
	uint32_t at = 0;

	open_sketch(sketch, &opened);
	all = weir_arena_alloc(arena, ((size_t)opened.head.used + 1) * sizeof(*all), err);
	if (!all)
		return err->code;
	from = sketch + head_bytes(&opened.head);
	for (uint32_t n = opened.head.levels; n-- > 0;)
		for (uint32_t i = 0; i < opened.more.sizes[n]; i++, from += 8, at++) {
			memcpy(&all[at].value, from, 8);
			all[at].weight = (uint64_t)1 << n;
		}
	qsort(all, at, sizeof(*all), compare_weighed);
	if (opened.head.levels == 1) {
		opened.more.least = all[0].value;
		opened.more.greatest = all[at - 1].value;
	}
	for (uint32_t s = 0; s < count; s++) {
		uint64_t rank = (uint64_t)((double)opened.head.count * shares[s]), passed = 0;
		uint64_t value = opened.more.greatest;

		if (!rank)
			value = opened.more.least;
		else if (rank + 1 < opened.head.count)
			for (uint32_t i = 0; i < at && passed <= rank; passed += all[i++].weight)
				value = all[i].value;
		out[s] = weir_quantiles_value(value);
	}
	return WEIR_OK;
}
