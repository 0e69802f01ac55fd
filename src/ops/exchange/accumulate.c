#include "ops/exchange/accumulate.h"

#include "vector/kernels.h"
#include "expr/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HAS_VALUE = 1, HAS_NULL = 2, HAS_EXTREME = 4 };

/* ---- which, and where ---- */

static uint32_t place(uint32_t *at, uint32_t bytes)
{
	uint32_t here = *at;

	*at += (bytes + 7) / 8 * 8;
	return here;
}

static uint32_t sum_bytes(enum weir_summary_kind kind)
{
	return kind == WEIR_SUMMARY_DECIMAL ? 32 : 16;
}

static uint32_t squares_bytes(enum weir_summary_kind kind)
{
	/* INTEGER: 192 bits; REAL: two doubles; DECIMAL: two doubles of the sum, and two of the squares. */
	return kind == WEIR_SUMMARY_INTEGER ? 24 : kind == WEIR_SUMMARY_REAL ? 16 : 32;
}

/* Places in the payload, from its beginning on, of what the item needs of its column. */
static void need(struct weir_accumulators *all, const struct weir_aggregate_item *item, struct weir_accumulator *of,
		 uint32_t *at)
{
	enum weir_aggregate_function function = item->function;
	bool rows = !item->column || function == WEIR_MISSING_PERCENT ||
		    (item->with_nulls && (function == WEIR_COUNT || function == WEIR_ZERO_PERCENT));
	bool has_sum = of && of->kind != WEIR_SUMMARY_NONE;

	if (rows && all->rows == WEIR_NOWHERE)
		all->rows = place(at, 8);
	if (!of)
		return;
	if (of->values == WEIR_NOWHERE &&
	    ((function == WEIR_COUNT && !item->with_nulls) || function == WEIR_MEAN || function == WEIR_STD ||
	     function == WEIR_MISSING_PERCENT || function == WEIR_ZERO_PERCENT))
		of->values = place(at, 8);
	if (function == WEIR_MISSING_PERCENT && of->kind == WEIR_SUMMARY_REAL && of->nans == WEIR_NOWHERE)
		of->nans = place(at, 8);
	if (function == WEIR_ZERO_PERCENT && of->zeros == WEIR_NOWHERE)
		of->zeros = place(at, 8);
	if (has_sum && of->sum == WEIR_NOWHERE && (function == WEIR_SUM || function == WEIR_MEAN || function == WEIR_STD))
		of->sum = place(at, sum_bytes(of->kind));
	if (has_sum && of->squares == WEIR_NOWHERE && function == WEIR_STD)
		of->squares = place(at, squares_bytes(of->kind));
	if (of->type->layout == WEIR_LAYOUT_FIXED || of->type->layout == WEIR_LAYOUT_BITS) {
		uint32_t width = of->type->layout == WEIR_LAYOUT_BITS ? 1 : of->type->byte_width;

		if (of->least == WEIR_NOWHERE && (function == WEIR_MIN || function == WEIR_ABSMAX))
			of->least = place(at, width);
		if (of->greatest == WEIR_NOWHERE && (function == WEIR_MAX || function == WEIR_ABSMAX))
			of->greatest = place(at, width);
	}
}

/* From offsets in the payload to offsets in the row. */
static void shift(uint32_t *offset, uint32_t by)
{
	if (*offset != WEIR_NOWHERE)
		*offset += by;
}

static void shift_all(struct weir_accumulators *all)
{
	uint32_t by = all->layout.payload_offset;

	shift(&all->rows, by);
	for (uint32_t i = 0; i < all->count; i++) {
		struct weir_accumulator *of = &all->items[i];

		of->flags = all->layout.flags_offset + i;
		shift(&of->values, by);
		shift(&of->nans, by);
		shift(&of->zeros, by);
		shift(&of->sum, by);
		shift(&of->squares, by);
		shift(&of->least, by);
		shift(&of->greatest, by);
	}
}

