/* C functions of a program as transforms and sources: what they see, what becomes of what they give, and of
 * nonsense. */
#include "arrow_by_hand.h"
#include "remove_tree.h"

#include "weir/weir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

_Atomic int hand_alive;

static struct weir_session *session;

static int open_session(void **state)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 96 << 20, .threads = 3};

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

static struct weir_error *assert_fails(struct weir_flow *flow, enum weir_code code, const char *part)
{
	struct weir_error *error = NULL;
	int64_t rows;

	assert_int_not_equal(weir_flow_count(flow, &rows, &error), WEIR_OK);
	if (!strstr(weir_error_text(error), part) || weir_error_code(error) != code)
		fail_msg("'%s' (%s) is not in: %s (%s)", part, weir_error_code_name(code), weir_error_text(error),
			 weir_error_code_name(weir_error_code(error)));
	weir_flow_free(flow);
	return error;
}

/* ---- transforms ---- */

struct shared {
	_Atomic int created, destroyed, released, running, running_max;
	_Atomic int64_t calls, rows, rows_odd; /* rows_odd: calls with other than batch_rows rows */
	int64_t batch_rows;
};

struct own {
	struct shared *shared;
	int busy; /* not atomic: TSan sees two threads in it */
};

static int create(void *data, struct weir_context *context, void **state)
{
	struct own *own = calloc(1, sizeof(*own));

	(void)context;
	own->shared = data;
	own->shared->created++;
	*state = own;
	return 0;
}

static void destroy(void *state)
{
	struct own *own = state;

	own->shared->destroyed++;
	free(own);
}

static void release(void *data)
{
	((struct shared *)data)->released++;
}

/* twice = 2 × id, of the column id wherever it is. */
static int apply_twice(void *state, struct weir_context *context, const struct ArrowSchema *input_schema,
		       const struct ArrowArray *input, struct ArrowSchema *output_schema, struct ArrowArray *output)
{
	struct own *own = state;
	struct shared *shared = own->shared;
	const struct ArrowArray *id = NULL;
	int64_t *values;
	int running = ++shared->running;

	/* cmocka's assertions belong to the test's own thread. */
	if (own->busy++ || weir_context_thread(context) >= 8 || input_schema->n_children != input->n_children)
		abort();
	if (running > shared->running_max)
		shared->running_max = running;
	for (int64_t i = 0; i < input->n_children; i++)
		if (strcmp(input_schema->children[i]->name, "id") == 0)
			id = input->children[i];
	if (!id)
		abort();
	shared->calls++;
	shared->rows += input->length;
	shared->rows_odd += input->length != shared->batch_rows;
	hand_array(output, input->length, 1, 1);
	values = hand_int64(output->children[0], input->length);
	for (int64_t i = 0; i < input->length; i++)
		values[i] = 2 * ((const int64_t *)id->buffers[1])[id->offset + i];
	if (output_schema) {
		hand_schema(output_schema, "+s", "", 1);
		hand_schema(output_schema->children[0], "l", "twice", 0);
	}
	own->busy--;
	shared->running--;
	return 0;
}

static void check_twice(const struct weir_flow *flow, int64_t rows_expected)
{
	struct weir_error *error = NULL;
	struct weir_rows *rows;
	int64_t n = 0;
	int twice, id;

	if (weir_flow_rows(flow, &rows, &error))
		fail_msg("%s", weir_error_text(error));
	twice = weir_rows_find(rows, "twice");
	id = weir_rows_find(rows, "id");
	assert_true(twice >= 0);
	for (; weir_rows_next(rows); n++) {
		assert_int_equal(weir_rows_int64(rows, (uint32_t)twice), 2 * n);
		if (id >= 0)
			assert_int_equal(weir_rows_int64(rows, (uint32_t)id), n);
	}
	if (weir_rows_error(rows))
		fail_msg("%s", weir_error_text(weir_rows_error(rows)));
	assert_int_equal(n, rows_expected);
	weir_rows_free(rows);
}

