/* Lines come out whole, one write each, with nothing in them that a terminal would obey. */
#include "base/log.h"
#include "base/cpu.h"
#include "base/utf8.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int stderr_kept = -1, pipe_read = -1;

/* From here to `caught`, stderr goes into a pipe, which holds 64 KiB at least. */
static void catch (void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	stderr_kept = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	pipe_read = ends[0];
}

static const char *caught(void)
{
	static char text[65536];
	size_t used = 0;
	ssize_t n;

	dup2(stderr_kept, STDERR_FILENO);
	close(stderr_kept);
	while ((n = read(pipe_read, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	close(pipe_read);
	text[used] = '\0';
	return text;
}

static void levels_choose(void **state)
{
	(void)state;
	weir_log_level_set(WEIR_LOG_INFO);
	assert_int_equal(weir_log_level(), WEIR_LOG_INFO);
	catch ();
	errno = EBUSY;
	weir_log(WEIR_LOG_INFO, "%d files", 3);
	assert_int_equal(errno, EBUSY);
	weir_log(WEIR_LOG_DEBUG, "not this");
	weir_log(WEIR_LOG_ERROR, "that");
	assert_string_equal(caught(), "weir: info: 3 files\nweir: error: that\n");
}

static void controls_are_escaped(void **state)
{
	(void)state;
	catch ();
	weir_log(WEIR_LOG_ERROR, "a\nb\tc\r\x1b[31m\x7f é € 𝄞 \xc2\x9b \xff \xe2\x82 \xed\xa0\x80 \\");
	assert_string_equal(caught(), "weir: error: a\\nb\\tc\\x0d\\x1b[31m\\x7f é € 𝄞 \\xc2\\x9b \\xff \\xe2\\x82 "
				      "\\xed\\xa0\\x80 \\\n");
}

static void long_lines_are_cut_between_characters(void **state)
{
	char message[6000];
	const char *line;

	(void)state;
	for (int shift = 0; shift < 3; shift++) {
		for (size_t i = 0; i + 3 < sizeof(message); i += 3)
			memcpy(message + i, "€", 3);
		memset(message, 'x', (size_t)shift);
		memcpy(message + shift, "€€", 6 - (size_t)shift);
		message[sizeof(message) - 3] = '\0';
		for (size_t i = (size_t)shift; i + 3 < sizeof(message) - 3; i += 3)
			memcpy(message + i, "€", 3);
		catch ();
		weir_log(WEIR_LOG_ERROR, "%s", message);
		line = caught();
		assert_true(strlen(line) > 4000 && strlen(line) < 4200);
		assert_true(weir_utf8_valid(line, strlen(line)));
		assert_null(strchr(line, '\\'));
		assert_int_equal(line[strlen(line) - 1], '\n');
	}
	/* Every byte escaped: four times as long, and still whole. */
	memset(message, '\x01', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	catch ();
	weir_log(WEIR_LOG_ERROR, "%s", message);
	line = caught();
	assert_int_equal(strlen(line), strlen("weir: error: ") + 4 * 4095 + 1);
}

static void step_aside(void *context)
{
	(void)!write(STDERR_FILENO, context, 1);
}

static void the_hook_is_called_around(void **state)
{
	static char mark[] = "|";

	(void)state;
	weir_log_hook(step_aside, step_aside, mark);
	catch ();
	weir_log(WEIR_LOG_ERROR, "x");
	assert_string_equal(caught(), "|weir: error: x\n|");
	weir_log_hook(NULL, NULL, NULL);
}

static void *log_lines(void *context)
{
	for (int i = 0; i < 100; i++)
		weir_log(WEIR_LOG_ERROR, "%s", (const char *)context);
	return NULL;
}

static void lines_do_not_mix(void **state)
{
	static char a[100], b[100];
	pthread_t threads[2];
	char *rest, *line;
	int lines = 0;

	(void)state;
	memset(a, 'a', sizeof(a) - 1);
	memset(b, 'b', sizeof(b) - 1);
	catch ();
	pthread_create(&threads[0], NULL, log_lines, a);
	pthread_create(&threads[1], NULL, log_lines, b);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	rest = (char *)(uintptr_t)caught();
	while ((line = strsep(&rest, "\n")) && *line) {
		line += strlen("weir: error: ");
		assert_true(strcmp(line, a) == 0 || strcmp(line, b) == 0);
		lines++;
	}
	assert_int_equal(lines, 200);
}

/* The environment is read once in a process, so each case gets its own. */
static const char *child_says(const char *self, const char *name, const char *value, const char *what)
{
	static char text[4096];
	char command[5000];
	size_t used;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s='%s' '%s' %s 2>&1", name, value, self, what);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	used = fread(text, 1, sizeof(text) - 1, pipe);
	text[used] = '\0';
	assert_int_equal(pclose(pipe), 0);
	return text;
}

static char self[4096];

static void the_environment_sets_the_level(void **state)
{
	static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

	(void)state;
	for (int level = 0; level < 5; level++)
		assert_int_equal(child_says(self, "WEIR_LOG", names[level], "level")[0], '0' + level);
	assert_string_equal(child_says(self, "WEIR_LOG", "", "level"), "1\n");
	assert_string_equal(child_says(self, "WEIR_LOG", "loud", "level"), "1\n");
}

static void the_environment_sets_the_cpu(void **state)
{
	char best[16];

	(void)state;
	snprintf(best, sizeof(best), "%s", child_says(self, "WEIR_CPU", "", "cpu"));
	best[strcspn(best, "\n")] = '\0';
	assert_true(strcmp(best, "v2") == 0 || strcmp(best, "v3") == 0 || strcmp(best, "v4") == 0);
	assert_string_equal(child_says(self, "WEIR_CPU", "v2", "cpu"), "v2\n");
	assert_non_null(strstr(child_says(self, "WEIR_CPU", best, "cpu"), best));
	/* An unknown one is reported, and the machine's own is used. */
	assert_non_null(strstr(child_says(self, "WEIR_CPU", "v9", "cpu"), "WEIR_CPU=v9"));
	assert_non_null(strstr(child_says(self, "WEIR_CPU", "v9", "cpu"), best));
	if (strcmp(best, "v4") != 0)
		assert_non_null(strstr(child_says(self, "WEIR_CPU", "v4", "cpu"), "only"));
	assert_string_equal(weir_cpu_name(WEIR_CPU_V3), "v3");
}

static void keep_line(void *data, enum weir_log_level level, const char *line)
{
	snprintf(data, 100, "%d %s", (int)level, line);
}

static void a_thread_may_log_elsewhere(void **state)
{
	char kept[100] = "";
	struct weir_log_sink sink = {keep_line, kept};

	(void)state;
	catch ();
	assert_null(weir_log_use(&sink));
	weir_log_write(WEIR_LOG_WARN, "a\n%d", 7);
	assert_ptr_equal(weir_log_use(NULL), &sink);
	weir_log_write(WEIR_LOG_WARN, "b");
	assert_string_equal(caught(), "weir: warn: b\n");
	assert_string_equal(kept, "1 a\\n7");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_choose),
		cmocka_unit_test(controls_are_escaped),
		cmocka_unit_test(long_lines_are_cut_between_characters),
		cmocka_unit_test(the_hook_is_called_around),
		cmocka_unit_test(lines_do_not_mix),
		cmocka_unit_test(a_thread_may_log_elsewhere),
		cmocka_unit_test(the_environment_sets_the_level),
		cmocka_unit_test(the_environment_sets_the_cpu),
	};

	if (argc == 2 && strcmp(argv[1], "level") == 0)
		return printf("%d\n", weir_log_level()) < 0;
	if (argc == 2 && strcmp(argv[1], "cpu") == 0)
		return printf("%s\n", weir_cpu_name(weir_cpu_level())) < 0;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
