/* Builders: every layout grows, hands over its memory, and starts again. */
#include "support.h"

#include "arrow/bitmap.h"

static void test_fixed_values_and_nulls(void **state)
{
	struct fixture *f = *state;
	struct weir_builder builder;
	struct weir_array *array;
	int32_t values[1000];

	for (int i = 0; i < 1000; i++)
		values[i] = i;
	assert_int_equal(weir_builder_init(&builder, weir_type_of(WEIR_INT32), f->account, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder, values, 1000, &f->err), 0);
	assert_int_equal(weir_builder_null(&builder, 3, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder, values, 10, &f->err), 0);
	array = weir_builder_finish(&builder, &f->err);
	assert_non_null(array);
	assert_int_equal(array->length, 1013);
	assert_int_equal(array->null_count, 3);
	assert_int_equal(array->buffers[1].size, 4052);
	for (int i = 0; i < 1013; i++)
		assert_int_equal(weir_array_is_valid(array, i), i < 1000 || i >= 1003);
	assert_memory_equal(array->buffers[1].data, values, 4000);
	assert_memory_equal(array->buffers[1].data + 4012, values, 40);
	weir_array_unref(array);

	/* It is empty again, and may be used again. */
	assert_int_equal(weir_builder_fixed(&builder, values, 1, &f->err), 0);
	array = weir_builder_finish(&builder, &f->err);
	assert_int_equal(array->length, 1);
	assert_null(array->buffers[0].data);
	weir_array_unref(array);
	weir_builder_release(&builder);
	weir_builder_release(&builder);
}

static void test_bools_strings_and_the_tail_is_zero(void **state)
{
	static const uint8_t bools[70] = {1, 0, 1, 1, [69] = 1};
	static const char *const texts[] = {"one", NULL, "", "four"};
	struct fixture *f = *state;
	struct weir_builder builder;
	struct weir_array *array;
	const int32_t *offsets;

	assert_int_equal(weir_builder_init(&builder, weir_type_of(WEIR_BOOL), f->account, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder, bools, 70, &f->err), 0);
	assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
	array = finish(f, &builder);
	for (int i = 0; i < 70; i++)
		assert_int_equal(weir_bit_get(array->buffers[1].data, i), bools[i]);
	for (uint64_t i = array->buffers[1].size; i % 64; i++)
		assert_int_equal(array->buffers[1].data[i], 0);
	assert_int_equal(array->buffers[1].data[8] >> 6, 0);
	assert_int_equal(array->buffers[0].data[8] >> 6, 0);
	weir_array_unref(array);

	array = strings(f, texts, 4);
	offsets = (const int32_t *)array->buffers[1].data;
	assert_int_equal(offsets[0], 0);
	assert_int_equal(offsets[2], 3);
	assert_int_equal(offsets[3], 3);
	assert_int_equal(offsets[4], 7);
	assert_memory_equal(array->buffers[2].data, "onefour", 7);
	assert_int_equal(array->null_count, 1);
	weir_array_unref(array);
}

static void test_empty_arrays_have_their_buffers(void **state)
{
	static const char *const texts[] = {"string",
					    "large_list<item: int8>",
					    "bool",
					    "int64",
					    "fixed_size_binary[0]",
					    "map<string, int8>",
					    "struct<a: string>",
					    "null",
					    "dictionary<values=string, indices=int8, ordered=0>"};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct weir_type *type = parse(f, texts[i]);
		struct weir_builder builder;
		struct weir_array *array;

		assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
		array = finish(f, &builder);
		assert_int_equal(array->length, 0);
		assert_int_equal(array->buffers[1].data != NULL,
				 strncmp(texts[i], "struct", 6) && strcmp(texts[i], "null"));
		weir_array_unref(array);
		weir_type_unref(type);
	}
}