static struct weir_transform twice_of(struct shared *shared)
{
	return (struct weir_transform){.struct_size = sizeof(struct weir_transform),
				       .name = "twice",
				       .apply = apply_twice,
				       .create = create,
				       .destroy = destroy,
				       .release = release,
				       .data = shared};
}

static void test_added_columns_in_order(void **state)
{
	struct shared shared = {0};
	struct weir_transform transform = twice_of(&shared);
	struct weir_flow *flow = range("1200000");

	(void)state;
	transform.adds_columns = 1;
	transform.columns_in = "id";
	weir_flow_with(flow, "text = str(id % 7), other = id + 1");
	assert_int_equal(weir_flow_transform(flow, &transform), WEIR_OK);
	weir_flow_filter(flow, "twice >= 0");
	check_twice(flow, 1200000);
	assert_int_equal(shared.released, 0);
	assert_true(shared.calls > 50);
	assert_int_equal(shared.created, shared.destroyed);
	weir_flow_free(flow);
	assert_int_equal(shared.released, 1);
}

static void test_replaced_rows_and_schema_from_the_function(void **state)
{
	struct shared shared = {0};
	struct weir_transform transform = twice_of(&shared);
	struct weir_flow *flow = range("300000"), *copy;
	struct ArrowSchema schema;

	(void)state;
	weir_flow_with(flow, "unused = str(id)");
	weir_flow_transform(flow, &transform);
	assert_int_equal(weir_flow_schema(flow, &schema, NULL), WEIR_OK);
	assert_int_equal(schema.n_children, 1);
	assert_string_equal(schema.children[0]->name, "twice");
	schema.release(&schema);
	check_twice(flow, 300000);
	copy = weir_flow_copy(flow);
	weir_flow_free(flow);
	assert_int_equal(shared.released, 0);
	assert_int_equal(count(copy), 300000);
	weir_flow_limit(copy, 5000);
	assert_int_equal(count(copy), 5000);
	weir_flow_free(copy);
	assert_int_equal(shared.released, 1);
	assert_int_equal(shared.created, shared.destroyed);
}

static void test_batch_rows_and_threads_max(void **state)
{
	static const int64_t sizes[] = {1, 1000, 4096, 10001, 2000000};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct shared shared = {.batch_rows = sizes[i]};
		struct weir_transform transform = twice_of(&shared);
		struct weir_flow *flow = range(sizes[i] < 4096 ? "3000" : "1100000");

		transform.batch_rows = sizes[i];
		transform.columns_out = "twice: int64";
		transform.threads_max = 2;
		weir_flow_filter(flow, "id >= 0");
		weir_flow_transform(flow, &transform);
		check_twice(flow, sizes[i] < 4096 ? 3000 : 1100000);
		/* Only the last batch of a split (1 Mi rows) may be smaller. */
		assert_true(shared.rows_odd <= 2);
		assert_true(shared.running_max <= 2);
		weir_flow_free(flow);
	}
}

/* Columns that are decoded when they are asked for, in vectors that fill several batches. */
static void test_files_in_pieces(void **state)
{
	char folder[] = "/tmp/weir_function_XXXXXX", path[64];
	struct weir_flow *flow = range("50k");

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/in.parquet", folder);
	weir_flow_with(flow, "s = str(id), gap = None if id % 7 == 0 else id");
	weir_flow_write(flow, path, NULL);
	assert_int_equal(weir_flow_run(flow, NULL, NULL), WEIR_OK);
	weir_flow_free(flow);
	for (int64_t rows = 1000; rows < 10000; rows += 1717) {
		struct shared shared = {0};
		struct weir_transform transform = twice_of(&shared);

		flow = weir_flow_new(session);
		weir_flow_read(flow, path, NULL);
		transform.batch_rows = rows;
		transform.adds_columns = 1;
		weir_flow_transform(flow, &transform);
		weir_flow_filter(flow, "s == str(id) and (id % 7 == 0 or gap == id)");
		check_twice(flow, 50000);
		weir_flow_free(flow);
	}
	remove_tree(folder);
}

