/* What the tests of worker processes share: batches that can be made again from their number, chunks of them, and the
 * test worker: where it is and what it is told (test_worker.c). */
#ifndef WEIR_TESTS_BACKEND_SUPPORT_H
#define WEIR_TESTS_BACKEND_SUPPORT_H

#include "arrow/block.h"
#include "store/support.h"
#include "backend/test_worker.h"

struct source {
	struct weir_account *account;
	struct weir_schema *schema;
};

static inline void source_init(struct source *source, struct weir_account *account, struct weir_error *err)
{
	const struct weir_field fields[] = {{.name = "id", .type = weir_type_of(WEIR_INT64), .nullable = true},
					    {.name = "text", .type = weir_type_of(WEIR_STRING), .nullable = true},
					    {.name = "real", .type = weir_type_of(WEIR_DOUBLE), .nullable = true}};

	source->account = account;
	source->schema = weir_schema_new(account, fields, 3, NULL, err);
	assert_non_null(source->schema);
}

static inline void source_release(struct source *source)
{
	weir_schema_unref(source->schema);
}

/* The same for equal keys: nulls, strings of all lengths, and the key in every value. */
static inline struct weir_batch *batch_of(const struct source *source, uint64_t key, int64_t rows,
					  struct weir_error *err)
{
	struct weir_builder builders[3];
	struct weir_array *columns[3];
	struct random random = {key};
	struct weir_batch *batch;
	char text[64];

	for (int c = 0; c < 3; c++)
		assert_int_equal(weir_builder_init(&builders[c], source->schema->fields[c].type, source->account, err),
				 0);
	for (int64_t row = 0; row < rows; row++) {
		uint64_t value = random_next(&random);
		int64_t id = (int64_t)(key * 1000003 + (uint64_t)row);
		double real = (double)(value >> 12);
		int length = snprintf(text, sizeof(text), "%llx:%0*d", (unsigned long long)key, (int)(value % 30),
				      (int)row);

		assert_int_equal(value % 11 ? weir_builder_fixed(&builders[0], &id, 1, err)
					    : weir_builder_null(&builders[0], 1, err),
				 0);
		assert_int_equal(value % 7 ? weir_builder_bytes(&builders[1], text, (size_t)length, err)
					   : weir_builder_null(&builders[1], 1, err),
				 0);
		assert_int_equal(weir_builder_fixed(&builders[2], &real, 1, err), 0);
	}
	for (int c = 0; c < 3; c++) {
		columns[c] = weir_builder_finish(&builders[c], err);
		assert_non_null(columns[c]);
		weir_builder_release(&builders[c]);
	}
	batch = weir_batch_new(source->account, source->schema, rows, columns, err);
	assert_non_null(batch);
	for (int c = 0; c < 3; c++)
		weir_array_unref(columns[c]);
	return batch;
}

static inline struct weir_chunk *chunk_of_batch(struct weir_store *store, const struct weir_batch *batch,
						struct weir_error *err)
{
	struct weir_block_plan plan;
	struct weir_chunk *chunk;
	uint8_t *bytes;

	assert_int_equal(weir_block_measure(batch, &plan, err), 0);
	if (weir_chunk_reserve(store, plan.size, &chunk, &bytes, err)) {
		print_error("%s\n", err->message);
		fail();
	}
	assert_int_equal(weir_block_write(batch, &plan, bytes, err), 0);
	weir_chunk_seal(chunk, plan.size);
	return chunk;
}

/* The chunk holds rows first … first + count of the batch with this key, every value of them. */
static inline bool chunk_is(const struct source *source, struct weir_chunk *chunk, uint64_t key, int64_t rows,
			    int64_t first, int64_t count, struct weir_error *err)
{
	struct weir_batch *want = batch_of(source, key, rows, err), *got;
	struct weir_block_cache cache = {0};
	const uint8_t *bytes;
	bool equal;

	assert_int_equal(weir_chunk_pin(chunk, &bytes, err), 0);
	if (weir_block_open(source->account, &cache, bytes, weir_chunk_size(chunk), NULL, true, &got, err)) {
		print_error("%s\n", err->message);
		fail();
	}
	equal = got->row_count == count;
	for (uint32_t c = 0; equal && c < 3; c++) {
		struct weir_array *part = weir_array_slice(want->columns[c], first, count, err);

		equal = weir_array_equal(part, got->columns[c], false);
		weir_array_unref(part);
	}
	weir_batch_unref(got);
	weir_batch_unref(want);
	weir_block_cache_release(&cache);
	weir_chunk_unpin(chunk);
	return equal;
}

#endif
