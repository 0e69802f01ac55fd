/* Several threads at the same chunks: nobody reads wrong bytes, nothing is lost, and the figures are zero at the
 * end. */
#include "store/support.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, SHARED = 24, STEPS = 3000 };

struct shared {
	struct weir_store *store;
	struct weir_chunk *chunks[SHARED];
	uint64_t sizes[SHARED];
	_Atomic int wrong, refused;
};

struct worker {
	struct shared *shared;
	struct random random;
	pthread_t thread;
};

static void *hammer(void *argument)
{
	struct worker *w = argument;
	struct shared *s = w->shared;
	struct weir_error err;

	for (int step = 0; step < STEPS; step++) {
		size_t i = random_below(&w->random, SHARED);
		struct weir_chunk *chunk = weir_chunk_ref(s->chunks[i]), *own;
		struct weir_owner *owner;
		const uint8_t *bytes;
		uint8_t *writable;
		uint64_t size;
		int code = 0;

		memset(&err, 0, sizeof(err));
		switch (random_below(&w->random, 8)) {
		case 0:
		case 1:
			code = weir_chunk_spill(chunk, &err);
			break;
		case 2:
			code = weir_chunk_restore(chunk, &err);
			break;
		case 3:
		case 4:
			code = weir_chunk_pin(chunk, &bytes, &err);
			if (!code) {
				s->wrong += !filled(bytes, s->sizes[i], i);
				weir_chunk_unpin(chunk);
			}
			break;
		case 5:
			code = weir_chunk_owner(chunk, &owner, &bytes, &err);
			if (!code) {
				s->wrong += !filled(bytes, s->sizes[i], i);
				weir_owner_unref(owner);
			}
			break;
		case 6:
			size = 1 + random_below(&w->random, 60000);
			code = weir_chunk_reserve(s->store, size, &own, &writable, &err);
			if (!code) {
				fill(writable, size, (uint64_t)step);
				weir_chunk_seal(own, size);
				weir_chunk_spill(own, &err);
				if (!weir_chunk_pin(own, &bytes, &err)) {
					s->wrong += !filled(bytes, size, (uint64_t)step);
					weir_chunk_unpin(own);
				}
				weir_chunk_unref(own);
			}
			break;
		default:
			weir_store_trim(s->store, (int64_t)random_below(&w->random, 1 << 20));
		}
		if (code == WEIR_E_LIMIT || code == WEIR_E_CANCELLED)
			s->refused++;
		else if (code)
			s->wrong++;
		weir_chunk_unref(chunk);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct random random = random_seeded(7);
	struct worker workers[THREADS];
	struct shared shared = {0};
	struct weir_store_stats stats;

	fixture_store(f, (struct weir_store_options){.region_size = 1 << 18, .resident_max = 1 << 20});
	shared.store = f->store;
	for (size_t i = 0; i < SHARED; i++) {
		shared.sizes[i] = 1 + random_below(&random, 80000);
		shared.chunks[i] = chunk_of(f, shared.sizes[i], i);
		assert_int_equal(weir_chunk_spill(shared.chunks[i], &f->err), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.shared = &shared, .random = {random_next(&random)}};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, hammer, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	assert_int_equal(shared.wrong, 0);
	weir_store_stats(f->store, &stats);
	print_message("refused %d, spilled %llu, restored %llu times\n", (int)shared.refused,
		      (unsigned long long)stats.spill_writes, (unsigned long long)stats.spill_reads);
	assert_true(stats.peak <= 1 << 20);
	assert_int_equal(stats.pinned + stats.held_by_user, 0);
	assert_int_equal(stats.resident + stats.warm, memfd_bytes(f->store));
	assert_int_equal(stats.resident + stats.warm, f->store->memory.used);
	for (size_t i = 0; i < SHARED; i++)
		weir_chunk_unref(shared.chunks[i]);
	weir_store_trim(f->store, 0);
	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.resident + stats.warm + stats.spilled, 0);
	assert_int_equal(memfd_bytes(f->store), 0);
}

struct trimmer {
	struct weir_store *store;
	_Atomic bool over;
};

static void *trim(void *argument)
{
	struct trimmer *trimmer = argument;

	while (!trimmer->over)
		weir_store_trim(trimmer->store, 0);
	return NULL;
}

/* While the pages of its only free range are given back, a region has room all the same. */
static void test_room_while_another_trims(void **state)
{
	enum { SIZE = 16 << 20, ROOM = 4 << 20, ROOMS = 400 };
	struct fixture *f = *state;
	struct trimmer trimmer;
	struct weir_region *region;
	struct weir_chunk *room;
	pthread_t thread;

	fixture_store(f, (struct weir_store_options){.region_size = 1 << 18});
	trimmer = (struct trimmer){.store = f->store};
	assert_int_equal(weir_region_adopt(f->store, worker_memfd(SIZE, F_SEAL_SHRINK), SIZE, &region, &f->err), 0);
	assert_int_equal(pthread_create(&thread, NULL, trim, &trimmer), 0);
	for (int i = 0; i < ROOMS; i++) {
		if (weir_region_reserve(region, ROOM, &room, &f->err))
			fail_msg("the %d-th time: %s", i, f->err.message);
		weir_chunk_unref(room);
		sched_yield();
	}
	trimmer.over = true;
	pthread_join(thread, NULL);
	weir_region_release(f->store, region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {store_test(test_threads), store_test(test_room_while_another_trims)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
