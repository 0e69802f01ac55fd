/* program: the typed tree, and what functions need to bind and to run.
 *
 * Binding turns each call into a node: the function's `bind` checks the types of the arguments, casts them to what its
 * kernels take, sets the node's type and how it is evaluated. There are two ways:
 *
 *   kernel  strict functions: null where an argument is null. weir_eval_strict evaluates the arguments, flattens them
 *           (the kernel sees FLAT or CONSTANT), joins their validity, allocates the result and calls the kernel once
 *           for the whole vector.
 *   eval    everything else (and, or, if_else, coalesce, is_null …) evaluates its arguments itself.
 *
 * Nodes whose arguments are all constant are folded while binding, unless that raises an error: it is then raised for
 * the rows that ask for it.
 */
#ifndef WEIR_EXPR_PROGRAM_H
#define WEIR_EXPR_PROGRAM_H

#include "expr/kernels.h"
#include "expr/scalar.h"
#include "expr/tree.h"

enum { WEIR_ARGUMENTS_MAX = 4 }; /* of strict functions */

enum weir_node_kind { WEIR_NODE_COLUMN, WEIR_NODE_CONSTANT, WEIR_NODE_CALL };

struct weir_node;
struct weir_eval;
struct weir_call;

typedef int weir_node_eval(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			   struct weir_error *err);
/* The rows of the selection for which the node is true, ascending, into `rows_out`. */
typedef int weir_node_filter(const struct weir_eval *eval, const struct weir_node *node, uint16_t *rows_out,
			     uint32_t *count, struct weir_error *err);
typedef int weir_node_kernel(struct weir_call *call, struct weir_error *err);

enum { WEIR_NO_COLUMN = -1, WEIR_MANY_COLUMNS = -2 };

struct weir_node {
	enum weir_node_kind kind;
	const struct weir_type *type; /* of its values: never DICTIONARY_TYPE */
	uint32_t number;              /* in the program: evaluators keep their state by it */
	uint32_t column;              /* COLUMN */
	struct weir_scalar value;     /* CONSTANT */
	_Alignas(16) uint8_t stored[WEIR_SCALAR_STORE_MAX];
	const void *values; /* CONSTANT: `stored`, or the bytes of a wide FIXED_BINARY */
	const struct weir_function *function;
	uint32_t count;
	struct weir_node **arguments;
	weir_node_eval *eval;
	weir_node_kernel *kernel;
	weir_node_filter *filter; /* or NULL */
	const void *data;         /* the function's own, in the program's arena */
	uint32_t op;              /* the function's own */
	int32_t only_column;
	bool may_fail;    /* an error may be raised for a row; includes the arguments' */
	bool needs_rows;  /* the kernel looks only at rows that are selected and not null */
	bool makes_nulls; /* the kernel may clear bits of call->validity */
	bool is_shared;   /* more than one node has it as an argument: its value is kept while a vector is worked on */
	bool is_volatile; /* depends on the row's place (functions_volatile.c); includes the arguments' */
	const char *text; /* for messages */
};

struct weir_resource {
	void (*release)(void *);
	void *it;
};

struct weir_equalities {
	uint32_t column, count;
	const struct weir_scalar *values;
};

/* A call that was bound, for those that are the same. */
struct weir_bound {
	uint64_t hash;
	const struct weir_expr *expr;
	struct weir_node *node;
	uint32_t next; /* 1 + its place in the list; 0: the last of its bucket */
};
enum { WEIR_BOUND_BUCKETS = 1024 };

struct weir_program {
	struct weir_account *account;
	struct weir_arena arena;
	struct weir_schema *schema;
	struct weir_program_types WEIR_LIST(const struct weir_type *) types;
	struct weir_program_resources WEIR_LIST(struct weir_resource) resources;
	struct weir_node *root;
	/* All roots, the first is `root`; what is the same in several of them is one node. */
	struct weir_program_roots WEIR_LIST(const struct weir_node *) roots;
	struct weir_program_bound WEIR_LIST(struct weir_bound) bound; /* while binding one tree after another */
	uint32_t buckets[WEIR_BOUND_BUCKETS];
	struct weir_program_trees WEIR_LIST(struct weir_expr *) trees; /* that `bound` points into */
	uint32_t node_count;
	const struct weir_type *type; /* the root's, or that of a bare column */
	struct weir_program_conjuncts WEIR_LIST(const struct weir_node *) conjuncts;
	struct weir_program_equalities WEIR_LIST(struct weir_equalities) equalities;
};

