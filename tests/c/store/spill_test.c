/* Spilling: what went out comes back or an error does; full disks and failing calls leave everything as it was. */
#include "store/support.h"
#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

static struct weir_spill_file *file_of(const struct weir_chunk *chunk)
{
	assert_int_equal(chunk->state, CHUNK_SPILLED);
	return chunk->extent.range->home;
}

static void check_all_zero(struct fixture *f)
{
	struct weir_store_stats stats;

	weir_store_trim(f->store, 0);
	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.resident + stats.warm + stats.spilled + stats.pinned + stats.held_by_user, 0);
	assert_int_equal(stats.chunks, 0);
	assert_int_equal(f->store->memory.used, 0);
	assert_int_equal(memfd_bytes(f->store), 0);
}

static void test_every_flipped_byte_and_every_cut_is_found(void **state)
{
	enum { SIZE = 300 };
	struct fixture *f = *state;
	struct weir_chunk *chunk;
	const uint8_t *bytes;
	int fd;

	fixture_store(f, (struct weir_store_options){0});
	chunk = chunk_of(f, SIZE, 7);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
	fd = file_of(chunk)->fd;
	for (off_t at = 0; at < SIZE; at++) {
		uint8_t byte, changed;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		changed = byte ^ 0x10;
		assert_int_equal(pwrite(fd, &changed, 1, at), 1);
		assert_int_equal(weir_chunk_pin(chunk, &bytes, &f->err), WEIR_E_SPILL_CORRUPT);
		assert_true(strstr(f->err.source, "weir-store-test") && f->err.has_offset);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	assert_int_equal(f->store->resident, 0);
	check_chunk(f, chunk, SIZE, 7);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
	fd = file_of(chunk)->fd; /* the directories take turns */
	for (off_t size = SIZE - 1; size >= 0; size--) {
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(weir_chunk_restore(chunk, &f->err), WEIR_E_SPILL_CORRUPT);
	}
	weir_chunk_unref(chunk);
	check_all_zero(f);
}

/* An extent that is dropped is punched, its place used again; both directories get their share. */
static void test_extents_are_reused(void **state)
{
	enum { COUNT = 40, SIZE = 100000 };
	struct fixture *f = *state;
	struct weir_chunk *chunks[COUNT];
	uint64_t sizes[2];
	struct stat info;

	fixture_store(f, (struct weir_store_options){0});
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < COUNT; i++) {
			chunks[i] = chunk_of(f, SIZE, (uint64_t)i);
			assert_int_equal(weir_chunk_spill(chunks[i], &f->err), 0);
			assert_int_equal(chunks[i]->extent.range->offset % 4096, 0);
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(f->store->files[i].size, COUNT / 2 * store_pages(SIZE));
			assert_int_equal(fstat(f->store->files[i].fd, &info), 0);
			assert_true((uint64_t)info.st_blocks * 512 >= COUNT / 2 * store_pages(SIZE));
			sizes[i] = f->store->files[i].size;
		}
		for (int i = 0; i < COUNT; i += 2) {
			check_chunk(f, chunks[i], SIZE, (uint64_t)i);
			weir_chunk_unref(chunks[i]);
		}
		for (int i = 1; i < COUNT; i += 2)
			weir_chunk_unref(chunks[i]);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(fstat(f->store->files[i].fd, &info), 0);
			assert_true((uint64_t)info.st_blocks * 512 < sizes[i] / 4);
		}
	}
	check_all_zero(f);
}

/* Much that is dropped goes back while others are written and read: none of those is touched. */
static void test_space_goes_back_meanwhile(void **state)
{
	enum { COUNT = 160, SIZE = 1 << 20 };
	struct fixture *f = *state;
	struct weir_chunk *chunks[COUNT];

	fixture_store(f, (struct weir_store_options){0});
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			chunks[i] = chunk_of(f, SIZE, (uint64_t)(round * COUNT + i));
			assert_int_equal(weir_chunk_spill(chunks[i], &f->err), 0);
		}
		/* All but every fourth; what is left has as many new ones beside it. */
		for (int i = 0; i < COUNT; i++)
			if (i % 4)
				weir_chunk_unref(chunks[i]);
		for (int i = 0; i < COUNT; i++) {
			if (i % 4 != 1)
				continue;
			chunks[i] = chunk_of(f, SIZE, (uint64_t)(round * COUNT + i + 7));
			assert_int_equal(weir_chunk_spill(chunks[i], &f->err), 0);
		}
		for (int i = 0; i < COUNT; i++) {
			if (i % 4 > 1)
				continue;
			check_chunk(f, chunks[i], SIZE, (uint64_t)(round * COUNT + i + (i % 4 ? 7 : 0)));
			weir_chunk_unref(chunks[i]);
		}
	}
	check_all_zero(f);
}

