/* Slice, concatenate, take, filter, compare, promote and validate on cases worked out by hand; random arrays are held
 * against pyarrow in tests/python/test_arrow_cdata.py. */
#include "support.h"

#include "arrow/tensor.h"

#define N INT64_MIN

static void assert_rows(const struct weir_array *array, const int64_t *expected, int64_t count)
{
	const int64_t *values = (const int64_t *)array->buffers[1].data + array->offset;
	int64_t nulls = 0;

	assert_int_equal(array->length, count);
	for (int64_t i = 0; i < count; i++) {
		nulls += expected[i] == N;
		assert_int_equal(weir_array_is_valid(array, i), expected[i] != N);
		if (expected[i] != N)
			assert_int_equal(values[i], expected[i]);
	}
	assert_int_equal(weir_array_null_count(array), nulls);
}

static void test_slices_share_and_stay_inside(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = int64s(f, (int64_t[]){1, 2, N, 4, 5}, 5), *slice, *second;

	slice = weir_array_slice(array, 1, 3, &f->err);
	assert_rows(slice, (int64_t[]){2, N, 4}, 3);
	assert_ptr_equal(slice->buffers[1].data, array->buffers[1].data);
	second = weir_array_slice(slice, 1, 2, &f->err);
	assert_rows(second, (int64_t[]){N, 4}, 2);
	assert_null(weir_array_slice(slice, 1, 3, &f->err));
	assert_int_equal(f->err.code, WEIR_E_INVALID);
	assert_null(weir_array_slice(slice, -1, 1, &f->err));
	assert_null(weir_array_slice(slice, 4, 0, &f->err));
	assert_null(weir_array_slice(slice, 1, INT64_MAX, &f->err));
	weir_array_unref(array);
	weir_array_unref(slice);
	assert_rows(second, (int64_t[]){N, 4}, 2);
	weir_array_unref(second);
}

static void test_concat_of_slices(void **state)
{
	static const char *const texts[] = {"a", "bcd", NULL, "", "ef"};
	struct fixture *f = *state;
	struct weir_array *array = strings(f, texts, 5), *parts[3], *joined;

	parts[0] = weir_array_slice(array, 3, 2, &f->err);
	parts[1] = weir_array_slice(array, 0, 0, &f->err);
	parts[2] = weir_array_slice(array, 1, 3, &f->err);
	joined = weir_array_concat(f->account, parts, 3, &f->err);
	assert_int_equal(joined->length, 5);
	assert_memory_equal(joined->buffers[2].data, "efbcd", 5);
	assert_int_equal(joined->buffers[2].size, 5);
	assert_int_equal(weir_array_null_count(joined), 1);
	assert_int_equal(weir_array_validate(joined, true, &f->err), 0);
	weir_array_unref(joined);
	for (int i = 0; i < 3; i++)
		weir_array_unref(parts[i]);
	parts[0] = array;
	parts[1] = int64s(f, (int64_t[]){1}, 1);
	assert_null(weir_array_concat(f->account, parts, 2, &f->err));
	assert_string_equal(f->err.message, "arrays of string and int64 cannot be concatenated");
	weir_array_unref(parts[0]);
	weir_array_unref(parts[1]);
}

static void test_take_and_its_edges(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = int64s(f, (int64_t[]){10, N, 30}, 3), *taken;

	taken = weir_array_take(f->account, array, (int64_t[]){2, -1, 0, 1, 2}, 5, &f->err);
	assert_rows(taken, (int64_t[]){30, N, 10, N, 30}, 5);
	weir_array_unref(taken);
	taken = weir_array_take(f->account, array, (int64_t[]){0, 2}, 2, &f->err);
	assert_null(taken->buffers[0].data);
	weir_array_unref(taken);
	taken = weir_array_take(f->account, array, NULL, 0, &f->err);
	assert_int_equal(taken->length, 0);
	weir_array_unref(taken);
	assert_null(weir_array_take(f->account, array, (int64_t[]){3}, 1, &f->err));
	assert_null(weir_array_take(f->account, array, (int64_t[]){-2}, 1, &f->err));
	assert_string_equal(f->err.message, "row -2 does not lie in an array of 3 rows");
	weir_array_unref(array);
}

static void test_filter_by_runs_and_by_rows(void **state)
{
	struct fixture *f = *state;
	int64_t values[300], expected[300];
	struct weir_array *array, *kept;

	for (int64_t i = 0; i < 300; i++)
		values[i] = i % 7 == 3 ? N : i;
	array = int64s(f, values, 300);
	for (int kind = 0; kind < 4; kind++) {
		uint64_t keep[5] = {0};
		int64_t count = 0;

		for (int64_t i = 0; i < 300; i++) {
			bool wanted = kind == 0   ? false
				      : kind == 1 ? true
				      : kind == 2 ? i % 3 == 0       /* many short runs */
						  : i / 40 % 2 == 0; /* a few long ones */

			keep[i / 64] |= (uint64_t)wanted << i % 64;
			if (wanted)
				expected[count++] = values[i];
		}
		kept = weir_array_filter(f->account, array, keep, &f->err);
		assert_non_null(kept);
		assert_rows(kept, expected, count);
		weir_array_unref(kept);
	}
	weir_array_unref(array);
}

