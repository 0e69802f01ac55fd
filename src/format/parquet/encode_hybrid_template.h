/* The RLE/bit-packed hybrid for one type of input: LEVEL (uint8_t: levels, uint32_t: codes). Included by
 * kernels_encode.c with LEVEL, HYBRID_NAME, PACK8_NAME and PACK_NAME set.
 *
 *     run of n equal values   varint(n << 1), the value in whole bytes
 *     g groups of 8 values    varint(g << 1 | 1), g × width bytes, least significant bit first
 *
 * A run is looked for where a group begins: all 8 equal, which costs one vector comparison a group. A run that starts
 * in the middle of a group loses up to 7 values to the packed group before it and is found there.
 */

/* 8 values of `width` bits become `width` bytes. Writes up to 8 bytes past them. */
static inline __attribute__((always_inline)) void PACK8_NAME(const LEVEL *in, unsigned width, uint8_t *out)
{
#if defined(__BMI2__) && defined(__x86_64__)
	if (width <= 8) {
		uint64_t bytes = 0;

		if (sizeof(LEVEL) == 1)
			memcpy(&bytes, in, 8);
		else
			for (unsigned i = 0; i < 8; i++)
				bytes |= (uint64_t)(uint8_t)in[i] << (8 * i);
		bytes = _pext_u64(bytes, 0x0101010101010101u * ((1u << width) - 1));
		memcpy(out, &bytes, 8);
		return;
	}
	if (width <= 16) {
		uint64_t mask = 0x0001000100010001u * ((1u << width) - 1);

		for (unsigned half = 0; half < 2; half++) {
			uint64_t words = 0;

			for (unsigned i = 0; i < 4; i++)
				words |= (uint64_t)(uint16_t)in[4 * half + i] << (16 * i);
			words = _pext_u64(words, mask);
			if (half == 0 || width % 2 == 0) {
				memcpy(out + half * width / 2, &words, 8);
			} else {
				out[width / 2] |= (uint8_t)(words << 4);
				words >>= 4;
				memcpy(out + width / 2 + 1, &words, 8);
			}
		}
		return;
	}
#endif
	{
		uint64_t bits = 0;
		unsigned filled = 0;

		for (unsigned i = 0; i < 8; i++) {
			bits |= (uint64_t)in[i] << filled;
			filled += width;
			if (filled >= 32) {
				uint32_t word = (uint32_t)bits;

				memcpy(out, &word, 4);
				out += 4;
				bits >>= 32;
				filled -= 32;
			}
		}
		memcpy(out, &bits, 8);
	}
}

/* `count` is a multiple of 8. A constant width lets the compiler unroll; the switch is taken once a run. */
static void PACK_NAME(const LEVEL *in, size_t count, unsigned width, uint8_t *out)
{
#define PACK_WIDTH(w)                                                                                                  \
	case w:                                                                                                        \
		for (size_t i = 0; i < count; i += 8, out += w)                                                        \
			PACK8_NAME(in + i, w, out);                                                                    \
		break;
	switch (width) {
		PACK_WIDTH(1)
		PACK_WIDTH(2)
		PACK_WIDTH(3)
		PACK_WIDTH(4)
		PACK_WIDTH(5)
		PACK_WIDTH(6)
		PACK_WIDTH(7)
		PACK_WIDTH(8)
		PACK_WIDTH(9)
		PACK_WIDTH(10)
		PACK_WIDTH(11)
		PACK_WIDTH(12)
		PACK_WIDTH(13)
		PACK_WIDTH(14)
		PACK_WIDTH(15)
		PACK_WIDTH(16)
		PACK_WIDTH(17)
		PACK_WIDTH(18)
		PACK_WIDTH(19)
		PACK_WIDTH(20)
	default:
		for (size_t i = 0; i < count; i += 8, out += width)
			PACK8_NAME(in + i, width, out);
	}
#undef PACK_WIDTH
}

static size_t HYBRID_NAME(const LEVEL *in, size_t count, unsigned width, uint8_t *out)
{
	uint8_t *at = out;
	size_t i = 0, packed = 0; /* [packed, i) waits to be packed */
	unsigned value_bytes = (width + 7) / 8;

	while (i < count) {
		LEVEL first = in[i];
		LEVEL differs = 0;
		size_t end;

		if (count - i >= 8)
			for (unsigned k = 1; k < 8; k++)
				differs |= in[i + k] ^ first;
		else
			differs = 1;
		if (differs) {
			i += count - i >= 8 ? 8 : count - i;
			continue;
		}
		end = i + 8;
		while (count - end >= 16) {
			LEVEL other = 0;

			for (unsigned k = 0; k < 16; k++)
				other |= in[end + k] ^ first;
			if (other)
				break;
			end += 16;
		}
		while (end < count && in[end] == first)
			end++;
		/* Between packed groups a run costs two headers; 8 values of one or two bits are not worth them. What
		 * is left of a run after whole groups goes on as run or not, so [packed, i) stays a multiple of 8. */
		if (packed < i && (end - i) * width < 32) {
			i += 8;
			continue;
		}
		if (packed < i) {
			at = put_varint(at, (i - packed) / 8 << 1 | 1);
			PACK_NAME(in + packed, i - packed, width, at);
			at += (i - packed) / 8 * width;
		}
		at = put_varint(at, (uint64_t)(end - i) << 1);
		for (unsigned b = 0; b < value_bytes; b++)
			*at++ = (uint8_t)((uint64_t)first >> (8 * b));
		packed = i = end;
	}
	if (packed < count) {
		size_t whole = (count - packed) / 8 * 8, rest = count - packed - whole;

		at = put_varint(at, (count - packed + 7) / 8 << 1 | 1);
		PACK_NAME(in + packed, whole, width, at);
		at += whole / 8 * width;
		if (rest) {
			LEVEL last[8] = {0};

			memcpy(last, in + packed + whole, rest * sizeof(LEVEL));
			PACK_NAME(last, 8, width, at);
			at += width;
		}
	}
	return (size_t)(at - out);
}

#undef LEVEL
#undef PACK8_NAME
#undef PACK_NAME
#undef HYBRID_NAME
