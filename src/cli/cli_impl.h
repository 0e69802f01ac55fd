#ifndef WEIR_CLI_CLI_IMPL_H
#define WEIR_CLI_CLI_IMPL_H

#include "api/job.h"

/* What people see when it ends: 0 well, 1 the run failed, 2 the command line is wrong, 130 interrupted. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum cli_progress { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };

/* Options that may stand anywhere, and the words that are left. */
struct cli {
	struct weir_session_options session;
	bool stats, quiet, help, version;
	uint32_t help_at; /* how many words stand before --help */
	enum cli_progress progress;
	const char *output; /* --output of chains that are shown; NULL: by where it goes */
	int64_t rows;       /* -n; −1: not given */
	const char **words;
	uint32_t count;
};

/* options.c: takes argv apart; `words` must have room for argc. */
int cli_options(struct cli *cli, int argc, char **argv, const char **words, struct weir_error *err);
/* Prints "weir: …" and gives the exit code. */
int cli_fail(const struct weir_error *err);
int cli_usage_fail(const struct weir_error *err);

/* job.c: runs what the job's plan says, with progress, interruption and stats. */
int cli_run(const struct cli *cli, struct weir_job *job, struct weir_error *err);
/* The rows of the plan as a table, at most `rows_max`; says when there are more. */
int cli_show(const struct cli *cli, struct weir_job *job, int64_t rows_max, struct weir_error *err);
/* Of the terminal; UINT32_MAX when there is none. */
uint32_t cli_terminal_columns(void);

/* table.c */
int cli_table_print(const struct weir_schema *schema, struct weir_batch *const *batches, size_t batch_count,
		    int64_t rows_max, uint32_t columns, struct weir_text *out, struct weir_error *err);

/* help.c */
struct cli_option {
	const char *name;     /* "--threads" */
	const char *argument; /* "N"; "[=WHEN]" when it may be left out; NULL: none */
	const char *alias;    /* "-q" */
	const char *help;
};
extern const struct cli_option cli_option_list[]; /* the last one has no name */
/* Operators that programs build and nobody types. */
bool cli_is_internal(const struct weir_op *op);
/* The options that formats add to read, as text; returns `text`. */
enum { CLI_FORMAT_OPTIONS_MAX = 4096 };
const char *cli_format_options(char *text, size_t size);
void cli_help(void);
/* Of a verb and of a command with that name; `in_chain`: of the verb alone. */
int cli_help_for(const char *name, bool in_chain);
/* The verb, or also the command, whose name is nearest to what was typed; NULL: none is near. */
const char *cli_nearest(const char *typed, bool with_commands);

/* completion.c, man.c: from the same tables, so that they cannot fall behind. */
int cli_completion(const struct cli *cli);
int cli_man(const struct cli *cli);

/* commands.c */
/* read PATH … from the command's words (without the command itself). */
int cli_read_paths(struct weir_job *job, const struct cli *cli, struct weir_error *err);
/* Ends a command: frees the job, reports the error, gives the exit code. */
int cli_finish(struct weir_job *job, int code, const struct weir_error *err);
bool cli_wants_table(const struct cli *cli);
void cli_print_safe(const char *text, size_t size);
int cli_chain(const struct cli *cli);
int cli_schema(const struct cli *cli);
int cli_head(const struct cli *cli);
int cli_count(const struct cli *cli);
int cli_explain(const struct cli *cli);
int cli_cat(const struct cli *cli);
int cli_convert(const struct cli *cli);

/* inspect.c */
/* Runs a plan that ends in sample or profile, and shows its result. */
int cli_result(const struct cli *cli, struct weir_job *job, struct weir_error *err);
int cli_sample(const struct cli *cli);
int cli_stats(const struct cli *cli);
int cli_validate(const struct cli *cli);

struct cli_command {
	const char *name;
	const char *usage;
	const char *help;
	int (*run)(const struct cli *cli);
};
extern const struct cli_command cli_commands[];

#endif
