/* Modes, names, places, permissions and company: what an output does when nothing is broken. */
#include "output_test.h"

#include "base/hash.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#ifdef WEIR_FAULTS
static void test_no_space_says_where_and_how_much(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {0};
	struct weir_output_file *file;
	struct weir_output *output;
	bool ignored;
	char bytes[1000] = {0};

	assert_ok(f, weir_output_begin(f->account, "full/", &options, &output, &ignored, &f->error));
	assert_ok(f, weir_output_file_new(output, "x", &file, &f->error));
	weir_fault_arm(WEIR_FAULT_WRITE, 1, ENOSPC, false);
	assert_int_equal(weir_output_file_write(file, bytes, sizeof(bytes), &f->error), WEIR_E_NO_SPACE);
	assert_non_null(strstr(f->error.message, scratch));
	assert_non_null(strstr(f->error.message, "1000 bytes"));
	/* The file is lost, the output is not. */
	assert_int_equal(weir_output_file_write(file, bytes, 1, &f->error), WEIR_E_NO_SPACE);
	assert_int_equal(weir_output_file_close(file, true, &f->error), WEIR_E_NO_SPACE);
	assert_ok(f, write_file(output, "x", "again", true, &f->error));
	assert_ok(f, weir_output_commit(output, &f->error));
	weir_output_free(output);
	assert_int_equal(access("full/x", F_OK), 0);
}
#endif

static void test_modes(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {.mode = WEIR_MODE_ERROR};
	struct weir_output *output;
	static char now[SNAPSHOT_SIZE];
	bool ignored;

	mkdir("d", 0777);
	put("d/x", "1");
	put("one", "1");
	assert_int_equal(weir_output_begin(f->account, "d", &options, &output, &ignored, &f->error), WEIR_E_EXISTS);
	assert_null(output);
	assert_int_equal(weir_output_begin(f->account, "one", &options, &output, &ignored, &f->error), WEIR_E_EXISTS);
	assert_int_equal(weir_output_begin(f->account, "one/", &options, &output, &ignored, &f->error), WEIR_E_EXISTS);
	options.mode = WEIR_MODE_IGNORE;
	assert_ok(f, weir_output_begin(f->account, "d", &options, &output, &ignored, &f->error));
	assert_true(ignored && !output);
	assert_ok(f, weir_output_begin(f->account, "one", &options, &output, &ignored, &f->error));
	assert_true(ignored && !output);
	options.mode = WEIR_MODE_APPEND;
	assert_int_equal(weir_output_begin(f->account, "one", &options, &output, &ignored, &f->error), WEIR_E_EXISTS);
	assert_non_null(strstr(f->error.message, "overwrite"));
	options.single_file = true;
	assert_int_equal(weir_output_begin(f->account, "d", &options, &output, &ignored, &f->error), WEIR_E_EXISTS);
	snapshot(".", false, now);
	assert_string_equal(now, "./\n./d/\n./d/x=1\n./one=1\n");
}

static void test_no_files_make_nothing(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {.mode = WEIR_MODE_APPEND};
	const char *targets[] = {"new/", "p/q/new/", "p/q/file", "d", "empty"};
	struct weir_output *output;
	static char before[SNAPSHOT_SIZE], now[SNAPSHOT_SIZE];
	bool ignored;

	mkdir("d", 0777);
	mkdir("empty", 0777);
	put("d/x", "1");
	snapshot(".", false, before);
	for (int round = 0; round < 4; round++) {
		for (int t = 0; t < 5; t++) {
			options.mode = round == 3 && t != 3 ? WEIR_MODE_OVERWRITE : WEIR_MODE_APPEND;
			assert_ok(f, weir_output_begin(f->account, targets[t], &options, &output, &ignored, &f->error));
			if (round == 1)
				assert_ok(f, write_file(output, "x", "given up", false, &f->error));
			if (round != 2)
				assert_ok(f, weir_output_commit(output, &f->error));
			weir_output_free(output);
			snapshot(".", false, now);
			assert_string_equal(now, before);
		}
	}
	options.mode = WEIR_MODE_OVERWRITE;
	assert_ok(f, weir_output_begin(f->account, "d", &options, &output, &ignored, &f->error));
	assert_ok(f, weir_output_commit(output, &f->error));
	weir_output_free(output);
	snapshot(".", false, now);
	assert_string_equal(now, "./\n./empty/\n");
}

