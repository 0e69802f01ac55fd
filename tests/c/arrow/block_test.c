/* What blocks promise: a batch comes back equal from its own bytes alone, with its dictionaries; equal schemas are one
 * object; damaged bytes give an error or valid arrays. */
#include "base/checked.h"
#include "base/fault.h"
#include "arrow/block.h"
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

#include "coded_batch.h"
#include "random_batch.h"

/* Into memory that is not zero: every byte must be the writer's. */
static uint8_t *block_of(const struct weir_batch *batch, uint64_t *size)
{
	static uint8_t fill;
	struct weir_block_plan plan;
	struct weir_error err = {0};
	uint8_t *bytes;

	assert_ok(weir_block_measure(batch, &plan, &err));
	assert_int_equal(plan.size % 64, 0);
	bytes = aligned_alloc(64, plan.size);
	memset(bytes, fill += 0x77, plan.size);
	assert_ok(weir_block_write(batch, &plan, bytes, &err));
	*size = plan.size;
	return bytes;
}

static void batches_come_back_from_their_bytes(void **state)
{
	static const int64_t ranges[][2] = {{0, 100}, {0, 0}, {7, 64}, {33, 40}};
	struct weir_schema *schema = schema_of_all(account);
	struct weir_batch *all = random_batch(account, schema, 100, 4711), *back;
	struct weir_block_cache cache = {0};
	struct weir_schema *first = NULL;
	struct weir_error err = {0};
	uint64_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct weir_batch *slice = sliced(account, all, ranges[i][0], ranges[i][1]);
		uint8_t *bytes = block_of(slice, &size);

		assert_ok(weir_block_open(account, &cache, bytes, size, NULL, true, &back, &err));
		assert_true(weir_schema_equal(schema, back->schema, true));
		assert_batches_equal(slice, back);
		/* One object for equal schemas. */
		assert_true(i == 0 || back->schema == first);
		first = back->schema;
		weir_batch_unref(back);
		weir_batch_unref(slice);
		free(bytes);
	}
	/* Another schema takes its place. */
	weir_batch_unref(all);
	all = coded_batch();
	{
		uint8_t *bytes = block_of(all, &size);

		assert_ok(weir_block_open(account, &cache, bytes, size, NULL, false, &back, &err));
		assert_batches_equal(all, back);
		weir_batch_unref(back);
		free(bytes);
	}
	weir_batch_unref(all);
	weir_block_cache_release(&cache);
	weir_block_cache_release(&cache);
	weir_schema_unref(schema);
}

/* Any Arrow reader takes a block as a stream. */
static void blocks_are_streams(void **state)
{
	struct weir_batch *batch = coded_batch(), *back;
	struct weir_error err = {0};
	struct weir_ipc_reader *reader;
	uint64_t size;
	uint8_t *bytes = block_of(batch, &size);

	(void)state;
	assert_ok(weir_ipc_reader_new(account, bytes, size, NULL, &reader, &err));
	assert_ok(weir_ipc_reader_next(reader, &back, &err));
	assert_batches_equal(batch, back);
	weir_batch_unref(back);
	assert_ok(weir_ipc_reader_next(reader, &back, &err));
	assert_null(back);
	weir_ipc_reader_free(reader);
	weir_batch_unref(batch);
	free(bytes);
}

/* Each byte changed in several ways, the whole cut at each length, in memory of that very size. */
static void damage_is_an_error_or_valid_arrays(void **state)
{
	static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10};
	struct weir_batch *batch = coded_batch(), *back;
	struct weir_error err = {0};
	int errors = 0;
	uint64_t size;
	uint8_t *bytes = block_of(batch, &size), *copy;

	(void)state;
	for (uint64_t cut = 0; cut < size; cut++) {
		struct weir_block_cache cache = {0};

		copy = malloc(cut ? cut : 1);
		memcpy(copy, bytes, cut);
		assert_int_equal(weir_block_open(account, &cache, copy, cut, NULL, true, &back, &err), WEIR_E_DATA);
		assert_null(back);
		weir_block_cache_release(&cache);
		free(copy);
	}
	copy = aligned_alloc(64, size);
	for (uint64_t at = 0; at < size; at++) {
		for (size_t f = 0; f < sizeof(flips); f++) {
			struct weir_block_cache cache = {0};

			memcpy(copy, bytes, size);
			copy[at] ^= flips[f];
			weir_error_clear(&err);
			if (weir_block_open(account, &cache, copy, size, NULL, true, &back, &err)) {
				assert_true(err.message[0]);
				errors++;
			} else {
				weir_batch_unref(back);
			}
			weir_block_cache_release(&cache);
		}
	}
	assert_true(errors > 300);
	free(copy);
	free(bytes);
	weir_batch_unref(batch);
}

