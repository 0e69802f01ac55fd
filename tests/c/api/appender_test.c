/* Batches made value by value, through a flow and back. */
#include "weir/weir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A stream of one batch. */
struct one {
	struct weir_appender *appender;
	struct ArrowArray batch;
};

static int one_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	struct one *one = stream->private_data;
	struct ArrowArray empty;

	if (weir_appender_finish(one->appender, out, &empty, NULL))
		return 5;
	empty.release(&empty);
	return 0;
}

static int one_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct one *one = stream->private_data;

	*out = one->batch;
	one->batch.release = NULL;
	return 0;
}

static const char *one_error(struct ArrowArrayStream *stream)
{
	(void)stream;
	return NULL;
}

static void one_release(struct ArrowArrayStream *stream)
{
	struct one *one = stream->private_data;

	if (one->batch.release)
		one->batch.release(&one->batch);
	weir_appender_free(one->appender);
	stream->release = NULL;
}

static const char columns[] =
	"i: int8, u: uint16, f: float, d: double not null, t: bool, s: string, x: binary, day: date32, m: decimal128(9, 2)";

static void test_all_types(void **state)
{
	struct weir_session *session;
	struct weir_flow *flow;
	struct weir_rows *rows;
	struct one one;
	struct ArrowArrayStream stream = {one_schema, one_next, one_error, one_release, &one};

	(void)state;
	assert_int_equal(weir_appender_new(columns, &one.appender, NULL), WEIR_OK);
	for (int i = 0; i < 1000; i++) {
		weir_append_int64(one.appender, 0, i % 256 - 128);
		weir_append_int64(one.appender, 1, 64535 + i);
		weir_append_double(one.appender, 2, i + 0.5);
		weir_append_int64(one.appender, 3, i);
		weir_append_int64(one.appender, 4, i % 2);
		weir_append_string(one.appender, 5, i % 5 ? "text" : NULL);
		weir_append_bytes(one.appender, 6, "\0\xff", 2);
		weir_append_text(one.appender, 7, "2024-02-29");
		weir_append_text(one.appender, 8, "-1.50");
	}
	assert_int_equal(weir_appender_row_count(one.appender), 1000);
	assert_int_equal(weir_appender_finish(one.appender, NULL, &one.batch, NULL), WEIR_OK);
	assert_int_equal(weir_appender_row_count(one.appender), 0);
	assert_int_equal(weir_session_open(NULL, &session, NULL), WEIR_OK);
	flow = weir_flow_new(session);
	assert_int_equal(weir_flow_read_stream(flow, &stream), WEIR_OK);
	assert_null(stream.release);
	weir_flow_filter(flow, "d < 1000");
	assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
	for (int i = 0; i < 1000; i++) {
		size_t size;

		assert_int_equal(weir_rows_next(rows), 1);
		assert_int_equal(weir_rows_int64(rows, 0), i % 256 - 128);
		assert_int_equal(weir_rows_int64(rows, 1), 64535 + i);
		assert_true(weir_rows_double(rows, 2) == i + 0.5);
		assert_true(weir_rows_double(rows, 3) == i);
		assert_int_equal(weir_rows_int64(rows, 4), i % 2);
		assert_string_equal(weir_rows_text(rows, 5), i % 5 ? "text" : "");
		assert_int_equal(weir_rows_is_null(rows, 5), i % 5 == 0);
		assert_memory_equal(weir_rows_bytes(rows, 6, &size), "\0\xff", 2);
		assert_int_equal(size, 2);
		assert_string_equal(weir_rows_text(rows, 7), "2024-02-29");
		assert_string_equal(weir_rows_text(rows, 8), "-1.50");
	}
	assert_int_equal(weir_rows_next(rows), 0);
	assert_null(weir_rows_error(rows));
	weir_rows_free(rows);
	/* The stream is used up. */
	{
		struct weir_error *error = NULL;
		int64_t n;

		assert_int_equal(weir_flow_count(flow, &n, &error), WEIR_E_INVALID);
		assert_non_null(strstr(weir_error_text(error), "read once, and it was"));
		weir_error_free(error);
	}
	weir_flow_free(flow);
	weir_session_close(session);
}

static void assert_refused(struct weir_appender *appender, enum weir_code code, const char *part)
{
	struct weir_error *error = NULL;
	struct ArrowArray batch;

	assert_int_equal(weir_appender_finish(appender, NULL, &batch, &error), code);
	assert_null(batch.release);
	if (!strstr(weir_error_text(error), part))
		fail_msg("'%s' is not in: %s", part, weir_error_text(error));
	weir_error_free(error);
}

static void test_what_does_not_fit(void **state)
{
	struct weir_error *error = NULL;
	struct weir_appender *appender;
	struct ArrowArray batch;

	(void)state;
	assert_int_equal(weir_appender_new("a: int8, b", &appender, &error), WEIR_E_SYNTAX);
	assert_null(appender);
	weir_error_free(error);
	assert_int_equal(weir_appender_new(NULL, &appender, NULL), WEIR_E_INVALID);
	assert_int_equal(weir_appender_new("a: int8, n: int64 not null, s: string", &appender, NULL), WEIR_OK);
	weir_append_int64(appender, 0, 128);
	weir_append_int64(appender, 0, 1); /* after a mistake nothing more happens */
	assert_refused(appender, WEIR_E_OVERFLOW, "column a, row 0: 128 does not fit type int8");
	weir_append_int64(appender, 0, 1);
	weir_append_string(appender, 0, "x");
	assert_refused(appender, WEIR_E_TYPE, "column a, row 1: a string cannot be appended to type int8");
	weir_append_null(appender, 1);
	assert_refused(appender, WEIR_E_DATA, "not null");
	weir_append_double(appender, 1, 1);
	assert_refused(appender, WEIR_E_TYPE, "a float cannot");
	weir_append_text(appender, 1, "12x");
	assert_refused(appender, WEIR_E_CAST, "'12x' is not a value of type int64");
	weir_append_int64(appender, 7, 1);
	assert_refused(appender, WEIR_E_INVALID, "no column 7");
	weir_append_int64(appender, 0, 1);
	assert_refused(appender, WEIR_E_DATA, "column n: it has 0 rows, and another column has 1");
	weir_append_string(appender, 2, "\xff");
	weir_append_int64(appender, 0, 1);
	weir_append_int64(appender, 1, 1);
	assert_refused(appender, WEIR_E_DATA, "column s");
	/* And it works on. */
	weir_append_int64(appender, 0, 1);
	weir_append_int64(appender, 1, 2);
	weir_append_string(appender, 2, "");
	assert_int_equal(weir_appender_finish(appender, NULL, &batch, NULL), WEIR_OK);
	weir_appender_free(appender);
	assert_int_equal(batch.length, 1);
	assert_int_equal(((const int64_t *)batch.children[1]->buffers[1])[0], 2); /* it outlives the appender */
	batch.release(&batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
