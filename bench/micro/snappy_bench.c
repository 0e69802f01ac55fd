/* weir_micro_snappy: our Snappy decoder beside the library's, on what pages of Parquet files hold. GB/s inflated. */
#include "base/clock.h"
#include "io/snappy.h"

#include <snappy-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1 << 20, ROUNDS = 25 };

static uint64_t state = 1;

static uint64_t random_next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	return z ^ z >> 31;
}

static void keys(uint8_t *out)
{
	for (uint64_t i = 0; i < SIZE / 8; i++) {
		uint64_t value = i * 3 + random_next() % 3;

		memcpy(out + i * 8, &value, 8);
	}
}

static void prices(uint8_t *out)
{
	for (uint64_t i = 0; i < SIZE / 8; i++) {
		double value = (double)(random_next() % 10500000) / 100;

		memcpy(out + i * 8, &value, 8);
	}
}

static void small(uint8_t *out)
{
	for (uint64_t i = 0; i < SIZE / 8; i++) {
		uint64_t value = random_next() % 50;

		memcpy(out + i * 8, &value, 8);
	}
}

static void texts(uint8_t *out)
{
	char text[64];

	for (size_t at = 0, i = 0; at < SIZE; i++) {
		uint32_t length = (uint32_t)snprintf(text, sizeof(text), "comment %zu about %zu things", i,
						     i * 7919 % 1000003);
		size_t some = SIZE - at < 4 + length ? SIZE - at : 4 + length;

		memmove(text + 4, text, length);
		memcpy(text, &length, 4);
		memcpy(out + at, text, some);
		at += some;
	}
}

int main(void)
{
	static const struct {
		const char *name;
		void (*fill)(uint8_t *);
	} kinds[] = {{"ascending keys", keys}, {"prices", prices}, {"small integers", small}, {"texts", texts}};
	uint8_t *data = malloc(SIZE), *out = malloc(SIZE);
	char *in = malloc(snappy_max_compressed_length(SIZE));

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t length = snappy_max_compressed_length(SIZE);
		uint64_t ours = UINT64_MAX, theirs = UINT64_MAX;

		kinds[k].fill(data);
		if (snappy_compress((const char *)data, SIZE, in, &length) != SNAPPY_OK)
			return 1;
		for (int round = 0; round < ROUNDS; round++) {
			size_t size = SIZE;
			uint64_t begin = weir_clock_ns(), middle, end;

			if (!weir_snappy_inflate((const uint8_t *)in, length, out, SIZE))
				return 1;
			middle = weir_clock_ns();
			if (snappy_uncompress(in, length, (char *)out, &size) != SNAPPY_OK)
				return 1;
			end = weir_clock_ns();
			ours = middle - begin < ours ? middle - begin : ours;
			theirs = end - middle < theirs ? end - middle : theirs;
		}
		if (memcmp(out, data, SIZE) != 0)
			return 1;
		printf("%-16s ours %6.2f GB/s   library %6.2f GB/s   × %.2f\n", kinds[k].name,
		       (double)SIZE / (double)ours, (double)SIZE / (double)theirs, (double)theirs / (double)ours);
	}
	free(data);
	free(out);
	free(in);
	return 0;
}
