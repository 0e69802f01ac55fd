#include "ops/exchange/numbers.h"

#include "base/hash.h"
#include "ops/exchange/order.h"

#include <string.h>

enum {
	REPEATS_MIN = 8, /* rows, on average, that a number has where it pays to write it once */
	NUMBER_KEY_BYTES = 9,
};

/* ---- drawn ---- */

static uint64_t number_of(uint64_t salt, uint32_t bucket, uint32_t rank)
{
	uint64_t place = weir_hash_u64(weir_hash_u64(~salt) + ((uint64_t)bucket << 32 | rank));

	return (uint64_t)bucket << (64 - WEIR_DRAW_BITS) | place >> WEIR_DRAW_BITS;
}

void weir_draw_begin(struct weir_draw *draw, uint64_t seed, uint64_t split)
{
	*draw = (struct weir_draw){.salt = weir_hash_u64(seed ^ weir_hash_u64(split + 1)), .left = UINT64_MAX};
}

static uint32_t next_bucket(struct weir_draw *draw)
{
	return (uint32_t)(weir_hash_u64(draw->salt + draw->position++) >> (64 - WEIR_DRAW_BITS));
}

void weir_draw_begin_at(struct weir_draw *draw, uint64_t seed, uint64_t row)
{
	uint64_t section = row / WEIR_DRAW_SECTION, before = row % WEIR_DRAW_SECTION;

	weir_draw_begin(draw, seed, section);
	draw->left = WEIR_DRAW_SECTION - before;
	draw->row_next = (section + 1) * WEIR_DRAW_SECTION;
	/* Those of the section that are another's, as if they had been drawn. */
	for (uint64_t i = 0; i < before; i++)
		draw->counts[next_bucket(draw)]++;
	weir_draw_begin_run(draw);
}

void weir_draw_begin_run(struct weir_draw *draw)
{
	memcpy(draw->before, draw->counts, sizeof(draw->before));
}

uint64_t weir_draw_number(struct weir_draw *draw)
{
	uint32_t bucket = next_bucket(draw);

	draw->left -= draw->left < UINT64_MAX;
	return number_of(draw->salt, bucket, draw->counts[bucket]++);
}

/* Of a key: its class, and eight bytes that order like the number. */
static uint64_t number_at(const struct weir_key_list *keys, size_t row)
{
	uint64_t number;

	memcpy(&number, keys->bytes + row * NUMBER_KEY_BYTES + 1, sizeof(number));
	return __builtin_bswap64(number);
}

int weir_draw_order(const struct weir_draw *draw, const struct weir_key_list *keys, struct weir_account *account,
		    uint32_t *rows, struct weir_error *err)
{
	uint32_t ends[WEIR_DRAW_BUCKETS], sum = 0, most = 0;
	uint32_t place_bits = weir_place_bits(keys->count);
	uint64_t *places;

	WEIR_ASSERT(keys->width == NUMBER_KEY_BYTES);
	for (uint32_t i = 0; i < WEIR_DRAW_BUCKETS; i++) {
		uint32_t here = draw->counts[i] - draw->before[i];

		ends[i] = sum;
		sum += here;
		most = here > most ? here : most;
	}
	WEIR_ASSERT(sum == keys->count);
	places = weir_alloc(account, 2 * ((size_t)most + 1) * sizeof(*places), err);
	if (!places)
		return err->code;
	for (uint32_t i = 0; i < sum; i++)
		rows[ends[number_at(keys, i) >> (64 - WEIR_DRAW_BITS)]++] = i;
	for (uint32_t i = 0, first = 0; i < WEIR_DRAW_BUCKETS; first = ends[i++]) {
		uint32_t here = ends[i] - first;

		for (uint32_t r = 0; r < here; r++)
			places[r] = rows[first + r];
		weir_key_places_order(keys, places, places + most + 1, here);
		for (uint32_t r = 0; r < here; r++)
			rows[first + r] = (uint32_t)weir_place_index(places[r], place_bits);
	}
	weir_free(account, places, 2 * ((size_t)most + 1) * sizeof(*places));
	return WEIR_OK;
}

