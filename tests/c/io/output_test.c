/* What stands in the target's place is what was there before, or the whole new output, whatever fails or is killed. */
#include "io_test.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "io/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SNAPSHOT_SIZE = 8192 };

static char start[256], scratch[64];

/* ---- what lies in a directory ---- */

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void note(char *out, const char *text)
{
	size_t size = strlen(out);

	assert_true(size + strlen(text) + 1 < SNAPSHOT_SIZE);
	memcpy(out + size, text, strlen(text) + 1);
}

/* Lines "path=content" of all files and "path/" of all directories below, sorted. `visible`: as a reader lists them. */
static void look(const char *path, bool visible, char *out)
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

static void snapshot(const char *path, bool visible, char *out)
{
	out[0] = '\0';
	look(path, visible, out);
}

static void remove_all(const char *path)
{
	char command[512];
	struct dirent *dirent;
	DIR *list = opendir(path);

	if (!list) {
		unlink(path);
		return;
	}
	while ((dirent = readdir(list))) {
		if (!strcmp(dirent->d_name, ".") || !strcmp(dirent->d_name, ".."))
			continue;
		snprintf(command, sizeof(command), "%s/%s", path, dirent->d_name);
		remove_all(command);
	}
	closedir(list);
	rmdir(path);
}

static void put(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	close(fd);
}

