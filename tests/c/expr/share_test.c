/* What stands twice in expressions is one node, evaluated once a vector; random numbers are not. */
#include "support.h"

#include "expr/program.h"

static struct weir_expr *parse(struct fixture *f, const char *text)
{
	struct weir_expr *expr;

	assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), 0);
	return expr;
}

static void test_roots_share(void **state)
{
	struct fixture *f = *state;
	static const char *const texts[] = {"arrow_add(n, 1) * 2", "arrow_add(n, 1) * 3 + arrow_add(n, 1)",
					    "random() + random()"};
	struct weir_field field = {.name = "n", .type = weir_type_of(WEIR_INT64), .nullable = true};
	int64_t values[3] = {1, 2, 3};
	struct weir_column column = {.type = field.type, .values = values}, out[3];
	struct weir_vector vector = {.row_count = 3, .selection = {.count = 3}, .column_count = 1, .columns = &column};
	struct weir_schema *schema = weir_schema_new(f->account, &field, 1, NULL, &f->err);
	struct weir_expr *exprs[3];
	struct weir_program *program = NULL;
	struct weir_evaluator *evaluator;
	uint32_t roots[3] = {0};

	for (uint32_t i = 0; i < 3; i++) {
		exprs[i] = parse(f, texts[i]);
		if (i)
			assert_int_equal(weir_program_extend(program, exprs[i], &roots[i], &f->err), 0);
		else
			assert_int_equal(weir_program_new(f->account, exprs[i], schema, &program, &f->err), 0);
	}
	assert_int_equal(roots[2], 2);
	assert_ptr_equal(program->roots.items[0]->arguments[0], program->roots.items[1]->arguments[1]);
	assert_true(program->roots.items[0]->arguments[0]->is_shared);
	assert_ptr_not_equal(program->roots.items[2]->arguments[0], program->roots.items[2]->arguments[1]);
	assert_int_equal(weir_evaluator_new(f->account, program, &evaluator, &f->err), 0);
	for (int round = 0; round < 2; round++) {
		const void *kept;

		weir_evaluator_begin(evaluator, &vector);
		assert_int_equal(weir_evaluator_root(evaluator, &vector, 0, &out[0], &f->err), 0);
		kept = evaluator->kept[program->roots.items[0]->arguments[0]->number].column.values;
		assert_non_null(kept);
		assert_int_equal(weir_evaluator_root(evaluator, &vector, 1, &out[1], &f->err), 0);
		/* The second root has not computed it again. */
		assert_ptr_equal(evaluator->kept[program->roots.items[0]->arguments[0]->number].column.values, kept);
		assert_int_equal(((const int64_t *)out[0].values)[2], 8);
		assert_int_equal(((const int64_t *)out[1].values)[2], 16);
		assert_int_equal(weir_evaluator_root(evaluator, &vector, 2, &out[2], &f->err), 0);
		values[2] = 3;
	}
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	for (uint32_t i = 0; i < 3; i++)
		weir_expr_free(exprs[i]);
	weir_schema_unref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {memory_test(test_roots_share)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
