/* What the tests of src/store/ share: a session's memory that must be empty at the end, a folder for spill files that
 * must be empty at all times, and bytes that tell where they belong. */
#ifndef WEIR_TESTS_STORE_SUPPORT_H
#define WEIR_TESTS_STORE_SUPPORT_H

#include "base/support.h"
#include "store/store_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_store *store;
	struct weir_error err;
	char dirs[2][64];
	const char *spill_dirs[3];
};

static inline void fixture_store(struct fixture *f, struct weir_store_options options)
{
	if (!options.spill_dirs)
		options.spill_dirs = f->spill_dirs;
	assert_int_equal(weir_store_new(f->account, &options, &f->store, &f->err), 0);
}

static inline int fixture_begin(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;

	memset(f, 0, sizeof(*f));
	if (weir_mem_new(0, &f->mem, &f->err))
		return -1;
	f->account = weir_mem_root(f->mem);
	for (int i = 0; i < 2; i++) {
		snprintf(f->dirs[i], sizeof(f->dirs[i]), "/tmp/weir-store-test-XXXXXX");
		if (!mkdtemp(f->dirs[i]))
			return -1;
		f->spill_dirs[i] = f->dirs[i];
	}
	*state = f;
	return 0;
}

static inline int fixture_end(void **state)
{
	struct fixture *f = *state;
	struct weir_mem_stats stats;

	weir_store_free(f->store);
	/* Fails where a spill file has a name. */
	for (int i = 0; i < 2; i++)
		if (rmdir(f->dirs[i]))
			return -1;
	weir_mem_stats(f->mem, &stats);
	if (stats.used) {
		print_error("%lld bytes are still in use\n", (long long)stats.used);
		return -1;
	}
	weir_mem_free(f->mem);
	return 0;
}

#define store_test(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)

/* Bytes that differ from chunk to chunk and from place to place. */
static inline void fill(uint8_t *bytes, uint64_t size, uint64_t key)
{
	struct random random = {key};
	uint64_t at = 0, word = 0;

	for (; at < size; at++) {
		if (at % 8 == 0)
			word = random_next(&random);
		bytes[at] = (uint8_t)(word >> at % 8 * 8);
	}
}

static inline bool filled(const uint8_t *bytes, uint64_t size, uint64_t key)
{
	struct random random = {key};
	uint64_t word = 0;

	for (uint64_t at = 0; at < size; at++) {
		if (at % 8 == 0)
			word = random_next(&random);
		if (bytes[at] != (uint8_t)(word >> at % 8 * 8))
			return false;
	}
	return true;
}

static inline struct weir_chunk *chunk_of(struct fixture *f, uint64_t size, uint64_t key)
{
	struct weir_chunk *chunk;
	uint8_t *bytes;

	if (weir_chunk_reserve(f->store, size, &chunk, &bytes, &f->err)) {
		print_error("%s\n", f->err.message);
		fail();
	}
	fill(bytes, size, key);
	weir_chunk_seal(chunk, size);
	return chunk;
}

static inline void check_chunk(struct fixture *f, struct weir_chunk *chunk, uint64_t size, uint64_t key)
{
	const uint8_t *bytes;

	assert_int_equal(weir_chunk_size(chunk), size);
	if (weir_chunk_pin(chunk, &bytes, &f->err)) {
		print_error("%s\n", f->err.message);
		fail();
	}
	assert_true(filled(bytes, size, key));
	weir_chunk_unpin(chunk);
}

/* What the kernel says that the store's memfds hold: the account is held against this, not against itself. */
static inline int64_t memfd_bytes(const struct weir_store *store)
{
	int64_t sum = 0;
	struct stat info;

	for (struct weir_region *region = store->regions; region; region = region->next) {
		assert_int_equal(fstat(region->memfd, &info), 0);
		sum += (int64_t)info.st_blocks * 512;
	}
	return sum;
}

static inline int worker_memfd(uint64_t size, int seals)
{
	int fd = memfd_create("worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#endif