static int scratch_setup(void **state)
{
	assert_non_null(getcwd(start, sizeof(start)));
	/* Where a sync costs nothing, if there is such a place: the sweeps make thousands. */
	snprintf(scratch, sizeof(scratch), "%s/weir-output-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(scratch));
	assert_int_equal(chdir(scratch), 0);
	return fixture_setup(state);
}

static int scratch_teardown(void **state)
{
#ifdef WEIR_FAULTS
	weir_fault_disarm();
#endif
	assert_int_equal(chdir(start), 0);
	remove_all(scratch);
	return fixture_teardown(state);
}

/* ---- one output ---- */

static int write_file(struct weir_output *output, const char *name, const char *content, bool keep,
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
static int run_output(struct weir_account *account, const char *target, const struct weir_output_options *options,
		      struct weir_error *err)
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

struct scenario {
	const char *name;
	enum weir_write_mode mode;
	enum { NOTHING, EMPTY, FILLED, ONE_FILE } before;
	bool single, durable, standing_inside;
	const char *target;
	const char *after; /* visible when it has worked */
	bool by_journal;   /* then a killed run may show both until it is recovered */
};

#define NEW_FILES "out/a=1/b/new-2=two\nout/a=1/old-and-new=new\nout/new-1=one\n"
#define BOTH_FILES                                                                                                     \
	"out/a=1/b/new-2=two\nout/a=1/c/old-2=2\nout/a=1/old-and-new=new\nout/new-1=one\nout/old-1=1\nout/old-3/x=3\n"

static const struct scenario scenarios[] = {
	{"new folder", WEIR_MODE_APPEND, NOTHING, .target = "out/", .after = NEW_FILES},
	{"new folder, durable", WEIR_MODE_ERROR, NOTHING, .durable = true, .target = "out/", .after = NEW_FILES},
	{"new parents", WEIR_MODE_IGNORE, NOTHING, .target = "p/q/out/", .after = NEW_FILES, .durable = true},
	{"empty folder", WEIR_MODE_APPEND, EMPTY, .target = "out", .after = NEW_FILES},
	{"empty folder, overwrite", WEIR_MODE_OVERWRITE, EMPTY, .target = "out", .after = NEW_FILES, .durable = true},
	{"empty folder, error", WEIR_MODE_ERROR, EMPTY, .target = "out/", .after = NEW_FILES},
	{"overwrite", WEIR_MODE_OVERWRITE, FILLED, .target = "out", .after = NEW_FILES},
	{"overwrite, durable", WEIR_MODE_OVERWRITE, FILLED, .target = "out/", .after = NEW_FILES, .durable = true},
	{"append", WEIR_MODE_APPEND, FILLED, .target = "out", .after = BOTH_FILES, .by_journal = true},
	{"append, durable", WEIR_MODE_APPEND, FILLED, .target = "out", .after = BOTH_FILES, .durable = true,
	 .by_journal = true},
	{"in the working directory", WEIR_MODE_APPEND, EMPTY, .target = ".", .after = NEW_FILES, .by_journal = true,
	 .standing_inside = true},
	{"overwrite the working directory", WEIR_MODE_OVERWRITE, FILLED, .target = ".", .after = NEW_FILES,
	 .by_journal = true, .standing_inside = true},
	{"append to the working directory", WEIR_MODE_APPEND, FILLED, .target = "../out", .after = BOTH_FILES,
	 .by_journal = true, .standing_inside = true, .durable = true},
	{"one file", WEIR_MODE_APPEND, NOTHING, .single = true, .target = "out", .after = "out=new\n"},
	{"one file, error, durable", WEIR_MODE_ERROR, NOTHING, .single = true, .target = "out", .after = "out=new\n",
	 .durable = true},
	{"one file, overwrite", WEIR_MODE_OVERWRITE, ONE_FILE, .single = true, .target = "out", .after = "out=new\n"},
	{"one file, overwrite, durable", WEIR_MODE_OVERWRITE, ONE_FILE, .single = true, .target = "out",
	 .after = "out=new\n", .durable = true},
};

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

/* The place is prepared in a fresh folder "w", in which everything happens. */
static void prepare(const struct scenario *s)
{
	remove_all("w");
	assert_int_equal(mkdir("w", 0777), 0);
	assert_int_equal(chdir("w"), 0);
	put("bystander", "stays");
	mkdir(".out.weir-0123456789abcdeg", 0777); /* no name of ours */
	if (s->before == ONE_FILE)
		put("out", "old");
	if (s->before == EMPTY || s->before == FILLED)
		mkdir("out", 0777);
	if (s->before == FILLED) {
		put("out/old-1", "1");
		mkdir("out/a=1", 0777);
		mkdir("out/a=1/c", 0777);
		put("out/a=1/c/old-2", "2");
		mkdir("out/old-3", 0777);
		put("out/old-3/x", "3");
		if (s->mode == WEIR_MODE_OVERWRITE)
			put("out/a=1/old-and-new", "old");
	}
	if (s->standing_inside)
		assert_int_equal(chdir("out"), 0);
}

static void leave(const struct scenario *s)
{
	assert_int_equal(chdir(s->standing_inside ? "../.." : ".."), 0);
}

static struct weir_output_options options_of(const struct scenario *s)
{
	return (struct weir_output_options){.mode = s->mode, .durable = s->durable, .single_file = s->single};
}

static void visible_state(const struct scenario *s, char *out)
{
	if (s->standing_inside)
		assert_int_equal(chdir(".."), 0);
	if (!strncmp(s->target, "p/q", 3))
		assert_int_equal(chdir("p/q") && errno != ENOENT, 0);
	snapshot("out", true, out);
	if (!strncmp(s->target, "p/q", 3)) {
		assert_int_equal(chdir(scratch), 0);
		assert_int_equal(chdir("w"), 0);
	}
	if (s->standing_inside)
		assert_int_equal(chdir("out"), 0);
}

/* Nothing is left but what the user knows of: no hidden name except the bystander's. */
static void assert_clean(const struct scenario *s, const char *when)
{
	static char all[SNAPSHOT_SIZE];
	char *at = all;

	if (s->standing_inside)
		assert_int_equal(chdir(".."), 0);
	snapshot(".", false, all);
	if (s->standing_inside)
		assert_int_equal(chdir("out"), 0);
	assert_non_null(strstr(all, "./bystander=stays\n"));
	while ((at = strstr(at, ".weir-"))) {
		if (strncmp(at, ".weir-0123456789abcdeg", 22))
			fail_msg("%s, %s: something is left:\n%s", s->name, when, all);
		at++;
	}
}

/* What the next run does, or `recover`, by turns. */
static void recover(struct fixture *f, const struct scenario *s, uint64_t turn)
{
	struct weir_output_options options = options_of(s);
	struct weir_output *output;
	bool ignored;
	int code;

	if (turn % 2) {
		assert_ok(f, weir_output_recover(f->account, s->target, &f->error));
		return;
	}
	code = weir_output_begin(f->account, s->target, &options, &output, &ignored, &f->error);
	assert_true(code == WEIR_OK || code == WEIR_E_EXISTS);
	if (!code && !ignored)
		weir_output_free(output);
}

static void test_scenarios(void **state)
{
	struct fixture *f = *state;
	static char before[SNAPSHOT_SIZE], after[SNAPSHOT_SIZE];

	for (int i = 0; i < SCENARIOS; i++) {
		const struct scenario *s = &scenarios[i];
		struct weir_output_options options = options_of(s);

		prepare(s);
		visible_state(s, before);
		assert_ok(f, run_output(f->account, s->target, &options, &f->error));
		visible_state(s, after);
		if (strcmp(after, s->after))
			fail_msg("%s: there is\n%sinstead of\n%s", s->name, after, s->after);
		assert_clean(s, "after success");
		leave(s);
	}
}

/* ---- killed at every step ---- */

static bool changes_files(uint64_t number)
{
	switch (number) {
#ifdef SYS_rename
	case SYS_rename:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_unlink:
	case SYS_open:
	case SYS_chmod:
	case SYS_link:
#endif
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_mkdirat:
	case SYS_unlinkat:
	case SYS_openat:
	case SYS_linkat:
	case SYS_fchmod:
	case SYS_fchmodat:
	case SYS_write:
	case SYS_fsync:
	case SYS_flock:
	case SYS_close:
		return true;
	}
	return false;
}

/* Runs the output in a child and kills it before its n-th step. True when it came to its end before. */
static bool run_and_kill(const struct scenario *s, uint64_t nth)
{
	struct weir_output_options options = options_of(s);
	uint64_t steps = 0;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		struct weir_error error;
		struct weir_mem *mem;

		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || weir_mem_new(0, &mem, &error))
			_exit(3);
		raise(SIGSTOP);
		_exit(run_output(weir_mem_root(mem), s->target, &options, &error) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status))
		fail_msg("the child cannot be traced");
	ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		struct __ptrace_syscall_info info = {0};

		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return true;
		}
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof(info), &info);
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(info.entry.nr) || ++steps < nth)
			continue;
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		return false;
	}
}

