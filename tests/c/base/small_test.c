/* Small memory: pieces keep their bytes and lie where nobody else's do, and what a size has given back is not held by
 * pieces of others. */
#include "base/base_impl.h"
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

static int64_t resident(void)
{
	struct weir_error err;
	int64_t anon, shmem;

	assert_int_equal(weir_process_rss(&anon, &shmem, &err), WEIR_OK);
	return anon;
}

static void a_class_is_the_next_size_of_the_grid(void **state)
{
	(void)state;
	for (size_t size = WEIR_ALIGN; size < WEIR_FRAME_MIN; size++) {
		unsigned class = weir_small_class(size);
		size_t held = weir_small_class_size(class);

		assert_true(class < WEIR_SMALL_CLASS_COUNT);
		assert_int_equal(held, weir_spare_size(size));
		assert_int_equal(weir_small_class(held), class);
		assert_true(class == 0 || weir_small_class_size(class - 1) < size);
	}
	assert_int_equal(weir_small_class(WEIR_FRAME_MIN - 1), WEIR_SMALL_CLASS_COUNT - 1);
}

struct piece {
	unsigned char *bytes;
	size_t size;
	unsigned char mark;
};

static size_t random_size(struct random *random)
{
	size_t most = random_below(random, 3) ? 600 : WEIR_FRAME_MIN - WEIR_ALIGN;

	return WEIR_ALIGN + random_below(random, most);
}

static void pieces_keep_their_bytes(void **state)
{
	enum { COUNT = 3000 };
	static struct piece pieces[COUNT];
	struct random random = random_seeded(1);
	struct weir_small small;

	(void)state;
	weir_small_init(&small, 64 << 20);
	for (int step = 0; step < 200000; step++) {
		struct piece *piece = &pieces[random_below(&random, COUNT)];

		if (piece->bytes) {
			assert_int_equal(piece->bytes[0], piece->mark);
			assert_int_equal(piece->bytes[piece->size - 1], piece->mark);
			assert_memory_equal(piece->bytes, piece->bytes + 1, piece->size - 1);
			weir_small_give(&small, piece->bytes, piece->size);
			piece->bytes = NULL;
		} else {
			piece->size = random_size(&random);
			piece->mark = (unsigned char)step;
			piece->bytes = weir_small_take(&small, piece->size);
			assert_non_null(piece->bytes);
			assert_int_equal((uintptr_t)piece->bytes % WEIR_ALIGN, 0);
			memset(piece->bytes, piece->mark, piece->size);
		}
		if (step % 20000 == 0)
			weir_small_trim(&small);
	}
	for (int i = 0; i < COUNT; i++)
		if (pieces[i].bytes)
			weir_small_give(&small, pieces[i].bytes, pieces[i].size);
	weir_small_release(&small);
}

/* Columns of 8 KB between names of 100 bytes: the names stay, and are not in the way of the columns' pages. */
static void what_stays_does_not_hold_pages_of_what_goes(void **state)
{
	enum { COUNT = 4000, LARGE = 8000, LITTLE = 100 };
	static void *large[COUNT], *little[COUNT];
	struct weir_small small;
	int64_t full;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* what it remembers of each access is resident, too */
#endif
	weir_small_init(&small, 64 << 20);
	for (int i = 0; i < COUNT; i++) {
		large[i] = weir_small_take(&small, LARGE);
		little[i] = weir_small_take(&small, LITTLE);
		assert_true(large[i] && little[i]);
		memset(large[i], 1, LARGE);
		memset(little[i], 2, LITTLE);
	}
	full = resident();
	for (int i = 0; i < COUNT; i++)
		weir_small_give(&small, large[i], LARGE);
	/* But for the slabs that are kept warm. */
	assert_true(full - resident() >= (int64_t)COUNT * LARGE - (4 << 20));
	weir_small_trim(&small);
	assert_true(full - resident() >= (int64_t)COUNT * LARGE - (1 << 20));
	/* What went comes back. */
	for (int i = 0; i < COUNT; i++) {
		large[i] = weir_small_take(&small, LARGE);
		memset(large[i], 3, LARGE);
		assert_int_equal(*(unsigned char *)little[i], 2);
	}
	assert_true(resident() <= full + (1 << 20));
	for (int i = 0; i < COUNT; i++) {
		weir_small_give(&small, large[i], LARGE);
		weir_small_give(&small, little[i], LITTLE);
	}
	weir_small_release(&small);
}

enum { THREADS = 4, PLACES = 64, STEPS = 40000 };

struct shared {
	struct weir_small small;
	struct piece *_Atomic places[PLACES];
};

struct worker {
	struct shared *shared;
	struct random random;
	pthread_t thread;
};

/* Takes what others have put, and puts its own there: most pieces are given back by another thread than took them. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	struct shared *shared = worker->shared;

	for (int step = 0; step < STEPS; step++) {
		size_t size = random_size(&worker->random);
		struct piece *mine = weir_small_take(&shared->small, size), *other;

		if (!mine)
			abort();
		*mine = (struct piece){.size = size};
		other = atomic_exchange(&shared->places[random_below(&worker->random, PLACES)], mine);
		if (other)
			weir_small_give(&shared->small, other, other->size);
		if (step % 5000 == 0)
			weir_small_trim(&shared->small);
	}
	return NULL;
}

static void threads_give_back_what_others_took(void **state)
{
	static struct shared shared;
	struct worker workers[THREADS];

	(void)state;
	weir_small_init(&shared.small, 64 << 20);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.shared = &shared, .random = random_seeded((uint64_t)i + 7)};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < PLACES; i++) {
		struct piece *piece = atomic_load(&shared.places[i]);

		if (piece)
			weir_small_give(&shared.small, piece, piece->size);
	}
	weir_small_release(&shared.small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_class_is_the_next_size_of_the_grid),
		cmocka_unit_test(pieces_keep_their_bytes),
		cmocka_unit_test(what_stays_does_not_hold_pages_of_what_goes),
		cmocka_unit_test(threads_give_back_what_others_took),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