/* One entry a name. `bind` gets a node with its arguments bound. */
struct weir_function {
	const char *name;
	uint8_t count_min, count_max; /* 255: any number */
	int (*bind)(struct weir_program *program, struct weir_node *node, struct weir_error *err);
	uint32_t op; /* told apart by `bind` */
};
const struct weir_function *weir_function_find(const char *name);
/* The known name that is nearest, or NULL. */
const char *weir_function_nearest(const char *name);

/* The families; each ends with a name of NULL. */
extern const struct weir_function weir_functions_arith[], weir_functions_compare[], weir_functions_logic[],
	weir_functions_in[], weir_functions_math[], weir_functions_text[], weir_functions_regex[],
	weir_functions_time[], weir_functions_nested[], weir_functions_cast[], weir_functions_arrow[],
	weir_functions_letters[], weir_functions_search[], weir_functions_pieces[], weir_functions_lists[],
	weir_functions_cast_arrow[], weir_functions_volatile[], weir_functions_vectors[];

/* bind.c: for `bind` functions. */
/* Keeps a type (a new reference, taken over) as long as the program; NULL passes through. */
const struct weir_type *weir_program_keep(struct weir_program *program, const struct weir_type *type,
					  struct weir_error *err);
int weir_program_own(struct weir_program *program, void (*release)(void *), void *it, struct weir_error *err);
/* The argument becomes one of `type`: a constant is converted, anything else gets a cast node. Types of one layout and
 * meaning (string, large_string) pass. `checked`: values that change are errors; else ints become floats as in C. */
int weir_bind_cast(struct weir_program *program, struct weir_node **argument, const struct weir_type *type,
		   bool checked, struct weir_error *err);
/* Makes the node a constant: null of `type` when value is NULL. */
int weir_bind_constant(struct weir_program *program, struct weir_node *node, const struct weir_type *type,
		       const struct weir_scalar *value, struct weir_error *err);
struct weir_node *weir_bind_new(struct weir_program *program, struct weir_error *err);
/* A call made by a function for its own needs: binds, folds. `text` of the node it serves. */
struct weir_node *weir_bind_call(struct weir_program *program, const char *function, struct weir_node *const *arguments,
				 uint32_t count, const char *text, struct weir_error *err);
