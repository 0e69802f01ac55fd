/* The flatbuffer reader believes nothing, and reads what the builder wrote. */
#include "arrow/flatbuffer_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct flat_layout layout = {7, {1, 2, 4, 8, 4, 4, 4}};

/* A table with a field of each width, a string, a vector of structs and a vector with one child table. */
static uint64_t put_sample(struct flat_builder *b)
{
	uint64_t table = flat_add_table(b, &layout, 127), vector, child;

	flat_set(b, table, &layout, 0, 0xa1);
	flat_set(b, table, &layout, 1, -2);
	flat_set(b, table, &layout, 2, -3);
	flat_set(b, table, &layout, 3, INT64_MIN);
	flat_link(b, table, 4, flat_add_string(b, "weir", 4));
	vector = flat_add_vector(b, 3, 16, 8);
	flat_link(b, table, 5, vector);
	assert_int_equal((vector + 4) % 8, 0);
	vector = flat_add_vector(b, 1, 4, 4);
	flat_link(b, table, 6, vector);
	child = flat_add_table(b, &layout, 1 << 3);
	flat_link_item(b, vector, 0, child);
	flat_set(b, child, &layout, 3, 77);
	return b->size;
}

static uint32_t sample(uint8_t *out, size_t capacity)
{
	struct flat_builder builder;
	uint64_t size;

	flat_begin(&builder, NULL, 0);
	size = put_sample(&builder);
	assert_true(size <= capacity);
	/* Written into memory that is not zero: every byte must be the builder's. */
	memset(out, 0xee, capacity);
	flat_begin(&builder, out, size);
	assert_int_equal(put_sample(&builder), size);
	return (uint32_t)size;
}

/* Touches all that there is; returns whether it was as written. */
static bool read_sample(const uint8_t *bytes, uint32_t size, struct flat *flat)
{
	struct flat_table root, child;
	struct flat_vector structs, tables;
	const char *text;
	uint32_t text_size;
	bool right;

	flat_open(flat, bytes, size, &root);
	right = flat_u8(&root, 0, 0) == 0xa1;
	right &= flat_i16(&root, 1, 0) == -2;
	right &= flat_i32(&root, 2, 0) == -3;
	right &= flat_i64(&root, 3, 0) == INT64_MIN;
	right &= flat_string(&root, 4, &text, &text_size) && text_size == 4 && !memcmp(text, "weir", 5);
	structs = flat_items(&root, 5, 16);
	right &= structs.count == 3;
	for (uint32_t i = 0; i < structs.count * 16; i++)
		right &= structs.items[i] == 0;
	tables = flat_tables(&root, 6);
	right &= tables.count == 1;
	for (uint32_t i = 0; i < tables.count; i++) {
		flat_item_table(&tables, i, &child);
		right &= flat_i64(&child, 3, 0) == 77;
		right &= flat_i32(&child, 2, -9) == -9;
	}
	return right && !flat->fault;
}

static void what_was_written_is_read(void **state)
{
	struct weir_error err = {0};
	struct flat flat;
	uint8_t bytes[512];
	uint32_t size = sample(bytes, sizeof(bytes));

	(void)state;
	assert_true(read_sample(bytes, size, &flat));
	assert_int_equal(flat_check(&flat, "sample", &err), WEIR_OK);
}

static void a_text_without_its_end_is_refused(void **state)
{
	uint8_t bytes[512];
	uint32_t size = sample(bytes, sizeof(bytes));
	uint8_t *text = memmem(bytes, size, "weir", 5);
	struct flat flat;

	(void)state;
	assert_non_null(text);
	text[4] = '!';
	read_sample(bytes, size, &flat);
	assert_non_null(flat.fault);
	assert_int_equal(flat.fault_at, text - bytes);
}

/* The bytes are copied to memory of their very size, so that a sanitizer sees any step past them. */
static void every_cut_and_every_flip_is_survived(void **state)
{
	uint8_t bytes[512], *copy;
	uint32_t size = sample(bytes, sizeof(bytes));
	struct weir_error err = {0};
	struct flat flat;
	int faults = 0;

	(void)state;
	for (uint32_t cut = 0; cut < size; cut++) {
		copy = malloc(cut ? cut : 1);
		memcpy(copy, bytes, cut);
		assert_false(read_sample(copy, cut, &flat));
		free(copy);
	}
	copy = malloc(size);
	for (uint32_t at = 0; at < size; at++) {
		for (int value = 0; value < 256; value++) {
			memcpy(copy, bytes, size);
			copy[at] = (uint8_t)value;
			read_sample(copy, size, &flat);
			faults += flat_check(&flat, "sample", &err) == WEIR_E_DATA;
		}
	}
	free(copy);
	assert_true(faults > 1000);
	assert_non_null(strstr(err.message, "sample"));
}

static uint32_t visit(const struct flat_table *table)
{
	struct flat_vector vector = flat_tables(table, 6);
	struct flat_table child;
	uint32_t visits = 1;

	for (uint32_t i = 0; i < vector.count; i++)
		if (flat_item_table(&vector, i, &child))
			visits += visit(&child);
	return visits;
}

/* All items of a vector are one table, whose items are again one table: 16^6 tables in a few hundred bytes. */
static void shared_tables_are_bounded(void **state)
{
	enum { ITEMS = 16, LEVELS = 6 };
	struct flat_builder builder;
	struct flat_table root;
	struct flat flat;
	uint8_t bytes[1024];
	uint64_t table;

	(void)state;
	flat_begin(&builder, bytes, sizeof(bytes));
	table = flat_add_table(&builder, &layout, 1 << 6);
	for (int level = 0; level < LEVELS; level++) {
		uint64_t vector = flat_add_vector(&builder, ITEMS, 4, 4);

		flat_link(&builder, table, 6, vector);
		table = flat_add_table(&builder, &layout, level < LEVELS - 1 ? 1 << 6 : 0);
		for (uint32_t i = 0; i < ITEMS; i++)
			flat_link_item(&builder, vector, i, table);
	}
	flat_open(&flat, bytes, (uint32_t)builder.size, &root);
	assert_true(visit(&root) <= builder.size);
	assert_non_null(flat.fault);
}

static void shared_texts_are_bounded(void **state)
{
	struct flat_builder builder;
	struct flat_table root;
	struct flat flat;
	uint8_t *bytes = malloc(1 << 17);
	uint64_t table, read_bytes = 0;
	const char *text;
	uint32_t size;

	(void)state;
	flat_begin(&builder, bytes, 1 << 17);
	table = flat_add_table(&builder, &layout, 1 << 4);
	flat_link(&builder, table, 4, flat_add_string(&builder, NULL, 100000));
	flat_open(&flat, bytes, (uint32_t)builder.size, &root);
	for (int i = 0; i < 1000 && flat_string(&root, 4, &text, &size); i++)
		read_bytes += size;
	assert_in_range(read_bytes, 100000, 20 * builder.size);
	assert_non_null(flat.fault);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(a_text_without_its_end_is_refused),
		cmocka_unit_test(every_cut_and_every_flip_is_survived),
		cmocka_unit_test(shared_tables_are_bounded),
		cmocka_unit_test(shared_texts_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
