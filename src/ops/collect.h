/* collect: hands rows to the program as batches, in input order; and batches: takes rows from the program. Both are
 * made by programs, not by words: their states are given to the node before bind. */
#ifndef WEIR_OPS_COLLECT_H
#define WEIR_OPS_COLLECT_H

#include "arrow/cdata.h"
#include "ops/node.h"

/* deliver is called with one batch at a time, in order, from whichever lane's turn it is; it may block (backpressure)
 * and takes the reference over, on failure too. */
struct weir_consumer {
	int (*deliver)(void *state, struct weir_batch *batch, struct weir_error *err);
	void *state;
	int64_t batch_rows;   /* at most this many rows a batch; 0: as they come, about 64 Ki */
	uint64_t batch_bytes; /* a lane gathers so much before it delivers or waits for its turn; 0: 8 MiB */
	/* What lanes that are not in turn may hold together. Batches are the session's, not a lane's, so it is kept out
	 * of the grants. */
	int64_t held_bytes;
};

/* On a node of the verb "collect". The consumer must outlive the run. */
void weir_collect_set(struct weir_node *node, const struct weir_consumer *consumer);

/* On a node of the verb "sample", "profile" or "aggregate": the result goes there when the run has ended, as one
 * batch. */
void weir_sample_set(struct weir_node *node, const struct weir_consumer *consumer);
void weir_profile_set(struct weir_node *node, const struct weir_consumer *consumer);
void weir_aggregate_set(struct weir_node *node, const struct weir_consumer *consumer);
/* The same for whichever of them the node is; false: it is none. */
bool weir_result_set(struct weir_node *node, const struct weir_consumer *consumer);

/* On a node of the verb "batches": takes the source over; its batches must have the schema (referenced). */
int weir_batches_set(struct weir_op_env *env, struct weir_node *node, const struct weir_schema *schema,
		     struct weir_batch_source source, struct weir_error *err);

#endif
