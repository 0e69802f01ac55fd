/* What accumulate.c and its results share: how numbers lie in rows. */
#ifndef WEIR_OPS_EXCHANGE_ACCUMULATE_IMPL_H
#define WEIR_OPS_EXCHANGE_ACCUMULATE_IMPL_H

#include "ops/exchange/accumulate.h"

#include <math.h>
#include <string.h>

/* The rows of a vector that have a value: where it is, and where it goes. */
struct weir_batch_rows {
	const struct weir_accumulator *of;
	const void *values;
	const uint32_t *at; /* NULL: value i is at i */
	uint8_t *const *to;
	uint32_t count;
};

static inline uint32_t weir_batch_at(const struct weir_batch_rows *batch, uint32_t i)
{
	return batch->at ? batch->at[i] : i;
}

/* accumulate_sketch.c */
int weir_sketches_init(struct weir_accumulators *all, struct weir_error *err);
int weir_sketches_push(const struct weir_accumulators *all, const struct weir_batch_rows *batch,
		       struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err);
int weir_sketches_merge(const struct weir_accumulators *all, uint8_t *to, const uint8_t *from,
			struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err);
int weir_sketches_take(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
		       const struct weir_type *type, const uint8_t *const *rows, uint32_t count,
		       struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
		       struct weir_error *err);

/* accumulate_take.c: the error of a row whose sum of decimals is too great. */
int weir_accumulators_overflow(const struct weir_accumulators *all, const struct weir_accumulator *of,
			       const uint8_t *row, struct weir_error *err);

/* accumulate_real.c: values that a group's row does not take as it is. heap may be NULL where the row has no value
 * yet. */
int weir_real_sum_add(const struct weir_accumulator *of, uint8_t *row, double value, struct weir_row_heap *heap,
		      struct weir_error *err);
int weir_real_sum_merge(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from, struct weir_row_heap *heap,
			struct weir_error *err);
double weir_real_sum(const struct weir_accumulator *of, const uint8_t *row);
double weir_real_mean(const struct weir_accumulator *of, const uint8_t *row, uint64_t count);
void weir_real_spread_add(const struct weir_accumulator *of, uint8_t *row, double first, double value);
void weir_real_spread_merge(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from);

/* Of a row and column. IS_LONG: what is in the sum's place, see struct pair; SPREAD_*: see struct spread. What the
 * first three say of two rows holds for both together. */
enum {
	HAS_VALUE = 1,
	HAS_NULL = 2,
	HAS_EXTREME = 4,
	IS_LONG = 8,
	SPREAD_SMALL = 16,
	SPREAD_GREAT = 32,
	FLAGS_SHARED = HAS_VALUE | HAS_NULL | HAS_EXTREME
};

static inline void add_count(uint8_t *to, uint64_t more)
{
	uint64_t value;

	memcpy(&value, to, sizeof(value));
	value += more;
	memcpy(to, &value, sizeof(value));
}

