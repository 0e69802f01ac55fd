/* Types: made, compared, printed and parsed back; bounded in depth. */
#include "support.h"

#define ITEM(t) ((struct weir_field){.name = "item", .type = (t), .nullable = true})

static void assert_prints(struct fixture *f, const struct weir_type *type, const char *expected)
{
	struct weir_text text;

	weir_text_init(&text, f->account);
	assert_int_equal(weir_type_print(type, &text, &f->err), 0);
	assert_string_equal(text.data, expected);
	weir_text_release(&text);
}

static void test_what_is_printed_parses_to_the_same(void **state)
{
	static const char *const texts[] = {
		"null",
		"bool",
		"int8",
		"uint64",
		"halffloat",
		"float",
		"double",
		"decimal128(38, -3)",
		"decimal256(76, 10)",
		"date32[day]",
		"date64[ms]",
		"time32[s]",
		"time64[ns]",
		"timestamp[us]",
		"timestamp[ns, tz=Europe/Paris]",
		"duration[ms]",
		"month_interval",
		"day_time_interval",
		"month_day_nano_interval",
		"binary",
		"large_binary",
		"string",
		"large_string",
		"fixed_size_binary[16]",
		"list<item: int32>",
		"large_list<x: string not null>",
		"fixed_size_list<item: list<item: int8>>[3]",
		"struct<>",
		"struct<a: int32 not null, b c: map<string, double>, d: struct<e: bool>>",
		"map<string, int32, keys_sorted>",
		"dictionary<values=string, indices=int8, ordered=1>",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct weir_type *type = parse(f, texts[i]), *again = parse(f, texts[i]);

		assert_prints(f, type, texts[i]);
		assert_true(weir_type_equal(type, again, true));
		weir_type_unref(type);
		weir_type_unref(again);
	}
}