static void test_hostile_names(void **state)
{
	static const char *const names[] = {
		"",          "/",       "/etc/x",        "..", "../x",  "a/../b", "a/..",         "./a",
		".",         "a/",      "a//b",          "/a", "a/./b", "//",     ".weir-open-0", ".weir-journal",
		"a/.weir-x", "../../x", "a/b/../../../x"};
	struct fixture *f = *state;
	struct weir_output_options options = {0};
	struct weir_output_file *file;
	struct weir_output *output;
	char long_name[5000];
	static char now[SNAPSHOT_SIZE];
	bool ignored;

	mkdir("elsewhere", 0777);
	assert_ok(f, weir_output_begin(f->account, "out/", &options, &output, &ignored, &f->error));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (weir_output_file_new(output, names[i], &file, &f->error) != WEIR_E_INVALID)
			fail_msg("\"%s\" was accepted", names[i]);
	memset(long_name, 'x', sizeof(long_name));
	long_name[256] = '\0';
	assert_int_equal(weir_output_file_new(output, long_name, &file, &f->error), WEIR_E_INVALID);
	long_name[256] = '/';
	long_name[4999] = '\0';
	assert_int_equal(weir_output_file_new(output, long_name, &file, &f->error), WEIR_E_INVALID);
	/* Someone puts a link where a directory is to be. */
	{
		char planted[300];
		struct dirent *dirent;
		DIR *list = opendir(".");

		while ((dirent = readdir(list)) && strncmp(dirent->d_name, ".out.weir-", 10))
			;
		assert_non_null(dirent);
		snprintf(planted, sizeof(planted), "%s/a=1", dirent->d_name);
		closedir(list);
		assert_int_equal(symlink("../elsewhere", planted), 0);
		assert_int_equal(write_file(output, "a=1/x", "1", true, &f->error), WEIR_E_IO);
		unlink(planted);
	}
	assert_ok(f, write_file(output, "..a", "1", true, &f->error));
	assert_ok(f, write_file(output, "a=\xff\n/b", "1", true, &f->error));
	assert_ok(f, weir_output_commit(output, &f->error));
	weir_output_free(output);
	snapshot(".", false, now);
	assert_string_equal(now, "./\n./elsewhere/\n./out/\n./out/..a=1\n./out/a=\xff\n/\n./out/a=\xff\n/b=1\n");
}

static void test_places(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {.mode = WEIR_MODE_OVERWRITE};
	struct weir_output *output;
	char name[300];
	bool ignored;

	assert_int_equal(weir_output_begin(f->account, "/dev/null", &options, &output, &ignored, &f->error),
			 WEIR_E_INVALID);
	assert_int_equal(weir_output_begin(f->account, "/", &options, &output, &ignored, &f->error), WEIR_E_INVALID);
	assert_int_equal(weir_output_begin(f->account, "", &options, &output, &ignored, &f->error), WEIR_E_INVALID);
	assert_int_equal(weir_output_begin(f->account, "none/..", &options, &output, &ignored, &f->error),
			 WEIR_E_NOT_FOUND);
	assert_int_equal(mkfifo("fifo", 0666), 0);
	assert_int_equal(weir_output_begin(f->account, "fifo", &options, &output, &ignored, &f->error), WEIR_E_INVALID);
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_int_equal(weir_output_begin(f->account, "dangling", &options, &output, &ignored, &f->error),
			 WEIR_E_INVALID);
	put("file", "1");
	assert_int_equal(weir_output_begin(f->account, "file/x/", &options, &output, &ignored, &f->error), WEIR_E_IO);
	assert_int_equal(access("nowhere", F_OK), -1);

	/* Links to folders are followed, and stay. */
	mkdir("real", 0751);
	chmod("real", 0751);
	put("real/x", "old");
	assert_int_equal(symlink("real", "link"), 0);
	assert_ok(f, run_output(f->account, "link", &options, &f->error));
	{
		struct stat stat_buffer;

		assert_int_equal(lstat("link", &stat_buffer), 0);
		assert_true(S_ISLNK(stat_buffer.st_mode));
		assert_int_equal(stat("real", &stat_buffer), 0);
		assert_int_equal(stat_buffer.st_mode & 07777, 0751); /* permissions stay too */
		assert_int_equal(access("real/new-1", F_OK), 0);
		assert_int_equal(access("real/x", F_OK), -1);
	}
	/* The longest name that there can be. */
	memset(name, 'n', 255);
	memcpy(name + 255, "/", 2);
	assert_ok(f, run_output(f->account, name, &options, &f->error));
	assert_ok(f, run_output(f->account, name, &options, &f->error));
	name[255] = 'n';
	memcpy(name + 256, "/", 2);
	assert_true(weir_output_begin(f->account, name, &options, &output, &ignored, &f->error) != WEIR_OK);
}

