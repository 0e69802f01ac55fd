/* Accounts add up after every operation, memory keeps its bytes, grants are asked before they are passed, the limit
 * holds, and a refusal at any point leaves everything as it was. */
#include "base/mem.h"
#include "base/arena.h"
#include "base/base_impl.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/text.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>

static struct weir_mem *mem_of(int64_t limit)
{
	struct weir_error err;
	struct weir_mem *mem;

	assert_int_equal(weir_mem_new(limit, &mem, &err), WEIR_OK);
	return mem;
}

static struct weir_mem_stats stats_of(const struct weir_mem *mem)
{
	struct weir_mem_stats stats;

	weir_mem_stats(mem, &stats);
	return stats;
}

static bool is_zero(const void *memory, size_t size)
{
	const char *bytes = memory;

	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* The charge for `size` bytes, by the words of mem.h and by search rather than by bits: the smallest of
 * 4, 5, 6, 7 (from 4 MiB on 16, 17 … 31) parts of a power of two that holds it. */
static int64_t model_charge(size_t size)
{
	if (size < WEIR_FRAME_MIN)
		return (int64_t)size;
	for (size_t power = WEIR_FRAME_MIN;; power *= 2) {
		size_t parts = power < (size_t)4 << 20 ? 4 : 16;

		for (size_t part = 0; part < parts; part++)
			if (power + power / parts * part >= size)
				return (int64_t)(power + power / parts * part);
	}
}

static void the_charge_is_the_smallest_class_that_holds_it(void **state)
{
	struct random random = random_seeded(2);

	(void)state;
	for (size_t size = 0; size < (size_t)20 << 20; size += size < 200000 ? 1 : 1021)
		assert_int_equal(weir_alloc_size(size), model_charge(size));
	for (int i = 0; i < 100000; i++) {
		size_t size = (size_t)(random_next(&random) >> (18 + random_below(&random, 40)));

		assert_int_equal(weir_alloc_size(size), model_charge(size));
		assert_int_equal(weir_alloc_size(weir_alloc_size(size)), model_charge(size));
		assert_true(size < WEIR_FRAME_MIN || weir_alloc_size(size) % 4096 == 0);
	}
}

static size_t random_size(struct random *random)
{
	switch (random_below(random, 6)) {
	case 0:
		return random_below(random, 64);
	case 1:
		return random_below(random, 5000);
	case 2:
		return (random_below(random, 2) ? 65536 : WEIR_FRAME_MIN) - 3 + random_below(random, 6);
	case 3:
		return random_below(random, 70000);
	case 4:
		return random_below(random, 600000);
	default:
		return random_below(random, 6000000) >> random_below(random, 6);
	}
}

enum { THINGS = 40, ACCOUNTS = 6 };

struct thing {
	unsigned char *memory; /* NULL: none */
	size_t size;
	unsigned char fill;
	int account;
};

/* First and last bytes only of the large ones, so that a round does not take its time in memset. */
static void fill(struct thing *thing)
{
	size_t edge = thing->size < 256 ? thing->size : 256;

	memset(thing->memory, thing->fill, edge);
	memset(thing->memory + thing->size - edge, thing->fill, edge);
}

static void check_filled(const struct thing *thing, size_t size)
{
	for (size_t i = 0; i < size && i < 256; i++)
		assert_int_equal(thing->memory[i], thing->fill);
	for (size_t i = size; size == thing->size && i > 0 && i > size - (size < 256 ? size : 256); i--)
		assert_int_equal(thing->memory[i - 1], thing->fill);
}

/* Accounts 0 … 5: the root, a and b below it, c and d below a, e below c. */
static const int parents[ACCOUNTS] = {-1, 0, 0, 1, 1, 3};

static void check_sums(struct weir_mem *mem, struct weir_account **accounts, const struct thing *things,
		       const int64_t *charged, int64_t *peaks)
{
	struct weir_mem_stats stats = stats_of(mem);
	int64_t sums[ACCOUNTS] = {0}, frames = 0;

	for (int t = 0; t < THINGS; t++) {
		if (!things[t].memory)
			continue;
		for (int a = things[t].account; a >= 0; a = parents[a])
			sums[a] += model_charge(things[t].size);
		frames += things[t].size >= WEIR_FRAME_MIN ? model_charge(things[t].size) : 0;
	}
	for (int from = 0; from < ACCOUNTS; from++)
		for (int a = from; a >= 0; a = parents[a])
			sums[a] += charged[from];
	for (int a = 0; a < ACCOUNTS; a++) {
		peaks[a] = sums[a] > peaks[a] ? sums[a] : peaks[a];
		assert_int_equal(atomic_load(&accounts[a]->used), sums[a]);
		assert_int_equal(atomic_load(&accounts[a]->peak), peaks[a]);
	}
	assert_int_equal(stats.used, sums[0]);
	assert_int_equal(stats.mapped, frames + stats.warm);
	assert_int_equal(atomic_load(&mem->frames.total), stats.used + stats.warm);
	assert_true(stats.peak >= stats.used + stats.warm && stats.warm >= 0);
	assert_true(stats.peak <= peaks[0] + (int64_t)WEIR_WARM_MAX);
	if (mem->frames.limit > 0)
		assert_true(stats.mapped <= mem->frames.limit);
}

static void random_operations(struct random *random, int64_t limit, int steps)
{
	struct weir_mem *mem = mem_of(limit);
	struct weir_account own[ACCOUNTS - 1], *accounts[ACCOUNTS] = {weir_mem_root(mem)};
	struct thing things[THINGS] = {0};
	int64_t charged[ACCOUNTS] = {0}, peaks[ACCOUNTS] = {0};
	struct weir_error err;

	for (int a = 1; a < ACCOUNTS; a++) {
		accounts[a] = &own[a - 1];
		weir_account_init(accounts[a], accounts[parents[a]], "test");
	}
	for (int step = 0; step < steps; step++) {
		struct thing *thing = &things[random_below(random, THINGS)];
		struct weir_account *account = accounts[thing->account];
		size_t size = random_size(random);
		unsigned kind = (unsigned)random_below(random, 20);

		if (kind == 0) {
			weir_mem_trim(mem, random_below(random, 8 << 20));
		} else if (kind == 1) {
			int a = (int)random_below(random, ACCOUNTS);

			assert_int_equal(weir_account_charge(accounts[a], (int64_t)size, &err), WEIR_OK);
			charged[a] += (int64_t)size;
		} else if (kind == 2) {
			int a = (int)random_below(random, ACCOUNTS);

			weir_account_discharge(accounts[a], charged[a]);
			charged[a] = 0;
		} else if (!thing->memory) {
			bool zero = kind % 2;

			thing->account = (int)random_below(random, ACCOUNTS);
			account = accounts[thing->account];
			thing->memory = zero ? weir_alloc_zero(account, size, &err) : weir_alloc(account, size, &err);
			if (!thing->memory) {
				assert_true(limit > 0 && err.code == WEIR_E_LIMIT);
			} else {
				assert_true((uintptr_t)thing->memory % (size >= 64 ? 64 : size >= 16 ? 16 : 1) == 0);
				assert_true(!zero || is_zero(thing->memory, size));
				thing->size = size;
				thing->fill = (unsigned char)random_next(random);
				fill(thing);
			}
		} else if (kind < 12) {
			unsigned char *moved = weir_realloc(account, thing->memory, thing->size, size, &err);

			if (moved) {
				thing->memory = moved;
				check_filled(thing, size < thing->size ? size : thing->size);
				thing->size = size;
				assert_true((uintptr_t)moved % (size >= 64 ? 64 : 1) == 0);
				fill(thing);
			} else {
				assert_true(limit > 0 && err.code == WEIR_E_LIMIT);
				check_filled(thing, thing->size);
			}
		} else {
			check_filled(thing, thing->size);
			weir_free(account, thing->memory, thing->size);
			thing->memory = NULL;
		}
		/* A refused allocation was charged while it was tried. */
		for (int a = 0; limit > 0 && a < ACCOUNTS; a++)
			peaks[a] = atomic_load(&accounts[a]->peak);
		check_sums(mem, accounts, things, charged, peaks);
	}
	for (int t = 0; t < THINGS; t++)
		weir_free(accounts[things[t].account], things[t].memory, things[t].size);
	for (int a = ACCOUNTS - 1; a >= 0; a--)
		weir_account_discharge(accounts[a], charged[a]);
	for (int a = ACCOUNTS - 1; a > 0; a--)
		weir_account_release(accounts[a]);
	weir_mem_trim(mem, 0);
	assert_int_equal(stats_of(mem).mapped, 0);
	weir_mem_free(mem);
}

static void sums_hold_after_every_operation(void **state)
{
	struct random random = random_seeded(3);

	(void)state;
	for (int round = 0; round < 10; round++)
		random_operations(&random, 0, 1500);
}

static void sums_and_the_limit_hold_after_every_operation(void **state)
{
	struct random random = random_seeded(4);

	(void)state;
	for (int round = 0; round < 10; round++)
		random_operations(&random, (int64_t)(1 + random_below(&random, 12)) << 20, 1500);
}

static void nothing_is_still_a_pointer(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;
	char *memory;

	(void)state;
	memory = weir_alloc(root, 0, &err);
	assert_non_null(memory);
	memory = weir_realloc(root, memory, 0, 10, &err);
	memcpy(memory, "123456789", 10);
	memory = weir_realloc(root, memory, 10, 0, &err);
	assert_non_null(memory);
	assert_int_equal(stats_of(mem).used, 0);
	weir_free(root, memory, 0);
	weir_free(root, NULL, 0);
	memory = weir_realloc(root, NULL, 0, 5, &err);
	weir_free(root, memory, 5);
	memory = weir_strdup(root, "", &err);
	assert_string_equal(memory, "");
	assert_int_equal(stats_of(mem).used, 1);
	weir_strfree(root, memory);
	weir_strfree(root, NULL);
	weir_mem_free(mem);
	weir_mem_free(NULL);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;
	char *memory = weir_alloc(root, 100, &err);

	(void)state;
	assert_null(weir_alloc(root, SIZE_MAX, &err));
	assert_int_equal(err.code, WEIR_E_MEMORY);
	assert_null(weir_alloc(root, (size_t)1 << 62, &err));
	assert_null(weir_alloc_zero(root, ((size_t)1 << 46) + 1, &err));
	assert_int_equal(err.code, WEIR_E_MEMORY);
	memset(memory, 1, 100);
	assert_null(weir_realloc(root, memory, 100, SIZE_MAX, &err));
	assert_int_equal(memory[99], 1);
	assert_int_equal(stats_of(mem).used, 100);
	weir_free(root, memory, 100);
	assert_int_equal(weir_mem_new(-1, &mem, &err), WEIR_E_INVALID);
	mem = root->mem;
	weir_mem_free(mem);
}

static void frames_come_back_warm_and_last_in_first_out(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;
	char *a = weir_alloc(root, 100000, &err), *b = weir_alloc(root, 100000, &err), *c;

	(void)state;
	weir_free(root, a, 100000);
	weir_free(root, b, 100000);
	assert_int_equal(stats_of(mem).warm, 2 * 114688);
	assert_ptr_equal(weir_alloc(root, 114688, &err), b);
	assert_ptr_equal(weir_alloc(root, 99000, &err), a);
	assert_int_equal(stats_of(mem).warm, 0);
	weir_free(root, a, 99000);
	weir_free(root, b, 114688);
	/* A smaller one is cut from a larger, whose tail goes back. */
	c = weir_alloc(root, 65536, &err);
	assert_true(c == a || c == b);
	assert_int_equal(stats_of(mem).mapped, 65536 + 114688);
	weir_free(root, c, 65536);
	/* A recycled frame is zeroed when it is to be. */
	memset(b = weir_alloc(root, 114688, &err), 1, 114688);
	weir_free(root, b, 114688);
	b = weir_alloc_zero(root, 114688, &err);
	assert_true(is_zero(b, 114688));
	weir_free(root, b, 114688);
	weir_mem_trim(mem, 70000);
	assert_true(stats_of(mem).warm <= 70000);
	weir_mem_free(mem);
}

static void changing_sizes_do_not_pile_up(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;

	(void)state;
	for (size_t size = WEIR_FRAME_MIN; size < (size_t)64 << 20; size += size / 20) {
		void *memory = weir_alloc(root, size, &err);

		assert_non_null(memory);
		assert_true(stats_of(mem).mapped <= (int64_t)(weir_alloc_size(size) + WEIR_WARM_MAX));
		weir_free(root, memory, size);
	}
	weir_mem_free(mem);
}

static void trimmed_memory_leaves_the_process(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	int64_t before, held, after, shmem;
	struct weir_error err;
	char *memory;

	(void)state;
	assert_int_equal(weir_process_rss(&before, &shmem, &err), WEIR_OK);
	memory = weir_alloc(root, 64 << 20, &err);
	memset(memory, 1, 64 << 20);
	assert_int_equal(weir_process_rss(&held, &shmem, &err), WEIR_OK);
	assert_true(held - before > 60 << 20);
	weir_free(root, memory, 64 << 20);
	assert_int_equal(stats_of(mem).warm, 64 << 20);
	weir_mem_trim(mem, WEIR_WARM_MAX);
	assert_int_equal(stats_of(mem).warm, 0); /* frames go whole */
	assert_int_equal(weir_process_rss(&after, &shmem, &err), WEIR_OK);
	assert_true(after - before < 8 << 20);
	weir_mem_free(mem);
}

static size_t mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t lines = 0;

	assert_non_null(maps);
	for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
		lines += c == '\n';
	fclose(maps);
	return lines;
}

