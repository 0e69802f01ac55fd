/* What stands in the target's place is what was there before, or the whole new output, whatever fails or is killed: a
 * child is killed before each call that changes a file, and each call fails, once or from then on. */
#include "output_test.h"

#include "base/log.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct scenario {
	const char *name;
	enum weir_write_mode mode;
	enum { NOTHING, EMPTY, FILLED, ONE_FILE } before;
	bool single, durable, standing_inside;
	const char *target;
	const char *after; /* visible when it has worked */
	bool by_journal;   /* then a killed run may show both until it is recovered */
};

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
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scenarios, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_killed_at_every_step, scratch_setup, scratch_teardown),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(test_every_failure, scratch_setup, scratch_teardown),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
