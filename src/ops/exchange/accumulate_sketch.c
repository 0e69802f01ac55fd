/* What groups' rows hold of values that are only estimated: a cell with a sketch (quantiles.h, frequent.h). */
#include "expr/scalar.h"
#include "ops/exchange/accumulate_impl.h"

#include <stdlib.h>

bool weir_accumulators_take_type(const struct weir_aggregate_item *item, const struct weir_type *type)
{
	switch (item->function) {
	case WEIR_APPROX_QUANTILE:
		return true;
	case WEIR_APPROX_TOP_K:
		return type->layout != WEIR_LAYOUT_NESTED;
	default:
		return !weir_aggregate_is_holistic(item->function);
	}
}

int weir_sketches_init(struct weir_accumulators *all, struct weir_error *err)
{
	const struct weir_aggregates *aggregates = all->aggregates;

	all->sketches = weir_alloc_zero(all->account, (aggregates->item_count + 1) * sizeof(*all->sketches), err);
	if (!all->sketches)
		return err->code;
	for (uint32_t i = 0; i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		struct weir_sketch *sketch = &all->sketches[i];

		sketch->cell = WEIR_NOWHERE;
		if (!weir_aggregate_is_holistic(item->function))
			continue;
		sketch->function = item->function;
		sketch->summary = item->summary;
		if (item->function == WEIR_APPROX_QUANTILE)
			weir_quantiles_init(&sketch->quantiles, item->numbers[0]);
		else
			sketch->capacity = (uint32_t)1 << (uint32_t)item->numbers[1];
		all->has_sketches = true;
	}
	return WEIR_OK;
}

/* ---- a row's sketch ---- */

static inline uint8_t *sketch_of(const struct weir_accumulators *all, const struct weir_sketch *sketch,
				 const uint8_t *row, uint32_t *size)
{
	struct weir_view view = weir_row_view(row + all->layout.cells[sketch->cell].offset);

	*size = view.size;
	return (uint8_t *)(uintptr_t)view.data;
}

/* An empty one, where there is none yet. */
static int begin(const struct weir_accumulators *all, const struct weir_sketch *sketch, uint8_t *row,
		 struct weir_row_heap *heap, struct weir_error *err)
{
	bool is_quantile = sketch->function == WEIR_APPROX_QUANTILE;
	uint8_t *bytes;

	if (weir_row_valid(&all->layout, row, sketch->cell))
		return WEIR_OK;
	bytes = weir_row_heap_room(heap, row + all->layout.cells[sketch->cell].offset,
				   is_quantile ? WEIR_QUANTILES_NEW : WEIR_FREQUENT_NEW, err);
	if (!bytes)
		return err->code;
	row[all->layout.validity_offset + (sketch->cell >> 3)] |= (uint8_t)(1u << (sketch->cell & 7));
	if (is_quantile)
		weir_quantiles_new(bytes);
	else
		weir_frequent_new(bytes);
	return WEIR_OK;
}

static int add_numbers(const struct weir_accumulators *all, const struct weir_sketch *sketch, uint8_t *row,
		       const uint64_t *values, uint32_t count, struct weir_row_heap *heap, struct weir_arena *arena,
		       struct weir_error *err)
{
	int code = begin(all, sketch, row, heap, err);

	while (count && !code) {
		uint32_t size, done, wanted;
		uint8_t *bytes = sketch_of(all, sketch, row, &size), *more;

		code = weir_quantiles_push(&sketch->quantiles, bytes, size, values, count, &done, &wanted, arena, err);
		if (code)
			return code;
		values += done;
		count -= done;
		if (!wanted)
			continue;
		more = weir_row_heap_room(heap, row + all->layout.cells[sketch->cell].offset, wanted, err);
		if (!more)
			return err->code;
		memcpy(more, bytes, weir_quantiles_used(bytes));
	}
	return code;
}

static int add_value(const struct weir_accumulators *all, const struct weir_sketch *sketch, uint8_t *row,
		     const uint8_t *value, uint32_t value_size, uint64_t count, struct weir_row_heap *heap,
		     struct weir_arena *arena, struct weir_error *err)
{
	int code = begin(all, sketch, row, heap, err);
	uint32_t size, wanted = 1;

