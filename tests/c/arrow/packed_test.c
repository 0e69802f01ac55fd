/* What packed rows promise: a batch comes back equal from its bytes and its schema, slices and dictionaries too; bytes
 * that are cut off are an error; many columns of few rows take little more than their values. */
#include "base/fault.h"
#include "arrow/block.h"
#include "arrow/packed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coded_batch.h"
#include "random_batch.h"

/* Into memory that is not zero: every byte must be the writer's. */
static uint8_t *packed_of(const struct weir_batch *batch, uint64_t *size)
{
	static uint8_t fill;
	struct weir_packed_plan plan;
	uint8_t *bytes;

	weir_packed_measure(batch, &plan);
	assert_int_equal(plan.size % 8, 0);
	bytes = malloc(plan.size + 1);
	memset(bytes, fill += 0x77, plan.size + 1);
	weir_packed_write(batch, &plan, bytes);
	assert_int_equal(bytes[plan.size], fill);
	*size = plan.size;
	return bytes;
}

static void assert_comes_back(const struct weir_batch *batch)
{
	struct weir_error err = {0};
	struct weir_batch *back;
	uint64_t size;
	uint8_t *bytes = packed_of(batch, &size);

	assert_ok(weir_packed_open(account, batch->schema, bytes, size, &back, &err));
	assert_ptr_equal(back->schema, batch->schema);
	for (uint32_t i = 0; i < back->column_count; i++)
		assert_ok(weir_array_validate(back->columns[i], true, &err));
	assert_batches_equal(batch, back);
	weir_batch_unref(back);
	free(bytes);
}

static void batches_come_back_from_their_bytes(void **state)
{
	static const int64_t ranges[][2] = {{0, 100}, {0, 0}, {7, 64}, {33, 40}, {99, 1}, {100, 0}};
	struct weir_schema *schema = schema_of_all(account);
	struct weir_batch *all = random_batch(account, schema, 100, 4711), *coded_rows = coded_batch();

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct weir_batch *slice = sliced(account, all, ranges[i][0], ranges[i][1]);

		assert_comes_back(slice);
		weir_batch_unref(slice);
	}
	for (int64_t first = 0; first <= 4; first++) {
		struct weir_batch *slice = sliced(account, coded_rows, first, 4 - first);

		assert_comes_back(slice);
		weir_batch_unref(slice);
	}
	weir_batch_unref(coded_rows);
	weir_batch_unref(all);
	weir_schema_unref(schema);
}

/* Also where the bytes before the cut say that there is more; under a sanitizer nothing is read behind it. */
static void cut_bytes_are_an_error(void **state)
{
	struct weir_schema *schema = schema_of_all(account);
	struct weir_batch *batches[] = {coded_batch(), random_batch(account, schema, 20, 12)}, *back;
	struct weir_error err = {0};

	(void)state;
	for (int b = 0; b < 2; b++) {
		uint64_t size;
		uint8_t *bytes = packed_of(batches[b], &size);

		/* The last seven may be room up to a boundary. */
		for (uint64_t cut = 0; cut + 8 <= size; cut++) {
			uint8_t *copy = malloc(cut ? cut : 1);

			memcpy(copy, bytes, cut);
			assert_int_equal(weir_packed_open(account, batches[b]->schema, copy, cut, &back, &err),
					 WEIR_E_DATA);
			assert_null(back);
			free(copy);
		}
		free(bytes);
		weir_batch_unref(batches[b]);
	}
	weir_schema_unref(schema);
}

