/* A program with a source, a transform and built expressions, with each allocation failing in turn: it gets all its
 * rows, or an error. Leaks are ASan's to find, hangs the alarm's. */
#include "base/fault.h"

#include "weir/weir.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef WEIR_FAULTS

enum { SPLITS = 3, SPLIT_ROWS = 5000, RUNS = 600, HANG_S = 120 };

struct cursor {
	int64_t split;
	int batches;
	struct weir_appender *appender;
};

static int open_split(void *data, struct weir_context *context, int64_t split, void **state)
{
	struct cursor *cursor = calloc(1, sizeof(*cursor));
	struct weir_error *error = NULL;

	(void)data;
	cursor->split = split;
	if (weir_appender_new("n: int64, s: string", &cursor->appender, &error)) {
		weir_context_fail(context, "%s", weir_error_text(error));
		weir_error_free(error);
		free(cursor);
		return 1;
	}
	*state = cursor;
	return 0;
}

static int next_batch(void *state, struct weir_context *context, struct ArrowArray *out)
{
	struct cursor *cursor = state;
	struct weir_error *error = NULL;

	if (cursor->batches++)
		return 0;
	for (int64_t i = 0; i < SPLIT_ROWS; i++) {
		weir_append_int64(cursor->appender, 0, cursor->split * SPLIT_ROWS + i);
		weir_append_string(cursor->appender, 1, i % 3 ? "text that is longer than a view" : NULL);
	}
	if (weir_appender_finish(cursor->appender, NULL, out, &error)) {
		weir_context_fail(context, "%s", weir_error_text(error));
		weir_error_free(error);
		return 1;
	}
	return 0;
}

static void close_split(void *state)
{
	weir_appender_free(((struct cursor *)state)->appender);
	free(state);
}

static int apply(void *state, struct weir_context *context, const struct ArrowSchema *input_schema,
		 const struct ArrowArray *input, struct ArrowSchema *output_schema, struct ArrowArray *output)
{
	struct weir_appender *appender;
	struct weir_error *error = NULL;
	const struct ArrowArray *n = input->children[0];

	(void)state;
	(void)input_schema;
	if (weir_appender_new("twice: int64", &appender, &error))
		goto fail;
	for (int64_t i = 0; i < input->length; i++)
		weir_append_int64(appender, 0, 2 * ((const int64_t *)n->buffers[1])[n->offset + i]);
	if (!weir_appender_finish(appender, output_schema, output, &error)) {
		weir_appender_free(appender);
		return 0;
	}
	weir_appender_free(appender);
fail:
	weir_context_fail(context, "%s", weir_error_text(error));
	weir_error_free(error);
	return 1;
}

/* The sum of the column twice, or −1 with *code. */
static int64_t scenario(int *code)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 64 << 20, .threads = 2};
	struct weir_source source = {.struct_size = sizeof(source),
				     .columns = "n: int64, s: string",
				     .split_count = SPLITS,
				     .open = open_split,
				     .next = next_batch,
				     .close = close_split};
	struct weir_transform transform = {
		.struct_size = sizeof(transform), .apply = apply, .columns_in = "n", .adds_columns = 1};
	struct weir_session *session = NULL;
	struct weir_flow *flow, *copy;
	struct weir_error *error = NULL;
	struct weir_rows *rows = NULL;
	int64_t sum = 0;

	alarm(HANG_S);
	*code = weir_session_open(&options, &session, &error);
	flow = weir_flow_new(session);
	weir_flow_read_source(flow, &source);
	weir_flow_filter_by(flow, weir_binary(">=", weir_column("n"), weir_unary("-", weir_int(5))));
	weir_flow_transform(flow, &transform);
	weir_flow_with_by(flow, "a b", weir_binary("+", weir_column("s"), weir_string("'x'")));
	copy = weir_flow_copy(flow);
	weir_flow_free(flow);
	if (!*code)
		*code = weir_flow_rows(copy, &rows, &error);
	while (weir_rows_next(rows)) {
		sum += weir_rows_int64(rows, (uint32_t)weir_rows_find(rows, "twice"));
		(void)weir_rows_text(rows, 1);
	}
	if (!*code && weir_rows_error(rows))
		*code = weir_error_code(weir_rows_error(rows));
	else if (*code)
		assert_non_null(error);
	weir_rows_free(rows);
	weir_flow_free(copy);
	weir_session_close(session);
	weir_error_free(error);
	alarm(0);
	return *code ? -1 : sum;
}

static void test_each_allocation_fails(void **state)
{
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_MAP};
	int64_t rows = SPLITS * SPLIT_ROWS, right = rows * (rows - 1);
	int code;

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		uint64_t count, step;

		weir_fault_disarm();
		assert_int_equal(scenario(&code), right);
		count = weir_fault_count(kinds[k]);
		step = count / RUNS ? count / RUNS : 1;
		for (uint64_t nth = 1; nth <= count; nth += step) {
			int64_t sum;

			weir_fault_arm(kinds[k], nth, ENOMEM, nth % 3 == 0);
			sum = scenario(&code);
			weir_fault_disarm();
			if (code ? code != WEIR_E_MEMORY && code != WEIR_E_LIMIT && code != WEIR_E_INVALID &&
					    code != WEIR_E_FUNCTION
				 : sum != right)
				fail_msg("kind %d, call %llu of %llu: code %s, sum %lld", kinds[k],
					 (unsigned long long)nth, (unsigned long long)count, weir_error_code_name(code),
					 (long long)sum);
		}
	}
}

#else

static void test_each_allocation_fails(void **state)
{
	(void)state;
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_fails)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
