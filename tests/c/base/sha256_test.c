/* SHA-256 against the examples that NIST has published for FIPS 180-4, and around the ends of a block. */
#include "base/sha256.h"
#include "support.h"

static void expect(const void *bytes, size_t size, const char *hex)
{
	uint32_t digest[8];
	char text[65];

	weir_sha256(bytes, size, digest);
	for (int i = 0; i < 8; i++)
		snprintf(text + 8 * i, 9, "%08x", (unsigned)digest[i]);
	assert_string_equal(text, hex);
}

static void published(void **state)
{
	static const char two_blocks[] =
		"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
		"lmnopqrsmnopqrstnopqrstu";

	(void)state;
	expect("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	expect(two_blocks, 112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
	expect("\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
	expect("\xc9\x8c\x8e\x55", 4, "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}

static void a_million(void **state)
{
	enum { SIZE = 1000000 };
	char *bytes = malloc(SIZE);

	(void)state;
	memset(bytes, 'a', SIZE);
	expect(bytes, SIZE, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(bytes);
}

/* Where the length still fits into the last block, and where it needs one more. */
static void zeros_around_a_block(void **state)
{
	static const uint8_t zeros[64];

	(void)state;
	expect(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
	expect(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
	expect(zeros, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
	expect(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published),
		cmocka_unit_test(a_million),
		cmocka_unit_test(zeros_around_a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