/* Between pieces that stay others go: their pages leave the process, and it has no more mappings than before. */
static void pieces_leave_pages_not_holes(void **state)
{
	enum { COUNT = 2048, SIZE = 20 << 10 };
	struct weir_mem *mem = mem_of(0);
	struct weir_account *root = weir_mem_root(mem);
	static unsigned char *pieces[COUNT];
	int64_t held, after, shmem;
	size_t before;
	struct weir_error err;

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		pieces[i] = weir_alloc(root, SIZE, &err);
		assert_non_null(pieces[i]);
		memset(pieces[i], i, SIZE);
	}
	before = mappings();
	assert_int_equal(weir_process_rss(&held, &shmem, &err), WEIR_OK);
	for (int i = 0; i < COUNT; i += 2)
		weir_free(root, pieces[i], SIZE);
	weir_mem_trim(mem, 0);
	assert_int_equal(stats_of(mem).warm, 0);
	assert_int_equal(stats_of(mem).mapped, COUNT / 2 * SIZE);
	assert_int_equal(weir_process_rss(&after, &shmem, &err), WEIR_OK);
	assert_true(held - after > COUNT / 2 * SIZE - (2 << 20));
	assert_true(mappings() <= before + 8);
	/* The same places serve again, as if new. */
	for (int i = 0; i < COUNT; i += 2) {
		pieces[i] = weir_alloc_zero(root, SIZE, &err);
		assert_true(is_zero(pieces[i], SIZE));
	}
	for (int i = 1; i < COUNT; i += 2)
		assert_int_equal(pieces[i][SIZE - 1], (unsigned char)i);
	assert_true(mappings() <= before + 8);
	for (int i = 0; i < COUNT; i++)
		weir_free(root, pieces[i], SIZE);
	weir_mem_free(mem);
}

