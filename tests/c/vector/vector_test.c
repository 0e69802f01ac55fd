/* Vectors in every form and layout, gathered into batches: each row must come out as what it was made of. The oracle is
 * weir_array_take over the arrays that the vectors were made from. */
#include "vector/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_arena arena;
	struct weir_error err;
	uint64_t seed;
};

static uint32_t random_below(struct fixture *f, uint32_t below)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 7;
	f->seed ^= f->seed << 17;
	return (uint32_t)(f->seed >> 20) % below;
}

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){.seed = 88172645463325252u};
	if (weir_mem_new(0, &f.mem, &f.err))
		return -1;
	f.account = weir_mem_root(f.mem);
	weir_arena_init(&f.arena, f.account);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	weir_arena_release(&f->arena);
	weir_mem_free(f->mem);
	return 0;
}

enum { TYPES = 10, ARRAY_ROWS = 3000 };

static struct weir_array *array_make(struct fixture *f, const struct weir_type *type, uint32_t rows, bool nulls)
{
	struct weir_builder builder;
	struct weir_array *array;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	for (uint32_t i = 0; i < rows; i++) {
		uint8_t bytes[40];
		uint32_t kind = random_below(f, 50);

		/* Few distinct values, so that dictionaries have something to find. */
		memset(bytes, 'a' + (int)kind % 20, sizeof(bytes));
		if (nulls && random_below(f, 10) == 0) {
			assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
			continue;
		}
		if (type->layout == WEIR_LAYOUT_NULL) {
			assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
		} else if (type->layout == WEIR_LAYOUT_BITS) {
			bytes[0] = kind & 1;
			assert_int_equal(weir_builder_fixed(&builder, bytes, 1, &f->err), 0);
		} else if (type->layout == WEIR_LAYOUT_FIXED) {
			assert_int_equal(weir_builder_fixed(&builder, bytes, 1, &f->err), 0);
		} else if (type->layout == WEIR_LAYOUT_BYTES) {
			assert_int_equal(weir_builder_bytes(&builder, bytes, kind % 30, &f->err), 0);
		} else {
			for (uint32_t n = random_below(f, 4); n; n--)
				assert_int_equal(weir_builder_fixed(&builder.children[0], bytes, 1, &f->err), 0);
			assert_int_equal(weir_builder_list_end(&builder, &f->err), 0);
		}
	}
	array = weir_builder_finish(&builder, &f->err);
	assert_non_null(array);
	weir_builder_release(&builder);
	return array;
}

static const struct weir_type *type_make(struct fixture *f, int which)
{
	struct weir_field item = {.name = "item", .type = weir_type_of(WEIR_INT32), .nullable = true};

	switch (which) {
	case 0:
		return weir_type_of(WEIR_INT8);
	case 1:
		return weir_type_of(WEIR_INT64);
	case 2:
		return weir_type_of(WEIR_BOOL);
	case 3:
		return weir_type_of(WEIR_STRING);
	case 4:
		return weir_type_of(WEIR_LARGE_BINARY);
	case 5:
		return weir_type_fixed_binary(f->account, 5, &f->err);
	case 6:
		return weir_type_list(f->account, WEIR_LIST_TYPE, &item, 0, false, &f->err);
	case 7:
		return weir_type_decimal(f->account, WEIR_DECIMAL256, 40, 2, &f->err);
	case 8:
		return weir_type_of(WEIR_NULL);
	default:
		return weir_type_of(WEIR_INT16);
	}
}

/* Turns a flat column into a dictionary or a constant over the same rows. */
static void to_dictionary(struct fixture *f, struct weir_column *column, uint32_t rows)
{
	struct weir_dictionary *dictionary = weir_arena_alloc_zero(&f->arena, sizeof(*dictionary), &f->err);
	uint32_t *codes = weir_arena_alloc(&f->arena, (rows + 1) * 4, &f->err);

	for (uint32_t i = 0; i < rows; i++)
		codes[i] = i;
	*dictionary = (struct weir_dictionary){
		.id = weir_dictionary_id_new(), .count = rows, .values = column->values, .nested = column->nested};
	if (column->nested)
		for (uint32_t i = 0; i < rows; i++)
			codes[i] = (uint32_t)column->nested_offset + i;
	if (column->nested)
		dictionary->count += (uint32_t)column->nested_offset;
	column->values = codes;
	column->dictionary = dictionary;
	column->form = WEIR_DICTIONARY;
}

