#include "ops/exchange/ranked.h"

#include "arrow/bitmap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_MIN = 1024, CANDIDATES_MORE = 1024 };

int weir_ranked_init(struct weir_ranked *ranked, struct weir_account *account, const struct weir_aggregate_item *item,
		     const struct weir_type *type, const struct weir_type *result, struct weir_error *err)
{
	int code;

	*ranked = (struct weir_ranked){.account = account, .item = item, .type = weir_type_values(type), .step = 1};
	code = weir_builder_init(&ranked->out, result, account, err);
	if (!code && item->function == WEIR_APPROX_TOP_K)
		code = weir_builder_init(&ranked->candidates, ranked->type, account, err);
	return code;
}

void weir_ranked_release(struct weir_ranked *ranked)
{
	if (!ranked->account)
		return;
	weir_builder_release(&ranked->out);
	weir_builder_release(&ranked->candidates);
	weir_list_release(&ranked->values, ranked->account);
	weir_list_release(&ranked->samples, ranked->account);
	weir_list_release(&ranked->counts, ranked->account);
	ranked->account = NULL;
}

/* ---- values ---- */

static uint32_t place_of(const struct weir_column *column, uint32_t row)
{
	return column->form == WEIR_DICTIONARY ? ((const uint32_t *)column->values)[row]
	       : column->form == WEIR_CONSTANT ? 0
					       : row;
}

int weir_builder_value(struct weir_builder *builder, const struct weir_column *column, uint32_t row,
		       struct weir_error *err)
{
	const struct weir_type *type = weir_type_values(column->type);
	bool is_shared = column->form == WEIR_DICTIONARY;
	const uint8_t *values = is_shared ? column->dictionary->values : column->values;
	uint32_t place = place_of(column, row);
	const struct weir_view *view;
	uint8_t bit;

	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		bit = weir_bit_get(values, place);
		return weir_builder_fixed(builder, &bit, 1, err);
	case WEIR_LAYOUT_FIXED:
		return weir_builder_fixed(builder, values + (size_t)place * type->byte_width, 1, err);
	case WEIR_LAYOUT_BYTES:
		view = (const struct weir_view *)values + place;
		return weir_builder_bytes(builder, weir_view_bytes(view), view->size, err);
	case WEIR_LAYOUT_NESTED:
		if (weir_builder_array(builder, is_shared ? column->dictionary->nested : column->nested,
				       (is_shared ? 0 : column->nested_offset) + place, 1, err))
			return err->code;
		return weir_builder_settle(builder, err);
	default:
		return weir_builder_null(builder, 1, err);
	}
}

static bool is_null(const struct weir_column *column, uint32_t row)
{
	if (weir_type_values(column->type)->layout == WEIR_LAYOUT_NULL || !weir_column_valid(column, row))
		return true;
	return column->nested && column->form != WEIR_DICTIONARY &&
	       !weir_array_is_valid(column->nested, column->nested_offset + place_of(column, row));
}

static double real_of(const struct weir_column *column, uint32_t row)
{
	const struct weir_type *type = weir_type_values(column->type);
	struct weir_scalar value;

	if (type->id == WEIR_DOUBLE && column->form == WEIR_FLAT)
		return ((const double *)column->values)[row];
	weir_scalar_load(column, row, &value);
	return weir_summary_real(type, &value);
}

/* ---- quantile ---- */

static int quantile_push(struct weir_ranked *ranked, double value, uint64_t count, struct weir_error *err)
{
	const double q = ranked->item->numbers[0];
	uint64_t first = ranked->expected ? (uint64_t)((double)(ranked->expected - 1) * q) : 0;
	int code;

	if (ranked->expected && ranked->count > first + 1) {
		ranked->count += count;
		return WEIR_OK;
	}
	if (ranked->values.count > ranked->head && ranked->values.items[ranked->values.count - 1].value == value)
		ranked->values.items[ranked->values.count - 1].count += count;
	else {
		code = weir_list_push(&ranked->values, ranked->account, err,
				      (struct weir_ranked_value){.value = value, .count = count});
		if (code)
			return code;
	}
	ranked->count += count;
	/* More rows only move the place that is asked for behind this one. */
	if (!ranked->expected)
		first = (uint64_t)((double)(ranked->count - 1) * q);
	while (ranked->head < ranked->values.count && ranked->base + ranked->values.items[ranked->head].count <= first)
		ranked->base += ranked->values.items[ranked->head++].count;
	if (ranked->head > HEAD_MIN && ranked->head > ranked->values.count / 2) {
		ranked->values.count -= ranked->head;
		memmove(ranked->values.items, ranked->values.items + ranked->head,
			ranked->values.count * sizeof(*ranked->values.items));
		ranked->head = 0;
	}
	return WEIR_OK;
}

