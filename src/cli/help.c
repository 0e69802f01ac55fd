#include "cli/cli_impl.h"

#include <stdio.h>
#include <string.h>

static const char options[] =
	"Options, anywhere on the line:\n"
	"  --memory-limit SIZE   256M, 2GiB, 1.5GB; default 60 % of the machine or its cgroup; at least 64M\n"
	"  --threads N           lanes; default one a CPU\n"
	"  --stats               after the run: rows and time per operator, memory, waiting\n"
	"  --progress[=WHEN]     a live line: auto (on a terminal), always, never\n"
	"  -q, --quiet           no progress, no warnings\n"
	"  -h, --help, --version\n";

/* Operators that programs build and nobody types. */
static bool is_internal(const struct weir_op *op)
{
	return strcmp(op->verb, "collect") == 0 || strcmp(op->verb, "batches") == 0;
}

void cli_help(void)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);

	printf("weir: reads, transforms and writes data of any size within a memory limit\n\n"
	       "  weir read 'data/*.parquet' then filter 'price > 100' then select name,price then write out/\n\n"
	       "Verbs, joined by 'then':\n");
	for (uint32_t i = 0; i < count; i++) {
		if (!is_internal(ops[i]))
			printf("  %s\n", ops[i]->usage);
	}
	printf("\nCommands:\n");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		printf("  %s\n", command->usage);
	printf("  help VERB\n\n%s\nWithout write or count at its end a chain is shown: a table on a terminal, CSV into a pipe.\n",
	       options);
}

int cli_help_for(const char *verb)
{
	const struct weir_op *op = weir_op_find(verb);

	for (const struct cli_command *command = cli_commands; command->name; command++) {
		if (strcmp(command->name, verb) == 0 && (!op || is_internal(op) || strcmp(verb, "count") != 0)) {
			printf("weir %s\n\n%s", command->usage, command->help);
			return EXIT_OK;
		}
	}
	if (op && !is_internal(op)) {
		printf("%s\n\n%s", op->usage, op->help);
		return EXIT_OK;
	}
	fprintf(stderr, "weir: there is no verb or command '%s' (weir --help lists them)\n", verb);
	return EXIT_USAGE;
}

/* Made from the same tables, so it cannot fall behind. */
void cli_completion(void)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);

	printf("# bash completion for weir: source <(weir completion)\n"
	       "_weir() {\n"
	       "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb='' i\n"
	       "  local verbs='");
	for (uint32_t i = 0; i < count; i++)
		printf("%s%s", is_internal(ops[i]) ? "" : ops[i]->verb, is_internal(ops[i]) ? "" : " ");
	printf("' commands='");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		printf("%s ", command->name);
	printf("help'\n"
	       "  local options='--memory-limit --threads --stats --progress --quiet --help --version'\n"
	       "  for ((i = COMP_CWORD - 1; i > 0; i--)); do\n"
	       "    if [[ $i -eq 1 || ${COMP_WORDS[i-1]} == then ]]; then verb=${COMP_WORDS[i]}; break; fi\n"
	       "  done\n"
	       "  case $COMP_CWORD:$prev in\n"
	       "  1:*) COMPREPLY=($(compgen -W \"read $commands $options\" -- \"$cur\")); return ;;\n"
	       "  *:then) COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\")); return ;;\n"
	       "  *:help) COMPREPLY=($(compgen -W \"$verbs $commands\" -- \"$cur\")); return ;;\n"
	       "  *:--mode) COMPREPLY=($(compgen -W 'append overwrite error ignore' -- \"$cur\")); return ;;\n"
	       "  *:--compression) COMPREPLY=($(compgen -W 'snappy zstd lz4 gzip none' -- \"$cur\")); return ;;\n"
	       "  *:--format) COMPREPLY=($(compgen -W 'parquet csv jsonl arrow' -- \"$cur\")); return ;;\n"
	       "  esac\n"
	       "  if [[ $cur == -* ]]; then\n"
	       "    case $verb in\n");
	for (uint32_t i = 0; i < count; i++) {
		if (!ops[i]->options)
			continue;
		printf("    %s) options+='", ops[i]->verb);
		for (const char *const *option = ops[i]->options; *option; option++)
			printf(" --%.*s", (int)strcspn(*option, "="), *option);
		printf("' ;;\n");
	}
	printf("    esac\n"
	       "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
	       "  else\n"
	       "    COMPREPLY=($(compgen -W then -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
	       "  fi\n"
	       "}\n"
	       "complete -o filenames -F _weir weir\n");
}