int weir_accumulators_init(struct weir_accumulators *all, struct weir_account *account,
			   const struct weir_aggregates *aggregates, const struct weir_schema *schema, const uint32_t *keys,
			   uint32_t key_count, struct weir_error *err)
{
	uint32_t count = aggregates->column_count, cells = key_count, payload = 0, capacity = key_count + 2 * count + 1;
	const struct weir_type **types = weir_alloc_zero(account, capacity * sizeof(*types), err);
	int code = types ? WEIR_OK : err->code;

	*all = (struct weir_accumulators){
		.account = account, .aggregates = aggregates, .schema = schema, .count = count, .rows = WEIR_NOWHERE,
		.cells_max = capacity};
	all->items = code ? NULL : weir_alloc_zero(account, (count + 1) * sizeof(*all->items), err);
	all->numbers = all->items ? weir_alloc_zero(account, capacity * sizeof(*all->numbers), err) : NULL;
	if (!all->numbers)
		code = err->code;
	for (uint32_t i = 0; i < key_count && !code; i++) {
		all->numbers[i] = keys[i];
		types[i] = schema->fields[keys[i]].type;
	}
	for (uint32_t i = 0; i < count && !code; i++) {
		struct weir_accumulator *of = &all->items[i];

		memset(of, 0xff, sizeof(*of)); /* nowhere */
		code = weir_schema_find(schema, aggregates->columns[i], &of->column, err);
		if (code)
			break;
		of->type = weir_type_values(schema->fields[of->column].type);
		of->kind = weir_summary_kind(of->type);
	}
	for (uint32_t i = 0; i < aggregates->item_count && !code; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		struct weir_accumulator *of = item->column ? &all->items[item->summary] : NULL;
		bool is_least = item->function == WEIR_MIN, is_greatest = item->function == WEIR_MAX;

		need(all, item, of, &payload);
		if (!of || of->type->layout != WEIR_LAYOUT_BYTES || (!is_least && !is_greatest))
			continue;
		if ((is_least ? of->least_cell : of->greatest_cell) != WEIR_NOWHERE)
			continue;
		*(is_least ? &of->least_cell : &of->greatest_cell) = cells;
		all->numbers[cells] = of->column;
		types[cells++] = of->type;
	}
	if (!code)
		code = weir_row_layout_init(&all->layout, account, types, cells, key_count, count, payload, err);
	if (!code)
		shift_all(all);
	weir_free(account, types, types ? capacity * sizeof(*types) : 0);
	if (code)
		weir_accumulators_release(all);
	return code;
}

void weir_accumulators_release(struct weir_accumulators *all)
{
	if (!all->account)
		return;
	weir_free(all->account, all->numbers, all->cells_max * sizeof(*all->numbers));
	weir_free(all->account, all->items, (all->count + 1) * sizeof(*all->items));
	weir_row_layout_release(&all->layout);
	*all = (struct weir_accumulators){0};
}

/* ---- numbers in rows ---- */

static inline void add_count(uint8_t *to, uint64_t more)
{
	uint64_t value;

	memcpy(&value, to, sizeof(value));
	value += more;
	memcpy(to, &value, sizeof(value));
}

