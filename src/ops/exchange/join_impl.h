/* What the running halves of a join share: the state, and the sides' rows in the store.
 *
 *     build side ─▶ [rows: as they come, while they are few] ─▶ few: image and tables        many: by partition
 *     probe side ─▶                                             few: through the tables      many: by partition
 *
 * Loose rows are those that lie as they came; partitions are by the upper bits of the keys' hash. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_IMPL_H
#define WEIR_OPS_EXCHANGE_JOIN_IMPL_H

#include "ops/exchange/join.h"
#include "ops/exchange/join_image.h"
#include "ops/exchange/join_table.h"

#include <pthread.h>

enum {
	WEIR_JOIN_LOOSE = UINT16_MAX,
	WEIR_JOIN_CRUMB_BYTES = 16 << 10, /* of a partition in a batch: less is not worth a chunk */
};

struct weir_join_chunk {
	struct weir_chunk *chunk;
	int64_t rows;
	uint16_t part; /* WEIR_JOIN_LOOSE: of none */
};

struct weir_join_state;

/* One side: what is kept of its rows, and where. */
struct weir_join_side {
	struct weir_join_state *state;
	const struct weir_schema *input; /* of its chain; the plan's */
	struct weir_schema *stored;
	uint32_t *from;              /* per stored column: that of the chain */
	struct weir_program **casts; /* NULL: as it is */
	struct weir_key *keys;
	struct weir_key_columns key_columns; /* of stored ones */
	uint32_t number;                     /* WEIR_JOIN_LEFT_SIDE or the other */
	bool is_build;
	bool keeps_all;                                                   /* rows without a partner are wanted */
	struct weir_join_chunks WEIR_LIST(struct weir_join_chunk) chunks; /* under the state's lock while they come */
	_Atomic int64_t loose_bytes;                                      /* relaxed: a figure to stay below */
	_Atomic uint64_t rows, bytes;                                     /* relaxed: figures for stats */
};

enum weir_join_gives { WEIR_JOIN_PAIRS, WEIR_JOIN_SEMI, WEIR_JOIN_ANTI };

/* A column of the result: stored columns of each side; WEIR_JOIN_NONE: not of that side. */
struct weir_join_output {
	uint32_t probe, build;
};

struct weir_join_state {
	_Atomic uint32_t refs;
	struct weir_account *account;
	struct weir_run_space space;
	uint32_t threads;
	uint32_t lanes; /* that put rows into the store */
	struct weir_schema *schema;
	struct weir_join_output *outputs; /* as many as the schema has columns */
	enum weir_join_gives gives;
	struct weir_join_side probe, build;
	uint32_t part_bits;
	int64_t batch_bytes; /* rows that a lane has before it puts them into the store */
	int64_t loose_max;   /* how much of the build side stays loose, to be held in memory as a whole; 0: nothing */
	int64_t held_max;    /* what that may take with its tables */
	int64_t piece_bytes; /* of a partition's build side, that a lane holds at a time */
	_Atomic bool is_partitioned; /* relaxed: the build side is too large; set while its rows come */
	bool is_broadcast;           /* written between phases */
	_Atomic uint64_t part_rows_max;
	_Atomic uint32_t depth; /* pieces of a partition's build side, at most */
	struct weir_join_image image;
	struct weir_join_table *tables; /* 2^table_bits */
	uint32_t table_bits;
	/* Instead, where that is possible: */
	struct weir_join_cell_layout layout;
	struct weir_join_cells *cells; /* 2^table_bits; NULL: tables */
	_Atomic bool lacks_cells;      /* relaxed: while they are made; one of them could not be */
	struct weir_join_part slots;   /* the least key and the span, where slots will do */
	pthread_mutex_t lock;          /* guards the sides' lists of chunks while they grow; rank: alone */
};

/* join_state.c. *probe: the side that is asked for row by row. */
int weir_join_state_new(struct weir_op_env *env, const struct weir_joining *joining, uint32_t *probe,
			struct weir_join_state **out, struct weir_error *err);
void weir_join_state_unref(void *state);
void weir_join_state_drop_cells(struct weir_join_state *state);

