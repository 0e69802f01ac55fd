/* What accumulators have gathered, as columns of results. */
#include "expr/scalar.h"
#include "ops/exchange/accumulate_impl.h"

#include <stdio.h>

/* The key of a row, for messages: "a = 5, b = null". */
static const char *key_text(const struct weir_accumulators *all, const uint8_t *row, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (uint32_t c = 0; c < all->layout.key_count && used < size; c++) {
		const struct weir_row_cell *cell = &all->layout.cells[c];
		char value[WEIR_VALUE_TEXT_MAX] = "null";
		struct weir_view view;

		if (weir_row_valid(&all->layout, row, c) && cell->type->layout == WEIR_LAYOUT_BYTES) {
			view = weir_row_view(row + cell->offset);
			snprintf(value, sizeof(value), "'%.*s'", view.size > 100 ? 100 : (int)view.size,
				 (const char *)weir_view_bytes(&view));
		} else if (weir_row_valid(&all->layout, row, c) && cell->type->layout == WEIR_LAYOUT_NESTED) {
			snprintf(value, sizeof(value), "…");
		} else if (weir_row_valid(&all->layout, row, c) && cell->width) {
			if (cell->type->id == WEIR_FIXED_BINARY)
				snprintf(value, sizeof(value), "…");
			else
				weir_value_format(cell->type, row + cell->offset, value);
		}
		used += (size_t)snprintf(buffer + used, size - used, "%s%s = %s", c ? ", " : "",
					 all->schema->fields[all->numbers[c]].name, value);
	}
	return buffer;
}

int weir_accumulators_overflow(const struct weir_accumulators *all, const struct weir_accumulator *of,
			       const uint8_t *row, struct weir_error *err)
{
	char key[400];

	weir_error_set(err, WEIR_E_OVERFLOW, "a sum of decimals does not fit 256 bits%s%s",
		       all->layout.key_count ? " where " : "", key_text(all, row, key, sizeof(key)));
	weir_error_at_column(err, all->schema->fields[of->column].name);
	return err->code;
}

static int overflow(const struct weir_accumulators *all, const struct weir_aggregate_item *item, const uint8_t *row,
		    struct weir_error *err)
{
	char key[400];

	weir_error_set(err, WEIR_E_OVERFLOW, "%s does not fit its type%s%s; cast the column to float64 or a decimal",
		       item->name, all->layout.key_count ? " where " : "", key_text(all, row, key, sizeof(key)));
	weir_error_at_column(err, item->column);
	return err->code;
}

static double spread_root(double spread, uint64_t count, int64_t ddof)
{
	double variance = spread / (double)(count - (uint64_t)ddof);

	return variance > 0 ? sqrt(variance) : variance == variance ? 0.0 : variance;
}

/* The sum of squares of the distances d from the mean m, of those from the first value: Σd² − 2mΣd + nm², with m
 * anywhere near the mean, in twice a double's digits. */
static double spread_std(const uint8_t *from, uint64_t count, int64_t ddof)
{
	struct spread spread = load_spread(from);
	double mean = pair_value(spread.distances) / (double)count;
	struct pair all;

	if (!isfinite(spread.distances.high) || !isfinite(spread.squares.high))
		return isfinite(spread.distances.high) ? (double)INFINITY : (double)NAN;
	all = pair_add_pair(spread.squares, pair_times(spread.distances, -2 * mean));
	all = pair_add_pair(all, pair_times(pair_square(mean), (double)count));
	return spread_root(pair_value(all), count, ddof);
}

static double whole_std(const uint8_t *row, const struct weir_accumulator *of, uint64_t count, int64_t ddof)
{
	__int128 sum = load_whole(row + of->sum);
	unsigned __int128 low;
	uint64_t high = load_count(row + of->squares + 16);
	struct weir_int256 times, product, square, spread;

	memcpy(&low, row + of->squares, sizeof(low));
	if (!high && !(low >> 90) && count < (uint64_t)1 << 36 && sum == (int64_t)sum)
		return spread_root((double)(low * count - (unsigned __int128)(sum * sum)) / (double)count, count, ddof);
	times = weir_int256_from((__int128)count);
	square = weir_int256_from(sum);
	spread = (struct weir_int256){{(uint64_t)low, (uint64_t)(low >> 64), high, 0}};
	if (weir_int256_mul(&times, &spread, &product) || weir_int256_mul(&square, &square, &square) ||
	    weir_int256_sub(&product, &square, &spread))
		return (double)NAN;
	return spread_root(weir_decimal_to_double(&spread, 0) / (double)count, count, ddof);
}

