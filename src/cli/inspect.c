/* Commands that look at data: sample, stats, validate; and chains that end in sample or profile. Their result is one
 * batch: a table for people, CSV (or what --output says) for programs. */
#include "io/list.h"
#include "io/output.h"
#include "format/format.h"
#include "ops/collect.h"
#include "cli/cli_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLE_ROWS = 10 };

static int keep_result(void *state, struct weir_batch *batch, struct weir_error *err)
{
	(void)err;
	*(struct weir_batch **)state = batch;
	return WEIR_OK;
}

/* The result as the input of a second, small job that writes it to standard output. */
static int next_result(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct weir_batch **result = state;

	(void)err;
	*out = *result;
	*result = NULL;
	return WEIR_OK;
}

static void leave_result(void *state)
{
	(void)state; /* whoever ran the first job frees what is left */
}

static int pipe_result(const struct cli *cli, const struct weir_schema *schema, struct weir_batch **result,
		       struct weir_error *err)
{
	struct weir_setting format = {.name = "format", .value = cli->output};
	struct weir_words target = {.count = 1,
				    .words = (const char *const[]){"-"},
				    .option_count = cli->output ? 1 : 0,
				    .options = &format};
	struct weir_batch_source source = {next_result, leave_result, result};
	struct weir_job job = {0};
	struct cli quiet = *cli;
	int code = weir_job_init(&job, &cli->session, err);

	quiet.progress = PROGRESS_NEVER;
	quiet.stats = false;
	if (!code)
		code = weir_plan_parse_text(job.plan, "batches", err);
	if (!code)
		code = weir_batches_set(weir_plan_env(job.plan), weir_plan_root(job.plan), schema, source, err);
	if (!code)
		code = weir_plan_add(job.plan, "write", &target, err);
	if (!code)
		code = cli_run(&quiet, &job, err);
	weir_job_release(&job);
	return code;
}

int cli_result(const struct cli *cli, struct weir_job *job, struct weir_error *err)
{
	struct weir_node *root = weir_plan_root(job->plan);
	struct weir_account *account = weir_session_account(job->session);
	struct weir_batch *result = NULL;
	struct weir_consumer consumer = {.deliver = keep_result, .state = &result};
	struct weir_schema *schema = NULL;
	struct weir_text text;
	int code;

	weir_text_init(&text, account);
	weir_result_set(root, &consumer);
	code = cli_run(cli, job, err);
	if (!code)
		schema = weir_schema_ref(weir_plan_root(job->plan)->schema);
	if (!code && cli_wants_table(cli)) {
		code = cli_table_print(schema, &result, result ? 1 : 0, INT64_MAX, cli_terminal_columns(), &text, err);
		if (!code && text.size && fwrite(text.data, 1, text.size, stdout) != text.size)
			code = weir_error_set_errno(err, errno, "cannot write to standard output");
	} else if (!code) {
		code = pipe_result(cli, schema, &result, err);
	}
	weir_schema_unref(schema);
	weir_batch_unref(result);
	weir_text_release(&text);
	return code;
}

/* Takes an option out of the words: the others are for read. Its value ("" of a flag), or NULL when it is not there. */
static const char *take_option(struct cli *cli, const char *option, bool has_value)
{
	size_t length = strlen(option);
	const char *value = NULL;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cli->count; i++) {
		const char *word = cli->words[i];

		if (has_value && strncmp(word, option, length) == 0 && word[length] == '=')
			value = word + length + 1;
		else if (strcmp(word, option) == 0)
			value = has_value && i + 1 < cli->count ? cli->words[++i] : "";
		else
			cli->words[kept++] = word;
	}
	cli->count = kept;
	return value;
}

int cli_sample(const struct cli *cli)
{
	int64_t rows = cli->rows >= 0 ? cli->rows : SAMPLE_ROWS;
	struct cli own = *cli;
	struct weir_setting seed = {.name = "seed", .value = take_option(&own, "--seed", true)};
	struct weir_words words = {.count = 1, .option_count = seed.value ? 1 : 0, .options = &seed};
	struct weir_error err = {0};
	struct weir_job job = {0};
	char count[24];
	int code = weir_job_init(&job, &cli->session, &err);

	snprintf(count, sizeof(count), "%lld", (long long)rows);
	words.words = (const char *const[]){count};
	if (!code)
		code = cli_read_paths(&job, &own, &err);
	if (!code)
		code = weir_plan_add(job.plan, "sample", &words, &err);
	if (!code)
		code = cli_result(cli, &job, &err);
	return cli_finish(&job, code, &err);
}

