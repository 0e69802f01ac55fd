/* Our Snappy decoder against the library: what one takes the other takes, with the same bytes, for data that the
 * library made and for every change and cut of it. Buffers are of exact size, so that the sanitizers see a step
 * outside. */
#include "io/snappy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <snappy-c.h>

#include "random.h"

/* Data with repeats at all distances: bytes at random, or copies of what came before. */
static void fill(uint8_t *out, size_t size, uint32_t kind)
{
	size_t at = 0;

	while (at < size) {
		size_t length = 1 + random_next() % (kind % 3 == 0 ? 8 : 90), offset;

		length = length < size - at ? length : size - at;
		if (at == 0 || random_next() % 4 < kind % 4) {
			for (size_t i = 0; i < length; i++)
				out[at + i] = (uint8_t)(kind & 8 ? random_next() % 3 : random_next());
		} else {
			offset = 1 + random_next() % (kind & 4 ? (at < 20 ? at : 20) : at);
			for (size_t i = 0; i < length; i++)
				out[at + i] = out[at + i - offset];
		}
		at += length;
	}
}

/* Both decoders on the same bytes. */
static bool agree(const uint8_t *in, size_t size_in, size_t size_out)
{
	uint8_t *exact = malloc(size_in ? size_in : 1), *ours = malloc(size_out ? size_out : 1),
		*theirs = malloc(size_out ? size_out : 1);
	size_t length = 0, announced = size_out;
	bool is_ours, is_theirs;

	memcpy(exact, in, size_in);
	is_ours = weir_snappy_inflate(exact, size_in, ours, size_out);
	is_theirs = snappy_uncompressed_length((const char *)exact, size_in, &length) == SNAPPY_OK &&
		    length == size_out &&
		    snappy_uncompress((const char *)exact, size_in, (char *)theirs, &announced) == SNAPPY_OK;
	assert_int_equal(is_ours, is_theirs);
	if (is_ours)
		assert_memory_equal(ours, theirs, size_out);
	free(exact);
	free(ours);
	free(theirs);
	return is_ours;
}

static size_t compressed(const uint8_t *data, size_t size, uint8_t **out)
{
	size_t length = snappy_max_compressed_length(size);

	*out = malloc(length);
	assert_int_equal(snappy_compress((const char *)data, size, (char *)*out, &length), SNAPPY_OK);
	return length;
}

static void test_what_the_library_made(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 400; round++) {
		size_t size = round < 100 ? round : random_next() % (round % 7 == 0 ? 300000 : 3000), length;
		uint8_t *data = malloc(size + 1), *in, *out = malloc(size + 1);

		fill(data, size, round);
		length = compressed(data, size, &in);
		assert_true(agree(in, length, size));
		assert_true(weir_snappy_inflate(in, length, out, size));
		assert_memory_equal(out, data, size);
		free(data);
		free(in);
		free(out);
	}
}

static void test_every_change_and_cut(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		size_t size = 50 + random_next() % 700, length;
		uint8_t *data = malloc(size), *in;

		fill(data, size, round);
		length = compressed(data, size, &in);
		for (size_t at = 0; at < length; at++) {
			for (uint32_t bit = 0; bit < 8; bit++) {
				in[at] ^= (uint8_t)(1u << bit);
				agree(in, length, size);
				in[at] ^= (uint8_t)(1u << bit);
			}
			agree(in, at, size);
		}
		agree(in, length, size - 1);
		agree(in, length, size + 1);
		free(data);
		free(in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_library_made),
		cmocka_unit_test(test_every_change_and_cut),
	};

	random_state = 42;
	return cmocka_run_group_tests_name("snappy", tests, NULL, NULL);
}