static inline uint64_t load_count(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline __int128 load_whole(const uint8_t *from)
{
	__int128 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void add_whole(uint8_t *to, __int128 more)
{
	__int128 value = load_whole(to) + more;

	memcpy(to, &value, sizeof(value));
}

/* 192 bits. */
static inline void add_squares(uint8_t *to, unsigned __int128 low, uint64_t high)
{
	unsigned __int128 value;

	memcpy(&value, to, sizeof(value));
	high += __builtin_add_overflow(value, low, &value);
	memcpy(to, &value, sizeof(value));
	add_count(to + 16, high);
}

/* A sum of doubles and what it has lost by rounding. */
struct pair {
	double high, low;
};

static inline struct pair load_pair(const uint8_t *from)
{
	struct pair pair;

	memcpy(&pair, from, sizeof(pair));
	return pair;
}

static inline void store_pair(uint8_t *to, struct pair pair)
{
	memcpy(to, &pair, sizeof(pair));
}

/* Without a branch, exact whichever of the two is greater. */
static inline struct pair pair_add(struct pair pair, double value)
{
	double sum = pair.high + value, part = sum - pair.high;

	pair.low += (pair.high - (sum - part)) + (value - part);
	pair.high = sum;
	return pair;
}

static inline struct pair pair_add_pair(struct pair a, struct pair b)
{
	a = pair_add(a, b.high);
	a.low += b.low;
	return a;
}

static inline struct pair pair_square(double value)
{
	double high = value * value;

	return (struct pair){high, fma(value, value, -high)};
}

static inline struct pair pair_times(struct pair a, double by)
{
	double high = a.high * by;

	return (struct pair){high, fma(a.high, by, -high) + a.low * by};
}

/* What is not finite has no loss worth knowing. */
static inline double pair_value(struct pair pair)
{
	return isfinite(pair.high) ? pair.high + pair.low : pair.high;
}

/* ---- values ---- */

/* The rows of a vector that have a value: where it is, and where it goes. */
struct batch {
	const struct weir_accumulator *of;
	const void *values;
	const uint32_t *at; /* NULL: value i is at i */
	uint8_t *const *to;
	uint32_t count;
};

static inline uint32_t batch_at(const struct batch *batch, uint32_t i)
{
	return batch->at ? batch->at[i] : i;
}

static inline void note_value(const struct weir_accumulator *of, uint8_t *row)
{
	row[of->flags] |= HAS_VALUE;
	if (of->values != WEIR_NOWHERE)
		add_count(row + of->values, 1);
}

static void push_notes(const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++)
		note_value(batch->of, batch->to[i]);
}

#define PUSH_WHOLE(name, type)                                                                                         \
	static void push_##name(const struct batch *batch)                                                             \
	{                                                                                                              \
		const struct weir_accumulator *of = batch->of;                                                         \
		const type *values = batch->values;                                                                    \
                                                                                                                       \
		for (uint32_t i = 0; i < batch->count; i++) {                                                          \
			type value = values[batch_at(batch, i)];                                                       \
			uint8_t *row = batch->to[i];                                                                   \
                                                                                                                       \
			note_value(of, row);                                                                           \
			if (of->sum != WEIR_NOWHERE)                                                                   \
				add_whole(row + of->sum, (__int128)value);                                             \
			if (of->squares != WEIR_NOWHERE)                                                               \
				add_squares(row + of->squares, (unsigned __int128)((__int128)value * (__int128)value), 0); \
			if (of->zeros != WEIR_NOWHERE)                                                                 \
				add_count(row + of->zeros, value == 0);                                                \
		}                                                                                                      \
	}
PUSH_WHOLE(i8, int8_t)
PUSH_WHOLE(i16, int16_t)
PUSH_WHOLE(i32, int32_t)
PUSH_WHOLE(i64, int64_t)
PUSH_WHOLE(u8, uint8_t)
PUSH_WHOLE(u16, uint16_t)
PUSH_WHOLE(u32, uint32_t)

/* The square of a great one does not fit a signed number. */
static void push_u64(const struct batch *batch)
{
	const struct weir_accumulator *of = batch->of;

	for (uint32_t i = 0; i < batch->count; i++) {
		uint64_t value = ((const uint64_t *)batch->values)[batch_at(batch, i)];
		uint8_t *row = batch->to[i];

		note_value(of, row);
		if (of->sum != WEIR_NOWHERE)
			add_whole(row + of->sum, (__int128)value);
		if (of->squares != WEIR_NOWHERE)
			add_squares(row + of->squares, (unsigned __int128)value * value, 0);
		if (of->zeros != WEIR_NOWHERE)
			add_count(row + of->zeros, value == 0);
	}
}

static inline void push_real(const struct weir_accumulator *of, uint8_t *row, double value)
{
	note_value(of, row);
	if (of->sum != WEIR_NOWHERE)
		store_pair(row + of->sum, pair_add(load_pair(row + of->sum), value));
	if (of->squares != WEIR_NOWHERE)
		store_pair(row + of->squares, pair_add_pair(load_pair(row + of->squares), pair_square(value)));
	if (of->zeros != WEIR_NOWHERE)
		add_count(row + of->zeros, value == 0);
	if (of->nans != WEIR_NOWHERE)
		add_count(row + of->nans, value != value);
}

#define PUSH_REAL(name, type)                                                                                          \
	static void push_##name(const struct batch *batch)                                                             \
	{                                                                                                              \
		const type *values = batch->values;                                                                    \
                                                                                                                       \
		for (uint32_t i = 0; i < batch->count; i++)                                                            \
			push_real(batch->of, batch->to[i], (double)values[batch_at(batch, i)]);                        \
	}
PUSH_REAL(f32, float)
PUSH_REAL(f64, double)

static void push_halves(const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++)
		push_real(batch->of, batch->to[i],
			  (double)weir_half_to_float(((const uint16_t *)batch->values)[batch_at(batch, i)]));
}

