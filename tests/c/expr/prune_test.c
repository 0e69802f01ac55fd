/* Pruning: a range that holds a row that matches is never pruned, on random data; and what should be pruned is. */
#include "support.h"

#include <math.h>

enum { ROWS = 64, COLUMNS = 4 };

struct data {
	int32_t numbers[ROWS];
	double reals[ROWS];
	struct weir_view texts[ROWS];
	char bytes[ROWS][24];
	uint64_t flags;
	uint64_t validity[COLUMNS];
	struct weir_column columns[COLUMNS];
	struct weir_bounds bounds[COLUMNS];
};

static uint64_t seed;

static uint32_t random_below(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % below;
}

static void bound(struct weir_bounds *bounds, const struct weir_scalar *value, int order_min, int order_max)
{
	if (!bounds->has_min || order_min < 0)
		bounds->min = *value;
	if (!bounds->has_max || order_max > 0)
		bounds->max = *value;
	bounds->has_min = bounds->has_max = true;
}

static int compare_text(const struct weir_view *a, const struct weir_view *b)
{
	uint32_t size = a->size < b->size ? a->size : b->size;
	int order = memcmp(weir_view_bytes(a), weir_view_bytes(b), size);

	return order ? order : (int)a->size - (int)b->size;
}

/* Values from a narrow window, so that ranges differ; the bounds as a file would have them: without nulls and NaN. */
static void fill(struct data *data)
{
	int32_t base = (int32_t)random_below(20) - 10;
	uint32_t null_share = random_below(3) ? random_below(3) * 4 : 10;
	uint32_t true_share = random_below(3) * 32;

	memset(data, 0, sizeof(*data));
	for (uint32_t i = 0; i < ROWS; i++) {
		int32_t n = base + (int32_t)random_below(4);

		data->numbers[i] = n;
		data->reals[i] = random_below(20) ? n / 2.0 : NAN;
		snprintf(data->bytes[i], sizeof(data->bytes[i]), "%c%s", 'k' + n,
			 random_below(2) ? "" : "-a longer text");
		data->texts[i] = weir_view_make(data->bytes[i], (uint32_t)strlen(data->bytes[i]));
		data->flags |= (uint64_t)(random_below(64) < true_share) << i;
		for (int c = 0; c < COLUMNS; c++)
			data->validity[c] |= (uint64_t)(random_below(10) >= null_share) << i;
	}
	data->columns[0] = (struct weir_column){.type = weir_type_of(WEIR_INT32), .values = data->numbers};
	data->columns[1] = (struct weir_column){.type = weir_type_of(WEIR_DOUBLE), .values = data->reals};
	data->columns[2] = (struct weir_column){.type = weir_type_of(WEIR_STRING), .values = data->texts};
	data->columns[3] = (struct weir_column){.type = weir_type_of(WEIR_BOOL), .values = &data->flags};
	for (int c = 0; c < COLUMNS; c++) {
		struct weir_bounds *bounds = &data->bounds[c];

		data->columns[c].validity = &data->validity[c];
		bounds->row_count = ROWS;
		bounds->has_null_count = random_below(2);
		bounds->null_count = ROWS - __builtin_popcountll(data->validity[c]);
		for (uint32_t i = 0; i < ROWS; i++) {
			struct weir_scalar value = {.type = data->columns[c].type};

			if (!(data->validity[c] >> i & 1))
				continue;
			if (c == 0) {
				value.integer = data->numbers[i];
				bound(bounds, &value, bounds->has_min && value.integer < bounds->min.integer ? -1 : 1,
				      bounds->has_max && value.integer > bounds->max.integer ? 1 : -1);
			} else if (c == 1) {
				value.real = data->reals[i];
				if (!isnan(value.real))
					bound(bounds, &value, bounds->has_min && value.real < bounds->min.real ? -1 : 1,
					      bounds->has_max && value.real > bounds->max.real ? 1 : -1);
			} else if (c == 3) {
				value.boolean = data->flags >> i & 1;
				bound(bounds, &value, value.boolean ? 1 : -1, value.boolean ? 1 : -1);
			} else {
				value.bytes = data->texts[i];
				bound(bounds, &value,
				      bounds->has_min ? compare_text(&value.bytes, &bounds->min.bytes) : 0,
				      bounds->has_max ? compare_text(&value.bytes, &bounds->max.bytes) : 0);
			}
		}
		if (!random_below(5))
			bounds->has_min = false;
		if (!random_below(5))
			bounds->has_max = false;
	}
}

