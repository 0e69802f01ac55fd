/* expr: expressions over columns: from text or built, typed against a schema, evaluated a vector at a time.
 *
 *     parse / build ─▶ struct weir_expr ─ bind(schema) ─▶ struct weir_program ─ evaluator_new (one a lane) ─▶ eval, filter
 *
 * An expr is an immutable tree without types, owned by its own arena, printable back to text that parses to the same
 * tree. A program is typed and constant-folded, immutable, shared by all lanes. An evaluator has a lane's scratch
 * memory.
 *
 * Text is Python's expression syntax: names (or col("any name")), 1_000, 0x1f, 1.5e3, 'text', "text", True/False/None
 * (true/false/null too), + - * / // % **, == != < <= > >= chained, and or not, in (…), not in, is None, is not None,
 * x if c else y, f(…), x.method(…), x[i], x[a:b], s["field"], s.field on structs. docs/expressions.md lists functions.
 */
#ifndef WEIR_EXPR_EXPR_H
#define WEIR_EXPR_EXPR_H

#include "base/text.h"
#include "vector/vector.h"

struct weir_expr;
struct weir_program;
struct weir_evaluator;

/* A value of any non-nested type, for literals, bounds and folding. Bytes are borrowed or belong to the holder's
 * arena. */
struct weir_scalar {
	const struct weir_type *type;
	bool is_null;
	union {
		bool boolean;
		int64_t integer;     /* ints, dates, times, timestamps, durations */
		uint64_t unsigned_;  /* UINT64 */
		double real;         /* HALF, FLOAT, DOUBLE */
		uint8_t decimal[32]; /* little endian two's complement */
		struct weir_view bytes;
	};
};

int weir_expr_parse(struct weir_account *account, const char *text, struct weir_expr **out, struct weir_error *err);
void weir_expr_free(struct weir_expr *expr);
int weir_expr_print(const struct weir_expr *expr, struct weir_text *out, struct weir_error *err);
int weir_expr_clone(const struct weir_expr *expr, struct weir_account *account, struct weir_expr **out,
		    struct weir_error *err);
/* Names of the columns it reads, each once. visit returns nonzero to stop. */
int weir_expr_columns(const struct weir_expr *expr, int (*visit)(void *context, const char *name), void *context);
/* Replaces column names by expressions (pushing through projections). `lookup` returns NULL to keep a name. */
int weir_expr_substitute(const struct weir_expr *expr, const struct weir_expr *(*lookup)(void *, const char *),
			 void *context, struct weir_account *account, struct weir_expr **out, struct weir_error *err);
/* Splits at top-level `and`. Calls visit with borrowed sub-expressions; clone what is kept. */
int weir_expr_conjuncts(const struct weir_expr *expr, int (*visit)(void *, const struct weir_expr *), void *context);
/* The name of an expression that is a column and nothing else; NULL of others. */
const char *weir_expr_column_name(const struct weir_expr *expr);
uint32_t weir_expr_depth(const struct weir_expr *expr); /* levels, at most WEIR_EXPR_DEPTH_MAX */

/* Builders (build.c), for the C API and Python: each consumes its operands (on failure too) and returns NULL with err
 * set. */
struct weir_expr *weir_expr_column(struct weir_account *account, const char *name, struct weir_error *err);
struct weir_expr *weir_expr_literal(struct weir_account *account, const struct weir_scalar *value,
				    struct weir_error *err);
struct weir_expr *weir_expr_call(struct weir_account *account, const char *function, struct weir_expr **arguments,
				 uint32_t count, struct weir_error *err);

/* Whether a value depends on the row's place: nothing may move past it that changes which rows come to it. */
bool weir_expr_is_volatile(const struct weir_expr *expr);

/* Types it against the schema's fields; column i of the program is column i of the vectors it will see. */
int weir_program_new(struct weir_account *account, const struct weir_expr *expr, const struct weir_schema *schema,
		     struct weir_program **out, struct weir_error *err);
void weir_program_free(struct weir_program *program);
const struct weir_type *weir_program_type(const struct weir_program *program);
/* Whether the first tree is a call of vector: its column is one of tensors. */
bool weir_program_is_vector(const struct weir_program *program);
/* Another expression over the same columns: `root` is its number for weir_evaluator_root. Parts that are the same as
 * ones of the expressions before are evaluated once. Before the first evaluator is made. */
int weir_program_extend(struct weir_program *program, const struct weir_expr *expr, uint32_t *root,
			struct weir_error *err);

int weir_evaluator_new(struct weir_account *account, const struct weir_program *program, struct weir_evaluator **out,
		       struct weir_error *err);
void weir_evaluator_free(struct weir_evaluator *evaluator);
/* The next rows are the first ones of a split: what random(), uuid() and row numbers depend on. `place` as in
 * weir_split_info. Without it rows count from 0 in split 0. */
void weir_evaluator_split(struct weir_evaluator *evaluator, uint64_t number, const char *place);
/* The value for the vector's selected rows; borrowed until the evaluator's next call. Decodes the columns it reads, as
 * late as it can. A bare column comes back as it is, in its form. */
int weir_evaluator_eval(struct weir_evaluator *evaluator, struct weir_vector *vector, struct weir_column *out,
			struct weir_error *err);
/* For programs of several roots: once a vector, then each root's value; all are borrowed until the next begin. */
void weir_evaluator_begin(struct weir_evaluator *evaluator, const struct weir_vector *vector);
int weir_evaluator_root(struct weir_evaluator *evaluator, struct weir_vector *vector, uint32_t root,
			struct weir_column *out, struct weir_error *err);
/* Narrows the vector's selection to the rows where the (boolean) program is true. Conjuncts one after the other, the
 * next evaluated only for rows that are left, in an order that adapts to what they cost and drop. The selection's rows
 * belong to the evaluator until its next call. */
int weir_evaluator_filter(struct weir_evaluator *evaluator, struct weir_vector *vector, struct weir_error *err);

/* What is known of a column over some range of rows (row group, page, file). */
struct weir_bounds {
	bool has_min, has_max, has_null_count;
	struct weir_scalar min, max;
	int64_t null_count, row_count;
};
/* False only when no row of the range can make the predicate true. `bounds[i]` is column i of the program. */
bool weir_program_may_match(const struct weir_program *predicate, const struct weir_bounds *bounds);
/* The values one of which column must equal for the predicate to be true (x == 5, x in (…), under and/or): count 0 when
 * nothing is known. For bloom filters and dictionaries. Borrowed from the program. */
int weir_program_equalities(const struct weir_program *predicate, uint32_t column, const struct weir_scalar **out,
			    uint32_t *count, struct weir_error *err);
/* Which columns the program reads: calls visit with each column number once. */
void weir_program_columns(const struct weir_program *program, void (*visit)(void *, uint32_t), void *context);

#endif
