/* kernels: the loops that run once per value when pages are decoded, built once per CPU level (base/cpu.h).
 *
 * Inputs come from page buffers, which are readable PARQUET_PAD bytes past their end; outputs are the column's own
 * buffers, which take PARQUET_SLACK values more than asked for. So no loop needs a careful tail. Lengths and counts
 * have been compared with the page by the caller, unless a kernel says that it does so itself.
 */
#ifndef WEIR_FORMAT_PARQUET_KERNELS_IMPL_H
#define WEIR_FORMAT_PARQUET_KERNELS_IMPL_H

#include "base/cpu.h"
#include "vector/vector.h"

enum { PARQUET_PAD = 64, PARQUET_SLACK = 64 };

struct parquet_kernels {
	/* `count` values of `width` bits (0 … 32), from a byte boundary, least significant bits first. Writes up to 31
	 * values past `count`. */
	void (*unpack32)(const uint8_t *in, uint32_t width, uint32_t count, uint32_t *out);
	/* The same for 0 … 64 bits. */
	void (*unpack64)(const uint8_t *in, uint32_t width, uint32_t count, uint64_t *out);
	uint32_t (*max32)(const uint32_t *values, uint32_t count); /* 0 when there are none */
	void (*fill32)(uint32_t *out, uint32_t count, uint32_t value);
	/* Packed values to their rows: row i of `count` gets the next value when its bit is set, anything otherwise. By
	 * the logarithm of the value's bytes: 1, 2, 4, 8, 16. */
	void (*spread[5])(const uint64_t *valid, uint32_t count, const void *packed, void *out);
	void (*spread_bits)(const uint64_t *valid, uint32_t count, const uint64_t *packed, uint64_t *out);
	/* Views of `count` values that each follow their 4-byte length. The place after the last one, or NULL when a
	 * length leads out of [at, end). */
	const uint8_t *(*views)(const uint8_t *at, const uint8_t *end, uint32_t count, struct weir_view *out);
	/* Passes over `count` such values. */
	const uint8_t *(*views_skip)(const uint8_t *at, const uint8_t *end, uint32_t count);
	/* The longest of the values that fill [at, end); UINT32_MAX when lengths do not lead to the end. */
	uint32_t (*lengths_max)(const uint8_t *at, const uint8_t *end);
	bool (*is_ascii)(const uint8_t *bytes, size_t size);
	/* bits [from_bit, from_bit + count) of `in` to bit `to_bit` and on of `out`, whose later bits are lost up to
	 * the end of the last word written. */
	void (*copy_bits)(const uint8_t *in, size_t from_bit, uint32_t count, uint64_t *out, uint32_t to_bit);
	uint32_t (*count_bits)(const uint64_t *bits, uint32_t count);
	/* out[i] = codes[i] < count ? values[codes[i]] : anything; codes are inside. By the logarithm of the bytes, as
	 * above. */
	void (*gather[5])(const void *values, const uint32_t *codes, uint32_t count, void *out);
	/* BYTE_STREAM_SPLIT: byte b of value i is in[b * stride + i]. */
	void (*join_streams)(const uint8_t *in, size_t stride, uint32_t width, uint32_t count, uint8_t *out);
	/* In place: deltas to values, x[i] = x[i − 1] + delta[i] + min_delta with x[−1] = *last; *last moves on.
	 * Wraps. */
	void (*sum_deltas)(uint64_t *values, uint32_t count, uint64_t min_delta, uint64_t *last);
};

/* The table for this machine. */
const struct parquet_kernels *parquet_kernels_choose(void);

#endif