static int push_decimals(const struct batch *batch, struct weir_error *err)
{
	const struct weir_accumulator *of = batch->of;
	uint32_t width = of->type->byte_width;

	for (uint32_t i = 0; i < batch->count; i++) {
		struct weir_int256 value = weir_int256_load((const uint8_t *)batch->values + (size_t)batch_at(batch, i) * width, width);
		uint8_t *row = batch->to[i];

		note_value(of, row);
		if (of->zeros != WEIR_NOWHERE)
			add_count(row + of->zeros, !(value.words[0] | value.words[1] | value.words[2] | value.words[3]));
		if (of->sum != WEIR_NOWHERE) {
			struct weir_int256 sum;

			memcpy(&sum, row + of->sum, sizeof(sum));
			if (weir_int256_add(&sum, &value, &sum))
				return weir_error_set(err, WEIR_E_OVERFLOW, "a sum of decimals does not fit 256 bits");
			memcpy(row + of->sum, &sum, sizeof(sum));
		}
		if (of->squares != WEIR_NOWHERE) {
			double real = weir_decimal_to_double(&value, of->type->scale);

			store_pair(row + of->squares, pair_add(load_pair(row + of->squares), real));
			store_pair(row + of->squares + 16, pair_add_pair(load_pair(row + of->squares + 16), pair_square(real)));
		}
	}
	return WEIR_OK;
}

/* ---- extremes ---- */

/* A NaN is none. */
#define EXTREMES(name, type)                                                                                           \
	static inline void extreme_##name(const struct weir_accumulator *of, uint8_t *row, type value)                 \
	{                                                                                                              \
		bool known = row[of->flags] & HAS_EXTREME;                                                             \
		type bound;                                                                                            \
                                                                                                                       \
		if (value != value)                                                                                    \
			return;                                                                                        \
		if (of->least != WEIR_NOWHERE) {                                                                       \
			memcpy(&bound, row + of->least, sizeof(bound));                                                \
			if (!known || value < bound)                                                                   \
				memcpy(row + of->least, &value, sizeof(value));                                        \
		}                                                                                                      \
		if (of->greatest != WEIR_NOWHERE) {                                                                    \
			memcpy(&bound, row + of->greatest, sizeof(bound));                                             \
			if (!known || value > bound)                                                                   \
				memcpy(row + of->greatest, &value, sizeof(value));                                     \
		}                                                                                                      \
		row[of->flags] |= HAS_EXTREME;                                                                         \
	}                                                                                                              \
	static void extremes_##name(const struct batch *batch)                                                         \
	{                                                                                                              \
		for (uint32_t i = 0; i < batch->count; i++)                                                            \
			extreme_##name(batch->of, batch->to[i], ((const type *)batch->values)[batch_at(batch, i)]);    \
	}                                                                                                              \
	static void extremes_merge_##name(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from)         \
	{                                                                                                              \
		type value;                                                                                            \
                                                                                                                       \
		/* The first one counts for both where nothing was known, and the second puts that right. */            \
		if (of->least != WEIR_NOWHERE) {                                                                       \
			memcpy(&value, from + of->least, sizeof(value));                                               \
			extreme_##name(of, to, value);                                                                 \
		}                                                                                                      \
		if (of->greatest != WEIR_NOWHERE) {                                                                    \
			memcpy(&value, from + of->greatest, sizeof(value));                                            \
			extreme_##name(of, to, value);                                                                 \
		}                                                                                                      \
	}
EXTREMES(i8, int8_t)
EXTREMES(i16, int16_t)
EXTREMES(i32, int32_t)
EXTREMES(i64, int64_t)
EXTREMES(u8, uint8_t)
EXTREMES(u16, uint16_t)
EXTREMES(u32, uint32_t)
EXTREMES(u64, uint64_t)
EXTREMES(f32, float)
EXTREMES(f64, double)

/* By how the numbers lie. */
static const struct {
	void (*push)(const struct batch *batch);
	void (*extremes)(const struct batch *batch);
	void (*merge)(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from);
} numbers[WEIR_NUMBER_COUNT] = {
	[WEIR_I8] = {push_i8, extremes_i8, extremes_merge_i8},     [WEIR_I16] = {push_i16, extremes_i16, extremes_merge_i16},
	[WEIR_I32] = {push_i32, extremes_i32, extremes_merge_i32}, [WEIR_I64] = {push_i64, extremes_i64, extremes_merge_i64},
	[WEIR_U8] = {push_u8, extremes_u8, extremes_merge_u8},     [WEIR_U16] = {push_u16, extremes_u16, extremes_merge_u16},
	[WEIR_U32] = {push_u32, extremes_u32, extremes_merge_u32}, [WEIR_U64] = {push_u64, extremes_u64, extremes_merge_u64},
	[WEIR_F32] = {push_f32, extremes_f32, extremes_merge_f32}, [WEIR_F64] = {push_f64, extremes_f64, extremes_merge_f64},
};

