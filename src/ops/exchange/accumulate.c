#include "ops/exchange/accumulate.h"

#include "vector/kernels.h"
#include "expr/scalar.h"
#include "ops/exchange/accumulate_impl.h"

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
	/* INTEGER: 192 bits; else the first value and the distances from it. */
	return kind == WEIR_SUMMARY_INTEGER ? 24 : weir_first_bytes(kind) + (uint32_t)sizeof(struct spread);
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
	if (has_sum && of->sum == WEIR_NOWHERE &&
	    (function == WEIR_SUM || function == WEIR_MEAN ||
	     (function == WEIR_STD && of->kind == WEIR_SUMMARY_INTEGER)))
		of->sum = place(at, sum_bytes(of->kind));
	if (has_sum && of->squares == WEIR_NOWHERE && function == WEIR_STD)
		of->squares = place(at, squares_bytes(of->kind));
	if (function == WEIR_QUANTILE && of->list == WEIR_NOWHERE) {
		of->list = place(at, 16);
		all->has_lists = true;
	}
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
		shift(&of->list, by);
	}
}

int weir_accumulators_init(struct weir_accumulators *all, struct weir_account *account,
			   const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			   const uint32_t *keys, uint32_t key_count, struct weir_error *err)
{
	uint32_t count = aggregates->column_count, cells = key_count, payload = 0, capacity;
	const struct weir_type **types;
	int code;

	capacity = key_count + 2 * count + aggregates->item_count + 1;
	types = weir_alloc_zero(account, capacity * sizeof(*types), err);
	code = types ? WEIR_OK : err->code;
	*all = (struct weir_accumulators){.account = account,
					  .aggregates = aggregates,
					  .schema = schema,
					  .count = count,
					  .rows = WEIR_NOWHERE,
					  .cells_max = capacity};
	all->items = code ? NULL : weir_alloc_zero(account, (count + 1) * sizeof(*all->items), err);
	all->numbers = all->items ? weir_alloc_zero(account, capacity * sizeof(*all->numbers), err) : NULL;
	if (!all->numbers)
		code = err->code;
	if (!code)
		code = weir_sketches_init(all, err);
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
		if (weir_aggregate_is_holistic(item->function)) {
			all->sketches[i].cell = cells;
			all->numbers[cells] = WEIR_NOWHERE;
			types[cells++] = weir_type_of(WEIR_BINARY);
		}
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
	for (uint32_t i = 0; i < count && !code; i++) {
		const struct weir_accumulator *of = &all->items[i];

		if (of->kind == WEIR_SUMMARY_REAL && of->sum != WEIR_NOWHERE)
			weir_row_layout_loose(&all->layout, of->sum, of->flags, IS_LONG);
	}
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
	weir_free(all->account, all->sketches,
		  all->sketches ? (all->aggregates->item_count + 1) * sizeof(*all->sketches) : 0);
	weir_row_layout_release(&all->layout);
	*all = (struct weir_accumulators){0};
}

/* ---- values ---- */

static inline void note_value(const struct weir_accumulator *of, uint8_t *row)
{
	row[of->flags] |= HAS_VALUE;
	if (of->values != WEIR_NOWHERE)
		add_count(row + of->values, 1);
}

static void push_notes(const struct weir_batch_rows *batch)
{
	for (uint32_t i = 0; i < batch->count; i++)
		note_value(batch->of, batch->to[i]);
}

#define PUSH_WHOLE(name, type)                                                                                         \
	static int push_##name(const struct weir_batch_rows *batch, struct weir_row_heap *heap,                        \
			       struct weir_error *err)                                                                 \
	{                                                                                                              \
		const struct weir_accumulator *of = batch->of;                                                         \
		const type *values = batch->values;                                                                    \
                                                                                                                       \
		for (uint32_t i = 0; i < batch->count; i++) {                                                          \
			type value = values[weir_batch_at(batch, i)];                                                  \
			uint8_t *row = batch->to[i];                                                                   \
                                                                                                                       \
			note_value(of, row);                                                                           \
			if (of->sum != WEIR_NOWHERE)                                                                   \
				add_whole(row + of->sum, (__int128)value);                                             \
			if (of->squares != WEIR_NOWHERE)                                                               \
				add_squares(row + of->squares, (unsigned __int128)((__int128)value * (__int128)value), \
					    0);                                                                        \
			if (of->zeros != WEIR_NOWHERE)                                                                 \
				add_count(row + of->zeros, value == 0);                                                \
		}                                                                                                      \
		(void)heap;                                                                                            \
		(void)err;                                                                                             \
		return WEIR_OK;                                                                                        \
	}