static struct weir_schema *schema_new(struct fixture *f)
{
	struct weir_field fields[COLUMNS] = {{.name = "n", .type = weir_type_of(WEIR_INT32), .nullable = true},
					     {.name = "x", .type = weir_type_of(WEIR_DOUBLE), .nullable = true},
					     {.name = "s", .type = weir_type_of(WEIR_STRING), .nullable = true},
					     {.name = "b", .type = weir_type_of(WEIR_BOOL), .nullable = true}};

	return weir_schema_new(f->account, fields, COLUMNS, NULL, &f->err);
}

static struct weir_program *program_new(struct fixture *f, const struct weir_schema *schema, const char *text)
{
	struct weir_program *program = NULL;
	struct weir_expr *expr;

	if (weir_expr_parse(f->account, text, &expr, &f->err) ||
	    weir_program_new(f->account, expr, schema, &program, &f->err)) {
		print_error("%s: %s\n", text, f->err.message);
		fail();
	}
	weir_expr_free(expr);
	return program;
}

static void predicate(char *out, size_t size, int depth)
{
	static const char *const symbols[] = {"==", "!=", "<", "<=", ">", ">="};
	const char *symbol = symbols[random_below(6)];
	char a[400], b[400];
	int number = (int)random_below(24) - 12;

	switch (depth > 0 ? random_below(11) : 3 + random_below(8)) {
	case 0:
		predicate(a, sizeof(a), depth - 1);
		predicate(b, sizeof(b), depth - 1);
		snprintf(out, size, "(%s and %s)", a, b);
		break;
	case 1:
		predicate(a, sizeof(a), depth - 1);
		predicate(b, sizeof(b), depth - 1);
		snprintf(out, size, "(%s or %s)", a, b);
		break;
	case 2:
		predicate(a, sizeof(a), depth - 1);
		snprintf(out, size, "not (%s)", a);
		break;
	case 3:
		snprintf(out, size, "n %s %d", symbol, number);
		break;
	case 4:
		snprintf(out, size, "x %s %.1f", symbol, number / 2.0);
		break;
	case 5:
		snprintf(out, size, "s %s '%c'", symbol, 'k' + number);
		break;
	case 6:
		snprintf(out, size, "n in (%d, %d, None)", number, number + 1);
		break;
	case 7:
		snprintf(out, size, "%s is %sNone", random_below(2) ? "x" : "s", random_below(2) ? "not " : "");
		break;
	case 8:
		snprintf(out, size, "s.startswith('%c')", 'k' + number);
		break;
	case 9:
		snprintf(out, size, "%sb", random_below(2) ? "" : "not ");
		break;
	default:
		snprintf(out, size, "n + 1 %s %.1f", symbol, number + 0.5);
	}
}

static void test_no_match_is_lost(void **state)
{
	struct fixture *f = *state;
	struct weir_schema *schema = schema_new(f);
	struct data data;
	int pruned = 0;

	seed = 88172645463325252u;
	for (int round = 0; round < 20000; round++) {
		char text[1000];
		struct weir_program *program;
		struct weir_evaluator *evaluator;
		struct weir_vector vector = {.row_count = ROWS, .selection = {.count = ROWS}, .column_count = COLUMNS};
		bool may;

		fill(&data);
		vector.columns = data.columns;
		predicate(text, sizeof(text), 3);
		program = program_new(f, schema, text);
		assert_int_equal(weir_evaluator_new(f->account, program, &evaluator, &f->err), 0);
		assert_int_equal(weir_evaluator_filter(evaluator, &vector, &f->err), 0);
		may = weir_program_may_match(program, data.bounds);
		if (vector.selection.count && !may)
			print_error("round %d: %s was pruned\n", round, text);
		assert_true(may || !vector.selection.count);
		pruned += !may;
		for (uint32_t c = 0; c < COLUMNS; c++) {
			const struct weir_scalar *values;
			uint32_t count;

			assert_int_equal(weir_program_equalities(program, c, &values, &count, &f->err), 0);
			for (uint32_t k = 0; count && c == 0 && k < vector.selection.count; k++) {
				uint32_t row = vector.selection.rows ? vector.selection.rows[k] : k;
				bool found = false;

				for (uint32_t v = 0; v < count; v++)
					found |= values[v].integer == data.numbers[row];
				assert_true(found);
			}
		}
		weir_evaluator_free(evaluator);
		weir_program_free(program);
	}
	/* It does prune. */
	assert_true(pruned > 4000);
	weir_schema_unref(schema);
}