static inline uint64_t load_count(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline __int128 load_whole(const uint8_t *from)
{
	__int128 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void add_whole(uint8_t *to, __int128 more)
{
	__int128 value = load_whole(to) + more;

	memcpy(to, &value, sizeof(value));
}

/* 192 bits. */
static inline void add_squares(uint8_t *to, unsigned __int128 low, uint64_t high)
{
	unsigned __int128 value;

	memcpy(&value, to, sizeof(value));
	high += __builtin_add_overflow(value, low, &value);
	memcpy(to, &value, sizeof(value));
	add_count(to + 16, high);
}

/* A sum of doubles and what it has lost by rounding. Of a column's values the two together are the sum exactly. Where
 * two do not suffice the row has a cell's view of more of them instead (accumulate_real.c), and the flag IS_LONG. */
struct pair {
	double high, low;
};

static inline struct pair load_pair(const uint8_t *from)
{
	struct pair pair;

	memcpy(&pair.high, from, sizeof(pair.high));
	memcpy(&pair.low, from + sizeof(pair.high), sizeof(pair.low));
	return pair;
}

static inline void store_pair(uint8_t *to, struct pair pair)
{
	memcpy(to, &pair.high, sizeof(pair.high));
	memcpy(to + sizeof(pair.high), &pair.low, sizeof(pair.low));
}

/* Without a branch, exact whichever of the two is greater. */
static inline struct pair pair_add(struct pair pair, double value)
{
	double sum = pair.high + value, part = sum - pair.high;

	pair.low += (pair.high - (sum - part)) + (value - part);
	pair.high = sum;
	return pair;
}

/* The same without any loss; false: two doubles do not hold it, or it is not finite. */
static inline bool pair_add_exactly(struct pair *pair, double value)
{
	double sum = pair->high + value, part = sum - pair->high, lost = (pair->high - (sum - part)) + (value - part);
	double low = pair->low + lost;

	/* Each can be had back from the new one, which no NaN can. */
	if (__builtin_expect(!(low - pair->low == lost && low - lost == pair->low), 0))
		return false;
	*pair = (struct pair){sum, low};
	return true;
}

/* What the second has grown to beyond the first's last digit goes into the first, so that its own digits are not lost
 * either. */
static inline struct pair pair_add_pair(struct pair a, struct pair b)
{
	double high;

	a = pair_add(a, b.high);
	a.low += b.low;
	high = a.high + a.low;
	if (!isfinite(high))
		return a;
	a.low -= high - a.high;
	a.high = high;
	return a;
}

static inline struct pair pair_square(double value)
{
	double high = value * value;

	return (struct pair){high, fma(value, value, -high)};
}

static inline struct pair pair_times(struct pair a, double by)
{
	double high = a.high * by;

	return (struct pair){high, fma(a.high, by, -high) + a.low * by};
}

static inline struct pair pair_times_pair(struct pair a, struct pair b)
{
	struct pair product = pair_times(a, b.high);

	product.low += a.high * b.low;
	return product;
}

/* How far values are from each other, for std. Sums of squares of values that are all far from zero have lost what
 * tells them apart, so distances from one of the values, the first, are summed instead: as it is one of them, the
 * squares are at most as many times the result as there are values.
 *
 *     f64 or i256 first │ distances: f64 sum, what it has lost │ their squares: f64 sum, what it has lost
 *
 * Squares have twice the exponent. Where distances are so small or so great that theirs would leave the range of a
 * double, all of the row's are scaled by a power of two, as its flags say; those that vanish beside a great one are of
 * no account. */
static inline uint32_t weir_first_bytes(enum weir_summary_kind kind)
{
	return kind == WEIR_SUMMARY_DECIMAL ? 32 : 8;
}

struct spread {
	struct pair distances, squares;
};

static inline bool spread_is_ordinary(double distance)
{
	double size = fabs(distance);

	return (size >= 0x1p-450 && size <= 0x1p450) || size == 0;
}

static inline struct spread load_spread(const uint8_t *from)
{
	return (struct spread){load_pair(from), load_pair(from + sizeof(struct pair))};
}

static inline void store_spread(uint8_t *to, const struct spread *spread)
{
	store_pair(to, spread->distances);
	store_pair(to + sizeof(struct pair), spread->squares);
}

/* One more value. */
static inline void spread_add(uint8_t *to, struct pair distance)
{
	struct spread spread = load_spread(to);

	spread.distances = pair_add_pair(spread.distances, distance);
	spread.squares = pair_add_pair(spread.squares, pair_times_pair(distance, distance));
	store_spread(to, &spread);
}

/* Those of `count` values whose first is `apart` beyond the other's first. */
static inline void spread_merge(uint8_t *to, const uint8_t *from, uint64_t count, struct pair apart)
{
	struct spread spread = load_spread(to), more = load_spread(from);
	struct pair moved = pair_times(apart, (double)count), twice = pair_times(more.distances, 2);

	spread.squares = pair_add_pair(spread.squares, more.squares);
	spread.squares = pair_add_pair(spread.squares, pair_times_pair(apart, pair_add_pair(twice, moved)));
	spread.distances = pair_add_pair(spread.distances, pair_add_pair(more.distances, moved));
	store_spread(to, &spread);
}

/* What is not finite has no loss worth knowing. */
static inline double pair_value(struct pair pair)
{
	return isfinite(pair.high) ? pair.high + pair.low : pair.high;
}

#endif
