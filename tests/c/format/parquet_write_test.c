/* The writer as its callers see it: what it promises about memory, refused writes and failed allocations. What the
 * files hold is compared with other libraries in tests/python/test_parquet_write.py. */
#include "base/fault.h"
#include "format/parquet/write_impl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct weir_mem *mem;
static struct weir_account *root;

struct sink {
	uint64_t bytes, writes, fail_at; /* fail_at 0: never */
	uint8_t first[4], last[4];
};

static int sink_write(void *state, const void *bytes, uint64_t size, struct weir_error *err)
{
	struct sink *sink = state;

	if (++sink->writes == sink->fail_at)
		return weir_error_set_errno(err, ENOSPC, "cannot write");
	if (sink->bytes == 0 && size >= 4)
		memcpy(sink->first, bytes, 4);
	if (size >= 4)
		memcpy(sink->last, (const uint8_t *)bytes + size - 4, 4);
	sink->bytes += size;
	return WEIR_OK;
}

/* int64, double, string and list<int64> columns whose values follow from the row. */
struct table {
	struct weir_schema *schema;
	int64_t numbers[WEIR_VECTOR_ROWS];
	double doubles[WEIR_VECTOR_ROWS];
	struct weir_view texts[WEIR_VECTOR_ROWS];
	char bytes[WEIR_VECTOR_ROWS][24];
	uint64_t valid[WEIR_VECTOR_ROWS / 64];
	struct weir_array *lists;
	struct weir_column columns[4];
};

static void table_init(struct table *table)
{
	struct weir_error err = {0};
	struct weir_field item = {.name = "item", .type = weir_type_of(WEIR_INT64), .nullable = true};
	const struct weir_type *list = weir_type_list(root, WEIR_LIST_TYPE, &item, 0, false, &err);
	struct weir_field fields[] = {
		{.name = "number", .type = weir_type_of(WEIR_INT64), .nullable = true},
		{.name = "double", .type = weir_type_of(WEIR_DOUBLE), .nullable = false},
		{.name = "text", .type = weir_type_of(WEIR_STRING), .nullable = true},
		{.name = "list", .type = list, .nullable = true},
	};
	struct weir_builder builder;

	memset(table, 0, sizeof(*table));
	table->schema = weir_schema_new(root, fields, 4, NULL, &err);
	assert_int_equal(weir_builder_init(&builder, list, root, &err), WEIR_OK);
	for (int64_t row = 0; row < WEIR_VECTOR_ROWS; row++) {
		for (int64_t i = 0; i < row % 4; i++)
			assert_int_equal(weir_builder_fixed(&builder.children[0], &row, 1, &err), WEIR_OK);
		assert_int_equal(weir_builder_list_end(&builder, &err), WEIR_OK);
	}
	table->lists = weir_builder_finish(&builder, &err);
	weir_builder_release(&builder);
	for (uint32_t i = 0; i < 4; i++)
		table->columns[i] = (struct weir_column){.type = table->schema->fields[i].type};
	table->columns[0].values = table->numbers;
	table->columns[0].validity = table->valid;
	table->columns[1].values = table->doubles;
	table->columns[2].values = table->texts;
	table->columns[2].validity = table->valid;
	table->columns[3].nested = table->lists;
	weir_type_unref(list);
}

static void table_release(struct table *table)
{
	weir_schema_unref(table->schema);
	weir_array_unref(table->lists);
}

static struct weir_vector table_vector(struct table *table, uint64_t from)
{
	for (uint64_t i = 0; i < WEIR_VECTOR_ROWS; i++) {
		uint64_t row = (from + i) * 0x9e3779b97f4a7c15u;
		int size = snprintf(table->bytes[i], sizeof(table->bytes[i]), "text of %llx",
				    (unsigned long long)(row >> 12));

		table->numbers[i] = (int64_t)row;
		table->doubles[i] = (double)row / 3;
		table->texts[i] = weir_view_make(table->bytes[i], (uint32_t)size);
		if (i % 64 == 0)
			table->valid[i / 64] = row | 1;
	}
	return (struct weir_vector){
		.row_count = WEIR_VECTOR_ROWS,
		.selection = {.count = WEIR_VECTOR_ROWS},
		.column_count = 4,
		.columns = table->columns,
	};
}

/* A whole file of one part; the first failure ends it, and everything is given back. */
static int write_file(struct weir_account *account, struct table *table, const struct weir_writer_options *options,
		      uint32_t vectors, struct sink *to, size_t *groups, struct weir_error *err)
{
	const struct weir_writer_ops *ops = &weir_parquet_writer;
	struct weir_byte_sink sink = {.write = sink_write, .state = to};
	struct weir_format_writer *writer = NULL;
	struct weir_part *part = NULL;
	uint64_t offset = 4;
	int code = ops->writer_new(account, table->schema, options, &writer, err);

	if (!code)
		code = ops->header(account, table->schema, options, sink, err);
	if (!code)
		code = ops->part_begin(writer, sink, err);
	for (uint32_t i = 0; i < vectors && !code; i++) {
		struct weir_vector vector = table_vector(table, (uint64_t)i * WEIR_VECTOR_ROWS);

		code = ops->push(writer, &vector, err);
	}
	if (!code)
		code = ops->part_end(writer, account, &part, err);
	if (!code) {
		assert_int_equal(part->bytes, to->bytes - 4);
		assert_int_equal(part->rows, (uint64_t)vectors * WEIR_VECTOR_ROWS);
		*groups = ((struct parquet_part *)part)->groups.count;
		code = ops->footer(account, table->schema, options, &part, &offset, 1, sink, err);
	}
	ops->part_free(account, part);
	ops->writer_free(writer);
	return code;
}

