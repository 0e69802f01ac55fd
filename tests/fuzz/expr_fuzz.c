/* Any text: parsed or refused; what parses prints to text that parses to the same text; what binds to a schema of a few
 * columns evaluates or raises an error, in a memory limit. */
#include "expr/expr.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 70, COLUMNS = 6, LIMIT = 64 << 20, TEXT_MAX = 4096 };

static struct weir_schema *schema_new(struct weir_account *account, struct weir_error *err)
{
	const struct weir_type *ts = weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_MICRO, NULL, err);
	struct weir_field fields[COLUMNS] = {{.name = "i", .type = weir_type_of(WEIR_INT64), .nullable = true},
					     {.name = "x", .type = weir_type_of(WEIR_DOUBLE), .nullable = true},
					     {.name = "s", .type = weir_type_of(WEIR_STRING), .nullable = true},
					     {.name = "b", .type = weir_type_of(WEIR_BOOL), .nullable = true},
					     {.name = "t", .type = ts, .nullable = true},
					     {.name = "k", .type = weir_type_of(WEIR_INT8), .nullable = true}};
	struct weir_schema *schema = ts ? weir_schema_new(account, fields, COLUMNS, NULL, err) : NULL;

	weir_type_unref(ts);
	return schema;
}

static void evaluate(struct weir_account *account, const struct weir_expr *expr, struct weir_error *err)
{
	static const char *const words[] = {"", "A", "äöü", "a longer text, than twelve", "2024-02-29", "17"};
	struct weir_schema *schema = schema_new(account, err);
	struct weir_program *program = NULL;
	struct weir_evaluator *evaluator = NULL;
	int64_t integers[ROWS], times[ROWS];
	double reals[ROWS];
	int8_t bytes[ROWS];
	struct weir_view texts[ROWS];
	uint64_t bits[2] = {0x123456789abcdef0u, 5}, validity[2] = {0xf0f0ffff0000ffffu, ~(uint64_t)0};
	struct weir_column columns[COLUMNS], out;
	struct weir_vector vector = {
		.row_count = ROWS, .selection = {.count = ROWS}, .column_count = COLUMNS, .columns = columns};

	if (!schema)
		abort();
	for (int i = 0; i < ROWS; i++) {
		integers[i] = i % 7 == 0 ? INT64_MIN + i : i - 35;
		times[i] = (int64_t)i * 86400000000 * 1000;
		reals[i] = i % 5 == 0 ? 0.0 / 0.0 : i / 8.0;
		bytes[i] = (int8_t)(i * 7);
		texts[i] = weir_view_make(words[i % 6], (uint32_t)strlen(words[i % 6]));
	}
	const void *values[COLUMNS] = {integers, reals, texts, bits, times, bytes};
	for (int c = 0; c < COLUMNS; c++)
		columns[c] = (struct weir_column){
			.type = schema->fields[c].type, .values = values[c], .validity = validity};
	if (!weir_program_new(account, expr, schema, &program, err) &&
	    !weir_evaluator_new(account, program, &evaluator, err)) {
		(void)weir_evaluator_eval(evaluator, &vector, &out, err);
		if (weir_program_type(program)->id == WEIR_BOOL) {
			struct weir_bounds bounds[COLUMNS] = {0};

			(void)weir_evaluator_filter(evaluator, &vector, err);
			(void)weir_program_may_match(program, bounds);
		}
	}
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	weir_schema_unref(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_expr *expr, *again;
	char text[TEXT_MAX + 1];

	if (size > TEXT_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (weir_mem_new(LIMIT, &mem, &err))
		abort();
	account = weir_mem_root(mem);
	if (!weir_expr_parse(account, text, &expr, &err)) {
		struct weir_text first, second;

		weir_text_init(&first, account);
		weir_text_init(&second, account);
		if (weir_expr_print(expr, &first, &err) || weir_expr_parse(account, first.data, &again, &err) ||
		    weir_expr_print(again, &second, &err) || strcmp(first.data, second.data))
			abort();
		weir_expr_free(again);
		weir_text_release(&first);
		weir_text_release(&second);
		evaluate(account, expr, &err);
		weir_expr_free(expr);
	}
	weir_mem_free(mem); /* aborts when something is left */
	return 0;
}
