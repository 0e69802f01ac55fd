/* Rows, the table over them, and partitions: every type comes back as it went in, from memory and from disk; equal keys
 * meet; a split that is given up leaves nothing. */
#include "memory_fixture.h"

#include "arrow/random_batch.h"
#include "base/hash.h"
#include "ops/exchange/parts.h"
#include "ops/exchange/table.h"

#include <stdio.h>

enum { ROWS = 3000 };

struct rows_fixture {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_batch *batch;
	struct weir_row_layout layout;
	struct weir_row_input input;
	struct weir_arena arena;
	struct weir_vector vector;
	uint32_t numbers[TYPE_COUNT];
};

/* Columns first … first + count as cells, the first `keys` of them the key. */
static void begin(struct rows_fixture *r, struct weir_account *account, uint32_t first, uint32_t count, uint32_t keys,
		  int64_t rows)
{
	const struct weir_type *types[TYPE_COUNT];
	struct weir_error err = {0};

	*r = (struct rows_fixture){.account = account, .schema = schema_of_all(account)};
	r->batch = random_batch(account, r->schema, rows, 7);
	weir_arena_init(&r->arena, account);
	for (uint32_t i = 0; i < count; i++) {
		r->numbers[i] = first + i;
		types[i] = r->schema->fields[first + i].type;
	}
	assert_ok(weir_row_layout_init(&r->layout, account, types, count, keys, 3, 24, &err));
	assert_ok(weir_row_input_init(&r->input, account, &r->layout, &err));
	assert_ok(weir_vector_from_batch(r->batch, 0, (uint32_t)rows, &r->arena, &r->vector, &err));
}

static void end(struct rows_fixture *r)
{
	weir_row_input_release(&r->input);
	weir_row_layout_release(&r->layout);
	weir_arena_release(&r->arena);
	weir_batch_unref(r->batch);
	weir_schema_unref(r->schema);
}

/* The cells of the rows, as a batch. */
static struct weir_batch *taken(struct rows_fixture *r, const uint8_t *const *rows, uint32_t count)
{
	struct weir_column columns[TYPE_COUNT];
	struct weir_array *nested[TYPE_COUNT];
	struct weir_vector vector = {.row_count = count, .selection = {.count = count}, .columns = columns};
	struct weir_field fields[TYPE_COUNT];
	struct weir_schema *schema;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};

	vector.column_count = r->layout.cell_count;
	for (uint32_t c = 0; c < r->layout.cell_count; c++) {
		fields[c] = r->schema->fields[r->numbers[c]];
		assert_ok(weir_rows_take(&r->layout, c, fields[c].type, rows, count, r->account, &r->arena, &columns[c],
					 &nested[c], &err));
	}
	schema = weir_schema_new(r->account, fields, r->layout.cell_count, &(struct weir_metadata){0}, &err);
	assert_non_null(schema);
	assert_ok(weir_vector_to_batch(&vector, schema, r->account, &batch, &err));
	for (uint32_t c = 0; c < r->layout.cell_count; c++)
		weir_array_unref(nested[c]);
	weir_schema_unref(schema);
	return batch;
}

static void test_hashes(void **state)
{
	struct fixture *f = *state;
	struct weir_error err = {0};
	int64_t numbers[3] = {0, -1, 42};
	struct weir_view texts[3] = {weir_view_make("", 0), weir_view_make("weir", 4),
				     weir_view_make("a weir across a river", 21)};
	uint64_t valid = 5;
	struct weir_column columns[2] = {{.type = weir_type_of(WEIR_INT64), .values = numbers, .validity = &valid},
					 {.type = weir_type_of(WEIR_STRING), .values = texts}};
	struct weir_vector vector = {.row_count = 3, .selection = {.count = 3}, .column_count = 2, .columns = columns};
	const struct weir_type *types[2] = {columns[0].type, columns[1].type};
	static const uint64_t vectors[3] = {0x3d9b3d83560857c3u, 0xb56ec890b848d9a5u, 0x0011181ad15f8a0eu};
	uint32_t places[2] = {0, 1};
	struct weir_row_layout layout;
	struct weir_row_input input;

	assert_ok(weir_row_layout_init(&layout, f->account, types, 2, 2, 0, 0, &err));
	assert_ok(weir_row_input_init(&input, f->account, &layout, &err));
	assert_ok(weir_row_input_take(&input, &vector, places, true, &err));
	/* By the definition, and as they have always been. */
	assert_int_equal(input.hashes[0],
			 weir_hash_u64(weir_hash_u64(0x9e3779b97f4a7c15u ^ 0) ^ weir_hash_bytes("", 0, 0)));
	for (int i = 0; i < 3; i++)
		assert_int_equal(input.hashes[i], vectors[i]);
	weir_row_input_release(&input);
	weir_row_layout_release(&layout);
}