static void test_permissions_follow_umask(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {.mode = WEIR_MODE_OVERWRITE};
	struct stat stat_buffer;
	mode_t before = umask(027);

	assert_ok(f, run_output(f->account, "p/out/", &options, &f->error));
	assert_int_equal(stat("p", &stat_buffer), 0);
	assert_int_equal(stat_buffer.st_mode & 0777, 0750);
	assert_int_equal(stat("p/out", &stat_buffer), 0);
	assert_int_equal(stat_buffer.st_mode & 0777, 0750);
	assert_int_equal(stat("p/out/a=1", &stat_buffer), 0);
	assert_int_equal(stat_buffer.st_mode & 0777, 0750);
	assert_int_equal(stat("p/out/new-1", &stat_buffer), 0);
	assert_int_equal(stat_buffer.st_mode & 0777, 0640);
	options.single_file = true;
	put("one", "old");
	chmod("one", 0604);
	assert_ok(f, run_output(f->account, "one", &options, &f->error));
	assert_int_equal(stat("one", &stat_buffer), 0);
	assert_int_equal(stat_buffer.st_mode & 0777, 0604);
	umask(before);
}

static void test_two_runs_at_once(void **state)
{
	struct fixture *f = *state;
	struct weir_output_options options = {.mode = WEIR_MODE_APPEND};
	struct weir_output *first, *second, *third;
	static char now[SNAPSHOT_SIZE];
	bool ignored;

	/* Both begin before the folder is there; each leaves the other's stage alone; both arrive. */
	assert_ok(f, weir_output_begin(f->account, "out/", &options, &first, &ignored, &f->error));
	assert_ok(f, write_file(first, "x", "1", true, &f->error));
	assert_ok(f, weir_output_begin(f->account, "out/", &options, &second, &ignored, &f->error));
	assert_string_equal(weir_output_name_prefix(second), "");
	assert_ok(f, write_file(second, "y", "2", true, &f->error));
	assert_ok(f, weir_output_commit(first, &f->error));
	assert_ok(f, weir_output_commit(second, &f->error));
	weir_output_free(second);
	weir_output_free(first);
	/* A third meets the name of the first: nothing of it arrives. */
	assert_ok(f, weir_output_begin(f->account, "out", &options, &third, &ignored, &f->error));
	assert_true(strlen(weir_output_name_prefix(third)) >= 8);
	assert_ok(f, write_file(third, "a", "3", true, &f->error));
	assert_ok(f, write_file(third, "x", "3", true, &f->error));
	assert_int_equal(weir_output_commit(third, &f->error), WEIR_E_EXISTS);
	weir_output_free(third);
	/* ERROR: what came meanwhile counts. */
	options.mode = WEIR_MODE_ERROR;
	assert_ok(f, weir_output_begin(f->account, "two/", &options, &first, &ignored, &f->error));
	assert_ok(f, write_file(first, "x", "1", true, &f->error));
	mkdir("two", 0777);
	put("two/x", "other");
	assert_int_equal(weir_output_commit(first, &f->error), WEIR_E_EXISTS);
	weir_output_free(first);
	snapshot(".", false, now);
	assert_string_equal(now, "./\n./out/\n./out/x=1\n./out/y=2\n./two/\n./two/x=other\n");
}

