/* Draws are what numpy.random.default_rng(words) gives, on every machine. */
#include "base/draws.h"
#include "support.h"

static void expect(const uint64_t *seeds, uint32_t count, const uint64_t raw[3], double first)
{
	struct weir_draws draws = weir_draws_of(seeds, count);

	for (int i = 0; i < 3; i++)
		assert_true(weir_draws_u64(&draws) == raw[i]);
	draws = weir_draws_of(seeds, count);
	assert_true(weir_draws_fraction(&draws) == first);
}

/* random_raw(3) and random() of NumPy 2.4. */
static void numpy_vectors(void **state)
{
	(void)state;
	expect((uint64_t[]){0, 42}, 2, (uint64_t[]){0xed3561031e6a036d, 0x11d49324572cd4a5, 0xe0c92768f6af4886},
	       0.9265957481970091);
	expect((uint64_t[]){3, 0}, 2, (uint64_t[]){0x15ed1a93cfbec2f8, 0x3c9f9d052defd3f5, 0xcd2052c72e6dec36},
	       0.08564916714362436);
	expect((uint64_t[]){7}, 1, (uint64_t[]){0xa00641a9f1e54a8b, 0xe5afcdbcaf266a95, 0xc693565f940af962},
	       0.625095466604667);
	expect((uint64_t[]){1, 2, 3}, 3, (uint64_t[]){0xaba411f8f6c9b990, 0x1c6b7489df5024fb, 0x82f2425c7e3229b3},
	       0.6704722626516632);
	expect((uint64_t[]){1099511627781, INT64_MAX}, 2,
	       (uint64_t[]){0xf0c01d327b7c1560, 0xaf2f7ea4a3fed6bd, 0xa25d9056752a62f2}, 0.9404314277885393);
	expect((uint64_t[]){1, 1ull << 33, 3, 1ull << 50}, 4,
	       (uint64_t[]){0xc8ad583ae03dbab9, 0x0bfa367686b09ab7, 0xec9cafd72abbe1cc}, 0.7838950294246761);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numpy_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