static double std_of(const uint8_t *row, const struct weir_accumulator *of, int64_t ddof)
{
	uint64_t count = load_count(row + of->values);
	uint8_t flags = row[of->flags];
	double std;

	if (count <= (uint64_t)ddof)
		return (double)NAN;
	if (of->kind == WEIR_SUMMARY_INTEGER)
		return whole_std(row, of, count, ddof);
	std = spread_std(row + of->squares + weir_first_bytes(of->kind), count, ddof);
	return flags & SPREAD_GREAT ? std * 0x1p600 : flags & SPREAD_SMALL ? std * 0x1p-600 : std;
}

static double mean_of(const uint8_t *row, const struct weir_accumulator *of)
{
	uint64_t count = load_count(row + of->values);
	struct weir_int256 wide;
	__int128 sum;

	switch (of->kind) {
	case WEIR_SUMMARY_REAL:
		return weir_real_mean(of, row, count);
	case WEIR_SUMMARY_DECIMAL:
		memcpy(&wide, row + of->sum, sizeof(wide));
		return weir_decimal_mean(&wide, of->type->scale, count);
	default:
		sum = load_whole(row + of->sum);
		/* Both exact, one rounding. */
		if (sum < (__int128)1 << 53 && sum > -((__int128)1 << 53))
			return (double)(int64_t)sum / (double)count;
		return (double)((weir_wide_float)sum / count);
	}
}

static int take_sums(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
		     const struct weir_accumulator *of, const struct weir_type *type, const uint8_t *const *rows,
		     const uint64_t *valid, uint32_t count, uint8_t *to, struct weir_error *err)
{
	for (uint32_t i = 0; i < count; i++, to += type->byte_width) {
		const uint8_t *from = rows[i] + of->sum;
		struct weir_int256 wide;
		__int128 sum;
		uint64_t whole;
		double real;

		if (!(valid[i >> 6] >> (i & 63) & 1))
			continue;
		switch (of->kind) {
		case WEIR_SUMMARY_REAL:
			real = weir_real_sum(of, rows[i]);
			memcpy(to, &real, sizeof(real));
			break;
		case WEIR_SUMMARY_DECIMAL:
			memcpy(&wide, from, sizeof(wide));
			if (!weir_int256_fits(&wide, type->precision) ||
			    !weir_int256_store(&wide, to, type->byte_width))
				return overflow(all, item, rows[i], err);
			break;
		default:
			sum = load_whole(from);
			whole = (uint64_t)sum;
			if (type->id == WEIR_UINT64 ? sum != (__int128)whole : sum != (__int128)(int64_t)whole)
				return overflow(all, item, rows[i], err);
			memcpy(to, &whole, sizeof(whole));
		}
	}
	return WEIR_OK;
}

static int put_absmax(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
		      const struct weir_accumulator *of, const struct weir_type *type, const uint8_t *row, uint8_t *to,
		      struct weir_error *err)
{
	struct weir_column column = {.type = of->type, .form = WEIR_FLAT, .values = row + of->least};
	struct weir_scalar least, greatest;
	const struct weir_scalar *result;

	if (of->type->id == WEIR_BOOL) {
		*to = row[of->greatest];
		return WEIR_OK;
	}
	weir_scalar_load(&column, 0, &least);
	column.values = row + of->greatest;
	weir_scalar_load(&column, 0, &greatest);
	if (!weir_aggregate_absmax(of->kind, type, &least, &greatest, &result))
		return overflow(all, item, row, err);
	weir_scalar_store(result, to);
	return WEIR_OK;
}

static int take_extremes(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			 const struct weir_accumulator *of, const struct weir_type *type, const uint8_t *const *rows,
			 const uint64_t *valid, uint32_t count, uint32_t width, uint8_t *to, struct weir_error *err)
{
	uint32_t from = item->function == WEIR_MIN ? of->least : of->greatest;
	struct weir_scalar nan = {.type = of->type, .real = (double)NAN};
	int code = WEIR_OK;

	for (uint32_t i = 0; i < count && !code; i++, to += width) {
		if (!(valid[i >> 6] >> (i & 63) & 1))
			continue;
		if (!(rows[i][of->flags] & HAS_EXTREME)) /* there are values, but all are NaN */
			weir_scalar_store(&nan, to);
		else if (item->function == WEIR_ABSMAX)
			code = put_absmax(all, item, of, type, rows[i], to, err);
		else
			memcpy(to, rows[i] + from, width);
	}
	return code;
}

/* Bytes of truth to bits. */
static uint64_t *bits_of(const uint8_t *bytes, uint32_t count, struct weir_arena *arena, struct weir_error *err)
{
	uint64_t *bits = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*bits), err);

	for (uint32_t i = 0; bits && i < count; i++)
		bits[i >> 6] |= (uint64_t)bytes[i] << (i & 63);
	return bits;
}