static void gathered(struct fixture *f, bool nulls, bool as_dictionary_type, enum weir_form form)
{
	struct weir_field fields[TYPES];
	struct weir_array *arrays[TYPES];
	const struct weir_type *types[TYPES], *outer[TYPES];
	char names[TYPES][16];
	struct weir_schema *schema, *plain;
	struct weir_batch *batch, *out;
	struct weir_gather *gather;
	int64_t *rows = malloc(sizeof(int64_t) * ARRAY_ROWS * 2), count = 0;

	for (int i = 0; i < TYPES; i++) {
		snprintf(names[i], sizeof(names[i]), "c%d", i);
		types[i] = type_make(f, i);
		assert_non_null(types[i]);
		arrays[i] = array_make(f, types[i], ARRAY_ROWS, nulls);
		fields[i] = (struct weir_field){.name = names[i], .type = types[i], .nullable = true};
		outer[i] = NULL;
	}
	plain = weir_schema_new(f->account, fields, TYPES, NULL, &f->err);
	for (int i = 0; i < TYPES && as_dictionary_type; i++) {
		outer[i] = weir_type_dictionary(f->account, weir_type_of(WEIR_INT32), types[i], false, &f->err);
		fields[i].type = outer[i];
	}
	schema = weir_schema_new(f->account, fields, TYPES, NULL, &f->err);
	batch = weir_batch_new(f->account, plain, ARRAY_ROWS, arrays, &f->err);
	assert_non_null(batch);
	assert_int_equal(weir_gather_new(f->account, schema, &gather, &f->err), 0);

	for (int64_t at = 0; at < ARRAY_ROWS;) {
		uint32_t size = 1 + random_below(f, 900), picked = 0;
		uint16_t selected[WEIR_VECTOR_ROWS];
		struct weir_vector vector;

		size = at + size > ARRAY_ROWS ? (uint32_t)(ARRAY_ROWS - at) : size;
		weir_arena_clear(&f->arena);
		assert_int_equal(weir_vector_from_batch(batch, at, size, &f->arena, &vector, &f->err), 0);
		if (random_below(f, 3)) {
			for (uint32_t i = 0; i < size; i++)
				if (random_below(f, 3))
					selected[picked++] = (uint16_t)i;
			vector.selection = (struct weir_selection){.count = picked, .rows = selected};
		}
		for (uint32_t c = 0; c < TYPES && form == WEIR_DICTIONARY; c++)
			if (vector.columns[c].form == WEIR_FLAT)
				to_dictionary(f, &vector.columns[c], size);
		for (uint32_t c = 0; c < TYPES && form == WEIR_FLAT; c++)
			if (weir_type_values(vector.columns[c].type)->layout != WEIR_LAYOUT_NESTED &&
			    vector.columns[c].form == WEIR_FLAT) {
				/* There and back. */
				to_dictionary(f, &vector.columns[c], size);
				assert_int_equal(weir_column_flatten(&vector.columns[c], &vector.selection, size,
								     &f->arena, &f->err),
						 0);
			}
		for (uint32_t k = 0; k < vector.selection.count; k++)
			rows[count++] = at + (vector.selection.rows ? vector.selection.rows[k] : k);
		assert_int_equal(weir_gather_push(gather, &vector, &f->err), 0);
		at += size;
	}
	assert_int_equal(weir_gather_rows(gather), count);
	assert_int_equal(weir_gather_finish(gather, &out, &f->err), 0);
	assert_int_equal(out->row_count, count);
	for (uint32_t i = 0; i < TYPES; i++) {
		struct weir_array *expected = weir_array_take(f->account, arrays[i], rows, count, &f->err), *got;

		assert_non_null(expected);
		assert_int_equal(weir_array_validate(out->columns[i], true, &f->err), 0);
		got = as_dictionary_type ? weir_array_promote(f->account, out->columns[i], types[i], &f->err)
					 : weir_array_ref(out->columns[i]);
		assert_non_null(got);
		assert_true(weir_array_equal(got, expected, true));
		weir_array_unref(got);
		weir_array_unref(expected);
	}
	/* Back in as vectors, dictionaries too. */
	weir_arena_clear(&f->arena);
	struct weir_vector again;
	struct weir_batch *copy;
	assert_int_equal(
		weir_vector_from_batch(out, count / 2, (uint32_t)(count - count / 2), &f->arena, &again, &f->err), 0);
	assert_int_equal(weir_vector_to_batch(&again, plain, f->account, &copy, &f->err), 0);
	for (uint32_t i = 0; i < TYPES; i++) {
		struct weir_array *expected = weir_array_take(f->account, arrays[i], rows + count / 2,
							      count - count / 2, &f->err);

		assert_true(weir_array_equal(copy->columns[i], expected, true));
		weir_array_unref(expected);
	}
	weir_batch_unref(copy);
	weir_batch_unref(out);
	weir_gather_free(gather);
	weir_batch_unref(batch);
	weir_schema_unref(schema);
	weir_schema_unref(plain);
	for (int i = 0; i < TYPES; i++) {
		weir_array_unref(arrays[i]);
		weir_type_unref(types[i]);
		weir_type_unref(outer[i]);
	}
	free(rows);
	weir_arena_clear(&f->arena);
}