static void warm_frames_leave_room_for_what_nobody_counted(void **state)
{
	struct weir_mem *mem = mem_of(8 << 20);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;
	void *a, *b;

	(void)state;
	a = weir_alloc(root, 2 << 20, &err);
	b = weir_alloc(root, 4 << 20, &err);
	weir_free(root, b, 4 << 20);
	assert_int_equal(stats_of(mem).warm, 4 << 20);
	weir_mem_beside(mem, 1 << 20);
	assert_int_equal(stats_of(mem).warm, 4 << 20);
	weir_mem_beside(mem, 3 << 20);
	assert_int_equal(stats_of(mem).warm, 0);
	/* What is asked for is granted all the same: only what is warm gives way. */
	b = weir_alloc(root, 6 << 20, &err);
	assert_true(a && b);
	weir_free(root, b, 6 << 20);
	/* 2 in use, 3 beside, 6 warm: the next fresh frame sends the warm one away. */
	b = weir_alloc(root, 1 << 20, &err);
	assert_true(stats_of(mem).used + stats_of(mem).warm <= 5 << 20);
	weir_free(root, b, 1 << 20);
	weir_free(root, a, 2 << 20);
	weir_mem_free(mem);
}

/* Twice the limit in the program's hands: others still have the limit, no more, and keep half of it warm. */
static void what_the_program_was_handed_refuses_nobody(void **state)
{
	struct weir_mem *mem = mem_of(8 << 20);
	struct weir_account *root = weir_mem_root(mem), *handed = weir_mem_handed(mem);
	void *kept[16], *ours[8];
	struct weir_error err;

	(void)state;
	for (int i = 0; i < 16; i++)
		assert_non_null(kept[i] = weir_alloc(handed, 1 << 20, &err));
	assert_int_equal(stats_of(mem).used, 16 << 20);
	assert_int_equal(stats_of(mem).apart, 12 << 20);
	for (int i = 0; i < 8; i++)
		assert_non_null(ours[i] = weir_alloc(root, 1 << 20, &err));
	assert_null(weir_alloc(root, 1 << 20, &err));
	assert_int_equal(err.code, WEIR_E_LIMIT);
	assert_non_null(strstr(err.message, "8.0 MiB are in use"));
	for (int i = 0; i < 8; i++)
		weir_free(root, ours[i], 1 << 20);
	weir_mem_beside(mem, 0);
	assert_int_equal(stats_of(mem).warm, 4 << 20);
	for (int i = 0; i < 16; i++)
		weir_free(handed, kept[i], 1 << 20);
	assert_int_equal(stats_of(mem).used, 0);
	weir_mem_free(mem);
}

