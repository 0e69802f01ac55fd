/* What the tests of output share: folders as texts, and one output with everything in it. */
#ifndef WEIR_OUTPUT_TEST_H
#define WEIR_OUTPUT_TEST_H

#include "io_test.h"

#include "base/fault.h"
#include "io/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SNAPSHOT_SIZE = 8192 };

static char start[256], scratch[64]; /* where the test was started, and where it works */

/* ---- what lies in a directory ---- */

static inline int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void note(char *out, const char *text)
{
	size_t size = strlen(out);

	assert_true(size + strlen(text) + 1 < SNAPSHOT_SIZE);
	memcpy(out + size, text, strlen(text) + 1);
}

/* Lines "path=content" of all files and "path/" of all directories below, sorted. `visible`: as a reader lists them. */
static inline void look(const char *path, bool visible, char *out)
{
	char *names[64], below[512], content[256];
	struct dirent *dirent;
	struct stat stat_buffer;
	DIR *list = opendir(path);
	int count = 0, fd;

	if (!list) {
		if (!stat(path, &stat_buffer)) {
			fd = open(path, O_RDONLY);
			snprintf(content, sizeof(content), "%s=", path);
			note(out, content);
			content[read(fd, content, sizeof(content) - 1)] = '\0';
			note(out, content);
			note(out, "\n");
			close(fd);
		}
		return;
	}
	while ((dirent = readdir(list)))
		if (strcmp(dirent->d_name, ".") && strcmp(dirent->d_name, "..") &&
		    !(visible && dirent->d_name[0] == '.'))
			names[count++] = strdup(dirent->d_name);
	closedir(list);
	qsort(names, (size_t)count, sizeof(*names), name_compare);
	if (!visible) {
		note(out, path);
		note(out, "/\n");
	}
	for (int i = 0; i < count; i++) {
		snprintf(below, sizeof(below), "%s/%s", path, names[i]);
		look(below, visible, out);
		free(names[i]);
	}
}

static inline void snapshot(const char *path, bool visible, char *out)
{
	out[0] = '\0';
	look(path, visible, out);
}

static inline void put(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	close(fd);
}

static inline int scratch_setup(void **state)
{
	assert_non_null(getcwd(start, sizeof(start)));
	/* Where a sync costs nothing, if there is such a place: the sweeps make thousands. */
	snprintf(scratch, sizeof(scratch), "%s/weir-output-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(scratch));
	assert_int_equal(chdir(scratch), 0);
	return fixture_setup(state);
}

static inline int scratch_teardown(void **state)
{
#ifdef WEIR_FAULTS
	weir_fault_disarm();
#endif
	assert_int_equal(chdir(start), 0);
	remove_all(scratch);
	return fixture_teardown(state);
}

/* ---- one output ---- */

static inline int write_file(struct weir_output *output, const char *name, const char *content, bool keep,
			     struct weir_error *err)
{
	struct weir_output_file *file;
	size_t half = strlen(content) / 2;
	int code = weir_output_file_new(output, name, &file, err), code_close;

	if (code)
		return code;
	code = weir_output_file_write(file, content, half, err);
	if (!code)
		code = weir_output_file_write(file, content + half, strlen(content) - half, err);
	if (!code)
		assert_int_equal(weir_output_file_size(file), strlen(content));
	code_close = weir_output_file_close(file, keep && !code, code ? &(struct weir_error){0} : err);
	return code ? code : code_close;
}

/* Three files, one of them redone, and one that is given up. */
static inline int run_output(struct weir_account *account, const char *target,
			     const struct weir_output_options *options, struct weir_error *err)
{
	struct weir_output *output;
	bool ignored;
	int code = weir_output_begin(account, target, options, &output, &ignored, err);

	if (code || ignored)
		return code;
	if (options->single_file) {
		code = write_file(output, "no matter", "given up", false, err);
		if (!code)
			code = write_file(output, NULL, "new", true, err);
	} else {
		code = write_file(output, "new-1", "first try", true, err);
		if (!code)
			code = write_file(output, "a=1/b/new-2", "two", true, err);
		if (!code)
			code = write_file(output, "new-3", "given up", false, err);
		if (!code)
			code = write_file(output, "new-1", "one", true, err);
		if (!code)
			code = write_file(output, "a=1/old-and-new", "new", true, err);
	}
	if (!code)
		code = weir_output_commit(output, err);
	weir_output_free(output);
	return code;
}

/* What it leaves in a folder "out". */
#define NEW_FILES "out/a=1/b/new-2=two\nout/a=1/old-and-new=new\nout/new-1=one\n"

#endif
