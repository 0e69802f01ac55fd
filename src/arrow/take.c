/* Take: rows of an array by number, in any order, -1 for a null.
 *
 * Each layout has one loop. Lists and structs turn the numbers of their rows into those of their children's rows and go
 * on there, so that every loop, at any depth, runs over plain numbers.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"

struct picked {
	struct weir_account *account;
	const int64_t *rows;
	int64_t count;
	bool missing; /* some rows are -1 */
};

/* How far ahead values are fetched, which lie anywhere, so that the processor does not see them coming; and texts,
 * where even that is anywhere which says where they begin. */
enum { TAKE_AHEAD = 64, TAKE_TEXTS_AHEAD = 24 };

static struct weir_array *take(const struct picked *picked, const struct weir_array *array, struct weir_error *err);

static inline __attribute__((always_inline)) int64_t gather_bits(const struct picked *picked, const uint8_t *bits,
								 int64_t offset, uint8_t *out, bool missing)
{
	int64_t set = 0;

	for (int64_t at = 0; at < picked->count; at += 64) {
		int64_t step = picked->count - at < 64 ? picked->count - at : 64;
		uint64_t word = 0;

		for (int64_t bit = 0; bit < step; bit++) {
			int64_t row = picked->rows[at + bit];
			bool value = missing && row < 0 ? false : !bits || weir_bit_get(bits, offset + row);

			word |= (uint64_t)value << bit;
		}
		set += __builtin_popcountll(word);
		/* Buffers are padded to 64 bytes. */
		memcpy(out + (at >> 3), &word, 8);
	}
	return set;
}

static int take_validity(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
			 struct weir_error *err)
{
	const uint8_t *bits = array->null_count == 0 ? NULL : array->buffers[0].data;
	uint8_t *to;
	int64_t set;

	if (!bits && !picked->missing)
		return WEIR_OK;
	if (weir_buffer_new(picked->account, weir_bits_size(picked->count), &out->buffers[0], &to, err))
		return err->code;
	set = picked->missing ? gather_bits(picked, bits, array->offset, to, true)
			      : gather_bits(picked, bits, array->offset, to, false);
	out->null_count = picked->count - set;
	if (!out->null_count)
		weir_buffer_release(&out->buffers[0]);
	return WEIR_OK;
}

static inline __attribute__((always_inline)) void gather_width(const struct picked *picked, const uint8_t *from,
							       uint8_t *to, size_t width)
{
	if (!picked->missing) {
		for (int64_t i = 0; i < picked->count; i++) {
			if (i + TAKE_AHEAD < picked->count)
				__builtin_prefetch(from + (size_t)picked->rows[i + TAKE_AHEAD] * width);
			memcpy(to + (size_t)i * width, from + (size_t)picked->rows[i] * width, width);
		}
		return;
	}
	for (int64_t i = 0; i < picked->count; i++) {
		if (picked->rows[i] < 0)
			memset(to + (size_t)i * width, 0, width);
		else
			memcpy(to + (size_t)i * width, from + (size_t)picked->rows[i] * width, width);
	}
}

static int take_fixed(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
		      struct weir_error *err)
{
	size_t width = array->type->byte_width;
	const uint8_t *from = array->buffers[1].data + (size_t)array->offset * width;
	uint64_t size;
	uint8_t *to;

	if (weir_mul_overflows((uint64_t)picked->count, width, &size))
		return weir_error_set(err, WEIR_E_OVERFLOW, "%lld rows are too many", (long long)picked->count);
	if (weir_buffer_new(picked->account, size, &out->buffers[1], &to, err))
		return err->code;
	weir_foresee(to, size);
	switch (width) {
	case 1:
		gather_width(picked, from, to, 1);
		break;
	case 2:
		gather_width(picked, from, to, 2);
		break;
	case 4:
		gather_width(picked, from, to, 4);
		break;
	case 8:
		gather_width(picked, from, to, 8);
		break;
	case 16:
		gather_width(picked, from, to, 16);
		break;
	case 32:
		gather_width(picked, from, to, 32);
		break;
	default:
		if (width)
			gather_width(picked, from, to, width);
		break;
	}
	out->dictionary = weir_array_ref(array->dictionary);
	return WEIR_OK;
}

static int take_bools(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
		      struct weir_error *err)
{
	uint8_t *to;

	if (weir_buffer_new(picked->account, weir_bits_size(picked->count), &out->buffers[1], &to, err))
		return err->code;
	gather_bits(picked, array->buffers[1].data, array->offset, to, true);
	return WEIR_OK;
}

