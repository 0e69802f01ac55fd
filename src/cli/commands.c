/* The commands beside chains: schema, head, cat, count, convert, explain. inspect.c has those that look into data. */
#include "base/log.h"
#include "cli/cli_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_ROWS = 10, SHOW_ROWS = 20 };

/* read PATH … from the command's words (without the command itself). */
int cli_read_paths(struct weir_job *job, const struct cli *cli, struct weir_error *err)
{
	if (cli->count < 2)
		return weir_error_set(err, WEIR_E_INVALID, "which file or folder? (weir help %s)", cli->words[0]);
	cli->words[0] = "read";
	return weir_plan_parse_words(job->plan, cli->words, cli->count, err);
}

int cli_finish(struct weir_job *job, int code, const struct weir_error *err)
{
	weir_job_release(job);
	if (!code && fflush(stdout)) {
		fprintf(stderr, "weir: cannot write to standard output: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	return code ? cli_fail(err) : EXIT_OK;
}

/* What could move the cursor is escaped, line breaks too, between characters only. */
static void print_line(const char *text, size_t size)
{
	enum { PIECE = 256 };
	char safe[4 * PIECE];

	while (size > 0) {
		size_t piece = size < PIECE ? size : PIECE;

		while (piece < size && piece > 1 && ((unsigned char)text[piece] & 0xc0) == 0x80)
			piece--;
		fwrite(safe, 1, weir_log_escape(safe, 0, text, piece), stdout);
		text += piece;
		size -= piece;
	}
}

/* Lines that hold names. */
void cli_print_safe(const char *text, size_t size)
{
	while (size > 0) {
		size_t line = strcspn(text, "\n");

		print_line(text, line);
		if (line < size) {
			putchar('\n');
			line++;
		}
		text += line;
		size -= line;
	}
}

static bool ends_in_sink(const struct weir_plan *plan)
{
	return weir_plan_root(plan)->op->ends;
}

/* A sink whose result is rows to be shown. */
static bool gives_result(const struct weir_plan *plan)
{
	const char *verb = weir_plan_root(plan)->op->verb;

	return strcmp(verb, "sample") == 0 || strcmp(verb, "profile") == 0 || strcmp(verb, "aggregate") == 0;
}

static void print_count(struct weir_job *job)
{
	struct weir_run_stats stats;

	weir_local_run_stats(job->run, &stats);
	printf("%llu\n", (unsigned long long)stats.rows_out);
}

bool cli_wants_table(const struct cli *cli)
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

	if (cli_wants_table(cli))
		return cli_show(cli, job, rows, err);
	code = weir_plan_add(job->plan, "write", &target, err);
	return code ? code : cli_run(cli, job, err);
}

/* The plan knows its operators alone; who types a word where a verb belongs may have meant a command. */
static int check_verbs(const struct cli *cli, struct weir_error *err)
{
	for (uint32_t i = 0; i < cli->count; i++) {
		const char *word = cli->words[i], *nearest;

		if ((i > 0 && strcmp(cli->words[i - 1], "then") != 0) || weir_op_find(word))
			continue;
		for (const struct cli_command *command = cli_commands; i > 0 && command->name; command++) {
			if (strcmp(command->name, word) == 0)
				return weir_error_set(err, WEIR_E_INVALID, "'%s' is a command, not a verb: weir %s",
						      word, command->usage);
		}
		nearest = cli_nearest(word, i == 0);
		return weir_error_set(err, WEIR_E_INVALID, "there is no verb%s '%s'%s%s%s", i == 0 ? " or command" : "",
				      word, nearest ? "; did you mean '" : "", nearest ? nearest : "",
				      nearest ? "'?" : " (weir --help lists them)");
	}
	return WEIR_OK;
}

int cli_chain(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = check_verbs(cli, &err);

	if (!code)
		code = weir_job_init(&job, &cli->session, &err);
	if (!code)
		code = weir_plan_parse_words(job.plan, cli->words, cli->count, &err);
	if (!code && cli->output && ends_in_sink(job.plan) && !gives_result(job.plan))
		code = weir_error_set(&err, WEIR_E_INVALID,
				      "--output is for chains that are shown; this one ends in %s",
				      weir_plan_root(job.plan)->op->verb);
	if (!code && gives_result(job.plan))
		return cli_finish(&job, cli_result(cli, &job, &err), &err);
	if (!code)
		code = ends_in_sink(job.plan) ? cli_run(cli, &job, &err)
					      : show_or_pipe(cli, &job, cli->rows >= 0 ? cli->rows : SHOW_ROWS, &err);
	if (!code && strcmp(weir_plan_root(job.plan)->op->verb, "count") == 0)
		print_count(&job);
	return cli_finish(&job, code, &err);
}

int cli_schema(const struct cli *cli)
{
	const struct weir_schema *schema;
	struct weir_error err = {0};
	struct weir_job job = {0};
	struct weir_text text;
	int code = weir_job_init(&job, &cli->session, &err);

	if (code)
		return cli_finish(&job, code, &err);
	weir_text_init(&text, weir_session_account(job.session));
	code = cli_read_paths(&job, cli, &err);
	if (!code)
		code = weir_plan_bind(job.plan, &err);
	schema = code ? NULL : weir_plan_root(job.plan)->schema;
	for (uint32_t i = 0; !code && i < schema->field_count; i++) {
		weir_text_clear(&text);
		code = weir_field_print(&schema->fields[i], &text, &err);
		if (!code) {
			print_line(text.data, text.size);
			putchar('\n');
		}
	}
	weir_text_release(&text);
	return cli_finish(&job, code, &err);
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
		code = cli_read_paths(&job, cli, &err);
	if (!code && !cli_wants_table(cli))
		code = weir_plan_add(job.plan, "limit", &one, &err);
	if (!code)
		code = show_or_pipe(cli, &job, rows, &err);
	return cli_finish(&job, code, &err);
}

/* Everything, to standard output. */
int cli_cat(const struct cli *cli)
{
	struct weir_setting format = {.name = "format", .value = cli->output};
	struct weir_words target = {.count = 1,
				    .words = (const char *const[]){"-"},
				    .option_count = cli->output ? 1 : 0,
				    .options = &format};
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code && cli->output && strcmp(cli->output, "table") == 0)
		code = weir_error_set(&err, WEIR_E_INVALID, "cat passes rows on as they come; head shows tables");
	if (!code)
		code = cli_read_paths(&job, cli, &err);
	if (!code)
		code = weir_plan_add(job.plan, "write", &target, &err);
	if (!code)
		code = cli_run(cli, &job, &err);
	return cli_finish(&job, code, &err);
}

