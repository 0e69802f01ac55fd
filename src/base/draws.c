/* SeedSequence: the words of all seeds are mixed into a pool of four, and the pool is drawn out to the state and the
 * step. The constants are part of the definition. */
#include "base/draws.h"
#include "base/error.h"

enum { POOL = 4, WORDS_MAX = 2 * WEIR_DRAWS_SEEDS_MAX };

static uint32_t hashed(uint32_t value, uint32_t *constant, uint32_t factor)
{
	value ^= *constant;
	*constant *= factor;
	value *= *constant;
	return value ^ value >> 16;
}

static uint32_t mixed(uint32_t a, uint32_t b)
{
	uint32_t value = 0xca01f9ddu * a - 0x4973f715u * b;

	return value ^ value >> 16;
}

static unsigned __int128 two(const uint32_t *words)
{
	uint64_t high = (uint64_t)words[1] << 32 | words[0], low = (uint64_t)words[3] << 32 | words[2];

	return (unsigned __int128)high << 64 | low;
}

struct weir_draws weir_draws_of(const uint64_t *seeds, uint32_t seed_count)
{
	const uint32_t factor = 0x931e8875u, factor_out = 0x58f38dedu;
	uint32_t words[WORDS_MAX] = {0}, pool[POOL], made[2 * POOL], constant = 0x43b0d7e5u, count = 0;
	struct weir_draws draws = {0};

	WEIR_ASSERT(seed_count > 0 && seed_count <= WEIR_DRAWS_SEEDS_MAX);
	for (uint32_t i = 0; i < seed_count; i++) { /* as many words as each needs */
		words[count++] = (uint32_t)seeds[i];
		if (seeds[i] >> 32)
			words[count++] = (uint32_t)(seeds[i] >> 32);
	}
	for (uint32_t i = 0; i < POOL; i++)
		pool[i] = hashed(words[i], &constant, factor);
	for (uint32_t from = 0; from < POOL; from++)
		for (uint32_t to = 0; to < POOL; to++)
			if (from != to)
				pool[to] = mixed(pool[to], hashed(pool[from], &constant, factor));
	for (uint32_t from = POOL; from < count; from++)
		for (uint32_t to = 0; to < POOL; to++)
			pool[to] = mixed(pool[to], hashed(words[from], &constant, factor));
	constant = 0x8b51f9ddu;
	for (uint32_t i = 0; i < 2 * POOL; i++)
		made[i] = hashed(pool[i % POOL], &constant, factor_out);
	draws.step = two(made + POOL) << 1 | 1;
	weir_draws_u64(&draws);
	draws.state += two(made);
	weir_draws_u64(&draws);
	return draws;
}