static void test_little_memory(void **state)
{
	struct weir_options options = {.struct_size = sizeof(options), .memory_limit = 64 << 20, .threads = 8};
	struct shared shared = {0};
	struct weir_transform transform = twice_of(&shared);
	struct weir_session *small;
	struct weir_flow *flow;
	struct weir_stats stats = {.struct_size = sizeof(stats)};
	struct weir_task *task;
	struct weir_rows *rows;
	int64_t n = 0;

	(void)state;
	transform.batch_rows = 200000; /* eight of these do not fit */
	transform.adds_columns = 1;
	assert_int_equal(weir_session_open(&options, &small, NULL), WEIR_OK);
	flow = weir_flow_new(small);
	weir_flow_chain(flow, "range 3M then with 'a = id * 1.5, b = id * 2.5, c = id // 3, d = id % 9'");
	weir_flow_transform(flow, &transform);
	assert_int_equal(weir_flow_start(flow, NULL, &task, NULL), WEIR_OK);
	assert_int_equal(weir_task_rows(task, &rows, NULL), WEIR_OK);
	for (; weir_rows_next(rows); n++)
		assert_int_equal(weir_rows_int64(rows, 5), 2 * n);
	if (weir_rows_error(rows))
		fail_msg("%s", weir_error_text(weir_rows_error(rows)));
	assert_int_equal(n, 3000000);
	weir_task_stats(task, &stats);
	assert_true(stats.memory_peak <= 64 << 20);
	weir_rows_free(rows);
	weir_task_free(task);
	weir_flow_free(flow);
	weir_session_close(small);
	assert_int_equal(shared.created, shared.destroyed);
}

/* Nonsense, one kind a case. */
static int nonsense;

static int apply_nonsense(void *state, struct weir_context *context, const struct ArrowSchema *input_schema,
			  const struct ArrowArray *input, struct ArrowSchema *output_schema, struct ArrowArray *output)
{
	int64_t length = input->length, *values;

	(void)state;
	(void)input_schema;
	switch (nonsense) {
	case 0:
		return weir_context_fail(context, "there is a %s in row %d", "worm", 17);
	case 1:
		return -5;
	case 2:
		return 0; /* nothing */
	case 3:
		hand_array(output, length + 1, 1, 1); /* one more row than asked for */
		hand_int64(output->children[0], length + 1);
		return 0;
	case 4:
		hand_array(output, length, 1, 1); /* the column is shorter than the batch */
		hand_int64(output->children[0], length - 1);
		return 0;
	case 5:
		hand_array(output, length, 1, 2); /* one column too many */
		hand_int64(output->children[0], length);
		hand_int64(output->children[1], length);
		return 0;
	case 6:
		hand_array(output, length, 1, 1); /* another type than was promised */
		hand_int64(output->children[0], length);
		hand_schema(output_schema, "+s", "", 1);
		hand_schema(output_schema->children[0], "g", "twice", 0);
		return 0;
	case 7:
		hand_array(output, length, 1, 1); /* another name */
		hand_int64(output->children[0], length);
		hand_schema(output_schema, "+s", "", 1);
		hand_schema(output_schema->children[0], "l", "thrice", 0);
		return 0;
	case 8:
		hand_array(output, length, 1, 1); /* nulls that were promised not to be */
		values = hand_int64(output->children[0], length);
		values[0] = 1;
		output->children[0]->buffers[0] = calloc(1, (size_t)length / 8 + 1);
		output->children[0]->null_count = length;
		return 0;
	case 9:
		hand_array(output, length, 1, 1); /* a column without values */
		hand_array(output->children[0], length, 2, 0);
		return 0;
	default:
		hand_array(output, -1, 1, 1);
		hand_int64(output->children[0], length);
		return 0;
	}
}

