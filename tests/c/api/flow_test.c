/* Flows, expressions, rows, errors: the public functions as a program calls them. */
#include "arrow_by_hand.h"
#include "remove_tree.h"

#include "weir/weir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

_Atomic int hand_alive;

static char folder[] = "/tmp/weir_api_XXXXXX";
static struct weir_session *session;

static int open_session(void **state)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 128 << 20, .threads = 3};

	(void)state;
	return weir_session_open(&options, &session, NULL);
}

static int close_session(void **state)
{
	(void)state;
	weir_session_close(session);
	return hand_alive;
}

static struct weir_flow *range(const char *rows)
{
	struct weir_flow *flow = weir_flow_new(session);

	weir_flow_step(flow, "range", (const char *const[]){rows, NULL}, NULL);
	return flow;
}

static int64_t count(const struct weir_flow *flow)
{
	struct weir_error *error = NULL;
	int64_t rows = -1;

	if (weir_flow_count(flow, &rows, &error))
		fail_msg("%s", weir_error_text(error));
	return rows;
}

/* The flow fails, with this code, and the text has all of the parts. */
static void assert_fails(const struct weir_flow *flow, enum weir_code code, const char *part)
{
	struct weir_error *error = NULL;
	int64_t rows;

	assert_int_equal(weir_flow_count(flow, &rows, &error), code);
	assert_non_null(error);
	assert_int_equal(weir_error_code(error), code);
	if (!strstr(weir_error_text(error), part))
		fail_msg("'%s' is not in: %s", part, weir_error_text(error));
	weir_error_free(error);
}

static void test_build_and_count(void **state)
{
	struct weir_flow *flow = range("1000"), *copy;

	(void)state;
	assert_int_equal(weir_flow_filter(flow, "id % 10 == 3"), WEIR_OK);
	assert_int_equal(count(flow), 100);
	assert_int_equal(count(flow), 100); /* again and again */
	copy = weir_flow_copy(flow);
	weir_flow_with(copy, "x = id * 2, y = str(id)");
	weir_flow_rename(copy, "x", "a name, with = and 'quotes'");
	weir_flow_drop(copy, "y");
	weir_flow_limit(copy, 7);
	assert_int_equal(count(copy), 7);
	assert_int_equal(count(flow), 100);
	weir_flow_union(flow, copy);
	assert_int_equal(count(flow), 107);
	weir_flow_free(copy);
	assert_int_equal(count(flow), 107);
	assert_null(weir_flow_error(flow));
	weir_flow_free(flow);
}

/* The first column's values, one after another. */
static void assert_column(const struct weir_flow *flow, const char *want)
{
	struct weir_rows *rows = NULL;
	struct weir_error *error = NULL;
	char text[256] = "";

	assert_int_equal(weir_flow_rows(flow, &rows, &error), WEIR_OK);
	while (weir_rows_next(rows)) {
		strncat(text, weir_rows_text(rows, 0), sizeof(text) - strlen(text) - 1);
		strncat(text, " ", sizeof(text) - strlen(text) - 1);
	}
	assert_null(weir_rows_error(rows));
	assert_string_equal(text, want);
	weir_rows_free(rows);
}