/* Few rows of a dictionary with a thousand values have those that they name; the other way round the batch stays. */
static void dictionaries_are_trimmed_to_what_rows_name(void **state)
{
	enum { VALUES = 1000, ROWS = 600 };
	struct weir_field field = {.name = "d", .nullable = true};
	struct weir_error err = {0};
	struct weir_builder builder;
	struct weir_array *values, *column;
	struct weir_batch *all, *few, *trimmed;
	struct weir_schema *schema;
	struct weir_packed_plan whole, plan;
	char text[32];

	(void)state;
	assert_ok(weir_builder_init(&builder, weir_type_of(WEIR_STRING), account, &err));
	for (int i = 0; i < VALUES; i++)
		assert_ok(weir_builder_bytes(&builder, text, (size_t)snprintf(text, sizeof(text), "value number %d", i),
					     &err));
	values = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	field.type = weir_type_dictionary(account, weir_type_of(WEIR_INT16), weir_type_of(WEIR_STRING), false, &err);
	assert_ok(weir_builder_init(&builder, field.type, account, &err));
	assert_ok(weir_builder_dictionary(&builder, values, &err));
	for (int i = 0; i < ROWS; i++) {
		int16_t code = (int16_t)(i * 7 % 40 + 900);

		assert_ok(i % 5 == 0 ? weir_builder_null(&builder, 1, &err)
				     : weir_builder_fixed(&builder, &code, 1, &err));
	}
	column = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	schema = weir_schema_new(account, &field, 1, NULL, &err);
	all = weir_batch_new(account, schema, ROWS, &column, &err);
	few = sliced(account, all, 3, 100);
	assert_ok(weir_batch_trim(account, few, &trimmed, &err));
	assert_true(trimmed->columns[0]->dictionary->length <= 40);
	assert_true(weir_array_equal(trimmed->columns[0], few->columns[0], false));
	weir_packed_measure(few, &whole);
	weir_packed_measure(trimmed, &plan);
	assert_true(plan.size * 5 < whole.size);
	assert_comes_back(trimmed);
	weir_batch_unref(few);
	/* Once more: there is nothing to gain. */
	assert_ok(weir_batch_trim(account, trimmed, &few, &err));
	assert_true(weir_array_equal(trimmed->columns[0], few->columns[0], false));
	weir_batch_unref(few);
	weir_batch_unref(trimmed);
	/* Nulls alone. */
	few = sliced(account, all, 5, 1);
	assert_ok(weir_batch_trim(account, few, &trimmed, &err));
	assert_int_equal(trimmed->columns[0]->dictionary->length, 0);
	assert_comes_back(trimmed);
	weir_batch_unref(trimmed);
	weir_batch_unref(few);
	weir_batch_unref(all);
	weir_schema_unref(schema);
	weir_array_unref(column);
	weir_array_unref(values);
	weir_type_unref(field.type);
}

static void many_columns_take_little(void **state)
{
	enum { COLUMNS = 300, ROWS = 17 };
	struct weir_field fields[COLUMNS];
	char names[COLUMNS][16];
	struct weir_error err = {0};
	struct weir_schema *schema;
	struct weir_batch *batch;
	struct weir_packed_plan plan;
	struct weir_block_plan block;

	(void)state;
	for (int i = 0; i < COLUMNS; i++) {
		snprintf(names[i], sizeof(names[i]), "c%d", i);
		fields[i] = (struct weir_field){.name = names[i], .type = weir_type_of(WEIR_DOUBLE)};
	}
	schema = weir_schema_new(account, fields, COLUMNS, NULL, &err);
	batch = random_batch(account, schema, ROWS, 5);
	weir_packed_measure(batch, &plan);
	assert_true(plan.size <= COLUMNS * ROWS * 8 + COLUMNS + 64);
	assert_ok(weir_block_measure(batch, &block, &err));
	assert_true(block.size > 2 * plan.size);
	assert_comes_back(batch);
	weir_batch_unref(batch);
	weir_schema_unref(schema);
}

#ifdef WEIR_FAULTS
static void failed_allocations_are_survived(void **state)
{
	struct weir_batch *batch = coded_batch(), *back = NULL;
	struct weir_error err = {0};
	uint64_t size, nth;
	uint8_t *bytes = packed_of(batch, &size);
	int code = WEIR_E_MEMORY;

	(void)state;
	for (nth = 1; code; nth++) {
		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		code = weir_packed_open(account, batch->schema, bytes, size, &back, &err);
		weir_fault_disarm();
		assert_true(code == WEIR_OK || code == WEIR_E_MEMORY);
	}
	assert_true(nth > 5);
	weir_batch_unref(back);
	weir_batch_unref(batch);
	free(bytes);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_come_back_from_their_bytes),
		cmocka_unit_test(cut_bytes_are_an_error),
		cmocka_unit_test(dictionaries_are_trimmed_to_what_rows_name),
		cmocka_unit_test(many_columns_take_little),
#ifdef WEIR_FAULTS
		cmocka_unit_test(failed_allocations_are_survived),
#endif
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