static void test_equality_looks_past_offsets_and_under_no_null(void **state)
{
	struct fixture *f = *state;
	struct weir_array *a = int64s(f, (int64_t[]){9, 1, N, 3}, 4), *b = int64s(f, (int64_t[]){1, N, 3}, 3), *slice,
			  *c;

	slice = weir_array_slice(a, 1, 3, &f->err);
	assert_true(weir_array_equal(slice, b, false));
	((int64_t *)b->buffers[1].data)[1] = 77;
	assert_true(weir_array_equal(slice, b, false));
	((int64_t *)b->buffers[1].data)[2] = 77;
	assert_false(weir_array_equal(slice, b, false));
	assert_false(weir_array_equal(a, b, false));
	c = int64s(f, (int64_t[]){1, 2, 3}, 3);
	assert_false(weir_array_equal(b, c, false));
	weir_array_unref(a);
	weir_array_unref(b);
	weir_array_unref(c);
	weir_array_unref(slice);
}

static struct weir_array *counting(struct fixture *f, enum weir_type_id id, uint64_t value)
{
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, weir_type_of(id), f->account, &f->err), 0);
	assert_int_equal(weir_builder_fixed(&builder, &value, 1, &f->err), 0);
	assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
	return finish(f, &builder);
}

static void test_promote_says_which_row_does_not_fit(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = counting(f, WEIR_UINT64, UINT64_MAX), *wider;

	assert_null(weir_array_promote(f->account, array, weir_type_of(WEIR_INT64), &f->err));
	assert_int_equal(f->err.code, WEIR_E_CAST);
	assert_true(f->err.has_row && f->err.row == 0);
	/* Under a null the same bits mean nothing. */
	((uint64_t *)array->buffers[1].data)[0] = 5;
	((uint64_t *)array->buffers[1].data)[1] = UINT64_MAX;
	wider = weir_array_promote(f->account, array, weir_type_of(WEIR_INT64), &f->err);
	assert_rows(wider, (int64_t[]){5, N}, 2);
	weir_array_unref(wider);
	weir_array_unref(array);
}

static void assert_invalid(struct fixture *f, const struct weir_array *array, const char *message)
{
	weir_error_clear(&f->err);
	assert_int_equal(weir_array_validate(array, true, &f->err), WEIR_E_DATA);
	if (!strstr(f->err.message, message))
		fail_msg("'%s' is not in '%s'", message, f->err.message);
}

static void test_validation_finds_what_is_wrong(void **state)
{
	static const char *const texts[] = {"one", "two", "three"};
	struct fixture *f = *state;
	struct weir_array *array = strings(f, texts, 3);
	int32_t *offsets = (int32_t *)array->buffers[1].data;

	assert_int_equal(weir_array_validate(array, true, &f->err), 0);
	offsets[1] = 7;
	assert_invalid(f, array, "offsets 7 to 6");
	assert_int_equal(f->err.row, 1);
	offsets[1] = 3;
	offsets[3] = 12;
	assert_invalid(f, array, "within 0 to 11");
	offsets[3] = 11;
	offsets[0] = -1;
	assert_invalid(f, array, "offsets -1 to 3");
	offsets[0] = 0;
	array->buffers[1].size = 12;
	assert_invalid(f, array, "need 16 bytes, but there are 12");
	array->buffers[1].size = 16;
	array->null_count = 1;
	assert_invalid(f, array, "1 nulls, but no validity bitmap");
	array->null_count = 4;
	assert_invalid(f, array, "4 nulls in 3 rows");
	array->null_count = 0;
	array->offset = INT64_MAX - 2;
	assert_invalid(f, array, "rows from row");
	array->offset = 1;
	assert_invalid(f, array, "need 20 bytes");
	array->offset = 0;
	array->length = -1;
	assert_invalid(f, array, "-1 rows");
	array->length = 3;
	((uint8_t *)array->buffers[2].data)[4] = 0xff;
	assert_invalid(f, array, "UTF-8");
	assert_int_equal(f->err.row, 1);
	assert_int_equal(weir_array_validate(array, false, &f->err), 0);
	weir_array_unref(array);
}