static size_t drawn_size(bool is_wide)
{
	return sizeof(struct weir_drawn) +
	       2 * (size_t)WEIR_DRAW_BUCKETS * (is_wide ? sizeof(uint32_t) : sizeof(uint16_t));
}

static uint32_t cell_at(const struct weir_drawn *drawn, uint32_t index)
{
	return drawn->is_wide ? drawn->cells[index] : ((const uint16_t *)drawn->cells)[index];
}

static void cell_set(struct weir_drawn *drawn, uint32_t index, uint32_t value)
{
	if (drawn->is_wide)
		drawn->cells[index] = value;
	else
		((uint16_t *)drawn->cells)[index] = (uint16_t)value;
}

static uint32_t rows_of(const struct weir_drawn *drawn, uint32_t bucket)
{
	return cell_at(drawn, bucket);
}

static uint32_t rank_of(const struct weir_drawn *drawn, uint32_t bucket)
{
	return drawn->rank_least + cell_at(drawn, WEIR_DRAW_BUCKETS + bucket);
}

int weir_drawn_new(struct weir_account *account, const struct weir_draw *draw, struct weir_drawn **out,
		   struct weir_error *err)
{
	uint32_t least = UINT32_MAX, greatest = 0, rows_max = 0;
	struct weir_drawn *drawn;
	bool is_wide;

	for (uint32_t i = 0; i < WEIR_DRAW_BUCKETS; i++) {
		uint32_t rows = draw->counts[i] - draw->before[i];

		least = draw->before[i] < least ? draw->before[i] : least;
		greatest = draw->before[i] > greatest ? draw->before[i] : greatest;
		rows_max = rows > rows_max ? rows : rows_max;
	}
	is_wide = rows_max > UINT16_MAX || greatest - least > UINT16_MAX;
	drawn = weir_alloc(account, drawn_size(is_wide), err);
	if (!drawn)
		return err->code;
	drawn->salt = draw->salt;
	drawn->rank_least = least;
	drawn->is_wide = is_wide;
	for (uint32_t i = 0; i < WEIR_DRAW_BUCKETS; i++) {
		cell_set(drawn, i, draw->counts[i] - draw->before[i]);
		cell_set(drawn, WEIR_DRAW_BUCKETS + i, draw->before[i] - least);
	}
	*out = drawn;
	return WEIR_OK;
}

void weir_drawn_free(struct weir_account *account, struct weir_drawn *drawn)
{
	if (drawn)
		weir_free(account, drawn, drawn_size(drawn->is_wide));
}

int weir_drawn_numbers(const struct weir_drawn *drawn, int64_t first, int64_t count, struct weir_account *account,
		       uint64_t *out, struct weir_error *err)
{
	int64_t end = first + count, begin = 0;
	uint32_t most = 0, bucket = 0;
	uint64_t *numbers;

	for (uint32_t i = 0; i < WEIR_DRAW_BUCKETS; i++)
		most = rows_of(drawn, i) > most ? rows_of(drawn, i) : most;
	numbers = weir_alloc(account, 2 * ((size_t)most + 1) * sizeof(*numbers), err);
	if (!numbers)
		return err->code;
	for (; bucket < WEIR_DRAW_BUCKETS && begin + rows_of(drawn, bucket) <= first; bucket++)
		begin += rows_of(drawn, bucket);
	for (int64_t rows; bucket < WEIR_DRAW_BUCKETS && begin < end; begin += rows, bucket++) {
		int64_t low = first > begin ? first - begin : 0, high;

		rows = rows_of(drawn, bucket);
		high = end - begin < rows ? end - begin : rows;
		for (int64_t r = 0; r < rows; r++)
			numbers[r] = number_of(drawn->salt, bucket, rank_of(drawn, bucket) + (uint32_t)r);
		weir_numbers_order(numbers, numbers + most + 1, (size_t)rows);
		for (int64_t r = low; r < high; r++)
			out[begin + r - first] = numbers[r];
	}
	weir_free(account, numbers, 2 * ((size_t)most + 1) * sizeof(*numbers));
	return WEIR_OK;
}

