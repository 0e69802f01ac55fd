/* Options that may stand anywhere on the line, taken out of it; and how errors are shown. */
#include "base/log.h"
#include "cli/cli_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --name=value or --name value; *i moves on. NULL: it is another word. */
static const char *value_of(const char *name, int argc, char **argv, int *i, struct weir_error *err)
{
	size_t length = strlen(name);
	const char *word = argv[*i];

	if (strncmp(word, name, length) != 0)
		return NULL;
	if (word[length] == '=')
		return word + length + 1;
	if (word[length])
		return NULL;
	if (*i + 1 >= argc) {
		weir_error_set(err, WEIR_E_INVALID, "%s wants a value", name);
		return NULL;
	}
	return argv[++*i];
}

static int parse_progress(const char *text, enum cli_progress *out, struct weir_error *err)
{
	if (strcmp(text, "auto") == 0)
		*out = PROGRESS_AUTO;
	else if (strcmp(text, "always") == 0)
		*out = PROGRESS_ALWAYS;
	else if (strcmp(text, "never") == 0)
		*out = PROGRESS_NEVER;
	else
		return weir_error_set(err, WEIR_E_INVALID, "--progress is auto, always or never, not '%s'", text);
	return WEIR_OK;
}

static int parse_output(const char *text, const char **out, struct weir_error *err)
{
	static const char *const names[] = {"table", "csv", "jsonl", "arrow"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = names[i];
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_INVALID, "--output is table, csv, jsonl or arrow, not '%s'", text);
}

static int parse_number(const char *name, const char *text, int64_t max, int64_t *out, struct weir_error *err)
{
	char *end;

	*out = strtoll(text, &end, 10);
	if (!*text || *end || *out < 0 || *out > max)
		return weir_error_set(err, WEIR_E_INVALID, "%s wants a number from 0 to %lld, not '%s'", name,
				      (long long)max, text);
	return WEIR_OK;
}

int cli_options(struct cli *cli, int argc, char **argv, const char **words, struct weir_error *err)
{
	int code = WEIR_OK;

	*cli = (struct cli){.rows = -1, .words = words};
	for (int i = 1; i < argc && !code; i++) {
		const char *value;
		int64_t number;

		if ((value = value_of("--memory-limit", argc, argv, &i, err))) {
			code = weir_parse_bytes(value, &cli->session.memory_limit, err);
		} else if ((value = value_of("--threads", argc, argv, &i, err))) {
			code = parse_number("--threads", value, 1024, &number, err);
			cli->session.threads = (uint32_t)number;
		} else if ((value = value_of("-n", argc, argv, &i, err)) ||
			   (value = value_of("--rows", argc, argv, &i, err))) {
			code = parse_number("-n", value, INT64_MAX / 2, &cli->rows, err);
		} else if ((value = value_of("-o", argc, argv, &i, err)) ||
			   (value = value_of("--output", argc, argv, &i, err))) {
			code = parse_output(value, &cli->output, err);
		} else if (strncmp(argv[i], "--progress=", 11) == 0) {
			code = parse_progress(argv[i] + 11, &cli->progress, err);
		} else if (strcmp(argv[i], "--progress") == 0) {
			cli->progress = PROGRESS_AUTO;
		} else if (strcmp(argv[i], "--stats") == 0) {
			cli->stats = true;
		} else if (strcmp(argv[i], "--quiet") == 0 || strcmp(argv[i], "-q") == 0) {
			cli->quiet = true;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			cli->help = true;
			cli->help_at = cli->count;
		} else if (strcmp(argv[i], "--version") == 0 && cli->count == 0) {
			cli->version = true;
		} else {
			cli->words[cli->count++] = argv[i];
		}
		if (!code)
			code = err->code;
	}
	cli->words[cli->count] = NULL;
	return code;
}

int cli_fail(const struct weir_error *err)
{
	char text[1700], line[4 * sizeof(text)];
	size_t size;

	if (err->code == WEIR_E_CANCELLED) {
		fprintf(stderr, "weir: interrupted\n");
		return EXIT_INTERRUPTED;
	}
	weir_error_format(err, text, sizeof(text));
	/* Names of files and columns are whatever somebody chose. */
	size = weir_log_escape(line, 0, text, strlen(text));
	fprintf(stderr, "weir: %.*s\n", (int)size, line);
	return err->code == WEIR_E_SYNTAX || err->code == WEIR_E_INVALID || err->code == WEIR_E_NAME ||
			       err->code == WEIR_E_TYPE
		       ? EXIT_USAGE
		       : EXIT_FAILED;
}

int cli_usage_fail(const struct weir_error *err)
{
	int code = cli_fail(err);

	fprintf(stderr, "weir: 'weir --help' shows how it is used\n");
	return code;
}
