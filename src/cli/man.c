/* The manual page, in roff: the tables of verbs, commands and options between what no table says. */
#include "weir/weir.h"
#include "cli/cli_impl.h"

#include <stdio.h>
#include <string.h>

static const char about[] =
	"weir reads files of columnar data, filters and transforms them on every core, and writes the result, within a memory "
	"limit that it keeps: data of any size passes through it. A chain is verbs joined by the word then. It begins with "
	"read or range; what it writes appears as a whole when the run has ended well, and not at all otherwise.\n";

static const char chain_end[] =
	"A chain that ends in write or count does that. Any other is shown: as a table of the first rows on a terminal, whole "
	"and as CSV into a pipe. Rows keep the order of the input.\n";

static const char expressions[] =
	"Expressions are written as in Python: arithmetic, comparison (also a < b <= c), and, or, not, in, is None, "
	"x if c else y, and methods such as name.startswith(\"Z\") or shipdate.year(). A column whose name is no word is "
	"col(\"its name\"). Null is neither true nor false. / gives a float; // and % follow Python's signs; an integer that "
	"overflows or is divided by zero is an error that names the row.\n";

/* Text as it stands: what roff would take for its own is escaped. */
static void put(const char *text)
{
	bool line_begins = true;

	for (; *text; text++) {
		if (line_begins && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
		line_begins = *text == '\n';
	}
}

/* Paragraphs flow; indented lines are examples and lists and stay as they are. */
static void put_help(const char *help)
{
	bool indented = false;

	while (*help) {
		size_t length = strcspn(help, "\n");
		bool blanks = strncmp(help, "  ", 2) == 0;
		char line[512];

		if (blanks != indented && length) {
			fputs(blanks ? ".PP\n.nf\n" : ".fi\n.PP\n", stdout);
			indented = blanks;
		}
		snprintf(line, sizeof(line), "%.*s\n", (int)length, help);
		if (length || indented)
			put(line);
		help += length + (help[length] != 0);
	}
	if (indented)
		fputs(".fi\n", stdout);
}

static void put_section(const char *heading, const char *usage, const char *help)
{
	printf(".%s \"", heading);
	for (; *usage; usage++) {
		if (*usage == '"')
			fputs("\\(dq", stdout);
		else
			put((const char[]){*usage, 0});
	}
	printf("\"\n");
	put_help(help);
}

static void put_options(void)
{
	printf(".SH OPTIONS\nThey may stand anywhere on the line.\n");
	for (const struct cli_option *option = cli_option_list; option->name; option++) {
		printf(".TP\n.B ");
		if (option->alias) {
			put(option->alias);
			printf(", ");
		}
		put(option->name);
		if (option->argument && option->argument[0] != '[')
			putchar(' ');
		put(option->argument ? option->argument : "");
		putchar('\n');
		put(option->help);
		putchar('\n');
	}
}

int cli_man(const struct cli *cli)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);
	char text[CLI_FORMAT_OPTIONS_MAX];

	(void)cli;
	printf(".\\\" -*- coding: UTF-8 -*-\n.\\\" Made by weir man.\n.TH WEIR 1 \"\" \"weir %s\" \"User Commands\"\n"
	       ".SH NAME\nweir \\- reads, transforms and writes data of any size within a memory limit\n"
	       ".SH SYNOPSIS\n.nf\n\\fBweir\\fR \\fIverb\\fR … [\\fBthen\\fR \\fIverb\\fR …] … [\\fIoption\\fR …]\n"
	       "\\fBweir\\fR \\fIcommand\\fR … [\\fIoption\\fR …]\n.fi\n.SH DESCRIPTION\n",
	       weir_version());
	put_help(about);
	printf(".PP\n");
	put_help(chain_end);
	printf(".SH VERBS\n");
	for (uint32_t i = 0; i < count; i++) {
		if (cli_is_internal(ops[i]))
			continue;
		put_section("SS", ops[i]->usage, ops[i]->help);
		if (strcmp(ops[i]->verb, "read") == 0) {
			printf(".PP\n");
			put_help(cli_format_options(text, sizeof(text)));
		}
	}
	printf(".SH COMMANDS\n");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		put_section("SS", command->usage, command->help);
	put_section("SS", "help VERB", "Says what a verb or a command does, with examples.\n\n  weir help write\n");
	put_options();
	printf(".SH EXPRESSIONS\n");
	put_help(expressions);
	printf(".SH EXIT STATUS\n.TP\n.B 0\nsuccess\n.TP\n.B 1\nthe run failed; nothing was published\n.TP\n.B 2\nthe command line "
	       "is wrong: a verb, an option, a name or a type\n.TP\n.B 130\ninterrupted; nothing is left behind\n.PP\n"
	       "A closed pipe ends weir by SIGPIPE, as it does other tools.\n");
	printf(".SH ENVIRONMENT\n.TP\n.B WEIR_LOG\nerror, warn, info, debug or trace: what is told on standard error (warn)\n"
	       ".TP\n.B WEIR_CPU\nv2, v3 or v4: the level of x86\\-64 whose kernels are used, instead of the best one\n");
	printf(".SH SIGNALS\nSIGINT, SIGTERM and SIGHUP stop the run and remove what it has written so far. A second one ends the "
	       "process at once; the next run on the same target removes what it left.\n");
	return EXIT_OK;
}
