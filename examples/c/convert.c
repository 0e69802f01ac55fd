/* Converts a CSV file to Parquet:  convert in.csv out.parquet  */
#include <weir/weir.h>

#include <stdio.h>

int main(int argc, char **argv)
{
	struct weir_session *session = NULL;
	struct weir_flow *flow;
	struct weir_error *error = NULL;
	int failed;

	if (argc != 3)
		return fprintf(stderr, "usage: convert IN.csv OUT.parquet\n"), 2;
	weir_session_open(NULL, &session, &error);
	flow = weir_flow_new(session);
	weir_flow_read(flow, argv[1], NULL);
	weir_flow_write(flow, argv[2], NULL);
	if (!error)
		weir_flow_run(flow, NULL, &error);
	failed = error != NULL;
	if (failed)
		fprintf(stderr, "convert: %s\n", weir_error_text(error));
	weir_error_free(error);
	weir_flow_free(flow);
	weir_session_close(session);
	return failed;
}