static void test_nonsense(void **state)
{
	static const struct {
		enum weir_code code;
		const char *part;
	} cases[] = {
		{WEIR_E_FUNCTION, "there is a worm in row 17"},
		{WEIR_E_FUNCTION, "returned -5"},
		{WEIR_E_INVALID, "output->release is NULL"},
		{WEIR_E_DATA, "rows for"},
		{WEIR_E_DATA, "no valid batch"},
		{WEIR_E_DATA, "no valid batch"},
		{WEIR_E_TYPE, "has type double here, and int64 was promised"},
		{WEIR_E_TYPE, "'thrice', and 'twice' was promised"},
		{WEIR_E_DATA, "'not null' was promised"},
		{WEIR_E_DATA, "no valid batch"},
		{WEIR_E_DATA, "no valid batch"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct weir_transform transform = {.struct_size = sizeof(transform),
						   .name = "worms",
						   .apply = apply_nonsense,
						   .columns_out = "twice: int64 not null",
						   .adds_columns = 1,
						   .batch_rows = 1000};
		struct weir_flow *flow = range("100k");
		struct weir_error *error;

		nonsense = (int)i;
		weir_flow_transform(flow, &transform);
		error = assert_fails(flow, cases[i].code, cases[i].part);
		assert_string_equal(weir_error_operator(error), "worms");
		assert_int_equal(weir_error_row(error), 0);
		assert_int_equal(weir_error_row_count(error), 1000);
		assert_non_null(strstr(weir_error_text(error), "rows 0 to 999"));
		weir_error_free(error);
		assert_int_equal(hand_alive, 0);
	}
}

static int apply_failing_at(void *state, struct weir_context *context, const struct ArrowSchema *input_schema,
			    const struct ArrowArray *input, struct ArrowSchema *output_schema,
			    struct ArrowArray *output)
{
	const struct ArrowArray *id = input->children[0];

	(void)state;
	(void)input_schema;
	(void)output_schema;
	for (int64_t i = 0; i < input->length; i++)
		if (((const int64_t *)id->buffers[1])[id->offset + i] == 654321)
			return weir_context_fail(context, "bad row");
	hand_array(output, input->length, 1, 0);
	return 0;
}

static void test_where_it_failed(void **state)
{
	struct weir_transform transform = {.struct_size = sizeof(transform),
					   .apply = apply_failing_at,
					   .adds_columns = 1,
					   .columns_out = "",
					   .batch_rows = 1000};
	struct weir_flow *flow = range("3M");
	struct weir_error *error;

	(void)state;
	weir_flow_filter(flow, "id % 3 == 0");
	weir_flow_transform(flow, &transform);
	error = assert_fails(flow, WEIR_E_FUNCTION, "bad row");
	assert_string_equal(weir_error_operator(error), "transform");
	assert_true(weir_error_row(error) <= 654321);
	assert_true(weir_error_row(error) + weir_error_row_count(error) > 654321);
	assert_int_equal(weir_error_row_count(error), 2998);
	assert_string_equal(weir_error_file(error), "range");
	weir_error_free(error);
}

static int create_fails(void *data, struct weir_context *context, void **state)
{
	(void)data;
	*state = NULL;
	return weir_context_fail(context, "no more licences");
}

static void test_definitions(void **state)
{
	struct shared shared = {0};
	struct weir_transform transform = twice_of(&shared);
	struct weir_flow *flow;

	(void)state;
	flow = range("10");
	weir_flow_transform(flow, NULL);
	weir_error_free(assert_fails(flow, WEIR_E_INVALID, "the transform is NULL"));
	flow = range("10");
	transform.struct_size = 0;
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_INVALID, "sizeof(struct weir_transform)"));
	transform = twice_of(&shared);
	transform.apply = NULL;
	flow = range("10");
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_INVALID, "no function apply"));
	transform = twice_of(&shared);
	transform.columns_in = "id, idd";
	flow = range("10");
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_NAME, "operator twice: no column 'idd'"));
	transform = twice_of(&shared);
	transform.columns_out = "twice int64";
	flow = range("10");
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_SYNTAX, "\"twice int64\" cannot be read"));
	transform = twice_of(&shared);
	transform.create = create_fails;
	transform.destroy = NULL;
	flow = range("10");
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_FUNCTION, "no more licences"));
	transform.columns_out = "twice: int64";
	flow = range("10");
	weir_flow_transform(flow, &transform);
	weir_error_free(assert_fails(flow, WEIR_E_FUNCTION, "operator twice: no more licences"));
}