static void test_exchanges(void **state)
{
	static const struct weir_option on[] = {{"on", "id"}, {NULL, NULL}};
	struct weir_flow *flow = range("10"), *copy, *other;

	(void)state;
	weir_flow_with(flow, "k = id % 3");
	copy = weir_flow_copy(flow);
	weir_flow_sort(copy, "k desc, id");
	assert_column(copy, "2 5 8 1 4 7 0 3 6 9 ");
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_top(copy, 3, "k, id asc");
	assert_column(copy, "2 5 8 ");
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_shuffle(copy, 7);
	weir_flow_sort(copy, "id");
	assert_column(copy, "0 1 2 3 4 5 6 7 8 9 ");
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_group(copy, "k", "n = count(), s = sum(id)");
	weir_flow_sort(copy, "k");
	weir_flow_select(copy, "s");
	assert_column(copy, "18 12 15 ");
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_group(copy, "", "s = sum(id)");
	assert_column(copy, "45 ");
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_unique(copy, "k");
	weir_flow_sort(copy, "k");
	assert_column(copy, "0 1 2 ");
	weir_flow_unique(copy, NULL);
	assert_int_equal(count(copy), 3);
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	weir_flow_repartition(copy, (struct weir_option[]){{"blocks", "4"}, {NULL, NULL}});
	assert_column(copy, "0 1 2 3 4 5 6 7 8 9 ");
	weir_flow_repartition(copy,
			      (struct weir_option[]){{"blocks", "2"}, {"keys", "k"}, {"sort", NULL}, {NULL, NULL}});
	assert_int_equal(count(copy), 10);
	weir_flow_free(copy);
	copy = weir_flow_copy(flow);
	other = range("20");
	weir_flow_filter(other, "id > 7");
	weir_flow_join(copy, other, on);
	weir_flow_sort(copy, "id");
	assert_column(copy, "8 9 ");
	weir_flow_free(other);
	weir_flow_free(copy);
	weir_flow_free(flow);
}

static void test_exchanges_refuse(void **state)
{
	struct weir_flow *flow = range("10");

	(void)state;
	assert_int_equal(weir_flow_sort(flow, NULL), WEIR_E_INVALID);
	assert_string_equal(weir_error_operator(weir_flow_error(flow)), "sort");
	weir_flow_free(flow);
	flow = range("10");
	weir_flow_sort(flow, "x desc");
	assert_fails(flow, WEIR_E_NAME, "x");
	weir_flow_free(flow);
	flow = range("10");
	assert_int_equal(weir_flow_top(flow, -1, "id"), WEIR_E_INVALID);
	weir_flow_free(flow);
	flow = range("10");
	assert_int_equal(weir_flow_repartition(flow, NULL), WEIR_E_INVALID);
	assert_fails(flow, WEIR_E_INVALID, "either --blocks");
	weir_flow_free(flow);
	flow = range("10");
	assert_int_equal(weir_flow_group(flow, NULL, NULL), WEIR_E_INVALID);
	weir_flow_free(flow);
	flow = range("10");
	weir_flow_group(flow, "id", "nosuch(id)");
	assert_non_null(weir_flow_error(flow));
	weir_flow_free(flow);
	assert_int_equal(weir_flow_shuffle(NULL, 1), WEIR_E_INVALID);
	assert_int_equal(weir_flow_unique(NULL, NULL), WEIR_E_INVALID);
}

static void test_chain_text(void **state)
{
	struct weir_flow *flow = weir_flow_new(session);

	(void)state;
	weir_flow_chain(flow, "range 1M then filter 'id < 500'");
	weir_flow_chain(flow, "limit 20");
	assert_int_equal(count(flow), 20);
	weir_flow_free(flow);
}

static void test_sticky_errors(void **state)
{
	struct weir_flow *flow = range("10");

	(void)state;
	assert_int_equal(weir_flow_filter(flow, "id >"), WEIR_E_SYNTAX);
	assert_int_equal(weir_flow_limit(flow, 5), WEIR_E_SYNTAX);
	assert_non_null(weir_flow_error(flow));
	assert_string_equal(weir_error_operator(weir_flow_error(flow)), "filter");
	assert_fails(flow, WEIR_E_SYNTAX, "operator filter");
	weir_flow_free(flow);

	flow = range("10");
	weir_flow_filter(flow, "idd > 5");
	assert_fails(flow, WEIR_E_NAME, "did you mean 'id'");
	weir_flow_free(flow);

	flow = range("10");
	weir_flow_filter(flow, "id + 1");
	assert_fails(flow, WEIR_E_TYPE, "true or false");
	weir_flow_free(flow);

	flow = weir_flow_new(session);
	weir_flow_read(flow, "no/such/file.parquet", NULL);
	assert_fails(flow, WEIR_E_NOT_FOUND, "no/such/file.parquet");
	weir_flow_free(flow);

	flow = weir_flow_new(session);
	assert_fails(flow, WEIR_E_INVALID, "empty");
	weir_flow_filter(flow, "x > 1");
	assert_fails(flow, WEIR_E_INVALID, "cannot come first");
	weir_flow_free(flow);

	flow = weir_flow_new(session);
	assert_int_equal(weir_flow_read(flow, "x.parquet", (struct weir_option[]){{"colums", "a"}, {NULL, NULL}}),
			 WEIR_E_INVALID);
	assert_fails(flow, WEIR_E_INVALID, "--colums");
	weir_flow_free(flow);
}

