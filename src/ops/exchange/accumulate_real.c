/* Sums and spreads of doubles, where the fields that ordinary values need do not suffice (accumulate_impl.h).
 *
 * A sum is two doubles while these are all of it. Values of very different size, and those that cancel each other out,
 * need more: a list of doubles whose sum it is, none of which has digits where another has some (Shewchuk's
 * expansions). It lies outside of the row, which has a view of it, so that rows of ordinary groups are no longer for
 * it:
 *
 *     f64 how often 2^1024 │ f64 least │ … │ f64 greatest │ zeros
 *
 * Nothing is ever rounded, so that neither the order of values nor how lanes share them shows in the result. */
#include "base/exact.h"
#include "ops/exchange/accumulate_impl.h"

enum { LONG_MIN_COUNT = 4, LONG_MAX_COUNT = 64 }; /* 42 times 53 bits are more than all doubles have, and one counts */

struct long_sum {
	uint32_t capacity, count; /* in the heap; of the parts, the first is always there */
	double parts[LONG_MAX_COUNT];
};

static void long_load(const uint8_t *field, struct long_sum *sum)
{
	struct weir_view view = weir_row_view(field);

	sum->capacity = view.size / sizeof(double);
	WEIR_ASSERT(sum->capacity <= LONG_MAX_COUNT);
	memcpy(sum->parts, view.data, view.size);
	for (sum->count = 1; sum->count < sum->capacity && sum->parts[sum->count] != 0;)
		sum->count++;
}

/* Of the greater and the other. */
static struct pair ordered_add(double a, double b)
{
	double greater = fabs(a) < fabs(b) ? b : a, other = fabs(a) < fabs(b) ? a : b, sum = greater + other;

	return (struct pair){sum, other - (sum - greater)};
}

/* Few of them with many digits instead of many with few: each is beyond the last digit of the next greater. */
static void compress(struct long_sum *sum)
{
	double total = sum->parts[sum->count - 1], few[LONG_MAX_COUNT];
	uint32_t at = LONG_MAX_COUNT;

	for (uint32_t i = sum->count - 1; i-- > 1;) {
		struct pair pair = ordered_add(total, sum->parts[i]);

		if (!isfinite(pair.high))
			pair = (struct pair){total, sum->parts[i]};
		total = pair.high;
		if (pair.low != 0) {
			few[--at] = pair.high;
			total = pair.low;
		}
	}
	if (total != 0)
		few[--at] = total;
	memcpy(sum->parts + 1, few + at, (LONG_MAX_COUNT - at) * sizeof(double));
	sum->count = LONG_MAX_COUNT - at + 1;
}

/* Where two add up to more than there is a number for: 2^1024 of it is counted. Either half that is taken away is
 * nearly of the size of what it is taken from, which makes that exact. */
static struct pair beyond_add(struct long_sum *sum, double a, double b)
{
	double greater = fabs(a) < fabs(b) ? b : a, other = fabs(a) < fabs(b) ? a : b, half = copysign(0x1p1023, a);
	struct pair pair;

	sum->parts[0] += copysign(1, a);
	if (fabs(other) >= 0x1p1022)
		return ordered_add(greater - half, other - half);
	pair = ordered_add(greater - half, other);
	pair.high -= half;
	return pair;
}

/* One more value. */
static void long_add(struct long_sum *sum, double value)
{
	uint32_t kept = 1;

	for (uint32_t i = 1; i < sum->count; i++) {
		struct pair pair = ordered_add(value, sum->parts[i]);

		if (!isfinite(pair.high))
			pair = beyond_add(sum, value, sum->parts[i]);
		if (pair.low != 0)
			sum->parts[kept++] = pair.low;
		value = pair.high;
	}
	if (value != 0)
		sum->parts[kept++] = value;
	sum->count = kept;
	if (kept == LONG_MAX_COUNT)
		compress(sum);
}

