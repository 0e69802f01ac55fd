/* rle: the hybrid of runs and bit-packed groups in which Parquet keeps levels, dictionary codes and (v2) booleans.
 *
 *     run:     │ varint count << 1      │ value, ceil(width / 8) bytes │
 *     groups:  │ varint groups << 1 | 1 │ groups × 8 values of `width` bits │
 *
 * A cursor: read and skip move it on. It never reads past `end` (kernels may load, not use, PARQUET_PAD bytes more).
 */
#ifndef WEIR_FORMAT_PARQUET_RLE_IMPL_H
#define WEIR_FORMAT_PARQUET_RLE_IMPL_H

#include "format/parquet/kernels_impl.h"

struct parquet_rle {
	const uint8_t *at, *end; /* the next run's head */
	uint32_t width;
	uint32_t value;        /* of a run */
	uint32_t left;         /* values left in the current run or groups */
	uint32_t taken;        /* of the groups */
	const uint8_t *packed; /* NULL in a run */
	bool is_constant;      /* width 0: zeros without end, no bytes */
	bool msb_first;        /* BIT_PACKED levels of old writers: one endless group, most significant bit first */
};

/* width ≤ 32. */
void parquet_rle_init(struct parquet_rle *rle, const uint8_t *at, const uint8_t *end, uint32_t width);
void parquet_rle_init_bit_packed(struct parquet_rle *rle, const uint8_t *at, const uint8_t *end, uint32_t width);

/* Each gives how many values there were: fewer than `count` when the bytes end or make no sense. */
/* `out` takes PARQUET_SLACK more. */
uint32_t parquet_rle_read(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count,
			  uint32_t *out);
uint32_t parquet_rle_skip(struct parquet_rle *rle, uint32_t count);
/* Levels of width 1 as bits from bit 0 of `out`, which takes a word more; *ones is the number set. */
uint32_t parquet_rle_read_bits(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count,
			       uint64_t *out, uint32_t *ones);
/* Skips, counting the ones among levels of width 1. */
uint32_t parquet_rle_skip_ones(struct parquet_rle *rle, const struct parquet_kernels *kernels, uint32_t count,
			       uint32_t *ones);

/* Looking ahead, run by run; the cursor stays. False also where the bytes end or make no sense. */
/* Are the next `count` values all `value`? */
bool parquet_rle_is_all(struct parquet_rle rle, uint64_t count, uint32_t value);
/* Are they repetition levels of lists of `size` values each: a 0 and size − 1 times 1? */
bool parquet_rle_is_lists(struct parquet_rle rle, uint64_t count, uint64_t size);
/* How many values the first list among `count` repetition levels has; 0: they do not begin with a list. */
uint64_t parquet_rle_first_list(struct parquet_rle rle, uint64_t count);

#endif