/* All types are cells; those that can be are keys. */
static void test_round_trip(void **state)
{
	struct fixture *f = *state;

	for (uint32_t first = 0; first < TYPE_COUNT; first += 6) {
		uint32_t count = TYPE_COUNT - first < 6 ? TYPE_COUNT - first : 6, made, which[ROWS];
		struct rows_fixture r;
		struct weir_row_heap heap;
		struct weir_error err = {0};
		uint8_t *rows[ROWS], *tails[ROWS];
		struct weir_batch *out;

		begin(&r, f->account, first, count, 0, ROWS);
		weir_row_heap_init(&heap, f->account, &r.layout);
		assert_ok(weir_row_input_take(&r.input, &r.vector, r.numbers, true, &err));
		for (made = 0; made < ROWS; made++) {
			which[made] = made;
			assert_ok(heap.maker.make(&heap.maker, 0, r.input.bytes ? r.input.bytes[made] : 0, &rows[made],
						  &tails[made], &err));
			memset(rows[made], 0xcc, r.layout.row_bytes);
		}
		weir_rows_fill(&r.input, which, made, rows, tails);
		out = taken(&r, (const uint8_t *const *)rows, ROWS);
		for (uint32_t c = 0; c < count; c++)
			if (!weir_array_equal(out->columns[c], r.batch->columns[first + c], true))
				fail_msg("%s", type_texts[first + c]);
		for (uint32_t i = 0; i < r.layout.payload_bytes; i++)
			assert_int_equal(rows[17][r.layout.payload_offset + i], 0);
		weir_batch_unref(out);
		weir_row_heap_release(&heap);
		end(&r);
	}
}

/* Each type as a key: as many rows as the values differ, and each finds its own. */
static void test_table(void **state)
{
	struct fixture *f = *state;

	for (uint32_t column = 0; column < TYPE_COUNT; column++) {
		struct rows_fixture r;
		struct weir_row_heap heap;
		struct weir_table table;
		struct weir_error err = {0};
		uint8_t *rows[ROWS], *found[ROWS], *again[ROWS];
		uint32_t made, more;
		struct weir_batch *out;

		begin(&r, f->account, column, 1, 1, ROWS);
		if (!weir_row_type_is_key(r.schema->fields[column].type)) {
			end(&r);
			continue;
		}
		weir_row_heap_init(&heap, f->account, &r.layout);
		assert_ok(weir_table_init(&table, f->account, &r.layout, &err));
		assert_ok(weir_row_input_take(&r.input, &r.vector, r.numbers, true, &err));
		weir_table_find(&table, &r.input, found);
		for (uint32_t i = 0; i < ROWS; i++)
			assert_null(found[i]);
		assert_ok(weir_table_find_or_make(&table, &r.input, &heap.maker, rows, &made, &err));
		assert_int_equal(made, heap.row_count);
		/* Each row found has the value, and no two rows have the same. */
		out = taken(&r, (const uint8_t *const *)rows, ROWS);
		if (!weir_array_equal(out->columns[0], r.batch->columns[column], true))
			fail_msg("%s", type_texts[column]);
		weir_batch_unref(out);
		for (uint32_t i = 0; i < ROWS; i += 13)
			for (uint32_t j = 0; j < ROWS; j++)
				assert_int_equal(rows[i] == rows[j], weir_row_keys_equal(&r.layout, rows[i], rows[j]));
		assert_ok(weir_row_input_take(&r.input, &r.vector, r.numbers, true, &err));
		weir_table_find(&table, &r.input, found);
		assert_memory_equal(found, rows, sizeof(rows));
		assert_ok(weir_table_find_or_make(&table, &r.input, &heap.maker, again, &more, &err));
		assert_int_equal(more, 0);
		assert_memory_equal(again, rows, sizeof(rows));
		weir_table_clear(&table);
		assert_ok(weir_table_add_rows(&table, rows, ROWS, found, &err));
		assert_memory_equal(found, rows, sizeof(rows));
		assert_int_equal(table.count, made);
		weir_table_release(&table);
		weir_row_heap_release(&heap);
		end(&r);
	}
}