static void the_limit_is_met_by_warm_frames_first(void **state)
{
	struct weir_mem *mem = mem_of(4 << 20);
	struct weir_account *root = weir_mem_root(mem);
	struct weir_error err;
	void *a, *b;

	(void)state;
	a = weir_alloc(root, 3 << 20, &err);
	assert_null(weir_alloc(root, 2 << 20, &err));
	assert_int_equal(err.code, WEIR_E_LIMIT);
	assert_non_null(strstr(err.message, "4.0 MiB"));
	assert_int_equal(stats_of(mem).used, 3 << 20);
	weir_free(root, a, 3 << 20);
	a = weir_alloc(root, 1 << 20, &err);
	b = weir_alloc(root, 3 << 20, &err);
	assert_true(a && b);
	assert_int_equal(stats_of(mem).mapped, 4 << 20);
	weir_free(root, b, 3 << 20);
	/* What is charged without being allocated takes the room of warm frames, too. */
	assert_int_equal(weir_account_charge(root, 2 << 20, &err), WEIR_OK);
	assert_true(stats_of(mem).used + stats_of(mem).warm <= 4 << 20);
	weir_account_discharge(root, 2 << 20);
	weir_free(root, a, 1 << 20);
	assert_true(stats_of(mem).peak <= 4 << 20);
	weir_mem_free(mem);
}