static void take_numbers(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			 const struct weir_accumulator *of, const uint8_t *const *rows, const uint64_t *valid,
			 uint32_t count, double *to)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t values, total;

		to[i] = 0;
		if (!(valid[i >> 6] >> (i & 63) & 1))
			continue;
		switch (item->function) {
		case WEIR_MEAN:
			to[i] = mean_of(rows[i], of);
			break;
		case WEIR_STD:
			to[i] = std_of(rows[i], of, item->ddof);
			break;
		case WEIR_MISSING_PERCENT:
			total = load_count(rows[i] + all->rows);
			values = load_count(rows[i] + of->values) -
				 (of->nans != WEIR_NOWHERE ? load_count(rows[i] + of->nans) : 0);
			to[i] = (double)(total - values) / (double)total * 100.0;
			break;
		default: /* WEIR_ZERO_PERCENT */
			total = load_count(rows[i] + (item->with_nulls ? all->rows : of->values));
			to[i] = (double)load_count(rows[i] + of->zeros) / (double)total * 100.0;
		}
	}
}

/* Bits of the rows for which the item has a result. */
static void results_there(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			  const struct weir_accumulator *of, const uint8_t *const *rows, uint32_t count, uint64_t *bits)
{
	bool counts_rows = item->function == WEIR_MISSING_PERCENT ||
			   (item->function == WEIR_ZERO_PERCENT && item->with_nulls);

	for (uint32_t i = 0; i < count; i++) {
		uint8_t flags = rows[i][of->flags];
		bool there = counts_rows ? load_count(rows[i] + all->rows) > 0
					 : flags & HAS_VALUE && !(item->with_nulls && flags & HAS_NULL);

		bits[i >> 6] |= (uint64_t)there << (i & 63);
	}
}

int weir_accumulators_take(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			   const struct weir_type *type, const uint8_t *const *rows, uint32_t count,
			   struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
			   struct weir_error *err)
{
	const struct weir_accumulator *of = item->column ? &all->items[item->summary] : NULL;
	uint32_t width = type->layout == WEIR_LAYOUT_BITS ? 1 : type->byte_width;
	bool counts = item->function == WEIR_COUNT;
	uint64_t *valid;
	uint8_t *to;
	int code = WEIR_OK;

	if (weir_aggregate_is_holistic(item->function))
		return weir_sketches_take(all, item, type, rows, count, arena, out, nested, err);
	valid = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*valid), err);
	*nested = NULL;
	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	if (!valid)
		return err->code;
	if (!counts)
		results_there(all, item, of, rows, count, valid);
	if (type->layout == WEIR_LAYOUT_BYTES) {
		uint32_t cell = item->function == WEIR_MIN ? of->least_cell : of->greatest_cell;

		code = weir_rows_take(&all->layout, cell, type, rows, count, all->account, arena, out, nested, err);
		out->validity = valid;
		return code;
	}
	to = weir_arena_alloc_aligned(arena, (size_t)count * width + 32, err);
	if (!to)
		return err->code;
	out->values = to;
	out->validity = counts ? NULL : valid;
	if (counts) {
		uint32_t from = !of || item->with_nulls ? all->rows : of->values;

		for (uint32_t i = 0; i < count; i++)
			memcpy(to + (size_t)i * 8, rows[i] + from, 8);
		return WEIR_OK;
	}
	if (of->type->id == WEIR_NULL) {
		/* Nothing has a value; percentages have. */
		memset(to, 0, (size_t)count * width);
		if (item->function == WEIR_MISSING_PERCENT || item->function == WEIR_ZERO_PERCENT)
			take_numbers(all, item, of, rows, valid, count, (double *)to);
		return WEIR_OK;
	}
	switch (item->function) {
	case WEIR_SUM:
		return take_sums(all, item, of, type, rows, valid, count, to, err);
	case WEIR_MEAN:
		if (of->type->id != WEIR_DURATION)
			break;
		for (uint32_t i = 0; i < count; i++) {
			uint64_t n = load_count(rows[i] + of->values);
			int64_t mean = 0;

			if (n && !weir_duration_mean(load_whole(rows[i] + of->sum), n, of->type->unit, &mean))
				return overflow(all, item, rows[i], err);
			memcpy(to + (size_t)i * 8, &mean, 8);
		}
		return WEIR_OK;
	case WEIR_MIN:
	case WEIR_MAX:
	case WEIR_ABSMAX:
		code = take_extremes(all, item, of, type, rows, valid, count, width, to, err);
		if (!code && type->layout == WEIR_LAYOUT_BITS && !(out->values = bits_of(to, count, arena, err)))
			code = err->code;
		return code;
	default:
		break;
	}
	take_numbers(all, item, of, rows, valid, count, (double *)to);
	return WEIR_OK;
}