/* Booleans are bytes here. */
static enum weir_number number_of(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_BOOL:
		return WEIR_U8;
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
	case WEIR_TIME64:
	case WEIR_DATE64:
		return WEIR_I64;
	case WEIR_DATE32:
	case WEIR_TIME32:
		return WEIR_I32;
	default:
		return weir_type_number(type);
	}
}

/* Of types that are rarer or wider. */
static void extreme_any(const struct weir_accumulator *of, uint8_t *row, const void *value)
{
	struct weir_column here = {.type = of->type, .form = WEIR_FLAT, .values = value}, there = here;
	struct weir_scalar new, old;
	uint32_t width = of->type->byte_width;
	bool known = row[of->flags] & HAS_EXTREME;

	weir_scalar_load(&here, 0, &new);
	if (weir_scalar_compare(&new, &new) != 0) /* NaN */
		return;
	if (of->least != WEIR_NOWHERE) {
		there.values = row + of->least;
		weir_scalar_load(&there, 0, &old);
		if (!known || weir_scalar_compare(&new, &old) < 0)
			memcpy(row + of->least, value, width);
	}
	if (of->greatest != WEIR_NOWHERE) {
		there.values = row + of->greatest;
		weir_scalar_load(&there, 0, &old);
		if (!known || weir_scalar_compare(&new, &old) > 0)
			memcpy(row + of->greatest, value, width);
	}
	row[of->flags] |= HAS_EXTREME;
}

static void extremes_merge_any(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from)
{
	/* Both from one place: whichever comes first makes both known, and the other one is looked at again. */
	if (of->greatest != WEIR_NOWHERE)
		extreme_any(of, to, from + of->greatest);
	if (of->least != WEIR_NOWHERE)
		extreme_any(of, to, from + of->least);
}

static int extreme_text(const struct weir_row_layout *layout, uint32_t cell, uint8_t *row, struct weir_view value, int wanted,
			struct weir_row_heap *heap, struct weir_error *err)
{
	uint8_t *at = row + layout->cells[cell].offset;
	bool valid = weir_row_valid(layout, row, cell);
	struct weir_view old = weir_row_view(at);
	int order = valid ? weir_view_compare(&value, &old) : wanted;

	if ((order < 0) != (wanted < 0) || order == 0)
		return WEIR_OK;
	row[layout->validity_offset + (cell >> 3)] |= (uint8_t)(1u << (cell & 7));
	return weir_row_heap_set(heap, at, valid, value, err);
}

/* ---- vectors ---- */

struct work {
	uint32_t at[WEIR_VECTOR_ROWS];
	uint8_t *to[WEIR_VECTOR_ROWS];
	uint8_t bytes[WEIR_VECTOR_ROWS];
};

/* Which rows have a value; the others are noted. */
static void sort_out(const struct weir_accumulator *of, const struct weir_vector *vector, const struct weir_column *column,
		     uint8_t *const *rows, struct work *work, struct batch *batch)
{
	const struct weir_selection *selection = &vector->selection;

	*batch = (struct batch){.of = of, .values = column->values, .to = rows, .count = selection->count};
	if (!column->validity && !column->nested) {
		for (uint32_t i = 0; selection->rows && i < selection->count; i++)
			work->at[i] = selection->rows[i];
		batch->at = selection->rows ? work->at : NULL;
		return;
	}
	batch->count = 0;
	for (uint32_t i = 0; i < selection->count; i++) {
		uint32_t row = selection->rows ? selection->rows[i] : i;
		bool valid = weir_column_valid(column, row);

		if (valid && column->nested)
			valid = weir_array_is_valid(column->nested, column->nested_offset + row);
		work->at[batch->count] = row;
		work->to[batch->count] = rows[i];
		batch->count += valid;
		if (!valid)
			rows[i][of->flags] |= HAS_NULL;
	}
	batch->at = work->at;
	batch->to = work->to;
}

static int push_texts(const struct weir_accumulators *all, const struct batch *batch, struct weir_row_heap *heap,
		      struct weir_error *err)
{
	const struct weir_accumulator *of = batch->of;
	const struct weir_view *views = batch->values;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < batch->count && !code; i++) {
		struct weir_view value = views[batch_at(batch, i)];

		if (of->least_cell != WEIR_NOWHERE)
			code = extreme_text(&all->layout, of->least_cell, batch->to[i], value, -1, heap, err);
		if (!code && of->greatest_cell != WEIR_NOWHERE)
			code = extreme_text(&all->layout, of->greatest_cell, batch->to[i], value, 1, heap, err);
	}
	return code;
}