static void test_null_arguments(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("10");
	int64_t rows;

	(void)state;
	assert_null(weir_flow_new(NULL));
	assert_int_equal(weir_flow_filter(NULL, "x"), WEIR_E_INVALID);
	assert_int_equal(weir_flow_count(NULL, &rows, &error), WEIR_E_INVALID);
	assert_non_null(strstr(weir_error_text(error), "flow is NULL"));
	weir_error_free(error);
	assert_int_equal(weir_flow_count(flow, NULL, &error), WEIR_E_INVALID);
	weir_error_free(error);
	assert_int_equal(weir_flow_count(NULL, &rows, NULL), WEIR_E_INVALID);
	assert_int_equal(weir_session_open(NULL, NULL, NULL), WEIR_E_INVALID);
	assert_int_equal(weir_flow_filter(flow, NULL), WEIR_E_INVALID);
	assert_fails(flow, WEIR_E_INVALID, "operator filter: the expression is NULL");
	weir_flow_free(flow);
	weir_flow_free(NULL);
	weir_session_close(NULL);
	weir_task_free(NULL);
	weir_rows_free(NULL);
	weir_error_free(NULL);
	weir_expression_free(NULL);
	weir_task_cancel(NULL);
	assert_string_equal(weir_error_text(NULL), "no error");
	assert_int_equal(weir_error_code(NULL), WEIR_OK);
	assert_int_equal(weir_error_row(NULL), -1);
}

static void test_struct_sizes(void **state)
{
	struct weir_options options = {0};
	struct weir_session *other = session;
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("10");
	struct weir_stats stats = {0};

	(void)state;
	assert_int_equal(weir_session_open(&options, &other, &error), WEIR_E_INVALID);
	assert_null(other);
	assert_non_null(strstr(weir_error_text(error), "sizeof(struct weir_options)"));
	weir_error_free(error);
	options = (struct weir_options){.struct_size = sizeof(options), .memory_limit = 1};
	assert_int_equal(weir_session_open(&options, &other, &error), WEIR_E_LIMIT);
	weir_error_free(error);
	options = (struct weir_options){.struct_size = sizeof(options), .spill_dir = "/no/such/folder"};
	assert_int_equal(weir_session_open(&options, &other, &error), WEIR_E_NOT_FOUND);
	assert_string_equal(weir_error_file(error), "/no/such/folder");
	weir_error_free(error);
	assert_int_equal(weir_flow_run(flow, &stats, &error), WEIR_E_INVALID);
	weir_error_free(error);
	weir_flow_free(flow);
}

