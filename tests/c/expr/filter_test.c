/* The order of conjuncts adapts to what they cost and drop; one that may fail stays behind its guards. */
#include "support.h"

#include "expr/program.h"

enum { ROWS = WEIR_VECTOR_ROWS };

static void run(struct fixture *f, const char *text, const uint32_t *order, uint32_t count)
{
	static int64_t cheap[ROWS], divisors[ROWS];
	static struct weir_view texts[ROWS];
	struct weir_field fields[3] = {{.name = "n", .type = weir_type_of(WEIR_INT64), .nullable = true},
				       {.name = "d", .type = weir_type_of(WEIR_INT64), .nullable = true},
				       {.name = "s", .type = weir_type_of(WEIR_STRING), .nullable = true}};
	struct weir_column columns[3] = {{.type = fields[0].type, .values = cheap},
					 {.type = fields[1].type, .values = divisors},
					 {.type = fields[2].type, .values = texts}};
	struct weir_vector vector = {.row_count = ROWS, .column_count = 3, .columns = columns};
	struct weir_schema *schema = weir_schema_new(f->account, fields, 3, NULL, &f->err);
	struct weir_expr *expr;
	struct weir_program *program;
	struct weir_evaluator *evaluator;

	for (int i = 0; i < ROWS; i++) {
		cheap[i] = i % 100;
		divisors[i] = i % 10;
		texts[i] = weir_view_make("abcdefgh", (uint32_t)(i % 8));
	}
	assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), 0);
	assert_int_equal(weir_program_new(f->account, expr, schema, &program, &f->err), 0);
	assert_int_equal(weir_evaluator_new(f->account, program, &evaluator, &f->err), 0);
	for (int round = 0; round < 50; round++) {
		vector.selection = (struct weir_selection){.count = ROWS};
		assert_int_equal(weir_evaluator_filter(evaluator, &vector, &f->err), 0);
	}
	assert_int_equal(program->conjuncts.count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(evaluator->conjuncts[i].position, order[i]);
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	weir_expr_free(expr);
	weir_schema_unref(schema);
}

static void test_order(void **state)
{
	/* Dear and useless first: the cheap one that drops 99 of 100 overtakes it. */
	run(*state, "s.replace('b', 'xyz').length() >= 0 and n == 7", (const uint32_t[]){1, 0}, 2);
	/* The division may fail, so it stays behind its guard, however well it filters; the other may pass both. */
	run(*state, "d != 0 and n // d == 99 and n == 7", (const uint32_t[]){2, 0, 1}, 3);
}

static void test_only_booleans(void **state)
{
	struct fixture *f = *state;
	struct weir_field field = {.name = "price", .type = weir_type_of(WEIR_DOUBLE), .nullable = true};
	struct weir_schema *schema = weir_schema_new(f->account, &field, 1, NULL, &f->err);
	struct weir_vector vector = {0};
	struct weir_expr *expr;
	struct weir_program *program;
	struct weir_evaluator *evaluator;

	assert_int_equal(weir_expr_parse(f->account, "price + 1", &expr, &f->err), 0);
	assert_int_equal(weir_program_new(f->account, expr, schema, &program, &f->err), 0);
	assert_int_equal(weir_evaluator_new(f->account, program, &evaluator, &f->err), 0);
	assert_int_equal(weir_evaluator_filter(evaluator, &vector, &f->err), WEIR_E_TYPE);
	assert_non_null(strstr(f->err.message, "price + 1 is double"));
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	weir_expr_free(expr);
	weir_schema_unref(schema);
}

static void test_a_long_or_is_bound_quickly(void **state)
{
	struct fixture *f = *state;
	struct weir_field field = {.name = "a", .type = weir_type_of(WEIR_INT64), .nullable = true};
	struct weir_schema *schema = weir_schema_new(f->account, &field, 1, NULL, &f->err);
	const struct weir_scalar *values;
	struct weir_mem_stats stats;
	struct weir_expr *expr;
	struct weir_program *program;
	uint32_t count;
	char *text = malloc(400000), *at = text;

	for (int i = 0; i < 20000; i++)
		at += snprintf(at, 20, "%sa == %d", i ? " or " : "", i);
	assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), 0);
	assert_int_equal(weir_program_new(f->account, expr, schema, &program, &f->err), 0);
	assert_int_equal(weir_program_equalities(program, 0, &values, &count, &f->err), 0);
	assert_int_equal(count, 20000);
	weir_mem_stats(f->mem, &stats);
	assert_true(stats.used < 64 << 20);
	weir_program_free(program);
	weir_expr_free(expr);
	weir_schema_unref(schema);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {memory_test(test_order), memory_test(test_only_booleans),
					   memory_test(test_a_long_or_is_bound_quickly)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
