#include "format/parquet/delta_impl.h"

#include <string.h>

static bool varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	*out = 0;
	for (uint32_t shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (*at == end)
			return false;
		byte = *(*at)++;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool zigzag(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	uint64_t value;

	if (!varint(at, end, &value))
		return false;
	*out = value >> 1 ^ -(value & 1);
	return true;
}

bool parquet_delta_init(struct parquet_delta *delta, const uint8_t *at, const uint8_t *end)
{
	uint64_t block, minis, count, first;

	*delta = (struct parquet_delta){.end = end};
	if (!varint(&at, end, &block) || !varint(&at, end, &minis) || !varint(&at, end, &count) ||
	    !zigzag(&at, end, &first))
		return false;
	if (minis == 0 || block == 0 || block > 1u << 20 || block % minis || block / minis % 8 || count > INT32_MAX)
		return false;
	delta->at = at;
	delta->last = first;
	delta->value_count = delta->left = (uint32_t)count;
	delta->is_first_pending = count > 0;
	delta->mini_count = delta->mini = (uint32_t)minis;
	delta->mini_values = (uint32_t)(block / minis);
	return true;
}

static bool block_open(struct parquet_delta *delta)
{
	if (!zigzag(&delta->at, delta->end, &delta->min_delta) || (size_t)(delta->end - delta->at) < delta->mini_count)
		return false;
	delta->widths = delta->at;
	delta->at += delta->mini_count;
	delta->mini = 0;
	return true;
}

/* Opens the next miniblock. Its `left` values must be there; writers may cut what lies behind the last. */
static bool mini_open(struct parquet_delta *delta, uint32_t left)
{
	uint64_t size, needed;
	uint32_t width, values = left < delta->mini_values ? left : delta->mini_values;

	if (delta->mini == delta->mini_count && !block_open(delta))
		return false;
	width = delta->widths[delta->mini++];
	if (width > 64)
		return false;
	size = (uint64_t)delta->mini_values * width / 8;
	needed = ((uint64_t)values * width + 7) / 8;
	if (size > (uint64_t)(delta->end - delta->at))
		size = (uint64_t)(delta->end - delta->at);
	if (size < needed)
		return false;
	delta->packed = delta->at;
	delta->packed_width = width;
	delta->packed_left = values;
	delta->packed_taken = 0;
	delta->at += size;
	return true;
}

static void unpack(const struct parquet_delta *delta, const struct parquet_kernels *kernels, uint32_t count,
		   uint64_t *out)
{
	uint32_t head = delta->packed_taken & 7, width = delta->packed_width;
	const uint8_t *at = delta->packed + (size_t)(delta->packed_taken >> 3) * width;

	if (head) {
		uint64_t group[8];
		uint32_t some = 8 - head < count ? 8 - head : count;

		kernels->unpack64(at, width, 8, group);
		memcpy(out, group + head, some * sizeof(*out));
		out += some;
		count -= some;
		at += width;
	}
	kernels->unpack64(at, width, count, out);
}

uint32_t parquet_delta_read(struct parquet_delta *delta, const struct parquet_kernels *kernels, uint32_t count,
			    uint64_t *out)
{
	uint32_t done = 0;

	if (delta->is_first_pending && count > 0) {
		out[done++] = delta->last;
		delta->is_first_pending = false;
		delta->left--;
	}
	while (done < count && delta->left > 0) {
		uint32_t some = count - done;

		if (delta->packed_left == 0 && !mini_open(delta, delta->left))
			break;
		some = some < delta->packed_left ? some : delta->packed_left;
		unpack(delta, kernels, some, out + done);
		kernels->sum_deltas(out + done, some, delta->min_delta, &delta->last);
		delta->packed_taken += some;
		delta->packed_left -= some;
		delta->left -= some;
		done += some;
	}
	return done;
}

const uint8_t *parquet_delta_end(const struct parquet_delta *delta)
{
	struct parquet_delta walk = *delta;
	uint32_t left = walk.value_count ? walk.value_count - 1 : 0;

	while (left > 0) {
		if (!mini_open(&walk, left))
			return NULL;
		left -= walk.packed_left;
	}
	return walk.at;
}
