/* segment: where groups begin in rows that come sorted by their keys, vector by vector.
 *
 *     vector:   a a a │ b │ c c c c │ d d        starts: 3, 4, 8, and 0 unless the vector before ended in a
 */
#ifndef WEIR_OPS_EXCHANGE_SEGMENT_H
#define WEIR_OPS_EXCHANGE_SEGMENT_H

#include "ops/exchange/keys.h"

/* All-zero is empty. One lane's. */
struct weir_segmenter {
	struct weir_account *account;
	struct weir_key_columns columns; /* borrowed */
	struct weir_key_list keys;
	uint8_t *last; /* the key of the last row that was seen */
	uint32_t last_size, last_capacity;
	bool has_last;
	uint32_t count; /* of starts: numbers among the vector's selected rows, ascending */
	uint16_t starts[WEIR_VECTOR_ROWS];
};

void weir_segmenter_init(struct weir_segmenter *segmenter, struct weir_account *account,
			 const struct weir_key_columns *columns);
void weir_segmenter_reset(struct weir_segmenter *segmenter); /* the next row is the first */
/* Finds the starts in the vector's selected rows, whose key columns it decodes. */
int weir_segmenter_push(struct weir_segmenter *segmenter, struct weir_vector *vector, struct weir_error *err);
void weir_segmenter_release(struct weir_segmenter *segmenter);

/* The key columns of selected row `selected` for a message: "k = 5, name = x"; cut with … where it is long. */
void weir_segment_text(const struct weir_schema *schema, const struct weir_key_columns *columns,
		       const struct weir_vector *vector, uint32_t selected, char *text, size_t size);

#endif
