/* The C Data Interface from C: children that are moved out, streams, and every allocation that fails once. */
#include "support.h"

#include "arrow/cdata.h"
#include "base/fault.h"

#include <errno.h>

/* list<struct<a: int64, d: dictionary>> with nulls at each level. */
static struct weir_array *sample(struct fixture *f)
{
	static const char *const words[] = {"x", "yy"};
	const struct weir_type *type = parse(
		f, "list<item: struct<a: int64, d: dictionary<values=string, indices=int8, ordered=0>>>");
	struct weir_array *values = strings(f, words, 2);
	struct weir_builder builder, *item;

	assert_int_equal(weir_builder_init(&builder, type, f->account, &f->err), 0);
	item = &builder.children[0];
	assert_int_equal(weir_builder_dictionary(&item->children[1], values, &f->err), 0);
	for (int64_t i = 0; i < 4; i++) {
		assert_int_equal(weir_builder_fixed(&item->children[0], &i, 1, &f->err), 0);
		assert_int_equal(weir_builder_fixed(&item->children[1], i % 2 ? "\1" : "\0", 1, &f->err), 0);
		assert_int_equal(weir_builder_struct_end(item, &f->err), 0);
		if (i % 2)
			assert_int_equal(weir_builder_list_end(&builder, &f->err), 0);
	}
	assert_int_equal(weir_builder_null(item, 1, &f->err), 0);
	assert_int_equal(weir_builder_list_end(&builder, &f->err), 0);
	assert_int_equal(weir_builder_null(&builder, 1, &f->err), 0);
	weir_array_unref(values);
	weir_type_unref(type);
	return finish(f, &builder);
}

static void test_there_and_back(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = sample(f), *slice = weir_array_slice(array, 1, 3, &f->err), *back;
	struct ArrowSchema schema;
	struct ArrowArray out;

	assert_int_equal(weir_cdata_export_type(f->account, slice->type, "c", &schema, &f->err), 0);
	assert_int_equal(weir_cdata_export_array(slice, &out, &f->err), 0);
	assert_string_equal(schema.format, "+l");
	assert_string_equal(schema.name, "c");
	assert_string_equal(schema.children[0]->children[1]->dictionary->format, "u");
	assert_int_equal(out.offset, 1);
	assert_int_equal(weir_cdata_import_array(f->account, &schema, &out, &back, &f->err), 0);
	assert_null(schema.release);
	assert_null(out.release);
	assert_true(weir_array_equal(slice, back, true));
	/* What was exported keeps itself alive. */
	weir_array_unref(array);
	weir_array_unref(slice);
	assert_int_equal(weir_array_validate(back, true, &f->err), 0);
	weir_array_unref(back);
}

static void test_a_child_may_be_moved_out(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = sample(f);
	struct ArrowSchema schema, child_schema;
	struct ArrowArray out, child;

	assert_int_equal(weir_cdata_export_type(f->account, array->type, "", &schema, &f->err), 0);
	assert_int_equal(weir_cdata_export_array(array, &out, &f->err), 0);
	weir_array_unref(array);
	child = *out.children[0];
	out.children[0]->release = NULL;
	child_schema = *schema.children[0];
	schema.children[0]->release = NULL;
	out.release(&out);
	schema.release(&schema);
	assert_null(out.release);
	assert_int_equal(child.length, 5);
	assert_int_equal(((const int64_t *)child.children[0]->buffers[1])[3], 3);
	assert_int_equal(weir_cdata_import_array(f->account, &child_schema, &child, &array, &f->err), 0);
	assert_int_equal(array->length, 5);
	weir_array_unref(array);
}

struct counter {
	struct weir_batch *batch;
	int left, released;
};

static int counter_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct counter *counter = state;

	*out = NULL;
	if (counter->left-- > 0)
		*out = weir_batch_ref(counter->batch);
	else if (counter->left < -1)
		return weir_error_set(err, WEIR_E_DATA, "asked again after the end");
	return WEIR_OK;
}

