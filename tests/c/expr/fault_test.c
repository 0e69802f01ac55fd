/* The n-th allocation fails, for every n, on the way from text to values: an error comes back, and nothing is left. */
#include "support.h"

#include "base/fault.h"

#include <errno.h>

#ifdef WEIR_FAULTS

enum { ROWS = 100 };

static const char *const texts[] = {
	"n + 1 > 3 and s in ('A', 'a longer text than twelve', 'C') or s.lower().startswith('a')",
	"s.split(',')[0] + cast(n, 'string')",
	"regex_replace(s, '[a-c]+', r'<\\0>') if n > 3 else coalesce(s.strip(), 'none')",
	"cast(cast(n, 'decimal128(20, 2)') * 3, 'string')",
	"cast(n, 'decimal128(20, 2)') // cast(7, 'decimal128(5, 1)')",
	"coalesce(s.split(',')[1:], s.split('x')) if n > 3 else s.split()",
	"s[:1] in s.split(',')",
	"hour(cast(n, \"timestamp[s, tz=Europe/Berlin]\")) + d.year",
	"arrow_mod(arrow_add(arrow_multiply(n, 3), 1), 7.5) > arrow_divide(n, 2) or arrow_ln(n) < arrow_sign(n)",
	"arrow_replace_regex(s, '(?P<x>[a-c])', r'<\\0>') if arrow_match_regex(s, 'a|b', True) else arrow_slice(s, -1, None, -1)",
	"element(list_sort(arrow_split_regex(s, 'b', 2), 'descending'), 0)",
	"field(arrow_extract_regex(s, '(?P<first>.)(?P<rest>.*)'), 'rest')",
	"arrow_cast(arrow_split(s, ',', 1), 'list<item: large_string>', False)",
	"round_time(d, 'month') if arrow_strftime(d, '%c %Q') > 'a' else ceil_time(d, 'week')",
	"arrow_add(n, 1) * 2 + arrow_add(n, 1) > length(uuid(1)) + monotonically_increasing_id() + random(3)",
	"lpad(title(s), 20, '*') + center(swapcase(s), arrow_length(s) + 30) if is_ascii(s) else strftime(d, '%A, %d %B %Y')",
};

static int run(struct fixture *f, const char *text, const struct weir_schema *schema, struct weir_vector *vector)
{
	struct weir_expr *expr = NULL, *copy = NULL;
	struct weir_program *program = NULL;
	struct weir_evaluator *evaluator = NULL;
	struct weir_schema *out_schema = NULL;
	struct weir_batch *batch = NULL;
	struct weir_column column;
	struct weir_vector result;
	struct weir_field field = {.name = "out", .nullable = true};
	int code;

	code = weir_expr_parse(f->account, text, &expr, &f->err);
	if (!code)
		code = weir_expr_clone(expr, f->account, &copy, &f->err);
	if (!code)
		code = weir_program_new(f->account, copy, schema, &program, &f->err);
	if (!code)
		code = weir_evaluator_new(f->account, program, &evaluator, &f->err);
	if (!code)
		code = weir_evaluator_eval(evaluator, vector, &column, &f->err);
	if (!code) {
		result = *vector;
		result.column_count = 1;
		result.columns = &column;
		field.type = weir_program_type(program);
		out_schema = weir_schema_new(f->account, &field, 1, NULL, &f->err);
		code = out_schema ? weir_vector_to_batch(&result, out_schema, f->account, &batch, &f->err)
				  : f->err.code;
	}
	if (batch)
		weir_batch_unref(batch);
	if (out_schema)
		weir_schema_unref(out_schema);
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	weir_expr_free(expr);
	weir_expr_free(copy);
	return code;
}

static void test_every_allocation(void **state)
{
	struct fixture *f = *state;
	struct weir_field fields[3] = {{.name = "n", .type = weir_type_of(WEIR_INT64), .nullable = true},
				       {.name = "s", .type = weir_type_of(WEIR_STRING), .nullable = true},
				       {.name = "d", .type = weir_type_of(WEIR_DATE32), .nullable = true}};
	struct weir_schema *schema = weir_schema_new(f->account, fields, 3, NULL, &f->err);
	static const char *const words[] = {"A", "b,c", "a longer text than twelve", " x "};
	int64_t numbers[ROWS];
	int32_t days[ROWS];
	uint32_t codes[ROWS];
	struct weir_view values[4];
	uint64_t validity[2] = {0x5555555555555555u, 0xffffffffffffffffu};
	struct weir_dictionary dictionary = {.count = 4, .values = values};
	struct weir_column columns[3] = {
		{.type = fields[0].type, .values = numbers, .validity = validity},
		{.type = fields[1].type, .form = WEIR_DICTIONARY, .values = codes, .dictionary = &dictionary},
		{.type = fields[2].type, .values = days}};
	struct weir_vector vector = {
		.row_count = ROWS, .selection = {.count = ROWS}, .column_count = 3, .columns = columns};

	for (int i = 0; i < 4; i++)
		values[i] = weir_view_make(words[i], (uint32_t)strlen(words[i]));
	for (int i = 0; i < ROWS; i++) {
		numbers[i] = i % 9;
		days[i] = i * 100;
		codes[i] = (uint32_t)i % 4;
	}
	for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
		struct weir_mem_stats before, after;
		uint64_t seen;
		int code, failed = 0;

		weir_mem_stats(f->mem, &before);
		dictionary.id = weir_dictionary_id_new();
		code = run(f, texts[t], schema, &vector);
		if (code)
			print_error("%s: %s\n", texts[t], f->err.message);
		assert_int_equal(code, 0);
		for (uint64_t n = 1;; n++) {
			weir_fault_arm(WEIR_FAULT_ALLOC, n, ENOMEM, false);
			code = run(f, texts[t], schema, &vector);
			seen = weir_fault_count(WEIR_FAULT_ALLOC);
			weir_fault_disarm();
			weir_mem_stats(f->mem, &after);
			assert_int_equal(before.used, after.used);
			if (!code) {
				assert_true(seen < n);
				break;
			}
			assert_int_equal(code, WEIR_E_MEMORY);
			failed++;
		}
		assert_true(failed > 3);
	}
	weir_schema_unref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {memory_test(test_every_allocation)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0; /* built without failure injection */
}

#endif