	while (!code && wanted) {
		uint8_t *bytes = sketch_of(all, sketch, row, &size), *more;

		code = weir_frequent_push(bytes, sketch->capacity, value, value_size, count, &wanted, arena, err);
		if (code || !wanted)
			break;
		more = weir_row_heap_room(heap, row + all->layout.cells[sketch->cell].offset, wanted, err);
		if (!more)
			return err->code;
		weir_frequent_move(bytes, more, value_size);
	}
	return code;
}

/* ---- vectors ---- */

static double real_of(const struct weir_type *type, const void *values, uint32_t at)
{
	struct weir_column column = {.type = type, .form = WEIR_FLAT, .values = values};
	struct weir_scalar value;

	weir_scalar_load(&column, at, &value);
	return weir_summary_real(type, &value);
}

static inline double number_at(const struct weir_type *type, const void *values, uint32_t at)
{
	switch (type->id) {
	case WEIR_DOUBLE:
		return ((const double *)values)[at];
	case WEIR_FLOAT:
		return (double)((const float *)values)[at];
	case WEIR_INT64:
		return (double)((const int64_t *)values)[at];
	case WEIR_INT32:
		return ((const int32_t *)values)[at];
	case WEIR_BOOL:
		return ((const uint8_t *)values)[at];
	default:
		return real_of(type, values, at);
	}
}

static int push_numbers(const struct weir_accumulators *all, const struct weir_sketch *sketch,
			const struct weir_batch_rows *batch, struct weir_row_heap *heap, struct weir_arena *arena,
			struct weir_error *err)
{
	uint64_t *bits = weir_arena_alloc(arena, (batch->count + 1) * sizeof(*bits), err);
	uint8_t **to = bits ? weir_arena_alloc(arena, (batch->count + 1) * sizeof(*to), err) : NULL;
	uint32_t count = 0;
	int code = WEIR_OK;

	if (!to)
		return err->code;
	for (uint32_t i = 0; i < batch->count; i++) {
		double value = number_at(batch->of->type, batch->values, weir_batch_at(batch, i));

		bits[count] = weir_quantiles_bits(value);
		to[count] = batch->to[i];
		count += value == value;
	}
	for (uint32_t i = 0, end; i < count && !code; i = end) {
		for (end = i + 1; end < count && to[end] == to[i]; end++)
			;
		code = add_numbers(all, sketch, to[i], bits + i, end - i, heap, arena, err);
	}
	return code;
}

/* A NaN is like any other. */
static void settle(const struct weir_type *type, uint8_t *value)
{
	static const uint64_t nan_64 = 0x7ff8000000000000u;
	static const uint32_t nan_32 = 0x7fc00000u;
	static const uint16_t nan_16 = 0x7e00u;
	double real;
	float single;
	uint16_t half;

	switch (type->id) {
	case WEIR_DOUBLE:
		memcpy(&real, value, sizeof(real));
		if (real != real)
			memcpy(value, &nan_64, sizeof(nan_64));
		break;
	case WEIR_FLOAT:
		memcpy(&single, value, sizeof(single));
		if (single != single)
			memcpy(value, &nan_32, sizeof(nan_32));
		break;
	case WEIR_HALF:
		memcpy(&half, value, sizeof(half));
		if ((half & 0x7fff) > 0x7c00)
			memcpy(value, &nan_16, sizeof(nan_16));
		break;
	default:
		break;
	}
}

static int push_values(const struct weir_accumulators *all, const struct weir_sketch *sketch,
		       const struct weir_batch_rows *batch, struct weir_row_heap *heap, struct weir_arena *arena,
		       struct weir_error *err)
{
	const struct weir_type *type = batch->of->type;
	uint32_t width = type->layout == WEIR_LAYOUT_BITS ? 1 : type->byte_width;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < batch->count && !code; i++) {
		uint32_t at = weir_batch_at(batch, i);

		if (type->layout == WEIR_LAYOUT_BYTES) {
			const struct weir_view *view = (const struct weir_view *)batch->values + at;

			code = add_value(all, sketch, batch->to[i], weir_view_bytes(view), view->size, 1, heap, arena,
					 err);
		} else if (weir_type_is_float(type)) {
			uint8_t value[8];

			memcpy(value, (const uint8_t *)batch->values + (size_t)at * width, width);
			settle(type, value);
			code = add_value(all, sketch, batch->to[i], value, width, 1, heap, arena, err);
		} else {
			code = add_value(all, sketch, batch->to[i], (const uint8_t *)batch->values + (size_t)at * width,
					 width, 1, heap, arena, err);
		}
	}
	return code;
}