PUSH_WHOLE(i8, int8_t)
PUSH_WHOLE(i16, int16_t)
PUSH_WHOLE(i32, int32_t)
PUSH_WHOLE(i64, int64_t)
PUSH_WHOLE(u8, uint8_t)
PUSH_WHOLE(u16, uint16_t)
PUSH_WHOLE(u32, uint32_t)

/* The square of a great one does not fit a signed number. */
static int push_u64(const struct weir_batch_rows *batch, struct weir_row_heap *heap, struct weir_error *err)
{
	const struct weir_accumulator *of = batch->of;

	for (uint32_t i = 0; i < batch->count; i++) {
		uint64_t value = ((const uint64_t *)batch->values)[weir_batch_at(batch, i)];
		uint8_t *row = batch->to[i];

		note_value(of, row);
		if (of->sum != WEIR_NOWHERE)
			add_whole(row + of->sum, (__int128)value);
		if (of->squares != WEIR_NOWHERE)
			add_squares(row + of->squares, (unsigned __int128)value * value, 0);
		if (of->zeros != WEIR_NOWHERE)
			add_count(row + of->zeros, value == 0);
	}
	(void)heap;
	(void)err;
	return WEIR_OK;
}

static inline void spread_real(const struct weir_accumulator *of, uint8_t *row, double value)
{
	struct pair distance;
	double first;

	if (load_count(row + of->values) == 1)
		memcpy(row + of->squares, &value, sizeof(value));
	memcpy(&first, row + of->squares, sizeof(first));
	distance = pair_add((struct pair){value, 0}, -first);
	if (__builtin_expect(spread_is_ordinary(distance.high) && !(row[of->flags] & (SPREAD_SMALL | SPREAD_GREAT)), 1))
		spread_add(row + of->squares + sizeof(first), distance);
	else
		weir_real_spread_add(of, row, first, value);
}

/* Behind note_value. */
static inline void note_real(const struct weir_accumulator *of, uint8_t *row, double value)
{
	if (of->squares != WEIR_NOWHERE)
		spread_real(of, row, value);
	if (of->zeros != WEIR_NOWHERE)
		add_count(row + of->zeros, value == 0);
	if (of->nans != WEIR_NOWHERE)
		add_count(row + of->nans, value != value);
}

/* What the loop needs is held in variables: stores to rows may be to anything, as far as the compiler knows. */
#define PUSH_REAL(name, type, convert)                                                                                 \
	static int push_##name(const struct weir_batch_rows *batch, struct weir_row_heap *heap,                        \
			       struct weir_error *err)                                                                 \
	{                                                                                                              \
		const struct weir_accumulator *of = batch->of;                                                         \
		const type *values = batch->values;                                                                    \
		const uint32_t *at = batch->at;                                                                        \
		uint8_t *const *to = batch->to;                                                                        \
		uint32_t count = batch->count, flags = of->flags, number = of->values, sum = of->sum;                  \
		bool has_notes = of->squares != WEIR_NOWHERE || of->zeros != WEIR_NOWHERE || of->nans != WEIR_NOWHERE; \
		int code = WEIR_OK;                                                                                    \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++) {                                                                 \
			double value = (double)convert(values[at ? at[i] : i]);                                        \
			uint8_t *row = to[i], noted = row[flags];                                                      \
			struct pair pair;                                                                              \
                                                                                                                       \
			row[flags] = noted | HAS_VALUE;                                                                \
			if (number != WEIR_NOWHERE)                                                                    \
				add_count(row + number, 1);                                                            \
			if (has_notes)                                                                                 \
				note_real(of, row, value);                                                             \
			if (sum == WEIR_NOWHERE)                                                                       \
				continue;                                                                              \
			pair = load_pair(row + sum);                                                                   \
			if (__builtin_expect(!(noted & IS_LONG) && pair_add_exactly(&pair, value), 1))                 \
				store_pair(row + sum, pair);                                                           \
			else if ((code = weir_real_sum_add(of, row, value, heap, err)))                                \
				break;                                                                                 \
		}                                                                                                      \
		return code;                                                                                           \
	}
