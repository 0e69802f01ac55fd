#include "format/parquet/rle_impl.h"

#include <string.h>

void parquet_rle_init(struct parquet_rle *rle, const uint8_t *at, const uint8_t *end, uint32_t width)
{
	*rle = (struct parquet_rle){.at = at, .end = end, .width = width};
	/* Codes of a dictionary with one value: some writers leave the runs out altogether. */
	rle->is_constant = width == 0;
}

void parquet_rle_init_bit_packed(struct parquet_rle *rle, const uint8_t *at, const uint8_t *end, uint32_t width)
{
	uint64_t values = width ? (uint64_t)(end - at) * 8 / width : 0;

	*rle = (struct parquet_rle){.at = end, .end = end, .width = width, .packed = at, .msb_first = true};
	rle->left = values > UINT32_MAX ? UINT32_MAX : (uint32_t)values;
	rle->is_constant = width == 0;
}

/* Opens the next run that has values. False at the end or when it makes no sense. */
static bool run_next(struct parquet_rle *rle)
{
	while (rle->left == 0) {
		uint32_t bytes = (rle->width + 7) / 8;
		uint64_t head = 0;

		for (uint32_t shift = 0;; shift += 7) {
			uint8_t byte;

			if (rle->at == rle->end || shift > 28)
				return false;
			byte = *rle->at++;
			head |= (uint64_t)(byte & 0x7f) << shift;
			if (byte < 0x80)
				break;
		}
		if (head & 1) {
			uint64_t there = (uint64_t)(rle->end - rle->at);
			uint64_t groups = head >> 1, size = groups * rle->width, values = groups * 8;

			/* Some writers cut the padding off the last group. */
			if (size > there) {
				size = there;
				values = there * 8 / rle->width;
			}
			if (values > UINT32_MAX)
				return false;
			rle->packed = rle->at;
			rle->at += size;
			rle->left = (uint32_t)values;
			rle->taken = 0;
		} else {
			if ((size_t)(rle->end - rle->at) < bytes)
				return false;
			rle->packed = NULL;
			rle->value = 0;
			memcpy(&rle->value, rle->at, bytes);
			rle->at += bytes;
			if (rle->width < 32 && rle->value >> rle->width)
				return false;
			rle->left = (uint32_t)(head >> 1);
		}
	}
	return true;
}

static void unpack_msb(struct parquet_rle *rle, uint32_t count, uint32_t *out)
{
	uint64_t bit = (uint64_t)rle->taken * rle->width;

	for (uint32_t i = 0; i < count; i++) {
		out[i] = 0;
		for (uint32_t b = 0; b < rle->width; b++, bit++)
			out[i] = out[i] << 1 | (rle->packed[bit >> 3] >> (7 - (bit & 7)) & 1);
	}
}

static void unpack(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count, uint32_t *out)
{
	uint32_t head = rle->taken & 7;

	if (rle->msb_first) {
		unpack_msb(rle, count, out);
		return;
	}
	if (head) {
		uint32_t group[32 + 8], some = 8 - head < count ? 8 - head : count;

		kernels->unpack32(rle->packed + (size_t)(rle->taken >> 3) * rle->width, rle->width, 8, group);
		memcpy(out, group + head, some * sizeof(*out));
		out += some;
		count -= some;
		if (count == 0)
			return;
		kernels->unpack32(rle->packed + (size_t)((rle->taken + some) >> 3) * rle->width, rle->width, count,
				  out);
		return;
	}
	kernels->unpack32(rle->packed + (size_t)(rle->taken >> 3) * rle->width, rle->width, count, out);
}

uint32_t parquet_rle_read(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count, uint32_t *out)
{
	uint32_t done = 0;

	if (rle->is_constant) {
		memset(out, 0, count * sizeof(*out));
		return count;
	}
	while (done < count) {
		uint32_t some = count - done;

		if (!run_next(rle))
			break;
		some = some < rle->left ? some : rle->left;
		if (rle->packed)
			unpack(rle, kernels, some, out + done);
		else
			kernels->fill32(out + done, some, rle->value);
		rle->taken += some;
		rle->left -= some;
		done += some;
	}
	return done;
}

uint32_t parquet_rle_skip(struct parquet_rle *rle, uint32_t count)
{
	uint32_t done = 0;

	if (rle->is_constant)
		return count;
	while (done < count) {
		uint32_t some = count - done;

		if (!run_next(rle))
			break;
		some = some < rle->left ? some : rle->left;
		rle->taken += some;
		rle->left -= some;
		done += some;
	}
	return done;
}

static void fill_bits(uint64_t *out, uint32_t at, uint32_t count, bool value)
{
	uint64_t word = value ? UINT64_MAX : 0;

	if (at & 63) {
		uint64_t kept = ((uint64_t)1 << (at & 63)) - 1;

		out[at >> 6] = (out[at >> 6] & kept) | (word & ~kept);
		if (count <= 64 - (at & 63))
			return;
		count -= 64 - (at & 63);
		at += 64 - (at & 63);
	}
	for (uint32_t i = 0; i < count; i += 64)
		out[(at + i) >> 6] = word;
}

static void msb_bits(struct parquet_rle *rle, uint32_t count, uint64_t *out, uint32_t at)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t bit = rle->taken + i, value = rle->packed[bit >> 3] >> (7 - (bit & 7)) & 1;

		out[(at + i) >> 6] &= ~((uint64_t)1 << ((at + i) & 63));
		out[(at + i) >> 6] |= (uint64_t)value << ((at + i) & 63);
	}
}