static void test_the_spill_limit_holds(void **state)
{
	struct fixture *f = *state;
	struct weir_chunk *a, *b;

	fixture_store(f, (struct weir_store_options){.spill_max = 8192});
	a = chunk_of(f, 5000, 1);
	b = chunk_of(f, 1, 2);
	assert_int_equal(weir_chunk_spill(a, &f->err), 0);
	assert_int_equal(weir_chunk_spill(b, &f->err), WEIR_E_NO_SPACE);
	assert_non_null(strstr(f->err.message, "8192"));
	check_chunk(f, a, 5000, 1);
	assert_int_equal(weir_chunk_spill(b, &f->err), 0);
	weir_chunk_unref(a);
	weir_chunk_unref(b);
}

static void test_a_bad_directory_is_passed_over_or_named(void **state)
{
	struct fixture *f = *state;
	const char *one_bad[] = {"/no/such/place", f->dirs[0], NULL},
		   *all_bad[] = {"/no/such/place", "/nor/this", NULL};
	struct weir_chunk *chunk;

	fixture_store(f, (struct weir_store_options){.spill_dirs = one_bad});
	chunk = chunk_of(f, 5000, 1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(weir_chunk_spill(chunk, &f->err), 0);
		check_chunk(f, chunk, 5000, 1);
	}
	weir_chunk_unref(chunk);
	weir_store_free(f->store);
	fixture_store(f, (struct weir_store_options){.spill_dirs = all_bad});
	chunk = chunk_of(f, 5000, 1);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), WEIR_E_NOT_FOUND);
	assert_true(strstr(f->err.message, "/no/such/place") && strstr(f->err.message, "/nor/this"));
	check_chunk(f, chunk, 5000, 1);
	weir_chunk_unref(chunk);
}