PUSH_REAL(f32, float, )
PUSH_REAL(f64, double, )
PUSH_REAL(halves, uint16_t, weir_half_to_float)

static void spread_decimal(const struct weir_accumulator *of, uint8_t *row, const struct weir_int256 *value)
{
	struct weir_int256 apart;

	if (load_count(row + of->values) == 1)
		memcpy(row + of->squares, value, sizeof(*value));
	memcpy(&apart, row + of->squares, sizeof(apart));
	weir_int256_sub(value, &apart, &apart);
	spread_add(row + of->squares + sizeof(apart),
		   (struct pair){weir_decimal_to_double(&apart, of->type->scale), 0});
}

static int push_decimals(const struct weir_accumulators *all, const struct weir_batch_rows *batch,
			 struct weir_error *err)
{
	const struct weir_accumulator *of = batch->of;
	uint32_t width = of->type->byte_width;

	for (uint32_t i = 0; i < batch->count; i++) {
		struct weir_int256 value = weir_int256_load(
			(const uint8_t *)batch->values + (size_t)weir_batch_at(batch, i) * width, width);
		uint8_t *row = batch->to[i];

		note_value(of, row);
		if (of->zeros != WEIR_NOWHERE)
			add_count(row + of->zeros,
				  !(value.words[0] | value.words[1] | value.words[2] | value.words[3]));
		if (of->sum != WEIR_NOWHERE) {
			struct weir_int256 sum;

			memcpy(&sum, row + of->sum, sizeof(sum));
			if (weir_int256_add(&sum, &value, &sum))
				return weir_accumulators_overflow(all, of, row, err);
			memcpy(row + of->sum, &sum, sizeof(sum));
		}
		if (of->squares != WEIR_NOWHERE)
			spread_decimal(of, row, &value);
	}
	return WEIR_OK;
}

/* ---- lists ---- */

/* What is in a page: how many, and where from here. */
struct paged_list {
	uint64_t count;
	int64_t distance;
};

