/* Bounds of pages and chunks.
 *
 * While a page is open its range is kept as two numbers, or as the places of two values in the page; only at its end
 * they become bytes. What Parquet asks for: NaN never enters a bound, a range of nothing but NaN has none; a bound of
 * zero is −0.0 below and +0.0 above; bytes longer than PARQUET_BOUND_MAX are cut, the upper bound then raised to the
 * next value of that length, text at whole characters.
 */
#include "base/utf8.h"
#include "format/parquet/write_impl.h"

#include <math.h>
#include <string.h>

void parquet_running_init(struct parquet_running *running, const struct parquet_leaf *leaf)
{
	*running = (struct parquet_running){.min_at = SIZE_MAX, .max_at = SIZE_MAX};
	switch (leaf->order) {
#define EXTREMES(type, low, high)                                                                                      \
	do {                                                                                                           \
		type low_ = (low), high_ = (high);                                                                     \
		memcpy(&running->number_min, &high_, sizeof(type));                                                    \
		memcpy(&running->number_max, &low_, sizeof(type));                                                     \
	} while (0)
	case PARQUET_ORDER_I32:
		EXTREMES(int32_t, INT32_MIN, INT32_MAX);
		break;
	case PARQUET_ORDER_U32:
		EXTREMES(uint32_t, 0, UINT32_MAX);
		break;
	case PARQUET_ORDER_I64:
		EXTREMES(int64_t, INT64_MIN, INT64_MAX);
		break;
	case PARQUET_ORDER_U64:
		EXTREMES(uint64_t, 0, UINT64_MAX);
		break;
	case PARQUET_ORDER_F32:
		EXTREMES(float, -INFINITY, INFINITY);
		break;
	case PARQUET_ORDER_F64:
		EXTREMES(double, -INFINITY, INFINITY);
		break;
	default:
		break;
#undef EXTREMES
	}
}

static int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Half floats by bits: flipped so that they compare as integers. NaN is left out by the caller. */
static int half_key(const uint8_t *bytes)
{
	uint16_t bits;

	memcpy(&bits, bytes, 2);
	return bits & 0x8000 ? -(int)(bits & 0x7fff) : (int)bits;
}

static bool half_is_nan(const uint8_t *bytes)
{
	uint16_t bits;

	memcpy(&bits, bytes, 2);
	return (bits & 0x7c00) == 0x7c00 && (bits & 0x03ff);
}

static int compare_decimal(const uint8_t *a, const uint8_t *b, size_t size)
{
	/* Two's complement, big endian: only the first byte is signed. */
	int first = (int)(int8_t)a[0] - (int)(int8_t)b[0];

	return first ? first : memcmp(a, b, size);
}

int parquet_compare(const struct parquet_leaf *leaf, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
#define COMPARE(type)                                                                                                  \
	do {                                                                                                           \
		type x, y;                                                                                             \
		memcpy(&x, a, sizeof(type));                                                                           \
		memcpy(&y, b, sizeof(type));                                                                           \
		return (x > y) - (x < y);                                                                              \
	} while (0)
	switch (leaf->order) {
	case PARQUET_ORDER_I32:
		COMPARE(int32_t);
	case PARQUET_ORDER_U32:
		COMPARE(uint32_t);
	case PARQUET_ORDER_I64:
		COMPARE(int64_t);
	case PARQUET_ORDER_U64:
		COMPARE(uint64_t);
	case PARQUET_ORDER_F32:
		COMPARE(float);
	case PARQUET_ORDER_F64:
		COMPARE(double);
	case PARQUET_ORDER_HALF:
		return half_key(a) - half_key(b);
	case PARQUET_ORDER_BOOL:
		return (int)a[0] - (int)b[0];
	case PARQUET_ORDER_DECIMAL:
		return compare_decimal(a, b, a_size);
	case PARQUET_ORDER_BYTES:
	case PARQUET_ORDER_NONE:
		break;
	}
#undef COMPARE
	return compare_bytes(a, a_size, b, b_size);
}

/* Values of variable size: their first 8 bytes decide nearly always. Reads up to 8 bytes past the last value, which is
 * inside the page's slack. */
