/* What chunks and streams promise: arrays come back equal, slices too; damaged bytes give an error or valid arrays. */
#include "base/checked.h"
#include "base/fault.h"
#include "arrow/ipc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bounded_memory.h"
#include "random_batch.h"

/* Into memory that is not zero, and different each time: every byte must be the writer's. */
static uint8_t *chunk_of(const struct weir_batch *batch, struct weir_chunk_plan *plan)
{
	static uint8_t fill;
	struct weir_error err = {0};
	uint8_t *bytes;

	assert_ok(weir_chunk_measure(batch, plan, &err));
	assert_int_equal(plan->size % 64, 0);
	assert_int_equal(plan->metadata_size % 64, 0);
	bytes = aligned_alloc(64, plan->size);
	memset(bytes, fill += 0x77, plan->size);
	assert_ok(weir_chunk_write(batch, plan, bytes, &err));
	return bytes;
}

static void slices_come_back_equal(void **state)
{
	static const int64_t ranges[][2] = {{0, 100}, {0, 0}, {100, 0}, {1, 99}, {7, 64}, {8, 65}, {63, 1}, {33, 40}};
	struct weir_schema *schema = schema_of_all(account);
	struct weir_batch *all = random_batch(account, schema, 100, 4711);
	struct weir_error err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct weir_batch *slice = sliced(account, all, ranges[i][0], ranges[i][1]), *back;
		struct weir_chunk_plan plan, plan_back;
		uint8_t *bytes = chunk_of(slice, &plan), *bytes_back;

		assert_ok(weir_chunk_open(account, schema, bytes, plan.size, NULL, NULL, true, &back, &err));
		assert_batches_equal(slice, back);
		/* Nothing of what lies outside the slice went along: what came back is written to the same bytes. */
		bytes_back = chunk_of(back, &plan_back);
		assert_int_equal(plan.size, plan_back.size);
		assert_memory_equal(bytes, bytes_back, plan.size);
		/* The arrays lie over the chunk itself. */
		if (ranges[i][1] > 0)
			assert_in_range((uintptr_t)back->columns[5]->buffers[1].data, (uintptr_t)bytes,
					(uintptr_t)bytes + plan.size);
		weir_batch_unref(back);
		weir_batch_unref(slice);
		free(bytes);
		free(bytes_back);
	}
	weir_batch_unref(all);
	weir_schema_unref(schema);
}

/* A stream, or a file, of two batches. */
static void put_stream(const struct weir_schema *schema, bool is_file, struct weir_text *out)
{
	struct weir_ipc_block blocks[2] = {{0}};
	struct weir_error err = {0};

	weir_text_init(out, account);
	if (is_file)
		assert_ok(weir_text_append(out, WEIR_IPC_MAGIC, 8, &err));
	assert_ok(weir_ipc_write_schema(schema, out, &err));
	for (int i = 0; i < 2; i++) {
		struct weir_batch *batch = random_batch(account, schema, 3 + i, 17 + (uint64_t)i);
		struct weir_chunk_plan plan;
		uint8_t *bytes = chunk_of(batch, &plan);

		blocks[i] = (struct weir_ipc_block){
			.offset = out->size, .metadata_size = plan.metadata_size, .body_size = plan.body_size};
		assert_ok(weir_text_append(out, bytes, plan.size, &err));
		weir_batch_unref(batch);
		free(bytes);
	}
	assert_ok(weir_text_append(out, WEIR_IPC_EOS, WEIR_IPC_EOS_SIZE, &err));
	if (is_file)
		assert_ok(weir_ipc_write_footer(schema, blocks, 2, out, &err));
}