#define LIST(name, type)                                                                                               \
	static int list_##name(const struct weir_batch_rows *batch, struct weir_row_heap *heap,                        \
			       struct weir_error *err)                                                                 \
	{                                                                                                              \
		for (uint32_t i = 0; i < batch->count; i++) {                                                          \
			double value = (double)((const type *)batch->values)[weir_batch_at(batch, i)];                 \
			uint8_t *field = batch->to[i] + batch->of->list;                                               \
			uint64_t number = load_count(field);                                                           \
			struct weir_row_list *list = number ? &heap->lists.items[number - 1] : NULL;                   \
                                                                                                                       \
			if (value != value)                                                                            \
				continue;                                                                              \
			if (!list || list->count == list->capacity)                                                    \
				list = weir_row_heap_list(heap, field, 1, err);                                        \
			if (!list)                                                                                     \
				return err->code;                                                                      \
			list->values[list->count++] = value;                                                           \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}
LIST(i8, int8_t)
LIST(i16, int16_t)
LIST(i32, int32_t)
LIST(i64, int64_t)
LIST(u8, uint8_t)
LIST(u16, uint16_t)
LIST(u32, uint32_t)
LIST(u64, uint64_t)
LIST(f32, float)
LIST(f64, double)

/* Numbers from a page go behind those that the row of the heap has. */
static int list_append(uint8_t *field, const uint8_t *from, struct weir_row_heap *heap, struct weir_error *err)
{
	struct paged_list paged;
	struct weir_row_list *list;

	memcpy(&paged, from, sizeof(paged));
	if (!paged.count)
		return WEIR_OK;
	list = weir_row_heap_list(heap, field, (uint32_t)paged.count, err);
	if (!list)
		return err->code;
	memcpy(list->values + list->count, from + paged.distance, paged.count * sizeof(double));
	list->count += (uint32_t)paged.count;
	return WEIR_OK;
}

static const struct weir_row_list *list_of(const struct weir_accumulator *of, const uint8_t *row,
					   const struct weir_row_heap *heap)
{
	uint64_t number = of->list == WEIR_NOWHERE ? 0 : load_count(row + of->list);

	return number ? &heap->lists.items[number - 1] : NULL;
}

uint64_t weir_accumulators_tail_bytes(const struct weir_accumulators *all, const uint8_t *row,
				      const struct weir_row_heap *heap)
{
	uint64_t bytes = weir_row_tail_bytes(&all->layout, row);

	for (uint32_t i = 0; i < all->count && all->has_lists; i++) {
		const struct weir_row_list *list = list_of(&all->items[i], row, heap);

		bytes += list ? list->count * sizeof(double) : 0;
	}
	return bytes;
}

void weir_accumulators_copy(const struct weir_accumulators *all, const uint8_t *row, const struct weir_row_heap *heap,
			    uint8_t *to, uint8_t *tail)
{
	weir_row_copy(&all->layout, row, to, tail);
	tail += weir_row_tail_bytes(&all->layout, row);
	for (uint32_t i = 0; i < all->count && all->has_lists; i++) {
		const struct weir_row_list *list = list_of(&all->items[i], row, heap);
		struct paged_list paged = {0};

		if (list) {
			paged = (struct paged_list){.count = list->count, .distance = tail - (to + all->items[i].list)};
			memcpy(tail, list->values, list->count * sizeof(double));
			tail += list->count * sizeof(double);
		}
		if (all->items[i].list != WEIR_NOWHERE)
			memcpy(to + all->items[i].list, &paged, sizeof(paged));
	}
}

int weir_accumulators_adopt(const struct weir_accumulators *all, uint8_t *row, const uint8_t *from,
			    struct weir_row_heap *heap, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; i < all->count && all->has_lists; i++)
		if (all->items[i].list != WEIR_NOWHERE)
			memset(row + all->items[i].list, 0, 16);
	for (uint32_t i = 0; i < all->count && all->has_lists && !code; i++)
		if (all->items[i].list != WEIR_NOWHERE)
			code = list_append(row + all->items[i].list, from + all->items[i].list, heap, err);
	return code;
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
	static void extremes_##name(const struct weir_batch_rows *batch)                                               \
	{                                                                                                              \
		for (uint32_t i = 0; i < batch->count; i++)                                                            \
			extreme_##name(batch->of, batch->to[i],                                                        \
				       ((const type *)batch->values)[weir_batch_at(batch, i)]);                        \
	}                                                                                                              \
	static void extremes_merge_##name(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from)         \
	{                                                                                                              \
		type value;                                                                                            \
                                                                                                                       \
		/* The first one counts for both where nothing was known, and the second puts that right. */           \
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
	int (*push)(const struct weir_batch_rows *batch, struct weir_row_heap *heap, struct weir_error *err);
	void (*extremes)(const struct weir_batch_rows *batch);
	void (*merge)(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from);
	int (*list)(const struct weir_batch_rows *batch, struct weir_row_heap *heap, struct weir_error *err);
} numbers[WEIR_NUMBER_COUNT] = {
	[WEIR_I8] = {push_i8, extremes_i8, extremes_merge_i8, list_i8},
	[WEIR_I16] = {push_i16, extremes_i16, extremes_merge_i16, list_i16},
	[WEIR_I32] = {push_i32, extremes_i32, extremes_merge_i32, list_i32},
	[WEIR_I64] = {push_i64, extremes_i64, extremes_merge_i64, list_i64},
	[WEIR_U8] = {push_u8, extremes_u8, extremes_merge_u8, list_u8},
	[WEIR_U16] = {push_u16, extremes_u16, extremes_merge_u16, list_u16},
	[WEIR_U32] = {push_u32, extremes_u32, extremes_merge_u32, list_u32},
	[WEIR_U64] = {push_u64, extremes_u64, extremes_merge_u64, list_u64},
	[WEIR_F32] = {push_f32, extremes_f32, extremes_merge_f32, list_f32},
	[WEIR_F64] = {push_f64, extremes_f64, extremes_merge_f64, list_f64},
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

bool weir_accumulators_list_type(const struct weir_aggregate_item *item, const struct weir_type *type)
{
	return item->function == WEIR_QUANTILE && number_of(type) != WEIR_NUMBER_COUNT &&
	       (type->layout == WEIR_LAYOUT_FIXED || type->layout == WEIR_LAYOUT_BITS);
}

/* Nothing but its list is wanted. */
static bool is_list_only(const struct weir_accumulator *of)
{
	return of->list != WEIR_NOWHERE && of->values == WEIR_NOWHERE && of->nans == WEIR_NOWHERE &&
	       of->zeros == WEIR_NOWHERE && of->sum == WEIR_NOWHERE && of->squares == WEIR_NOWHERE &&
	       of->least == WEIR_NOWHERE && of->greatest == WEIR_NOWHERE;
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

static int extreme_text(const struct weir_row_layout *layout, uint32_t cell, uint8_t *row, struct weir_view value,
			int wanted, struct weir_row_heap *heap, struct weir_error *err)
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
static void sort_out(const struct weir_accumulator *of, const struct weir_vector *vector,
		     const struct weir_column *column, uint8_t *const *rows, struct work *work,
		     struct weir_batch_rows *batch)
{
	const struct weir_selection *selection = &vector->selection;

	*batch = (struct weir_batch_rows){.of = of, .values = column->values, .to = rows, .count = selection->count};
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

static int push_texts(const struct weir_accumulators *all, const struct weir_batch_rows *batch,
		      struct weir_row_heap *heap, struct weir_error *err)
{
	const struct weir_accumulator *of = batch->of;
	const struct weir_view *views = batch->values;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < batch->count && !code; i++) {
		struct weir_view value = views[weir_batch_at(batch, i)];

		if (of->least_cell != WEIR_NOWHERE)
			code = extreme_text(&all->layout, of->least_cell, batch->to[i], value, -1, heap, err);
		if (!code && of->greatest_cell != WEIR_NOWHERE)
			code = extreme_text(&all->layout, of->greatest_cell, batch->to[i], value, 1, heap, err);
	}
	return code;
}

static int push_column(const struct weir_accumulators *all, const struct weir_accumulator *of,
		       struct weir_vector *vector, uint8_t *const *rows, struct weir_row_heap *heap, struct work *work,
		       struct weir_arena *arena, struct weir_error *err)
{
	enum weir_number number = number_of(of->type);
	bool has_extremes = of->least != WEIR_NOWHERE || of->greatest != WEIR_NOWHERE;
	struct weir_column column;
	struct weir_batch_rows batch;
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
	if (of->list != WEIR_NOWHERE)
		code = numbers[number].list(&batch, heap, err);
	if (code || (is_list_only(of) && !all->has_sketches))
		return code;
	if (of->kind == WEIR_SUMMARY_NONE)
		push_notes(&batch);
	else if (of->kind == WEIR_SUMMARY_DECIMAL)
		code = push_decimals(all, &batch, err);
	else if (of->type->id == WEIR_HALF)
		code = push_halves(&batch, heap, err);
	else
		code = numbers[number].push(&batch, heap, err);
	if (!code && has_extremes && number != WEIR_NUMBER_COUNT)
		numbers[number].extremes(&batch);
	else if (!code && has_extremes)
		for (uint32_t i = 0; i < batch.count; i++)
			extreme_any(of, batch.to[i],
				    (const uint8_t *)batch.values +
					    (size_t)weir_batch_at(&batch, i) * of->type->byte_width);
	if (!code && heap && (of->least_cell != WEIR_NOWHERE || of->greatest_cell != WEIR_NOWHERE))
		code = push_texts(all, &batch, heap, err);
	if (!code && heap && all->has_sketches)
		code = weir_sketches_push(all, &batch, heap, arena, err);
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

/* Before the numbers of values have been added. */
static void merge_spreads(const struct weir_accumulator *of, uint8_t *to, const uint8_t *from)
{
	uint64_t count = load_count(from + of->values);
	struct weir_int256 a, b;

	if (!count)
		return;
	if (!load_count(to + of->values)) {
		memcpy(to + of->squares, from + of->squares, squares_bytes(of->kind));
		to[of->flags] |= from[of->flags] & (SPREAD_SMALL | SPREAD_GREAT);
		return;
	}
	if (of->kind == WEIR_SUMMARY_REAL) {
		weir_real_spread_merge(of, to, from);
		return;
	}
	memcpy(&a, to + of->squares, sizeof(a));
	memcpy(&b, from + of->squares, sizeof(b));
	weir_int256_sub(&b, &a, &a);
	spread_merge(to + of->squares + sizeof(a), from + of->squares + sizeof(a), count,
		     (struct pair){weir_decimal_to_double(&a, of->type->scale), 0});
}

static int merge_sums(const struct weir_accumulators *all, const struct weir_accumulator *of, uint8_t *to,
		      const uint8_t *from, struct weir_row_heap *heap, struct weir_error *err)
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
			return weir_real_sum_merge(of, to, from, heap, err);
		break;
	case WEIR_SUMMARY_DECIMAL:
		if (of->sum != WEIR_NOWHERE) {
			memcpy(&a, to + of->sum, sizeof(a));
			memcpy(&b, from + of->sum, sizeof(b));
			if (weir_int256_add(&a, &b, &a))
				return weir_accumulators_overflow(all, of, to, err);
			memcpy(to + of->sum, &a, sizeof(a));
		}
		break;
	case WEIR_SUMMARY_NONE:
		break;
	}
	return WEIR_OK;
}

int weir_accumulators_merge(const struct weir_accumulators *all, uint8_t *to, const uint8_t *from,
			    struct weir_row_heap *heap, struct weir_arena *arena, struct weir_error *err)
{
	int code = WEIR_OK;

	if (all->rows != WEIR_NOWHERE)
		add_count(to + all->rows, load_count(from + all->rows));
	for (uint32_t i = 0; i < all->count && !code; i++) {
		const struct weir_accumulator *of = &all->items[i];
		enum weir_number number;

		if (of->squares != WEIR_NOWHERE && of->kind != WEIR_SUMMARY_INTEGER)
			merge_spreads(of, to, from);
		if (of->values != WEIR_NOWHERE)
			add_count(to + of->values, load_count(from + of->values));
		if (of->nans != WEIR_NOWHERE)
			add_count(to + of->nans, load_count(from + of->nans));
		if (of->zeros != WEIR_NOWHERE)
			add_count(to + of->zeros, load_count(from + of->zeros));
		code = merge_sums(all, of, to, from, heap, err);
		if (!code && of->list != WEIR_NOWHERE)
			code = list_append(to + of->list, from + of->list, heap, err);
		if (!code && (of->least != WEIR_NOWHERE || of->greatest != WEIR_NOWHERE) &&
		    from[of->flags] & HAS_EXTREME) {
			number = number_of(of->type);
			if (number != WEIR_NUMBER_COUNT)
				numbers[number].merge(of, to, from);
			else
				extremes_merge_any(of, to, from);
		}
		if (!code && of->least_cell != WEIR_NOWHERE && weir_row_valid(&all->layout, from, of->least_cell))
			code = extreme_text(&all->layout, of->least_cell, to,
					    weir_row_view(from + all->layout.cells[of->least_cell].offset), -1, heap,
					    err);
		if (!code && of->greatest_cell != WEIR_NOWHERE && weir_row_valid(&all->layout, from, of->greatest_cell))
			code = extreme_text(&all->layout, of->greatest_cell, to,
					    weir_row_view(from + all->layout.cells[of->greatest_cell].offset), 1, heap,
					    err);
		to[of->flags] |= from[of->flags] & FLAGS_SHARED;
	}
	return code || !all->has_sketches ? code : weir_sketches_merge(all, to, from, heap, arena, err);
}