static int push_column(const struct weir_accumulators *all, const struct weir_accumulator *of, struct weir_vector *vector,
		       uint8_t *const *rows, struct weir_row_heap *heap, struct work *work, struct weir_arena *arena,
		       struct weir_error *err)
{
	enum weir_number number = number_of(of->type);
	bool has_extremes = of->least != WEIR_NOWHERE || of->greatest != WEIR_NOWHERE;
	struct weir_column column;
	struct batch batch;
	int code = weir_column_decode(vector, of->column, err);

	if (code)
		return code;
	if (of->type->id == WEIR_NULL) {
		for (uint32_t i = 0; i < vector->selection.count; i++)
			rows[i][of->flags] |= HAS_NULL;
		return WEIR_OK;
	}
	column = vector->columns[of->column];
	if (of->type->layout != WEIR_LAYOUT_NESTED)
		code = weir_column_flatten(&column, &vector->selection, vector->row_count, arena, err);
	if (code)
		return code;
	sort_out(of, vector, &column, rows, work, &batch);
	if (of->type->id == WEIR_BOOL) {
		for (uint32_t i = 0; i < vector->row_count; i++)
			work->bytes[i] = ((const uint64_t *)column.values)[i >> 6] >> (i & 63) & 1;
		batch.values = work->bytes;
	}
	if (of->kind == WEIR_SUMMARY_NONE)
		push_notes(&batch);
	else if (of->kind == WEIR_SUMMARY_DECIMAL)
		code = push_decimals(&batch, err);
	else if (of->type->id == WEIR_HALF)
		push_halves(&batch);
	else
		numbers[number].push(&batch);
	if (!code && has_extremes && number != WEIR_NUMBER_COUNT)
		numbers[number].extremes(&batch);
	else if (!code && has_extremes)
		for (uint32_t i = 0; i < batch.count; i++)
			extreme_any(of, batch.to[i], (const uint8_t *)batch.values + (size_t)batch_at(&batch, i) * of->type->byte_width);
	if (!code && heap && (of->least_cell != WEIR_NOWHERE || of->greatest_cell != WEIR_NOWHERE))
		code = push_texts(all, &batch, heap, err);
	return code;
}

int weir_accumulators_push(const struct weir_accumulators *all, struct weir_vector *vector, uint8_t *const *rows,
			   struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err)
{
	struct work *work;
	int code = WEIR_OK;

	weir_arena_clear(arena);
	if (all->rows != WEIR_NOWHERE)
		for (uint32_t i = 0; i < vector->selection.count; i++)
			add_count(rows[i] + all->rows, 1);
	if (!all->count)
		return WEIR_OK;
	work = weir_arena_alloc(arena, sizeof(*work), err);
	if (!work)
		return err->code;
	for (uint32_t i = 0; i < all->count && !code; i++)
		code = push_column(all, &all->items[i], vector, rows, heap, work, arena, err);
	return code;
}

/* ---- two rows ---- */

static int merge_sums(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from, struct weir_error *err)
{
	struct weir_int256 a, b;

	switch (of->kind) {
	case WEIR_SUMMARY_INTEGER:
		if (of->sum != WEIR_NOWHERE)
			add_whole(to + of->sum, load_whole(from + of->sum));
		if (of->squares != WEIR_NOWHERE) {
			unsigned __int128 low;

			memcpy(&low, from + of->squares, sizeof(low));
			add_squares(to + of->squares, low, load_count(from + of->squares + 16));
		}
		break;
	case WEIR_SUMMARY_REAL:
		if (of->sum != WEIR_NOWHERE)
			store_pair(to + of->sum, pair_add_pair(load_pair(to + of->sum), load_pair(from + of->sum)));
		if (of->squares != WEIR_NOWHERE)
			store_pair(to + of->squares, pair_add_pair(load_pair(to + of->squares), load_pair(from + of->squares)));
		break;
	case WEIR_SUMMARY_DECIMAL:
		if (of->sum != WEIR_NOWHERE) {
			memcpy(&a, to + of->sum, sizeof(a));
			memcpy(&b, from + of->sum, sizeof(b));
			if (weir_int256_add(&a, &b, &a))
				return weir_error_set(err, WEIR_E_OVERFLOW, "a sum of decimals does not fit 256 bits");
			memcpy(to + of->sum, &a, sizeof(a));
		}
		for (uint32_t p = of->squares; of->squares != WEIR_NOWHERE && p < of->squares + 32; p += 16)
			store_pair(to + p, pair_add_pair(load_pair(to + p), load_pair(from + p)));
		break;
	case WEIR_SUMMARY_NONE:
		break;
	}
	return WEIR_OK;
}