static void add_variable(struct parquet_running *running, const uint8_t *data, size_t from, const uint32_t *lengths,
			 size_t count)
{
	struct parquet_running now = *running;
	size_t at = from;

	for (size_t i = 0; i < count; i++) {
		uint32_t size;
		uint64_t key;

		if (lengths) {
			size = lengths[i];
		} else {
			memcpy(&size, data + at, 4);
			at += 4;
		}
		memcpy(&key, data + at, 8);
		key = __builtin_bswap64(key);
		if (size < 8)
			key = size ? key >> (64 - 8 * size) << (64 - 8 * size) : 0;
		if (now.min_at == SIZE_MAX) {
			now.min_at = now.max_at = at;
			now.min_size = now.max_size = size;
			now.key_min = now.key_max = key;
		} else {
			if (key <= now.key_min &&
			    (key < now.key_min ||
			     compare_bytes(data + at, size, data + now.min_at, now.min_size) < 0)) {
				now.min_at = at;
				now.min_size = size;
				now.key_min = key;
			}
			if (key >= now.key_max &&
			    (key > now.key_max ||
			     compare_bytes(data + at, size, data + now.max_at, now.max_size) > 0)) {
				now.max_at = at;
				now.max_size = size;
				now.key_max = key;
			}
		}
		at += size;
	}
	*running = now;
}

static void add_fixed(struct parquet_running *running, const struct parquet_leaf *leaf, const uint8_t *data,
		      size_t from, size_t count)
{
	uint32_t width = leaf->plain_width;

	for (size_t at = from; count > 0; at += width, count--) {
		if (leaf->order == PARQUET_ORDER_HALF && half_is_nan(data + at))
			continue;
		if (running->min_at == SIZE_MAX ||
		    parquet_compare(leaf, data + at, width, data + running->min_at, width) < 0)
			running->min_at = at;
		if (running->max_at == SIZE_MAX ||
		    parquet_compare(leaf, data + at, width, data + running->max_at, width) > 0)
			running->max_at = at;
	}
}

void parquet_running_add(struct parquet_running *running, const struct parquet_leaf *leaf,
			 const struct parquet_encode_kernels *kernels, const uint8_t *data, size_t from,
			 const uint32_t *lengths, size_t count)
{
	if (leaf->order == PARQUET_ORDER_NONE)
		return;
	if (leaf->order < PARQUET_ORDER_NUMBER_COUNT)
		kernels->range[leaf->order](data + from, count, &running->number_min, &running->number_max);
	else if (leaf->convert == PARQUET_CONVERT_VIEWS)
		add_variable(running, data, from, lengths, count);
	else if (leaf->order != PARQUET_ORDER_BOOL)
		add_fixed(running, leaf, data, from, count);
}

/* The largest n ≤ PARQUET_BOUND_MAX at which text may be cut. */
static size_t text_cut(const uint8_t *text)
{
	size_t n = PARQUET_BOUND_MAX;

	while (n > 0 && (text[n] & 0xc0) == 0x80)
		n--;
	return n ? n : PARQUET_BOUND_MAX;
}

