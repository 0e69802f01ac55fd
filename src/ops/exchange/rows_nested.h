/* rows_nested: nested values as bytes and back.
 *
 *     value:  u8 1 │ FIXED: its bytes │ BITS: u8 │ BYTES: u32 size, bytes │ LIST, MAP: u32 count, items │ STRUCT: fields
 *     null:   u8 0
 *
 * Little endian, no padding: equal values are equal bytes. NaN is always the same one. Values of a dictionary are
 * written as what they stand for. */
#ifndef WEIR_OPS_EXCHANGE_ROWS_NESTED_H
#define WEIR_OPS_EXCHANGE_ROWS_NESTED_H

#include "arrow/array.h"

/* Of row `row`, which the array's offset is added to. */
uint64_t weir_nested_size(const struct weir_array *array, int64_t row);
uint8_t *weir_nested_write(const struct weir_array *array, int64_t row, uint8_t *to); /* returns the end */
/* Appends a value to the builder of its type and moves *bytes behind it. */
int weir_nested_read(const uint8_t **bytes, struct weir_builder *out, struct weir_error *err);

#endif
