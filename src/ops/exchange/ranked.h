/* ranked: aggregates of values that come in order, each with how often it comes: quantiles, distinct values, their
 * counts.
 *
 *     value:   3 3 3 │ 5 │ 8 8 8 8 │ NaN │ null null        one call a run; a run may come in several pieces
 *
 * quantile keeps of its values those that may still be asked for, which are (1 − q) of all, equal ones once; where it
 * is told how many there will be, one or two. approx_quantile keeps so many of them at equal distances: at most 8 ×
 * precision, so that what it says is at most 1 / (4 × precision) of all rows away from the rank that was asked for.
 * approx_top_k counts all values, and is exact; it keeps some multiple of k.
 */
#ifndef WEIR_OPS_EXCHANGE_RANKED_H
#define WEIR_OPS_EXCHANGE_RANKED_H

#include "base/list.h"
#include "ops/aggregate.h"

struct weir_ranked_value {
	double value;
	uint64_t count;
};

/* One item's, in one lane; the group at hand. All-zero is empty. */
struct weir_ranked {
	struct weir_account *account;
	const struct weir_aggregate_item *item;
	const struct weir_type *type; /* of the values; borrowed */
	struct weir_builder out;      /* a row a group; of lists of values, behind them those of the group at hand */
	int64_t ended;                /* how many values are of groups that have ended, where results are such lists */
	uint64_t count;               /* of values so far: neither null nor NaN; distinct ones where that is counted */
	uint64_t nulls;
	int64_t run; /* how often the last value has come; 0: there is none */
	/* quantile: those from `base` on that may be asked for; from `head` on in the list */
	struct WEIR_LIST(struct weir_ranked_value) values;
	size_t head;
	uint64_t base;
	uint64_t expected; /* how many values there will be; 0: not known */
	/* approx_quantile: the values of ranks 0, step, 2 × step … */
	struct WEIR_LIST(double) samples;
	uint64_t step;
	double last;
	/* approx_top_k */
	struct weir_builder candidates;
	struct WEIR_LIST(int64_t) counts;
};

int weir_ranked_init(struct weir_ranked *ranked, struct weir_account *account, const struct weir_aggregate_item *item,
		     const struct weir_type *type, const struct weir_type *result, struct weir_error *err);
void weir_ranked_release(struct weir_ranked *ranked);
/* `count` rows with the value of a row of a decoded column; is_new: another than the rows before had. */
int weir_ranked_push(struct weir_ranked *ranked, const struct weir_column *column, uint32_t row, uint64_t count,
		     bool is_new, struct weir_error *err);
/* The group has ended: its result, and the next begins. */
int weir_ranked_end(struct weir_ranked *ranked, struct weir_error *err);
/* The results so far, which go; what there is of the group at hand stays. *out is the caller's, on failure too. */
int weir_ranked_finish(struct weir_ranked *ranked, struct weir_array **out, struct weir_error *err);

/* The value of a row of a decoded column that is not null, behind those of a builder of its values' type. */
int weir_builder_value(struct weir_builder *builder, const struct weir_column *column, uint32_t row,
		       struct weir_error *err);

#endif