static uint64_t rows_of_all(struct weir_parts *parts)
{
	uint64_t rows = 0;

	for (uint32_t p = 0; p < weir_parts_count(parts); p++)
		rows += weir_parts_rows(parts, p);
	return rows;
}

/* Rows through partitions in little memory; splits that are given up leave nothing. Strings, a struct, a list and
 * numbers. */
static void test_parts(void **state)
{
	struct fixture *f = *state;
	struct weir_store *store = NULL;
	struct weir_parts parts;
	struct weir_parts_lane *lanes[2];
	struct rows_fixture r;
	struct weir_error err = {0};
	uint8_t *rows[ROWS];
	uint64_t expected = 0, sum = 0, sum_found = 0, seen = 0;

	begin(&r, f->account, 27, 7, 2, ROWS);
	assert_ok(weir_store_new(f->account, &(struct weir_store_options){0}, &store, &err));
	weir_parts_init(&parts, f->account, store, &r.layout, 600 << 10, 2);
	for (int l = 0; l < 2; l++)
		assert_ok(weir_parts_lane_new(&parts, &lanes[l], &err));
	for (uint32_t split = 0; split < 20; split++) {
		struct weir_parts_lane *lane = lanes[split % 2];
		bool given_up = split % 3 == 1;

		weir_parts_lane_mark(lane);
		for (uint32_t v = 0; v <= split % 4; v++) {
			assert_ok(weir_row_input_take(&r.input, &r.vector, r.numbers, true, &err));
			assert_ok(weir_parts_lane_put(lane, &r.input, rows, &err));
			for (uint32_t i = 0; i < ROWS; i++) {
				uint64_t payload = split * 10000 + i;

				memcpy(rows[i] + r.layout.payload_offset, &payload, 8);
				sum += given_up ? 0 : payload;
				expected += !given_up;
			}
		}
		if (given_up)
			weir_parts_lane_cut(lane);
	}
	assert_ok(weir_parts_finish(&parts, &err));
	assert_true(atomic_load(&parts.spilled) > 0);
	assert_int_equal(rows_of_all(&parts), expected);
	for (uint32_t p = 0; p < weir_parts_count(&parts); p++) {
		struct weir_part_reader reader = {0};
		const uint8_t *page;
		uint32_t count;

		weir_part_reader_open(&reader, &parts, p, f->account);
		while (!weir_part_reader_next(&reader, &page, &count, &err) && count) {
			const uint8_t *found[4096];
			struct weir_batch *out;
			int64_t places[4096];

			assert_true(count < 4096);
			for (uint32_t i = 0; i < count; i++) {
				uint64_t payload;

				found[i] = page + (size_t)i * r.layout.row_bytes;
				memcpy(&payload, found[i] + r.layout.payload_offset, 8);
				places[i] = payload % 10000;
				sum_found += payload;
				assert_int_equal(weir_parts_of(&parts, weir_row_hash(found[i])), p);
			}
			out = taken(&r, found, count);
			for (uint32_t c = 0; c < r.layout.cell_count; c++) {
				struct weir_array *column = weir_array_take(f->account, r.batch->columns[r.numbers[c]],
									    places, count, &err);

				assert_non_null(column);
				if (!weir_array_equal(out->columns[c], column, true))
					fail_msg("%s", type_texts[r.numbers[c]]);
				weir_array_unref(column);
			}
			weir_batch_unref(out);
			weir_arena_clear(&r.arena);
			seen += count;
		}
		assert_int_equal(err.code, 0);
		weir_part_reader_close(&reader);
	}
	assert_int_equal(seen, expected);
	assert_int_equal(sum, sum_found);
	weir_parts_release(&parts);
	weir_store_free(store);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(test_hashes),
		memory_test(test_round_trip),
		memory_test(test_table),
		memory_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
