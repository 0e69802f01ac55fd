/* node: one logical operator of a plan, and the tables through which the plan sees it.
 *
 * Everything about an operator is in its own file: how its verb is parsed, how it is typed, printed and saved, what
 * rules may do with it, and how it becomes a source, a step or a sink. The plan walks nodes and calls these tables; the
 * only list of operators is in ops/ops.c.
 *
 * Nodes live in the plan's arena and are changed only while the plan is built and optimised, by one thread.
 */
#ifndef WEIR_OPS_NODE_H
#define WEIR_OPS_NODE_H

#include "base/arena.h"
#include "ops/op.h"

struct weir_op;
struct weir_plan;
struct weir_store;

struct weir_node {
	const struct weir_op *op;
	struct weir_node *inputs[2]; /* [1] only of operators with two inputs */
	void *config;                /* the operator's own, in the plan's arena */
	struct weir_schema *schema;  /* of its output, set by bind; the plan holds the reference */
	int64_t rows_est;            /* −1: unknown */
	int64_t bytes_est;
};

#define WEIR_SHARED_LIMITS 16

/* After a worker stage the schema is not known before rows come, so a chain of steps is built once for each schema that
 * arrives. This is what all those fragments share: the sink that commits, and how much of each limit is left. */
struct weir_shared {
	const struct weir_sink_ops *sink_ops; /* NULL: no sink has needed it */
	void *sink;
	_Atomic int64_t limits[WEIR_SHARED_LIMITS]; /* by their place in the chain */
	uint32_t limit_count, limits_met;           /* made so far; seen by the current build */
};
void weir_shared_release(struct weir_shared *shared); /* aborts a sink that was not committed */

/* Where exchanges keep rows between two phases of a run. */
struct weir_keeping {
	int (*store)(void *session, struct weir_store **out, struct weir_error *err); /* NULL: nothing can be kept */
	void *session;
	int64_t memory_limit;
	uint32_t threads;
};

/* What bind, rules and build need of the session and the plan. */
struct weir_op_env {
	struct weir_account *account;
	struct weir_arena *arena; /* the plan's */
	struct weir_io *io;
	const _Atomic bool *cancelled; /* checked where something waits (for a pipe); NULL: it never waits */
	/* Keeps a reference until the plan is freed: schemas, programs, expressions made on the way. */
	int (*keep)(struct weir_op_env *env, void *object, void (*release)(void *object), struct weir_error *err);
	void *plan;
	struct weir_shared *shared; /* NULL: the fragment is the only one of its chain */
	struct weir_keeping keeping;
};

/* A set of columns by number, and whether all are wanted. */
struct weir_columns {
	uint32_t count;
	bool *wanted;
};

/* What became of the columns of each input: which old columns are kept, and that old column i is now moved[i]. */
struct weir_narrowing {
	struct weir_columns kept[2];
	const uint32_t *moved[2];
};

/* Words of the verb's arguments: "filter", "price > 5" → count 1. Options (--name value) are split off already. */
struct weir_words {
	uint32_t count;
	const char *const *words;
	uint32_t option_count;
	const struct weir_setting *options;
};

struct weir_fragment; /* plan/plan.h: receives sources, steps and sinks */

/* Saved form: every number little endian, strings with lengths (ops/save.h gives the primitives). */
struct weir_save;
struct weir_load;

/* How the plan may reorder around an operator. A missing function means no. */
struct weir_op_rules {
	/* Which input columns are needed for the wanted output columns. */
	int (*needs)(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		     const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err);
	/* The inputs have dropped columns and moved the others, and of the operator's own columns only `kept` are
	 * wanted. It adapts itself and its schema, keeps the order, and leaves in `kept` the columns that it has now
	 * (never fewer than were wanted). */
	int (*narrow)(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		      struct weir_columns *kept, struct weir_error *err);
	/* Rewrites a predicate on the output into one on input `input`; *out NULL when it cannot pass. */
	int (*filter_below)(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
			    const struct weir_expr *predicate, struct weir_expr **out, struct weir_error *err);
	/* Takes a predicate into itself (a read, for pruning; the filter stays above). */
	int (*absorb_filter)(struct weir_op_env *env, struct weir_node *node, const struct weir_expr *predicate,
			     struct weir_error *err);
	/* Takes a row limit into itself (a read stops early; the limit stays above). */
	int (*absorb_limit)(struct weir_op_env *env, struct weir_node *node, int64_t rows, struct weir_error *err);
	/* With two inputs: a predicate that passes to one of them is dealt with. If not set, it has to pass to both. */
	bool filters_apart;
	bool one_to_one; /* output row i is made from input row i alone, so limits may pass */
};

struct weir_op {
	const char *verb;
	const char *usage;          /* "filter EXPRESSION" */
	const char *help;           /* a paragraph and examples, for weir help VERB */
	const char *const *options; /* "mode=" takes a value, "fsync" does not; NULL-terminated, or NULL */
	/* More lists of that form, from those that the verb passes options on to: the n-th, or NULL after the last one.
	 * NULL: none. */
	const char *const *(*options_more)(uint32_t n);
	uint32_t inputs_min, inputs_max;
	bool ends;      /* it is a sink: nothing comes after it */
	bool early;     /* a sink that begins without knowing what rows will come */
	bool stateless; /* a sink that keeps nothing, so there may be several of it */
	/* it uses something outside the engine (a function, batches of a program), so a run cannot start over */
	bool once;
	int (*parse)(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		     struct weir_error *err);
	/* Types it against its inputs' schemas; sets node->schema and estimates. */
	int (*bind)(struct weir_op_env *env, struct weir_node *node, struct weir_error *err);
	/* One line for explain: "filter price > 50000". */
	int (*describe)(const struct weir_node *node, struct weir_text *out, struct weir_error *err);
	int (*save)(const struct weir_node *node, struct weir_save *save, struct weir_error *err);
	int (*load)(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err);
	int (*build)(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		     struct weir_error *err);
	/* For operators with two inputs: the text of the second one, if it was written as a chain (NULL: it is nodes
	 * already). */
	const char *(*second_text)(const struct weir_node *node);
	/* The second input as nodes instead of text, for programs. */
	void (*second_set)(struct weir_node *node, struct weir_node *second);
	struct weir_op_rules rules;
};

/* What the plan's rules must know about particular operators. Nothing else may use these. */
const struct weir_expr *weir_filter_predicate(const struct weir_node *node); /* NULL: not a filter */
int weir_filter_new(struct weir_op_env *env, struct weir_node *input, struct weir_expr *predicate,
		    struct weir_node **out, struct weir_error *err); /* consumes the predicate */
int64_t weir_limit_rows(const struct weir_node *node);               /* −1: not a limit */
/* For runs that start over (api/job.c): whether the input of the node can be read again. True for nodes that are not
 * reads. */
bool weir_read_is_repeatable(const struct weir_node *node);
/* Appends "x as string, not int64" for each inferred type of a read that turned out too narrow. The next bind widens
 * them, once; after that nothing is appended. */
int weir_read_misfits_print(const struct weir_node *node, struct weir_text *out, struct weir_error *err);
/* The text of the second input; NULL: there is none, or it is nodes. */
static inline const char *weir_node_second_text(const struct weir_node *node)
{
	return node->op->second_text ? node->op->second_text(node) : NULL;
}

/* Builds a node's inputs, then the node. */
int weir_node_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		    struct weir_error *err);

const struct weir_op *weir_op_find(const char *verb); /* NULL: unknown */
bool weir_op_option_takes_value(const struct weir_op *op, const char *name);
const struct weir_op *const *weir_op_list(uint32_t *count);

#endif
