/* A job from the shell: Ctrl-C cancels it, a terminal sees it move, a closed pipe ends it quietly. */
#include "base/log.h"
#include "ops/collect.h"
#include "observe/progress.h"
#include "cli/cli_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What a signal handler may reach: set before the run, cleared after it. */
static struct weir_job *volatile running;

static void on_signal(int number)
{
	struct weir_job *job = running;

	(void)number;
	if (job)
		weir_job_cancel(job);
}

static void catch_signals(bool on)
{
	struct sigaction action = {.sa_handler = on ? on_signal : SIG_DFL};

	sigemptyset(&action.sa_mask);
	/* A second Ctrl-C ends the process at once; what it leaves is cleaned up by the next run. */
	action.sa_flags = on ? (int)SA_RESETHAND : 0;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, on ? SIG_IGN : SIG_DFL);
	signal(SIGXFSZ, on ? SIG_IGN : SIG_DFL); /* a file that may not grow (ulimit -f) is an error like a full disk */
}

static void print_stats(struct weir_job *job)
{
	struct weir_run_stats stats;
	struct weir_error err = {0};
	struct weir_text text;

	weir_local_run_stats(job->run, &stats);
	weir_text_init(&text, weir_session_account(job->session));
	if (!weir_stats_print(&stats, &text, &err)) {
		struct weir_stage_stats one;
		const char *name;

		for (uint32_t s = 0; s < stats.stage_count && stats.stage_count > 1; s++) {
			name = weir_local_run_stage_stats(job->run, s, &one);
			if (!name || weir_stage_stats_print(name, &one, &text, &err))
				break;
		}
		fputs(text.data, stderr);
	}
	weir_text_release(&text);
}

int cli_run(const struct cli *cli, struct weir_job *job, struct weir_error *err)
{
	bool shows = cli->progress == PROGRESS_ALWAYS ||
		     (cli->progress == PROGRESS_AUTO && !cli->quiet && isatty(STDERR_FILENO));
	struct weir_progress_line *line = NULL;
	int code;

	if (cli->quiet)
		weir_log_level_set(WEIR_LOG_ERROR);
	/* Before the job is prepared: that makes the folder beside the target, and may wait for standard input. */
	running = job;
	catch_signals(true);
	code = weir_job_prepare(job, err);
	if (code) {
		catch_signals(false);
		running = NULL;
		return code;
	}
	if (atomic_load(&job->cancelled)) /* perhaps before there was a run */
		weir_job_cancel(job);
	if (shows)
		line = weir_progress_start(job->run, weir_job_source_bytes(job));
	code = weir_job_run(job, err);
	weir_progress_stop(line);
	catch_signals(false);
	running = NULL;
	if (cli->stats && !code)
		print_stats(job);
	if (code && err->errno_value == EPIPE) {
		/* Whoever read our output has seen enough. */
		weir_job_release(job);
		raise(SIGPIPE);
	}
	return code;
}

/* ---- tables ---- */

struct shown {
	struct weir_account *account;
	struct WEIR_LIST(struct weir_batch *) batches;
};

static int keep_batch(void *state, struct weir_batch *batch, struct weir_error *err)
{
	struct shown *shown = state;
	int code = weir_list_push(&shown->batches, shown->account, err, batch);

	if (code)
		weir_batch_unref(batch);
	return code;
}

uint32_t cli_terminal_columns(void)
{
	struct winsize window = {0};

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 ? UINT32_MAX : window.ws_col;
}

int cli_show(const struct cli *cli, struct weir_job *job, int64_t rows_max, struct weir_error *err)
{
	struct shown shown = {.account = weir_session_account(job->session)};
	struct weir_consumer consumer = {.deliver = keep_batch, .state = &shown};
	struct weir_words one = {.count = 1, .words = (const char *const[]){NULL}};
	struct weir_text text;
	char limit[24];
	int code;

	/* One more than is shown tells whether there are more. */
	snprintf(limit, sizeof(limit), "%lld", (long long)rows_max + 1);
	one.words = (const char *const[]){limit};
	weir_text_init(&text, shown.account);
	code = weir_plan_add(job->plan, "limit", &one, err);
	if (!code)
		code = weir_plan_add(job->plan, "collect", &(struct weir_words){0}, err);
	if (!code) {
		weir_collect_set(weir_plan_root(job->plan), &consumer);
		code = cli_run(cli, job, err);
	}
	if (!code)
		code = cli_table_print(job->fragment.schema, shown.batches.items, shown.batches.count, rows_max,
				       cli_terminal_columns(), &text, err);
	if (!code && text.size && fwrite(text.data, 1, text.size, stdout) != text.size)
		code = weir_error_set_errno(err, errno, "cannot write to standard output");
	for (size_t i = 0; i < shown.batches.count; i++)
		weir_batch_unref(shown.batches.items[i]);
	weir_list_release(&shown.batches, shown.account);
	weir_text_release(&text);
	return code;
}
