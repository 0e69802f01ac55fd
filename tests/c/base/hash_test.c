/* Hashes are what their definitions say, on every machine: published vectors, and a slow CRC written from its
 * definition. */
#include "base/hash.h"
#include "base/base_impl.h"
#include "support.h"

/* Bit by bit, as RFC 3720 defines it. */
static uint32_t crc_by_bits(uint32_t crc, const unsigned char *bytes, size_t size)
{
	crc = ~crc;
	while (size--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

static void crc_vectors(void **state)
{
	unsigned char bytes[32];

	(void)state;
	/* RFC 3720, appendix B.4 */
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(weir_crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(weir_crc32c(0, bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char)i;
	assert_int_equal(weir_crc32c(0, bytes, 32), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char)(31 - i);
	assert_int_equal(weir_crc32c(0, bytes, 32), 0x113fdb5c);
	assert_int_equal(weir_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(weir_crc32c(0, "", 0), 0);
	assert_int_equal(weir_crc32c_plain(0, "123456789", 9), 0xe3069283);
}

static void crc_of_every_length_start_and_split(void **state)
{
	enum { SIZE = 60000 };
	unsigned char *bytes = malloc(SIZE);
	struct random random = random_seeded(6);

	(void)state;
	for (int i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)random_next(&random);
	for (size_t size = 0; size < 400; size++)
		for (size_t start = 0; start < 9; start++)
			assert_int_equal(weir_crc32c(0, bytes + start, size), crc_by_bits(0, bytes + start, size));
	for (int round = 0; round < 300; round++) {
		size_t start = random_below(&random, SIZE), size = random_below(&random, SIZE - start);
		size_t half = size > 0 ? random_below(&random, size) : 0;
		uint32_t first = (uint32_t)random_next(&random), whole = crc_by_bits(first, bytes + start, size);

		assert_int_equal(weir_crc32c(first, bytes + start, size), whole);
		assert_int_equal(weir_crc32c_plain(first, bytes + start, size), whole);
		assert_int_equal(
			weir_crc32c(weir_crc32c(first, bytes + start, half), bytes + start + half, size - half), whole);
	}
	free(bytes);
}

/* The sanity buffer and results of the reference implementation's own tests: a generator of bytes, XXH3 with 64
 * bits. */
static void xxh3_vectors(void **state)
{
	static const struct {
		size_t size;
		uint64_t seed, hash;
	} cases[] = {
		{0, 0x0u, 0x2d06800538d394c2u},    {0, 0x9e3779b185ebca8du, 0xa8a6b918b2f0364au},
		{1, 0x0u, 0xc44bdff4074eecdbu},    {1, 0x9e3779b185ebca8du, 0x032be332dd766ef8u},
		{6, 0x0u, 0x27b56a84cd2d7325u},    {6, 0x9e3779b185ebca8du, 0x84589c116ab59ab9u},
		{12, 0x0u, 0xa713daf0dfbb77e7u},   {12, 0x9e3779b185ebca8du, 0xe7303e1b2336de0eu},
		{24, 0x0u, 0xa3fe70bf9d3510ebu},   {24, 0x9e3779b185ebca8du, 0x850e80fc35bdd690u},
		{48, 0x0u, 0x397da259ecba1f11u},   {48, 0x9e3779b185ebca8du, 0xadc2cbaa44acc616u},
		{80, 0x0u, 0xbcdefbbb2c47c90au},   {80, 0x9e3779b185ebca8du, 0xc6dd0cb699532e73u},
		{195, 0x0u, 0xcd94217ee362ec3au},  {195, 0x9e3779b185ebca8du, 0xba68003d370cb3d9u},
		{403, 0x0u, 0xcdeb804d65c6dea4u},  {403, 0x9e3779b185ebca8du, 0x6259f6ecfd6443fdu},
		{512, 0x0u, 0x617e49599013cb6bu},  {512, 0x9e3779b185ebca8du, 0x3ce457de14c27708u},
		{2048, 0x0u, 0xdd59e2c3a5f038e0u}, {2048, 0x9e3779b185ebca8du, 0x66f81670669ababcu},
		{2240, 0x0u, 0x6e73a90539cf2948u}, {2240, 0x9e3779b185ebca8du, 0x757ba8487d1b5247u},
	};
	unsigned char bytes[2400];
	uint64_t generator = 2654435761u;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (unsigned char)(generator >> 56);
		generator *= 11400714785074694797u;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(weir_hash_bytes(bytes, cases[i].size, cases[i].seed) == cases[i].hash);
}

static void hash_u64_is_fixed_and_invertible(void **state)
{
	struct random random = random_seeded(7);

	(void)state;
	assert_true(weir_hash_u64(0) == 0);
	assert_true(weir_hash_u64(0x1u) == 0x4179b061e0c0e0d0u);
	assert_true(weir_hash_u64(0x2u) == 0x1c9963305febc252u);
	assert_true(weir_hash_u64(0xffffffffu) == 0x41c6aec41b1456d1u);
	assert_true(weir_hash_u64(0x123456789abcdef0u) == 0x47761187079081a9u);
	assert_true(weir_hash_u64(0xffffffffffffffffu) == 0x448e29ced4103459u);
	/* The steps back: a xor with its own upper half undoes itself, the product by the inverse modulo 2^64. */
	for (int i = 0; i < 10000; i++) {
		uint64_t value = random_next(&random), hash = weir_hash_u64(value);

		for (int round = 0; round < 2; round++) {
			hash ^= hash >> 32;
			hash *= 0xcfee444d8b59a89bu;
		}
		assert_true((hash ^ hash >> 32) == value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_vectors),
		cmocka_unit_test(crc_of_every_length_start_and_split),
		cmocka_unit_test(xxh3_vectors),
		cmocka_unit_test(hash_u64_is_fixed_and_invertible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