/* --- asking --- */

struct governor {
	int calls, answer;
	int64_t more, used_when_asked, step;
};

static int answer_ask(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	struct governor *governor = asked;

	governor->calls++;
	governor->more = more;
	governor->used_when_asked = atomic_load(&account->used);
	if (governor->answer)
		return weir_error_set(err, governor->answer, "no");
	atomic_fetch_add(&account->grant, governor->step);
	return WEIR_OK;
}

static void a_grant_is_asked_for_before_it_is_passed(void **state)
{
	static const int answers[] = {WEIR_E_GIVE_UP, WEIR_E_LIMIT, WEIR_E_CANCELLED};
	struct weir_mem *mem = mem_of(0);
	struct weir_account lane, operator;
	struct governor governor = {.step = 100};
	struct weir_error err;
	char *memory, *moved;

	(void)state;
	weir_account_init(&lane, weir_mem_root(mem), "lane");
	weir_account_init(&operator, & lane, "operator");
	assert_true(weir_account_room(&operator) == INT64_MAX);
	lane.ask = answer_ask;
	lane.asked = &governor;
	atomic_store(&lane.grant, 1000);
	assert_int_equal(weir_account_room(&operator), 1000);
	memory = weir_alloc(&operator, 1000, &err);
	assert_int_equal(governor.calls, 0);
	assert_int_equal(weir_account_room(&lane), 0);

	/* Asked again and again until it is enough, and charged only then. */
	moved = weir_realloc(&operator, memory, 1000, 1250, &err);
	assert_non_null(moved);
	assert_int_equal(governor.calls, 3);
	assert_int_equal(governor.more, 250);
	assert_int_equal(governor.used_when_asked, 1000);
	assert_int_equal(weir_account_room(&operator), 50);

	for (size_t i = 0; i < 3; i++) {
		governor.calls = 0;
		governor.answer = answers[i];
		assert_null(weir_alloc(&operator, 51, &err));
		assert_int_equal(err.code, answers[i]);
		assert_null(weir_realloc(&operator, moved, 1250, 100000, &err));
		assert_int_equal(err.code, answers[i]);
		assert_int_equal(governor.more, weir_alloc_size(100000) - 1250);
		assert_int_equal(weir_account_charge(&operator, 51, &err), answers[i]);
		assert_int_equal(governor.calls, 3);
		assert_int_equal(atomic_load(&lane.used), 1250);
		assert_int_equal(stats_of(mem).used, 1250);
		assert_int_equal(atomic_load(&operator.peak), 1250);
	}
	/* Within the grant nobody is asked, and giving back asks never. */
	governor.calls = 0;
	assert_int_equal(weir_account_charge(&operator, 50, &err), WEIR_OK);
	moved = weir_realloc(&operator, moved, 1250, 10, &err);
	weir_account_discharge(&operator, 50);
	atomic_store(&lane.grant, 0);
	assert_int_equal(weir_account_room(&operator), 0);
	weir_free(&operator, moved, 10);
	assert_int_equal(governor.calls, 0);
	weir_account_release(&operator);
	weir_account_release(&lane);
	weir_account_release(&lane);
	weir_mem_free(mem);
}

static void a_claim_counts_against_the_grant_alone(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account lane, operator, other;
	struct governor governor = {.step = 100};
	struct weir_error err;

	(void)state;
	weir_account_init(&lane, weir_mem_root(mem), "lane");
	weir_account_init(&operator, & lane, "operator");
	weir_account_init(&other, weir_mem_root(mem), "one that nobody asks");
	lane.ask = answer_ask;
	lane.asked = &governor;
	atomic_store(&lane.grant, 1000);
	assert_int_equal(weir_account_claim(&operator, 800, &err), WEIR_OK);
	assert_int_equal(weir_account_room(&operator), 200);
	assert_int_equal(atomic_load(&lane.claimed), 800);
	assert_int_equal(stats_of(mem).used, 0);
	assert_int_equal(stats_of(mem).peak, 0);
	governor.answer = WEIR_E_LIMIT;
	assert_int_equal(weir_account_claim(&operator, 201, &err), WEIR_E_LIMIT);
	assert_int_equal(weir_account_room(&operator), 200);
	assert_int_equal(weir_account_charge(&operator, 200, &err), WEIR_OK);
	assert_int_equal(stats_of(mem).used, 200);
	weir_account_unclaim(&operator, 800);
	assert_int_equal(atomic_load(&lane.claimed), 0);
	assert_int_equal(weir_account_room(&operator), 800);
	weir_account_discharge(&operator, 200);
	assert_int_equal(weir_account_claim(&other, 70, &err), WEIR_OK);
	assert_int_equal(weir_account_used(&other), 70);
	assert_int_equal(stats_of(mem).used, 0);
	weir_account_unclaim(&other, 70);
	weir_account_release(&other);
	weir_account_release(&operator);
	weir_account_release(&lane);
	weir_mem_free(mem);
}