static void test_expressions(void **state)
{
	struct weir_expression *list[4];
	struct weir_flow *flow = range("1000");
	struct weir_rows *rows;

	(void)state;
	weir_flow_filter_by(flow, weir_binary("and", weir_binary(">=", weir_column("id"), weir_int(10)),
					      weir_binary("<", weir_column("id"), weir_double(20.5))));
	assert_int_equal(count(flow), 11);
	weir_flow_with_by(flow, "odd \"name\", = x", weir_string("it's \\ \"quoted\"\n\tüñ"));
	weir_flow_with_by(flow, "neg", weir_unary("-", weir_binary("+", weir_column("id"), weir_int(-5))));
	weir_flow_with_by(flow, "min", weir_int(INT64_MIN));
	weir_flow_with_by(flow, "max", weir_int(INT64_MAX));
	weir_flow_with_by(flow, "tiny", weir_double(-5e-324));
	weir_flow_with_by(flow, "nan", weir_double(NAN));
	weir_flow_with_by(flow, "inf", weir_double(-INFINITY));
	weir_flow_with_by(flow, "b", weir_bytes("\0'\xff", 3));
	weir_flow_with_by(flow, "t", weir_bool(1));
	weir_flow_with_by(flow, "day", weir_literal("2024-02-29", "date32"));
	list[0] = weir_column("id");
	list[1] = weir_int(12);
	list[2] = weir_int(14);
	weir_flow_filter_by(flow, weir_call("in", list, 3));
	weir_flow_with_by(flow, "text", weir_binary("+", weir_string("a"), weir_unary("str", weir_column("id"))));
	weir_flow_with_by(flow, "nothing", weir_unary("is None", weir_null()));
	weir_flow_with_by(flow, "parsed", weir_binary("*", weir_parse("id + 1"), weir_int(2)));
	assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
	assert_int_equal(weir_rows_next(rows), 1);
	assert_int_equal(weir_rows_int64(rows, 0), 12);
	assert_string_equal(weir_rows_column_name(rows, 1), "odd \"name\", = x");
	assert_string_equal(weir_rows_text(rows, 1), "it's \\ \"quoted\"\n\tüñ");
	assert_int_equal(weir_rows_int64(rows, 2), -7);
	assert_true(weir_rows_int64(rows, 3) == INT64_MIN);
	assert_true(weir_rows_int64(rows, 4) == INT64_MAX);
	assert_true(weir_rows_double(rows, 5) == -5e-324);
	assert_true(weir_rows_double(rows, 6) != weir_rows_double(rows, 6));
	assert_true(weir_rows_double(rows, 7) == -INFINITY);
	assert_memory_equal(weir_rows_bytes(rows, 8, NULL), "\0'\xff", 3);
	assert_int_equal(weir_rows_int64(rows, 9), 1);
	assert_string_equal(weir_rows_text(rows, 10), "2024-02-29");
	assert_string_equal(weir_rows_text(rows, (uint32_t)weir_rows_find(rows, "text")), "a12");
	assert_int_equal(weir_rows_int64(rows, (uint32_t)weir_rows_find(rows, "nothing")), 1);
	assert_int_equal(weir_rows_int64(rows, (uint32_t)weir_rows_find(rows, "parsed")), 26);
	assert_null(weir_rows_error(rows));
	assert_int_equal(weir_rows_next(rows), 1);
	assert_int_equal(weir_rows_next(rows), 0);
	assert_null(weir_rows_error(rows));
	weir_rows_free(rows);
	weir_flow_free(flow);
}

static void test_expressions_that_cannot_be(void **state)
{
	struct weir_flow *flow = range("10");

	(void)state;
	assert_int_equal(weir_flow_filter_by(flow, weir_binary(">", weir_column(NULL), weir_int(1))), WEIR_E_INVALID);
	assert_fails(flow, WEIR_E_INVALID, "weir_column is NULL");
	weir_flow_free(flow);
	flow = range("10");
	assert_int_equal(weir_flow_filter_by(flow, weir_unary("not", weir_parse("id > (3"))), WEIR_E_SYNTAX);
	assert_fails(flow, WEIR_E_SYNTAX, "operator filter");
	weir_flow_free(flow);
	flow = range("10");
	assert_int_equal(weir_flow_filter_by(flow, weir_parse("id) > (3")), WEIR_E_SYNTAX);
	weir_flow_free(flow);
	flow = range("10");
	weir_flow_with_by(flow, "x", weir_binary("=>", weir_column("id"), weir_int(1)));
	assert_fails(flow, WEIR_E_NAME, "'=>'");
	weir_flow_free(flow);
	flow = range("10");
	weir_flow_with_by(flow, "x", weir_unary("no_such_function", weir_column("id")));
	assert_fails(flow, WEIR_E_NAME, "no_such_function");
	weir_flow_free(flow);
	flow = range("10");
	weir_flow_with_by(flow, "x", NULL);
	assert_fails(flow, WEIR_E_INVALID, "expression is NULL");
	weir_flow_with_by(NULL, "x", weir_int(1)); /* taken over all the same */
	weir_flow_free(flow);
}