int weir_accumulators_merge(const struct weir_accumulators *all, uint8_t *to, const uint8_t *from, struct weir_row_heap *heap,
			    struct weir_error *err)
{
	int code = WEIR_OK;

	if (all->rows != WEIR_NOWHERE)
		add_count(to + all->rows, load_count(from + all->rows));
	for (uint32_t i = 0; i < all->count && !code; i++) {
		const struct weir_accumulator *of = &all->items[i];
		enum weir_number number;

		if (of->values != WEIR_NOWHERE)
			add_count(to + of->values, load_count(from + of->values));
		if (of->nans != WEIR_NOWHERE)
			add_count(to + of->nans, load_count(from + of->nans));
		if (of->zeros != WEIR_NOWHERE)
			add_count(to + of->zeros, load_count(from + of->zeros));
		code = merge_sums(of, to, from, err);
		if (!code && (of->least != WEIR_NOWHERE || of->greatest != WEIR_NOWHERE) && from[of->flags] & HAS_EXTREME) {
			number = number_of(of->type);
			if (number != WEIR_NUMBER_COUNT)
				numbers[number].merge(of, to, from);
			else
				extremes_merge_any(of, to, from);
		}
		if (!code && of->least_cell != WEIR_NOWHERE && weir_row_valid(&all->layout, from, of->least_cell))
			code = extreme_text(&all->layout, of->least_cell, to,
					    weir_row_view(from + all->layout.cells[of->least_cell].offset), -1, heap, err);
		if (!code && of->greatest_cell != WEIR_NOWHERE && weir_row_valid(&all->layout, from, of->greatest_cell))
			code = extreme_text(&all->layout, of->greatest_cell, to,
					    weir_row_view(from + all->layout.cells[of->greatest_cell].offset), 1, heap, err);
		to[of->flags] |= from[of->flags];
	}
	return code;
}

/* ---- results ---- */

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

static int overflow(const struct weir_accumulators *all, const struct weir_aggregate_item *item, const uint8_t *row,
		    struct weir_error *err)
{
	char key[400];

	weir_error_set(err, WEIR_E_OVERFLOW, "%s does not fit its type%s%s; cast the column to float64 or a decimal", item->name,
		       all->layout.key_count ? " where " : "", key_text(all, row, key, sizeof(key)));
	weir_error_at_column(err, item->column);
	return err->code;
}

static double spread_root(double spread, uint64_t count, int64_t ddof)
{
	double variance = spread / (double)(count - (uint64_t)ddof);

	return variance > 0 ? sqrt(variance) : variance == variance ? 0.0 : variance;
}

/* The sum of squares of the distances from the mean: Σx² − 2mΣx + nm², with m anywhere near the mean, in twice a double's
 * digits. */
static double real_std(struct pair sum, struct pair squares, uint64_t count, int64_t ddof)
{
	double mean = pair_value(sum) / (double)count;
	struct pair all;

	if (!isfinite(sum.high) || !isfinite(squares.high))
		return isfinite(sum.high) ? (double)INFINITY : (double)NAN;
	all = pair_add_pair(squares, pair_times(sum, -2 * mean));
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

	if (count <= (uint64_t)ddof)
		return (double)NAN;
	if (of->kind == WEIR_SUMMARY_INTEGER)
		return whole_std(row, of, count, ddof);
	if (of->kind == WEIR_SUMMARY_REAL)
		return real_std(load_pair(row + of->sum), load_pair(row + of->squares), count, ddof);
	return real_std(load_pair(row + of->squares), load_pair(row + of->squares + 16), count, ddof);
}

