/* snappy: the decoder of the codec that most Parquet files have (docs/decisions/0013). The encoder is the library's. */
#ifndef WEIR_IO_SNAPPY_H
#define WEIR_IO_SNAPPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size that the data says it has; false when it does not begin as Snappy data does. */
bool weir_snappy_size(const uint8_t *in, size_t size_in, uint64_t *out);
/* Exactly size_out bytes, or false. Never reads or writes outside. The front of `out` may be filled on failure. */
bool weir_snappy_inflate(const uint8_t *in, size_t size_in, uint8_t *out, size_t size_out);

#endif
