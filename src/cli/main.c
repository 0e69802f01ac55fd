/* The weir command. The first word is a command of the table in commands.c, or the first verb of a chain. */
#include "weir/weir.h"
#include "cli/cli_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int help(const struct cli *cli)
{
	const char *name = cli->words[0];
	bool in_chain = false;

	if (strcmp(name, "help") == 0)
		name = cli->words[1];
	for (uint32_t i = 1; i + 1 < cli->help_at; i++) {
		if (strcmp(cli->words[i], "then") == 0) {
			name = cli->words[i + 1];
			in_chain = true;
		}
	}
	if (name)
		return cli_help_for(name, in_chain);
	cli_help();
	return EXIT_OK;
}

static int run(const struct cli *cli)
{
	if (cli->version)
		return printf("weir %s\n", weir_version()) < 0;
	if (cli->count == 0) {
		cli_help();
		return cli->help ? EXIT_OK : EXIT_USAGE;
	}
	if (cli->help || strcmp(cli->words[0], "help") == 0)
		return help(cli);
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		if (strcmp(command->name, cli->words[0]) == 0)
			return command->run(cli);
	}
	return cli_chain(cli);
}

/* Started with standard streams closed, the next file opened would be one of them, and a message would land in it. Each
 * is opened so that using it still fails. */
static bool keep_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct weir_error err = {0};
	const char **words = weir_plain_alloc(((size_t)argc + 1) * sizeof(*words));
	struct cli cli;
	int code;

	if (!words || !keep_standard_streams())
		return EXIT_FAILED;
	code = cli_options(&cli, argc, argv, words, &err) ? cli_usage_fail(&err) : run(&cli);
	weir_plain_free(words);
	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_OK) {
		fprintf(stderr, "weir: cannot write to standard output: %s\n", strerror(errno));
		code = EXIT_FAILED;
	}
	return code;
}
