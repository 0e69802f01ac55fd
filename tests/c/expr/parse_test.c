/* Text to tree and back. The tree is shown by a printer of its own here: f(a, b) for every call. */
#include "support.h"

#include "expr/tree.h"

enum { SHOWN_MAX = 4096 };

static void put(char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(char *out, const char *format, ...)
{
	size_t size = strlen(out);
	va_list args;

	va_start(args, format);
	vsnprintf(out + size, SHOWN_MAX - size, format, args);
	va_end(args);
}

static void show(const struct weir_expr *expr, char *out)
{
	if (expr->kind == WEIR_EXPR_COLUMN) {
		put(out, "%s", expr->name);
	} else if (expr->kind == WEIR_EXPR_LITERAL) {
		const struct weir_scalar *value = &expr->value;

		if (value->is_null)
			put(out, "None");
		else if (value->type->id == WEIR_INT64)
			put(out, "%lld", (long long)value->integer);
		else if (value->type->id == WEIR_UINT64)
			put(out, "%lluu", (unsigned long long)value->unsigned_);
		else if (value->type->id == WEIR_DOUBLE)
			put(out, "%.17gf", value->real);
		else if (value->type->id == WEIR_BOOL)
			put(out, "%s", value->boolean ? "True" : "False");
		else if (value->type->layout == WEIR_LAYOUT_BYTES)
			put(out, "%s'%.*s'", value->type->id == WEIR_BINARY ? "b" : "", (int)value->bytes.size,
			    (const char *)weir_view_bytes(&value->bytes));
		else
			put(out, "<%d:%lld>", value->type->id, (long long)value->integer);
	} else {
		put(out, "%s(", expr->name);
		for (uint32_t i = 0; i < expr->count; i++) {
			if (i)
				put(out, ",");
			show(expr->arguments[i], out);
		}
		put(out, ")");
	}
}

static const char *const trees[][2] = {
	{"a", "a"},
	{"a + b * c", "add(a,multiply(b,c))"},
	{"a - b - c", "subtract(subtract(a,b),c)"},
	{"a - (b - c)", "subtract(a,subtract(b,c))"},
	{"-2 ** 2", "negate(power(2,2))"},
	{"(-2) ** 2", "power(-2,2)"},
	{"2 ** -1", "power(2,-1)"},
	{"2 ** 3 ** 2", "power(2,power(3,2))"},
	{"-5", "-5"},
	{"- -5", "negate(-5)"},
	{"-a * b", "multiply(negate(a),b)"},
	{"-9223372036854775808", "-9223372036854775808"},
	{"18446744073709551615", "18446744073709551615u"},
	{"1_000 + 0x1f + 0o17 + 0b101", "add(add(add(1000,31),15),5)"},
	{"1.5e3", "1500f"},
	{".5", "0.5f"},
	{"5.", "5f"},
	{"a // b % c", "mod(floor_divide(a,b),c)"},
	{"a < b", "lt(a,b)"},
	{"a < b <= c", "and(lt(a,b),le(b,c))"},
	{"a < b and c", "and(lt(a,b),c)"},
	{"a and b and c or d", "or(and(a,b,c),d)"},
	{"(a and b) and c", "and(and(a,b),c)"},
	{"not a == b", "not(eq(a,b))"},
	{"not a and b", "and(not(a),b)"},
	{"a in (1, 2)", "in(a,1,2)"},
	{"a in (1)", "in(a,1)"},
	{"a in [1, 2,]", "in(a,1,2)"},
	{"a in {'x'}", "in(a,'x')"},
	{"a in ()", "in(a)"},
	{"a not in (1,)", "not(in(a,1))"},
	{"'x' in a", "contains(a,'x')"},
	{"a is None", "is_null(a)"},
	{"a is not None", "is_valid(a)"},
	{"a is None and b", "and(is_null(a),b)"},
	{"a if b else c", "if_else(b,a,c)"},
	{"a if b else c if d else e", "if_else(b,a,if_else(d,c,e))"},
	{"f(a, b + 1)", "f(a,add(b,1))"},
	{"f()", "f()"},
	{"a.lower()", "lower(a)"},
	{"a.replace('x', \"y\").strip()", "strip(replace(a,'x','y'))"},
	{"a.b.c", "field(field(a,'b'),'c')"},
	{"a['b']", "field(a,'b')"},
	{"a[0]", "element(a,0)"},
	{"a[-1]", "element(a,-1)"},
	{"a[1:]", "slice(a,1,None)"},
	{"a[:-1]", "slice(a,None,-1)"},
	{"a[:]", "slice(a,None,None)"},
	{"col('any name') + 1", "add(any name,1)"},
	{"True and false or null", "or(and(True,False),None)"},
	{"(a > 1) & (b < 2) | ~c", "or(and(gt(a,1),lt(b,2)),not(c))"},
	{"'it''s'", NULL},
	{"'tab\\tnew\\x41\\u00e9\\''", "'tab\tnewA\xc3\xa9''"},
	{"r'\\d+'", "'\\d+'"},
	{"b'ab'", "b'ab'"},
	{"größe > 3", "gt(größe,3)"},
	{"literal('2024-02-29', 'date32[day]')", "<15:19782>"},
	{"  a\n +\tb ", "add(a,b)"},
	{"a.x if a.y > 1 else -a.z", "if_else(gt(field(a,'y'),1),field(a,'x'),negate(field(a,'z')))"},
};

static void test_trees(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct weir_expr *expr, *again;
		char shown[SHOWN_MAX] = "", shown_again[SHOWN_MAX] = "";
		struct weir_text text;
		int code = weir_expr_parse(f->account, trees[i][0], &expr, &f->err);

		if (!trees[i][1]) {
			assert_int_equal(code, WEIR_E_SYNTAX);
			continue;
		}
		if (code)
			print_error("%s: %s\n", trees[i][0], f->err.message);
		assert_int_equal(code, 0);
		show(expr, shown);
		assert_string_equal(shown, trees[i][1]);
		weir_text_init(&text, f->account);
		assert_int_equal(weir_expr_print(expr, &text, &f->err), 0);
		code = weir_expr_parse(f->account, text.data, &again, &f->err);
		if (code)
			print_error("%s → %s: %s\n", trees[i][0], text.data, f->err.message);
		assert_int_equal(code, 0);
		show(again, shown_again);
		assert_string_equal(shown, shown_again);
		weir_text_release(&text);
		weir_expr_free(again);
		assert_int_equal(weir_expr_clone(expr, f->account, &again, &f->err), 0);
		weir_expr_free(expr);
		shown_again[0] = 0;
		show(again, shown_again);
		assert_string_equal(shown, shown_again);
		weir_expr_free(again);
	}
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text, *message;
		uint64_t offset;
	} cases[] = {
		{"", "ends where a value", 0},
		{"a +", "ends where a value", 3},
		{"(a", "expected ')'", 2},
		{"a b", "did not expect 'b'", 2},
		{"a = 1", "equality is '=='", 2},
		{"a[1:2:3]", "no step", 5},
		{"(1, 2)", "only stand after 'in'", 2},
		{"[1]", "only stand after 'in'", 0},
		{"a is b", "None", 5},
		{"'abc", "does not end", 0},
		{"'\\q'", "unknown escape", 1},
		{"'\\ud800'", "not a character", 1},
		{"99999999999999999999", "64 bits", 0},
		{"1__0", "not a number", 0},
		{"1x", "not a number", 0},
		{"a $ b", "unexpected character", 2},
		{"a and", "ends where", 5},
		{"f(a", "expected ','", 3},
		{"a.1", "did not expect", 1},
		{"a. 1", "name after '.'", 3},
		{"f'x'", "begin with r or b", 0},
		{"literal('x', 'int32')", "not a value of type", 0},
		{"col('a\\0b')", "zero byte", 0},
		{"a if b", "expected 'else'", 6},
		{"and", "cannot stand here", 0},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_expr *expr;

		assert_int_not_equal(weir_expr_parse(f->account, cases[i].text, &expr, &f->err), 0);
		assert_null(expr);
		if (!strstr(f->err.message, cases[i].message))
			print_error("%s: %s\n", cases[i].text, f->err.message);
		assert_non_null(strstr(f->err.message, cases[i].message));
		if (f->err.has_offset)
			assert_int_equal(f->err.offset, cases[i].offset);
	}
}

