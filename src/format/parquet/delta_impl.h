/* delta: integers as differences, in blocks of miniblocks, each packed with a width of its own (DELTA_BINARY_PACKED).
 *
 *     head:   │ varint values a block │ varint miniblocks a block │ varint values in all │ zigzag first value │
 *     block:  │ zigzag least difference │ a byte of width per miniblock │ miniblock │ miniblock │ …
 *
 * A cursor, as rle_impl.h is: read and skip move it on and say how many values there were. Arithmetic wraps.
 */
#ifndef WEIR_FORMAT_PARQUET_DELTA_IMPL_H
#define WEIR_FORMAT_PARQUET_DELTA_IMPL_H

#include "format/parquet/kernels_impl.h"

struct parquet_delta {
	const uint8_t *at, *end; /* the next miniblock, or the next block's head */
	uint64_t last, min_delta;
	uint32_t value_count, left; /* of the page; not yet given */
	bool is_first_pending;      /* `last` is the first value and was not given */
	uint32_t mini_count, mini_values;
	uint32_t mini;         /* the next one of the block; mini_count: the block is used up */
	const uint8_t *widths; /* of the block */
	const uint8_t *packed; /* the open miniblock */
	uint32_t packed_width, packed_left, packed_taken;
};

/* False when the head makes no sense. */
bool parquet_delta_init(struct parquet_delta *delta, const uint8_t *at, const uint8_t *end);
uint32_t parquet_delta_read(struct parquet_delta *delta, const struct parquet_kernels *kernels, uint32_t count,
			    uint64_t *out);
/* The byte after the last block, found by the blocks' heads alone; NULL when they make no sense. */
const uint8_t *parquet_delta_end(const struct parquet_delta *delta);

#endif
