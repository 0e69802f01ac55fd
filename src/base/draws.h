/* draws: a sequence of random numbers, fixed by definition: what numpy.random.default_rng(words).random() gives for the
 * same words.
 *
 * PCG64 (XSL-RR, 128 bits of state), seeded by NumPy's SeedSequence. A program that draws by NumPy and one that draws
 * here agree (test vectors in tests/c/base). Not for secrets. */
#ifndef WEIR_BASE_DRAWS_H
#define WEIR_BASE_DRAWS_H

#include <stdint.h>

enum { WEIR_DRAWS_SEEDS_MAX = 4 };

struct weir_draws {
	unsigned __int128 state, step; /* step is odd */
};

/* Of 1 to WEIR_DRAWS_SEEDS_MAX numbers. */
struct weir_draws weir_draws_of(const uint64_t *seeds, uint32_t seed_count);

static inline uint64_t weir_draws_u64(struct weir_draws *draws)
{
	const unsigned __int128 factor = (unsigned __int128)2549297995355413924u << 64 | 4865540595714422341u;
	uint64_t folded;
	unsigned turn;

	draws->state = draws->state * factor + draws->step;
	folded = (uint64_t)(draws->state >> 64) ^ (uint64_t)draws->state;
	turn = (unsigned)(draws->state >> 122);
	return folded >> turn | folded << (-turn & 63);
}

/* At least 0, below 1, of 53 bits. */
static inline double weir_draws_fraction(struct weir_draws *draws)
{
	return (double)(weir_draws_u64(draws) >> 11) * 0x1p-53;
}

#endif
