/* What the tests of src/arrow/ share: a session's memory that must be empty at the end, and short ways to make
 * arrays. */
#ifndef WEIR_TESTS_ARROW_SUPPORT_H
#define WEIR_TESTS_ARROW_SUPPORT_H

#include "arrow/array.h"

#include "memory_fixture.h"

#include <stdio.h>

static inline struct weir_array *finish(struct fixture *f, struct weir_builder *builder)
{
	struct weir_array *array = weir_builder_finish(builder, &f->err);

	weir_builder_release(builder);
	assert_non_null(array);
	return array;
}

/* INT64_MIN stands for null. */
static inline struct weir_array *int64s(struct fixture *f, const int64_t *values, int64_t count)
{
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, weir_type_of(WEIR_INT64), f->account, &f->err), 0);
	for (int64_t i = 0; i < count; i++)
		assert_int_equal(values[i] == INT64_MIN ? weir_builder_null(&builder, 1, &f->err)
							: weir_builder_fixed(&builder, &values[i], 1, &f->err),
				 0);
	return finish(f, &builder);
}

static inline struct weir_array *strings(struct fixture *f, const char *const *values, int64_t count)
{
	struct weir_builder builder;

	assert_int_equal(weir_builder_init(&builder, weir_type_of(WEIR_STRING), f->account, &f->err), 0);
	for (int64_t i = 0; i < count; i++)
		assert_int_equal(values[i] ? weir_builder_bytes(&builder, values[i], strlen(values[i]), &f->err)
					   : weir_builder_null(&builder, 1, &f->err),
				 0);
	return finish(f, &builder);
}

static inline const struct weir_type *parse(struct fixture *f, const char *text)
{
	const struct weir_type *type = weir_type_parse(f->account, text, &f->err);

	if (!type)
		print_message("%s\n", f->err.message);
	assert_non_null(type);
	return type;
}

#endif
