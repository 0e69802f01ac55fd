/* Bytes come back as they lie in the file, through lanes and I/O threads alike; what cannot be had is an error that
 * says which file and where. */
#include "io_test.h"

#include "base/fault.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_SIZE = 3 << 20 };

struct scratch {
	struct fixture base;
	char directory[64], path[96];
	unsigned char *bytes; /* what the file holds */
};

static int scratch_setup(void **state)
{
	struct scratch *s = calloc(1, sizeof(*s));
	uint64_t random = 1;
	void *base;
	int fd;

	fixture_setup(&base);
	s->base = *(struct fixture *)base;
	free(base);
	s->bytes = malloc(FILE_SIZE);
	for (size_t i = 0; i < FILE_SIZE; i += 8) {
		uint64_t word = random_next(&random);
		memcpy(s->bytes + i, &word, 8);
	}
	snprintf(s->directory, sizeof(s->directory), "%s/weir-file-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(s->directory));
	snprintf(s->path, sizeof(s->path), "%s/data", s->directory);
	fd = open(s->path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, s->bytes, FILE_SIZE), FILE_SIZE);
	assert_int_equal(fsync(fd), 0); /* only clean pages can be dropped from the cache */
	close(fd);
	*state = s;
	return 0;
}

static int scratch_teardown(void **state)
{
	struct scratch *s = *state;

#ifdef WEIR_FAULTS
	weir_fault_disarm();
#endif
	unlink(s->path);
	assert_int_equal(rmdir(s->directory), 0);
	assert_int_equal(s->base.account->used, 0);
	weir_mem_free(s->base.mem);
	free(s->bytes);
	free(s);
	return 0;
}