static void test_gather_all_forms(void **state)
{
	for (int nulls = 0; nulls < 2; nulls++) {
		for (int encoded = 0; encoded < 2; encoded++) {
			gathered(*state, nulls, encoded, WEIR_UNDECODED); /* as they come */
			gathered(*state, nulls, encoded, WEIR_FLAT);
			gathered(*state, nulls, encoded, WEIR_DICTIONARY);
		}
	}
}

static void test_constants(void **state)
{
	static const uint64_t none[1];
	struct fixture *f = *state;
	int64_t number = 42;
	uint64_t bit = 1;
	struct weir_view view = weir_view_make("a text longer than twelve", 25);
	struct weir_column columns[4] = {
		{.type = weir_type_of(WEIR_INT64), .form = WEIR_CONSTANT, .values = &number},
		{.type = weir_type_of(WEIR_BOOL), .form = WEIR_CONSTANT, .values = &bit},
		{.type = weir_type_of(WEIR_STRING), .form = WEIR_CONSTANT, .values = &view},
		{.type = weir_type_of(WEIR_STRING), .form = WEIR_CONSTANT, .values = &view, .validity = none},
	};
	struct weir_vector vector = {
		.row_count = 100, .selection = {.count = 100}, .column_count = 4, .columns = columns};
	struct weir_field fields[4] = {{.name = "a", .type = columns[0].type, .nullable = true},
				       {.name = "b", .type = columns[1].type, .nullable = true},
				       {.name = "c", .type = columns[2].type, .nullable = true},
				       {.name = "d", .type = columns[3].type, .nullable = true}};
	struct weir_schema *schema = weir_schema_new(f->account, fields, 4, NULL, &f->err);
	struct weir_batch *a, *b;

	assert_int_equal(weir_vector_to_batch(&vector, schema, f->account, &a, &f->err), 0);
	assert_int_equal(((const int64_t *)a->columns[0]->buffers[1].data)[99], 42);
	assert_int_equal(a->columns[2]->buffers[2].size, 2500);
	assert_int_equal(a->columns[3]->null_count, 100);
	for (int i = 0; i < 4; i++)
		assert_int_equal(weir_column_flatten(&columns[i], &vector.selection, 100, &f->arena, &f->err), 0);
	assert_int_equal(weir_vector_to_batch(&vector, schema, f->account, &b, &f->err), 0);
	for (int i = 0; i < 4; i++)
		assert_true(weir_array_equal(a->columns[i], b->columns[i], false));
	weir_batch_unref(a);
	weir_batch_unref(b);
	weir_schema_unref(schema);
}

static void test_too_many_values_for_the_index_type(void **state)
{
	struct fixture *f = *state;
	int64_t numbers[300];
	const struct weir_type *type = weir_type_dictionary(f->account, weir_type_of(WEIR_INT8),
							    weir_type_of(WEIR_INT64), false, &f->err);
	struct weir_column column = {.type = weir_type_of(WEIR_INT64), .values = numbers};
	struct weir_vector vector = {
		.row_count = 300, .selection = {.count = 300}, .column_count = 1, .columns = &column};
	struct weir_field field = {.name = "a", .type = type, .nullable = true};
	struct weir_schema *schema = weir_schema_new(f->account, &field, 1, NULL, &f->err);
	struct weir_batch *batch;

	for (int i = 0; i < 300; i++)
		numbers[i] = i % 128;
	assert_int_equal(weir_vector_to_batch(&vector, schema, f->account, &batch, &f->err), 0);
	assert_int_equal(batch->columns[0]->dictionary->length, 128);
	weir_batch_unref(batch);
	numbers[299] = 128;
	assert_int_equal(weir_vector_to_batch(&vector, schema, f->account, &batch, &f->err), WEIR_E_VALUE);
	assert_string_equal(f->err.column, "a");
	weir_schema_unref(schema);
	weir_type_unref(type);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_gather_all_forms, setup, teardown),
		cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_many_values_for_the_index_type, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
