/* numbers: what rows go by where it is none of their own columns: chance, or the number of a piece. It is a column
 * behind the others while rows are in memory, and is not written to disk: what a run knows is enough to make it again.
 *
 *     drawn:    bucket = 10 bits of hash(seed, split, row)      which bucket a row is in, and how many of its split
 *               number = bucket, hash(seed, split, bucket, n)   were in it before (n)
 *
 *     a run in order:  │ bucket 0: n of them │ bucket 1 │ …      so the numbers of a bucket's rows in a run are those of n, n + 1, …
 *                                                               in ascending order, whichever row had which
 *
 *     repeated: a chunk's rows are of a few pieces, one after another: each number once, and where it ends
 *
 * Where it is known how many rows of the input come before a split, `split` is a section of the input instead, of
 * WEIR_DRAW_SECTION rows, and `row` its place there: how the input is cut shows nowhere. A run has rows of one section.
 *
 * Both depend on the input alone, so which runs there are shows nowhere. A bucket is chosen and a place in it is
 * chosen, both by chance, so each order of all rows is as likely as any other.
 *
 * A draw is of one lane. What is of a run is read only.
 */
#ifndef WEIR_OPS_EXCHANGE_NUMBERS_H
#define WEIR_OPS_EXCHANGE_NUMBERS_H

#include "arrow/array.h"
#include "ops/exchange/keys.h"

enum { WEIR_DRAW_BITS = 10, WEIR_DRAW_BUCKETS = 1 << WEIR_DRAW_BITS, WEIR_DRAW_SECTION = 1 << 20 };

struct weir_draw {
	uint64_t salt, position;
	/* rows that the section still has, and the number of the first behind it; without sections there is no end */
	uint64_t left, row_next;
	uint32_t counts[WEIR_DRAW_BUCKETS]; /* rows of the split so far */
	uint32_t before[WEIR_DRAW_BUCKETS]; /* the same when the run began */
};

void weir_draw_begin(struct weir_draw *draw, uint64_t seed, uint64_t split);
/* By sections: from this row of the input on. */
void weir_draw_begin_at(struct weir_draw *draw, uint64_t seed, uint64_t row);
/* From here on rows are of another run. */
void weir_draw_begin_run(struct weir_draw *draw);
uint64_t weir_draw_number(struct weir_draw *draw);
/* As weir_key_order (order.h) of all keys since the run began, which are the numbers that were drawn; with less memory,
 * since it is known how many each bucket has. */
int weir_draw_order(const struct weir_draw *draw, const struct weir_key_list *keys, struct weir_account *account,
		    uint32_t *rows, struct weir_error *err);

/* The numbers of a run: all rows that were drawn between two beginnings. There may be thousands of runs, so it is kept
 * small. */
struct weir_drawn {
	uint64_t salt;
	uint32_t rank_least;
	bool is_wide; /* else cells are uint16_t */
	/* How many rows a bucket has here, of all buckets; then the rank of its first one in its split, less the
	 * least. */
	uint32_t cells[];
};

int weir_drawn_new(struct weir_account *account, const struct weir_draw *draw, struct weir_drawn **out,
		   struct weir_error *err);
void weir_drawn_free(struct weir_account *account, struct weir_drawn *drawn); /* NULL is fine */
/* Of rows first … first + count − 1 in the run's order. Memory that is needed meanwhile comes from `account`. */
int weir_drawn_numbers(const struct weir_drawn *drawn, int64_t first, int64_t count, struct weir_account *account,
		       uint64_t *out, struct weir_error *err);

/* Equal numbers follow each other. All-zero: not known. */
struct weir_repeats {
	uint32_t count;
	struct weir_repeat {
		uint64_t number;
		int64_t end; /* the row in front of which the next begins */
	} * items;
};

/* Stays all-zero where they change so often that there is nothing to gain. */
int weir_repeats_init(struct weir_repeats *repeats, struct weir_account *account, const struct weir_array *numbers,
		      struct weir_error *err);
void weir_repeats_release(struct weir_repeats *repeats, struct weir_account *account);
void weir_repeats_numbers(const struct weir_repeats *repeats, uint64_t *out);

/* The batch without its last column, of a schema without it; and with one of these numbers behind the others. */
int weir_numbers_strip(struct weir_account *account, const struct weir_batch *batch, const struct weir_schema *schema,
		       struct weir_batch **out, struct weir_error *err);
/* `numbers` is a buffer of uint64, which is taken over, on failure too. */
int weir_numbers_append(struct weir_account *account, const struct weir_batch *batch, const struct weir_schema *schema,
			struct weir_buffer numbers, struct weir_batch **out, struct weir_error *err);

/* A batch that lacks the last column of the schema gets it: row i is key rows[i], or key i where that is NULL. *batch
 * is replaced. */
int weir_numbers_complete(struct weir_account *account, const struct weir_key_list *keys, const uint32_t *rows,
			  const struct weir_schema *schema, struct weir_batch **batch, struct weir_error *err);

#endif
