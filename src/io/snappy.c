/* Snappy: a varint with the size, then literals and copies of what was written before:
 *
 *     literal  │ (length − 1) << 2 │ bytes          60 … 63: the length follows in 1 … 4 bytes
 *     copy     │ offset >> 3 & 0xe0 │ (length − 4) << 2 │ 1 │ offset & 0xff            4 … 11 bytes
 *              │ (length − 1) << 2 | 2 │ offset, 2 bytes        │ (length − 1) << 2 | 3 │ offset, 4 bytes
 *
 * Almost all of them are short, so what costs is the call and the branch that is guessed wrong, not the bytes. Far from
 * both ends a literal or a copy is a few moves of fixed size whatever its length, and what was written too much is
 * written over; near the ends, and for what is long, the careful loop does the same. Which form a copy has is worked
 * out without a branch: with one, pages of numbers and texts took 1.2 to 1.7 times as long.
 */
#include "io/snappy.h"

#include <string.h>

enum {
	IN_NEAR = 140,  /* a literal of 60 bytes, a copy, and what their moves overshoot */
	OUT_NEAR = 160, /* the same, written */
	MOVE = 16,
	LITERAL_MAX = 60, /* with its length in the tag */
};

static inline void move(uint8_t *to, const uint8_t *from)
{
	memcpy(to, from, MOVE);
}

/* A copy from less than 8 bytes back reads what it writes: the pattern is laid down in steps of whole patterns. */
static inline void repeat(uint8_t *to, size_t offset, size_t length)
{
	const uint8_t *from = to - offset;
	uint8_t *end = to + length, *at;
	size_t step;

	for (int i = 0; i < 8; i++)
		to[i] = from[i];
	step = 8 - 8 % offset;
	for (at = to + step; at < end; at += step)
		memcpy(at, to, 8);
}

/* Tag and operands of a copy, its size in the input. */
static inline size_t copy_parse(const uint8_t *in, size_t *length, size_t *offset)
{
	uint32_t tag = in[0];

	switch (tag & 3) {
	case 1:
		*length = (tag >> 2 & 7) + 4;
		*offset = (size_t)(tag >> 5) << 8 | in[1];
		return 2;
	case 2:
		*length = (tag >> 2) + 1;
		*offset = in[1] | (size_t)in[2] << 8;
		return 3;
	default:
		*length = (tag >> 2) + 1;
		*offset = in[1] | (size_t)in[2] << 8 | (size_t)in[3] << 16 | (size_t)in[4] << 24;
		return 5;
	}
}

bool weir_snappy_size(const uint8_t *in, size_t size_in, uint64_t *out)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < 5 && i < size_in; i++) {
		size |= (uint64_t)(in[i] & 0x7f) << (7 * i);
		if (in[i] < 0x80) {
			*out = size;
			return size <= UINT32_MAX;
		}
	}
	return false;
}

/* One literal or copy with every step checked. */
static bool step_careful(const uint8_t **in, const uint8_t *in_end, uint8_t *out, uint8_t **to, uint8_t *out_end)
{
	static const uint8_t operands[4] = {0, 1, 2, 4};
	uint32_t tag = **in;
	size_t length, offset;

	if ((tag & 3) == 0) {
		length = (tag >> 2) + 1;
		(*in)++;
		if (length > LITERAL_MAX) {
			uint32_t bytes = (uint32_t)length - LITERAL_MAX;

			if ((size_t)(in_end - *in) < bytes)
				return false;
			length = 1;
			for (uint32_t i = 0; i < bytes; i++)
				length += (size_t)(*in)[i] << (8 * i);
			*in += bytes;
		}
		if (length > (size_t)(in_end - *in) || length > (size_t)(out_end - *to))
			return false;
		memcpy(*to, *in, length);
		*in += length;
		*to += length;
		return true;
	}
	if ((size_t)(in_end - *in) < 1u + operands[tag & 3])
		return false;
	*in += copy_parse(*in, &length, &offset);
	if (offset == 0 || offset > (size_t)(*to - out) || length > (size_t)(out_end - *to))
		return false;
	for (; length > 0; length--, (*to)++)
		**to = *(*to - offset);
	return true;
}

bool weir_snappy_inflate(const uint8_t *in, size_t size_in, uint8_t *out, size_t size_out)
{
	const uint8_t *in_end = in + size_in;
	uint8_t *to = out, *out_end = out + size_out, *out_far;
	const uint8_t *in_far;
	uint64_t size;

	if (!weir_snappy_size(in, size_in, &size) || size != size_out)
		return false;
	while (*in >= 0x80)
		in++;
	in++;
	in_far = in_end - in > IN_NEAR ? in_end - IN_NEAR : in;
	out_far = size_out > OUT_NEAR ? out_end - OUT_NEAR : out;
	while (in < in_end) {
		uint32_t tag = *in;

		while (in < in_far && to < out_far) {
			size_t length, offset;
			uint32_t operands;

			if ((tag & 3) == 0) {
				length = (tag >> 2) + 1;
				move(to, in + 1);
				if (length > MOVE) {
					if (length > LITERAL_MAX)
						break;
					for (int i = MOVE; i < 64; i += MOVE)
						move(to + i, in + 1 + i);
				}
				in += 1 + length;
				to += length;
				tag = *in;
				if ((tag & 3) == 0)
					continue; /* rare: a copy follows a literal */
			}
			memcpy(&operands, in + 1, 4);
			if ((tag & 3) == 3) {
				length = (tag >> 2) + 1;
				offset = operands;
				in += 5;
				tag = *in;
			} else {
				/* Which of the two short forms it is cannot be predicted, so both are worked out and
				 * one is taken by a mask; the next tag is among the operands already. */
				uint32_t is_wide = tag >> 1 & 1, mask = 0u - is_wide;
				uint32_t length_1 = (tag >> 2 & 7) + 4, length_2 = (tag >> 2) + 1;
				uint32_t offset_1 = (tag & 0xe0) << 3 | (operands & 0xff), offset_2 = operands & 0xffff;

				length = length_1 ^ ((length_1 ^ length_2) & mask);
				offset = offset_1 ^ ((offset_1 ^ offset_2) & mask);
				in += 2 + is_wide;
				tag = operands >> (8 + 8 * is_wide) & 0xff;
			}
			if (offset - 1 >= (size_t)(to - out)) /* 0 too */
				return false;
			if (offset >= 8) {
				memcpy(to, to - offset, 8);
				memcpy(to + 8, to - offset + 8, 8);
				if (length > MOVE)
					for (int i = MOVE; i < 64; i += 8)
						memcpy(to + i, to - offset + i, 8);
			} else {
				repeat(to, offset, length);
			}
			to += length;
		}
		if (!step_careful(&in, in_end, out, &to, out_end))
			return false;
	}
	return to == out_end;
}