/* ---- sources ---- */

struct numbers {
	_Atomic int opened, closed, released;
	int64_t fail_open, fail_next, bad_batch; /* splits; −1: none */
};

struct cursor {
	struct numbers *numbers;
	int64_t split, batch;
};

static int source_open(void *data, struct weir_context *context, int64_t split, void **state)
{
	struct numbers *numbers = data;
	struct cursor *cursor;

	if (split == numbers->fail_open)
		return weir_context_fail(context, "split %lld is locked", (long long)split);
	cursor = calloc(1, sizeof(*cursor));
	*cursor = (struct cursor){.numbers = numbers, .split = split};
	numbers->opened++;
	*state = cursor;
	return 0;
}

static int source_next(void *state, struct weir_context *context, struct ArrowArray *out)
{
	struct cursor *cursor = state;
	int64_t *values, n = 10000;

	if (cursor->split == cursor->numbers->fail_next && cursor->batch == 2)
		return weir_context_fail(context, "the line went dead");
	if (cursor->batch == 5)
		return 0;
	if (cursor->batch == 3)
		n = 0; /* an empty batch is not the end */
	hand_array(out, n, 1, 1);
	values = hand_int64(out->children[0], n);
	for (int64_t i = 0; i < n; i++)
		values[i] = cursor->split * 40000 + (cursor->batch - (cursor->batch > 3)) * 10000 + i;
	if (cursor->split == cursor->numbers->bad_batch)
		out->children[0]->length = 7;
	cursor->batch++;
	return 0;
}

static void source_close(void *state)
{
	struct cursor *cursor = state;

	cursor->numbers->closed++;
	free(cursor);
}

static void source_release(void *data)
{
	((struct numbers *)data)->released++;
}

static struct weir_source source_of(struct numbers *numbers, int64_t split_count)
{
	*numbers = (struct numbers){.fail_open = -1, .fail_next = -1, .bad_batch = -1};
	return (struct weir_source){.struct_size = sizeof(struct weir_source),
				    .name = "numbers",
				    .columns = "n: int64",
				    .split_count = split_count,
				    .open = source_open,
				    .next = source_next,
				    .close = source_close,
				    .data = numbers,
				    .release = source_release};
}

static void check_numbers(const struct weir_flow *flow, int64_t rows_expected)
{
	struct weir_rows *rows;
	int64_t n = 0;

	assert_int_equal(weir_flow_rows(flow, &rows, NULL), WEIR_OK);
	for (; weir_rows_next(rows); n++)
		assert_int_equal(weir_rows_int64(rows, 0), n);
	assert_null(weir_rows_error(rows));
	assert_int_equal(n, rows_expected);
	weir_rows_free(rows);
}