/* The place of the target: the last word that is neither an option nor the value of one. Options of read may stand in
 * front of it, options of write behind it. 0: there is none. */
static uint32_t find_target(const struct cli *cli)
{
	const struct weir_op *read = weir_op_find("read"), *write = weir_op_find("write");
	uint32_t target = 0, names = 0;

	for (uint32_t i = 1; i < cli->count; i++) {
		const char *word = cli->words[i];

		if (strncmp(word, "--", 2) != 0) {
			names++;
			target = i;
		} else if (!strchr(word, '=') && (weir_op_option_takes_value(names > 1 ? write : read, word + 2) ||
						  weir_op_option_takes_value(write, word + 2))) {
			i++;
		}
	}
	return names > 1 ? target : 0;
}

/* convert A … [options of read] B [options of write]  is  read A … [options] then write B [options]. */
int cli_convert(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	uint32_t target = find_target(cli), count = 0;
	const char **words = NULL;
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code && cli->output)
		code = weir_error_set(&err, WEIR_E_INVALID,
				      "--output is for chains that are shown; say convert A B --format %s",
				      cli->output);
	if (!code && target == 0)
		code = weir_error_set(&err, WEIR_E_INVALID, "convert what into what? weir convert a.csv b.parquet");
	if (!code && !(words = weir_plain_alloc((cli->count + 3) * sizeof(*words))))
		code = weir_error_set(&err, WEIR_E_MEMORY, "there is no memory for the words of the command");
	if (!code) {
		words[count++] = "read";
		for (uint32_t i = 1; i < target; i++)
			words[count++] = cli->words[i];
		words[count++] = "then";
		words[count++] = "write";
		for (uint32_t i = target; i < cli->count; i++)
			words[count++] = cli->words[i];
		code = weir_plan_parse_words(job.plan, words, count, &err);
	}
	if (!code)
		code = cli_run(cli, &job, &err);
	weir_plain_free(words);
	return cli_finish(&job, code, &err);
}

