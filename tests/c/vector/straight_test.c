/* Rows that their source writes straight into a gatherer's memory: whatever it writes itself and whatever it leaves to
 * decode, in whatever parts a vector is pushed and wherever the memory is, the rows come out as they are. */
#include "vector/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LIST = 3, ROWS = 500 };

/* Row r of the vector has the numbers r × LIST …; it is null where r + shift is a multiple of `null_every`. */
struct source {
	struct weir_pending pending;
	bool is_list;
	struct weir_account *account;
	uint32_t shift, null_every, stop; /* decode_to stops before row `stop` */
	uint32_t passed;                  /* rows below are gone */
	struct weir_array *array;
	int64_t values[ROWS];
	uint64_t validity[ROWS / 64 + 1];
	uint64_t straight; /* rows */
};

static uint64_t seed = 88172645463325252u;

static uint32_t below(uint32_t count)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % count;
}

static bool is_null(const struct source *source, uint32_t row)
{
	return source->null_every && (row + source->shift) % source->null_every == 0;
}

static int decode_to(struct weir_pending *pending, uint32_t first, uint32_t count, uint8_t *out, uint32_t *done,
		     struct weir_error *err)
{
	struct source *source = (struct source *)pending;

	(void)err;
	assert_true(first >= source->passed);
	for (*done = 0; *done < count; (*done)++) {
		uint32_t row = first + *done;

		if (row >= source->stop || is_null(source, row))
			break;
		for (int i = 0; i < (source->is_list ? LIST : 1); i++) {
			int64_t value = (int64_t)row * LIST + i;

			memcpy(out, &value, 8);
			out += 8;
		}
	}
	source->passed = first + *done;
	source->straight += *done;
	return WEIR_OK;
}

static int decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		  struct weir_error *err)
{
	struct source *source = (struct source *)pending;
	struct weir_builder builder;

	assert_true(source->passed == 0 || (selection->rows && selection->rows[0] >= source->passed));
	column->form = WEIR_FLAT;
	if (!source->is_list) {
		memset(source->validity, 0, sizeof(source->validity));
		for (uint32_t k = 0; k < selection->count; k++) {
			uint32_t row = selection->rows ? selection->rows[k] : k;

			source->values[row] = (int64_t)row * LIST;
			source->validity[row / 64] |= (uint64_t)!is_null(source, row) << row % 64;
		}
		column->values = source->values;
		column->validity = source->validity;
		return WEIR_OK;
	}
	assert_int_equal(weir_builder_init(&builder, column->type, source->account, err), 0);
	for (uint32_t row = 0; row < ROWS; row++) {
		for (int64_t i = 0; i < LIST && !is_null(source, row); i++) {
			int64_t value = (int64_t)row * LIST + i;

			assert_int_equal(weir_builder_fixed(&builder.children[0], &value, 1, err), 0);
		}
		assert_int_equal(is_null(source, row) ? weir_builder_null(&builder, 1, err)
						      : weir_builder_list_end(&builder, err),
				 0);
	}
	column->nested = source->array = weir_builder_finish(&builder, err);
	column->validity = (const uint64_t *)source->array->buffers[0].data;
	weir_builder_release(&builder);
	return WEIR_OK;
}

static void check(const struct weir_array *array, bool is_list, int64_t at, const struct source *source, uint32_t row)
{
	const int64_t *values = (const int64_t *)(is_list ? array->children[0] : array)->buffers[1].data;

	assert_int_equal(weir_array_is_valid(array, at), !is_null(source, row));
	for (int i = 0; i < (is_list ? LIST : 1) && !is_null(source, row); i++)
		assert_int_equal(values[at * (is_list ? LIST : 1) + i], (int64_t)row * LIST + i);
}