static void test_sources(void **state)
{
	(void)state;
	for (int64_t splits = 0; splits <= 20; splits += 5) {
		struct numbers numbers;
		struct weir_source source = source_of(&numbers, splits);
		struct weir_flow *flow = weir_flow_new(session);
		int64_t rows = (splits ? splits : 1) * 40000;

		assert_int_equal(weir_flow_read_source(flow, &source), WEIR_OK);
		check_numbers(flow, rows);
		check_numbers(flow, rows); /* opened again */
		assert_int_equal(numbers.opened, 2 * (splits ? splits : 1));
		weir_flow_filter(flow, "n % 2 == 0");
		weir_flow_limit(flow, 100); /* closed early */
		assert_int_equal(count(flow), 100);
		assert_int_equal(numbers.opened, numbers.closed);
		assert_int_equal(numbers.released, 0);
		weir_flow_free(flow);
		assert_int_equal(numbers.released, 1);
		assert_int_equal(hand_alive, 0);
	}
}

static void test_sources_that_fail(void **state)
{
	struct numbers numbers;
	struct weir_source source;
	struct weir_flow *flow;
	struct weir_error *error;

	(void)state;
	for (int64_t splits = 0; splits <= 8; splits += 8) {
		int64_t bad = splits ? 5 : 0;

		source = source_of(&numbers, splits);
		numbers.fail_open = bad;
		flow = weir_flow_new(session);
		weir_flow_read_source(flow, &source);
		weir_error_free(assert_fails(flow, WEIR_E_FUNCTION, "is locked"));
		assert_int_equal(numbers.opened, numbers.closed);
		source = source_of(&numbers, splits);
		numbers.fail_next = bad;
		flow = weir_flow_new(session);
		weir_flow_read_source(flow, &source);
		error = assert_fails(flow, WEIR_E_FUNCTION, "the line went dead");
		assert_string_equal(weir_error_operator(error), "numbers");
		assert_int_equal(weir_error_row(error), 20000);
		assert_int_equal(numbers.opened, numbers.closed);
		weir_error_free(error);
		source = source_of(&numbers, splits);
		numbers.bad_batch = bad;
		flow = weir_flow_new(session);
		weir_flow_read_source(flow, &source);
		error = assert_fails(flow, WEIR_E_DATA, "no valid batch");
		assert_int_equal(numbers.opened, numbers.closed);
		weir_error_free(error);
		assert_int_equal(hand_alive, 0);
	}
	source = source_of(&numbers, 3);
	source.columns = "n int64";
	flow = weir_flow_new(session);
	weir_flow_read_source(flow, &source);
	weir_error_free(assert_fails(flow, WEIR_E_SYNTAX, "operator numbers"));
	source = source_of(&numbers, 3);
	source.open = NULL;
	flow = weir_flow_new(session);
	weir_flow_read_source(flow, &source);
	weir_error_free(assert_fails(flow, WEIR_E_INVALID, "no function open"));
	source = source_of(&numbers, 3);
	source.columns = "n: int64, m: double";
	flow = weir_flow_new(session);
	weir_flow_read_source(flow, &source);
	weir_error_free(assert_fails(flow, WEIR_E_DATA, "no valid batch"));
	assert_int_equal(hand_alive, 0);
}

static void test_union_of_functions(void **state)
{
	struct shared shared = {0};
	struct weir_transform transform = twice_of(&shared);
	struct numbers numbers;
	struct weir_source source = source_of(&numbers, 4);
	struct weir_flow *a = weir_flow_new(session), *b = range("1000");

	(void)state;
	transform.threads_max = 1;
	weir_flow_read_source(a, &source);
	weir_flow_transform(b, &transform);
	weir_flow_union(a, b);
	weir_flow_free(b);
	assert_int_equal(count(a), 161000);
	assert_true(shared.running_max <= 1);
	weir_flow_free(a);
	assert_int_equal(shared.released, 1);
	assert_int_equal(numbers.released, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_added_columns_in_order),
		TEST(test_replaced_rows_and_schema_from_the_function),
		TEST(test_batch_rows_and_threads_max),
		TEST(test_files_in_pieces),
		TEST(test_little_memory),
		TEST(test_nonsense),
		TEST(test_where_it_failed),
		TEST(test_definitions),
		TEST(test_sources),
		TEST(test_sources_that_fail),
		TEST(test_union_of_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