int weir_sketches_push(const struct weir_accumulators *all, const struct weir_batch_rows *batch,
		       struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err)
{
	uint32_t summary = (uint32_t)(batch->of - all->items);
	int code = WEIR_OK;

	for (uint32_t i = 0; i < all->aggregates->item_count && !code; i++) {
		const struct weir_sketch *sketch = &all->sketches[i];

		if (sketch->cell == WEIR_NOWHERE || sketch->summary != summary)
			continue;
		code = sketch->function == WEIR_APPROX_QUANTILE ? push_numbers(all, sketch, batch, heap, arena, err)
								: push_values(all, sketch, batch, heap, arena, err);
	}
	return code;
}

/* ---- two rows ---- */

static int merge_numbers(const struct weir_accumulators *all, const struct weir_sketch *sketch, uint8_t *to,
			 const uint8_t *from, struct weir_row_heap *heap, struct weir_arena *arena,
			 struct weir_error *err)
{
	uint32_t size, made_size, ignored;
	const uint8_t *made, *other = sketch_of(all, sketch, from, &ignored);
	uint8_t *bytes, *cell = to + all->layout.cells[sketch->cell].offset;
	int code = begin(all, sketch, to, heap, err);

	if (code)
		return code;
	bytes = sketch_of(all, sketch, to, &size);
	code = weir_quantiles_merge(&sketch->quantiles, bytes, other, arena, &made, &made_size, err);
	if (code)
		return code;
	if (made_size > size) {
		/* Twice as much, for those that follow. */
		bytes = weir_row_heap_room(heap, cell, made_size * 2, err);
		if (!bytes)
			return err->code;
	}
	memcpy(bytes, made, made_size);
	return WEIR_OK;
}

static int merge_values(const struct weir_accumulators *all, const struct weir_sketch *sketch, uint8_t *to,
			const uint8_t *from, struct weir_row_heap *heap, struct weir_arena *arena,
			struct weir_error *err)
{
	uint32_t size;
	const uint8_t *other = sketch_of(all, sketch, from, &size);
	uint32_t count = weir_frequent_count(other);
	int code = begin(all, sketch, to, heap, err);

	for (uint32_t i = 0; i < count && !code; i++) {
		uint64_t most;
		const uint8_t *value = weir_frequent_value(other, i, &size, &most);

		code = add_value(all, sketch, to, value, size, weir_frequent_least(other, i), heap, arena, err);
	}
	if (!code)
		weir_frequent_take_over(sketch_of(all, sketch, to, &size), other);
	return code;
}

int weir_sketches_merge(const struct weir_accumulators *all, uint8_t *to, const uint8_t *from,
			struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err)
{
	int code = WEIR_OK;

	weir_arena_clear(arena);
	for (uint32_t i = 0; i < all->aggregates->item_count && !code; i++) {
		const struct weir_sketch *sketch = &all->sketches[i];

		if (sketch->cell == WEIR_NOWHERE || !weir_row_valid(&all->layout, from, sketch->cell))
			continue;
		code = sketch->function == WEIR_APPROX_QUANTILE ? merge_numbers(all, sketch, to, from, heap, arena, err)
								: merge_values(all, sketch, to, from, heap, arena, err);
	}
	return code;
}

void weir_accumulators_pack(const struct weir_accumulators *all, uint8_t *row)
{
	for (uint32_t i = 0; all->has_sketches && i < all->aggregates->item_count; i++) {
		const struct weir_sketch *sketch = &all->sketches[i];
		struct weir_view view;
		uint8_t *cell;

		if (sketch->cell == WEIR_NOWHERE || !weir_row_valid(&all->layout, row, sketch->cell))
			continue;
		cell = row + all->layout.cells[sketch->cell].offset;
		view = weir_row_view(cell);
		view.size = sketch->function == WEIR_APPROX_QUANTILE
				    ? weir_quantiles_used(view.data)
				    : weir_frequent_pack((uint8_t *)(uintptr_t)view.data);
		weir_row_view_put(cell, view);
	}
}

/* ---- results ---- */

struct counted {
	uint64_t count;
	const uint8_t *value;
	uint32_t size;
	const struct weir_type *type;
};