static void one(struct weir_account *account, const struct weir_schema *schema)
{
	struct weir_error err = {0};
	struct weir_gather *gather;
	uint32_t vectors = 1 + below(4), expected[4 * ROWS], count = 0, number[4 * ROWS];
	struct source sources[4][2];
	struct weir_batch *batch;
	uint8_t *places[2];
	size_t capacity = (size_t)64 * (1 + below(1200));
	bool is_placed = below(2);

	assert_int_equal(weir_gather_new(account, schema, &gather, &err), 0);
	weir_gather_expect(gather, below(2) ? 1000 : 0, 1 << 20);
	for (uint32_t i = 0; i < 2; i++) {
		places[i] = aligned_alloc(64, capacity);
		if (is_placed)
			weir_gather_place(gather, i, places[i], capacity);
	}
	for (uint32_t v = 0; v < vectors; v++) {
		struct weir_column columns[2];
		struct weir_vector vector = {.row_count = ROWS,
					     .selection = {.count = ROWS},
					     .column_count = 2,
					     .columns = columns,
					     .source_row = -1};
		uint16_t rows[ROWS];
		uint32_t begin = below(ROWS), skip = below(3);

		for (uint32_t i = 0; i < 2; i++) {
			sources[v][i] = (struct source){.pending = {decode, decode_to},
							.is_list = i == 1,
							.account = account,
							.shift = below(100),
							.null_every = below(3) ? 0 : 1 + below(700),
							.stop = below(2) ? ROWS : below(ROWS)};
			columns[i] = (struct weir_column){.type = schema->fields[i].type,
							  .form = WEIR_UNDECODED,
							  .pending = &sources[v][i].pending};
		}
		/* All rows, the last ones, or some. */
		if (skip) {
			vector.selection = (struct weir_selection){.rows = rows};
			for (uint32_t row = begin; row < ROWS; row += skip == 1 ? 1 : 1 + below(3))
				rows[vector.selection.count++] = (uint16_t)row;
		}
		for (uint32_t at = 0, some; at < vector.selection.count; at += some) {
			some = 1 + below(vector.selection.count - at);
			assert_int_equal(weir_gather_push_part(gather, &vector, at, some, &err), 0);
		}
		for (uint32_t i = 0; i < vector.selection.count; i++) {
			number[count] = v;
			expected[count++] = skip ? rows[i] : i;
		}
		for (uint32_t i = 0; i < 2; i++)
			weir_array_unref(sources[v][i].array);
	}
	assert_int_equal(weir_gather_rows(gather), count);
	assert_int_equal(weir_gather_finish(gather, &batch, &err), 0);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t at = 0; at < count; at++)
			check(batch->columns[i], i == 1, at, &sources[number[at]][i], expected[at]);
	weir_batch_unref(batch);
	weir_gather_free(gather);
	free(places[0]);
	free(places[1]);
}

static void test_rows_come_out_as_they_are(void **state)
{
	const struct weir_field item = {.name = "item", .type = weir_type_of(WEIR_INT64), .nullable = true};
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_account *account;
	const struct weir_type *list;
	struct weir_schema *schema;

	(void)state;
	assert_int_equal(weir_mem_new(0, &mem, &err), 0);
	account = weir_mem_root(mem);
	list = weir_type_list(account, WEIR_FIXED_LIST, &item, LIST, false, &err);
	schema = weir_schema_new(
		account,
		(struct weir_field[]){{.name = "n", .type = weir_type_of(WEIR_INT64), .nullable = true},
				      {.name = "v", .type = list, .nullable = true}},
		2, NULL, &err);
	assert_int_equal(weir_type_row_bytes(list), LIST * 8);
	assert_int_equal(weir_type_row_bytes(weir_type_of(WEIR_STRING)), 0);
	for (int turn = 0; turn < 2000; turn++) {
		uint64_t before = seed;

		print_message(turn % 500 ? "" : "seed %llu\n", (unsigned long long)before);
		one(account, schema);
	}
	weir_schema_unref(schema);
	weir_type_unref(list);
	weir_mem_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_come_out_as_they_are)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
