/* summary: what aggregates need to know of one column: how many rows, nulls and NaN, sums, squares, the least and the
 * greatest value. Summaries of parts are merged; the result does not depend on how the rows were cut, nor on the order
 * of merging: integers are summed in 128 bits (their squares in 192), decimals in 256, floats without rounding
 * (base/exact.h). */
#ifndef WEIR_OPS_SUMMARY_H
#define WEIR_OPS_SUMMARY_H

#include "base/exact.h"
#include "arrow/decimal.h"
#include "ops/extremes.h"

enum weir_summary_wants {
	WEIR_WANTS_SUM = 1,
	WEIR_WANTS_SQUARES = 2, /* and the sum */
	WEIR_WANTS_BOUNDS = 4,
};

enum weir_summary_kind {
	WEIR_SUMMARY_NONE,    /* no sums: text, dates … */
	WEIR_SUMMARY_INTEGER, /* booleans and durations too */
	WEIR_SUMMARY_REAL,
	WEIR_SUMMARY_DECIMAL,
};

struct weir_summary {
	struct weir_account *account; /* of the bounds' bytes */
	const struct weir_type *type; /* of values; borrowed */
	uint32_t wants;
	uint64_t rows, nulls, nans;
	__int128 sum;
	unsigned __int128 squares;
	uint64_t squares_high; /* above 128 bits */
	struct weir_int256 decimal_sum;
	struct weir_exact real_sum; /* of decimals too, when squares are wanted */
	struct weir_exact_squares real_squares;
	struct weir_bound least, greatest;
};

enum weir_summary_kind weir_summary_kind(const struct weir_type *type);
/* A value of a type that is of some kind, as the nearest double. */
double weir_summary_real(const struct weir_type *type, const struct weir_scalar *value);
bool weir_summary_has_order(const struct weir_type *type);

void weir_summary_init(struct weir_summary *summary, struct weir_account *account, const struct weir_type *type,
		       uint32_t wants);
void weir_summary_reset(struct weir_summary *summary); /* nothing seen; keeps its memory */
void weir_summary_release(struct weir_summary *summary);
/* The selected rows of a decoded column. `rows` has room for a vector's. */
int weir_summary_push(struct weir_summary *summary, const struct weir_vector *vector, uint32_t column, uint32_t *rows,
		      struct weir_arena *arena, struct weir_error *err);
int weir_summary_merge(struct weir_summary *to, const struct weir_summary *from, struct weir_error *err);

static inline uint64_t weir_summary_count(const struct weir_summary *summary)
{
	return summary->rows - summary->nulls;
}
double weir_summary_mean(const struct weir_summary *summary);              /* count > 0 */
double weir_summary_std(const struct weir_summary *summary, int64_t ddof); /* NaN when count ≤ ddof */
/* Of durations of this unit, in that of their mean (weir_mean_unit), a half to even. False: it does not fit. */
bool weir_duration_mean(__int128 sum, uint64_t count, enum weir_time_unit unit, int64_t *out);
/* Of seconds and milliseconds a mean has microseconds, as Python's timedelta. */
static inline enum weir_time_unit weir_mean_unit(enum weir_time_unit unit)
{
	return unit < WEIR_MICRO ? WEIR_MICRO : unit;
}

/* The sums as bytes, for who merges summaries of several types (python/weir/_aggregate.py reads them):
 *
 *     u32 kind │ i32 scale │ INTEGER: i128 sum, u192 squares │ DECIMAL: i256 sum │ REAL, and DECIMAL with squares:
 *     u8 has_nan, has_plus, has_minus, has_squares, 4 × 0; i64 sum digits[68]; with squares: u64 square digits[136]
 *
 * scale: a decimal's; of a duration 0, 3, 6, 9 by its unit, else −1. All little endian. Returns the size. */
enum { WEIR_SUMMARY_BYTES_MAX = 8 + 40 + 32 + 8 + (WEIR_EXACT_DIGITS + WEIR_EXACT_SQUARE_DIGITS) * 8 };
size_t weir_summary_store(const struct weir_summary *summary, uint8_t out[WEIR_SUMMARY_BYTES_MAX]);

#endif
