/* Batches with dictionaries. Include cmocka first. */
#ifndef WEIR_TESTS_ARROW_CODED_BATCH_H
#define WEIR_TESTS_ARROW_CODED_BATCH_H

#include "arrow/array.h"

#include "bounded_memory.h"
#include "random_batch.h"

static inline const struct weir_type *dictionary_of(const struct weir_type *value)
{
	struct weir_error err = {0};
	const struct weir_type *type = weir_type_dictionary(account, weir_type_of(WEIR_INT8), value, false, &err);

	assert_non_null(type);
	return type;
}

static inline struct weir_array *coded(const struct weir_type *type, struct weir_array *values, const int8_t *codes,
				       int count)
{
	struct weir_error err = {0};
	struct weir_builder builder;
	struct weir_array *array;

	assert_ok(weir_builder_init(&builder, type, account, &err));
	assert_ok(weir_builder_dictionary(&builder, values, &err));
	for (int i = 0; i < count; i++)
		assert_ok(codes[i] < 0 ? weir_builder_null(&builder, 1, &err)
				       : weir_builder_fixed(&builder, &codes[i], 1, &err));
	array = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	assert_non_null(array);
	return array;
}

/* Two columns with dictionaries of their own. */
static inline struct weir_batch *coded_batch(void)
{
	static const char *const words[] = {"alpha", "beta", "gamma"};
	struct weir_field fields[2] = {{.name = "a", .nullable = true}, {.name = "b", .nullable = true}};
	struct weir_error err = {0};
	struct weir_array *columns[2];
	struct weir_schema *schema;
	struct weir_batch *batch;
	struct weir_builder builder;

	for (int i = 0; i < 2; i++) {
		struct weir_array *values;

		assert_ok(weir_builder_init(&builder, weir_type_of(WEIR_STRING), account, &err));
		for (int w = 0; w < 2 + i; w++)
			assert_ok(weir_builder_bytes(&builder, words[w + 1 - i], strlen(words[w + 1 - i]), &err));
		values = weir_builder_finish(&builder, &err);
		weir_builder_release(&builder);
		fields[i].type = dictionary_of(weir_type_of(WEIR_STRING));
		columns[i] = coded(fields[i].type, values, (const int8_t[]){1, 0, -1, (int8_t)(1 + i)}, 4);
		weir_array_unref(values);
	}
	schema = weir_schema_new(account, fields, 2, NULL, &err);
	batch = weir_batch_new(account, schema, 4, columns, &err);
	assert_non_null(batch);
	for (int i = 0; i < 2; i++) {
		weir_type_unref(fields[i].type);
		weir_array_unref(columns[i]);
	}
	weir_schema_unref(schema);
	return batch;
}

#endif