/* join_side.c: the sink that keeps a side's rows, and the source that gives those again that lie loose, for a sink that
 * `settles` them into partitions. Each has a reference to the state. */
extern const struct weir_sink_ops weir_join_sink_ops;
int weir_join_sink_new(struct weir_join_side *side, bool settles, void **out, struct weir_error *err);
extern const struct weir_source_ops weir_join_settle_ops[WEIR_JOIN_SIDES]; /* by the side's number */
int weir_join_settle_new(struct weir_join_side *side, void **out, struct weir_error *err);

/* join_gate.c: put in front of the probe side's source. */
struct weir_join_gate {
	struct weir_source_ops ops; /* the chain's own, but for those that are given the source */
	const struct weir_source_ops *inner_ops;
	void *inner;
	struct weir_join_state *state;
	bool is_begun;
};
int weir_join_gate_put(struct weir_fragment *fragment, struct weir_join_state *state, struct weir_join_gate **out,
		       struct weir_error *err);

/* A lane's way from a side's vectors to stored columns. */
struct weir_join_projection {
	const struct weir_join_side *side;
	struct weir_account *account;
	struct weir_evaluator **evaluators;
	struct weir_column *columns;
};
int weir_join_projection_init(struct weir_join_projection *projection, struct weir_account *account,
			      const struct weir_join_side *side, struct weir_error *err);
int weir_join_project(struct weir_join_projection *projection, struct weir_vector *vector, struct weir_error *err);
void weir_join_projection_release(struct weir_join_projection *projection);

/* join_probe.c: vectors of the probe side, of stored columns, against the tables of an image. */
struct weir_join_probe;
int weir_join_probe_new(struct weir_account *account, struct weir_join_state *state, struct weir_join_probe **out,
			struct weir_error *err);
void weir_join_probe_free(struct weir_join_probe *probe);

struct weir_join_against {
	const struct weir_join_image *image;
	const struct weir_join_table *tables;
	const struct weir_join_cells *cells; /* instead; NULL: tables */
	uint32_t table_bits;
	uint64_t *build_seen; /* bits by row number that get set for rows with a partner; NULL: not wanted */
	/* The build side in pieces: bits of the probe side's rows that had a partner in one, and whether this is the
	 * last. */
	uint64_t *probe_seen;
	bool is_last;
};
void weir_join_probe_set(struct weir_join_probe *probe, const struct weir_join_against *against);
/* The vector becomes one of the result. `first`: the number of its row 0 in probe_seen. */
int weir_join_probe_push(struct weir_join_probe *probe, struct weir_vector *vector, uint64_t first,
			 enum weir_progress *progress, struct weir_error *err);
int weir_join_probe_drain(struct weir_join_probe *probe, struct weir_vector *out, enum weir_progress *progress,
			  struct weir_error *err);
/* A vector of the build side's rows from number *row on that have no bit in build_seen; row_count 0 behind the last. */
int weir_join_probe_rest(struct weir_join_probe *probe, uint64_t *row, struct weir_vector *out, struct weir_error *err);

/* join_pairs.c: the partitions of both sides, in pairs. Once all rows are there, a side's chunks are put in their
 * order. */
void weir_join_side_sort(struct weir_join_side *side);
/* Adds the partition's. */
void weir_join_part_figures(const struct weir_join_side *side, uint32_t part, uint64_t *bytes, uint64_t *rows);

/* Of one lane; the probe is borrowed. */
struct weir_join_pairs;
int weir_join_pairs_new(struct weir_account *account, struct weir_join_state *state, struct weir_join_probe *probe,
			struct weir_join_pairs **out, struct weir_error *err);
void weir_join_pairs_free(struct weir_join_pairs *pairs);
/* The pairs from this one up to that one are next. */
void weir_join_pairs_begin(struct weir_join_pairs *pairs, uint32_t part, uint32_t part_end);
/* A vector of the result; row_count 0 behind the last. WEIR_HAVE_MORE: the probe is to be drained first. */
int weir_join_pairs_next(struct weir_join_pairs *pairs, struct weir_vector *out, enum weir_progress *progress,
			 struct weir_error *err);
void weir_join_pairs_close(struct weir_join_pairs *pairs);

#endif