/* Values that were put into a frame before it was a block, all that it has room for or fewer. */
static void frames_become_blocks(void **state)
{
	const struct weir_field item = {.name = "item", .type = weir_type_of(WEIR_FLOAT)};
	struct weir_error err = {0};
	const struct weir_type *list = weir_type_list(account, WEIR_FIXED_LIST, &item, 3, false, &err);
	struct weir_field fields[] = {{.name = "i", .type = weir_type_of(WEIR_INT64)},
				      {.name = "v", .type = list},
				      {.name = "b", .type = weir_type_of(WEIR_INT8)}};
	struct weir_schema *schema = weir_schema_new(account, fields, 3, NULL, &err);
	static const int64_t room[] = {1, 7, 100, 1000};

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		for (int64_t rows = 1; rows <= room[k]; rows += 1 + rows / 3) {
			struct weir_block_plan frame, plan;
			struct weir_block_cache cache = {0};
			struct weir_array *columns[3];
			struct weir_batch *batch, *back;
			uint64_t places[3];
			uint8_t *bytes;

			assert_ok(weir_block_frame(account, schema, room[k], &frame, places, &err));
			bytes = aligned_alloc(64, frame.size);
			memset(bytes, 0xee, frame.size);
			for (int i = 0; i < 3; i++) {
				struct weir_array *values = columns[i] = weir_array_new(account, fields[i].type, &err);
				uint64_t width = i == 0 ? 8 : i == 1 ? 12 : 1;

				assert_true(places[i] % 64 == 0 && places[i] + (uint64_t)room[k] * width <= frame.size);
				values->length = rows;
				if (i == 1) {
					values = values->children[0] = weir_array_new(account, item.type, &err);
					values->length = rows * 3;
				}
				for (uint64_t at = 0; at < (uint64_t)rows * width; at++)
					bytes[places[i] + at] = (uint8_t)(at * 31 + (uint64_t)i);
				values->buffers[1] = (struct weir_buffer){.data = bytes + places[i],
									  .size = (uint64_t)rows * width};
			}
			batch = weir_batch_new(account, schema, rows, columns, &err);
			assert_ok(weir_block_measure(batch, &plan, &err));
			assert_true(plan.size <= frame.size && (rows < room[k] || plan.size == frame.size));
			assert_ok(weir_block_write(batch, &plan, bytes, &err));
			assert_ok(weir_block_open(account, &cache, bytes, plan.size, NULL, true, &back, &err));
			assert_int_equal(back->row_count, rows);
			for (int i = 0; i < 3; i++) {
				const struct weir_array *values = i == 1 ? back->columns[1]->children[0]
									 : back->columns[i];

				for (uint64_t at = 0; at < (uint64_t)rows * (i == 0 ? 8 : i == 1 ? 12 : 1); at++)
					assert_int_equal(values->buffers[1].data[at], (uint8_t)(at * 31 + (uint64_t)i));
				weir_array_unref(columns[i]);
			}
			weir_batch_unref(back);
			weir_batch_unref(batch);
			weir_block_cache_release(&cache);
			free(bytes);
		}
	}
	weir_schema_unref(schema);
	weir_type_unref(list);
}

#ifdef WEIR_FAULTS
static void failed_allocations_are_survived(void **state)
{
	struct weir_batch *batch = coded_batch(), *back = NULL;
	struct weir_error err = {0};
	uint64_t size, nth;
	uint8_t *bytes = block_of(batch, &size);
	int code = WEIR_E_MEMORY;

	(void)state;
	for (nth = 1; code; nth++) {
		struct weir_block_cache cache = {0};

		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		code = weir_block_open(account, &cache, bytes, size, NULL, true, &back, &err);
		weir_fault_disarm();
		assert_true(code == WEIR_OK || code == WEIR_E_MEMORY);
		weir_block_cache_release(&cache);
	}
	assert_true(nth > 10);
	weir_batch_unref(back);
	weir_batch_unref(batch);
	free(bytes);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_come_back_from_their_bytes), cmocka_unit_test(blocks_are_streams),
		cmocka_unit_test(damage_is_an_error_or_valid_arrays), cmocka_unit_test(frames_become_blocks),
#ifdef WEIR_FAULTS
		cmocka_unit_test(failed_allocations_are_survived),
#endif
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
