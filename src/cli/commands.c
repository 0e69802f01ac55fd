/* The commands beside chains: schema, head, count, explain. */
#include "base/log.h"
#include "cli/cli_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_ROWS = 10, SHOW_ROWS = 20 };

/* read PATH … from the command's words (without the command itself). */
static int read_paths(struct weir_job *job, const struct cli *cli, struct weir_error *err)
{
	if (cli->count < 2)
		return weir_error_set(err, WEIR_E_INVALID, "which file or folder? (weir help %s)", cli->words[0]);
	cli->words[0] = "read";
	return weir_plan_parse_words(job->plan, cli->words, cli->count, err);
}

static int finish(struct weir_job *job, int code, const struct weir_error *err)
{
	weir_job_release(job);
	if (!code && fflush(stdout)) {
		fprintf(stderr, "weir: cannot write to standard output: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	return code ? cli_fail(err) : EXIT_OK;
}

/* Lines that hold names: what could move the cursor is escaped, between characters only. */
static void print_safe(const char *text, size_t size)
{
	enum { PIECE = 256 };
	char safe[4 * PIECE];

	while (size > 0) {
		size_t line = strcspn(text, "\n"), piece = line < PIECE ? line : PIECE;

		while (piece < line && piece > 1 && ((unsigned char)text[piece] & 0xc0) == 0x80)
			piece--;
		fwrite(safe, 1, weir_log_escape(safe, 0, text, piece), stdout);
		if (piece == line && piece < size) {
			putchar('\n');
			piece++;
		}
		text += piece;
		size -= piece;
	}
}

static bool ends_in_sink(const struct weir_plan *plan)
{
	return weir_plan_root(plan)->op->ends;
}

static void print_count(struct weir_job *job)
{
	struct weir_run_stats stats;

	weir_local_run_stats(job->run, &stats);
	printf("%llu\n", (unsigned long long)stats.rows_out);
}

static bool wants_table(const struct cli *cli)
{
	return cli->output ? strcmp(cli->output, "table") == 0 : isatty(STDOUT_FILENO) != 0;
}

/* A chain without an end: a table for people, CSV for programs. */
static int show_or_pipe(const struct cli *cli, struct weir_job *job, int64_t rows, struct weir_error *err)
{
	struct weir_setting format = {.name = "format", .value = cli->output};
	struct weir_words target = {.count = 1,
				    .words = (const char *const[]){"-"},
				    .option_count = cli->output ? 1 : 0,
				    .options = &format};
	int code;

	if (wants_table(cli))
		return cli_show(cli, job, rows, err);
	code = weir_plan_add(job->plan, "write", &target, err);
	return code ? code : cli_run(cli, job, err);
}

int cli_chain(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code)
		code = weir_plan_parse_words(job.plan, cli->words, cli->count, &err);
	if (!code && cli->output && ends_in_sink(job.plan))
		code = weir_error_set(&err, WEIR_E_INVALID,
				      "--output is for chains that are shown; this one ends in %s",
				      weir_plan_root(job.plan)->op->verb);
	if (!code)
		code = ends_in_sink(job.plan) ? cli_run(cli, &job, &err)
					      : show_or_pipe(cli, &job, cli->rows >= 0 ? cli->rows : SHOW_ROWS, &err);
	if (!code && strcmp(weir_plan_root(job.plan)->op->verb, "count") == 0)
		print_count(&job);
	return finish(&job, code, &err);
}

int cli_schema(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	struct weir_text text;
	int code = weir_job_init(&job, &cli->session, &err);

	if (code)
		return finish(&job, code, &err);
	weir_text_init(&text, weir_session_account(job.session));
	code = read_paths(&job, cli, &err);
	if (!code)
		code = weir_plan_bind(job.plan, &err);
	if (!code)
		code = weir_schema_print(weir_plan_root(job.plan)->schema, &text, &err);
	if (!code && text.size) {
		print_safe(text.data, text.size);
		if (text.data[text.size - 1] != '\n')
			putchar('\n');
	}
	weir_text_release(&text);
	return finish(&job, code, &err);
}

int cli_head(const struct cli *cli)
{
	int64_t rows = cli->rows >= 0 ? cli->rows : HEAD_ROWS;
	char limit[24];
	struct weir_words one = {.count = 1, .words = (const char *const[]){limit}};
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	snprintf(limit, sizeof(limit), "%lld", (long long)rows);
	if (!code)
		code = read_paths(&job, cli, &err);
	if (!code && !wants_table(cli))
		code = weir_plan_add(job.plan, "limit", &one, &err);
	if (!code)
		code = show_or_pipe(cli, &job, rows, &err);
	return finish(&job, code, &err);
}

int cli_count(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code)
		code = read_paths(&job, cli, &err);
	if (!code)
		code = weir_plan_add(job.plan, "count", &(struct weir_words){0}, &err);
	if (!code)
		code = cli_run(cli, &job, &err);
	if (!code)
		print_count(&job);
	return finish(&job, code, &err);
}

/* Both plans, and how the run would be set up. */
static int explain(struct weir_job *job, struct weir_text *text, struct weir_error *err)
{
	char bytes[32];
	int code = weir_plan_bind(job->plan, err);

	if (!code)
		code = weir_text_puts(text, "Logical plan\n", err);
	if (!code)
		code = weir_plan_explain(job->plan, text, err);
	if (!code)
		code = weir_plan_optimise(job->plan, err);
	if (!code)
		code = weir_text_puts(
			text, "\nPhysical plan: one fragment, run by each lane for one split after another\n", err);
	if (!code)
		code = weir_plan_explain(job->plan, text, err);
	if (!code)
		code = weir_text_printf(
			text, err, "\n%u lane%s, memory limit %s\n", weir_session_threads(job->session),
			weir_session_threads(job->session) == 1 ? "" : "s",
			weir_format_bytes(weir_session_memory_limit(job->session), bytes, sizeof(bytes)));
	return code;
}

int cli_explain(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	struct weir_text text;
	int code = weir_job_init(&job, &cli->session, &err);

	if (code)
		return finish(&job, code, &err);
	weir_text_init(&text, weir_session_account(job.session));
	if (cli->count == 2)
		code = weir_plan_parse_text(job.plan, cli->words[1], &err);
	else if (cli->count > 2)
		code = weir_plan_parse_words(job.plan, cli->words + 1, cli->count - 1, &err);
	else
		code = weir_error_set(&err, WEIR_E_INVALID, "explain what? weir explain 'read … then …'");
	if (!code)
		code = explain(&job, &text, &err);
	if (!code)
		print_safe(text.data, text.size);
	weir_text_release(&text);
	return finish(&job, code, &err);
}

const struct cli_command cli_commands[] = {
	{"schema", "schema PATH …", "Prints the columns and their types.\n\n  weir schema data/\n", cli_schema},
	{"head", "head PATH … [-n ROWS] [-o FORMAT]",
	 "Shows the first rows: a table on a terminal, CSV into a pipe.\n\n  weir head data/ -n 5\n  weir head data/ -o table | less\n",
	 cli_head},
	{"count", "count PATH …", "Counts rows, from footers where they tell.\n\n  weir count data/\n", cli_count},
	{"explain", "explain 'read … then …'",
	 "Shows what would be done: the plan as written and as it will run, with what was pushed where.\n\n"
	 "  weir explain 'read data/ then filter \"price > 100\" then select name'\n",
	 cli_explain},
	{"completion", "completion", "Prints completion for bash.\n\n  source <(weir completion)\n", cli_completion},
	{"man", "man", "Prints the manual page.\n\n  weir man | man -l -\n", cli_man},
	{0},
};
