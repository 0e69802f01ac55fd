/* What the store promises: bytes come back or an error does, figures agree with the kernel's, places are recycled. */
#include "base/clock.h"
#include "store/support.h"

#include <errno.h>
#include <sys/mount.h>

static void check_figures(struct fixture *f, int64_t resident, int64_t spilled, int64_t pinned, int64_t held)
{
	struct weir_store_stats stats;

	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.resident, resident);
	assert_int_equal(stats.spilled, spilled);
	assert_int_equal(stats.pinned, pinned);
	assert_int_equal(stats.held_by_user, held);
	assert_int_equal(stats.resident + stats.warm, f->store->memory.used);
	assert_int_equal(stats.resident + stats.warm, memfd_bytes(f->store));
	assert_true(stats.peak >= stats.resident + stats.warm);
}

static void test_a_chunk_lives(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunk;
	const uint8_t *read;
	uint8_t *bytes;

	fixture_store(f, (struct weir_store_options){0});
	check_figures(f, 0, 0, 0, 0);
	assert_int_equal(weir_chunk_reserve(f->store, 100000, &chunk, &bytes, &f->err), 0);
	assert_int_equal((uintptr_t)bytes % 4096, 0);
	check_figures(f, 102400, 0, 102400, 0);
	assert_false(weir_chunk_is_foreign(chunk));
	fill(bytes, 5000, 1);
	weir_chunk_seal(chunk, 5000);
	check_figures(f, 8192, 0, 0, 0);
	assert_int_equal(weir_chunk_pin(chunk, &read, &f->err), 0);
	check_figures(f, 8192, 0, 8192, 0);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), WEIR_E_CANCELLED);
	weir_chunk_unpin(chunk);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
	assert_false(weir_chunk_is_resident(chunk));
	check_figures(f, 0, 8192, 0, 0);
	weir_store_trim(f->store, 0);
	assert_int_equal(memfd_bytes(f->store), 0);
	assert_int_equal(weir_chunk_restore(chunk, &f->err), 0);
	assert_int_equal(weir_chunk_restore(chunk, &f->err), 0);
	check_figures(f, 8192, 0, 0, 0);
	check_chunk(f, chunk, 5000, 1);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
	weir_chunk_unref(weir_chunk_ref(chunk));
	weir_chunk_unref(chunk); /* while it is spilled */
	check_figures(f, 0, 0, 0, 0);
	assert_int_equal(weir_chunk_reserve(f->store, 0, &chunk, &bytes, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_reserve(f->store, UINT64_MAX, &chunk, &bytes, &f->err), WEIR_E_INVALID);
}

static void test_warm_pages_come_first(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *a, *b, *c;
	uint32_t region;
	uint64_t first, again;
	int fd;

	fixture_store(f, (struct weir_store_options){0});
	a = chunk_of(f, 1 << 20, 1);
	b = chunk_of(f, 1 << 20, 2);
	c = chunk_of(f, 1 << 20, 3);
	weir_chunk_place(b, &region, &fd, &first);
	weir_chunk_unref(a);
	weir_chunk_unref(b); /* joined with a's */
	a = chunk_of(f, 2 << 20, 4);
	weir_chunk_place(a, &region, &fd, &again);
	assert_int_equal(again, first - (1 << 20));
	assert_int_equal(memfd_bytes(f->store), 3 << 20);
	check_chunk(f, a, 2 << 20, 4);
	check_chunk(f, c, 1 << 20, 3);
	weir_chunk_unref(c);
	weir_store_trim(f->store, 0);
	assert_int_equal(memfd_bytes(f->store), 2 << 20);
	check_chunk(f, a, 2 << 20, 4);
	weir_chunk_unref(a);
}

