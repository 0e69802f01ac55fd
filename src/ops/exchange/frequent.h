/* frequent: a sketch of which values come most often, in bytes that grow to a bound.
 *
 *     head │ entries: hash, count, value or where it is, size │ bytes of longer values │ index: u32 a place, 0 free, else entry + 1
 *
 * Every value is counted until there are 2 × capacity of them. Then the count of the one in the middle is taken from
 * all counts, which at least half of them do not survive. What was taken is told in `taken`: a value that is there came
 * at least as often as its count and at most as often as count + taken, one that is not there at most `taken` times;
 * taken is at most rows / capacity. With up to 2 × capacity different values nothing is taken, and counts are exact.
 *
 * Values are bytes; whoever wants NaN to be one value makes it so. Bytes may lie anywhere and be moved. Packed, a
 * sketch has no index and no free room; it gets them again when it is to count more.
 */
#ifndef WEIR_OPS_EXCHANGE_FREQUENT_H
#define WEIR_OPS_EXCHANGE_FREQUENT_H

#include "base/arena.h"

enum { WEIR_FREQUENT_NEW = 32 };

/* Bytes for a sketch without values; it is made there. */
void weir_frequent_new(uint8_t *sketch);
/* Leaves out what can be made again; the bytes of it that have a meaning then. */
uint32_t weir_frequent_pack(uint8_t *sketch);

/* Adds to the count of a value. Where there is no room, *wanted is the size of the memory in which the sketch is to be
 * made anew (weir_frequent_move) before this is asked again; 0: it is done. */
int weir_frequent_push(uint8_t *sketch, uint32_t capacity, const uint8_t *value, uint32_t size, uint64_t count,
		       uint32_t *wanted, struct weir_arena *arena, struct weir_error *err);
/* The sketch with more room, in memory of as many bytes as push has wanted for a value of that size. */
void weir_frequent_move(const uint8_t *sketch, uint8_t *to, uint32_t value_size);
/* What has been taken from the counts of another goes into those of this one. */
void weir_frequent_take_over(uint8_t *sketch, const uint8_t *other);

uint32_t weir_frequent_count(const uint8_t *sketch); /* of values */
/* One of them: its bytes, which are the sketch's, and how often it came, at most. */
const uint8_t *weir_frequent_value(const uint8_t *sketch, uint32_t i, uint32_t *size, uint64_t *count);
/* How often it came at least. */
uint64_t weir_frequent_least(const uint8_t *sketch, uint32_t i);

#endif