static void drop_cache(const struct scratch *s)
{
	int fd = open(s->path, O_RDONLY);

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void warm_cache(const struct scratch *s)
{
	int fd = open(s->path, O_RDONLY);
	char *buffer = malloc(FILE_SIZE);

	assert_int_equal(read(fd, buffer, FILE_SIZE), FILE_SIZE);
	free(buffer);
	close(fd);
}

static void test_read(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file;
	unsigned char buffer[5000];

	assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
	assert_string_equal(weir_file_path(file), s->path);
	assert_int_equal(weir_file_size(file), FILE_SIZE);
	weir_file_advise(file, 0, FILE_SIZE);
	weir_file_advise(file, UINT64_MAX, UINT64_MAX);
	assert_ok(f, weir_file_read(file, 12345, buffer, sizeof(buffer), &f->error));
	assert_memory_equal(buffer, s->bytes + 12345, sizeof(buffer));
	assert_ok(f, weir_file_read(file, FILE_SIZE, buffer, 0, &f->error));
	assert_int_equal(weir_file_read(file, FILE_SIZE - 10, buffer, 11, &f->error), WEIR_E_DATA);
	assert_string_equal(f->error.source, s->path);
	assert_int_equal(f->error.offset, FILE_SIZE - 10);
	assert_int_equal(weir_file_read(file, UINT64_MAX - 3, buffer, 10, &f->error), WEIR_E_DATA);
	assert_ptr_equal(weir_file_ref(file), file);
	weir_file_unref(file);
	assert_ok(f, weir_file_read(file, 0, buffer, 1, &f->error));
	weir_file_unref(file);
	weir_file_unref(NULL);
}

static void test_open_refuses(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file;
	char path[128];

	assert_int_equal(weir_file_open(f->account, s->directory, &file, &f->error), WEIR_E_INVALID);
	assert_null(file);
	assert_string_equal(f->error.source, s->directory);
	snprintf(path, sizeof(path), "%s/none", s->directory);
	assert_int_equal(weir_file_open(f->account, path, &file, &f->error), WEIR_E_NOT_FOUND);
	/* Nobody writes to it: a plain open would wait for ever. */
	snprintf(path, sizeof(path), "%s/fifo", s->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(weir_file_open(f->account, path, &file, &f->error), WEIR_E_INVALID);
	assert_non_null(strstr(f->error.message, "pipe"));
	unlink(path);
	assert_int_equal(weir_file_open(f->account, "/dev/null", &file, &f->error), WEIR_E_INVALID);
}

static void test_cached_reads_start_no_thread(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_io *io;
	struct weir_file *file;
	unsigned char *buffer = malloc(FILE_SIZE);
	struct weir_read read = {.buffer = buffer, .size = FILE_SIZE};

	warm_cache(s);
	assert_ok(f, weir_io_new(f->account, 0, &io, &f->error));
	assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
	read.file = file;
	weir_read_submit(io, &read);
	assert_true(weir_read_done(&read));
	assert_ok(f, weir_read_wait(io, &read, &f->error));
	assert_memory_equal(buffer, s->bytes, FILE_SIZE);
	assert_int_equal(weir_io_threads_started(io), 0);

	read.offset = 1;
	weir_read_submit(io, &read);
	assert_true(weir_read_done(&read));
	assert_int_equal(weir_read_wait(io, &read, &f->error), WEIR_E_DATA);
	weir_file_unref(file);
	weir_io_free(io);
	free(buffer);
}

struct lane {
	struct scratch *scratch;
	struct weir_io *io;
	struct weir_file *file;
	uint64_t seed;
	const char *wrong;
};

static void *lane_run(void *arg)
{
	enum { IN_FLIGHT = 16, READ_MAX = 40000 };
	struct lane *lane = arg;
	struct weir_read *reads = calloc(IN_FLIGHT, sizeof(*reads));
	unsigned char *buffers = malloc((size_t)IN_FLIGHT * READ_MAX);
	uint64_t random = lane->seed;
	struct weir_error error;

	for (int round = 0; round < 60; round++) {
		if (round % 10 == 0)
			drop_cache(lane->scratch);
		for (int i = 0; i < IN_FLIGHT; i++) {
			reads[i].file = lane->file;
			reads[i].buffer = buffers + (size_t)i * READ_MAX;
			reads[i].size = random_next(&random) % READ_MAX;
			reads[i].offset = random_next(&random) % (FILE_SIZE - reads[i].size);
			weir_read_submit(lane->io, &reads[i]);
		}
		for (int i = IN_FLIGHT; i-- > 0;) {
			if (weir_read_wait(lane->io, &reads[i], &error))
				lane->wrong = "a read failed";
			else if (memcmp(reads[i].buffer, lane->scratch->bytes + reads[i].offset, reads[i].size))
				lane->wrong = "a read gave other bytes";
		}
	}
	free(reads);
	free(buffers);
	return NULL;
}

static void test_uncached_reads(void **state)
{
	enum { LANES = 4 };
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct lane lanes[LANES];
	pthread_t threads[LANES];
	struct weir_file *file;
	struct weir_io *io;
	uint64_t seed = test_seed(21);

	drop_cache(s);
	assert_ok(f, weir_io_new(f->account, 3, &io, &f->error));
	assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
	for (int i = 0; i < LANES; i++) {
		lanes[i] = (struct lane){.scratch = s, .io = io, .file = file, .seed = seed + (uint64_t)i};
		assert_int_equal(pthread_create(&threads[i], NULL, lane_run, &lanes[i]), 0);
	}
	for (int i = 0; i < LANES; i++) {
		pthread_join(threads[i], NULL);
		if (lanes[i].wrong)
			fail_msg("%s", lanes[i].wrong);
	}
	assert_true(weir_io_threads_started(io) <= 3);
	weir_file_unref(file);
	weir_io_free(io);
}

static void test_a_file_that_shrinks(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file;
	struct weir_io *io;
	unsigned char buffer[1000];
	struct weir_read read = {.buffer = buffer, .size = sizeof(buffer), .offset = 999500};

	assert_ok(f, weir_io_new(f->account, 0, &io, &f->error));
	assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
	assert_int_equal(truncate(s->path, 1000000), 0);
	assert_int_equal(weir_file_read(file, 999500, buffer, sizeof(buffer), &f->error), WEIR_E_DATA);
	assert_string_equal(f->error.source, s->path);
	assert_int_equal(f->error.offset, 1000000);
	read.file = file;
	weir_read_submit(io, &read);
	assert_int_equal(weir_read_wait(io, &read, &f->error), WEIR_E_DATA);
	assert_int_equal(f->error.offset, 1000000);
	weir_file_unref(file);
	weir_io_free(io);
}

#ifdef WEIR_FAULTS
static void test_failing_reads(void **state)
{
	static const int errors[] = {EIO, ESTALE, EINTR, EINVAL};
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file;
	struct weir_io *io;
	unsigned char buffer[1000];
	struct weir_read read = {.buffer = buffer, .size = sizeof(buffer)};

	warm_cache(s);
	assert_ok(f, weir_io_new(f->account, 1, &io, &f->error));
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		bool passing = errors[e] != EINVAL;

		weir_fault_arm(WEIR_FAULT_OPEN, 1, errors[e], false);
		assert_int_equal(weir_file_open(f->account, s->path, &file, &f->error) == WEIR_OK, errors[e] == EINTR);
		if (errors[e] != EINTR) {
			assert_int_equal(f->error.errno_value, errors[e]);
			assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
		}
		read.file = file;
		/* Once: a passing error is not seen at all. */
		weir_fault_arm(WEIR_FAULT_READ, 1, errors[e], false);
		assert_int_equal(weir_file_read(file, 0, buffer, sizeof(buffer), &f->error) == WEIR_OK, passing);
		/* The first asks the cache; any error there is tried again in earnest. */
		for (uint64_t nth = 1; nth <= 2; nth++) {
			weir_fault_arm(WEIR_FAULT_READ, nth, errors[e], false);
			weir_read_submit(io, &read);
			assert_ok(f, weir_read_wait(io, &read, &f->error));
			assert_memory_equal(buffer, s->bytes, sizeof(buffer));
		}
		/* Always: an error with file and offset. EINTR for ever would be a broken kernel. */
		if (errors[e] != EINTR) {
			weir_fault_arm(WEIR_FAULT_READ, 1, errors[e], true);
			assert_int_equal(weir_file_read(file, 77, buffer, 10, &f->error), WEIR_E_IO);
			assert_int_equal(weir_fault_count(WEIR_FAULT_READ), passing ? 4 : 1);
			assert_int_equal(f->error.errno_value, errors[e]);
			assert_int_equal(f->error.offset, 77);
			assert_string_equal(f->error.source, s->path);
			weir_read_submit(io, &read);
			assert_int_equal(weir_read_wait(io, &read, &f->error), WEIR_E_IO);
		}
		weir_fault_disarm();
		weir_file_unref(file);
	}
	weir_io_free(io);
}

static void test_no_thread_to_be_had(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file;
	struct weir_io *io;
	unsigned char buffer[1000];
	struct weir_read read = {.buffer = buffer, .size = sizeof(buffer)};

	assert_ok(f, weir_io_new(f->account, 2, &io, &f->error));
	assert_ok(f, weir_file_open(f->account, s->path, &file, &f->error));
	read.file = file;
	weir_fault_arm(WEIR_FAULT_SPAWN, 1, EAGAIN, true);
	weir_fault_arm(WEIR_FAULT_READ, 1, EAGAIN, false); /* as if it were not cached */
	weir_read_submit(io, &read);
	assert_ok(f, weir_read_wait(io, &read, &f->error));
	assert_memory_equal(buffer, s->bytes, sizeof(buffer));
	assert_int_equal(weir_io_threads_started(io), 0);
	weir_fault_disarm();
	weir_file_unref(file);
	weir_io_free(io);
}

static void test_no_memory(void **state)
{
	struct scratch *s = *state;
	struct fixture *f = &s->base;
	struct weir_file *file = NULL;
	struct weir_io *io = NULL;

	for (uint64_t nth = 1; !file; nth++) {
		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		if (weir_file_open(f->account, s->path, &file, &f->error))
			assert_int_equal(f->error.code, WEIR_E_MEMORY);
		assert_true(nth < 10);
	}
	weir_fault_arm(WEIR_FAULT_ALLOC, 1, ENOMEM, false);
	assert_int_equal(weir_io_new(f->account, 0, &io, &f->error), WEIR_E_MEMORY);
	assert_null(io);
	weir_io_free(io);
	weir_file_unref(file);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_open_refuses, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_cached_reads_start_no_thread, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_uncached_reads, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_file_that_shrinks, scratch_setup, scratch_teardown),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(test_failing_reads, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_no_thread_to_be_had, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, scratch_setup, scratch_teardown),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
