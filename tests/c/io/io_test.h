/* What the io tests share: a session's memory that must be all given back, seeded random bytes, scratch folders. */
#ifndef WEIR_IO_TEST_H
#define WEIR_IO_TEST_H

#include "base/mem.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_error error;
};

static inline int fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_int_equal(weir_mem_new(0, &fixture->mem, &fixture->error), WEIR_OK);
	fixture->account = weir_mem_root(fixture->mem);
	*state = fixture;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fixture->account->used, 0);
	weir_mem_free(fixture->mem);
	free(fixture);
	return 0;
}

#define assert_ok(fixture, call)                                                                                       \
	do {                                                                                                           \
		if ((call) != WEIR_OK) {                                                                               \
			char line[2048];                                                                               \
			fail_msg("%s: %s", #call, weir_error_format(&(fixture)->error, line, sizeof(line)));           \
		}                                                                                                      \
	} while (0)

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* WEIR_TEST_SEED replays a printed seed. */
static inline uint64_t test_seed(uint64_t otherwise)
{
	const char *text = getenv("WEIR_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : otherwise;

	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}

static inline int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat, (void)type, (void)ftw;
	return remove(path);
}

static inline void remove_all(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
