/* Loops of the Parquet writer, compiled once per CPU level (base/cpu.h). Every one works on what a vector brings, at
 * most a few thousand values that are in cache, and none knows of pages. See struct parquet_encode_kernels in
 * write_impl.h.
 *
 * Plain loops, which the compiler vectorises per level; only the bit-packing uses an instruction by name (PEXT packs
 * eight values at once: bench/micro/parquet_encode.c).
 */
#include "base/cpu.h"
#include "format/parquet/write_impl.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

#define LEVEL uint8_t
#define PACK8_NAME pack8_u8
#define PACK_NAME pack_u8
#define HYBRID_NAME hybrid_u8
#include "format/parquet/encode_hybrid_template.h"

#define LEVEL uint32_t
#define PACK8_NAME pack8_u32
#define PACK_NAME pack_u32
#define HYBRID_NAME hybrid_u32
#include "format/parquet/encode_hybrid_template.h"

static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* Widths of 33 to 64 bits. `count` is a multiple of 8. */
static void pack_wide(const uint64_t *in, size_t count, unsigned width, uint8_t *out)
{
	uint64_t bits = 0;
	unsigned filled = 0;

	for (size_t i = 0; i < count; i++) {
		bits |= in[i] << filled;
		if (filled + width >= 64) {
			memcpy(out, &bits, 8);
			out += 8;
			bits = filled ? in[i] >> (64 - filled) : 0;
			filled = filled + width - 64;
		} else {
			filled += width;
		}
	}
	memcpy(out, &bits, (filled + 7) / 8);
}

#define NUMBER uint32_t
#define SIGNED int32_t
#define DELTA_NAME delta4
#include "format/parquet/encode_delta_template.h"

#define NUMBER uint64_t
#define SIGNED int64_t
#define DELTA_NAME delta8
#include "format/parquet/encode_delta_template.h"

/* Bits as levels of width 1: packed groups are the bytes as they lie, and bytes of all ones or zeros are runs. */
static size_t hybrid_bits(const uint8_t *bits, size_t count, uint8_t *out)
{
	enum { RUN_BYTES_MIN = 8 };
	uint8_t *at = out;
	size_t bytes = (count + 7) / 8, whole = count / 8, i = 0, packed = 0;

	while (i < whole) {
		uint8_t value = bits[i];
		size_t end = i + 1;
		uint64_t same = value ? UINT64_MAX : 0, word;

		if (value != 0 && value != 0xff) {
			i++;
			continue;
		}
		for (; whole - end >= 8; end += 8) {
			memcpy(&word, bits + end, 8);
			if (word != same)
				break;
		}
		while (end < whole && bits[end] == value)
			end++;
		if (end - i < RUN_BYTES_MIN && !(i == 0 && end == whole)) {
			i = end;
			continue;
		}
		if (packed < i) {
			at = put_varint(at, (i - packed) << 1 | 1);
			memcpy(at, bits + packed, i - packed);
			at += i - packed;
		}
		{
			size_t run = (end - i) * 8;

			/* The last, partial byte may belong to the run. */
			if (end == whole && count % 8) {
				uint8_t mask = (uint8_t)((1u << count % 8) - 1);

				if ((bits[end] & mask) == (value & mask)) {
					run += count % 8;
					end++;
				}
			}
			at = put_varint(at, (uint64_t)run << 1);
			*at++ = value & 1;
		}
		packed = i = end;
	}
	if (packed < bytes) {
		at = put_varint(at, (bytes - packed) << 1 | 1);
		memcpy(at, bits + packed, bytes - packed);
		at += bytes - packed;
	}
	return (size_t)(at - out);
}

static void gather4(const void *values, const uint16_t *rows, size_t count, void *out)
{
	const uint32_t *from = values;
	uint8_t *to = out;

	for (size_t i = 0; i < count; i++)
		memcpy(to + 4 * i, &from[rows[i]], 4);
}

static void gather8(const void *values, const uint16_t *rows, size_t count, void *out)
{
	const uint64_t *from = values;
	uint8_t *to = out;

	for (size_t i = 0; i < count; i++)
		memcpy(to + 8 * i, &from[rows[i]], 8);
}

#define DEFINE_GATHER_CODES(name, type)                                                                                \
	static void name(const void *values, const uint32_t *codes, const uint16_t *rows, size_t count, void *out)     \
	{                                                                                                              \
		const type *from = values;                                                                             \
		uint8_t *to = out;                                                                                     \
		if (rows)                                                                                              \
			for (size_t i = 0; i < count; i++)                                                             \
				memcpy(to + i * sizeof(type), &from[codes[rows[i]]], sizeof(type));                    \
		else                                                                                                   \
			for (size_t i = 0; i < count; i++)                                                             \
				memcpy(to + i * sizeof(type), &from[codes[i]], sizeof(type));                          \
	}

DEFINE_GATHER_CODES(gather_codes4, uint32_t)
DEFINE_GATHER_CODES(gather_codes8, uint64_t)

/* `values` may lie on any address: it is the inside of a page. */
#define DEFINE_RANGE(name, type)                                                                                       \
	static void name(const void *values, size_t count, void *min_inout, void *max_inout)                           \
	{                                                                                                              \
		const uint8_t *from = values;                                                                          \
		type min, max;                                                                                         \
		memcpy(&min, min_inout, sizeof(type));                                                                 \
		memcpy(&max, max_inout, sizeof(type));                                                                 \
		for (size_t i = 0; i < count; i++) {                                                                   \
			type value;                                                                                    \
			memcpy(&value, from + i * sizeof(type), sizeof(type));                                         \
			min = value < min ? value : min;                                                               \
			max = value > max ? value : max;                                                               \
		}                                                                                                      \
		memcpy(min_inout, &min, sizeof(type));                                                                 \
		memcpy(max_inout, &max, sizeof(type));                                                                 \
	}