static void test_depth_is_bounded(void **state)
{
	static const char *const parts[][3] = {
		{"(", "1", ")"}, {"-", "a", ""},   {"not ", "a", ""}, {"f(", "1", ")"},  {"1 if a else ", "1", ""},
		{"", "1", "+1"}, {"", "a", "[0]"}, {"", "a", ".x"},   {"2 ** ", "1", ""}};
	struct fixture *f = *state;
	char *text = malloc(2000000);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		for (int depth = 50; depth <= 100000; depth *= 2000) {
			struct weir_expr *expr;
			char *at = text;

			for (int d = 0; d < depth; d++)
				at = stpcpy(at, parts[i][0]);
			at = stpcpy(at, parts[i][1]);
			for (int d = 0; d < depth; d++)
				at = stpcpy(at, parts[i][2]);
			if (depth == 50) {
				assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), 0);
				weir_expr_free(expr);
			} else {
				assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), WEIR_E_SYNTAX);
				assert_non_null(strstr(f->err.message, "200 levels"));
			}
		}
	}
	/* As deep as it may be, with parentheses at each level: what is printed can be read. */
	struct weir_expr *deep, *again;
	struct weir_text printed;
	char *end = text;
	for (int d = 0; d < 198; d++)
		end = stpcpy(end, "a - (");
	end = stpcpy(end, "a");
	for (int d = 0; d < 198; d++)
		end = stpcpy(end, ")");
	assert_int_equal(weir_expr_parse(f->account, text, &deep, &f->err), 0);
	weir_text_init(&printed, f->account);
	assert_int_equal(weir_expr_print(deep, &printed, &f->err), 0);
	assert_int_equal(weir_expr_parse(f->account, printed.data, &again, &f->err), 0);
	weir_text_release(&printed);
	weir_expr_free(deep);
	weir_expr_free(again);
	/* Long is not deep. */
	char *at = stpcpy(text, "a == 0");
	for (int i = 1; i < 5000; i++)
		at += snprintf(at, 40, " or a == %d", i);
	struct weir_expr *expr;
	assert_int_equal(weir_expr_parse(f->account, text, &expr, &f->err), 0);
	assert_int_equal(expr->count, 5000);
	weir_expr_free(expr);
	free(text);
}

