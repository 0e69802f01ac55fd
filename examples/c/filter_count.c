/* Counts the rows of files whose column is above a bound, and shows the first ones:
 *
 *     filter_count COLUMN BOUND FILE...
 *
 * Column and bound come from the user, so the expression is built and not pasted together. */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

static int fail(struct weir_error *error)
{
	fprintf(stderr, "filter_count: %s\n", weir_error_text(error));
	/* Everything in that line can also be asked for by itself. */
	if (weir_error_code(error) == WEIR_E_NAME)
		fprintf(stderr, "(the columns of the files are shown by: weir schema FILE)\n");
	weir_error_free(error);
	return 1;
}

int main(int argc, char **argv)
{
	struct weir_session *session;
	struct weir_flow *flow;
	struct weir_rows *rows = NULL;
	struct weir_error *error = NULL;
	int64_t count;
	int code;

	if (argc < 4)
		return fprintf(stderr, "usage: filter_count COLUMN BOUND FILE...\n"), 2;
	if (weir_session_open(NULL, &session, &error))
		return fail(error);
	flow = weir_flow_new(session);
	weir_flow_read_list(flow, (const char *const *)argv + 3, (size_t)argc - 3, NULL);
	weir_flow_filter_by(flow, weir_binary(">", weir_column(argv[1]), weir_double(strtod(argv[2], NULL))));

	/* A flow is a recipe: it can run, have a step added, and run again. */
	code = weir_flow_count(flow, &count, &error);
	if (!code) {
		printf("%lld rows\n", (long long)count);
		weir_flow_limit(flow, 3);
		code = weir_flow_rows(flow, &rows, &error);
	}
	while (weir_rows_next(rows)) {
		for (uint32_t i = 0; i < weir_rows_column_count(rows); i++)
			printf("%s%s=%s", i ? " " : "", weir_rows_column_name(rows, i), weir_rows_text(rows, i));
		printf("\n");
	}
	if (!code && weir_rows_error(rows)) {
		fprintf(stderr, "filter_count: %s\n", weir_error_text(weir_rows_error(rows)));
		code = 1;
	}
	weir_rows_free(rows);
	weir_flow_free(flow);
	weir_session_close(session);
	return error ? fail(error) : code;
}