DEFINE_RANGE(range_i32, int32_t)
DEFINE_RANGE(range_u32, uint32_t)
DEFINE_RANGE(range_i64, int64_t)
DEFINE_RANGE(range_u64, uint64_t)
/* A comparison with NaN is false, so NaNs never enter; the caller starts from +inf and −inf. */
DEFINE_RANGE(range_f32, float)
DEFINE_RANGE(range_f64, double)

static bool map_codes(const uint32_t *codes, const uint16_t *rows, size_t count, const uint32_t *map, uint32_t *out)
{
	uint32_t missing = 0;

	if (rows)
		for (size_t i = 0; i < count; i++) {
			out[i] = map[codes[rows[i]]];
			missing |= out[i] == PARQUET_CODE_NONE;
		}
	else
		for (size_t i = 0; i < count; i++) {
			out[i] = map[codes[i]];
			missing |= out[i] == PARQUET_CODE_NONE;
		}
	return missing != 0;
}

static void select_bits(const uint64_t *bits, const uint16_t *rows, size_t count, uint64_t *out)
{
	for (size_t i = 0; i < count; i += 64) {
		size_t n = count - i < 64 ? count - i : 64;
		uint64_t word = 0;

		for (size_t k = 0; k < n; k++) {
			uint32_t row = rows[i + k];

			word |= (bits[row >> 6] >> (row & 63) & 1) << k;
		}
		out[i / 64] = word;
	}
}

static size_t select_present(const uint64_t *valid, const uint16_t *rows, size_t count, uint16_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t row = rows ? rows[i] : (uint32_t)i;

		out[n] = (uint16_t)row;
		n += valid[row >> 6] >> (row & 63) & 1;
	}
	return n;
}

static void mark_codes(const uint32_t *codes, size_t count, uint8_t *used)
{
	for (size_t i = 0; i < count; i++)
		used[codes[i]] = 1;
}

static void split_streams4(const uint8_t *in, size_t count, uint8_t *out)
{
	for (size_t i = 0; i < count; i++)
		for (unsigned b = 0; b < 4; b++)
			out[b * count + i] = in[4 * i + b];
}

static void split_streams8(const uint8_t *in, size_t count, uint8_t *out)
{
	/* Eight values and eight bytes at a time, a transposition in registers: stores stay whole words. */
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		uint64_t w[8], t;

		memcpy(w, in + 8 * i, 64);
#define SWAP(a, b, shift, mask)                                                                                        \
	t = ((w[a] >> (shift)) ^ w[b]) & (mask);                                                                       \
	w[b] ^= t;                                                                                                     \
	w[a] ^= t << (shift)
		SWAP(0, 4, 32, 0x00000000ffffffffu);
		SWAP(1, 5, 32, 0x00000000ffffffffu);
		SWAP(2, 6, 32, 0x00000000ffffffffu);
		SWAP(3, 7, 32, 0x00000000ffffffffu);
		SWAP(0, 2, 16, 0x0000ffff0000ffffu);
		SWAP(1, 3, 16, 0x0000ffff0000ffffu);
		SWAP(4, 6, 16, 0x0000ffff0000ffffu);
		SWAP(5, 7, 16, 0x0000ffff0000ffffu);
		SWAP(0, 1, 8, 0x00ff00ff00ff00ffu);
		SWAP(2, 3, 8, 0x00ff00ff00ff00ffu);
		SWAP(4, 5, 8, 0x00ff00ff00ff00ffu);
		SWAP(6, 7, 8, 0x00ff00ff00ff00ffu);
#undef SWAP
		for (unsigned b = 0; b < 8; b++)
			memcpy(out + b * count + i, &w[b], 8);
	}
	for (; i < count; i++)
		for (unsigned b = 0; b < 8; b++)
			out[b * count + i] = in[8 * i + b];
}

extern const struct parquet_encode_kernels WEIR_KERNEL(parquet_encode_kernels);
const struct parquet_encode_kernels WEIR_KERNEL(parquet_encode_kernels) = {
	.hybrid_u8 = hybrid_u8,
	.hybrid_u32 = hybrid_u32,
	.hybrid_bits = hybrid_bits,
	.pack_u32 = pack_u32,
	.delta4 = delta4,
	.delta8 = delta8,
	.gather4 = gather4,
	.gather8 = gather8,
	.gather_codes4 = gather_codes4,
	.gather_codes8 = gather_codes8,
	.range = {[PARQUET_ORDER_I32] = range_i32,
		  [PARQUET_ORDER_U32] = range_u32,
		  [PARQUET_ORDER_I64] = range_i64,
		  [PARQUET_ORDER_U64] = range_u64,
		  [PARQUET_ORDER_F32] = range_f32,
		  [PARQUET_ORDER_F64] = range_f64},
	.map_codes = map_codes,
	.select_bits = select_bits,
	.select_present = select_present,
	.mark_codes = mark_codes,
	.split_streams4 = split_streams4,
	.split_streams8 = split_streams8,
};