/* Reads to the end; what is given out is validated by the reader, so printing would be safe. Returns the rows. */
static int64_t drain(const uint8_t *bytes, uint64_t size, int *code, struct weir_error *err)
{
	struct weir_ipc_reader *reader;
	struct weir_batch *batch;
	int64_t rows = 0;

	*code = weir_ipc_reader_new(account, bytes, size, NULL, &reader, err);
	while (!*code) {
		*code = weir_ipc_reader_next(reader, &batch, err);
		if (*code || !batch)
			break;
		rows += batch->row_count;
		weir_batch_unref(batch);
	}
	weir_ipc_reader_free(reader);
	return rows;
}

static struct weir_schema *schema_small(void)
{
	struct weir_error err = {0};
	struct weir_field fields[3] = {{.name = "i", .nullable = true}, {.name = "s", .nullable = true}, {.name = "n"}};
	static const char *const texts[] = {"int64", "string", "list<item: struct<a: bool, b: binary>>"};
	struct weir_schema *schema;

	for (int i = 0; i < 3; i++)
		fields[i].type = weir_type_parse(account, texts[i], &err);
	schema = weir_schema_new(account, fields, 3, NULL, &err);
	assert_non_null(schema);
	for (int i = 0; i < 3; i++)
		weir_type_unref(fields[i].type);
	return schema;
}

static void streams_and_files_are_read(void **state)
{
	struct weir_schema *schema = schema_of_all(account);
	struct weir_error err = {0};
	int code;

	(void)state;
	for (int is_file = 0; is_file < 2; is_file++) {
		struct weir_text text;

		put_stream(schema, is_file, &text);
		assert_int_equal(drain((const uint8_t *)text.data, text.size, &code, &err), 7);
		assert_ok(code);
		weir_text_release(&text);
	}
	weir_schema_unref(schema);
}

/* Each byte changed in several ways, the whole cut at each length, in memory of that very size. */
static void damage_is_an_error_or_valid_arrays(void **state)
{
	static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10};
	struct weir_schema *schema = schema_small();
	struct weir_error err = {0};
	int code, errors = 0;

	(void)state;
	for (int is_file = 0; is_file < 2; is_file++) {
		struct weir_text text;
		uint8_t *copy;

		put_stream(schema, is_file, &text);
		for (size_t cut = 0; cut < text.size; cut++) {
			copy = malloc(cut ? cut : 1);
			memcpy(copy, text.data, cut);
			drain(copy, cut, &code, &err);
			/* A stream may end between messages; a file may not. */
			assert_true(code == WEIR_E_DATA || (!is_file && !code && cut % 8 == 0));
			free(copy);
		}
		copy = malloc(text.size);
		for (size_t at = 0; at < text.size; at++) {
			for (size_t f = 0; f < sizeof(flips); f++) {
				memcpy(copy, text.data, text.size);
				copy[at] ^= flips[f];
				weir_error_clear(&err);
				drain(copy, text.size, &code, &err);
				assert_int_equal(code, err.code);
				assert_true(!code || err.message[0]);
				errors += code != WEIR_OK;
			}
		}
		assert_true(errors > 500);
		free(copy);
		weir_text_release(&text);
	}
	weir_schema_unref(schema);
}

struct counted_owner {
	struct weir_owner owner;
	int released;
};

static void count_release(struct weir_owner *owner)
{
	((struct counted_owner *)owner)->released++;
}

static void owners_live_as_long_as_arrays(void **state)
{
	struct weir_schema *schema = schema_small();
	struct weir_batch *batch = random_batch(account, schema, 50, 5), *back;
	struct counted_owner owner = {{1, count_release}, 0};
	struct weir_chunk_plan plan;
	struct weir_error err = {0};
	struct weir_array *kept;
	uint8_t *bytes = chunk_of(batch, &plan);

	(void)state;
	assert_ok(weir_chunk_open(account, schema, bytes, plan.size, &owner.owner, NULL, false, &back, &err));
	weir_owner_unref(&owner.owner);
	kept = weir_array_ref(back->columns[1]);
	weir_batch_unref(back);
	assert_int_equal(owner.released, 0);
	weir_array_unref(kept);
	assert_int_equal(owner.released, 1);
	/* A chunk that is refused keeps nothing. */
	owner = (struct counted_owner){{1, count_release}, 0};
	assert_int_equal(
		weir_chunk_open(account, schema, bytes, plan.size - 64, &owner.owner, NULL, false, &back, &err),
		WEIR_E_DATA);
	assert_null(back);
	weir_owner_unref(&owner.owner);
	assert_int_equal(owner.released, 1);
	weir_batch_unref(batch);
	weir_schema_unref(schema);
	free(bytes);
}

