/* Selecting by digits: count how many values begin with each digit, go on with those that begin as the wanted one does.
 *
 *     values ─▶ counts of 2^14 beginnings ─▶ those with the right one, moved to the front ─▶ counts of the next 14 bits ─▶ …
 *
 * Each value is looked at twice, mostly, whatever their order is; small numbers of them are put in order instead. */
#include "ops/exchange/selected.h"

#include "ops/exchange/accumulate_impl.h"

enum { SORTED_MAX = 48, SMALL_MAX = 1 << 14 };

/* Bits that order as the numbers do. */
static inline uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static void sort_few(double *values, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		double value = values[i];
		uint32_t at = i;

		for (; at && values[at - 1] > value; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
}

/* Swaps those with the digit to the front, so that all values stay; returns how many. */
static uint32_t gather(double *values, uint32_t count, uint32_t shift, uint32_t mask, uint64_t digit)
{
	uint32_t front = 0;

	for (uint32_t i = 0; i < count; i++) {
		double value = values[i];
		bool is_there = (bits_of(value) >> shift & mask) == digit;

		values[i] = values[front];
		values[front] = value;
		front += is_there;
	}
	return front;
}

static double select_rank(double *values, uint32_t count, uint32_t rank)
{
	static const uint32_t widths[] = {8, 14};
	uint32_t counts[1 << 14];
	uint32_t shift = 64;

	while (count > SORTED_MAX && shift) {
		uint32_t width = widths[count > SMALL_MAX], mask, digit = 0;

		width = width > shift ? shift : width;
		mask = (1u << width) - 1;
		shift -= width;
		memset(counts, 0, sizeof(*counts) << width);
		for (uint32_t i = 0; i < count; i++)
			counts[bits_of(values[i]) >> shift & mask]++;
		while (counts[digit] <= rank)
			rank -= counts[digit++];
		if (counts[digit] < count)
			count = gather(values, count, shift, mask, digit);
	}
	if (shift)
		sort_few(values, count);
	return values[rank];
}

double weir_selected_quantile(double *values, uint32_t count, double q)
{
	double place = (double)(count - 1) * q, fraction, result, next = INFINITY;
	uint32_t rank = (uint32_t)place, below = 0;

	fraction = place - (double)rank;
	if (count <= SORTED_MAX) {
		sort_few(values, count);
		return fraction > 0 && rank + 1 < count ? fraction * values[rank + 1] + (1 - fraction) * values[rank]
							: values[rank];
	}
	result = select_rank(values, count, rank);
	if (!(fraction > 0) || rank + 1 >= count)
		return result;
	/* The one behind: as great, or the least of the greater ones. */
	for (uint32_t i = 0; i < count; i++) {
		below += values[i] <= result;
		next = values[i] > result && values[i] < next ? values[i] : next;
	}
	return fraction * (below > rank + 1 ? result : next) + (1 - fraction) * result;
}

int weir_selected_take(const struct weir_accumulators *accumulators, const struct weir_aggregate_item *item,
		       struct weir_row_heap *heap, const uint8_t *const *rows, uint32_t count, struct weir_arena *arena,
		       struct weir_column *out, struct weir_error *err)
{
	const struct weir_accumulator *of = &accumulators->items[item->summary];
	uint64_t *valid = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*valid), err);
	double *to = valid ? weir_arena_alloc_aligned(arena, (size_t)count * sizeof(*to) + 32, err) : NULL;

	if (!to)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = load_count(rows[i] + of->list);
		bool has_null = rows[i][of->flags] & HAS_NULL;
		const struct weir_row_list *list = number ? &heap->lists.items[number - 1] : NULL;

		to[i] = 0;
		if (!list || (item->with_nulls && has_null))
			continue;
		to[i] = weir_selected_quantile(list->values, list->count, item->numbers[0]);
		valid[i >> 6] |= (uint64_t)1 << (i & 63);
	}
	*out = (struct weir_column){
		.type = weir_type_of(WEIR_DOUBLE), .form = WEIR_FLAT, .values = to, .validity = valid};
	return WEIR_OK;
}