/* "price + flag: …", with the first column it reads. */
int weir_bind_fail(struct weir_program *program, const struct weir_node *node, struct weir_error *err, int code,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Strict: by kernel. */
static inline void weir_bind_kernel(struct weir_node *node, const struct weir_type *type, weir_node_kernel *kernel);
bool weir_node_is_constant(const struct weir_node *node);
bool weir_node_is_none(const struct weir_node *node); /* type NULL, or a null constant */
int weir_eval_strict(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		     struct weir_error *err);
static inline void weir_bind_kernel(struct weir_node *node, const struct weir_type *type, weir_node_kernel *kernel)
{
	node->type = type;
	node->eval = weir_eval_strict;
	node->kernel = kernel;
}

/* promote.c: the type in which two meet for arithmetic or comparison, as in Arrow; NULL with *err untouched when
 * none. */
const struct weir_type *weir_promote(struct weir_program *program, const struct weir_type *a, const struct weir_type *b,
				     struct weir_error *err);

/* prune.c: once, at the end of binding. */
int weir_program_list_equalities(struct weir_program *program, struct weir_error *err);

/* cast.c */
int weir_cast_bind(struct weir_program *program, struct weir_node *node, const struct weir_type *type, bool checked,
		   struct weir_error *err);

/* What a node is evaluated for. */
struct weir_eval {
	struct weir_evaluator *evaluator;
	struct weir_vector *vector;
	struct weir_selection selection;
	uint32_t row_count;
	const struct weir_column *instead; /* stands for the one column: a dictionary's values */
	struct weir_arena *arena;
};

struct weir_call {
	const struct weir_eval *eval;
	const struct weir_node *node;
	struct weir_column *arguments; /* FLAT or CONSTANT */
	struct weir_selection rows;    /* needs_rows: those not null */
	uint32_t row_count;
	const uint64_t *valid;     /* of all arguments; NULL: all present */
	void *values;              /* of the result, at row positions; bits are zero */
	uint64_t *validity;        /* with makes_nulls: to be cleared from */
	struct weir_array *nested; /* of a nested result: a new reference */
	struct weir_arena *arena;
	bool is_constant; /* one row stands for all */
};

static inline uint32_t weir_call_row(const struct weir_call *call, uint32_t k)
{
	return call->rows.rows ? call->rows.rows[k] : k;
}
static inline uint32_t weir_call_mask(const struct weir_call *call, uint32_t argument)
{
	return call->arguments[argument].form == WEIR_CONSTANT ? 0 : ~0u;
}
/* Of an argument whose values are strings. */
static inline const struct weir_view *weir_call_view(const struct weir_call *call, uint32_t argument, uint32_t row)
{
	return (const struct weir_view *)call->arguments[argument].values + (row & weir_call_mask(call, argument));
}
static inline void weir_bit_set(uint64_t *bits, uint32_t row)
{
	bits[row >> 6] |= (uint64_t)1 << (row & 63);
}
static inline void weir_bit_clear(uint64_t *bits, uint32_t row)
{
	bits[row >> 6] &= ~((uint64_t)1 << (row & 63));
}
static inline bool weir_bit_at(const uint64_t *bits, uint32_t row)
{
	return bits[row >> 6] >> (row & 63) & 1;
}

/* Not about the values: such an error is always passed on. */
static inline bool weir_code_is_memory(int code)
{
	return code == WEIR_E_MEMORY || code == WEIR_E_LIMIT || code == WEIR_E_GIVE_UP || code == WEIR_E_CANCELLED;
}

/* An error of one row: the expression, the source and the row. */
int weir_call_fail(const struct weir_call *call, uint32_t row, struct weir_error *err, int code, const char *format,
		   ...) __attribute__((format(printf, 5, 6)));

int weir_node_evaluate(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		       struct weir_error *err);
/* The same, and DICTIONARY becomes FLAT. */
int weir_node_evaluate_flat(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			    struct weir_error *err);
int weir_node_select(const struct weir_eval *eval, const struct weir_node *node, uint16_t *rows_out, uint32_t *count,
		     struct weir_error *err);
struct weir_column weir_column_null(const struct weir_type *type);
/* Keeps an array until the evaluator's next call; takes the reference over, also on failure. */
int weir_evaluator_hold(struct weir_evaluator *evaluator, struct weir_array *array, struct weir_error *err);

/* dictionary.c: a node that reads one column, when that is DICTIONARY: *done when it was worth it. */
struct weir_node_cache;
int weir_dictionary_evaluate(const struct weir_eval *eval, const struct weir_node *node,
			     const struct weir_column *column, struct weir_column *out, bool *done,
			     struct weir_error *err);
int weir_dictionary_select(const struct weir_eval *eval, const struct weir_node *node, const struct weir_column *column,
			   uint16_t *rows_out, uint32_t *count, bool *done, struct weir_error *err);
void weir_node_cache_free(struct weir_node_cache *cache);

struct weir_conjunct {
	const struct weir_node *node;
	uint32_t position; /* in the text: one that may fail never moves before those it followed */
	uint64_t ns, rows_in, rows_out;
};

/* The value of a shared node for all rows of the vector. */
struct weir_kept {
	uint64_t vector; /* its number; 0: none */
	struct weir_column column;
};

struct weir_evaluator {
	struct weir_account *account;
	const struct weir_program *program;
	struct weir_arena arena, block_arena;
	struct weir_evaluator_held WEIR_LIST(struct weir_array *) held;
	struct weir_node_cache **caches; /* by node number */
	struct weir_conjunct *conjuncts; /* in the order of evaluation */
	uint64_t vector_count;
	/* Where rows come from: the split, and the number in it of the vector's first row and of the next vector's. */
	uint64_t split_key, split_id, row_begin, row_next;
	struct weir_selection arrived; /* the vector's, before a filter narrows it */
	const uint64_t *numbers;       /* of the vector's rows, once somebody asked */
	uint64_t vector_number;        /* counts from 1 */
	struct weir_kept *kept;        /* by node number; NULL: nothing is shared */
	uint16_t rows[WEIR_VECTOR_ROWS];
};
/* evaluate.c: an evaluator for folding, without a program. */
void weir_evaluator_init(struct weir_evaluator *evaluator, struct weir_account *account);
void weir_evaluator_release(struct weir_evaluator *evaluator);

#endif