/* A chunk at an odd address is still read: what needs a boundary is copied. */
static void misaligned_bytes_are_copied(void **state)
{
	struct weir_schema *schema = schema_of_all(account);
	struct weir_batch *batch = random_batch(account, schema, 20, 99), *back;
	struct weir_chunk_plan plan;
	struct weir_error err = {0};
	uint8_t *bytes = chunk_of(batch, &plan), *odd = malloc(plan.size + 1);

	(void)state;
	memcpy(odd + 1, bytes, plan.size);
	assert_ok(weir_chunk_open(account, schema, odd + 1, plan.size, NULL, NULL, true, &back, &err));
	assert_batches_equal(batch, back);
	weir_batch_unref(back);
	weir_batch_unref(batch);
	weir_schema_unref(schema);
	free(bytes);
	free(odd);
}

static const struct weir_type *dictionary_type(const char *index, const char *value)
{
	struct weir_error err = {0};
	const struct weir_type *a = weir_type_parse(account, index, &err), *b = weir_type_parse(account, value, &err);
	const struct weir_type *type = weir_type_dictionary(account, a, b, false, &err);

	assert_non_null(type);
	weir_type_unref(a);
	weir_type_unref(b);
	return type;
}

static struct weir_array *texts(const char *const *list, int count)
{
	struct weir_error err = {0};
	struct weir_builder builder;
	struct weir_array *array;

	assert_ok(weir_builder_init(&builder, weir_type_of(WEIR_STRING), account, &err));
	for (int i = 0; i < count; i++)
		assert_ok(weir_builder_bytes(&builder, list[i], strlen(list[i]), &err));
	array = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	return array;
}

static void append_dictionary(struct weir_text *out, int64_t id, bool is_delta, const struct weir_array *values)
{
	struct weir_chunk_plan plan;
	struct weir_error err = {0};
	uint8_t *bytes;

	assert_ok(weir_dictionary_measure(values, &plan, &err));
	bytes = aligned_alloc(64, plan.size);
	assert_ok(weir_dictionary_write(id, is_delta, values, &plan, bytes, &err));
	assert_ok(weir_text_append(out, bytes, plan.size, &err));
	free(bytes);
}

static void append_codes(struct weir_text *out, const struct weir_schema *schema, struct weir_array *values,
			 const int8_t *codes, int count)
{
	struct weir_array *column;
	struct weir_error err = {0};
	struct weir_builder builder;
	struct weir_batch *batch;
	struct weir_chunk_plan plan;
	uint8_t *bytes;

	assert_ok(weir_builder_init(&builder, schema->fields[0].type, account, &err));
	assert_ok(weir_builder_dictionary(&builder, values, &err));
	assert_ok(weir_builder_fixed(&builder, codes, count, &err));
	column = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	batch = weir_batch_new(account, schema, count, &column, &err);
	weir_array_unref(column);
	bytes = chunk_of(batch, &plan);
	assert_ok(weir_text_append(out, bytes, plan.size, &err));
	weir_batch_unref(batch);
	free(bytes);
}