static int long_store(struct long_sum *sum, uint8_t *field, struct weir_row_heap *heap, struct weir_error *err)
{
	uint32_t capacity = sum->capacity ? sum->capacity : LONG_MIN_COUNT;
	uint8_t *to;

	if (sum->count > capacity)
		compress(sum);
	while (capacity < sum->count)
		capacity *= 2;
	to = capacity > sum->capacity ? weir_row_heap_room(heap, field, capacity * (uint32_t)sizeof(double), err)
				      : (uint8_t *)(uintptr_t)weir_row_view(field).data;
	if (!to)
		return err->code;
	memcpy(to, sum->parts, sum->count * sizeof(double));
	memset(to + sum->count * sizeof(double), 0, (capacity - sum->count) * sizeof(double));
	return WEIR_OK;
}

/* The sum becomes a long one. */
static int lengthen(const struct weir_accumulator *of, uint8_t *row, struct weir_row_heap *heap, struct weir_error *err)
{
	struct pair pair = load_pair(row + of->sum);
	struct long_sum sum = {.count = 1};
	int code;

	long_add(&sum, pair.low);
	long_add(&sum, pair.high);
	code = long_store(&sum, row + of->sum, heap, err);
	if (!code)
		row[of->flags] |= IS_LONG;
	return code;
}

int weir_real_sum_add(const struct weir_accumulator *of, uint8_t *row, double value, struct weir_row_heap *heap,
		      struct weir_error *err)
{
	uint8_t *field = row + of->sum;
	struct long_sum sum;
	int code = WEIR_OK;

	if (!(row[of->flags] & IS_LONG)) {
		struct pair pair = load_pair(field), normal = pair_add_pair(pair, (struct pair){0, 0});

		if (!isfinite(value) || !isfinite(pair.high)) {
			store_pair(field, (struct pair){pair.high + value, 0});
			return WEIR_OK;
		}
		/* The second may have grown until it overlaps the first. */
		if (pair_add_exactly(&normal, value)) {
			store_pair(field, normal);
			return WEIR_OK;
		}
		code = lengthen(of, row, heap, err);
		if (code)
			return code;
	} else if (!isfinite(value)) {
		store_pair(field, (struct pair){value, 0});
		row[of->flags] &= (uint8_t)~IS_LONG;
		return WEIR_OK;
	}
	long_load(field, &sum);
	long_add(&sum, value);
	return long_store(&sum, field, heap, err);
}

int weir_real_sum_merge(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from, struct weir_row_heap *heap,
			struct weir_error *err)
{
	struct pair pair = load_pair(to + of->sum), other = load_pair(from + of->sum);
	struct long_sum sum, more;
	int code;

	if (!((to[of->flags] | from[of->flags]) & IS_LONG)) {
		if (pair_add_exactly(&pair, other.high) && pair_add_exactly(&pair, other.low)) {
			store_pair(to + of->sum, pair);
			return WEIR_OK;
		}
		code = weir_real_sum_add(of, to, other.high, heap, err);
		return code ? code : weir_real_sum_add(of, to, other.low, heap, err);
	}
	if (!(from[of->flags] & IS_LONG)) {
		code = weir_real_sum_add(of, to, other.high, heap, err);
		return code ? code : weir_real_sum_add(of, to, other.low, heap, err);
	}
	if (!(to[of->flags] & IS_LONG)) {
		if (!isfinite(pair.high))
			return WEIR_OK;
		code = lengthen(of, to, heap, err);
		if (code)
			return code;
	}
	long_load(to + of->sum, &sum);
	long_load(from + of->sum, &more);
	sum.parts[0] += more.parts[0];
	for (uint32_t i = 1; i < more.count; i++)
		long_add(&sum, more.parts[i]);
	return long_store(&sum, to + of->sum, heap, err);
}

static void long_exact(const uint8_t *field, struct weir_exact *out)
{
	struct long_sum sum;

	*out = (struct weir_exact){0};
	long_load(field, &sum);
	weir_exact_add_beyond(out, (int64_t)sum.parts[0]);
	weir_exact_add_many(out, sum.parts + 1, sum.count - 1);
}