/* The lengths of the taken rows, summed up; a null row has none, whatever its offsets say. */
#define TAKE_OFFSETS(NAME, TYPE, MAX)                                                                                  \
	static int NAME(const struct picked *picked, const struct weir_array *array, TYPE *to, struct weir_error *err) \
	{                                                                                                              \
		const TYPE *from = (const TYPE *)array->buffers[1].data + array->offset;                               \
		const uint8_t *bits = array->null_count == 0 ? NULL : array->buffers[0].data;                          \
		uint64_t total = 0;                                                                                    \
                                                                                                                       \
		to[0] = 0;                                                                                             \
		for (int64_t i = 0; i < picked->count; i++) {                                                          \
			int64_t row = picked->rows[i];                                                                 \
                                                                                                                       \
			if (row >= 0 && (!bits || weir_bit_get(bits, array->offset + row)))                            \
				total += (uint64_t)(from[row + 1] - from[row]);                                        \
			to[i + 1] = (TYPE)total;                                                                       \
			if (total > MAX)                                                                               \
				return builder_refuse_size(array->type, err);                                          \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}
TAKE_OFFSETS(take_offsets32, int32_t, INT32_MAX)
TAKE_OFFSETS(take_offsets64, int64_t, INT64_MAX / 16)

static int take_offsets(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
			struct weir_error *err)
{
	unsigned width = type_offset_width(array->type);
	uint8_t *to;

	if (weir_buffer_new(picked->account, ((uint64_t)picked->count + 1) * width, &out->buffers[1], &to, err))
		return err->code;
	weir_foresee(to, ((uint64_t)picked->count + 1) * width);
	return width == 4 ? take_offsets32(picked, array, (int32_t *)to, err)
			  : take_offsets64(picked, array, (int64_t *)to, err);
}

/* A text of a few bytes is fetched by where it ends: the line that it begins in is the one that another ends in. */
#define TAKE_BYTES(TYPE)                                                                                               \
	do {                                                                                                           \
		const TYPE *begins = (const TYPE *)array->buffers[1].data + array->offset;                             \
		const TYPE *ends = (const TYPE *)out->buffers[1].data;                                                 \
		for (int64_t i = 0; i < picked->count; i++) {                                                          \
			size_t size = (size_t)(ends[i + 1] - ends[i]);                                                 \
			if (i + TAKE_TEXTS_AHEAD < picked->count &&                                                    \
			    ends[i + TAKE_TEXTS_AHEAD + 1] > ends[i + TAKE_TEXTS_AHEAD])                               \
				__builtin_prefetch(from + begins[picked->rows[i + TAKE_TEXTS_AHEAD]] + 15);            \
			if (!size)                                                                                     \
				continue;                                                                              \
			/* Short ones as sixteen bytes at once, where both sides have them. */                         \
			if (size <= 16 && (uint64_t)ends[i] + 16 <= to_size &&                                         \
			    (uint64_t)begins[picked->rows[i]] + 16 <= array->buffers[2].size)                          \
				memcpy(to + ends[i], from + begins[picked->rows[i]], 16);                              \
			else                                                                                           \
				memcpy(to + ends[i], from + begins[picked->rows[i]], size);                            \
		}                                                                                                      \
	} while (0)

static int take_bytes(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
		      struct weir_error *err)
{
	const uint8_t *from = array->buffers[2].data;
	uint64_t to_size;
	uint8_t *to;

	if (take_offsets(picked, array, out, err))
		return err->code;
	to_size = (uint64_t)offset_at(out, picked->count);
	if (weir_buffer_new(picked->account, to_size, &out->buffers[2], &to, err))
		return err->code;
	weir_foresee(to, to_size);
	if (type_offset_width(array->type) == 4)
		TAKE_BYTES(int32_t);
	else
		TAKE_BYTES(int64_t);
	return WEIR_OK;
}

/* Whether the items of a list can be copied as bytes, list by list: tensors and lists of numbers mostly can. */
static bool is_plain(const struct weir_array *items)
{
	return items->type->layout == WEIR_LAYOUT_FIXED && items->type->byte_width && !items->dictionary &&
	       (items->null_count == 0 || !items->buffers[0].data);
}

/* An array of `count` such items, to be filled. */
static struct weir_array *plain_new(const struct picked *picked, const struct weir_array *items, int64_t count,
				    uint8_t **to, struct weir_error *err)
{
	struct weir_array *out = weir_array_new(picked->account, items->type, err);
	uint64_t size;

	if (!out)
		return NULL;
	out->length = count;
	if (weir_mul_overflows((uint64_t)count, (uint64_t)items->type->byte_width, &size))
		weir_error_set(err, WEIR_E_OVERFLOW, "%lld items are too many", (long long)count);
	else if (weir_buffer_new(picked->account, size, &out->buffers[1], to, err) == WEIR_OK)
		return out;
	weir_array_unref(out);
	return NULL;
}

/* The children's rows of the taken lists, one behind the other. */
#define LIST_ROWS(TYPE)                                                                                                \
	do {                                                                                                           \
		const TYPE *begins = (const TYPE *)array->buffers[1].data + array->offset;                             \
		const TYPE *ends = (const TYPE *)out->buffers[1].data;                                                 \
		for (int64_t i = 0; i < picked->count; i++) {                                                          \
			int64_t size = ends[i + 1] - ends[i], begin = size ? begins[picked->rows[i]] : 0;              \
			for (int64_t item = 0; item < size; item++)                                                    \
				rows[ends[i] + item] = begin + item;                                                   \
		}                                                                                                      \
	} while (0)

#define LIST_BYTES(TYPE)                                                                                               \
	do {                                                                                                           \
		const TYPE *begins = (const TYPE *)array->buffers[1].data + array->offset;                             \
		const TYPE *ends = (const TYPE *)out->buffers[1].data;                                                 \
		for (int64_t i = 0; i < picked->count; i++) {                                                          \
			size_t size = (size_t)(ends[i + 1] - ends[i]) * width;                                         \
			if (size)                                                                                      \
				memcpy(to + (size_t)ends[i] * width, from + (size_t)begins[picked->rows[i]] * width,   \
				       size);                                                                          \
		}                                                                                                      \
	} while (0)

static int take_plain_list(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
			   struct weir_error *err)
{
	const struct weir_array *items = array->children[0];
	size_t width = items->type->byte_width;
	const uint8_t *from = items->buffers[1].data + (size_t)items->offset * width;
	uint8_t *to;

	out->children[0] = plain_new(picked, items, offset_at(out, picked->count), &to, err);
	if (!out->children[0])
		return err->code;
	if (type_offset_width(array->type) == 4)
		LIST_BYTES(int32_t);
	else
		LIST_BYTES(int64_t);
	return WEIR_OK;
}

static int take_list(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
		     struct weir_error *err)
{
	struct picked items = {.account = picked->account};
	size_t size;
	int64_t *rows;

	if (take_offsets(picked, array, out, err))
		return err->code;
	if (is_plain(array->children[0]))
		return take_plain_list(picked, array, out, err);
	items.count = offset_at(out, picked->count);
	size = (size_t)items.count * sizeof(*rows);
	rows = weir_alloc(picked->account, size, err);
	if (!rows)
		return err->code;
	if (type_offset_width(array->type) == 4)
		LIST_ROWS(int32_t);
	else
		LIST_ROWS(int64_t);
	items.rows = rows;
	out->children[0] = take(&items, array->children[0], err);
	weir_free(picked->account, rows, size);
	return out->children[0] ? WEIR_OK : err->code;
}

static int take_fixed_list(const struct picked *lists, const struct weir_array *array, struct weir_array *out,
			   struct weir_error *err)
{
	struct picked items = {.account = lists->account, .missing = lists->missing};
	int64_t each = array->type->list_size, *rows;
	size_t size;

	if (weir_mul_overflows(lists->count, each, &items.count) || items.count > INT64_MAX / 16)
		return weir_error_set(err, WEIR_E_OVERFLOW, "%lld lists of %lld items are too many",
				      (long long)lists->count, (long long)each);
	if (is_plain(array->children[0]) && !lists->missing) {
		const struct weir_array *from = array->children[0];
		struct picked whole = {.rows = lists->rows, .count = lists->count};
		size_t width = from->type->byte_width, first = (size_t)(from->offset + array->offset * each) * width;
		uint8_t *to;

		out->children[0] = plain_new(lists, from, items.count, &to, err);
		if (!out->children[0])
			return err->code;
		gather_width(&whole, from->buffers[1].data + first, to, (size_t)each * width);
		return WEIR_OK;
	}
	size = (size_t)items.count * sizeof(*rows);
	rows = weir_alloc(lists->account, size, err);
	if (!rows)
		return err->code;
	for (int64_t i = 0; i < lists->count; i++) {
		int64_t begin = (array->offset + lists->rows[i]) * each;

		for (int64_t item = 0; item < each; item++)
			rows[i * each + item] = lists->rows[i] < 0 ? -1 : begin + item;
	}
	items.rows = rows;
	out->children[0] = take(&items, array->children[0], err);
	weir_free(lists->account, rows, size);
	return out->children[0] ? WEIR_OK : err->code;
}

static int take_struct(const struct picked *rows, const struct weir_array *array, struct weir_array *out,
		       struct weir_error *err)
{
	for (uint32_t i = 0; i < array->child_count; i++) {
		/* The child seen from where the struct begins, so that the same numbers hold. */
		struct weir_array *child = weir_array_slice(array->children[i], array->offset, array->length, err);

		if (!child)
			return err->code;
		out->children[i] = take(rows, child, err);
		weir_array_unref(child);
		if (!out->children[i])
			return err->code;
	}
	return WEIR_OK;
}

static int take_values(const struct picked *picked, const struct weir_array *array, struct weir_array *out,
		       struct weir_error *err)
{
	switch (array->type->layout) {
	case WEIR_LAYOUT_NULL:
		out->null_count = picked->count;
		return WEIR_OK;
	case WEIR_LAYOUT_BITS:
		return take_bools(picked, array, out, err);
	case WEIR_LAYOUT_FIXED:
		return take_fixed(picked, array, out, err);
	case WEIR_LAYOUT_BYTES:
		return take_bytes(picked, array, out, err);
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (array->type->id == WEIR_STRUCT)
		return take_struct(picked, array, out, err);
	if (array->type->id == WEIR_FIXED_LIST)
		return take_fixed_list(picked, array, out, err);
	return take_list(picked, array, out, err);
}

static struct weir_array *take(const struct picked *picked, const struct weir_array *array, struct weir_error *err)
{
	struct weir_array *out = weir_array_new(picked->account, array->type, err);

	if (!out)
		return NULL;
	out->length = picked->count;
	if ((array->type->layout != WEIR_LAYOUT_NULL && take_validity(picked, array, out, err)) ||
	    take_values(picked, array, out, err)) {
		weir_array_unref(out);
		return NULL;
	}
	return out;
}

/* Without a branch or a maximum, which there is no instruction for, so that several rows are looked at together. */
static bool all_lie_in(const int64_t *rows, int64_t count, int64_t length)
{
	uint64_t outside = 0; /* its sign */

	for (int64_t i = 0; i < count; i++)
		outside |= (uint64_t)rows[i] | ((uint64_t)(length - 1) - (uint64_t)rows[i]);
	return outside <= INT64_MAX;
}

int weir_arrays_take(struct weir_account *account, struct weir_array *const *arrays, uint32_t array_count,
		     const int64_t *rows, int64_t count, struct weir_array **out, struct weir_error *err)
{
	struct picked how = {.account = account, .rows = rows, .count = count};
	int64_t least = 0, most = -1, length = INT64_MAX;
	bool all_lie;

	WEIR_ASSERT(count >= 0);
	memset(out, 0, array_count * sizeof(*out));
	if (count > INT64_MAX / 64)
		return weir_error_set(err, WEIR_E_OVERFLOW, "%lld rows are too many", (long long)count);
	for (uint32_t i = 0; i < array_count; i++)
		length = arrays[i]->length < length ? arrays[i]->length : length;
	all_lie = all_lie_in(rows, count, length);
	for (int64_t i = 0; i < count && !all_lie; i++) {
		least = rows[i] < least ? rows[i] : least;
		most = rows[i] > most ? rows[i] : most;
	}
	how.missing = least < 0;
	for (uint32_t i = 0; i < array_count; i++) {
		if (least < -1 || most >= arrays[i]->length)
			weir_error_set(err, WEIR_E_INVALID, "row %lld does not lie in an array of %lld rows",
				       (long long)(least < -1 ? least : most), (long long)arrays[i]->length);
		else
			out[i] = take(&how, arrays[i], err);
		if (!out[i]) {
			while (i-- > 0) {
				weir_array_unref(out[i]);
				out[i] = NULL;
			}
			return err->code;
		}
	}
	return WEIR_OK;
}

struct weir_array *weir_array_take(struct weir_account *account, const struct weir_array *array, const int64_t *rows,
				   int64_t count, struct weir_error *err)
{
	struct weir_array *from = (struct weir_array *)array, *out;

	return weir_arrays_take(account, &from, 1, rows, count, &out, err) ? NULL : out;
}
