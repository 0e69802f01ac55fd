/* Spools: pieces come back from where they were said to be, or an error does; all of it goes with the spool. */
#include "store/support.h"

enum { PIECES = 600, SIZE_MAX_BYTES = 6 << 20 };

static uint8_t written[SIZE_MAX_BYTES], came_back[SIZE_MAX_BYTES];

/* Mostly whole pages, now and then any size, a few larger than an extent. */
static uint64_t size_of(uint32_t i)
{
	return i % 97 == 50 ? 5 << 20 : i % 13 == 7 ? 1000 + i * 17 : ((uint64_t)4096 << i % 3);
}

static void check_nothing_is_left(struct fixture *f)
{
	struct weir_store_stats stats;

	weir_store_stats(f->store, &stats);
	assert_int_equal(stats.spilled, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(f->store->files[i].taken, 0);
}

static void pieces_come_back(struct fixture *f, bool is_dense)
{
	struct weir_spool spool;
	static struct weir_spool_place places[PIECES];
	uint64_t sum = 0;

	fixture_store(f, (struct weir_store_options){0});
	weir_spool_init(&spool, f->store);
	spool.is_dense = is_dense;
	for (uint32_t i = 0, count; i < PIECES; i += count) {
		struct weir_spool_piece pieces[WEIR_SPOOL_PIECES_MAX];
		uint64_t at = 0;

		/* As many as there is room for here. */
		for (count = 0; count < 1 + i % WEIR_SPOOL_PIECES_MAX && i + count < PIECES; count++) {
			uint64_t size = size_of(i + count);

			if (at + size > sizeof(written))
				break;
			fill(written + at, size, i + count);
			pieces[count] = (struct weir_spool_piece){.bytes = written + at, .size = size};
			at += size;
		}
		assert_int_equal(weir_spool_write(&spool, pieces, count, places + i, &f->err), 0);
		sum += at;
	}
	assert_true(f->store->spilled >= (int64_t)sum && f->store->spilled <= (int64_t)(sum + PIECES * STORE_PAGE));
	assert_true(f->store->files[0].taken && f->store->files[1].taken);
	/* Nothing is left free behind what was written. */
	assert_true(!is_dense || f->store->files[0].taken + f->store->files[1].taken == (uint64_t)f->store->spilled);
	for (uint32_t n = 0; n < PIECES; n++) {
		uint32_t i = n * 7 % PIECES;

		weir_spool_expect(&spool, places[i], size_of(i));
		assert_int_equal(weir_spool_read(&spool, places[i], came_back, size_of(i), &f->err), 0);
		fill(written, size_of(i), i);
		assert_memory_equal(written, came_back, size_of(i));
	}
	weir_spool_release(&spool);
	weir_spool_release(&spool);
	check_nothing_is_left(f);
}

static void test_pieces_come_back(void **state)
{
	pieces_come_back(*state, false);
}

static void test_dense_pieces_come_back(void **state)
{
	pieces_come_back(*state, true);
}

/* Of which none is whole pages: one behind the other all the same. */
static void test_dense_pieces_follow_each_other(void **state)
{
	struct fixture *f = *state;
	struct weir_spool spool;
	struct weir_spool_place places[3];
	struct weir_spool_piece pieces[3];

	fixture_store(f, (struct weir_store_options){0});
	weir_spool_init(&spool, f->store);
	spool.is_dense = true;
	for (uint32_t i = 0; i < 3; i++) {
		fill(written + i * 5056, 5056, i);
		pieces[i] = (struct weir_spool_piece){.bytes = written + i * 5056, .size = 5056};
	}
	assert_int_equal(weir_spool_write(&spool, pieces, 3, places, &f->err), 0);
	assert_int_equal(f->store->spilled, 4 * STORE_PAGE);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(places[i].unit, i * 5056 / 64);
		assert_int_equal(weir_spool_read(&spool, places[i], came_back, 5056, &f->err), 0);
		assert_memory_equal(written + i * 5056, came_back, 5056);
	}
	weir_spool_release(&spool);
	check_nothing_is_left(f);
}

static void test_a_changed_piece_is_found(void **state)
{
	struct fixture *f = *state;
	struct weir_spool spool;
	struct weir_spool_place places[3];
	struct weir_spool_piece pieces[3];
	const struct weir_range *range;
	uint8_t byte = 0;

	fixture_store(f, (struct weir_store_options){0});
	weir_spool_init(&spool, f->store);
	fill(written, 3 * 8192, 1);
	for (int i = 0; i < 3; i++)
		pieces[i] = (struct weir_spool_piece){.bytes = written + i * 8192, .size = 8192};
	assert_int_equal(weir_spool_write(&spool, pieces, 3, places, &f->err), 0);
	range = spool.extents.items[places[1].extent];
	byte = written[8192 + 77] ^ 4;
	assert_int_equal(pwrite(((struct weir_spill_file *)range->home)->fd, &byte, 1,
				(off_t)(range->offset + places[1].unit * STORE_PAGE + 77)),
			 1);
	assert_int_equal(weir_spool_read(&spool, places[1], came_back, 8192, &f->err), WEIR_E_SPILL_CORRUPT);
	assert_true(strstr(f->err.source, "weir-store-test") && f->err.has_offset);
	weir_error_clear(&f->err);
	assert_int_equal(weir_spool_read(&spool, places[0], came_back, 8192, &f->err), 0);
	assert_int_equal(weir_spool_read(&spool, places[2], came_back, 8192, &f->err), 0);
	weir_spool_release(&spool);
	check_nothing_is_left(f);
}

static void test_no_more_than_may_be_spilled(void **state)
{
	struct fixture *f = *state;
	struct weir_spool spool;
	struct weir_spool_place place;
	const struct weir_spool_piece piece = {.bytes = written, .size = 60000};

	fixture_store(f, (struct weir_store_options){.spill_max = 100000});
	weir_spool_init(&spool, f->store);
	assert_int_equal(weir_spool_write(&spool, &piece, 1, &place, &f->err), 0);
	assert_int_equal(weir_spool_write(&spool, &piece, 1, &place, &f->err), WEIR_E_NO_SPACE);
	weir_spool_release(&spool);
	check_nothing_is_left(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_pieces_come_back),
		store_test(test_dense_pieces_come_back),
		store_test(test_dense_pieces_follow_each_other),
		store_test(test_a_changed_piece_is_found),
		store_test(test_no_more_than_may_be_spilled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
