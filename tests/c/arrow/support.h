/* What the tests of src/arrow/ share: a session's memory that must be empty at the end, and short ways to make arrays. */
#ifndef WEIR_TESTS_ARROW_SUPPORT_H
#define WEIR_TESTS_ARROW_SUPPORT_H

#include "arrow/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct weir_mem *mem;
	struct weir_account *account;
	struct weir_error err;
};

static inline int fixture_begin(void **state)
{
	static struct fixture fixture;

	memset(&fixture, 0, sizeof(fixture));
	if (weir_mem_new(0, &fixture.mem, &fixture.err))
		return -1;
	fixture.account = weir_mem_root(fixture.mem);
	*state = &fixture;
	return 0;
}

static inline int fixture_end(void **state)
{
	struct fixture *fixture = *state;
	struct weir_mem_stats stats;

	weir_mem_stats(fixture->mem, &stats);
	if (stats.used) {
		/* Not freed: weir_mem_free would abort before the reason is shown. */
		print_error("%lld bytes are still in use\n", (long long)stats.used);
		return -1;
	}
	weir_mem_free(fixture->mem);
	return 0;
}

#define arrow_test(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)

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