static void test_killed_at_every_step(void **state)
{
	struct fixture *f = *state;
	static char before[SNAPSHOT_SIZE], now[SNAPSHOT_SIZE];
	uint64_t kills = 0;

	for (int i = 0; i < SCENARIOS; i++) {
		const struct scenario *s = &scenarios[i];
		bool done = false, seen_new = false;

		for (uint64_t nth = 1; !done; nth++) {
			bool is_new;

			prepare(s);
			visible_state(s, before);
			done = run_and_kill(s, nth);
			kills += !done;
			visible_state(s, now);
			if (!s->by_journal && strcmp(now, before) && strcmp(now, s->after))
				fail_msg("%s, killed at step %llu: there is\n%s", s->name, (unsigned long long)nth,
					 now);
			is_new = !strcmp(now, s->after);
			recover(f, s, nth);
			visible_state(s, now);
			if (strcmp(now, before) && strcmp(now, s->after))
				fail_msg("%s, killed at step %llu, recovered: there is\n%s", s->name,
					 (unsigned long long)nth, now);
			/* What was new stays new, and once a step decides, all later ones do. */
			if ((is_new || seen_new || done) && strcmp(now, s->after))
				fail_msg("%s, killed at step %llu: the new state was taken back", s->name,
					 (unsigned long long)nth);
			seen_new = !strcmp(now, s->after);
			assert_clean(s, "killed and recovered");
			leave(s);
			assert_true(nth < 1000);
		}
	}
	printf("%llu kills\n", (unsigned long long)kills);
}

/* ---- every call fails once, or from then on ---- */