static void test_nested_rows(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "list<item: struct<a: int64, b: fixed_size_list<item: bool>[2]>>");
	struct weir_builder builder, *item;
	struct weir_array *array, *again;
	const int32_t *offsets;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	item = &builder.children[0];
	for (int64_t row = 0; row < 5; row++) {
		if (row == 3) {
			assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
			continue;
		}
		for (int64_t i = 0; i < row; i++) {
			if (i == 1) {
				assert_int_equal(weir_builder_null(item, 1, &f->err), 0);
				continue;
			}
			assert_int_equal(weir_builder_fixed(&item->children[0], &row, 1, &f->err), 0);
			assert_int_equal(weir_builder_fixed(&item->children[1].children[0], "\1\0", 2, &f->err), 0);
			assert_int_equal(weir_builder_list_end(&item->children[1], &f->err), 0);
			assert_int_equal(weir_builder_struct_end(item, &f->err), 0);
		}
		assert_int_equal(weir_builder_list_end(&builder, &f->err), 0);
	}
	array = weir_builder_finish(&builder, &f->err);
	assert_int_equal(array->length, 5);
	offsets = (const int32_t *)array->buffers[1].data;
	assert_int_equal(offsets[5], 7);
	assert_int_equal(array->children[0]->length, 7);
	assert_int_equal(array->children[0]->null_count, 2);
	assert_int_equal(array->children[0]->children[1]->children[0]->length, 14);

	assert_int_equal(weir_builder_array(&builder, array, 0, 2, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, array, 2, 3, &f->err), 0);
	again = finish(f, &builder);
	assert_true(weir_array_equal(array, again, true));
	weir_array_unref(array);
	weir_array_unref(again);
	weir_type_unref(type);
}

static void test_a_fixed_list_of_the_wrong_length_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "fixed_size_list<item: int8>[3]");
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder.children[0], "ab", 2, &f->err), 0);
	assert_int_equal(weir_builder_list_end(&builder, &f->err), WEIR_E_INVALID);
	assert_non_null(strstr(f->err.message, "2 items where there must be 3"));
	weir_builder_release(&builder);
	weir_type_unref(type);
}

static struct weir_array *coded(struct fixture *f, const struct weir_type *type, const char *const *values,
				int64_t value_count, const char *codes, int64_t count)
{
	struct weir_array *dictionary = strings(f, values, value_count), *array;
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	assert_int_equal(weir_builder_dictionary(&builder, dictionary, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder, codes, count, &f->err), 0);
	array = finish(f, &builder);
	weir_array_unref(dictionary);
	return array;
}

static void test_dictionaries_unite(void **state)
{
	static const char *const a_values[] = {"x", "y", "x", NULL};
	static const char *const b_values[] = {"z", "y", "x", NULL};
	static const char expected[] = {0, 1, 2, 3, 4, 1, 0, 3, 0, 1, 2, 3};
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "dictionary<values=string, indices=int8, ordered=0>");
	struct weir_array *a = coded(f, type, a_values, 4, "\0\1\2\3", 4);
	struct weir_array *b = coded(f, type, b_values, 4, "\0\1\2\3", 4), *both;
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, a, 0, 4, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, b, 0, 4, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, a, 0, 2, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, a, 2, 2, &f->err), 0);
	both = finish(f, &builder);
	/* Doubles of the first keep their places; those of later ones go to the first of them. */
	assert_memory_equal(both->buffers[1].data, expected, 10);
	assert_int_equal(both->buffers[1].data[10], 0);
	assert_int_equal(both->buffers[1].data[11], 3);
	assert_int_equal(both->dictionary->length, 5);
	weir_array_unref(a);
	weir_array_unref(b);
	weir_array_unref(both);
	weir_type_unref(type);
}

static void test_codes_that_do_not_fit_are_refused(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "dictionary<values=string, indices=int8, ordered=0>");
	char texts[100][16];
	const char *values[100];
	struct weir_array *a, *b;
	struct weir_builder builder;

	for (int i = 0; i < 100; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%d", i);
		values[i] = texts[i];
	}
	a = coded(f, type, values, 100, "\0", 1);
	for (int i = 0; i < 100; i++)
		texts[i][0] = 'x';
	for (int i = 0; i < 100; i++)
		snprintf(texts[i], sizeof(texts[i]), "a%d", i);
	b = coded(f, type, values, 100, "\0", 1);
	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, a, 0, 1, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, b, 0, 1, &f->err), WEIR_E_OVERFLOW);
	assert_non_null(strstr(f->err.message, "200 values"));
	weir_builder_release(&builder);
	weir_array_unref(a);
	weir_array_unref(b);
	weir_type_unref(type);
}