static double value_at(const struct weir_ranked *ranked, uint64_t rank)
{
	uint64_t end = ranked->base;
	size_t i = ranked->head;

	while (end + ranked->values.items[i].count <= rank)
		end += ranked->values.items[i++].count;
	return ranked->values.items[i].value;
}

static int quantile_end(struct weir_ranked *ranked, struct weir_error *err)
{
	double place, fraction, result;
	uint64_t rank;

	if (!ranked->count || (ranked->item->with_nulls && ranked->nulls))
		return weir_builder_null(&ranked->out, 1, err);
	place = (double)(ranked->count - 1) * ranked->item->numbers[0];
	rank = (uint64_t)place;
	fraction = place - (double)rank;
	result = value_at(ranked, rank);
	if (fraction > 0 && rank + 1 < ranked->count)
		result = fraction * value_at(ranked, rank + 1) + (1 - fraction) * result;
	return weir_builder_fixed(&ranked->out, &result, 1, err);
}

/* ---- approx_quantile ---- */

static int sample_push(struct weir_ranked *ranked, double value, uint64_t count, struct weir_error *err)
{
	size_t most = 8 * (size_t)ranked->item->numbers[0];
	uint64_t end = ranked->count + count;

	while (ranked->samples.count * ranked->step < end) {
		int code = weir_list_push(&ranked->samples, ranked->account, err, value);

		if (code)
			return code;
		if (ranked->samples.count < most)
			continue;
		for (size_t i = 0; 2 * i < most; i++)
			ranked->samples.items[i] = ranked->samples.items[2 * i];
		ranked->samples.count = (most + 1) / 2;
		ranked->step *= 2;
	}
	ranked->count = end;
	ranked->last = value;
	return WEIR_OK;
}

static int sample_end(struct weir_ranked *ranked, struct weir_error *err)
{
	if (!ranked->count)
		return weir_builder_null(&ranked->out, 1, err);
	for (uint32_t i = 1; i < ranked->item->number_count; i++) {
		uint64_t rank = (uint64_t)((double)ranked->count * ranked->item->numbers[i]);
		size_t at = (size_t)((rank + ranked->step / 2) / ranked->step);
		bool is_last = rank + 1 >= ranked->count || at >= ranked->samples.count;

		if (weir_builder_fixed(&ranked->out.children[0], is_last ? &ranked->last : &ranked->samples.items[at],
				       1, err))
			return err->code;
	}
	return weir_builder_list_end(&ranked->out, err);
}

/* ---- approx_top_k ---- */

struct ranking {
	int64_t count, place;
};