static void test_what_is_pruned(void **state)
{
	static const struct {
		const char *text;
		bool may;
	} cases[] = {
		/* n is 10 … 20, x is 1.0 … 2.0 or NaN, s is "b" … "d", b is false; one null in s and b, none in n and
		 * x. */
		{"n > 20", false},
		{"n >= 20", true},
		{"n < 10", false},
		{"n == 9", false},
		{"n == 15", true},
		{"n != 15", true},
		{"5 > n", false},
		{"n in (1, 2, 30)", false},
		{"n in (1, 15)", true},
		{"not n <= 20", false},
		{"not n > 9", false},
		{"n is None", false},
		{"s is None", true},
		{"x > 2.5", false},
		{"not x <= 2.5", true},
		{"x != 1.5", true},
		{"x == 3", false},
		{"s == 'a'", false},
		{"s == 'c'", true},
		{"s > 'd'", false},
		{"s.startswith('e')", false},
		{"s.startswith('a')", false},
		{"s.startswith('b')", true},
		{"s.startswith('cc')", true},
		{"n > 20 and s == 'c'", false},
		{"n > 20 or s == 'c'", true},
		{"n > 20 or s == 'z'", false},
		{"between(n, 21, 30)", false},
		{"n < 10.5 and n > 20.5", false},
		{"n > 1000000000000", false},
		{"n + 1 > 100", true},
		{"b", false},
		{"not b", true},
		{"b or n > 20", false},
		{"not b and n > 10", true},
		{"not (b or n > 5)", false},
		{"False", false},
		{"None", false},
		{"n == 15 and False", false},
	};
	struct fixture *f = *state;
	struct weir_schema *schema = schema_new(f);
	struct weir_bounds bounds[COLUMNS] = {
		{.has_min = true, .has_max = true, .has_null_count = true, .row_count = 100},
		{.has_min = true, .has_max = true, .has_null_count = true, .row_count = 100},
		{.has_min = true, .has_max = true, .has_null_count = true, .null_count = 1, .row_count = 100},
		{.has_min = true, .has_max = true, .has_null_count = true, .null_count = 1, .row_count = 100}};
	const struct weir_scalar *values;
	uint32_t count;
	struct weir_program *program;

	bounds[0].min = (struct weir_scalar){.type = weir_type_of(WEIR_INT32), .integer = 10};
	bounds[0].max = (struct weir_scalar){.type = weir_type_of(WEIR_INT32), .integer = 20};
	bounds[1].min = (struct weir_scalar){.type = weir_type_of(WEIR_DOUBLE), .real = 1};
	bounds[1].max = (struct weir_scalar){.type = weir_type_of(WEIR_DOUBLE), .real = 2};
	bounds[2].min = (struct weir_scalar){.type = weir_type_of(WEIR_STRING), .bytes = weir_view_make("b", 1)};
	bounds[2].max = (struct weir_scalar){.type = weir_type_of(WEIR_STRING), .bytes = weir_view_make("d", 1)};
	bounds[3].min = bounds[3].max = (struct weir_scalar){.type = weir_type_of(WEIR_BOOL)};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		program = program_new(f, schema, cases[i].text);
		if (weir_program_may_match(program, bounds) != cases[i].may)
			print_error("%s\n", cases[i].text);
		assert_int_equal(weir_program_may_match(program, bounds), cases[i].may);
		weir_program_free(program);
	}
	program = program_new(f, schema, "(n == 5 or n in (7, 8)) and x > 1 and s == 'a'");
	assert_int_equal(weir_program_equalities(program, 0, &values, &count, &f->err), 0);
	assert_int_equal(count, 3);
	assert_int_equal(values[0].integer, 5);
	assert_int_equal(values[2].integer, 8);
	assert_int_equal(weir_program_equalities(program, 1, &values, &count, &f->err), 0);
	assert_int_equal(count, 0);
	assert_int_equal(weir_program_equalities(program, 2, &values, &count, &f->err), 0);
	assert_int_equal(count, 1);
	weir_program_free(program);
	/* One side open: nothing is known. */
	program = program_new(f, schema, "n == 5 or x > 1");
	assert_int_equal(weir_program_equalities(program, 0, &values, &count, &f->err), 0);
	assert_int_equal(count, 0);
	weir_program_free(program);
	weir_schema_unref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {memory_test(test_no_match_is_lost), memory_test(test_what_is_pruned)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
