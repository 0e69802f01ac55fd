/* Batches of random rows in every type, slices of them, and whether two are equal. Include cmocka first. */
#ifndef WEIR_TESTS_ARROW_RANDOM_BATCH_H
#define WEIR_TESTS_ARROW_RANDOM_BATCH_H

#include "arrow/array.h"

#include "all_types.h"

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* One row, null now and then. */
static inline void append_random(struct weir_builder *b, uint64_t *seed, bool nullable)
{
	static const char letters[] = "weir, ein Wehr: 水門";
	const struct weir_type *type = b->type;
	struct weir_error err = {0};
	uint64_t values[4];

	if (type->id == WEIR_NULL || (nullable && random_next(seed) % 4 == 0)) {
		assert_ok(weir_builder_null(b, 1, &err));
		return;
	}
	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		values[0] = random_next(seed) & 1;
		assert_ok(weir_builder_fixed(b, values, 1, &err));
		break;
	case WEIR_LAYOUT_FIXED:
		for (int i = 0; i < 4; i++)
			values[i] = i > 0 && weir_type_is_decimal(type) ? 0 : random_next(seed) & 0xff;
		assert_ok(weir_builder_fixed(b, values, 1, &err));
		break;
	case WEIR_LAYOUT_BYTES:
		assert_ok(weir_builder_bytes(b, letters, random_next(seed) % 14, &err));
		break;
	case WEIR_LAYOUT_NESTED:
		if (type->id == WEIR_STRUCT) {
			for (uint32_t i = 0; i < type->field_count; i++)
				append_random(&b->children[i], seed, type->fields[i].nullable);
			assert_ok(weir_builder_struct_end(b, &err));
			break;
		}
		values[0] = type->id == WEIR_FIXED_LIST ? (uint64_t)type->list_size : random_next(seed) % 4;
		for (uint64_t i = 0; i < values[0]; i++)
			append_random(&b->children[0], seed, type->fields[0].nullable);
		assert_ok(weir_builder_list_end(b, &err));
		break;
	default:
		break;
	}
}

enum { COLUMNS_MAX = 512 };

static inline struct weir_batch *random_batch(struct weir_account *account, const struct weir_schema *schema,
					      int64_t rows, uint64_t seed)
{
	struct weir_array *columns[COLUMNS_MAX];
	struct weir_error err = {0};
	struct weir_batch *batch;

	assert_true(schema->field_count <= COLUMNS_MAX);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		struct weir_builder builder;

		assert_ok(weir_builder_init(&builder, schema->fields[i].type, account, &err));
		for (int64_t row = 0; row < rows; row++)
			append_random(&builder, &seed, schema->fields[i].nullable);
		columns[i] = weir_builder_finish(&builder, &err);
		assert_non_null(columns[i]);
		weir_builder_release(&builder);
	}
	batch = weir_batch_new(account, schema, rows, columns, &err);
	assert_non_null(batch);
	for (uint32_t i = 0; i < schema->field_count; i++)
		weir_array_unref(columns[i]);
	return batch;
}

static inline struct weir_batch *sliced(struct weir_account *account, const struct weir_batch *batch, int64_t offset,
					int64_t length)
{
	struct weir_array *columns[COLUMNS_MAX];
	struct weir_error err = {0};
	struct weir_batch *slice;

	for (uint32_t i = 0; i < batch->column_count; i++) {
		columns[i] = weir_array_slice(batch->columns[i], offset, length, &err);
		assert_non_null(columns[i]);
	}
	slice = weir_batch_new(account, batch->schema, length, columns, &err);
	assert_non_null(slice);
	for (uint32_t i = 0; i < batch->column_count; i++)
		weir_array_unref(columns[i]);
	return slice;
}

static inline void assert_batches_equal(const struct weir_batch *a, const struct weir_batch *b)
{
	assert_int_equal(a->row_count, b->row_count);
	for (uint32_t i = 0; i < a->column_count; i++)
		if (!weir_array_equal(a->columns[i], b->columns[i], true))
			fail_msg("column %s of type %u differs", a->schema->fields[i].name, a->columns[i]->type->id);
}

#endif
