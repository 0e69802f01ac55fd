/* weir_micro_number: numbers and times as text and back, nanoseconds each and MB/s of text, beside the C library. */
#include "base/clock.h"
#include "base/number.h"
#include "base/timetext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 18, WIDTH = 40, ROUNDS = 8 };

static uint64_t state = 1;

static uint64_t random_next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	return z ^ z >> 31;
}

static double price(void)
{
	return (double)(random_next() % 10000000) / 100;
}

static double place(void)
{
	return (double)(random_next() % 360000000) / 1e6;
}

static double share(void)
{
	return (double)(random_next() >> 11) * 0x1p-53;
}

static double any_bits(void)
{
	uint64_t bits = random_next() & 0x7fefffffffffffffu;
	double value;

	memcpy(&value, &bits, 8);
	return value;
}

static void report(const char *what, const char *how, int64_t ns, uint64_t bytes)
{
	printf("%-8s %-12s %6.1f ns %8.0f MB/s\n", what, how, (double)ns / ROUNDS / COUNT,
	       (double)bytes * ROUNDS * 1000 / (double)ns);
}

static void doubles(const char *name, double (*make)(void), double *values, char *texts, uint8_t *sizes)
{
	uint64_t bytes = 0;
	double sum = 0;
	char buffer[WEIR_NUMBER_TEXT_MAX];
	int64_t begin;

	for (uint32_t i = 0; i < COUNT; i++) {
		values[i] = make();
		sizes[i] = (uint8_t)weir_format_double(values[i], texts + i * WIDTH);
		texts[i * WIDTH + sizes[i]] = 0;
		bytes += sizes[i];
	}
	begin = (int64_t)weir_clock_thread_cpu_ns();
	for (uint32_t i = 0; i < ROUNDS * COUNT; i++)
		sum += (double)weir_format_double(values[i % COUNT], buffer);
	report(name, "print", (int64_t)weir_clock_thread_cpu_ns() - begin, bytes);
	begin = (int64_t)weir_clock_thread_cpu_ns();
	for (uint32_t i = 0; i < ROUNDS * COUNT; i++) {
		uint32_t at = i % COUNT;
		double value = 0;

		if (!weir_parse_double_short(texts + at * WIDTH, sizes[at], '.', &value))
			weir_parse_double(texts + at * WIDTH, sizes[at], WEIR_NUMBER_PYTHON, &value);
		sum += value;
	}
	report(name, "parse", (int64_t)weir_clock_thread_cpu_ns() - begin, bytes);
	begin = (int64_t)weir_clock_thread_cpu_ns();
	for (uint32_t i = 0; i < COUNT; i++)
		sum += strtod(texts + i * WIDTH, NULL);
	report(name, "strtod", ((int64_t)weir_clock_thread_cpu_ns() - begin) * ROUNDS, bytes);
	if (sum == 1)
		puts("");
}

static void timestamps(char *texts)
{
	char buffer[WEIR_TIME_TEXT_MAX];
	uint64_t sum = 0;
	int64_t begin = (int64_t)weir_clock_thread_cpu_ns();

	for (uint32_t i = 0; i < ROUNDS * COUNT; i++)
		sum += weir_format_timestamp((int64_t)i * 1234567891, 6, ' ', buffer);
	report("time", "print", (int64_t)weir_clock_thread_cpu_ns() - begin, 26 * COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		weir_format_timestamp((int64_t)(random_next() >> 14), 6, ' ', texts + i * WIDTH);
	begin = (int64_t)weir_clock_thread_cpu_ns();
	for (uint32_t i = 0; i < ROUNDS * COUNT; i++) {
		struct weir_timestamp_text found;
		int64_t units = 0;

		if (weir_scan_timestamp(texts + i % COUNT * WIDTH, 26, &found))
			weir_timestamp_units(&found, 6, &units);
		sum += (uint64_t)units;
	}
	report("time", "parse", (int64_t)weir_clock_thread_cpu_ns() - begin, 26 * COUNT);
	if (sum == 1)
		puts("");
}

int main(void)
{
	double *values = malloc(COUNT * sizeof(*values));
	char *texts = calloc(COUNT, WIDTH);
	uint8_t *sizes = malloc(COUNT);

	if (!values || !texts || !sizes)
		return 1;
	doubles("price", price, values, texts, sizes);
	doubles("place", place, values, texts, sizes);
	doubles("share", share, values, texts, sizes);
	doubles("any", any_bits, values, texts, sizes);
	timestamps(texts);
	free(values);
	free(texts);
	free(sizes);
	return 0;
}