/* Chunks go out until the directory is full; all of them, and the one that did not fit, are intact. */
static void fill_up(struct fixture *f, const char *directory, bool other)
{
	enum { COUNT = 16, SIZE = 300000 };
	const char *dirs[] = {directory, other ? f->dirs[1] : NULL, NULL};
	struct weir_chunk *chunks[COUNT];
	int spilled = 0;

	fixture_store(f, (struct weir_store_options){.spill_dirs = dirs});
	for (int i = 0; i < COUNT; i++) {
		int code;

		chunks[i] = chunk_of(f, SIZE, (uint64_t)i);
		code = weir_chunk_spill(chunks[i], &f->err);
		spilled += !code;
		if (other) {
			assert_int_equal(code, 0);
		} else if (code) {
			assert_int_equal(code, WEIR_E_NO_SPACE);
			assert_true(strstr(f->err.message, directory) && strstr(f->err.message, "300000"));
		}
	}
	assert_true(spilled > 0 && (other || spilled < COUNT));
	assert_int_equal(f->store->spilled, spilled * (int64_t)store_pages(SIZE));
	for (int i = 0; i < COUNT; i++) {
		check_chunk(f, chunks[i], SIZE, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
	check_all_zero(f);
	weir_store_free(f->store);
	f->store = NULL;
}

static void test_a_full_disk_is_an_error(void **state)
{
	struct fixture *f = *state;

	if (mount("tmpfs", f->dirs[0], "tmpfs", 0, "size=1m")) {
		print_message("no mount (%s): see the test with a limit on file sizes\n", strerror(errno));
		skip();
	}
	fill_up(f, f->dirs[0], false);
	fill_up(f, f->dirs[0], true);
	assert_int_equal(umount(f->dirs[0]), 0);
}

/* What lies in a tmpfs is counted, and no more of it than was said. */
static void test_a_tmpfs_counts_as_memory(void **state)
{
	enum { COUNT = 8, SIZE = 300000 };
	struct fixture *f = *state;
	const char *directories[] = {f->dirs[0], NULL};
	struct weir_chunk *chunks[COUNT];
	struct weir_store_stats stats;
	int64_t page_size = (int64_t)store_pages(SIZE);
	int spilled = 0;

	if (mount("tmpfs", f->dirs[0], "tmpfs", 0, "size=8m")) {
		print_message("no mount (%s)\n", strerror(errno));
		skip();
	}
	fixture_store(f, (struct weir_store_options){.spill_dirs = directories, .spill_memory_max = 4 * page_size});
	for (int i = 0; i < COUNT; i++) {
		int code;

		chunks[i] = chunk_of(f, SIZE, (uint64_t)i);
		code = weir_chunk_spill(chunks[i], &f->err);
		spilled += !code;
		assert_int_equal(code, i < 4 ? WEIR_OK : WEIR_E_NO_SPACE);
	}
	assert_true(strstr(f->err.message, f->dirs[0]) && strstr(f->err.message, "tmpfs"));
	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.spilled_memory, spilled * page_size);
	assert_int_equal(stats.spilled, stats.spilled_memory);
	check_chunk(f, chunks[0], SIZE, 0); /* back in memory: its place there is free */
	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.spilled_memory, 3 * page_size);
	assert_int_equal(weir_chunk_spill(chunks[5], &f->err), WEIR_OK);
	for (int i = 0; i < COUNT; i++) {
		check_chunk(f, chunks[i], SIZE, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
	check_all_zero(f);
	weir_store_free(f->store);
	f->store = NULL;
	assert_int_equal(umount(f->dirs[0]), 0);
}

static void test_a_limit_on_file_sizes_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, small;
	struct weir_chunk *chunk;

	fixture_store(f, (struct weir_store_options){0});
	chunk = chunk_of(f, 2 << 20, 3); /* before the limit: memfds are files too */
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(weir_chunk_spill(chunk, &f->err), WEIR_E_NO_SPACE);
	assert_true(strstr(f->err.message, f->dirs[0]) && strstr(f->err.message, f->dirs[1]));
	assert_non_null(strstr(f->err.message, "2097152"));
	assert_non_null(strstr(f->err.message, "ulimit -f"));
	check_chunk(f, chunk, 2 << 20, 3);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	weir_chunk_unref(chunk);
	check_all_zero(f);
}

#ifdef WEIR_FAULTS

/* Spills, restores and drops a few chunks; false at the first failure. What is there is intact either way. */
static bool scenario(struct fixture *f, int expected)
{
	struct weir_chunk *chunks[3] = {0};
	const uint8_t *read;
	struct weir_owner *owner;
	bool worked = false;
	uint8_t *bytes;
	int code = weir_store_new(f->account,
				  &(struct weir_store_options){.spill_dirs = f->spill_dirs, .region_size = 1 << 16},
				  &f->store, &f->err);

	if (code) {
		f->store = NULL;
		assert_int_equal(code, expected);
		return false;
	}
	for (int i = 0; i < 3; i++) {
		code = weir_chunk_reserve(f->store, 50000, &chunks[i], &bytes, &f->err);
		if (code)
			goto out;
		fill(bytes, 40000, (uint64_t)i);
		weir_chunk_seal(chunks[i], 40000);
	}
	for (int i = 0; i < 3; i++)
		if ((code = weir_chunk_spill(chunks[i], &f->err)))
			goto out;
	weir_store_trim(f->store, 0);
	for (int i = 0; i < 2; i++)
		if ((code = weir_chunk_restore(chunks[i], &f->err)))
			goto out;
	if ((code = weir_chunk_owner(chunks[2], &owner, &read, &f->err)))
		goto out;
	assert_true(filled(read, 40000, 2));
	weir_owner_unref(owner);
	worked = true;
out:
	weir_fault_disarm();
	if (!worked)
		assert_int_equal(code, expected);
	assert_int_equal(f->store->resident + f->store->warm, memfd_bytes(f->store));
	assert_int_equal(f->store->resident + f->store->warm, f->store->memory.used);
	for (int i = 0; i < 3; i++) {
		if (chunks[i])
			check_chunk(f, chunks[i], 40000, (uint64_t)i);
		weir_chunk_unref(chunks[i]);
	}
	check_all_zero(f);
	weir_store_free(f->store);
	f->store = NULL;
	return worked;
}

static void test_each_failing_call_is_an_error(void **state)
{
	static const struct {
		enum weir_fault_kind kind;
		int errno_value, code;
		bool always;
	} kinds[] = {
		{WEIR_FAULT_ALLOC, ENOMEM, WEIR_E_MEMORY, false},
		{WEIR_FAULT_MAP, ENOMEM, WEIR_E_MEMORY, false},
		{WEIR_FAULT_MAP, ENOSPC, WEIR_E_NO_SPACE, true},
		{WEIR_FAULT_READ, EIO, WEIR_E_IO, false},
		/* One failure alone is passed over by using the other directory. */
		{WEIR_FAULT_WRITE, ENOSPC, WEIR_E_NO_SPACE, true},
		{WEIR_FAULT_WRITE, EIO, WEIR_E_IO, true},
		{WEIR_FAULT_OPEN, EACCES, WEIR_E_IO, true},
	};
	struct fixture *f = *state;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		uint64_t nth = 0;
		bool worked;

		do {
			assert_true(++nth < 1000);
			weir_fault_arm(kinds[k].kind, nth, kinds[k].errno_value, kinds[k].always);
			worked = scenario(f, kinds[k].code);
		} while (!worked);
		print_message("kind %d: %d calls failed in turn\n", (int)kinds[k].kind, (int)nth - 1);
		assert_true(nth > 1);
	}
	weir_fault_arm(WEIR_FAULT_WRITE, 1, ENOSPC, false);
	assert_true(scenario(f, WEIR_OK));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_every_flipped_byte_and_every_cut_is_found),
		store_test(test_extents_are_reused),
		store_test(test_space_goes_back_meanwhile),
		store_test(test_the_spill_limit_holds),
		store_test(test_a_bad_directory_is_passed_over_or_named),
		store_test(test_a_full_disk_is_an_error),
		store_test(test_a_tmpfs_counts_as_memory),
		store_test(test_a_limit_on_file_sizes_is_an_error),
#ifdef WEIR_FAULTS
		store_test(test_each_failing_call_is_an_error),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