/* ---- repeated ---- */

int weir_repeats_init(struct weir_repeats *repeats, struct weir_account *account, const struct weir_array *numbers,
		      struct weir_error *err)
{
	const uint64_t *values = (const uint64_t *)numbers->buffers[1].data + numbers->offset;
	int64_t count = numbers->length;
	uint32_t changes = 1, n = 0;

	*repeats = (struct weir_repeats){0};
	for (int64_t i = 1; i < count; i++)
		changes += values[i] != values[i - 1];
	if (!count || changes > count / REPEATS_MIN + 1)
		return WEIR_OK;
	repeats->items = weir_alloc(account, changes * sizeof(*repeats->items), err);
	if (!repeats->items)
		return err->code;
	repeats->count = changes;
	for (int64_t i = 0; i < count; i++)
		if (i + 1 == count || values[i] != values[i + 1])
			repeats->items[n++] = (struct weir_repeat){.number = values[i], .end = i + 1};
	return WEIR_OK;
}

void weir_repeats_release(struct weir_repeats *repeats, struct weir_account *account)
{
	weir_free(account, repeats->items, repeats->count * sizeof(*repeats->items));
	*repeats = (struct weir_repeats){0};
}

void weir_repeats_numbers(const struct weir_repeats *repeats, uint64_t *out)
{
	int64_t row = 0;

	for (uint32_t i = 0; i < repeats->count; i++)
		while (row < repeats->items[i].end)
			out[row++] = repeats->items[i].number;
}

/* ---- a batch without them, and with them ---- */

int weir_numbers_strip(struct weir_account *account, const struct weir_batch *batch, const struct weir_schema *schema,
		       struct weir_batch **out, struct weir_error *err)
{
	WEIR_ASSERT(schema->field_count + 1 == batch->column_count);
	*out = weir_batch_new(account, schema, batch->row_count, batch->columns, err);
	return *out ? WEIR_OK : err->code;
}

int weir_numbers_append(struct weir_account *account, const struct weir_batch *batch, const struct weir_schema *schema,
			struct weir_buffer numbers, struct weir_batch **out, struct weir_error *err)
{
	uint32_t count = batch->column_count;
	struct weir_array **columns = weir_alloc(account, (count + 1) * sizeof(*columns), err);
	struct weir_array *last = columns ? weir_array_new(account, weir_type_of(WEIR_UINT64), err) : NULL;

	WEIR_ASSERT(schema->field_count == count + 1);
	*out = NULL;
	if (last) {
		last->length = batch->row_count;
		last->buffers[1] = numbers;
		if (count)
			memcpy(columns, batch->columns, count * sizeof(*columns));
		columns[count] = last;
		*out = weir_batch_new(account, schema, batch->row_count, columns, err);
		weir_array_unref(last);
	} else {
		weir_buffer_release(&numbers);
	}
	weir_free(account, columns, columns ? (count + 1) * sizeof(*columns) : 0);
	return *out ? WEIR_OK : err->code;
}

int weir_numbers_complete(struct weir_account *account, const struct weir_key_list *keys, const uint32_t *rows,
			  const struct weir_schema *schema, struct weir_batch **batch, struct weir_error *err)
{
	struct weir_buffer numbers = {0};
	struct weir_batch *whole = NULL;
	int64_t count = (*batch)->row_count;
	uint8_t *values;
	int code;

	if ((*batch)->column_count == schema->field_count)
		return WEIR_OK;
	WEIR_ASSERT(keys->width == NUMBER_KEY_BYTES);
	code = weir_buffer_new(account, (uint64_t)count * sizeof(uint64_t), &numbers, &values, err);
	if (code)
		return code;
	for (int64_t i = 0; i < count; i++)
		((uint64_t *)values)[i] = number_at(keys, rows ? rows[i] : (size_t)i);
	code = weir_numbers_append(account, *batch, schema, numbers, &whole, err);
	if (code)
		return code;
	weir_batch_unref(*batch);
	*batch = whole;
	return WEIR_OK;
}