static size_t put_char(uint32_t character, uint8_t *out)
{
	if (character < 0x80) {
		out[0] = (uint8_t)character;
		return 1;
	}
	if (character < 0x800) {
		out[0] = (uint8_t)(0xc0 | character >> 6);
		out[1] = (uint8_t)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		out[0] = (uint8_t)(0xe0 | character >> 12);
		out[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
		out[2] = (uint8_t)(0x80 | (character & 0x3f));
		return 3;
	}
	out[0] = (uint8_t)(0xf0 | character >> 18);
	out[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
	out[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
	out[3] = (uint8_t)(0x80 | (character & 0x3f));
	return 4;
}

/* Makes the cut text greater than everything that begins with it: the last character that has a successor of the same
 * length is raised, those behind it dropped. 0: there is none. */
static size_t raise_text(uint8_t *text, size_t size)
{
	while (size > 0) {
		size_t begin = size - 1, length;
		uint32_t character;
		uint8_t raised[4];

		while (begin > 0 && (text[begin] & 0xc0) == 0x80)
			begin--;
		length = size - begin;
		character = length == 1 ? text[begin] : text[begin] & (0xffu >> (length + 1));
		for (size_t i = begin + 1; i < size; i++)
			character = character << 6 | (text[i] & 0x3f);
		character = character == 0xd7ff ? 0xe000 : character + 1;
		if (character <= 0x10ffff && put_char(character, raised) == length) {
			memcpy(text + begin, raised, length);
			return size;
		}
		size = begin;
	}
	return 0;
}

static size_t raise_bytes(uint8_t *bytes, size_t size)
{
	while (size > 0 && bytes[size - 1] == 0xff)
		size--;
	if (size)
		bytes[size - 1]++;
	return size;
}

static void bound_variable(const struct parquet_leaf *leaf, const uint8_t *min, size_t min_size, const uint8_t *max,
			   size_t max_size, struct parquet_range *out)
{
	bool text = leaf->is_text;

	if (min_size > PARQUET_BOUND_MAX) {
		min_size = text ? text_cut(min) : PARQUET_BOUND_MAX;
		out->min_inexact = true;
	}
	memcpy(out->min, min, min_size);
	out->min_size = (uint8_t)min_size;
	out->max_inexact = max_size > PARQUET_BOUND_MAX;
	if (out->max_inexact)
		max_size = text ? text_cut(max) : PARQUET_BOUND_MAX;
	memcpy(out->max, max, max_size);
	if (out->max_inexact) {
		/* Text that is not UTF-8 after all is raised as bytes: a bound that is none would lose rows. */
		if (text && weir_utf8_valid(out->max, max_size))
			max_size = raise_text(out->max, max_size);
		else
			max_size = raise_bytes(out->max, max_size);
		if (max_size == 0)
			out->state = PARQUET_RANGE_UNKNOWN;
	}
	out->max_size = (uint8_t)max_size;
}

void parquet_running_end(const struct parquet_running *running, const struct parquet_leaf *leaf, const uint8_t *data,
			 uint64_t value_count, struct parquet_range *out)
{
	size_t size = leaf->plain_width;

	*out = (struct parquet_range){.state = value_count ? PARQUET_RANGE_KNOWN : PARQUET_RANGE_EMPTY};
	if (value_count == 0)
		return;
	switch (leaf->order) {
	case PARQUET_ORDER_NONE:
		out->state = PARQUET_RANGE_UNKNOWN;
		return;
	case PARQUET_ORDER_BOOL:
		out->min_size = out->max_size = 1;
		out->min[0] = running->true_count == value_count;
		out->max[0] = running->true_count > 0;
		return;
	case PARQUET_ORDER_BYTES:
		if (leaf->convert == PARQUET_CONVERT_VIEWS) {
			bound_variable(leaf, data + running->min_at, running->min_size, data + running->max_at,
				       running->max_size, out);
			return;
		}
		break;
	case PARQUET_ORDER_F32: {
		float min, max;

		memcpy(&min, &running->number_min, 4);
		memcpy(&max, &running->number_max, 4);
		if (min > max) {
			out->state = PARQUET_RANGE_UNKNOWN;
			return;
		}
		min = min == 0 ? -0.0f : min;
		max = max == 0 ? 0.0f : max;
		memcpy(out->min, &min, 4);
		memcpy(out->max, &max, 4);
		out->min_size = out->max_size = 4;
		return;
	}
	case PARQUET_ORDER_F64: {
		double min, max;

		memcpy(&min, &running->number_min, 8);
		memcpy(&max, &running->number_max, 8);
		if (min > max) {
			out->state = PARQUET_RANGE_UNKNOWN;
			return;
		}
		min = min == 0 ? -0.0 : min;
		max = max == 0 ? 0.0 : max;
		memcpy(out->min, &min, 8);
		memcpy(out->max, &max, 8);
		out->min_size = out->max_size = 8;
		return;
	}
	default:
		if (leaf->order < PARQUET_ORDER_NUMBER_COUNT) {
			memcpy(out->min, &running->number_min, size);
			memcpy(out->max, &running->number_max, size);
			out->min_size = out->max_size = (uint8_t)size;
			return;
		}
		break;
	}
	/* Fixed bytes: half floats, long decimals, fixed-size binary. */
	if (running->min_at == SIZE_MAX) {
		out->state = PARQUET_RANGE_UNKNOWN;
		return;
	}
	memcpy(out->min, data + running->min_at, size);
	memcpy(out->max, data + running->max_at, size);
	out->min_size = out->max_size = (uint8_t)size;
	if (leaf->order == PARQUET_ORDER_HALF) {
		if (half_key(out->min) == 0)
			memcpy(out->min, "\x00\x80", 2);
		if (half_key(out->max) == 0)
			memcpy(out->max, "\x00\x00", 2);
	}
}

void parquet_range_merge(struct parquet_range *into, const struct parquet_range *from, const struct parquet_leaf *leaf)
{
	if (from->state == PARQUET_RANGE_EMPTY || into->state == PARQUET_RANGE_UNKNOWN)
		return;
	if (into->state == PARQUET_RANGE_EMPTY || from->state == PARQUET_RANGE_UNKNOWN) {
		*into = *from;
		return;
	}
	if (parquet_compare(leaf, from->min, from->min_size, into->min, into->min_size) < 0) {
		memcpy(into->min, from->min, from->min_size);
		into->min_size = from->min_size;
		into->min_inexact = from->min_inexact;
	}
	if (parquet_compare(leaf, from->max, from->max_size, into->max, into->max_size) > 0) {
		memcpy(into->max, from->max, from->max_size);
		into->max_size = from->max_size;
		into->max_inexact = from->max_inexact;
	}
}