uint32_t parquet_rle_read_bits(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count,
			       uint64_t *out, uint32_t *ones)
{
	uint32_t done = 0;

	WEIR_ASSERT(rle->width <= 1);
	*ones = 0;
	if (rle->is_constant) {
		fill_bits(out, 0, count, false);
		return count;
	}
	while (done < count) {
		uint32_t some = count - done;

		if (!run_next(rle))
			break;
		some = some < rle->left ? some : rle->left;
		if (!rle->packed)
			fill_bits(out, done, some, rle->value);
		else if (rle->msb_first)
			msb_bits(rle, some, out, done);
		else
			kernels->copy_bits(rle->packed, rle->taken, some, out, done);
		rle->taken += some;
		rle->left -= some;
		done += some;
	}
	*ones = kernels->count_bits(out, done);
	return done;
}

uint32_t parquet_rle_skip_ones(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count,
			       uint32_t *ones)
{
	uint64_t bits[64 + 1];
	uint32_t done = 0;

	*ones = 0;
	while (done < count) {
		uint32_t some = count - done, set;

		if (!rle->is_constant && !run_next(rle))
			break;
		if (!rle->is_constant && !rle->packed) {
			some = some < rle->left ? some : rle->left;
			*ones += rle->value ? some : 0;
			rle->left -= some;
			done += some;
			continue;
		}
		some = some < 4096 ? some : 4096;
		if (parquet_rle_read_bits(rle, kernels, some, bits, &set) != some)
			break;
		*ones += set;
		done += some;
	}
	return done;
}

/* ── looking ahead ── */

/* The value of a packed group of 8, `at` bits in. */
static uint32_t packed_value(const struct parquet_rle *rle, uint64_t number)
{
	uint64_t bit = number * rle->width;
	uint32_t value = 0;

	for (uint32_t i = 0; i < rle->width; i++, bit++)
		value |= (uint32_t)(rle->packed[bit >> 3] >> (bit & 7) & 1) << i;
	return value;
}

/* `count` values of the packed ones at hand, from a whole group on. */
static bool packed_is_all(const struct parquet_rle *rle, uint32_t count, uint32_t value)
{
	const uint8_t *at = rle->packed + (size_t)(rle->taken >> 3) * rle->width;
	uint8_t group[32] = {0};

	for (uint32_t i = 0; i < 8 * rle->width; i++)
		group[i >> 3] |= (uint8_t)((value >> i % rle->width & 1) << (i & 7));
	for (uint32_t i = 0; i < count / 8; i++, at += rle->width)
		if (memcmp(at, group, rle->width) != 0)
			return false;
	for (uint32_t i = count & ~7u; i < count; i++)
		if (packed_value(rle, rle->taken + i) != value)
			return false;
	return true;
}

bool parquet_rle_is_all(struct parquet_rle rle, uint64_t count, uint32_t value)
{
	if (rle.is_constant)
		return value == 0;
	if (rle.msb_first || rle.width > 32 || rle.taken & 7)
		return false;
	while (count > 0) {
		uint32_t some;

		if (!run_next(&rle))
			return false;
		some = count < rle.left ? (uint32_t)count : rle.left;
		if (rle.packed ? !packed_is_all(&rle, some, value) : rle.value != value)
			return false;
		rle.left = 0;
		count -= some;
	}
	return true;
}

/* Packed levels of which number 0 is entry `at`; *zero is the next entry that has to be 0. */
static bool packed_is_lists(const uint8_t *packed, uint32_t count, uint64_t at, uint64_t size, uint64_t *zero)
{
	while (count > 0) {
		uint32_t some = count < 8 ? count : 8;
		uint8_t expected = 0xff;

		if (count >= 64 && *zero >= at + 64) {
			uint64_t word;

			memcpy(&word, packed, 8);
			if (word != UINT64_MAX)
				return false;
			packed += 8;
			count -= 64;
			at += 64;
			continue;
		}
		for (; *zero < at + some; *zero += size)
			expected &= (uint8_t) ~(1u << (*zero - at));
		if ((*packed ^ expected) & ((1u << some) - 1))
			return false;
		packed++;
		count -= some;
		at += some;
	}
	return true;
}

bool parquet_rle_is_lists(struct parquet_rle rle, uint64_t count, uint64_t size)
{
	uint64_t at = 0, zero = 0;

	if (rle.width != 1 || rle.msb_first || rle.taken & 7 || size == 0)
		return false;
	while (at < count) {
		uint32_t some;

		if (!run_next(&rle))
			return false;
		some = count - at < rle.left ? (uint32_t)(count - at) : rle.left;
		if (rle.packed) {
			if (!packed_is_lists(rle.packed + (rle.taken >> 3), some, at, size, &zero))
				return false;
		} else if (rle.value) {
			if (zero < at + some)
				return false;
		} else {
			if (zero != at || (some > 1 && size > 1))
				return false;
			zero += size * some;
		}
		rle.left = 0;
		at += some;
	}
	return true;
}

uint64_t parquet_rle_first_list(struct parquet_rle rle, uint64_t count)
{
	uint64_t at = 0;

	if (rle.width != 1 || rle.msb_first || rle.taken & 7)
		return 0;
	while (at < count) {
		uint32_t some;

		if (!run_next(&rle))
			return 0;
		some = count - at < rle.left ? (uint32_t)(count - at) : rle.left;
		for (uint32_t i = 0; rle.packed && i < some; i++)
			if (packed_value(&rle, rle.taken + i) != (at + i > 0))
				return at + i;
		if (!rle.packed && (at ? !rle.value : rle.value))
			return at;
		if (!rle.packed && !at && some > 1)
			return 1;
		rle.left = 0;
		at += some;
	}
	return at;
}
