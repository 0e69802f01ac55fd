/* packed: one batch as bytes for whoever knows its schema. Rows that an exchange puts aside are many small batches of
 * one schema; as blocks (block.h) each would have it again, and of a table with hundreds of columns schema, message and
 * the room up to the next boundary of 64 bytes are more than the rows.
 *
 *     ┌──────┬───────┬──────────────────┬─────────────────────────────┐
 *     │ rows │ nodes │ a byte for each  │ buffers, on 8-byte          │      a node is an array or a child of one, parents first;
 *     │      │       │ node: has nulls  │ boundaries                  │      its byte: whether it has a validity bitmap
 *     └──────┴───────┴──────────────────┴─────────────────────────────┘
 *
 * Buffers are those of an Arrow record batch, in its order; how large they are follows from the rows and from the
 * offsets in front of them. Behind a dictionary's codes come how many values it has, and these.
 */
#ifndef WEIR_ARROW_PACKED_H
#define WEIR_ARROW_PACKED_H

#include "arrow/array.h"

/* Two steps, so that the rows are written once, straight into their place: measure, then write into `size` bytes. */
struct weir_packed_plan {
	uint64_t size; /* a multiple of 8 */
	uint64_t body; /* where buffers begin */
	uint32_t node_count;
};
void weir_packed_measure(const struct weir_batch *batch, struct weir_packed_plan *out);
void weir_packed_write(const struct weir_batch *batch, const struct weir_packed_plan *plan, uint8_t *out);

/* The same rows, with those values in columns' dictionaries that rows have; the batch itself where that gains nothing.
 * Dictionaries inside nested columns stay. */
int weir_batch_trim(struct weir_account *account, const struct weir_batch *batch, struct weir_batch **out,
		    struct weir_error *err);

/* The batch over the bytes (8-byte aligned), which outlive it. Its columns were of the schema's types. Nothing leads
 * outside the bytes; what is in the buffers is not looked at. */
int weir_packed_open(struct weir_account *account, const struct weir_schema *schema, const uint8_t *bytes,
		     uint64_t size, struct weir_batch **out, struct weir_error *err);

#endif