static int refuse_more(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	(void)account;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than granted", (long long)more);
}

static void test_a_grant_closes_row_groups_early(void **state)
{
	static const int64_t grants[] = {6 << 20, 16 << 20, 64 << 20, INT64_MAX};
	struct weir_writer_options options = WEIR_WRITER_OPTIONS_DEFAULT;
	size_t groups_before = SIZE_MAX;
	struct table *table = malloc(sizeof(*table));

	(void)state;
	table_init(table);
	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		struct weir_error err = {0};
		struct weir_account account = {0};
		struct sink sink = {0};
		size_t groups = 0;

		weir_account_init(&account, root, "lane");
		atomic_store(&account.grant, grants[i]);
		account.ask = refuse_more;
		assert_int_equal(write_file(&account, table, &options, 200, &sink, &groups, &err), WEIR_OK);
		print_message("grant %lld: peak %lld, %zu row groups\n", (long long)grants[i],
			      (long long)atomic_load(&account.peak), groups);
		assert_memory_equal(sink.first, "PAR1", 4);
		assert_memory_equal(sink.last, "PAR1", 4);
		assert_true(atomic_load(&account.peak) <= grants[i]);
		assert_true(groups <= groups_before && (i > 0 || groups > 4));
		groups_before = groups;
		weir_account_release(&account);
	}
	assert_int_equal(groups_before, 1);
	table_release(table);
	free(table);
}

static void test_every_refused_write_is_reported(void **state)
{
	struct weir_writer_options options = WEIR_WRITER_OPTIONS_DEFAULT;
	struct table *table = malloc(sizeof(*table));
	uint64_t nth = 1;

	(void)state;
	options.row_group_rows = 8192;
	table_init(table);
	for (;; nth++) {
		struct weir_error err = {0};
		struct sink sink = {.fail_at = nth};
		size_t groups;
		int code = write_file(root, table, &options, 10, &sink, &groups, &err);

		if (sink.writes < nth) {
			assert_int_equal(code, WEIR_OK);
			break;
		}
		assert_int_equal(code, WEIR_E_NO_SPACE);
		assert_int_equal(sink.writes, nth); /* nothing is written after the failure */
	}
	assert_true(nth > 5);
	table_release(table);
	free(table);
}

#ifdef WEIR_FAULTS
static void test_every_failed_allocation_is_reported(void **state)
{
	struct weir_writer_options options = WEIR_WRITER_OPTIONS_DEFAULT;
	struct table *table = malloc(sizeof(*table));
	uint64_t nth = 1;

	(void)state;
	options.row_group_rows = 8192;
	table_init(table);
	for (;; nth += 1 + nth / 100) {
		struct weir_error err = {0};
		struct weir_account account = {0};
		struct sink sink = {0};
		size_t groups;
		int code;

		weir_account_init(&account, root, "lane");
		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		code = write_file(&account, table, &options, 5, &sink, &groups, &err);
		if (weir_fault_count(WEIR_FAULT_ALLOC) < nth) {
			weir_fault_disarm();
			assert_int_equal(code, WEIR_OK);
			weir_account_release(&account);
			break;
		}
		weir_fault_disarm();
		assert_int_equal(code, WEIR_E_MEMORY);
		weir_account_release(&account); /* asserts that nothing is left */
	}
	assert_true(nth > 20);
	table_release(table);
	free(table);
}
#endif

/* A part that was given up leaves nothing in the next one. */
static void test_a_part_given_up(void **state)
{
	const struct weir_writer_ops *ops = &weir_parquet_writer;
	struct weir_writer_options options = WEIR_WRITER_OPTIONS_DEFAULT;
	struct weir_error err = {0};
	struct sink given_up = {0}, twice = {0}, once = {0};
	struct weir_format_writer *writer;
	struct weir_part *part;
	struct table *table = malloc(sizeof(*table));

	(void)state;
	table_init(table);
	for (int round = 0; round < 2; round++) {
		struct sink *to = round ? &twice : &once;
		struct weir_vector vector;

		assert_int_equal(ops->writer_new(root, table->schema, &options, &writer, &err), WEIR_OK);
		if (round) {
			assert_int_equal(ops->part_begin(writer, (struct weir_byte_sink){sink_write, &given_up}, &err),
					 0);
			vector = table_vector(table, 77777);
			assert_int_equal(ops->push(writer, &vector, &err), WEIR_OK);
		}
		assert_int_equal(ops->part_begin(writer, (struct weir_byte_sink){sink_write, to}, &err), WEIR_OK);
		vector = table_vector(table, 0);
		assert_int_equal(ops->push(writer, &vector, &err), WEIR_OK);
		assert_int_equal(ops->part_end(writer, root, &part, &err), WEIR_OK);
		assert_int_equal(part->rows, WEIR_VECTOR_ROWS);
		ops->part_free(root, part);
		ops->writer_free(writer);
	}
	assert_int_equal(once.bytes, twice.bytes);
	table_release(table);
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_grant_closes_row_groups_early),
		cmocka_unit_test(test_every_refused_write_is_reported),
		cmocka_unit_test(test_a_part_given_up),
#ifdef WEIR_FAULTS
		cmocka_unit_test(test_every_failed_allocation_is_reported),
#endif
	};
	struct weir_error err = {0};
	int failed;

	if (weir_mem_new(0, &mem, &err))
		return 1;
	root = weir_mem_root(mem);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!failed)
		weir_mem_free(mem);
	return failed;
}