static int compare_ranking(const void *a_object, const void *b_object)
{
	const struct ranking *a = a_object, *b = b_object;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

/* The k most frequent of the candidates, the first ones of those that are as frequent; *counts has what is the caller's
 * to free and theirs from [*kept] on. The candidates are gone. */
static int choose(struct weir_ranked *ranked, struct weir_array **values, int64_t **counts, size_t *kept,
		  struct weir_error *err)
{
	size_t count = ranked->counts.count, k = (size_t)ranked->item->numbers[0];
	size_t size = (count + 1) * sizeof(struct ranking);
	struct ranking *all = weir_alloc(ranked->account, size, err);
	int64_t *rows;
	struct weir_array *candidates;

	if (!all)
		return err->code;
	k = k < count ? k : count;
	for (size_t i = 0; i < count; i++)
		all[i] = (struct ranking){.count = ranked->counts.items[i], .place = (int64_t)i};
	qsort(all, count, sizeof(*all), compare_ranking);
	candidates = weir_builder_finish(&ranked->candidates, err);
	rows = candidates ? weir_alloc(ranked->account, 2 * (k + 1) * sizeof(*rows), err) : NULL;
	if (rows) {
		for (size_t i = 0; i < k; i++) {
			rows[i] = all[i].place;
			rows[k + i] = all[i].count;
		}
		*values = weir_array_take(ranked->account, candidates, rows, (int64_t)k, err);
		*counts = rows;
		*kept = k;
	}
	weir_array_unref(candidates);
	weir_free(ranked->account, all, size);
	if (rows && !*values)
		weir_free(ranked->account, rows, 2 * (k + 1) * sizeof(*rows));
	return rows && *values ? WEIR_OK : err->code;
}

static int prune(struct weir_ranked *ranked, struct weir_error *err)
{
	struct weir_array *values = NULL;
	int64_t *counts = NULL;
	size_t kept = 0;
	int code = choose(ranked, &values, &counts, &kept, err);

	if (code)
		return code;
	memcpy(ranked->counts.items, counts + kept, kept * sizeof(*counts));
	ranked->counts.count = kept;
	code = weir_builder_array(&ranked->candidates, values, 0, (int64_t)kept, err);
	if (!code)
		code = weir_builder_settle(&ranked->candidates, err);
	weir_array_unref(values);
	weir_free(ranked->account, counts, 2 * (kept + 1) * sizeof(*counts));
	return code;
}

static int top_push(struct weir_ranked *ranked, const struct weir_column *column, uint32_t row, uint64_t count,
		    bool is_new, struct weir_error *err)
{
	int code = WEIR_OK;

	if (!is_new) {
		ranked->counts.items[ranked->counts.count - 1] += (int64_t)count;
		return WEIR_OK;
	}
	/* Not while the last run may go on. */
	if (ranked->counts.count > 4 * (size_t)ranked->item->numbers[0] + CANDIDATES_MORE)
		code = prune(ranked, err);
	if (!code)
		code = weir_list_push(&ranked->counts, ranked->account, err, (int64_t)count);
	return code ? code : weir_builder_value(&ranked->candidates, column, row, err);
}

static int top_end(struct weir_ranked *ranked, struct weir_error *err)
{
	struct weir_builder *entries = &ranked->out.children[0];
	struct weir_array *values = NULL;
	int64_t *counts = NULL;
	size_t kept = 0;
	int code = choose(ranked, &values, &counts, &kept, err);

	if (code)
		return code;
	for (size_t i = 0; i < kept && !code; i++) {
		code = weir_builder_array(&entries->children[0], values, (int64_t)i, 1, err);
		if (!code)
			code = weir_builder_fixed(&entries->children[1], &counts[kept + i], 1, err);
		if (!code)
			code = weir_builder_struct_end(entries, err);
	}
	if (!code)
		code = weir_builder_settle(&entries->children[0], err);
	weir_array_unref(values);
	weir_free(ranked->account, counts, 2 * (kept + 1) * sizeof(*counts));
	ranked->counts.count = 0;
	return code ? code : weir_builder_list_end(&ranked->out, err);
}

/* ---- distinct values ---- */

static int put_distinct(struct weir_builder *out, const struct weir_column *column, uint32_t row,
			struct weir_error *err)
{
	return is_null(column, row) ? weir_builder_null(out, 1, err) : weir_builder_value(out, column, row, err);
}

static int counts_flush(struct weir_ranked *ranked, struct weir_error *err)
{
	int64_t run = ranked->run;

	ranked->run = 0;
	return run ? weir_builder_fixed(&ranked->out.children[1].children[0], &run, 1, err) : WEIR_OK;
}

static int distinct_push(struct weir_ranked *ranked, const struct weir_column *column, uint32_t row, uint64_t count,
			 bool is_new, struct weir_error *err)
{
	int code = WEIR_OK;

	ranked->count += is_new;
	switch (ranked->item->function) {
	case WEIR_UNIQUE_VALUES:
		return is_new ? put_distinct(&ranked->out.children[0], column, row, err) : WEIR_OK;
	case WEIR_VALUE_COUNTS:
		if (is_new)
			code = counts_flush(ranked, err);
		ranked->run += (int64_t)count;
		return code || !is_new ? code : put_distinct(&ranked->out.children[0].children[0], column, row, err);
	default:
		return WEIR_OK;
	}
}

int weir_ranked_push(struct weir_ranked *ranked, const struct weir_column *column, uint32_t row, uint64_t count,
		     bool is_new, struct weir_error *err)
{
	bool null = is_null(column, row);
	enum weir_aggregate_function function = ranked->item->function;
	double real;

	if (null)
		ranked->nulls += count;
	switch (function) {
	case WEIR_QUANTILE:
	case WEIR_APPROX_QUANTILE:
		real = null ? (double)NAN : real_of(column, row);
		if (isnan(real))
			return WEIR_OK;
		return function == WEIR_QUANTILE ? quantile_push(ranked, real, count, err)
						 : sample_push(ranked, real, count, err);
	case WEIR_APPROX_TOP_K:
		return null ? WEIR_OK : top_push(ranked, column, row, count, is_new, err);
	default:
		return null && !ranked->item->with_nulls ? WEIR_OK
							 : distinct_push(ranked, column, row, count, is_new, err);
	}
}

static int put_result(struct weir_ranked *ranked, struct weir_error *err)
{
	int64_t count = (int64_t)ranked->count;
	int code;

	switch (ranked->item->function) {
	case WEIR_QUANTILE:
		return quantile_end(ranked, err);
	case WEIR_APPROX_QUANTILE:
		return sample_end(ranked, err);
	case WEIR_APPROX_TOP_K:
		return top_end(ranked, err);
	case WEIR_UNIQUE_VALUES:
		return weir_builder_list_end(&ranked->out, err);
	case WEIR_VALUE_COUNTS:
		code = counts_flush(ranked, err);
		for (uint32_t i = 0; i < 2 && !code; i++)
			code = weir_builder_list_end(&ranked->out.children[i], err);
		return code ? code : weir_builder_struct_end(&ranked->out, err);
	default:
		return weir_builder_fixed(&ranked->out, &count, 1, err);
	}
}

/* The builders that values of a group go to while they come; how many there are. */
static uint32_t lists_of(struct weir_ranked *ranked, struct weir_builder *lists[2])
{
	switch (ranked->item->function) {
	case WEIR_UNIQUE_VALUES:
		lists[0] = &ranked->out;
		return 1;
	case WEIR_VALUE_COUNTS:
		lists[0] = &ranked->out.children[0];
		lists[1] = &ranked->out.children[1];
		return 2;
	default:
		return 0;
	}
}

int weir_ranked_end(struct weir_ranked *ranked, struct weir_error *err)
{
	int code = put_result(ranked, err);
	struct weir_builder *lists[2];

	if (lists_of(ranked, lists))
		ranked->ended = lists[0]->children[0].length;
	ranked->count = ranked->nulls = ranked->base = ranked->expected = 0;
	ranked->run = 0;
	ranked->values.count = ranked->head = 0;
	ranked->samples.count = 0;
	ranked->step = 1;
	return code;
}

int weir_ranked_finish(struct weir_ranked *ranked, struct weir_array **out, struct weir_error *err)
{
	struct weir_builder *lists[2];
	uint32_t count = lists_of(ranked, lists);
	int64_t first = ranked->ended;
	int code = WEIR_OK;

	*out = weir_builder_finish(&ranked->out, err);
	if (!*out)
		return err->code;
	ranked->ended = 0;
	for (uint32_t i = 0; i < count && !code; i++) {
		const struct weir_array *values = count == 1 ? (*out)->children[0] : (*out)->children[i]->children[0];
		struct weir_builder *to = &lists[i]->children[0];

		if (values->length > first)
			code = weir_builder_array(to, values, first, values->length - first, err);
		if (!code)
			code = weir_builder_settle(to, err);
	}
	return code;
}