static void test_settled_dictionaries_belong_to_the_builder(void **state)
{
	static const char *const values[] = {"x", "y"}, *const others[] = {"y", "z"};
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "dictionary<values=string, indices=int8, ordered=0>");
	struct weir_array *a = coded(f, type, values, 2, "\1\0", 2), *b = coded(f, type, others, 2, "\0\1", 2), *both;
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	assert_int_equal(weir_builder_settle(&builder, &f->err), 0);
	assert_int_equal(weir_builder_array(&builder, a, 0, 2, &f->err), 0);
	assert_int_equal(weir_builder_settle(&builder, &f->err), 0);
	assert_int_equal(a->dictionary->refs, 1);
	weir_array_unref(a);
	assert_int_equal(weir_builder_array(&builder, b, 0, 2, &f->err), 0);
	assert_int_equal(weir_builder_settle(&builder, &f->err), 0);
	assert_int_equal(b->dictionary->refs, 1);
	weir_array_unref(b);
	both = finish(f, &builder);
	assert_memory_equal(both->buffers[1].data, "\1\0\1\2", 4);
	assert_int_equal(both->dictionary->length, 3);
	weir_array_unref(both);
	weir_type_unref(type);
}

static void test_values_become_codes(void **state)
{
	static const char *const texts[] = {"b", NULL, "a", "b", ""};
	struct fixture *f = *state;
	const struct weir_type *type = parse(f, "dictionary<values=string, indices=int16, ordered=1>");
	struct weir_array *plain = strings(f, texts, 5), *part, *codes;

	codes = weir_array_encode(f->account, plain, type, &f->err);
	assert_non_null(codes);
	assert_memory_equal(codes->buffers[1].data, ((const int16_t[]){0, 0, 1, 0, 2}), 10);
	assert_int_equal(codes->dictionary->length, 3);
	assert_int_equal(weir_array_null_count(codes), 1);
	assert_int_equal(weir_array_validate(codes, true, &f->err), 0);
	weir_array_unref(codes);
	part = weir_array_slice(plain, 2, 2, &f->err);
	codes = weir_array_encode(f->account, part, type, &f->err);
	assert_non_null(codes);
	assert_int_equal(codes->length, 2);
	assert_int_equal(codes->dictionary->length, 2);
	assert_int_equal(((const int16_t *)codes->buffers[1].data)[codes->offset + 1], 1);
	weir_array_unref(codes);
	weir_array_unref(part);
	weir_array_unref(plain);
	weir_type_unref(type);
}

static void test_buffers(void **state)
{
	struct fixture *f = *state;
	struct weir_buffer buffer, second;
	uint8_t *bytes;

	for (uint64_t size = 0; size < 20000; size += 777) {
		assert_int_equal(weir_buffer_new(f->account, size, &buffer, &bytes, &f->err), 0);
		assert_int_equal((uintptr_t)bytes % 64, 0);
		memset(bytes, 1, size);
		for (uint64_t i = size; i % 64; i++)
			assert_int_equal(bytes[i], 0);
		second = weir_buffer_ref(&buffer);
		weir_buffer_release(&buffer);
		weir_buffer_release(&buffer);
		assert_int_equal(size ? second.data[size - 1] : 1, 1);
		weir_buffer_release(&second);
	}
	assert_int_equal(weir_buffer_new(f->account, UINT64_MAX, &buffer, &bytes, &f->err), WEIR_E_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_fixed_values_and_nulls),
		memory_test(test_bools_strings_and_the_tail_is_zero),
		memory_test(test_empty_arrays_have_their_buffers),
		memory_test(test_nested_rows),
		memory_test(test_a_fixed_list_of_the_wrong_length_is_refused),
		memory_test(test_dictionaries_unite),
		memory_test(test_codes_that_do_not_fit_are_refused),
		memory_test(test_settled_dictionaries_belong_to_the_builder),
		memory_test(test_values_become_codes),
		memory_test(test_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