#ifdef WEIR_FAULTS
static void test_every_failure(void **state)
{
	static const struct {
		enum weir_fault_kind kind;
		int errno_value;
	} faults[] = {{WEIR_FAULT_ALLOC, ENOMEM}, {WEIR_FAULT_OPEN, EIO},      {WEIR_FAULT_OPEN, EACCES},
		      {WEIR_FAULT_WRITE, ENOSPC}, {WEIR_FAULT_WRITE, EINTR},   {WEIR_FAULT_SYNC, EIO},
		      {WEIR_FAULT_RENAME, EIO},   {WEIR_FAULT_RENAME, EINVAL}, {WEIR_FAULT_RENAME, EXDEV},
		      {WEIR_FAULT_RENAME, ENOSPC}};
	struct fixture *f = *state;
	static char before[SNAPSHOT_SIZE], now[SNAPSHOT_SIZE], all[SNAPSHOT_SIZE];
	uint64_t failures = 0;

	weir_log_level_set(WEIR_LOG_ERROR); /* what cannot be cleaned up is warned of, and that is often now */
	for (int i = 0; i < SCENARIOS * 2; i++) {
		const struct scenario *s = &scenarios[i / 2];
		bool always = i % 2;
		struct weir_output_options options = options_of(s);

		for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
			bool hit = true;

			/* No kernel says EINTR for ever; and of the rest few say it all. */
			if (always && faults[k].errno_value != ENOSPC && faults[k].errno_value != EIO &&
			    faults[k].errno_value != EINVAL)
				continue;
			for (uint64_t nth = 1; hit; nth++) {
				bool late, is_new;
				int code;

				prepare(s);
				visible_state(s, before);
				weir_fault_disarm();
				weir_fault_arm(faults[k].kind, nth, faults[k].errno_value, always);
				code = run_output(f->account, s->target, &options, &f->error);
				hit = weir_fault_count(faults[k].kind) >= nth;
				weir_fault_disarm();
				assert_int_equal(f->account->used, 0);
				failures += code != WEIR_OK;
				visible_state(s, now);
				is_new = !strcmp(now, s->after);
				late = code && (strstr(f->error.message, "in its place, but") ||
						strstr(f->error.message, "will finish it"));
				if (!late && strcmp(now, code ? before : s->after))
					fail_msg("%s, fault %d:%llu:%d%s, code %d (%s): there is\n%s", s->name,
						 (int)faults[k].kind, (unsigned long long)nth, faults[k].errno_value,
						 always ? ":always" : "", code, code ? f->error.message : "", now);
				if (code && !f->error.source[0])
					fail_msg("no path in \"%s\"", f->error.message);
				if (code && faults[k].errno_value == ENOSPC && !late)
					assert_int_equal(f->error.code, WEIR_E_NO_SPACE);
				/* One failure is cleaned up after at once, unless it is the cleaning that failed. */
				if (!always && faults[k].kind != WEIR_FAULT_RENAME &&
				    !(faults[k].kind == WEIR_FAULT_SYNC && s->by_journal))
					assert_clean(s, "after a failure");
				recover(f, s, nth);
				visible_state(s, now);
				if (strcmp(now, before) && strcmp(now, s->after))
					fail_msg("%s, fault %d:%llu, recovered: there is\n%s", s->name,
						 (int)faults[k].kind, (unsigned long long)nth, now);
				if (is_new)
					assert_string_equal(now, s->after);
				assert_clean(s, "failed and recovered");
				/* Parents that were made are gone again. */
				if (code && !late && faults[k].kind != WEIR_FAULT_RENAME) {
					snapshot(".", false, all);
					assert_null(strstr(all, "p/q"));
				}
				leave(s);
				assert_true(nth < 500);
			}
		}
	}
	weir_log_level_set(WEIR_LOG_WARN);
	printf("%llu failures\n", (unsigned long long)failures);
}

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

/* ---- modes, names, places ---- */

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
	assert_string_equal(now, "./\n./d/\n./empty/\n");
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
		cmocka_unit_test_setup_teardown(test_scenarios, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_killed_at_every_step, scratch_setup, scratch_teardown),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(test_every_failure, scratch_setup, scratch_teardown),
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
