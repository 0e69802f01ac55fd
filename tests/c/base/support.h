/* What the tests of this folder share: cmocka with the headers it wants, and random numbers that come again. */
#ifndef WEIR_TESTS_BASE_SUPPORT_H
#define WEIR_TESTS_BASE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* splitmix64: small, and the same on every machine. */
struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline size_t random_below(struct random *random, size_t n)
{
	return (size_t)(random_next(random) % n);
}

/* WEIR_SEED replays one; otherwise the given one is used. Printed, so that a failure can be run again. */
static inline struct random random_seeded(uint64_t seed)
{
	const char *wanted = getenv("WEIR_SEED");

	if (wanted)
		seed = strtoull(wanted, NULL, 0);
	printf("seed %llu (WEIR_SEED replays it)\n", (unsigned long long)seed);
	return (struct random){.state = seed};
}

#endif