static void counter_release(void *state)
{
	((struct counter *)state)->released++;
}

static void test_streams(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = sample(f);
	struct weir_field field = {.name = "c", .type = array->type, .nullable = true};
	struct weir_schema *schema = weir_schema_new(f->account, &field, 1, NULL, &f->err), *back;
	struct counter counter = {.left = 2};
	struct weir_batch_source source = {counter_next, counter_release, &counter};
	struct ArrowArrayStream stream;
	struct weir_batch *batch;

	counter.batch = weir_batch_new(f->account, schema, array->length, &array, &f->err);
	assert_int_equal(weir_cdata_export_stream(f->account, schema, source, &stream, &f->err), 0);
	assert_int_equal(weir_cdata_import_stream(f->account, &stream, &back, &source, &f->err), 0);
	assert_null(stream.release);
	assert_true(weir_schema_equal(schema, back, true));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(source.next(source.state, &batch, &f->err), 0);
		assert_non_null(batch);
		assert_true(weir_array_equal(batch->columns[0], array, true));
		weir_batch_unref(batch);
	}
	/* The end stays the end; the source is not asked again. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(source.next(source.state, &batch, &f->err), 0);
		assert_null(batch);
	}
	assert_int_equal(counter.released, 0);
	source.release(source.state);
	assert_int_equal(counter.released, 1);
	weir_batch_unref(counter.batch);
	weir_schema_unref(schema);
	weir_schema_unref(back);
	weir_array_unref(array);
}

#ifdef WEIR_FAULTS
static int go_round(struct fixture *f, const struct weir_array *array)
{
	struct weir_array *back = NULL, *taken = NULL, *joined = NULL, *large = NULL;
	const struct weir_type *type = NULL;
	struct ArrowSchema schema = {0};
	struct ArrowArray out = {0};
	int64_t rows[] = {3, 0, -1, 2, 1};

	weir_error_clear(&f->err);
	if (weir_cdata_export_type(f->account, array->type, "", &schema, &f->err))
		goto out;
	if (weir_cdata_export_array(array, &out, &f->err))
		goto out;
	if (weir_cdata_import_array(f->account, &schema, &out, &back, &f->err))
		goto out;
	taken = weir_array_take(f->account, back, rows, 5, &f->err);
	if (!taken)
		goto out;
	joined = weir_array_concat(f->account, (struct weir_array *[]){taken, back}, 2, &f->err);
	if (!joined)
		goto out;
	type = weir_type_parse(f->account, "large_list<item: struct<a: double, d: large_string, e: binary>>", &f->err);
	if (type)
		large = weir_array_promote(f->account, joined, type, &f->err);
	if (large)
		assert_int_equal(weir_array_validate(large, true, &f->err), 0);
out:
	if (schema.release)
		schema.release(&schema);
	if (out.release)
		out.release(&out);
	weir_type_unref(type);
	weir_array_unref(back);
	weir_array_unref(taken);
	weir_array_unref(joined);
	weir_array_unref(large);
	return f->err.code;
}

static void test_every_allocation_may_fail(void **state)
{
	struct fixture *f = *state;
	struct weir_array *array = sample(f);
	int64_t used = f->account->used;
	uint64_t nth = 0;
	int code;

	do {
		weir_fault_arm(WEIR_FAULT_ALLOC, ++nth, ENOMEM, false);
		code = go_round(f, array);
		weir_fault_disarm();
		assert_true(code == WEIR_OK || code == WEIR_E_MEMORY);
		assert_int_equal(f->account->used, used);
	} while (code);
	assert_true(nth > 30);
	weir_array_unref(array);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_there_and_back),
		memory_test(test_a_child_may_be_moved_out),
		memory_test(test_streams),
#ifdef WEIR_FAULTS
		memory_test(test_every_allocation_may_fail),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