static int count_names(void *context, const char *name)
{
	put(context, "%s ", name);
	return 0;
}

static int count_parts(void *context, const struct weir_expr *expr)
{
	show(expr, context);
	put(context, " ");
	return 0;
}

static const struct weir_expr *replace_x(void *context, const char *name)
{
	return strcmp(name, "x") ? NULL : context;
}

static void test_walks(void **state)
{
	struct fixture *f = *state;
	struct weir_expr *expr, *other, *both;
	char text[SHOWN_MAX] = "";

	assert_int_equal(weir_expr_parse(f->account, "x > 1 and (y < x and z) and f(y)", &expr, &f->err), 0);
	assert_int_equal(weir_expr_columns(expr, count_names, text), 0);
	assert_string_equal(text, "x y z ");
	text[0] = 0;
	assert_int_equal(weir_expr_conjuncts(expr, count_parts, text), 0);
	assert_string_equal(text, "gt(x,1) lt(y,x) z f(y) ");
	assert_int_equal(weir_expr_parse(f->account, "a + x", &other, &f->err), 0);
	assert_int_equal(weir_expr_substitute(expr, replace_x, other, f->account, &both, &f->err), 0);
	text[0] = 0;
	show(both, text);
	assert_string_equal(text, "and(gt(add(a,x),1),and(lt(y,add(a,x)),z),f(y))");
	weir_expr_free(expr);
	weir_expr_free(other);
	weir_expr_free(both);
}

static void test_builders(void **state)
{
	struct fixture *f = *state;
	struct weir_scalar five = {.type = weir_type_of(WEIR_INT64), .integer = 5};
	struct weir_scalar day = {.type = weir_type_of(WEIR_DATE32), .integer = 19782};
	struct weir_expr *arguments[2], *expr, *again;
	struct weir_text text;

	arguments[0] = weir_expr_column(f->account, "a b", &f->err);
	arguments[1] = weir_expr_literal(f->account, &five, &f->err);
	arguments[0] = weir_expr_call(f->account, "multiply", arguments, 2, &f->err);
	arguments[1] = weir_expr_literal(f->account, &day, &f->err);
	expr = weir_expr_call(f->account, "lt", arguments, 2, &f->err);
	assert_non_null(expr);
	weir_text_init(&text, f->account);
	assert_int_equal(weir_expr_print(expr, &text, &f->err), 0);
	assert_string_equal(text.data, "col('a b') * 5 < literal('2024-02-29', 'date32[day]')");
	assert_int_equal(weir_expr_parse(f->account, text.data, &again, &f->err), 0);
	weir_expr_free(again);
	weir_text_release(&text);
	weir_expr_free(expr);
	/* An operand that could not be built frees the other and keeps its error. */
	arguments[0] = weir_expr_column(f->account, "a", &f->err);
	arguments[1] = NULL;
	assert_null(weir_expr_call(f->account, "add", arguments, 2, &f->err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_trees), memory_test(test_what_is_refused), memory_test(test_depth_is_bounded),
		memory_test(test_walks), memory_test(test_builders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