static int compare_values(const struct counted *a, const struct counted *b)
{
	uint64_t one[4] = {0}, two[4] = {0};
	struct weir_column x = {.type = a->type, .form = WEIR_FLAT, .values = one}, y = x;
	struct weir_scalar left, right;
	uint32_t shorter = a->size < b->size ? a->size : b->size;
	int order;

	if (a->type->layout == WEIR_LAYOUT_BYTES || a->type->id == WEIR_FIXED_BINARY ||
	    a->type->layout == WEIR_LAYOUT_BITS) {
		order = memcmp(a->value, b->value, shorter);
		return order ? order : (a->size > b->size) - (a->size < b->size);
	}
	memcpy(one, a->value, a->size);
	memcpy(two, b->value, b->size);
	y.values = two;
	weir_scalar_load(&x, 0, &left);
	weir_scalar_load(&y, 0, &right);
	order = weir_scalar_compare(&left, &right);
	/* NaN is the last. */
	return order != 2 ? order
			  : (weir_scalar_compare(&left, &left) != 0) - (weir_scalar_compare(&right, &right) != 0);
}

static int compare_counted(const void *a_object, const void *b_object)
{
	const struct counted *a = a_object, *b = b_object;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return compare_values(a, b);
}

static int put_values(const uint8_t *sketch, const struct weir_aggregate_item *item, const struct weir_type *type,
		      struct weir_builder *out, struct weir_arena *arena, struct weir_error *err)
{
	struct weir_builder *entries = &out->children[0];
	uint32_t count = sketch ? weir_frequent_count(sketch) : 0, most = (uint32_t)item->numbers[0];
	struct counted *all = weir_arena_alloc(arena, (count + 1) * sizeof(*all), err);
	int code = all ? WEIR_OK : err->code;

	for (uint32_t i = 0; i < count && !code; i++) {
		all[i].type = type;
		all[i].value = weir_frequent_value(sketch, i, &all[i].size, &all[i].count);
	}
	if (!code)
		qsort(all, count, sizeof(*all), compare_counted);
	for (uint32_t i = 0; i < count && i < most && !code; i++) {
		int64_t times = (int64_t)all[i].count;

		code = type->layout == WEIR_LAYOUT_BYTES
			       ? weir_builder_bytes(&entries->children[0], all[i].value, all[i].size, err)
			       : weir_builder_fixed(&entries->children[0], all[i].value, 1, err);
		if (!code)
			code = weir_builder_fixed(&entries->children[1], &times, 1, err);
		if (!code)
			code = weir_builder_struct_end(entries, err);
	}
	return code ? code : weir_builder_list_end(out, err);
}

static int put_numbers(const uint8_t *sketch, const struct weir_aggregate_item *item, struct weir_builder *out,
		       struct weir_arena *arena, struct weir_error *err)
{
	uint32_t count = item->number_count - 1;
	double *found;
	int code;

	if (!sketch)
		return weir_builder_null(out, 1, err);
	found = weir_arena_alloc(arena, (count + 1) * sizeof(*found), err);
	if (!found)
		return err->code;
	code = weir_quantiles_take(sketch, item->numbers + 1, count, found, arena, err);
	if (!code)
		code = weir_builder_fixed(&out->children[0], found, count, err);
	return code ? code : weir_builder_list_end(out, err);
}

int weir_sketches_take(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
		       const struct weir_type *type, const uint8_t *const *rows, uint32_t count,
		       struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
		       struct weir_error *err)
{
	const struct weir_sketch *sketch = &all->sketches[item - all->aggregates->items];
	uint64_t *valid = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*valid), err);
	struct weir_builder builder;
	uint32_t size;
	int code = valid ? weir_builder_init(&builder, type, all->account, err) : err->code;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT, .validity = valid};
	*nested = NULL;
	if (code)
		return code;
	for (uint32_t i = 0; i < count && !code; i++) {
		const uint8_t *bytes = weir_row_valid(&all->layout, rows[i], sketch->cell)
					       ? sketch_of(all, sketch, rows[i], &size)
					       : NULL;
		bool there = bytes || sketch->function == WEIR_APPROX_TOP_K;

		valid[i >> 6] |= (uint64_t)there << (i & 63);
		code = sketch->function == WEIR_APPROX_QUANTILE
			       ? put_numbers(bytes, item, &builder, arena, err)
			       : put_values(bytes, item, all->items[sketch->summary].type, &builder, arena, err);
	}
	if (!code)
		code = weir_builder_settle(&builder, err);
	if (!code) {
		*nested = weir_builder_finish(&builder, err);
		out->nested = *nested;
		code = *nested ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	return code;
}