/* --- spares --- */

static void what_a_lane_frees_is_there_for_the_next(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct weir_account lane, operator;
	struct governor governor = {.step = 1 << 20};
	struct weir_error err;
	char *memory, *again;

	(void)state;
	weir_account_init(&lane, weir_mem_root(mem), "lane");
	lane.ask = answer_ask;
	lane.asked = &governor;
	atomic_store(&lane.grant, 1 << 20);
	weir_account_spares_keep(&lane);
	weir_account_init(&operator, & lane, "operator");

	memory = weir_alloc(&operator, 4096, &err);
	weir_free(&operator, memory, 4096);
	/* The lane has it, its operators do not, and it is room. */
	assert_int_equal(atomic_load(&operator.used), 0);
	assert_int_equal(atomic_load(&lane.used), 4096);
	assert_int_equal(weir_account_used(&lane), 0);
	assert_int_equal(weir_account_room(&operator), 1 << 20);
	again = weir_alloc_zero(&operator, 4096, &err);
	assert_ptr_equal(again, memory);
	assert_true(is_zero(again, 4096));
	assert_int_equal(atomic_load(&operator.used), 4096);
	assert_int_equal(atomic_load(&lane.used), 4096);

	/* Growing takes spares and leaves some. */
	memset(again, 7, 4096);
	memory = weir_realloc(&operator, again, 4096, 8192, &err);
	assert_true(memory[0] == 7 && memcmp(memory, memory + 1, 4095) == 0);
	assert_int_equal(atomic_load(&operator.used), 8192);
	assert_int_equal(atomic_load(&lane.used), 8192 + 4096);
	assert_int_equal(stats_of(mem).used, 8192 + 4096);
	again = weir_realloc(&operator, memory, 8192, 4096, &err);
	assert_true(again[0] == 7 && memcmp(again, again + 1, 4095) == 0);
	assert_int_equal(atomic_load(&operator.used), 4096);
	assert_int_equal(atomic_load(&lane.used), 4096 + 8192);
	weir_free(&operator, again, 4096);

	/* No more than an eighth of the grant. */
	weir_account_spares_free(&lane);
	assert_int_equal(atomic_load(&lane.used), 0);
	for (int i = 0; i < 4; i++) {
		void *many[80];

		for (int k = 0; k < 80; k++)
			assert_non_null(many[k] = weir_alloc(&operator, 14336, &err));
		for (int k = 0; k < 80; k++)
			weir_free(&operator, many[k], 14336);
		assert_int_equal(atomic_load(&lane.used),
				 ((1 << 20) + governor.calls * governor.step) / 8 / 14336 * 14336);
	}

	/* They go before more is asked for. */
	governor.calls = 0;
	atomic_store(&lane.grant, 1 << 20);
	memory = weir_alloc(&operator, 1 << 20, &err);
	assert_non_null(memory);
	assert_int_equal(governor.calls, 0);
	assert_int_equal(atomic_load(&lane.used), 1 << 20);
	weir_free(&operator, memory, 1 << 20);
	weir_account_release(&operator);
	weir_account_release(&lane);
	weir_mem_free(mem);
}

/* Every other page, of more than are told of at once, and the pages between stay. */
static void many_pieces_are_forgotten_at_once(void **state)
{
	enum { PAGE = 4096, PIECES = 2 * WEIR_FORGOTTEN_MAX + 3, SIZE = 2 * PIECES * PAGE };
	struct weir_forgotten forgotten = {0};
	struct weir_error err = {0};
	struct weir_mem *mem;
	uint8_t *bytes;

	(void)state;
	assert_int_equal(weir_mem_new(0, &mem, &err), WEIR_OK);
	bytes = weir_alloc(weir_mem_root(mem), SIZE, &err);
	assert_non_null(bytes);
	memset(bytes, 1, SIZE);
	for (size_t i = 0; i < PIECES; i++)
		weir_forget_add(&forgotten, bytes + 2 * i * PAGE,
				PAGE + (i % 3 ? 100 : 0)); /* a part of a page stays */
	weir_forget_add(&forgotten, bytes + PAGE + 1, PAGE - 1);
	weir_forget_flush(&forgotten);
	assert_int_equal(forgotten.count, 0);
	for (size_t i = 0; i < SIZE; i += PAGE / 2)
		if (bytes[i] != i / PAGE % 2)
			fail_msg("byte %zu of page %zu is %u", i % PAGE, i / PAGE, bytes[i]);
	weir_free(weir_mem_root(mem), bytes, SIZE);
	weir_mem_free(mem);
}

