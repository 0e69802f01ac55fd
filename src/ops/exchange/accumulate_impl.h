/* What accumulate.c and its results share: how numbers lie in rows. */
#ifndef WEIR_OPS_EXCHANGE_ACCUMULATE_IMPL_H
#define WEIR_OPS_EXCHANGE_ACCUMULATE_IMPL_H

#include "ops/exchange/accumulate.h"

#include <math.h>
#include <string.h>

enum { HAS_VALUE = 1, HAS_NULL = 2, HAS_EXTREME = 4 };

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

/* A sum of doubles and what it has lost by rounding. */
struct pair {
	double high, low;
};

static inline struct pair load_pair(const uint8_t *from)
{
	struct pair pair;

	memcpy(&pair, from, sizeof(pair));
	return pair;
}

static inline void store_pair(uint8_t *to, struct pair pair)
{
	memcpy(to, &pair, sizeof(pair));
}

/* Without a branch, exact whichever of the two is greater. */
static inline struct pair pair_add(struct pair pair, double value)
{
	double sum = pair.high + value, part = sum - pair.high;

	pair.low += (pair.high - (sum - part)) + (value - part);
	pair.high = sum;
	return pair;
}

static inline struct pair pair_add_pair(struct pair a, struct pair b)
{
	a = pair_add(a, b.high);
	a.low += b.low;
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

/* What is not finite has no loss worth knowing. */
static inline double pair_value(struct pair pair)
{
	return isfinite(pair.high) ? pair.high + pair.low : pair.high;
}

#endif
