/* Schemas: columns found by name, or the nearest name offered. */
#include "support.h"

static struct weir_schema *schema_of(struct fixture *f, const char *const *names, uint32_t count)
{
	struct weir_field fields[16] = {0};
	struct weir_schema *schema;

	for (uint32_t i = 0; i < count; i++)
		fields[i] = (struct weir_field){.name = names[i], .type = weir_type_of(WEIR_INT64), .nullable = true};
	schema = weir_schema_new(f->account, fields, count, NULL, &f->err);
	assert_non_null(schema);
	return schema;
}

static void test_columns_are_found(void **state)
{
	static const char *const names[] = {"a", "b", "a", ""};
	struct fixture *f = *state;
	struct weir_schema *schema = schema_of(f, names, 4);
	uint32_t at = 99;

	assert_int_equal(weir_schema_find(schema, "b", &at, &f->err), 0);
	assert_int_equal(at, 1);
	assert_int_equal(weir_schema_find(schema, "", &at, &f->err), 0);
	assert_int_equal(at, 3);
	assert_int_equal(weir_schema_find(schema, "a", &at, &f->err), WEIR_E_NAME);
	assert_non_null(strstr(f->err.message, "ambiguous"));
	weir_schema_unref(schema);
}

static void test_the_nearest_name_is_offered(void **state)
{
	static const char *const names[] = {"price", "quantity", "discount", "l_shipdate", "l_commitdate", "prices"};
	static const struct {
		const char *name, *message;
	} cases[] = {
		{"prize", "no column 'prize'; did you mean 'price' or 'prices'?"},
		{"PRICE", "no column 'PRICE'; did you mean 'price' or 'prices'?"},
		{"qauntity", "no column 'qauntity'; did you mean 'quantity'?"},
		{"shipdate", "no column 'shipdate'; did you mean 'l_shipdate'?"},
		{"zzz", "no column 'zzz'; there are price, quantity, discount, l_shipdate, l_commitdate, prices"},
	};
	struct fixture *f = *state;
	struct weir_schema *schema = schema_of(f, names, 6);
	uint32_t at;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(weir_schema_find(schema, cases[i].name, &at, &f->err), WEIR_E_NAME);
		assert_string_equal(f->err.message, cases[i].message);
	}
	weir_schema_unref(schema);
	schema = schema_of(f, names, 0);
	assert_int_equal(weir_schema_find(schema, "x", &at, &f->err), WEIR_E_NAME);
	assert_string_equal(f->err.message, "no column 'x'");
	weir_schema_unref(schema);
}

static void test_long_names_are_compared_by_their_beginnings(void **state)
{
	char a[400], b[400];
	const char *names[] = {a};
	struct fixture *f = *state;
	struct weir_schema *schema;
	uint32_t at;

	memset(a, 'x', sizeof(a));
	memset(b, 'x', sizeof(b));
	a[399] = b[399] = 0;
	b[10] = 'y';
	schema = schema_of(f, names, 1);
	assert_int_equal(weir_schema_find(schema, b, &at, &f->err), WEIR_E_NAME);
	assert_non_null(strstr(f->err.message, "did you mean"));
	weir_schema_unref(schema);
}

static void test_equality_and_print(void **state)
{
	static const char *const names[] = {"a", "b", "c"};
	struct weir_metadata_entry entry = {"k", "v", 1};
	struct weir_metadata metadata = {1, &entry};
	struct fixture *f = *state;
	struct weir_schema *a = schema_of(f, names, 2), *b = schema_of(f, names, 3), *c;
	struct weir_text text;

	assert_false(weir_schema_equal(a, b, false));
	c = weir_schema_new(f->account, a->fields, 2, &metadata, &f->err);
	assert_true(weir_schema_equal(a, c, false));
	assert_false(weir_schema_equal(a, c, true));
	assert_string_equal(weir_metadata_get(&c->metadata, "k", NULL), "v");
	weir_text_init(&text, f->account);
	assert_int_equal(weir_schema_print(c, &text, &f->err), 0);
	assert_string_equal(text.data, "a: int64\nb: int64");
	weir_text_release(&text);
	weir_schema_unref(a);
	weir_schema_unref(b);
	weir_schema_unref(weir_schema_ref(c));
	weir_schema_unref(c);
	weir_schema_unref(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_columns_are_found),
		memory_test(test_the_nearest_name_is_offered),
		memory_test(test_long_names_are_compared_by_their_beginnings),
		memory_test(test_equality_and_print),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