static void dictionaries_grow_and_are_replaced(void **state)
{
	static const char *const words[] = {"alpha", "beta", "gamma", "delta"};
	struct weir_field field = {.name = "d", .type = dictionary_type("int8", "string"), .nullable = true};
	struct weir_array *two = texts(words, 2), *more = texts(words + 2, 2), *four = texts(words, 4), *swapped;
	struct weir_error err = {0};
	struct weir_schema *schema = weir_schema_new(account, &field, 1, NULL, &err), *back;
	struct weir_ipc_reader *reader;
	struct weir_array *expected[3] = {two, four, NULL};
	struct weir_batch *batch;
	struct weir_text text;

	(void)state;
	swapped = expected[2] = texts((const char *const[]){"beta"}, 1);
	assert_int_equal(weir_schema_dictionary_count(schema), 1);
	weir_text_init(&text, account);
	assert_ok(weir_ipc_write_schema(schema, &text, &err));
	append_dictionary(&text, 0, false, two);
	append_codes(&text, schema, two, (const int8_t[]){0, 1, 1}, 3);
	append_dictionary(&text, 0, true, more);
	append_codes(&text, schema, four, (const int8_t[]){3, 0}, 2);
	append_dictionary(&text, 0, false, swapped);
	append_codes(&text, schema, swapped, (const int8_t[]){0}, 1);
	assert_ok(weir_text_append(&text, WEIR_IPC_EOS, WEIR_IPC_EOS_SIZE, &err));

	assert_ok(weir_ipc_reader_new(account, (const uint8_t *)text.data, text.size, NULL, &reader, &err));
	back = weir_schema_ref(weir_ipc_reader_schema(reader));
	assert_true(weir_schema_equal(schema, back, true));
	weir_schema_unref(back);
	for (int i = 0; i < 3; i++) {
		struct weir_array *values;

		assert_ok(weir_ipc_reader_next(reader, &batch, &err));
		assert_non_null(batch);
		weir_batch_dictionaries(batch, &values);
		assert_true(weir_array_equal(values, expected[i], false));
		weir_batch_unref(batch);
	}
	assert_ok(weir_ipc_reader_next(reader, &batch, &err));
	assert_null(batch);
	weir_ipc_reader_free(reader);
	weir_text_clear(&text);

	/* A code past the dictionary, one without any dictionary, and a dictionary of nobody. */
	for (int i = 0; i < 3; i++) {
		int code;

		weir_text_clear(&text);
		assert_ok(weir_ipc_write_schema(schema, &text, &err));
		if (i == 0)
			append_dictionary(&text, 0, false, two);
		if (i == 2)
			append_dictionary(&text, 9, false, two);
		append_codes(&text, schema, four, (const int8_t[]){3, 0}, 2);
		drain((const uint8_t *)text.data, text.size, &code, &err);
		assert_int_equal(code, WEIR_E_DATA);
	}
	weir_text_release(&text);
	weir_type_unref(field.type);
	weir_array_unref(two);
	weir_array_unref(more);
	weir_array_unref(four);
	weir_array_unref(swapped);
	weir_schema_unref(schema);
}

#ifdef WEIR_FAULTS
/* Each allocation in turn fails: an error, nothing lost (teardown asserts an empty account). */
static void failed_allocations_are_survived(void **state)
{
	struct weir_schema *schema = schema_small();
	struct weir_error err = {0};
	struct weir_text text;
	uint64_t nth;
	int code = WEIR_E_MEMORY;

	(void)state;
	put_stream(schema, true, &text);
	for (nth = 1; code; nth++) {
		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		drain((const uint8_t *)text.data, text.size, &code, &err);
		weir_fault_disarm();
		assert_true(code == WEIR_OK || code == WEIR_E_MEMORY);
	}
	assert_true(nth > 10);
	weir_text_release(&text);
	weir_schema_unref(schema);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slices_come_back_equal, setup, teardown),
		cmocka_unit_test_setup_teardown(streams_and_files_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_is_an_error_or_valid_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(owners_live_as_long_as_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(misaligned_bytes_are_copied, setup, teardown),
		cmocka_unit_test_setup_teardown(dictionaries_grow_and_are_replaced, setup, teardown),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(failed_allocations_are_survived, setup, teardown),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