struct writer {
	struct weir_output *output;
	int number;
	int code;
};

static void *writer_run(void *arg)
{
	struct writer *writer = arg;
	struct weir_error error;
	char name[64], content[64];

	for (int i = 0; i < 50 && !writer->code; i++) {
		snprintf(name, sizeof(name), "k=%d/part-%d-%d", i % 3, writer->number, i);
		snprintf(content, sizeof(content), "%d of %d", i, writer->number);
		writer->code = write_file(writer->output, name, "given up", i % 5 != 0, &error);
		if (!writer->code)
			writer->code = write_file(writer->output, name, content, true, &error);
		/* All write this one: the last to keep it wins, whole. */
		if (!writer->code)
			writer->code = write_file(writer->output, "shared", "same for all", true, &error);
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	enum { WRITERS = 4 };
	struct fixture *f = *state;
	struct weir_output_options options = {0};
	struct weir_output *output;
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	char path[128], content[64], want[64];
	bool ignored;
	FILE *file;

	assert_ok(f, weir_output_begin(f->account, "out/", &options, &output, &ignored, &f->error));
	for (int w = 0; w < WRITERS; w++) {
		writers[w] = (struct writer){.output = output, .number = w};
		assert_int_equal(pthread_create(&threads[w], NULL, writer_run, &writers[w]), 0);
	}
	for (int w = 0; w < WRITERS; w++) {
		pthread_join(threads[w], NULL);
		assert_int_equal(writers[w].code, 0);
	}
	assert_ok(f, weir_output_commit(output, &f->error));
	weir_output_free(output);
	for (int w = 0; w < WRITERS; w++)
		for (int i = 0; i < 50; i++) {
			snprintf(path, sizeof(path), "out/k=%d/part-%d-%d", i % 3, w, i);
			snprintf(want, sizeof(want), "%d of %d", i, w);
			file = fopen(path, "r");
			assert_non_null(file);
			content[fread(content, 1, sizeof(content) - 1, file)] = '\0';
			fclose(file);
			assert_string_equal(content, want);
		}
	assert_int_equal(access("out/shared", F_OK), 0);
}

/* Leftovers that no run of ours would have left so. */
static void test_foreign_leftovers(void **state)
{
	/* A name that leads outside, in a journal whose checksum is right. */
	char hostile[] = "weir-journal-1\nout\0N\x01\0\0\0\0\0\0\0../victim\0CRC";
	size_t size = sizeof(hostile) - 1, body = size - 3;
	struct fixture *f = *state;
	static char now[SNAPSHOT_SIZE];
	uint32_t crc = weir_crc32c(0, hostile, body);
	unsigned char bytes[128];

	memcpy(bytes, hostile, body);
	for (int i = 0; i < 4; i++)
		bytes[body + (size_t)i] = (unsigned char)(crc >> 8 * i);
	for (size_t cut = 0; cut <= body + 4; cut++) {
		FILE *file;

		mkdir("out", 0777);
		put("out/x", "1");
		put("victim", "lives");
		mkdir(".out.weir-00000000000000aa", 0777);
		put(".out.weir-00000000000000aa/data", "1");
		file = fopen(".out.weir-00000000000000aa/.weir-journal", "w");
		assert_int_equal(fwrite(bytes, 1, cut, file), cut);
		fclose(file);
		mkdir("out/.weir-00000000000000bb", 0777);
		put(".out.weir-00000000000000cc", "a file of that name");
		assert_int_equal(symlink("out", ".out.weir-00000000000000dd"), 0);
		assert_ok(f, weir_output_recover(f->account, "out", &f->error));
		snapshot(".", false, now);
		assert_string_equal(now, "./\n./.out.weir-00000000000000cc=a file of that name\n"
					 "./.out.weir-00000000000000dd/\n./.out.weir-00000000000000dd/x=1\n"
					 "./out/\n./out/x=1\n./victim=lives\n");
		unlink(".out.weir-00000000000000cc");
		unlink(".out.weir-00000000000000dd");
	}
	/* Another user's. */
	mkdir(".out.weir-00000000000000ee", 0777);
	if (!geteuid() && !chown(".out.weir-00000000000000ee", 12345, 12345)) {
		assert_ok(f, weir_output_recover(f->account, "out", &f->error));
		assert_int_equal(access(".out.weir-00000000000000ee", F_OK), 0);
	}
	assert_ok(f, weir_output_recover(f->account, "not/there/at/all", &f->error));
}

/* A folder that one may write to, in a directory that one may not, perhaps not even read. */
static void test_closed_parent(void **state)
{
	static const mode_t parents[] = {0755, 0711};
	int status;

	(void)state;
	if (geteuid()) {
		print_message("only root can become another user: skipped\n");
		skip();
	}
	assert_int_equal(chmod(".", 0711), 0);
	for (int p = 0; p < 2; p++) {
		pid_t child;

		mkdir("parent", 0777);
		mkdir("parent/out", 0777);
		assert_int_equal(chown("parent/out", 65534, 65534), 0);
		assert_int_equal(chmod("parent", parents[p]), 0);
		child = fork();
		if (!child) {
			static char now[SNAPSHOT_SIZE];
			struct weir_output_options options = {.mode = WEIR_MODE_APPEND};
			struct weir_error error;
			struct weir_mem *mem;

			if (setgid(65534) || setuid(65534) || weir_mem_new(0, &mem, &error) ||
			    run_output(weir_mem_root(mem), "parent/out", &options, &error))
				_exit(2);
			put("parent/out/more", "1");
			options.mode = WEIR_MODE_OVERWRITE;
			if (run_output(weir_mem_root(mem), "parent/out", &options, &error))
				_exit(3);
			snapshot("parent/out", false, now);
			if (strstr(now, "more") || strstr(now, ".weir-") || !strstr(now, "new-1=one"))
				_exit(4);
			/* And a place where nothing can be made is found out before anything is read. */
			options.single_file = true;
			_exit(run_output(weir_mem_root(mem), "parent/file", &options, &error) == WEIR_E_IO ? 0 : 5);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		remove_all("parent");
	}
}

/* A folder that is a mount point is written to from inside, in every mode. */
static void test_mount_point(void **state)
{
	struct fixture *f = *state;
	pid_t child;
	int status;

	(void)f;
	mkdir("out", 0777);
	child = fork();
	if (!child) {
		static char now[SNAPSHOT_SIZE];
		struct weir_output_options options = {.mode = WEIR_MODE_APPEND};
		struct weir_error error;
		struct weir_mem *mem;

		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("weir", "out", "tmpfs", 0, "size=64k") < 0)
			_exit(77);
		if (weir_mem_new(0, &mem, &error) || run_output(weir_mem_root(mem), "out", &options, &error))
			_exit(2);
		snapshot("out", true, now);
		if (strcmp(now, NEW_FILES))
			_exit(3);
		put("out/more", "1");
		options.mode = WEIR_MODE_OVERWRITE;
		if (run_output(weir_mem_root(mem), "out", &options, &error))
			_exit(4);
		snapshot("out", true, now);
		if (strcmp(now, NEW_FILES))
			_exit(5);
		/* And it is small: a full disk is an error that says so, and leaves what was there. */
		{
			static char much[200000];
			struct weir_output_file *file;
			struct weir_output *output;
			bool ignored;

			if (weir_output_begin(weir_mem_root(mem), "out", &options, &output, &ignored, &error) ||
			    weir_output_file_new(output, "big", &file, &error))
				_exit(6);
			if (weir_output_file_write(file, much, sizeof(much), &error) != WEIR_E_NO_SPACE)
				_exit(7);
			weir_output_file_close(file, false, &error);
			weir_output_free(output);
		}
		snapshot("out", false, now);
		_exit(strstr(now, ".weir-") ? 8 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("no leave to mount: skipped\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(test_no_space_says_where_and_how_much, scratch_setup, scratch_teardown),
#endif
		cmocka_unit_test_setup_teardown(test_modes, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_no_files_make_nothing, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_hostile_names, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_places, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_permissions_follow_umask, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_two_runs_at_once, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_many_threads, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_foreign_leftovers, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_closed_parent, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_mount_point, scratch_setup, scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