double weir_real_sum(const struct weir_accumulator *of, const uint8_t *row)
{
	struct weir_exact exact;

	if (!(row[of->flags] & IS_LONG))
		return pair_value(load_pair(row + of->sum));
	long_exact(row + of->sum, &exact);
	return weir_exact_value(&exact);
}

double weir_real_mean(const struct weir_accumulator *of, const uint8_t *row, uint64_t count)
{
	struct weir_exact exact;

	if (!(row[of->flags] & IS_LONG))
		return pair_value(load_pair(row + of->sum)) / (double)count;
	long_exact(row + of->sum, &exact);
	return (double)(weir_exact_wide(&exact) / count);
}

/* ---- spreads ---- */

/* −1: small, 0: ordinary, 1: great. */
static int level_of(uint8_t flags)
{
	return flags & SPREAD_GREAT ? 1 : flags & SPREAD_SMALL ? -1 : 0;
}

static double scale_of(int level)
{
	return level > 0 ? 0x1p-600 : level < 0 ? 0x1p600 : 1;
}

/* Which one a distance needs; nothing needs none. */
static int level_needed(double a, double b)
{
	double half = fabs(a / 2 - b / 2); /* the whole may be beyond the greatest number */

	return a == b || half < 0x1p-451 ? -1 : half > 0x1p449 ? 1 : 0;
}

static struct spread spread_at(const struct spread *spread, int from, int to)
{
	struct spread scaled = *spread;

	for (; from < to; from++) {
		scaled.distances = pair_times(scaled.distances, 0x1p-600);
		scaled.squares = pair_times(pair_times(scaled.squares, 0x1p-600), 0x1p-600);
	}
	return scaled;
}

static struct pair distance_at(double value, double first, int level)
{
	double scale = scale_of(level);

	return value == first ? (struct pair){0, 0} : pair_add((struct pair){value * scale, 0}, -first * scale);
}

/* The row's own, where it has seen different values. */
static int level_at(const struct weir_accumulator *of, const uint8_t *row, const struct spread *spread)
{
	return spread->squares.high == 0 ? -1 : level_of(row[of->flags]);
}

static void level_set(const struct weir_accumulator *of, uint8_t *row, int level)
{
	row[of->flags] &= (uint8_t) ~(SPREAD_SMALL | SPREAD_GREAT);
	row[of->flags] |= level > 0 ? SPREAD_GREAT : level < 0 ? SPREAD_SMALL : 0;
}

static int greater(int a, int b)
{
	return a > b ? a : b;
}

void weir_real_spread_add(const struct weir_accumulator *of, uint8_t *row, double first, double value)
{
	uint8_t *at = row + of->squares + sizeof(first);
	struct spread spread = load_spread(at);
	int old = level_at(of, row, &spread), level;

	if (value == first)
		return;
	if (!isfinite(value) || !isfinite(first)) {
		spread_add(at, (struct pair){value - first, 0});
		return;
	}
	level = greater(old, level_needed(value, first));
	spread = spread_at(&spread, old, level);
	store_spread(at, &spread);
	level_set(of, row, level);
	spread_add(at, distance_at(value, first, level));
}

void weir_real_spread_merge(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from)
{
	uint8_t *at = to + of->squares + sizeof(double);
	struct spread mine = load_spread(at), more = load_spread(from + of->squares + sizeof(double));
	int old = level_at(of, to, &mine), other = level_at(of, from, &more), level;
	double a, b;

	memcpy(&a, to + of->squares, sizeof(a));
	memcpy(&b, from + of->squares, sizeof(b));
	level = greater(greater(old, other), isfinite(a) && isfinite(b) ? level_needed(b, a) : 0);
	mine = spread_at(&mine, old, level);
	more = spread_at(&more, other, level);
	store_spread(at, &mine);
	level_set(of, to, level);
	spread_merge(at, (const uint8_t *)&more, load_count(from + of->values), distance_at(b, a, level));
}
