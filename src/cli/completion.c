/* Completion for bash: verbs after then, a verb's options, values where there are few, else files. */
#include "cli/cli_impl.h"

#include <stdio.h>
#include <string.h>

int cli_completion(const struct cli *cli)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);

	(void)cli;
	printf("# bash completion for weir: source <(weir completion)\n"
	       "_weir() {\n"
	       "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb='' i\n"
	       "  local verbs='");
	for (uint32_t i = 0; i < count; i++)
		printf("%s%s", cli_is_internal(ops[i]) ? "" : ops[i]->verb, cli_is_internal(ops[i]) ? "" : " ");
	printf("' commands='");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		printf("%s ", command->name);
	printf("help'\n  local options='");
	for (const struct cli_option *option = cli_option_list; option->name; option++)
		printf("%s%s", option == cli_option_list ? "" : " ", option->name);
	printf("'\n"
	       "  for ((i = COMP_CWORD - 1; i > 0; i--)); do\n"
	       "    if [[ $i -eq 1 || ${COMP_WORDS[i-1]} == then ]]; then verb=${COMP_WORDS[i]}; break; fi\n"
	       "  done\n"
	       "  case $COMP_CWORD:$prev in\n"
	       "  1:*) COMPREPLY=($(compgen -W \"read range $commands $options\" -- \"$cur\")); return ;;\n"
	       "  *:then) COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\")); return ;;\n"
	       "  *:help) COMPREPLY=($(compgen -W \"$verbs $commands\" -- \"$cur\")); return ;;\n"
	       "  *:--mode) COMPREPLY=($(compgen -W 'append overwrite error ignore' -- \"$cur\")); return ;;\n"
	       "  *:--compression) COMPREPLY=($(compgen -W 'snappy zstd lz4 gzip none' -- \"$cur\")); return ;;\n"
	       "  *:--output|*:-o) COMPREPLY=($(compgen -W 'table csv jsonl arrow' -- \"$cur\")); return ;;\n"
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
		for (uint32_t n = 0; ops[i]->options_more && ops[i]->options_more(n); n++)
			for (const char *const *option = ops[i]->options_more(n); *option; option++)
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
	return EXIT_OK;
}
