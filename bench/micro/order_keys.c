/* weir_micro_order: what putting keys in order costs, in ns a key, for as many as a run has (2^18) and as a merge has
 * at once (2^13). The network in src/ops/exchange/kernels_order.c is there because of what this prints with WEIR_CPU=v3
 * and v4. Least of many rounds; run it on an idle machine. */
#include "base/clock.h"
#include "base/cpu.h"
#include "ops/exchange/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* all of which are different: the processor learns what it sees again and again */
enum { ROUNDS = 20, KEYS = 1 << 18 };

static uint64_t seed = 88172645463325252u;

static uint64_t random_u64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* About as Zipf's law has it for an exponent of 1.2. */
static uint64_t heavy_tailed(void)
{
	double chance = (double)(random_u64() >> 11 | 1) * 0x1p-53, value = pow(chance, -5);

	return value < 0x1p40 ? (uint64_t)value : (uint64_t)1 << 40;
}

static uint64_t of_kind(int kind)
{
	return kind == 0 ? random_u64() : kind == 1 ? heavy_tailed() : random_u64() % 10 ? 7 : random_u64() % 1000;
}

static void check(int code, const struct weir_error *err)
{
	if (!code)
		return;
	fprintf(stderr, "%s\n", err->message);
	exit(1);
}

struct measured {
	struct weir_key_list *keys; /* lists of `count` each */
	struct weir_windowed *items;
	uint64_t *places;
	uint32_t *rows;
	size_t count;
};

static double least_ns(const struct measured *measured, struct weir_account *account, bool are_keys)
{
	uint64_t best = UINT64_MAX;
	struct weir_error err = {0};

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = weir_clock_ns(), took;

		for (size_t i = 0; i < KEYS / measured->count; i++) {
			if (are_keys)
				check(weir_key_order(&measured->keys[i], account, measured->rows, &err), &err);
			else
				weir_windows_order(measured->items + i * measured->count, measured->places,
						   measured->places + measured->count, measured->count);
		}
		took = weir_clock_ns() - begin;
		best = took < best ? took : best;
	}
	return (double)best / KEYS;
}

static void measure(struct weir_account *account, const char *name, int kind, size_t count)
{
	struct measured measured = {
		.keys = calloc(KEYS / count, sizeof(*measured.keys)),
		.items = calloc(KEYS, sizeof(*measured.items)),
		.places = calloc(2 * count, sizeof(*measured.places)),
		.rows = calloc(count, sizeof(*measured.rows)),
		.count = count,
	};
	struct weir_error err = {0};

	for (size_t i = 0; i < KEYS; i++) {
		struct weir_key_list *keys = &measured.keys[i / count];
		uint64_t number = of_kind(kind), swapped = __builtin_bswap64(number);
		uint8_t key[9] = {1};

		if (i % count == 0)
			weir_key_list_init(keys, account, sizeof(key));
		__builtin_memcpy(key + 1, &swapped, sizeof(swapped));
		check(weir_key_list_append(keys, key, sizeof(key), &err), &err);
		measured.items[i] = (struct weir_windowed){.window = number, .row = (uint32_t)i};
	}
	printf("%-12s %7zu: %6.2f ns a key, %6.2f a window\n", name, count, least_ns(&measured, account, true),
	       least_ns(&measured, account, false));
	for (size_t i = 0; i < KEYS / count; i++)
		weir_key_list_release(&measured.keys[i]);
	free(measured.keys);
	free(measured.items);
	free(measured.places);
	free(measured.rows);
}

int main(void)
{
	static const char *const names[] = {"random", "heavy tail", "one heavy"};
	struct weir_mem *mem;
	struct weir_error err = {0};

	check(weir_mem_new(0, &mem, &err), &err);
	printf("%s\n", weir_cpu_name(weir_cpu_level()));
	for (int kind = 0; kind < 3; kind++) {
		measure(weir_mem_root(mem), names[kind], kind, 1 << 18);
		measure(weir_mem_root(mem), names[kind], kind, 1 << 13);
		measure(weir_mem_root(mem), names[kind], kind, 1 << 9);
	}
	weir_mem_free(mem);
	return 0;
}