/* Any mix of sizes: every figure is the model's, every byte is kept. */
static void spares_add_up(void **state)
{
	struct weir_mem *mem = mem_of(0);
	struct random random = random_seeded(11);
	struct governor governor = {.step = 1 << 20};
	struct weir_account lane, operator;
	unsigned char *memory[64] = {0};
	size_t sizes[64] = {0};
	struct weir_error err;
	int64_t used = 0;

	(void)state;
	weir_account_init(&lane, weir_mem_root(mem), "lane");
	lane.ask = answer_ask;
	lane.asked = &governor;
	atomic_store(&lane.grant, 1 << 20);
	weir_account_spares_keep(&lane);
	weir_account_init(&operator, & lane, "operator");
	for (int i = 0; i < 200000; i++) {
		size_t at = random_below(&random, 64),
		       size = 1 + random_below(&random, random_below(&random, 2) ? 20000 : 600);

		if (random_below(&random, 2) && size < WEIR_FRAME_MIN)
			size = weir_spare_size(size);
		used -= sizes[at] ? (int64_t)weir_alloc_size(sizes[at]) : 0;
		if (memory[at] && random_below(&random, 3) == 0) {
			assert_int_equal(memory[at][sizes[at] - 1], (unsigned char)at);
			weir_free(&operator, memory[at], sizes[at]);
			memory[at] = NULL;
			sizes[at] = 0;
		} else {
			size_t kept = sizes[at] < size ? sizes[at] : size;

			memory[at] = weir_realloc(&operator, memory[at], sizes[at], size, &err);
			assert_non_null(memory[at]);
			assert_true(kept == 0 || memory[at][kept - 1] == (unsigned char)at);
			memset(memory[at], (int)at, size);
			sizes[at] = size;
			used += (int64_t)weir_alloc_size(size);
		}
		assert_int_equal(atomic_load(&operator.used), used);
		assert_int_equal(weir_account_used(&lane), used);
		if (i % 10000 == 0)
			weir_account_spares_free(&lane);
	}
	for (size_t at = 0; at < 64; at++)
		weir_free(&operator, memory[at], sizes[at]);
	weir_account_release(&operator);
	weir_account_release(&lane);
	assert_int_equal(stats_of(mem).used, 0);
	weir_mem_free(mem);
}

/* --- threads --- */

struct worker {
	struct weir_account account;
	uint64_t seed;
	pthread_t thread;
};

static void *work(void *context)
{
	struct worker *worker = context;
	struct random random = {.state = worker->seed};
	unsigned char *memory[8] = {0};
	size_t sizes[8] = {0};
	struct weir_error err;

	for (int step = 0; step < 3000; step++) {
		size_t t = random_below(&random, 8);

		if (memory[t] && (memory[t][0] != t || memory[t][sizes[t] - 1] != t))
			abort();
		if (random_below(&random, 2)) {
			weir_free(&worker->account, memory[t], sizes[t]);
			memory[t] = NULL;
			sizes[t] = 0;
		} else {
			size_t size = 1 + random_below(&random, 300000);
			void *moved = weir_realloc(&worker->account, memory[t], sizes[t], size, &err);

			if (!moved) /* under the limit's backstop */
				continue;
			memory[t] = moved;
			sizes[t] = size;
			memory[t][0] = memory[t][sizes[t] - 1] = (unsigned char)t;
		}
		if (step % 100 == 0)
			weir_mem_trim(worker->account.mem, 1 << 20);
	}
	for (size_t t = 0; t < 8; t++)
		weir_free(&worker->account, memory[t], sizes[t]);
	return NULL;
}

static void threads_share_frames_and_sums(void **state)
{
	enum { WORKERS = 4 };
	int64_t limits[] = {0, 3 << 20};

	(void)state;
	for (int round = 0; round < 2; round++) {
		struct weir_mem *mem = mem_of(limits[round]);
		struct worker workers[WORKERS];

		for (int w = 0; w < WORKERS; w++) {
			workers[w].seed = (uint64_t)(w + 1);
			weir_account_init(&workers[w].account, weir_mem_root(mem), "worker");
			assert_int_equal(pthread_create(&workers[w].thread, NULL, work, &workers[w]), 0);
		}
		for (int w = 0; w < WORKERS; w++) {
			pthread_join(workers[w].thread, NULL);
			weir_account_release(&workers[w].account);
		}
		assert_int_equal(stats_of(mem).used, 0);
		assert_int_equal(stats_of(mem).mapped, stats_of(mem).warm);
		assert_int_equal(atomic_load(&mem->frames.total), stats_of(mem).warm);
		assert_true(stats_of(mem).peak >= stats_of(mem).warm);
		weir_mem_free(mem);
	}
}