static void test_unify_of_schemas(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *a_type = parse(f, "struct<x: int8, y: string>"),
			       *b_type = parse(f, "struct<y: null, x: float>");
	struct weir_field a_fields[] = {{.name = "s", .type = a_type}, {.name = "n", .type = weir_type_of(WEIR_NULL)}};
	struct weir_field b_fields[] = {{.name = "n", .type = weir_type_of(WEIR_DATE32)},
					{.name = "s", .type = b_type},
					{.name = "z", .type = weir_type_of(WEIR_BOOL)}};
	struct weir_schema *a = weir_schema_new(f->account, a_fields, 2, NULL, &f->err);
	struct weir_schema *b = weir_schema_new(f->account, b_fields, 3, NULL, &f->err), *both;
	struct weir_text text;

	weir_text_init(&text, f->account);
	both = weir_schema_unify(f->account, a, b, &f->err);
	assert_non_null(both);
	assert_int_equal(weir_schema_print(both, &text, &f->err), 0);
	assert_string_equal(text.data, "s: struct<x: float, y: string> not null\nn: date32[day] not null\nz: bool");
	weir_text_release(&text);
	weir_schema_unref(both);
	both = weir_schema_unify(f->account, a, a, &f->err);
	assert_ptr_equal(both, a);
	weir_schema_unref(both);
	weir_schema_unref(a);
	weir_schema_unref(b);
	weir_type_unref(a_type);
	weir_type_unref(b_type);
}

static struct weir_field tensor(const struct weir_type *type, const char *metadata,
				struct weir_metadata_entry entries[2])
{
	entries[0] = (struct weir_metadata_entry){WEIR_EXTENSION_METADATA, metadata, (uint32_t)strlen(metadata)};
	entries[1] = (struct weir_metadata_entry){WEIR_EXTENSION_NAME, WEIR_FIXED_TENSOR,
						  sizeof(WEIR_FIXED_TENSOR) - 1};
	return (struct weir_field){
		.name = "x", .type = type, .nullable = true, .metadata = {.count = 2, .entries = entries}};
}

/* Rows of a fixed tensor over these values, the second of them null. */
static struct weir_array *tensor_rows(struct fixture *f, const struct weir_type *type, const int64_t *values,
				      int64_t count)
{
	struct weir_array *rows = weir_array_new(f->account, type, &f->err);
	uint8_t *bits;

	assert_non_null(rows);
	assert_int_equal(weir_buffer_new(f->account, 8, &rows->buffers[0], &bits, &f->err), 0);
	memset(bits, 0, 8);
	bits[0] = 0xfd;
	rows->length = count;
	rows->null_count = 1;
	rows->children[0] = int64s(f, values, count * type->list_size);
	return rows;
}

static void test_tensors_of_several_shapes(void **state)
{
	struct fixture *f = *state;
	const struct weir_type *four = parse(f, "fixed_size_list<item: int64>[4]");
	struct weir_metadata_entry entries[3][2];
	struct weir_field square = tensor(four, "{\"shape\":[2,2]}", entries[0]),
			  flat = tensor(four, "{\"shape\":[4]}", entries[1]),
			  wrong = tensor(four, "{\"shape\":[5]}", entries[2]), both;
	struct weir_array *rows = tensor_rows(f, four, (int64_t[]){1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8}, 3), *slice,
			  *ragged;
	const int32_t *sizes;

	assert_true(weir_tensor_meets(&square, &flat) && !weir_tensor_meets(&square, &square) &&
		    !weir_tensor_meets(&square, &wrong));
	assert_false(weir_field_same(&square, &flat));
	assert_int_equal(weir_field_unify(f->account, &square, &flat, &both, &f->err), 0);
	assert_true(weir_tensor_ragged(&both));
	slice = weir_array_slice(rows, 1, 2, &f->err);
	ragged = weir_array_promote_field(f->account, slice, &flat, &both, &f->err);
	assert_non_null(ragged);
	assert_int_equal(weir_array_validate(ragged, true, &f->err), 0);
	assert_int_equal(ragged->length, 2);
	assert_int_equal(weir_array_null_count(ragged), 1);
	sizes = (const int32_t *)(const void *)ragged->children[1]->children[0]->buffers[1].data;
	assert_true(sizes[0] == 0 && sizes[2] == 1 && sizes[3] == 4); /* ones in front */
	weir_array_unref(ragged);
	weir_array_unref(slice);
	weir_array_unref(rows);
	weir_type_unref(both.type);
	weir_type_unref(four);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_tensors_of_several_shapes),
		memory_test(test_slices_share_and_stay_inside),
		memory_test(test_concat_of_slices),
		memory_test(test_take_and_its_edges),
		memory_test(test_filter_by_runs_and_by_rows),
		memory_test(test_equality_looks_past_offsets_and_under_no_null),
		memory_test(test_promote_says_which_row_does_not_fit),
		memory_test(test_validation_finds_what_is_wrong),
		memory_test(test_unify_of_schemas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
