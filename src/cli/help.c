/* Help texts, made of the operators' tables, the commands' table and the list of options below. */
#include "cli/cli_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct cli_option cli_option_list[] = {
	{"--memory-limit", "SIZE", NULL, "256M, 2GiB, 1.5GB; default 60 % of the machine or its cgroup; at least 64M"},
	{"--threads", "N", NULL, "number of threads; default one per CPU"},
	{"--output", "FORMAT", "-o", "how a chain without write or count is shown: table, csv, jsonl, arrow"},
	{"--rows", "N", "-n", "rows of a table (20), and of head and sample (10)"},
	{"--stats", NULL, NULL, "after the run: rows and time per operator, memory, waiting"},
	{"--progress", "[=WHEN]", NULL, "a live line: auto (on a terminal), always (a line a second elsewhere), never"},
	{"--quiet", NULL, "-q", "no progress, no warnings"},
	{"--help", NULL, "-h", "help on weir, or on the verb before it"},
	{"--version", NULL, NULL, "the version of weir"},
	{0},
};

bool cli_is_internal(const struct weir_op *op)
{
	static const char *const internal[] = {"collect", "batches", "check",  "transform",
					       "source",  "blocks",  "chunks", "summarise"};

	for (size_t i = 0; i < sizeof(internal) / sizeof(*internal); i++) {
		if (strcmp(op->verb, internal[i]) == 0)
			return true;
	}
	return false;
}

static void print_options(void)
{
	for (const struct cli_option *option = cli_option_list; option->name; option++) {
		const char *argument = option->argument ? option->argument : "";
		char left[64];

		snprintf(left, sizeof(left), "%s%s%s%s%s", option->alias ? option->alias : "",
			 option->alias ? ", " : "", option->name, option->argument && argument[0] != '[' ? " " : "",
			 argument);
		printf("  %-22s %s\n", left, option->help);
	}
}

void cli_help(void)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);

	printf("weir: reads, transforms and writes data of any size within a memory limit\n\n"
	       "  weir read 'data/*.parquet' then filter 'price > 100' then select name,price then write out/\n\n"
	       "Verbs, joined by 'then':\n");
	for (uint32_t i = 0; i < count; i++) {
		if (!cli_is_internal(ops[i]))
			printf("  %s\n", ops[i]->usage);
	}
	printf("\nCommands:\n");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		printf("  %s\n", command->usage);
	printf("  help VERB\n\nOptions, anywhere on the line:\n");
	print_options();
	printf("\nWithout write or count at its end a chain is shown: a table on a terminal, CSV into a pipe.\n");
}

static size_t add(char *text, size_t size, size_t at, const char *format, ...) __attribute__((format(printf, 4, 5)));

static size_t add(char *text, size_t size, size_t at, const char *format, ...)
{
	va_list args;
	int more;

	va_start(args, format);
	more = vsnprintf(text + at, size - at, format, args);
	va_end(args);
	WEIR_ASSERT(more >= 0 && (size_t)more < size - at);
	return at + (size_t)more;
}

const char *cli_format_options(char *text, size_t size)
{
	enum { WIDTH = 100 };
	const struct weir_format_ops *format;
	size_t at = add(text, size, 0, "Options of formats (docs/formats.md says what they do):\n\n");

	for (uint32_t i = 0; (format = weir_format_at(i)); i++) {
		size_t line = at;

		at = add(text, size, at, "  %-8s%s", format->name, format->option_names ? "" : " none");
		for (const char *const *option = format->option_names; option && *option; option++) {
			size_t length = strcspn(*option, "=");

			if (at - line + length + 6 > WIDTH) {
				at = add(text, size, at, "\n");
				line = at;
				at = add(text, size, at, "  %-8s", "");
			}
			at = add(text, size, at, " --%.*s%s", (int)length, *option, (*option)[length] ? " …" : "");
		}
		at = add(text, size, at, "\n");
	}
	return text;
}

const char *cli_nearest(const char *typed, bool with_commands)
{
	enum { FAR = 3 };
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);
	const char *nearest = NULL;
	unsigned best = FAR;

	for (uint32_t i = 0; i < count; i++) {
		if (!cli_is_internal(ops[i]) && weir_verb_distance(typed, ops[i]->verb) < best) {
			best = weir_verb_distance(typed, ops[i]->verb);
			nearest = ops[i]->verb;
		}
	}
	for (const struct cli_command *command = cli_commands; with_commands && command->name; command++) {
		if (weir_verb_distance(typed, command->name) < best) {
			best = weir_verb_distance(typed, command->name);
			nearest = command->name;
		}
	}
	return nearest;
}

static void print_op(const struct weir_op *op)
{
	char text[CLI_FORMAT_OPTIONS_MAX];

	printf("%s\n\n%s", op->usage, op->help);
	if (strcmp(op->verb, "read") == 0)
		printf("\n%s", cli_format_options(text, sizeof(text)));
}

int cli_help_for(const char *name, bool in_chain)
{
	const struct weir_op *op = weir_op_find(name);
	const struct cli_command *command = cli_commands;
	const char *nearest;

	if (op && cli_is_internal(op))
		op = NULL;
	while (command->name && strcmp(command->name, name) != 0)
		command++;
	if (command->name && (!op || !in_chain))
		printf("weir %s\n\n%s%s", command->usage, command->help, op ? "\nIn a chain:\n\n" : "");
	if (op)
		print_op(op);
	if (op || command->name)
		return EXIT_OK;
	nearest = cli_nearest(name, true);
	fprintf(stderr, "weir: there is no verb or command '%s'%s%s%s\n", name, nearest ? "; did you mean '" : "",
		nearest ? nearest : "", nearest ? "'?" : " (weir --help lists them)");
	return EXIT_USAGE;
}