static double mean_of(const uint8_t *row, const struct weir_accumulator *of)
{
	uint64_t count = load_count(row + of->values);
	struct weir_int256 wide;
	__int128 sum;

	switch (of->kind) {
	case WEIR_SUMMARY_REAL:
		return pair_value(load_pair(row + of->sum)) / (double)count;
	case WEIR_SUMMARY_DECIMAL:
		memcpy(&wide, row + of->sum, sizeof(wide));
		return weir_decimal_to_double(&wide, of->type->scale) / (double)count;
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
			real = pair_value(load_pair(from));
			memcpy(to, &real, sizeof(real));
			break;
		case WEIR_SUMMARY_DECIMAL:
			memcpy(&wide, from, sizeof(wide));
			if (!weir_int256_fits(&wide, type->precision) || !weir_int256_store(&wide, to, type->byte_width))
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

/* The greater of two magnitudes; that of the smallest integer has no place in its type. */
static int put_absmax(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
		      const struct weir_accumulator *of, const uint8_t *row, uint8_t *to, struct weir_error *err)
{
	struct weir_column column = {.type = of->type, .form = WEIR_FLAT, .values = row + of->least};
	struct weir_scalar least, greatest;
	struct weir_int256 low, high;

	if (of->type->id == WEIR_BOOL) {
		*to = row[of->greatest];
		return WEIR_OK;
	}
	weir_scalar_load(&column, 0, &least);
	column.values = row + of->greatest;
	weir_scalar_load(&column, 0, &greatest);
	switch (of->kind) {
	case WEIR_SUMMARY_REAL:
		least.real = fabs(least.real);
		greatest.real = fabs(greatest.real);
		break;
	case WEIR_SUMMARY_DECIMAL:
		low = weir_int256_load(least.decimal, 32);
		high = weir_int256_load(greatest.decimal, 32);
		low = weir_int256_negative(&low) ? weir_int256_negate(&low) : low;
		high = weir_int256_negative(&high) ? weir_int256_negate(&high) : high;
		memcpy(least.decimal, &low, sizeof(low));
		memcpy(greatest.decimal, &high, sizeof(high));
		break;
	default:
		if (of->type->id == WEIR_UINT64)
			break;
		if (least.integer < 0) {
			if (least.integer == (of->type->byte_width == 8 ? INT64_MIN
									: -((int64_t)1 << (of->type->byte_width * 8 - 1))))
				return overflow(all, item, row, err);
			least.integer = -least.integer;
		}
		greatest.integer = greatest.integer < 0 ? -greatest.integer : greatest.integer;
	}
	weir_scalar_store(weir_scalar_compare(&least, &greatest) > 0 ? &least : &greatest, to);
	return WEIR_OK;
}

static int take_extremes(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			 const struct weir_accumulator *of, const uint8_t *const *rows, const uint64_t *valid, uint32_t count,
			 uint32_t width, uint8_t *to, struct weir_error *err)
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
			code = put_absmax(all, item, of, rows[i], to, err);
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
			 const struct weir_accumulator *of, const uint8_t *const *rows, const uint64_t *valid, uint32_t count,
			 double *to)
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
	bool counts_rows = item->function == WEIR_MISSING_PERCENT || (item->function == WEIR_ZERO_PERCENT && item->with_nulls);

	for (uint32_t i = 0; i < count; i++) {
		uint8_t flags = rows[i][of->flags];
		bool there = counts_rows ? load_count(rows[i] + all->rows) > 0
					 : flags & HAS_VALUE && !(item->with_nulls && flags & HAS_NULL);

		bits[i >> 6] |= (uint64_t)there << (i & 63);
	}
}

int weir_accumulators_take(const struct weir_accumulators *all, const struct weir_aggregate_item *item,
			   const struct weir_type *type, const uint8_t *const *rows, uint32_t count, struct weir_arena *arena,
			   struct weir_column *out, struct weir_error *err)
{
	const struct weir_accumulator *of = item->column ? &all->items[item->summary] : NULL;
	uint32_t width = type->layout == WEIR_LAYOUT_BITS ? 1 : type->byte_width;
	bool counts = item->function == WEIR_COUNT;
	uint64_t *valid = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*valid), err);
	struct weir_array *nested = NULL;
	uint8_t *to;
	int code = WEIR_OK;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	if (!valid)
		return err->code;
	if (!counts)
		results_there(all, item, of, rows, count, valid);
	if (type->layout == WEIR_LAYOUT_BYTES) {
		uint32_t cell = item->function == WEIR_MIN ? of->least_cell : of->greatest_cell;

		code = weir_rows_take(&all->layout, cell, type, rows, count, all->account, arena, out, &nested, err);
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
			int64_t mean = n ? (int64_t)(load_whole(rows[i] + of->sum) / (__int128)n) : 0;

			memcpy(to + (size_t)i * 8, &mean, 8);
		}
		return WEIR_OK;
	case WEIR_MIN:
	case WEIR_MAX:
	case WEIR_ABSMAX:
		code = take_extremes(all, item, of, rows, valid, count, width, to, err);
		if (!code && type->layout == WEIR_LAYOUT_BITS && !(out->values = bits_of(to, count, arena, err)))
			code = err->code;
		return code;
	default:
		break;
	}
	take_numbers(all, item, of, rows, valid, count, (double *)to);
	return WEIR_OK;
}