int cli_count(const struct cli *cli)
{
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code)
		code = cli_read_paths(&job, cli, &err);
	if (!code)
		code = weir_plan_add(job.plan, "count", &(struct weir_words){0}, &err);
	if (!code)
		code = cli_run(cli, &job, &err);
	if (!code)
		print_count(&job);
	return cli_finish(&job, code, &err);
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
		return cli_finish(&job, code, &err);
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
		cli_print_safe(text.data, text.size);
	weir_text_release(&text);
	return cli_finish(&job, code, &err);
}

const struct cli_command cli_commands[] = {
	{"schema", "schema PATH …", "Prints the columns and their types.\n\n  weir schema data/\n", cli_schema},
	{"head", "head PATH … [-n ROWS] [-o FORMAT]",
	 "Shows the first rows: a table on a terminal, CSV into a pipe.\n\n  weir head data/ -n 5\n  weir head data/ -o table | less\n",
	 cli_head},
	{"cat", "cat PATH … [-o FORMAT]",
	 "Writes all rows to standard output, as CSV or as -o says (csv, jsonl, arrow).\n\n  weir cat data/ -o jsonl | jq .price\n",
	 cli_cat},
	{"sample", "sample PATH … [-n ROWS] [--seed N]",
	 "Shows rows drawn at random (10, or ROWS), in input order; every choice is equally likely. The same seed gives the same\n"
	 "rows.\n\n  weir sample data/ -n 20 --seed 7\n",
	 cli_sample},
	{"stats", "stats PATH … [--quick]",
	 "Shows for each column its type, rows, nulls, minimum and maximum, and roughly (within 2 %) how many distinct values there\n"
	 "are. --quick reads only footers where these have everything, and leaves out the number of distinct values.\n\n"
	 "  weir stats data/\n  weir stats sales.csv -o jsonl\n",
	 cli_stats},
	{"validate", "validate PATH …",
	 "Reads every file from end to end and says whether it is good, or what is wrong and where. The exit status is 1 when one\n"
	 "is bad. Also finishes or removes what a killed run left in a folder.\n\n"
	 "  weir validate data/\n  weir validate sales.txt --format csv --delimiter ';'\n",
	 cli_validate},
	{"convert", "convert PATH … TARGET",
	 "Reads the files and writes them in the format of the target's extension. Options before TARGET are those of read,\n"
	 "options after it those of write.\n\n"
	 "  weir convert sales.csv sales.parquet\n  weir convert 'logs/*.jsonl.gz' logs.parquet --compression zstd\n"
	 "  weir convert in.csv --delimiter ';' out.csv --mode overwrite\n",
	 cli_convert},
	{"count", "count PATH …",
	 "Counts rows, from the footers of files where these have the number.\n\n  weir count data/\n", cli_count},
	{"explain", "explain 'read … then …'",
	 "Shows what would be done: the plan as written and as it will run, with what was pushed where.\n\n"
	 "  weir explain 'read data/ then filter \"price > 100\" then select name'\n",
	 cli_explain},
	{"completion", "completion", "Prints completion for bash.\n\n  source <(weir completion)\n", cli_completion},
	{"man", "man", "Prints the manual page.\n\n  weir man | man -l -\n", cli_man},
	{0},
};