static void test_rows(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("100000");
	struct weir_rows *rows = NULL;
	int64_t n = 0;

	(void)state;
	weir_flow_with(flow, "half = id / 2, name = 'row ' + str(id), gap = None if id % 3 == 0 else id");
	assert_int_equal(weir_flow_rows(flow, &rows, &error), WEIR_OK);
	assert_string_equal(weir_rows_column_name(rows, 1), "half");
	assert_string_equal(weir_rows_column_type(rows, 1), "double");
	assert_null(weir_rows_column_name(rows, 99));
	assert_int_equal(weir_rows_find(rows, "name"), 2);
	assert_int_equal(weir_rows_find(rows, "nam"), -1);
	while (weir_rows_next(rows)) {
		char text[32];
		size_t size;

		snprintf(text, sizeof(text), "row %lld", (long long)n);
		assert_int_equal(weir_rows_int64(rows, 0), n);
		assert_true(weir_rows_double(rows, 1) == (double)n / 2);
		assert_true(weir_rows_double(rows, 0) == (double)n);
		assert_string_equal(weir_rows_text(rows, 2), text);
		assert_memory_equal(weir_rows_bytes(rows, 2, &size), text, strlen(text));
		assert_int_equal(size, strlen(text));
		assert_int_equal(weir_rows_is_null(rows, 3), n % 3 == 0);
		assert_int_equal(weir_rows_int64(rows, 3), n % 3 ? n : 0);
		n++;
	}
	assert_null(weir_rows_error(rows));
	assert_int_equal(n, 100000);
	assert_int_equal(weir_rows_next(rows), 0);
	weir_rows_free(rows);
	weir_flow_free(flow);
}