static void test_words_of_others_are_understood(void **state)
{
	static const char *const pairs[][2] = {
		{"float64", "double"},
		{"utf8", "string"},
		{"str", "string"},
		{"date", "date32[day]"},
		{"timestamp", "timestamp[us]"},
		{"decimal(9,2)", "decimal128(9, 2)"},
		{"list< int8 >", "list<item: int8>"},
		{"half", "halffloat"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const struct weir_type *type = parse(f, pairs[i][0]);

		assert_prints(f, type, pairs[i][1]);
		weir_type_unref(type);
	}
}

static void test_what_is_no_type_is_refused_with_its_place(void **state)
{
	static const char *const texts[] = {
		"",
		"int33",
		"list<",
		"list<int8",
		"list<int8>>",
		"struct<a>",
		"struct<a:",
		"struct<a: int8,",
		"decimal128",
		"decimal128(40,1)",
		"timestamp[h]",
		"time32[us]",
		"map<int8>",
		"timestamp[us, tz=",
		"int8 int8",
		"dictionary<values=string>",
		"fixed_size_list<int8>[-1]",
		"dictionary<values=string, indices=string>",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		weir_error_clear(&f->err);
		assert_null(weir_type_parse(f->account, texts[i], &f->err));
		assert_int_not_equal(f->err.code, 0);
	}
	weir_error_clear(&f->err);
	assert_null(weir_type_parse(f->account, "list<int9>", &f->err));
	assert_non_null(strstr(f->err.message, "list<int9>"));
	assert_non_null(strstr(f->err.message, "character 6"));
}

static void test_plain_types_are_static(void **state)
{
	(void)state;
	for (int id = 0; id < WEIR_TYPE_ID_COUNT; id++) {
		const struct weir_type *type = weir_type_of(id);

		if (!type)
			continue;
		assert_int_equal(type->id, id);
		weir_type_unref(weir_type_ref(type));
		weir_type_unref(type);
	}
	assert_null(weir_type_of(WEIR_TIMESTAMP));
	assert_null(weir_type_of(WEIR_STRUCT));
	assert_ptr_equal(weir_type_of(WEIR_INT64), weir_type_of(WEIR_INT64));
}

static void test_equality_sees_every_parameter(void **state)
{
	static const char *const texts[] = {
		"int32",
		"uint32",
		"decimal128(10, 2)",
		"decimal128(10, 3)",
		"decimal128(11, 2)",
		"decimal256(10, 2)",
		"timestamp[us]",
		"timestamp[ns]",
		"timestamp[us, tz=UTC]",
		"timestamp[us, tz=Z]",
		"duration[us]",
		"fixed_size_binary[3]",
		"fixed_size_binary[4]",
		"list<item: int8>",
		"list<item: int8 not null>",
		"large_list<item: int8>",
		"fixed_size_list<item: int8>[2]",
		"fixed_size_list<item: int8>[3]",
		"struct<a: int8>",
		"struct<b: int8>",
		"struct<a: int8, b: int8>",
		"map<string, int8>",
		"map<string, int8, keys_sorted>",
		"dictionary<values=string, indices=int8, ordered=0>",
		"dictionary<values=string, indices=int8, ordered=1>",
		"dictionary<values=string, indices=int16, ordered=0>",
	};
	enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
	struct fixture *f = *state;
	const struct weir_type *types[COUNT];

	for (int i = 0; i < COUNT; i++)
		types[i] = parse(f, texts[i]);
	for (int i = 0; i < COUNT; i++)
		for (int j = 0; j < COUNT; j++)
			assert_int_equal(weir_type_equal(types[i], types[j], false), i == j);
	for (int i = 0; i < COUNT; i++)
		weir_type_unref(types[i]);
}

static void test_a_list_item_s_name_is_no_difference(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *a = parse(f, "list<item: int8>"), *b = parse(f, "list<element: int8>");

	assert_true(weir_type_equal(a, b, false));
	assert_false(weir_type_equal(a, b, true));
	weir_type_unref(a);
	weir_type_unref(b);
}

static void test_metadata_is_copied_sorted_and_compared_when_asked(void **state)
{
	struct fixture *f = *state;
	struct weir_metadata_entry entries[] = {{"z", "1", 1}, {"a", "x\0y", 3}};
	struct weir_metadata_entry other[] = {{"a", "x\0y", 3}, {"z", "1", 1}};
	struct weir_field field = {
		.name = "c", .type = weir_type_of(WEIR_INT8), .metadata = {.count = 2, .entries = entries}};
	const struct weir_type *a = weir_type_struct(f->account, &field, 1, &f->err), *b, *c;
	uint32_t size;

	assert_non_null(a);
	assert_string_equal(a->fields[0].metadata.entries[0].key, "a");
	assert_memory_equal(weir_metadata_get(&a->fields[0].metadata, "a", &size), "x\0y", 4);
	assert_int_equal(size, 3);
	assert_null(weir_metadata_get(&a->fields[0].metadata, "b", NULL));
	field.metadata.entries = other;
	b = weir_type_struct(f->account, &field, 1, &f->err);
	assert_true(weir_type_equal(a, b, true));
	field.metadata.count = 1;
	c = weir_type_struct(f->account, &field, 1, &f->err);
	assert_false(weir_type_equal(a, c, true));
	assert_true(weir_type_equal(a, c, false));
	weir_type_unref(a);
	weir_type_unref(b);
	weir_type_unref(c);
}

static void test_depth_is_bounded(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *type = weir_type_of(WEIR_INT8), *deeper;

	for (int depth = 1; depth <= WEIR_DEPTH_MAX; depth++) {
		deeper = weir_type_list(f->account, WEIR_LIST_TYPE, &ITEM(type), 0, false, &f->err);
		assert_non_null(deeper);
		assert_int_equal(deeper->depth, depth);
		weir_type_unref(type);
		type = deeper;
	}
	assert_null(weir_type_list(f->account, WEIR_LIST_TYPE, &ITEM(type), 0, false, &f->err));
	assert_int_equal(f->err.code, WEIR_E_UNSUPPORTED);
	assert_null(weir_type_dictionary(f->account, weir_type_of(WEIR_INT8), type, false, &f->err));
	weir_type_unref(type);
}

static void test_a_long_name_is_cut(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "struct<ä: int8, ööööööööööööö: int32, c: string>");
	char name[64];

	for (size_t size = 4; size < sizeof(name); size++) {
		weir_type_name(type, name, size);
		assert_true(strlen(name) < size);
		assert_true(size > 55 || strstr(name, "…"));
	}
	assert_string_equal(weir_type_name(weir_type_of(WEIR_INT8), name, 5), "int8");
	assert_string_equal(weir_type_name(weir_type_of(WEIR_INT16), name, 5), "i…");
	weir_type_unref(type);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_what_is_printed_parses_to_the_same),
		memory_test(test_words_of_others_are_understood),
		memory_test(test_what_is_no_type_is_refused_with_its_place),
		memory_test(test_plain_types_are_static),
		memory_test(test_equality_sees_every_parameter),
		memory_test(test_a_list_item_s_name_is_no_difference),
		memory_test(test_metadata_is_copied_sorted_and_compared_when_asked),
		memory_test(test_depth_is_bounded),
		memory_test(test_a_long_name_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
