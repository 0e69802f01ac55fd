/* Ranges ended in any order, from right guesses and wrong ones: what is certain is what a walk from the front gives. */
#include "memory_fixture.h"

#include "format/cuts.h"

static void in_order(void **state)
{
	struct fixture *f = *state;
	struct weir_error err = {0};
	struct weir_cuts *cuts = NULL;
	uint64_t start;

	assert_int_equal(weir_cuts_new(f->account, &cuts, &err), WEIR_OK);
	assert_false(weir_cuts_start(cuts, 0, &start));
	weir_cuts_begin(cuts, 10, 2);
	assert_true(weir_cuts_start(cuts, 0, &start));
	assert_int_equal(start, 10);
	assert_false(weir_cuts_start(cuts, 1, &start));
	assert_int_equal(weir_cuts_end(cuts, 0, 10, 105, 7, &err), WEIR_OK);
	assert_true(weir_cuts_start(cuts, 1, &start));
	assert_int_equal(start, 105);
	assert_int_equal(weir_cuts_line(cuts, 1), 9);
	assert_true(weir_cuts_confirm(cuts, 1, 105));
	assert_false(weir_cuts_confirm(cuts, 1, 100));
	weir_cuts_free(cuts);
}

/* Range 2 and 3 are read on end by one lane before range 1 is: they hang together, and fall together. */
static void guesses_hang_together(void **state)
{
	struct fixture *f = *state;
	struct weir_error err = {0};
	struct weir_cuts *cuts = NULL;
	uint64_t start;

	assert_int_equal(weir_cuts_new(f->account, &cuts, &err), WEIR_OK);
	weir_cuts_begin(cuts, 0, 1);
	assert_int_equal(weir_cuts_end(cuts, 2, 203, 305, 3, &err), WEIR_OK); /* a wrong guess */
	assert_true(weir_cuts_start(cuts, 3, &start));
	assert_int_equal(start, 305);
	assert_int_equal(weir_cuts_end(cuts, 3, 305, 401, 3, &err), WEIR_OK);
	assert_int_equal(weir_cuts_line(cuts, 2), 0);
	assert_true(weir_cuts_confirm(cuts, 2, 203)); /* nothing is known that speaks against it */
	assert_int_equal(weir_cuts_end(cuts, 0, 0, 100, 5, &err), WEIR_OK);
	assert_int_equal(weir_cuts_end(cuts, 1, 100, 260, 4, &err), WEIR_OK);
	assert_false(weir_cuts_confirm(cuts, 2, 203));
	assert_true(weir_cuts_start(cuts, 2, &start));
	assert_int_equal(start, 260);
	assert_int_equal(weir_cuts_line(cuts, 2), 10);
	assert_int_equal(weir_cuts_line(cuts, 3), 0);
	/* Read again from the right place: range 3 has a new beginning, and its old end counts no more. */
	assert_int_equal(weir_cuts_end(cuts, 2, 260, 310, 2, &err), WEIR_OK);
	assert_true(weir_cuts_start(cuts, 3, &start));
	assert_int_equal(start, 310);
	assert_false(weir_cuts_confirm(cuts, 3, 305));
	assert_int_equal(weir_cuts_line(cuts, 4), 0);
	assert_int_equal(weir_cuts_end(cuts, 3, 310, 402, 2, &err), WEIR_OK);
	assert_int_equal(weir_cuts_line(cuts, 4), 14);
	weir_cuts_free(cuts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(in_order),
		memory_test(guesses_hang_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