int cli_stats(const struct cli *cli)
{
	struct cli own = *cli;
	struct weir_setting quick = {.name = "quick"};
	struct weir_words words = {.options = &quick, .option_count = take_option(&own, "--quick", false) != NULL};
	struct weir_error err = {0};
	struct weir_job job = {0};
	int code = weir_job_init(&job, &cli->session, &err);

	if (!code)
		code = cli_read_paths(&job, &own, &err);
	if (!code)
		code = weir_plan_add(job.plan, "profile", &words, &err);
	if (!code)
		code = cli_result(cli, &job, &err);
	return cli_finish(&job, code, &err);
}

/* ---- validate ---- */

struct validation {
	const struct cli *cli;
	const char **words; /* read, the file, the options */
	uint32_t word_count;
	uint64_t good, bad, skipped;
};

/* Reads one file from end to end, in a job of its own, so that the next one is looked at whatever this one is. */
static int validate_file(struct validation *validation, const char *path, struct weir_error *err)
{
	struct weir_job job = {0};
	struct weir_run_stats stats;
	uint32_t columns = 0;
	int code = weir_job_init(&job, &validation->cli->session, err);

	validation->words[1] = path;
	if (!code)
		code = weir_plan_parse_words(job.plan, validation->words, validation->word_count, err);
	if (!code)
		code = weir_plan_add(job.plan, "check", &(struct weir_words){0}, err);
	if (!code)
		code = cli_run(validation->cli, &job, err);
	if (!code) {
		weir_local_run_stats(job.run, &stats);
		columns = job.fragment.schema->field_count;
		cli_print_safe(path, strlen(path));
		printf(": good, %llu row%s, %u column%s\n", (unsigned long long)stats.rows_out,
		       stats.rows_out == 1 ? "" : "s", columns, columns == 1 ? "" : "s");
		validation->good++;
	} else if (code != WEIR_E_CANCELLED) {
		char text[1700];

		weir_error_at_source(err, path);
		weir_error_format(err, text, sizeof(text));
		cli_print_safe(text, strlen(text));
		putchar('\n');
		validation->bad++;
		weir_error_clear(err);
		code = WEIR_OK;
	}
	weir_job_release(&job);
	return code;
}

static int validate_path(struct validation *validation, struct weir_account *account, const char *path, bool any_format,
			 struct weir_error *err)
{
	struct weir_list_options options = {0};
	struct weir_listing *listing = NULL;
	struct weir_listed listed;
	bool done = false;
	int code = weir_output_recover(account, path, err);

	if (!code)
		code = weir_listing_new(account, &path, 1, &options, &listing, err);
	while (!code && !done) {
		code = weir_listing_next(listing, &listed, &done, err);
		if (code || done)
			break;
		if (!any_format && strcmp(listed.path, path) != 0 && !weir_format_for_path(listed.path))
			validation->skipped++;
		else
			code = validate_file(validation, listed.path, err);
	}
	weir_listing_free(listing);
	return code;
}

/* Names come first, then options of read. */
int cli_validate(const struct cli *cli)
{
	struct validation validation = {.cli = cli};
	struct weir_error err = {0};
	struct weir_job job = {0};
	bool any_format = false;
	uint32_t paths = 1;
	int code = weir_job_init(&job, &cli->session, &err);

	while (paths < cli->count && strncmp(cli->words[paths], "--", 2) != 0)
		paths++;
	if (!code && paths == 1)
		code = weir_error_set(&err, WEIR_E_INVALID, "which file or folder? (weir help validate)");
	if (code)
		return cli_finish(&job, code, &err);
	validation.word_count = 2 + cli->count - paths;
	validation.words = weir_plain_alloc((validation.word_count + 1) * sizeof(*validation.words));
	if (!validation.words)
		code = weir_error_set(&err, WEIR_E_MEMORY, "there is no memory for the words of the command");
	if (!code) {
		validation.words[0] = "read";
		for (uint32_t i = paths; i < cli->count; i++) {
			validation.words[2 + i - paths] = cli->words[i];
			any_format |= strncmp(cli->words[i], "--format", strlen("--format")) == 0;
		}
	}
	for (uint32_t i = 1; !code && i < paths; i++)
		code = validate_path(&validation, weir_session_account(job.session), cli->words[i], any_format, &err);
	weir_plain_free(validation.words);
	if (!code && (validation.good + validation.bad != 1 || validation.skipped))
		printf("%llu good, %llu bad%s", (unsigned long long)validation.good, (unsigned long long)validation.bad,
		       validation.skipped ? "" : "\n");
	if (!code && validation.skipped)
		printf(", %llu of no format that weir reads\n", (unsigned long long)validation.skipped);
	code = cli_finish(&job, code, &err);
	return code == EXIT_OK && validation.bad ? EXIT_FAILED : code;
}