static void test_wrong_questions_end_the_rows(void **state)
{
	static const struct {
		int question;
		const char *part;
	} cases[] = {{0, "weir_rows_double"}, {1, "numbered from 0"}, {2, "weir_rows_bytes"}, {3, "weir_rows_text"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct weir_flow *flow = range("10");
		struct weir_rows *rows;

		weir_flow_with(flow, "half = id / 2, name = str(id)");
		assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
		weir_flow_free(flow);
		assert_int_equal(weir_rows_next(rows), 1);
		switch (cases[i].question) {
		case 0:
			assert_int_equal(weir_rows_int64(rows, 1), 0);
			break;
		case 1:
			assert_string_equal(weir_rows_text(rows, 3), "");
			break;
		case 2:
			assert_true(weir_rows_double(rows, 2) == 0);
			break;
		default:
			assert_null(weir_rows_bytes(rows, 0, NULL));
		}
		assert_int_equal(weir_rows_next(rows), 0);
		assert_non_null(weir_rows_error(rows));
		if (!strstr(weir_error_text(weir_rows_error(rows)), cases[i].part))
			fail_msg("%s", weir_error_text(weir_rows_error(rows)));
		weir_rows_free(rows);
	}
}

static void test_files(void **state)
{
	struct weir_error *error = NULL;
	struct weir_stats stats = {.struct_size = sizeof(stats)};
	struct weir_flow *flow = range("5000");
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/out.parquet", folder);
	weir_flow_with(flow, "x = id * 0.5");
	assert_int_equal(weir_flow_run(flow, &stats, &error), WEIR_E_INVALID);
	assert_non_null(strstr(weir_error_text(error), "weir_flow_write"));
	weir_error_free(error);
	weir_flow_write(flow, path, NULL);
	assert_int_equal(weir_flow_run(flow, &stats, &error), WEIR_OK);
	assert_int_equal(stats.rows_in, 5000);
	assert_int_equal(stats.rows_out, 5000);
	assert_int_equal(stats.finished, 1);
	assert_true(stats.memory_peak > 0 && stats.memory_limit == 128 << 20);
	assert_int_equal(weir_flow_run(flow, NULL, &error), WEIR_E_EXISTS);
	assert_non_null(strstr(weir_error_text(error), path));
	weir_error_free(error);
	weir_flow_free(flow);

	flow = weir_flow_new(session);
	weir_flow_read(flow, path, (struct weir_option[]){{"columns", "x"}, {NULL, NULL}});
	weir_flow_filter(flow, "x < 10");
	assert_int_equal(count(flow), 20);
	weir_flow_free(flow);
}

static void test_an_error_while_running(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("3M");
	int64_t rows;

	(void)state;
	weir_flow_filter(flow, "1 // (id - 2000000) < 5");
	assert_int_equal(weir_flow_count(flow, &rows, &error), WEIR_E_ZERO_DIVISION);
	assert_string_equal(weir_error_operator(error), "filter");
	assert_int_equal(weir_error_row(error), 2000000);
	assert_int_equal(weir_error_row_count(error), 1);
	assert_string_equal(weir_error_code_name(weir_error_code(error)), "WEIR_E_ZERO_DIVISION");
	weir_error_free(error);
	weir_flow_free(flow);
}

static void test_the_value_that_failed(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("10");
	int64_t rows;

	(void)state;
	weir_flow_with(flow, "s = 'x' + str(id)");
	weir_flow_filter(flow, "int(s) > 3");
	assert_int_equal(weir_flow_count(flow, &rows, &error), WEIR_E_CAST);
	assert_string_equal(weir_error_value(error), "x0");
	assert_int_equal(weir_error_row(error), 0);
	assert_non_null(weir_error_message(error));
	weir_error_free(error);
	weir_flow_free(flow);

	flow = weir_flow_new(session);
	assert_int_equal(weir_flow_step(flow, "reed", NULL, NULL), WEIR_E_INVALID);
	assert_fails(flow, WEIR_E_INVALID, "did you mean 'read'");
	weir_flow_free(flow);
}

static void test_schema_and_explain(void **state)
{
	struct weir_error *error = NULL;
	struct weir_flow *flow = range("10");
	struct ArrowSchema schema;
	char *text;

	(void)state;
	weir_flow_with(flow, "name = str(id)");
	weir_flow_filter(flow, "id > 3");
	assert_int_equal(weir_flow_schema(flow, &schema, &error), WEIR_OK);
	assert_int_equal(weir_flow_explain(flow, &text, &error), WEIR_OK);
	weir_flow_free(flow);
	assert_string_equal(schema.format, "+s");
	assert_int_equal(schema.n_children, 2);
	assert_string_equal(schema.children[1]->name, "name");
	assert_string_equal(schema.children[1]->format, "u");
	schema.release(&schema);
	assert_non_null(strstr(text, "filter id > 3"));
	weir_text_free(text);
}

static void test_any_order_of_freeing(void **state)
{
	struct weir_session *own;
	struct weir_flow *flow;
	struct weir_rows *rows;
	struct ArrowArrayStream stream;
	struct ArrowArray batch, child;

	(void)state;
	assert_int_equal(weir_session_open(NULL, &own, NULL), WEIR_OK);
	flow = weir_flow_new(own);
	weir_flow_chain(flow, "range 1000");
	weir_session_close(own);
	assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
	weir_flow_free(flow);
	assert_int_equal(weir_rows_next(rows), 1);
	weir_rows_free(rows);

	assert_int_equal(weir_session_open(NULL, &own, NULL), WEIR_OK);
	flow = weir_flow_new(own);
	weir_flow_chain(flow, "range 1000");
	assert_int_equal(weir_flow_stream(flow, &stream, NULL), WEIR_OK);
	weir_flow_free(flow);
	weir_session_close(own);
	assert_int_equal(stream.get_next(&stream, &batch), 0);
	stream.release(&stream);
	child = *batch.children[0];
	batch.children[0]->release = NULL;
	batch.release(&batch);
	assert_int_equal(((const int64_t *)child.buffers[1])[child.offset + 999], 999);
	child.release(&child);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
	(void)state;
	remove_tree(folder);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_build_and_count),
		TEST(test_exchanges),
		TEST(test_exchanges_refuse),
		TEST(test_chain_text),
		TEST(test_sticky_errors),
		TEST(test_null_arguments),
		TEST(test_struct_sizes),
		TEST(test_expressions),
		TEST(test_expressions_that_cannot_be),
		TEST(test_rows),
		TEST(test_wrong_questions_end_the_rows),
		TEST(test_files),
		TEST(test_an_error_while_running),
		TEST(test_the_value_that_failed),
		TEST(test_schema_and_explain),
		TEST(test_any_order_of_freeing),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