/* --- the n-th call fails --- */

#ifdef WEIR_FAULTS

struct numbers WEIR_LIST(uint64_t);

/* A bit of everything that allocates. Whatever fails, it cleans up after itself. */
static int sequence(struct weir_account *account, struct weir_error *err)
{
	struct weir_arena arena;
	struct weir_text text;
	struct numbers numbers = {0};
	char *memory = NULL, *moved;
	size_t size = 100;
	int code = WEIR_OK;

	weir_arena_init(&arena, account);
	weir_text_init(&text, account);
	memory = weir_alloc_zero(account, size, err);
	if (!memory) {
		code = err->code;
		goto done;
	}
	memcpy(memory, "kept", 5);
	for (size_t more = 200; more < 3000000; more *= 3) {
		moved = weir_realloc(account, memory, size, more, err);
		if (!moved) {
			code = err->code;
			goto done;
		}
		memory = moved;
		size = more;
	}
	for (int i = 0; i < 20000; i++)
		if ((code = weir_list_push(&numbers, account, err, (uint64_t)i)))
			goto done;
	for (int i = 0; i < 3000; i++)
		if ((code = weir_text_printf(&text, err, "%d, ", i)))
			goto done;
	for (int i = 0; i < 300; i++) {
		if (!weir_arena_alloc(&arena, 1000, err) || !weir_arena_printf(&arena, err, "%d", i)) {
			code = err->code;
			goto done;
		}
	}
	moved = weir_realloc(account, memory, size, 70000, err);
	if (!moved) {
		code = err->code;
		goto done;
	}
	memory = moved;
	size = 70000;
done:
	if (memory)
		assert_string_equal(memory, "kept");
	for (size_t i = 0; i < numbers.count; i++)
		assert_int_equal(numbers.items[i], i);
	weir_free(account, memory, size);
	weir_list_release(&numbers, account);
	weir_text_release(&text);
	weir_arena_release(&arena);
	return code;
}

static void sweep(enum weir_fault_kind kind)
{
	uint64_t calls, failures = 0;
	struct weir_error err;

	weir_fault_disarm();
	{
		struct weir_mem *mem = mem_of(0);

		assert_int_equal(sequence(weir_mem_root(mem), &err), WEIR_OK);
		weir_mem_free(mem);
	}
	calls = weir_fault_count(kind);
	assert_true(calls > 5);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		struct weir_mem *mem = NULL;
		int code;

		weir_fault_arm(kind, nth, ENOMEM, false);
		code = weir_mem_new(0, &mem, &err);
		if (!code)
			code = sequence(weir_mem_root(mem), &err);
		assert_int_equal(code, WEIR_E_MEMORY);
		failures++;
		weir_fault_disarm();
		weir_mem_free(mem); /* asserts that nothing is left */
	}
	assert_int_equal(failures, calls);
}

static void any_refused_allocation_leaves_nothing_behind(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_ALLOC);
}

static void any_refused_mapping_leaves_nothing_behind(void **state)
{
	(void)state;
	sweep(WEIR_FAULT_MAP);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_charge_is_the_smallest_class_that_holds_it),
		cmocka_unit_test(sums_hold_after_every_operation),
		cmocka_unit_test(sums_and_the_limit_hold_after_every_operation),
		cmocka_unit_test(nothing_is_still_a_pointer),
		cmocka_unit_test(sizes_that_cannot_be_are_refused),
		cmocka_unit_test(frames_come_back_warm_and_last_in_first_out),
		cmocka_unit_test(changing_sizes_do_not_pile_up),
		cmocka_unit_test(trimmed_memory_leaves_the_process),
		cmocka_unit_test(pieces_leave_pages_not_holes),
		cmocka_unit_test(warm_frames_leave_room_for_what_nobody_counted),
		cmocka_unit_test(the_limit_is_met_by_warm_frames_first),
		cmocka_unit_test(what_the_program_was_handed_refuses_nobody),
		cmocka_unit_test(a_grant_is_asked_for_before_it_is_passed),
		cmocka_unit_test(a_claim_counts_against_the_grant_alone),
		cmocka_unit_test(what_a_lane_frees_is_there_for_the_next),
		cmocka_unit_test(many_pieces_are_forgotten_at_once),
		cmocka_unit_test(spares_add_up),
		cmocka_unit_test(threads_share_frames_and_sums),
#ifdef WEIR_FAULTS
		cmocka_unit_test(any_refused_allocation_leaves_nothing_behind),
		cmocka_unit_test(any_refused_mapping_leaves_nothing_behind),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
