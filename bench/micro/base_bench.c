/* weir_micro_base: what base/ costs, in ns a call or GB/s. Run by hand on an idle machine: each figure is the best of
 * some rounds, since everything that disturbs a round only makes it longer. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, TEXT_SIZE = 1 << 20 };

static struct weir_mem *mem;
static struct weir_account lane, operator;
static volatile uint64_t sink;
static unsigned char *bytes;
static size_t bytes_size = TEXT_SIZE;

/* Nanoseconds of one of `count` calls, in the best round. */
static double best_ns(void (*body)(size_t count), size_t count)
{
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = weir_clock_ns(), took;

		body(count);
		took = weir_clock_ns() - begin;
		best = took < best ? took : best;
	}
	return (double)best / (double)count;
}

static void per_call(const char *name, void (*body)(size_t), size_t count)
{
	printf("%-44s %10.1f ns\n", name, best_ns(body, count));
}

static void per_byte(const char *name, void (*body)(size_t), size_t count)
{
	printf("%-44s %10.2f GB/s\n", name, (double)bytes_size / best_ns(body, count));
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static size_t frame_size, small_size;

static void frame_warm(size_t count)
{
	struct weir_error err;

	while (count--) {
		char *frame = must(weir_alloc(&operator, frame_size, &err));

		frame[0] = 1;
		weir_free(&operator, frame, frame_size);
	}
}

/* Every page is touched, as someone who decodes into it does. */
static void take_and_touch(struct weir_account *account)
{
	struct weir_error err;
	char *frame = must(weir_alloc(account, frame_size, &err));

	for (size_t at = 0; at < frame_size; at += 4096)
		((volatile char *)frame)[at] = 1;
	weir_free(account, frame, frame_size);
}

static void frame_touched_warm(size_t count)
{
	while (count--)
		take_and_touch(&operator);
}

/* A session of its own has nothing warm. */
static void frame_touched_fresh(size_t count)
{
	struct weir_error err;

	while (count--) {
		struct weir_mem *fresh;

		if (weir_mem_new(0, &fresh, &err))
			abort();
		take_and_touch(weir_mem_root(fresh));
		weir_mem_free(fresh);
	}
}

static void frame_grow(size_t count)
{
	struct weir_error err;

	while (count--) {
		size_t size = frame_size;
		char *frame = must(weir_alloc(&operator, size, &err));

		for (; size < 16 * frame_size; size *= 2)
			frame = must(weir_realloc(&operator, frame, size, 2 * size, &err));
		weir_free(&operator, frame, size);
	}
}

static void small(size_t count)
{
	struct weir_error err;

	while (count--) {
		char *memory = must(weir_alloc(&operator, small_size, &err));

		memory[0] = 1;
		weir_free(&operator, memory, small_size);
	}
}

static void small_malloc(size_t count)
{
	while (count--) {
		char *memory = must(malloc(small_size));

		((volatile char *)memory)[0] = 1;
		free(memory);
	}
}

static void arena(size_t count)
{
	struct weir_arena things;
	struct weir_error err;

	weir_arena_init(&things, &operator);
	while (count--)
		*(char *)must(weir_arena_alloc(&things, small_size, &err)) = 1;
	weir_arena_release(&things);
}

static void crc(size_t count)
{
	while (count--)
		sink += weir_crc32c(0, bytes, bytes_size);
}

static void hash(size_t count)
{
	while (count--)
		sink += weir_hash_bytes(bytes, bytes_size, 0);
}

static void utf8(size_t count)
{
	while (count--)
		sink += weir_utf8_valid_prefix(bytes, bytes_size);
}

static void utf8_count(size_t count)
{
	while (count--)
		sink += weir_utf8_length(bytes, bytes_size);
}

/* Repeats `sample` to fill the text, whole characters only. */
static void fill_text(const char *sample)
{
	size_t size = strlen(sample);

	for (bytes_size = 0; bytes_size + size <= TEXT_SIZE; bytes_size += size)
		memcpy(bytes + bytes_size, sample, size);
}

int main(void)
{
	static const size_t frame_sizes[] = {(size_t)64 << 10, (size_t)1 << 20, (size_t)4 << 20};
	static const size_t small_sizes[] = {16, 64, 1024, 16384};
	struct weir_error err;
	char name[64];

	if (weir_mem_new(0, &mem, &err)) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	weir_account_init(&lane, weir_mem_root(mem), "lane");
	weir_account_init(&operator, & lane, "operator");
	bytes = must(weir_alloc(&operator, TEXT_SIZE, &err));

	for (size_t i = 0; i < sizeof(frame_sizes) / sizeof(frame_sizes[0]); i++) {
		frame_size = frame_sizes[i];
		snprintf(name, sizeof(name), "frame of %zu KiB, warm: alloc + free", frame_size >> 10);
		per_call(name, frame_warm, 100000);
		snprintf(name, sizeof(name), "… each page touched");
		per_call(name, frame_touched_warm, 1000);
		snprintf(name, sizeof(name), "… fresh, each page touched");
		per_call(name, frame_touched_fresh, 100);
	}
	frame_size = (size_t)64 << 10;
	per_call("64 KiB doubled to 1 MiB, warm", frame_grow, 1000);
	for (size_t i = 0; i < sizeof(small_sizes) / sizeof(small_sizes[0]); i++) {
		small_size = small_sizes[i];
		snprintf(name, sizeof(name), "weir_alloc + weir_free of %zu", small_size);
		per_call(name, small, 200000);
		per_call("… malloc + free", small_malloc, 200000);
	}
	small_size = 48;
	per_call("weir_arena_alloc of 48", arena, 200000);

	for (size_t i = 0; i < TEXT_SIZE; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 24);
	per_byte("crc32c, 1 MiB", crc, 200);
	bytes_size = 4096;
	per_byte("crc32c, 4 KiB", crc, 20000);
	bytes_size = 64;
	per_byte("crc32c, 64 B", crc, 200000);
	bytes_size = TEXT_SIZE;
	per_byte("xxh3, 1 MiB", hash, 200);

	fill_text("plain text without any surprise in it, ");
	per_byte("utf8 valid, ASCII, 1 MiB", utf8, 200);
	bytes_size = 16;
	per_byte("utf8 valid, ASCII, 16 B", utf8, 200000);
	fill_text(
		"a longer piece of plain text in which one name has an accent, namely that of Ms. Andrée Müller, once a "
		"line; all the rest of it is as plain as plain text can be, and goes on for a while before the next ");
	per_byte("utf8 valid, English with names", utf8, 20);
	fill_text("Größe und Straße in München, für übermäßig viele Gäste; ");
	per_byte("utf8 valid, German", utf8, 20);
	fill_text("Съешь же ещё этих мягких французских булок ");
	per_byte("utf8 valid, Russian", utf8, 20);
	fill_text("我能吞下玻璃而不伤身体。");
	per_byte("utf8 valid, Chinese", utf8, 20);
	fill_text("😀 ok 𝄞 ");
	per_byte("utf8 valid, emoji", utf8, 20);
	per_byte("utf8 length", utf8_count, 200);

	bytes_size = TEXT_SIZE;
	weir_free(&operator, bytes, TEXT_SIZE);
	weir_account_release(&operator);
	weir_account_release(&lane);
	weir_mem_free(mem);
	return 0;
}