static void test_regions_grow(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunks[64], *large;
	uint32_t regions = 0;

	fixture_store(f, (struct weir_store_options){.region_size = 1 << 16});
	for (int i = 0; i < 64; i++)
		chunks[i] = chunk_of(f, 1 << 16, (uint64_t)i);
	large = chunk_of(f, 20 << 20, 99); /* larger than any region so far */
	for (struct weir_region *region = f->store->regions; region; region = region->next)
		regions++;
	assert_true(regions <= 8); /* few descriptors, however much they hold */
	for (int i = 0; i < 64; i++) {
		check_chunk(f, chunks[i], 1 << 16, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
	check_chunk(f, large, 20 << 20, 99);
	weir_chunk_unref(large);
}

static void test_the_backstop_holds(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunks[4], *more;
	uint8_t *bytes;

	fixture_store(f, (struct weir_store_options){.resident_max = 4 << 20});
	for (int i = 0; i < 4; i++)
		chunks[i] = chunk_of(f, 1 << 20, (uint64_t)i);
	assert_int_equal(weir_chunk_reserve(f->store, 4096, &more, &bytes, &f->err), WEIR_E_LIMIT);
	check_figures(f, 4 << 20, 0, 0, 0);
	assert_int_equal(weir_chunk_spill(chunks[0], &f->err), 0);
	assert_int_equal(weir_chunk_spill(chunks[2], &f->err), 0);
	/* Two warm megabytes, apart: they are given back so that two together can be had. */
	more = chunk_of(f, 2 << 20, 9);
	check_figures(f, 4 << 20, 2 << 20, 0, 0);
	assert_int_equal(weir_chunk_restore(chunks[0], &f->err), WEIR_E_LIMIT);
	check_chunk(f, more, 2 << 20, 9);
	weir_chunk_unref(more);
	for (int i = 0; i < 4; i++) {
		check_chunk(f, chunks[i], 1 << 20, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
}

static void test_few_pages_stay_warm(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunks[16], *room;
	uint8_t *bytes;

	fixture_store(f, (struct weir_store_options){.warm_max = 4 << 20});
	for (int i = 0; i < 16; i++)
		chunks[i] = chunk_of(f, 1 << 20, (uint64_t)i);
	for (int i = 0; i < 16; i += 2) { /* apart, so that they are not one range */
		weir_chunk_unref(chunks[i]);
		check_figures(f, (15 - i / 2) << 20, 0, 0, 0);
		assert_true(f->store->warm <= 4 << 20);
	}
	/* The rest of a room is free without being given: it goes before new pages are made. */
	assert_int_equal(weir_chunk_reserve(f->store, 9 << 20, &room, &bytes, &f->err), 0);
	weir_chunk_seal(room, 1);
	assert_true(f->store->warm > 4 << 20);
	chunks[0] = chunk_of(f, 32 << 20, 0);
	assert_true(f->store->warm <= 4 << 20);
	assert_int_equal(f->store->resident + f->store->warm, memfd_bytes(f->store));
	weir_chunk_unref(room);
	weir_chunk_unref(chunks[0]);
	for (int i = 1; i < 16; i += 2) {
		check_chunk(f, chunks[i], 1 << 20, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
	assert_true(memfd_bytes(f->store) <= 4 << 20);
}

/* Chunks that are written without being mapped, by several writers, beside others; and one that is given up when half
 * of it is there. */
static void test_chunks_that_are_put(void **state)
{
	enum { SIZE = 300000, WRITERS = 6 };
	struct fixture *f = *state;
	struct weir_account *account = weir_mem_root(f->mem);
	struct weir_chunk *chunks[WRITERS], *mapped = NULL;
	uint8_t *whole = malloc(SIZE), *bytes;
	int64_t charged;

	assert_non_null(whole);
	fixture_store(f, (struct weir_store_options){0});
	for (uint32_t i = 0; i < WRITERS; i++) {
		fill(whole, SIZE, i);
		assert_int_equal(weir_chunk_reserve_bare(f->store, account, i, SIZE, &chunks[i], &charged, &f->err), 0);
		assert_int_equal(charged, 303104);
		weir_account_unclaim(account, charged);
		/* Its first page by memory, the rest in pieces, the last one first. */
		assert_int_equal(weir_chunk_put(chunks[i], 200000, whole + 200000, SIZE - 200000, &f->err), 0);
		assert_int_equal(weir_chunk_put(chunks[i], 4000, whole + 4000, 196000, &f->err), 0);
		assert_int_equal(weir_chunk_back(chunks[i], &bytes, &f->err), 0);
		memcpy(bytes, whole, 4000);
		weir_chunk_seal(chunks[i], SIZE);
		assert_int_equal(f->store->resident + f->store->warm, memfd_bytes(f->store));
	}
	check_figures(f, WRITERS * 303104, 0, 0, 0);
	for (uint32_t i = 0; i < WRITERS; i++)
		check_chunk(f, chunks[i], SIZE, i);
	/* Given up before it has all its pages: nothing of it counts as warm. */
	assert_int_equal(weir_chunk_reserve_bare(f->store, account, 1, SIZE, &mapped, &charged, &f->err), 0);
	weir_account_unclaim(account, charged);
	assert_int_equal(weir_chunk_put(mapped, 0, whole, 100000, &f->err), 0);
	weir_chunk_unref(mapped);
	check_figures(f, WRITERS * 303104, 0, 0, 0);
	assert_int_equal(f->store->warm, 0);
	assert_int_equal(f->store->resident, memfd_bytes(f->store));
	assert_int_equal(weir_chunk_spill(chunks[2], &f->err), 0);
	assert_int_equal(weir_chunk_restore(chunks[2], &f->err), 0);
	check_chunk(f, chunks[2], SIZE, 2);
	/* What one of them leaves is a place for any other. */
	weir_chunk_unref(chunks[3]);
	mapped = chunk_of(f, SIZE, 7);
	check_chunk(f, mapped, SIZE, 7);
	weir_chunk_unref(mapped);
	for (uint32_t i = 0; i < WRITERS; i++)
		weir_chunk_unref(i == 3 ? NULL : chunks[i]);
	check_figures(f, 0, 0, 0, 0);
	free(whole);
}

static void test_a_scribbling_owner_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *chunk, *next;
	struct weir_owner *owner, *second;
	const uint8_t *bytes, *again;
	uint64_t offset, offset_next;
	uint32_t region;
	int fd;

	fixture_store(f, (struct weir_store_options){0});
	chunk = chunk_of(f, 10000, 5);
	weir_chunk_place(chunk, &region, &fd, &offset);
	assert_int_equal(weir_chunk_owner(chunk, &owner, &bytes, &f->err), 0);
	assert_int_equal(weir_chunk_owner(chunk, &second, &again, &f->err), 0);
	check_figures(f, 12288, 0, 12288, 12288);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), WEIR_E_CANCELLED);
	memset((uint8_t *)bytes, 0xaa, 10000);
	check_chunk(f, chunk, 10000, 5);
	/* Neither sees what the other scribbles, whoever came first. */
	assert_true(filled(again, 10000, 5));
	memset((uint8_t *)again, 0xbb, 10000);
	check_chunk(f, chunk, 10000, 5);
	assert_int_equal(bytes[9999], 0xaa);
	weir_owner_unref(second);
	assert_int_equal(weir_chunk_owner(chunk, &second, &again, &f->err), 0);
	assert_true(filled(again, 10000, 5));
	weir_owner_unref(second);
	check_figures(f, 12288, 0, 12288, 12288);
	weir_chunk_unref(chunk); /* the owner keeps it */
	check_figures(f, 12288, 0, 12288, 12288);
	weir_owner_unref(owner);
	check_figures(f, 0, 0, 0, 0);
	/* The next one in this place is seen as it is, not through the scribbler's pages. */
	next = chunk_of(f, 10000, 6);
	weir_chunk_place(next, &region, &fd, &offset_next);
	assert_int_equal(offset, offset_next);
	assert_int_equal(weir_chunk_owner(next, &owner, &bytes, &f->err), 0);
	assert_true(filled(bytes, 10000, 6));
	weir_owner_unref(owner);
	weir_chunk_unref(next);
}

static void test_a_workers_region(void **state)
{
	struct fixture *f = *state;
	const uint64_t size = 1 << 20;
	struct weir_region *region;
	struct weir_chunk *room, *a, *b, *c;
	uint64_t base;
	uint32_t number;
	uint8_t *bytes;
	int fd, own;

	fixture_store(f, (struct weir_store_options){0});
	own = worker_memfd(size, F_SEAL_SHRINK);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
	assert_int_equal(weir_region_adopt(f->store, dup(own), size, &region, &f->err), 0);
	assert_int_equal(weir_region_reserve(region, 64 << 10, &room, &f->err), 0);
	weir_chunk_place(room, &number, &fd, &base);
	check_figures(f, 64 << 10, 0, 64 << 10, 0);

	/* What a worker may claim and what not. */
	assert_int_equal(weir_chunk_adopt(room, base, 0, &a, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_adopt(room, base + 64, 64, &a, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_adopt(room, base, (64 << 10) + 1, &a, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_adopt(room, base + (64 << 10), 1, &a, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_adopt(room, base + 4096, (60 << 10) + 1, &a, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_chunk_adopt(room, UINT64_MAX - 4095, 8192, &a, &f->err), WEIR_E_INVALID);

	fill(bytes + base + 4096, 5000, 1);
	assert_int_equal(weir_chunk_adopt(room, base + 4096, 5000, &a, &f->err), 0);
	assert_int_equal(weir_chunk_adopt(room, base + 4096, 100, &b, &f->err), WEIR_E_INVALID); /* taken */
	assert_int_equal(weir_chunk_adopt(room, base, 100, &b, &f->err), WEIR_E_INVALID);        /* passed over */
	assert_true(weir_chunk_is_foreign(a));
	check_figures(f, 60 << 10, 0, 52 << 10, 0);
	fill(bytes + base + 12288, 52 << 10, 2);
	assert_int_equal(weir_chunk_adopt(room, base + 12288, 52 << 10, &b, &f->err), 0);
	assert_int_equal(weir_chunk_adopt(room, base + (64 << 10), 1, &c, &f->err), WEIR_E_INVALID); /* used up */
	check_figures(f, 60 << 10, 0, 0, 0);
	weir_chunk_unref(room);
	assert_int_equal(weir_region_reserve(region, size, &room, &f->err), WEIR_E_NO_SPACE);
	assert_int_equal(weir_region_reserve(region, 100, &room, &f->err), 0);
	check_figures(f, 64 << 10, 0, 4096, 0);

	/* Spilled and restored it lies elsewhere; the worker dies; the rest stays readable. */
	assert_int_equal(weir_chunk_spill(a, &f->err), 0);
	check_chunk(f, a, 5000, 1);
	munmap(bytes, size);
	close(own);
	weir_chunk_unref(room);
	weir_region_release(f->store, region);
	check_figures(f, 60 << 10, 0, 0, 0);
	assert_int_equal(memfd_bytes(f->store), 60 << 10); /* nothing of it is kept warm */
	check_chunk(f, b, 52 << 10, 2);
	weir_chunk_unref(b);
	for (region = f->store->regions; region; region = region->next)
		assert_false(region->is_worker);
	check_chunk(f, a, 5000, 1);
	weir_chunk_unref(a);
}

/* As many gaps as chunks: neither giving warm pages back nor the end of the worker looks at all of them for each. */
static void test_many_gaps(void **state)
{
	enum { CHUNKS = 40000 };
	struct fixture *f = *state;
	struct weir_chunk **chunks = calloc(CHUNKS, sizeof(*chunks));
	struct weir_region *region;
	uint64_t begun;

	fixture_store(f, (struct weir_store_options){0});
	assert_int_equal(weir_region_adopt(f->store, worker_memfd((uint64_t)CHUNKS * 8192, F_SEAL_SHRINK),
					   (uint64_t)CHUNKS * 8192, &region, &f->err),
			 0);
	for (int i = 0; i < CHUNKS; i++)
		assert_int_equal(weir_region_reserve(region, 4096, &chunks[i], &f->err), 0);
	for (int i = 0; i < CHUNKS; i += 2)
		weir_chunk_unref(chunks[i]);
	check_figures(f, CHUNKS / 2 * 4096, 0, CHUNKS / 2 * 4096, 0);
	begun = weir_clock_ns();
	weir_store_trim(f->store, 1000 * 4096);
	check_figures(f, CHUNKS / 2 * 4096, 0, CHUNKS / 2 * 4096, 0);
	assert_int_equal(f->store->warm, 1000 * 4096);
	weir_region_release(f->store, region);
	check_figures(f, CHUNKS / 2 * 4096, 0, CHUNKS / 2 * 4096, 0);
	print_message("%.2f s\n", (double)(weir_clock_ns() - begun) / 1e9);
	assert_true(weir_clock_ns() - begun < 2000000000u);
	for (int i = 1; i < CHUNKS; i += 2)
		weir_chunk_unref(chunks[i]);
	check_figures(f, 0, 0, 0, 0);
	free(chunks);
}

static void test_a_bad_memfd_is_refused(void **state)
{
	struct fixture *f = *state;
	struct weir_region *region;
	int pipe_fds[2];

	fixture_store(f, (struct weir_store_options){0});
	assert_int_equal(weir_region_adopt(f->store, worker_memfd(8192, 0), 8192, &region, &f->err), WEIR_E_INVALID);
	assert_int_equal(weir_region_adopt(f->store, worker_memfd(8192, F_SEAL_SHRINK), 12288, &region, &f->err),
			 WEIR_E_INVALID);
	assert_int_equal(weir_region_adopt(f->store, worker_memfd(8192, F_SEAL_SHRINK), 5000, &region, &f->err),
			 WEIR_E_INVALID);
	assert_int_equal(weir_region_adopt(f->store, worker_memfd(8192, F_SEAL_SHRINK), 0, &region, &f->err),
			 WEIR_E_INVALID);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(weir_region_adopt(f->store, pipe_fds[0], 4096, &region, &f->err), WEIR_E_INVALID);
	close(pipe_fds[1]);
}

/* Against a plain model: sizes and what was done to each. */
enum { MODEL_CHUNKS = 200, MODEL_REGIONS = 3 };

struct model {
	struct weir_chunk *chunk;
	uint64_t size, key;
	int pins;
	struct weir_owner *owner;
	bool spilled;
};

static int64_t rounded(uint64_t size)
{
	return (int64_t)((size + 4095) / 4096 * 4096);
}

static void check_model(struct fixture *f, const struct model *models)
{
	int64_t resident = 0, spilled = 0, pinned = 0, held = 0;

	for (int i = 0; i < MODEL_CHUNKS; i++) {
		int64_t size = models[i].chunk ? rounded(models[i].size) : 0;

		*(models[i].spilled ? &spilled : &resident) += size;
		pinned += models[i].pins || models[i].owner ? size : 0;
		held += models[i].owner ? size : 0;
	}
	check_figures(f, resident, spilled, pinned, held);
}

static void test_figures_add_up_after_every_operation(void **state)
{
	struct fixture *f = *state;
	struct random random = random_seeded(20261115);
	static struct model models[MODEL_CHUNKS];
	struct {
		struct weir_region *region;
		uint8_t *bytes;
	} workers[MODEL_REGIONS] = {0};
	const uint64_t worker_size = 8 << 20;

	memset(models, 0, sizeof(models));
	fixture_store(f, (struct weir_store_options){.resident_max = 24 << 20, .region_size = 1 << 20});
	for (int step = 0; step < 20000; step++) {
		struct model *m = &models[random_below(&random, MODEL_CHUNKS)];
		size_t w = random_below(&random, MODEL_REGIONS);
		const uint8_t *read;
		uint8_t *bytes;
		int code;

		switch (random_below(&random, 12)) {
		case 0:
		case 1:
		case 2:
			if (m->chunk)
				break;
			*m = (struct model){.size = 1 + random_below(&random, (size_t)1 << random_below(&random, 21)),
					    .key = (uint64_t)step};
			code = weir_chunk_reserve(f->store, m->size + random_below(&random, 20000), &m->chunk, &bytes,
						  &f->err);
			if (code) {
				assert_int_equal(code, WEIR_E_LIMIT);
				break;
			}
			fill(bytes, m->size, m->key);
			weir_chunk_seal(m->chunk, m->size);
			break;
		case 3: /* made by a worker */
			if (m->chunk || !workers[w].region)
				break;
			{
				struct weir_chunk *room;
				uint64_t offset;
				uint32_t number;
				int fd;

				*m = (struct model){.size = 1 + random_below(&random, 100000), .key = (uint64_t)step};
				if (weir_region_reserve(workers[w].region, m->size + random_below(&random, 9) * 4096,
							&room, &f->err))
					break;
				weir_chunk_place(room, &number, &fd, &offset);
				/* Sometimes the worker dies before it has answered. */
				if (random_below(&random, 4)) {
					fill(workers[w].bytes + offset, m->size, m->key);
					assert_int_equal(weir_chunk_adopt(room, offset, m->size, &m->chunk, &f->err),
							 0);
				}
				weir_chunk_unref(room);
			}
			break;
		case 4:
			if (workers[w].region) {
				weir_region_release(f->store, workers[w].region);
				munmap(workers[w].bytes, worker_size);
				workers[w].region = NULL;
			} else {
				int fd = worker_memfd(worker_size, F_SEAL_SHRINK);

				workers[w].bytes = mmap(NULL, worker_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
				assert_int_equal(
					weir_region_adopt(f->store, fd, worker_size, &workers[w].region, &f->err), 0);
			}
			break;
		case 5:
			if (m->chunk && !m->pins && !m->owner) {
				check_chunk(f, m->chunk, m->size, m->key);
				weir_chunk_unref(m->chunk);
				m->chunk = NULL;
				m->spilled = false;
			}
			break;
		case 6:
		case 7:
			if (!m->chunk)
				break;
			code = weir_chunk_spill(m->chunk, &f->err);
			assert_int_equal(code, m->pins || m->owner ? WEIR_E_CANCELLED : WEIR_OK);
			m->spilled = !code;
			break;
		case 8:
			if (!m->chunk)
				break;
			code = weir_chunk_restore(m->chunk, &f->err);
			assert_true(code == WEIR_OK || (code == WEIR_E_LIMIT && m->spilled));
			m->spilled = code != WEIR_OK;
			break;
		case 9:
			if (m->chunk && m->pins && random_below(&random, 2)) {
				m->pins--;
				weir_chunk_unpin(m->chunk);
			} else if (m->chunk && !weir_chunk_pin(m->chunk, &read, &f->err)) {
				m->pins++;
				m->spilled = false;
				assert_true(filled(read, m->size, m->key));
			}
			break;
		case 10:
			if (m->chunk && m->owner) {
				weir_owner_unref(m->owner);
				m->owner = NULL;
			} else if (m->chunk && !weir_chunk_owner(m->chunk, &m->owner, &read, &f->err)) {
				m->spilled = false;
				assert_true(filled(read, m->size, m->key));
				((uint8_t *)read)[random_below(&random, m->size)] ^= 1; /* to no effect on others */
			}
			break;
		default:
			if (random_below(&random, 10) == 0)
				weir_store_trim(f->store, (int64_t)random_below(&random, 4 << 20));
		}
		check_model(f, models);
	}
	for (int i = 0; i < MODEL_CHUNKS; i++) {
		weir_owner_unref(models[i].owner);
		while (models[i].chunk && models[i].pins-- > 0)
			weir_chunk_unpin(models[i].chunk);
		weir_chunk_unref(models[i].chunk);
	}
	for (int i = 0; i < MODEL_REGIONS; i++) {
		if (workers[i].region)
			munmap(workers[i].bytes, worker_size);
		weir_region_release(f->store, workers[i].region);
	}
	check_figures(f, 0, 0, 0, 0);
	weir_store_trim(f->store, 0);
	assert_int_equal(memfd_bytes(f->store), 0);
	assert_int_equal(f->store->memory.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_a_chunk_lives),
		store_test(test_warm_pages_come_first),
		store_test(test_regions_grow),
		store_test(test_the_backstop_holds),
		store_test(test_few_pages_stay_warm),
		store_test(test_chunks_that_are_put),
		store_test(test_a_scribbling_owner_changes_nothing),
		store_test(test_a_workers_region),
		store_test(test_many_gaps),
		store_test(test_a_bad_memfd_is_refused),
		store_test(test_figures_add_up_after_every_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
